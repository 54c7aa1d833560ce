/* step.c - one step of an optimizer:
 *
 *     check gradients -> update momentum -> apply the spectral function -> divide by the second
 *                     moment, if there is one -> update weights
 *
 * Members of a group that have a gradient are worked through in spans of at most `chunk` matrices,
 * or a whole group together with those that are fusible with it.  Where the scales of directions
 * are predicted (scale_prediction.c), their momentum is averaged before the gradients are checked,
 * into memory of the step: no state changes, and a prediction that fails costs a second pass.
 *
 * Momentum that is stored in bf16 is widened to float32 for the step and rounded stochastically
 * when it is put back.  The draws depend on the seed, the step, the group and the place in it, so a
 * resumed run goes on with the same bits, whatever the chunks. */
#include <math.h>

#include "core/rng.h"
#include "optim/optim.h"

/* A gradient has the weight's dtype, or another that is computed in float32 as well. */
static bool takes_dtype(const ms_device *d, musec_dtype weight, musec_dtype grad)
{
    return grad == weight || (ms_dtype_accum(weight) == MUSEC_F32 && ms_dtype_bytes(grad) > 0 &&
                              ms_dtype_accum(grad) == MUSEC_F32 && ms_device_has(d, grad));
}

static musec_status check_shapes(musec_optim *opt, const musec_view *grads, size_t n_grads)
{
    ms_error *e = &opt->d->error;
    if (grads == NULL || n_grads != opt->n_params)
        return ms_fail(e, MUSEC_EINVAL, "step: %zu gradients for %zu parameters", n_grads,
                       opt->n_params);
    for (size_t i = 0; i < n_grads; i++) {
        const ms_mat     w = opt->params[i].weight;
        const musec_view g = grads[i];
        if (g.data == NULL) continue;
        if (g.rows != w.rows || g.cols != w.cols || g.count != w.count || g.ld != w.ld ||
            (g.count > 1 && g.stride != w.stride))
            return ms_fail(e, MUSEC_EINVAL,
                           "step: the gradient of %s (%lld x %lld x %lld, ld %lld) must have the "
                           "weight's shape and steps (%lld x %lld x %lld, ld %lld)",
                           opt->params[i].name, (long long)g.count, (long long)g.rows,
                           (long long)g.cols, (long long)g.ld, (long long)w.count,
                           (long long)w.rows, (long long)w.cols, (long long)w.ld);
        if (!takes_dtype(opt->d, w.dtype, g.dtype))
            return ms_fail(e, MUSEC_EINVAL,
                           "step: the gradient of %s is %s, which does not go with a weight of %s "
                           "on the device %s",
                           opt->params[i].name, ms_dtype_name(g.dtype), ms_dtype_name(w.dtype),
                           opt->d->name);
    }
    return MUSEC_OK;
}

/* A span, with the direction of its members if that was averaged on predictions that hold. */
static ms_span span_of(const ms_step *s, ms_group *g, int64_t first, int64_t n)
{
    ms_group_step *gs   = &s->host->groups[g - s->opt->groups];
    const ms_mat   none = { .count = n };
    return (ms_span){ .g         = g,
                      .gs        = gs,
                      .first     = first,
                      .n         = n,
                      .momentum  = ms_state_of(g, 0, first, n),
                      .direction = none,
                      .scaled = gs->scaled.mat.data != NULL ? ms_scaled_slice(gs->scaled, first, n)
                                                            : ms_unscaled(none) };
}

/* With Nesterov, an optimizer that stores the clipped momentum M looks ahead from it: the update is
 * the clip of (1 - beta) M + beta G (heavy-ball: + G). */
static musec_status look_ahead(ms_step *s, ms_span *spans, int n_spans, ms_num threshold)
{
    ms_span      ahead[MS_STACKS];
    musec_status st = MUSEC_OK;
    for (int i = 0; i < n_spans; i++) {
        ahead[i] = spans[i];
        TRY(ms_look_ahead(s, &ahead[i]));
    }
    TRY(ms_apply_spectral_ahead(s, ahead, n_spans, threshold));
    for (int i = 0; i < n_spans; i++)
        spans[i].update = ahead[i].update;
done:
    return st;
}

/* The phases of a step after the check, for spans of fusible groups or for one span. */
static musec_status step_spans(ms_step *s, ms_span *spans, int n_spans)
{
    musec_optim    *opt   = s->opt;
    const ms_group *group = spans[0].g;
    const ms_mark   mark  = ms_arena_mark(&opt->d->scratch);
    ms_report      *paths = NULL;
    ms_num          threshold;
    int64_t         n  = 0;
    musec_status    st = MUSEC_OK;

    for (int i = 0; i < n_spans; i++) {
        if (!spans[i].gs->predicted)
            TRY(ms_update_momentum(s, &spans[i]));
        else if (ms_is_measured(s, group))
            TRY(ms_compute_direction(s, &spans[i]));
        n += spans[i].n;
    }
    if (s->report && group->spectral_fn != MS_SPECTRAL_NONE) TRY(ms_report_paths(opt, n, &paths));
    TRY(ms_apply_spectral(s, spans, n_spans, &threshold, paths));
    if (ms_group_stores_clipped(opt, group) && opt->cfg.nesterov)
        TRY(look_ahead(s, spans, n_spans, threshold));
    for (int i = 0; i < n_spans; i++)
        TRY(ms_divide_by_second(s, &spans[i]));
    for (int64_t i = 0, at = 0; i < n_spans; at += spans[i++].n) {
        const ms_num part = ms_num_slice(threshold, at, spans[i].n);
        TRY(ms_update_weights(s, &spans[i], part));
        if (s->report && !group->aux)
            ms_report_span(s, &spans[i], part, paths == NULL ? NULL : paths + at);
    }
done:
    ms_report_paths_free(paths);
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* The same for momentum that is stored in fewer bits than the weights. */
static musec_status step_rounded(ms_step *s, ms_span *span)
{
    musec_optim         *opt    = s->opt;
    const ms_group      *g      = span->g;
    const ms_device_ops *op     = opt->d->ops;
    const ms_mark        mark   = ms_arena_mark(&opt->d->scratch);
    const ms_mat         stored = span->momentum;
    const uint64_t       key =
        ms_rand_u64(ms_rand_key(opt->cfg.seed, "rounded momentum"),
                    (uint64_t)opt->t * opt->n_groups + (uint64_t)(g - opt->groups));
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(opt->d, g->dtype, span->n, g->rows, g->cols, &span->momentum));
    TRY(op->copy(opt->d, stored, span->momentum));
    TRY(step_spans(s, span, 1));
    TRY(op->stochastic_round(opt->d, key, (uint64_t)(span->first * g->rows * g->cols),
                             span->momentum, stored));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* A group in chunks; members without a gradient are left as they are. */
static musec_status step_chunks(ms_step *s, ms_group *g)
{
    musec_status st = MUSEC_OK;
    for (int64_t first = 0, n; first < g->count; first += n) {
        for (n = 0; first + n < g->count && n < g->chunk; n++)
            if (!ms_member_has_grad(s, g, first + n)) break;
        ms_span span = span_of(s, g, first, n);
        if (n == 0)
            n = 1;
        else
            TRY(g->state[0].dtype == g->dtype ? step_spans(s, &span, 1) : step_rounded(s, &span));
    }
done:
    return st;
}

/* Says whether the directions of all members of a group are in memory, and its chunk is all of
 * it. */
static bool is_whole(const ms_step *s, const ms_group *g)
{
    return ms_group_is_whole(g) && s->host->groups[g - s->opt->groups].scaled.mat.data != NULL &&
           ms_group_has_grads(s, g);
}

/* Group i, fused with the later groups that are fusible with it, or alone. */
static musec_status step_group(ms_step *s, size_t i)
{
    musec_optim *opt = s->opt;
    ms_group    *g   = &opt->groups[i];
    ms_span      spans[MS_STACKS];
    int          n = 1;
    if (!opt->fusion_fits || !is_whole(s, g)) return step_chunks(s, g);
    spans[0] = span_of(s, g, 0, g->count);
    for (size_t k = i + 1; k < opt->n_groups && n < MS_STACKS; k++) {
        ms_group *other = &opt->groups[k];
        if (s->host->groups[k].done || !ms_groups_fusible(opt, g, other) || !is_whole(s, other))
            continue;
        s->host->groups[k].done = true;
        spans[n++]              = span_of(s, other, 0, other->count);
    }
    return step_spans(s, spans, n);
}

musec_status musec_optim_set_beta(musec_optim *opt, double beta)
{
    if (opt == NULL) return MUSEC_EINVAL;
    if (!(beta >= 0.0 && beta <= 1.0))
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "beta is %g; it must be from 0 to 1", beta);
    opt->cfg.beta = beta;
    return MUSEC_OK;
}

void ms_count_step(ms_step *s)
{
    for (size_t i = 0; i < s->opt->n_params; i++) {
        ms_param *p = &s->opt->params[i];
        p->t += s->grads[i].data != NULL || p->share.elsewhere;
    }
    s->opt->t++;
}

/* The step of all groups, once the gradients are known to be fine. */
static musec_status take_step(ms_step *s)
{
    musec_optim *opt = s->opt;
    musec_status st  = MUSEC_OK;
    if (opt->deferred)
        TRY(ms_average_again(s));
    else
        ms_validate_scales(s);
    TRY(ms_update_averages(opt));
    for (size_t i = 0; i < opt->n_groups; i++)
        if (!s->host->groups[i].done) TRY(step_group(s, i));
    ms_count_step(s);
    TRY(ms_qk_clip(opt));
    if (s->report) TRY(ms_share_reports(opt));
done:
    return st;
}

musec_status ms_queue_step(ms_step *s)
{
    musec_optim *opt  = s->opt;
    bool         take = false;
    musec_status st   = MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, 3 * s->host->capacity + MS_STEP_NUMBERS, &s->absmax));
    TRY(ms_predict_scales(s));
    TRY(opt->deferred ? ms_defer_decide(s, &take) : ms_check_gradients(s, &take));
    if (take) TRY(take_step(s));
done:
    opt->d->guard = NULL;
    return st;
}

/* report: this step is measured; steady: see ms_repeat_step */
static musec_status step(musec_optim *opt, const musec_view *grads, size_t n_grads,
                         const musec_step_args *args, bool report, bool steady)
{
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    bool          done = false;
    ms_step s = { .opt = opt, .grads = grads, .grad_factor = opt->grad_factor, .report = report };
    musec_status st = MUSEC_OK;
    if (s.report) opt->unmeasured = MUSEC_OK;
    TRY(ms_optim_prepare(opt));
    TRY(check_shapes(opt, grads, n_grads));
    TRY(ms_step_args_take(opt, args, &s.args));
    TRY(ms_reserve_workspace(&s));
    opt->last_allocs = opt->d->scratch.n_allocs;
    TRY(ms_take_changes(opt));
    s.host = opt->host;
    TRY(ms_repeat_step(&s, steady, &done));
    if (!done) TRY(ms_queue_step(&s));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* Is this the first step of a parameter?  The next one starts from whether it was taken. */
static bool has_first_step(const musec_optim *opt, const musec_view *grads, size_t n_grads)
{
    for (size_t i = 0; grads != NULL && n_grads == opt->n_params && i < n_grads; i++)
        if (grads[i].data != NULL && opt->params[i].t == 0) return true;
    return false;
}

musec_status musec_optim_step_with(musec_optim *opt, const musec_view *grads, size_t n_grads,
                                   const musec_step_args *args)
{
    if (opt == NULL) return MUSEC_EINVAL;
    const ms_device *d      = opt->d;
    const ms_caller  caller = ms_device_enter(opt->d);
    const int64_t    every  = opt->cfg.report_every;
    const bool       first  = has_first_step(opt, grads, n_grads);
    const bool       report = every > 0 && (opt->t + 1) % every == 0;
    const bool       steady = !first && !report && !ms_has_changes(opt) && ms_step_is_steady(opt);
    opt->last_waits = d->n_waits, opt->last_uploads = d->n_uploads;
    musec_status st = step(opt, grads, n_grads, args, report, steady);
    opt->last_taken = st == MUSEC_OK;
    if (st == MUSEC_OK && opt->deferred && first) st = ms_poll_live(opt);
    opt->last_waits   = d->n_waits - opt->last_waits;
    opt->last_uploads = d->n_uploads - opt->last_uploads;
    opt->last_allocs  = d->scratch.n_allocs - opt->last_allocs;
    ms_device_leave(caller);
    return st;
}

musec_status musec_optim_step(musec_optim *opt, const musec_view *grads, size_t n_grads,
                              double lr_scale)
{
    musec_step_args args;
    (void)musec_step_args_init(&args, sizeof args);
    args.lr_scale = lr_scale;
    return musec_optim_step_with(opt, grads, n_grads, &args);
}
