/* ref.c - every op in plain loops: this file, ref_svd.c and ref_nn.c define the ops.
 *
 * Elements are read as float64, all arithmetic is float64, and only the store rounds.  Nothing is
 * blocked, unrolled or run in parallel; any layout is read through ms_at and written through
 * ms_put. A faster device is right if it agrees with these loops within the bounds of
 * device_ops_test.c. */
#include "device/cpu/ref.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/half.h"
#include "core/halves.h"
#include "core/stochastic_round.h"
#include MS_SCALAR_PROGRAMS

/* Every op is given a device, of which plain loops need nothing. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static int64_t diagonal(ms_mat x) { return x.rows < x.cols ? x.rows : x.cols; }

/* ---- memory and queue ------------------------------------------------------------------------ */

enum { ALIGN = 64 };

static musec_status ref_alloc(ms_device *d, size_t bytes, void **out)
{
    *out = NULL; /* aligned_alloc wants a multiple of the alignment; 0 bytes still get an address */
    if (bytes <= PTRDIFF_MAX - ALIGN) *out = aligned_alloc(ALIGN, bytes / ALIGN * ALIGN + ALIGN);
    if (*out == NULL)
        return ms_fail(&d->error, MUSEC_ENOMEM, "%zu bytes could not be allocated", bytes);
    return MUSEC_OK;
}

static void ref_free(ms_device *d, void *p) { free(p); }

static musec_status ref_upload(ms_device *d, const void *host, size_t bytes, void *device)
{
    memcpy(device, host, bytes);
    return MUSEC_OK;
}

static musec_status ref_download(ms_device *d, const void *device, size_t bytes, void *host)
{
    memcpy(host, device, bytes);
    return MUSEC_OK;
}

static musec_status ref_sync(ms_device *d) { return MUSEC_OK; }

static musec_status ref_now_ms(ms_device *d, double *ms)
{
    *ms = ms_clock_ms();
    return MUSEC_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

static double product_at(ms_mat a, ms_mat x, int64_t b, int64_t i, int64_t j)
{
    double sum = 0.0;
    for (int64_t l = 0; l < a.cols; l++)
        sum += ms_at(a, b, i, l) * ms_at(x, b, l, j);
    return sum;
}

static musec_status ref_gemm(ms_device *d, double alpha, ms_mat a, ms_mat x, double beta, ms_mat c)
{
    assert(a.cols == x.rows && c.rows == a.rows && c.cols == x.cols);
    foreach (c) {
        const double kept = beta == 0.0 ? 0.0 : beta * ms_at(c, b, i, j);
        ms_put(c, b, i, j, alpha * product_at(a, x, b, i, j) + kept);
    }
    return MUSEC_OK;
}

static musec_status ref_product(ms_device *d, const ms_product *p)
{
    const ms_mat c = p->c;
    assert(p->a.cols == p->b.rows && c.rows == p->a.rows && c.cols == p->b.cols);
    assert(!p->symmetric || c.rows == c.cols);
    for (int64_t b = 0; b < c.count; b++) {
        const double alpha = ms_num_at(p->alpha, b), diag = ms_num_at(p->diag, b);
        const double beta  = p->source.data == NULL ? 0.0 : ms_num_at(p->beta, b);
        double       sumsq = 0.0, trace = 0.0;
        if (!ms_is_active(p->mask, b)) continue;
        for (int64_t i = 0; i < c.rows; i++) {
            for (int64_t j = 0; j < (p->symmetric ? i + 1 : c.cols); j++) {
                double value = alpha * product_at(p->a, p->b, b, i, j);
                if (beta != 0.0) value += beta * ms_at(p->source, b, i, j);
                if (i == j) value += diag;
                ms_put(c, b, i, j, value);
                if (p->symmetric) ms_put(c, b, j, i, value);
                sumsq += (p->symmetric && i != j ? 2.0 : 1.0) * value * value;
                if (i == j) trace += value;
            }
        }
        if (p->sumsq.data != NULL) p->sumsq.data[b] = sumsq;
        if (p->trace.data != NULL) p->trace.data[b] = trace;
    }
    return MUSEC_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

static musec_status ref_copy(ms_device *d, ms_mat x, ms_mat out)
{
    assert(x.rows == out.rows && x.cols == out.cols && x.count == out.count);
    const size_t bytes = ms_dtype_bytes(x.dtype);
    foreach (out) {
        if (x.dtype != out.dtype)
            ms_put(out, b, i, j, ms_at(x, b, i, j));
        else /* bytes, so that even a signalling NaN keeps its bits */
            memmove(ms_mat_address(out, b, i, j), ms_mat_address(x, b, i, j), bytes);
    }
    return MUSEC_OK;
}

static musec_status ref_fill(ms_device *d, double value, ms_mat out)
{
    foreach (out)
        ms_put(out, b, i, j, value);
    return MUSEC_OK;
}

static musec_status ref_add_diag(ms_device *d, ms_num value, ms_mat x)
{
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < diagonal(x); i++)
            ms_put(x, b, i, i, ms_at(x, b, i, i) + ms_num_at(value, b));
    return MUSEC_OK;
}

static musec_status ref_scale(ms_device *d, ms_num factor, ms_mat x)
{
    foreach (x) {
        const double f = ms_num_at(factor, b);
        if (f != 1.0) ms_put(x, b, i, j, f * ms_at(x, b, i, j));
    }
    return MUSEC_OK;
}

static musec_status ref_axpby(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y)
{
    assert(x.rows == y.rows && x.cols == y.cols);
    foreach (y) {
        const double keep = ms_num_at(beta, b);
        const double kept = keep == 0.0 ? 0.0 : keep * ms_at(y, b, i, j);
        ms_put(y, b, i, j, ms_num_at(alpha, b) * ms_at(x, b, i, j) + kept);
    }
    return MUSEC_OK;
}

static musec_status ref_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms, int n_terms)
{
    assert(n_terms >= 1 && n_terms <= 4);
    foreach (terms[0].out) {
        const double xv = x.data != NULL ? ms_at(x, b, i, j) : 0.0;
        const double yv = y.data != NULL ? ms_at(y, b, i, j) : 0.0;
        for (int t = 0; t < n_terms; t++) { /* after x and y were read: an out may lie on them */
            if (!ms_is_active(terms[t].mask, b)) continue;
            double value = i == j ? ms_num_at(terms[t].diag, b) : 0.0;
            if (x.data != NULL) value += ms_num_at(terms[t].x_coef, b) * xv;
            if (y.data != NULL) value += ms_num_at(terms[t].y_coef, b) * yv;
            ms_put(terms[t].out, b, i, j, value);
        }
    }
    return MUSEC_OK;
}

/* Calls the rows of the device's table, so that any device without a faster one can use it. */
static musec_status ref_average(ms_device *d, ms_num x_coef, ms_mat x, ms_num y_coef, ms_mat y,
                                ms_mat out, ms_vec absmax)
{
    const ms_term term = { .x_coef = x_coef, .y_coef = y_coef, .out = out };
    musec_status  st   = MUSEC_OK;
    TRY(d->ops->absmax(d, y, absmax));
    TRY(d->ops->combine(d, x, y, &term, 1));
done:
    return st;
}

static musec_status ref_scale_rows(ms_device *d, ms_mat v, ms_mat x)
{
    assert(v.rows == 1 && v.cols == x.rows);
    foreach (x)
        ms_put(x, b, i, j, ms_at(v, b, 0, i) * ms_at(x, b, i, j));
    return MUSEC_OK;
}

static musec_status ref_prescale(ms_device *d, ms_mat x, ms_vec factor, ms_mat buffer,
                                 ms_mat *scaled)
{
    foreach (x)
        ms_put(buffer, b, i, j, factor.data[b] * ms_at(x, b, i, j));
    *scaled = buffer;
    return MUSEC_OK;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* x <- beta x + (1 - beta) value.  Returns x as stored: u is computed from the stored state. */
static double update_average(ms_mat x, int64_t b, int64_t i, int64_t j, double beta, double value)
{
    ms_put(x, b, i, j, beta * ms_at(x, b, i, j) + (1.0 - beta) * value);
    return ms_at(x, b, i, j);
}

static musec_status ref_moments(ms_device *d, ms_moments rates, ms_mat g, ms_mat m, ms_mat v,
                                ms_mat slow, ms_mat u)
{
    if (rates.correct1_at != NULL) rates.correct1 = *rates.correct1_at;
    if (rates.correct2_at != NULL) rates.correct2 = *rates.correct2_at;
    foreach (u) {
        const double gv   = ms_at(g, b, i, j); /* read once: u may lie on it */
        const double root = sqrt(update_average(v, b, i, j, rates.beta2, gv * gv) / rates.correct2);
        double       mean = update_average(m, b, i, j, rates.beta1, gv) / rates.correct1;
        if (slow.data != NULL) mean += rates.alpha * update_average(slow, b, i, j, rates.beta3, gv);
        ms_put(u, b, i, j, mean / (root + rates.eps));
    }
    return MUSEC_OK;
}

/* Element (b, i, j) of the numbers whose halves are given, and back. */
static double joined_at(ms_mat high, ms_mat low, int64_t b, int64_t i, int64_t j)
{
    const uint32_t  bits = ms_bits_of_float((float)ms_at(high, b, i, j));
    const ms_halves h    = { (uint16_t)(bits >> 16), (int16_t)ms_at(low, b, i, j) };
    return ms_float_of_bits(ms_halves_join(h));
}

static void put_split(double value, ms_mat high, ms_mat low, int64_t b, int64_t i, int64_t j)
{
    const ms_halves h = ms_halves_split(ms_bits_of_float((float)value));
    if (high.data != NULL) ms_put(high, b, i, j, ms_float_of_bf16(h.high));
    ms_put(low, b, i, j, h.low);
}

static musec_status ref_join_halves(ms_device *d, ms_mat high, ms_mat low, ms_mat out)
{
    foreach (out)
        ms_put(out, b, i, j, joined_at(high, low, b, i, j));
    return MUSEC_OK;
}

static musec_status ref_split_halves(ms_device *d, ms_mat x, ms_mat high, ms_mat low)
{
    foreach (x)
        put_split(ms_at(x, b, i, j), high, low, b, i, j);
    return MUSEC_OK;
}

/* Signs are compared, not u w with 0, because the product of small numbers is 0.  The decay is
 * w - decay w, not (1 - decay) w: a device that uses float32 would round 1 - decay, and so a decay
 * of 1e-6 by up to 3 %, in the same direction at every step. */
static musec_status ref_decay_add(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                                  ms_mat w, ms_mat copy)
{
    assert(u.rows == w.rows && u.cols == w.cols);
    const bool halves = copy.data != NULL && copy.dtype == MUSEC_I16;
    foreach (w) {
        const double uv      = ms_at(u, b, i, j);
        const double wv      = halves ? joined_at(w, copy, b, i, j) : ms_at(w, b, i, j);
        const bool   against = (uv < 0.0 && wv > 0.0) || (uv > 0.0 && wv < 0.0);
        const double rate    = cautious && against ? 0.0 : ms_num_at(decay, b);
        const double value   = wv - (rate * wv + ms_num_at(step, b) * uv);
        if (halves) {
            put_split(value, w, copy, b, i, j);
            continue;
        }
        ms_put(w, b, i, j, value);
        if (copy.data != NULL) ms_put(copy, b, i, j, ms_at(w, b, i, j));
    }
    return MUSEC_OK;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static void set_zero(ms_vec v, int64_t n)
{
    for (int64_t b = 0; b < n; b++)
        v.data[b] = 0.0;
}

static musec_status ref_sum(ms_device *d, ms_mat x, ms_vec out)
{
    set_zero(out, x.count);
    foreach (x)
        out.data[b] += ms_at(x, b, i, j);
    return MUSEC_OK;
}

static musec_status ref_sumsq(ms_device *d, ms_mat x, ms_vec out)
{
    set_zero(out, x.count);
    foreach (x)
        out.data[b] += ms_at(x, b, i, j) * ms_at(x, b, i, j);
    return MUSEC_OK;
}

static musec_status ref_trace(ms_device *d, ms_mat x, ms_vec out)
{
    for (int64_t b = 0; b < x.count; b++) {
        out.data[b] = 0.0;
        for (int64_t i = 0; i < diagonal(x); i++)
            out.data[b] += ms_at(x, b, i, i);
    }
    return MUSEC_OK;
}

static musec_status ref_absmax(ms_device *d, ms_mat x, ms_vec out)
{
    set_zero(out, x.count);
    foreach (x) {
        const double size = fabs(ms_at(x, b, i, j));
        if (size > out.data[b] || isnan(size)) out.data[b] = size; /* no number exceeds NaN */
    }
    return MUSEC_OK;
}

static musec_status ref_count_nonfinite(ms_device *d, ms_mat x, ms_vec out)
{
    set_zero(out, x.count);
    foreach (x)
        out.data[b] += isfinite(ms_at(x, b, i, j)) ? 0.0 : 1.0;
    return MUSEC_OK;
}

/* ---- random numbers, scalars ----------------------------------------------------------------- */

static musec_status ref_normal(ms_device *d, uint64_t key, double mean, double sd, ms_mat out)
{
    foreach (out) {
        const uint64_t index = (uint64_t)((b * out.rows + i) * out.cols + j);
        ms_put(out, b, i, j, mean + sd * ms_rand_normal(key, index));
    }
    return MUSEC_OK;
}

static musec_status ref_uniform(ms_device *d, uint64_t key, double low, double high, ms_mat out)
{
    /* relative to the middle: where that is 0, only the store rounds */
    const double mid = 0.5 * (low + high), half = 0.5 * (high - low);
    foreach (out) {
        const uint64_t index = (uint64_t)((b * out.rows + i) * out.cols + j);
        ms_put(out, b, i, j, mid + half * (2.0 * ms_rand_uniform(key, index) - 1.0));
    }
    return MUSEC_OK;
}

static musec_status ref_stochastic_round(ms_device *d, uint64_t key, uint64_t first, ms_mat x,
                                         ms_mat out)
{
    foreach (x) {
        const uint64_t index = first + (uint64_t)((b * x.rows + i) * x.cols + j);
        const uint32_t bits  = ms_bits_of_float((float)ms_at(x, b, i, j));
        ms_put(out, b, i, j,
               ms_float_of_bf16(ms_bf16_stochastic_round(bits, ms_rand_u16(key, index))));
    }
    return MUSEC_OK;
}

static musec_status ref_scalars(ms_device *d, const ms_scalar_call *c)
{
    double in[MS_SCALAR_MAX_IO] = { 0 }, out[MS_SCALAR_MAX_IO] = { 0 };
    assert(c->n_in <= MS_SCALAR_MAX_IO && c->n_out <= MS_SCALAR_MAX_IO);
    for (int64_t b = 0; b < c->out[0].count; b++) {
        for (int k = 0; k < c->n_in; k++)
            in[k] = ms_num_at(c->in[k], b);
        ms_scalar_run(c->program, c->table, in, out);
        for (int k = 0; k < c->n_out; k++) /* after all were read: an out may be an in */
            c->out[k].data[b] = out[k];
    }
    return MUSEC_OK;
}

void ms_device_ref_ops(ms_device_ops *table)
{
    *table = (ms_device_ops){
        .name             = "ref",
        .alloc            = ref_alloc,
        .free             = ref_free,
        .upload           = ref_upload,
        .download         = ref_download,
        .sync             = ref_sync,
        .now_ms           = ref_now_ms,
        .gemm             = ref_gemm,
        .product          = ref_product,
        .svd              = ms_ref_svd,
        .eigh             = ms_ref_eigh,
        .copy             = ref_copy,
        .fill             = ref_fill,
        .add_diag         = ref_add_diag,
        .scale            = ref_scale,
        .axpby            = ref_axpby,
        .combine          = ref_combine,
        .average          = ref_average,
        .scale_rows       = ref_scale_rows,
        .prescale         = ref_prescale,
        .moments          = ref_moments,
        .decay_add        = ref_decay_add,
        .join_halves      = ref_join_halves,
        .split_halves     = ref_split_halves,
        .sum              = ref_sum,
        .sumsq            = ref_sumsq,
        .trace            = ref_trace,
        .absmax           = ref_absmax,
        .count_nonfinite  = ref_count_nonfinite,
        .normal           = ref_normal,
        .uniform          = ref_uniform,
        .stochastic_round = ref_stochastic_round,
        .scalars          = ref_scalars,
    };
    ms_ref_nn_ops(table);
}
