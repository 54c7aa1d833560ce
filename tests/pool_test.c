/* pool_test.c - jobs in worker processes: that they share one, what of them is reported, and that a
 * job that fails or is killed costs no other. */
#define _GNU_SOURCE /* mkostemp */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/text.h"
#include "experiment/pool.h"
#include "scratch.h"

enum { JOBS = 6, WIDTH = 40 };

static const char *const say[]       = { "say", "one two", "", NULL };
static const char *const fail[]      = { "fail", NULL };
static const char *const kill_self[] = { "kill", NULL };
static const char *const linger[]    = { "linger", NULL };

/* What a worker does for a job: it says which process it is and what it was given. */
static int run_job(int argc, char **argv)
{
    if (strcmp(argv[0], "kill") == 0) raise(SIGKILL);
    if (strcmp(argv[0], "linger") == 0) sleep(600);
    printf("%ld %d %s", (long)getpid(), argc, argc > 1 ? argv[1] : argv[0]);
    return strcmp(argv[0], "fail") == 0 ? 3 : 0;
}

typedef struct rig {
    const char *const *args[JOBS];
    ms_job             jobs[JOBS];
    char               text[JOBS][WIDTH]; /* of their outputs */
    int                ended;
} rig;

static musec_status on_start(ms_error *e, void *arg, size_t job, int slot, ms_pool_answer *answer)
{
    rig *r      = arg;
    char path[] = "/tmp/musec-pool-XXXXXX";
    int  fd     = mkostemp(path, O_CLOEXEC);
    (void)e, (void)slot;
    CHECK(fd >= 0 && unlink(path) == 0, "no file %s", path);
    r->jobs[job].args   = r->args[job];
    r->jobs[job].output = fd;
    *answer             = MS_POOL_START;
    return MUSEC_OK;
}

static void on_end(void *arg, size_t job)
{
    rig          *r  = arg;
    const int     fd = r->jobs[job].output;
    const ssize_t n  = pread(fd, r->text[job], WIDTH - 1, 0);
    CHECK(n >= 0, "the output of job %zu", job);
    close(fd);
    r->ended++;
}

static volatile sig_atomic_t stop;
static double                began;

static void on_turn(void *arg)
{
    (void)arg;
    if (began > 0.0 && ms_clock_ms() - began > 300.0) stop = SIGINT;
}

static void run_all(rig *r, int width, size_t n)
{
    const ms_pool pool = { .width    = width,
                           .threads  = 1,
                           .stop     = &stop,
                           .on_start = on_start,
                           .on_end   = on_end,
                           .on_turn  = on_turn,
                           .arg      = r };
    ms_error      e    = { "" };
    CHECK_OK_ERR(&e, ms_pool_run(&e, &pool, r->jobs, n));
}

TEST(one_worker_makes_all_jobs_of_a_slot)
{
    rig  r     = { .args = { say, say, say, say, say, say } };
    long first = 0;

    run_all(&r, 1, JOBS);
    for (int i = 0; i < JOBS; i++) {
        char      *rest;
        const long pid = strtol(r.text[i], &rest, 10);
        if (i == 0) first = pid;
        CHECK(pid == first && pid != getpid(), "job %d in %ld, the first in %ld", i, pid, first);
        CHECK(strcmp(rest, " 3 one two") == 0, "job %d: %s", i, r.text[i]);
        CHECK(r.jobs[i].code == 0, "job %d: %d", i, r.jobs[i].code);
    }
    CHECK(r.ended == JOBS, "%d ended", r.ended);
}

/* The codes in order, and a new worker behind each that failed or died. */
TEST(a_job_that_fails_or_is_killed_costs_no_other)
{
    rig       r          = { .args = { say, fail, say, kill_self, say, say } };
    const int want[JOBS] = { 0, 3, 0, MS_POOL_SIGNAL + SIGKILL, 0, 0 };
    long      pid[JOBS];

    run_all(&r, 1, JOBS);
    for (int i = 0; i < JOBS; i++) {
        CHECK(r.jobs[i].code == want[i], "job %d: %d, not %d", i, r.jobs[i].code, want[i]);
        pid[i] = strtol(r.text[i], NULL, 10);
    }
    CHECK(pid[0] == pid[1] && pid[1] != pid[2], "a failed job's worker leaves");
    CHECK(pid[2] != pid[4] && pid[4] == pid[5], "a dead worker is replaced");
    CHECK(r.text[3][0] == '\0', "the killed job said %s", r.text[3]);
}

TEST(slots_work_beside_each_other)
{
    rig r = { .args = { say, kill_self, say, fail, say, say } };
    run_all(&r, 3, JOBS);
    CHECK(r.ended == JOBS, "%d ended", r.ended);
    CHECK(r.jobs[1].code == MS_POOL_SIGNAL + SIGKILL && r.jobs[3].code == 3, "%d, %d",
          r.jobs[1].code, r.jobs[3].code);
}

TEST(a_stop_reaches_the_running_job_and_starts_no_other)
{
    rig r = { .args = { linger, say } };
    began = ms_clock_ms();
    run_all(&r, 1, 2);
    CHECK(r.jobs[0].code == MS_POOL_SIGNAL + SIGINT, "%d", r.jobs[0].code);
    CHECK(r.jobs[1].code == -1 && !r.jobs[1].settled, "%d", r.jobs[1].code);
    CHECK(ms_clock_ms() - began < 60e3, "it took long");
    began = 0.0, stop = 0;
}

/* A descriptor is missing behind the job's output and the two ends of its socket. */
TEST(a_worker_that_cannot_start_says_why)
{
    const char   *path  = tmp_path("stderr");
    const int     saved = dup(STDERR_FILENO);
    const int     to    = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct rlimit all, few;
    rig           r = { .args = { say } };
    blob          said;

    CHECK(saved >= 0 && to >= 0 && getrlimit(RLIMIT_NOFILE, &all) == 0, "%s", path);
    few          = all;
    few.rlim_cur = (rlim_t)to + 4;
    CHECK(dup2(to, STDERR_FILENO) >= 0 && setrlimit(RLIMIT_NOFILE, &few) == 0, "%s", path);
    run_all(&r, 1, 1);
    CHECK(setrlimit(RLIMIT_NOFILE, &all) == 0 && dup2(saved, STDERR_FILENO) >= 0, "%s", path);
    close(to);
    close(saved);
    get_file(path, &said);
    CHECK(r.jobs[0].code == 127, "%d", r.jobs[0].code);
    CHECK(ms_text_find((const char *)said.p, said.n, "Too many open files", 19) != NULL, "%.*s",
          (int)said.n, (const char *)said.p);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], ms_pool_worker) == 0)
        return ms_pool_serve((int)strtol(argv[1], NULL, 10), run_job);
    return check_main();
}
