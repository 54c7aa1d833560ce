/* sums.c - see sums.h.  Pieces are sent in buckets, which bound the memory of what comes in. */
#include "train/sums.h"

#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/size.h"
#include "train/ranks.h"
#include "train/trainer.h"

#define INBOX ((int64_t)32 << 20) /* bytes that an owner takes at a time, if no piece needs more */

struct ms_sums {
    ms_device        *d;
    void             *memory;   /* the sums of the pieces that this rank owns, one after another */
    void             *inbox;    /* what comes from other ranks */
    size_t            capacity; /* bytes of inbox */
    int64_t          *incoming; /* bytes of a bucket, by owner */
    ms_comm_transfer *list;
    size_t            n_list, list_capacity;
};

/* One round of a step: n ranks, from 0 on, have the gradients of a micro-batch. */
typedef struct adding {
    int    n;
    bool   begins, ends; /* the step */
    size_t first, end;   /* pieces of the current bucket */
    char  *sum;          /* of the next piece that this rank owns */
    char  *inbox;        /* of the next piece, from ranks in their order, without the owner */
} adding;

static int64_t bytes_of(const ms_comm_piece *p) { return p->n * (int64_t)ms_dtype_bytes(p->dtype); }

/* ---- memory ---------------------------------------------------------------------------------- */

uint64_t ms_sums_bytes(const ms_train *t)
{
    const ms_comm *c     = ms_comm_of(&t->setup);
    uint64_t       bytes = 0;
    bool           any   = false;
    for (int i = 0; i < t->schedule.n_stages; i++)
        any = any || t->schedule.stage[i].micro_batches > c->size;
    for (size_t i = 0; any && t->cfg.deterministic && i < t->n_pieces; i++)
        if (t->grad_pieces[i].owner == c->rank) bytes += (uint64_t)bytes_of(&t->grad_pieces[i]);
    return bytes;
}

musec_status ms_sums_create(ms_error *e, const ms_train *t, ms_sums **out)
{
    const uint64_t bytes = ms_sums_bytes(t);
    ms_sums       *s     = calloc(1, sizeof *s);
    musec_status   st    = MUSEC_OK;

    *out = NULL;
    if (s == NULL) return ms_no_memory(e, "sums of gradients");
    s->d        = t->ctx;
    s->incoming = calloc((size_t)ms_comm_of(&t->setup)->size, sizeof *s->incoming);
    if (s->incoming == NULL) TRY(ms_no_memory(e, "sums of gradients"));
    if (bytes > 0) TRY(ms_train_check(e, t->ctx, s->d->ops->alloc(s->d, bytes, &s->memory)));
    *out = s;
    s    = NULL;
done:
    ms_sums_destroy(s);
    return st;
}

void ms_sums_destroy(ms_sums *s)
{
    if (s == NULL) return;
    s->d->ops->free(s->d, s->inbox);
    s->d->ops->free(s->d, s->memory);
    free(s->list);
    free(s->incoming);
    free(s);
}

/* ---- rows of numbers ------------------------------------------------------------------------- */

static ms_mat row_of(const ms_comm_piece *p, void *data)
{
    return ms_mat_of(musec_view_dense(data, p->dtype, 1, 1, p->n));
}

static musec_status copy(ms_error *e, const ms_train *t, const ms_comm_piece *p, void *from,
                         void *to)
{
    if (from == to) return MUSEC_OK;
    return ms_train_check(e, t->ctx, t->ctx->ops->copy(t->ctx, row_of(p, from), row_of(p, to)));
}

/* y <- x + y */
static musec_status add(ms_error *e, const ms_train *t, const ms_comm_piece *p, void *x, void *y)
{
    return ms_train_check(
        e, t->ctx,
        t->ctx->ops->axpby(t->ctx, ms_const(1.0), row_of(p, x), ms_const(1.0), row_of(p, y)));
}

/* ---- a bucket -------------------------------------------------------------------------------- */

/* How many ranks have something for the owner of a piece. */
static int senders(const adding *a, const ms_comm_piece *p)
{
    return p->owner < a->n ? a->n - 1 : a->n;
}

/* Ends the bucket before any owner would get more than INBOX; makes this rank's inbox so large. */
static musec_status choose_bucket(ms_error *e, ms_train *t, adding *a)
{
    const ms_comm *c   = ms_comm_of(&t->setup);
    ms_sums       *s   = t->sums;
    int64_t       *got = s->incoming;
    musec_status   st  = MUSEC_OK;

    memset(got, 0, (size_t)c->size * sizeof *got);
    for (a->end = a->first; a->end < t->n_pieces; a->end++) {
        const ms_comm_piece *p     = &t->grad_pieces[a->end];
        const int64_t        bytes = senders(a, p) * bytes_of(p);
        if (a->end > a->first && got[p->owner] + bytes > INBOX) break;
        got[p->owner] += bytes;
    }
    if ((size_t)got[c->rank] > s->capacity) {
        s->d->ops->free(s->d, s->inbox);
        s->inbox    = NULL;
        s->capacity = 0;
        TRY(ms_train_check(e, s->d, s->d->ops->alloc(s->d, (size_t)got[c->rank], &s->inbox)));
        s->capacity = (size_t)got[c->rank];
    }
    a->inbox = s->inbox;
done:
    return st;
}

static musec_status add_transfer(ms_error *e, ms_sums *s, ms_comm_transfer one)
{
    ms_comm_transfer *grown = ms_grow(s->list, s->n_list, &s->list_capacity, sizeof *grown);
    if (grown == NULL) return ms_no_memory(e, "the gradients of other ranks");
    s->list              = grown;
    s->list[s->n_list++] = one;
    return MUSEC_OK;
}

/* Lists what the ranks of this round send to the owner of a piece. */
static musec_status list_piece(ms_error *e, ms_train *t, adding *a, const ms_comm_piece *p)
{
    const ms_comm *c  = ms_comm_of(&t->setup);
    musec_status   st = MUSEC_OK;

    for (int r = 0; r < a->n; r++) {
        const bool comes = p->owner == c->rank && r != c->rank;
        if (r == p->owner || (!comes && r != c->rank)) continue;
        TRY(add_transfer(
            e, t->sums,
            (ms_comm_transfer){ comes ? a->inbox : p->data, bytes_of(p), r, p->owner }));
        if (comes) a->inbox += bytes_of(p);
    }
done:
    return st;
}

/* Adds what the ranks of this round have to the sum of a piece of this rank, in their order. */
static musec_status add_piece(ms_error *e, ms_train *t, adding *a, const ms_comm_piece *p)
{
    const ms_comm *c    = ms_comm_of(&t->setup);
    const bool     only = a->begins && a->ends; /* the sum is where the first of them is */
    char          *sum  = only ? NULL : a->sum;
    musec_status   st   = MUSEC_OK;

    for (int r = 0; r < a->n; r++) {
        char      *from  = r == c->rank ? p->data : a->inbox;
        const bool adds  = r > 0 || !a->begins;
        const bool lands = a->ends && r == a->n - 1 && r == c->rank; /* where it will be wanted */
        if (r != c->rank) a->inbox += bytes_of(p);
        if (adds && lands) {
            TRY(add(e, t, p, sum, from));
            sum = from;
        } else if (adds) {
            TRY(add(e, t, p, from, sum));
        } else if (only) {
            sum = from;
        } else {
            TRY(copy(e, t, p, from, sum));
        }
    }
    if (a->ends) TRY(copy(e, t, p, sum, p->data));
    if (!only) a->sum += bytes_of(p);
done:
    return st;
}

static musec_status add_bucket(ms_error *e, ms_train *t, adding *a)
{
    ms_comm     *c  = ms_comm_of(&t->setup);
    ms_sums     *s  = t->sums;
    musec_status st = MUSEC_OK;

    s->n_list = 0;
    for (size_t i = a->first; i < a->end; i++)
        TRY(list_piece(e, t, a, &t->grad_pieces[i]));
    TRY(ms_comm_check(e, c, c->ops->pass(c, t->ctx, s->list, s->n_list)));
    a->inbox = s->inbox;
    for (size_t i = a->first; i < a->end; i++)
        if (t->grad_pieces[i].owner == c->rank) TRY(add_piece(e, t, a, &t->grad_pieces[i]));
done:
    return st;
}

musec_status ms_sums_add(ms_error *e, ms_train *t, int64_t first, int64_t micro_batches)
{
    const int    size = ms_comm_of(&t->setup)->size;
    adding       a    = { .n      = (int)ms_min_i64(size, micro_batches - first),
                          .begins = first == 0,
                          .ends   = first + size >= micro_batches,
                          .sum    = t->sums->memory };
    musec_status st   = MUSEC_OK;

    for (; a.first < t->n_pieces; a.first = a.end) {
        TRY(choose_bucket(e, t, &a));
        TRY(add_bucket(e, t, &a));
    }
    if (!a.ends) TRY(ms_train_check(e, t->ctx, ms_gpt_zero_grad(t->gpt)));
done:
    return st;
}
