/* rundir.h - is a directory that of a run, and if not, which one may be meant? */
#ifndef MS_TRAIN_RUNDIR_H
#define MS_TRAIN_RUNDIR_H

#include "core/status.h"

/* Fails where `path` is no run directory, as far as its name and files tell: says what it is
 * instead, what a run directory looks like, and which runs are nearby. */
musec_status ms_rundir_check(ms_error *e, const char *path);

#endif
