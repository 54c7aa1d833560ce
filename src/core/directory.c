/* directory.c - listing, walking and removing directories. */
#define _XOPEN_SOURCE 700 /* strdup, nftw */
#include "core/directory.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/grow.h"

static bool add(ms_names *list, const char *name)
{
    char **more = ms_grow(list->at, list->n, &list->capacity, sizeof *more);

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

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct walk_level { /* a directory on the way down */
    const struct walk_level *above;
    struct stat              info;
    int                      depth;
} walk_level;

static bool is_above(const walk_level *at, const struct stat *info)
{
    for (; at != NULL; at = at->above)
        if (at->info.st_dev == info->st_dev && at->info.st_ino == info->st_ino) return true;
    return false;
}

static musec_status walk_from(ms_error *e, const char *path, const walk_level *above,
                              ms_walk_visit *visit, void *arg)
{
    walk_level here  = { .above = above, .depth = above == NULL ? 0 : above->depth + 1 };
    const bool there = stat(path, &here.info) == 0, directory = there && S_ISDIR(here.info.st_mode);
    ms_walk_entry entry = { .path  = path,
                            .info  = there ? &here.info : NULL,
                            .depth = here.depth,
                            .loop  = directory && is_above(above, &here.info) };
    bool          enter = directory && !entry.loop;
    ms_names      names = { 0 };
    char          below[MS_PATH_MAX];
    musec_status  st;

    TRY(visit(e, arg, &entry, &enter));
    if (!enter) goto done;
    TRY(ms_directory_names(e, path, &names));
    for (size_t i = 0; i < names.n; i++) {
        TRY(ms_path_join(e, path, names.at[i], below));
        TRY(walk_from(e, below, &here, visit, arg));
    }
done:
    ms_names_free(&names);
    return st;
}

musec_status ms_directory_walk(ms_error *e, const char *path, ms_walk_visit *visit, void *arg)
{
    return walk_from(e, path, NULL, visit, arg);
}

/* ---- removing -------------------------------------------------------------------------------- */

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
