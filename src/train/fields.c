/* fields.c - the table of a config's fields.
 *
 * A row says everything about a field: config.c parses and prints it, --help lists it under its
 * group with its default, shell completion and the manual page are generated from it, and its flags
 * tell what happens when a run is resumed, named or exported.  A new option is a member of
 * ms_train_config, a row here, and the code that acts on it; MS_FIELD_KEYED_IF_SET keeps the names
 * of the runs that existed before it. */
#include "train/fields.h"

#include <stddef.h>
#include <string.h>

#define BYTES(name)          sizeof(((ms_train_config *)NULL)->name)
#define MEMBER(name)         offsetof(ms_train_config, name), BYTES(name)
#define INT(name, min, max)  MS_FIELD_INT, MEMBER(name), min, max, "N"
#define UINT(name)           MS_FIELD_UINT, MEMBER(name), 0, 0, "N"
#define REAL(name, min, max) MS_FIELD_REAL, MEMBER(name), min, max, "X"
#define CHOICE(name, values) MS_FIELD_CHOICE, MEMBER(name), 0, 0, values
#define TEXT(name, values)   MS_FIELD_TEXT, MEMBER(name), 0, 0, values
#define MANY                 1e15

#define RESUMABLE    MS_FIELD_RESUMABLE
#define RECORDED     MS_FIELD_RECORDED
#define NOT_KEYED    MS_FIELD_NOT_KEYED
#define KEYED_IF_SET MS_FIELD_KEYED_IF_SET
#define LOCAL        MS_FIELD_LOCAL
#define FUNCTION     MS_FIELD_FUNCTION

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

/* The headings in the order of --help. */
static const char *const groups[] = { COMMON, DATA, MODEL,    INITIAL, OPTIM, CLIPPING,
                                      SINGLE, AUX,  SCHEDULE, LOGGING, DEVICE };

const char *ms_train_group(size_t index) { return index < COUNT(groups) ? groups[index] : NULL; }

/* ---- fields of the trainer ------------------------------------------------------------------- */

const ms_field ms_fields[] = {
    /* name, type and member, default (that of pico), group, flags, help */
    { "data", TEXT(data, "PATH[=WEIGHT]"), "builtin", COMMON, RESUMABLE | LOCAL,
      "train on this text, .bin shard or directory of either, or on builtin[:SEED], the built-in "
      "corpus; may be repeated, with weights" },
    { "val-data", TEXT(val_data, "PATH[=WEIGHT]"), "", DATA, RESUMABLE | LOCAL,
      "validate on these data instead [a part of --data that is not trained on]" },
    { "tokenizer", CHOICE(tokenizer, "byte|gpt2"), "byte", COMMON, FUNCTION,
      "what the token ids of the data mean; a text can only be read as bytes" },
    { "data-format", CHOICE(data_bare, "shard|nanogpt"), "shard", DATA, NOT_KEYED,
      "layout of .bin files: shards with a header, or nanoGPT's bare 16-bit tokens, which are "
      "GPT-2's" },
    { "doc-rest", CHOICE(keep_rest, "skip|keep"), "keep", DATA, 0,
      "skip what a document has beyond max-doc, or keep it as a document of its own" },
    { "steps", INT(steps, 1, MANY), "200", COMMON, RESUMABLE, "number of optimizer steps" },
    { "batch", INT(batch, 1, MANY), "2048", COMMON, 0, "tokens per optimizer step" },
    { "micro-batches", INT(micro_batches, 1, MANY), "1", SCHEDULE, 0,
      "split each batch into this many parts, to save memory (gradient accumulation)" },
    { "max-doc", INT(max_doc, 1, MANY), "128", DATA, 0,
      "longest document in tokens: the context length of training" },
    { "mtp", TEXT(mtp, "WEIGHTS"), "1", SCHEDULE, 0,
      "multi-token prediction: loss weights of the next tokens, such as 1,0.5; 1,0.5>1,0 changes "
      "them over the run" },
    { "stages", TEXT(stages, "STAGES"), "", SCHEDULE, 0,
      "several stages: \"460 batch=N doc=N window=S/L lr=X mtp=1,W; 33% ...; rest ...\" [none]" },
    { "cooldown", REAL(cooldown, 0, 1), "0.6", SCHEDULE, 0,
      "share of the steps, at the end, over which the learning rate falls linearly" },
    { "cooldown-to", REAL(cooldown_to, 0, 1e9), "0.1", SCHEDULE, 0,
      "share of the learning rate that is left after the cooldown" },
    { "extension", INT(extension, 0, MANY), "0", SCHEDULE, 0,
      "number of last steps that stay at that final learning rate" },
    { "momentum-warmup", INT(momentum_warmup, 0, MANY), "0", SCHEDULE, 0,
      "first steps, in which beta goes from momentum-from to its own value" },
    { "momentum-cooldown", INT(momentum_cooldown, 0, MANY), "0", SCHEDULE, 0,
      "last steps, in which beta goes back to momentum-from" },
    { "momentum-from", REAL(momentum_from, 0, 1), "0.15", SCHEDULE, 0,
      "beta at the start of the warmup and at the end of the cooldown" },
    { "grad-reduction", CHOICE(grad_reduction, "mean|sum8"), "sum8", SCHEDULE, 0,
      "take the gradient of the mean loss over tokens, or of its sum over tokens divided by 8; "
      "thresholds depend on it" },
    { "val-every", INT(val_every, 0, MANY), "50", LOGGING, RESUMABLE,
      "steps between validations; 0: only at the end" },
    { "val-tokens", INT(val_tokens, 1, MANY), "16384", LOGGING, 0,
      "validate on at most this many tokens" },
    { "checkpoint-every", INT(checkpoint_every, 0, MANY), "0", LOGGING, RESUMABLE | NOT_KEYED,
      "steps between checkpoints; 0: only at the end" },
    { "keep", INT(keep, 0, MANY), "2", LOGGING, RESUMABLE | NOT_KEYED,
      "number of newest checkpoints to keep; 0: all" },
    { "checkpoints", CHOICE(checkpoints, "all|unfinished|none"), "all", LOGGING,
      RESUMABLE | NOT_KEYED,
      "write checkpoints; unfinished: none of a run that has made all its steps; none: never, so "
      "that a run that is interrupted begins anew" },
    { "seed", UINT(seed), "0", COMMON, 0,
      "seed of the initial weights and of the optimizer's random choices" },
    { "init-from", TEXT(init_from, "PATH"), "", INITIAL, KEYED_IF_SET | LOCAL,
      "start from the weights of a run, a checkpoint, an export or a .safetensors file [random "
      "weights]" },
    { "diverge-factor", REAL(diverge_factor, 1, 1e9), "2", LOGGING, 0,
      "a loss above this many times the first loss counts as too high" },
    { "diverge-steps", INT(diverge_steps, 1, MANY), "10", LOGGING, 0,
      "stop the run as diverged after this many steps in a row with too high a loss" },
    { "time-limit", REAL(time_limit, 0, 1e9), "0", LOGGING, RESUMABLE | NOT_KEYED,
      "stop after this many minutes, after a step and with a checkpoint to resume from; 0: never" },
    { "device", TEXT(device, "DEVICE"), "", COMMON, RESUMABLE | NOT_KEYED | LOCAL,
      "where to compute: a device that musec info lists [the best one here]" },
    { "precision", CHOICE(precision, "auto|f32|bf16|f16"), "auto", DEVICE, RESUMABLE | KEYED_IF_SET,
      "number format of the activations (weights and gradients are f32); auto: bf16 on a GPU, f32 "
      "on a CPU; f16 has no loss scaling and is for comparisons only" },
    { "deterministic", CHOICE(deterministic, "no|yes"), "yes", DEVICE, RESUMABLE | NOT_KEYED,
      "give the same bits from run to run, on any number of ranks; no lets a GPU use faster "
      "operations that do not, and ranks send less" },
    { "recompute", CHOICE(model.recompute, "none|attention|mlp|layer"), "none", DEVICE,
      RESUMABLE | NOT_KEYED,
      "part of each layer that the backward pass computes again instead of keeping it (activation "
      "checkpointing): less memory, more time, the same bits" },
    { "layers", INT(model.layers, 1, MS_GPT_LAYERS), "2", MODEL, 0,
      "number of transformer layers" },
    { "width", INT(model.width, 1, 1 << 20), "128", MODEL, 0,
      "width of the residual stream (the embedding dimension)" },
    { "heads", INT(model.heads, 1, 1 << 14), "2", MODEL, FUNCTION, "number of attention heads" },
    { "head", INT(model.head, 2, 1 << 14), "64", MODEL, FUNCTION, "width of one attention head" },
    { "mlp", INT(model.mlp, 1, 1 << 20), "512", MODEL, 0, "hidden width of the MLP" },
    { "vocab", INT(model.vocab, 0, 65536), "0", MODEL, 0,
      "vocabulary size, padded; 0: what the tokenizer needs" },
    { "window-short", INT(window_short, 0, MANY), "127", MODEL, 0,
      "attention window in short layers: number of earlier tokens that a token sees" },
    { "window-long", INT(window_long, 0, MANY), "127", MODEL, 0,
      "attention window in long layers" },
    { "long-layers", TEXT(long_layers, "LAYERS"), "all", MODEL, 0,
      "layers that have the long window: all, none, or a list such as 0,4,11" },
    { "qk-norm", CHOICE(model.qk_norm, "no|yes"), "yes", MODEL, FUNCTION,
      "normalise queries and keys in each head" },
    { "tied", CHOICE(model.tied, "no|yes"), "no", MODEL, 0,
      "use the embedding matrix as the output head too" },
    { "head-gates", CHOICE(model.head_gates, "no|yes"), "no", MODEL, 0,
      "put a learned gate on the output of each attention head" },
    { "gate-width", INT(model.gate_width, 1, 1 << 20), "12", MODEL, 0,
      "head-gates: number of input columns that a gate reads" },
    { "x0-mix", CHOICE(model.x0_mix, "no|yes"), "no", MODEL, 0,
      "mix the embedding into the input of every layer, with learned weights" },
    { "embed2", CHOICE(model.embed2, "no|yes"), "no", MODEL, KEYED_IF_SET,
      "x0-mix: mix a second embedding into the input of every layer too" },
    { "smear", CHOICE(model.smear, "no|yes"), "no", MODEL, KEYED_IF_SET,
      "add the embedding of the token before, by a learned gate" },
    { "skips", TEXT(skips, "LAYERS"), "none", MODEL, FUNCTION | KEYED_IF_SET,
      "layers whose input gets the output of an earlier one, by a learned gate: 9:6,10:4 adds "
      "that of layer 6 to layer 9" },
    { "backout", TEXT(backout, "LAYER"), "none", MODEL, FUNCTION | KEYED_IF_SET,
      "take a learned share of this layer's output out of the final state" },
    { "attn-scales", CHOICE(model.attn_scales, "no|yes"), "no", MODEL, KEYED_IF_SET,
      "put a learned scale on each layer's W_q, W_k, W_v, and one on its W_o" },
    { "value-tables", TEXT(value_tables, "LAYERS"), "none", MODEL, FUNCTION | KEYED_IF_SET,
      "layers whose values get a row of a table by token, by a learned gate: 0:0,11:0 gives both "
      "layers table 0" },
    { "key-offset", CHOICE(model.key_offset, "no|yes"), "no", MODEL, FUNCTION | KEYED_IF_SET,
      "in long layers, take what RoPE leaves of a key from the token before" },
    { "yarn", INT(yarn, 0, MANY), "0", MODEL, FUNCTION | KEYED_IF_SET,
      "stretch RoPE as the long window grows (YaRN), up to a window of this many tokens; 0: not "
      "at all" },
    { "untie", INT(untie, 0, MANY), "0", MODEL, KEYED_IF_SET,
      "number of first steps in which embedding and output head are one matrix; then each trains "
      "on its own" },
    { "bigram", INT(model.bigram, 0, 1 << 28), "0", MODEL, KEYED_IF_SET,
      "post-mix: rows of a table by hashes of two tokens, which is added to the first columns; 0: "
      "none" },
    { "bigram-width", INT(model.bigram_width, 0, 1 << 20), "192", MODEL, KEYED_IF_SET,
      "bigram: number of these columns" },
    { "post-mix", CHOICE(model.post_mix, "no|yes"), "no", MODEL, KEYED_IF_SET,
      "in place of x0-mix: add attention, MLP and embedding to the stream with learned weights" },
    { "bare-layers", TEXT(bare_layers, "LAYERS"), "none", MODEL, KEYED_IF_SET,
      "layers without attention: none, or a list such as 6" },
    { "paired-layers", TEXT(paired_layers, "LAYERS"), "none", MODEL, FUNCTION | KEYED_IF_SET,
      "layers in which pairs of heads see each other's keys, within half the window" },
    { "xsa", CHOICE(model.xsa, "no|yes"), "no", MODEL, KEYED_IF_SET,
      "take a learned share of a token's own value out of its attention, but in paired layers" },
    { "attn-from", TEXT(attn_from, "LAYER"), "none", MODEL, FUNCTION | KEYED_IF_SET,
      "attention of all later layers reads the output of this one" },
    { "value-ve", CHOICE(model.value_ve, "no|yes"), "no", MODEL, FUNCTION | KEYED_IF_SET,
      "half of what the gate of a value table reads is the table's row" },
    { "mudd", INT(model.mudd, 0, 1 << 20), "0", MODEL, KEYED_IF_SET,
      "compute the weights of the last layer, and of a sum of states after it, from each token, "
      "with this hidden width; 0: do not" },
    { "spare", INT(model.spare, 0, 1 << 20), "0", MODEL, KEYED_IF_SET,
      "number of parameters that nothing reads, to count as many as another program has" },
    { "activation", CHOICE(model.activation, "relu2|gelu"), "relu2", MODEL, FUNCTION | KEYED_IF_SET,
      "activation of the MLP: max(x, 0)^2, or GELU in its tanh form" },
    { "cap", CHOICE(model.cap, "none|tanh|sigmoid"), "sigmoid", MODEL, FUNCTION,
      "bound the output logits y: not at all, by c tanh(y/c), or by c/(1 + exp(-(y+s)/w))" },
    { "cap-scale", REAL(model.cap_scale, 0, 1e9), "23", MODEL, FUNCTION,
      "the c in the formulas of --cap" },
    { "cap-shift", REAL(model.cap_shift, -1e9, 1e9), "5", MODEL, FUNCTION,
      "the s in the sigmoid formula of --cap" },
    { "cap-width", REAL(model.cap_width, 0, 1e9), "7.5", MODEL, FUNCTION,
      "the w in the sigmoid formula of --cap" },
    { "attn-scale", REAL(model.attn_scale, 0, 1e9), "0", MODEL, FUNCTION,
      "factor on the attention logits; 0: 1/sqrt(head)" },
    { "attn-softcap", REAL(model.attn_softcap, 0, 1e9), "0", MODEL, FUNCTION,
      "bound attention logits y by c tanh(y/c) with this c; 0: do not bound them" },
    { "rope-base", REAL(model.rope_base, 1, 1e9), "1024", MODEL, FUNCTION,
      "base of the rotary embedding: its slowest frequency is 1/X" },
    { "rope-share", REAL(model.rope_share, 0, 1), "0.5", MODEL, FUNCTION,
      "share of a head's columns that the rotary embedding turns" },
    { "rope-pairs", CHOICE(model.rope_adjacent, "split|adjacent"), "split", MODEL, FUNCTION,
      "columns that the rotary embedding pairs: j and j + head/2, or 2j and 2j+1" },
    { "norm-eps", REAL(model.norm_eps, 1e-30, 1), "1.1920929e-07", MODEL, FUNCTION,
      "RMSNorm: added to the mean square" },
    { "init-qkv", REAL(model.init_qkv, 0, 1e9), "1", INITIAL, 0,
      "standard deviation of W_q, W_k and W_v, times sqrt(width)" },
    { "init-out", REAL(model.init_out, 0, 1e9), "0", INITIAL, 0,
      "standard deviation of the attention output W_o, times sqrt(width)" },
    { "init-up", REAL(model.init_up, 0, 1e9), "0.5", INITIAL, 0,
      "standard deviation of the MLP's first matrix, times sqrt(width)" },
    { "init-down", REAL(model.init_down, 0, 1e9), "0", INITIAL, 0,
      "standard deviation of the MLP's second matrix, times sqrt(width)" },
    { "init-embed", REAL(model.init_embed, 0, 1e9), "0.005", INITIAL, 0,
      "standard deviation of the embedding" },
    { "init-head", REAL(model.init_head, 0, 1e9), "0.005", INITIAL, 0,
      "standard deviation of the output head" },
    { "init-residual", REAL(model.init_residual, 0, 1e9), "1", INITIAL, 0,
      "x0-mix: initial weight of the residual stream" },
    { "init-embed2", REAL(model.init_embed2, 0, 1e9), "1", INITIAL, KEYED_IF_SET,
      "standard deviation of the second embedding" },
    { "init-values", REAL(model.init_values, 0, 1e9), "0", INITIAL, KEYED_IF_SET,
      "standard deviation of the value tables" },
    { "lr-qk", REAL(lr_qk, 0, 1e9), "1", OPTIM, 0, "factor on the learning rate of W_q and W_k" },
    { "lr-vo", REAL(lr_vo, 0, 1e9), "1", OPTIM, 0, "factor on the learning rate of W_v and W_o" },
    { "lr-up", REAL(lr_up, 0, 1e9), "1", OPTIM, 0,
      "factor on the learning rate of the MLP's first matrix" },
    { "lr-down", REAL(lr_down, 0, 1e9), "1", OPTIM, 0,
      "factor on the learning rate of the MLP's second matrix" },
    { "lr-tables", REAL(lr_tables, 0, 1e9), "1", AUX, KEYED_IF_SET,
      "factor on aux-lr for the second embedding and the value tables" },
    { "lr-scalars", REAL(lr_scalars, 0, 1e9), "1", AUX, KEYED_IF_SET,
      "factor on aux-lr for learned scalars: mixes, scales, and those of skips, smear, backout" },
};

const size_t ms_n_fields = COUNT(ms_fields);

/* ---- options of the optimizer ---------------------------------------------------------------- */

static const ms_optim_field optim_fields[] = {
    { "lr", "0.02", COMMON, 0 },
    { "threshold", "0.5", COMMON, 0 },
    { "weight-decay", NULL, COMMON, 0 },
    { "sharpness", "auto", CLIPPING, KEYED_IF_SET },
    { "ns-mode", NULL, CLIPPING, 0 },
    { "ns-iters", NULL, CLIPPING, 0 },
    { "ns-tol", NULL, CLIPPING, 0 },
    { "ns-coeffs", NULL, CLIPPING, 0 },
    { "ns-eps", NULL, CLIPPING, KEYED_IF_SET },
    { "ns-eps-form", NULL, CLIPPING, KEYED_IF_SET },
    { "literal", NULL, CLIPPING, 0 },
    { "base", NULL, OPTIM, 0 },
    { "function", NULL, OPTIM, KEYED_IF_SET },
    { "second-moment", NULL, OPTIM, KEYED_IF_SET },
    { "second-beta", NULL, OPTIM, KEYED_IF_SET },
    { "second-eps", NULL, OPTIM, KEYED_IF_SET },
    { "threshold-warmup", NULL, OPTIM, KEYED_IF_SET },
    { "clip", NULL, SINGLE, 0 },
    { "beta1", NULL, SINGLE, 0 },
    { "beta2", NULL, SINGLE, 0 },
    { "eps", NULL, SINGLE, 0 },
    { "beta3", NULL, SINGLE, 0 },
    { "alpha", NULL, SINGLE, 0 },
    { "alpha-warmup", NULL, SINGLE, 0 },
    { "beta3-warmup", NULL, SINGLE, 0 },
    { "precondition-every", NULL, SINGLE, KEYED_IF_SET },
    { "precondition-beta", NULL, SINGLE, KEYED_IF_SET },
    { "max-precond-dim", NULL, SINGLE, KEYED_IF_SET },
    { "precondition-eps", NULL, SINGLE, KEYED_IF_SET },
    { "graft", NULL, SINGLE, KEYED_IF_SET },
    { "fraction", NULL, SINGLE, KEYED_IF_SET },
    { "qk-tau", NULL, SINGLE, 0 },
    { "qk-alpha", NULL, SINGLE, 0 },
    { "aux-lr", "0.004", AUX, 0 },
    { "aux-beta1", "0.8", AUX, 0 },
    { "aux-beta2", "0.95", AUX, 0 },
    { "aux-eps", NULL, AUX, 0 },
    { "aux-weight-decay", NULL, AUX, 0 },
    { "report-every", "50", LOGGING, RESUMABLE },
    { "operands", "auto", DEVICE, RESUMABLE | KEYED_IF_SET },
    { "momentum-dtype", "own", DEVICE, RESUMABLE | RECORDED | KEYED_IF_SET },
    { "workspace", NULL, DEVICE, RESUMABLE },
};

const ms_optim_field *ms_optim_field_find(const char *name)
{
    static const ms_optim_field others = { NULL, NULL, OPTIM, 0 };
    for (size_t i = 0; name != NULL && i < COUNT(optim_fields); i++)
        if (strcmp(optim_fields[i].name, name) == 0) return &optim_fields[i];
    return &others;
}
