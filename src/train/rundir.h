/* rundir.h - checks that a directory is a run, and suggests another one if it is not. */
#ifndef MS_TRAIN_RUNDIR_H
#define MS_TRAIN_RUNDIR_H

#include "core/status.h"

/* Fails if `path` is no run directory.  The message says what it is instead, what a run directory
 * contains, and which runs are nearby. */
musec_status ms_rundir_check(ms_error *e, const char *path);

#endif
