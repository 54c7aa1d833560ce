/* process.c - another program, run to its end, and the cores there are. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "core/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __linux__ /* where unistd.h has it */
extern char **environ;
#endif

enum { SHELLS_NOT_FOUND = 127 }; /* what some systems let a failed start end with */

static int send_to(posix_spawn_file_actions_t *actions, int fd, const char *path)
{
    if (path == NULL) return 0;
    return posix_spawn_file_actions_addopen(actions, fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
}

int ms_process_run(const char *const *argv, const char *out, const char *err)
{
    posix_spawn_file_actions_t actions;
    pid_t                      child  = 0;
    int                        status = 0, failed;

    if (posix_spawn_file_actions_init(&actions) != 0) return MS_NOT_RUN;
    failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) ||
             send_to(&actions, STDOUT_FILENO, out) || send_to(&actions, STDERR_FILENO, err) ||
             posix_spawnp(&child, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) return MS_NOT_RUN;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return MS_KILLED;
    if (!WIFEXITED(status)) return MS_KILLED;
    return WEXITSTATUS(status) == SHELLS_NOT_FOUND ? MS_NOT_RUN : WEXITSTATUS(status);
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
