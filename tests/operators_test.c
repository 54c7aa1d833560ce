/* operators_test.c - algebra that every operator obeys, and the contract on unusual input.
 *
 * Nothing here needs to know what an operator computes in detail: orthogonal equivariance, symmetry
 * under transposition, homogeneity, the ball of radius D, and that bad input is refused with a
 * message and an untouched output. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "oracle.h"

/* Spectra for a threshold of 1.  The small ones stay above 0.05 (or are 0) so that polar, whose
 * condition is 1 / s_min, keeps its digits. */
static const struct shape {
    int64_t     rows, cols;
    oracle_kind kind;
    double      top, bottom;
} shapes[] = {
    { 1, 1, ORACLE_FLAT, 3.0, 3.0 },     { 1, 9, ORACLE_FLAT, 2.0, 2.0 },
    { 9, 1, ORACLE_FLAT, 0.5, 0.5 },     { 2, 2, ORACLE_LINEAR, 2.0, 0.3 },
    { 24, 10, ORACLE_LINEAR, 4.0, 0.1 }, { 10, 24, ORACLE_GEOMETRIC, 8.0, 0.05 },
    { 16, 16, ORACLE_HALF, 2.5, 0.0 },   { 12, 30, ORACLE_ONE, 9.0, 0.0 },
    { 33, 17, ORACLE_ONE, 20.0, 0.2 },   { 20, 21, ORACLE_FLAT, 1.5, 1.5 },
    { 7, 5, ORACLE_LINEAR, 0.5, 0.1 },
};

static oracle make_shape(size_t i)
{
    const struct shape *s = &shapes[i];
    return oracle_make(s->rows, s->cols, s->kind, s->top, s->bottom, 100 + i);
}

/* What rounding may do to a result, relative to its size.  Polar divides by s_min / s_1 >= 1/160;
 * fast and accurate use a bound on the norm that magnifies rounding where the spectrum is flat. */
static double rounding(const char *op, musec_dtype dtype)
{
    if (dtype == MUSEC_F32) return 1e-4;
    return strcmp(op, "fast") == 0 || strcmp(op, "accurate") == 0 ? 1e-9 : 1e-12;
}

static bool clips(const char *op) /* has a threshold */
{
    return strcmp(op, "polar") != 0 && strcmp(op, "ns5") != 0;
}

#define EACH_OP(op)                          \
    const char *op = musec_clip_op(0, NULL); \
    (op) != NULL;                            \
    (op) = next_op(op)
static const char *next_op(const char *op)
{
    size_t i = 0;
    while (strcmp(musec_clip_op(i, NULL), op) != 0)
        i++;
    return musec_clip_op(i + 1, NULL);
}
#define EACH_DTYPE(dtype)          \
    musec_dtype dtype = MUSEC_F32; \
    (dtype) <= MUSEC_F64;          \
    (dtype)++

/* ---- algebra --------------------------------------------------------------------------------- */

TEST(the_operators_are_these)
{
    static const char *const names[] = { "hard",  "hard-fast",  "hard-accurate",  "soft",
                                         "ssc",   "paper7",     "fast",           "accurate",
                                         "sharp", "sharp-fast", "sharp-accurate", "polar",
                                         "ns5" };
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *help = NULL;
        CHECK(musec_clip_op(i, &help) != NULL && strcmp(musec_clip_op(i, NULL), names[i]) == 0,
              "operator %zu is not %s", i, names[i]);
        CHECK(help != NULL && help[0] != '\0', "%s has no help", names[i]);
    }
    CHECK(musec_clip_op(COUNT(names), NULL) == NULL, "there are more than %zu", COUNT(names));
}

TEST_EACH_DEVICE(rotations_pass_through, dev) /* f(Q X P) = Q f(X) P */
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        oracle        o = make_shape(i);
        const int64_t m = o.rows, n = o.cols;
        double       *q = oracle_orthogonal(m, 7 + i), *p = oracle_orthogonal(n, 70 + i);
        double       *qx = oracle_product(q, o.x, m, m, n), *qxp = oracle_product(qx, p, m, n, n);
        for (EACH_DTYPE(dtype)) {
            for (EACH_OP(op)) {
                const musec_clip_config cfg = run_config(op, 1.0);
                double                 *fx  = run_clip(dev, &cfg, dtype, o.x, m, n, NULL);
                double                 *f   = run_clip(dev, &cfg, dtype, qxp, m, n, NULL);
                double *qf = oracle_product(q, fx, m, m, n), *want = oracle_product(qf, p, m, n, n);
                const double err = oracle_rel_err(f, MUSEC_F64, want, m * n);
                CHECK(err <= rounding(op, dtype), "%s, shape %zu: %g", op, i, err);
                free(fx), free(f), free(qf), free(want);
            }
        }
        free(q), free(p), free(qx), free(qxp);
        oracle_free(&o);
    }
}

TEST_EACH_DEVICE(transposition_passes_through, dev) /* f(X^T) = f(X)^T */
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        oracle  o  = make_shape(i);
        double *xt = oracle_transpose(o.x, o.rows, o.cols);
        for (EACH_DTYPE(dtype)) {
            for (EACH_OP(op)) {
                const musec_clip_config cfg = run_config(op, 1.0);
                double                 *f   = run_clip(dev, &cfg, dtype, o.x, o.rows, o.cols, NULL);
                double                 *ft  = run_clip(dev, &cfg, dtype, xt, o.cols, o.rows, NULL);
                double                 *want = oracle_transpose(f, o.rows, o.cols);
                const double            err  = oracle_rel_err(ft, MUSEC_F64, want, o.rows * o.cols);
                CHECK(err <= rounding(op, dtype), "%s, shape %zu: %g", op, i, err);
                free(f), free(ft), free(want);
            }
        }
        free(xt);
        oracle_free(&o);
    }
}

/* f(cM, cD) = c f(M, D): to the bit where c is a power of two, else to rounding. */
static void check_scaling(ms_device *dev, const oracle *o, const char *op, int literal,
                          musec_dtype dtype, double c)
{
    const int64_t     n   = o->rows * o->cols;
    musec_clip_config cfg = run_config(op, 1.0), scaled = run_config(op, c);
    int               e;
    cfg.literal = scaled.literal = literal;

    double *x = oracle_stored(o->x, n, MUSEC_F64), *cx = oracle_stored(o->x, n, MUSEC_F64);
    for (int64_t j = 0; j < n; j++) {
        x[j]  = dtype == MUSEC_F32 ? (float)x[j] : x[j];
        cx[j] = c * x[j];
    }
    double *f = run_clip(dev, &cfg, dtype, x, o->rows, o->cols, NULL);
    double *g = run_clip(dev, &scaled, dtype, cx, o->rows, o->cols, NULL);
    for (int64_t j = 0; j < n; j++)
        f[j] *= c;
    if (frexp(c, &e) == 0.5)
        CHECK(run_same_bits(f, g, n), "%s, %d x %d, c = %g: off by %g", op, (int)o->rows,
              (int)o->cols, c, oracle_rel_err(g, MUSEC_F64, f, n));
    const double err = oracle_rel_err(g, MUSEC_F64, f, n);
    CHECK(err <= rounding(op, dtype), "%s, %d x %d, c = %g: %g", op, (int)o->rows, (int)o->cols, c,
          err);
    free(x), free(cx), free(f), free(g);
}

TEST_EACH_DEVICE(clipping_is_homogeneous, dev)
{
    static const double scales[] = { 2.0, 0.25, 0x1p33, 0x1p-41, 3.0, 1e-7, 1e9 };
    for (size_t i = 0; i < COUNT(shapes); i++) {
        oracle o = make_shape(i);
        for (EACH_DTYPE(dtype))
            for (EACH_OP(op))
                for (size_t c = 0; clips(op) && c < COUNT(scales); c++)
                    for (int literal = 0; literal <= (strcmp(op, "ssc") == 0); literal++)
                        check_scaling(dev, &o, op, literal, dtype, scales[c]);
        oracle_free(&o);
    }
}

/* ---- the hard clip is a projection ----------------------------------------------------------- */

TEST_EACH_DEVICE(hard_twice_is_once, dev)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        oracle                  o   = make_shape(i);
        const musec_clip_config cfg = run_config("hard", 1.0);
        for (EACH_DTYPE(dtype)) {
            double *once  = run_clip(dev, &cfg, dtype, o.x, o.rows, o.cols, NULL);
            double *twice = run_clip(dev, &cfg, dtype, once, o.rows, o.cols, NULL);
            /* backward stable: some units of 2^-53 or 2^-24 of the norm, which is 1 or less */
            const double err = oracle_max_err(twice, MUSEC_F64, once, o.rows * o.cols);
            CHECK(err <= (dtype == MUSEC_F64 ? 1e-14 : 2e-6), "shape %zu: %g", i, err);
            free(once), free(twice);
        }
        oracle_free(&o);
    }
}

TEST_EACH_DEVICE(hard_leaves_the_ball_alone, dev)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        oracle o = make_shape(i);
        for (EACH_DTYPE(dtype)) {
            /* D over the norm; storing X in float32 may move the norm by 1e-7 */
            static const double over[] = { 1.0 + 2e-13, 1.001, 2.0, 1e6 };
            for (size_t j = dtype == MUSEC_F32; j < COUNT(over); j++) {
                const musec_clip_config cfg    = run_config("hard", over[j] * shapes[i].top);
                void                   *stored = oracle_stored(o.x, o.rows * o.cols, dtype);
                double                 *same   = oracle_loaded(stored, o.rows * o.cols, dtype);
                double                 *got = run_clip(dev, &cfg, dtype, o.x, o.rows, o.cols, NULL);
                CHECK(run_same_bits(got, same, o.rows * o.cols), "shape %zu, D = %g", i,
                      cfg.threshold);
                free(stored), free(same), free(got);
            }
        }
        oracle_free(&o);
    }
}

/* Diagonal matrices whose norm is exactly D or the next number above it or below. */
TEST_EACH_DEVICE(hard_knows_the_edge_of_the_ball, dev)
{
    static const double norms[] = { 1.0 - DBL_EPSILON, 1.0, 1.0 + DBL_EPSILON, 1.0 + 1e-11 };
    for (size_t i = 0; i < COUNT(norms); i++) {
        const musec_clip_config cfg   = run_config("hard", 1.0);
        double                  x[12] = { [0] = 0.5, [10] = 0.25 }; /* 3 x 4 */
        x[5]                          = -norms[i];
        double *got                   = run_clip(dev, &cfg, MUSEC_F64, x, 3, 4, NULL);
        if (norms[i] <= 1.0) CHECK(run_same_bits(got, x, 12), "norm 1 %+g", norms[i] - 1.0);
        CHECK(oracle_norm2(got, MUSEC_F64, 3, 4) <= 1.0 + 4.0 * DBL_EPSILON, "norm 1 %+g: %.17g",
              norms[i] - 1.0, oracle_norm2(got, MUSEC_F64, 3, 4));
        CHECK(oracle_max_err(got, MUSEC_F64, x, 12) <= norms[i] - fmin(norms[i], 1.0) + 1e-15,
              "norm 1 %+g: other elements moved", norms[i] - 1.0);
        free(got);
    }
}

/* n x n entries of +1 and -1 with orthogonal rows: all singular values are sqrt(n). */
static void fill_hadamard(double *x, int64_t n, double scale)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t odd = 0;
            for (int64_t bits = i & j; bits != 0; bits >>= 1)
                odd ^= bits & 1;
            x[i * n + j] = odd ? -scale : scale;
        }
}

/* Matrices whose norm is D by arithmetic without rounding, which no SVD finds to the last bit. */
TEST_EACH_DEVICE(hard_leaves_what_lies_on_the_edge_alone, dev)
{
    static const struct {
        int64_t rows, cols; /* equal: Hadamard, else all entries are the same */
        double  scale, norm;
    } cases[] = { { 4, 4, 1.0, 2.0 },     { 16, 16, 1.0, 4.0 },  { 16, 16, 3.0, 12.0 },
                  { 64, 64, 0.125, 1.0 }, { 64, 64, 7.0, 56.0 }, { 3, 12, 0.5, 3.0 },
                  { 12, 3, 7.0, 42.0 },   { 2, 8, 3.0, 12.0 },   { 25, 9, 1.0, 15.0 } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int64_t rows = cases[i].rows, cols = cases[i].cols, n = rows * cols;
        double       *x = check_alloc((size_t)n * sizeof *x);
        for (int64_t k = 0; k < n; k++)
            x[k] = cases[i].scale;
        if (rows == cols) fill_hadamard(x, rows, cases[i].scale);
        for (EACH_DTYPE(dtype)) {
            const musec_clip_config on  = run_config("hard", cases[i].norm);
            double                 *got = run_clip(dev, &on, dtype, x, rows, cols, NULL);
            CHECK(run_same_bits(got, x, n), "case %zu: changed", i);
            free(got);
            const musec_clip_config in = run_config("hard", cases[i].norm * (1.0 - 1e-6));
            got                        = run_clip(dev, &in, dtype, x, rows, cols, NULL);
            CHECK(!run_same_bits(got, x, n), "case %zu: not clipped", i);
            free(got);
        }
        free(x);
    }
}

/* |f(X) - f(Y)|_F <= |X - Y|_F: the hard clip is a projection onto a convex set, and an odd scalar
 * map of slope at most one keeps distances as well. */
TEST_EACH_DEVICE(exact_maps_are_1_lipschitz, dev)
{
    static const char *const ops[] = { "hard", "soft" };
    for (size_t i = 0; i < COUNT(shapes); i++) {
        oracle        o = make_shape(i);
        const int64_t n = o.rows * o.cols;
        for (int step = 0; step < 6; step++) {
            double *y = oracle_gaussian(o.rows, o.cols, 1000 * i + (uint64_t)step);
            for (int64_t j = 0; j < n; j++)
                y[j] = o.x[j] + y[j] * pow(10.0, -step);
            for (size_t k = 0; k < COUNT(ops); k++) {
                const musec_clip_config cfg = run_config(ops[k], 1.0);
                double      *fx    = run_clip(dev, &cfg, MUSEC_F64, o.x, o.rows, o.cols, NULL);
                double      *fy    = run_clip(dev, &cfg, MUSEC_F64, y, o.rows, o.cols, NULL);
                const double apart = run_fro_diff(fx, fy, n), before = run_fro_diff(o.x, y, n);
                CHECK(apart <= before * (1.0 + 1e-12) + 1e-13, "%s, shape %zu: %.17g from %.17g",
                      ops[k], i, apart, before);
                free(fx), free(fy);
            }
            free(y);
        }
        oracle_free(&o);
    }
}

/* ---- the ball -------------------------------------------------------------------------------- */

/* |f(M)|_2 <= D (1 + 1e-5) in float32, polar <= 1 + 1e-5; in float64 1e-12 of rounding, and the
 * 1.6e-6 by which the polynomial of paper7 may rise above 1. */
static double ball_slack(const char *op, musec_dtype dtype)
{
    if (dtype == MUSEC_F32) return 1e-5;
    return strcmp(op, "paper7") == 0 ? 1.6e-6 : 1e-12;
}

static void check_ball(ms_device *dev, const oracle *o, const musec_clip_config *cfg,
                       const char *how)
{
    for (EACH_DTYPE(dtype)) {
        const double radius = clips(cfg->op) ? cfg->threshold : 1.0;
        double      *got    = run_clip(dev, cfg, dtype, o->x, o->rows, o->cols, NULL);
        const double norm   = oracle_norm2(got, MUSEC_F64, o->rows, o->cols);
        CHECK(norm <= radius * (1.0 + ball_slack(cfg->op, dtype)),
              "%s%s, D = %g, %s, %s: |out| is D (1 %+g)", cfg->op, cfg->literal ? " literal" : "",
              cfg->threshold, how, dtype == MUSEC_F32 ? "f32" : "f64", norm / radius - 1.0);
        free(got);
    }
}

TEST_EACH_DEVICE(no_result_leaves_the_ball, dev)
{
    static const double ratios[] = { 0.01, 0.999, 1.0, 1.0 + 1e-9, 1.004, 7.0, /* s_1 / D */
                                     60.0, 1e3,   1e4, 1e5,        1e6 };
    static const struct {
        double      bottom;
        oracle_kind kind;
        const char *name;
    } spectra[] = {
        { 1e-7, ORACLE_GEOMETRIC, "geometric" },
        { 1e-3, ORACLE_LINEAR, "linear" },
        { 1.0, ORACLE_FLAT, "flat" },
        { 1e-6, ORACLE_ONE, "spike" },
        { 1e-4, ORACLE_HALF, "half" },
        { 0.0, ORACLE_ONE, "rank one" },
    };
    for (size_t k = 0; k < COUNT(spectra); k++) {
        oracle o = oracle_make(12, 17, spectra[k].kind, 1.0, spectra[k].bottom, 5 + k);
        for (size_t i = 0; i < COUNT(ratios); i++) {
            for (EACH_OP(op)) {
                musec_clip_config cfg = run_config(op, 1.0 / ratios[i]);
                if (strcmp(op, "ns5") == 0) continue; /* rises above 1 by design */
                check_ball(dev, &o, &cfg, spectra[k].name);
                cfg.literal = 1;
                if (strcmp(op, "ssc") == 0) check_ball(dev, &o, &cfg, spectra[k].name);
            }
        }
        oracle_free(&o);
    }
}

TEST(config_init_says_what_is_wrong)
{
    musec_clip_config cfg;
    char              why[256];
    CHECK(musec_clip_config_init_why(&cfg, sizeof cfg, "fast", why, sizeof why) == MUSEC_OK &&
              why[0] == '\0',
          "%s", why);
    CHECK(musec_clip_config_init_why(&cfg, sizeof cfg, "sotf", why, sizeof why) == MUSEC_EINVAL &&
              strcmp(why, "clip: there is no operator \"sotf\"; did you mean \"soft\"?") == 0,
          "%s", why);
    CHECK(musec_clip_config_init_why(&cfg, sizeof cfg, "x", why, sizeof why) == MUSEC_EINVAL &&
              strstr(why, "it must be one of hard, hard-fast, hard-accurate, soft, ") != NULL,
          "%s", why);
    CHECK(musec_clip_config_init_why(&cfg, sizeof cfg, NULL, why, sizeof why) == MUSEC_EINVAL &&
              strcmp(why, "clip: the name of the operator is NULL") == 0,
          "%s", why);
    CHECK(musec_clip_config_init_why(&cfg, 3, "soft", why, sizeof why) == MUSEC_EINVAL &&
              strstr(why, "is 3 bytes") != NULL,
          "%s", why);
    CHECK(musec_clip_config_init_why(NULL, sizeof cfg, "soft", NULL, 0) == MUSEC_EINVAL, "NULL");
}
