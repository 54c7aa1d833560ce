/* attention_wgmma_keys.cuh - of attention_wgmma_grad.cu: the kernel of dK and dV, which makes dS^T.
 *
 * A block has 128 keys of a head, a warpgroup 64 of them, and walks over the queries that see them
 * in tiles of 64 that one warp has the copy engine load, STAGES of them ahead.  There is one block
 * for each multiprocessor, which takes the next keys when it is done with some: their K and V are
 * on their way while the last ones' gradients are written.  Keys whose queries are fewest come last
 * where documents end, so that multiprocessors end together.
 *
 * S^T = K Q^T and dP^T = V dO^T, 64 keys by 64 queries, are accumulators of a warpgroup; P^T and
 * dS^T, rounded, are operands from registers of dV += P^T dO and dK += dS^T Q.  Weights never go by
 * way of shared memory, which the tensor cores need for themselves. */
#ifndef MS_DEVICE_CUDA_ATTENTION_WGMMA_KEYS_CUH
#define MS_DEVICE_CUDA_ATTENTION_WGMMA_KEYS_CUH

#include "device/cuda/attention_wgmma.cuh"

enum {
    STAGES      = 4,
    KEY_GROUPS  = 2, /* warpgroups of a block, a tile of keys each */
    KEYS        = KEY_GROUPS * SIDE,
    KEY_WORKERS = KEY_GROUPS * GROUP,
    KEY_THREADS = KEY_WORKERS + GROUP, /* one warp of the last warpgroup loads */
    STATS       = 2 * SIDE * 4,        /* bytes of logsumexps and D of a tile of queries */
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

/* What a block works on; tiles of queries count from the block's own first row. */
struct key_block {
    int head, first;       /* of those that are done now, -1: there is no more; the first key */
    int tiles;             /* of queries */
    int end[KEY_GROUPS];   /* a warpgroup's tiles: those from its number on, to this one */
    int clean[KEY_GROUPS]; /* no edge crosses those after its first and before this one */
};

struct key_notes { /* in shared memory, by the warp that loads for those that work */
    key_block block;
    int       more[KEYS]; /* queries after its own that see a key; -1: there is no such key */
};

struct key_room {                 /* addresses in shared memory */
    uint32_t memory, full, empty; /* of the barriers: the first */
    uint32_t own_full, own_empty; /* K and V */
};

static __device__ inline key_block next_keys(const grad_args &g)
{
    const int blocks = (g.tiles - 1) / KEY_GROUPS + 1, rows = g.j.rows;
    key_block b = { -1, 0, 0, {}, {} };
    int       n = 0;
    if (threadIdx.x % WARP == 0) n = atomicAdd(g.taken, 1);
    n = __shfl_sync(0xffffffffu, n, 0);
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

/* By all lanes of a warp. */
static __device__ inline void tell_keys(const grad_args &g, const key_block &b, key_notes *to)
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

/* The warp that loads: the whole of it, so that operands are known to be the same. */
template <int HEAD>
static __device__ inline void load_for_keys(const grad_args &g, const key_room &r, key_notes *tell,
                                            const CUtensorMap *q, const CUtensorMap *k,
                                            const CUtensorMap *v, const CUtensorMap *dout)
{
    typedef by_key<HEAD> at;
    cursor               to = { 0, 0 };
    for (uint32_t parity = 1;; parity ^= 1u) {
        const key_block b = next_keys(g);
        barrier_wait(r.own_empty, parity);
        tell_keys(g, b, tell + (parity ^ 1u));
        barrier_expect(r.own_full, b.head < 0 ? 0 : 2 * at::V);
        if (b.head < 0) return;
        const int first = b.first, head = g.first + b.head;
        for (int i = 0; i < KEY_GROUPS; i++)
            load_tile<HEAD>(r.memory + i * at::TILE, k, first + i * SIDE, head, r.own_full);
        for (int i = 0; i < KEY_GROUPS; i++)
            load_tile<HEAD>(r.memory + at::V + i * at::TILE, v, first + i * SIDE, head, r.own_full);
#pragma unroll 1
        for (int t = 0; t < b.tiles; t++, advance<STAGES>(&to)) {
            const uint32_t full  = r.full + 8 * to.stage;
            const uint32_t stage = r.memory + at::RING + to.stage * at::STAGE;
            const uint32_t notes = r.memory + at::NOTES + to.stage * STATS;
            const int      row   = first + t * SIDE;
            const int64_t  of    = (int64_t)head * g.tiles * SIDE + row;
            barrier_wait(r.empty + 8 * to.stage, to.parity ^ 1u);
            barrier_expect(full, at::STAGE + STATS);
            load_tile<HEAD>(stage, q, row, head, full);
            load_tile<HEAD>(stage + at::TILE, dout, row, head, full);
            load_bytes(notes, g.lse + of, STATS / 2, full);
            load_bytes(notes + STATS / 2, g.delta + of, STATS / 2, full);
        }
    }
}

/* Pairs that do not see each other get no weight.  before: from the tile's first query to the
 * warpgroup's first key; more: of its keys */
static __device__ inline void hide_pairs(float (&s)[32], int before, const int *more, uint32_t me,
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

/* What is kept of a thread's 16 queries of a tile: see place_in_tile. */
static __device__ inline void load_stats(float (&x)[16], uint32_t at)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint4 four = load_four(at + i * 16);
        x[4 * i]         = __uint_as_float(four.x);
        x[4 * i + 1]     = __uint_as_float(four.y);
        x[4 * i + 2]     = __uint_as_float(four.z);
        x[4 * i + 3]     = __uint_as_float(four.w);
    }
}

/* Products become weights P^T, and so fragments. */
template <typename T>
static __device__ inline void weigh(float (&s)[32], uint32_t (&p)[FRAGMENTS][4], float rate,
                                    const float (&lse)[16])
{
#pragma unroll
    for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *at               = &s[4 * j + 2 * h];
            at[0]                   = exp2_fast(fmaf(rate, at[0], -lse[2 * j]));
            at[1]                   = exp2_fast(fmaf(rate, at[1], -lse[2 * j + 1]));
            p[j / 2][j % 2 * 2 + h] = pack<T>(at[0], at[1]);
        }
}

/* dS^T = P^T (dP^T - D) */
template <typename T>
static __device__ inline void weigh_grad(const float (&p)[32], const float (&dp)[32],
                                         uint32_t (&ds)[FRAGMENTS][4], const float (&delta)[16])
{
#pragma unroll
    for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int at             = 4 * j + 2 * h;
            ds[j / 2][j % 2 * 2 + h] = pack<T>(p[at] * (dp[at] - delta[2 * j]),
                                               p[at + 1] * (dp[at + 1] - delta[2 * j + 1]));
        }
}

template <typename T, int HEAD>
static __device__ inline void begin_queries(float (&s)[32], float (&dp)[32], uint32_t own,
                                            uint32_t stage)
{
    typedef by_key<HEAD> at;
    products_begin();
    dot_tiles<T, HEAD>(s, own, stage);
    products_commit();
    dot_tiles<T, HEAD>(dp, own + at::V, stage + at::TILE);
    products_commit();
}

/* The two warpgroups take turns to give the tensor cores work, as long as both have tiles: while
 * one's products are made, the other makes weights.  Left to themselves they would do both at the
 * same time. */
static __device__ inline void take_turn(int group, bool does)
{
    group_sync_if(1 + group, KEY_WORKERS, does);
}

static __device__ inline void pass_turn(int group, bool does)
{
    group_arrive_if(1 + (group ^ 1), KEY_WORKERS, does);
}

/* A warpgroup's tiles of queries, one at least.  Turns are taken in the order of warpgroups, so
 * the first turn of warpgroup 0 waits for nobody, and nobody waits for the last one of warpgroup
 * 1.  The keys are given back behind the last turn: before it, warpgroup 0 might pass the first
 * turn of the next keys to a warpgroup 1 that has yet to take its last one of these, and both
 * would wait.  Loads from shared memory that come after products in the stream of instructions wait
 * until those are dispatched: so logsumexps are loaded before. */
template <typename T, int HEAD>
static __device__ inline void walk_queries(float (&dk)[HEAD / 2], float (&dv)[HEAD / 2],
                                           const grad_args &g, const key_room &r, int group,
                                           uint32_t me, const key_block &b, const int *sees,
                                           uint4 *ds_to, cursor *from)
{
    typedef by_key<HEAD> at;
    const uint32_t       own = r.memory + group * at::TILE;
    const int            end = b.end[group], clean = b.clean[group];
    uint32_t             p[FRAGMENTS][4], ds[FRAGMENTS][4];
    float                s[32] = {}, dp[32] = {}, stats[16];
    int                  more = min(b.end[0], b.end[1] - 1); /* tiles that both still have */
#pragma unroll 1
    for (int t = group; t < end; t++, more--) {
        const uint32_t stage = r.memory + at::RING + from->stage * at::STAGE;
        const uint32_t notes = r.memory + at::NOTES + from->stage * STATS + me % 4 * 64;
        barrier_wait(r.full + 8 * from->stage, from->parity);
        load_stats(stats, notes);
        take_turn(group, more > 0 && group + t > 0);
        begin_queries<T, HEAD>(s, dp, own, stage);
        pass_turn(group, more > 0);
        products_wait<1>();
        arrived(s);
        if (t == group || t >= clean)
            hide_pairs(s, (group - t) * SIDE, sees, me, copysignf(CUDART_INF_F, -g.rate));
        weigh<T>(s, p, g.rate, stats);
        settled(p);
        load_stats(stats, notes + STATS / 2);
        products_wait<0>();
        arrived(dp);
        weigh_grad<T>(s, dp, ds, stats);
        settled(ds);
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++)
            ds_to[f * GROUP] = make_uint4(ds[f][0], ds[f][1], ds[f][2], ds[f][3]);
        ds_to += WEIGHTS / 16;
        take_turn(group, more > 0);
        barrier_arrive(r.own_empty, t + 1 == end);
        products_begin();
        blend_tile<T>(dv, p, stage + at::TILE, t > group);
        blend_tile<T>(dk, ds, stage, t > group);
        products_commit();
        pass_turn(group, more > group);
        products_wait<0>();
        barrier_arrive(r.empty + 8 * from->stage, true);
        advance<STAGES>(from);
    }
    arrived(dk), arrived(dv);
}

template <typename T, int HEAD>
static __device__ inline void make_keys(const grad_args &g, const key_room &r,
                                        const key_notes *tell, int group)
{
    /* in a register: read anew between products, it would have to wait for them */
    const uint32_t me           = __shfl_sync(0xffffffffu, threadIdx.x % GROUP, threadIdx.x % WARP);
    cursor         from         = { 0, 0 };
    float          dk[HEAD / 2] = {}, dv[HEAD / 2] = {};
    for (uint32_t parity = 0;; parity ^= 1u) {
        const key_notes &told = tell[parity];
        const key_block &b    = told.block;
        barrier_wait(r.own_full, parity);
        if (b.head < 0) return;
        if (b.end[group] == group) { /* all of its keys are beyond the end */
            barrier_arrive(r.own_empty, true);
            pass_by<STAGES>(r.full, r.empty, &from, b.tiles);
            continue;
        }
        const int tile = b.first / SIDE + group;
        pass_by<STAGES>(r.full, r.empty, &from, group);
        walk_queries<T, HEAD>(dk, dv, g, r, group, me, b, told.more + group * SIDE,
                              (uint4 *)weights_at(g, b.head, tile, tile) + me, &from);
        pass_by<STAGES>(r.full, r.empty, &from, b.tiles - b.end[group]);
        const int head = g.first + b.head, row = b.first + group * SIDE;
        store_tile<T>(dk, (float)g.j.scale, g.j.dk, head, row, g.j.rows, me);
        store_tile<T>(dv, 1.0f, g.j.dv, head, row, g.j.rows, me);
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
    __shared__ key_notes    tell[2];
    const uint32_t          warp  = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);
    const uint32_t          group = warp / WARPS;
    const key_room r = { (shared_address(memory) + 1023u) / 1024 * 1024, shared_address(barriers),
                         shared_address(barriers + STAGES), shared_address(barriers + 2 * STAGES),
                         shared_address(barriers + 2 * STAGES + 1) };
    if (threadIdx.x == KEY_WORKERS) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(r.full + 8 * s, 1);
            barrier_init(r.empty + 8 * s, KEY_WORKERS);
        }
        barrier_init(r.own_full, 1);
        barrier_init(r.own_empty, KEY_WORKERS);
        barrier_inits_done();
        prefetch_map(&q), prefetch_map(&k), prefetch_map(&v), prefetch_map(&dout);
    }
    __syncthreads();
    if (group == KEY_GROUPS) {
        fewer_registers<24>();
        if (warp == KEY_WORKERS / WARP) load_for_keys<HEAD>(g, r, tell, &q, &k, &v, &dout);
    } else {
        more_registers<240>();
        make_keys<T, HEAD>(g, r, tell, (int)group);
    }
#endif
}

#endif
