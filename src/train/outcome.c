/* outcome.c - how a run ended, by the rules of core/outcome.h.
 *
 * The unigram loss is computed at the end, always from the same tokens, and the track of losses
 * continues from the checkpoint.  So an interrupted run ends as it would have without the
 * interruption. */
#include <math.h>
#include <stdio.h>

#include "linalg/linalg.h"
#include "train/ranks.h"
#include "train/trainer.h"

/* Raises *norm to the largest spectral norm of this parameter's matrices, estimated from below; to
 * infinity if a weight is not finite. */
static musec_status raise_norm(ms_train *t, ms_mat w, double *norm)
{
    const int    lanczos_steps = 8;
    int64_t      bad           = -1;
    double       count = 0.0, one = 0.0;
    musec_status st;

    TRY(ms_first_nonfinite(t->ctx, w, &bad, &count));
    if (bad >= 0) *norm = INFINITY;
    for (int64_t i = 0; i < w.count && isfinite(*norm); i++) {
        TRY(ms_norm2_lanczos(t->ctx, ms_mat_slice(w, i, 1), lanczos_steps, t->cfg.seed, &one));
        if (one > *norm) *norm = one;
    }
done:
    return st;
}

static musec_status weight_norm(ms_error *e, ms_train *t, double *norm)
{
    musec_status st = MUSEC_OK;
    *norm           = 0.0;
    for (size_t i = 0; i < ms_gpt_n_params(t->gpt); i++) {
        const ms_gpt_tensor *p = ms_gpt_param(t->gpt, i);
        if (p->role < MUSEC_MATRIX_ROLES)
            TRY(ms_train_check(e, t->ctx, raise_norm(t, p->weight, norm)));
    }
done:
    return st;
}

musec_status ms_train_outcome(ms_error *e, ms_train *t, ms_outcome *out)
{
    double       norm = NAN;
    musec_status st   = MUSEC_OK;

    *out = MS_OUTCOME_DONE;
    if (t->diverged[0] == '\0' && t->progress.step < t->schedule.steps) return MUSEC_OK;
    if (isnan(t->unigram_loss)) TRY(ms_mixture_unigram(e, t->train, &t->unigram_loss));
    if (t->diverged[0] != '\0') {
        snprintf(t->reason, sizeof t->reason, "%s", t->diverged);
        *out = MS_OUTCOME_DIVERGED;
    } else {
        TRY(ms_train_finish_weights(e, t));
        TRY(weight_norm(e, t, &norm));
        *out = ms_outcome_judge(&t->progress.track, t->unigram_loss, norm, t->reason);
    }
done:
    return st;
}
