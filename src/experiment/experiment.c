/* experiment.c - the figures and tables of the paper as data, and the grids that they mean.
 *
 * Everything happens on JSON: an item's grids are copied, what they name (lists, the paper's
 * selections, other items) is put in its place, and what comes out is a plain description as
 * train/grid.h reads it.  So a grid can be printed before it is run, and another item's grid can be
 * narrowed before it has become runs. */
#include "experiment/experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/embedded.h"
#include "core/json_file.h"
#include "core/names.h"
#include "core/options.h"
#include "core/text.h"

enum { MAX_DEPTH = 4 /* of items that name items */, NAMES_MAX = 128, NUMBER_TEXT = 32 };

typedef struct context {
    const ms_experiments *all;
    const json_t         *shared, *scale; /* scales.json, and its part */
    const char           *scale_name, *extent, *item;
} context;

static musec_status broken(ms_error *e, const char *item, const char *what, const char *name)
{
    return ms_fail(e, MUSEC_EFORMAT, "experiments/%s.json: %s \"%s\"", item, what, name);
}

/* ---- the files ------------------------------------------------------------------------------- */

static bool is_item(const char *name) { return strcmp(name, "scales") != 0; }

static int by_order(const void *a, const void *b)
{
    const ms_experiment *x = a, *y = b;
    const json_int_t     i = json_integer_value(json_object_get(x->file, "order"));
    const json_int_t     k = json_integer_value(json_object_get(y->file, "order"));
    return (i > k) - (i < k);
}

static musec_status read_file(ms_error *e, const ms_embedded_file *from, json_t *files)
{
    ms_json_problem    why;
    json_t            *file = NULL;
    const musec_status st =
        ms_json_parse((const char *)from->bytes, from->n, MS_JSON_ONCE, &why, &file);
    if (st == MUSEC_ENOMEM) return ms_no_memory(e, "the grids");
    if (!json_is_object(file)) {
        json_decref(file);
        return ms_fail(e, MUSEC_EFORMAT, "experiments/%s.json:%d: %s", from->name, why.line,
                       st != MUSEC_OK ? why.text : "no object");
    }
    return ms_json_put(e, files, from->name, file);
}

static musec_status read_item(ms_error *e, const char *name, const json_t *file, ms_experiment *out)
{
    out->name  = name;
    out->title = json_string_value(json_object_get(file, "title"));
    out->shows = json_string_value(json_object_get(file, "shows"));
    out->file  = file;
    if (out->title == NULL || out->shows == NULL ||
        !json_is_integer(json_object_get(file, "order")))
        return broken(e, name, "no order, title or shows of", name);
    if (!json_is_array(json_object_get(file, "grids")) ||
        !json_is_array(json_object_get(file, "sections")))
        return broken(e, name, "no grids or sections of", name);
    return MUSEC_OK;
}

musec_status ms_experiments_load(ms_error *e, ms_experiments *out)
{
    const char  *name;
    json_t      *file;
    size_t       n  = 0;
    musec_status st = MUSEC_OK;

    *out = (ms_experiments){ .files = json_object() };
    if (out->files == NULL) return ms_no_memory(e, "the grids");
    for (; ms_embedded_experiments[n].name != NULL; n++)
        TRY(read_file(e, &ms_embedded_experiments[n], out->files));
    out->at = calloc(n + 1, sizeof *out->at);
    if (out->at == NULL) TRY(ms_no_memory(e, "the grids"));
    json_object_foreach(out->files, name, file)
    {
        if (is_item(name)) TRY(read_item(e, name, file, &out->at[out->n++]));
    }
    qsort(out->at, out->n, sizeof *out->at, by_order);
done:
    if (st != MUSEC_OK) ms_experiments_free(out);
    return st;
}

void ms_experiments_free(ms_experiments *all)
{
    free(all->at);
    json_decref(all->files);
    *all = (ms_experiments){ 0 };
}

/* ---- names ----------------------------------------------------------------------------------- */

musec_status ms_experiment_find(ms_error *e, const ms_experiments *all, const char *name,
                                const ms_experiment **out)
{
    static const char long_form[] = "figure";
    char              short_form[64];
    const char       *names[NAMES_MAX], *near;
    size_t            n = 0;

    for (size_t i = 0; i < all->n; i++) {
        const json_t *aliases = json_object_get(all->at[i].file, "aliases");
        *out                  = &all->at[i];
        if (strcmp((*out)->name, name) == 0) return MUSEC_OK;
        if (n < NAMES_MAX) names[n++] = (*out)->name;
        for (size_t k = 0; k < json_array_size(aliases); k++) {
            const char *alias = json_string_value(json_array_get(aliases, k));
            if (strcmp(alias, name) == 0) return MUSEC_OK;
            if (n < NAMES_MAX) names[n++] = alias;
        }
    }
    *out = NULL;
    if (strncmp(name, long_form, strlen(long_form)) == 0) { /* "figure1" for fig1 */
        snprintf(short_form, sizeof short_form, "fig%s", name + strlen(long_form));
        near = ms_name_nearest(short_form, names, n);
    } else {
        near = ms_name_nearest(name, names, n);
    }
    return ms_fail(e, MUSEC_EINVAL,
                   "there is no item \"%s\"; %s%s%smusec paper list names them all", name,
                   near != NULL ? "did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?  " : "");
}

void ms_experiment_names(const ms_experiment *item, char *text, size_t bytes)
{
    const json_t *aliases = json_object_get(item->file, "aliases");
    const size_t  n       = json_array_size(aliases);

    snprintf(text, bytes, "%s", item->name);
    for (size_t i = 0; i < n; i++)
        ms_text_append(text, bytes, "%s%s%s", i == 0 ? " (" : ", ",
                       json_string_value(json_array_get(aliases, i)), i + 1 == n ? ")" : "");
}

musec_status ms_experiment_scale(ms_error *e, const ms_experiments *all, const char *name,
                                 const json_t **out)
{
    char        names[256] = "";
    const char *preset, *presets[NAMES_MAX];
    size_t      n = 0;

    *out = NULL;
    for (size_t i = 0; (preset = ms_preset_name(i, NULL)) != NULL; i++) {
        const json_t *scale = json_object_get(json_object_get(all->files, "scales"), preset);
        if (scale == NULL) continue; /* a preset without experiments */
        if (strcmp(preset, name) == 0) *out = scale;
        ms_text_append(names, sizeof names, "%s%s", n == 0 ? "" : ", ", preset);
        if (n < NAMES_MAX) presets[n++] = preset;
    }
    if (*out == NULL)
        return ms_fail(e, MUSEC_EINVAL, "there is no scale \"%s\"; there are %s%s", name, names,
                       ms_name_hint_of(name, presets, n).text);
    return MUSEC_OK;
}

const json_t *ms_experiment_selected(const ms_experiments *all, const char *scale,
                                     const char *optimizer)
{
    const json_t *tables =
        json_object_get(json_object_get(all->files, "hyperparameters"), "selected");
    const json_t *rows = json_object_get(json_object_get(tables, scale), optimizer);
    if (json_is_string(rows)) /* the name of an optimizer that has the same rows */
        rows = json_object_get(json_object_get(tables, scale), json_string_value(rows));
    return json_is_array(rows) ? rows : NULL;
}

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
    const json_t *list = json_object_get(json_object_get(c->scale, "lists"), name);
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
        return broken(e, c->item, "there is no list", text);
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

    if (table == NULL) TRY(broken(e, c->item, "the paper selected nothing for", optimizer));
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
        TRY(broken(e, c->item, "rows must be an array, \"selected\" or \"selected*threshold\", not",
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
    if (depth > MAX_DEPTH) return broken(e, item->name, "the items name each other", item->name);
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
static musec_status check_set(ms_error *e, const ms_experiment_ask *ask, const char *field,
                              const char *value)
{
    static const char *const staged[] = { "batch", "window_short", "window_long" };
    ms_train_config          cfg;
    ms_error                 why = { "" };
    musec_status             st  = ms_train_config_init(&why, &cfg, ask->scale, "soft-musec");

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

static musec_status apply_set(ms_error *e, const ms_experiment_ask *ask, json_t *description)
{
    char         field[MS_OPTION_NAME];
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < ask->n_set; i++) {
        const char *value = ms_option_pair(ask->set[i], field);
        if (value == NULL)
            return ms_fail(e, MUSEC_EINVAL, "--set wants FIELD=VALUE, not '%s'", ask->set[i]);
        TRY(check_set(e, ask, field, value));
        TRY(ms_grid_set(e, description, field, value));
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
    json_t      *settings = ms_json_copy(json_object_get(c->shared, "set")), *grids, *description;
    musec_status st;

    ms_json_update(&settings, json_object_get(c->scale, "set"));
    description = json_pack("{s:s, s:o, s:[]}", "preset", c->scale_name, "set", settings, "grids");
    TRY(ms_json_push(e, out, description));
    grids = json_object_get(description, "grids");
    TRY(add_grids(e, c, item, 0, grids));
    TRY(apply_seeds(e, ask, set, grids));
    if (set < ask->n_data &&
        ms_json_put(e, settings, "data", json_string(ask->data[set])) != MUSEC_OK)
        return ms_fail(e, MUSEC_EINVAL, "--data wants names in UTF-8, to go into config.json");
    TRY(apply_set(e, ask, description));
done:
    return st;
}

/* Makes an array of descriptions for ms_grid_add, one for each data set; the caller releases it. */
static musec_status describe(ms_error *e, const ms_experiments *all, const ms_experiment *item,
                             const ms_experiment_ask *ask, json_t **out)
{
    context      c = { .all        = all,
                       .shared     = json_object_get(all->files, "scales"),
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
