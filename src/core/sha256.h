/* sha256.h - SHA-256 (FIPS 180-4), of memory and of files. */
#ifndef MS_CORE_SHA256_H
#define MS_CORE_SHA256_H

#include "core/status.h"

enum { MS_SHA256_HEX = 65 }; /* 64 digits and the NUL */

typedef struct ms_sha256 {
    uint32_t      h[8];
    uint64_t      bytes;
    unsigned char block[64];
} ms_sha256;

void ms_sha256_init(ms_sha256 *s);
void ms_sha256_add(ms_sha256 *s, const void *data, size_t bytes);
void ms_sha256_end(ms_sha256 *s, char hex[MS_SHA256_HEX]);

musec_status ms_sha256_file(ms_error *e, const char *path, char hex[MS_SHA256_HEX]);

#endif
