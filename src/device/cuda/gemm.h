/* gemm.h - what the files of the products share: gemm.c sets the rows of the table and reduces them
 * to products of one form, gemm_plan.c gives those to cuBLASLt, gemm_fallback.cu takes what it does
 * not support. */
#ifndef MS_DEVICE_CUDA_GEMM_H
#define MS_DEVICE_CUDA_GEMM_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MS_CUDA_BATCH = 65535 }; /* matrices of one product: cuBLASLt lays them along a grid's z */

/* c <- alpha a b + beta source.  Nothing is empty, c is not transposed, and count is at most
 * MS_CUDA_BATCH. */
typedef struct ms_cuda_gemm_problem {
    double alpha, beta;
    ms_mat a, b, c; /* (m x k), (k x n), (m x n) */
    ms_mat source;  /* c itself, or another matrix that lies as c does: dtype, ld, stride */
} ms_cuda_gemm_problem;

/* The row `gemm` for any operands, with a source that lies as c does, transposed if c is. */
musec_status ms_cuda_gemm(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta,
                          ms_mat source, ms_mat c);

/* Runs it by cuBLASLt if that has an algorithm for such operands: *handled tells. */
musec_status ms_cuda_gemm_planned(ms_device *d, const ms_cuda_gemm_problem *x, bool *handled);
/* Runs it by a kernel of our own that takes any layout and alignment, slowly. */
musec_status ms_cuda_gemm_fallback(ms_device *d, const ms_cuda_gemm_problem *p);
/* Copies the lower triangle of every square matrix onto the upper one, bit for bit. */
musec_status ms_cuda_mirror(ms_device *d, ms_mat c);

#ifdef __cplusplus
}
#endif
#endif
