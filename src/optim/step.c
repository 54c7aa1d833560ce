/* step.c - one step: propose, map, apply.
 *
 * Members of a group that have a gradient are worked through in runs of at most `chunk` matrices.
 * Proposals go to a stack of their own; the map writes into the state itself where the optimizer
 * carries the clipped momentum, else into a second stack; weights are updated where they lie. */
#include <math.h>
#include <string.h>

#include "optim/optim.h"

typedef struct step_args {
    const musec_view *grads;
    double            lr_scale;
    bool              report; /* this step is measured */
} step_args;

double ms_shape_factor(int rule, int64_t rows, int64_t cols)
{
    const double m = (double)rows, n = (double)cols;
    switch (rule) {
    case MUSEC_SHAPE_KELLER: return sqrt(fmax(1.0, m / n));
    case MUSEC_SHAPE_MOONLIGHT: return 0.2 * sqrt(fmax(m, n));
    case MUSEC_SHAPE_MUP: return sqrt(m / n);
    case MUSEC_SHAPE_RMS: return sqrt(fmax(m, n));
    case MUSEC_SHAPE_NORMUON: return 0.2 * sqrt(m * n); /* divided by the norm of each update */
    default: return 1.0;
    }
}

static const musec_optim_config *config_of(const musec_optim *opt, const ms_group *g)
{
    return g->aux ? &opt->aux_cfg : &opt->cfg;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static ms_mat grad_mat(const ms_param *p, musec_view view)
{
    ms_mat g = p->weight; /* the same shape; blocks are read with the weight's own steps */
    g.data   = view.data;
    return g;
}

static musec_status check_grads(musec_optim *opt, const musec_view *grads, size_t n_grads)
{
    ms_error *e = &opt->d->error;
    if (grads == NULL || n_grads != opt->n_params)
        return ms_fail(e, MUSEC_EINVAL, "step: %zu gradients for %zu parameters", n_grads,
                       opt->n_params);
    for (size_t i = 0; i < n_grads; i++) {
        const ms_mat     w = opt->params[i].weight;
        const musec_view g = grads[i];
        if (g.data == NULL) continue;
        if (g.rows != w.rows || g.cols != w.cols || g.count != w.count || g.dtype != w.dtype ||
            g.ld != w.ld || (g.count > 1 && g.stride != w.stride))
            return ms_fail(e, MUSEC_EINVAL,
                           "step: the gradient of %s (%lld x %lld x %lld, ld %lld) must have the "
                           "weight's shape, steps and dtype (%lld x %lld x %lld, ld %lld)",
                           opt->params[i].name, (long long)g.count, (long long)g.rows,
                           (long long)g.cols, (long long)g.ld, (long long)w.count,
                           (long long)w.rows, (long long)w.cols, (long long)w.ld);
    }
    return MUSEC_OK;
}

/* The first parameter whose gradient is not finite, or n_params; under coupled decay the weight is
 * a part of the gradient. */
static musec_status find_nonfinite(musec_optim *opt, const musec_view *grads, size_t *found)
{
    const bool   coupled = opt->cfg.decay_form == MUSEC_DECAY_COUPLED;
    int64_t      bad     = -1;
    double       count   = 0.0;
    musec_status st      = MUSEC_OK;
    for (*found = 0; *found < opt->n_params; (*found)++) {
        const ms_param *p = &opt->params[*found];
        if (grads[*found].data == NULL) continue;
        TRY(ms_first_nonfinite(opt->d, grad_mat(p, grads[*found]), &bad, &count));
        if (bad < 0 && coupled) TRY(ms_first_nonfinite(opt->d, p->weight, &bad, &count));
        if (bad >= 0) break;
    }
done:
    return st;
}

/* ---- propose --------------------------------------------------------------------------------- */

/* A part as one matrix: itself, or its groups gathered into scratch. */
static musec_status gathered(ms_device *d, ms_part part, ms_mat *out)
{
    musec_status st = MUSEC_OK;
    *out            = part.first;
    if (part.groups == 1) return MUSEC_OK;
    TRY(ms_scratch_mat(d, part.first.dtype, 1, part.first.rows * part.groups, part.first.cols,
                       out));
    for (int64_t k = 0; k < part.groups; k++)
        TRY(d->ops->copy(d, ms_part_group(part, k), ms_dense_group(*out, part, k)));
done:
    return st;
}

static musec_status propose(musec_optim *opt, const ms_group *g, int64_t m, const step_args *a,
                            ms_proposal_mode mode, ms_mat u)
{
    const ms_member          *member = &g->members[m];
    ms_param                 *param  = &opt->params[member->param];
    const musec_block        *block  = &param->blocks[member->block];
    const ms_mark             mark   = ms_arena_mark(&opt->d->scratch);
    const musec_optim_config *cfg    = config_of(opt, g);
    ms_proposal               p      = { .cfg = cfg, .t = param->t + 1, .u = u, .mode = mode };
    musec_status              st     = MUSEC_OK;

    TRY(gathered(opt->d,
                 ms_block_part(grad_mat(param, a->grads[member->param]), block, member->index),
                 &p.g));
    if (cfg->decay_form == MUSEC_DECAY_COUPLED && !g->aux) {
        p.coupled = cfg->weight_decay[param->role];
        TRY(gathered(opt->d, ms_block_part(param->weight, block, member->index), &p.w));
    }
    for (int s = 0; g->base->states[s] != NULL; s++)
        p.state[s] = ms_mat_slice(g->state[s], m, 1);
    TRY(g->base->propose(opt->d, &p));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* ---- map ------------------------------------------------------------------------------------- */

static musec_status soft_map(ms_device *d, const musec_optim_config *cfg, ms_mat in,
                             ms_num threshold, ms_mat out, ms_report *report)
{
    ms_plan plan;
    switch (cfg->ns_mode) {
    case MUSEC_NS_PAPER7:
        ms_plan_paper7(&plan);
        return ms_ssc_plan(d, in, threshold, &plan, out, report);
    case MUSEC_NS_FAST: return ms_soft_fast(d, in, threshold, out, report);
    case MUSEC_NS_ACCURATE: return ms_soft_accurate(d, in, threshold, cfg->ns_tol, out, report);
    case MUSEC_NS_EXACT: return ms_exact(d, MS_MAP_SOFT, in, threshold, out, report);
    default: break;
    }
    if (cfg->literal) return ms_ssc_literal(d, in, threshold, cfg->ns_iters, out, report);
    ms_plan_newton_schulz(cfg->ns_iters, &plan);
    return ms_ssc_plan(d, in, threshold, &plan, out, report);
}

musec_status ms_optim_run_map(musec_optim *opt, const ms_group *g, ms_mat in, ms_num threshold,
                              ms_mat out, ms_report *report)
{
    static const char *const  coeffs[] = { "keller", "polar-express" };
    const musec_optim_config *cfg      = &opt->cfg;
    if (g->map == MS_UPDATE_SOFT) return soft_map(opt->d, cfg, in, threshold, out, report);
    if (g->map == MS_UPDATE_HARD) return ms_exact(opt->d, MS_MAP_HARD, in, threshold, out, report);
    if (cfg->ns_mode == MUSEC_NS_EXACT)
        return ms_exact(opt->d, MS_MAP_POLAR, in, threshold, out, report);
    ms_report_path(report, in.count, coeffs[cfg->ns_coeffs], cfg->ns_iters);
    return ms_newton_schulz(opt->d, in, ms_quintic_list_find(coeffs[cfg->ns_coeffs]), cfg->ns_iters,
                            out);
}

/* ---- apply ----------------------------------------------------------------------------------- */

/* What a matrix loses to decay, besides coupled decay, which is in its gradient.  lr: with the
 * parameter's own factor, which `base` is without. */
static double decay_of(const musec_optim_config *cfg, double wd, double base, double lr,
                       double shape)
{
    switch (cfg->decay_form) {
    case MUSEC_DECAY_DECOUPLED:
    case MUSEC_DECAY_AFTER:
    case MUSEC_DECAY_CAUTIOUS: return lr * wd;
    case MUSEC_DECAY_FRANK_WOLFE: return lr;
    case MUSEC_DECAY_INDEPENDENT: return wd;
    case MUSEC_DECAY_LR2: return lr * lr * wd;
    case MUSEC_DECAY_CAUTIOUS_LR2: return lr * shape * wd * base;
    default: return 0.0;
    }
}

/* The factor on the update u of one matrix: `size`, divided by what only the device knows. */
static musec_status step_size(musec_optim *opt, const ms_group *g, double size, ms_num threshold,
                              ms_mat u, ms_num *step)
{
    const ms_device_ops *op = opt->d->ops;
    ms_vec               each;
    musec_status         st = MUSEC_OK;
    *step                   = ms_const(size);
    if (g->aux || size == 0.0) return MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, 1, &each));
    if (opt->cfg.shape_rule ==
        MUSEC_SHAPE_NORMUON) { /* the norm cancels any scale, that of D too */
        TRY(op->sumsq(opt->d, u, each));
        TRY(op->scalars(opt->d, MS_SCALAR_INV_NORM, (double[]){ 1.0 / size, 1e-30 }, 2,
                        (ms_num[]){ ms_each(each) }, &each));
        *step = ms_each(each);
    } else if (opt->cfg.update_scale == MUSEC_SCALE_UNIT && ms_map_clips(g->map)) {
        TRY(op->scalars(opt->d, MS_SCALAR_DIVIDE, &size, 1, &threshold, &each));
        *step = ms_each(each);
    }
done:
    return st;
}

static musec_status apply(musec_optim *opt, const ms_group *g, int64_t m, const step_args *a,
                          ms_num threshold, int64_t in_chunk, ms_mat u)
{
    const musec_optim_config *cfg    = config_of(opt, g);
    const ms_member          *member = &g->members[m];
    const ms_param           *param  = &opt->params[member->param];
    const ms_part part = ms_block_part(param->weight, &param->blocks[member->block], member->index);
    const double  lr   = cfg->lr * a->lr_scale * param->lr_factor;
    const double  shape = g->aux ? 1.0 : ms_shape_factor(cfg->shape_rule, g->rows, g->cols);
    const double  wd    = g->aux ? cfg->aux_weight_decay : cfg->weight_decay[param->role];
    const double  known = cfg->shape_rule == MUSEC_SHAPE_NORMUON ? 1.0 : shape; /* beforehand */
    const double  decay = decay_of(cfg, wd, cfg->lr * a->lr_scale, lr, known);
    const double  kept  = cfg->decay_form == MUSEC_DECAY_AFTER ? 1.0 - decay : 1.0;
    const bool    cautious =
        cfg->decay_form == MUSEC_DECAY_CAUTIOUS || cfg->decay_form == MUSEC_DECAY_CAUTIOUS_LR2;
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    ms_num        step;
    musec_status  st = MUSEC_OK;

    if (threshold.each.data != NULL) threshold.each = ms_vec_slice(threshold.each, in_chunk, 1);
    TRY(step_size(opt, g, lr * shape * kept, threshold, u, &step));
    for (int64_t k = 0; k < part.groups; k++)
        TRY(opt->d->ops->decay_add(opt->d, step, ms_dense_group(u, part, k), ms_const(decay),
                                   cautious, ms_part_group(part, k)));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* ---- a run of members ------------------------------------------------------------------------ */

/* With Nesterov, an optimizer that carries the clipped momentum M looks ahead from it: the step is
 * the clip of (1 - beta) M + beta G (heavy-ball: + G). */
static musec_status run_members(musec_optim *opt, ms_group *g, int64_t first, int64_t n,
                                const step_args *a)
{
    const ms_mark mark      = ms_arena_mark(&opt->d->scratch);
    const bool    carries   = opt->kind->feeds_back && !g->aux;
    ms_num        threshold = ms_const(1.0);
    ms_mat        u, v, ahead;
    ms_report    *paths = NULL;
    musec_status  st    = MUSEC_OK;

    TRY(ms_scratch_mat(opt->d, g->dtype, n, g->rows, g->cols, &u));
    for (int64_t i = 0; i < n; i++)
        TRY(propose(opt, g, first + i, a, carries ? MS_PROPOSE_KEEP : MS_PROPOSE,
                    ms_mat_slice(u, i, 1)));
    v = u;
    if (g->map != MS_UPDATE_AS_IS) {
        if (a->report) TRY(ms_report_paths(opt, n, &paths));
        if (ms_map_clips(g->map)) TRY(ms_threshold(opt, u, &threshold));
        v = ms_mat_slice(g->state[0], first, n);
        if (!carries) TRY(ms_scratch_mat(opt->d, g->dtype, n, g->rows, g->cols, &v));
        TRY(ms_optim_run_map(opt, g, u, threshold, v, paths));
        if (carries && opt->cfg.nesterov) {
            TRY(ms_scratch_mat(opt->d, g->dtype, n, g->rows, g->cols, &ahead));
            for (int64_t i = 0; i < n; i++)
                TRY(propose(opt, g, first + i, a, MS_PROPOSE_AHEAD, ms_mat_slice(ahead, i, 1)));
            TRY(ms_scratch_mat(opt->d, g->dtype, n, g->rows, g->cols, &v));
            TRY(ms_optim_run_map(opt, g, ahead, threshold, v, NULL));
        }
    }
    for (int64_t i = 0; i < n; i++)
        TRY(apply(opt, g, first + i, a, threshold, i, ms_mat_slice(v, i, 1)));
    if (a->report && !g->aux) ms_report_members(opt, g, first, u, threshold, v, paths);
done:
    ms_report_paths_free(paths);
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

static musec_status run_group(musec_optim *opt, ms_group *g, const step_args *a)
{
    musec_status st = MUSEC_OK;
    for (int64_t first = 0, n; first < g->count; first += n) {
        for (n = 0; first + n < g->count && n < g->chunk; n++)
            if (a->grads[g->members[first + n].param].data == NULL) break;
        if (n > 0)
            TRY(run_members(opt, g, first, n, a));
        else
            n = 1; /* no gradient: left as it is */
    }
done:
    return st;
}

/* ---- epoch averages (paper: Algorithm 2) ----------------------------------------------------- */

/* Of K epochs of T steps one is picked beforehand, uniformly; while it runs, the average of its
 * weights is kept: average <- average + (W - average) / t. */
static musec_status update_averages(musec_optim *opt)
{
    const int64_t T     = opt->cfg.avg_steps;
    const int64_t epoch = (opt->t - 1) / (T > 0 ? T : 1);
    musec_status  st    = MUSEC_OK;
    if (T == 0 || epoch != ms_picked_epoch(opt)) return MUSEC_OK;
    const double share = 1.0 / (double)((opt->t - 1) % T + 1);
    for (size_t i = 0; i < opt->n_params; i++)
        TRY(opt->d->ops->axpby(opt->d, ms_const(share), opt->params[i].weight,
                               ms_const(1.0 - share), opt->params[i].average));
done:
    return st;
}

musec_status musec_optim_set_beta(musec_optim *opt, double beta)
{
    if (opt == NULL) return MUSEC_EINVAL;
    if (!(beta >= 0.0 && beta <= 1.0))
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "beta is %g; it must be from 0 to 1", beta);
    opt->cfg.beta = beta;
    return MUSEC_OK;
}

musec_status musec_optim_step(musec_optim *opt, const musec_view *grads, size_t n_grads,
                              double lr_scale)
{
    size_t       bad = 0;
    musec_status st  = MUSEC_OK;
    if (opt == NULL) return MUSEC_EINVAL;
    if (!(lr_scale >= 0.0 && lr_scale < INFINITY))
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "step: lr_scale is %g", lr_scale);
    TRY(ms_optim_prepare(opt));
    TRY(check_grads(opt, grads, n_grads));
    TRY(find_nonfinite(opt, grads, &bad));
    if (bad < opt->n_params) ms_qk_forget(opt);
    if (bad < opt->n_params && opt->cfg.nonfinite == MUSEC_NONFINITE_STOP)
        return ms_fail(
            &opt->d->error, MUSEC_ENONFINITE,
            "step %lld: the gradient of %s holds a NaN or an infinity; nothing was changed",
            (long long)opt->t + 1, opt->params[bad].name);
    if (bad < opt->n_params) {
        opt->skipped++;
        return MUSEC_OK;
    }
    const int64_t   every = opt->cfg.report_every;
    const step_args a     = { grads, lr_scale, every > 0 && (opt->t + 1) % every == 0 };
    for (size_t i = 0; i < opt->n_groups; i++)
        TRY(run_group(opt, &opt->groups[i], &a));
    for (size_t i = 0; i < opt->n_params; i++)
        opt->params[i].t += grads[i].data != NULL;
    opt->t++;
    TRY(ms_qk_clip(opt));
    TRY(update_averages(opt));
done:
    return st;
}
