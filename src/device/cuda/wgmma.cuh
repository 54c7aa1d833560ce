/* wgmma.cuh - Hopper's own instructions, each under a name: barriers in shared memory, the copy
 * engine (TMA), products of a warpgroup, and the layout of tiles that both know.
 *
 * A box is BOX_ROWS rows of BOX_BYTES bytes in shared memory, one after the other, beginning at a
 * multiple of BOX bytes; the 16-byte chunk k of row r lies in the place of chunk k ^ (r % 8)
 * ("128-byte swizzle"), so that neither rows nor columns of chunks fall into the same banks.
 *
 * A slice of an operand is lines (rows of a, columns of b) by SLICE of the sum's index k, in 16
 * bits.  Where lines run along memory, a row of its boxes is one k, and a box has 64 lines; where k
 * does, a row is a line, and a box of 128 rows has them all.  The instruction takes both kinds,
 * told apart when compiled.
 *
 * Two blocks that form a cluster have shared memory laid out alike, and each may write to the
 * other's and arrive at its barriers. */
#ifndef MS_DEVICE_CUDA_WGMMA_CUH
#define MS_DEVICE_CUDA_WGMMA_CUH

#ifndef MS_CUDA_HOPPER
#error "name this .cu file among hopper_sources of cmake/cuda.cmake: others are not made for 9.0a"
#endif

#include <cuda.h>

#include "device/cuda/kernel.cuh"

enum {
    BOX_ROWS  = 64,
    BOX_BYTES = 128,
    BOX       = BOX_ROWS * BOX_BYTES,
    SLICE     = BOX_BYTES / 2,
    SLICE_BOX = 64 * SLICE * 2, /* bytes */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Where something of a box lies.  The lane's part is here, the rest is known when compiled: `+` for
 * whole rows and boxes, `^` for bytes within a row that the lane's own do not reach. */
struct box_spot {
    uint32_t                   base, turn;
    __device__ inline uint32_t at(uint32_t more, uint32_t byte) const
    {
        return base + more + (byte ^ turn);
    }
};

static __device__ inline box_spot spot_in(uint32_t box, uint32_t row, uint32_t byte)
{
    return { box + row * BOX_BYTES + byte % 16, byte / 16 * 16 ^ (row & 7u) << 4 };
}

static __device__ inline uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Of `threads` threads, all that name this barrier; 0 is __syncthreads(). */
static __device__ inline void group_sync(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* Of each thread of a warpgroup, which all execute it. */
template <int N> static __device__ inline void fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ inline void more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- barriers in shared memory, by address --------------------------------------------------- */

static __device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

/* Makes the above known to the copy engine and to the cluster. */
static __device__ inline void barrier_inits_done()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Where `does`: a branch around it would make the compiler wait between products. */
static __device__ inline void barrier_arrive(uint32_t barrier, bool does)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\t"
                 "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n\t}" ::"r"(barrier),
                 "r"((int)does)
                 : "memory");
}

/* `times` at once, at a barrier of any block of the cluster (in_block).  It says that something was
 * read, and publishes nothing that was written: asked to do that for the cluster, it would wait for
 * all memory, 1000 cycles each time. */
static __device__ inline void cluster_arrive(uint32_t barrier, uint32_t times, bool does)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t"
                 "@p mbarrier.arrive.shared::cluster.b64 _, [%0], %1;\n\t}" ::"r"(barrier),
                 "r"(times), "r"((int)does)
                 : "memory");
}

/* The one arrival of a barrier that copies complete; by a lane of the warp that executes it. */
static __device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n\t}" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

static __device__ inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n\t.reg .pred done;\n"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra again;\n\t}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* ---- clusters -------------------------------------------------------------------------------- */

static __device__ inline uint32_t cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Where block `rank` of the cluster has what lies here at `address`. */
static __device__ inline uint32_t in_block(uint32_t address, uint32_t rank)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

/* Of all threads of the cluster. */
static __device__ inline void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

/* ---- the copy engine ------------------------------------------------------------------------- */

static __device__ inline void prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* A box of matrix b whose first element is (row, col) as stored; 0 where there is none.  By a lane
 * of the warp, which all execute it: in a branch of one thread, the compiler would not know that
 * the operands are the same for all, and each copy would cost 200 cycles. */
static __device__ inline void load_box(uint32_t to, const CUtensorMap *map, int col, int row, int b,
                                       uint32_t barrier)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];\n\t}" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(b), "r"(barrier)
                 : "memory");
}

/* The same to two blocks, at the same place in each, whose barriers both learn of it. */
static __device__ inline void load_box_for_both(uint32_t to, const CUtensorMap *map, int col,
                                                int row, int b, uint32_t barrier)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;\n\t}" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(b), "r"(barrier), "h"((uint16_t)3)
                 : "memory");
}

/* What lies outside of the matrix is not written. */
static __device__ inline void store_box(const CUtensorMap *map, int col, int row, int b,
                                        uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(col), "r"(row), "r"(b), "r"(from)
                 : "memory");
}

/* The same by a lane of the warp, the same one each time: it alone has stores to wait for. */
static __device__ inline void store_box_by_warp(const CUtensorMap *map, int col, int row, int b,
                                                uint32_t from)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];\n\t}" ::"l"(map),
                 "r"(col), "r"(row), "r"(b), "r"(from)
                 : "memory");
}

static __device__ inline void stores_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until the shared memory of all but N groups of stores of this thread may be written again. */
template <int N> static __device__ inline void stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* Shared memory that this thread wrote, before the copy engine reads it. */
static __device__ inline void writes_to_engine()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- products of a warpgroup ----------------------------------------------------------------- */

/* Says where an operand's lines lie: 64 of a, up to 256 of b.  From one group of 8 rows to the
 * next: 8 times their bytes; from 64 lines to the next, where lines run along memory: SLICE_BOX. */
static __device__ inline uint64_t slice_descriptor(uint32_t address)
{
    const uint64_t swizzle = 1; /* of 128 bytes */
    return swizzle << 62 | (uint64_t)(8 * BOX_BYTES / 16) << 32 | (uint64_t)(SLICE_BOX / 16) << 16 |
           (address & 0x3ffffu) >> 4;
}

/* From 16 of k to the next 16, in a descriptor. */
template <bool Lines> static __device__ inline uint64_t next_k16()
{
    return (Lines ? 16 * BOX_BYTES : 32) / 16;
}

static __device__ inline void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ inline void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most N groups of them are under way. */
template <int N> static __device__ inline void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define D4(i)  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define D16(i) D4(i), D4((i) + 4), D4((i) + 8), D4((i) + 12)

#define MULTIPLY(type)                                                                         \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.b32 p, 0, 0;\n\t"                              \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " "              \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "     \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, " \
                 "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
                 "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, " \
                 "%61, %62, %63}, %64, %65, p, 1, 1, %66, %67;\n\t}"                           \
                 : D16(0), D16(16), D16(32), D16(48)                                           \
                 : "l"(a), "l"(b), "n"(ALines ? 1 : 0), "n"(BLines ? 1 : 0))

/* d <- d + a b: 64 x 128 += (64 x 16) (16 x 128).  Element 4 j + 2 h + e of thread
 * t is (16 w + 8 h + l / 4, 8 j + 2 (l % 4) + e), w being its warp and l its lane. */
template <bool Bf16, bool ALines, bool BLines>
static __device__ inline void multiply(float (&d)[64], uint64_t a, uint64_t b)
{
    if (Bf16)
        MULTIPLY("bf16");
    else
        MULTIPLY("f16");
}

#undef MULTIPLY
#undef D16
#undef D4

#define D4(i) "+f"(D(i)), "+f"(D((i) + 1)), "+f"(D((i) + 2)), "+f"(D((i) + 3))
#define D32(i)                                                                               \
    D4(i), D4((i) + 4), D4((i) + 8), D4((i) + 12), D4((i) + 16), D4((i) + 20), D4((i) + 24), \
        D4((i) + 28)
#define D(i) d[(i) / 32][(i) % 32]

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

#define MULTIPLY(type, n, names, a_at, b_at, a_turned, b_turned, ...)                      \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.b32 p, 0, 0;\n\t"                          \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names \
                 "}, " a_at ", " b_at ", p, 1, 1, " a_turned ", " b_turned ";\n\t}"        \
                 : __VA_ARGS__                                                             \
                 : "l"(a), "l"(b), "n"(ALines ? 1 : 0), "n"(BLines ? 1 : 0))

#define MULTIPLY_ANY(type)                                                                         \
    if (Quadrants == 4)                                                                            \
        MULTIPLY(type, "256", NAMES_128, "%128", "%129", "%130", "%131", D32(0), D32(32), D32(64), \
                 D32(96));                                                                         \
    else if (Quadrants == 3)                                                                       \
        MULTIPLY(type, "192", NAMES_96, "%96", "%97", "%98", "%99", D32(0), D32(32), D32(64));     \
    else if (Quadrants == 2)                                                                       \
        MULTIPLY(type, "128", NAMES_64, "%64", "%65", "%66", "%67", D32(0), D32(32));              \
    else                                                                                           \
        MULTIPLY(type, "64", NAMES_32, "%32", "%33", "%34", "%35", D32(0))

/* d <- d + a b: 64 x N += (64 x 16) (16 x N), N being 64 Quadrants.  Element 4 j + 2 h + e of
 * quadrant q of thread t is (16 w + 8 h + l / 4, 64 q + 8 j + 2 (l % 4) + e), w being its warp and
 * l its lane. */
template <bool Bf16, bool ALines, bool BLines, int Quadrants>
static __device__ inline void multiply_strip(float (&d)[4][32], uint64_t a, uint64_t b)
{
    if (Bf16) {
        MULTIPLY_ANY("bf16");
    } else {
        MULTIPLY_ANY("f16");
    }
}

#undef MULTIPLY_ANY
#undef MULTIPLY
#undef NAMES_128
#undef NAMES_96
#undef NAMES_64
#undef NAMES_32
#undef D
#undef D32
#undef D4

/* ---- 8 x 8 blocks of 16 bits to shared memory ------------------------------------------------ */

/* Lanes 8 i .. 8 i + 7 say where the rows (transposed: the columns) of block i begin. */
template <bool Turned>
static __device__ inline void store_blocks(uint32_t at, uint32_t x, uint32_t y, uint32_t z,
                                           uint32_t w)
{
    if (Turned)
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
            "r"(x), "r"(y), "r"(z), "r"(w)
            : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                     "r"(x), "r"(y), "r"(z), "r"(w)
                     : "memory");
}

template <bool Turned> static __device__ inline void store_block(uint32_t at, uint32_t x)
{
    if (Turned)
        asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(at), "r"(x)
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at), "r"(x)
                     : "memory");
}

static __device__ inline void store_pair(uint32_t at, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x), "f"(y) : "memory");
}

static __device__ inline void store_one(uint32_t at, float x)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory");
}

static __device__ inline float2 load_pair(uint32_t at)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
    return v;
}

static __device__ inline uint32_t load_word(uint32_t at)
{
    uint32_t v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
