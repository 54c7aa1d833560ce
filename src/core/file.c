/* file.c - reading with clear failures, writing whole or not at all.
 *
 * What ms_out_open does depends on what stands at the path:
 *
 *     nothing            a part beside it, renamed at the end
 *     a regular file     the same; the old file's owner and mode are kept as far as we may
 *     a link to one      the same beside the file it leads to: the link stays a link
 *     a link to nothing  an error: a typing mistake more often than a wish
 *     a directory        an error
 *     anything else      written directly (devices, pipes)
 *
 * One case looks like a link to a regular file and is none: /dev/stdout of a process whose output
 * goes to a file.  There we write through the descriptor itself, at its position, so that what the
 * program printed before and prints after stands around the data and not on top of it. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_TRIES 100
#define PART_BASE  64 /* bytes of a long name that its part keeps */

typedef enum target_kind { TARGET_NEW, TARGET_FILE, TARGET_DIRECT } target_kind;

musec_status ms_path_join(ms_error *e, const char *dir, const char *name, char out[MS_PATH_MAX])
{
    const int n = snprintf(out, MS_PATH_MAX, "%s/%s", dir, name);
    if (n >= 0 && n < MS_PATH_MAX) return MUSEC_OK;
    out[0] = '\0';
    return ms_fail(e, MUSEC_EIO, "%.200s.../%s: the path is too long", dir, name);
}

const char *ms_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

void ms_path_directory(const char *path, char dir[MS_PATH_MAX])
{
    const int n = (int)(ms_path_name(path) - path);
    snprintf(dir, MS_PATH_MAX, "%.*s", n > 1 ? n - 1 : 1, n == 0 ? "." : path);
}

/* "dir/name" with the real path of the directory; false if there is no such directory. */
static bool real_path(const char *path, char out[MS_PATH_MAX])
{
    char dir[MS_PATH_MAX], *real;

    ms_path_directory(path, dir);
    real = realpath(dir, NULL);
    if (real == NULL) return false;
    const musec_status st = ms_path_join(NULL, real, ms_path_name(path), out);
    free(real);
    return st == MUSEC_OK;
}

bool ms_path_same(const char *a, const char *b)
{
    char        x[MS_PATH_MAX], y[MS_PATH_MAX];
    struct stat sa, sb;
    const bool  has_a = stat(a, &sa) == 0, has_b = stat(b, &sb) == 0;

    if (has_a && has_b)
        return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    if (has_a || has_b) return false;
    if (real_path(a, x) && real_path(b, y)) return strcmp(x, y) == 0;
    return strcmp(a, b) == 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

musec_status ms_file_open_read(ms_error *e, const char *path, FILE **out)
{
    struct stat  sb;
    FILE        *f  = NULL;
    musec_status st = MUSEC_OK;

    *out = NULL;
    f    = fopen(path, "rb");
    if (f == NULL || fstat(fileno(f), &sb) != 0)
        TRY(ms_fail(e, errno == ENOMEM ? MUSEC_ENOMEM : MUSEC_EIO,
                    "%s: cannot open for reading (%s)", path, strerror(errno)));
    if (S_ISDIR(sb.st_mode))
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot read (%s); give a file in it", path,
                    strerror(EISDIR)));
    *out = f;
    f    = NULL;
done:
    if (f != NULL) fclose(f);
    return st;
}

int64_t ms_file_bytes(FILE *f)
{
    struct stat sb;
    if (fstat(fileno(f), &sb) != 0 || !S_ISREG(sb.st_mode)) return -1;
    return (int64_t)sb.st_size;
}

musec_status ms_file_size(ms_error *e, FILE *f, const char *path, int64_t *bytes)
{
    struct stat sb;
    if (fstat(fileno(f), &sb) != 0)
        return ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno));
    *bytes = S_ISREG(sb.st_mode) ? (int64_t)sb.st_size : -1;
    return MUSEC_OK;
}

musec_status ms_file_read(ms_error *e, FILE *f, const char *path, void *buf, size_t bytes)
{
    const size_t got = bytes == 0 ? 0 : fread(buf, 1, bytes, f);

    if (got == bytes) return MUSEC_OK;
    if (ferror(f)) return ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno));
    return ms_fail(e, MUSEC_EFORMAT, "%s: ends too early: %zu bytes are needed here, %zu are left",
                   path, bytes, got);
}

musec_status ms_file_text(ms_error *e, const char *path, int64_t max_bytes, char **text,
                          size_t *bytes)
{
    FILE        *f = NULL;
    int64_t      n;
    musec_status st;

    *text  = NULL;
    *bytes = 0;
    TRY(ms_file_open_read(e, path, &f));
    TRY(ms_file_size(e, f, path, &n));
    if (n < 0 || n > max_bytes)
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: it must be a file of at most %lld bytes", path,
                    (long long)max_bytes));
    *text = malloc((size_t)n + 1);
    if (*text == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to read it", path));
    TRY(ms_file_read(e, f, path, *text, (size_t)n));
    (*text)[n] = '\0';
    *bytes     = (size_t)n;
done:
    if (f != NULL) fclose(f);
    if (st != MUSEC_OK) {
        free(*text);
        *text = NULL;
    }
    return st;
}

/* ---- writing: where to ----------------------------------------------------------------------- */

/* stdout's or stderr's descriptor if that is the file of `sb`, else -1. */
static int own_descriptor(const struct stat *sb)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat own;
        if (fstat(fd, &own) == 0 && own.st_dev == sb->st_dev && own.st_ino == sb->st_ino) return fd;
    }
    return -1;
}

static musec_status cannot_create(ms_error *e, const char *path, int why)
{
    const char *hint = "";
    if (why == ENOENT) hint = "; its directory does not exist: create it first";
    if (why == EACCES) hint = "; the file and its directory must be writable";
    return ms_fail(e, MUSEC_EIO, "%s: cannot create (%s)%s", path, strerror(why), hint);
}

static musec_status set_path(ms_error *e, const char *path, ms_out_file *out)
{
    const size_t bytes = strlen(path) + 1;
    if (bytes > sizeof out->path) return cannot_create(e, path, ENAMETOOLONG);
    memcpy(out->path, path, bytes);
    return MUSEC_OK;
}

/* Sets out->path for a `path` at which a regular file exists: the name to be renamed over. */
static musec_status find_file(ms_error *e, const char *path, const struct stat *sb,
                              ms_out_file *out, target_kind *kind)
{
    char        *real = NULL;
    struct stat  link;
    musec_status st = MUSEC_OK;

    *kind = TARGET_FILE;
    if (lstat(path, &link) != 0) return cannot_create(e, path, errno);
    if (S_ISLNK(link.st_mode)) {
        if (own_descriptor(sb) >= 0) {
            *kind = TARGET_DIRECT;
            return MUSEC_OK;
        }
        real = realpath(path, NULL);
        if (real == NULL) return cannot_create(e, path, errno);
        TRY(set_path(e, real, out));
    }
    /* A rename would bypass the write protection of the old file. */
    if (faccessat(AT_FDCWD, out->path, W_OK, AT_EACCESS) != 0) st = cannot_create(e, path, errno);
done:
    free(real);
    return st;
}

static musec_status find_target(ms_error *e, const char *path, ms_out_file *out, struct stat *sb,
                                target_kind *kind)
{
    musec_status st;

    if (path[0] == '\0') return ms_fail(e, MUSEC_EIO, "cannot create a file: its name is empty");
    TRY(set_path(e, path, out));
    if (stat(path, sb) == 0) {
        if (S_ISDIR(sb->st_mode)) {
            st = ms_fail(e, MUSEC_EIO, "%s: cannot write (%s); give a file in it", path,
                         strerror(EISDIR));
        } else if (S_ISREG(sb->st_mode)) {
            st = find_file(e, path, sb, out, kind);
        } else {
            *kind = TARGET_DIRECT;
        }
        goto done;
    }
    *kind = TARGET_NEW;
    if (errno != ENOENT) {
        st = cannot_create(e, path, errno);
    } else if (path[strlen(path) - 1] == '/') {
        st = ms_fail(e, MUSEC_EIO, "%s: cannot create (a file name does not end in /)", path);
    } else if (lstat(path, sb) == 0) {
        st = ms_fail(e, MUSEC_EIO, "%s: cannot create (it is a link to a missing file)", path);
    }
done:
    return st;
}

/* ---- writing: how ---------------------------------------------------------------------------- */

static int open_direct(const char *path, const struct stat *sb)
{
    const int own = own_descriptor(sb); /* open() cannot open a socket */
    return own >= 0 ? dup(own) : open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

/* The name of the part, at the i-th try.  `brief`: the name of the file is too long for a suffix,
 * so the part gets the beginning of it, cut between characters. */
static bool name_part(ms_out_file *out, int i, bool brief)
{
    const char *base       = ms_path_name(out->path);
    size_t      keep       = strlen(base);
    char        suffix[32] = "";
    int         bytes;

    if (brief && keep > PART_BASE) {
        keep = PART_BASE;
        while (keep > 0 && ((unsigned char)base[keep] & 0xC0) == 0x80)
            keep--;
    }
    if (i > 0) snprintf(suffix, sizeof suffix, ".%d", i);
    bytes = snprintf(out->part, sizeof out->part, "%.*s.part.%ld%s",
                     (int)((size_t)(base - out->path) + keep), out->path, (long)getpid(), suffix);
    return bytes >= 0 && (size_t)bytes < sizeof out->part;
}

/* Creates the part.  If its name is taken, by another thread, by a process with the same id on
 * another machine, or by one that was killed, the next name is tried. */
static int open_part(ms_out_file *out)
{
    bool brief = false;
    int  fd    = -1;

    for (int i = 0; i < PART_TRIES && fd < 0;) {
        errno = ENAMETOOLONG;
        if (name_part(out, i, brief))
            fd = open(out->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == ENAMETOOLONG && !brief) {
            brief = true;
            continue;
        }
        if (fd < 0 && errno != EEXIST) break;
        i++;
    }
    if (fd < 0) out->part[0] = '\0'; /* a file of that name belongs to somebody else */
    return fd;
}

/* Takes over as much of the old file's owner and mode as this process may set. */
static void keep_owner_and_mode(int fd, const struct stat *old)
{
    if (fchown(fd, old->st_uid, old->st_gid) != 0) errno = 0; /* the writer owns it then */
    (void)fchmod(fd, old->st_mode & 0777); /* no set-id bits: the owner may be another now */
}

musec_status ms_out_open(ms_error *e, const char *path, ms_out_file *out)
{
    target_kind  kind = TARGET_NEW;
    struct stat  sb   = { 0 };
    int          fd   = -1;
    musec_status st;

    out->f       = NULL;
    out->path[0] = out->part[0] = '\0';
    TRY(find_target(e, path, out, &sb, &kind));
    fd = kind == TARGET_DIRECT ? open_direct(out->path, &sb) : open_part(out);
    if (fd < 0) TRY(cannot_create(e, path, errno));
    if (kind == TARGET_FILE) keep_owner_and_mode(fd, &sb);
    out->f = fdopen(fd, "wb");
    if (out->f == NULL) TRY(cannot_create(e, path, errno));
    fd = -1;
done:
    if (fd >= 0) close(fd);
    if (st != MUSEC_OK) ms_out_abandon(out);
    return st;
}

static musec_status cannot_write(ms_error *e, const ms_out_file *out)
{
    const int   why  = errno == 0 ? EIO : errno; /* 0: an earlier call failed */
    const char *hint = why == ENOSPC || why == EDQUOT ? "; free some space or write elsewhere" : "";
    return ms_fail(e, MUSEC_EIO, "%s: cannot write (%s)%s", out->path, strerror(why), hint);
}

musec_status ms_out_write(ms_error *e, ms_out_file *out, const void *buf, size_t bytes)
{
    errno = 0;
    if (bytes == 0 || fwrite(buf, 1, bytes, out->f) == bytes) return MUSEC_OK;
    return cannot_write(e, out);
}

/* Some file systems cannot sync a directory, and some directories cannot be opened: what counts are
 * failures of the disk and of this process. */
static int sync_directory(const char *path)
{
    char dir[MS_PATH_MAX];
    int  fd, failed, why;

    ms_path_directory(path, dir);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES || errno == EPERM ? 0 : -1;
    failed = fsync(fd) != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT);
    why    = errno;
    close(fd);
    errno = why;
    return failed ? -1 : 0;
}

musec_status ms_entry_sync(ms_error *e, const char *path)
{
    if (sync_directory(path) == 0) return MUSEC_OK;
    return ms_fail(e, MUSEC_EIO, "%s: cannot write (%s)", path, strerror(errno));
}

musec_status ms_out_commit(ms_error *e, ms_out_file *out)
{
    const bool   beside = out->part[0] != '\0';
    FILE        *f      = out->f;
    musec_status st     = MUSEC_OK;

    errno = 0;
    if (fflush(f) != 0 || ferror(f) || (beside && fsync(fileno(f)) != 0)) TRY(cannot_write(e, out));
    out->f = NULL;
    if (fclose(f) != 0 || (beside && rename(out->part, out->path) != 0)) TRY(cannot_write(e, out));
    out->part[0] = '\0'; /* the part no longer exists */
    if (beside && sync_directory(out->path) != 0) st = cannot_write(e, out);
done:
    ms_out_abandon(out);
    return st;
}

void ms_out_abandon(ms_out_file *out)
{
    if (out->f != NULL) fclose(out->f);
    if (out->part[0] != '\0') remove(out->part);
    out->f       = NULL;
    out->part[0] = '\0';
}

static musec_status make_one(ms_error *e, const char *path)
{
    if (mkdir(path, 0777) == 0) return ms_entry_sync(e, path);
    if (errno == EEXIST) return MUSEC_OK;
    return ms_fail(e, MUSEC_EIO, "%s: the directory cannot be created (%s)", path, strerror(errno));
}

musec_status ms_directory_make(ms_error *e, const char *path)
{
    char         part[MS_PATH_MAX];
    struct stat  info;
    musec_status st;

    if (path[0] == '\0') return ms_fail(e, MUSEC_EINVAL, "a directory without a name");
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (slash[1] != '\0') TRY(make_one(e, part));
    }
    TRY(make_one(e, path));
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return ms_fail(e, MUSEC_EIO, "%s: is no directory; take another name", path);
done:
    return st;
}

/* Is it the name of a part whose process has ended?  Ours have all been committed or abandoned. */
static bool is_stale_part(const char *name)
{
    const char *mark = NULL;
    char       *end;
    long        pid;

    for (const char *at = name; (at = strstr(at, ".part.")) != NULL; at++)
        mark = at;
    if (mark == NULL || mark[6] < '1' || mark[6] > '9') return false;
    pid = strtol(mark + 6, &end, 10);
    if (*end == '.' && end[1 + strspn(end + 1, "0123456789")] == '\0') end = "";
    if (*end != '\0') return false;
    return pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

musec_status ms_parts_remove(ms_error *e, const char *dir)
{
    DIR           *d = opendir(dir);
    struct dirent *entry;
    char           path[MS_PATH_MAX];
    musec_status   st = MUSEC_OK;

    if (d == NULL) return ms_fail(e, MUSEC_EIO, "%s: cannot list it (%s)", dir, strerror(errno));
    for (errno = 0; (entry = readdir(d)) != NULL; errno = 0) {
        if (!is_stale_part(entry->d_name)) continue;
        TRY(ms_path_join(e, dir, entry->d_name, path));
        (void)unlink(path); /* what cannot be removed does no harm; a directory is none of ours */
    }
    if (errno != 0) st = ms_fail(e, MUSEC_EIO, "%s: cannot list it (%s)", dir, strerror(errno));
done:
    closedir(d);
    return st;
}
