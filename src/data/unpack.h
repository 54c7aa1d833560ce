/* unpack.h - the bytes of a file, decompressed on the way if it is gzip, zstd or xz.
 *
 * A packing is known by the first bytes of the file.  A file that has the name of one and not the
 * bytes is refused, for it is damaged more often than misnamed.  Several streams one behind the
 * other are read to the end, like the packers' own programs do. */
#ifndef MS_DATA_UNPACK_H
#define MS_DATA_UNPACK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/status.h"

typedef struct ms_unpack ms_unpack;

/* Opens a file; the path "-" is stdin.  memory: bytes that the packing may take for its window or
 * dictionary, 0: half of the machine's; a file that takes more is refused.  stop, if not NULL: once
 * it is true, waiting for a pipe ends in a failure. */
musec_status ms_unpack_open(ms_error *e, const char *path, uint64_t memory, const atomic_bool *stop,
                            ms_unpack **out);
void         ms_unpack_close(ms_unpack *u);
/* Reads up to `capacity` bytes, and at least one unless the end is reached, where *got is 0. */
musec_status ms_unpack_read(ms_error *e, ms_unpack *u, void *buf, size_t capacity, size_t *got);
/* Counts the bytes consumed of the file as it is on disk. */
int64_t ms_unpack_consumed(const ms_unpack *u);

/* Returns the suffix of a compressed file's name, which is part of `name`, or NULL. */
const char *ms_unpack_suffix(const char *name);

typedef struct ms_unpack_library { /* what this build can unpack with */
    const char *name, *packing, *package;
    const char *version; /* NULL: not in this build */
} ms_unpack_library;
bool ms_unpack_library_at(size_t index, ms_unpack_library *out);

#endif
