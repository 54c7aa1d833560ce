/* grid.c - many runs from one description.
 *
 * A grid is a few axes: every list of values is one, all its rows are one.  An odometer goes
 * through the combinations; for each, what "set", the lists and the row say is put into one list of
 * settings, which then makes a config as flags would.  The number of combinations is known, and
 * judged, before there is any memory for them. */
#include "train/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/size.h"
#include "optim/optim.h"
#include "train/schedule.h"

enum { MAX_AXES = 128, MAX_SETTINGS = 256, NAME_DIGITS = 12, FIRST_SLOTS = 64 };

static const char rows_key[] = "rows";

/* ---- keys ------------------------------------------------------------------------------------ */

static void delete_field(json_t *object, const char *field)
{
    const char *key;
    json_t     *value;
    void       *next;
    json_object_foreach_safe(object, next, key, value)
    {
        if (ms_train_field_same(key, field)) (void)json_object_del(object, key);
    }
}

/* Fields whose default was a number before 0 came to mean "automatic" keep the keys of then. */
static void name_zero(json_t *json, const char *field, const char *was)
{
    const char *text = json_string_value(json_object_get(json, field));
    if (text != NULL && strcmp(text, "0") == 0)
        (void)json_object_set_new(json, field, json_string(was));
}

static const char *text_in(const json_t *json, const char *field) /* "": it has no such field */
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)json, key, value)
    {
        if (ms_train_field_same(key, field)) return json_string_value(value);
    }
    return "";
}

/* The fields of a config that make up its key, as text. */
static json_t *keyed(const ms_train_config *cfg)
{
    json_t        *json = ms_train_config_texts(cfg);
    ms_train_field f;
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if ((f.flags & MS_FIELD_NOT_KEYED) != 0 || ((f.flags & MS_FIELD_KEYED_IF_SET) != 0 &&
                                                    strcmp(text_in(json, f.name), f.initial) == 0))
            delete_field(json, f.name);
    name_zero(json, "workspace", "1073741824");
    if (cfg->optim.ns_mode != MUSEC_NS_ACCURATE) name_zero(json, "ns_tol", "0.001");
    return json;
}

/* The key of a config as it is, or of what its optimizer reads of it. */
static musec_status key_of(ms_error *e, const ms_train_config *cfg, bool read_alone,
                           char key[MS_SHA256_HEX])
{
    json_t        *json = keyed(cfg);
    char          *text = NULL;
    ms_train_field f;
    ms_sha256      sha;
    musec_status   st = MUSEC_OK;

    for (size_t i = 0; read_alone && ms_train_field_at(i, &f); i++)
        if (!ms_optim_reads(&cfg->optim, f.name)) delete_field(json, f.name);
    text = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT);
    if (text != NULL) {
        ms_sha256_init(&sha);
        ms_sha256_add(&sha, text, strlen(text));
        ms_sha256_end(&sha, key);
    } else {
        st = ms_fail(e, MUSEC_ENOMEM, "not enough memory for the key of a run");
    }
    free(text);
    json_decref(json);
    return st;
}

musec_status ms_grid_key(ms_error *e, const ms_train_config *cfg, char key[MS_SHA256_HEX])
{
    return key_of(e, cfg, false, key);
}

const char *ms_grid_differs(const ms_train_config *a, const ms_train_config *b)
{
    json_t        *in_a = keyed(a), *in_b = keyed(b);
    const char    *found = NULL;
    ms_train_field f;

    if (a->preset != b->preset)
        found = "preset";
    else if (strcmp(a->optim.name, b->optim.name) != 0)
        found = "optimizer";
    for (size_t i = 0; found == NULL && ms_train_field_at(i, &f); i++)
        if (strcmp(text_in(in_a, f.name), text_in(in_b, f.name)) != 0) found = f.name;
    json_decref(in_a);
    json_decref(in_b);
    return found;
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
        return ms_fail(e, MUSEC_EINVAL, "the name of a run has no room in %zu bytes",
                       sizeof run->name);
    return MUSEC_OK;
}

/* ---- the runs, found by key ------------------------------------------------------------------ */

static size_t first_slot(const char *key, size_t n_slots)
{
    char digits[9];
    snprintf(digits, sizeof digits, "%.8s", key);
    return (size_t)strtoul(digits, NULL, 16) & (n_slots - 1); /* a power of two */
}

/* Where the key is, or the free slot where it would be: at most half of them are taken. */
static size_t *slot_of(const ms_grid *grid, const char *same)
{
    size_t i = first_slot(same, grid->n_slots);
    while (grid->slots[i] != 0 && strcmp(grid->at[grid->slots[i] - 1].same, same) != 0)
        i = (i + 1) & (grid->n_slots - 1);
    return &grid->slots[i];
}

/* Room for one more; MS_GRID_MOST bounds all sizes here. */
static musec_status make_room(ms_error *e, ms_grid *grid)
{
    const size_t room = grid->room == 0 ? FIRST_SLOTS / 2 : 2 * grid->room;
    ms_grid_run *at;
    size_t      *slots;

    if (grid->n < grid->room) return MUSEC_OK;
    at = realloc(grid->at, room * sizeof *at);
    if (at != NULL) grid->at = at;
    slots = calloc(2 * room, sizeof *slots);
    if (at == NULL || slots == NULL) {
        free(slots);
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu runs", room);
    }
    free(grid->slots);
    grid->slots   = slots;
    grid->n_slots = 2 * room;
    grid->room    = room;
    for (size_t i = 0; i < grid->n; i++)
        *slot_of(grid, grid->at[i].same) = i + 1;
    return MUSEC_OK;
}

static ms_grid_twins *twins_of(ms_grid *grid, const char *optimizer)
{
    size_t i = 0;
    while (i < grid->n_twins && strcmp(grid->twins[i].optimizer, optimizer) != 0)
        i++;
    if (i == MS_GRID_TWINS) return NULL;
    if (i == grid->n_twins) grid->twins[grid->n_twins++] = (ms_grid_twins){ optimizer, "", 0, 0 };
    return &grid->twins[i];
}

static void add_word(char *words, size_t bytes, const char *word)
{
    const size_t n = strlen(words), length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && strchr(",", at[length]) != NULL) return;
    snprintf(words + n, bytes - n, "%s%s", n > 0 ? ", " : "", word);
}

/* A combination that is this run already, as its optimizer reads it. */
static void count_twin(ms_grid *grid, ms_grid_run *run, const ms_train_config *cfg)
{
    ms_grid_twins *t = twins_of(grid, run->config.optim.name);
    ms_train_field f;
    char           a[MS_TEXT_MAX], b[MS_TEXT_MAX];

    if (t == NULL) return;
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if (!ms_optim_reads(&cfg->optim, f.name) &&
            ms_train_config_get(&run->config, f.name, a, sizeof a) == MUSEC_OK &&
            ms_train_config_get(cfg, f.name, b, sizeof b) == MUSEC_OK && strcmp(a, b) != 0)
            add_word(t->fields, sizeof t->fields, f.name);
    t->made += run->twins == 0;
    t->asked += run->twins == 0 ? 2 : 1;
    run->twins++;
}

static musec_status add_run(ms_error *e, ms_grid *grid, const ms_train_config *cfg)
{
    char         key[MS_SHA256_HEX], same[MS_SHA256_HEX];
    ms_grid_run *run;
    size_t      *slot;
    musec_status st;

    TRY(key_of(e, cfg, false, key));
    TRY(key_of(e, cfg, true, same));
    TRY(make_room(e, grid));
    slot = slot_of(grid, same);
    if (*slot != 0) {
        run = &grid->at[*slot - 1];
        if (strcmp(run->key, key) != 0) count_twin(grid, run, cfg);
        goto done;
    }
    run  = &grid->at[grid->n];
    *run = (ms_grid_run){ .config = *cfg };
    memcpy(run->key, key, sizeof key);
    memcpy(run->same, same, sizeof same);
    TRY(name_run(e, run));
    *slot = ++grid->n;
done:
    return st;
}

void ms_grid_tell_twins(const ms_grid_twins *t, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s %s no effect on %s: %zu run%s instead of %zu", t->fields,
             strchr(t->fields, ',') != NULL ? "have" : "has", t->optimizer, t->made,
             t->made == 1 ? "" : "s", t->asked);
}

void ms_grid_free(ms_grid *grid)
{
    free(grid->at);
    free(grid->slots);
    *grid = (ms_grid){ 0 };
}

/* ---- one combination ------------------------------------------------------------------------- */

typedef struct setting {
    const char   *key;
    const json_t *value;
} setting;

typedef struct axis {
    const char   *key;    /* rows_key: of the rows */
    const json_t *values; /* a list, or one value */
    size_t        n, at;
} axis;

typedef struct plan { /* of one grid */
    const json_t *description, *set;
    axis          axes[MAX_AXES];
    size_t        n_axes;
    setting       settings[MAX_SETTINGS]; /* of the combination at hand, later ones win */
    size_t        n_settings;
} plan;

static const json_t *value_of(const axis *a)
{
    return json_is_array(a->values) ? json_array_get(a->values, a->at) : a->values;
}

static musec_status add_setting(ms_error *e, plan *p, const char *key, const json_t *value)
{
    if (p->n_settings == MAX_SETTINGS)
        return ms_fail(e, MUSEC_EINVAL, "more than %d fields for a run", MAX_SETTINGS);
    p->settings[p->n_settings++] = (setting){ key, value };
    return MUSEC_OK;
}

static musec_status add_object(ms_error *e, plan *p, const json_t *object)
{
    const char  *key;
    json_t      *value;
    musec_status st = MUSEC_OK;
    json_object_foreach((json_t *)object, key, value) { TRY(add_setting(e, p, key, value)); }
done:
    return st;
}

static musec_status gather(ms_error *e, plan *p)
{
    const json_t *preset = json_object_get(p->description, "preset");
    musec_status  st     = MUSEC_OK;

    p->n_settings = 0;
    if (preset != NULL) TRY(add_setting(e, p, "preset", preset));
    TRY(add_object(e, p, p->set));
    for (size_t i = 0; i < p->n_axes; i++) {
        const axis *a = &p->axes[i];
        if (strcmp(a->key, rows_key) == 0)
            TRY(add_object(e, p, value_of(a)));
        else
            TRY(add_setting(e, p, a->key, value_of(a)));
    }
done:
    return st;
}

static bool is_given(const void *arg, const char *key)
{
    const plan *p = arg;
    for (size_t i = 0; i < p->n_settings; i++)
        if (ms_train_field_same(p->settings[i].key, key)) return true;
    return false;
}

/* The last word on a name that a config begins with. */
static musec_status name_of(ms_error *e, const plan *p, const char *key, const char **name)
{
    for (size_t i = 0; i < p->n_settings; i++) {
        if (strcmp(p->settings[i].key, key) != 0) continue;
        *name = json_string_value(p->settings[i].value);
        if (*name == NULL) return ms_fail(e, MUSEC_EFORMAT, "%s must be a text", key);
    }
    return MUSEC_OK;
}

static bool is_name(const char *key)
{
    return strcmp(key, "preset") == 0 || strcmp(key, "optimizer") == 0;
}

static musec_status configure(ms_error *e, const plan *p, ms_train_config *cfg)
{
    const char  *preset = "pico", *optimizer = "soft-musec";
    char         told[MS_CONFIG_NOTES];
    ms_schedule  schedule;
    musec_status st;

    TRY(name_of(e, p, "preset", &preset));
    TRY(name_of(e, p, "optimizer", &optimizer));
    TRY(ms_train_config_init(e, cfg, preset, optimizer));
    for (size_t i = 0; i < p->n_settings; i++)
        if (!is_name(p->settings[i].key))
            TRY(ms_train_config_set_json(e, cfg, p->settings[i].key, p->settings[i].value));
    ms_train_config_resolve(cfg, is_given, p, told);
    TRY(ms_train_config_check(e, cfg));
    TRY(ms_schedule_make(e, cfg, &schedule)); /* are its stages stages? */
done:
    return st;
}

/* ---- the shape of a description -------------------------------------------------------------- */

/* Names that are none of a config's fields, and so unknown to it. */
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

/* An object of fields, each with one value; those that `p` varies already are not among them. */
static musec_status check_fields(ms_error *e, const plan *p, const json_t *object, const char *name)
{
    const char  *key;
    json_t      *value;
    musec_status st = MUSEC_OK;

    if (!json_is_object(object))
        return ms_fail(e, MUSEC_EFORMAT, "%s must be an object of fields and values", name);
    json_object_foreach((json_t *)object, key, value)
    {
        TRY(check_key(e, key));
        for (size_t i = 0; i < p->n_axes; i++)
            if (ms_train_field_same(p->axes[i].key, key))
                return ms_fail(e, MUSEC_EINVAL, "%s stands in a row and as a list of its own", key);
    }
done:
    return st;
}

static musec_status add_axis(ms_error *e, plan *p, const char *key, const json_t *values)
{
    const size_t n = json_is_array(values) ? json_array_size(values) : 1;
    musec_status st;

    TRY(check_key(e, key));
    if (n == 0) return ms_fail(e, MUSEC_EINVAL, "%s is an empty list", key);
    if (p->n_axes == MAX_AXES)
        return ms_fail(e, MUSEC_EINVAL, "more than %d fields that vary", MAX_AXES);
    for (size_t i = 0; i < p->n_axes; i++)
        if (ms_train_field_same(p->axes[i].key, key))
            return ms_fail(e, MUSEC_EINVAL, "%s stands there twice", key);
    p->axes[p->n_axes++] = (axis){ .key = key, .values = values, .n = n };
done:
    return st;
}

static musec_status check_rows(ms_error *e, const plan *p)
{
    const json_t *rows = NULL;
    char          name[32];
    musec_status  st = MUSEC_OK;

    for (size_t i = 0; i < p->n_axes; i++)
        if (strcmp(p->axes[i].key, rows_key) == 0) rows = p->axes[i].values;
    if (rows == NULL) return MUSEC_OK;
    if (!json_is_array(rows)) return ms_fail(e, MUSEC_EFORMAT, "rows must be a list of objects");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        snprintf(name, sizeof name, "row %zu", i + 1);
        TRY(check_fields(e, p, json_array_get(rows, i), name));
    }
done:
    return st;
}

/* How many there will be, judged before there is memory for them. */
static musec_status check_count(ms_error *e, const plan *p, size_t there)
{
    size_t n = 1;
    for (size_t i = 0; i < p->n_axes; i++)
        if (!ms_size_mul(n, p->axes[i].n, &n) || n > MS_GRID_MOST || there + n > MS_GRID_MOST)
            return ms_fail(e, MUSEC_EINVAL,
                           "more than %d runs; shorten the lists, or make several sweeps",
                           MS_GRID_MOST);
    return MUSEC_OK;
}

/* Number `last` is the fastest; false: all combinations have been there. */
static bool advance(plan *p)
{
    for (size_t i = p->n_axes; i-- > 0;) {
        if (++p->axes[i].at < p->axes[i].n) return true;
        p->axes[i].at = 0;
    }
    return false;
}

static musec_status add_grid(ms_error *e, plan *p, const json_t *object, ms_grid *grid)
{
    ms_train_config cfg;
    const char     *key;
    json_t         *values;
    musec_status    st;

    if (!json_is_object(object))
        return ms_fail(e, MUSEC_EFORMAT, "it must be an object of fields and lists");
    json_object_foreach((json_t *)object, key, values) { TRY(add_axis(e, p, key, values)); }
    TRY(check_rows(e, p));
    TRY(check_count(e, p, grid->n));
    do {
        TRY(gather(e, p));
        TRY(configure(e, p, &cfg));
        TRY(add_run(e, grid, &cfg));
    } while (advance(p));
done:
    return st;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

void ms_grid_forget(json_t *description, const char *field)
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

bool ms_grid_set(json_t *description, const char *field, const char *value)
{
    json_t *set = json_object_get(description, "set");

    ms_grid_forget(description, field);
    if (set == NULL) {
        set = json_object();
        (void)json_object_set_new(description, "set", set);
    }
    return !json_is_object(set) || json_object_set_new(set, field, json_string(value)) == 0;
}

static musec_status check_description(ms_error *e, const json_t *description)
{
    static const char *const known[] = { "preset", "set", "grids" };
    const plan               none    = { 0 };
    const char              *key;
    json_t                  *value, *set = json_object_get(description, "set");

    if (!json_is_object(description))
        return ms_fail(e, MUSEC_EFORMAT, "it must be an object with \"grids\"");
    json_object_foreach((json_t *)description, key, value)
    {
        const char *near  = ms_name_nearest(key, known, COUNT(known));
        bool        there = false;
        for (size_t i = 0; i < COUNT(known); i++)
            if (strcmp(known[i], key) == 0) there = true;
        if (!there)
            return ms_fail(e, MUSEC_EINVAL,
                           "\"%s\" is none of \"preset\", \"set\", \"grids\"%s%s%s", key,
                           near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                           near != NULL ? "\"?" : "");
    }
    value = json_object_get(description, "grids");
    if (!json_is_array(value) || json_array_size(value) == 0)
        return ms_fail(e, MUSEC_EFORMAT, "\"grids\" must be a list of one grid or more");
    return set == NULL ? MUSEC_OK : check_fields(e, &none, set, "\"set\"");
}

musec_status ms_grid_add(ms_error *e, const char *what, const json_t *description, ms_grid *grid)
{
    ms_error      why   = { "" };
    const json_t *grids = json_object_get(description, "grids");
    plan         *p     = calloc(1, sizeof *p);
    musec_status  st;

    if (p == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a grid");
    st = check_description(&why, description);
    if (st != MUSEC_OK) {
        ms_error_set(e, "%s%s%s", what == NULL ? "" : what, what == NULL ? "" : ": ", why.text);
        goto done;
    }
    for (size_t i = 0; i < json_array_size(grids); i++) {
        *p = (plan){ .description = description, .set = json_object_get(description, "set") };
        st = add_grid(&why, p, json_array_get(grids, i), grid);
        if (st == MUSEC_OK) continue;
        if (what == NULL)
            ms_error_set(e, "%s", why.text);
        else
            ms_error_set(e, "%s: grid %zu: %s", what, i + 1, why.text);
        break;
    }
done:
    free(p);
    return st;
}
