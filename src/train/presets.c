/* presets.c - pico and nano for CPUs, mini and midi for comparisons on a GPU, small, medium and
 * wide as in the paper.
 *
 * The paper's models are reduced to their core: every layer has attention, and head and embedding
 * are the only tables.  Stages, windows, learning rates, multi-token weights, initial values and
 * the decay rule are those of the code base of the paper (docs/training.md lists what is left out).
 * Windows are in tokens, in multiples of its blocks of 128. */
#include <stddef.h>

#include "train/fields.h"

/* Clips that have converged: the paper's five steps have not, wherever sigma_1 is far above D. */
#define CONVERGED                                                                        \
    "soft-musec:ns_mode=accurate", "spectra:ns_mode=accurate", "musec:ns_mode=accurate", \
        "softmuon:ns_mode=accurate", "mucon:ns_mode=accurate"

static const char *const pico[] = { CONVERGED, NULL }; /* else the defaults of the table */

static const char *const nano[] = {
    "layers=4",      "width=256",         "heads=4",         "head=64",   "mlp=1024",
    "max_doc=256",   "window_short=255",  "window_long=255", "steps=600", "batch=8192",
    "val_every=100", "val_tokens=131072", CONVERGED,         NULL,
};

#define OF_THE_PAPER                                                                             \
    "tokenizer=gpt2", "doc_rest=skip", "attn_scale=0.1", "momentum_warmup=300",                  \
        "momentum_cooldown=50", "decay_form=cautious-lr2", "weight_decay=qk=1.2,vo=1.2,mlp=0.3", \
        "val_every=250", "val_tokens=10485760", "micro_batches=8", "checkpoint_every=500",       \
        "window_short=128", "window_long=384", "head=128", "lr_up=2", "lr_down=4",               \
        "soft-musec:lr=0.1"

#define OF_MEDIUM_AND_WIDE                                                                     \
    OF_THE_PAPER, "layers=16", "long_layers=0,4,11,15", "x0_mix=yes", "init_residual=1.05",    \
        "gate_width=16", "head_gates=yes", "lr=0.015", "threshold=0.05", "lr_qk=2", "lr_vo=2", \
        "max_doc=4096", "extension=40", "cooldown=0.7", "cooldown_to=0.1"

static const char small_stages[] = "stages="
                                   "460 batch=131072 doc=896 window=128/384 lr=1"
                                   " mtp=1,0.5,0.25>1,0.5,0;"
                                   " 460 batch=262144 window=384/896 lr=1.52 mtp=1,0.5>1,0;"
                                   " 460 batch=393216 window=640/1408 lr=1.73;"
                                   " rest batch=393216 window=768/1664 lr=1.73";

#define OF_SMALL                                                                            \
    OF_THE_PAPER, "layers=11", "width=768", "heads=6", "mlp=3072", "long_layers=3,10",      \
        "rope_pairs=adjacent", "init_qkv=0.5", "init_out=0.5", "lr=0.023", "threshold=0.1", \
        "aux_lr=0.008", "aux_beta1=0.5", "aux_eps=1e-10", "steps=1390", "extension=10",     \
        "batch=131072", "max_doc=2048", "cooldown=0.6", "cooldown_to=0.15"

static const char *const small[] = { OF_SMALL, small_stages, NULL };

/* The paper's model in full.  The spare parameters are those that the code base has and does not
 * read: of layer 6, of the last layer, of unused gates and rows of coefficients. */
static const char *const small_full[] = {
    OF_SMALL,
    "head_gates=yes",
    "gate_width=12",
    "smear=yes",
    "attn_scales=yes",
    "key_offset=yes",
    "yarn=1664",
    "untie=921",
    "skips=6:3",
    "bare_layers=6",
    "paired_layers=0,2,5,9",
    "xsa=yes",
    "post_mix=yes",
    "init_residual=1.0488088481701516",
    "bigram=754560",
    "bigram_width=192",
    "value_tables=1:0,2:1,8:2,9:3,10:4",
    "value_ve=yes",
    "init_values=0.01",
    "attn_from=7",
    "mudd=64",
    "spare=699",
    "lr_tables=75",
    "lr_scalars=5",
    small_stages,
    NULL,
};

static const char between_stages[] =
    "stages=33% batch=32768 window=128/384 lr=1;"
    " 33% batch=65536 window=384/896 lr=1.52; rest batch=65536 window=640/896 lr=1.73";

/* Between nano and small: for comparisons of optimizers that take seconds on a GPU. */
#define BETWEEN                                                                             \
    OF_THE_PAPER, "rope_pairs=adjacent", "init_qkv=0.5", "init_out=0.5", "lr=0.023",        \
        "threshold=0.1", "aux_lr=0.008", "aux_beta1=0.5", "aux_eps=1e-10", "doc_rest=keep", \
        "steps=240", "extension=2", "batch=32768", "micro_batches=1", "max_doc=896",        \
        "momentum_warmup=50", "momentum_cooldown=10", "cooldown=0.6", "cooldown_to=0.15",   \
        "val_every=60", "val_tokens=262144", between_stages

static const char *const mini[] = { BETWEEN,    "layers=6",        "width=384", "heads=3",
                                    "mlp=1536", "long_layers=2,5", NULL };

static const char *const midi[] = { BETWEEN,    "layers=8",        "width=512", "heads=4",
                                    "mlp=2048", "long_layers=2,7", NULL };

/* The learning rate follows the batch one step late in the fourth stage, as in the code base. */
static const char medium_stages[] =
    "stages=392 batch=131072 window=128/384 lr=1 mtp=1,0.5,0.25>1,0.5,0;"
    " 392 batch=262144 window=384/896 lr=1.52 mtp=1,0.5>1,0;"
    " 391 batch=393216 window=640/1408 lr=1.73; 1 window=768/1664 lr=1.73;"
    " 391 window=768/1664 lr=2; 392 window=896/1920 lr=2; 391 window=1024/2176 lr=2;"
    " 392 window=1152/2432 lr=2; 392 window=1280/2688 lr=2; rest window=1408/2944 lr=2";

static const char *const medium[] = {
    OF_MEDIUM_AND_WIDE, "width=1024",   "heads=8",     "mlp=4096",
    "steps=4740",       "batch=524288", medium_stages, NULL,
};

/* The stages of medium, as shares of 8000 steps, with doubled batches. */
static const char wide_stages[] =
    "stages=667 batch=262144 window=128/384 lr=1 mtp=1,0.5,0.25>1,0.5,0;"
    " 667 batch=524288 window=384/896 lr=1.52 mtp=1,0.5>1,0;"
    " 666 batch=786432 window=640/1408 lr=1.73;"
    " 667 window=768/1664 lr=2; 667 window=896/1920 lr=2; 666 window=1024/2176 lr=2;"
    " 667 window=1152/2432 lr=2; 667 window=1280/2688 lr=2; rest window=1408/2944 lr=2";

/* With 16 micro-batches wide and wide-full fit an H200: 65,536 tokens each at most. */
static const char *const wide[] = {
    OF_MEDIUM_AND_WIDE, "width=2048", "heads=16",         "mlp=8192", "steps=8040",
    "batch=1048576",    wide_stages,  "micro_batches=16", NULL,
};

/* The paper's models in full: what OF_MEDIUM_AND_WIDE leaves out.  The three spare parameters fill
 * the scalars of the code base up to a multiple of eight, and the paper counts them. */
#define IN_FULL                                                                        \
    "embed2=yes", "smear=yes", "skips=9:6,10:4,11:2", "backout=11", "attn_scales=yes", \
        "value_tables=0:0,1:1,2:2,3:3,4:4,11:0,12:1,13:2,14:3,15:4", "key_offset=yes", \
        "yarn=1664", "lr_tables=75", "lr_scalars=5", "spare=3"

static const char *const medium_full[] = {
    OF_MEDIUM_AND_WIDE, IN_FULL,        "width=1024", "heads=8",     "mlp=4096",
    "steps=4740",       "batch=524288", "untie=785",  medium_stages, NULL,
};

static const char *const wide_full[] = {
    OF_MEDIUM_AND_WIDE, IN_FULL,      "width=2048", "heads=16",         "mlp=8192", "steps=8040",
    "batch=1048576",    "untie=1334", wide_stages,  "micro_batches=16", NULL,
};

const ms_preset ms_presets[] = {
    { "pico", "2 layers of 128: a run in seconds on two cores", pico },
    { "nano", "4 layers of 256: studies on a CPU", nano },
    { "mini", "6 layers of 384, 240 steps of GPT-2 tokens: seconds on a GPU", mini },
    { "midi", "8 layers of 512, 240 steps of GPT-2 tokens: seconds on a GPU", midi },
    { "small", "11 layers of 768, 1390 steps: the paper's", small },
    { "medium", "16 layers of 1024, 4740 steps: the paper's", medium },
    { "wide", "16 layers of 2048, 8040 steps: the paper's", wide },
    { "small-full", "small with every part and table: the paper's 491 million parameters",
      small_full },
    { "medium-full", "medium with every part and table: the paper's 613 million parameters",
      medium_full },
    { "wide-full", "wide with every part and table: the paper's 1.63 billion parameters",
      wide_full },
    { NULL, NULL, NULL },
};
