/* access.c - what a caller may reach of an optimizer between steps: where weights lie, state as it
 * lies on the device, and the numbers of steps.
 *
 * A step keeps things that it derived from state: bounds of the momentum, for scales of 16 bits
 * (scale_prediction.c), and norms of Gram matrices.  After the caller has written state they are
 * forgotten at the next step, which measures the bounds again.  Nobody sees a write, so a view that
 * is handed out counts as one. */
#include <string.h>

#include "optim/optim.h"

static musec_status find_param(const musec_optim *opt, size_t index)
{
    if (index < opt->n_params) return MUSEC_OK;
    return ms_fail(&opt->d->error, MUSEC_EINVAL, "there is no parameter %zu; there are %zu", index,
                   opt->n_params);
}

/* ---- where weights lie ----------------------------------------------------------------------- */

/* Takes the place of a view that replaces `old`. */
static musec_status take_place(musec_optim *opt, const char *what, const char *name,
                               musec_view view, ms_mat *old)
{
    ms_mat       x;
    musec_status st = MUSEC_OK;
    TRY(ms_mat_from_view(opt->d, name, view, &x));
    if (x.rows != old->rows || x.cols != old->cols || x.count != old->count || x.ld != old->ld ||
        (x.count > 1 && x.stride != old->stride) || x.dtype != old->dtype)
        TRY(ms_fail(&opt->d->error, MUSEC_EINVAL,
                    "the %s of %s was %lld x %lld x %lld, ld %lld, in %s; it cannot become %lld x "
                    "%lld x %lld, ld %lld, in %s",
                    what, name, (long long)old->count, (long long)old->rows, (long long)old->cols,
                    (long long)old->ld, ms_dtype_name(old->dtype), (long long)x.count,
                    (long long)x.rows, (long long)x.cols, (long long)x.ld, ms_dtype_name(x.dtype)));
    old->data = x.data;
done:
    return st;
}

musec_status musec_optim_set_weight(musec_optim *opt, size_t index, musec_view weight,
                                    musec_view copy)
{
    musec_status st = MUSEC_OK;
    if (opt == NULL) return MUSEC_EINVAL;
    TRY(find_param(opt, index));
    ms_param *p = &opt->params[index];
    ms_mat    w = p->weight, c = p->copy;
    if (copy.data != NULL && c.data == NULL)
        TRY(ms_fail(&opt->d->error, MUSEC_EINVAL, "%s has no copy that could move", p->name));
    TRY(take_place(opt, "weight", p->name, weight, &w));
    if (copy.data != NULL) TRY(take_place(opt, "copy", p->name, copy, &c));
    if (c.data != NULL && ms_mat_overlap(w, c))
        TRY(ms_fail(&opt->d->error, MUSEC_EINVAL, "the copy of %s overlaps the weight", p->name));
    p->weight = w;
    p->copy   = c;
done:
    return st;
}

/* ---- state ----------------------------------------------------------------------------------- */

const char *musec_optim_state_name(const musec_optim *opt, size_t param, size_t index)
{
    if (opt == NULL || param >= opt->n_params) return NULL;
    const ms_param *p = &opt->params[param];
    const char     *states[MS_STATES + 1];
    size_t          n = 0;
    ms_state_names(&opt->cfg, (int)p->role >= MUSEC_MATRIX_ROLES, states);
    while (states[n] != NULL)
        n++;
    if (index < n) return states[index];
    if (opt->cfg.avg_steps > 0 && index == n++) return "average";
    return index == n ? ms_rest_name(p) : NULL;
}

const ms_group *ms_find_member(const musec_optim *opt, size_t param, int64_t matrix, int64_t *m)
{
    for (size_t i = 0; i < opt->n_groups; i++)
        for (*m = 0; *m < opt->groups[i].count; (*m)++)
            if (opt->groups[i].members[*m].param == param &&
                opt->groups[i].members[*m].matrix == matrix)
                return &opt->groups[i];
    return NULL;
}

/* The state of one matrix, or of all of them (-1), which lie behind each other in one group. */
static musec_status matrix_state(musec_optim *opt, size_t param, int64_t block, int state,
                                 ms_mat *out)
{
    const ms_param *p     = &opt->params[param];
    const int64_t   first = block < 0 ? 0 : block, n = block < 0 ? p->n_matrices : 1;
    int64_t         m = 0;
    const ms_group *g = ms_find_member(opt, param, first, &m);
    if (g == NULL || block < -1)
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "%s has %lld matrices, and no number %lld",
                       p->name, (long long)p->n_matrices, (long long)block);
    if (p->share.elsewhere)
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "the state of %s is on rank %d", p->name,
                       p->share.owner);
    if (m + n > g->count || g->members[m + n - 1].param != param)
        return ms_fail(&opt->d->error, MUSEC_EINVAL,
                       "the matrices of %s are not all of one shape: ask for the state of each, by "
                       "its block",
                       p->name);
    *out = ms_state_of(g, state, m, n);
    return MUSEC_OK;
}

static musec_status find_state(musec_optim *opt, size_t param, int64_t block, const char *state,
                               ms_mat *out)
{
    const ms_param *p = &opt->params[param];
    const char     *name;
    for (int k = 0; (name = musec_optim_state_name(opt, param, (size_t)k)) != NULL; k++) {
        if (strcmp(name, state) != 0) continue;
        const bool average = strcmp(name, "average") == 0;
        const bool rest    = ms_rest_name(p) != NULL && strcmp(name, ms_rest_name(p)) == 0;
        if (!average && !rest) return matrix_state(opt, param, block, k, out);
        if (block != 0)
            return ms_fail(&opt->d->error, MUSEC_EINVAL,
                           "\"%s\" of %s is of the whole weight: its block is 0", state, p->name);
        *out = average ? p->average : p->rest;
        return MUSEC_OK;
    }
    return ms_fail(&opt->d->error, MUSEC_EINVAL,
                   "%s keeps no \"%s\": musec_optim_state_name() lists what it keeps", p->name,
                   state);
}

musec_status musec_optim_state_view(musec_optim *opt, size_t param, int64_t block,
                                    const char *state, musec_view *view)
{
    ms_mat       x;
    musec_status st = MUSEC_OK;
    if (opt == NULL || state == NULL || view == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(opt->d);
    TRY(find_param(opt, param));
    TRY(ms_optim_prepare(opt));
    TRY(find_state(opt, param, block, state, &x));
    opt->params[param].state_changed = true;
    *view                            = ms_view_of(x);
done:
    ms_device_leave(caller);
    return st;
}

musec_status musec_optim_state_changed(musec_optim *opt, size_t param)
{
    if (opt == NULL) return MUSEC_EINVAL;
    const musec_status st = find_param(opt, param);
    if (st == MUSEC_OK) opt->params[param].state_changed = true;
    return st;
}

/* What the device has of matrix m from its last step. */
static musec_status forget_live(musec_optim *opt, const ms_group *g, int64_t m)
{
    const ms_vec of[] = { g->gram_norms.sumsq, g->gram_norms.trace, g->live_prediction };
    musec_status st   = MUSEC_OK;
    for (size_t k = 0; k < COUNT(of); k++) {
        const ms_mat one = { .data   = of[k].data == NULL ? NULL : of[k].data + m,
                             .rows   = 1,
                             .cols   = 1,
                             .ld     = 1,
                             .count  = 1,
                             .stride = 1,
                             .dtype  = MUSEC_F64 };
        if (one.data != NULL) TRY(opt->d->ops->fill(opt->d, 0.0, one));
    }
done:
    return st;
}

bool ms_has_changes(const musec_optim *opt)
{
    bool any = false;
    for (size_t i = 0; i < opt->n_params; i++)
        any = any || opt->params[i].state_changed;
    return any;
}

musec_status ms_take_changes(musec_optim *opt)
{
    const bool   any = ms_has_changes(opt);
    musec_status st  = MUSEC_OK;
    for (size_t i = 0; any && i < opt->n_groups; i++) {
        ms_group *g = &opt->groups[i];
        for (int64_t m = 0; m < g->count; m++) {
            const ms_param *p = ms_member_param(opt, g, m);
            if (!p->state_changed) continue;
            /* before the first step the state is not read */
            g->momentum_bound[m] = p->t > 0 && g->members[m].slot >= 0 ? -1.0 : 0.0;
            g->last_absmax[m]    = 0.0;
            g->quantile[m]       = 0.0;
            TRY(forget_live(opt, g, m));
        }
    }
    for (size_t i = 0; any && i < opt->n_params; i++)
        opt->params[i].state_changed = false;
done:
    return st;
}

/* ---- numbers of steps ------------------------------------------------------------------------ */

musec_status musec_optim_get_steps(const musec_optim *opt, size_t param, int64_t *steps)
{
    musec_status st = MUSEC_OK;
    if (opt == NULL || steps == NULL) return MUSEC_EINVAL;
    if (param != MUSEC_ALL) TRY(find_param(opt, param));
    *steps = param == MUSEC_ALL ? opt->t : opt->params[param].t;
done:
    return st;
}

musec_status musec_optim_set_steps(musec_optim *opt, size_t param, int64_t steps)
{
    const int64_t most = (int64_t)1 << 50; /* a float64 counts further */
    musec_status  st   = MUSEC_OK;
    if (opt == NULL) return MUSEC_EINVAL;
    if (param != MUSEC_ALL) TRY(find_param(opt, param));
    if (steps < 0 || steps > most)
        TRY(ms_fail(&opt->d->error, MUSEC_EINVAL, "%lld steps: it must be from 0 to %lld",
                    (long long)steps, (long long)most));
    if (opt->deferred && opt->ready && !opt->live_stale) TRY(ms_poll_live(opt));
    opt->live_stale = true;
    if (param == MUSEC_ALL) {
        opt->t = steps;
    } else { /* whether the state is read at all may change with it */
        opt->params[param].t             = steps;
        opt->params[param].state_changed = true;
    }
done:
    return st;
}
