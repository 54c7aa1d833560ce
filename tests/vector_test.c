/* vector_test.c - the exponentials of vector.h against libm's in float64.
 *
 * Arguments are evenly spaced in the bits of a float, so that all magnitudes occur.  vector.h
 * promises 2 ulp for exp; with all floats as arguments the largest error was 1 ulp. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "device/cpu/vector.h"

#define STEP 997 /* of the bits from one argument to the next: some 2 million of them */

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double ulp_of(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1.0, exponent - 24);
}

static double apart(double got, double want) { return fabs(got - want) / fabs(want); }

TEST(exp_is_accurate_to_two_ulp)
{
    for (uint32_t bits = 0; bits < 0x42b17218u; bits += STEP) /* up to ln of the largest float */
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = from_bits(bits | sign << 31);
            if (x < -87.3365f) continue;
            const double want = exp((double)x), err = fabs((double)ms_exp(x) - want);
            CHECK(err <= 2.0 * ulp_of(want), "exp(%.9g): %.2f ulp", (double)x, err / ulp_of(want));
        }
}

TEST(exp_is_0_below_and_infinite_above_the_normal_numbers)
{
    const float smallest = ms_exp(-0x1.5d589ep+6f), largest = ms_exp(0x1.62e42ep+6f);
    CHECK(ms_exp(0.0f) == 1.0f && ms_exp(-0.0f) == 1.0f, "exp(0)");
    CHECK(smallest >= 0x1p-126f && smallest <= 0x1.0001p-126f, "%g", (double)smallest);
    CHECK(largest >= 0x1.fff0p+127f && isfinite(largest), "%g", (double)largest);
    CHECK(ms_exp(-0x1.5d58a2p+6f) == 0.0f && ms_exp(-1e30f) == 0.0f && ms_exp(-INFINITY) == 0.0f,
          "below");
    CHECK(isinf(ms_exp(0x1.62e430p+6f)) && isinf(ms_exp(1e30f)) && isinf(ms_exp(INFINITY)),
          "above");
    CHECK(isnan(ms_exp(NAN)) && isnan(ms_exp(-NAN)), "NaN");
}

/* The logistic function, 1 minus it, tanh and its slope, near 0 and where they saturate. */
TEST(logistic_and_tanh_are_accurate_to_1e_6)
{
    for (uint32_t bits = 0; bits < 0x42280000u; bits += STEP) /* up to 42: slopes stay normal */
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float  x = from_bits(bits | sign << 31);
            const double e = exp((double)x), t = tanh((double)x), c = cosh((double)x);
            float        rest, slope;
            const float  s = ms_logistic(x, &rest), th = ms_tanh(x, &slope);
            CHECK(apart((double)s, e / (1.0 + e)) <= 1e-6, "logistic(%.9g)", (double)x);
            CHECK(apart((double)rest, 1.0 / (1.0 + e)) <= 1e-6, "1 - logistic(%.9g)", (double)x);
            CHECK(fabs((double)th - t) <= 1e-6 * fabs(t) + 1e-44, "tanh(%.9g)", (double)x);
            CHECK(apart((double)slope, 1.0 / (c * c)) <= 2e-6, "slope of tanh(%.9g)", (double)x);
        }
}

TEST(logistic_and_tanh_have_their_limits)
{
    float rest, slope;
    CHECK(ms_logistic(INFINITY, &rest) == 1.0f && rest == 0.0f, "infinity");
    CHECK(ms_logistic(-INFINITY, &rest) == 0.0f && rest == 1.0f, "-infinity");
    CHECK(isnan(ms_logistic(NAN, &rest)) && isnan(rest), "NaN");
    CHECK(ms_tanh(INFINITY, &slope) == 1.0f && slope == 0.0f, "infinity");
    CHECK(ms_tanh(-INFINITY, &slope) == -1.0f && slope == 0.0f, "-infinity");
    CHECK(isnan(ms_tanh(NAN, &slope)) && isnan(slope), "NaN");
}
