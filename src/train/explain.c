/* explain.c - what a run will be, in words, before it is started: the device, the model, the
 * schedule, the rule of every parameter, and the memory that it will take. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/init_from.h"
#include "train/trainer.h"

enum { MIB = 1 << 20 };

/* ---- memory ---------------------------------------------------------------------------------- */

/* Text, libraries, and what BLAS and threads take for themselves: measured, not derived. */
static const uint64_t program_bytes = 16 * (uint64_t)MIB;

/* What a checkpoint is written through: the largest tensor. */
static uint64_t checkpoint_bytes(const ms_gpt *gpt)
{
    uint64_t most = 0;
    for (size_t i = 0; i < ms_gpt_n_params(gpt); i++) {
        const ms_mat   w     = ms_gpt_param(gpt, i)->weight;
        const uint64_t bytes = (uint64_t)w.rows * (uint64_t)w.cols * ms_dtype_bytes(w.dtype);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* The scratch of a device serves one after the other. */
static uint64_t shared_bytes(const ms_train_sizes *s)
{
    return s->workspace > s->attention ? s->workspace : s->attention;
}

/* The most that attention's gradient takes in a stage, by what its documents and windows allow. */
static uint64_t attention_bytes(const ms_train *t)
{
    const ms_gpt_config *model = &t->cfg.model;
    uint64_t             most  = 0;
    for (int i = 0; t->ctx->kind->attn_bytes != NULL && i < t->schedule.n_stages; i++) {
        const ms_train_stage *s = &t->schedule.stage[i];
        const int64_t window = s->window_long > s->window_short ? s->window_long : s->window_short;
        const ms_attn_plan plan  = { .dtype   = ms_gpt_dtype(t->gpt),
                                     .heads   = model->heads,
                                     .head    = model->head,
                                     .rows    = s->batch / s->micro_batches,
                                     .reach   = window < s->max_doc ? window : s->max_doc - 1,
                                     .softcap = model->attn_softcap };
        const uint64_t     bytes = t->ctx->kind->attn_bytes(t->ctx, plan);
        if (bytes > most) most = bytes;
    }
    return most;
}

musec_status ms_train_measure(ms_error *e, const ms_train *t, ms_train_sizes *out)
{
    const ms_gpt_config *model = &t->cfg.model;
    musec_status         st;

    TRY(ms_gpt_measure(e, model, ms_gpt_dtype(t->gpt), t->schedule.max_tokens,
                       t->ctx->kind->temporary, &out->model));
    TRY(ms_train_check(e, t->ctx,
                       musec_optim_workspace(t->optim, &out->workspace, &out->optim_state)));
    out->attention  = attention_bytes(t);
    out->data       = ms_mixture_bytes(t->train) + ms_mixture_bytes(t->val);
    out->checkpoint = checkpoint_bytes(t->gpt);
    out->total      = out->checkpoint + out->model.weights + out->model.copies + out->model.grads +
                 out->model.activations + out->optim_state + shared_bytes(out) + out->data +
                 program_bytes;
done:
    return st;
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* ---- words ----------------------------------------------------------------------------------- */

static void explain_device(const ms_train *t, FILE *to)
{
    const musec_dtype dtype  = ms_gpt_dtype(t->gpt);
    const bool        copies = ms_dtype_wide(dtype) != dtype;
    fprintf(to, "device: %s, activations in %s%s%s, %s\n", musec_ctx_device(t->ctx),
            ms_dtype_name(dtype), t->cfg.precision == MS_PRECISION_AUTO ? " (auto)" : "",
            copies ? ", weights and gradients in f32" : "",
            t->cfg.deterministic ? "deterministic" : "not deterministic");
    if (t->note[0] != '\0') fprintf(to, "  %s\n", t->note);
}

static void explain_model(const ms_train *t, const ms_train_sizes *s, FILE *to)
{
    const ms_gpt_config *m = &t->cfg.model;
    fprintf(to,
            "model: %lld layer%s of %lld, %lld head%s of %lld, MLP %lld, %lld ids\n"
            "  parameters: %lld in matrices, %lld embed, %lld head, %lld others\n"
            "  QK-norm %s, %s, head gates %s, x0 mixing %s, RoPE on %g of a head, %s pairs\n",
            (long long)m->layers, plural(m->layers), (long long)m->width, (long long)m->heads,
            plural(m->heads), (long long)m->head, (long long)m->mlp, (long long)m->vocab,
            (long long)s->model.n_matrix, (long long)s->model.n_embed, (long long)s->model.n_head,
            (long long)s->model.n_vector, m->qk_norm ? "on" : "off", m->tied ? "tied" : "untied",
            m->head_gates ? "on" : "off", m->x0_mix ? "on" : "off", m->rope_share,
            m->rope_adjacent ? "adjacent" : "split");
    if (m->cap == MS_CAP_SIGMOID)
        fprintf(to, "  logits %g sigmoid((y + %g) / %g)\n", m->cap_scale, m->cap_shift,
                m->cap_width);
    else if (m->cap == MS_CAP_TANH)
        fprintf(to, "  logits %g tanh(y / %g)\n", m->cap_scale, m->cap_scale);
}

static void explain_schedule(const ms_train *t, FILE *to)
{
    const ms_schedule *s = &t->schedule;
    fprintf(to, "schedule: %lld step%s, gradient of the %s\n", (long long)s->steps,
            plural(s->steps),
            t->cfg.grad_reduction == MS_REDUCTION_MEAN ? "mean over tokens"
                                                       : "sum over tokens, divided by 8");
    for (int i = 0; i < s->n_stages; i++) {
        const ms_train_stage *g = &s->stage[i];
        fprintf(to,
                "  steps %lld-%lld: %lld tokens in %lld micro-batch%s, documents to %lld, windows "
                "%lld/%lld, lr x %g, loss weights",
                (long long)g->first + 1, (long long)g->end, (long long)g->batch,
                (long long)g->micro_batches, g->micro_batches == 1 ? "" : "es",
                (long long)g->max_doc, (long long)g->window_short, (long long)g->window_long,
                g->lr);
        for (int k = 0; k < g->n_weights; k++)
            fprintf(to, g->weights[k] == g->weights_end[k] ? " %g" : " %g>%g", g->weights[k],
                    g->weights_end[k]);
        fputc('\n', to);
    }
    if (s->cooldown > 0.0)
        fprintf(to, "  lr falls to %g of it over the last %g %% of the steps\n", s->cooldown_to,
                100.0 * s->cooldown);
    if (s->momentum_warmup > 0 || s->momentum_cooldown > 0)
        fprintf(to, "  beta %g -> %g over %lld steps, and back over the last %lld\n",
                s->momentum_from, s->beta, (long long)s->momentum_warmup,
                (long long)s->momentum_cooldown);
}

void ms_train_memory_rows(const ms_train_sizes *s, ms_memory_row rows[MS_MEMORY_ROWS])
{
    const ms_memory_row all[] = {
        { "weights", s->model.weights },
        { "copies", s->model.copies },
        { "gradients", s->model.grads },
        { "activations", s->model.activations },
        { "optimizer state", s->optim_state },
        { "workspace", shared_bytes(s) },
        { "data", s->data },
        { "checkpoint", s->checkpoint },
        { "program", program_bytes },
        { "total", s->total },
    };
    static_assert(COUNT(all) == MS_MEMORY_ROWS, "every row is there");
    memcpy(rows, all, sizeof all);
}

void ms_train_tell_memory(const ms_train_sizes *s, FILE *to)
{
    ms_memory_row rows[MS_MEMORY_ROWS];

    ms_train_memory_rows(s, rows);
    fprintf(to, "memory:\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].bytes == 0) continue;
        fprintf(to, "  %-16s %9.1f MiB", rows[i].name, (double)rows[i].bytes / MIB);
        if (s->attention > 0 && strcmp(rows[i].name, "workspace") == 0)
            fprintf(to, " (optimizer's step %.1f, attention's gradient %.1f at most, not at once)",
                    (double)s->workspace / MIB, (double)s->attention / MIB);
        fputc('\n', to);
    }
}

static musec_status explain_rules(ms_error *e, const ms_train *t, FILE *to)
{
    const size_t bytes = musec_optim_describe(t->optim, NULL, 0) + 1;
    char        *text  = malloc(bytes);
    if (text == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    musec_optim_describe(t->optim, text, bytes);
    fprintf(to, "optimizer: %s", text);
    free(text);
    return MUSEC_OK;
}

static void explain_data(const char *what, const ms_mixture *m, FILE *to)
{
    char text[512];
    for (size_t i = 0; i < ms_mixture_sets(m); i++) {
        ms_source_describe(ms_loader_source(ms_mixture_set(m, i)), text, sizeof text);
        fprintf(to, "  %s: %s", what, text);
        if (ms_mixture_sets(m) > 1) fprintf(to, ", weight %g", ms_mixture_weight(m, i));
        fputc('\n', to);
    }
}

/* Where the run begins, if it does not draw its weights. */
static void explain_start(const ms_train *t, const ms_init_result *init, FILE *to)
{
    const json_t *step = json_object_get(init->origin, "step");

    fprintf(to, "  begins with the weights of %s", t->cfg.init_from);
    if (step != NULL) fprintf(to, ", step %lld", (long long)json_integer_value(step));
    fprintf(to, ", sha256 %.16s\n", json_string_value(json_object_get(init->origin, "sha256")));
    if (init->warning[0] != '\0') fprintf(to, "  warning: %s\n", init->warning);
}

musec_status ms_train_explain(ms_error *e, const ms_train_config *cfg, FILE *to)
{
    ms_train       t = { .cfg = *cfg };
    ms_train_sizes sizes;
    ms_init_result init = { .origin = NULL };
    musec_status   st;

    TRY(ms_train_build(e, &t, 1)); /* activations are counted, not taken */
    if (cfg->init_from[0] != '\0') TRY(ms_init_from(e, cfg, t.ctx, t.gpt, &init));
    TRY(ms_train_measure(e, &t, &sizes));
    explain_device(&t, to);
    explain_model(&t, &sizes, to);
    if (init.origin != NULL) explain_start(&t, &init, to);
    fprintf(to, "data:\n");
    explain_data("training", t.train, to);
    explain_data("validation", t.val, to);
    explain_schedule(&t, to);
    TRY(explain_rules(e, &t, to));
    ms_train_tell_memory(&sizes, to);
done:
    json_decref(init.origin);
    ms_train_unbuild(&t);
    return st;
}
