/* small_side.c - what all operators begin and end with: the smaller side, and a safe range.
 *
 * With g the largest |entry| and s = 2^-ceil(log2 max(g, D)), an operator f with threshold D obeys
 * f(M, D) = f(s M, s D) / s exactly, and neither s M nor s D exceeds 1: no Gram matrix and no norm
 * can overflow, and what underflows is below rounding.  A copy in 16 bits has the scale of M alone:
 * f16 would lose what is far below D.  Who writes M may write that copy at once, with a scale `own`
 * from a bound of |entries|; then 1 / own stands in for g. */
#include <math.h>
#include <stdlib.h>

#include "linalg/linalg.h"

musec_status ms_compute_dtype_check(ms_device *d, const char *what, musec_dtype input, int operands)
{
    const musec_dtype dtype = (musec_dtype)operands;
    if (operands == 0 || dtype == input) return MUSEC_OK;
    if (!ms_is_16bit(dtype))
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "%s: operands of %s (dtype %d); they may be the input's own, %s, or bf16 or "
                       "f16",
                       what, ms_dtype_name(dtype), operands, ms_dtype_name(input));
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

/* in turned, largest |entries| in top: x, and its own scale. */
static musec_status rounded(ms_device *d, ms_mat in, musec_dtype operands, ms_vec top,
                            ms_prepared *p)
{
    ms_mat       buffer;
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(d, operands, in.count, p->turned ? in.cols : in.rows,
                       p->turned ? in.rows : in.cols, &buffer));
    p->own = p->s;
    if (ms_is_16bit(operands)) {
        TRY(ms_scratch_vec(d, in.count, &p->own));
        TRY(d->ops->scalars(d, MS_SCALAR_POW2_SCALE, NULL, 0,
                            (ms_num[]){ ms_each(top), ms_const(0.0) }, &p->own));
    }
    TRY(d->ops->prescale(d, in, p->own, p->turned ? ms_t(buffer) : buffer, &p->x));
done:
    return st;
}

static void turn(ms_mat *in, ms_prepared *p)
{
    p->turned = in->rows > in->cols;
    if (p->turned) *in = ms_t(*in);
    p->r = in->rows;
}

musec_status ms_prepare(ms_device *d, ms_mat in, ms_num threshold, musec_dtype operands,
                        ms_prepared *p)
{
    const ms_device_ops *op   = d->ops;
    const double         tiny = ms_dtype_tiny(ms_dtype_accum(in.dtype));
    ms_vec               top;
    musec_status         st = MUSEC_OK;

    turn(&in, p);
    p->unit = 1.0;
    TRY(ms_scratch_vec(d, in.count, &top));
    TRY(ms_scratch_vec(d, in.count, &p->s));
    TRY(ms_scratch_vec(d, in.count, &p->sd));
    TRY(ms_scratch_vec(d, in.count, &p->sd2));
    TRY(op->absmax(d, in, top));
    TRY(op->scalars(d, MS_SCALAR_POW2_SCALE, NULL, 0, (ms_num[]){ ms_each(top), threshold },
                    &p->s));
    TRY(rounded(d, in, operands, top, p));
    TRY(op->scalars(d, MS_SCALAR_THRESHOLD, &tiny, 1, (ms_num[]){ ms_each(p->s), threshold },
                    (ms_vec[]){ p->sd, p->sd2 }));
done:
    return st;
}

musec_status ms_prepare_scaled(ms_device *d, ms_mat in, ms_num threshold,
                               const ms_gram_cache *recall, ms_prepared *p)
{
    const ms_vec own = { in.own, in.count };
    turn(&in, p);
    p->x               = in;
    p->unit            = ldexp(1.0, -in.own_e);
    const double two[] = { ms_dtype_tiny(ms_dtype_accum(in.dtype)), (double)p->r };
    if (recall == NULL)
        return d->ops->scalars(d, MS_SCALAR_SCALED, two, 1, (ms_num[]){ ms_each(own), threshold },
                               (ms_vec[]){ p->own, p->s, p->sd, p->sd2 });
    return d->ops->scalars(
        d, MS_SCALAR_RECALL, two, 2,
        (ms_num[]){ ms_each(own), threshold, ms_each(recall->gram_norms.sumsq),
                    ms_each(recall->gram_norms.trace) },
        (ms_vec[]){ p->own, p->s, p->sd, p->sd2, recall->fro2, recall->factor, recall->diag });
}

musec_status ms_apply(ms_device *d, const ms_prepared *p, ms_mat z, ms_mat out)
{
    /* Only rounding tells z from its transpose.  z is a product of stages of which the first one
     * met must be the first one made: the other way about, its gain on small singular values would
     * lift the rounding of the later ones.  In 16 bits that counts. */
    if (p->turned && ms_is_16bit(z.dtype)) z = ms_t(z);
    if (p->turned) return d->ops->gemm(d, p->unit, ms_t(p->x), z, 0.0, out);
    return d->ops->gemm(d, p->unit, z, p->x, 0.0, out);
}

/* One row: one singular value, no products. */
musec_status ms_vector_clip(ms_device *d, ms_exact_fn map, const ms_prepared *p, ms_num threshold,
                            ms_mat in, ms_mat out)
{
    const ms_device_ops *op     = d->ops;
    const double         params = map;
    ms_vec               sumsq, factor[2];
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_vec(d, in.count, &sumsq));
    for (int i = 0; i < 2; i++)
        TRY(ms_scratch_vec(d, in.count, &factor[i]));
    TRY(op->sumsq(d, p->x, sumsq));
    TRY(op->scalars(d, MS_SCALAR_VECTOR_GAIN, &params, 1,
                    (ms_num[]){ ms_each(sumsq), ms_each(p->s), ms_each(p->sd), threshold },
                    factor));
    TRY(op->copy(d, in, out));
    for (int i = 0; i < 2; i++)
        TRY(op->scale(d, ms_each(factor[i]), out));
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
