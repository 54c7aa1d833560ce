/* config.c - the table of fields: names, explains, parses, prints and checks them. */
#include "train/config.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/options.h"
#include "core/real.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "optim/optim.h"
#include "train/presets.h"

typedef enum field_type { WHOLE, UNSIGNED, NUMBER, CHOICE, TEXT } field_type;

typedef struct field {
    const char *name;
    field_type  type;
    size_t      offset, bytes; /* bytes: of a TEXT */
    double      min, max;
    const char *values; /* the choices, "a|b|c", in the order of their codes; else what to write */
    const char *help;   /* without the default, which is the preset's, unless there is none */
} field;

#define AT(name)                  offsetof(ms_train_config, name)
#define SPACE(name)               sizeof(((ms_train_config *)NULL)->name)
#define WHOLE_AT(name, min, max)  WHOLE, AT(name), 0, min, max, "N"
#define NUMBER_AT(name, min, max) NUMBER, AT(name), 0, min, max, "X"
#define CHOICE_AT(name, values)   CHOICE, AT(name), 0, 0, 0, values
#define TEXT_AT(name, meta)       TEXT, AT(name), SPACE(name), 0, 0, meta
#define PRESETS                   "pico|nano|small|medium|wide"
#define MANY                      1e15

static const field fields[] = {
    { "data", TEXT_AT(data, "PATH[=WEIGHT]"),
      "a .bin shard, a text, a directory of either, or builtin[:SEED]; may be repeated, with "
      "weights" },
    { "val-data", TEXT_AT(val_data, "PATH[=WEIGHT]"), "what to validate on [that of --data]" },
    { "tokenizer", CHOICE_AT(tokenizer, "byte|gpt2"), "what the ids of --data mean" },
    { "doc-rest", CHOICE_AT(keep_rest, "skip|keep"),
      "what lies beyond max-doc is left out, or goes on as a document of its own" },
    { "steps", WHOLE_AT(steps, 1, MANY), "optimizer steps" },
    { "batch", WHOLE_AT(batch, 1, MANY), "tokens of a step" },
    { "micro-batches", WHOLE_AT(micro_batches, 1, MANY), "parts that a batch is run in" },
    { "max-doc", WHOLE_AT(max_doc, 1, MANY), "tokens of a document, at most" },
    { "window-short", WHOLE_AT(window_short, 0, MANY),
      "tokens before its own that a query sees, in short layers" },
    { "window-long", WHOLE_AT(window_long, 0, MANY), "the same in long layers" },
    { "long-layers", TEXT_AT(long_layers, "LAYERS"),
      "those with the long window: all, none or 0,4,..." },
    { "mtp", TEXT_AT(mtp, "WEIGHTS"), "of the next tokens in the loss, 1,0.5; 1,0.5>1,0 moves" },
    { "stages", TEXT_AT(stages, "STAGES"),
      "\"460 batch=N doc=N window=S/L lr=X mtp=1,W; 33% ...; rest ...\" [none]" },
    { "cooldown", NUMBER_AT(cooldown, 0, 1), "last share of the steps, in which lr falls" },
    { "cooldown-to", NUMBER_AT(cooldown_to, 0, 1e9), "share of lr that it falls to" },
    { "extension", WHOLE_AT(extension, 0, MANY), "of the steps, the last that stay there" },
    { "momentum-warmup", WHOLE_AT(momentum_warmup, 0, MANY),
      "steps in which beta goes from momentum-from to its value" },
    { "momentum-cooldown", WHOLE_AT(momentum_cooldown, 0, MANY), "last steps, back again" },
    { "momentum-from", NUMBER_AT(momentum_from, 0, 1), "beta at the ends of these" },
    { "grad-reduction", CHOICE_AT(grad_reduction, "mean|sum8"),
      "gradient of the mean over tokens, or of the sum over 8 (thresholds see it)" },
    { "val-every", WHOLE_AT(val_every, 0, MANY), "steps between validations; 0: at the end" },
    { "val-tokens", WHOLE_AT(val_tokens, 1, MANY), "tokens to validate on, at most" },
    { "checkpoint-every", WHOLE_AT(checkpoint_every, 0, MANY),
      "steps between checkpoints; 0: at the end" },
    { "keep", WHOLE_AT(keep, 0, MANY), "checkpoints to keep; 0: all" },
    { "seed", UNSIGNED, AT(seed), 0, 0, 0, "N", "of the weights' starting values" },
    { "init-from", TEXT_AT(init_from, "PATH"),
      "begin with the weights of a run, a checkpoint, an export or a .safetensors file [drawn]" },
    { "diverge-factor", NUMBER_AT(diverge_factor, 1, 1e9),
      "a loss above that many times the first one is too high" },
    { "diverge-steps", WHOLE_AT(diverge_steps, 1, MANY),
      "steps with too high a loss that end the run as diverged" },
    { "device", TEXT_AT(device, "DEVICE"),
      "where to compute, as listed by musec info [the best one here]" },
    { "precision", CHOICE_AT(precision, "auto|f32|bf16|f16"),
      "of activations; weights and gradients stay f32; auto: bf16 on a GPU, else f32; f16, which "
      "has no loss scaling, is for comparisons" },
    { "deterministic", CHOICE_AT(deterministic, "no|yes"),
      "the same bits from run to run; no lets a GPU take what is faster" },
    { "layers", WHOLE_AT(model.layers, 1, MS_GPT_LAYERS), "transformer layers" },
    { "width", WHOLE_AT(model.width, 1, 1 << 20), "of the residual stream" },
    { "heads", WHOLE_AT(model.heads, 1, 1 << 14), "attention heads" },
    { "head", WHOLE_AT(model.head, 2, 1 << 14), "width of a head" },
    { "mlp", WHOLE_AT(model.mlp, 1, 1 << 20), "hidden width of the MLP" },
    { "vocab", WHOLE_AT(model.vocab, 0, 65536), "ids, padded; 0: the tokenizer's own" },
    { "qk-norm", CHOICE_AT(model.qk_norm, "no|yes"), "normalise q and k per head" },
    { "tied", CHOICE_AT(model.tied, "no|yes"), "the embedding is the head" },
    { "head-gates", CHOICE_AT(model.head_gates, "no|yes"), "a learned gate on each head" },
    { "gate-width", WHOLE_AT(model.gate_width, 1, 1 << 20), "columns that gates read" },
    { "x0-mix", CHOICE_AT(model.x0_mix, "no|yes"), "each layer mixes the embedding in again" },
    { "cap", CHOICE_AT(model.cap, "none|tanh|sigmoid"), "how logits are bounded" },
    { "cap-scale", NUMBER_AT(model.cap_scale, 0, 1e9), "c tanh(y/c), c/(1+exp(-(y+s)/w)): c" },
    { "cap-shift", NUMBER_AT(model.cap_shift, -1e9, 1e9), "s of it" },
    { "cap-width", NUMBER_AT(model.cap_width, 0, 1e9), "w of it" },
    { "attn-scale", NUMBER_AT(model.attn_scale, 0, 1e9), "on q.k; 0: 1/sqrt(head)" },
    { "attn-softcap", NUMBER_AT(model.attn_softcap, 0, 1e9),
      "bounds attention logits by c tanh(y/c); 0: not" },
    { "rope-base", NUMBER_AT(model.rope_base, 1, 1e9), "slowest RoPE frequency is 1/X" },
    { "rope-share", NUMBER_AT(model.rope_share, 0, 1), "of a head's columns that turn" },
    { "rope-pairs", CHOICE_AT(model.rope_adjacent, "split|adjacent"),
      "RoPE pairs columns j, j+head/2 or 2j, 2j+1" },
    { "norm-eps", NUMBER_AT(model.norm_eps, 1e-30, 1), "of RMSNorm" },
    { "init-qkv", NUMBER_AT(model.init_qkv, 0, 1e9), "deviation times sqrt(width) at start" },
    { "init-out", NUMBER_AT(model.init_out, 0, 1e9), "likewise of W_o" },
    { "init-up", NUMBER_AT(model.init_up, 0, 1e9), "likewise of the MLP's first matrix" },
    { "init-down", NUMBER_AT(model.init_down, 0, 1e9), "likewise of its second" },
    { "init-embed", NUMBER_AT(model.init_embed, 0, 1e9), "deviation of the embedding" },
    { "init-head", NUMBER_AT(model.init_head, 0, 1e9), "deviation of the head" },
    { "init-residual", NUMBER_AT(model.init_residual, 0, 1e9), "x0-mix: share of the stream" },
    { "lr-qk", NUMBER_AT(lr_qk, 0, 1e9), "factor on lr of W_q, W_k" },
    { "lr-vo", NUMBER_AT(lr_vo, 0, 1e9), "factor on lr of W_v, W_o" },
    { "lr-up", NUMBER_AT(lr_up, 0, 1e9), "factor on lr of the MLP's first matrix" },
    { "lr-down", NUMBER_AT(lr_down, 0, 1e9), "factor on lr of its second" },
};

/* Of the optimizer's own options, these follow from the run. */
static const char *const not_ours[] = { "seed" };

/* ---- names ----------------------------------------------------------------------------------- */

bool ms_train_field_same(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return false;
    return *a == *b;
}

static const field *find_field(const char *key)
{
    for (size_t i = 0; i < COUNT(fields); i++)
        if (ms_train_field_same(fields[i].name, key)) return &fields[i];
    return NULL;
}

/* The optimizer's options that are fields here: number `index` of them. */
static const char *optim_field(size_t index, const char **values, const char **help)
{
    const char *name;
    for (size_t i = 0; (name = musec_optim_option(i, values, help)) != NULL; i++) {
        bool ours = true;
        for (size_t j = 0; j < COUNT(not_ours); j++)
            if (strcmp(name, not_ours[j]) == 0) ours = false;
        if (ours && index-- == 0) return name;
    }
    return NULL;
}

bool ms_train_field_at(size_t index, ms_train_field *out)
{
    if (index < COUNT(fields)) {
        *out = (ms_train_field){ fields[index].name, fields[index].values, fields[index].help };
        return true;
    }
    out->name = optim_field(index - COUNT(fields), &out->values, &out->help);
    return out->name != NULL;
}

enum { MOST_NAMES = 160 };

static musec_status unknown(ms_error *e, const char *kind, const char *name,
                            const char *const *names, size_t n)
{
    char        wanted[64];
    const char *near;

    snprintf(wanted, sizeof wanted, "%s", name);
    for (char *c = wanted; *c != '\0'; c++)
        if (*c == '_') *c = '-';
    near = ms_name_nearest(wanted, names, n);
    return ms_fail(e, MUSEC_EINVAL, "there is no %s \"%s\"%s%s%s", kind, name,
                   near != NULL ? "; did you mean \"" : "; musec train --help lists them",
                   near != NULL ? near : "", near != NULL ? "\"?" : "");
}

static musec_status unknown_field(ms_error *e, const char *key)
{
    const char    *names[MOST_NAMES];
    size_t         n = 0;
    ms_train_field f;
    for (; n < MOST_NAMES && ms_train_field_at(n, &f); n++)
        names[n] = f.name;
    return unknown(e, "field", key, names, n);
}

static musec_status unknown_optimizer(ms_error *e, const char *name)
{
    const char *names[MOST_NAMES];
    size_t      n = 0;
    while (n < MOST_NAMES && (names[n] = musec_optim_name(n, NULL)) != NULL)
        n++;
    return unknown(e, "optimizer", name, names, n);
}

/* ---- text to value --------------------------------------------------------------------------- */

static musec_status wrong(ms_error *e, const field *f, const char *value)
{
    if (f->type == CHOICE)
        return ms_fail(e, MUSEC_EINVAL, "%s is \"%s\"; it must be one of %s", f->name, value,
                       f->values);
    if (f->type == TEXT && strlen(value) >= f->bytes)
        return ms_fail(e, MUSEC_EINVAL, "%s is longer than %zu bytes", f->name, f->bytes - 1);
    if (f->type == TEXT)
        return ms_fail(e, MUSEC_EINVAL, "%s is \"%s\"; it must be UTF-8, to go into config.json",
                       f->name, value);
    if (f->type == UNSIGNED)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s is \"%s\"; it must be a whole number from 0 to 18446744073709551615",
                       f->name, value);
    return ms_fail(e, MUSEC_EINVAL,
                   f->type == WHOLE ? "%s is \"%s\"; it must be a whole number from %.0f to %.0f"
                                    : "%s is \"%s\"; it must be a number from %g to %g",
                   f->name, value, f->min, f->max);
}

static int64_t choice_index(const char *values, const char *value)
{
    const size_t length = strlen(value);
    int64_t      index  = 0;
    for (const char *at = values; *at != '\0'; index++) {
        const size_t n = strcspn(at, "|");
        if (n == length && strncmp(at, value, n) == 0) return index;
        at += n + (at[n] == '|');
    }
    return -1;
}

static bool set_whole(const field *f, const char *value, int64_t *out)
{
    char *end         = NULL;
    errno             = 0;
    const long long x = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0) return false;
    if ((double)x < f->min || (double)x > f->max) return false;
    *out = x;
    return true;
}

static bool set_unsigned(const char *value, uint64_t *out)
{
    char *end                  = NULL;
    errno                      = 0;
    const unsigned long long x = strtoull(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || !isdigit((unsigned char)*value)) return false;
    *out = x;
    return true;
}

static bool set_number(const field *f, const char *value, double *out)
{
    char        *end = NULL;
    const double x   = ms_real_read(value, &end);
    if (end == value || *end != '\0' || !(x >= f->min && x <= f->max)) return false;
    *out = x;
    return true;
}

static bool set_text(const field *f, const char *value, char *out)
{
    json_t    *json  = json_string(value); /* NULL: not UTF-8, and the field would get lost */
    const bool valid = json != NULL && strlen(value) < f->bytes;
    json_decref(json);
    if (!valid) return false;
    snprintf(out, f->bytes, "%s", value);
    return true;
}

static musec_status set_field(ms_error *e, const field *f, ms_train_config *cfg, const char *value)
{
    void   *at = (char *)cfg + f->offset;
    bool    ok = false;
    int64_t index;
    switch (f->type) {
    case WHOLE: ok = set_whole(f, value, at); break;
    case UNSIGNED: ok = set_unsigned(value, at); break;
    case NUMBER: ok = set_number(f, value, at); break;
    case TEXT: ok = set_text(f, value, at); break;
    case CHOICE:
        index = choice_index(f->values, value);
        ok    = index >= 0;
        if (ok) *(int64_t *)at = index;
        break;
    }
    return ok ? MUSEC_OK : wrong(e, f, value);
}

musec_status ms_train_config_set(ms_error *e, ms_train_config *cfg, const char *key,
                                 const char *value)
{
    const field *f = find_field(key);
    const char  *name;
    if (f != NULL) return set_field(e, f, cfg, value);
    for (size_t i = 0; (name = optim_field(i, NULL, NULL)) != NULL; i++)
        if (ms_train_field_same(name, key)) return ms_optim_config_set(e, &cfg->optim, name, value);
    return unknown_field(e, key);
}

musec_status ms_train_config_get(const ms_train_config *cfg, const char *key, char *text,
                                 size_t bytes)
{
    const field *f  = find_field(key);
    const char  *at = f == NULL ? NULL : (const char *)cfg + f->offset;
    char         number[MS_REAL_TEXT];
    if (f == NULL) return ms_optim_config_get(&cfg->optim, key, text, bytes);
    switch (f->type) {
    case WHOLE: snprintf(text, bytes, "%lld", (long long)*(const int64_t *)(const void *)at); break;
    case UNSIGNED:
        snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)(const void *)at);
        break;
    case NUMBER:
        ms_real_text(*(const double *)(const void *)at, number);
        snprintf(text, bytes, "%s", number);
        break;
    case TEXT: snprintf(text, bytes, "%s", at); break;
    case CHOICE: {
        const char *values = f->values;
        for (int64_t i = *(const int64_t *)(const void *)at; i > 0; i--)
            values += strcspn(values, "|") + 1;
        snprintf(text, bytes, "%.*s", (int)strcspn(values, "|"), values);
        break;
    }
    }
    return MUSEC_OK;
}

ms_value_kind ms_train_config_kind(const ms_train_config *cfg, const char *key)
{
    const field *f = find_field(key);
    if (f == NULL) return ms_optim_config_kind(&cfg->optim, key);
    if (f->type == NUMBER) return MS_VALUE_REAL;
    return f->type == WHOLE || f->type == UNSIGNED ? MS_VALUE_WHOLE : MS_VALUE_TEXT;
}

/* ---- presets --------------------------------------------------------------------------------- */

const char *ms_preset_name(size_t index, const char **help)
{
    for (size_t i = 0; i <= index; i++)
        if (ms_presets[i].name == NULL) return NULL;
    if (help != NULL) *help = ms_presets[index].help;
    return ms_presets[index].name;
}

/* "muon:lr=0.02" is for muon alone.  Those are `own`; they come after all others, so that the lr of
 * a preset does not undo that of an optimizer. */
static musec_status apply(ms_error *e, ms_train_config *cfg, const char *const *settings, bool own)
{
    char         text[MS_TEXT_MAX];
    musec_status st = MUSEC_OK;
    for (; *settings != NULL; settings++) {
        snprintf(text, sizeof text, "%s", *settings);
        char *equal = strchr(text, '='), *key = text, *colon;
        *equal = '\0';
        colon  = strchr(text, ':');
        if ((colon != NULL) != own) continue;
        if (colon != NULL) {
            *colon = '\0';
            if (strcmp(text, cfg->optim.name) != 0) continue;
            key = colon + 1;
        }
        TRY(ms_train_config_set(e, cfg, key, equal + 1));
    }
done:
    return st;
}

musec_status ms_train_config_init(ms_error *e, ms_train_config *cfg, const char *preset,
                                  const char *optimizer)
{
    musec_status  st;
    const int64_t index = choice_index(PRESETS, preset);

    *cfg = (ms_train_config){ .preset = index };
    if (index < 0)
        return ms_fail(e, MUSEC_EINVAL, "there is no preset \"%s\"; there are %s", preset, PRESETS);
    if (musec_optim_config_init(&cfg->optim, sizeof cfg->optim, optimizer) != MUSEC_OK)
        return unknown_optimizer(e, optimizer);
    for (int own = 0; own < 2; own++) {
        TRY(apply(e, cfg, ms_preset_common, own != 0));
        TRY(apply(e, cfg, ms_presets[index].settings, own != 0));
    }
done:
    return st;
}

void ms_train_config_settle(ms_train_config *cfg,
                            bool (*is_given)(const void *arg, const char *key), const void *arg,
                            char told[MS_SETTLE_TEXT])
{
    static const char *const staged[] = { "batch",        "micro-batches", "max-doc",
                                          "window-short", "window-long",   "mtp" };
    int                      n        = 0;

    told[0] = '\0';
    for (size_t i = 0; i < COUNT(staged) && cfg->stages[0] != '\0'; i++) {
        if (!is_given(arg, staged[i]) || is_given(arg, "stages")) continue;
        cfg->stages[0] = '\0';
        n = snprintf(told, MS_SETTLE_TEXT, "%s stands in place of the preset's stages\n",
                     staged[i]);
    }
    if (cfg->extension >= cfg->steps && !is_given(arg, "extension")) {
        cfg->extension = 0;
        snprintf(told + n, (size_t)(MS_SETTLE_TEXT - n), "%lld steps have no extension\n",
                 (long long)cfg->steps);
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static musec_status read_long_layers(ms_error *e, ms_train_config *cfg)
{
    const char *at = cfg->long_layers;
    if (strcmp(at, "all") == 0) {
        cfg->model.long_layers = UINT64_MAX;
        return MUSEC_OK;
    }
    cfg->model.long_layers = 0;
    if (strcmp(at, "none") == 0) return MUSEC_OK;
    for (;;) {
        char      *end   = NULL;
        const long layer = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (layer < 0 || layer >= MS_GPT_LAYERS || (*end != ',' && *end != '\0'))
            return ms_fail(e, MUSEC_EINVAL,
                           "long-layers is \"%s\"; it must be all, none, or layers such as 0,4,11",
                           cfg->long_layers);
        cfg->model.long_layers |= (uint64_t)1 << layer;
        if (*end == '\0') return MUSEC_OK;
        at = end + 1;
    }
}

musec_status ms_train_config_check(ms_error *e, ms_train_config *cfg)
{
    const int64_t gpt2_ids = 50304,
                  least    = cfg->tokenizer == MS_TOKENIZER_BYTE ? MS_BYTES_START + 1 : MS_BPE_IDS;
    musec_status st;

    if (cfg->model.vocab == 0)
        cfg->model.vocab = cfg->tokenizer == MS_TOKENIZER_BYTE ? MS_BYTES_VOCAB : gpt2_ids;
    if (cfg->model.vocab < least)
        return ms_fail(e, MUSEC_EINVAL, "vocab is %lld; the tokenizer has %lld ids",
                       (long long)cfg->model.vocab, (long long)least);
    cfg->optim.seed = cfg->seed;
    TRY(read_long_layers(e, cfg));
    TRY(ms_gpt_check(e, &cfg->model));
    TRY(ms_optim_config_check(e, &cfg->optim));
done:
    return st;
}

/* ---- comparing ------------------------------------------------------------------------------- */

const char *ms_train_config_differs(const ms_train_config *a, const ms_train_config *b,
                                    const char *const *allowed)
{
    char           x[MS_PATH_MAX], y[MS_PATH_MAX];
    ms_train_field f;

    if (strcmp(a->optim.name, b->optim.name) != 0) return "optimizer";
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        bool may = false;
        for (const char *const *name = allowed; *name != NULL; name++)
            if (strcmp(*name, f.name) == 0) may = true;
        ms_train_config_get(a, f.name, x, sizeof x);
        ms_train_config_get(b, f.name, y, sizeof y);
        if (!may && strcmp(x, y) != 0) return f.name;
    }
    return NULL;
}
