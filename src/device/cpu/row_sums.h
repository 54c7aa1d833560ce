/* row_sums.h - sums along a row in float64: SUM_LANES partial sums that are added in a fixed order,
 * so that the compiler makes vector code of them and the bits do not depend on it. */
#ifndef MS_DEVICE_CPU_ROW_SUMS_H
#define MS_DEVICE_CPU_ROW_SUMS_H

#include <stdint.h>

enum { SUM_LANES = 16 }; /* floats in a cache line */

/* Adds the lanes pairwise; written out, since a loop that halves its bound is not unrolled. */
static inline double sum_lanes(double *lane)
{
    for (int l = 0; l < 8; l++)
        lane[l] += lane[l + 8];
    for (int l = 0; l < 4; l++)
        lane[l] += lane[l + 4];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static inline double dot(int64_t n, const float *x, const float *y)
{
    double  lane[SUM_LANES] = { 0.0 }, rest = 0.0;
    int64_t j = 0;
    for (; j + SUM_LANES <= n; j += SUM_LANES)
#pragma omp simd
        for (int l = 0; l < SUM_LANES; l++)
            lane[l] += (double)x[j + l] * (double)y[j + l];
    for (; j < n; j++)
        rest += (double)x[j] * (double)y[j];
    return sum_lanes(lane) + rest;
}

#endif
