/* grow.h - lists that grow by one. */
#ifndef MS_CORE_GROW_H
#define MS_CORE_GROW_H

#include <stdlib.h>

#include "core/size.h"

/* Returns a list of n elements of `each` bytes with capacity for one more: `at` itself, or a larger
 * copy of it.  Returns NULL without memory; then the old list is still there. */
static inline void *ms_grow(void *at, size_t n, size_t *capacity, size_t each)
{
    size_t larger = 8, bytes = 0;
    void  *more;

    if (n < *capacity) return at;
    if (*capacity > 0 && !ms_size_mul(*capacity, 2, &larger)) return NULL;
    if (!ms_size_mul(larger, each, &bytes)) return NULL;
    more = realloc(at, bytes);
    if (more != NULL) *capacity = larger;
    return more;
}

#endif
