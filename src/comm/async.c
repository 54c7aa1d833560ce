/* async.c - see async.h.
 *
 * The thread has all cores when the caller waits for it, and takes as little of them as it can
 * while the caller computes: rows that ask again and again whether a message has arrived make
 * pauses then (ms_comm.in_background). */
#include "comm/async.h"

#include <stdlib.h>
#include <string.h>

#include "core/size.h"
#include "core/thread.h"

enum { JOBS = 64 }; /* begun and not done; who begins more waits */

typedef enum job_kind { PASS, REDUCE, GATHER } job_kind;

typedef struct job {
    job_kind kind;
    void    *list;
    size_t   n, bytes; /* of the list; bytes: that there is memory for */
} job;

struct ms_async {
    ms_comm        *c;
    ms_device      *d;
    atomic_bool    *in_background; /* of the row that makes the calls */
    bool            threaded;
    pthread_t       thread;
    pthread_mutex_t lock; /* on all below */
    pthread_cond_t  changed;
    job             jobs[JOBS]; /* number i at i mod JOBS */
    int64_t         begun, done;
    int             waiting; /* who waits for a call */
    bool            ends;
    musec_status    st; /* of the first call that failed */
};

static musec_status make(ms_async *a, job_kind kind, const void *list, size_t n)
{
    const ms_comm_ops *op = a->c->ops;
    switch (kind) {
    case PASS: return op->pass(a->c, a->d, list, n);
    case REDUCE: return op->reduce(a->c, a->d, list, n);
    default: return op->gather(a->c, a->d, list, n);
    }
}

static void *work(void *arg)
{
    ms_async *a = arg;

    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (a->done == a->begun && !a->ends)
            pthread_cond_wait(&a->changed, &a->lock);
        if (a->done == a->begun) break;
        const job         *next = &a->jobs[a->done % JOBS];
        const musec_status was  = a->st;
        atomic_store(a->in_background, a->waiting == 0);
        pthread_mutex_unlock(&a->lock);
        const musec_status st = was == MUSEC_OK ? make(a, next->kind, next->list, next->n) : was;
        pthread_mutex_lock(&a->lock);
        atomic_store(a->in_background, false);
        a->st = st;
        a->done++;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

musec_status ms_async_create(ms_error *e, ms_comm *c, ms_device *d, ms_async **out)
{
    ms_async *a = calloc(1, sizeof *a);

    *out = NULL;
    if (a == NULL) return ms_no_memory(e, "what ranks send while they compute");
    a->c             = c;
    a->d             = d;
    a->in_background = c->below != NULL ? &c->below->in_background : &c->in_background;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    *out = a;
    if (c->size == 1 || ms_comm_is_apart(d)) return MUSEC_OK;
    if (ms_thread_start(&a->thread, work, a) != 0) {
        ms_async_destroy(a);
        *out = NULL;
        return ms_fail(e, MUSEC_ENOMEM, "no thread can be started for what ranks send");
    }
    a->threaded = true;
    return MUSEC_OK;
}

void ms_async_destroy(ms_async *a)
{
    if (a == NULL) return;
    if (a->threaded) {
        pthread_mutex_lock(&a->lock);
        a->ends = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    for (size_t i = 0; i < JOBS; i++)
        free(a->jobs[i].list);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

bool ms_async_overlaps(const ms_async *a) { return a->threaded; }

/* ---- calls ----------------------------------------------------------------------------------- */

/* Waits until `n` calls are done; the lock is held. */
static void wait_for(ms_async *a, int64_t n)
{
    if (a->done >= n) return;
    a->waiting++;
    atomic_store(a->in_background, false);
    while (a->done < n)
        pthread_cond_wait(&a->changed, &a->lock);
    a->waiting--;
    atomic_store(a->in_background, a->done < a->begun);
}

/* Copies a list into the place of the next job; the lock is held. */
static musec_status add_job(ms_async *a, job_kind kind, const void *list, size_t n, size_t bytes)
{
    job *next = &a->jobs[a->begun % JOBS];

    if (bytes > next->bytes || next->list == NULL) {
        void *grown = realloc(next->list, bytes + 1);
        if (grown == NULL) return ms_no_memory(&a->c->error, "what ranks send while they compute");
        next->list  = grown;
        next->bytes = bytes;
    }
    if (bytes > 0) memcpy(next->list, list, bytes);
    next->kind = kind;
    next->n    = n;
    a->begun++;
    pthread_cond_broadcast(&a->changed);
    return MUSEC_OK;
}

static musec_status begin(ms_async *a, job_kind kind, const void *list, size_t n, size_t each,
                          int64_t *ticket)
{
    musec_status st = MUSEC_OK;

    if (!a->threaded) {
        *ticket = ++a->begun;
        a->done = a->begun;
        if (a->st == MUSEC_OK) a->st = make(a, kind, list, n);
        return a->st;
    }
    pthread_mutex_lock(&a->lock);
    wait_for(a, a->begun - JOBS + 1);
    st      = a->st != MUSEC_OK ? a->st : add_job(a, kind, list, n, n * each);
    *ticket = a->begun;
    pthread_mutex_unlock(&a->lock);
    return st;
}

musec_status ms_async_pass(ms_async *a, const ms_comm_transfer *list, size_t n, int64_t *ticket)
{
    return begin(a, PASS, list, n, sizeof *list, ticket);
}

musec_status ms_async_reduce(ms_async *a, const ms_comm_piece *pieces, size_t n, int64_t *ticket)
{
    return begin(a, REDUCE, pieces, n, sizeof *pieces, ticket);
}

musec_status ms_async_gather(ms_async *a, const ms_comm_piece *pieces, size_t n, int64_t *ticket)
{
    return begin(a, GATHER, pieces, n, sizeof *pieces, ticket);
}

bool ms_async_is_done(ms_async *a, int64_t ticket)
{
    bool done;
    pthread_mutex_lock(&a->lock);
    done = a->done >= ticket;
    pthread_mutex_unlock(&a->lock);
    return done;
}

musec_status ms_async_wait(ms_async *a, int64_t ticket)
{
    musec_status st;
    pthread_mutex_lock(&a->lock);
    wait_for(a, ticket);
    st = a->st;
    pthread_mutex_unlock(&a->lock);
    return st;
}
