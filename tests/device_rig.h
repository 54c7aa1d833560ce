/* device_rig.h - operands of single ops, for tests that call them by name. */
#ifndef MS_TESTS_DEVICE_RIG_H
#define MS_TESTS_DEVICE_RIG_H

#include "device/cpu/ref.h"

typedef struct stack { /* dense, on a device, its elements known on the host */
    ms_device *d;
    ms_mat     mat;  /* on the device */
    ms_mat     host; /* the same in host memory: for ms_at and ms_put */
    size_t     bytes;
} stack;

stack stack_make(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows, int64_t cols);
/* Normally distributed, and sent. */
stack stack_random(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows, int64_t cols,
                   uint64_t seed);
void  stack_send(stack *s);    /* host to device */
void  stack_receive(stack *s); /* and back */
void  stack_free(stack *s);

/* Freed by the caller, as what they are: ops->free of data. */
ms_ids ids_make(ms_device *d, const int32_t *host, int64_t count);
ms_vec vec_make(ms_device *d, const double *host, int64_t count);

/* Of row xi of matrix xb and row yi of matrix yb, both in host memory. */
double row_dot(ms_mat x, int64_t xb, int64_t xi, ms_mat y, int64_t yb, int64_t yi);

#define EACH_DTYPE(t) for (musec_dtype t = MUSEC_F32; t <= MUSEC_F64; t = (musec_dtype)(t + 1))

#endif
