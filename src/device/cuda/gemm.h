/* gemm.h - what the files of products share: gemm.c sets the rows of the op table and reduces them
 * to products of one form, gemm_plan.c runs those by cuBLASLt, gemm_fallback.cu those that cuBLASLt
 * does not support. */
#ifndef MS_DEVICE_CUDA_GEMM_H
#define MS_DEVICE_CUDA_GEMM_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MS_CUDA_BATCH = 65535 }; /* matrices of one product, which cuBLASLt maps to a grid's z */

/* c <- alpha a b + beta source.  Nothing is empty, c is not transposed, and count is at most
 * MS_CUDA_BATCH. */
typedef struct ms_cuda_gemm_problem {
    double alpha, beta;
    ms_mat a, b, c; /* (m x k), (k x n), (m x n) */
    ms_mat source;  /* c itself, or another matrix of the same dtype, ld and stride */
} ms_cuda_gemm_problem;

/* c <- alpha a b + beta source for any operands; the source has the layout of c, transposed if c
 * is. */
musec_status ms_cuda_gemm(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta,
                          ms_mat source, ms_mat c);

/* Computes the product by cuBLASLt, if that has an algorithm for the operands: *handled. */
musec_status ms_cuda_gemm_planned(ms_device *d, const ms_cuda_gemm_problem *x, bool *handled);
/* Computes the product by a slow kernel of our own for any layout and alignment. */
musec_status ms_cuda_gemm_fallback(ms_device *d, const ms_cuda_gemm_problem *p);
/* Copies the lower triangle of every square matrix onto the upper one, bit for bit. */
musec_status ms_cuda_mirror(ms_device *d, ms_mat c);

#ifdef __cplusplus
}
#endif
#endif
