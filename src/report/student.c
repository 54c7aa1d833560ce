/* student.c - see student.h.
 *
 * For whole degrees of freedom v the probability has a closed form in u = atan(t / sqrt(v))
 * (Abramowitz and Stegun, 26.7.3 and 26.7.4): with c = cos u
 *     odd v:   2/pi (u + sin u (c + 2/3 c^3 + ... + (2 4 ... (v-3)) / (3 5 ... (v-2)) c^(v-2)))
 *     even v:  sin u (1 + 1/2 c^2 + ... + (1 3 ... (v-3)) / (2 4 ... (v-2)) c^(v-2)) */
#include "report/student.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static double probability(double t, size_t freedom)
{
    const double u = atan(t / sqrt((double)freedom)), c = cos(u);
    double       sum = 0.0, term = freedom % 2 == 0 ? 1.0 : c;

    for (size_t k = freedom % 2 == 0 ? 0 : 1; k + 2 <= freedom; k += 2) {
        sum += term;
        term *= (double)(k + 1) / (double)(k + 2) * c * c;
    }
    return freedom % 2 == 0 ? sin(u) * sum : 2.0 / pi * (u + sin(u) * sum);
}

double ms_student_t(double level, size_t freedom)
{
    double low = 0.0, high = 1.0;

    while (probability(high, freedom) < level)
        high *= 2.0;
    for (int i = 0; i < 100; i++) {
        const double middle = 0.5 * (low + high);
        if (probability(middle, freedom) < level)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

ms_interval ms_interval_of(const double *x, size_t n)
{
    ms_interval out = { .mean = NAN, .half = NAN, .n = n };
    double      sum = 0.0, squares = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    if (n > 0) out.mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - out.mean) * (x[i] - out.mean);
    if (n > 1)
        out.half = ms_student_t(MS_CONFIDENCE, n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    return out;
}
