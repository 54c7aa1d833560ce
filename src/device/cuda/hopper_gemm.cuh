/* hopper_gemm.cuh - the GEMM for Hopper: policies, tile scheduler and main loop.
 *
 * Blocks are persistent and have three warpgroups.  One warp of the last is the producer: it has
 * TMA load k-tiles into a pipeline of STAGES stages.  The two others are consumers, each with a
 * warpgroup tile of four subtiles of 64 x 64 in its accumulators.  For each tile the pipeline
 * carries its k-tiles, then stages with the epilogue's source operand, and where the policy has
 * store warps, empty stages to which the consumers write c (hopper_gemm_epilogue.cuh).  All warps
 * follow this order and need no other agreement; loads run ahead into the next tile while the
 * epilogue of this one runs.
 *
 * A policy sets the tile shape, the cluster, the tile scheduler and who stores:
 *
 * - policy_1x1: a block computes a tile of 256 x 128, two warpgroup tiles of 128 x 128.  At the
 *   tensor cores' rate that takes 48 bytes a cycle from L2; a tile of 128 x 128 alone would take
 *   64, all that a multiprocessor can load.
 * - policy_2x1: a cluster of two blocks computes a tile of 256 x 256 of a symmetric product, in
 *   warpgroup tiles of 64 x 256: numbers 0 and 3 for one block, 1 and 2 for the other.  Of a tile
 *   on the diagonal, warpgroup tile w has only w + 1 subtiles, so that both blocks have the same
 *   work there too.  Each block loads half of b for both.  Shared memory has 128 bytes a cycle:
 *   MMAs of 64 x 256 read 80 of them where 64 x 128 would read 96; loads write 48, of which 32 come
 *   from L2. */
#ifndef MS_DEVICE_CUDA_HOPPER_GEMM_CUH
#define MS_DEVICE_CUDA_HOPPER_GEMM_CUH

#include "device/cuda/operand.cuh"
#include "device/cuda/wgmma.cuh"

enum {
    STAGES      = 4,
    STAGE_BYTES = 6 * SMEM_TILE, /* a of both warpgroups and b, or 4 or 6 subtiles */
    CONSUMERS   = 2 * WARPGROUP, /* threads */
    THREADS     = CONSUMERS + WARPGROUP,
    SUBTILE     = 64,            /* rows and columns */
    SUBTILES    = 4,             /* of a warpgroup tile */
    STAGING     = 2 * SMEM_TILE, /* bytes of a warpgroup's staging buffer */
    SMEM_BYTES  = STAGES * STAGE_BYTES + 2 * STAGING + SMEM_ALIGN,
    B_LINES     = 128,           /* columns of b that a block loads */
    MAX_TILES   = INT32_MAX / 8, /* of the stack: times the scheduler's stride they fit 32 bits */
};

struct gemm_problem {
    int           m, n, k_tiles;
    bool          symmetric; /* c is symmetric, and only its lower triangle computed */
    const double *mask;      /* (count) 0: skip this matrix; NULL: skip none */
};

struct gemm_schedule {
    int      tiles_m;     /* rows of tiles of 128 (1x1) or 256 (2x1) */
    uint32_t tiles;       /* of a matrix */
    uint32_t total_tiles; /* of the stack */
    uint32_t clusters;
    uint32_t rounds; /* each cluster has one tile in a round, or none in the last one */
};

/* c <- alpha a b + beta source + diag I */
struct gemm_epilogue {
    number      alpha, beta, diag;
    bool        has_source, c_is_f32;
    musec_dtype source_dtype;
    int         source_stages;  /* stages of the pipeline for the source, of each tile */
    int         store_stages;   /* of each warpgroup tile: the first is its staging buffer */
    int         stage_subtiles; /* shared memory tiles of a store stage of the pipeline */
    float      *c;              /* in 32 bits: the 2x1 policy also writes it directly */
    int64_t     c_ld, c_stride;
    double     *sumsq, *trace; /* (total_tiles, 2 CLUSTER) partial sums; NULL: not wanted */
};

struct gemm_args {
    gemm_problem  problem;
    gemm_schedule schedule;
    gemm_epilogue epilogue;
};

/* A tile of matrix b: block row i, or i and i + 1 of the 1x1 policy, and block column j. */
struct gemm_tile {
    int64_t number; /* in the stack */
    int     b, i, j;
};

/* The part of a tile that a consumer warpgroup computes. */
struct warpgroup_tile {
    int     b, row, col; /* of its first element */
    int     across;      /* columns of subtiles to compute; 0: there is nothing to do */
    int64_t partial;     /* index of its partial sums */
};

/* ---- policies -------------------------------------------------------------------------------- */

struct policy_1x1 {
    static constexpr int  CLUSTER          = 1;
    static constexpr int  DOWN             = 2; /* rows of subtiles in a warpgroup tile */
    static constexpr int  ACROSS           = SUBTILES / DOWN;
    static constexpr int  SCHEDULER_STRIDE = 0;
    static constexpr int  SUM_ACROSS       = 2; /* subtiles whose squares are summed in float32 */
    static constexpr bool SYMMETRIC        = false; /* for symmetric products only */
    static constexpr bool STORE_WARPS      = false; /* separate warps store c */
    static constexpr int  TILE             = 128;

    /* In a column of a symmetric matrix, tiles are paired from the last one up to the diagonal. */
    static inline int64_t tiles(int64_t down, int64_t across, bool symmetric)
    {
        int64_t pairs = 0;
        if (!symmetric) return (down + 1) / 2 * across;
        for (int64_t j = 0; j < down; j++)
            pairs += (down - j + 1) / 2;
        return pairs;
    }

    static __device__ inline gemm_tile tile_at(const gemm_args &g, uint32_t number)
    {
        const uint32_t b = number / g.schedule.tiles, T = (uint32_t)g.schedule.tiles_m;
        uint32_t       n = number - b * g.schedule.tiles, i, j;
        if (g.problem.symmetric) { /* a tile without partner is the one on the diagonal */
            uint32_t left = T;     /* tiles of column j */
            for (; n >= (left + 1) / 2; left--)
                n -= (left + 1) / 2;
            j = T - left;
            i = T - 2 * ((left + 1) / 2 - n);
        } else {
            j = n / ((T + 1) / 2);
            i = (n - j * ((T + 1) / 2)) * 2;
        }
        return { number, (int)b, (int)i, (int)j };
    }

    static __device__ inline warpgroup_tile part_of(const gemm_args &g, const gemm_tile &t,
                                                    uint32_t warpgroup, uint32_t)
    {
        const bool there =
            warpgroup == 0 ? !g.problem.symmetric || t.i >= t.j : t.i + 1 < g.schedule.tiles_m;
        return { t.b, (t.i + (int)warpgroup) * TILE, t.j * TILE, there ? ACROSS : 0,
                 2 * t.number + warpgroup };
    }
};

struct policy_2x1 {
    static constexpr int  CLUSTER          = 2;
    static constexpr int  DOWN             = 1;
    static constexpr int  ACROSS           = SUBTILES / DOWN;
    static constexpr int  SCHEDULER_STRIDE = 5; /* best for 2048 x 2048 of those tried */
    static constexpr int  SUM_ACROSS       = 1;
    static constexpr bool SYMMETRIC        = true;
    static constexpr bool STORE_WARPS      = true;
    static constexpr int  TILE             = 256;

    static inline int64_t tiles(int64_t down, int64_t, bool) { return down * (down + 1) / 2; }

    /* Tiles are the pairs (x, x + d) modulo the number of rows, for each x as many d as give each
     * pair once.  This spreads the tiles on the diagonal, which are less work, evenly. */
    static __device__ inline gemm_tile tile_at(const gemm_args &g, uint32_t number)
    {
        const uint32_t b = number / g.schedule.tiles;
        const int      n = (int)(number - b * g.schedule.tiles), T = g.schedule.tiles_m;
        const int many = T % 2 == 0 ? T / 2 : T, each = T / 2 + 1; /* x below `many` has `each` */
        const int rest = n - many * each;
        const int x    = rest < 0 ? n / each : many + rest / (T / 2);
        const int y    = x + (rest < 0 ? n % each : rest % (T / 2));
        const int to   = y < T ? y : y - T;
        return { number, (int)b, x > to ? x : to, x > to ? to : x };
    }

    static __device__ inline warpgroup_tile part_of(const gemm_args &g, const gemm_tile &t,
                                                    uint32_t warpgroup, uint32_t rank)
    {
        const int which = (int)(warpgroup == 0 ? rank : 3 - rank);
        const int row = t.i * TILE + which * SUBTILE, col = t.j * TILE;
        const int wide = (g.problem.n - col - 1) / SUBTILE + 1;
        const int most = t.i == t.j ? which + 1 : ACROSS;
        return { t.b, row, col,
                 row >= g.problem.m ? 0
                 : wide < most      ? wide
                                    : most,
                 4 * t.number + which };
    }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <typename P> static __device__ inline bool is_symmetric(const gemm_args &g)
{
    return P::SYMMETRIC || g.problem.symmetric;
}

/* ---- subtiles -------------------------------------------------------------------------------- */

template <typename P> static __device__ inline int row_of(const warpgroup_tile &t, int q)
{
    return t.row + q / P::ACROSS * SUBTILE;
}

template <typename P> static __device__ inline int col_of(const warpgroup_tile &t, int q)
{
    return t.col + q % P::ACROSS * SUBTILE;
}

template <typename P> static __device__ inline bool has_subtile(const warpgroup_tile &t, int q)
{
    return q % P::ACROSS < t.across;
}

/* Does a consumer with a tile to compute have subtile q? */
template <typename P> static __device__ inline bool computes(const warpgroup_tile &t, int q)
{
    return !P::STORE_WARPS || has_subtile<P>(t, q);
}

/* ---- tile scheduler -------------------------------------------------------------------------- */

/* Calls run(tile) for each tile of this cluster whose matrix the mask lets through.  In each round
 * every cluster has a tile; from round to round it moves on by the stride, lest it get the same
 * kind of tile each time.  Whole warps call it: the vote tells the compiler that they agree,
 * without which it would not overlap MMAs. */
template <typename P, typename Run>
static __device__ inline void for_each_tile(const gemm_args &g, Run run)
{
    const gemm_schedule &s       = g.schedule;
    const uint32_t       cluster = blockIdx.x / P::CLUSTER, stride = P::SCHEDULER_STRIDE;
    for (uint32_t round = 0; round < s.rounds; round++) {
        const uint32_t tile =
            round * s.clusters + (stride == 0 ? cluster : (cluster + round * stride) % s.clusters);
        if (tile >= s.total_tiles) continue;
        if (g.problem.mask != NULL && !__any_sync(ALL_LANES, g.problem.mask[tile / s.tiles] != 0.0))
            continue;
        run(P::tile_at(g, tile));
    }
}

/* ---- producer -------------------------------------------------------------------------------- */

typedef pipeline_state<STAGES> gemm_state;

struct gemm_pipeline : pipeline {
    uint32_t smem;          /* address of the stages */
    uint32_t cluster_empty; /* in lane r: `empty` of block r of the cluster */
    uint32_t rank;          /* of this block in its cluster */

    __device__ inline uint32_t stage(const gemm_state &at) const
    {
        return smem + STAGE_BYTES * at.index;
    }
};

/* Loads a k-tile of so many rows of a, or columns of b; if K-major, in one box. */
template <int Lines, major Major, bool Multicast>
static __device__ inline void load_k_tile(uint32_t to, const CUtensorMap *map, int line, int k,
                                          int b, uint32_t barrier)
{
    constexpr uint16_t BOTH_BLOCKS = 1u << 0 | 1u << 1;
#pragma unroll
    for (int i = 0; i < (Major == MN_MAJOR ? Lines / SMEM_ROWS : 1); i++) {
        const int col = Major == MN_MAJOR ? line + i * SMEM_ROWS : k;
        const int row = Major == MN_MAJOR ? k : line;
        if (Multicast)
            tma_load_multicast(to + i * SMEM_TILE, map, col, row, b, barrier, BOTH_BLOCKS);
        else
            tma_load(to + i * SMEM_TILE, map, col, row, b, barrier);
    }
}

/* Loads the source operand of two subtiles of each warpgroup, of one in 32 bits. */
template <typename P>
static __device__ inline void load_source(const gemm_args &g, const warpgroup_tile (&t)[2],
                                          int part, uint32_t stage, uint32_t full,
                                          const CUtensorMap *source)
{
    const bool is_f32 = g.epilogue.source_dtype == MUSEC_F32;
    uint32_t   bytes  = 0;
    for (int i = 0; i < 4; i++)
        bytes += has_subtile<P>(t[i / 2], is_f32 ? part : 2 * part + i % 2) ? SMEM_TILE : 0;
    mbarrier_arrive_expect_tx(full, bytes);
    for (int i = 0; i < 4; i++) {
        const int q = is_f32 ? part : 2 * part + i % 2, half = is_f32 ? i % 2 * (SUBTILE / 2) : 0;
        if (has_subtile<P>(t[i / 2], q))
            tma_load(stage + i * SMEM_TILE, source, col_of<P>(t[i / 2], q) + half,
                     row_of<P>(t[i / 2], q), t[i / 2].b, full);
    }
}

/* Loads all stages of a tile, by one warp. */
template <typename P, major A, major B>
static __device__ inline void load_tile(const gemm_args &g, const gemm_tile &tile,
                                        const gemm_pipeline &p, gemm_state *to,
                                        const CUtensorMap *a, const CUtensorMap *b,
                                        const CUtensorMap *source)
{
    const warpgroup_tile t[2]  = { P::part_of(g, tile, 0, p.rank), P::part_of(g, tile, 1, p.rank) };
    const int            k_end = g.problem.k_tiles, sources = k_end + g.epilogue.source_stages;
    const int            end = sources + (P::STORE_WARPS ? g.epilogue.store_stages - 1 : 0);
    const uint32_t       bytes =
        (uint32_t)(((t[0].across > 0) + (t[1].across > 0)) * P::DOWN + P::CLUSTER * 2) * SMEM_TILE;
    const uint32_t b_at = (2 * P::DOWN + 2 * p.rank) * SMEM_TILE;
#pragma unroll 1
    for (int s = 0; s < end; s++, ++*to) {
        const uint32_t full = p.full + MBARRIER * to->index, stage = p.stage(*to);
        wait_empty(p, *to);
        if (s < k_end) {
            mbarrier_arrive_expect_tx(full, bytes);
            load_k_tile<B_LINES, B, (P::CLUSTER > 1)>(
                stage + b_at, b, t[0].col + (int)p.rank * B_LINES, s * K_TILE, t[0].b, full);
            for (int i = 0; i < 2; i++)
                if (t[i].across > 0)
                    load_k_tile<P::DOWN * SUBTILE, A, false>(stage + i * P::DOWN * SMEM_TILE, a,
                                                             t[i].row, s * K_TILE, t[i].b, full);
        } else if (s < sources) {
            load_source<P>(g, t, s - k_end, stage, full, source);
        } else
            mbarrier_arrive_expect_tx(full, 0);
    }
}

/* ---- main loop ------------------------------------------------------------------------------- */

/* Releases a stage for `warps` warps.  Each consumer warp of all blocks that load to the stage has
 * to release it, or a store warp for the four of its consumer. */
template <typename P>
static __device__ inline void release_stage_if(const gemm_pipeline &p, uint32_t stage, bool pred,
                                               uint32_t warps = 1)
{
    if constexpr (P::CLUSTER > 1)
        mbarrier_arrive_cluster_if(p.cluster_empty + MBARRIER * stage, warps,
                                   pred && threadIdx.x % WARP < P::CLUSTER);
    else
        mbarrier_arrive_if(p.empty + MBARRIER * stage, pred && threadIdx.x % WARP == 0);
}

/* Adds the product to the accumulators.  A stage is released one k-tile later, when its MMAs are
 * certainly complete. */
template <typename P, typename T, major A, major B, int Across>
static __device__ inline void multiply_k_tiles(float (&d)[SUBTILES][32], const gemm_args &g,
                                               uint32_t warpgroup, const gemm_pipeline &p,
                                               gemm_state *from)
{
    uint32_t previous = 0;
    int      s        = 0;
#pragma unroll 1
    do {
        const uint32_t stage = p.stage(*from);
        uint64_t       a     = smem_descriptor(stage + warpgroup * P::DOWN * SMEM_TILE);
        uint64_t       b     = smem_descriptor(stage + 2 * P::DOWN * SMEM_TILE);
        wait_full(p, *from);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < K_TILE / 16; k++) {
#pragma unroll
            for (int i = 0; i < P::DOWN; i++)
                wgmma<T, Across * SUBTILE, A, B>(d[i * P::ACROSS], a + i * (SMEM_TILE / 16), b,
                                                 true);
            a += descriptor_k16(A);
            b += descriptor_k16(B);
        }
        wgmma_commit();
        wgmma_wait<1>();
        release_stage_if<P>(p, previous, s > 0);
        previous = from->index;
        ++*from;
    } while (++s < g.problem.k_tiles);
    wgmma_wait<0>();
    release_stage_if<P>(p, previous, true);
}

/* Releases the next n stages unread. */
template <typename P>
static __device__ inline void skip_stages(const gemm_pipeline &p, int n, gemm_state *from)
{
#pragma unroll 1
    for (; n > 0; n--, ++*from) {
        wait_full(p, *from);
        __syncwarp(); /* a lane that falls behind by a turn of the pipeline would miss a phase */
        release_stage_if<P>(p, from->index, true);
    }
}

/* Multiplies as many columns of subtiles as the tile has. */
template <typename P, typename T, major A, major B>
static __device__ inline void main_loop(float (&d)[SUBTILES][32], const gemm_args &g,
                                        const warpgroup_tile &t, uint32_t warpgroup,
                                        const gemm_pipeline &p, gemm_state *from)
{
    if constexpr (P::STORE_WARPS) {
        switch (t.across) {
        case 4: multiply_k_tiles<P, T, A, B, 4>(d, g, warpgroup, p, from); break;
        case 3: multiply_k_tiles<P, T, A, B, 3>(d, g, warpgroup, p, from); break;
        case 2: multiply_k_tiles<P, T, A, B, 2>(d, g, warpgroup, p, from); break;
        case 1: multiply_k_tiles<P, T, A, B, 1>(d, g, warpgroup, p, from); break;
        default: skip_stages<P>(p, g.problem.k_tiles, from); break;
        }
    } else
        multiply_k_tiles<P, T, A, B, P::ACROSS>(d, g, warpgroup, p, from);
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
