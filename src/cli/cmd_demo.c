/* cmd_demo.c - musec demo: a small learning-rate sweep that needs no data.
 *
 * Four optimizers at three learning rates each, one model, one data order, one seed.  QK-norm is
 * off: with it attention logits are bounded, and MuonClip would have nothing to clip.  Every
 * optimizer has the same three learning rates; those that clip at D step by about lr D, so the
 * table also shows how large the applied updates were.  Runs that are finished are not repeated. */
#define _POSIX_C_SOURCE 200809L /* getline, sysconf */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/pool.h"
#include "cli/signals.h"
#include "core/table.h"
#include "core/clock.h"
#include "core/log.h"
#include "train/train.h"

enum { RATES = 3, EXTRA = 6, MAX_ARGS = 32, NAMES = 128 /* room for names below --out */ };

struct args {
    const char *out;
    int64_t     steps, jobs;
    uint64_t    seed;
    int         json;
};

static const struct row {
    const char *optimizer, *title;
    const char *extra[EXTRA]; /* options of its own; NULL ends */
} rows[] = {
    { "soft-musec", "Soft Musec", { "--threshold", "0.5" } },
    { "spectra", "SPECTRA", { "--threshold", "0.5" } },
    { "muonclip", "MuonClip", { "--qk-tau", "30" } },
    { "muon", "Muon", { NULL } },
};

static const char *const rates[RATES] = { "0.02", "0.1", "0.5" };

static const ms_option options[] = {
    { "out", MS_OPT_STR, offsetof(struct args, out), "DIR", "where the runs go [runs/demo]" },
    { "steps", MS_OPT_I64, offsetof(struct args, steps), "N", "steps of each run [200]" },
    { "jobs", MS_OPT_I64, offsetof(struct args, jobs), "N", "runs at once; 0: one per core [0]" },
    { "seed", MS_OPT_U64, offsetof(struct args, seed), "N", "of the starting weights [0]" },
    MS_CLI_JSON(struct args),
};

const ms_command *demo_command(void)
{
    static const ms_command command = {
        .name     = "musec demo",
        .operands = "",
        .summary  = "compare four optimizers at three learning rates, in about two minutes",
        .details =
            "Trains the preset pico, without QK-norm, on the built-in corpus with Soft Musec,\n"
            "SPECTRA, MuonClip and Muon, and prints what each loses from its best learning\n"
            "rate to the largest.  Interrupted, it goes on where it was.\n",
        .options   = options,
        .n_options = COUNT(options),
    };
    return &command;
}

/* ---- one run --------------------------------------------------------------------------------- */

typedef struct demo_run {
    const struct row *row;
    const char       *rate;
    char        dir[MS_PATH_MAX - NAMES / 2], output[MS_PATH_MAX], steps[24], seed[24], every[24];
    const char *args[MAX_ARGS];
    bool        finished;
    char        status[16]; /* of summary.json; "" if there is none */
    double      val_loss, w_norm, u_norm, max_logit;
} demo_run;

static json_t *read_json(const char *dir, const char *name)
{
    char path[MS_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return json_load_file(path, 0, NULL);
}

static double number_of(const json_t *json)
{
    return json_is_number(json) ? json_number_value(json) : NAN;
}

static void read_summary(demo_run *r)
{
    json_t     *summary = read_json(r->dir, "summary.json");
    const char *status  = json_string_value(json_object_get(summary, "status"));
    snprintf(r->status, sizeof r->status, "%s", status != NULL ? status : "");
    r->val_loss = number_of(json_object_get(summary, "last_val_loss"));
    json_decref(summary);
}

/* The largest of a figure over the groups of the last line that has them, and the largest logit. */
static void read_log(demo_run *r)
{
    char   path[MS_PATH_MAX], *line = NULL;
    size_t room = 0;
    FILE  *f;

    r->w_norm = r->u_norm = r->max_logit = NAN;
    snprintf(path, sizeof path, "%s/log.jsonl", r->dir);
    f = fopen(path, "rb");
    while (f != NULL && getline(&line, &room, f) >= 0) {
        json_t      *root   = json_loads(line, 0, NULL);
        json_t      *groups = json_object_get(root, "groups"), *group;
        const char  *name;
        const double logit = number_of(json_object_get(root, "max_logit"));
        if (!(logit <= r->max_logit)) r->max_logit = logit;
        if (groups != NULL) r->w_norm = r->u_norm = NAN;
        json_object_foreach(groups, name, group)
        {
            const double w = number_of(json_object_get(group, "w_norm"));
            const double u = number_of(json_object_get(group, "u_norm"));
            if (!(w <= r->w_norm)) r->w_norm = w;
            if (!(u <= r->u_norm)) r->u_norm = u;
        }
        json_decref(root);
    }
    free(line);
    if (f != NULL) fclose(f);
}

static bool exists(const char *dir, const char *name)
{
    char path[MS_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static bool has_value(const json_t *config, const char *key, const char *value)
{
    const char *found = json_string_value(json_object_get(config, key));
    return found != NULL && strcmp(found, value) == 0;
}

/* A run that is there must be the one that would be made. */
static musec_status check_same(ms_error *e, const demo_run *r)
{
    json_t *config = read_json(r->dir, "config.json");
    bool    same   = has_value(config, "steps", r->steps) && has_value(config, "seed", r->seed) &&
                has_value(config, "lr", r->rate) &&
                has_value(config, "optimizer", r->row->optimizer) &&
                has_value(config, "qk_norm", "no");
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i + 1 < EXTRA && r->row->extra[i] != NULL; i += 2) {
        char key[32];
        snprintf(key, sizeof key, "%s", r->row->extra[i] + strlen("--"));
        for (char *c = key; *c != '\0'; c++)
            if (*c == '-') *c = '_';
        same = same && has_value(config, key, r->row->extra[i + 1]);
    }
    if (!same)
        st =
            ms_fail(e, MUSEC_EINVAL,
                    "%s holds a run with other settings; take another --out, or remove it", r->dir);
    json_decref(config);
    return st;
}

/* Its command line: a new run, or one that goes on. */
static musec_status prepare(ms_error *e, demo_run *r, const struct args *a, size_t row, size_t rate)
{
    size_t n = 0;
    *r       = (demo_run){ .row = &rows[row], .rate = rates[rate] };
    snprintf(r->dir, sizeof r->dir, "%s/%s-lr%s", a->out, rows[row].optimizer, rates[rate]);
    snprintf(r->output, sizeof r->output, "%s.txt", r->dir);
    snprintf(r->steps, sizeof r->steps, "%lld", (long long)a->steps);
    snprintf(r->every, sizeof r->every, "%lld", (long long)(a->steps < 6 ? 1 : a->steps / 6));
    snprintf(r->seed, sizeof r->seed, "%llu", (unsigned long long)a->seed);
    read_summary(r);
    r->finished     = strcmp(r->status, "done") == 0 || strcmp(r->status, "diverged") == 0;
    const bool goes = exists(r->dir, "config.json");
    r->args[n++]    = "train";
    r->args[n++]    = goes ? "--resume" : "--out";
    r->args[n++]    = r->dir;
    if (!goes) {
        r->args[n++] = "--optimizer";
        r->args[n++] = rows[row].optimizer;
    }
    const char *const common[] = { "--preset", "pico",   "--qk-norm",      "no",
                                   "--steps",  r->steps, "--seed",         r->seed,
                                   "--lr",     r->rate,  "--report-every", r->every };
    for (size_t i = 0; i < COUNT(common); i++)
        if (!(goes && strcmp(common[i - i % 2], "--preset") == 0)) r->args[n++] = common[i];
    for (size_t i = 0; i < EXTRA && rows[row].extra[i] != NULL; i++)
        r->args[n++] = rows[row].extra[i];
    return goes ? check_same(e, r) : MUSEC_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void add_loss(ms_table *t, const demo_run *r)
{
    if (strcmp(r->status, "diverged") == 0)
        ms_table_add(t, "diverged");
    else if (isfinite(r->val_loss))
        ms_table_add(t, "%.3f", r->val_loss);
    else
        ms_table_add(t, "-");
}

static double best_of(const demo_run *runs)
{
    double best = NAN;
    for (int i = 0; i < RATES; i++)
        if (strcmp(runs[i].status, "done") == 0 && !(best <= runs[i].val_loss))
            best = runs[i].val_loss;
    return best;
}

static musec_status print_table(ms_error *e, const demo_run *runs)
{
    ms_table     t = { .align = "lrrrrrrr" };
    musec_status st;

    ms_table_add(&t, "validation loss");
    for (int i = 0; i < RATES; i++)
        ms_table_add(&t, "lr %s", rates[i]);
    ms_table_add(&t, "lost");
    ms_table_add(&t, "|W|");
    ms_table_add(&t, "|step|/lr");
    ms_table_add(&t, "logit");
    for (size_t k = 0; k < COUNT(rows); k++) {
        const demo_run *mine = runs + k * RATES, *last = &mine[RATES - 1];
        ms_table_add(&t, "%s", rows[k].title);
        for (int i = 0; i < RATES; i++)
            add_loss(&t, &mine[i]);
        if (strcmp(last->status, "diverged") == 0)
            ms_table_add(&t, "all");
        else
            ms_table_add(&t, "%+.3f", last->val_loss - best_of(mine));
        ms_table_add(&t, "%.3g", last->w_norm);
        ms_table_add(&t, "%.3g", last->u_norm);
        ms_table_add(&t, "%.3g", last->max_logit);
    }
    st = ms_table_print(e, &t, stdout);
    ms_table_free(&t);
    printf("\nlost: validation loss at the largest learning rate above the optimizer's best.\n"
           "There, at the end: |W| the largest spectral norm of a weight, |step|/lr of an update;\n"
           "logit the largest attention logit of the run.  Clipped updates are about lr D, D = "
           "0.5.\n");
    return st;
}

static musec_status print_json(ms_error *e, const demo_run *runs, size_t n)
{
    json_t      *all = json_array();
    musec_status st;
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_object();
        json_object_set_new(one, "optimizer", ms_cli_string(runs[i].row->optimizer));
        json_object_set_new(one, "lr", json_real(strtod(runs[i].rate, NULL)));
        json_object_set_new(one, "dir", ms_cli_string(runs[i].dir));
        json_object_set_new(one, "status", ms_cli_string(runs[i].status));
        json_object_set_new(one, "val_loss", ms_cli_real(runs[i].val_loss));
        json_object_set_new(one, "w_norm", ms_cli_real(runs[i].w_norm));
        json_object_set_new(one, "u_norm", ms_cli_real(runs[i].u_norm));
        json_object_set_new(one, "max_logit", ms_cli_real(runs[i].max_logit));
        json_array_append_new(all, one);
    }
    st = ms_cli_print_json(e, all, stdout);
    json_decref(all);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

struct progress {
    ms_log   *log;
    demo_run *runs;
    size_t   *which; /* run of a job */
    size_t    done, all;
    double    started;
};

static void on_end(void *arg, size_t job)
{
    struct progress *p       = arg;
    demo_run        *r       = &p->runs[p->which[job]];
    char             val[32] = "";

    read_summary(r);
    p->done++;
    const double seconds = (ms_clock_ms() - p->started) / 1000.0;
    if (isfinite(r->val_loss)) snprintf(val, sizeof val, ", val %.3f", r->val_loss);
    ms_log_say(p->log, MS_LOG_NORMAL, "%zu of %zu runs, %.0f s: %s at lr %s: %s%s", p->done, p->all,
               seconds, r->row->title, r->rate, r->status[0] != '\0' ? r->status : "failed", val);
}

static musec_status run_all(ms_error *e, const struct args *a, demo_run *runs, size_t n)
{
    ms_log          log = ms_log_open(stderr, MS_LOG_NORMAL);
    ms_job          jobs[COUNT(rows) * RATES];
    size_t          which[COUNT(rows) * RATES], n_jobs = 0;
    struct progress p     = { &log, runs, which, 0, 0, ms_clock_ms() };
    const long      cores = sysconf(_SC_NPROCESSORS_ONLN);
    const ms_pool   pool  = { .width   = a->jobs > 0 ? (int)a->jobs : (int)(cores > 0 ? cores : 1),
                              .threads = 1,
                              .stop    = ms_stop_flag(),
                              .on_end  = on_end,
                              .arg     = &p };
    musec_status    st;

    for (size_t i = 0; i < n; i++) {
        if (runs[i].finished) continue;
        which[n_jobs]  = i;
        jobs[n_jobs++] = (ms_job){ .args = runs[i].args, .output = runs[i].output };
    }
    p.all = n_jobs;
    ms_stop_catch();
    if (n_jobs > 0)
        ms_log_say(&log, MS_LOG_NORMAL, "%zu runs of %lld steps, %d at once, into %s", n_jobs,
                   (long long)a->steps, pool.width, a->out);
    TRY(ms_pool_run(e, &pool, jobs, n_jobs));
    for (size_t i = 0; i < n_jobs && *ms_stop_flag() == 0; i++)
        if (jobs[i].code != 0)
            return ms_fail(e, MUSEC_EIO, "the run %s failed: see %s", runs[which[i]].dir,
                           runs[which[i]].output);
    if (*ms_stop_flag() != 0) st = ms_fail(e, MUSEC_EIO, "interrupted; the same command goes on");
done:
    return st;
}

static musec_status make_directories(ms_error *e, const char *path)
{
    if (strlen(path) > MS_PATH_MAX - NAMES || path[0] == '\0')
        return ms_fail(e, MUSEC_EINVAL, "--out must be a name of 1 to %d bytes",
                       MS_PATH_MAX - NAMES);
    return ms_directory_make(e, path);
}

int cmd_demo(int argc, char **argv)
{
    static demo_run   runs[COUNT(rows) * RATES];
    const ms_command *cmd   = demo_command();
    struct args       a     = { .out = "runs/demo", .steps = 200 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    musec_status      st;

    if (n < 0) return n == MS_OPT_HELP ? EXIT_OK : EXIT_USAGE;
    if (a.steps < 1 || a.jobs < 0) {
        ms_fail(&error, MUSEC_EINVAL, "--steps must be at least 1 and --jobs at least 0");
        return ms_cli_fail(cmd, &error);
    }
    TRY(make_directories(&error, a.out));
    for (size_t i = 0; i < COUNT(runs); i++)
        TRY(prepare(&error, &runs[i], &a, i / RATES, i % RATES));
    TRY(run_all(&error, &a, runs, COUNT(runs)));
    for (size_t i = 0; i < COUNT(runs); i++)
        read_log(&runs[i]);
    TRY(a.json ? print_json(&error, runs, COUNT(runs)) : print_table(&error, runs));
done:
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
