/* student.h - means of a few numbers with their confidence intervals. */
#ifndef MS_REPORT_STUDENT_H
#define MS_REPORT_STUDENT_H

#include <stddef.h>

#define MS_CONFIDENCE 0.95 /* level of all intervals */

typedef struct ms_interval {
    double mean, half; /* the interval is mean - half to mean + half; half is NaN for one number */
    size_t n;
} ms_interval;

/* Student's interval for the mean of n independent, normally distributed numbers. */
ms_interval ms_interval_of(const double *x, size_t n);
/* The t with P(|T| <= t) = level for `freedom` >= 1 degrees of freedom. */
double ms_student_t(double level, size_t freedom);

#endif
