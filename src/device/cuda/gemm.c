/* gemm.c - products: the row of the op table, and its special cases.
 *
 * A transposed c is the transposed product, b^T a^T; an empty sum gives beta times the source; a
 * long stack is split.  The rest is computed by cuBLASLt (gemm_plan.c), or where that has no
 * algorithm for the operands (a 16-bit matrix at an odd address or of odd width) by a kernel of our
 * own (gemm_fallback.cu). */
#include "device/cuda/gemm.h"

#include <assert.h>

/* Computes the product of an empty sum. */
static musec_status scaled(ms_device *d, double beta, ms_mat source, ms_mat c)
{
    musec_status st;
    if (beta == 0.0) return d->ops->fill(d, 0.0, c);
    if (source.data != c.data) TRY(d->ops->copy(d, source, c));
    TRY(d->ops->scale(d, ms_const(beta), c));
done:
    return st;
}

musec_status ms_cuda_gemm(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta,
                          ms_mat source, ms_mat c)
{
    musec_status st = MUSEC_OK;
    assert(a.cols == b.rows && c.rows == a.rows && c.cols == b.cols);
    assert(a.count == c.count && b.count == c.count && a.dtype == b.dtype);
    assert(c.dtype == a.dtype || c.dtype == ms_dtype_accum(a.dtype));
    if (c.trans) {
        const ms_mat at = ms_t(a);
        a               = ms_t(b);
        b               = at;
        c               = ms_t(c);
        source          = ms_t(source);
    }
    if (c.count == 0 || c.rows == 0 || c.cols == 0) return MUSEC_OK;
    if (a.cols == 0) return scaled(d, beta, source, c);
    for (int64_t first = 0; first < c.count; first += MS_CUDA_BATCH) {
        const int64_t left = c.count - first, n = left < MS_CUDA_BATCH ? left : MS_CUDA_BATCH;
        const ms_cuda_gemm_problem p       = { .alpha  = alpha,
                                               .beta   = beta,
                                               .a      = ms_mat_slice(a, first, n),
                                               .b      = ms_mat_slice(b, first, n),
                                               .c      = ms_mat_slice(c, first, n),
                                               .source = ms_mat_slice(source, first, n) };
        bool                       handled = false;
        TRY(ms_cuda_gemm_planned(d, &p, &handled));
        if (!handled) TRY(ms_cuda_gemm_fallback(d, &p));
    }
done:
    return st;
}

static musec_status cuda_gemm(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta, ms_mat c)
{
    return ms_cuda_gemm(d, alpha, a, b, beta, c, c);
}

void ms_cuda_gemm_ops(ms_device_ops *table) { table->gemm = cuda_gemm; }
