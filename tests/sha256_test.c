/* sha256_test.c - the examples of FIPS 180-4 and its successors, every length around the end of a
 * block, whole and in pieces, and files. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/sha256.h"
#include "scratch.h"

static const char sum_of_nothing[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void expect(const char *got, const char *want, const char *what)
{
    CHECK(strcmp(got, want) == 0, "%s: %s", what, got);
}

/* The sum of data that is added in two pieces, cut at byte `cut`. */
static void sum_of(const void *data, size_t bytes, size_t cut, char hex[MS_SHA256_HEX])
{
    ms_sha256 s;
    ms_sha256_init(&s);
    ms_sha256_add(&s, data, cut);
    ms_sha256_add(&s, NULL, 0);
    ms_sha256_add(&s, (const char *)data + cut, bytes - cut);
    ms_sha256_end(&s, hex);
}

TEST(sums_agree_with_published_examples)
{
    static const struct {
        const char *text, *sum;
    } cases[] = {
        { "", sum_of_nothing },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
          "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
    };
    char      hex[MS_SHA256_HEX], aaa[1000];
    ms_sha256 s;

    for (size_t c = 0; c < COUNT(cases); c++) {
        sum_of(cases[c].text, strlen(cases[c].text), 0, hex);
        expect(hex, cases[c].sum, cases[c].text);
    }
    memset(aaa, 'a', sizeof aaa);
    ms_sha256_init(&s);
    for (int i = 0; i < 1000; i++)
        ms_sha256_add(&s, aaa, sizeof aaa);
    ms_sha256_end(&s, hex);
    expect(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", "a million a");
}

/* The sum does not depend on where the data is cut, and the sum of all these sums is that of
 * Python's hashlib, so that every length from 0 to 259 bytes is compared with an outside answer. */
TEST(pieces_give_the_sum_of_the_whole)
{
    unsigned char data[260];
    const size_t  n = sizeof data;
    char          whole[MS_SHA256_HEX], hex[MS_SHA256_HEX];
    ms_sha256     all;

    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * 7 + 3);
    ms_sha256_init(&all);
    for (size_t bytes = 0; bytes < n; bytes++) {
        sum_of(data, bytes, bytes, whole);
        ms_sha256_add(&all, whole, 64);
        for (size_t cut = 0; cut <= bytes; cut++) {
            sum_of(data, bytes, cut, hex);
            CHECK(strcmp(hex, whole) == 0, "%zu bytes cut at %zu", bytes, cut);
        }
    }
    ms_sha256_end(&all, hex);
    expect(hex, "59155182be3b724f8c03b587919a24f4e0e0ac3bbb9e6e69996aaa288cdf88b7", "all lengths");
}

TEST(the_sum_of_a_file_is_that_of_its_bytes)
{
    const size_t   bytes = 300001; /* several chunks and a rest */
    unsigned char *data  = check_alloc(bytes);
    char           whole[MS_SHA256_HEX], hex[MS_SHA256_HEX];
    ms_error       e = { "" };

    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)ms_rand_u64(5, i);
    put_file(tmp_path("data"), data, bytes);
    sum_of(data, bytes, bytes, whole);
    CHECK_OK_ERR(&e, ms_sha256_file(&e, tmp_path("data"), hex));
    expect(hex, whole, "a file");
    free(data);
    CHECK_OK_ERR(&e, ms_sha256_file(&e, "/dev/null", hex));
    expect(hex, sum_of_nothing, "no bytes");
    CHECK_FAILS(&e, ms_sha256_file(&e, check_tmp_dir(), hex), MUSEC_EIO, check_tmp_dir());
    CHECK_FAILS(&e, ms_sha256_file(&e, tmp_path("gone"), hex), MUSEC_EIO,
                "gone: cannot open for reading");
}
