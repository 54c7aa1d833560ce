/* timing.c - times candidates in turn. */
#include "timing.h"

#include <stdlib.h>
#include <string.h>

static const double warm_up_ms = 150.0, min_ms = 5.0;
enum { MAX_REPEATS = 2000 };

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ms_bench_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

bool ms_is_on_host(const ms_device *d)
{
    return strcmp(d->kind->name, "cpu") == 0 || strcmp(d->kind->name, "ref") == 0;
}

/* The total time of `repeats` runs. */
static musec_status time_runs(ms_device *d, const ms_candidate *c, int repeats, double *ms)
{
    double       begin = 0.0, end = 0.0;
    musec_status st = MUSEC_OK;
    if (c->begin != NULL) TRY(c->begin(d, c->state));
    TRY(d->ops->now_ms(d, &begin));
    for (int i = 0; i < repeats; i++)
        TRY(c->run(d, c->state));
    TRY(d->ops->now_ms(d, &end));
    *ms = end - begin;
done:
    return st;
}

static musec_status time_once(ms_device *d, const ms_candidate *c, int repeats, double *ms)
{
    double       spent = 0.0, all = 0.0;
    musec_status st = MUSEC_OK;
    while (c->warm_up && ms_is_on_host(d) && spent < warm_up_ms) {
        TRY(time_runs(d, c, 1, &all));
        spent += all;
    }
    TRY(time_runs(d, c, repeats, &all));
    *ms = all / repeats;
done:
    return st;
}

/* Warms up, and finds how often the candidate must run to fill min_ms. */
static musec_status find_repeats(ms_device *d, const ms_candidate *c, int *repeats)
{
    double       ms = 0.0;
    musec_status st = MUSEC_OK;
    *repeats        = 1;
    TRY(time_once(d, c, 1, &ms));
    if (ms_is_on_host(d)) return MUSEC_OK;
    for (;;) {
        TRY(time_runs(d, c, *repeats, &ms));
        if (ms >= min_ms || *repeats >= MAX_REPEATS) break;
        const double need = ms > 0.1 ? 1.2 * min_ms / ms : 10.0; /* 0.1: a clock read */
        *repeats          = (int)((double)*repeats * (need < 10.0 ? need : 10.0)) + 1;
    }
done:
    return st;
}

musec_status ms_time_group(ms_device *d, ms_candidate *candidates, int n, int rounds)
{
    double      *ms = calloc(2 * MS_TIMING_MAX * (size_t)rounds, sizeof *ms);
    int          repeats[MS_TIMING_MAX];
    musec_status st = MUSEC_OK;
    if (ms == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory for %d rounds", rounds));
    for (int i = 0; i < n; i++)
        TRY(find_repeats(d, &candidates[i], &repeats[i]));
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < n; i++)
            TRY(time_once(d, &candidates[i], repeats[i], &ms[i * rounds + round]));
    double *const ratio = ms + MS_TIMING_MAX * (size_t)rounds;
    for (int i = 0; i < n; i++)
        for (int round = 0; round < rounds; round++)
            ratio[i * rounds + round] = ms[i * rounds + round] / ms[round];
    for (int i = 0; i < n; i++) {
        candidates[i].ms    = ms_bench_median(ms + i * rounds, rounds);
        candidates[i].ratio = ms_bench_median(ratio + i * rounds, rounds);
    }
done:
    free(ms);
    return st;
}
