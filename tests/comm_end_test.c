/* comm_end_test.c - how a job by TCP ends: this program starts processes that are its ranks, one of
 * them gets into trouble, and all must end with one reason.  NCCL is a stub (tools/nccl_stub.c). */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "comm/comm.h"
#include "core/clock.h"

enum { RANKS = 3, PORTS = 10000 };

typedef void (*trouble)(ms_comm *c); /* what a rank does, once all are connected */

static int told; /* a pipe to the parent: reasons, a line each */

static void tell(void *arg, const char *why)
{
    (void)arg;
    (void)!write(told, why, strlen(why));
    (void)!write(told, "\n", 1);
}

static void quit(void *arg)
{
    (void)arg;
    _exit(1);
}

static void run_rank(int rank, int port, trouble what)
{
    ms_error e = { "" };
    ms_comm *c = NULL;
    char     text[16];

    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%d", RANKS);
    setenv("WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", port);
    setenv("MASTER_PORT", text, 1);
    setenv("MASTER_ADDR", "localhost", 1);
    if (ms_comm_open(&e, &(ms_comm_setup){ "tcp", tell, quit, NULL }, &c) != MUSEC_OK)
        tell(NULL, e.text);
    else
        what(c);
    _exit(7);
}

/* Starts the ranks; `reasons` gets what was told.  Returns how many ended with status 1. */
static int run_job(trouble what, char *reasons, size_t bytes, double *ms)
{
    const int    port  = 2 * PORTS + (int)getpid() % PORTS;
    const double start = ms_clock_ms();
    int          ends[2], ended = 0, status = 0;
    size_t       n = 0;
    ssize_t      got;

    CHECK(pipe(ends) == 0, "no pipe");
    told = ends[1];
    for (int r = 0; r < RANKS; r++)
        if (fork() == 0) run_rank(r, port, what);
    close(ends[1]);
    while ((got = read(ends[0], reasons + n, bytes - 1 - n)) > 0)
        n += (size_t)got;
    reasons[n] = '\0';
    close(ends[0]);
    while (wait(&status) > 0)
        ended += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    *ms = ms_clock_ms() - start;
    return ended;
}

static void check_end(trouble what, int ended, const char *reason)
{
    char      reasons[2048];
    double    ms  = 0.0;
    const int got = run_job(what, reasons, sizeof reasons, &ms);

    CHECK(strncmp(reasons, reason, strlen(reason)) == 0, "\"%s\", not \"%s\"", reasons, reason);
    CHECK(strchr(reasons, '\n') == reasons + strlen(reasons) - 1, "several reasons: %s", reasons);
    CHECK(got == ended, "%d ranks ended, not %d", got, ended);
    CHECK(ms < 60000.0, "%g s", ms / 1e3);
}

static void wait_for_end(void)
{
    for (;;)
        pause();
}

static void fail_on_rank_2(ms_comm *c)
{
    double x = 0.0;
    if (c->rank == 2) ms_comm_abort(c, "no data");
    (void)c->ops->all_reduce(c, MS_COMM_SUM, &x, 1); /* which waits for rank 2 */
    wait_for_end();
}

static void fail_on_all(ms_comm *c) { ms_comm_abort(c, "no data"); }

static void kill_rank_1(ms_comm *c)
{
    if (c->rank == 1) (void)kill(getpid(), SIGKILL);
    wait_for_end();
}

static void kill_rank_0(ms_comm *c)
{
    double x = 0.0;
    if (c->rank == 0) (void)kill(getpid(), SIGKILL);
    if (c->ops->all_reduce(c, MS_COMM_SUM, &x, 1) != MUSEC_OK) ms_comm_abort(c, c->error.text);
}

TEST(a_rank_that_fails_ends_the_job) { check_end(fail_on_rank_2, RANKS, "rank 2: no data\n"); }

TEST(one_of_several_reasons_is_told)
{
    char   reasons[2048];
    double ms = 0.0;
    CHECK(run_job(fail_on_all, reasons, sizeof reasons, &ms) == RANKS, "%s", reasons);
    CHECK(strstr(reasons, "no data\n") != NULL, "%s", reasons);
    CHECK(strchr(reasons, '\n') == reasons + strlen(reasons) - 1, "several: %s", reasons);
}

TEST(a_rank_that_dies_ends_the_job)
{
    check_end(kill_rank_1, RANKS - 1, "rank 1 has died, or left\n");
    check_end(kill_rank_0, RANKS - 1, "rank 1: ");
}

static void *no_stream(ms_device *d)
{
    (void)d;
    return NULL;
}

/* NCCL finds later that something is wrong, while no rank calls it. */
static void lose_nccl(ms_comm *c)
{
    ms_error       e = { "" }, why = { "" };
    ms_device     *dev   = check_open("cpu");
    ms_device_kind apart = *dev->kind;
    ms_comm       *nccl  = NULL;

    apart.stream = no_stream;
    dev->kind    = &apart;
    if (ms_comm_add_nccl(&e, c, dev, true, &nccl, &why) != MUSEC_OK) ms_comm_abort(c, e.text);
    if (c->rank == 2) setenv("MUSEC_STUB_FAILS", "later", 1);
    wait_for_end();
}

TEST(what_nccl_finds_later_ends_the_job)
{
    char text[256];
    bool there;

    ms_comm_nccl_describe(text, sizeof text, &there);
    if (!there || strcmp(text, "2.99.0") != 0) SKIP("the stub of NCCL is not in LD_LIBRARY_PATH");
    check_end(lose_nccl, RANKS, "rank 2: NCCL failed: remote process exited: said by the stub\n");
}
