/* product_parts.cuh - what the kernels of product_wgmma.cu and product_pair.cu share: numbers in
 * pairs, blocks on the diagonal. */
#ifndef MS_DEVICE_CUDA_PRODUCT_PARTS_CUH
#define MS_DEVICE_CUDA_PRODUCT_PARTS_CUH

#include "device/cuda/operand.cuh"
#include "device/cuda/tensor_map.cuh"
#include "device/cuda/wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- c, in the accumulators ------------------------------------------------------------------ */

/* Where beta is 0, z may be anything. */
static __device__ inline float plus_z(float alpha, float d, float beta, float z)
{
    return fmaf(beta, beta != 0.0f ? z : 0.0f, alpha * d);
}

struct bf16_pair {
    static __device__ float2 of(uint32_t word)
    {
        return __bfloat1622float2(*(const __nv_bfloat162 *)&word);
    }
};

struct f16_pair {
    static __device__ float2 of(uint32_t word) { return __half22float2(*(const __half2 *)&word); }
};

/* An 8 x 8 block on the diagonal, symmetric from its lower half: (r, c) and (r, c + 1) are this
 * lane's, and what lies above comes from lane 4 c + r / 2 and the one that follows 4 later. */
static __device__ inline void mirror_block(float &x, float &y, int r, int c)
{
    const float left0 = __shfl_sync(0xffffffffu, x, 4 * c + r / 2);
    const float left1 = __shfl_sync(0xffffffffu, y, 4 * c + r / 2);
    const float next0 = __shfl_sync(0xffffffffu, x, 4 * c + 4 + r / 2);
    const float next1 = __shfl_sync(0xffffffffu, y, 4 * c + 4 + r / 2);
    if (r < c) x = r % 2 == 0 ? left0 : left1;
    if (r < c + 1) y = r % 2 == 0 ? next0 : next1;
}

template <bool Bf16> static __device__ inline uint32_t round_pair(float x, float y)
{
    uint32_t word;
    if (Bf16)
        *(__nv_bfloat162 *)&word = __floats2bfloat162_rn(x, y);
    else
        *(__half2 *)&word = __floats2half2_rn(x, y);
    return word;
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */

#endif
