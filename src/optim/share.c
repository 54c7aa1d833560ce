/* share.c - an optimizer that several ranks share.
 *
 * A matrix belongs to one rank, which alone has its state and makes its step, as the spectral
 * function needs it whole; the others see it without a gradient.  Where a parameter is updated
 * element by element, every rank has equal shares of its rows: embeddings may be the larger half of
 * a model.  Groups, the places of members in them and the numbers of steps are those of one
 * process, and so are all results where what a matrix becomes depends on it alone.  On GPUs its
 * last bits depend on the matrices that are in one call with it, and scales of 16-bit operands on
 * all matrices of a group.  There all that go into one call belong together (ms_optim_batches), or
 * results are those of one process within rounding.
 *
 * What ranks tell each other is small: which gradient is bad, and the reports of measured steps.
 * State is brought together when it is saved, tensor by tensor. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "optim/optim.h"

static musec_status check(musec_optim *opt, musec_status status)
{
    return ms_comm_check(&opt->d->error, opt->comm, status);
}

/* ---- what is here ---------------------------------------------------------------------------- */

static ms_share share_of(const ms_comm *c, int64_t rows, int owner)
{
    const int64_t first = ms_share_first(rows, c->rank, c->size);
    const int64_t end   = ms_share_first(rows, c->rank + 1, c->size);

    if (owner != MS_SPLIT)
        return (ms_share){ .owner = owner, .all_rows = rows, .elsewhere = owner != c->rank };
    return (
        ms_share){ .owner = MS_SPLIT, .first = first, .all_rows = rows, .elsewhere = first == end };
}

musec_view ms_share_view(const ms_param *p, musec_view whole)
{
    if (p->share.elsewhere) whole.data = NULL;
    if (whole.data == NULL || p->share.owner != MS_SPLIT) return whole;
    whole.data =
        (char *)whole.data + (size_t)(p->share.first * whole.ld) * ms_dtype_bytes(whole.dtype);
    whole.rows = p->weight.rows;
    return whole;
}

musec_status ms_optim_batches(const musec_optim *opt, size_t *batch)
{
    const ms_device *d        = opt->d;
    const bool       together = d->deterministic && (d->kind->batch_variant ||
                                               ms_is_16bit(ms_optim_operands(opt, MUSEC_F32)));
    musec_optim      draft;
    musec_status     st = MUSEC_OK;

    for (size_t i = 0; i < opt->n_params; i++)
        batch[i] = i;
    if (!together) return MUSEC_OK;
    TRY(ms_optim_draft(opt, &draft));
    for (size_t k = 0; k < draft.n_groups; k++) {
        const ms_group *g     = &draft.groups[k];
        size_t          first = 0; /* of the groups that one call may take */
        while (first < k && !ms_groups_fusible(&draft, &draft.groups[first], g))
            first++;
        for (int64_t m = 0; !g->aux && m < g->count; m++)
            batch[g->members[m].param] = draft.groups[first].members[0].param;
    }
    ms_optim_draft_free(&draft);
done:
    return st;
}

/* What depends on the device's own count of steps, or on the halves of a weight, is not shared. */
static musec_status check_shareable(musec_optim *opt, const musec_param *whole)
{
    if (ms_is_16bit(whole->weight.dtype))
        return ms_fail(&opt->d->error, MUSEC_ENOTSUP,
                       "%s: several ranks share weights of float32, not of %s", whole->name,
                       ms_dtype_name(whole->weight.dtype));
    if (opt->deferred)
        return ms_fail(
            &opt->d->error, MUSEC_ENOTSUP,
            "nonfinite is defer, which several ranks cannot agree on: take stop or skip");
    if (whole->n_blocks > 0 || whole->weight.count > 1)
        return ms_fail(&opt->d->error, MUSEC_ENOTSUP,
                       "%s: only a weight that is one matrix is shared by ranks", whole->name);
    return MUSEC_OK;
}

musec_status ms_optim_add_share(musec_optim *opt, ms_comm *comm, const musec_param *whole,
                                int owner, size_t *index)
{
    const ms_share share = share_of(comm, whole->weight.rows, owner);
    musec_param    part  = *whole;
    ms_param       one   = { .share = share };
    size_t         at    = 0;
    musec_status   st    = MUSEC_OK;

    opt->comm = comm;
    if (comm->size > 1) TRY(check_shareable(opt, whole));
    if (owner == MS_SPLIT && !share.elsewhere) {
        one.weight.rows = ms_share_first(share.all_rows, comm->rank + 1, comm->size) - share.first;
        part.weight     = ms_share_view(&one, whole->weight);
        part.copy       = ms_share_view(&one, whole->copy);
    }
    TRY(musec_optim_add(opt, &part, &at));
    opt->params[at].share = share;
    if (index != NULL) *index = at;
done:
    return st;
}

ms_mat ms_state_of(const ms_group *g, int state, int64_t first, int64_t n)
{
    return ms_mat_slice(g->state[state], g->members[first].slot, n);
}

/* ---- what ranks tell each other -------------------------------------------------------------- */

static double larger(double a, double b) { return a > b || isnan(a) ? a : b; }

/* A parameter that is split may be bad on several ranks. */
musec_status ms_share_bad(musec_optim *opt, ms_bad_grad *bad)
{
    enum { NUMBERS = 3 };
    const int    size = opt->comm->size;
    double      *all  = NULL;
    musec_status st   = MUSEC_OK;

    if (size == 1) return MUSEC_OK;
    all = calloc((size_t)size * NUMBERS, sizeof *all);
    if (all == NULL) TRY(ms_no_memory(&opt->d->error, "what the ranks found"));
    double *mine = all + (ptrdiff_t)opt->comm->rank * NUMBERS;
    mine[0] = (double)bad->param, mine[1] = bad->absmax, mine[2] = bad->max_grad;
    TRY(check(opt,
              opt->comm->ops->all_reduce(opt->comm, MS_COMM_SUM, all, (int64_t)size * NUMBERS)));
    for (int r = 0; r < size; r++) {
        const double *one = all + (ptrdiff_t)r * NUMBERS;
        if (one[0] > (double)bad->param) continue;
        if (one[0] == (double)bad->param)
            bad->absmax = larger(one[1], bad->absmax);
        else
            *bad = (ms_bad_grad){ (size_t)one[0], one[1], one[2] };
    }
done:
    free(all);
    return st;
}

/* The reports lie in `all` by their owners, and within those in the order of groups and members. */
static void order_reports(const musec_optim *opt, musec_optim_report *all, size_t *first, bool put)
{
    size_t next = 0;
    for (int r = 0; r < opt->comm->size; r++) {
        first[r] = next;
        for (size_t i = 0; i < opt->n_groups; i++)
            for (int64_t m = 0; !opt->groups[i].aux && m < opt->groups[i].count; m++) {
                const ms_param     *p   = ms_member_param(opt, &opt->groups[i], m);
                musec_optim_report *one = &opt->groups[i].reports[m];
                if (p->share.owner != r) continue;
                if (put)
                    all[next] = *one;
                else
                    *one = all[next];
                one->param = p->name; /* an address of this rank */
                next++;
            }
    }
    first[opt->comm->size] = next;
}

musec_status ms_share_reports(musec_optim *opt)
{
    const int           size   = opt->comm->size;
    size_t              n      = 0;
    musec_optim_report *all    = NULL;
    size_t             *first  = NULL;
    ms_comm_piece      *pieces = NULL;
    musec_status        st     = MUSEC_OK;

    if (size == 1) return MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++)
        n += (size_t)opt->groups[i].count;
    all    = calloc(n + 1, sizeof *all);
    first  = calloc((size_t)size + 1, sizeof *first);
    pieces = calloc((size_t)size, sizeof *pieces);
    if (all == NULL || first == NULL || pieces == NULL)
        TRY(ms_no_memory(&opt->d->error, "the reports of all ranks"));
    order_reports(opt, all, first, true);
    for (int r = 0; r < size; r++) /* bytes, in float64 */
        pieces[r] = (ms_comm_piece){
            all + first[r],
            (int64_t)((first[r + 1] - first[r]) * sizeof *all / sizeof(double)),
            MUSEC_F64,
            r,
        };
    static_assert(sizeof *all % sizeof(double) == 0, "a report is a row of float64");
    TRY(check(opt, opt->comm->ops->gather(opt->comm, NULL, pieces, (size_t)size)));
    order_reports(opt, all, first, false);
done:
    free(pieces);
    free(first);
    free(all);
    return st;
}

musec_status ms_share_quantiles(musec_optim *opt)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; opt->comm->size > 1 && i < opt->n_groups; i++) {
        ms_group *g = &opt->groups[i];
        if (g->aux) continue;
        for (int64_t m = 0; m < g->count; m++)
            if (g->members[m].slot < 0) g->quantile[m] = 0.0;
        TRY(check(opt, opt->comm->ops->all_reduce(opt->comm, MS_COMM_SUM, g->quantile, g->count)));
    }
done:
    return st;
}

musec_status ms_share_bounds(musec_optim *opt, const ms_group *g, double *known, int64_t each)
{
    musec_status st = MUSEC_OK;
    if (opt->comm->size == 1) return MUSEC_OK;
    for (int64_t m = 0; m < g->count; m++)
        for (int64_t k = 0; g->members[m].slot < 0 && k < each; k++)
            known[m * each + k] = 0.0;
    TRY(check(opt, opt->comm->ops->all_reduce(opt->comm, MS_COMM_SUM, known, g->count * each)));
done:
    return st;
}

musec_status ms_share_tensor(musec_optim *opt, const ms_share *share, int64_t rows,
                             size_t row_bytes, void *host)
{
    ms_comm          *c    = opt->comm;
    ms_comm_transfer  one  = { host, rows * (int64_t)row_bytes, share->owner, 0 };
    ms_comm_transfer *list = NULL;
    musec_status      st   = MUSEC_OK;

    if (c->size == 1) return MUSEC_OK;
    if (share->owner != MS_SPLIT) return check(opt, c->ops->pass(c, NULL, &one, 1));
    list = calloc((size_t)c->size, sizeof *list);
    if (list == NULL) TRY(ms_no_memory(&opt->d->error, "the shares of all ranks"));
    for (int r = 0; r < c->size; r++) {
        const int64_t at = ms_share_first(share->all_rows, r, c->size);
        const int64_t n  = ms_share_first(share->all_rows, r + 1, c->size) - at;
        list[r] = (ms_comm_transfer){ (char *)host + (size_t)at * row_bytes, n * (int64_t)row_bytes,
                                      r, 0 };
    }
    TRY(check(opt, c->ops->pass(c, NULL, list, (size_t)c->size)));
done:
    free(list);
    return st;
}
