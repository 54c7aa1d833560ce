/* gradients.h - the gradients of a step, from the micro-batches of all ranks. */
#ifndef MS_TRAIN_GRADIENTS_H
#define MS_TRAIN_GRADIENTS_H

#include "train/schedule.h"
#include "train/train.h"

/* The losses of a micro-batch, or of all of a rank: objective, loss, number of tokens. */
enum { MS_LOSS_RECORD = 3, MS_LOSSES = 2 };
/* The records that a step may have. */
int64_t ms_train_records(const ms_train *t);

/* Computes the gradients of a step over all its micro-batches, as far as this rank owns them, and
 * the losses and logits of its log line.  *stopped: a rank was asked to stop now, and nothing of
 * this is of use. */
musec_status ms_train_gradients(ms_error *e, ms_train *t, const ms_step_plan *plan,
                                ms_log_line *line, bool *stopped);
/* The loss of the weights on one data set; *stopped as above. */
musec_status ms_train_validate_set(ms_error *e, ms_train *t, const ms_step_plan *plan,
                                   ms_loader *set, double *loss, bool *stopped);

#endif
