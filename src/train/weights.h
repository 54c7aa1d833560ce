/* weights.h - writes and reads the parameters of a model, by name, in safetensors files. */
#ifndef MS_TRAIN_WEIGHTS_H
#define MS_TRAIN_WEIGHTS_H

#include "model/gpt.h"

/* Writes tensor by tensor, through a host buffer for the largest one of this many bytes. */
size_t       ms_weights_buffer(const ms_gpt *gpt);
musec_status ms_weights_write(ms_error *e, const char *path, ms_device *d, const ms_gpt *gpt);
/* The file must hold every parameter with its shape and nothing else; a failure changes nothing. */
musec_status ms_weights_read(ms_error *e, const char *path, ms_device *d, ms_gpt *gpt);

#endif
