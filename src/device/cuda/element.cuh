/* element.cuh - the loop over elements that all element ops share.
 *
 * An op is a struct that is passed to the launch by value:
 *
 *     typedef ... Real;                  its arithmetic: float, double, or an unsigned integer of
 *                                        the elements' size, where bits are moved
 *     enum { N, READS, WRITES };         operands; bit k: reads, writes operand k, if it is there
 *     template <bool Lists> using Hot    dtypes of its operands that have kernels of their own
 *     struct numbers;                    what it needs to know of one matrix,
 *     numbers of(b, slot)                read once per block: b in the stack, slot in the launch
 *     bool skips()                       may there be matrices of which nothing is wanted?
 *     bool rare                          (a constant) is it rare that anything is wanted?
 *     int watched                        (a constant) an operand that is read in float32 and not
 *                                        written, whose absmax of each matrix is merged into
 *                                        op.top, as the bits of a float64; or -1
 *     unsigned wanted(numbers)           bit k: operand k of this matrix is written, if any is
 *     void apply(numbers, Real v[N], place)   v: operands as read, then as to be written
 *
 * Where all rows are whole vectors, or all operands are dense and so one row, and all are aligned
 * for vectors, a block computes a chunk of one matrix: a thread loads `in_flight` vectors of each
 * operand, then what `of` reads, and only then uses the first, so that it waits for memory once.  A
 * thread has only 16 to 32 elements, so instructions for anything else are saved: the host examines
 * layouts and prepares divisions.  Where a matrix is rarely touched, a block checks many matrices
 * at once, and there are no more blocks than run at a time: a launch with nothing to do ends at
 * once, however large the stack.  Other layouts, also operands of which only some are transposed,
 * are computed element by element.  Both call the same apply, and products and sums are explicit
 * instructions, so that the compiler does not contract them in one and not in the other: the bits
 * depend neither on the layout nor on which dtypes a kernel is specialised for. */
#ifndef MS_DEVICE_CUDA_ELEMENT_CUH
#define MS_DEVICE_CUDA_ELEMENT_CUH

#include "device/cuda/operand.cuh"

enum {
    ELEMENT_THREADS   = 256,
    ELEMENT_EACH      = 16, /* elements of a thread, where they go one by one */
    RARE_BLOCKS       = 8,  /* on a processor at a time */
    TRANSPOSE_SIDE    = 32, /* the side of a square tile of a transposition */
    TRANSPOSE_THREADS = 256,
};

/* ---- arithmetic without contraction ---------------------------------------------------------- */

static __device__ inline float  times(float a, float b) { return __fmul_rn(a, b); }
static __device__ inline double times(double a, double b) { return __dmul_rn(a, b); }
static __device__ inline float  plus(float a, float b) { return __fadd_rn(a, b); }
static __device__ inline double plus(double a, double b) { return __dadd_rn(a, b); }
/* a b + c, rounded once */
static __device__ inline float  times_plus(float a, float b, float c) { return __fmaf_rn(a, b, c); }
static __device__ inline double times_plus(double a, double b, double c)
{
    return __fma_rn(a, b, c);
}
static __device__ inline float  root(float x) { return __fsqrt_rn(x); }
static __device__ inline double root(double x) { return __dsqrt_rn(x); }
static __device__ inline float  ratio(float a, float b) { return __fdiv_rn(a, b); }
static __device__ inline double ratio(double a, double b) { return __ddiv_rn(a, b); }

template <typename Real> static __device__ inline constexpr musec_dtype own_dtype()
{
    return sizeof(Real) == 8 ? MUSEC_F64 : MUSEC_F32;
}

/* Returns x rounded to dtype. */
template <typename Real> static __device__ inline Real as_stored(Real x, musec_dtype dtype)
{
    switch (dtype) {
    case MUSEC_F32: return (Real)(float)x;
    case MUSEC_BF16: return (Real)__bfloat162float(to_bf16(x));
    case MUSEC_F16: return (Real)__half2float(to_f16(x));
    default: return x;
    }
}

/* ---- dtypes that kernels are specialised for ------------------------------------------------- */

template <int... K> struct kinds { /* the dtype of each operand, or NONE */
    static __host__ __device__ constexpr int of(int k)
    {
        const int all[] = { K... };
        return all[k];
    }
    static __host__ __device__ constexpr int bytes() /* of an element of the widest */
    {
        int most = 0;
        for (int one : { K... })
            most = kind_bytes(one) > most ? kind_bytes(one) : most;
        return most;
    }
};

struct any_kinds {
    static __host__ __device__ constexpr int of(int) { return ANY; }
    static __host__ __device__ constexpr int bytes() { return 0; }
};

/* Launches with the first of Kinds that fits the operands, else with any_kinds. */
template <typename... Kinds> struct choice;

/* Choice for an op whose arithmetic is float64 only where an operand is: none in float64. */
template <typename Real, typename Choice>
using in_f32 = typename std::conditional<sizeof(Real) == 4, Choice, choice<>>::type;

/* Elements of a vector: 16 bytes of the widest operand. */
template <typename Op, typename Kinds> static __host__ __device__ constexpr int width_of()
{
    return 16 / (Kinds::bytes() > 0 ? Kinds::bytes() : (int)sizeof(typename Op::Real));
}

template <typename Op> static __host__ __device__ constexpr int in_flight()
{
    int reads = 0;
    for (int k = 0; k < Op::N; k++)
        reads += (int)Op::READS >> k & 1;
    return reads <= 2 ? 4 : 2;
}

template <typename Kinds, int K> static __device__ inline bool is_there(unsigned there)
{
    if constexpr (Kinds::of(K) == ANY) return (there >> K & 1u) != 0;
    return Kinds::of(K) != NONE;
}

template <typename Kinds, int K> static __device__ inline int size_in(const view &v)
{
    return Kinds::of(K) > 0 ? kind_bytes(Kinds::of(K)) : v.size;
}

template <int K> struct nth { /* an index that stays a constant as an argument */
    __host__ __device__ constexpr operator int() const { return K; }
};

/* f(nth k) for each operand k whose bit is set in Mask */
template <unsigned Mask, int N, int K = 0, typename F>
static __device__ inline void each_operand(const F &f)
{
    if constexpr (K < N) {
        if constexpr ((Mask >> K & 1u) != 0) f(nth<K>());
        each_operand<Mask, N, K + 1>(f);
    }
}

/* ---- absmax ---------------------------------------------------------------------------------- */

/* Without the sign, floating-point numbers are ordered as their bits are, and NaN is the
 * largest. */
static __device__ inline unsigned bits_of(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/* *top <- its maximum with `seen` of all threads of the block; called once in a kernel. */
static __device__ inline void merge_absmax(unsigned seen, unsigned long long *top)
{
    __shared__ unsigned shared[ELEMENT_THREADS / WARP];
    seen = __reduce_max_sync(ALL_LANES, seen);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = seen;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int k = 1; k < ELEMENT_THREADS / WARP; k++)
        seen = max(seen, shared[k]);
    atomicMax(top, (unsigned long long)__double_as_longlong((double)__uint_as_float(seen)));
}

/* ---- kernels --------------------------------------------------------------------------------- */

struct place { /* of an element in the matrix as stored */
    int64_t i, j;
    bool    diagonal;
};

/* Computes chunk k of the launch; chunks have ELEMENT_THREADS * in_flight vectors.  A row, and a
 * matrix, has at most 2^31 vectors; where an op uses places, a row has at most 2^31 elements. */
template <typename Op, typename Kinds, bool Lists>
static __device__ __forceinline__ void chunk_of_vectors(const Op                     &op,
                                                        const operands<Op::N, Lists> &a, uint32_t k)
{
    constexpr int  W = width_of<Op, Kinds>(), UNROLL = in_flight<Op>();
    const uint32_t slot  = quotient(k, a.chunks);
    const uint32_t first = (k - slot * a.chunks.by) * ELEMENT_THREADS * UNROLL;
    const uint32_t n     = (uint32_t)a.elems; /* vectors */
    raw_vector     r[UNROLL][Op::N];
    uint32_t       i[UNROLL], j[UNROLL]; /* j in vectors */
    view           v[Op::N];
    unsigned       top = 0;

    if (op.skips() && (op.wanted(op.of(a.first + slot, slot)) & Op::WRITES) == 0) return;
    each_operand<Op::READS | Op::WRITES, Op::N>([&](auto k) { v[k] = view_of(a, k, slot); });
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const uint32_t at = first + threadIdx.x + u * ELEMENT_THREADS;
        i[u]              = quotient(at, a.row);
        j[u]              = at - i[u] * a.row.by;
        if (at >= n) continue;
        each_operand<Op::READS, Op::N>([&](auto k) {
            const int size = size_in<Kinds, k>(v[k]);
            if (is_there<Kinds, k>(a.there))
                r[u][k] =
                    load_raw(v[k].data + (i[u] * v[k].ld + (int64_t)j[u] * W) * size, W * size);
        });
    }
    const auto     c      = op.of(a.first + slot, slot);
    const unsigned wanted = op.wanted(c);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        typename Op::Real x[Op::N][W] = {}, one[Op::N];
        const int         diagonal    = (int)(i[u] - j[u] * W); /* its element on the diagonal */
        if (first + threadIdx.x + u * ELEMENT_THREADS >= n) continue;
        each_operand<Op::READS, Op::N>([&](auto k) {
            if (is_there<Kinds, k>(a.there)) unpack<Kinds::of(k)>(r[u][k], v[k].dtype, x[k]);
        });
#pragma unroll
        for (int w = 0; w < W; w++) {
#pragma unroll
            for (int k = 0; k < Op::N; k++)
                one[k] = x[k][w];
            if constexpr (Op::watched >= 0) top = max(top, bits_of(one[Op::watched]));
            op.apply(c, one, place{ i[u], (int64_t)j[u] * W + w, w == diagonal });
#pragma unroll
            for (int k = 0; k < Op::N; k++)
                x[k][w] = one[k];
        }
        each_operand<Op::WRITES, Op::N>([&](auto k) {
            const int size = size_in<Kinds, k>(v[k]);
            if (is_there<Kinds, k>(a.there) && (wanted >> k & 1u) != 0)
                store_raw(v[k].data + (i[u] * v[k].ld + (int64_t)j[u] * W) * size, W * size,
                          pack<Kinds::of(k)>(x[k], v[k].dtype));
        });
    }
    if constexpr (Op::watched >= 0) merge_absmax(top, op.top + a.first + slot);
}

template <typename Op, typename Kinds, bool Lists>
static __global__ void __launch_bounds__(ELEMENT_THREADS)
    vector_k(const __grid_constant__ Op op, const __grid_constant__ operands<Op::N, Lists> a)
{
    pdl_wait_trigger();
    if (is_off(a.guard)) return;
    chunk_of_vectors<Op, Kinds>(op, a, blockIdx.x);
}

/* Runs a rare op: all blocks walk over groups of as many matrices as a block has threads, and share
 * the chunks of a group where any of its matrices is wanted. */
template <typename Op, typename Kinds, bool Lists>
static __global__ void __launch_bounds__(ELEMENT_THREADS)
    rare_k(const __grid_constant__ Op op, const __grid_constant__ operands<Op::N, Lists> a,
           uint32_t count)
{
    pdl_wait_trigger();
    if (is_off(a.guard)) return;
    for (uint32_t first = 0; first < count; first += ELEMENT_THREADS) {
        const uint32_t slot = first + threadIdx.x;
        const uint32_t last = count - first < ELEMENT_THREADS ? count : first + ELEMENT_THREADS;
        const bool     some =
            slot < count && (op.wanted(op.of(a.first + slot, slot)) & Op::WRITES) != 0;
        if (__syncthreads_or(some) == 0) continue;
        for (uint32_t k = first * a.chunks.by + blockIdx.x; k < last * a.chunks.by; k += gridDim.x)
            chunk_of_vectors<Op, Kinds>(op, a, k);
    }
}

/* Any layout and dtype. */
template <typename Op, bool Lists>
static __global__ void __launch_bounds__(ELEMENT_THREADS)
    element_k(const __grid_constant__ Op op, const __grid_constant__ operands<Op::N, Lists> a)
{
    pdl_wait_trigger();
    if (is_off(a.guard)) return;
    constexpr int64_t CHUNK  = ELEMENT_THREADS * ELEMENT_EACH;
    const uint32_t    slot   = quotient(blockIdx.x, a.chunks);
    const int64_t     start  = (int64_t)(blockIdx.x - slot * a.chunks.by) * CHUNK;
    const int64_t     end    = start + CHUNK < a.elems ? start + CHUNK : a.elems;
    const auto        c      = op.of(a.first + slot, slot);
    const unsigned    wanted = op.wanted(c);
    view              v[Op::N];
    unsigned          top = 0;

    if ((wanted & Op::WRITES) == 0) return;
    each_operand<Op::READS | Op::WRITES, Op::N>([&](auto k) { v[k] = view_of(a, k, slot); });
    for (int64_t e = start + threadIdx.x; e < end; e += ELEMENT_THREADS) {
        typename Op::Real x[Op::N] = {};
        int64_t           i, j;
        position_of(e, a.cols, a.elems, &i, &j);
        each_operand<Op::READS, Op::N>([&](auto k) {
            if (is_there<any_kinds, k>(a.there)) x[k] = load_one<typename Op::Real>(v[k], i, j);
        });
        if constexpr (Op::watched >= 0) top = max(top, bits_of(x[Op::watched]));
        op.apply(c, x, place{ i, j, i == j });
        each_operand<Op::WRITES, Op::N>([&](auto k) {
            if (is_there<any_kinds, k>(a.there) && (wanted >> k & 1u) != 0)
                store_one(v[k], i, j, x[k]);
        });
    }
    if constexpr (Op::watched >= 0) merge_absmax(top, op.top + a.first + slot);
}

/* Operand 1, not transposed, from operand 0, which is: square tiles go through shared memory, so
 * that both are accessed along rows. */
template <typename Op, bool Lists>
static __global__ void __launch_bounds__(TRANSPOSE_THREADS)
    transpose_k(const __grid_constant__ Op op, const __grid_constant__ operands<Op::N, Lists> a)
{
    pdl_wait_trigger();
    if (is_off(a.guard)) return;
    constexpr int ROWS  = TRANSPOSE_THREADS / TRANSPOSE_SIDE,
                  STEPS = TRANSPOSE_SIDE / ROWS; /* rows at once */
    __shared__ typename Op::Real square[TRANSPOSE_SIDE][TRANSPOSE_SIDE + 1];
    const uint32_t               slot = quotient(blockIdx.x, a.chunks);
    const uint32_t               at   = blockIdx.x - slot * a.chunks.by;
    const int64_t                i0   = (int64_t)(at / a.across) * TRANSPOSE_SIDE,
                  j0                  = (int64_t)(at % a.across) * TRANSPOSE_SIDE;
    const int  x = (int)threadIdx.x % TRANSPOSE_SIDE, y = (int)threadIdx.x / TRANSPOSE_SIDE;
    const view from = view_of(a, 0, slot), to = view_of(a, 1, slot);
    const auto c           = op.of(a.first + slot, slot);
    uint64_t   bits[STEPS] = {};

#pragma unroll
    for (int s = 0; s < STEPS; s++)
        if (i0 + x < a.rows && j0 + y + s * ROWS < a.cols)
            bits[s] = load_bits(from.data, (j0 + y + s * ROWS) * from.ld + i0 + x, from.size);
#pragma unroll
    for (int s = 0; s < STEPS; s++)
        square[y + s * ROWS][x] = value_of<typename Op::Real>(bits[s], from.dtype);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const int64_t i = i0 + y + s * ROWS, j = j0 + x;
        if (i >= a.rows || j >= a.cols) continue;
        typename Op::Real v[Op::N] = { square[x][y + s * ROWS] };
        op.apply(c, v, place{ i, j, i == j });
        store_one(to, i, j, v[1]);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

template <int N> struct element_call { /* the operands of a call */
    ms_mat   mat[N];
    unsigned there;     /* bit k: operand k is */
    bool     positions; /* apply uses the place of an element */
    bool     by_matrix; /* apply uses the numbers of the matrix */
};

template <int N> static bool is_there(const element_call<N> &x, int k)
{
    return (x.there >> k & 1u) != 0;
}

template <int N> static int first_there(const element_call<N> &x)
{
    int k = 0;
    while (!is_there(x, k))
        k++;
    return k;
}

template <int N> static bool has_lists(const element_call<N> &x)
{
    for (int k = 0; k < N; k++)
        if (is_there(x, k) && x.mat[k].ptrs != NULL) return true;
    return false;
}

template <int N> static bool has_f64(const element_call<N> &x)
{
    for (int k = 0; k < N; k++)
        if (is_there(x, k) && x.mat[k].dtype == MUSEC_F64) return true;
    return false;
}

/* Transposes the call if all operands are transposed, or for an op that can transpose, if its
 * output is; makes one row of dense matrices, and one matrix of a stack without gaps. */
template <typename Op> static void simplify(element_call<Op::N> *x)
{
    constexpr int N    = Op::N;
    bool          over = true, dense = !x->positions, flat = !x->by_matrix;
    for (int k = 0; k < N; k++)
        if (is_there(*x, k)) over = over && x->mat[k].trans;
    if constexpr (Op::transposes) over = x->mat[1].trans;
    for (int k = 0; k < N; k++) {
        ms_mat *m = &x->mat[k];
        if (!is_there(*x, k)) continue;
        if (over) *m = ms_t(*m);
        dense = dense && !m->trans && (m->ld == m->cols || m->rows == 1);
        for (int64_t b = 0; dense && m->ptrs != NULL && b < m->count; b++)
            dense = m->ptrs[b].ld == m->cols || m->rows == 1;
        flat = flat && m->ptrs == NULL && (m->count == 1 || m->stride == m->rows * m->cols);
    }
    for (int k = 0; k < N && dense; k++) {
        ms_mat *m = &x->mat[k];
        m->cols *= m->rows * (flat ? m->count : 1);
        m->rows = 1;
        if (flat) m->count = 1;
    }
}

/* Are rows of m aligned for vectors of W elements? */
static inline bool is_aligned(const ms_mat &m, int W)
{
    const int64_t bytes = (int64_t)ms_dtype_bytes(m.dtype) * W;
    if (m.trans || (m.rows > 1 && m.ptrs == NULL && m.ld % W != 0)) return false;
    if (m.ptrs == NULL)
        return (uintptr_t)m.data % (uintptr_t)bytes == 0 && (m.count == 1 || m.stride % W == 0);
    for (int64_t b = 0; b < m.count; b++)
        if ((uintptr_t)m.ptrs[b].data % (uintptr_t)bytes != 0 ||
            (m.rows > 1 && m.ptrs[b].ld % W != 0))
            return false;
    return true;
}

template <int N> static bool are_vectors(const element_call<N> &x, int W)
{
    const ms_mat &shape = x.mat[first_there(x)];
    if (shape.cols % W != 0 || shape.rows * (shape.cols / W) > INT32_MAX ||
        (x.positions && shape.cols > INT32_MAX))
        return false;
    for (int k = 0; k < N; k++)
        if (is_there(x, k) && !is_aligned(x.mat[k], W)) return false;
    return true;
}

template <typename Kinds, int N> static bool is_of(const element_call<N> &x)
{
    for (int k = 0; k < N; k++)
        if (is_there(x, k) ? x.mat[k].dtype != Kinds::of(k) : Kinds::of(k) != NONE) return false;
    return true;
}

template <typename Op, bool Lists>
static unsigned set_chunks(operands<Op::N, Lists> *a, int64_t count, int64_t per_chunk)
{
    a->chunks = divisor_of((a->elems - 1) / per_chunk + 1);
    assert(count <= INT32_MAX / (int64_t)a->chunks.by);
    return (unsigned)(count * a->chunks.by);
}

/* Launches the kernel for these dtypes; false: the operands are not aligned for its vectors. */
template <typename Kinds, typename Op, bool Lists>
static bool launch_vectors(ms_device *d, const Op &op, const element_call<Op::N> &x,
                           operands<Op::N, Lists> *a)
{
    constexpr int W = width_of<Op, Kinds>();
    if (!are_vectors(x, W)) return false;
    a->row                = divisor_of(a->cols / W);
    a->elems              = a->rows * (a->cols / W);
    const int64_t  count  = x.mat[first_there(x)].count;
    const unsigned blocks = set_chunks<Op>(a, count, ELEMENT_THREADS * in_flight<Op>());
    if constexpr (Op::rare) {
        const unsigned most = (unsigned)ms_cuda_of(d)->sm_count * RARE_BLOCKS;
        const unsigned few  = blocks < most ? blocks : most;
        launch_kernel(d, rare_k<Op, Kinds, Lists>, few, ELEMENT_THREADS, 0, op, *a,
                      (uint32_t)count);
    } else {
        launch_kernel(d, vector_k<Op, Kinds, Lists>, blocks, ELEMENT_THREADS, 0, op, *a);
    }
    return true;
}

template <typename... Kinds> struct choice {
    template <typename Op, bool Lists>
    static bool launch(ms_device *d, const Op &op, const element_call<Op::N> &x,
                       operands<Op::N, Lists> *a)
    {
        bool       done = false; /* the first that fits decides, whether aligned or not */
        const bool found =
            ((is_of<Kinds>(x) && (done = launch_vectors<Kinds>(d, op, x, a), true)) || ...);
        return found ? done : launch_vectors<any_kinds>(d, op, x, a);
    }
};

/* Launches once, for all matrices or for as many as a launch has pointers for. */
template <bool Lists, typename Op>
static musec_status launch_elements(ms_device *d, const char *name, const Op &op,
                                    const element_call<Op::N> &x, int64_t first)
{
    const ms_mat          &shape = x.mat[first_there(x)];
    const ms_mat_ptr      *lists[2];
    int                    n_lists = 0;
    operands<Op::N, Lists> a       = {};

    static_assert(sizeof a + sizeof op <= 4096, "kernel parameters");
    static_assert(!(Op::rare && Op::watched >= 0), "a block has one matrix to join");
    for (int k = 0; k < Op::N; k++)
        if (is_there(x, k)) set_operand(&a, k, x.mat[k], lists, &n_lists);
    a.rows = shape.rows, a.cols = shape.cols, a.elems = shape.rows * shape.cols;
    a.first = first, a.there = x.there;
    a.guard = d->guard;
    if (a.elems == 0 || shape.count == 0) return MUSEC_OK;
    if constexpr (Op::transposes) {
        if (x.mat[0].trans) {
            a.across              = (uint32_t)((a.cols - 1) / TRANSPOSE_SIDE + 1);
            a.elems               = ((a.rows - 1) / TRANSPOSE_SIDE + 1) * a.across; /* squares */
            const unsigned blocks = set_chunks<Op>(&a, shape.count, 1);
            launch_kernel(d, transpose_k<Op, Lists>, blocks, TRANSPOSE_THREADS, 0, op, a);
            return launched(d, name);
        }
    }
    if (!Op::template Hot<Lists>::launch(d, op, x, &a)) {
        const unsigned blocks = set_chunks<Op>(&a, shape.count, ELEMENT_THREADS * ELEMENT_EACH);
        launch_kernel(d, element_k<Op, Lists>, blocks, ELEMENT_THREADS, 0, op, a);
    }
    return launched(d, name);
}

/* `prepare(&op, first, n)` sets what the op holds of each matrix of a launch. */
template <typename Op, typename Prepare>
static musec_status run_lists(ms_device *d, const char *name, Op op, element_call<Op::N> x,
                              Prepare prepare)
{
    const int64_t count = x.mat[first_there(x)].count;
    simplify<Op>(&x);
    for (int64_t first = 0; first < count; first += MS_CUDA_GROUP_MAX) {
        const int64_t       n    = ms_min_i64(count - first, MS_CUDA_GROUP_MAX);
        element_call<Op::N> part = x;
        for (int k = 0; k < Op::N; k++)
            part.mat[k] = ms_mat_slice(x.mat[k], first, n);
        prepare(&op, first, n);
        const musec_status st = launch_elements<true>(d, name, op, part, first);
        if (st != MUSEC_OK) return st;
    }
    return MUSEC_OK;
}

/* For ops that take stacks only. */
template <typename Op>
static musec_status run_stacks(ms_device *d, const char *name, const Op &op, element_call<Op::N> x)
{
    simplify<Op>(&x);
    return launch_elements<false>(d, name, op, x, 0);
}

template <typename Op>
static musec_status run_elements(ms_device *d, const char *name, const Op &op,
                                 const element_call<Op::N> &x)
{
    if (!has_lists(x)) return run_stacks(d, name, op, x);
    return run_lists(d, name, op, x, [](Op *, int64_t, int64_t) {});
}

struct element_op {                           /* the defaults of an op */
    static constexpr bool transposes = false; /* operand 1 is made of operand 0: may transpose */
    static constexpr bool rare       = false;
    static constexpr int  watched    = -1;
    template <bool Lists> using Hot  = choice<>;

    struct numbers {};
    __device__ numbers                              of(int64_t, uint32_t) const { return {}; }
    __device__ bool                                 skips() const { return false; }
    template <typename Numbers> __device__ unsigned wanted(const Numbers &) const { return ~0u; }
};

#endif
