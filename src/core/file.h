/* file.h - files that are whole or absent.
 *
 * A file is written under "<path>.part.<pid>" and renamed over its final name once it is complete
 * and on disk; of a name that is too long for that ending, the part has the beginning.  A target
 * that exists and is no regular file (/dev/stdout, /dev/full, a pipe) is written directly, never
 * renamed over. */
#ifndef MS_CORE_FILE_H
#define MS_CORE_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"

#define MS_PATH_MAX 4096

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers in files are read as they are in memory: this needs a little-endian host"
#endif

/* Joins "dir/name"; a path that does not fit is an error. */
musec_status ms_path_join(ms_error *e, const char *dir, const char *name, char out[MS_PATH_MAX]);

/* Returns the part of a path that follows its last slash; the directory is what is before it, or
 * ".". */
const char *ms_path_name(const char *path);
void        ms_path_directory(const char *path, char dir[MS_PATH_MAX]);

/* Returns true if writing one would replace the other.  Compares device and inode where both exist,
 * else directory and name.  Devices and pipes are never the same: writing one twice loses
 * nothing. */
bool ms_path_same(const char *a, const char *b);

/* Makes the directory and those above it, where they do not exist yet, durably. */
musec_status ms_directory_make(ms_error *e, const char *path);
/* Makes what was done to an entry of a directory durable: that it was made, renamed or removed. */
musec_status ms_entry_sync(ms_error *e, const char *path);
/* Removes the parts of files that processes which have ended left in a directory. */
musec_status ms_parts_remove(ms_error *e, const char *dir);

typedef struct ms_out_file { /* { 0 } is "nothing open" */
    FILE *f;
    char  path[MS_PATH_MAX], part[MS_PATH_MAX]; /* part is "" when written directly */
} ms_out_file;

/* Opens a file or a pipe for reading; a directory is an error. */
musec_status ms_file_open_read(ms_error *e, const char *path, FILE **out);
/* Returns the size of a file open for reading, or -1 if it has none (a pipe). */
int64_t ms_file_bytes(FILE *f);
/* The same, with an error for a file whose size cannot be found out. */
musec_status ms_file_size(ms_error *e, FILE *f, const char *path, int64_t *bytes);
musec_status ms_file_read(ms_error *e, FILE *f, const char *path, void *buf, size_t bytes);
/* Reads the whole file and adds a NUL; the caller frees it.  A pipe, or a file of more than
 * `max_bytes` bytes, is an error. */
musec_status ms_file_text(ms_error *e, const char *path, int64_t max_bytes, char **text,
                          size_t *bytes);

musec_status ms_out_open(ms_error *e, const char *path, ms_out_file *out);
musec_status ms_out_write(ms_error *e, ms_out_file *out, const void *buf, size_t bytes);
musec_status ms_out_commit(ms_error *e, ms_out_file *out); /* flush, fsync, close, rename */
/* Closes, and removes the part.  Does nothing after a commit (even a failed one) or on { 0 }. */
void ms_out_abandon(ms_out_file *out);

#endif
