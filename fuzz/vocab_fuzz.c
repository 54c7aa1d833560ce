/* vocab_fuzz.c - any bytes as the files of a vocabulary.
 *
 *     byte 0     p, t, b: encoder.json and vocab.bpe with a NUL between, tiktoken, .bin; P, T, B:
 *                the same, after the 256 single bytes (and the header)
 *     byte 1     number of ids beyond the 257 that every vocabulary has
 *     the rest   the file or its remainder
 *
 * With a vocabulary that loads, encoding and decoding the bytes of a token gives the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/bpe_table.h"
#include "fuzz.h"

enum { PREFIX_BYTES = 8192, BIN_MAGIC = 20240328 };

typedef struct text {
    char   s[PREFIX_BYTES];
    size_t n;
} text;

static void put(text *t, const void *bytes, size_t n)
{
    REQUIRE(n <= sizeof t->s - t->n);
    memcpy(t->s + t->n, bytes, n);
    t->n += n;
}

/* ---- the 256 single bytes -------------------------------------------------------------------- */

static void put_json(text *t)
{
    int next = 256;
    put(t, "{", 1);
    for (int byte = 0; byte < 256; byte++) {
        const bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || byte > 173;
        char       line[32];
        const int  n = snprintf(line, sizeof line, "\"\\u%04x\":%d,", prints ? byte : next, byte);
        next += !prints;
        put(t, line, (size_t)n);
    }
}

static void put_tiktoken(text *t)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int byte = 0; byte < 256; byte++) {
        char      line[32];
        const int n = snprintf(line, sizeof line, "%c%c== %d\n", digits[byte >> 2],
                               digits[(byte & 3) << 4], byte);
        put(t, line, (size_t)n);
    }
}

static void put_bin(text *t, int32_t n_ids)
{
    int32_t header[256] = { BIN_MAGIC, 2, n_ids, n_ids - 1 };
    put(t, header, sizeof header);
    for (int byte = 0; byte < 256; byte++) {
        const unsigned char one[2] = { 1, (unsigned char)byte };
        put(t, one, sizeof one);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *write_file(const char *name, const text *before, const uint8_t *data,
                              size_t size)
{
    uint8_t    *all = malloc(before->n + size + 1);
    const char *path;

    REQUIRE(all != NULL);
    memcpy(all, before->s, before->n);
    if (size > 0) memcpy(all + before->n, data, size);
    path = fuzz_file(name, all, before->n + size);
    free(all);
    return path;
}

static const char *write_files(unsigned form, int32_t n_ids, const uint8_t *data, size_t size)
{
    static text before;

    before.n = 0;
    if (form == 't' || form == 'T') {
        if (form == 'T') put_tiktoken(&before);
        return write_file("r50k_base.tiktoken", &before, data, size);
    }
    if (form == 'b' || form == 'B') {
        if (form == 'B') put_bin(&before, n_ids);
        return write_file("gpt2_tokenizer.bin", &before, data, size);
    }
    const uint8_t *nul    = size == 0 ? NULL : memchr(data, 0, size);
    const size_t   first  = nul == NULL ? size : (size_t)(nul - data);
    const size_t   second = nul == NULL ? 0 : size - first - 1;
    fuzz_file("vocab.bpe", nul == NULL ? data : nul + 1, second);
    if (form == 'P') put_json(&before);
    return write_file("encoder.json", &before, data, first);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void check_tokens(const ms_bpe *bpe)
{
    ms_bpe_cache *cache = NULL;
    ms_error      e     = { "" };

    REQUIRE(fuzz_ok(ms_bpe_cache_make(&e, bpe, &cache), &e));
    for (int32_t id = 0; id < bpe->n_ids; id++) {
        uint16_t    ids[MS_BPE_TOKEN_BYTES + 1];
        size_t      bytes, part, at = 0, n;
        const char *token = ms_bpe_bytes(bpe, id, &bytes);
        REQUIRE(token != NULL && bytes > 0 && ms_bpe_max_ids(bytes) <= COUNT(ids));
        n = ms_bpe_encode(bpe, cache, token, bytes, id == bpe->start, ids);
        for (size_t i = 0; i < n; i++) {
            const char *p = ms_bpe_bytes(bpe, ids[i], &part);
            REQUIRE(p != NULL && part <= bytes - at && memcmp(p, token + at, part) == 0);
            at += part;
        }
        REQUIRE(at == bytes && (id != bpe->start || ids[0] == bpe->start));
    }
    ms_bpe_cache_free(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned form  = fuzz_take(&data, &size);
    const int32_t  n_ids = 257 + (int32_t)fuzz_take(&data, &size);
    const char    *path  = write_files(form, n_ids, data, size);
    ms_bpe        *bpe   = NULL;
    ms_error       e     = { "" };

    if (fuzz_ok(ms_bpe_load_sized(&e, path, n_ids, &bpe), &e))
        check_tokens(bpe);
    else
        REQUIRE(bpe == NULL);
    ms_bpe_free(bpe);
    return 0;
}
