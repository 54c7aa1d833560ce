/* process.h - another program, run to its end, when this one began, and the cores there are. */
#ifndef MS_CORE_PROCESS_H
#define MS_CORE_PROCESS_H

enum { MS_NOT_RUN = -1, MS_KILLED = -2 };

/* Runs argv[0], found on PATH, without a shell, nothing on its stdin, stdout and stderr in files
 * (NULL: as they are here).  Returns its exit code, MS_NOT_RUN if there is no such program,
 * MS_KILLED if a signal ended it. */
int ms_process_run(const char *const *argv, const char *out, const char *err);
/* Milliseconds of ms_clock_ms() at which this process was started, within 10 of them; where the
 * system does not tell, now. */
double ms_process_start_ms(void);
/* Cores that this process may use, 1 or more: a batch system or taskset may leave it but some. */
int ms_process_cores(void);

#endif
