/* element.c - element ops, optimizers, reductions and random numbers on the CPU, on all cores.
 * They are limited by memory bandwidth.
 *
 * A stack is divided into tiles of about TILE elements.  Tile boundaries depend on the shape of one
 * matrix alone, never on the number of threads or matrices or on the leading dimension; one loop of
 * the pool runs over the tiles of the whole stack.  A reduction computes one number per tile and
 * combines these in order, so its bits depend on the shape alone as well (that of the matrix as
 * stored: a transposed view sums in the order of its memory).
 *
 * If all operands are transposed, their transposes are used.  If only some are, copy transposes by
 * blocks and the other ops call `ref`.  So they do where an operand has 16 bits, but for copies,
 * which products of such operands are made of, and updates of float32 weights. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ref.h"
#include "device/cpu/vector.h"
#include "device/unary.h"

enum {
    TILE      = 16384, /* elements: one thread is faster than two on a stack of this size */
    TILE_COLS = 4096,  /* maximum width: rows of some matrices are longer than a tile should be */
    SQUARE    = 128,   /* side of a tile that is being transposed */
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

/* The maximum of two numbers that are not negative; NaN if either is. */
static double larger(double a, double b) { return a > b || a != a ? a : b; }

MS_UNARY_FNS(float, f32, ms_logistic)
MS_UNARY_FNS(double, f64, ms_logistic_f64)

static ms_mat untransposed(ms_mat x) { return x.trans ? ms_t(x) : x; }

static bool is_16bit(ms_mat x) { return ms_dtype_bytes(x.dtype) == 2; }

/* Has x, if it is there, the dtype and the layout of out, and one that the loops take? */
static bool is_alike(ms_mat x, ms_mat out)
{
    return x.data == NULL || (x.dtype == out.dtype && x.trans == out.trans && !is_16bit(x));
}

/* ---- a call of an op, tile by tile ----------------------------------------------------------- */

typedef struct call call;
typedef void        tile_task(const call *c, tile t);
typedef double      tile_fn(tile t, ms_mat x);

struct call { /* the operands of an op; each uses some of them, none is transposed */
    tiling         g;
    tile_task     *task;
    ms_mat         x, y, out, m, v, slow;
    ms_num         alpha, beta;
    ms_unary       unary;
    double         low, high; /* value of fill; mean and standard deviation; ends of an interval */
    uint64_t       key;
    ms_moments     rates;
    const ms_term *terms;
    int            n_terms;
    bool           keep; /* combine: an out lies on x or y */
    int64_t        step; /* from the factor of one row to the next, in elements */
    ms_vec         part; /* one number for each tile */
    tile_fn       *reduce;
};

#define REAL     float
#define ABS      fabsf
#define SQRT     sqrtf
#define FN(name) name##_f32
#include "device/cpu/element_rows.h"
#define REAL     double
#define ABS      fabs
#define SQRT     sqrt
#define FN(name) name##_f64
#include "device/cpu/element_rows.h"

#define BY_DTYPE(dtype, name) ((dtype) == MUSEC_F32 ? name##_f32 : name##_f64)

static void run_tile(void *arg, int64_t index, int thread)
{
    const call *c = arg;
    (void)thread;
    c->task(c, tile_at(&c->g, index));
}

/* Runs a task for each tile of a stack that is shaped like `like`. */
static musec_status each_tile(ms_device *d, ms_mat like, int64_t max_width, tile_task *task,
                              call *c)
{
    c->g    = tiling_of(like, max_width);
    c->task = task;
    ms_cpu_run_if(d, c->g.parallel, c->g.total, run_tile, c);
    return MUSEC_OK;
}

/* Runs a task on the diagonal of each matrix of a stack. */
static musec_status each_diagonal(ms_device *d, ms_mat x, ms_worker_task *task, call *c)
{
    ms_cpu_run_if(d, x.count * ms_min_i64(x.rows, x.cols) > TILE, x.count, task, c);
    return MUSEC_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

static void widen_row(musec_dtype from, const uint16_t *x, int64_t n, float *out)
{
    for (int64_t j = 0; from == MUSEC_BF16 && j < n; j++)
        out[j] = ms_float_of_bf16(x[j]);
    for (int64_t j = 0; from == MUSEC_F16 && j < n; j++)
        out[j] = ms_float_of_f16(x[j]);
}

static void narrow_row(const float *x, int64_t n, musec_dtype to, uint16_t *out)
{
    for (int64_t j = 0; to == MUSEC_BF16 && j < n; j++)
        out[j] = ms_bf16_of_double((double)x[j]);
    for (int64_t j = 0; to == MUSEC_F16 && j < n; j++)
        out[j] = ms_f16_of_double((double)x[j]);
}

static void convert_tile(const call *c, tile t)
{
    const musec_dtype from = c->x.dtype, to = c->out.dtype;
    for (int64_t i = 0; i < t.rows; i++) {
        const void *in = ms_mat_address(c->x, t.b, t.i + i, t.j);
        void       *o  = ms_mat_address(c->out, t.b, t.i + i, t.j);
        if (from == to)
            memmove(o, in, (size_t)t.cols * ms_dtype_bytes(to));
        else if (to == MUSEC_F32 && from != MUSEC_F64)
            widen_row(from, in, t.cols, o);
        else if (from == MUSEC_F32 && to != MUSEC_F64)
            narrow_row(in, t.cols, to, o);
        else if (from == MUSEC_F32)
            for (int64_t j = 0; j < t.cols; j++)
                ((double *)o)[j] = (double)((const float *)in)[j];
        else
            for (int64_t j = 0; j < t.cols; j++)
                ((float *)o)[j] = (float)((const double *)in)[j];
    }
}

static musec_status cpu_copy(ms_device *d, ms_mat x, ms_mat out)
{
    const bool transposed = x.trans != out.trans;
    const bool narrow = is_16bit(x) || is_16bit(out), convert = narrow || x.dtype != out.dtype;
    const bool by_rows = x.dtype == MUSEC_F32 || out.dtype == MUSEC_F32 || x.dtype == out.dtype;
    if (convert && (transposed || !by_rows)) return ms_cpu_of(d)->ref.copy(d, x, out);
    if (x.data == out.data && !transposed && x.dtype == out.dtype) return MUSEC_OK; /* in place */
    if (out.trans) x = ms_t(x), out = ms_t(out);
    return each_tile(d, out, transposed ? SQUARE : TILE_COLS,
                     convert      ? convert_tile
                     : transposed ? BY_DTYPE(x.dtype, transpose)
                                  : BY_DTYPE(x.dtype, copy),
                     &(call){ .x = x, .out = out });
}

static musec_status cpu_fill(ms_device *d, double value, ms_mat out)
{
    if (is_16bit(out)) return ms_cpu_of(d)->ref.fill(d, value, out);
    return each_tile(d, untransposed(out), TILE_COLS, BY_DTYPE(out.dtype, fill),
                     &(call){ .low = value, .out = untransposed(out) });
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
    return each_diagonal(d, x, add_diag_task, &(call){ .alpha = value, .x = x });
}

static musec_status cpu_scale(ms_device *d, ms_num factor, ms_mat x)
{
    if (factor.each.data == NULL && factor.value == 1.0) return MUSEC_OK;
    if (is_16bit(x)) return ms_cpu_of(d)->ref.scale(d, factor, x);
    return each_tile(d, untransposed(x), TILE_COLS, BY_DTYPE(x.dtype, scale),
                     &(call){ .alpha = factor, .x = untransposed(x), .out = untransposed(x) });
}

static musec_status cpu_axpby(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y)
{
    if (!is_alike(x, y)) return ms_cpu_of(d)->ref.axpby(d, alpha, x, beta, y);
    return each_tile(
        d, untransposed(y), TILE_COLS, BY_DTYPE(y.dtype, axpby),
        &(call){ .alpha = alpha, .x = untransposed(x), .beta = beta, .y = untransposed(y) });
}

static musec_status cpu_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms, int n_terms)
{
    const ms_mat first = terms[0].out;
    ms_term      up[4] = { 0 };
    bool         mixed = !is_alike(x, first) || !is_alike(y, first), keep = false;
    for (int k = 0; k < n_terms; k++) {
        const void *out = terms[k].out.data;
        mixed           = mixed || !is_alike(terms[k].out, first);
        keep            = keep || (n_terms > 1 && (out == x.data || out == y.data));
        up[k]           = terms[k];
        up[k].out       = untransposed(terms[k].out);
    }
    if (mixed) return ms_cpu_of(d)->ref.combine(d, x, y, terms, n_terms);
    return each_tile(d, up[0].out, TILE_COLS, BY_DTYPE(up[0].out.dtype, combine),
                     &(call){ .x       = untransposed(x),
                              .y       = untransposed(y),
                              .terms   = up,
                              .n_terms = n_terms,
                              .keep    = keep });
}

static musec_status cpu_scale_rows(ms_device *d, ms_mat v, ms_mat x)
{
    const int64_t step = v.trans ? v.ld : 1; /* from one factor to the next */
    if (is_16bit(x) || (x.trans && step != 1)) return ms_cpu_of(d)->ref.scale_rows(d, v, x);
    return each_tile(d, untransposed(x), TILE_COLS,
                     x.trans ? BY_DTYPE(x.dtype, scale_cols) : BY_DTYPE(x.dtype, scale_rows),
                     &(call){ .v = v, .step = step, .x = untransposed(x) });
}

/* Scaling by 2^k changes no bit of a result but the exponent.  With |k| <= 20, squares and sums of
 * the unscaled stack stay within the range of float32 too, so it needs no scaling. */
static bool can_skip_factor(double factor)
{
    int          e        = 0;
    const double mantissa = frexp(factor, &e);
    return mantissa == 0.5 && e - 1 >= -20 && e - 1 <= 20;
}

static musec_status cpu_prescale(ms_device *d, ms_mat x, ms_vec factor, ms_mat buffer,
                                 ms_mat *scaled)
{
    bool needed = x.dtype != buffer.dtype;
    for (int64_t b = 0; b < x.count && x.dtype == buffer.dtype; b++) {
        if (can_skip_factor(factor.data[b])) /* a matrix's bits do not depend on the rest */
            factor.data[b] = 1.0;
        else
            needed = true;
    }
    if (!needed) {
        *scaled = x;
        return MUSEC_OK;
    }
    if (!is_alike(x, buffer)) return ms_cpu_of(d)->ref.prescale(d, x, factor, buffer, scaled);
    *scaled = buffer;
    return each_tile(
        d, untransposed(x), TILE_COLS, BY_DTYPE(x.dtype, scale),
        &(call){ .alpha = { .each = factor }, .x = untransposed(x), .out = untransposed(buffer) });
}

/* ---- functions of one number ----------------------------------------------------------------- */

static musec_status cpu_unary(ms_device *d, ms_unary f, ms_mat x, ms_mat out)
{
    if (!is_alike(x, out)) return ms_cpu_of(d)->ref.unary(d, f, x, out);
    return each_tile(d, untransposed(out), TILE_COLS, BY_DTYPE(out.dtype, unary),
                     &(call){ .unary = f, .x = untransposed(x), .out = untransposed(out) });
}

static musec_status cpu_unary_grad(ms_device *d, ms_unary f, ms_mat x, ms_mat dout, ms_mat dx)
{
    if (!is_alike(x, dx) || !is_alike(dout, dx))
        return ms_cpu_of(d)->ref.unary_grad(d, f, x, dout, dx);
    return each_tile(
        d, untransposed(dx), TILE_COLS, BY_DTYPE(dx.dtype, unary_grad),
        &(call){
            .unary = f, .x = untransposed(x), .y = untransposed(dout), .out = untransposed(dx) });
}

static musec_status cpu_relu2_grad_from_out(ms_device *d, ms_mat out, ms_mat dout, ms_mat dx)
{
    if (!is_alike(out, dx) || !is_alike(dout, dx))
        return ms_cpu_of(d)->ref.relu2_grad_from_out(d, out, dout, dx);
    return each_tile(
        d, untransposed(dx), TILE_COLS, BY_DTYPE(dx.dtype, relu2_grad_from_out),
        &(call){ .x = untransposed(out), .y = untransposed(dout), .out = untransposed(dx) });
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static musec_status cpu_moments(ms_device *d, ms_moments rates, ms_mat g, ms_mat m, ms_mat v,
                                ms_mat slow, ms_mat u)
{
    if (!is_alike(g, u) || !is_alike(m, u) || !is_alike(v, u) || !is_alike(slow, u))
        return ms_cpu_of(d)->ref.moments(d, rates, g, m, v, slow, u);
    if (rates.correct1_at != NULL) rates.correct1 = *rates.correct1_at;
    if (rates.correct2_at != NULL) rates.correct2 = *rates.correct2_at;
    return each_tile(d, untransposed(u), TILE_COLS, BY_DTYPE(u.dtype, moments),
                     &(call){ .rates = rates,
                              .x     = untransposed(g),
                              .m     = untransposed(m),
                              .v     = untransposed(v),
                              .slow  = untransposed(slow),
                              .out   = untransposed(u) });
}

static musec_status cpu_decay_add(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                                  ms_mat w, ms_mat copy)
{
    const bool widens = w.dtype == MUSEC_F32 && is_16bit(u) && u.trans == w.trans;
    if (!(widens || is_alike(u, w)) || copy.data != NULL) /* lists.c makes the copy */
        return ms_cpu_of(d)->ref.decay_add(d, step, u, decay, cautious, w, copy);
    return each_tile(
        d, untransposed(w), TILE_COLS,
        cautious ? BY_DTYPE(w.dtype, decay_add_cautious) : BY_DTYPE(w.dtype, decay_add),
        &(call){ .alpha = step, .x = untransposed(u), .beta = decay, .out = untransposed(w) });
}

/* ---- reductions ------------------------------------------------------------------------------ */

static double add(double a, double b) { return a + b; }

static void reduce_task(void *arg, int64_t index, int thread)
{
    const call *c = arg;
    (void)thread;
    c->part.data[index] = c->reduce(tile_at(&c->g, index), c->x);
}

static musec_status reduce(ms_device *d, ms_mat x, tile_fn *tile_value,
                           double (*join)(double, double), ms_vec out)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    call          c    = { .x = untransposed(x), .reduce = tile_value };
    musec_status  st;

    c.g = tiling_of(c.x, TILE_COLS);
    TRY(ms_scratch_vec(d, c.g.total, &c.part));
    ms_cpu_run_if(d, c.g.parallel, c.g.total, reduce_task, &c);
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
    if (is_16bit(x)) return ms_cpu_of(d)->ref.sum(d, x, out);
    return reduce(d, x, BY_DTYPE(x.dtype, sum), add, out);
}

static musec_status cpu_sumsq(ms_device *d, ms_mat x, ms_vec out)
{
    if (is_16bit(x)) return ms_cpu_of(d)->ref.sumsq(d, x, out);
    return reduce(d, x, BY_DTYPE(x.dtype, sumsq), add, out);
}

static musec_status cpu_absmax(ms_device *d, ms_mat x, ms_vec out)
{
    if (is_16bit(x)) return ms_cpu_of(d)->ref.absmax(d, x, out);
    return reduce(d, x, BY_DTYPE(x.dtype, absmax), larger, out);
}

static musec_status cpu_count_nonfinite(ms_device *d, ms_mat x, ms_vec out)
{
    if (is_16bit(x)) return ms_cpu_of(d)->ref.count_nonfinite(d, x, out);
    return reduce(d, x, BY_DTYPE(x.dtype, count_nonfinite), add, out);
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
    return each_diagonal(d, x, trace_task, &(call){ .x = x, .part = out });
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
    return each_tile(d, out, TILE_COLS, normal_tile,
                     &(call){ .key = key, .low = mean, .high = sd, .out = out });
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
    return each_tile(d, out, TILE_COLS, uniform_tile,
                     &(call){ .key = key, .low = low, .high = high, .out = out });
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
