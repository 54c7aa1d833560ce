/* sum.c - sums over ranks for rows that pass data from rank to rank: every rank sends what it has
 * of a piece to the owner, who adds it up in the order of ranks, itself first.  Where pieces are
 * dealt evenly, that sends and adds as little as any way does.
 *
 * Pieces are worked through in windows of so many bytes that what comes in at a time is bounded,
 * whoever owns them. */
#include <stdlib.h>

#include "comm/comm.h"
#include "core/grow.h"
#include "core/size.h"

enum {
    INCOMING = 64 << 20, /* bytes that come in at a time, if */
    WINDOW   = 1 << 16,  /* a window has no less than this */
    PARTS    = 1 << 12,  /* of pieces, in a window */
    ALIGN    = 64
};

typedef struct sums {
    ms_comm          *c;
    int64_t           window, used; /* bytes */
    ms_comm_piece     parts[PARTS];
    size_t            n_parts;
    char             *inbox;
    ms_comm_transfer *list;
    size_t            n_list, capacity;
} sums;

static int64_t bytes_of(const ms_comm_piece *p) { return p->n * (int64_t)ms_dtype_bytes(p->dtype); }

static int64_t aligned(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static musec_status list_transfer(sums *s, void *data, int64_t bytes, int from, int to)
{
    ms_comm_transfer *grown = ms_grow(s->list, s->n_list, &s->capacity, sizeof *grown);
    if (grown == NULL) return ms_no_memory(&s->c->error, "the sums of ranks");
    s->list              = grown;
    s->list[s->n_list++] = (ms_comm_transfer){ data, bytes, from, to };
    return MUSEC_OK;
}

static void add(musec_dtype dtype, void *x, const void *y, int64_t n)
{
    for (int64_t i = 0; dtype == MUSEC_F32 && i < n; i++)
        ((float *)x)[i] += ((const float *)y)[i];
    for (int64_t i = 0; dtype == MUSEC_F64 && i < n; i++)
        ((double *)x)[i] += ((const double *)y)[i];
}

/* Sums the parts of a window. */
static musec_status flush(sums *s)
{
    ms_comm     *c  = s->c;
    char        *at = s->inbox;
    musec_status st = MUSEC_OK;

    s->n_list = 0;
    for (size_t i = 0; i < s->n_parts; i++) {
        const ms_comm_piece *p = &s->parts[i];
        if (p->owner != c->rank) TRY(list_transfer(s, p->data, bytes_of(p), c->rank, p->owner));
        for (int r = 0; p->owner == c->rank && r < c->size; r++) {
            if (r == c->rank) continue;
            TRY(list_transfer(s, at, bytes_of(p), r, c->rank));
            at += aligned(bytes_of(p));
        }
    }
    TRY(c->ops->pass(c, NULL, s->list, s->n_list));
    at = s->inbox;
    for (size_t i = 0; i < s->n_parts; i++) {
        const ms_comm_piece *p = &s->parts[i];
        for (int r = 1; p->owner == c->rank && r < c->size; r++) {
            add(p->dtype, p->data, at, p->n);
            at += aligned(bytes_of(p));
        }
    }
    s->n_parts = 0;
    s->used    = 0;
done:
    return st;
}

musec_status ms_comm_sum_by_passing(ms_comm *c, const ms_comm_piece *pieces, size_t n)
{
    const int64_t others = c->size - 1;
    int64_t       all    = 0;
    sums         *s      = NULL;
    musec_status  st     = MUSEC_OK;

    for (size_t i = 0; i < n; i++) {
        if (pieces[i].dtype != MUSEC_F32 && pieces[i].dtype != MUSEC_F64)
            return ms_fail(&c->error, MUSEC_ENOTSUP, "numbers in %s are not summed over ranks",
                           ms_dtype_name(pieces[i].dtype));
        all += aligned(bytes_of(&pieces[i]));
    }
    if (others == 0) return MUSEC_OK;
    s = calloc(1, sizeof *s);
    if (s == NULL) return ms_no_memory(&c->error, "the sums of ranks");
    s->c      = c;
    s->window = ms_max_i64(ms_min_i64(INCOMING / others / ALIGN * ALIGN, all), WINDOW);
    s->inbox  = calloc((size_t)others, (size_t)(s->window + (int64_t)PARTS * ALIGN));
    if (s->inbox == NULL) TRY(ms_no_memory(&c->error, "the sums of ranks"));
    for (size_t i = 0; i < n; i++) {
        const int64_t each = (int64_t)ms_dtype_bytes(pieces[i].dtype);
        for (int64_t at = 0, part; at < pieces[i].n; at += part) {
            if (s->n_parts == PARTS || s->window - s->used < each) TRY(flush(s));
            part                   = ms_min_i64(pieces[i].n - at, (s->window - s->used) / each);
            s->parts[s->n_parts++] = (ms_comm_piece){ (char *)pieces[i].data + at * each, part,
                                                      pieces[i].dtype, pieces[i].owner };
            s->used += part * each;
        }
    }
    TRY(flush(s));
done:
    free(s->list);
    free(s->inbox);
    free(s);
    return st;
}
