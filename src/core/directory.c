/* directory.c - what is in a directory. */
#define _XOPEN_SOURCE 700 /* strdup, nftw */
#include "core/directory.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"

static bool add(ms_names *list, const char *name)
{
    char **more = ms_grow(list->at, list->n, &list->room, sizeof *more);

    if (more == NULL) return false;
    list->at          = more;
    list->at[list->n] = strdup(name);
    return list->at[list->n] != NULL && ++list->n > 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

musec_status ms_directory_names(ms_error *e, const char *path, ms_names *out)
{
    DIR           *dir = opendir(path);
    struct dirent *entry;
    musec_status   st = MUSEC_OK;

    if (dir == NULL)
        return ms_fail(e, MUSEC_EIO, "%s: cannot list the directory (%s)", path, strerror(errno));
    for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0) {
        if (entry->d_name[0] == '.' || add(out, entry->d_name)) continue;
        st = ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to list it", path);
        goto done;
    }
    if (errno != 0)
        st = ms_fail(e, MUSEC_EIO, "%s: cannot list the directory (%s)", path, strerror(errno));
    if (out->n > 1) qsort(out->at, out->n, sizeof *out->at, by_bytes);
done:
    closedir(dir);
    return st;
}

void ms_names_free(ms_names *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->at[i]);
    free(list->at);
    *list = (ms_names){ 0 };
}

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *at)
{
    (void)sb, (void)type, (void)at;
    return remove(path);
}

musec_status ms_directory_remove(ms_error *e, const char *path)
{
    enum { MAX_OPEN = 8 };
    if (nftw(path, remove_one, MAX_OPEN, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
        return MUSEC_OK;
    return ms_fail(e, MUSEC_EIO, "%s: cannot remove (%s)", path, strerror(errno));
}
