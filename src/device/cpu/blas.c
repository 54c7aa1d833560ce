/* blas.c - products on the CPU: CBLAS on tiles.
 *
 * The result is divided into tiles of about AREA elements, whatever the number of threads: across
 * its longer side, so that BLAS packs little twice, and into two or more unless it is small.  A
 * symmetric result is divided into square tiles of its lower triangle, each mirrored while it is in
 * cache.  Tiles on the diagonal are computed by syrk where b is a^T (exactly half the work), else
 * as a staircase of SUB rows (9/16 of the work).
 *
 * The epilogue is computed tile by tile, in cache as well: the source operand is copied to the
 * result, where BLAS adds to it; then come the diagonal, and sums in float64, one for each tile,
 * added in the order of the tiles.
 *
 * Operands of 16 bits are widened to float32, matrix by matrix, and a result of 16 bits is rounded
 * once, when its sums are taken. */
#include "device/cpu/cpu.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>

#include "device/cpu/ref.h"

enum {
    AREA       = 1 << 20, /* approximate maximum of a tile's elements */
    SMALL      = 1 << 18, /* a result with fewer elements than this is one tile, */
    SMALL_WORK = 1 << 27, /* unless it takes so many multiplications or more */
    SLICE      = 1024,    /* the longer side is cut to this if the shorter one is not longer */
    NARROW     = 512,     /* minimum of a tile's longer side */
    TILE       = 512,     /* maximum side of a square tile */
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

/* Matrix b of the stack, from row i and column j on. */
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
    for (int64_t i = 0; beta == 0.0 && i < n; i++) /* gemv may multiply old values by 0 */
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

/* ---- the epilogue of a tile ------------------------------------------------------------------ */

/* Copies rows x cols elements from `from` to their mirror image at `to`, by blocks that fit L1. */
static void mirror(musec_dtype dtype, int64_t rows, int64_t cols, tile from, tile to)
{
    for (int64_t i0 = 0; i0 < rows; i0 += MIRROR)
        for (int64_t j0 = 0; j0 < cols; j0 += MIRROR)
            for (int64_t j = j0; j < ms_min_i64(j0 + MIRROR, cols); j++)
                for (int64_t i = i0; i < ms_min_i64(i0 + MIRROR, rows); i++)
                    if (dtype == MUSEC_F32)
                        ((float *)to.data)[j * to.ld + i] = ((float *)from.data)[i * from.ld + j];
                    else
                        ((double *)to.data)[j * to.ld + i] = ((double *)from.data)[i * from.ld + j];
}

/* Mirrors the strict lower triangle of an n x n tile on the diagonal into its upper one. */
static void mirror_triangle(musec_dtype dtype, int64_t n, tile c)
{
    for (int64_t j = 0; j < n; j += MIRROR) {
        const int64_t width = ms_min_i64(MIRROR, n - j);
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

/* Copies rows x cols elements, by rows. */
static void copy_tile(musec_dtype dtype, int64_t rows, int64_t cols, tile from, tile to)
{
    const size_t each = ms_dtype_bytes(dtype);
    if (from.trans) {
        mirror(dtype, cols, rows, from, to);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to.data + (size_t)(i * to.ld) * each,
               (const char *)from.data + (size_t)(i * from.ld) * each, (size_t)cols * each);
}

/* Sums n squares in LANES partial sums, as the compiler may not reorder additions. */
static double row_sumsq(musec_dtype dtype, const void *data, int64_t n)
{
    enum { LANES = 8 };
    const float  *x          = data;
    const double *y          = data;
    double        sum[LANES] = { 0 }, all = 0.0;
    int64_t       j = 0;
    for (; dtype == MUSEC_F32 && j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++)
            sum[l] += (double)x[j + l] * (double)x[j + l];
    for (; dtype != MUSEC_F32 && j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++)
            sum[l] += y[j + l] * y[j + l];
    for (; j < n; j++)
        sum[0] += dtype == MUSEC_F32 ? (double)x[j] * (double)x[j] : y[j] * y[j];
    for (int l = 0; l < LANES; l++)
        all += sum[l];
    return all;
}

typedef struct sums { /* of a tile or of a matrix */
    double sumsq, trace;
} sums;

typedef struct call {
    ms_product p;        /* its result is not transposed */
    bool       square;   /* b is a^T */
    bool       in_place; /* the source is the result */
    sums      *parts;    /* (count, tiles) sums of the tiles; NULL: not wanted */
    int64_t    tiles;
    int64_t    height, width;    /* of a tile */
    int64_t    n_down, n_across; /* tiles of a matrix of a plain product */
} call;

static call call_of(const ms_product *p)
{
    call x = { .p = *p };
    if (p->c.trans && !p->symmetric) {
        x.p.a      = ms_t(p->b);
        x.p.b      = ms_t(p->a);
        x.p.c      = ms_t(p->c);
        x.p.source = ms_t(p->source);
    }
    if (p->symmetric) /* they equal their transposes */
        x.p.c.trans = x.p.source.trans = false;
    x.square =
        p->symmetric && p->a.data == p->b.data && p->a.ld == p->b.ld && p->a.stride == p->b.stride;
    if (x.square) x.p.b = ms_t(p->a);
    x.in_place = p->source.data == p->c.data;
    return x;
}

static musec_status take_parts(ms_device *d, int64_t tiles, call *x)
{
    void        *parts = NULL;
    musec_status st    = MUSEC_OK;
    x->tiles           = tiles;
    if (x->p.sumsq.data == NULL && x->p.trace.data == NULL) return MUSEC_OK;
    TRY(ms_scratch_bytes(d, (size_t)(x->p.c.count * tiles) * sizeof *x->parts, &parts));
    x->parts = parts;
done:
    return st;
}

/* Copies the source to a tile of the result, to which BLAS adds, and returns beta.  In a tile on
 * the diagonal of a symmetric result, only the staircase is copied. */
static double begin_tile(const call *x, int64_t m, int64_t i, int64_t j, int64_t rows, int64_t cols)
{
    const double beta  = x->p.source.data == NULL ? 0.0 : ms_num_at(x->p.beta, m);
    const bool   stair = x->p.symmetric && i == j;
    for (int64_t s = 0; beta != 0.0 && !x->in_place && s < rows; s += stair ? SUB : rows) {
        const int64_t height = stair ? ms_min_i64(SUB, rows - s) : rows;
        copy_tile(x->p.c.dtype, height, stair ? s + height : cols,
                  tile_at(x->p.source, m, i + s, j), tile_at(x->p.c, m, i + s, j));
    }
    return beta;
}

static void add_diagonal(const call *x, int64_t m, int64_t first, int64_t end, double *trace)
{
    const double diag = ms_num_at(x->p.diag, m);
    for (int64_t i = first; i < end; i++) {
        if (diag != 0.0) ms_put(x->p.c, m, i, i, ms_at(x->p.c, m, i, i) + diag);
        *trace += ms_at(x->p.c, m, i, i);
    }
}

/* Adds the diagonal to a computed tile, and stores the sums of its elements.  In a symmetric
 * result, elements below the diagonal count twice, and those above it are not read. */
static void end_tile(const call *x, int64_t m, int64_t part, int64_t i, int64_t j, int64_t rows,
                     int64_t cols)
{
    const int64_t first = i > j ? i : j, end = ms_min_i64(i + rows, j + cols);
    const bool    triangle = x->p.symmetric && i == j;
    sums          sum      = { 0 };
    add_diagonal(x, m, first, end, &sum.trace);
    if (x->parts == NULL) return;
    for (int64_t l = 0; x->p.sumsq.data != NULL && l < rows; l++) {
        const void *row = tile_at(x->p.c, m, i + l, j).data;
        sum.sumsq += row_sumsq(x->p.c.dtype, row, triangle ? l : cols);
    }
    if (x->p.symmetric) sum.sumsq *= 2.0;
    for (int64_t l = first; triangle && l < end; l++) {
        const double on = ms_at(x->p.c, m, l, l);
        sum.sumsq += on * on;
    }
    x->parts[m * x->tiles + part] = sum;
}

static void add_parts(const call *x)
{
    for (int64_t m = 0; x->parts != NULL && m < x->p.c.count; m++) {
        sums all = { 0 };
        if (!ms_is_active(x->p.mask, m)) continue;
        for (int64_t part = 0; part < x->tiles; part++) {
            all.sumsq += x->parts[m * x->tiles + part].sumsq;
            all.trace += x->parts[m * x->tiles + part].trace;
        }
        if (x->p.sumsq.data != NULL) x->p.sumsq.data[m] = all.sumsq;
        if (x->p.trace.data != NULL) x->p.trace.data[m] = all.trace;
    }
}

/* ---- general products ------------------------------------------------------------------------ */

/* The number of tiles of a product of inner size k.  A tall or wide result is divided more finely:
 * BLAS then packs little twice, and threads wait less for the last tile. */
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

/* Computes rows i .. i+rows-1 and columns j .. j+cols-1 of matrix m. */
static void plain_tile(const call *x, int64_t m, int64_t i, int64_t j, int64_t rows, int64_t cols)
{
    const ms_mat  c  = x->p.c;
    const tile    ta = tile_at(x->p.a, m, i, 0), tb = tile_at(x->p.b, m, 0, j);
    const tile    tc    = tile_at(c, m, i, j);
    const double  alpha = ms_num_at(x->p.alpha, m), beta = begin_tile(x, m, i, j, rows, cols);
    const int64_t k = x->p.a.cols;
    if (c.cols == 1)
        tile_gemv(c.dtype, rows, k, alpha, ta, tb.data, tb.trans ? 1 : tb.ld, beta, tc.data, tc.ld);
    else if (c.rows == 1)
        tile_gemv(c.dtype, cols, k, alpha, (tile){ tb.data, tb.ld, !tb.trans }, ta.data,
                  ta.trans ? ta.ld : 1, beta, tc.data, 1);
    else
        tile_gemm(c.dtype, rows, cols, k, alpha, ta, tb, beta, tc);
}

static void plain_task(void *arg, int64_t task, int thread)
{
    const call   *x = arg;
    const int64_t m = task / x->tiles, i = task / x->n_across % x->n_down * x->height,
                  j    = task % x->n_across * x->width;
    const int64_t rows = ms_min_i64(x->height, x->p.c.rows - i);
    const int64_t cols = ms_min_i64(x->width, x->p.c.cols - j);
    (void)thread;
    if (!ms_is_active(x->p.mask, m)) return;
    plain_tile(x, m, i, j, rows, cols);
    end_tile(x, m, task % x->tiles, i, j, rows, cols);
}

static musec_status plain(ms_device *d, call *x)
{
    const ms_mat c  = x->p.c;
    musec_status st = MUSEC_OK;
    tile_shape(c.rows, c.cols, x->p.a.cols, &x->height, &x->width);
    x->n_down   = (c.rows + x->height - 1) / x->height;
    x->n_across = (c.cols + x->width - 1) / x->width;
    TRY(take_parts(d, x->n_down * x->n_across, x));
    ms_cpu_run_blas(d, c.count * x->tiles, plain_task, x);
done:
    return st;
}

/* ---- symmetric results ----------------------------------------------------------------------- */

/* Computes the n x n tile (i, i), except for its upper triangle. */
static void diagonal_tile(const call *x, int64_t m, int64_t i, int64_t n)
{
    const ms_mat a = x->p.a, b = x->p.b, c = x->p.c;
    const double alpha = ms_num_at(x->p.alpha, m), beta = begin_tile(x, m, i, i, n, n);
    if (x->square)
        tile_syrk(c.dtype, n, a.cols, alpha, tile_at(a, m, i, 0), beta, tile_at(c, m, i, i));
    for (int64_t s = 0; !x->square && s < n; s += SUB) {
        const int64_t rows = ms_min_i64(SUB, n - s);
        tile_gemm(c.dtype, rows, s + rows, a.cols, alpha, tile_at(a, m, i + s, 0),
                  tile_at(b, m, 0, i), beta, tile_at(c, m, i + s, i));
    }
}

static void symmetric_task(void *arg, int64_t task, int thread)
{
    const call   *x   = arg;
    const ms_mat  c   = x->p.c;
    const int64_t m   = task / x->tiles;
    int64_t       row = 0, col = task % x->tiles; /* tile (row, col), col <= row */
    (void)thread;
    while (col > row)
        col -= ++row;
    const int64_t i = row * x->height, j = col * x->height,
                  rows = ms_min_i64(x->height, c.rows - i);
    const int64_t cols = row == col ? rows : x->height;
    if (!ms_is_active(x->p.mask, m)) return;
    if (row == col)
        diagonal_tile(x, m, i, rows);
    else
        plain_tile(x, m, i, j, rows, cols);
    end_tile(x, m, task % x->tiles, i, j, rows, cols);
    if (row == col)
        mirror_triangle(c.dtype, rows, tile_at(c, m, i, i));
    else
        mirror(c.dtype, rows, cols, tile_at(c, m, i, j), tile_at(c, m, j, i));
}

static musec_status symmetric(ms_device *d, call *x)
{
    const ms_mat c  = x->p.c;
    musec_status st = MUSEC_OK;
    x->height       = even_step(c.rows, (c.rows + TILE - 1) / TILE);
    const int64_t n = (c.rows + x->height - 1) / x->height;
    TRY(take_parts(d, n * (n + 1) / 2, x));
    ms_cpu_run_blas(d, c.count * x->tiles, symmetric_task, x);
done:
    return st;
}

static musec_status wide_product(ms_device *d, const ms_product *p)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    call          x    = call_of(p);
    musec_status  st   = MUSEC_OK;
    TRY(check_int(d, p->a));
    TRY(check_int(d, p->b));
    TRY(check_int(d, p->c));
    TRY(p->symmetric ? symmetric(d, &x) : plain(d, &x));
    add_parts(&x);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- operands of 16 bits --------------------------------------------------------------------- */

static bool is_16bit(ms_mat x) { return x.data != NULL && ms_dtype_bytes(x.dtype) == 2; }

/* Takes scratch for a float32 matrix that is laid out like x. */
static musec_status wide_like(ms_device *d, ms_mat x, ms_mat *out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(d, MUSEC_F32, 1, x.trans ? x.cols : x.rows, x.trans ? x.rows : x.cols, out));
    if (x.trans) *out = ms_t(*out);
done:
    return st;
}

static musec_status widen(ms_device *d, ms_mat *x)
{
    ms_mat       to;
    musec_status st = MUSEC_OK;
    if (!is_16bit(*x)) return MUSEC_OK;
    TRY(wide_like(d, *x, &to));
    TRY(ms_cpu_of(d)->stacks.copy(d, *x, to));
    *x = to;
done:
    return st;
}

/* Are a and b one matrix, perhaps transposed? */
static bool is_same(ms_mat a, ms_mat b)
{
    if (a.trans != b.trans) b = ms_t(b);
    return a.data == b.data && a.ld == b.ld && a.stride == b.stride && a.rows == b.rows &&
           a.cols == b.cols;
}

/* The product of matrix m of each stack. */
static musec_status narrow_product(ms_device *d, const ms_product *p, int64_t m)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const ms_mat  c    = ms_mat_slice(p->c, m, 1);
    ms_product    wide = *p;
    musec_status  st   = MUSEC_OK;
    wide.a             = ms_mat_slice(p->a, m, 1);
    wide.b             = ms_mat_slice(p->b, m, 1);
    wide.source        = ms_mat_slice(p->source, m, 1);
    wide.alpha         = ms_num_slice(p->alpha, m, 1);
    wide.beta          = ms_num_slice(p->beta, m, 1);
    wide.diag          = ms_num_slice(p->diag, m, 1);
    wide.sumsq         = ms_vec_slice(p->sumsq, m, 1);
    wide.trace         = ms_vec_slice(p->trace, m, 1);
    wide.mask          = (ms_vec){ 0 };
    wide.c             = c;
    TRY(widen(d, &wide.a));
    if (is_same(p->a, p->b))
        wide.b = p->a.trans == p->b.trans ? wide.a : ms_t(wide.a);
    else
        TRY(widen(d, &wide.b));
    TRY(widen(d, &wide.source));
    if (is_16bit(c)) TRY(wide_like(d, c, &wide.c));
    TRY(wide_product(d, &wide));
    if (is_16bit(c)) TRY(ms_cpu_of(d)->stacks.copy(d, wide.c, c));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status cpu_product(ms_device *d, const ms_product *p)
{
    musec_status st = MUSEC_OK;
    assert(p->a.cols == p->b.rows && p->c.rows == p->a.rows && p->c.cols == p->b.cols);
    if (!is_16bit(p->a) && !is_16bit(p->c) && !is_16bit(p->source)) return wide_product(d, p);
    for (int64_t m = 0; m < p->c.count; m++)
        if (ms_is_active(p->mask, m)) TRY(narrow_product(d, p, m));
done:
    return st;
}

static musec_status cpu_gemm(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta, ms_mat c)
{
    ms_product p = {
        .a = a, .b = b, .alpha = ms_const(alpha), .beta = ms_const(beta), .source = c, .c = c
    };
    if (beta == 0.0) p.source.data = NULL;
    return cpu_product(d, &p);
}

void ms_cpu_blas_ops(ms_device_ops *table)
{
    table->gemm    = cpu_gemm;
    table->product = cpu_product;
}
