/* directory.h - listing, walking and removing directories. */
#ifndef MS_CORE_DIRECTORY_H
#define MS_CORE_DIRECTORY_H

#include <stdbool.h>
#include <sys/stat.h>

#include "core/status.h"

typedef struct ms_names { /* { 0 } is empty */
    char **at;
    size_t n, capacity;
} ms_names;

/* Adds all names but hidden ones, in the order of their bytes; on failure some may be there. */
musec_status ms_directory_names(ms_error *e, const char *path, ms_names *out);
void         ms_names_free(ms_names *list);

typedef struct ms_walk_entry {
    const char        *path;
    const struct stat *info;  /* of the target of a link; NULL: it cannot be read, errno says why */
    int                depth; /* 0: the directory where the walk begins */
    bool               loop;  /* a link that leads back to a directory above it */
} ms_walk_entry;

/* Visits a file or a directory.  *enter is true for a directory that is no loop, and may be set to
 * false: then the walk does not look into it.  A failure ends the walk. */
typedef musec_status ms_walk_visit(ms_error *e, void *arg, const ms_walk_entry *entry, bool *enter);

/* Visits `path` and all below it but what is hidden: a directory before its contents, these in the
 * order of their bytes, so that the order is the same on every machine.  Links are followed. */
musec_status ms_directory_walk(ms_error *e, const char *path, ms_walk_visit *visit, void *arg);

/* Removes it with all that is in it; links are removed, not followed.  It is no failure if there is
 * no such directory. */
musec_status ms_directory_remove(ms_error *e, const char *path);

#endif
