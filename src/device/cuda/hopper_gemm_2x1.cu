/* hopper_gemm_2x1.cu - the GEMM for Hopper by clusters of two blocks, with tiles of 256 x 256:
 * symmetric products of 16-bit operands, batched, with a fused epilogue.
 *
 * Its MMAs run at 96 percent of the tensor cores' rate where those of the 1x1 policy reach 80, and
 * it computes less above the diagonal; but a tile is twice as large, and 8000 cycles pass from its
 * last MMA to the first of the next.  So it is for long sums: 2048 x 2048 takes 0.83 of the time of
 * the 1x1 policy, 768 x 768 1.2 (bench/results/h200-history.md). */
#include "device/cuda/hopper_gemm_kernel.cuh"

musec_status ms_cuda_hopper_gemm_2x1(ms_device *d, const ms_product *p, bool *handled)
{
    return run_gemm<policy_2x1>(d, MS_CUDA_GEMM_2X1, p, handled);
}
