/* run_matrices.c - reads the matrices of a run.  All large buffers belong to the model, to the
 * run's optimizer, which makes no step, and to scratch above the caller's mark. */
#include "run_matrices.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "train/rundir.h"
#include "train/trainer.h"

static musec_status load_run(ms_error *e, ms_bench *b, const char *dir, ms_train *t)
{
    ms_checkpoint newest = { .step = -1 };
    char          warning[sizeof(ms_error)];
    musec_status  st;

    t->ctx       = b->d;
    t->setup.out = dir;
    TRY(ms_rundir_check(e, dir));
    TRY(ms_checkpoint_newest(e, dir, NULL, &newest, warning));
    if (warning[0] != '\0') ms_log_say(b->log, MS_LOG_QUIET, "warning: %s", warning);
    if (newest.step < 0)
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "%s: there is no checkpoint yet; give another run of musec train", dir));
    TRY(ms_train_checkpoint_config(e, &newest, &t->cfg)); /* that of the directory may differ */
    TRY(ms_schedule_make(e, &t->cfg, &t->schedule));
    TRY(ms_train_open_data(e, t));
    TRY(ms_train_build_model(e, t, t->schedule.max_tokens));
    TRY(ms_train_load(e, t, &newest));
done:
    ms_checkpoint_close(&newest);
    return st;
}

/* Copies the momentum that the run's optimizer stores for a parameter, as a moving average. */
static musec_status copy_momentum(ms_error *e, const ms_train *t, size_t param, double beta,
                                  ms_run_matrix *out)
{
    const musec_optim *opt   = t->optim;
    const bool         heavy = opt->cfg.momentum_form == MUSEC_MOMENTUM_HEAVY;
    ms_vec             absmax;
    musec_status       st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++)
        for (int64_t m = 0; m < opt->groups[i].count; m++)
            if (opt->groups[i].members[m].param == param &&
                strcmp(opt->groups[i].base->states[0], "momentum") == 0)
                out->momentum = ms_mat_slice(opt->groups[i].state[0], m, 1);
    if (out->momentum.data == NULL)
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "%s: its optimizer, %s, keeps no momentum of matrices; name a run of one that "
                    "does",
                    t->setup.out, opt->row->name));
    const ms_mat kept = out->momentum; /* in its stored dtype */
    TRY(ms_scratch_vec(t->ctx, 1, &absmax));
    TRY(ms_scratch_mat(t->ctx, ms_dtype_accum(kept.dtype), 1, kept.rows, kept.cols,
                       &out->momentum));
    TRY(t->ctx->ops->copy(t->ctx, kept, out->momentum));
    if (heavy) TRY(t->ctx->ops->scale(t->ctx, ms_const(beta), out->momentum));
    TRY(t->ctx->ops->absmax(t->ctx, out->momentum, absmax));
    TRY(ms_vec_download(t->ctx, absmax, &out->absmax));
done:
    return st;
}

static musec_view dense_view(ms_mat x)
{
    return musec_view_dense(x.data, x.dtype, 1, x.rows, x.cols);
}

musec_status ms_run_matrices_make(ms_error *e, int64_t n, int sets, ms_run_matrices *out)
{
    bool failed;
    out->n    = n;
    out->sets = sets;
    out->list = calloc((size_t)n, sizeof *out->list);
    failed    = out->list == NULL;
    for (int s = 0; s < sets; s++) {
        out->grads[s] = calloc((size_t)n, sizeof *out->grads[s]);
        failed        = failed || out->grads[s] == NULL;
    }
    if (failed) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    return MUSEC_OK;
}

static musec_status list_matrices(ms_error *e, const ms_train *t, ms_run_matrices *r)
{
    musec_status st;
    TRY(ms_run_matrices_make(e, (int64_t)ms_gpt_n_params(t->gpt), r->sets, r));
    r->n = 0;
    for (size_t i = 0; i < ms_gpt_n_params(t->gpt); i++) {
        const ms_gpt_tensor *p = ms_gpt_param(t->gpt, i);
        if (p->role >= MUSEC_MATRIX_ROLES) continue;
        ms_run_matrix *one = &r->list[r->n++];
        snprintf(one->name, sizeof one->name, "%s", p->name);
        one->role   = p->role;
        one->weight = dense_view(p->weight);
        if (p->copy.data != NULL) one->copy = dense_view(p->copy);
        r->elems += p->weight.rows * p->weight.cols;
        TRY(copy_momentum(e, t, i, r->beta, one));
    }
done:
    return st;
}

/* Computes the gradients of the next step in the model. */
static musec_status next_gradients(ms_error *e, ms_train *t)
{
    const int64_t      last = t->cfg.steps - 1, step = t->progress.step;
    const ms_step_plan plan = ms_schedule_at(&t->schedule, step < last ? step : last);
    const ms_gpt_pass  pass = ms_train_pass(t, &plan);
    ms_batch           batch;
    musec_status       st;
    TRY(ms_gpt_zero_grad(t->gpt));
    for (int64_t i = 0; i < plan.stage->micro_batches; i++) {
        TRY(ms_mixture_next(e, t->train, plan.tokens, plan.stage->max_doc, &batch));
        const ms_gpt_batch b = { batch.inputs, batch.targets, batch.doc, batch.tokens };
        TRY(ms_gpt_run(t->gpt, &b, &pass));
    }
    t->progress.step++;
done:
    return st;
}

static musec_status copy_gradients(ms_error *e, ms_train *t, int set, ms_run_matrices *r)
{
    musec_view  *to = r->grads[set];
    musec_status st;
    assert(to != NULL); /* there is at least one matrix */
    TRY(next_gradients(e, t));
    for (size_t i = 0; i < ms_gpt_n_params(t->gpt); i++) {
        const ms_gpt_tensor *p = ms_gpt_param(t->gpt, i);
        ms_mat               g;
        if (p->role >= MUSEC_MATRIX_ROLES) continue;
        TRY(ms_scratch_mat(t->ctx, p->grad.dtype, 1, p->grad.rows, p->grad.cols, &g));
        TRY(t->ctx->ops->copy(t->ctx, p->grad, g));
        *to++ = dense_view(g);
    }
done:
    return st;
}

musec_status ms_run_matrices_open(ms_bench *b, const char *dir, int sets, ms_run_matrices *out)
{
    ms_error     e  = { "" };
    ms_train    *t  = calloc(1, sizeof *t);
    musec_status st = MUSEC_OK;

    *out = (ms_run_matrices){ .train = t, .sets = sets };
    if (t == NULL) TRY(ms_fail(&e, MUSEC_ENOMEM, "not enough memory"));
    ms_log_progress(b->log, "reading %s", dir);
    TRY(load_run(&e, b, dir, t));
    out->step      = t->progress.step;
    out->optimizer = t->cfg.optim.name;
    out->beta      = ms_schedule_at(&t->schedule, out->step > 0 ? out->step - 1 : 0).beta;
    TRY(ms_train_config_get(&t->cfg, "threshold", out->threshold, sizeof out->threshold));
    TRY(list_matrices(&e, t, out));
    for (int s = 0; s < sets; s++) {
        ms_log_progress(b->log, "gradients %d of %d", s + 1, sets);
        TRY(copy_gradients(&e, t, s, out));
    }
done:
    if (st != MUSEC_OK && e.text[0] != '\0') ms_fail(&b->d->error, st, "%s", e.text);
    return st;
}

void ms_run_matrices_close(ms_run_matrices *r)
{
    if (r->train != NULL) {
        ms_train_teardown_model(r->train);
        ms_mixture_close(r->train->val);
        ms_mixture_close(r->train->train);
    }
    free(r->train);
    free(r->list);
    for (int s = 0; s < MS_RUN_SETS; s++)
        free(r->grads[s]);
    *r = (ms_run_matrices){ 0 };
}

musec_status ms_run_proposal(ms_device *d, const ms_run_matrices *r, int64_t i, ms_mat out)
{
    const bool   momentum = r->list[i].momentum.data != NULL;
    musec_status st       = MUSEC_OK;
    for (int s = 0; s < (momentum ? 1 : r->sets); s++)
        TRY(d->ops->axpby(d, ms_const(momentum ? r->beta : 1.0 / r->sets),
                          ms_mat_of(r->grads[s][i]), ms_const(s > 0 ? 1.0 : 0.0), out));
    if (momentum)
        TRY(d->ops->axpby(d, ms_const(1.0 - r->beta), r->list[i].momentum, ms_const(1.0), out));
done:
    return st;
}
