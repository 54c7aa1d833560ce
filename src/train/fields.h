/* fields.h - the tables of a config's fields and of the presets, for the files of src/train.
 * config.h shows other folders what they may know of them. */
#ifndef MS_TRAIN_FIELDS_H
#define MS_TRAIN_FIELDS_H

#include "train/config.h"

typedef enum ms_field_type {
    MS_FIELD_INT,    /* int64_t */
    MS_FIELD_UINT,   /* uint64_t */
    MS_FIELD_REAL,   /* double */
    MS_FIELD_CHOICE, /* int64_t: the index of the choice */
    MS_FIELD_TEXT,   /* char array */
} ms_field_type;

typedef struct ms_field {
    const char   *name;
    ms_field_type type;
    size_t        offset, bytes; /* The member of ms_train_config; bytes: capacity of a text. */
    double        min, max;
    const char   *values;  /* The choices "a|b|c" in the order of their codes, or a placeholder. */
    const char   *initial; /* The default as text; a preset may replace it. */
    const char   *group;   /* The heading of --help that lists the field. */
    unsigned      flags;   /* MS_FIELD_RESUMABLE and the others of config.h. */
    const char   *help;    /* One line; in brackets what an empty default means. */
} ms_field;

#define MS_PRESETS "pico|nano|mini|midi|small|medium|wide|small-full|medium-full|wide-full"

extern const ms_field ms_fields[];
extern const size_t   ms_n_fields;

/* What the trainer adds to one of the optimizer's own options, which have a table in optim. */
typedef struct ms_optim_field {
    const char *name, *initial; /* initial NULL: the optimizer's own default. */
    const char *group;
    unsigned    flags;
} ms_optim_field;

const ms_optim_field *ms_optim_field_find(const char *name);

typedef struct ms_preset { /* what it sets beyond the defaults of the fields */
    const char        *name, *help;
    const char *const *settings; /* "field=value" or "optimizer:field=value"; NULL ends */
} ms_preset;

extern const ms_preset ms_presets[]; /* A row without a name ends the list. */

#endif
