/* golden_test.c - every record of every file op_*.mgv of the golden vectors, and the sharp clips of
 * their matrices (sharp_reference.mgv), by the public API, on every device, in float64 and float32,
 * as stored, transposed and in padded stacks.
 *
 * Float64 is held to the relative Frobenius error that the vectors' README expects of each method.
 * Float32 gets the same matrix, rounded, and is held to twice the rounding bounds measured for the
 * method (docs/operators.md), in spectral norm and relative to D.  A clip with an error of its own
 * may differ by what it promises (clip_law.h) besides. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_law.h"
#include "clip_run.h"
#include "mgv.h"
#include "oracle.h"

static const struct {
    const char *name;
    double      gram; /* float64 bound for results by the eigenvalues of the Gram matrix */
} files[] = {
    { "op_12x20_huge", 1e-10 },   { "op_12x20_tiny", 1e-10 }, { "op_16x64", 1e-10 },
    { "op_1x1", 1e-10 },          { "op_1x7", 1e-10 },        { "op_20x30_rank1", 1e-10 },
    { "op_24x40_rank5", 1e-10 },  { "op_32x32_flat", 1e-10 }, { "op_32x48_spike", 1e-10 },
    { "op_48x48_hard100", 1e-8 }, { "op_4x4", 1e-10 },        { "op_64x16", 1e-10 },
    { "op_6x9_below", 1e-10 },    { "op_7x1", 1e-10 },        { "op_8x12_zero", 1e-10 },
    { "op_96x96", 1e-10 },
};

/* CLOSE: to a law that the operator keeps with an error of its own */
typedef enum bound_kind { EXACT, POLAR, PAPER, STEPS, FAST, QUINTIC, CLOSE } bound_kind;

static const struct golden_op {
    const char *record, *op;
    bound_kind  kind;
    int         iters, literal;
    double      sharpness, tol; /* 0: the default */
} ops[] = {
    { "hard", "hard", .kind = EXACT },
    { "soft", "soft", .kind = EXACT },
    { "polar", "polar", .kind = POLAR },
    { "ssc3", "ssc", .kind = STEPS, .iters = 3 },
    { "ssc3", "ssc", .kind = STEPS, .iters = 3, .literal = 1 },
    { "ssc5", "ssc", .kind = PAPER },
    { "ssc5", "ssc", .kind = PAPER, .iters = 5, .literal = 1 },
    { "ssc7", "ssc", .kind = STEPS, .iters = 7 },
    { "ssc7", "ssc", .kind = STEPS, .iters = 7, .literal = 1 },
    { "paper7", "paper7", .kind = PAPER },
    { "fast", "fast", .kind = FAST },
    { "muon5", "ns5", .kind = QUINTIC },
    { "soft", "accurate", .kind = CLOSE, .tol = 1e-2 },
    { "soft", "accurate", .kind = CLOSE, .tol = 1e-4 },
    { "soft", "sharp", .kind = EXACT, .sharpness = 2.0 },
    { "sharp4", "sharp", .kind = EXACT },
    { "sharp8", "sharp", .kind = EXACT, .sharpness = 8.0 },
    { "sharp16", "sharp", .kind = EXACT, .sharpness = 16.0 },
    { "sharp32", "sharp", .kind = EXACT, .sharpness = 32.0 },
    { "hard", "sharp", .kind = EXACT, .sharpness = INFINITY },
    { "soft", "sharp-fast", .kind = CLOSE, .sharpness = 2.0 },
    { "sharp4", "sharp-fast", .kind = CLOSE },
    { "sharp8", "sharp-fast", .kind = CLOSE, .sharpness = 8.0 },
    { "sharp16", "sharp-fast", .kind = CLOSE, .sharpness = 16.0 },
    { "sharp32", "sharp-fast", .kind = CLOSE, .sharpness = 32.0 },
    { "hard", "hard-fast", .kind = CLOSE },
    { "sharp4", "sharp-accurate", .kind = CLOSE, .tol = 1e-4 },
    { "sharp8", "sharp-accurate", .kind = CLOSE, .sharpness = 8.0, .tol = 1e-3 },
    { "sharp16", "sharp-accurate", .kind = CLOSE, .sharpness = 16.0, .tol = 1e-3 },
    { "sharp32", "sharp-accurate", .kind = CLOSE, .sharpness = 32.0, .tol = 1e-2 },
    { "hard", "hard-accurate", .kind = CLOSE, .tol = 3e-2 },
    { "hard", "hard-accurate", .kind = CLOSE, .tol = 1e-3 }, /* by eigenvalues */
};

typedef struct golden { /* a file, and what many checks ask of it */
    const char   *name;
    mgv_file      f, sharp; /* sharp: of all matrices */
    int64_t       rows, cols, r;
    const double *m, *mt, *sv; /* M, its transpose and its singular values */
    double        D, s1, gram;
    bool          flat; /* all eigenvalues of X X^T + D^2 I are equal, to rounding */
} golden;

static golden open_golden(size_t index)
{
    char   path[512];
    golden g = { .name = files[index].name, .gram = files[index].gram };
    snprintf(path, sizeof path, "%s/golden/%s.mgv", check_data_dir(), g.name);
    g.f = mgv_load(path);
    snprintf(path, sizeof path, "%s/sharp_reference.mgv", check_data_dir());
    g.sharp              = mgv_load(path);
    const mgv_record *m  = mgv_find(&g.f, "M");
    const mgv_record *sv = mgv_find(&g.f, "sv");
    g.rows               = m->rows;
    g.cols               = m->cols;
    g.r                  = g.rows < g.cols ? g.rows : g.cols;
    CHECK(sv->rows == 1 && sv->cols == g.r, "%s: sv", g.name);
    g.m    = m->data;
    g.mt   = oracle_transpose(m->data, m->rows, m->cols);
    g.D    = mgv_scalar(&g.f, "D");
    g.sv   = sv->data;
    g.s1   = sv->data[0];
    g.flat = hypot(g.s1, g.D) <= hypot(sv->data[g.r - 1], g.D) * (1.0 + 1e-9);
    return g;
}

static void close_golden(golden *g)
{
    free((void *)g->mt);
    mgv_free(&g->f);
    mgv_free(&g->sharp);
}

static const mgv_record *find_record(golden *g, const char *record)
{
    char name[64];
    if (strncmp(record, "sharp", 5) != 0) return mgv_find(&g->f, record);
    snprintf(name, sizeof name, "%s.%s", g->name + strlen("op_"), record);
    return mgv_find(&g->sharp, name);
}

static musec_clip_config config_of(const struct golden_op *op, const golden *g)
{
    musec_clip_config cfg = run_config(op->op, g->D);
    cfg.iters             = op->iters == 0 ? 5 : op->iters;
    cfg.literal           = op->literal;
    cfg.sharpness         = op->sharpness;
    if (op->tol > 0.0) cfg.tol = op->tol;
    cfg.coeffs = "keller";
    return cfg;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static double bound_f64(const golden *g, const struct golden_op *op,
                        const musec_clip_report *report)
{
    if (op->kind == FAST) return 1e-9;
    if (op->kind == EXACT && strstr(report->path, "eigh") != NULL) return g->gram;
    return 1e-12;
}

/* How far from the law any singular value may be, and what rounding adds: twice that of the exact
 * path, or of products.  In units of D these are 6e-6 and, where a plan lifts small values,
 * eps / 8 / u_low^2, which a chain doubles (float32; the former in float64 by 5e8 less). */
static double bound_close(const golden *g, const struct golden_op *op, musec_dtype dtype,
                          const musec_clip_report *report)
{
    const musec_clip_config cfg  = config_of(op, g);
    const double            unit = fmin(g->D, g->s1), eps = ms_dtype_eps(dtype);
    double                  gap = 0.0, rounding = 6e-6;
    for (int64_t i = 0; i < g->r; i++) {
        const law_range range = law_promised(&cfg, report, g->sv, g->r, i);
        gap                   = fmax(gap, range.most - range.least);
    }
    if (report->products == 0) return gap + (dtype == MUSEC_F64 ? g->gram : 2e-5) * unit;
    if (dtype == MUSEC_F64) rounding /= 5e8;
    if (strstr(op->op, "accurate") != NULL)
        rounding += 2.0 * eps / 8.0 / (report->u_low * report->u_low);
    return gap + 2.0 * rounding * unit;
}

/* Twice the rounding of float32 where it is tabled, else 2e-5; all in units of D. */
static double bound_f32(const golden *g, bound_kind kind)
{
    const double ratio = g->s1 / g->D * (1.0 - 1e-9); /* 100 is still "up to 100" */
    if (kind == PAPER && ratio <= 100.0) return 2 * 4e-6;
    if (kind == FAST && ratio <= 1.0) return 2 * 1e-6;
    if (kind == FAST && ratio <= 10.0) return 2 * 6e-6;
    return 2e-5; /* which is also FAST up to 100 */
}

/* What the bound is relative to: D, or the matrix where that is smaller. */
static double unit_f32(const golden *g, bound_kind kind)
{
    return kind == POLAR ? 1.0 : fmin(g->D, g->s1);
}

static void check_f32(const golden *g, const struct golden_op *op, const double *got,
                      const double *want, const char *how)
{
    if (op->kind == QUINTIC) {
        const double err = oracle_rel_err(got, MUSEC_F64, want, g->rows * g->cols);
        CHECK(err <= 1e-4, "%s %s, f32 %s: relative error %g", g->name, op->record, how, err);
        return;
    }
    const double bound = bound_f32(g, op->kind) * unit_f32(g, op->kind);
    const double err   = run_norm2_diff(got, want, g->rows, g->cols, bound);
    CHECK(err <= bound, "%s %s (%s%s), f32 %s: error %g, bound %g", g->name, op->record, op->op,
          op->literal ? " literal" : "", how, err, bound);
}

static void check_close(const golden *g, const struct golden_op *op, musec_dtype dtype,
                        const double *got, const double *want, const musec_clip_report *report,
                        const char *how)
{
    const double bound = bound_close(g, op, dtype, report);
    const double above = pow((double)g->r, 1.0 / 128.0); /* the norm that is measured may be */
    const double err   = run_norm2_diff(got, want, g->rows, g->cols, bound) / above;
    CHECK(err <= bound, "%s %s (%s: %s), %s %s: error %g, bound %g", g->name, op->record, op->op,
          report->path, dtype == MUSEC_F64 ? "f64" : "f32", how, err, bound);
}

static void check_f64(const golden *g, const struct golden_op *op, const double *got,
                      const double *want, const musec_clip_report *report, const char *how)
{
    const double err   = oracle_rel_err(got, MUSEC_F64, want, g->rows * g->cols);
    const double bound = bound_f64(g, op, report);
    CHECK(err <= bound, "%s %s (%s%s: %s), f64 %s: relative error %g, bound %g", g->name,
          op->record, op->op, op->literal ? " literal" : "", report->path, how, err, bound);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* For vectors the plans' own records differ from h by up to 2e-6; the library returns h. */
static const double *expected(golden *g, const struct golden_op *op)
{
    const mgv_record *want = find_record(g, op->record);
    CHECK(want->rows == g->rows && want->cols == g->cols, "%s %s: shape", g->name, op->record);
    if (g->r > 1 || (strcmp(op->record, "fast") != 0 && strcmp(op->record, "paper7") != 0))
        return want->data;
    const mgv_record *soft = mgv_find(&g->f, "soft");
    const double      off  = oracle_rel_err(soft->data, MUSEC_F64, want->data, g->rows * g->cols);
    CHECK(off <= 2e-6, "%s %s: %g from h", g->name, op->record, off);
    return soft->data;
}

static void judge(const golden *g, const struct golden_op *op, musec_dtype dtype, const double *got,
                  const double *want, const musec_clip_report *report, const char *how)
{
    if (op->kind == CLOSE)
        check_close(g, op, dtype, got, want, report, how);
    else if (dtype == MUSEC_F64)
        check_f64(g, op, got, want, report, how);
    else
        check_f32(g, op, got, want, how);
}

/* The transpose gives the transpose, and three in a padded stack give the same bits as one. */
static void check_layouts(ms_device *dev, const golden *g, const struct golden_op *op,
                          musec_dtype dtype, const double *want, const double *got)
{
    const run_layout        padded = { .more = 2, .pad = 3, .gap = 5 };
    const int64_t           n      = g->rows * g->cols;
    const musec_clip_config cfg    = config_of(op, g);
    double                 *three  = malloc(3 * (size_t)n * sizeof *three);
    musec_clip_report       report;

    for (int i = 0; i < 3; i++)
        memcpy(three + i * n, g->m, (size_t)n * sizeof *three);
    double *turned  = run_clip(dev, &cfg, dtype, g->mt, g->cols, g->rows, &report);
    double *back    = oracle_transpose(turned, g->cols, g->rows);
    double *stacked = run_clip_in(dev, &cfg, dtype, three, g->rows, g->cols, padded, NULL);
    judge(g, op, dtype, back, want, &report, "transposed");
    for (int i = 0; i < 3; i++) {
        if (dev->kind->batch_variant)
            judge(g, op, dtype, stacked + i * n, want, &report, "stacked");
        else
            CHECK(run_same_bits(stacked + i * n, got, n), "%s %s: matrix %d of a stack differs",
                  g->name, op->record, i);
    }
    free(three), free(turned), free(back), free(stacked);
}

static void each_operator(ms_device *dev, musec_dtype dtype)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        golden g = open_golden(i);
        for (size_t j = 0; j < COUNT(ops); j++) {
            const musec_clip_config cfg  = config_of(&ops[j], &g);
            const double           *want = expected(&g, &ops[j]);
            musec_clip_report       report;
            double                 *got = run_clip(dev, &cfg, dtype, g.m, g.rows, g.cols, &report);
            judge(&g, &ops[j], dtype, got, want, &report, "as stored");
            if (!run_is_slow(dev) || g.r <= 48) check_layouts(dev, &g, &ops[j], dtype, want, got);
            free(got);
        }
        close_golden(&g);
    }
}

TEST_EACH_DEVICE(operators_agree_in_float64, dev) { each_operator(dev, MUSEC_F64); }
TEST_EACH_DEVICE(operators_agree_in_float32, dev) { each_operator(dev, MUSEC_F32); }

/* With operands of 16 bits: twice what is tabled for them, in units of D; K = 7 lifts rounding by
 * 1.5^2 more than K = 5.  Quintic steps lift what is not there by 485: that much of the rounding of
 * X, relative, in the Frobenius norm. */
static double bound_narrow(const golden *g, const struct golden_op *op, musec_dtype type)
{
    const bool   f16   = type == MUSEC_F16;
    const double ratio = g->s1 / g->D * (1.0 - 1e-9), *sv = g->sv;
    if (op->kind == QUINTIC && sv[g->r - 1] < 1e-6 * g->s1) return 485.0 * ms_dtype_eps(type) / 2;
    if (op->kind == QUINTIC) return f16 ? 2e-2 : 1.5e-1;
    if (op->kind == STEPS && op->iters == 7) return f16 ? 4.5 * 3e-3 : 4.5 * 2e-2;
    if (op->kind != FAST) return f16 ? 2 * 3e-3 : 2 * 2e-2;
    if (ratio <= 1.0) return f16 ? 2 * 1e-3 : 2 * 5e-3;
    if (ratio <= 10.0) return f16 ? 2 * 4e-3 : 2 * 3e-2;
    return f16 ? 2 * 7e-3 : 2 * 7e-2;
}

static void check_narrow(ms_device *dev, golden *g, const struct golden_op *op, musec_dtype type)
{
    const double      bound = bound_narrow(g, op, type);
    const double     *want  = expected(g, op);
    musec_clip_config cfg   = config_of(op, g);
    musec_clip_report report;
    cfg.operands     = type;
    double      *got = run_clip(dev, &cfg, MUSEC_F32, g->m, g->rows, g->cols, &report);
    const double err = op->kind == QUINTIC
                           ? oracle_rel_err(got, MUSEC_F64, want, g->rows * g->cols)
                           : run_norm2_diff(got, want, g->rows, g->cols, bound * g->D) / g->D;
    CHECK(err <= bound, "%s %s (%s): error %g, bound %g", g->name, op->record, report.path, err,
          bound);
    free(got);
}

TEST_EACH_DEVICE(operators_agree_with_narrow_operands, dev)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        golden g = open_golden(i);
        for (size_t j = 0; j < COUNT(ops); j++) {
            const bool products =
                ops[j].kind != EXACT && ops[j].kind != POLAR && ops[j].kind != CLOSE;
            if (!products || (run_is_slow(dev) && g.r > 48)) continue;
            if (ms_device_has(dev, MUSEC_F16)) check_narrow(dev, &g, &ops[j], MUSEC_F16);
            if (ms_device_has(dev, MUSEC_BF16)) check_narrow(dev, &g, &ops[j], MUSEC_BF16);
        }
        close_golden(&g);
    }
}

/* ---- what the report says -------------------------------------------------------------------- */

/* The fourth-moment bound adds the root of a difference of squares to the mean.  On a flat spectrum
 * nothing but the rounding of those squares is left, in the stored number as well: 2^-26. */
static double alpha_bound(const golden *g, bool c4, musec_dtype dtype)
{
    if (dtype == MUSEC_F32) return 2e-5;
    if (!c4) return 1e-12;
    return g->flat ? 1e-7 : 1e-9;
}

static void check_report(ms_device *dev, golden *g, const char *op, bool c4, musec_dtype dtype)
{
    const double alpha =
        c4 ? mgv_scalar(&g->f, "alpha_C4") * (1.0 + 1e-5) : mgv_scalar(&g->f, "alpha_F");
    const double            u_low = c4 ? mgv_scalar(&g->f, "fast_ul") : g->D / sqrt(alpha);
    const double            bound = alpha_bound(g, c4, dtype);
    const musec_clip_config cfg   = run_config(op, g->D);
    musec_clip_report       report;

    free(run_clip(dev, &cfg, dtype, g->m, g->rows, g->cols, &report));
    if (g->r == 1) { /* nothing is iterated */
        CHECK(report.products == 0 && report.alpha == 0.0 && report.u_low == 0.0, "%s %s: %s",
              g->name, op, report.path);
        return;
    }
    CHECK(fabs(report.alpha - alpha) <= bound * alpha, "%s %s: alpha %.17g, not %.17g", g->name, op,
          report.alpha, alpha);
    CHECK(fabs(report.u_low - u_low) <= bound * u_low, "%s %s: u_low %.17g, not %.17g", g->name, op,
          report.u_low, u_low);
}

static void check_plan(ms_device *dev, golden *g, musec_dtype dtype)
{
    static const struct {
        double      u_d;
        const char *plan;
    } plans[] = {
        { 0.09, "p9x9" },
        { 0.16, "p9x9c" },
        { 0.40, "p9x9d" },
    };
    const double            u_d = mgv_scalar(&g->f, "fast_ud");
    const musec_clip_config cfg = run_config("fast", g->D);
    musec_clip_report       report;
    int                     known = 0;

    free(run_clip(dev, &cfg, dtype, g->m, g->rows, g->cols, &report));
    for (size_t i = 0; i < COUNT(plans); i++) {
        if (fabs(plans[i].u_d - u_d) > 1e-12) continue;
        known++;
        if (g->r > 1)
            CHECK(strcmp(report.path, plans[i].plan) == 0 && report.products == 7,
                  "%s: %s, %d products, instead of %s", g->name, report.path, report.products,
                  plans[i].plan);
    }
    CHECK(known == 1, "%s: fast_ud %g is no plan's", g->name, u_d);
}

TEST_EACH_DEVICE(reports_agree, dev)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        golden g = open_golden(i);
        for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++) {
            check_report(dev, &g, "ssc", false, dtype);
            check_report(dev, &g, "paper7", false, dtype);
            check_report(dev, &g, "fast", true, dtype);
            check_plan(dev, &g, dtype);
        }
        close_golden(&g);
    }
}

/* ---- spectra --------------------------------------------------------------------------------- */

static void spectrum_of(ms_device *dev, musec_dtype dtype, const double *x, int64_t rows,
                        int64_t cols, double *values, musec_spectrum_stats *stats)
{
    run_stack s = run_stack_make(dev, dtype, rows, cols, (run_layout){ .pad = 1 }, x, NAN);
    CHECK_OK(dev, musec_spectrum(dev, s.view, 0.0, values, stats));
    run_stack_free(dev, &s);
}

static void check_spectrum(ms_device *dev, golden *g, musec_dtype dtype)
{
    const double         tol = dtype == MUSEC_F64 ? 1e-12 : 2e-5;
    const mgv_record    *sv  = mgv_find(&g->f, "sv");
    double              *got = malloc((size_t)g->r * sizeof *got);
    musec_spectrum_stats stats;

    for (int turned = 0; turned < 2; turned++) {
        spectrum_of(dev, dtype, turned ? g->mt : g->m, turned ? g->cols : g->rows,
                    turned ? g->rows : g->cols, got, &stats);
        const double off   = oracle_max_err(got, MUSEC_F64, sv->data, g->r);
        const double norm2 = mgv_scalar(&g->f, "specnorm"), fro = mgv_scalar(&g->f, "fro");
        const double erank = mgv_scalar(&g->f, "erank");
        CHECK(off <= tol * g->s1, "%s: singular values off by %g", g->name, off);
        CHECK(fabs(stats.norm2 - norm2) <= tol * norm2, "%s: norm %.17g", g->name, stats.norm2);
        CHECK(fabs(stats.fro - fro) <= tol * fro, "%s: |M|_F %.17g", g->name, stats.fro);
        CHECK(fabs(stats.effective_rank - erank) <= tol * erank,
              "%s: effective rank %.17g, not %.17g", g->name, stats.effective_rank, erank);
    }
    free(got);
}

/* How far the entropy of p = s / sum s can move when the matrix moves by `err` in Frobenius norm:
 * sum |ds| <= sqrt(r) err (Mirsky), then Fannes and Audenaert with half the distance of the p's. */
static double entropy_slack(double err, double nuclear, int64_t r)
{
    const double t = nuclear > 0.0 ? fmin(0.5, sqrt((double)r) * err / nuclear) : 0.0;
    if (!(t > 0.0)) return 0.0;
    return t * log(fmax(1.0, (double)r - 1.0)) - t * log(t) - (1.0 - t) * log(1.0 - t);
}

static void check_output_rank(ms_device *dev, golden *g, const char *record, const char *output,
                              const char *op, musec_dtype dtype)
{
    const musec_clip_config cfg  = run_config(op, g->D); /* five steps are the default */
    const mgv_record       *want = mgv_find(&g->f, output);
    double                 *got  = run_clip(dev, &cfg, dtype, g->m, g->rows, g->cols, NULL);
    const double            rank = mgv_scalar(&g->f, record);
    musec_spectrum_stats    stats;

    spectrum_of(dev, dtype, got, g->rows, g->cols, NULL, &stats);
    const double err = run_fro_diff(got, want->data, g->rows * g->cols);
    const double slack =
        expm1(entropy_slack(err, stats.nuclear, g->r)) + (dtype == MUSEC_F64 ? 1e-12 : 2e-5);
    CHECK(fabs(stats.effective_rank - rank) <= slack * rank, "%s %s: %.17g, not %.17g", g->name,
          record, stats.effective_rank, rank);
    free(got);
}

TEST_EACH_DEVICE(spectra_agree, dev)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        golden g = open_golden(i);
        for (musec_dtype dtype = MUSEC_F32; dtype <= MUSEC_F64; dtype++) {
            check_spectrum(dev, &g, dtype);
            check_output_rank(dev, &g, "erank_ssc5", "ssc5", "ssc", dtype);
            check_output_rank(dev, &g, "erank_muon5", "muon5", "ns5", dtype);
        }
        close_golden(&g);
    }
}

/* ---- nothing is left out --------------------------------------------------------------------- */

/* Looks up what the tests above look up; a record that none of them knows is a failure. */
TEST(every_record_has_a_test)
{
    static const char *const others[] = { "specnorm", "fro",        "erank",
                                          "alpha_F",  "alpha_C4",   "fast_ul",
                                          "fast_ud",  "erank_ssc5", "erank_muon5" };
    size_t                   sharp    = 0;
    for (size_t i = 0; i < COUNT(files); i++) {
        golden g = open_golden(i);
        for (size_t j = 0; j < COUNT(ops); j++)
            find_record(&g, ops[j].record);
        for (size_t j = 0; j < COUNT(others); j++)
            mgv_find(&g.f, others[j]);
        for (size_t j = 0; j < g.f.n_records; j++)
            CHECK(g.f.records[j].used, "%s: nobody tests %s", g.name, g.f.records[j].name);
        for (size_t j = 0; j < g.sharp.n_records; j++)
            sharp += g.sharp.records[j].used;
        CHECK(g.sharp.n_records == 4 * COUNT(files), "%zu sharp clips", g.sharp.n_records);
        close_golden(&g);
    }
    CHECK(sharp == 4 * COUNT(files), "%zu sharp clips are tested", sharp);
}

TEST(every_file_has_a_row)
{
    const size_t n = mgv_count_files("op_");
    CHECK(n == COUNT(files), "%zu files op_*, %zu rows", n, COUNT(files));
}
