/* product.h - what the files of the row `product` share: product.c chooses the kernel,
 * hopper_gemm_*.cu are the kernels for Hopper, gemm_fallback.cu has the epilogue after gemm. */
#ifndef MS_DEVICE_CUDA_PRODUCT_H
#define MS_DEVICE_CUDA_PRODUCT_H

#include "device/cuda/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the product by a kernel for Hopper with a fused epilogue, if that supports the operands:
 * *handled.  Nothing is empty and c is not transposed.  1x1 takes full and symmetric products, 2x1
 * symmetric ones whose operands are not both transposed. */
musec_status ms_cuda_hopper_gemm_1x1(ms_device *d, const ms_product *p, bool *handled);
musec_status ms_cuda_hopper_gemm_2x1(ms_device *d, const ms_product *p, bool *handled);

/* p->c <- alpha ab + beta source + diag I and the rest of the epilogue; ab is the product of p->a
 * and p->b, dense, in the accumulator type. */
musec_status ms_cuda_product_finish(ms_device *d, const ms_product *p, ms_mat ab);

/* out[b] <- the sum of the `parts` numbers from part[b * parts] on, where the mask is set; does
 * nothing where out.data is NULL. */
musec_status ms_cuda_product_sums(ms_device *d, const double *part, int64_t parts, ms_vec mask,
                                  ms_vec out);

#ifdef __cplusplus
}
#endif
#endif
