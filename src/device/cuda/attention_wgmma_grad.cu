/* attention_wgmma_grad.cu - the gradients of attention on Hopper: heads of 64 or 128 columns of 16
 * bits.
 *
 * With P = exp(z - lse) and D = <dO, O> of a row,
 *     dS = P (dO V^T - D),  dV = P^T dO,  dK = scale dS^T Q,  dQ = scale dS K.
 * One kernel has blocks for keys and walks over the queries that see them.  It works on the
 * transposes, so that weights come out as operands of dV and dK, and leaves dS^T in memory as it
 * has it in registers.  A second kernel has blocks for queries and adds up dQ, for which it needs
 * dS and K alone.  So nothing is made twice, and no sum is in two blocks: nothing is added in an
 * order that could change.  dS takes as many bytes as there are pairs, twice, rounded up to tiles;
 * where those of all heads would be too many, some heads are done after the others.
 *
 * Products are summed in float32; P and dS are rounded to the operands' dtype.  Single pairs are
 * looked at only in tiles that an edge (the diagonal, the window, a document) crosses.  Queries
 * beyond the end have a logsumexp of infinity, and so no weight.  A block of a chip of another kind
 * is empty here, known by the shared memory that it does not ask for. */
#include <cmath>

#include "device/cuda/attention_wgmma.cuh"
#include "device/cuda/tensor_map.cuh"

enum {
    STAGES          = 4,
    KEY_GROUPS      = 2, /* warpgroups of a block for keys, a tile of keys each */
    KEYS            = KEY_GROUPS * SIDE,
    KEY_WORKERS     = KEY_GROUPS * GROUP,
    KEY_THREADS     = KEY_WORKERS + GROUP, /* one warp of the last warpgroup loads */
    STATS           = 2 * SIDE * 4,        /* bytes of logsumexps and D of a tile of queries */
    QUERY_GROUPS    = 2,
    QUERIES         = QUERY_GROUPS * SIDE,
    QUERY_THREADS   = QUERY_GROUPS * GROUP,
    QUERY_STAGES    = 3,
    PREPARE_THREADS = 256,
    PREPARE_BLOCKS  = 1024,  /* of a head, at most */
    HEADS_MOST      = 65535, /* a grid has no more in its second direction */
    CHUNKS_MOST     = 64,    /* of heads, one after the other */
};

static const size_t DS_MOST = (size_t)1 << 30; /* bytes */

struct grad_args {
    attn_job j;            /* its window is no more than what a query sees at most */
    float    rate;         /* logits in base 2 of products */
    int      first, heads; /* of the heads: those that are done now */
    int      tiles;        /* of rows */
    int      reach;        /* tiles of queries that one of keys is seen by, at most */
    float   *lse, *delta;  /* (heads x tiles x SIDE), lse in base 2 */
    int     *last;         /* (rows) the last query that sees a key */
    int     *taken;        /* blocks of keys that were begun */
    uint4   *ds;           /* (heads now x tiles of keys x reach) tiles of fragments of dS^T */
};

/* The tile of dS^T of these tiles of keys and queries */
static __device__ inline char *weights_at(const grad_args &g, int head, int keys, int queries)
{
    const int64_t tile = ((int64_t)head * g.tiles + keys) * g.reach + (queries - keys);
    return (char *)g.ds + tile * WEIGHTS;
}

/* ---- D, and who sees a key last -------------------------------------------------------------- */

template <typename T, int HEAD>
static __global__ void prepare_k(const __grid_constant__ grad_args g, int *taken)
{
    constexpr int   LANES = HEAD / VECTOR, AT_ONCE = 4; /* lanes of a row; rows of a thread */
    constexpr int   EACH = PREPARE_THREADS / LANES, ROWS = EACH * AT_ONCE; /* of a block */
    const attn_job &j    = g.j;
    const int       lane = (int)threadIdx.x % LANES, mine = (int)threadIdx.x / LANES;
    const int       head = (int)blockIdx.y, end = g.tiles * SIDE;
    for (int first = (int)blockIdx.x * ROWS; first < end; first += (int)gridDim.x * ROWS) {
        uint4 a[AT_ONCE], b[AT_ONCE];
#pragma unroll
        for (int n = 0; n < AT_ONCE; n++) {
            const int64_t row = first + n * EACH + mine;
            a[n] = b[n] = make_uint4(0, 0, 0, 0);
            if (row >= j.rows) continue;
            a[n] = *(const uint4 *)((const T *)j.dout.data + head * j.dout.stride +
                                    row * j.dout.ld + lane * VECTOR);
            b[n] = *(const uint4 *)((const T *)j.out.data + head * j.out.stride + row * j.out.ld +
                                    lane * VECTOR);
        }
#pragma unroll
        for (int n = 0; n < AT_ONCE; n++) {
            const int row = first + n * EACH + mine;
            float     x[VECTOR], y[VECTOR], sum = 0.0f, lse = CUDART_INF_F;
            load_vector(&a[n], 0, j.dtype, x);
            load_vector(&b[n], 0, j.dtype, y);
#pragma unroll
            for (int c = 0; c < VECTOR; c++)
                sum += x[c] * y[c];
#pragma unroll
            for (int half = LANES / 2; half > 0; half /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, half);
            if (lane != 0 || row >= end) continue;
            if (row < j.rows) lse = ((const float *)j.lse.data)[head * j.lse.stride + row] * LOG2_E;
            g.delta[(int64_t)head * end + row] = sum;
            g.lse[(int64_t)head * end + row]   = lse;
        }
    }
    if (head > 0) return;
    const int me = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    for (int row = me; row < j.rows; row += (int)(gridDim.x * blockDim.x))
        g.last[row] = last_query(j, row);
    if (me < CHUNKS_MOST) taken[me] = 0;
}

/* ---- dK and dV ------------------------------------------------------------------------------- */

template <int HEAD> struct by_key { /* shared memory, in bytes: K, V, stages of Q and dO */
    static constexpr int TILE  = tile_of<HEAD>::BYTES;
    static constexpr int V     = KEY_GROUPS * TILE;
    static constexpr int RING  = 2 * V;
    static constexpr int STAGE = 2 * TILE;
    static constexpr int NOTES = RING + STAGES * STAGE;         /* STATS of each stage */
    static constexpr int BYTES = NOTES + STAGES * STATS + 1024; /* to begin at a multiple of it */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct cursor { /* in a ring; uses of a stage have parity 0, 1, 0, ... */
    uint32_t stage, parity;
};

template <int N> static __device__ inline void advance(cursor *at)
{
    at->stage++;
    if (at->stage == N) at->stage = 0, at->parity ^= 1u;
}

struct
    key_block { /* what a block works on; tiles of queries count from the block's own first row */
    int item;   /* head + heads times block; -1: there is no more */
    int tiles;  /* of queries */
    int end[KEY_GROUPS];   /* a warpgroup's: those from its number on, to this one */
    int clean[KEY_GROUPS]; /* no edge crosses those after its first and before this one */
};

struct key_room {                 /* addresses in shared memory */
    uint32_t memory, full, empty; /* of the barriers: the first */
    uint32_t own_full, own_empty; /* K and V */
    uint32_t more;                /* of each thread's keys: see hide_pairs */
};

static __device__ inline key_block next_keys(const grad_args &g)
{
    const int blocks = (g.tiles - 1) / KEY_GROUPS + 1;
    key_block b      = {};
    int       n      = 0;
    if (threadIdx.x % WARP == 0) n = atomicAdd(g.taken, 1);
    n      = __shfl_sync(0xffffffffu, n, 0);
    b.item = n < blocks * g.heads ? n : -1;
    if (b.item < 0) return b;
    const int first = n / g.heads * KEYS, rows = g.j.rows;
    b.tiles = g.last[min(first + KEYS, rows) - 1] / SIDE - first / SIDE + 1;
#pragma unroll
    for (int i = 0; i < KEY_GROUPS; i++) {
        const int mine = first + i * SIDE;
        b.end[i] = b.clean[i] = i;
        if (mine >= rows) continue;
        b.end[i]   = g.last[min(mine + SIDE, rows) - 1] / SIDE - first / SIDE + 1;
        b.clean[i] = (g.last[mine] + 1) / SIDE - first / SIDE;
    }
    return b;
}

/* The warp that loads: the whole of it, so that operands are known to be the same. */
template <int HEAD>
static __device__ inline void load_for_keys(const grad_args &g, const key_room &r, key_block *tell,
                                            const CUtensorMap *q, const CUtensorMap *k,
                                            const CUtensorMap *v, const CUtensorMap *dout)
{
    typedef by_key<HEAD> at;
    cursor               to = { 0, 0 };
    for (uint32_t parity = 1;; parity ^= 1u) {
        const key_block b = next_keys(g);
        barrier_wait(r.own_empty, parity);
        if (threadIdx.x % WARP == 0) tell[parity ^ 1u] = b;
        __syncwarp();
        barrier_expect(r.own_full, b.item < 0 ? 0 : 2 * at::V);
        if (b.item < 0) return;
        const int first = b.item / g.heads * KEYS, head = g.first + b.item % g.heads;
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
 * warpgroup's first key; more: of the thread's two keys, 8 rows apart, queries after its own that
 * see it */
static __device__ inline void hide_pairs(float (&s)[32], int before, uint2 more, float nothing)
{
    const int thread = (int)thread_again() % GROUP, lane = thread % WARP;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int low  = before + thread / WARP * 16 + h * 8 + lane / 4 - lane % 4 * 2;
        const int most = (int)(h == 0 ? more.x : more.y);
#pragma unroll
        for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int after = 8 * j + e - low;
                if (after < 0 || after > most) s[4 * j + 2 * h + e] = nothing;
            }
    }
}

/* Products become weights P^T, and so fragments. */
template <typename T>
static __device__ inline void weigh(float (&s)[32], uint32_t (&p)[FRAGMENTS][4], float rate,
                                    uint32_t lse)
{
#pragma unroll
    for (int j = 0; j < SIDE / 8; j++) {
        const float2 base = load_pair(lse + j * 32);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *at               = &s[4 * j + 2 * h];
            at[0]                   = exp2_fast(fmaf(rate, at[0], -base.x));
            at[1]                   = exp2_fast(fmaf(rate, at[1], -base.y));
            p[j / 2][j % 2 * 2 + h] = pack<T>(at[0], at[1]);
        }
    }
}

/* dS^T = P^T (dP^T - D) */
template <typename T>
static __device__ inline void weigh_grad(const float (&p)[32], const float (&dp)[32],
                                         uint32_t (&ds)[FRAGMENTS][4], uint32_t delta)
{
#pragma unroll
    for (int j = 0; j < SIDE / 8; j++) {
        const float2 base = load_pair(delta + j * 32);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int at = 4 * j + 2 * h;
            ds[j / 2][j % 2 * 2 + h] =
                pack<T>(p[at] * (dp[at] - base.x), p[at + 1] * (dp[at + 1] - base.y));
        }
    }
}

/* Each warp tells. */
static __device__ inline void give_back(uint32_t barrier, bool does)
{
    barrier_arrive(barrier, does && threadIdx.x % WARP == 0);
}

/* Stages that a warpgroup has no use for come and go. */
template <int N>
static __device__ inline void pass_by(uint32_t full, uint32_t empty, cursor *from, int n)
{
#pragma unroll 1
    for (; n > 0; n--, advance<N>(from)) {
        barrier_wait(full + 8 * from->stage, from->parity);
        give_back(empty + 8 * from->stage, true);
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

/* A warpgroup's tiles of queries, one at least.  Some products are under way whenever weights are
 * made: dO V^T while P is, P^T dO while dS is.
 * Registers are what there is least of: what is cheap to make again is. */
template <typename T, int HEAD>
static __device__ inline void walk_queries(float (&dk)[HEAD / 2], float (&dv)[HEAD / 2],
                                           const grad_args &g, const key_room &r, int group,
                                           const key_block *told, uint4 *ds_to, cursor *from)
{
    typedef by_key<HEAD> at;
    const uint32_t       own = r.memory + group * at::TILE;
    uint32_t             p[FRAGMENTS][4], ds[FRAGMENTS][4];
    float                s[32] = {}, dp[32] = {};
    barrier_wait(r.full + 8 * from->stage, from->parity);
    begin_queries<T, HEAD>(s, dp, own, r.memory + at::RING + from->stage * at::STAGE);
#pragma unroll 1
    for (int t = group;; t++) {
        const uint32_t stage = r.memory + at::RING + from->stage * at::STAGE;
        const uint32_t notes = r.memory + at::NOTES + from->stage * STATS;
        const int      end   = told->end[group];
        products_wait<1>();
        arrived(s);
        if (t == group || t >= told->clean[group])
            hide_pairs(s, (group - t) * SIDE, load_two(r.more + thread_again() * 8),
                       copysignf(CUDART_INF_F, -g.rate));
        weigh<T>(s, p, g.rate, notes + thread_again() % 4 * 8);
        settled(p);
        products_begin();
        blend_tile<T>(dv, p, stage + at::TILE, t > group);
        products_commit();
        products_wait<1>();
        arrived(dp);
        give_back(r.own_empty, t + 1 == end);
        weigh_grad<T>(s, dp, ds, notes + STATS / 2 + thread_again() % 4 * 8);
        settled(ds);
        products_begin();
        blend_tile<T>(dk, ds, stage, t > group);
        products_commit();
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++)
            ds_to[f * GROUP] = make_uint4(ds[f][0], ds[f][1], ds[f][2], ds[f][3]);
        ds_to += WEIGHTS / 16;
        products_wait<0>(); /* else there are not enough registers */
        give_back(r.empty + 8 * from->stage, true);
        advance<STAGES>(from);
        if (t + 1 == end) break;
        barrier_wait(r.full + 8 * from->stage, from->parity);
        begin_queries<T, HEAD>(s, dp, own, r.memory + at::RING + from->stage * at::STAGE);
    }
    arrived(dk), arrived(dv);
}

template <typename T, int HEAD>
static __device__ inline void make_keys(const grad_args &g, const key_room &r,
                                        const key_block *tell, int group)
{
    cursor from         = { 0, 0 };
    float  dk[HEAD / 2] = {}, dv[HEAD / 2] = {};
    for (uint32_t parity = 0;; parity ^= 1u) {
        const key_block *told = tell + parity;
        barrier_wait(r.own_full, parity);
        if (told->item < 0) return;
        if (told->end[group] == group) { /* all of its keys are beyond the end */
            give_back(r.own_empty, true);
            pass_by<STAGES>(r.full, r.empty, &from, told->tiles);
            continue;
        }
        const uint32_t thread = threadIdx.x % GROUP;
        const int      mine   = told->item / g.heads * KEYS + group * SIDE;
        const int      key    = mine + (int)(thread / WARP * 16 + thread % WARP / 4);
        store_two(r.more + threadIdx.x * 8, key < g.j.rows ? g.last[key] - key : -1,
                  key + 8 < g.j.rows ? g.last[key + 8] - key - 8 : -1);
        pass_by<STAGES>(r.full, r.empty, &from, group);
        walk_queries<T, HEAD>(
            dk, dv, g, r, group, told,
            (uint4 *)weights_at(g, told->item % g.heads, mine / SIDE, mine / SIDE) + thread, &from);
        pass_by<STAGES>(r.full, r.empty, &from, told->tiles - told->end[group]);
        const int head = told->item % g.heads, row = told->item / g.heads * KEYS + group * SIDE;
        store_tile<T>(dk, (float)g.j.scale, g.j.dk, g.first + head, row, g.j.rows);
        store_tile<T>(dv, 1.0f, g.j.dv, g.first + head, row, g.j.rows);
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
    __shared__ key_block    tell[2];
    __shared__ uint2        more[KEY_WORKERS];
    const uint32_t          warp  = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);
    const uint32_t          group = warp / WARPS;
    const key_room          r     = { (shared_address(memory) + 1023u) / 1024 * 1024,
                                      shared_address(barriers),
                                      shared_address(barriers + STAGES),
                                      shared_address(barriers + 2 * STAGES),
                                      shared_address(barriers + 2 * STAGES + 1),
                                      shared_address(more) };
    if (threadIdx.x == KEY_WORKERS) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(r.full + 8 * s, 1);
            barrier_init(r.empty + 8 * s, KEY_WORKERS / WARP);
        }
        barrier_init(r.own_full, 1);
        barrier_init(r.own_empty, KEY_WORKERS / WARP);
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

/* ---- dQ -------------------------------------------------------------------------------------- */

template <int HEAD> struct by_query { /* a stage has K and a tile of dS^T for each warpgroup */
    static constexpr int TILE  = tile_of<HEAD>::BYTES;
    static constexpr int STAGE = TILE + QUERY_GROUPS * WEIGHTS;
    static constexpr int BYTES = QUERY_STAGES * STAGE + 1024;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct query_block {
    int head;   /* of those that are done now */
    int tile;   /* the first */
    int groups; /* that have queries */
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
            0xffffffffu, i < b.groups ? first_key(g.j, (b.tile + i) * SIDE) / SIDE : g.tiles, 0);
    return b;
}

/* first[i] of a number that is not known when compiled */
static __device__ inline int first_of(const query_block &b, int i)
{
    int first = b.first[0];
#pragma unroll
    for (int n = 1; n < QUERY_GROUPS; n++)
        if (i == n) first = b.first[n];
    return first;
}

/* Has warpgroup i any use for a tile of keys? */
static __device__ inline bool uses(const query_block &b, int i, int keys)
{
    return keys >= b.first[i] && keys <= b.tile + i;
}

struct query_room {               /* addresses in shared memory */
    uint32_t memory, full, empty; /* of the barriers: the first */
};

/* By a whole warp. */
template <int HEAD>
static __device__ inline void load_keys(const grad_args &g, const query_block &b,
                                        const query_room &r, uint32_t stage, int keys,
                                        const CUtensorMap *k)
{
    typedef by_query<HEAD> at;
    const uint32_t         to = r.memory + stage * at::STAGE, full = r.full + 8 * stage;
    int                    tiles = 0;
#pragma unroll
    for (int i = 0; i < QUERY_GROUPS; i++)
        tiles += uses(b, i, keys);
    barrier_expect(full, (uint32_t)(at::TILE + tiles * WEIGHTS));
#pragma unroll
    for (int i = 0; i < QUERY_GROUPS; i++)
        if (uses(b, i, keys))
            load_bytes(to + at::TILE + i * WEIGHTS, weights_at(g, b.head, keys, b.tile + i),
                       WEIGHTS, full);
    load_tile<HEAD>(to, k, keys * SIDE, g.first + b.head, full);
}

/* The fragments of dS, 16 keys each, of a warp's 16 queries, from those of dS^T. */
static __device__ inline void turn_weights(uint32_t (&ds)[FRAGMENTS][4], uint32_t tile)
{
    const uint32_t thread = thread_again();
    tile += (thread % GROUP / WARP * WARPS * WARP + thread % WARP) * 16;
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const uint4 was = load_four(tile + f * WARP * 16);
        ds[f][0]        = turned(was.x);
        ds[f][1]        = turned(was.z);
        ds[f][2]        = turned(was.y);
        ds[f][3]        = turned(was.w);
    }
}

/* The first warp loads, too: with one more for that alone, each would have fewer registers. */
template <typename T, int HEAD>
static __device__ inline void make_queries(const grad_args &g, const query_block &b, uint32_t warp,
                                           const query_room &r, const CUtensorMap *k)
{
    typedef by_query<HEAD> at;
    const int              group = (int)warp / WARPS, own = b.tile + group;
    const int              end = b.tile + b.groups, mine = first_of(b, group);
    cursor                 from         = { 0, 0 };
    float                  dq[HEAD / 2] = {};
    uint32_t               ds[FRAGMENTS][4];
    for (int i = 0; warp == 0 && i < QUERY_STAGES && b.first[0] + i < end; i++)
        load_keys<HEAD>(g, b, r, (uint32_t)i, b.first[0] + i, k);
#pragma unroll 1
    for (int keys = b.first[0]; keys < end; keys++) {
        const int      later  = keys - 1 + QUERY_STAGES; /* in the stage before this one */
        const uint32_t before = from.stage == 0 ? QUERY_STAGES - 1 : from.stage - 1;
        if (warp == 0 && keys > b.first[0] && later < end) {
            barrier_wait(r.empty + 8 * before, from.parity ^ (uint32_t)(from.stage == 0));
            load_keys<HEAD>(g, b, r, before, later, k);
        }
        barrier_wait(r.full + 8 * from.stage, from.parity);
        if (keys >= mine && keys <= own) {
            const uint32_t stage = r.memory + from.stage * at::STAGE;
            turn_weights(ds, stage + at::TILE + group * WEIGHTS);
            settled(ds);
            products_begin();
            blend_tile<T>(dq, ds, stage, true);
            products_commit();
            products_wait<0>();
        }
        give_back(r.empty + 8 * from.stage, true);
        advance<QUERY_STAGES>(&from);
    }
    arrived(dq);
    store_tile<T>(dq, (float)g.j.scale, g.j.dq, g.first + b.head, own * SIDE, g.j.rows);
}

#endif

template <typename T, int HEAD>
static __global__ void __launch_bounds__(QUERY_THREADS, 2)
    query_grad_k(const __grid_constant__ grad_args g, const __grid_constant__ CUtensorMap k)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint4 memory[];
    __shared__ uint64_t     barriers[2 * QUERY_STAGES];
    const uint32_t          warp = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);
    const query_room r = { (shared_address(memory) + 1023u) / 1024 * 1024, shared_address(barriers),
                           shared_address(barriers + QUERY_STAGES) };
    const query_block b = query_block_of(g);
    if (threadIdx.x == 0) {
        for (int s = 0; s < QUERY_STAGES; s++) {
            barrier_init(r.full + 8 * s, 1);
            barrier_init(r.empty + 8 * s, QUERY_THREADS / WARP);
        }
        barrier_inits_done();
        prefetch_map(&k);
    }
    __syncthreads();
    make_queries<T, HEAD>(g, b, warp, r, &k);
#endif
}

/* ---- the host's side ------------------------------------------------------------------------- */

typedef void (*key_kernel)(grad_args, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap);
typedef void (*query_kernel)(grad_args, CUtensorMap);
typedef void (*prepare_kernel)(grad_args, int *);

struct kernel_set {
    prepare_kernel prepare;
    key_kernel     keys;
    query_kernel   queries;
    int            key_bytes, query_bytes; /* of shared memory */
};

template <typename T, int HEAD> static kernel_set set_of()
{
    return { prepare_k<T, HEAD>, key_grad_k<T, HEAD>, query_grad_k<T, HEAD>, by_key<HEAD>::BYTES,
             by_query<HEAD>::BYTES };
}

static kernel_set kernels_for(musec_dtype dtype, int64_t head)
{
    if (dtype == MUSEC_BF16)
        return head == 64 ? set_of<__nv_bfloat16, 64>() : set_of<__nv_bfloat16, 128>();
    return head == 64 ? set_of<__half, 64>() : set_of<__half, 128>();
}

static bool allow(const void *kernel, int bytes)
{
    cudaFuncAttributes is;
    return cudaFuncGetAttributes(&is, kernel) == cudaSuccess && is.sharedSizeBytes > 0 &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) ==
               cudaSuccess &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                cudaSharedmemCarveoutMaxShared) == cudaSuccess;
}

/* NULL if the kernels cannot be used. */
static encode_fn ask(const ms_cuda *c)
{
    if (c->capability != 90 || c->shared_bytes < by_key<128>::BYTES) return NULL;
    for (int i = 0; i < 4; i++) {
        const kernel_set of =
            kernels_for(i / 2 == 0 ? MUSEC_BF16 : MUSEC_F16, i % 2 == 0 ? 64 : 128);
        if (!allow((const void *)of.keys, of.key_bytes) ||
            !allow((const void *)of.queries, of.query_bytes)) {
            (void)cudaGetLastError();
            return NULL;
        }
    }
    return find_encode();
}

static bool is_served(const ms_mat &x)
{
    return !x.trans && x.places == NULL && (uintptr_t)x.data % 16 == 0 && x.ld % 8 == 0 &&
           x.ld > 0 && (x.count == 1 || (x.stride % 8 == 0 && x.stride > 0));
}

/* How far a query sees back, at most. */
static int64_t reach_of(const ms_cuda_attn *x)
{
    int64_t rows = x->q.rows - 1;
    if (x->a.longest > 0 && x->a.longest - 1 < rows) rows = x->a.longest - 1;
    return x->a.window < rows ? x->a.window : rows;
}

static int64_t tiles_of(const ms_cuda_attn *x) { return (x->q.rows - 1) / SIDE + 1; }

/* Tiles of queries that one of keys may be seen by. */
static int64_t reach_tiles(const ms_cuda_attn *x)
{
    const int64_t most = (SIDE - 1 + reach_of(x)) / SIDE + 1;
    return most < tiles_of(x) ? most : tiles_of(x);
}

static int64_t heads_at_once(const ms_cuda_attn *x)
{
    const size_t  each = (size_t)tiles_of(x) * (size_t)reach_tiles(x) * WEIGHTS; /* of a head */
    const int64_t most = (int64_t)(DS_MOST / each);
    if (most == 0) return 0;
    const int64_t times = (x->q.count - 1) / most + 1;
    return (x->q.count - 1) / times + 1;
}

bool ms_cuda_attention_wgmma_serves(ms_device *d, const ms_cuda_attn *x)
{
    const ms_mat *all[] = { &x->q, &x->k, &x->v, &x->out, &x->dout, &x->dq, &x->dk, &x->dv };
    ms_cuda      *c     = ms_cuda_of(d);
    const float   rate  = (float)(x->a.scale * 1.4426950408889634);
    if (x->q.dtype != MUSEC_BF16 && x->q.dtype != MUSEC_F16) return false;
    if ((x->q.cols != 64 && x->q.cols != 128) || x->a.softcap > 0.0) return false;
    if (x->q.rows > ATTN_ROWS_MOST || x->q.count > HEADS_MOST) return false;
    if (x->q.count > INT32_MAX / tiles_of(x)) return false;
    if (!std::isnormal(rate)) return false;
    for (int i = 0; i < 8; i++)
        if (!is_served(*all[i])) return false;
    const int64_t at_once = heads_at_once(x);
    if (at_once == 0 || (x->q.count - 1) / at_once >= CHUNKS_MOST) return false;
    if (!c->heads_asked) c->heads_encode = (void (*)(void))ask(c);
    c->heads_asked = true;
    return c->heads_encode != NULL;
}

static musec_status launch(ms_device *d, grad_args g, const kernel_set &of, int *taken, int at_once,
                           const CUtensorMap (&maps)[4])
{
    const cudaStream_t stream   = ms_cuda_of(d)->stream;
    const int          n_keys   = (g.tiles - 1) / KEY_GROUPS + 1;
    const int          n_blocks = (g.tiles - 1) / QUERY_GROUPS + 1;
    const int          wanted   = g.tiles < PREPARE_BLOCKS ? g.tiles : PREPARE_BLOCKS;
    of.prepare<<<dim3((unsigned)wanted, (unsigned)g.j.heads), PREPARE_THREADS, 0, stream>>>(g,
                                                                                            taken);
    musec_status st = launched(d, "attention_grad: delta");
    for (int chunk = 0; g.first < g.j.heads && st == MUSEC_OK; chunk++, g.first += at_once) {
        g.heads              = at_once < g.j.heads - g.first ? at_once : g.j.heads - g.first;
        g.taken              = taken + chunk;
        const int      items = n_keys * g.heads, most = ms_cuda_of(d)->processors;
        const unsigned here = (unsigned)(items < most ? items : most);
        of.keys<<<here, KEY_THREADS, of.key_bytes, stream>>>(g, maps[0], maps[1], maps[2], maps[3]);
        st = launched(d, "attention_grad: keys");
        if (st != MUSEC_OK) break;
        of.queries<<<(unsigned)(n_blocks * g.heads), QUERY_THREADS, of.query_bytes, stream>>>(
            g, maps[1]);
        st = launched(d, "attention_grad: queries");
    }
    return st;
}

musec_status ms_cuda_attention_wgmma_grad(ms_device *d, const ms_cuda_attn *x)
{
    const ms_mat   *of[4]  = { &x->q, &x->k, &x->v, &x->dout };
    const encode_fn encode = (encode_fn)ms_cuda_of(d)->heads_encode;
    const ms_mark   mark   = ms_arena_mark(&d->scratch);
    const size_t    tiles = (size_t)tiles_of(x), reach = (size_t)reach_tiles(x);
    const size_t    at_once = (size_t)heads_at_once(x);
    const size_t    stats   = (size_t)x->q.count * tiles * SIDE * sizeof(float);
    const size_t    bytes[] = { stats, stats, tiles * SIDE * sizeof(int), CHUNKS_MOST * sizeof(int),
                                at_once * tiles * reach * WEIGHTS };
    void           *room[5] = {};
    grad_args       g       = {};
    CUtensorMap     maps[4];
    musec_status    st = MUSEC_OK;
    for (int i = 0; i < 4; i++) /* what serves, the copy engine takes */
        if (!describe_boxes(encode, *of[i], SIDE, &maps[i]))
            return ms_fail(&d->error, MUSEC_EDEVICE, "%s: attention_grad: no tensor map", d->name);
    for (int i = 0; i < 5 && st == MUSEC_OK; i++)
        st = ms_scratch_bytes(d, bytes[i], &room[i]);
    if (st == MUSEC_OK) {
        g.j        = job_of(x);
        g.j.window = (int)reach_of(x);
        g.rate     = (float)(x->a.scale * 1.4426950408889634);
        g.tiles    = (int)tiles;
        g.reach    = (int)reach;
        g.lse      = (float *)room[0];
        g.delta    = (float *)room[1];
        g.last     = (int *)room[2];
        g.ds       = (uint4 *)room[4];
        st = launch(d, g, kernels_for(x->q.dtype, x->q.cols), (int *)room[3], (int)at_once, maps);
    }
    ms_arena_reset(&d->scratch, mark);
    return st;
}
