/* unpack_test.c - compressed files that need much memory; reader_test.c has the others. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "data/unpack.h"
#include "pack.h"
#include "scratch.h"

#define MIB ((uint64_t)1 << 20)

/* A frame with a window of 2^(10 + log) bytes: magic, no flags, the window, a last raw block. */
#define ZSTD_FRAME(log) "\x28\xB5\x2F\xFD\x00" log "\x61\x00\x00hello world\n"
#define LOG_28          "\x90"
#define LOG_31          "\xA8"

static const char xz_512[] = /* xz --lzma2=dict=512MiB */
    "\xFD\x37\x7A\x58\x5A\x00\x00\x04\xE6\xD6\xB4\x46\x02\x00\x21\x01\x22\x00\x00\x00\x82\x40\xAC"
    "\xDC\x01\x00\x0B\x68\x65\x6C\x6C\x6F\x20\x77\x6F\x72\x6C\x64\x0A\x00\xA1\xF2\xFF\xC4\x6A\x7F"
    "\xBF\xCF\x00\x01\x24\x0C\xA6\x18\xD8\xD8\x1F\xB6\xF3\x7D\x01\x00\x00\x00\x00\x04\x59\x5A";

static musec_status unpack(const void *file, size_t bytes, uint64_t memory, char text[64],
                           ms_error *e)
{
    const char  *path = path_in(fresh_dir(), "file");
    ms_unpack   *u    = NULL;
    size_t       n    = 0;
    musec_status st;

    put_file(path, file, bytes);
    TRY(ms_unpack_open(e, path, memory, NULL, &u));
    TRY(ms_unpack_read(e, u, text, 63, &n));
done:
    text[n] = '\0';
    ms_unpack_close(u);
    return st;
}

static const struct {
    packer      how;
    const char *file;
    size_t      bytes;
    uint64_t    enough;
    const char *by_hand;
} wide[] = {
    { PACK_ZSTD, ZSTD_FRAME(LOG_28), sizeof ZSTD_FRAME(LOG_28) - 1, 256 * MIB,
      "zstd -d --long=31" },
    { PACK_ZSTD, ZSTD_FRAME(LOG_31), sizeof ZSTD_FRAME(LOG_31) - 1, 2048 * MIB,
      "zstd -d --long=31" },
    { PACK_XZ, xz_512, sizeof xz_512 - 1, 514 * MIB, "xz -d" },
};

TEST(files_with_large_windows_are_read)
{
    char     text[64];
    ms_error e = { "" };

    for (size_t i = 0; i < COUNT(wide); i++) {
        if (!pack_is_here(wide[i].how) || wide[i].enough > 1024 * MIB) continue;
        CHECK_OK_ERR(&e, unpack(wide[i].file, wide[i].bytes, wide[i].enough, text, &e));
        CHECK(strcmp(text, "hello world\n") == 0, "%zu: '%s'", i, text);
    }
}

/* The message must not call them damaged: fetching them again would not help. */
TEST(files_whose_window_exceeds_the_memory_are_refused)
{
    char     text[64], words[64];
    ms_error e = { "" };

    for (size_t i = 0; i < COUNT(wide); i++) {
        const uint64_t less = wide[i].enough - MIB * 10;
        if (!pack_is_here(wide[i].how)) continue;
        CHECK(unpack(wide[i].file, wide[i].bytes, less, text, &e) == MUSEC_ENOTSUP, "%zu: %s", i,
              e.text);
        snprintf(words, sizeof words, "takes more than %d MiB", (int)(less / MIB));
        CHECK(strstr(e.text, words) != NULL && strstr(e.text, wide[i].by_hand) != NULL &&
                  strstr(e.text, "damaged") == NULL,
              "%s", e.text);
    }
}
