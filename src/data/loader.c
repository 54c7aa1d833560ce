/* loader.c - micro-batches from the pieces of a source, one of them packed ahead.
 *
 * A micro-batch of T tokens is a row x of T+1 of them: inputs x[0..T-1], targets x[1..T].  From
 * position t of the piece p,
 *
 *     keep   x = p[t..t+T], and the next begins at t+T
 *     skip   x is filled with documents: from each start token at or after t, the tokens up to the
 *            next one, but at most max_doc.  The next begins at the start token after the last
 *            document used, however little of that was used
 *
 * In both, a document begins at row 0, at a start token, and max_doc rows after it began.
 *
 * pack() is a function of the position and the numbers asked for alone.  It owns the source and the
 * slot that it fills: the thread calls it while a request is `waiting`, the caller otherwise.  Two
 * slots alternate, so that the batch handed out stays unchanged while the next one is packed.  The
 * result of a request is used only if the same request would be made now; so is a failure, since
 * the same call would fail the same way. */
#define _POSIX_C_SOURCE 200809L
#include "data/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"
#include "core/thread.h"

#define ENDLESS_TRIES 4 /* pieces of an endless source that may fail in a row */

typedef struct slot {
    int32_t *row; /* max_tokens + 1 */
    int32_t *doc; /* max_tokens */
} slot;

typedef struct pack_request {
    ms_position at;
    int64_t     tokens, max_doc;
} pack_request;

typedef struct pack_result {
    musec_status st;
    ms_error     error;
    int64_t      tokens, epoch;
    ms_position  next;
} pack_result;

struct ms_loader {
    ms_loader_config cfg; /* its path is `name` */
    ms_source       *source;
    char            *name;
    ms_position      at; /* of the next micro-batch */
    slot             slots[2];
    int              back; /* the slot that is filled next */

    pthread_t       thread;
    bool            running;
    pthread_mutex_t lock; /* guards what is below */
    pthread_cond_t  changed;
    bool waiting; /* for the result of the request: source and slots[back] are the thread's */
    bool ready;   /* there is a result */
    bool quit;
    pack_request request;
    pack_result  result;
};

/* ---- packing --------------------------------------------------------------------------------- */

static int64_t find_start(const uint16_t *p, int64_t n, int64_t from, int32_t start_id)
{
    while (from < n && p[from] != start_id)
        from++;
    return from;
}

/* Both fill out->row as far as the piece goes, return how many tokens that is, and move *t to where
 * the next micro-batch begins. */
static int64_t fill_keep(const uint16_t *p, int64_t n, const pack_request *j, int64_t *t,
                         int32_t *row)
{
    const int64_t left = n - *t, want = j->tokens + 1, got = left < want ? left : want;

    for (int64_t i = 0; i < got; i++)
        row[i] = p[*t + i];
    *t += got > 0 ? got - 1 : 0; /* the last target is the next input */
    return got;
}

static int64_t fill_skip(const uint16_t *p, int64_t n, const pack_request *j, int32_t start_id,
                         int64_t *t, int32_t *row)
{
    int64_t got = 0, start = find_start(p, n, *t, start_id);

    while (got <= j->tokens && start < n) {
        const int64_t end  = find_start(p, n, start + 1, start_id);
        int64_t       take = end - start;
        if (take > j->max_doc) take = j->max_doc;
        if (take > j->tokens + 1 - got) take = j->tokens + 1 - got;
        for (int64_t i = 0; i < take; i++)
            row[got + i] = p[start + i];
        got += take;
        start = end;
    }
    *t = start;
    return got;
}

static void mark_documents(const int32_t *row, int64_t tokens, int64_t max_doc, int32_t start_id,
                           int32_t *doc)
{
    int64_t first = 0;
    for (int64_t i = 0; i < tokens; i++) {
        if (row[i] == start_id || i - first == max_doc) first = i;
        doc[i] = (int32_t)first;
    }
}

static musec_status too_few(ms_error *e, const ms_loader *l, const pack_request *j, int64_t largest)
{
    if (largest < 1 && !l->cfg.keep_rest)
        return ms_fail(
            e, MUSEC_EFORMAT,
            "%s: no document begins in it (its start token is %ld), or none has a second "
            "token; give other data, or keep text without a beginning",
            l->name, (long)l->cfg.source.start_id);
    if (l->cfg.keep_rest)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: cannot fill a micro-batch of %lld tokens: its largest piece has %lld; "
                       "use smaller micro-batches or more data",
                       l->name, (long long)j->tokens, (long long)largest);
    return ms_fail(
        e, MUSEC_EFORMAT,
        "%s: cannot fill a micro-batch of %lld tokens: its largest piece has %lld in "
        "documents cut to %lld; use smaller micro-batches, longer documents or more data",
        l->name, (long long)j->tokens, (long long)largest, (long long)j->max_doc);
}

/* Fills `out` from the first piece at or after j->at that has enough tokens. */
static musec_status pack(ms_error *e, const ms_loader *l, const pack_request *j, bool once,
                         const slot *out, pack_result *r)
{
    const int64_t pieces = ms_source_pieces(l->source);
    const int64_t tries  = pieces == INT64_MAX ? ENDLESS_TRIES : pieces;
    const int32_t start  = l->cfg.source.start_id;
    ms_position   at     = j->at;
    int64_t       tried  = 0,
            largest      = 0; /* pieces tried from their beginning, and the most that one had */
    musec_status st      = MUSEC_OK;

    r->tokens = 0;
    for (;;) {
        const uint16_t *p = NULL;
        int64_t         n = 0, got, t = at.token;
        if (at.piece == pieces) {
            if (once) break;
            at = (ms_position){ .epoch = at.epoch + 1 };
            continue;
        }
        if (!once && tried == tries) TRY(too_few(e, l, j, largest));
        TRY(ms_source_piece(e, l->source, at.piece, &p, &n));
        got = l->cfg.keep_rest ? fill_keep(p, n, j, &t, out->row)
                               : fill_skip(p, n, j, start, &t, out->row);
        if (got == j->tokens + 1 || (once && got > 1)) {
            mark_documents(out->row, got - 1, j->max_doc, start, out->doc);
            r->tokens = got - 1;
            r->epoch  = at.epoch;
            at.token  = t;
            break;
        }
        if (got - 1 > largest) largest = got - 1;
        if (at.token == 0) tried++;
        at = (ms_position){ .epoch = at.epoch, .piece = at.piece + 1 };
    }
    if (r->tokens == 0) r->epoch = at.epoch;
    r->next = at;
done:
    return st;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *work(void *loader)
{
    ms_loader *l = loader;

    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        pack_request j;
        const slot  *s;
        pack_result  r = { 0 };
        if (!l->waiting) { /* the rest belongs to the caller and must not even be read */
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        j = l->request;
        s = &l->slots[l->back];
        pthread_mutex_unlock(&l->lock);
        r.st = pack(&r.error, l, &j, l->cfg.once, s, &r);
        pthread_mutex_lock(&l->lock);
        l->result  = r;
        l->waiting = false;
        l->ready   = true;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Takes over the source and the back slot, until ask(). */
static void wait_for_thread(ms_loader *l)
{
    pthread_mutex_lock(&l->lock);
    while (l->waiting)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

static void ask(ms_loader *l, const pack_request *j)
{
    pthread_mutex_lock(&l->lock);
    l->request = *j;
    l->waiting = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static musec_status start_thread(ms_error *e, ms_loader *l)
{
    const int why = ms_thread_start(&l->thread, work, l);
    l->running    = why == 0;
    if (why == 0) return MUSEC_OK;
    return ms_fail(e, MUSEC_ENOMEM, "%s: cannot start a thread to read it (%s)", l->name,
                   strerror(why));
}

/* ---- the interface --------------------------------------------------------------------------- */

static musec_status allocate(ms_error *e, ms_loader *l)
{
    size_t bytes = 0;

    if (l->cfg.max_tokens < 1 || l->cfg.max_tokens >= INT32_MAX) /* rows are numbered in int32 */
        return ms_fail(e, MUSEC_EINVAL, "%s: micro-batches of up to %lld tokens: from 1 to %ld",
                       l->name, (long long)l->cfg.max_tokens, (long)INT32_MAX - 1);
    if (!ms_size_stack(1, 1, l->cfg.max_tokens + 1, sizeof(int32_t), &bytes)) bytes = SIZE_MAX;
    for (size_t i = 0; i < COUNT(l->slots); i++) {
        l->slots[i].row = malloc(bytes);
        l->slots[i].doc = malloc(bytes);
        if (l->slots[i].row == NULL || l->slots[i].doc == NULL)
            return ms_fail(e, MUSEC_ENOMEM,
                           "%s: not enough memory for micro-batches of %lld tokens", l->name,
                           (long long)l->cfg.max_tokens);
    }
    return MUSEC_OK;
}

musec_status ms_loader_open(ms_error *e, const ms_loader_config *cfg, ms_loader **out)
{
    const pack_request one = { .tokens = 1, .max_doc = INT64_MAX };
    pack_result        r;
    ms_loader         *l = calloc(1, sizeof *l);
    musec_status       st;

    *out = NULL;
    if (l == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a loader");
    pthread_mutex_init(&l->lock, NULL); /* neither can fail without attributes, on Linux */
    pthread_cond_init(&l->changed, NULL);
    l->cfg = *cfg;
    TRY(ms_source_open(e, &cfg->source, &l->source));
    l->name = strdup(cfg->source.path);
    if (l->name == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", cfg->source.path));
    l->cfg.source.path = l->name;
    TRY(allocate(e, l));
    TRY(pack(e, l, &one, false, &l->slots[0], &r));
    TRY(start_thread(e, l));
    *out = l;
    l    = NULL;
done:
    ms_loader_close(l);
    return st;
}

void ms_loader_close(ms_loader *l)
{
    if (l == NULL) return;
    if (l->running) {
        pthread_mutex_lock(&l->lock);
        l->quit = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    for (size_t i = 0; i < COUNT(l->slots); i++) {
        free(l->slots[i].row);
        free(l->slots[i].doc);
    }
    ms_source_close(l->source);
    free(l->name);
    free(l);
}

static bool same_request(const pack_request *a, const pack_request *b)
{
    return a->at.epoch == b->at.epoch && a->at.piece == b->at.piece && a->at.token == b->at.token &&
           a->tokens == b->tokens && a->max_doc == b->max_doc;
}

musec_status ms_loader_next(ms_error *e, ms_loader *l, int64_t tokens, int64_t max_doc,
                            ms_batch *out)
{
    pack_request j = { l->at, tokens, max_doc };
    const slot  *s = &l->slots[l->back];
    pack_result *r = &l->result;

    *out = (ms_batch){ 0 };
    if (tokens < 1 || tokens > l->cfg.max_tokens)
        return ms_fail(e, MUSEC_EINVAL, "%s: a micro-batch of %lld tokens: from 1 to %lld", l->name,
                       (long long)tokens, (long long)l->cfg.max_tokens);
    if (max_doc < 1)
        return ms_fail(e, MUSEC_EINVAL, "%s: documents of up to %lld tokens: at least 1", l->name,
                       (long long)max_doc);
    wait_for_thread(l);
    if (!l->ready || !same_request(&l->request, &j))
        r->st = pack(&r->error, l, &j, l->cfg.once, s, r);
    l->ready = false; /* used or overwritten */
    if (r->st != MUSEC_OK) {
        if (e != NULL) *e = r->error;
        return r->st;
    }
    *out  = (ms_batch){ s->row, s->row + 1, s->doc, r->tokens, r->epoch };
    l->at = j.at = r->next;
    l->back      = 1 - l->back;
    if (out->tokens > 0) ask(l, &j);
    return MUSEC_OK;
}

ms_position ms_loader_position(const ms_loader *l) { return l->at; }

musec_status ms_loader_seek(ms_error *e, ms_loader *l, ms_position at)
{
    const int64_t   pieces = ms_source_pieces(l->source);
    const uint16_t *p      = NULL;
    int64_t         n      = 0;
    musec_status    st     = MUSEC_OK;

    if (at.epoch < 0 || at.piece < 0 || at.token < 0 || at.piece > pieces ||
        (at.piece == pieces && (!l->cfg.once || at.token > 0)))
        return ms_fail(
            e, MUSEC_EINVAL,
            "%s: has no place at epoch %lld, piece %lld, token %lld: it has %lld pieces; "
            "it is not the data that the place was saved for",
            l->name, (long long)at.epoch, (long long)at.piece, (long long)at.token,
            (long long)pieces);
    wait_for_thread(l);
    if (at.piece < pieces) TRY(ms_source_piece(e, l->source, at.piece, &p, &n));
    if (at.token > n)
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "%s: has no place at token %lld of piece %lld, which has %lld; it is not the "
                    "data that the place was saved for",
                    l->name, (long long)at.token, (long long)at.piece, (long long)n));
    l->at = at;
done:
    return st;
}

const ms_source *ms_loader_source(const ms_loader *l) { return l->source; }

musec_status ms_loader_count(ms_error *e, ms_loader *l, int64_t limit, int64_t *counts, int64_t *n)
{
    const int64_t pieces = ms_source_pieces(l->source);
    int64_t       left   = limit;
    musec_status  st     = MUSEC_OK;

    wait_for_thread(l);
    for (int64_t piece = 0; piece < pieces && left > 0; piece++) {
        const uint16_t *p    = NULL;
        int64_t         have = 0;
        TRY(ms_source_piece(e, l->source, piece, &p, &have));
        if (have > left) have = left;
        for (int64_t i = 0; i < have; i++)
            counts[p[i]]++;
        left -= have;
    }
    *n += limit - left;
done:
    return st;
}

uint64_t ms_loader_bytes(const ms_loader *l)
{
    const uint64_t rows = 2 * COUNT(l->slots) * (uint64_t)l->cfg.max_tokens;
    return rows * sizeof(int32_t) + ms_source_bytes(l->source);
}
