/* thread.h - threads that leave signals to the program, and how many of them to start. */
#ifndef MS_CORE_THREAD_H
#define MS_CORE_THREAD_H

#include <pthread.h>

/* Starts `run(arg)` in a thread that blocks every signal, so that whoever runs the program gets
 * them.  Returns 0 or the error number of pthread_create. */
int ms_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* Counts the threads that one computation should use, at least 1: OMP_NUM_THREADS where it is set,
 * as users of other numerical programs expect, else the cores that this process may use. */
int ms_thread_count(void);

#endif
