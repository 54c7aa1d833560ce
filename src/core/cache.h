/* cache.h - results that are the same every time on this machine, cached in files.
 *
 * They lie in $MUSEC_CACHE, else in $XDG_CACHE_HOME/musec, else in $HOME/.cache/musec; MUSEC_CACHE
 * being "off" or "" keeps none.  What is kept may be gone or damaged at any time: nothing here is a
 * failure, and nothing may depend on it but time. */
#ifndef MS_CORE_CACHE_H
#define MS_CORE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* Loads the bytes cached under this name, which the caller frees.  Returns false if there are none
 * or they are damaged. */
bool ms_cache_load(const char *name, void **data, size_t *bytes);
/* Replaces what was cached under this name, atomically. */
void ms_cache_save(const char *name, const void *data, size_t bytes);

/* Formats a name, in which all but letters, digits and dots become dashes. */
#define MS_CACHE_NAME 160
void ms_cache_name(char name[MS_CACHE_NAME], const char *fmt, ...) MS_PRINTF(2, 3);

#endif
