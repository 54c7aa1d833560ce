/* operators.c - the operators by name: one table, and the public functions that check their
 * arguments and go through it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/sized.h"
#include "linalg/linalg.h"
#include "linalg/sharp_chain.h"

#define MAX_ITERS 100

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct call { /* a checked call */
    const musec_clip_config *cfg;
    ms_mat                   in, out;
    ms_num                   threshold;
    musec_dtype              compute_dtype;
    ms_report               *report;
} call;

static ms_stacks stack_of(const call *c, double sharpness)
{
    ms_stacks x = ms_stack(ms_unscaled(c->in), c->out);
    x.sharpness = sharpness;
    return x;
}

static musec_status run_exact(ms_device *d, const call *c, double sharpness)
{
    return ms_exact(d, sharpness, c->in, c->threshold, c->out, c->report);
}

static musec_status run_ssc(ms_device *d, const call *c, double sharpness)
{
    ms_poly_plan plan;
    if (c->cfg->literal)
        return ms_ssc_literal(d, stack_of(c, sharpness), c->threshold, c->cfg->iters,
                              c->compute_dtype, c->report);
    ms_plan_newton_schulz(c->cfg->iters, &plan);
    return ms_ssc_plan(d, stack_of(c, sharpness), c->threshold, &plan, c->compute_dtype, c->report);
}

static musec_status run_paper7(ms_device *d, const call *c, double sharpness)
{
    ms_poly_plan plan;
    ms_poly_plan_paper7(&plan);
    return ms_ssc_plan(d, stack_of(c, sharpness), c->threshold, &plan, c->compute_dtype, c->report);
}

static musec_status run_fast(ms_device *d, const call *c, double sharpness)
{
    return ms_soft_fast(d, stack_of(c, sharpness), c->threshold, c->compute_dtype, c->report);
}

static musec_status run_accurate(ms_device *d, const call *c, double sharpness)
{
    return ms_soft_accurate(d, stack_of(c, sharpness), c->threshold, c->cfg->tol, c->compute_dtype,
                            c->report);
}

static musec_status run_ns5(ms_device *d, const call *c, double sharpness)
{
    musec_status st = MUSEC_OK;
    (void)sharpness;
    TRY(ms_newton_schulz(d, ms_unscaled(c->in), ms_quintic_list_find(c->cfg->coeffs), c->cfg->iters,
                         c->compute_dtype, c->out));
    ms_report_path(c->report, c->in.count, c->cfg->coeffs, c->cfg->iters);
    ms_report_compute_dtype(c->report, c->in.count, c->compute_dtype);
done:
    return st;
}

#define BY_OPTION (-1.0) /* the sharpness is that of the config */

static const struct {
    const char *name, *help;
    double      sharpness; /* of a clip; MS_POLAR: it is none, and has no threshold */
    musec_status (*run)(ms_device *d, const call *c, double sharpness);
} operators[] = {
    { "hard", "min(s, D), exactly", MS_HARD, run_exact },
    { "hard-fast", "hard by 14 products", MS_HARD, run_fast },
    { "hard-accurate", "hard within --tol by the fewest products", MS_HARD, run_accurate },
    { "soft", "D s / sqrt(s^2 + D^2), exactly", MS_SOFT, run_exact },
    { "ssc", "the paper's Newton-Schulz steps towards soft", MS_SOFT, run_ssc },
    { "paper7", "ssc with 5 steps by 7 products", MS_SOFT, run_paper7 },
    { "fast", "soft by 7 products, to 2.3e-3 or nearer than ssc with 5 steps", MS_SOFT, run_fast },
    { "accurate", "soft within --tol by the fewest products", MS_SOFT, run_accurate },
    { "sharp", "s / (1 + (s/D)^p)^(1/p), p = --sharpness, exactly", BY_OPTION, run_exact },
    { "sharp-fast", "sharp by 11 to 14 products", BY_OPTION, run_fast },
    { "sharp-accurate", "sharp within --tol by the fewest products", BY_OPTION, run_accurate },
    { "polar", "1 for every s > 0, exactly", MS_POLAR, run_exact },
    { "ns5", "Muon's quintic steps towards polar", MS_POLAR, run_ns5 },
};

/* ---- checks ---------------------------------------------------------------------------------- */

const char *musec_clip_op(size_t index, const char **help)
{
    if (index >= COUNT(operators)) return NULL;
    if (help != NULL) *help = operators[index].help;
    return operators[index].name;
}

static int find_operator(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(operators); i++)
        if (strcmp(operators[i].name, name) == 0) return (int)i;
    return -1;
}

bool ms_operator_clips(const char *op)
{
    const int row = find_operator(op);
    return row >= 0 && operators[row].sharpness != MS_POLAR;
}

/* Says that there is no such operator, and which one may have been meant. */
static musec_status unknown_operator(ms_error *e, const char *op)
{
    const char *names[COUNT(operators)];

    if (op == NULL) return ms_fail(e, MUSEC_EINVAL, "clip: the name of the operator is NULL");
    for (size_t i = 0; i < COUNT(operators); i++)
        names[i] = operators[i].name;
    return ms_fail(e, MUSEC_EINVAL, "clip: there is no operator \"%s\"%s", op,
                   ms_name_hint_or_all(op, names, COUNT(names)).text);
}

static musec_status init(ms_error *e, musec_clip_config *cfg, size_t size, const char *op)
{
    const int               row    = find_operator(op);
    const musec_clip_config preset = { .size      = (uint32_t)size,
                                       .iters     = 5,
                                       .threshold = 1.0,
                                       .tol       = 1e-3,
                                       .coeffs    = "keller",
                                       .op        = row < 0 ? NULL : operators[row].name };
    if (cfg == NULL) return ms_fail(e, MUSEC_EINVAL, "clip: the config is NULL");
    if (!ms_sized_fits(size, MUSEC_CLIP_CONFIG_SIZE_1))
        return ms_fail(e, MUSEC_EINVAL,
                       "clip: the size of the config is %zu bytes; it must be "
                       "sizeof(musec_clip_config)",
                       size);
    if (row < 0) return unknown_operator(e, op);
    ms_sized_fill(cfg, size, &preset, sizeof preset);
    return MUSEC_OK;
}

musec_status musec_clip_config_init_why(musec_clip_config *cfg, size_t size, const char *op,
                                        char *why, size_t bytes)
{
    ms_error           words = { "" };
    const musec_status st    = init(&words, cfg, size, op);
    ms_error_copy(&words, why, bytes);
    return st;
}

musec_status musec_clip_config_init(musec_clip_config *cfg, size_t size, const char *op)
{
    return musec_clip_config_init_why(cfg, size, op, NULL, 0);
}

/* Copies the caller's config, with defaults for fields that it does not have. */
static musec_status take_config(ms_device *d, const musec_clip_config *from, musec_clip_config *cfg)
{
    if (from == NULL || !ms_sized_fits(from->size, MUSEC_CLIP_CONFIG_SIZE_1))
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "clip: the config must come from musec_clip_config_init()");
    (void)musec_clip_config_init(cfg, sizeof *cfg, operators[0].name);
    if (!ms_sized_take(from, from->size, cfg, sizeof *cfg))
        return ms_fail(&d->error, MUSEC_ENOTSUP,
                       "clip: the config sets a field that musec %s does not have",
                       musec_version());
    return MUSEC_OK;
}

/* The sharpness that an operator of this row takes, or 0 if the config's will not do. */
static double sharpness_of(const musec_clip_config *cfg, int row)
{
    const double given = cfg->sharpness == 0.0 ? 4.0 : cfg->sharpness;
    if (operators[row].sharpness != BY_OPTION) return operators[row].sharpness;
    if (operators[row].run == run_exact) return given >= MS_SOFT ? given : 0.0;
    return given == MS_SOFT || ms_sharp_chain_find(given, 1.0, 1.0) != NULL ? given : 0.0;
}

static musec_status check_config(ms_device *d, const musec_clip_config *cfg, int *row)
{
    *row = find_operator(cfg->op);
    if (*row < 0) return unknown_operator(&d->error, cfg->op);
    if (operators[*row].sharpness != MS_POLAR &&
        !(cfg->threshold > 0.0 && cfg->threshold < INFINITY))
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "clip: the threshold is %g; it must be a finite number above 0",
                       cfg->threshold);
    if (cfg->iters < 1 || cfg->iters > MAX_ITERS)
        return ms_fail(&d->error, MUSEC_EINVAL, "clip: %d iterations; it must be 1 to %d",
                       cfg->iters, MAX_ITERS);
    if (!(cfg->tol >= 1e-12 && cfg->tol <= 0.5))
        return ms_fail(&d->error, MUSEC_EINVAL, "clip: tol is %g; it must be 1e-12 to 0.5",
                       cfg->tol);
    if (operators[*row].sharpness == BY_OPTION && sharpness_of(cfg, *row) == 0.0)
        return ms_fail(
            &d->error, MUSEC_EINVAL, "clip: the sharpness is %g; it must be %s", cfg->sharpness,
            operators[*row].run == run_exact ? "2 or more" : "2, 4, 8, 16, 32 or infinite (hard)");
    if (ms_quintic_list_find(cfg->coeffs) == NULL)
        return ms_fail(
            &d->error, MUSEC_EINVAL,
            "clip: there are no coefficients \"%s\"; it must be one of " MS_QUINTIC_LISTS,
            cfg->coeffs == NULL ? "(null)" : cfg->coeffs);
    return MUSEC_OK;
}

/* Input and output have 32 bits or more: 16 bits are for the inputs of products. */
static musec_status full_precision_mat(ms_device *d, const char *what, musec_view view, ms_mat *out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_mat_from_view(d, what, view, out));
    if (ms_is_16bit(out->dtype))
        TRY(ms_fail(&d->error, MUSEC_ENOTSUP, "%s: matrices must be f32 or f64, not %s", what,
                    ms_dtype_name(out->dtype)));
done:
    return st;
}

static musec_status check_pair(ms_device *d, ms_mat in, ms_mat out)
{
    if (in.rows != out.rows || in.cols != out.cols || in.count != out.count ||
        in.dtype != out.dtype)
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "clip: in (%lld x %lld x %lld) and out (%lld x %lld x %lld) must agree in "
                       "shape and dtype",
                       (long long)in.count, (long long)in.rows, (long long)in.cols,
                       (long long)out.count, (long long)out.rows, (long long)out.cols);
    if (ms_mat_overlap(in, out))
        return ms_fail(&d->error, MUSEC_EINVAL, "clip: in and out overlap");
    return MUSEC_OK;
}

static musec_status check_finite(ms_device *d, const char *what, ms_mat x)
{
    int64_t      matrix = -1;
    double       n      = 0.0;
    musec_status st     = MUSEC_OK;
    TRY(ms_first_nonfinite(d, x, &matrix, &n));
    if (matrix >= 0)
        TRY(ms_fail(&d->error, MUSEC_ENONFINITE,
                    "%s: matrix %lld holds %.0f elements that are NaN or infinite", what,
                    (long long)matrix, n));
done:
    return st;
}

/* ---- public functions ------------------------------------------------------------------------ */

musec_status musec_clip(musec_ctx *ctx, const musec_clip_config *cfg, musec_view in, musec_view out,
                        musec_clip_report *report)
{
    musec_clip_config taken;
    call              c   = { .cfg = &taken, .report = report };
    int               row = 0;
    musec_status      st  = MUSEC_OK;
    if (ctx == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(ctx);
    TRY(take_config(ctx, cfg, &taken));
    TRY(check_config(ctx, &taken, &row));
    TRY(full_precision_mat(ctx, "clip: in", in, &c.in));
    TRY(full_precision_mat(ctx, "clip: out", out, &c.out));
    TRY(check_pair(ctx, c.in, c.out));
    TRY(ms_compute_dtype_check(ctx, "clip", c.in.dtype, taken.operands));
    TRY(check_finite(ctx, "clip", c.in));
    c.threshold     = ms_const(taken.threshold);
    c.compute_dtype = (musec_dtype)taken.operands;
    TRY(operators[row].run(ctx, &c, sharpness_of(&taken, row)));
done:
    ms_device_leave(caller);
    return st;
}

musec_status musec_spectrum(musec_ctx *ctx, musec_view x, double threshold, double *values,
                            musec_spectrum_stats *stats)
{
    double      *own = NULL;
    ms_mat       m;
    musec_status st = MUSEC_OK;
    if (ctx == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(ctx);
    if (!(threshold >= 0.0 && threshold < INFINITY))
        return ms_fail(
            &ctx->error, MUSEC_EINVAL,
            "spectrum: the threshold is %g; it must be a finite number above 0, or 0 for "
            "none",
            threshold);
    TRY(full_precision_mat(ctx, "spectrum", x, &m));
    TRY(check_finite(ctx, "spectrum", m));
    const int64_t r = m.rows < m.cols ? m.rows : m.cols;
    if (values == NULL) { /* count * r elements fit: the view itself has as many */
        own = malloc((size_t)(m.count * r) * sizeof *own);
        if (own == NULL)
            TRY(ms_fail(&ctx->error, MUSEC_ENOMEM, "spectrum: no memory for the values"));
        values = own;
    }
    TRY(ms_singular_values(ctx, m, values));
    for (int64_t b = 0; stats != NULL && b < m.count; b++)
        ms_spectrum_stats_of(values + b * r, r, threshold, &stats[b]);
done:
    ms_device_leave(caller);
    free(own);
    return st;
}

musec_status musec_norm2_estimate(musec_ctx *ctx, musec_view x, int steps, uint64_t seed,
                                  double *norm)
{
    ms_mat       m;
    musec_status st = MUSEC_OK;
    if (ctx == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(ctx);
    if (norm == NULL || steps < 2 || steps > 10000)
        return ms_fail(&ctx->error, MUSEC_EINVAL,
                       "norm2: %d steps; it must be 2 to 10000, and norm not "
                       "NULL",
                       steps);
    TRY(full_precision_mat(ctx, "norm2", x, &m));
    TRY(check_finite(ctx, "norm2", m));
    TRY(ms_norm2_lanczos(ctx, m, steps, seed, norm));
done:
    ms_device_leave(caller);
    return st;
}
