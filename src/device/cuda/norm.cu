/* norm.cu - rmsnorm and its gradient.
 *
 * With r = (mean(x^2) + eps)^(-1/2), y = x r and dx = r (dy - y mean(dy y)).  A row is read once
 * and stays in registers between the sum and the product, those of a warp if it is short, else of a
 * block.  Sums are float, a few terms in each thread and then a tree, so their error is a few
 * eps.  Rows that cannot be read in vectors, or do not fit into registers, are read twice by a
 * warp. */
#include <type_traits>

#include "device/cuda/row.cuh"

enum {
    WARP_PIECES  = 4,   /* vectors of a thread where a warp has a row */
    BLOCK_PIECES = 2,   /* vectors of a thread where a block has a row */
    BLOCK_MOST   = 512, /* the most threads of such a block */
};

/* The row of a thread, the same for its warp or block, and which of its columns the thread has. */
template <bool BLOCK> struct share {
    int64_t n;
    int     first, step;

    __device__ share()
    {
        n = BLOCK ? (int64_t)blockIdx.x : ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
        first = (BLOCK ? (int)threadIdx.x : (int)threadIdx.x % WARP) * VECTOR;
        step  = (BLOCK ? (int)blockDim.x : (int)WARP) * VECTOR;
    }
};

template <bool BLOCK> static __device__ inline float row_sum(float x)
{
    __shared__ float shared[WARP];
    if constexpr (BLOCK)
        return block_sum(x, shared);
    else
        return warp_sum(x);
}

/* ---- rows in registers ----------------------------------------------------------------------- */

template <typename T, int N, bool BLOCK>
static __global__ void __launch_bounds__(BLOCK ? BLOCK_MOST : ROW_THREADS)
    norm_registers(float eps, lines<T> x, int64_t rows, int64_t count, int cols, lines<T> out)
{
    pdl_wait_trigger();
    const share<BLOCK> own;
    piece<T, VECTOR>   kept[N];
    float              v[VECTOR], sum = 0.0f;
    int64_t            i, b;
    if (own.n >= rows * count) return;
    place_of(own.n, count, &i, &b);
    fetch_row(x.row(b, i), own.first, own.step, cols, kept);
#pragma unroll
    for (int k = 0; k < N; k++) {
        unpack(kept[k], v);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
            sum += v[e] * v[e];
    }
    const float r  = inverse_rms(row_sum<BLOCK>(sum), (float)cols, eps);
    T          *to = out.row(b, i);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int at = own.first + k * own.step;
        if (at >= cols) continue;
        unpack(kept[k], v);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
            v[e] *= r;
        put(to + at, v);
    }
}

template <typename T, int N, bool BLOCK>
static __global__ void __launch_bounds__(BLOCK ? BLOCK_MOST : ROW_THREADS)
    norm_grad_registers(float eps, lines<T> x, lines<T> dout, float beta, int64_t rows,
                        int64_t count, int cols, lines<T> dx)
{
    pdl_wait_trigger();
    const share<BLOCK> own;
    piece<T, VECTOR>   kept[N], grad[N], old[N];
    float              v[VECTOR], g[VECTOR], o[VECTOR], square = 0.0f, cross = 0.0f;
    int64_t            i, b;
    if (own.n >= rows * count) return;
    place_of(own.n, count, &i, &b);
    fetch_row(x.row(b, i), own.first, own.step, cols, kept);
    fetch_row(dout.row(b, i), own.first, own.step, cols, grad);
    if (beta != 0.0f) fetch_row(dx.row(b, i), own.first, own.step, cols, old);
#pragma unroll
    for (int k = 0; k < N; k++) {
        unpack(kept[k], v);
        unpack(grad[k], g);
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            square += v[e] * v[e];
            cross += v[e] * g[e];
        }
    }
    const float r     = inverse_rms(row_sum<BLOCK>(square), (float)cols, eps);
    const float along = r * row_sum<BLOCK>(cross) / (float)cols; /* mean(dy y) */
    T          *to    = dx.row(b, i);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int at = own.first + k * own.step;
        if (at >= cols) continue;
        unpack(kept[k], v);
        unpack(grad[k], g);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
            g[e] = r * (g[e] - r * v[e] * along);
        if (beta != 0.0f) {
            unpack(old[k], o);
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
                g[e] += beta * o[e];
        }
        put(to + at, g);
    }
}

/* ---- any rows, a warp each ------------------------------------------------------------------- */

template <typename T>
static __global__ void norm_fallback(wide<T> eps, lines<T> x, int64_t rows, int64_t count,
                                     int64_t cols, lines<T> out)
{
    pdl_wait_trigger();
    const int     lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * blockDim.x / WARP;
    int64_t       i, b;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; n < rows * count;
         n += step) {
        wide<T> sum = 0;
        place_of(n, count, &i, &b);
        const T *from = x.row(b, i);
        T       *to   = out.row(b, i);
        for (int64_t j = lane; j < cols; j += WARP)
            sum += widen(from[j]) * widen(from[j]);
        const wide<T> r = inverse_rms(warp_sum(sum), (wide<T>)cols, eps);
        for (int64_t j = lane; j < cols; j += WARP)
            narrow(r * widen(from[j]), &to[j]);
    }
}

template <typename T>
static __global__ void norm_grad_fallback(wide<T> eps, lines<T> x, lines<T> dout, wide<T> beta,
                                          int64_t rows, int64_t count, int64_t cols, lines<T> dx)
{
    pdl_wait_trigger();
    const int     lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * blockDim.x / WARP;
    int64_t       i, b;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; n < rows * count;
         n += step) {
        wide<T> square = 0, cross = 0;
        place_of(n, count, &i, &b);
        const T *from = x.row(b, i), *grad = dout.row(b, i);
        T       *to = dx.row(b, i);
        for (int64_t j = lane; j < cols; j += WARP) {
            square += widen(from[j]) * widen(from[j]);
            cross += widen(from[j]) * widen(grad[j]);
        }
        const wide<T> r     = inverse_rms(warp_sum(square), (wide<T>)cols, eps);
        const wide<T> along = r * warp_sum(cross) / (wide<T>)cols;
        for (int64_t j = lane; j < cols; j += WARP) {
            const wide<T> kept = beta == 0 ? (wide<T>)0 : beta * widen(to[j]);
            narrow(kept + r * (widen(grad[j]) - r * widen(from[j]) * along), &to[j]);
        }
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static bool fits_registers(const ms_mat *x)
{
    return x->cols <= (int64_t)BLOCK_PIECES * BLOCK_MOST * VECTOR && x->rows * x->count < INT32_MAX;
}

/* Calls launch(N, is the row a block's, blocks, threads), the first two as types. */
template <typename Launch> static void by_width(const ms_mat *x, Launch launch)
{
    typedef std::integral_constant<bool, false> warp_each;
    typedef std::integral_constant<bool, true>  block_each;
    const int64_t  rows = x->rows * x->count, vectors = x->cols / VECTOR;
    const unsigned blocks = row_blocks(rows, WARP);
    if (vectors <= WARP)
        launch(std::integral_constant<int, 1>(), warp_each(), blocks, ROW_THREADS);
    else if (vectors <= 2 * WARP)
        launch(std::integral_constant<int, 2>(), warp_each(), blocks, ROW_THREADS);
    else if (vectors <= WARP_PIECES * WARP)
        launch(std::integral_constant<int, WARP_PIECES>(), warp_each(), blocks, ROW_THREADS);
    else
        launch(std::integral_constant<int, BLOCK_PIECES>(), block_each(), (unsigned)rows,
               (int)ceil_div(vectors, BLOCK_PIECES * WARP) * WARP);
}

static musec_status cuda_rmsnorm(ms_device *d, double eps, ms_mat x, ms_mat out)
{
    if (x.rows * x.count == 0 || x.cols == 0) return MUSEC_OK;
    if (is_vector(&x) && is_vector(&out) && fits_registers(&x))
        return by_vector(x.dtype, [&](auto tag) {
            typedef typename decltype(tag)::type T;
            by_width(&x, [&](auto n, auto block, unsigned blocks, int threads) {
                launch_kernel(d, norm_registers<T, decltype(n)::value, decltype(block)::value>,
                              blocks, threads, 0, (float)eps, lines_of<T>(x), x.rows, x.count,
                              (int)x.cols, lines_of<T>(out));
            });
            return launched(d, "rmsnorm");
        });
    return by_dtype(x.dtype, [&](auto tag) {
        typedef typename decltype(tag)::type T;
        launch_kernel(d, norm_fallback<T>, row_blocks(x.rows * x.count, WARP), ROW_THREADS, 0,
                      (wide<T>)eps, lines_of<T>(x), x.rows, x.count, x.cols, lines_of<T>(out));
        return launched(d, "rmsnorm");
    });
}

static musec_status cuda_rmsnorm_grad(ms_device *d, double eps, ms_mat x, ms_mat dout, double beta,
                                      ms_mat dx)
{
    if (x.rows * x.count == 0 || x.cols == 0) return MUSEC_OK;
    if (is_vector(&x) && is_vector(&dout) && is_vector(&dx) && fits_registers(&x))
        return by_vector(x.dtype, [&](auto tag) {
            typedef typename decltype(tag)::type T;
            by_width(&x, [&](auto n, auto block, unsigned blocks, int threads) {
                launch_kernel(d, norm_grad_registers<T, decltype(n)::value, decltype(block)::value>,
                              blocks, threads, 0, (float)eps, lines_of<T>(x), lines_of<T>(dout),
                              (float)beta, x.rows, x.count, (int)x.cols, lines_of<T>(dx));
            });
            return launched(d, "rmsnorm_grad");
        });
    return by_dtype(x.dtype, [&](auto tag) {
        typedef typename decltype(tag)::type T;
        launch_kernel(d, norm_grad_fallback<T>, row_blocks(x.rows * x.count, WARP), ROW_THREADS, 0,
                      (wide<T>)eps, lines_of<T>(x), lines_of<T>(dout), (wide<T>)beta, x.rows,
                      x.count, x.cols, lines_of<T>(dx));
        return launched(d, "rmsnorm_grad");
    });
}

void ms_cuda_norm_ops(ms_device_ops *table)
{
    table->rmsnorm      = cuda_rmsnorm;
    table->rmsnorm_grad = cuda_rmsnorm_grad;
}
