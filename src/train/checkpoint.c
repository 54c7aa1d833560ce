/* checkpoint.c - see checkpoint.h.
 *
 * DIR/checkpoint may hold, whenever a process was stopped:
 *     step_00000060           a checkpoint, complete since it got this name
 *     .step_00000060.part.7   being written, or being removed, by process 7
 *     .step_00000060.old.7    complete; process 7 was replacing it
 * The next write cleans up after processes that no longer exist: a part is removed, an old one gets
 * its name back unless its replacement is there.  Process ids say nothing about other machines; two
 * of them must not share a run directory anyway.
 *
 * state.json ends with its own checksum, the sha256 of all bytes before the digits:
 *     {"state": {...}, "files": {"model.safetensors": {"bytes": n, "sha256": "..."}, ...},
 *      "sha256": "..."}
 * It depends on the bytes alone, not on how a JSON library prints them, so
 *     head -c -68 state.json | sha256sum
 * gives it too. */
#define _XOPEN_SOURCE 700
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/directory.h"
#include "core/grow.h"
#include "core/json_file.h"
#include "core/seal.h"

#define STATE_MAX (64 << 20)

enum { WARNING_BYTES = 1024 };

static const char *const tensor_files[] = { "model.safetensors", "optim.safetensors" };

static musec_status io_failed(ms_error *e, const char *path, const char *what)
{
    const int   why  = errno;
    const char *hint = why == ENOSPC || why == EDQUOT ? "; free some space" : "";
    return ms_fail(e, MUSEC_EIO, "%s: cannot %s (%s)%s", path, what, strerror(why), hint);
}

static musec_status no_memory(ms_error *e, const char *path)
{
    return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef enum entry_kind { ENTRY_WHOLE, ENTRY_OLD, ENTRY_PART } entry_kind;

typedef struct checkpoint_entry {
    entry_kind kind;
    int64_t    step;
    long       pid; /* of a part or an old checkpoint */
    char       name[96];
} checkpoint_entry;

static const char *const kind_marks[] = { "", ".old.", ".part." };

static void make_name(checkpoint_entry *x, entry_kind kind, int64_t step, long pid)
{
    *x = (checkpoint_entry){ .kind = kind, .step = step, .pid = pid };
    if (kind == ENTRY_WHOLE)
        snprintf(x->name, sizeof x->name, "step_%08" PRId64, step);
    else
        snprintf(x->name, sizeof x->name, ".step_%08" PRId64 "%s%ld", step, kind_marks[kind], pid);
}

/* Writes the path of the entry of `root` that make_name would name. */
static musec_status entry_path(ms_error *e, const char *root, entry_kind kind, int64_t step,
                               char out[MS_PATH_MAX])
{
    checkpoint_entry x;
    make_name(&x, kind, step, (long)getpid());
    return ms_path_join(e, root, x.name, out);
}

/* The inverse of make_name; false for any other name. */
static bool parse_name(const char *name, checkpoint_entry *x)
{
    const char *p    = name + (name[0] == '.');
    char       *end  = NULL;
    long        pid  = 0;
    entry_kind  kind = ENTRY_WHOLE;
    long long   step;

    if (strncmp(p, "step_", 5) != 0 || p[5] < '0' || p[5] > '9') return false;
    step = strtoll(p + 5, &end, 10);
    for (entry_kind k = ENTRY_OLD; k <= ENTRY_PART; k++) {
        const size_t n = strlen(kind_marks[k]);
        if (name[0] != '.' || strncmp(end, kind_marks[k], n) != 0) continue;
        kind = k;
        pid  = strtol(end + n, &end, 10);
        if (pid <= 0) return false;
        break;
    }
    make_name(x, kind, (int64_t)step, pid);
    return strcmp(x->name, name) == 0; /* refuses numbers out of range */
}

static int newest_first(const void *a, const void *b)
{
    const checkpoint_entry *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? 1 : -1;
    return (int)x->kind - (int)y->kind;
}

/* Lists the entries of `root`, the newest first; none if there is no such directory. */
static musec_status list_entries(ms_error *e, const char *root, checkpoint_entry **out, size_t *n)
{
    DIR              *d        = NULL;
    checkpoint_entry *list     = NULL;
    size_t            capacity = 0;
    struct dirent    *item;
    musec_status      st = MUSEC_OK;

    *out = NULL;
    *n   = 0;
    d    = opendir(root);
    if (d == NULL) return errno == ENOENT ? MUSEC_OK : io_failed(e, root, "read the directory");
    while (errno = 0, (item = readdir(d)) != NULL) {
        checkpoint_entry x;
        if (!parse_name(item->d_name, &x)) continue;
        checkpoint_entry *more = ms_grow(list, *n, &capacity, sizeof *list);
        if (more == NULL) TRY(no_memory(e, root));
        list         = more;
        list[(*n)++] = x;
    }
    if (errno != 0) TRY(io_failed(e, root, "read the directory"));
    if (*n > 0) qsort(list, *n, sizeof *list, newest_first);
    *out = list;
    list = NULL;
done:
    free(list);
    closedir(d);
    return st;
}

/* ---- directories ----------------------------------------------------------------------------- */

static musec_status sync_path(ms_error *e, const char *path)
{
    const int    fd = open(path, O_RDONLY | O_CLOEXEC);
    musec_status st = MUSEC_OK;

    if (fd < 0) return io_failed(e, path, "open");
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) /* directories of some systems */
        st = io_failed(e, path, "write");
    close(fd);
    return st;
}

static bool has_ended(long pid)
{
    if (pid == (long)getpid()) return true; /* an earlier process with our id, or our own failure */
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Cleans up after processes that have ended.  What cannot be removed now is tried again later. */
static musec_status clean_up(ms_error *e, const char *root)
{
    checkpoint_entry *list = NULL;
    size_t            n    = 0;
    musec_status      st;

    TRY(list_entries(e, root, &list, &n));
    for (size_t i = 0; i < n; i++) {
        char path[MS_PATH_MAX], whole[MS_PATH_MAX];
        if (list[i].kind == ENTRY_WHOLE || !has_ended(list[i].pid)) continue;
        TRY(ms_path_join(e, root, list[i].name, path));
        TRY(entry_path(e, root, ENTRY_WHOLE, list[i].step, whole));
        if (list[i].kind == ENTRY_OLD && rename(path, whole) == 0) continue;
        (void)ms_directory_remove(NULL, path);
    }
done:
    free(list);
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes state.json of `part`: the state, the checksums of the files, and its own. */
static musec_status write_state(ms_error *e, const char *part, const json_t *state,
                                const json_t *files)
{
    char         path[MS_PATH_MAX], sum[MS_SHA256_HEX], blank[MS_SHA256_HEX];
    json_t      *root = NULL;
    char        *text = NULL;
    size_t       head;
    ms_out_file  out = { 0 };
    musec_status st;

    TRY(ms_path_join(e, part, "state.json", path));
    memset(blank, '0', MS_SEAL_DIGITS);
    blank[MS_SEAL_DIGITS] = '\0';
    root = json_pack("{s:O,s:O,s:s}", "state", state, "files", files, "sha256", blank);
    text = root == NULL ? NULL : ms_json_dump(root, 1);
    if (text == NULL) TRY(no_memory(e, path));
    head = strlen(text) - MS_SEAL_DIGITS -
           (MS_SEAL_TAIL_BYTES - 1); /* the dump has no newline at its end */
    ms_seal_make(text, head, sum);
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_write(e, &out, text, head));
    TRY(ms_out_write(e, &out, sum, MS_SEAL_DIGITS));
    TRY(ms_out_write(e, &out, MS_SEAL_TAIL, MS_SEAL_TAIL_BYTES));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    free(text);
    json_decref(root);
    return st;
}

/* The size and sha256 of a file. */
static musec_status measure(ms_error *e, const char *path, int64_t *bytes, char sum[MS_SHA256_HEX])
{
    struct stat sb;
    if (stat(path, &sb) != 0) return io_failed(e, path, "read");
    *bytes = (int64_t)sb.st_size;
    return ms_sha256_file(e, path, sum);
}

static musec_status read_state(ms_error *e, const char *path, json_t **out);

/* Reads what was written as a resumed run will read it, before it gets its name.  The checksums of
 * the tensor files were taken from the files just now. */
static musec_status read_back(ms_error *e, const char *part, ms_checkpoint_check *check)
{
    char          path[MS_PATH_MAX];
    json_t       *root = NULL;
    ms_checkpoint c    = { .step = -1 };
    musec_status  st;

    TRY(ms_path_join(e, part, "state.json", path));
    TRY(read_state(e, path, &root));
    snprintf(c.dir, sizeof c.dir, "%s", part);
    c.state = json_object_get(root, "state");
    c.step  = (int64_t)json_integer_value(json_object_get(c.state, "step"));
    if (check != NULL) TRY(check(e, &c));
done:
    json_decref(root);
    return st;
}

/* Writes all files of a checkpoint into the directory `part`, and syncs them. */
static musec_status write_files(ms_error *e, const char *part, const ms_checkpoint_writer *writer,
                                const json_t *state)
{
    json_t      *files = json_object();
    musec_status st    = files == NULL ? no_memory(e, part) : MUSEC_OK;

    for (size_t i = 0; st == MUSEC_OK && i < COUNT(tensor_files); i++) {
        char    path[MS_PATH_MAX], sum[MS_SHA256_HEX];
        int64_t bytes = 0;
        TRY(ms_path_join(e, part, tensor_files[i], path));
        TRY((i == 0 ? writer->model : writer->optim)(e, writer->arg, path));
        TRY(sync_path(e, path));
        TRY(measure(e, path, &bytes, sum));
        TRY(ms_json_put(e, files, tensor_files[i],
                        json_pack("{s:I,s:s}", "bytes", (json_int_t)bytes, "sha256", sum)));
    }
    if (st != MUSEC_OK) goto done;
    TRY(write_state(e, part, state, files));
    TRY(sync_path(e, part));
    TRY(read_back(e, part, writer->check));
done:
    json_decref(files);
    return st;
}

/* Gives `part` its final name.  A checkpoint of that name is renamed first: at every moment one of
 * the two is there and complete. */
static musec_status put_in_place(ms_error *e, const char *root, const char *part, int64_t step)
{
    char         whole[MS_PATH_MAX], old[MS_PATH_MAX];
    bool         replaced = false, in_place;
    musec_status st;

    TRY(entry_path(e, root, ENTRY_WHOLE, step, whole));
    TRY(entry_path(e, root, ENTRY_OLD, step, old));
    in_place = rename(part, whole) == 0;
    if (!in_place && (errno == ENOTEMPTY || errno == EEXIST)) {
        replaced = rename(whole, old) == 0;
        in_place = replaced && rename(part, whole) == 0;
    }
    if (!in_place) {
        st = io_failed(e, whole, "put the checkpoint in place");
        if (replaced) (void)rename(old, whole);
        goto done;
    }
    TRY(sync_path(e, root));
    if (replaced) TRY(ms_directory_remove(e, old));
done:
    return st;
}

/* Removes all but the newest `keep` checkpoints up to this step. */
static musec_status prune(ms_error *e, const char *root, int64_t step, int64_t keep)
{
    checkpoint_entry *list = NULL;
    size_t            n    = 0;
    int64_t           seen = 0;
    musec_status      st;

    if (keep <= 0) return MUSEC_OK;
    TRY(list_entries(e, root, &list, &n));
    for (size_t i = 0; i < n; i++) {
        char path[MS_PATH_MAX], part[MS_PATH_MAX];
        if (list[i].kind != ENTRY_WHOLE || list[i].step > step || ++seen <= keep) continue;
        TRY(ms_path_join(e, root, list[i].name, path));
        TRY(entry_path(e, root, ENTRY_PART, list[i].step, part));
        if (rename(path, part) != 0) TRY(io_failed(e, path, "remove the checkpoint"));
        TRY(ms_directory_remove(e, part));
    }
done:
    free(list);
    return st;
}

static musec_status check_arguments(ms_error *e, int64_t step, const json_t *state, int64_t keep)
{
    const json_t *s = json_object_get(state, "step");
    if (step >= 0 && keep >= 0 && json_is_integer(s) && json_integer_value(s) == step)
        return MUSEC_OK;
    return ms_fail(e, MUSEC_EINVAL,
                   "checkpoint: step %" PRId64 ", keep %" PRId64 ": both must be 0 or more, and "
                   "the state must hold the same \"step\"",
                   step, keep);
}

musec_status ms_checkpoint_write(ms_error *e, const char *dir, int64_t step,
                                 const ms_checkpoint_writer *writer, const json_t *state,
                                 int64_t keep)
{
    char         root[MS_PATH_MAX] = "", part[MS_PATH_MAX] = "";
    bool         made_root = false, made_part = false;
    musec_status st;

    TRY(check_arguments(e, step, state, keep));
    TRY(ms_path_join(e, dir, "checkpoint", root));
    TRY(entry_path(e, root, ENTRY_PART, step, part));
    made_root = mkdir(root, 0777) == 0;
    if (!made_root && errno != EEXIST) TRY(io_failed(e, root, "create the directory"));
    if (made_root) TRY(sync_path(e, dir));
    TRY(clean_up(e, root));
    made_part = mkdir(part, 0777) == 0;
    if (!made_part) TRY(io_failed(e, part, "create the directory"));
    TRY(write_files(e, part, writer, state));
    TRY(put_in_place(e, root, part, step));
    made_part = made_root = false;
    TRY(prune(e, root, step, keep));
done:
    if (st != MUSEC_OK && made_part) (void)ms_directory_remove(NULL, part);
    if (st != MUSEC_OK && made_root) (void)rmdir(root);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static musec_status damaged(ms_error *e, const char *path, const char *what)
{
    return ms_fail(e, MUSEC_EFORMAT, "%s: damaged: %s; use another checkpoint", path, what);
}

/* Reads state.json and checks its checksum. */
static musec_status read_state(ms_error *e, const char *path, json_t **out)
{
    FILE        *f    = NULL;
    char        *text = NULL;
    int64_t      bytes;
    musec_status st;

    *out = NULL;
    TRY(ms_file_open_read(e, path, &f));
    TRY(ms_file_size(e, f, path, &bytes));
    if (bytes < MS_SEAL_DIGITS + MS_SEAL_TAIL_BYTES || bytes > STATE_MAX)
        TRY(damaged(e, path, "it is too short or too long for the state of a run"));
    text = malloc((size_t)bytes);
    if (text == NULL) TRY(no_memory(e, path));
    TRY(ms_file_read(e, f, path, text, (size_t)bytes));
    if (ms_seal_check(text, (size_t)bytes) != MS_SEAL_WHOLE)
        TRY(damaged(e, path, "its bytes do not have the sha256 at its end"));
    st = ms_json_parse(text, (size_t)bytes, MS_JSON_ONCE, NULL, out);
    if (st == MUSEC_ENOMEM) TRY(no_memory(e, path));
    if (st != MUSEC_OK) st = damaged(e, path, "it is no JSON object");
done:
    free(text);
    if (f != NULL) fclose(f);
    return st;
}

/* Checks a tensor file against its size and sha256 in state.json. */
static musec_status check_file(ms_error *e, const char *dir, const char *state_path,
                               const json_t *root, const char *name)
{
    const json_t *entry = json_object_get(json_object_get(root, "files"), name);
    const json_t *bytes = json_object_get(entry, "bytes"), *sum = json_object_get(entry, "sha256");
    char          path[MS_PATH_MAX], found[MS_SHA256_HEX];
    int64_t       size = 0;
    musec_status  st;

    if (!json_is_integer(bytes) || !json_is_string(sum))
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: \"files\" has no bytes and sha256 of %s; use another checkpoint",
                       state_path, name);
    TRY(ms_path_join(e, dir, name, path));
    TRY(measure(e, path, &size, found));
    if (size != (int64_t)json_integer_value(bytes))
        st = ms_fail(e, MUSEC_EFORMAT,
                     "%s: damaged: %" PRId64 " bytes instead of %" JSON_INTEGER_FORMAT
                     "; use another checkpoint",
                     path, size, json_integer_value(bytes));
    else if (strcmp(found, json_string_value(sum)) != 0)
        st = damaged(e, path, "it does not have the sha256 of state.json");
done:
    return st;
}

/* Parses the last component of a path, without trailing slashes. */
static bool parse_path(const char *path, checkpoint_entry *x)
{
    char   name[sizeof x->name];
    size_t end = strlen(path), begin;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    if (end - begin >= sizeof name) return false;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), path + begin);
    return parse_name(name, x);
}

musec_status ms_checkpoint_open(ms_error *e, const char *dir, ms_checkpoint *out)
{
    char             path[MS_PATH_MAX];
    json_t          *root = NULL, *state;
    const json_t    *step;
    checkpoint_entry x;
    musec_status     st;

    *out = (ms_checkpoint){ .step = -1 };
    if (strlen(dir) >= sizeof out->dir)
        return ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", dir);
    TRY(ms_path_join(e, dir, "state.json", path));
    TRY(read_state(e, path, &root));
    state = json_object_get(root, "state");
    step  = json_object_get(state, "step");
    if (!json_is_integer(step) || json_integer_value(step) < 0)
        TRY(damaged(e, path, "its \"state\" has no \"step\" of 0 or more"));
    if (parse_path(dir, &x) && x.step != (int64_t)json_integer_value(step))
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: is of step %" JSON_INTEGER_FORMAT ", but its directory is called %s; "
                    "rename it",
                    path, json_integer_value(step), x.name));
    for (size_t i = 0; i < COUNT(tensor_files); i++)
        TRY(check_file(e, dir, path, root, tensor_files[i]));
    memcpy(out->dir, dir, strlen(dir) + 1);
    out->step  = (int64_t)json_integer_value(step);
    out->state = json_incref(state);
done:
    json_decref(root);
    return st;
}

/* Whether a file is missing.  One that exists and cannot be read, for lack of permission or because
 * the disk fails, may be whole. */
static bool lacks_files(const char *dir)
{
    static const char *const files[] = { "state.json", "model.safetensors", "optim.safetensors" };
    char                     path[MS_PATH_MAX];
    struct stat              info;
    for (size_t i = 0; i < COUNT(files); i++) {
        if (ms_path_join(NULL, dir, files[i], path) != MUSEC_OK) return false;
        if (stat(path, &info) == 0 ? !S_ISREG(info.st_mode) : errno == ENOENT || errno == ENOTDIR)
            return true;
    }
    return false;
}

musec_status ms_checkpoint_newest(ms_error *e, const char *run_dir, ms_checkpoint_check *check,
                                  ms_checkpoint *out, char *warning)
{
    char              root[MS_PATH_MAX], path[MS_PATH_MAX];
    ms_error          first = { "" }, why;
    checkpoint_entry *list  = NULL;
    size_t            n = 0, bad   = 0;
    musec_status      st, first_st = MUSEC_OK;

    *out       = (ms_checkpoint){ .step = -1 };
    warning[0] = '\0';
    TRY(ms_path_join(e, run_dir, "checkpoint", root));
    TRY(list_entries(e, root, &list, &n));
    for (size_t i = 0; i < n; i++) {
        if (list[i].kind == ENTRY_PART) continue;
        TRY(ms_path_join(e, root, list[i].name, path));
        st = ms_checkpoint_open(&why, path, out);
        if (st == MUSEC_OK && check != NULL) {
            st = check(&why, out);
            if (st != MUSEC_OK) ms_checkpoint_close(out);
        }
        if (st == MUSEC_OK) {
            if (bad > 0)
                snprintf(warning, WARNING_BYTES, "%zu damaged, going back to %s: %.*s", bad,
                         list[i].name, WARNING_BYTES / 2, first.text);
            goto done;
        }
        if (st == MUSEC_ENOMEM) { /* the checkpoint may be whole */
            ms_error_set(e, "%s", why.text);
            goto done;
        }
        if (st == MUSEC_EIO && !lacks_files(path)) {
            ms_error_set(
                e,
                "%.700s; it may be whole: make it readable, or move it away to resume from "
                "an older one",
                why.text);
            goto done;
        }
        if (bad++ == 0) {
            first    = why;
            first_st = st;
        }
    }
    st = first_st;
    if (bad > 0)
        ms_error_set(e, "%.600s (of %zu checkpoints in %.300s none is whole)", first.text, bad,
                     root);
done:
    free(list);
    return st;
}

musec_status ms_checkpoint_quarantine(ms_error *e, const char *run_dir, int64_t step)
{
    char              root[MS_PATH_MAX], path[MS_PATH_MAX], aside[MS_PATH_MAX + 16];
    checkpoint_entry *list = NULL;
    size_t            n    = 0;
    musec_status      st;

    TRY(ms_path_join(e, run_dir, "checkpoint", root));
    TRY(list_entries(e, root, &list, &n));
    for (size_t i = 0; i < n; i++) {
        if (list[i].kind != ENTRY_WHOLE || list[i].step <= step) continue;
        TRY(ms_path_join(e, root, list[i].name, path));
        snprintf(aside, sizeof aside, "%s.damaged", path);
        if (rename(path, aside) == 0) continue;
        TRY(ms_directory_remove(e, aside)); /* a damaged one of before */
        if (rename(path, aside) != 0) TRY(io_failed(e, path, "rename the damaged checkpoint"));
    }
done:
    free(list);
    return st;
}

void ms_checkpoint_close(ms_checkpoint *c)
{
    json_decref(c->state);
    *c = (ms_checkpoint){ .step = -1 };
}
