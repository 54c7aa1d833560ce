/* hull.h - Goldstein stationarity, measured: how near zero is to the hull of subgradients in a
 * ball. */
#ifndef MS_THEORY_HULL_H
#define MS_THEORY_HULL_H

#include <stdbool.h>

#include "theory/objective.h"

typedef struct ms_hull {
    double  upper, lower; /* the hull of what was sampled has its distance from 0 between them */
    int64_t samples;      /* subgradients in it */
    bool    certified;    /* upper - lower is no more than the solver was asked for */
} ms_hull;

/* dist(0, the Goldstein subdifferential of radius delta at `centre`) is at most `upper`; more
 * samples can only bring it down.  `lower` belongs to the samples alone.  Stops at `samples`, or
 * when upper is below 1e-9 of the longest subgradient. */
musec_status ms_hull_distance(ms_error *e, const ms_objective *p, const double *centre,
                              double delta, int64_t samples, uint64_t seed, ms_hull *out);

#endif
