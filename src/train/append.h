/* append.h - a file that grows by whole records.
 *
 * A record is given to the system in one piece and taken back if it did not fit, so that the file
 * is made of whole records whatever happens to the disk.  A process that is killed loses nothing
 * that was written; a machine that loses power may lose what came after the last sync. */
#ifndef MS_TRAIN_APPEND_H
#define MS_TRAIN_APPEND_H

#include <stdbool.h>

#include "core/file.h"

typedef struct ms_append {
    int     fd;    /* -1: closed */
    int64_t bytes; /* of the file */
    char    path[MS_PATH_MAX];
} ms_append;

/* anew: what the file held is gone; otherwise it goes on at its end. */
musec_status ms_append_open(ms_error *e, const char *path, bool anew, ms_append *out);
musec_status ms_append_write(ms_error *e, ms_append *a, const void *record, size_t bytes);
musec_status ms_append_sync(ms_error *e, ms_append *a);  /* all of it is on the disk after */
musec_status ms_append_close(ms_error *e, ms_append *a); /* syncs too; accepts a closed one */

#endif
