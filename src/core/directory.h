/* directory.h - what is in a directory, and being rid of it. */
#ifndef MS_CORE_DIRECTORY_H
#define MS_CORE_DIRECTORY_H

#include "core/status.h"

typedef struct ms_names { /* { 0 } is empty */
    char **at;
    size_t n, room;
} ms_names;

/* Adds all names but hidden ones, in the order of their bytes; on failure some may be there. */
musec_status ms_directory_names(ms_error *e, const char *path, ms_names *out);
void         ms_names_free(ms_names *list);

/* With all that is in it; links are removed, not followed.  One that is not there is removed. */
musec_status ms_directory_remove(ms_error *e, const char *path);

#endif
