/* sha256_test.c - the examples of FIPS 180-4 and its successors, every length around a block's
 * edges in pieces and whole, and files. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/sha256.h"

static void expect(const char *got, const char *want, const char *what)
{
    CHECK(strcmp(got, want) == 0, "%s: %s", what, got);
}

TEST(known_answers)
{
    static const struct {
        const char *text, *sum;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
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
        ms_sha256_init(&s);
        ms_sha256_add(&s, cases[c].text, strlen(cases[c].text));
        ms_sha256_end(&s, hex);
        expect(hex, cases[c].sum, cases[c].text);
    }
    memset(aaa, 'a', sizeof aaa);
    ms_sha256_init(&s);
    for (int i = 0; i < 1000; i++)
        ms_sha256_add(&s, aaa, sizeof aaa);
    ms_sha256_end(&s, hex);
    expect(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", "a million a");
}

/* Cut anywhere, the sum is that of the whole; and the sum of all these sums is that which
 * Python's hashlib finds, so that every length from 0 to 259 bytes is held to an outside answer. */
TEST(pieces_give_the_sum_of_the_whole)
{
    unsigned char data[260];
    const size_t  n = sizeof data;
    char          whole[MS_SHA256_HEX], hex[MS_SHA256_HEX];
    ms_sha256     s, all;

    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * 7 + 3);
    ms_sha256_init(&all);
    for (size_t bytes = 0; bytes < n; bytes++) {
        ms_sha256_init(&s);
        ms_sha256_add(&s, data, bytes);
        ms_sha256_end(&s, whole);
        ms_sha256_add(&all, whole, 64);
        for (size_t cut = 0; cut <= bytes; cut++) {
            ms_sha256_init(&s);
            ms_sha256_add(&s, data, cut);
            ms_sha256_add(&s, NULL, 0);
            ms_sha256_add(&s, data + cut, bytes - cut);
            ms_sha256_end(&s, hex);
            CHECK(strcmp(hex, whole) == 0, "%zu bytes cut at %zu", bytes, cut);
        }
    }
    ms_sha256_end(&all, hex);
    expect(hex, "59155182be3b724f8c03b587919a24f4e0e0ac3bbb9e6e69996aaa288cdf88b7", "all lengths");
}

TEST(files)
{
    const size_t   bytes = 300001; /* several chunks and a rest */
    unsigned char *data  = check_alloc(bytes);
    char           path[512], whole[MS_SHA256_HEX], hex[MS_SHA256_HEX];
    ms_error       e = { "" };
    ms_sha256      s;
    FILE          *f;

    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)ms_rand_u64(5, i);
    snprintf(path, sizeof path, "%s/data", check_tmp_dir());
    f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0, "%s", path);
    ms_sha256_init(&s);
    ms_sha256_add(&s, data, bytes);
    ms_sha256_end(&s, whole);
    CHECK_OK_ERR(&e, ms_sha256_file(&e, path, hex));
    expect(hex, whole, "a file");
    free(data);
    CHECK_OK_ERR(&e, ms_sha256_file(&e, "/dev/null", hex));
    expect(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "no bytes");
    CHECK(ms_sha256_file(&e, check_tmp_dir(), hex) == MUSEC_EIO, "a directory");
    CHECK(strstr(e.text, check_tmp_dir()) != NULL, "%s", e.text);
    snprintf(path, sizeof path, "%s/gone", check_tmp_dir());
    CHECK_FAILS(&e, ms_sha256_file(&e, path, hex), MUSEC_EIO, "gone: cannot open for reading");
}
