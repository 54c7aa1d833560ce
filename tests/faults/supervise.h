/* supervise.h - runs a program and is asked before each of its system calls of some kinds.
 *
 * The kernel does the asking (seccomp's notifications, Linux 5.5), so that calls of every library,
 * thread and process below the program are seen, and no privileges are needed. */
#ifndef MS_FAULTS_SUPERVISE_H
#define MS_FAULTS_SUPERVISE_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct supervised_call { /* a system call by its name */
    const char *name;
    int         number;
} supervised_call;

/* The calls that can be asked about, on this machine. */
extern const supervised_call supervised_calls[];
extern const size_t          n_supervised_calls;

/* Returns the number of a call, or -1. */
int supervised_number(const char *name);
/* Returns the name of a call, or "?". */
const char *supervised_name(int number);

/* Returns 0 to let the call be made, or the error that it is to fail with. */
typedef int supervise_decide(void *arg, const struct seccomp_notif *call);

/* Runs argv until it and all that it started have ended.  Returns its exit status, 128 plus the
 * number of the signal that ended it, or 125 if it cannot be run this way. */
int supervise(char *const argv[], const int *numbers, size_t n, supervise_decide *decide,
              void *arg);

#endif
