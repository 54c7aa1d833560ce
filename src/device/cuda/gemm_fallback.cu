/* gemm_fallback.cu - products of any operands, the mirror of a triangle, and the epilogue of a
 * product.
 *
 * The product is for operands that cuBLASLt does not support, so it is simple: a block computes a
 * TILE x TILE part of c from k-tiles of K_TILE columns of a and rows of b in shared memory, a
 * thread a part of EACH x EACH.  Sums run over k in order, in float for operands of at most 32
 * bits, else in double; so the result depends only on the operands, and x x^T is exactly
 * symmetric. */
#include "device/cuda/operand.cuh"
#include "device/cuda/product.h"

enum { TILE = 64, K_TILE = 16, EACH = 4, ACROSS = TILE / EACH, THREADS = ACROSS * ACROSS };
enum { MIRROR = 32, MIRROR_ROWS = 8 };
enum { FINISH = 256, CHUNK = 32 * FINISH }; /* threads; elements that a block finishes */

struct strided { /* element (i, j) of matrix b: data[b*stride + i*row + j*col] */
    void       *data;
    int64_t     row, col, stride;
    musec_dtype dtype;
};

static strided strided_of(ms_mat x)
{
    const int64_t row = x.trans ? 1 : x.ld, col = x.trans ? x.ld : 1;
    return { x.data, row, col, x.stride, x.dtype };
}

/* ---- products -------------------------------------------------------------------------------- */

struct tiled_product {
    strided a, b, c, source;              /* the source has the layout of c */
    int64_t m, n, k, down, across, tiles; /* tiles of a matrix: down x across; of the stack */
    double  alpha, beta;
};

/* Loads elements (first + i, k0 + j) of x to part[j][i], 0 beyond its `lines` and `k`; x is a, or b
 * transposed.  Neighbouring threads load neighbours in memory. */
template <typename Real>
static __device__ void load_k_tile(const strided &x, int64_t line, int64_t step, int64_t at,
                                   int64_t first, int64_t lines, int64_t k0, int64_t k,
                                   Real (&part)[K_TILE][TILE + 1])
{
    for (int e = (int)threadIdx.x; e < TILE * K_TILE; e += THREADS) {
        const int  i = step == 1 ? e / K_TILE : e % TILE, j = step == 1 ? e % K_TILE : e / TILE;
        const bool inside = first + i < lines && k0 + j < k;
        part[j][i] = inside ? load<Real>(x.data, at + (first + i) * line + (k0 + j) * step, x.dtype)
                            : (Real)0;
    }
}

template <typename Real>
static __global__ void __launch_bounds__(THREADS) gemm_k(const tiled_product p)
{
    pdl_wait_trigger();
    __shared__ Real a[K_TILE][TILE + 1], b[K_TILE][TILE + 1];
    const int       x = (int)threadIdx.x % ACROSS, y = (int)threadIdx.x / ACROSS;

    for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const int64_t matrix = tile / (p.down * p.across), in = tile % (p.down * p.across);
        const int64_t top = in / p.across * TILE, left = in % p.across * TILE;
        Real          sum[EACH][EACH] = {};

        for (int64_t k0 = 0; k0 < p.k; k0 += K_TILE) {
            load_k_tile(p.a, p.a.row, p.a.col, matrix * p.a.stride, top, p.m, k0, p.k, a);
            load_k_tile(p.b, p.b.col, p.b.row, matrix * p.b.stride, left, p.n, k0, p.k, b);
            __syncthreads();
#pragma unroll
            for (int j = 0; j < K_TILE; j++)
#pragma unroll
                for (int u = 0; u < EACH; u++)
#pragma unroll
                    for (int v = 0; v < EACH; v++)
                        sum[u][v] += a[j][y + u * ACROSS] * b[j][x + v * ACROSS];
            __syncthreads();
        }
#pragma unroll
        for (int u = 0; u < EACH; u++)
#pragma unroll
            for (int v = 0; v < EACH; v++) {
                const int64_t i = top + y + u * ACROSS, j = left + x + v * ACROSS;
                if (i >= p.m || j >= p.n) continue;
                const int64_t at    = matrix * p.c.stride + i * p.c.row + j * p.c.col;
                Real          value = (Real)p.alpha * sum[u][v];
                if (p.beta != 0.0)
                    value += (Real)p.beta * load<Real>(p.source.data, at, p.source.dtype);
                store(p.c.data, at, p.c.dtype, value);
            }
    }
}

/* ---- mirroring a triangle -------------------------------------------------------------------- */

struct tiled_square {
    int64_t n, row, col, stride, side, tiles; /* side x side tiles of a matrix; of the stack */
};

/* A block copies the elements below the diagonal of a tile to their mirrored places.  Elements
 * below the diagonal are only read and those above only written, so blocks do not interfere. */
template <typename Word> static __global__ void mirror_kernel(const tiled_square s, Word *c)
{
    pdl_wait_trigger();
    __shared__ Word part[MIRROR][MIRROR + 1];
    const int       x = (int)threadIdx.x;

    for (int64_t tile = blockIdx.x; tile < s.tiles; tile += gridDim.x) {
        const int64_t matrix = tile / (s.side * s.side), in = tile % (s.side * s.side);
        const int64_t top = in / s.side * MIRROR, left = in % s.side * MIRROR;
        Word         *of = c + matrix * s.stride;
        if (left > top) continue; /* the whole block does, so that no thread misses a barrier */
        for (int y = (int)threadIdx.y; y < MIRROR; y += MIRROR_ROWS)
            if (top + y < s.n && left + x < s.n)
                part[y][x] = of[(top + y) * s.row + (left + x) * s.col];
        __syncthreads();
        for (int y = (int)threadIdx.y; y < MIRROR; y += MIRROR_ROWS) {
            const int64_t i = left + y, j = top + x;
            if (i < j && j < s.n) of[i * s.row + j * s.col] = part[x][y];
        }
        __syncthreads();
    }
}

/* ---- epilogue -------------------------------------------------------------------------------- */

struct finishing {
    strided       ab, source, c; /* source.data NULL: none */
    int64_t       m, n, chunks;
    number        alpha, beta, diag;
    const double *mask;
    double       *sumsq, *trace; /* (count, chunks) */
    bool          symmetric;
};

/* A block computes a chunk of a matrix of c.  Where c is symmetric, only the lower triangle of the
 * source is read, so that c is exactly symmetric as ab is; the source is then not c itself. */
template <typename Real>
static __global__ void __launch_bounds__(FINISH) finish_kernel(const finishing f)
{
    pdl_wait_trigger();
    __shared__ double shared[32];
    const int64_t     b = blockIdx.x / f.chunks, chunk = blockIdx.x % f.chunks;
    const int64_t     last = (chunk + 1) * CHUNK < f.m * f.n ? (chunk + 1) * CHUNK : f.m * f.n;
    if (f.mask != NULL && f.mask[b] == 0.0) return;
    const Real alpha = (Real)number_at(f.alpha, b), diag = (Real)number_at(f.diag, b);
    const Real beta  = f.source.data != NULL ? (Real)number_at(f.beta, b) : (Real)0;
    double     sumsq = 0.0, trace = 0.0;

    for (int64_t e = chunk * CHUNK + threadIdx.x; e < last; e += FINISH) {
        const int64_t i = e / f.n, j = e % f.n;
        Real          v = alpha *
                 load<Real>(f.ab.data, b * f.ab.stride + i * f.ab.row + j * f.ab.col, f.ab.dtype);
        if (beta != (Real)0) {
            const bool    above = f.symmetric && i < j;
            const int64_t x = above ? j : i, y = above ? i : j;
            v += beta * load<Real>(f.source.data,
                                   b * f.source.stride + x * f.source.row + y * f.source.col,
                                   f.source.dtype);
        }
        if (i == j) v += diag, trace += (double)v;
        sumsq = fma((double)v, (double)v, sumsq);
        store(f.c.data, b * f.c.stride + i * f.c.row + j * f.c.col, f.c.dtype, v);
    }
    if (f.sumsq != NULL) sumsq = block_sum(sumsq, shared);
    if (f.trace != NULL) trace = block_sum(trace, shared);
    if (threadIdx.x == 0 && f.sumsq != NULL) f.sumsq[blockIdx.x] = sumsq;
    if (threadIdx.x == 0 && f.trace != NULL) f.trace[blockIdx.x] = trace;
}

static __global__ void __launch_bounds__(WARP)
    sums_kernel(const double *part, int64_t parts, const double *mask, double *out)
{
    pdl_wait_trigger();
    double sum = 0.0;
    if (mask != NULL && mask[blockIdx.x] == 0.0) return;
    for (int64_t t = threadIdx.x; t < parts; t += WARP)
        sum += part[blockIdx.x * parts + t];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

musec_status ms_cuda_product_sums(ms_device *d, const double *part, int64_t parts, ms_vec mask,
                                  ms_vec out)
{
    if (out.data == NULL) return MUSEC_OK;
    launch_kernel(d, sums_kernel, (unsigned)out.count, WARP, 0, part, parts, mask.data, out.data);
    return launched(d, "product");
}

musec_status ms_cuda_product_finish(ms_device *d, const ms_product *p, ms_mat ab)
{
    const ms_mark mark    = ms_arena_mark(&d->scratch);
    ms_vec        part[2] = {};
    finishing     f       = {};
    musec_status  st      = MUSEC_OK;
    f.ab                  = strided_of(ab);
    f.c                   = strided_of(p->c);
    f.source              = strided_of(p->source);
    f.m                   = p->c.rows;
    f.n                   = p->c.cols;
    f.chunks              = (f.m * f.n - 1) / CHUNK + 1;
    f.alpha               = number_of(p->alpha);
    f.beta                = number_of(p->beta);
    f.diag                = number_of(p->diag);
    f.mask                = p->mask.data;
    f.symmetric           = p->symmetric;
    assert(p->c.count <= INT32_MAX / f.chunks);
    if (p->sumsq.data != NULL) st = ms_scratch_vec(d, p->c.count * f.chunks, &part[0]);
    if (p->trace.data != NULL && st == MUSEC_OK)
        st = ms_scratch_vec(d, p->c.count * f.chunks, &part[1]);
    f.sumsq = part[0].data;
    f.trace = part[1].data;

    const unsigned blocks = (unsigned)(p->c.count * f.chunks);
    if (st == MUSEC_OK) {
        if (ab.dtype == MUSEC_F64)
            launch_kernel(d, finish_kernel<double>, blocks, FINISH, 0, f);
        else
            launch_kernel(d, finish_kernel<float>, blocks, FINISH, 0, f);
        st = launched(d, "product");
    }
    if (st == MUSEC_OK) st = ms_cuda_product_sums(d, f.sumsq, f.chunks, p->mask, p->sumsq);
    if (st == MUSEC_OK) st = ms_cuda_product_sums(d, f.trace, f.chunks, p->mask, p->trace);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- launches -------------------------------------------------------------------------------- */

template <typename Word> static void launch_mirror(ms_device *d, const tiled_square &s, void *c)
{
    const unsigned blocks = blocks_for(d, s.tiles, 1);
    const dim3     threads(MIRROR, MIRROR_ROWS);
    launch_kernel(d, mirror_kernel<Word>, blocks, threads, 0, s, (Word *)c);
}

musec_status ms_cuda_gemm_fallback(ms_device *d, const ms_cuda_gemm_problem *p)
{
    tiled_product q = { strided_of(p->a), strided_of(p->b), strided_of(p->c),
                        strided_of(p->source) };
    q.m             = p->c.rows;
    q.n             = p->c.cols;
    q.k             = p->a.cols;
    q.down          = (q.m - 1) / TILE + 1;
    q.across        = (q.n - 1) / TILE + 1;
    q.tiles         = p->c.count * q.down * q.across;
    q.alpha         = p->alpha;
    q.beta          = p->beta;

    const unsigned blocks = blocks_for(d, q.tiles, 1);
    if (p->a.dtype == MUSEC_F64)
        launch_kernel(d, gemm_k<double>, blocks, THREADS, 0, q);
    else
        launch_kernel(d, gemm_k<float>, blocks, THREADS, 0, q);
    return launched(d, "gemm");
}

musec_status ms_cuda_mirror(ms_device *d, ms_mat c)
{
    const strided      o    = strided_of(c);
    const int64_t      side = (c.rows - 1) / MIRROR + 1;
    const tiled_square s    = { c.rows, o.row, o.col, o.stride, side, c.count * side * side };
    if (c.count == 0 || c.rows < 2) return MUSEC_OK;
    switch (ms_dtype_bytes(c.dtype)) {
    case 2: launch_mirror<uint16_t>(d, s, c.data); break;
    case 4: launch_mirror<uint32_t>(d, s, c.data); break;
    default: launch_mirror<uint64_t>(d, s, c.data); break;
    }
    return launched(d, "mirror");
}
