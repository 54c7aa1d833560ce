/* replay.c - runs a fuzz target on files, without libFuzzer: X_replay FILE or DIRECTORY...
 *
 * Every seed is read into memory of exactly its size, so that AddressSanitizer sees a byte too
 * many. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/file.h"
#include "fuzz.h"

static int run_file(const char *path)
{
    FILE    *f     = NULL;
    ms_error e     = { "" };
    uint8_t *data  = NULL;
    int64_t  bytes = -1;
    bool     read;

    if (ms_file_open_read(&e, path, &f) == MUSEC_OK) bytes = ms_file_bytes(f);
    if (bytes >= 0) data = malloc(bytes == 0 ? 1 : (size_t)bytes);
    read = data != NULL && ms_file_read(&e, f, path, data, (size_t)bytes) == MUSEC_OK;
    if (read) {
        fprintf(stderr, "%s\n", path); /* the last one named is the one that fails */
        (void)LLVMFuzzerTestOneInput(data, (size_t)bytes);
    } else {
        fprintf(stderr, "%s: cannot be read: %s\n", path, e.text);
    }
    free(data);
    if (f != NULL) fclose(f);
    return read ? 1 : -1;
}

/* Returns how many files were run, or -1. */
static int run(const char *path)
{
    DIR           *dir = opendir(path);
    struct dirent *entry;
    int            n = 0;

    if (dir == NULL) return run_file(path);
    while (n >= 0 && (entry = readdir(dir)) != NULL) {
        char file[MS_PATH_MAX];
        if (entry->d_name[0] == '.') continue;
        if (ms_path_join(NULL, path, entry->d_name, file) != MUSEC_OK || run_file(file) < 0)
            n = -1;
        else
            n++;
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        const int n = run(argv[i]);
        if (n < 0) return 1;
        total += n;
    }
    printf("%d files, no findings\n", total);
    return total > 0 ? 0 : 1; /* nothing run is nothing shown */
}
