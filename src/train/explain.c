/* explain.c - prints what a run will do before it starts: the device, the model, the data, the
 * schedule, the rule of every parameter, the settings that were changed, and the memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/init_from.h"
#include "train/trainer.h"

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

static void explain_device(const ms_train *t, FILE *to)
{
    const musec_dtype dtype  = ms_gpt_dtype(t->gpt);
    const bool        copies = ms_dtype_accum(dtype) != dtype;
    fprintf(to, "device: %s, activations in %s%s%s, %s\n", musec_ctx_device(t->ctx),
            ms_dtype_name(dtype), t->cfg.precision == MS_PRECISION_AUTO ? " (auto)" : "",
            copies ? ", weights and gradients in f32" : "",
            t->cfg.deterministic ? "deterministic" : "not deterministic");
    if (t->device_note[0] != '\0') fprintf(to, "  %s\n", t->device_note);
}

static void explain_model(const ms_train *t, const ms_train_sizes *s, FILE *to)
{
    const ms_gpt_config *m = &t->cfg.model;
    char                 parts[MS_PARTS_TEXT];
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
    if (ms_train_parts(&t->cfg, parts)) fprintf(to, "  parts: %s\n", parts);
    if (t->cfg.untie > 0)
        fprintf(to, "  embedding and head are one for the first %lld step%s\n",
                (long long)t->cfg.untie, plural(t->cfg.untie));
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

/* The origin of initial weights that are not random. */
static void explain_init(const ms_train *t, const ms_init_result *init, FILE *to)
{
    const json_t *step = json_object_get(init->origin, "step");

    fprintf(to, "  initial weights: %s", t->cfg.init_from);
    if (step != NULL) fprintf(to, ", step %lld", (long long)json_integer_value(step));
    fprintf(to, ", sha256 %.16s\n", json_string_value(json_object_get(init->origin, "sha256")));
    if (init->warning[0] != '\0') fprintf(to, "  warning: %s\n", init->warning);
}

/* Every field that differs from the default of the preset and the optimizer. */
static musec_status explain_settings(ms_error *e, const ms_train *t, FILE *to)
{
    const char     *preset = ms_preset_name((size_t)t->cfg.preset, NULL), *separator = "";
    char            value[MS_PATH_MAX], initial[MS_PATH_MAX];
    ms_train_config defaults;
    ms_train_field  f;
    musec_status    st;

    TRY(ms_train_config_init(e, &defaults, preset, t->cfg.optim.name));
    TRY(ms_train_config_check(e, &defaults));
    fprintf(to, "settings: preset %s", preset);
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        ms_train_config_get(&t->cfg, f.name, value, sizeof value);
        ms_train_config_get(&defaults, f.name, initial, sizeof initial);
        if (strcmp(value, initial) == 0) continue;
        fprintf(to, "%s %s %s (not %s)", separator[0] == '\0' ? " with" : separator, f.name,
                value[0] != '\0' ? value : "none", initial[0] != '\0' ? initial : "none");
        separator = ",";
    }
    fputc('\n', to);
done:
    return st;
}

musec_status ms_train_explain(ms_error *e, const ms_train_config *cfg, FILE *to)
{
    ms_train       t = { .cfg = *cfg };
    ms_train_sizes sizes;
    ms_init_result init = { .origin = NULL };
    musec_status   st;

    TRY(ms_train_build(e, &t, 1)); /* activations are counted, not allocated */
    if (cfg->init_from[0] != '\0') TRY(ms_init_from(e, cfg, t.ctx, t.gpt, &init));
    TRY(ms_train_measure(e, &t, &sizes));
    explain_device(&t, to);
    explain_model(&t, &sizes, to);
    if (init.origin != NULL) explain_init(&t, &init, to);
    fprintf(to, "data:\n");
    explain_data("training", t.train, to);
    explain_data("validation", t.val, to);
    explain_schedule(&t, to);
    TRY(explain_rules(e, &t, to));
    TRY(explain_settings(e, &t, to));
    ms_train_print_memory(&t, &sizes, to);
done:
    json_decref(init.origin);
    ms_train_teardown(&t);
    return st;
}
