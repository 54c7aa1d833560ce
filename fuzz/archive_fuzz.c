/* archive_fuzz.c - any bytes as an archive of runs, packed or not; and the same bytes once more
 * with the checksums that the headers of a tar file have, which no mutation finds.
 *
 * What is unpacked lies below its directory, in files that are named as those of a run, and nothing
 * beside it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "experiment/archive.h"
#include "fuzz.h"

enum { BLOCK = 512, SIZE_AT = 124, SIZE_BYTES = 12, SUM_AT = 148, SUM_BYTES = 8 };

static musec_status visit(ms_error *e, void *arg, const ms_walk_entry *entry, bool *enter)
{
    const char *name = ms_path_name(entry->path);
    (void)e, (void)arg;
    REQUIRE(entry->info != NULL);
    if (*enter) return MUSEC_OK;
    REQUIRE(S_ISREG(entry->info->st_mode) && entry->info->st_size <= MS_ARCHIVE_MEMBER);
    REQUIRE(strcmp(name, "config.json") == 0 || strcmp(name, "log.jsonl") == 0 ||
            strcmp(name, "summary.json") == 0);
    return MUSEC_OK;
}

static void unpack(const uint8_t *data, size_t size)
{
    ms_error    e    = { "" };
    const char *path = fuzz_file("in.tar", data, size), *dir = fuzz_path("to");
    char        above[MS_PATH_MAX];
    ms_names    names = { 0 };

    REQUIRE(mkdir(dir, 0777) == 0);
    (void)fuzz_ok(ms_archive_unpack(&e, path, dir), &e);
    REQUIRE(fuzz_ok(ms_directory_walk(&e, dir, visit, NULL), &e));
    ms_path_directory(dir, above);
    REQUIRE(fuzz_ok(ms_directory_names(&e, above, &names), &e));
    REQUIRE(names.n == 2 && strcmp(names.at[0], "in.tar") == 0 && strcmp(names.at[1], "to") == 0);
    ms_names_free(&names);
    REQUIRE(fuzz_ok(ms_directory_remove(&e, dir), &e));
}

static void repair(uint8_t *header)
{
    char     text[SUM_BYTES];
    unsigned sum = 0;
    memset(header + SUM_AT, ' ', SUM_BYTES);
    for (size_t i = 0; i < BLOCK; i++)
        sum += header[i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(header + SUM_AT, text, sizeof text - 1);
}

/* Repairs what are headers by the sizes of the members before them; a size that is none is 0. */
static void repair_all(uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= BLOCK;) {
        char digits[SIZE_BYTES + 1] = "";
        memcpy(digits, data + at + SIZE_AT, SIZE_BYTES);
        const size_t bytes = strtoul(digits, NULL, 8);
        if (data[at] != 0) repair(data + at);
        at += BLOCK;
        if (bytes > size - at) return;
        at += bytes;
        if (at % BLOCK != 0) at += BLOCK - at % BLOCK;
        if (at > size) return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *repaired = malloc(size + 1);

    unpack(data, size);
    REQUIRE(repaired != NULL);
    if (size > 0) memcpy(repaired, data, size);
    repair_all(repaired, size);
    unpack(repaired, size);
    free(repaired);
    return 0;
}
