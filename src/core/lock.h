/* lock.h - one process at a time writes into a directory. */
#ifndef MS_CORE_LOCK_H
#define MS_CORE_LOCK_H

#include "core/status.h"

enum { MS_NO_LOCK = -1 };

/* The directory becomes ours until ms_lock_free, or until the process ends in whatever way; nothing
 * is written for that.  Fails where another one holds it.  *lock is MS_NO_LOCK then, and where the
 * file system knows no locks. */
musec_status ms_lock_take(ms_error *e, const char *dir, int *lock);
void         ms_lock_free(int lock);

#endif
