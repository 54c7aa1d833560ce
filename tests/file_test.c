/* file_test.c - files that are written whole or not at all, and errors of real file systems. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "scratch.h"

static int parts_left(void)
{
    DIR           *d = opendir(check_tmp_dir());
    struct dirent *entry;
    int            n = 0;
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL)
        n += strstr(entry->d_name, ".part.") != NULL;
    closedir(d);
    return n;
}

static void expect(const char *path, const char *want)
{
    blob b;
    get_file(path, &b);
    CHECK(b.n == strlen(want) && memcmp(b.p, want, b.n) == 0, "%s holds '%.*s', not '%s'", path,
          (int)b.n, (const char *)b.p, want);
}

/* Nothing is left of files that were not written to their end. */
static void expect_no_parts(void) { CHECK(parts_left() == 0, "%d parts", parts_left()); }

static musec_status write_text(ms_error *e, const char *path, const char *text)
{
    ms_out_file  out = { 0 };
    musec_status st;
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_write(e, &out, text, strlen(text)));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    return st;
}

TEST(a_file_appears_at_the_commit)
{
    const char *path = tmp_path("new.txt");
    ms_out_file out;
    ms_error    e;
    struct stat sb;

    CHECK_OK_ERR(&e, ms_out_open(&e, path, &out));
    CHECK_OK_ERR(&e, ms_out_write(&e, &out, "abc", 3));
    CHECK_OK_ERR(&e, ms_out_write(&e, &out, NULL, 0));
    CHECK(stat(path, &sb) != 0, "nothing under the name before the commit");
    CHECK(parts_left() == 1 && strncmp(out.part, path, strlen(path)) == 0, "%s", out.part);
    CHECK_OK_ERR(&e, ms_out_commit(&e, &out));
    ms_out_abandon(&out);
    expect(path, "abc");

    CHECK_OK_ERR(&e, ms_out_open(&e, path, &out));
    CHECK_OK_ERR(&e, ms_out_write(&e, &out, "other", 5));
    ms_out_abandon(&out);
    ms_out_abandon(&out);
    expect(path, "abc");
    expect_no_parts();
}

TEST(mode_of_the_old_file_is_kept)
{
    static const mode_t modes[] = { 0640, 0600, 0755, 0666 };
    const char         *path    = tmp_path("mode.txt");
    const mode_t        mask    = umask(027);
    ms_error            e;
    struct stat         sb;

    CHECK_OK_ERR(&e, write_text(&e, path, "a"));
    CHECK(stat(path, &sb) == 0 && (sb.st_mode & 07777) == 0640, "new: %o", sb.st_mode & 07777);
    for (size_t i = 0; i < COUNT(modes); i++) {
        CHECK(chmod(path, modes[i]) == 0, "chmod");
        CHECK_OK_ERR(&e, write_text(&e, path, "b"));
        CHECK(stat(path, &sb) == 0 && (sb.st_mode & 07777) == modes[i], "%o instead of %o",
              sb.st_mode & 07777, modes[i]);
    }
    umask(mask);
}

TEST(symbolic_links_are_followed_and_kept)
{
    const char *real = tmp_path("real.txt"), *link1 = tmp_path("link1"), *link2 = tmp_path("link2");
    ms_error    e;
    struct stat sb;

    put_text(real, "old");
    CHECK(symlink("real.txt", link1) == 0 && symlink("link1", link2) == 0, "symlink");
    CHECK_OK_ERR(&e, write_text(&e, link2, "new"));
    CHECK(lstat(link1, &sb) == 0 && S_ISLNK(sb.st_mode), "the first link is gone");
    CHECK(lstat(link2, &sb) == 0 && S_ISLNK(sb.st_mode), "the second link is gone");
    expect(real, "new");
    expect_no_parts();
}

TEST(existing_part_files_are_not_overwritten)
{
    const char *path = tmp_path("busy.txt");
    char        name[64];
    ms_out_file a, b;
    ms_error    e;

    snprintf(name, sizeof name, "busy.txt.part.%ld", (long)getpid());
    const char *stale = tmp_path(name);
    put_text(stale, "somebody's");
    CHECK_OK_ERR(&e, ms_out_open(&e, path, &a));
    CHECK_OK_ERR(&e, ms_out_open(&e, path, &b)); /* two writers at once: the last commit wins */
    CHECK_OK_ERR(&e, ms_out_write(&e, &a, "a", 1));
    CHECK_OK_ERR(&e, ms_out_write(&e, &b, "b", 1));
    CHECK_OK_ERR(&e, ms_out_commit(&e, &b));
    CHECK_OK_ERR(&e, ms_out_commit(&e, &a));
    expect(path, "a");
    expect(stale, "somebody's");
    remove(stale);
    expect_no_parts();
}

/* Names of the greatest length cannot be extended by an ending. */
TEST(files_with_the_longest_names_are_written)
{
    const long  most = pathconf(check_tmp_dir(), _PC_NAME_MAX);
    char        name[400];
    ms_out_file a, b;
    ms_error    e;

    CHECK(most >= 64 && most < 300, "names of %ld bytes", most);
    for (long n = most - 20; n <= most; n++) {
        memset(name, 'n', (size_t)n); /* two bytes a character, so that some cuts are within one */
        for (long i = n % 2; i + 1 < n; i += 2)
            memcpy(name + i, "\xC3\xA9", 2);
        name[n]          = '\0';
        const char *path = tmp_path(name);
        name[n - 1] = name[n - 2] = 'x';
        const char *other         = tmp_path(name);
        CHECK_OK_ERR(&e, ms_out_open(&e, path, &a));
        CHECK_OK_ERR(&e, ms_out_open(&e, other, &b)); /* both begin alike */
        CHECK_OK_ERR(&e, ms_out_write(&e, &a, "a", 1));
        CHECK_OK_ERR(&e, ms_out_write(&e, &b, "b", 1));
        CHECK(parts_left() == 2, "%d parts", parts_left());
        CHECK(strncmp(a.part, path, strlen(check_tmp_dir()) + 1) == 0, "%s is elsewhere", a.part);
        CHECK(strstr(a.part, "\xC3.part.") == NULL, "%s: cut within a character", a.part);
        CHECK_OK_ERR(&e, ms_out_commit(&e, &a));
        ms_out_abandon(&b);
        expect(path, "a");
        CHECK(access(other, F_OK) != 0 && parts_left() == 0, "the abandoned file is there");
        remove(path);
    }
    memset(name, 'n', (size_t)most + 1);
    name[most + 1] = '\0';
    CHECK_FAILS(&e, write_text(&e, tmp_path(name), "a"), MUSEC_EIO, "too long");
}

TEST(invalid_paths_are_refused_by_name)
{
    static char too_long[MS_PATH_MAX + 10];
    const char *dangling = tmp_path("dangling");
    const struct {
        const char *path, *words;
    } cases[] = {
        { "", "empty" },
        { check_tmp_dir(), "Is a directory" },
        { tmp_path("no/such/dir.txt"), "create it first" },
        { tmp_path("newdir/"), "does not end in /" },
        { dangling, "link to a missing file" },
        { too_long, "too long" },
        { "/dev/null/x", "Not a directory" },
    };
    ms_error    e;
    ms_out_file out;

    memset(too_long, 'x', sizeof too_long - 1);
    CHECK(symlink("nowhere", dangling) == 0, "symlink");
    for (size_t i = 0; i < COUNT(cases); i++) {
        e.text[0] = '\0';
        CHECK(ms_out_open(&e, cases[i].path, &out) == MUSEC_EIO, "case %zu", i);
        CHECK(strstr(e.text, cases[i].words) != NULL || i == 5, "case %zu: %s", i, e.text);
        CHECK(strncmp(e.text, cases[i].path, strlen(cases[i].path)) == 0 || i == 5,
              "case %zu does not name the path: %s", i, e.text);
        CHECK(out.f == NULL && out.part[0] == '\0', "case %zu leaves something open", i);
        ms_out_abandon(&out);
    }
    expect_no_parts();
}

/* A rename could replace a read-only file, but must not.  Root may write everything and becomes
 * another user meanwhile. */
TEST(read_only_files_and_directories_are_not_changed)
{
    const char  *path = tmp_path("protected.txt"), *fresh = tmp_path("fresh.txt");
    const uid_t  was = geteuid();
    ms_error     e   = { "" };
    musec_status st[2];
    struct stat  sb;

    put_text(path, "keep");
    CHECK(chmod(path, 0444) == 0 && chmod(check_tmp_dir(), 0777) == 0, "chmod");
    if (was == 0 && seteuid(65534) != 0) SKIP("cannot become another user");
    st[0] = write_text(&e, path, "lost"); /* no CHECK before seteuid(was) */
    CHECK(seteuid(was) == 0, "seteuid");
    CHECK_FAILS(&e, st[0], MUSEC_EIO, "cannot create (Permission denied); the file and");
    expect(path, "keep");

    CHECK(chmod(check_tmp_dir(), 0555) == 0, "chmod");
    if (was == 0 && seteuid(65534) != 0) SKIP("cannot become another user");
    st[1] = write_text(&e, fresh, "lost");
    CHECK(seteuid(was) == 0 && chmod(check_tmp_dir(), 0700) == 0, "back");
    CHECK(st[1] == MUSEC_EIO && stat(fresh, &sb) != 0, "a protected directory");
    CHECK(strstr(e.text, "Permission denied") != NULL, "%s", e.text);
}

TEST(a_full_device_is_reported)
{
    static char big[1 << 16];
    ms_error    e;
    ms_out_file out;
    struct stat sb;

    if (stat("/dev/full", &sb) != 0) SKIP("no /dev/full here");
    CHECK(write_text(&e, "/dev/full", "abc") == MUSEC_EIO, "buffered: seen at the commit");
    CHECK(strstr(e.text, "/dev/full: cannot write (No space left") == e.text, "%s", e.text);
    CHECK_OK_ERR(&e, ms_out_open(&e, "/dev/full", &out));
    CHECK(ms_out_write(&e, &out, big, sizeof big) == MUSEC_EIO, "large: seen at once");
    CHECK(ms_out_commit(&e, &out) == MUSEC_EIO, "and still there at the commit");
    CHECK(out.f == NULL, "a failed commit closes");
    CHECK(stat("/dev/full", &sb) == 0 && S_ISCHR(sb.st_mode), "the device is still there");
    CHECK_OK_ERR(&e, write_text(&e, "/dev/null", "abc"));
}

/* A limit on the size of files stands for a full disk. */
TEST(a_full_disk_leaves_the_old_file)
{
    static char   big[1 << 16];
    static size_t sizes[] = { 5000, sizeof big }; /* below and above stdio's buffer */
    const char   *path    = tmp_path("quota.bin");
    struct rlimit was, tight = { 4096, 4096 };
    ms_error      e;

    put_text(path, "old");
    CHECK(getrlimit(RLIMIT_FSIZE, &was) == 0, "getrlimit");
    tight.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        ms_out_file  out;
        musec_status st;
        CHECK_OK_ERR(&e, ms_out_open(&e, path, &out));
        CHECK(setrlimit(RLIMIT_FSIZE, &tight) == 0, "setrlimit");
        st = ms_out_write(&e, &out, big, sizes[i]);
        if (st == MUSEC_OK) st = ms_out_commit(&e, &out);
        ms_out_abandon(&out);
        CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0, "setrlimit");
        CHECK_FAILS(&e, st, MUSEC_EIO, "cannot write (File too large)");
        expect(path, "old");
        expect_no_parts();
    }
    signal(SIGXFSZ, SIG_DFL);
}

TEST(a_fifo_is_written_directly)
{
    const char *path    = tmp_path("fifo");
    char        got[16] = "";
    ms_error    e;
    struct stat sb;
    int         fd;

    CHECK(mkfifo(path, 0600) == 0, "mkfifo");
    fd = open(path, O_RDWR); /* with a reader, opening does not wait */
    CHECK(fd >= 0, "open");
    CHECK_OK_ERR(&e, write_text(&e, path, "abc"));
    CHECK(read(fd, got, sizeof got) == 3 && strcmp(got, "abc") == 0, "'%s'", got);
    close(fd);
    CHECK(lstat(path, &sb) == 0 && S_ISFIFO(sb.st_mode), "the fifo is still there");
    expect_no_parts();
}

/* The data must stand between what is printed before and after. */
TEST(stdout_redirected_to_a_file_is_appended_to)
{
    const char *path   = tmp_path("redirected.txt");
    int         status = -1;
    pid_t       child;

    if (access("/dev/stdout", F_OK) != 0) SKIP("no /dev/stdout here");
    put_text(path, "");
    child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        ms_error  e;
        const int fd = open(path, O_WRONLY);
        int       ok = fd >= 0 && dup2(fd, 1) == 1 && write(1, "before ", 7) == 7;
        ok           = ok && write_text(&e, "/dev/stdout", "data") == MUSEC_OK;
        ok           = ok && write(1, " after", 6) == 6;
        _exit(ok ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "child: %d", status);
    expect(path, "before data after");
}

TEST(files_are_read_and_errors_named)
{
    const char *path = tmp_path("read.txt");
    char        buf[8];
    ms_error    e;
    FILE       *f = NULL;

    put_text(path, "12345");
    CHECK_OK_ERR(&e, ms_file_open_read(&e, path, &f));
    CHECK(ms_file_bytes(f) == 5, "%lld", (long long)ms_file_bytes(f));
    CHECK_OK_ERR(&e, ms_file_read(&e, f, path, buf, 3));
    CHECK_OK_ERR(&e, ms_file_read(&e, f, path, NULL, 0));
    CHECK_FAILS(&e, ms_file_read(&e, f, path, buf, 3), MUSEC_EFORMAT,
                "3 bytes are needed here, 2 are left");
    fclose(f);
    CHECK(ms_file_open_read(&e, tmp_path("missing"), &f) == MUSEC_EIO && f == NULL, "missing");
    CHECK(strstr(e.text, "missing: cannot open for reading (No such file") != NULL, "%s", e.text);
    CHECK(ms_file_open_read(&e, check_tmp_dir(), &f) == MUSEC_EIO && f == NULL, "directory");
    CHECK(strstr(e.text, "Is a directory") != NULL, "%s", e.text);
    CHECK_OK_ERR(&e, ms_file_open_read(&e, "/dev/null", &f));
    CHECK(ms_file_bytes(f) == -1, "a device has no size");
    fclose(f);
}

TEST(texts_are_read_up_to_a_limit)
{
    const char *path = tmp_path("whole.txt");
    char       *text = NULL;
    size_t      n    = 0;
    ms_error    e;

    put_text(path, "12345");
    CHECK_OK_ERR(&e, ms_file_text(&e, path, 5, &text, &n));
    CHECK(n == 5 && strcmp(text, "12345") == 0, "%zu bytes: %s", n, text);
    free(text);
    CHECK(ms_file_text(&e, path, 4, &text, &n) == MUSEC_EFORMAT && text == NULL && n == 0, "5 > 4");
    CHECK(strstr(e.text, "at most 4 bytes") != NULL, "%s", e.text);
    CHECK(ms_file_text(&e, "/dev/null", 4, &text, &n) == MUSEC_EFORMAT && text == NULL, "device");
    CHECK(ms_file_text(&e, tmp_path("missing"), 4, &text, &n) == MUSEC_EIO && text == NULL,
          "missing");
}

TEST(paths_of_the_same_file_are_recognized)
{
    const char *dotted = tmp_path("./one");
    char        up[600];

    put_text(tmp_path("one"), "1");
    put_text(tmp_path("two"), "2");
    snprintf(up, sizeof up, "%s/../%s/new", check_tmp_dir(), strrchr(check_tmp_dir(), '/') + 1);
    CHECK(ms_path_same(tmp_path("one"), dotted), "%s", dotted);
    CHECK(!ms_path_same(tmp_path("one"), tmp_path("two")), "two files");
    CHECK(symlink("one", tmp_path("link")) == 0 && ms_path_same(tmp_path("link"), tmp_path("one")),
          "a link");
    CHECK(link(tmp_path("one"), tmp_path("hard")) == 0 &&
              ms_path_same(tmp_path("hard"), tmp_path("one")),
          "another name");
    /* not there yet */
    CHECK(ms_path_same(tmp_path("new"), up), "%s", up);
    CHECK(!ms_path_same(tmp_path("new"), tmp_path("newer")), "two names");
    CHECK(!ms_path_same(tmp_path("new"), tmp_path("one")), "only one is there");
    CHECK(ms_path_same("no/such/dir", "no/such/dir"), "no directory");
    CHECK(ms_path_same("name", "./name"), "no directory named");
    CHECK(!ms_path_same("/dev/null", "/dev/null"), "nothing is lost there");
}
