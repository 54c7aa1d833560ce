/* hopper.cuh - Hopper's instructions, each under its name: mbarriers, clusters, TMA, stmatrix; the
 * layout of tiles in shared memory; and the pipeline between TMA and the warpgroups that compute.
 *
 * A shared memory tile has SMEM_ROWS rows of SMEM_ROW_BYTES bytes and begins at a multiple of its
 * size.  It is stored with the 128-byte swizzle: the 16-byte chunk k of row r lies in the place of
 * chunk k ^ (r % 8), so that neither rows nor columns of chunks fall into the same banks.
 *
 * The blocks of a cluster have shared memory laid out alike.  Each may write to the other's and
 * arrive at its mbarriers. */
#ifndef MS_DEVICE_CUDA_HOPPER_CUH
#define MS_DEVICE_CUDA_HOPPER_CUH

#ifndef MS_CUDA_HOPPER
#error "name this .cu file among hopper_sources of cmake/cuda.cmake: others are not made for 9.0a"
#endif

#include <cuda.h>

#include "device/cuda/kernel.cuh"

enum {
    SMEM_ROWS       = 64,
    SMEM_ROW_BYTES  = 128,
    SMEM_TILE       = SMEM_ROWS * SMEM_ROW_BYTES, /* bytes */
    SMEM_ALIGN      = 1024,                       /* bytes: where swizzled tiles may begin */
    WARPGROUP       = 128,                        /* threads */
    WARPGROUP_WARPS = WARPGROUP / WARP,
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- shared memory --------------------------------------------------------------------------- */

static __device__ inline uint32_t smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Returns the first address for swizzled tiles in dynamic shared memory, which has SMEM_ALIGN bytes
 * to spare. */
static __device__ inline uint32_t smem_tiles(const void *dynamic)
{
    return (smem_address(dynamic) + SMEM_ALIGN - 1u) / SMEM_ALIGN * SMEM_ALIGN;
}

/* An address in a swizzled tile.  It holds the lane's part; at() adds what is known at compile
 * time: whole rows and tiles, and bytes within a row whose bits the lane's part does not use. */
struct swizzled_address {
    uint32_t                   base, swizzle;
    __device__ inline uint32_t at(uint32_t rows, uint32_t byte) const
    {
        return base + rows + (byte ^ swizzle);
    }
};

static __device__ inline swizzled_address swizzled(uint32_t tile, uint32_t row, uint32_t byte)
{
    return { tile + row * SMEM_ROW_BYTES + byte % 16, byte / 16 * 16 ^ (row & 7u) << 4 };
}

static __device__ inline void store_shared(uint32_t at, float x)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory");
}

static __device__ inline void store_shared(uint32_t at, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x), "f"(y) : "memory");
}

static __device__ inline float2 load_shared_f32x2(uint32_t at)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
    return v;
}

static __device__ inline uint32_t load_shared_b32(uint32_t at)
{
    uint32_t v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}

static __device__ inline uint4 load_shared_b32x4(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

/* Stores four 8 x 8 blocks of 16 bits.  Lanes 8 i .. 8 i + 7 hold the addresses of the rows of
 * block i, or of its columns where it is transposed. */
template <bool Transposed>
static __device__ inline void stmatrix_x4(uint32_t at, uint32_t x, uint32_t y, uint32_t z,
                                          uint32_t w)
{
    if (Transposed)
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
            "r"(x), "r"(y), "r"(z), "r"(w)
            : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                     "r"(x), "r"(y), "r"(z), "r"(w)
                     : "memory");
}

template <bool Transposed> static __device__ inline void stmatrix_x1(uint32_t at, uint32_t x)
{
    if (Transposed)
        asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(at), "r"(x)
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at), "r"(x)
                     : "memory");
}

/* Transposes an 8 x 8 block of 16 bits in the registers of a warp. */
static __device__ inline uint32_t movmatrix_transposed(uint32_t block)
{
    uint32_t other;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(other) : "r"(block));
    return other;
}

/* ---- warpgroups ------------------------------------------------------------------------------ */

/* Waits at named barrier `barrier` for `threads` threads; 0 is __syncthreads(). */
static __device__ inline void named_barrier_sync(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* The _if forms act where `pred` holds, which must be the same for a whole warp.  A branch instead
 * of the predicate would make the compiler wait between MMAs. */
static __device__ inline void named_barrier_sync_if(int barrier, int threads, bool pred)
{
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p bar.sync %0, %1;\n\t}" ::"r"(barrier),
        "r"(threads), "r"((int)pred)
        : "memory");
}

static __device__ inline void named_barrier_arrive_if(int barrier, int threads, bool pred)
{
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p bar.arrive %0, %1;\n\t}" ::"r"(barrier),
        "r"(threads), "r"((int)pred)
        : "memory");
}

/* Set the registers of each thread to N; all threads of a warpgroup execute them. */
template <int N> static __device__ inline void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ inline void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- mbarriers, by address ------------------------------------------------------------------- */

enum { MBARRIER = 8 }; /* bytes */

static __device__ inline void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

/* Makes the initialised mbarriers visible to TMA and to the cluster. */
static __device__ inline void mbarrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ inline void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives where `pred` holds, by a predicate, not a branch (see named_barrier_sync_if). */
static __device__ inline void mbarrier_arrive_if(uint32_t barrier, bool pred)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\t"
                 "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n\t}" ::"r"(barrier),
                 "r"((int)pred)
                 : "memory");
}

/* Arrives `times` times at an mbarrier of any block of the cluster (cluster_address).  The arrival
 * means that something was read.  It does not release writes to the cluster: that would take a
 * fence for all memory, 1000 cycles each time. */
static __device__ inline void mbarrier_arrive_cluster_if(uint32_t barrier, uint32_t times,
                                                         bool pred)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t"
                 "@p mbarrier.arrive.shared::cluster.b64 _, [%0], %1;\n\t}" ::"r"(barrier),
                 "r"(times), "r"((int)pred)
                 : "memory");
}

/* Arrives, by an elected lane, at an mbarrier that TMA will complete with so many bytes. */
static __device__ inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n\t}" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

static __device__ inline void mbarrier_wait(uint32_t barrier, uint32_t phase)
{
    asm volatile("{\n\t.reg .pred done;\n"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra again;\n\t}" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
}

/* ---- clusters -------------------------------------------------------------------------------- */

static __device__ inline uint32_t cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Returns the address, in block `rank` of the cluster, of the same variable as `address` here. */
static __device__ inline uint32_t cluster_address(uint32_t address, uint32_t rank)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

/* Waits for all threads of the cluster. */
static __device__ inline void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

/* ---- TMA ------------------------------------------------------------------------------------- */

/* A whole warp executes the loads and stores, and an elected lane issues them.  In a branch of one
 * thread the compiler may not know that the operands are the same in all lanes, and makes a loop
 * over the lanes, which costs 200 cycles. */

static __device__ inline void prefetch_tensor_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Loads a box of matrix b whose first element is (row, col) as stored.  Elements outside the matrix
 * are 0. */
static __device__ inline void tma_load(uint32_t to, const CUtensorMap *map, int col, int row, int b,
                                       uint32_t barrier)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];\n\t}" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(b), "r"(barrier)
                 : "memory");
}

/* Loads the box into every block of `blocks` (one bit each), to the same address in each, and
 * completes the mbarrier of each. */
static __device__ inline void tma_load_multicast(uint32_t to, const CUtensorMap *map, int col,
                                                 int row, int b, uint32_t barrier, uint16_t blocks)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;\n\t}" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(b), "r"(barrier), "h"(blocks)
                 : "memory");
}

/* Loads contiguous bytes, 16 at least. */
static __device__ inline void tma_load_bytes(uint32_t to, const void *from, uint32_t bytes,
                                             uint32_t barrier)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];\n\t}" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* Stores a box, without the elements outside the matrix.  It is for a single thread, which alone
 * can wait for the store. */
static __device__ inline void tma_store(const CUtensorMap *map, int col, int row, int b,
                                        uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(col), "r"(row), "r"(b), "r"(from)
                 : "memory");
}

/* Stores a box by an elected lane, the same one each time. */
static __device__ inline void tma_store_elected(const CUtensorMap *map, int col, int row, int b,
                                                uint32_t from)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];\n\t}" ::"l"(map),
                 "r"(col), "r"(row), "r"(b), "r"(from)
                 : "memory");
}

static __device__ inline void tma_store_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until all but the last N groups of this thread's stores have read their shared memory. */
template <int N> static __device__ inline void tma_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* Lets TMA read the shared memory that this thread wrote, after the next barrier. */
static __device__ inline void tma_store_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- pipeline -------------------------------------------------------------------------------- */

/* A circular buffer of stages in shared memory.  Each stage has a `full` mbarrier, which TMA
 * completes, and an `empty` one, at which the consumers arrive.  These are the addresses of the
 * first ones. */
struct pipeline {
    uint32_t full, empty;
};

/* A stage of a pipeline, and the phase of its mbarriers, which alternates from turn to turn. */
template <int Stages> struct pipeline_state {
    uint32_t index, phase;

    __device__ inline void operator++()
    {
        if (++index == Stages) index = 0, phase ^= 1u;
    }
    __device__ inline void advance(uint32_t stages)
    {
        const uint32_t to = index + stages;
        phase ^= to / Stages & 1u;
        index = to % Stages;
    }
};

/* Initialises the mbarriers of a pipeline, by one thread. */
static __device__ inline void pipeline_init(const pipeline &p, int stages, uint32_t releases)
{
    for (int s = 0; s < stages; s++) {
        mbarrier_init(p.full + MBARRIER * s, 1);
        mbarrier_init(p.empty + MBARRIER * s, releases);
    }
}

/* The producer waits until the stage is empty, as it is in the first turn. */
template <int Stages>
static __device__ inline void wait_empty(const pipeline &p, const pipeline_state<Stages> &at)
{
    mbarrier_wait(p.empty + MBARRIER * at.index, at.phase ^ 1u);
}

/* A consumer waits until the stage is loaded. */
template <int Stages>
static __device__ inline void wait_full(const pipeline &p, const pipeline_state<Stages> &at)
{
    mbarrier_wait(p.full + MBARRIER * at.index, at.phase);
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
