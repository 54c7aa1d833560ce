/* newton_schulz_test.c - Muon's quintic steps against their scalar map.
 *
 * Each step acts on the singular values alone, x <- a x + b x^3 + c x^5, so the answer for a matrix
 * of known SVD is known.  The coefficients stand here once more, as their authors publish them. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "oracle.h"

static const double keller[][3] = { { 3.4445, -4.7750, 2.0315 } };

static const double polar_express[][3] = {
    /* made for x up to 1.02 */
    { 8.156554524902461, -22.48329292557795, 15.878769915207462 },
    { 4.042929935166739, -2.808917465908714, 0.5000178451051316 },
    { 3.8916678022926607, -2.772484153217685, 0.5060648178503393 },
    { 3.285753657755655, -2.3681294933425376, 0.46449024233003106 },
    { 2.3465413258596377, -1.7097828382687081, 0.42323551169305323 },
};

static const struct list {
    const char *name;
    const double (*step)[3]; /* the last one repeats */
    int    n_steps;
    double factor, eps; /* X starts as M / (factor |M|_F + eps) */
    double low, high;   /* where five steps bring what starts between 0.01 and 1 */
} lists[] = {
    { "keller", keller, COUNT(keller), 1.0, 1e-7, 0.67, 1.14 },
    { "polar-express", polar_express, COUNT(polar_express), 1.02, 1e-7, 0.85, 1.15 },
};

typedef struct law {
    const struct list *list;
    double             fro;
    int                iters;
} law;

static double law_apply(double s, const void *arg)
{
    const law *l = arg;
    double     x = s / (l->list->factor * l->fro + l->list->eps);
    for (int k = 0; k < l->iters; k++) {
        const double *c = l->list->step[k < l->list->n_steps ? k : l->list->n_steps - 1];
        x               = c[0] * x + c[1] * x * x * x + c[2] * x * x * x * x * x;
    }
    return x;
}

static const struct shape {
    int64_t     rows, cols;
    oracle_kind kind;
    double      top, bottom;
} shapes[] = {
    { 24, 40, ORACLE_GEOMETRIC, 3.0, 0.01 }, { 40, 24, ORACLE_LINEAR, 1.0, 0.1 },
    { 16, 16, ORACLE_HALF, 2.0, 0.0 },       { 12, 20, ORACLE_FLAT, 1e-6, 1e-6 },
    { 20, 12, ORACLE_ONE, 1e8, 1e6 },        { 1, 9, ORACLE_FLAT, 3.0, 3.0 },
    { 9, 1, ORACLE_FLAT, 3.0, 3.0 },         { 10, 14, ORACLE_LINEAR, 1e-9, 1e-10 }, /* eps rules */
};

/* Slopes up to 8.2 and 4.0 a step multiply the rounding of what went before: about 1000 units of
 * 2^-53 or 2^-24 after five steps, and 3.4 or 2.3 times that for each further one. */
static double bound(musec_dtype dtype, int iters)
{
    const double five = dtype == MUSEC_F64 ? 1e-12 : 1e-4;
    return iters <= 5 ? five : five * pow(3.5, iters - 5);
}

TEST_EACH_DEVICE(steps_follow_their_scalar_map, dev)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const struct shape *sh = &shapes[i];
        oracle o = oracle_make(sh->rows, sh->cols, sh->kind, sh->top, sh->bottom, 500 + i);
        for (size_t j = 0; j < COUNT(lists); j++) {
            for (int iters = 1; iters <= 7; iters++) {
                const law         l   = { &lists[j], run_fro(o.s, o.k), iters };
                musec_clip_config cfg = run_config("ns5", 1.0);
                cfg.coeffs            = lists[j].name;
                cfg.iters             = iters;
                oracle_map(&o, law_apply, &l);
                for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++) {
                    double      *got = run_clip(dev, &cfg, dtype, o.x, sh->rows, sh->cols, NULL);
                    const double err = oracle_rel_err(got, MUSEC_F64, o.want, sh->rows * sh->cols);
                    CHECK(err <= bound(dtype, iters), "%s, shape %zu, %d steps, %s: %g",
                          lists[j].name, i, iters, dtype == MUSEC_F32 ? "f32" : "f64", err);
                    free(got);
                }
            }
        }
        oracle_free(&o);
    }
}

/* What the steps are for: five of them bring a spectrum that spans two decades near 1. */
TEST_EACH_DEVICE(five_steps_come_near_the_polar_factor, dev)
{
    oracle o = oracle_make(20, 30, ORACLE_GEOMETRIC, 1.0, 0.03, 4);
    for (size_t j = 0; j < COUNT(lists); j++) {
        musec_clip_config cfg = run_config("ns5", 1.0);
        double            s[20];
        cfg.coeffs  = lists[j].name;
        double *got = run_clip(dev, &cfg, MUSEC_F32, o.x, 20, 30, NULL);
        oracle_singular_values(got, MUSEC_F64, 20, 30, s);
        CHECK(s[0] <= lists[j].high && s[19] >= lists[j].low, "%s: from %g to %g", lists[j].name,
              s[19], s[0]);
        free(got);
    }
    oracle_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_their_scalar_map),
        cmocka_unit_test(five_steps_come_near_the_polar_factor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
