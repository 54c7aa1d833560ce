/* momentum.c - the second phase of a step: updates momentum and moments, which gives the update
 * direction of each matrix, in 16 bits with a scale of its own where the operator takes it so
 * (scale_prediction.c).
 *
 * Directions go to a stack of their own, unless the momentum itself is the direction.  Where the
 * optimizer stores the clipped momentum, the average is only computed here; the spectral function
 * will write the state. */
#include <math.h>

#include "optim/optim.h"

/* A part as one matrix: itself, or its groups of rows gathered into scratch. */
static musec_status gather(ms_device *d, ms_part part, ms_mat *out)
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

/* Weight decay that is a part of the gradient. */
static double coupled_decay(const ms_step *s, const ms_group *g, int64_t m)
{
    if (g->aux || s->opt->cfg.decay_form != MUSEC_DECAY_COUPLED) return 0.0;
    return ms_step_decay(s, g->members[m].param);
}

static musec_dtype weight_dtype(const musec_optim *opt, const ms_group *g, int64_t m)
{
    return ms_param_operand(ms_member_param(opt, g, m), MS_WEIGHTS).dtype;
}

musec_status ms_wide_weights(ms_step *s, const ms_group *g, int64_t first, int64_t n, ms_mat *out)
{
    musec_status st = MUSEC_OK;
    if (weight_dtype(s->opt, g, first) == g->dtype && !ms_member_in_groups(s->opt, g, first)) {
        *out = ms_member_list(s, g, first, n, MS_WEIGHTS);
        return MUSEC_OK;
    }
    TRY(ms_scratch_mat(s->opt->d, g->dtype, n, g->rows, g->cols, out));
    for (int64_t i = 0; i < n; i++)
        TRY(ms_widen_member(s->opt, &g->members[first + i], ms_mat_slice(*out, i, 1)));
done:
    return st;
}

static musec_dtype grad_dtype(const ms_step *s, const ms_group *g, int64_t m)
{
    return s->grads[g->members[m].param].dtype;
}

/* A device that widens 16 bits for products has fast loops for equal dtypes: a gradient is widened
 * for them, matrix by matrix, and the bits are those of a gradient in float32. */
static bool widens_grad(const ms_step *s, const ms_group *g, int64_t m)
{
    return s->opt->d->kind->widens && grad_dtype(s, g, m) != g->dtype;
}

/* Says whether one call of the base optimizer may take both members. */
static bool in_one_call(const ms_step *s, const ms_group *g, int64_t m, int64_t other)
{
    const musec_optim *opt = s->opt;
    return !ms_member_in_groups(opt, g, m) && !ms_member_in_groups(opt, g, other) &&
           ms_member_param(opt, g, m)->t == ms_member_param(opt, g, other)->t &&
           grad_dtype(s, g, m) == grad_dtype(s, g, other) && !widens_grad(s, g, m) &&
           ms_step_beta(s, g, m) == ms_step_beta(s, g, other) &&
           coupled_decay(s, g, m) == coupled_decay(s, g, other) &&
           (coupled_decay(s, g, m) == 0.0 ||
            weight_dtype(opt, g, m) == weight_dtype(opt, g, other));
}

/* Where max|G| of n members was asked for as they follow each other, and each of a whole weight. */
static bool asked_in_a_row(const ms_step *s, const ms_group *g, int64_t first, int64_t n,
                           int64_t *at)
{
    for (int64_t m = 0; m < n; m++) {
        const ms_member *member = &g->members[first + m];
        const ms_param  *p      = ms_member_param(s->opt, g, first + m);
        const int64_t    asked  = s->host->grad_at[member->param];
        if (asked < 0 || g->rows * g->cols != p->weight.rows * p->weight.cols) return false;
        if (m == 0) *at = asked + member->index;
        if (asked + member->index != *at + m) return false;
    }
    return true;
}

/* The bounds that scales follow from, and *observed, max|G|, which the next bounds follow from; no
 * data where they are there already. */
static musec_status deferred_scales(ms_step *s, const ms_span *span, int64_t first, int64_t n,
                                    ms_direction *p, ms_vec *observed)
{
    const ms_group      *g  = span->g;
    const ms_group_step *gs = span->gs;
    int64_t              at = 0;
    musec_status         st = MUSEC_OK;
    p->momentum_bound       = ms_each(ms_vec_slice(g->live_bound, first, n));
    p->grad_absmax          = ms_each(ms_vec_slice(g->live_prediction, first, n));
    if (p->mode == MS_PREDICTED) return MUSEC_OK;
    if (gs->live_absmax.data != NULL) {
        p->grad_absmax = ms_each(ms_vec_slice(gs->live_absmax, first, n));
        return p->mode == MS_LOOK_AHEAD ? MUSEC_OK : ms_validate_live_scales(s, g, first, p);
    }
    if (s->inv_scale.data == NULL && asked_in_a_row(s, g, first, n, &at)) {
        *observed = ms_vec_slice(s->absmax, at, n);
    } else {
        TRY(ms_scratch_vec(s->opt->d, n, observed));
        TRY(s->opt->d->ops->absmax(s->opt->d, p->grad, *observed));
    }
    p->grad_absmax = ms_each(*observed);
done:
    return st;
}

/* What the host knows only later comes from the device: the factor of the gradients, which are
 * multiplied by it in a pass of its own, and corrections of moments. */
static musec_status deferred_numbers(ms_step *s, const ms_group *g, int64_t first, int64_t n,
                                     ms_direction *p)
{
    ms_device   *d  = s->opt->d;
    musec_status st = MUSEC_OK;
    if (s->inv_scale.data != NULL) {
        ms_term term = { .x_coef = ms_each(ms_vec_slice(s->inv_scale, 0, n)) };
        TRY(ms_scratch_mat(d, g->dtype, n, g->rows, g->cols, &term.out));
        TRY(d->ops->combine(d, p->grad, (ms_mat){ 0 }, &term, 1));
        p->grad = term.out;
    }
    p->correct = ms_live_correct(s->opt, g->members[first].param, &p->correct_step);
done:
    return st;
}

/* What is scaled to 1 where all is 0: D, which is 1 by every rule. */
static double zero_scale(const musec_optim *opt, const ms_group *g)
{
    const bool fixed = opt->cfg.threshold_rule == MUSEC_THRESHOLD_FIXED;
    return fixed && ms_spectral_clips(g->spectral_fn) ? opt->cfg.threshold : 1.0;
}

/* Members from .. from + n - 1 of a span, by one call.  Of out, scaled and observed, each of the
 * whole span, what has no data is not wanted. */
static musec_status call_base(ms_step *s, const ms_span *span, int64_t from, int64_t n,
                              ms_direction_mode mode, ms_mat out, ms_scaled_mat scaled,
                              ms_vec observed)
{
    musec_optim    *opt    = s->opt;
    const ms_group *g      = span->g;
    const int64_t   first  = span->first + from;
    const double   *bounds = mode == MS_LOOK_AHEAD ? g->momentum_bound : span->gs->momentum_bound;
    const ms_mark   mark   = ms_arena_mark(&opt->d->scratch);
    const musec_optim_config cfg    = ms_member_config(s, g, first);
    ms_direction             p      = { .cfg            = &cfg,
                                        .mode           = mode,
                                        .t              = ms_member_param(opt, g, first)->t + 1,
                                        .coupled_decay  = coupled_decay(s, g, first),
                                        .out            = ms_mat_slice(out, from, n),
                                        .scaled         = ms_scaled_slice(scaled, from, n),
                                        .momentum_bound = ms_host(bounds + first),
                                        .grad_absmax    = ms_host(span->gs->grad_absmax + first),
                                        .zero_scale     = zero_scale(opt, g),
                                        .grad_factor    = s->grad_factor,
                                        .observed       = ms_vec_slice(observed, from, n) };
    ms_vec                   absmax = { 0 };
    musec_status             st     = MUSEC_OK;

    if (ms_member_in_groups(opt, g, first)) {
        TRY(gather(opt->d, ms_member_part(s, g, first, MS_GRADS), &p.grad));
    } else {
        p.grad = ms_member_list(s, g, first, n, MS_GRADS);
    }
    if (widens_grad(s, g, first)) {
        const ms_mat given = p.grad;
        TRY(ms_scratch_mat(opt->d, g->dtype, n, g->rows, g->cols, &p.grad));
        TRY(opt->d->ops->copy(opt->d, given, p.grad));
    }
    if (p.coupled_decay != 0.0) TRY(ms_wide_weights(s, g, first, n, &p.weight));
    p.state[0] = ms_mat_slice(span->momentum, from, n);
    if (opt->deferred) TRY(deferred_numbers(s, g, first, n, &p));
    if (opt->deferred && p.scaled.mat.data != NULL)
        TRY(deferred_scales(s, span, first, n, &p, &absmax));
    for (int k = 1; g->base->states[k] != NULL; k++)
        p.state[k] = ms_state_of(g, k, first, n);
    TRY(g->base->direction(opt->d, &p));
    if (absmax.data != NULL && mode != MS_LOOK_AHEAD)
        TRY(ms_update_live_bounds(s, g, first, absmax));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

static musec_status compute(ms_step *s, const ms_span *span, ms_direction_mode mode, ms_mat out,
                            ms_scaled_mat scaled, ms_vec observed)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, next; i < span->n; i = next) {
        for (next = i + 1;
             next < span->n && in_one_call(s, span->g, span->first + i, span->first + next);)
            next++;
        TRY(call_base(s, span, i, next - i, mode, out, scaled, observed));
    }
done:
    return st;
}

/* Averages all members of a group into its directions in 16 bits. */
static musec_status average_group(ms_step *s, ms_group *g, ms_direction_mode mode, ms_vec observed)
{
    ms_group_step *gs   = &s->host->groups[g - s->opt->groups];
    const ms_span  all  = { .g = g, .gs = gs, .n = g->count, .momentum = g->state[0] };
    const ms_mat   none = { .count = g->count };
    return compute(s, &all, mode, none, gs->scaled, observed);
}

musec_status ms_average_predicted(ms_step *s)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < s->opt->n_params; i++)
        s->host->observed[i] = 0;
    for (size_t i = 0; i < s->opt->n_groups; i++) {
        ms_group      *g  = &s->opt->groups[i];
        ms_group_step *gs = &s->host->groups[i];
        if (!gs->predicted) continue;
        TRY(average_group(s, g, MS_PREDICTED, ms_vec_slice(s->absmax, s->n_absmax, g->count)));
        gs->observed = s->host->absmax + s->n_absmax;
        s->n_absmax += g->count;
        for (int64_t m = 0; m < g->count; m++)
            s->host->observed[g->members[m].param] += g->rows * g->cols;
    }
done:
    return st;
}

musec_status ms_average_again(ms_step *s)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < s->opt->n_groups; i++) {
        ms_group      *g  = &s->opt->groups[i];
        ms_group_step *gs = &s->host->groups[i];
        if (!gs->predicted) continue;
        TRY(ms_scratch_vec(s->opt->d, g->count, &gs->live_absmax));
        TRY(average_group(s, g, MS_KEEP_STATE, (ms_vec){ 0 }));
    }
done:
    return st;
}

musec_status ms_update_momentum(ms_step *s, ms_span *span)
{
    musec_optim    *opt    = s->opt;
    const ms_group *g      = span->g;
    const bool      stores = ms_group_stores_clipped(opt, g);
    const bool      rounds = ms_group_fuses_rounding(opt, g);
    musec_status    st     = MUSEC_OK;

    if (rounds && span->scaled.mat.data == NULL) {
        TRY(ms_take_scaled(opt, g, span->n, &span->scaled));
        span->scaled.scale_exponent = span->gs->scale_exp;
    }
    if (g->base->direction_is_momentum && !stores && !opt->cfg.nesterov)
        span->direction = span->momentum; /* nobody has to copy it */
    else if (!rounds || ms_is_measured(s, g))
        TRY(ms_scratch_mat(opt->d, g->dtype, span->n, g->rows, g->cols, &span->direction));
    TRY(compute(s, span, stores ? MS_KEEP_STATE : MS_UPDATE_STATE, span->direction, span->scaled,
                (ms_vec){ 0 }));
done:
    return st;
}

musec_status ms_compute_direction(ms_step *s, ms_span *span)
{
    const ms_group *g  = span->g;
    musec_status    st = MUSEC_OK;
    TRY(ms_scratch_mat(s->opt->d, g->dtype, span->n, g->rows, g->cols, &span->direction));
    TRY(compute(s, span, MS_KEEP_STATE, span->direction, ms_unscaled((ms_mat){ .count = span->n }),
                (ms_vec){ 0 }));
done:
    return st;
}

musec_status ms_look_ahead(ms_step *s, ms_span *span)
{
    musec_status st = MUSEC_OK;
    span->direction = (ms_mat){ .count = span->n };
    if (span->scaled.mat.data == NULL)
        TRY(ms_scratch_mat(s->opt->d, span->g->dtype, span->n, span->g->rows, span->g->cols,
                           &span->direction));
    TRY(compute(s, span, MS_LOOK_AHEAD, span->direction, span->scaled, (ms_vec){ 0 }));
done:
    return st;
}
