/* report.c - describes the settings of an optimizer, and measures its steps.
 *
 * Measurements are made at steps that are multiples of report_every and cost about as much as an
 * exact clip of every matrix; all other steps pay nothing.  The spectra of the direction and of the
 * update are exact; the weight's norm is a Lanczos estimate from below. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"

#define NORM_STEPS 48 /* of the estimate of a weight's norm */

/* ---- measurements ---------------------------------------------------------------------------- */

musec_status ms_report_paths(musec_optim *opt, int64_t n, ms_report **out)
{
    *out = calloc((size_t)n, sizeof **out);
    if (*out == NULL) return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the reports");
    return MUSEC_OK;
}

void ms_report_paths_free(ms_report *paths) { free(paths); }

/* The spectral and the Frobenius norm; those of a block whose rows lie in groups are those of its
 * gathered rows. */
static musec_status weight_norm(musec_optim *opt, const ms_group *g, int64_t m, double *norm,
                                double *fro)
{
    const ms_mark mark  = ms_arena_mark(&opt->d->scratch);
    int64_t       bad   = -1;
    double        count = 0.0;
    ms_vec        sumsq;
    ms_mat        dense;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(opt->d, g->dtype, 1, g->rows, g->cols, &dense));
    TRY(ms_widen_member(opt, &g->members[m], dense));
    TRY(ms_first_nonfinite(opt->d, dense, &bad, &count));
    TRY(ms_scratch_vec(opt->d, 1, &sumsq));
    TRY(opt->d->ops->sumsq(opt->d, dense, sumsq));
    TRY(ms_vec_download(opt->d, sumsq, fro));
    *fro  = sqrt(*fro);
    *norm = NAN;
    if (bad < 0) TRY(ms_norm2_lanczos(opt->d, dense, NORM_STEPS, opt->cfg.seed, norm));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* The spectrum of one matrix, r values; NaN throughout where it has none: the step is taken
 * already, and a measurement must not fail it. */
static musec_status spectrum_of(ms_device *d, ms_mat x, double threshold, int64_t r, double *values,
                                musec_spectrum_stats *stats)
{
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    const ms_mat  given = x;
    int64_t       bad   = -1;
    double        count = 0.0;
    musec_status  st    = MUSEC_OK;
    *stats              = (musec_spectrum_stats){
                     .norm2 = NAN, .fro = NAN, .effective_rank = NAN, .share_above = NAN
    };
    for (int64_t i = 0; i < r; i++)
        values[i] = NAN;
    if (ms_is_16bit(x.dtype)) {
        TRY(ms_scratch_mat(d, MUSEC_F32, x.count, x.rows, x.cols, &x));
        TRY(d->ops->copy(d, given, x));
    }
    TRY(ms_first_nonfinite(d, x, &bad, &count));
    if (bad >= 0) goto done;
    TRY(ms_singular_values(d, x, values));
    ms_spectrum_stats_of(values, r, threshold, stats);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* The Frobenius norm of what the exact clip makes of these singular values; NaN with them. */
static double clipped_norm(double sharpness, const double *values, int64_t r, double threshold)
{
    double sum = 0.0;
    for (int64_t i = 0; i < r; i++) {
        const double s = values[i], smaller = s > threshold ? threshold : s; /* NaN stays */
        const double y =
            smaller * ms_clip_bend(sharpness, s > threshold ? threshold / s : s / threshold);
        sum += y * y;
    }
    return sqrt(sum);
}

static musec_status measure(musec_optim *opt, ms_group *g, int64_t m, ms_mat before,
                            double threshold, ms_mat after, double *values)
{
    const bool           clips = ms_spectral_clips(g->spectral_fn);
    musec_optim_report  *out   = &g->reports[m];
    musec_spectrum_stats stats;
    const int64_t        r     = g->rows < g->cols ? g->rows : g->cols;
    double               exact = sqrt((double)r); /* of the polar factor */
    double               fro   = 0.0;             /* of the weight */
    musec_status         st    = MUSEC_OK;

    if (clips) {
        TRY(spectrum_of(opt->d, before, threshold, r, values, &stats));
        out->threshold     = threshold;
        out->sigma1_over_d = stats.norm2 / threshold;
        out->share_above   = stats.share_above;
        exact              = clipped_norm(opt->sharpness, values, r, threshold);
    }
    TRY(spectrum_of(opt->d, after, 0.0, r, values, &stats));
    out->update_gain = g->spectral_fn == MS_SPECTRAL_NONE ? 0.0
                       : exact > 0.0                      ? stats.fro / exact
                                                          : NAN;
    double scale     = ms_shape_factor(opt->cfg.shape_rule, g->rows, g->cols);
    TRY(weight_norm(opt, g, m, &out->weight_norm2, &fro));
    if (opt->cfg.decay_form == MUSEC_DECAY_HYPERBALL)
        scale = stats.fro > 0.0 ? fro / stats.fro : 0.0;
    else if (opt->cfg.shape_rule == MUSEC_SHAPE_FIXED_RMS)
        scale = stats.fro > 0.0 ? scale / stats.fro : 0.0;
    else if (clips && opt->cfg.update_scale == MUSEC_SCALE_UNIT)
        scale /= threshold;
    out->update_norm2 = stats.norm2 * scale;
    out->update_rms   = stats.fro * scale / sqrt((double)(g->rows * g->cols));
    out->update_erank = stats.effective_rank;
    out->step         = opt->t + 1;
done:
    return st;
}

/* A report that could not be made: the step is taken, and its numbers are not known.  Where a
 * decomposition does not converge, or there is no library for it, nothing else is said. */
static void report_nothing(const musec_optim *opt, musec_optim_report *out)
{
    out->step      = opt->t + 1;
    out->threshold = out->sigma1_over_d = out->share_above = out->weight_norm2 = NAN;
    out->update_norm2 = out->update_rms = out->update_erank = out->update_gain = NAN;
}

void ms_report_span(const ms_step *s, const ms_span *span, ms_num threshold, const ms_report *paths)
{
    musec_optim  *opt    = s->opt;
    ms_group     *g      = span->g;
    const ms_mat  before = span->direction.data != NULL ? span->direction : span->update;
    const int64_t r      = g->rows < g->cols ? g->rows : g->cols;
    double       *values = malloc((size_t)r * sizeof *values);
    for (int64_t i = 0; i < span->n; i++) {
        musec_optim_report *out      = &g->reports[span->first + i];
        double              d        = threshold.value;
        const uint64_t      failures = opt->d->n_failures;
        musec_status        st       = values == NULL ? MUSEC_ENOMEM : MUSEC_OK;
        if (st == MUSEC_OK && threshold.each.data != NULL)
            st = ms_vec_download(opt->d, ms_vec_slice(threshold.each, i, 1), &d);
        if (st == MUSEC_OK)
            st = measure(opt, g, span->first + i, ms_mat_slice(before, i, 1), d,
                         ms_mat_slice(span->update, i, 1), values);
        if (st != MUSEC_OK) report_nothing(opt, out);
        if (st == MUSEC_ENOMEM || (st != MUSEC_OK && opt->d->n_failures > failures))
            opt->unmeasured = st;
        if (paths != NULL) memcpy(out->path, paths[i].path, sizeof paths[i].path);
    }
    free(values);
}

static musec_status find_report(const musec_optim *opt, size_t index, musec_optim_report *report)
{
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g = &opt->groups[i];
        if (g->aux) continue;
        if (index < (size_t)g->count) {
            if (opt->unmeasured != MUSEC_OK) return opt->unmeasured;
            *report =
                g->reports != NULL ? g->reports[index] : ms_report_empty(opt, g, (int64_t)index);
            return MUSEC_OK;
        }
        index -= (size_t)g->count;
    }
    return MUSEC_EINVAL; /* behind the last: how a caller's loop ends */
}

musec_status musec_optim_get_report(const musec_optim *opt, size_t index,
                                    musec_optim_report *report)
{
    musec_optim  draft;
    musec_status st = MUSEC_OK;
    if (opt == NULL || report == NULL) return MUSEC_EINVAL;
    if (opt->ready) return find_report(opt, index, report);
    TRY(ms_optim_draft(opt, &draft));
    st = find_report(&draft, index, report);
    ms_optim_draft_free(&draft);
done:
    return st;
}

/* ---- description ----------------------------------------------------------------------------- */

typedef struct text {
    char  *at;
    size_t bytes, length;
} text;

static void add(text *t, const char *fmt, ...) MS_PRINTF(2, 3);
static void add(text *t, const char *fmt, ...)
{
    const size_t left = t->length < t->bytes ? t->bytes - t->length : 0;
    va_list      args;
    int          n;
    va_start(args, fmt);
    n = vsnprintf(left > 0 ? t->at + t->length : NULL, left, fmt, args);
    va_end(args);
    if (n > 0) t->length += (size_t)n;
}

/* The text of an option. */
typedef struct value {
    char text[256];
} value;

static value value_of(const musec_optim *opt, const char *key)
{
    value v = { "" };
    (void)ms_optim_config_get(&opt->cfg, key, v.text, sizeof v.text);
    return v;
}

static value clip_name(double sharpness)
{
    value v = { "soft" };
    if (sharpness == MS_HARD)
        snprintf(v.text, sizeof v.text, "hard");
    else if (sharpness != MS_SOFT)
        snprintf(v.text, sizeof v.text, "sharp %g", sharpness);
    return v;
}

static void describe_base(const musec_optim *opt, text *t)
{
    const musec_optim_config *c    = &opt->cfg;
    const ms_base            *base = ms_base_find(c->base);
    add(t, "  base %s, lr %g", c->base, c->lr);
    if (ms_base_reads(base, "beta"))
        add(t, ", beta %g (weighs the new gradient), %s from %s, nesterov %s", c->beta,
            value_of(opt, "momentum-form").text,
            c->momentum_init == MUSEC_INIT_FIRST ? "the first gradient" : "zero",
            c->nesterov ? "on" : "off");
    if (ms_base_reads(base, "beta1")) add(t, ", betas %g %g", c->beta1, c->beta2);
    if (ms_base_reads(base, "eps")) add(t, ", eps %g", c->eps);
    add(t, "\n");
    if (c->momentum_dtype == MUSEC_MOMENTUM_BF16)
        add(t, "  momentum stored in bf16, rounded stochastically\n");
    if (ms_base_reads(base, "beta3"))
        add(t, "  slow average: beta3 %g over %lld steps, alpha %g over %lld steps\n", c->beta3,
            (long long)c->beta3_warmup, c->alpha, (long long)c->alpha_warmup);
}

/* What products round their operands to: those of float32 matrices alone may be shorter. */
static musec_dtype operands_dtype(const musec_optim *opt)
{
    musec_dtype dtype = MUSEC_F32; /* of the matrices, if they are all of one */
    for (size_t i = 0; i < opt->n_params; i++) {
        dtype = ms_dtype_accum(opt->params[i].weight.dtype);
        if (dtype == MUSEC_F32) break;
    }
    return ms_optim_operands(opt, dtype);
}

/* The mode, with those of its settings that it reads. */
static void describe_mode(const musec_optim *opt, text *t)
{
    const musec_optim_config *c     = &opt->cfg;
    const musec_dtype         dtype = operands_dtype(opt);

    add(t, "  ns-mode %s", value_of(opt, "ns-mode").text);
    if (c->ns_mode == MUSEC_NS_PAPER) add(t, ", ns-iters %d", c->ns_iters);
    if (c->ns_mode == MUSEC_NS_PAPER && opt->spectral_fn == MS_SPECTRAL_POLAR)
        add(t, ", ns-coeffs %s", value_of(opt, "ns-coeffs").text);
    if (c->ns_mode == MUSEC_NS_ACCURATE) add(t, ", ns-tol %g", ms_optim_tol(c));
    if (ms_is_16bit(dtype) && c->ns_mode != MUSEC_NS_EXACT)
        add(t, ", operands %s", ms_dtype_name(dtype));
    add(t, "\n");
}

static void describe_spectral(const musec_optim *opt, text *t)
{
    static const char *const  rules[] = { "", "rms:", "quantile:" };
    const musec_optim_config *c       = &opt->cfg;
    if (ms_spectral_clips(opt->spectral_fn))
        add(t, "  threshold %s%g, %s clip, update-scale %s, %s\n", rules[c->threshold_rule],
            c->threshold, clip_name(opt->sharpness).text, value_of(opt, "update-scale").text,
            opt->row->stores_clipped_momentum ? "the clipped momentum is stored"
                                              : "the state is stored unclipped");
    if (opt->spectral_fn != MS_SPECTRAL_NONE) describe_mode(opt, t);
    if (c->second_moment != MUSEC_SECOND_NONE)
        add(t, "  divided by second-moment %s, beta %g\n", value_of(opt, "second-moment").text,
            ms_second_beta(c));
    if (opt->row->qk_clip)
        add(t, "  QK-Clip above %g, %zu attentions, alpha %g\n", c->qk_tau, opt->n_attentions,
            c->qk_alpha);
}

static void describe_rule(const musec_optim *opt, text *t)
{
    const musec_optim_config *c = &opt->cfg;
    add(t, "%s: %s\n", opt->row->name, opt->row->description);
    describe_base(opt, t);
    describe_spectral(opt, t);
    add(t, "  weight decay %s, qk %g vo %g mlp %g matrix %g; shape rule %s\n",
        value_of(opt, "decay-form").text, c->weight_decay[MUSEC_ROLE_QK],
        c->weight_decay[MUSEC_ROLE_VO], c->weight_decay[MUSEC_ROLE_MLP],
        c->weight_decay[MUSEC_ROLE_MATRIX], value_of(opt, "shape-rule").text);
    if (c->avg_steps > 0)
        add(t, "  averages over epochs of %lld steps, epoch %lld of %lld is picked\n",
            (long long)c->avg_steps, (long long)ms_picked_epoch(opt) + 1, (long long)c->avg_epochs);
    add(t, "  a gradient that is not finite: %s\n",
        c->nonfinite == MUSEC_NONFINITE_STOP   ? "stop"
        : c->nonfinite == MUSEC_NONFINITE_SKIP ? "skip the step"
                                               : "skip the step, as the device decides");
    if (ms_step_graphs_launched(opt) > 0)
        add(t, "  %llu of %lld steps were launched as graphs\n",
            (unsigned long long)ms_step_graphs_launched(opt), (long long)opt->t);
    add(t, "  embed, head, vector: " MS_AUX_BASE ", lr %g, betas %g %g, eps %g, decay %g\n",
        c->aux_lr, c->aux_beta1, c->aux_beta2, c->aux_eps, c->aux_weight_decay);
}

static void describe_param(const musec_optim *opt, const ms_param *p, text *t)
{
    static const char *const roles[] = {
#define X(name, code, words, matrix) words,
        MUSEC_ROLE_MAP(X)
#undef X
    };
    const bool matrix = p->role < MUSEC_MATRIX_ROLES;
    add(t, "%s: role %s, %s", p->name, roles[p->role], matrix ? opt->row->name : MS_AUX_BASE);
    for (int64_t b = 0; b < p->n_blocks; b++) {
        const musec_block *k = &p->blocks[b];
        add(t, "%s %lld x (%lld x %lld)", b == 0 ? ";" : ",", (long long)k->count,
            (long long)k->rows, (long long)k->cols);
        if (k->rows != k->group_rows)
            add(t, " in %lld groups of rows", (long long)(k->rows / k->group_rows));
        if (matrix) add(t, " factor %g", ms_shape_factor(opt->cfg.shape_rule, k->rows, k->cols));
    }
    if (p->weight.dtype == MUSEC_BF16) add(t, "; bf16, with the lower halves of float32");
    if (p->weight.dtype == MUSEC_F16) add(t, "; f16, with a master in float32");
    if (p->lr >= 0.0) add(t, "; lr %g", p->lr);
    if (p->lr_factor != 1.0) add(t, "; lr times %g", p->lr_factor);
    if (p->weight_decay >= 0.0) add(t, "; weight decay %g", p->weight_decay);
    add(t, "\n");
}

size_t musec_optim_describe(const musec_optim *opt, char *out, size_t bytes)
{
    text t = { .at = out, .bytes = out == NULL ? 0 : bytes };
    if (opt == NULL) return 0;
    describe_rule(opt, &t);
    for (size_t i = 0; i < opt->n_params; i++)
        describe_param(opt, &opt->params[i], &t);
    return t.length;
}
