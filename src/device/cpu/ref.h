/* ref.h - reads and writes elements of any stack in host memory; rows of `ref` in other files. */
#ifndef MS_DEVICE_CPU_REF_H
#define MS_DEVICE_CPU_REF_H

#include <string.h>

#include "core/half.h"
#include "core/size.h"
#include "device/device.h"

/* b, i, j over the stack x */
#define foreach(x)                             \
    for (int64_t b = 0; b < (x).count; b++)    \
        for (int64_t i = 0; i < (x).rows; i++) \
            for (int64_t j = 0; j < (x).cols; j++)

static inline int64_t ms_mat_offset(ms_mat x, int64_t b, int64_t i, int64_t j)
{
    return b * x.stride + (x.trans ? j * x.ld + i : i * x.ld + j);
}

/* The address of element (i, j) of matrix b. */
static inline void *ms_mat_address(ms_mat x, int64_t b, int64_t i, int64_t j)
{
    if (x.ptrs != NULL) {
        x.data = x.ptrs[b].data;
        x.ld   = x.ptrs[b].ld;
        b      = 0;
    }
    return (char *)x.data + ms_mat_offset(x, b, i, j) * (int64_t)ms_dtype_bytes(x.dtype);
}

static inline double ms_at(ms_mat x, int64_t b, int64_t i, int64_t j)
{
    const void *p = ms_mat_address(x, b, i, j);
    switch (x.dtype) {
    case MUSEC_F32: return (double)*(const float *)p;
    case MUSEC_BF16: return (double)ms_float_of_bf16(*(const uint16_t *)p);
    case MUSEC_F16: return (double)ms_float_of_f16(*(const uint16_t *)p);
    case MUSEC_I16: return (double)*(const int16_t *)p;
    default: return *(const double *)p;
    }
}

static inline void ms_put(ms_mat x, int64_t b, int64_t i, int64_t j, double value)
{
    void *p = ms_mat_address(x, b, i, j);
    switch (x.dtype) { /* the only rounding of `ref` */
    case MUSEC_F32: *(float *)p = (float)value; break;
    case MUSEC_BF16: *(uint16_t *)p = ms_bf16_of_double(value); break;
    case MUSEC_F16: *(uint16_t *)p = ms_f16_of_double(value); break;
    case MUSEC_I16: *(int16_t *)p = (int16_t)value; break; /* whole, and in range */
    default: *(double *)p = value; break;
    }
}

static inline double ms_num_at(ms_num x, int64_t b)
{
    return x.each.data != NULL ? x.each.data[b] : x.host != NULL ? x.host[b] : x.value;
}

static inline bool ms_is_active(ms_vec mask, int64_t b)
{
    return mask.data == NULL || mask.data[b] != 0.0;
}

musec_status ms_ref_svd(ms_device *d, ms_mat x, ms_mat u, ms_mat s, ms_mat vt);
musec_status ms_ref_eigh(ms_device *d, ms_mat a, ms_mat w, ms_mat v);
void         ms_ref_nn_ops(ms_device_ops *table); /* the network ops */

#endif
