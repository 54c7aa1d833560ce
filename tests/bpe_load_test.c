/* bpe_load_test.c - vocabularies in all file formats, whole and damaged. */
#define _XOPEN_SOURCE 700 /* setenv, mkdir */
#include "bpe_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"

static bpe_rig rig; /* a few merges over ASCII */

static int set_up(void **state)
{
    (void)state;
    rig = bpe_rig_draw(40, " abcdet", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bpe_rig_free(&rig);
    return 0;
}

/* Loads the file; its tokens and merges must be those of `r`. */
/* n_ids 0: that of GPT-2, by the call that the program makes. */
static ms_bpe *load_same(const char *path, const bpe_rig *r, int n_ids)
{
    ms_error e   = { "" };
    ms_bpe  *bpe = NULL;
    size_t   n;

    CHECK_OK_ERR(&e, n_ids == 0 ? ms_bpe_load(&e, path, &bpe)
                                : ms_bpe_load_sized(&e, path, n_ids, &bpe));
    for (int id = 0; id < r->n; id++) {
        const rig_token *t = &r->tokens[id];
        const char      *p = ms_bpe_bytes(bpe, id, &n);
        CHECK(n == (size_t)t->bytes && memcmp(p, t->text, n) == 0, "%s: id %d", path, id);
        if (id >= 256)
            CHECK(bpe->tokens[id].left == t->left && bpe->tokens[id].right == t->right &&
                      ms_bpe_pair(bpe, (uint32_t)t->left, (uint32_t)t->right) == (uint32_t)id,
                  "%s: merge of id %d", path, id);
    }
    return bpe;
}

static void check_loaded(const char *path)
{
    ms_bpe *bpe = load_same(path, &rig, rig.n + 1);
    size_t  n;
    CHECK(ms_bpe_pair(bpe, 0, 0) == MS_BPE_NONE, "a merge of bytes that have none");
    CHECK(memcmp(ms_bpe_bytes(bpe, rig.n, &n), "<|endoftext|>", 13) == 0 && n == 13, "the start");
    ms_bpe_free(bpe);
}

TEST(all_formats_give_the_same_vocabulary)
{
    const char *dir = fresh_dir();
    bpe_rig_need_utf8proc();
    bpe_rig_write_pair(&rig, dir);
    check_loaded(dir);
    check_loaded(path_in(dir, "encoder.json"));
    check_loaded(path_in(dir, "vocab.bpe"));
    dir = fresh_dir();
    bpe_rig_write_tiktoken(&rig, path_in(dir, "r50k_base.tiktoken"));
    check_loaded(path_in(dir, "r50k_base.tiktoken"));
    check_loaded(dir);
    dir = fresh_dir();
    for (int version = 1; version <= 2; version++) {
        bpe_rig_write_bin(&rig, path_in(dir, "gpt2_tokenizer.bin"), version);
        check_loaded(path_in(dir, "gpt2_tokenizer.bin"));
        check_loaded(dir);
    }
}

TEST(all_formats_of_gpt2_give_the_merges_of_vocab_bpe)
{
    static const char *const forms[] = { "gpt2", "gpt2/r50k_base.tiktoken",
                                         "gpt2/gpt2_tokenizer.bin", "gpt2/gpt2_tokenizer_v1.bin" };
    const char              *shared  = check_shared_data_dir();
    bpe_rig                  r;

    bpe_rig_need_utf8proc();
    if (!bpe_rig_gpt2(&r)) SKIP("no shared data (set MUSEC_DATA)");
    for (size_t k = 0; k < COUNT(forms); k++)
        ms_bpe_free(load_same(path_in(shared, forms[k]), &r, 0));
    bpe_rig_free(&r);
}

/* ---- damaged files --------------------------------------------------------------------------- */

static void expect_failure(const char *path, int n_ids, const char *words)
{
    ms_error e   = { "" };
    ms_bpe  *bpe = NULL;
    CHECK(ms_bpe_load_sized(&e, path, n_ids, &bpe) != MUSEC_OK, "%s: loaded, without %s", path,
          words);
    CHECK(bpe == NULL, "%s: a vocabulary was returned", path);
    CHECK(strstr(e.text, words) != NULL, "no '%s' in: %s", words, e.text);
}

/* Replaces the first `from` in the file by `to`; an empty one stands for its end. */
static void damage(const char *path, const char *from, const char *to)
{
    static char  out[65536];
    size_t       n;
    char        *text = bpe_rig_read(path, &n), *at;
    const size_t m    = strlen(from);

    CHECK(text != NULL, "%s", path);
    at = m == 0 ? text + n : strstr(text, from);
    CHECK(at != NULL, "no '%s' in %s", from, path);
    const int all = snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + m);
    CHECK(all >= 0 && (size_t)all == n - m + strlen(to), "%s has a NUL or is too long", path);
    put_file(path, out, n - m + strlen(to));
    free(text);
}

TEST(damaged_tiktoken_files_are_refused)
{
    static const struct {
        const char *from, *to, *words;
    } cases[] = {
        { "/w== 0\n", "/w=== 0\n", "line 1: '/w=== 0' is not base64" },
        { "/w== 0\n", "/w= 0\n", "line 1: '/w= 0' is not base64" },
        { "/g== 1\n", "*g== 1\n", "line 2: '*g== 1' is not base64" },
        { "/g== 1\n", "/h== 1\n", "line 2: '/h== 1' is not base64" }, /* bits left over */
        { "/g== 1\n", "==== 1\n", "line 2" },
        { "/g== 1\n", " 1\n", "line 2: ' 1' is not base64" },
        { "/g== 1\n", "/g==\n", "line 2: '/g==' is not base64" },
        { "/g== 1\n", "/g== x\n", "line 2: no whole number" },
        { "/g== 1\n", "/g== -1\n", "line 2: no whole number" },
        { "/g== 1\n", "/g== 1 \n", "line 2: no whole number" },
        { "/g== 1\n", "/g==  1\n", "line 2: no whole number" },
        { "/g== 1\n", "/g== 99999999999999999999\n", "line 2: no whole number" },
        { "/g== 1\n", "/g== 297\n", "line 2: id 297 is none of GPT-2's: they are 0 to 296" },
        { "/g== 1\n", "/g== 296\n", "line 2: id 296 is not <|endoftext|>" },
        { "/g== 1\n", "/g== 0\n", "line 2: id 0 is there twice" },
        { "/g== 1\n", "/w== 1\n", "ids 0 and 1 are both the byte 0xff" },
        { "/g== 1\n", "/gA= 1\n", "id 1 has 2 bytes" },
        { "/g== 1\n", "", "id 1 is missing" },
    };
    const char *path = path_in(fresh_dir(), "x.tiktoken");

    bpe_rig_need_utf8proc();
    for (size_t k = 0; k < COUNT(cases); k++) {
        bpe_rig_write_tiktoken(&rig, path);
        damage(path, cases[k].from, cases[k].to);
        expect_failure(path, rig.n + 1, cases[k].words);
        expect_failure(path, rig.n + 1, path); /* the message begins with the file */
    }
    bpe_rig_write_tiktoken(&rig, path);
    expect_failure(path, rig.n, "line 296: id 295 is not <|endoftext|>");
    expect_failure(path, rig.n + 2, "id 296 is missing");
    damage(path, "", "eHl6eHl6 296\n"); /* xyzxyz, which no merge makes */
    expect_failure(path, rig.n + 2, "id 296 cannot be made of two lower ids: 6 are the fewest");
    put_file(path, "", 0);
    expect_failure(path, rig.n + 1, "id 0 is missing");
    bpe_rig_write_tiktoken(&rig, path); /* line ends of Windows, and a blank line */
    damage(path, "/w== 0\n", "/w== 0\r\n\n");
    check_loaded(path);
}

TEST(two_tokens_with_the_same_bytes_are_refused)
{
    const char *path = path_in(fresh_dir(), "x.tiktoken");
    char        line[64];

    bpe_rig_need_utf8proc();
    CHECK(rig.tokens[256].bytes == 2, "the first merge");
    bpe_rig_write_tiktoken(&rig, path);
    bpe_rig twice = rig;
    twice.tokens  = check_alloc(((size_t)rig.n + 1) * sizeof *twice.tokens);
    twice.n       = rig.n + 1;
    memcpy(twice.tokens, rig.tokens, (size_t)rig.n * sizeof *twice.tokens);
    twice.tokens[rig.n] = rig.tokens[260];
    bpe_rig_write_tiktoken(&twice, path);
    snprintf(line, sizeof line, "ids 260 and %d have the same bytes", rig.n);
    expect_failure(path, twice.n + 1, line);
    free(twice.tokens);
}

TEST(damaged_bin_files_are_refused)
{
    const char *path = path_in(fresh_dir(), "x.bin");
    static blob b;
    int32_t     header[256];

    bpe_rig_need_utf8proc();
    bpe_rig_write_bin(&rig, path, 2);
    get_file(path, &b);
    for (size_t n = 0; n < b.n; n += n < 1030 || n + 20 > b.n ? 1 : 97) {
        put_file(path, b.p, n);
        expect_failure(path, rig.n + 1, n < 1024 ? "the header alone takes 1024" : "truncated");
    }
    b.p[b.n] = 7;
    put_file(path, b.p, b.n + 1);
    expect_failure(path, rig.n + 1, "too long: 1 bytes behind the last id");
    memcpy(header, b.p, sizeof header);
    for (int k = 0; k < 4; k++) {
        static const char *const words[] = { "is no table of tokens: it begins with the number",
                                             "version 3; versions 1 and 2", "ids; GPT-2 has 297",
                                             "<|endoftext|> is id 297; GPT-2's is 296" };
        int32_t                  changed[256];
        memcpy(changed, header, sizeof changed);
        changed[k]++;
        memcpy(b.p, changed, sizeof changed);
        put_file(path, b.p, b.n);
        expect_failure(path, rig.n + 1, words[k]);
    }
    memcpy(b.p, header, sizeof header);
    b.p[1024] = 0; /* the first token's length */
    put_file(path, b.p, b.n);
    expect_failure(path, rig.n + 1, "id 0 has 0 bytes");
    bpe_rig_write_bin(&rig, path, 1);
    expect_failure(path, MS_BPE_IDS, "has 297 ids; GPT-2 has 50257");
}

TEST(damaged_encoder_json_and_vocab_bpe_are_refused)
{
    static const struct {
        const char *file, *from, *to, *words;
    } cases[] = {
        { "encoder.json", "{", "[", "line 1: is no JSON object" },
        { "encoder.json", "296}", "296", "is no JSON object" },
        { "encoder.json", "\": 100", "\": 1.5", "has no whole number" },
        { "encoder.json", "\": 100", "\": \"x\"", "has no whole number" },
        { "encoder.json", "\": 100", "\": -1", "id -1 is none of GPT-2's" },
        { "encoder.json", "\": 100", "\": 50257", "id 50257 is none of GPT-2's" },
        { "encoder.json", "\": 100", "\": 101", "id 101 is there twice" },
        { "encoder.json", "\"a\"", "\"b\"", "duplicate" },
        { "encoder.json", "\"a\"", "\" \"", "token ' '" },
        { "encoder.json", "\"a\"", "\"\xE2\x82\xAC\"", "stands for no byte" },
        { "encoder.json", "\"a\"", "\"\xC6\x80\"", "stands for no byte" }, /* U+0180 */
        { "encoder.json", "\"a\"", "\"aa\"", "has 2 bytes; ids 0 to 255" },
        { "encoder.json", "\"a\"", "\"\"", "has 0 bytes" },
        { "encoder.json", ", \"<|endoftext|>\": 296", "", "id 296 is missing, <|endoftext|>" },
        { "encoder.json", "<|endoftext|>", "<|endofdoc|>", "id 296 is not <|endoftext|>" },
        { "vocab.bpe", "0.2\n", "0.2\na\n", "line 2: 'a' is not the merge that makes id 256" },
        { "vocab.bpe", "0.2\n", "0.2\nz z\n", "line 2: 'z z' is not the merge" },
        { "vocab.bpe", "", "a b\n", "line 42: a merge too many: GPT-2 has 40" },
    };
    const char *dir = fresh_dir();
    char       *text, *last;
    size_t      n;

    bpe_rig_need_utf8proc();
    for (size_t k = 0; k < COUNT(cases); k++) {
        bpe_rig_write_pair(&rig, dir);
        damage(path_in(dir, cases[k].file), cases[k].from, cases[k].to);
        expect_failure(dir, rig.n + 1, cases[k].words);
        expect_failure(dir, rig.n + 1, cases[k].file);
    }
    bpe_rig_write_pair(&rig, dir);
    text        = bpe_rig_read(path_in(dir, "vocab.bpe"), &n);
    text[n - 1] = '\0';
    last        = strrchr(text, '\n') + 1;
    put_file(path_in(dir, "vocab.bpe"), text, (size_t)(last - text));
    expect_failure(dir, rig.n + 1, "vocab.bpe: ends after 39 merges; GPT-2 has 40");
    free(text);
    remove(path_in(dir, "vocab.bpe"));
    expect_failure(dir, rig.n + 1, "has encoder.json but not vocab.bpe");
    bpe_rig_write_pair(&rig, dir);
    remove(path_in(dir, "encoder.json"));
    expect_failure(dir, rig.n + 1, "has vocab.bpe but not encoder.json");
    expect_failure(path_in(dir, "vocab.bpe"), rig.n + 1, "encoder.json: cannot open");
}

TEST(vocabularies_are_found_by_path_and_in_the_default_places)
{
    const char *dir = fresh_dir();
    char        found[MS_PATH_MAX], want[MS_PATH_MAX];
    ms_error    e = { "" };

    bpe_rig_need_utf8proc();
    expect_failure(dir, MS_BPE_IDS, "no vocabulary is there");
    expect_failure(path_in(dir, "gone"), MS_BPE_IDS, "No such file");
    put_file(path_in(dir, "x.txt"), "x", 1);
    expect_failure(path_in(dir, "x.txt"), MS_BPE_IDS, "is no vocabulary by its name");
    put_file(path_in(dir, "my-vocab.bpe"), "x", 1); /* only ends in vocab.bpe */
    expect_failure(path_in(dir, "my-vocab.bpe"), MS_BPE_IDS, "is no vocabulary by its name");
    expect_failure(dir, 256, "257 to 50257 ids, not 256");
    expect_failure(dir, 50258, "257 to 50257 ids, not 50258");

    CHECK(setenv("HOME", dir, 1) == 0 && chdir(dir) == 0, "%s", dir);
    snprintf(want, sizeof want, "%s/.local/share/musec/gpt2", dir);
    CHECK_OK_ERR(&e, ms_bpe_default_path(&e, found));
    CHECK(strcmp(found, want) == 0, "%s", found);
    CHECK(ms_bpe_find(&e, NULL, found) != MUSEC_OK, "found %s", found);
    CHECK(strstr(e.text, "musec data get gpt2-vocab") && strstr(e.text, want), "%s", e.text);
    CHECK_OK_ERR(&e, ms_directory_make(&e, want));
    CHECK_OK_ERR(&e, ms_bpe_find(&e, NULL, found));
    CHECK(strcmp(found, want) == 0, "%s", found);
    CHECK_OK_ERR(&e, ms_directory_make(&e, "data/gpt2"));
    CHECK_OK_ERR(&e, ms_bpe_find(&e, NULL, found));
    CHECK(strcmp(found, "data/gpt2") == 0, "%s", found);
    CHECK_OK_ERR(&e, ms_bpe_find(&e, "any/where", found));
    CHECK(strcmp(found, "any/where") == 0, "%s", found);
    unsetenv("HOME");
    CHECK(ms_bpe_default_path(&e, found) != MUSEC_OK, "no HOME");
    CHECK(chdir("/") == 0, "chdir"); /* the directory is removed at the end */
}

TEST(a_build_without_utf8proc_names_the_package)
{
    ms_error e   = { "" };
    ms_bpe  *bpe = NULL;
    if (ms_utf8proc_version() != NULL) SKIP("built with utf8proc");
    CHECK(ms_bpe_load(&e, check_tmp_dir(), &bpe) == MUSEC_ENOTSUP && bpe == NULL, "loaded");
    CHECK(strstr(e.text, "libutf8proc-dev") != NULL, "%s", e.text);
}

TEST_GROUP(set_up, tear_down)
