/* shard_test.c - token shards written by the library and by others, valid and damaged. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/rng.h"
#include "data/shard.h"
#include "scratch.h"

/* A file of `bytes` bytes that begins with this header. */
static void put(const char *path, int32_t magic, int32_t version, int32_t n, size_t bytes)
{
    unsigned char file[4096] = { 0 };
    const int32_t head[3]    = { magic, version, n };

    memcpy(file, head, sizeof head);
    put_file(path, file, bytes);
}

static void expect_failure(const char *path, int64_t vocab, musec_status want, const char *words)
{
    ms_error     e      = { "" };
    uint16_t    *tokens = NULL;
    int64_t      n      = 7;
    musec_status st     = ms_shard_read(&e, path, MS_SHARD_HEADED, vocab, &tokens, &n);

    CHECK(st == want, "%s: %s: %s", words, musec_status_name(st), e.text);
    CHECK(tokens == NULL && n == 0, "%s: tokens were returned", words);
    CHECK(strncmp(e.text, path, strlen(path)) == 0, "%s: no path in: %s", words, e.text);
    CHECK(strstr(e.text, words) != NULL, "no '%s' in: %s", words, e.text);
}

TEST(written_shards_are_read_back)
{
    static const int64_t sizes[] = { 0, 1, 2, 1000, 100003 };

    for (size_t c = 0; c < COUNT(sizes); c++) {
        uint16_t *tokens = check_alloc((size_t)sizes[c] * 2 + 1), *back = NULL;
        int64_t   n = -1;
        ms_error  e;
        for (int64_t i = 0; i < sizes[c]; i++)
            tokens[i] = (uint16_t)ms_rand_u64(c, (uint64_t)i);
        CHECK_OK_ERR(&e, ms_shard_write(&e, tmp_path("x.bin"), tokens, sizes[c]));
        CHECK_OK_ERR(&e, ms_shard_tokens(&e, tmp_path("x.bin"), MS_SHARD_HEADED, &n));
        CHECK(n == sizes[c], "%lld tokens", (long long)n);
        CHECK_OK_ERR(&e, ms_shard_read(&e, tmp_path("x.bin"), MS_SHARD_HEADED, 65536, &back, &n));
        CHECK(n == sizes[c] && memcmp(back, tokens, (size_t)n * 2) == 0, "size %zu", c);
        free(back), free(tokens);
    }
}

TEST(written_shards_have_the_bytes_of_the_format)
{
    static const unsigned char head[12]  = { 0x88, 0xD8, 0x34, 0x01, 1, 0, 0, 0, 3, 0, 0, 0 };
    static const unsigned char body[6]   = { 0x50, 0xC4, 1, 0, 0xFF, 0xFF };
    static const uint16_t      tokens[3] = { 50256, 1, 65535 };
    blob                       file;
    ms_error                   e;

    CHECK_OK_ERR(&e, ms_shard_write(&e, tmp_path("x.bin"), tokens, 3));
    get_file(tmp_path("x.bin"), &file);
    CHECK(file.n == 1030, "%zu bytes", file.n);
    CHECK(memcmp(file.p, head, sizeof head) == 0, "its header");
    for (size_t i = sizeof head; i < MS_SHARD_HEADER_BYTES; i++)
        CHECK(file.p[i] == 0, "byte %zu", i);
    CHECK(memcmp(file.p + MS_SHARD_HEADER_BYTES, body, sizeof body) == 0, "its tokens");
}

TEST(damaged_shards_are_refused_with_the_reason)
{
    static const struct {
        int32_t     magic, version, n;
        size_t      bytes;
        const char *words;
    } cases[] = {
        { 20240521, 1, 2, 1028, "begins with the number 20240521, not with 20240520" },
        { 0, 0, 0, 1024, "begins with the number 0" },
        { 20240520, 2, 2, 1028, "version 2" },
        { 20240520, 1, 2, 1027, "truncated" },
        { 20240520, 1, 2, 1024, "truncated" },
        { 20240520, 1, 2, 1029, "too long" },
        { 20240520, 1, 0, 1026, "too long" },
        { 20240520, 1, 2, 0, "it has 0 bytes" },
        { 20240520, 1, 2, 1023, "it has 1023 bytes" },
        { 20240520, 1, -1, 1022 + 2, "counts -1 tokens" },
        { 20240520, 1, INT32_MIN, 1024, "counts -2147483648 tokens" },
        { 20240520, 1, INT32_MAX, 1024, "counts 2147483647 tokens" },
    };
    int64_t  n;
    ms_error e;

    for (size_t c = 0; c < COUNT(cases); c++) {
        put(tmp_path("bad.bin"), cases[c].magic, cases[c].version, cases[c].n, cases[c].bytes);
        expect_failure(tmp_path("bad.bin"), 65536, MUSEC_EFORMAT, cases[c].words);
        CHECK_FAILS(&e, ms_shard_tokens(&e, tmp_path("bad.bin"), MS_SHARD_HEADED, &n),
                    MUSEC_EFORMAT, cases[c].words);
    }
    expect_failure(tmp_path("none.bin"), 65536, MUSEC_EIO, "No such file");
    expect_failure(check_tmp_dir(), 65536, MUSEC_EIO, "directory");
    expect_failure("/dev/null", 65536, MUSEC_EIO, "give a file");
}

TEST(ids_beyond_the_vocabulary_are_refused)
{
    static const uint16_t tokens[] = { 256, 3, 319, 320, 50256, 0 };
    ms_error              e;
    uint16_t             *back = NULL;
    int64_t               n    = 0;

    CHECK_OK_ERR(&e, ms_shard_write(&e, tmp_path("ids.bin"), tokens, COUNT(tokens)));
    expect_failure(tmp_path("ids.bin"), 320, MUSEC_EFORMAT,
                   "token 3 has the id 320, but ids must be below 320");
    expect_failure(tmp_path("ids.bin"), 320, MUSEC_EFORMAT, "train with --tokenizer gpt2");
    CHECK_OK_ERR(&e, ms_shard_write(&e, tmp_path("more.bin"), (const uint16_t[]){ 60000 }, 1));
    expect_failure(tmp_path("more.bin"), 320, MUSEC_EFORMAT, "tokenize the text anew");
    expect_failure(tmp_path("ids.bin"), 50256, MUSEC_EFORMAT, "token 4 has the id 50256");
    expect_failure(tmp_path("ids.bin"), 1, MUSEC_EFORMAT, "token 0 has the id 256");
    CHECK_OK_ERR(&e, ms_shard_read(&e, tmp_path("ids.bin"), MS_SHARD_HEADED, 50257, &back, &n));
    free(back);
    CHECK_OK_ERR(
        &e, ms_shard_read(&e, tmp_path("ids.bin"), MS_SHARD_HEADED, (int64_t)1 << 40, &back, &n));
    free(back);
}

/* nanoGPT's files hold the tokens alone. */
TEST(files_without_a_header_are_read_on_request)
{
    static const uint16_t tokens[700] = { 50256, 15496, 995 };
    const char           *path        = tmp_path("bare.bin");
    uint16_t             *back        = NULL;
    int64_t               n           = 0;
    ms_error              e;

    put_file(path, tokens, sizeof tokens);
    CHECK_OK_ERR(&e, ms_shard_tokens(&e, path, MS_SHARD_BARE, &n));
    CHECK(n == (int64_t)COUNT(tokens), "%lld tokens", (long long)n);
    CHECK_OK_ERR(&e, ms_shard_read(&e, path, MS_SHARD_BARE, 50257, &back, &n));
    CHECK(n == (int64_t)COUNT(tokens) && memcmp(back, tokens, sizeof tokens) == 0, "tokens");
    free(back);
    expect_failure(path, 65536, MUSEC_EFORMAT, "add --data-format nanogpt");
    CHECK_FAILS(&e, ms_shard_read(&e, path, MS_SHARD_BARE, 320, &back, &n), MUSEC_EFORMAT,
                "--tokenizer gpt2");

    put_file(path, tokens, 0);
    CHECK_OK_ERR(&e, ms_shard_tokens(&e, path, MS_SHARD_BARE, &n));
    CHECK(n == 0, "%lld tokens of nothing", (long long)n);
    put_file(path, tokens, 2);
    CHECK_OK_ERR(&e, ms_shard_read(&e, path, MS_SHARD_BARE, 65536, &back, &n));
    CHECK(n == 1 && back[0] == 50256, "one token");
    free(back);
    put_file(path, tokens, 33);
    CHECK_FAILS(&e, ms_shard_tokens(&e, path, MS_SHARD_BARE, &n), MUSEC_EFORMAT,
                "33 bytes, an odd number");
    CHECK_OK_ERR(&e, ms_shard_write(&e, path, tokens, COUNT(tokens)));
    CHECK_FAILS(&e, ms_shard_tokens(&e, path, MS_SHARD_BARE, &n), MUSEC_EFORMAT,
                "leave --data-format out");
}

/* Tokens of the byte tokenizer are valid ids of GPT-2, but would train a model on noise. */
TEST(byte_tokens_are_refused_for_gpt2)
{
    static const uint16_t text[] = { 256, 72, 105, 256, 10 }, plain[] = { 72, 105 },
                          gpt2[] = { 50256, 72, 256 };
    ms_error e                   = { "" };
    CHECK(ms_shard_check_start(&e, "x.bin", 50256, text, COUNT(text)) == MUSEC_EFORMAT, "bytes");
    CHECK(strstr(e.text, "x.bin: ") == e.text && strstr(e.text, "--tokenizer byte") != NULL, "%s",
          e.text);
    CHECK_OK_ERR(&e, ms_shard_check_start(&e, "x.bin", 256, text, COUNT(text)));
    CHECK_OK_ERR(&e, ms_shard_check_start(&e, "x.bin", 50256, plain, COUNT(plain)));
    CHECK_OK_ERR(&e, ms_shard_check_start(&e, "x.bin", 50256, gpt2, COUNT(gpt2)));
    CHECK_OK_ERR(&e, ms_shard_check_start(&e, "x.bin", 50256, NULL, 0));
}

TEST(shards_that_cannot_be_written_are_refused)
{
    static const uint16_t tokens[1] = { 0 };
    ms_error              e;
    struct stat           sb;

    CHECK_FAILS(&e, ms_shard_write(&e, tmp_path("big.bin"), tokens, (int64_t)1 << 31), MUSEC_EINVAL,
                "write several");
    CHECK(ms_shard_write(&e, tmp_path("big.bin"), tokens, -1) == MUSEC_EINVAL, "-1");
    CHECK(stat(tmp_path("big.bin"), &sb) != 0, "a file was left");
    CHECK(ms_shard_write(&e, "/dev/full", tokens, 1) == MUSEC_EIO, "/dev/full");
    CHECK(ms_shard_write(&e, tmp_path("none/x.bin"), tokens, 1) == MUSEC_EIO, "no folder");
}

/* The numbers were read from the files by hand. */
TEST(shards_of_other_programs_are_read)
{
    static const struct {
        const char *name;
        int64_t     n;
        uint16_t    first[4];
    } cases[] = {
        { "tiny_shakespeare_train.bin", 305260, { 0 } },
        { "tiny_shakespeare_val.bin", 32768, { 50256, 5962, 22307, 25 } }, /* First Citizen: */
    };
    const char *dir = check_shared_data_dir();

    if (dir == NULL) SKIP("no shared data: set MUSEC_DATA");
    for (size_t c = 0; c < COUNT(cases); c++) {
        char        path[1024];
        uint16_t   *tokens = NULL;
        int64_t     n = 0, starts = 0;
        ms_error    e;
        struct stat sb;
        snprintf(path, sizeof path, "%s/text/%s", dir, cases[c].name);
        if (stat(path, &sb) != 0) SKIP("no %s", path);
        CHECK_OK_ERR(&e, ms_shard_read(&e, path, MS_SHARD_HEADED, 50257, &tokens, &n));
        CHECK(n == cases[c].n, "%s: %lld tokens", path, (long long)n);
        if (cases[c].first[0] != 0)
            CHECK(memcmp(tokens, cases[c].first, sizeof cases[c].first) == 0, "%s: %u %u %u %u",
                  path, tokens[0], tokens[1], tokens[2], tokens[3]);
        for (int64_t i = 0; i < n; i++)
            starts += tokens[i] == 50256;
        CHECK(starts > 100, "%s: %lld documents", path, (long long)starts);
        free(tokens);
        expect_failure(path, 320, MUSEC_EFORMAT, "ids must be below 320");
    }
}
