/* config.h - everything that a run is told, in one struct and one table.
 *
 * A field has one name: hyphens on the command line, underscores in config.json and after --set.
 * Every field is set from text, whoever sets it (a preset, a file, a flag), and goes back to text
 * that gives the same bits, so that config.json replays a run.  The optimizer's options are fields
 * too: they come from its own table. */
#ifndef MS_TRAIN_CONFIG_H
#define MS_TRAIN_CONFIG_H

#include <jansson.h>

#include "core/file.h"
#include "core/text.h"
#include "model/gpt.h"

enum { MS_TEXT_MAX = 1024, MS_SETTLE_TEXT = 256 };

typedef enum ms_tokenizer { MS_TOKENIZER_BYTE, MS_TOKENIZER_GPT2 } ms_tokenizer;
typedef enum ms_reduction { MS_REDUCTION_MEAN, MS_REDUCTION_SUM8 } ms_reduction;
/* What activations are kept in; auto: what suits the device. */
typedef enum ms_precision {
    MS_PRECISION_AUTO,
    MS_PRECISION_F32,
    MS_PRECISION_BF16,
    MS_PRECISION_F16,
} ms_precision;

typedef struct ms_train_config {
    int64_t            preset;
    ms_gpt_config      model;
    char               long_layers[MS_TEXT_MAX]; /* "0,4,11", "all", "none" */
    musec_optim_config optim;
    double             lr_qk, lr_vo, lr_up, lr_down; /* factors on the learning rate */
    /* data */
    char    data[MS_PATH_MAX], val_data[MS_PATH_MAX];
    int64_t tokenizer, keep_rest;
    int64_t data_bare; /* .bin files have no header, as nanoGPT writes them */
    /* schedule */
    int64_t steps, extension; /* the last `extension` of the steps stay at the end's rate */
    int64_t batch, micro_batches, max_doc, window_short, window_long;
    char    mtp[MS_TEXT_MAX], stages[MS_TEXT_MAX];
    double  cooldown, cooldown_to;
    int64_t momentum_warmup, momentum_cooldown;
    double  momentum_from;
    int64_t grad_reduction;
    /* watching */
    int64_t  val_every, val_tokens, checkpoint_every, keep;
    uint64_t seed;
    char     init_from[MS_PATH_MAX]; /* weights to begin with; "": drawn by the seed */
    double   diverge_factor;
    int64_t  diverge_steps;
    /* the machine */
    char    device[64];
    int64_t precision, deterministic;
} ms_train_config;

/* One field, for --help and --explain. */
typedef struct ms_train_field {
    const char *name;   /* with hyphens */
    const char *values; /* "X", "N", "TEXT", or the choices "a|b" */
    const char *help;   /* one line; of the optimizer's, and where it takes words, it ends with the
                         * default in brackets */
    const char *group;  /* the title that --help has it under */
} ms_train_field;

/* Titles of groups in the order of --help: 0, 1, ... until NULL. */
const char *ms_train_group(size_t index);
/* Groups that musec train has options of its own in. */
#define MS_GROUP_COMMON  "Common options"
#define MS_GROUP_LOGGING "Logging and checkpoints"

/* Fields 0, 1, ... until false; those of the optimizer last. */
bool ms_train_field_at(size_t index, ms_train_field *out);
bool ms_train_field_same(const char *a, const char *b); /* hyphens and underscores are alike */

/* The presets: 0, 1, ... until NULL. */
const char *ms_preset_name(size_t index, const char **help);

/* The preset's values, with the optimizer's own defaults where it has none. */
musec_status ms_train_config_init(ms_error *e, ms_train_config *cfg, const char *preset,
                                  const char *optimizer);
/* key with hyphens or underscores; unknown: the nearest is named. */
musec_status ms_train_config_set(ms_error *e, ms_train_config *cfg, const char *key,
                                 const char *value);
/* The same from a text, a number, true/false (yes/no) or an object of numbers. */
musec_status ms_train_config_set_json(ms_error *e, ms_train_config *cfg, const char *key,
                                      const json_t *value);
musec_status ms_train_config_get(const ms_train_config *cfg, const char *key, char *text,
                                 size_t bytes);
/* What its text stands for, in this config. */
ms_value_kind ms_train_config_kind(const ms_train_config *cfg, const char *key);
/* What is given (asked by its name with hyphens) replaces what the preset's stages say of it, a
 * short run has no extension, and nanoGPT's files hold GPT-2's tokens.  told: a line for each, or
 * "". */
void ms_train_config_settle(ms_train_config *cfg,
                            bool (*is_given)(const void *arg, const char *key), const void *arg,
                            char told[MS_SETTLE_TEXT]);
/* Are the fields, together, a run?  Fills what follows from others (vocab of 0, long layers). */
musec_status ms_train_config_check(ms_error *e, ms_train_config *cfg);

/* {"preset": "nano", "optimizer": "muon", "layers": 4, "lr": 0.02, "qk_norm": "yes", ...}: numbers
 * as numbers, weight_decay as one for each role, the rest as text.  What was written when all
 * values were text is read as well. */
json_t *ms_train_config_json(const ms_train_config *cfg);
/* The same with all values as text, which is what keys of runs are made of (grid.h). */
json_t      *ms_train_config_texts(const ms_train_config *cfg);
musec_status ms_train_config_from_json(ms_error *e, const char *what, const json_t *json,
                                       ms_train_config *cfg);
musec_status ms_train_config_read(ms_error *e, const char *path, ms_train_config *cfg);
musec_status ms_train_config_write(ms_error *e, const char *path, const ms_train_config *cfg);
/* The first field that differs and is not among `allowed` (NULL ends), or NULL. */
const char *ms_train_config_differs(const ms_train_config *a, const ms_train_config *b,
                                    const char *const *allowed);

#endif
