/* train_bench.c - a training step of a preset beside the matrix product that it is made of.
 *
 * Everything runs in turn, round after round, with a float32 product of 1024^3 first.  The ratio of
 * a row is its FLOP/s over that product's in the same round.  FLOPs are counted as is usual:
 * 6 (matrix and head parameters) per token, and 12 heads head per pair of query and visible key and
 * layer for attention (4 of them forward); what an implementation computes beyond that (masked
 * pairs, recomputed logits, norms, the optimizer) is time without FLOPs.  Documents fill the
 * context, the longest case. */
#include "train_bench.h"

#include <stdlib.h>
#include <string.h>

#include "timing.h"
#include "train/parts.h"

enum { GEMM_SIDE = 1024 };

typedef struct job {
    ms_train_config cfg;
    ms_schedule     schedule;
    ms_step_plan    plan;
    ms_gpt         *gpt;
    musec_optim    *optim;
    musec_view     *grads;
    int32_t        *ids, *targets, *doc;
    double          pairs; /* of query and visible key, in one layer */
    ms_mat          q, k, v, o, dq, dk, dv, lse;
    ms_ids          device_doc;
    ms_vec          max_logit;
    ms_product      product;
} job;

/* ---- what is timed --------------------------------------------------------------------------- */

static musec_status run_pass(const job *j, double grad_scale)
{
    const ms_gpt_batch batch = { j->ids, j->targets, j->doc, j->plan.tokens };
    const ms_gpt_pass  pass  = { .window_short = j->plan.stage->window_short,
                                 .window_long  = j->plan.stage->window_long,
                                 .n_weights    = 1,
                                 .weights      = { 1.0 },
                                 .grad_scale   = grad_scale };
    return ms_gpt_run(j->gpt, &batch, &pass);
}

static musec_status run_forward(ms_device *d, void *state)
{
    (void)d;
    return run_pass(state, 0.0);
}

static musec_status run_backward(ms_device *d, void *state) /* and forward */
{
    job *j = state;
    (void)d;
    return run_pass(j, 1.0 / (double)j->plan.tokens);
}

static musec_status run_optim(ms_device *d, void *state)
{
    job *j = state;
    (void)d;
    return musec_optim_step(j->optim, j->grads, ms_gpt_n_params(j->gpt), 1.0);
}

static musec_status run_step(ms_device *d, void *state)
{
    job         *j = state;
    musec_status st;
    TRY(ms_gpt_zero_grad(j->gpt));
    TRY(run_backward(d, j));
    TRY(run_optim(d, j));
done:
    return st;
}

static ms_attn attention_of(const job *j)
{
    return (ms_attn){ .scale = 0.125, .window = j->plan.stage->window_long, .doc = j->device_doc };
}

static musec_status run_attention(ms_device *d, void *state)
{
    job *j = state;
    return d->ops->attention(d, attention_of(j), j->q, j->k, j->v, j->o, j->lse, j->max_logit);
}

static musec_status run_attention_both(ms_device *d, void *state)
{
    job         *j = state;
    musec_status st;
    TRY(run_attention(d, j));
    TRY(d->ops->attention_grad(d, attention_of(j), j->q, j->k, j->v, j->o, j->lse, j->o, j->dq,
                               j->dk, j->dv));
done:
    return st;
}

/* ---- what it needs --------------------------------------------------------------------------- */

static musec_status make_batch(ms_bench *b, job *j)
{
    const int64_t n = j->plan.tokens, longest = j->plan.stage->max_doc;
    j->ids     = calloc((size_t)n, sizeof *j->ids);
    j->targets = calloc((size_t)n, sizeof *j->targets);
    j->doc     = calloc((size_t)n, sizeof *j->doc);
    if (j->ids == NULL || j->targets == NULL || j->doc == NULL)
        return ms_fail(&b->d->error, MUSEC_ENOMEM, "not enough memory");
    for (int64_t i = 0; i < n; i++) {
        const int64_t start = i / longest * longest, window = j->plan.stage->window_long;
        j->ids[i]     = (int32_t)(i * 7919 % 251);
        j->targets[i] = (int32_t)((i + 1) * 7919 % 251);
        j->doc[i]     = (int32_t)start;
        j->pairs += (double)(i - start < window ? i - start + 1 : window + 1);
    }
    return MUSEC_OK;
}

static musec_status make_attention(ms_bench *b, job *j)
{
    const ms_gpt_config *m = &j->cfg.model;
    const int64_t        n = j->plan.tokens, a = m->heads * m->head;
    ms_mat *const        all[] = { &j->q, &j->k, &j->v, &j->o, &j->dq, &j->dk, &j->dv };
    void                *doc   = NULL;
    musec_status         st    = MUSEC_OK;
    for (size_t i = 0; i < COUNT(all); i++) {
        TRY(ms_bench_random(b, 1, n, a, 1.0, all[i]));
        *all[i] = ms_mat_heads(*all[i], m->heads);
    }
    TRY(ms_scratch_mat(b->d, MUSEC_F32, m->heads, 1, n, &j->lse));
    TRY(ms_scratch_vec(b->d, m->heads, &j->max_logit));
    TRY(ms_scratch_bytes(b->d, (size_t)n * sizeof(int32_t), &doc));
    TRY(b->d->ops->upload(b->d, j->doc, (size_t)n * sizeof(int32_t), doc));
    j->device_doc = (ms_ids){ doc, n };
    TRY(ms_bench_random(b, 1, GEMM_SIDE, GEMM_SIDE, 1.0, &j->product.a));
    TRY(ms_bench_random(b, 1, GEMM_SIDE, GEMM_SIDE, 1.0, &j->product.b));
    TRY(ms_bench_random(b, 1, GEMM_SIDE, GEMM_SIDE, 1.0, &j->product.c));
done:
    return st;
}

/* The config and what follows from it, with words of its own. */
static musec_status configure(ms_error *e, const char *preset, job *j)
{
    musec_status st;
    TRY(ms_train_config_init(e, &j->cfg, preset, "soft-musec"));
    TRY(ms_train_config_set(e, &j->cfg, "report-every", "0"));
    TRY(ms_train_config_set(e, &j->cfg, "lr", "1e-9")); /* rounds must not differ */
    TRY(ms_train_config_set(e, &j->cfg, "aux-lr", "1e-9"));
    TRY(ms_train_config_set(e, &j->cfg, "init-out", "0.5"));  /* from zero, and never moved, most */
    TRY(ms_train_config_set(e, &j->cfg, "init-down", "0.5")); /* gradients would be subnormal */
    TRY(ms_train_config_check(e, &j->cfg));
    TRY(ms_schedule_make(e, &j->cfg, &j->schedule));
    j->plan = ms_schedule_at(&j->schedule, 0);
done:
    return st;
}

static musec_status make_optim(ms_bench *b, job *j)
{
    ms_error           e  = { "" };
    const musec_status st = ms_train_build_optim(&e, &j->cfg, j->gpt, b->d, &j->optim);
    if (st != MUSEC_OK) return ms_fail(&b->d->error, st, "%s", e.text);
    j->grads = calloc(ms_gpt_n_params(j->gpt), sizeof *j->grads);
    if (j->grads == NULL) return ms_fail(&b->d->error, MUSEC_ENOMEM, "not enough memory");
    for (size_t i = 0; i < ms_gpt_n_params(j->gpt); i++) {
        const ms_mat g = ms_gpt_param(j->gpt, i)->grad;
        j->grads[i]    = musec_view_dense(g.data, g.dtype, 1, g.rows, g.cols);
    }
    return MUSEC_OK;
}

static musec_status make_job(ms_bench *b, const char *preset, job *j)
{
    musec_status st;
    TRY(configure(&b->d->error, preset, j));
    TRY(make_batch(b, j));
    TRY(make_attention(b, j));
    TRY(ms_gpt_create(&j->gpt, b->d, &j->cfg.model, MUSEC_F32, j->plan.tokens));
    TRY(ms_gpt_init(j->gpt, 1));
    TRY(ms_gpt_zero_grad(j->gpt));
    TRY(make_optim(b, j));
    TRY(run_backward(b->d, j)); /* gradients to step with */
done:
    return st;
}

static void free_job(job *j)
{
    musec_optim_destroy(j->optim);
    ms_gpt_destroy(j->gpt);
    free(j->grads);
    free(j->doc);
    free(j->targets);
    free(j->ids);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static musec_status run_all(ms_bench *b)
{
    const char   *preset = b->opt->quick ? "pico" : "nano";
    const ms_mark mark   = ms_arena_mark(&b->d->scratch);
    job           j      = { .pairs = 0.0 };
    char          shape[64];
    musec_status  st;

    TRY(make_job(b, preset, &j));
    const ms_gpt_config *m        = &j.cfg.model;
    const double         layers   = (double)m->layers;
    const double         dense    = ms_gpt_flops(m, (double)j.plan.tokens);
    const double         attended = ms_gpt_attention_flops(m, j.pairs);
    const struct {
        const char *name;
        musec_status (*run)(ms_device *d, void *state);
        double flops;
    } rows[] = {
        { "product of 1024", NULL, 2.0 * GEMM_SIDE * GEMM_SIDE * GEMM_SIDE },
        { "step", run_step, dense + layers * attended },
        { "forward", run_forward, (dense + layers * attended) / 3.0 },
        { "forward + backward", run_backward, dense + layers * attended },
        { "optimizer", run_optim, 0.0 },
        { "attention forward", run_attention, attended / 3.0 },
        { "attention f. + b.", run_attention_both, attended },
    };
    ms_candidate c[COUNT(rows)];
    for (size_t i = 0; i < COUNT(rows); i++)
        c[i] = (ms_candidate){ .run = rows[i].run, .state = &j };
    c[0] = (ms_candidate){ .run = ms_bench_gemm, .state = &j.product };

    snprintf(shape, sizeof shape, "%s, %lld tokens", preset, (long long)j.plan.tokens);
    ms_bench_heading(b, "training with Soft Musec; the ratio is of FLOP/s");
    ms_log_progress(b->log, "train: %s", shape);
    TRY(ms_time_group(b->d, c, (int)COUNT(rows), b->rounds));
    for (size_t i = 0; i < COUNT(rows); i++) {
        const double share = rows[i].flops / rows[0].flops / c[i].ratio;
        if (!ms_bench_wanted(b, "train", rows[i].name, shape)) continue;
        ms_bench_row(b, "train", rows[i].name, i == 0 ? "f32" : shape, c[i].ms,
                     1e-6 * rows[i].flops / c[i].ms, 0.0, share,
                     rows[i].flops > 0.0 && i > 0 ? rows[0].name : NULL);
    }
done:
    free_job(&j);
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

musec_status ms_bench_train(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    return ms_bench_run(opt, log, out, run_all, error);
}
