/* init_from.h - a run that begins with weights from elsewhere, --init-from PATH.
 *
 * PATH is a run directory (its newest checkpoint), a checkpoint, an export (train/export.h), or a
 * .safetensors file with the names of either. */
#ifndef MS_TRAIN_INIT_FROM_H
#define MS_TRAIN_INIT_FROM_H

#include "train/config.h"

typedef struct ms_init_result {
    json_t *origin; /* {"path": "runs/a", "sha256": "...", "step": 200}, a file has no step; new */
    char    warning[sizeof(ms_error)]; /* where the weights were made for another function; "" */
} ms_init_result;

/* Every tensor is checked before a weight is changed: all parameters of the model must be there and
 * nothing else, with their shapes, in F32, BF16 or F16, and finite. */
musec_status ms_init_from(ms_error *e, const ms_train_config *cfg, ms_device *d, ms_gpt *gpt,
                          ms_init_result *out);

#endif
