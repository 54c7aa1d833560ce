/* process_test.c - how other programs end, when this process started, and its number of cores. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "check.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/process.h"

TEST(the_end_of_a_program_is_reported)
{
    static const struct {
        const char *const argv[4];
        int               want;
    } cases[] = {
        { { "true" }, 0 },
        { { "sh", "-c", "exit 3" }, 3 },
        { { "sh", "-c", "kill -9 $$" }, MS_KILLED },
        { { "no-such-program-anywhere" }, MS_NOT_RUN },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int got = ms_process_run(cases[i].argv, NULL, NULL);
        CHECK(got == cases[i].want, "%s: %d, not %d", cases[i].argv[0], got, cases[i].want);
    }
}

/* A test starts long after the machine, and gets here soon after its start. */
TEST(the_start_time_of_this_process_is_plausible_and_constant)
{
    const double now = ms_clock_ms(), began = ms_process_start_ms();
    double       again, took = ms_clock_ms() - now; /* a busy machine may stop us in between */
    CHECK(began <= now + 10.0 && now - began < 600e3, "%g ms ago", now - began);
#ifdef __linux__
    CHECK(ms_process_run((const char *const[]){ "sleep", "0.05", NULL }, NULL, NULL) == 0, "sleep");
    CHECK(ms_clock_ms() - ms_process_start_ms() >= 40.0, "it is not in the past");
    took -= ms_clock_ms();
    again = ms_process_start_ms();
    took += ms_clock_ms();
    CHECK(fabs(again - began) <= 20.0 + took, "it moved by %g ms", again - began); /* two ticks */
#endif
}

TEST(cores_are_those_of_the_affinity_mask)
{
    const int all = ms_process_cores();
    CHECK(all >= 1, "%d cores", all);
#ifdef __linux__
    cpu_set_t before, one;
    int       first = 0;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0, "no affinity");
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "not bound to core %d", first);
    CHECK(ms_process_cores() == 1, "%d cores of 1", ms_process_cores());
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0, "not set free again");
    CHECK(ms_process_cores() == all, "%d cores of %d", ms_process_cores(), all);
#endif
}
