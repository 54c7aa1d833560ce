/* memory_stream_test.c - a stream becomes the text that was written to it, or nothing at all. */
#define _POSIX_C_SOURCE 200809L /* rlimit */
#include "core/memory_stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"

TEST(a_stream_becomes_its_text)
{
    ms_memory_stream m;
    char            *text, want[40000] = "";
    FILE            *to = ms_memory_open(&m);

    CHECK(to != NULL, "no stream");
    for (int i = 0; i < 5000; i++) {
        fprintf(to, "%d,", i);
        snprintf(want + strlen(want), sizeof want - strlen(want), "%d,", i);
    }
    fwrite("\0x", 1, 2, to);
    text = ms_memory_close(&m);
    CHECK(text != NULL && m.bytes == strlen(want) + 2, "%zu bytes", m.bytes);
    CHECK(memcmp(text, want, strlen(want)) == 0, "another text");
    CHECK(memcmp(text + strlen(want), "\0x", 3) == 0, "no zero at the end");
    free(text);
    CHECK(ms_memory_close(&m) == NULL, "it was closed");
}

TEST(nothing_written_is_an_empty_text)
{
    ms_memory_stream m;
    CHECK(ms_memory_open(&m) != NULL, "no stream");
    char *text = ms_memory_close(&m);
    CHECK(text != NULL && text[0] == '\0' && m.bytes == 0, "no empty text");
    free(text);
}

/* What is written after the failure fits again, and must not hide it. */
TEST(a_text_that_cannot_grow_is_none)
{
#if defined(__SANITIZE_ADDRESS__)
    SKIP("a sanitizer ends the process without memory");
#else
    struct rlimit    old, low;
    ms_memory_stream m;
    char             block[1 << 12];
    FILE            *to;

    memset(block, 'x', sizeof block);
    to = ms_memory_open(&m);
    CHECK(to != NULL && getrlimit(RLIMIT_DATA, &old) == 0, "no stream or no limit");
    low = (struct rlimit){ 1, old.rlim_max }; /* what the process has it keeps, no more */
    CHECK(setrlimit(RLIMIT_DATA, &low) == 0, "cannot set the limit");
    for (int i = 0; i < 1 << 16 && !m.lost; i++)
        fwrite(block, 1, sizeof block, to);
    CHECK(setrlimit(RLIMIT_DATA, &old) == 0, "cannot raise the limit");
    CHECK(m.lost, "256 MiB without memory");
    fputs("more", to);
    CHECK(ms_memory_close(&m) == NULL, "a text with a hole");
#endif
}
