/* device_rig.h - matrices, vectors and ids in device memory, for tests that call single ops. */
#ifndef MS_TESTS_DEVICE_RIG_H
#define MS_TESTS_DEVICE_RIG_H

#include "device/cpu/ref.h"

typedef struct stack { /* a dense stack of matrices in device memory, with a copy on the host */
    ms_device *d;
    ms_mat     mat;  /* on the device */
    ms_mat     host; /* the same in host memory: for ms_at and ms_put */
    size_t     bytes;
} stack;

stack stack_make(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows, int64_t cols);
/* Normally distributed, on the device as well. */
stack stack_random(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows, int64_t cols,
                   uint64_t seed);
void  stack_set(stack *s, const double *values); /* (count, rows, cols), on the device as well */
void  stack_send(stack *s);                      /* host to device */
void  stack_receive(stack *s);                   /* device to host */
void  stack_free(stack *s);

/* The caller frees their data with ops->free. */
ms_ids ids_make(ms_device *d, const int32_t *host, int64_t count);
ms_vec vec_make(ms_device *d, const double *host, int64_t count);

/* The dot product of row xi of x's matrix xb and row yi of y's matrix yb, both in host memory. */
double row_dot(ms_mat x, int64_t xb, int64_t xi, ms_mat y, int64_t yb, int64_t yi);

#define EACH_DTYPE(t) for (musec_dtype t = MUSEC_F32; t <= MUSEC_F64; t = (musec_dtype)(t + 1))

#endif
