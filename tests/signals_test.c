/* signals_test.c - signals to a process: the first is answered, another one ends it. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/signals.h"

enum { NOT_ASKED = 7 };

static void rest(void)
{
    const struct timespec pause = { .tv_nsec = 10000000 };
    nanosleep(&pause, NULL);
}

typedef struct child {
    pid_t pid;
    int   output; /* its stderr, to be read */
} child;

/* Starts a process that catches signals and prints "ready"; if `stays`, it never ends by itself. */
static child start(const char *answer, bool stays)
{
    int   ends[2];
    child c;
    CHECK(pipe(ends) == 0, "pipe");
    fflush(NULL);
    c.pid = fork();
    if (c.pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGHUP, SIG_DFL);
        ms_stop_catch(answer);
        if (write(STDERR_FILENO, "ready\n", 6) != 6) _exit(1);
        while (stays || *ms_stop_flag() == 0)
            rest();
        _exit(ms_stop_age_ms() >= 0.0 ? ms_stop_code(0) : NOT_ASKED);
    }
    close(ends[1]);
    c.output = ends[0];
    return c;
}

/* A line of its stderr without the newline; "" at the end. */
static void get_line(const child *c, char *line, size_t bytes)
{
    size_t n = 0;
    while (n + 1 < bytes && read(c->output, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
}

static int end_of(const child *c)
{
    int status = 0;
    CHECK(waitpid(c->pid, &status, 0) == c->pid, "waitpid");
    close(c->output);
    return status;
}

TEST(the_first_signal_is_answered_and_names_the_exit_status)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    char             line[64];
    for (size_t i = 0; i < COUNT(signals); i++) {
        const child c = start("finishing this", false);
        get_line(&c, line, sizeof line);
        CHECK(strcmp(line, "ready") == 0, "%s", line);
        CHECK(kill(c.pid, signals[i]) == 0, "kill");
        get_line(&c, line, sizeof line);
        CHECK(strcmp(line, signals[i] == SIGHUP ? "" : "finishing this") == 0, "%d: '%s'",
              signals[i], line);
        const int status = end_of(&c);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 128 + signals[i], "%d: status %x",
              signals[i], (unsigned)status);
    }
}

/* A process that does not end by itself is ended by a further signal of either kind.  Signals that
 * follow the first one closely count as the same request, so they are sent until one ends it. */
TEST(another_signal_ends_the_process)
{
    static const int pairs[][2] = { { SIGINT, SIGINT }, { SIGTERM, SIGINT }, { SIGINT, SIGTERM } };
    char             line[64];
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const child c = start("finishing this", true);
        int         status;
        get_line(&c, line, sizeof line);
        CHECK(kill(c.pid, pairs[i][0]) == 0, "kill");
        get_line(&c, line, sizeof line);
        CHECK(strcmp(line, "finishing this") == 0, "'%s'", line);
        while (waitpid(c.pid, &status, WNOHANG) == 0) {
            kill(c.pid, pairs[i][1]);
            rest();
        }
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == pairs[i][1], "status %x",
              (unsigned)status);
        get_line(&c, line, sizeof line);
        CHECK(line[0] == '\0', "answered twice: '%s'", line);
        close(c.output);
    }
}

TEST(without_an_answer_nothing_is_printed)
{
    const child c = start(NULL, false);
    char        line[64];
    get_line(&c, line, sizeof line);
    CHECK(kill(c.pid, SIGINT) == 0, "kill");
    get_line(&c, line, sizeof line);
    CHECK(line[0] == '\0', "'%s'", line);
    const int status = end_of(&c);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 130, "status %x", (unsigned)status);
}

TEST(without_a_signal_no_stop_is_requested)
{
    CHECK(ms_stop_code(1) == 1 && ms_stop_age_ms() < 0.0 && *ms_stop_flag() == 0, "it was asked");
}
