/* step.c - one step: propose, map, apply.
 *
 * Members of a group that have a gradient are worked through in runs of at most `chunk` matrices.
 * Proposals go to a stack of their own, unless the momentum itself is what is proposed; the map
 * writes into the state itself where the optimizer carries the clipped momentum, else into a second
 * stack; weights are updated where they lie.
 *
 * A momentum that is kept in bf16 is brought to float32 for the step, as if it lay there, and
 * rounded at random when it is put back: the draws depend on the seed, the step, the group and the
 * place in it, so a resumed run goes on with the same bits, whatever the chunks. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "optim/optim.h"

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

/* ---- checks ---------------------------------------------------------------------------------- */

ms_mat ms_grad_mat(const ms_param *p, musec_view view)
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

/* ---- map ------------------------------------------------------------------------------------- */

double ms_optim_tol(const musec_optim_config *cfg)
{
    const double least = 1e-6; /* beta may be 0 */
    return cfg->ns_tol > 0.0 ? cfg->ns_tol : fmax(0.01 * cfg->beta, least);
}

const ms_quintic_list *ms_optim_quintics(const musec_optim_config *cfg)
{
    static const char *const names[] = { "keller", "polar-express" };
    return ms_quintic_list_find(names[cfg->ns_coeffs]);
}

static musec_status soft_map(ms_device *d, const musec_optim_config *cfg, musec_dtype operands,
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
    case MUSEC_NS_EXACT: return ms_exact(d, MS_EXACT_SOFT, x.in[0], threshold, x.out[0], report);
    default: break;
    }
    if (cfg->literal) return ms_ssc_literal(d, x, threshold, cfg->ns_iters, operands, report);
    ms_plan_newton_schulz(cfg->ns_iters, &plan);
    return ms_ssc_plan(d, x, threshold, &plan, operands, report);
}

musec_status ms_optim_run_map(musec_optim *opt, const ms_group *g, ms_stacks x, ms_num threshold,
                              ms_report *report)
{
    const musec_optim_config *cfg  = &opt->cfg;
    const ms_quintic_list    *list = ms_optim_quintics(cfg);
    const ms_mat              in = x.in[0], out = x.out[0];
    if (g->spectral_fn == MS_SPECTRAL_SOFT_CLIP)
        return soft_map(opt->d, cfg, g->operands, x, threshold, report);
    assert(x.n == 1);
    if (g->spectral_fn == MS_SPECTRAL_HARD_CLIP)
        return ms_exact(opt->d, MS_EXACT_HARD, in, threshold, out, report);
    if (cfg->ns_mode == MUSEC_NS_EXACT)
        return ms_exact(opt->d, MS_EXACT_POLAR, in, threshold, out, report);
    ms_report_path(report, in.count, list->name, cfg->ns_iters);
    ms_report_compute_dtype(report, in.count, g->operands);
    return ms_newton_schulz(opt->d, in, list, cfg->ns_iters, g->operands, out);
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

/* What the update of a matrix is multiplied by, but for what only the device knows, and what the
 * weight loses. */
static void rates_of(const musec_optim *opt, const ms_group *g, int64_t m, const ms_step *a,
                     double *size, double *decay)
{
    const musec_optim_config *cfg   = ms_group_config(opt, g);
    const ms_param           *param = ms_member_param(opt, g, m);
    const double              base  = ms_param_lr(opt, param) * a->lr_scale;
    const double              lr    = base * param->lr_factor;
    const double shape = g->aux ? 1.0 : ms_shape_factor(cfg->shape_rule, g->rows, g->cols);
    const double wd    = ms_param_decay(opt, param);
    const double known = cfg->shape_rule == MUSEC_SHAPE_NORMUON ? 1.0 : shape; /* beforehand */
    *decay             = decay_of(cfg, wd, base, lr, known);
    *size              = lr * shape * (cfg->decay_form == MUSEC_DECAY_AFTER ? 1.0 - *decay : 1.0);
}

/* The factors on the updates u: the sizes, divided by what only the device knows.  The sizes are
 * all 0 or none is; they are overwritten where they have to be divided. */
static musec_status step_sizes(musec_optim *opt, const ms_group *g, double *sizes, ms_num threshold,
                               ms_mat u, ms_num *step)
{
    const ms_device_ops *op      = opt->d->ops;
    const bool           normuon = opt->cfg.shape_rule == MUSEC_SHAPE_NORMUON;
    const bool           unit =
        opt->cfg.update_scale == MUSEC_SCALE_UNIT && ms_spectral_clips(g->spectral_fn);
    ms_vec       each;
    musec_status st = MUSEC_OK;
    *step           = ms_host(sizes);
    if (g->aux || sizes[0] == 0.0 || (!normuon && !unit)) return MUSEC_OK;
    if (!normuon && threshold.each.data == NULL) {
        for (int64_t i = 0; i < u.count; i++)
            sizes[i] /= threshold.value;
        return MUSEC_OK;
    }
    TRY(ms_scratch_vec(opt->d, u.count, &each));
    if (normuon) { /* the norm cancels any scale, that of D too */
        for (int64_t i = 0; i < u.count; i++)
            sizes[i] = 1.0 / sizes[i];
        TRY(op->sumsq(opt->d, u, each));
        TRY(op->scalars(opt->d, MS_SCALAR_INV_NORM, (double[]){ 1e-30 }, 1,
                        (ms_num[]){ ms_each(each), ms_host(sizes) }, &each));
    } else {
        TRY(op->scalars(opt->d, MS_SCALAR_DIVIDE, NULL, 0, (ms_num[]){ threshold, ms_host(sizes) },
                        &each));
    }
    *step = ms_each(each);
done:
    return st;
}

static bool apply_alike(const musec_optim *opt, const ms_group *g, int64_t m, int64_t other,
                        const ms_step *a)
{
    const ms_mat x = ms_member_param(opt, g, m)->copy, y = ms_member_param(opt, g, other)->copy;
    double       size[2], decay[2];
    rates_of(opt, g, m, a, &size[0], &decay[0]);
    rates_of(opt, g, other, a, &size[1], &decay[1]);
    return !ms_member_in_groups(opt, g, m) && !ms_member_in_groups(opt, g, other) &&
           (x.data == NULL) == (y.data == NULL) && (x.data == NULL || x.dtype == y.dtype) &&
           (size[0] == 0.0) == (size[1] == 0.0);
}

static musec_status apply_some(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                               const ms_step *a, ms_num threshold, ms_mat u)
{
    const ms_device_ops *op   = opt->d->ops;
    const int            form = ms_group_config(opt, g)->decay_form;
    const bool    cautious    = form == MUSEC_DECAY_CAUTIOUS || form == MUSEC_DECAY_CAUTIOUS_LR2;
    const bool    copied      = ms_member_param(opt, g, first)->copy.data != NULL;
    double       *sizes = opt->numbers, *decays = sizes + opt->n_ptrs;
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    ms_mat        copy = { 0 };
    ms_num        step;
    musec_status  st = MUSEC_OK;

    for (int64_t i = 0; i < n; i++)
        rates_of(opt, g, first + i, a, &sizes[i], &decays[i]);
    TRY(step_sizes(opt, g, sizes, threshold, u, &step));
    if (!ms_member_in_groups(opt, g, first)) {
        if (copied) copy = ms_member_list(opt, g, first, n, a, MS_COPIES);
        TRY(op->decay_add(opt->d, step, u, ms_host(decays), cautious,
                          ms_member_list(opt, g, first, n, a, MS_WEIGHTS), copy));
        goto done;
    }
    const ms_part part = ms_member_part(opt, g, first, a, MS_WEIGHTS);
    for (int64_t k = 0; k < part.groups; k++) {
        if (copied) copy = ms_part_group(ms_member_part(opt, g, first, a, MS_COPIES), k);
        TRY(op->decay_add(opt->d, step, ms_dense_group(u, part, k), ms_host(decays), cautious,
                          ms_part_group(part, k), copy));
    }
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

static musec_status apply(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                          const ms_step *a, ms_num threshold, ms_mat u)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && apply_alike(opt, g, first + i, first + next, a);)
            next++;
        TRY(apply_some(opt, g, first + i, next - i, a, ms_num_slice(threshold, i, next - i),
                       ms_mat_slice(u, i, next - i)));
    }
done:
    return st;
}

/* Entries of Muon's update are at most about 1.2, and the last of its products has rounded more
 * than f16 will. */
musec_dtype ms_result_dtype(const musec_optim *opt, const ms_group *g)
{
    const bool steps = g->spectral_fn == MS_SPECTRAL_POLAR && opt->cfg.ns_mode != MUSEC_NS_EXACT;
    return steps && g->operands == MUSEC_F16 ? MUSEC_F16 : g->dtype;
}

/* ---- runs of members ------------------------------------------------------------------------- */

typedef struct member_run {
    ms_group *g;
    int64_t   first, n;
    ms_mat    u, x, v; /* what is proposed, as the one or the other; what is applied */
} member_run;

static int64_t all_members(const member_run *r, int n_runs)
{
    int64_t n = 0;
    for (int i = 0; i < n_runs; i++)
        n += r[i].n;
    return n;
}

/* v <- map(x or u), of all runs at once, by the rule of one of their groups. */
static musec_status map_runs(musec_optim *opt, const ms_group *rule, const member_run *r,
                             int n_runs, ms_num threshold, bool remembers, ms_report *paths)
{
    ms_stacks x = { .n = n_runs };
    for (int i = 0; i < n_runs; i++) {
        const ms_gram_norms norms = r[i].g->gram_norms;
        x.in[i]                   = r[i].x.data != NULL ? r[i].x : r[i].u;
        x.out[i]                  = r[i].v;
        if (!remembers) continue;
        x.gram_norms[i].sumsq = ms_vec_slice(norms.sumsq, r[i].first, r[i].n);
        x.gram_norms[i].trace = ms_vec_slice(norms.trace, r[i].first, r[i].n);
    }
    return ms_optim_run_map(opt, rule, x, threshold, paths);
}

/* With Nesterov, an optimizer that carries the clipped momentum M looks ahead from it: the step is
 * the clip of (1 - beta) M + beta G (heavy-ball: + G). */
static musec_status look_ahead(musec_optim *opt, member_run *r, int n_runs, const ms_step *a,
                               ms_num threshold)
{
    member_run   ahead[MS_STACKS];
    musec_status st = MUSEC_OK;
    for (int i = 0; i < n_runs; i++) {
        const ms_group *g = r[i].g;
        ahead[i]          = r[i];
        ahead[i].u        = (ms_mat){ .count = r[i].n };
        if (r[i].x.data == NULL)
            TRY(ms_scratch_mat(opt->d, g->dtype, r[i].n, g->rows, g->cols, &ahead[i].u));
        TRY(ms_propose_ahead(opt, g, r[i].first, r[i].n, a, ahead[i].u, r[i].x));
        TRY(ms_scratch_mat(opt->d, g->dtype, r[i].n, g->rows, g->cols, &ahead[i].v));
        r[i].v = ahead[i].v;
    }
    TRY(map_runs(opt, r[0].g, ahead, n_runs, threshold, false, NULL));
done:
    return st;
}

/* Runs of groups that join, or of one. */
static musec_status run_members(musec_optim *opt, member_run *r, int n_runs, const ms_step *a)
{
    const ms_mark   mark      = ms_arena_mark(&opt->d->scratch);
    const ms_group *one       = r[0].g;
    const bool      carries   = opt->row->stores_clipped_momentum && !one->aux;
    ms_num          threshold = ms_const(1.0);
    ms_report      *paths     = NULL;
    musec_status    st        = MUSEC_OK;

    for (int i = 0; i < n_runs; i++) {
        TRY(ms_make_proposal(opt, r[i].g, r[i].first, r[i].n, a, &r[i].u, &r[i].x));
        r[i].v = r[i].u;
    }
    if (one->spectral_fn != MS_SPECTRAL_NONE) {
        if (a->report) TRY(ms_report_paths(opt, all_members(r, n_runs), &paths));
        if (ms_spectral_clips(one->spectral_fn)) TRY(ms_threshold(opt, r[0].u, &threshold));
        for (int i = 0; i < n_runs; i++) {
            const ms_group *g = r[i].g;
            r[i].v            = ms_mat_slice(g->state[0], r[i].first, r[i].n);
            if (!carries)
                TRY(ms_scratch_mat(opt->d, ms_result_dtype(opt, g), r[i].n, g->rows, g->cols,
                                   &r[i].v));
        }
        TRY(map_runs(opt, one, r, n_runs, threshold, true, paths));
        if (carries && opt->cfg.nesterov) TRY(look_ahead(opt, r, n_runs, a, threshold));
    }
    for (int64_t i = 0, at = 0; i < n_runs; at += r[i++].n) {
        TRY(apply(opt, r[i].g, r[i].first, r[i].n, a, threshold, r[i].v));
        if (a->report && !one->aux)
            ms_report_members(opt, r[i].g, r[i].first, r[i].u.data != NULL ? r[i].u : r[i].v,
                              threshold, r[i].v, paths == NULL ? NULL : paths + at);
    }
done:
    ms_report_paths_free(paths);
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* The same for momentum that is kept in fewer bits than the weights. */
static musec_status run_rounded(musec_optim *opt, ms_group *g, int64_t first, int64_t n,
                                const ms_step *a)
{
    const ms_device_ops *op   = opt->d->ops;
    const ms_mark        mark = ms_arena_mark(&opt->d->scratch);
    const ms_mat         kept = ms_mat_slice(g->state[0], first, n);
    const uint64_t       key =
        ms_rand_u64(ms_rand_key(opt->cfg.seed, "rounded momentum"),
                    (uint64_t)opt->t * opt->n_groups + (uint64_t)(g - opt->groups));
    ms_group     wide = *g; /* of these members alone */
    musec_status st   = MUSEC_OK;
    wide.count        = n;
    wide.members += first;
    wide.reports += first;
    wide.top += first;
    wide.last += first;
    TRY(ms_scratch_mat(opt->d, g->dtype, n, g->rows, g->cols, &wide.state[0]));
    TRY(op->copy(opt->d, kept, wide.state[0]));
    TRY(run_members(opt, &(member_run){ .g = &wide, .n = n }, 1, a));
    TRY(op->stochastic_round(opt->d, key, (uint64_t)(first * g->rows * g->cols), wide.state[0],
                             kept));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

static musec_status run_group(musec_optim *opt, ms_group *g, const ms_step *a)
{
    musec_status st = MUSEC_OK;
    for (int64_t first = 0, n; first < g->count; first += n) {
        for (n = 0; first + n < g->count && n < g->chunk; n++)
            if (!ms_member_has_grad(g, first + n, a)) break;
        if (n > 0 && g->state[0].dtype == g->dtype)
            TRY(run_members(opt, &(member_run){ .g = g, .first = first, .n = n }, 1, a));
        else if (n > 0)
            TRY(run_rounded(opt, g, first, n, a));
        ms_remember_grads(opt, g, first, n);
        if (n == 0) n = 1; /* no gradient: left as it is */
    }
done:
    return st;
}

/* Does all of it go at once? */
static bool is_whole(const ms_group *g, const ms_step *a)
{
    bool whole = g->room.data != NULL;
    for (int64_t m = 0; whole && m < g->count; m++)
        whole = ms_member_has_grad(g, m, a);
    return whole;
}

/* Group i, and with it those behind it that are kin: where all that they propose lies ready, what
 * is r x r of them is one stack. */
static musec_status run_with_kin(musec_optim *opt, size_t i, const ms_step *a)
{
    ms_group    *g            = &opt->groups[i];
    member_run   r[MS_STACKS] = { { .g = g, .n = g->count } };
    int          n_runs       = 1;
    musec_status st           = MUSEC_OK;
    if (!opt->kin_fit || !is_whole(g, a)) return run_group(opt, g, a);
    for (size_t k = i + 1; k < opt->n_groups && n_runs < MS_STACKS; k++) {
        ms_group *kin = &opt->groups[k];
        if (kin->ran || !ms_optim_are_kin(opt, g, kin) || !is_whole(kin, a)) continue;
        kin->ran    = true;
        r[n_runs++] = (member_run){ .g = kin, .n = kin->count };
    }
    TRY(run_members(opt, r, n_runs, a));
    for (int k = 0; k < n_runs; k++)
        ms_remember_grads(opt, r[k].g, 0, r[k].n);
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

/* The step itself: all gradients are finite. */
static musec_status run_groups(musec_optim *opt, const ms_step *a)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++) {
        opt->groups[i].own_e = ms_typical_scale(opt, &opt->groups[i]);
        opt->groups[i].ran   = false;
    }
    for (size_t i = 0; i < opt->n_groups; i++)
        if (!opt->groups[i].ran) TRY(run_with_kin(opt, i, a));
    for (size_t i = 0; i < opt->n_params; i++)
        opt->params[i].t += a->grads[i].data != NULL;
    opt->t++;
    TRY(ms_qk_clip(opt));
    TRY(update_averages(opt));
done:
    return st;
}

/* Says what is wrong with a gradient, if the policy is to stop. */
static musec_status refuse(musec_optim *opt, const ms_bad_grad *bad)
{
    const long long step = (long long)opt->t + 1;
    const char     *name = opt->params[bad->param].name;
    ms_qk_forget(opt);
    if (opt->cfg.nonfinite == MUSEC_NONFINITE_SKIP) {
        opt->skipped++;
        return MUSEC_OK;
    }
    if (bad->largest < INFINITY)
        return ms_fail(&opt->d->error, MUSEC_ENONFINITE,
                       "step %lld: the gradient of %s has an entry of %g; what is kept of it would "
                       "overflow above %g; nothing was changed",
                       step, name, bad->largest, bad->most);
    return ms_fail(&opt->d->error, MUSEC_ENONFINITE,
                   "step %lld: the gradient of %s holds a NaN or an infinity; nothing was changed",
                   step, name);
}

musec_status musec_optim_step(musec_optim *opt, const musec_view *grads, size_t n_grads,
                              double lr_scale)
{
    ms_bad_grad  bad;
    musec_status st = MUSEC_OK;
    if (opt == NULL) return MUSEC_EINVAL;
    if (!(lr_scale >= 0.0 && lr_scale < INFINITY))
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "step: lr_scale is %g", lr_scale);
    const int64_t every = opt->cfg.report_every;
    const ms_step a     = { grads, lr_scale, every > 0 && (opt->t + 1) % every == 0 };
    const ms_mark mark  = ms_arena_mark(&opt->d->scratch);
    TRY(ms_optim_prepare(opt));
    TRY(check_grads(opt, grads, n_grads));
    TRY(ms_optim_find_bad(opt, &a, &bad));
    TRY(bad.param < opt->n_params ? refuse(opt, &bad) : run_groups(opt, &a));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}
