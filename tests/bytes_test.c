/* bytes_test.c - texts as tokens of the byte tokenizer. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "data/bytes.h"

#define SEP "\n<|endoftext|>\n"

static uint16_t *encode(const char *text, size_t bytes, int64_t *n)
{
    uint16_t *tokens = NULL;
    ms_error  e;
    CHECK_OK_ERR(&e, ms_bytes_encode(&e, text, bytes, &tokens, n));
    return tokens;
}

/* In `want` a '|' is the start id, everything else a byte. */
static void expect(const char *text, size_t bytes, const char *want)
{
    int64_t   n      = 0;
    uint16_t *tokens = encode(text, bytes, &n);
    CHECK(n == (int64_t)strlen(want), "'%s': %lld tokens", want, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int id = want[i] == '|' ? MS_BYTES_START : (unsigned char)want[i];
        CHECK(tokens[i] == id, "'%s': token %lld is %u", want, (long long)i, tokens[i]);
    }
    free(tokens);
}

TEST(separators_end_documents)
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
        /* no separators: they need both line ends, and none is used twice */
        { "<~endoftext~>\n", "|<~endoftext~>\n" },
        { "a\n<~endoftext~>", "|a\n<~endoftext~>" },
        { "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", "|\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n" },
    };

    for (size_t c = 0; c < COUNT(cases); c++)
        expect(cases[c].text, strlen(cases[c].text), cases[c].want);
}

/* These texts contain '|' themselves, so expect() cannot compare them. */
TEST(texts_that_are_nearly_separators_are_kept)
{
    static const char *const cases[] = {
        "<|endoftext|>\n",    "a\n<|endoftext|>",    "a\n<|endoftext|> \nb",
        "a <|endoftext|>\nb", "a\r\n<|endoftext|>b", "\n<|endoftext|\n>b",
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        const size_t bytes  = strlen(cases[c]);
        int64_t      n      = 0;
        uint16_t    *tokens = encode(cases[c], bytes, &n);
        CHECK(n == (int64_t)bytes + 1 && tokens[0] == MS_BYTES_START, "case %zu: %lld", c,
              (long long)n);
        for (size_t i = 0; i < bytes; i++)
            CHECK(tokens[i + 1] == (unsigned char)cases[c][i], "case %zu, byte %zu", c, i);
        free(tokens);
    }
}

TEST(one_line_end_belongs_to_one_separator)
{
    static const char text[] = "a\n<|endoftext|>\n<|endoftext|>\nb";
    int64_t           n      = 0;
    uint16_t         *tokens = encode(text, sizeof text - 1, &n);
    CHECK(n == 2 + 1 + 15 && tokens[2] == MS_BYTES_START && tokens[3] == '<', "%lld", (long long)n);
    free(tokens);
}

TEST(every_byte_is_its_own_token)
{
    char    text[256];
    int64_t n = 0;

    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    uint16_t *tokens = encode(text, sizeof text, &n);
    CHECK(n == 257, "%lld tokens", (long long)n);
    for (int i = 0; i < 256; i++)
        CHECK(tokens[i + 1] == i, "byte %d is %u", i, tokens[i + 1]);
    free(tokens);
}

TEST(joined_random_documents_are_separated_again)
{
    for (uint64_t round = 0; round < 200; round++) {
        char      text[4096];
        size_t    bytes = 0, starts[17], lengths[17];
        const int docs  = 1 + (int)(ms_rand_u64(round, 0) % 16);
        int64_t   n = 0, at = 0;
        for (int d = 0; d < docs; d++) {
            starts[d]  = bytes;
            lengths[d] = (size_t)(ms_rand_u64(round, 1000 + (uint64_t)d) % 200);
            for (size_t i = 0; i < lengths[d]; i++, bytes++) /* many line ends, no separator */
                text[bytes] = "ab<|\n\n>e"[ms_rand_u64(round, 5000 + bytes) % 8];
            for (size_t i = 0; i < sizeof SEP - 1; i++)
                text[bytes++] = SEP[i];
        }
        uint16_t *tokens = encode(text, bytes, &n);
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
