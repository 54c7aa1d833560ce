/* sniff.c - signatures of files that are not text; the first match counts. */
#include "data/sniff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DATA   "give a text file, or shards of tokens as musec tokenize makes them"
#define SHARDS "make shards of it with musec tokenize, or unpack it first: "

typedef struct signature {
    size_t      at; /* offset in the file */
    const char *bytes;
    size_t      n;
    bool        printable; /* text may begin like that: counts only if the block has a zero byte */
    const char *sentence;
} signature;

#define SIGN(at, bytes, printable, sentence)              \
    {                                                     \
        at, bytes, sizeof(bytes) - 1, printable, sentence \
    }

static const signature signatures[] = {
    SIGN(0, "\x93NUMPY", false, "is a NumPy array (.npy), not text; " DATA),
    SIGN(0, "\x1f\x8b", false, "is compressed by gzip; " SHARDS "gzip -dc"),
    SIGN(0, "\x28\xb5\x2f\xfd", false, "is compressed by zstd; " SHARDS "zstd -dc"),
    SIGN(0, "\xfd\x37zXZ", false, "is compressed by xz; " SHARDS "xz -dc"),
    SIGN(4, "1AY&SY", false, "is compressed by bzip2; unpack it first: bzip2 -dc"),
    SIGN(0, "\x04\x22\x4d\x18", false, "is compressed by lz4; unpack it first: lz4 -dc"),
    SIGN(0, "PK\x03\x04", false,
         "is a zip archive (.npz, .docx and .pt are, too), not text; unzip it, and give the text"),
    SIGN(0, "7z\xbc\xaf", false, "is a 7z archive, not text; unpack it, and give the text"),
    SIGN(0, "%PDF-", false, "is a PDF, not text; take its text first: pdftotext"),
    SIGN(0, "PAR1", true,
         "is a Parquet file, not text; musec data get reads such files of a set, or write its text "
         "as JSON lines for musec tokenize"),
    SIGN(0, "\x89HDF", false, "is an HDF5 file, not text; " DATA),
    SIGN(0, "GGUF", true, "is a model (GGUF), not text; " DATA),
    SIGN(0, "SQLite format 3", true, "is an SQLite database, not text; " DATA),
    SIGN(0, "ARROW1", true, "is an Arrow file, not text; " DATA),
    SIGN(257, "ustar", true, "is a tar archive, not text; unpack it (tar -xf), and give the texts"),
    SIGN(0, "\x7f\x45LF", false, "is a program, not text; " DATA),
    SIGN(0, "\x89PNG", false, "is a picture (PNG), not text; " DATA),
    SIGN(0, "\xff\xd8\xff", false, "is a picture (JPEG), not text; " DATA),
    SIGN(0, "\x88\xd8\x34\x01", false, "is a shard of tokens; rename it to end in .bin"),
    SIGN(0, "\xff\xfe", false,
         "is text in UTF-16; turn it into UTF-8 first: iconv -f UTF-16 -t UTF-8"),
    SIGN(0, "\xfe\xff", false,
         "is text in UTF-16; turn it into UTF-8 first: iconv -f UTF-16 -t UTF-8"),
};

/* Does it begin with a length of eight bytes, little-endian, and a JSON header? */
static bool is_safetensors(const unsigned char *p, size_t n)
{
    uint64_t bytes = 0;
    if (n < 10 || p[8] != '{' || (p[9] != '"' && p[9] != '}')) return false;
    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | p[i];
    return bytes < (uint64_t)1 << 32; /* so the length has at least four zero bytes */
}

const char *ms_sniff(const void *head, size_t n)
{
    const unsigned char *p    = head;
    const bool           zero = n > 0 && memchr(p, '\0', n) != NULL;

    if (is_safetensors(p, n)) return "is a model (.safetensors), not text; " DATA;
    for (size_t i = 0; i < COUNT(signatures); i++) {
        const signature *s = &signatures[i];
        if (n >= s->at + s->n && memcmp(p + s->at, s->bytes, s->n) == 0 && (zero || !s->printable))
            return s->sentence;
    }
    if (!zero) return NULL;
    return "is no text: it has zero bytes; " DATA ", or take the bytes out: tr -d '\\0'";
}

musec_status ms_sniff_text(ms_error *e, FILE *f, const char *path)
{
    char        *head = malloc(MS_SNIFF_BYTES);
    const char  *sentence;
    musec_status st = MUSEC_OK;

    if (head == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    sentence = ms_sniff(head, fread(head, 1, MS_SNIFF_BYTES, f));
    if (sentence != NULL) st = ms_fail(e, MUSEC_EFORMAT, "%s: %s", path, sentence);
    rewind(f); /* a read error is reported when the file is read */
    free(head);
    return st;
}
