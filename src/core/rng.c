/* rng.c - Philox-4x32-10 and what is drawn from it.
 *
 * A block of 128 bits is a keyed bijection of a 128-bit counter.  Words 0 and 1 of the counter hold
 * the position in the stream, word 2 the kind of draw, so that numbers of different kinds never
 * share a block:
 *
 *     bits      kind 0: element i is words 0 (low) and 1 (high) of block i
 *     normals   kind 1: elements 2j and 2j+1 are r cos t and r sin t from block j, with
 *               r = sqrt(-2 log u), t = 2 pi v; u from words 0 and 1, v from words 2 and 3
 *     keys      kind 2: words 0 and 1 of the block at the purpose's hash, under the seed
 *
 * Any device that draws must follow this layout.  Everything is integer arithmetic but log, sqrt,
 * cos and sin, so normals agree between devices to the rounding of those. */
#include "core/rng.h"

#include <math.h>

enum { KIND_BITS, KIND_NORMAL, KIND_KEY };

#define TWO_PI 6.283185307179586476925286766559

ms_rand4 ms_philox(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0                = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1                = (uint32_t)p1;
        c2                = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3                = (uint32_t)p0;
        k0 += 0x9E3779B9u; /* Weyl sequences: the golden ratio and sqrt(3) - 1 */
        k1 += 0xBB67AE85u;
    }
    return (ms_rand4){ { c0, c1, c2, c3 } };
}

static ms_rand4 block(uint64_t key, uint64_t position, uint32_t kind)
{
    const uint32_t counter[4] = { (uint32_t)position, (uint32_t)(position >> 32), kind, 0 };
    const uint32_t words[2]   = { (uint32_t)key, (uint32_t)(key >> 32) };
    return ms_philox(counter, words);
}

static uint64_t join(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* The middle of one of 2^52 equal cells of (0, 1).  Exact: with 53 bits and the half, the largest
 * value would round to 1. */
static double to_unit(uint64_t bits) { return ((double)(bits >> 12) + 0.5) * 0x1p-52; }

uint64_t ms_rand_u64(uint64_t key, uint64_t index)
{
    const ms_rand4 b = block(key, index, KIND_BITS);
    return join(b.v[0], b.v[1]);
}

double ms_rand_uniform(uint64_t key, uint64_t index) { return to_unit(ms_rand_u64(key, index)); }

double ms_rand_normal(uint64_t key, uint64_t index)
{
    const ms_rand4 b     = block(key, index / 2, KIND_NORMAL);
    const double   r     = sqrt(-2.0 * log(to_unit(join(b.v[0], b.v[1])))); /* at most 8.58 */
    const double   angle = TWO_PI * to_unit(join(b.v[2], b.v[3]));
    return r * (index % 2 == 0 ? cos(angle) : sin(angle));
}

uint64_t ms_rand_key(uint64_t seed, const char *purpose)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    ms_rand4 b;

    for (const char *c = purpose; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    b = block(seed, hash, KIND_KEY);
    return join(b.v[0], b.v[1]);
}
