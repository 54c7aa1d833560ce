/* attention_wgmma_queries.cuh - the kernel of attention_wgmma_grad.cu for dQ = scale dS K.
 *
 * A block has 128 queries of a head, a warpgroup 64 of them, and walks over the keys that they see,
 * loading K and the tiles of dS^T that the other kernel stored.  It is bound by memory.  Blocks run
 * from the last queries to the first, because dS of the last ones was stored last and may still be
 * in the L2 cache. */
#ifndef MS_DEVICE_CUDA_ATTENTION_WGMMA_QUERIES_CUH
#define MS_DEVICE_CUDA_ATTENTION_WGMMA_QUERIES_CUH

#include "device/cuda/attention_wgmma.cuh"

enum {
    QUERY_GROUPS  = 2,
    QUERY_THREADS = QUERY_GROUPS * WARPGROUP,
    QUERY_STAGES  = 3,
};

template <int HEAD> struct by_query { /* a stage has K and a tile of dS^T for each warpgroup */
    static constexpr int TILE  = tile_of<HEAD>::BYTES;
    static constexpr int STAGE = TILE + QUERY_GROUPS * WEIGHTS;
    static constexpr int BYTES = QUERY_STAGES * STAGE + 1024;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct query_block {
    int head;   /* of this launch */
    int tile;   /* first tile of queries */
    int groups; /* warpgroups that have queries */
    int first
        [QUERY_GROUPS]; /* tile of keys that a warpgroup's queries see; its last is their own */
};

static __device__ inline query_block query_block_of(const grad_args &g)
{
    const int   blocks = (g.tiles - 1) / QUERY_GROUPS + 1;
    query_block b;
    b.head   = (int)blockIdx.x % g.heads;
    b.tile   = (blocks - 1 - (int)blockIdx.x / g.heads) * QUERY_GROUPS;
    b.groups = min(QUERY_GROUPS, g.tiles - b.tile);
#pragma unroll
    for (int i = 0; i < QUERY_GROUPS; i++)
        b.first[i] = __shfl_sync(
            ALL_LANES, i < b.groups ? first_key(g.j, (b.tile + i) * SIDE) / SIDE : g.tiles, 0);
    return b;
}

/* Returns first[i] without indexing registers by a number unknown at compile time. */
static __device__ inline int first_of(const query_block &b, int i)
{
    int first = b.first[0];
#pragma unroll
    for (int n = 1; n < QUERY_GROUPS; n++)
        if (i == n) first = b.first[n];
    return first;
}

/* Do queries of warpgroup i see a tile of keys? */
static __device__ inline bool uses(const query_block &b, int i, int keys)
{
    return keys >= b.first[i] && keys <= b.tile + i;
}

struct query_smem : pipeline { /* addresses in shared memory */
    uint32_t memory;
};

/* Loads a stage, by a whole warp. */
template <int HEAD>
static __device__ inline void load_keys(const grad_args &g, const query_block &b,
                                        const query_smem &r, uint32_t stage, int keys,
                                        const CUtensorMap *k)
{
    typedef by_query<HEAD> at;
    const uint32_t         to = r.memory + stage * at::STAGE, full = r.full + MBARRIER * stage;
    int                    tiles = 0;
#pragma unroll
    for (int i = 0; i < QUERY_GROUPS; i++)
        tiles += uses(b, i, keys);
    mbarrier_arrive_expect_tx(full, (uint32_t)(at::TILE + tiles * WEIGHTS));
#pragma unroll
    for (int i = 0; i < QUERY_GROUPS; i++)
        if (uses(b, i, keys))
            tma_load_bytes(to + at::TILE + i * WEIGHTS, weights_at(g, b.head, keys, b.tile + i),
                           WEIGHTS, full);
    load_tile<HEAD>(to, k, keys * SIDE, g.first + b.head, full);
}

/* Makes the fragments of dS, 16 keys each, of a warp's 16 queries from those of dS^T. */
static __device__ inline void transpose_weights(uint32_t (&ds)[FRAGMENTS][4], uint32_t tile,
                                                uint32_t me)
{
    tile += (me / WARP * WARPGROUP + me % WARP) * 16;
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const uint4 was = load_shared_b32x4(tile + f * WARP * 16);
        ds[f][0]        = movmatrix_transposed(was.x);
        ds[f][1]        = movmatrix_transposed(was.z);
        ds[f][2]        = movmatrix_transposed(was.y);
        ds[f][3]        = movmatrix_transposed(was.w);
    }
}

/* The first warp is the producer, too: with a warp of its own for that, all would have fewer
 * registers. */
template <typename T, int HEAD>
static __device__ inline void make_queries(const grad_args &g, const query_block &b, uint32_t warp,
                                           const query_smem &r, const CUtensorMap *k)
{
    typedef by_query<HEAD>       at;
    const int                    group = (int)warp / WARPGROUP_WARPS, own = b.tile + group;
    const int                    end = b.tile + b.groups, mine = first_of(b, group);
    const uint32_t               me           = threadIdx.x % WARPGROUP;
    pipeline_state<QUERY_STAGES> from         = { 0, 0 };
    float                        dq[HEAD / 2] = {};
    uint32_t                     ds[FRAGMENTS][4];
    for (int i = 0; warp == 0 && i < QUERY_STAGES && b.first[0] + i < end; i++)
        load_keys<HEAD>(g, b, r, (uint32_t)i, b.first[0] + i, k);
#pragma unroll 1
    for (int keys = b.first[0]; keys < end; keys++) {
        const int      later  = keys - 1 + QUERY_STAGES; /* in the stage before this one */
        const uint32_t before = from.index == 0 ? QUERY_STAGES - 1 : from.index - 1;
        if (warp == 0 && keys > b.first[0] && later < end) {
            mbarrier_wait(r.empty + MBARRIER * before, from.phase ^ (uint32_t)(from.index == 0));
            load_keys<HEAD>(g, b, r, before, later, k);
        }
        wait_full(r, from);
        if (keys >= mine && keys <= own) {
            const uint32_t stage = r.memory + from.index * at::STAGE;
            transpose_weights(ds, stage + at::TILE + group * WEIGHTS, me);
            fence_fragments(ds);
            wgmma_fence();
            pv_mma<T>(dq, ds, stage, true);
            wgmma_commit();
            wgmma_wait<0>();
        }
        release_stage(r, from.index);
        ++from;
    }
    fence_accumulators(dq);
    const float scale[2] = { (float)g.j.scale, (float)g.j.scale };
    store_tile<T>(dq, scale, g.j.dq, g.first + b.head, own * SIDE, g.j.rows, me);
}

#endif

template <typename T, int HEAD>
static __global__ void __launch_bounds__(QUERY_THREADS, 2)
    query_grad_k(const __grid_constant__ grad_args g, const __grid_constant__ CUtensorMap k)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint4 memory[];
    __shared__ uint64_t     barriers[2 * QUERY_STAGES];
    const uint32_t          warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0);
    const uint32_t          full = smem_address(barriers);
    const query_smem        r    = { { full, full + MBARRIER * QUERY_STAGES }, smem_tiles(memory) };
    const query_block       b    = query_block_of(g);
    if (threadIdx.x == 0) {
        pipeline_init(r, QUERY_STAGES, QUERY_THREADS);
        mbarrier_init_fence();
        prefetch_tensor_map(&k);
    }
    __syncthreads();
    make_queries<T, HEAD>(g, b, warp, r, &k);
#endif
}

#endif
