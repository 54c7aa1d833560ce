/* sums.c - see sums.h.  Buckets bound the memory of what comes in; all ranks cut them in the same
 * places, and some are on their way at once. */
#include "train/sums.h"

#include <stdlib.h>
#include <string.h>

#include "comm/async.h"
#include "core/grow.h"
#include "core/size.h"
#include "train/ranks.h"
#include "train/trainer.h"

enum { ON_THE_WAY = 16 }; /* buckets */

typedef struct bucket {
    size_t  first, end; /* pieces */
    int64_t ticket;
    char   *inbox; /* of its pieces, from ranks in their order, without the owner */
} bucket;

/* A round of a step: n ranks, from 0 on, have the gradients of a micro-batch. */
typedef struct round_of_sums {
    int    n;
    bool   begins, ends; /* the step */
    bool   idle;         /* nothing is sent: this rank goes on accumulating */
    size_t next;         /* the first piece that is in no bucket yet */
    char  *sum;          /* of the next piece that this rank owns */
    bucket ways[ON_THE_WAY];
    size_t n_ways;
} round_of_sums;

struct ms_sums {
    ms_device        *d;
    void             *memory;         /* the sums of the pieces that this rank owns, in order */
    char             *inbox;          /* what comes from other ranks */
    int64_t           capacity, used; /* bytes of it */
    int64_t          *incoming;       /* bytes of a bucket, by owner */
    ms_comm_transfer *list;
    size_t            n_list, list_capacity;
    round_of_sums     now;
};

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
static int senders(const round_of_sums *r, const ms_comm_piece *p)
{
    return p->owner < r->n ? r->n - 1 : r->n;
}

/* Ends the next bucket before any owner would get more than a bucket holds; returns what this rank
 * gets of it. */
static int64_t choose_bucket(const ms_train *t, size_t *end)
{
    const ms_comm       *c   = ms_comm_of(&t->setup);
    const round_of_sums *r   = &t->sums->now;
    int64_t             *got = t->sums->incoming;

    memset(got, 0, (size_t)c->size * sizeof *got);
    for (*end = r->next; *end < t->n_pieces; ++*end) {
        const ms_comm_piece *p     = &t->grad_pieces[*end];
        const int64_t        bytes = senders(r, p) * bytes_of(p);
        if (*end > r->next && got[p->owner] + bytes > t->bucket) break;
        got[p->owner] += bytes;
    }
    return t->cfg.deterministic ? got[c->rank] : 0;
}

static musec_status add_transfer(ms_error *e, ms_sums *s, ms_comm_transfer one)
{
    ms_comm_transfer *grown = ms_grow(s->list, s->n_list, &s->list_capacity, sizeof *grown);
    if (grown == NULL) return ms_no_memory(e, "the gradients of other ranks");
    s->list              = grown;
    s->list[s->n_list++] = one;
    return MUSEC_OK;
}

/* Lists what the ranks of this round send to the owner of a piece; *inbox: moves on. */
static musec_status list_piece(ms_error *e, ms_train *t, const ms_comm_piece *p, char **inbox)
{
    const ms_comm *c  = ms_comm_of(&t->setup);
    musec_status   st = MUSEC_OK;

    for (int r = 0; r < t->sums->now.n; r++) {
        const bool comes = p->owner == c->rank && r != c->rank;
        if (r == p->owner || (!comes && r != c->rank)) continue;
        TRY(add_transfer(e, t->sums,
                         (ms_comm_transfer){ comes ? *inbox : p->data, bytes_of(p), r, p->owner }));
        if (comes) *inbox += bytes_of(p);
    }
done:
    return st;
}

/* Makes an inbox of at least so many bytes; none is in use. */
static musec_status take_inbox(ms_error *e, ms_sums *s, int64_t bytes)
{
    void        *memory = NULL;
    musec_status st     = MUSEC_OK;

    s->d->ops->free(s->d, s->inbox);
    s->inbox    = NULL;
    s->capacity = 0;
    TRY(ms_train_check(e, s->d, s->d->ops->alloc(s->d, (size_t)bytes, &memory)));
    s->inbox    = memory;
    s->capacity = bytes;
done:
    return st;
}

/* Sends the bucket of the next pieces up to `end`, of which this rank gets so many bytes. */
static musec_status send_bucket(ms_error *e, ms_train *t, size_t end, int64_t bytes)
{
    ms_comm       *c   = ms_owners_of(t);
    ms_sums       *s   = t->sums;
    round_of_sums *r   = &s->now;
    bucket        *one = &r->ways[r->n_ways];
    char          *at  = NULL;
    musec_status   st  = MUSEC_OK;

    if (s->used + bytes > s->capacity)
        TRY(take_inbox(e, s, ms_max_i64(bytes, ms_min_i64(MS_SUMS_INBOX, ON_THE_WAY * t->bucket))));
    at   = s->inbox != NULL ? s->inbox + s->used : NULL;
    *one = (bucket){ .first = r->next, .end = end, .inbox = at };
    s->used += bytes;
    s->n_list = 0;
    for (size_t i = one->first; i < end && t->cfg.deterministic; i++)
        TRY(list_piece(e, t, &t->grad_pieces[i], &at));
    TRY(ms_comm_check(e, c,
                      t->cfg.deterministic
                          ? ms_async_pass(t->async, s->list, s->n_list, &one->ticket)
                          : ms_async_reduce(t->async, t->grad_pieces + one->first, end - one->first,
                                            &one->ticket)));
    r->n_ways++;
    r->next = end;
done:
    return st;
}

/* Adds what the ranks of this round have to the sum of a piece of this rank, in their order. */
static musec_status add_piece(ms_error *e, ms_train *t, const ms_comm_piece *p, char **inbox)
{
    const ms_comm *c    = ms_comm_of(&t->setup);
    round_of_sums *now  = &t->sums->now;
    const bool     only = now->begins && now->ends; /* the sum is where the first of them is */
    char          *sum  = only ? NULL : now->sum;
    musec_status   st   = MUSEC_OK;

    for (int r = 0; r < now->n; r++) {
        char      *from  = r == c->rank ? p->data : *inbox;
        const bool adds  = r > 0 || !now->begins;
        const bool lands = now->ends && r == now->n - 1 && r == c->rank; /* where it is wanted */
        if (r != c->rank) *inbox += bytes_of(p);
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
    if (now->ends) TRY(copy(e, t, p, sum, p->data));
    if (!only) now->sum += bytes_of(p);
done:
    return st;
}

/* Takes the oldest bucket that is on its way; waits for it. */
static musec_status take_bucket(ms_error *e, ms_train *t)
{
    ms_comm       *c   = ms_owners_of(t);
    round_of_sums *r   = &t->sums->now;
    bucket         one = r->ways[0];
    musec_status   st  = MUSEC_OK;

    TRY(ms_comm_check(e, c, ms_async_wait(t->async, one.ticket)));
    memmove(r->ways, r->ways + 1, --r->n_ways * sizeof *r->ways);
    for (size_t i = one.first; i < one.end && t->cfg.deterministic; i++)
        if (t->grad_pieces[i].owner == c->rank)
            TRY(add_piece(e, t, &t->grad_pieces[i], &one.inbox));
    if (r->n_ways == 0) t->sums->used = 0;
done:
    return st;
}

/* ---- a round --------------------------------------------------------------------------------- */

void ms_sums_begin(ms_train *t, int64_t first, int64_t micro_batches)
{
    const ms_comm *c    = ms_comm_of(&t->setup);
    const int64_t  mine = first + c->rank; /* the micro-batch of this rank, if there is one */
    round_of_sums *r    = &t->sums->now;

    *r = (round_of_sums){ .n      = (int)ms_min_i64(c->size, micro_batches - first),
                          .begins = first == 0,
                          .ends   = first + c->size >= micro_batches,
                          .sum    = t->sums->memory };
    if (t->cfg.deterministic) return;
    /* What is accumulated goes when this rank has had its last micro-batch, or has none.  For
     * others that is another round: their buckets are the same. */
    r->n    = c->size;
    r->idle = mine + c->size < micro_batches || (mine >= micro_batches && first > 0);
}

/* Sends what is complete of the pieces up to `n` and has a place, and takes what has come. */
static musec_status move_on(ms_error *e, ms_train *t, size_t n)
{
    ms_sums       *s  = t->sums;
    round_of_sums *r  = &s->now;
    musec_status   st = MUSEC_OK;

    while (r->n_ways > 0 && ms_async_is_done(t->async, r->ways[0].ticket))
        TRY(take_bucket(e, t));
    while (!r->idle && r->next < n && r->n_ways < ON_THE_WAY) {
        size_t        end;
        const int64_t bytes = choose_bucket(t, &end);
        if (end > n || (r->n_ways > 0 && s->used + bytes > s->capacity)) break;
        TRY(send_bucket(e, t, end, bytes));
    }
done:
    return st;
}

musec_status ms_sums_ready(ms_error *e, ms_train *t, size_t n)
{
    return move_on(e, t, t->pieces_before[n]);
}

musec_status ms_sums_end(ms_error *e, ms_train *t)
{
    round_of_sums *r  = &t->sums->now;
    musec_status   st = MUSEC_OK;

    TRY(move_on(e, t, t->n_pieces));
    while (r->n_ways > 0) {
        TRY(take_bucket(e, t));
        TRY(move_on(e, t, t->n_pieces));
    }
    if (t->cfg.deterministic && !r->ends) TRY(ms_train_check(e, t->ctx, ms_gpt_zero_grad(t->gpt)));
done:
    return st;
}
