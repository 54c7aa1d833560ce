/* card.c - the model card of an export: a README.md with a YAML header, as Hugging Face uses it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "train/hf.h"

static const char head[] = "---\n"
                           "library_name: transformers\n"
                           "pipeline_tag: text-generation\n"
                           "tags:\n"
                           "- musec\n"
                           "---\n\n";

static void put_loss(const json_t *state, const char *key, const char *what, FILE *to)
{
    const char  *text = json_string_value(json_object_get(state, key)); /* hexadecimal */
    const double loss = text == NULL ? NAN : strtod(text, NULL);
    if (!isnan(loss)) fprintf(to, "| %s | %.4f nats per token |\n", what, loss);
}

/* Escapes the characters of a file name that have a meaning in Markdown. */
static void put_text(const char *text, FILE *to)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\`*_{}[]<>()#+!|", *text) != NULL) fputc('\\', to);
        fputc(*text == '\n' ? ' ' : *text, to);
    }
}

static void put_data(const json_t *state, FILE *to)
{
    const json_t *sets = json_object_get(json_object_get(state, "data"), "train");
    for (size_t i = 0; i < json_array_size(sets); i++) {
        const json_t *set    = json_array_get(sets, i);
        const json_t *tokens = json_object_get(set, "tokens");
        const char   *name   = json_string_value(json_object_get(set, "name"));
        const char   *sum    = json_string_value(json_object_get(set, "sha256"));
        fputs("| data | ", to);
        put_text(name != NULL ? name : "?", to);
        if (json_is_integer(tokens))
            fprintf(to, ", %lld tokens", (long long)json_integer_value(tokens));
        if (sum != NULL) fprintf(to, ", sha256 %.16s", sum);
        fputs(" |\n", to);
    }
}

static void put_model(const ms_hf_model *m, FILE *to)
{
    const ms_gpt_config *g = &m->config->model;
    ms_gpt_sizes         sizes;
    ms_error             ignored;

    fprintf(to,
            "| model | %lld layers of %lld, %lld heads of %lld, MLP %lld, %lld ids (%lld used) |\n",
            (long long)g->layers, (long long)g->width, (long long)g->heads, (long long)g->head,
            (long long)g->mlp, (long long)g->vocab, (long long)m->ids);
    if (ms_gpt_measure(&ignored, g, MUSEC_F32, 1, 1, &sizes) == MUSEC_OK) {
        const int64_t all = sizes.n_matrix + sizes.n_embed + sizes.n_head + sizes.n_vector;
        fprintf(to,
                "| parameters | %lld: %lld in matrices, %lld embedding, %lld head, %lld others |\n",
                (long long)all, (long long)sizes.n_matrix, (long long)sizes.n_embed,
                (long long)sizes.n_head, (long long)sizes.n_vector);
    }
    fprintf(to,
            "| attention | causal, windows of %lld and %lld tokens before a query's own; QK-norm "
            "%s |\n| documents | up to %lld tokens |\n| tokenizer | %s |\n| weights | %s |\n",
            (long long)m->window_short, (long long)m->window_long, g->qk_norm ? "on" : "off",
            (long long)m->context,
            m->config->tokenizer == MS_TOKENIZER_BYTE ? "bytes; 256 starts a document"
                                                      : "GPT-2's; 50256 starts a document",
            m->dtype == MUSEC_BF16 ? "bfloat16, rounded from float32" : "float32");
}

static void put_run(const ms_hf_model *m, const json_t *state, FILE *to)
{
    static const char *const shown[] = { "lr", "threshold", "weight-decay" };
    const ms_train_config   *cfg     = m->config;
    char                     value[128];

    fprintf(to, "| optimizer | %s", cfg->optim.name);
    for (size_t i = 0; i < COUNT(shown); i++)
        if (ms_optim_reads(&cfg->optim, shown[i]) &&
            ms_train_config_get(cfg, shown[i], value, sizeof value) == MUSEC_OK)
            fprintf(to, ", %s %s", shown[i], value);
    fprintf(to, " |\n| steps | %lld of %lld |\n| tokens seen | %lld |\n", (long long)m->step,
            (long long)cfg->steps, (long long)json_integer_value(json_object_get(state, "tokens")));
    put_loss(state, "last_loss", "last training loss", to);
    put_loss(state, "last_val_loss", "last validation loss", to);
    put_data(state, to);
    fprintf(to, "| seed | %llu |\n| trained with | musec %s |\n", (unsigned long long)cfg->seed,
            musec_version());
}

static const char usage[] =
    "\n## Use\n\n"
    "The model's own file, `modeling_musec.py`, is in this directory, so it must be trusted:\n\n"
    "```python\n"
    "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
    "model = AutoModelForCausalLM.from_pretrained(\"DIRECTORY\", trust_remote_code=True)\n";

static const char with_tokenizer[] =
    "tokenizer = AutoTokenizer.from_pretrained(\"DIRECTORY\", trust_remote_code=True)\n"
    "inputs = tokenizer(\"The \", return_tensors=\"pt\")\n"
    "out = model.generate(**inputs, max_new_tokens=100, do_sample=True, temperature=0.8)\n"
    "print(tokenizer.decode(out[0], skip_special_tokens=True))\n"
    "```\n\n";
static const char without_tokenizer[] =
    "```\n\n"
    "There is no tokenizer here: the ids are GPT-2's, so "
    "`AutoTokenizer.from_pretrained(\"gpt2\")`\n"
    "gives them. Put 50256 before a text: it starts a document.\n\n";

static const char notes[] =
    "A sequence is one document; it begins with the start token, which the tokenizer here puts\n"
    "before a text. The model has seen no longer documents than those of the table. `config.json`\n"
    "has the settings of the training run under `musec`.\n";

void ms_hf_card(const ms_hf_model *m, const json_t *state, bool has_tokenizer, FILE *to)
{
    fputs(head, to);
    fprintf(to,
            "# A GPT trained by musec\n\n"
            "Preset %s, step %lld. RMSNorm without gains, RoPE, squared ReLU, no biases.\n\n"
            "| | |\n|---|---|\n",
            ms_preset_name((size_t)m->config->preset, NULL), (long long)m->step);
    put_model(m, to);
    put_run(m, state, to);
    fputs(usage, to);
    fputs(has_tokenizer ? with_tokenizer : without_tokenizer, to);
    fputs(notes, to);
}
