/* gradients.c - see gradients.h.
 *
 * A step has the same micro-batches whatever the number of ranks; ranks compute them by turns, and
 * each reads past those of the others.  Where the run is deterministic, gradients (sums.h) and
 * losses are added in the order of micro-batches; the losses of each stay on the device until the
 * last one, so that the host need not wait in between.  Else every rank accumulates, and sums are
 * those of the communicator. */
#include "train/gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/async.h"
#include "core/clock.h"
#include "core/grow.h"
#include "core/size.h"
#include "train/ranks.h"
#include "train/sums.h"
#include "train/trainer.h"

enum { RECORD = MS_LOSS_RECORD };

/* ---- results --------------------------------------------------------------------------------- */

/* Raises the largest logits, where NaN is above all. */
static void raise_logits(double *max, const double *logits, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (logits[i] > max[i] || isnan(logits[i])) max[i] = logits[i];
}

/* Takes the results since the last time into a record and the largest logits of the step. */
static musec_status take_results(ms_error *e, ms_train *t, double record[RECORD])
{
    const int64_t heads = t->cfg.model.layers * t->cfg.model.heads;
    ms_gpt_result result;
    musec_status  st;

    TRY(ms_train_check(e, t->ctx, ms_gpt_take(t->gpt, &result, t->pass_logit)));
    raise_logits(t->max_logit, t->pass_logit, heads);
    record[0] = result.objective;
    record[1] = result.loss;
    record[2] = (double)result.tokens;
done:
    return st;
}

/* Takes what a pass has found out of the way of the next one. */
static musec_status move_losses(ms_error *e, ms_train *t, int64_t micro_batch)
{
    const ms_vec to     = { t->losses + micro_batch * MS_LOSSES, MS_LOSSES };
    int64_t      tokens = 0;
    musec_status st;

    TRY(ms_train_check(e, t->ctx, ms_gpt_move_losses(t->gpt, to, &tokens)));
    t->records[micro_batch * RECORD + MS_LOSSES] = (double)tokens;
done:
    return st;
}

/* The records of this rank's micro-batches of a step, and its largest logits; waits. */
static musec_status take_losses(ms_error *e, ms_train *t, int64_t micro_batches)
{
    const ms_comm *c   = ms_comm_of(&t->setup);
    double        *all = t->records + ms_train_records(t) * RECORD; /* behind the records */
    double         rest[RECORD];
    musec_status   st;

    TRY(ms_train_check(
        e, t->ctx, ms_vec_download(t->ctx, (ms_vec){ t->losses, micro_batches * MS_LOSSES }, all)));
    for (int64_t i = c->rank; i < micro_batches; i += c->size)
        memcpy(t->records + i * RECORD, all + i * MS_LOSSES, MS_LOSSES * sizeof *all);
    TRY(take_results(e, t, rest));
done:
    return st;
}

/* The largest logits of all ranks: MPI's maximum says nothing of NaN, so that is told beside. */
static musec_status share_logits(ms_error *e, ms_train *t)
{
    ms_comm      *c     = ms_comm_of(&t->setup);
    const int64_t heads = t->cfg.model.layers * t->cfg.model.heads;
    musec_status  st    = MUSEC_OK;

    if (c->size == 1) return MUSEC_OK;
    for (int64_t i = 0; i < heads; i++) {
        t->pass_logit[i] = isnan(t->max_logit[i]) ? 1.0 : 0.0;
        if (isnan(t->max_logit[i])) t->max_logit[i] = -INFINITY;
    }
    /* pass_logit lies behind it */
    TRY(ms_comm_check(e, c, c->ops->all_reduce(c, MS_COMM_MAX, t->max_logit, 2 * heads)));
    for (int64_t i = 0; i < heads; i++)
        if (t->pass_logit[i] > 0.0) t->max_logit[i] = NAN;
done:
    return st;
}

/* Brings the records to all ranks; each is set on one of them and 0 on the others.  Their sums are
 * taken in the order of records. */
static musec_status sum_records(ms_error *e, const ms_train *t, double *records, int64_t n,
                                double sum[RECORD])
{
    ms_comm     *c  = ms_comm_of(&t->setup);
    musec_status st = MUSEC_OK;

    TRY(ms_comm_check(e, c, c->ops->all_reduce(c, MS_COMM_SUM, records, n * RECORD)));
    for (int k = 0; k < RECORD; k++)
        sum[k] = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < RECORD; k++)
            sum[k] += records[i * RECORD + k];
done:
    return st;
}

int64_t ms_train_records(const ms_train *t)
{
    int64_t max = ms_comm_of(&t->setup)->size;
    for (int i = 0; i < t->schedule.n_stages; i++)
        max = ms_max_i64(max, t->schedule.stage[i].micro_batches);
    return max;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static bool must_stop_now(void *t) { return ms_train_asked_to_stop(t) == MS_STOP_NOW; }

static musec_status on_grads(void *arg, size_t n)
{
    ms_train          *t  = arg;
    ms_error           e  = { "" };
    const musec_status st = ms_sums_ready(&e, t, n);
    return st == MUSEC_OK ? st : ms_fail(&t->ctx->error, st, "%s", e.text);
}

static musec_status on_weights(void *arg, size_t n)
{
    ms_train          *t  = arg;
    ms_error           e  = { "" };
    const musec_status st = ms_train_want_weights(&e, t, n);
    return st == MUSEC_OK ? st : ms_fail(&t->ctx->error, st, "%s", e.text);
}

static musec_status run_batch(ms_error *e, ms_train *t, const ms_batch *batch,
                              const ms_gpt_pass *pass)
{
    const ms_gpt_batch b = { batch->inputs, batch->targets, batch->doc, batch->tokens };
    return ms_train_check(e, t->ctx, ms_gpt_run(t->gpt, &b, pass));
}

static musec_status agree(ms_error *e, ms_train *t, bool *stopped)
{
    ms_stop      all = MS_STOP_NO;
    musec_status st;
    TRY(ms_train_agree_stop(e, t, must_stop_now(t) ? MS_STOP_NOW : MS_STOP_NO, &all));
    *stopped = all == MS_STOP_NOW;
done:
    return st;
}

/* Reads the micro-batches of a round, one for each rank, and makes the pass of this rank's. */
static musec_status run_round(ms_error *e, ms_train *t, const ms_step_plan *plan,
                              const ms_gpt_pass *pass, int64_t first, ms_log_line *line)
{
    const ms_comm *c     = ms_comm_of(&t->setup);
    const int64_t  end   = ms_min_i64(first + c->size, plan->stage->micro_batches);
    ms_batch       batch = { 0 };
    musec_status   st    = MUSEC_OK;

    for (int64_t i = first; i < end && !must_stop_now(t); i++) {
        const double before = ms_clock_ms();
        TRY(ms_mixture_next(e, t->train, plan->tokens, plan->stage->max_doc, &batch));
        line->ms_data += ms_clock_ms() - before;
        if (batch.epoch > line->epoch) line->epoch = batch.epoch;
        if (i - first == c->rank) TRY(run_batch(e, t, &batch, pass));
    }
done:
    return st;
}

/* The passes of a step, and their gradients to the owners. */
static musec_status run_rounds(ms_error *e, ms_train *t, const ms_step_plan *plan,
                               ms_log_line *line, bool *stopped)
{
    const ms_comm *c     = ms_comm_of(&t->setup);
    const int64_t  micro = plan->stage->micro_batches;
    const bool     sums  = t->cfg.deterministic != 0;
    ms_gpt_pass    pass  = ms_train_pass(t, plan);
    musec_status   st    = MUSEC_OK;

    pass.stop = must_stop_now;
    pass.arg  = t;
    if (ms_async_overlaps(t->async)) {
        pass.on_grads   = on_grads;
        pass.on_weights = on_weights;
    }
    for (int64_t i = 0; i < micro; i += c->size) {
        ms_sums_begin(t, i, micro);
        TRY(run_round(e, t, plan, &pass, i, line));
        TRY(ms_sums_end(e, t)); /* of a pass that was stopped, too: others wait for it */
        if (!sums) continue;
        TRY(agree(e, t, stopped));
        if (*stopped) return MUSEC_OK;
        if (i + c->rank < micro) TRY(move_losses(e, t, i + c->rank));
    }
    if (sums) return take_losses(e, t, micro);
    TRY(agree(e, t, stopped));
    if (*stopped) return MUSEC_OK;
    TRY(take_results(e, t, t->records + (ptrdiff_t)c->rank * RECORD));
done:
    return st;
}

musec_status ms_train_gradients(ms_error *e, ms_train *t, const ms_step_plan *plan,
                                ms_log_line *line, bool *stopped)
{
    const int64_t micro = plan->stage->micro_batches,
                  heads = t->cfg.model.layers * t->cfg.model.heads;
    const int64_t n     = t->cfg.deterministic ? micro : ms_comm_of(&t->setup)->size;
    const double  start = ms_clock_ms();
    double        sum[RECORD];
    musec_status  st;

    memset(t->records, 0, (size_t)n * RECORD * sizeof *t->records);
    for (int64_t i = 0; i < heads; i++)
        t->max_logit[i] = -INFINITY;
    TRY(ms_train_check(e, t->ctx, ms_gpt_zero_grad(t->gpt)));
    TRY(run_rounds(e, t, plan, line, stopped));
    if (*stopped) goto done;
    TRY(sum_records(e, t, t->records, n, sum));
    TRY(share_logits(e, t));
    line->ms_model  = ms_clock_ms() - start - line->ms_data;
    line->objective = sum[0] / sum[2];
    line->loss      = sum[1] / sum[2];
    line->max_logit = -INFINITY;
    raise_logits(&line->max_logit, t->max_logit, 1);
    for (int64_t i = 1; i < heads; i++)
        raise_logits(&line->max_logit, t->max_logit + i, 1);
    t->progress.tokens += (int64_t)sum[2];
done:
    return st;
}

/* ---- validation ------------------------------------------------------------------------------ */

/* The records of a validation: its chunks are known when they have been read. */
typedef struct records {
    double *list;
    size_t  n, capacity; /* records */
} records;

static musec_status next_record(ms_error *e, records *all, double **out)
{
    double *grown = ms_grow(all->list, all->n, &all->capacity, RECORD * sizeof *grown);
    if (grown == NULL) return ms_no_memory(e, "the losses of the validation");
    all->list = grown;
    *out      = grown + RECORD * all->n++;
    for (int k = 0; k < RECORD; k++)
        (*out)[k] = 0.0;
    return MUSEC_OK;
}

/* Takes the losses of a pass without gradients. */
static musec_status take_loss(ms_error *e, ms_train *t, double record[RECORD])
{
    ms_gpt_result result;
    musec_status  st;
    TRY(ms_train_check(e, t->ctx, ms_gpt_take(t->gpt, &result, NULL)));
    record[1] = result.loss;
    record[2] = (double)result.tokens;
done:
    return st;
}

musec_status ms_train_validate_set(ms_error *e, ms_train *t, const ms_step_plan *plan,
                                   ms_loader *set, double *loss, bool *stopped)
{
    const ms_comm    *c     = ms_comm_of(&t->setup);
    const ms_gpt_pass pass  = { .window_short = plan->stage->window_short,
                                .window_long  = plan->stage->window_long,
                                .n_weights    = 1,
                                .weights      = { 1.0 },
                                .stop         = must_stop_now,
                                .arg          = t };
    const int64_t     chunk = t->schedule.max_tokens;
    records           all   = { 0 };
    double            sum[RECORD], *record = NULL;
    ms_batch          batch;
    musec_status      st;

    TRY(ms_loader_seek(e, set, (ms_position){ 0 }));
    for (int64_t left = t->cfg.val_tokens; left > 0 && !must_stop_now(t); left -= batch.tokens) {
        TRY(ms_loader_next(e, set, left < chunk ? left : chunk, chunk, &batch));
        if (batch.tokens == 0) break;
        TRY(next_record(e, &all, &record));
        if ((all.n - 1) % (size_t)c->size != (size_t)c->rank) continue;
        TRY(run_batch(e, t, &batch, &pass));
        if (!must_stop_now(t)) TRY(take_loss(e, t, record));
    }
    TRY(agree(e, t, stopped));
    if (*stopped) goto done;
    TRY(sum_records(e, t, all.list, (int64_t)all.n, sum));
    *loss = sum[1] / sum[2];
done:
    free(all.list);
    return st;
}
