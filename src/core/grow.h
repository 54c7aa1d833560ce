/* grow.h - lists that grow by one. */
#ifndef MS_CORE_GROW_H
#define MS_CORE_GROW_H

#include <stdlib.h>

#include "core/size.h"

/* A list of n things of `each` bytes with room for one more: the same or a wider one.  NULL without
 * memory: the old one is still there then. */
static inline void *ms_grow(void *at, size_t n, size_t *room, size_t each)
{
    size_t wider = 8, bytes = 0;
    void  *more;

    if (n < *room) return at;
    if (*room > 0 && !ms_size_mul(*room, 2, &wider)) return NULL;
    if (!ms_size_mul(wider, each, &bytes)) return NULL;
    more = realloc(at, bytes);
    if (more != NULL) *room = wider;
    return more;
}

#endif
