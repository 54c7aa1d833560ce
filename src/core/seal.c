/* seal.c - see seal.h. */
#include "core/seal.h"

#include <string.h>

void ms_seal_make(const char *head, size_t bytes, char sum[MS_SHA256_HEX])
{
    ms_sha256 s;
    ms_sha256_init(&s);
    ms_sha256_add(&s, head, bytes);
    ms_sha256_end(&s, sum);
}

ms_seal ms_seal_check(const char *text, size_t bytes)
{
    const size_t seal = (size_t)MS_SEAL_DIGITS + MS_SEAL_TAIL_BYTES;
    const char  *digits;
    char         sum[MS_SHA256_HEX];

    if (bytes < seal) return MS_SEAL_NONE;
    digits = text + bytes - seal;
    if (memcmp(digits + MS_SEAL_DIGITS, MS_SEAL_TAIL, MS_SEAL_TAIL_BYTES) != 0 ||
        strspn(digits, "0123456789abcdef") != MS_SEAL_DIGITS)
        return MS_SEAL_NONE;
    ms_seal_make(text, bytes - seal, sum);
    return memcmp(digits, sum, MS_SEAL_DIGITS) == 0 ? MS_SEAL_WHOLE : MS_SEAL_BROKEN;
}
