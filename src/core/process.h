/* process.h - running another program, the start of this one, and the cores it may use. */
#ifndef MS_CORE_PROCESS_H
#define MS_CORE_PROCESS_H

enum { MS_NOT_RUN = -1, MS_KILLED = -2, MS_NO_MEMORY = -3 };

/* Runs argv[0], found on PATH, without a shell and with nothing on its stdin.  Its stdout and
 * stderr go to files, or where they go here if these are NULL.  Returns its exit code, MS_NOT_RUN
 * if there is no such program, MS_KILLED if a signal ended it, MS_NO_MEMORY if it cannot be started
 * without memory. */
int ms_process_run(const char *const *argv, const char *out, const char *err);
/* Returns the time of ms_clock_ms() at which this process was started, to within 10 ms, or the time
 * now where the system does not know. */
double ms_process_start_ms(void);
/* Counts the cores that this process may use; a batch system or taskset may leave it only some. */
int ms_process_cores(void);

#endif
