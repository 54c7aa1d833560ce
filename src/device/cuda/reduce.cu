/* reduce.cu - one float64 per matrix: sums, maxima, counts.
 *
 * A matrix as it lies is the row of its n elements, in groups of GROUP.  It is cut into at most
 * CHUNKS chunks of equal length; a block does one.  Thread t of the block takes the groups t, t +
 * THREADS, ... of it and keeps SUMS sums, element k of a group going to sum k % SUMS; then the sums
 * are joined, the threads of a warp, the warps, and last, in a kernel of its own, the chunks.  All
 * of that depends on n alone.  Whether a group is loaded in one piece or element by element depends
 * on the layout and changes no bit. */
#include "device/cuda/operand.cuh"

enum {
    GROUP   = 8,
    SUMS    = 4,
    THREADS = 256,
    CHUNKS  = 1024,                /* some more than the blocks that a chip has room for */
    UNROLL  = 2,                   /* groups that a thread loads before it uses the first */
    LEAST   = 4 * GROUP * THREADS, /* elements of a chunk, where there are so many */
};

/* ---- what is accumulated --------------------------------------------------------------------- */

struct sum_of {
    static __device__ double join(double a, double x) { return __dadd_rn(a, x); }
    static __device__ double merge(double a, double b) { return __dadd_rn(a, b); }
};

struct sumsq_of {
    static __device__ double join(double a, double x) { return __fma_rn(x, x, a); }
    static __device__ double merge(double a, double b) { return __dadd_rn(a, b); }
};

struct absmax_of {
    static __device__ double merge(double a, double b) /* a NaN is larger than any number */
    {
        return b > a || b != b ? b : a;
    }
    static __device__ double join(double a, double x) { return merge(a, fabs(x)); }
};

struct nonfinite_of {
    static __device__ double join(double a, double x) { return x - x == 0.0 ? a : a + 1.0; }
    static __device__ double merge(double a, double b) { return __dadd_rn(a, b); }
};

/* Of all threads of a block, in thread 0. */
template <typename Of> static __device__ inline double block_merge(double x)
{
    __shared__ double room[THREADS / WARP];
    const int         lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        x = Of::merge(x, __shfl_xor_sync(0xffffffffu, x, step));
    if (lane == 0) room[warp] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int k = 1; k < THREADS / WARP; k++)
            x = Of::merge(x, room[k]);
    return x;
}

/* ---- kernels --------------------------------------------------------------------------------- */

struct raw_group {
    uint4 quad[GROUP * 8 / 16]; /* float64 fills them, float32 half of them, and so on */
};

static __device__ inline raw_group load_group(const char *p, int size)
{
    raw_group r;
#pragma unroll
    for (int q = 0; q < GROUP * 8 / 16; q++)
        if (q < size / 2) r.quad[q] = ((const uint4 *)p)[q];
    return r;
}

/* May groups of x be loaded in one piece?  *dense: all rows follow one another. */
static __device__ inline bool has_groups(const view &x, int64_t rows, int64_t cols, bool *dense)
{
    *dense = x.ld == cols || rows == 1;
    if (((uintptr_t)x.data & 15u) != 0) return false;
    return *dense || (cols % GROUP == 0 && x.ld * x.size % 16 == 0);
}

template <typename Of>
static __device__ inline void join_group(double (&sum)[SUMS], const raw_group &r, musec_dtype dtype)
{
#pragma unroll
    for (int k = 0; k < GROUP; k++) {
        const uint4 whole = r.quad[k / 2], half = r.quad[k / 4], quarter = r.quad[0];
        uint64_t    bits;
        if (dtype == MUSEC_F64) {
            bits =
                k % 2 == 0 ? (uint64_t)whole.y << 32 | whole.x : (uint64_t)whole.w << 32 | whole.z;
        } else if (dtype == MUSEC_F32) {
            bits = k % 4 == 0 ? half.x : k % 4 == 1 ? half.y : k % 4 == 2 ? half.z : half.w;
        } else {
            const uint32_t pair = k / 2 == 0   ? quarter.x
                                  : k / 2 == 1 ? quarter.y
                                  : k / 2 == 2 ? quarter.z
                                               : quarter.w;
            bits                = k % 2 == 0 ? pair & 0xffffu : pair >> 16;
        }
        sum[k % SUMS] = Of::join(sum[k % SUMS], value_of<double>(bits, dtype));
    }
}

/* Chunk k of matrix b leaves its number in out[b * chunks + k]. */
template <typename Of, bool Lists>
static __global__ void __launch_bounds__(THREADS)
    reduce_k(const __grid_constant__ operands<1, Lists> a, int64_t length, double *out)
{
    const uint32_t slot      = blockIdx.x / a.chunks;
    const int64_t  start     = (int64_t)(blockIdx.x - slot * a.chunks) * length;
    const int64_t  n         = a.elems - start < length ? a.elems - start : length;
    const view     x         = view_of(a, 0, slot);
    const int      tid       = (int)threadIdx.x;
    double         sum[SUMS] = { 0.0, 0.0, 0.0, 0.0 };
    bool           dense;
    int64_t        done = 0; /* groups that are done in one piece */

    if (has_groups(x, a.rows, a.cols, &dense)) {
        done = n / GROUP;
        for (int64_t first = tid; first < done; first += THREADS * UNROLL) {
            raw_group r[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                int64_t i = 0, j = start + (first + u * THREADS) * GROUP;
                if (first + u * THREADS >= done) continue;
                if (!dense) position_of(j, a.cols, a.elems, &i, &j);
                r[u] = load_group(x.data + (i * x.ld + j) * x.size, x.size);
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (first + u * THREADS < done) join_group<Of>(sum, r[u], x.dtype);
        }
    }
    for (int64_t g = done + (tid + THREADS - done % THREADS) % THREADS; g * GROUP < n;
         g += THREADS) {
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            int64_t i, j;
            if (g * GROUP + k >= n) break;
            position_of(start + g * GROUP + k, a.cols, a.elems, &i, &j);
            sum[k % SUMS] = Of::join(sum[k % SUMS], load_one<double>(x, i, j));
        }
    }
    sum[0] = block_merge<Of>(Of::merge(Of::merge(sum[0], sum[1]), Of::merge(sum[2], sum[3])));
    if (tid == 0) out[blockIdx.x] = sum[0];
}

/* part: (matrices, chunks) */
template <typename Of>
static __global__ void __launch_bounds__(THREADS)
    finish_k(const double *part, int64_t chunks, double *out)
{
    double sum = 0.0;
    for (int64_t k = threadIdx.x; k < chunks; k += THREADS)
        sum = Of::merge(sum, part[blockIdx.x * chunks + k]);
    sum = block_merge<Of>(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(THREADS) trace_k(operand x, int64_t n, double *out)
{
    const char *data = x.data + blockIdx.x * x.stride * x.size;
    double      sum  = 0.0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum = __dadd_rn(sum, load<double>(data, i * (x.ld + 1), x.dtype));
    sum = block_merge<sum_of>(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Of so many matrices as one launch has places for.  `part` has room for their chunks. */
template <typename Of, bool Lists>
static musec_status launch_reduce(ms_device *d, const char *name, const ms_mat &x, int64_t length,
                                  double *part, double *out)
{
    const ms_mat_place *lists[2];
    int                 n_lists = 0;
    operands<1, Lists>  a       = {};
    const cudaStream_t  stream  = ms_cuda_of(d)->stream;
    set_operand(&a, 0, x, lists, &n_lists);
    a.rows = x.rows, a.cols = x.cols, a.elems = x.rows * x.cols;
    a.reads  = 1u;
    a.chunks = (uint32_t)((a.elems - 1) / length + 1);
    assert(x.count <= INT32_MAX / (int64_t)a.chunks);
    reduce_k<Of, Lists><<<(unsigned)(x.count * a.chunks), THREADS, 0, stream>>>(
        a, length, a.chunks == 1 ? out : part);
    if (a.chunks > 1)
        finish_k<Of><<<(unsigned)x.count, THREADS, 0, stream>>>(part, (int64_t)a.chunks, out);
    return launched(d, name);
}

template <typename Of>
static musec_status reduce_with(ms_device *d, const char *name, const ms_mat &x, int64_t length,
                                double *part, double *out)
{
    if (x.places == NULL) return launch_reduce<Of, false>(d, name, x, length, part, out);
    for (int64_t first = 0; first < x.count; first += MS_CUDA_LIST) {
        const int64_t      n = at_most(x.count - first, MS_CUDA_LIST);
        const musec_status st =
            launch_reduce<Of, true>(d, name, ms_mat_slice(x, first, n), length, part, out + first);
        if (st != MUSEC_OK) return st;
    }
    return MUSEC_OK;
}

template <typename Of>
static musec_status reduce(ms_device *d, const char *name, ms_mat x, ms_vec out)
{
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    const int64_t elems = x.rows * x.cols, unit = GROUP * THREADS;
    const int64_t share   = (elems + CHUNKS - 1) / CHUNKS;
    const int64_t length  = share < LEAST ? (int64_t)LEAST : (share + unit - 1) / unit * unit;
    const int64_t chunks  = (elems + length - 1) / length;
    const int64_t at_once = x.places == NULL ? x.count : at_most(x.count, MS_CUDA_LIST);
    ms_vec        part    = {};
    musec_status  st      = MUSEC_OK;

    if (x.count == 0) return MUSEC_OK;
    assert(elems > 0);
    if (x.trans) x = ms_t(x);
    if (chunks > 1) st = ms_scratch_vec(d, at_once * chunks, &part);
    if (st == MUSEC_OK) st = reduce_with<Of>(d, name, x, length, part.data, out.data);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status cuda_sum(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce<sum_of>(d, "sum", x, out);
}

static musec_status cuda_sumsq(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce<sumsq_of>(d, "sumsq", x, out);
}

static musec_status cuda_absmax(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce<absmax_of>(d, "absmax", x, out);
}

static musec_status cuda_count_nonfinite(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce<nonfinite_of>(d, "count_nonfinite", x, out);
}

static musec_status cuda_trace(ms_device *d, ms_mat x, ms_vec out)
{
    const int64_t n = x.rows < x.cols ? x.rows : x.cols;
    const operand o = { (char *)x.data, x.ld,  x.stride, (int)ms_dtype_bytes(x.dtype),
                        x.dtype,        false, -1 };
    assert(x.places == NULL && x.count <= INT32_MAX);
    if (x.count == 0) return MUSEC_OK;
    trace_k<<<(unsigned)x.count, THREADS, 0, ms_cuda_of(d)->stream>>>(o, n, out.data);
    return launched(d, "trace");
}

void ms_cuda_reduce_ops(ms_device_ops *table)
{
    table->sum             = cuda_sum;
    table->sumsq           = cuda_sumsq;
    table->trace           = cuda_trace;
    table->absmax          = cuda_absmax;
    table->count_nonfinite = cuda_count_nonfinite;
}
