/* sharp_clip.c - from the soft clip to sharper ones, and to the hard one, by a few more products.
 *
 * The stages of soft clipping end with Z, Z X being the soft clip.  Its singular values relative to
 * D are s = sqrt(t), t = sigma^2 / (sigma^2 + D^2), and the eigenvalues of Z Z^T, scaled, are
 *     zeta = D^2 / (sigma^2 + D^2) = 1 - t.
 * A clip of sharpness p, sigma / (1 + (sigma / D)^p)^(1/p), is s times
 *     g_p = (zeta^(p/2) + (1 - zeta)^(p/2))^(-1/p),   hard: max(zeta, 1 - zeta)^(-1/2),
 * which lies in [1, sqrt(2)] whatever sigma_1 / D is, and is an even function of x = 1 - 2 zeta.
 * So it takes a polynomial on [-1, 1] and no large power of A.  zeta is formed as a square: 1 - t
 * would lose all digits where sigma is far above D.
 *
 * The polynomial is a chain of symmetric products,
 *     Y_0 = I - 2 zeta,   Y_k = a_k Y_{k-1}^2 + b_k Y_{k-2} + d_k I,   result = Y_n Z X
 * (sharp_chain.h), n + 1 of half the work and a full one, Y_n Z.  An error of the soft stage, whose
 * singular values are too small by a factor c <= 1, comes with zeta too small by c^2.  Then
 * s^2 + zeta = c^2 <= 1, so the result of the hard clip never exceeds D, and below D, where g is
 * zeta^(-1/2), the error cancels. */
#include "linalg/soft_engine.h"

musec_status ms_sharpen(ms_device *d, ms_soft *e)
{
    const ms_sharp_chain *chain  = e->sharp;
    const ms_mat          mats[] = { e->b, e->q, e->t, e->y };
    ms_mat                y[3], z = e->z;
    int                   n = 0;
    ms_sharp_coef_vecs    coef;
    musec_status          st = MUSEC_OK;
    if (chain == NULL) return MUSEC_OK;
    for (int i = 0; n < 3; i++)
        if (mats[i].data != z.data) y[n++] = mats[i];
    TRY(MS_SCRATCH_VECS(d, z.count, &coef));
    TRY(ms_scalar_sharp_coef(d,
                             (ms_sharp_coef_nums){ .scale     = ms_each(e->scale),
                                                   .residual  = ms_each(e->residual),
                                                   .out_scale = ms_const(e->out_scale) },
                             coef));
    TRY(d->ops->product(d, &(ms_product){ .a         = z,
                                          .b         = ms_t(z),
                                          .alpha     = ms_each(coef.square),
                                          .diag      = ms_const(1.0),
                                          .c         = y[0],
                                          .symmetric = true }));
    for (int k = 1; k <= chain->n; k++) {
        const ms_sharp_step *step   = &chain->step[k - 1];
        const ms_mat         before = y[(k - 1) % 3], none = { 0 };
        TRY(d->ops->product(d, &(ms_product){ .a      = before,
                                              .b      = before,
                                              .alpha  = ms_const(step->square),
                                              .beta   = ms_const(step->source),
                                              .source = step->source == 0.0 ? none : y[(k + 1) % 3],
                                              .diag   = ms_const(step->diag),
                                              .c      = y[k % 3],
                                              .symmetric = true }));
    }
    e->z = y[(chain->n + 1) % 3];
    TRY(d->ops->gemm(d, 1.0, y[chain->n % 3], z, 0.0, e->z));
done:
    return st;
}
