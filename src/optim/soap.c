/* soap.c - SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al., arXiv 2409.11321;
 * nikhilvyas/SOAP).
 *
 *     X <- E_L G E_R^T                            the gradient in the bases as they are
 *     m <- b1 m + (1 - b1) X,   v <- b2 v + (1 - b2) X^2
 *     direction E_L^T (m / (sqrt(v) + eps) sqrt(1 - b2^t) / (1 - b1^t)) E_R
 *     L <- b L + (1 - b) G G^T,   R <- b R + (1 - b) G^T G
 *     at every precondition_every-th t: new bases (precondition.c), and m in them
 *
 * The first gradient is for the factors and the bases alone, so that no gradient meets a basis that
 * it is in: the direction is 0, and t counts from the second step on. */
#include <math.h>

#include "optim/bases.h"
#include "optim/precondition.h"

enum { M, V, FACTORS, BASES = FACTORS + MS_SIDES };

uint64_t ms_soap_bytes(const musec_optim_config *cfg, ms_mat whole)
{
    enum { MATRICES = 5 }; /* the gradient, turned and on its way; two to put v in order */
    return ms_precond_bytes(cfg, whole, MATRICES);
}

/* The first gradient: factors and bases of it, and no direction. */
static musec_status start(ms_device *d, const ms_direction *p, ms_mat g)
{
    const ms_device_ops *op      = d->ops;
    const ms_sides       factors = ms_sides_of(p, FACTORS), bases = ms_sides_of(p, BASES);
    ms_factor_coefs      coefs = ms_factor_coefs_of(p->cfg);
    musec_status         st    = MUSEC_OK;
    TRY(op->fill(d, 0.0, p->state[M]));
    TRY(op->fill(d, 0.0, p->state[V]));
    TRY(op->fill(d, 0.0, p->out));
    coefs.keep = 0.0; /* not even a NaN in the state must matter */
    TRY(ms_update_factors(d, coefs, g, factors));
    TRY(ms_first_bases(d, factors, bases));
done:
    return st;
}

/* Moves the bases on, and m from the old ones to the new ones. */
static musec_status refresh(ms_device *d, const ms_direction *p, ms_mat x, ms_mat tmp)
{
    const ms_sides factors = ms_sides_of(p, FACTORS), bases = ms_sides_of(p, BASES);
    const ms_mat   m  = p->state[M];
    musec_status   st = MUSEC_OK;
    TRY(ms_apply_sides(d, bases, true, m, tmp, x));
    TRY(ms_refresh_bases(d, factors, p->state[V], bases));
    TRY(ms_apply_sides(d, bases, false, x, tmp, m));
done:
    return st;
}

musec_status ms_soap_direction(ms_device *d, const ms_direction *p)
{
    const musec_optim_config *cfg   = p->cfg;
    const ms_mark             mark  = ms_arena_mark(&d->scratch);
    const ms_mat              out   = p->out;
    const ms_sides            bases = ms_sides_of(p, BASES);
    const int64_t             t     = p->t - 1;
    ms_moments                rates = { .beta1    = cfg->beta1,
                                        .beta2    = cfg->beta2,
                                        .correct1 = 1.0 - pow(cfg->beta1, (double)t),
                                        .correct2 = 1.0 - pow(cfg->beta2, (double)t) };
    ms_mat                    g, x, tmp;
    musec_status              st = MUSEC_OK;

    rates.eps = cfg->eps / sqrt(rates.correct2); /* it is added to sqrt(v), not to its correction */
    TRY(ms_precond_gradient(d, p, &g));
    if (t == 0) {
        TRY(start(d, p, g));
        goto done;
    }
    TRY(ms_scratch_mat(d, out.dtype, out.count, out.rows, out.cols, &x));
    TRY(ms_scratch_mat(d, out.dtype, out.count, out.rows, out.cols, &tmp));
    TRY(ms_apply_sides(d, bases, false, g, tmp, x));
    TRY(d->ops->moments(d, rates, x, p->state[M], p->state[V], (ms_mat){ 0 }, x));
    TRY(ms_apply_sides(d, bases, true, x, tmp, out));
    TRY(ms_update_factors(d, ms_factor_coefs_of(cfg), g, ms_sides_of(p, FACTORS)));
    if (t % cfg->precondition_every == 0) TRY(refresh(d, p, x, tmp));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
