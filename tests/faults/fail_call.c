/* fail_call.c - runs a program in which one system call fails.
 *
 *     fail_call CALLS ERROR AT REPORT PROGRAM... : of the CALLS ("write,pwrite64") that musec makes
 *     the AT-th fails with the ERROR ("ENOSPC"), or ends the process ("KILL"); with "AT+" all after
 *     it fail, too; 0: none.  What was counted, and the failure, are lines of the file REPORT.
 *     Exits as the program does.
 *
 * A call that fails is not made, but for close.  Writes to stderr never fail.  Processes other than
 * musec, such as rsvg-convert, are left alone. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervise.h"

static const struct {
    const char *name;
    int         number;
} errors[] = { { "ENOSPC", ENOSPC }, { "EIO", EIO },       { "EINTR", EINTR },
               { "ENOMEM", ENOMEM }, { "EMFILE", EMFILE }, { "EACCES", EACCES } };

typedef struct plan {
    int   error;
    long  at, n, failed;
    bool  after, kill;
    FILE *report;
} plan;

static bool is_musec(unsigned pid)
{
    char    path[64], target[4096];
    ssize_t n;
    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    n = readlink(path, target, sizeof target - 1);
    if (n <= 0) return false;
    target[n] = '\0';
    return strncmp(strrchr(target, '/') + 1, "musec", 5) == 0;
}

static int decide(void *arg, const struct seccomp_notif *call)
{
    plan      *p      = arg;
    const bool writes = strstr(supervised_name(call->data.nr), "write") != NULL;
    if (!is_musec(call->pid)) return 0;
    if (writes && call->data.args[0] == 2) return 0; /* stderr: what it says is judged */
    p->n++;
    if (p->at == 0 || !(p->n == p->at || (p->after && p->n > p->at))) return 0;
    if (p->failed++ == 0)
        fprintf(p->report, "%s(%#llx, %#llx, %#llx)\n", supervised_name(call->data.nr),
                (unsigned long long)call->data.args[0], (unsigned long long)call->data.args[1],
                (unsigned long long)call->data.args[2]);
    if (p->kill) (void)kill((pid_t)call->pid, SIGKILL);
    return p->error;
}

int main(int argc, char **argv)
{
    int    numbers[64], code;
    size_t n = 0;
    plan   p = { 0 };

    if (argc < 6) {
        fprintf(stderr, "usage: fail_call CALLS ERROR AT REPORT PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    for (char *name = argv[1], *next; name != NULL && n < 64; name = next) {
        next = strchr(name, ',');
        if (next != NULL) *next++ = '\0';
        numbers[n] = supervised_number(name);
        n += numbers[n] >= 0; /* not every machine has every call */
    }
    p.kill  = strcmp(argv[2], "KILL") == 0;
    p.error = p.kill ? EINTR : 0; /* it does not see it any more */
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(errors[i].name, argv[2]) == 0) p.error = errors[i].number;
    p.at     = strtol(argv[3], NULL, 10);
    p.after  = strchr(argv[3], '+') != NULL;
    p.report = fopen(argv[4], "w");
    if (p.report == NULL || n == 0 || (p.error == 0 && p.at != 0)) return 2;
    code = supervise(argv + 5, numbers, n, decide, &p);
    fprintf(p.report, "calls %ld failed %ld\n", p.n, p.failed);
    return fclose(p.report) == 0 ? code : 2;
}
