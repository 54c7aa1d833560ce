/* experiment_runs.c - the grids of an item, with what they name put in its place.
 *
 * Everything happens on JSON: an item's grids are copied, what they name (lists, the paper's
 * selections, other items) is put in its place, and what comes out is a plain description as
 * train/grid.h reads it.  So a grid can be printed before it is run, and another item's grid can be
 * narrowed before it has become runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/options.h"
#include "experiment/experiment.h"

enum { MAX_DEPTH = 4 /* of items that name items */, NUMBER_TEXT = 32 };

typedef struct context {
    const ms_experiments *all;
    const json_t         *shared, *scale; /* scales.json, and its part */
    const json_t         *lists;          /* those asked for in place of the file's */
    const char           *scale_name, *extent, *item;
} context;

/* ---- lists ----------------------------------------------------------------------------------- */

/* A new list; a single value becomes a list of one. */
static json_t *as_list(const json_t *value)
{
    if (json_is_array(value)) return ms_json_copy(value);
    return json_pack("[O]", value);
}

static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);
        return fabs(x - y) <= 1e-9 * fmax(fabs(x), fabs(y));
    }
    return json_equal(a, b) != 0;
}

static bool has_value(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (same_value(json_array_get(list, i), value)) return true;
    return false;
}

static const json_t *find_list(const context *c, const char *name)
{
    const json_t *list = json_object_get(c->lists, name);
    if (list != NULL) return list;
    list = json_object_get(json_object_get(c->scale, "lists"), name);
    return list != NULL ? list : json_object_get(json_object_get(c->shared, c->extent), name);
}

/* The product rounded to 12 digits, so that 0.1 * 0.05 is 0.005. */
static json_t *product(const json_t *a, const json_t *b)
{
    char text[NUMBER_TEXT];
    snprintf(text, sizeof text, "%.12g", json_number_value(a) * json_number_value(b));
    return json_real(strtod(text, NULL));
}

static json_t *products(const json_t *a, const json_t *b)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++) {
            json_t *value = product(json_array_get(a, i), json_array_get(b, k));
            if (value != NULL && has_value(out, value))
                json_decref(value);
            else
                ms_json_append(&out, value);
        }
    return out;
}

/* A new list: the one that "@lr" or "@lr*threshold" names, or the value itself as a list. */
static musec_status read_list(ms_error *e, const context *c, const json_t *value, json_t **out)
{
    const char   *text = json_string_value(value), *star;
    char          name[64];
    const json_t *first, *second = NULL;

    *out = NULL;
    if (text == NULL || text[0] != '@') {
        *out = as_list(value);
        return *out != NULL ? MUSEC_OK : ms_no_memory(e, "the grids");
    }
    star = strchr(text, '*');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 1, "*"), text + 1);
    first = find_list(c, name);
    if (star != NULL) second = find_list(c, star + 1);
    if (!json_is_array(first) || (star != NULL && !json_is_array(second)))
        return ms_experiment_broken(e, c->item, "there is no list", text);
    *out = star != NULL ? products(first, second) : ms_json_copy(first);
    return *out != NULL ? MUSEC_OK : ms_no_memory(e, "the grids");
}

/* ---- the paper's selections ------------------------------------------------------------------ */

/* A new row without the fields that the grid sets; by_threshold multiplies lr by the threshold. */
static json_t *adapt_row(const json_t *row, const json_t *grid, bool by_threshold)
{
    json_t     *out = ms_json_copy(row);
    const char *key;
    json_t     *value;

    if (by_threshold) {
        ms_json_set(&out, "lr",
                    product(json_object_get(row, "lr"), json_object_get(row, "threshold")));
        json_object_del(out, "threshold");
    }
    json_object_foreach((json_t *)grid, key, value)
    {
        if (strcmp(key, "lr") != 0) json_object_del(out, key);
    }
    return out;
}

/* Adds the grid with the rows of one optimizer. */
static musec_status add_selected(ms_error *e, const context *c, const json_t *grid,
                                 const char *optimizer, bool by_threshold, json_t *grids)
{
    const json_t *table =
        ms_experiment_selected(c->all, c->scale_name, by_threshold ? "soft-musec" : optimizer);
    json_t      *mine = ms_json_copy(grid), *rates = NULL, *rows = json_array();
    musec_status st = MUSEC_OK;

    if (table == NULL)
        TRY(ms_experiment_broken(e, c->item, "the paper selected nothing for", optimizer));
    json_object_del(mine, "rows");
    if (json_object_get(mine, "lr") != NULL)
        TRY(read_list(e, c, json_object_get(mine, "lr"), &rates));
    for (size_t i = 0; i < json_array_size(table); i++) {
        const json_t *row = json_array_get(table, i);
        if (rates == NULL || has_value(rates, json_object_get(row, "lr")))
            ms_json_append(&rows, adapt_row(row, mine, by_threshold));
    }
    json_object_del(mine, "lr");
    ms_json_set(&mine, "optimizer", json_string(optimizer));
    ms_json_set(&mine, "rows", json_incref(rows));
    st = ms_json_push(e, grids, json_incref(mine));
done:
    json_decref(rates);
    json_decref(rows);
    json_decref(mine);
    return st;
}

/* ---- grids ----------------------------------------------------------------------------------- */

/* Puts lists in the place of their names. */
static musec_status fill_lists(ms_error *e, const context *c, json_t *grid)
{
    const char  *key;
    json_t      *value, *list;
    void        *next;
    musec_status st = MUSEC_OK;

    json_object_foreach_safe(grid, next, key, value)
    {
        const char *text = json_string_value(value);
        if (text == NULL || text[0] != '@') continue;
        TRY(read_list(e, c, value, &list));
        TRY(ms_json_put(e, grid, key, list));
    }
done:
    return st;
}

static musec_status add_own(ms_error *e, const context *c, const json_t *from, json_t *grids)
{
    json_t      *grid       = ms_json_deep_copy(from);
    const char  *rows       = json_string_value(json_object_get(grid, "rows"));
    json_t      *optimizers = NULL;
    musec_status st         = grid == NULL ? ms_no_memory(e, "the grids") : MUSEC_OK;

    if (st != MUSEC_OK) return st;
    json_object_del(grid, "scales");
    json_object_del(grid, "extent");
    TRY(fill_lists(e, c, grid));
    if (rows == NULL) {
        st = ms_json_push(e, grids, json_incref(grid));
        goto done;
    }
    if (strcmp(rows, "selected") != 0 && strcmp(rows, "selected*threshold") != 0)
        TRY(ms_experiment_broken(
            e, c->item, "rows must be an array, \"selected\" or \"selected*threshold\", not",
            rows));
    optimizers = as_list(json_object_get(grid, "optimizer"));
    if (optimizers == NULL) TRY(ms_no_memory(e, "the grids"));
    for (size_t i = 0; i < json_array_size(optimizers); i++)
        TRY(add_selected(e, c, grid, json_string_value(json_array_get(optimizers, i)),
                         strcmp(rows, "selected") != 0, grids));
done:
    json_decref(optimizers);
    json_decref(grid);
    return st;
}

/* A new list of the values that are wanted. */
static json_t *common_values(const json_t *values, const json_t *wanted)
{
    json_t *out = json_array(), *list = as_list(values);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (has_value(wanted, json_array_get(list, i)))
            ms_json_append(&out, json_incref(json_array_get(list, i)));
    if (list == NULL) {
        json_decref(out);
        out = NULL;
    }
    json_decref(list);
    return out;
}

static json_t *common_rows(const json_t *rows, const char *field, const json_t *wanted)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *value = json_object_get(row, field);
        if (value == NULL || has_value(wanted, value)) ms_json_append(&out, json_incref(row));
    }
    return out;
}

/* Narrows a grid to the wanted values of a field; *left: something is left of it. */
static musec_status narrow(ms_error *e, json_t *grid, const char *field, const json_t *wanted,
                           bool *left)
{
    json_t      *value = json_object_get(grid, field), *rows = json_object_get(grid, "rows");
    musec_status st = MUSEC_OK;
    if (value != NULL) {
        value = common_values(value, wanted);
        *left = *left && json_array_size(value) > 0;
        TRY(ms_json_put(e, grid, field, value));
    }
    if (rows != NULL) {
        rows  = common_rows(rows, field, wanted);
        *left = *left && json_array_size(rows) > 0;
        TRY(ms_json_put(e, grid, "rows", rows));
    }
done:
    return st;
}

static musec_status add_grids(ms_error *e, const context *c, const ms_experiment *item, int depth,
                              json_t *grids);

static musec_status add_of_other(ms_error *e, const context *c, const json_t *from, int depth,
                                 json_t *grids)
{
    const char          *name = json_string_value(json_object_get(from, "runs_of")), *field;
    json_t              *only = json_object_get(from, "only"), *value, *wanted = NULL;
    json_t              *theirs = json_array();
    const ms_experiment *other;
    musec_status         st;

    TRY(ms_experiment_find(e, c->all, name, &other));
    TRY(add_grids(e, c, other, depth + 1, theirs));
    for (size_t i = 0; i < json_array_size(theirs); i++) {
        json_t *grid = json_array_get(theirs, i);
        bool    left = true;
        json_object_foreach(only, field, value)
        {
            TRY(read_list(e, c, value, &wanted));
            st = narrow(e, grid, field, wanted, &left);
            json_decref(wanted);
            if (st != MUSEC_OK) goto done;
        }
        if (left) TRY(ms_json_push(e, grids, json_incref(grid)));
    }
done:
    json_decref(theirs);
    return st;
}

static bool applies(const context *c, const json_t *grid)
{
    const json_t *scales = json_object_get(grid, "scales");
    const char   *extent = json_string_value(json_object_get(grid, "extent"));
    bool          here   = scales == NULL;
    for (size_t i = 0; i < json_array_size(scales); i++)
        if (strcmp(json_string_value(json_array_get(scales, i)), c->scale_name) == 0) here = true;
    return here && (extent == NULL || strcmp(extent, c->extent) == 0);
}

static musec_status add_grids(ms_error *e, const context *c, const ms_experiment *item, int depth,
                              json_t *grids)
{
    const json_t *list = json_object_get(item->file, "grids");
    context       mine = *c;
    musec_status  st   = MUSEC_OK;

    mine.item = item->name;
    if (depth > MAX_DEPTH)
        return ms_experiment_broken(e, item->name, "the items name each other", item->name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *grid = json_array_get(list, i);
        if (!applies(&mine, grid)) continue;
        if (json_object_get(grid, "runs_of") != NULL)
            TRY(add_of_other(e, &mine, grid, depth, grids));
        else
            TRY(add_own(e, &mine, grid, grids));
    }
done:
    return st;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static bool is_set(const ms_experiment_ask *ask, const char *field)
{
    char name[MS_OPTION_NAME];
    for (size_t i = 0; i < ask->n_set; i++)
        if (ms_option_pair(ask->set[i], name) != NULL && ms_train_field_same(name, field))
            return true;
    return false;
}

/* The flag that was given for a field in place of --set, or NULL. */
static const char *flag_of(const ms_experiment_ask *ask, const char *field)
{
    if (ask->n_data > 0 && ms_train_field_same(field, "data")) return "data";
    if (ask->n_seeds > 0 && ms_train_field_same(field, "seed")) return "seeds";
    return NULL;
}

/* Checks a field of --set: it exists, its value is valid, and no other flag or stage sets it. */
static musec_status check_set(ms_error *e, const ms_experiment_ask *ask, const char *preset,
                              const char *field, const char *value)
{
    static const char *const staged[] = { "batch", "window_short", "window_long" };
    ms_train_config          cfg;
    ms_error                 why = { "" };
    musec_status             st  = ms_train_config_init(&why, &cfg, preset, "soft-musec");

    if (st == MUSEC_OK) st = ms_train_config_set(&why, &cfg, field, value);
    if (st != MUSEC_OK) return ms_fail(e, st, "--set: %s", why.text);
    for (size_t i = 0; i < COUNT(staged) && !is_set(ask, "stages"); i++)
        if (ms_train_field_same(field, staged[i]))
            return ms_fail(e, MUSEC_EINVAL,
                           "--set: the stages say what %s is; give stages instead, or stages= "
                           "beside it",
                           field);
    if (flag_of(ask, field) != NULL)
        return ms_fail(e, MUSEC_EINVAL, "--set: --%s says what %s is; give one of the two",
                       flag_of(ask, field), field);
    return MUSEC_OK;
}

static musec_status apply_set(ms_error *e, const ms_experiment_ask *ask, const char *preset,
                              json_t *description)
{
    char         field[MS_OPTION_NAME];
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < ask->n_set; i++) {
        const char *value = ms_option_pair(ask->set[i], field);
        if (value == NULL)
            return ms_fail(e, MUSEC_EINVAL, "--set wants FIELD=VALUE, not '%s'", ask->set[i]);
        TRY(check_set(e, ask, preset, field, value));
        TRY(ms_grid_set(e, description, field, value));
    }
done:
    return st;
}

/* Does one of the grids name this field? */
static bool is_named(const json_t *grids, const char *field)
{
    for (size_t i = 0; i < json_array_size(grids); i++) {
        const json_t *grid = json_array_get(grids, i), *rows = json_object_get(grid, "rows");
        if (json_object_get(grid, field) != NULL) return true;
        for (size_t k = 0; k < json_array_size(rows); k++)
            if (json_object_get(json_array_get(rows, k), field) != NULL) return true;
    }
    return false;
}

/* Leaves of the grids the runs that are asked for. */
static musec_status apply_only(ms_error *e, const ms_experiment_ask *ask, const ms_experiment *item,
                               json_t *grids)
{
    const char  *field;
    json_t      *wanted;
    musec_status st = MUSEC_OK;

    json_object_foreach((json_t *)ask->only, field, wanted)
    {
        if (ask->only_differing && json_array_size(grids) > 0 && !is_named(grids, field))
            return ms_fail(e, MUSEC_EINVAL,
                           "--only: %s is the same in all runs of %s; --set changes it in all",
                           field, item->name);
    }
    for (size_t i = json_array_size(grids); i > 0; i--) {
        bool left = true;
        json_object_foreach((json_t *)ask->only, field, wanted)
        {
            if (left) TRY(narrow(e, json_array_get(grids, i - 1), field, wanted, &left));
        }
        if (!left) json_array_remove(grids, i - 1);
    }
done:
    return st;
}

/* The seeds 0, 1, ... of a set of data. */
static musec_status apply_seeds(ms_error *e, const ms_experiment_ask *ask, size_t set,
                                json_t *grids)
{
    const size_t   last  = ask->n_seeds > 0 ? ask->n_seeds - 1 : 0;
    const unsigned n     = ask->n_seeds > 0 ? ask->seeds[set < last ? set : last] : 1;
    json_t        *seeds = json_array();
    musec_status   st    = MUSEC_OK;

    for (unsigned i = 0; i < n; i++)
        ms_json_append(&seeds, json_integer((json_int_t)i));
    for (size_t i = 0; i < json_array_size(grids); i++)
        if (json_object_get(json_array_get(grids, i), "seed") == NULL)
            TRY(ms_json_put(e, json_array_get(grids, i), "seed", json_incref(seeds)));
done:
    json_decref(seeds);
    return st;
}

static musec_status describe_set(ms_error *e, const context *c, const ms_experiment *item,
                                 const ms_experiment_ask *ask, size_t set, json_t *out)
{
    const char  *preset   = ms_experiment_preset(c->scale, c->scale_name);
    json_t      *settings = ms_json_copy(json_object_get(c->shared, "set")), *grids, *description;
    musec_status st;

    ms_json_update(&settings, json_object_get(c->scale, "set"));
    description = json_pack("{s:s, s:o, s:[]}", "preset", preset, "set", settings, "grids");
    TRY(ms_json_push(e, out, description));
    grids = json_object_get(description, "grids");
    TRY(add_grids(e, c, item, 0, grids));
    TRY(apply_seeds(e, ask, set, grids));
    TRY(apply_only(e, ask, item, grids));
    if (set < ask->n_data &&
        ms_json_put(e, settings, "data", json_string(ask->data[set])) != MUSEC_OK)
        return ms_fail(e, MUSEC_EINVAL, "--data wants names in UTF-8, to go into config.json");
    TRY(apply_set(e, ask, preset, description));
done:
    return st;
}

/* Makes an array of descriptions for ms_grid_add, one for each data set; the caller releases it. */
static musec_status describe(ms_error *e, const ms_experiments *all, const ms_experiment *item,
                             const ms_experiment_ask *ask, json_t **out)
{
    context      c = { .all        = all,
                       .shared     = json_object_get(all->files, "scales"),
                       .lists      = ask->lists,
                       .scale_name = ask->scale,
                       .extent     = ask->full ? "full" : "reduced" };
    musec_status st;

    *out = json_array();
    TRY(ms_experiment_scale(e, all, ask->scale, &c.scale));
    for (size_t i = 0; i < (ask->n_data > 0 ? ask->n_data : 1); i++)
        TRY(describe_set(e, &c, item, ask, i, *out));
done:
    if (st != MUSEC_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}

musec_status ms_experiment_runs(ms_error *e, const ms_experiments *all, const ms_experiment *item,
                                const ms_experiment_ask *ask, ms_grid *grid)
{
    char         what[128];
    json_t      *descriptions = NULL;
    musec_status st;

    snprintf(what, sizeof what, "experiments/%s.json", item->name);
    TRY(describe(e, all, item, ask, &descriptions));
    for (size_t i = 0; i < json_array_size(descriptions); i++)
        if (json_array_size(json_object_get(json_array_get(descriptions, i), "grids")) > 0)
            TRY(ms_grid_add(e, what, json_array_get(descriptions, i), grid));
done:
    json_decref(descriptions);
    return st;
}
