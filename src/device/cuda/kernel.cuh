/* kernel.cuh - what kernels share: elements of any dtype, powers, sums over a block, launches.
 *
 * An operand carries its dtype to the kernel and loads branch on it: the branch is uniform and
 * costs nothing beside the memory access.  So a kernel is compiled once for float (float32, bf16,
 * f16) and where needed once more for double. */
#ifndef MS_DEVICE_CUDA_KERNEL_CUH
#define MS_DEVICE_CUDA_KERNEL_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "core/size.h"
#include "device/cuda/cuda.h"

enum { WARP = 32, VECTOR = 8 }; /* VECTOR: elements that a thread loads at once */

static constexpr unsigned ALL_LANES = 0xffffffffu; /* the mask of a whole warp */

/* ---- elements -------------------------------------------------------------------------------- */

/* Loads element i; Real is float for operands of at most 32 bits, or double for any. */
template <typename Real>
static __device__ inline Real load(const void *p, int64_t i, musec_dtype dtype)
{
    switch (dtype) {
    case MUSEC_F32: return (Real)((const float *)p)[i];
    case MUSEC_BF16: return (Real)__bfloat162float(((const __nv_bfloat16 *)p)[i]);
    case MUSEC_F16: return (Real)__half2float(((const __half *)p)[i]);
    case MUSEC_I16: return (Real)((const int16_t *)p)[i];
    default: return (Real)((const double *)p)[i];
    }
}

/* A double is rounded once, to nearest, also to 16 bits. */
static __device__ inline __nv_bfloat16 to_bf16(float x) { return __float2bfloat16_rn(x); }
static __device__ inline __nv_bfloat16 to_bf16(double x) { return __double2bfloat16(x); }
static __device__ inline __half        to_f16(float x) { return __float2half_rn(x); }
static __device__ inline __half        to_f16(double x) { return __double2half(x); }

template <typename Real>
static __device__ inline void store(void *p, int64_t i, musec_dtype dtype, Real x)
{
    switch (dtype) {
    case MUSEC_F32: ((float *)p)[i] = (float)x; break;
    case MUSEC_BF16: ((__nv_bfloat16 *)p)[i] = to_bf16(x); break;
    case MUSEC_F16: ((__half *)p)[i] = to_f16(x); break;
    case MUSEC_I16: ((int16_t *)p)[i] = (int16_t)x; break;
    default: ((double *)p)[i] = (double)x; break;
    }
}

template <typename T> struct is_bf16 {
    static constexpr bool value = false;
};
template <> struct is_bf16<__nv_bfloat16> {
    static constexpr bool value = true;
};

/* Rounds two numbers to T, bf16 or f16; the first is in the lower half of the word. */
template <typename T> static __device__ inline uint32_t pack_pair(float x, float y)
{
    uint32_t word;
    if (is_bf16<T>::value)
        *(__nv_bfloat162 *)&word = __floats2bfloat162_rn(x, y);
    else
        *(__half2 *)&word = __floats2half2_rn(x, y);
    return word;
}

template <typename T> static __device__ inline float2 unpack_pair(uint32_t word)
{
    if (is_bf16<T>::value)
        return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
    return __half22float2(*(const __half2 *)&word);
}

/* Loads VECTOR elements from i on, i being a multiple of VECTOR and p aligned to 16 bytes. */
static __device__ inline void load_vector(const void *p, int64_t i, musec_dtype dtype,
                                          float (&x)[VECTOR])
{
    if (dtype == MUSEC_F32) {
        const float4 a = ((const float4 *)p)[i / 4], b = ((const float4 *)p)[i / 4 + 1];
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
        return;
    }
    const uint4    all     = ((const uint4 *)p)[i / VECTOR];
    const uint32_t part[4] = { all.x, all.y, all.z, all.w };
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float2 two = dtype == MUSEC_BF16 ? unpack_pair<__nv_bfloat16>(part[k])
                                               : unpack_pair<__half>(part[k]);
        x[2 * k]         = two.x;
        x[2 * k + 1]     = two.y;
    }
}

/* Can rows of x be read in vectors: is every row aligned to 16 bytes and made of whole vectors? */
static inline bool is_vector(const ms_mat *x)
{
    const int64_t each = (int64_t)ms_dtype_bytes(x->dtype), in16 = 16 / each;
    if (x->dtype == MUSEC_F64 || x->trans || x->cols % VECTOR != 0) return false;
    if (x->ptrs != NULL) {
        for (int64_t b = 0; b < x->count; b++)
            if ((uintptr_t)x->ptrs[b].data % 16 != 0 || x->ptrs[b].ld % in16 != 0) return false;
        return true;
    }
    return (uintptr_t)x->data % 16 == 0 && x->ld % in16 == 0 &&
           (x->count == 1 || x->stride % in16 == 0);
}

/* ---- powers ---------------------------------------------------------------------------------- */

static constexpr float LOG2_E = 1.4426950408889634f;

/* Returns 2^x with a relative error of at most 2^-22; subnormal results are 0. */
static __device__ inline float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Returns x^(-1/2) with a relative error of at most 2^-22; x is a normal number. */
static __device__ inline float rsqrt_approx(float x)
{
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Returns 1 / x with a relative error of at most 2^-22; x and 1 / x are normal numbers. */
static __device__ inline float rcp_approx(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- sums ------------------------------------------------------------------------------------ */

template <typename Real> static __device__ inline Real warp_sum(Real x)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

/* Gives all threads of a block (whole warps, at most 32) the sum of x, in an order that depends
 * only on their number.  `shared` has 32 numbers of shared memory, which may be reused
 * afterwards. */
template <typename Real> static __device__ inline Real block_sum(Real x, Real *shared)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int warps = (int)blockDim.x / WARP;
    x               = warp_sum(x);
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    x = warp_sum(lane < warps ? shared[lane] : (Real)0);
    __syncthreads();
    return x;
}

/* ---- programmatic dependent launch ----------------------------------------------------------- */

/* Waits for the kernel before and triggers the next (programmatic dependent launch, PDL).  Every
 * thread of a kernel that launch_kernel launches calls it before it touches global memory: it waits
 * until the work that was queued before is done and all that it wrote can be seen.  Chips from 9.0
 * on start blocks of such a kernel while the one before still runs.  When that ends, they are
 * resident and have set up shared memory, barriers and tensor maps, which need only parameters.  On
 * other chips, and in a kernel that is launched otherwise, it does nothing.
 *
 * Let kernels A, B, C follow one another.  - B waits for the whole of A, so it does not overwrite
 * what A still reads.  - C waits for B only, and that is enough: B does not end before its blocks
 * do, and they wait for
 *   A.  So a block without work also has to wait before it reads its mask, which is global memory,
 *   and so has every block of a cluster and every warp.
 * - Other kernels, those of libraries and copies begin when everything before them is done.  If one
 *   of them triggers the next kernel early, that one waits for it all the same.
 *
 * Then it triggers the next kernel, whose blocks start when ALL blocks of this one have called it
 * or ended.  None is then left to be scheduled, so they take free resources of a multiprocessor and
 * never keep a block that they wait for from running.  As the trigger follows the wait, at most one
 * kernel waits, and the one that it waits for runs. */
static __device__ inline void pdl_wait_trigger()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Is the guard of the context (device.h) 0?  All threads see the same. */
static __device__ inline bool is_off(const double *guard) { return guard != NULL && *guard == 0.0; }

/* Queues a kernel that calls pdl_wait_trigger, in clusters of so many blocks; launched() returns
 * the status. */
template <typename... Params, typename... Args>
static inline void launch_clusters(ms_device *d, void (*kernel)(Params...), unsigned cluster,
                                   dim3 blocks, dim3 threads, size_t shared, const Args &...args)
{
    const ms_cuda      *c      = ms_cuda_of(d);
    cudaLaunchAttribute how[2] = {};
    cudaLaunchConfig_t  shape  = {};
    shape.gridDim              = blocks;
    shape.blockDim             = threads;
    shape.dynamicSmemBytes     = shared;
    shape.stream               = c->stream;
    shape.attrs                = how;
    if (c->use_pdl) {
        how[shape.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        how[shape.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        how[shape.numAttrs].id               = cudaLaunchAttributeClusterDimension;
        how[shape.numAttrs++].val.clusterDim = { cluster, 1, 1 };
    }
    (void)cudaLaunchKernelEx(&shape, kernel, args...); /* the error is also the last one */
}

template <typename... Params, typename... Args>
static inline void launch_kernel(ms_device *d, void (*kernel)(Params...), dim3 blocks, dim3 threads,
                                 size_t shared, const Args &...args)
{
    launch_clusters(d, kernel, 1, blocks, threads, shared, args...);
}

/* ---- grids ----------------------------------------------------------------------------------- */

/* Returns the blocks of `threads` for n items, one each, but no more than fill the chip a few
 * times: kernels stride over the rest.  n is at least 1. */
static inline unsigned blocks_for(ms_device *d, int64_t n, int threads)
{
    const int64_t most = (int64_t)ms_cuda_of(d)->sm_count * 16, need = (n - 1) / threads + 1;
    return (unsigned)(need < most ? need : most);
}

/* Returns the status of the last launch.  Failures while it runs are reported by the next wait. */
static inline musec_status launched(ms_device *d, const char *what)
{
    return ms_cuda_status(d, cudaGetLastError(), what);
}

#endif
