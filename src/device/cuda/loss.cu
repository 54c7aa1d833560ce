/* loss.cu - the loss of a chunk of rows, and its gradient in place.
 *
 * With z the capped logits of a row, m the largest of them, e = exp(z - m) and S = sum e:
 *     l = sum_k w_k (m - z_k + log S),
 *     gradient = grad_scale slope (total e / S - weights of the targets),  total = sum_k w_k.
 * Caps rise, so m is the cap of the largest raw logit.  A block has a row.  The logits of its
 * targets are read before anything is written and their gradients are written last, over what the
 * rest of the row's formula put there.
 *
 * Rows of 16 bits whose products slope e fit into shared memory are read once and written once, and
 * exponentials are computed once for each element: the products only have to be scaled in the
 * end.  A block walks over rows, and in one loop over a thread's columns it stores the previous
 * row, computes the exponentials of this one and loads the next, which keeps memory busy all the
 * time.  So that no thread waits for the row's largest logit, exponentials are relative to a level
 * that each thread knows: the bound of the cap if that is small enough, else the largest logit of
 * its columns; in the end the sums are rescaled to a common level.  Targets and losses are computed
 * by a warp without columns, so that the other warps need not wait for it at the end of each row.
 *
 * Other rows are read three times, the second and third time from cache.
 *
 * The losses of the rows are stored in a workspace in float64; one block adds them, in an order
 * that depends only on their number. */
#include <assert.h>
#include <float.h>
#include <type_traits>

#include "device/cuda/row.cuh"

enum {
    /* threads that share the columns of a resident row; with one warp more they fill the four
     * partitions of a multiprocessor evenly */
    MANY       = 992,
    LESS       = 480,   /* where each needs all of its columns at once, in registers */
    FEW        = 128,   /* for narrow rows */
    FEW_BLOCKS = 3,     /* of FEW threads on a multiprocessor */
    NARROW     = 14336, /* the most columns for FEW threads */
    WIDEST     = 57344, /* the most columns for the others */
    FLIGHT     = 3072,  /* vectors that a block loads ahead, where it need not load all */
    THREADS    = 512,   /* of a block of the fallback, and of the one that adds the losses */
    SPARE      = 1024,  /* bytes of shared memory for all but the resident row */
    BOUNDED    = 40,    /* caps of at most this: exp(-2 BOUNDED) is far from the least number */
};

/* ---- caps ------------------------------------------------------------------------------------ */

template <typename Real> struct scoring { /* ms_xent for a kernel */
    ms_cap         cap;
    Real           scale, shift, width, grad_scale;
    const int32_t *targets;
    int64_t        n_targets, first;
    int            n_weights;
    double         weights[MS_XENT_TARGETS];
};

/* Returns z of a raw logit, and its slope dz / draw. */
template <typename Real>
static __device__ inline Real capped(const scoring<Real> &x, ms_cap cap, Real raw, Real *slope)
{
    if (cap == MS_CAP_TANH) {
        const Real t = tanh(raw / x.scale);
        *slope       = 1 - t * t;
        return x.scale * t;
    }
    if (cap == MS_CAP_SIGMOID) { /* by |at|, so that neither it nor 1 minus it cancels */
        const Real at = (raw + x.shift) / x.width, e = exp(-fabs(at));
        const Real high = 1 / (1 + e), low = e / (1 + e);
        *slope = x.scale / x.width * low * high;
        return x.scale * (at >= 0 ? high : low);
    }
    *slope = 1;
    return raw;
}

/* ---- targets --------------------------------------------------------------------------------- */

/* Returns the number of targets of row i of the chunk. */
template <typename Real>
static __device__ inline int target_count(const scoring<Real> &x, int64_t i)
{
    const int64_t left = x.n_targets - (x.first + i);
    return left < x.n_weights ? (int)left : x.n_weights;
}

/* Returns the column of this lane's target in row i: lane k has that of weight k, others -1. */
template <typename Real>
static __device__ inline int target_of(const scoring<Real> &x, int64_t i, int lane)
{
    return lane < target_count(x, i) ? x.targets[x.first + i + lane] : -1;
}

template <typename Real> static __device__ inline Real total_weight(const scoring<Real> &x, int n)
{
    double total = 0.0;
    for (int k = 0; k < n; k++)
        total += x.weights[k];
    return (Real)total;
}

/* Stores the losses of the row and returns the gradient of this lane's target, which is in column
 * `at` and has that raw logit.  A whole warp calls it. */
template <typename Real>
static __device__ inline Real target_loss(const scoring<Real> &x, ms_cap cap, int n, int at,
                                          Real raw, Real top, Real sum, double *losses)
{
    Real         slope;
    const Real   z        = capped(x, cap, raw, &slope);
    const double loss     = (double)top - (double)z + (double)log(sum);
    double       weighted = 0.0, hits = 0.0;
    for (int k = 0; k < n; k++) {
        weighted += x.weights[k] * __shfl_sync(ALL_LANES, loss, k);
        if (__shfl_sync(ALL_LANES, at, k) == at) hits += x.weights[k];
    }
    if (threadIdx.x % WARP == 0) {
        losses[0] = weighted;
        losses[1] = loss;
    }
    return x.grad_scale * slope * (total_weight(x, n) * (exp(z - top) / sum) - (Real)hits);
}

template <typename Real> static __device__ inline Real warp_max(Real x)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmax(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

/* Gives all threads of a block the largest x, as block_sum gives the sum. */
template <typename Real> static __device__ inline Real block_max(Real x, Real *shared)
{
    const int lane = (int)threadIdx.x % WARP, warps = (int)blockDim.x / WARP;
    x = warp_max(x);
    if (lane == 0) shared[threadIdx.x / WARP] = x;
    __syncthreads();
    x = warp_max(shared[lane < warps ? lane : 0]);
    __syncthreads();
    return x;
}

/* ---- resident rows of 16 bits ---------------------------------------------------------------- */

/* a <- 1 / a of four numbers in [1, 2], with one reciprocal. */
static __device__ inline void invert_four(float *a)
{
    const float low = a[0] * a[1], high = a[2] * a[3];
    const float all   = rcp_approx(low * high);
    const float one_0 = all * high, one_1 = all * low; /* 1 / low, 1 / high */
    const float first = one_0 * a[1], third = one_1 * a[3];
    a[1] = one_0 * a[0];
    a[3] = one_1 * a[2];
    a[0] = first;
    a[2] = third;
}

/* Constants of a thread and a row: factor and shift of raw logits, in units of log 2, the bound of
 * the cap, and the level of exponentials, these two with BOUND in units of log 2 as well. */
struct fast_row {
    float by, plus, scale, level;
};

template <ms_cap CAP, bool BOUND>
static __device__ inline fast_row fast_row_of(const scoring<float> &x, float level)
{
    const float unit = BOUND ? LOG2_E : 1.0f;
    fast_row    r    = { 1.0f, 0.0f, x.scale * unit, level * unit };
    if (CAP == MS_CAP_TANH) r.by = 2.0f * LOG2_E / x.scale;
    if (CAP == MS_CAP_SIGMOID) {
        r.by   = LOG2_E / x.width;
        r.plus = x.shift * r.by;
    }
    return r;
}

/* Returns the unit in which exp_and_slope() gives slopes. */
template <ms_cap CAP> static __device__ inline float slope_unit(const scoring<float> &x)
{
    return CAP == MS_CAP_TANH ? 4.0f : CAP == MS_CAP_SIGMOID ? x.scale / x.width : 1.0f;
}

/* v <- slope exp(z - level) of raw logits; returns the sum of exp(z - level).  With g = exp(-|h|)
 * and r = 1 / (1 + g), the logistic function of h is r or g r and its derivative g r^2; tanh(h / 2)
 * is (1 - g) r with the sign of h, its derivative by h / 2 four times that. */
template <ms_cap CAP, bool BOUND>
static __device__ inline float exp_and_slope(const fast_row &f, float (&v)[VECTOR])
{
    float sum = 0.0f;
    if constexpr (CAP == MS_CAP_NONE) {
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            v[e] = exp2_approx((v[e] - f.level) * LOG2_E);
            sum += v[e];
        }
    } else {
#pragma unroll
        for (int four = 0; four < VECTOR; four += 4) {
            float g[4], r[4], p[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                v[four + e] = v[four + e] * f.by + f.plus;
                g[e]        = exp2_approx(-fabsf(v[four + e]));
                r[e]        = 1.0f + g[e];
            }
            invert_four(r);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float h = v[four + e], rest = g[e] * r[e];
                const float t = CAP == MS_CAP_TANH ? copysignf((1.0f - g[e]) * r[e], h)
                                : h >= 0.0f        ? r[e]
                                                   : rest;
                const float z = f.scale * t - f.level;
                p[e]          = exp2_approx(BOUND ? z : z * LOG2_E);
                v[four + e]   = p[e] * (rest * r[e]);
            }
            sum += (p[0] + p[1]) + (p[2] + p[3]);
        }
    }
    return sum;
}

/* Returns the largest raw logit of a thread's columns; the lowest finite number if it has none, so
 * that -infinity stays below it. */
template <typename T, int RESIDENT>
static __device__ inline float own_largest(const piece<T, VECTOR> (&raw)[RESIDENT], int first,
                                           int step, int cols)
{
    float top = -FLT_MAX, v[VECTOR];
#pragma unroll
    for (int k = 0; k < RESIDENT; k++) {
        if (first + k * step >= cols) continue;
        unpack(raw[k], v);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
            top = fmaxf(top, v[e]);
    }
    return top;
}

template <typename T>
static __device__ inline void put_scaled(T *to, float f, const float4 &a, const float4 &b)
{
    const float v[VECTOR] = {
        f * a.x, f * a.y, f * a.z, f * a.w, f * b.x, f * b.y, f * b.z, f * b.w
    };
    put(to, v);
}

/* The results of the worker warps for a row.  There are two, for alternate rows, so that one
 * barrier for each row is enough: before one is written again, all that read it have passed a
 * barrier. */
struct report {
    float top[WARP], sum[WARP];
};

struct row_sum { /* of exponentials relative to top */
    float top, sum;
};

/* A barrier of the workers and the warp for targets. */
template <int WORKERS> static __device__ inline void row_barrier()
{
    asm volatile("bar.sync 1, %0;" ::"n"(WORKERS + WARP) : "memory");
}

/* Stores the sum of a worker warp's exponentials and the level that it is relative to. */
template <bool BOUND> static __device__ inline void store_report(float level, float sum, report *to)
{
    const int   warp = (int)threadIdx.x / WARP;
    const float top  = BOUND ? level : warp_max(level);
    if (!BOUND) sum *= exp2_approx((level - top) * LOG2_E);
    sum = warp_sum(sum);
    if (threadIdx.x % WARP != 0) return;
    to->top[warp] = top;
    to->sum[warp] = sum;
}

template <bool BOUND, int WORKERS>
static __device__ inline row_sum merge_reports(float level, const report *from)
{
    const int lane = (int)threadIdx.x % WARP;
    float     top = level, sum = lane < WORKERS / WARP ? from->sum[lane] : 0.0f;
    if (!BOUND) {
        const float own = from->top[lane < WORKERS / WARP ? lane : 0];
        top             = warp_max(own);
        sum *= exp2_approx((own - top) * LOG2_E);
    }
    return row_sum{ top, warp_sum(sum) };
}

/* Computes the rows of a block, except what depends on targets.  A thread writes only its own
 * columns, in memory and in `held`, which has slope e of the row: first halves of its vectors, then
 * second.
 *
 * Every fetch is unconditional: a conditional one would either keep the old contents of its
 * registers or load to other registers and wait for them. */
template <typename T, ms_cap CAP, bool BOUND, int WORKERS, int RESIDENT>
static __device__ inline void work(const scoring<float> &x, const lines<T> &logits, int64_t rows,
                                   int cols, float4 *held, report *reports)
{
    constexpr int    step    = WORKERS * VECTOR;
    constexpr int    AHEAD   = BOUND && FLIGHT / WORKERS < RESIDENT
                                   ? FLIGHT / WORKERS
                                   : RESIDENT; /* the level needs all columns */
    const bool       written = x.grad_scale != 0.0f;
    const int        first   = (int)threadIdx.x * VECTOR;
    const int64_t    skip    = (int64_t)gridDim.x * logits.ld; /* from row to row */
    const float      unit    = x.grad_scale * slope_unit<CAP>(x);
    const float      usual   = unit * total_weight(x, x.n_weights);
    float4          *low = held + threadIdx.x, *high = low + cols / VECTOR;
    const T         *any = logits.row(0, blockIdx.x); /* fetched where nothing else is needed */
    T               *own = logits.row(0, blockIdx.x) + first;
    piece<T, VECTOR> raw[RESIDENT];
    float            factor = 0.0f; /* of the row before */
    int              turn   = 0;
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
        raw[k] = fetch<T, VECTOR>(first + k * step < cols ? own + k * step : any);
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x, own += skip, turn ^= 1) {
        const bool  more = i + gridDim.x < rows, behind = written && i >= gridDim.x;
        float       v[VECTOR], slope, sum = 0.0f;
        const float level =
            BOUND ? x.scale : capped(x, CAP, own_largest(raw, first, step, cols), &slope);
        const fast_row f = fast_row_of<CAP, BOUND>(x, level);
#pragma unroll
        for (int k = 0; k < RESIDENT; k++) {
            const int  then = (k + AHEAD) % RESIDENT, at = k * step;
            const bool here = k + AHEAD < RESIDENT; /* of this row, else of the next */
            if (first + at < cols) {
                if (behind)
                    put_scaled(own - skip + at, factor, low[k * WORKERS], high[k * WORKERS]);
                unpack(raw[k], v);
                sum += exp_and_slope<CAP, BOUND>(f, v);
                low[k * WORKERS]  = make_float4(v[0], v[1], v[2], v[3]);
                high[k * WORKERS] = make_float4(v[4], v[5], v[6], v[7]);
            }
            const bool is = first + then * step < cols && (here || more);
            raw[then]     = fetch<T, VECTOR>(is ? (here ? own : own + skip) + then * step : any);
        }
        store_report<BOUND>(level, sum, &reports[turn]);
        row_barrier<WORKERS>(); /* the previous row is written, too */
        const row_sum s     = merge_reports<BOUND, WORKERS>(level, &reports[turn]);
        const float   share = BOUND ? 1.0f : exp2_approx((level - s.top) * LOG2_E);
        const int     n     = target_count(x, i);
        factor = share * (n == x.n_weights ? usual : unit * total_weight(x, n)) / s.sum;
    }
    if (!written) return;
    own -= skip;
#pragma unroll
    for (int k = 0; k < RESIDENT; k++)
        if (first + k * step < cols)
            put_scaled(own + k * step, factor, low[k * WORKERS], high[k * WORKERS]);
    row_barrier<WORKERS>();
}

/* Computes the losses and the gradients of targets, by one warp: it reads the targets' logits
 * before the row is overwritten, and stores their gradients after the workers have stored
 * theirs. */
template <typename T, ms_cap CAP, bool BOUND, int WORKERS>
static __device__ inline void compute_targets(const scoring<float> &x, const lines<T> &logits,
                                              int64_t rows, const report *reports, double *losses)
{
    const bool    written = x.grad_scale != 0.0f;
    const int64_t skip    = (int64_t)gridDim.x * logits.ld;
    T            *row     = logits.row(0, blockIdx.x);
    float         grad    = 0.0f; /* of the row before, as is its target */
    int           before = -1, turn = 0;
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x, row += skip, turn ^= 1) {
        const int   at  = target_of(x, i, (int)threadIdx.x % WARP);
        const float raw = at >= 0 ? widen(row[at]) : 0.0f;
        row_barrier<WORKERS>();
        if (written && before >= 0) narrow(grad, row - skip + before);
        const row_sum s = merge_reports<BOUND, WORKERS>(x.scale, &reports[turn]);
        grad   = target_loss(x, CAP, target_count(x, i), at, raw, s.top, s.sum, losses + 2 * i);
        before = at;
    }
    if (!written) return;
    row_barrier<WORKERS>();
    if (before >= 0) narrow(grad, row - skip + before);
}

/* losses: (rows, 2).  BOUND: the level is the bound of the cap. */
template <typename T, ms_cap CAP, bool BOUND, int WORKERS, int RESIDENT>
static __global__ void __launch_bounds__(WORKERS + WARP, WORKERS == FEW ? FEW_BLOCKS : 1)
    xent_resident(const __grid_constant__ scoring<float> x, lines<T> logits, int64_t rows, int cols,
                  double *losses)
{
    pdl_wait_trigger();
    extern __shared__ float4 held[];
    __shared__ report        reports[2];
    if (threadIdx.x < WORKERS)
        work<T, CAP, BOUND, WORKERS, RESIDENT>(x, logits, rows, cols, held, reports);
    else
        compute_targets<T, CAP, BOUND, WORKERS>(x, logits, rows, reports, losses);
}

/* ---- any rows -------------------------------------------------------------------------------- */

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    xent_fallback(const __grid_constant__ scoring<wide<T>> x, lines<T> logits, int64_t rows,
                  int64_t cols, double *losses)
{
    pdl_wait_trigger();
    __shared__ wide<T> shared[WARP];
    const int64_t      first = (int64_t)threadIdx.x * V, step = (int64_t)blockDim.x * V;
    wide<T>            v[V], slope;
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
        T            *row    = logits.row(0, i);
        const int     n      = target_count(x, i);
        const int     target = target_of(x, i, (int)threadIdx.x);
        const wide<T> raw    = target >= 0 ? widen(row[target]) : (wide<T>)0;
        wide<T>       top = -INFINITY, sum = 0;
        for (int64_t j = first; j < cols; j += step) {
            unpack(fetch<T, V>(row + j), v);
#pragma unroll
            for (int e = 0; e < V; e++)
                top = fmax(top, v[e]);
        }
        top = capped(x, x.cap, block_max(top, shared), &slope);
        for (int64_t j = first; j < cols; j += step) {
            unpack(fetch<T, V>(row + j), v);
#pragma unroll
            for (int e = 0; e < V; e++)
                sum += exp(capped(x, x.cap, v[e], &slope) - top);
        }
        sum                  = block_sum(sum, shared);
        const wide<T> factor = x.grad_scale * total_weight(x, n) / sum;
        for (int64_t j = first; j < cols && x.grad_scale != 0; j += step) {
            unpack(fetch<T, V>(row + j), v);
#pragma unroll
            for (int e = 0; e < V; e++) {
                const wide<T> p = exp(capped(x, x.cap, v[e], &slope) - top);
                v[e]            = factor * slope * p;
            }
            put(row + j, v);
        }
        __syncthreads();
        if (threadIdx.x >= WARP) continue;
        const wide<T> grad = target_loss(x, x.cap, n, target, raw, top, sum, losses + 2 * i);
        if (x.grad_scale != 0 && target >= 0) narrow(grad, &row[target]);
    }
}

/* Adds the sums of `rows` pairs to loss, by one block. */
static __global__ void add_losses(const double *losses, int64_t rows, double *loss)
{
    pdl_wait_trigger();
    __shared__ double shared[WARP];
    double            weighted = 0.0, plain = 0.0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
        weighted += losses[2 * i];
        plain += losses[2 * i + 1];
    }
    weighted = block_sum(weighted, shared);
    plain    = block_sum(plain, shared);
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

static int64_t held_bytes(const ms_mat *logits) { return logits->cols * (int64_t)sizeof(float); }

static bool is_resident(ms_device *d, const ms_mat *logits)
{
    return ms_dtype_bytes(logits->dtype) == 2 && is_vector(logits) && logits->cols <= WIDEST &&
           held_bytes(logits) + SPARE <= ms_cuda_of(d)->shared_bytes;
}

template <typename T, ms_cap CAP, bool BOUND, int WORKERS>
static musec_status run_resident(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    constexpr int  RESIDENT = ((WORKERS == FEW ? NARROW : WIDEST) - 1) / (WORKERS * VECTOR) + 1;
    const ms_cuda *c        = ms_cuda_of(d);
    const int64_t  bytes    = held_bytes(&logits);
    const int64_t  at_once =
        WORKERS == FEW ? ms_min_i64(FEW_BLOCKS, c->shared_bytes / (bytes + SPARE)) : 1;
    const int64_t blocks = ms_min_i64(logits.rows, c->sm_count * (at_once > 0 ? at_once : 1));
    const auto    most   = cudaFuncAttributeMaxDynamicSharedMemorySize;
    const void   *kernel = (const void *)xent_resident<T, CAP, BOUND, WORKERS, RESIDENT>;
    /* the same for all row lengths, since other contexts may launch the kernel at the same time */
    const cudaError_t code = cudaFuncSetAttribute(kernel, most, c->shared_bytes - SPARE);
    if (code != cudaSuccess) return ms_cuda_status(d, code, "xent");
    launch_kernel(d, xent_resident<T, CAP, BOUND, WORKERS, RESIDENT>, (unsigned)blocks,
                  WORKERS + WARP, (size_t)bytes, scoring_of<float>(x), lines_of<T>(logits),
                  logits.rows, (int)logits.cols, losses);
    return launched(d, "xent");
}

template <typename T, ms_cap CAP, bool BOUND>
static musec_status run_resident_width(ms_device *d, const ms_xent *x, ms_mat logits,
                                       double *losses)
{
    if (logits.cols <= NARROW) return run_resident<T, CAP, BOUND, FEW>(d, x, logits, losses);
    return run_resident < T, CAP, BOUND, BOUND ? MANY : LESS > (d, x, logits, losses);
}

template <typename T, ms_cap CAP>
static musec_status run_resident_bound(ms_device *d, const ms_xent *x, ms_mat logits,
                                       double *losses)
{
    if (x->cap_scale <= BOUNDED) return run_resident_width<T, CAP, true>(d, x, logits, losses);
    return run_resident_width<T, CAP, false>(d, x, logits, losses);
}

template <typename T>
static musec_status run_resident_cap(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    switch (x->cap) {
    case MS_CAP_TANH: return run_resident_bound<T, MS_CAP_TANH>(d, x, logits, losses);
    case MS_CAP_SIGMOID: return run_resident_bound<T, MS_CAP_SIGMOID>(d, x, logits, losses);
    default: return run_resident_width<T, MS_CAP_NONE, false>(d, x, logits, losses);
    }
}

template <typename T, int V>
static musec_status run_fallback(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    const int64_t  need    = ceil_div(logits.cols, (int64_t)V * WARP) * WARP;
    const unsigned threads = (unsigned)ms_min_i64(THREADS, need);
    const unsigned blocks  = (unsigned)ms_min_i64(logits.rows, INT32_MAX);
    launch_kernel(d, xent_fallback<T, V>, blocks, threads, 0, scoring_of<wide<T>>(x),
                  lines_of<T>(logits), logits.rows, logits.cols, losses);
    return launched(d, "xent");
}

static musec_status run_rows(ms_device *d, const ms_xent *x, ms_mat logits, double *losses)
{
    const bool resident = is_resident(d, &logits), vector = is_vector(&logits);
    return by_piece(logits.dtype, vector, [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        if constexpr (sizeof(T) == 2)
            if (resident) return run_resident_cap<T>(d, x, logits, losses);
        return run_fallback<T, decltype(width)::value>(d, x, logits, losses);
    });
}

static musec_status cuda_xent(ms_device *d, ms_xent x, ms_mat logits, ms_vec loss)
{
    const ms_mark mark   = ms_arena_mark(&d->scratch);
    void         *losses = NULL;
    musec_status  st;
    assert(logits.count == 1 && !logits.trans && logits.ptrs == NULL && loss.count == 2);
    assert(x.n_weights >= 1 && x.n_weights <= MS_XENT_TARGETS);
    assert(x.first >= 0 && x.first + logits.rows <= x.targets.count);
    assert(logits.cols >= 1 && (x.cap == MS_CAP_NONE || x.cap_scale > 0.0));
    assert(x.cap != MS_CAP_SIGMOID || x.cap_width > 0.0);
    if (logits.rows == 0) return MUSEC_OK;
    st = ms_scratch_bytes(d, 2 * (size_t)logits.rows * sizeof(double), &losses);
    if (st == MUSEC_OK) st = run_rows(d, &x, logits, (double *)losses);
    if (st == MUSEC_OK) {
        launch_kernel(d, add_losses, 1, THREADS, 0, (const double *)losses, logits.rows, loss.data);
        st = launched(d, "xent");
    }
    ms_arena_reset(&d->scratch, mark);
    return st;
}

void ms_cuda_loss_ops(ms_device_ops *table) { table->xent = cuda_xent; }
