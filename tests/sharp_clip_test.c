/* sharp_clip_test.c - clips between the soft one and the hard one, by products: their chains.
 *
 * The chains are held to their own definition in float64, on a grid that is fine where the hard
 * clip has its corner; then come what the reports say of them, and what feedback makes of their
 * errors.  What the operators make of singular values is in linalg_spectra_test.c. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_law.h"
#include "clip_run.h"
#include "linalg/sharp_chain.h"
#include "optim_rig.h"
#include "oracle.h"

/* ---- chains ---------------------------------------------------------------------------------- */

static void check_chain(const ms_sharp_chain *c)
{
    enum { POINTS = 100000 };
    const double below = 1.0 / (1.0 + 0.7 * 0.7); /* zeta at s = 0.7 D */
    double       worst = 0.0, worst_below = 0.0, excess = 0.0;
    for (int i = 0; i <= POINTS; i++) {
        const double at    = (double)i / POINTS,
                     bent  = 0.5 + 0.5 * (2.0 * at - 1.0) * fabs(2.0 * at - 1.0);
        const double zeta  = i % 2 ? at : bent; /* half of the points gather at the corner */
        const double error = 1.0 - law_chain(c, 1.0 - 2.0 * zeta) / law_bend(zeta, c->sharpness);
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

/* What other tests hold hard-fast and sharp-fast to is what their chains state. */
TEST(fast_operators_take_chains_of_known_error)
{
    static const double sharp[] = { 4.0, 8.0, 16.0, 32.0, INFINITY };
    for (size_t i = 0; i < COUNT(sharp); i++)
        CHECK(ms_sharp_chain_find(sharp[i], 3e-2, 5e-3)->error == law_chain_error(sharp[i]),
              "sharpness %g", sharp[i]);
}

/* ---- operators ------------------------------------------------------------------------------- */

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

/* An optimizer that stores the clipped momentum, and how far 200 steps of `fast` with a constant
 * gradient may end from those of the exact clip: the column "after feedback" of docs/operators.md,
 * in units of D. */
static const struct feedback_case {
    const char *optimizer, *options;
    double      after;
} feedback_cases[] = {
    { "musec", "", 0.081 },
    { "soft-musec", " sharpness=4", 1.3e-2 },
    { "soft-musec", " sharpness=8", 1.7e-2 },
    { "soft-musec", " sharpness=32", 6.9e-2 },
    { "soft-musec", " sharpness=hard", 0.081 },
};

static double *momentum_after(ms_device *dev, const struct feedback_case *c, const char *mode,
                              musec_dtype operands, const oracle *o)
{
    static const rig_param one[] = { { .name = "w", .rows = 16, .cols = 24 } };
    char                   options[128];
    snprintf(options, sizeof options, "threshold=0.5 lr=0 ns-mode=%s operands=%s%s", mode,
             ms_dtype_name(operands), c->options);
    rig r = rig_make(dev, c->optimizer, options, MUSEC_F32, one, 1, 3);
    rig_set_grad(&r, 0, o->x);
    for (int step = 0; step < 200; step++)
        rig_go(&r);
    double *momentum = rig_state(&r, 0, 0, "momentum", 16 * 24);
    rig_free(&r);
    return momentum;
}

/* What docs/operators.md states, in units of D.  `fast`: 1.2 times the column, for its soft stage
 * errs too; `accurate`: tol / beta, its tol being beta / 100 here.  16-bit operands add 2e-3 or
 * 2e-2, and then `accurate` takes the chain of `fast`. */
static double feedback_bound(const struct feedback_case *c, bool accurate, musec_dtype operands)
{
    const double rounding = operands == MUSEC_F16 ? 2e-3 : operands == MUSEC_BF16 ? 2e-2 : 0.0;
    const double chain    = accurate && operands == MUSEC_F32 ? 0.0 : 1.2 * c->after;
    return chain + (accurate ? 0.01 : 0.0) + rounding;
}

static void check_feedback(ms_device *dev, const struct feedback_case *c, const oracle *o)
{
    static const musec_dtype operands[] = { MUSEC_F32, MUSEC_F16, MUSEC_BF16 };
    const double             D          = 0.5;
    double                  *exact      = momentum_after(dev, c, "exact", MUSEC_F32, o);
    for (size_t i = 0; i < 2 * COUNT(operands); i++) {
        const bool        accurate = i % 2;
        const musec_dtype type     = operands[i / 2];
        if (!ms_device_has(dev, type)) continue;
        const char  *mode  = accurate ? "accurate" : "fast";
        const double bound = feedback_bound(c, accurate, type) * D;
        double      *got   = momentum_after(dev, c, mode, type, o);
        const double err   = run_norm2_diff(got, exact, 16, 24, bound);
        CHECK(err <= bound, "%s%s, %s, %s: %g D from the exact clip, bound %g D", c->optimizer,
              c->options, mode, ms_dtype_name(type), err / D, bound / D);
        free(got);
    }
    free(exact);
}

/* Gradients with singular values up to D, where the chains are worst, and up to 3 D. */
TEST_EACH_DEVICE(feedback_drifts_no_further_than_stated, dev)
{
    oracle edge = oracle_make(16, 24, ORACLE_LINEAR, 0.5, 0.025, 9);
    oracle high = oracle_make(16, 24, ORACLE_GEOMETRIC, 1.5, 0.025, 10);
    for (size_t i = 0; i < COUNT(feedback_cases); i++) {
        if (check_takes_case()) check_feedback(dev, &feedback_cases[i], &edge);
        if (check_takes_case()) check_feedback(dev, &feedback_cases[i], &high);
    }
    oracle_free(&edge);
    oracle_free(&high);
}
