/* rng_test.c - Philox against its published vectors, the draws against their distributions.
 *
 * The draws are fixed, so that a statistical test always passes or always fails.  Bounds are six
 * standard deviations of the statistic under the true distribution: a correct generator violates
 * one with probability 2e-9. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"

#define N      200000
#define SIGMAS 6.0

TEST(philox_agrees_with_published_vectors)
{
    static const struct { /* Random123, kat_vectors, philox 4x32 10 */
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        const ms_rand4 got = ms_philox(cases[c].counter, cases[c].key);
        CHECK(memcmp(got.v, cases[c].want, sizeof got.v) == 0, "vector %zu: %08x %08x %08x %08x", c,
              got.v[0], got.v[1], got.v[2], got.v[3]);
    }
}

/* The layout that rng.h documents, which other devices must follow. */
TEST(draws_follow_the_layout)
{
    static const uint64_t key = 0x0123456789abcdefu, index = 0x100000007u; /* odd, above 2^32 */
    const uint32_t        k[2]    = { 0x89abcdef, 0x01234567 };
    const uint32_t        bits[4] = { 7, 1, 0, 0 }, pair[4] = { 0x80000003, 0, 1, 0 };
    const ms_rand4        b = ms_philox(bits, k), p = ms_philox(pair, k);
    const double          u = ((double)(((uint64_t)p.v[1] << 32 | p.v[0]) >> 12) + 0.5) * 0x1p-52;
    const double          v = ((double)(((uint64_t)p.v[3] << 32 | p.v[2]) >> 12) + 0.5) * 0x1p-52;
    const double          r = sqrt(-2.0 * log(u)), t = 2.0 * acos(-1.0) * v;

    CHECK(ms_rand_u64(key, index) == ((uint64_t)b.v[1] << 32 | b.v[0]), "bits");
    CHECK(fabs(ms_rand_normal(key, index) - r * sin(t)) <= 1e-14 * r, "second of the pair");
    CHECK(fabs(ms_rand_normal(key, index - 1) - r * cos(t)) <= 1e-14 * r, "first of the pair");
}

static void moments(double (*draw)(uint64_t, uint64_t), uint64_t key, double *mean, double *var,
                    double *lag1)
{
    double sum = 0.0, sum2 = 0.0, cross = 0.0, last = draw(key, N), m;
    for (uint64_t i = 0; i < N; i++)
        sum += draw(key, i);
    m = sum / N;
    for (uint64_t i = 0; i < N; i++) {
        const double d = draw(key, i) - m;
        sum2 += d * d;
        cross += d * (last - m);
        last = d + m;
    }
    *mean = m;
    *var  = sum2 / N;
    *lag1 = cross / sum2;
}

TEST(uniform_draws_are_uniform)
{
    double mean, var, lag1, chi2 = 0.0;
    size_t bin[256] = { 0 };

    moments(ms_rand_uniform, 42, &mean, &var, &lag1);
    CHECK(fabs(mean - 0.5) <= SIGMAS * sqrt(1.0 / 12.0 / N), "mean %g", mean);
    CHECK(fabs(var - 1.0 / 12.0) <= SIGMAS * sqrt(1.0 / 180.0 / N), "variance %g", var);
    CHECK(fabs(lag1) <= SIGMAS / sqrt(N), "neighbours correlate by %g", lag1);
    for (uint64_t i = 0; i < N; i++) {
        const double u = ms_rand_uniform(42, i);
        CHECK(u > 0.0 && u < 1.0, "draw %llu is %g", (unsigned long long)i, u);
        bin[(int)(u * 256.0)]++;
    }
    for (size_t b = 0; b < COUNT(bin); b++) {
        const double want = N / 256.0, d = (double)bin[b] - want;
        chi2 += d * d / want;
    }
    CHECK(fabs(chi2 - 255.0) <= SIGMAS * sqrt(2.0 * 255.0), "chi^2 of 256 bins is %g", chi2);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

TEST(normal_draws_are_normal)
{
    static double x[N];
    double        mean, var, lag1, ks = 0.0, third = 0.0, fourth = 0.0;

    moments(ms_rand_normal, 42, &mean, &var, &lag1);
    CHECK(fabs(mean) <= SIGMAS / sqrt(N), "mean %g", mean);
    CHECK(fabs(var - 1.0) <= SIGMAS * sqrt(2.0 / N), "variance %g", var);
    CHECK(fabs(lag1) <= SIGMAS / sqrt(N), "neighbours, half of them pairs, correlate by %g", lag1);
    for (uint64_t i = 0; i < N; i++) {
        x[i] = ms_rand_normal(42, i);
        third += x[i] * x[i] * x[i] / N;
        fourth += x[i] * x[i] * x[i] * x[i] / N;
    }
    CHECK(fabs(third) <= SIGMAS * sqrt(15.0 / N), "third moment %g", third);
    CHECK(fabs(fourth - 3.0) <= SIGMAS * sqrt(96.0 / N), "fourth moment %g", fourth);
    qsort(x, N, sizeof x[0], ascending);
    for (size_t i = 0; i < N; i++) {
        const double cdf = 0.5 * erfc(-x[i] / sqrt(2.0));
        ks               = fmax(ks, fmax(cdf - (double)i / N, (double)(i + 1) / N - cdf));
    }
    /* Kolmogorov: P(sqrt(N) ks > 3.3) = 2 exp(-2 * 3.3^2) = 7e-10 */
    CHECK(ks * sqrt(N) <= 3.3, "distance from the normal distribution %g", ks);
}

/* Even and odd elements come from one block; neither they nor their squares may correlate. */
TEST(normal_pairs_are_independent)
{
    double xy = 0.0, x2y2 = 0.0;

    for (uint64_t i = 0; i < N; i++) {
        const double x = ms_rand_normal(7, 2 * i), y = ms_rand_normal(7, 2 * i + 1);
        xy += x * y / N;
        x2y2 += (x * x - 1.0) * (y * y - 1.0) / N;
    }
    CHECK(fabs(xy) <= SIGMAS / sqrt(N), "products average %g", xy);
    CHECK(fabs(x2y2) <= SIGMAS * 2.0 / sqrt(N), "products of squares average %g", x2y2);
}

static int ascending_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(keys_of_seeds_and_purposes_differ)
{
    static const char *const purposes[] = { "init", "data", "init ", "Init", "", "drop", "tini" };
    static uint64_t          keys[COUNT(purposes) * 1000];
    double                   cross = 0.0;
    size_t                   n     = 0;

    for (size_t p = 0; p < COUNT(purposes); p++)
        for (uint64_t seed = 0; seed < 1000; seed++)
            keys[n++] = ms_rand_key(seed, purposes[p]);
    qsort(keys, n, sizeof keys[0], ascending_u64);
    for (size_t i = 1; i < n; i++)
        CHECK(keys[i] != keys[i - 1], "key %zu twice", i);
    CHECK(ms_rand_key(3, "init") == ms_rand_key(3, "init"), "a key is a function of its arguments");
    for (uint64_t i = 0; i < N; i++)
        cross += ms_rand_normal(ms_rand_key(0, "init"), i) *
                 ms_rand_normal(ms_rand_key(1, "init"), i) / N;
    CHECK(fabs(cross) <= SIGMAS / sqrt(N), "streams of two seeds correlate by %g", cross);
}
