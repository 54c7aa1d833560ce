/* theory_suite.c - from experiments/theory.json to files of results.
 *
 * Each file is written by a process of its own, whole or not at all, so that an interrupted command
 * can be resumed.  The name of a file has all settings that decide about its content. */
#define _POSIX_C_SOURCE 200809L
#include "experiment/theory_suite.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/grow.h"
#include "core/json_file.h"
#include "core/process.h"
#include "core/signals.h"
#include "core/text.h"
#include "experiment/pool.h"

enum { MAX_ARGS = 48, NUMBER = 32 };

/* ---- what is asked for ----------------------------------------------------------------------- */

static const char *extent_of(const ms_paper *p)
{
    return p->args->quick ? "quick" : p->ask.full ? "full" : "reduced";
}

static musec_status broken(ms_error *e, const char *suite, const char *what)
{
    return ms_fail(e, MUSEC_EFORMAT, "experiments/theory.json: suite %s: no %s", suite, what);
}

static void name_point(const ms_theory_suites *s, ms_theory_point *p)
{
    const json_t *set  = json_object_get(p->method, "set"),
                 *beta = json_object_get(p->method, "beta");

    snprintf(p->name, sizeof p->name, "%s-%s-n%lld-s%g-x%lld", p->problem,
             json_string_value(json_object_get(p->method, "optimizer")), (long long)p->steps,
             p->sigma, (long long)s->seeds);
    if (p->rank > 0) ms_text_append(p->name, sizeof p->name, "-r%lld", (long long)p->rank);
    if (beta != NULL) ms_text_append(p->name, sizeof p->name, "-beta%g", json_number_value(beta));
    for (size_t i = 0; i < json_array_size(set); i++)
        ms_text_append(p->name, sizeof p->name, "-%s", json_string_value(json_array_get(set, i)));
    ms_text_append(p->name, sizeof p->name, ".json");
}

static musec_status add_point(ms_error *e, ms_theory_suites *s, ms_theory_point p)
{
    ms_theory_point *more = ms_grow(s->at, s->n, &s->capacity, sizeof *s->at);
    if (more == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the settings");
    s->at = more;
    name_point(s, &p);
    s->at[s->n++] = p;
    return MUSEC_OK;
}

/* Adds a point for each number of steps. */
static musec_status add_steps(ms_error *e, const json_t *steps, ms_theory_point p,
                              ms_theory_suites *s)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        p.steps = (int64_t)json_integer_value(json_array_get(steps, i));
        TRY(add_point(e, s, p));
    }
done:
    return st;
}

static musec_status add_methods(ms_error *e, const json_t *suite, const json_t *steps,
                                ms_theory_point p, ms_theory_suites *s)
{
    const json_t *methods = json_object_get(suite, "methods"),
                 *ranks   = json_object_get(suite, "rank");
    const size_t n_ranks  = json_array_size(ranks);
    musec_status st       = MUSEC_OK;

    for (size_t m = 0; m < json_array_size(methods); m++) {
        p.method = json_array_get(methods, m);
        p.label  = json_string_value(json_object_get(p.method, "label"));
        if (p.label == NULL || !json_is_string(json_object_get(p.method, "optimizer")))
            return broken(e, p.suite, "label or optimizer of a method");
        for (size_t i = 0; i < (n_ranks > 0 ? n_ranks : 1); i++) {
            p.rank = (int64_t)json_integer_value(json_array_get(ranks, i));
            TRY(add_steps(e, steps, p, s));
        }
    }
done:
    return st;
}

static musec_status add_suite(ms_error *e, const char *name, const json_t *suite,
                              const char *extent, const json_t *shared, ms_theory_suites *s)
{
    const json_t *problems = json_object_get(suite, "problems");
    const json_t *sigmas   = json_object_get(suite, "sigma");
    const json_t *steps    = json_object_get(json_object_get(suite, "steps"), extent);
    musec_status  st       = MUSEC_OK;

    if (steps == NULL) steps = json_object_get(shared, "steps");
    if (json_array_size(problems) == 0) return broken(e, name, "problems");
    if (json_array_size(sigmas) == 0) return broken(e, name, "sigma");
    if (json_array_size(steps) == 0) return broken(e, name, "steps");
    for (size_t i = 0; i < json_array_size(problems); i++)
        for (size_t k = 0; k < json_array_size(sigmas); k++)
            TRY(add_methods(
                e, suite, steps,
                (ms_theory_point){ .suite   = name,
                                   .problem = json_string_value(json_array_get(problems, i)),
                                   .sigma   = json_number_value(json_array_get(sigmas, k)) },
                s));
done:
    return st;
}

/* ---- what is there --------------------------------------------------------------------------- */

/* Does an earlier point have the same file? */
static bool is_shared(const ms_theory_suites *s, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(s->at[k].name, s->at[i].name) == 0) return true;
    return false;
}

static musec_status load_point(ms_error *e, const ms_theory_suites *s, ms_theory_point *p)
{
    char         path[MS_PATH_MAX];
    ms_error     why = { "" };
    musec_status st;

    json_decref(p->result);
    p->result = NULL;
    TRY(ms_path_join(e, s->store, p->name, path));
    if (access(path, F_OK) != 0) return MUSEC_OK;
    st = ms_json_read(&why, path, &p->result);
    if (st != MUSEC_OK) return ms_fail(e, st, "%s; remove it, and it is made anew", why.text);
    if (json_array_size(json_object_get(p->result, "runs")) == (size_t)s->seeds) return MUSEC_OK;
    return ms_fail(e, MUSEC_EFORMAT, "%s: not %lld runs; remove it, and it is made anew", path,
                   (long long)s->seeds);
done:
    return st;
}

musec_status ms_theory_suites_read(ms_error *e, const ms_paper *p, const ms_experiment *item,
                                   ms_theory_suites *out)
{
    const char   *extent = extent_of(p), *name;
    const json_t *shared = json_object_get(json_object_get(item->file, "extents"), extent);
    json_t       *suite;
    musec_status  st;

    *out       = (ms_theory_suites){ 0 };
    out->seeds = p->ask.n_seeds > 0 ? (int64_t)p->seeds[0]
                                    : (int64_t)json_integer_value(json_object_get(shared, "seeds"));
    TRY(ms_path_join(e, p->args->out, "theory", out->store));
    json_object_foreach(json_object_get(item->file, "suites"), name, suite)
    {
        TRY(add_suite(e, name, suite, extent, shared, out));
    }
    for (size_t i = 0; i < out->n; i++)
        TRY(load_point(e, out, &out->at[i]));
done:
    if (st != MUSEC_OK) ms_theory_suites_free(out);
    return st;
}

void ms_theory_suites_free(ms_theory_suites *s)
{
    for (size_t i = 0; i < s->n; i++)
        json_decref(s->at[i].result);
    free(s->at);
    *s = (ms_theory_suites){ 0 };
}

size_t ms_theory_suites_files(const ms_theory_suites *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += !is_shared(s, i);
    return n;
}

size_t ms_theory_suites_missing(const ms_theory_suites *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->at[i].result == NULL && !is_shared(s, i);
    return n;
}

/* ---- the processes --------------------------------------------------------------------------- */

typedef struct suite_jobs {
    ms_theory_suites *s;
    ms_log           *log;
    ms_job           *jobs;
    size_t           *point_of_job; /* index of the point that a job makes, the longest first */
    size_t            n, ended, failed;
    double            started, last_report; /* clock */
    int               output;
    char              path[MS_PATH_MAX];
    char              numbers[5][NUMBER]; /* of args */
    const char       *args[MAX_ARGS];
} suite_jobs;

static void set_args(suite_jobs *c, const ms_theory_point *p)
{
    const json_t *set       = json_object_get(p->method, "set");
    const json_t *beta      = json_object_get(p->method, "beta");
    const char   *optimizer = json_string_value(json_object_get(p->method, "optimizer"));
    const char   *fixed[] = { "theory",      "run",         p->problem,    "--optimizer", optimizer,
                              "--steps",     c->numbers[0], "--sigma",     c->numbers[1], "--seeds",
                              c->numbers[2], "--rank",      c->numbers[3], "--out",       c->path };
    size_t        n       = COUNT(fixed);

    snprintf(c->numbers[0], NUMBER, "%lld", (long long)p->steps);
    snprintf(c->numbers[1], NUMBER, "%.17g", p->sigma);
    snprintf(c->numbers[2], NUMBER, "%lld", (long long)c->s->seeds);
    snprintf(c->numbers[3], NUMBER, "%lld", (long long)p->rank);
    snprintf(c->numbers[4], NUMBER, "%.17g", json_number_value(beta));
    memcpy(c->args, fixed, sizeof fixed);
    if (beta != NULL) {
        c->args[n++] = "--beta";
        c->args[n++] = c->numbers[4];
    }
    for (size_t i = 0; i < json_array_size(set) && n + 3 < MAX_ARGS; i++) {
        c->args[n++] = "--set";
        c->args[n++] = json_string_value(json_array_get(set, i));
    }
    c->args[n] = NULL;
}

static musec_status on_start(ms_error *e, void *arg, size_t job, int slot, ms_pool_answer *answer)
{
    suite_jobs            *c = arg;
    const ms_theory_point *p = &c->s->at[c->point_of_job[job]];
    musec_status           st;

    (void)slot;
    TRY(ms_path_join(e, c->s->store, p->name, c->path));
    set_args(c, p);
    c->jobs[job].args   = c->args;
    c->jobs[job].output = c->output;
    *answer             = MS_POOL_START;
done:
    return st;
}

static void on_end(void *arg, size_t job)
{
    suite_jobs *c = arg;
    ms_error    e = { "" };

    c->ended++;
    if (load_point(&e, c->s, &c->s->at[c->point_of_job[job]]) != MUSEC_OK)
        ms_log_say(c->log, MS_LOG_NORMAL, "warning: %s", e.text);
    if (c->s->at[c->point_of_job[job]].result == NULL && *ms_stop_flag() == 0 && c->failed++ == 0)
        ms_log_say(c->log, MS_LOG_NORMAL, "warning: %s was not made: see %s/output.txt",
                   c->s->at[c->point_of_job[job]].name, c->s->store);
}

static void on_turn(void *arg)
{
    suite_jobs  *c   = arg;
    const double now = ms_clock_ms(), every = c->log->live ? 500.0 : 30000.0;

    if (now - c->last_report < every) return;
    c->last_report = now;
    if (c->log->live)
        ms_log_progress(c->log, "%zu of %zu settings, %.0f s", c->ended, c->n,
                        (now - c->started) / 1000.0);
    else
        ms_log_say(c->log, MS_LOG_NORMAL, "%zu of %zu settings, %.0f s", c->ended, c->n,
                   (now - c->started) / 1000.0);
}

/* Orders the missing points, the longest first, so that no long one runs alone at the end. */
static void order_jobs(suite_jobs *c)
{
    for (size_t i = 0; i < c->s->n; i++) {
        size_t at = c->n;
        if (c->s->at[i].result != NULL || is_shared(c->s, i)) continue;
        for (; at > 0 && c->s->at[c->point_of_job[at - 1]].steps < c->s->at[i].steps; at--)
            c->point_of_job[at] = c->point_of_job[at - 1];
        c->point_of_job[at] = i;
        c->n++;
    }
}

static musec_status open_output(ms_error *e, suite_jobs *c)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    TRY(ms_directory_make(e, c->s->store));
    TRY(ms_path_join(e, c->s->store, "output.txt", path));
    c->output = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (c->output < 0) st = ms_fail(e, MUSEC_EIO, "%s: cannot be written", path);
done:
    return st;
}

static musec_status check_all_made(ms_error *e, const suite_jobs *c)
{
    if (*ms_stop_flag() != 0) return ms_fail(e, MUSEC_EIO, "interrupted; the same command goes on");
    if (c->failed > 0)
        return ms_fail(e, MUSEC_EIO, "%zu of %zu settings were not made: see %s/output.txt",
                       c->failed, c->n, c->s->store);
    return MUSEC_OK;
}

/* Runs use one thread each, on the CPU: as many at once as there are cores. */
static int width_of(const ms_paper *p)
{
    const int many = p->sweep.jobs > 0 ? p->sweep.jobs : ms_process_cores();
    return many < 1 ? 1 : many > MS_POOL_WIDTH ? MS_POOL_WIDTH : many;
}

musec_status ms_theory_suites_make(ms_error *e, ms_paper *p, ms_theory_suites *s)
{
    suite_jobs   c    = { .s = s, .log = &p->log, .output = -1, .started = ms_clock_ms() };
    ms_pool      pool = { .width    = width_of(p),
                          .threads  = 1,
                          .stop     = ms_stop_flag(),
                          .on_start = on_start,
                          .on_end   = on_end,
                          .on_turn  = on_turn,
                          .arg      = &c };
    musec_status st   = MUSEC_OK;

    if (ms_theory_suites_missing(s) == 0) return MUSEC_OK;
    c.last_report  = c.started;
    c.jobs         = calloc(s->n, sizeof *c.jobs);
    c.point_of_job = calloc(s->n, sizeof *c.point_of_job);
    if (c.jobs == NULL || c.point_of_job == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu settings", s->n));
    order_jobs(&c);
    TRY(open_output(e, &c));
    ms_log_say(c.log, MS_LOG_NORMAL, "theory: %zu setting%s of %lld seed%s to make, %d at once",
               c.n, c.n == 1 ? "" : "s", (long long)s->seeds, s->seeds == 1 ? "" : "s", pool.width);
    ms_stop_catch("stopping; again to stop now");
    TRY(ms_pool_run(e, &pool, c.jobs, c.n));
    TRY(check_all_made(e, &c));
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].result == NULL)
            TRY(load_point(e, s, &s->at[i])); /* it shares the file of another suite */
done:
    ms_log_progress(c.log, "%s", "");
    if (c.output >= 0) close(c.output);
    free(c.point_of_job);
    free(c.jobs);
    return st;
}
