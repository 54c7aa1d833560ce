/* network.cu - elementwise ops of networks: unary functions, mix, and their gradients.
 *
 * Dense operands are one long row.  A thread loads several pieces at once; it reads only the places
 * that it writes, so all ops may be in place.
 *
 * The gradient of mix needs two inner products of whole matrices: each block stores a partial sum
 * in float64, and one block adds these in order.  The number of blocks, and so the bits, depend
 * only on the shape. */
#include "device/cuda/row.cuh"
#include "device/unary.h"

enum {
    THREADS = 256,
    AHEAD   = 2,    /* pieces that a thread loads before it needs them */
    PARTS   = 1024, /* the most partial sums of an inner product: blocks of a launch */
};

/* ---- pieces of operands ---------------------------------------------------------------------- */

struct shape { /* rows of pieces */
    int64_t pieces, per_row, count;
};

struct spot {
    int64_t b, i, j;
};

static bool is_dense(const ms_mat *x)
{
    return (x->rows <= 1 || x->ld == x->cols) && (x->count == 1 || x->stride == x->rows * x->cols);
}

/* Returns the shape of mats, all alike, in pieces of so many elements. */
static shape shape_of(const ms_mat *const *mats, int n, int elements)
{
    const ms_mat *x     = mats[0];
    bool          dense = true;
    for (int k = 0; k < n; k++)
        dense = dense && is_dense(mats[k]);
    if (dense) {
        const int64_t all = x->count * x->rows * x->cols / elements;
        return shape{ all, all, 1 };
    }
    return shape{ x->count * x->rows * x->cols / elements, x->cols / elements, x->count };
}

static bool are_vectors(const ms_mat *const *mats, int n)
{
    bool all = true;
    for (int k = 0; k < n; k++)
        all = all && is_vector(mats[k]);
    return all;
}

template <int V> static __device__ inline spot spot_of(const shape &s, int64_t at)
{
    spot    p = { 0, 0, at };
    int64_t row;
    if (s.pieces != s.per_row) {
        divide(at, s.per_row, &row, &p.j);
        place_of(row, s.count, &p.i, &p.b);
    }
    p.j *= V;
    return p;
}

template <typename T> static __device__ inline T *at_spot(const lines<T> &x, const spot &p)
{
    return x.row(p.b, p.i) + p.j;
}

/* ---- one or two inputs, one output ----------------------------------------------------------- */

static __device__ inline float logistic_f32(float x, float *rest)
{
    const float e = expf(-fabsf(x)), large = 1.0f / (1.0f + e), small = e * large;
    *rest = x < 0.0f ? large : small;
    return x < 0.0f ? small : large;
}

static __device__ inline double logistic_f64(double x, double *rest)
{
    return ms_logistic_f64(x, rest);
}

#undef MS_FN
#define MS_FN static __device__ inline
MS_UNARY_FNS(float, f32, logistic_f32)
MS_UNARY_FNS(double, f64, logistic_f64)

#define X(NAME, name)                                                                       \
    struct name##_of {                                                                      \
        enum { INPUTS = 1 };                                                                \
        __device__ void   begin() {}                                                        \
        __device__ float  operator()(float x, float) const { return ms_##name##_f32(x); }   \
        __device__ double operator()(double x, double) const { return ms_##name##_f64(x); } \
    };                                                                                      \
    struct name##_grad_of {                                                                 \
        enum { INPUTS = 2 };                                                                \
        __device__ void  begin() {}                                                         \
        __device__ float operator()(float x, float dy) const                                \
        {                                                                                   \
            return ms_##name##_grad_f32(x, dy);                                             \
        }                                                                                   \
        __device__ double operator()(double x, double dy) const                             \
        {                                                                                   \
            return ms_##name##_grad_f64(x, dy);                                             \
        }                                                                                   \
    };
MS_UNARY_MAP(X)
#undef X

/* Returns the square root of a finite number > 0, rounded to nearest as by sqrtf but without its
 * branch: half of the activations are 0, and each would send its warp through the slow path. */
static __device__ inline float root_of(float x)
{
    const bool  low = x < 0x1p-60f; /* rsqrt and the correction below need normal numbers */
    const float y   = low ? x * 0x1p64f : x;
    const float r = rsqrt_approx(y), s = __fmul_rn(y, r);
    const float root = __fmaf_rn(__fmaf_rn(-s, s, y), 0.5f * r, s);
    return low ? root * 0x1p-32f : root;
}

static __device__ inline double root_of(double x) { return sqrt(x); }

template <typename T> struct relu2_grad_from_out_of {
    enum { INPUTS = 2 };
    __device__ void begin() {}
    __device__ wide<T> operator()(wide<T> out, wide<T> dout) const
    {
        T r;
        narrow(out < (wide<T>)INFINITY ? root_of(out) : out, &r); /* false for NaN, which stays */
        return !(out <= 0) ? 2 * widen(r) * dout : (wide<T>)0;
    }
};

template <typename Real> struct multiply_of {
    enum { INPUTS = 2 };
    __device__ void begin() {}
    __device__ Real operator()(Real x, Real y) const { return x * y; }
};

template <typename Real> struct mix_of {
    enum { INPUTS = 2 };
    const Real     *weights; /* (2) in device memory */
    Real            first, second;
    __device__ void begin()
    {
        first  = weights[0];
        second = weights[1];
    }
    __device__ Real operator()(Real x, Real y) const { return first * x + second * y; }
};

template <typename T, int V, typename Map>
static __global__ void map_elements(Map map, shape s, lines<T> x, lines<T> y, lines<T> out)
{
    pdl_wait_trigger();
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    piece<T, V>   a[AHEAD], b[AHEAD];
    spot          p[AHEAD];
    map.begin();
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < s.pieces;
         at += AHEAD * threads) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (at + k * threads >= s.pieces) continue;
            p[k] = spot_of<V>(s, at + k * threads);
            a[k] = fetch<T, V>(at_spot(x, p[k]));
            if (Map::INPUTS == 2) b[k] = fetch<T, V>(at_spot(y, p[k]));
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            wide<T> v[V], w[V] = {};
            if (at + k * threads >= s.pieces) continue;
            unpack(a[k], v);
            if (Map::INPUTS == 2) unpack(b[k], w);
#pragma unroll
            for (int e = 0; e < V; e++)
                v[e] = map(v[e], w[e]);
            put(at_spot(out, p[k]), v);
        }
    }
}

/* map_of(type_tag<T>) returns the function object for elements of that type. */
template <typename MapOf>
static musec_status run_map(ms_device *d, const char *what, MapOf map_of, ms_mat x, ms_mat y,
                            ms_mat out)
{
    const ms_mat *const mats[] = { &x, &y, &out };
    if (x.count * x.rows * x.cols == 0) return MUSEC_OK;
    return by_piece(x.dtype, are_vectors(mats, 3), [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        constexpr int                        V = decltype(width)::value;
        const shape                          s = shape_of(mats, 3, V);
        launch_kernel(d, map_elements<T, V, decltype(map_of(tag))>,
                      blocks_for(d, ceil_div(s.pieces, AHEAD), THREADS), THREADS, 0, map_of(tag), s,
                      lines_of<T>(x), lines_of<T>(y), lines_of<T>(out));
        return launched(d, what);
    });
}

static musec_status cuda_unary(ms_device *d, ms_unary f, ms_mat x, ms_mat out)
{
    switch (f) {
#define X(NAME, name)     \
    case MS_UNARY_##NAME: \
        return run_map(   \
            d, #name, [](auto) { return name##_of(); }, x, x, out);
        MS_UNARY_MAP(X)
#undef X
    }
    return MUSEC_EINVAL;
}

static musec_status cuda_unary_grad(ms_device *d, ms_unary f, ms_mat x, ms_mat dout, ms_mat dx)
{
    switch (f) {
#define X(NAME, name)     \
    case MS_UNARY_##NAME: \
        return run_map(   \
            d, #name "_grad", [](auto) { return name##_grad_of(); }, x, dout, dx);
        MS_UNARY_MAP(X)
#undef X
    }
    return MUSEC_EINVAL;
}

static musec_status cuda_relu2_grad_from_out(ms_device *d, ms_mat out, ms_mat dout, ms_mat dx)
{
    return run_map(
        d, "relu2_grad_from_out",
        [](auto tag) { return relu2_grad_from_out_of<typename decltype(tag)::type>(); }, out, dout,
        dx);
}

static musec_status cuda_mix(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat out)
{
    return run_map(
        d, "mix",
        [&](auto tag) {
            typedef wide<typename decltype(tag)::type> Real;
            return mix_of<Real>{ (const Real *)w.data, 0, 0 };
        },
        x, y, out);
}

static musec_status cuda_multiply(ms_device *d, ms_mat x, ms_mat y, ms_mat out)
{
    return run_map(
        d, "multiply", [](auto tag) { return multiply_of<wide<typename decltype(tag)::type>>(); },
        x, y, out);
}

/* ---- the gradient of mix --------------------------------------------------------------------- */

template <typename T> struct mix_operands {
    const wide<T> *weights; /* (2) */
    lines<T>       x, y, dout, dx, dy;
};

/* parts: (blocks, 2) inner products of dout with x and y.  The elements of a piece are added in
 * the type of the arithmetic, pieces in float64. */
template <typename T, int V>
static __global__ void mix_grad_parts(mix_operands<T> m, shape s, double *parts)
{
    pdl_wait_trigger();
    __shared__ double shared[WARP];
    const int64_t     threads = (int64_t)gridDim.x * blockDim.x;
    const wide<T>     first = m.weights[0], second = m.weights[1];
    double            with_x = 0.0, with_y = 0.0;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < s.pieces;
         at += threads) {
        const spot        p      = spot_of<V>(s, at);
        const piece<T, V> g_bits = fetch<T, V>(at_spot(m.dout, p));
        const piece<T, V> x_bits = fetch<T, V>(at_spot(m.x, p));
        const piece<T, V> y_bits = fetch<T, V>(at_spot(m.y, p));
        const piece<T, V> o_bits = fetch<T, V>(at_spot(m.dy, p));
        wide<T>           g[V], v[V], w[V], o[V], by_x = 0, by_y = 0;
        unpack(g_bits, g);
        unpack(x_bits, v);
        unpack(y_bits, w);
        unpack(o_bits, o);
#pragma unroll
        for (int e = 0; e < V; e++) {
            by_x += g[e] * v[e];
            by_y += g[e] * w[e];
            o[e] += second * g[e];
            g[e] *= first;
        }
        with_x += (double)by_x;
        with_y += (double)by_y;
        put(at_spot(m.dx, p), g);
        put(at_spot(m.dy, p), o);
    }
    with_x = block_sum(with_x, shared);
    with_y = block_sum(with_y, shared);
    if (threadIdx.x != 0) return;
    parts[2 * blockIdx.x]     = with_x;
    parts[2 * blockIdx.x + 1] = with_y;
}

/* Adds the sums of n pairs to dw, by one block. */
template <typename Real> static __global__ void mix_grad_join(const double *parts, int n, Real *dw)
{
    pdl_wait_trigger();
    __shared__ double shared[WARP];
    double            with_x = 0.0, with_y = 0.0;
    for (int k = (int)threadIdx.x; k < n; k += (int)blockDim.x) {
        with_x += parts[2 * k];
        with_y += parts[2 * k + 1];
    }
    with_x = block_sum(with_x, shared);
    with_y = block_sum(with_y, shared);
    if (threadIdx.x != 0) return;
    dw[0] = (Real)((double)dw[0] + with_x);
    dw[1] = (Real)((double)dw[1] + with_y);
}

template <typename T, int V>
static musec_status run_mix_grad(ms_device *d, const mix_operands<T> *m, const shape &s,
                                 wide<T> *dw)
{
    const ms_mark mark   = ms_arena_mark(&d->scratch);
    const int64_t need   = ceil_div(s.pieces, THREADS);
    const int     blocks = need < PARTS ? (int)need : (int)PARTS;
    void         *parts  = NULL;
    musec_status  st     = ms_scratch_bytes(d, 2 * (size_t)blocks * sizeof(double), &parts);
    if (st == MUSEC_OK) {
        launch_kernel(d, mix_grad_parts<T, V>, blocks, THREADS, 0, *m, s, (double *)parts);
        st = launched(d, "mix_grad");
    }
    if (st == MUSEC_OK) {
        launch_kernel(d, mix_grad_join<wide<T>>, 1, THREADS, 0, (const double *)parts, blocks, dw);
        st = launched(d, "mix_grad");
    }
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status cuda_mix_grad(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat dout,
                                  ms_mat dx, ms_mat dy, ms_mat dw)
{
    const ms_mat *const mats[] = { &x, &y, &dout, &dx, &dy };
    if (x.rows * x.cols == 0) return MUSEC_OK;
    return by_piece(x.dtype, are_vectors(mats, 5), [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        constexpr int                        V = decltype(width)::value;
        const mix_operands<T> m = { (const wide<T> *)w.data, lines_of<T>(x),  lines_of<T>(y),
                                    lines_of<T>(dout),       lines_of<T>(dx), lines_of<T>(dy) };
        return run_mix_grad<T, V>(d, &m, shape_of(mats, 5, V), (wide<T> *)dw.data);
    });
}

void ms_cuda_network_ops(ms_device_ops *table)
{
    table->unary               = cuda_unary;
    table->unary_grad          = cuda_unary_grad;
    table->relu2_grad_from_out = cuda_relu2_grad_from_out;
    table->mix                 = cuda_mix;
    table->mix_grad            = cuda_mix_grad;
    table->multiply            = cuda_multiply;
}
