/* rope.cu - rotary positions with the norm of queries and keys, and their gradient.
 *
 * A row of a head is short, so a few lanes of a warp hold all of it: each has one vector of the
 * first half of the columns and the one half a row further, which are partners if pairs are
 * (j, j + cols/2); pairs (2j, 2j + 1) lie in one vector anyway.  With r = (mean(x^2) + eps)^(-1/2),
 * g the gradient rotated back and y = x r:
 *     out = rotated(r x),   dx = r (g - y mean(g y)).
 * Lanes read only the places that they write, so all may be in place.  Rows that cannot be read in
 * vectors are computed by a warp, pair by pair. */
#include "device/cuda/row.cuh"

enum { TWO_VECTORS = 2 * VECTOR };

/* The rotation; Real is the accumulator type. */
template <typename Real> struct rotation {
    const Real *cos, *sin;
    int64_t     cos_ld, sin_ld, pairs;
    Real        eps;
    bool        adjacent, norm;
    bool        vector; /* cos and sin are aligned for reading four at once */
};

template <typename Real> static __device__ inline void rotate(Real c, Real s, Real *p, Real *q)
{
    const Real first = *p * c + *q * s, second = *q * c - *p * s;
    *p = first;
    *q = second;
}

/* ---- rows in registers ----------------------------------------------------------------------- */

/* Loads cos and sin of row i for N pairs from j on; 1 and 0 beyond the last. */
template <int N>
static __device__ inline void fetch_pairs(const rotation<float> &t, int64_t i, int64_t j, float *c,
                                          float *s)
{
    const float *cosines = t.cos + i * t.cos_ld + j, *sines = t.sin + i * t.sin_ld + j;
    if (t.vector && j + N <= t.pairs) {
#pragma unroll
        for (int k = 0; k < N; k += 4) {
            const float4 a = *(const float4 *)(cosines + k), b = *(const float4 *)(sines + k);
            c[k] = a.x, c[k + 1] = a.y, c[k + 2] = a.z, c[k + 3] = a.w;
            s[k] = b.x, s[k + 1] = b.y, s[k + 2] = b.z, s[k + 3] = b.w;
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        c[k] = j + k < t.pairs ? cosines[k] : 1.0f;
        s[k] = j + k < t.pairs ? sines[k] : 0.0f;
    }
}

struct angles { /* of the pairs of two vectors: those within the one, then those within the other */
    float c[VECTOR], s[VECTOR];
};

/* Loads the angles of the vectors at columns `at` and `at` + cols/2 of row i. */
static __device__ inline angles fetch_angles(const rotation<float> &t, int64_t i, int at, int cols)
{
    constexpr int HALF = VECTOR / 2;
    angles        a;
    if (t.adjacent) {
        fetch_pairs<HALF>(t, i, at / 2, a.c, a.s);
        fetch_pairs<HALF>(t, i, (at + cols / 2) / 2, a.c + HALF, a.s + HALF);
    } else {
        fetch_pairs<VECTOR>(t, i, at, a.c, a.s);
    }
    return a;
}

/* Rotates the pairs of two vectors, back where sign is -1. */
static __device__ inline void rotate_vectors(const angles &a, bool adjacent, float sign,
                                             float (&v)[VECTOR], float (&w)[VECTOR])
{
    constexpr int HALF = VECTOR / 2;
    if (adjacent) {
#pragma unroll
        for (int k = 0; k < HALF; k++) {
            rotate(a.c[k], sign * a.s[k], &v[2 * k], &v[2 * k + 1]);
            rotate(a.c[HALF + k], sign * a.s[HALF + k], &w[2 * k], &w[2 * k + 1]);
        }
    } else {
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            rotate(a.c[k], sign * a.s[k], &v[k], &w[k]);
    }
}

/* Finds row i of matrix b, which is row n of the stack; fits_registers ensures n < 2^31. */
static __device__ inline void short_place_of(uint32_t n, uint32_t count, int64_t *i, int64_t *b)
{
    const uint32_t row = n / count;
    *i                 = row;
    *b                 = n - row * count;
}

/* `lanes` threads have a row; those beyond its last vector, or beyond the last row, have zeros. */
template <typename T>
static __global__ void rope_registers(rotation<float> t, lines<T> x, int64_t rows, int64_t count,
                                      int cols, int lanes, lines<T> out)
{
    pdl_wait_trigger();
    const int64_t    n    = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
    const int        at   = (int)threadIdx.x % lanes * VECTOR;
    const bool       mine = n < rows * count && at < cols / 2;
    piece<T, VECTOR> one = {}, two = {};
    float            v[VECTOR], w[VECTOR], sum = 0.0f, r = 1.0f;
    angles           angled;
    int64_t          i, b;
    short_place_of((uint32_t)n, (uint32_t)count, &i, &b);
    if (mine) { /* angles too, so that the loads are waited for once */
        one    = fetch<T, VECTOR>(x.row(b, i) + at);
        two    = fetch<T, VECTOR>(x.row(b, i) + at + cols / 2);
        angled = fetch_angles(t, i, at, cols);
    }
    unpack(one, v);
    unpack(two, w);
    if (t.norm) {
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            sum += v[k] * v[k] + w[k] * w[k];
        r = inverse_rms(lanes_sum(sum, lanes), (float)cols, t.eps);
    }
    if (!mine) return;
#pragma unroll
    for (int k = 0; k < VECTOR; k++) {
        v[k] *= r;
        w[k] *= r;
    }
    rotate_vectors(angled, t.adjacent, 1.0f, v, w);
    put(out.row(b, i) + at, v);
    put(out.row(b, i) + at + cols / 2, w);
}

template <typename T>
static __global__ void rope_grad_registers(rotation<float> t, lines<T> x, lines<T> dout,
                                           int64_t rows, int64_t count, int cols, int lanes,
                                           lines<T> dx)
{
    pdl_wait_trigger();
    const int64_t    n    = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
    const int        at   = (int)threadIdx.x % lanes * VECTOR;
    const bool       mine = n < rows * count && at < cols / 2;
    piece<T, VECTOR> one = {}, two = {}, x_one = {}, x_two = {};
    float            v[VECTOR], w[VECTOR], xv[VECTOR], xw[VECTOR], square = 0.0f, cross = 0.0f;
    angles           angled;
    int64_t          i, b;
    short_place_of((uint32_t)n, (uint32_t)count, &i, &b);
    if (mine) {
        one    = fetch<T, VECTOR>(dout.row(b, i) + at);
        two    = fetch<T, VECTOR>(dout.row(b, i) + at + cols / 2);
        angled = fetch_angles(t, i, at, cols);
    }
    if (mine && t.norm) {
        x_one = fetch<T, VECTOR>(x.row(b, i) + at);
        x_two = fetch<T, VECTOR>(x.row(b, i) + at + cols / 2);
    }
    unpack(one, v);
    unpack(two, w);
    if (mine) rotate_vectors(angled, t.adjacent, -1.0f, v, w);
    if (t.norm) {
        unpack(x_one, xv);
        unpack(x_two, xw);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            square += xv[k] * xv[k] + xw[k] * xw[k];
            cross += xv[k] * v[k] + xw[k] * w[k];
        }
        const float r     = inverse_rms(lanes_sum(square, lanes), (float)cols, t.eps);
        const float along = r * lanes_sum(cross, lanes) / (float)cols; /* mean(g y) */
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            v[k] = r * (v[k] - r * xv[k] * along);
            w[k] = r * (w[k] - r * xw[k] * along);
        }
    }
    if (!mine) return;
    put(dx.row(b, i) + at, v);
    put(dx.row(b, i) + at + cols / 2, w);
}

/* ---- any rows, a warp each ------------------------------------------------------------------- */

/* Loads pair j of row i from `row` and rotates it. */
template <typename T>
static __device__ inline void rotated_pair(const rotation<wide<T>> &t, wide<T> sign, const T *row,
                                           int64_t i, int64_t j, int64_t first, int64_t second,
                                           wide<T> *p, wide<T> *q)
{
    *p = widen(row[first]);
    *q = widen(row[second]);
    if (j < t.pairs) rotate(t.cos[i * t.cos_ld + j], sign * t.sin[i * t.sin_ld + j], p, q);
}

template <typename T, bool BACK>
static __global__ void rope_fallback(rotation<wide<T>> t, lines<T> x, lines<T> from, int64_t rows,
                                     int64_t count, int64_t cols, lines<T> out)
{
    pdl_wait_trigger();
    const int     lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * blockDim.x / WARP;
    const wide<T> sign = BACK ? (wide<T>)-1 : (wide<T>)1;
    int64_t       i, b;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; n < rows * count;
         n += step) {
        wide<T> square = 0, cross = 0, r = 1, along = 0, p, q;
        place_of(n, count, &i, &b);
        const T *is = x.row(b, i), *in = from.row(b, i);
        T       *to = out.row(b, i);
        for (int64_t j = lane; j < cols / 2 && t.norm; j += WARP) {
            const int64_t first  = t.adjacent ? 2 * j : j;
            const int64_t second = t.adjacent ? 2 * j + 1 : j + cols / 2;
            const wide<T> one = widen(is[first]), two = widen(is[second]);
            square += one * one + two * two;
            if (!BACK) continue;
            rotated_pair<T>(t, sign, in, i, j, first, second, &p, &q);
            cross += p * one + q * two;
        }
        if (t.norm) r = inverse_rms(warp_sum(square), (wide<T>)cols, t.eps);
        if (t.norm && BACK) along = r * r * warp_sum(cross) / (wide<T>)cols;
        for (int64_t j = lane; j < cols / 2; j += WARP) {
            const int64_t first  = t.adjacent ? 2 * j : j;
            const int64_t second = t.adjacent ? 2 * j + 1 : j + cols / 2;
            rotated_pair<T>(t, sign, in, i, j, first, second, &p, &q);
            if (t.norm && BACK) {
                p -= along * widen(is[first]);
                q -= along * widen(is[second]);
            }
            narrow(r * p, &to[first]);
            narrow(r * q, &to[second]);
        }
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

template <typename Real> static rotation<Real> rotation_of(const ms_rope *r)
{
    rotation<Real> t;
    t.cos      = (const Real *)r->cos.data;
    t.sin      = (const Real *)r->sin.data;
    t.cos_ld   = r->cos.ld;
    t.sin_ld   = r->sin.ld;
    t.pairs    = r->cos.cols;
    t.eps      = (Real)r->norm_eps;
    t.adjacent = r->adjacent;
    t.norm     = r->norm_eps >= 0.0;
    t.vector   = (uintptr_t)r->cos.data % 16 == 0 && (uintptr_t)r->sin.data % 16 == 0 &&
               r->cos.ld % 4 == 0 && r->sin.ld % 4 == 0;
    return t;
}

static bool fits_registers(const ms_mat *x, const ms_mat *from, const ms_mat *out)
{
    return is_vector(x) && is_vector(from) && is_vector(out) && x->cols % TWO_VECTORS == 0 &&
           x->cols <= TWO_VECTORS * WARP && x->rows * x->count < INT32_MAX;
}

/* BACK: from is dout, else x. */
template <bool BACK>
static musec_status run_rope(ms_device *d, const ms_rope &r, ms_mat x, ms_mat from, ms_mat out)
{
    const char   *name  = BACK ? "rope_grad" : "rope";
    const int64_t rows  = x.rows * x.count;
    const int     lanes = lanes_for(x.cols / TWO_VECTORS);
    if (rows == 0 || x.cols == 0) return MUSEC_OK;
    if (fits_registers(&x, &from, &out))
        return by_vector(x.dtype, [&](auto tag) {
            typedef typename decltype(tag)::type T;
            const rotation<float>                t = rotation_of<float>(&r);
            if (BACK)
                launch_kernel(d, rope_grad_registers<T>, row_blocks(rows, lanes), ROW_THREADS, 0, t,
                              lines_of<T>(x), lines_of<T>(from), x.rows, x.count, (int)x.cols,
                              lanes, lines_of<T>(out));
            else
                launch_kernel(d, rope_registers<T>, row_blocks(rows, lanes), ROW_THREADS, 0, t,
                              lines_of<T>(x), x.rows, x.count, (int)x.cols, lanes,
                              lines_of<T>(out));
            return launched(d, name);
        });
    return by_dtype(x.dtype, [&](auto tag) {
        typedef typename decltype(tag)::type T;
        launch_kernel(d, rope_fallback<T, BACK>, row_blocks(rows, WARP), ROW_THREADS, 0,
                      rotation_of<wide<T>>(&r), lines_of<T>(x), lines_of<T>(from), x.rows, x.count,
                      x.cols, lines_of<T>(out));
        return launched(d, name);
    });
}

static musec_status cuda_rope(ms_device *d, ms_rope r, ms_mat x, ms_mat out)
{
    return run_rope<false>(d, r, x, x, out);
}

static musec_status cuda_rope_grad(ms_device *d, ms_rope r, ms_mat x, ms_mat dout, ms_mat dx)
{
    return run_rope<true>(d, r, x, dout, dx);
}

void ms_cuda_rope_ops(ms_device_ops *table)
{
    table->rope      = cuda_rope;
    table->rope_grad = cuda_rope_grad;
}
