/* random.cu - the random numbers of core/rng.h: a thread for each draw, or for the eight of a
 * block.
 *
 * The arithmetic is float64 for any dtype: a draw is the same number on every device, up to the
 * rounding of log, cos and sin. */
#include "core/stochastic_round.h"
#include "device/cuda/element.cuh"

/* Not inline: it is long, and a thread calls it many times. */
static __device__ __noinline__ double normal_at(uint64_t key, uint64_t index)
{
    return ms_rand_normal(key, index);
}

/* Element (b, i, j) is number (b rows + i) cols + j of the stream, also where the matrix is stored
 * transposed. */
template <bool Normal> struct draw_op : element_op {
    typedef double Real;
    enum { N = 1, READS = 0, WRITES = 1 };
    template <bool Lists> using Hot = choice<kinds<MUSEC_F32>>;
    uint64_t key;
    double   from, by; /* from + by times a draw of the standard distribution */
    int64_t  rows, cols;
    bool     transposed;

    struct numbers {
        int64_t first;
    };
    __device__ numbers of(int64_t b, uint32_t) const { return { b * rows * cols }; }
    __device__ void    apply(const numbers &c, double (&v)[N], const place &e) const
    {
        const uint64_t at =
            (uint64_t)(c.first + (transposed ? e.j * cols + e.i : e.i * cols + e.j));
        const double x =
            Normal ? normal_at(key, at) : 2.0 * ms_rand_uniform(key, at) - 1.0; /* exactly */
        v[0] = plus(from, times(by, x)); /* two roundings, as on the host */
    }
};

template <typename Op>
static musec_status draw(ms_device *d, const char *name, uint64_t key, double from, double by,
                         ms_mat out)
{
    Op op;
    op.key  = key;
    op.from = from, op.by = by;
    op.rows = out.rows, op.cols = out.cols;
    op.transposed = out.trans;
    return run_stacks(d, name, op, element_call<1>{ { out }, 1u, true, true });
}

static musec_status cuda_normal(ms_device *d, uint64_t key, double mean, double sd, ms_mat out)
{
    return draw<draw_op<true>>(d, "normal", key, mean, sd, out);
}

static musec_status cuda_uniform(ms_device *d, uint64_t key, double low, double high, ms_mat out)
{
    const double mid = 0.5 * (low + high), half = 0.5 * (high - low);
    return draw<draw_op<false>>(d, "uniform", key, mid, half, out);
}

/* ---- stochastic rounding --------------------------------------------------------------------- */

struct rounding_call {
    const float  *x;
    uint16_t     *out;
    ms_mat        from, to; /* shapes and strides */
    uint64_t      key, first;
    int64_t       n; /* elements of the stack */
    const double *guard;
};

static __device__ inline int64_t place_in(const ms_mat &m, int64_t b, int64_t i, int64_t j)
{
    return b * m.stride + (m.trans ? j * m.ld + i : i * m.ld + j);
}

/* A thread rounds the elements that use one block of random bits, at most eight. */
static __global__ void stochastic_round_k(const __grid_constant__ rounding_call w)
{
    pdl_wait_trigger();
    if (is_off(w.guard)) return;
    const uint64_t end = w.first + (uint64_t)w.n, step = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t last = (end - 1) / 8;
    for (uint64_t q = w.first / 8 + blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; q <= last;
         q += step) {
        const ms_rand4 block = ms_rand_block(w.key, q, MS_RAND_U16);
#pragma unroll
        for (uint32_t k = 0; k < 8; k++) {
            const uint64_t index = 8 * q + k;
            if (index < w.first || index >= end) continue;
            const int64_t at = (int64_t)(index - w.first), size = w.from.rows * w.from.cols;
            const int64_t b = at / size, i = at % size / w.from.cols, j = at % w.from.cols;
            w.out[place_in(w.to, b, i, j)] = ms_bf16_stochastic_round(
                __float_as_uint(w.x[place_in(w.from, b, i, j)]), ms_rand_u16_of(block, k));
        }
    }
}

/* The same for dense matrices of whole blocks. */
static __global__ void stochastic_round_dense_k(const __grid_constant__ rounding_call w)
{
    pdl_wait_trigger();
    if (is_off(w.guard)) return;
    const int64_t each = w.from.rows * w.from.cols / 8, n = w.n / 8;
    for (int64_t q = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; q < n;
         q += (int64_t)gridDim.x * blockDim.x) {
        const int64_t  b = q / each, at = q % each;
        const ms_rand4 block = ms_rand_block(w.key, w.first / 8 + (uint64_t)q, MS_RAND_U16);
        const uint4   *x     = (const uint4 *)(w.x + b * w.from.stride) + 2 * at;
        const uint4    low = x[0], high = x[1];
        const uint32_t bits[8] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };
        uint32_t       pair[4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            pair[k] = ms_bf16_stochastic_round(bits[2 * k], ms_rand_u16_of(block, 2 * k)) |
                      (uint32_t)ms_bf16_stochastic_round(bits[2 * k + 1],
                                                         ms_rand_u16_of(block, 2 * k + 1))
                          << 16;
        ((uint4 *)(w.out + b * w.to.stride))[at] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
}

static bool is_dense(const ms_mat &m) { return is_vector(&m) && m.ld == m.cols; }

static musec_status cuda_stochastic_round(ms_device *d, uint64_t key, uint64_t first, ms_mat x,
                                          ms_mat out)
{
    const int     threads = 256;
    rounding_call w;
    w.x    = (const float *)x.data;
    w.out  = (uint16_t *)out.data;
    w.from = x, w.to = out;
    w.key = key, w.first = first;
    w.guard = d->guard;
    w.n     = x.count * x.rows * x.cols;
    if (w.n == 0) return MUSEC_OK;
    const unsigned blocks = blocks_for(d, w.n / 8 + 2, threads);
    if (first % 8 == 0 && is_dense(x) && is_dense(out))
        launch_kernel(d, stochastic_round_dense_k, blocks, threads, 0, w);
    else
        launch_kernel(d, stochastic_round_k, blocks, threads, 0, w);
    return launched(d, "stochastic_round");
}

void ms_cuda_random_ops(ms_device_ops *table)
{
    table->normal           = cuda_normal;
    table->uniform          = cuda_uniform;
    table->stochastic_round = cuda_stochastic_round;
}
