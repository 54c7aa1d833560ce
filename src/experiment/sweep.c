/* sweep.c - the runs of a grid, several at once.
 *
 * A run is claimed by a lock on its output.txt, which is then the stdout of its process: the claim
 * lasts as long as this process or the run itself, and the kernel releases it with the last of
 * them.  So a sweep that was killed and is started again waits for runs that are still writing
 * their last checkpoint, and two sweeps never make the same run. */
#define _DEFAULT_SOURCE /* flock */
#include "experiment/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/directory.h"
#include "core/file.h"
#include "core/memory_stream.h"
#include "core/process.h"
#include "core/signals.h"
#include "device/gpus.h"
#include "experiment/pool.h"
#include "train/train.h"

enum { MAX_ARGS = 8, DRAW_EVERY_MS = 400, LINE_BYTES = 256 };

static const char        output_name[]      = "output.txt";
static const char *const checkpoint_words[] = { [MS_CHECKPOINTS_ALL]        = "all",
                                                [MS_CHECKPOINTS_UNFINISHED] = "unfinished",
                                                [MS_CHECKPOINTS_NONE]       = "none" };

typedef struct sweep {
    const ms_sweep *s;
    ms_sweep_run   *runs;
    ms_job         *jobs;
    size_t         *run_of_job; /* index of the run that a job makes */
    bool           *announced;  /* by run: the log says that another process is making it */
    bool           *whole;      /* by run: this sweep makes all its steps */
    size_t          n_jobs, n_ended, n_late; /* late: not begun because of the limit */
    int             width, gpus;
    double          started, last_drawn; /* clock */
    ms_sweep_clock *clock;
    char            dir[MS_PATH_MAX]; /* directory of the run that is about to start */
    char            gpu[24];          /* device of the run that is about to start */
    const char     *args[MAX_ARGS];
} sweep;

const char *ms_sweep_state_name(ms_sweep_state state)
{
    static const char *const names[MS_SWEEP_STATES] = {
        [MS_SWEEP_WAITING] = "waiting", [MS_SWEEP_RUNNING] = "running",
        [MS_SWEEP_DONE] = "done",       [MS_SWEEP_DIVERGED] = "diverged",
        [MS_SWEEP_FAILED] = "failed",   [MS_SWEEP_INTERRUPTED] = "interrupted",
        [MS_SWEEP_STALLED] = "stalled",
    };
    return names[state];
}

static const char *plural(size_t n) { return n == 1 ? "" : "s"; }

/* ---- time ------------------------------------------------------------------------------------ */

static void follow_all(sweep *w)
{
    for (size_t i = 0; i < w->s->grid->n; i++)
        if (w->runs[i].state == MS_SWEEP_RUNNING) ms_sweep_follow(w->s, i, &w->runs[i]);
}

/* Seconds since the runs began. */
static double gone(const sweep *w) { return (ms_clock_ms() - w->started) / 1000.0; }

/* Seconds that are left, or NaN as long as they cannot be estimated. */
static double time_left(const sweep *w)
{
    const double left = ms_sweep_clock_left(w->clock, w->runs, w->width, gone(w));
    if (!isnan(left)) return left;
    return w->s->expected_s > gone(w) ? w->s->expected_s - gone(w) : NAN;
}

/* Whether run i would end beyond the limit, as far as can be told. */
static bool is_too_late(const sweep *w, size_t i)
{
    const double takes = ms_sweep_clock_expect(w->clock, i);
    return w->s->limit_s > 0.0 && gone(w) + (isnan(takes) ? 0.0 : takes) > w->s->limit_s;
}

/* Writes "1:02:03" or "2:03". */
static void time_text(double seconds, char *text, size_t bytes)
{
    const long s = isfinite(seconds) ? lround(seconds) : 0;
    if (s >= 3600)
        snprintf(text, bytes, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, bytes, "%ld:%02ld", s / 60, s % 60);
}

/* ---- the table while it runs ----------------------------------------------------------------- */

static void number_text(double x, int digits, char *text, size_t bytes)
{
    if (isfinite(x))
        snprintf(text, bytes, "%.*f", digits, x);
    else
        snprintf(text, bytes, "-");
}

static void draw_run(const sweep *w, size_t i, int name_width, FILE *to)
{
    const ms_sweep_run *r = &w->runs[i];
    char                loss[32], val[32], tok_s[32], step[48];

    snprintf(step, sizeof step, "%lld/%lld", (long long)r->steps,
             (long long)w->s->grid->at[i].config.steps);
    number_text(r->loss, 4, loss, sizeof loss);
    number_text(r->val_loss, 4, val, sizeof val);
    number_text(r->tok_s, 0, tok_s, sizeof tok_s);
    fprintf(to, " %-*s %11s %7s %7s %7s\n", name_width, w->s->grid->at[i].name, step, loss, val,
            tok_s);
}

static void draw_runs(const sweep *w, FILE *to)
{
    int width = 0;
    for (size_t i = 0; i < w->s->grid->n; i++) {
        const int n = (int)strlen(w->s->grid->at[i].name);
        if (w->runs[i].state == MS_SWEEP_RUNNING && n > width) width = n;
    }
    if (width > 0)
        fprintf(to, " %-*s %11s %7s %7s %7s\n", width, "running", "step", "loss", "val", "tok/s");
    for (size_t i = 0; i < w->s->grid->n; i++)
        if (w->runs[i].state == MS_SWEEP_RUNNING) draw_run(w, i, width, to);
}

static void draw(const sweep *w)
{
    static const ms_sweep_state shown[] = { MS_SWEEP_DONE,        MS_SWEEP_STALLED,
                                            MS_SWEEP_DIVERGED,    MS_SWEEP_FAILED,
                                            MS_SWEEP_INTERRUPTED, MS_SWEEP_WAITING };
    const double                left    = time_left(w);
    size_t                      n[MS_SWEEP_STATES];
    char                        time[32], *text;
    ms_memory_stream            m;
    FILE                       *to = ms_memory_open(&m);

    if (to == NULL) return; /* the next turn tries again */
    ms_sweep_count(w->s, w->runs, n);
    fprintf(to, "%zu run%s:", w->s->grid->n, plural(w->s->grid->n));
    for (size_t i = 0; i < COUNT(shown); i++)
        if (n[shown[i]] > 0) fprintf(to, " %zu %s,", n[shown[i]], ms_sweep_state_name(shown[i]));
    time_text(gone(w), time, sizeof time);
    fprintf(to, " %s gone", time);
    time_text(left, time, sizeof time);
    if (*ms_stop_flag() != 0)
        fprintf(to, "; stopping: runs write their checkpoints; again to stop now");
    else if (isfinite(left))
        fprintf(to, ", about %s left", time);
    fputc('\n', to);
    draw_runs(w, to);
    text = ms_memory_close(&m);
    if (text != NULL) ms_log_block(w->s->log, text);
    free(text);
}

static void on_turn(void *arg)
{
    sweep       *w   = arg;
    const double now = ms_clock_ms();

    if (!w->s->log->live || now - w->last_drawn < DRAW_EVERY_MS) return;
    w->last_drawn = now;
    follow_all(w);
    draw(w);
}

/* ---- the beginning and the end of a run ------------------------------------------------------ */

/* Opens and locks the run's output; *fd is -1 if another process holds the lock. */
static musec_status claim(ms_error *e, const char *dir, int *fd)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    *fd = -1;
    TRY(ms_directory_make(e, dir));
    TRY(ms_path_join(e, dir, output_name, path));
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (*fd < 0) return ms_fail(e, MUSEC_EIO, "%s: cannot open (%s)", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(*fd);
        *fd = -1;
    } /* any other failure means a file system without locks */
done:
    return st;
}

static musec_status write_config(ms_error *e, const sweep *w, size_t i)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    TRY(ms_path_join(e, w->dir, "config.json", path));
    if (access(path, F_OK) != 0) TRY(ms_train_config_write(e, path, &w->s->grid->at[i].config));
done:
    return st;
}

/* The empty name is the best device present. */
static bool is_gpu(const char *device)
{
    return device[0] == '\0' || strncmp(device, "cuda", strlen("cuda")) == 0;
}

/* The number of GPUs that the runs share, one run on each at a time, if neither the number of jobs
 * nor devices were given; 0 otherwise, without GPUs, and if a run is for another device.  Runs that
 * name a GPU of their own go there, one at a time. */
static int gpus_shared(const ms_sweep *s)
{
    bool named = false;
    if (s->n_devices > 0 || s->jobs > 0) return 0;
    for (size_t i = 0; s->grid != NULL && i < s->grid->n; i++) {
        if (!is_gpu(s->grid->at[i].config.device)) return 0;
        named = named || s->grid->at[i].config.device[0] != '\0';
    }
    return named && ms_device_gpus() > 1 ? 1 : ms_device_gpus();
}

static bool keeps_checkpoints(const sweep *w, size_t i)
{
    return w->s->grid->at[i].config.checkpoints == MS_CHECKPOINTS_ALL;
}

static void set_args(sweep *w, size_t i, int slot)
{
    const char *own = w->s->grid->at[i].config.device;
    size_t      n   = 0;
    w->args[n++]    = "train";
    w->args[n++]    = "--resume";
    w->args[n++]    = w->dir;
    if (w->s->n_devices > 0) {
        w->args[n++] = "--device";
        w->args[n++] = w->s->devices[(size_t)slot % w->s->n_devices];
    } else if (w->gpus > 1 && own[0] == '\0') {
        snprintf(w->gpu, sizeof w->gpu, "cuda:%d", slot % w->gpus);
        w->args[n++] = "--device";
        w->args[n++] = w->gpu;
    }
    w->args[n++] = "--checkpoints"; /* of a directory that was made otherwise, too */
    w->args[n++] = checkpoint_words[w->s->grid->at[i].config.checkpoints];
    w->args[n]   = NULL;
}

/* A run whose checkpoints are to be removed at its end has this file, so that another sweep removes
 * them if this one does not live that long. */
static musec_status marker_of(ms_error *e, const sweep *w, size_t i, char path[MS_PATH_MAX])
{
    char         dir[MS_PATH_MAX];
    musec_status st;
    TRY(ms_path_join(e, w->s->out, w->s->grid->at[i].name, dir));
    TRY(ms_path_join(e, dir, ".checkpoint-is-temporary", path));
done:
    return st;
}

static musec_status mark_checkpoints(ms_error *e, const sweep *w, size_t i)
{
    char         path[MS_PATH_MAX];
    ms_out_file  out = { 0 };
    musec_status st;
    TRY(marker_of(e, w, i, path));
    if (keeps_checkpoints(w, i)) {
        if (remove(path) != 0 && errno != ENOENT)
            st = ms_fail(e, MUSEC_EIO, "%s: cannot remove (%s)", path, strerror(errno));
        goto done;
    }
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    return st;
}

/* Says so where steps that were made are made again: their checkpoint is not there. */
static void announce_restart(const sweep *w, size_t i)
{
    char        path[MS_PATH_MAX];
    struct stat info;

    if (w->runs[i].state == MS_SWEEP_INTERRUPTED && w->runs[i].steps > 0 &&
        ms_path_join(NULL, w->dir, "checkpoint", path) == MUSEC_OK && stat(path, &info) != 0)
        ms_log_say(w->s->log, MS_LOG_NORMAL,
                   "%s: it had made %lld of %lld steps, but there is no checkpoint: begun anew",
                   w->s->grid->at[i].name, (long long)w->runs[i].steps,
                   (long long)w->s->grid->at[i].config.steps);
}

static musec_status on_start(ms_error *e, void *arg, size_t job, int slot, ms_pool_answer *answer)
{
    sweep       *w  = arg;
    const size_t i  = w->run_of_job[job];
    int          fd = -1;
    musec_status st;

    *answer = MS_POOL_LATER;
    if (is_too_late(w, i)) {
        w->n_late++;
        *answer = MS_POOL_NEVER;
        return MUSEC_OK;
    }
    TRY(ms_path_join(e, w->s->out, w->s->grid->at[i].name, w->dir));
    TRY(claim(e, w->dir, &fd));
    if (fd < 0) {
        if (!w->announced[i])
            ms_log_say(w->s->log, MS_LOG_NORMAL, "%s: another process is making it; waiting for it",
                       w->s->grid->at[i].name);
        w->announced[i] = true;
        goto done;
    }
    TRY(ms_sweep_scan_run(e, w->s, i, &w->runs[i])); /* another sweep may have made it meanwhile */
    if (ms_sweep_is_finished(&w->runs[i])) {
        w->n_ended++;
        *answer = MS_POOL_NEVER;
        goto done;
    }
    announce_restart(w, i);
    TRY(write_config(e, w, i));
    TRY(mark_checkpoints(e, w, i));
    if (ftruncate(fd, 0) != 0) TRY(ms_fail(e, MUSEC_EIO, "%s: cannot write there", w->dir));
    set_args(w, i, slot);
    w->jobs[job].args   = w->args;
    w->jobs[job].output = fd;
    w->runs[i].state    = MS_SWEEP_RUNNING;
    w->whole[i]         = w->runs[i].steps == 0;
    ms_sweep_clock_begin(w->clock, i, gone(w));
    *answer = MS_POOL_START;
    return MUSEC_OK;
done:
    if (fd >= 0) close(fd);
    return st;
}

/* Nothing depends on it, so a failure is only a warning. */
static void remove_checkpoints(const sweep *w, size_t i)
{
    char     dir[MS_PATH_MAX], path[MS_PATH_MAX], marker[MS_PATH_MAX];
    ms_error e = { "" };
    if (ms_path_join(&e, w->s->out, w->s->grid->at[i].name, dir) != MUSEC_OK ||
        ms_path_join(&e, dir, "checkpoint", path) != MUSEC_OK ||
        ms_directory_remove(&e, path) != MUSEC_OK || marker_of(&e, w, i, marker) != MUSEC_OK ||
        ms_directory_remove(&e, marker) != MUSEC_OK)
        ms_log_say(w->s->log, MS_LOG_NORMAL, "warning: %s", e.text);
}

static bool is_marked(const sweep *w, size_t i)
{
    char        path[MS_PATH_MAX];
    struct stat info;
    return marker_of(NULL, w, i, path) == MUSEC_OK && stat(path, &info) == 0;
}

static void log_end(const sweep *w, size_t i)
{
    const ms_sweep_run *r       = &w->runs[i];
    const double        left    = time_left(w);
    char                val[32] = "", rest[48] = "", time[32];

    if (w->s->log->live && r->state != MS_SWEEP_FAILED) return; /* the table shows the run */
    if (isfinite(r->val_loss)) snprintf(val, sizeof val, ", val %.3f", r->val_loss);
    if (isfinite(left) && w->n_ended < w->n_jobs && *ms_stop_flag() == 0) {
        time_text(left, time, sizeof time);
        snprintf(rest, sizeof rest, "; about %s left", time);
    }
    ms_log_say(w->s->log, MS_LOG_NORMAL, "%zu of %zu run%s, %.0f s: %s: %s%s%s", w->n_ended,
               w->n_jobs, plural(w->n_jobs), gone(w), w->s->grid->at[i].name,
               ms_sweep_state_name(r->state), val, rest);
}

/* Does the exit code mean that the run was asked to stop, whether it caught the signal or not? */
static bool was_stopped(int code)
{
    return code == MS_POOL_SIGNAL + SIGINT || code == MS_POOL_SIGNAL + SIGTERM ||
           code == MS_POOL_SIGNAL + SIGHUP;
}

static void on_end(void *arg, size_t job)
{
    sweep        *w = arg;
    const size_t  i = w->run_of_job[job];
    ms_sweep_run *r = &w->runs[i];
    ms_error      e = { "" };

    if (ms_sweep_scan_run(&e, w->s, i, r) != MUSEC_OK)
        ms_log_say(w->s->log, MS_LOG_NORMAL, "warning: %s", e.text);
    r->was_there = false;
    ms_sweep_clock_end(w->clock, i, gone(w), r->state == MS_SWEEP_DONE && w->whole[i]);
    if (!ms_sweep_is_finished(r))
        r->state = *ms_stop_flag() != 0 || was_stopped(w->jobs[job].code) ? MS_SWEEP_INTERRUPTED
                                                                          : MS_SWEEP_FAILED;
    else if (!keeps_checkpoints(w, i))
        remove_checkpoints(w, i);
    close(w->jobs[job].output); /* releases the claim */
    w->n_ended++;
    follow_all(w);
    log_end(w, i);
}

/* ---- before they begin ----------------------------------------------------------------------- */

static bool same_data(const ms_train_config *a, const ms_train_config *b)
{
    return a->tokenizer == b->tokenizer && strcmp(a->data, b->data) == 0 &&
           strcmp(a->val_data, b->val_data) == 0;
}

void ms_sweep_checkpoints(ms_grid *grid, ms_checkpoints which)
{
    for (size_t i = 0; i < grid->n; i++)
        if (grid->at[i].config.checkpoints == MS_CHECKPOINTS_ALL)
            grid->at[i].config.checkpoints = which;
}

musec_status ms_sweep_try_data(ms_error *e, const ms_sweep *s, const ms_sweep_run *runs)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < s->grid->n; i++) {
        const ms_train_config *cfg   = &s->grid->at[i].config;
        bool                   tried = ms_sweep_is_finished(&runs[i]);
        for (size_t k = 0; k < i && !tried; k++)
            tried = !ms_sweep_is_finished(&runs[k]) && same_data(&s->grid->at[k].config, cfg);
        if (!tried) TRY(ms_train_check_data(e, cfg));
    }
done:
    return st;
}

/* ---- all of them ----------------------------------------------------------------------------- */

musec_status ms_sweep_budget(ms_error *e, int64_t jobs, int64_t threads, double minutes,
                             ms_sweep *s)
{
    const double most = 1e9;
    if (!(minutes >= 0.0 && minutes <= most))
        return ms_fail(e, MUSEC_EINVAL, "--time-limit is %g; it must be from 0 to %g minutes",
                       minutes, most);
    if (!(jobs >= 0 && jobs <= MS_POOL_WIDTH && threads >= 1 && threads <= MS_SWEEP_THREADS))
        return ms_fail(e, MUSEC_EINVAL, "--jobs must be from 0 to %d, --threads from 1 to %d",
                       MS_POOL_WIDTH, MS_SWEEP_THREADS);
    s->jobs    = (int)jobs;
    s->threads = (int)threads;
    s->limit_s = 60.0 * minutes;
    return MUSEC_OK;
}

int ms_sweep_width(const ms_sweep *s)
{
    const long threads = s->threads > 0 ? s->threads : 1;
    const int  gpus    = gpus_shared(s);
    const long many    = s->n_devices > 0 ? (long)s->n_devices * (s->jobs > 0 ? s->jobs : 1)
                         : s->jobs > 0    ? s->jobs
                         : gpus > 0       ? gpus
                                          : ms_process_cores() / threads;
    return many < 1 ? 1 : many > MS_POOL_WIDTH ? MS_POOL_WIDTH : (int)many;
}

/* Describes how a process failed: by the last line of its output, or by its exit code. */
static void describe_failure(const char *path, int code, char message[LINE_BYTES])
{
    FILE *f = fopen(path, "r");
    char  text[LINE_BYTES - 16];
    bool  begins = true;

    snprintf(message, LINE_BYTES, "with exit code %d", code);
    if (code > MS_POOL_SIGNAL) snprintf(message, LINE_BYTES, "by signal %d", code - MS_POOL_SIGNAL);
    while (f != NULL && fgets(text, sizeof text, f) != NULL && code <= MS_POOL_SIGNAL) {
        if (begins && text[0] != '\n') /* of a long line the beginning: it has the reason */
            snprintf(message, LINE_BYTES, "with \"%.*s\"", (int)strcspn(text, "\n"), text);
        begins = strchr(text, '\n') != NULL;
    }
    if (f != NULL) fclose(f);
}

/* What the limit of time has left out. */
static musec_status say_late(ms_error *e, const sweep *w)
{
    const double left = ms_sweep_clock_left(w->clock, w->runs, w->width, gone(w));
    char         time[32], work[64] = "";

    time_text(left, time, sizeof time);
    if (isfinite(left)) snprintf(work, sizeof work, ", about %s of work", time);
    return ms_fail(e, MUSEC_EIO,
                   "the time limit: %zu of %zu runs %s missing%s; the same command goes on",
                   w->n_late, w->s->grid->n, w->n_late == 1 ? "is" : "are", work);
}

/* An error if the sweep was interrupted or runs failed. */
static musec_status check_outcome(ms_error *e, const sweep *w)
{
    size_t       n[MS_SWEEP_STATES], first = 0;
    char         dir[MS_PATH_MAX], path[MS_PATH_MAX], message[LINE_BYTES];
    musec_status st = MUSEC_OK;

    ms_sweep_count(w->s, w->runs, n);
    if (*ms_stop_flag() == 0 && n[MS_SWEEP_FAILED] == 0 && w->n_late > 0) return say_late(e, w);
    if (*ms_stop_flag() != 0 || (n[MS_SWEEP_FAILED] == 0 && n[MS_SWEEP_INTERRUPTED] > 0))
        return ms_fail(e, MUSEC_EIO, "interrupted; the same command goes on");
    if (n[MS_SWEEP_FAILED] == 0) return MUSEC_OK;
    while (w->runs[w->run_of_job[first]].state != MS_SWEEP_FAILED)
        first++;
    TRY(ms_path_join(e, w->s->out, w->s->grid->at[w->run_of_job[first]].name, dir));
    TRY(ms_path_join(e, dir, output_name, path));
    describe_failure(path, w->jobs[first].code, message);
    st = ms_fail(e, MUSEC_EIO, "%zu of %zu run%s failed, the first %s: see %s", n[MS_SWEEP_FAILED],
                 w->s->grid->n, plural(w->s->grid->n), message, path);
done:
    return st;
}

/* The jobs are the runs that are not finished. */
static void choose_jobs(sweep *w)
{
    for (size_t i = 0; i < w->s->grid->n; i++) {
        if (ms_sweep_is_finished(&w->runs[i])) {
            if (is_marked(w, i) && keeps_checkpoints(w, i)) (void)mark_checkpoints(NULL, w, i);
            if (is_marked(w, i)) remove_checkpoints(w, i);
            continue;
        }
        w->run_of_job[w->n_jobs++] = i;
    }
}

static musec_status run_jobs(ms_error *e, sweep *w)
{
    const int     threads = w->s->threads > 0 ? w->s->threads : 1;
    const ms_pool pool    = { .width    = ms_sweep_width(w->s),
                              .threads  = threads,
                              .stop     = ms_stop_flag(),
                              .on_start = on_start,
                              .on_end   = on_end,
                              .on_turn  = on_turn,
                              .arg      = w };
    musec_status  st;

    w->gpus  = gpus_shared(w->s);
    w->width = pool.width;
    choose_jobs(w);
    if (w->n_jobs == 0) return MUSEC_OK;
    ms_log_say(w->s->log, MS_LOG_NORMAL, "%zu run%s, %zu of them finished; %d at once, into %s",
               w->s->grid->n, plural(w->s->grid->n), w->s->grid->n - w->n_jobs, pool.width,
               w->s->out);
    /* on a terminal the table shows the message */
    ms_stop_catch(w->s->log->live ? NULL
                                  : "stopping: runs write their checkpoints; again to stop now");
    w->started = ms_clock_ms();
    TRY(ms_pool_run(e, &pool, w->jobs, w->n_jobs));
    TRY(check_outcome(e, w));
done:
    ms_log_block(w->s->log, "");
    return st;
}

musec_status ms_sweep_run_all(ms_error *e, const ms_sweep *s, ms_sweep_run *runs)
{
    const size_t n = s->grid->n;
    sweep       *w = calloc(1, sizeof *w);
    musec_status st;

    if (w == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    *w = (sweep){ .s          = s,
                  .runs       = runs,
                  .jobs       = calloc(n, sizeof *w->jobs),
                  .run_of_job = calloc(n, sizeof *w->run_of_job),
                  .announced  = calloc(n, sizeof *w->announced),
                  .whole      = calloc(n, sizeof *w->whole) };
    if (n > 0 &&
        (w->jobs == NULL || w->run_of_job == NULL || w->announced == NULL || w->whole == NULL))
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu runs", n));
    TRY(ms_sweep_clock_open(e, s->grid, &w->clock));
    TRY(ms_sweep_scan(e, s, runs));
    TRY(ms_directory_make(e, s->out));
    TRY(run_jobs(e, w));
done:
    ms_sweep_clock_close(w->clock);
    free(w->whole);
    free(w->announced);
    free(w->run_of_job);
    free(w->jobs);
    free(w);
    return st;
}
