/* nn.c - rows and elements of networks on the CPU, in float32: embeddings, norms, rotations, gates.
 *
 * A task is a few rows of every matrix of the stack, so that heads that lie side by side are read
 * in the order of memory.  Its boundaries depend on the shape alone.  Sums along a row are float64,
 * in partial sums that are added in a fixed order; elements are float32.  An op reads its
 * operands from memory once: rows that it reads twice are still in L1.
 *
 * Transposed operands and float64 are computed by `ref`. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/row_sums.h"
#include "device/cpu/vector.h"

enum {
    TASK  = 16384, /* elements: one thread is faster on so many than two */
    AHEAD = 4,     /* rows that are prefetched */
    BAND  = 64,    /* columns of a table that one thread adds to */
    GATES = 64,    /* heads whose gates are computed together */
};

static bool is_plain(ms_mat x) { return x.dtype == MUSEC_F32 && !x.trans; }

static float *row_of(ms_mat x, int64_t b, int64_t i)
{
    return (float *)x.data + b * x.stride + i * x.ld;
}

/* Counts the rows of a task, at least one. */
static int64_t task_rows(ms_mat x)
{
    const int64_t width = x.cols * x.count;
    return width < TASK ? TASK / width : 1;
}

/* The operands of an op; each uses some of them. */
typedef struct call call;
typedef void        rows_task(const call *c, int64_t first, int64_t last);

struct call {
    rows_task     *task;
    int64_t        rows, step; /* rows of the matrices and of a task */
    ms_mat         x, y, out, dout, s, ds, w;
    ms_ids         ids;
    const ms_rope *rope;
    double         eps, beta;
    ms_vec         part;

    const ms_blend_term *terms;
    const ms_blend_grad *grads;
    int                  n_terms;
};

static void run_rows(void *arg, int64_t task, int thread)
{
    const call   *c     = arg;
    const int64_t first = task * c->step;
    (void)thread;
    c->task(c, first, ms_min_i64(first + c->step, c->rows));
}

/* Runs a task for all rows of a stack that is shaped like `like`, step by step. */
static musec_status each_rows(ms_device *d, ms_mat like, rows_task *task, call *c)
{
    c->task = task;
    c->rows = like.rows;
    c->step = task_rows(like);
    ms_cpu_run(d, (like.rows + c->step - 1) / c->step, run_rows, c);
    return MUSEC_OK;
}

/* Prefetches row i + AHEAD of all matrices: rows of heads are short, and too far apart for the
 * processor to predict the next. */
static void prefetch_row(ms_mat x, int64_t i)
{
    if (i + AHEAD >= x.rows) return;
    for (int64_t b = 0; b < x.count; b++) {
        const float *row = row_of(x, b, i + AHEAD);
        for (int64_t j = 0; j < x.cols; j += SUM_LANES)
            __builtin_prefetch(row + j);
    }
}

/* ---- sums along a row ------------------------------------------------------------------------ */

/* sum[0] <- <x, x>, sum[1] <- <x, y> */
static void dots(int64_t n, const float *x, const float *y, double *sum)
{
    double  own[SUM_LANES] = { 0.0 }, cross[SUM_LANES] = { 0.0 }, own_rest = 0.0, cross_rest = 0.0;
    int64_t j = 0;
    for (; j + SUM_LANES <= n; j += SUM_LANES)
#pragma omp simd
        for (int l = 0; l < SUM_LANES; l++) {
            own[l] += (double)x[j + l] * (double)x[j + l];
            cross[l] += (double)x[j + l] * (double)y[j + l];
        }
    for (; j < n; j++) {
        own_rest += (double)x[j] * (double)x[j];
        cross_rest += (double)x[j] * (double)y[j];
    }
    sum[0] = sum_lanes(own) + own_rest;
    sum[1] = sum_lanes(cross) + cross_rest;
}

static double inverse_rms(int64_t n, const float *x, double eps)
{
    return 1.0 / sqrt(dot(n, x, x) / (double)n + eps);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static void embed_rows(const call *c, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        memcpy(row_of(c->out, 0, i), row_of(c->w, 0, c->ids.data[i]),
               (size_t)c->out.cols * sizeof(float));
}

static musec_status cpu_embed(ms_device *d, ms_ids ids, ms_mat table, ms_mat out)
{
    if (!is_plain(table) || !is_plain(out)) return ms_cpu_of(d)->ref.embed(d, ids, table, out);
    assert(ids.count == out.rows && table.cols == out.cols && table.count == 1);
    return each_rows(d, out, embed_rows, &(call){ .ids = ids, .w = table, .out = out });
}

/* Adds a band of columns.  The order of additions to a row does not depend on the threads. */
static void embed_grad_band(void *arg, int64_t index, int thread)
{
    const call   *c    = arg;
    const int64_t band = index * BAND, n = ms_min_i64(BAND, c->dout.cols - band);
    (void)thread;
    for (int64_t i = 0; i < c->dout.rows; i++) {
        const float *in = row_of(c->dout, 0, i) + band;
        float       *o  = row_of(c->w, 0, c->ids.data[i]) + band;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            o[j] += in[j];
    }
}

static musec_status cpu_embed_grad(ms_device *d, ms_ids ids, ms_mat dout, ms_mat dtable)
{
    if (!is_plain(dout) || !is_plain(dtable))
        return ms_cpu_of(d)->ref.embed_grad(d, ids, dout, dtable);
    ms_cpu_run_if(d, dout.rows * dout.cols > TASK, (dout.cols + BAND - 1) / BAND, embed_grad_band,
                  &(call){ .ids = ids, .dout = dout, .w = dtable });
    return MUSEC_OK;
}

/* ---- norms ----------------------------------------------------------------------------------- */

static void rmsnorm_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat x = c->x, out = c->out;
    for (int64_t i = first; i < last; i++)
        for (int64_t b = 0; b < x.count; b++) {
            const float *in = row_of(x, b, i);
            float       *o  = row_of(out, b, i);
            const float  r  = (float)inverse_rms(x.cols, in, c->eps);
#pragma omp simd
            for (int64_t j = 0; j < x.cols; j++)
                o[j] = r * in[j];
        }
}

static musec_status cpu_rmsnorm(ms_device *d, double eps, ms_mat x, ms_mat out)
{
    if (!is_plain(x) || !is_plain(out)) return ms_cpu_of(d)->ref.rmsnorm(d, eps, x, out);
    return each_rows(d, x, rmsnorm_rows, &(call){ .x = x, .out = out, .eps = eps });
}

/* dx <- beta dx + r (dy - y mean(dy y)), y = r x; dx may be dy where beta is 0. */
static void norm_grad_row(int64_t n, double eps, const float *x, const float *dy, float beta,
                          float *dx)
{
    double sum[2];
    dots(n, x, dy, sum);
    const double exact = 1.0 / sqrt(sum[0] / (double)n + eps);
    const float  r = (float)exact, along = (float)(exact * sum[1] / (double)n);
    if (beta == 0.0f) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            dx[j] = r * (dy[j] - along * (r * x[j]));
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            dx[j] = beta * dx[j] + r * (dy[j] - along * (r * x[j]));
    }
}

static void rmsnorm_grad_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat x = c->x, dout = c->dout, dx = c->out;
    for (int64_t i = first; i < last; i++)
        for (int64_t b = 0; b < x.count; b++)
            norm_grad_row(x.cols, c->eps, row_of(x, b, i), row_of(dout, b, i), (float)c->beta,
                          row_of(dx, b, i));
}

static musec_status cpu_rmsnorm_grad(ms_device *d, double eps, ms_mat x, ms_mat dout, double beta,
                                     ms_mat dx)
{
    if (!is_plain(x) || !is_plain(dout) || !is_plain(dx))
        return ms_cpu_of(d)->ref.rmsnorm_grad(d, eps, x, dout, beta, dx);
    return each_rows(d, x, rmsnorm_grad_rows,
                     &(call){ .x = x, .dout = dout, .out = dx, .eps = eps, .beta = beta });
}

/* ---- rotations ------------------------------------------------------------------------------- */

/* Rotates the first `pairs` pairs of a row of n, times `factor`; sign -1 applies the inverse
 * rotation. The other columns are only scaled.  In place is allowed. */
static void rotate_row(bool adjacent, int64_t n, int64_t pairs, const float *cosine,
                       const float *sine, float sign, float factor, const float *x, float *out)
{
    const int64_t half = n / 2;
    if (adjacent) {
#pragma omp simd
        for (int64_t j = 0; j < pairs; j++) {
            const float c = factor * cosine[j], s = factor * sign * sine[j];
            const float p = x[2 * j], q = x[2 * j + 1];
            out[2 * j]     = p * c + q * s;
            out[2 * j + 1] = q * c - p * s;
        }
#pragma omp simd
        for (int64_t j = 2 * pairs; j < n; j++)
            out[j] = factor * x[j];
    } else {
#pragma omp simd
        for (int64_t j = 0; j < pairs; j++) {
            const float c = factor * cosine[j], s = factor * sign * sine[j];
            const float p = x[j], q = x[half + j];
            out[j]        = p * c + q * s;
            out[half + j] = q * c - p * s;
        }
#pragma omp simd
        for (int64_t j = pairs; j < half; j++) {
            out[j]        = factor * x[j];
            out[half + j] = factor * x[half + j];
        }
    }
}

static void rope_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat  x = c->x, out = c->out;
    const ms_rope r = *c->rope;
    for (int64_t i = first; i < last; i++) {
        prefetch_row(x, i);
        for (int64_t b = 0; b < x.count; b++) {
            const float *in     = row_of(x, b, i);
            const double factor = r.norm_eps >= 0.0 ? inverse_rms(x.cols, in, r.norm_eps) : 1.0;
            rotate_row(r.adjacent, x.cols, r.cos.cols, row_of(r.cos, 0, i), row_of(r.sin, 0, i),
                       1.0f, (float)factor, in, row_of(out, b, i));
        }
    }
}

static musec_status cpu_rope(ms_device *d, ms_rope r, ms_mat x, ms_mat out)
{
    if (!is_plain(x) || !is_plain(out) || !is_plain(r.cos) || !is_plain(r.sin))
        return ms_cpu_of(d)->ref.rope(d, r, x, out);
    assert(x.cols % 2 == 0 && r.cos.cols <= x.cols / 2 && r.cos.rows >= x.rows);
    return each_rows(d, x, rope_rows, &(call){ .x = x, .out = out, .rope = &r });
}

static void rope_grad_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat  x = c->x, dout = c->dout, dx = c->out;
    const ms_rope r      = *c->rope;
    const bool    normed = r.norm_eps >= 0.0; /* else x is not read */
    for (int64_t i = first; i < last; i++) {
        prefetch_row(dout, i);
        if (normed) prefetch_row(x, i);
        for (int64_t b = 0; b < dx.count; b++) {
            float *o = row_of(dx, b, i);
            rotate_row(r.adjacent, dx.cols, r.cos.cols, row_of(r.cos, 0, i), row_of(r.sin, 0, i),
                       -1.0f, 1.0f, row_of(dout, b, i), o);
            if (normed) norm_grad_row(dx.cols, r.norm_eps, row_of(x, b, i), o, 0.0f, o);
        }
    }
}

static musec_status cpu_rope_grad(ms_device *d, ms_rope r, ms_mat x, ms_mat dout, ms_mat dx)
{
    const bool normed = r.norm_eps >= 0.0; /* else x is not read */
    if ((normed && !is_plain(x)) || !is_plain(dout) || !is_plain(dx) || !is_plain(r.cos) ||
        !is_plain(r.sin))
        return ms_cpu_of(d)->ref.rope_grad(d, r, x, dout, dx);
    return each_rows(d, dx, rope_grad_rows, &(call){ .x = x, .dout = dout, .out = dx, .rope = &r });
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Computes the gates of heads h .. h + n - 1 in row i. */
static void gates_of(ms_mat s, int64_t i, int64_t h, int64_t n, float *gate, float *rest)
{
    const float *in = row_of(s, 0, i) + h;
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
        gate[k] = ms_logistic(in[k], &rest[k]);
}

static void gate_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat s = c->s, y = c->y, out = c->out;
    float        gate[GATES], rest[GATES];
    for (int64_t i = first; i < last; i++)
        for (int64_t b = 0; b < y.count; b++) {
            if (b % GATES == 0) gates_of(s, i, b, ms_min_i64(GATES, y.count - b), gate, rest);
            const float  g  = gate[b % GATES];
            const float *in = row_of(y, b, i);
            float       *o  = row_of(out, b, i);
#pragma omp simd
            for (int64_t j = 0; j < y.cols; j++)
                o[j] = g * in[j];
        }
}

static musec_status cpu_gate(ms_device *d, ms_mat s, ms_mat y, ms_mat out)
{
    if (!is_plain(s) || !is_plain(y) || !is_plain(out)) return ms_cpu_of(d)->ref.gate(d, s, y, out);
    assert(s.rows == y.rows && s.cols == y.count);
    return each_rows(d, y, gate_rows, &(call){ .s = s, .y = y, .out = out });
}

static void gate_grad_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat s = c->s, y = c->y, dout = c->dout, dy = c->out, ds = c->ds;
    float        gate[GATES], rest[GATES];
    for (int64_t i = first; i < last; i++)
        for (int64_t b = 0; b < y.count; b++) {
            if (b % GATES == 0) gates_of(s, i, b, ms_min_i64(GATES, y.count - b), gate, rest);
            const float  g  = gate[b % GATES];
            const float *in = row_of(dout, b, i);
            float       *o  = row_of(dy, b, i);
            row_of(ds, 0, i)[b] =
                (float)((double)(g * rest[b % GATES]) * dot(y.cols, in, row_of(y, b, i)));
#pragma omp simd
            for (int64_t j = 0; j < y.cols; j++)
                o[j] = g * in[j];
        }
}

static musec_status cpu_gate_grad(ms_device *d, ms_mat s, ms_mat y, ms_mat dout, ms_mat dy,
                                  ms_mat ds)
{
    if (!is_plain(s) || !is_plain(y) || !is_plain(dout) || !is_plain(dy) || !is_plain(ds))
        return ms_cpu_of(d)->ref.gate_grad(d, s, y, dout, dy, ds);
    return each_rows(d, y, gate_grad_rows,
                     &(call){ .s = s, .y = y, .dout = dout, .out = dy, .ds = ds });
}

static void mix_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat x = c->x, y = c->y, out = c->out;
    const float  of_x = row_of(c->w, 0, 0)[0], of_y = row_of(c->w, 0, 0)[1];
    for (int64_t i = first; i < last; i++) {
        const float *xs = row_of(x, 0, i), *ys = row_of(y, 0, i);
        float       *o = row_of(out, 0, i);
#pragma omp simd
        for (int64_t j = 0; j < x.cols; j++)
            o[j] = of_x * xs[j] + of_y * ys[j];
    }
}

static musec_status cpu_mix(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat out)
{
    if (!is_plain(w) || !is_plain(x) || !is_plain(y) || !is_plain(out))
        return ms_cpu_of(d)->ref.mix(d, w, x, y, out);
    x.count = 1;
    return each_rows(d, x, mix_rows, &(call){ .w = w, .x = x, .y = y, .out = out });
}

/* One row of mix_grad, whose contribution to dw is added to part. */
static void mix_grad_row(int64_t n, const float *w, const float *x, const float *y, const float *in,
                         float *dx, float *dy, double *part)
{
    const float of_x = w[0], of_y = w[1];
    part[0] += dot(n, in, x); /* the second time, in is in L1 */
    part[1] += dot(n, in, y);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float g = in[j];
        dy[j] += of_y * g;
        dx[j] = of_x * g;
    }
}

static void mix_grad_rows(const call *c, int64_t first, int64_t last)
{
    double *part = c->part.data + 2 * (first / c->step);
    part[0] = part[1] = 0.0;
    for (int64_t i = first; i < last; i++)
        mix_grad_row(c->x.cols, row_of(c->w, 0, 0), row_of(c->x, 0, i), row_of(c->y, 0, i),
                     row_of(c->dout, 0, i), row_of(c->out, 0, i), row_of(c->s, 0, i), part);
}

static musec_status cpu_mix_grad(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat dout, ms_mat dx,
                                 ms_mat dy, ms_mat dw)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_vec        part; /* two per task */
    musec_status  st;

    if (!is_plain(w) || !is_plain(x) || !is_plain(y) || !is_plain(dout) || !is_plain(dx) ||
        !is_plain(dy) || !is_plain(dw))
        return ms_cpu_of(d)->ref.mix_grad(d, w, x, y, dout, dx, dy, dw);
    x.count             = 1;
    const int64_t tasks = (x.rows + task_rows(x) - 1) / task_rows(x);
    TRY(ms_scratch_vec(d, 2 * tasks, &part));
    TRY(each_rows(
        d, x, mix_grad_rows,
        &(call){ .w = w, .x = x, .y = y, .dout = dout, .out = dx, .s = dy, .part = part }));
    for (int k = 0; k < 2; k++) {
        double sum = 0.0;
        for (int64_t t = 0; t < tasks; t++)
            sum += part.data[2 * t + k];
        float *o = row_of(dw, 0, 0) + k;
        *o       = (float)((double)*o + sum);
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

enum { BLEND_PART = 256 }; /* columns that are added up before out, which may be an x, is written */

static bool are_plain(const ms_blend_term *terms, int n)
{
    bool all = true;
    for (int k = 0; k < n; k++)
        all =
            all && is_plain(terms[k].x) && (terms[k].coef.data == NULL || is_plain(terms[k].coef));
    return all;
}

static float coef_of(ms_mat coef, int64_t b, int64_t i)
{
    return coef.data == NULL ? 1.0f : row_of(coef, 0, coef.rows == 1 ? 0 : i)[b];
}

static void blend_row(const call *c, int64_t b, int64_t i)
{
    float sum[BLEND_PART];
    for (int64_t first = 0; first < c->out.cols; first += BLEND_PART) {
        const int64_t n = ms_min_i64(BLEND_PART, c->out.cols - first);
        float        *o = row_of(c->out, b, i) + first;
        for (int64_t j = 0; j < n; j++)
            sum[j] = 0.0f;
        for (int k = 0; k < c->n_terms; k++) {
            const float  by = coef_of(c->terms[k].coef, b, i);
            const float *x  = row_of(c->terms[k].x, b, i) + first;
#pragma omp simd
            for (int64_t j = 0; j < n; j++)
                sum[j] += by * x[j];
        }
        for (int64_t j = 0; j < n; j++)
            o[j] = sum[j];
    }
}

static void blend_rows(const call *c, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        for (int64_t b = 0; b < c->out.count; b++)
            blend_row(c, b, i);
}

static musec_status cpu_blend(ms_device *d, const ms_blend_term *terms, int n, ms_mat out)
{
    if (!are_plain(terms, n) || !is_plain(out)) return ms_cpu_of(d)->ref.blend(d, terms, n, out);
    return each_rows(d, out, blend_rows, &(call){ .out = out, .terms = terms, .n_terms = n });
}

static void put_scaled(int64_t n, float by, const float *x, float *out)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        out[j] = by * x[j];
}

static void add_scaled(int64_t n, float by, const float *x, float *out)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        out[j] += by * x[j];
}

static void blend_grad_rows(const call *c, int64_t first, int64_t last)
{
    const ms_mat dout = c->dout;
    for (int64_t i = first; i < last; i++)
        for (int64_t at = 0; at < dout.count * c->n_terms; at++) {
            const int64_t        b = at / c->n_terms, k = at % c->n_terms;
            const ms_blend_grad *g  = &c->grads[k];
            const float         *in = row_of(dout, b, i);
            const float          by = coef_of(c->terms[k].coef, b, i);
            if (g->dcoef.data != NULL)
                row_of(g->dcoef, 0, i)[b] = (float)dot(dout.cols, in, row_of(c->terms[k].x, b, i));
            if (g->dx.data == NULL) continue;
            float *o = row_of(g->dx, b, i);
            (g->adds ? add_scaled : put_scaled)(dout.cols, by, in, o);
        }
}

static musec_status cpu_blend_grad(ms_device *d, const ms_blend_term *terms,
                                   const ms_blend_grad *grads, int n, ms_mat dout)
{
    bool plain = are_plain(terms, n) && is_plain(dout);
    for (int k = 0; k < n; k++)
        plain = plain && (grads[k].dx.data == NULL || is_plain(grads[k].dx)) &&
                (grads[k].dcoef.data == NULL || is_plain(grads[k].dcoef));
    if (!plain) return ms_cpu_of(d)->ref.blend_grad(d, terms, grads, n, dout);
    return each_rows(d, dout, blend_grad_rows,
                     &(call){ .dout = dout, .terms = terms, .grads = grads, .n_terms = n });
}

void MS_CPU_FN(ms_cpu_nn_ops)(ms_device_ops *table)
{
    table->embed        = cpu_embed;
    table->embed_grad   = cpu_embed_grad;
    table->rmsnorm      = cpu_rmsnorm;
    table->rmsnorm_grad = cpu_rmsnorm_grad;
    table->rope         = cpu_rope;
    table->rope_grad    = cpu_rope_grad;
    table->gate         = cpu_gate;
    table->gate_grad    = cpu_gate_grad;
    table->mix          = cpu_mix;
    table->mix_grad     = cpu_mix_grad;
    table->blend        = cpu_blend;
    table->blend_grad   = cpu_blend_grad;
}
