/* attention_wgmma_keys.cuh - the kernel of attention_wgmma_grad.cu for dK and dV, which stores
 * dS^T.
 *
 * A block has 128 keys of a head, a warpgroup 64 of them, and walks over the queries that see them
 * in tiles of 64 that one warp has TMA load, up to STAGES ahead.  Blocks are persistent, one for
 * each multiprocessor, and take the next keys from a work counter: K and V of the next keys load
 * while the gradients of the last ones are stored.  Where documents end, keys that the fewest
 * queries see come last, so that multiprocessors finish together.
 *
 * S^T = K Q^T and dP^T = V dO^T, 64 keys by 64 queries, are accumulators of a warpgroup; P^T and
 * dS^T, rounded, are register operands of dV += P^T dO and dK += dS^T Q.  Weights never go through
 * shared memory, whose bandwidth the tensor cores need. */
#ifndef MS_DEVICE_CUDA_ATTENTION_WGMMA_KEYS_CUH
#define MS_DEVICE_CUDA_ATTENTION_WGMMA_KEYS_CUH

#include "device/cuda/attention_wgmma.cuh"

enum {
    STAGES      = 4,
    KEY_GROUPS  = 2, /* warpgroups of a block, a tile of keys each */
    KEYS        = KEY_GROUPS * SIDE,
    KEY_WORKERS = KEY_GROUPS * WARPGROUP,
    KEY_THREADS = KEY_WORKERS + WARPGROUP, /* one warp of the last warpgroup loads */
    STATS       = 2 * SIDE * 4,            /* bytes of logsumexps and D of a tile of queries */
};

template <int HEAD> struct by_key { /* shared memory, in bytes: K, V, stages of Q and dO */
    static constexpr int TILE  = tile_of<HEAD>::BYTES;
    static constexpr int V     = KEY_GROUPS * TILE;
    static constexpr int RING  = 2 * V;
    static constexpr int STAGE = 2 * TILE;
    static constexpr int NOTES = RING + STAGES * STAGE;         /* STATS of each stage */
    static constexpr int BYTES = NOTES + STAGES * STATS + 1024; /* to begin at a multiple of it */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* The keys that a block works on; tiles of queries are numbered from the block's first row. */
struct key_block {
    int head, first;       /* head of this launch, -1: there is no more work; first key */
    int tiles;             /* of queries */
    int end[KEY_GROUPS];   /* warpgroup i has the tiles i .. end[i] - 1 */
    int clean[KEY_GROUPS]; /* no edge crosses the tiles i + 1 .. clean[i] - 1 */
};

struct key_notes { /* in shared memory, from the producer warp to the consumers */
    key_block block;
    int       more[KEYS]; /* queries after its own row that see a key; -1: beyond the last key */
};

/* Addresses in shared memory: the pipeline of queries, and the mbarriers of K and V. */
struct key_smem : pipeline {
    uint32_t memory, keys_full, keys_empty;
};

static __device__ inline key_block next_keys(const grad_args &g)
{
    const int blocks = (g.tiles - 1) / KEY_GROUPS + 1, rows = g.j.rows;
    key_block b = { -1, 0, 0, {}, {} };
    int       n = 0;
    if (threadIdx.x % WARP == 0) n = atomicAdd(g.work_counter, 1);
    n = __shfl_sync(ALL_LANES, n, 0);
    if (n >= blocks * g.heads) return b;
    b.head  = n % g.heads;
    b.first = n / g.heads * KEYS;
    b.tiles = g.last[min(b.first + KEYS, rows) - 1] / SIDE - b.first / SIDE + 1;
#pragma unroll
    for (int i = 0; i < KEY_GROUPS; i++) {
        const int mine = b.first + i * SIDE;
        b.end[i] = b.clean[i] = i;
        if (mine >= rows) continue;
        b.end[i]   = g.last[min(mine + SIDE, rows) - 1] / SIDE - b.first / SIDE + 1;
        b.clean[i] = (g.last[mine] + 1) / SIDE - b.first / SIDE;
    }
    return b;
}

/* Passes the next keys to the consumers, by all lanes of a warp. */
static __device__ inline void publish_keys(const grad_args &g, const key_block &b, key_notes *to)
{
    const int lane = (int)threadIdx.x % WARP;
    if (lane == 0) to->block = b;
#pragma unroll
    for (int i = lane; i < KEYS; i += WARP) {
        const int key = b.first + i;
        to->more[i]   = b.head >= 0 && key < g.j.rows ? g.last[key] - key : -1;
    }
    __syncwarp();
}

/* The producer, by a whole warp, so that the compiler knows operands to be the same in all
 * lanes. */
template <int HEAD>
static __device__ inline void load_for_keys(const grad_args &g, const key_smem &r,
                                            key_notes *published, const CUtensorMap *q,
                                            const CUtensorMap *k, const CUtensorMap *v,
                                            const CUtensorMap *dout)
{
    typedef by_key<HEAD>   at;
    pipeline_state<STAGES> to = { 0, 0 };
    for (uint32_t phase = 1;; phase ^= 1u) {
        const key_block b = next_keys(g);
        mbarrier_wait(r.keys_empty, phase);
        publish_keys(g, b, published + (phase ^ 1u));
        mbarrier_arrive_expect_tx(r.keys_full, b.head < 0 ? 0 : 2 * at::V);
        if (b.head < 0) return;
        const int first = b.first, head = g.first + b.head;
        for (int i = 0; i < KEY_GROUPS; i++)
            load_tile<HEAD>(r.memory + i * at::TILE, k, first + i * SIDE, head, r.keys_full);
        for (int i = 0; i < KEY_GROUPS; i++)
            load_tile<HEAD>(r.memory + at::V + i * at::TILE, v, first + i * SIDE, head,
                            r.keys_full);
#pragma unroll 1
        for (int t = 0; t < b.tiles; t++, ++to) {
            const uint32_t full  = r.full + MBARRIER * to.index;
            const uint32_t stage = r.memory + at::RING + to.index * at::STAGE;
            const uint32_t notes = r.memory + at::NOTES + to.index * STATS;
            const int      row   = first + t * SIDE;
            const int64_t  of    = (int64_t)head * g.tiles * SIDE + row;
            wait_empty(r, to);
            mbarrier_arrive_expect_tx(full, at::STAGE + STATS);
            load_tile<HEAD>(stage, q, row, head, full);
            load_tile<HEAD>(stage + at::TILE, dout, row, head, full);
            tma_load_bytes(notes, g.lse + of, STATS / 2, full);
            tma_load_bytes(notes + STATS / 2, g.delta + of, STATS / 2, full);
        }
    }
}

/* Sets products of pairs that do not see each other to `nothing`.  before: rows from the tile's
 * first query to the warpgroup's first key; more: of its keys */
static __device__ inline void apply_mask(float (&s)[32], int before, const int *more, uint32_t me,
                                         float nothing)
{
    const int lane = (int)me % WARP;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int key  = (int)me / WARP * 16 + h * 8 + lane / 4;
        const int most = more[key], low = before + key - lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int after = 8 * j + e - low;
                if (after < 0 || after > most) s[4 * j + 2 * h + e] = nothing;
            }
    }
}

/* Loads logsumexps or D of a thread's 16 queries of a tile (place_in_tile). */
static __device__ inline void load_stats(float (&x)[16], uint32_t at)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint4 four = load_shared_b32x4(at + i * 16);
        x[4 * i]         = __uint_as_float(four.x);
        x[4 * i + 1]     = __uint_as_float(four.y);
        x[4 * i + 2]     = __uint_as_float(four.z);
        x[4 * i + 3]     = __uint_as_float(four.w);
    }
}

/* Turns logits into weights P^T and their fragments. */
template <typename T>
static __device__ inline void softmax(float (&s)[32], uint32_t (&p)[FRAGMENTS][4], float rate,
                                      const float (&lse)[16])
{
#pragma unroll
    for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *at               = &s[4 * j + 2 * h];
            at[0]                   = exp2_approx(fmaf(rate, at[0], -lse[2 * j]));
            at[1]                   = exp2_approx(fmaf(rate, at[1], -lse[2 * j + 1]));
            p[j / 2][j % 2 * 2 + h] = pack_pair<T>(at[0], at[1]);
        }
}

/* dS^T = P^T (dP^T - D) */
template <typename T>
static __device__ inline void softmax_grad(const float (&p)[32], const float (&dp)[32],
                                           uint32_t (&ds)[FRAGMENTS][4], const float (&delta)[16])
{
#pragma unroll
    for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int at             = 4 * j + 2 * h;
            ds[j / 2][j % 2 * 2 + h] = pack_pair<T>(p[at] * (dp[at] - delta[2 * j]),
                                                    p[at + 1] * (dp[at + 1] - delta[2 * j + 1]));
        }
}

template <typename T, int HEAD>
static __device__ inline void issue_qk_mmas(float (&s)[32], float (&dp)[32], uint32_t own,
                                            uint32_t stage)
{
    typedef by_key<HEAD> at;
    wgmma_fence();
    qk_mma<T, HEAD>(s, own, stage);
    wgmma_commit();
    qk_mma<T, HEAD>(dp, own + at::V, stage + at::TILE);
    wgmma_commit();
}

/* The two warpgroups take turns in issuing MMAs, as long as both have tiles: while one's MMAs run,
 * the other computes weights.  Without turns they would both do the same at the same time. */
static __device__ inline void wait_turn(int group, bool does)
{
    named_barrier_sync_if(1 + group, KEY_WORKERS, does);
}

static __device__ inline void pass_turn(int group, bool does)
{
    named_barrier_arrive_if(1 + (group ^ 1), KEY_WORKERS, does);
}

/* Walks over a warpgroup's tiles of queries, one at least.  Turns alternate from warpgroup 0 on, so
 * the first turn of warpgroup 0 waits for none, and none waits for the last one of warpgroup
 * 1.  The keys are released after the last turn: earlier, warpgroup 0 could pass the first turn of
 * the next keys to a warpgroup 1 that has yet to take its last one of these, a deadlock.  Loads
 * from shared memory that follow MMAs wait until those are dispatched, so logsumexps are loaded
 * before. */
template <typename T, int HEAD>
static __device__ inline void walk_queries(float (&dk)[HEAD / 2], float (&dv)[HEAD / 2],
                                           const grad_args &g, const key_smem &r, int group,
                                           uint32_t me, const key_block &b, const int *sees,
                                           uint4 *ds_to, pipeline_state<STAGES> *from)
{
    typedef by_key<HEAD> at;
    const uint32_t       own = r.memory + group * at::TILE;
    const int            end = b.end[group], clean = b.clean[group];
    uint32_t             p[FRAGMENTS][4], ds[FRAGMENTS][4];
    float                s[32] = {}, dp[32] = {}, stats[16];
    int                  more = min(b.end[0], b.end[1] - 1); /* tiles left to both */
#pragma unroll 1
    for (int t = group; t < end; t++, more--) {
        const uint32_t stage = r.memory + at::RING + from->index * at::STAGE;
        const uint32_t notes = r.memory + at::NOTES + from->index * STATS + me % 4 * 64;
        wait_full(r, *from);
        load_stats(stats, notes);
        wait_turn(group, more > 0 && group + t > 0);
        issue_qk_mmas<T, HEAD>(s, dp, own, stage);
        pass_turn(group, more > 0);
        wgmma_wait<1>();
        fence_accumulators(s);
        if (t == group || t >= clean)
            apply_mask(s, (group - t) * SIDE, sees, me, copysignf(CUDART_INF_F, -g.rate));
        softmax<T>(s, p, g.rate, stats);
        fence_fragments(p);
        load_stats(stats, notes + STATS / 2);
        wgmma_wait<0>();
        fence_accumulators(dp);
        softmax_grad<T>(s, dp, ds, stats);
        fence_fragments(ds);
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++)
            ds_to[f * WARPGROUP] = make_uint4(ds[f][0], ds[f][1], ds[f][2], ds[f][3]);
        ds_to += WEIGHTS / 16;
        wait_turn(group, more > 0);
        mbarrier_arrive_if(r.keys_empty, t + 1 == end);
        wgmma_fence();
        pv_mma<T>(dv, p, stage + at::TILE, t > group);
        pv_mma<T>(dk, ds, stage, t > group);
        wgmma_commit();
        pass_turn(group, more > group);
        wgmma_wait<0>();
        release_stage(r, from->index);
        ++*from;
    }
    fence_accumulators(dk), fence_accumulators(dv);
}

template <typename T, int HEAD>
static __device__ inline void make_keys(const grad_args &g, const key_smem &r,
                                        const key_notes *published, int group)
{
    /* kept in a register by the shuffle: a read of threadIdx between MMAs would wait for them */
    const uint32_t         me = __shfl_sync(ALL_LANES, threadIdx.x % WARPGROUP, threadIdx.x % WARP);
    pipeline_state<STAGES> from         = { 0, 0 };
    float                  dk[HEAD / 2] = {}, dv[HEAD / 2] = {};
    for (uint32_t phase = 0;; phase ^= 1u) {
        const key_notes &current = published[phase];
        const key_block &b       = current.block;
        mbarrier_wait(r.keys_full, phase);
        if (b.head < 0) return;
        if (b.end[group] == group) { /* its keys are all beyond the end */
            mbarrier_arrive(r.keys_empty);
            skip_stages(r, &from, b.tiles);
            continue;
        }
        const int tile = b.first / SIDE + group;
        skip_stages(r, &from, group);
        walk_queries<T, HEAD>(dk, dv, g, r, group, me, b, current.more + group * SIDE,
                              (uint4 *)weights_at(g, b.head, tile, tile) + me, &from);
        skip_stages(r, &from, b.tiles - b.end[group]);
        const int   head = g.first + b.head, row = b.first + group * SIDE;
        const float scale[2] = { (float)g.j.scale, (float)g.j.scale }, one[2] = { 1.0f, 1.0f };
        store_tile<T>(dk, scale, g.j.dk, head, row, g.j.rows, me);
        store_tile<T>(dv, one, g.j.dv, head, row, g.j.rows, me);
    }
}

#endif

template <typename T, int HEAD>
static __global__ void __launch_bounds__(KEY_THREADS, 1)
    key_grad_k(const __grid_constant__ grad_args g, const __grid_constant__ CUtensorMap q,
               const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v,
               const __grid_constant__ CUtensorMap dout)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint4 memory[];
    __shared__ uint64_t     barriers[2 * STAGES + 2];
    __shared__ key_notes    published[2];
    const uint32_t          warp  = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0);
    const uint32_t          group = warp / WARPGROUP_WARPS;
    const uint32_t          full = smem_address(barriers), more = full + MBARRIER * 2 * STAGES;
    const key_smem          r = {
                 { full, full + MBARRIER * STAGES }, smem_tiles(memory), more, more + MBARRIER
    };
    if (threadIdx.x == KEY_WORKERS) {
        pipeline_init(r, STAGES, KEY_WORKERS);
        mbarrier_init(r.keys_full, 1);
        mbarrier_init(r.keys_empty, KEY_WORKERS);
        mbarrier_init_fence();
        prefetch_tensor_map(&q), prefetch_tensor_map(&k), prefetch_tensor_map(&v),
            prefetch_tensor_map(&dout);
    }
    __syncthreads();
    if (group == KEY_GROUPS) {
        setmaxnreg_dec<24>();
        if (warp == KEY_WORKERS / WARP) load_for_keys<HEAD>(g, r, published, &q, &k, &v, &dout);
    } else {
        setmaxnreg_inc<240>();
        make_keys<T, HEAD>(g, r, published, (int)group);
    }
#endif
}

#endif
