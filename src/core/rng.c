/* rng.c - keys of random streams; the draws themselves are in rng.h, for all devices. */
#include "core/rng.h"

uint64_t ms_rand_key(uint64_t seed, const char *purpose)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    ms_rand4 b;

    for (const char *c = purpose; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    b = ms_rand_block(seed, hash, MS_RAND_KEY);
    return ms_rand_join(b.v[0], b.v[1]);
}
