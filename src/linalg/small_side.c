/* small_side.c - what all operators begin and end with: the smaller side, and a safe range.
 *
 * With g the largest |entry| and s = 2^-ceil(log2 max(g, D)), an operator f with threshold D obeys
 *     f(M, D) = f(s M, s D) / s
 * exactly, and neither s M nor s D exceeds 1: no Gram matrix and no norm can overflow, and what
 * underflows is below rounding.  In 16 bits M has a scale of its own, without D: f16 would lose
 * what is far below D.  The code that writes M may write it scaled at once, with a scale from a
 * bound of |entries| (ms_scaled_mat); then 1 / scale stands in for g. */
#include <math.h>
#include <stdlib.h>

#include "linalg/linalg.h"

musec_status ms_compute_dtype_check(ms_device *d, const char *what, musec_dtype input,
                                    int compute_dtype)
{
    const musec_dtype dtype = (musec_dtype)compute_dtype;
    if (compute_dtype == 0 || dtype == input) return MUSEC_OK;
    if (!ms_is_16bit(dtype))
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "%s: operands of %s (dtype %d); they may be the input's own, %s, or bf16 or "
                       "f16",
                       what, ms_dtype_name(dtype), compute_dtype, ms_dtype_name(input));
    if (input != MUSEC_F32)
        return ms_fail(&d->error, MUSEC_EINVAL, "%s: operands of %s are for f32, not for %s", what,
                       ms_dtype_name(dtype), ms_dtype_name(input));
    if (!ms_device_has(d, dtype))
        return ms_fail(&d->error, MUSEC_ENOTSUP, "%s: the device %s has no arithmetic in %s", what,
                       d->name, ms_dtype_name(dtype));
    return MUSEC_OK;
}

void ms_mat_extent(ms_mat x, uintptr_t *begin, uintptr_t *end)
{
    const int64_t n = (x.count - 1) * x.stride + (x.rows - 1) * x.ld + x.cols;
    *begin          = (uintptr_t)x.data;
    *end            = *begin + (uintptr_t)n * ms_dtype_bytes(x.dtype);
}

bool ms_mat_overlap(ms_mat a, ms_mat b)
{
    uintptr_t a_begin, a_end, b_begin, b_end;
    ms_mat_extent(a, &a_begin, &a_end);
    ms_mat_extent(b, &b_begin, &b_end);
    return a_begin < b_end && b_begin < a_end;
}

musec_status ms_scratch_vecs(ms_device *d, int64_t count, int n, ms_vec *vecs)
{
    musec_status st = MUSEC_OK;
    for (int i = 0; i < n; i++)
        TRY(ms_scratch_vec(d, count, &vecs[i]));
done:
    return st;
}

/* Makes p->x from the transposed input, and the scale that is on it. */
static musec_status scale_input(ms_device *d, ms_mat in, musec_dtype compute_dtype, ms_vec absmax,
                                ms_prepared *p)
{
    ms_mat       buffer;
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(d, compute_dtype, in.count, p->transposed ? in.cols : in.rows,
                       p->transposed ? in.rows : in.cols, &buffer));
    p->scale = p->s;
    if (ms_is_16bit(compute_dtype)) {
        TRY(ms_scratch_vec(d, in.count, &p->scale));
        TRY(ms_scalar_pow2_scale(
            d, (ms_pow2_scale_nums){ .absmax = ms_each(absmax), .threshold = ms_const(0.0) },
            (ms_pow2_scale_vecs){ p->scale }));
    }
    TRY(d->ops->prescale(d, in, p->scale, p->transposed ? ms_t(buffer) : buffer, &p->x));
done:
    return st;
}

static void transpose(ms_mat *in, ms_prepared *p)
{
    p->transposed = in->rows > in->cols;
    if (p->transposed) *in = ms_t(*in);
    p->r = in->rows;
}

musec_status ms_prepare(ms_device *d, ms_mat in, ms_num threshold, musec_dtype compute_dtype,
                        ms_prepared *p)
{
    ms_vec       absmax;
    musec_status st = MUSEC_OK;

    transpose(&in, p);
    p->out_scale = 1.0;
    TRY(ms_scratch_vec(d, in.count, &absmax));
    TRY(ms_scratch_vec(d, in.count, &p->s));
    TRY(ms_scratch_vec(d, in.count, &p->sd));
    TRY(ms_scratch_vec(d, in.count, &p->sd2));
    TRY(d->ops->absmax(d, in, absmax));
    TRY(ms_scalar_pow2_scale(
        d, (ms_pow2_scale_nums){ .absmax = ms_each(absmax), .threshold = threshold },
        (ms_pow2_scale_vecs){ p->s }));
    TRY(scale_input(d, in, compute_dtype, absmax, p));
    TRY(ms_scalar_scale_threshold(
        d,
        (ms_scale_threshold_nums){ .tiny      = ms_const(ms_dtype_tiny(ms_dtype_accum(in.dtype))),
                                   .s         = ms_each(p->s),
                                   .threshold = threshold },
        (ms_scale_threshold_vecs){ .sd = p->sd, .sd2 = p->sd2 }));
done:
    return st;
}

musec_status ms_prepare_scaled(ms_device *d, ms_scaled_mat in, ms_num threshold,
                               const ms_gram_prediction *prediction, ms_prepared *p)
{
    const ms_num scale = ms_each(in.scale);
    const ms_num tiny  = ms_const(ms_dtype_tiny(ms_dtype_accum(in.mat.dtype)));
    transpose(&in.mat, p);
    p->x         = in.mat;
    p->out_scale = ldexp(1.0, -in.scale_exponent);
    if (prediction == NULL)
        return ms_scalar_scaled_input(
            d, (ms_scaled_input_nums){ .tiny = tiny, .scale = scale, .threshold = threshold },
            (ms_scaled_input_vecs){ .scale = p->scale, .s = p->s, .sd = p->sd, .sd2 = p->sd2 });
    return ms_scalar_load_gram_norms(
        d,
        (ms_load_gram_norms_nums){ .tiny       = tiny,
                                   .rank       = ms_const((double)p->r),
                                   .scale      = scale,
                                   .threshold  = threshold,
                                   .gram_sumsq = ms_each(prediction->cached.sumsq),
                                   .gram_trace = ms_each(prediction->cached.trace) },
        (ms_load_gram_norms_vecs){ .scale     = p->scale,
                                   .s         = p->s,
                                   .sd        = p->sd,
                                   .sd2       = p->sd2,
                                   .norm2     = prediction->norm2,
                                   .gram_coef = prediction->gram_coef,
                                   .diag      = prediction->diag });
}

musec_status ms_apply(ms_device *d, const ms_prepared *p, ms_mat z, ms_mat out, ms_vec mask)
{
    /* Only rounding tells z from its transpose.  z is a product of stages, and the first one that
     * meets x must be the first one made: the other way about, its gain on small singular values
     * would amplify the rounding of the later ones.  In 16 bits that counts. */
    if (p->transposed && ms_is_16bit(z.dtype)) z = ms_t(z);
    const ms_mat a = p->transposed ? ms_t(p->x) : z, b = p->transposed ? z : p->x;
    if (mask.data == NULL) return d->ops->gemm(d, p->out_scale, a, b, 0.0, out);
    return d->ops->product(
        d,
        &(ms_product){ .a = a, .b = b, .alpha = ms_const(p->out_scale), .c = out, .mask = mask });
}

musec_status ms_vector_clip(ms_device *d, double sharpness, const ms_prepared *p, ms_num threshold,
                            ms_mat in, ms_mat out)
{
    const ms_device_ops *op = d->ops;
    ms_vec               sumsq;
    ms_vector_gain_vecs  factor;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_vec(d, in.count, &sumsq));
    TRY(MS_SCRATCH_VECS(d, in.count, &factor));
    TRY(op->sumsq(d, p->x, sumsq));
    TRY(ms_scalar_vector_gain(d,
                              (ms_vector_gain_nums){ .sharpness = ms_const(sharpness),
                                                     .sumsq     = ms_each(sumsq),
                                                     .s         = ms_each(p->s),
                                                     .sd        = ms_each(p->sd),
                                                     .threshold = threshold },
                              factor));
    TRY(op->copy(d, in, out));
    TRY(op->scale(d, ms_each(factor.first), out));
    TRY(op->scale(d, ms_each(factor.second), out));
done:
    return st;
}

musec_status ms_first_nonfinite(ms_device *d, ms_mat x, int64_t *matrix, double *count)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    double       *host = malloc((size_t)x.count * sizeof *host);
    ms_vec        bad;
    musec_status  st = MUSEC_OK;
    *matrix          = -1;
    *count           = 0.0;
    if (host == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory to look for NaN"));
    TRY(ms_scratch_vec(d, x.count, &bad));
    TRY(d->ops->count_nonfinite(d, x, bad));
    TRY(ms_vec_download(d, bad, host));
    for (int64_t b = 0; b < x.count && *matrix < 0; b++) {
        *count = host[b];
        if (!(*count == 0.0)) *matrix = b;
    }
done:
    free(host);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
