/* replicas.c - ranks in groups that each own all there is: replicas.
 *
 * What ranks tell each other is then told within a group, on the links of a machine.  Between
 * groups there are sums alone: what a member owns is summed within its group, and then among those
 * of all groups that own the same, each of which takes a share of it, adds, and hands it back.  So
 * a sum has the same bits in all groups, and what they compute of it is the same.
 *
 * A group, and those that own the same, are communicators of some ranks of another one, which has
 * one thing to do for them: to pass data on. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "core/grow.h"
#include "core/size.h"

typedef struct part {
    ms_comm           base;
    int              *ranks;  /* (size) those of `below` */
    ms_comm          *across; /* of a group: those that own what this rank owns; or NULL */
    ms_comm_transfer *list;   /* of the call under way */
    size_t            n, capacity;
} part;

static part *of(ms_comm *c) { return (part *)c; }

/* ---- data ------------------------------------------------------------------------------------ */

static musec_status add_transfer(part *p, void *data, int64_t bytes, int from, int to)
{
    ms_comm_transfer *grown;

    if (from == to || (from != p->base.rank && to != p->base.rank)) return MUSEC_OK;
    grown = ms_grow(p->list, p->n, &p->capacity, sizeof *grown);
    if (grown == NULL) return ms_no_memory(&p->base.error, "what ranks pass on");
    p->list         = grown;
    p->list[p->n++] = (ms_comm_transfer){ data, bytes, p->ranks[from], p->ranks[to] };
    return MUSEC_OK;
}

static musec_status make_transfers(part *p, ms_device *d)
{
    ms_comm     *b = p->base.below;
    const size_t n = p->n;
    p->n           = 0;
    return ms_comm_pass_on(&p->base, b, b->ops->pass(b, d, p->list, n));
}

static musec_status part_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < n; i++)
        TRY(add_transfer(of(c), list[i].data, list[i].bytes, list[i].from, list[i].to));
    TRY(make_transfers(of(c), d));
done:
    return st;
}

static musec_status part_gather(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < n; i++)
        for (int r = 0; r < c->size; r++)
            TRY(add_transfer(of(c), pieces[i].data,
                             pieces[i].n * (int64_t)ms_dtype_bytes(pieces[i].dtype),
                             pieces[i].owner, r));
    TRY(make_transfers(of(c), d));
done:
    return st;
}

/* The sum of x over the ranks of `across`, to all of them. */
static musec_status sum_across(ms_comm *across, const ms_comm_piece *x)
{
    const int64_t  each  = (int64_t)ms_dtype_bytes(x->dtype);
    ms_comm_piece *parts = calloc((size_t)across->size, sizeof *parts);
    musec_status   st    = MUSEC_OK;

    if (parts == NULL) TRY(ms_no_memory(&across->error, "the sums of replicas"));
    for (int r = 0; r < across->size; r++) {
        const int64_t first = ms_share_first(x->n, r, across->size);
        parts[r] =
            (ms_comm_piece){ (char *)x->data + first * each,
                             ms_share_first(x->n, r + 1, across->size) - first, x->dtype, r };
    }
    TRY(ms_comm_sum_by_passing(across, parts, (size_t)across->size));
    TRY(across->ops->gather(across, NULL, parts, (size_t)across->size));
done:
    free(parts);
    return st;
}

/* Over all ranks of all groups, into the owner of each group. */
static musec_status part_reduce(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    ms_comm     *across = of(c)->across;
    musec_status st     = MUSEC_OK;

    if (ms_comm_is_apart(d)) return ms_stage_reduce(c, d, pieces, n);
    TRY(ms_comm_sum_by_passing(c, pieces, n));
    for (size_t i = 0; i < n && across != NULL; i++)
        if (pieces[i].owner == c->rank)
            TRY(ms_comm_pass_on(c, across, sum_across(across, &pieces[i])));
done:
    return st;
}

static musec_status part_broadcast(ms_comm *c, void *data, int64_t bytes, int from)
{
    musec_status st = MUSEC_OK;
    for (int r = 0; r < c->size; r++)
        TRY(add_transfer(of(c), data, bytes, from, r));
    TRY(make_transfers(of(c), NULL));
done:
    return st;
}

/* Every rank gets what all have, and adds it in their order. */
static musec_status part_all_reduce(ms_comm *c, ms_comm_reduction op, double *x, int64_t n)
{
    double      *all = calloc((size_t)c->size, (size_t)n * sizeof *all + 1);
    musec_status st  = MUSEC_OK;

    if (all == NULL) TRY(ms_no_memory(&c->error, "the sums of ranks"));
    memcpy(all + c->rank * n, x, (size_t)n * sizeof *x);
    for (int from = 0; from < c->size; from++)
        for (int to = 0; to < c->size; to++)
            TRY(add_transfer(of(c), all + from * n, n * (int64_t)sizeof *all, from, to));
    TRY(make_transfers(of(c), NULL));
    memcpy(x, all, (size_t)n * sizeof *x);
    for (int r = 1; r < c->size; r++)
        for (int64_t i = 0; i < n; i++)
            x[i] = op == MS_COMM_SUM ? x[i] + all[r * n + i] : fmax(x[i], all[r * n + i]);
done:
    free(all);
    return st;
}

static musec_status part_barrier(ms_comm *c)
{
    double nothing = 0.0;
    return part_all_reduce(c, MS_COMM_SUM, &nothing, 1);
}

static void part_abort(ms_comm *c, const char *why) { ms_comm_abort(c->below, why); }

static void part_close(ms_comm *c)
{
    part *p = of(c);
    ms_comm_forget_device(c);
    ms_comm_close(p->across);
    pthread_mutex_destroy(&c->health_lock);
    free(p->list);
    free(p->ranks);
    free(p);
}

static const ms_comm_ops part_ops = {
    .name       = "replicas",
    .reduce     = part_reduce,
    .gather     = part_gather,
    .pass       = part_pass,
    .all_reduce = part_all_reduce,
    .broadcast  = part_broadcast,
    .barrier    = part_barrier,
    .abort      = part_abort,
    .close      = part_close,
};

/* ---- opening --------------------------------------------------------------------------------- */

/* A communicator of the ranks whose group[r] is `which`, in their order. */
static musec_status open_part(ms_error *e, ms_comm *below, const int *group, int which, part **out)
{
    part *p = calloc(1, sizeof *p);

    *out = NULL;
    if (p != NULL) p->ranks = calloc((size_t)below->size, sizeof *p->ranks);
    if (p == NULL || p->ranks == NULL) {
        free(p);
        return ms_no_memory(e, "the replicas of a job");
    }
    ms_comm_init(&p->base, &part_ops);
    p->base.below = below;
    for (int r = 0; r < below->size; r++) {
        if (group[r] != which) continue;
        if (r == below->rank) p->base.rank = p->base.size;
        p->ranks[p->base.size++] = r;
    }
    *out = p;
    return MUSEC_OK;
}

/* Groups of neighbours, or of those on one machine; group[r] is that of rank r.  Numbers of groups
 * follow their first ranks. */
static musec_status choose_groups(ms_error *e, ms_comm *c, int replicas, int *group, int *n)
{
    char        *names = NULL;
    musec_status st    = MUSEC_OK;

    *n = replicas;
    for (int r = 0; r < c->size && replicas > 0; r++)
        group[r] = r / (c->size / replicas);
    if (replicas > 0) return MUSEC_OK;
    TRY(ms_comm_machines(e, c, &names));
    for (int r = 0; r < c->size; r++) {
        int first = 0;
        while (strcmp(names + (ptrdiff_t)first * MS_COMM_MACHINE,
                      names + (ptrdiff_t)r * MS_COMM_MACHINE) != 0)
            first++;
        group[r] = first < r ? group[first] : (*n)++;
    }
done:
    free(names);
    return st;
}

/* Have all groups the same number of ranks, and several?  place[r]: that of rank r in its group. */
static bool are_alike(const int *group, int size, int n, int *place)
{
    for (int r = 0; r < size; r++) {
        place[r] = 0;
        for (int i = 0; i < r; i++)
            place[r] += group[i] == group[r];
    }
    for (int k = 0; k < n; k++) {
        int members = 0;
        for (int r = 0; r < size; r++)
            members += group[r] == k;
        if (members != size / n) return false;
    }
    return n > 1 && size / n > 1;
}

musec_status ms_comm_add_replicas(ms_error *e, ms_comm *below, int replicas, ms_comm **out)
{
    const int    size   = below->size;
    int         *group  = calloc((size_t)size, sizeof *group);
    int         *place  = calloc((size_t)size, sizeof *place);
    part        *within = NULL, *across = NULL;
    int          n  = 0;
    musec_status st = MUSEC_OK;

    *out = below;
    if (group == NULL || place == NULL) TRY(ms_no_memory(e, "the replicas of a job"));
    if (replicas > 0 && (size % replicas != 0 || size == replicas))
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "%d rank%s not make %d replicas of several ranks each: give a number of "
                    "replicas that divides that of ranks, or no",
                    size, size == 1 ? " does" : "s do", replicas));
    TRY(choose_groups(e, below, replicas, group, &n));
    if (!are_alike(group, size, n, place)) goto done;
    TRY(open_part(e, below, group, group[below->rank], &within));
    TRY(open_part(e, below, place, place[below->rank], &across));
    within->across = &across->base;
    *out           = &within->base;
    within = across = NULL;
done:
    if (within != NULL) part_close(&within->base);
    if (across != NULL) part_close(&across->base);
    free(place);
    free(group);
    return st;
}

int ms_comm_replicas(const ms_comm *c, int *mine)
{
    const bool is_group = c->ops == &part_ops && ((const part *)c)->across != NULL;

    *mine = is_group ? ((const part *)c)->across->rank : 0;
    return is_group ? ((const part *)c)->across->size : 1;
}
