/* sweep_scan.c - reads the state of the runs of a sweep from their directories.
 *
 * summary.json tells how a run ended, log.jsonl how far an unfinished one is, and config.json
 * whether it is the run that was asked for. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/json_file.h"
#include "experiment/sweep.h"
#include "report/runset.h"
#include "train/train.h"

enum { TAIL = 32768 }; /* bytes at the end of a log: many lines of it */

bool ms_sweep_is_finished(const ms_sweep_run *run)
{
    return run->state == MS_SWEEP_DONE || run->state == MS_SWEEP_STALLED ||
           run->state == MS_SWEEP_DIVERGED;
}

static musec_status path_in(ms_error *e, const ms_sweep *s, size_t i, const char *file,
                            char path[MS_PATH_MAX])
{
    char         dir[MS_PATH_MAX];
    musec_status st;

    TRY(ms_path_join(e, s->out, s->grid->at[i].name, dir));
    TRY(ms_path_join(e, dir, file, path));
done:
    return st;
}

/* ---- whose directory is it ------------------------------------------------------------------- */

/* Fails if there are results without a config; an empty directory becomes the run's. */
static musec_status check_no_config(ms_error *e, const ms_sweep *s, size_t i)
{
    static const char *const results[] = { "checkpoint", "log.jsonl", "summary.json" };
    char                     path[MS_PATH_MAX];
    musec_status             st = MUSEC_OK;

    for (size_t k = 0; k < COUNT(results); k++) {
        TRY(path_in(e, s, i, results[k], path));
        if (access(path, F_OK) != 0) continue;
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s is there, but the config.json beside it is not; remove the directory to "
                       "make the run anew",
                       path);
    }
done:
    return st;
}

static musec_status check_config(ms_error *e, const ms_sweep *s, size_t i)
{
    const ms_train_config *want = &s->grid->at[i].config;
    ms_train_config        found;
    ms_error               why = { "" };
    char                   path[MS_PATH_MAX], before[256], after[256];
    const char            *field;
    musec_status           st;

    TRY(path_in(e, s, i, "config.json", path));
    if (access(path, F_OK) != 0) return check_no_config(e, s, i);
    st = ms_train_config_read(&why, path, &found);
    if (st == MUSEC_OK) st = ms_train_config_check(&why, &found);
    if (st != MUSEC_OK)
        return ms_fail(e, st, "%s; remove the directory to make the run anew", why.text);
    TRY(ms_grid_differs(e, &found, want, &field));
    if (field == NULL) return MUSEC_OK;
    if (ms_train_config_get(&found, field, before, sizeof before) != MUSEC_OK ||
        ms_train_config_get(want, field, after, sizeof after) != MUSEC_OK)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s is of a run with another %s; take another --out, or remove it", path,
                       field);
    st = ms_fail(e, MUSEC_EINVAL,
                 "%s says %s %s, not %s; take another --out, or remove the directory", path, field,
                 before, after);
done:
    return st;
}

/* ---- its state ------------------------------------------------------------------------------- */

static void read_summary(const json_t *summary, ms_sweep_run *run)
{
    static const struct {
        const char    *word;
        ms_sweep_state state;
    } ends[]           = { { "done", MS_SWEEP_DONE },
                           { "stalled", MS_SWEEP_STALLED },
                           { "diverged", MS_SWEEP_DIVERGED },
                           { "interrupted", MS_SWEEP_INTERRUPTED } };
    const char *status = json_string_value(json_object_get(summary, "status"));

    for (size_t i = 0; status != NULL && i < COUNT(ends); i++)
        if (strcmp(ends[i].word, status) == 0) run->state = ends[i].state;
    run->steps    = json_integer_value(json_object_get(summary, "steps"));
    run->loss     = ms_json_number(summary, "last_loss");
    run->val_loss = ms_json_number(summary, "last_val_loss");
    run->time_s   = ms_json_number(summary, "time_s");
}

/* Summaries of older versions do not tell whether a run stalled or diverged: its log does. */
static musec_status infer_old_outcome(ms_error *e, const ms_sweep *s, size_t i,
                                      const json_t *summary, ms_sweep_run *run)
{
    char         dir[MS_PATH_MAX];
    ms_error     why = { "" };
    ms_runset    set = { 0 };
    musec_status st  = MUSEC_OK;

    if (run->state != MS_SWEEP_DONE || json_object_get(summary, "unigram_loss") != NULL) return st;
    TRY(ms_path_join(e, s->out, s->grid->at[i].name, dir));
    st = ms_runset_add(&why, &set, dir);
    if (st == MUSEC_OK && set.n == 1) {
        if (set.at[0].status == MS_RUN_STALLED) run->state = MS_SWEEP_STALLED;
        if (set.at[0].status == MS_RUN_DIVERGED) run->state = MS_SWEEP_DIVERGED;
    }
    st = st == MUSEC_ENOMEM ? ms_fail(e, st, "%s", why.text) : MUSEC_OK;
done:
    ms_runset_free(&set);
    return st;
}

/* A run may go on with another device, and another precision unless the config names one. */
static bool is_asked_for(const ms_train_config *cfg, const char *key)
{
    char value[64];
    if (strcmp(key, "device") == 0) return false;
    if (strcmp(key, "precision") != 0 && strcmp(key, "operands") != 0) return true;
    return ms_train_config_get(cfg, key, value, sizeof value) == MUSEC_OK &&
           strcmp(value, "auto") != 0;
}

/* A run that was resumed with other settings is not the run that a grid asks for. */
static musec_status check_changes(ms_error *e, const json_t *summary, const char *path,
                                  const ms_train_config *cfg)
{
    const json_t *changes = json_object_get(summary, "resumed");

    for (size_t i = 0; i < json_array_size(changes); i++) {
        const char *key, *from, *to;
        json_int_t  step;
        if (!ms_json_get(json_array_get(changes, i), "step:i key:s from:s to:s", &step, &key, &from,
                         &to) ||
            !is_asked_for(cfg, key))
            continue;
        return ms_fail(e, MUSEC_EINVAL,
                       "%s is of a run that went on with %s %s in place of %s after step %lld: "
                       "another one than is asked for; take another --out, or remove the directory",
                       path, key, to, from, (long long)step);
    }
    return MUSEC_OK;
}

musec_status ms_sweep_scan_run(ms_error *e, const ms_sweep *s, size_t i, ms_sweep_run *run)
{
    char         path[MS_PATH_MAX];
    json_t      *summary = NULL;
    musec_status st;

    *run = (ms_sweep_run){ .loss = NAN, .val_loss = NAN, .time_s = NAN, .tok_s = NAN };
    TRY(check_config(e, s, i));
    TRY(path_in(e, s, i, "summary.json", path));
    TRY(ms_json_find(e, path, MS_JSON_SEALED, &summary)); /* without one the run is resumed */
    if (summary != NULL) {
        read_summary(summary, run);
        TRY(infer_old_outcome(e, s, i, summary, run));
    }
    run->was_there = ms_sweep_is_finished(run);
    if (run->was_there) TRY(check_changes(e, summary, path, &s->grid->at[i].config));
done:
    json_decref(summary);
    return st;
}

/* ---- its data -------------------------------------------------------------------------------- */

/* Finds the fingerprint of the data of the config, borrowed from the cache `known`; NULL if
 * they cannot be read, which does not matter to a finished run. */
static musec_status data_of(ms_error *e, const ms_train_config *cfg, json_t *known,
                            const json_t **out)
{
    char          key[2 * MS_PATH_MAX + 64];
    ms_error      why  = { "" };
    json_t       *data = NULL;
    const json_t *found;
    musec_status  st = MUSEC_OK;

    snprintf(key, sizeof key, "%s\n%s\n%lld %lld", cfg->data, cfg->val_data,
             (long long)cfg->tokenizer, (long long)cfg->model.vocab);
    found = json_object_get(known, key);
    if (found == NULL) {
        st = ms_train_data(&why, cfg, &data);
        if (st == MUSEC_ENOMEM) TRY(ms_fail(e, st, "%s", why.text));
        if (st != MUSEC_OK) data = json_null();
        TRY(ms_json_put(e, known, key, data));
        found = json_object_get(known, key);
    }
    *out = json_is_object(found) ? found : NULL;
done:
    return st;
}

/* Checks that a finished run was made from the data that are there now, if it recorded them. */
static musec_status check_data(ms_error *e, const ms_sweep *s, size_t i, json_t *known)
{
    char          path[MS_PATH_MAX], how[MS_DATA_TEXT];
    json_t       *summary = NULL;
    const json_t *was, *now = NULL;
    musec_status  st;

    TRY(path_in(e, s, i, "summary.json", path));
    TRY(ms_json_find(e, path, MS_JSON_SEALED, &summary));
    was = json_object_get(summary, "data");
    if (was != NULL) TRY(data_of(e, &s->grid->at[i].config, known, &now));
    if (now != NULL && ms_train_data_differs(was, now, how))
        st = ms_fail(e, MUSEC_EINVAL,
                     "%s is of a run on other data: %s; put the old data back, take another --out, "
                     "or remove the directory",
                     path, how);
done:
    json_decref(summary);
    return st;
}

musec_status ms_sweep_scan(ms_error *e, const ms_sweep *s, ms_sweep_run *runs)
{
    json_t      *known = s->known != NULL ? json_incref(s->known) : json_object();
    musec_status st    = MUSEC_OK;

    for (size_t i = 0; i < s->grid->n; i++) {
        TRY(ms_sweep_scan_run(e, s, i, &runs[i]));
        if (runs[i].was_there) TRY(check_data(e, s, i, known));
    }
done:
    json_decref(known);
    return st;
}

/* ---- how far it is --------------------------------------------------------------------------- */

/* Reads the end of a file up to its last newline; the first line may be incomplete. */
static size_t read_tail(const char *path, char text[TAIL + 1])
{
    FILE  *f = fopen(path, "rb");
    long   bytes;
    size_t n = 0;

    text[0] = '\0';
    if (f == NULL) return 0;
    if (fseek(f, 0, SEEK_END) == 0 && (bytes = ftell(f)) > 0 &&
        fseek(f, bytes > TAIL ? bytes - TAIL : 0, SEEK_SET) == 0)
        n = fread(text, 1, TAIL, f);
    fclose(f);
    while (n > 0 && text[n - 1] != '\n')
        n--;
    text[n] = '\0';
    return n;
}

void ms_sweep_follow(const ms_sweep *s, size_t i, ms_sweep_run *run)
{
    static char text[TAIL + 1];
    char        path[MS_PATH_MAX];
    json_t     *last = NULL, *val = NULL;

    if (path_in(NULL, s, i, "log.jsonl", path) != MUSEC_OK || read_tail(path, text) == 0) return;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end           = '\0';
        const size_t n = (size_t)(end - line);
        if (end[1] == '\0') (void)ms_json_parse(line, n, MS_JSON_ANY_NAMES, NULL, &last);
        if (strstr(line, "\"val_loss\"") == NULL) continue;
        json_decref(val);
        (void)ms_json_parse(line, n, MS_JSON_ANY_NAMES, NULL, &val);
    }
    if (last != NULL) {
        run->steps  = json_integer_value(json_object_get(last, "step"));
        run->loss   = ms_json_number(last, "loss");
        run->tok_s  = ms_json_number(last, "tok_s");
        run->time_s = ms_json_number(last, "time_s");
    }
    if (val != NULL) run->val_loss = ms_json_number(val, "val_loss");
    json_decref(val);
    json_decref(last);
}
