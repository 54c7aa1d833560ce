/* cache.c - cached results as files:
 *
 *     64 bytes  SHA-256 of the rest, in hexadecimal digits
 *     the rest  the result
 *
 * A truncated or damaged file counts as missing. */
#define _POSIX_C_SOURCE 200809L /* access */
#include "core/cache.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/sha256.h"

enum { DIGITS = MS_SHA256_HEX - 1, MAX_BYTES = 64 << 20 };

void ms_cache_name(char name[MS_CACHE_NAME], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, MS_CACHE_NAME, fmt, args);
    va_end(args);
    for (char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '.') *c = '-';
}

/* Finds the cache directory, which may not exist yet.  Returns false if nothing is to be cached. */
static bool find_directory(char dir[MS_PATH_MAX])
{
    const char *own = getenv("MUSEC_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int         n    = 0;
    if (own != NULL && strcmp(own, "off") != 0)
        n = snprintf(dir, MS_PATH_MAX, "%s", own);
    else if (own == NULL && xdg != NULL && xdg[0] == '/') /* XDG: ignore relative paths */
        n = snprintf(dir, MS_PATH_MAX, "%s/musec", xdg);
    else if (own == NULL && home != NULL && home[0] != '\0')
        n = snprintf(dir, MS_PATH_MAX, "%s/.cache/musec", home);
    return n > 0 && n < MS_PATH_MAX;
}

static void checksum(const void *data, size_t bytes, char hex[MS_SHA256_HEX])
{
    ms_sha256 sha;
    ms_sha256_init(&sha);
    ms_sha256_add(&sha, data, bytes);
    ms_sha256_end(&sha, hex);
}

bool ms_cache_load(const char *name, void **data, size_t *bytes)
{
    char     dir[MS_PATH_MAX], path[MS_PATH_MAX], hex[MS_SHA256_HEX] = "";
    char    *text = NULL;
    size_t   n    = 0;
    ms_error ignored;

    *data  = NULL;
    *bytes = 0;
    if (!find_directory(dir) || ms_path_join(&ignored, dir, name, path) != MUSEC_OK ||
        access(path, R_OK) != 0 || ms_file_text(&ignored, path, MAX_BYTES, &text, &n) != MUSEC_OK)
        return false;
    if (n >= DIGITS) checksum(text + DIGITS, n - DIGITS, hex);
    if (n < DIGITS || memcmp(hex, text, DIGITS) != 0) {
        free(text);
        return false;
    }
    memmove(text, text + DIGITS, n - DIGITS);
    *data  = text;
    *bytes = n - DIGITS;
    return true;
}

void ms_cache_save(const char *name, const void *data, size_t bytes)
{
    char         dir[MS_PATH_MAX], path[MS_PATH_MAX], hex[MS_SHA256_HEX];
    ms_out_file  out = { 0 };
    ms_error     ignored;
    musec_status st;

    if (!find_directory(dir) || bytes > MAX_BYTES - DIGITS) return;
    checksum(data, bytes, hex);
    TRY(ms_directory_make(&ignored, dir));
    TRY(ms_path_join(&ignored, dir, name, path));
    TRY(ms_out_open(&ignored, path, &out));
    TRY(ms_out_write(&ignored, &out, hex, DIGITS));
    TRY(ms_out_write(&ignored, &out, data, bytes));
    TRY(ms_out_commit(&ignored, &out));
done:
    (void)st; /* after a failure nothing is cached */
    ms_out_abandon(&out);
}
