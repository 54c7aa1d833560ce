/* pool.c - runs of this program side by side.
 *
 * Processes, not threads: a run that is killed takes no other with it, and each has its own number
 * of OpenMP threads.  A job is told to stop as a person would, by SIGINT, so that it can write a
 * checkpoint. */
#define _XOPEN_SOURCE 700
#include "cli/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WIDTH = 256, MAX_ARGS = 64, POLL_MS = 50, NOT_STARTED = 127, BY_SIGNAL = 128 };

/* Does not come back. */
static void become(const ms_job *job, int threads)
{
    char  text[16];
    char  name[]         = "musec";
    char *argv[MAX_ARGS] = { name };
    int   out = open(job->output, O_WRONLY | O_CREAT | O_TRUNC, 0666), n = 0;

    while (n + 2 < MAX_ARGS && job->args[n] != NULL)
        n++;
    memcpy(&argv[1], job->args, (size_t)n * sizeof *argv); /* exec does not change them */
    snprintf(text, sizeof text, "%d", threads);
    setenv("OMP_NUM_THREADS", text, 1);
    setpgid(0, 0); /* a terminal's Ctrl-C is for the pool, which tells each job once */
    if (out >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
        execv("/proc/self/exe", argv);
    _exit(NOT_STARTED);
}

static musec_status start(ms_error *e, const ms_job *job, int threads, pid_t *pid)
{
    *pid = fork();
    if (*pid == 0) become(job, threads);
    if (*pid > 0) setpgid(*pid, *pid); /* whoever of the two is first */
    if (*pid < 0) return ms_fail(e, MUSEC_EIO, "a run could not be started: %s", strerror(errno));
    return MUSEC_OK;
}

static void rest(void)
{
    const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
    nanosleep(&pause, NULL);
}

/* The slot whose process has ended, or -1 if none has yet. */
static int ended(const pid_t *pids, int width, int *code)
{
    int         status = 0;
    const pid_t pid    = waitpid(-1, &status, WNOHANG);
    for (int i = 0; pid > 0 && i < width; i++)
        if (pids[i] == pid) {
            *code = WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
            return i;
        }
    return -1;
}

musec_status ms_pool_run(ms_error *e, const ms_pool *pool, ms_job *jobs, size_t n)
{
    const int    width           = pool->width < MAX_WIDTH ? pool->width : MAX_WIDTH;
    pid_t        pids[MAX_WIDTH] = { 0 };
    size_t       which[MAX_WIDTH], next = 0;
    int          running = 0;
    bool         told    = false;
    musec_status st      = MUSEC_OK;

    signal(SIGCHLD, SIG_DFL); /* if it was ignored, no one would tell how a job ended */
    for (size_t i = 0; i < n; i++)
        jobs[i].code = -1;
    while (running > 0 || (next < n && !told && st == MUSEC_OK)) {
        int code = 0, slot;
        if (pool->stop != NULL && *pool->stop != 0 && !told) {
            told = true;
            for (int i = 0; i < width; i++)
                if (pids[i] > 0) kill(pids[i], SIGINT);
        }
        for (int i = 0; i < width && next < n && !told && st == MUSEC_OK; i++) {
            if (pids[i] != 0) continue;
            st = start(e, &jobs[next], pool->threads, &pids[i]);
            if (st != MUSEC_OK) {
                pids[i] = 0;
                break;
            }
            which[i] = next++;
            running++;
        }
        slot = ended(pids, width, &code);
        if (slot < 0) {
            rest();
            continue;
        }
        pids[slot]             = 0;
        jobs[which[slot]].code = code;
        running--;
        if (pool->on_end != NULL) pool->on_end(pool->arg, which[slot]);
    }
    return st;
}
