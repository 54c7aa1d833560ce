/* exact.c - the operators by eigenvalues or singular values, in float64 whatever the input is.
 *
 * These are the clips of any sharpness, with the hard clip min(s, D) and the soft clip
 * D s / sqrt(s^2 + D^2) at the two ends, and the polar factor 1.  The clips are a gain g(s) on s
 * that is 1 for small s, so the smaller Gram matrix alone will do:
 *     X X^T = V diag(s^2) V^T,   result = V diag(g(s)) V^T X
 * Forming the Gram matrix squares the condition: the error is about 2e-16 (s_1 / D)^2 of D.  Where
 * s_1 / D exceeds a limit, the SVD with its error of 1e-15 s_1 / D takes over: for float32 data
 * where the former would come near their own rounding, for float64 data early.  The polar factor
 * has no D that hides small singular values: it always takes the SVD. */
#include <math.h>
#include <stdlib.h>

#include "linalg/linalg.h"

static double gram_limit(musec_dtype dtype) { return dtype == MUSEC_F32 ? 1e4 : 30.0; }

/* Gives g(s), also for s = 0, where the clips pass everything. */
static double gain_of(double sharpness, double s, double sd)
{
    if (sharpness == MS_SOFT) return sd / hypot(s, sd);
    return s > sd ? sd / s * ms_clip_bend(sharpness, sd / s) : ms_clip_bend(sharpness, s / sd);
}

/* Gives the singular value of the result in the caller's scale, because s D may underflow where D
 * does not. */
static double value_of(double sharpness, double value, double s, double sd, double threshold,
                       double cut)
{
    if (sharpness == MS_POLAR) return value > cut ? 1.0 : 0.0;
    if (sharpness == MS_SOFT) return value > 0.0 ? threshold * (value / hypot(value, sd)) : 0.0;
    return value > sd ? threshold * ms_clip_bend(sharpness, sd / value)
                      : value / s * ms_clip_bend(sharpness, value / sd);
}

/* Clips one matrix: x is (1, r, n) in float64, and the result, in the caller's scale, replaces
 * it. */
static musec_status by_gram(ms_device *d, double sharpness, double s, double sd, ms_mat w, ms_mat v,
                            ms_mat x)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const int64_t        r    = x.rows;
    double              *gain = malloc((size_t)r * sizeof *gain); /* on the host: they are few */
    ms_mat               on_device, scaled, z, old;
    musec_status         st = MUSEC_OK;

    if (gain == NULL)
        TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory for %lld gains", (long long)r));
    TRY(op->download(d, w.data, (size_t)r * sizeof *gain, gain));
    for (int64_t i = 0; i < r; i++)
        gain[i] = gain_of(sharpness, sqrt(fmax(gain[i], 0.0)), sd);
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, 1, r, &on_device));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, r, r, &scaled));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, r, r, &z));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, r, x.cols, &old));
    TRY(op->upload(d, gain, (size_t)r * sizeof *gain, on_device.data));
    TRY(op->copy(d, ms_t(v), scaled));
    TRY(op->scale_rows(d, on_device, scaled));
    TRY(op->gemm(d, 1.0, v, scaled, 0.0, z));
    TRY(op->copy(d, x, old));
    TRY(op->gemm(d, 1.0, z, old, 0.0, x));
    TRY(op->scale(d, ms_const(1.0 / s), x));
done:
    free(gain);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* What rounding may add to the largest singular value, relative to it.  What is not above D must
 * stay as it is, bit for bit, and so what may not be above is left alone too. */
static double svd_error(ms_mat x) { return (double)x.cols * ms_dtype_eps(MUSEC_F64); }

/* Clips one matrix by its SVD.  `changed` tells whether any singular value was. */
static musec_status by_svd(ms_device *d, double sharpness, double s, double sd, double threshold,
                           double eps, ms_mat x, bool *changed)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const int64_t        r    = x.rows;
    double              *host = malloc((size_t)r * sizeof *host);
    ms_mat               u, values, vt;
    musec_status         st = MUSEC_OK;

    if (host == NULL)
        TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory for %lld values", (long long)r));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, r, r, &u));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, 1, r, &values));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, r, x.cols, &vt));
    TRY(op->svd(d, x, u, values, vt));
    TRY(op->download(d, values.data, (size_t)r * sizeof *host, host));
    *changed = sharpness != MS_HARD || host[0] > sd * (1.0 + svd_error(x));
    if (!*changed) goto done;
    const double cut = (double)x.cols * eps * host[0]; /* cols is the larger side */
    for (int64_t i = 0; i < r; i++)
        host[i] = value_of(sharpness, host[i], s, sd, threshold, cut);
    TRY(op->upload(d, host, (size_t)r * sizeof *host, values.data));
    TRY(op->scale_rows(d, values, vt));
    TRY(op->gemm(d, 1.0, u, vt, 0.0, x));
done:
    free(host);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- choosing, for each matrix --------------------------------------------------------------- */

typedef enum route { BELOW, EIGH, SVD } route;
static const char *const route_name[] = { "below D", "eigh", "svd" };

/* Chooses by the largest eigenvalue of the Gram matrix; where rounding could decide between
 * clipping and not, the SVD decides. */
static route choose(double sharpness, musec_dtype dtype, double max_eigenvalue, double sd, ms_mat x)
{
    const double s1 = sqrt(fmax(max_eigenvalue, 0.0)), doubt = 1e-12 + 2.0 * svd_error(x);
    if (s1 > gram_limit(dtype) * sd) return SVD;
    if (sharpness == MS_HARD && s1 < sd * (1.0 - doubt)) return BELOW;
    if (sharpness == MS_HARD && s1 <= sd * (1.0 + doubt)) return SVD;
    return EIGH;
}

/* Works on matrix b of x in place and says what was done. */
static musec_status exact_one(ms_device *d, double sharpness, const ms_prepared *p,
                              ms_num threshold, musec_dtype dtype, int64_t b, ms_mat w, ms_mat v,
                              ms_mat x, route *taken)
{
    const ms_device_ops *op      = d->ops;
    double               largest = 0.0, s = 1.0, sd = 0.0, limit = threshold.value;
    bool                 changed = true;
    musec_status         st      = MUSEC_OK;

    *taken = SVD;
    TRY(ms_vec_download(d, ms_vec_slice(p->s, b, 1), &s));
    TRY(ms_vec_download(d, ms_vec_slice(p->sd, b, 1), &sd));
    if (threshold.each.data != NULL)
        TRY(ms_vec_download(d, ms_vec_slice(threshold.each, b, 1), &limit));
    if (w.data != NULL) {
        TRY(op->download(d, (double *)w.data + b * w.stride + p->r - 1, sizeof largest, &largest));
        *taken = choose(sharpness, dtype, largest, sd, x);
    }
    x = ms_mat_slice(x, b, 1);
    if (*taken == EIGH)
        TRY(by_gram(d, sharpness, s, sd, ms_mat_slice(w, b, 1), ms_mat_slice(v, b, 1), x));
    if (*taken == SVD) TRY(by_svd(d, sharpness, s, sd, limit, ms_dtype_eps(dtype), x, &changed));
    if (!changed) *taken = BELOW;
done:
    return st;
}

musec_status ms_exact(ms_device *d, double sharpness, ms_mat in, ms_num threshold, ms_mat out,
                      ms_report *report)
{
    const ms_device_ops *op     = d->ops;
    const ms_mark        mark   = ms_arena_mark(&d->scratch);
    const bool           gram   = sharpness != MS_POLAR;
    route               *routes = NULL;
    ms_prepared          p;
    ms_mat               x, a, w = { 0 }, v = { 0 };
    musec_status         st = MUSEC_OK;

    TRY(ms_prepare(d, in, gram ? threshold : ms_const(0.0), in.dtype, &p));
    if (p.r == 1) {
        TRY(ms_vector_clip(d, sharpness, &p, threshold, in, out));
        ms_report_path(report, in.count, "vector", 0);
        goto done;
    }
    routes = calloc((size_t)in.count, sizeof *routes);
    if (routes == NULL)
        TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory for %lld matrices", (long long)in.count));
    TRY(ms_scratch_mat(d, MUSEC_F64, in.count, p.x.rows, p.x.cols, &x));
    TRY(op->copy(d, p.x, x));
    if (gram) {
        TRY(ms_scratch_mat(d, MUSEC_F64, in.count, p.r, p.r, &a));
        TRY(ms_scratch_mat(d, MUSEC_F64, in.count, 1, p.r, &w));
        TRY(ms_scratch_mat(d, MUSEC_F64, in.count, p.r, p.r, &v));
        TRY(ms_gram(d, x, a));
        TRY(op->eigh(d, a, w, v));
    }
    for (int64_t b = 0; b < in.count; b++)
        TRY(exact_one(d, sharpness, &p, threshold, in.dtype, b, w, v, x, &routes[b]));
    for (int64_t b = 0; b < in.count; b++) { /* nothing is written before all is known */
        const ms_mat result = ms_mat_slice(p.transposed ? ms_t(x) : x, b, 1);
        TRY(op->copy(d, routes[b] == BELOW ? ms_mat_slice(in, b, 1) : result,
                     ms_mat_slice(out, b, 1)));
        ms_report_path(report == NULL ? NULL : report + b, 1, route_name[routes[b]], 0);
    }
done:
    free(routes);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
