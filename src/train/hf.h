/* hf.h - the format of Hugging Face's transformers: names of tensors, config.json, model card.
 *
 * The code of the model is hf/modeling_musec.py, which an export contains. */
#ifndef MS_TRAIN_HF_H
#define MS_TRAIN_HF_H

#include <stdio.h>

#include "train/config.h"

enum { MS_HF_NAME = 96 };

/* The Hugging Face name of a parameter.  *transposed: the matrix is stored the other way round. */
void ms_hf_name(const ms_gpt_config *model, const char *name, char out[MS_HF_NAME],
                bool *transposed);

typedef struct ms_hf_model { /* what is exported */
    const ms_train_config *config;
    int64_t                step;
    int64_t                window_short, window_long; /* in tokens, at that step */
    int64_t                context;                   /* the longest document, in tokens */
    int64_t                ids;   /* ids in use; the last one starts a document */
    musec_dtype            dtype; /* of the weights */
} ms_hf_model;

/* New references; NULL: not enough memory. */
json_t *ms_hf_config(const ms_hf_model *m);
json_t *ms_hf_generation_config(const ms_hf_model *m);
json_t *ms_hf_tokenizer_config(const ms_hf_model *m);

/* Writes the model card: model, training, data, and how to load it.  `state` is that of the
 * checkpoint. */
void ms_hf_card(const ms_hf_model *m, const json_t *state, bool has_tokenizer, FILE *to);

#endif
