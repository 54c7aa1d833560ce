/* fuzz.c - scratch files and checks of the fuzz targets.
 *
 * Files are written below $TMPDIR, else in /dev/shm, which uses no disk. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/directory.h"
#include "core/file.h"

enum { PATHS = 8 };

static char directory[256];

_Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

bool fuzz_ok(musec_status st, const ms_error *e)
{
    if (st == MUSEC_OK) return true;
    if (st == MUSEC_ENOMEM || e->text[0] == '\0') fprintf(stderr, "status %d: %s\n", st, e->text);
    REQUIRE(st != MUSEC_ENOMEM);
    REQUIRE(e->text[0] != '\0');
    return false;
}

unsigned fuzz_take(const uint8_t **data, size_t *size)
{
    if (*size == 0) return 0;
    --*size;
    return *(*data)++;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void remove_directory(void) { (void)ms_directory_remove(NULL, directory); }

static void make_directory(void)
{
    const char *below = getenv("TMPDIR");
    int         n;

    if (below == NULL || below[0] == '\0')
        below = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    n = snprintf(directory, sizeof directory, "%s/musec-fuzz.XXXXXX", below);
    REQUIRE(n > 0 && (size_t)n < sizeof directory);
    REQUIRE(mkdtemp(directory) != NULL);
    REQUIRE(atexit(remove_directory) == 0);
}

const char *fuzz_path(const char *name)
{
    static char path[PATHS][MS_PATH_MAX];
    static int  turn;

    if (directory[0] == '\0') make_directory();
    turn = (turn + 1) % PATHS;
    REQUIRE(ms_path_join(NULL, directory, name, path[turn]) == MUSEC_OK);
    return path[turn];
}

const char *fuzz_file(const char *name, const void *data, size_t size)
{
    const char *path = fuzz_path(name);
    FILE       *f    = fopen(path, "wb");

    REQUIRE(f != NULL);
    REQUIRE(size == 0 || fwrite(data, 1, size, f) == size);
    REQUIRE(fclose(f) == 0);
    return path;
}

size_t fuzz_array_bytes(const ms_npy *a)
{
    size_t n = a->dtype == MUSEC_F64 ? 8 : 4;
    for (int i = 0; i < a->ndim; i++)
        n *= (size_t)a->shape[i];
    return n;
}

uint64_t fuzz_hash(uint64_t hash, const void *data, size_t size) /* FNV-1a, and the length */
{
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 0x100000001B3u;
    return (hash ^ size) * 0x100000001B3u;
}
