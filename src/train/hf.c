/* hf.c - see hf.h. */
#include "train/hf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "model/layout.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
    const char *ours, *theirs;
    bool        transposed;
} rows[] = {
    { "embed", "model.embed_tokens.weight", false },
    { "head", "lm_head.weight", false },
    { "mix", "mix", false },
    { "attn.q", "self_attn.q_proj.weight", false },
    { "attn.k", "self_attn.k_proj.weight", false },
    { "attn.v", "self_attn.v_proj.weight", false },
    { "attn.gate", "self_attn.gate_proj.weight", false },
    { "attn.o", "self_attn.o_proj.weight", false },
    { "mlp.up", "mlp.up_proj.weight", false },
    { "mlp.down", "mlp.down_proj.weight", true },
};

void ms_hf_name(const ms_gpt_config *model, const char *name, char out[MS_HF_NAME],
                bool *transposed)
{
    const bool   in_layer = strncmp(name, "layer.", 6) == 0;
    const char  *number   = in_layer ? name + 6 : "";
    const size_t digits   = strcspn(number, ".");
    const char  *part     = in_layer ? number + digits + 1 : name;

    if (model->tied && strcmp(name, "head") == 0) part = "embed"; /* the embedding is stored */
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (strcmp(rows[i].ours, part) != 0) continue;
        if (in_layer)
            snprintf(out, MS_HF_NAME, "model.layers.%.*s.%s", (int)digits, number, rows[i].theirs);
        else
            snprintf(out, MS_HF_NAME, "%s", rows[i].theirs);
        *transposed = rows[i].transposed;
        return;
    }
    snprintf(out, MS_HF_NAME, "%s", name);
    *transposed = false;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static json_t *windows_of(const ms_hf_model *m)
{
    json_t *all = json_array();
    for (int64_t l = 0; l < m->config->model.layers; l++)
        ms_json_append(&all, json_integer(m->config->model.long_layers >> l & 1 ? m->window_long
                                                                                : m->window_short));
    return all;
}

/* The run's settings, without the paths and devices of this machine. */
static json_t *settings_of(const ms_train_config *cfg)
{
    json_t        *all = ms_train_config_json(cfg);
    ms_train_field f;
    char           key[MS_CONFIG_KEY];
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if ((f.flags & MS_FIELD_LOCAL) != 0)
            (void)json_object_del(all, ms_train_field_key(f.name, key));
    return all;
}

json_t *ms_hf_config(const ms_hf_model *m)
{
    static const char *const caps[] = { "none", "tanh", "sigmoid" };
    static const char *const acts[] = { "relu2", "gelu" }; /* by ms_activation */
    const ms_gpt_config     *g      = &m->config->model;
    const json_int_t         start  = m->ids - 1;
    const double scale = g->attn_scale > 0.0 ? g->attn_scale : 1.0 / sqrt((double)g->head);
    json_t      *all =
        json_pack("{s:[s], s:{s:s, s:s}, s:s, s:s}", "architectures", "MusecForCausalLM",
                  "auto_map", "AutoConfig", "configuration_musec.MusecConfig",
                  "AutoModelForCausalLM", "modeling_musec.MusecForCausalLM", "model_type", "musec",
                  "torch_dtype", m->dtype == MUSEC_BF16 ? "bfloat16" : "float32");
    json_t *sizes = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "vocab_size",
        (json_int_t)g->vocab, "hidden_size", (json_int_t)g->width, "intermediate_size",
        (json_int_t)g->mlp, "num_hidden_layers", (json_int_t)g->layers, "num_attention_heads",
        (json_int_t)g->heads, "head_dim", (json_int_t)g->head, "max_position_embeddings",
        (json_int_t)m->context, "bos_token_id", start, "eos_token_id", start, "pad_token_id", start,
        "tie_word_embeddings", (int)g->tied);
    json_t *rules = json_pack(
        "{s:o, s:f, s:f, s:b, s:f, s:I, s:b, s:b, s:I, s:b, s:s, s:s, s:f, s:f, s:f, s:f, s:b}",
        "attention_windows", windows_of(m), "attention_scale", scale, "attention_softcap",
        g->attn_softcap, "qk_norm", (int)g->qk_norm, "rope_base", g->rope_base, "rope_pairs",
        (json_int_t)ms_gpt_rope_pairs(g), "rope_adjacent", (int)g->rope_adjacent, "head_gates",
        (int)g->head_gates, "gate_width", (json_int_t)g->gate_width, "x0_mix", (int)g->x0_mix,
        "activation", acts[g->activation], "logit_cap", caps[g->cap], "logit_cap_scale",
        g->cap_scale, "logit_cap_shift", g->cap_shift, "logit_cap_width", g->cap_width, "norm_eps",
        g->norm_eps, "use_cache", 1);
    json_t *origin = json_pack("{s:{s:s, s:I, s:o}}", "musec", "version", musec_version(), "step",
                               (json_int_t)m->step, "config", settings_of(m->config));

    if (sizes == NULL || rules == NULL || origin == NULL) {
        json_decref(all);
        all = NULL;
    }
    ms_json_update(&all, sizes);
    ms_json_update(&all, rules);
    ms_json_update(&all, origin);
    json_decref(sizes);
    json_decref(rules);
    json_decref(origin);
    return all;
}

/* The ids that only pad the vocabulary are never sampled. */
json_t *ms_hf_generation_config(const ms_hf_model *m)
{
    const json_int_t start   = m->ids - 1;
    json_t          *padding = json_array();
    json_t *all = json_pack("{s:I, s:I, s:I}", "bos_token_id", start, "eos_token_id", start,
                            "pad_token_id", start);
    for (int64_t id = m->ids; id < m->config->model.vocab; id++)
        ms_json_append(&padding, json_integer(id));
    if (m->ids < m->config->model.vocab)
        ms_json_set(&all, "suppress_tokens", padding);
    else
        json_decref(padding);
    return all;
}

json_t *ms_hf_tokenizer_config(const ms_hf_model *m)
{
    static const char start[] = "<|endoftext|>";
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:b, s:[s, s]}", "tokenizer_class",
                     "PreTrainedTokenizerFast", "bos_token", start, "eos_token", start, "pad_token",
                     start, "model_max_length", (json_int_t)m->context, "padding_side", "left",
                     "clean_up_tokenization_spaces", 0, "model_input_names", "input_ids",
                     "attention_mask");
}
