/* scratch.c - see scratch.h. */
#define _XOPEN_SOURCE 700
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"

typedef struct kept_path { /* in a list of all paths, so that none is leaked memory */
    struct kept_path *before;
    char              text[];
} kept_path;

const char *path_in(const char *dir, const char *name)
{
    static kept_path *last;
    const size_t      bytes = strlen(dir) + strlen(name) + 2;
    kept_path        *path  = malloc(sizeof *path + bytes);
    CHECK(path != NULL, "memory");
    snprintf(path->text, bytes, "%s/%s", dir, name);
    path->before = last;
    last         = path;
    return path->text;
}

const char *tmp_path(const char *name) { return path_in(check_tmp_dir(), name); }

const char *fresh_dir(void)
{
    static int  number = 0;
    char        name[16];
    const char *path;
    snprintf(name, sizeof name, "%d", number++);
    path = tmp_path(name);
    CHECK(mkdir(path, 0777) == 0, "%s", path);
    return path;
}

void get_file(const char *path, blob *b)
{
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL, "%s", path);
    b->n = fread(b->p, 1, sizeof b->p, f);
    CHECK(b->n < sizeof b->p && fclose(f) == 0, "%s", path);
}

void put_file(const char *path, const void *p, size_t n)
{
    FILE *f;
    remove(path); /* some file systems wait for the disk when a file is overwritten */
    f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(p, 1, n, f) == n && fclose(f) == 0, "%s", path);
}

void put_text(const char *path, const char *text) { put_file(path, text, strlen(text)); }
