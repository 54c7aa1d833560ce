/* exclude.cu - takes a share of a direction out of rows, and its gradient.
 *
 * A row has some or all lanes of a warp.  Its inner products come first; the second pass over the
 * row finds it in the cache. */
#include "device/cuda/row.cuh"

static __device__ inline float  tanh_of(float x) { return tanhf(x); }
static __device__ inline double tanh_of(double x) { return tanh(x); }

template <typename Real> static __device__ inline Real least_square()
{
    return (Real)(MS_EXCLUDE_MIN * MS_EXCLUDE_MIN);
}

/* The inner products of v with itself, y and (GRAD) dout, of a row. */
template <typename T, int V, bool GRAD>
static __device__ inline void row_dots(const T *v, const T *y, const T *dout, int64_t cols,
                                       int lane, int lanes, wide<T> (&sum)[3])
{
    for (int64_t j = (int64_t)lane * V; j < cols; j += (int64_t)lanes * V) {
        wide<T> a[V], b[V], c[V];
        unpack(fetch<T, V>(v + j), a);
        unpack(fetch<T, V>(y + j), b);
        if (GRAD) unpack(fetch<T, V>(dout + j), c);
#pragma unroll
        for (int e = 0; e < V; e++) {
            sum[0] += a[e] * a[e];
            sum[1] += a[e] * b[e];
            if (GRAD) sum[2] += a[e] * c[e];
        }
    }
}

template <typename T> struct exclude_operands {
    const wide<T> *alpha; /* (count) */
    lines<T>       y, v, dout, out, dv;
    wide<T>       *dalpha; /* (rows, count) */
    int64_t        step;   /* from one row of dalpha to the next */
    int64_t        rows, count, cols;
};

/* out <- y - t p v, or dy and dv; whole warps stay to the end, for the sums over lanes. */
template <typename T, int V, bool GRAD>
static __global__ void exclude_rows(exclude_operands<T> o, int lanes)
{
    pdl_wait_trigger();
    const int64_t step = (int64_t)gridDim.x * blockDim.x / lanes;
    const int     lane = (int)threadIdx.x % lanes, in_warp = (int)threadIdx.x % WARP;
    int64_t       i = 0, b = 0;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
         n - in_warp / lanes < o.rows * o.count; n += step) {
        const bool mine   = n < o.rows * o.count;
        wide<T>    sum[3] = {};
        if (mine) {
            place_of(n, o.count, &i, &b);
            row_dots<T, V, GRAD>(o.v.row(b, i), o.y.row(b, i), GRAD ? o.dout.row(b, i) : NULL,
                                 o.cols, lane, lanes, sum);
        }
#pragma unroll
        for (int k = 0; k < (GRAD ? 3 : 2); k++)
            sum[k] = lanes_sum(sum[k], lanes);
        if (!mine) continue;
        const wide<T> least   = least_square<wide<T>>();
        const bool    is_long = sum[0] > least;
        const wide<T> n2      = is_long || sum[0] != sum[0] ? sum[0] : least;
        const wide<T> t = tanh_of(o.alpha[b]), p = sum[1] / n2, q = sum[2] / n2;
        const wide<T> with_v = is_long ? 2 * p * q : (wide<T>)0;
        if (GRAD && lane == 0) o.dalpha[i * o.step + b] = -(1 - t * t) * p * q * n2;
        for (int64_t j = (int64_t)lane * V; j < o.cols; j += (int64_t)lanes * V) {
            wide<T> y[V], v[V], g[V];
            unpack(fetch<T, V>(o.y.row(b, i) + j), y);
            unpack(fetch<T, V>(o.v.row(b, i) + j), v);
            if (GRAD) unpack(fetch<T, V>(o.dout.row(b, i) + j), g);
#pragma unroll
            for (int e = 0; e < V; e++) {
                const wide<T> at = v[e];
                v[e]             = -t * (p * g[e] + q * y[e] - with_v * at);
                y[e]             = GRAD ? g[e] - t * q * at : y[e] - t * p * at;
            }
            if (GRAD) put(o.dv.row(b, i) + j, v);
            put(o.out.row(b, i) + j, y);
        }
    }
}

template <bool GRAD, typename T, int V>
static musec_status launch_exclude(ms_device *d, const exclude_operands<T> &o, int lanes)
{
    launch_kernel(d, exclude_rows<T, V, GRAD>, row_blocks(o.rows * o.count, lanes), ROW_THREADS, 0,
                  o, lanes);
    return launched(d, GRAD ? "exclude_grad" : "exclude");
}

static musec_status cuda_exclude(ms_device *d, ms_mat alpha, ms_mat y, ms_mat v, ms_mat out)
{
    const bool vector = is_vector(&y) && is_vector(&v) && is_vector(&out);
    const int  lanes  = vector ? lanes_for(y.cols / VECTOR) : (int)WARP;
    if (y.rows * y.count * y.cols == 0) return MUSEC_OK;
    return by_piece(y.dtype, vector, [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        exclude_operands<T>                  o = {};
        o.alpha                                = (const wide<T> *)alpha.data;
        o.y = lines_of<T>(y), o.v = lines_of<T>(v), o.out = lines_of<T>(out);
        o.rows = y.rows, o.count = y.count, o.cols = y.cols;
        return launch_exclude<false, T, decltype(width)::value>(d, o, lanes);
    });
}

static musec_status cuda_exclude_grad(ms_device *d, ms_mat alpha, ms_mat y, ms_mat v, ms_mat dout,
                                      ms_mat dy, ms_mat dv, ms_mat dalpha)
{
    const bool vector =
        is_vector(&y) && is_vector(&v) && is_vector(&dout) && is_vector(&dy) && is_vector(&dv);
    const int lanes = vector ? lanes_for(y.cols / VECTOR) : (int)WARP;
    if (y.rows * y.count == 0) return MUSEC_OK;
    return by_piece(y.dtype, vector, [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        exclude_operands<T>                  o = {};
        o.alpha                                = (const wide<T> *)alpha.data;
        o.y = lines_of<T>(y), o.v = lines_of<T>(v), o.dout = lines_of<T>(dout);
        o.out = lines_of<T>(dy), o.dv = lines_of<T>(dv);
        o.dalpha = (wide<T> *)dalpha.data, o.step = dalpha.ld;
        o.rows = y.rows, o.count = y.count, o.cols = y.cols;
        return launch_exclude<true, T, decltype(width)::value>(d, o, lanes);
    });
}

void ms_cuda_exclude_ops(ms_device_ops *table)
{
    table->exclude      = cuda_exclude;
    table->exclude_grad = cuda_exclude_grad;
}
