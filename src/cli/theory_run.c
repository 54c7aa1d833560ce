/* theory_run.c - musec theory run: an optimizer on a problem of known constants, beside the bound
 * of the theorem. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json_file.h"
#include "core/log.h"
#include "core/table.h"
#include "optim/optim.h"
#include "theory/run.h"

enum { MAX_SEEDS = 1000, REPORT_EVERY_MS = 200 };

struct args {
    const char    *optimizer, *out;
    int64_t        steps, rank, seeds, samples;
    uint64_t       seed;
    double         delta, sigma, lr, beta, threshold;
    ms_option_list set;
    int            json;
};

static const ms_option options[] = {
    { "optimizer", MS_OPT_STR, AT(optimizer), "NAME",
      "name of the optimizer, as musec train --help lists it [musec]" },
    { "steps", MS_OPT_I64, AT(steps), "N", "number of stochastic gradients in all [10000]" },
    { "delta", MS_OPT_F64, AT(delta), "X", "radius of the Goldstein subdifferential [0.1]" },
    { "rank", MS_OPT_I64, AT(rank), "R", "use a matrix of 2R x R; 0: the problem's own size [0]" },
    { "sigma", MS_OPT_F64, AT(sigma), "X", "standard deviation of the stochastic gradients [0]" },
    { "lr", MS_OPT_F64, AT(lr), "X", "learning rate [the Corollary's eta]" },
    { "beta", MS_OPT_F64, AT(beta), "X",
      "weight of the new gradient in the momentum [the Corollary's]" },
    { "threshold", MS_OPT_F64, AT(threshold), "D", "threshold of the clipping [the Corollary's]" },
    { "set", MS_OPT_LIST, AT(set), "OPTION=VALUE",
      "set an option of the optimizer, such as ns-mode=exact; may be repeated [none]" },
    { "seed", MS_OPT_U64, AT(seed), "N",
      "seed of the problem, the noise and the epoch picked [0]" },
    { "seeds", MS_OPT_I64, AT(seeds), "N",
      "number of runs with different seeds, from --seed on [1]" },
    { "samples", MS_OPT_I64, AT(samples), "N",
      "number of subgradients to sample around the result for the hull; 0: none [256]" },
    { "out", MS_OPT_STR, AT(out), "FILE", "write the JSON to this file [stdout]" },
    MS_CLI_JSON(struct args),
};

const ms_command *theory_run_command(void)
{
    static const ms_command command = {
        .name     = "musec theory run",
        .operands = "PROBLEM",
        .summary  = "an optimizer on a nonsmooth problem, beside the theorem's bound",
        .details =
            "PROBLEM is sensing, phase, completion, relu, max, kinks or quadratic; list says what\n"
            "they are.  Algorithm 2 of the paper: N steps in K epochs of T, the mean of one epoch\n"
            "is returned.  |Hbar| is the norm of an epoch's mean subgradient; the hull distance\n"
            "is that from zero to the subgradients in the ball of radius delta around what is\n"
            "returned: at most the first number, and of the sampled ones at least the second.\n"
            "Other optimizers take a learning rate that moves them about as far in an epoch, but\n"
            "for SGDM: nothing bounds its step, and it may leave the ball.  The bound is the\n"
            "theorem's, for Musec with the hard clip; L there is that of the noisy gradients,\n"
            "sqrt(L^2 + sigma^2).  A run is covered if the theorem speaks of it: Musec as the\n"
            "Corollary has it, nothing set otherwise.  Float64, on the CPU.\n\n"
            "Examples: musec theory run list\n"
            "          musec theory run phase --steps 20000 --sigma 0.5 --seeds 5\n"
            "          musec theory run kinks --optimizer muon --set ns-mode=exact --beta 0.5\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

typedef struct one_run { /* of one seed */
    uint64_t         seed;
    ms_objective     problem;
    ms_theory_setup  setup;
    bool             is_corollary; /* the optimizer is as ms_theory_setup_init() has it */
    ms_theory_result result;
    ms_hull          hull; /* samples 0: not measured */
} one_run;

typedef struct job {
    const struct args *args;
    const char        *problem;
    one_run           *runs;
    size_t             n;
    ms_log             log;
    double             last_report; /* clock */
} job;

/* ---- the runs -------------------------------------------------------------------------------- */

static void report_progress(void *arg, int64_t steps)
{
    job *j = arg;
    if (ms_clock_ms() - j->last_report < REPORT_EVERY_MS) return;
    j->last_report = ms_clock_ms();
    ms_log_progress(&j->log, "%s, seed %llu: step %lld of %lld", j->problem,
                    (unsigned long long)j->runs[j->n].seed, (long long)steps,
                    (long long)j->args->steps);
}

static musec_status apply_settings(ms_error *e, const struct args *a, ms_theory_setup *s)
{
    char         key[MS_OPTION_NAME];
    musec_status st = MUSEC_OK;

    if (!isnan(a->lr)) s->optim.lr = a->lr;
    if (!isnan(a->beta)) s->optim.beta = a->beta;
    if (!isnan(a->threshold)) s->optim.threshold = a->threshold;
    for (size_t i = 0; i < a->set.n; i++) {
        const char *value = ms_option_pair(a->set.item[i], key);
        TRY(ms_optim_config_set(e, &s->optim, key, value));
    }
done:
    return st;
}

static musec_status run_one(ms_error *e, job *j, uint64_t seed)
{
    const struct args *a = j->args;
    one_run           *r = &j->runs[j->n];
    musec_optim_config chosen;
    musec_status       st;

    r->seed = seed;
    TRY(ms_objective_make(e, j->problem, 2 * a->rank, a->rank, seed, &r->problem));
    TRY(ms_theory_setup_init(e, &r->problem, a->optimizer, a->steps, a->delta, a->sigma, seed,
                             &r->setup));
    chosen = r->setup.optim;
    TRY(apply_settings(e, a, &r->setup));
    /* every field of it: the structure has no gaps */
    r->is_corollary = memcmp(&chosen, &r->setup.optim, sizeof chosen) == 0;
    TRY(ms_theory_run(e, &r->setup, report_progress, j, &r->result));
    if (a->samples > 0 && !r->result.diverged)
        TRY(ms_hull_distance(e, &r->problem, r->result.returned, a->delta, a->samples, seed,
                             &r->hull));
done:
    return st;
}

static void free_runs(job *j)
{
    for (size_t i = 0; j->runs != NULL && i < (size_t)j->args->seeds; i++) {
        ms_theory_result_free(&j->runs[i].result);
        ms_objective_free(&j->runs[i].problem);
    }
    free(j->runs);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Whether the theorem applies to this run. */
static bool is_covered(const one_run *r)
{
    return strcmp(r->setup.optim.name, "musec") == 0 && r->is_corollary && r->setup.weakly_convex &&
           r->setup.params.all_hold && r->result.travel <= r->problem.radius;
}

static void print_chosen(const job *j, FILE *to)
{
    const one_run          *r = &j->runs[0];
    const ms_theory_params *p = &r->setup.params;

    fprintf(to, "%s, %lld x %lld: L %.4g, rho %.4g", j->problem, (long long)r->problem.rows,
            (long long)r->problem.cols, r->problem.lipschitz, r->problem.rho);
    if (!isnan(r->problem.minimum)) fprintf(to, ", minimum %.4g", r->problem.minimum);
    fprintf(to, "\n%s: lr %.4g, beta %.4g", r->setup.optim.name, r->setup.optim.lr,
            r->setup.optim.beta);
    if (ms_optimizer_find(r->setup.optim.name)->family == MS_FAMILY_CLIPPING)
        fprintf(to, ", D %.4g", r->setup.optim.threshold);
    fprintf(to, "; %lld epochs of %lld steps, delta %g, sigma %g\n\n", (long long)r->result.K,
            (long long)r->result.T, p->delta, r->setup.sigma);
}

static void add_row(ms_table *t, const one_run *r)
{
    const ms_theory_result *o = &r->result;

    ms_table_row(t, "%llu\t%.4g\t%.4g", (unsigned long long)r->seed, o->f_start, o->f_end);
    if (o->diverged) {
        for (int i = 0; i < 5; i++)
            ms_table_add(t, i == 1 ? "diverged" : "-");
    } else {
        ms_table_row(t, "%.4g\t%.4g\t%.4g", o->f_returned, o->hbar_mean, o->hbar[o->K - 1]);
        ms_table_add(t, r->hull.samples > 0 ? "%.4g" : "-", r->hull.upper);
        ms_table_add(t, r->hull.samples > 0 ? "%.4g" : "-", r->hull.lower);
    }
    ms_table_add(t, "%.4g", r->setup.params.bound.total);
    ms_table_add(t, "%s", is_covered(r) ? "yes" : "no");
}

static musec_status print_text(ms_error *e, const job *j, FILE *to)
{
    ms_table     t = { .align = "rrrrrrrrrl" };
    musec_status st;

    print_chosen(j, to);
    ms_table_row(&t, "seed\tf(W_0)\tf(W_N)\tf(returned)\tmean |Hbar|\tits last\thull <=\thull "
                     ">=\tbound\tcovered");
    for (size_t i = 0; i < j->n; i++)
        add_row(&t, &j->runs[i]);
    st = ms_table_finish(e, &t, to);
    if (!j->runs[0].setup.weakly_convex)
        fprintf(to, "\nThe problem is not weakly convex: the theorem says nothing of it.\n");
    return st;
}

static musec_status print_problems(ms_error *e, bool json)
{
    json_t     *list = json ? json_array() : NULL;
    const char *name, *help;
    for (size_t i = 0; (name = ms_objective_name(i, &help)) != NULL; i++) {
        json_t *row = json ? json_object() : NULL;
        if (json) {
            ms_json_add(&row, "name=%s about=%s", name, help);
            ms_json_append(&list, row);
        } else {
            printf("%-12s%s\n", name, help);
        }
    }
    return json ? ms_json_finish(e, list, stdout) : MUSEC_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *chosen_json(const one_run *r)
{
    const musec_optim_config *c = &r->setup.optim;
    return json_pack("{s:I, s:I, s:f, s:f, s:f}", "T", (json_int_t)r->result.T, "K",
                     (json_int_t)r->result.K, "lr", c->lr, "beta", c->beta, "threshold",
                     c->threshold);
}

static json_t *problem_json(const one_run *r)
{
    const ms_objective *p    = &r->problem;
    json_t             *json = json_object();
    ms_json_add(&json, "rows=%lld cols=%lld lipschitz=%g rho=%g radius=%g minimum=%g gap=%g",
                (long long)p->rows, (long long)p->cols, p->lipschitz, p->rho, p->radius, p->minimum,
                r->setup.params.gap);
    return json;
}

static json_t *run_json(const one_run *r)
{
    const ms_theory_result *o    = &r->result;
    json_t                 *json = json_object(), *epochs = json_array();

    for (int64_t k = 0; !o->diverged && k < o->K; k++)
        ms_json_append(&epochs, ms_json_real(o->hbar[k]));
    ms_json_add(&json,
                "seed=%lld problem=%p chosen=%p steps=%lld diverged?=%d f_start=%g f_end=%g "
                "f_returned=%g hbar_mean=%g hbar=%p picked=%lld spread=%g travel=%g hull_upper=%g "
                "hull_lower=%g hull_samples=%lld bound=%g covered?=%d seconds=%g",
                (long long)r->seed, (void *)problem_json(r), (void *)chosen_json(r),
                (long long)o->steps, o->diverged, o->f_start, o->f_end, o->f_returned, o->hbar_mean,
                (void *)epochs, (long long)o->picked, o->spread, o->travel,
                r->hull.samples > 0 ? r->hull.upper : NAN,
                r->hull.samples > 0 ? r->hull.lower : NAN, (long long)r->hull.samples,
                r->setup.params.bound.total, is_covered(r), o->seconds);
    return json;
}

static musec_status make_json(ms_error *e, const job *j, json_t **out)
{
    json_t            *given = NULL, *runs;
    const musec_status st    = ms_cli_options(e, theory_run_command(), j->args, &given);

    if (st != MUSEC_OK) return st;
    runs = json_array();
    for (size_t i = 0; i < j->n; i++)
        ms_json_append(&runs, run_json(&j->runs[i]));
    *out = json_object();
    ms_json_add(out, "problem=%s given=%p runs=%p", j->problem, (void *)given, (void *)runs);
    return MUSEC_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

static musec_status run(ms_error *e, job *j)
{
    const struct args *a    = j->args;
    json_t            *json = NULL;
    musec_status       st   = MUSEC_OK;

    j->runs = calloc((size_t)a->seeds, sizeof *j->runs);
    if (j->runs == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for %lld runs", (long long)a->seeds));
    for (; j->n < (size_t)a->seeds; j->n++)
        TRY(run_one(e, j, a->seed + j->n));
    ms_log_progress(&j->log, "%s", "");
    if (a->out != NULL || a->json) TRY(make_json(e, j, &json));
    if (a->out != NULL) TRY(ms_json_write(e, a->out, json));
    if (a->out == NULL && a->json) TRY(ms_json_print(e, json, stdout));
    if (a->out == NULL && !a->json) TRY(print_text(e, j, stdout));
done:
    ms_log_end(&j->log);
    json_decref(json);
    return st;
}

/* The message about a value out of its range, or NULL. */
static const char *range_error(const struct args *a)
{
    if (a->steps < 1) return "--steps must be 1 or more";
    if (!(a->delta > 0.0)) return "--delta must be above 0";
    if (!(a->sigma >= 0.0)) return "--sigma must be 0 or more";
    if (a->samples < 0 || a->samples > 100000) return "--samples must be 0 to 100000";
    if (a->seeds < 1 || a->seeds > MAX_SEEDS) return "--seeds must be 1 to 1000";
    if (a->seed > (uint64_t)(INT64_MAX - a->seeds)) /* seeds are numbers of the JSON */
        return "--seed and --seeds together must be less than 2^63";
    if (!isnan(a->lr) && !(a->lr >= 0.0)) return "--lr must be 0 or more";
    if (!isnan(a->beta) && !(a->beta >= 0.0 && a->beta <= 1.0)) return "--beta must be 0 to 1";
    if (!isnan(a->threshold) && !(a->threshold > 0.0)) return "--threshold must be above 0";
    return NULL;
}

static musec_status check_rank(ms_error *e, const job *j)
{
    int64_t      min = 0, max = 0;
    musec_status st;

    TRY(ms_objective_ranks(e, j->problem, &min, &max));
    if (j->args->rank != 0 && (j->args->rank < min || j->args->rank > max))
        st = ms_fail(e, MUSEC_EINVAL,
                     "--rank is %" PRId64 "; %s takes %" PRId64 " to %" PRId64
                     ", or 0 for its own shape",
                     j->args->rank, j->problem, min, max);
done:
    return st;
}

/* Rejects settings that the Corollary or another option decides. */
static musec_status check_set(ms_error *e, const ms_option_list *set)
{
    char key[MS_OPTION_NAME];
    for (size_t i = 0; i < set->n; i++) {
        (void)ms_option_pair(set->item[i], key);
        if (strcmp(key, "seed") == 0)
            return ms_fail(e, MUSEC_EINVAL, "--set seed: it is --seed that gives the seed");
        if (strcmp(key, "avg-steps") == 0 || strcmp(key, "avg-epochs") == 0)
            return ms_fail(e, MUSEC_EINVAL,
                           "--set %s: the Corollary gives the epochs, from --steps and --delta",
                           key);
    }
    return MUSEC_OK;
}

/* Checks before minutes of work that the file can be written. */
static musec_status check_out(ms_error *e, const char *path)
{
    const char *slash = strrchr(path, '/');
    char        folder[MS_PATH_MAX];
    struct stat info;

    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return ms_fail(e, MUSEC_EIO, "--out %s: a directory is there", path);
    snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
             slash == NULL ? "." : path);
    if (stat(folder, &info) == 0 && S_ISDIR(info.st_mode) && access(folder, W_OK) == 0)
        return MUSEC_OK;
    return ms_fail(e, MUSEC_EIO, "--out %s: %s is no directory that can be written to", path,
                   folder);
}

static musec_status check(ms_error *e, const job *j)
{
    musec_status st = MUSEC_OK;

    if (range_error(j->args) != NULL) TRY(ms_fail(e, MUSEC_EINVAL, "%s", range_error(j->args)));
    TRY(check_rank(e, j));
    TRY(check_set(e, &j->args->set));
    if (j->args->out != NULL) TRY(check_out(e, j->args->out));
done:
    return st;
}

int cmd_theory_run(int argc, char **argv)
{
    const ms_command *cmd = theory_run_command();
    struct args       a   = { .optimizer = "musec",
                              .steps     = 10000,
                              .seeds     = 1,
                              .samples   = 256,
                              .delta     = 0.1,
                              .lr        = NAN,
                              .beta      = NAN,
                              .threshold = NAN };
    const int         n   = ms_options_parse(cmd, &a, argc, argv);
    ms_error          e   = { "" };
    job               j   = { .args = &a };
    char              key[MS_OPTION_NAME];
    int               code;

    if (n < 0) return ms_cli_parsed(n);
    for (size_t i = 0; i < a.set.n; i++)
        if (ms_option_pair(a.set.item[i], key) == NULL)
            return ms_cli_usage(cmd, "--set wants OPTION=VALUE, not '%s'", a.set.item[i]);
    j.problem = argv[1];
    if (strcmp(j.problem, "list") == 0) {
        code = print_problems(&e, a.json != 0) == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &e);
        return code;
    }
    j.log = ms_log_open(stderr, MS_LOG_NORMAL);
    code  = check(&e, &j) == MUSEC_OK && run(&e, &j) == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &e);
    free_runs(&j);
    return code;
}
