/* tensor_map.cuh - the host's part of kernels for Hopper: whether they can be used, and the tensor
 * maps that describe operands to TMA. */
#ifndef MS_DEVICE_CUDA_TENSOR_MAP_CUH
#define MS_DEVICE_CUDA_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#include "device/cuda/cuda.h"

typedef CUresult (*tensor_map_encoder)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                       const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                       const cuuint32_t *, CUtensorMapInterleave,
                                       CUtensorMapSwizzle, CUtensorMapL2promotion,
                                       CUtensorMapFloatOOBfill);

/* Can these kernels be launched with so many bytes of dynamic shared memory, on a chip that has TMA
 * and wgmma?  In a program that was not compiled for compute capability 9.0a they are empty, which
 * shows as no static shared memory.  The answer is stored for later calls; where the device does
 * not answer, the status says why. */
static inline musec_status is_usable(ms_device *d, ms_cuda_hopper which, const void *const *kernels,
                                     int n_kernels, int smem_bytes, bool *usable)
{
    ms_cuda     *c    = ms_cuda_of(d);
    const bool   fits = c->capability == 90 && c->shared_bytes >= smem_bytes;
    bool         all  = fits;
    musec_status st   = MUSEC_OK;

    *usable = c->hopper[which].usable;
    if (c->hopper[which].probed) return MUSEC_OK;
    for (int i = 0; i < n_kernels && all; i++) {
        cudaFuncAttributes is = {};
        TRY(ms_cuda_status(d, cudaFuncGetAttributes(&is, kernels[i]), "a kernel for Hopper"));
        all = is.sharedSizeBytes > 0;
        if (!all) break;
        TRY(ms_cuda_status(d,
                           cudaFuncSetAttribute(
                               kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes),
                           "a kernel for Hopper"));
        TRY(ms_cuda_status(d,
                           cudaFuncSetAttribute(kernels[i],
                                                cudaFuncAttributePreferredSharedMemoryCarveout,
                                                cudaSharedmemCarveoutMaxShared),
                           "a kernel for Hopper"));
    }
    if (all && c->encode_tensor_map == NULL)
        c->encode_tensor_map = ms_cuda_driver_function("cuTensorMapEncodeTiled");
    c->hopper[which].probed = true;
    c->hopper[which].usable = *usable = all && c->encode_tensor_map != NULL;
done:
    return st;
}

/* *map <- x as it is stored, in boxes of `height` rows of 128 bytes with the 128-byte swizzle
 * (hopper.cuh); false where TMA does not support x. */
static inline bool make_tensor_map(const ms_cuda *c, const ms_mat &x, int height, CUtensorMap *map)
{
    const tensor_map_encoder encode     = (tensor_map_encoder)c->encode_tensor_map;
    const uint64_t           size       = ms_dtype_bytes(x.dtype);
    const uint64_t           rows       = (uint64_t)(x.trans ? x.cols : x.rows);
    const uint64_t           cols       = (uint64_t)(x.trans ? x.rows : x.cols);
    const cuuint64_t         dims[3]    = { cols, rows, (uint64_t)x.count };
    const cuuint64_t         strides[2] = { (uint64_t)x.ld * size,
                                            (uint64_t)(x.count > 1 ? x.stride : x.ld) * size };
    const cuuint32_t         box[3]     = { (cuuint32_t)(128 / size), (cuuint32_t)height, 1 };
    const cuuint32_t         steps[3]   = { 1, 1, 1 };

    const CUtensorMapDataType type = x.dtype == MUSEC_F32    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                     : x.dtype == MUSEC_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    if (x.ptrs != NULL || (uintptr_t)x.data % 16 != 0) return false;
    if (strides[0] % 16 != 0 || strides[1] % 16 != 0 || x.ld <= 0 || strides[1] == 0) return false;
    return encode(map, type, 3, x.data, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#endif
