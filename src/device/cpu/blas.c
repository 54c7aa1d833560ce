/* blas.c - products on the CPU: CBLAS on tiles.
 *
 * A product is cut into tiles of about AREA elements of the result, whatever the number of threads:
 * across its longer side, so that little is packed twice, and in two at least where it is not
 * small.  A symmetric one is cut into square tiles of its lower triangle, each mirrored while it is
 * in cache.  Tiles on the diagonal are computed by syrk where the product is a square (exactly half
 * the work), else as a staircase of SUB rows (9/16 of it). */
#include "device/cpu/cpu.h"

#include <cblas.h>
#include <limits.h>

enum {
    AREA       = 1 << 20, /* elements of a tile of a product, at most about */
    SMALL      = 1 << 18, /* elements of a result that one thread does, */
    SMALL_WORK = 1 << 27, /* unless each takes so many products that there are as many of them */
    SLICE      = 1024,    /* what is longer than that is cut so, where the other side is not */
    NARROW     = 512,     /* a tile's longer side is not cut below that */
    TILE       = 512,     /* the side of a square tile, at most */
    SUB        = 96,
    MIRROR     = 32,
    ROUND      = 16,
};

/* ---- one tile, either type ------------------------------------------------------------------- */

typedef struct tile { /* a matrix of the stack, or a part of one */
    void *data;
    int   ld;
    bool  trans;
} tile;

/* Matrix b of the stack from row i and column j on. */
static tile tile_at(ms_mat x, int64_t b, int64_t i, int64_t j)
{
    const int64_t at = b * x.stride + (x.trans ? j * x.ld + i : i * x.ld + j);
    return (tile){ (char *)x.data + ms_dtype_bytes(x.dtype) * (size_t)at, (int)x.ld, x.trans };
}

static CBLAS_TRANSPOSE cblas_trans(bool trans) { return trans ? CblasTrans : CblasNoTrans; }

static void tile_gemm(musec_dtype dtype, int64_t m, int64_t n, int64_t k, double alpha, tile a,
                      tile b, double beta, tile c)
{
    if (dtype == MUSEC_F32)
        cblas_sgemm(CblasRowMajor, cblas_trans(a.trans), cblas_trans(b.trans), (int)m, (int)n,
                    (int)k, (float)alpha, a.data, a.ld, b.data, b.ld, (float)beta, c.data, c.ld);
    else
        cblas_dgemm(CblasRowMajor, cblas_trans(a.trans), cblas_trans(b.trans), (int)m, (int)n,
                    (int)k, alpha, a.data, a.ld, b.data, b.ld, beta, c.data, c.ld);
}

static void tile_syrk(musec_dtype dtype, int64_t n, int64_t k, double alpha, tile a, double beta,
                      tile c)
{
    if (dtype == MUSEC_F32)
        cblas_ssyrk(CblasRowMajor, CblasLower, cblas_trans(a.trans), (int)n, (int)k, (float)alpha,
                    a.data, a.ld, (float)beta, c.data, c.ld);
    else
        cblas_dsyrk(CblasRowMajor, CblasLower, cblas_trans(a.trans), (int)n, (int)k, alpha, a.data,
                    a.ld, beta, c.data, c.ld);
}

/* y (n, step inc_y) <- alpha op(a) x + beta y, op(a) being n x k. */
static void tile_gemv(musec_dtype dtype, int64_t n, int64_t k, double alpha, tile a, const void *x,
                      int inc_x, double beta, void *y, int inc_y)
{
    const int rows = (int)(a.trans ? k : n), cols = (int)(a.trans ? n : k);
    for (int64_t i = 0; beta == 0.0 && i < n; i++) /* gemv may multiply what y held by 0 */
        if (dtype == MUSEC_F32)
            ((float *)y)[i * inc_y] = 0.0f;
        else
            ((double *)y)[i * inc_y] = 0.0;
    if (dtype == MUSEC_F32)
        cblas_sgemv(CblasRowMajor, cblas_trans(a.trans), rows, cols, (float)alpha, a.data, a.ld, x,
                    inc_x, (float)beta, y, inc_y);
    else
        cblas_dgemv(CblasRowMajor, cblas_trans(a.trans), rows, cols, alpha, a.data, a.ld, x, inc_x,
                    beta, y, inc_y);
}

static musec_status check_int(ms_device *d, ms_mat x)
{
    if (x.rows > INT_MAX || x.cols > INT_MAX || x.ld > INT_MAX)
        return ms_fail(&d->error, MUSEC_ENOTSUP,
                       "a matrix of %lld x %lld (ld %lld) is larger than this BLAS can index",
                       (long long)x.rows, (long long)x.cols, (long long)x.ld);
    return MUSEC_OK;
}

/* The step that cuts n into equal parts. */
static int64_t even_step(int64_t n, int64_t parts)
{
    const int64_t step = (n + parts - 1) / parts;
    return (step + ROUND - 1) / ROUND * ROUND;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- gemm ------------------------------------------------------------------------------------ */

/* The number of tiles of a product of inner size k.  What is tall or wide is cut finely: that packs
 * little twice, and the last tile keeps no one waiting. */
static int64_t tile_count(int64_t rows, int64_t cols, int64_t k)
{
    const int64_t area = rows * cols, longer = rows > cols ? rows : cols;
    const int64_t shorter = area / longer, slices = longer / SLICE;
    if (area < SMALL && area * k < SMALL_WORK) return 1;
    const int64_t parts = area <= 2 * AREA ? 2 : (area + AREA - 1) / AREA;
    return shorter <= SLICE && slices > parts ? slices : parts;
}

/* The height and width of the tiles of a rows x cols product of inner size k. */
static void tile_shape(int64_t rows, int64_t cols, int64_t k, int64_t *height, int64_t *width)
{
    const int64_t longer = rows > cols ? rows : cols, parts = tile_count(rows, cols, k);
    int64_t       step = even_step(longer, parts);
    if (step < NARROW && parts > 2) step = NARROW;
    const int64_t across = (parts + (longer + step - 1) / step - 1) / ((longer + step - 1) / step);
    *height              = rows > cols ? step : even_step(rows, across);
    *width               = rows > cols ? even_step(cols, across) : step;
}

static musec_status cpu_gemm(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta, ms_mat c)
{
    if (c.trans) {
        const ms_mat at = ms_t(a);
        a               = ms_t(b);
        b               = at;
        c               = ms_t(c);
    }
    const int64_t k = a.cols;
    int64_t       step_i, step_j;
    tile_shape(c.rows, c.cols, k, &step_i, &step_j);
    const int64_t n_i = (c.rows + step_i - 1) / step_i, n_j = (c.cols + step_j - 1) / step_j;
    musec_status  st = MUSEC_OK;
    TRY(check_int(d, a));
    TRY(check_int(d, b));
    TRY(check_int(d, c));

#pragma omp parallel for schedule(dynamic, 1) if (ms_cpu_needs_team(c.count * n_i * n_j))
    for (int64_t task = 0; task < c.count * n_i * n_j; task++) {
        const int64_t m = task / (n_i * n_j), i = task / n_j % n_i * step_i,
                      j    = task % n_j * step_j;
        const int64_t rows = at_most(step_i, c.rows - i), cols = at_most(step_j, c.cols - j);
        const tile    ta = tile_at(a, m, i, 0), tb = tile_at(b, m, 0, j), tc = tile_at(c, m, i, j);
        if (c.cols == 1)
            tile_gemv(c.dtype, rows, k, alpha, ta, tb.data, tb.trans ? 1 : tb.ld, beta, tc.data,
                      tc.ld);
        else if (c.rows == 1)
            tile_gemv(c.dtype, cols, k, alpha, (tile){ tb.data, tb.ld, !tb.trans }, ta.data,
                      ta.trans ? ta.ld : 1, beta, tc.data, 1);
        else
            tile_gemm(c.dtype, rows, cols, k, alpha, ta, tb, beta, tc);
    }
done:
    return st;
}

/* ---- symmetric results ----------------------------------------------------------------------- */

/* Copies rows x cols elements from `from` to their mirror image at `to`, by blocks that fit L1. */
static void mirror(musec_dtype dtype, int64_t rows, int64_t cols, tile from, tile to)
{
    for (int64_t i0 = 0; i0 < rows; i0 += MIRROR)
        for (int64_t j0 = 0; j0 < cols; j0 += MIRROR)
            for (int64_t j = j0; j < at_most(j0 + MIRROR, cols); j++)
                for (int64_t i = i0; i < at_most(i0 + MIRROR, rows); i++)
                    if (dtype == MUSEC_F32)
                        ((float *)to.data)[j * to.ld + i] = ((float *)from.data)[i * from.ld + j];
                    else
                        ((double *)to.data)[j * to.ld + i] = ((double *)from.data)[i * from.ld + j];
}

/* Mirrors the strict lower triangle of an n x n tile on the diagonal into its upper one. */
static void mirror_triangle(musec_dtype dtype, int64_t n, tile c)
{
    for (int64_t j = 0; j < n; j += MIRROR) {
        const int64_t width = at_most(MIRROR, n - j);
        for (int64_t i = j; i < j + width; i++)
            for (int64_t l = j; l < i; l++)
                if (dtype == MUSEC_F32)
                    ((float *)c.data)[l * c.ld + i] = ((float *)c.data)[i * c.ld + l];
                else
                    ((double *)c.data)[l * c.ld + i] = ((double *)c.data)[i * c.ld + l];
        if (j + width < n) {
            const size_t each  = ms_dtype_bytes(dtype);
            tile         below = c, right = c;
            below.data = (char *)c.data + (size_t)((j + width) * c.ld + j) * each;
            right.data = (char *)c.data + (size_t)(j * c.ld + j + width) * each;
            mirror(dtype, n - j - width, width, below, right);
        }
    }
}

/* c <- alpha a b + beta c on the square tile (i, i), n wide. */
static void diagonal_tile(double alpha, ms_mat a, ms_mat b, bool square, double beta, ms_mat c,
                          int64_t m, int64_t i, int64_t n)
{
    if (square)
        tile_syrk(c.dtype, n, a.cols, alpha, tile_at(a, m, i, 0), beta, tile_at(c, m, i, i));
    for (int64_t s = 0; !square && s < n; s += SUB) {
        const int64_t rows = at_most(SUB, n - s);
        tile_gemm(c.dtype, rows, s + rows, a.cols, alpha, tile_at(a, m, i + s, 0),
                  tile_at(b, m, 0, i), beta, tile_at(c, m, i + s, i));
    }
    mirror_triangle(c.dtype, n, tile_at(c, m, i, i));
}

/* square: b is a^T, so the product is a Gram matrix. */
static musec_status symmetric(ms_device *d, double alpha, ms_mat a, ms_mat b, bool square,
                              double beta, ms_mat c)
{
    const int64_t step  = even_step(c.rows, (c.rows + TILE - 1) / TILE);
    const int64_t n     = (c.rows + step - 1) / step;
    const int64_t tiles = n * (n + 1) / 2;
    musec_status  st    = MUSEC_OK;
    TRY(check_int(d, a));
    TRY(check_int(d, b));
    TRY(check_int(d, c));
    c.trans = false; /* it is its own transpose */

#pragma omp parallel for schedule(dynamic, 1) if (ms_cpu_needs_team(c.count * tiles))
    for (int64_t task = 0; task < c.count * tiles; task++) {
        const int64_t m   = task / tiles;
        int64_t       row = 0, col = task % tiles; /* tile (row, col), col <= row */
        while (col > row)
            col -= ++row;
        const int64_t i = row * step, j = col * step, rows = at_most(step, c.rows - i);
        if (row == col) {
            diagonal_tile(alpha, a, b, square, beta, c, m, i, rows);
        } else {
            tile_gemm(c.dtype, rows, step, a.cols, alpha, tile_at(a, m, i, 0), tile_at(b, m, 0, j),
                      beta, tile_at(c, m, i, j));
            mirror(c.dtype, rows, step, tile_at(c, m, i, j), tile_at(c, m, j, i));
        }
    }
done:
    return st;
}

static musec_status cpu_gemm_sym(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta,
                                 ms_mat c)
{
    const bool square = a.data == b.data && a.ld == b.ld && a.stride == b.stride;
    return symmetric(d, alpha, a, square ? ms_t(a) : b, square, beta, c);
}

static musec_status cpu_gram(ms_device *d, ms_mat x, ms_mat c)
{
    return symmetric(d, 1.0, x, ms_t(x), true, 0.0, c);
}

void ms_cpu_blas_ops(ms_device_ops *table)
{
    table->gemm     = cpu_gemm;
    table->gemm_sym = cpu_gemm_sym;
    table->gram     = cpu_gram;
}
