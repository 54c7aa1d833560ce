/* clip_run.c - see clip_run.h. */
#include "clip_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ref.h"

#include "oracle.h"

/* ---- stacks in device memory ----------------------------------------------------------------- */

static void *take(int64_t n, size_t bytes)
{
    void *p = calloc(n > 0 ? (size_t)n : 1, bytes);
    if (p == NULL) abort();
    return p;
}

/* Where element e of the dense stack lies in the padded one. */
static int64_t place(const musec_view *v, int64_t e)
{
    const int64_t b = e / (v->rows * v->cols), i = e / v->cols % v->rows, j = e % v->cols;
    return b * v->stride + i * v->ld + j;
}

/* One row of n numbers as the device stores them, malloc'ed, and back. */
static ms_mat row_of(void *data, int64_t n, musec_dtype dtype)
{
    return (ms_mat){
        .data = data, .rows = 1, .cols = n, .ld = n, .count = 1, .stride = n, .dtype = dtype
    };
}

void *run_stored(const double *x, int64_t n, musec_dtype dtype)
{
    void *out = take(n, ms_dtype_bytes(dtype));
    for (int64_t i = 0; i < n; i++)
        ms_put(row_of(out, n, dtype), 0, 0, i, x[i]);
    return out;
}

static double *loaded_from(void *stored, int64_t n, musec_dtype dtype)
{
    double *out = take(n, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = ms_at(row_of(stored, n, dtype), 0, 0, i);
    return out;
}

run_stack run_stack_make(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols,
                         run_layout layout, const double *dense, double padding)
{
    run_stack s   = { .view = { .rows  = rows,
                                .cols  = cols,
                                .ld    = cols + layout.pad,
                                .count = layout.more + 1,
                                .dtype = dtype } };
    s.view.stride = rows * s.view.ld + layout.gap;
    s.n           = s.view.count * s.view.stride;

    double *all = take(s.n, sizeof *all);
    for (int64_t i = 0; i < s.n; i++)
        all[i] = padding;
    for (int64_t e = 0; dense != NULL && e < s.view.count * rows * cols; e++)
        all[place(&s.view, e)] = dense[e];
    void        *stored = run_stored(all, s.n, dtype);
    const size_t bytes  = (size_t)s.n * ms_dtype_bytes(dtype);
    CHECK_OK(dev, dev->ops->alloc(dev, bytes, &s.view.data));
    CHECK_OK(dev, dev->ops->upload(dev, stored, bytes, s.view.data));
    CHECK_OK(dev, dev->ops->sync(dev));
    free(all), free(stored);
    return s;
}

/* Everything, padding included. */
static double *read_all(ms_device *dev, const run_stack *s)
{
    const size_t bytes  = (size_t)s->n * ms_dtype_bytes(s->view.dtype);
    void        *stored = take(s->n, ms_dtype_bytes(s->view.dtype));
    CHECK_OK(dev, dev->ops->download(dev, s->view.data, bytes, stored));
    double *all = loaded_from(stored, s->n, s->view.dtype);
    free(stored);
    return all;
}

double run_rounded(double x, musec_dtype dtype)
{
    double stored;
    ms_put(row_of(&stored, 1, dtype), 0, 0, 0, x);
    return ms_at(row_of(&stored, 1, dtype), 0, 0, 0);
}

double *run_stack_gather(ms_device *dev, const run_stack *s)
{
    const int64_t n     = s->view.count * s->view.rows * s->view.cols;
    double       *all   = read_all(dev, s);
    double       *dense = take(n, sizeof *dense);
    for (int64_t e = 0; e < n; e++)
        dense[e] = all[place(&s->view, e)];
    free(all);
    return dense;
}

void run_stack_overwrite(ms_device *dev, const run_stack *s, const double *dense)
{
    double *all = read_all(dev, s);
    for (int64_t e = 0; e < s->view.count * s->view.rows * s->view.cols; e++)
        all[place(&s->view, e)] = dense[e];
    void *stored = run_stored(all, s->n, s->view.dtype);
    CHECK_OK(dev, dev->ops->upload(dev, stored, (size_t)s->n * ms_dtype_bytes(s->view.dtype),
                                   s->view.data));
    CHECK_OK(dev, dev->ops->sync(dev));
    free(all), free(stored);
}

double *run_stack_read(ms_device *dev, const run_stack *s, double padding)
{
    const int64_t n     = s->view.count * s->view.rows * s->view.cols;
    double       *all   = read_all(dev, s);
    double       *dense = take(n, sizeof *dense);
    for (int64_t e = 0; e < n; e++) {
        dense[e]                = all[place(&s->view, e)];
        all[place(&s->view, e)] = run_rounded(padding, s->view.dtype);
    }
    for (int64_t i = 0; i < s->n; i++)
        CHECK(all[i] == run_rounded(padding, s->view.dtype), "element %lld of the padding is %g",
              (long long)i, all[i]);
    free(all);
    return dense;
}

bool run_stack_holds(ms_device *dev, const run_stack *s, double value)
{
    double *all  = read_all(dev, s);
    bool    same = true;
    for (int64_t i = 0; i < s->n; i++)
        same = same && all[i] == run_rounded(value, s->view.dtype);
    free(all);
    return same;
}

void run_stack_free(ms_device *dev, run_stack *s)
{
    dev->ops->free(dev, s->view.data);
    *s = (run_stack){ 0 };
}

/* ---- operators ------------------------------------------------------------------------------- */

musec_clip_config run_config(const char *op, double threshold)
{
    musec_clip_config  cfg;
    const musec_status st = musec_clip_config_init(&cfg, sizeof cfg, op);
    CHECK(st == MUSEC_OK, "%s: %s", op, musec_status_name(st));
    cfg.threshold = threshold;
    return cfg;
}

double *run_clip_in(ms_device *dev, const musec_clip_config *cfg, musec_dtype dtype,
                    const double *x, int64_t rows, int64_t cols, run_layout layout,
                    musec_clip_report *report)
{
    const double untouched = -7.25;
    run_stack    in        = run_stack_make(dev, dtype, rows, cols, layout, x, NAN);
    run_stack    out       = run_stack_make(dev, dtype, rows, cols, layout, NULL, untouched);
    CHECK_OK(dev, musec_clip(dev, cfg, in.view, out.view, report));
    CHECK_OK(dev, musec_ctx_sync(dev));
    double *got = run_stack_read(dev, &out, untouched);
    run_stack_free(dev, &in), run_stack_free(dev, &out);
    return got;
}

double *run_clip(ms_device *dev, const musec_clip_config *cfg, musec_dtype dtype, const double *x,
                 int64_t rows, int64_t cols, musec_clip_report *report)
{
    return run_clip_in(dev, cfg, dtype, x, rows, cols, (run_layout){ 0 }, report);
}

bool run_is_slow(const ms_device *dev) { return strcmp(musec_ctx_device(dev), "ref") == 0; }

/* ---- comparing ------------------------------------------------------------------------------- */

double run_fro_diff(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double diff = a[i] - (b != NULL ? b[i] : 0.0);
        if (diff != diff) return NAN; /* hypot(inf, NaN) is infinity */
        sum = hypot(sum, diff);
    }
    return sum;
}

double run_fro(const double *a, int64_t n) { return run_fro_diff(a, NULL, n); }

/* m <- m / |m|_F; returns the norm. */
static double normalise(double *m, int64_t n)
{
    const double norm = run_fro(m, n);
    for (int64_t i = 0; i < n && norm > 0.0; i++)
        m[i] /= norm;
    return norm;
}

double run_norm2_diff(const double *a, const double *b, int64_t rows, int64_t cols, double enough)
{
    const int64_t r = rows < cols ? rows : cols;
    double       *e = take(rows * cols, sizeof *e);
    for (int64_t i = 0; i < rows * cols; i++)
        e[i] = a[i] - b[i];
    const double size = normalise(e, rows * cols);
    if (!(size > enough)) { /* also where it is NaN */
        free(e);
        return size;
    }
    double *et   = oracle_transpose(e, rows, cols);
    double *g    = rows < cols ? oracle_product(e, et, rows, cols, rows)
                               : oracle_product(et, e, cols, rows, cols);
    double  norm = size * sqrt(normalise(g, r * r));
    for (int p = 1; p <= 5 && norm > enough; p++) { /* g is (E E^T)^(2^(p-1)) up to its norm */
        double *square = oracle_product(g, g, r, r, r);
        free(g);
        g = square;
        norm *= pow(normalise(g, r * r), exp2(-p - 1));
    }
    free(e), free(et), free(g);
    return norm;
}

bool run_same_bits(const double *a, const double *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* ---- random spectra and the gain on each value ----------------------------------------------- */

const char *const run_spectrum_names[] = { "flat", "decaying", "spike", "gaussian", "log-uniform" };

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

void run_draw_spectrum(run_spectrum kind, int64_t r, uint64_t *state, double *s)
{
    const double power = 0.3 + 2.0 * oracle_uniform(state);
    const double bulk  = pow(10.0, -3.0 * oracle_uniform(state));
    for (int64_t i = 0; i < r; i++) {
        switch (kind) {
        case RUN_FLAT: s[i] = 1.0; break;
        case RUN_DECAYING: s[i] = pow((double)i + 1.0, -power); break;
        case RUN_SPIKE: s[i] = i == 0 ? 1.0 : bulk * (0.9 + 0.1 * oracle_uniform(state)); break;
        case RUN_GAUSSIAN: s[i] = 1.0; break; /* set below */
        default: s[i] = i == 0 ? 1.0 : pow(10.0, -8.0 * oracle_uniform(state)); break;
        }
    }
    if (kind == RUN_GAUSSIAN) {
        double *x = oracle_gaussian(r, r + r / 2, (uint64_t)(1e6 * oracle_uniform(state)));
        oracle_singular_values(x, MUSEC_F64, r, r + r / 2, s);
        for (int64_t i = r - 1; i >= 0; i--)
            s[i] /= s[0];
        free(x);
    }
    qsort(s, (size_t)r, sizeof *s, descending);
}

double run_along(const oracle *o, const double *out, int64_t l)
{
    double sum = 0.0;
    for (int64_t i = 0; i < o->rows; i++) {
        double row = 0.0;
        for (int64_t j = 0; j < o->cols; j++)
            row += out[i * o->cols + j] * o->v[l * o->cols + j];
        sum += o->u[l * o->rows + i] * row;
    }
    return sum;
}

double run_gain_noise(const oracle *o, double D, double s)
{
    return 2e-14 * law_soft(o->s[0], D) / law_soft(s, D);
}

/* ---- scalar laws ----------------------------------------------------------------------------- */

double law_soft(double s, double threshold) { return threshold * (s / hypot(s, threshold)); }

double law_sharp(double s, double threshold, double p)
{
    const double larger = fmax(s, threshold), smaller = fmin(s, threshold);
    if (p == INFINITY) return smaller;
    return smaller / pow(1.0 + pow(smaller / larger, p), 1.0 / p);
}

double law_steps(double u, int iters)
{
    for (int k = 0; k < iters; k++)
        u *= (3.0 - u * u) / 2.0;
    return u;
}

double law_alpha_fro(const double *s, int64_t r, double threshold)
{
    double sum = 0.0;
    for (int64_t i = 0; i < r; i++)
        sum = hypot(sum, s[i] * s[i] + threshold * threshold);
    return sum;
}

double law_alpha_c4(const double *s, int64_t r, double threshold)
{
    double mean = 0.0, spread = 0.0;
    for (int64_t i = 0; i < r; i++)
        mean += (s[i] * s[i] + threshold * threshold) / (double)r;
    for (int64_t i = 0; i < r; i++) {
        const double off = s[i] * s[i] + threshold * threshold - mean;
        spread           = hypot(spread, off * off);
    }
    return fmin(law_alpha_fro(s, r, threshold), mean + sqrt(spread));
}

double law_ssc_of(double s, const void *arg)
{
    const law_ssc *law = arg;
    return law_soft(s, law->threshold) *
           law_steps(hypot(s, law->threshold) / sqrt(law->alpha), law->iters);
}
