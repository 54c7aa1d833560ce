/* sums.h - the gradients of all ranks to their owners, while the passes that compute them go on.
 *
 * A sum of floating-point numbers depends on its order.  Where a run is deterministic, gradients
 * are therefore not accumulated by the backward pass, but each micro-batch's is computed alone, and
 * its owners add them in the order of micro-batches:
 *
 *     ((0 + 1) + 2) + 3 ...
 *
 * Micro-batch i is computed by rank i mod size, so that a round of one for each rank can be added
 * when it has been computed: an owner keeps the sum of what it owns, and no rank keeps gradients of
 * several micro-batches.  A run on one rank does the same.  Else every rank accumulates, and what
 * it has after its last round is summed by the communicator.
 *
 * Pieces go to their owners in buckets, in the order in which a backward pass completes them, each
 * as soon as it is complete (comm/async.h). */
#ifndef MS_TRAIN_SUMS_H
#define MS_TRAIN_SUMS_H

#include "train/train.h"

/* Bytes that an owner takes at a time, if no piece needs more. */
#define MS_SUMS_INBOX ((int64_t)32 << 20)

typedef struct ms_sums ms_sums;

/* The memory of sums on this rank, over all stages of a run; 0 if no step has several rounds. */
uint64_t     ms_sums_bytes(const ms_train *t);
musec_status ms_sums_create(ms_error *e, const ms_train *t, ms_sums **out);
void         ms_sums_destroy(ms_sums *s); /* accepts NULL */

/* A round: micro-batches `first` to first + size - 1, as far as there are so many, of which each
 * rank computes its own.  All ranks make all rounds, whatever they compute in them. */
void ms_sums_begin(ms_train *t, int64_t first, int64_t micro_batches);
/* During the pass: the gradients of the first n parameters of the backward order are complete. */
musec_status ms_sums_ready(ms_error *e, ms_train *t, size_t n);
/* After the pass: waits.  After the last round the model has the sums of what this rank owns; where
 * the run is deterministic, its gradients are cleared before that. */
musec_status ms_sums_end(ms_error *e, ms_train *t);

#endif
