/* shampoo.c - Shampoo (Gupta, Koren, Singer, arXiv 1802.09568) with an average of the gradient and
 * the norm of Adam's update, as in the Distributed Shampoo package (Shi et al., arXiv 2309.06497).
 *
 *     m <- b1 m + (1 - b1) G,   v <- b2 v + (1 - b2) G^2,   A = Adam's direction of both
 *     L <- b L + (1 - b) G G^T,   R <- b R + (1 - b) G^T G
 *     at every precondition_every-th t: P = (L / (1 - b^t) + eps I)^(-1/4), Q of R likewise
 *     direction P m Q |A| / |P m Q|, and A before there are any roots
 *
 * Without grafting it is P m Q / (1 - b1^t), and m / (1 - b1^t) before.  With one side alone the
 * exponent is -1/2.  b = 1 makes sums of the averages, as in the first paper. */
#include <math.h>

#include "optim/bases.h"
#include "optim/precondition.h"

enum { M, V, FACTORS, ROOTS = FACTORS + MS_SIDES };

uint64_t ms_shampoo_bytes(const musec_optim_config *cfg, ms_mat whole)
{
    enum { MATRICES = 3 }; /* the gradient, Adam's direction, and a product on its way */
    return ms_precond_bytes(cfg, whole, MATRICES);
}

static musec_status update_roots(ms_device *d, const ms_direction *p)
{
    const ms_sides factors  = ms_sides_of(p, FACTORS);
    const bool     both     = factors.of[MS_LEFT].data != NULL && factors.of[MS_RIGHT].data != NULL;
    const double   keep     = ms_factor_coefs_of(p->cfg).keep;
    const double   correct  = keep < 1.0 ? 1.0 - pow(keep, (double)p->t) : 1.0;
    const double   exponent = both ? -0.25 : -0.5;
    return ms_factor_roots(d, factors, correct, p->cfg->precondition_eps, exponent,
                           ms_sides_of(p, ROOTS));
}

/* Scales x to the norms of y. */
static musec_status graft(ms_device *d, ms_mat y, ms_mat x)
{
    ms_vec       before, after;
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_vec(d, x.count, &before));
    TRY(ms_scratch_vec(d, x.count, &after));
    TRY(d->ops->sumsq(d, y, before));
    TRY(d->ops->sumsq(d, x, after));
    TRY(ms_scalar_keep_norm(
        d, (ms_keep_norm_nums){ .before = ms_each(before), .after = ms_each(after) },
        (ms_keep_norm_vecs){ after }));
    TRY(d->ops->scale(d, ms_each(after), x));
done:
    return st;
}

musec_status ms_shampoo_direction(ms_device *d, const ms_direction *p)
{
    const musec_optim_config *cfg    = p->cfg;
    const ms_mark             mark   = ms_arena_mark(&d->scratch);
    const ms_mat              out    = p->out;
    const bool                grafts = cfg->graft == MUSEC_GRAFT_ADAM;
    const ms_moments          rates  = { .beta1    = cfg->beta1,
                                         .beta2    = cfg->beta2,
                                         .eps      = cfg->eps,
                                         .correct1 = 1.0 - pow(cfg->beta1, (double)p->t),
                                         .correct2 = 1.0 - pow(cfg->beta2, (double)p->t) };
    ms_factor_coefs           coefs  = ms_factor_coefs_of(cfg);
    ms_mat                    g, adam, tmp;
    musec_status              st = MUSEC_OK;

    TRY(ms_precond_gradient(d, p, &g));
    TRY(ms_scratch_mat(d, out.dtype, out.count, out.rows, out.cols, &adam));
    TRY(ms_scratch_mat(d, out.dtype, out.count, out.rows, out.cols, &tmp));
    TRY(d->ops->moments(d, rates, g, p->state[M], p->state[V], (ms_mat){ 0 }, adam));
    if (p->t == 1) coefs.keep = 0.0;
    TRY(ms_update_factors(d, coefs, g, ms_sides_of(p, FACTORS)));
    if (p->t % cfg->precondition_every == 0) TRY(update_roots(d, p));
    if (p->t >= cfg->precondition_every)
        TRY(ms_apply_sides(d, ms_sides_of(p, ROOTS), false, p->state[M], tmp, out));
    else
        TRY(d->ops->copy(d, grafts ? adam : p->state[M], out));
    if (!grafts)
        TRY(d->ops->scale(d, ms_const(1.0 / rates.correct1), out));
    else if (p->t >= cfg->precondition_every)
        TRY(graft(d, adam, out));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
