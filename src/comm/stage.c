/* stage.c - pieces in the memory of a GPU, for rows that communicate from host memory.
 *
 * Pieces are cut into parts, which go through page-locked host memory some at a time: those that
 * this rank has to send are downloaded, the row communicates from there, and what has come in is
 * uploaded.  All ranks cut in the same places, so that the row's calls agree; which parts are in
 * host memory at once may differ from rank to rank. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "core/size.h"

enum {
    PART     = 8 << 20,  /* bytes; a multiple of every element */
    CAPACITY = 32 << 20, /* bytes of host memory */
    PARTS    = 256       /* that are in it at a time */
};

typedef enum direction { REDUCE, GATHER, PASS } direction;

typedef struct part {
    char *device; /* where it lies on the GPU */
    int   from, to;
    bool  out, in; /* it is downloaded before, and uploaded after */
} part;

struct ms_stage {
    ms_device       *d;
    char            *host; /* CAPACITY */
    int64_t          used;
    size_t           n;
    part             parts[PARTS];
    ms_comm_piece    pieces[PARTS]; /* the same in host memory, for reduce and gather */
    ms_comm_transfer list[PARTS];   /* for pass */
};

void ms_comm_forget_device(ms_comm *c)
{
    struct ms_stage *s = c->stage;
    if (s == NULL) return;
    s->d->kind->free_host(s->d, s->host);
    free(s);
    c->stage = NULL;
}

static musec_status stage_of(ms_comm *c, ms_device *d, struct ms_stage **out)
{
    void        *host = NULL;
    musec_status st   = MUSEC_OK;

    if (c->stage != NULL && c->stage->d != d) ms_comm_forget_device(c);
    if (c->stage == NULL) {
        st = d->kind->alloc_host(d, CAPACITY, &host);
        if (st != MUSEC_OK) return ms_fail(&c->error, st, "%s", d->error.text);
        c->stage = calloc(1, sizeof *c->stage);
        if (c->stage == NULL) {
            d->kind->free_host(d, host);
            return ms_no_memory(&c->error, "pieces on their way");
        }
        c->stage->d    = d;
        c->stage->host = host;
    }
    *out      = c->stage;
    (*out)->n = 0, (*out)->used = 0;
    return MUSEC_OK;
}

static musec_status check(ms_comm *c, const struct ms_stage *s, musec_status status)
{
    return status == MUSEC_OK ? MUSEC_OK : ms_fail(&c->error, status, "%s", s->d->error.text);
}

static int64_t bytes_of(const ms_comm_piece *p) { return p->n * (int64_t)ms_dtype_bytes(p->dtype); }

/* Communicates the parts that are in host memory. */
static musec_status flush(ms_comm *c, struct ms_stage *s, direction what)
{
    const ms_device_ops *op = s->d->ops;
    musec_status         st = MUSEC_OK;

    for (size_t i = 0; i < s->n; i++)
        if (s->parts[i].out)
            TRY(check(
                c, s,
                op->download(s->d, s->parts[i].device, (size_t)s->list[i].bytes, s->list[i].data)));
    switch (what) {
    case REDUCE: TRY(c->ops->reduce(c, NULL, s->pieces, s->n)); break;
    case GATHER: TRY(c->ops->gather(c, NULL, s->pieces, s->n)); break;
    default: TRY(c->ops->pass(c, NULL, s->list, s->n)); break;
    }
    for (size_t i = 0; i < s->n; i++)
        if (s->parts[i].in)
            TRY(check(
                c, s,
                op->upload(s->d, s->list[i].data, (size_t)s->list[i].bytes, s->parts[i].device)));
    s->n    = 0;
    s->used = 0;
done:
    return st;
}

/* Adds a piece, in parts; `piece` says its dtype, and is NULL for transfers. */
static musec_status add(ms_comm *c, struct ms_stage *s, direction what, part one,
                        const ms_comm_piece *piece, int64_t bytes)
{
    const int64_t each = piece != NULL ? (int64_t)ms_dtype_bytes(piece->dtype) : 1;
    musec_status  st   = MUSEC_OK;

    for (int64_t at = 0, n; at < bytes; at += n) {
        n = ms_min_i64(bytes - at, PART);
        if (s->n == PARTS || s->used + n > CAPACITY) TRY(flush(c, s, what));
        char *host     = s->host + s->used;
        s->list[s->n]  = (ms_comm_transfer){ host, n, one.from, one.to };
        s->parts[s->n] = one;
        if (piece != NULL)
            s->pieces[s->n] = (ms_comm_piece){ host, n / each, piece->dtype, piece->owner };
        s->parts[s->n++].device = one.device + at;
        s->used += (n + 63) / 64 * 64;
    }
done:
    return st;
}

/* A sum takes what every rank has to the owner, and a gather what the owner has to all others. */
static musec_status bring_pieces(ms_comm *c, ms_device *d, direction what,
                                 const ms_comm_piece *pieces, size_t n)
{
    struct ms_stage *s;
    musec_status     st;

    TRY(stage_of(c, d, &s));
    for (size_t i = 0; i < n; i++) {
        const bool mine = pieces[i].owner == c->rank, sum = what == REDUCE;
        const part one = { .device = pieces[i].data, .out = sum || mine, .in = sum ? mine : !mine };
        TRY(add(c, s, what, one, &pieces[i], bytes_of(&pieces[i])));
    }
    TRY(flush(c, s, what));
done:
    return st;
}

musec_status ms_stage_reduce(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    return bring_pieces(c, d, REDUCE, pieces, n);
}

musec_status ms_stage_gather(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    return bring_pieces(c, d, GATHER, pieces, n);
}

musec_status ms_stage_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n)
{
    struct ms_stage *s;
    musec_status     st;

    TRY(stage_of(c, d, &s));
    for (size_t i = 0; i < n; i++) {
        const ms_comm_transfer *t   = &list[i];
        const part              one = { .device = t->data,
                                        .from   = t->from,
                                        .to     = t->to,
                                        .out    = t->from == c->rank,
                                        .in     = t->to == c->rank };
        if (t->from != t->to && (one.out || one.in)) TRY(add(c, s, PASS, one, NULL, t->bytes));
    }
    TRY(flush(c, s, PASS));
done:
    return st;
}
