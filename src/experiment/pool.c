/* pool.c - runs of this program side by side.
 *
 * Processes, not threads: a run that is killed takes no other with it, and each has its own number
 * of threads.  A job is stopped as a person would stop it, by SIGINT, so that it can write a
 * checkpoint.  On Linux the kernel sends the same signal if this process dies. */
#define _XOPEN_SOURCE 700
#include "experiment/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "core/clock.h"

enum { MAX_ARGS = 64, POLL_MS = 50, AGAIN_MS = 1000, NOT_STARTED = 127 };

typedef struct workers { /* the processes of a pool while it runs */
    const ms_pool *pool;
    ms_job        *jobs;
    size_t         n, first; /* all jobs before `first` are settled */
    pid_t          pids[MS_POOL_WIDTH];
    size_t         job_of_slot[MS_POOL_WIDTH]; /* index of the job whose process is in the slot */
    int            width, running;
    double retry_at; /* clock: when to offer a slot again to jobs that answered MS_POOL_LATER */
} workers;

/* ---- a process ------------------------------------------------------------------------------- */

/* Turns this forked process into the job; does not return. */
static void become(const ms_job *job, int threads, pid_t parent)
{
    char  text[16];
    char  name[]         = "musec";
    char *argv[MAX_ARGS] = { name };
    int   n              = 0;

    signal(SIGINT, SIG_DFL); /* until the run catches it there is nothing to save */
    signal(SIGTERM, SIG_DFL);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGINT);
#endif
    if (getppid() != parent) _exit(NOT_STARTED); /* it died before prctl() took effect */
    while (n + 2 < MAX_ARGS && job->args[n] != NULL)
        n++;
    memcpy(&argv[1], job->args, (size_t)n * sizeof *argv); /* exec does not change them */
    snprintf(text, sizeof text, "%d", threads);
    setenv("OMP_NUM_THREADS", text, 1);
    setpgid(0, 0); /* Ctrl-C in a terminal reaches the pool alone, which signals each job once */
    if (dup2(job->output, STDOUT_FILENO) >= 0 && dup2(job->output, STDERR_FILENO) >= 0)
        execv("/proc/self/exe", argv);
    _exit(NOT_STARTED);
}

static musec_status start(ms_error *e, const ms_job *job, int threads, pid_t *pid)
{
    const pid_t self = getpid();

    *pid = fork();
    if (*pid == 0) become(job, threads, self);
    if (*pid > 0)
        setpgid(*pid, *pid); /* parent and child both set it, since either may run first */
    if (*pid < 0) {
        *pid = 0;
        return ms_fail(e, MUSEC_EIO, "a run could not be started: %s", strerror(errno));
    }
    return MUSEC_OK;
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
        st                   = start(e, &w->jobs[i], pool->threads, &w->pids[slot]);
        w->job_of_slot[slot] = i;
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
        if (w->pids[i] == 0 && ms_clock_ms() >= w->retry_at) TRY(fill_slot(e, w, i));
done:
    return st;
}

/* Collects one process that has ended; returns false if there is none. */
static bool collect(workers *w)
{
    int         status = 0;
    const pid_t pid    = waitpid(-1, &status, WNOHANG);
    for (int i = 0; pid > 0 && i < w->width; i++) {
        if (w->pids[i] != pid) continue;
        w->pids[i] = 0;
        w->running--;
        w->jobs[w->job_of_slot[i]].code =
            WIFSIGNALED(status) ? MS_POOL_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
        w->pool->on_end(w->pool->arg, w->job_of_slot[i]);
        return true;
    }
    return false;
}

static bool all_jobs_settled(workers *w)
{
    while (w->first < w->n && w->jobs[w->first].settled)
        w->first++;
    return w->first == w->n;
}

static void pause_polling(void)
{
    const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
    nanosleep(&pause, NULL);
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
                if (w.pids[i] > 0) kill(w.pids[i], SIGINT);
        }
        if (!asked_to_stop && st == MUSEC_OK) st = fill_slots(e, &w);
        pool->on_turn(pool->arg);
        if (!collect(&w)) pause_polling();
    }
    return st;
}
