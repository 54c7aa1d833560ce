/* ranks.h - a training run on several ranks: who owns what, and what they tell each other.
 *
 * Every rank has all weights, computes the gradients of its own micro-batches (gradients.h), owns
 * some of the parameters, makes the optimizer's step of those, and gets the others' from their
 * owners.  What a rank decides by is the same on all: losses, logits, reports and requests to stop.
 * Rank 0 alone writes files.
 *
 * Where a run is not deterministic, the ranks of each machine may own all there is among them, as
 * those of every other one do: replicas (comm/replicas.c).  Then gradients are summed within a
 * machine and then across, and weights stay within. */
#ifndef MS_TRAIN_RANKS_H
#define MS_TRAIN_RANKS_H

#include "comm/comm.h"
#include "train/trainer.h"

/* The ranks of a run; `self` where the setup names none. */
static inline ms_comm *ms_comm_of(const ms_train_setup *setup)
{
    return setup->comm != NULL ? setup->comm : ms_comm_self();
}

/* Those among whom parameters are dealt: the ranks of the run, or of its replica. */
static inline ms_comm *ms_owners_of(const ms_train *t)
{
    return t->group != NULL ? t->group : ms_comm_of(&t->setup);
}

/* Chooses the replicas: those that were asked for, or those of the machines. */
musec_status ms_train_choose_replicas(ms_error *e, ms_train *t);

/* Deals n things of these costs to `size` ranks: the most expensive first, each to the rank that
 * has least to do so far.  Things of one kind follow each other where costs are equal, and an
 * equally idle rank that has some of a kind is preferred, so that what is batched stays together;
 * of a kind, whose things all have one cost, a rank has neighbours.  Fails for want of memory
 * alone. */
musec_status ms_deal(ms_error *e, const double *cost, const int *kind, size_t n, int size,
                     int *owner);

/* Milliseconds of a step of one such parameter: the second one of an optimizer that has no other,
 * as the first takes memory. */
musec_status ms_train_time_step(ms_error *e, const ms_train *t, const ms_gpt_tensor *p, double *ms);

/* Chooses the owners of the model's parameters by what a step of each costs here, measured on rank
 * 0.  *out: by parameter, to be freed; NULL for a run on one rank.  Embedding and head, which are
 * updated element by element, are split.  Where the bits of a matrix depend on what is in a call
 * with it and the run is deterministic, the matrices of a call stay together. */
musec_status ms_train_deal(ms_error *e, ms_train *t, int **out);

/* Lists the pieces of the gradients, in the order in which the backward pass completes them, and
 * those of the weights, in the reverse order.  On one rank all gradients are one piece. */
musec_status ms_train_pieces(ms_error *e, ms_train *t);

/* After a step owners have new weights: all ranks begin to send them, in the order in which a
 * forward pass reads them, and go on while they come. */
musec_status ms_train_begin_weights(ms_error *e, ms_train *t);
/* Waits for those from number n of the backward order on. */
musec_status ms_train_want_weights(ms_error *e, ms_train *t, size_t n);
/* Both, for all weights. */
musec_status ms_train_finish_weights(ms_error *e, ms_train *t);

/* The strongest request to stop of all ranks. */
musec_status ms_train_agree_stop(ms_error *e, const ms_train *t, ms_stop mine, ms_stop *out);

/* Fails unless all ranks have the same config and the same data. */
musec_status ms_train_agree_inputs(ms_error *e, const ms_train *t);

/* Tells how evenly the work is dealt: "4 ranks (mpi): ...", or "" for one. */
musec_status ms_train_describe_ranks(ms_error *e, ms_train *t, char *text, size_t bytes);

#endif
