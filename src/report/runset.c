/* runset.c - run directories to numbers in memory. */
#define _POSIX_C_SOURCE 200809L /* getline, strdup */
#include "report/runset.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "core/file.h"
#include "core/grow.h"
#include "core/json_file.h"
#include "core/memory_stream.h"
#include "core/real.h"
#include "core/sha256.h"
#include "core/text.h"

enum { MAX_DEPTH = 4 };

const char *const ms_run_group_names[MS_RUN_GROUPS] = { "qk", "vo", "mlp" };

const ms_run_field ms_run_group_fields[] = {
    { "w_norm", offsetof(ms_run_group, w_norm) },
    { "u_norm", offsetof(ms_run_group, u_norm) },
    { "u_rms", offsetof(ms_run_group, u_rms) },
    { "u_erank", offsetof(ms_run_group, u_erank) },
    { "u_gain", offsetof(ms_run_group, u_gain) },
    { "sigma1_over_d", offsetof(ms_run_group, sigma1_over_d) },
    { "share_above", offsetof(ms_run_group, share_above) },
    { NULL, 0 },
};

const ms_run_field ms_run_line_fields[] = {
    { "tokens", offsetof(ms_run_line, tokens) },
    { "loss", offsetof(ms_run_line, loss) },
    { "val_loss", offsetof(ms_run_line, val_loss) },
    { "lr", offsetof(ms_run_line, lr) },
    { "tok_s", offsetof(ms_run_line, tok_s) },
    { "max_logit", offsetof(ms_run_line, max_logit) },
    { NULL, 0 },
};

musec_status ms_runset_note(ms_error *e, ms_runset *set, const char *fmt, ...)
{
    char  **notes = ms_grow(set->notes, set->n_notes, &set->notes_room, sizeof *notes);
    va_list args;

    if (notes == NULL) return ms_no_memory(e, "the runs");
    set->notes = notes;
    va_start(args, fmt);
    notes[set->n_notes] = ms_text_format(fmt, args);
    va_end(args);
    if (notes[set->n_notes] == NULL) return ms_no_memory(e, "the runs");
    set->n_notes++;
    return MUSEC_OK;
}

/* ---- fields ---------------------------------------------------------------------------------- */

const char *ms_run_text(const ms_run *run, const char *field)
{
    const char *text = json_string_value(json_object_get(run->config, field));
    return text != NULL && strcmp(text, "auto") != 0 ? text : "";
}

double ms_run_number(const ms_run *run, const char *field)
{
    const char  *text = ms_run_text(run, field);
    char        *end  = NULL;
    const double x    = ms_real_read(text, &end);
    return end == text || *end != '\0' || !isfinite(x) ? NAN : x;
}

double ms_run_parameters(const ms_run *run)
{
    const double attention = ms_run_number(run, "heads") * ms_run_number(run, "head");
    return ms_run_number(run, "layers") * ms_run_number(run, "width") *
           (4.0 * attention + 2.0 * ms_run_number(run, "mlp"));
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* ---- a run's files --------------------------------------------------------------------------- */

/* Fields are compared as texts, and old configs contain only texts: numbers become their texts. */
static json_t *as_text(const json_t *value)
{
    char    option[1024], *text;
    json_t *out;
    if (ms_json_option(value, option, sizeof option)) return json_string(option);
    text = ms_json_key(value);
    out  = text != NULL ? ms_json_string(text) : NULL;
    free(text);
    return out;
}

static musec_status read_config(ms_error *e, const char *dir, ms_run *run)
{
    const double most_steps = 1e15; /* as the trainer has it */
    char         path[MS_PATH_MAX];
    ms_error     why = { "" };
    json_t      *value;
    const char  *key;
    double       steps;
    musec_status st;

    TRY(ms_path_join(e, dir, "config.json", path));
    st = ms_json_read(&why, path, &run->config);
    if (st != MUSEC_OK)
        return ms_fail(e, st == MUSEC_EFORMAT ? MUSEC_EINVAL : st,
                       "%s; it must be the config of a run", why.text);
    json_object_foreach(run->config, key, value)
    {
        if (!json_is_string(value)) TRY(ms_json_put(e, run->config, key, as_text(value)));
    }
    run->optimizer = ms_run_text(run, "optimizer");
    run->lr        = ms_run_number(run, "lr");
    run->threshold = ms_run_number(run, "threshold");
    steps          = ms_run_number(run, "steps");
    if (run->optimizer[0] == '\0' || !(run->lr >= 0.0) || !(steps >= 1.0 && steps <= most_steps))
        return ms_fail(
            e, MUSEC_EINVAL,
            "%s: no config of a run: it must have an optimizer, an lr of 0 or more and steps",
            path);
    run->steps = (int64_t)steps;
done:
    return st;
}

/* "steps 20 to 40 at step 20": a run resumed with such a change is not the one that its config
 * describes.  A change of the device is ignored, as comparisons ignore the config's device. */
static musec_status read_changes(ms_error *e, const json_t *changes, ms_run *run)
{
    ms_memory_stream m;
    FILE            *to = ms_memory_open(&m);
    size_t           n  = 0;
    char            *text;
    json_t          *value;

    if (to == NULL) return ms_no_memory(e, "the runs");
    for (size_t i = 0; i < json_array_size(changes); i++) {
        const char *key, *from, *new_value;
        json_int_t  step;
        if (!ms_json_get(json_array_get(changes, i), "step:i key:s from:s to:s", &step, &key, &from,
                         &new_value) ||
            strcmp(key, "device") == 0)
            continue;
        fprintf(to, "%s%s %s to %s at step %lld", n++ == 0 ? "" : ", ", key, from, new_value,
                (long long)step);
    }
    text  = ms_memory_close(&m);
    value = text == NULL ? NULL : ms_json_string(text);
    free(text);
    if (value == NULL) return ms_no_memory(e, "the runs");
    if (n == 0)
        json_decref(value);
    else
        return ms_json_put(e, run->config, "resumed", value);
    return MUSEC_OK;
}

/* "0123456789+89abcdef01": the beginnings of the sums of all sets, training sets first. */
static musec_status read_data_sums(ms_error *e, const json_t *data, ms_run *run)
{
    static const char *const sides[] = { "train", "val" };
    ms_memory_stream         m;
    size_t                   n = 0;

    if (!json_is_object(data)) return MUSEC_OK;
    if (ms_memory_open(&m) == NULL) return ms_no_memory(e, "the runs");
    for (size_t k = 0; k < COUNT(sides); k++) {
        const json_t *sets = json_object_get(data, sides[k]);
        for (size_t i = 0; i < json_array_size(sets); i++) {
            const char *sum = json_string_value(json_object_get(json_array_get(sets, i), "sha256"));
            fprintf(m.to, "%s%.10s", n++ == 0 ? "" : "+", sum != NULL ? sum : "");
        }
    }
    run->data_sums = ms_memory_close(&m);
    return run->data_sums != NULL ? MUSEC_OK : ms_no_memory(e, "the runs");
}

/* No summary: the run goes on, or was killed.  *judged: its status tells whether it stalled. */
static musec_status read_summary(ms_error *e, const char *dir, ms_run *run, bool *judged)
{
    char         path[MS_PATH_MAX];
    json_t      *summary = NULL;
    const char  *status, *reason;
    musec_status st = ms_path_join(e, dir, "summary.json", path);
    struct stat  info;

    if (st != MUSEC_OK || (stat(path, &info) != 0 && errno == ENOENT)) return st;
    st = ms_json_load(e, path, MS_JSON_SEALED, &summary);
    if (st == MUSEC_EFORMAT) st = MUSEC_EINVAL;
    status = json_string_value(json_object_get(summary, "status"));
    reason = json_string_value(json_object_get(summary, "reason"));
    if (st == MUSEC_OK && status == NULL)
        st = ms_fail(e, MUSEC_EINVAL, "%s: there is no \"status\"", path);
    for (ms_run_status s = MS_RUN_DONE; status != NULL && s <= MS_RUN_DIVERGED; s++)
        if (strcmp(status, ms_run_status_word(s)) == 0) run->status = s;
    run->unigram_loss = number_at(summary, "unigram_loss");
    *judged           = json_object_get(summary, "unigram_loss") != NULL;
    if (run->status == MS_RUN_DONE || run->status == MS_RUN_STALLED)
        run->val_loss = number_at(summary, "last_val_loss");
    if (st == MUSEC_OK && reason != NULL) {
        run->reason = strdup(reason);
        if (run->reason == NULL) st = ms_no_memory(e, "the runs");
    }
    run->log      = json_incref(json_object_get(summary, "log"));
    run->computed = json_incref(json_object_get(summary, "computed"));
    run->made     = json_incref(json_object_get(summary, "made"));
    if (st == MUSEC_OK) st = read_changes(e, json_object_get(summary, "resumed"), run);
    if (st == MUSEC_OK) st = read_data_sums(e, json_object_get(summary, "data"), run);
    json_decref(summary);
    return st;
}

static void read_fields(const json_t *object, const ms_run_field *fields, void *out)
{
    for (; fields->name != NULL; fields++) {
        const double value = number_at(object, fields->name);
        memcpy((char *)out + fields->offset, &value, sizeof value);
    }
}

static ms_run_line line_of(const json_t *root)
{
    const json_t *ms     = json_object_get(root, "ms");
    const json_t *groups = json_object_get(root, "groups");
    ms_run_line   line   = {
            .step       = (int64_t)json_integer_value(json_object_get(root, "step")),
            .ms_data    = number_at(ms, "data"),
            .ms_model   = number_at(ms, "model"),
            .ms_optim   = number_at(ms, "optim"),
            .ms_rest    = number_at(ms, "rest"),
            .has_val    = json_object_get(root, "val_loss") != NULL,
            .has_groups = json_is_object(groups),
    };
    read_fields(root, ms_run_line_fields, &line);
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        read_fields(json_object_get(groups, ms_run_group_names[g]), ms_run_group_fields,
                    &line.groups[g]);
    return line;
}

/* Each step is one more than the last: a resumed run truncates its log to its checkpoint. */
static musec_status add_line(ms_error *e, ms_run *run, const json_t *root, const char *path,
                             size_t number)
{
    ms_run_line      *lines = ms_grow(run->lines, run->n, &run->capacity, sizeof *lines);
    const ms_run_line line  = line_of(root);
    if (lines == NULL) return ms_no_memory(e, "the runs");
    run->lines = lines;
    if (line.step < 1 || (run->n > 0 && line.step - 1 != run->lines[run->n - 1].step))
        return ms_fail(e, MUSEC_EINVAL, "%s: line %zu: step %lld follows step %lld", path, number,
                       (long long)line.step,
                       (long long)(run->n > 0 ? run->lines[run->n - 1].step : 0));
    run->lines[run->n++] = line;
    return MUSEC_OK;
}

/* Checks what was read against the summary; older ones say nothing.  A log that lost its end is
 * another matter: the cut is noted. */
static musec_status check_log(ms_error *e, const ms_run *run, const char *path, int64_t bytes,
                              ms_sha256 *sha)
{
    char        found[MS_SHA256_HEX];
    const char *sum;
    json_int_t  said;

    ms_sha256_end(sha, found);
    if (!ms_json_get(run->log, "bytes:i sha256:s", &said, &sum) || bytes < said ||
        (bytes == said && strcmp(found, sum) == 0))
        return MUSEC_OK;
    return ms_fail(e, MUSEC_EINVAL,
                   "%s: damaged: it is not the log of which summary.json has the sha256", path);
}

static musec_status read_log(ms_error *e, ms_runset *set, const char *dir, ms_run *run)
{
    char         path[MS_PATH_MAX], *text = NULL;
    size_t       capacity = 0, number = 0;
    FILE        *f     = NULL;
    int64_t      bytes = 0;
    ssize_t      n;
    ms_sha256    sha;
    musec_status st;

    ms_sha256_init(&sha);
    TRY(ms_path_join(e, dir, "log.jsonl", path));
    TRY(ms_file_open_read(e, path, &f));
    while (errno = 0, (n = getline(&text, &capacity, f)) >= 0 && !ferror(f)) {
        ms_json_problem why;
        json_t         *root = NULL;
        st                   = ms_json_parse(text, (size_t)n, MS_JSON_ANY_NAMES, &why, &root);
        ms_sha256_add(&sha, text, (size_t)n);
        bytes += n;
        number++;
        if (st == MUSEC_ENOMEM)
            st = ms_no_memory(e, "the runs");
        else if (json_is_object(root))
            st = add_line(e, run, root, path, number);
        else if (text[n - 1] != '\n') /* only the last line can lack its end */
            st = ms_runset_note(e, set, "%s: line %zu is cut off and left out", path, number);
        else
            st = ms_fail(e, MUSEC_EINVAL, "%s: line %zu: %s", path, number,
                         root == NULL ? why.text : "not a JSON object");
        json_decref(root);
        if (st != MUSEC_OK) goto done;
    }
    if (ferror(f) || !feof(f)) /* it may have part of a line, and fails without memory, too */
        TRY(ms_fail(e, errno == ENOMEM ? MUSEC_ENOMEM : MUSEC_EIO, "%s: %s", path,
                    strerror(errno)));
    TRY(check_log(e, run, path, bytes, &sha));
done:
    free(text);
    if (f != NULL) fclose(f);
    return st;
}

static void free_run(ms_run *run)
{
    free(run->dir);
    free(run->reason);
    free(run->data_sums);
    free(run->lines);
    json_decref(run->log);
    json_decref(run->computed);
    json_decref(run->made);
    json_decref(run->config);
}

/* The last validation loss is in the summary of a run that is done, even if the log lacks it. */
static bool find_val_loss(ms_run *run)
{
    bool found = !isnan(run->val_loss);
    for (size_t i = run->n; i > 0 && !found; i--) {
        found = run->lines[i - 1].has_val;
        if (found) run->val_loss = run->lines[i - 1].val_loss;
    }
    if (run->status == MS_RUN_DIVERGED) run->val_loss = NAN;
    return found;
}

static musec_status read_run(ms_error *e, ms_runset *set, const char *dir, ms_run *run)
{
    bool         judged = false;
    musec_status st;
    run->val_loss = run->unigram_loss = NAN;
    run->dir                          = strdup(dir);
    if (run->dir == NULL) return ms_no_memory(e, "the runs");
    TRY(read_config(e, dir, run));
    TRY(read_summary(e, dir, run, &judged));
    TRY(read_log(e, set, dir, run));
    TRY(ms_run_judge(e, run, judged));
    if (ms_run_text(run, "resumed")[0] != '\0')
        TRY(ms_runset_note(e, set,
                           "%s: it went on with other settings (%s): another run than its "
                           "config.json gives at once, and drawn apart",
                           dir, ms_run_text(run, "resumed")));
    if (!find_val_loss(run) && (run->status == MS_RUN_DONE || run->status == MS_RUN_STALLED)) {
        run->status = MS_RUN_UNFINISHED;
        TRY(ms_runset_note(e, set, "%s: it was never validated: not in the comparisons", dir));
    } else if (run->n == 0) {
        TRY(ms_runset_note(e, set, "%s: no step was made", dir));
    } else if (run->status == MS_RUN_UNFINISHED) {
        TRY(ms_runset_note(e, set, "%s: unfinished, %lld of %lld steps: not in the comparisons",
                           dir, (long long)run->lines[run->n - 1].step, (long long)run->steps));
    }
    if (run->lr == 0.0)
        TRY(ms_runset_note(e, set, "%s: its lr is 0: at the left edge of plots by rate", dir));
done:
    return st;
}

/* ---- directories ----------------------------------------------------------------------------- */

static bool has_file(const char *dir, const char *name)
{
    char        path[MS_PATH_MAX];
    ms_error    unused;
    struct stat info;
    return ms_path_join(&unused, dir, name, path) == MUSEC_OK && stat(path, &info) == 0 &&
           S_ISREG(info.st_mode);
}

static int by_directory(const void *a, const void *b)
{
    return strcmp(((const ms_run *)a)->dir, ((const ms_run *)b)->dir);
}

static musec_status add_run(ms_error *e, ms_runset *set, const char *dir, const struct stat *info)
{
    ms_run       run = { .device = (uint64_t)info->st_dev, .inode = (uint64_t)info->st_ino };
    ms_run      *at;
    musec_status st;

    for (size_t i = 0; i < set->n; i++)
        if (set->at[i].device == run.device && set->at[i].inode == run.inode) return MUSEC_OK;
    at = ms_grow(set->at, set->n, &set->capacity, sizeof *at);
    if (at == NULL) return ms_no_memory(e, "the runs");
    set->at = at;
    st      = read_run(e, set, dir, &run);
    if (st == MUSEC_OK)
        set->at[set->n++] = run;
    else
        free_run(&run);
    return st;
}

typedef struct run_search {
    ms_runset *set;
    size_t     found, read; /* runs, including those that were there before */
    ms_error   why;         /* why the first of those found could not be read */
} run_search;

/* Adds a run that was found below a directory.  If it cannot be read, a note is added, so that the
 * others are still shown. */
static musec_status add_found(ms_error *e, run_search *s, const ms_walk_entry *entry)
{
    ms_error           bad = { "" };
    const musec_status st  = add_run(&bad, s->set, entry->path, entry->info);

    if (st == MUSEC_OK) {
        s->read++;
        return MUSEC_OK;
    }
    if (st == MUSEC_ENOMEM) return ms_fail(e, st, "%s", bad.text);
    if (s->why.text[0] == '\0') s->why = bad;
    return ms_runset_note(e, s->set, "%s: this run is left out", bad.text);
}

static musec_status visit(ms_error *e, void *arg, const ms_walk_entry *entry, bool *enter)
{
    run_search *s = arg;

    if (!*enter) return MUSEC_OK; /* it is a file, or a link to a directory above */
    if (!has_file(entry->path, "config.json") || !has_file(entry->path, "log.jsonl")) {
        *enter = entry->depth < MAX_DEPTH;
        return MUSEC_OK;
    }
    *enter = false;
    s->found++;
    if (entry->depth > 0) return add_found(e, s, entry);
    s->read++;
    return add_run(e, s->set, entry->path, entry->info); /* requested by its path */
}

musec_status ms_runset_add(ms_error *e, ms_runset *set, const char *path)
{
    run_search   s = { .set = set };
    struct stat  info;
    musec_status st;

    if (stat(path, &info) != 0)
        return ms_fail(e, MUSEC_EIO,
                       "%s: cannot read (%s); give a run directory, or one that holds some", path,
                       strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return ms_fail(e, MUSEC_EINVAL, "%s: it must be a run directory, or one that holds some",
                       path);
    st = ms_directory_walk(e, path, visit, &s);
    if (st != MUSEC_OK) return st;
    if (s.found > 0 && s.read == 0)
        return ms_fail(e, MUSEC_EINVAL, "%s: none of its %zu runs can be read; the first: %s", path,
                       s.found, s.why.text);
    if (s.found == 0)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s: no run in it: a run directory has config.json and log.jsonl", path);
    qsort(set->at, set->n, sizeof *set->at, by_directory);
    return MUSEC_OK;
}

void ms_runset_free(ms_runset *set)
{
    for (size_t i = 0; i < set->n; i++)
        free_run(&set->at[i]);
    for (size_t i = 0; i < set->n_notes; i++)
        free(set->notes[i]);
    free(set->at);
    free(set->notes);
    *set = (ms_runset){ 0 };
}

/* ---- numbers of a run ------------------------------------------------------------------------ */

const ms_run_line *ms_run_last_groups(const ms_run *run)
{
    for (size_t i = run->n; i > 0; i--)
        if (run->lines[i - 1].has_groups) return &run->lines[i - 1];
    return NULL;
}

void ms_run_device(const ms_run *run, char kind[MS_RUN_KIND])
{
    const char *name = json_string_value(json_object_get(run->computed, "device"));
    if (name == NULL) name = ms_run_text(run, "device");
    snprintf(kind, MS_RUN_KIND, "%.*s", (int)strcspn(name, ":,"), name);
}

const char *ms_run_precision(const ms_run *run)
{
    const char *name  = json_string_value(json_object_get(run->computed, "precision"));
    const char *asked = ms_run_text(run, "precision");
    char        kind[MS_RUN_KIND];

    if (name != NULL) return name;
    if (asked[0] != '\0') return asked;
    ms_run_device(run, kind);
    return kind[0] == '\0' ? "" : strcmp(kind, "cuda") == 0 ? "bf16" : "f32";
}

int64_t ms_run_stage_change(const ms_run *run)
{
    const double enough = 1.01; /* a last step may have a few tokens less; far above rounding */
    if (ms_run_text(run, "stages")[0] == '\0') return 0;
    for (size_t i = 1; i < run->n; i++) {
        const ms_run_line *line = &run->lines[i], *last = line - 1;
        const double       before = i > 1 ? last[-1].tokens : last->step == 1 ? 0.0 : NAN;
        const double       now = line->tokens - last->tokens, then = last->tokens - before;
        if (now > enough * then || line->lr > enough * last->lr) return line->step;
    }
    return 0;
}

/* The factor of a group's matrices on the learning rate; of two factors the larger, whose matrices
 * have the largest norm. */
static double rate_factor(const ms_run *run, int group)
{
    static const char *const fields[MS_RUN_GROUPS][2] = { { "lr_qk", "lr_qk" },
                                                          { "lr_vo", "lr_vo" },
                                                          { "lr_up", "lr_down" } };
    const double a = ms_run_number(run, fields[group][0]), b = ms_run_number(run, fields[group][1]);
    const double larger = a > b ? a : b;
    return isfinite(larger) ? larger : 1.0;
}

void ms_run_applied(const ms_run *run, double *norm, double *rms)
{
    double sum_norm = 0.0, sum_rms = 0.0;
    size_t n = 0;
    for (size_t i = 0; i < run->n; i++) {
        const ms_run_line *line = &run->lines[i];
        if (!line->has_groups) continue;
        for (int g = 0; g < MS_RUN_GROUPS; g++) {
            const double u = line->groups[g].u_norm, r = line->groups[g].u_rms;
            if (!isfinite(u) || !isfinite(r) || !isfinite(line->lr)) continue;
            sum_norm += line->lr * rate_factor(run, g) * u;
            sum_rms += line->lr * rate_factor(run, g) * r;
            n++;
        }
    }
    *norm = n > 0 ? sum_norm / (double)n : NAN;
    *rms  = n > 0 ? sum_rms / (double)n : NAN;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void ms_sort_numbers(double *values, size_t n)
{
    if (n > 0) qsort(values, n, sizeof *values, by_value);
}

double ms_median(double *values, size_t n)
{
    if (n == 0) return NAN;
    ms_sort_numbers(values, n);
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

bool ms_run_step_ms(const ms_run *run, double *step, double *optim)
{
    double *values = malloc((run->n > 0 ? 2 * run->n : 1) * sizeof *values);
    size_t  n      = 0;
    *step = *optim = NAN;
    if (values == NULL) return false;
    for (size_t i = 1; i < run->n; i++) {
        const ms_run_line *line = &run->lines[i];
        const double       all  = line->ms_data + line->ms_model + line->ms_optim + line->ms_rest;
        if (line->has_val || line->has_groups || !isfinite(all)) continue;
        values[n]            = all;
        values[run->n + n++] = line->ms_optim;
    }
    *step  = ms_median(values, n);
    *optim = ms_median(values + run->n, n);
    free(values);
    return true;
}
