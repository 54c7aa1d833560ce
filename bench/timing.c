/* timing.c - see timing.h. */
#include "timing.h"

#include <stdlib.h>

static const double settle_ms = 150.0;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

static musec_status time_once(ms_device *d, const ms_candidate *c, double *ms)
{
    double       begin = 0.0, end = 0.0;
    musec_status st = MUSEC_OK;
    TRY(d->ops->now_ms(d, &begin));
    for (double now = begin; c->settle && now - begin < settle_ms;) {
        TRY(c->run(d, c->state));
        TRY(d->ops->now_ms(d, &now));
    }
    TRY(d->ops->now_ms(d, &begin));
    TRY(c->run(d, c->state));
    TRY(d->ops->now_ms(d, &end));
    *ms = end - begin;
done:
    return st;
}

musec_status ms_time_group(ms_device *d, ms_candidate *candidates, int n, int rounds)
{
    double      *ms = calloc(2 * MS_TIMING_MAX * (size_t)rounds, sizeof *ms), warm_up = 0.0;
    musec_status st = MUSEC_OK;
    if (ms == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory for %d rounds", rounds));
    for (int round = -1; round < rounds; round++)
        for (int i = 0; i < n; i++)
            TRY(time_once(d, &candidates[i], round < 0 ? &warm_up : &ms[i * rounds + round]));
    double *const ratio = ms + MS_TIMING_MAX * (size_t)rounds;
    for (int i = 0; i < n; i++)
        for (int round = 0; round < rounds; round++)
            ratio[i * rounds + round] = ms[i * rounds + round] / ms[round];
    for (int i = 0; i < n; i++) {
        candidates[i].ms    = median(ms + i * rounds, rounds);
        candidates[i].ratio = median(ratio + i * rounds, rounds);
    }
done:
    free(ms);
    return st;
}
