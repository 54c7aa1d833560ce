/* sharp_clip_test.c - the laws of clips between the soft one and the hard one, by products.
 *
 * The chains are held to their own definition in float64, on a grid that is fine where the hard
 * clip has its corner.  The operators are held to the exact law on every singular value, measured
 * through the oracle's singular vectors: on random spectra, and on spectra that a search makes as
 * bad as it can. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "linalg/sharp_chain.h"
#include "optim_rig.h"
#include "oracle.h"

/* ---- chains ---------------------------------------------------------------------------------- */

static double chain_value(const ms_sharp_chain *c, double x)
{
    double y[MS_SHARP_STEPS + 1] = { x };
    for (int k = 1; k <= c->n; k++)
        y[k] = c->step[k - 1].square * y[k - 1] * y[k - 1] +
               (k < 2 ? 0.0 : c->step[k - 1].source * y[k - 2]) + c->step[k - 1].diag;
    return y[c->n];
}

/* The factor between the soft clip and that of sharpness p, with zeta = D^2 / (s^2 + D^2). */
static double factor(double zeta, double p)
{
    const double larger = fmax(zeta, 1.0 - zeta), ratio = (1.0 - larger) / larger;
    if (p == INFINITY) return 1.0 / sqrt(larger);
    return pow(1.0 + pow(ratio, 0.5 * p), -1.0 / p) / sqrt(larger);
}

static void check_chain(const ms_sharp_chain *c)
{
    enum { POINTS = 100000 };
    const double below = 1.0 / (1.0 + 0.7 * 0.7); /* zeta at s = 0.7 D */
    double       worst = 0.0, worst_below = 0.0, excess = 0.0;
    for (int i = 0; i <= POINTS; i++) {
        const double at    = (double)i / POINTS,
                     bent  = 0.5 + 0.5 * (2.0 * at - 1.0) * fabs(2.0 * at - 1.0);
        const double zeta  = i % 2 ? at : bent; /* half of the points gather at the corner */
        const double error = 1.0 - chain_value(c, 1.0 - 2.0 * zeta) / factor(zeta, c->sharpness);
        worst              = fmax(worst, error);
        excess             = fmax(excess, -error);
        if (zeta >= below) worst_below = fmax(worst_below, error);
    }
    CHECK(worst <= c->error && worst >= 0.9 * c->error, "sharpness %g, %d steps: error %g, not %g",
          c->sharpness, c->n, worst, c->error);
    CHECK(worst_below <= c->error_below, "sharpness %g, %d steps: error below 0.7 D %g, not %g",
          c->sharpness, c->n, worst_below, c->error_below);
    CHECK(excess <= 1e-13, "sharpness %g, %d steps: above the clip by %g", c->sharpness, c->n,
          excess);
    CHECK(c->n >= 1 && c->n <= MS_SHARP_STEPS, "%d steps", c->n);
}

TEST(chains_have_the_errors_that_they_state)
{
    size_t i = 0;
    for (; ms_sharp_chain_at(i) != NULL; i++)
        check_chain(ms_sharp_chain_at(i));
    CHECK(i >= 5, "there are %zu chains", i);
}

TEST(the_shortest_chain_that_will_do_is_found)
{
    static const double tols[]  = { 1.0, 5e-2, 2e-2, 1e-2, 1e-3, 1e-4, 1e-9 };
    static const double sharp[] = { 4.0, 8.0, 16.0, 32.0, INFINITY };
    for (size_t i = 0; i < COUNT(tols) * COUNT(sharp); i++) {
        const double          tol = tols[i % COUNT(tols)], p = sharp[i / COUNT(tols)];
        const ms_sharp_chain *found = ms_sharp_chain_find(p, tol, 1.0), *c;
        CHECK(found != NULL && found->sharpness == p, "sharpness %g has no chain", p);
        for (size_t k = 0; (c = ms_sharp_chain_at(k)) != NULL; k++) {
            if (c->sharpness != p) continue;
            if (found->error <= tol)
                CHECK(c->error > tol || c->n >= found->n, "%g, tol %g: %d steps", p, tol, c->n);
            else
                CHECK(c->error >= found->error, "%g, tol %g: one has %g", p, tol, c->error);
        }
    }
    CHECK(ms_sharp_chain_find(3.0, 1.0, 1.0) == NULL && ms_sharp_chain_find(NAN, 1.0, 1.0) == NULL,
          "a sharpness that has no chains has one");
}

/* ---- operators ------------------------------------------------------------------------------- */

typedef struct sharp_case {
    const char *op;
    double      p;   /* of the config; INFINITY for the hard operators */
    double      tol; /* of the soft stage: that of p9x9 below u_d is asked nowhere here */
} sharp_case;

static const sharp_case sharp_cases[] = {
    { "hard-fast", INFINITY, 2.3e-3 },
    { "sharp-fast", 2.0, 2.3e-3 },
    { "sharp-fast", 4.0, 2.3e-3 },
    { "sharp-fast", 8.0, 2.3e-3 },
    { "sharp-fast", 16.0, 2.3e-3 },
    { "sharp-fast", 32.0, 2.3e-3 },
    { "sharp-fast", INFINITY, 2.3e-3 },
    { "hard-accurate", INFINITY, 0 },
    { "sharp-accurate", 4.0, 0 },
    { "sharp-accurate", 32.0, 0 },
    { "hard", INFINITY, 0 },
    { "sharp", 2.0, 0 },
    { "sharp", 3.5, 0 },
    { "sharp", 32.0, 0 },
    { "sharp", INFINITY, 0 },
};

/* What a result may fall short of the law by, relatively, by design: the chain's error, and twice
 * the soft clip's, which counts double just above D. */
static double stated_error(const sharp_case *c, double tol)
{
    if (strstr(c->op, "accurate") != NULL) return tol;
    if (strstr(c->op, "fast") == NULL) return 0.0;
    return c->p == 2.0 ? c->tol : 2.0 * c->tol + ms_sharp_chain_find(c->p, 3e-2, 5e-3)->error;
}

/* The worst that becomes of a singular value: how far it lies outside [law (1 - stated), law],
 * relative to the law and beyond rounding. */
static double violation(ms_device *dev, const sharp_case *c, musec_dtype dtype, const oracle *o,
                        double D, double tol)
{
    musec_clip_config cfg   = run_config(c->op, D);
    double            worst = -INFINITY;
    cfg.sharpness           = c->p;
    cfg.tol                 = tol;
    double *got             = run_clip(dev, &cfg, dtype, o->x, o->rows, o->cols, NULL);
    for (int64_t l = 0; l < o->k; l++) {
        if (!(o->s[l] > 0.0)) continue;
        const double want = law_sharp(o->s[l], D, c->p), ratio = run_along(o, got, l) / want;
        /* by the Gram matrix the noise may be 2e-16 (s_1 / D)^2 D, s_1 / D being up to 30 */
        const double noise    = 100.0 * run_gain_noise(o, D, o->s[l]);
        const double short_by = 1.0 - ratio - stated_error(c, tol) - noise,
                     above    = ratio - 1.0 - noise;
        const double outside  = fmax(short_by, above);
        if (!(outside <= worst)) worst = outside; /* NaN stays */
    }
    free(got);
    return worst;
}

TEST_EACH_DEVICE(singular_values_follow_the_law, dev)
{
    enum { TRIALS = 60, R = 20 };
    uint64_t state = 11;
    for (int t = 0; t < TRIALS; t++) {
        const run_spectrum kind = (run_spectrum)(t % RUN_SPECTRA);
        const int64_t      rows = t % 3 == 1 ? R + 8 : R, cols = t % 3 == 2 ? R + 8 : R;
        double             s[R];
        run_draw_spectrum(kind, R, &state, s);
        /* fast reaches u_d = 0.09 of sqrt(alpha), which is at most 2.2 s_1 for r = 20 */
        const double D = pow(10.0, -0.65 + 2.0 * oracle_uniform(&state));
        oracle       o = oracle_make_from(rows, cols, s, (uint64_t)t);
        for (size_t i = 0; i < COUNT(sharp_cases); i++) {
            if (!check_takes_case()) continue;
            const double tol   = i % 2 ? 1e-1 : 3e-2;
            const double worst = violation(dev, &sharp_cases[i], MUSEC_F64, &o, D, tol);
            CHECK(worst <= 1e-12, "trial %d (%s, D = %g), %s of sharpness %g: outside by %g", t,
                  run_spectrum_names[kind], D, sharp_cases[i].op, sharp_cases[i].p, worst);
        }
        oracle_free(&o);
    }
}

/* Whatever s_1 / D is, and however far the soft stage is from its limit: no result exceeds D, nor
 * any singular value what it was. */
TEST_EACH_DEVICE(results_stay_in_the_ball, dev)
{
    enum { TRIALS = 60, R = 16 };
    uint64_t state = 12;
    for (int t = 0; t < TRIALS; t++) {
        double            s[R], after[R];
        const double      D     = pow(10.0, -6.0 + 7.0 * oracle_uniform(&state));
        const sharp_case *c     = &sharp_cases[t % 7];
        const musec_dtype dtype = t / 7 % 2 ? MUSEC_F64 : MUSEC_F32;
        musec_clip_config cfg   = run_config(c->op, D);
        cfg.sharpness           = c->p;
        run_draw_spectrum((run_spectrum)(t % RUN_SPECTRA), R, &state, s);
        oracle  o   = oracle_make_from(R, R + 4, s, (uint64_t)t);
        double *got = run_clip(dev, &cfg, dtype, o.x, R, R + 4, NULL);
        oracle_singular_values(got, MUSEC_F64, R, R + 4, after);
        const double rounding = dtype == MUSEC_F64 ? 1e-12 : 2e-5; /* float32: twice fast's row */
        CHECK(after[0] <= D * (1.0 + rounding), "%s of sharpness %g, D = %g: norm %g D", c->op,
              c->p, D, after[0] / D);
        CHECK(after[0] <= s[0] * (1.0 + rounding), "%s, D = %g: %g of %g", c->op, D, after[0],
              s[0]);
        free(got);
        oracle_free(&o);
    }
}

/* A climb: singular values are moved at random, and a move that brings a result nearer to the edge
 * of what is stated is kept. */
TEST_EACH_DEVICE(a_search_finds_nothing_outside, dev)
{
    enum { R = 8, MOVES = 60 };
    for (size_t i = 0; i < 10; i++) {
        const sharp_case *c = &sharp_cases[i];
        double            s[R], moved[R], D = 0.5, worst = -INFINITY;
        uint64_t          state = 100 + i;
        if (!check_takes_case()) continue;
        run_draw_spectrum(RUN_LOG_UNIFORM, R, &state, s);
        for (int m = 0; m < MOVES; m++) {
            const double size = m % 3 == 0 ? 1.0 : 0.1;
            for (int l = 0; l < R; l++)
                moved[l] =
                    l == 0 ? 1.0 : fmin(1.0, fmax(1e-6, s[l] * exp(size * oracle_normal(&state))));
            const double moved_D =
                fmin(30.0, fmax(0.25, D * exp(0.3 * size * oracle_normal(&state))));
            oracle       o       = oracle_make_from(R, R, moved, i);
            const double outside = violation(dev, c, MUSEC_F64, &o, moved_D, 2e-2);
            CHECK(outside <= 1e-12, "%s of sharpness %g, D = %g, move %d: outside by %g", c->op,
                  c->p, moved_D, m, outside);
            if (outside > worst) {
                worst = outside;
                D     = moved_D;
                memcpy(s, moved, sizeof s);
            }
            oracle_free(&o);
        }
    }
}

TEST_EACH_DEVICE(hard_accurate_leaves_small_matrices_alone, dev)
{
    static const double tols[] = { 1e-1, 3e-2, 1e-2 };
    for (size_t i = 0; i < COUNT(tols); i++) {
        oracle            o   = oracle_make(18, 24, ORACLE_GEOMETRIC, 1.0 - tols[i], 1e-3, i);
        musec_clip_config cfg = run_config("hard-accurate", 1.0);
        cfg.tol               = tols[i];
        double      *got      = run_clip(dev, &cfg, MUSEC_F64, o.x, 18, 24, NULL);
        const double bound    = tols[i];
        const double err      = run_norm2_diff(got, o.x, 18, 24, bound);
        CHECK(err <= bound, "tol %g: off by %g", tols[i], err);
        free(got);
        oracle_free(&o);
    }
}

/* A tolerance that no chain reaches goes the exact way, and a sharpness of 2 has no chain. */
TEST_EACH_DEVICE(reports_name_the_chain, dev)
{
    static const struct {
        const char *op;
        double      p, tol;
        const char *path;  /* ends so */
        int         least; /* products */
    } cases[] = {
        { "hard-fast", 0.0, 1e-3, " hard", 10 },
        { "sharp-fast", 0.0, 1e-3, " sharp4", 9 },
        { "sharp-fast", 2.0, 1e-3, "p9x9d", 7 },
        { "sharp-fast", INFINITY, 1e-3, " hard", 10 },
        { "hard-accurate", 0.0, 1e-9, "eigh", 0 },
        { "hard-accurate", 0.0, 5e-2, " hard", 5 },
        { "sharp-accurate", 8.0, 5e-2, " sharp8", 5 },
    };
    oracle o = oracle_make(10, 14, ORACLE_LINEAR, 2.0, 0.5, 5);
    for (size_t i = 0; i < COUNT(cases); i++) {
        musec_clip_config cfg = run_config(cases[i].op, 1.0);
        musec_clip_report report;
        cfg.sharpness = cases[i].p;
        cfg.tol       = cases[i].tol;
        free(run_clip(dev, &cfg, MUSEC_F64, o.x, 10, 14, &report));
        const size_t n = strlen(report.path), m = strlen(cases[i].path);
        CHECK(n >= m && strcmp(report.path + n - m, cases[i].path) == 0, "%s: %s", cases[i].op,
              report.path);
        CHECK(report.products >= cases[i].least && (cases[i].least > 0 || report.products == 0),
              "%s: %d products", report.path, report.products);
    }
    oracle_free(&o);
}

TEST_EACH_DEVICE(a_sharpness_without_chains_is_refused, dev)
{
    static const struct {
        const char *op;
        double      p;
        const char *words;
    } cases[]   = { { "sharp-fast", 3.0, "2, 4, 8, 16, 32 or infinite" },
                    { "sharp-accurate", 1.0, "2, 4, 8, 16, 32 or infinite" },
                    { "sharp", 1.9, "2 or more" },
                    { "sharp", NAN, "2 or more" },
                    { "sharp", -4.0, "2 or more" } };
    double x[4] = { 1, 0, 0, 1 };
    for (size_t i = 0; i < COUNT(cases); i++) {
        run_stack         in  = run_stack_make(dev, MUSEC_F64, 2, 2, (run_layout){ 0 }, x, 0.0);
        run_stack         out = run_stack_make(dev, MUSEC_F64, 2, 2, (run_layout){ 0 }, NULL, 7.0);
        musec_clip_config cfg = run_config(cases[i].op, 1.0);
        cfg.sharpness         = cases[i].p;
        CHECK(musec_clip(dev, &cfg, in.view, out.view, NULL) == MUSEC_EINVAL, "%s", cases[i].op);
        CHECK(strstr(musec_ctx_error(dev), cases[i].words) != NULL, "%s", musec_ctx_error(dev));
        CHECK(run_stack_holds(dev, &out, 7.0), "%s: the output was written", cases[i].op);
        run_stack_free(dev, &in);
        run_stack_free(dev, &out);
    }
}

/* ---- feedback -------------------------------------------------------------------------------- */

/* With a constant gradient, the momentum that is stored clipped by products ends where the exact
 * clip takes it, but for what the errors of 200 steps add up to: 0.081 D for the chain of hard-fast
 * and 0.013 D for that of sharpness 4 (docs/operators.md), and 1.2 times that at most here, where
 * the soft stage errs too.  Singular values of the gradient are up to 3 D. */
static void check_feedback(ms_device *dev, const char *name, const char *options, double bound)
{
    static const rig_param one[] = { { .name = "w", .rows = 14, .cols = 20 } };
    const double           D     = 0.5;
    char                   both[2][96];
    double                *momentum[2];
    oracle                 o = oracle_make(14, 20, ORACLE_LINEAR, 3.0 * D, 0.05 * D, 9);
    for (int exact = 0; exact < 2; exact++) {
        snprintf(both[exact], sizeof both[exact], "threshold=0.5 lr=0 ns-mode=%s%s",
                 exact ? "exact" : "fast", options);
        rig r = rig_make(dev, name, both[exact], MUSEC_F32, one, 1, 3);
        rig_set_grad(&r, 0, o.x);
        for (int step = 0; step < 200; step++)
            rig_go(&r);
        momentum[exact] = rig_state(&r, 0, 0, "momentum", 14 * 20);
        rig_free(&r);
    }
    const double err = run_norm2_diff(momentum[0], momentum[1], 14, 20, bound * D);
    CHECK(err <= bound * D, "%s %s: %g D from the exact clip", name, options, err / D);
    free(momentum[0]), free(momentum[1]);
    oracle_free(&o);
}

TEST_EACH_DEVICE(feedback_drifts_no_further_than_stated, dev)
{
    check_feedback(dev, "musec", "", 1.2 * 0.081);
    check_feedback(dev, "soft-musec", " sharpness=4", 1.2 * 0.013);
    check_feedback(dev, "soft-musec", " sharpness=hard", 1.2 * 0.081);
}
