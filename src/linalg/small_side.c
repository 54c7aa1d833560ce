/* small_side.c - what all operators begin and end with: the smaller side, and a safe range.
 *
 * With g the largest |entry| and s = 2^-ceil(log2 max(g, D)), an operator f with threshold D obeys
 * f(M, D) = f(s M, s D) / s exactly, and neither s M nor s D exceeds 1: no Gram matrix and no norm
 * can overflow, and what underflows is below rounding. */
#include "linalg/linalg.h"

musec_status ms_prepare(ms_device *d, ms_mat in, ms_num threshold, ms_prepared *p)
{
    const ms_device_ops *op   = d->ops;
    const double         tiny = ms_dtype_tiny(in.dtype);
    ms_vec               top;
    ms_mat               buffer;
    musec_status         st = MUSEC_OK;

    p->turned = in.rows > in.cols;
    if (p->turned) in = ms_t(in);
    p->r = in.rows;
    TRY(ms_scratch_vec(d, in.count, &top));
    TRY(ms_scratch_vec(d, in.count, &p->s));
    TRY(ms_scratch_vec(d, in.count, &p->sd));
    TRY(ms_scratch_vec(d, in.count, &p->sd2));
    TRY(ms_scratch_mat(d, in.dtype, in.count, p->turned ? in.cols : in.rows,
                       p->turned ? in.rows : in.cols, &buffer));
    TRY(op->absmax(d, in, top));
    TRY(op->scalars(d, MS_SCALAR_POW2_SCALE, NULL, 0, (ms_num[]){ ms_each(top), threshold },
                    &p->s));
    TRY(op->prescale(d, in, p->s, p->turned ? ms_t(buffer) : buffer, &p->x));
    TRY(op->scalars(d, MS_SCALAR_THRESHOLD, &tiny, 1, (ms_num[]){ ms_each(p->s), threshold },
                    (ms_vec[]){ p->sd, p->sd2 }));
done:
    return st;
}

musec_status ms_apply(ms_device *d, const ms_prepared *p, ms_mat z, ms_mat out)
{
    if (p->turned) return d->ops->gemm(d, 1.0, ms_t(p->x), z, 0.0, out);
    return d->ops->gemm(d, 1.0, z, p->x, 0.0, out);
}

/* One row: one singular value, no products. */
musec_status ms_vector_map(ms_device *d, ms_map map, const ms_prepared *p, ms_num threshold,
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
    ms_vec        bad;
    musec_status  st = MUSEC_OK;
    *matrix          = -1;
    *count           = 0.0;
    TRY(ms_scratch_vec(d, x.count, &bad));
    TRY(d->ops->count_nonfinite(d, x, bad));
    for (int64_t b = 0; b < x.count && *matrix < 0; b++) {
        TRY(ms_vec_download(d, ms_vec_slice(bad, b, 1), count));
        if (!(*count == 0.0)) *matrix = b;
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
