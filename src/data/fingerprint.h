/* fingerprint.h - what tells a file of data from another: cheap to take, however large it is.
 *
 * The file's length (8 bytes, little-endian) and its bytes: all of a file of up to 4 MiB, of a
 * larger one 16 blocks of 32 KiB, the first at its beginning, the last at its end, the others
 * evenly between.  Another text, other shards, one more line: all that is seen.  A change within a
 * large file that keeps its length, between the blocks, is not. */
#ifndef MS_DATA_FINGERPRINT_H
#define MS_DATA_FINGERPRINT_H

#include "core/sha256.h"

enum { MS_FINGERPRINT_WHOLE = 4 << 20, MS_FINGERPRINT_BLOCKS = 16, MS_FINGERPRINT_BLOCK = 32768 };

/* Adds it to a sum that was begun. */
musec_status ms_fingerprint_add(ms_error *e, const char *path, ms_sha256 *sum);

#endif
