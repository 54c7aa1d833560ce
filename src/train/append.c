/* append.c - see append.h.  This does not use stdio: after a failed flush its buffer still holds an
 * unknown part of the record, which closing the file would write. */
#define _POSIX_C_SOURCE 200809L
#include "train/append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static musec_status failed(ms_error *e, const ms_append *a, const char *what, int why)
{
    const char *hint = why == ENOSPC || why == EDQUOT ? "; free some space and resume the run" : "";
    return ms_fail(e, MUSEC_EIO, "%s: cannot %s (%s)%s", a->path, what, strerror(why), hint);
}

musec_status ms_append_open(ms_error *e, const char *path, bool anew, ms_append *out)
{
    const int    flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (anew ? O_TRUNC : 0);
    struct stat  sb    = { 0 };
    musec_status st    = MUSEC_OK;

    out->fd = -1;
    if (strlen(path) >= sizeof out->path)
        return ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", path);
    memcpy(out->path, path, strlen(path) + 1);
    out->fd = open(path, flags, 0666);
    if (out->fd < 0) return failed(e, out, "open for writing", errno);
    if (fstat(out->fd, &sb) != 0) {
        st = failed(e, out, "open for writing", errno);
        close(out->fd);
        out->fd = -1;
    }
    out->bytes = (int64_t)sb.st_size;
    return st;
}

musec_status ms_append_write(ms_error *e, ms_append *a, const void *record, size_t bytes)
{
    const char *p = record;

    for (size_t put = 0; put < bytes;) {
        const ssize_t n = write(a->fd, p + put, bytes - put);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            const int why = n == 0 ? EIO : errno;
            if (ftruncate(a->fd, (off_t)a->bytes) != 0) errno = 0; /* a device: nothing to undo */
            return failed(e, a, "write", why);
        }
        put += (size_t)n;
    }
    a->bytes += (int64_t)bytes;
    return MUSEC_OK;
}

musec_status ms_append_sync(ms_error *e, ms_append *a)
{
    if (fsync(a->fd) == 0 || errno == EINVAL || errno == ENOTSUP) return MUSEC_OK; /* a device */
    return failed(e, a, "write", errno);
}

musec_status ms_append_close(ms_error *e, ms_append *a)
{
    musec_status st;

    if (a->fd < 0) return MUSEC_OK;
    st = ms_append_sync(e, a);
    if (close(a->fd) != 0 && st == MUSEC_OK) st = failed(e, a, "write", errno);
    a->fd = -1;
    return st;
}
