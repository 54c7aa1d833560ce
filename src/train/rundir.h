/* rundir.h - checks that a directory is a run, and suggests another one if it is not. */
#ifndef MS_TRAIN_RUNDIR_H
#define MS_TRAIN_RUNDIR_H

#include <stdbool.h>

#include "core/status.h"

/* Whether a directory has an entry of this name. */
bool ms_rundir_has(const char *dir, const char *name);
/* Fails if `path` is no run directory.  The message says what it is instead, what a run directory
 * contains, and which runs are nearby. */
musec_status ms_rundir_check(ms_error *e, const char *path);

#endif
