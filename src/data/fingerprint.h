/* fingerprint.h - a checksum of a sample of a data file, which is cheap however large the file is.
 *
 * The file's length (8 bytes, little-endian) and its bytes: all of a file of up to 4 MiB, of a
 * larger one 16 blocks of 32 KiB, the first at its beginning, the last at its end, the others
 * evenly between.  It detects another text, other shards and one more line.  It does not detect a
 * change between the blocks of a large file that keeps its length. */
#ifndef MS_DATA_FINGERPRINT_H
#define MS_DATA_FINGERPRINT_H

#include "core/sha256.h"

enum { MS_FINGERPRINT_WHOLE = 4 << 20, MS_FINGERPRINT_BLOCKS = 16, MS_FINGERPRINT_BLOCK = 32768 };

/* Adds the fingerprint of a file to a checksum that was begun. */
musec_status ms_fingerprint_add(ms_error *e, const char *path, ms_sha256 *sum);

#endif
