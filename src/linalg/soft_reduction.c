/* soft_reduction.c - brings sigma_1 / D within the reach of 16-bit operands.
 *
 * With 16-bit operands the stages of a plan cannot lift singular values by more than about 30: what
 * is smaller drowns in the rounding of W, and no further stage brings it back.  A matrix with a
 * larger sigma_1 / D is therefore clipped in several phases, each of which forms a Gram matrix of
 * its own.  A reduction is a phase before the last.  It computes
 *     M' = Z M / q,   Z = T_2(W) T_1(W),   W = (M M^T + D_1^2 I) / alpha,   D_1 >= 10 D,
 * by the plan of `fast` with a smaller u_d.  Z multiplies sigma by p(u) / u, u^2 the eigenvalue of
 * W, and q is that factor where sigma is 0.  So M' has the small singular values of M, up to a few
 * D, and none above sqrt(alpha) / q, where q is up to 36.  What is left is the soft clip of M' with
 *     1 / D^2 = 1 / D'^2 + nu / D_1^2,   nu = -d log(p(u) / u) / d log u  at sigma = 0.
 * Were p constant (nu = 1), a reduction would be a soft clip itself, and this the exact rule by
 * which soft clips compose; where p is linear (nu = 0), singular values near D are multiplied by q
 * alone.  In between the rule is right up to the second order in sigma / D_1.  All in all the gain
 * of reductions and the phase after them is between 0.986 and 1.006 times that of the soft clip for
 * every sigma (tests/soft_reduction_test.c), including the 1e-2 that the last plan may fall short.
 *
 * An error of Z is a factor on M' from the left that is close to I: it changes no singular value by
 * more than its own relative size, and the last phase clips what it is given.  So rounding does not
 * grow from phase to phase, and the result is that of a matrix as near to M as M rounded to 16
 * bits.
 *
 * D_1 is chosen when alpha is known.  That costs nothing, because B = w - m I does not depend on
 * the multiple of I in w.  It is also at least min_u sqrt(alpha), which keeps W positive definite
 * beyond its rounding. That no singular value of M' exceeds sqrt(alpha) / q bounds the next alpha,
 * more tightly than fourth moments would.
 *
 * Which matrices take part is a mask on the device.  A reduction costs them as much as `fast`. */
#include "linalg/soft_engine.h"

/* Chooses D_1, and what follows for the matrices whose u_min lies below `reach`. */
static musec_status begin(ms_device *d, const ms_poly_plan *plan, ms_num threshold,
                          const ms_soft *e, ms_begin_reduction_vecs *out)
{
    const ms_compute_limits limits = ms_compute_limits_of(e->compute_dtype);
    ms_reduction_table      table;
    musec_status            st = MUSEC_OK;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j <= MS_STAGE_Q; j++)
            table.c[i][j] = plan->stage[i].c[j];
    TRY(MS_SCRATCH_VECS(d, e->b.count, out));
    TRY(ms_scalar_begin_reduction(d, &table, sizeof table,
                                  (ms_begin_reduction_nums){
                                      .reach        = ms_const(limits.short_u_d),
                                      .min_u        = ms_const(limits.reduction_min_u),
                                      .min_shift    = ms_const(limits.reduction_shift),
                                      .margin       = ms_const(limits.reduction_margin),
                                      .max_exponent = ms_const(limits.max_exponent),
                                      .tiny         = ms_const(ms_dtype_tiny(MUSEC_F32)),
                                      .u_min        = ms_each(e->u_min),
                                      .alpha        = ms_each(e->alpha),
                                      .norm2        = ms_each(e->norm2),
                                      .mean         = ms_each(e->mean),
                                      .s            = ms_each(e->s),
                                      .sd           = ms_each(e->sd),
                                      .sd2          = ms_each(e->sd2),
                                      .scale        = ms_each(e->scale),
                                      .threshold    = threshold,
                                  },
                                  *out));
done:
    return st;
}

/* Writes Z X over X. */
static musec_status apply(ms_device *d, ms_vec mask, const ms_soft *e)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, first = 0; i < e->n; first += e->p[i++].x.count) {
        const ms_mark      mark = ms_arena_mark(&d->scratch);
        const ms_prepared *p    = &e->p[i];
        const ms_mat       x = p->transposed ? ms_t(p->x) : p->x, none = { 0 };
        const ms_mat       z    = ms_mat_slice(e->z, first, x.count);
        ms_term            term = { .x_coef = ms_const(1.0), .out = x };
        ms_mat             zx;
        term.mask = ms_vec_slice(mask, first, x.count);
        TRY(ms_scratch_mat(d, x.dtype, x.count, x.rows, x.cols, &zx));
        /* which of the two sides of Z meets X first matters: see ms_apply */
        TRY(d->ops->product(d, &(ms_product){ .a     = p->transposed ? x : z,
                                              .b     = p->transposed ? ms_t(z) : x,
                                              .alpha = ms_const(1.0),
                                              .c     = zx,
                                              .mask  = term.mask }));
        TRY(d->ops->combine(d, zx, none, &term, 1));
        ms_arena_reset(&d->scratch, mark);
    }
done:
    return st;
}

/* Keeps the numbers of matrices that took no part as they were `before`. */
static musec_status select(ms_device *d, ms_vec mask, const ms_soft *before, ms_soft *e)
{
    return ms_scalar_end_reduction(
        d,
        (ms_end_reduction_nums){ .mask          = ms_each(mask),
                                 .old_norm2     = ms_each(before->norm2),
                                 .old_mean      = ms_each(before->mean),
                                 .old_inv_alpha = ms_each(before->inv_alpha),
                                 .old_alpha     = ms_each(before->alpha),
                                 .old_u_min     = ms_each(before->u_min),
                                 .old_gain      = ms_each(before->gain),
                                 .old_residual  = ms_each(before->residual),
                                 .norm2         = ms_each(e->norm2),
                                 .mean          = ms_each(e->mean),
                                 .inv_alpha     = ms_each(e->inv_alpha),
                                 .alpha         = ms_each(e->alpha),
                                 .u_min         = ms_each(e->u_min),
                                 .gain          = ms_each(e->gain),
                                 .residual      = ms_each(e->residual),
                                 .reductions    = before->reductions },
        (ms_end_reduction_vecs){ .norm2      = e->norm2,
                                 .mean       = e->mean,
                                 .inv_alpha  = e->inv_alpha,
                                 .alpha      = e->alpha,
                                 .u_min      = e->u_min,
                                 .gain       = e->gain,
                                 .residual   = e->residual,
                                 .reductions = e->reductions.each });
}

musec_status ms_soft_reduce(ms_device *d, const ms_poly_plan *plan, ms_num *threshold, ms_soft *e)
{
    const ms_soft           before = *e;
    ms_soft                 phase  = *e;
    ms_stage_schedule       schedule;
    ms_begin_reduction_vecs k;
    musec_status            st = MUSEC_OK;
    TRY(begin(d, plan, *threshold, e, &k));
    phase.mean = k.mean;
    phase.gain = k.gain;
    TRY(ms_schedule_plans(d, plan, 1, (ms_active_set){ true, k.mask }, e->u_min, &schedule));
    TRY(ms_run_stages(d, &schedule, ms_each(k.inv_alpha), &phase));
    TRY(apply(d, k.mask, &phase));
    e->s       = k.s;
    e->sd      = k.sd;
    e->sd2     = k.sd2;
    e->scale   = k.scale;
    *threshold = ms_each(k.threshold);
    TRY(ms_soft_restart(d, *threshold, k.mask, k.max_lambda, e));
    TRY(ms_scratch_vec(d, e->b.count, &e->reductions.each));
    TRY(select(d, k.mask, &before, e));
done:
    return st;
}
