/* fit.h - the exponent of a power law from runs with several seeds, and how sure it is. */
#ifndef MS_THEORY_FIT_H
#define MS_THEORY_FIT_H

#include <stddef.h>

typedef struct ms_theory_slope {
    double mean;      /* of the seeds' own slopes */
    double low, high; /* 95 % for that mean, by Student's t; NaN with fewer than two seeds */
    size_t seeds;
} ms_theory_slope;

/* y: (seeds, n), row by row; x: (n).  Each seed's slope is that of the least-squares line through
 * (log x, log y); a seed with a value that has no logarithm is left out.  NaN where nothing is
 * there to fit: fewer than two different x, or no seed. */
ms_theory_slope ms_theory_slope_fit(const double *x, const double *y, size_t seeds, size_t n);

/* The 97.5 % quantile of Student's t, freedom >= 1. */
double ms_theory_student(size_t freedom);

#endif
