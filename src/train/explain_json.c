/* explain_json.c - what explain.c prints, as JSON for programs. */
#include <stdio.h>
#include <string.h>

#include "core/json_file.h"
#include "core/text.h"
#include "optim/optim.h"
#include "train/trainer.h"

/* A new string, or null for "" and for text that is not UTF-8, such as some paths. */
static json_t *text_json(const char *text)
{
    return text[0] == '\0' || !ms_text_is_utf8(text) ? json_null() : json_string(text);
}

static json_t *numbers(const double *x, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        ms_json_append(&list, json_real(x[i]));
    return list;
}

/* ---- sections -------------------------------------------------------------------------------- */

static json_t *device_of(const ms_train *t)
{
    return json_pack("{s:o, s:s, s:b, s:b, s:o}", "name", text_json(musec_ctx_device(t->ctx)),
                     "precision", ms_dtype_name(ms_gpt_dtype(t->gpt)), "precision_is_auto",
                     t->cfg.precision == MS_PRECISION_AUTO, "deterministic",
                     t->cfg.deterministic != 0, "note", text_json(t->device_note));
}

static json_t *model_of(const ms_train *t, const ms_train_sizes *s)
{
    static const char *const caps[] = { "none", "tanh", "sigmoid" }; /* by ms_cap */
    const ms_gpt_config     *m      = &t->cfg.model;
    const ms_gpt_sizes      *n      = &s->model;
    const int64_t            total  = n->n_matrix + n->n_embed + n->n_head + n->n_vector;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:b, s:s, "
                     "s:{s:I, s:I, s:I, s:I, s:I}}",
                     "layers", (json_int_t)m->layers, "width", (json_int_t)m->width, "heads",
                     (json_int_t)m->heads, "head", (json_int_t)m->head, "mlp", (json_int_t)m->mlp,
                     "vocab", (json_int_t)m->vocab, "qk_norm", m->qk_norm != 0, "tied",
                     m->tied != 0, "head_gates", m->head_gates != 0, "x0_mix", m->x0_mix != 0,
                     "cap", caps[m->cap], "parameters", "matrix", (json_int_t)n->n_matrix, "embed",
                     (json_int_t)n->n_embed, "head", (json_int_t)n->n_head, "vector",
                     (json_int_t)n->n_vector, "total", (json_int_t)total);
}

static json_t *sets_of(const ms_mixture *m)
{
    json_t *list = json_array();
    char    text[512];
    for (size_t i = 0; i < ms_mixture_sets(m); i++) {
        const ms_source *source = ms_loader_source(ms_mixture_set(m, i));
        const int64_t    tokens = ms_source_tokens(source); /* below 0: endless */
        ms_source_describe(source, text, sizeof text);
        ms_json_append(&list, json_pack("{s:o, s:o, s:f, s:o}", "path",
                                        text_json(ms_source_path(source)), "tokens",
                                        tokens < 0 ? json_null() : json_integer(tokens), "weight",
                                        ms_mixture_weight(m, i), "description", text_json(text)));
    }
    return list;
}

static json_t *stage_of(const ms_train_stage *g)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o}", "first_step",
                     (json_int_t)g->first + 1, "last_step", (json_int_t)g->end, "batch",
                     (json_int_t)g->batch, "micro_batches", (json_int_t)g->micro_batches, "max_doc",
                     (json_int_t)g->max_doc, "window_short", (json_int_t)g->window_short,
                     "window_long", (json_int_t)g->window_long, "lr_scale", g->lr, "loss_weights",
                     numbers(g->weights, g->n_weights), "loss_weights_end",
                     numbers(g->weights_end, g->n_weights));
}

static json_t *schedule_of(const ms_train *t)
{
    const ms_schedule *s      = &t->schedule;
    json_t            *stages = json_array();
    int64_t            tokens = 0;
    for (int i = 0; i < s->n_stages; i++) {
        const ms_train_stage *g = &s->stage[i];
        tokens += (g->end - g->first) * g->batch;
        ms_json_append(&stages, stage_of(g));
    }
    return json_pack("{s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:I, s:I, s:o}", "steps",
                     (json_int_t)s->steps, "tokens", (json_int_t)tokens, "grad_reduction",
                     t->cfg.grad_reduction == MS_REDUCTION_MEAN ? "mean" : "sum8", "cooldown",
                     s->cooldown, "cooldown_to", s->cooldown_to, "beta", s->beta, "momentum_from",
                     s->momentum_from, "momentum_warmup", (json_int_t)s->momentum_warmup,
                     "momentum_cooldown", (json_int_t)s->momentum_cooldown, "stages", stages);
}

/* One parameter: its rule, shape, learning rate and decay. */
static json_t *param_of(const musec_optim *opt, const ms_param *p)
{
    static const char *const roles[] = {
#define X(name, code, words, matrix) words,
        MUSEC_ROLE_MAP(X)
#undef X
    };
    const bool matrix = p->role < MUSEC_MATRIX_ROLES;
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:o}", "name", p->name, "role", roles[p->role],
        "rule", matrix ? opt->row->name : MS_AUX_BASE, "rows", (json_int_t)p->weight.rows, "cols",
        (json_int_t)p->weight.cols, "matrices", (json_int_t)(matrix ? p->n_matrices : 0), "lr",
        ms_param_lr(opt, p) * p->lr_factor, "weight_decay", ms_param_decay(opt, p), "shape_factor",
        matrix
            ? json_real(ms_shape_factor(opt->cfg.shape_rule, p->blocks[0].rows, p->blocks[0].cols))
            : json_null());
}

static json_t *params_of(const musec_optim *opt)
{
    json_t *list = json_array();
    for (size_t i = 0; i < opt->n_params; i++)
        ms_json_append(&list, param_of(opt, &opt->params[i]));
    return list;
}

static json_t *memory_of(const ms_train *t, const ms_train_sizes *s)
{
    ms_memory_row rows[MS_MEMORY_ROWS];
    json_t       *all = json_object();
    char          key[32];
    ms_train_memory_rows(s, rows);
    for (size_t i = 0; i < MS_MEMORY_ROWS; i++) {
        snprintf(key, sizeof key, "%s", rows[i].name);
        for (char *c = key; *c != '\0'; c++)
            if (*c == ' ') *c = '_';
        ms_json_set(&all, key, json_integer((json_int_t)rows[i].bytes));
    }
    ms_json_set(&all, "needed", json_integer((json_int_t)ms_train_device_bytes(t, s)));
    if (t->memory.available > 0)
        ms_json_set(&all, "available", json_integer((json_int_t)t->memory.available));
    return all;
}

/* ---- all of it ------------------------------------------------------------------------------- */

musec_status ms_train_explain_json(ms_error *e, const ms_train_config *cfg, json_t **out)
{
    ms_train       t = { .cfg = *cfg };
    ms_train_sizes sizes;
    musec_status   st;

    *out = NULL;
    TRY(ms_train_build(e, &t, 1)); /* activations are counted, not allocated */
    TRY(ms_train_measure(e, &t, &sizes));
    *out = json_pack("{s:o, s:o, s:{s:o, s:o}, s:o, s:s, s:o, s:o, s:o}", "device", device_of(&t),
                     "model", model_of(&t, &sizes), "data", "train", sets_of(t.train), "val",
                     sets_of(t.val), "schedule", schedule_of(&t), "optimizer", t.cfg.optim.name,
                     "parameters", params_of(t.optim), "memory_bytes", memory_of(&t, &sizes),
                     "config", ms_train_config_json(&t.cfg));
    if (*out == NULL) st = ms_no_memory(e, "the description of the run");
done:
    ms_train_teardown(&t);
    return st;
}
