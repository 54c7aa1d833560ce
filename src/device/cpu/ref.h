/* ref.h - how the host reads and writes one element of any stack, and the rows of `ref` that have a
 * file of their own. */
#ifndef MS_DEVICE_CPU_REF_H
#define MS_DEVICE_CPU_REF_H

#include "device/device.h"

static inline int64_t ms_mat_offset(ms_mat x, int64_t b, int64_t i, int64_t j)
{
    return b * x.stride + (x.trans ? j * x.ld + i : i * x.ld + j);
}

static inline double ms_at(ms_mat x, int64_t b, int64_t i, int64_t j)
{
    const int64_t o = ms_mat_offset(x, b, i, j);
    return x.dtype == MUSEC_F32 ? (double)((const float *)x.data)[o] : ((const double *)x.data)[o];
}

static inline void ms_put(ms_mat x, int64_t b, int64_t i, int64_t j, double value)
{
    const int64_t o = ms_mat_offset(x, b, i, j);
    if (x.dtype == MUSEC_F32)
        ((float *)x.data)[o] = (float)value; /* the only rounding of `ref` */
    else
        ((double *)x.data)[o] = value;
}

static inline double ms_num_at(ms_num x, int64_t b)
{
    return x.each.data != NULL ? x.each.data[b] : x.value;
}

musec_status ms_ref_svd(ms_device *d, ms_mat x, ms_mat u, ms_mat s, ms_mat vt);
musec_status ms_ref_eigh(ms_device *d, ms_mat a, ms_mat w, ms_mat v);
void         ms_ref_nn_ops(ms_device_ops *table); /* the network ops */

#endif
