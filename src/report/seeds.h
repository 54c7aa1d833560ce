/* seeds.h - settings seed by seed: the interval of a loss, and differences paired by seed. */
#ifndef MS_REPORT_SEEDS_H
#define MS_REPORT_SEEDS_H

#include "report/compare.h"
#include "report/student.h"

enum { MS_SEEDS = 32 }; /* the most that are looked at */

int64_t       ms_seed_of(const ms_run *run);
const ms_run *ms_run_of_seed(const ms_setting *s, int64_t seed); /* NULL: there is none */
/* Of the losses of a setting; NaN if a run diverged or stalled. */
ms_interval ms_loss_interval(const ms_setting *s);
/* The share by which a's loss is above b's, over the seeds that both have; NaN if there are none,
 * or one of their runs diverged or stalled. */
ms_interval ms_paired_difference(const ms_setting *a, const ms_setting *b);

#endif
