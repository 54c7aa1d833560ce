/* record_calls.c - runs a program and records what it asks of the file system, for the replay of a
 * loss of power (replay_power).
 *
 *     record_calls FILE PROGRAM... : FILE gets one record for each call, before it is made:
 *
 *         CALL \t PATH \t OTHER PATH \t NUMBER \t LENGTH \n, and LENGTH bytes that are written
 *
 *     create  a file is opened so that it is made if it is not there; number 1: and made empty
 *     write   number: the offset, -1 for the end of the file
 *     size    number: the new size
 *     sync, rename, mkdir, unlink, rmdir
 *
 * Paths are absolute.  Exits as the program does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervise.h"

typedef struct recorder {
    FILE    *to;
    unsigned pid; /* of the call */
} recorder;

static const char *const kinds[] = { "open",  "openat",    "write",  "pwrite64", "ftruncate",
                                     "fsync", "fdatasync", "rename", "renameat", "renameat2",
                                     "mkdir", "mkdirat",   "unlink", "unlinkat", "rmdir" };

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "record_calls: %s (%s)\n", what, strerror(errno));
    exit(125);
}

/* ---- what stands in the other process -------------------------------------------------------- */

static void read_memory(const recorder *r, uint64_t at, void *to, size_t bytes)
{
    char   path[64];
    int    fd;
    size_t got = 0;
    snprintf(path, sizeof path, "/proc/%u/mem", r->pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) give_up(path);
    while (got < bytes) {
        const ssize_t n = pread(fd, (char *)to + got, bytes - got, (off_t)(at + got));
        if (n <= 0) give_up("cannot read what is written");
        got += (size_t)n;
    }
    close(fd);
}

/* Reads a text that ends with a zero, which may be near the end of a page. */
static void read_text(const recorder *r, uint64_t at, char text[PATH_MAX])
{
    for (size_t i = 0; i < PATH_MAX; i++) {
        read_memory(r, at + i, text + i, 1);
        if (text[i] == '\0') return;
    }
    give_up("a path without an end");
}

static void read_link(char out[PATH_MAX], const char *fmt, ...)
{
    char    path[64];
    va_list args;
    ssize_t n;
    va_start(args, fmt);
    vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    n                  = readlink(path, out, PATH_MAX - 1);
    out[n < 0 ? 0 : n] = '\0';
}

/* The absolute path of a name that is relative to a directory of the process. */
static void find_path(const recorder *r, int dir, uint64_t at, char out[PATH_MAX])
{
    char name[PATH_MAX], base[PATH_MAX];
    read_text(r, at, name);
    if (name[0] == '/') {
        memcpy(out, name, PATH_MAX);
        return;
    }
    if (dir == AT_FDCWD)
        read_link(base, "/proc/%u/cwd", r->pid);
    else
        read_link(base, "/proc/%u/fd/%d", r->pid, dir);
    if ((size_t)snprintf(out, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) give_up("a long path");
}

/* ---- records --------------------------------------------------------------------------------- */

static void put(recorder *r, const char *call, const char *path, const char *other, int64_t number,
                const void *data, size_t bytes)
{
    fprintf(r->to, "%s\t%s\t%s\t%" PRId64 "\t%zu\n", call, path, other, number, bytes);
    if (bytes > 0 && fwrite(data, 1, bytes, r->to) != bytes) give_up("cannot write the record");
}

static void put_write(recorder *r, int fd, uint64_t at, size_t bytes, int64_t offset)
{
    char      path[PATH_MAX], info[64], line[128];
    long long pos = 0, flags = 0;
    void     *data = malloc(bytes > 0 ? bytes : 1);
    FILE     *f;

    read_link(path, "/proc/%u/fd/%d", r->pid, fd);
    snprintf(info, sizeof info, "/proc/%u/fdinfo/%d", r->pid, fd);
    f = fopen(info, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        (void)sscanf(line, "pos: %lld", &pos);
        (void)sscanf(line, "flags: %llo", (unsigned long long *)&flags);
    }
    if (f != NULL) fclose(f);
    if (data == NULL) give_up("no memory");
    if (path[0] == '/') {
        read_memory(r, at, data, bytes);
        if (offset < 0) offset = (flags & O_APPEND) != 0 ? -1 : pos;
        put(r, "write", path, "", offset, data, bytes);
    }
    free(data);
}

static void put_open(recorder *r, int dir, uint64_t at, uint64_t flags)
{
    char path[PATH_MAX];
    if ((flags & (O_CREAT | O_TRUNC)) == 0) return;
    find_path(r, dir, at, path);
    put(r, "create", path, "", (flags & O_TRUNC) != 0, NULL, 0);
}

static void put_fd(recorder *r, const char *call, int fd, int64_t number)
{
    char path[PATH_MAX];
    read_link(path, "/proc/%u/fd/%d", r->pid, fd);
    put(r, call, path, "", number, NULL, 0);
}

static void put_path(recorder *r, const char *call, int dir, uint64_t at)
{
    char path[PATH_MAX];
    find_path(r, dir, at, path);
    put(r, call, path, "", 0, NULL, 0);
}

static void put_rename(recorder *r, int dir, uint64_t from, int other_dir, uint64_t to)
{
    char a[PATH_MAX], b[PATH_MAX];
    find_path(r, dir, from, a);
    find_path(r, other_dir, to, b);
    put(r, "rename", a, b, 0, NULL, 0);
}

static int decide(void *arg, const struct seccomp_notif *call)
{
    recorder       *r    = arg;
    const char     *name = supervised_name(call->data.nr);
    const uint64_t *a    = (const uint64_t *)call->data.args;

    r->pid = call->pid;
    if (strcmp(name, "open") == 0) put_open(r, AT_FDCWD, a[0], a[1]);
    if (strcmp(name, "openat") == 0) put_open(r, (int)a[0], a[1], a[2]);
    if (strcmp(name, "write") == 0) put_write(r, (int)a[0], a[1], a[2], -1);
    if (strcmp(name, "pwrite64") == 0) put_write(r, (int)a[0], a[1], a[2], (int64_t)a[3]);
    if (strcmp(name, "ftruncate") == 0) put_fd(r, "size", (int)a[0], (int64_t)a[1]);
    if (strcmp(name, "fsync") == 0 || strcmp(name, "fdatasync") == 0)
        put_fd(r, "sync", (int)a[0], 0);
    if (strcmp(name, "rename") == 0) put_rename(r, AT_FDCWD, a[0], AT_FDCWD, a[1]);
    if (strncmp(name, "renameat", 8) == 0) put_rename(r, (int)a[0], a[1], (int)a[2], a[3]);
    if (strcmp(name, "mkdir") == 0) put_path(r, "mkdir", AT_FDCWD, a[0]);
    if (strcmp(name, "mkdirat") == 0) put_path(r, "mkdir", (int)a[0], a[1]);
    if (strcmp(name, "unlink") == 0) put_path(r, "unlink", AT_FDCWD, a[0]);
    if (strcmp(name, "rmdir") == 0) put_path(r, "rmdir", AT_FDCWD, a[0]);
    if (strcmp(name, "unlinkat") == 0)
        put_path(r, (a[2] & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", (int)a[0], a[1]);
    return 0;
}

int main(int argc, char **argv)
{
    int      numbers[sizeof kinds / sizeof *kinds], code;
    size_t   n = 0;
    recorder r = { 0 };

    if (argc < 3) {
        fprintf(stderr, "usage: record_calls FILE PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    r.to = fopen(argv[1], "wb");
    if (r.to == NULL) give_up(argv[1]);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        numbers[n] = supervised_number(kinds[i]);
        n += numbers[n] >= 0;
    }
    code = supervise(argv + 2, numbers, n, decide, &r);
    if (fclose(r.to) != 0) give_up("cannot write the record");
    return code;
}
