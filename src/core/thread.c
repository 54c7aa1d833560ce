/* thread.c - threads that leave signals to the program, and how many of them to start. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "core/thread.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>

#include "core/process.h"

enum { MAX_THREADS = 1024 }; /* more are a typing mistake */

int ms_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    int      why;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    why = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why;
}

/* The variable may be a list, "4,2": the first number is that of the outermost level. */
int ms_thread_count(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    char       *end  = NULL;
    long        n    = 0;

    if (text != NULL) n = strtol(text, &end, 10);
    if (n < 1 || (*end != '\0' && *end != ',' && !isspace((unsigned char)*end)))
        n = ms_process_cores();
    return n > MAX_THREADS ? MAX_THREADS : (int)n;
}
