/* outcome.h - the outcome of a training run: has it learned something, and kept it?
 *
 * The measure is the unigram loss: the entropy, in nats, of how often each token occurs in the
 * training data.  A model that knows nothing but these frequencies has that loss, so a run that
 * ends no better has learned nothing from the order of its tokens.  Training losses are held
 * against it, as both are of the training data; validation says nothing here, for a run that
 * overfits has not diverged.  One loss is noisy: what counts is the mean over the last ten steps
 * ("mean" below), and the least mean so far is the run's best.
 *
 *     learned     the best mean is at most 95% of the unigram loss.  The means of ten small batches
 *                 spread by 2 to 3%, so that mere noise does not pass for it
 *     diverged    it had learned, and the last mean lies nearer to the unigram loss than to its
 *                 best: more than half of what was gained is lost.  Or it never learned, and the
 *                 last mean is more than 5% above the first loss.  Or a weight matrix ends with a
 *                 spectral norm above 10000: behind RMSNorm and capped logits no loss shows that,
 *                 while what such a layer adds to the residual stream hides all else there.
 *                 Matrices begin with norms of about 2 and stay below 200 at any learning rate
 *                 worth its run; at lr 1000000 they pass 1000000.  (The training loop also ends a
 *                 run as diverged, at once, where a number is not finite or the loss stays far
 *                 above the first one.)
 *     stalled     it never learned, in 100 steps or more
 *     done        anything else
 *
 * Runs of fewer than ten steps have no mean, and only their weights can say that they diverged.
 * Of those with fewer than 100 none is stalled: at the usual learning rates pico takes 20 to 35
 * steps to pass the unigram loss, and a trial run that was still falling has not failed.
 *
 * Where the unigram loss is not known (runs of older versions), or is below 0.1, as of data that
 * repeat one token, the first loss stands in its place.  It is the higher one, as models begin near
 * the loss of a uniform guess: fewer runs are called stalled or diverged so, and none without
 * cause. */
#ifndef MS_CORE_OUTCOME_H
#define MS_CORE_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MS_TRACK_MEAN = 10, MS_TRACK_SHORT = 100 }; /* steps */

typedef struct ms_loss_track { /* of the training losses of a run; { 0 } is the beginning */
    int64_t steps;             /* losses so far */
    double  first;
    double  recent[MS_TRACK_MEAN]; /* that of step i, counted from 0, at i modulo their number */
    double  best;                  /* the least mean; of MS_TRACK_MEAN steps or more */
    int64_t best_step;             /* the last of its steps, counted from 1 */
} ms_loss_track;

/* A loss that is not finite is passed over. */
void ms_loss_track_add(ms_loss_track *t, double loss);
/* Returns the mean of the last ten losses, or NaN if there are fewer. */
double ms_loss_track_mean(const ms_loss_track *t);

typedef enum ms_outcome { MS_OUTCOME_DONE, MS_OUTCOME_STALLED, MS_OUTCOME_DIVERGED } ms_outcome;

/* unigram: NaN if it is not known. */
bool ms_outcome_learned(const ms_loss_track *t, double unigram);
enum { MS_OUTCOME_REASON = 256 };
/* Judges a run that made all its steps; `reason` is "" where it is done.  weight_norm is the
 * largest spectral norm of a weight matrix at the end; NaN if it is not known, infinite if one is
 * not finite. */
ms_outcome  ms_outcome_judge(const ms_loss_track *t, double unigram, double weight_norm,
                             char reason[MS_OUTCOME_REASON]);
const char *ms_outcome_word(ms_outcome o); /* "done", "stalled", "diverged" */

/* A clip has converged where its gain, the Frobenius norm of its result relative to that of the
 * exact clip's, is at least MS_GAIN_CONVERGED. */
#define MS_GAIN_CONVERGED 0.9
enum { MS_GAIN_NOTE = 160 };
void ms_gain_note(double gain, char note[MS_GAIN_NOTE]); /* of a clip that has not converged */

/* Returns the entropy in nats of frequencies (counts or shares, none below 0), or NaN if all are
 * 0. */
double ms_unigram_loss(const double *frequency, size_t n);

#endif
