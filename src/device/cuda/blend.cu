/* blend.cu - sums of rows with coefficients, and their gradient.
 *
 * A row of a matrix has some or all lanes of a warp, which read its coefficients once.  The
 * gradient reads dout once for all terms; each lane keeps a partial inner product per wanted dcoef,
 * and the lanes add theirs at the end of the row. */
#include "device/cuda/row.cuh"

enum { TERMS = MS_BLEND_TERMS };

template <typename T> struct blend_terms {
    int            n;
    lines<T>       x[TERMS];
    const wide<T> *coef[TERMS]; /* NULL: 1 */
    int64_t        step[TERMS]; /* from one row's coefficients to the next; 0: one for all */

    __device__ wide<T> at(int k, int64_t b, int64_t i) const
    {
        return coef[k] != NULL ? coef[k][i * step[k] + b] : (wide<T>)1;
    }
};

template <typename T> struct blend_grads {
    lines<T> dx[TERMS]; /* data NULL: not wanted */
    bool     adds[TERMS];
    wide<T> *dcoef[TERMS]; /* NULL: not wanted */
    int64_t  step[TERMS];
};

template <typename T> static blend_terms<T> terms_of(const ms_blend_term *terms, int n)
{
    blend_terms<T> t = {};
    t.n              = n;
    for (int k = 0; k < n; k++) {
        t.x[k]    = lines_of<T>(terms[k].x);
        t.coef[k] = (const wide<T> *)terms[k].coef.data;
        t.step[k] = terms[k].coef.rows == 1 ? 0 : terms[k].coef.ld;
    }
    return t;
}

/* `lanes` threads have a row. */
template <typename T, int V>
static __global__ void blend_rows(blend_terms<T> t, int64_t rows, int64_t count, int64_t cols,
                                  int lanes, lines<T> out)
{
    pdl_wait_trigger();
    const int64_t step = (int64_t)gridDim.x * blockDim.x / lanes;
    const int     lane = (int)threadIdx.x % lanes;
    int64_t       i, b;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes; n < rows * count;
         n += step) {
        wide<T> by[TERMS];
        place_of(n, count, &i, &b);
#pragma unroll
        for (int k = 0; k < TERMS; k++)
            by[k] = k < t.n ? t.at(k, b, i) : (wide<T>)0;
        for (int64_t j = (int64_t)lane * V; j < cols; j += (int64_t)lanes * V) {
            wide<T> sum[V] = {}, v[V];
#pragma unroll
            for (int k = 0; k < TERMS; k++) {
                if (k >= t.n) continue;
                unpack(fetch<T, V>(t.x[k].row(b, i) + j), v);
#pragma unroll
                for (int e = 0; e < V; e++)
                    sum[e] += by[k] * v[e];
            }
            put(out.row(b, i) + j, sum);
        }
    }
}

/* What one piece of dout gives to term k; returns its share of dcoef.  dout itself is kept in
 * registers, as dx may overwrite it. */
template <typename T, int V>
static __device__ inline wide<T> grad_piece(const blend_terms<T> &t, const blend_grads<T> &g, int k,
                                            int64_t b, int64_t i, int64_t j, wide<T> by,
                                            const wide<T> (&dy)[V])
{
    wide<T> sum = 0, v[V];
    if (g.dcoef[k] != NULL) {
        unpack(fetch<T, V>(t.x[k].row(b, i) + j), v);
#pragma unroll
        for (int e = 0; e < V; e++)
            sum += dy[e] * v[e];
    }
    if (g.dx[k].data != NULL) {
        T *to = g.dx[k].row(b, i) + j;
#pragma unroll
        for (int e = 0; e < V; e++)
            v[e] = 0;
        if (g.adds[k]) unpack(fetch<T, V>(to), v);
#pragma unroll
        for (int e = 0; e < V; e++)
            v[e] += by * dy[e];
        put(to, v);
    }
    return sum;
}

/* Whole warps stay to the end, for the sums over lanes. */
template <typename T, int V>
static __global__ void blend_grad_rows(blend_terms<T> t, blend_grads<T> g, lines<T> dout,
                                       int64_t rows, int64_t count, int64_t cols, int lanes)
{
    pdl_wait_trigger();
    const int64_t step = (int64_t)gridDim.x * blockDim.x / lanes;
    const int     lane = (int)threadIdx.x % lanes, in_warp = (int)threadIdx.x % WARP;
    int64_t       i = 0, b = 0;
    for (int64_t n = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
         n - in_warp / lanes < rows * count; n += step) {
        const bool mine       = n < rows * count;
        wide<T>    sum[TERMS] = {}, by[TERMS] = {};
        if (mine) {
            place_of(n, count, &i, &b);
#pragma unroll
            for (int k = 0; k < TERMS; k++)
                if (k < t.n) by[k] = t.at(k, b, i);
            for (int64_t j = (int64_t)lane * V; j < cols; j += (int64_t)lanes * V) {
                wide<T> dy[V];
                unpack(fetch<T, V>(dout.row(b, i) + j), dy);
#pragma unroll
                for (int k = 0; k < TERMS; k++)
                    if (k < t.n) sum[k] += grad_piece<T, V>(t, g, k, b, i, j, by[k], dy);
            }
        }
#pragma unroll
        for (int k = 0; k < TERMS; k++) {
            if (k >= t.n || g.dcoef[k] == NULL) continue;
            const wide<T> all = lanes_sum(sum[k], lanes);
            if (mine && lane == 0) g.dcoef[k][i * g.step[k] + b] = all;
        }
    }
}

static bool are_vectors(const ms_blend_term *terms, int n)
{
    bool all = true;
    for (int k = 0; k < n; k++)
        all = all && is_vector(&terms[k].x);
    return all;
}

static musec_status cuda_blend(ms_device *d, const ms_blend_term *terms, int n, ms_mat out)
{
    const bool    vector = are_vectors(terms, n) && is_vector(&out);
    const int64_t rows   = out.rows * out.count;
    const int     lanes  = vector ? lanes_for(out.cols / VECTOR) : (int)WARP;
    if (rows == 0 || out.cols == 0) return MUSEC_OK;
    return by_piece(out.dtype, vector, [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        launch_kernel(d, blend_rows<T, decltype(width)::value>, row_blocks(rows, lanes),
                      ROW_THREADS, 0, terms_of<T>(terms, n), out.rows, out.count, out.cols, lanes,
                      lines_of<T>(out));
        return launched(d, "blend");
    });
}

template <typename T> static blend_grads<T> grads_of(const ms_blend_grad *grads, int n)
{
    blend_grads<T> g = {};
    for (int k = 0; k < n; k++) {
        g.dx[k]    = lines_of<T>(grads[k].dx);
        g.adds[k]  = grads[k].adds;
        g.dcoef[k] = (wide<T> *)grads[k].dcoef.data;
        g.step[k]  = grads[k].dcoef.ld;
    }
    return g;
}

static musec_status cuda_blend_grad(ms_device *d, const ms_blend_term *terms,
                                    const ms_blend_grad *grads, int n, ms_mat dout)
{
    bool          vector = are_vectors(terms, n) && is_vector(&dout);
    const int64_t rows   = dout.rows * dout.count;
    for (int k = 0; k < n; k++)
        vector = vector && (grads[k].dx.data == NULL || is_vector(&grads[k].dx));
    const int lanes = vector ? lanes_for(dout.cols / VECTOR) : (int)WARP;
    if (rows == 0) return MUSEC_OK;
    return by_piece(dout.dtype, vector, [&](auto tag, auto width) {
        typedef typename decltype(tag)::type T;
        launch_kernel(d, blend_grad_rows<T, decltype(width)::value>, row_blocks(rows, lanes),
                      ROW_THREADS, 0, terms_of<T>(terms, n), grads_of<T>(grads, n),
                      lines_of<T>(dout), dout.rows, dout.count, dout.cols, lanes);
        return launched(d, "blend_grad");
    });
}

void ms_cuda_blend_ops(ms_device_ops *table)
{
    table->blend      = cuda_blend;
    table->blend_grad = cuda_blend_grad;
}
