/* stack.h - arrays from files as stacks of matrices: checked, converted, brought to the device. */
#ifndef MS_CLI_STACK_H
#define MS_CLI_STACK_H

#include "core/npy.h"
#include "device/device.h"

typedef struct ms_stack_shape {
    int64_t count, rows, cols;
} ms_stack_shape;

/* 2-D is one matrix, 3-D a stack of them.  `flatten` takes (d0, d1, d2, ...) of four or more
 * dimensions, a convolution's, as d0 rows; otherwise those are refused.  No dimension may be 0. */
musec_status ms_stack_shape_of(ms_error *error, const char *name, int ndim, const int64_t *shape,
                               int flatten, ms_stack_shape *out);

/* Checks that every element is finite; the error names the first that is not. */
musec_status ms_stack_check_finite(ms_error *error, const char *name, const ms_npy *array);

/* Converts the array to `dtype` in place; a finite float64 that float32 cannot hold is an error. */
musec_status ms_stack_convert(ms_error *error, const char *name, musec_dtype dtype, ms_npy *array);

/* A dense stack in device memory, uninitialised or filled from `host`.  Free it with
 * ms_stack_free, which accepts a view of zeros. */
musec_status ms_stack_alloc(ms_error *error, musec_ctx *ctx, musec_dtype dtype,
                            ms_stack_shape shape, musec_view *out);
musec_status ms_stack_upload(ms_error *error, musec_ctx *ctx, const void *host, musec_view view);
musec_status ms_stack_download(ms_error *error, musec_ctx *ctx, musec_view view, void *host);
void         ms_stack_free(musec_ctx *ctx, musec_view *view);

#endif
