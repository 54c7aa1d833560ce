/* process.c - see process.h. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "core/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"

#ifndef __linux__ /* where unistd.h has it */
extern char **environ;
#endif

enum { SHELLS_NOT_FOUND = 127 }; /* on some systems the exit code of a failed start */

static int redirect(posix_spawn_file_actions_t *actions, int fd, const char *path)
{
    if (path == NULL) return 0;
    return posix_spawn_file_actions_addopen(actions, fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
}

int ms_process_run(const char *const *argv, const char *out, const char *err)
{
    posix_spawn_file_actions_t actions;
    pid_t                      child  = 0;
    int                        status = 0, failed = posix_spawn_file_actions_init(&actions);

    if (failed != 0) return failed == ENOMEM ? MS_NO_MEMORY : MS_NOT_RUN;
    failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (failed == 0) failed = redirect(&actions, STDOUT_FILENO, out);
    if (failed == 0) failed = redirect(&actions, STDERR_FILENO, err);
    if (failed == 0)
        failed = posix_spawnp(&child, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return failed == ENOMEM ? MS_NO_MEMORY : MS_NOT_RUN;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return MS_KILLED;
    if (!WIFEXITED(status)) return MS_KILLED;
    return WEXITSTATUS(status) == SHELLS_NOT_FOUND ? MS_NOT_RUN : WEXITSTATUS(status);
}

/* Linux has the start in ticks since boot, as field 22 of a line whose field 2 is a name in
 * brackets that may contain anything.  Ticks count suspended time and the monotonic clock does not,
 * so the age of the process is taken from the boot clock and subtracted. */
double ms_process_start_ms(void)
{
    const double now = ms_clock_ms();
    double       age = 0.0;
#ifdef __linux__
    struct timespec    up    = { 0 };
    const long         per_s = sysconf(_SC_CLK_TCK);
    char               line[1024];
    FILE              *f     = fopen("/proc/self/stat", "r");
    const size_t       n     = f == NULL ? 0 : fread(line, 1, sizeof line - 1, f);
    const char        *at    = NULL;
    unsigned long long ticks = 0;
    if (f != NULL) fclose(f);
    line[n] = '\0';
    at      = strrchr(line, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at != NULL) ticks = strtoull(at, NULL, 10);
    if (ticks > 0 && per_s > 0 && clock_gettime(CLOCK_BOOTTIME, &up) == 0)
        age = 1e3 * ((double)up.tv_sec - (double)ticks / (double)per_s) + 1e-6 * (double)up.tv_nsec;
#endif
    return age > 0.0 ? now - age : now;
}

int ms_process_cores(void)
{
    long n = 0;
#ifdef __linux__
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0) n = CPU_COUNT(&mine);
#endif
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}
