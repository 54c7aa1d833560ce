/* loop.c - the training loop.
 *
 * Gradients are those of the loss summed over the tokens of a step, times 1/tokens (mean) or 1/8
 * (sum8).  A run has diverged when its loss is not finite, a gradient is not, the loss is above
 * diverge_factor times the first one for diverge_steps steps in a row, or an optimizer that clips
 * attention logits meets an infinite one; that is a result, not a failure.  One that made all its
 * steps is judged by its losses (core/outcome.h). */
#define _POSIX_C_SOURCE 200809L /* stat, rmdir */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "train/trainer.h"

enum { MS_PER_S = 1000 };

/* ---- one step -------------------------------------------------------------------------------- */

typedef struct step_times {
    double data, model, optim;
} step_times;

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

static musec_status run_batch(ms_error *e, ms_train *t, const ms_batch *batch,
                              const ms_gpt_pass *pass)
{
    const ms_gpt_batch b = { batch->inputs, batch->targets, batch->doc, batch->tokens };
    return ms_train_check(e, t->ctx, ms_gpt_run(t->gpt, &b, pass));
}

/* The gradients of a step, and what the forward passes have measured; nothing of use if the step is
 * to be abandoned. */
static musec_status gradients(ms_error *e, ms_train *t, const ms_step_plan *plan, ms_log_line *line,
                              step_times *times)
{
    ms_gpt_pass   pass  = ms_train_pass(t, plan);
    const double  start = ms_clock_ms();
    ms_gpt_result result;
    ms_batch      batch = { 0 };
    musec_status  st;

    pass.stop     = ms_train_stops_pass;
    pass.stop_arg = t;
    TRY(ms_train_check(e, t->ctx, ms_gpt_zero_grad(t->gpt)));
    for (int64_t i = 0; i < plan->stage->micro_batches && !ms_train_stops_now(t); i++) {
        const double asks = ms_clock_ms();
        TRY(ms_mixture_next(e, t->train, plan->tokens, plan->stage->max_doc, &batch));
        times->data += ms_clock_ms() - asks;
        if (batch.epoch > line->epoch) line->epoch = batch.epoch;
        TRY(run_batch(e, t, &batch, &pass));
    }
    if (ms_train_stops_now(t)) goto done;
    TRY(ms_train_check(e, t->ctx, ms_gpt_take(t->gpt, &result, t->max_logit)));
    times->model    = ms_clock_ms() - start - times->data;
    line->loss      = result.loss / (double)result.tokens;
    line->objective = result.objective / (double)result.tokens;
    line->max_logit = -INFINITY;
    for (int64_t i = 0; i < t->cfg.model.layers * t->cfg.model.heads; i++)
        if (t->max_logit[i] > line->max_logit || isnan(t->max_logit[i]))
            line->max_logit = t->max_logit[i];
    t->progress.tokens += result.tokens;
done:
    return st;
}

/* ENONFINITE is passed on with its words: the run has diverged. */
static musec_status update(ms_error *e, ms_train *t, const ms_step_plan *plan)
{
    const int64_t heads = t->cfg.model.heads;
    musec_status  st    = MUSEC_OK;
    for (int64_t l = 0; l < t->cfg.model.layers && ms_train_clips_logits(&t->cfg); l++)
        TRY(ms_train_check(
            e, t->ctx,
            musec_optim_set_logits(t->optim, (size_t)l, t->max_logit + l * heads, heads)));
    TRY(ms_train_check(e, t->ctx, musec_optim_set_beta(t->optim, plan->beta)));
    TRY(ms_train_check(
        e, t->ctx, musec_optim_step(t->optim, t->grads, ms_gpt_n_params(t->gpt), plan->lr_scale)));
    TRY(ms_train_check(e, t->ctx,
                       musec_ctx_sync(t->ctx))); /* or its time would be the next step's */
done:
    return st;
}

/* ---- what was measured ----------------------------------------------------------------------- */

/* By the role of the parameter, which a report has the name of. */
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

/* Of the step that the optimizer has just made. */
static void gather_groups(const ms_train *t, ms_log_line *line)
{
    const int64_t      step         = musec_optim_steps(t->optim);
    int                n[MS_GROUPS] = { 0 };
    musec_optim_report r;

    for (size_t i = 0; musec_optim_get_report(t->optim, i, &r) == MUSEC_OK; i++) {
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
}

/* ---- validation ------------------------------------------------------------------------------ */

/* The loss on one set of data; none if the run is to stop now. */
static musec_status validate_set(ms_error *e, ms_train *t, const ms_step_plan *plan, ms_loader *set,
                                 double *loss)
{
    const ms_gpt_pass pass  = { .window_short = plan->stage->window_short,
                                .window_long  = plan->stage->window_long,
                                .n_weights    = 1,
                                .weights      = { 1.0 },
                                .stop         = ms_train_stops_pass,
                                .stop_arg     = t };
    const int64_t     chunk = t->schedule.max_tokens;
    ms_gpt_result     result;
    ms_batch          batch;
    musec_status      st;

    TRY(ms_loader_seek(e, set, (ms_position){ 0 }));
    for (int64_t left = t->cfg.val_tokens; left > 0; left -= batch.tokens) {
        TRY(ms_loader_next(e, set, left < chunk ? left : chunk, chunk, &batch));
        if (batch.tokens == 0) break;
        TRY(run_batch(e, t, &batch, &pass));
        if (ms_train_stops_now(t)) goto done;
    }
    TRY(ms_train_check(e, t->ctx, ms_gpt_take(t->gpt, &result, NULL)));
    *loss = result.loss / (double)result.tokens;
done:
    return st;
}

/* On each set, and together by their weights.  Where it is abandoned, t->abandoned says so. */
static musec_status validate(ms_error *e, ms_train *t, const ms_step_plan *plan, ms_log_line *line)
{
    const ms_log_line before = *line;
    musec_status      st     = MUSEC_OK;
    line->val_loss           = 0.0;
    for (size_t i = 0; i < ms_mixture_sets(t->val); i++) {
        TRY(validate_set(e, t, plan, ms_mixture_set(t->val, i), &line->val_losses[i]));
        if (ms_train_stops_now(t)) return ms_train_abandon_validation(e, t, &before);
        line->val_loss += ms_mixture_weight(t->val, i) * line->val_losses[i];
        line->val_names[i] = ms_mixture_name(t->val, i);
    }
    line->n_val_sets = (int)ms_mixture_sets(t->val);
    line->has_val    = true;
done:
    return st;
}

/* ---- the guard ------------------------------------------------------------------------------- */

static bool has_infinite_logit(const ms_train *t)
{
    for (int64_t i = 0; i < t->cfg.model.layers * t->cfg.model.heads; i++)
        if (t->max_logit[i] == INFINITY) return true; /* -INFINITY: none was seen */
    return false;
}

/* Why the run has diverged, or NULL. */
static const char *guard(ms_train *t, const ms_log_line *line)
{
    ms_progress *p = &t->progress;
    if (!isfinite(line->loss)) return "the loss is not finite";
    if (ms_train_clips_logits(&t->cfg) && has_infinite_logit(t))
        return "an attention logit is infinite, which no clipping mends";
    if (p->step == 1) p->first_loss = line->loss;
    p->too_high = line->loss > t->cfg.diverge_factor * p->first_loss ? p->too_high + 1 : 0;
    return p->too_high >= t->cfg.diverge_steps ? "the loss stays far above its first value" : NULL;
}

/* best: NaN if there is none yet; a loss that is NaN is none. */
static double better(double best, double loss) { return isnan(best) || loss < best ? loss : best; }

static void note_losses(ms_progress *p, const ms_log_line *line)
{
    p->last_loss = line->loss;
    p->best_loss = better(p->best_loss, line->loss);
    ms_loss_track_add(&p->track, line->loss);
    if (!line->has_val) return;
    p->last_val_loss = line->val_loss;
    p->best_val_loss = better(p->best_val_loss, line->val_loss);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* A step that is made and validated is written down.  start: the clock when this process began with
 * it. */
static musec_status write_down(ms_error *e, ms_train *t, ms_log_line *line, double start)
{
    ms_outcome   outcome;
    musec_status st;

    note_losses(&t->progress, line);
    if (line->has_val) t->last_val = *line;
    line->ms_rest      = ms_clock_ms() - start - line->ms_data - line->ms_model - line->ms_optim;
    line->time_s       = t->resumed_s + (ms_clock_ms() - t->started) / MS_PER_S;
    t->progress.time_s = line->time_s;
    if (isnan(t->start_s)) t->start_s = (ms_clock_ms() - t->began) / MS_PER_S;
    TRY(ms_train_judge(e, t, &outcome));
    if (outcome != MS_OUTCOME_DONE) line->status = ms_outcome_word(outcome);
    if (t->runlog != NULL) TRY(ms_runlog_write(e, t->runlog, line));
    if (t->setup.on_step != NULL) t->setup.on_step(t->setup.arg, line);
done:
    return st;
}

/* One step and all that follows from it.  *why: the run has diverged. */
static musec_status step_once(ms_error *e, ms_train *t, char *why, size_t why_bytes)
{
    const ms_step_plan plan  = ms_schedule_at(&t->schedule, t->progress.step);
    const double       start = ms_clock_ms();
    ms_progress        began = t->progress;
    step_times         times = { 0 };
    ms_log_line  line = { .step = t->progress.step + 1, .lr = t->cfg.optim.lr * plan.lr_scale };
    const char  *reason;
    musec_status st;

    began.position = ms_mixture_where(t->train);
    TRY(gradients(e, t, &plan, &line, &times));
    if (ms_train_stops_now(t)) return ms_train_abandon_step(e, t, &began);
    t->progress.step++;
    reason = guard(t, &line);
    if (reason == NULL) {
        const double  begins = ms_clock_ms();
        const int64_t made   = musec_optim_steps(t->optim);
        st                   = update(e, t, &plan);
        times.optim          = ms_clock_ms() - begins;
        if (st == MUSEC_ENONFINITE) reason = e->text;
        if (st != MUSEC_OK && reason == NULL) goto done;
        if (reason == NULL && musec_optim_steps(t->optim) > made) gather_groups(t, &line);
    }
    line.skipped = musec_optim_skipped(t->optim);
    snprintf(why, why_bytes, "%s", reason != NULL ? reason : "");
    line.tokens   = t->progress.tokens;
    line.ms_data  = times.data;
    line.ms_model = times.model;
    line.ms_optim = times.optim;
    line.tok_s =
        (double)(line.tokens - began.tokens) * MS_PER_S / (times.data + times.model + times.optim);
    st = MUSEC_OK;
    if (reason == NULL && (is_due(line.step, t->cfg.val_every) || line.step == t->schedule.steps))
        TRY(validate(e, t, &plan, &line));
    if (!t->abandoned) TRY(write_down(e, t, &line, start));
done:
    return st;
}

/* The validation that the last process abandoned. */
static musec_status validate_awaiting(ms_error *e, ms_train *t)
{
    const ms_step_plan plan  = ms_schedule_at(&t->schedule, t->progress.step - 1);
    ms_log_line        line  = t->awaiting;
    const double       spent = line.ms_data + line.ms_model + line.ms_optim;
    musec_status       st;

    TRY(validate(e, t, &plan, &line));
    if (t->abandoned) goto done;
    t->unvalidated = false;
    t->saved_step  = -1; /* the checkpoint says that it awaits it */
    TRY(write_down(e, t, &line, t->started - spent));
done:
    return st;
}

static bool wants_stop(const ms_train *t)
{
    return t->setup.stop != NULL && t->setup.stop(t->setup.arg) != MS_STOP_NO;
}

static musec_status save_if_due(ms_error *e, ms_train *t)
{
    const bool is_whole = t->why[0] == '\0' && !t->abandoned;
    if (t->setup.out == NULL || !is_whole || !is_due(t->progress.step, t->cfg.checkpoint_every))
        return MUSEC_OK;
    return ms_train_save(e, t);
}

musec_status ms_train_run(ms_error *e, ms_train *t, ms_summary *out)
{
    char *const   why     = t->why;
    const int64_t first   = t->progress.step;
    const char   *status  = "interrupted";
    ms_outcome    outcome = MS_OUTCOME_DONE;
    musec_status  st      = MUSEC_OK;

    t->started   = ms_clock_ms();
    t->abandoned = false;
    why[0]       = '\0';
    if (t->unvalidated && !wants_stop(t)) {
        TRY(validate_awaiting(e, t));
        TRY(save_if_due(e, t));
    }
    while (t->progress.step < t->schedule.steps && why[0] == '\0' && !t->abandoned &&
           !wants_stop(t)) {
        TRY(step_once(e, t, why, sizeof t->why));
        TRY(save_if_due(e, t));
    }
    const bool done = t->progress.step == t->schedule.steps && !t->unvalidated;
    /* without a step there is nothing to keep: a run without checkpoints begins at 0 */
    if (t->setup.out != NULL && why[0] == '\0' && t->progress.step > 0 &&
        t->saved_step != t->progress.step)
        TRY(ms_train_save(e, t));
    if (why[0] != '\0' || done) {
        TRY(ms_train_judge(e, t, &outcome));
        status = ms_outcome_word(outcome);
    }
    *out = (ms_summary){ .status        = status,
                         .reason        = outcome != MS_OUTCOME_DONE ? t->reason : NULL,
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
    if (t->runlog != NULL) TRY(ms_runlog_sync(e, t->runlog));
    if (t->setup.out != NULL &&
        !(t->progress.step == first && ms_summary_stands(t->setup.out, out)))
        TRY(ms_summary_write(e, t->setup.out, out));
done:
    if (st != MUSEC_OK) ms_train_tell_failure(e, t, st);
    return st;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* A run that could not begin leaves no directory behind. */
static void remove_directory(ms_train *t)
{
    static const char *const files[] = { "log.jsonl", "events.out.tfevents.musec" };
    char                     path[MS_PATH_MAX + 32];

    (void)ms_runlog_close(NULL, t->runlog);
    t->runlog = NULL;
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", t->setup.out, files[i]);
        (void)remove(path);
    }
    (void)rmdir(t->setup.out);
}

/* That of a run that goes on is not true any more. */
static void forget_summary(const ms_train *t)
{
    char path[MS_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/summary.json", t->setup.out);
    (void)remove(path);
}

/* May a run begin there?  `config` becomes the path of its config.json. */
static musec_status check_directory(ms_error *e, const ms_train *t, char config[MS_PATH_MAX])
{
    struct stat info;

    if (snprintf(config, MS_PATH_MAX, "%s/config.json", t->setup.out) >= MS_PATH_MAX)
        return ms_fail(e, MUSEC_EINVAL, "%s: the name is too long", t->setup.out);
    if (!t->setup.resume && stat(config, &info) == 0)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s: there is a run already; go on with --resume %s, or take another --out",
                       t->setup.out, t->setup.out);
    if (stat(t->setup.out, &info) == 0 && !S_ISDIR(info.st_mode))
        return ms_fail(e, MUSEC_EIO, "%s: is no directory; take another name", t->setup.out);
    return MUSEC_OK;
}

static musec_status open_directory(ms_error *e, ms_train *t)
{
    char         path[MS_PATH_MAX];
    struct stat  info;
    bool         made = false;
    musec_status st;

    TRY(check_directory(e, t, path)); /* again: another run may have begun there meanwhile */
    made = t->made_out || stat(t->setup.out, &info) != 0;
    TRY(ms_directory_make(e, t->setup.out));
    if (t->lock == MS_NO_LOCK) TRY(ms_lock_take(e, t->setup.out, &t->lock));
    /* a step that awaits its validation has no line yet */
    TRY(ms_runlog_open(e, t->setup.out, t->progress.step - (t->unvalidated ? 1 : 0), &t->runlog));
    TRY(ms_train_config_write(e, path, &t->cfg)); /* last: it makes the directory a run */
    if (t->progress.step < t->schedule.steps || t->unvalidated) forget_summary(t);
    t->resumed_s = t->progress.time_s = ms_runlog_time(t->runlog);
done:
    if (st != MUSEC_OK && made) remove_directory(t);
    return st;
}

musec_status ms_train_open(ms_error *e, const ms_train_setup *setup, ms_train **out)
{
    ms_train    *t       = calloc(1, sizeof *t);
    ms_restart   restart = { .from = { .step = -1 } };
    char         path[MS_PATH_MAX];
    musec_status st;

    *out = NULL;
    if (t == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    *t = (ms_train){ .setup        = *setup,
                     .cfg          = setup->config,
                     .progress     = { .last_loss     = NAN,
                                       .best_loss     = NAN,
                                       .last_val_loss = NAN,
                                       .best_val_loss = NAN },
                     .began        = setup->began > 0.0 ? setup->began : ms_clock_ms(),
                     .start_s      = NAN,
                     .unigram_loss = NAN,
                     .saved_step   = -1,
                     .lock         = MS_NO_LOCK };
    if (setup->out != NULL) TRY(check_directory(e, t, path)); /* before anything is said */
    if (setup->resume) {
        TRY(ms_lock_take(e, setup->out, &t->lock));
        TRY(ms_train_find_restart(e, t, &restart));
    }
    TRY(ms_train_build(e, t, 0));
    TRY(ms_train_announce(e, t, restart.from.step > 0 ? restart.from.step : 0));
    TRY(ms_train_identify(e, t));
    if (restart.from.step >= 0) TRY(ms_train_restore(e, t, &restart));
    if (restart.from.step < 0) TRY(ms_train_start_weights(e, t));
    if (setup->out != NULL) TRY(open_directory(e, t));
    if (t->note[0] != '\0' && setup->log != NULL)
        ms_log_say(setup->log, MS_LOG_NORMAL, "%s", t->note);
    *out = t;
    t    = NULL;
done:
    ms_checkpoint_close(&restart.from);
    if (t != NULL) ms_train_tell_failure(e, t, st);
    if (t != NULL && t->made_out) remove_directory(t);
    ms_train_close(t);
    return st;
}

int64_t ms_train_step(const ms_train *t) { return t->progress.step; }

void ms_train_close(ms_train *t)
{
    ms_error ignored;
    if (t == NULL) return;
    ms_runlog_close(&ignored, t->runlog);
    ms_lock_free(t->lock);
    ms_train_unbuild(t);
    free(t);
}
