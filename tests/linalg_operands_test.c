/* linalg_operands_test.c - operators whose products have 16-bit operands, on every device that has
 * them.
 *
 * Each mode is compared with its own scalar map in exact arithmetic, within twice the rounding
 * error that docs/operators.md tabulates, at any scale of the matrix and of D. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "linalg/linalg.h"
#include "oracle.h"

static const musec_dtype narrow[] = { MUSEC_F16, MUSEC_BF16 };

/* f16, bf16: |result - map|_2 / D for s_1 / D up to 1, up to 10 and above; |result|_2 / D - 1 */
static const double ssc_bound[2][3]   = { { 3e-3, 3e-3, 3e-3 }, { 2e-2, 2e-2, 2e-2 } };
static const double ssc_excess[2][3]  = { { 2e-3, 2e-3, 2e-3 }, { 2e-2, 2e-2, 2e-2 } };
static const double fast_bound[2][3]  = { { 1e-3, 4e-3, 7e-3 }, { 5e-3, 3e-2, 7e-2 } };
static const double fast_excess[2][3] = { { 2e-3, 2e-3, 7e-3 }, { 2e-2, 2e-2, 7e-2 } };

static const struct mode {
    const char *op;
    int         literal;
    const double (*bound)[3], (*excess)[3];
} modes[] = { { "ssc", 0, ssc_bound, ssc_excess },
              { "ssc", 1, ssc_bound, ssc_excess },
              { "paper7", 0, ssc_bound, ssc_excess },
              { "fast", 0, fast_bound, fast_excess } };

/* ---- the scalar map -------------------------------------------------------------------------- */

typedef struct law_plan {
    double       threshold, alpha;
    ms_poly_plan plan;
} law_plan;

static double law_plan_of(double s, const void *arg)
{
    const law_plan *law = arg;
    const double    u   = hypot(s, law->threshold) / sqrt(law->alpha);
    return law_soft(s, law->threshold) * ms_poly_plan_gain(&law->plan, u);
}

static law_plan law_of(const struct mode *m, const oracle *o, double threshold, musec_dtype dtype)
{
    law_plan law = { .threshold = threshold };
    if (strcmp(m->op, "fast") != 0) {
        law.alpha = law_alpha_fro(o->s, o->k, threshold);
        if (strcmp(m->op, "paper7") == 0)
            ms_poly_plan_paper7(&law.plan);
        else
            ms_plan_newton_schulz(5, &law.plan);
        return law;
    }
    law.alpha          = law_alpha_c4(o->s, o->k, threshold) * (dtype == MUSEC_F16 ? 1.002 : 1.01);
    const double u_low = threshold / sqrt(law.alpha);
    ms_poly_plan_fast(u_low >= 0.40 ? 0 : u_low >= 0.16 ? 1 : 2, &law.plan);
    return law;
}

/* One mode on one matrix with known singular values. */
static void check_mode(ms_device *dev, const struct mode *m, int t, oracle *o, double D)
{
    const double      ratio = o->s[0] / D;
    const int         size  = ratio <= 1.0 ? 0 : ratio <= 10.0 ? 1 : 2;
    const law_plan    law   = law_of(m, o, D, narrow[t]);
    musec_clip_config cfg   = run_config(m->op, D);
    musec_clip_report report;
    cfg.literal  = m->literal;
    cfg.operands = narrow[t];
    double *got  = run_clip(dev, &cfg, MUSEC_F32, o->x, o->rows, o->cols, &report);
    oracle_map(o, law_plan_of, &law);
    const double bound = 2.0 * m->bound[t][size] * D;
    const double err   = run_norm2_diff(got, o->want, o->rows, o->cols, bound);
    const double norm  = oracle_norm2(got, MUSEC_F64, o->rows, o->cols);
    const char  *type  = strchr(report.path, '\0');
    while (type > report.path && *type != ' ')
        type--;
    CHECK(strcmp(type, narrow[t] == MUSEC_F16 ? " f16" : " bf16") == 0, "path \"%s\"", report.path);
    CHECK(err <= bound, "%s, %d x %d, s_1 = %g, D = %g: error %g D", report.path, (int)o->rows,
          (int)o->cols, o->s[0], D, err / D);
    CHECK(norm <= D * (1.0 + m->excess[t][size]), "%s, s_1 = %g, D = %g: the norm is %g D",
          report.path, o->s[0], D, norm / D);
    free(got);
}

static void check_modes(ms_device *dev, oracle *o, double D)
{
    for (int t = 0; t < (int)COUNT(narrow); t++)
        for (size_t m = 0; ms_device_has(dev, narrow[t]) && m < COUNT(modes); m++)
            check_mode(dev, &modes[m], t, o, D);
}

TEST_EACH_DEVICE(every_mode_follows_its_scalar_map, dev)
{
    static const int64_t shapes[][2] = { { 16, 48 }, { 64, 40 }, { 33, 33 }, { 96, 96 } };
    static const double  ratios[]    = { 0.01, 1.0, 10.0, 100.0 };
    for (size_t i = 0; i < COUNT(shapes) - (run_is_slow(dev) ? 1 : 0); i++)
        for (int kind = 0; kind < ORACLE_KINDS; kind++)
            for (size_t k = 0; k < COUNT(ratios); k++) {
                const double D = 0.37, top = D * ratios[k];
                const double bottom = kind == ORACLE_HALF ? 0.0 : 0.02 * top;
                oracle o = oracle_make(shapes[i][0], shapes[i][1], (oracle_kind)kind, top, bottom,
                                       (uint64_t)kind + 10 * i);
                check_modes(dev, &o, D);
                oracle_free(&o);
            }
}

/* ---- scales ---------------------------------------------------------------------------------- */

TEST_EACH_DEVICE(errors_do_not_depend_on_the_scale, dev)
{
    static const struct {
        double top, D;
    } scales[] = {
        { 1e20, 1e20 }, { 1e-20, 1e-20 },  { 1e20, 1.0 },   { 1.0, 1e20 },
        { 1e-20, 1.0 }, { 1.0, 1e-20 },    { 1e-30, 1e30 }, { 1e30, 1e-3 },
        { 1e-3, 1e-2 }, { 300.0, 1000.0 }, { 1e-36, 1e-3 },
    };
    for (size_t i = 0; i < COUNT(scales); i++) {
        oracle o = oracle_make(12, 20, ORACLE_LINEAR, scales[i].top, 0.1 * scales[i].top, 3);
        oracle t = oracle_make(20, 12, ORACLE_ONE, scales[i].top, 0.0, 4); /* rank one */
        check_modes(dev, &o, scales[i].D);
        check_modes(dev, &t, scales[i].D);
        oracle_free(&o);
        oracle_free(&t);
    }
}

TEST_EACH_DEVICE(zeros_and_vectors_do_not_depend_on_the_operands_dtype, dev)
{
    static const char *const ops[]     = { "ssc", "paper7", "fast", "accurate", "ns5" };
    const double             zeros[40] = { 0 };
    double                  *line      = oracle_gaussian(1, 40, 2);
    for (size_t t = 0; t < COUNT(narrow); t++) {
        if (!ms_device_has(dev, narrow[t])) continue;
        for (size_t i = 0; i < COUNT(ops); i++) {
            musec_clip_config cfg = run_config(ops[i], 0.3);
            cfg.operands          = narrow[t];
            double *got           = run_clip(dev, &cfg, MUSEC_F32, zeros, 5, 8, NULL);
            CHECK(run_same_bits(got, zeros, 40), "%s of zeros", ops[i]);
            free(got);
            if (strcmp(ops[i], "ns5") == 0) continue;
            double *narrow_line = run_clip(dev, &cfg, MUSEC_F32, line, 1, 40, NULL);
            cfg.operands        = 0; /* a single singular value needs no products */
            double *wide_line   = run_clip(dev, &cfg, MUSEC_F32, line, 1, 40, NULL);
            CHECK(run_same_bits(narrow_line, wide_line, 40), "%s of a vector", ops[i]);
            free(narrow_line), free(wide_line);
        }
    }
    free(line);
}

/* A small eigenvalue that rounding makes negative would grow with every step. */
TEST_EACH_DEVICE(many_steps_stay_near_the_ball, dev)
{
    static const int    many[]   = { 9, 20, 41 };
    static const double ratios[] = { 10.0, 100.0, 1e4, 1e9 };
    for (size_t i = 0; i < 4 * COUNT(many) * COUNT(ratios); i++) {
        const musec_dtype type = narrow[i % 2];
        const double      top  = ratios[i / 4 % COUNT(ratios)];
        if (!ms_device_has(dev, type)) continue;
        oracle            o   = oracle_make(24, 20, i % 3 ? ORACLE_GEOMETRIC : ORACLE_HALF, top,
                               i % 3 ? top * 1e-5 : 0.0, i);
        musec_clip_config cfg = run_config("ssc", 1.0);
        cfg.iters             = many[i / 4 / COUNT(ratios)];
        cfg.literal           = i / 2 % 2;
        cfg.operands          = type;
        double      *got      = run_clip(dev, &cfg, MUSEC_F32, o.x, 24, 20, NULL);
        const double norm     = oracle_norm2(got, MUSEC_F64, 24, 20);
        CHECK(norm <= (type == MUSEC_F16 ? 1.05 : 1.15), "K = %d%s, s_1 = %g, %s: norm %g",
              cfg.iters, cfg.literal ? " literal" : "", top, type == MUSEC_F16 ? "f16" : "bf16",
              norm);
        free(got);
        oracle_free(&o);
    }
}

/* ---- accurate -------------------------------------------------------------------------------- */

static double soft_of(double s, const void *arg) { return law_soft(s, *(const double *)arg); }

/* The cheapest plan for a spectrum.  Where its lower end is below the range of 16-bit plans
 * (`is_short`), the plan after reductions is for a fixed end and a tol of 1e-2. */
static law_plan law_accurate(const oracle *o, double D, double tol, musec_dtype dtype,
                             bool *is_short)
{
    const bool   f16 = dtype == MUSEC_F16, bf16 = dtype == MUSEC_BF16;
    const double margin = f16 ? 2e-3 : bf16 ? 1e-2 : 1e-5, least = f16 ? 0.03 : bf16 ? 0.09 : 0.0;
    law_plan     law   = { .threshold = D, .alpha = law_alpha_c4(o->s, o->k, D) * (1.0 + margin) };
    const double u_low = D / sqrt(law.alpha);
    *is_short          = u_low < least;
    CHECK(ms_poly_plan_cheapest(*is_short ? fmax(tol, 1e-2) : tol, *is_short ? least : u_low,
                                &law.plan) == MUSEC_OK,
          "no plan for u_low %g", u_low);
    return law;
}

/* |result - soft clip|_2 is at most tol D plus twice the rounding error that is tabulated for
 * `fast`.  Below the range of 16-bit plans reductions come first (soft_reduction_test.c), and the
 * rounding of the matrix itself, 100 times D, is most of the error: 1.8e-2 and 0.145 of D were
 * seen, and twice that is allowed. */
static void check_accurate(const musec_clip_report *report, oracle *o, const double *got, double D,
                           double tol, musec_dtype dtype)
{
    const double   ratio = o->s[0] / D;
    const int      t = dtype == MUSEC_BF16, size = ratio <= 1.0 ? 0 : ratio <= 10.0 ? 1 : 2;
    bool           is_short;
    const law_plan law  = law_accurate(o, D, tol, dtype, &is_short);
    const char    *type = dtype == MUSEC_F16 ? " f16" : t ? " bf16" : "";
    char           path[40];
    snprintf(path, sizeof path, "%s%s%s", is_short ? "1+" : "", is_short ? "p9x9" : law.plan.name,
             type);
    CHECK(strcmp(report->path, path) == 0, "s_1 = %g D, tol %g: %s, not %s", ratio, tol,
          report->path, path);
    const double in_f32[] = { 6e-7, 4e-6, 1.4e-4 }; /* docs/operators.md */
    const double rounding = 2.0 * (type[0] != '\0' ? fast_bound[t][size] : in_f32[size]);
    const double over     = pow((double)o->k, 1.0 / 128.0); /* the factor of run_norm2_diff */
    const double bound    = (is_short ? (t ? 0.29 : 0.036) : over * tol + rounding) * D;
    const double excess =
        type[0] != '\0' ? fmax(fast_excess[t][size], is_short ? 2e-2 : 0.0) : 1e-5;
    oracle_map(o, soft_of, &D);
    const double err  = run_norm2_diff(got, o->want, o->rows, o->cols, bound);
    const double norm = oracle_norm2(got, MUSEC_F64, o->rows, o->cols);
    CHECK(err <= bound, "%s, tol %g, s_1 = %g D: error %g D", path, tol, ratio, err / D);
    CHECK(norm <= D * (1.0 + excess), "%s, s_1 = %g D: the norm is %g D", path, ratio, norm / D);
}

enum { RATIOS = 5 };
static const double ratios_of_a_stack[RATIOS] = { 0.3, 1.0, 3.0, 10.0, 100.0 }; /* s_1 / D */

/* The matrices of the stack need different plans. */
TEST_EACH_DEVICE(accurate_chooses_a_plan_for_each_matrix, dev)
{
    enum { ROWS = 24, COLS = 40 };
    static const musec_dtype types[] = { MUSEC_F16, MUSEC_BF16, MUSEC_F32 };
    static const double      tols[]  = { 2e-2, 1e-3, 5e-4, 1e-5 };
    const double             D       = 0.8;
    for (size_t i = 0; i < COUNT(types) * COUNT(tols) * ORACLE_KINDS; i++) {
        const musec_dtype type = types[i % COUNT(types)];
        const double      tol  = tols[i / COUNT(types) % COUNT(tols)];
        const oracle_kind kind = (oracle_kind)(i / COUNT(types) / COUNT(tols));
        double            x[RATIOS * ROWS * COLS];
        musec_clip_config cfg = run_config("accurate", D);
        musec_clip_report report[RATIOS];
        oracle            o[RATIOS];
        if (!ms_device_has(dev, type)) continue;
        cfg.tol      = tol;
        cfg.operands = ms_is_16bit(type) ? type : 0;
        for (int b = 0; b < RATIOS; b++) {
            const double top = D * ratios_of_a_stack[b];
            o[b] = oracle_make(ROWS, COLS, kind, top, kind == ORACLE_HALF ? 0.0 : 0.02 * top, i);
            memcpy(x + b * ROWS * COLS, o[b].x, sizeof x / RATIOS);
        }
        double *all = run_clip_in(dev, &cfg, MUSEC_F32, x, ROWS, COLS,
                                  (run_layout){ .more = RATIOS - 1 }, report);
        for (int b = 0; b < RATIOS; b++) {
            if (!(type == MUSEC_F32 && report[b].products == 0)) /* by SVD */
                check_accurate(&report[b], &o[b], all + b * ROWS * COLS, D, tol, type);
            oracle_free(&o[b]);
        }
        free(all);
    }
}

/* Each matrix of a stack with several plans has the bits and the plan that it has alone. */
static void check_stack(ms_device *dev, musec_dtype operands)
{
    enum { N = 5, ROWS = 12, COLS = 18 };
    static const double tops[N] = { 0.5, 40.0, 0.6, 3.0, 2000.0 };
    double              x[N * ROWS * COLS];
    musec_clip_config   cfg = run_config("accurate", 1.0);
    musec_clip_report   together[N], alone;
    cfg.tol      = 2e-2;
    cfg.operands = operands;
    for (int i = 0; i < N; i++) {
        oracle o = oracle_make(ROWS, COLS, ORACLE_LINEAR, tops[i], 0.1, (uint64_t)i);
        memcpy(x + i * ROWS * COLS, o.x, sizeof x / N);
        oracle_free(&o);
    }
    double *all = run_clip_in(dev, &cfg, MUSEC_F32, x, ROWS, COLS,
                              (run_layout){ .more = N - 1, .pad = 1, .gap = 2 }, together);
    for (int i = 0; i < N; i++) {
        double *one = run_clip(dev, &cfg, MUSEC_F32, x + i * ROWS * COLS, ROWS, COLS, &alone);
        CHECK(run_same_bits(one, all + i * ROWS * COLS, ROWS * COLS), "matrix %d", i);
        CHECK(strcmp(alone.path, together[i].path) == 0, "matrix %d: %s and %s", i, alone.path,
              together[i].path);
        free(one);
    }
    free(all);
}

TEST_EACH_DEVICE(accurate_results_of_a_stack_are_those_of_single_matrices, dev)
{
    if (dev->kind->batch_variant) SKIP_DEVICE("bits depend on the stack on %s", dev->name);
    check_stack(dev, (musec_dtype)0);
    for (size_t t = 0; t < COUNT(narrow); t++)
        if (ms_device_has(dev, narrow[t])) check_stack(dev, narrow[t]);
}

/* ---- Muon ------------------------------------------------------------------------------------ */

static double quintic_of(double s, const void *arg)
{
    double x = s / (*(const double *)arg + 1e-7);
    for (int k = 0; k < 5; k++)
        x = 3.4445 * x - 4.7750 * pow(x, 3) + 2.0315 * pow(x, 5);
    return x;
}

TEST_EACH_DEVICE(quintic_steps_follow_their_scalar_map, dev)
{
    static const int64_t shapes[][2] = { { 16, 40 }, { 40, 16 }, { 24, 24 }, { 1, 9 }, { 9, 1 } };
    for (size_t i = 0; i < COUNT(shapes) * COUNT(narrow); i++) {
        const int64_t     rows = shapes[i / 2][0], cols = shapes[i / 2][1];
        const musec_dtype type = narrow[i % 2];
        if (!ms_device_has(dev, type)) continue;
        oracle            o   = oracle_make(rows, cols, ORACLE_LINEAR, 30.0, 3.0, i);
        musec_clip_config cfg = run_config("ns5", 1.0);
        const double      fro = run_fro(o.s, o.k);
        cfg.operands          = type;
        double *got           = run_clip(dev, &cfg, MUSEC_F32, o.x, rows, cols, NULL);
        oracle_map(&o, quintic_of, &fro);
        const double bound = type == MUSEC_F16 ? 1e-2 : 8e-2;
        const double err   = run_norm2_diff(got, o.want, rows, cols, bound);
        CHECK(err <= bound, "%d x %d: %g", (int)rows, (int)cols, err);
        free(got);
        oracle_free(&o);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(ms_device *dev, musec_dtype input, int operands, musec_status why,
                    const char *words)
{
    double            x[6] = { 1, 2, 3, 4, 5, 6 };
    run_stack         in   = run_stack_make(dev, input, 2, 3, (run_layout){ 0 }, x, 0.0);
    run_stack         out  = run_stack_make(dev, input, 2, 3, (run_layout){ 0 }, NULL, 7.0);
    musec_clip_config cfg  = run_config("fast", 1.0);
    cfg.operands           = operands;
    const musec_status st  = musec_clip(dev, &cfg, in.view, out.view, NULL);
    CHECK(st == why && strstr(dev->error.text, words) != NULL, "operands %d of dtype %d: %s, %s",
          operands, (int)input, musec_status_name(st), dev->error.text);
    CHECK(run_stack_holds(dev, &out, 7.0), "something was written");
    run_stack_free(dev, &in);
    run_stack_free(dev, &out);
}

TEST_EACH_DEVICE(unsupported_operands_are_refused, dev)
{
    refused(dev, MUSEC_F32, 17, MUSEC_EINVAL, "operands of unknown (dtype 17)");
    refused(dev, MUSEC_F32, MUSEC_F64, MUSEC_EINVAL, "operands of f64");
    refused(dev, MUSEC_F64, MUSEC_F32, MUSEC_EINVAL, "operands of f32");
    refused(dev, MUSEC_F64, MUSEC_F16, MUSEC_EINVAL, "f32");
    const ms_device_kind *kind = dev->kind;
    ms_device_kind        lacking;
    check_take_16bit(dev, &lacking);
    refused(dev, MUSEC_F32, MUSEC_F16, MUSEC_ENOTSUP, "no arithmetic in f16");
    dev->kind = kind;
}
