/* pool.c - commands of this program side by side: see pool.h.
 *
 * Processes, not threads: a job that is killed takes no other with it, and each has its own number
 * of threads.  A job is stopped as a person would stop it, by SIGINT, so that it can write a
 * checkpoint.  On Linux the kernel sends the same signal if this process dies. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "experiment/pool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "core/clock.h"

enum { POLL_MS = 50, AGAIN_MS = 1000, NOT_STARTED = 127 };

typedef struct worker {
    pid_t  pid;    /* 0: there is none */
    int    socket; /* to it */
    bool   busy;
    size_t job; /* index of the one that it makes, if it is busy */
} worker;

typedef struct workers { /* of a pool while it runs */
    const ms_pool *pool;
    ms_job        *jobs;
    size_t         n, first; /* all jobs before `first` are settled */
    worker         slot[MS_POOL_WIDTH];
    int            width, running;
    double retry_at; /* clock: when to offer a slot again to jobs that answered MS_POOL_LATER */
} workers;

/* ---- a worker -------------------------------------------------------------------------------- */

/* Turns this forked process into a worker; does not return.  Until it has a job its output
 * is the pool's: there it, or the dynamic loader, says why it cannot start. */
static void become(int socket, int threads, pid_t parent)
{
    char  text[16], number[16], name[16];
    char *argv[] = { name, number, NULL };

    signal(SIGINT, SIG_DFL); /* until a run catches it there is nothing to save */
    signal(SIGTERM, SIG_DFL);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGINT);
#endif
    if (getppid() != parent) _exit(NOT_STARTED); /* it died before prctl() took effect */
    snprintf(text, sizeof text, "%d", threads);
    setpgid(0, 0); /* Ctrl-C in a terminal reaches the pool alone, which signals each job once */
    socket = dup(socket); /* one that exec leaves open */
    snprintf(number, sizeof number, "%d", socket);
    snprintf(name, sizeof name, "%s", ms_pool_worker);
    if (socket >= 0 && setenv("OMP_NUM_THREADS", text, 1) == 0) execv("/proc/self/exe", argv);
    dprintf(STDERR_FILENO, "musec: a run could not be started: %s\n", strerror(errno));
    _exit(NOT_STARTED);
}

static musec_status open_worker(ms_error *e, worker *w, int threads)
{
    const pid_t self = getpid();
    int         pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return ms_fail(e, MUSEC_EIO, "a run could not be started: %s", strerror(errno));
    *w = (worker){ .pid = fork(), .socket = pair[0] };
    if (w->pid == 0) become(pair[1], threads, self);
    close(pair[1]);
    if (w->pid > 0) {
        setpgid(w->pid, w->pid); /* parent and child both set it, since either may run first */
        return MUSEC_OK;
    }
    close(pair[0]);
    *w = (worker){ 0 };
    return ms_fail(e, MUSEC_EIO, "a run could not be started: %s", strerror(errno));
}

/* Waits for the worker, which is leaving or told to leave by this; returns how it ended. */
static int close_worker(worker *w)
{
    int status = 0;

    if (w->pid == 0) return 0;
    close(w->socket);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {}
    *w = (worker){ 0 };
    return WIFSIGNALED(status) ? MS_POOL_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Whether a worker that makes nothing is still there: it may have been killed meanwhile. */
static bool is_waiting(const worker *w)
{
    struct pollfd one = { .fd = w->socket, .events = POLLIN };
    return w->pid != 0 && poll(&one, 1, 0) == 0;
}

static musec_status start(ms_error *e, worker *w, const ms_job *job, int threads)
{
    musec_status st = MUSEC_OK;

    if (!is_waiting(w)) {
        close_worker(w);
        TRY(open_worker(e, w, threads));
    }
    TRY(ms_pool_send(e, w->socket, job));
    w->busy = true;
done:
    return st;
}

/* ---- the slots ------------------------------------------------------------------------------- */

/* Starts the next job that can start in a free slot. */
static musec_status fill_slot(ms_error *e, workers *w, int slot)
{
    const ms_pool *pool = w->pool;
    musec_status   st   = MUSEC_OK;

    for (size_t i = w->first; i < w->n; i++) {
        ms_pool_answer answer = MS_POOL_START;
        if (w->jobs[i].settled) {
            if (i == w->first) w->first++;
            continue;
        }
        TRY(pool->on_start(e, pool->arg, i, slot, &answer));
        w->jobs[i].settled = answer != MS_POOL_LATER;
        if (answer != MS_POOL_START) continue;
        st                = start(e, &w->slot[slot], &w->jobs[i], pool->threads);
        w->slot[slot].job = i;
        w->running += st == MUSEC_OK;
        if (st != MUSEC_OK) pool->on_end(pool->arg, i); /* releases what on_start acquired */
        return st;
    }
    w->retry_at = ms_clock_ms() + AGAIN_MS; /* every job that is left answered MS_POOL_LATER */
done:
    return st;
}

static musec_status fill_slots(ms_error *e, workers *w)
{
    musec_status st = MUSEC_OK;
    for (int i = 0; i < w->width && w->first < w->n; i++)
        if (!w->slot[i].busy && ms_clock_ms() >= w->retry_at) TRY(fill_slot(e, w, i));
done:
    return st;
}

/* Takes the end of a busy worker's job: its answer, or the end of the worker. */
static void collect(workers *w, worker *from)
{
    const size_t job  = from->job;
    int          code = 0;
    ssize_t      n;

    do
        n = recv(from->socket, &code, sizeof code, 0);
    while (n < 0 && errno == EINTR);
    from->busy = false;
    w->running--;
    if (n != (ssize_t)sizeof code)
        code = close_worker(from);
    else if (code != 0) /* it leaves */
        (void)close_worker(from);
    w->jobs[job].code = code;
    w->pool->on_end(w->pool->arg, job);
}

/* Waits for a moment, or until a job has ended, and takes the ends of those that have. */
static void wait_for_ends(workers *w)
{
    struct pollfd polls[MS_POOL_WIDTH];

    for (int i = 0; i < w->width; i++)
        polls[i] =
            (struct pollfd){ .fd = w->slot[i].busy ? w->slot[i].socket : -1, .events = POLLIN };
    if (poll(polls, (nfds_t)w->width, POLL_MS) <= 0) return;
    for (int i = 0; i < w->width; i++)
        if (polls[i].fd >= 0 && polls[i].revents != 0) collect(w, &w->slot[i]);
}

static bool all_jobs_settled(workers *w)
{
    while (w->first < w->n && w->jobs[w->first].settled)
        w->first++;
    return w->first == w->n;
}

musec_status ms_pool_run(ms_error *e, const ms_pool *pool, ms_job *jobs, size_t n)
{
    workers      w             = { .pool = pool, .jobs = jobs, .n = n };
    bool         asked_to_stop = false;
    musec_status st            = MUSEC_OK;

    w.width = pool->width < MS_POOL_WIDTH ? pool->width : MS_POOL_WIDTH;
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, exit codes would be lost */
    for (size_t i = 0; i < n; i++) {
        jobs[i].code    = -1;
        jobs[i].settled = false;
    }
    while (w.running > 0 || (!all_jobs_settled(&w) && !asked_to_stop && st == MUSEC_OK)) {
        if (pool->stop != NULL && *pool->stop != 0 && !asked_to_stop) {
            asked_to_stop = true;
            for (int i = 0; i < w.width; i++)
                if (w.slot[i].busy) kill(w.slot[i].pid, SIGINT);
        }
        if (!asked_to_stop && st == MUSEC_OK) st = fill_slots(e, &w);
        pool->on_turn(pool->arg);
        wait_for_ends(&w);
    }
    for (int i = 0; i < w.width; i++) /* they leave together */
        if (w.slot[i].pid != 0) shutdown(w.slot[i].socket, SHUT_WR);
    for (int i = 0; i < w.width; i++)
        (void)close_worker(&w.slot[i]);
    return st;
}
