/* explain_json.c - what explain.c prints, as JSON for programs. */
#include <stdio.h>
#include <string.h>

#include "optim/optim.h"
#include "train/trainer.h"

static void put(json_t *to, const char *key, json_t *value) { json_object_set_new(to, key, value); }

static void put_whole(json_t *to, const char *key, int64_t x) { put(to, key, json_integer(x)); }
static void put_bool(json_t *to, const char *key, int64_t x) { put(to, key, json_boolean(x != 0)); }

/* A path may hold any bytes, but JSON only UTF-8: other text becomes null. */
static void put_text(json_t *to, const char *key, const char *text)
{
    json_t *value = text[0] == '\0' ? NULL : json_string(text);
    put(to, key, value != NULL ? value : json_null());
}

static json_t *numbers(const double *x, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real(x[i]));
    return list;
}

/* ---- sections -------------------------------------------------------------------------------- */

static json_t *device_of(const ms_train *t)
{
    json_t *all = json_object();
    put_text(all, "name", musec_ctx_device(t->ctx));
    put_text(all, "precision", ms_dtype_name(ms_gpt_dtype(t->gpt)));
    put_bool(all, "precision_is_auto", t->cfg.precision == MS_PRECISION_AUTO);
    put_bool(all, "deterministic", t->cfg.deterministic);
    put_text(all, "note", t->device_note);
    return all;
}

static json_t *model_of(const ms_train *t, const ms_train_sizes *s)
{
    static const char *const caps[] = { "none", "tanh", "sigmoid" }; /* by ms_cap */
    const ms_gpt_config     *m      = &t->cfg.model;
    json_t                  *all = json_object(), *n = json_object();
    put_whole(all, "layers", m->layers);
    put_whole(all, "width", m->width);
    put_whole(all, "heads", m->heads);
    put_whole(all, "head", m->head);
    put_whole(all, "mlp", m->mlp);
    put_whole(all, "vocab", m->vocab);
    put_bool(all, "qk_norm", m->qk_norm);
    put_bool(all, "tied", m->tied);
    put_bool(all, "head_gates", m->head_gates);
    put_bool(all, "x0_mix", m->x0_mix);
    put_text(all, "cap", caps[m->cap]);
    put_whole(n, "matrix", s->model.n_matrix);
    put_whole(n, "embed", s->model.n_embed);
    put_whole(n, "head", s->model.n_head);
    put_whole(n, "vector", s->model.n_vector);
    put_whole(n, "total",
              s->model.n_matrix + s->model.n_embed + s->model.n_head + s->model.n_vector);
    put(all, "parameters", n);
    return all;
}

static json_t *sets_of(const ms_mixture *m)
{
    json_t *list = json_array();
    char    text[512];
    for (size_t i = 0; i < ms_mixture_sets(m); i++) {
        const ms_source *source = ms_loader_source(ms_mixture_set(m, i));
        const int64_t    tokens = ms_source_tokens(source);
        json_t          *one    = json_object();
        ms_source_describe(source, text, sizeof text);
        put_text(one, "path", ms_source_path(source));
        put(one, "tokens", tokens < 0 ? json_null() : json_integer(tokens)); /* null: endless */
        put(one, "weight", json_real(ms_mixture_weight(m, i)));
        put_text(one, "description", text);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *stage_of(const ms_train_stage *g)
{
    json_t *all = json_object();
    put_whole(all, "first_step", g->first + 1);
    put_whole(all, "last_step", g->end);
    put_whole(all, "batch", g->batch);
    put_whole(all, "micro_batches", g->micro_batches);
    put_whole(all, "max_doc", g->max_doc);
    put_whole(all, "window_short", g->window_short);
    put_whole(all, "window_long", g->window_long);
    put(all, "lr_scale", json_real(g->lr));
    put(all, "loss_weights", numbers(g->weights, g->n_weights));
    put(all, "loss_weights_end", numbers(g->weights_end, g->n_weights));
    return all;
}

static json_t *schedule_of(const ms_train *t)
{
    const ms_schedule *s   = &t->schedule;
    json_t            *all = json_object(), *stages = json_array();
    int64_t            tokens = 0;
    for (int i = 0; i < s->n_stages; i++) {
        const ms_train_stage *g = &s->stage[i];
        tokens += (g->end - g->first) * g->batch;
        json_array_append_new(stages, stage_of(g));
    }
    put_whole(all, "steps", s->steps);
    put_whole(all, "tokens", tokens);
    put_text(all, "grad_reduction", t->cfg.grad_reduction == MS_REDUCTION_MEAN ? "mean" : "sum8");
    put(all, "cooldown", json_real(s->cooldown));
    put(all, "cooldown_to", json_real(s->cooldown_to));
    put(all, "beta", json_real(s->beta));
    put(all, "momentum_from", json_real(s->momentum_from));
    put_whole(all, "momentum_warmup", s->momentum_warmup);
    put_whole(all, "momentum_cooldown", s->momentum_cooldown);
    put(all, "stages", stages);
    return all;
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
    json_t    *all    = json_object();
    put_text(all, "name", p->name);
    put_text(all, "role", roles[p->role]);
    put_text(all, "rule", matrix ? opt->row->name : MS_AUX_BASE);
    put_whole(all, "rows", p->weight.rows);
    put_whole(all, "cols", p->weight.cols);
    put_whole(all, "matrices", matrix ? p->n_matrices : 0);
    put(all, "lr", json_real(ms_param_lr(opt, p) * p->lr_factor));
    put(all, "weight_decay", json_real(ms_param_decay(opt, p)));
    if (matrix)
        put(all, "shape_factor",
            json_real(ms_shape_factor(opt->cfg.shape_rule, p->blocks[0].rows, p->blocks[0].cols)));
    else
        put(all, "shape_factor", json_null());
    return all;
}

static json_t *params_of(const musec_optim *opt)
{
    json_t *list = json_array();
    for (size_t i = 0; i < opt->n_params; i++)
        json_array_append_new(list, param_of(opt, &opt->params[i]));
    return list;
}

static json_t *memory_of(const ms_train_sizes *s)
{
    ms_memory_row rows[MS_MEMORY_ROWS];
    json_t       *all = json_object();
    char          key[32];
    ms_train_memory_rows(s, rows);
    for (size_t i = 0; i < MS_MEMORY_ROWS; i++) {
        snprintf(key, sizeof key, "%s", rows[i].name);
        for (char *c = key; *c != '\0'; c++)
            if (*c == ' ') *c = '_';
        put_whole(all, key, (int64_t)rows[i].bytes);
    }
    return all;
}

/* ---- all of it ------------------------------------------------------------------------------- */

musec_status ms_train_explain_json(ms_error *e, const ms_train_config *cfg, json_t **out)
{
    ms_train       t    = { .cfg = *cfg };
    json_t        *data = NULL;
    ms_train_sizes sizes;
    musec_status   st;

    *out = NULL;
    TRY(ms_train_build(e, &t, 1)); /* activations are counted, not allocated */
    TRY(ms_train_measure(e, &t, &sizes));
    *out = json_object();
    data = json_object();
    put(*out, "device", device_of(&t));
    put(*out, "model", model_of(&t, &sizes));
    put(data, "train", sets_of(t.train));
    put(data, "val", sets_of(t.val));
    put(*out, "data", data);
    put(*out, "schedule", schedule_of(&t));
    put_text(*out, "optimizer", t.cfg.optim.name);
    put(*out, "parameters", params_of(t.optim));
    put(*out, "memory_bytes", memory_of(&sizes));
    put(*out, "config", ms_train_config_json(&t.cfg));
done:
    ms_train_teardown(&t);
    return st;
}
