/* run.c - Algorithm 2: N = K T steps of the optimizer on the oracle, epoch by epoch.
 *
 * Step n draws G_n = H_n + noise at W_n, H_n being the subgradient that the problem returns.  Epoch
 * k has W_0 ... W_T, of which W_T is the next one's W_0; the paper averages W_0 ... W_{T-1} into
 * the point that it may return, as the optimizer's own averages do, and H_1 ... H_T into Hbar. */
#include "theory/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/size.h"
#include "optim/optim.h"

enum { STEPS_BETWEEN_REPORTS = 256 };

/* ---- the setup ------------------------------------------------------------------------------- */

/* The learning rate that keeps an epoch in the ball, see run.h. */
static double rate_of(const char *optimizer, const ms_objective *p, const ms_theory_params *params)
{
    const double size = sqrt((double)ms_objective_size(p));
    switch (ms_optimizer_find(optimizer)->family) {
    case MS_FAMILY_ORTHOGONALIZING: return params->eta * params->D;
    case MS_FAMILY_SIGN_LIKE: return params->eta * params->D * sqrt(params->rank) / size;
    default: return params->eta;
    }
}

musec_status ms_theory_setup_init(ms_error *e, const ms_objective *problem, const char *optimizer,
                                  int64_t steps, double delta, double sigma, uint64_t seed,
                                  ms_theory_setup *out)
{
    const double start = ms_objective_value(problem, problem->start, NULL);
    /* a problem whose minimum is not known is a mean of absolute values */
    const double least = isnan(problem->minimum) ? 0.0 : problem->minimum;
    musec_status st;

    *out = (ms_theory_setup){
        .problem = problem, .weakly_convex = isfinite(problem->rho), .sigma = sigma, .seed = seed
    };
    out->params = (ms_theory_params){ .delta     = delta,
                                      .steps     = steps,
                                      .rank      = (double)ms_objective_rank(problem),
                                      .rho       = out->weakly_convex ? problem->rho : 0.0,
                                      .lipschitz = hypot(problem->lipschitz, sigma),
                                      .sigma     = sigma,
                                      .gap       = fmax(start - least, 0.0) };
    TRY(ms_theory_params_set(e, &out->params));
    if (out->params.K < 1)
        return ms_fail(e, MUSEC_EINVAL,
                       "--steps is %lld: an epoch has T = %lld; take more steps or a smaller "
                       "--delta",
                       (long long)steps, (long long)out->params.T);
    if (ms_optimizer_find(optimizer) == NULL)
        return ms_theory_unknown(e, "optimizer", optimizer, musec_optim_name);
    TRY(musec_optim_config_init(&out->optim, sizeof out->optim, optimizer));
    out->optim.lr        = rate_of(optimizer, problem, &out->params);
    out->optim.beta      = fmin(out->params.beta, 1.0);
    out->optim.threshold = out->params.D;
    /* factors on steps and decay that come with a name would make another length of them */
    out->optim.shape_rule   = MUSEC_SHAPE_NONE;
    out->optim.decay_form   = MUSEC_DECAY_DECOUPLED;
    out->optim.update_scale = MUSEC_SCALE_PAPER;
    out->optim.avg_steps    = out->params.T;
    out->optim.avg_epochs   = out->params.K;
    out->optim.seed         = seed;
done:
    return st;
}

/* ---- the run --------------------------------------------------------------------------------- */

typedef struct run {
    const ms_theory_setup *setup;
    musec_ctx             *ctx;
    musec_optim           *opt;
    int64_t                size, T, K;
    double                *w, *g, *h; /* (size) */
    double                *sum;       /* (size) of H_1 / T ... H_t / T in this epoch */
    double                *path;      /* (T + 1, size) iterates of the epoch picked */
    ms_theory_result      *out;
} run;

static double distance(const double *x, const double *y, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sqrt(sum);
}

static musec_status allocate(ms_error *e, run *r)
{
    double **small[] = {
        &r->w, &r->g, &r->h, &r->sum, &r->out->returned, &r->out->optim_average, &r->out->epoch_move
    };
    const size_t bytes = (size_t)r->size * sizeof *r->w;
    size_t       path = 0, hbar = 0;
    bool         fits = ms_size_stack(1, r->T + 1, r->size, sizeof *r->w, &path) &&
                ms_size_stack(1, 1, r->K, sizeof *r->w, &hbar);

    for (size_t i = 0; i < COUNT(small); i++) {
        *small[i] = calloc(1, bytes);
        fits      = fits && *small[i] != NULL;
    }
    if (fits) {
        r->path      = malloc(path);
        r->out->hbar = malloc(hbar);
        fits         = r->path != NULL && r->out->hbar != NULL;
    }
    if (!fits)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for %lld epochs of %lld steps",
                       (long long)r->K, (long long)r->T);
    return MUSEC_OK;
}

static musec_status open_optimizer(ms_error *e, run *r)
{
    const ms_objective *p     = r->setup->problem;
    const musec_view    view  = musec_view_dense(r->w, MUSEC_F64, 1, p->rows, p->cols);
    const musec_param   param = { .name = "W", .role = MUSEC_ROLE_MATRIX, .weight = view };
    musec_status        st;

    TRY(musec_ctx_create_why(&r->ctx, "cpu", e->text, sizeof e->text));
    st = musec_optim_create(&r->opt, r->ctx, &r->setup->optim);
    if (st == MUSEC_OK) st = musec_optim_add(r->opt, &param, NULL);
    if (st != MUSEC_OK) st = ms_fail(e, st, "%s", musec_ctx_error(r->ctx));
done:
    return st;
}

/* Adds H_n to the mean of its epoch and W_n to the path of the epoch picked, n = k T + t. */
static void record(run *r, int64_t n)
{
    ms_theory_result *out  = r->out;
    const int64_t     from = out->picked * r->T;

    out->travel = fmax(out->travel, distance(r->w, r->setup->problem->start, r->size));
    if (n >= from && n <= from + r->T)
        memcpy(r->path + (n - from) * r->size, r->w, (size_t)r->size * sizeof *r->w);
    if (n == 0) return;
    for (int64_t i = 0; i < r->size; i++)
        r->sum[i] += r->h[i] / (double)r->T;
    if (n % r->T != 0) return;
    memset(r->g, 0, (size_t)r->size * sizeof *r->g); /* free until the next step's noise */
    out->hbar[n / r->T - 1] = distance(r->sum, r->g, r->size);
    memset(r->sum, 0, (size_t)r->size * sizeof *r->sum);
}

static musec_status take_steps(ms_error *e, run *r, void (*on_step)(void *, int64_t), void *arg)
{
    const ms_theory_setup *s = r->setup;
    const musec_view       view =
        musec_view_dense(r->g, MUSEC_F64, 1, s->problem->rows, s->problem->cols);
    const int64_t N  = r->T * r->K;
    musec_status  st = MUSEC_OK;

    for (int64_t n = 0;; n++) {
        r->out->f_end = ms_objective_value(s->problem, r->w, r->h);
        if (n == 0) r->out->f_start = r->out->f_end;
        record(r, n);
        r->out->steps = n;
        if (n == N) return MUSEC_OK;
        memcpy(r->g, r->h, (size_t)r->size * sizeof *r->g);
        ms_objective_noise(s->problem, s->sigma, s->seed, n, r->g);
        if (s->record != NULL)
            s->record(
                s->record_arg,
                &(ms_theory_step){
                    .n = n, .f = r->out->f_end, .w = r->w, .h = r->h, .g = r->g, .optim = r->opt });
        st = musec_optim_step(r->opt, &view, 1, 1.0);
        if (st == MUSEC_ENONFINITE) {
            r->out->diverged = true;
            return MUSEC_OK;
        }
        if (st != MUSEC_OK) return ms_fail(e, st, "%s", musec_ctx_error(r->ctx));
        if (on_step != NULL && n % STEPS_BETWEEN_REPORTS == 0) on_step(arg, n);
    }
}

/* Computes the results of the picked epoch: the mean of W_0 ... W_{T-1}, the spread around it. */
static musec_status finish(ms_error *e, run *r)
{
    ms_theory_result *out   = r->out;
    const size_t      bytes = (size_t)r->size * sizeof *r->w;
    const double     *last  = r->path + r->T * r->size;
    musec_status      st;

    out->hbar_mean = 0.0;
    for (int64_t k = 0; k < r->K; k++)
        out->hbar_mean += out->hbar[k] / (double)r->K;
    for (int64_t t = 0; t < r->T; t++)
        for (int64_t i = 0; i < r->size; i++)
            out->returned[i] += r->path[t * r->size + i] / (double)r->T;
    for (int64_t t = 0; t <= r->T; t++)
        out->spread = fmax(out->spread, distance(r->path + t * r->size, out->returned, r->size));
    for (int64_t i = 0; i < r->size; i++)
        out->epoch_move[i] = last[i] - r->path[i];
    out->f_returned = ms_objective_value(r->setup->problem, out->returned, NULL);
    st              = musec_optim_get_state(r->opt, 0, 0, "average", out->optim_average, bytes);
    if (st != MUSEC_OK) return ms_fail(e, st, "%s", musec_ctx_error(r->ctx));
    return MUSEC_OK;
}

musec_status ms_theory_run(ms_error *e, const ms_theory_setup              *setup,
                           void (*on_step)(void *arg, int64_t steps), void *arg,
                           ms_theory_result *out)
{
    run          r     = { .setup = setup,
                           .size  = ms_objective_size(setup->problem),
                           .T     = setup->optim.avg_steps,
                           .K     = setup->optim.avg_epochs,
                           .out   = out };
    const double start = ms_clock_ms();
    musec_status st;

    *out = (ms_theory_result){ .T = r.T, .K = r.K, .hbar_mean = NAN, .f_returned = NAN };
    if (r.T < 1 || r.K < 1)
        return ms_fail(e, MUSEC_EINVAL, "avg-steps and avg-epochs must be 1 or more");
    TRY(allocate(e, &r));
    memcpy(r.w, setup->problem->start, (size_t)r.size * sizeof *r.w);
    TRY(open_optimizer(e, &r));
    out->picked = ms_picked_epoch(r.opt);
    TRY(take_steps(e, &r, on_step, arg));
    if (!out->diverged) TRY(finish(e, &r));
    out->seconds = (ms_clock_ms() - start) / 1000.0;
done:
    musec_optim_destroy(r.opt);
    musec_ctx_destroy(r.ctx);
    free(r.path);
    free(r.sum);
    free(r.h);
    free(r.g);
    free(r.w);
    if (st != MUSEC_OK) ms_theory_result_free(out);
    return st;
}

void ms_theory_result_free(ms_theory_result *r)
{
    free(r->hbar);
    free(r->returned);
    free(r->optim_average);
    free(r->epoch_move);
    *r = (ms_theory_result){ 0 };
}
