/* spectrum_test.c - singular values, their statistics and the Lanczos estimate of the norm, against
 * the oracle's own Jacobi values and against spectra whose answers are known. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "oracle.h"

static const struct shape {
    int64_t     rows, cols;
    oracle_kind kind;
    double      top, bottom;
} shapes[] = {
    { 1, 1, ORACLE_FLAT, 3.0, 3.0 },         { 1, 17, ORACLE_FLAT, 2.0, 2.0 },
    { 17, 1, ORACLE_FLAT, 2.0, 2.0 },        { 30, 12, ORACLE_LINEAR, 4.0, 0.1 },
    { 12, 30, ORACLE_GEOMETRIC, 1.0, 1e-9 }, { 20, 20, ORACLE_HALF, 5.0, 0.0 },
    { 25, 31, ORACLE_ONE, 7.0, 0.0 },        { 31, 25, ORACLE_ONE, 50.0, 0.02 },
    { 16, 16, ORACLE_FLAT, 0.3, 0.3 },       { 9, 14, ORACLE_LINEAR, 1e-25, 1e-26 },
    { 14, 9, ORACLE_LINEAR, 1e25, 1e24 },    { 40, 48, ORACLE_GEOMETRIC, 100.0, 1.0 },
};

static oracle make_shape(size_t i)
{
    const struct shape *s = &shapes[i];
    return oracle_make(s->rows, s->cols, s->kind, s->top, s->bottom, 300 + i);
}

static void spectrum(ms_device *dev, musec_dtype dtype, const double *x, int64_t rows, int64_t cols,
                     run_layout layout, double threshold, double *values,
                     musec_spectrum_stats *stats)
{
    run_stack s = run_stack_make(dev, dtype, rows, cols, layout, x, NAN);
    CHECK_OK(dev, musec_spectrum(dev, s.view, threshold, values, stats));
    run_stack_free(dev, &s);
}

/* ---- exact values ---------------------------------------------------------------------------- */

TEST_EACH_DEVICE(values_agree_with_the_oracle, dev)
{
    for (size_t i = 0; i < 2 * COUNT(shapes); i++) {
        const musec_dtype dtype = i % 2 ? MUSEC_F64 : MUSEC_F32;
        oracle            o     = make_shape(i / 2);
        void             *x     = oracle_stored(o.x, o.rows * o.cols, dtype);
        double           *got   = malloc((size_t)o.k * sizeof *got);
        double           *want  = malloc((size_t)o.k * sizeof *want);
        oracle_singular_values(x, dtype, o.rows, o.cols, want);
        spectrum(dev, dtype, o.x, o.rows, o.cols, (run_layout){ .pad = 2 }, 0.0, got, NULL);
        /* float64: backward stable, some 2^-53 of the norm.  float32: by way of the Gram matrix in
         * float64, whose rounding a square root brings to 2^-26.5 of the norm at worst */
        const double err = oracle_max_err(got, MUSEC_F64, want, o.k) / want[0];
        const double f64 = dev->kind->batch_variant ? 1e-13 : 1e-14; /* GPU solvers promise less */
        CHECK(err <= (dtype == MUSEC_F64 ? f64 : 3e-8), "shape %zu: off by %g of the norm", i / 2,
              err);
        for (int64_t l = 1; l < o.k; l++)
            CHECK(got[l] <= got[l - 1] && got[l] >= 0.0, "shape %zu: not descending", i / 2);
        if (dtype == MUSEC_F64) /* the oracle made X from o.s */
            CHECK(oracle_max_err(got, MUSEC_F64, o.s, o.k) <= f64 * o.s[0], "shape %zu", i / 2);
        free(x), free(got), free(want);
        oracle_free(&o);
    }
}

TEST_EACH_DEVICE(stats_follow_from_the_values, dev)
{
    for (size_t i = 0; i < 2 * COUNT(shapes); i++) {
        const musec_dtype dtype = i % 2 ? MUSEC_F64 : MUSEC_F32;
        oracle            o     = make_shape(i / 2);
        const double      D     = 0.7 * o.s[0];
        double            fro = 0.0, nuclear = 0.0, entropy = 0.0, above = 0.0;
        double           *s = malloc((size_t)o.k * sizeof *s);

        musec_spectrum_stats got;
        spectrum(dev, dtype, o.x, o.rows, o.cols, (run_layout){ 0 }, D, s, &got);
        for (int64_t l = 0; l < o.k; l++) {
            fro = hypot(fro, s[l]);
            nuclear += s[l];
            above += s[l] > D;
        }
        for (int64_t l = 0; l < o.k; l++)
            if (s[l] > 0.0) entropy -= s[l] / nuclear * log(s[l] / nuclear);
        CHECK(got.norm2 == s[0], "shape %zu: norm %.17g", i / 2, got.norm2);
        CHECK(fabs(got.fro - fro) <= 1e-14 * fro, "shape %zu: |X|_F %.17g", i / 2, got.fro);
        CHECK(fabs(got.nuclear - nuclear) <= 1e-14 * nuclear, "shape %zu: nuclear %.17g", i / 2,
              got.nuclear);
        CHECK(fabs(got.effective_rank - exp(entropy)) <= 1e-13 * exp(entropy),
              "shape %zu: effective rank %.17g", i / 2, got.effective_rank);
        CHECK(got.share_above == above / (double)o.k, "shape %zu: %g above", i / 2,
              got.share_above);
        free(s);
        oracle_free(&o);
    }
}

TEST_EACH_DEVICE(known_spectra_have_known_stats, dev)
{
    static const struct known {
        oracle_kind kind;
        double      top, bottom, threshold, rank, nuclear, share;
    } known[] = {
        /* 12 x 18 */
        { ORACLE_FLAT, 2.0, 2.0, 1.0, 12.0, 24.0, 1.0 },
        { ORACLE_FLAT, 2.0, 2.0, 3.0, 12.0, 24.0, 0.0 },
        { ORACLE_FLAT, 2.0, 2.0, 0.0, 12.0, 24.0, 0.0 }, /* no threshold, no share */
        { ORACLE_ONE, 5.0, 0.0, 1.0, 1.0, 5.0, 1.0 / 12.0 },
        { ORACLE_HALF, 3.0, 0.0, 1.0, 6.0, 18.0, 0.5 },
        { ORACLE_LINEAR, 12.0, 1.0, 3.999, 0.0, 78.0, 0.75 }, /* 12, 11, ..., 1 */
        { ORACLE_LINEAR, 12.0, 1.0, 4.001, 0.0, 78.0, 8.0 / 12.0 },
        { ORACLE_FLAT, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0 },
    };
    for (size_t i = 0; i < 2 * COUNT(known); i++) {
        const struct known  *k     = &known[i / 2];
        const musec_dtype    dtype = i % 2 ? MUSEC_F64 : MUSEC_F32;
        const double         tol   = dtype == MUSEC_F64 ? 1e-12 : 1e-5;
        oracle               o     = oracle_make(12, 18, k->kind, k->top, k->bottom, i);
        musec_spectrum_stats got;
        spectrum(dev, dtype, o.x, 12, 18, (run_layout){ 0 }, k->threshold, NULL, &got);
        CHECK(fabs(got.norm2 - k->top) <= tol * k->top, "row %zu: norm %g", i / 2, got.norm2);
        CHECK(fabs(got.nuclear - k->nuclear) <= tol * k->nuclear, "row %zu: nuclear %g", i / 2,
              got.nuclear);
        CHECK(got.share_above == k->share, "row %zu: %g above", i / 2, got.share_above);
        if (k->kind != ORACLE_LINEAR)
            CHECK(fabs(got.effective_rank - k->rank) <= tol * k->rank,
                  "row %zu: effective rank %.17g", i / 2, got.effective_rank);
        oracle_free(&o);
    }
}

/* Bit for bit, or within rounding on a device whose bits depend on the batch. */
TEST_EACH_DEVICE(a_stack_has_the_spectra_of_its_matrices, dev)
{
    enum { ROWS = 13, COLS = 9, R = 9, COUNT_OF = 5 };
    const run_layout     layout = { .more = COUNT_OF - 1, .pad = 4, .gap = 3 };
    double              *x      = oracle_gaussian(COUNT_OF * ROWS, COLS, 5);
    double               all[COUNT_OF * R], one[R];
    musec_spectrum_stats stats[COUNT_OF], of_one;

    for (int64_t j = 0; j < ROWS * COLS; j++) { /* one huge, one zero */
        x[ROWS * COLS + j] *= 1e12;
        x[2 * ROWS * COLS + j] = 0.0;
    }
    for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++) {
        spectrum(dev, dtype, x, ROWS, COLS, layout, 1.0, all, stats);
        for (int64_t b = 0; b < COUNT_OF; b++) {
            spectrum(dev, dtype, x + b * ROWS * COLS, ROWS, COLS, (run_layout){ 0 }, 1.0, one,
                     &of_one);
            if (dev->kind->batch_variant) {
                CHECK(run_fro_diff(all + b * R, one, R) <= 1e-6 * one[0], "matrix %d", (int)b);
                CHECK(fabs(stats[b].nuclear - of_one.nuclear) <= 1e-6 * of_one.nuclear, "stats %d",
                      (int)b);
                continue;
            }
            CHECK(run_same_bits(all + b * R, one, R), "matrix %d differs in a stack", (int)b);
            CHECK(memcmp(&stats[b], &of_one, sizeof of_one) == 0, "stats %d", (int)b);
        }
    }
    free(x);
}

TEST_EACH_DEVICE(huge_and_tiny_matrices_neither_overflow_nor_underflow, dev)
{
    static const struct {
        musec_dtype dtype;
        double      size;
    } cases[] = {
        { MUSEC_F32, 1e36 },  { MUSEC_F32, 1e-36 },  { MUSEC_F32, 1e-40 },
        { MUSEC_F64, 1e306 }, { MUSEC_F64, 1e-300 }, { MUSEC_F64, 1e-312 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double c   = cases[i].size;
        oracle       o   = oracle_make(8, 11, ORACLE_LINEAR, 8.0 * c, c, i);
        const double tol = cases[i].dtype == MUSEC_F32 ? 3e-5 : 1e-10; /* 1e-40 has 17 bits */
        double       got[8], norm;
        musec_spectrum_stats stats;
        spectrum(dev, cases[i].dtype, o.x, 8, 11, (run_layout){ 0 }, 0.0, got, &stats);
        CHECK(oracle_max_err(got, MUSEC_F64, o.s, 8) <= tol * o.s[0], "size %g", c);
        CHECK(fabs(stats.nuclear - 36.0 * c) <= tol * 36.0 * c, "size %g: %g", c, stats.nuclear);
        run_stack s = run_stack_make(dev, cases[i].dtype, 8, 11, (run_layout){ 0 }, o.x, NAN);
        CHECK_OK(dev, musec_norm2_estimate(dev, s.view, 8, 1, &norm));
        CHECK(fabs(norm - 8.0 * c) <= tol * 8.0 * c, "size %g: norm %g", c, norm);
        run_stack_free(dev, &s);
        oracle_free(&o);
    }
}

/* ---- the estimate of the norm ---------------------------------------------------------------- */

static double estimate(ms_device *dev, const run_stack *s, int steps, uint64_t seed)
{
    double norm = -1.0;
    CHECK_OK(dev, musec_norm2_estimate(dev, s->view, steps, seed, &norm));
    return norm;
}

/* The mean of 1 - (estimate / norm)^2 over the starts; no single estimate may exceed the norm. */
static double mean_shortfall(ms_device *dev, const oracle *o, musec_dtype dtype, int steps)
{
    enum { SEEDS = 50 };
    const double slack = dtype == MUSEC_F64 ? 1e-12 : 1e-5; /* rounding */
    run_stack    s     = run_stack_make(dev, dtype, o->rows, o->cols, (run_layout){ 0 }, o->x, NAN);
    double       mean  = 0.0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const double ratio = estimate(dev, &s, steps, seed) / o->s[0];
        CHECK(ratio <= 1.0 + slack && ratio > 0.0, "%d steps, seed %d: 1 %+g", steps, (int)seed,
              ratio - 1.0);
        mean += (1.0 - ratio * ratio) / SEEDS;
    }
    run_stack_free(dev, &s);
    return mean - 2.0 * slack;
}

/* Never above the norm, and on average over the start within the bound that the header states. */
TEST_EACH_DEVICE(estimate_keeps_its_bound, dev)
{
    static const struct {
        oracle_kind kind;
        double      bottom;
    } spectra[] = {
        { ORACLE_FLAT, 1.0 },
        { ORACLE_LINEAR, 0.01 },
        { ORACLE_LINEAR, 0.9 },
        { ORACLE_ONE, 0.95 },
    };
    static const int steps[] = { 2, 4, 7, 12 };
    for (size_t i = 0; i < COUNT(spectra); i++) {
        oracle o = oracle_make(30, 36, spectra[i].kind, 1.0, spectra[i].bottom, i);
        for (size_t j = 0; j < COUNT(steps); j++) {
            const musec_dtype dtype = j % 2 ? MUSEC_F64 : MUSEC_F32;
            const double      k     = steps[j] - 1.0;
            const double      bound = 0.103 * pow(log((double)o.k * pow(k, 4.0)) / k, 2.0);
            const double      mean  = mean_shortfall(dev, &o, dtype, steps[j]);
            CHECK(mean <= bound, "spectrum %zu, %d steps: %g of the square, bound %g", i, steps[j],
                  mean, bound);
        }
        oracle_free(&o);
    }
}

/* With as many steps as singular values the Krylov space is the whole space. */
TEST_EACH_DEVICE(as_many_steps_as_singular_values_give_the_norm, dev)
{
    for (size_t i = 0; i < 2 * COUNT(shapes); i++) {
        const musec_dtype dtype  = i % 2 ? MUSEC_F64 : MUSEC_F32;
        oracle            o      = make_shape(i / 2);
        const run_layout  layout = { .pad = 1 };
        run_stack         s      = run_stack_make(dev, dtype, o.rows, o.cols, layout, o.x, NAN);
        for (int more = 0; more <= 10; more += 5) {
            const int    steps = (int)(o.k > 2 ? o.k : 2) + more;
            const double norm  = estimate(dev, &s, steps, 3);
            CHECK(fabs(norm - o.s[0]) <= (dtype == MUSEC_F64 ? 1e-12 : 2e-6) * o.s[0],
                  "shape %zu, %d steps: %.17g, not %.17g", i / 2, steps, norm, o.s[0]);
        }
        run_stack_free(dev, &s);
        oracle_free(&o);
    }
}

TEST_EACH_DEVICE(estimate_depends_on_seed_and_matrix_alone, dev)
{
    enum { ROWS = 30, COLS = 40 };
    const run_layout alone = { 0 }, stacked = { .more = 2, .pad = 2, .gap = 1 };
    double          *x   = oracle_gaussian(3 * ROWS, COLS, 8), three[3];
    run_stack        one = run_stack_make(dev, MUSEC_F64, ROWS, COLS, alone, x + ROWS * COLS, NAN);
    run_stack        all = run_stack_make(dev, MUSEC_F64, ROWS, COLS, stacked, x, NAN);
    const double     a = estimate(dev, &one, 3, 10), again = estimate(dev, &one, 3, 10);
    CHECK(a == again, "the same call gives %.17g and %.17g", a, again);
    CHECK(a != estimate(dev, &one, 3, 11), "the start does not depend on the seed");
    CHECK_OK(dev, musec_norm2_estimate(dev, all.view, 3, 10, three));
    CHECK(fabs(three[1] - a) <= (dev->kind->batch_variant ? 1e-12 * a : 0.0),
          "%.17g alone, %.17g in a stack", a, three[1]);
    run_stack_free(dev, &one), run_stack_free(dev, &all);
    free(x);
}

TEST_EACH_DEVICE(the_estimate_of_a_zero_matrix_is_0, dev)
{
    const double zeros[40] = { 0 };
    for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++) {
        run_stack s = run_stack_make(dev, dtype, 5, 8, (run_layout){ 0 }, zeros, 0.0);
        CHECK(estimate(dev, &s, 4, 1) == 0.0, "the norm of zero");
        run_stack_free(dev, &s);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST_EACH_DEVICE(invalid_arguments_are_refused_and_write_nothing, dev)
{
    static const double        bad_thresholds[] = { -1.0, NAN, INFINITY };
    const musec_spectrum_stats mark             = { .norm2 = -5.0 };
    double                     values[3] = { -5.0, -5.0, -5.0 }, norm = -5.0;
    musec_spectrum_stats       stats = mark;
    run_stack  s = run_stack_make(dev, MUSEC_F64, 3, 4, (run_layout){ 0 }, NULL, 1.0);
    musec_view v = s.view;

    for (size_t i = 0; i < COUNT(bad_thresholds); i++)
        assert_int_equal(musec_spectrum(dev, v, bad_thresholds[i], values, &stats), MUSEC_EINVAL);
    assert_int_equal(musec_spectrum(NULL, v, 0.0, values, &stats), MUSEC_EINVAL);
    assert_int_equal(musec_norm2_estimate(NULL, v, 4, 0, &norm), MUSEC_EINVAL);
    assert_int_equal(musec_norm2_estimate(dev, v, 1, 0, &norm), MUSEC_EINVAL);
    assert_int_equal(musec_norm2_estimate(dev, v, -3, 0, &norm), MUSEC_EINVAL);
    assert_int_equal(musec_norm2_estimate(dev, v, 4, 0, NULL), MUSEC_EINVAL);
    for (int i = 0; i < 5; i++) {
        v = s.view;
        if (i == 0) v.data = NULL;
        if (i == 1) v.rows = 0;
        if (i == 2) v.ld = 3;
        if (i == 3) v.count = 0;
        if (i == 4) v.dtype = (musec_dtype)7;
        dev->error.text[0] = '\0';
        CHECK(musec_spectrum(dev, v, 0.0, values, &stats) == MUSEC_EINVAL, "view %d", i);
        CHECK(musec_norm2_estimate(dev, v, 4, 0, &norm) == MUSEC_EINVAL, "view %d", i);
        CHECK(musec_ctx_error(dev)[0] != '\0', "view %d: no message", i);
    }
    CHECK_OK(dev, musec_spectrum(dev, s.view, 1.0, NULL, NULL)); /* both results are optional */
    run_stack_free(dev, &s);
    CHECK(values[0] == -5.0 && values[1] == -5.0 && values[2] == -5.0 && norm == -5.0 &&
              memcmp(&stats, &mark, sizeof mark) == 0,
          "something was written");
}

TEST_EACH_DEVICE(nan_and_infinity_are_refused_and_nothing_is_written, dev)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t i = 0; i < 2 * COUNT(bad); i++) {
        const musec_dtype    dtype = i % 2 ? MUSEC_F64 : MUSEC_F32;
        double              *x     = oracle_gaussian(2 * 5, 6, i);
        double               values[10], norm[2] = { -5.0, -5.0 };
        musec_spectrum_stats stats[2] = { { .norm2 = -5.0 }, { .norm2 = -5.0 } };
        for (int j = 0; j < 10; j++)
            values[j] = -5.0;
        x[59 - 7 * i] = bad[i / 2];
        run_stack s   = run_stack_make(dev, dtype, 5, 6, (run_layout){ .more = 1 }, x, NAN);
        assert_int_equal(musec_spectrum(dev, s.view, 1.0, values, stats), MUSEC_ENONFINITE);
        assert_int_equal(musec_norm2_estimate(dev, s.view, 3, 0, norm), MUSEC_ENONFINITE);
        for (int j = 0; j < 10; j++)
            CHECK(values[j] == -5.0, "values were written");
        CHECK(norm[0] == -5.0 && norm[1] == -5.0, "norms were written");
        CHECK(stats[0].norm2 == -5.0 && stats[1].norm2 == -5.0, "stats were written");
        run_stack_free(dev, &s);
        free(x);
    }
}
