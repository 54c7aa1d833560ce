/* card.h - the model card of an export: what was trained, on what, how far, and how to load it. */
#ifndef MS_TRAIN_CARD_H
#define MS_TRAIN_CARD_H

#include <stdio.h>

#include "train/hf.h"

/* state: that of the checkpoint. */
void ms_card_write(const ms_hf_model *m, const json_t *state, bool has_tokenizer, FILE *to);

#endif
