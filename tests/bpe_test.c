/* bpe_test.c - the BPE tokenizer against GPT-2's ids by other programs, against a reference for any
 * bytes, on long words and in threads. */
#include "bpe_rig.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/sha256.h"
#include "scratch.h"

typedef struct coder { /* a tokenizer and its cache */
    ms_bpe       *bpe;
    ms_bpe_cache *cache;
    bpe_rig       rig; /* the reference; { 0 } where there is none */
} coder;

static coder open_coder(const char *path, int n_ids, bpe_rig rig)
{
    coder    c = { .rig = rig };
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_bpe_load_sized(&e, path, n_ids, &c.bpe));
    CHECK_OK_ERR(&e, ms_bpe_cache_make(&e, c.bpe, &c.cache));
    return c;
}

static void close_coder(coder *c)
{
    ms_bpe_cache_free(c->cache);
    ms_bpe_free(c->bpe);
    bpe_rig_free(&c->rig);
}

static const char *shared_path(const char *name)
{
    const char *shared = check_shared_data_dir();
    bpe_rig_need_utf8proc();
    if (shared == NULL) SKIP("no shared data (set MUSEC_DATA)");
    return path_in(shared, name);
}

static coder open_gpt2(void) { return open_coder(shared_path("gpt2"), MS_BPE_IDS, (bpe_rig){ 0 }); }

/* A random vocabulary, written to a file and loaded. */
static coder open_drawn(int merges, const char *letters, uint64_t seed)
{
    const char *path = tmp_path("drawn.tiktoken");
    bpe_rig_need_utf8proc();
    const bpe_rig r = bpe_rig_draw(merges, letters, seed);
    bpe_rig_write_tiktoken(&r, path);
    return open_coder(path, r.n + 1, r);
}

static char *decode(const ms_bpe *bpe, const uint16_t *ids, size_t n, size_t *bytes)
{
    size_t all = 1, m;
    for (size_t i = 0; i < n; i++) {
        CHECK(ms_bpe_bytes(bpe, ids[i], &m) != NULL, "id %d", ids[i]);
        all += m;
    }
    char *text = check_alloc(all);
    *bytes     = 0;
    for (size_t i = 0; i < n; i++) {
        const char *p = ms_bpe_bytes(bpe, ids[i], &m);
        memcpy(text + *bytes, p, m);
        *bytes += m;
    }
    return text;
}

/* ---- fixtures -------------------------------------------------------------------------------- */

static size_t from_hex(const char *hex, char *out)
{
    const size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        const char two[3] = { hex[2 * i], hex[2 * i + 1], '\0' };
        out[i]            = (char)strtol(two, NULL, 16);
    }
    return n;
}

static void check_case(const coder *c, const json_t *row)
{
    const char   *kind  = json_string_value(json_object_get(row, "kind"));
    const char   *name  = json_string_value(json_object_get(row, "id"));
    const char   *hex   = json_string_value(json_object_get(row, "hex"));
    const json_t *want  = json_object_get(row, "ids");
    const size_t  n     = json_array_size(want);
    char         *text  = check_alloc(strlen(hex) / 2 + 1);
    const size_t  bytes = from_hex(hex, text);
    uint16_t     *ids   = check_alloc((ms_bpe_max_ids(bytes) + n) * sizeof *ids);
    size_t        got   = n, m;

    if (strcmp(kind, "decode") == 0)
        for (size_t i = 0; i < n; i++)
            ids[i] = (uint16_t)json_integer_value(json_array_get(want, i));
    else
        got =
            ms_bpe_encode(c->bpe, c->cache, text, bytes, strcmp(kind, "encode-special") == 0, ids);
    CHECK(got == n, "%s: %zu ids, not %zu", name, got, n);
    for (size_t i = 0; i < n; i++)
        CHECK(ids[i] == json_integer_value(json_array_get(want, i)), "%s: id %zu is %d", name, i,
              ids[i]);
    char *back = decode(c->bpe, ids, n, &m);
    CHECK(m == bytes && memcmp(back, text, m) == 0, "%s: decoded", name);
    free(back);
    free(ids);
    free(text);
}

TEST(fixtures_have_the_ids_of_other_programs)
{
    const char *path = shared_path("bpe-fixtures.jsonl");
    FILE       *f    = fopen(path, "rb");
    coder       c;
    int         cases = 0;
    json_t     *row;

    if (f == NULL) SKIP("no bpe-fixtures.jsonl");
    c = open_gpt2();
    while ((row = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL)) != NULL) {
        check_case(&c, row);
        json_decref(row);
        cases++;
    }
    fclose(f);
    close_coder(&c);
    print_message("%d cases\n", cases);
    CHECK(cases == 343, "%d cases", cases);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Each document ends with the separator and becomes 50256 and its ids.  Returns the number of
 * ids. */
static size_t encode_documents(const coder *c, const char *text, size_t bytes, uint16_t *ids)
{
    static const char separator[] = "\n<|endoftext|>\n";
    const size_t      m           = strlen(separator);
    size_t            n = 0, at = 0;
    while (at < bytes) {
        size_t end = at;
        while (memcmp(text + end, separator, m) != 0)
            end = (size_t)((const char *)memchr(text + end + 1, '\n', bytes - end - 1) - text);
        ids[n++] = MS_BPE_START;
        n += ms_bpe_encode(c->bpe, c->cache, text + at, end - at, false, ids + n);
        at = end + m;
    }
    return n;
}

/* A text of the shared data, compressed or not; NULL if it cannot be read. */
static char *read_shared_text(const char *name, size_t *bytes)
{
    const char *path = path_in(path_in(check_shared_data_dir(), "text"), name);
    char        command[2200], *text = bpe_rig_read(path, bytes);

    if (text != NULL) return text;
    snprintf(command, sizeof command, "xz -dcq '%s.xz' 2>/dev/null", path);
    return bpe_rig_read_program(command, bytes);
}

static void check_text(const coder *c, const char *name, long tokens, const char *want_stream,
                       const char *want_file)
{
    int32_t   header[256] = { 20240520, 1, (int32_t)tokens };
    char      hex[MS_SHA256_HEX];
    size_t    bytes, n;
    char     *text = read_shared_text(name, &bytes);
    uint16_t *ids;
    ms_sha256 sum;

    if (text == NULL) {
        SKIP_PART("%s: no such file, or no xz", name);
        return;
    }
    ids = check_alloc(2 * ms_bpe_max_ids(bytes) * sizeof *ids);
    n   = encode_documents(c, text, bytes, ids);
    CHECK(n == (size_t)tokens, "%s: %zu tokens, not %ld", name, n, tokens);
    ms_sha256_init(&sum);
    ms_sha256_add(&sum, ids, n * sizeof *ids);
    ms_sha256_end(&sum, hex);
    CHECK(strcmp(hex, want_stream) == 0, "%s: the ids differ", name);
    ms_sha256_init(&sum);
    ms_sha256_add(&sum, header, sizeof header);
    ms_sha256_add(&sum, ids, n * sizeof *ids);
    ms_sha256_end(&sum, hex);
    CHECK(strcmp(hex, want_file) == 0, "%s: the file differs", name);
    print_message("%s: %zu tokens\n", name, n);
    free(ids);
    free(text);
}

TEST(whole_texts_have_the_sums_of_other_programs)
{
    FILE *f = fopen(shared_path("text/expected-tokens.tsv"), "rb");
    char  line[1024];
    int   n = 0;
    coder c;

    if (f == NULL) SKIP("no expected-tokens.tsv");
    c = open_gpt2();
    while (fgets(line, sizeof line, f) != NULL) {
        char *column[7], *rest = line;
        for (size_t k = 0; k < COUNT(column); k++) {
            column[k] = rest;
            rest += strcspn(rest, "\t\n");
            CHECK(*rest != '\0', "line %d has %zu columns", n + 1, k);
            *rest++ = '\0';
        }
        if (strcmp(column[0], "file") == 0) continue;
        check_text(&c, column[0], strtol(column[4], NULL, 10), column[5], column[6]);
        n++;
    }
    CHECK(n == 8, "%d texts", n);
    fclose(f);
    close_coder(&c);
}

/* ---- random bytes ---------------------------------------------------------------------------- */

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(0xF00 >> n | c);
    return (size_t)n;
}

/* Random bytes of one of six kinds: any, letters and blanks, characters, characters with damage,
 * mostly one letter, special tokens whole and cut. */
static size_t draw_bytes(uint64_t key, char *out, size_t capacity)
{
    static const char letters[] = "aaaeeett    \n\tnosrhld'.,-=0123THE";
    const uint64_t    kind = ms_rand_u64(key, 0) % 6, want = ms_rand_u64(key, 1) % (capacity - 4);
    size_t            n = 0;
    for (uint64_t i = 2; n < want; i++) {
        const uint64_t bits = ms_rand_u64(key, i);
        uint32_t       c    = (uint32_t)(bits % (bits >> 62 == 0 ? 0x10FFFF : 0x3FF));
        if (c >= 0xD800 && c <= 0xDFFF) c = 'x';
        switch (kind) {
        case 0: out[n++] = (char)bits; break;
        case 1: out[n++] = letters[bits % (sizeof letters - 1)]; break;
        case 2: n += put_utf8(c, out + n); break;
        case 3:
            n += put_utf8(c, out + n);
            if (bits >> 60 == 1) out[n - 1] = (char)(bits >> 32);
            break;
        case 4: out[n++] = (char)(bits >> 58 == 0 ? bits : ' ' + (key & 0x5F)); break;
        default:
            memcpy(out + n, "<|endoftext|>", n + 13 <= want ? 13 : 1), n += n + 13 <= want ? 13 : 1;
        }
    }
    return n;
}

enum { TEXT_BYTES = 400 };

/* The ids of a text must be those of the reference, and decode to the text. */
static void check_ids(const coder *c, const char *bytes, size_t n, int number)
{
    char     *text = check_alloc(n); /* exactly as long, so that sanitizers see reads beyond it */
    uint16_t *ids  = check_alloc(ms_bpe_max_ids(n) * sizeof *ids);
    int       want[TEXT_BYTES];
    size_t    decoded;
    memcpy(text, bytes, n);
    const size_t n_ids  = ms_bpe_encode(c->bpe, c->cache, text, n, false, ids);
    const int    n_want = bpe_rig_encode(&c->rig, &c->bpe->classes, text, (int)n, want);
    char        *back   = decode(c->bpe, ids, n_ids, &decoded);
    CHECK(decoded == n && memcmp(back, text, n) == 0, "text %d is not decoded", number);
    CHECK(n_ids == (size_t)n_want, "text %d: %zu ids, not %d", number, n_ids, n_want);
    for (int i = 0; i < n_want; i++)
        CHECK(ids[i] == want[i], "text %d: id %d is %d, not %d", number, i, ids[i], want[i]);
    free(back), free(ids), free(text);
}

static void check_random(const coder *c, int times, uint64_t seed)
{
    char text[TEXT_BYTES];
    for (int k = 0; k < times; k++)
        check_ids(c, text,
                  draw_bytes(ms_rand_key(seed + (uint64_t)k, "bpe_test"), text, TEXT_BYTES), k);
}

TEST(random_texts_have_the_references_ids_of_gpt2)
{
    bpe_rig r;
    if (!bpe_rig_gpt2(&r)) SKIP("no shared data (set MUSEC_DATA)");
    coder c = open_gpt2();
    c.rig   = r;
    check_random(&c, 10000, 1);
    close_coder(&c);
}

/* Vocabularies of few letters give long chains of merges and much backtracking. */
TEST(random_texts_have_the_references_ids_of_small_vocabularies)
{
    static const char *const letters[] = { "a", "ab", "aet ", " aeost'n0",
                                           "\xC3\xA9\xE2\x82\xAC e" };
    for (size_t k = 0; k < 20; k++) {
        const int merges = k % 5 == 0 ? 10 : 12 << k % 5;
        coder     c      = open_drawn(merges, letters[k % COUNT(letters)], k);
        char      text[300];
        check_random(&c, 100, 1000 * k);
        for (uint64_t i = 0; i < 200; i++) { /* one long word of the letters themselves */
            const uint64_t key = ms_rand_key(1000 * k + i, "word");
            const int      n   = (int)(ms_rand_u64(key, 0) % 300);
            const size_t   m   = strlen(letters[k % COUNT(letters)]);
            for (int j = 0; j < n; j++)
                text[j] = letters[k % COUNT(letters)][ms_rand_u64(key, 1 + (uint64_t)j) % m];
            check_ids(&c, text, (size_t)n, (int)(1000 * k + i));
        }
        close_coder(&c);
    }
}

TEST(endoftext_is_one_id_only_where_it_is_special)
{
    coder    c = open_drawn(20, "endoftx<|>", 3);
    uint16_t ids[64], start = (uint16_t)c.rig.n;
    size_t   n, bytes;

    n = ms_bpe_encode(c.bpe, c.cache, "<|endoftext|>", 13, true, ids);
    CHECK(n == 1 && ids[0] == start, "%zu ids", n);
    n = ms_bpe_encode(c.bpe, c.cache, "a<|endoftext|><|endoftext|>b <|endoftext", 40, true, ids);
    CHECK(ids[0] == c.rig.byte_id['a'] && ids[1] == start && ids[2] == start &&
              ids[3] == c.rig.byte_id['b'],
          "around it");
    for (size_t i = 4; i < n; i++)
        CHECK(ids[i] != start, "a piece of it is text");
    n = ms_bpe_encode(c.bpe, c.cache, "<|endoftext|>", 13, false, ids);
    for (size_t i = 0; i < n; i++)
        CHECK(ids[i] != start, "text like any other");
    CHECK(ms_bpe_encode(c.bpe, c.cache, "", 0, true, ids) == 0, "nothing");
    CHECK(ms_bpe_encode(c.bpe, c.cache, "", 0, false, ids) == 0, "nothing");
    CHECK(memcmp(ms_bpe_bytes(c.bpe, start, &bytes), "<|endoftext|>", 13) == 0 && bytes == 13,
          "its bytes");
    CHECK(ms_bpe_bytes(c.bpe, -1, &bytes) == NULL && bytes == 0, "id -1");
    CHECK(ms_bpe_bytes(c.bpe, start + 1, &bytes) == NULL && bytes == 0, "one beyond");
    close_coder(&c);
}

TEST(texts_around_an_invalid_byte_are_encoded_separately)
{
    enum { SIDE = 60 };
    coder c = open_drawn(60, "aet \n", 4);

    for (uint64_t k = 0; k < 500; k++) {
        static const unsigned char bad[] = { 0x80, 0xBF, 0xC0, 0xC1, 0xF5, 0xFF, 0xE2, 0xF0 };
        char                       text[2 * SIDE + 1];
        uint16_t                   ids[2 * SIDE + 2], side[2 * SIDE + 2];
        size_t                     n[2], at = 0, want = 0;
        for (size_t s = 0; s < 2; s++) {
            const uint64_t key = ms_rand_key(2 * k + s, "sides");
            n[s]               = ms_rand_u64(key, 0) % SIDE;
            for (size_t i = 0; i < n[s]; i++)
                text[at++] = "aet  \n"[ms_rand_u64(key, i + 1) % 6];
            if (s == 0) text[at++] = (char)bad[k % sizeof bad];
        }
        const size_t got = ms_bpe_encode(c.bpe, c.cache, text, at, false, ids);
        want             = ms_bpe_encode(c.bpe, c.cache, text, n[0], false, side);
        side[want++]     = (uint16_t)c.rig.byte_id[bad[k % sizeof bad]];
        want += ms_bpe_encode(c.bpe, c.cache, text + n[0] + 1, n[1], false, side + want);
        CHECK(got == want && memcmp(ids, side, want * sizeof *ids) == 0, "text %d", (int)k);
    }
    close_coder(&c);
}

/* ---- long words, threads --------------------------------------------------------------------- */

/* If time grew with the square of the length, a word of a megabyte would take hours. */
TEST(words_of_a_megabyte_are_encoded_and_decoded)
{
    enum { N = 1 << 20 };
    static const char *const of[] = { "a", " ", "ab", "-", "aaaaaaab", "0", "\xC3\xA9" };
    coder                    c    = open_drawn(300, "ab -0\xC3\xA9", 5);
    char                    *text = check_alloc(N), *back;
    uint16_t                *ids  = check_alloc(ms_bpe_max_ids(N) * sizeof *ids);
    size_t                   n, bytes;

    for (size_t k = 0; k < COUNT(of); k++) {
        for (size_t i = 0; i < N; i++)
            text[i] = of[k][i % strlen(of[k])];
        n    = ms_bpe_encode(c.bpe, c.cache, text, N, false, ids);
        back = decode(c.bpe, ids, n, &bytes);
        CHECK(bytes == N && memcmp(back, text, N) == 0, "'%s' is not decoded", of[k]);
        free(back);
    }
    free(ids);
    free(text);
    close_coder(&c);
}

typedef struct job {
    const ms_bpe *bpe;
    const char   *text;
    size_t        bytes, n;
    uint16_t     *ids;
} job;

static void *encode_job(void *arg)
{
    job          *j     = arg;
    ms_bpe_cache *cache = NULL;
    ms_error      e;
    if (ms_bpe_cache_make(&e, j->bpe, &cache) != MUSEC_OK) return NULL;
    for (int again = 0; again < 3; again++)
        j->n = ms_bpe_encode(j->bpe, cache, j->text, j->bytes, false, j->ids);
    ms_bpe_cache_free(cache);
    return NULL;
}

TEST(threads_share_a_vocabulary)
{
    enum { THREADS = 8, N = 100000 };
    coder     c    = open_drawn(500, " aeostn", 6);
    char     *text = check_alloc(N);
    pthread_t thread[THREADS];
    job       jobs[THREADS];

    for (size_t i = 0; i < N; i++)
        text[i] = " aeostn"[ms_rand_u64(6, i) % 7];
    for (int k = 0; k < THREADS; k++) {
        jobs[k]     = (job){ .bpe = c.bpe, .text = text, .bytes = N };
        jobs[k].ids = check_alloc(ms_bpe_max_ids(N) * sizeof *jobs[k].ids);
        CHECK(pthread_create(&thread[k], NULL, encode_job, &jobs[k]) == 0, "thread %d", k);
    }
    for (int k = 0; k < THREADS; k++)
        pthread_join(thread[k], NULL);
    for (int k = 0; k < THREADS; k++)
        CHECK(jobs[k].n > 0 && jobs[k].n == jobs[0].n &&
                  memcmp(jobs[k].ids, jobs[0].ids, jobs[0].n * sizeof *jobs[0].ids) == 0,
              "thread %d has other ids", k);
    for (int k = 0; k < THREADS; k++)
        free(jobs[k].ids);
    free(text);
    close_coder(&c);
}
