/* timing.h - how everything is timed here.
 *
 * Machines are shared and noisy, so figures are ratios taken in one run: the candidates of a group
 * run in turn, round after round, and what is reported is the median over the rounds of each one's
 * time, and of each one's time divided by the first one's IN THE SAME ROUND.
 *
 * A device that is not the host queues its work, and to ask it for the time costs as much as a
 * short op.  There a candidate runs so often between two looks at the clock that
 * they are some milliseconds apart. */
#ifndef MS_BENCH_TIMING_H
#define MS_BENCH_TIMING_H

#include "device/device.h"

#define MS_TIMING_MAX 12 /* candidates in a group */

/* Is the device's memory the host's, and a call done when it returns? */
bool ms_is_on_host(const ms_device *d);

/* `settle` runs the candidate untimed for a while first, for groups whose candidates have different
 * threads: those of the one before (a BLAS keeps its own spinning for some 100 ms) fall asleep, and
 * its own are awake and on cores of their own. */
typedef struct ms_candidate {
    musec_status (*run)(ms_device *d, void *state);
    void *state;
    /* brings the state to where it is timed from, before every look at the clock; NULL: nothing */
    musec_status (*begin)(ms_device *d, void *state);
    bool   settle;
    double ms;    /* out: median time */
    double ratio; /* out: median of its time over the first candidate's */
} ms_candidate;

/* One round to warm up, then `rounds` rounds. */
musec_status ms_time_group(ms_device *d, ms_candidate *candidates, int n, int rounds);

#endif
