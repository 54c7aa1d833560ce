/* chips.h - the rates of a chip for musec plan, as they were measured there once. */
#ifndef MS_EXPERIMENT_CHIPS_H
#define MS_EXPERIMENT_CHIPS_H

#include "train/scaling.h"
#include "train/schedule.h"

extern const char ms_chip_choices[]; /* "h200|..." */

/* Takes the rates of a chip for this model and optimizer: of passes by floating-point operations,
 * and of optimizer steps by those of their products, as of the presets that are nearest in width.
 * Sets all of `out` but the links, what the job has of a device, and the times of params, its
 * parameters; those of matrices only where `optim` says so.  source: where the figures are from. */
musec_status ms_chip_rates(ms_error *e, const char *chip, const ms_train_config *cfg,
                           const ms_train_stage *stage, bool optim, ms_scaling_job *job,
                           ms_scaling_param *params, ms_scaling_machine *out, const char **source);
/* Sets the times of matrices so that a step of all of them takes so long, by their products, or by
 * their elements where the optimizer has none. */
void ms_scaling_share_ms(double ms, bool products, ms_scaling_param *params, size_t n);

#endif
