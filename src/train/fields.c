/* fields.c - the table of a config's fields.
 *
 * A row is all that there is to say of a field: config.c parses and prints by it, --help shows it
 * under its group, completion reads its choices.  Help is a plain phrase without the default, which
 * is the preset's. */
#include "train/fields.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(name)                  offsetof(ms_train_config, name)
#define SPACE(name)               sizeof(((ms_train_config *)NULL)->name)
#define WHOLE_AT(name, min, max)  MS_FIELD_WHOLE, AT(name), 0, min, max, "N"
#define NUMBER_AT(name, min, max) MS_FIELD_NUMBER, AT(name), 0, min, max, "X"
#define CHOICE_AT(name, values)   MS_FIELD_CHOICE, AT(name), 0, 0, 0, values
#define TEXT_AT(name, meta)       MS_FIELD_TEXT, AT(name), SPACE(name), 0, 0, meta
#define MANY                      1e15

/* ---- groups ---------------------------------------------------------------------------------- */

#define COMMON   MS_GROUP_COMMON
#define DATA     "Data"
#define MODEL    "Model"
#define INITIAL  "Initial weights"
#define OPTIM    "Optimizer"
#define CLIPPING "How clipping is computed"
#define SINGLE   "Options of single optimizers"
#define AUX      "AdamW of the embedding, the output head and vectors"
#define SCHEDULE "Schedule"
#define LOGGING  MS_GROUP_LOGGING
#define DEVICE   "Device and precision"

/* In the order of --help. */
static const char *const groups[] = { COMMON, DATA, MODEL,    INITIAL, OPTIM, CLIPPING,
                                      SINGLE, AUX,  SCHEDULE, LOGGING, DEVICE };

const char *ms_train_group(size_t index) { return index < COUNT(groups) ? groups[index] : NULL; }

/* The optimizer's options have a table of their own, without groups; those that are not named here
 * go with the optimizer. */
static const struct {
    const char *group, *names; /* each name with a blank on either side */
} optim_groups[] = {
    { COMMON, " lr threshold weight-decay " },
    { CLIPPING, " ns-mode ns-iters ns-tol ns-coeffs literal " },
    { SINGLE, " base clip beta1 beta2 eps beta3 alpha alpha-warmup beta3-warmup qk-tau qk-alpha " },
    { AUX, " aux-lr aux-beta1 aux-beta2 aux-eps aux-weight-decay " },
    { LOGGING, " report-every " },
    { DEVICE, " operands momentum-dtype workspace " },
};

const char *ms_field_optim_group(const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name != NULL ? name : "");
    for (size_t i = 0; i < COUNT(optim_groups); i++)
        if (strstr(optim_groups[i].names, word) != NULL) return optim_groups[i].group;
    return OPTIM;
}

/* ---- fields ---------------------------------------------------------------------------------- */

const ms_field ms_fields[] = {
    { "data", TEXT_AT(data, "PATH[=WEIGHT]"), COMMON,
      "train on this text, .bin shard or directory of either, or on builtin[:SEED], the built-in "
      "corpus; may be repeated, with weights" },
    { "val-data", TEXT_AT(val_data, "PATH[=WEIGHT]"), DATA,
      "validate on these data instead [a part of --data that is not trained on]" },
    { "tokenizer", CHOICE_AT(tokenizer, "byte|gpt2"), COMMON,
      "what the token ids of the data mean; a text can only be read as bytes" },
    { "data-format", CHOICE_AT(data_bare, "shard|nanogpt"), DATA,
      "layout of .bin files: shards with a header, or nanoGPT's bare 16-bit tokens, which are "
      "GPT-2's" },
    { "doc-rest", CHOICE_AT(keep_rest, "skip|keep"), DATA,
      "skip what a document has beyond max-doc, or keep it as a document of its own" },
    { "steps", WHOLE_AT(steps, 1, MANY), COMMON, "number of optimizer steps" },
    { "batch", WHOLE_AT(batch, 1, MANY), COMMON, "tokens per optimizer step" },
    { "micro-batches", WHOLE_AT(micro_batches, 1, MANY), SCHEDULE,
      "split each batch into this many parts, to save memory (gradient accumulation)" },
    { "max-doc", WHOLE_AT(max_doc, 1, MANY), DATA,
      "longest document in tokens: the context length of training" },
    { "mtp", TEXT_AT(mtp, "WEIGHTS"), SCHEDULE,
      "multi-token prediction: loss weights of the next tokens, such as 1,0.5; 1,0.5>1,0 changes "
      "them over the run" },
    { "stages", TEXT_AT(stages, "STAGES"), SCHEDULE,
      "several stages: \"460 batch=N doc=N window=S/L lr=X mtp=1,W; 33% ...; rest ...\" [none]" },
    { "cooldown", NUMBER_AT(cooldown, 0, 1), SCHEDULE,
      "share of the steps, at the end, over which the learning rate falls linearly" },
    { "cooldown-to", NUMBER_AT(cooldown_to, 0, 1e9), SCHEDULE,
      "share of the learning rate that is left after the cooldown" },
    { "extension", WHOLE_AT(extension, 0, MANY), SCHEDULE,
      "number of last steps that stay at that final learning rate" },
    { "momentum-warmup", WHOLE_AT(momentum_warmup, 0, MANY), SCHEDULE,
      "first steps, in which beta goes from momentum-from to its own value" },
    { "momentum-cooldown", WHOLE_AT(momentum_cooldown, 0, MANY), SCHEDULE,
      "last steps, in which beta goes back to momentum-from" },
    { "momentum-from", NUMBER_AT(momentum_from, 0, 1), SCHEDULE,
      "beta at the start of the warmup and at the end of the cooldown" },
    { "grad-reduction", CHOICE_AT(grad_reduction, "mean|sum8"), SCHEDULE,
      "take the gradient of the mean loss over tokens, or of its sum over tokens divided by 8; "
      "thresholds depend on it" },
    { "val-every", WHOLE_AT(val_every, 0, MANY), LOGGING,
      "steps between validations; 0: only at the end" },
    { "val-tokens", WHOLE_AT(val_tokens, 1, MANY), LOGGING,
      "validate on at most this many tokens" },
    { "checkpoint-every", WHOLE_AT(checkpoint_every, 0, MANY), LOGGING,
      "steps between checkpoints; 0: only at the end" },
    { "keep", WHOLE_AT(keep, 0, MANY), LOGGING, "number of newest checkpoints to keep; 0: all" },
    { "seed", MS_FIELD_UNSIGNED, AT(seed), 0, 0, 0, "N", COMMON,
      "seed of the initial weights and of the optimizer's random choices" },
    { "init-from", TEXT_AT(init_from, "PATH"), INITIAL,
      "start from the weights of a run, a checkpoint, an export or a .safetensors file [random "
      "weights]" },
    { "diverge-factor", NUMBER_AT(diverge_factor, 1, 1e9), LOGGING,
      "a loss above this many times the first loss counts as too high" },
    { "diverge-steps", WHOLE_AT(diverge_steps, 1, MANY), LOGGING,
      "stop the run as diverged after this many steps in a row with too high a loss" },
    { "device", TEXT_AT(device, "DEVICE"), COMMON,
      "where to compute: a device that musec info lists [the best one here]" },
    { "precision", CHOICE_AT(precision, "auto|f32|bf16|f16"), DEVICE,
      "number format of the activations (weights and gradients are f32); auto: bf16 on a GPU, f32 "
      "on a CPU; f16 has no loss scaling and is for comparisons only" },
    { "deterministic", CHOICE_AT(deterministic, "no|yes"), DEVICE,
      "give the same bits from run to run; no lets a GPU use faster operations that do not" },
    { "layers", WHOLE_AT(model.layers, 1, MS_GPT_LAYERS), MODEL, "number of transformer layers" },
    { "width", WHOLE_AT(model.width, 1, 1 << 20), MODEL,
      "width of the residual stream (the embedding dimension)" },
    { "heads", WHOLE_AT(model.heads, 1, 1 << 14), MODEL, "number of attention heads" },
    { "head", WHOLE_AT(model.head, 2, 1 << 14), MODEL, "width of one attention head" },
    { "mlp", WHOLE_AT(model.mlp, 1, 1 << 20), MODEL, "hidden width of the MLP" },
    { "vocab", WHOLE_AT(model.vocab, 0, 65536), MODEL,
      "vocabulary size, padded; 0: what the tokenizer needs" },
    { "window-short", WHOLE_AT(window_short, 0, MANY), MODEL,
      "attention window in short layers: number of earlier tokens that a token sees" },
    { "window-long", WHOLE_AT(window_long, 0, MANY), MODEL, "attention window in long layers" },
    { "long-layers", TEXT_AT(long_layers, "LAYERS"), MODEL,
      "layers that have the long window: all, none, or a list such as 0,4,11" },
    { "qk-norm", CHOICE_AT(model.qk_norm, "no|yes"), MODEL,
      "normalise queries and keys in each head" },
    { "tied", CHOICE_AT(model.tied, "no|yes"), MODEL,
      "use the embedding matrix as the output head too" },
    { "head-gates", CHOICE_AT(model.head_gates, "no|yes"), MODEL,
      "put a learned gate on the output of each attention head" },
    { "gate-width", WHOLE_AT(model.gate_width, 1, 1 << 20), MODEL,
      "head-gates: number of input columns that a gate reads" },
    { "x0-mix", CHOICE_AT(model.x0_mix, "no|yes"), MODEL,
      "mix the embedding into the input of every layer, with learned weights" },
    { "cap", CHOICE_AT(model.cap, "none|tanh|sigmoid"), MODEL,
      "bound the output logits y: not at all, by c tanh(y/c), or by c/(1 + exp(-(y+s)/w))" },
    { "cap-scale", NUMBER_AT(model.cap_scale, 0, 1e9), MODEL, "the c in the formulas of --cap" },
    { "cap-shift", NUMBER_AT(model.cap_shift, -1e9, 1e9), MODEL,
      "the s in the sigmoid formula of --cap" },
    { "cap-width", NUMBER_AT(model.cap_width, 0, 1e9), MODEL,
      "the w in the sigmoid formula of --cap" },
    { "attn-scale", NUMBER_AT(model.attn_scale, 0, 1e9), MODEL,
      "factor on the attention logits; 0: 1/sqrt(head)" },
    { "attn-softcap", NUMBER_AT(model.attn_softcap, 0, 1e9), MODEL,
      "bound attention logits y by c tanh(y/c) with this c; 0: do not bound them" },
    { "rope-base", NUMBER_AT(model.rope_base, 1, 1e9), MODEL,
      "base of the rotary embedding: its slowest frequency is 1/X" },
    { "rope-share", NUMBER_AT(model.rope_share, 0, 1), MODEL,
      "share of a head's columns that the rotary embedding turns" },
    { "rope-pairs", CHOICE_AT(model.rope_adjacent, "split|adjacent"), MODEL,
      "columns that the rotary embedding pairs: j and j + head/2, or 2j and 2j+1" },
    { "norm-eps", NUMBER_AT(model.norm_eps, 1e-30, 1), MODEL, "RMSNorm: added to the mean square" },
    { "init-qkv", NUMBER_AT(model.init_qkv, 0, 1e9), INITIAL,
      "standard deviation of W_q, W_k and W_v, times sqrt(width)" },
    { "init-out", NUMBER_AT(model.init_out, 0, 1e9), INITIAL,
      "standard deviation of the attention output W_o, times sqrt(width)" },
    { "init-up", NUMBER_AT(model.init_up, 0, 1e9), INITIAL,
      "standard deviation of the MLP's first matrix, times sqrt(width)" },
    { "init-down", NUMBER_AT(model.init_down, 0, 1e9), INITIAL,
      "standard deviation of the MLP's second matrix, times sqrt(width)" },
    { "init-embed", NUMBER_AT(model.init_embed, 0, 1e9), INITIAL,
      "standard deviation of the embedding" },
    { "init-head", NUMBER_AT(model.init_head, 0, 1e9), INITIAL,
      "standard deviation of the output head" },
    { "init-residual", NUMBER_AT(model.init_residual, 0, 1e9), INITIAL,
      "x0-mix: initial weight of the residual stream" },
    { "lr-qk", NUMBER_AT(lr_qk, 0, 1e9), OPTIM, "factor on the learning rate of W_q and W_k" },
    { "lr-vo", NUMBER_AT(lr_vo, 0, 1e9), OPTIM, "factor on the learning rate of W_v and W_o" },
    { "lr-up", NUMBER_AT(lr_up, 0, 1e9), OPTIM,
      "factor on the learning rate of the MLP's first matrix" },
    { "lr-down", NUMBER_AT(lr_down, 0, 1e9), OPTIM,
      "factor on the learning rate of the MLP's second matrix" },
};

const size_t ms_n_fields = COUNT(ms_fields);
