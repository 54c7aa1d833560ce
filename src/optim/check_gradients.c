/* check_gradients.c - the first phase of a step: are all gradients finite, and small enough for the
 * state that they go into?  Nothing was changed when this is asked.
 *
 * The largest |element| of a matrix is a NaN or infinite if one of its elements is.  Gradients that
 * were averaged on predictions (scale_prediction.c) were read by that.  Of the others, parameters
 * of equal shape are read in one call, whatever their blocks are.  All answers come to the host at
 * once, which is the one time that a step waits.  They stay there for the step: what bounds a
 * gradient bounds the momentum that it goes into. */
#include <math.h>

#include "optim/optim.h"

static bool same_shape(ms_mat a, ms_mat b)
{
    return a.rows == b.rows && a.cols == b.cols && a.dtype == b.dtype;
}

/* Appends the matrices of one stack to an array of n pointers. */
static int64_t append_pointers(ms_mat x, ms_mat_ptr *pointers, int64_t n)
{
    for (int64_t b = 0; b < x.count; b++)
        pointers[n++] = (ms_mat_ptr){ ms_mat_slice(x, b, 1).data, x.ld };
    return n;
}

/* Says whether there is a gradient, some of which was not observed yet. */
static bool must_ask(const ms_step *s, size_t i)
{
    const ms_mat w = s->opt->params[i].weight;
    return s->grads[i].data != NULL && s->host->observed[i] < w.count * w.rows * w.cols;
}

/* Queues the absmax of all gradients, or weights, of the shape of parameter `first`, and notes in
 * `at` where those of each parameter will be. */
static musec_status absmax_of_shape(ms_step *s, bool weights, size_t first, int64_t *at)
{
    const musec_optim *opt      = s->opt;
    ms_mat_ptr        *pointers = s->host->pointers[MS_GRADS];
    ms_mat             x        = opt->params[first].weight;
    int64_t            n = 0, members = 0;
    for (size_t i = first; i < opt->n_params; i++) {
        const ms_param *p = &opt->params[i];
        const ms_mat one  = weights ? ms_param_operand(p, MS_WEIGHTS) : ms_grad_mat(p, s->grads[i]);
        if (!must_ask(s, i) || (i > first && !same_shape(one, x))) continue;
        if (members++ == 0) x = one;
        at[i] = s->n_absmax + n;
        n     = append_pointers(one, pointers, n);
    }
    if (members > 1) { /* one parameter is a stack as it is */
        x.ptrs  = pointers;
        x.count = n;
    }
    const ms_vec out = ms_vec_slice(s->absmax, s->n_absmax, n);
    s->n_absmax += n;
    return opt->d->ops->absmax(opt->d, x, out);
}

static musec_status absmax_of_all(ms_step *s, bool weights, int64_t *at)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < s->opt->n_params; i++)
        at[i] = -1;
    for (size_t i = 0; i < s->opt->n_params; i++)
        if (must_ask(s, i) && at[i] < 0) TRY(absmax_of_shape(s, weights, i, at));
done:
    return st;
}

musec_status ms_ask_gradients(ms_step *s) { return absmax_of_all(s, false, s->host->grad_at); }

double ms_checked_absmax(const ms_step *s, const ms_member *m)
{
    const ms_param    *p    = &s->opt->params[m->param];
    const musec_block *b    = &p->blocks[m->block];
    const int64_t      from = b->offset + m->index * b->stride;
    const int64_t      to   = from + (b->rows / b->group_rows - 1) * b->group_step +
                       (b->group_rows - 1) * b->row_step + b->cols - 1;
    const int64_t stride = p->weight.count > 1 ? p->weight.stride : to + 1;
    double        absmax = 0.0;
    for (int64_t i = from / stride; i <= to / stride; i++)
        absmax = fmax(absmax, s->host->absmax[s->host->grad_at[m->param] + i]);
    return absmax;
}

/* The largest |entry| of a gradient that the state of a member can hold. */
double ms_max_grad(const ms_step *s, const ms_group *g, int64_t m)
{
    const musec_optim       *opt = s->opt;
    const musec_optim_config cfg = ms_member_config(s, g, m);
    const bool clips = ms_group_stores_clipped(opt, g) && ms_spectral_clips(g->spectral_fn) &&
                       opt->cfg.threshold_rule == MUSEC_THRESHOLD_FIXED; /* or D grows with M */
    return g->base->max_grad(&cfg, clips ? opt->cfg.threshold : INFINITY,
                             ms_dtype_max(ms_state_dtype(opt, g)));
}

/* A bound of what coupled decay adds to an entry of a gradient. */
static double decay_bound(const ms_step *s, const ms_group *g, size_t i)
{
    const ms_param *p      = &s->opt->params[i];
    double          absmax = 0.0;
    if (g->aux || s->opt->cfg.decay_form != MUSEC_DECAY_COUPLED) return 0.0;
    for (int64_t b = 0; b < p->weight.count; b++)
        absmax = fmax(absmax, s->host->absmax[s->host->weight_at[i] + b]);
    if (p->weight.dtype == MUSEC_BF16) absmax *= 1.0 + ms_dtype_eps(MUSEC_BF16); /* of halves */
    return ms_step_decay(s, i) * absmax;
}

/* Looks for gradients that are too large among the members of a group. */
static void find_too_large(const ms_step *s, const ms_group *g, ms_bad_grad *found)
{
    for (int64_t m = 0; m < g->count; m++) {
        const size_t i = g->members[m].param;
        if (i >= found->param || !ms_member_has_grad(s, g, m)) continue;
        const double max    = ms_max_grad(s, g, m);
        const double absmax = ms_observed_absmax(s, g, m) + decay_bound(s, g, i);
        if (!(absmax <= max))
            *found = (ms_bad_grad){ i, absmax, max }; /* so written, NaN is found */
    }
}

/* Looks through whole stacks of gradients or weights: also what is in no block. */
static void find_nonfinite(const ms_step *s, const int64_t *at, ms_bad_grad *found)
{
    for (size_t i = 0; i < found->param; i++)
        for (int64_t b = 0; at[i] >= 0 && b < s->opt->params[i].weight.count; b++) {
            const double absmax = s->host->absmax[at[i] + b];
            if (!(absmax < INFINITY)) *found = (ms_bad_grad){ i, absmax, INFINITY };
        }
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
    if (bad->absmax < INFINITY)
        return ms_fail(&opt->d->error, MUSEC_ENONFINITE,
                       "step %lld: the gradient of %s has an entry of %g; what is kept of it would "
                       "overflow above %g; nothing was changed",
                       step, name, bad->absmax, bad->max_grad);
    return ms_fail(&opt->d->error, MUSEC_ENONFINITE,
                   "step %lld: the gradient of %s holds a NaN or an infinity; nothing was changed",
                   step, name);
}

/* Queues what the caller has on the device, behind the absmax: found_inf, then grad_scale. */
static musec_status ask_numbers(ms_step *s)
{
    const float *const at[] = { s->args.found_inf, s->args.grad_scale };
    musec_status       st   = MUSEC_OK;
    for (size_t k = 0; k < COUNT(at); k++)
        if (at[k] != NULL)
            TRY(ms_read_float(s->opt, at[k], ms_vec_slice(s->absmax, s->n_absmax++, 1)));
done:
    return st;
}

/* Takes them in: the step may be over by that (true, with its status), and the absmax of the
 * gradients, the first n_grads, get their factor.  One that was predicted on another factor was
 * averaged by it: that has to be done again. */
static bool take_numbers(ms_step *s, int64_t n_grads, musec_status *st)
{
    musec_optim  *opt    = s->opt;
    const double *number = s->host->absmax + s->n_absmax;
    double        factor = 1.0;
    if (s->args.grad_scale != NULL) {
        const double scale = *--number;
        factor             = 1.0 / scale;
        if (!(scale > 0.0 && scale < INFINITY && factor < INFINITY)) {
            *st = ms_fail(&opt->d->error, MUSEC_EINVAL,
                          "step: the grad_scale is %g; it must be above 0 and finite", scale);
            return true;
        }
    }
    if (s->args.found_inf != NULL && *--number != 0.0) {
        ms_qk_forget(opt);
        opt->skipped++;
        return true;
    }
    for (int64_t k = 0; k < n_grads && factor != 1.0; k++)
        s->host->absmax[k] *= factor;
    for (size_t i = 0; i < opt->n_groups && factor != s->grad_factor; i++)
        s->host->groups[i].predicted = false;
    s->grad_factor = opt->grad_factor = factor;
    return false;
}

musec_status ms_check_gradients(ms_step *s, bool *take)
{
    musec_optim  *opt     = s->opt;
    ms_step_host *host    = s->host;
    const bool    coupled = opt->cfg.decay_form == MUSEC_DECAY_COUPLED;
    ms_bad_grad   bad     = { .param = opt->n_params };
    musec_status  st      = MUSEC_OK;
    TRY(absmax_of_all(s, false, host->grad_at));
    const int64_t n_grads = s->n_absmax;
    if (coupled) TRY(absmax_of_all(s, true, host->weight_at));
    TRY(ask_numbers(s));
    if (s->n_absmax > 0)
        TRY(ms_vec_download(opt->d, ms_vec_slice(s->absmax, 0, s->n_absmax), host->absmax));
    if (take_numbers(s, n_grads, &st)) {
        *take = false;
        goto done;
    }
    find_nonfinite(s, host->grad_at, &bad);
    if (coupled) find_nonfinite(s, host->weight_at, &bad);
    for (size_t i = 0; i < opt->n_groups; i++)
        find_too_large(s, &opt->groups[i], &bad);
    TRY(ms_share_bad(opt, &bad));
    *take = bad.param == opt->n_params;
    if (!*take) TRY(refuse(opt, &bad));
done:
    return st;
}
