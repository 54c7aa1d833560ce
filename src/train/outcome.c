/* outcome.c - how a run ended, by core/outcome.h, and what checkpoints keep for it.
 *
 * The unigram loss is counted at the end, always from the same tokens; the track of the losses goes
 * on from the checkpoint.  So a run that was interrupted ends as it would have without that.
 * Checkpoints of older versions have no track: theirs begins when they go on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/linalg.h"
#include "train/trainer.h"

/* ---- how it ended ---------------------------------------------------------------------------- */

static bool is_matrix(const ms_gpt_tensor *p)
{
    return p->role == MUSEC_ROLE_QK || p->role == MUSEC_ROLE_VO || p->role == MUSEC_ROLE_MLP;
}

/* The largest spectral norm of a matrix of this parameter, if it is above *norm: an estimate that
 * is never too large.  Infinite if it is not finite. */
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
        if (is_matrix(p)) TRY(ms_train_check(e, t->ctx, raise_norm(t, p->weight, norm)));
    }
done:
    return st;
}

musec_status ms_train_judge(ms_error *e, ms_train *t, ms_outcome *out)
{
    double       norm = NAN;
    musec_status st   = MUSEC_OK;

    *out = MS_OUTCOME_DONE;
    if (t->why[0] == '\0' && t->progress.step < t->schedule.steps) return MUSEC_OK;
    if (isnan(t->unigram_loss)) TRY(ms_mixture_unigram(e, t->train, &t->unigram_loss));
    if (t->why[0] != '\0') { /* it ended before its time */
        snprintf(t->reason, sizeof t->reason, "%s", t->why);
        *out = MS_OUTCOME_DIVERGED;
    } else {
        TRY(weight_norm(e, t, &norm));
        *out = ms_outcome_judge(&t->progress.track, t->unigram_loss, norm, t->reason);
    }
done:
    return st;
}

/* ---- the track and JSON ---------------------------------------------------------------------- */

json_t *ms_train_real_json(double x)
{
    char text[40];
    snprintf(text, sizeof text, "%a", x);
    return json_string(text);
}

bool ms_train_read_real(const json_t *value, double *out)
{
    const char *text = json_string_value(value);
    char       *end  = NULL;
    if (text == NULL) return false;
    *out = strtod(text, &end);
    return end != text && *end == '\0';
}

void ms_train_put_track(const ms_train *t, json_t *state)
{
    const ms_loss_track *track  = &t->progress.track;
    json_t              *recent = json_array();

    for (int i = 0; i < MS_TRACK_MEAN; i++)
        json_array_append_new(recent, ms_train_real_json(track->recent[i]));
    json_object_set_new(state, "track",
                        json_pack("{s:I, s:o, s:o, s:o, s:I}", "steps", (json_int_t)track->steps,
                                  "first", ms_train_real_json(track->first), "recent", recent,
                                  "best", ms_train_real_json(track->best), "best_step",
                                  (json_int_t)track->best_step));
}

musec_status ms_train_read_track(ms_error *e, const ms_checkpoint *c, ms_loss_track *out)
{
    const json_t *track  = json_object_get(c->state, "track");
    const json_t *recent = json_object_get(track, "recent");
    json_int_t    steps = 0, best_step = 0;
    bool          ok;

    *out = (ms_loss_track){ 0 };
    if (track == NULL) return MUSEC_OK;
    ok = json_unpack((json_t *)track, "{s:I, s:I}", "steps", &steps, "best_step", &best_step) == 0;
    ok = ok && steps >= 0 && ms_train_read_real(json_object_get(track, "first"), &out->first) &&
         ms_train_read_real(json_object_get(track, "best"), &out->best);
    for (size_t i = 0; ok && i < MS_TRACK_MEAN; i++)
        ok = ms_train_read_real(json_array_get(recent, i), &out->recent[i]);
    if (!ok)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s/state.json: \"track\" must have steps, first, recent (%d), best and "
                       "best_step; remove it, and the losses are tracked from there on",
                       c->dir, MS_TRACK_MEAN);
    out->steps     = steps;
    out->best_step = best_step;
    return MUSEC_OK;
}
