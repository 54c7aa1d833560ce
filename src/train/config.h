/* config.h - everything that defines a training run, in one struct and one table (fields.c).
 *
 * A field has one name: hyphens on the command line, underscores in config.json and after --set.
 * Presets, files and flags all set a field from text, and a field is printed as text that gives the
 * same bits back, so config.json replays a run.  The optimizer's options are fields too; they come
 * from the optimizer's own table. */
#ifndef MS_TRAIN_CONFIG_H
#define MS_TRAIN_CONFIG_H

#include <jansson.h>

#include "core/file.h"
#include "core/text.h"
#include "model/gpt.h"

enum { MS_TEXT_MAX = 1024, MS_CONFIG_NOTES = 256, MS_CONFIG_KEY = 64 };

typedef enum ms_tokenizer { MS_TOKENIZER_BYTE, MS_TOKENIZER_GPT2 } ms_tokenizer;
typedef enum ms_reduction { MS_REDUCTION_MEAN, MS_REDUCTION_SUM8 } ms_reduction;
/* The dtype of activations; AUTO takes the one that suits the device. */
typedef enum ms_precision {
    MS_PRECISION_AUTO,
    MS_PRECISION_F32,
    MS_PRECISION_BF16,
    MS_PRECISION_F16,
} ms_precision;

typedef enum ms_checkpoints {
    MS_CHECKPOINTS_ALL,
    MS_CHECKPOINTS_UNFINISHED, /* not of a run that has made all its steps */
    MS_CHECKPOINTS_NONE,
} ms_checkpoints;

typedef struct ms_train_config {
    int64_t            preset;
    ms_gpt_config      model;
    char               long_layers[MS_TEXT_MAX]; /* "0,4,11", "all" or "none" */
    char               value_tables[MS_TEXT_MAX], skips[MS_TEXT_MAX]; /* "11:0,12:1" or "none" */
    char               backout[MS_CONFIG_KEY];                        /* a layer or "none" */
    char               paired_layers[MS_TEXT_MAX], bare_layers[MS_TEXT_MAX]; /* as long_layers */
    char               attn_from[MS_CONFIG_KEY];                             /* a layer or "none" */
    int64_t            yarn;  /* the largest long window that YaRN follows; 0: none */
    int64_t            untie; /* the first step (0-based) in which head and embedding are apart */
    musec_optim_config optim;
    double             lr_qk, lr_vo, lr_up, lr_down; /* factors on the learning rate */
    double             lr_tables, lr_scalars;        /* and on AdamW's */
    /* Data */
    char    data[MS_PATH_MAX], val_data[MS_PATH_MAX];
    int64_t tokenizer, keep_rest;
    int64_t data_bare; /* .bin files have no header, as nanoGPT writes them */
    /* Schedule */
    int64_t steps, extension; /* the last `extension` steps keep the final learning rate */
    int64_t batch, micro_batches, max_doc, window_short, window_long;
    char    mtp[MS_TEXT_MAX], stages[MS_TEXT_MAX];
    double  cooldown, cooldown_to;
    int64_t momentum_warmup, momentum_cooldown;
    double  momentum_from;
    int64_t grad_reduction;
    /* Logging and checkpoints */
    int64_t  val_every, val_tokens, checkpoint_every, keep;
    int64_t  checkpoints; /* ms_checkpoints */
    uint64_t seed;
    char     init_from[MS_PATH_MAX]; /* initial weights; "": random ones */
    double   diverge_factor;
    int64_t  diverge_steps;
    double   time_limit; /* minutes of this process; 0: none */
    /* Device */
    char    device[64];
    int64_t precision, deterministic;
} ms_train_config;

enum {                                 /* what a field's value means for a run's identity */
       MS_FIELD_RESUMABLE    = 1 << 0, /* A resumed run may have another value. */
       MS_FIELD_RECORDED     = 1 << 1, /* A change on resuming is recorded in summary.json. */
       MS_FIELD_NOT_KEYED    = 1 << 2, /* The value is no part of a run's key (grid.h). */
       MS_FIELD_KEYED_IF_SET = 1 << 3, /* It is part of the key unless it is the default. */
       MS_FIELD_LOCAL        = 1 << 4, /* A path or a device of this machine: never exported. */
       MS_FIELD_FUNCTION     = 1 << 5, /* It changes what given weights compute. */
};

/* One field, as --help, completion and the manual page show it. */
typedef struct ms_train_field {
    const char *name;    /* with hyphens */
    const char *values;  /* "X", "N", "TEXT", or the choices "a|b" */
    const char *help;    /* One line.  The help of the optimizer's options, and of fields whose
                          * default is empty, ends with the default in brackets. */
    const char *group;   /* the heading of --help that lists it */
    const char *initial; /* the trainer's default, as text; NULL: the optimizer's own */
    unsigned    flags;
} ms_train_field;

/* The headings in the order of --help: 0, 1, ... until NULL. */
const char *ms_train_group(size_t index);
/* The groups to which musec train adds options of its own. */
#define MS_GROUP_COMMON  "Common options"
#define MS_GROUP_LOGGING "Logging and checkpoints"

/* Fields 0, 1, ... until false; the optimizer's options come last. */
bool ms_train_field_at(size_t index, ms_train_field *out);
bool ms_train_field_same(const char *a, const char *b); /* hyphens equal underscores */
/* The name of a field in JSON, with underscores; returns `key`. */
const char *ms_train_field_key(const char *name, char key[MS_CONFIG_KEY]);

/* The presets: 0, 1, ... until NULL. */
const char *ms_preset_name(size_t index, const char **help);

/* Sets every field to its default, then to the preset's value where the preset has one. */
musec_status ms_train_config_init(ms_error *e, ms_train_config *cfg, const char *preset,
                                  const char *optimizer);
/* Sets a field; the key has hyphens or underscores.  An error for an unknown key suggests the
 * nearest name. */
musec_status ms_train_config_set(ms_error *e, ms_train_config *cfg, const char *key,
                                 const char *value);
/* Applies settings "key=value" until NULL. */
musec_status ms_train_config_apply(ms_error *e, ms_train_config *cfg, const char *const *settings);
/* Sets a field from a JSON string, number, boolean (yes/no) or object of numbers. */
musec_status ms_train_config_set_json(ms_error *e, ms_train_config *cfg, const char *key,
                                      const json_t *value);
musec_status ms_train_config_get(const ms_train_config *cfg, const char *key, char *text,
                                 size_t bytes);
/* The JSON type that the text of a field stands for in this config. */
ms_value_kind ms_train_config_kind(const ms_train_config *cfg, const char *key);
/* Resolves what the given options (asked by name, with hyphens) imply: they replace the values in
 * the preset's stages, a short run has no extension, and nanoGPT's files hold GPT-2 tokens.  Each
 * change adds a line to `notes`. */
void ms_train_config_resolve(ms_train_config *cfg,
                             bool (*is_given)(const void *arg, const char *key), const void *arg,
                             char notes[MS_CONFIG_NOTES]);
/* Checks that the fields fit together, and fills those that follow from others (a vocab of 0, the
 * mask of long layers). */
musec_status ms_train_config_check(ms_error *e, ms_train_config *cfg);

/* Lists what the model has beyond the plain one, "smear, skips 9:6,10:4"; false: nothing. */
enum { MS_PARTS_TEXT = 6 * MS_TEXT_MAX };
bool ms_train_parts(const ms_train_config *cfg, char text[MS_PARTS_TEXT]);

/* {"preset": "nano", "optimizer": "muon", "layers": 4, "lr": 0.02, "qk_norm": "yes", ...}: numbers
 * are numbers, weight_decay is an object with a number for each role, and the rest is text.  Files
 * of versions that wrote every value as text are read as well. */
json_t *ms_train_config_json(const ms_train_config *cfg);
/* The same with every value as text, from which the keys of runs are made (grid.h). */
json_t      *ms_train_config_texts(const ms_train_config *cfg);
musec_status ms_train_config_from_json(ms_error *e, const char *what, const json_t *json,
                                       ms_train_config *cfg);
musec_status ms_train_config_read(ms_error *e, const char *path, ms_train_config *cfg);
musec_status ms_train_config_write(ms_error *e, const char *path, const ms_train_config *cfg);
/* The name of the first field that differs, ignoring fields with any of the flags `except`; NULL if
 * there is none. */
const char *ms_train_config_differs(const ms_train_config *a, const ms_train_config *b,
                                    unsigned except);

#endif
