/* safetensors.h - reading .safetensors files: an 8-byte length, a JSON header, the tensors.
 *
 * Opening reads and checks the whole header (offsets, sizes, overlaps, the file's length) and no
 * tensor.  A tensor is read when asked for, as float32 or float64: F32 and F64 as they are, F16 and
 * BF16 widened to float32 without loss. */
#ifndef MS_CORE_SAFETENSORS_H
#define MS_CORE_SAFETENSORS_H

#include <stdio.h>

#include "core/npy.h"

typedef struct ms_tensor_info {
    char    *name;
    char     dtype[16]; /* as in the file: "F32", "BF16", "I64", ... */
    int      ndim;      /* tensors of more than MS_NPY_DIMS dimensions are refused when read */
    int64_t  shape[MS_NPY_DIMS];
    uint64_t begin, end; /* bytes, from the end of the header */
} ms_tensor_info;

typedef struct ms_safetensors { /* { 0 } is closed */
    FILE           *f;
    char           *path;
    uint64_t        data_at;
    ms_tensor_info *tensors; /* in the order of their offsets */
    size_t          n_tensors;
} ms_safetensors;

musec_status ms_safetensors_open(ms_error *e, const char *path, ms_safetensors *out);
/* Is the tensor's dtype one that ms_safetensors_read understands? */
int          ms_safetensors_readable(const ms_tensor_info *t);
musec_status ms_safetensors_read(ms_error *e, ms_safetensors *s, size_t index, ms_npy *out);
void         ms_safetensors_close(ms_safetensors *s);

#endif
