/* fingerprint_test.c - which bytes of a file its fingerprint depends on. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/fingerprint.h"
#include "scratch.h"

static void sum_of(const char *path, char hex[MS_SHA256_HEX])
{
    ms_sha256 s;
    ms_error  e = { "" };
    ms_sha256_init(&s);
    CHECK_OK_ERR(&e, ms_fingerprint_add(&e, path, &s));
    ms_sha256_end(&s, hex);
}

TEST(a_fingerprint_is_of_the_length_and_the_bytes)
{
    static const unsigned char said[] = "\3\0\0\0\0\0\0\0abc";
    const char                *path   = path_in(fresh_dir(), "abc");
    char                       hex[MS_SHA256_HEX], want[MS_SHA256_HEX];
    ms_sha256                  s;

    put_file(path, "abc", 3);
    sum_of(path, hex);
    ms_sha256_init(&s);
    ms_sha256_add(&s, said, sizeof said - 1);
    ms_sha256_end(&s, want);
    CHECK(strcmp(hex, want) == 0, "%s", hex);
}

/* Writes n zeros, with a one at byte `at` unless that is negative. */
static const char *zeros(const char *dir, size_t n, int64_t at)
{
    const char *path  = path_in(dir, "zeros");
    char       *bytes = calloc(n, 1);
    FILE       *f     = fopen(path, "wb");
    CHECK(bytes != NULL && f != NULL, "%s", path);
    if (at >= 0) bytes[at] = 1;
    CHECK(fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "%s", path);
    free(bytes);
    return path;
}

static bool depends_on(size_t n, int64_t at)
{
    const char *dir = fresh_dir();
    char        without[MS_SHA256_HEX], with[MS_SHA256_HEX];
    sum_of(zeros(dir, n, -1), without);
    sum_of(zeros(dir, n, at), with);
    return strcmp(without, with) != 0;
}

TEST(every_byte_of_a_small_file_counts)
{
    const int64_t n = MS_FINGERPRINT_WHOLE;
    for (int64_t at = 0; at < n; at = at * 3 + 1)
        CHECK(depends_on((size_t)n, at), "byte %lld", (long long)at);
    CHECK(depends_on((size_t)n, n - 1), "the last byte");
}

TEST(blocks_of_a_large_file_count)
{
    const int64_t n = MS_FINGERPRINT_WHOLE + 12345, block = MS_FINGERPRINT_BLOCK;
    const int64_t last = MS_FINGERPRINT_BLOCKS - 1;
    char          a[MS_SHA256_HEX], b[MS_SHA256_HEX];
    const char   *dir = fresh_dir();

    for (int64_t i = 0; i <= last; i++) {
        const int64_t first = (n - block) * i / last;
        CHECK(depends_on((size_t)n, first) && depends_on((size_t)n, first + block - 1),
              "block %lld", (long long)i);
    }
    CHECK(depends_on((size_t)n, 0) && depends_on((size_t)n, n - 1), "its ends");
    CHECK(!depends_on((size_t)n, block), "between the blocks"); /* what it does not read */
    sum_of(zeros(dir, (size_t)n, -1), a);
    sum_of(zeros(dir, (size_t)n + 1, -1), b);
    CHECK(strcmp(a, b) != 0, "one byte more");
}

TEST(a_missing_file_is_reported)
{
    ms_sha256 s;
    ms_error  e = { "" };
    ms_sha256_init(&s);
    CHECK_FAILS(&e, ms_fingerprint_add(&e, path_in(fresh_dir(), "none"), &s), MUSEC_EIO, "none");
}
