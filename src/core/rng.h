/* rng.h - counter-based random numbers: Philox-4x32 with ten rounds (Salmon et al., SC 2011).
 *
 * A draw is a function of (key, counter) alone, so any element can be drawn anywhere, in any order,
 * on any device, and a resumed run sees the same numbers. */
#ifndef MS_CORE_RNG_H
#define MS_CORE_RNG_H

#include <stdint.h>

typedef struct ms_rand4 {
    uint32_t v[4];
} ms_rand4;

ms_rand4 ms_philox(const uint32_t counter[4], const uint32_t key[2]);

/* Element `index` of the stream `key`, each index independent of the others. */
uint64_t ms_rand_u64(uint64_t key, uint64_t index);
double   ms_rand_uniform(uint64_t key, uint64_t index); /* in (0, 1), 53 bits */
double   ms_rand_normal(uint64_t key, uint64_t index);  /* mean 0, deviation 1, by Box and Muller */

/* A key for a purpose: streams of different (seed, purpose) pairs do not meet. */
uint64_t ms_rand_key(uint64_t seed, const char *purpose);

#endif
