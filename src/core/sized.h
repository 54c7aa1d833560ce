/* sized.h - structs that callers may have been built with another version of.
 *
 * The first field of such a struct is its size in the caller.  Fields are only added at the end:
 * the caller may lack some that we know, or have some that we do not, whose default is 0. */
#ifndef MS_CORE_SIZED_H
#define MS_CORE_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { MS_SIZED_MAX = 65536 }; /* bytes; a larger struct was not initialized */

static inline bool ms_sized_fits(size_t size, size_t min_size)
{
    return size >= min_size && size <= MS_SIZED_MAX;
}

/* Copies `defaults`, of our size, as far as the caller's struct reaches, and clears the rest. */
static inline void ms_sized_fill(void *to, size_t size, const void *defaults, size_t ours)
{
    memset(to, 0, size);
    memcpy(to, defaults, size < ours ? size : ours);
}

/* Copies the caller's fields over the defaults in `to`.  Returns false if the caller sets a field
 * that this version does not know. */
static inline bool ms_sized_take(const void *from, size_t size, void *to, size_t ours)
{
    const unsigned char *bytes = from;
    memcpy(to, from, size < ours ? size : ours);
    for (size_t i = ours; i < size; i++)
        if (bytes[i] != 0) return false;
    return true;
}

#endif
