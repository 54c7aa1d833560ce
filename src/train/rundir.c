/* rundir.c - helpful messages for paths that are not run directories.
 *
 * A run directory holds config.json.  Users also give a misspelt name, a directory of runs, a
 * sweep, a checkpoint, or a file inside a run. */
#define _POSIX_C_SOURCE 200809L /* stat */
#include "train/rundir.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "core/file.h"
#include "core/names.h"

enum { SHOWN = 3, MAX_RUNS = 256, LIST_TEXT = 512 };

static const char default_dir[] = "runs"; /* where musec train creates runs */

bool ms_rundir_has(const char *dir, const char *name)
{
    char        path[MS_PATH_MAX];
    struct stat sb;
    return ms_path_join(NULL, dir, name, path) == MUSEC_OK && stat(path, &sb) == 0;
}

static bool is_run(const char *dir) { return ms_rundir_has(dir, "config.json"); }

/* The parent directory of `path`, "." for a bare name; false for the root. */
static bool parent_of(const char *path, char out[MS_PATH_MAX])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n == 1 && path[0] == '/' && strspn(path, "/") == strlen(path)) return false;
    snprintf(out, MS_PATH_MAX, "%.*s", n == 0 ? 1 : (int)n, n == 0 ? "." : path);
    return true;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* The runs in a directory. */
typedef struct nearby_runs {
    char   list[LIST_TEXT];   /* "runs/a, runs/b, runs/c and 4 more" */
    char   near[MS_PATH_MAX]; /* the one with the most similar name, or "" */
    size_t n;
} nearby_runs;

/* "dir/name", or just the name in the working directory. */
static bool path_in(const char *dir, const char *name, char out[MS_PATH_MAX])
{
    const size_t n     = strlen(dir);
    const bool   here  = strcmp(dir, ".") == 0;
    const char  *slash = n > 0 && dir[n - 1] == '/' ? "" : "/";
    return snprintf(out, MS_PATH_MAX, "%s%s%s", here ? "" : dir, here ? "" : slash, name) <
           MS_PATH_MAX;
}

static void list_runs(const char *dir, const char *name, nearby_runs *out)
{
    ms_names    names = { 0 };
    const char *runs[MAX_RUNS], *near;
    ms_error    ignored;
    size_t      used = 0;

    *out = (nearby_runs){ 0 };
    if (ms_directory_names(&ignored, dir, &names) != MUSEC_OK) return;
    for (size_t i = 0; i < names.n && out->n < MAX_RUNS; i++) {
        char path[MS_PATH_MAX];
        if (!path_in(dir, names.at[i], path) || !is_run(path)) continue;
        if (!ms_rundir_has(path, "log.jsonl"))
            continue; /* other programs write a config.json too */
        if (out->n < SHOWN && used < sizeof out->list)
            used += (size_t)snprintf(out->list + used, sizeof out->list - used, "%s%s",
                                     out->n == 0 ? "" : ", ", path);
        runs[out->n++] = names.at[i];
    }
    if (out->n > SHOWN && used < sizeof out->list)
        snprintf(out->list + used, sizeof out->list - used, " and %zu more", out->n - SHOWN);
    near = name == NULL ? NULL : ms_name_nearest(name, runs, out->n);
    if (near != NULL && !path_in(dir, near, out->near)) out->near[0] = '\0';
    ms_names_free(&names);
}

static musec_status not_there(ms_error *e, const char *path)
{
    char        dir[MS_PATH_MAX];
    nearby_runs around = { 0 };

    if (parent_of(path, dir)) list_runs(dir, base_name(path), &around);
    if (around.n == 0) list_runs(default_dir, base_name(path), &around);
    if (around.near[0] != '\0')
        return ms_fail(e, MUSEC_EIO, "%s: there is no such directory; did you mean %s?", path,
                       around.near);
    if (around.n > 0)
        return ms_fail(e, MUSEC_EIO, "%s: there is no such directory; the runs nearby are %s", path,
                       around.list);
    return ms_fail(e, MUSEC_EIO,
                   "%s: there is no such directory; give the directory of a run, which musec train "
                   "--out made",
                   path);
}

/* Finds the run that contains a file or directory, up to three levels above it. */
static bool find_above(const char *path, char run[MS_PATH_MAX])
{
    char at[MS_PATH_MAX];
    snprintf(at, sizeof at, "%s", path);
    for (int level = 0; level < 3; level++) {
        if (!parent_of(at, run) || strcmp(run, at) == 0) return false;
        if (is_run(run)) return true;
        snprintf(at, sizeof at, "%s", run);
    }
    return false;
}

musec_status ms_rundir_check(ms_error *e, const char *path)
{
    static const char contents[] = "a run directory has config.json, log.jsonl and checkpoint/";
    char              run[MS_PATH_MAX];
    nearby_runs       inside;
    struct stat       sb;

    if (stat(path, &sb) != 0 && errno == ENOENT) return not_there(e, path);
    if (is_run(path)) return MUSEC_OK;
    if (find_above(path, run))
        return ms_fail(e, MUSEC_EFORMAT, "%s: is not a run, but inside one; did you mean %s?", path,
                       run);
    list_runs(path, NULL, &inside);
    if (ms_rundir_has(path, "sweep.json"))
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is a sweep, not a run: the musec sweep command that made it goes on "
                       "with it%s%s",
                       path, inside.n > 0 ? "; its runs are " : "", inside.list);
    if (inside.n > 0)
        return ms_fail(e, MUSEC_EFORMAT, "%s: is a directory of runs, not a run; give one: %s",
                       path, inside.list);
    if (path_in(path, default_dir, run)) list_runs(run, NULL, &inside);
    return ms_fail(e, MUSEC_EFORMAT, "%s: is no run: %s%s%s", path, contents,
                   inside.n > 0 ? "; the runs nearby are " : "", inside.list);
}
