/* scale_prediction.c - the scales of 16-bit update directions, from predicted and observed max|G|.
 *
 * Where the operator's products round their operands to 16 bits, the pass that averages the
 * momentum writes the direction in 16 bits, and in float32 only where somebody reads it so.  Its
 * scale must be known before that pass.  It comes from a bound b of the largest entry of M:
 *
 *     b <- keep b + add max|G|,   and at most D where the clipped momentum is stored,
 *
 * as no entry is above the spectral norm.  A clip may enlarge an entry, but not |M|_F, so
 * |M|_F <= sqrt(rows cols) b throughout: no entry of M / b is above that root, and f16 holds it up
 * to 2^30 elements.  From below, averages of random gradients have entries of about b / 8 and more,
 * where f16 loses none.
 *
 * D = K |M|_F / sqrt(r) is not known to the host.  But the square of a clipped singular value is a
 * concave function of its square, so the clip has the largest norm if all singular values are
 * equal: b is then multiplied by the clip of 1 at K.  By a quantile b stays as it is.
 *
 * max|G| is asked for anyway, as a step changes nothing if a gradient is not finite.  But a pass
 * over all gradients before the one that averages them is a pass too many.  Where the clipped
 * momentum is stored, averaging changes no state, and so it comes first:
 *
 *     predict    max|G| is PREDICTION times that of the last step;
 *     average    by the scale of that, observing the true max|G| in the same pass;
 *     validate   the prediction holds while it is above the true value by no more than SLACK, which
 *                f16 has to spare; otherwise the group is averaged again.
 *
 * The scale is the same whether the group was averaged on the prediction or afterwards.  But what
 * is asked of a weight of several blocks is the largest of all of them.
 *
 * Where the device decides on a step (defer.c), bounds and predictions live there (live_bound,
 * live_prediction), and so do the checks: averaging again is queued with a mask of the matrices
 * whose prediction does not hold, which are none as a rule.  The host only knows whether there is
 * anything to predict from. */
#include <math.h>

#include "optim/optim.h"

enum {
    PREDICTION    = 4,
    SLACK         = 16,
    MAX_SCALE_EXP = 96, /* results that are far larger or smaller are numbers in float32 still */
};

static double predicted_absmax(const ms_group *g, int64_t m)
{
    return PREDICTION * g->last_absmax[m];
}

double ms_observed_absmax(const ms_step *s, const ms_group *g, int64_t m)
{
    const ms_group_step *gs = &s->host->groups[g - s->opt->groups];
    return gs->observed != NULL ? gs->observed[m] : ms_checked_absmax(s, &g->members[m]);
}

static bool prediction_holds(const ms_group *g, int64_t m, double observed)
{
    const double predicted = predicted_absmax(g, m);
    return predicted > 0.0 && predicted < INFINITY && observed <= predicted &&
           observed >= predicted / SLACK;
}

static bool has_unknown_bounds(const musec_optim *opt, const ms_group *g)
{
    bool unknown = false;
    for (int64_t m = 0; ms_group_fuses_rounding(opt, g) && m < g->count; m++)
        unknown = unknown || g->momentum_bound[m] < 0.0;
    return unknown;
}

/* Measures the bounds of momentum that came from a file without them, or from the caller. */
static musec_status measure_bounds(musec_optim *opt, ms_group *g)
{
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    ms_vec        absmax;
    musec_status  st = MUSEC_OK;
    if (!has_unknown_bounds(opt, g)) return MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, g->n_slots, &absmax));
    TRY(opt->d->ops->absmax(opt->d, g->state[0], absmax));
    TRY(ms_vec_download(opt->d, absmax, opt->host->absmax));
    for (int64_t m = 0; m < g->count; m++)
        if (g->momentum_bound[m] < 0.0)
            g->momentum_bound[m] = opt->host->absmax[g->members[m].slot];
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* The same on the device, which waits for nothing. */
static musec_status measure_live_bounds(musec_optim *opt, ms_group *g)
{
    musec_status st = MUSEC_OK;
    if (!has_unknown_bounds(opt, g)) return MUSEC_OK;
    TRY(opt->d->ops->absmax(opt->d, g->state[0], g->live_bound));
    for (int64_t m = 0; m < g->count; m++)
        g->momentum_bound[m] = 0.0;
done:
    return st;
}

/* log2 of the scales that the bounds of a group and those fusible with it give, on average over all
 * of them, whatever is fused.  A product takes it as a float32, and a multiple of 4, so that the
 * fourth root of the gain, which is a factor of coefficients, keeps its digits. */
static int typical_scale(const musec_optim *opt, const ms_group *g)
{
    int64_t sum = 0, n = 0;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *one = &opt->groups[i];
        for (int64_t m = 0; (one == g || ms_groups_fusible(opt, g, one)) && m < one->count; m++) {
            const double bound = one->momentum_bound[m];
            int          e     = 0;
            if (!(bound > 0.0 && bound < INFINITY)) continue;
            (void)frexp(bound, &e);
            sum -= e > MAX_SCALE_EXP ? MAX_SCALE_EXP : e < -MAX_SCALE_EXP ? -MAX_SCALE_EXP : e;
            n++;
        }
    }
    return n > 0 ? 4 * (int)(sum / (4 * n)) : 0;
}

/* Says whether there is a prediction for each member.  With beta = 1 there is no average: the state
 * is not to be read. */
static bool is_predictable(const ms_step *s, const ms_group *g)
{
    bool can = ms_group_has_grads(s, g);
    for (int64_t m = 0; can && m < g->count; m++)
        can = ms_step_beta(s, g, m) < 1.0 && ms_member_param(s->opt, g, m)->t > 0 &&
              (s->opt->deferred ||
               (g->momentum_bound[m] >= 0.0 && prediction_holds(g, m, predicted_absmax(g, m))));
    return can;
}

/* Takes memory for the directions of a group that predicts: at every step, so that memory never
 * grows. */
static musec_status take_predicted(ms_step *s, const ms_group *g, ms_group_step *gs)
{
    musec_optim *opt = s->opt;
    musec_status st  = MUSEC_OK;
    if (!g->predictions_fit ||
        g->n_slots < g->count) /* no step takes all of a group that ranks have divided */
        return MUSEC_OK;
    TRY(ms_take_scaled(opt, g, g->count, &gs->scaled));
    gs->scaled.scale_exponent = gs->scale_exp;
    gs->predicted             = is_predictable(s, g);
done:
    return st;
}

musec_status ms_take_scaled(musec_optim *opt, const ms_group *g, int64_t n, ms_scaled_mat *scaled)
{
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, n, &scaled->scale));
    TRY(ms_scratch_mat(opt->d, g->operands, n, g->rows, g->cols, &scaled->mat));
done:
    return st;
}

/* The bounds of the momentum before this step, and max|G| as predicted, of all members. */
static void start_bounds(const ms_step *s, const ms_group *g, int64_t at, ms_group_step *gs)
{
    gs->momentum_bound = s->host->momentum_bound + at;
    gs->grad_absmax    = s->host->grad_absmax + at;
    for (int64_t m = 0; m < g->count; m++) {
        gs->momentum_bound[m] = g->momentum_bound[m];
        gs->grad_absmax[m]    = predicted_absmax(g, m) / s->grad_factor;
    }
}

musec_status ms_predict_scales(ms_step *s)
{
    musec_optim *opt = s->opt;
    int64_t      at  = 0;
    musec_status st  = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++)
        TRY(opt->deferred ? measure_live_bounds(opt, &opt->groups[i])
                          : measure_bounds(opt, &opt->groups[i]));
    for (size_t i = 0; i < opt->n_groups; at += opt->groups[i++].count) {
        const ms_group *g  = &opt->groups[i];
        ms_group_step  *gs = &s->host->groups[i];
        *gs = (ms_group_step){ .scale_exp = opt->deferred ? 0 : typical_scale(opt, g) };
        start_bounds(s, g, at, gs);
        TRY(take_predicted(s, g, gs));
        /* gradients that carry a scale are read without it only once that is known */
        if (opt->deferred && s->args.grad_scale != NULL) gs->predicted = false;
    }
    TRY(ms_average_predicted(s));
done:
    return st;
}

/* What a clip that is stored makes of a bound: `factor` times it, and at most `max`. */
static void clipped_bound(const musec_optim *opt, const ms_group *g, double *factor, double *max)
{
    const double D    = opt->cfg.threshold;
    const int    rule = opt->cfg.threshold_rule;
    *factor           = 1.0;
    *max              = INFINITY;
    if (!ms_group_stores_clipped(opt, g)) return;
    if (rule == MUSEC_THRESHOLD_FIXED) *max = D;
    if (rule == MUSEC_THRESHOLD_RMS)
        *factor = fmin(D, 1.0) * ms_clip_bend(opt->sharpness, fmin(D, 1.0 / D));
}

static ms_momentum_coefs coefs_at(const ms_step *s, const ms_group *g, int64_t m)
{
    const musec_optim_config cfg = ms_member_config(s, g, m);
    return ms_momentum_coefs_at(&cfg, ms_member_param(s->opt, g, m)->t + 1);
}

/* The bound of a member's momentum as this step will leave it. */
static double next_bound(const ms_step *s, const ms_group *g, int64_t m, double observed)
{
    const ms_momentum_coefs c = coefs_at(s, g, m);
    double                  factor, max;
    clipped_bound(s->opt, g, &factor, &max);
    return fmin(factor * ((c.keep != 0.0 ? c.keep * g->momentum_bound[m] : 0.0) + c.add * observed),
                max);
}

void ms_validate_scales(ms_step *s)
{
    const musec_optim *opt = s->opt;
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group      *g        = &opt->groups[i];
        ms_group_step *gs       = &s->host->groups[i];
        const bool     predicts = ms_group_predicts(opt, g);
        for (int64_t m = 0; ms_group_fuses_rounding(opt, g) && m < g->count; m++) {
            if (!ms_member_has_grad(s, g, m)) continue;
            const double observed = ms_observed_absmax(s, g, m);
            const bool   holds    = predicts && prediction_holds(g, m, observed);
            gs->predicted         = gs->predicted && holds;
            gs->grad_absmax[m]    = (holds ? predicted_absmax(g, m) : observed) / s->grad_factor;
            g->momentum_bound[m]  = next_bound(s, g, m, observed);
            if (predicts) g->last_absmax[m] = observed;
        }
    }
}

/* ---- on the device --------------------------------------------------------------------------- */

musec_status ms_update_live_bounds(ms_step *s, const ms_group *g, int64_t first, ms_vec absmax)
{
    const int64_t            n   = absmax.count;
    const ms_momentum_coefs  c   = coefs_at(s, g, first);
    const ms_next_bound_vecs out = { .bound      = ms_vec_slice(g->live_bound, first, n),
                                     .prediction = ms_vec_slice(g->live_prediction, first, n) };
    double                   factor, max;
    clipped_bound(s->opt, g, &factor, &max);
    return ms_scalar_next_bound(s->opt->d,
                                (ms_next_bound_nums){ .m_weight   = ms_const(c.keep),
                                                      .g_weight   = ms_const(c.add),
                                                      .bound      = ms_each(out.bound),
                                                      .absmax     = ms_each(absmax),
                                                      .factor     = ms_const(factor),
                                                      .max        = ms_const(max),
                                                      .prediction = ms_const(PREDICTION) },
                                out);
}

musec_status ms_validate_live_scales(ms_step *s, const ms_group *g, int64_t first, ms_direction *p)
{
    const ms_group_step    *gs        = &s->host->groups[g - s->opt->groups];
    const int64_t           n         = p->scaled.mat.count;
    const int64_t           at        = gs->observed - s->host->absmax + first;
    const ms_momentum_coefs c         = coefs_at(s, g, first);
    const ms_vec            bound     = ms_vec_slice(g->live_bound, first, n);
    const ms_vec            predicted = ms_vec_slice(g->live_prediction, first, n);
    double                  factor, max;
    musec_status            st = MUSEC_OK;
    clipped_bound(s->opt, g, &factor, &max);
    TRY(ms_scratch_vec(s->opt->d, n, &p->redo));
    TRY(ms_scratch_vec(s->opt->d, n, &p->m_coef));
    TRY(ms_scratch_vec(s->opt->d, n, &p->g_coef));
    TRY(ms_scalar_validate_scale(
        s->opt->d,
        (ms_validate_scale_nums){ .predicted  = ms_each(predicted),
                                  .observed   = ms_each(ms_vec_slice(s->absmax, at, n)),
                                  .slack      = ms_const(SLACK),
                                  .m_weight   = ms_const(c.keep),
                                  .g_weight   = ms_const(c.add),
                                  .bound      = ms_each(bound),
                                  .threshold  = ms_const(p->zero_scale),
                                  .factor     = ms_const(factor),
                                  .max        = ms_const(max),
                                  .prediction = ms_const(PREDICTION) },
        (ms_validate_scale_vecs){ .redo       = p->redo,
                                  .absmax     = ms_vec_slice(gs->live_absmax, first, n),
                                  .scale      = p->scaled.scale,
                                  .m_coef     = p->m_coef,
                                  .g_coef     = p->g_coef,
                                  .bound      = bound,
                                  .prediction = predicted }));
done:
    return st;
}

musec_status ms_fetch_live(musec_optim *opt)
{
    musec_status st = MUSEC_OK;
    TRY(ms_poll_live(opt));
    TRY(ms_take_changes(opt));
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group *g = &opt->groups[i];
        if (g->live_bound.data == NULL) continue;
        TRY(measure_live_bounds(opt, g));
        TRY(ms_vec_download(opt->d, g->live_bound, g->momentum_bound));
        TRY(ms_vec_download(opt->d, g->live_prediction, g->last_absmax));
        for (int64_t m = 0; m < g->count; m++)
            g->last_absmax[m] /= PREDICTION;
    }
done:
    return st;
}

musec_status ms_send_live_bounds(musec_optim *opt)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g     = &opt->groups[i];
        const size_t    bytes = (size_t)g->count * sizeof(double);
        if (g->live_bound.data == NULL) continue;
        for (int64_t m = 0; m < g->count; m++)
            g->last_absmax[m] *= PREDICTION;
        TRY(opt->d->ops->upload(opt->d, g->momentum_bound, bytes, g->live_bound.data));
        TRY(opt->d->ops->upload(opt->d, g->last_absmax, bytes, g->live_prediction.data));
        TRY(opt->d->ops->sync(opt->d));
    }
done:
    return st;
}
