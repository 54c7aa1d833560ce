/* source_test.c - sources of tokens: files, directories, the built-in corpus. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/bpe.h"
#include "data/bytes.h"
#include "data/corpus.h"
#include "data/shard.h"
#include "data/source.h"
#include "scratch.h"

#define SEP "\n<|endoftext|>\n"

static void make_dir(const char *path) { CHECK(mkdir(path, 0777) == 0, "%s", path); }

/* A shard of the n tokens first, first + 1, ..., of which every `each`-th is the start id 9999. */
static void put_shard(const char *path, int first, int n, int each)
{
    uint16_t *tokens = check_alloc((size_t)n * 2 + 1);
    ms_error  e;
    for (int i = 0; i < n; i++)
        tokens[i] = (uint16_t)(each > 0 && i % each == 0 ? 9999 : first + i);
    CHECK_OK_ERR(&e, ms_shard_write(&e, path, tokens, n));
    free(tokens);
}

static ms_source_config shards(const char *path, ms_split split)
{
    return (ms_source_config){ path, split, 10000, 9999, MS_SHARD_HEADED };
}

static ms_source_config bytes(const char *path, ms_split split)
{
    return (ms_source_config){ path, split, MS_BYTES_VOCAB, MS_BYTES_START, MS_SHARD_HEADED };
}

static ms_source *open_ok(ms_source_config cfg)
{
    ms_source *s = NULL;
    ms_error   e;
    CHECK_OK_ERR(&e, ms_source_open(&e, &cfg, &s));
    return s;
}

static void expect_failure(ms_source_config cfg, musec_status want, const char *words)
{
    ms_source   *s  = (ms_source *)&cfg;
    ms_error     e  = { "" };
    musec_status st = ms_source_open(&e, &cfg, &s);
    CHECK(st == want && s == NULL, "%s: %s: %s", cfg.path, musec_status_name(st), e.text);
    CHECK(strstr(e.text, words) != NULL, "no '%s' in: %s", words, e.text);
    CHECK(strncmp(e.text, cfg.path, strlen(cfg.path)) == 0, "no path in: %s", e.text);
}

static void expect_description(const ms_source *s, const char *want)
{
    char text[600], small[8];
    ms_source_describe(s, text, sizeof text);
    CHECK(strcmp(text, want) == 0, "is '%s', not '%s'", text, want);
    ms_source_describe(s, small, sizeof small);
    CHECK(strncmp(small, want, 7) == 0, "cut to '%s'", small);
}

/* Opens the source, which must have these pieces, with these lengths and first tokens, and (unless
 * NULL) this description, in which %s is a path. */
static void expect_source(ms_source_config cfg, int64_t pieces, const int64_t *n, const int *first,
                          const char *description, const char *path)
{
    ms_source *s   = open_ok(cfg);
    int64_t    sum = 0;
    CHECK(ms_source_pieces(s) == pieces, "%lld pieces", (long long)ms_source_pieces(s));
    for (int round = 0; round < 2; round++) /* the second time from the last to the first */
        for (int64_t k = 0; k < pieces; k++) {
            const int64_t   i = round == 0 ? k : pieces - 1 - k;
            const uint16_t *tokens;
            int64_t         got;
            ms_error        e;
            CHECK_OK_ERR(&e, ms_source_piece(&e, s, i, &tokens, &got));
            CHECK(got == n[i], "piece %lld has %lld", (long long)i, (long long)got);
            CHECK(tokens[0] == first[i], "piece %lld begins with %u", (long long)i, tokens[0]);
            sum += got;
        }
    CHECK(ms_source_tokens(s) == sum / 2, "%lld tokens", (long long)ms_source_tokens(s));
    if (description != NULL) {
        char        want[600];
        const char *at = strstr(description, "%s");
        snprintf(want, sizeof want, "%.*s%s%s", (int)(at - description), description, path, at + 2);
        expect_description(s, want);
    }
    ms_source_close(s);
}

TEST(one_file_is_cut_at_nine_tenths)
{
    static const struct {
        int n, each;
        int cut; /* the first token of the validation side */
    } cases[] = {
        { 100, 0, 90 },  /* no document begins anywhere */
        { 100, 7, 91 },  /* one begins at 91 */
        { 100, 30, 90 }, /* one begins just there */
        { 100, 60, 90 }, /* none in the last tenth */
        { 100, 99, 99 }, /* one at the last token */
        { 10, 0, 9 },    { 19, 0, 18 },
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        const int     n = cases[c].n, cut = cases[c].cut, each = cases[c].each;
        const int64_t train = cut, val = n - cut;
        const int     first = each > 0 ? 9999 : 50;
        const int     then  = each > 0 && cut % each == 0 ? 9999 : 50 + cut;
        put_shard(tmp_path("one.bin"), 50, n, each);
        expect_source(shards(tmp_path("one.bin"), MS_SPLIT_TRAIN), 1, &train, &first, NULL, NULL);
        expect_source(shards(tmp_path("one.bin"), MS_SPLIT_VAL), 1, &val, &then, NULL, NULL);
    }
    put_shard(tmp_path("short.bin"), 50, 9, 0);
    ms_source_close(open_ok(shards(tmp_path("short.bin"), MS_SPLIT_TRAIN)));
    expect_failure(shards(tmp_path("short.bin"), MS_SPLIT_VAL), MUSEC_EFORMAT,
                   "9 tokens are too few");
}

TEST(a_text_goes_through_the_byte_tokenizer)
{
    const int64_t train = 25, val = 2;
    const int     start = MS_BYTES_START;
    const char   *path  = tmp_path("t.txt");

    put_text(path, "abcdefghijk" SEP "0123456789" SEP "z" SEP "y" SEP); /* 12, 11, 2, 2 tokens */
    expect_source(bytes(path, MS_SPLIT_TRAIN), 1, &train, &start,
                  "%s, 1 text, all but its last tenth, 25 tokens", path);
    expect_source(bytes(path, MS_SPLIT_VAL), 1, &val, &start,
                  "%s, 1 text, its last tenth, 2 tokens", path);
}

TEST(names_in_a_directory_tell_training_from_validation)
{
    const int64_t train[] = { 30, 20, 25 }, val[] = { 11, 10 };
    const int     first[] = { 100, 200, 300 }, vfirst[] = { 400, 500 };

    make_dir(tmp_path("set"));
    put_shard(tmp_path("set/train_000003.bin"), 300, 25, 0);
    put_shard(tmp_path("set/train_000001.bin"), 100, 30, 0);
    put_shard(tmp_path("set/train_000002.bin"), 200, 20, 0);
    put_shard(tmp_path("set/train_000004.bin"), 300, 0, 0); /* without tokens: skipped */
    put_shard(tmp_path("set/val_000000.bin"), 400, 11, 0);
    put_shard(tmp_path("set/val_000001.bin"), 500, 10, 0);
    put_shard(tmp_path("set/.hidden.bin"), 0, 5, 0);
    put_text(tmp_path("set/notes.txt"), "no shard, but there are shards");
    put_text(tmp_path("set/more.bin.xz"), "");
    expect_source(shards(tmp_path("set"), MS_SPLIT_TRAIN), 3, train, first,
                  "train_00000*.bin in %s, 3 shards, 75 tokens", tmp_path("set"));
    expect_source(shards(tmp_path("set/"), MS_SPLIT_VAL), 2, val, vfirst, NULL, NULL);
}

TEST(a_directory_without_validation_files_gives_its_last_tenth)
{
    const int64_t train[] = { 6, 40 - 4 }, val = 4;
    const int     first[] = { MS_BYTES_START, MS_BYTES_START }, vfirst = '5';
    const char   *dir = tmp_path("texts");

    make_dir(dir);
    put_text(tmp_path("texts/a.txt"), "first");
    put_text(tmp_path("texts/b.txt"), "012345678901234567890123456789012345678"); /* 40 tokens */
    put_text(tmp_path("texts/c.txt"), "");
    expect_source(bytes(dir, MS_SPLIT_TRAIN), 2, train, first,
                  "*.txt in %s, 2 texts, all but the last tenth of the last, 42 tokens", dir);
    expect_source(bytes(dir, MS_SPLIT_VAL), 1, &val, &vfirst,
                  "b.txt in %s, 1 text, its last tenth, 4 tokens", dir);
}

TEST(sources_that_cannot_be_read_are_refused)
{
    expect_failure(bytes(tmp_path("none"), MS_SPLIT_TRAIN), MUSEC_EIO,
                   "give a file, a directory or");
    make_dir(tmp_path("empty"));
    expect_failure(bytes(tmp_path("empty"), MS_SPLIT_TRAIN), MUSEC_EFORMAT, "neither shards");
    put_text(tmp_path("empty/a.txt.xz"), "x");
    expect_failure(bytes(tmp_path("empty"), MS_SPLIT_TRAIN), MUSEC_EFORMAT,
                   "decompress them first: xz -dk");
    expect_failure(bytes(tmp_path("empty/a.txt.xz"), MS_SPLIT_TRAIN), MUSEC_EFORMAT,
                   "decompress it first: xz -dk");
    put_text(tmp_path("empty/b.gz"), "x");
    expect_failure(bytes(tmp_path("empty/b.gz"), MS_SPLIT_VAL), MUSEC_EFORMAT, "gzip -dk");
    make_dir(tmp_path("vals"));
    put_shard(tmp_path("vals/val_0.bin"), 0, 20, 0);
    expect_failure(shards(tmp_path("vals"), MS_SPLIT_TRAIN), MUSEC_EFORMAT,
                   "training needs others");
    ms_source_close(open_ok(shards(tmp_path("vals"), MS_SPLIT_VAL)));
    put_text(tmp_path("nothing.txt"), "");
    expect_failure(bytes(tmp_path("nothing.txt"), MS_SPLIT_TRAIN), MUSEC_EFORMAT,
                   "no tokens for training");
    make_dir(tmp_path("holes"));
    make_dir(tmp_path("holes/dir.txt"));
    {
        ms_source_config cfg = bytes(tmp_path("holes"), MS_SPLIT_TRAIN);
        ms_source       *s   = NULL;
        ms_error         e   = { "" };
        CHECK_FAILS(&e, ms_source_open(&e, &cfg, &s), MUSEC_EIO, "dir.txt");
    }
    put_shard(tmp_path("ids.bin"), 9000, 2000, 0);
    expect_failure(shards(tmp_path("ids.bin"), MS_SPLIT_TRAIN), MUSEC_EFORMAT,
                   "token 1000 has the id 10000, but ids must be below 10000");
    expect_failure(bytes("/dev/null", MS_SPLIT_TRAIN), MUSEC_EIO, "pipe or device");
    if (geteuid() != 0) {
        make_dir(tmp_path("locked"));
        CHECK(chmod(tmp_path("locked"), 0) == 0, "chmod");
        expect_failure(bytes(tmp_path("locked"), MS_SPLIT_TRAIN), MUSEC_EIO, "Permission denied");
        CHECK(chmod(tmp_path("locked"), 0700) == 0, "chmod");
    }
}

TEST(impossible_configurations_are_refused)
{
    ms_source_config cfg = { "", MS_SPLIT_TRAIN, 320, 256, MS_SHARD_HEADED };
    ms_source       *s   = NULL;
    ms_error         e   = { "" };

    CHECK(ms_source_open(&e, &cfg, &s) == MUSEC_EINVAL && s == NULL, "%s", e.text);
    put_text(tmp_path("t.txt"), "text");
    cfg = (ms_source_config){ tmp_path("t.txt"), MS_SPLIT_TRAIN, 50304, 50256, MS_SHARD_HEADED };
    expect_failure(cfg, MUSEC_EINVAL, "run musec tokenize ");
    cfg = (ms_source_config){ tmp_path("t.txt"), MS_SPLIT_TRAIN, 256, 255, MS_SHARD_HEADED };
    expect_failure(cfg, MUSEC_EINVAL, "the model has 256 ids");
    cfg = (ms_source_config){ "builtin", MS_SPLIT_TRAIN, 200, 199, MS_SHARD_HEADED };
    expect_failure(cfg, MUSEC_EINVAL, "train with --tokenizer byte");
    cfg = (ms_source_config){ "builtin", MS_SPLIT_TRAIN, 50304, 50256,
                              MS_SHARD_HEADED }; /* to try a large model */
    CHECK_OK_ERR(&e, ms_source_open(&e, &cfg, &s));
    ms_source_close(s);
    cfg = (ms_source_config){ "builtin", MS_SPLIT_TRAIN, 256, 256, MS_SHARD_HEADED };
    expect_failure(cfg, MUSEC_EINVAL, "cannot start documents");
    cfg.start_id = -1;
    expect_failure(cfg, MUSEC_EINVAL, "cannot start documents");
    expect_failure(bytes("builtin:", MS_SPLIT_TRAIN), MUSEC_EINVAL, "whole number");
    expect_failure(bytes("builtin:x", MS_SPLIT_TRAIN), MUSEC_EINVAL, "whole number");
    expect_failure(bytes("builtin:-1", MS_SPLIT_TRAIN), MUSEC_EINVAL, "whole number");
    expect_failure(bytes("builtin:1 ", MS_SPLIT_TRAIN), MUSEC_EINVAL, "whole number");
    expect_failure(bytes("builtin:18446744073709551616", MS_SPLIT_TRAIN), MUSEC_EINVAL,
                   "whole number");
    ms_source_close(NULL);
}

/* Piece `index` must hold 512 documents of the corpus from `first` on, each after a start token. */
static void expect_documents(ms_source *s, uint64_t seed, int64_t index, int64_t first)
{
    const uint16_t *tokens;
    int64_t         n, k = 0;
    ms_error        e;

    CHECK_OK_ERR(&e, ms_source_piece(&e, s, index, &tokens, &n));
    for (int64_t d = 0; d < 512; d++) {
        char  *text;
        size_t length;
        CHECK_OK_ERR(&e, ms_corpus_document(&e, seed, first + d, &text, &length));
        CHECK(k < n && tokens[k++] == MS_BYTES_START, "document %lld", (long long)d);
        for (size_t i = 0; i < length; i++, k++)
            CHECK(k < n && tokens[k] == (unsigned char)text[i], "document %lld", (long long)d);
        free(text);
    }
    CHECK(k == n, "%lld tokens more", (long long)(n - k));
}

TEST(the_builtin_corpus_is_endless_and_has_its_documents)
{
    const int64_t   last = ((int64_t)1 << 62) / 512 - 1;
    const uint16_t *tokens;
    int64_t         n;
    ms_error        e;
    ms_source      *s = open_ok(bytes("builtin", MS_SPLIT_TRAIN));

    CHECK(ms_source_pieces(s) == INT64_MAX && ms_source_tokens(s) == -1, "it has no end");
    expect_description(s, "built-in corpus, seed 0, training documents without end");
    expect_documents(s, 0, 0, 0);
    expect_documents(s, 0, 3, 3 * 512);
    expect_documents(s, 0, last, ((int64_t)1 << 62) - 512);
    CHECK(ms_source_piece(&e, s, last + 1, &tokens, &n) == MUSEC_EINVAL, "beyond the last");
    CHECK(ms_source_piece(&e, s, -1, &tokens, &n) == MUSEC_EINVAL, "before the first");
    ms_source_close(s);
    s = open_ok(bytes("builtin:18446744073709551615", MS_SPLIT_VAL));
    expect_description(s,
                       "built-in corpus, seed 18446744073709551615, validation documents without "
                       "end");
    expect_documents(s, UINT64_MAX, 0, (int64_t)1 << 62);
    expect_documents(s, UINT64_MAX, last, INT64_MAX - 511);
    ms_source_close(s);
}

/* In GPT-2's encoder.json "!" is 0, "A" 32, "a" 64, "~" 93, and the other bytes follow in their
 * order from 188 on, the newline as 198, the space as 220. */
TEST(for_gpt2_the_builtin_corpus_has_gpt2s_ids_of_bytes)
{
    static const struct {
        unsigned char byte;
        uint16_t      id;
    } known[] = { { '!', 0 },    { 'A', 32 },   { 'a', 64 },   { '~', 93 },  { 0xa1, 94 },
                  { 0xae, 106 }, { 0xff, 187 }, { 0, 188 },    { 10, 198 },  { ' ', 220 },
                  { 127, 221 },  { 0x80, 222 }, { 0xa0, 254 }, { 0xad, 255 } };
    const ms_source_config cfg     = { "builtin", MS_SPLIT_TRAIN, 50304, 50256, MS_SHARD_HEADED };
    ms_source             *s       = open_ok(cfg);
    bool                   is[256] = { false };
    const uint16_t        *tokens;
    int64_t                n;
    char                  *text;
    size_t                 length;
    ms_error               e;

    for (size_t i = 0; i < COUNT(known); i++)
        CHECK(ms_bpe_byte_id(known[i].byte) == known[i].id, "byte %d is %d", known[i].byte,
              ms_bpe_byte_id(known[i].byte));
    for (int b = 0; b < 256; b++)
        is[ms_bpe_byte_id((unsigned char)b)] = true;
    for (int id = 0; id < 256; id++)
        CHECK(is[id], "no byte has the id %d", id);
    CHECK_OK_ERR(&e, ms_source_piece(&e, s, 0, &tokens, &n));
    CHECK_OK_ERR(&e, ms_corpus_document(&e, 0, 0, &text, &length));
    CHECK(tokens[0] == 50256 && tokens[length + 1] == 50256, "the first document");
    for (size_t i = 0; i < length; i++)
        CHECK(tokens[i + 1] == ms_bpe_byte_id((unsigned char)text[i]), "byte %zu is %d", i,
              tokens[i + 1]);
    free(text);
    ms_source_close(s);
}

/* ---- identity -------------------------------------------------------------------------------- */

static ms_identity identity(ms_source_config cfg)
{
    ms_source  *s = open_ok(cfg);
    ms_identity id;
    ms_error    e;
    CHECK_OK_ERR(&e, ms_source_identify(&e, s, &id));
    CHECK(id.tokens == ms_source_tokens(s) && strlen(id.sha256) == 64, "%s", id.sha256);
    ms_source_close(s);
    return id;
}

static bool same(ms_source_config a, ms_source_config b)
{
    const ms_identity x = identity(a), y = identity(b);
    return x.tokens == y.tokens && strcmp(x.sha256, y.sha256) == 0;
}

TEST(the_identity_is_that_of_the_tokens)
{
    const ms_source_config gpt2 = { "builtin", MS_SPLIT_TRAIN, 50304, 50256, MS_SHARD_HEADED };
    const ms_source_config a    = bytes(tmp_path("id_a.txt"), MS_SPLIT_TRAIN),
                           one  = shards(tmp_path("id_one"), MS_SPLIT_TRAIN),
                           two  = shards(tmp_path("id_two"), MS_SPLIT_TRAIN),
                           made = bytes("builtin", MS_SPLIT_TRAIN);

    put_text(tmp_path("id_a.txt"), "abcdefghijklmnopqrstuvwxyz");
    put_text(tmp_path("id_b.txt"), "abcdefghijklmnopqrstuvwxyz");
    put_text(tmp_path("id_c.txt"), "abcdefghijklmnopqrstuvwxyZ");
    put_text(tmp_path("id_d.txt"), "abcdefghijklmnopqrstuvwxyz.");
    CHECK(same(a, bytes(tmp_path("id_b.txt"), MS_SPLIT_TRAIN)), "a copy is the same");
    CHECK(!same(a, bytes(tmp_path("id_c.txt"), MS_SPLIT_TRAIN)), "another letter is not");
    CHECK(!same(a, bytes(tmp_path("id_d.txt"), MS_SPLIT_TRAIN)), "one letter more is not");
    CHECK(!same(a, bytes(tmp_path("id_a.txt"), MS_SPLIT_VAL)), "the validation part is not");
    make_dir(tmp_path("id_one"));
    make_dir(tmp_path("id_two"));
    put_shard(tmp_path("id_one/train_1.bin"), 1, 40, 0);
    put_shard(tmp_path("id_one/train_2.bin"), 2, 40, 0);
    put_shard(tmp_path("id_two/train_a.bin"), 1, 40, 0);
    put_shard(tmp_path("id_two/train_b.bin"), 2, 40, 0);
    CHECK(same(one, two), "names do not matter");
    put_shard(tmp_path("id_two/train_a.bin"), 2, 40, 0);
    put_shard(tmp_path("id_two/train_b.bin"), 1, 40, 0);
    CHECK(!same(one, two), "the order does");
    CHECK(same(made, bytes("builtin:0", MS_SPLIT_TRAIN)), "built in");
    CHECK(!same(made, bytes("builtin:1", MS_SPLIT_TRAIN)), "seeds");
    CHECK(!same(made, bytes("builtin", MS_SPLIT_VAL)), "splits");
    CHECK(!same(made, gpt2), "ids");
}

TEST(a_file_that_changes_its_length_is_an_error)
{
    const uint16_t *tokens;
    int64_t         n;
    ms_error        e;
    ms_source      *s;

    make_dir(tmp_path("live"));
    put_shard(tmp_path("live/a.bin"), 0, 20, 0);
    put_shard(tmp_path("live/b.bin"), 0, 20, 0);
    put_shard(tmp_path("live/val.bin"), 0, 20, 0);
    s = open_ok(shards(tmp_path("live"), MS_SPLIT_TRAIN));
    put_shard(tmp_path("live/b.bin"), 0, 30, 0);
    CHECK_OK_ERR(&e, ms_source_piece(&e, s, 0, &tokens, &n));
    CHECK_FAILS(&e, ms_source_piece(&e, s, 1, &tokens, &n), MUSEC_EFORMAT,
                "had 20 tokens when it was opened and has 30 now");
    put_shard(tmp_path("live/b.bin"), 7, 20, 0);
    CHECK_OK_ERR(&e, ms_source_piece(&e, s, 1, &tokens, &n));
    CHECK(n == 20 && tokens[0] == 7, "read again");
    CHECK(ms_source_piece(&e, s, 2, &tokens, &n) == MUSEC_EINVAL, "there are two");
    ms_source_close(s);
}
