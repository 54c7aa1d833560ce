/* fields.h - the table of a config's fields, inside of src/train: their names, kinds, ranges,
 * groups and help.  config.h is what others see of it. */
#ifndef MS_TRAIN_FIELDS_H
#define MS_TRAIN_FIELDS_H

#include "train/config.h"

typedef enum ms_field_type {
    MS_FIELD_WHOLE,    /* int64_t */
    MS_FIELD_UNSIGNED, /* uint64_t */
    MS_FIELD_NUMBER,   /* double */
    MS_FIELD_CHOICE,   /* int64_t: the number of the choice */
    MS_FIELD_TEXT,
} ms_field_type;

typedef struct ms_field {
    const char   *name;
    ms_field_type type;
    size_t        offset, bytes; /* bytes: of a text */
    double        min, max;
    const char *values; /* the choices, "a|b|c", in the order of their codes; else what to write */
    const char *group;  /* the title that --help has it under */
    const char *help;   /* without the default, which is the preset's, unless there is none */
} ms_field;

#define MS_PRESETS "pico|nano|small|medium|wide"

extern const ms_field ms_fields[];
extern const size_t   ms_n_fields;

/* The group of one of the optimizer's own options. */
const char *ms_field_optim_group(const char *name);

#endif
