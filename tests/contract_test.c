/* contract_test.c - what the operators promise about unusual input: bad arguments and NaN are
 * refused with a message and an untouched output; zero gives zero; vectors, huge and tiny matrices
 * obey the same laws as all others; and a stack gives the bits of its matrices one by one. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "oracle.h"

#define UNTOUCHED (-3.5)

static bool is(const char *op, const char *name) { return strcmp(op, name) == 0; }

/* ---- refused --------------------------------------------------------------------------------- */

typedef struct call { /* a good call, for a spoiler to spoil */
    musec_clip_config        cfg;
    const musec_clip_config *use; /* &cfg */
    musec_view               in, out;
} call;

static void no_in(call *c) { c->in.data = NULL; }
static void no_out(call *c) { c->out.data = NULL; }
static void no_cfg(call *c) { c->use = NULL; }
static void no_rows(call *c) { c->in.rows = c->out.rows = 0; }
static void no_cols(call *c) { c->in.cols = c->out.cols = 0; }
static void no_matrix(call *c) { c->in.count = c->out.count = 0; }
static void negative_rows(call *c) { c->in.rows = c->out.rows = -4; }
static void negative_count(call *c) { c->in.count = c->out.count = -1; }
static void endless_rows(call *c) { c->in.rows = c->out.rows = INT64_MAX; }
static void endless_ld(call *c) { c->in.ld = INT64_MAX / 2; }
static void short_in_ld(call *c) { c->in.ld = c->in.cols - 1; }
static void short_out_ld(call *c) { c->out.ld = c->out.cols - 1; }
static void negative_ld(call *c) { c->in.ld = -c->in.cols; }
static void short_stride(call *c) { c->out.stride = 3; }
static void other_rows(call *c) { c->out.rows--; }
static void other_cols(call *c) { c->out.cols--; }
static void other_count(call *c) { c->out.count--; }
static void other_dtype(call *c)
{
    c->out.dtype = c->in.dtype == MUSEC_F32 ? MUSEC_F64 : MUSEC_F32;
}
static void unknown_dtype(call *c) { c->in.dtype = c->out.dtype = (musec_dtype)99; }
static void in_is_out(call *c) { c->in.data = c->out.data; }
static void in_meets_out(call *c) { c->in.data = (char *)c->out.data + 8 * c->out.ld; }
static void unknown_op(call *c) { c->cfg.op = "harder"; }
static void no_op(call *c) { c->cfg.op = NULL; }
static void zero_size(call *c) { c->cfg.size = 0; }
static void short_size(call *c) { c->cfg.size = MUSEC_CLIP_CONFIG_SIZE_1 - 1; }
static void zero_threshold(call *c) { c->cfg.threshold = 0.0; }
static void negative_threshold(call *c) { c->cfg.threshold = -1.0; }
static void nan_threshold(call *c) { c->cfg.threshold = NAN; }
static void endless_threshold(call *c) { c->cfg.threshold = INFINITY; }
static void zero_iters(call *c) { c->cfg.iters = 0; }
static void negative_iters(call *c) { c->cfg.iters = -5; }
static void many_iters(call *c) { c->cfg.iters = 101; }
static void zero_tol(call *c) { c->cfg.tol = 0.0; }
static void nan_tol(call *c) { c->cfg.tol = NAN; }
static void large_tol(call *c) { c->cfg.tol = 0.75; }
static void unknown_coeffs(call *c) { c->cfg.coeffs = "kepler"; }
static void no_coeffs(call *c) { c->cfg.coeffs = NULL; }

#define CLIPS \
    "hard hard-fast hard-accurate soft ssc paper7 fast accurate sharp sharp-fast sharp-accurate"

static const struct spoiler {
    const char *what;
    void (*spoil)(call *c);
    const char *ops; /* those it concerns; NULL: all */
} spoilers[] = {
    { "in NULL", no_in, NULL },
    { "out NULL", no_out, NULL },
    { "config NULL", no_cfg, NULL },
    { "rows 0", no_rows, NULL },
    { "cols 0", no_cols, NULL },
    { "count 0", no_matrix, NULL },
    { "rows -4", negative_rows, NULL },
    { "count -1", negative_count, NULL },
    { "rows 2^63-1", endless_rows, NULL },
    { "ld 2^62", endless_ld, NULL },
    { "ld of in < cols", short_in_ld, NULL },
    { "ld of out < cols", short_out_ld, NULL },
    { "ld < 0", negative_ld, NULL },
    { "stride too short", short_stride, NULL },
    { "other rows", other_rows, NULL },
    { "other cols", other_cols, NULL },
    { "other count", other_count, NULL },
    { "other dtype", other_dtype, NULL },
    { "unknown dtype", unknown_dtype, NULL },
    { "in is out", in_is_out, NULL },
    { "in meets out", in_meets_out, NULL },
    { "unknown op", unknown_op, NULL },
    { "op NULL", no_op, NULL },
    { "config size 0", zero_size, NULL },
    { "config size too small", short_size, NULL },
    { "D = 0", zero_threshold, CLIPS },
    { "D < 0", negative_threshold, CLIPS },
    { "D NaN", nan_threshold, CLIPS },
    { "D infinite", endless_threshold, CLIPS },
    { "iters 0", zero_iters, "ssc ns5" },
    { "iters -5", negative_iters, "ssc ns5" },
    { "iters 101", many_iters, "ssc ns5" },
    { "tol 0", zero_tol, "accurate hard-accurate sharp-accurate" },
    { "tol NaN", nan_tol, "accurate" },
    { "tol 0.75", large_tol, "accurate" },
    { "unknown coeffs", unknown_coeffs, "ns5" },
    { "coeffs NULL", no_coeffs, "ns5" },
};

static void check_refused(ms_device *dev, const call *c, const run_stack *in, const run_stack *out,
                          musec_status want, const char *op, const char *what)
{
    dev->error.text[0]    = '\0';
    const musec_status st = musec_clip(dev, c->use, c->in, c->out, NULL);
    CHECK(st == want, "%s, %s: %s", op, what, musec_status_name(st));
    CHECK(musec_ctx_error(dev)[0] != '\0', "%s, %s: no message", op, what);
    CHECK_OK(dev, musec_ctx_sync(dev));
    CHECK(run_stack_holds(dev, out, UNTOUCHED), "%s, %s: the output was written", op, what);
    if (in != NULL) CHECK(run_stack_holds(dev, in, 0.5), "%s, %s: the input was written", op, what);
}

TEST_EACH_DEVICE(bad_arguments_are_refused, dev)
{
    const run_layout layout = { .more = 2, .pad = 2, .gap = 3 };
    for (size_t i = 0; musec_clip_op(i, NULL) != NULL; i++) {
        const char *op    = musec_clip_op(i, NULL);
        size_t      tried = 0;
        for (size_t j = 0; j < COUNT(spoilers); j++) {
            const musec_dtype dtype = j % 2 ? MUSEC_F32 : MUSEC_F64;
            run_stack         in    = run_stack_make(dev, dtype, 6, 9, layout, NULL, 0.5);
            run_stack         out   = run_stack_make(dev, dtype, 6, 9, layout, NULL, UNTOUCHED);
            call              c = { .cfg = run_config(op, 1.0), .in = in.view, .out = out.view };
            c.use               = &c.cfg;
            if (spoilers[j].ops == NULL || strstr(spoilers[j].ops, op) != NULL) {
                spoilers[j].spoil(&c);
                check_refused(dev, &c, &in, &out, MUSEC_EINVAL, op, spoilers[j].what);
                tried++;
            }
            run_stack_free(dev, &in), run_stack_free(dev, &out);
        }
        CHECK(tried >= 25, "%s: only %zu rows", op, tried);
    }
}

TEST(no_context_is_refused)
{
    float                   x[4] = { 1, 2, 3, 4 }, y[4] = { 0 };
    const musec_clip_config cfg = run_config("hard", 1.0);
    const musec_view        in  = musec_view_dense(x, MUSEC_F32, 1, 2, 2);
    const musec_view        out = musec_view_dense(y, MUSEC_F32, 1, 2, 2);
    assert_int_equal(musec_clip(NULL, &cfg, in, out, NULL), MUSEC_EINVAL);
    CHECK(y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 0, "the output was written");
}

TEST(bad_configs_are_refused)
{
    musec_clip_config cfg;
    assert_int_equal(musec_clip_config_init(NULL, sizeof cfg, "hard"), MUSEC_EINVAL);
    assert_int_equal(musec_clip_config_init(&cfg, sizeof cfg, NULL), MUSEC_EINVAL);
    assert_int_equal(musec_clip_config_init(&cfg, sizeof cfg, "hardly"), MUSEC_EINVAL);
    assert_int_equal(musec_clip_config_init(&cfg, 0, "hard"), MUSEC_EINVAL);
    assert_int_equal(musec_clip_config_init(&cfg, MUSEC_CLIP_CONFIG_SIZE_1 - 1, "hard"),
                     MUSEC_EINVAL);
    assert_int_equal(musec_clip_config_init(&cfg, sizeof cfg, "ssc"), MUSEC_OK);
    CHECK(cfg.size == sizeof cfg && is(cfg.op, "ssc") && cfg.iters == 5 && cfg.literal == 0 &&
              cfg.threshold == 1.0 && cfg.tol == 1e-3 && is(cfg.coeffs, "keller") &&
              cfg.sharpness == 0.0,
          "the defaults are not those of the header");
}

/* A caller built with a later header, whose struct has grown at the end. */
TEST_EACH_DEVICE(a_longer_config_is_welcome, dev)
{
    struct {
        musec_clip_config cfg;
        unsigned char     later[64];
    } c;
    double *x = oracle_gaussian(4, 6, 3);
    memset(&c, 0x55, sizeof c);
    assert_int_equal(musec_clip_config_init(&c.cfg, sizeof c, "soft"), MUSEC_OK);
    for (size_t i = 0; i < sizeof c.later; i++)
        CHECK(c.later[i] == 0, "byte %zu of what is not known is %d", i, c.later[i]);
    const musec_clip_config cfg  = run_config("soft", 1.0);
    double                 *got  = run_clip(dev, &c.cfg, MUSEC_F64, x, 4, 6, NULL);
    double                 *want = run_clip(dev, &cfg, MUSEC_F64, x, 4, 6, NULL);
    CHECK(c.cfg.size == sizeof c && run_same_bits(got, want, 24), "size %u", (unsigned)c.cfg.size);
    c.later[63]          = 1; /* asks for something that we do not know */
    const musec_view any = musec_view_dense(x, MUSEC_F64, 1, 4, 6);
    assert_int_equal(musec_clip(dev, &c.cfg, any, any, NULL), MUSEC_ENOTSUP);
    CHECK(strstr(musec_ctx_error(dev), musec_version()) != NULL, "%s", musec_ctx_error(dev));
    free(x), free(got), free(want);
}

/* polar and ns5 have no threshold: whatever stands there is not looked at. */
TEST_EACH_DEVICE(unused_thresholds_are_ignored, dev)
{
    static const char *const ops[] = { "polar", "ns5" };
    static const double      bad[] = { -1.0, 0.0, NAN, INFINITY };
    double                  *x     = oracle_gaussian(4, 6, 3);
    for (size_t i = 0; i < COUNT(ops); i++) {
        const musec_clip_config cfg  = run_config(ops[i], 1.0);
        double                 *want = run_clip(dev, &cfg, MUSEC_F64, x, 4, 6, NULL);
        for (size_t j = 0; j < COUNT(bad); j++) {
            const musec_clip_config odd = run_config(ops[i], bad[j]);
            double                 *got = run_clip(dev, &odd, MUSEC_F64, x, 4, 6, NULL);
            CHECK(run_same_bits(got, want, 24), "%s with D = %g", ops[i], bad[j]);
            free(got);
        }
        free(want);
    }
    free(x);
}

static void check_nonfinite(ms_device *dev, const char *op, musec_dtype dtype, int64_t rows,
                            int64_t cols, double bad, int64_t where)
{
    const run_layout layout = { .more = 2, .pad = 1, .gap = 4 };
    double          *x      = oracle_gaussian(3 * rows, cols, 11);
    x[where]                = bad;
    run_stack in            = run_stack_make(dev, dtype, rows, cols, layout, x, 0.0);
    run_stack out           = run_stack_make(dev, dtype, rows, cols, layout, NULL, UNTOUCHED);
    call      c             = { .cfg = run_config(op, 1.0), .in = in.view, .out = out.view };
    c.use                   = &c.cfg;
    check_refused(dev, &c, NULL, &out, MUSEC_ENONFINITE, op, "not finite");
    run_stack_free(dev, &in), run_stack_free(dev, &out);
    free(x);
}

TEST_EACH_DEVICE(nan_and_infinity_are_refused, dev)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    static const struct {
        int64_t rows, cols;
    } shapes[] = {
        { 5, 8 },
        { 8, 5 },
        { 1, 7 },
        { 7, 1 },
    };
    for (size_t i = 0; musec_clip_op(i, NULL) != NULL; i++) {
        for (size_t j = 0; j < COUNT(shapes); j++) {
            const int64_t each = shapes[j].rows * shapes[j].cols;
            const int64_t at[] = { 0, each - 1, each + each / 2, 3 * each - 1 };
            for (size_t k = 0; k < COUNT(at) * COUNT(bad); k++)
                check_nonfinite(dev, musec_clip_op(i, NULL), k % 2 ? MUSEC_F32 : MUSEC_F64,
                                shapes[j].rows, shapes[j].cols, bad[k % 3], at[k / 3]);
        }
    }
}

/* After a refusal the context works as before. */
TEST_EACH_DEVICE(a_refusal_leaves_no_trace, dev)
{
    double *x = oracle_gaussian(5, 7, 21);
    for (size_t i = 0; musec_clip_op(i, NULL) != NULL; i++) {
        const char             *op     = musec_clip_op(i, NULL);
        const musec_clip_config cfg    = run_config(op, 1.0);
        double                 *before = run_clip(dev, &cfg, MUSEC_F32, x, 5, 7, NULL);
        check_nonfinite(dev, op, MUSEC_F32, 5, 7, NAN, 17);
        double *after = run_clip(dev, &cfg, MUSEC_F32, x, 5, 7, NULL);
        CHECK(run_same_bits(before, after, 35), "%s", op);
        free(before), free(after);
    }
    free(x);
}

/* ---- zero ------------------------------------------------------------------------------------ */

TEST_EACH_DEVICE(zero_gives_zero, dev)
{
    static const struct {
        int64_t rows, cols;
    } shapes[] = {
        { 1, 1 }, { 1, 9 }, { 9, 1 }, { 6, 10 }, { 10, 6 }, { 8, 8 },
    };
    const double zeros[80] = { 0 };
    for (size_t i = 0; musec_clip_op(i, NULL) != NULL; i++) {
        for (size_t j = 0; j < 2 * COUNT(shapes); j++) {
            const int64_t           rows = shapes[j / 2].rows, cols = shapes[j / 2].cols;
            const musec_clip_config cfg = run_config(musec_clip_op(i, NULL), j % 3 ? 0.5 : 1e-30);
            musec_clip_report       report;
            const musec_dtype       dtype = j % 2 ? MUSEC_F64 : MUSEC_F32;
            double                 *got   = run_clip(dev, &cfg, dtype, zeros, rows, cols, &report);
            CHECK(run_fro(got, rows * cols) == 0.0, "%s, %d x %d: not zero", cfg.op, (int)rows,
                  (int)cols);
            CHECK(isfinite(report.alpha) && isfinite(report.u_low), "%s: alpha %g, u_low %g",
                  cfg.op, report.alpha, report.u_low);
            free(got);
        }
    }
}

/* Bit for bit, or, where a device's products depend on the stack, within their rounding. */
static bool is_as_alone(const ms_device *dev, const double *stacked, const double *alone, int64_t n)
{
    if (!dev->kind->batch_variant) return run_same_bits(stacked, alone, n);
    return run_fro_diff(stacked, alone, n) <= 1e-4 * run_fro(alone, n);
}

/* A matrix of zeros among others does not disturb them. */
TEST_EACH_DEVICE(zero_in_a_stack_is_alone, dev)
{
    const int64_t n = 6 * 8;
    double       *x = oracle_gaussian(3 * 6, 8, 31);
    memset(x + n, 0, (size_t)n * sizeof *x);
    for (size_t i = 0; musec_clip_op(i, NULL) != NULL; i++) {
        const musec_clip_config cfg = run_config(musec_clip_op(i, NULL), 1.0);
        double *all = run_clip_in(dev, &cfg, MUSEC_F32, x, 6, 8, (run_layout){ .more = 2 }, NULL);
        double *one = run_clip(dev, &cfg, MUSEC_F32, x + 2 * n, 6, 8, NULL);
        CHECK(run_fro(all + n, n) == 0.0 && is_as_alone(dev, all + 2 * n, one, n), "%s", cfg.op);
        free(all), free(one);
    }
    free(x);
}

/* ---- laws of one singular value, for any size ------------------------------------------------ */

/* What an operator makes of a singular value. */
typedef struct law {
    const char *op;
    double      threshold, top; /* top: max(s_1, D); squares are taken of ratios to it */
    double      alpha;          /* |A|_F / top^2 */
    double      fro;            /* |M|_F */
    int64_t     r;
} law;

static law law_of(const char *op, const double *s, int64_t r, double threshold)
{
    law     l     = { .op = op, .threshold = threshold, .top = fmax(s[0], threshold), .r = r };
    double *ratio = malloc((size_t)r * sizeof *ratio);
    for (int64_t i = 0; i < r; i++)
        ratio[i] = s[i] / l.top;
    l.alpha = law_alpha_fro(ratio, r, threshold / l.top);
    l.fro   = run_fro(s, r);
    free(ratio);
    return l;
}

static double law_apply(double s, const void *arg)
{
    const law *l = arg;
    if (strncmp(l->op, "hard", 4) == 0) return fmin(s, l->threshold);
    if (strncmp(l->op, "sharp", 5) == 0) return law_sharp(s, l->threshold, 4.0);
    if (is(l->op, "polar")) return s > 0.0 ? 1.0 : 0.0;
    if (is(l->op, "ns5")) {
        double x = s / (l->fro + 1e-7);
        for (int k = 0; k < 5; k++)
            x = 3.4445 * x - 4.7750 * x * x * x + 2.0315 * x * x * x * x * x;
        return x;
    }
    if (l->r > 1 && (is(l->op, "ssc") || is(l->op, "paper7")))
        return law_soft(s, l->threshold) *
               law_steps(hypot(s / l->top, l->threshold / l->top) / sqrt(l->alpha), 5);
    return law_soft(s, l->threshold);
}

/* By how much, relatively, it may fall short of that by design. */
static double law_slack(const char *op)
{
    if (is(op, "paper7")) return 1.6e-6;
    /* no u below u_d in the spectra used here; the chains' errors are those of sharp_table.c */
    if (is(op, "fast")) return 2.3e-3;
    if (is(op, "hard-fast") || is(op, "sharp-fast")) return 2 * 2.3e-3 + 5e-2;
    if (strstr(op, "accurate") != NULL) return 1e-3;
    return 0.0;
}

TEST_EACH_DEVICE(vectors_obey_the_law_exactly, dev)
{
    static const struct {
        int64_t rows, cols;
        double  norm, threshold;
    } cases[] = {
        { 1, 1, 3.0, 1.0 },   { 1, 1, 0.5, 2.0 },   { 1, 9, 4.0, 0.25 },  { 9, 1, 4.0, 0.25 },
        { 1, 50, 1e-3, 1.0 }, { 50, 1, 1e6, 1e-3 }, { 1, 200, 2.0, 2.0 }, { 200, 1, 1.9, 2.0 },
    };
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        const musec_dtype dtype = i % 2 ? MUSEC_F64 : MUSEC_F32;
        const double      D     = cases[i / 2].threshold;
        const int64_t     rows = cases[i / 2].rows, cols = cases[i / 2].cols, n = rows * cols;
        oracle            o     = oracle_make_from(rows, cols, &cases[i / 2].norm, i);
        void             *x     = oracle_stored(o.x, n, dtype);
        double           *exact = oracle_loaded(x, n, dtype); /* what the operator is given */
        const double      norm  = run_fro(exact, n);
        for (size_t j = 0; musec_clip_op(j, NULL) != NULL; j++) {
            const char             *op   = musec_clip_op(j, NULL);
            const law               l    = law_of(op, &norm, 1, D);
            const musec_clip_config cfg  = run_config(op, D);
            double                 *got  = run_clip(dev, &cfg, dtype, exact, rows, cols, NULL);
            const double            gain = law_apply(norm, &l) / norm;
            /* two roundings of the factor, one of the product, one of the norm; ns5 iterates */
            const double eps = dtype == MUSEC_F32 ? FLT_EPSILON : DBL_EPSILON;
            const double tol = (is(op, "ns5") ? 500.0 : 4.0) * eps;
            for (int64_t e = 0; e < n; e++)
                CHECK(fabs(got[e] - gain * exact[e]) <= tol * fabs(gain * exact[e]),
                      "%s, case %zu: %.17g, not %.17g", op, i, got[e], gain * exact[e]);
            free(got);
        }
        free(x), free(exact);
        oracle_free(&o);
    }
}

/* ---- huge and tiny --------------------------------------------------------------------------- */

static const struct size_case {
    musec_dtype dtype;
    double      size, threshold; /* of the entries, about; of the clip */
} size_cases[] = {
    { MUSEC_F32, 1e30, 1.0 },      { MUSEC_F32, 1e30, 1e30 },     { MUSEC_F32, 1e-30, 1.0 },
    { MUSEC_F32, 1e-30, 1e-30 },   { MUSEC_F32, 1.0, 1e30 },      { MUSEC_F32, 1.0, 1e-30 },
    { MUSEC_F32, 1e37, 1e-37 },    { MUSEC_F32, 1e-40, 1.0 },     { MUSEC_F32, 1e-40, 1e-40 },
    { MUSEC_F32, 1e-40, 1e-3 },    { MUSEC_F64, 1e200, 1.0 },     { MUSEC_F64, 1e200, 1e200 },
    { MUSEC_F64, 1e-200, 1.0 },    { MUSEC_F64, 1e-200, 1e-200 }, { MUSEC_F64, 1.0, 1e200 },
    { MUSEC_F64, 1.0, 1e-200 },    { MUSEC_F64, 1e300, 1e-300 },  { MUSEC_F64, 1e-310, 1.0 },
    { MUSEC_F64, 1e-310, 1e-310 }, { MUSEC_F64, 1e306, 1e305 },
};

static void check_size(ms_device *dev, const struct size_case *c, const char *op, int64_t rows,
                       int64_t cols)
{
    oracle            o   = oracle_make(rows, cols, ORACLE_LINEAR, 2.0 * c->size, c->size / 2, 77);
    const int64_t     n   = rows * cols;
    const law         l   = law_of(op, o.s, o.k, c->threshold);
    musec_clip_config cfg = run_config(op, c->threshold);
    double           *got = run_clip(dev, &cfg, c->dtype, o.x, rows, cols, NULL);

    oracle_map(&o, law_apply, &l);
    /* 1e-4 and 1e-11 are rounding, as for entries of ordinary size; below the normal numbers an
     * element of the input and one of the output, magnified by no operator but polar and ns5, are
     * off by half a quantum each, and the products of the input by some more */
    const double quantum  = c->dtype == MUSEC_F32 ? 0x1p-149 : 0x1p-1074;
    const double relative = (c->dtype == MUSEC_F32 ? 1e-4 : 1e-11) + law_slack(op) +
                            4.0 * quantum * sqrt((double)n) / c->size;
    const double want = run_fro(o.want, n), err = run_fro_diff(got, o.want, n);
    CHECK(err <= relative * want + 2.0 * quantum * sqrt((double)n),
          "%s, %d x %d, size %g, D = %g: off by %g of %g", op, (int)rows, (int)cols, c->size,
          c->threshold, err, want);
    free(got);
    oracle_free(&o);
}

TEST_EACH_DEVICE(huge_and_tiny_matrices_obey_the_law, dev)
{
    static const struct {
        int64_t rows, cols;
    } shapes[] = { { 8, 12 }, { 12, 8 }, { 1, 5 } };
    for (size_t i = 0; i < COUNT(size_cases); i++) {
        for (size_t j = 0; musec_clip_op(j, NULL) != NULL; j++) {
            const char *op = musec_clip_op(j, NULL);
            if (is(op, "ns5") && size_cases[i].dtype == MUSEC_F64) continue; /* does not scale */
            for (size_t k = 0; k < COUNT(shapes); k++)
                check_size(dev, &size_cases[i], op, shapes[k].rows, shapes[k].cols);
        }
    }
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Matrices as different as can be: each takes its own plan, path or scale. */
static double *mixed_stack(int64_t rows, int64_t cols, int64_t *count)
{
    static const struct {
        oracle_kind kind;
        double      top, bottom;
    } spectra[] = {
        { ORACLE_FLAT, 0.5, 0.5 },        { ORACLE_LINEAR, 3.0, 0.1 },
        { ORACLE_GEOMETRIC, 40.0, 0.01 }, { ORACLE_ONE, 3e3, 1.0 },
        { ORACLE_LINEAR, 1e9, 1e8 },      { ORACLE_ONE, 2.0, 0.0 },
        { ORACLE_HALF, 1e-9, 1e-12 },     { ORACLE_GEOMETRIC, 1e6, 1e-3 },
        { ORACLE_LINEAR, 2.9, 0.1 },
    };
    double *all = malloc(COUNT(spectra) * (size_t)(rows * cols) * sizeof *all);
    for (size_t i = 0; i < COUNT(spectra); i++) {
        oracle o = oracle_make(rows, cols, spectra[i].kind, spectra[i].top, spectra[i].bottom, i);
        memcpy(all + (int64_t)i * rows * cols, o.x, (size_t)(rows * cols) * sizeof *all);
        oracle_free(&o);
    }
    *count = COUNT(spectra);
    return all;
}

static void check_stack(ms_device *dev, const char *op, musec_dtype dtype, int64_t rows,
                        int64_t cols)
{
    int64_t                 count  = 0;
    double                 *x      = mixed_stack(rows, cols, &count);
    const musec_clip_config cfg    = run_config(op, 1.0);
    const run_layout        layout = { .more = count - 1, .pad = 3, .gap = 7 };
    musec_clip_report       reports[16], report;

    memset(reports, 0x55, sizeof reports);
    double *all   = run_clip_in(dev, &cfg, dtype, x, rows, cols, layout, reports);
    double *quiet = run_clip_in(dev, &cfg, dtype, x, rows, cols, layout, NULL);
    CHECK(run_same_bits(all, quiet, count * rows * cols), "%s: asking for a report changes it", op);
    for (int64_t b = 0; b < count; b++) {
        double      *one   = run_clip(dev, &cfg, dtype, x + b * rows * cols, rows, cols, &report);
        const double close = dev->kind->batch_variant ? 1e-4 : 0.0; /* of what is reported */
        CHECK(is_as_alone(dev, all + b * rows * cols, one, rows * cols),
              "%s, %d x %d: matrix %d (%s) differs in a stack", op, (int)rows, (int)cols, (int)b,
              report.path);
        CHECK(strcmp(report.path, reports[b].path) == 0 && report.products == reports[b].products &&
                  fabs(report.alpha - reports[b].alpha) <= close * report.alpha &&
                  fabs(report.u_low - reports[b].u_low) <= close * report.u_low,
              "%s: report %d says %s in a stack, %s alone", op, (int)b, reports[b].path,
              report.path);
        free(one);
    }
    free(x), free(all), free(quiet);
}

TEST_EACH_DEVICE(a_stack_is_its_matrices, dev)
{
    static const struct {
        int64_t rows, cols;
    } shapes[] = {
        { 11, 19 }, { 19, 11 }, { 12, 12 }, { 1, 7 }, { 7, 1 }, /* odd: no address is aligned */
    };
    for (size_t i = 0; musec_clip_op(i, NULL) != NULL; i++)
        for (size_t j = 0; j < COUNT(shapes); j++)
            for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++)
                check_stack(dev, musec_clip_op(i, NULL), dtype, shapes[j].rows, shapes[j].cols);
}

/* How many threads share the work is not to be seen in the result. */
TEST_EACH_DEVICE(threads_do_not_matter, dev)
{
    enum { ROWS = 33, COLS = 47, MORE = 4 };
    const int64_t    n      = (MORE + 1) * ROWS * COLS;
    const run_layout layout = { .more = MORE };
    double          *x      = oracle_gaussian((MORE + 1) * ROWS, COLS, 41);
    const bool       cpu    = strcmp(dev->kind->name, "cpu") == 0;
    for (size_t i = 0; musec_clip_op(i, NULL) != NULL; i++) {
        for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++) {
            const musec_clip_config cfg = run_config(musec_clip_op(i, NULL), 3.0);
            double *want = run_clip_in(dev, &cfg, dtype, x, ROWS, COLS, layout, NULL);
            for (int threads = 1; threads <= 3; threads += 2) {
                if (cpu) CHECK_OK(dev, musec_ctx_set_threads(dev, threads));
                double *got = run_clip_in(dev, &cfg, dtype, x, ROWS, COLS, layout, NULL);
                if (cpu) CHECK_OK(dev, musec_ctx_set_threads(dev, 0));
                CHECK(run_same_bits(got, want, n), "%s with %d threads", cfg.op, threads);
                free(got);
            }
            free(want);
        }
    }
    free(x);
}
