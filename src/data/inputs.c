/* inputs.c - walking directories for files that can be read as documents. */
#define _POSIX_C_SOURCE 200809L
#include "data/inputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "core/file.h"
#include "core/grow.h"
#include "data/unpack.h"

enum { MAX_DEPTH = 100 }; /* of directories */

static const struct {
    const char *suffix;
    bool        json;
} suffixes[] = { { ".jsonl", true }, { ".ndjson", true }, { ".json", true }, { ".txt", false } };

/* Is it the name of documents?  *json tells whether of JSON lines. */
static bool is_known(const char *path, bool *json)
{
    const char  *packed = ms_unpack_suffix(path);
    const size_t n      = packed != NULL ? (size_t)(packed - path) : strlen(path);

    *json = false;
    for (size_t i = 0; i < COUNT(suffixes); i++) {
        const size_t bytes = strlen(suffixes[i].suffix);
        if (n < bytes || memcmp(path + n - bytes, suffixes[i].suffix, bytes) != 0) continue;
        *json = suffixes[i].json;
        return true;
    }
    return false;
}

static musec_status add(ms_error *e, ms_inputs *in, const char *path, const struct stat *sb)
{
    const bool regular = sb != NULL && S_ISREG(sb->st_mode);
    ms_input   one     = { .bytes = -1 };
    ms_input  *more    = ms_grow(in->at, in->n, &in->capacity, sizeof *more);

    if (more != NULL) in->at = more;
    one.named = is_known(path, &one.json);
    if (regular) {
        one.bytes    = (int64_t)sb->st_size;
        one.mtime_ns = (int64_t)sb->st_mtim.tv_sec * 1000000000 + sb->st_mtim.tv_nsec;
    }
    one.path = more == NULL ? NULL : strdup(path);
    if (one.path == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    in->at[in->n++] = one;
    return MUSEC_OK;
}

/* ---- directories ----------------------------------------------------------------------------- */

static musec_status visit(ms_error *e, void *arg, const ms_walk_entry *entry, bool *enter)
{
    const struct stat *info = entry->info;
    bool               json;
    const bool         known = is_known(entry->path, &json);

    if (info == NULL && known) /* broken links of other names are ignored */
        return ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", entry->path, strerror(errno));
    if (entry->loop) /* the walk would never end */
        return ms_fail(e, MUSEC_EIO,
                       "%s: leads back to a directory above it; remove the link, or name what is "
                       "to be read",
                       entry->path);
    if (*enter && entry->depth == MAX_DEPTH)
        return ms_fail(e, MUSEC_EIO, "%s: too deep: %d directories above it", entry->path,
                       MAX_DEPTH);
    return known && info != NULL && S_ISREG(info->st_mode) ? add(e, arg, entry->path, info)
                                                           : MUSEC_OK;
}

/* ---- all paths ------------------------------------------------------------------------------- */

static musec_status add_directory(ms_error *e, ms_inputs *in, const char *path)
{
    const size_t before = in->n;
    char         plain[MS_PATH_MAX];
    size_t       n = strlen(path);
    musec_status st;

    while (n > 1 && path[n - 1] == '/') /* for the paths of the files in it */
        n--;
    if (n >= sizeof plain) return ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", path);
    memcpy(plain, path, n);
    plain[n] = '\0';
    TRY(ms_directory_walk(e, plain, visit, in));
    if (in->n == before)
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: has no file called *.txt, *.jsonl, *.ndjson or *.json, packed (.gz, .zst, "
                    ".xz) or not; name the files themselves",
                    path));
done:
    return st;
}

musec_status ms_inputs_find(ms_error *e, const char *const *paths, size_t n, ms_inputs *out)
{
    bool         has_stdin = false;
    musec_status st        = MUSEC_OK;

    *out = (ms_inputs){ 0 };
    if (n == 0) return ms_fail(e, MUSEC_EINVAL, "nothing to read: give files or directories");
    for (size_t i = 0; i < n; i++) {
        struct stat sb;
        if (strcmp(paths[i], "-") == 0) {
            if (has_stdin) TRY(ms_fail(e, MUSEC_EINVAL, "-: stdin can be read only once"));
            has_stdin = true;
            TRY(add(e, out, paths[i], NULL));
            continue;
        }
        if (stat(paths[i], &sb) != 0)
            TRY(ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", paths[i], strerror(errno)));
        TRY(S_ISDIR(sb.st_mode) ? add_directory(e, out, paths[i]) : add(e, out, paths[i], &sb));
    }
done:
    if (st != MUSEC_OK) ms_inputs_free(out);
    return st;
}

void ms_inputs_free(ms_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++)
        free(inputs->at[i].path);
    free(inputs->at);
    *inputs = (ms_inputs){ 0 };
}
