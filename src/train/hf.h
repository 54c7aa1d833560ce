/* hf.h - a model of ours as Hugging Face's transformers knows it: names of tensors, config.json.
 *
 * The model's own file is hf/modeling_musec.py, which an export carries with it. */
#ifndef MS_TRAIN_HF_H
#define MS_TRAIN_HF_H

#include "train/config.h"

enum { MS_HF_NAME = 96 };

/* The name there of one of our parameters.  *transposed: there the matrix is stored as (out, in),
 * here the other way round. */
void ms_hf_name(const ms_gpt_config *model, const char *name, char out[MS_HF_NAME],
                bool *transposed);

typedef struct ms_hf_model { /* what is exported */
    const ms_train_config *config;
    int64_t                step;
    int64_t                window_short, window_long; /* at that step */
    int64_t                context;                   /* tokens of its longest documents */
    int64_t                ids;                       /* that mean something; the last starts */
    musec_dtype            dtype;                     /* of the weights */
} ms_hf_model;

/* New; NULL: not enough memory. */
json_t *ms_hf_config(const ms_hf_model *m);
json_t *ms_hf_generation_config(const ms_hf_model *m);
json_t *ms_hf_tokenizer_config(const ms_hf_model *m);

#endif
