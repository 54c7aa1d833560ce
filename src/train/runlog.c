/* runlog.c - see runlog.h.  Log lines are printed as text, with as few digits as keep every bit. */
#define _POSIX_C_SOURCE 200809L /* getline, gmtime_r */
#include "train/runlog.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/json_file.h"
#include "core/machine.h"
#include "core/memory_stream.h"
#include "core/process.h"
#include "core/real.h"
#include "core/seal.h"
#include "train/append.h"
#include "train/events.h"

struct ms_runlog {
    ms_append log;
    ms_events events;
    double    time_s; /* of the last line before this process */
};

/* ---- the columns of a line ------------------------------------------------------------------- */

typedef struct log_column {
    const char *key;
    size_t      offset; /* of a double */
} log_column;

static const char *const group_keys[MS_GROUPS] = { "qk", "vo", "mlp" };
static const log_column  group_columns[]       = {
           { "w_norm", offsetof(ms_group_stats, w_norm) },
           { "u_norm", offsetof(ms_group_stats, u_norm) },
           { "u_rms", offsetof(ms_group_stats, u_rms) },
           { "u_erank", offsetof(ms_group_stats, u_erank) },
           { "u_gain", offsetof(ms_group_stats, u_gain) },
           { "sigma1_over_d", offsetof(ms_group_stats, sigma1_over_d) },
           { "share_above", offsetof(ms_group_stats, share_above) },
};
static const struct {
    const char *key, *tag;
    size_t      offset;
} times[] = {
    { "data", "data_ms", offsetof(ms_log_line, ms_data) },
    { "model", "model_ms", offsetof(ms_log_line, ms_model) },
    { "optim", "optim_ms", offsetof(ms_log_line, ms_optim) },
    { "rest", "rest_ms", offsetof(ms_log_line, ms_rest) },
};

static double value_at(const void *base, size_t offset)
{
    double x;
    memcpy(&x, (const char *)base + offset, sizeof x);
    return x;
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct line_text {
    size_t n;
    char   s[4096]; /* a full line takes 1200 bytes */
} line_text;

static void put(line_text *t, const char *fmt, ...) MS_PRINTF(2, 3);
static void put(line_text *t, const char *fmt, ...)
{
    va_list args;
    int     n;
    va_start(args, fmt);
    n = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < sizeof t->s - t->n);
    t->n += (size_t)n;
}

static void put_number(line_text *t, const char *before, const char *key, double x)
{
    char digits[MS_REAL_TEXT];
    ms_real_text(x, digits);
    put(t, "%s\"%s\": %s", before, key, isfinite(x) ? digits : "null");
}

/* The losses on several data sets, by name. */
static void put_sets(line_text *t, const ms_log_line *l)
{
    if (!l->has_val || l->n_val_sets < 2) return;
    put(t, ", \"val_losses\": {");
    for (int i = 0; i < l->n_val_sets; i++)
        put_number(t, i == 0 ? "" : ", ", l->val_names[i], l->val_losses[i]);
    put(t, "}");
}

static void put_line(line_text *t, const ms_log_line *l)
{
    put(t, "{\"step\": %" PRId64 ", \"tokens\": %" PRId64 ", \"epoch\": %" PRId64, l->step,
        l->tokens, l->epoch);
    if (l->skipped > 0) put(t, ", \"skipped\": %" PRId64, l->skipped);
    if (l->status != NULL) put(t, ", \"status\": \"%s\"", l->status);
    put_number(t, ", ", "loss", l->loss);
    put_number(t, ", ", "objective", l->objective);
    if (l->has_val) put_number(t, ", ", "val_loss", l->val_loss);
    put_sets(t, l);
    put_number(t, ", ", "lr", l->lr);
    put_number(t, ", ", "tok_s", l->tok_s);
    put_number(t, ", ", "time_s", l->time_s);
    put_number(t, ", ", "max_logit", l->max_logit);
    if (l->has_groups) {
        for (size_t g = 0; g < MS_GROUPS; g++) {
            put(t, "%s\"%s\": {", g == 0 ? ", \"groups\": {" : ", ", group_keys[g]);
            for (size_t i = 0; i < COUNT(group_columns); i++)
                put_number(t, i == 0 ? "" : ", ", group_columns[i].key,
                           value_at(&l->groups[g], group_columns[i].offset));
            put(t, "}");
        }
        put(t, "}");
    }
    for (size_t i = 0; i < COUNT(times); i++)
        put_number(t, i == 0 ? ", \"ms\": {" : ", ", times[i].key, value_at(l, times[i].offset));
    put(t, "}}\n");
}

static void put_event(ms_event *ev, const ms_log_line *l)
{
    ms_event_begin(ev, l->step);
    ms_event_add(ev, NULL, "loss", l->loss);
    ms_event_add(ev, NULL, "objective", l->objective);
    if (l->has_val) ms_event_add(ev, NULL, "val_loss", l->val_loss);
    for (int i = 0; l->has_val && l->n_val_sets > 1 && i < l->n_val_sets; i++)
        ms_event_add(ev, "val_loss", l->val_names[i], l->val_losses[i]);
    ms_event_add(ev, NULL, "lr", l->lr);
    ms_event_add(ev, NULL, "tok_s", l->tok_s);
    ms_event_add(ev, NULL, "max_logit", l->max_logit);
    if (l->skipped > 0) ms_event_add(ev, NULL, "skipped", (double)l->skipped);
    if (l->has_groups)
        for (size_t g = 0; g < MS_GROUPS; g++)
            for (size_t i = 0; i < COUNT(group_columns); i++)
                ms_event_add(ev, group_keys[g], group_columns[i].key,
                             value_at(&l->groups[g], group_columns[i].offset));
    for (size_t i = 0; i < COUNT(times); i++)
        ms_event_add(ev, "time", times[i].tag, value_at(l, times[i].offset));
}

/* ---- truncating the log of a resumed run ----------------------------------------------------- */

/* Reads the step and time of a line; MUSEC_EFORMAT, with the reason in *why, if it is damaged. */
static musec_status read_line(const char *line, size_t bytes, int64_t *step, double *time_s,
                              const char **why)
{
    json_t            *root = NULL;
    const musec_status st   = ms_json_parse(line, bytes, MS_JSON_ONCE, NULL, &root);
    const json_t      *s    = json_object_get(root, "step"); /* NULL also if it is no object */
    const bool         ok   = json_is_integer(s) && json_integer_value(s) > 0;

    *why = root == NULL ? "no whole JSON object" : "no \"step\" above 0 in it";
    if (ok) *step = (int64_t)json_integer_value(s);
    *time_s = json_number_value(json_object_get(root, "time_s"));
    json_decref(root);
    return ok || st == MUSEC_ENOMEM ? st : MUSEC_EFORMAT;
}

/* Replaces the log by one with the lines up to from_step.  A process that was killed may have left
 * an incomplete last line, which has no newline; and where the power was lost, what was written
 * after the checkpoint of from_step, for which the log was synced, may be anything. */
static musec_status truncate_log(ms_error *e, const char *path, int64_t from_step, double *time_s)
{
    FILE        *f        = NULL;
    char        *line     = NULL;
    size_t       capacity = 0;
    ms_out_file  out      = { 0 };
    musec_status st;

    TRY(ms_file_open_read(e, path, &f));
    TRY(ms_out_open(e, path, &out));
    for (long long number = 1;; number++) {
        const ssize_t got  = getline(&line, &capacity, f);
        const size_t  n    = got < 0 ? 0 : (size_t)got;
        const char   *why  = NULL;
        int64_t       step = 0;
        double        time = 0.0;
        if (!feof(f) && (got < 0 || ferror(f))) /* getline() fails without memory, too */
            TRY(ms_fail(e, errno == ENOMEM ? MUSEC_ENOMEM : MUSEC_EIO, "%s: cannot read (%s)", path,
                        strerror(errno)));
        if (got < 0) break;
        st = read_line(line, n, &step, &time, &why);
        if (st == MUSEC_ENOMEM) TRY(ms_no_memory(e, "a line of the log"));
        if (st != MUSEC_OK) {
            if (line[n - 1] != '\n') break; /* incomplete */
            st = ms_fail(e, MUSEC_EFORMAT,
                         "%s: line %lld is damaged: %s; repair or remove that line, then resume",
                         path, number, why);
            goto done;
        }
        if (step > from_step) break;
        *time_s = time;
        TRY(ms_out_write(e, &out, line, n));
        if (line[n - 1] != '\n') TRY(ms_out_write(e, &out, "\n", 1));
        if (step == from_step) break;
    }
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    free(line);
    if (f != NULL) fclose(f);
    return st;
}

/* ---- the run log ----------------------------------------------------------------------------- */

musec_status ms_runlog_open(ms_error *e, const char *dir, int64_t from_step, ms_runlog **out)
{
    ms_runlog   *r = NULL;
    char         path[MS_PATH_MAX];
    musec_status st;

    *out = NULL;
    if (from_step < 0)
        return ms_fail(e, MUSEC_EINVAL, "%s: cannot resume from step %" PRId64, dir, from_step);
    r = malloc(sizeof *r);
    if (r == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for the log", dir);
    r->log.fd = r->events.file.fd = -1;
    r->time_s                     = 0.0;
    TRY(ms_path_join(e, dir, "log.jsonl", path));
    if (from_step > 0 && access(path, F_OK) == 0) TRY(truncate_log(e, path, from_step, &r->time_s));
    TRY(ms_append_open(e, path, from_step == 0, &r->log));
    TRY(ms_path_join(e, dir, "events.out.tfevents.musec", path));
    TRY(ms_events_open(e, path, from_step, &r->events));
    *out = r;
    r    = NULL;
done:
    (void)ms_runlog_close(NULL, r);
    return st;
}

double ms_runlog_time(const ms_runlog *r) { return r->time_s; }

musec_status ms_runlog_write(ms_error *e, ms_runlog *r, const ms_log_line *line)
{
    line_text    t = { .n = 0 };
    ms_event     ev;
    musec_status st;

    put_line(&t, line);
    put_event(&ev, line);
    TRY(ms_append_write(e, &r->log, t.s, t.n));
    TRY(ms_events_write(e, &r->events, &ev));
done:
    return st;
}

musec_status ms_runlog_sync(ms_error *e, ms_runlog *r)
{
    musec_status st;
    TRY(ms_append_sync(e, &r->log));
    TRY(ms_append_sync(e, &r->events.file));
done:
    return st;
}

musec_status ms_runlog_close(ms_error *e, ms_runlog *r)
{
    musec_status st, events;

    if (r == NULL) return MUSEC_OK;
    st = ms_append_close(e, &r->log);
    events =
        ms_append_close(st == MUSEC_OK ? e : NULL, &r->events.file); /* keeps the first error */
    free(r);
    return st != MUSEC_OK ? st : events;
}

/* ---- the summary ----------------------------------------------------------------------------- */

/* The version, machine and day, for later readers. */
static json_t *made_json(void)
{
    const time_t now = time(NULL);
    struct tm    day = { 0 };
    char         cpu[MS_MACHINE_TEXT], machine[MS_MACHINE_TEXT + 32], date[16];
    const int    cores = ms_process_cores();

    (void)gmtime_r(&now, &day);
    (void)strftime(date, sizeof date, "%Y-%m-%d", &day);
    ms_machine_cpu(cpu);
    snprintf(machine, sizeof machine, "%s, %d core%s", cpu, cores, cores == 1 ? "" : "s");
    return json_pack("{s:s, s:o, s:s}", "version", musec_version(), "machine",
                     ms_json_string(machine), "date", date);
}

static bool has_val_losses(const ms_log_line *l)
{
    return l != NULL && l->has_val && l->n_val_sets > 1;
}

/* The losses on several data sets by name. */
static json_t *val_losses_json(const ms_log_line *l)
{
    json_t *all = json_object();
    for (int i = 0; i < l->n_val_sets; i++)
        ms_json_set(&all, l->val_names[i], ms_json_real(l->val_losses[i]));
    return all;
}

static json_t *summary_json(const ms_summary *s)
{
    const ms_computed *c   = &s->computed;
    json_t            *all = json_pack("{s:s, s:s?}", "status", s->status, "reason", s->reason);

    if (s->note != NULL) ms_json_set(&all, "note", json_string(s->note));
    ms_json_set(&all, "steps", json_integer(s->steps));
    ms_json_set(&all, "tokens", json_integer(s->tokens));
    if (s->skipped > 0) ms_json_set(&all, "skipped", json_integer(s->skipped));
    ms_json_set(&all, "last_loss", ms_json_real(s->last_loss));
    ms_json_set(&all, "best_loss", ms_json_real(s->best_loss));
    ms_json_set(&all, "last_val_loss", ms_json_real(s->last_val_loss));
    ms_json_set(&all, "best_val_loss", ms_json_real(s->best_val_loss));
    if (has_val_losses(s->last_val)) ms_json_set(&all, "val_losses", val_losses_json(s->last_val));
    ms_json_set(&all, "unigram_loss", ms_json_real(s->unigram_loss));
    ms_json_set(&all, "time_s", ms_json_real(s->time_s));
    ms_json_set(&all, "start_s", ms_json_real(s->start_s));
    ms_json_set(&all, "computed",
                json_pack("{s:s, s:s, s:s}", "device", c->device, "precision", c->precision,
                          "operands", c->operands));
    ms_json_set(&all, "made", made_json());
    if (s->data != NULL) ms_json_set(&all, "data", json_incref((json_t *)s->data));
    if (s->init != NULL) ms_json_set(&all, "init_from", json_incref((json_t *)s->init));
    if (s->resumed != NULL) ms_json_set(&all, "resumed", json_incref((json_t *)s->resumed));
    return all;
}

/* Prints an object with one member per line, which other programs may search line by line, up to
 * where the digits of its seal go. */
static char *print_members(json_t *object)
{
    ms_memory_stream m;
    const char      *key, *before = "{";
    json_t          *value;

    if (ms_memory_open(&m) == NULL) return NULL;
    json_object_foreach(object, key, value)
    {
        char *member = ms_json_dump(value, -1);
        if (member == NULL) m.lost = true;
        fprintf(m.to, "%s\n  \"%s\": %s", before, key, member != NULL ? member : "");
        before = ",";
        free(member);
    }
    fprintf(m.to, ",\n  \"sha256\": \"");
    return ms_memory_close(&m);
}

/* Adds the size and sha256 of the log, if there is one: the summary is written when it is whole. */
static musec_status put_log_sum(ms_error *e, const char *dir, json_t **summary)
{
    char         path[MS_PATH_MAX], sum[MS_SHA256_HEX];
    struct stat  info;
    musec_status st;

    TRY(ms_path_join(e, dir, "log.jsonl", path));
    if (stat(path, &info) != 0 && errno == ENOENT) return MUSEC_OK;
    TRY(ms_sha256_file(e, path, sum));
    ms_json_set(summary, "log",
                json_pack("{s:I, s:s}", "bytes", (json_int_t)info.st_size, "sha256", sum));
done:
    return st;
}

musec_status ms_summary_write(ms_error *e, const char *dir, const ms_summary *s)
{
    json_t      *json = summary_json(s);
    char        *text = NULL;
    ms_out_file  out  = { 0 };
    char         path[MS_PATH_MAX], sum[MS_SHA256_HEX];
    musec_status st;

    TRY(put_log_sum(e, dir, &json));
    text = json == NULL ? NULL : print_members(json);
    TRY(ms_path_join(e, dir, "summary.json", path));
    if (text == NULL)
        TRY(ms_fail(e, MUSEC_EINVAL, "%s: a text is not UTF-8, or there is no memory", path));
    TRY(ms_out_open(e, path, &out));
    ms_seal_make(text, strlen(text), sum);
    TRY(ms_out_write(e, &out, text, strlen(text)));
    TRY(ms_out_write(e, &out, sum, MS_SEAL_DIGITS));
    TRY(ms_out_write(e, &out, MS_SEAL_TAIL, MS_SEAL_TAIL_BYTES));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    free(text);
    json_decref(json);
    return st;
}

bool ms_summary_is_current(const char *dir, const ms_summary *s)
{
    char       path[MS_PATH_MAX];
    json_t    *root = NULL;
    const bool read = ms_path_join(NULL, dir, "summary.json", path) == MUSEC_OK &&
                      ms_json_find(NULL, path, MS_JSON_ONCE, &root) == MUSEC_OK;
    const char *status = json_string_value(json_object_get(root, "status"));
    const bool  stands = read && status != NULL && strcmp(status, s->status) == 0 &&
                        json_integer_value(json_object_get(root, "steps")) == s->steps;
    json_decref(root);
    return stands;
}
