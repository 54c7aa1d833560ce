/* attention.cuh - what the kernels of attention share: their operands, the mask, the largest logit.
 *
 * Query i sees the keys first_key(i) .. i, and key j is seen by the queries j ..
 * last_query(j).  Neither bound falls as the row grows, since documents follow each other and the
 * window moves along.  So the keys that a block of queries sees are one span, given by its first
 * and its last row. */
#ifndef MS_DEVICE_CUDA_ATTENTION_CUH
#define MS_DEVICE_CUDA_ATTENTION_CUH

#include <math_constants.h>
#include <type_traits>

#include "device/cuda/kernel.cuh"

struct head_stack { /* a stack of heads: element (i, j) of head h at h*stride + i*ld + j */
    void   *data;
    int64_t ld, stride;
};

struct attn_job { /* what a kernel is given, forward or backward */
    head_stack     q, k, v, out, lse;
    head_stack     dout, dq, dk, dv;
    musec_dtype    dtype, wide; /* wide: of lse */
    double         scale, softcap;
    const int32_t *doc;
    double        *max_logit;
    int            heads, rows, head, window; /* head: columns */
};

enum { ATTN_ROWS_MAX = 1 << 30 }; /* row indices of a tile beyond the end must not overflow */

static inline head_stack heads_of(ms_mat x)
{
    head_stack o;
    o.data   = x.data;
    o.ld     = x.ld;
    o.stride = x.stride;
    return o;
}

static inline attn_job job_of(const ms_cuda_attn *x)
{
    attn_job j;
    j.q = heads_of(x->q), j.k = heads_of(x->k), j.v = heads_of(x->v);
    j.out = heads_of(x->out), j.lse = heads_of(x->lse);
    j.dout = heads_of(x->dout), j.dq = heads_of(x->dq);
    j.dk = heads_of(x->dk), j.dv = heads_of(x->dv);
    j.dtype     = x->q.dtype;
    j.wide      = x->lse.dtype;
    j.scale     = x->a.scale;
    j.softcap   = x->a.softcap;
    j.doc       = x->a.doc.data;
    j.max_logit = x->max_logit.data;
    j.heads     = (int)x->q.count;
    j.rows      = (int)x->q.rows;
    j.head      = (int)x->q.cols;
    j.window    = (int)(x->a.window < x->q.rows ? x->a.window : x->q.rows);
    return j;
}

/* Returns launch(T, HEAD), both passed as types, for heads of 64 or 128 columns of 16 bits. */
template <typename Launch>
static inline musec_status by_head(musec_dtype dtype, int64_t head, Launch launch)
{
    const std::integral_constant<int, 64>  h64  = {};
    const std::integral_constant<int, 128> h128 = {};
    if (dtype == MUSEC_BF16)
        return head == 64 ? launch(__nv_bfloat16(), h64) : launch(__nv_bfloat16(), h128);
    return head == 64 ? launch(__half(), h64) : launch(__half(), h128);
}

/* ---- mask ------------------------------------------------------------------------------------ */

static __device__ inline int first_key(const attn_job &j, int query)
{
    return max(j.doc[query], query - j.window);
}

struct span { /* rows first .. last, none if first > last */
    int first, last;
};

static __device__ inline bool has(span s, int row) { return row >= s.first && row <= s.last; }

/* A query beyond the end sees no keys. */
static __device__ inline span keys_seen(const attn_job &j, int query)
{
    if (query >= j.rows) return { j.rows, -1 };
    return { first_key(j, query), query };
}

static __device__ inline int last_query(const attn_job &j, int key)
{
    int low = key, high = min(j.rows - 1, key + j.window); /* doc[low] <= key */
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (j.doc[middle] <= key)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* ---- logits in base 2 ------------------------------------------------------------------------ */

/* exp(z) = exp2(rate s) of a product s, or with a cap exp2(top - 2 top / (1 + exp2(rate s))): the
 * exponent is top tanh(rate s ln 2 / 2), to an absolute error of a few eps of top. */
struct exponent {
    float rate, top;
};

static inline exponent exponent_of(double scale, double softcap)
{
    const double log2_e = 1.4426950408889634;
    exponent     e;
    e.rate = (float)(softcap > 0.0 ? 2.0 * scale * log2_e / softcap : scale * log2_e);
    e.top  = (float)(softcap * log2_e);
    return e;
}

/* share <- 1 / (1 + exp2(rate s)); the slope of the cap is 4 share (1 - share) */
static __device__ inline float cap_logit(exponent e, float s, float &share)
{
    share = rcp_approx(1.0f + exp2_approx(e.rate * s));
    return e.top - 2.0f * e.top * share;
}

/* Returns the weight of a product relative to exp2(base), 0 for a product of -infinity.  share is
 * set only where there is a cap. */
template <bool CAP>
static __device__ inline float weight_of(exponent e, float s, float base, float &share)
{
    if (!CAP) return exp2_approx(e.rate * s - base);
    const float z = cap_logit(e, s, share);
    return s == -CUDART_INF_F ? 0.0f : exp2_approx(z - base);
}

/* ---- the largest logit ----------------------------------------------------------------------- */

/* Returns the larger one, or NaN if either is. */
static __device__ inline float max_nan(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

template <typename Real> static __device__ inline Real max_nan(Real a, Real b)
{
    return a > b || isnan(a) ? a : b;
}

template <typename Real> static __device__ inline Real warp_max_nan(Real x)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        x = max_nan(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

/* *to <- max_nan(*to, value), atomically; the result does not depend on the order of threads.
 * Adding 0 turns -0 into +0. */
static __device__ inline void atomic_max_nan(double *to, double value)
{
    unsigned long long *bits = (unsigned long long *)to;
    unsigned long long  seen = *(volatile unsigned long long *)to;
    value += 0.0;
    for (;;) {
        const double now = __longlong_as_double((long long)seen);
        if (isnan(now) || !(value > now || isnan(value))) return;
        const unsigned long long was =
            atomicCAS(bits, seen,
                      (unsigned long long)__double_as_longlong(isnan(value) ? CUDART_NAN : value));
        if (was == seen) return;
        seen = was;
    }
}

#endif
