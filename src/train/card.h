/* card.h - the model card of an export: model, training, data, and how to load it. */
#ifndef MS_TRAIN_CARD_H
#define MS_TRAIN_CARD_H

#include <stdio.h>

#include "train/hf.h"

/* `state` is that of the checkpoint. */
void ms_card_write(const ms_hf_model *m, const json_t *state, bool has_tokenizer, FILE *to);

#endif
