/* flat.h - all numbers of runs as two flat tables, for a program that draws its own figures. */
#ifndef MS_REPORT_FLAT_H
#define MS_REPORT_FLAT_H

#include "report/runset.h"

/* DIR/steps.csv has a row for each step of each run, DIR/groups.csv one for each group of matrices
 * at each step that was measured (docs/formats.md).  times: with the columns that differ when the
 * same runs are made again.  The directory is made if it does not exist. */
musec_status ms_flat_write(ms_error *e, const ms_runset *set, const char *dir, bool times);

#endif
