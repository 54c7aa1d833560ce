/* timing.h - how the benches measure time.
 *
 * Machines are shared and noisy, so candidates are compared in one run: they take turns, round
 * after round.  Reported are the median over the rounds of each candidate's time, and of its time
 * divided by that of the first candidate in the same round.
 *
 * A GPU queues its work, and reading its clock costs as much as a short op.  There a candidate runs
 * several times between two clock reads, so that they are some milliseconds apart. */
#ifndef MS_BENCH_TIMING_H
#define MS_BENCH_TIMING_H

#include "device/device.h"

#define MS_TIMING_MAX 32 /* candidates in a group */

/* Whether the device computes in host memory, and an op is done when it returns. */
bool ms_is_on_host(const ms_device *d);

typedef struct ms_candidate {
    musec_status (*run)(ms_device *d, void *state);
    void *state;
    /* Resets the state before every measurement, unless NULL. */
    musec_status (*begin)(ms_device *d, void *state);
    /* Runs the candidate untimed for a while first, where candidates use different thread pools: a
     * BLAS keeps its own threads spinning for some 100 ms. */
    bool   warm_up;
    double ms;    /* out: median time */
    double ratio; /* out: median ratio to the first candidate */
} ms_candidate;

/* Runs one round to warm up, then `rounds` rounds. */
musec_status ms_time_group(ms_device *d, ms_candidate *candidates, int n, int rounds);

/* The median of n values, which are sorted. */
double ms_bench_median(double *values, int n);

#endif
