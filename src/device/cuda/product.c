/* product.c - products with an epilogue: the row of the op table, and which kernel computes it.
 *
 * On Hopper, 16-bit operands that TMA can read go to a kernel of our own, which computes one
 * triangle of a symmetric product and the epilogue in one pass (hopper_gemm_1x1.cu).  Full products
 * without an epilogue go to cuBLASLt, which is faster by 5 to 20 percent (on an H200,
 * bench/results/h200-history.md), and symmetric ones with long sums to another policy of the
 * kernel, whose tiles are larger (hopper_gemm_2x1.cu).
 *
 * Other products begin with gemm.  Where the epilogue has only constants that gemm takes, and a
 * source with the layout of c, gemm writes c itself; otherwise it writes a matrix of the
 * accumulator type, from which a second pass computes c (gemm_fallback.cu).  A symmetric product is
 * then computed in full.  Elements (i, j) and (j, i) of x x^T are sums of the same products, and
 * equal if a kernel adds both in the same order, but kernels that split sums depending on the tile
 * do not; so the lower triangle is copied onto the upper one. */
#include "device/cuda/product.h"

#include <assert.h>

enum { LONG = 2048 }; /* sums: where hopper_gemm_2x1.cu was measured to be faster */

static bool is_value(ms_num n, double value)
{
    return n.each.data == NULL && n.host == NULL && n.value == value;
}

static bool lies_as(ms_mat x, ms_mat y)
{
    return x.ld == y.ld && x.trans == y.trans && x.dtype == y.dtype &&
           (x.count == 1 || x.stride == y.stride);
}

/* Can gemm compute all of it but the sums, and can those be computed from c? */
static bool is_plain(const ms_product *p)
{
    const bool sums = p->sumsq.data != NULL || p->trace.data != NULL;
    if (p->alpha.each.data != NULL || !is_value(p->diag, 0.0) || p->mask.data != NULL) return false;
    if (p->source.data != NULL && (p->beta.each.data != NULL || !lies_as(p->source, p->c)))
        return false;
    return !sums || ms_dtype_bytes(p->c.dtype) > 2;
}

static musec_status by_gemm(ms_device *d, const ms_product *p)
{
    const bool   adds = p->source.data != NULL;
    musec_status st   = MUSEC_OK;
    TRY(ms_cuda_gemm(d, p->alpha.value, p->a, p->b, adds ? p->beta.value : 0.0,
                     adds ? p->source : p->c, p->c));
    if (p->symmetric) TRY(ms_cuda_mirror(d, p->c));
    if (p->sumsq.data != NULL) TRY(d->ops->sumsq(d, p->c, p->sumsq));
    if (p->trace.data != NULL) TRY(d->ops->trace(d, p->c, p->trace));
done:
    return st;
}

static musec_status by_gemm_and_epilogue(ms_device *d, const ms_product *p)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_product    rest = *p;
    ms_mat        ab;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(d, ms_dtype_accum(p->a.dtype), p->c.count, p->c.rows, p->c.cols, &ab));
    TRY(d->ops->gemm(d, 1.0, p->a, p->b, 0.0, ab));
    if (p->symmetric) TRY(ms_cuda_mirror(d, ab));
    if (p->symmetric &&
        p->source.data == p->c.data) { /* the epilogue reads it after writing parts of c */
        TRY(ms_scratch_mat(d, p->source.dtype, p->source.count, p->source.rows, p->source.cols,
                           &rest.source));
        TRY(d->ops->copy(d, p->source, rest.source));
    }
    TRY(ms_cuda_product_finish(d, &rest, ab));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status cuda_product(ms_device *d, const ms_product *product)
{
    ms_product   p       = *product;
    bool         handled = false;
    musec_status st      = MUSEC_OK;
    assert(p.a.cols == p.b.rows && p.c.rows == p.a.rows && p.c.cols == p.b.cols);
    assert(p.a.count == p.c.count && p.b.count == p.c.count && p.a.dtype == p.b.dtype);
    assert(p.c.dtype == p.a.dtype || p.c.dtype == ms_dtype_accum(p.a.dtype));
    assert(!p.symmetric || p.c.rows == p.c.cols);
    if (p.c.count == 0 || p.c.rows == 0 || p.c.cols == 0) return MUSEC_OK;
    if (is_value(p.beta, 0.0)) p.source.data = NULL;
    if (p.symmetric) { /* a symmetric matrix equals its transpose */
        p.c.trans = p.source.trans = false;
    } else if (p.c.trans) {
        p.a      = ms_t(product->b);
        p.b      = ms_t(product->a);
        p.c      = ms_t(p.c);
        p.source = ms_t(p.source);
    }
    if (p.symmetric && p.a.cols >= LONG) TRY(ms_cuda_hopper_gemm_2x1(d, &p, &handled));
    if (!handled && p.a.cols > 0 && (p.symmetric || !is_plain(&p)))
        TRY(ms_cuda_hopper_gemm_1x1(d, &p, &handled));
    if (!handled) TRY(is_plain(&p) ? by_gemm(d, &p) : by_gemm_and_epilogue(d, &p));
done:
    return st;
}

void ms_cuda_product_ops(ms_device_ops *table) { table->product = cuda_product; }
