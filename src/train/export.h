/* export.h - exports a checkpoint as a directory that other programs load. */
#ifndef MS_TRAIN_EXPORT_H
#define MS_TRAIN_EXPORT_H

#include "core/file.h"
#include "core/status.h"

typedef struct ms_export_setup {
    const char *run;   /* a run directory, or a checkpoint */
    int64_t     step;  /* of the checkpoint; -1: the newest */
    const char *out;   /* the directory to make, which must not exist */
    musec_dtype dtype; /* of the weights: F32 or BF16 */
    const char *vocab; /* GPT-2's vocabulary; NULL: in its usual place */
} ms_export_setup;

typedef struct ms_export_result {
    int64_t step, tensors, parameters;
    bool    has_tokenizer;
    char    warning[sizeof(ms_error)]; /* about damaged newer checkpoints, or "" */
    char    note[sizeof(ms_error)];    /* why there is no tokenizer, or "" */
} ms_export_result;

/* Makes a directory for Hugging Face's transformers (docs/formats.md); it is whole or absent. */
musec_status ms_export_hf(ms_error *e, const ms_export_setup *setup, ms_export_result *out);

#endif
