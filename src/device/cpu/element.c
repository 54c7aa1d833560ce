/* element.c - element ops, optimizers, reductions and random numbers on the CPU: memory speed, on
 * all cores.
 *
 * A stack is cut into tiles of about TILE elements.  Their borders depend on the shape of one
 * matrix alone, never on the number of threads, of matrices, or on the leading dimension; one loop
 * of the pool runs over the tiles of the whole stack.  A reduction leaves one number per tile and
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
#include "device/cpu/vector.h"
#include "device/unary.h"

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

static tiling tiling_of(ms_mat x, int64_t max_width)
{
    tiling g = { .rows = x.rows, .cols = x.cols, .width = ms_min_i64(x.cols, max_width) };
    assert(x.rows > 0 && x.cols > 0);
    g.height   = g.width < TILE ? ms_min_i64(x.rows, TILE / g.width) : 1;
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
    t.rows = ms_min_i64(g->height, g->rows - t.i);
    t.cols = ms_min_i64(g->width, g->cols - t.j);
    return t;
}

/* a, b not negative; NaN if either is */
static double larger(double a, double b) { return a > b || a != a ? a : b; }

MS_UNARY_FNS(float, f32, ms_logistic)
MS_UNARY_FNS(double, f64, ms_logistic_f64)

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

/* ---- a call of an op, tile by tile ----------------------------------------------------------- */

typedef struct call call;
typedef void        tile_task(const call *c, tile t);

struct call { /* the operands of an op; each uses some of them, all upright */
    tiling         g;
    tile_task     *task;
    ms_mat         x, y, out, m, v, slow;
    ms_num         alpha, beta;
    ms_unary       unary;
    double         low, high; /* the value of fill; mean and deviation; ends of an interval */
    uint64_t       key;
    ms_moments     rates;
    const ms_term *terms;
    int            n_terms;
    bool           flag; /* cautious; keep; transposed */
    int64_t        step; /* of the factors of rows, in elements */
    ms_vec         part; /* one number for each tile */
    double (*reduce)(tile t, ms_mat x);
};

static void run_tile(void *arg, int64_t index, int thread)
{
    const call *c = arg;
    (void)thread;
    c->task(c, tile_at(&c->g, index));
}

/* Runs a task for each tile of a stack that is shaped like `like`. */
static void each_tile(ms_device *d, ms_mat like, int64_t max_width, tile_task *task, call *c)
{
    c->g    = tiling_of(like, max_width);
    c->task = task;
    if (c->g.parallel) {
        ms_cpu_run(d, c->g.total, run_tile, c);
        return;
    }
    for (int64_t index = 0; index < c->g.total; index++)
        run_tile(c, index, 0);
}

/* Runs a task for each matrix of a stack, where only the diagonal counts. */
static void each_diagonal(ms_device *d, ms_mat x, ms_worker_task *task, call *c)
{
    if (x.count * ms_min_i64(x.rows, x.cols) > TILE) {
        ms_cpu_run(d, x.count, task, c);
        return;
    }
    for (int64_t b = 0; b < x.count; b++)
        task(c, b, 0);
}

/* ---- elements -------------------------------------------------------------------------------- */

static void convert_tile(const call *c, tile t)
{
    for (int64_t i = 0; i < t.rows; i++) {
        if (c->x.dtype == MUSEC_F32) {
            const float *in = row_f32(t, c->x, i);
            double      *o  = row_f64(t, c->out, i);
            for (int64_t j = 0; j < t.cols; j++)
                o[j] = (double)in[j];
        } else {
            const double *in = row_f64(t, c->x, i);
            float        *o  = row_f32(t, c->out, i);
            for (int64_t j = 0; j < t.cols; j++)
                o[j] = (float)in[j];
        }
    }
}

static void transpose_tile(const call *c, tile t)
{
    BY_DTYPE(c->x.dtype, transpose, t, c->x, c->out);
}

static void copy_tile(const call *c, tile t) { BY_DTYPE(c->x.dtype, copy, t, c->x, c->out); }

static musec_status cpu_copy(ms_device *d, ms_mat x, ms_mat out)
{
    const bool transposed = x.trans != out.trans, convert = x.dtype != out.dtype;
    if (transposed && convert) return ms_cpu_of(d)->ref.copy(d, x, out);
    if (x.data == out.data && !transposed) return MUSEC_OK; /* in place: it is there already */
    if (out.trans) x = ms_t(x), out = ms_t(out);
    each_tile(d, out, transposed ? SQUARE : TILE_COLS,
              convert      ? convert_tile
              : transposed ? transpose_tile
                           : copy_tile,
              &(call){ .x = x, .out = out });
    return MUSEC_OK;
}

static void fill_tile(const call *c, tile t) { BY_DTYPE(c->out.dtype, fill, t, c->low, c->out); }

static musec_status cpu_fill(ms_device *d, double value, ms_mat out)
{
    each_tile(d, upright(out), TILE_COLS, fill_tile, &(call){ .low = value, .out = upright(out) });
    return MUSEC_OK;
}

static void add_diag_task(void *arg, int64_t b, int thread)
{
    const call *c = arg;
    (void)thread;
    for (int64_t i = 0; i < ms_min_i64(c->x.rows, c->x.cols); i++)
        ms_put(c->x, b, i, i, ms_at(c->x, b, i, i) + ms_num_at(c->alpha, b));
}

static musec_status cpu_add_diag(ms_device *d, ms_num value, ms_mat x)
{
    each_diagonal(d, x, add_diag_task, &(call){ .alpha = value, .x = x });
    return MUSEC_OK;
}

static void scale_tile(const call *c, tile t)
{
    const double f = ms_num_at(c->alpha, t.b);
    if (f != 1.0) BY_DTYPE(c->x.dtype, scale, t, f, c->x, c->x);
}

static musec_status cpu_scale(ms_device *d, ms_num factor, ms_mat x)
{
    if (factor.each.data == NULL && factor.value == 1.0) return MUSEC_OK;
    each_tile(d, upright(x), TILE_COLS, scale_tile, &(call){ .alpha = factor, .x = upright(x) });
    return MUSEC_OK;
}

static void axpby_tile(const call *c, tile t)
{
    BY_DTYPE(c->y.dtype, axpby, t, ms_num_at(c->alpha, t.b), c->x, ms_num_at(c->beta, t.b), c->y);
}

static musec_status cpu_axpby(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y)
{
    if (x.trans != y.trans) return ms_cpu_of(d)->ref.axpby(d, alpha, x, beta, y);
    each_tile(d, upright(y), TILE_COLS, axpby_tile,
              &(call){ .alpha = alpha, .x = upright(x), .beta = beta, .y = upright(y) });
    return MUSEC_OK;
}

static void combine_tile(const call *c, tile t)
{
    BY_DTYPE(c->terms[0].out.dtype, combine, t, c->x, c->y, c->terms, c->n_terms, c->flag);
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
    if (mixed) return ms_cpu_of(d)->ref.combine(d, x, y, terms, n_terms);
    each_tile(
        d, up[0].out, TILE_COLS, combine_tile,
        &(call){ .x = upright(x), .y = upright(y), .terms = up, .n_terms = n_terms, .flag = keep });
    return MUSEC_OK;
}

static void scale_rows_tile(const call *c, tile t)
{
    BY_DTYPE(c->x.dtype, scale_rows, t, c->v, c->step, c->x);
}

static void scale_cols_tile(const call *c, tile t)
{
    BY_DTYPE(c->x.dtype, scale_cols, t, c->v, c->x);
}

static musec_status cpu_scale_rows(ms_device *d, ms_mat v, ms_mat x)
{
    const int64_t step = v.trans ? v.ld : 1; /* from one factor to the next */
    if (x.trans && step != 1) return ms_cpu_of(d)->ref.scale_rows(d, v, x);
    each_tile(d, upright(x), TILE_COLS, x.trans ? scale_cols_tile : scale_rows_tile,
              &(call){ .v = v, .step = step, .x = upright(x) });
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

static void prescale_tile(const call *c, tile t)
{
    BY_DTYPE(c->x.dtype, scale, t, ms_num_at(c->alpha, t.b), c->x, c->out);
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
    if (x.trans != buffer.trans) return ms_cpu_of(d)->ref.prescale(d, x, factor, buffer, scaled);
    *scaled = buffer;
    each_tile(d, upright(x), TILE_COLS, prescale_tile,
              &(call){ .alpha = { .each = factor }, .x = upright(x), .out = upright(buffer) });
    return MUSEC_OK;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static void unary_tile(const call *c, tile t)
{
    BY_DTYPE(c->out.dtype, unary, t, c->unary, c->x, c->out);
}

static musec_status cpu_unary(ms_device *d, ms_unary f, ms_mat x, ms_mat out)
{
    if (x.trans != out.trans) return ms_cpu_of(d)->ref.unary(d, f, x, out);
    each_tile(d, upright(out), TILE_COLS, unary_tile,
              &(call){ .unary = f, .x = upright(x), .out = upright(out) });
    return MUSEC_OK;
}

static void unary_grad_tile(const call *c, tile t)
{
    BY_DTYPE(c->out.dtype, unary_grad, t, c->unary, c->x, c->y, c->out);
}

static musec_status cpu_unary_grad(ms_device *d, ms_unary f, ms_mat x, ms_mat dout, ms_mat dx)
{
    if (x.trans != dx.trans || dout.trans != dx.trans)
        return ms_cpu_of(d)->ref.unary_grad(d, f, x, dout, dx);
    each_tile(d, upright(dx), TILE_COLS, unary_grad_tile,
              &(call){ .unary = f, .x = upright(x), .y = upright(dout), .out = upright(dx) });
    return MUSEC_OK;
}

static void relu2_grad_from_out_tile(const call *c, tile t)
{
    BY_DTYPE(c->out.dtype, relu2_grad_from_out, t, c->x, c->y, c->out);
}

static musec_status cpu_relu2_grad_from_out(ms_device *d, ms_mat out, ms_mat dout, ms_mat dx)
{
    if (out.trans != dx.trans || dout.trans != dx.trans)
        return ms_cpu_of(d)->ref.relu2_grad_from_out(d, out, dout, dx);
    each_tile(d, upright(dx), TILE_COLS, relu2_grad_from_out_tile,
              &(call){ .x = upright(out), .y = upright(dout), .out = upright(dx) });
    return MUSEC_OK;
}

static void moments_tile(const call *c, tile t)
{
    BY_DTYPE(c->out.dtype, moments, t, c->rates, c->x, c->m, c->v, c->slow, c->out);
}

static musec_status cpu_moments(ms_device *d, ms_moments rates, ms_mat g, ms_mat m, ms_mat v,
                                ms_mat slow, ms_mat u)
{
    const bool trans = u.trans, mixed = g.trans != trans || m.trans != trans || v.trans != trans ||
                                        (slow.data != NULL && slow.trans != trans);
    if (mixed) return ms_cpu_of(d)->ref.moments(d, rates, g, m, v, slow, u);
    each_tile(d, upright(u), TILE_COLS, moments_tile,
              &(call){ .rates = rates,
                       .x     = upright(g),
                       .m     = upright(m),
                       .v     = upright(v),
                       .slow  = upright(slow),
                       .out   = upright(u) });
    return MUSEC_OK;
}

static void decay_add_tile(const call *c, tile t)
{
    const double by = ms_num_at(c->alpha, t.b), rate = ms_num_at(c->beta, t.b);
    if (c->flag)
        BY_DTYPE(c->out.dtype, decay_add_cautious, t, by, c->x, rate, c->out);
    else
        BY_DTYPE(c->out.dtype, decay_add, t, by, c->x, rate, c->out);
}

static musec_status cpu_decay_add(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                                  ms_mat w, ms_mat copy)
{
    if (u.trans != w.trans || u.dtype != w.dtype || copy.data != NULL) /* copies are lists.c's */
        return ms_cpu_of(d)->ref.decay_add(d, step, u, decay, cautious, w, copy);
    each_tile(
        d, upright(w), TILE_COLS, decay_add_tile,
        &(call){
            .alpha = step, .x = upright(u), .beta = decay, .flag = cautious, .out = upright(w) });
    return MUSEC_OK;
}

/* ---- reductions ------------------------------------------------------------------------------ */

typedef double tile_fn(tile t, ms_mat x);

static double add(double a, double b) { return a + b; }

static void reduce_task(void *arg, int64_t index, int thread)
{
    const call *c = arg;
    (void)thread;
    c->part.data[index] = c->reduce(tile_at(&c->g, index), c->x);
}

static musec_status reduce(ms_device *d, ms_mat x, tile_fn *f32, tile_fn *f64,
                           double (*join)(double, double), ms_vec out)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    call          c    = { .x = upright(x), .reduce = x.dtype == MUSEC_F32 ? f32 : f64 };
    musec_status  st;

    c.g = tiling_of(c.x, TILE_COLS);
    TRY(ms_scratch_vec(d, c.g.total, &c.part));
    if (c.g.parallel)
        ms_cpu_run(d, c.g.total, reduce_task, &c);
    else
        for (int64_t k = 0; k < c.g.total; k++)
            reduce_task(&c, k, 0);
    for (int64_t b = 0; b < x.count; b++) {
        const double *part = c.part.data + b * c.g.each;
        out.data[b]        = part[0];
        for (int64_t k = 1; k < c.g.each; k++)
            out.data[b] = join(out.data[b], part[k]);
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

static void trace_task(void *arg, int64_t b, int thread)
{
    const call *c   = arg;
    double      sum = 0.0;
    (void)thread;
    for (int64_t i = 0; i < ms_min_i64(c->x.rows, c->x.cols); i++)
        sum += ms_at(c->x, b, i, i);
    c->part.data[b] = sum;
}

static musec_status cpu_trace(ms_device *d, ms_mat x, ms_vec out)
{
    each_diagonal(d, x, trace_task, &(call){ .x = x, .part = out });
    return MUSEC_OK;
}

/* ---- random numbers -------------------------------------------------------------------------- */

static uint64_t number_of(ms_mat out, int64_t b, int64_t i, int64_t j)
{
    return (uint64_t)((b * out.rows + i) * out.cols + j);
}

static void normal_tile(const call *c, tile t)
{
    for (int64_t i = t.i; i < t.i + t.rows; i++)
        for (int64_t j = t.j; j < t.j + t.cols; j++)
            ms_put(c->out, t.b, i, j,
                   c->low + c->high * ms_rand_normal(c->key, number_of(c->out, t.b, i, j)));
}

static musec_status cpu_normal(ms_device *d, uint64_t key, double mean, double sd, ms_mat out)
{
    each_tile(d, out, TILE_COLS, normal_tile,
              &(call){ .key = key, .low = mean, .high = sd, .out = out });
    return MUSEC_OK;
}

static void uniform_tile(const call *c, tile t)
{
    const double mid = 0.5 * (c->low + c->high), half = 0.5 * (c->high - c->low);
    for (int64_t i = t.i; i < t.i + t.rows; i++)
        for (int64_t j = t.j; j < t.j + t.cols; j++) {
            const double u = ms_rand_uniform(c->key, number_of(c->out, t.b, i, j));
            ms_put(c->out, t.b, i, j, mid + half * (2.0 * u - 1.0));
        }
}

static musec_status cpu_uniform(ms_device *d, uint64_t key, double low, double high, ms_mat out)
{
    each_tile(d, out, TILE_COLS, uniform_tile,
              &(call){ .key = key, .low = low, .high = high, .out = out });
    return MUSEC_OK;
}

void MS_CPU_FN(ms_cpu_element_ops)(ms_device_ops *table)
{
    table->copy                = cpu_copy;
    table->fill                = cpu_fill;
    table->add_diag            = cpu_add_diag;
    table->scale               = cpu_scale;
    table->axpby               = cpu_axpby;
    table->combine             = cpu_combine;
    table->scale_rows          = cpu_scale_rows;
    table->prescale            = cpu_prescale;
    table->unary               = cpu_unary;
    table->unary_grad          = cpu_unary_grad;
    table->relu2_grad_from_out = cpu_relu2_grad_from_out;
    table->moments             = cpu_moments;
    table->decay_add           = cpu_decay_add;
    table->sum                 = cpu_sum;
    table->sumsq               = cpu_sumsq;
    table->trace               = cpu_trace;
    table->absmax              = cpu_absmax;
    table->count_nonfinite     = cpu_count_nonfinite;
    table->normal              = cpu_normal;
    table->uniform             = cpu_uniform;
}
