/* wgmma.cuh - matrix multiply-accumulate (MMA) of a warpgroup: operands in shared memory or
 * registers, accumulators in registers.
 *
 * A k-tile of an operand is 64 or more of its rows (of the right operand, columns) by K_TILE of the
 * summation index k, in 16 bits, in swizzled tiles (hopper.cuh).  In a K-major operand k is
 * contiguous in memory: a row of a tile is a row of the operand.  In an MN-major one a row of a
 * tile is one k, and a tile has 64 rows of the operand.  The instruction takes both, by immediate
 * operands.
 *
 * Element 4 j + 2 h + e of the accumulators of 64 x N belongs to row 16 w + 8 h + l / 4 and column
 * 8 j + 2 (l % 4) + e, where w is the thread's warp in the warpgroup and l its lane. */
#ifndef MS_DEVICE_CUDA_WGMMA_CUH
#define MS_DEVICE_CUDA_WGMMA_CUH

#include "device/cuda/hopper.cuh"

enum { K_TILE = SMEM_ROW_BYTES / 2 };

enum major { K_MAJOR, MN_MAJOR };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Returns the descriptor of an operand in swizzled tiles.  Eight rows take 1024 bytes; each 64 rows
 * of an MN-major operand are a tile. */
static __device__ inline uint64_t smem_descriptor(uint32_t address)
{
    const uint64_t swizzle_128b = 1;
    return swizzle_128b << 62 | (uint64_t)(8 * SMEM_ROW_BYTES / 16) << 32 |
           (uint64_t)(SMEM_TILE / 16) << 16 | (address & 0x3ffffu) >> 4;
}

/* Returns the increment of a descriptor for 16 steps of k. */
static __device__ constexpr uint64_t descriptor_k16(major m)
{
    return (m == MN_MAJOR ? 16 * SMEM_ROW_BYTES : 32) / 16;
}

static __device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ inline void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most N groups of MMAs are pending. */
template <int N> static __device__ inline void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* Keeps the compiler from moving uses of the accumulators before this point, which follows the wait
 * for their MMAs. */
template <int N> static __device__ inline void fence_accumulators(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

#define D8(i)                                                                           \
    "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), \
        "+f"(d[(i) + 5]), "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define D32(i) D8(i), D8((i) + 8), D8((i) + 16), D8((i) + 24)
#define NAMES_32                               \
    "%0, %1, %2, %3, %4, %5, %6, %7, "         \
    "%8, %9, %10, %11, %12, %13, %14, %15, "   \
    "%16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                        \
    NAMES_32 ", "                                       \
             "%32, %33, %34, %35, %36, %37, %38, %39, " \
             "%40, %41, %42, %43, %44, %45, %46, %47, " \
             "%48, %49, %50, %51, %52, %53, %54, %55, " \
             "%56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_96                                        \
    NAMES_64 ", "                                       \
             "%64, %65, %66, %67, %68, %69, %70, %71, " \
             "%72, %73, %74, %75, %76, %77, %78, %79, " \
             "%80, %81, %82, %83, %84, %85, %86, %87, " \
             "%88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128                                               \
    NAMES_96 ", "                                               \
             "%96, %97, %98, %99, %100, %101, %102, %103, "     \
             "%104, %105, %106, %107, %108, %109, %110, %111, " \
             "%112, %113, %114, %115, %116, %117, %118, %119, " \
             "%120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA(n, type, names, pred, operands)                                                \
    "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " pred ", 0;\n\t"                                  \
    "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, " operands \
    ";\n\t}"

/* Both operands in shared memory: accumulators, then %a, %b, pred, and the majors of a and b. */
#define WGMMA_SS(n, type, names, a, b, pred, a_major, b_major, ...)                       \
    asm volatile(WGMMA(n, type, names, pred, a ", " b ", p, 1, 1, " a_major ", " b_major) \
                 : __VA_ARGS__                                                            \
                 : "l"(x), "l"(y), "r"((int)accumulate), "n"(A == MN_MAJOR), "n"(B == MN_MAJOR))
#define WGMMA_SS_N(type)                                                                          \
    if constexpr (N == 256)                                                                       \
        WGMMA_SS("256", type, NAMES_128, "%128", "%129", "%130", "%131", "%132", D32(0), D32(32), \
                 D32(64), D32(96));                                                               \
    else if constexpr (N == 192)                                                                  \
        WGMMA_SS("192", type, NAMES_96, "%96", "%97", "%98", "%99", "%100", D32(0), D32(32),      \
                 D32(64));                                                                        \
    else if constexpr (N == 128)                                                                  \
        WGMMA_SS("128", type, NAMES_64, "%64", "%65", "%66", "%67", "%68", D32(0), D32(32));      \
    else                                                                                          \
        WGMMA_SS("64", type, NAMES_32, "%32", "%33", "%34", "%35", "%36", D32(0))

/* d <- x y, or d + x y if `accumulate`: 64 x N, over 16 of k. */
template <typename T, int N, major A, major B>
static __device__ inline void wgmma(float *d, uint64_t x, uint64_t y, bool accumulate)
{
    if constexpr (is_bf16<T>::value) {
        WGMMA_SS_N("bf16");
    } else {
        WGMMA_SS_N("f16");
    }
}

/* The left operand in registers, the right one MN-major: accumulators, then %a0 .. %a3, %b,
 * pred. */
#define WGMMA_RS(n, type, names, a, b, pred, ...)                          \
    asm volatile(WGMMA(n, type, names, pred, "{" a "}, " b ", p, 1, 1, 1") \
                 : __VA_ARGS__                                             \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"((int)accumulate))
#define WGMMA_RS_N(type)                                                                      \
    if constexpr (N == 64)                                                                    \
        WGMMA_RS("128", type, NAMES_64, "%64, %65, %66, %67", "%68", "%69", D32(0), D32(32)); \
    else                                                                                      \
        WGMMA_RS("64", type, NAMES_32, "%32, %33, %34, %35", "%36", "%37", D32(0))

/* d <- x y, or d + x y: 64 x (64 or 128) by a fragment of x and 16 rows of y. */
template <typename T, int N>
static __device__ inline void wgmma(float (&d)[N], const uint32_t (&x)[4], uint64_t y,
                                    bool accumulate)
{
    if constexpr (is_bf16<T>::value) {
        WGMMA_RS_N("bf16");
    } else {
        WGMMA_RS_N("f16");
    }
}

#undef WGMMA_RS_N
#undef WGMMA_RS
#undef WGMMA_SS_N
#undef WGMMA_SS
#undef WGMMA
#undef NAMES_128
#undef NAMES_96
#undef NAMES_64
#undef NAMES_32
#undef D32
#undef D8

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
