/* product.h - what the files of the row `product` share: product.c chooses, product_wgmma.cu and
 * product_pair.cu have Hopper's tensor cores do it with all that rides on it, gemm_any.cu finishes
 * what gemm began. */
#ifndef MS_DEVICE_CUDA_PRODUCT_H
#define MS_DEVICE_CUDA_PRODUCT_H

#include "device/cuda/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing is empty and c is not transposed.  *served: it was done. */
musec_status ms_cuda_product_wgmma(ms_device *d, const ms_product *p, bool *served);
musec_status ms_cuda_product_pair(ms_device *d, const ms_product *p, bool *served);

/* p->c <- alpha ab + beta z + diag I and what rides on it, ab being the product of p->a and p->b,
 * dense and wide. */
musec_status ms_cuda_product_finish(ms_device *d, const ms_product *p, ms_mat ab);

/* out[b] <- the sum of part[b * parts + ...], where `when` says so; out.data NULL: nothing. */
musec_status ms_cuda_product_sums(ms_device *d, const double *part, int64_t parts, ms_vec when,
                                  ms_vec out);

#ifdef __cplusplus
}
#endif
#endif
