/* attention.c - causal attention on the CPU in float32, and its gradients, tile by tile.
 *
 * A tile is up to KEYS keys by QUERIES queries of one head, with a row for each key: logits are K
 * Q^T, where Q^T, a transposed block of queries, is formed once for all its keys.  Maximum, sum and
 * D of a query are a lane of a vector, so no sum runs along a vector.  In a row of a tile, only the
 * vectors with a query that sees the key are computed.  In these, masked pairs are -infinity, whose
 * exponential is 0; the other elements are 0.
 *
 * The forward pass is an online softmax over the tiles of a block of queries: sums are rescaled
 * when the maximum grows.  The backward pass of a tile, from the stored logsumexp, is
 *     P = exp(logits - lse),  dV += P^T dO,  dS = scale P (dO V^T - D),  dK += dS^T Q,  dQ += dS K.
 *
 * The rows are divided into chunks, at document boundaries where documents are short.  A task of
 * the forward pass is a head and a chunk of queries.  A task of the backward pass is a head, a
 * chunk of keys and a chunk of queries, and tasks run in rounds: in round r, the queries are r
 * chunks after their keys.  So no two tasks of a round add to the same rows, and the order of
 * additions to a row does not depend on the number of threads.  Tiles outside the window or the
 * document are skipped.
 *
 * NaN and infinity spread to the queries that see them, and may spread to the other rows of their
 * tile.  Transposed operands and float64 are computed by `ref`. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/row_sums.h"
#include "device/cpu/tile_product.h"
#include "device/cpu/vector.h"

enum {
    QUERIES = 64,
    KEYS    = 96,
    CHUNK   = 256, /* rows at most */
};

typedef struct plan {
    ms_attn  a;
    ms_mat   q, k, v, out, lse;
    ms_mat   dout, dq, dk, dv;
    int64_t *start; /* chunk c is rows start[c] .. start[c + 1] - 1 */
    int64_t  n_chunks;
    float   *delta; /* (heads x rows) <dout, out> */
    float   *work;  /* scratch memory: work_each for each thread */
    int64_t  work_each;
} plan;

/* The scratch memory of one thread, in plan.work.  Rows of `cols` floats are padded. */
typedef struct scratch {
    float *q, *dout;     /* (QUERIES x cols) a block */
    float *q_t, *dout_t; /* (cols x QUERIES) its transpose */
    float *kv;           /* (KEYS x cols) keys, or values, of a tile */
    float *s, *ds;       /* (KEYS x QUERIES) a tile */
    float *o;            /* (QUERIES x cols) sums of P V */
    float *max, *sum, *max_logit, *lse, *delta, *zero; /* (QUERIES) */
} scratch;

typedef struct block { /* of queries */
    int64_t head, first, n;
} block;

typedef struct tile { /* keys first .. first + n - 1 and a block of queries */
    block   b;
    int64_t first, n;
    span    queries[KEYS]; /* queries that see a key */
    span    lanes[KEYS];   /* the same in whole vectors */
    span    keys[QUERIES]; /* keys that a query sees */
} tile;

static int64_t padded(int64_t n) { return (n + PAD - 1) / PAD * PAD; }

static float *row_of(ms_mat x, int64_t b, int64_t i)
{
    return (float *)x.data + b * x.stride + i * x.ld;
}

static int64_t first_key(const ms_attn *a, int64_t i)
{
    return ms_max_i64(a->doc.data[i], i - a->window);
}

static int64_t work_cols(const plan *p) { return padded(ms_max_i64(p->q.cols, p->v.cols)); }

static int64_t work_elems(const plan *p)
{
    return (5 * QUERIES + KEYS) * work_cols(p) + (6 + 2 * KEYS) * QUERIES;
}

static float *take(float **at, int64_t n)
{
    float *p = *at;
    *at += n;
    return p;
}

static scratch scratch_of(const plan *p, int thread)
{
    float        *at       = p->work + thread * p->work_each;
    const int64_t cols     = work_cols(p);
    scratch       w        = { 0 };
    float **const blocks[] = { &w.q, &w.dout, &w.q_t, &w.dout_t, &w.o };
    float **const lanes[]  = { &w.max, &w.sum, &w.max_logit, &w.lse, &w.delta, &w.zero };
    for (size_t i = 0; i < COUNT(blocks); i++)
        *blocks[i] = take(&at, cols * QUERIES);
    for (size_t i = 0; i < COUNT(lanes); i++)
        *lanes[i] = take(&at, QUERIES);
    w.kv = take(&at, KEYS * cols);
    w.s  = take(&at, KEYS * QUERIES);
    w.ds = take(&at, KEYS * QUERIES);
    return w;
}

/* ---- pieces of a tile ------------------------------------------------------------------------ */

/* Copies rows of a head, dense and padded with zeros. */
static void gather(ms_mat x, int64_t head, int64_t first, int64_t n, float *out)
{
    const int64_t width = padded(x.cols);
    for (int64_t i = 0; i < n; i++, out += width) {
        memcpy(out, row_of(x, head, first + i), (size_t)x.cols * sizeof(float));
        for (int64_t l = x.cols; l < width; l++)
            out[l] = 0.0f;
    }
}

/* Copies a block to `rows`, dense, with zeros in place of rows that it does not have, and its
 * transpose to `transposed`, by squares of fixed size, which the compiler unrolls. */
static void gather_block(ms_mat x, block b, float *rows, float *transposed)
{
    const int64_t width = padded(x.cols);
    gather(x, b.head, b.first, b.n, rows);
    memset(rows + b.n * width, 0, (size_t)((QUERIES - b.n) * width) * sizeof(float));
    for (int64_t i = 0; i < QUERIES; i += PAD)
        for (int64_t l = 0; l < width; l += PAD)
            for (int k = 0; k < PAD; k++)
                for (int m = 0; m < PAD; m++)
                    transposed[(l + k) * QUERIES + i + m] = rows[(i + m) * width + l + k];
}

/* Finds the pairs that are not masked.  Both ends of each span never fall from a row to the
 * next. */
static void find_spans(const ms_attn *a, tile *t)
{
    int64_t end = 0; /* the queries before it see back to the key or further */
    for (int64_t j = 0; j < t->n; j++) {
        const int64_t key = t->first + j, begin = ms_max_i64(key - t->b.first, 0);
        while (end < t->b.n && first_key(a, t->b.first + end) <= key)
            end++;
        t->queries[j] = (span){ (int32_t)begin, (int32_t)end };
        t->lanes[j]   = (span){ (int32_t)(begin / PAD * PAD), (int32_t)padded(end) };
    }
    for (int64_t i = 0; i < t->b.n; i++) {
        const int64_t query = t->b.first + i;
        t->keys[i].begin = (int32_t)ms_min_i64(ms_max_i64(first_key(a, query) - t->first, 0), t->n);
        t->keys[i].end   = (int32_t)ms_min_i64(ms_max_i64(query + 1 - t->first, 0), t->n);
    }
}

/* Masks pairs of s, and clears the elements that are not computed, also of ds unless it is NULL. */
static void apply_mask(const tile *t, float *s, float *ds)
{
    for (int64_t j = 0; j < t->n; j++, s += QUERIES) {
        const span queries = t->queries[j], lanes = t->lanes[j];
        for (int32_t i = 0; i < lanes.begin; i++)
            s[i] = 0.0f;
        for (int32_t i = lanes.begin; i < queries.begin; i++)
            s[i] = -INFINITY;
        for (int32_t i = queries.end; i < lanes.end; i++)
            s[i] = -INFINITY;
        for (int32_t i = lanes.end; i < QUERIES; i++)
            s[i] = 0.0f;
        if (ds == NULL) continue;
        for (int32_t i = 0; i < lanes.begin; i++)
            ds[j * QUERIES + i] = 0.0f;
        for (int32_t i = lanes.end; i < QUERIES; i++)
            ds[j * QUERIES + i] = 0.0f;
    }
}

/* out <- alpha x y^T, where x are keys or values of the tile and y_t is its transposed block. */
static void tile_times_block(const tile *t, float alpha, ms_mat x, const float *y_t, float *out)
{
    const tile_product by = { x.ld, 1, y_t, QUERIES, alpha, false, QUERIES };
    tile_multiply(&by, t->n, QUERIES, x.cols, row_of(x, t->b.head, t->first), t->lanes, NULL, out);
}

/* Adds s y to the keys' rows of out, where y is the gathered block. */
static void add_to_keys(const tile *t, const float *s, const float *y, ms_mat out)
{
    const tile_product by = { QUERIES, 1, y, padded(out.cols), 1.0f, true, out.ld };
    tile_multiply(&by, t->n, out.cols, t->b.n, s, NULL, t->queries,
                  row_of(out, t->b.head, t->first));
}

/* Adds s^T y to the block's rows, which begin at out, where y are the gathered keys or values. */
static void add_to_queries(const tile *t, const float *s, const float *y, int64_t cols, bool add,
                           int64_t ld, float *out)
{
    const tile_product by = { 1, QUERIES, y, padded(cols), 1.0f, add, ld };
    tile_multiply(&by, t->b.n, cols, t->n, s, NULL, t->keys, out);
}

static void soft_cap(const tile *t, float cap, float *s)
{
    const float over = 1.0f / cap;
    for (int64_t j = 0; j < t->n; j++, s += QUERIES)
#pragma omp simd
        for (int32_t i = t->lanes[j].begin; i < t->lanes[j].end; i++) {
            float slope;
            s[i] = cap * ms_tanh(over * s[i], &slope);
        }
}

/* Takes the maximum of max and the rows of s, lane by lane; NaN stays. */
static void update_max(const tile *t, const float *s, float *max)
{
    for (int64_t j = 0; j < t->n; j++, s += QUERIES)
#pragma omp simd
        for (int32_t i = t->lanes[j].begin; i < t->lanes[j].end; i++)
            max[i] = ((s[i] <= max[i]) | (max[i] != max[i])) ? max[i] : s[i];
}

/* s <- exp(s - max), whose sums over the keys are added to sum. */
static void exp_tile(const tile *t, const float *max, float *s, float *sum)
{
    for (int64_t j = 0; j < t->n; j++, s += QUERIES)
#pragma omp simd
        for (int32_t i = t->lanes[j].begin; i < t->lanes[j].end; i++) {
            s[i] = ms_exp(s[i] - max[i]);
            sum[i] += s[i];
        }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Adds a tile to a block of queries; `first`: it is the block's first. */
static void forward_tile(const plan *p, const scratch *w, tile *t, bool first)
{
    const int64_t cols = p->v.cols;
    float         new_max[QUERIES], shrink[QUERIES];
    find_spans(&p->a, t);
    tile_times_block(t, (float)p->a.scale, p->k, w->q_t, w->s);
    apply_mask(t, w->s, NULL);
    if (p->a.softcap > 0.0) {
        update_max(t, w->s, w->max_logit);
        soft_cap(t, (float)p->a.softcap, w->s);
        apply_mask(t, w->s, NULL);
    }
    memcpy(new_max, w->max, sizeof new_max);
    update_max(t, w->s, new_max);
#pragma omp simd
    for (int64_t i = 0; i < QUERIES; i++) {
        const float base = new_max[i] == -INFINITY ? 0.0f : new_max[i]; /* all masked so far */
        shrink[i]        = ms_exp(w->max[i] - base);
        w->max[i]        = new_max[i];
        new_max[i]       = base;
        w->sum[i] *= shrink[i];
    }
    exp_tile(t, new_max, w->s, w->sum);
    for (int64_t i = 0; i < t->b.n && !first; i++) {
        float *o = w->o + i * padded(cols);
#pragma omp simd
        for (int64_t l = 0; l < cols; l++)
            o[l] *= shrink[i];
    }
    gather(p->v, t->b.head, t->first, t->n, w->kv);
    add_to_queries(t, w->s, w->kv, cols, !first, padded(cols), w->o);
}

/* Returns the largest logit of the block. */
static float forward_block(const plan *p, const scratch *w, block b)
{
    const int64_t begin = first_key(&p->a, b.first), end = b.first + b.n, cols = p->v.cols;
    const float  *maxima = p->a.softcap > 0.0 ? w->max_logit : w->max;
    float         most   = -INFINITY;
    tile          t      = { .b = b };
    for (int64_t i = 0; i < QUERIES; i++) {
        w->max[i] = w->max_logit[i] = -INFINITY;
        w->sum[i]                   = 0.0f;
    }
    gather_block(p->q, b, w->q, w->q_t);
    for (t.first = begin; t.first < end; t.first += KEYS) {
        t.n = ms_min_i64(KEYS, end - t.first);
        forward_tile(p, w, &t, t.first == begin);
    }
    for (int64_t i = 0; i < b.n; i++) {
        const float  factor = 1.0f / w->sum[i];
        const float *o      = w->o + i * padded(cols);
        float       *out    = row_of(p->out, b.head, b.first + i);
#pragma omp simd
        for (int64_t l = 0; l < cols; l++)
            out[l] = factor * o[l];
        row_of(p->lse, b.head, 0)[b.first + i] = w->max[i] + logf(w->sum[i]);
        most = (maxima[i] <= most || most != most) ? most : maxima[i];
    }
    return most;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* s <- its soft cap z, ds <- dz / ds (ds - delta). */
static void soft_cap_grad(const tile *t, float cap, const float *delta, float *s, float *ds)
{
    const float over = 1.0f / cap;
    for (int64_t j = 0; j < t->n; j++, s += QUERIES, ds += QUERIES)
#pragma omp simd
        for (int32_t i = t->lanes[j].begin; i < t->lanes[j].end; i++) {
            float slope;
            s[i]  = cap * ms_tanh(over * s[i], &slope);
            ds[i] = slope * (ds[i] - delta[i]);
        }
}

/* s <- P = exp(s - lse), ds <- scale P (ds - delta). */
static void soft_max_grad(const tile *t, float scale, const float *lse, const float *delta,
                          float *s, float *ds)
{
    for (int64_t j = 0; j < t->n; j++, s += QUERIES, ds += QUERIES)
#pragma omp simd
        for (int32_t i = t->lanes[j].begin; i < t->lanes[j].end; i++) {
            const float prob = ms_exp(s[i] - lse[i]);
            s[i]             = prob;
            ds[i]            = scale * prob * (ds[i] - delta[i]);
        }
}

static void backward_tile(const plan *p, const scratch *w, tile *t)
{
    const float scale = (float)p->a.scale, cap = (float)p->a.softcap;
    find_spans(&p->a, t);
    tile_times_block(t, scale, p->k, w->q_t, w->s);
    tile_times_block(t, 1.0f, p->v, w->dout_t, w->ds);
    if (p->a.softcap > 0.0) soft_cap_grad(t, cap, w->delta, w->s, w->ds);
    apply_mask(t, w->s, w->ds);
    soft_max_grad(t, scale, w->lse, p->a.softcap > 0.0 ? w->zero : w->delta, w->s, w->ds);
    add_to_keys(t, w->s, w->dout, p->dv);
    add_to_keys(t, w->ds, w->q, p->dk);
    gather(p->k, t->b.head, t->first, t->n, w->kv);
    add_to_queries(t, w->ds, w->kv, p->q.cols, true, p->dq.ld,
                   row_of(p->dq, t->b.head, t->b.first));
}

/* Computes the gradients of a block of queries and the keys begin .. end - 1 that it sees. */
static void backward_block(const plan *p, const scratch *w, block b, int64_t begin, int64_t end)
{
    const float *lse = row_of(p->lse, b.head, 0), *delta = p->delta + b.head * p->q.rows;
    tile         t = { .b = b };
    begin          = ms_max_i64(begin, first_key(&p->a, b.first));
    end            = ms_min_i64(end, b.first + b.n);
    if (begin >= end) return;
    gather_block(p->q, b, w->q, w->q_t);
    gather_block(p->dout, b, w->dout, w->dout_t);
    for (int64_t i = 0; i < QUERIES; i++) {
        w->lse[i]   = i < b.n ? lse[b.first + i] : 0.0f;
        w->delta[i] = i < b.n ? delta[b.first + i] : 0.0f;
        w->zero[i]  = 0.0f;
    }
    for (t.first = begin; t.first < end; t.first += KEYS) {
        t.n = ms_min_i64(KEYS, end - t.first);
        backward_tile(p, w, &t);
    }
}

/* Computes D and clears the gradients of a chunk's rows: a part of the first round. */
static void begin_chunk(const plan *p, int64_t head, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const float *o = row_of(p->out, head, i), *g = row_of(p->dout, head, i);
        p->delta[head * p->q.rows + i] = (float)dot(p->v.cols, o, g);
        memset(row_of(p->dq, head, i), 0, (size_t)p->q.cols * sizeof(float));
        memset(row_of(p->dk, head, i), 0, (size_t)p->q.cols * sizeof(float));
        memset(row_of(p->dv, head, i), 0, (size_t)p->v.cols * sizeof(float));
    }
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Divides the rows into chunks of whole documents, and a document that is too long into equal
 * parts. Returns the number of chunks. */
static int64_t make_chunks(const ms_attn *a, int64_t rows, int64_t *start)
{
    int64_t n = 0, open = 0; /* first row of the chunk that is being filled */
    for (int64_t i = 0; i < rows;) {
        int64_t next = i + 1; /* the document is rows i .. next - 1 */
        while (next < rows && a->doc.data[next] <= i)
            next++;
        if (next - open > CHUNK && i > open) {
            start[n++] = open;
            open       = i;
        }
        const int64_t parts = (next - i + CHUNK - 1) / CHUNK, step = (next - i + parts - 1) / parts;
        for (int64_t at = i + step; parts > 1 && at < next; at += step) {
            start[n++] = open;
            open       = at;
        }
        i = next;
    }
    start[n++] = open;
    start[n]   = rows;
    return n;
}

static bool usable(ms_mat x) { return x.dtype == MUSEC_F32 && !x.trans; }

/* Makes the chunks and takes the workspace. */
static musec_status prepare(ms_device *d, plan *p)
{
    const int64_t rows = p->q.rows, threads = ms_cpu_threads(d);
    void         *start, *work;
    musec_status  st;

    assert(p->a.doc.count == rows && p->q.cols == p->k.cols && p->v.cols == p->out.cols);
    p->work_each = work_elems(p);
    TRY(ms_scratch_bytes(d, (size_t)(rows + 1) * sizeof(int64_t), &start));
    TRY(ms_scratch_bytes(d, (size_t)(threads * p->work_each) * sizeof(float), &work));
    p->start    = start;
    p->work     = work;
    p->n_chunks = make_chunks(&p->a, rows, p->start);
done:
    return st;
}

typedef struct forward_call {
    const plan *p;
    double     *max_logit; /* of each task */
    int64_t     tasks;
} forward_call;

/* Tasks are taken in reverse order: later chunks, which may see more keys, come first. */
static void forward_task(void *arg, int64_t index, int thread)
{
    const forward_call *c = arg;
    const plan         *p = c->p;
    const int64_t task = c->tasks - 1 - index, chunk = task / p->q.count, head = task % p->q.count;
    const scratch w   = scratch_of(p, thread);
    float         max = -INFINITY;
    for (int64_t i = p->start[chunk]; i < p->start[chunk + 1]; i += QUERIES) {
        const block b  = { head, i, ms_min_i64(QUERIES, p->start[chunk + 1] - i) };
        const float in = forward_block(p, &w, b);
        max            = in <= max || max != max ? max : in;
    }
    c->max_logit[task] = (double)max;
}

static musec_status cpu_attention(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v, ms_mat out,
                                  ms_mat lse, ms_vec max_logit)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    plan          p    = { .a = a, .q = q, .k = k, .v = v, .out = out, .lse = lse };
    ms_vec        most; /* of each task */
    musec_status  st;

    if (!usable(q) || !usable(k) || !usable(v) || !usable(out) || !usable(lse))
        return ms_cpu_of(d)->ref.attention(d, a, q, k, v, out, lse, max_logit);
    TRY(prepare(d, &p));
    const int64_t n = p.n_chunks, tasks = q.count * n;
    TRY(ms_scratch_vec(d, tasks, &most));
    ms_cpu_run(d, tasks, forward_task, &(forward_call){ &p, most.data, tasks });
    for (int64_t task = 0; task < tasks; task++) {
        double *to = &max_logit.data[task % q.count];
        if (most.data[task] > *to || most.data[task] != most.data[task]) *to = most.data[task];
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

typedef struct backward_call {
    const plan *p;
    int64_t     round;
} backward_call;

/* Computes the pairs of a chunk of keys and of the queries that are `round` chunks after it. */
static void backward_task(void *arg, int64_t task, int thread)
{
    const backward_call *c    = arg;
    const plan          *p    = c->p;
    const int64_t        head = task % p->q.count, chunk = task / p->q.count;
    const int64_t begin = p->start[chunk], end = p->start[chunk + 1], queries = chunk + c->round;
    const scratch w = scratch_of(p, thread);
    if (c->round == 0) begin_chunk(p, head, begin, end);
    for (int64_t i = p->start[queries]; i < p->start[queries + 1]; i += QUERIES)
        backward_block(p, &w, (block){ head, i, ms_min_i64(QUERIES, p->start[queries + 1] - i) },
                       begin, end);
}

static musec_status cpu_attention_grad(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v,
                                       ms_mat out, ms_mat lse, ms_mat dout, ms_mat dq, ms_mat dk,
                                       ms_mat dv)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    plan          p    = { a, q, k, v, out, lse, dout, dq, dk, dv, NULL, 0, NULL, NULL, 0 };
    void         *delta;
    musec_status  st;

    if (!usable(q) || !usable(k) || !usable(v) || !usable(out) || !usable(lse) || !usable(dout) ||
        !usable(dq) || !usable(dk) || !usable(dv))
        return ms_cpu_of(d)->ref.attention_grad(d, a, q, k, v, out, lse, dout, dq, dk, dv);
    TRY(prepare(d, &p));
    TRY(ms_scratch_bytes(d, (size_t)(q.count * q.rows) * sizeof(float), &delta));
    p.delta        = delta;
    int64_t rounds = 1, behind = 0; /* the chunk of the first key that a chunk sees */
    for (int64_t c = 0; c < p.n_chunks; c++) {
        while (first_key(&a, p.start[c]) >= p.start[behind + 1])
            behind++;
        rounds = ms_max_i64(rounds, c - behind + 1);
    }
    for (int64_t round = 0; round < rounds; round++)
        ms_cpu_run(d, q.count * (p.n_chunks - round), backward_task, &(backward_call){ &p, round });
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

void MS_CPU_FN(ms_cpu_attention_ops)(ms_device_ops *table)
{
    table->attention      = cpu_attention;
    table->attention_grad = cpu_attention_grad;
}
