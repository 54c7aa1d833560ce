/* min_norm.h - the point of least norm in the convex hull of some vectors, with a certificate. */
#ifndef MS_THEORY_MIN_NORM_H
#define MS_THEORY_MIN_NORM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

/* The distance from zero to the hull lies in [lower, upper], whatever the solver did: x is in the
 * hull, and for any z every y of the hull has <z, y> >= min_i <z, g_i>, so |y| >= that / |z|. */
typedef struct ms_min_norm_result { /* { 0 } is empty */
    double *x;                      /* (m) the point: the sum of weights[i] g_i */
    double *weights;                /* (n) >= 0, their sum is 1 */
    double  upper;                  /* |x| */
    double  lower;                  /* max(0, min_i <z, g_i> / |z|), z being x but for rounding */
    double  gap;                    /* <x, x> - min_i <x, g_i> >= |x - the nearest point|^2 */
    int64_t support;                /* weights that are not zero */
    int64_t iterations;             /* points that entered */
    bool certified; /* upper - lower <= tol max_i |g_i|; false: rounding or the limit stopped it */
    bool limited;   /* the limit on iterations stopped it */
} ms_min_norm_result;

/* g: n vectors, one after the other, of m numbers each; n, m >= 1, all finite.  tol in [0, 1): the
 * accuracy of the distance relative to the longest vector; 1e-12 is within reach.  Frees nothing
 * that `out` held before. */
musec_status ms_min_norm(ms_error *error, const double *g, int64_t n, int64_t m, double tol,
                         ms_min_norm_result *out);
void         ms_min_norm_free(ms_min_norm_result *result);

#endif
