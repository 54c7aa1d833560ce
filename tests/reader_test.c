/* reader_test.c - documents from texts and JSON lines, compressed or not, whole or damaged. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/rng.h"
#include "data/bytes.h"
#include "data/reader.h"
#include "data/unpack.h"
#include "pack.h"
#include "scratch.h"

static const char *put_bytes(const char *name, const char *data, size_t bytes)
{
    const char *path = tmp_path(name);
    put_file(path, data, bytes);
    return path;
}

static const char *put(const char *name, const char *text)
{
    return put_bytes(name, text, strlen(text));
}

static ms_reader_config config_of(const char *const *paths, size_t n)
{
    return (
        ms_reader_config){ .paths = paths, .n_paths = n, .field = "text", .max_document = 1 << 20 };
}

/* All documents, each in brackets: "[a][b]"; after a failure, its message. */
static const char *read_all(const ms_reader_config *cfg, int64_t *bad)
{
    static char  all[1 << 19];
    size_t       n = 0;
    ms_reader   *r = NULL;
    ms_document  d;
    ms_error     e  = { "" };
    musec_status st = ms_reader_open(&e, cfg, &r);

    all[0] = '\0';
    while (st == MUSEC_OK) {
        st = ms_reader_next(&e, r, &d);
        if (st != MUSEC_OK || d.text == NULL) break;
        CHECK(n + d.bytes + 3 < sizeof all, "too many documents");
        all[n++] = '[';
        memcpy(all + n, d.text, d.bytes);
        n += d.bytes;
        all[n++] = ']';
        all[n]   = '\0';
    }
    if (bad != NULL) *bad = r != NULL ? ms_reader_bad(r) : -1;
    ms_reader_close(r);
    if (st != MUSEC_OK) snprintf(all, sizeof all, "%s", e.text);
    return all;
}

static void expect_all(const ms_reader_config *cfg, const char *want)
{
    const char *got = read_all(cfg, NULL);
    CHECK(strcmp(got, want) == 0, "%s: %s, not %s", cfg->paths[0], got, want);
}

/* The documents, or the message of the failure, contain `part`. */
static void expect_part(const ms_reader_config *cfg, const char *part)
{
    const char *got = read_all(cfg, NULL);
    CHECK(strstr(got, part) != NULL, "no '%s' in: %s", part, got);
}

/* What skip_bad leaves, and how many lines it skips. */
static void expect_rest(const ms_reader_config *cfg, const char *want, int64_t want_bad)
{
    int64_t     bad = -1;
    const char *got = read_all(cfg, &bad);
    CHECK(strcmp(got, want) == 0 && bad == want_bad, "%s, %lld skipped", got, (long long)bad);
}

static void expect_one(const char *path, ms_reader_split split, const char *want)
{
    ms_reader_config cfg = config_of(&path, 1);
    cfg.split            = split;
    expect_all(&cfg, want);
}

/* ---- texts ----------------------------------------------------------------------------------- */

#define EOT "\n<|endoftext|>\n"

TEST(texts_are_cut_at_their_separators)
{
    static const struct {
        ms_reader_split split;
        const char     *text, *want;
    } cases[] = {
        { MS_SPLIT_EOT, "a" EOT "b" EOT, "[a][b]" },
        { MS_SPLIT_EOT, "a" EOT "b", "[a][b]" },
        { MS_SPLIT_EOT, "a\n" EOT "b\n", "[a\n][b\n]" },
        { MS_SPLIT_EOT, "a" EOT EOT "b", "[a][][b]" },
        { MS_SPLIT_EOT, EOT, "[]" },
        { MS_SPLIT_EOT, "", "" },
        { MS_SPLIT_EOT, "\n", "[\n]" },
        { MS_SPLIT_EOT, "a\n<|endoftext|>", "[a\n<|endoftext|>]" },
        { MS_SPLIT_EOT, "a<|endoftext|>\nb\r\n" EOT "\n\n", "[a<|endoftext|>\nb\r\n][\n\n]" },
        { MS_SPLIT_EOT, "a\n<|endoftext|>\n<|endoftext|>\nb", "[a][<|endoftext|>\nb]" },
        { MS_SPLIT_BLANK, "a\n\nb\n\nc", "[a\n\n][b\n\n][c]" },
        { MS_SPLIT_BLANK, "a\n\nb\n", "[a\n\n][b\n]" },
        { MS_SPLIT_BLANK, "a\n\n\nb", "[a\n\n][\nb]" },
        { MS_SPLIT_BLANK, "a\n\n\n\nb", "[a\n\n][\n\n][b]" },
        { MS_SPLIT_BLANK, "a\n\n", "[a\n\n]" },
        { MS_SPLIT_BLANK, "a\r\n\r\nb", "[a\r\n\r\nb]" },
        { MS_SPLIT_BLANK, "", "" },
        { MS_SPLIT_FILE, "a\n\nb" EOT, "[a\n\nb" EOT "]" },
        { MS_SPLIT_FILE, "", "" },
    };

    for (size_t c = 0; c < COUNT(cases); c++)
        expect_one(put("a.txt", cases[c].text), cases[c].split, cases[c].want);
}

/* Separators may lie across the end of a read buffer; the byte tokenizer cuts the whole text. */
TEST(long_texts_are_cut_like_by_the_byte_tokenizer)
{
    static const char separator[15] = EOT;
    const size_t      bytes         = 900000;
    char             *text          = malloc(bytes);
    uint16_t         *tokens        = NULL;
    int64_t           n = 0, i = 0;
    const char       *path;
    ms_reader        *r = NULL;
    ms_document       d;
    ms_error          e;

    CHECK(text != NULL, "memory");
    for (size_t k = 0; k < bytes; k++)
        text[k] = (char)(ms_rand_u64(5, k) % 256);
    for (size_t k = 0; k + 15 < bytes; k += 1 + ms_rand_u64(6, k) % (k < bytes / 2 ? 300000 : 40))
        memcpy(text + k, separator, sizeof separator);
    path = put_bytes("long.txt", text, bytes);
    CHECK_OK_ERR(&e, ms_bytes_encode(&e, text, bytes, &tokens, &n));
    ms_reader_config cfg = config_of(&path, 1);
    CHECK_OK_ERR(&e, ms_reader_open(&e, &cfg, &r));
    for (int64_t number = 0;; number++) {
        CHECK_OK_ERR(&e, ms_reader_next(&e, r, &d));
        if (d.text == NULL) break;
        CHECK(d.number == number && d.file == 0, "number %lld", (long long)d.number);
        CHECK(i < n && tokens[i] == MS_BYTES_START, "start of %lld", (long long)number);
        i++;
        for (size_t k = 0; k < d.bytes; k++, i++)
            CHECK(i < n && tokens[i] == (unsigned char)d.text[k], "token %lld", (long long)i);
    }
    CHECK(i == n, "%lld of %lld tokens", (long long)i, (long long)n);
    CHECK(ms_reader_consumed(r) == (int64_t)bytes && ms_reader_total(r) == (int64_t)bytes, "bytes");
    ms_reader_close(r);
    free(tokens), free(text);
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

TEST(json_lines_are_read_and_bad_ones_named_or_skipped)
{
    static const struct {
        const char *text, *want; /* want: documents, or words of the failure */
        int64_t     bad;         /* lines that skip_bad skips */
        const char *rest;        /* the documents that it leaves */
    } cases[] = {
        { "{\"text\": \"a\"}\n{\"id\": 1, \"text\": \"b\\nc\"}\n", "[a][b\nc]", 0, NULL },
        { "{\"text\": \"a\"}\r\n\r\n  \n{\"text\": \"b\"}", "[a][b]", 0, NULL },
        { "\xEF\xBB\xBF{\"text\": \"\\u00e4\\ud83d\\ude00\"}\n", "[\xC3\xA4\xF0\x9F\x98\x80]", 0,
          NULL },
        { "\xEF\xBB\xBF\r\n{\"text\": \"a\"}\n", "[a]", 0, NULL },
        { "\xEF\xBB\xBF", "", 0, NULL },
        { "\n\xEF\xBB\xBF\n", "a.jsonl:2: is not JSON", 1, "" },
        { "{\"text\": \"\"}\n", "[]", 0, NULL },
        { "{\"n\": 123456789012345678901234567890, \"text\": \"a\"}\n", "[a]", 0, NULL },
        { "{\"n\": 1e300, \"text\": \"a\"}\n{\"n\": 1e999, \"text\": \"b\"}\n",
          "a.jsonl:2: a number is too large at byte", 1, "[a]" },
        { "", "", 0, NULL },
        { "\n\n", "", 0, NULL },
        { "{\"text\": \"a\"}\nhello\n{\"text\": \"b\"}\n", "a.jsonl:2: is not JSON", 1, "[a][b]" },
        { "{\"text\": \"a\"}\n{\"text\": \"b\n", "a.jsonl:2: is not JSON", 1, "[a]" },
        { "{\"text\": \"a\"} x\n", "a.jsonl:1: is not JSON", 1, "" },
        { "{\"text\": \"\xFF\"}\n", "a.jsonl:1: is not JSON", 1, "" },
        { "[\"text\"]\n", "a.jsonl:1: is an array; each line must be an object", 1, "" },
        { "\"text\"\n", "a.jsonl:1: is not JSON", 1, "" },
        { "{\"id\": 1, \"body\": \"x\"}\n", "has no field \"text\"; it has id, body", 1, "" },
        { "\n{\"text\": 7}\n", "a.jsonl:2: the field \"text\" is a number, not a string", 1, "" },
        { "{\"text\": null}\n{\"text\": \"z\"}", "is null, not a string", 1, "[z]" },
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        const char      *path = put("a.jsonl", cases[c].text);
        ms_reader_config cfg  = config_of(&path, 1);
        if (cases[c].bad == 0) {
            expect_all(&cfg, cases[c].want);
            continue;
        }
        expect_part(&cfg, cases[c].want);
        cfg.skip_bad = true;
        expect_rest(&cfg, cases[c].rest, cases[c].bad);
    }
}

TEST(zero_bytes_are_part_of_a_text)
{
    static const char *const names[] = { "z.jsonl", "z.txt" };
    const char              *path[2];
    ms_reader               *r = NULL;
    ms_document              d;
    ms_error                 e;

    path[0]              = put(names[0], "{\"text\": \"a\\u0000b\"}\n");
    path[1]              = put_bytes(names[1], "a\0b", 3);
    ms_reader_config cfg = config_of(path, 2);
    CHECK_OK_ERR(&e, ms_reader_open(&e, &cfg, &r));
    for (int i = 0; i < 2; i++) {
        CHECK_OK_ERR(&e, ms_reader_next(&e, r, &d));
        CHECK(d.text != NULL && d.bytes == 3 && memcmp(d.text, "a\0b", 3) == 0, "file %d", i);
        CHECK(d.file == i && d.number == 0, "file %d", i);
    }
    ms_reader_close(r);
}

TEST(field_and_format_can_be_chosen)
{
    const char      *path = put("b.jsonl", "{\"text\": \"a\", \"raw content\": \"b\"}\n");
    ms_reader_config cfg  = config_of(&path, 1);

    cfg.field = "raw content";
    expect_all(&cfg, "[b]");
    cfg.format = MS_FORMAT_TEXT;
    expect_part(&cfg, "[{\"text\"");
    path       = put("b.txt", "{\"raw content\": \"c\"}\n");
    cfg.format = MS_FORMAT_JSON;
    expect_all(&cfg, "[c]");
    path       = put("b.whatever", "c\n"); /* unknown suffixes are texts */
    cfg.format = MS_FORMAT_AUTO;
    expect_all(&cfg, "[c\n]");
}

TEST(documents_that_are_too_long_are_refused_or_skipped)
{
    static char      line[4096];
    const char      *path;
    ms_reader_config cfg;
    int64_t          bad;

    snprintf(line, sizeof line, "{\"text\": \"a\"}\n{\"text\": \"%02000d\"}\n{\"text\": \"b\"}\n",
             0);
    path             = put("a.jsonl", line);
    cfg              = config_of(&path, 1);
    cfg.max_document = 1000;
    expect_part(&cfg, "a.jsonl:2: is longer than 1000 bytes");
    cfg.skip_bad = true;
    expect_rest(&cfg, "[a][b]", 1);
    cfg.max_document = 2013;
    CHECK(strlen(read_all(&cfg, &bad)) == 2002 + 6 && bad == 0, "it fits");
    path             = put("a.txt", line);
    cfg.max_document = 1000;
    expect_part(&cfg, "document 1 is longer than 1000 bytes");
    snprintf(line, sizeof line, "%0500d" EOT "%0500d" EOT "%01000d" EOT "%01001d", 1, 2, 3, 4);
    put("a.txt", line);
    expect_part(&cfg, "document 4 is longer than 1000 bytes");
}

/* Lines that are much longer than any buffer, one of them at the end. */
TEST(lines_beyond_any_buffer_are_skipped)
{
    const size_t bytes = 3000000;
    char        *text  = malloc(bytes + 64);
    const char  *path  = tmp_path("long.jsonl");

    CHECK(text != NULL, "memory");
    memset(text, 'x', bytes);
    memcpy(text + bytes, "\n{\"text\": \"a\"}\n", 16);
    remove(path);
    pack_append(path, PACK_NONE, text, bytes + 15);
    pack_append(path, PACK_NONE, text, bytes); /* another at the end */
    ms_reader_config cfg = config_of(&path, 1);
    cfg.max_document     = 5000;
    cfg.skip_bad         = true;
    expect_rest(&cfg, "[a]", 2);
    free(text);
}

/* ---- compressed files ------------------------------------------------------------------------ */

TEST(compressed_files_are_read)
{
    for (packer how = PACK_GZIP; how < PACKERS; how++) {
        char        name[32];
        const char *path;
        if (!pack_is_here(how)) {
            SKIP_PART("%s is not in this build", pack_suffix(how));
            continue;
        }
        snprintf(name, sizeof name, "p.txt%s", pack_suffix(how));
        path = put(name, "");
        pack_append(path, how, "a" EOT "b", 17); /* several streams, an empty one among them */
        pack_append(path, how, "", 0);
        pack_append(path, how, "c" EOT, 16);
        expect_one(path, MS_SPLIT_EOT, "[a][bc]");
        snprintf(name, sizeof name, "p.jsonl%s", pack_suffix(how));
        path = put(name, "");
        pack_append(path, how, "{\"text\": \"a\"}\n{\"te", 18);
        pack_append(path, how, "xt\": \"b\"}", 9);
        expect_one(path, MS_SPLIT_EOT, "[a][b]");
        path = put("packed", ""); /* the format is known by the first bytes, whatever the name */
        pack_append(path, how, "a" EOT "b", 17);
        expect_one(path, MS_SPLIT_EOT, "[a][b]");
    }
    if (pack_is_here(PACK_GZIP)) {
        const char *path = put("zeros.txt.gz", "");
        pack_append(path, PACK_GZIP, "a", 1);
        pack_append(path, PACK_NONE, "\0\0\0\0\0", 5); /* padding, as on tapes */
        expect_one(path, MS_SPLIT_EOT, "[a]");
    }
}

TEST(damaged_compressed_files_are_refused)
{
    char *lines = malloc(400001), name[32];

    CHECK(lines != NULL, "memory");
    for (unsigned i = 0; i < 10000; i++)
        snprintf(lines + (size_t)i * 40, 41, "{\"text\": \"%010u %016llx\"}\n", i,
                 (unsigned long long)ms_rand_u64(1, i));
    for (packer how = PACK_GZIP; how < PACKERS; how++) {
        static char file[600000];
        const char *path;
        size_t      bytes;
        FILE       *f;
        if (!pack_is_here(how)) continue;
        snprintf(name, sizeof name, "t.jsonl%s", pack_suffix(how));
        path = put(name, "");
        pack_append(path, how, lines, 400000);
        f = fopen(path, "rb");
        CHECK(f != NULL, "%s", path);
        bytes = fread(file, 1, sizeof file, f);
        fclose(f);
        for (size_t left = bytes - 1; left > 6; left = left / 3) {
            put_bytes(name, file, left);
            ms_reader_config cfg = config_of(&path, 1);
            ms_reader       *r   = NULL;
            ms_document      d   = { .text = lines };
            ms_error         e   = { "" };
            musec_status     st;
            CHECK_OK_ERR(&e, ms_reader_open(&e, &cfg, &r));
            do {
                st = ms_reader_next(&e, r, &d);
            } while (st == MUSEC_OK && d.text != NULL);
            CHECK(st == MUSEC_EFORMAT, "%s cut to %zu of %zu bytes passes", name, left, bytes);
            CHECK(strstr(e.text, "truncated") && strstr(e.text, name) && strstr(e.text, "line") &&
                      strstr(e.text, "at byte"),
                  "%s", e.text);
            ms_reader_close(r);
        }
        memset(file + bytes / 2, 0xA5, 16);
        put_bytes(name, file, bytes);
        ms_reader_config whole = config_of(&path, 1);
        whole.format           = MS_FORMAT_TEXT; /* or a bad line might be found first */
        expect_part(&whole, "damaged");
        whole.format = MS_FORMAT_AUTO;
        put_bytes(name, lines, 40);
        expect_part(&whole, "does not begin like");
        put_bytes(name, "", 0);
        expect_part(&whole, "it is empty");
    }
    free(lines);
}

TEST(decompression_libraries_are_listed)
{
    ms_unpack_library library;
    size_t            n = 0;

    for (; ms_unpack_library_at(n, &library); n++)
        CHECK((library.version != NULL) == pack_is_here((packer)(PACK_GZIP + n)), "%s",
              library.name);
    CHECK(n == PACKERS - 1, "%zu libraries", n);
    CHECK(strcmp(ms_unpack_suffix("a.txt.gz"), ".gz") == 0, "suffix");
    CHECK(ms_unpack_suffix("a.txt") == NULL && ms_unpack_suffix(".gz") == NULL, "no suffix");
}

/* ---- files ----------------------------------------------------------------------------------- */

TEST(directories_are_read_in_the_order_of_their_names)
{
    const char      *dir = tmp_path("tree");
    ms_reader_config cfg;
    char             name[64];

    CHECK(mkdir(dir, 0777) == 0 && mkdir(tmp_path("tree/b"), 0777) == 0, "mkdir");
    CHECK(mkdir(tmp_path("tree/b/B"), 0777) == 0 && mkdir(tmp_path("tree/c"), 0777) == 0, "mkdir");
    put("tree/z.txt", "z");
    put("tree/a.json", "{\"text\": \"a\"}");
    put("tree/B.ndjson", "{\"text\": \"B\"}");
    put("tree/b/2.txt", "2");
    put("tree/b/10.txt", "10");
    put("tree/b/B/1.txt", "1");
    put("tree/b/notes.md", "not this");
    put("tree/b/x.bin", "nor this");
    put("tree/.hidden.txt", "nor that");
    put("tree/empty.txt", "");
    CHECK(symlink("b/2.txt", tmp_path("tree/y.txt")) == 0, "symlink");
    CHECK(symlink("nowhere", tmp_path("tree/broken.md")) == 0, "symlink");
    if (pack_is_here(PACK_GZIP)) {
        snprintf(name, sizeof name, "tree/bb.txt%s", pack_suffix(PACK_GZIP));
        pack_append(tmp_path(name), PACK_GZIP, "gz", 2);
    } else {
        put("tree/bb.txt", "gz");
    }
    cfg = config_of(&dir, 1);
    expect_all(&cfg, "[B][a][10][2][1][gz][2][z]");
    const char *both[2] = { tmp_path("tree/z.txt"), tmp_path("tree/b/") };
    cfg                 = config_of(both, 2);
    expect_all(&cfg, "[z][10][2][1]");
    dir = tmp_path("tree/c");
    cfg = config_of(&dir, 1);
    expect_part(&cfg, "has no file called");
    CHECK(symlink("..", tmp_path("tree/c/up")) == 0, "symlink");
    expect_part(&cfg, "tree/c/up/c: leads back to a directory above it");
}

TEST(impossible_inputs_are_refused)
{
    const char      *none = tmp_path("none.txt"), *twice[2] = { "-", "-" };
    ms_reader_config cfg = config_of(&none, 1);

    expect_part(&cfg, "No such file");
    cfg = config_of(twice, 2);
    expect_part(&cfg, "only once");
    cfg = config_of(NULL, 0);
    expect_part(&cfg, "nothing to read");
}

TEST(after_a_seek_the_same_documents_follow)
{
    const char *paths[3];
    ms_error    e;

    paths[0] = put("s0.txt", "a" EOT "b" EOT "c");
    paths[1] = put("s1.jsonl", "{\"text\": \"d\"}\n\nbad\n{\"text\": \"e\"}\n");
    paths[2] = put("s2.txt", "f");
    static const struct {
        int64_t     file, number;
        const char *want;
    } cases[] = {
        { 0, 0, "abcdef" }, { 0, 1, "bcdef" }, { 0, 2, "cdef" }, { 0, 3, "def" }, { 1, 0, "def" },
        { 1, 1, "ef" },     { 1, 3, "ef" },    { 1, 4, "f" },    { 2, 0, "f" },   { 3, 0, "" },
    };
    ms_reader_config cfg = config_of(paths, 3);
    cfg.skip_bad         = true;
    for (size_t c = 0; c < COUNT(cases); c++) {
        ms_reader  *r = NULL;
        ms_document d;
        char        got[16] = "";
        size_t      n       = 0;
        CHECK_OK_ERR(&e, ms_reader_open(&e, &cfg, &r));
        CHECK_OK_ERR(&e, ms_reader_seek(&e, r, cases[c].file, cases[c].number));
        for (;;) {
            CHECK_OK_ERR(&e, ms_reader_next(&e, r, &d));
            if (d.text == NULL) break;
            got[n++] = d.text[0];
        }
        CHECK(strcmp(got, cases[c].want) == 0, "case %zu: %s", c, got);
        CHECK(ms_reader_consumed(r) == ms_reader_total(r), "bytes of case %zu", c);
        ms_reader_close(r);
    }
    ms_reader *r = NULL;
    CHECK_OK_ERR(&e, ms_reader_open(&e, &cfg, &r));
    CHECK_FAILS(&e, ms_reader_seek(&e, r, 0, 4), MUSEC_EFORMAT, "was changed");
    ms_reader_close(r);
}

/* ---- pipes ----------------------------------------------------------------------------------- */

typedef struct slow_writer {
    int         fd;
    const char *path;     /* opened instead of fd unless NULL */
    const char *parts[7]; /* until NULL */
} slow_writer;

/* Writes the parts with pauses, so that each is read on its own. */
static void *write_slowly(void *arg)
{
    const slow_writer *w  = arg;
    const int          fd = w->path != NULL ? open(w->path, O_WRONLY) : w->fd;
    for (size_t i = 0; i < COUNT(w->parts) && w->parts[i] != NULL; i++) {
        const struct timespec pause = { .tv_nsec = 5000000 };
        if (write(fd, w->parts[i], strlen(w->parts[i])) < 0) break;
        nanosleep(&pause, NULL);
    }
    close(fd);
    return NULL;
}

TEST(stdin_may_be_a_pipe)
{
    const char      *path = "-";
    ms_reader_config cfg  = config_of(&path, 1);
    int              fd[2], before = dup(STDIN_FILENO);
    atomic_bool      stop = false;
    pthread_t        thread;
    char             got[64];
    /* the first write is half of a byte order mark, which does not tell the format yet */
    slow_writer w = { .parts = { "\xEF\xBB", "\xBF", "{\"te", "xt\": \"a\"}\n{", "\"text\": \"b\"}",
                                 "\n" } };

    CHECK(pipe(fd) == 0 && dup2(fd[0], STDIN_FILENO) == STDIN_FILENO, "pipe");
    cfg.stop = &stop;
    w.fd     = fd[1];
    CHECK(pthread_create(&thread, NULL, write_slowly, &w) == 0, "thread");
    snprintf(got, sizeof got, "%s", read_all(&cfg, NULL));
    pthread_join(thread, NULL);
    close(fd[0]);
    CHECK(pipe(fd) == 0 && dup2(fd[0], STDIN_FILENO) == STDIN_FILENO, "pipe");
    atomic_store(&stop, true); /* without it the read would wait forever: nothing is written */
    const char *words = read_all(&cfg, NULL);
    dup2(before, STDIN_FILENO);
    close(before);
    close(fd[0]);
    close(fd[1]);
    CHECK(strcmp(got, "[a][b]") == 0, "%s", got);
    CHECK(strstr(words, "stopped waiting") != NULL, "%s", words);
}

/* Without a suffix the first bytes tell the format, with one the name does. */
TEST(named_pipes_are_read)
{
    static const struct {
        const char *name, *want;
    } cases[] = { { "fifo", "[a]" }, { "fifo.txt", "[\n \r\n{\"text\": \"a\"}]" } };

    for (size_t c = 0; c < COUNT(cases); c++) {
        const char      *path = tmp_path(cases[c].name), *was;
        ms_reader_config cfg  = config_of(&path, 1);
        slow_writer      w    = { 0, path, { "\n", " \r\n", "{\"text\": \"a\"}" } };
        pthread_t        thread;
        CHECK(mkfifo(path, 0666) == 0, "mkfifo");
        CHECK(pthread_create(&thread, NULL, write_slowly, &w) == 0, "thread");
        was = read_all(&cfg, NULL);
        pthread_join(thread, NULL);
        CHECK(strcmp(was, cases[c].want) == 0, "%s: %s", path, was);
    }
}
