/* lock.h - one process at a time writes into a directory. */
#ifndef MS_CORE_LOCK_H
#define MS_CORE_LOCK_H

#include "core/status.h"

enum { MS_NO_LOCK = -1 };

/* Locks the directory until ms_lock_free or the end of the process; no file is written.  Fails if
 * another process holds the lock.  *lock is MS_NO_LOCK then, and on a file system without locks. */
musec_status ms_lock_take(ms_error *e, const char *dir, int *lock);
void         ms_lock_free(int lock);

#endif
