/* directory.c - the names in a directory. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "core/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool add(ms_names *list, const char *name)
{
    if (list->n == list->room) {
        const size_t room = list->room == 0 ? 64 : 2 * list->room;
        char       **more = realloc(list->at, room * sizeof *more);
        if (more == NULL) return false;
        list->at   = more;
        list->room = room;
    }
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
