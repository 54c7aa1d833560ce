/* size.h - size arithmetic that cannot wrap around, and the smaller and larger of two sizes. */
#ifndef MS_CORE_SIZE_H
#define MS_CORE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline int64_t ms_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ms_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* *out <- a b.  Returns false, and leaves *out alone, if the product does not fit. */
static inline bool ms_size_mul(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

/* *out <- a + b.  Returns false, and leaves *out alone, if the sum does not fit. */
static inline bool ms_size_add(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

/* *out <- count rows cols each, in bytes.  Returns false, and leaves *out alone, if a factor is
 * negative or the product does not fit a ptrdiff_t. */
static inline bool ms_size_stack(int64_t count, int64_t rows, int64_t cols, size_t each,
                                 size_t *out)
{
    size_t n = 0;
    if (count < 0 || rows < 0 || cols < 0) return false;
    if (!ms_size_mul((size_t)count, (size_t)rows, &n) || !ms_size_mul(n, (size_t)cols, &n) ||
        !ms_size_mul(n, each, &n) || n > PTRDIFF_MAX)
        return false;
    *out = n;
    return true;
}

#endif
