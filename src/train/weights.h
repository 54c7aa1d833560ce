/* weights.h - the parameters of a model to and from a safetensors file, by name. */
#ifndef MS_TRAIN_WEIGHTS_H
#define MS_TRAIN_WEIGHTS_H

#include "model/gpt.h"

musec_status ms_weights_write(ms_error *e, const char *path, ms_device *d, const ms_gpt *gpt);
/* Every parameter must be there with its shape, and nothing else; otherwise nothing is changed. */
musec_status ms_weights_read(ms_error *e, const char *path, ms_device *d, ms_gpt *gpt);

#endif
