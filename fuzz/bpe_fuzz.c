/* bpe_fuzz.c - any bytes as a text, encoded by any small vocabulary.
 *
 *     byte 0       number of merges, 64 at most
 *     2 for each   the tokens to merge: below 128 that byte, else an earlier token
 *     1 byte       where to split the text, in 256ths of it
 *     the rest     the text
 *
 * Decoded ids are the text, whole or split, with <|endoftext|> as an id or as text.  And ids equal
 * those of the definition.  In it, a merge of rank r only makes pairs of higher rank, since a token
 * is made of lower ones; so one pass over the word for each rank, in order, does all merges. */
#include <stdlib.h>
#include <string.h>

#include "data/bpe_table.h"
#include "fuzz.h"

enum { MERGES = 64 };

typedef struct piece { /* of the vocabulary */
    unsigned char text[MS_BPE_TOKEN_BYTES];
    size_t        bytes;
    uint16_t      left, right;
} piece;

typedef struct vocabulary {
    piece    at[256 + MERGES];
    uint16_t n;
} vocabulary;

/* ---- the definition -------------------------------------------------------------------------- */

static uint16_t id_of(unsigned char byte)
{
    return (uint16_t)(255 - byte);
} /* an order of its own */

static size_t merge(const vocabulary *v, const unsigned char *p, size_t n, uint16_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = id_of(p[i]);
    for (uint16_t id = 256; id < v->n; id++) {
        size_t to = 0;
        for (size_t i = 0; i < n; to++) {
            const bool pair =
                i + 1 < n && ids[i] == v->at[id].left && ids[i + 1] == v->at[id].right;
            ids[to] = pair ? id : ids[i];
            i += pair ? 2 : 1;
        }
        n = to;
    }
    return n;
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

static uint16_t choose(const vocabulary *v, unsigned byte)
{
    if (byte < 128 || v->n == 256) return id_of((unsigned char)byte);
    return (uint16_t)(256 + (byte - 128) % (v->n - 256));
}

/* Leaves out a token that merging its bytes does not give: no vocabulary has one. */
static void add_merge(vocabulary *v, uint16_t left, uint16_t right)
{
    const piece *a = &v->at[left], *b = &v->at[right];
    piece       *t = &v->at[v->n];
    uint16_t     ids[MS_BPE_TOKEN_BYTES];

    if (a->bytes + b->bytes > sizeof t->text) return;
    memcpy(t->text, a->text, a->bytes);
    memcpy(t->text + a->bytes, b->text, b->bytes);
    t->bytes = a->bytes + b->bytes;
    if (merge(v, t->text, t->bytes, ids) != 2 || ids[0] != left || ids[1] != right) return;
    t->left  = left;
    t->right = right;
    v->n++;
}

static void take_vocabulary(vocabulary *v, const uint8_t **data, size_t *size)
{
    const unsigned merges = fuzz_take(data, size) % (MERGES + 1);

    for (unsigned id = 0; id < 256; id++)
        v->at[id] = (piece){ .text = { (unsigned char)(255 - id) }, .bytes = 1 };
    v->n = 256;
    for (unsigned i = 0; i < merges; i++) {
        const uint16_t left = choose(v, fuzz_take(data, size));
        add_merge(v, left, choose(v, fuzz_take(data, size)));
    }
}

static ms_bpe *make_bpe(const vocabulary *v)
{
    ms_bpe  *bpe = NULL;
    ms_error e   = { "" };

    REQUIRE(fuzz_ok(ms_bpe_table_make(&e, v->n + 1, &bpe), &e));
    for (uint16_t id = 0; id < v->n; id++)
        REQUIRE(fuzz_ok(ms_bpe_table_set(&e, "it", bpe, id, v->at[id].text, v->at[id].bytes), &e));
    REQUIRE(fuzz_ok(ms_bpe_table_finish(&e, "it", bpe), &e));
    return bpe;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void check_decoded(const ms_bpe *bpe, const uint16_t *ids, size_t n, const char *text,
                          size_t size)
{
    size_t at = 0, bytes;
    for (size_t i = 0; i < n; i++) {
        const char *p = ms_bpe_bytes(bpe, ids[i], &bytes);
        REQUIRE(p != NULL && bytes <= size - at && memcmp(p, text + at, bytes) == 0);
        at += bytes;
    }
    REQUIRE(at == size);
}

static void check_definition(const vocabulary *v, const ms_bpe *bpe, const uint16_t *ids, size_t n,
                             const char *text, size_t size)
{
    size_t   *ends  = malloc((size + 1) * sizeof *ends);
    uint16_t *want  = malloc((size + 1) * sizeof *want);
    size_t    words = 0, at = 0, k = 0;

    REQUIRE(ends != NULL && want != NULL);
    words = ms_pretokenize(&bpe->classes, text, size, 0, ends, size + 1);
    for (size_t i = 0; i < words; at = ends[i++])
        k += merge(v, (const unsigned char *)text + at, ends[i] - at, want + k);
    REQUIRE(at == size && k == n && memcmp(ids, want, n * sizeof *ids) == 0);
    free(want);
    free(ends);
}

static void check(const vocabulary *v, const ms_bpe *bpe, const char *text, size_t size, size_t cut)
{
    uint16_t     *ids   = malloc(ms_bpe_max_ids(size) * sizeof *ids);
    ms_bpe_cache *cache = NULL;
    ms_error      e     = { "" };
    size_t        n;

    REQUIRE(ids != NULL && fuzz_ok(ms_bpe_cache_make(&e, bpe, &cache), &e));
    for (int again = 0; again < 2; again++) { /* the second time from the cache */
        n = ms_bpe_encode(bpe, cache, text, size, false, ids);
        REQUIRE(n <= size);
        check_decoded(bpe, ids, n, text, size);
        check_definition(v, bpe, ids, n, text, size);
    }
    for (int special = 0; special < 2; special++) {
        n = ms_bpe_encode(bpe, cache, text, cut, special != 0, ids);
        check_decoded(bpe, ids, n, text, cut);
        n = ms_bpe_encode(bpe, cache, text + cut, size - cut, special != 0, ids);
        check_decoded(bpe, ids, n, text + cut, size - cut);
    }
    ms_bpe_cache_free(cache);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vocabulary v;
    size_t            cut;
    ms_bpe           *bpe;
    char             *text;

    if (ms_utf8proc_version() == NULL) return 0; /* there is no tokenizer in this build */
    take_vocabulary(&v, &data, &size);
    cut  = fuzz_take(&data, &size);
    cut  = size * cut / 255;
    text = malloc(size == 0 ? 1 : size); /* of the exact size, so that overruns are seen */
    REQUIRE(text != NULL);
    if (size > 0) memcpy(text, data, size);
    bpe = make_bpe(&v);
    check(&v, bpe, text, size, cut);
    ms_bpe_free(bpe);
    free(text);
    return 0;
}
