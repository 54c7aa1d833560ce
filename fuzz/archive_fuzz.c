/* archive_fuzz.c - any bytes as an archive of runs, packed or not.
 *
 * What is unpacked lies below its directory, in files that are named as those of a run. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "experiment/archive.h"
#include "fuzz.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ms_error    e    = { "" };
    const char *path = fuzz_file("in.tar", data, size), *dir = fuzz_path("to");

    REQUIRE(mkdir(dir, 0777) == 0);
    (void)fuzz_ok(ms_archive_unpack(&e, path, dir), &e);
    REQUIRE(fuzz_ok(ms_directory_walk(&e, dir, visit, NULL), &e));
    REQUIRE(fuzz_ok(ms_directory_remove(&e, dir), &e));
    return 0;
}
