/* op_attention.c - cases of attention and its gradient (see op_network.c).
 *
 * The count is the number of heads.  The bounds propagate rounding errors through the softmax.
 * With A = max |scale| |q|.|k| over the keys that a query sees (absolute values throughout): - a
 * logit has an error of at most (head + 2) u A, and its difference to the largest logit or
 *     the logsumexp another 2 u A; tanh and exp have slopes of at most 1 and add errors of 4 u: 8
 *     more, since A may be small;
 * - so each exp has a relative error of at most e^d - 1, d = (head + 6) u A + 8 u, and its share p
 *     of the sum, whose N terms cost N u, one of at most e^(2 d + N u) - 1;
 * - an average of v with these weights has this error relative to sum p |v|, and another N u. With
 * eps = 2 u, this makes e^(c eps) - 1 with c = (head + 6) A + N + 8 or more.  With logits of 1e4 in
 * float32 the bound excludes little but NaN.  Results below the smallest normal number may be 0
 * instead: `tiny`.
 *
 * Operands of 16 bits: logits and softmax are float32, so u above is that of float32; but P is
 * rounded to 16 bits before it is multiplied by V, and P and dS before dO, K and Q, as tensor cores
 * multiply 16-bit numbers.  Let u16 be the error of that.  Then P, the sum that divides it (of
 * rounded weights or not) and the result cost u16 each, relative to sum p |v|: 3 u16 in all; so do
 * P or dS, the terms of dS, and the result.  Below the smallest normal number, f16 has an absolute
 * error instead, `absolute`, relative to the largest weight. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "device/cpu/ref.h"
#include "op_network.h"

/* ---- variants -------------------------------------------------------------------------------- */

typedef enum docs { DOCS_ONE, DOCS_MIXED, DOCS_SINGLE_ROWS, DOCS_EQUAL } docs;

enum { WIDE = 1 << 20 }; /* a window that masks nothing */

static const struct {
    int64_t window;
    docs    docs;
    double  softcap;
    double  sharpness; /* scale, times the root of head */
    int64_t length;    /* of equal documents */
} variants[] = {
    { WIDE, DOCS_ONE, 0.0, 1.0, 0 },         /* the usual case */
    { WIDE, DOCS_MIXED, 1.5, 4.0, 0 },       /* logits in the curved part of the cap */
    { 3, DOCS_MIXED, 0.0, 1.0, 0 },          /* masks by window and document */
    { 64, DOCS_ONE, 1.5, 2.0, 0 },           /* a window with a cap */
    { 64, DOCS_MIXED, 0.0, -3.0, 0 },        /* a negative scale */
    { 0, DOCS_ONE, 0.0, 1.0, 0 },            /* queries see only their own key, by the window, */
    { WIDE, DOCS_SINGLE_ROWS, 0.0, 1.0, 0 }, /* and by documents */
    { WIDE, DOCS_MIXED, 0.0, 1e4, 0 },       /* logits that overflow exp */
    { WIDE, DOCS_ONE, 30.0, 1e4, 0 },        /* the same logits, capped */
    { WIDE, DOCS_EQUAL, 0.0, 1.0, 256 },     /* this and the next are only timed */
    { 512, DOCS_ONE, 0.0, 1.0, 0 },
    { 1024, DOCS_EQUAL, 0.0, 1.0, 2048 },
    { 1024, DOCS_EQUAL, 0.0, 1.0, 4096 },
    { 128, DOCS_EQUAL, 0.0, 1.0, 4096 },
    { 3456, DOCS_EQUAL, 0.0, 1.0, 4096 },
    { WIDE, DOCS_EQUAL, 0.0, 1.0, 896 },
};
_Static_assert(COUNT(variants) == OP_ATTENTION_VARIANTS + 7, "op_network.h");

static int64_t doc_start(const op_case *c, int64_t i)
{
    static const int64_t lengths[] = { 1, 3, 70, 1, 2, 129, 17 };
    int64_t              start     = 0;
    switch (variants[c->variant].docs) {
    case DOCS_SINGLE_ROWS: return i;
    case DOCS_EQUAL: return i - i % variants[c->variant].length;
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

/* Counts the documents and the rows of the longest. */
static void measure_docs(const op_case *c, int64_t *n, int64_t *longest)
{
    const int64_t length = variants[c->variant].length;
    switch (variants[c->variant].docs) {
    case DOCS_SINGLE_ROWS: *n = c->m, *longest = 1; break;
    case DOCS_EQUAL: *n = (c->m - 1) / length + 1, *longest = length; break;
    case DOCS_MIXED:
        *n = *longest = 0;
        for (int64_t i = 0; i < c->m; i++) {
            const int64_t start = doc_start(c, i);
            if (start == i) (*n)++;
            if (i - start + 1 > *longest) *longest = i - start + 1;
        }
        break;
    default: *n = 1, *longest = c->m; break;
    }
}

/* Heads in the layout of a model have the bounds on documents that a model gives. */
static ms_attn attn_of(const op_args *a)
{
    ms_attn attn = { .scale   = variants[a->c.variant].sharpness / sqrt((double)a->c.n),
                     .softcap = variants[a->c.variant].softcap,
                     .window  = variants[a->c.variant].window,
                     .doc     = a->ids[0].ids };
    if (a->c.fused) measure_docs(&a->c, &attn.docs, &attn.longest);
    return attn;
}

static double visible_pairs(const op_case *c)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->m; i++)
        n += i - first_key(c, i) + 1;
    return (double)n;
}

/* Two products, of queries with keys and of weights with values; five in the backward pass, which
 * repeats the first. */
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
    op_wide(op_add_mat(a, OP_OUT, 1, a->c.m))->aside = true;
    op_add_vec(a, OP_INOUT)->aside = true; /* some are above any logit, some are not */
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
    op_wide(op_add_mat(a, OP_IN, 1, a->c.m));
    add_head(a, OP_IN);
    for (int i = DQ; i <= DV; i++)
        add_head(a, OP_OUT);
    op_add_ids(a, a->c.m, doc_at);
}

/* Rounds to the operand's dtype, so that all devices get the same numbers. */
static void round_values(ms_mat x, musec_dtype dtype)
{
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < x.rows; i++)
            for (int64_t j = 0; j < x.cols; j++)
                ms_put(x, b, i, j, op_rounded(ms_at(x, b, i, j), dtype));
}

/* Computes out and lse from q, k and v by `ref`.  Timed cases do not need them. */
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
    round_values(x[LSE], ms_dtype_accum(a->c.dtype));
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

/* The softmax of the logits of one query, and the size of their errors. */
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
    double        max  = (double)-INFINITY, size;
    q->first           = first_key(&a->c, i);
    q->last            = i;
    q->largest         = 0.0;
    for (int64_t j = q->first; j <= i; j++) {
        const double raw = attn.scale * dot(a->mat[Q].mat, i, a->mat[K].mat, j, h, &size);
        q->p[j]          = attn.softcap > 0.0 ? attn.softcap * tanh(raw / attn.softcap) : raw;
        q->largest       = fmax(q->largest, fabs(attn.scale) * size);
        max              = fmax(max, q->p[j]);
    }
    assert(q->first <= i); /* a query sees itself */
    double sum = exp(q->p[i] - max);
    for (int64_t j = q->first; j < i; j++)
        sum += exp(q->p[j] - max);
    q->lse = max + log(sum);
    for (int64_t j = q->first; j <= i; j++)
        q->p[j] = exp(q->p[j] - q->lse);
}

static query query_room(const op_args *a)
{
    query q = { .p = malloc((size_t)a->c.m * sizeof *q.p) };
    if (q.p == NULL) abort(); /* only tests call this */
    return q;
}

/* Terms of the bounds, as described at the top. */
typedef struct errors {
    double eps, tiny;        /* of the arithmetic */
    double stored, absolute; /* of operands of 16 bits, or 0 */
} errors;

static errors errors_of(const op_args *a)
{
    const musec_dtype wide = ms_dtype_accum(a->c.dtype);
    errors            e    = { .eps = ms_dtype_eps(wide), .tiny = ms_dtype_tiny(wide) };
    if (op_is_half(a->c.dtype)) {
        e.stored   = 1.5 * ms_dtype_eps(a->c.dtype); /* 3 u16 */
        e.absolute = ms_dtype_eps(a->c.dtype) * ms_dtype_tiny(a->c.dtype);
    }
    return e;
}

/* The error of a weight p whose exponent has an error of c eps. */
static double weight_error(const errors *e, double p, double c)
{
    return p * (expm1(c * e->eps) + e->stored) + e->tiny + e->absolute;
}

void op_attention_size(op_args *a)
{
    const double head = (double)a->c.n;
    const errors e    = errors_of(a);
    const ms_mat v    = a->mat[V].mat;
    query        q    = query_room(a);
    for (int64_t h = 0; h < a->c.count; h++) {
        double largest = 0.0;
        for (int64_t i = 0; i < a->c.m; i++) {
            look(a, h, i, &q);
            const double known = (head + 6.0) * q.largest + (double)(q.last - q.first + 1) + 8.0;
            for (int64_t l = 0; l < v.cols; l++) {
                double sum = e.absolute; /* of out itself */
                for (int64_t j = q.first; j <= q.last; j++)
                    sum += weight_error(&e, q.p[j], known) * fabs(ms_at(v, h, j, l));
                ms_put(a->mat[OUT].mat, h, i, l, sum);
            }
            ms_put(a->mat[LSE].mat, h, 0, i, e.eps * (known + fabs(q.lse)));
            largest = fmax(largest, q.largest);
        }
        a->vec[0].vec.data[h] = e.eps * (1.0 + (head + 2.0) * largest);
    }
    free(q.p);
}

static void add_size(double factor, ms_mat x, int64_t i, ms_mat out, int64_t j, int64_t h)
{
    for (int64_t l = 0; l < x.cols; l++)
        ms_put(out, h, j, l, ms_at(out, h, j, l) + factor * fabs(ms_at(x, h, i, l)));
}

/* dlogit = scale slope p (<dout, v> - <dout, out>).  p is computed from the given lse, which adds
 * |lse| u; the dots cost head u; the slope 1 - tanh^2 is at most 1 and changes less than the logit;
 * then come sums over up to all rows.  dS may be stored with the scale or without. */
void op_attention_grad_size(op_args *a)
{
    const double head = (double)a->c.n, scale = fabs(attn_of(a).scale);
    const errors e    = errors_of(a);
    const ms_mat dout = a->mat[DOUT].mat;
    query        q    = query_room(a);
    for (int i = DQ; i <= DV; i++)
        (void)a->d->ops->fill(a->d, e.absolute, a->mat[i].mat);
    for (int64_t h = 0; h < a->c.count; h++)
        for (int64_t i = 0; i < a->c.m; i++) {
            double with_out, with_v;
            look(a, h, i, &q);
            const double known =
                (head + 6.0) * q.largest + fabs(q.lse) + head + (double)a->c.m + 16.0;
            (void)dot(dout, i, a->mat[OUT].mat, i, h, &with_out);
            for (int64_t j = q.first; j <= q.last; j++) {
                const double p = weight_error(&e, q.p[j], known);
                (void)dot(dout, i, a->mat[V].mat, j, h, &with_v);
                const double ds = scale * p * (with_v + with_out) + (1.0 + scale) * e.absolute;
                add_size(ds, a->mat[K].mat, j, a->mat[DQ].mat, i, h);
                add_size(ds, a->mat[Q].mat, i, a->mat[DK].mat, j, h);
                add_size(p, dout, i, a->mat[DV].mat, j, h);
            }
        }
    free(q.p);
}
