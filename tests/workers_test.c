/* workers_test.c - for any number of tasks and threads every task runs once, each thread runs one
 * task at a time, consecutive loops do not mix, and pools can be created and destroyed. */
#define _POSIX_C_SOURCE 200809L /* setenv, nanosleep, strdup */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "core/thread.h"
#include "device/cpu/workers.h"

enum { MOST_TASKS = 1000, MOST_THREADS = 8 };

typedef struct tally {
    atomic_int calls[MOST_TASKS];     /* of each task */
    atomic_int inside[MOST_THREADS];  /* calls that are running on a thread */
    atomic_int shared, out_of_bounds; /* calls on a busy thread; thread numbers beyond the pool */
    int        threads;
    int64_t    value; /* differs from loop to loop */
    int64_t    seen[MOST_TASKS];
} tally;

static void count_task(void *arg, int64_t task, int thread)
{
    tally *t = arg;
    if (thread < 0 || thread >= t->threads) {
        atomic_fetch_add(&t->out_of_bounds, 1);
        return;
    }
    if (atomic_fetch_add(&t->inside[thread], 1) != 0) atomic_fetch_add(&t->shared, 1);
    atomic_fetch_add(&t->calls[task], 1);
    t->seen[task] = t->value;
    atomic_fetch_sub(&t->inside[thread], 1);
}

static void check_loop(ms_workers *w, tally *t, int64_t tasks, int64_t value)
{
    const int threads = ms_workers_threads(w);
    memset(t, 0, sizeof *t);
    t->threads = threads;
    t->value   = value;
    ms_workers_run(w, tasks, count_task, t);
    for (int64_t i = 0; i < MOST_TASKS; i++) {
        CHECK(t->calls[i] == (i < tasks), "%d threads, task %lld of %lld: %d calls", threads,
              (long long)i, (long long)tasks, t->calls[i]);
        CHECK(t->seen[i] == (i < tasks ? value : 0), "task %lld saw another loop", (long long)i);
    }
    CHECK(t->shared == 0 && t->out_of_bounds == 0, "%d and %d", t->shared, t->out_of_bounds);
}

TEST(every_task_runs_once)
{
    static const int64_t tasks[] = { 0, 1, 2, 3, 5, 7, 8, 9, 63, 64, MOST_TASKS };
    static tally         t;
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        ms_workers *w = ms_workers_create(threads);
        assert_non_null(w);
        assert_int_equal(ms_workers_threads(w), threads);
        for (int again = 0; again < 20; again++)
            for (size_t i = 0; i < COUNT(tasks); i++)
                check_loop(w, &t, tasks[i], 1 + again * 100 + (int64_t)i);
        ms_workers_destroy(w);
    }
}

/* After pauses of up to 2 ms the threads are polling, falling asleep or asleep. */
TEST(loops_start_on_polling_and_sleeping_threads)
{
    static tally t;
    ms_workers  *w = ms_workers_create(4);
    assert_non_null(w);
    for (int64_t i = 0; i < 400; i++) {
        const struct timespec pause = { .tv_nsec = i % 4 == 3 ? 2000000 : i * 500 };
        check_loop(w, &t, 2 + i % 30, i + 1);
        nanosleep(&pause, NULL);
    }
    ms_workers_destroy(w);
}

TEST(a_pool_without_a_loop_can_be_destroyed)
{
    ms_workers_destroy(NULL);
    ms_workers_destroy(ms_workers_create(1));
    ms_workers_destroy(ms_workers_create(MOST_THREADS));
    ms_workers *w = ms_workers_create(0);
    assert_non_null(w);
    assert_int_equal(ms_workers_threads(w), 1);
    ms_workers_destroy(w);
}

TEST(omp_num_threads_sets_the_number_of_threads)
{
    static const struct {
        const char *text;
        int         threads; /* 0: as if it were not set */
    } cases[]          = { { "1", 1 }, { "3", 3 },  { "4,2", 4 }, { "2 ", 2 },  { "999999", 1024 },
                           { "0", 0 }, { "-2", 0 }, { "", 0 },    { "two", 0 }, { "2x", 0 } };
    const char *before = getenv("OMP_NUM_THREADS");
    char       *kept   = before == NULL ? NULL : strdup(before);
    unsetenv("OMP_NUM_THREADS");
    const int usual = ms_thread_count();
    CHECK(usual >= 1, "%d", usual);
    for (size_t i = 0; i < COUNT(cases); i++) {
        setenv("OMP_NUM_THREADS", cases[i].text, 1);
        const int want = cases[i].threads > 0 ? cases[i].threads : usual;
        CHECK(ms_thread_count() == want, "\"%s\": %d, not %d", cases[i].text, ms_thread_count(),
              want);
    }
    if (kept != NULL)
        setenv("OMP_NUM_THREADS", kept, 1);
    else
        unsetenv("OMP_NUM_THREADS");
    free(kept);
}
