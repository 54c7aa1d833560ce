/* dice.h - draws in a row from one Philox stream, in integers only. */
#ifndef MS_DATA_DICE_H
#define MS_DATA_DICE_H

#include <stdbool.h>

#include "core/rng.h"

typedef struct ms_dice {
    uint32_t key[2];
    uint32_t block;
    ms_rand4 bits;
    int      used; /* words of bits */
} ms_dice;

static inline ms_dice ms_dice_make(uint64_t key)
{
    return (ms_dice){ .key = { (uint32_t)key, (uint32_t)(key >> 32) }, .used = 4 };
}

/* 0..n-1, alike but for a part in 2^32 / n. */
static inline uint32_t ms_dice_below(ms_dice *d, uint32_t n)
{
    if (d->used == 4) {
        const uint32_t counter[4] = { d->block++, 0, 0, 0 };
        d->bits                   = ms_philox(counter, d->key);
        d->used                   = 0;
    }
    return (uint32_t)((uint64_t)d->bits.v[d->used++] * n >> 32);
}

static inline bool ms_dice_one_in(ms_dice *d, uint32_t n) { return ms_dice_below(d, n) == 0; }

#endif
