/* threshold.c - D as a number, or from the momentum itself.
 *
 *   rms:k       D = k |M|_F / sqrt(r): k times the root mean square of the singular values.  One
 *               reduction, nothing waits.
 *   quantile:q  D = the q-quantile of the singular values, estimated by stochastic Lanczos
 *               quadrature: LANCZOS_STEPS steps on M M^T from a random vector give the nodes and
 *               weights of the Gauss rule of its spectral measure (Golub and Meurant), whose
 *               cumulative weights estimate how many singular values lie below a node.  Costs
 *               2 LANCZOS_STEPS passes over M, and waits.
 * Both scale with M: with update-scale unit the optimizer does not see the scale
 * of the gradient. */
#include <math.h>
#include <stdlib.h>

#include "optim/optim.h"

#define MIN_OF_RMS 1e-3 /* a quantile counts as at least this much of the root mean square */

/* out holds |x|_F^2 of each matrix and gets D. */
static musec_status quantiles(musec_optim *opt, ms_mat x, double r, ms_vec out)
{
    double      *host = malloc((size_t)x.count * sizeof *host);
    musec_status st   = MUSEC_OK;
    if (host == NULL) TRY(ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the thresholds"));
    TRY(ms_quantile_estimate(opt->d, x, opt->cfg.threshold, opt->cfg.seed, host));
    for (int64_t b = 0; b < x.count; b++) {
        double sumsq = 0.0; /* the quantile of a rank-deficient matrix may be rounding, or 0 */
        TRY(ms_vec_download(opt->d, ms_vec_slice(out, b, 1), &sumsq));
        const double min = MIN_OF_RMS * sqrt(sumsq / r);
        if (!(host[b] > min)) host[b] = min;
        if (!(host[b] > 0.0)) host[b] = 1.0; /* a matrix of zeros: nothing to clip */
    }
    TRY(opt->d->ops->upload(opt->d, host, (size_t)x.count * sizeof *host, out.data));
done:
    free(host);
    return st;
}

musec_status ms_threshold(musec_optim *opt, ms_mat x, ms_num *threshold)
{
    const ms_device_ops *op = opt->d->ops;
    const double         r  = (double)(x.rows < x.cols ? x.rows : x.cols);
    ms_vec               d;
    musec_status         st = MUSEC_OK;

    *threshold = ms_const(opt->cfg.threshold);
    if (opt->cfg.threshold_rule == MUSEC_THRESHOLD_FIXED) return MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, x.count, &d));
    TRY(op->sumsq(opt->d, x, d));
    if (opt->cfg.threshold_rule == MUSEC_THRESHOLD_RMS)
        TRY(ms_scalar_rms(opt->d,
                          (ms_rms_nums){ .factor = ms_const(opt->cfg.threshold),
                                         .rank   = ms_const(r),
                                         .sumsq  = ms_each(d) },
                          (ms_rms_vecs){ d }));
    else
        TRY(quantiles(opt, x, r, d));
    *threshold = ms_each(d);
done:
    return st;
}
