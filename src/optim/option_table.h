/* option_table.h - the options of the optimizers as rows: config.c parses and prints them. */
#ifndef MS_OPTIM_OPTION_TABLE_H
#define MS_OPTIM_OPTION_TABLE_H

#include <stddef.h>

#include "musec/optim.h"

#define MS_OPTIM_ABOVE_0           1e-300
#define MS_OPTIM_OPERAND_CHOICES   "auto|f32|bf16|f16"
#define MS_OPTIM_SHARPNESS_CHOICES "auto|2|4|8|16|32|hard"

typedef enum ms_optim_option_type {
    MS_OPTIM_REAL,
    MS_OPTIM_INT,
    MS_OPTIM_UINT,
    MS_OPTIM_CHOICE,
    /* those that have a syntax of their own */
    MS_OPTIM_THRESHOLD,
    MS_OPTIM_DECAY,
    MS_OPTIM_BASE,
    MS_OPTIM_OPERANDS,
    MS_OPTIM_SHARPNESS,
} ms_optim_option_type;

typedef struct ms_optim_option {
    const char          *name;
    ms_optim_option_type type;
    size_t               offset, bytes; /* of its member of musec_optim_config */
    double               min, max;
    const char *values; /* the choices, "a|b|c", in the order of their codes; else what to write */
    const char *help;
} ms_optim_option;

extern const ms_optim_option ms_optim_options[];
extern const size_t          ms_n_optim_options;

extern const char *const ms_optim_role_names[MUSEC_MATRIX_ROLES];
/* The value of a whole number, of whatever size it is. */
int64_t ms_optim_integer(const ms_optim_option *f, const musec_optim_config *cfg);
/* The place of a code among MS_OPTIM_OPERAND_CHOICES; -1: it is none of them. */
int ms_operands_index(int32_t code);

#endif
