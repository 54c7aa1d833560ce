/* pool.h - commands of this program side by side, in worker processes that stay for the next one.
 *
 * A worker makes one job after the other, so that what it opened first (a GPU, its libraries, what
 * they chose for products of these shapes) serves those that follow.  A worker that dies costs the
 * job that it was making; one whose job failed or was stopped leaves, and a new one takes its
 * slot. */
#ifndef MS_EXPERIMENT_POOL_H
#define MS_EXPERIMENT_POOL_H

#include <signal.h>
#include <stdbool.h>

#include "core/status.h"

enum { MS_POOL_WIDTH = 256 /* at most */, MS_POOL_SIGNAL = 128 };

typedef struct ms_job {
    const char *const *args;   /* arguments behind the name of the program, NULL-terminated */
    int                output; /* file descriptor for its stdout and stderr */
    bool settled; /* out: it was started or refused, so that it is not offered a slot again */
    int  code;    /* out: exit code, MS_POOL_SIGNAL + signal number, or -1 if it did not run */
} ms_job;

typedef enum ms_pool_answer {
    MS_POOL_START,
    MS_POOL_LATER, /* offer a slot again in a while */
    MS_POOL_NEVER,
} ms_pool_answer;

typedef struct ms_pool {
    int width;   /* jobs at once, in slots 0 to width - 1 */
    int threads; /* of each job */
    const volatile sig_atomic_t
        *stop; /* once it is not 0, no more jobs start and running ones get SIGINT; may be NULL */
    /* Fills in args and output of jobs[job], which is about to start.  After a failure no more jobs
     * start, and those that run come to their end. */
    musec_status (*on_start)(ms_error *e, void *arg, size_t job, int slot, ms_pool_answer *answer);
    void (*on_end)(void *arg, size_t job); /* called for every job that was started */
    void (*on_turn)(void *arg);            /* called many times a second */
    void *arg;
} ms_pool;

/* Returns when all have ended.  A job that fails does not stop the others.  If this process is
 * killed, its jobs are asked to end (on Linux). */
musec_status ms_pool_run(ms_error *e, const ms_pool *pool, ms_job *jobs, size_t n);

/* ---- pool_worker.c: the other side ----------------------------------------------------------- */

/* What a worker is started as: argv[0], and the number of its socket behind it. */
extern const char ms_pool_worker[];

/* Sends a job over the socket of a worker. */
musec_status ms_pool_send(ms_error *e, int socket, const ms_job *job);
/* Runs what comes over the socket, until the other side closes it or a command ends with anything
 * but 0; returns that, or 0.  argv[0] of the command is the first of the job's arguments. */
int ms_pool_serve(int socket, int (*run)(int argc, char **argv));

#endif
