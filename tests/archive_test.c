/* archive_test.c - archives of runs: what is written is read, the same runs give the same bytes,
 * and hostile archives are refused with a message and write nothing outside. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/text.h"
#include "experiment/archive.h"
#include "fake_run.h"
#include "scratch.h"

enum { BLOCK = 512, MOST = 64 };

static bool can_pack(void)
{
#ifdef MS_HAVE_LZMA
    return true;
#else
    return false;
#endif
}

static void read_bytes(const char *path, char **text, size_t *bytes)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_file_text(&e, path, 1 << 24, text, bytes));
}

TEST(runs_come_back_from_an_archive)
{
    static const fake runs[] = {
        { .optimizer = "muon", .lr = 0.1, .loss = 3.123456789 },
        { .optimizer = "muon", .lr = 0.2, .loss = 3.2, .diverged = true }
    };
    const char *root = fresh_dir();
    char        first[512], second[512], *a, *b;
    size_t      n_a, n_b;
    ms_error    e   = { "" };
    ms_runset   set = { 0 }, again = { 0 };
    ms_archives archives = { 0 };

    if (!can_pack()) return;
    snprintf(first, sizeof first, "%s/first.tar.xz", root);
    snprintf(second, sizeof second, "%s/second.tar.xz", root);
    for (size_t i = 0; i < COUNT(runs); i++)
        CHECK_OK_ERR(&e, ms_runset_add(&e, &set, fake_run(root, &runs[i])));
    CHECK_OK_ERR(&e, ms_archive_write(&e, &set, first));
    CHECK_OK_ERR(&e, ms_archives_add(&e, &archives, first, &again));
    CHECK_OK_ERR(&e, ms_archive_write(&e, &again, second));
    CHECK_OK_ERR(&e, ms_archives_name(&e, &archives, &again));
    CHECK(again.n == set.n, "%zu runs", again.n);
    for (size_t i = 0; i < set.n; i++) {
        const ms_run *x = &set.at[i], *y = &again.at[i];
        CHECK(x->n == y->n && x->status == y->status && x->steps == y->steps, "run %zu", i);
        CHECK((isnan(x->val_loss) && isnan(y->val_loss)) ||
                  fabs(x->val_loss - y->val_loss) <= 5e-6 * x->val_loss,
              "%.9g, not %.9g", y->val_loss, x->val_loss);
        CHECK(strncmp(y->dir, first, strlen(first)) == 0 && y->dir[strlen(first)] == '/', "%s",
              y->dir);
    }
    read_bytes(first, &a, &n_a);
    read_bytes(second, &b, &n_b);
    CHECK(n_a == n_b && memcmp(a, b, n_a) == 0, "the same runs give other bytes");
    free(a);
    free(b);
    a = strdup(archives.dir);
    CHECK_OK_ERR(&e, ms_archives_close(&e, &archives));
    CHECK(a != NULL && access(a, F_OK) != 0, "%s is left", a);
    free(a);
    ms_runset_free(&set);
    ms_runset_free(&again);
}

/* Directories whose names an archive does not take, or that have the same one: all runs come back,
 * under other names. */
TEST(runs_come_back_whatever_their_directories_are_called)
{
    static const char *const names[] = { ".hidden", "a\nb",   "a\\b",    "same",
                                         "same+2",  "x/same", "y/z/same" };
    static const fake        run     = { .optimizer = "muon", .lr = 0.1, .loss = 3.0 };
    char                     path[512], made[512], long_name[256];
    const char              *root = fresh_dir();
    ms_error                 e    = { "" };
    ms_runset                set = { 0 }, again = { 0 };
    ms_archives              archives = { 0 };

    if (!can_pack()) return;
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    CHECK(mkdir(path_in(root, "x"), 0777) == 0 && mkdir(path_in(root, "y"), 0777) == 0 &&
              mkdir(path_in(root, "y/z"), 0777) == 0,
          "%s", root);
    for (size_t i = 0; i <= COUNT(names); i++) {
        const char *name = i < COUNT(names) ? names[i] : long_name;
        snprintf(made, sizeof made, "%s", fake_run(root, &run));
        snprintf(path, sizeof path, "%s/%s", root, name);
        CHECK(rename(made, path) == 0, "%s", path);
        if (i % 2 == 0) ms_text_append(path, sizeof path, "/"); /* as a shell completes it */
        CHECK_OK_ERR(&e, ms_runset_add(&e, &set, path));
    }
    snprintf(path, sizeof path, "%s/all.tar.xz", root);
    CHECK_OK_ERR(&e, ms_archive_write(&e, &set, path));
    CHECK_OK_ERR(&e, ms_archives_add(&e, &archives, path, &again));
    CHECK(again.n == COUNT(names) + 1, "%zu runs", again.n);
    CHECK_OK_ERR(&e, ms_archives_close(&e, &archives));
    ms_runset_free(&set);
    ms_runset_free(&again);
}

/* ---- hostile archives ------------------------------------------------------------------------ */

typedef struct member {
    const char *name, *prefix;
    char        type;
    const char *size; /* in octal; NULL: that of the text */
    const char *text;
} member;

static size_t put_member(char *out, const member *m)
{
    const size_t n   = strlen(m->text);
    unsigned     sum = 0;
    memset(out, 0, BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK);
    snprintf(out, 100, "%s", m->name);
    if (m->size != NULL)
        snprintf(out + 124, 12, "%s", m->size);
    else
        snprintf(out + 124, 12, "%011o", (unsigned)(n & 0xffff));
    out[156] = m->type;
    memcpy(out + 257, "ustar", 6);
    if (m->prefix != NULL) snprintf(out + 345, 155, "%s", m->prefix);
    memset(out + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)out[i];
    snprintf(out + 148, 8, "%06o", sum);
    memcpy(out + BLOCK, m->text, n);
    return BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
}

static size_t files_below(const char *dir)
{
    char  command[600], text[32] = "";
    FILE *f;
    snprintf(command, sizeof command, "find '%s' ! -type d | wc -l", dir);
    f = popen(command, "r");
    CHECK(f != NULL && fgets(text, sizeof text, f) != NULL, "find");
    pclose(f);
    return (size_t)strtoul(text, NULL, 10);
}

/* Unpacks an archive of these members; the number of files that it left. */
static musec_status unpack(ms_error *e, const member *members, size_t n, size_t cut, size_t *files)
{
    static char bytes[MOST * BLOCK];
    const char *root = fresh_dir();
    char        path[512], dir[512];
    size_t      used = 0;
    FILE       *f;

    for (size_t i = 0; i < n; i++)
        used += put_member(bytes + used, &members[i]);
    memset(bytes + used, 0, 2 * BLOCK);
    used += 2 * BLOCK;
    snprintf(path, sizeof path, "%s/in.tar", root);
    snprintf(dir, sizeof dir, "%s/to", root);
    CHECK(mkdir(dir, 0777) == 0, "%s", dir);
    f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(bytes, 1, cut > 0 ? cut : used, f) > 0 && fclose(f) == 0, "%s", path);
    const musec_status st = ms_archive_unpack(e, path, dir);
    CHECK(files_below(root) == files_below(dir) + 1, "something was written outside");
    *files = files_below(dir);
    return st;
}

TEST(only_the_files_of_runs_are_taken)
{
    static const member members[] = { { "./", NULL, '5', "0", "" },
                                      { "./a/", NULL, '5', "0", "" },
                                      { "./a/config.json", NULL, '0', NULL, "{}" },
                                      { "a/log.jsonl", NULL, '\0', NULL, "" },
                                      { "./PaxHeaders/.", NULL, 'x', NULL,
                                        "20 mtime=1763596800\n" },
                                      { "a/output.txt", NULL, '0', NULL, "text" },
                                      { "a/summary.json", NULL, '2', NULL, "" }, /* a link */
                                      { "config.json", NULL, '0', NULL, "{}" },  /* of no run */
                                      { "summary.json", "x/y", '0', NULL, "{}" } };
    ms_error            e         = { "" };
    size_t              files;
    CHECK_OK_ERR(&e, unpack(&e, members, COUNT(members), 0, &files));
    CHECK(files == 3, "%zu files", files);
}

TEST(hostile_archives_are_refused)
{
    static const struct {
        member      member;
        const char *words;
    } cases[] = {
        { { "../config.json", NULL, '0', NULL, "{}" }, "no plain path" },
        { { "a/../../config.json", NULL, '0', NULL, "{}" }, "no plain path" },
        { { "/tmp/musec-evil/config.json", NULL, '0', NULL, "{}" }, "no plain path" },
        { { "config.json", "..", '0', NULL, "{}" }, "no plain path" },
        { { "a//config.json", NULL, '0', NULL, "{}" }, "no plain path" },
        { { ".hidden/config.json", NULL, '0', NULL, "{}" }, "no plain path" },
        { { "../config.json", NULL, '\0', NULL, "{}" }, "no plain path" },
        { { "a\nb/config.json", NULL, '0', NULL, "{}" }, "no plain path" },
        { { "a/b/c/d/e/f/config.json", NULL, '0', NULL, "{}" }, "no plain path" },
        { { "", NULL, '0', NULL, "{}" }, "no plain path" },
        { { "a/log.jsonl", NULL, '0', "77777777777", "" }, "too large" },
        { { "a/log.jsonl", NULL, '0', "-1", "" }, "too large" },
        { { "./", NULL, '5', "77777777777", "" }, "too large" },
        { { "a/", NULL, '5', "77777777777", "" }, "too large" },
        { { "././@LongLink", NULL, 'L', NULL, "abc" }, "tar --format=ustar" },
        { { "PaxHeaders/a", NULL, 'x', NULL, "20 mtime=1763596800\n25 path=a/config.json\n" },
          "tar --format=ustar" },
        { { "a/log.jsonl", NULL, '0', "00000001000", "" }, "cut off" },
    };
    static const member twice[] = { { "a/config.json", NULL, '0', NULL, "{}" },
                                    { "a/config.json", NULL, '0', NULL, "[]" } };
    ms_error            e       = { "" };
    size_t              files;
    for (size_t i = 0; i < COUNT(cases); i++) {
        CHECK_FAILS(&e, unpack(&e, &cases[i].member, 1, i + 1 == COUNT(cases) ? 600 : 0, &files),
                    MUSEC_EFORMAT, cases[i].words);
    }
    CHECK_FAILS(&e, unpack(&e, twice, 2, 0, &files), MUSEC_EFORMAT, "twice");
    CHECK_FAILS(&e, unpack(&e, twice, 1, 700, &files), MUSEC_EFORMAT, "cut off");
    CHECK_FAILS(&e, unpack(&e, twice, 1, 100, &files), MUSEC_EFORMAT, "cut off");
}

TEST(a_text_is_no_archive)
{
    const char *root = fresh_dir();
    char        path[512];
    ms_error    e = { "" };
    FILE       *f;
    ms_runset   set = { 0 };
    ms_archives all = { 0 };
    snprintf(path, sizeof path, "%s/text.tar", root);
    f = fopen(path, "wb");
    for (int i = 0; f != NULL && i < 200; i++)
        fprintf(f, "this is no archive\n");
    CHECK(f != NULL && fclose(f) == 0, "%s", path);
    CHECK_FAILS(&e, ms_archives_add(&e, &all, path, &set), MUSEC_EFORMAT, "checksum");
    CHECK_OK_ERR(&e, ms_archives_close(&e, &all));
    ms_runset_free(&set);
}
