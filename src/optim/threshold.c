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

static musec_status quantiles(musec_optim *opt, ms_mat x, ms_vec out)
{
    double      *host = malloc((size_t)x.count * sizeof *host);
    musec_status st   = MUSEC_OK;
    if (host == NULL) TRY(ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the thresholds"));
    TRY(ms_quantile_estimate(opt->d, x, opt->cfg.threshold, opt->cfg.seed, host));
    for (int64_t b = 0; b < x.count; b++)
        if (!(host[b] > 0.0)) host[b] = 1.0; /* a matrix of zeros: nothing to clip */
    TRY(opt->d->ops->upload(opt->d, host, (size_t)x.count * sizeof *host, out.data));
done:
    free(host);
    return st;
}

musec_status ms_threshold(musec_optim *opt, ms_mat x, ms_num *threshold)
{
    const ms_device_ops *op = opt->d->ops;
    const double         r  = (double)(x.rows < x.cols ? x.rows : x.cols);
    ms_vec               d, sumsq;
    musec_status         st = MUSEC_OK;

    *threshold = ms_const(opt->cfg.threshold);
    if (opt->cfg.threshold_rule == MUSEC_THRESHOLD_FIXED) return MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, x.count, &d));
    if (opt->cfg.threshold_rule == MUSEC_THRESHOLD_RMS) {
        TRY(ms_scratch_vec(opt->d, x.count, &sumsq));
        TRY(op->sumsq(opt->d, x, sumsq));
        TRY(op->scalars(opt->d, MS_SCALAR_RMS, (double[]){ opt->cfg.threshold, r }, 2,
                        (ms_num[]){ ms_each(sumsq) }, &d));
    } else {
        TRY(quantiles(opt, x, d));
    }
    *threshold = ms_each(d);
done:
    return st;
}
