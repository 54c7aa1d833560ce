/* check_gradients.c - are all gradients numbers that a state has room for, and how large are they?  Asked
 * before a step changes anything.
 *
 * The largest |element| of a matrix is a NaN or infinite if one of them is.  Gradients that are
 * averaged on a guess (momentum.c) are read through by that.  Of the others, parameters of equal
 * shape are read through in one call, whatever their blocks are.  All answers come to the host at
 * once, which is the one time that a step waits.  They stay there for the step: what bounds a
 * gradient bounds the momentum that it goes into. */
#include <math.h>

#include "optim/optim.h"

static bool same_shape(ms_mat a, ms_mat b)
{
    return a.rows == b.rows && a.cols == b.cols && a.dtype == b.dtype;
}

/* The matrices of one stack, as places behind the n that are there. */
static int64_t add_ptrs(ms_mat x, ms_mat_ptr *ptrs, int64_t n)
{
    for (int64_t b = 0; b < x.count; b++)
        ptrs[n++] = (ms_mat_ptr){ ms_mat_slice(x, b, 1).data, x.ld };
    return n;
}

/* Is there a gradient, some of which no guess went through? */
static bool to_ask(const musec_optim *opt, const musec_view *grads, size_t i)
{
    const ms_mat w = opt->params[i].weight;
    return grads[i].data != NULL && opt->params[i].guessed < w.count * w.rows * w.cols;
}

/* The largest of all gradients (or weights) of the shape of parameter `first`, into out from *at
 * on. Notes in at_of where those of each parameter begin. */
static musec_status largest_of_shape(musec_optim *opt, const musec_view *grads, bool weights,
                                     size_t first, ms_vec out, int64_t *at, int64_t *at_of)
{
    ms_mat  x = opt->params[first].weight;
    int64_t n = 0, members = 0;
    for (size_t i = first; i < opt->n_params; i++) {
        const ms_param *p = &opt->params[i];
        if (!to_ask(opt, grads, i) || !same_shape(p->weight, x)) continue;
        const ms_mat one = weights ? p->weight : ms_grad_mat(p, grads[i]);
        if (members++ == 0) x = one;
        at_of[i] = *at + n;
        n        = add_ptrs(one, opt->ptrs, n);
    }
    if (members > 1) { /* one parameter is a stack as it is */
        x.ptrs  = opt->ptrs;
        x.count = n;
    }
    const musec_status st = opt->d->ops->absmax(opt->d, x, ms_vec_slice(out, *at, n));
    *at += n;
    return st;
}

static musec_status largest_of_all(musec_optim *opt, const musec_view *grads, bool weights,
                                   ms_vec out, int64_t *at, int64_t *at_of)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_params; i++)
        at_of[i] = -1;
    for (size_t i = 0; i < opt->n_params; i++)
        if (to_ask(opt, grads, i) && at_of[i] < 0)
            TRY(largest_of_shape(opt, grads, weights, i, out, at, at_of));
done:
    return st;
}

double ms_optim_grad_bound(const musec_optim *opt, const ms_member *m)
{
    const ms_param    *p    = &opt->params[m->param];
    const musec_block *b    = &p->blocks[m->block];
    const int64_t      from = b->offset + m->index * b->stride;
    const int64_t      to   = from + (b->rows / b->group_rows - 1) * b->group_step +
                       (b->group_rows - 1) * b->row_step + b->cols - 1;
    const int64_t step = p->weight.count > 1 ? p->weight.stride : to + 1;
    double        top  = 0.0;
    for (int64_t i = from / step; i <= to / step; i++)
        top = fmax(top, opt->largest[opt->counted[m->param] + i]);
    return top;
}

/* What may be in a gradient that goes into this group. */
static double most_of(const musec_optim *opt, const ms_group *g)
{
    const bool clips = opt->row->stores_clipped_momentum && !g->aux &&
                       ms_spectral_clips(g->spectral_fn) &&
                       opt->cfg.threshold_rule == MUSEC_THRESHOLD_FIXED; /* or D grows with M */
    return g->base->most(ms_group_config(opt, g), clips ? opt->cfg.threshold : INFINITY,
                         ms_dtype_max(ms_state_dtype(opt, g)));
}

/* What coupled decay adds to a gradient, at most. */
static double decay_bound(const musec_optim *opt, const ms_group *g, size_t i)
{
    const ms_param *p   = &opt->params[i];
    const int64_t   at  = opt->counted[opt->n_params + i];
    double          top = 0.0;
    if (g->aux || opt->cfg.decay_form != MUSEC_DECAY_COUPLED) return 0.0;
    for (int64_t b = 0; b < p->weight.count; b++)
        top = fmax(top, opt->largest[at + b]);
    return ms_param_decay(opt, p) * top;
}

/* Of the members of a group, which lie in opt->largest by themselves or with their parameter. */
static void look_through(const musec_optim *opt, const ms_group *g, const ms_step *a,
                         ms_bad_grad *found)
{
    const double most = most_of(opt, g);
    for (int64_t m = 0; m < g->count; m++) {
        const size_t i = g->members[m].param;
        if (i >= found->param || !ms_member_has_grad(g, m, a)) continue;
        const double grad = g->guessed ? g->seen[m] : ms_optim_grad_bound(opt, &g->members[m]);
        const double top  = grad + decay_bound(opt, g, i);
        if (!(top <= most)) *found = (ms_bad_grad){ i, top, most }; /* so written, NaN is found */
    }
}

/* Of a whole stack of gradients or weights: also what is in no block. */
static void look_for_nonfinite(const musec_optim *opt, const int64_t *at_of, ms_bad_grad *found)
{
    for (size_t i = 0; i < found->param; i++)
        for (int64_t b = 0; at_of[i] >= 0 && b < opt->params[i].weight.count; b++) {
            const double top = opt->largest[at_of[i] + b];
            if (!(top < INFINITY)) *found = (ms_bad_grad){ i, top, INFINITY };
        }
}

musec_status ms_optim_find_bad(musec_optim *opt, const ms_step *a, ms_bad_grad *found)
{
    const bool   coupled = opt->cfg.decay_form == MUSEC_DECAY_COUPLED;
    int64_t     *of_grad = opt->counted, *of_weight = opt->counted + opt->n_params, at = 0;
    ms_vec       tops;
    musec_status st = MUSEC_OK;
    *found          = (ms_bad_grad){ .param = opt->n_params };
    TRY(ms_scratch_vec(opt->d, 3 * opt->n_ptrs, &tops));
    TRY(ms_propose_guesses(opt, a, tops, &at));
    TRY(largest_of_all(opt, a->grads, false, tops, &at, of_grad));
    if (coupled) TRY(largest_of_all(opt, a->grads, true, tops, &at, of_weight));
    if (at > 0) TRY(ms_vec_download(opt->d, ms_vec_slice(tops, 0, at), opt->largest));
    look_for_nonfinite(opt, of_grad, found);
    if (coupled) look_for_nonfinite(opt, of_weight, found);
    for (size_t i = 0; i < opt->n_groups; i++)
        look_through(opt, &opt->groups[i], a, found);
done:
    return st;
}
