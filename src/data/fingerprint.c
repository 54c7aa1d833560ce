/* fingerprint.c - see fingerprint.h. */
#define _POSIX_C_SOURCE 200809L /* fseeko */
#include "data/fingerprint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

/* Adds `bytes` of the file from `at` on. */
static musec_status add_block(ms_error *e, FILE *f, const char *path, int64_t at, size_t bytes,
                              char *buffer, ms_sha256 *sum)
{
    musec_status st;
    if (fseeko(f, (off_t)at, SEEK_SET) != 0)
        return ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno));
    TRY(ms_file_read(e, f, path, buffer, bytes));
    ms_sha256_add(sum, buffer, bytes);
done:
    return st;
}

musec_status ms_fingerprint_add(ms_error *e, const char *path, ms_sha256 *sum)
{
    const int64_t block = MS_FINGERPRINT_BLOCK, last = MS_FINGERPRINT_BLOCKS - 1;
    unsigned char length[8];
    FILE         *f      = NULL;
    char         *buffer = malloc(MS_FINGERPRINT_BLOCK);
    int64_t       bytes;
    musec_status  st;

    if (buffer == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    TRY(ms_file_open_read(e, path, &f));
    bytes = ms_file_bytes(f);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)bytes >> 8 * i);
    ms_sha256_add(sum, length, sizeof length);
    if (bytes <= MS_FINGERPRINT_WHOLE) {
        for (int64_t at = 0; at < bytes; at += block)
            TRY(add_block(e, f, path, at, (size_t)(bytes - at < block ? bytes - at : block), buffer,
                          sum));
    } else {
        for (int64_t i = 0; i <= last; i++)
            TRY(add_block(e, f, path, (bytes - block) * i / last, (size_t)block, buffer, sum));
    }
done:
    if (f != NULL) fclose(f);
    free(buffer);
    return st;
}
