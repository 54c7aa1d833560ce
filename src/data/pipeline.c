/* pipeline.c - a ring of blocks between the thread that reads, those that encode, and the caller.
 *
 *     EMPTY -> (reader fills) -> FULL -> (an encoder takes) -> BUSY -> DONE -> (caller) -> EMPTY
 *
 * Block number s lies in slot s mod n.  The reader fills 0, 1, 2, ...; encoders take the lowest
 * that is FULL; the caller takes 0, 1, 2, ...  So the order is that of the input whichever thread
 * is faster, and a failure is reported after everything before it has been handed out. */
#define _POSIX_C_SOURCE 200809L
#include "data/pipeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/thread.h"
#include "data/bytes.h"

enum {
    BLOCK_BYTES = 1 << 18, /* of input; a longer record has a block of its own */
    BLOCK_MAX   = 1 << 14, /* records */
    KEEP_BYTES  = 1 << 20, /* a buffer that has grown further is not kept */
    WAIT_MS     = 100,
    MAX_THREADS = 512,
};

enum { EMPTY, FULL, BUSY, DONE };

struct ms_pipeline {
    ms_pipeline_config cfg;
    ms_token_block    *blocks;
    size_t             n_blocks;
    ms_record          carried; /* a record that did not fit the block before */
    pthread_t          reader, *encoders;
    int                n_encoders;
    bool               reading, begun;

    pthread_mutex_t lock; /* guards what is below and the states of the blocks */
    pthread_cond_t  changed;
    uint64_t        next_full, next_out; /* blocks that encoders and the caller take next */
    size_t          in_flight;           /* bytes of the blocks that are not EMPTY */
};

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Returns memory for `want` elements with the old contents; NULL without memory. */
static void *grown(void *old, size_t *capacity, size_t want, size_t each)
{
    void *more;
    if (old != NULL && *capacity >= want) return old;
    if (want < 2 * *capacity && *capacity < KEEP_BYTES) want = 2 * *capacity;
    if (want > PTRDIFF_MAX / each) return NULL;
    more = realloc(old, want * each);
    if (more != NULL) *capacity = want;
    return more;
}

static void empty_block(ms_token_block *b)
{
    if (b->raw_capacity > KEEP_BYTES) {
        free(b->raw);
        b->raw          = NULL;
        b->raw_capacity = 0;
    }
    if (b->token_capacity > KEEP_BYTES) {
        free(b->tokens);
        b->tokens         = NULL;
        b->token_capacity = 0;
    }
    b->n = b->n_records = b->bytes = 0;
    b->last                        = false;
    b->st                          = MUSEC_OK;
}

static bool add_record(ms_token_block *b, const ms_record *record)
{
    void *raw = b->raw, *pieces;

    if (record->bytes > 0) raw = grown(raw, &b->raw_capacity, b->bytes + record->bytes, 1);
    if (record->bytes > 0 && raw == NULL) return false;
    b->raw = raw;
    pieces = grown(b->pieces, &b->piece_capacity, b->n_records + 1, sizeof *b->pieces);
    if (pieces == NULL) return false;
    b->pieces                 = pieces;
    b->pieces[b->n_records++] = (ms_piece){ .record = *record, .offset = b->bytes };
    if (record->bytes > 0) memcpy(b->raw + b->bytes, record->data, record->bytes);
    b->bytes += record->bytes;
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Waits, before a long record, until the blocks in flight leave memory for it. */
static void await_budget(ms_pipeline *p, size_t bytes)
{
    const size_t budget = 2 * p->n_blocks * BLOCK_BYTES;

    if (bytes <= BLOCK_BYTES) return;
    pthread_mutex_lock(&p->lock);
    while (p->in_flight > 0 && p->in_flight + bytes > budget && !atomic_load(p->cfg.quit))
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* Fills a block with records.  One that does not fit is carried to the next block: the reader keeps
 * its data until the next call. */
static void fill_block(ms_pipeline *p, ms_token_block *b)
{
    if (!p->begun) {
        b->st    = ms_reader_seek(&b->error, p->cfg.reader, p->cfg.file, p->cfg.record);
        b->last  = b->st != MUSEC_OK;
        p->begun = true;
    }
    while (!b->last && b->bytes < BLOCK_BYTES && b->n_records < BLOCK_MAX) {
        if (p->carried.data == NULL) {
            b->st   = ms_reader_record(&b->error, p->cfg.reader, &p->carried);
            b->last = b->st != MUSEC_OK || p->carried.data == NULL;
            if (b->last) break;
        }
        if (b->bytes > 0 && b->bytes + p->carried.bytes > BLOCK_BYTES) break;
        await_budget(p, p->carried.bytes);
        if (!add_record(b, &p->carried)) {
            b->last = true;
            b->st =
                ms_fail(&b->error, MUSEC_ENOMEM, "%s: not enough memory for %zu bytes of it",
                        ms_reader_file(p->cfg.reader, (size_t)p->carried.file), p->carried.bytes);
            break;
        }
        p->carried.data = NULL;
    }
    for (size_t i = 0; i < b->n_records; i++) /* the buffer no longer moves */
        b->pieces[i].record.data = b->raw != NULL ? b->raw + b->pieces[i].offset : "";
    b->consumed = ms_reader_consumed(p->cfg.reader);
}

static void *read_all(void *arg)
{
    ms_pipeline *p    = arg;
    bool         last = false;

    for (uint64_t s = 0; !last; s++) {
        ms_token_block *b = &p->blocks[s % p->n_blocks];
        pthread_mutex_lock(&p->lock);
        while (b->state != EMPTY && !atomic_load(p->cfg.quit))
            pthread_cond_wait(&p->changed, &p->lock);
        pthread_mutex_unlock(&p->lock);
        if (atomic_load(p->cfg.quit)) break;
        fill_block(p, b);
        last = b->last;
        pthread_mutex_lock(&p->lock);
        b->state = FULL;
        p->in_flight += b->bytes;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static size_t encode_text(const ms_bpe *bpe, ms_bpe_cache *cache, const char *text, size_t bytes,
                          uint16_t *out)
{
    out[0] = bpe != NULL ? MS_BPE_START : MS_BYTES_START;
    if (bpe != NULL) return 1 + ms_bpe_encode(bpe, cache, text, bytes, false, out + 1);
    for (size_t i = 0; i < bytes; i++)
        out[1 + i] = (unsigned char)text[i];
    return 1 + bytes;
}

/* Allocates tokens for every piece at its longest: a document has no more bytes than its record,
 * since JSON writes no character shorter than UTF-8 does. */
static musec_status allocate_tokens(ms_token_block *b)
{
    void *tokens = grown(b->tokens, &b->token_capacity, ms_bpe_max_ids(b->bytes) + 2 * b->n_records,
                         sizeof *b->tokens);
    if (tokens == NULL)
        return ms_fail(&b->error, MUSEC_ENOMEM, "not enough memory for the tokens of %zu bytes",
                       b->bytes);
    b->tokens = tokens;
    return MUSEC_OK;
}

static void encode_block(const ms_pipeline *p, ms_token_block *b, ms_bpe_cache *cache)
{
    size_t       used  = 0;
    ms_error     error = { "" };
    musec_status st    = allocate_tokens(b);

    for (b->n = 0; st == MUSEC_OK && b->n < b->n_records; b->n++) {
        ms_piece   *piece = &b->pieces[b->n];
        const char *text;
        json_t     *root = NULL;
        st =
            ms_record_text(&error, p->cfg.reader, &piece->record, &text, &piece->text_bytes, &root);
        if (st == MUSEC_EFORMAT && p->cfg.skip_bad) {
            piece->bad = true;
            st         = MUSEC_OK;
            continue;
        }
        if (st != MUSEC_OK) {
            b->error = error;
            break;
        }
        piece->tokens = encode_text(p->cfg.bpe, cache, text, piece->text_bytes, b->tokens + used);
        used += piece->tokens;
        json_decref(root);
    }
    if (st == MUSEC_OK) return;
    b->st   = st; /* it precedes a failure of the reader at the end of the block */
    b->last = true;
}

static ms_token_block *take_full(ms_pipeline *p)
{
    ms_token_block *b = NULL;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        ms_token_block *next = &p->blocks[p->next_full % p->n_blocks];
        if (atomic_load(p->cfg.quit)) break;
        if (next->state == FULL) {
            b        = next;
            b->state = BUSY;
            p->next_full++;
            break;
        }
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return b;
}

static void *encode_all(void *arg)
{
    ms_pipeline    *p     = arg;
    ms_bpe_cache   *cache = NULL;
    ms_error        error = { "" };
    musec_status    st    = MUSEC_OK;
    ms_token_block *b;

    if (p->cfg.bpe != NULL) st = ms_bpe_cache_make(&error, p->cfg.bpe, &cache);
    while ((b = take_full(p)) != NULL) {
        if (st == MUSEC_OK) {
            encode_block(p, b, cache);
        } else {
            b->st    = st;
            b->error = error;
            b->last  = true;
        }
        pthread_mutex_lock(&p->lock);
        b->state = DONE;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    ms_bpe_cache_free(cache);
    return NULL;
}

/* ---- for the caller -------------------------------------------------------------------------- */

ms_token_block *ms_pipeline_next(ms_pipeline *p)
{
    ms_token_block *b = &p->blocks[p->next_out % p->n_blocks];
    struct timespec until;
    bool            there;

    clock_gettime(CLOCK_REALTIME, &until); /* the clock of pthread_cond_timedwait */
    until.tv_nsec += WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&p->lock);
    while (b->state != DONE)
        if (pthread_cond_timedwait(&p->changed, &p->lock, &until) != 0) break;
    there = b->state == DONE;
    pthread_mutex_unlock(&p->lock);
    return there ? b : NULL;
}

void ms_pipeline_done(ms_pipeline *p, ms_token_block *block)
{
    const size_t bytes = block->bytes;

    empty_block(block); /* frees what a long record took before the next one comes */
    pthread_mutex_lock(&p->lock);
    block->state = EMPTY;
    p->in_flight -= bytes;
    p->next_out++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static musec_status start_threads(ms_error *e, ms_pipeline *p)
{
    int why    = ms_thread_start(&p->reader, read_all, p);
    p->reading = why == 0;
    while (why == 0 && p->n_encoders < p->cfg.threads) {
        why = ms_thread_start(&p->encoders[p->n_encoders], encode_all, p);
        if (why == 0) p->n_encoders++;
    }
    if (why == 0) return MUSEC_OK;
    return ms_fail(e, MUSEC_ENOMEM, "thread %d of %d cannot be started (%s); take fewer",
                   p->n_encoders + 1, p->cfg.threads, strerror(why));
}

musec_status ms_pipeline_make(ms_error *e, const ms_pipeline_config *cfg, ms_pipeline **out)
{
    ms_pipeline *p;
    musec_status st;

    *out = NULL;
    if (cfg->threads < 1 || cfg->threads > MAX_THREADS)
        return ms_fail(e, MUSEC_EINVAL, "there can be from 1 to %d threads, not %d", MAX_THREADS,
                       cfg->threads);
    json_object_seed(0); /* before several threads would */
    p = calloc(1, sizeof *p);
    if (p == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory to tokenize");
    p->cfg = *cfg;
    pthread_mutex_init(&p->lock, NULL); /* neither can fail without attributes, on Linux */
    pthread_cond_init(&p->changed, NULL);
    p->n_blocks = 2 * (size_t)cfg->threads + 2; /* one for each thread, one waiting for it */
    p->blocks   = calloc(p->n_blocks, sizeof *p->blocks);
    p->encoders = calloc((size_t)cfg->threads, sizeof *p->encoders);
    if (p->blocks == NULL || p->encoders == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory to tokenize"));
    TRY(start_threads(e, p));
    *out = p;
    p    = NULL;
done:
    ms_pipeline_free(p);
    return st;
}

void ms_pipeline_free(ms_pipeline *p)
{
    if (p == NULL) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(p->cfg.quit, true);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->reading) pthread_join(p->reader, NULL);
    for (int i = 0; i < p->n_encoders; i++)
        pthread_join(p->encoders[i], NULL);
    for (size_t i = 0; p->blocks != NULL && i < p->n_blocks; i++) {
        free(p->blocks[i].raw);
        free(p->blocks[i].tokens);
        free(p->blocks[i].pieces);
    }
    free(p->blocks);
    free(p->encoders);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
