/* signals_test.c - signals as a process meets them: the first is answered, another ends it. */
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

/* A process that catches signals and says "ready"; if `stays`, it takes no notice of them. */
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

/* One line of it, without its end; "" if there are no more. */
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

/* A process that does not come to its end by itself is ended by more of them, of either kind; what
 * comes right behind the first counts as the same request, so they are sent until one does it. */
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

TEST(without_an_answer_it_is_silent)
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

TEST(no_signal_is_no_change)
{
    CHECK(ms_stop_code(1) == 1 && ms_stop_age_ms() < 0.0 && *ms_stop_flag() == 0, "it was asked");
}
