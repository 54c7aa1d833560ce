/* attention.c - attention: which implementation computes it.
 *
 * Kernels of our own for Hopper come first (16-bit heads of 64 or 128): they add in a fixed order
 * and take no more time than cuDNN (bench/results/h200.md).  Then cuDNN is used where it supports
 * the operands, as with a negative scale, else kernels for the tensor cores of any chip, else those
 * for any operands.  All store the same logsumexp, so the gradient need not be computed by the
 * implementation that computed the output. */
#include <assert.h>

#include "device/cuda/cuda.h"

static bool is_like(ms_mat x, ms_mat y)
{
    return x.rows == y.rows && x.cols == y.cols && x.count == y.count && x.dtype == y.dtype &&
           !x.trans && !y.trans && x.ptrs == NULL && y.ptrs == NULL;
}

/* Checks what can be checked on the host: doc lies on the device. */
static bool is_attention(const ms_cuda_attn *x)
{
    return x->a.window >= 0 && x->a.softcap >= 0.0 && x->a.doc.count == x->q.rows &&
           is_like(x->q, x->k) && is_like(x->q, x->v) && is_like(x->q, x->out) &&
           x->lse.rows == 1 && x->lse.cols == x->q.rows && x->lse.count == x->q.count &&
           x->lse.dtype == ms_dtype_accum(x->q.dtype) && !x->lse.trans;
}

static bool is_empty(ms_mat x) { return x.count == 0 || x.rows == 0; }

static musec_status cuda_attention(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v,
                                   ms_mat out, ms_mat lse, ms_vec max_logit)
{
    const ms_cuda_attn x = {
        .a = a, .q = q, .k = k, .v = v, .out = out, .lse = lse, .max_logit = max_logit
    };
    bool         by_wgmma = false, by_dnn = false;
    musec_status st = MUSEC_OK;
    assert(is_attention(&x) && max_logit.count == q.count);
    if (is_empty(q)) return MUSEC_OK;
    TRY(ms_cuda_attention_wgmma_supports(d, &x, &by_wgmma));
    if (by_wgmma) return ms_cuda_attention_wgmma(d, &x);
    TRY(ms_cuda_attention_dnn_supports(d, &x, false, &by_dnn));
    if (by_dnn) return ms_cuda_attention_dnn(d, &x);
    if (ms_cuda_attention_mma_supports(d, &x, false)) return ms_cuda_attention_mma(d, &x);
    return ms_cuda_attention_fallback(d, &x);
done:
    return st;
}

static musec_status cuda_attention_grad(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v,
                                        ms_mat out, ms_mat lse, ms_mat dout, ms_mat dq, ms_mat dk,
                                        ms_mat dv)
{
    const ms_cuda_attn x        = { .a    = a,
                                    .q    = q,
                                    .k    = k,
                                    .v    = v,
                                    .out  = out,
                                    .lse  = lse,
                                    .dout = dout,
                                    .dq   = dq,
                                    .dk   = dk,
                                    .dv   = dv };
    bool               by_wgmma = false, by_dnn = false;
    musec_status       st = MUSEC_OK;
    assert(is_attention(&x) && is_like(q, dout));
    assert(is_like(q, dq) && is_like(q, dk) && is_like(q, dv));
    if (is_empty(q)) return MUSEC_OK;
    TRY(ms_cuda_attention_wgmma_grad_supports(d, &x, &by_wgmma));
    if (by_wgmma) return ms_cuda_attention_wgmma_grad(d, &x);
    TRY(ms_cuda_attention_dnn_supports(d, &x, true, &by_dnn));
    if (by_dnn) return ms_cuda_attention_dnn_grad(d, &x);
    if (ms_cuda_attention_mma_supports(d, &x, true)) return ms_cuda_attention_mma_grad(d, &x);
    return ms_cuda_attention_fallback_grad(d, &x);
done:
    return st;
}

void ms_cuda_attention_ops(ms_device_ops *table)
{
    table->attention      = cuda_attention;
    table->attention_grad = cuda_attention_grad;
}
