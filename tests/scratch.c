/* scratch.c - see scratch.h. */
#define _XOPEN_SOURCE 700
#include "scratch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"

const char *path_in(const char *dir, const char *name)
{
    static char path[32][1024];
    static int  turn = 0;
    turn             = (turn + 1) % 32;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

const char *tmp_path(const char *name) { return path_in(check_tmp_dir(), name); }

const char *fresh_dir(void)
{
    static char path[256];
    static int  number = 0;
    snprintf(path, sizeof path, "%s/%d", check_tmp_dir(), number++);
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
