/* reduce.cu - one float64 per matrix: sums, maxima, counts.
 *
 * A matrix is the row of its n elements as stored, in groups of 4, or 8 where they have 16
 * bits.  It is cut into at most CHUNKS chunks of equal length, one for each block.  Thread t of the
 * block adds the groups t, t + THREADS, ... of its chunk to SUMS sums, element k of a group to sum
 * k % SUMS; then the sums of a thread, of a warp, of the block and last, in a separate kernel, of
 * the chunks are merged.  This order depends only on n and the dtype.  Where rows are whole aligned
 * groups, a kernel for the dtype loads UNROLL groups at once; otherwise elements are loaded one by
 * one, with the same bits.
 *
 * Sums are float64 throughout.  A multiprocessor converts 16 numbers a cycle, and memory delivers 9
 * of 16 bits in that time; so maxima and counts stay in the type of the elements. */
#include "device/cuda/operand.cuh"

enum {
    SUMS    = 4,
    THREADS = 256,
    CHUNKS  = 1024,        /* somewhat more than the resident blocks of a chip */
    UNIT    = 8 * THREADS, /* all chunks but the last are multiples of so many elements */
    LEAST   = 8 * UNIT,    /* the fewest elements of a chunk, except the last */
};

/* Elements of a group: 16 bytes, of float64 twice that. */
static __host__ __device__ constexpr int group_of(int size) { return size == 2 ? 8 : 4; }

/* ---- accumulators ---------------------------------------------------------------------------- */

/* join adds a number to a sum, value returns the sum, merge combines two values. */
struct sum_of {
    template <typename Real> using sum = double;
    template <typename Real> static __device__ void join(double &a, Real x)
    {
        a = __dadd_rn(a, (double)x);
    }
    static __device__ double value(double a) { return a; }
    static __device__ double merge(double a, double b) { return __dadd_rn(a, b); }
};

struct sumsq_of : sum_of {
    template <typename Real> static __device__ void join(double &a, Real x)
    {
        a = __fma_rn((double)x, (double)x, a);
    }
};

/* Without the sign, floating-point numbers are ordered as their bits are, and NaN is the
 * largest. */
struct absmax_of {
    template <typename Real>
    using sum = typename std::conditional<sizeof(Real) == 4, unsigned, unsigned long long>::type;
    static __device__ void join(unsigned &a, float x)
    {
        a = max(a, __float_as_uint(x) & 0x7fffffffu);
    }
    static __device__ void join(unsigned long long &a, double x)
    {
        a = max(a, (unsigned long long)__double_as_longlong(x) & 0x7fffffffffffffffull);
    }
    static __device__ double value(unsigned a) { return (double)__uint_as_float(a); }
    static __device__ double value(unsigned long long a)
    {
        return __longlong_as_double((long long)a);
    }
    static __device__ double merge(double a, double b) { return b > a || b != b ? b : a; }
};

struct nonfinite_of {
    template <typename Real> using sum = unsigned;
    template <typename Real> static __device__ void join(unsigned &a, Real x)
    {
        a += x - x == (Real)0 ? 0u : 1u;
    }
    static __device__ double value(unsigned a) { return (double)a; }
    static __device__ double merge(double a, double b) { return __dadd_rn(a, b); }
};

/* Merges the numbers of all threads of a block, in thread 0. */
template <typename Of> static __device__ inline double block_merge(double x)
{
    __shared__ double shared[THREADS / WARP];
    const int         lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        x = Of::merge(x, __shfl_xor_sync(ALL_LANES, x, step));
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int k = 1; k < THREADS / WARP; k++)
            x = Of::merge(x, shared[k]);
    return x;
}

template <typename Of, typename Sum>
static __device__ inline void store_merged(const Sum (&sum)[SUMS], double *out)
{
    const double all = block_merge<Of>(Of::merge(Of::merge(Of::value(sum[0]), Of::value(sum[1])),
                                                 Of::merge(Of::value(sum[2]), Of::value(sum[3]))));
    if (threadIdx.x == 0) *out = all;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* out[b * chunks + k] <- the reduction of chunk k of matrix b.  A matrix has at most 2^31 groups;
 * `length`: groups of a chunk. */
template <typename Of, int Kind, bool Lists>
static __global__ void __launch_bounds__(THREADS)
    group_k(const __grid_constant__ operands<1, Lists> a, uint32_t length, double *out)
{
    pdl_wait_trigger();
    typedef typename std::conditional<Kind == MUSEC_F64, double, float>::type Real;
    constexpr int  SIZE = kind_bytes(Kind), GROUP = group_of(SIZE), W = 16 / SIZE;
    constexpr int  UNROLL = SIZE == 4 ? 8 : 4;
    const uint32_t slot   = quotient(blockIdx.x, a.chunks);
    const uint32_t start  = (blockIdx.x - slot * a.chunks.by) * length;
    const uint32_t left = (uint32_t)a.elems - start, n = left < length ? left : length;
    const view     x                          = view_of(a, 0, slot);
    typename Of::template sum<Real> sum[SUMS] = {};

    for (uint32_t first = threadIdx.x; first < n; first += THREADS * UNROLL) {
        raw_vector r[UNROLL][GROUP / W];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const uint32_t at = first + u * THREADS, i = quotient(start + at, a.row);
            const int64_t  j = (int64_t)(start + at - i * a.row.by) * GROUP;
            if (at >= n) continue;
#pragma unroll
            for (int q = 0; q < GROUP / W; q++)
                r[u][q] = load_raw(x.data + (i * x.ld + j + q * W) * SIZE, 16);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (first + u * THREADS >= n) continue;
#pragma unroll
            for (int q = 0; q < GROUP / W; q++) {
                Real part[W];
                unpack<Kind>(r[u][q], x.dtype, part);
#pragma unroll
                for (int k = 0; k < W; k++)
                    Of::join(sum[(q * W + k) % SUMS], part[k]);
            }
        }
    }
    store_merged<Of>(sum, out + blockIdx.x);
}

/* group_k for any layout and dtype; `length`: elements of a chunk. */
template <typename Of, bool Lists>
static __global__ void __launch_bounds__(THREADS)
    reduce_k(const __grid_constant__ operands<1, Lists> a, int64_t length, double *out)
{
    pdl_wait_trigger();
    const uint32_t                    slot  = quotient(blockIdx.x, a.chunks);
    const int64_t                     start = (int64_t)(blockIdx.x - slot * a.chunks.by) * length;
    const int64_t                     n     = a.elems - start < length ? a.elems - start : length;
    const view                        x     = view_of(a, 0, slot);
    const int                         group = group_of(x.size);
    typename Of::template sum<double> sum[SUMS] = {};

    for (int64_t at = (int64_t)threadIdx.x * group; at < n; at += (int64_t)THREADS * group) {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int64_t i, j;
            if (k >= group || at + k >= n) break;
            position_of(start + at + k, a.cols, a.elems, &i, &j);
            Of::join(sum[k % SUMS], load_one<double>(x, i, j));
        }
    }
    store_merged<Of>(sum, out + blockIdx.x);
}

/* part: (matrices, chunks) */
template <typename Of>
static __global__ void __launch_bounds__(THREADS)
    finish_k(const double *part, int64_t chunks, double *out)
{
    pdl_wait_trigger();
    double sum = 0.0;
    for (int64_t k = threadIdx.x; k < chunks; k += THREADS)
        sum = Of::merge(sum, part[blockIdx.x * chunks + k]);
    sum = block_merge<Of>(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(THREADS) trace_k(operand x, int64_t n, double *out)
{
    pdl_wait_trigger();
    const char *data = x.data + blockIdx.x * x.stride * x.size;
    double      sum  = 0.0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum = __dadd_rn(sum, load<double>(data, i * (x.ld + 1), x.dtype));
    sum = block_merge<sum_of>(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Are rows of x whole aligned groups? */
static bool has_groups(const ms_mat &x)
{
    const int64_t size = (int64_t)ms_dtype_bytes(x.dtype), group = group_of((int)size);
    if (x.cols % group != 0 || x.rows * (x.cols / group) > INT32_MAX) return false;
    if (x.ptrs == NULL)
        return (uintptr_t)x.data % 16 == 0 && (x.rows == 1 || x.ld * size % 16 == 0) &&
               (x.count == 1 || x.stride * size % 16 == 0);
    for (int64_t b = 0; b < x.count; b++)
        if ((uintptr_t)x.ptrs[b].data % 16 != 0 || (x.rows > 1 && x.ptrs[b].ld * size % 16 != 0))
            return false;
    return true;
}

static void make_row(ms_mat *x) /* of dense matrices */
{
    bool dense = x->ptrs != NULL || x->ld == x->cols;
    for (int64_t b = 0; x->ptrs != NULL && b < x->count; b++)
        dense = dense && x->ptrs[b].ld == x->cols;
    if (!dense) return;
    x->cols *= x->rows;
    x->rows = 1;
}

template <typename Of, bool Lists>
static void launch_groups(ms_device *d, const operands<1, Lists> &a, musec_dtype dtype,
                          unsigned blocks, uint32_t length, double *out)
{
    switch (dtype) {
    case MUSEC_F32:
        launch_kernel(d, group_k<Of, MUSEC_F32, Lists>, blocks, THREADS, 0, a, length, out);
        break;
    case MUSEC_F64:
        launch_kernel(d, group_k<Of, MUSEC_F64, Lists>, blocks, THREADS, 0, a, length, out);
        break;
    case MUSEC_BF16:
        launch_kernel(d, group_k<Of, MUSEC_BF16, Lists>, blocks, THREADS, 0, a, length, out);
        break;
    default:
        launch_kernel(d, group_k<Of, MUSEC_F16, Lists>, blocks, THREADS, 0, a, length, out);
        break;
    }
}

/* Reduces as many matrices as one launch has pointers for.  `part` holds the values of their
 * chunks. */
template <typename Of, bool Lists>
static musec_status launch_reduce(ms_device *d, const char *name, const ms_mat &x, int64_t length,
                                  double *part, double *out)
{
    const ms_mat_ptr  *lists[2];
    int                n_lists = 0;
    operands<1, Lists> a       = {};
    const int64_t      elems = x.rows * x.cols, chunks = (elems - 1) / length + 1;
    const int          group  = group_of((int)ms_dtype_bytes(x.dtype));
    const unsigned     blocks = (unsigned)(x.count * chunks);
    double *const      to     = chunks == 1 ? out : part;

    assert(x.count <= INT32_MAX / chunks);
    set_operand(&a, 0, x, lists, &n_lists);
    a.rows = x.rows, a.cols = x.cols, a.elems = elems;
    a.chunks = divisor_of(chunks);
    if (has_groups(x)) {
        a.row   = divisor_of(x.cols / group);
        a.elems = elems / group;
        launch_groups<Of>(d, a, x.dtype, blocks, (uint32_t)(length / group), to);
    } else {
        launch_kernel(d, reduce_k<Of, Lists>, blocks, THREADS, 0, a, length, to);
    }
    if (chunks > 1)
        launch_kernel(d, finish_k<Of>, (unsigned)x.count, THREADS, 0, part, chunks, out);
    return launched(d, name);
}

template <typename Of>
static musec_status reduce_with(ms_device *d, const char *name, const ms_mat &x, int64_t length,
                                double *part, double *out)
{
    if (x.ptrs == NULL) return launch_reduce<Of, false>(d, name, x, length, part, out);
    for (int64_t first = 0; first < x.count; first += MS_CUDA_GROUP_MAX) {
        const int64_t      n = ms_min_i64(x.count - first, MS_CUDA_GROUP_MAX);
        const musec_status st =
            launch_reduce<Of, true>(d, name, ms_mat_slice(x, first, n), length, part, out + first);
        if (st != MUSEC_OK) return st;
    }
    return MUSEC_OK;
}

template <typename Of>
static musec_status reduce(ms_device *d, const char *name, ms_mat x, ms_vec out)
{
    const ms_mark mark    = ms_arena_mark(&d->scratch);
    const int64_t elems   = x.rows * x.cols;
    const int64_t share   = (elems + CHUNKS - 1) / CHUNKS;
    const int64_t length  = share < LEAST ? (int64_t)LEAST : (share + UNIT - 1) / UNIT * UNIT;
    const int64_t chunks  = (elems + length - 1) / length;
    const int64_t at_once = x.ptrs == NULL ? x.count : ms_min_i64(x.count, MS_CUDA_GROUP_MAX);
    ms_vec        part    = {};
    musec_status  st      = MUSEC_OK;

    if (x.count == 0) return MUSEC_OK;
    assert(elems > 0);
    if (x.trans) x = ms_t(x);
    make_row(&x);
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
    assert(x.ptrs == NULL && x.count <= INT32_MAX);
    if (x.count == 0) return MUSEC_OK;
    launch_kernel(d, trace_k, (unsigned)x.count, THREADS, 0, o, n, out.data);
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
