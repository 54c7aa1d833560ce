/* optim_scale_test.c - thresholds that follow the momentum's scale, the norm ball that the momentum
 * never leaves, and epoch averages. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/linalg.h"
#include "optim_rig.h"
#include "oracle.h"

static const musec_dtype dtypes[] = { MUSEC_F64, MUSEC_F32 };

/* ---- scale-free ------------------------------------------------------------------------------ */

static const struct {
    const char *name, *options;
} scale_free[] = {
    { "musec", "threshold=rms:0.7" },
    { "soft-musec", "threshold=rms:0.7 ns-mode=paper" },
    { "soft-musec", "threshold=rms:0.7 ns-mode=paper7 weight-decay=0.3" },
    { "soft-musec", "threshold=rms:0.7 ns-mode=fast nesterov=yes" },
    { "soft-musec", "threshold=rms:0.7 ns-mode=accurate momentum-form=heavy-ball" },
    { "soft-musec", "threshold=rms:0.7 ns-mode=exact" },
    { "spectra", "threshold=rms:1.5 ns-mode=paper" },
    { "soft-musec", "threshold=quantile:0.5 ns-mode=paper" },
    { "musec", "threshold=quantile:0.8" },
};

/* G -> c G changes nothing where D follows M and the step is divided by D.  A power of two changes
 * no rounding, so the weights agree bit for bit.  With 3.7 the gradients are rounded differently,
 * by 6e-8 in float32 and 1e-16 in float64; ten steps may add that up with the slopes of the maps,
 * only the estimated quantile amplifies it.  With the paper's scale the same pair is far apart. */
TEST_EACH_DEVICE(weights_do_not_depend_on_the_scale_of_the_gradients, dev)
{
    static const rig_param shapes[]  = { { .name = "a", .rows = 6, .cols = 10 },
                                         { .name = "b", .rows = 20, .cols = 7 } };
    static const double    factors[] = { 1024.0, 0x1p-20, 3.7 };
    for (size_t c = 0; c < COUNT(scale_free); c++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            const char *name = scale_free[c].name, *options = scale_free[c].options;
            rig a = rig_makef(dev, dtypes[t], shapes, 2, c, name, "lr=0.05 update-scale=unit %s",
                              options);
            rig_steps(&a, 0, 10);
            for (size_t f = 0; f <= COUNT(factors); f++) {
                const bool   control = f == COUNT(factors);
                const double factor  = control ? 2.0 : factors[f];
                const double bound   = dtypes[t] == MUSEC_F64 ? 1e-12 : 1e-6;
                rig b = rig_makef(dev, dtypes[t], shapes, 2, c, name, "lr=0.05 update-scale=%s %s",
                                  control ? "paper" : "unit", options);
                for (int64_t step = 0; step < 10; step++)
                    rig_step(&b, step, factor);
                for (size_t p = 0; p < 2; p++) {
                    double      *x = rig_weight(&a, p), *y = rig_weight(&b, p);
                    const double err = oracle_rel_err(y, MUSEC_F64, x, rig_elems(&a, p));
                    if (control)
                        CHECK(err >= 1e-3, "%s %s: paper scale", name, options);
                    else if (factor != 3.7)
                        CHECK(rig_same_weight(&a, p, &b, p), "%s %s, factor %g: apart by %g", name,
                              options, factor, err);
                    else
                        CHECK(err <= bound, "%s %s, factor %g: relative error %g, bound %g", name,
                              options, factor, err, bound);
                    free(x), free(y);
                }
                rig_free(&b);
            }
            rig_free(&a);
        }
    }
}

/* The threshold D in the report of a step whose gradient is `factor` times the oracle's X. */
static double threshold_used(ms_device *dev, const oracle *o, const char *threshold, double factor)
{
    const rig_param    param = { .name = "w", .rows = o->rows, .cols = o->cols };
    musec_optim_report report;
    rig     r = rig_makef(dev, MUSEC_F64, &param, 1, 0, "soft-musec", "report-every=1 threshold=%s",
                          threshold);
    double *g = check_alloc((size_t)(o->rows * o->cols) * sizeof *g);
    for (int64_t e = 0; e < o->rows * o->cols; e++)
        g[e] = factor * o->x[e];
    rig_set_grad(&r, 0, g);
    rig_go(&r);
    CHECK_OK(dev, musec_optim_get_report(r.opt, 0, &report));
    free(g);
    rig_free(&r);
    return report.threshold;
}

TEST_EACH_DEVICE(rms_is_the_root_mean_square_of_the_spectrum, dev)
{
    oracle o   = oracle_make(12, 20, ORACLE_LINEAR, 5.0, 0.5, 3);
    double sum = 0.0;
    for (int64_t l = 0; l < o.k; l++)
        sum += o.s[l] * o.s[l];
    const double want = 0.6 * sqrt(sum / (double)o.k),
                 got  = threshold_used(dev, &o, "rms:0.6", 1.0);
    CHECK(fabs(got - want) <= 1e-13 * want, "%.17g, not %.17g", got, want);
    oracle_free(&o);
}

/* The error of the estimated quantile, in units of the spectrum's width.  One random vector weighs
 * each direction by chi-square(1) / r: the share below a value has a standard deviation of at most
 * sqrt(q (1 - q) 2 / r), 0.09 at r = 64, and 16 nodes resolve another 1/16.  In a linear spectrum a
 * share is the same part of the width; 0.25 is two deviations and a node.  The mean over 16
 * matrices has a quarter of that deviation; its bound is 0.06. */
TEST_EACH_DEVICE(quantiles_are_near_the_exact_ones, dev)
{
    static const struct {
        const char *text;
        double      q;
    } cases[] = { { "quantile:0.25", 0.25 }, { "quantile:0.5", 0.5 }, { "quantile:0.9", 0.9 } };
    if (run_is_slow(dev)) return;
    for (size_t c = 0; c < COUNT(cases); c++) {
        double mean = 0.0;
        for (uint64_t seed = 0; seed < 16; seed++) {
            oracle       o    = oracle_make(64, 96, ORACLE_LINEAR, 3.0, 1.0, seed);
            const double want = 1.0 + 2.0 * cases[c].q;
            const double got  = threshold_used(dev, &o, cases[c].text, 1.0);
            const double off  = (got - want) / 2.0;
            CHECK(fabs(off) <= 0.25, "q %g, seed %d: %g, not %g", cases[c].q, (int)seed, got, want);
            mean += off / 16.0;
            if (seed == 0) {
                const double big = threshold_used(dev, &o, cases[c].text, 4096.0);
                CHECK(big == 4096.0 * got, "q %g does not scale: %g and %g", cases[c].q, got, big);
            }
            oracle_free(&o);
        }
        CHECK(fabs(mean) <= 0.06, "q %g: off by %g of the width on average", cases[c].q, mean);
    }
}

/* The quantile of a spectrum with one value is that value; that of zeros is a positive number. */
TEST_EACH_DEVICE(quantiles_of_plain_spectra_are_exact, dev)
{
    oracle flat = oracle_make(8, 12, ORACLE_FLAT, 2.5, 2.5, 1);
    oracle zero = oracle_make(8, 12, ORACLE_FLAT, 0.0, 0.0, 1);
    double got  = threshold_used(dev, &flat, "quantile:0.3", 1.0);
    CHECK(fabs(got - 2.5) <= 1e-6, "flat: %g", got);
    got = threshold_used(dev, &zero, "quantile:0.3", 1.0);
    CHECK(got > 0.0 && got < INFINITY, "zeros: %g", got);
    got = threshold_used(dev, &zero, "rms:0.3", 1.0);
    CHECK(got > 0.0 && got < INFINITY, "zeros: %g", got);
    oracle_free(&flat), oracle_free(&zero);
}

/* ---- thresholds by rule, step by step -------------------------------------------------------- */

static const rig_param three[] = { { .name = "a", .rows = 12, .cols = 20 },
                                   { .name = "b", .rows = 20, .cols = 12 },
                                   { .name = "c", .rows = 12, .cols = 20 } };

static struct {
    ms_device_ops real;
    int           downloads;
} calls;

static musec_status see_download(ms_device *d, const void *device, size_t bytes, void *host)
{
    calls.downloads++;
    return calls.real.download(d, device, bytes, host);
}

/* A step waits once, for the gradients, and again where quantiles are estimated.  In between D
 * keeps its ratio to the root mean square, to the rounding of the norm. */
TEST_EACH_DEVICE(quantiles_are_estimated_at_some_steps, dev)
{
    static const struct {
        int from, every; /* steps, the first being 0 */
    } course[] = { { 0, 1 }, { 16, 2 }, { 32, 4 }, { 64, 8 }, { 128, 16 }, { 256, 32 } };
    static const musec_dtype operands[] = { MUSEC_F32, MUSEC_F16 };
    for (size_t k = 0; k < COUNT(operands); k++) {
        if (!ms_device_has(dev, operands[k])) continue;
        musec_optim_config cfg =
            rig_config("soft-musec", "threshold=quantile:0.5 ns-mode=fast report-every=0");
        cfg.operands = operands[k];
        rig r        = rig_make_with(dev, &cfg, MUSEC_F32, three, COUNT(three), 3);
        for (int t = 0, now = 0; t < 330; t++) {
            if (now + 1 < (int)COUNT(course) && course[now + 1].from == t) now++;
            const bool due = t % course[now].every == 0;
            rig_set_grads(&r, t, 1.0);
            calls.real          = dev->table;
            calls.downloads     = 0;
            dev->table.download = see_download;
            CHECK_OK(dev, rig_try(&r, 1.0));
            dev->table = calls.real;
            CHECK((calls.downloads > 1) == due, "step %d: %d downloads", t + 1, calls.downloads);
        }
        rig_free(&r);
    }
}

/* Rounding to nearest changes a number by at most half a unit in its last place, and so the norm of
 * all: 2^-11 of itself in f16, 2^-9 in bf16.  The fused pass sums in float32 before it rounds, as
 * the other one does. */
TEST_EACH_DEVICE(thresholds_of_rounded_directions_are_near, dev)
{
    static const struct {
        musec_dtype operands;
        double      bound;
    } cases[]                          = { { MUSEC_F16, 0x1p-11 }, { MUSEC_BF16, 0x1p-9 } };
    static const char *const options[] = { "ns-mode=fast threshold=rms:0.7",
                                           "ns-mode=paper threshold=rms:3 nesterov=yes" };
    for (size_t i = 0; i < COUNT(cases) * COUNT(options); i++) {
        const size_t       c   = i % COUNT(cases);
        musec_optim_config cfg = rig_config("soft-musec", options[i / COUNT(cases)]);
        musec_optim_report got, want;
        cfg.report_every = 1;
        if (!ms_device_has(dev, cases[c].operands)) continue;
        rig wide     = rig_make_with(dev, &cfg, MUSEC_F32, three, COUNT(three), 3);
        cfg.operands = cases[c].operands;
        rig narrow   = rig_make_with(dev, &cfg, MUSEC_F32, three, COUNT(three), 3);
        rig_step(&wide, 0, 1.0), rig_step(&narrow, 0, 1.0);
        for (size_t p = 0; p < COUNT(three); p++) {
            CHECK_OK(dev, musec_optim_get_report(wide.opt, p, &want));
            CHECK_OK(dev, musec_optim_get_report(narrow.opt, p, &got));
            CHECK(fabs(got.threshold / want.threshold - 1.0) <= cases[c].bound &&
                      got.threshold != want.threshold,
                  "%s, %s: D is %.9g, not %.9g", options[i / COUNT(cases)], three[p].name,
                  got.threshold, want.threshold);
        }
        rig_free(&wide), rig_free(&narrow);
    }
}

/* A matrix whose gradients are zero at first does not move, its neighbours in the batch do; then it
 * moves as one of its own would. */
TEST_EACH_DEVICE(a_matrix_of_zeros_has_a_threshold, dev)
{
    static const char *const rules[]    = { "rms:0.7", "quantile:0.5" };
    static const musec_dtype operands[] = { MUSEC_F32, MUSEC_F16 };
    for (size_t i = 0; i < COUNT(rules) * COUNT(operands); i++) {
        const char *rule = rules[i % COUNT(rules)];
        if (!ms_device_has(dev, operands[i / COUNT(rules)])) continue;
        musec_optim_config cfg = rig_config("soft-musec", "ns-mode=fast update-scale=unit");
        CHECK(musec_optim_config_set(&cfg, "threshold", rule) == MUSEC_OK, "%s", rule);
        cfg.operands     = operands[i / COUNT(rules)];
        cfg.report_every = 0;
        rig r            = rig_make_with(dev, &cfg, MUSEC_F32, three, COUNT(three), 3);
        for (int64_t t = 0; t < 6; t++) {
            rig_set_grads(&r, t, 1.0);
            double *zeros = calloc((size_t)rig_elems(&r, 2), sizeof *zeros);
            if (t < 3) rig_set_grad(&r, 2, zeros);
            rig_go(&r);
            free(zeros);
            for (size_t p = 0; p < COUNT(three); p++) {
                double *w = rig_weight(&r, p);
                CHECK(rig_unmoved(&r, p) == (p == 2 && t < 3), "%s, step %d: %s", rule, (int)t + 1,
                      three[p].name);
                for (int64_t e = 0; e < rig_elems(&r, p); e++)
                    CHECK(fabs(w[e]) <= 100.0, "%s, step %d: %s holds %g", rule, (int)t + 1,
                          three[p].name, w[e]);
                free(w);
            }
        }
        rig_free(&r);
    }
}

/* ---- the ball -------------------------------------------------------------------------------- */

/* A random kind of gradient: normal; with one element, or all of them, 1e6 times larger; zero; of
 * rank one; tiny; large and negated. */
static void adversary(uint64_t *state, int64_t rows, int64_t cols, double *g)
{
    const int    kind  = (int)(oracle_uniform(state) * 7.0);
    const double large = kind == 2 ? 1e6 : kind == 5 ? 1e-25 : kind == 6 ? -1e3 : 1.0;
    for (int64_t i = 0; i < rows; i++) {
        const double row = oracle_normal(state);
        for (int64_t j = 0; j < cols; j++)
            g[i * cols + j] = kind == 3   ? 0.0
                              : kind == 4 ? 1e3 * row * cos((double)j)
                                          : large * oracle_normal(state);
    }
    if (kind == 1) g[(int64_t)(oracle_uniform(state) * (double)(rows * cols))] *= 1e6;
}

/* The bound is D (1 + 1e-5): the maps stay below D except for the rounding of float32. */
static void stays_in_the_ball(ms_device *dev, const char *name, const char *mode, int64_t steps)
{
    static const rig_param shapes[] = { { .name = "a", .rows = 5, .cols = 8 },
                                        { .name = "b", .rows = 6, .cols = 6 } };
    uint64_t               state    = 77;
    rig                    r        = rig_makef(dev, MUSEC_F32, shapes, COUNT(shapes), 1, name,
                                                "lr=0.02 threshold=0.25 beta=0.05 "
                                                                          "ns-mode=%s",
                                                mode);
    for (int64_t step = 0; step < steps; step++) {
        for (size_t p = 0; p < COUNT(shapes); p++) {
            double g[40];
            adversary(&state, shapes[p].rows, shapes[p].cols, g);
            rig_set_grad(&r, p, g);
        }
        rig_go(&r);
        for (size_t p = 0; p < COUNT(shapes); p++) {
            double      *m    = rig_state(&r, p, 0, "momentum", rig_elems(&r, p));
            const double norm = oracle_norm2(m, MUSEC_F64, shapes[p].rows, shapes[p].cols);
            CHECK(norm <= 0.25 * (1.0 + 1e-5), "%s %s, step %d, %s: the norm is D (1 + %g)", name,
                  mode, (int)step, shapes[p].name, norm / 0.25 - 1.0);
            free(m);
        }
    }
    rig_free(&r);
}

TEST_EACH_DEVICE(the_momentum_stays_in_the_ball, dev)
{
    static const char *const modes[] = { "paper", "paper7", "fast", "accurate", "exact" };
    stays_in_the_ball(dev, "musec", "exact", 1000);
    for (size_t m = 0; m < COUNT(modes); m++)
        stays_in_the_ball(dev, "soft-musec", modes[m], 1000);
}

/* ---- epoch averages -------------------------------------------------------------------------- */

/* Runs 12 steps, 3 epochs of 4.  The average must be the mean of the weights before the steps of
 * one epoch, the same epoch for every parameter; the running mean rounds once a step. */
static int64_t picked_epoch(ms_device *dev, const char *name, uint64_t seed, musec_dtype dtype)
{
    enum { EPOCHS = 3, LENGTH = 4, N = 24 };
    static const rig_param params[] = {
        { .name = "a", .rows = 4, .cols = 6, .layout = { .pad = 1 } },
        { .name = "b", .role = MUSEC_ROLE_HEAD, .rows = 6, .cols = 4 }
    };
    double             means[2][EPOCHS][N] = { { { 0 } } };
    musec_optim_config cfg   = rig_config(name, "avg-steps=4 avg-epochs=3 lr=0.1 aux-lr=0.1");
    const double       bound = 8.0 * ms_dtype_eps(dtype);
    int64_t            found = -1;
    cfg.seed                 = seed;
    rig r                    = rig_make_with(dev, &cfg, dtype, params, 2, seed);
    for (int64_t step = 0; step < EPOCHS * LENGTH; step++) {
        for (size_t p = 0; p < 2; p++) {
            double *w = rig_weight(&r, p);
            for (int e = 0; e < N; e++)
                means[p][step / LENGTH][e] += w[e] / LENGTH;
            free(w);
        }
        rig_step(&r, step, 1.0);
    }
    for (size_t p = 0; p < 2; p++) {
        double *average = rig_state(&r, p, 0, "average", N);
        int64_t best    = -1;
        for (int64_t k = 0; k < EPOCHS; k++)
            if (oracle_rel_err(average, MUSEC_F64, means[p][k], N) <= bound) best = k;
        CHECK(best >= 0, "%s, %s: the average of no epoch", name, params[p].name);
        CHECK(found < 0 || found == best, "%s: epochs %d and %d", name, (int)found, (int)best);
        found = best;
        free(average);
    }
    rig_free(&r);
    return found;
}

TEST_EACH_DEVICE(the_average_is_that_of_one_epoch, dev)
{
    static const char *const names[] = { "musec", "soft-musec", "adamw" };
    int                      seen[3] = { 0 };
    for (size_t i = 0; i < COUNT(names); i++)
        for (uint64_t seed = 0; seed < 10; seed++)
            seen[picked_epoch(dev, names[i], seed, dtypes[seed % 2])]++;
    for (int k = 0; k < 3; k++)
        CHECK(seen[k] > 0, "epoch %d of 3 was never picked", k);
}

/* 2000 seeds over 5 epochs: chi-square with 4 degrees of freedom is above 23.5 once in 10,000. */
TEST_EACH_DEVICE(the_epoch_is_picked_uniformly, dev)
{
    enum { EPOCHS = 5, SEEDS = 2000 };
    const rig_param     param   = { .name = "w", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 1 };
    static const double zero[1] = { 0.0 };
    int                 seen[EPOCHS] = { 0 };
    double              chi          = 0.0;
    musec_optim_config  cfg          = rig_config("sgdm", "avg-steps=1 avg-epochs=5");
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        cfg.seed     = seed;
        rig    r     = rig_make_with(dev, &cfg, MUSEC_F64, &param, 1, 1);
        double start = (double)seed + 1.0;
        rig_set_grad(&r, 0, zero);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            rig_set_weight(&r, 0, &start);
            rig_go(&r);
            double    *average = rig_state(&r, 0, 0, "average", 1);
            const bool now     = average[0] == start;
            free(average);
            seen[epoch] += now;
            if (now) break;
        }
        rig_free(&r);
    }
    for (int k = 0; k < EPOCHS; k++) {
        const double want = (double)SEEDS / EPOCHS;
        chi += (seen[k] - want) * (seen[k] - want) / want;
    }
    CHECK(chi <= 23.5, "chi-square %g: %d %d %d %d %d", chi, seen[0], seen[1], seen[2], seen[3],
          seen[4]);
}
