/* sniff_test.c - files that are no text, and texts that resemble some of them. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "data/sniff.h"

typedef struct sample {
    const char *bytes;
    size_t      n;
    const char *words; /* contained in the message; NULL: it may be text */
} sample;

#define SAMPLE(bytes, words)            \
    {                                   \
        bytes, sizeof(bytes) - 1, words \
    }

static void check_samples(const sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = ms_sniff(samples[i].bytes, samples[i].n);
        if (samples[i].words == NULL)
            CHECK(got == NULL, "sample %zu: %s", i, got);
        else
            CHECK(got != NULL && strstr(got, samples[i].words) != NULL, "sample %zu: %s", i,
                  got == NULL ? "text" : got);
    }
}

TEST(files_that_are_no_text_are_named)
{
    static const sample samples[] = {
        SAMPLE("\x93NUMPY\x01\x00v\x00{'descr': '<f4'", "NumPy"),
        SAMPLE("\x1f\x8b\x08\x00", "gzip; make shards of it with musec tokenize, or unpack"),
        SAMPLE("\x28\xb5\x2f\xfd\x04", "zstd"),
        SAMPLE("\xfd\x37zXZ\x00", "by xz; make shards of it with musec tokenize"),
        SAMPLE("BZh91AY&SY\x1c", "bzip2; unpack it"),
        SAMPLE("\x04\x22\x4d\x18@", "lz4"),
        SAMPLE("PK\x03\x04\x14", "zip archive"),
        SAMPLE("%PDF-1.7\n", "PDF"),
        SAMPLE("PAR1\x15\x00", "Parquet"),
        SAMPLE("GGUF\x03\x00", "GGUF"),
        SAMPLE("\x7f\x45LF\x02\x01", "program"),
        SAMPLE("\x89PNG\r\n", "picture"),
        SAMPLE("\xff\xd8\xff\xe0", "picture"),
        SAMPLE("\x88\xd8\x34\x01\x01\x00\x00\x00", "shard of tokens"),
        SAMPLE("\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":", ".safetensors"),
        SAMPLE("\xff\xfeh\x00i\x00", "UTF-16"),
        SAMPLE("\xfe\xff\x00h\x00i", "UTF-16"),
        SAMPLE("text, and then\x00more", "zero bytes"),
        SAMPLE("\x00", "zero bytes"),
    };
    check_samples(samples, COUNT(samples));
}

TEST(texts_of_any_encoding_are_texts)
{
    static const sample samples[] = {
        SAMPLE("", NULL),
        SAMPLE("a", NULL),
        SAMPLE("Plain words.\r\n\tAnd a form feed:\f, an escape: \x1b[1m\n", NULL),
        SAMPLE("\xef\xbb\xbf"
               "UTF-8 with a mark",
               NULL),
        SAMPLE("na\xc3\xafve \xe2\x80\x9cUTF-8\xe2\x80\x9d \xf0\x9f\x98\x80", NULL),
        SAMPLE("na\xefve Latin-1: \xff\xe0\xe9", NULL),
        SAMPLE("\xcf\xf0\xe8\xe2\xe5\xf2, Windows-1251", NULL),
        SAMPLE("\x93\xfa\x96\x7b\x8c\xea, Shift JIS", NULL),
        SAMPLE("\xd6\xd0\xce\xc4, GBK", NULL),
        SAMPLE("PK is a pair of letters", NULL), /* beginnings of other formats */
        SAMPLE("PAR1 is the first pair", NULL),
        SAMPLE("GGUF files are models", NULL),
        SAMPLE("BZh9 is how bzip2 begins", NULL),
        SAMPLE("SQLite format 3 is described here", NULL),
        SAMPLE("12345678{\"json\": 1}", NULL),
    };
    check_samples(samples, COUNT(samples));
}

/* A tar archive begins with a file name; its signature follows at byte 257. */
TEST(a_tar_archive_is_named)
{
    char head[512] = "book.txt";
    memcpy(head + 257, "ustar", sizeof "ustar");
    CHECK(strstr(ms_sniff(head, sizeof head), "tar archive") != NULL, "%s",
          ms_sniff(head, sizeof head));
}
