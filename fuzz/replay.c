/* replay.c - runs a fuzz target on files, without libFuzzer: X_replay FILE or DIRECTORY...
 *
 * Every seed is read into memory of exactly its size, so that AddressSanitizer sees overruns. */
#include <stdio.h>
#include <stdlib.h>

#include "core/directory.h"
#include "core/file.h"
#include "fuzz.h"

/* Runs the target on a file, and counts it in *arg. */
static musec_status run_file(ms_error *e, void *arg, const ms_walk_entry *entry, bool *enter)
{
    FILE        *f     = NULL;
    uint8_t     *data  = NULL;
    int64_t      bytes = 0;
    musec_status st    = MUSEC_OK;

    if (*enter) return MUSEC_OK;
    TRY(ms_file_open_read(e, entry->path, &f));
    bytes = ms_file_bytes(f);
    data  = bytes < 0 ? NULL : malloc(bytes == 0 ? 1 : (size_t)bytes);
    if (data == NULL) {
        st = ms_fail(e, MUSEC_EIO, "%s: it has no size, or is too large", entry->path);
        goto done;
    }
    TRY(ms_file_read(e, f, entry->path, data, (size_t)bytes));
    fprintf(stderr, "%s\n", entry->path); /* the last one named is the one that fails */
    (void)LLVMFuzzerTestOneInput(data, (size_t)bytes);
    ++*(int *)arg;
done:
    free(data);
    if (f != NULL) fclose(f);
    return st;
}

int main(int argc, char **argv)
{
    ms_error e     = { "" };
    int      total = 0;

    for (int i = 1; i < argc; i++)
        if (ms_directory_walk(&e, argv[i], run_file, &total) != MUSEC_OK) {
            fprintf(stderr, "%s\n", e.text);
            return 1;
        }
    printf("%d files, no findings\n", total);
    return total > 0 ? 0 : 1; /* no file is a failure */
}
