/* archive.h - the logs of many runs as one small file.
 *
 * An archive is a tar file, packed with xz, that has config.json, summary.json and log.jsonl of
 * each run, in a directory by its name.  Numbers of a log are rounded: times to three digits,
 * others to six, which is more than a report shows.  The same runs give the same bytes. */
#ifndef MS_EXPERIMENT_ARCHIVE_H
#define MS_EXPERIMENT_ARCHIVE_H

#include "core/file.h"
#include "report/runset.h"

/* Limits of what is read, so that a small file cannot fill a disk. */
enum { MS_ARCHIVE_MEMBERS = 60000, MS_ARCHIVE_MEMBER = 64 << 20 /* bytes */ };
#define MS_ARCHIVE_BYTES ((int64_t)2 << 30) /* of all members together */

musec_status ms_archive_write(ms_error *e, const ms_runset *set, const char *path);

enum { MS_ARCHIVES = 256 /* at once */ };
typedef struct ms_archives {       /* those that were opened; { 0 } is none */
    char        dir[MS_PATH_MAX];  /* temporary, with a directory for each; "" before the first */
    const char *path[MS_ARCHIVES]; /* the caller's */
    int         n;
} ms_archives;

/* Adds the runs of an archive, packed or not.  It is unpacked into a temporary directory, which
 * ms_archives_close() removes. */
musec_status ms_archives_add(ms_error *e, ms_archives *all, const char *path, ms_runset *set);
/* Names the directories of these runs ARCHIVE/RUN, for a reader. */
musec_status ms_archives_name(ms_error *e, const ms_archives *all, ms_runset *set);
/* A failure says which directory is left behind. */
musec_status ms_archives_close(ms_error *e, ms_archives *all);
/* Unpacks an archive into a directory, which must be there. */
musec_status ms_archive_unpack(ms_error *e, const char *path, const char *dir);

#endif
