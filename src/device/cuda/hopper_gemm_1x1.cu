/* hopper_gemm_1x1.cu - the GEMM for Hopper with tiles of 256 x 128 by single blocks: full or
 * symmetric products of 16-bit operands, batched, with a fused epilogue. */
#include "device/cuda/hopper_gemm_kernel.cuh"

musec_status ms_cuda_hopper_gemm_1x1(ms_device *d, const ms_product *p, bool *handled)
{
    return run_gemm<policy_1x1>(d, MS_CUDA_GEMM_1X1, p, handled);
}
