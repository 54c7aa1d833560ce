/* xent.c - the loss of a chunk of rows, and its gradient in place, on the CPU in float32.
 *
 * A row is read twice.  The first pass goes by pieces that stay in L1: it caps the logits, finds
 * the largest one, m, sums e = exp(z - m), and stores e times the slope of the cap in the row.  The
 * sums of the pieces give the row's logsumexp.  The second pass only scales the row:
 *     grad_scale slope (total exp(z - lse) - weights of the targets)
 *     = (grad_scale total exp(m - lse)) (slope e) - grad_scale slope [weights of the targets].
 * Sums are float32 within a piece and float64 across pieces.  The losses of the rows are added in
 * order.  Transposed logits and float64 are computed by `ref`. */
#include <assert.h>
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/vector.h"

enum {
    PIECE  = 1024,  /* logits: with their exponentials and slopes, a quarter of L1 */
    LANES  = 16,    /* a cache line */
    CHAINS = 64,    /* independent maxima, which hide the latency of one comparison */
    ALONE  = 16384, /* at most so many logits are computed by one thread */
};

typedef struct piece_sum { /* the exp(z) of a piece add up to sum exp(max) */
    double max, sum;
} piece_sum;

/* Computes z of raw logits, and dz / draw. */
static void cap(const ms_xent *x, int64_t n, const float *raw, float *z, float *slope)
{
    const float scale = (float)x->cap_scale, shift = (float)x->cap_shift;
    if (x->cap == MS_CAP_TANH) {
        const float over = (float)(1.0 / x->cap_scale);
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            z[j] = scale * ms_tanh(over * raw[j], &slope[j]);
    } else if (x->cap == MS_CAP_SIGMOID) {
        const float over = (float)(1.0 / x->cap_width), steep = scale * over;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float       rest;
            const float s = ms_logistic(over * (raw[j] + shift), &rest);
            z[j]          = scale * s;
            slope[j]      = steep * s * rest;
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            z[j]     = raw[j];
            slope[j] = 1.0f;
        }
    }
}

static float larger(float a, float b) { return ((b <= a) | (a != a)) ? a : b; } /* NaN stays */

static float largest(int64_t n, const float *z)
{
    float   max[CHAINS], all = -INFINITY;
    int64_t j = 0;
    for (int l = 0; l < CHAINS; l++)
        max[l] = -INFINITY;
    for (; j + CHAINS <= n; j += CHAINS)
#pragma omp simd
        for (int l = 0; l < CHAINS; l++)
            max[l] = larger(max[l], z[j + l]);
    for (; j < n; j++)
        all = larger(all, z[j]);
    for (int l = 0; l < CHAINS; l++)
        all = larger(all, max[l]);
    return all;
}

/* z <- exp(z - max); returns their sum. */
static double exp_all(int64_t n, float max, float *z)
{
    float   lane[LANES] = { 0.0f };
    double  sum         = 0.0;
    int64_t j           = 0;
    for (; j + LANES <= n; j += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            z[j + l] = ms_exp(z[j + l] - max);
            lane[l] += z[j + l];
        }
    for (; j < n; j++) {
        z[j] = ms_exp(z[j] - max);
        sum += (double)z[j];
    }
    for (int l = 0; l < LANES; l++)
        sum += (double)lane[l];
    return sum;
}

/* The first pass: returns the logsumexp of a row.  keep: stores slope e in the row. */
static double row_logsumexp(const ms_xent *x, int64_t n, float *row, bool keep, piece_sum *pieces)
{
    float  z[PIECE], slope[PIECE];
    double max = -INFINITY, sum = 0.0;
    for (int64_t j = 0, p = 0; j < n; j += PIECE, p++) {
        const int64_t width = ms_min_i64(PIECE, n - j);
        cap(x, width, row + j, z, slope);
        const float m = largest(width, z);
        pieces[p].max = (double)(m == -INFINITY ? 0.0f : m);
        pieces[p].sum = exp_all(width, m == -INFINITY ? 0.0f : m, z);
        if (m > max || m != m) max = (double)m;
#pragma omp simd
        for (int64_t l = 0; l < (keep ? width : 0); l++)
            row[j + l] = slope[l] * z[l];
    }
    for (int64_t j = 0, p = 0; j < n; j += PIECE, p++)
        sum += pieces[p].sum * exp(pieces[p].max - max);
    return max + log(sum);
}

/* Computes the loss of one row (loss[0]), the part of its next token (loss[1]) and the gradient. */
static void row_loss(const ms_xent *x, int64_t i, ms_mat logits, piece_sum *pieces, double *loss)
{
    float        *row = (float *)logits.data + i * logits.ld;
    const int64_t t   = x->first + i;
    const int n = (int)(x->targets.count - t < x->n_weights ? x->targets.count - t : x->n_weights);
    float     raw[MS_XENT_TARGETS] = { 0 }, z[MS_XENT_TARGETS], slope[MS_XENT_TARGETS];
    double    total                = 0.0;
    for (int k = 0; k < n; k++)
        raw[k] = row[x->targets.data[t + k]];
    cap(x, n, raw, z, slope);
    const double lse = row_logsumexp(x, logits.cols, row, x->grad_scale != 0.0, pieces);
    loss[0]          = 0.0;
    loss[1]          = lse - (double)z[0];
    for (int k = 0; k < n; k++) {
        loss[0] += x->weights[k] * (lse - (double)z[k]);
        total += x->weights[k];
    }
    if (x->grad_scale == 0.0) return;
    for (int64_t j = 0, p = 0; j < logits.cols; j += PIECE, p++) {
        const float   f     = (float)(x->grad_scale * total * exp(pieces[p].max - lse));
        const int64_t width = ms_min_i64(PIECE, logits.cols - j);
#pragma omp simd
        for (int64_t l = 0; l < width; l++)
            row[j + l] *= f;
    }
    for (int k = 0; k < n; k++)
        row[x->targets.data[t + k]] -= (float)(x->grad_scale * x->weights[k] * (double)slope[k]);
}

typedef struct row_call {
    const ms_xent *x;
    ms_mat         logits;
    piece_sum     *pieces; /* n_pieces for each thread */
    int64_t        n_pieces;
    double        *each; /* two for each row */
} row_call;

static void row_task(void *arg, int64_t i, int thread)
{
    const row_call *c = arg;
    row_loss(c->x, i, c->logits, c->pieces + thread * c->n_pieces, c->each + 2 * i);
}

static musec_status cpu_xent(ms_device *d, ms_xent x, ms_mat logits, ms_vec loss)
{
    const ms_mark mark     = ms_arena_mark(&d->scratch);
    const int64_t n_pieces = (logits.cols + PIECE - 1) / PIECE;
    ms_vec        each;   /* two per row */
    void         *pieces; /* n_pieces for each thread */
    musec_status  st;

    if (logits.dtype != MUSEC_F32 || logits.trans)
        return ms_cpu_of(d)->ref.xent(d, x, logits, loss);
    assert(x.n_weights >= 1 && x.n_weights <= MS_XENT_TARGETS && loss.count == 2);
    assert(x.first + logits.rows <= x.targets.count);
    TRY(ms_scratch_vec(d, 2 * logits.rows, &each));
    TRY(ms_scratch_bytes(d, (size_t)(ms_cpu_threads(d) * n_pieces) * sizeof(piece_sum), &pieces));
    row_call c = {
        .x = &x, .logits = logits, .pieces = pieces, .n_pieces = n_pieces, .each = each.data
    };
    ms_cpu_run_if(d, logits.rows * logits.cols > ALONE, logits.rows, row_task, &c);
    for (int64_t i = 0; i < logits.rows; i++)
        for (int k = 0; k < 2; k++)
            loss.data[k] += each.data[2 * i + k];
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

void MS_CPU_FN(ms_cpu_xent_ops)(ms_device_ops *table) { table->xent = cpu_xent; }
