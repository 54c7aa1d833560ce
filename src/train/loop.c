/* loop.c - the training loop:
 *
 *     for every step:  load batches -> forward and backward -> check for divergence
 *                      -> optimizer step -> validate -> log -> checkpoint
 *
 * Gradients are those of the loss summed over the tokens of a step, times 1/tokens (mean) or 1/8
 * (sum8).  A run has diverged when its loss or a gradient is not finite, when the loss is above
 * diverge_factor times the first one for diverge_steps steps in a row, or when an optimizer that
 * clips attention logits meets an infinite one.  Divergence is a result, not a failure.  A run that
 * made all its steps is judged by its losses (core/outcome.h).
 *
 * A run may be stopped inside a step and still resume bit for bit.  Until the optimizer's step
 * begins, a step has changed nothing that lasts: gradients are scratch, and the data are sought
 * back.  The optimizer's step is not interrupted.  After it only the validation may be missing.
 * Then the checkpoint stores the log line so far ("awaiting"), and the resumed run first validates,
 * with the same weights, and writes the line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/optimizers.h"
#include "train/gradients.h"
#include "train/ranks.h"
#include "train/trainer.h"

enum { MS_PER_S = 1000 };

/* ---- interruption ---------------------------------------------------------------------------- */

static bool is_out_of_time(const ms_train *t)
{
    const double limit_ms = 60.0 * MS_PER_S * t->cfg.time_limit;
    return limit_ms > 0.0 && ms_clock_ms() - t->started >= limit_ms;
}

ms_stop ms_train_asked_to_stop(const ms_train *t)
{
    const ms_stop asked = t->setup.stop == NULL ? MS_STOP_NO : t->setup.stop(t->setup.arg);
    return asked == MS_STOP_NO && is_out_of_time(t) ? MS_STOP_AFTER_STEP : asked;
}

/* Discards what the passes have accumulated since the last ms_gpt_take. */
static musec_status discard_passes(ms_error *e, ms_train *t)
{
    ms_gpt_result ignored;
    t->abandoned = true;
    return ms_train_check(e, t->ctx, ms_gpt_take(t->gpt, &ignored, NULL));
}

/* Restores the state in which the current step began. */
static musec_status abandon_step(ms_error *e, ms_train *t, const ms_progress *began)
{
    musec_status st;
    TRY(discard_passes(e, t));
    TRY(ms_mixture_seek(e, t->train, &began->position));
    t->progress = *began;
done:
    return st;
}

/* Leaves the validation of the current step, whose update is done, to the resumed run. */
static musec_status abandon_validation(ms_error *e, ms_train *t, const ms_log_line *line)
{
    t->has_pending = true;
    t->pending     = *line;
    return discard_passes(e, t);
}

ms_gpt_pass ms_train_pass(const ms_train *t, const ms_step_plan *plan)
{
    const double scale =
        t->cfg.grad_reduction == MS_REDUCTION_MEAN ? 1.0 / (double)plan->stage->batch : 1.0 / 8.0;
    ms_gpt_pass pass = { .window_short = plan->stage->window_short,
                         .window_long  = plan->stage->window_long,
                         .n_weights    = plan->n_weights,
                         .grad_scale   = scale };
    memcpy(pass.weights, plan->weights, sizeof pass.weights);
    return pass;
}

/* ---- divergence ------------------------------------------------------------------------------ */

static bool has_infinite_logit(const ms_train *t)
{
    for (int64_t i = 0; i < t->cfg.model.layers * t->cfg.model.heads; i++)
        if (t->max_logit[i] == INFINITY) return true; /* -INFINITY: there was none */
    return false;
}

/* Why the run has diverged, or NULL. */
static const char *find_divergence(ms_train *t, const ms_log_line *line)
{
    ms_progress *p = &t->progress;
    if (!isfinite(line->loss)) return "the loss is not finite";
    if (ms_train_needs_logits(&t->cfg) && has_infinite_logit(t))
        return "an attention logit is infinite, which no clipping mends";
    if (p->step == 1) p->first_loss = line->loss;
    p->too_high = line->loss > t->cfg.diverge_factor * p->first_loss ? p->too_high + 1 : 0;
    return p->too_high >= t->cfg.diverge_steps ? "the loss stays far above its first value" : NULL;
}

/* ---- the optimizer's step -------------------------------------------------------------------- */

/* The group of a parameter, by its role; reports have its name. */
static int group_of(const ms_gpt *gpt, const char *name)
{
    for (size_t i = 0; i < ms_gpt_n_params(gpt); i++) {
        const ms_gpt_tensor *p = ms_gpt_param(gpt, i);
        if (strcmp(p->name, name) != 0) continue;
        if (p->role == MUSEC_ROLE_QK) return MS_GROUP_QK;
        if (p->role == MUSEC_ROLE_VO) return MS_GROUP_VO;
        break;
    }
    return MS_GROUP_MLP;
}

static double larger(double a, double b) { return a > b || isnan(a) ? a : b; }

/* Collects the optimizer's reports of its last step by group. */
static musec_status collect_reports(ms_error *e, const ms_train *t, ms_log_line *line)
{
    const int64_t      step         = musec_optim_steps(t->optim);
    int                n[MS_GROUPS] = { 0 };
    musec_optim_report r;
    musec_status       st;

    for (size_t i = 0; (st = musec_optim_get_report(t->optim, i, &r)) == MUSEC_OK; i++) {
        if (r.step != step) continue;
        const int       which = group_of(t->gpt, r.param);
        ms_group_stats *g     = &line->groups[which];
        n[which]++;
        g->w_norm        = larger(r.weight_norm2, g->w_norm);
        g->u_norm        = larger(r.update_norm2, g->u_norm);
        g->sigma1_over_d = larger(r.sigma1_over_d, g->sigma1_over_d);
        g->u_rms += r.update_rms;
        g->u_erank += r.update_erank;
        g->u_gain += r.update_gain;
        g->share_above += r.share_above;
        line->has_groups = true;
    }
    for (int k = 0; k < MS_GROUPS; k++) {
        line->groups[k].u_rms /= n[k];
        line->groups[k].u_erank /= n[k];
        line->groups[k].u_gain /= n[k];
        line->groups[k].share_above /= n[k];
    }
    if (st == MUSEC_ENOMEM) return ms_no_memory(e, "the report of a step");
    if (st == MUSEC_EINVAL) return MUSEC_OK; /* behind the last */
    return ms_fail(e, st, "the report of a step: %s", musec_ctx_error(t->ctx));
}

/* Warns when the gain of a clip is too low for the first time. */
static void watch_gain(ms_train *t, const ms_log_line *line)
{
    double    *lowest = &t->progress.lowest_gain;
    const bool warned = *lowest < MS_GAIN_CONVERGED;
    char       note[MS_GAIN_NOTE];

    if (ms_optimizer_find(t->cfg.optim.name)->family != MS_FAMILY_CLIPPING) return;
    for (int k = 0; line->has_groups && k < MS_GROUPS; k++)
        *lowest = fmin(*lowest, line->groups[k].u_gain); /* ignores NaN */
    if (warned || !(*lowest < MS_GAIN_CONVERGED) || t->setup.log == NULL) return;
    ms_gain_note(*lowest, note);
    ms_log_say(t->setup.log, MS_LOG_NORMAL, "warning: %s", note);
}

/* MUSEC_ENONFINITE, with its message, means that the run has diverged. */
static musec_status update_weights(ms_error *e, ms_train *t, const ms_step_plan *plan,
                                   ms_log_line *line)
{
    const int64_t heads = t->cfg.model.heads, made = musec_optim_steps(t->optim);
    const double  start = ms_clock_ms();
    musec_status  st    = MUSEC_OK;

    for (int64_t l = 0; l < t->cfg.model.layers && ms_train_needs_logits(&t->cfg); l++)
        TRY(ms_train_check(
            e, t->ctx,
            musec_optim_set_logits(t->optim, (size_t)l, t->max_logit + l * heads, heads)));
    TRY(ms_train_check(e, t->ctx, musec_optim_set_beta(t->optim, plan->beta)));
    TRY(ms_train_check(
        e, t->ctx, musec_optim_step(t->optim, t->grads, ms_gpt_n_params(t->gpt), plan->lr_scale)));
    TRY(ms_train_check(e, t->ctx, musec_optim_poll(t->optim))); /* was it taken? */
    /* Without this its time would count for the next step. */
    TRY(ms_train_check(e, t->ctx, musec_ctx_sync(t->ctx)));
    if (musec_optim_steps(t->optim) > made) {
        t->weights_stale = ms_comm_of(&t->setup)->size > 1;
        TRY(collect_reports(e, t, line));
        watch_gain(t, line);
    }
done:
    line->ms_optim = ms_clock_ms() - start;
    return st;
}

/* ---- validation ------------------------------------------------------------------------------ */

/* Validates on each data set, and averages by their weights.  t->abandoned tells if it was
 * interrupted. */
static musec_status validate(ms_error *e, ms_train *t, const ms_step_plan *plan, ms_log_line *line)
{
    const ms_log_line before  = *line;
    bool              stopped = false;
    musec_status      st      = MUSEC_OK;
    line->val_loss            = 0.0;
    TRY(ms_train_finish_weights(e, t));
    for (size_t i = 0; i < ms_mixture_sets(t->val); i++) {
        TRY(ms_train_validate_set(e, t, plan, ms_mixture_set(t->val, i), &line->val_losses[i],
                                  &stopped));
        if (stopped) return abandon_validation(e, t, &before);
        line->val_loss += ms_mixture_weight(t->val, i) * line->val_losses[i];
        line->val_names[i] = ms_mixture_name(t->val, i);
    }
    line->n_val_sets = (int)ms_mixture_sets(t->val);
    line->has_val    = true;
done:
    return st;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* The better of two losses; `best` is NaN before the first one, and a NaN loss is never better. */
static double better(double best, double loss) { return isnan(best) || loss < best ? loss : best; }

static void record_losses(ms_progress *p, const ms_log_line *line)
{
    p->last_loss = line->loss;
    p->best_loss = better(p->best_loss, line->loss);
    ms_loss_track_add(&p->track, line->loss);
    if (!line->has_val) return;
    p->last_val_loss = line->val_loss;
    p->best_val_loss = better(p->best_val_loss, line->val_loss);
}

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* Writes the log line of a step that is done and validated; start: the clock when it began. */
static musec_status log_step(ms_error *e, ms_train *t, ms_log_line *line, double start)
{
    ms_outcome   outcome;
    musec_status st;

    record_losses(&t->progress, line);
    if (line->has_val) t->last_val = *line;
    line->ms_rest      = ms_clock_ms() - start - line->ms_data - line->ms_model - line->ms_optim;
    line->time_s       = t->resumed_s + (ms_clock_ms() - t->started) / MS_PER_S;
    t->progress.time_s = line->time_s;
    if (isnan(t->start_s)) t->start_s = (ms_clock_ms() - t->began) / MS_PER_S;
    TRY(ms_train_outcome(e, t, &outcome));
    if (outcome != MS_OUTCOME_DONE) line->status = ms_outcome_word(outcome);
    if (t->runlog != NULL) TRY(ms_runlog_write(e, t->runlog, line));
    if (t->setup.on_step != NULL) t->setup.on_step(t->setup.arg, line);
done:
    return st;
}

static musec_status train_step(ms_error *e, ms_train *t)
{
    const ms_step_plan plan  = ms_schedule_at(&t->schedule, t->progress.step);
    const double       start = ms_clock_ms();
    ms_progress        began = t->progress;
    ms_log_line  line = { .step = t->progress.step + 1, .lr = t->cfg.optim.lr * plan.lr_scale };
    const char  *reason;
    bool         stopped = false;
    musec_status st;

    began.position = ms_mixture_where(t->train);
    TRY(ms_train_gradients(e, t, &plan, &line, &stopped));
    if (stopped) return abandon_step(e, t, &began);
    t->progress.step++;
    reason = find_divergence(t, &line);
    if (reason == NULL) {
        st = update_weights(e, t, &plan, &line);
        if (st == MUSEC_ENONFINITE)
            reason = e->text;
        else if (st != MUSEC_OK)
            goto done;
    }
    st = MUSEC_OK;
    snprintf(t->diverged, sizeof t->diverged, "%s", reason != NULL ? reason : "");
    line.skipped = musec_optim_skipped(t->optim);
    line.tokens  = t->progress.tokens;
    line.tok_s   = (double)(line.tokens - began.tokens) * MS_PER_S /
                 (line.ms_data + line.ms_model + line.ms_optim);
    if (reason == NULL && (is_due(line.step, t->cfg.val_every) || line.step == t->schedule.steps))
        TRY(validate(e, t, &plan, &line));
    if (!t->abandoned) TRY(log_step(e, t, &line, start));
done:
    return st;
}

/* Makes the validation that the last process abandoned. */
static musec_status validate_pending(ms_error *e, ms_train *t)
{
    const ms_step_plan plan  = ms_schedule_at(&t->schedule, t->progress.step - 1);
    ms_log_line        line  = t->pending;
    const double       spent = line.ms_data + line.ms_model + line.ms_optim;
    musec_status       st;

    TRY(validate(e, t, &plan, &line));
    if (t->abandoned) goto done;
    t->has_pending = false;
    t->saved_step  = -1; /* The checkpoint still has the line as pending. */
    TRY(log_step(e, t, &line, t->started - spent));
done:
    return st;
}

static bool has_diverged(const ms_train *t) { return t->diverged[0] != '\0'; }

static musec_status save_if_due(ms_error *e, ms_train *t)
{
    if (t->setup.out == NULL || has_diverged(t) || t->abandoned ||
        !is_due(t->progress.step, t->cfg.checkpoint_every))
        return MUSEC_OK;
    return ms_train_save(e, t);
}

static ms_summary summarize(const ms_train *t, const char *status, const char *reason)
{
    return (ms_summary){ .status        = status,
                         .reason        = reason,
                         .note          = t->note[0] != '\0' ? t->note : NULL,
                         .steps         = t->progress.step,
                         .tokens        = t->progress.tokens,
                         .skipped       = musec_optim_skipped(t->optim),
                         .last_loss     = t->progress.last_loss,
                         .best_loss     = t->progress.best_loss,
                         .last_val_loss = t->progress.last_val_loss,
                         .best_val_loss = t->progress.best_val_loss,
                         .unigram_loss  = t->unigram_loss,
                         .last_val      = t->last_val.has_val ? &t->last_val : NULL,
                         .time_s        = t->progress.time_s,
                         .start_s       = t->start_s,
                         .computed      = ms_train_computed(t),
                         .data          = t->data,
                         .resumed       = t->resumed,
                         .init          = t->init };
}

/* Writes the last checkpoint and the summary; first: the step at which this process began. */
static musec_status finish(ms_error *e, ms_train *t, int64_t first, ms_summary *out)
{
    const bool   done    = t->progress.step == t->schedule.steps && !t->has_pending;
    const char  *status  = "interrupted";
    ms_outcome   outcome = MS_OUTCOME_DONE;
    musec_status st      = MUSEC_OK;

    TRY(ms_train_finish_weights(e, t));
    /* Without a step there is nothing to save: a run without checkpoints starts at step 0. */
    if (t->setup.out != NULL && !has_diverged(t) && t->progress.step > 0 &&
        t->saved_step != t->progress.step)
        TRY(ms_train_save(e, t));
    if (has_diverged(t) || done) {
        TRY(ms_train_outcome(e, t, &outcome));
        status = ms_outcome_word(outcome);
    }
    if (t->progress.lowest_gain < MS_GAIN_CONVERGED) ms_gain_note(t->progress.lowest_gain, t->note);
    *out = summarize(t, status, outcome != MS_OUTCOME_DONE ? t->reason : NULL);
    if (t->runlog != NULL) TRY(ms_runlog_sync(e, t->runlog));
    if (t->setup.out != NULL && ms_train_writes(t) &&
        !(t->progress.step == first && ms_summary_is_current(t->setup.out, out)))
        TRY(ms_summary_write(e, t->setup.out, out));
done:
    return st;
}

musec_status ms_train_run(ms_error *e, ms_train *t, ms_summary *out)
{
    const int64_t first = t->progress.step;
    ms_stop       asked = MS_STOP_NO;
    musec_status  st    = MUSEC_OK;

    t->started     = ms_clock_ms();
    t->abandoned   = false;
    t->diverged[0] = '\0';
    if (t->has_pending) {
        TRY(ms_train_agree_stop(e, t, ms_train_asked_to_stop(t), &asked));
        if (asked == MS_STOP_NO) {
            TRY(validate_pending(e, t));
            TRY(save_if_due(e, t));
        }
    }
    while (t->progress.step < t->schedule.steps && !has_diverged(t) && !t->abandoned) {
        TRY(ms_train_agree_stop(e, t, ms_train_asked_to_stop(t), &asked));
        if (asked != MS_STOP_NO) break;
        TRY(ms_train_begin_weights(e, t));
        TRY(train_step(e, t));
        TRY(save_if_due(e, t));
    }
    TRY(finish(e, t, first, out));
done:
    if (st != MUSEC_OK) ms_train_explain_failure(e, t, st);
    return st;
}
