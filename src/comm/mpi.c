/* mpi.c - the ranks of an MPI job.
 *
 * MPI is called through the table of libmusec_mpi.so (plugin/mpi_plugin.h), which is looked for
 * beside the program, where `make install` puts it, and by the dynamic loader.
 *
 * No call blocks inside MPI: all are begun, and then tested until they are done, with longer and
 * longer pauses, which leaves the cores to other ranks, and to this one where it computes meanwhile
 * (async.h).  A mutex is held for each call, so that MPI needs to allow no more than calls from one
 * thread at a time, and the thread that watches over the job (below) gets its turn.
 *
 * Every rank sends a beat to the next one, in a ring, from a thread of its own that does nothing
 * else: it beats while the rank computes, and no longer when it has died or was stopped.  A rank
 * that hears no beat for MS_BEAT_LIMIT of its own pauses ends the job.  Pauses are counted, not
 * seconds: a whole job that was suspended for an hour goes on.
 *
 * To end the job a rank sends its reason to rank 0, which tells it to its user and calls MPI_Abort;
 * so there is one reason, however many ranks have one.  If that does not come to pass, since rank 0
 * is who died or stopped, the rank does it itself.  A rank 0 that goes on after it was stopped
 * leaves it to those who waited for it. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/plugin/mpi_plugin.h"
#include "core/clock.h"
#include "core/library.h"
#include "core/size.h"
#include "core/text.h"
#include "core/thread.h"

enum {
    WINDOW    = 32, /* calls begun at a time */
    SPIN_MS   = 20, /* of tests without a pause, which let others run */
    MAX_PAUSE = 100 /* us; MPI moves large messages on piece by piece, while it is called */
};

#define CHUNK ((int64_t)1 << 26) /* bytes of one call: counts of MPI are ints */

enum { TAG_DATA, TAG_BEAT, TAG_REASON };

typedef struct mpi_comm {
    ms_comm              base;
    const ms_mpi_plugin *p;
    void                *library;
    ms_comm_setup        setup;
    pthread_mutex_t      lock; /* on every call of p */
    pthread_t            watch;
    bool                 watched;    /* that thread runs */
    bool                 takes_gpus; /* MPI reads and writes memory of GPUs by itself */
    int                  end[2];     /* a pipe: closed for writing when the job has ended well */
    atomic_bool          ending;
} mpi_comm;

/* ---- the library ----------------------------------------------------------------------------- */

/* The directory of the program with its final '/', or "". */
static void program_directory(char *out, size_t bytes)
{
    const ssize_t n    = readlink("/proc/self/exe", out, bytes - 1);
    char         *last = NULL;
    out[n > 0 ? n : 0] = '\0';
    last               = strrchr(out, '/');
    if (last != NULL) last[1] = '\0';
}

/* What the loader says has no code but words.  Is something that the library needs not installed,
 * or another version of it? */
static bool is_missing(const char *said, const char *path)
{
    const bool itself = strncmp(said, path, strlen(path)) == 0; /* which is there */
    return (!itself && strstr(said, strerror(ENOENT)) != NULL) ||
           strstr(said, "undefined symbol") != NULL || strstr(said, "not found") != NULL;
}

/* Opens libmusec_mpi.so; its MPI opens libraries of its own, which look for MPI's symbols among
 * those of the whole process. */
static musec_status open_library(ms_error *e, void **library, const ms_mpi_plugin **out)
{
    static const char *const places[]   = { "", "../", "../lib/musec/", MS_PLUGIN_DIR };
    const ms_mpi_plugin *(*table)(void) = NULL;
    char        base[1024], path[sizeof base + 64], why[512] = "it was not found";
    void       *symbol;
    const char *said;

    program_directory(base, sizeof base);
    *library = NULL;
    for (size_t i = 0; i <= COUNT(places) && *library == NULL; i++) {
        const bool by_loader = i == COUNT(places);
        snprintf(path, sizeof path, "%s%slibmusec_mpi.so", by_loader ? "" : base,
                 by_loader ? "" : places[i]);
        if (!by_loader && access(path, F_OK) != 0) continue;
        *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (*library != NULL || by_loader || (said = dlerror()) == NULL) continue;
        if (!is_missing(said, path))
            return ms_fail(e, MUSEC_EIO, "%s cannot be opened%s: %s", path,
                           ms_library_is_memory(said, true) ? " for want of memory" : "", said);
        snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, said);
    }
    if (*library == NULL)
        return ms_fail(e, MUSEC_ENOTSUP,
                       "libmusec_mpi.so cannot be opened (%s): it is built where an MPI is "
                       "installed (Debian: libopenmpi-dev)",
                       why);
    symbol = dlsym(*library, MS_MPI_PLUGIN_SYMBOL);
    memcpy(&table, &symbol, sizeof table);
    *out = symbol != NULL ? table() : NULL;
    if (*out != NULL && (*out)->version == MS_MPI_PLUGIN_VERSION) return MUSEC_OK;
    dlclose(*library);
    *library = NULL;
    return ms_fail(e, MUSEC_ENOTSUP,
                   "libmusec_mpi.so is of another version of musec: build it again");
}

/* Asks the open MPI whether it is CUDA-aware, by the functions that Open MPI or MPICH, and MPIs
 * derived from them, have for that; one that has neither is not. */
static bool takes_gpu_memory(void)
{
    enum { CUDA = 0 }; /* MPIX_GPU_SUPPORT_CUDA */
    void *const all           = dlopen(NULL, RTLD_NOW);
    void *const open_mpi      = all != NULL ? dlsym(all, "MPIX_Query_cuda_support") : NULL;
    void *const mpich         = all != NULL ? dlsym(all, "MPIX_GPU_query_support") : NULL;
    int (*ask)(void)          = NULL;
    int (*ask_of)(int, int *) = NULL;
    int takes                 = 0;

    memcpy(&ask, &open_mpi, sizeof ask);
    memcpy(&ask_of, &mpich, sizeof ask_of);
    if (ask != NULL) return ask() != 0;
    return ask_of != NULL && ask_of(CUDA, &takes) == 0 && takes != 0;
}

musec_status ms_comm_mpi_describe(ms_error *e, char *text, size_t bytes, bool *there)
{
    const ms_mpi_plugin *p       = NULL;
    void                *library = NULL;
    ms_error             absent  = { "" };
    const musec_status   st      = open_library(&absent, &library, &p);

    *there = st == MUSEC_OK;
    if (st == MUSEC_EIO) return ms_fail(e, st, "%s", absent.text);
    snprintf(text, bytes, "%s", absent.text);
    if (*there) p->describe(text, (int)ms_min_i64((int64_t)bytes, 1 << 20));
    if (*there && takes_gpu_memory()) ms_text_append(text, bytes, "; it takes memory of GPUs");
    return MUSEC_OK; /* it stays open: an MPI that was opened does not like to be closed */
}

/* ---- calls ----------------------------------------------------------------------------------- */

static mpi_comm *of(ms_comm *c) { return (mpi_comm *)c; }

static musec_status check_code(mpi_comm *m, int code, const char *what)
{
    char words[512] = "";
    if (code == 0) return MUSEC_OK;
    m->p->error(code, words, sizeof words);
    return ms_fail(&m->base.error, MUSEC_EDEVICE, "MPI failed to %s: %s", what, words);
}

typedef struct calls { /* begun and not known to be done */
    ms_mpi_request list[WINDOW];
    bool           done[WINDOW];
    int            n;
} calls;

/* Tests all calls once; *left: those that are not done. */
static musec_status test_all(mpi_comm *m, calls *all, const char *what, int *left)
{
    musec_status st = MUSEC_OK;
    *left           = 0;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < all->n && st == MUSEC_OK; i++) {
        int done = 0;
        if (all->done[i]) continue;
        st           = check_code(m, m->p->test(&all->list[i], &done), what);
        all->done[i] = done != 0;
        *left += !done;
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

static musec_status finish_calls(mpi_comm *m, calls *all, const char *what)
{
    const double spun = ms_clock_ms() + SPIN_MS;
    long         us   = 10;
    int          left = 0;
    musec_status st   = MUSEC_OK;

    for (;;) {
        TRY(test_all(m, all, what, &left));
        if (left == 0) break;
        if (!atomic_load(&m->base.in_background) && ms_clock_ms() < spun) {
            (void)sched_yield();
        } else {
            ms_clock_pause_us(us);
            us = us < MAX_PAUSE ? 2 * us : us;
        }
    }
    all->n = 0;
done:
    return st;
}

/* The place of the next call; finishes all that were begun where the window is full. */
static musec_status next_call(mpi_comm *m, calls *all, const char *what, ms_mpi_request **out)
{
    musec_status st = MUSEC_OK;
    if (all->n == WINDOW) TRY(finish_calls(m, all, what));
    all->done[all->n] = false;
    *out              = &all->list[all->n++];
done:
    return st;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* n elements of `each` bytes from `data` on, and what to do with a chunk of them. */
typedef enum work_kind { BROADCAST, SUM_ALL, MAX_ALL, SEND, RECEIVE } work_kind;

typedef struct work {
    work_kind   kind;
    char       *data;
    int64_t     n;
    int64_t     each;
    ms_mpi_type type;
    int         peer;
} work;

static const char *const work_names[] = { "broadcast", "sum", "find a maximum", "send", "receive" };

static int begin(mpi_comm *m, const work *w, char *data, int n, ms_mpi_request *r)
{
    const ms_mpi_plugin *p     = m->p;
    const int            bytes = (int)(n * w->each);
    switch (w->kind) {
    case BROADCAST: return p->broadcast(data, bytes, w->peer, r);
    case SUM_ALL: return p->all_reduce(data, n, w->type, MS_MPI_SUM, r);
    case MAX_ALL: return p->all_reduce(data, n, w->type, MS_MPI_MAX, r);
    case SEND: return p->send(data, bytes, w->peer, TAG_DATA, r);
    default: return p->receive(data, bytes, w->peer, TAG_DATA, r);
    }
}

/* Begins a piece of work, in chunks. */
static musec_status add_work(mpi_comm *m, calls *all, const work *w)
{
    const int64_t most = CHUNK / w->each;
    musec_status  st   = MUSEC_OK;

    for (int64_t at = 0, n; at < w->n; at += n) {
        ms_mpi_request *r = NULL;
        n                 = ms_min_i64(w->n - at, most);
        TRY(next_call(m, all, work_names[w->kind], &r));
        pthread_mutex_lock(&m->lock);
        st = check_code(m, begin(m, w, w->data + at * w->each, (int)n, r), work_names[w->kind]);
        pthread_mutex_unlock(&m->lock);
        if (st != MUSEC_OK) {
            all->n--;
            goto done;
        }
    }
done:
    return st;
}

/* Must data on d go through host memory?  Where MPI takes them as they are, they are there when the
 * work that is queued is done; and what it has brought is there for what is queued next. */
static musec_status is_staged(ms_comm *c, ms_device *d, bool *out)
{
    musec_status st = MUSEC_OK;

    *out = ms_comm_is_apart(d) && !of(c)->takes_gpus;
    if (!ms_comm_is_apart(d) || *out) return MUSEC_OK;
    (void)d->kind->stream(d); /* makes it the current device */
    st = d->ops->sync(d);
    return st == MUSEC_OK ? MUSEC_OK : ms_fail(&c->error, st, "%s", d->error.text);
}

static musec_status mpi_reduce(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    return ms_comm_is_apart(d) ? ms_stage_reduce(c, d, pieces, n)
                               : ms_comm_sum_by_passing(c, pieces, n);
}

static musec_status mpi_gather(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    calls        all    = { .n = 0 };
    bool         staged = false;
    musec_status st     = MUSEC_OK;

    TRY(is_staged(c, d, &staged));
    if (staged) return ms_stage_gather(c, d, pieces, n);
    for (size_t i = 0; i < n; i++)
        TRY(add_work(of(c), &all,
                     &(work){ .kind = BROADCAST,
                              .data = pieces[i].data,
                              .n    = pieces[i].n,
                              .each = (int64_t)ms_dtype_bytes(pieces[i].dtype),
                              .peer = pieces[i].owner }));
    TRY(finish_calls(of(c), &all, "broadcast"));
done:
    return st;
}

/* Two ranks make their common transfers in the order of the list, which is how MPI matches them.  A
 * rank that waits for the first calls of its window waits for others that are at the same or an
 * earlier place of the list, so none waits in a circle. */
static musec_status mpi_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n)
{
    calls        all    = { .n = 0 };
    bool         staged = false;
    musec_status st     = MUSEC_OK;

    TRY(is_staged(c, d, &staged));
    if (staged) return ms_stage_pass(c, d, list, n);
    for (size_t i = 0; i < n; i++) {
        const ms_comm_transfer *t = &list[i];
        if (t->from == t->to || (t->from != c->rank && t->to != c->rank)) continue;
        TRY(add_work(of(c), &all,
                     &(work){ .kind = t->from == c->rank ? SEND : RECEIVE,
                              .data = t->data,
                              .n    = t->bytes,
                              .each = 1,
                              .peer = t->from == c->rank ? t->to : t->from }));
    }
    TRY(finish_calls(of(c), &all, "pass data on"));
done:
    return st;
}

static musec_status one_work(ms_comm *c, const work *w)
{
    calls        all = { .n = 0 };
    musec_status st;
    TRY(add_work(of(c), &all, w));
    TRY(finish_calls(of(c), &all, work_names[w->kind]));
done:
    return st;
}

static musec_status mpi_all_reduce(ms_comm *c, ms_comm_reduction op, double *x, int64_t n)
{
    return one_work(c, &(work){ .kind = op == MS_COMM_SUM ? SUM_ALL : MAX_ALL,
                                .data = (char *)x,
                                .n    = n,
                                .each = sizeof *x,
                                .type = MS_MPI_F64 });
}

static musec_status mpi_broadcast(ms_comm *c, void *data, int64_t bytes, int from)
{
    return one_work(
        c, &(work){ .kind = BROADCAST, .data = data, .n = bytes, .each = 1, .peer = from });
}

static musec_status mpi_barrier(ms_comm *c)
{
    mpi_comm       *m   = of(c);
    calls           all = { .n = 0 };
    ms_mpi_request *r   = NULL;
    musec_status    st;

    TRY(next_call(m, &all, "wait for all ranks", &r));
    pthread_mutex_lock(&m->lock);
    st = check_code(m, m->p->barrier(r), "wait for all ranks");
    pthread_mutex_unlock(&m->lock);
    if (st == MUSEC_OK) TRY(finish_calls(m, &all, "wait for all ranks"));
done:
    return st;
}

/* ---- the end of a job ------------------------------------------------------------------------ */

static void say_and_abort(mpi_comm *m, const char *why)
{
    if (m->setup.on_abort != NULL) m->setup.on_abort(m->setup.arg, why);
    pthread_mutex_lock(&m->lock);
    m->p->abort(1);
    for (;;) /* MPI_Abort ends this process, too, if not at once */
        ms_clock_pause_us(1000L * MS_BEAT_MS);
}

/* Sends the reason to rank 0, and gives it some time to end the job. */
static void ask_rank_0(mpi_comm *m, const char *why)
{
    calls all = { .n = 1 };
    int   left;

    pthread_mutex_lock(&m->lock);
    all.done[0] = m->p->notify(why, (int)strlen(why) + 1, 0, TAG_REASON, &all.list[0]) != 0;
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < MS_BEAT_GRACE; i++) {
        if (test_all(m, &all, "send", &left) != MUSEC_OK) return;
        ms_clock_pause_us(1000L * MS_BEAT_MS);
    }
}

/* Does not return.  The first thread of this process that comes here ends the job. */
static void end_job(mpi_comm *m, const char *why)
{
    ms_error text;

    while (atomic_exchange(&m->ending, true))
        ms_clock_pause_us(1000L * MS_BEAT_MS);
    if (m->base.rank == 0) say_and_abort(m, why);
    ms_error_set(&text, "rank %d: %s", m->base.rank, why);
    ask_rank_0(m, text.text);
    say_and_abort(m, text.text);
}

static void mpi_abort(ms_comm *c, const char *why) { end_job(of(c), why); }

/* Takes the next message of a tag; false: there is none. */
static bool take(mpi_comm *m, int tag, void *data, int bytes)
{
    int from = -1, n = 0;
    pthread_mutex_lock(&m->lock);
    const int code = m->p->take(data, bytes, tag, &from, &n);
    pthread_mutex_unlock(&m->lock);
    return code == 0 && from >= 0;
}

/* Waits for the next beat; false: the job has ended well. */
static bool nap(const mpi_comm *m)
{
    struct pollfd end = { .fd = m->end[0], .events = POLLIN };
    return poll(&end, 1, MS_BEAT_MS) == 0;
}

/* The thread that watches over the job: beats, listens to the rank before, and on rank 0 to the
 * reasons of others. */
static void *watch(void *arg)
{
    mpi_comm  *m      = arg;
    const int  size   = m->base.size;
    const int  before = (m->base.rank + size - 1) % size, after = (m->base.rank + 1) % size;
    const char beat   = 1;
    calls      sent   = { .n = 1, .done = { true } };
    int        silent = 0, left = 0;
    double     last = ms_clock_ms();
    bool       late = false;
    ms_error   reason;
    char       heard;

    do {
        late = ms_clock_ms() - last > MS_BEAT_LATE;
        last = ms_clock_ms();
        (void)test_all(m, &sent, "send", &left);
        if (left == 0) { /* a rank that is stopped takes no beats: they do not pile up */
            pthread_mutex_lock(&m->lock);
            sent.done[0] = m->p->notify(&beat, 1, after, TAG_BEAT, &sent.list[0]) != 0;
            pthread_mutex_unlock(&m->lock);
        }
        silent++;
        while (take(m, TAG_BEAT, &heard, 1))
            silent = 0;
        if (m->base.rank == 0 && take(m, TAG_REASON, reason.text, sizeof reason.text - 1)) {
            reason.text[sizeof reason.text - 1] = '\0';
            for (int i = 0; late && i < 2 * MS_BEAT_GRACE; i++)
                ms_clock_pause_us(1000L * MS_BEAT_MS);
            end_job(m, reason.text);
        }
        if (silent > MS_BEAT_LIMIT) {
            ms_error_set(&reason,
                         "rank %d has not been heard of for %d s: it was stopped or has died",
                         before, MS_BEAT_LIMIT * MS_BEAT_MS / 1000);
            end_job(m, reason.text);
        }
        if (!ms_comm_is_well(&m->base, &reason)) end_job(m, reason.text);
    } while (nap(m));
    return NULL;
}

static void free_comm(mpi_comm *m)
{
    for (size_t i = 0; i < COUNT(m->end); i++)
        if (m->end[i] >= 0) close(m->end[i]);
    ms_comm_forget_device(&m->base);
    pthread_mutex_destroy(&m->base.health_lock);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void mpi_close(ms_comm *c)
{
    mpi_comm *m = of(c);
    char      beat;

    if (m->watched) {
        if (mpi_barrier(c) != MUSEC_OK) end_job(m, c->error.text);
        close(m->end[1]);
        m->end[1] = -1;
        pthread_join(m->watch, NULL);
        (void)mpi_barrier(c); /* now no rank beats any more: takes what was not heard */
        while (take(m, TAG_BEAT, &beat, 1))
            ;
    }
    pthread_mutex_lock(&m->lock);
    (void)m->p->finish();
    pthread_mutex_unlock(&m->lock);
    free_comm(m); /* the library stays open: MPI may have threads and handlers in it */
}

static const ms_comm_ops mpi_ops = {
    .name       = "mpi",
    .reduce     = mpi_reduce,
    .gather     = mpi_gather,
    .pass       = mpi_pass,
    .all_reduce = mpi_all_reduce,
    .broadcast  = mpi_broadcast,
    .barrier    = mpi_barrier,
    .abort      = mpi_abort,
    .close      = mpi_close,
};

/* ---- opening --------------------------------------------------------------------------------- */

/* MPI and the launcher's variables must agree: a process that is not MPI's own becomes a job of
 * one rank, and each of several would believe that it is alone. */
static musec_status check_ranks(ms_error *e, const mpi_comm *m, const ms_ranks *ranks,
                                int serialized)
{
    char version[128] = "";

    if (!serialized)
        return ms_fail(e, MUSEC_ENOTSUP,
                       "this MPI takes calls from one thread alone: musec needs one with "
                       "MPI_THREAD_SERIALIZED");
    if (ranks->launcher == NULL || (ranks->size == m->base.size && ranks->rank == m->base.rank))
        return MUSEC_OK;
    m->p->describe(version, sizeof version);
    return ms_fail(e, MUSEC_EINVAL,
                   "%s has started %d processes, but MPI (%.*s) knows of %d: start them with the "
                   "mpirun of this MPI, or srun --mpi=pmix",
                   ranks->launcher, ranks->size, (int)strcspn(version, ","), version, m->base.size);
}

musec_status ms_comm_open_mpi(ms_error *e, const ms_comm_setup *setup, const ms_ranks *ranks,
                              ms_comm **out)
{
    mpi_comm    *m          = calloc(1, sizeof *m);
    int          serialized = 0, code;
    bool         started    = false;
    musec_status st;

    *out = NULL;
    if (m == NULL) return ms_no_memory(e, "the ranks of a job");
    ms_comm_init(&m->base, &mpi_ops);
    m->base.local_rank = ranks->local_rank;
    m->setup           = *setup;
    m->end[0] = m->end[1] = -1;
    pthread_mutex_init(&m->lock, NULL);
    TRY(open_library(e, &m->library, &m->p));
    code    = m->p->start(&m->base.rank, &m->base.size, &serialized);
    started = true;
    TRY(ms_comm_check(e, &m->base, check_code(m, code, "start")));
    TRY(check_ranks(e, m, ranks, serialized));
    m->takes_gpus = takes_gpu_memory();
    if (m->base.size > 1) {
        if (pipe(m->end) != 0 || ms_thread_start(&m->watch, watch, m) != 0)
            TRY(ms_fail(e, MUSEC_ENOMEM, "no thread can be started to watch over the ranks"));
        m->watched = true;
    }
    *out = &m->base;
    m    = NULL;
done:
    if (m != NULL && started) (void)m->p->finish();
    if (m != NULL) free_comm(m);
    return st;
}
