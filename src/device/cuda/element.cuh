/* element.cuh - the loop over elements that all element ops share.
 *
 * An op is a struct that rides on the launch by value:
 *
 *     typedef ... Real;                  its arithmetic: float, double, or an unsigned integer of
 *                                        the elements' size, where bits are moved
 *     enum { N, W };                     operands; elements that a thread takes at once, 16 bytes
 *                                        of the widest
 *     struct numbers;                    what it needs to know of one matrix,
 *     numbers of(b, slot)                read once per block: b in the stack, slot in the launch
 *     bool idle(numbers)                 may this matrix be left alone?
 *     void apply(numbers, Real v[N], i, j)   v: operands as read, then as to be written
 *
 * A matrix is the row of its rows * cols elements, cut into chunks; a block does one chunk of one
 * matrix.  Where all operands are dense, or all rows are whole vectors, and all begin where vectors
 * may, a thread loads UNROLL vectors of each operand before it uses the first; otherwise elements
 * go one by one, which reads any layout, also one that is transposed in some operands only.  Both
 * call the same apply, and products and sums are spelt out as instructions, so that the compiler
 * does not fuse them here and leave them there: the bits do not depend on the layout. */
#ifndef MS_DEVICE_CUDA_ELEMENT_CUH
#define MS_DEVICE_CUDA_ELEMENT_CUH

#include "device/cuda/operand.cuh"

enum {
    ELEMENT_THREADS = 256,
    ELEMENT_VECTORS = 4,  /* that a thread does, so a chunk is 256 * 4 vectors */
    TURN            = 32, /* the side of a square that is transposed */
    TURN_THREADS    = 256,
};

/* ---- arithmetic that the compiler does not contract ------------------------------------------ */

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

/* x as it would be read back after being stored as dtype */
template <typename Real> static __device__ inline Real as_stored(Real x, musec_dtype dtype)
{
    switch (dtype) {
    case MUSEC_F32: return (Real)(float)x;
    case MUSEC_BF16: return (Real)__bfloat162float(to_bf16(x));
    case MUSEC_F16: return (Real)__half2float(to_f16(x));
    default: return x;
    }
}

/* ---- one element, vectors of elements -------------------------------------------------------- */

template <typename Op, bool Lists>
static __device__ inline void do_element(const Op &op, const typename Op::numbers &c,
                                         const operands<Op::N, Lists> &a, const view (&v)[Op::N],
                                         int64_t                       e)
{
    typename Op::Real x[Op::N] = {};
    int64_t           i, j;
    position_of(e, a.cols, a.elems, &i, &j);
#pragma unroll
    for (int k = 0; k < Op::N; k++)
        if (a.reads >> k & 1u) x[k] = load_one<typename Op::Real>(v[k], i, j);
    op.apply(c, x, i, j);
#pragma unroll
    for (int k = 0; k < Op::N; k++)
        if (a.writes >> k & 1u) store_one(v[k], i, j, x[k]);
}

/* r: operands as read, then as to be written; the first element is at (i, j), the last may be in
 * the next row */
template <typename Op>
static __device__ inline void apply_vector(const Op &op, const typename Op::numbers &c,
                                           unsigned reads, unsigned writes, const view (&v)[Op::N],
                                           raw_vector (&r)[Op::N], int64_t cols, int64_t i,
                                           int64_t j)
{
    typename Op::Real x[Op::N][Op::W] = {}, one[Op::N];
#pragma unroll
    for (int k = 0; k < Op::N; k++)
        if (reads >> k & 1u) unpack(r[k], v[k].dtype, x[k]);
#pragma unroll
    for (int w = 0; w < Op::W; w++) {
#pragma unroll
        for (int k = 0; k < Op::N; k++)
            one[k] = x[k][w];
        op.apply(c, one, i, j);
        if (++j == cols) j = 0, i++;
#pragma unroll
        for (int k = 0; k < Op::N; k++)
            x[k][w] = one[k];
    }
#pragma unroll
    for (int k = 0; k < Op::N; k++)
        if (writes >> k & 1u) r[k] = pack(x[k], v[k].dtype);
}

/* The first n vectors from element `start` on. */
template <typename Op, bool Lists>
static __device__ inline void do_vectors(const Op &op, const typename Op::numbers &c,
                                         const operands<Op::N, Lists> &a, const view (&v)[Op::N],
                                         int64_t start, int n, bool dense)
{
    constexpr int UNROLL = Op::N <= 3 ? ELEMENT_VECTORS : ELEMENT_VECTORS / 2;
    for (int first = (int)threadIdx.x; first < n; first += ELEMENT_THREADS * UNROLL) {
        raw_vector r[UNROLL][Op::N];
        int64_t    i[UNROLL], j[UNROLL]; /* where all is dense, there is one row */
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int at = first + u * ELEMENT_THREADS;
            i[u]         = 0;
            j[u]         = start + (int64_t)at * Op::W;
            if (at >= n) continue;
            if (!dense) position_of(j[u], a.cols, a.elems, &i[u], &j[u]);
#pragma unroll
            for (int k = 0; k < Op::N; k++)
                if (a.reads >> k & 1u)
                    r[u][k] = load_raw(v[k].data + (i[u] * v[k].ld + j[u]) * v[k].size,
                                       Op::W * v[k].size);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            int64_t row = i[u], col = j[u];
            if (first + u * ELEMENT_THREADS >= n) continue;
            if (dense && a.positions) position_of(j[u], a.cols, a.elems, &row, &col);
            apply_vector(op, c, a.reads, a.writes, v, r[u], a.cols, row, col);
#pragma unroll
            for (int k = 0; k < Op::N; k++)
                if (a.writes >> k & 1u)
                    store_raw(v[k].data + (i[u] * v[k].ld + j[u]) * v[k].size, Op::W * v[k].size,
                              r[u][k]);
        }
    }
}

/* Is every vector of W elements in one piece, and where it may be loaded at once?  *dense: all rows
 * follow one another. */
template <int N, int W, bool Lists>
static __device__ inline bool are_vectors(const operands<N, Lists> &a, const view (&v)[N],
                                          bool                     *dense)
{
    bool aligned = true, whole = a.cols % W == 0;
    *dense = true;
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (((a.reads | a.writes) >> k & 1u) == 0) continue;
        aligned =
            aligned && !v[k].trans && ((uintptr_t)v[k].data & (uintptr_t)(W * v[k].size - 1)) == 0;
        whole  = whole && v[k].ld % W == 0;
        *dense = *dense && (v[k].ld == a.cols || a.rows == 1);
    }
    return aligned && (*dense || whole);
}

template <typename Op, bool Lists>
static __global__ void __launch_bounds__(ELEMENT_THREADS)
    element_k(const __grid_constant__ Op op, const __grid_constant__ operands<Op::N, Lists> a)
{
    constexpr int  CHUNK = ELEMENT_THREADS * ELEMENT_VECTORS * Op::W;
    const uint32_t slot  = blockIdx.x / a.chunks;
    const int64_t  start = (int64_t)(blockIdx.x - slot * a.chunks) * CHUNK;
    const int      n     = a.elems - start < CHUNK ? (int)(a.elems - start) : CHUNK;
    const auto     c     = op.of(a.first + slot, slot);
    int            done  = 0;
    bool           dense;
    view           v[Op::N];

    if (op.idle(c)) return;
#pragma unroll
    for (int k = 0; k < Op::N; k++)
        v[k] = view_of(a, k, slot);
    if (are_vectors<Op::N, Op::W>(a, v, &dense)) {
        do_vectors(op, c, a, v, start, n / Op::W, dense);
        done = n / Op::W * Op::W;
    }
    for (int at = done + (int)threadIdx.x; at < n; at += ELEMENT_THREADS)
        do_element(op, c, a, v, start + at);
}

/* Operand 1, upright, from operand 0, which lies transposed: squares go through shared memory, so
 * that both sides are read and written along their rows. */
template <typename Op, bool Lists>
static __global__ void __launch_bounds__(TURN_THREADS)
    turn_k(const __grid_constant__ Op op, const __grid_constant__ operands<Op::N, Lists> a)
{
    constexpr int                ROWS = TURN_THREADS / TURN, STEPS = TURN / ROWS; /* rows at once */
    __shared__ typename Op::Real square[TURN][TURN + 1];
    const uint32_t               slot = blockIdx.x / a.chunks, at = blockIdx.x - slot * a.chunks;
    const int64_t i0 = (int64_t)(at / a.across) * TURN, j0 = (int64_t)(at % a.across) * TURN;
    const int     x = (int)threadIdx.x % TURN, y = (int)threadIdx.x / TURN;
    const view    from = view_of(a, 0, slot), to = view_of(a, 1, slot);
    const auto    c           = op.of(a.first + slot, slot);
    uint64_t      bits[STEPS] = {};

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
        op.apply(c, v, i, j);
        store_one(to, i, j, v[1]);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What an op is called with.  An operand that is in neither mask is absent. */
template <int N> struct element_call {
    ms_mat   mat[N];
    unsigned reads, writes;
    bool     positions; /* apply looks at i and j, which are those of the matrices as they lie */
    bool     by_matrix; /* or at the numbers of the matrix */
};

template <int N> static bool is_there(const element_call<N> &x, int k)
{
    return ((x.reads | x.writes) >> k & 1u) != 0;
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
        if (is_there(x, k) && x.mat[k].places != NULL) return true;
    return false;
}

template <int N> static bool has_f64(const element_call<N> &x)
{
    for (int k = 0; k < N; k++)
        if (is_there(x, k) && x.mat[k].dtype == MUSEC_F64) return true;
    return false;
}

/* Turns operands over if all are transposed, or, of an op that can transpose, what it writes; makes
 * one long matrix of a stack without gaps. */
template <typename Op> static void simplify(element_call<Op::N> *x)
{
    constexpr int N    = Op::N;
    bool          over = true, flat = !x->positions && !x->by_matrix;
    for (int k = 0; k < N; k++)
        if (is_there(*x, k)) over = over && x->mat[k].trans;
    if constexpr (Op::turns) over = x->mat[1].trans;
    for (int k = 0; k < N; k++) {
        ms_mat *m = &x->mat[k];
        if (!is_there(*x, k)) continue;
        if (over) *m = ms_t(*m);
        flat = flat && !m->trans && m->places == NULL && m->ld == m->cols &&
               (m->count == 1 || m->stride == m->rows * m->cols);
    }
    for (int k = 0; k < N && flat; k++) {
        x->mat[k].rows *= x->mat[k].count;
        x->mat[k].count = 1;
    }
}

/* One launch: of all matrices, or of as many as a launch has places for. */
template <bool Lists, typename Op>
static musec_status launch_elements(ms_device *d, const char *name, const Op &op,
                                    const element_call<Op::N> &x, int64_t first)
{
    constexpr int64_t      CHUNK = ELEMENT_THREADS * ELEMENT_VECTORS * Op::W;
    const ms_mat          &shape = x.mat[first_there(x)];
    const ms_mat_place    *lists[2];
    int                    n_lists = 0;
    operands<Op::N, Lists> a       = {};
    const cudaStream_t     stream  = ms_cuda_of(d)->stream;

    static_assert(sizeof a + sizeof op <= 4096, "kernel parameters");
    for (int k = 0; k < Op::N; k++)
        if (is_there(x, k)) set_operand(&a, k, x.mat[k], lists, &n_lists);
    a.rows = shape.rows, a.cols = shape.cols, a.elems = shape.rows * shape.cols;
    a.first = first, a.reads = x.reads, a.writes = x.writes, a.positions = x.positions;
    if (a.elems == 0 || shape.count == 0) return MUSEC_OK;
    if constexpr (Op::turns) {
        if (x.mat[0].trans) {
            a.across = (uint32_t)((a.cols - 1) / TURN + 1);
            a.chunks = (uint32_t)((a.rows - 1) / TURN + 1) * a.across;
            assert(shape.count <= INT32_MAX / (int64_t)a.chunks);
            turn_k<Op, Lists>
                <<<(unsigned)(shape.count * a.chunks), TURN_THREADS, 0, stream>>>(op, a);
            return launched(d, name);
        }
    }
    a.chunks = (uint32_t)((a.elems - 1) / CHUNK + 1);
    assert(shape.count <= INT32_MAX / (int64_t)a.chunks);
    element_k<Op, Lists><<<(unsigned)(shape.count * a.chunks), ELEMENT_THREADS, 0, stream>>>(op, a);
    return launched(d, name);
}

/* `prepare(&op, first, n)` gives the op what is its own of the matrices of a launch. */
template <typename Op, typename Prepare>
static musec_status run_lists(ms_device *d, const char *name, Op op, element_call<Op::N> x,
                              Prepare prepare)
{
    const int64_t count = x.mat[first_there(x)].count;
    simplify<Op>(&x);
    for (int64_t first = 0; first < count; first += MS_CUDA_LIST) {
        const int64_t       n    = at_most(count - first, MS_CUDA_LIST);
        element_call<Op::N> part = x;
        for (int k = 0; k < Op::N; k++)
            part.mat[k] = ms_mat_slice(x.mat[k], first, n);
        prepare(&op, first, n);
        const musec_status st = launch_elements<true>(d, name, op, part, first);
        if (st != MUSEC_OK) return st;
    }
    return MUSEC_OK;
}

/* For ops that take stacks alone. */
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

struct element_op {                      /* what most ops have in common */
    static constexpr bool turns = false; /* has operand 1 made of operand 0: may be transposed */

    struct numbers {};
    __device__ numbers                          of(int64_t, uint32_t) const { return {}; }
    template <typename Numbers> __device__ bool idle(const Numbers &) const { return false; }
};

#endif
