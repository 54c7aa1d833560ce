/* tokenize_test.c - shards from documents: the same bytes with any number of threads and after any
 * stop. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/lock.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "data/bytes.h"
#include "data/manifest.h"
#include "data/shard.h"
#include "data/tokenize.h"
#include "scratch.h"

enum { MAX_TOKENS = 1 << 21 };

/* ---- documents and their tokens -------------------------------------------------------------- */

static char     text[MAX_TOKENS];
static uint16_t want[MAX_TOKENS], got[MAX_TOKENS];

/* A file of JSON lines with some bad ones among them; `want` gets its tokens, *bad the bad lines.
 * Returns how many tokens. */
static int64_t make_lines(const char *path, int lines, uint64_t seed, int64_t *bad)
{
    size_t  bytes = 0;
    int64_t n     = 0;

    *bad = 0;
    for (int i = 0; i < lines; i++) {
        const uint64_t dice   = ms_rand_u64(seed, (uint64_t)i);
        const size_t   length = (size_t)(dice >> 8) % (i % 50 == 7 ? 10000 : 200);
        if (dice % 16 == 0) {
            bytes +=
                (size_t)snprintf(text + bytes, 64, "%s\n", i % 2 == 0 ? "{\"id\": 7}" : "no JSON");
            ++*bad;
            continue;
        }
        bytes += (size_t)snprintf(text + bytes, 64, "{\"text\": \"");
        want[n++] = MS_BYTES_START;
        for (size_t k = 0; k < length; k++) {
            const char c  = (char)('a' + ms_rand_u64(dice, k) % 26);
            text[bytes++] = c;
            want[n++]     = (unsigned char)c;
        }
        bytes += (size_t)snprintf(text + bytes, 64, "\", \"id\": %d}\n", i);
    }
    put_file(path, text, bytes);
    return n;
}

static ms_tokenize_config config_of(const char *const *paths, size_t n, const char *out)
{
    return (ms_tokenize_config){
        .reader       = { .paths = paths, .n_paths = n, .field = "text", .max_document = 1 << 20 },
        .out          = out,
        .shard_tokens = 10000,
        .threads      = 2
    };
}

/* Reads the tokens of a directory's shards in the order of the manifest into `got`, and checks the
 * manifest against them. */
static int64_t read_shards(const char *dir, ms_manifest *m)
{
    ms_error e;
    int64_t  n = 0;

    CHECK_OK_ERR(&e, ms_manifest_read(&e, path_in(dir, MS_MANIFEST_NAME), m));
    for (size_t i = 0; i < m->n; i++) {
        const char *path = path_in(dir, m->shards[i].name);
        char        hex[MS_SHA256_HEX];
        uint16_t   *tokens = NULL;
        int64_t     here = 0, starts = 0;
        CHECK_OK_ERR(&e, ms_shard_read(&e, path, MS_SHARD_HEADED, 257, &tokens, &here));
        CHECK_OK_ERR(&e, ms_sha256_file(&e, path, hex));
        CHECK(strcmp(hex, m->shards[i].sha256) == 0, "%s: %s", path, hex);
        for (int64_t k = 0; k < here; k++)
            starts += tokens[k] == MS_BYTES_START;
        CHECK(here == m->shards[i].tokens && starts == m->shards[i].documents, "%s", path);
        CHECK(n + here <= MAX_TOKENS, "room");
        memcpy(got + n, tokens, (size_t)here * sizeof *tokens);
        n += here;
        free(tokens);
    }
    CHECK(n == ms_manifest_tokens(m), "tokens of the manifest");
    return n;
}

static void expect_tokens(const char *dir, int64_t n, bool complete)
{
    ms_manifest   m  = { 0 };
    const int64_t is = read_shards(dir, &m);
    CHECK(is == n && memcmp(got, want, (size_t)n * sizeof *got) == 0, "%s: %lld of %lld tokens",
          dir, (long long)is, (long long)n);
    CHECK(m.complete == complete, "%s: complete", dir);
    ms_manifest_free(&m);
}

static void expect_failure(const ms_tokenize_config *cfg, musec_status st, const char *words)
{
    ms_tokenize_progress p;
    ms_error             e = { "" };
    CHECK_FAILS(&e, ms_tokenize(&e, cfg, &p), st, words);
}

static ms_tokenize_progress tokenize(const ms_tokenize_config *cfg)
{
    ms_tokenize_progress p;
    ms_error             e = { "" };
    CHECK_OK_ERR(&e, ms_tokenize(&e, cfg, &p));
    return p;
}

static bool same_file(const char *a, const char *b)
{
    char     hex[2][MS_SHA256_HEX];
    ms_error e;
    return ms_sha256_file(&e, a, hex[0]) == MUSEC_OK && ms_sha256_file(&e, b, hex[1]) == MUSEC_OK &&
           strcmp(hex[0], hex[1]) == 0;
}

/* ---- whole runs ------------------------------------------------------------------------------ */

TEST(shards_hold_the_documents)
{
    static const struct {
        int64_t     shard, val, limit;
        int         threads;
        const char *first;
    } cases[] = {
        { 10000, 0, 0, 1, "train_000001.bin" },     { 10000, 0, 0, 2, "train_000001.bin" },
        { 10000, 0, 0, 7, "train_000001.bin" },     { 1 << 30, 0, 0, 2, "train_000001.bin" },
        { 10000, 7777, 0, 2, "val_000000.bin" },    { 50000, 1 << 30, 0, 2, "val_000000.bin" },
        { 777, 777, 0, 3, "val_000000.bin" },       { 10000, 500, 12345, 2, "val_000000.bin" },
        { 10000, 0, 10000, 2, "train_000001.bin" }, { 10000, 5000, 3000, 2, "val_000000.bin" },
        { 10000, 0, 1, 2, "train_000001.bin" },
    };
    const char *path = tmp_path("a.jsonl");
    int64_t     n, bad;

    n = make_lines(path, 1000, 1, &bad);
    for (size_t c = 0; c < COUNT(cases); c++) {
        const int64_t limit = cases[c].limit;
        char          out[512];
        ms_manifest   m = { 0 };
        snprintf(out, sizeof out, "%s/out/%zu", check_tmp_dir(), c);
        ms_tokenize_config cfg       = config_of(&path, 1, out);
        cfg.reader.skip_bad          = true;
        cfg.shard_tokens             = cases[c].shard;
        cfg.val_tokens               = cases[c].val;
        cfg.limit_tokens             = limit;
        cfg.threads                  = cases[c].threads;
        const ms_tokenize_progress p = tokenize(&cfg);
        expect_tokens(out, limit > 0 ? limit : n, true);
        read_shards(out, &m);
        CHECK(strcmp(m.shards[0].name, cases[c].first) == 0, "case %zu", c);
        for (size_t i = 0; i + 1 < m.n; i++)
            CHECK(m.shards[i].tokens ==
                      (i == 0 && cases[c].val > 0 ? cases[c].val : cfg.shard_tokens),
                  "case %zu: shard %zu", c, i);
        CHECK(p.complete && p.tokens == ms_manifest_tokens(&m) && p.shards == (int64_t)m.n,
              "case %zu", c);
        CHECK(p.bad == m.totals.bad && (limit > 0 || p.bad == bad), "case %zu: %lld bad", c,
              (long long)p.bad);
        CHECK(p.text_bytes >= p.tokens - p.documents, "case %zu", c);
        ms_manifest_free(&m);
    }
}

/* There is more text than all blocks hold, and documents are longer than a block. */
TEST(documents_may_be_longer_than_a_block)
{
    char        out[512];
    const char *path  = tmp_path("long.txt");
    size_t      bytes = 0;
    int64_t     n     = 0;

    for (int d = 0; d < 6; d++) {
        const size_t length = d % 2 == 0 ? 300000 : 1000;
        want[n++]           = MS_BYTES_START;
        for (size_t k = 0; k < length; k++) {
            text[bytes++] = (char)(ms_rand_u64((uint64_t)d, k) % 256);
            want[n++]     = (unsigned char)text[bytes - 1];
        }
        bytes += (size_t)snprintf(text + bytes, 32, "\n<|endoftext|>\n");
    }
    put_file(path, text, bytes);
    for (int threads = 1; threads <= 3; threads++) {
        snprintf(out, sizeof out, "%s/long-%d", check_tmp_dir(), threads);
        ms_tokenize_config cfg       = config_of(&path, 1, out);
        cfg.shard_tokens             = 123456;
        cfg.threads                  = threads;
        const ms_tokenize_progress p = tokenize(&cfg);
        expect_tokens(out, n, true);
        CHECK(p.bytes_in == (int64_t)bytes && p.bytes_total == (int64_t)bytes, "bytes");
    }
}

/* ---- runs that are resumed ------------------------------------------------------------------- */

/* Leaves what a run leaves that is killed after shard `k`, before it writes the manifest again: a
 * manifest with k shards, one more shard, and a partial file. */
static void rewind_to(const char *out, size_t k, const char *name)
{
    ms_manifest m = { 0 };
    ms_error    e;

    CHECK_OK_ERR(&e, ms_manifest_read(&e, path_in(out, MS_MANIFEST_NAME), &m));
    CHECK(k <= m.n, "shards");
    for (size_t i = k + 1; i < m.n; i++)
        remove(path_in(out, m.shards[i].name));
    m.n        = k;
    m.complete = false;
    m.totals   = k > 0 ? m.shards[k - 1].so_far : (ms_counts){ 0 };
    CHECK_OK_ERR(&e, ms_manifest_write(&e, path_in(out, MS_MANIFEST_NAME), &m));
    put_file(path_in(out, name), "half", 4);
    ms_manifest_free(&m);
}

TEST(a_killed_run_resumes_with_the_same_bytes)
{
    char                 part[600], path[3][512];
    const char          *out      = tmp_path("killed");
    const char          *whole    = tmp_path("whole");
    const char          *paths[3] = { path[0], path[1], path[2] };
    ms_tokenize_progress p;
    int64_t              bad;
    struct stat          sb;

    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/k%d.jsonl", check_tmp_dir(), i);
        make_lines(path[i], 400, 10 + (uint64_t)i, &bad);
    }
    ms_tokenize_config cfg           = config_of(paths, 3, whole);
    cfg.reader.skip_bad              = true;
    cfg.val_tokens                   = 5000;
    cfg.shard_tokens                 = 20001;
    const ms_tokenize_progress first = tokenize(&cfg);
    CHECK(first.shards > 6, "%lld shards", (long long)first.shards);
    cfg.out = out;
    tokenize(&cfg);
    cfg.resume = true;
    for (size_t k = 0; k <= (size_t)first.shards; k++) {
        rewind_to(out, k, "train_000007.bin.part.99999");
        cfg.threads = 1 + (int)k % 3;
        p           = tokenize(&cfg);
        CHECK(p.kept == (int64_t)k && p.listed == (int64_t)k && p.complete, "%zu kept", k);
        CHECK(p.tokens == first.tokens && p.documents == first.documents && p.bad == first.bad &&
                  p.text_bytes == first.text_bytes,
              "behind %zu shards", k);
        CHECK(same_file(path_in(whole, MS_MANIFEST_NAME), path_in(out, MS_MANIFEST_NAME)),
              "manifest after going on behind %zu shards", k);
        for (int64_t i = 0; i < first.shards; i++) {
            snprintf(part, sizeof part, i == 0 ? "val_%06d.bin" : "train_%06d.bin", (int)i);
            CHECK(same_file(path_in(whole, part), path_in(out, part)), "%s behind %zu", part, k);
        }
        CHECK(stat(path_in(out, "train_000007.bin.part.99999"), &sb) != 0, "the part is there");
    }
    p = tokenize(&cfg); /* nothing is left to do */
    CHECK(p.kept == first.shards && p.tokens == first.tokens && p.bad == first.bad, "complete");
}

TEST(damaged_shards_are_made_again)
{
    char                 before[MS_SHA256_HEX];
    const char          *out  = tmp_path("damaged");
    const char          *path = tmp_path("d.jsonl");
    ms_tokenize_progress p;
    int64_t              bad;
    ms_error             e;
    FILE                *f;

    const char *shard = path_in(out, "train_000002.bin");
    make_lines(path, 300, 3, &bad);
    ms_tokenize_config cfg = config_of(&path, 1, out);
    cfg.reader.skip_bad    = true;
    const int64_t shards   = tokenize(&cfg).shards;
    CHECK_OK_ERR(&e, ms_sha256_file(&e, shard, before));
    cfg.resume = true;
    remove(shard);
    p = tokenize(&cfg);
    CHECK(p.kept == 1 && p.listed == shards && p.complete, "%lld kept", (long long)p.kept);
    CHECK(truncate(shard, 2000) == 0, "truncate");
    p = tokenize(&cfg);
    CHECK(p.kept == 1 && p.complete, "%lld kept", (long long)p.kept);
    f = fopen(shard, "r+b");
    CHECK(f != NULL && fseek(f, 5000, SEEK_SET) == 0 && fputc(0xFF, f) == 0xFF && fclose(f) == 0,
          "damage");
    p = tokenize(&cfg);
    CHECK(p.kept == shards, "its size is right");
    cfg.verify = true;
    p          = tokenize(&cfg);
    CHECK(p.kept == 1 && p.complete, "its sum is not");
    char after[MS_SHA256_HEX];
    CHECK_OK_ERR(&e, ms_sha256_file(&e, shard, after));
    CHECK(strcmp(before, after) == 0, "made again");
}

TEST(a_run_with_other_settings_does_not_resume)
{
    const char *out      = tmp_path("other");
    const char *path     = tmp_path("o.jsonl");
    const char *paths[2] = { path, path };
    int64_t     bad;

    make_lines(path, 300, 3, &bad);
    ms_tokenize_config cfg = config_of(paths, 1, out);
    cfg.reader.skip_bad    = true;
    tokenize(&cfg);
    expect_failure(&cfg, MUSEC_EINVAL, "has 7 shards already and is complete");
    rewind_to(out, 2, "manifest.json.part.1");
    expect_failure(&cfg, MUSEC_EINVAL, "not complete; write elsewhere, or go on with --resume");
    cfg.resume                 = true;
    ms_tokenize_config bad_cfg = cfg;
    bad_cfg.shard_tokens       = 9999;
    expect_failure(&bad_cfg, MUSEC_EINVAL, "begun with shard_tokens 10000, not 9999");
    bad_cfg                 = cfg;
    bad_cfg.reader.skip_bad = false;
    expect_failure(&bad_cfg, MUSEC_EINVAL, "skip_bad true, not false");
    bad_cfg              = cfg;
    bad_cfg.reader.field = "body";
    expect_failure(&bad_cfg, MUSEC_EINVAL, "field \"text\", not \"body\"");
    bad_cfg                = cfg;
    bad_cfg.reader.n_paths = 2;
    expect_failure(&bad_cfg, MUSEC_EINVAL, "from 1 file, not 2");
    make_lines(path, 301, 3, &bad);
    expect_failure(&cfg, MUSEC_EINVAL, "o.jsonl, has changed: its bytes was");
    put_file(path_in(out, MS_MANIFEST_NAME), "{}", 2);
    expect_failure(&cfg, MUSEC_EFORMAT, "is no manifest");
    put_file(path_in(out, MS_MANIFEST_NAME), "{", 1);
    expect_failure(&cfg, MUSEC_EFORMAT, "is no JSON");
    remove(path_in(out, MS_MANIFEST_NAME));
    expect_failure(&cfg, MUSEC_EINVAL, "no manifest.json");
}

/* ---- failures and stops ---------------------------------------------------------------------- */

TEST(a_bad_line_keeps_the_shards_before_it)
{
    char        out[512];
    const char *path  = tmp_path("b.jsonl");
    size_t      bytes = 0;

    for (int i = 0; i < 3000; i++) {
        if (i == 2500) bytes += (size_t)snprintf(text + bytes, 64, "{\"text\": 1}\n");
        bytes += (size_t)snprintf(text + bytes, 256, "{\"text\": \"%0200d\"}\n", i);
    }
    put_file(path, text, bytes);
    for (int threads = 1; threads <= 5; threads += 2) {
        ms_manifest m = { 0 };
        snprintf(out, sizeof out, "%s/bad-%d", check_tmp_dir(), threads);
        ms_tokenize_config cfg = config_of(&path, 1, out);
        cfg.threads            = threads;
        expect_failure(&cfg, MUSEC_EFORMAT, "b.jsonl:2501: the field \"text\" is a number");
        read_shards(out, &m);
        CHECK(m.n == 50 && !m.complete, "%zu shards", m.n); /* 2500 * 201 / 10000 */
        ms_manifest_free(&m);
        cfg.resume = true;
        expect_failure(&cfg, MUSEC_EFORMAT, "b.jsonl:2501");
    }
}

TEST(a_stopped_run_resumes)
{
    const char  *out  = tmp_path("stopped");
    const char  *path = tmp_path("s.jsonl");
    volatile int stop = 15;
    int64_t      n, bad;

    n                      = make_lines(path, 300, 4, &bad);
    ms_tokenize_config cfg = config_of(&path, 1, out);
    cfg.reader.skip_bad    = true;
    cfg.stop               = &stop;
    expect_failure(&cfg, MUSEC_EIO, "interrupted with 0 whole shards");
    expect_tokens(out, 0, false);
    stop       = 0;
    cfg.resume = true;
    tokenize(&cfg);
    expect_tokens(out, n, true);
}

static volatile int alarm_stop;

static void on_alarm(int signal) { alarm_stop = signal; }

/* With a shard for every token of one block the stop is seen between shards, and the manifest lists
 * all whole shards, although it is not written after each. */
TEST(a_stop_is_seen_within_a_block)
{
    enum { TOKENS = 3001 };
    const struct itimerval soon = { .it_value = { .tv_usec = 30000 } };
    const char            *out  = tmp_path("small");
    const char            *path = tmp_path("small.txt");
    ms_tokenize_progress   p;
    ms_manifest            m;
    ms_error               e;

    want[0] = MS_BYTES_START;
    for (int i = 1; i < TOKENS; i++)
        want[i] = (unsigned char)(text[i - 1] = 'a');
    put_file(path, text, TOKENS - 1);
    ms_tokenize_config cfg = config_of(&path, 1, out);
    cfg.shard_tokens       = 1;
    cfg.stop               = &alarm_stop;
    CHECK(signal(SIGALRM, on_alarm) != SIG_ERR, "signal");
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0, "timer");
    CHECK_FAILS(&e, ms_tokenize(&e, &cfg, &p), MUSEC_EIO, "interrupted with ");
    CHECK(alarm_stop != 0, "it was not stopped");
    read_shards(out, &m);
    CHECK((int64_t)m.n == p.shards && m.n < TOKENS - 1, "%zu of %d", m.n, TOKENS);
    ms_manifest_free(&m);
    alarm_stop = 0, cfg.resume = true;
    p = tokenize(&cfg);
    CHECK(p.shards == TOKENS, "%lld shards", (long long)p.shards);
    expect_tokens(out, TOKENS, true);
}

TEST(impossible_outputs_are_refused)
{
    const char *dir    = tmp_path("in");
    const char *path   = path_in(dir, "a.txt");
    const char *inside = path_in(dir, "shards");

    CHECK(mkdir(dir, 0777) == 0, "mkdir");
    put_text(path, "abc");
    ms_tokenize_config cfg = config_of(&dir, 1, inside);
    expect_failure(&cfg, MUSEC_EINVAL, "lies within the input");
    CHECK(access(inside, F_OK) != 0, "%s was left", inside);
    cfg.out = dir;
    expect_failure(&cfg, MUSEC_EINVAL, "lies within the input");
    cfg.out = tmp_path("file");
    put_text(cfg.out, "abc");
    expect_failure(&cfg, MUSEC_EIO, "/file");
    put_file(path, "", 0);
    cfg.out = tmp_path("nothing");
    expect_failure(&cfg, MUSEC_EFORMAT, "there is no document");
    cfg.shard_tokens = 0;
    expect_failure(&cfg, MUSEC_EINVAL, "--shard-tokens must be from 1");
    cfg.shard_tokens = 1;
    cfg.val_tokens   = -1;
    expect_failure(&cfg, MUSEC_EINVAL, "--val-tokens must be from 0");
}

TEST(a_second_process_leaves_the_files_of_the_first_alone)
{
    const char          *out  = tmp_path("locked");
    const char          *part = path_in(out, "train_000001.bin.part.1");
    const char          *path = tmp_path("lock.txt");
    int                  lock = MS_NO_LOCK;
    ms_tokenize_progress p;
    ms_error             e;

    put_text(path, "abc");
    CHECK(mkdir(out, 0777) == 0, "mkdir");
    put_file(part, "x", 1);
    CHECK_OK_ERR(&e, ms_lock_take(&e, out, &lock));
    if (lock == MS_NO_LOCK) SKIP("this file system has no locks");
    ms_tokenize_config cfg = config_of(&path, 1, out);
    cfg.resume             = true;
    expect_failure(&cfg, MUSEC_EIO, "another process is writing there");
    CHECK(access(part, F_OK) == 0, "%s was removed", part);
    ms_lock_free(lock);
    p = tokenize(&cfg);
    CHECK(access(part, F_OK) != 0 && p.tokens == 4, "%lld tokens", (long long)p.tokens);
}

TEST(a_run_that_wrote_nothing_can_be_started_again)
{
    const char *out  = tmp_path("anew");
    const char *path = tmp_path("n.jsonl");

    put_file(path, "{\"body\": \"abc\"}\n", 16);
    ms_tokenize_config cfg = config_of(&path, 1, out);
    expect_failure(&cfg, MUSEC_EFORMAT, "has no field");
    cfg.reader.field             = "body";
    const ms_tokenize_progress p = tokenize(&cfg);
    CHECK(p.tokens == 4 && p.complete, "%lld tokens", (long long)p.tokens);
    expect_failure(&cfg, MUSEC_EINVAL, "has 1 shard already and is complete");
}

/* ---- real data ------------------------------------------------------------------------------- */

/* Shards of the same texts that other programs wrote. */
TEST(real_texts_give_the_bytes_of_other_programs_shards)
{
    static const struct {
        const char     *text;
        ms_reader_split split;
        int64_t         val;
        const char     *shard, *sha;
    } cases[] = {
        { "text/val-c4.txt", MS_SPLIT_EOT, 0, "train_000001.bin", NULL },
        { "text/val-owt.txt", MS_SPLIT_EOT, 0, "train_000001.bin", NULL },
        { "text/tinyshakespeare.txt", MS_SPLIT_BLANK, 32768, "val_000000.bin",
          "text/tiny_shakespeare_val.bin" },
        { "text/tinyshakespeare.txt", MS_SPLIT_BLANK, 32768, "train_000001.bin",
          "text/tiny_shakespeare_train.bin" },
    };
    const char *data = check_shared_data_dir();
    char        path[1024], vocab[1024], out[1024], line[1024], hex[MS_SHA256_HEX];
    ms_bpe     *bpe = NULL;
    ms_error    e;

    if (data == NULL) SKIP("no shared data: set MUSEC_DATA");
    snprintf(vocab, sizeof vocab, "%s/gpt2", data);
    if (ms_bpe_load(&e, vocab, &bpe) == MUSEC_ENOTSUP) SKIP("%s", e.text);
    CHECK(bpe != NULL, "%s", e.text);
    for (size_t c = 0; c < COUNT(cases); c++) {
        const char *paths[1] = { path };
        snprintf(path, sizeof path, "%s/%s", data, cases[c].text);
        snprintf(out, sizeof out, "%s/real-%zu", check_tmp_dir(), c);
        ms_tokenize_config cfg = config_of(paths, 1, out);
        cfg.bpe                = bpe;
        cfg.reader.split       = cases[c].split;
        cfg.val_tokens         = cases[c].val;
        cfg.shard_tokens       = 100000000;
        cfg.threads            = c % 2 == 0 ? 2 : 7;
        tokenize(&cfg);
        if (cases[c].sha != NULL) {
            snprintf(line, sizeof line, "%s/%s", data, cases[c].sha);
            CHECK(same_file(path_in(out, cases[c].shard), line), "%s", line);
            continue;
        }
        bool found = false;
        snprintf(line, sizeof line, "%s/text/expected-tokens.tsv", data);
        FILE *f = fopen(line, "r");
        CHECK(f != NULL, "%s", line);
        CHECK_OK_ERR(&e, ms_sha256_file(&e, path_in(out, cases[c].shard), hex));
        while (!found && fgets(line, sizeof line, f) != NULL)
            found = strstr(line, hex) != NULL; /* it is of one text alone */
        fclose(f);
        CHECK(found, "%s: %s is not expected", cases[c].text, hex);
    }
    ms_bpe_free(bpe);
}
