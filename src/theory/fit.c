/* fit.c - slopes on logarithmic axes.
 *
 * Runs of one seed at several N share their problem, so the points of one line are not independent,
 * while seeds are: each gives one slope, and the interval is that of the mean of so many. */
#include "theory/fit.h"

#include <math.h>

/* The least-squares slope of (log x, log y), or NaN. */
static double slope_of(const double *x, const double *y, size_t n)
{
    double mean_x = 0.0, mean_y = 0.0, xx = 0.0, xy = 0.0;

    for (size_t i = 0; i < n; i++) {
        if (!(x[i] > 0.0 && y[i] > 0.0) || isinf(x[i]) || isinf(y[i])) return NAN;
        mean_x += log(x[i]) / (double)n;
        mean_y += log(y[i]) / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double dx = log(x[i]) - mean_x;
        xx += dx * dx;
        xy += dx * (log(y[i]) - mean_y);
    }
    return xx > 0.0 ? xy / xx : NAN;
}

/* Tabulated up to nine degrees of freedom; beyond, by a series in 1 / freedom, within 1e-3. */
double ms_theory_student(size_t freedom)
{
    static const double few[] = { 12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                  2.4469,  2.3646, 2.3060, 2.2622 };
    const double        z = 1.959964, f = (double)freedom;

    if (freedom < 1) return NAN;
    if (freedom <= sizeof few / sizeof few[0]) return few[freedom - 1];
    return z + (pow(z, 3) + z) / (4.0 * f) +
           (5.0 * pow(z, 5) + 16.0 * pow(z, 3) + 3.0 * z) / (96.0 * f * f) +
           (3.0 * pow(z, 7) + 19.0 * pow(z, 5) + 17.0 * pow(z, 3) - 15.0 * z) / (384.0 * f * f * f);
}

ms_theory_slope ms_theory_slope_fit(const double *x, const double *y, size_t seeds, size_t n)
{
    ms_theory_slope out = { NAN, NAN, NAN, 0 };
    double          sum = 0.0, squares = 0.0, half;

    for (size_t i = 0; i < seeds; i++) {
        const double slope = slope_of(x, y + i * n, n);
        if (isnan(slope)) continue;
        sum += slope;
        out.seeds++;
    }
    if (out.seeds == 0) return out;
    out.mean = sum / (double)out.seeds;
    if (out.seeds < 2) return out;
    for (size_t i = 0; i < seeds; i++) {
        const double away = slope_of(x, y + i * n, n) - out.mean;
        if (!isnan(away)) squares += away * away;
    }
    half = ms_theory_student(out.seeds - 1) *
           sqrt(squares / (double)(out.seeds - 1) / (double)out.seeds);
    out.low  = out.mean - half;
    out.high = out.mean + half;
    return out;
}
