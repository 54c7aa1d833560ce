/* vector.h - exponentials for loops that the compiler turns into vector code.
 *
 * They have no branch, call or table, so a loop over one of them uses whole registers.
 *     exp(x) = 2^n e^r,  n = the integer next to x / ln 2,  |r| <= ln 2 / 2,
 *     e^r = 1 + r + r^2 p(r),
 * where p is the polynomial of degree 4 with the smallest relative error of e^r (3e-9; the rest of
 * an error below 2 units in the last place is rounding).  NaN stays NaN.  Results that would not be
 * normal numbers are 0 or infinity.
 *
 * Fused multiply-adds are explicit, and used only where the processor has them: results differ in
 * the last bit between processors with and without, never on one processor. */
#ifndef MS_DEVICE_CPU_VECTOR_H
#define MS_DEVICE_CPU_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define MS_FMA(a, b, c) fmaf(a, b, c)
#else
#define MS_FMA(a, b, c) ((a) * (b) + (c))
#endif

static inline float ms_exp(float x)
{
    const float to_integer = 0x1.8p23f; /* added, it leaves an integer in the lowest bits */
    const float shifted    = MS_FMA(x, 0x1.715476p+0f, to_integer);
    const float n          = shifted - to_integer;
    const float r          = MS_FMA(n, -0x1.7f7d1cp-20f, MS_FMA(n, -0x1.62e4p-1f, x));
    float       p          = MS_FMA(r, 0x1.6a23cep-10f, 0x1.123a2p-7f);
    uint32_t    bits, exponent;
    p = MS_FMA(r, p, 0x1.5558f2p-5f);
    p = MS_FMA(r, p, 0x1.555492p-3f);
    p = MS_FMA(r, p, 0x1.fffffcp-2f);
    p = MS_FMA(r * r, p, r) + 1.0f;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&exponent, &shifted, sizeof exponent);
    bits += exponent << 23;
    memcpy(&p, &bits, sizeof p);
    p = x < -0x1.5d589ep+6f ? 0.0f : p; /* ln of the smallest normal number */
    p = x > 0x1.62e42ep+6f ? INFINITY : p;
    return x == x ? p : x;
}

/* 1 / (1 + exp(-x)); *rest is 1 minus that, without loss where it is small. */
static inline float ms_logistic(float x, float *rest)
{
    const float e = ms_exp(-fabsf(x)), large = 1.0f / (1.0f + e), small = e * large;
    *rest = x < 0.0f ? large : small;
    return x < 0.0f ? small : large;
}

/* *slope is 1 - tanh^2.  (1 - e) / (1 + e), e = exp(-2 |x|), and the series where that cancels. */
static inline float ms_tanh(float x, float *slope)
{
    const float e = ms_exp(-2.0f * fabsf(x)), over = 1.0f / (1.0f + e);
    const float xx   = x * x;
    const float far  = (1.0f - e) * over;
    float       near = MS_FMA(xx, -0x1.226e36p-7f, 0x1.664f48p-6f); /* -1382/155925, 62/2835 */
    near             = MS_FMA(xx, near, -0x1.ba1ba2p-5f);           /* -17/315 */
    near             = MS_FMA(xx, near, 0x1.111112p-3f);            /* 2/15 */
    near             = MS_FMA(xx, near, -0x1.555556p-2f);           /* -1/3 */
    near             = MS_FMA(xx * x, near, x);
    *slope           = 4.0f * e * over * over;
    return fabsf(x) < 0.3f ? near : x < 0.0f ? -far : far;
}

#endif
