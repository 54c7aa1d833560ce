/* tensor_map.cuh - how the copy engine is told where operands lie.
 *
 * It takes addresses and strides that are multiples of 16 bytes, and stacks, not lists. */
#ifndef MS_DEVICE_CUDA_TENSOR_MAP_CUH
#define MS_DEVICE_CUDA_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#include "device/device.h"

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver is not linked: it is asked for its function. */
static inline encode_fn find_encode()
{
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void                           *fn    = NULL;
#if CUDART_VERSION >= 12050
    const cudaError_t code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000,
                                                              cudaEnableDefault, &found);
#else
    const cudaError_t code =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &fn, cudaEnableDefault, &found);
#endif
    if (code != cudaSuccess) (void)cudaGetLastError();
    return code == cudaSuccess && found == cudaDriverEntryPointSuccess ? (encode_fn)fn : NULL;
}

/* x as it is stored, in boxes of `height` rows of 128 bytes that change places within
 * ("128-byte swizzle", wgmma.cuh); false where the copy engine does not take it. */
static inline bool describe_boxes(encode_fn encode, const ms_mat &x, int height, CUtensorMap *map)
{
    const uint64_t   size       = ms_dtype_bytes(x.dtype);
    const uint64_t   rows       = (uint64_t)(x.trans ? x.cols : x.rows);
    const uint64_t   cols       = (uint64_t)(x.trans ? x.rows : x.cols);
    const cuuint64_t dims[3]    = { cols, rows, (uint64_t)x.count };
    const cuuint64_t strides[2] = { (uint64_t)x.ld * size,
                                    (uint64_t)(x.count > 1 ? x.stride : x.ld) * size };
    const cuuint32_t box[3]     = { (cuuint32_t)(128 / size), (cuuint32_t)height, 1 };
    const cuuint32_t steps[3]   = { 1, 1, 1 };

    const CUtensorMapDataType type = x.dtype == MUSEC_F32    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                     : x.dtype == MUSEC_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    if (x.places != NULL || (uintptr_t)x.data % 16 != 0) return false;
    if (strides[0] % 16 != 0 || strides[1] % 16 != 0 || x.ld <= 0 || strides[1] == 0) return false;
    return encode(map, type, 3, x.data, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#endif
