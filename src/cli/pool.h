/* pool.h - runs of this program side by side, each a process of its own. */
#ifndef MS_CLI_POOL_H
#define MS_CLI_POOL_H

#include <signal.h>
#include <stdbool.h>

#include "core/status.h"

typedef struct ms_job {
    const char *const *args;   /* behind the program's name; NULL ends */
    const char        *output; /* file that gets what it prints */
    int                code;   /* out: its exit code, 128 + the signal that ended it, -1: not run */
} ms_job;

typedef struct ms_pool {
    int width;   /* jobs at once */
    int threads; /* of each job */
    const volatile sig_atomic_t
        *stop; /* not 0: no more jobs, those that run are asked to end; or NULL */
    void (*on_end)(void *arg, size_t job); /* or NULL */
    void *arg;
} ms_pool;

/* Returns when all have ended.  A job that fails does not stop the others. */
musec_status ms_pool_run(ms_error *e, const ms_pool *pool, ms_job *jobs, size_t n);

#endif
