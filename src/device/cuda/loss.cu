/* loss.cu - the loss of a chunk of rows, and its gradient in place.
 *
 * With z the capped logits of a row, m the largest of them, e = exp(z - m) and S = sum e:
 *     l = sum_k w_k (m - z_k + log S),
 *     gradient = grad_scale slope (total e / S - weights of the targets),  total = sum_k w_k.
 * Caps rise, so m is the cap of the largest raw logit.  A block has a row.  The logits of its
 * targets are read before anything is written and their gradients are written last, over what the
 * rest of the row's formula put there.
 *
 * Rows of 16 bits whose products slope e fit into shared memory are read once and written once,
 * and each element takes its exponential functions once: what is written at last is only scaled.
 * The block goes from row to row, and while it writes one the next is on its way into registers.
 * Other rows are read three times, the second and third time from cache.
 *
 * The losses of the rows go to workspace in float64; one block adds them, in an order that depends
 * on their number alone. */
#include <type_traits>

#include "device/cuda/row.cuh"

enum {
    KEPT    = 7,    /* vectors of a row that a thread has in registers */
    MANY    = 1024, /* threads of a block that has a row at once, */
    FEW     = 128,  /* or these if they are enough: known when compiled, which saves registers */
    THREADS = 512,  /* of one that goes through it, and of the one that adds up */
};

static const float LOG2_E = 1.4426950408889634f;

/* ---- caps ------------------------------------------------------------------------------------ */

template <typename Real> struct scoring { /* what ms_xent says */
    ms_cap         cap;
    Real           scale, shift, width, grad_scale;
    const int32_t *targets;
    int64_t        n_targets, first;
    int            n_weights;
    double         weights[MS_XENT_TARGETS];
};

/* z of a raw logit, and dz / draw. */
template <typename Real>
static __device__ inline Real capped(const scoring<Real> &x, ms_cap cap, Real raw, Real *slope)
{
    if (cap == MS_CAP_TANH) {
        const Real t = tanh(raw / x.scale);
        *slope       = 1 - t * t;
        return x.scale * t;
    }
    if (cap == MS_CAP_SIGMOID) { /* of |at|, so that both it and 1 minus it are exact */
        const Real at = (raw + x.shift) / x.width, e = exp(-fabs(at));
        const Real high = 1 / (1 + e), low = e / (1 + e);
        *slope = x.scale / x.width * low * high;
        return x.scale * (at >= 0 ? high : low);
    }
    *slope = 1;
    return raw;
}

/* ---- targets --------------------------------------------------------------------------------- */

/* Targets of row i of the chunk. */
template <typename Real>
static __device__ inline int target_count(const scoring<Real> &x, int64_t i)
{
    const int64_t left = x.n_targets - (x.first + i);
    return left < x.n_weights ? (int)left : x.n_weights;
}

/* Where in row i this thread's target is: thread k has that of weight k, others -1. */
template <typename Real> static __device__ inline int target_of(const scoring<Real> &x, int64_t i)
{
    return (int)threadIdx.x < target_count(x, i) ? x.targets[x.first + i + threadIdx.x] : -1;
}

template <typename Real> static __device__ inline Real total_weight(const scoring<Real> &x, int n)
{
    double total = 0.0;
    for (int k = 0; k < n; k++)
        total += x.weights[k];
    return (Real)total;
}

/* For the first warp: the losses of the row, and the gradient of this lane's target, which is at
 * `at` and has that raw logit. */
template <typename Real>
static __device__ inline Real settle(const scoring<Real> &x, ms_cap cap, int n, int at, Real raw,
                                     Real top, Real sum, double *losses)
{
    Real         slope;
    const Real   z        = capped(x, cap, raw, &slope);
    const double loss     = (double)top - (double)z + (double)log(sum);
    double       weighted = 0.0, hits = 0.0;
    for (int k = 0; k < n; k++) {
        weighted += x.weights[k] * __shfl_sync(0xffffffffu, loss, k);
        if (__shfl_sync(0xffffffffu, at, k) == at) hits += x.weights[k];
    }
    if (threadIdx.x == 0) {
        losses[0] = weighted;
        losses[1] = loss;
    }
    return x.grad_scale * slope * (total_weight(x, n) * (exp(z - top) / sum) - (Real)hits);
}

/* As block_sum. */
template <typename Real> static __device__ inline Real block_max(Real x, Real *room)
{
    const int lane = (int)threadIdx.x % WARP, warps = (int)blockDim.x / WARP;
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmax(x, __shfl_xor_sync(0xffffffffu, x, step));
    if (lane == 0) room[threadIdx.x / WARP] = x;
    __syncthreads();
    x = room[lane < warps ? lane : 0];
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmax(x, __shfl_xor_sync(0xffffffffu, x, step));
    __syncthreads();
    return x;
}

/* ---- rows of 16 bits, kept ------------------------------------------------------------------- */

/* Within 2^-22 of it; below the smallest normal number it is 0. */
static __device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* a <- 1 / a of four numbers in (1, 2], at the price of one. */
static __device__ inline void invert_four(float *a)
{
    const float low = a[0] * a[1], high = a[2] * a[3];
    const float all   = __fdividef(1.0f, low * high);
    const float one_0 = all * high, one_1 = all * low; /* 1 / low, 1 / high */
    const float first = one_0 * a[1], third = one_1 * a[3];
    a[1] = one_0 * a[0];
    a[3] = one_1 * a[2];
    a[0] = first;
    a[2] = third;
}

/* Constants of a row: what raw logits are multiplied with and moved by, in units of log 2. */
struct fast_row {
    float by, plus, scale, top;
};

template <ms_cap CAP>
static __device__ inline fast_row fast_row_of(const scoring<float> &x, float top)
{
    fast_row r = { 1.0f, 0.0f, x.scale, top };
    if (CAP == MS_CAP_TANH) r.by = 2.0f * LOG2_E / x.scale;
    if (CAP == MS_CAP_SIGMOID) {
        r.by   = LOG2_E / x.width;
        r.plus = x.shift * r.by;
    }
    return r;
}

/* The slope in units of this. */
template <ms_cap CAP> static __device__ inline float steepest(const scoring<float> &x)
{
    return CAP == MS_CAP_TANH ? 4.0f : CAP == MS_CAP_SIGMOID ? x.scale / x.width : 1.0f;
}

/* v <- slope exp(z - top) of raw logits; returns the sum of exp(z - top).  With g = exp(-|h|) and
 * r = 1 / (1 + g), the logistic function of h is r or g r and its derivative g r^2;
 * tanh(h / 2) is (1 - g) r with the sign of h, its derivative by h / 2 four times that. */
template <ms_cap CAP> static __device__ inline float soften(const fast_row &f, float (&v)[VECTOR])
{
    float sum = 0.0f;
    if constexpr (CAP == MS_CAP_NONE) {
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            v[e] = exp2_fast((v[e] - f.top) * LOG2_E);
            sum += v[e];
        }
    } else {
        float g[VECTOR], r[VECTOR];
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            v[e] = v[e] * f.by + f.plus;
            g[e] = exp2_fast(-fabsf(v[e]));
            r[e] = 1.0f + g[e];
        }
        invert_four(r);
        invert_four(r + 4);
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            const float t = CAP == MS_CAP_TANH ? copysignf((1.0f - g[e]) * r[e], v[e])
                            : v[e] >= 0.0f     ? r[e]
                                               : g[e] * r[e];
            const float p = exp2_fast((f.scale * t - f.top) * LOG2_E);
            v[e]          = p * (g[e] * r[e] * r[e]);
            sum += p;
        }
    }
    return sum;
}

/* The largest number of a row that is spread over the block. */
template <typename T>
static __device__ inline float largest(const piece<T, VECTOR> (&raw)[KEPT], int first, int step,
                                       int cols, float *room)
{
    float top = -INFINITY, v[VECTOR];
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        if (first + k * step >= cols) continue;
        open(raw[k], v);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
            top = fmaxf(top, v[e]);
    }
    return block_max(top, room);
}

/* losses: (rows, 2) */
template <typename T, ms_cap CAP, int N_THREADS>
static __global__ void __launch_bounds__(N_THREADS, MANY / N_THREADS)
    xent_kept(const __grid_constant__ scoring<float> x, lines<T> logits, int64_t rows, int cols,
              double *losses)
{
    extern __shared__ float4 held[]; /* slope e of the row: first halves of its vectors, second */
    __shared__ float         room[WARP];
    constexpr int            step  = N_THREADS * VECTOR;
    const int                first = (int)threadIdx.x * VECTOR;
    float4                  *low = held + threadIdx.x, *high = low + cols / VECTOR;
    piece<T, VECTOR>         raw[KEPT];
    T                        at_target = T();
    float                    v[VECTOR], slope;
    int                      target = target_of(x, blockIdx.x), next = -1;
    fetch_row(logits.row(0, blockIdx.x), first, step, cols, raw);
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x, target = next) {
        T *row = logits.row(0, i);
        if (target >= 0) at_target = row[target]; /* not needed until the end */
        const float    top = capped(x, CAP, largest(raw, first, step, cols, room), &slope);
        const fast_row f   = fast_row_of<CAP>(x, top);
        float          sum = 0.0f;
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            const int at = first + k * step;
            if (at >= cols) continue;
            open(raw[k], v);
            sum += soften<CAP>(f, v);
            low[k * N_THREADS]  = make_float4(v[0], v[1], v[2], v[3]);
            high[k * N_THREADS] = make_float4(v[4], v[5], v[6], v[7]);
        }
        if (i + gridDim.x < rows) {
            fetch_row(logits.row(0, i + gridDim.x), first, step, cols, raw);
            next = target_of(x, i + gridDim.x);
        }
        sum         = block_sum(sum, room);
        const int n = target_count(x, i);
        if (x.grad_scale != 0.0f) {
            const float factor = x.grad_scale * steepest<CAP>(x) * total_weight(x, n) / sum;
#pragma unroll
            for (int k = 0; k < KEPT; k++) {
                const int at = first + k * step;
                if (at >= cols) continue;
                const float4 a = low[k * N_THREADS], b = high[k * N_THREADS];
                v[0] = factor * a.x, v[1] = factor * a.y, v[2] = factor * a.z, v[3] = factor * a.w;
                v[4] = factor * b.x, v[5] = factor * b.y, v[6] = factor * b.z, v[7] = factor * b.w;
                put(row + at, v);
            }
            __syncthreads();
        }
        if (threadIdx.x >= WARP) continue;
        const float grad = settle(x, CAP, n, target, widen(at_target), top, sum, losses + 2 * i);
        if (x.grad_scale != 0.0f && target >= 0) narrow(grad, &row[target]);
    }
}

/* ---- any rows -------------------------------------------------------------------------------- */

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    xent_any(const __grid_constant__ scoring<wide<T>> x, lines<T> logits, int64_t rows,
             int64_t cols, double *losses)
{
    __shared__ wide<T> room[WARP];
    const int64_t      first = (int64_t)threadIdx.x * V, step = (int64_t)blockDim.x * V;
    wide<T>            v[V], slope;
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
        T            *row    = logits.row(0, i);
        const int     n      = target_count(x, i);
        const int     target = target_of(x, i);
        const wide<T> raw    = target >= 0 ? widen(row[target]) : (wide<T>)0;
        wide<T>       top = -INFINITY, sum = 0;
        for (int64_t j = first; j < cols; j += step) {
            open(fetch<T, V>(row + j), v);
#pragma unroll
            for (int e = 0; e < V; e++)
                top = fmax(top, v[e]);
        }
        top = capped(x, x.cap, block_max(top, room), &slope);
        for (int64_t j = first; j < cols; j += step) {
            open(fetch<T, V>(row + j), v);
#pragma unroll
            for (int e = 0; e < V; e++)
                sum += exp(capped(x, x.cap, v[e], &slope) - top);
        }
        sum                  = block_sum(sum, room);
        const wide<T> factor = x.grad_scale * total_weight(x, n) / sum;
        for (int64_t j = first; j < cols && x.grad_scale != 0; j += step) {
            open(fetch<T, V>(row + j), v);
#pragma unroll
            for (int e = 0; e < V; e++) {
                const wide<T> p = exp(capped(x, x.cap, v[e], &slope) - top);
                v[e]            = factor * slope * p;
            }
            put(row + j, v);
        }
        __syncthreads();
        if (threadIdx.x >= WARP) continue;
        const wide<T> grad = settle(x, x.cap, n, target, raw, top, sum, losses + 2 * i);
        if (x.grad_scale != 0 && target >= 0) narrow(grad, &row[target]);
    }
}

/* One block: loss += the sums of `rows` pairs. */
static __global__ void add_losses(const double *losses, int64_t rows, double *loss)
{
    __shared__ double room[WARP];
    double            weighted = 0.0, plain = 0.0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
        weighted += losses[2 * i];
        plain += losses[2 * i + 1];
    }
    weighted = block_sum(weighted, room);
    plain    = block_sum(plain, room);
    if (threadIdx.x != 0) return;
    loss[0] += weighted;
    loss[1] += plain;
}

/* ---- launches -------------------------------------------------------------------------------- */

template <typename Real> static scoring<Real> scoring_of(const ms_xent *x)
{
    scoring<Real> s;
    s.cap        = x->cap;
    s.scale      = (Real)x->cap_scale;
    s.shift      = (Real)x->cap_shift;
    s.width      = (Real)x->cap_width;
    s.grad_scale = (Real)x->grad_scale;
    s.targets    = x->targets.data;
    s.n_targets  = x->targets.count;
    s.first      = x->first;
    s.n_weights  = x->n_weights;
    for (int k = 0; k < MS_XENT_TARGETS; k++)
        s.weights[k] = x->weights[k];
    return s;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t held_bytes(const ms_mat *logits) { return logits->cols * (int64_t)sizeof(float); }

static bool is_kept(ms_device *d, const ms_mat *logits)
{
    const int64_t spare = 1024; /* bytes of shared memory for all else */
    return ms_dtype_bytes(logits->dtype) == 2 && is_vector(logits) &&
           logits->cols <= (int64_t)KEPT * MANY * VECTOR &&
           held_bytes(logits) + spare <= ms_cuda_of(d)->shared_bytes;
}

template <typename T, ms_cap CAP, int N_THREADS>
static musec_status run_kept(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    const ms_cuda *c       = ms_cuda_of(d);
    const int64_t  bytes   = held_bytes(&logits);
    const int64_t  at_once = smaller(MANY / N_THREADS, c->shared_bytes / (bytes + 1024));
    const int64_t  blocks  = smaller(logits.rows, c->processors * (at_once > 0 ? at_once : 1));
    const auto     larger  = cudaFuncAttributeMaxDynamicSharedMemorySize;
    const void    *kernel  = (const void *)xent_kept<T, CAP, N_THREADS>;
    musec_status   st = ms_cuda_status(d, cudaFuncSetAttribute(kernel, larger, (int)bytes), "xent");
    if (st != MUSEC_OK) return st;
    xent_kept<T, CAP, N_THREADS><<<(unsigned)blocks, N_THREADS, (size_t)bytes, c->stream>>>(
        scoring_of<float>(x), lines_of<T>(logits), logits.rows, (int)logits.cols, losses);
    return launched(d, "xent");
}

template <typename T, ms_cap CAP>
static musec_status run_kept_width(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    if (logits.cols <= KEPT * FEW * VECTOR) return run_kept<T, CAP, FEW>(d, x, logits, losses);
    return run_kept<T, CAP, MANY>(d, x, logits, losses);
}

template <typename T>
static musec_status run_kept_cap(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    switch (x->cap) {
    case MS_CAP_TANH: return run_kept_width<T, MS_CAP_TANH>(d, x, logits, losses);
    case MS_CAP_SIGMOID: return run_kept_width<T, MS_CAP_SIGMOID>(d, x, logits, losses);
    default: return run_kept_width<T, MS_CAP_NONE>(d, x, logits, losses);
    }
}

template <typename T, int V>
static musec_status run_any(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    const int64_t  need    = ceil_div(logits.cols, (int64_t)V * WARP) * WARP;
    const unsigned threads = (unsigned)smaller(THREADS, need);
    const unsigned blocks  = (unsigned)smaller(logits.rows, INT32_MAX);
    xent_any<T, V><<<blocks, threads, 0, ms_cuda_of(d)->stream>>>(
        scoring_of<wide<T>>(x), lines_of<T>(logits), logits.rows, logits.cols, losses);
    return launched(d, "xent");
}

static musec_status run_rows(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    const bool kept = is_kept(d, &logits), vector = is_vector(&logits);
    return by_dtype(logits.dtype, [&](auto tag) {
        typedef typename decltype(tag)::type T;
        if constexpr (sizeof(T) == 2)
            if (kept) return run_kept_cap<T>(d, x, logits, losses);
        if constexpr (sizeof(T) < sizeof(double))
            if (vector) return run_any<T, VECTOR>(d, x, logits, losses);
        return run_any<T, 1>(d, x, logits, losses);
    });
}

static musec_status cuda_xent(ms_device *d, ms_xent x, ms_mat logits, ms_vec loss)
{
    const ms_mark mark   = ms_arena_mark(&d->scratch);
    void         *losses = NULL;
    musec_status  st;
    if (logits.rows == 0) return MUSEC_OK;
    st = ms_scratch_bytes(d, 2 * (size_t)logits.rows * sizeof(double), &losses);
    if (st == MUSEC_OK) st = run_rows(d, &x, logits, (double *)losses);
    if (st == MUSEC_OK) {
        add_losses<<<1, THREADS, 0, ms_cuda_of(d)->stream>>>((const double *)losses, logits.rows,
                                                             loss.data);
        st = launched(d, "xent");
    }
    ms_arena_reset(&d->scratch, mark);
    return st;
}

void ms_cuda_loss_ops(ms_device_ops *table) { table->xent = cuda_xent; }
