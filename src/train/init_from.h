/* init_from.h - initial weights from a file, --init-from PATH.
 *
 * PATH is a run directory (its newest checkpoint), a checkpoint, an export (train/export.h), or a
 * .safetensors file with the tensor names of either. */
#ifndef MS_TRAIN_INIT_FROM_H
#define MS_TRAIN_INIT_FROM_H

#include "train/config.h"

typedef struct ms_init_result {
    json_t *origin; /* {"path": "runs/a", "sha256": "...", "step": 200}; a file has no step */
    char    warning[sizeof(ms_error)]; /* about settings that differ, or "" */
} ms_init_result;

/* Reads the weights of cfg->init_from into the model.  Before a weight is changed, every tensor is
 * checked: exactly the parameters of the model, with their shapes, in F32, BF16 or F16, and finite.
 * The caller owns out->origin. */
musec_status ms_init_from(ms_error *e, const ms_train_config *cfg, ms_device *d, ms_gpt *gpt,
                          ms_init_result *out);

#endif
