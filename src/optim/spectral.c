/* spectral.c - the third phase of a step: applies the spectral function to update directions.
 *
 * The update goes into the state itself where the optimizer stores the clipped momentum, else into
 * a stack of its own.  Spans of fusible groups go into one call of the operator, which does all
 * that is r x r of them at once. */
#include <assert.h>
#include <math.h>

#include "core/names.h"
#include "optim/optim.h"

double ms_optim_tol(const musec_optim_config *cfg)
{
    const double min = 1e-6; /* beta may be 0 */
    return cfg->ns_tol > 0.0 ? cfg->ns_tol : fmax(0.01 * cfg->beta, min);
}

ms_quintic_list ms_optim_quintics(const musec_optim_config *cfg)
{
    char            name[16];
    ms_quintic_list list;
    ms_choice_text(MS_QUINTIC_LISTS, cfg->ns_coeffs, name, sizeof name);
    list = *ms_quintic_list_find(name);
    if (cfg->ns_eps > 0.0) list.eps = cfg->ns_eps;
    list.eps_is_floor = cfg->ns_eps_form == MUSEC_EPS_FLOOR;
    return list;
}

/* Entries of Muon's update are at most about 1.2, and the last of its products has rounded more
 * than f16 will. */
musec_dtype ms_update_dtype(const musec_optim *opt, const ms_group *g)
{
    const bool steps = g->spectral_fn == MS_SPECTRAL_POLAR && opt->cfg.ns_mode != MUSEC_NS_EXACT;
    return steps && g->operands == MUSEC_F16 ? MUSEC_F16 : g->dtype;
}

static musec_status clip(ms_device *d, const musec_optim_config *cfg, musec_dtype operands,
                         ms_stacks x, ms_num threshold, ms_report *report)
{
    ms_poly_plan plan;
    switch (cfg->ns_mode) {
    case MUSEC_NS_PAPER7:
        ms_poly_plan_paper7(&plan);
        return ms_ssc_plan(d, x, threshold, &plan, operands, report);
    case MUSEC_NS_FAST: return ms_soft_fast(d, x, threshold, operands, report);
    case MUSEC_NS_ACCURATE:
        return ms_soft_accurate(d, x, threshold, ms_optim_tol(cfg), operands, report);
    case MUSEC_NS_EXACT: return ms_exact(d, x.sharpness, x.in[0].mat, threshold, x.out[0], report);
    default: break;
    }
    if (cfg->literal) return ms_ssc_literal(d, x, threshold, cfg->ns_iters, operands, report);
    ms_plan_newton_schulz(cfg->ns_iters, &plan);
    return ms_ssc_plan(d, x, threshold, &plan, operands, report);
}

musec_status ms_run_spectral(musec_optim *opt, const ms_group *g, ms_stacks x, ms_num threshold,
                             ms_report *report)
{
    const musec_optim_config *cfg  = &opt->cfg;
    const ms_quintic_list     list = ms_optim_quintics(cfg);
    const ms_mat              in = x.in[0].mat, out = x.out[0];
    x.sharpness = opt->sharpness;
    if (ms_spectral_clips(g->spectral_fn))
        return clip(opt->d, cfg, g->operands, x, threshold, report);
    assert(x.n == 1);
    if (cfg->ns_mode == MUSEC_NS_EXACT)
        return ms_exact(opt->d, MS_POLAR, in, threshold, out, report);
    ms_report_path(report, in.count, list.name, cfg->ns_iters);
    ms_report_compute_dtype(report, in.count, g->operands);
    return ms_newton_schulz(opt->d, x.in[0], &list, cfg->ns_iters, g->operands, out);
}

/* The directions of spans, as the spectral function takes them. */
static ms_stacks directions_of(const ms_span *spans, int n_spans)
{
    ms_stacks x = { .n = n_spans };
    for (int i = 0; i < n_spans; i++)
        x.in[i] =
            spans[i].scaled.mat.data != NULL ? spans[i].scaled : ms_unscaled(spans[i].direction);
    return x;
}

/* update <- f(direction) of all spans by one call, by the rule of their groups. */
static musec_status apply(musec_optim *opt, const ms_span *spans, int n_spans, ms_num threshold,
                          bool cached, ms_vec write, ms_report *paths)
{
    ms_stacks x = directions_of(spans, n_spans);
    x.write     = write;
    for (int i = 0; i < n_spans; i++) {
        const ms_span      *span  = &spans[i];
        const ms_gram_norms norms = span->g->gram_norms;
        x.out[i]                  = span->update;
        if (!cached) continue;
        x.gram_norms[i].sumsq = ms_vec_slice(norms.sumsq, span->first, span->n);
        x.gram_norms[i].trace = ms_vec_slice(norms.trace, span->first, span->n);
    }
    return ms_run_spectral(opt, spans[0].g, x, threshold, paths);
}

musec_status ms_apply_spectral(ms_step *s, ms_span *spans, int n_spans, ms_num *threshold,
                               ms_report *paths)
{
    musec_optim    *opt   = s->opt;
    const ms_group *group = spans[0].g;
    const ms_stacks x     = directions_of(spans, n_spans);
    ms_vec          write = { 0 }; /* all */
    int64_t         n     = 0;
    musec_status    st    = MUSEC_OK;
    *threshold            = ms_const(1.0);
    for (int i = 0; i < n_spans; i++)
        spans[i].update = spans[i].direction;
    if (group->spectral_fn == MS_SPECTRAL_NONE) return MUSEC_OK;
    if (ms_spectral_clips(group->spectral_fn))
        TRY(ms_step_threshold(s, spans, n_spans, &x, threshold));
    for (int i = 0; i < n_spans; i++) {
        const ms_group *g = spans[i].g;
        spans[i].update   = spans[i].momentum;
        n += spans[i].n;
        if (!ms_group_stores_clipped(opt, g))
            TRY(ms_scratch_mat(opt->d, ms_update_dtype(opt, g), spans[i].n, g->rows, g->cols,
                               &spans[i].update));
    }
    if (opt->d->guard != NULL && ms_group_stores_clipped(opt, group))
        write = ms_vec_slice(s->take, 0, n); /* the guard is not on products */
    TRY(apply(opt, spans, n_spans, *threshold, true, write, paths));
done:
    return st;
}

musec_status ms_apply_spectral_ahead(ms_step *s, ms_span *spans, int n_spans, ms_num threshold)
{
    musec_status st = MUSEC_OK;
    for (int i = 0; i < n_spans; i++) {
        const ms_group *g = spans[i].g;
        TRY(ms_scratch_mat(s->opt->d, g->dtype, spans[i].n, g->rows, g->cols, &spans[i].update));
    }
    TRY(apply(s->opt, spans, n_spans, threshold, false, (ms_vec){ 0 }, NULL));
done:
    return st;
}
