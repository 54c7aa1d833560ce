/* soft_clip_test.c - the laws of soft clipping by products.
 *
 * Everything the engine computes is a polynomial in A = X X^T + D^2 I, so each mode multiplies the
 * exact soft clip h(s) of every singular value by a scalar gain at u = sqrt((s^2 + D^2) / alpha).
 * K steps are held to the K-step scalar map, not to its limit: with D = 0.1 and s from 4 down to
 * 0.001, five steps leave the smallest values 82% short of that limit.  Gains are measured through
 * the oracle's own singular vectors. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "linalg/poly_plan.h"
#include "oracle.h"

/* ---- K steps --------------------------------------------------------------------------------- */

static const struct steps_case {
    int64_t     rows, cols;
    oracle_kind kind;
    double      top, bottom, D;
} steps_cases[] = {
    { 16, 48, ORACLE_GEOMETRIC, 4.0, 1e-3, 0.1 }, /* wide, far from the limit at five steps */
    { 48, 16, ORACLE_GEOMETRIC, 4.0, 1e-3, 0.1 }, /* tall */
    { 16, 16, ORACLE_HALF, 100.0, 0.0, 1.0 },     /* rank deficient, clipped hard */
    { 24, 30, ORACLE_FLAT, 0.01, 0.01, 1.0 },     /* all far below D: u = r^(-1/4) */
    { 30, 24, ORACLE_LINEAR, 3.0, 0.2, 1.0 },     { 9, 40, ORACLE_ONE, 50.0, 0.3, 0.5 },
};

/* Float64: the literal order shows 4e-15.  Float32: 4e-6 D is tabled for K = 5 and allowed twice;
 * from K = 10 on rounding is tabled (for bfloat16) at 20 times that of K = 5. */
static double steps_bound(musec_dtype dtype, int iters, double D)
{
    if (dtype == MUSEC_F64) return 1e-12 * D;
    if (iters <= 5) return 2 * 4e-6 * D;
    return (iters <= 7 ? 2e-5 : 2 * 20 * 4e-6) * D;
}

TEST_EACH_DEVICE(steps_follow_their_scalar_map, dev)
{
    for (size_t c = 0; c < COUNT(steps_cases); c++) {
        const struct steps_case *k = &steps_cases[c];
        oracle o = oracle_make(k->rows, k->cols, k->kind, k->top, k->bottom, 40 + c);
        for (int iters = 1; iters <= 12; iters++) {
            const law_ssc law = { k->D, law_alpha_fro(o.s, o.k, k->D), iters };
            oracle_map(&o, law_ssc_of, &law);
            for (int way = 0; way < 4; way++) {
                if (!check_takes_case()) continue;
                const musec_dtype dtype = way / 2 ? MUSEC_F32 : MUSEC_F64;
                musec_clip_config cfg   = run_config("ssc", k->D);
                musec_clip_report report;
                cfg.iters          = iters;
                cfg.literal        = way % 2;
                double      *got   = run_clip(dev, &cfg, dtype, o.x, k->rows, k->cols, &report);
                const double bound = steps_bound(dtype, iters, k->D);
                const double err   = run_norm2_diff(got, o.want, k->rows, k->cols, bound);
                CHECK(err <= bound, "case %zu, K = %d, %s, %s: error %g, bound %g", c, iters,
                      report.path, dtype == MUSEC_F32 ? "f32" : "f64", err, bound);
                CHECK(fabs(report.alpha - law.alpha) <= 1e-5 * law.alpha, "case %zu: alpha %g", c,
                      report.alpha);
                free(got);
            }
        }
        oracle_free(&o);
    }
}

/* Further steps do no harm: rounding stays at that of A itself, whose condition is (s_1 / D)^2. */
TEST_EACH_DEVICE(many_steps_stay_stable, dev)
{
    static const int many[] = { 20, 41, 100 };
    oracle           o      = oracle_make(20, 26, ORACLE_GEOMETRIC, 100.0, 0.1, 8);
    for (size_t i = 0; i < 4 * COUNT(many); i++) {
        if (!check_takes_case()) continue;
        const musec_dtype dtype = i % 2 ? MUSEC_F64 : MUSEC_F32;
        const law_ssc     law   = { 1.0, law_alpha_fro(o.s, o.k, 1.0), many[i / 4] };
        musec_clip_config cfg   = run_config("ssc", 1.0);
        cfg.iters               = many[i / 4];
        cfg.literal             = i / 2 % 2;
        oracle_map(&o, law_ssc_of, &law);
        double      *got   = run_clip(dev, &cfg, dtype, o.x, 20, 26, NULL);
        const double bound = (dtype == MUSEC_F64 ? 0x1p-52 : 0x1p-23) * 1e4;
        const double err   = run_norm2_diff(got, o.want, 20, 26, bound);
        CHECK(err <= bound, "K = %d%s: %g", cfg.iters, cfg.literal ? " literal" : "", err);
        free(got);
    }
    oracle_free(&o);
}

/* The literal order takes 3K products; pairs of steps take 10 instead of 15 for K = 5. */
TEST_EACH_DEVICE(products_are_counted, dev)
{
    static const struct {
        int iters, paired;
    } cost[]  = { { 1, 0 }, { 2, 2 }, { 3, 5 }, { 5, 10 }, { 7, 15 } };
    double *x = oracle_gaussian(6, 8, 1);
    for (size_t i = 0; i < COUNT(cost); i++) {
        musec_clip_config cfg = run_config("ssc", 1.0);
        musec_clip_report report;
        cfg.iters = cost[i].iters;
        free(run_clip(dev, &cfg, MUSEC_F64, x, 6, 8, &report));
        CHECK(report.products == cost[i].paired, "K = %d: %d", cfg.iters, report.products);
        cfg.literal = 1;
        free(run_clip(dev, &cfg, MUSEC_F64, x, 6, 8, &report));
        CHECK(report.products == 3 * cfg.iters, "K = %d, literal: %d", cfg.iters, report.products);
    }
    free(x);
}

/* D -> 0: the threshold vanishes and D phi_K(M / |M|_S4) remains, K cubic steps towards the polar
 * factor from the Schatten-4 norm.  The next term is (D / s_min)^2. */
static double cubic_steps(double s, const void *arg)
{
    const law_ssc *law = arg;
    return law_steps(s / sqrt(law->alpha), law->iters); /* alpha: |M M^T|_F = |M|_S4^2 */
}

TEST_EACH_DEVICE(without_threshold_cubic_steps_remain, dev)
{
    for (int iters = 1; iters <= 8; iters++) {
        oracle            o   = oracle_make(20, 33, ORACLE_LINEAR, 4.0, 0.1, (uint64_t)iters);
        musec_clip_config cfg = run_config("ssc", 1e-8);
        const law_ssc     law = { 0.0, law_alpha_fro(o.s, o.k, 0.0), iters };
        cfg.iters             = iters;
        oracle_map(&o, cubic_steps, &law);
        double *got = run_clip(dev, &cfg, MUSEC_F64, o.x, 20, 33, NULL);
        for (int64_t i = 0; i < 20 * 33; i++)
            got[i] /= cfg.threshold;
        const double err = oracle_rel_err(got, MUSEC_F64, o.want, 20 * 33);
        CHECK(err <= 1e-12, "K = %d: %g", iters, err);
        free(got);
        oracle_free(&o);
    }
}

TEST_EACH_DEVICE(paper7_follows_five_steps, dev)
{
    for (size_t c = 0; c < COUNT(steps_cases); c++) {
        const struct steps_case *k = &steps_cases[c];
        oracle        o   = oracle_make(k->rows, k->cols, k->kind, k->top, k->bottom, 60 + c);
        const law_ssc law = { k->D, law_alpha_fro(o.s, o.k, k->D), 5 };
        const musec_clip_config cfg = run_config("paper7", k->D);
        musec_clip_report       report;
        oracle_map(&o, law_ssc_of, &law);
        double      *got   = run_clip(dev, &cfg, MUSEC_F64, o.x, k->rows, k->cols, &report);
        const double bound = 1.6e-6 * k->D;
        const double err   = run_norm2_diff(got, o.want, k->rows, k->cols, bound);
        CHECK(err <= bound && report.products == 7, "case %zu: %g, %d products", c, err,
              report.products);
        free(got);
        oracle_free(&o);
    }
}

/* ---- gains on random spectra ----------------------------------------------------------------- */

static double fast_tol(const char *plan)
{
    if (strcmp(plan, "p9x9") == 0) return 2.29e-3;
    if (strcmp(plan, "p9x9c") == 0) return 3.33e-5;
    CHECK(strcmp(plan, "p9x9d") == 0, "unknown plan %s", plan);
    return 2.63e-11;
}

/* |1 - gain| <= max(1 - phi_5(u_paper), tol) on every singular value, and no gain above 1. */
TEST_EACH_DEVICE(fast_is_never_worse_than_five_steps, dev)
{
    enum { TRIALS = 200, R = 20 };
    uint64_t state = 2024;
    int      plans = 0; /* one bit for each plan that occurred */
    for (int t = 0; t < TRIALS; t++) {
        const int64_t      rows = t % 3 == 1 ? R + 8 : R, cols = t % 3 == 2 ? R + 8 : R;
        const run_spectrum kind = (run_spectrum)(t % RUN_SPECTRA);
        const double       D    = pow(10.0, -3.0 + 6.0 * oracle_uniform(&state));
        double             s[R];
        musec_clip_report  report;
        run_draw_spectrum(kind, R, &state, s);
        oracle                  o     = oracle_make_from(rows, cols, s, (uint64_t)t);
        const musec_clip_config cfg   = run_config("fast", D);
        double                 *got   = run_clip(dev, &cfg, MUSEC_F64, o.x, rows, cols, &report);
        const double            alpha = law_alpha_fro(s, R, D);
        plans |= report.u_low >= 0.40 ? 4 : report.u_low >= 0.16 ? 2 : 1;
        for (int64_t l = 0; l < R; l++) {
            const double gain  = run_along(&o, got, l) / law_soft(s[l], D);
            const double paper = 1.0 - law_steps(hypot(s[l], D) / sqrt(alpha), 5);
            const double bound = fmax(paper, fast_tol(report.path)) + run_gain_noise(&o, D, s[l]);
            CHECK(fabs(1.0 - gain) <= bound && gain <= 1.0 + run_gain_noise(&o, D, s[l]),
                  "trial %d (%s, D = %g, %s), s = %g: 1 - gain %g, five steps %g", t,
                  run_spectrum_names[kind], D, report.path, s[l], 1.0 - gain, paper);
        }
        free(got);
        oracle_free(&o);
    }
    CHECK(plans == 7, "not every plan was taken: %d", plans);
}

/* The plan is the menu's own for the spectrum, and only where the menu has none it is exact.  The
 * bound alpha takes the square of A; a first stage of degree 3 has no other use
 * for that product. */
static void check_choice(const musec_clip_config *cfg, const double *s, int64_t r,
                         const musec_clip_report *report)
{
    const double alpha = law_alpha_c4(s, r, cfg->threshold) * (1.0 + 1e-5);
    ms_poly_plan plan;
    if (ms_poly_plan_cheapest(cfg->tol, cfg->threshold / sqrt(alpha), &plan) != MUSEC_OK)
        CHECK(report->products == 0, "D = %g, tol %g: %s", cfg->threshold, cfg->tol, report->path);
    else
        CHECK(strcmp(report->path, plan.name) == 0 &&
                  report->products == ms_poly_plan_products(&plan) + (plan.stage[0].q == 1),
              "D = %g, tol %g: %s with %d products, not %s", cfg->threshold, cfg->tol, report->path,
              report->products, plan.name);
}

TEST_EACH_DEVICE(accurate_keeps_its_promise, dev)
{
    static const double tols[] = { 2e-2, 2e-3, 1e-4, 1e-5, 1e-6, 1e-8 };
    enum { TRIALS = 120, R = 16 };
    uint64_t state = 77;
    int      exact = 0; /* how often no polynomial would do */
    int      taken = 0;
    for (int t = 0; t < TRIALS; t++) {
        const run_spectrum kind = (run_spectrum)(t % RUN_SPECTRA);
        double             s[R];
        musec_clip_report  report;
        run_draw_spectrum(kind, R, &state, s);
        const double D = pow(10.0, -3.5 + 5.0 * oracle_uniform(&state));
        if (!check_takes_case()) continue;
        taken++;
        oracle            o   = oracle_make_from(R, R + 4, s, (uint64_t)t);
        musec_clip_config cfg = run_config("accurate", D);
        cfg.tol               = tols[t % (int)COUNT(tols)];
        double    *got        = run_clip(dev, &cfg, MUSEC_F64, o.x, R, R + 4, &report);
        const bool by_plan    = report.path[0] == 'p'; /* p9x9 and its like */
        check_choice(&cfg, s, R, &report);
        exact += !by_plan;
        for (int64_t l = 0; l < R; l++) {
            const double gain = run_along(&o, got, l) / law_soft(s[l], cfg.threshold);
            /* by the Gram matrix the noise may be 2e-16 (s_1 / D)^2 D, s_1 / D being up to 30 */
            const double noise = run_gain_noise(&o, cfg.threshold, s[l]) * (by_plan ? 1.0 : 100.0);
            CHECK(gain >= 1.0 - cfg.tol - noise && gain <= 1.0 + noise,
                  "trial %d (%s, D = %g, tol %g, %s), s = %g: 1 - gain %g", t,
                  run_spectrum_names[kind], cfg.threshold, cfg.tol, report.path, s[l], 1.0 - gain);
        }
        free(got);
        oracle_free(&o);
    }
    if (taken == TRIALS) /* some alone may all go one way */
        CHECK(exact > 0 && exact < TRIALS / 2, "%d of %d by eigenvalues or SVD", exact, TRIALS);
}

/* In float32 too, where rounding may take as much again: a tolerance below it goes the exact way.
 * Storing X moves its singular values by up to 2^-24 |X|_F, which shows in the small ones. */
TEST_EACH_DEVICE(accurate_keeps_its_promise_in_float32, dev)
{
    static const double tols[] = { 2e-2, 2e-3, 1e-4, 1e-5 };
    enum { TRIALS = 60, R = 16 };
    uint64_t state = 78;
    for (int t = 0; t < TRIALS; t++) {
        const run_spectrum kind = (run_spectrum)(t % RUN_SPECTRA);
        double             s[R];
        musec_clip_report  report;
        run_draw_spectrum(kind, R, &state, s);
        const double D = pow(10.0, -3.5 + 5.0 * oracle_uniform(&state));
        if (!check_takes_case()) continue;
        oracle            o   = oracle_make_from(R, R + 4, s, (uint64_t)t);
        musec_clip_config cfg = run_config("accurate", D);
        cfg.tol               = tols[t % (int)COUNT(tols)];
        double *got           = run_clip(dev, &cfg, MUSEC_F32, o.x, R, R + 4, &report);
        for (int64_t l = 0; l < R; l++) {
            const double gain   = run_along(&o, got, l) / law_soft(s[l], cfg.threshold);
            const double stored = 0x1p-24 * run_fro(s, R) / fmin(s[l], cfg.threshold) + 1e-5;
            CHECK(fabs(1.0 - gain) <= 2.0 * cfg.tol + stored,
                  "trial %d (%s, D = %g, tol %g, %s), s = %g: 1 - gain %g", t,
                  run_spectrum_names[kind], cfg.threshold, cfg.tol, report.path, s[l], 1.0 - gain);
        }
        free(got);
        oracle_free(&o);
    }
}

/* ---- rounding of float32 --------------------------------------------------------------------- */

/* |out - exact arithmetic|_2 / D as tabled for float32; the test allows twice that.  Exact is the
 * same polynomial of the same rounded matrix in float64, whose own error is below 1e-11. */
static const struct rounding_case {
    const char *op;
    int         literal;
    double      ratio, bound; /* s_1 / D up to which the bound holds */
} rounding_cases[] = {
    { "ssc", 0, 1.0, 4e-6 },   { "ssc", 1, 1.0, 4e-6 },   { "paper7", 0, 1.0, 4e-6 },
    { "ssc", 0, 100.0, 4e-6 }, { "ssc", 1, 100.0, 4e-6 }, { "paper7", 0, 100.0, 4e-6 },
    { "fast", 0, 1.0, 1e-6 },  { "fast", 0, 10.0, 6e-6 }, { "fast", 0, 100.0, 1e-5 },
};

static void check_rounding(ms_device *dev, const struct rounding_case *c, int64_t r,
                           run_spectrum kind, const oracle *o)
{
    const int64_t     n   = o->rows * o->cols;
    musec_clip_config cfg = run_config(c->op, 1.0 / c->ratio);
    cfg.literal           = c->literal;
    void        *stored   = oracle_stored(o->x, n, MUSEC_F32);
    double      *x        = oracle_loaded(stored, n, MUSEC_F32);
    double      *exact    = run_clip(dev, &cfg, MUSEC_F64, x, o->rows, o->cols, NULL);
    double      *got      = run_clip(dev, &cfg, MUSEC_F32, x, o->rows, o->cols, NULL);
    const double bound    = 2.0 * c->bound * cfg.threshold;
    const double err      = run_norm2_diff(got, exact, o->rows, o->cols, bound);
    CHECK(err <= bound, "%s%s, r = %d, %s, s_1 / D = %g: %g", c->op, c->literal ? " literal" : "",
          (int)r, run_spectrum_names[kind], c->ratio, err / cfg.threshold);
    free(stored), free(x), free(exact), free(got);
}

static void check_rounding_at(ms_device *dev, int64_t r, run_spectrum kind)
{
    uint64_t state = 9;
    double  *s     = malloc((size_t)r * sizeof *s);
    run_draw_spectrum(kind, r, &state, s);
    oracle o = oracle_make_from(r, r + 8, s, 3);
    for (size_t i = 0; i < COUNT(rounding_cases); i++)
        check_rounding(dev, &rounding_cases[i], r, kind, &o);
    free(s);
    oracle_free(&o);
}

TEST_EACH_DEVICE(float32_rounds_as_tabled, dev)
{
    for (int kind = 0; kind < RUN_SPECTRA; kind++)
        if (check_takes_case())
            check_rounding_at(dev, run_is_slow(dev) ? 24 : 64, (run_spectrum)kind);
    if (!run_is_slow(dev) && check_takes_case()) check_rounding_at(dev, 256, RUN_DECAYING);
    if (!run_is_slow(dev) && check_takes_case()) check_rounding_at(dev, 256, RUN_LOG_UNIFORM);
}
