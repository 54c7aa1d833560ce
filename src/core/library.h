/* library.h - shared libraries that are opened when they are used. */
#ifndef MS_CORE_LIBRARY_H
#define MS_CORE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum { MS_LIBRARY_SAID = 512 };

/* Does the loader, which has no code but words, speak of memory?  there: the file is there, so if
 * it is not found, there was no memory for its name. */
bool ms_library_is_memory(const char *said, bool there);

/* Opens the first of these names, up to NULL, that the process has loaded; else the first that the
 * loader finds, or that lies where CUDA's installers put libraries.  Returns NULL where none is
 * found, and where one is there but the memory for it is not: then `said` is what the loader says,
 * for another version would not give the same bits.  Close it with dlclose, or never. */
void *ms_library_open_first(const char *const *names, char said[MS_LIBRARY_SAID]);

#endif
