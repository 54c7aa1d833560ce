/* ref_nn.c - the network ops in plain loops: this file defines them (see ref.c).
 *
 * Gradients are those of the formulas in device.h.  With y = x r, r = (mean(x^2) + eps)^(-1/2):
 *     dx = r (dy - y mean(dy y)).
 * With p the softmax of a row, o = sum_j p_j v_j and D = <do, o>:
 *     dlogit_j = p_j (<do, v_j> - D),  dv_j += p_j do,
 * and, under a soft cap c, dlogit_j times 1 - tanh^2. */
#include <assert.h>
#include <math.h>

#include "device/cpu/ref.h"
#include "device/unary.h"

/* Every op is given a device, of which plain loops need nothing. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* 1 - logistic(x) is written logistic(-x), which does not cancel. */
static double logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

static bool is_like(ms_mat x, ms_mat y)
{
    return x.rows == y.rows && x.cols == y.cols && x.count == y.count && x.dtype == y.dtype &&
           !x.trans && !y.trans;
}

static bool is_one(ms_mat x, int64_t rows, int64_t cols, musec_dtype dtype)
{
    return x.rows == rows && x.cols == cols && x.count == 1 && x.dtype == dtype && !x.trans;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static musec_status ref_embed(ms_device *d, ms_ids ids, ms_mat table, ms_mat out)
{
    assert(is_one(table, table.rows, out.cols, out.dtype));
    assert(is_one(out, ids.count, out.cols, out.dtype));
    for (int64_t i = 0; i < out.rows; i++) {
        assert(ids.data[i] >= 0 && ids.data[i] < table.rows);
        for (int64_t j = 0; j < out.cols; j++)
            ms_put(out, 0, i, j, ms_at(table, 0, ids.data[i], j));
    }
    return MUSEC_OK;
}

static musec_status ref_embed_grad(ms_device *d, ms_ids ids, ms_mat dout, ms_mat dtable)
{
    assert(is_one(dout, ids.count, dout.cols, dout.dtype));
    assert(is_one(dtable, dtable.rows, dout.cols, ms_dtype_accum(dout.dtype)));
    for (int64_t i = 0; i < dout.rows; i++) {
        const int64_t id = ids.data[i];
        assert(id >= 0 && id < dtable.rows);
        for (int64_t j = 0; j < dout.cols; j++)
            ms_put(dtable, 0, id, j, ms_at(dtable, 0, id, j) + ms_at(dout, 0, i, j));
    }
    return MUSEC_OK;
}

static double inverse_rms(ms_mat x, int64_t b, int64_t i, double eps)
{
    double sum = 0.0;
    for (int64_t j = 0; j < x.cols; j++)
        sum += ms_at(x, b, i, j) * ms_at(x, b, i, j);
    return 1.0 / sqrt(sum / (double)x.cols + eps);
}

static musec_status ref_rmsnorm(ms_device *d, double eps, ms_mat x, ms_mat out)
{
    assert(eps >= 0.0 && is_like(x, out));
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < x.rows; i++) {
            const double r = inverse_rms(x, b, i, eps);
            for (int64_t j = 0; j < x.cols; j++)
                ms_put(out, b, i, j, r * ms_at(x, b, i, j));
        }
    return MUSEC_OK;
}

static musec_status ref_rmsnorm_grad(ms_device *d, double eps, ms_mat x, ms_mat dout, double beta,
                                     ms_mat dx)
{
    assert(eps >= 0.0 && is_like(x, dout) && is_like(x, dx));
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < x.rows; i++) {
            const double r     = inverse_rms(x, b, i, eps);
            double       along = 0.0; /* mean(dy y) */
            for (int64_t j = 0; j < x.cols; j++)
                along += ms_at(dout, b, i, j) * r * ms_at(x, b, i, j) / (double)x.cols;
            for (int64_t j = 0; j < x.cols; j++) {
                const double kept = beta == 0.0 ? 0.0 : beta * ms_at(dx, b, i, j);
                ms_put(dx, b, i, j,
                       kept + r * (ms_at(dout, b, i, j) - r * ms_at(x, b, i, j) * along));
            }
        }
    return MUSEC_OK;
}

/* Finds the columns of pair j. */
static void pair_of(const ms_rope *r, int64_t cols, int64_t j, int64_t *first, int64_t *second)
{
    *first  = r->adjacent ? 2 * j : j;
    *second = r->adjacent ? 2 * j + 1 : j + cols / 2;
}

/* Rotates row i of x, times `factor`, into out; sign -1 applies the inverse rotation. */
static void rotate_row(const ms_rope *r, double sign, double factor, ms_mat x, int64_t b, int64_t i,
                       ms_mat out)
{
    int64_t first, second;
    for (int64_t j = 0; j < x.cols / 2; j++) {
        pair_of(r, x.cols, j, &first, &second);
        const bool   rotates = j < r->cos.cols;
        const double c       = rotates ? ms_at(r->cos, 0, i, j) : 1.0;
        const double s       = rotates ? sign * ms_at(r->sin, 0, i, j) : 0.0;
        const double p = factor * ms_at(x, b, i, first), q = factor * ms_at(x, b, i, second);
        ms_put(out, b, i, first, p * c + q * s);
        ms_put(out, b, i, second, q * c - p * s);
    }
}

static bool is_rope(const ms_rope *r, ms_mat x)
{
    return x.cols % 2 == 0 && r->cos.cols <= x.cols / 2 && r->cos.rows >= x.rows &&
           is_like(r->cos, r->sin) && r->cos.count == 1 && r->cos.dtype == ms_dtype_accum(x.dtype);
}

static musec_status ref_rope(ms_device *d, ms_rope r, ms_mat x, ms_mat out)
{
    assert(is_rope(&r, x) && is_like(x, out));
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < x.rows; i++) {
            const double factor = r.norm_eps >= 0.0 ? inverse_rms(x, b, i, r.norm_eps) : 1.0;
            rotate_row(&r, 1.0, factor, x, b, i, out);
        }
    return MUSEC_OK;
}

static musec_status ref_rope_grad(ms_device *d, ms_rope r, ms_mat x, ms_mat dout, ms_mat dx)
{
    assert(is_rope(&r, x) && is_like(x, dout) && is_like(x, dx));
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < x.rows; i++)
            rotate_row(&r, -1.0, 1.0, dout, b, i, dx);
    return r.norm_eps >= 0.0 ? ref_rmsnorm_grad(d, r.norm_eps, x, dx, 0.0, dx) : MUSEC_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

MS_UNARY_FNS(double, ref, ms_logistic_f64)

static musec_status ref_unary(ms_device *d, ms_unary f, ms_mat x, ms_mat out)
{
    assert(is_like(x, out));
    foreach (x) {
        const double v = ms_at(x, b, i, j);
        switch (f) {
#define X(NAME, name) \
    case MS_UNARY_##NAME: ms_put(out, b, i, j, ms_##name##_ref(v)); break;
            MS_UNARY_MAP(X)
#undef X
        }
    }
    return MUSEC_OK;
}

static musec_status ref_unary_grad(ms_device *d, ms_unary f, ms_mat x, ms_mat dout, ms_mat dx)
{
    assert(is_like(x, dout) && is_like(x, dx));
    foreach (x) {
        const double v = ms_at(x, b, i, j), dy = ms_at(dout, b, i, j);
        switch (f) {
#define X(NAME, name) \
    case MS_UNARY_##NAME: ms_put(dx, b, i, j, ms_##name##_grad_ref(v, dy)); break;
            MS_UNARY_MAP(X)
#undef X
        }
    }
    return MUSEC_OK;
}

/* Rounds to the nearest number of the dtype. */
static double as_stored(musec_dtype dtype, double value)
{
    switch (dtype) {
    case MUSEC_F32: return (double)(float)value;
    case MUSEC_BF16: return (double)ms_float_of_bf16(ms_bf16_of_double(value));
    case MUSEC_F16: return (double)ms_float_of_f16(ms_f16_of_double(value));
    default: return value;
    }
}

static musec_status ref_relu2_grad_from_out(ms_device *d, ms_mat out, ms_mat dout, ms_mat dx)
{
    assert(is_like(out, dout) && is_like(out, dx));
    foreach (out) {
        const double v = ms_at(out, b, i, j), r = as_stored(out.dtype, sqrt(v));
        ms_put(dx, b, i, j, v > 0.0 || isnan(v) ? 2.0 * r * ms_at(dout, b, i, j) : 0.0);
    }
    return MUSEC_OK;
}

static musec_status ref_gate(ms_device *d, ms_mat s, ms_mat y, ms_mat out)
{
    assert(is_one(s, y.rows, y.count, y.dtype) && is_like(y, out));
    for (int64_t h = 0; h < y.count; h++)
        for (int64_t i = 0; i < y.rows; i++) {
            const double g = logistic(ms_at(s, 0, i, h));
            for (int64_t j = 0; j < y.cols; j++)
                ms_put(out, h, i, j, g * ms_at(y, h, i, j));
        }
    return MUSEC_OK;
}

static musec_status ref_gate_grad(ms_device *d, ms_mat s, ms_mat y, ms_mat dout, ms_mat dy,
                                  ms_mat ds)
{
    assert(is_one(s, y.rows, y.count, y.dtype) && is_like(s, ds));
    assert(is_like(y, dout) && is_like(y, dy));
    for (int64_t h = 0; h < y.count; h++)
        for (int64_t i = 0; i < y.rows; i++) {
            const double g   = logistic(ms_at(s, 0, i, h));
            double       sum = 0.0;
            for (int64_t j = 0; j < y.cols; j++) {
                sum += ms_at(dout, h, i, j) * ms_at(y, h, i, j);
                ms_put(dy, h, i, j, g * ms_at(dout, h, i, j));
            }
            ms_put(ds, 0, i, h, g * logistic(-ms_at(s, 0, i, h)) * sum);
        }
    return MUSEC_OK;
}

static musec_status ref_mix(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat out)
{
    assert(is_one(w, 1, 2, ms_dtype_accum(x.dtype)) && x.count == 1 && is_like(x, y) &&
           is_like(x, out));
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++)
            ms_put(out, 0, i, j,
                   ms_at(w, 0, 0, 0) * ms_at(x, 0, i, j) + ms_at(w, 0, 0, 1) * ms_at(y, 0, i, j));
    return MUSEC_OK;
}

static musec_status ref_mix_grad(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat dout, ms_mat dx,
                                 ms_mat dy, ms_mat dw)
{
    double with_x = 0.0, with_y = 0.0;
    assert(is_one(w, 1, 2, ms_dtype_accum(x.dtype)) && is_like(w, dw) && x.count == 1 &&
           is_like(x, y));
    assert(is_like(x, dout) && is_like(x, dx) && is_like(x, dy));
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++) {
            const double g = ms_at(dout, 0, i, j);
            with_x += g * ms_at(x, 0, i, j);
            with_y += g * ms_at(y, 0, i, j);
            ms_put(dx, 0, i, j, ms_at(w, 0, 0, 0) * g);
            ms_put(dy, 0, i, j, ms_at(dy, 0, i, j) + ms_at(w, 0, 0, 1) * g);
        }
    ms_put(dw, 0, 0, 0, ms_at(dw, 0, 0, 0) + with_x);
    ms_put(dw, 0, 0, 1, ms_at(dw, 0, 0, 1) + with_y);
    return MUSEC_OK;
}

static double coef_at(ms_mat coef, int64_t b, int64_t i)
{
    return coef.data == NULL ? 1.0 : ms_at(coef, 0, coef.rows == 1 ? 0 : i, b);
}

static bool is_term(const ms_blend_term *t, ms_mat out)
{
    const ms_mat c = t->coef;
    return is_like(t->x, out) && (c.data == NULL || is_one(c, c.rows == 1 ? 1 : out.rows, out.count,
                                                           ms_dtype_accum(out.dtype)));
}

static musec_status ref_blend(ms_device *d, const ms_blend_term *terms, int n, ms_mat out)
{
    assert(n >= 1 && n <= MS_BLEND_TERMS);
    for (int k = 0; k < n; k++)
        assert(is_term(&terms[k], out));
    foreach (out) {
        double sum = 0.0;
        for (int k = 0; k < n; k++)
            sum += coef_at(terms[k].coef, b, i) * ms_at(terms[k].x, b, i, j);
        ms_put(out, b, i, j, sum);
    }
    return MUSEC_OK;
}

static void blend_grad_term(const ms_blend_term *t, const ms_blend_grad *g, ms_mat dout, int64_t b,
                            int64_t i)
{
    const double c   = coef_at(t->coef, b, i);
    double       sum = 0.0;
    for (int64_t j = 0; j < dout.cols; j++) {
        const double dy = ms_at(dout, b, i, j);
        if (g->dcoef.data != NULL) sum += dy * ms_at(t->x, b, i, j);
        if (g->dx.data != NULL)
            ms_put(g->dx, b, i, j, (g->adds ? ms_at(g->dx, b, i, j) : 0.0) + c * dy);
    }
    if (g->dcoef.data != NULL) ms_put(g->dcoef, 0, i, b, sum);
}

static musec_status ref_blend_grad(ms_device *d, const ms_blend_term *terms,
                                   const ms_blend_grad *grads, int n, ms_mat dout)
{
    assert(n >= 1 && n <= MS_BLEND_TERMS);
    for (int k = 0; k < n; k++) {
        assert(is_term(&terms[k], dout));
        assert(grads[k].dx.data == NULL || is_like(grads[k].dx, dout));
        assert(grads[k].dcoef.data == NULL ||
               is_one(grads[k].dcoef, dout.rows, dout.count, ms_dtype_accum(dout.dtype)));
    }
    for (int64_t b = 0; b < dout.count; b++)
        for (int64_t i = 0; i < dout.rows; i++)
            for (int k = 0; k < n; k++)
                blend_grad_term(&terms[k], &grads[k], dout, b, i);
    return MUSEC_OK;
}

static musec_status ref_multiply(ms_device *d, ms_mat x, ms_mat y, ms_mat out)
{
    assert(is_like(x, y) && is_like(x, out));
    foreach (x)
        ms_put(out, b, i, j, ms_at(x, b, i, j) * ms_at(y, b, i, j));
    return MUSEC_OK;
}

static double row_dot(ms_mat x, ms_mat y, int64_t b, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; j < x.cols; j++)
        sum += ms_at(x, b, i, j) * ms_at(y, b, i, j);
    return sum;
}

static bool is_exclude(ms_mat alpha, ms_mat y, ms_mat v)
{
    return is_one(alpha, 1, y.count, ms_dtype_accum(y.dtype)) && is_like(y, v);
}

static musec_status ref_exclude(ms_device *d, ms_mat alpha, ms_mat y, ms_mat v, ms_mat out)
{
    assert(is_exclude(alpha, y, v) && is_like(y, out));
    for (int64_t b = 0; b < y.count; b++)
        for (int64_t i = 0; i < y.rows; i++) {
            const double n2 = fmax(row_dot(v, v, b, i), MS_EXCLUDE_MIN * MS_EXCLUDE_MIN);
            const double by = tanh(ms_at(alpha, 0, 0, b)) * row_dot(y, v, b, i) / n2;
            for (int64_t j = 0; j < y.cols; j++)
                ms_put(out, b, i, j, ms_at(y, b, i, j) - by * ms_at(v, b, i, j));
        }
    return MUSEC_OK;
}

static musec_status ref_exclude_grad(ms_device *d, ms_mat alpha, ms_mat y, ms_mat v, ms_mat dout,
                                     ms_mat dy, ms_mat dv, ms_mat dalpha)
{
    assert(is_exclude(alpha, y, v) && is_like(y, dout) && is_like(y, dy) && is_like(y, dv));
    assert(is_one(dalpha, y.rows, y.count, alpha.dtype));
    for (int64_t b = 0; b < y.count; b++)
        for (int64_t i = 0; i < y.rows; i++) {
            const double vv = row_dot(v, v, b, i), t = tanh(ms_at(alpha, 0, 0, b));
            const double n2 = fmax(vv, MS_EXCLUDE_MIN * MS_EXCLUDE_MIN);
            const double p = row_dot(y, v, b, i) / n2, q = row_dot(dout, v, b, i) / n2;
            const double with_v = vv == n2 ? 2.0 * p * q : 0.0;
            for (int64_t j = 0; j < y.cols; j++) {
                const double g = ms_at(dout, b, i, j), at = ms_at(v, b, i, j);
                ms_put(dv, b, i, j, -t * (p * g + q * ms_at(y, b, i, j) - with_v * at));
                ms_put(dy, b, i, j, g - t * q * at);
            }
            ms_put(dalpha, 0, i, b, -(1.0 - t * t) * p * q * n2);
        }
    return MUSEC_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

static double dot(ms_mat x, int64_t i, ms_mat y, int64_t j, int64_t h)
{
    double sum = 0.0;
    for (int64_t l = 0; l < x.cols; l++)
        sum += ms_at(x, h, i, l) * ms_at(y, h, j, l);
    return sum;
}

static double capped(const ms_attn *a, double logit)
{
    return a->softcap > 0.0 ? a->softcap * tanh(logit / a->softcap) : logit;
}

static int64_t first_key(const ms_attn *a, int64_t i)
{
    return ms_max_i64(a->doc.data[i], i - a->window);
}

static bool is_attention(const ms_attn *a, ms_mat q, ms_mat k, ms_mat v, ms_mat out, ms_mat lse)
{
    for (int64_t i = 0; i < q.rows; i++)
        if (a->doc.data[i] > i || a->doc.data[i] < (i == 0 ? 0 : a->doc.data[i - 1])) return false;
    return a->window >= 0 && a->softcap >= 0.0 && a->doc.count == q.rows && is_like(q, k) &&
           is_like(q, v) && is_like(q, out) && lse.rows == 1 && lse.cols == q.rows &&
           lse.count == q.count && lse.dtype == ms_dtype_accum(q.dtype) && !lse.trans;
}

/* One pass over the keys (online softmax): m is the largest logit so far, and the sums relative to
 * it are rescaled when it changes.  row: (head), workspace */
static void attend(const ms_attn *a, ms_mat q, ms_mat k, ms_mat v, int64_t h, int64_t i,
                   double *row, double *max_logit, ms_mat out, ms_mat lse)
{
    double m = -INFINITY, sum = 0.0;
    for (int64_t l = 0; l < v.cols; l++)
        row[l] = 0.0;
    for (int64_t j = first_key(a, i); j <= i; j++) {
        const double raw = a->scale * dot(q, i, k, j, h), z = capped(a, raw);
        const double old = z > m ? exp(m - z) : 1.0;
        if (z > m || isnan(z)) m = z;
        const double p = exp(z - m);
        if (raw > *max_logit || isnan(raw)) *max_logit = raw;
        sum = old * sum + p;
        for (int64_t l = 0; l < v.cols; l++)
            row[l] = old * row[l] + p * ms_at(v, h, j, l);
    }
    for (int64_t l = 0; l < v.cols; l++)
        ms_put(out, h, i, l, row[l] / sum);
    ms_put(lse, h, 0, i, m + log(sum));
}

static musec_status ref_attention(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v, ms_mat out,
                                  ms_mat lse, ms_vec max_logit)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_vec        row;
    musec_status  st;
    assert(is_attention(&a, q, k, v, out, lse) && max_logit.count == q.count);
    TRY(ms_scratch_vec(d, v.cols, &row));
    for (int64_t h = 0; h < q.count; h++)
        for (int64_t i = 0; i < q.rows; i++)
            attend(&a, q, k, v, h, i, row.data, &max_logit.data[h], out, lse);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Adds factor times row i of head h of x to row j of out. */
static void add_row(double factor, ms_mat x, int64_t h, int64_t i, ms_mat out, int64_t j)
{
    for (int64_t l = 0; l < x.cols; l++)
        ms_put(out, 0, j, l, ms_at(out, 0, j, l) + factor * ms_at(x, h, i, l));
}

static void copy_head(ms_mat out, int64_t h, const ms_mat *from) /* from NULL: zeros */
{
    for (int64_t i = 0; i < out.rows; i++)
        for (int64_t j = 0; j < out.cols; j++)
            ms_put(out, h, i, j, from == NULL ? 0.0 : ms_at(*from, 0, i, j));
}

/* Accumulates in float64, one head at a time. */
static musec_status ref_attention_grad(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v,
                                       ms_mat out, ms_mat lse, ms_mat dout, ms_mat dq, ms_mat dk,
                                       ms_mat dv)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const ms_mat  to[] = { dq, dk, dv };
    ms_mat        sum[3];
    musec_status  st = MUSEC_OK;
    assert(is_attention(&a, q, k, v, out, lse) && is_like(q, dout));
    assert(is_like(q, dq) && is_like(q, dk) && is_like(q, dv));
    for (int s = 0; s < 3; s++)
        TRY(ms_scratch_mat(d, MUSEC_F64, 1, q.rows, q.cols, &sum[s]));
    for (int64_t h = 0; h < q.count; h++) {
        for (int s = 0; s < 3; s++)
            copy_head(sum[s], 0, NULL);
        for (int64_t i = 0; i < q.rows; i++) {
            const double delta = dot(dout, i, out, i, h);
            for (int64_t j = first_key(&a, i); j <= i; j++) {
                const double z     = capped(&a, a.scale * dot(q, i, k, j, h));
                const double slope = a.softcap > 0.0 ? 1.0 - z / a.softcap * (z / a.softcap) : 1.0;
                const double p     = exp(z - ms_at(lse, h, 0, i));
                const double dz    = a.scale * slope * p * (dot(dout, i, v, j, h) - delta);
                add_row(dz, k, h, j, sum[0], i);
                add_row(dz, q, h, i, sum[1], j);
                add_row(p, dout, h, i, sum[2], j);
            }
        }
        for (int s = 0; s < 3; s++)
            copy_head(to[s], h, &sum[s]);
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- loss ------------------------------------------------------------------------------------ */

/* Returns z of a raw logit, and dz / draw in *slope. */
static double cap(const ms_xent *x, double raw, double *slope)
{
    if (x->cap == MS_CAP_TANH) {
        const double t = tanh(raw / x->cap_scale);
        *slope         = 1.0 - t * t;
        return x->cap_scale * t;
    }
    if (x->cap == MS_CAP_SIGMOID) {
        const double at = (raw + x->cap_shift) / x->cap_width;
        *slope          = x->cap_scale / x->cap_width * logistic(at) * logistic(-at);
        return x->cap_scale * logistic(at);
    }
    *slope = 1.0;
    return raw;
}

/* Adds the loss of row i of the chunk, and replaces its logits with the gradient. */
static void row_loss(const ms_xent *x, ms_mat logits, int64_t i, double *loss)
{
    const int64_t t   = x->first + i;
    double        max = -INFINITY, total = 0.0, slope;
    int           n = 0; /* targets of the row */
    for (int64_t j = 0; j < logits.cols; j++) {
        const double z = cap(x, ms_at(logits, 0, i, j), &slope);
        if (z > max || isnan(z)) max = z;
    }
    double sum = exp(cap(x, ms_at(logits, 0, i, 0), &slope) - max);
    for (int64_t j = 1; j < logits.cols; j++)
        sum += exp(cap(x, ms_at(logits, 0, i, j), &slope) - max);
    const double lse = max + log(sum);
    for (; n < x->n_weights && t + n < x->targets.count; n++) {
        const int64_t target = x->targets.data[t + n];
        assert(target >= 0 && target < logits.cols);
        const double l = lse - cap(x, ms_at(logits, 0, i, target), &slope);
        loss[0] += x->weights[n] * l;
        if (n == 0) loss[1] += l;
        total += x->weights[n];
    }
    for (int64_t j = 0; j < logits.cols && x->grad_scale != 0.0; j++) {
        const double z  = cap(x, ms_at(logits, 0, i, j), &slope);
        double       dz = total * exp(z - lse);
        for (int k = 0; k < n; k++)
            if (x->targets.data[t + k] == j) dz -= x->weights[k];
        ms_put(logits, 0, i, j, x->grad_scale * slope * dz);
    }
}

static musec_status ref_xent(ms_device *d, ms_xent x, ms_mat logits, ms_vec loss)
{
    assert(is_one(logits, logits.rows, logits.cols, logits.dtype) && loss.count == 2);
    assert(x.n_weights >= 1 && x.n_weights <= MS_XENT_TARGETS);
    assert(x.first >= 0 && x.first + logits.rows <= x.targets.count);
    assert(logits.cols >= 1 && (x.cap == MS_CAP_NONE || x.cap_scale > 0.0));
    assert(x.cap != MS_CAP_SIGMOID || x.cap_width > 0.0);
    for (int64_t i = 0; i < logits.rows; i++)
        row_loss(&x, logits, i, loss.data);
    return MUSEC_OK;
}

void ms_ref_nn_ops(ms_device_ops *table)
{
    table->embed               = ref_embed;
    table->embed_grad          = ref_embed_grad;
    table->rmsnorm             = ref_rmsnorm;
    table->rmsnorm_grad        = ref_rmsnorm_grad;
    table->rope                = ref_rope;
    table->rope_grad           = ref_rope_grad;
    table->unary               = ref_unary;
    table->unary_grad          = ref_unary_grad;
    table->relu2_grad_from_out = ref_relu2_grad_from_out;
    table->attention           = ref_attention;
    table->attention_grad      = ref_attention_grad;
    table->gate                = ref_gate;
    table->gate_grad           = ref_gate_grad;
    table->mix                 = ref_mix;
    table->mix_grad            = ref_mix_grad;
    table->blend               = ref_blend;
    table->blend_grad          = ref_blend_grad;
    table->multiply            = ref_multiply;
    table->exclude             = ref_exclude;
    table->exclude_grad        = ref_exclude_grad;
    table->xent                = ref_xent;
}
