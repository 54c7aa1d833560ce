/* cache.h - what was found out once on this machine and would be found out again, kept in files.
 *
 * They lie in $MUSEC_CACHE, else in $XDG_CACHE_HOME/musec, else in $HOME/.cache/musec; MUSEC_CACHE
 * being "off" or "" keeps none.  What is kept may be gone or damaged at any time: nothing here is a
 * failure, and nothing may depend on it but time. */
#ifndef MS_CORE_CACHE_H
#define MS_CORE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* The bytes kept under this name, to be freed; false: there are none that are whole. */
bool ms_cache_load(const char *name, void **data, size_t *bytes);
/* In place of what was there, at once or not at all. */
void ms_cache_save(const char *name, const void *data, size_t bytes);

/* name <- the words that fmt makes, with what is not a letter, a digit or a dot made a dash. */
#define MS_CACHE_NAME 160
void ms_cache_name(char name[MS_CACHE_NAME], const char *fmt, ...) MS_PRINTF(2, 3);

#endif
