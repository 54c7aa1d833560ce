/* workers.h - the threads of a CPU context, and loops whose iterations they share.
 *
 * A loop is a number of tasks and a function that is called once for each of them, on the calling
 * thread and on the pool's.  Each thread begins with an equal share of consecutive tasks, so that
 * it finds the data of the last loop in its cache, and then helps the others.  The caller waits for
 * tasks that have begun, never for a thread that has not: if other programs keep the cores busy, it
 * does the work itself.
 *
 * Idle threads poll for some tens of microseconds, or longer if polling has been successful, then
 * sleep.  OpenMP's run time is not used because it spins for milliseconds unless the environment
 * said otherwise before the process started: that slows two programs on the same cores down
 * tenfold, and a library cannot change it.
 *
 * A pool is used by one thread at a time, as a context is.  Tasks must not start loops. */
#ifndef MS_DEVICE_CPU_WORKERS_H
#define MS_DEVICE_CPU_WORKERS_H

#include <stdint.h>

typedef struct ms_workers ms_workers;

/* `thread` is below the number of threads of the pool, and no two tasks run on the same one at a
 * time: it selects their scratch memory. */
typedef void ms_worker_task(void *arg, int64_t task, int thread);

/* NULL: not enough memory.  Threads are started by the first loop that can use them; where the
 * system refuses to start them, those that exist do the work. */
ms_workers *ms_workers_create(int threads);
void        ms_workers_destroy(ms_workers *p); /* accepts NULL */
int         ms_workers_threads(const ms_workers *p);

/* Calls run(arg, task, thread) for every task from 0 to tasks - 1, in no certain order, and
 * returns when all calls have returned. */
void ms_workers_run(ms_workers *p, int64_t tasks, ms_worker_task *run, void *arg);

#endif
