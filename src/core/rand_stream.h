/* rand_stream.h - a sequence of draws from one Philox stream, in integers only. */
#ifndef MS_CORE_RAND_STREAM_H
#define MS_CORE_RAND_STREAM_H

#include <stdbool.h>

#include "core/rng.h"

typedef struct ms_rand_stream {
    uint32_t key[2];
    uint32_t block; /* number of the next block */
    ms_rand4 bits;  /* the block in use */
    int      used;  /* words of it that were drawn */
} ms_rand_stream;

static inline ms_rand_stream ms_rand_stream_make(uint64_t key)
{
    return (ms_rand_stream){ .key = { (uint32_t)key, (uint32_t)(key >> 32) }, .used = 4 };
}

/* Draws from 0 to n - 1.  The probabilities differ by less than one part in 2^32 / n. */
static inline uint32_t ms_rand_below(ms_rand_stream *s, uint32_t n)
{
    if (s->used == 4) {
        const uint32_t counter[4] = { s->block++, 0, 0, 0 };
        s->bits                   = ms_philox(counter, s->key);
        s->used                   = 0;
    }
    return (uint32_t)((uint64_t)s->bits.v[s->used++] * n >> 32);
}

/* Is true with probability 1 / n. */
static inline bool ms_rand_one_in(ms_rand_stream *s, uint32_t n)
{
    return ms_rand_below(s, n) == 0;
}

#endif
