/* half.h - numbers of 16 bits: bf16, the upper half of a float32, and f16 of IEEE 754.
 *
 * From float64 they are rounded once, to nearest, ties to even: by way of a float32 that is
 * truncated and whose last bit is sticky, which means set if the value was not exact. */
#ifndef MS_CORE_HALF_H
#define MS_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ms_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t ms_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ms_float_of_bf16(uint16_t h) { return ms_float_of_bits((uint32_t)h << 16); }

static inline float ms_float_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mantissa = h & 0x3FFu;
    const uint32_t exponent = (h >> 10) & 0x1Fu;
    if (exponent == 0x1F) /* infinity, or NaN with its payload */
        return ms_float_of_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent > 0) return ms_float_of_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
    /* zero and subnormal: mantissa / 2^24, which float32 holds exactly */
    return ms_float_of_bits(sign | ms_bits_of_float((float)mantissa * 0x1p-24f));
}

/* The bits of the value truncated to float32, the last one set if inexact.  NaN stays NaN. */
static inline uint32_t ms_float_bits_cut(double value)
{
    const float  near = (float)value;
    uint32_t     bits = ms_bits_of_float(near);
    const double size = value < 0.0 ? -value : value, got = near < 0.0f ? -(double)near : near;
    if (value != value) return bits | 1u << 22;
    if (got > size) bits--; /* it was rounded away from 0, possibly to infinity */
    return got == size ? bits : bits | 1u;
}

/* bits / 2^shift to nearest, ties to even. */
static inline uint32_t ms_shift_even(uint32_t bits, unsigned shift)
{
    const uint32_t half = 1u << (shift - 1), rest = bits & ((1u << shift) - 1);
    const uint32_t kept = bits >> shift;
    return kept + (rest > half || (rest == half && (kept & 1u) != 0) ? 1u : 0u);
}

static inline uint16_t ms_bf16_of_double(double value)
{
    const uint32_t bits = ms_float_bits_cut(value);
    if (value != value) return (uint16_t)(bits >> 16);
    return (uint16_t)ms_shift_even(bits, 16);
}

static inline uint16_t ms_f16_of_double(double value)
{
    const uint32_t bits = ms_float_bits_cut(value), sign = bits >> 16 & 0x8000u;
    const uint32_t size     = bits & 0x7FFFFFFFu;
    const int      exponent = (int)(size >> 23) - 127;
    if (value != value) return (uint16_t)(sign | 0x7E00u | (bits >> 13 & 0x3FFu));
    if (exponent > 15) return (uint16_t)(sign | 0x7C00u);
    if (exponent < -25) return (uint16_t)sign;
    if (exponent < -14) /* subnormal: a multiple of 2^-24 */
        return (uint16_t)(sign |
                          ms_shift_even((size & 0x7FFFFFu) | 0x800000u, (unsigned)(-1 - exponent)));
    return (uint16_t)(sign | ms_shift_even(size - ((127u - 15u) << 23), 13));
}

#endif
