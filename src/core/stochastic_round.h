/* stochastic_round.h - unbiased stochastic rounding of a float32 to bf16.
 *
 * bf16 is the upper half of a float32.  The lower half, as a fraction f of the distance to the next
 * bf16 number away from zero, is the probability of going there: a draw of 16 bits is added, and
 * what carries over goes there.  So the mean of the result is x, and a sum of many small changes,
 * each below half of that distance, is not lost, as it is when every one is rounded to nearest.
 * Infinities and NaN stay; a number above all of bf16's becomes the largest. */
#ifndef MS_CORE_STOCHASTIC_ROUND_H
#define MS_CORE_STOCHASTIC_ROUND_H

#include "core/rng.h"

/* The bits of a float32 and a draw below 2^16 to the bits of a bf16. */
MS_FN uint16_t ms_bf16_stochastic_round(uint32_t bits, uint32_t draw)
{
    const uint32_t exponent = 0x7f800000u, fraction = 0x007fffffu;
    const uint32_t sum = bits + draw;
    if ((bits & exponent) == exponent) /* a NaN in the lower half alone must not become infinity */
        return (uint16_t)((bits >> 16) | ((bits & fraction) != 0 ? 0x40u : 0u));
    if ((sum & exponent) == exponent) return (uint16_t)(bits >> 16);
    return (uint16_t)(sum >> 16);
}

/* Draw `index` of the stream `key`: eight of them share a block. */
MS_FN uint32_t ms_rand_u16_of(ms_rand4 block, uint32_t index)
{
    return block.v[index % 8 / 2] >> (index % 2 * 16) & 0xffffu;
}

MS_FN uint32_t ms_rand_u16(uint64_t key, uint64_t index)
{
    return ms_rand_u16_of(ms_rand_block(key, index / 8, MS_RAND_U16), (uint32_t)(index % 8));
}

#endif
