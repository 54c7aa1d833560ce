/* newton_schulz_test.c - Muon's quintic steps against their scalar map.
 *
 * Each step acts on the singular values alone, x <- a x + b x^3 + c x^5, so the result for a matrix
 * of known SVD is known.  The coefficients are repeated here, as their authors publish them. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "linalg/linalg.h"
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

static const double cans[][3] = {
    { 8.4703, -25.1081, 18.6293 }, { 4.1828, -3.1087, 0.5806 }, { 3.9619, -2.9541, 0.5630 },
    { 3.2866, -2.4647, 0.5074 },   { 2.2737, -1.6447, 0.4162 },
};

static const double you[][3] = {
    { 4.0848, -6.8946, 2.9270 }, { 3.9505, -6.3029, 2.6377 }, { 3.7418, -5.5913, 2.3037 },
    { 2.8769, -3.1427, 1.2046 }, { 2.8366, -3.0525, 1.2012 },
};

static const double turbo[][3] = { { 4.6051, -9.6552, 5.6769 },
                                   { 4.7505, -6.0861, 2.1790 },
                                   { 2.7763, -2.3190, 0.5523 },
                                   { 2.4231, -2.2861, 0.8193 } };

static const double cubic[][3] = {
    { 3.3656576, -3.3420992, 0.0 }, { 2.5744352, -1.4957376, 0.0 }, { 2.5368962, -1.4312570, 0.0 },
    { 2.4418906, -1.2764040, 0.0 }, { 2.2230472, -0.9630650, 0.0 },
};

static const struct list {
    const char *name;
    const double (*step)[3]; /* the last one repeats */
    int    n_steps;
    double factor, eps; /* X starts as M / (factor |M|_F + eps) */
    double low, high;   /* the range after five steps of values that start between 0.01 and 1 */
    double f16;         /* the error of single steps on the spread spectra below */
} lists[] = {
    { "keller", keller, COUNT(keller), 1.0, 1e-7, 0.67, 1.14, 3.2e-3 },
    { "polar-express", polar_express, COUNT(polar_express), 1.02, 1e-7, 0.85, 1.15, 4.6e-3 },
    { "cans", cans, COUNT(cans), 1.01, 1e-7, 0.88, 1.13, 1e-2 },
    { "you", you, COUNT(you), 1.0, 1e-7, 0.97, 1.04, 4.6e-3 },
    { "turbo", turbo, COUNT(turbo), 1.0, 1e-7, 0.94, 0.99, 4.6e-3 },
    { "cubic", cubic, COUNT(cubic), 1.0, 1e-7, 0.77, 1.31, 4.6e-3 },
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

/* The relative error of the steps on the oracle's X, by Frobenius norms; operands 0: default. */
static double step_error(ms_device *dev, oracle *o, const struct list *list, int iters,
                         musec_dtype dtype, musec_dtype operands)
{
    const law         l   = { list, run_fro(o->s, o->k), iters };
    musec_clip_config cfg = run_config("ns5", 1.0);
    cfg.coeffs            = list->name;
    cfg.iters             = iters;
    if (operands != 0) cfg.operands = operands;
    oracle_map(o, law_apply, &l);
    double      *got = run_clip(dev, &cfg, dtype, o->x, o->rows, o->cols, NULL);
    const double err = oracle_rel_err(got, MUSEC_F64, o->want, o->rows * o->cols);
    free(got);
    return err;
}

/* Each step multiplies earlier rounding errors by its slope, up to 8.2 or 4.0: about 1000 units of
 * 2^-53 or 2^-24 after five steps, and 3.4 or 2.3 times as much for each further step. */
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
        for (size_t j = 0; j < COUNT(lists); j++)
            for (int iters = 1; iters <= 7; iters++)
                for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++) {
                    const double err = step_error(dev, &o, &lists[j], iters, dtype, 0);
                    CHECK(err <= bound(dtype, iters), "%s, shape %zu, %d steps, %s: %g",
                          lists[j].name, i, iters, ms_dtype_name(dtype), err);
                }
        oracle_free(&o);
    }
}

/* The purpose of the steps: five of them bring singular values over two decades near 1. */
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

/* ---- 16 bits, and several steps at a time ---------------------------------------------------- */

static const musec_dtype narrow[] = { MUSEC_F16, MUSEC_BF16 };

/* The relative error in the Frobenius norm that is allowed: twice the error of single steps in f16
 * on the spread spectra below; bf16 has 3 bits fewer. */
static double narrow_bound(const struct list *list, musec_dtype dtype)
{
    return 2.0 * list->f16 * (dtype == MUSEC_BF16 ? 8.0 : 1.0);
}

/* Oblong shapes take several steps at a time (fused_steps_are_few_and_the_longer_ones_first). */
TEST_EACH_DEVICE(fused_steps_follow_the_scalar_map, dev)
{
    static const struct shape long_ones[] = {
        { 16, 64, ORACLE_LINEAR, 30.0, 3.0 },
        { 64, 16, ORACLE_GEOMETRIC, 2.0, 0.06 },
        { 24, 48, ORACLE_GEOMETRIC, 1e-3, 1e-4 },
        /* with few different values the error depends on the map's slope there; the first list's
         * map is flat */
        { 50, 10, ORACLE_FLAT, 1e4, 1e4 },
        { 1, 9, ORACLE_FLAT, 3.0, 3.0 },
        { 2, 4, ORACLE_LINEAR, 1.0, 0.5 },
    };
    for (size_t i = 0; i < COUNT(long_ones) * COUNT(narrow) * COUNT(lists); i++) {
        const struct shape *sh       = &long_ones[i / 2 / COUNT(lists)];
        const musec_dtype   type     = narrow[i % 2];
        const struct list  *list     = &lists[i / 2 % COUNT(lists)];
        const size_t        long_one = i / 2 / COUNT(lists);
        if (!ms_device_has(dev, type) || (long_one > 2 && list != &lists[0])) continue;
        oracle o = oracle_make(sh->rows, sh->cols, sh->kind, sh->top, sh->bottom, 40 + i);
        for (int iters = 1; iters <= 7; iters++) {
            const double err = step_error(dev, &o, list, iters, MUSEC_F32, type);
            CHECK(err <= narrow_bound(list, type), "%s, shape %zu, %d steps, dtype %d: %g",
                  list->name, long_one, iters, (int)type, err);
        }
        oracle_free(&o);
    }
}

/* Columns of zeros change no singular value, but make the matrix oblong: the same steps are done
 * one by one and several at a time. */
TEST_EACH_DEVICE(fused_steps_agree_with_single_steps, dev)
{
    enum { ROWS = 24, COLS = 30, LONG = 72 };
    oracle o              = oracle_make(ROWS, COLS, ORACLE_GEOMETRIC, 1.0, 0.05, 77);
    double x[ROWS * LONG] = { 0 };
    for (int i = 0; i < ROWS * COLS; i++)
        x[i / COLS * LONG + i % COLS] = o.x[i];
    for (size_t i = 0; i < COUNT(narrow) * COUNT(lists) * 6; i++) {
        const musec_dtype  type   = narrow[i % 2];
        const struct list *list   = &lists[i / 2 % COUNT(lists)];
        musec_clip_config  cfg    = run_config("ns5", 1.0);
        double             square = 0.0, zeros = 0.0;
        if (!ms_device_has(dev, type)) continue;
        cfg.coeffs   = list->name;
        cfg.iters    = 1 + (int)(i / 2 / COUNT(lists));
        cfg.operands = type;
        double *one  = run_clip(dev, &cfg, MUSEC_F32, o.x, ROWS, COLS, NULL);
        double *two  = run_clip(dev, &cfg, MUSEC_F32, x, ROWS, LONG, NULL);
        for (int e = 0; e < ROWS * LONG; e++) {
            const int    row = e / LONG, col = e % LONG;
            const double diff = col < COLS ? two[e] - one[row * COLS + col] : 0.0;
            square += diff * diff;
            zeros += col < COLS ? 0.0 : fabs(two[e]);
        }
        const double err = sqrt(square) / run_fro(one, (int64_t)ROWS * COLS);
        CHECK(err <= narrow_bound(list, type) && zeros == 0.0, "%s, %d steps, dtype %d: %g, %g",
              cfg.coeffs, cfg.iters, (int)type, err, zeros);
        free(one), free(two);
    }
    oracle_free(&o);
}

static struct {
    ms_device_ops real;
    int           full, grams; /* products r x r that are not symmetric; Gram matrices of X */
    char          runs[16];    /* the number of steps in each run of fused steps, as a digit */
} seen;

/* Counts the product instead of computing it. */
static musec_status see_product(ms_device *d, const ms_product *p)
{
    const size_t n = strlen(seen.runs);
    (void)d;
    if (p->symmetric) {
        seen.grams += p->a.cols > p->a.rows;
    } else if (p->c.rows == p->c.cols) {
        seen.full++;
    } else if (n + 1 < sizeof seen.runs) { /* X <- Q X ends a run of 1 + full / 2 steps */
        seen.runs[n] = (char)('1' + seen.full / 2);
        seen.full    = 0;
    }
    return MUSEC_OK;
}

TEST_EACH_DEVICE(fused_steps_are_few_and_the_longer_ones_first, dev)
{
    enum { MOST = 9 }; /* steps */
    static const char *const ones[MOST]   = { "1", "11", "111", "1111", "11111" };
    static const char *const twos[MOST]   = { "1",   "2",    "21",   "22",   "221",
                                              "222", "2221", "2222", "22221" };
    static const char *const threes[MOST] = {
        "1", "2", "3", "22", "32", "33", "322", "332", "333"
    };
    static const struct {
        int64_t            rows, cols;
        musec_dtype        operands;
        int                list;
        const char *const *runs; /* of 1, 2, ... steps */
    } these[] = {
        { 256, 512, MUSEC_F16, 0, threes }, { 600, 300, MUSEC_F16, 0, threes },
        { 255, 512, MUSEC_F16, 0, twos },   { 256, 512, MUSEC_F16, 1, twos },
        { 256, 512, MUSEC_BF16, 0, twos },  { 24, 6, MUSEC_F16, 0, twos },
        { 256, 511, MUSEC_F16, 0, ones },   { 6, 24, MUSEC_F32, 0, ones },
    };
    for (size_t i = 0; i < COUNT(these); i++) {
        double *x = oracle_gaussian(these[i].rows, these[i].cols, 9);
        for (int k = 0; k < MOST && these[i].runs[k] != NULL; k++) {
            musec_clip_config cfg = run_config("ns5", 1.0);
            if (!ms_device_has(dev, these[i].operands)) continue;
            cfg.coeffs   = lists[these[i].list].name;
            cfg.iters    = k + 1;
            cfg.operands = these[i].operands;
            memset(&seen, 0, sizeof seen);
            seen.real          = dev->table;
            dev->table.product = see_product;
            free(run_clip(dev, &cfg, MUSEC_F32, x, these[i].rows, these[i].cols, NULL));
            dev->table = seen.real;
            CHECK(strcmp(seen.runs, these[i].runs[k]) == 0 && seen.grams == (int)strlen(seen.runs),
                  "case %zu, %d steps: runs %s, %d Gram matrices", i, k + 1, seen.runs, seen.grams);
        }
        free(x);
    }
}

/* keller's steps on x times `scale`, a power of two, in 16 bits; malloc'ed. */
static double *run_scaled(ms_device *dev, musec_dtype type, const double *x, int64_t rows,
                          int64_t cols, double scale, int iters)
{
    const ms_mark mark   = ms_arena_mark(&dev->scratch);
    run_stack     in     = run_stack_make(dev, MUSEC_F32, rows, cols, (run_layout){ 0 }, x, 0.0);
    run_stack     out    = run_stack_make(dev, MUSEC_F32, rows, cols, (run_layout){ 0 }, NULL, 0.0);
    ms_scaled_mat scaled = { 0 };
    CHECK_OK(dev, ms_scratch_mat(dev, type, 1, rows, cols, &scaled.mat));
    CHECK_OK(dev, ms_scratch_vec(dev, 1, &scaled.scale));
    CHECK_OK(dev, dev->ops->scale(dev, ms_const(scale), ms_mat_of(in.view)));
    CHECK_OK(dev, dev->ops->copy(dev, ms_mat_of(in.view), scaled.mat));
    CHECK_OK(dev, dev->ops->upload(dev, &scale, sizeof scale, scaled.scale.data));
    CHECK_OK(dev, ms_newton_schulz(dev, scaled, ms_quintic_list_find("keller"), iters, type,
                                   ms_mat_of(out.view)));
    double *got = run_stack_read(dev, &out, 0.0);
    run_stack_free(dev, &in), run_stack_free(dev, &out);
    ms_arena_reset(&dev->scratch, mark);
    return got;
}

/* The shapes are large enough for three fused steps: 3 + 2, and 3 with input that the steps
 * normalise. */
TEST_EACH_DEVICE(three_fused_steps_follow_the_scalar_map, dev)
{
    enum { ROWS = 256, COLS = 512 };
    static const struct shape large[] = {
        { ROWS, COLS, ORACLE_GEOMETRIC, 1.0, 0.01 },
        { COLS, ROWS, ORACLE_LINEAR, 30.0, 3.0 },
    };
    for (size_t i = 0; i < COUNT(large) && ms_device_has(dev, MUSEC_F16); i++) {
        const struct shape *sh = &large[i];
        oracle    o = oracle_make(sh->rows, sh->cols, sh->kind, sh->top, sh->bottom, 60 + i);
        const law l = { &lists[0], run_fro(o.s, o.k), i == 0 ? 5 : 3 };
        musec_clip_config cfg = run_config("ns5", 1.0);
        cfg.iters             = l.iters;
        cfg.operands          = MUSEC_F16;
        oracle_map(&o, law_apply, &l);
        double *got;
        if (i == 0)
            got = run_clip(dev, &cfg, MUSEC_F32, o.x, sh->rows, sh->cols, NULL);
        else
            got = run_scaled(dev, MUSEC_F16, o.x, sh->rows, sh->cols, 0x1p-4, l.iters);
        const double err = oracle_rel_err(got, MUSEC_F64, o.want, sh->rows * sh->cols);
        CHECK(err <= narrow_bound(l.list, MUSEC_F16), "shape %zu: %g", i, err);
        free(got);
        oracle_free(&o);
    }
}

/* Input of 16 bits is normalised by the trace of its Gram matrix, which must not overflow in f16.
 * Two orthogonal rows of n entries +1 and -1 have two equal singular values, sqrt(n). */
TEST_EACH_DEVICE(long_rows_do_not_overflow, dev)
{
    enum { N = 140000 };
    double   *x = malloc(2 * N * sizeof *x);
    const law l = { &lists[0], sqrt(2.0), 5 };
    for (int64_t i = 0; i < 2 * N; i++)
        x[i] = i < N || i % 2 == 0 ? 1.0 : -1.0;
    for (size_t t = 0; t < COUNT(narrow) && ms_device_has(dev, narrow[t]); t++) {
        double      *got  = run_scaled(dev, narrow[t], x, 2, N, 1.0, 5);
        const double want = law_apply(1.0, &l) / sqrt((double)N);
        double       err  = 0.0;
        for (int64_t i = 0; i < 2 * N; i++)
            err = fmax(err, fabs(got[i] / (want * x[i]) - 1.0));
        CHECK(err <= narrow_bound(l.list, narrow[t]) && !isnan(run_fro(got, 2 * N)), "dtype %d: %g",
              (int)narrow[t], err);
        free(got);
    }
    free(x);
}
