/* defer.c - steps that the device decides on, so that the host waits for none.
 *
 * The largest |entries| of the gradients, found_inf and the gradients' scale are on the device.
 * There they become one number, 1 if the step is taken, and the numbers of steps taken, skipped,
 * and of each parameter, which moments are corrected by (`live`).  Then the whole step is queued
 * under that number as the guard of the device: where it is 0, no element op and no scalar program
 * writes, and these are all that write state and weights, but for the product by which a clip that
 * is stored ends, which has it as its mask.  A device without a queue has decided by the time it is
 * asked.
 *
 * The host counts steps as taken until it polls.  What it chooses by the number of a step is the
 * same from the second on, but for options that are refused here. */
#include <stdlib.h>

#include "optim/optim.h"

enum { TAKE, TAKEN, SKIPPED, FIRST }; /* of live: then steps, correct1, correct2 by parameter */

/* ---- what can be deferred -------------------------------------------------------------------- */

static const char *reason_against(const ms_device *d, const musec_optim *opt)
{
    const musec_optim_config *cfg   = &opt->cfg;
    const bool                clips = ms_spectral_clips(opt->spectral_fn);
    if (cfg->decay_form == MUSEC_DECAY_COUPLED) return "decay-form coupled, which asks the weights";
    if (cfg->avg_steps > 0) return "averages over epochs, which count steps";
    if (cfg->threshold_warmup > 0) return "threshold-warmup, which counts steps";
    if (opt->row->qk_clip) return "QK-Clip, whose logits the host has";
    if (cfg->alpha_warmup > 0 || cfg->beta3_warmup > 0)
        if (ms_base_reads(ms_base_find(cfg->base), "alpha-warmup"))
            return "a warmup of alpha or beta3, which counts steps";
    if (ms_base_find(cfg->base)->waits)
        return "a base that waits for the device at its steps (soap, shampoo, kl-shampoo, dion2)";
    if (opt->spectral_fn == MS_SPECTRAL_NONE) return NULL;
    if (cfg->ns_mode == MUSEC_NS_EXACT) return "ns-mode exact: decompositions wait";
    if (clips && cfg->threshold_rule == MUSEC_THRESHOLD_QUANTILE)
        return "a threshold by quantile, which waits";
    if (clips && cfg->ns_mode == MUSEC_NS_ACCURATE &&
        !ms_is_16bit(cfg->operands == 0 ? d->kind->compute_dtype : (musec_dtype)cfg->operands))
        return "ns-mode accurate without operands of 16 bits, which may decompose";
    return NULL;
}

musec_status ms_defer_check(ms_device *d, const musec_optim *opt)
{
    const char *reason = opt->deferred ? reason_against(d, opt) : NULL;
    if (reason == NULL) return MUSEC_OK;
    return ms_fail(&d->error, MUSEC_ENOTSUP,
                   "nonfinite is defer, and that does not go with %s; take skip or stop", reason);
}

/* ---- numbers of steps ------------------------------------------------------------------------ */

static size_t live_count(const musec_optim *opt) { return FIRST + 3 * opt->n_params; }

musec_status ms_take_live(musec_optim *opt)
{
    void        *data = NULL;
    musec_status st   = MUSEC_OK;
    if (!opt->deferred) return MUSEC_OK;
    opt->live_host = calloc(live_count(opt) + 3 * opt->n_params, sizeof *opt->live_host);
    if (opt->live_host == NULL)
        return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the numbers of steps");
    TRY(opt->d->ops->alloc(opt->d, live_count(opt) * sizeof(double), &data));
    opt->live       = (ms_vec){ data, (int64_t)live_count(opt) };
    opt->live_stale = true;
done:
    return st;
}

static musec_status send_live(musec_optim *opt)
{
    if (!opt->live_stale) return MUSEC_OK;
    opt->live_host[TAKE]    = 0.0;
    opt->live_host[TAKEN]   = (double)opt->t;
    opt->live_host[SKIPPED] = (double)opt->skipped;
    for (size_t i = 0; i < opt->n_params; i++)
        opt->live_host[FIRST + i] = (double)opt->params[i].t;
    const musec_status st = opt->d->ops->upload(
        opt->d, opt->live_host, (FIRST + opt->n_params) * sizeof(double), opt->live.data);
    if (st == MUSEC_OK) opt->live_stale = false;
    return st;
}

musec_status ms_poll_live(musec_optim *opt)
{
    musec_status st = MUSEC_OK;
    if (!opt->deferred || !opt->ready || opt->live_stale) return MUSEC_OK;
    TRY(ms_vec_download(opt->d, ms_vec_slice(opt->live, 0, (int64_t)(FIRST + opt->n_params)),
                        opt->live_host));
    opt->t       = (int64_t)opt->live_host[TAKEN];
    opt->skipped = (int64_t)opt->live_host[SKIPPED];
    for (size_t i = 0; i < opt->n_params; i++)
        opt->params[i].t = (int64_t)opt->live_host[FIRST + i];
done:
    return st;
}

musec_status musec_optim_poll(musec_optim *opt)
{
    if (opt == NULL) return MUSEC_EINVAL;
    const ms_caller    caller = ms_device_enter(opt->d);
    const musec_status st     = ms_poll_live(opt);
    ms_device_leave(caller);
    return st;
}

const double *ms_live_correct(const musec_optim *opt, size_t param, int64_t *step)
{
    *step = (int64_t)opt->n_params;
    return opt->live.data + FIRST + opt->n_params + param;
}

/* ---- the decision ---------------------------------------------------------------------------- */

static ms_vec live_part(const musec_optim *opt, size_t from, size_t n)
{
    return ms_vec_slice(opt->live, (int64_t)from, (int64_t)n);
}

/* The same number n times, from one in float32 or float64 on the device. */
static musec_status repeat(musec_optim *opt, const void *from, musec_dtype dtype, ms_vec to)
{
    const ms_mat x = { .data  = (void *)from, /* only read */
                       .rows  = 1,
                       .cols  = 1,
                       .ld    = 1,
                       .count = to.count,
                       .dtype = dtype };
    ms_mat       y = x;
    y.data         = to.data;
    y.stride       = 1;
    y.dtype        = MUSEC_F64;
    return opt->d->ops->copy(opt->d, x, y);
}

/* What each of the numbers in s->absmax may be, in host memory: the least that a state takes which
 * some of the matrix goes into. */
static void limits_of(const ms_step *s, double *limits)
{
    const musec_optim *opt = s->opt;
    for (int64_t k = 0; k < s->n_absmax; k++)
        limits[k] = ms_dtype_max(MUSEC_F64);
    for (size_t i = 0; i < opt->n_groups; i++) {
        const double *observed = s->host->groups[i].observed;
        for (int64_t m = 0; m < opt->groups[i].count; m++) {
            const size_t  p   = opt->groups[i].members[m].param;
            const int64_t at  = s->host->grad_at[p];
            const double  max = ms_max_grad(s, &opt->groups[i], m);
            if (observed != NULL) limits[observed - s->host->absmax + m] = max;
            for (int64_t b = 0; at >= 0 && b < opt->params[p].weight.count; b++)
                if (max < limits[at + b]) limits[at + b] = max;
        }
    }
}

/* Counts what is too large into excess. */
static musec_status count_excess(ms_step *s, ms_vec scale, ms_vec excess)
{
    musec_optim  *opt = s->opt;
    const int64_t n   = s->n_absmax;
    ms_vec        each;
    musec_status  st = MUSEC_OK;
    if (n == 0)
        return opt->d->ops->fill(opt->d, 0.0,
                                 (ms_mat){ .data  = excess.data,
                                           .rows  = 1,
                                           .cols  = 1,
                                           .ld    = 1,
                                           .count = 1,
                                           .dtype = MUSEC_F64 });
    TRY(ms_scratch_vec(opt->d, n, &each));
    limits_of(s, s->host->absmax);
    TRY(ms_scalar_is_excess(
        opt->d,
        (ms_is_excess_nums){ .absmax = ms_each(ms_vec_slice(s->absmax, 0, n)),
                             .scale  = scale.data != NULL ? ms_each(scale) : ms_const(1.0),
                             .max    = ms_host(s->host->absmax) },
        (ms_is_excess_vecs){ each }));
    TRY(opt->d->ops->sum(opt->d,
                         (ms_mat){ .data   = each.data,
                                   .rows   = 1,
                                   .cols   = n,
                                   .ld     = n,
                                   .count  = 1,
                                   .stride = n,
                                   .dtype  = MUSEC_F64 },
                         excess));
done:
    return st;
}

/* Numbers of steps, under the decision, and the corrections of this step. */
static musec_status count_step(ms_step *s)
{
    musec_optim  *opt = s->opt;
    const size_t  n   = opt->n_params;
    double       *has = opt->live_host + live_count(opt), *beta1 = has + n, *beta2 = beta1 + n;
    const ms_vec  steps    = live_part(opt, FIRST, n);
    const int64_t capacity = s->host->capacity;
    musec_status  st       = MUSEC_OK;
    for (size_t i = 0; i < n; i++) {
        const bool                matrix = (int)opt->params[i].role < MUSEC_MATRIX_ROLES;
        const musec_optim_config *cfg    = matrix ? &opt->cfg : &opt->aux_cfg;
        has[i]                           = s->grads[i].data != NULL ? 1.0 : 0.0;
        beta1[i]                         = cfg->beta1;
        beta2[i]                         = cfg->beta2;
    }
    TRY(ms_scratch_vec(opt->d, (int64_t)n > capacity ? (int64_t)n : capacity, &s->take));
    TRY(repeat(opt, live_part(opt, TAKE, 1).data, MUSEC_F64, s->take));
    TRY(ms_scalar_count_step(opt->d,
                             (ms_count_step_nums){ .take     = ms_each(s->take),
                                                   .has_grad = ms_host(has),
                                                   .steps    = ms_each(steps),
                                                   .beta1    = ms_host(beta1),
                                                   .beta2    = ms_host(beta2) },
                             (ms_count_step_vecs){ .steps    = steps,
                                                   .correct1 = live_part(opt, FIRST + n, n),
                                                   .correct2 = live_part(opt, FIRST + 2 * n, n) }));
done:
    return st;
}

/* The scale of the gradients and its inverse, as often as a call may want them. */
static musec_status read_scale(ms_step *s, ms_vec *scale)
{
    musec_optim *opt = s->opt;
    musec_status st  = MUSEC_OK;
    *scale           = (ms_vec){ 0 };
    if (s->args.grad_scale == NULL || s->host->capacity == 0) return MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, s->host->capacity, scale));
    TRY(ms_scratch_vec(opt->d, s->host->capacity, &s->inv_scale));
    TRY(repeat(opt, s->args.grad_scale, MUSEC_F32, *scale));
    TRY(ms_scalar_divide(
        opt->d, (ms_divide_nums){ .numerator = ms_const(1.0), .denominator = ms_each(*scale) },
        (ms_divide_vecs){ s->inv_scale }));
done:
    return st;
}

musec_status ms_defer_decide(ms_step *s, bool *take)
{
    musec_optim *opt = s->opt;
    ms_device   *d   = opt->d;
    ms_vec       scale, numbers;
    musec_status st = MUSEC_OK;
    s->grad_factor  = 1.0;
    TRY(send_live(opt));
    TRY(ms_ask_gradients(s));
    TRY(read_scale(s, &scale));
    TRY(ms_scratch_vec(d, 2, &numbers));
    TRY(count_excess(s, scale, ms_vec_slice(numbers, 0, 1)));
    if (s->args.found_inf != NULL)
        TRY(ms_read_float(opt, s->args.found_inf, ms_vec_slice(numbers, 1, 1)));
    TRY(ms_scalar_decide_step(
        d,
        (ms_decide_step_nums){
            .excess = ms_each(ms_vec_slice(numbers, 0, 1)),
            .found_inf =
                s->args.found_inf != NULL ? ms_each(ms_vec_slice(numbers, 1, 1)) : ms_const(0.0),
            .scale   = scale.data != NULL ? ms_each(ms_vec_slice(scale, 0, 1)) : ms_const(1.0),
            .taken   = ms_each(live_part(opt, TAKEN, 1)),
            .skipped = ms_each(live_part(opt, SKIPPED, 1)) },
        (ms_decide_step_vecs){ .take    = live_part(opt, TAKE, 1),
                               .taken   = live_part(opt, TAKEN, 1),
                               .skipped = live_part(opt, SKIPPED, 1) }));
    TRY(count_step(s));
    *take = true;
    if (d->kind->stream != NULL) {
        d->guard = opt->live.data + TAKE;
    } else {
        *take = opt->live.data[TAKE] != 0.0;
        if (!*take) TRY(ms_poll_live(opt));
    }
done:
    return st;
}

/* ---- capture --------------------------------------------------------------------------------- */

/* Why a step like the last one cannot be captured, or NULL. */
static const char *reason_not_steady(const musec_optim *opt)
{
    if (opt->d->kind->stream == NULL) return "the device has no stream that could be captured";
    if (!opt->deferred)
        return "a step waits to see whether its gradients are finite: set nonfinite to defer";
    if (!opt->last_taken)
        return "no step was taken yet: memory and plans are made by the first ones";
    if (opt->cfg.momentum_dtype != MUSEC_MOMENTUM_OWN)
        return "momentum in bf16 is rounded by draws that a graph would repeat";
    if (opt->last_allocs > 0 || opt->d->scratch.n_chunks > 1)
        return "the workspace grew at the last step: take another one";
    if (opt->d->scratch.n_chunks == 0 && opt->d->allocator.alloc == NULL)
        return "the workspace was given back: take another step";
    if (opt->live_stale || opt->last_uploads > 0)
        return "the last step sent numbers to the device: take another one";
    if (opt->last_waits > 0) return "the last step waited, as the first ones do: take another one";
    return NULL;
}

bool ms_step_is_steady(const musec_optim *opt) { return reason_not_steady(opt) == NULL; }

int musec_optim_can_capture(const musec_optim *opt, char *why, size_t bytes)
{
    ms_error    words  = { "" };
    const char *reason = opt == NULL ? "there is no optimizer" : reason_not_steady(opt);
    if (reason == NULL && opt->cfg.report_every > 0)
        reason = "steps are measured: set report-every to 0";
    if (reason != NULL) ms_error_set(&words, "%s", reason);
    ms_error_copy(&words, why, bytes);
    return reason == NULL;
}
