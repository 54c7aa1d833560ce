/* gate.cu - gates of heads and their gradient.
 *
 * A row of a head has one gate, and some or all lanes of a warp.  1 minus the logistic function of
 * s is computed as that of -s, without cancellation where it is close to 1. */
#include "device/cuda/row.cuh"

static __device__ inline float  logistic(float x) { return 1.0f / (1.0f + expf(-x)); }
static __device__ inline double logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

/* `lanes` threads have a row. */
template <typename T, int V>
static __global__ void gate_rows(lines<T> s, lines<T> y, int64_t rows, int64_t count, int64_t cols,
                                 int lanes, lines<T> out)
{
    pdl_wait_trigger();
    const int64_t step = (int64_t)gridDim.x * blockDim.x / lanes;
    const int     lane = (int)threadIdx.x % lanes;
    int64_t       i, h;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes; n < rows * count;
         n += step) {
        place_of(n, count, &i, &h);
        const wide<T> g    = logistic(widen(s.row(0, i)[h]));
        const T      *from = y.row(h, i);
        T            *to   = out.row(h, i);
        for (int64_t j = (int64_t)lane * V; j < cols; j += (int64_t)lanes * V) {
            wide<T> v[V];
            unpack(fetch<T, V>(from + j), v);
#pragma unroll
            for (int e = 0; e < V; e++)
                v[e] *= g;
            put(to + j, v);
        }
    }
}

/* Whole warps stay to the end, for the sums over lanes. */
template <typename T, int V>
static __global__ void gate_grad_rows(lines<T> s, lines<T> y, lines<T> dout, int64_t rows,
                                      int64_t count, int64_t cols, int lanes, lines<T> dy,
                                      lines<T> ds)
{
    pdl_wait_trigger();
    const int64_t step = (int64_t)gridDim.x * blockDim.x / lanes;
    const int     lane = (int)threadIdx.x % lanes, in_warp = (int)threadIdx.x % WARP;
    int64_t       i = 0, h = 0;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
         n - in_warp / lanes < rows * count; n += step) {
        const bool mine = n < rows * count;
        wide<T>    at = 0, sum = 0;
        if (mine) {
            place_of(n, count, &i, &h);
            at                  = widen(s.row(0, i)[h]);
            const wide<T> g     = logistic(at);
            const T      *value = y.row(h, i), *grad = dout.row(h, i);
            T            *to = dy.row(h, i);
            for (int64_t j = (int64_t)lane * V; j < cols; j += (int64_t)lanes * V) {
                const piece<T, V> value_bits = fetch<T, V>(value + j);
                const piece<T, V> grad_bits  = fetch<T, V>(grad + j);
                wide<T>           v[V], w[V];
                unpack(value_bits, v);
                unpack(grad_bits, w);
#pragma unroll
                for (int e = 0; e < V; e++) {
                    sum += v[e] * w[e];
                    w[e] *= g;
                }
                put(to + j, w);
            }
        }
        sum = lanes_sum(sum, lanes);
        if (mine && lane == 0) narrow(logistic(at) * logistic(-at) * sum, &ds.row(0, i)[h]);
    }
}

static musec_status cuda_gate(ms_device *d, ms_mat s, ms_mat y, ms_mat out)
{
    const bool    vector = is_vector(&y) && is_vector(&out);
    const int64_t rows   = y.rows * y.count;
    const int     lanes  = vector ? lanes_for(y.cols / VECTOR) : (int)WARP;
    if (rows == 0 || y.cols == 0) return MUSEC_OK;
    return by_piece(y.dtype, vector, [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        launch_kernel(d, gate_rows<T, decltype(width)::value>, row_blocks(rows, lanes), ROW_THREADS,
                      0, lines_of<T>(s), lines_of<T>(y), y.rows, y.count, y.cols, lanes,
                      lines_of<T>(out));
        return launched(d, "gate");
    });
}

static musec_status cuda_gate_grad(ms_device *d, ms_mat s, ms_mat y, ms_mat dout, ms_mat dy,
                                   ms_mat ds)
{
    const bool    vector = is_vector(&y) && is_vector(&dout) && is_vector(&dy);
    const int64_t rows   = y.rows * y.count;
    const int     lanes  = vector ? lanes_for(y.cols / VECTOR) : (int)WARP;
    if (rows == 0) return MUSEC_OK;
    return by_piece(y.dtype, vector, [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        launch_kernel(d, gate_grad_rows<T, decltype(width)::value>, row_blocks(rows, lanes),
                      ROW_THREADS, 0, lines_of<T>(s), lines_of<T>(y), lines_of<T>(dout), y.rows,
                      y.count, y.cols, lanes, lines_of<T>(dy), lines_of<T>(ds));
        return launched(d, "gate_grad");
    });
}

void ms_cuda_gate_ops(ms_device_ops *table)
{
    table->gate      = cuda_gate;
    table->gate_grad = cuda_gate_grad;
}
