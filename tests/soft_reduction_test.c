/* soft_reduction_test.c - `accurate` with 16-bit operands, where sigma_1 / D is large.
 *
 * The law of reductions is computed in float64 from the very numbers that devices get, for every
 * u_min and every singular value.  The operator itself is held to the exact clip of the matrix as
 * it was rounded to 16 bits: that much of sigma_1 may be many times D, and no arithmetic brings it
 * back. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "linalg/soft_engine.h"
#include "oracle.h"

/* ---- the law --------------------------------------------------------------------------------- */

enum { POINTS = 600 };

typedef struct
    phase { /* singular values as they are, those there were, and D, each of the largest */
    double x[POINTS], s[POINTS];
    double threshold, original, max_lambda;
} phase;

static double gain_of(const ms_poly_plan *plan, double s, double d, double alpha)
{
    return ms_poly_plan_gain(plan, hypot(s, d) / sqrt(alpha));
}

/* One reduction of what is in p, if its u_min calls for one. */
static bool reduce(phase *p, const ms_poly_plan *plan, const ms_compute_limits *limits)
{
    const double       alpha = p->max_lambda, d = p->threshold;
    ms_reduction_table table;
    for (int i = 0; i < 2; i++)
        memcpy(table.c[i], plan->stage[i].c, sizeof table.c[i]);
    const ms_begin_reduction_in  in  = { .reach        = limits->short_u_d,
                                         .min_u        = limits->reduction_min_u,
                                         .min_shift    = limits->reduction_shift,
                                         .margin       = limits->reduction_margin,
                                         .max_exponent = 8.0,
                                         .tiny         = 1e-300,
                                         .u_min        = d / sqrt(alpha),
                                         .alpha        = alpha,
                                         .norm2        = 1.0,
                                         .s            = 1.0,
                                         .sd           = d,
                                         .sd2          = d * d,
                                         .scale        = 1.0,
                                         .threshold    = d };
    const ms_begin_reduction_out out = ms_eval_begin_reduction(in, &table);
    if (out.mask == 0.0) return false;
    /* Z M = (scale / gain) M', where Z has no gain yet; the mean has moved by D_1^2 - D^2 */
    const double small = out.scale / out.gain, alpha_1 = 1.0 / out.inv_alpha;
    for (int i = 0; i < POINTS; i++) {
        const double u = sqrt((p->x[i] * p->x[i] + d * d + out.mean) / alpha_1);
        p->x[i] *= ms_poly_plan_gain(plan, u) / u / small;
    }
    p->threshold  = out.threshold;
    p->max_lambda = out.max_lambda / out.s / out.s;
    return true;
}

static void check_law(musec_dtype dtype, double u_min)
{
    const ms_compute_limits limits = ms_compute_limits_of(dtype);
    const int               two[]  = { 4, 4 };
    ms_poly_plan            plan, last;
    phase                   p   = { .threshold = u_min, .max_lambda = 1.0, .original = u_min };
    double                  low = INFINITY, high = 0.0;
    int                     n = 0;
    CHECK(ms_poly_plan_minimax(two, 2, limits.reduction_u_d, &plan) == MUSEC_OK, "no plan");
    for (int i = 0; i < POINTS; i++) /* from 1e-3 D to the largest that alpha allows */
        p.s[i] = p.x[i] = sqrt(1.0 - u_min * u_min) * pow(1e-3 * u_min, (double)i / (POINTS - 1));
    while (n < MS_REDUCTIONS && reduce(&p, &plan, &limits))
        n++;
    const double u = p.threshold / sqrt(p.max_lambda);
    CHECK(n >= 1 && u >= limits.short_u_d, "u_min %g: %d reductions leave %g", u_min, n, u);
    const double u_d = u >= limits.loose_u_d ? limits.loose_u_d : limits.short_u_d;
    CHECK(ms_poly_plan_cheapest(1e-2, u_d, &last) == MUSEC_OK, "no plan");
    for (int i = 0; i < POINTS; i++) {
        const double got =
            law_soft(p.x[i], p.threshold) * gain_of(&last, p.x[i], p.threshold, p.max_lambda);
        const double gain = got / law_soft(p.s[i], u_min);
        low               = fmin(low, gain);
        high              = fmax(high, gain);
        CHECK(isfinite(gain), "u_min %g: gain %g at %g D", u_min, gain, p.s[i] / u_min);
    }
    CHECK(low >= 1.0 - 1.2e-2 && high <= 1.0 + 4e-3, "u_min %g: gains from %.5f to %.5f", u_min,
          low, high);
}

/* The bounds are those of docs/operators.md: 1e-2 of the last plan, and the rest of the rule by
 * which phases compose. */
TEST(reductions_compose_to_the_soft_clip)
{
    for (double u_min = 0.0299; u_min >= 6e-5; u_min *= 0.985)
        check_law(MUSEC_F16, u_min);
    for (double u_min = 0.0899; u_min >= 2.5e-4; u_min *= 0.985)
        check_law(MUSEC_BF16, u_min);
}

/* ---- the operator ---------------------------------------------------------------------------- */

/* x as 16 bits hold it, times a power of two that brings its largest entry to (1/2, 1]: 11 or 8
 * digits, and in f16 nothing below 2^-24. */
static double *rounded(const double *x, int64_t n, musec_dtype dtype)
{
    const int digits = dtype == MUSEC_F16 ? 11 : 8, lowest = dtype == MUSEC_F16 ? -24 : -133;
    double   *out = malloc((size_t)n * sizeof *out), top = 0.0;
    int       e = 0, e_x = 0;
    CHECK(out != NULL, "no memory");
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs(x[i]));
    (void)frexp(top, &e);
    for (int64_t i = 0; i < n; i++) {
        (void)frexp(x[i], &e_x);
        const int unit = e_x - digits > lowest + e ? e_x - digits : lowest + e;
        out[i]         = ldexp(nearbyint(ldexp(x[i], -unit)), unit);
    }
    return out;
}

/* |result - clip of the rounded matrix|_2 / D by log10 of sigma_1 / D (2, 3, 4), seen up to 0.011,
 * 0.045, 0.34 in f16 and 0.047, 0.090, 0.31 in bf16; twice that is allowed.  At 10^4 it is what
 * rounding the result of the first reduction to f16 does: by 2^-12 of sigma_1 / 28, some 0.1 D, and
 * more where half of the singular values are sigma_1. */
static const double error_bound[2][3] = { { 0.022, 0.09, 0.7 }, { 0.1, 0.18, 0.6 } };
static const double excess_bound[2]   = { 5e-3, 4e-2 };

static void check_operator(ms_device *dev, musec_dtype dtype, int decade, oracle *o)
{
    const bool        bf16 = dtype == MUSEC_BF16;
    const int64_t     n    = o->rows * o->cols;
    const double      D    = o->s[0] * pow(10.0, -decade);
    musec_clip_config cfg = run_config("accurate", D), exact = run_config("soft", D);
    musec_clip_report report;
    cfg.operands        = dtype;
    cfg.tol             = 5e-4;
    double      *as_is  = rounded(o->x, n, dtype);
    double      *got    = run_clip(dev, &cfg, MUSEC_F32, o->x, o->rows, o->cols, &report);
    double      *want   = run_clip(dev, &exact, MUSEC_F64, as_is, o->rows, o->cols, NULL);
    const double bound  = error_bound[bf16][decade - 2] * D;
    const double err    = run_norm2_diff(got, want, o->rows, o->cols, bound);
    const double norm   = oracle_norm2(got, MUSEC_F64, o->rows, o->cols);
    const double weight = run_fro(got, n) / run_fro(want, n);
    CHECK(report.path[1] == '+' && report.products >= 14, "s_1 = 1e%d D: %s, %d products", decade,
          report.path, (int)report.products);
    CHECK(err <= bound, "%s, s_1 = 1e%d D: error %g D", report.path, decade, err / D);
    CHECK(norm <= D * (1.0 + excess_bound[bf16]), "%s, s_1 = 1e%d D: the norm is %g D", report.path,
          decade, norm / D);
    CHECK(fabs(weight - 1.0) <= (bf16 ? 5e-2 : 2e-2),
          "%s, s_1 = 1e%d D: |result|_F is %g of the clip's", report.path, decade, weight);
    free(as_is);
    free(got);
    free(want);
}

TEST_EACH_DEVICE(large_ratios_are_clipped_as_exactly_as_16_bits_allow, dev)
{
    static const int64_t     shapes[][2] = { { 24, 40 }, { 40, 24 }, { 64, 64 }, { 96, 192 } };
    static const musec_dtype types[]     = { MUSEC_F16, MUSEC_BF16 };
    for (size_t i = 0; i < COUNT(shapes) - (run_is_slow(dev) ? 1 : 0); i++)
        for (int kind = 0; kind <= ORACLE_KINDS; kind++)
            for (int decade = 2; decade <= 4; decade++) {
                const int64_t k      = shapes[i][0] < shapes[i][1] ? shapes[i][0] : shapes[i][1];
                const double  bottom = 0.3 * pow(10.0, -decade);
                double        s[96];
                if (kind == ORACLE_FLAT || !check_takes_case()) continue;
                for (int64_t l = 0; l < k; l++) /* the kind after the last: 1 / l */
                    s[l] = 1.0 / (double)(l + 1);
                oracle o = kind == ORACLE_KINDS
                               ? oracle_make_from(shapes[i][0], shapes[i][1], s, 31)
                               : oracle_make(shapes[i][0], shapes[i][1], (oracle_kind)kind, 1.0,
                                             bottom, (uint64_t)kind + 10 * i);
                for (size_t t = 0; t < COUNT(types); t++)
                    if (ms_device_has(dev, types[t])) check_operator(dev, types[t], decade, &o);
                oracle_free(&o);
            }
}

/* Powers of two put right what is wrong with a scale.  They move the roundings of the last stage,
 * each at most 2^-11. */
TEST_EACH_DEVICE(large_ratios_do_not_depend_on_the_scale, dev)
{
    static const double scales[] = { 0x1p-70, 0x1p-3, 0x1p70 };
    oracle              o        = oracle_make(24, 40, ORACLE_GEOMETRIC, 1.0, 1e-4, 3);
    musec_clip_config   cfg      = run_config("accurate", 1e-3);
    if (!ms_device_has(dev, MUSEC_F16)) SKIP_DEVICE("no f16 on %s", dev->name);
    cfg.operands = MUSEC_F16;
    double *want = run_clip(dev, &cfg, MUSEC_F32, o.x, 24, 40, NULL);
    for (size_t i = 0; i < COUNT(scales); i++) {
        double x[24 * 40];
        for (int j = 0; j < 24 * 40; j++)
            x[j] = o.x[j] * scales[i];
        cfg.threshold = 1e-3 * scales[i];
        double *got   = run_clip(dev, &cfg, MUSEC_F32, x, 24, 40, NULL);
        for (int j = 0; j < 24 * 40; j++)
            got[j] /= scales[i];
        const double apart = run_fro_diff(got, want, 24 * 40) / run_fro(want, 24 * 40);
        CHECK(apart <= 4e-3, "scale %g: apart by %g", scales[i], apart);
        free(got);
    }
    free(want);
    oracle_free(&o);
}
