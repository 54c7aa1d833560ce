/* rng.h - counter-based random numbers: Philox-4x32 with ten rounds (Salmon et al., SC 2011).
 *
 * A draw is a function of (key, counter) alone, so any element can be drawn anywhere, in any order,
 * on any device, and a resumed run sees the same numbers.
 *
 * A block of 128 bits is a keyed bijection of a 128-bit counter.  Words 0 and 1 of the counter hold
 * the position in the stream, word 2 the kind of draw, so that numbers of different kinds never
 * share a block:
 *
 *     bits      kind 0: element i is words 0 (low) and 1 (high) of block i
 *     normals   kind 1: elements 2j and 2j+1 are r cos t and r sin t from block j, with
 *               r = sqrt(-2 log u), t = 2 pi v; u from words 0 and 1, v from words 2 and 3
 *     keys      kind 2: words 0 and 1 of the block at the purpose's hash, under the seed
 *     u16       kind 3: elements 8j to 8j+7 are the halves of block j, low ones first
 *               (stochastic_round.h)
 *
 * Everything is integer arithmetic but log, sqrt, cos and sin, so normals agree between devices to
 * the rounding of those. */
#ifndef MS_CORE_RNG_H
#define MS_CORE_RNG_H

#include <math.h>
#include <stdint.h>

#include "core/fn.h"

#ifdef __cplusplus /* CUDA files are */
extern "C" {
#endif

typedef struct ms_rand4 {
    uint32_t v[4];
} ms_rand4;

enum { MS_RAND_BITS, MS_RAND_NORMAL, MS_RAND_KEY, MS_RAND_U16 }; /* kinds of draw */

MS_FN ms_rand4 ms_philox(const uint32_t counter[4], const uint32_t key[2])
{
    ms_rand4 c  = { { counter[0], counter[1], counter[2], counter[3] } };
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c.v[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c.v[2];
        c.v[0]            = (uint32_t)(p1 >> 32) ^ c.v[1] ^ k0;
        c.v[1]            = (uint32_t)p1;
        c.v[2]            = (uint32_t)(p0 >> 32) ^ c.v[3] ^ k1;
        c.v[3]            = (uint32_t)p0;
        k0 += 0x9E3779B9u; /* Weyl sequences: the golden ratio and sqrt(3) - 1 */
        k1 += 0xBB67AE85u;
    }
    return c;
}

MS_FN ms_rand4 ms_rand_block(uint64_t key, uint64_t position, uint32_t kind)
{
    const uint32_t counter[4] = { (uint32_t)position, (uint32_t)(position >> 32), kind, 0 };
    const uint32_t words[2]   = { (uint32_t)key, (uint32_t)(key >> 32) };
    return ms_philox(counter, words);
}

MS_FN uint64_t ms_rand_join(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* The middle of one of 2^52 equal cells of (0, 1).  Exact: with 53 bits and the half, the largest
 * value would round to 1. */
MS_FN double ms_rand_unit(uint64_t bits) { return ((double)(bits >> 12) + 0.5) * 0x1p-52; }

/* Element `index` of the stream `key`, each index independent of the others. */
MS_FN uint64_t ms_rand_u64(uint64_t key, uint64_t index)
{
    const ms_rand4 b = ms_rand_block(key, index, MS_RAND_BITS);
    return ms_rand_join(b.v[0], b.v[1]);
}

MS_FN double ms_rand_uniform(uint64_t key, uint64_t index) /* in (0, 1) */
{
    return ms_rand_unit(ms_rand_u64(key, index));
}

MS_FN double ms_rand_normal(uint64_t key, uint64_t index) /* mean 0, deviation 1 */
{
    const ms_rand4 b     = ms_rand_block(key, index / 2, MS_RAND_NORMAL); /* Box and Muller's */
    const double   u     = ms_rand_unit(ms_rand_join(b.v[0], b.v[1]));
    const double   angle = 6.283185307179586476925286766559 /* 2 pi */
                         * ms_rand_unit(ms_rand_join(b.v[2], b.v[3]));
    return sqrt(-2.0 * log(u)) /* at most 8.58 */ * (index % 2 == 0 ? cos(angle) : sin(angle));
}

/* A key for a purpose: streams of different (seed, purpose) pairs do not overlap. */
uint64_t ms_rand_key(uint64_t seed, const char *purpose);

#ifdef __cplusplus
}
#endif
#endif
