/* archive.c - see archive.h.
 *
 * Tar is read as POSIX has it (ustar): blocks of 512 bytes, a header for each file with a checksum,
 * two blocks of zeros at the end.  Nothing of an archive is trusted: names must be plain paths
 * below its root, only the three files of a run are taken, none twice, and sizes are bounded. */
#define _XOPEN_SOURCE 700 /* mkdtemp, realpath, strdup */
#include "experiment/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/directory.h"
#include "core/json_file.h"
#include "data/pack.h"
#include "data/unpack.h"

enum {
    BLOCK     = 512,
    NAME      = 100,
    PREFIX    = 155,
    PATH_TEXT = NAME + PREFIX + 2,
    MAX_PARTS = 6,
    PIECE     = 64 * BLOCK
};

static const char *const run_files[] = { "config.json", "log.jsonl", "summary.json" };

typedef struct tar_header { /* all texts, numbers in octal */
    char name[NAME], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100],
        magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[PREFIX], rest[12];
} tar_header;
_Static_assert(sizeof(tar_header) == BLOCK, "a header is a block");

static unsigned checksum(const tar_header *h)
{
    const unsigned char *at  = (const unsigned char *)h;
    unsigned             sum = 0;
    for (size_t i = 0; i < sizeof *h; i++) {
        const bool own = i >= offsetof(tar_header, sum) && i < offsetof(tar_header, type);
        sum += own ? ' ' : at[i];
    }
    return sum;
}

/* A byte of a name that is neither shown otherwise than it is, nor part of a path elsewhere. */
static bool is_plain_byte(char c) { return (unsigned char)c >= ' ' && c != '\\' && c != 127; }

/* Counts one more file of so many bytes against the limits; the path is for the message. */
static musec_status count_member(ms_error *e, const char *path, int64_t bytes, int64_t *all,
                                 int64_t *members)
{
    if (bytes >= 0 && bytes <= MS_ARCHIVE_MEMBER && (*all += bytes) <= MS_ARCHIVE_BYTES &&
        ++*members <= MS_ARCHIVE_MEMBERS)
        return MUSEC_OK;
    return ms_fail(
        e, MUSEC_EFORMAT,
        "%s: too large for an archive of runs, which has at most %d files of %d MiB, and "
        "%lld MiB together",
        path, MS_ARCHIVE_MEMBERS, MS_ARCHIVE_MEMBER >> 20, (long long)(MS_ARCHIVE_BYTES >> 20));
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct tar_out {
    ms_pack *to;
    char (*names)[PATH_TEXT]; /* of the directories, by run */
    int64_t bytes, members;
} tar_out;

static musec_status write_member(ms_error *e, tar_out *out, const char *dir, const char *name,
                                 const char *text, size_t bytes)
{
    static const char zeros[BLOCK];
    const size_t      over = bytes % BLOCK;
    tar_header        h    = { .type = '0', .version = "00" };
    musec_status      st;

    memcpy(h.prefix, dir, strlen(dir));
    memcpy(h.name, name, strlen(name));
    memcpy(h.magic, "ustar", 6);
    memcpy(h.mode, "0000644", 8);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    snprintf(h.size, sizeof h.size, "%011llo", (unsigned long long)bytes);
    snprintf(h.mtime, sizeof h.mtime, "%011o", 0u);
    snprintf(h.sum, sizeof h.sum, "%06o", checksum(&h));
    h.sum[7] = ' ';
    TRY(ms_pack_write(e, out->to, &h, sizeof h));
    TRY(ms_pack_write(e, out->to, text, bytes));
    if (over > 0) TRY(ms_pack_write(e, out->to, zeros, BLOCK - over));
done:
    return st;
}

static json_t *rounded(const char *key, const json_t *value)
{
    static const char *const times[] = { "tok_s", "time_s", "ms" };
    char                     text[32];
    bool                     coarse = false;

    for (size_t i = 0; i < COUNT(times); i++)
        coarse = coarse || strcmp(times[i], key) == 0;
    if (json_is_real(value)) {
        snprintf(text, sizeof text, "%.*g", coarse ? 3 : 6, json_real_value(value));
        return json_real(strtod(text, NULL));
    }
    if (json_is_object(value)) {
        json_t     *out = json_object(), *member;
        const char *name;
        json_object_foreach((json_t *)value, name, member)
        {
            ms_json_set(&out, name, rounded(coarse ? key : name, member));
        }
        return out;
    }
    return json_incref((json_t *)value);
}

/* The line with rounded numbers, or NULL: it cannot be read, as the last one of a killed run. */
static musec_status round_line(ms_error *e, const char *line, size_t n, char **out)
{
    json_t      *value = NULL, *round = NULL;
    musec_status st = ms_json_parse(line, n, MS_JSON_ANY_NAMES, NULL, &value);

    *out = NULL;
    if (json_is_object(value)) {
        round = rounded("", value);
        *out  = round != NULL ? ms_json_tight(round) : NULL;
        if (*out == NULL) st = MUSEC_ENOMEM;
    }
    json_decref(round);
    json_decref(value);
    return st == MUSEC_ENOMEM ? ms_no_memory(e, "the logs") : MUSEC_OK;
}

/* The lines of a log with rounded numbers, in the place of `text`; one that cannot be read is left
 * as it is. */
static musec_status round_log(ms_error *e, char **text, size_t *bytes)
{
    char        *out  = malloc(*bytes + 1); /* no line grows: a longer one is not taken */
    size_t       used = 0;
    musec_status st   = MUSEC_OK;

    if (out == NULL) return ms_no_memory(e, "the logs");
    for (char *line = *text, *end = *text + *bytes; line < end;) {
        char        *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t n       = (size_t)((newline != NULL ? newline : end) - line);
        char        *shorter;
        size_t       n_shorter;

        TRY(round_line(e, line, n, &shorter));
        n_shorter = shorter != NULL ? strlen(shorter) : n + 1;
        memcpy(out + used, n_shorter <= n ? shorter : line, n_shorter <= n ? n_shorter : n);
        used += n_shorter <= n ? n_shorter : n;
        free(shorter);
        if (newline != NULL) out[used++] = '\n';
        line += n + (newline != NULL);
    }
    free(*text);
    *text  = out;
    *bytes = used;
    out    = NULL;
done:
    free(out);
    return st;
}

/* The summary without what it says of its own bytes and of the log's, which are others now. */
static musec_status open_summary(ms_error *e, char **text, size_t *bytes)
{
    json_t            *summary = NULL;
    char              *out     = NULL;
    const musec_status st      = ms_json_parse(*text, *bytes, MS_JSON_ANY_NAMES, NULL, &summary);

    if (json_is_object(summary)) {
        json_object_del(summary, "log");
        json_object_del(summary, "sha256");
        out = ms_json_dump(summary, 1);
    }
    if (st == MUSEC_ENOMEM || (json_is_object(summary) && out == NULL)) {
        json_decref(summary);
        return ms_no_memory(e, "the summaries");
    }
    json_decref(summary);
    if (out == NULL) return MUSEC_OK; /* a report says what is wrong with it */
    free(*text);
    *text  = out;
    *bytes = strlen(out);
    return MUSEC_OK;
}

static musec_status write_file(ms_error *e, tar_out *out, const ms_run *run, const char *dir,
                               const char *name)
{
    char         path[MS_PATH_MAX];
    char        *text = NULL;
    size_t       bytes;
    musec_status st;

    TRY(ms_path_join(e, run->dir, name, path));
    if (strcmp(name, "summary.json") == 0 && access(path, F_OK) != 0)
        return MUSEC_OK; /* the run is not finished */
    TRY(ms_file_text(e, path, MS_ARCHIVE_MEMBER, &text, &bytes));
    if (strcmp(name, "log.jsonl") == 0) TRY(round_log(e, &text, &bytes));
    if (strcmp(name, "summary.json") == 0) TRY(open_summary(e, &text, &bytes));
    TRY(count_member(e, path, (int64_t)bytes, &out->bytes, &out->members));
    TRY(write_member(e, out, dir, name, text, bytes));
done:
    free(text);
    return st;
}

static bool is_taken(const tar_out *out, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(out->names[i], name) == 0) return true;
    return false;
}

/* The name of the run's directory as is_plain() wants it, with a number where another before it has
 * the same. */
static void name_run(tar_out *out, const ms_runset *set, size_t i)
{
    enum { MOST = PREFIX - 16 }; /* bytes, and a number behind them */
    char        real[MS_PATH_MAX], name[MOST + 1];
    const char *own = ms_path_name(set->at[i].dir);

    if (own[strspn(own, ".")] == '\0') /* "runs/a/", ".", "..": it has another name, too */
        own = realpath(set->at[i].dir, real) != NULL ? ms_path_name(real) : "";
    snprintf(name, sizeof name, "%s", own[0] != '\0' ? own : "run");
    for (char *at = name; *at != '\0'; at++)
        if (!is_plain_byte(*at) || (at == name && *at == '.')) *at = '_';
    snprintf(out->names[i], PATH_TEXT, "%s", name);
    for (int k = 2; is_taken(out, i, out->names[i]); k++)
        snprintf(out->names[i], PATH_TEXT, "%s+%d", name, k);
}

musec_status ms_archive_write(ms_error *e, const ms_runset *set, const char *path)
{
    static const char end[2 * BLOCK];
    tar_out           out = { .names = calloc(set->n + 1, sizeof *out.names) };
    musec_status      st;

    if (out.names == NULL) return ms_no_memory(e, "the names of runs");
    TRY(ms_pack_open(e, path, &out.to));
    for (size_t i = 0; i < set->n; i++) {
        name_run(&out, set, i);
        for (size_t k = 0; k < COUNT(run_files); k++)
            TRY(write_file(e, &out, &set->at[i], out.names[i], run_files[k]));
    }
    TRY(ms_pack_write(e, out.to, end, sizeof end));
    TRY(ms_pack_commit(e, out.to));
done:
    ms_pack_close(out.to);
    free(out.names);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct tar_in {
    ms_unpack  *from;
    const char *path;
    int64_t     bytes, members;
} tar_in;

/* Reads `bytes` bytes; it is an error if the archive ends before. */
static musec_status read_all(ms_error *e, tar_in *in, void *buf, size_t bytes)
{
    size_t       done = 0, got = 1;
    musec_status st = MUSEC_OK;

    while (done < bytes && got > 0) {
        TRY(ms_unpack_read(e, in->from, (char *)buf + done, bytes - done, &got));
        done += got;
    }
    if (done < bytes)
        st = ms_fail(e, MUSEC_EFORMAT, "%s: it is no archive of runs, or is cut off", in->path);
done:
    return st;
}

/* An octal number; -1: it is none. */
static int64_t number_of(const char *text, size_t n)
{
    int64_t value = 0;
    size_t  i     = 0;
    while (i < n && text[i] == ' ')
        i++;
    for (; i < n && text[i] >= '0' && text[i] <= '7'; i++)
        value = value * 8 + (text[i] - '0');
    return i == n || text[i] == '\0' || text[i] == ' ' ? value : -1;
}

/* A plain path below the root: no empty, hidden or upward part. */
static bool is_plain(const char *path)
{
    size_t parts = 0;
    for (const char *at = path;; at++) {
        const size_t n = strcspn(at, "/");
        if (n == 0 || at[0] == '.' || ++parts > MAX_PARTS) return false;
        for (size_t i = 0; i < n; i++)
            if (!is_plain_byte(at[i])) return false;
        at += n;
        if (*at == '\0') return true;
    }
}

static bool is_run_file(const char *path)
{
    const char *name = ms_path_name(path);
    for (size_t i = 0; i < COUNT(run_files); i++)
        if (name != path && strcmp(run_files[i], name) == 0) return true;
    return false;
}

static musec_status check_header(ms_error *e, tar_in *in, const tar_header *h, char name[PATH_TEXT],
                                 int64_t *bytes)
{
    musec_status st;

    if (number_of(h->sum, sizeof h->sum) != (int64_t)checksum(h))
        return ms_fail(
            e, MUSEC_EFORMAT,
            "%s: it is no archive of runs, or is damaged: the checksum of member %lld is "
            "wrong",
            in->path, (long long)in->members);
    *bytes = number_of(h->size, sizeof h->size);
    if (h->prefix[0] != '\0' && memcmp(h->magic, "ustar", 5) == 0)
        snprintf(name, PATH_TEXT, "%.*s/%.*s", PREFIX, h->prefix, NAME, h->name);
    else
        snprintf(name, PATH_TEXT, "%.*s", NAME, h->name);
    while (strncmp(name, "./", 2) == 0) /* as tar -c . writes them */
        memmove(name, name + 2, strlen(name + 2) + 1);
    if (name[0] != '\0' && name[strlen(name) - 1] == '/') name[strlen(name) - 1] = '\0';
    TRY(count_member(e, in->path, *bytes, &in->bytes, &in->members));
    const bool root = h->type == '5' && (name[0] == '\0' || strcmp(name, ".") == 0);
    const bool none = h->type == 'x' || h->type == 'g'; /* what extends others makes no file */
    if (!root && !none && !is_plain(name))
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: the name of member %lld is no plain path below the "
                       "archive's root",
                       in->path, (long long)in->members);
done:
    return st;
}

static bool write_all(int fd, const char *at, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

/* Reads the data of a member, padding included, into a new file, or nowhere. */
static musec_status copy_member(ms_error *e, tar_in *in, int64_t bytes, const char *to)
{
    char          piece[PIECE];
    const int64_t padded = (bytes + BLOCK - 1) / BLOCK * BLOCK;
    int           fd     = -1;
    bool          good   = true;
    musec_status  st     = MUSEC_OK;

    if (to != NULL) {
        fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
            TRY(ms_fail(e, MUSEC_EFORMAT, "%s: it has a file twice: %s", in->path,
                        ms_path_name(to)));
        good = fd >= 0;
    }
    for (int64_t at = 0; at < padded && good; at += PIECE) {
        const int64_t left = padded - at, n = left < PIECE ? left : PIECE;
        TRY(read_all(e, in, piece, (size_t)n));
        if (fd >= 0) good = write_all(fd, piece, (size_t)(bytes - at < n ? bytes - at : n));
    }
    if (fd >= 0 && good) {
        good = close(fd) == 0;
        fd   = -1;
    }
    if (!good) st = ms_fail(e, MUSEC_EIO, "%s: cannot be written (%s)", to, strerror(errno));
done:
    if (fd >= 0) close(fd);
    return st;
}

/* Reads the data of a header that says more of the next member, "27 path=a/b/...\n30 mtime=...\n";
 * *named: its name, which the member itself has cut. */
static musec_status read_extended(ms_error *e, tar_in *in, int64_t bytes, bool *named)
{
    const size_t n    = ((size_t)bytes + BLOCK - 1) / BLOCK * BLOCK;
    char        *text = calloc(1, n + 1);
    musec_status st   = MUSEC_OK;

    if (text == NULL) TRY(ms_no_memory(e, "the names of an archive"));
    TRY(read_all(e, in, text, n));
    *named = strstr(text, " path=") != NULL;
done:
    free(text);
    return st;
}

static musec_status take_member(ms_error *e, tar_in *in, const tar_header *h, const char *dir)
{
    char         name[PATH_TEXT], path[MS_PATH_MAX], above[MS_PATH_MAX];
    int64_t      bytes;
    const bool   is_file = h->type == '0' || h->type == '\0', extends = h->type == 'x';
    bool         named = h->type == 'L'; /* GNU tar's long name */
    musec_status st;

    TRY(check_header(e, in, h, name, &bytes));
    if (extends) TRY(read_extended(e, in, bytes, &named));
    if (named)
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: it has a name that is too long for tar's first form (ustar), which alone "
                    "is read: pack it with tar --format=ustar",
                    in->path));
    if (extends) return MUSEC_OK;
    if (!is_file || !is_run_file(name)) /* directories, and what a report does not read */
        return copy_member(e, in, bytes, NULL);
    TRY(ms_path_join(e, dir, name, path));
    ms_path_directory(path, above);
    TRY(ms_directory_make(e, above));
    TRY(copy_member(e, in, bytes, path));
done:
    return st;
}

musec_status ms_archive_unpack(ms_error *e, const char *path, const char *dir)
{
    static const tar_header end;
    const uint64_t          memory = (uint64_t)1 << 28; /* bytes that unpacking may take */
    tar_in                  in     = { .path = path };
    tar_header              h;
    musec_status            st;

    TRY(ms_unpack_open(e, path, memory, NULL, &in.from));
    for (;;) {
        TRY(read_all(e, &in, &h, sizeof h));
        if (memcmp(&h, &end, sizeof h) == 0) break; /* the second block of zeros does not matter */
        TRY(take_member(e, &in, &h, dir));
    }
done:
    ms_unpack_close(in.from);
    return st;
}

/* ---- archives of a report -------------------------------------------------------------------- */

/* A text in which the archive's name stands in the place of the directory that it was unpacked to;
 * takes the text over.  NULL without memory. */
static char *name_archive(char *text, const char *dir, const char *path)
{
    const size_t n   = strlen(dir);
    char        *out = NULL, *at;

    while (text != NULL && (at = strstr(text, dir)) != NULL) {
        const size_t bytes = strlen(text) + strlen(path) + 1;
        out                = malloc(bytes);
        if (out != NULL) snprintf(out, bytes, "%.*s%s%s", (int)(at - text), text, path, at + n);
        free(text);
        text = out;
    }
    return text;
}

/* The directory of an archive: DIR/0, DIR/1, ... */
static musec_status dir_of(ms_error *e, const ms_archives *all, int i, char out[MS_PATH_MAX])
{
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    return ms_path_join(e, all->dir, number, out);
}

static musec_status name_runs(ms_error *e, ms_runset *set, const char *dir, const char *path)
{
    for (size_t i = 0; i < set->n; i++) {
        set->at[i].dir = name_archive(set->at[i].dir, dir, path);
        if (set->at[i].dir == NULL) return ms_no_memory(e, "the names of runs");
    }
    for (size_t i = 0; i < set->n_notes; i++) {
        set->notes[i] = name_archive(set->notes[i], dir, path);
        if (set->notes[i] == NULL) return ms_no_memory(e, "the notes on runs");
    }
    return MUSEC_OK;
}

musec_status ms_archives_name(ms_error *e, const ms_archives *all, ms_runset *set)
{
    char         dir[MS_PATH_MAX];
    musec_status st = MUSEC_OK;

    for (int i = all->n - 1; i >= 0; i--) { /* DIR/1 begins DIR/10 */
        TRY(dir_of(e, all, i, dir));
        TRY(name_runs(e, set, dir, all->path[i]));
    }
done:
    return st;
}

static void rename_error(ms_error *e, const char *dir, const char *path)
{
    char *text = name_archive(strdup(e->text), dir, path);
    if (text != NULL) ms_error_set(e, "%s", text);
    free(text);
}

static musec_status make_temporary(ms_error *e, ms_archives *all)
{
    const char *tmp = getenv("TMPDIR");

    if (all->dir[0] != '\0') return MUSEC_OK;
    if (snprintf(all->dir, sizeof all->dir, "%s/musec-archive-XXXXXX",
                 tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp") >= MS_PATH_MAX ||
        mkdtemp(all->dir) == NULL) {
        const int why = errno;
        all->dir[0]   = '\0';
        return ms_fail(e, MUSEC_EIO, "no temporary directory can be made (%s); set TMPDIR",
                       strerror(why));
    }
    return MUSEC_OK;
}

musec_status ms_archives_add(ms_error *e, ms_archives *all, const char *path, ms_runset *set)
{
    char         dir[MS_PATH_MAX];
    musec_status st;

    if (all->n == MS_ARCHIVES)
        return ms_fail(e, MUSEC_EINVAL, "%s: at most %d archives are read at once", path,
                       MS_ARCHIVES);
    TRY(make_temporary(e, all));
    TRY(dir_of(e, all, all->n, dir));
    all->path[all->n++] = path;
    TRY(ms_directory_make(e, dir));
    TRY(ms_archive_unpack(e, path, dir));
    st = ms_runset_add(e, set, dir);
    if (st != MUSEC_OK) rename_error(e, dir, path);
done:
    return st;
}

musec_status ms_archives_close(ms_error *e, ms_archives *all)
{
    const musec_status st = all->dir[0] != '\0' ? ms_directory_remove(e, all->dir) : MUSEC_OK;
    *all                  = (ms_archives){ 0 };
    return st;
}
