/* bytes_test.c - texts and the tokens that they become. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "data/bytes.h"

#define SEP "\n<|endoftext|>\n"

/* In `want` a '|' is the start id, everything else a byte. */
static void expect(const char *text, size_t bytes, const char *want)
{
    uint16_t *tokens = NULL;
    int64_t   n      = 0;
    ms_error  e;

    CHECK_OK_ERR(&e, ms_bytes_encode(&e, text, bytes, &tokens, &n));
    CHECK(n == (int64_t)strlen(want), "'%s': %lld tokens", want, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int id = want[i] == '|' ? MS_BYTES_START : (unsigned char)want[i];
        CHECK(tokens[i] == id, "'%s': token %lld is %u", want, (long long)i, tokens[i]);
    }
    free(tokens);
}

TEST(documents_are_cut)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "", "" },
        { "a", "|a" },
        { "one document\nof two lines\n", "|one document\nof two lines\n" },
        { "ab" SEP, "|ab" },
        { "ab" SEP "c" SEP, "|ab|c" },
        { "ab" SEP "c", "|ab|c" },
        { "ab" SEP SEP "c", "|ab||c" },
        { SEP, "|" },
        { SEP "a", "||a" },
        { "ab" SEP "\n", "|ab|\n" },
        { "a\n\n" SEP "\nb", "|a\n\n|\nb" },
        /* what is no separator: it needs both line ends, and none is used twice */
        { "<~endoftext~>\n", "|<~endoftext~>\n" },
        { "a\n<~endoftext~>", "|a\n<~endoftext~>" },
        { "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", "|\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n" },
    };

    for (size_t c = 0; c < COUNT(cases); c++)
        expect(cases[c].text, strlen(cases[c].text), cases[c].want);
}

/* Texts that hold '|' themselves: lengths and ids by hand. */
TEST(near_separators_stay)
{
    static const char *const cases[] = {
        "<|endoftext|>\n",    "a\n<|endoftext|>",    "a\n<|endoftext|> \nb",
        "a <|endoftext|>\nb", "a\r\n<|endoftext|>b", "\n<|endoftext|\n>b",
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        const size_t bytes  = strlen(cases[c]);
        uint16_t    *tokens = NULL;
        int64_t      n      = 0;
        ms_error     e;
        CHECK_OK_ERR(&e, ms_bytes_encode(&e, cases[c], bytes, &tokens, &n));
        CHECK(n == (int64_t)bytes + 1 && tokens[0] == MS_BYTES_START, "case %zu: %lld", c,
              (long long)n);
        for (size_t i = 0; i < bytes; i++)
            CHECK(tokens[i + 1] == (unsigned char)cases[c][i], "case %zu, byte %zu", c, i);
        free(tokens);
    }
    {
        static const char shared[] = "a\n<|endoftext|>\n<|endoftext|>\nb"; /* one, then the rest */
        uint16_t         *tokens   = NULL;
        int64_t           n        = 0;
        ms_error          e;
        CHECK_OK_ERR(&e, ms_bytes_encode(&e, shared, sizeof shared - 1, &tokens, &n));
        CHECK(n == 2 + 1 + 15 && tokens[2] == MS_BYTES_START && tokens[3] == '<', "%lld",
              (long long)n);
        free(tokens);
    }
}

TEST(all_bytes_pass)
{
    char      text[256];
    uint16_t *tokens = NULL;
    int64_t   n      = 0;
    ms_error  e;

    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    CHECK_OK_ERR(&e, ms_bytes_encode(&e, text, sizeof text, &tokens, &n));
    CHECK(n == 257, "%lld tokens", (long long)n);
    for (int i = 0; i < 256; i++)
        CHECK(tokens[i + 1] == i, "byte %d is %u", i, tokens[i + 1]);
    free(tokens);
}

/* Random documents, joined and taken apart again. */
TEST(documents_come_back)
{

    for (uint64_t round = 0; round < 200; round++) {
        char      text[4096];
        size_t    bytes  = 0, starts[17], lengths[17];
        const int docs   = 1 + (int)(ms_rand_u64(round, 0) % 16);
        uint16_t *tokens = NULL;
        int64_t   n = 0, at = 0;
        ms_error  e;
        for (int d = 0; d < docs; d++) {
            starts[d]  = bytes;
            lengths[d] = (size_t)(ms_rand_u64(round, 1000 + (uint64_t)d) % 200);
            for (size_t i = 0; i < lengths[d]; i++, bytes++) /* many line ends, no separator */
                text[bytes] = "ab<|\n\n>e"[ms_rand_u64(round, 5000 + bytes) % 8];
            for (size_t i = 0; i < sizeof SEP - 1; i++)
                text[bytes++] = SEP[i];
        }
        CHECK_OK_ERR(&e, ms_bytes_encode(&e, text, bytes, &tokens, &n));
        for (int d = 0; d < docs; d++) {
            CHECK(at < n && tokens[at] == MS_BYTES_START, "document %d of round %llu", d,
                  (unsigned long long)round);
            at++;
            for (size_t i = 0; i < lengths[d]; i++, at++)
                CHECK(at < n && tokens[at] == (unsigned char)text[starts[d] + i], "document %d", d);
        }
        CHECK(at == n, "%lld tokens too many", (long long)(n - at));
        free(tokens);
    }
}
