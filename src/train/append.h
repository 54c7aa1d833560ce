/* append.h - a file that grows by whole records.
 *
 * A record is written in one piece, and removed again if it did not fit, so that the file always
 * consists of whole records.  A killed process loses nothing that was written; a loss of power may
 * lose what was written after the last sync. */
#ifndef MS_TRAIN_APPEND_H
#define MS_TRAIN_APPEND_H

#include <stdbool.h>

#include "core/file.h"

typedef struct ms_append {
    int     fd;    /* -1: closed */
    int64_t bytes; /* the size of the file */
    char    path[MS_PATH_MAX];
} ms_append;

/* Opens a file to append to it; `anew` empties it first. */
musec_status ms_append_open(ms_error *e, const char *path, bool anew, ms_append *out);
musec_status ms_append_write(ms_error *e, ms_append *a, const void *record, size_t bytes);
musec_status ms_append_sync(ms_error *e, ms_append *a);  /* until all of it is on the disk */
musec_status ms_append_close(ms_error *e, ms_append *a); /* syncs too; accepts a closed one */

#endif
