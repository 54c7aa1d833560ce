/* safetensors.h - .safetensors files: an 8-byte length, a JSON header, the tensors.
 *
 * Opening reads and checks the whole header (offsets, sizes, overlaps, the file's length) and no
 * tensor.  A tensor is read when asked for, as float32 or float64: F32 and F64 as they are, F16 and
 * BF16 widened to float32 without loss.
 *
 * A file is written whole or not at all, of F64, F32 and BF16 tensors.  Larger elements come first,
 * so that every tensor lies at a multiple of its element's size, which some readers ask for; among
 * equals the order is kept. */
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
    char *(*metadata)[2]; /* key, text */
    size_t n_metadata;
} ms_safetensors;

musec_status ms_safetensors_open(ms_error *e, const char *path, ms_safetensors *out);
/* Is the tensor's dtype one that ms_safetensors_read understands? */
int          ms_safetensors_readable(const ms_tensor_info *t);
musec_status ms_safetensors_read(ms_error *e, ms_safetensors *s, size_t index, ms_npy *out);
void         ms_safetensors_close(ms_safetensors *s);
/* The index of the tensor of this name; n_tensors if there is none. */
size_t      ms_safetensors_find(const ms_safetensors *s, const char *name);
const char *ms_safetensors_metadata(const ms_safetensors *s, const char *key); /* NULL: absent */

typedef struct ms_tensor_out {
    const char *name;
    musec_dtype dtype;
    int         ndim; /* 0 is a scalar */
    int64_t     shape[MS_NPY_DIMS];
    const void *data; /* host memory, dense; NULL: the writer's source is asked */
} ms_tensor_out;

typedef struct ms_safetensors_writer {
    /* Sets *data to tensor number `index`, to be valid until the next call; NULL: there is none. */
    musec_status (*source)(ms_error *e, void *arg, size_t index, const void **data);
    void *arg;
} ms_safetensors_writer;

/* metadata: pairs of key and text.  A failing source's message is passed on as it is. */
musec_status ms_safetensors_write_from(ms_error *e, const char *path,
                                       const ms_safetensors_writer *writer,
                                       const ms_tensor_out *tensors, size_t     n,
                                       const char *const (*metadata)[2], size_t n_metadata);
/* Writes tensors that all have their data. */
musec_status ms_safetensors_write(ms_error *e, const char *path, const ms_tensor_out *tensors,
                                  size_t n, const char *const (*metadata)[2], size_t n_metadata);

#endif
