/* outcome.c - see outcome.h. */
#include "core/outcome.h"

#include <math.h>
#include <stdio.h>

#define LEARNED     0.95 /* of the unigram loss, at most */
#define ABOVE_FIRST 1.05 /* of the first loss */
#define KEPT        0.5  /* of what was gained, at least */
#define WEIGHT_NORM 1e4  /* of a matrix, at most */
#define ONE_TOKEN   0.1  /* nats: below it the data are little but one token, over and over */

double ms_loss_track_mean(const ms_loss_track *t)
{
    double sum = 0.0;
    if (t->steps < MS_TRACK_MEAN) return NAN;
    for (int i = 0; i < MS_TRACK_MEAN; i++)
        sum += t->recent[i];
    return sum / MS_TRACK_MEAN;
}

void ms_loss_track_add(ms_loss_track *t, double loss)
{
    double mean;

    if (!isfinite(loss)) return;
    if (t->steps == 0) t->first = loss;
    t->recent[t->steps++ % MS_TRACK_MEAN] = loss;
    mean                                  = ms_loss_track_mean(t);
    if (t->steps == MS_TRACK_MEAN || mean < t->best) {
        t->best      = mean;
        t->best_step = t->steps;
    }
}

static bool is_known(double unigram) { return unigram >= ONE_TOKEN; }

/* The loss that means "nothing learned". */
static double level_of(const ms_loss_track *t, double unigram)
{
    return is_known(unigram) ? unigram : t->first;
}

bool ms_outcome_learned(const ms_loss_track *t, double unigram)
{
    return t->steps >= MS_TRACK_MEAN && t->best <= LEARNED * level_of(t, unigram);
}

/* Judges a run by its losses alone. */
static ms_outcome judge_losses(const ms_loss_track *t, double unigram,
                               char reason[MS_OUTCOME_REASON])
{
    const double      last = ms_loss_track_mean(t), level = level_of(t, unigram);
    const char *const name = is_known(unigram) ? "the unigram loss" : "its first loss";

    if (t->steps < MS_TRACK_MEAN) return MS_OUTCOME_DONE;
    if (ms_outcome_learned(t, unigram)) {
        if (last <= level - KEPT * (level - t->best)) return MS_OUTCOME_DONE;
        snprintf(reason, MS_OUTCOME_REASON,
                 "its loss was %.4f at step %lld and ends at %.4f, nearer to %s of %.4f (means of "
                 "ten steps)",
                 t->best, (long long)t->best_step, last, name, level);
        return MS_OUTCOME_DIVERGED;
    }
    if (last > ABOVE_FIRST * t->first) {
        snprintf(reason, MS_OUTCOME_REASON,
                 "its loss began at %.4f and ends above that, at %.4f (mean of ten steps)",
                 t->first, last);
        return MS_OUTCOME_DIVERGED;
    }
    if (t->steps < MS_TRACK_SHORT) return MS_OUTCOME_DONE;
    snprintf(reason, MS_OUTCOME_REASON,
             "its loss never fell 5%% below %s of %.4f (best mean of ten steps: %.4f)", name, level,
             t->best);
    return MS_OUTCOME_STALLED;
}

ms_outcome ms_outcome_judge(const ms_loss_track *t, double unigram, double weight_norm,
                            char reason[MS_OUTCOME_REASON])
{
    reason[0] = '\0';
    if (!(weight_norm > WEIGHT_NORM)) return judge_losses(t, unigram, reason);
    if (isinf(weight_norm))
        snprintf(reason, MS_OUTCOME_REASON, "a weight is not finite at the end");
    else
        snprintf(reason, MS_OUTCOME_REASON,
                 "the spectral norm of a weight has grown to %.3g, above %.0f", weight_norm,
                 WEIGHT_NORM);
    return MS_OUTCOME_DIVERGED;
}

const char *ms_outcome_word(ms_outcome o)
{
    static const char *const names[] = { "done", "stalled", "diverged" };
    return names[o];
}

void ms_gain_note(double gain, char note[MS_GAIN_NOTE])
{
    snprintf(note, MS_GAIN_NOTE,
             "the clip has not converged: its updates have %.2g of the norm of the exact clip's; "
             "--ns-mode accurate or exact",
             gain);
}

double ms_unigram_loss(const double *frequency, size_t n)
{
    double sum = 0.0, entropy = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += frequency[i];
    for (size_t i = 0; i < n; i++)
        if (frequency[i] > 0.0) entropy -= frequency[i] / sum * log(frequency[i] / sum);
    return sum > 0.0 ? entropy : NAN;
}
