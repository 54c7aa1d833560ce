/* workers.c - the threads of a CPU context.
 *
 * One word, `state`, says whether a loop is open, which one it is, and how many workers are inside:
 *
 *     generation << 17 | open << 16 | workers inside
 *
 * A worker enters by adding one to an open state (compare and swap), takes tasks until none is
 * left, and leaves by subtracting one.  The caller opens the loop, takes tasks too, closes it, and
 * waits until no worker is inside.  A worker that wakes up late finds the loop closed and does not
 * enter, so the caller may reuse the description of the loop at once.
 *
 * Sleeping is the usual pair of a counter and a condition: the sleeper counts itself, then polls at
 * the state once more; the waker changes the state, then polls at the counter.  All of these are
 * sequentially consistent, so that one of the two sees the other. */
#define _POSIX_C_SOURCE 200809L
#include "device/cpu/workers.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/thread.h"
#include "device/cpu/blas_threads.h"

enum {
    LINE = 64, /* bytes: what two threads write must not share a cache line */
    /* polls of a word in cache before a thread sleeps: 10 to 30 us, and 0.4 to 1 ms */
    MIN_POLLS = 500,
    MAX_POLLS = 20000,
};

#define OPEN       ((uint64_t)1 << 16)
#define INSIDE     (OPEN - 1)
#define GENERATION ((uint64_t)1 << 17)

typedef struct share { /* tasks next .. end - 1 are not taken yet */
    alignas(LINE) atomic_int_fast64_t next;
    int64_t end;
} share;

typedef struct worker {
    ms_workers *pool;
    pthread_t   thread;
    int         index; /* from 1 on; the caller is 0 */
} worker;

/* Polling is fast on idle cores and wasteful on busy ones.  A thread whose polling succeeded polls
 * up to twice as long the next time, one that had to sleep half as long. */
typedef struct poll_limit {
    int limit, polls;
} poll_limit;

struct ms_workers {
    alignas(LINE) atomic_uint_fast64_t state;
    alignas(LINE) atomic_int sleepers; /* workers that wait for `wake` */
    atomic_bool     caller_sleeps, quit;
    pthread_mutex_t lock;
    pthread_cond_t  wake, left;
    /* the loop at hand */
    ms_worker_task *run;
    void           *arg;
    poll_limit      polling; /* the caller's */
    share          *shares;  /* one for each thread */
    worker         *workers;
    int             threads, started; /* with the caller; workers that run */
    bool            was_started;
};

/* ---- waiting --------------------------------------------------------------------------------- */

static void relax(void) /* tells the core that this loop waits */
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ volatile("yield");
#endif
}

static void begin_polling(poll_limit *p)
{
    if (p->limit == 0) p->limit = MAX_POLLS;
    p->polls = 0;
}

/* Called between two polls; false: it is time to sleep. */
static bool keep_polling(poll_limit *p)
{
    relax();
    if (++p->polls < p->limit) return true;
    p->limit = p->limit / 2 > MIN_POLLS ? p->limit / 2 : MIN_POLLS;
    return false;
}

static void end_polling(poll_limit *p) /* it succeeded */
{
    p->limit = 2 * p->limit < MAX_POLLS ? 2 * p->limit : MAX_POLLS;
}

static bool has_loop(uint64_t state, uint64_t seen)
{
    return (state & OPEN) != 0 && state / GENERATION != seen;
}

/* Waits for a loop other than generation `seen`, or for the end.  Returns the state. */
static uint64_t await_loop(ms_workers *p, uint64_t seen, poll_limit *polling)
{
    uint64_t state = 0;

    begin_polling(polling);
    do {
        state = atomic_load(&p->state);
        if (!has_loop(state, seen) && !atomic_load(&p->quit)) continue;
        end_polling(polling);
        return state;
    } while (keep_polling(polling));
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_loop(state = atomic_load(&p->state), seen) && !atomic_load(&p->quit))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
    return state;
}

/* Waits until no worker is inside the loop, which is closed. */
static void await_workers(ms_workers *p)
{
    begin_polling(&p->polling);
    do {
        if ((atomic_load(&p->state) & INSIDE) != 0) continue;
        end_polling(&p->polling);
        return;
    } while (keep_polling(&p->polling));
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, true);
    while ((atomic_load(&p->state) & INSIDE) != 0)
        pthread_cond_wait(&p->left, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

/* ---- work ------------------------------------------------------------------------------------ */

/* Takes the tasks of the thread's own share, then those left of the others'. */
static void take_tasks(ms_workers *p, int thread)
{
    for (int k = 0; k < p->threads; k++) {
        share  *s = &p->shares[(thread + k) % p->threads];
        int64_t task;
        while ((task = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end)
            p->run(p->arg, task, thread);
    }
}

static bool enter(ms_workers *p, uint64_t state, uint64_t seen)
{
    while (has_loop(state, seen))
        if (atomic_compare_exchange_weak(&p->state, &state, state + 1)) return true;
    return false;
}

static void leave(ms_workers *p)
{
    const uint64_t before = atomic_fetch_sub(&p->state, 1);
    if ((before & OPEN) != 0 || (before & INSIDE) != 1 || !atomic_load(&p->caller_sleeps)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->left);
    pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg)
{
    const worker *w       = arg;
    ms_workers   *p       = w->pool;
    uint64_t      seen    = 0;
    poll_limit    polling = { 0 };

    ms_blas_one_thread_here();
    for (;;) {
        const uint64_t state = await_loop(p, seen, &polling);
        if (atomic_load(&p->quit)) return NULL;
        if (enter(p, state, seen)) {
            take_tasks(p, w->index);
            leave(p);
        }
        seen = state / GENERATION;
    }
}

static void start_workers(ms_workers *p)
{
    p->was_started = true;
    for (int i = 1; i < p->threads; i++) {
        worker *w = &p->workers[p->started];
        *w        = (worker){ .pool = p, .index = i };
        if (ms_thread_start(&w->thread, work, w) != 0) return;
        p->started++;
    }
}

/* Wakes up to one worker for each task but one, which the caller begins with. */
static void wake_workers(ms_workers *p, int64_t tasks)
{
    int n = atomic_load(&p->sleepers);
    if (n == 0) return;
    if (n > tasks - 1) n = (int)(tasks - 1);
    pthread_mutex_lock(&p->lock); /* after this, all that were counted do sleep */
    pthread_mutex_unlock(&p->lock);
    for (; n > 0; n--)
        pthread_cond_signal(&p->wake);
}

void ms_workers_run(ms_workers *p, int64_t tasks, ms_worker_task *run, void *arg)
{
    if (p->threads > 1 && tasks > 1 && !p->was_started) start_workers(p);
    if (tasks <= 1 || p->started == 0) {
        for (int64_t task = 0; task < tasks; task++)
            run(arg, task, 0);
        return;
    }
    p->run = run;
    p->arg = arg;
    for (int i = 0; i < p->threads; i++) {
        const int64_t each = tasks / p->threads, more = tasks % p->threads;
        atomic_store_explicit(&p->shares[i].next, i * each + (i < more ? i : more),
                              memory_order_relaxed);
        p->shares[i].end = (i + 1) * each + (i + 1 < more ? i + 1 : more);
    }
    atomic_fetch_add(&p->state, GENERATION + OPEN);
    wake_workers(p, tasks);
    take_tasks(p, 0);
    atomic_fetch_sub(&p->state, OPEN);
    await_workers(p);
}

/* ---- the pool -------------------------------------------------------------------------------- */

int ms_workers_threads(const ms_workers *p) { return p->threads; }

ms_workers *ms_workers_create(int threads)
{
    const size_t n = (size_t)(threads < 1 ? 1 : threads);
    ms_workers  *p = aligned_alloc(LINE, (sizeof *p + LINE - 1) / LINE * LINE);
    if (p == NULL) return NULL;
    *p = (ms_workers){ .threads = (int)n,
                       .shares  = aligned_alloc(LINE, n * sizeof *p->shares),
                       .workers = calloc(n, sizeof *p->workers) };
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->left, NULL);
    if (p->shares != NULL && p->workers != NULL) return p;
    ms_workers_destroy(p);
    return NULL;
}

void ms_workers_destroy(ms_workers *p)
{
    if (p == NULL) return;
    atomic_store(&p->quit, true);
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->left);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p->shares);
    free(p);
}
