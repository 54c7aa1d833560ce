/* op_attention.c - attention and its gradient as cases: see op_network.c.
 *
 * The count is the number of heads.  The bounds follow an error through the softmax.  With
 * A = max |scale| |q|.|k| over the keys that a query sees (absolute values throughout):
 *   - a logit is off by at most (head + 2) u A, and the difference to the largest logit, or to the
 *     logsumexp, by another 2 u A;  tanh and exp have slopes of at most 1 in what they are given,
 *     and errors of 4 u of their own: 8 more, since A may be small;
 *   - so each exp is off by a factor of at most e^d, d = (head + 6) u A + 8 u, and its share p of
 *     the sum, whose N terms cost N u, by e^(2 d + N u) at most;
 *   - an average of v with these weights is off by that much of sum p |v|, and by another N u.
 * In units of eps = 2 u, this makes (e^(c eps) - 1) / eps with c = (head + 6) A + N + 8 or more.
 * A logit of 1e4 in float32 leaves hardly anything of it, but still no NaN.
 * What is below the smallest normal number may be 0 instead: `tiny`. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "device/cpu/ref.h"
#include "op_network.h"

/* ---- variants -------------------------------------------------------------------------------- */

typedef enum docs { DOCS_ONE, DOCS_MIXED, DOCS_SINGLE_ROWS, DOCS_256 } docs;

enum { WIDE = 1 << 20 }; /* a window that cuts nothing */

static const struct {
    int64_t window;
    docs    docs;
    double  softcap;
    double  sharpness; /* scale, times the root of head */
} variants[] = {
    { WIDE, DOCS_ONE, 0.0, 1.0 },         /* the usual thing */
    { WIDE, DOCS_MIXED, 1.5, 4.0 },       /* the cap bends */
    { 3, DOCS_MIXED, 0.0, 1.0 },          /* both edges */
    { 64, DOCS_ONE, 1.5, 2.0 },           /* a window under a cap */
    { 64, DOCS_MIXED, 0.0, -3.0 },        /* what is alike repels */
    { 0, DOCS_ONE, 0.0, 1.0 },            /* everyone sees itself alone: so here, */
    { WIDE, DOCS_SINGLE_ROWS, 0.0, 1.0 }, /* and here */
    { WIDE, DOCS_MIXED, 0.0, 1e4 },       /* logits beyond what exp takes */
    { WIDE, DOCS_ONE, 30.0, 1e4 },        /* the same, all of them capped */
    { WIDE, DOCS_256, 0.0, 1.0 },         /* timed */
    { 512, DOCS_ONE, 0.0, 1.0 },          /* timed */
};
_Static_assert(COUNT(variants) == OP_ATTENTION_VARIANTS + 2, "op_network.h");

static int64_t doc_start(const op_case *c, int64_t i)
{
    static const int64_t lengths[] = { 1, 3, 70, 1, 2, 129, 17 };
    int64_t              start     = 0;
    switch (variants[c->variant].docs) {
    case DOCS_SINGLE_ROWS: return i;
    case DOCS_256: return i / 256 * 256;
    case DOCS_MIXED:
        for (size_t l = 0; start + lengths[l] <= i; l = (l + 1) % COUNT(lengths))
            start += lengths[l];
        return start;
    default: return 0;
    }
}

static int64_t first_key(const op_case *c, int64_t i)
{
    const int64_t by_doc = doc_start(c, i), by_window = i - variants[c->variant].window;
    return by_doc > by_window ? by_doc : by_window;
}

static int32_t doc_at(const op_args *a, int64_t i) { return (int32_t)doc_start(&a->c, i); }

static ms_attn attn_of(const op_args *a)
{
    return (ms_attn){ .scale   = variants[a->c.variant].sharpness / sqrt((double)a->c.n),
                      .softcap = variants[a->c.variant].softcap,
                      .window  = variants[a->c.variant].window,
                      .doc     = a->ids[0].ids };
}

static double visible_pairs(const op_case *c)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->m; i++)
        n += i - first_key(c, i) + 1;
    return (double)n;
}

/* Two products of a query with its keys and of its weights with the values; five backward, the
 * first of them again. */
double op_attention_flops(const op_case *c) { return 4.0 * (double)c->n * visible_pairs(c); }
double op_attention_grad_flops(const op_case *c) { return 10.0 * (double)c->n * visible_pairs(c); }

/* ---- operands and calls ---------------------------------------------------------------------- */

static op_mat *add_head(op_args *a, op_role role)
{
    op_mat *x = op_add_mat(a, role, a->c.m, a->c.n);
    x->head   = true;
    return x;
}

enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV }; /* operands of both */

void op_attention_operands(op_args *a)
{
    for (int i = Q; i <= V; i++)
        add_head(a, OP_IN);
    add_head(a, OP_OUT);
    op_add_mat(a, OP_OUT, 1, a->c.m)->aside = true;
    op_add_vec(a, OP_INOUT)->aside          = true; /* some are above any logit, some are not */
    op_add_ids(a, a->c.m, doc_at);
}

musec_status op_attention_run(op_args *a)
{
    return a->d->ops->attention(a->d, attn_of(a), a->mat[Q].mat, a->mat[K].mat, a->mat[V].mat,
                                a->mat[OUT].mat, a->mat[LSE].mat, a->vec[0].vec);
}

musec_status op_attention_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_mark mark = ms_arena_mark(&a->d->scratch);
    ms_mat        part[3]; /* by q, k, v */
    musec_status  st = MUSEC_OK;
    for (int i = 0; i < 3; i++) {
        part[i] = out;
        if (i != by) TRY(ms_scratch_mat(a->d, out.dtype, a->c.count, a->c.m, a->c.n, &part[i]));
    }
    TRY(a->d->ops->attention_grad(a->d, attn_of(a), a->mat[Q].mat, a->mat[K].mat, a->mat[V].mat,
                                  a->mat[OUT].mat, a->mat[LSE].mat, g->mat[OUT], part[0], part[1],
                                  part[2]));
done:
    ms_arena_reset(&a->d->scratch, mark);
    return st;
}

void op_attention_grad_operands(op_args *a)
{
    for (int i = Q; i <= OUT; i++)
        add_head(a, OP_IN);
    op_add_mat(a, OP_IN, 1, a->c.m);
    add_head(a, OP_IN);
    for (int i = DQ; i <= DV; i++)
        add_head(a, OP_OUT);
    op_add_ids(a, a->c.m, doc_at);
}

/* To the case's dtype, so that all devices are given the same numbers. */
static void round_values(ms_mat x, musec_dtype dtype)
{
    for (int64_t b = 0; b < x.count && dtype == MUSEC_F32; b++)
        for (int64_t i = 0; i < x.rows; i++)
            for (int64_t j = 0; j < x.cols; j++)
                ms_put(x, b, i, j, (double)(float)ms_at(x, b, i, j));
}

/* out and lse are those of q, k and v, by `ref`.  A case that is timed does without. */
musec_status op_attention_grad_prepare(op_args *a)
{
    ms_device   *ref       = NULL;
    ms_attn      attn      = attn_of(a);
    double      *max_logit = calloc((size_t)a->c.count, sizeof *max_logit);
    ms_mat       x[LSE + 1];
    musec_status st = MUSEC_OK;
    if (a->c.timing) goto done;
    if (max_logit == NULL) TRY(ms_fail(&a->d->error, MUSEC_ENOMEM, "no memory for a case"));
    for (int i = Q; i <= LSE; i++)
        x[i] = op_host_view(a, i, a->mat[i].image);
    attn.doc = op_host_ids(a, 0);
    TRY(musec_ctx_create(&ref, "ref"));
    TRY(ref->ops->attention(ref, attn, x[Q], x[K], x[V], x[OUT], x[LSE],
                            (ms_vec){ .data = max_logit, .count = a->c.count }));
    round_values(x[OUT], a->c.dtype);
    round_values(x[LSE], a->c.dtype);
done:
    musec_ctx_destroy(ref);
    free(max_logit);
    return st;
}

musec_status op_attention_grad_run(op_args *a)
{
    return a->d->ops->attention_grad(a->d, attn_of(a), a->mat[Q].mat, a->mat[K].mat, a->mat[V].mat,
                                     a->mat[OUT].mat, a->mat[LSE].mat, a->mat[DOUT].mat,
                                     a->mat[DQ].mat, a->mat[DK].mat, a->mat[DV].mat);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* What one query sees: the softmax of its logits, and how much those can be off. */
typedef struct query {
    int64_t first, last; /* keys */
    double *p;           /* p[j] of key j, if it is seen */
    double  lse;
    double  largest; /* logit before the cap, in absolute values: A */
} query;

static double dot(ms_mat x, int64_t i, ms_mat y, int64_t j, int64_t h, double *absolute)
{
    double sum = 0.0;
    *absolute  = 0.0;
    for (int64_t l = 0; l < x.cols; l++) {
        const double part = ms_at(x, h, i, l) * ms_at(y, h, j, l);
        sum += part;
        *absolute += fabs(part);
    }
    return sum;
}

static void look(const op_args *a, int64_t h, int64_t i, query *q)
{
    const ms_attn attn = attn_of(a);
    double        top  = (double)-INFINITY, size;
    q->first           = first_key(&a->c, i);
    q->last            = i;
    q->largest         = 0.0;
    for (int64_t j = q->first; j <= i; j++) {
        const double raw = attn.scale * dot(a->mat[Q].mat, i, a->mat[K].mat, j, h, &size);
        q->p[j]          = attn.softcap > 0.0 ? attn.softcap * tanh(raw / attn.softcap) : raw;
        q->largest       = fmax(q->largest, fabs(attn.scale) * size);
        top              = fmax(top, q->p[j]);
    }
    assert(q->first <= i); /* a query sees itself */
    double sum = exp(q->p[i] - top);
    for (int64_t j = q->first; j < i; j++)
        sum += exp(q->p[j] - top);
    q->lse = top + log(sum);
    for (int64_t j = q->first; j <= i; j++)
        q->p[j] = exp(q->p[j] - q->lse);
}

static query query_room(const op_args *a)
{
    query q = { .p = malloc((size_t)a->c.m * sizeof *q.p) };
    if (q.p == NULL) abort(); /* of a test: there is nobody to tell */
    return q;
}

/* In units of eps: an error of c eps in an exponent, as a share of what it is the exponent of. */
static double growth(const op_args *a, double c)
{
    const double eps = ms_dtype_eps(a->c.dtype);
    return expm1(c * eps) / eps;
}

static double tiny_of(const op_args *a)
{
    return ms_dtype_tiny(a->c.dtype) / ms_dtype_eps(a->c.dtype);
}

void op_attention_size(op_args *a)
{
    const double head = (double)a->c.n;
    const ms_mat v    = a->mat[V].mat;
    query        q    = query_room(a);
    for (int64_t h = 0; h < a->c.count; h++) {
        double largest = 0.0;
        for (int64_t i = 0; i < a->c.m; i++) {
            look(a, h, i, &q);
            const double keys  = (double)(q.last - q.first + 1);
            const double share = growth(a, (head + 6.0) * q.largest + keys + 8.0);
            for (int64_t l = 0; l < v.cols; l++) {
                double sum = 0.0;
                for (int64_t j = q.first; j <= q.last; j++)
                    sum += (q.p[j] * share + tiny_of(a)) * fabs(ms_at(v, h, j, l));
                ms_put(a->mat[OUT].mat, h, i, l, sum);
            }
            ms_put(a->mat[LSE].mat, h, 0, i, (head + 6.0) * q.largest + keys + 8.0 + fabs(q.lse));
            largest = fmax(largest, q.largest);
        }
        /* checked as float64, but known only as well as the dtype knows it */
        a->vec[0].vec.data[h] = (1.0 + (head + 2.0) * largest) * ms_dtype_eps(a->c.dtype) * 0x1p52;
    }
    free(q.p);
}

static void add_size(double factor, ms_mat x, int64_t i, ms_mat out, int64_t j, int64_t h)
{
    for (int64_t l = 0; l < x.cols; l++)
        ms_put(out, h, j, l, ms_at(out, h, j, l) + factor * fabs(ms_at(x, h, i, l)));
}

/* dlogit = scale slope p (<dout, v> - <dout, out>): p as above, with lse as it was given, so with
 * |lse| u more; head u for the dots; the slope 1 - tanh^2 is at most 1 and moves less than the
 * logit; then sums over as many as all rows. */
void op_attention_grad_size(op_args *a)
{
    const double head = (double)a->c.n, scale = fabs(attn_of(a).scale);
    const ms_mat dout = a->mat[DOUT].mat;
    query        q    = query_room(a);
    for (int i = DQ; i <= DV; i++)
        (void)a->d->ops->fill(a->d, 0.0, a->mat[i].mat);
    for (int64_t h = 0; h < a->c.count; h++)
        for (int64_t i = 0; i < a->c.m; i++) {
            double with_out, with_v;
            look(a, h, i, &q);
            const double share =
                growth(a, (head + 6.0) * q.largest + fabs(q.lse) + head + (double)a->c.m + 16.0);
            (void)dot(dout, i, a->mat[OUT].mat, i, h, &with_out);
            for (int64_t j = q.first; j <= q.last; j++) {
                const double p = q.p[j] * share + tiny_of(a);
                (void)dot(dout, i, a->mat[V].mat, j, h, &with_v);
                add_size(scale * p * (with_v + with_out), a->mat[K].mat, j, a->mat[DQ].mat, i, h);
                add_size(scale * p * (with_v + with_out), a->mat[Q].mat, i, a->mat[DK].mat, j, h);
                add_size(p, dout, i, a->mat[DV].mat, j, h);
            }
        }
    free(q.p);
}
