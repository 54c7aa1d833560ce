/* element.c - element ops, optimizers, reductions and random numbers on the CPU: memory speed, on
 * all cores.
 *
 * A stack is cut into tiles of about TILE elements.  Their borders depend on the shape of one
 * matrix alone, never on the number of threads, of matrices, or on the leading dimension; one
 * parallel loop runs over the tiles of the whole stack.  A reduction leaves one number per tile and
 * adds these in order, so its bits depend on the shape alone as well (that of the matrix as stored:
 * a transposed view sums in the order of its memory).
 *
 * Operands that are all transposed are all turned upright.  Where only some are, copy transposes by
 * blocks and the others do what `ref` does. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ref.h"

enum {
    TILE      = 16384, /* elements: one thread does a stack of this size faster than two would */
    TILE_COLS = 4096,  /* at most: a row of some matrices is longer than a tile should be */
    SQUARE    = 128,   /* the side of a tile that is being transposed */
    PIECE     = 1024,  /* elements of a row that combine keeps in L1 */
};

/* Rows i .. i+rows-1 and columns j .. j+cols-1 of matrix b. */
typedef struct tile {
    int64_t b, i, j, rows, cols;
} tile;

typedef struct tiling {
    int64_t rows, cols;    /* of the matrix */
    int64_t height, width; /* of a tile */
    int64_t n_down, n_across;
    int64_t each, total; /* tiles in a matrix, in the stack */
    bool    parallel;
} tiling;

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

static tiling tiling_of(ms_mat x, int64_t max_width)
{
    tiling g = { .rows = x.rows, .cols = x.cols, .width = at_most(x.cols, max_width) };
    assert(x.rows > 0 && x.cols > 0);
    g.height   = g.width < TILE ? at_most(x.rows, TILE / g.width) : 1;
    g.n_down   = (x.rows + g.height - 1) / g.height;
    g.n_across = (x.cols + g.width - 1) / g.width;
    g.each     = g.n_down * g.n_across;
    g.total    = g.each * x.count;
    g.parallel = x.count * x.rows * x.cols > TILE;
    return g;
}

static tile tile_at(const tiling *g, int64_t index)
{
    tile t = { .b = index / g->each };
    t.i    = index % g->each / g->n_across * g->height;
    t.j    = index % g->n_across * g->width;
    t.rows = at_most(g->height, g->rows - t.i);
    t.cols = at_most(g->width, g->cols - t.j);
    return t;
}

/* a, b not negative; NaN if either is */
static double larger(double a, double b) { return a > b || a != a ? a : b; }

#define REAL     float
#define ABS      fabsf
#define SQRT     sqrtf
#define FN(name) name##_f32
#include "device/cpu/element_rows.h"
#undef REAL
#undef ABS
#undef SQRT
#undef FN
#define REAL     double
#define ABS      fabs
#define SQRT     sqrt
#define FN(name) name##_f64
#include "device/cpu/element_rows.h"
#undef REAL
#undef ABS
#undef SQRT
#undef FN

#define BY_DTYPE(dtype, name, ...)   \
    do {                             \
        if ((dtype) == MUSEC_F32)    \
            name##_f32(__VA_ARGS__); \
        else                         \
            name##_f64(__VA_ARGS__); \
    } while (0)

static ms_mat upright(ms_mat x) { return x.trans ? ms_t(x) : x; }

static ms_device_ops ref_ops(void)
{
    ms_device_ops table;
    ms_device_ref_ops(&table);
    return table;
}

/* ---- elements -------------------------------------------------------------------------------- */

static void convert_tile(tile t, ms_mat x, ms_mat out)
{
    for (int64_t i = 0; i < t.rows; i++) {
        if (x.dtype == MUSEC_F32) {
            const float *in = row_f32(t, x, i);
            double      *o  = row_f64(t, out, i);
            for (int64_t j = 0; j < t.cols; j++)
                o[j] = (double)in[j];
        } else {
            const double *in = row_f64(t, x, i);
            float        *o  = row_f32(t, out, i);
            for (int64_t j = 0; j < t.cols; j++)
                o[j] = (float)in[j];
        }
    }
}

static musec_status cpu_copy(ms_device *d, ms_mat x, ms_mat out)
{
    const bool turned = x.trans != out.trans, convert = x.dtype != out.dtype;
    if (turned && convert) return ref_ops().copy(d, x, out);
    if (x.data == out.data && !turned) return MUSEC_OK; /* in place: it is there already */
    if (out.trans) x = ms_t(x), out = ms_t(out);
    const tiling g = tiling_of(out, turned ? SQUARE : TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile t = tile_at(&g, k);
        if (convert)
            convert_tile(t, x, out);
        else if (turned)
            BY_DTYPE(x.dtype, transpose, t, x, out);
        else
            BY_DTYPE(x.dtype, copy, t, x, out);
    }
    return MUSEC_OK;
}

static musec_status cpu_fill(ms_device *d, double value, ms_mat out)
{
    (void)d;
    out            = upright(out);
    const tiling g = tiling_of(out, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++)
        BY_DTYPE(out.dtype, fill, tile_at(&g, k), value, out);
    return MUSEC_OK;
}

static musec_status cpu_add_diag(ms_device *d, ms_num value, ms_mat x)
{
    (void)d;
    const int64_t n = at_most(x.rows, x.cols);
#pragma omp parallel for schedule(static) if (x.count * n > TILE)
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < n; i++)
            ms_put(x, b, i, i, ms_at(x, b, i, i) + ms_num_at(value, b));
    return MUSEC_OK;
}

static musec_status cpu_scale(ms_device *d, ms_num factor, ms_mat x)
{
    (void)d;
    x              = upright(x);
    const tiling g = tiling_of(x, TILE_COLS);
    if (factor.each.data == NULL && factor.value == 1.0) return MUSEC_OK;
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile   t = tile_at(&g, k);
        const double f = ms_num_at(factor, t.b);
        if (f != 1.0) BY_DTYPE(x.dtype, scale, t, f, x, x);
    }
    return MUSEC_OK;
}

static musec_status cpu_axpby(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y)
{
    if (x.trans != y.trans) return ref_ops().axpby(d, alpha, x, beta, y);
    x              = upright(x);
    y              = upright(y);
    const tiling g = tiling_of(y, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile t = tile_at(&g, k);
        BY_DTYPE(y.dtype, axpby, t, ms_num_at(alpha, t.b), x, ms_num_at(beta, t.b), y);
    }
    return MUSEC_OK;
}

static musec_status cpu_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms, int n_terms)
{
    ms_term    up[4] = { 0 };
    const bool trans = terms[0].out.trans;
    bool       mixed = (x.data != NULL && x.trans != trans) || (y.data != NULL && y.trans != trans);
    bool       keep  = false;
    for (int k = 0; k < n_terms; k++) {
        const void *out = terms[k].out.data;
        mixed           = mixed || terms[k].out.trans != trans;
        keep            = keep || (n_terms > 1 && (out == x.data || out == y.data));
        up[k]           = terms[k];
        up[k].out       = upright(terms[k].out);
    }
    if (mixed) return ref_ops().combine(d, x, y, terms, n_terms);
    x              = upright(x);
    y              = upright(y);
    const tiling g = tiling_of(up[0].out, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++)
        BY_DTYPE(up[0].out.dtype, combine, tile_at(&g, k), x, y, up, n_terms, keep);
    return MUSEC_OK;
}

static musec_status cpu_scale_rows(ms_device *d, ms_mat v, ms_mat x)
{
    const int64_t step = v.trans ? v.ld : 1; /* from one factor to the next */
    if (x.trans && step != 1) return ref_ops().scale_rows(d, v, x);
    const bool   by_rows = !x.trans;
    const ms_mat stored  = upright(x);
    const tiling g       = tiling_of(stored, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile t = tile_at(&g, k);
        if (by_rows)
            BY_DTYPE(x.dtype, scale_rows, t, v, step, stored);
        else
            BY_DTYPE(x.dtype, scale_cols, t, v, stored);
    }
    return MUSEC_OK;
}

/* 2^k with |k| <= 20 changes no bit of a result but the exponent, and keeps what is squared and
 * summed afterwards within the range of float32: such a stack is as good as a scaled one. */
static bool harmless(double factor)
{
    int          e        = 0;
    const double mantissa = frexp(factor, &e);
    return mantissa == 0.5 && e - 1 >= -20 && e - 1 <= 20;
}

static musec_status cpu_prescale(ms_device *d, ms_mat x, ms_vec factor, ms_mat buffer,
                                 ms_mat *scaled)
{
    bool needed = false;
    for (int64_t b = 0; b < x.count; b++) { /* each alone: bits must not depend on its neighbours */
        if (harmless(factor.data[b]))
            factor.data[b] = 1.0;
        else
            needed = true;
    }
    if (!needed) {
        *scaled = x;
        return MUSEC_OK;
    }
    if (x.trans != buffer.trans) return ref_ops().prescale(d, x, factor, buffer, scaled);
    *scaled        = buffer;
    x              = upright(x);
    buffer         = upright(buffer);
    const tiling g = tiling_of(x, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile t = tile_at(&g, k);
        BY_DTYPE(x.dtype, scale, t, factor.data[t.b], x, buffer);
    }
    return MUSEC_OK;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static musec_status cpu_sign(ms_device *d, ms_mat x, ms_mat out)
{
    if (x.trans != out.trans) return ref_ops().sign(d, x, out);
    x              = upright(x);
    out            = upright(out);
    const tiling g = tiling_of(out, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++)
        BY_DTYPE(out.dtype, sign, tile_at(&g, k), x, out);
    return MUSEC_OK;
}

static musec_status cpu_moments(ms_device *d, ms_moments rates, ms_mat g, ms_mat m, ms_mat v,
                                ms_mat slow, ms_mat u)
{
    const bool turned = u.trans, mixed = g.trans != turned || m.trans != turned ||
                                         v.trans != turned ||
                                         (slow.data != NULL && slow.trans != turned);
    if (mixed) return ref_ops().moments(d, rates, g, m, v, slow, u);
    if (turned) g = ms_t(g), m = ms_t(m), v = ms_t(v), slow = ms_t(slow), u = ms_t(u);
    const tiling tiles = tiling_of(u, TILE_COLS);
#pragma omp parallel for schedule(static) if (tiles.parallel)
    for (int64_t k = 0; k < tiles.total; k++)
        BY_DTYPE(u.dtype, moments, tile_at(&tiles, k), rates, g, m, v, slow, u);
    return MUSEC_OK;
}

static musec_status cpu_decay_add(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                                  ms_mat w, ms_mat copy)
{
    if (u.trans != w.trans || u.dtype != w.dtype || copy.data != NULL) /* copies are lists.c's */
        return ref_ops().decay_add(d, step, u, decay, cautious, w, copy);
    u              = upright(u);
    w              = upright(w);
    const tiling g = tiling_of(w, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile   t  = tile_at(&g, k);
        const double by = ms_num_at(step, t.b), rate = ms_num_at(decay, t.b);
        if (cautious)
            BY_DTYPE(w.dtype, decay_add_cautious, t, by, u, rate, w);
        else
            BY_DTYPE(w.dtype, decay_add, t, by, u, rate, w);
    }
    return MUSEC_OK;
}

/* ---- reductions ------------------------------------------------------------------------------ */

typedef double tile_fn(tile t, ms_mat x);

static double add(double a, double b) { return a + b; }

static musec_status reduce(ms_device *d, ms_mat x, tile_fn *f32, tile_fn *f64,
                           double (*join)(double, double), ms_vec out)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    tile_fn      *f    = x.dtype == MUSEC_F32 ? f32 : f64;
    ms_vec        part; /* (total) one number per tile */
    musec_status  st;

    x              = upright(x);
    const tiling g = tiling_of(x, TILE_COLS);
    TRY(ms_scratch_vec(d, g.total, &part));
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++)
        part.data[k] = f(tile_at(&g, k), x);
    for (int64_t b = 0; b < x.count; b++) {
        out.data[b] = part.data[b * g.each];
        for (int64_t k = 1; k < g.each; k++)
            out.data[b] = join(out.data[b], part.data[b * g.each + k]);
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status cpu_sum(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce(d, x, sum_f32, sum_f64, add, out);
}

static musec_status cpu_sumsq(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce(d, x, sumsq_f32, sumsq_f64, add, out);
}

static musec_status cpu_absmax(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce(d, x, absmax_f32, absmax_f64, larger, out);
}

static musec_status cpu_count_nonfinite(ms_device *d, ms_mat x, ms_vec out)
{
    return reduce(d, x, count_nonfinite_f32, count_nonfinite_f64, add, out);
}

static musec_status cpu_trace(ms_device *d, ms_mat x, ms_vec out)
{
    (void)d;
    const int64_t n = at_most(x.rows, x.cols);
#pragma omp parallel for schedule(static) if (x.count * n > TILE)
    for (int64_t b = 0; b < x.count; b++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++)
            sum += ms_at(x, b, i, i);
        out.data[b] = sum;
    }
    return MUSEC_OK;
}

/* ---- random numbers -------------------------------------------------------------------------- */

static musec_status cpu_normal(ms_device *d, uint64_t key, double mean, double sd, ms_mat out)
{
    (void)d;
    const tiling g = tiling_of(out, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile t = tile_at(&g, k);
        for (int64_t i = t.i; i < t.i + t.rows; i++) {
            for (int64_t j = t.j; j < t.j + t.cols; j++) {
                const uint64_t at = (uint64_t)((t.b * out.rows + i) * out.cols + j);
                ms_put(out, t.b, i, j, mean + sd * ms_rand_normal(key, at));
            }
        }
    }
    return MUSEC_OK;
}

static musec_status cpu_uniform(ms_device *d, uint64_t key, double low, double high, ms_mat out)
{
    (void)d;
    const double mid = 0.5 * (low + high), half = 0.5 * (high - low);
    const tiling g = tiling_of(out, TILE_COLS);
#pragma omp parallel for schedule(static) if (g.parallel)
    for (int64_t k = 0; k < g.total; k++) {
        const tile t = tile_at(&g, k);
        for (int64_t i = t.i; i < t.i + t.rows; i++) {
            for (int64_t j = t.j; j < t.j + t.cols; j++) {
                const uint64_t at = (uint64_t)((t.b * out.rows + i) * out.cols + j);
                ms_put(out, t.b, i, j, mid + half * (2.0 * ms_rand_uniform(key, at) - 1.0));
            }
        }
    }
    return MUSEC_OK;
}

void MS_CPU_FN(ms_cpu_element_ops)(ms_device_ops *table)
{
    table->copy            = cpu_copy;
    table->fill            = cpu_fill;
    table->add_diag        = cpu_add_diag;
    table->scale           = cpu_scale;
    table->axpby           = cpu_axpby;
    table->combine         = cpu_combine;
    table->scale_rows      = cpu_scale_rows;
    table->prescale        = cpu_prescale;
    table->sign            = cpu_sign;
    table->moments         = cpu_moments;
    table->decay_add       = cpu_decay_add;
    table->sum             = cpu_sum;
    table->sumsq           = cpu_sumsq;
    table->trace           = cpu_trace;
    table->absmax          = cpu_absmax;
    table->count_nonfinite = cpu_count_nonfinite;
    table->normal          = cpu_normal;
    table->uniform         = cpu_uniform;
}
