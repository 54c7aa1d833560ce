/* halves.h - a float32 as a bf16 number and 16 more bits: weights whose model reads bf16.
 *
 *     bits of the float32 = (high << 16) + low,   low from -2^15 to 2^15 - 1
 *
 * so that high is the float32 rounded to nearest (ties away from zero), where it would be rounded
 * towards zero if low were the lower bits as they are.  Every number, infinities included, is
 * joined to the bits that were split; a NaN stays one.
 *
 * The upper half may be overwritten by somebody who does not know of the lower one.  Then the pair
 * is within half a unit in the last place of what was written, but for three numbers that borrow or
 * carry would turn into others: zero minus something, and infinities plus something.  split()
 * makes no such pairs; join() takes them as if low were 0. */
#ifndef MS_CORE_HALVES_H
#define MS_CORE_HALVES_H

#include <stdint.h>

#include "core/fn.h"

typedef struct ms_halves {
    uint16_t high; /* bits of a bf16 */
    int16_t  low;
} ms_halves;

MS_FN uint32_t ms_halves_join(ms_halves h)
{
    const uint32_t size = h.high & 0x7fffu, high = (uint32_t)h.high << 16;
    if ((size == 0 && h.low < 0) || (size >= 0x7f80u && h.low > 0)) return high;
    return high + (uint32_t)(int32_t)h.low;
}

MS_FN ms_halves ms_halves_split(uint32_t bits)
{
    ms_halves h;
    if ((bits & 0x7fffffffu) > 0x7f800000u) { /* a NaN; rounding could carry into the sign */
        h.high = (uint16_t)(bits >> 16 | 0x40u);
        h.low  = 0;
    } else {
        h.high = (uint16_t)((bits + 0x8000u) >> 16);
        h.low  = (int16_t)(int32_t)((bits & 0x7fffu) - (bits & 0x8000u));
    }
    return h;
}

#endif
