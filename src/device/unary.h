/* unary.h - functions of one number, written once for all devices.
 *
 * A row of MS_UNARY_MAP (device.h) is a kind, and here it has two functions: its value at x, and
 * its gradient times dy.  MS_UNARY_FNS defines both in a number type, by a logistic function of
 * that type, which also gives 1 minus its value without loss.
 *
 * gelu is x / 2 (1 + tanh(z)), z = sqrt(2 / pi) (x + 0.044715 x^3), computed as x logistic(2 z):
 * nothing cancels where x is negative.  gelu_erf is x / 2 (1 + erf(x / sqrt(2))), computed in
 * float64 by erfc for the same reason; it is for small matrices. */
#ifndef MS_DEVICE_UNARY_H
#define MS_DEVICE_UNARY_H

#include <math.h>

#include "core/fn.h"
#include "device/device.h"

#define MS_GELU_LINEAR 1.5957691216057308 /* 2 sqrt(2 / pi) */
#define MS_GELU_CUBIC  (1.5957691216057308 * 0.044715)

#define MS_SQRT_HALF   0.7071067811865475244
#define MS_NORMAL_PEAK 0.3989422804014326779 /* 1 / sqrt(2 pi) */

MS_FN double ms_normal_cdf(double x) { return 0.5 * erfc(-x * MS_SQRT_HALF); }
MS_FN double ms_normal_density(double x) { return MS_NORMAL_PEAK * exp(-0.5 * x * x); }

/* Comparisons are written so that NaN stays NaN. */
#define MS_UNARY_FNS(Real, suffix, logistic)                                                  \
    MS_FN Real ms_sign_##suffix(Real x)                                                       \
    {                                                                                         \
        return x == x ? (Real)((x > (Real)0) - (x < (Real)0)) : x;                            \
    }                                                                                         \
    MS_FN Real ms_sign_grad_##suffix(Real x, Real dy)                                         \
    {                                                                                         \
        (void)x, (void)dy;                                                                    \
        return (Real)0;                                                                       \
    }                                                                                         \
    MS_FN Real ms_relu2_##suffix(Real x) { return x <= (Real)0 ? (Real)0 : x * x; }           \
    MS_FN Real ms_relu2_grad_##suffix(Real x, Real dy)                                        \
    {                                                                                         \
        return x <= (Real)0 ? (Real)0 : (Real)2 * x * dy;                                     \
    }                                                                                         \
    MS_FN Real ms_gelu_##suffix(Real x)                                                       \
    {                                                                                         \
        Real rest;                                                                            \
        return x * logistic(x * ((Real)MS_GELU_LINEAR + (Real)MS_GELU_CUBIC * x * x), &rest); \
    }                                                                                         \
    MS_FN Real ms_gelu_grad_##suffix(Real x, Real dy)                                         \
    {                                                                                         \
        const Real cubic = (Real)MS_GELU_CUBIC * x * x;                                       \
        Real       rest;                                                                      \
        const Real s = logistic(x * ((Real)MS_GELU_LINEAR + cubic), &rest), t = s * rest;     \
        return (t > (Real)0 ? s + x * t * ((Real)MS_GELU_LINEAR + (Real)3 * cubic) : s) * dy; \
    }                                                                                         \
    MS_FN Real ms_gelu_erf_##suffix(Real x) { return (Real)(x * ms_normal_cdf((double)x)); }  \
    MS_FN Real ms_gelu_erf_grad_##suffix(Real x, Real dy)                                     \
    {                                                                                         \
        const double at = (double)x;                                                          \
        return (Real)(ms_normal_cdf(at) + at * ms_normal_density(at)) * dy;                   \
    }                                                                                         \
    MS_FN Real ms_sigmoid_##suffix(Real x)                                                    \
    {                                                                                         \
        Real rest;                                                                            \
        return logistic(x, &rest);                                                            \
    }                                                                                         \
    MS_FN Real ms_sigmoid_grad_##suffix(Real x, Real dy)                                      \
    {                                                                                         \
        Real       rest;                                                                      \
        const Real s = logistic(x, &rest);                                                    \
        return s * rest * dy;                                                                 \
    }

MS_FN double ms_logistic_f64(double x, double *rest)
{
    const double e = exp(-fabs(x)), large = 1.0 / (1.0 + e), small = e * large;
    *rest = x < 0.0 ? large : small;
    return x < 0.0 ? small : large;
}

#endif
