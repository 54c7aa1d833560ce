/* pool.c - runs of this program side by side.
 *
 * Processes, not threads: a run that is killed takes no other with it, and each has its own number
 * of threads.  A job is told to stop as a person would, by SIGINT, so that it can write a
 * checkpoint; the kernel tells it if this process is gone without a word. */
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

typedef struct crew {
    const ms_pool *pool;
    ms_job        *jobs;
    size_t         n, first; /* first: those before it are over */
    pid_t          pids[MS_POOL_WIDTH];
    size_t         which[MS_POOL_WIDTH]; /* job of a slot that has a pid */
    int            width, running;
    double         ask_again; /* clock, for those that said later */
} crew;

/* ---- a process ------------------------------------------------------------------------------- */

/* Does not come back. */
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
    if (getppid() != parent) _exit(NOT_STARTED); /* it ended before we could ask to be told */
    while (n + 2 < MAX_ARGS && job->args[n] != NULL)
        n++;
    memcpy(&argv[1], job->args, (size_t)n * sizeof *argv); /* exec does not change them */
    snprintf(text, sizeof text, "%d", threads);
    setenv("OMP_NUM_THREADS", text, 1);
    setpgid(0, 0); /* a terminal's Ctrl-C is for the pool, which tells each job once */
    if (dup2(job->output, STDOUT_FILENO) >= 0 && dup2(job->output, STDERR_FILENO) >= 0)
        execv("/proc/self/exe", argv);
    _exit(NOT_STARTED);
}

static musec_status start(ms_error *e, const ms_job *job, int threads, pid_t *pid)
{
    const pid_t self = getpid();

    *pid = fork();
    if (*pid == 0) become(job, threads, self);
    if (*pid > 0) setpgid(*pid, *pid); /* whoever of the two is first */
    if (*pid < 0) {
        *pid = 0;
        return ms_fail(e, MUSEC_EIO, "a run could not be started: %s", strerror(errno));
    }
    return MUSEC_OK;
}

/* ---- the slots ------------------------------------------------------------------------------- */

/* The next job that can start goes into the slot, if there is one. */
static musec_status fill_slot(ms_error *e, crew *c, int slot)
{
    const ms_pool *pool = c->pool;
    musec_status   st   = MUSEC_OK;

    for (size_t i = c->first; i < c->n; i++) {
        ms_pool_answer answer = MS_POOL_START;
        if (c->jobs[i].over) {
            if (i == c->first) c->first++;
            continue;
        }
        TRY(pool->on_start(e, pool->arg, i, slot, &answer));
        c->jobs[i].over = answer != MS_POOL_LATER;
        if (answer != MS_POOL_START) continue;
        st             = start(e, &c->jobs[i], pool->threads, &c->pids[slot]);
        c->which[slot] = i;
        c->running += st == MUSEC_OK;
        if (st != MUSEC_OK) pool->on_end(pool->arg, i); /* what on_start took is given back */
        return st;
    }
    c->ask_again = ms_clock_ms() + AGAIN_MS; /* all that is left is for later */
done:
    return st;
}

static musec_status fill(ms_error *e, crew *c)
{
    musec_status st = MUSEC_OK;
    for (int i = 0; i < c->width && c->first < c->n; i++)
        if (c->pids[i] == 0 && ms_clock_ms() >= c->ask_again) TRY(fill_slot(e, c, i));
done:
    return st;
}

/* Takes note of a process that has ended; false: none has. */
static bool collect(crew *c)
{
    int         status = 0;
    const pid_t pid    = waitpid(-1, &status, WNOHANG);
    for (int i = 0; pid > 0 && i < c->width; i++) {
        if (c->pids[i] != pid) continue;
        c->pids[i] = 0;
        c->running--;
        c->jobs[c->which[i]].code =
            WIFSIGNALED(status) ? MS_POOL_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
        c->pool->on_end(c->pool->arg, c->which[i]);
        return true;
    }
    return false;
}

static bool is_all_over(crew *c)
{
    while (c->first < c->n && c->jobs[c->first].over)
        c->first++;
    return c->first == c->n;
}

static void rest(void)
{
    const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
    nanosleep(&pause, NULL);
}

musec_status ms_pool_run(ms_error *e, const ms_pool *pool, ms_job *jobs, size_t n)
{
    crew         c    = { .pool = pool, .jobs = jobs, .n = n };
    bool         told = false;
    musec_status st   = MUSEC_OK;

    c.width = pool->width < MS_POOL_WIDTH ? pool->width : MS_POOL_WIDTH;
    signal(SIGCHLD, SIG_DFL); /* if it was ignored, no one would tell how a job ended */
    for (size_t i = 0; i < n; i++) {
        jobs[i].code = -1;
        jobs[i].over = false;
    }
    while (c.running > 0 || (!is_all_over(&c) && !told && st == MUSEC_OK)) {
        if (pool->stop != NULL && *pool->stop != 0 && !told) {
            told = true;
            for (int i = 0; i < c.width; i++)
                if (c.pids[i] > 0) kill(c.pids[i], SIGINT);
        }
        if (!told && st == MUSEC_OK) st = fill(e, &c);
        pool->on_turn(pool->arg);
        if (!collect(&c)) rest();
    }
    return st;
}
