/* threshold.c - D as a number, or from the update direction M itself.
 *
 *   rms:k       D = k |M|_F / sqrt(r): k times the root mean square of the singular values.
 *   quantile:q  D = the q-quantile of the singular values, estimated by stochastic Lanczos
 *               quadrature (linalg/spectrum.c), which takes many products and waits.
 *
 * Both scale with M: with update-scale unit the optimizer does not see the scale of the gradient.
 *
 * Every step measures |M|_F, by one reduction of M as the operator takes it.  Where that has 16
 * bits it is half of what the average read of a gradient, and rounding changes its norm by at most
 * 2^-11 (f16) or 2^-9 (bf16) of itself; nothing waits.
 *
 * What a quantile is in units of |M|_F / sqrt(r) changes slowly, but for the first steps.  So this
 * ratio is estimated at every step of a parameter up to the 16th, at every second up to the 32nd,
 * at every fourth up to the 64th and so on, at most LONGEST steps apart, and kept in between.  It
 * is a part of the optimizer's state. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/real.h"
#include "optim/optim.h"

#define MIN_OF_RMS 1e-3 /* a quantile counts as at least this much of the root mean square */

enum { LONGEST = 32 }; /* steps between two estimates; a power of two */

/* D = factor |M|_F / sqrt(r) for each matrix M of the inputs. */
static musec_status times_rms(ms_device *d, const ms_stacks *x, ms_num factor, ms_num *threshold)
{
    const ms_mat  shape = x->in[0].mat;
    const int64_t r     = shape.rows < shape.cols ? shape.rows : shape.cols;
    int64_t       count = 0;
    ms_vec        all;
    musec_status  st = MUSEC_OK;
    for (int i = 0; i < x->n; i++)
        count += x->in[i].mat.count;
    TRY(ms_scratch_vec(d, count, &all));
    for (int64_t i = 0, first = 0; i < x->n; first += x->in[i++].mat.count) {
        const ms_scaled_mat one  = x->in[i];
        const ms_vec        part = ms_vec_slice(all, first, one.mat.count);
        TRY(d->ops->sumsq(d, one.mat, part));
        TRY(ms_scalar_rms(
            d,
            (ms_rms_nums){ .factor = ms_num_slice(factor, first, one.mat.count),
                           .rank   = ms_const((double)r),
                           .scale  = one.scale.data != NULL ? ms_each(one.scale) : ms_const(1.0),
                           .sumsq  = ms_each(part) },
            (ms_rms_vecs){ part }));
    }
    *threshold = ms_each(all);
done:
    return st;
}

/* The ratio that counts: what was found, or what was known where M is 0, at first 1. */
static double ratio_of(double found, double known)
{
    if (found > 0.0) return fmax(found, MIN_OF_RMS); /* that of low rank may be rounding */
    return known > 0.0 ? known : 1.0;
}

musec_status ms_threshold(musec_optim *opt, const ms_stacks *x, const double *quantiles,
                          ms_num *threshold)
{
    const musec_optim_config *cfg   = &opt->cfg;
    double                   *found = NULL;
    int64_t                   count = 0;
    musec_status              st    = MUSEC_OK;
    *threshold                      = ms_const(cfg->threshold);
    if (cfg->threshold_rule == MUSEC_THRESHOLD_FIXED) return MUSEC_OK;
    if (cfg->threshold_rule == MUSEC_THRESHOLD_RMS)
        return times_rms(opt->d, x, ms_const(cfg->threshold), threshold);
    if (quantiles != NULL) return times_rms(opt->d, x, ms_host(quantiles), threshold);
    for (int i = 0; i < x->n; i++)
        count += x->in[i].mat.count;
    found = calloc((size_t)count + 1, sizeof *found);
    if (found == NULL) TRY(ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the thresholds"));
    TRY(ms_quantile_ratios(opt->d, x, cfg->threshold, cfg->seed, found));
    for (int64_t b = 0; b < count; b++)
        found[b] = ratio_of(found[b], 0.0);
    TRY(times_rms(opt->d, x, ms_host(found), threshold));
done:
    free(found);
    return st;
}

/* Is the ratio of a member estimated at this step?  One that was never estimated came from a file
 * without it. */
static bool is_due(const musec_optim *opt, const ms_group *g, int64_t m)
{
    const int64_t t        = ms_member_param(opt, g, m)->t;
    int64_t       interval = 1;
    while (interval < LONGEST && 16 * interval <= t)
        interval *= 2;
    return t % interval == 0 || g->quantile[m] == 0.0;
}

/* While the rate warms up D is larger by as much as the rate is smaller, so that lr D stays. */
static musec_status warm_up(const ms_step *s, ms_num *threshold)
{
    const double scale = s->args.lr_scale;
    if (s->opt->t >= s->opt->cfg.threshold_warmup || !(scale > 0.0)) return MUSEC_OK;
    if (threshold->each.data == NULL) {
        threshold->value /= scale;
        return MUSEC_OK;
    }
    return ms_scalar_divide(
        s->opt->d, (ms_divide_nums){ .numerator = *threshold, .denominator = ms_const(scale) },
        (ms_divide_vecs){ threshold->each });
}

musec_status ms_step_threshold(ms_step *s, const ms_span *spans, int n_spans, const ms_stacks *x,
                               ms_num *threshold)
{
    musec_optim              *opt       = s->opt;
    const musec_optim_config *cfg       = &opt->cfg;
    double                   *ratios    = s->host->quantile;
    const bool                quantiles = cfg->threshold_rule == MUSEC_THRESHOLD_QUANTILE;
    bool                      due       = false;
    musec_status              st        = MUSEC_OK;
    for (int i = 0; quantiles && i < n_spans; i++)
        for (int64_t k = 0; k < spans[i].n; k++)
            due = due || is_due(opt, spans[i].g, spans[i].first + k);
    if (due) TRY(ms_quantile_ratios(opt->d, x, cfg->threshold, cfg->seed, ratios));
    for (int64_t i = 0, at = 0; quantiles && i < n_spans; at += spans[i++].n)
        for (int64_t k = 0; k < spans[i].n; k++) {
            const int64_t m     = spans[i].first + k;
            double       *known = &spans[i].g->quantile[m];
            if (is_due(opt, spans[i].g, m)) *known = ratio_of(ratios[at + k], *known);
            ratios[at + k] = *known;
        }
    TRY(ms_threshold(opt, x, ratios, threshold));
    TRY(warm_up(s, threshold));
done:
    return st;
}

/* ---- state files ----------------------------------------------------------------------------- */

/* The text is "q ratio". */
bool ms_quantile_text(const musec_optim *opt, const ms_group *g, int64_t m, char *text,
                      size_t bytes)
{
    char q[MS_REAL_TEXT], ratio[MS_REAL_TEXT];
    ms_real_text(opt->cfg.threshold, q);
    ms_real_text(g->quantile[m], ratio);
    snprintf(text, bytes, "%s %s", q, ratio);
    return g->quantile[m] > 0.0;
}

musec_status ms_quantile_read(musec_optim *opt, const ms_safetensors *s, const char *key,
                              double *ratio)
{
    const char *text = ms_safetensors_metadata(s, key);
    char       *rest = NULL;
    if (text == NULL || opt->cfg.threshold_rule != MUSEC_THRESHOLD_QUANTILE) return MUSEC_OK;
    const double q     = ms_real_read(text, &rest),
                 found = *rest == ' ' ? ms_real_read(rest, &rest) : 0.0;
    if (!(q > 0.0 && q <= 1.0 && found > 0.0 && found < INFINITY) || *rest != '\0')
        return ms_fail(&opt->d->error, MUSEC_EFORMAT,
                       "%s: \"%s\" is \"%s\"; it must be a quantile and a number above 0", s->path,
                       key, text);
    if (q == opt->cfg.threshold) *ratio = found;
    return MUSEC_OK;
}
