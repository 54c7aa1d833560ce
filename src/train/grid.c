/* grid.c - expands a description into runs.
 *
 * Every list of values is an axis, and the rows together are one more.  An odometer walks through
 * the combinations.  For each, the settings of "set", of the lists and of the row are merged, and
 * the merged settings make a config as flags would.  The number of combinations is checked before
 * memory is allocated for them. */
#include "train/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/json_file.h"
#include "core/names.h"
#include "core/size.h"
#include "optim/optim.h"
#include "train/schedule.h"

enum { MAX_AXES = 256, NAME_DIGITS = 12 };

static const char rows_key[] = "rows";

/* ---- keys ------------------------------------------------------------------------------------ */

/* The key by which an object of a description has a field, or NULL. */
static const char *find_field(const json_t *object, const char *field)
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (ms_train_field_same(key, field)) return key;
    }
    return NULL;
}

static void delete_field(json_t *object, const char *field)
{
    for (const char *key; (key = find_field(object, field)) != NULL;)
        (void)json_object_del(object, key);
}

/* Some defaults were numbers before 0 came to mean "automatic": the key has the number still. */
static void replace_zero(json_t **json, const char *field, const char *was)
{
    const char *text = json_string_value(json_object_get(*json, field));
    if (text != NULL && strcmp(text, "0") == 0) ms_json_set(json, field, json_string(was));
}

static const char *text_in(const json_t *json, const char *field) /* "": it has no such field */
{
    const char *key = find_field(json, field);
    return key == NULL ? "" : json_string_value(json_object_get(json, key));
}

/* Does a field have its default, that of the optimizer where it has no other? */
static bool has_default(const ms_train_config *cfg, const ms_train_field *f, const char *text)
{
    musec_optim_config own;
    char               initial[64] = "";
    if (f->initial != NULL) return strcmp(text, f->initial) == 0;
    (void)musec_optim_config_init(&own, sizeof own, cfg->optim.name);
    (void)ms_optim_config_get(&own, f->name, initial, sizeof initial);
    return strcmp(text, initial) == 0;
}

/* The fields of a config that make up its key, as text; NULL without memory. */
static json_t *keyed(const ms_train_config *cfg)
{
    json_t        *json = ms_train_config_texts(cfg);
    ms_train_field f;
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if ((f.flags & MS_FIELD_NOT_KEYED) != 0 ||
            ((f.flags & MS_FIELD_KEYED_IF_SET) != 0 && has_default(cfg, &f, text_in(json, f.name))))
            delete_field(json, f.name);
    replace_zero(&json, "workspace", "1073741824");
    if (cfg->optim.ns_mode != MUSEC_NS_ACCURATE) replace_zero(&json, "ns_tol", "0.001");
    if (cfg->optim.shape_rule == MUSEC_SHAPE_FIXED_RMS) /* the name that it had before */
        ms_json_set(&json, "shape_rule", json_string("normuon"));
    return json;
}

/* The key of a config; `effective`: without the options that its optimizer ignores. */
static musec_status key_of(ms_error *e, const ms_train_config *cfg, bool effective,
                           char key[MS_SHA256_HEX])
{
    json_t        *json = keyed(cfg);
    char          *text = NULL;
    ms_train_field f;
    ms_sha256      sha;
    musec_status   st = MUSEC_OK;

    for (size_t i = 0; effective && ms_train_field_at(i, &f); i++)
        if (!ms_optim_reads(&cfg->optim, f.name)) delete_field(json, f.name);
    text = ms_json_key(json);
    if (text == NULL) TRY(ms_no_memory(e, "the key of a run"));
    ms_sha256_init(&sha);
    ms_sha256_add(&sha, text, strlen(text));
    ms_sha256_end(&sha, key);
done:
    free(text);
    json_decref(json);
    return st;
}

musec_status ms_grid_key(ms_error *e, const ms_train_config *cfg, char key[MS_SHA256_HEX])
{
    return key_of(e, cfg, false, key);
}

musec_status ms_grid_differs(ms_error *e, const ms_train_config *a, const ms_train_config *b,
                             const char **field)
{
    json_t        *in_a = keyed(a), *in_b = keyed(b);
    const char    *found = NULL;
    ms_train_field f;
    musec_status   st = MUSEC_OK;

    if (in_a == NULL || in_b == NULL) TRY(ms_no_memory(e, "the comparison of two configs"));
    if (a->preset != b->preset)
        found = "preset";
    else if (strcmp(a->optim.name, b->optim.name) != 0)
        found = "optimizer";
    for (size_t i = 0; found == NULL && ms_train_field_at(i, &f); i++)
        if (strcmp(text_in(in_a, f.name), text_in(in_b, f.name)) != 0) found = f.name;
    *field = found;
done:
    json_decref(in_a);
    json_decref(in_b);
    return st;
}

static musec_status name_run(ms_error *e, ms_grid_run *run)
{
    char      lr[64];
    const int n =
        snprintf(run->name, sizeof run->name, "%s-%s-lr%s-s%llu-%.*s",
                 ms_preset_name((size_t)run->config.preset, NULL), run->config.optim.name,
                 ms_train_config_get(&run->config, "lr", lr, sizeof lr) == MUSEC_OK ? lr : "",
                 (unsigned long long)run->config.seed, NAME_DIGITS, run->key);
    if (n < 0 || (size_t)n >= sizeof run->name)
        return ms_fail(e, MUSEC_EINVAL, "the name of a run is longer than %zu bytes",
                       sizeof run->name - 1);
    return MUSEC_OK;
}

/* ---- the runs, found by key ------------------------------------------------------------------ */

static musec_status append_run(ms_error *e, ms_grid *grid, const ms_grid_run *run)
{
    ms_grid_run *at = ms_grow(grid->at, grid->n, &grid->capacity, sizeof *at);

    if (at != NULL) grid->at = at;
    if (grid->index == NULL) grid->index = json_object();
    if (at == NULL || ms_json_put(e, grid->index, run->effective_key,
                                  json_integer((json_int_t)grid->n)) != MUSEC_OK)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu runs", grid->n + 1);
    grid->at[grid->n++] = *run;
    return MUSEC_OK;
}

static ms_grid_duplicates *duplicates_of(ms_grid *grid, const char *optimizer)
{
    size_t i = 0;
    while (i < grid->n_duplicates && strcmp(grid->duplicates[i].optimizer, optimizer) != 0)
        i++;
    if (i == MS_GRID_DUPLICATES) return NULL;
    if (i == grid->n_duplicates)
        grid->duplicates[grid->n_duplicates++] = (ms_grid_duplicates){ optimizer, "", 0, 0 };
    return &grid->duplicates[i];
}

/* Appends a name to the list "a, b", unless it is in the list. */
static void add_name(char *list, size_t bytes, const char *name)
{
    const size_t n = strlen(list), length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && strchr(",", at[length]) != NULL) return;
    snprintf(list + n, bytes - n, "%s%s", n > 0 ? ", " : "", name);
}

/* Counts a combination that differs from `run` only in options that its optimizer ignores. */
static void count_duplicate(ms_grid *grid, ms_grid_run *run, const ms_train_config *cfg)
{
    ms_grid_duplicates *d = duplicates_of(grid, run->config.optim.name);
    ms_train_field      f;
    char                a[MS_TEXT_MAX], b[MS_TEXT_MAX];

    if (d == NULL) return;
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if (!ms_optim_reads(&cfg->optim, f.name) &&
            ms_train_config_get(&run->config, f.name, a, sizeof a) == MUSEC_OK &&
            ms_train_config_get(cfg, f.name, b, sizeof b) == MUSEC_OK && strcmp(a, b) != 0)
            add_name(d->fields, sizeof d->fields, f.name);
    d->made += run->duplicates == 0;
    d->asked += run->duplicates == 0 ? 2 : 1;
    run->duplicates++;
}

static musec_status add_run(ms_error *e, ms_grid *grid, const ms_train_config *cfg)
{
    ms_grid_run   run = { .config = *cfg };
    const json_t *index;
    musec_status  st;

    TRY(key_of(e, cfg, false, run.key));
    TRY(key_of(e, cfg, true, run.effective_key));
    index = json_object_get(grid->index, run.effective_key);
    if (index != NULL) {
        ms_grid_run *same = &grid->at[json_integer_value(index)];
        if (strcmp(same->key, run.key) != 0) count_duplicate(grid, same, cfg);
        goto done;
    }
    TRY(name_run(e, &run));
    TRY(append_run(e, grid, &run));
done:
    return st;
}

void ms_grid_describe_duplicates(const ms_grid_duplicates *d, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s %s no effect on %s: %zu run%s instead of %zu", d->fields,
             strchr(d->fields, ',') != NULL ? "have" : "has", d->optimizer, d->made,
             d->made == 1 ? "" : "s", d->asked);
}

void ms_grid_free(ms_grid *grid)
{
    free(grid->at);
    json_decref(grid->index);
    *grid = (ms_grid){ 0 };
}

/* ---- one combination ------------------------------------------------------------------------- */

typedef struct grid_axis {
    const char   *key;    /* rows_key: the axis of the rows */
    const json_t *values; /* a list, or one value */
    size_t        n, at;
} grid_axis;

typedef struct grid_cursor { /* a place among the combinations of one grid */
    const json_t *description, *set;
    grid_axis     axes[MAX_AXES];
    size_t        n_axes;
    json_t       *settings; /* of the current combination */
} grid_cursor;

/* Merges the settings of the current combination; later ones replace earlier ones. */
static musec_status merge_settings(ms_error *e, grid_cursor *c)
{
    json_t *preset = json_object_get(c->description, "preset");
    json_t *all    = json_object();

    if (preset != NULL) ms_json_set(&all, "preset", json_incref(preset));
    ms_json_update(&all, c->set);
    for (size_t i = 0; i < c->n_axes; i++) {
        const char *key   = c->axes[i].key;
        json_t     *value = (json_t *)c->axes[i].values;
        if (json_is_array(value)) value = json_array_get(value, c->axes[i].at);
        if (strcmp(key, rows_key) == 0)
            ms_json_update(&all, value);
        else
            ms_json_set(&all, key, json_incref(value));
    }
    json_decref(c->settings);
    c->settings = all;
    return all != NULL ? MUSEC_OK : ms_no_memory(e, "a grid");
}

static bool is_given(const void *settings, const char *key)
{
    return find_field(settings, key) != NULL;
}

/* Replaces *name by the text that the settings have for it, if they have one. */
static musec_status read_name(ms_error *e, const json_t *settings, const char *key,
                              const char **name)
{
    const json_t *value = json_object_get(settings, key);
    if (value == NULL) return MUSEC_OK;
    *name = json_string_value(value);
    return *name != NULL ? MUSEC_OK : ms_fail(e, MUSEC_EFORMAT, "%s must be a text", key);
}

static musec_status make_config(ms_error *e, json_t *settings, ms_train_config *cfg)
{
    const char  *preset = "pico", *optimizer = "soft-musec", *key;
    char         notes[MS_CONFIG_NOTES];
    json_t      *value;
    ms_schedule  schedule;
    musec_status st;

    TRY(read_name(e, settings, "preset", &preset));
    TRY(read_name(e, settings, "optimizer", &optimizer));
    TRY(ms_train_config_init(e, cfg, preset, optimizer));
    json_object_foreach(settings, key, value)
    {
        if (strcmp(key, "preset") != 0 && strcmp(key, "optimizer") != 0)
            TRY(ms_train_config_set_json(e, cfg, key, value));
    }
    ms_train_config_resolve(cfg, is_given, settings, notes);
    TRY(ms_train_config_check(e, cfg));
    TRY(ms_schedule_make(e, cfg, &schedule)); /* checks the stages */
done:
    return st;
}

/* ---- the shape of a description -------------------------------------------------------------- */

/* Checks for a misspelt "preset", "optimizer" or "rows", which no table of fields knows. */
static musec_status check_key(ms_error *e, const char *key)
{
    static const char *const more[] = { "preset", "optimizer", rows_key };
    const char              *near   = ms_name_nearest(key, more, COUNT(more));
    ms_train_field           f;

    if (near == NULL || strcmp(near, key) == 0) return MUSEC_OK;
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if (ms_train_field_same(f.name, key)) return MUSEC_OK;
    return ms_fail(e, MUSEC_EINVAL, "there is no field \"%s\"; did you mean \"%s\"?", key, near);
}

static bool is_axis(const grid_cursor *c, const char *key)
{
    for (size_t i = 0; i < c->n_axes; i++)
        if (ms_train_field_same(c->axes[i].key, key)) return true;
    return false;
}

/* Checks an object of fields with one value each, none of which is an axis already. */
static musec_status check_fields(ms_error *e, const grid_cursor *c, const json_t *object,
                                 const char *name)
{
    const char  *key;
    json_t      *value;
    musec_status st = MUSEC_OK;

    if (!json_is_object(object))
        return ms_fail(e, MUSEC_EFORMAT, "%s must be an object of fields and values", name);
    json_object_foreach((json_t *)object, key, value)
    {
        TRY(check_key(e, key));
        if (is_axis(c, key))
            return ms_fail(e, MUSEC_EINVAL, "%s is both in a row and a list of its own", key);
    }
done:
    return st;
}

static musec_status add_axis(ms_error *e, grid_cursor *c, const char *key, const json_t *values)
{
    const size_t n = json_is_array(values) ? json_array_size(values) : 1;
    musec_status st;

    TRY(check_key(e, key));
    if (n == 0) return ms_fail(e, MUSEC_EINVAL, "%s is an empty list", key);
    if (c->n_axes == MAX_AXES)
        return ms_fail(e, MUSEC_EINVAL, "more than %d fields that vary", MAX_AXES);
    if (is_axis(c, key)) return ms_fail(e, MUSEC_EINVAL, "%s is given twice", key);
    c->axes[c->n_axes++] = (grid_axis){ .key = key, .values = values, .n = n };
done:
    return st;
}

static musec_status check_rows(ms_error *e, const grid_cursor *c, const json_t *rows)
{
    char         name[32];
    musec_status st = MUSEC_OK;

    if (rows == NULL) return MUSEC_OK;
    if (!json_is_array(rows)) return ms_fail(e, MUSEC_EFORMAT, "rows must be a list of objects");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        snprintf(name, sizeof name, "row %zu", i + 1);
        TRY(check_fields(e, c, json_array_get(rows, i), name));
    }
done:
    return st;
}

/* Checks the number of combinations before memory is allocated for them. */
static musec_status check_count(ms_error *e, const grid_cursor *c, size_t there)
{
    size_t n = 1;
    for (size_t i = 0; i < c->n_axes; i++)
        if (!ms_size_mul(n, c->axes[i].n, &n) || n > MS_GRID_MAX || there + n > MS_GRID_MAX)
            return ms_fail(e, MUSEC_EINVAL,
                           "more than %d runs; shorten the lists, or make several sweeps",
                           MS_GRID_MAX);
    return MUSEC_OK;
}

/* Goes to the next combination, the last axis fastest; false after the last one. */
static bool advance(grid_cursor *c)
{
    for (size_t i = c->n_axes; i-- > 0;) {
        if (++c->axes[i].at < c->axes[i].n) return true;
        c->axes[i].at = 0;
    }
    return false;
}

static musec_status add_grid(ms_error *e, grid_cursor *c, const json_t *object, ms_grid *grid)
{
    ms_train_config cfg;
    const char     *key;
    json_t         *values;
    musec_status    st;

    if (!json_is_object(object))
        return ms_fail(e, MUSEC_EFORMAT, "it must be an object of fields and lists");
    json_object_foreach((json_t *)object, key, values) { TRY(add_axis(e, c, key, values)); }
    TRY(check_rows(e, c, json_object_get(object, rows_key)));
    TRY(check_count(e, c, grid->n));
    do {
        TRY(merge_settings(e, c));
        TRY(make_config(e, c->settings, &cfg));
        TRY(add_run(e, grid, &cfg));
    } while (advance(c));
done:
    return st;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

void ms_grid_remove_field(json_t *description, const char *field)
{
    json_t *grid, *row;
    size_t  i, k;

    if (strcmp(field, "preset") == 0) (void)json_object_del(description, field);
    delete_field(json_object_get(description, "set"), field);
    json_array_foreach(json_object_get(description, "grids"), i, grid)
    {
        json_array_foreach(json_object_get(grid, rows_key), k, row) { delete_field(row, field); }
        delete_field(grid, field);
    }
}

musec_status ms_grid_set(ms_error *e, json_t *description, const char *field, const char *value)
{
    json_t      *set = json_object_get(description, "set");
    musec_status st  = MUSEC_OK;

    if (!ms_text_is_utf8(value)) return ms_fail(e, MUSEC_EINVAL, "%s must be in UTF-8", field);
    ms_grid_remove_field(description, field);
    if (set == NULL) {
        set = json_object();
        TRY(ms_json_put(e, description, "set", set));
    }
    if (json_is_object(set)) TRY(ms_json_put(e, set, field, json_string(value)));
done:
    return st;
}

static musec_status check_description(ms_error *e, const json_t *description)
{
    static const char *const known[] = { "preset", "set", "grids" };
    const grid_cursor        none    = { 0 };
    const char              *key;
    json_t                  *value, *set = json_object_get(description, "set");

    if (!json_is_object(description))
        return ms_fail(e, MUSEC_EFORMAT, "it must be an object with \"grids\"");
    json_object_foreach((json_t *)description, key, value)
    {
        bool there = false;
        for (size_t i = 0; i < COUNT(known); i++)
            if (strcmp(known[i], key) == 0) there = true;
        if (!there)
            return ms_fail(e, MUSEC_EINVAL, "\"%s\" is none of \"preset\", \"set\", \"grids\"%s",
                           key, ms_name_hint_of(key, known, COUNT(known)).text);
    }
    value = json_object_get(description, "grids");
    if (!json_is_array(value) || json_array_size(value) == 0)
        return ms_fail(e, MUSEC_EFORMAT, "\"grids\" must be a list of one grid or more");
    return set == NULL ? MUSEC_OK : check_fields(e, &none, set, "\"set\"");
}

musec_status ms_grid_add(ms_error *e, const char *what, const json_t *description, ms_grid *grid)
{
    ms_error      why       = { "" };
    const json_t *grids     = json_object_get(description, "grids");
    grid_cursor  *c         = calloc(1, sizeof *c);
    char          place[32] = "";
    musec_status  st;

    if (c == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a grid");
    st = check_description(&why, description);
    for (size_t i = 0; st == MUSEC_OK && i < json_array_size(grids); i++) {
        *c =
            (grid_cursor){ .description = description, .set = json_object_get(description, "set") };
        st = add_grid(&why, c, json_array_get(grids, i), grid);
        json_decref(c->settings);
        snprintf(place, sizeof place, "grid %zu: ", i + 1);
    }
    if (st != MUSEC_OK && what == NULL) ms_error_set(e, "%s", why.text);
    if (st != MUSEC_OK && what != NULL) ms_error_set(e, "%s: %s%s", what, place, why.text);
    free(c);
    return st;
}
