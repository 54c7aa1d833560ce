/* checkpoint_find.c - finds the checkpoint that a user means by a path and a step. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "train/checkpoint.h"
#include "train/rundir.h"

enum { MAX_LISTED = 12 }; /* steps that a message names */

/* Lists the steps with a checkpoint, "20, 40, 60", the oldest ones if there are many. */
static void list_steps(const char *root, char *text, size_t bytes)
{
    ms_names names = { 0 };
    size_t   used = 0, n = 0;

    text[0] = '\0';
    if (ms_directory_names(NULL, root, &names) != MUSEC_OK) return;
    for (size_t i = 0; i < names.n && n <= MAX_LISTED && used < bytes; i++) {
        char           *end = NULL;
        const long long step =
            strncmp(names.at[i], "step_", 5) == 0 ? strtoll(names.at[i] + 5, &end, 10) : 0;
        if (end == NULL || *end != '\0' || end == names.at[i] + 5) continue;
        if (n++ == MAX_LISTED)
            used += (size_t)snprintf(text + used, bytes - used, ", ...");
        else
            used += (size_t)snprintf(text + used, bytes - used, "%s%lld", n == 1 ? "" : ", ", step);
    }
    ms_names_free(&names);
}

static musec_status open_step(ms_error *e, const char *path, int64_t step, ms_checkpoint *out)
{
    char         root[MS_PATH_MAX], name[32], dir[MS_PATH_MAX], steps[256];
    struct stat  info;
    musec_status st;

    snprintf(name, sizeof name, "step_%08lld", (long long)step);
    TRY(ms_path_join(e, path, "checkpoint", root));
    TRY(ms_path_join(e, root, name, dir));
    if (stat(dir, &info) == 0) return ms_checkpoint_open(e, dir, out);
    list_steps(root, steps, sizeof steps);
    st = ms_fail(e, MUSEC_EINVAL, "%s: there is no checkpoint of step %lld%s%s", path,
                 (long long)step, steps[0] != '\0' ? "; there are those of steps " : "", steps);
done:
    return st;
}

musec_status ms_checkpoint_find(ms_error *e, const char *path, int64_t step, ms_checkpoint *out,
                                char *warning)
{
    char         inside[MS_PATH_MAX];
    struct stat  info;
    ms_error     other = { "" };
    musec_status st;

    *out       = (ms_checkpoint){ .step = -1 };
    warning[0] = '\0';
    TRY(ms_path_join(e, path, "state.json", inside));
    if (stat(inside, &info) == 0) {
        TRY(ms_checkpoint_open(e, path, out));
        if (step < 0 || step == out->step) return MUSEC_OK;
        st = ms_fail(e, MUSEC_EINVAL, "%s: is the checkpoint of step %lld, not of %lld", path,
                     (long long)out->step, (long long)step);
        ms_checkpoint_close(out);
        return st;
    }
    if (step >= 0) return open_step(e, path, step, out);
    st = ms_checkpoint_newest(e, path, NULL, out, warning);
    if (st == MUSEC_OK && out->step >= 0) goto done;
    if (ms_rundir_check(&other, path) != MUSEC_OK) /* the better message */
        st = ms_fail(e, MUSEC_EINVAL, "%s", other.text);
    else if (st == MUSEC_OK)
        st = ms_fail(e, MUSEC_EINVAL,
                     "%s: there is no checkpoint in this run; train writes one at its end, sweep "
                     "keeps them with --keep-checkpoints",
                     path);
done:
    return st;
}
