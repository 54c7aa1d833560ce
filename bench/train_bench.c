/* train_bench.c - a training step of a preset beside the matrix product that it is made of.
 *
 * All rows take turns, round after round, beginning with a product: 1024^3 on the host, 8192^3 on a
 * GPU.  The ratio of a row is its FLOP/s over that of the product in the same round.  FLOPs are
 * counted as usual: 6 (matrix and head parameters) per token, and for attention 12 heads head per
 * layer and pair of query and visible key (4 of them forward).  What an implementation computes
 * beyond that (masked pairs, recomputed logits, norms, the optimizer) is time without FLOPs.
 *
 * pico and nano are timed as they are, in documents that fill the context, the longest case.
 * small, medium and wide are reduced to the plain model that others have too: no gates, no x0
 * mixing, one target per token, a window of 1024 in all layers, a micro-batch of 32768 tokens in
 * sequences of 2048 (small) or 4096, each a document; on the host 2048 tokens in sequences of 1024.
 * Activations have the dtype of training.
 *
 * With --ask rows are timed one by one, as lines of the standard input name them, so that a peer in
 * another process takes turns with them (bench/peers/cpu_torch.py). */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "timing.h"
#include "train/trainer.h"

enum { OPTIMS = 2 };

static const struct {
    const char *name, *optimizer, *key, *value;
} optims[OPTIMS] = { { "soft-musec fast", "soft-musec", "ns-mode", "fast" },
                     { "muon", "muon", "ns-iters", "5" } };

typedef struct train_job {
    ms_train_config  cfg;
    ms_schedule      schedule;
    ms_step_plan     plan;
    musec_dtype      dtype; /* of activations */
    ms_gpt          *gpt;
    musec_optim     *optim[OPTIMS];
    musec_view      *grads;
    int32_t         *ids, *targets, *doc;
    double           pairs; /* of a query and a visible key, in one layer */
    ms_mat           q, k, v, o, dq, dk, dv, lse;
    ms_ids           device_doc;
    ms_vec           max_logit;
    ms_bench_product product;
} train_job;

/* ---- the timed functions --------------------------------------------------------------------- */

static musec_status run_pass(const train_job *j, double grad_scale)
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

static musec_status run_backward(ms_device *d, void *state) /* forward and backward */
{
    train_job *j = state;
    (void)d;
    return run_pass(j, 1.0 / (double)j->plan.tokens);
}

static musec_status optimize(const train_job *j, int which)
{
    return musec_optim_step(j->optim[which], j->grads, ms_gpt_n_params(j->gpt), 1.0);
}

static musec_status step(ms_device *d, train_job *j, int which)
{
    musec_status st;
    TRY(ms_gpt_zero_grad(j->gpt));
    TRY(run_backward(d, j));
    TRY(optimize(j, which));
done:
    return st;
}

static musec_status run_step(ms_device *d, void *state) { return step(d, state, 0); }
static musec_status run_muon_step(ms_device *d, void *state) { return step(d, state, 1); }

static musec_status run_optim(ms_device *d, void *state)
{
    (void)d;
    return optimize(state, 0);
}

static musec_status run_muon(ms_device *d, void *state)
{
    (void)d;
    return optimize(state, 1);
}

static ms_attn attention_of(const train_job *j)
{
    const int64_t longest = j->plan.stage->max_doc;
    return (ms_attn){ .scale   = 0.125,
                      .window  = j->plan.stage->window_long,
                      .doc     = j->device_doc,
                      .docs    = (j->plan.tokens - 1) / longest + 1,
                      .longest = longest };
}

static musec_status run_attention(ms_device *d, void *state)
{
    train_job *j = state;
    return d->ops->attention(d, attention_of(j), j->q, j->k, j->v, j->o, j->lse, j->max_logit);
}

static musec_status run_attention_both(ms_device *d, void *state)
{
    train_job   *j = state;
    musec_status st;
    TRY(run_attention(d, j));
    TRY(d->ops->attention_grad(d, attention_of(j), j->q, j->k, j->v, j->o, j->lse, j->o, j->dq,
                               j->dk, j->dv));
done:
    return st;
}

/* ---- setup ----------------------------------------------------------------------------------- */

static musec_status make_batch(ms_bench *b, train_job *j)
{
    const int64_t n = j->plan.tokens, longest = j->plan.stage->max_doc;
    const int64_t known = j->cfg.model.vocab < 50257 ? 251 : 50257; /* ids in use */
    j->ids              = calloc((size_t)n, sizeof *j->ids);
    j->targets          = calloc((size_t)n, sizeof *j->targets);
    j->doc              = calloc((size_t)n, sizeof *j->doc);
    if (j->ids == NULL || j->targets == NULL || j->doc == NULL)
        return ms_fail(&b->d->error, MUSEC_ENOMEM, "not enough memory");
    for (int64_t i = 0; i < n; i++) {
        const int64_t start = i / longest * longest, window = j->plan.stage->window_long;
        j->ids[i]     = (int32_t)(i * 7919 % known);
        j->targets[i] = (int32_t)((i + 1) * 7919 % known);
        j->doc[i]     = (int32_t)start;
        j->pairs += (double)(i - start < window ? i - start + 1 : window + 1);
    }
    return MUSEC_OK;
}

static musec_status make_attention(ms_bench *b, train_job *j)
{
    const ms_gpt_config *m = &j->cfg.model;
    const int64_t        n = j->plan.tokens, a = m->heads * m->head;
    ms_mat *const        all[] = { &j->q, &j->k, &j->v, &j->o, &j->dq, &j->dk, &j->dv };
    void                *doc   = NULL;
    musec_status         st    = MUSEC_OK;
    for (size_t i = 0; i < COUNT(all); i++) {
        TRY(ms_bench_random(b, j->dtype, 1, n, a, 1.0, all[i]));
        *all[i] = ms_mat_heads(*all[i], m->heads);
    }
    TRY(ms_scratch_mat(b->d, ms_dtype_accum(j->dtype), m->heads, 1, n, &j->lse));
    TRY(ms_scratch_vec(b->d, m->heads, &j->max_logit));
    TRY(ms_scratch_bytes(b->d, (size_t)n * sizeof(int32_t), &doc));
    TRY(b->d->ops->upload(b->d, j->doc, (size_t)n * sizeof(int32_t), doc));
    j->device_doc = (ms_ids){ doc, n };
done:
    return st;
}

static musec_status make_product(ms_bench *b, train_job *j)
{
    const int64_t side = ms_is_on_host(b->d) ? 1024 : 8192;
    musec_status  st   = MUSEC_OK;
    TRY(ms_bench_random(b, j->dtype, 1, side, side, 1.0, &j->product.a));
    TRY(ms_bench_random(b, j->dtype, 1, side, side, 1.0, &j->product.b));
    TRY(ms_bench_random(b, j->dtype, 1, side, side, 1.0, &j->product.c));
done:
    return st;
}

/* Rounds must not differ, so weights hardly change.  Without initial values of W_o and the MLP's
 * second matrix most gradients would be subnormal. */
static const char *const always[] = { "report-every=0", "lr=1e-9",       "aux-lr=1e-9",
                                      "init-out=0.5",   "init-down=0.5", NULL };
static const char *const plain[]  = {
     "head-gates=no", "x0-mix=no", "vocab=50304",       "batch=32768",      "micro-batches=1",
     "stages=",       "mtp=1",     "window-short=1024", "window-long=1024", NULL
};
static const char *const on_host[] = { "batch=2048", "max-doc=1024", NULL };

static bool is_of_the_paper(const char *preset)
{
    return strcmp(preset, "pico") != 0 && strcmp(preset, "nano") != 0;
}

/* Makes the config of an optimizer and its schedule. */
static musec_status configure(ms_device *d, const char *preset, int which, train_job *j)
{
    ms_error    *e = &d->error;
    musec_status st;
    TRY(ms_train_config_init(e, &j->cfg, preset, optims[which].optimizer));
    TRY(ms_train_config_set(e, &j->cfg, optims[which].key, optims[which].value));
    TRY(ms_train_config_apply(e, &j->cfg, always));
    if (is_of_the_paper(preset)) {
        TRY(ms_train_config_apply(e, &j->cfg, plain));
        if (ms_is_on_host(d)) TRY(ms_train_config_apply(e, &j->cfg, on_host));
    }
    TRY(ms_train_config_check(e, &j->cfg));
    TRY(ms_schedule_make(e, &j->cfg, &j->schedule));
    j->plan = ms_schedule_at(&j->schedule, 0);
done:
    return st;
}

static musec_status make_optims(ms_bench *b, const char *preset, train_job *j)
{
    ms_error     e  = { "" };
    musec_status st = MUSEC_OK;
    for (int i = OPTIMS - 1; i >= 0; i--) { /* the first one's config is used */
        TRY(configure(b->d, preset, i, j));
        st = ms_train_build_optim(&e, &j->cfg, j->gpt, b->d, ms_comm_self(), NULL, &j->optim[i]);
        if (st != MUSEC_OK) return ms_fail(&b->d->error, st, "%s", e.text);
    }
    j->grads = calloc(ms_gpt_n_params(j->gpt), sizeof *j->grads);
    if (j->grads == NULL) return ms_fail(&b->d->error, MUSEC_ENOMEM, "not enough memory");
    for (size_t i = 0; i < ms_gpt_n_params(j->gpt); i++) {
        const ms_mat g = ms_gpt_param(j->gpt, i)->grad;
        j->grads[i]    = musec_view_dense(g.data, g.dtype, 1, g.rows, g.cols);
    }
done:
    return st;
}

static musec_status make_job(ms_bench *b, const char *preset, train_job *j)
{
    musec_status st;
    j->dtype = b->d->kind->activation_dtype;
    TRY(configure(b->d, preset, 0, j));
    TRY(make_batch(b, j));
    TRY(make_attention(b, j));
    TRY(make_product(b, j));
    TRY(ms_gpt_create(&j->gpt, b->d, &j->cfg.model, j->dtype, j->plan.tokens));
    TRY(ms_gpt_init(j->gpt, 1));
    TRY(ms_gpt_zero_grad(j->gpt));
    TRY(make_optims(b, preset, j));
    TRY(run_backward(b->d, j)); /* gradients for the optimizers */
done:
    return st;
}

static void free_job(train_job *j)
{
    for (int i = 0; i < OPTIMS; i++)
        musec_optim_destroy(j->optim[i]);
    ms_gpt_destroy(j->gpt);
    free(j->grads);
    free(j->doc);
    free(j->targets);
    free(j->ids);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static musec_status put_memory(ms_bench *b, train_job *j, const char *shape)
{
    ms_gpt_sizes sizes;
    musec_status st;
    TRY(ms_gpt_measure(&b->d->error, &j->cfg.model, j->dtype, j->plan.tokens,
                       b->d->kind->logits_chunk, &sizes));
    ms_bench_memory(b, "train", "model", shape,
                    (double)(sizes.weights + sizes.grads + sizes.activations));
    for (int i = 0; i < OPTIMS; i++) {
        uint64_t workspace = 0, state = 0;
        TRY(musec_optim_workspace(j->optim[i], &workspace, &state));
        ms_bench_memory(b, "train", optims[i].name, "state", (double)state);
        ms_bench_memory(b, "train", optims[i].name, "workspace of a step", (double)workspace);
    }
done:
    return st;
}

typedef struct row {
    const char *name;
    musec_status (*run)(ms_device *d, void *state);
    double flops, tokens;
} row;

/* Times the row that each line of the standard input names, and prints its milliseconds. */
static musec_status answer(ms_bench *b, const row *rows, int n, train_job *j)
{
    char         line[64], about[512] = "";
    musec_status st = MUSEC_OK;
    if (b->d->kind->describe != NULL) b->d->kind->describe(b->d, about, sizeof about);
    fprintf(b->out, "%s\n", about);
    fflush(b->out);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double begin = 0.0, end = 0.0;
        int    i                  = 1; /* the product has no function here */
        line[strcspn(line, "\n")] = '\0';
        while (i < n && strcmp(rows[i].name, line) != 0)
            i++;
        if (i == n)
            TRY(ms_fail(&b->d->error, MUSEC_EINVAL,
                        "standard input: there is no row \"%s\"; name one that musec bench train "
                        "prints, such as \"forward + backward\"",
                        line));
        TRY(b->d->ops->now_ms(b->d, &begin));
        TRY(rows[i].run(b->d, j));
        TRY(b->d->ops->now_ms(b->d, &end));
        fprintf(b->out, "%.3f\n", end - begin);
        fflush(b->out);
    }
done:
    return st;
}

static musec_status time_rows(ms_bench *b, train_job *j, const row *rows, int n, const char *shape)
{
    const double side = (double)j->product.a.rows;
    ms_candidate c[MS_TIMING_MAX];
    int          which[MS_TIMING_MAX], wanted = 0; /* rows that are timed; always the product */
    char         square[64];
    musec_status st;
    for (int i = 0; i < n; i++) {
        if (i > 0 && !ms_bench_wanted(b, "train", rows[i].name, shape)) continue;
        c[wanted]       = (ms_candidate){ .run = rows[i].run, .state = j };
        which[wanted++] = i;
    }
    c[0] = (ms_candidate){ .run = ms_bench_gemm, .state = &j->product };
    snprintf(square, sizeof square, "%.0f^3 %s", side, ms_dtype_name(j->dtype));
    TRY(ms_time_group(b->d, c, wanted, b->rounds));
    for (int i = 0; i < wanted; i++) {
        const row *r = &rows[which[i]];
        if (i == 0 && !ms_bench_wanted(b, "train", r->name, square)) continue;
        ms_bench_row(b,
                     &(ms_bench_figure){ .section = "train",
                                         .name    = r->name,
                                         .shape   = i == 0 ? square : shape,
                                         .ms      = c[i].ms,
                                         .dtype   = j->dtype,
                                         .flops   = r->flops,
                                         .ratio   = r->flops / rows[0].flops / c[i].ratio,
                                         .against = r->flops > 0.0 && i > 0 ? rows[0].name : NULL,
                                         .tokens  = r->tokens });
    }
done:
    return st;
}

static musec_status time_job(ms_bench *b, train_job *j, const char *preset)
{
    const double tokens = (double)j->plan.tokens, side = (double)j->product.a.rows;
    const double pairs  = ms_gpt_attention_flops(&j->cfg.model, j->pairs);
    const double all    = ms_gpt_flops(&j->cfg.model, tokens) + (double)j->cfg.model.layers * pairs;
    const row    rows[] = {
           { "product", NULL, 2.0 * side * side * side, 0.0 },
           { "step, soft-musec fast", run_step, all, tokens },
           { "step, muon", run_muon_step, all, tokens },
           { "forward", run_forward, all / 3.0, tokens },
           { "forward + backward", run_backward, all, tokens },
           { "soft-musec fast", run_optim, 0.0, 0.0 },
           { "muon", run_muon, 0.0, 0.0 },
           { "attention forward", run_attention, pairs / 3.0, tokens },
           { "attention f. + b.", run_attention_both, pairs, tokens },
    };
    char         shape[64];
    musec_status st;
    snprintf(shape, sizeof shape, "%s, %lld tokens, %s", preset, (long long)j->plan.tokens,
             ms_dtype_name(j->dtype));
    if (b->opt->ask) return answer(b, rows, COUNT(rows), j);
    TRY(ms_bench_begin(b));
    ms_bench_heading(b, "training; the ratio is of FLOP/s");
    TRY(time_rows(b, j, rows, COUNT(rows), shape));
    TRY(put_memory(b, j, shape));
done:
    return st;
}

static musec_status run_all(ms_bench *b)
{
    const bool    host  = ms_is_on_host(b->d);
    const char   *usual = host ? "nano" : "small", *quick = "pico";
    const char   *preset = b->opt->preset != NULL ? b->opt->preset : b->opt->quick ? quick : usual;
    const ms_mark mark   = ms_arena_mark(&b->d->scratch);
    train_job     j      = { .pairs = 0.0 };
    musec_status  st;

    ms_log_progress(b->log, "train: %s", preset);
    TRY(make_job(b, preset, &j));
    TRY(time_job(b, &j, preset));
done:
    free_job(&j);
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

musec_status ms_bench_train(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    return ms_bench_run(opt, log, out, run_all, error);
}
