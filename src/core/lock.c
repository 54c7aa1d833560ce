/* lock.c - flock on the directory itself: it needs no lock file, and the kernel releases it when
 * the process ends, so there are no stale locks. */
#define _DEFAULT_SOURCE /* flock */
#include "core/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

musec_status ms_lock_take(ms_error *e, const char *dir, int *lock)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *lock = MS_NO_LOCK;
    if (fd < 0) return ms_fail(e, MUSEC_EIO, "%s: cannot open (%s)", dir, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *lock = fd;
        return MUSEC_OK;
    }
    const bool held = errno == EWOULDBLOCK; /* other failures: a file system without locks */
    close(fd);
    if (!held) return MUSEC_OK;
    return ms_fail(e, MUSEC_EIO,
                   "%s: another process is writing there; wait for it, or take another directory",
                   dir);
}

void ms_lock_free(int lock)
{
    if (lock != MS_NO_LOCK) close(lock);
}
