/* live.c - follows runs that may still be in progress.
 *
 * A run is a directory with config.json.  summary.json, which a run removes when it is resumed,
 * says how it ended.  Without a summary, a run counts as running while its log grows; if the log
 * has not grown for longer than SILENT_S and SILENT_STEPS of its steps, it is "silent": it was
 * killed, or it waits. */
#define _POSIX_C_SOURCE 200809L
#include "report/live.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/directory.h"
#include "core/grow.h"
#include "core/json_file.h"
#include "core/real.h"

enum {
    LEVELS       = 4, /* of directories below a path */
    SILENT_S     = 60,
    SILENT_STEPS = 10,
    LINE_MAX_B   = 1 << 16, /* bytes of a line of a log */
};

/* ---- finding runs ---------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Config values are numbers; older versions wrote them as text. */
static double config_number(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    const char   *text  = json_string_value(value);
    char         *end   = NULL;
    if (json_is_number(value)) return json_number_value(value);
    if (text == NULL || text[0] == '\0') return NAN;
    const double x = ms_real_read(text, &end);
    return *end == '\0' ? x : NAN;
}

static void config_word(const json_t *config, const char *key, char word[MS_LIVE_WORD])
{
    const char *text = json_string_value(json_object_get(config, key));
    snprintf(word, MS_LIVE_WORD, "%s", text == NULL ? "" : text);
}

static musec_status read_config(ms_error *e, const char *path, ms_live_run *run)
{
    json_t      *config = NULL;
    double       steps;
    musec_status st;

    TRY(ms_json_find(e, path, MS_JSON_ONCE, &config));
    if (config == NULL) return MUSEC_OK; /* the next update may find it whole */
    config_word(config, "optimizer", run->optimizer);
    config_word(config, "preset", run->preset);
    run->lr    = config_number(config, "lr");
    steps      = config_number(config, "steps");
    run->steps = steps >= 1.0 && steps < 1e15 ? (int64_t)steps : 0;
    json_decref(config);
done:
    return st;
}

static musec_status add_run(ms_error *e, ms_live *live, const char *dir)
{
    ms_live_run *more;
    for (size_t i = 0; i < live->n; i++)
        if (strcmp(live->at[i].dir, dir) == 0) return MUSEC_OK;
    more = ms_grow(live->at, live->n, &live->capacity, sizeof *live->at);
    if (more == NULL) return ms_no_memory(e, "watching the runs");
    live->at          = more;
    live->at[live->n] = (ms_live_run){ .every = 1, .lr = NAN };
    live->at[live->n].last =
        (ms_live_point){ .loss = NAN, .lr = NAN, .tok_s = NAN, .max_logit = NAN };
    snprintf(live->at[live->n].dir, sizeof live->at[live->n].dir, "%s", dir);
    live->n++;
    return MUSEC_OK;
}

static musec_status find_runs(ms_error *e, ms_live *live, const char *dir, int levels)
{
    char         path[MS_PATH_MAX];
    ms_names     names = { 0 };
    musec_status st;

    TRY(ms_path_join(e, dir, "config.json", path));
    if (exists(path)) return add_run(e, live, dir);
    if (levels == 0) return MUSEC_OK;
    st = ms_directory_names(e, dir, &names);
    if (st == MUSEC_EIO && levels < LEVELS && !exists(dir)) st = MUSEC_OK; /* removed since */
    if (st != MUSEC_OK) goto done;
    for (size_t i = 0; i < names.n; i++) {
        if (ms_path_join(e, dir, names.at[i], path) != MUSEC_OK) continue; /* too deep */
        if (is_directory(path)) TRY(find_runs(e, live, path, levels - 1));
    }
done:
    ms_names_free(&names);
    return st;
}

/* ---- reading a log --------------------------------------------------------------------------- */

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static musec_status keep_point(ms_error *e, ms_live_run *run, ms_live_point p)
{
    ms_live_point *more;
    size_t         kept = 0;

    if (p.step % run->every != 0) return MUSEC_OK;
    if (run->n_points == MS_LIVE_POINTS) {
        run->every *= 2;
        for (size_t i = 0; i < run->n_points; i++)
            if (run->points[i].step % run->every == 0) run->points[kept++] = run->points[i];
        run->n_points = kept;
        if (p.step % run->every != 0) return MUSEC_OK;
    }
    more = ms_grow(run->points, run->n_points, &run->room_points, sizeof *run->points);
    if (more == NULL) return ms_no_memory(e, "watching the runs");
    run->points                  = more;
    run->points[run->n_points++] = p;
    return MUSEC_OK;
}

static musec_status keep_val(ms_error *e, ms_live_run *run, int64_t step, double loss)
{
    ms_live_val *more = ms_grow(run->vals, run->n_vals, &run->room_vals, sizeof *run->vals);
    if (more == NULL) return ms_no_memory(e, "watching the runs");
    run->vals                = more;
    run->vals[run->n_vals++] = (ms_live_val){ step, loss };
    return MUSEC_OK;
}

static musec_status read_line(ms_error *e, ms_live_run *run, const char *line, size_t bytes)
{
    json_t       *object = NULL;
    musec_status  st     = ms_json_parse(line, bytes, MS_JSON_ANY_NAMES, NULL, &object);
    const json_t *step   = json_object_get(object, "step");

    if (st == MUSEC_ENOMEM) return ms_no_memory(e, "watching the runs");
    st = MUSEC_OK;
    if (!json_is_integer(step)) {
        run->bad_lines++;
        goto done;
    }
    run->last   = (ms_live_point){ .step      = json_integer_value(step),
                                   .loss      = number_at(object, "loss"),
                                   .lr        = number_at(object, "lr"),
                                   .tok_s     = number_at(object, "tok_s"),
                                   .max_logit = number_at(object, "max_logit") };
    run->step   = run->last.step;
    run->time_s = number_at(object, "time_s");
    TRY(keep_point(e, run, run->last));
    if (json_object_get(object, "val_loss") != NULL)
        TRY(keep_val(e, run, run->step, number_at(object, "val_loss")));
done:
    json_decref(object);
    return st;
}

/* A resumed run has truncated its log: all that was read of it is discarded. */
static void forget(ms_live_run *run)
{
    run->n_points = run->n_vals = 0;
    run->offset = run->step = run->bad_lines = 0;
    run->every                               = 1;
}

static musec_status read_log(ms_error *e, ms_live_run *run)
{
    char         path[MS_PATH_MAX];
    char        *line = malloc(LINE_MAX_B);
    FILE        *f    = NULL;
    struct stat  info;
    musec_status st = MUSEC_OK;

    if (line == NULL) return ms_no_memory(e, "watching the runs");
    TRY(ms_path_join(e, run->dir, "log.jsonl", path));
    f = fopen(path, "r");
    if (f == NULL && errno == ENOENT) goto done; /* not there yet */
    if (f == NULL || fstat(fileno(f), &info) != 0)
        TRY(ms_fail(e, errno == ENOMEM ? MUSEC_ENOMEM : MUSEC_EIO, "%s: cannot read (%s)", path,
                    strerror(errno)));
    if (info.st_size < run->offset) forget(run);
    run->silent_s = difftime(time(NULL), info.st_mtime);
    if (fseeko(f, (off_t)run->offset, SEEK_SET) != 0) goto done;
    while (fgets(line, LINE_MAX_B, f) != NULL) {
        const size_t bytes = strlen(line);
        if (bytes == 0 || line[bytes - 1] != '\n') {
            if (bytes < LINE_MAX_B - 1) break; /* still being written */
            run->bad_lines++;
        } else {
            TRY(read_line(e, run, line, bytes - 1));
        }
        run->offset = (int64_t)ftello(f);
    }
    if (ferror(f)) st = ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno));
done:
    if (f != NULL) fclose(f);
    free(line);
    return st;
}

/* ---- status ---------------------------------------------------------------------------------- */

static musec_status read_status(ms_error *e, ms_live_run *run)
{
    char         path[MS_PATH_MAX + 16];
    json_t      *summary = NULL;
    const char  *status;
    double       patience = SILENT_S;
    musec_status st;

    snprintf(path, sizeof path, "%s/summary.json", run->dir);
    TRY(ms_json_find(e, path, MS_JSON_ONCE, &summary));
    if (summary != NULL) {
        status = json_string_value(json_object_get(summary, "status"));
        snprintf(run->status, sizeof run->status, "%s", status == NULL ? "ended" : status);
        json_decref(summary);
        return MUSEC_OK;
    }
    if (run->step > 0 && run->time_s / (double)run->step * SILENT_STEPS > patience)
        patience = run->time_s / (double)run->step * SILENT_STEPS;
    snprintf(run->status, sizeof run->status, "%s",
             run->silent_s <= patience ? "running" : "silent");
done:
    return st;
}

bool ms_live_is_running(const ms_live_run *run) { return strcmp(run->status, "running") == 0; }

double ms_live_left_s(const ms_live_run *run)
{
    if (!ms_live_is_running(run) || run->step == 0 || run->steps <= run->step) return NAN;
    return run->time_s / (double)run->step * (double)(run->steps - run->step);
}

musec_status ms_live_update(ms_error *e, ms_live *live)
{
    char         path[MS_PATH_MAX];
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < live->n_paths; i++) {
        if (!is_directory(live->paths[i]))
            return ms_fail(e, MUSEC_EIO, "%s: %s; give the directory of a run or of several",
                           live->paths[i],
                           exists(live->paths[i]) ? "it is no directory" : "it is not there");
        TRY(find_runs(e, live, live->paths[i], LEVELS));
    }
    for (size_t i = 0; i < live->n; i++) {
        TRY(ms_path_join(e, live->at[i].dir, "config.json", path));
        TRY(read_config(e, path, &live->at[i])); /* a run that is extended has more steps */
        TRY(read_log(e, &live->at[i]));
        TRY(read_status(e, &live->at[i]));
    }
done:
    return st;
}

void ms_live_free(ms_live *live)
{
    for (size_t i = 0; i < live->n; i++) {
        free(live->at[i].points);
        free(live->at[i].vals);
    }
    free(live->at);
    *live = (ms_live){ 0 };
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static json_t *pair(int64_t step, double value)
{
    return json_pack("[I, o]", (json_int_t)step, ms_json_real(value));
}

static json_t *run_json(const ms_live_run *run)
{
    json_t *loss = json_array(), *vals = json_array(), *lr = json_array();

    for (size_t i = 0; i < run->n_points; i++) {
        ms_json_append(&loss, pair(run->points[i].step, run->points[i].loss));
        ms_json_append(&lr, pair(run->points[i].step, run->points[i].lr));
    }
    if (run->n_points == 0 || run->points[run->n_points - 1].step != run->last.step)
        if (run->step > 0) ms_json_append(&loss, pair(run->last.step, run->last.loss));
    for (size_t i = 0; i < run->n_vals; i++)
        ms_json_append(&vals, pair(run->vals[i].step, run->vals[i].loss));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "dir", ms_json_string(run->dir), "optimizer", ms_json_string(run->optimizer),
                     "preset", ms_json_string(run->preset), "status", ms_json_string(run->status),
                     "lr", ms_json_real(run->lr), "step", (json_int_t)run->step, "steps",
                     (json_int_t)run->steps, "last_loss", ms_json_real(run->last.loss), "tok_s",
                     ms_json_real(run->last.tok_s), "max_logit", ms_json_real(run->last.max_logit),
                     "time_s", ms_json_real(run->time_s), "left_s",
                     ms_json_real(ms_live_left_s(run)), "loss", loss, "val_loss", vals, "rate", lr);
}

json_t *ms_live_json(const ms_live *live)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < live->n; i++)
        ms_json_append(&runs, run_json(&live->at[i]));
    return json_pack("{s:o}", "runs", runs);
}
