/* attention_wgmma.cu - attention on Hopper: heads of 64 or 128 columns of 16 bits.
 *
 * A block has QUERIES queries of a head, a warpgroup 64 of them, and walks over the keys that they
 * see in tiles of KEYS, from the last to the first:
 *     S = Q K^T,  P = exp2(rate (S - m)),  O <- O exp2(rate (m' - m)) + P V,
 * m being the largest product so far of a row and m' the one before; but m stays as it is until a
 * weight would exceed 2^8, so that O is hardly ever scaled.  Products are summed in float32, P is
 * rounded to the operands' dtype and stays in registers.  The tensor cores work while
 * weights are computed: a warpgroup issues S of the next keys together with P V of the last ones,
 * and the other warpgroup's products run too.  That the two take turns, as in the gradient, gains
 * nothing here.
 *
 * Blocks are persistent, one for each multiprocessor.  An item of work is QUERIES queries of a
 * head; none is split, so the order of additions is fixed, whichever block takes it.  One warp
 * takes the items and has TMA load Q, K and V, STAGES tiles ahead.  The mask is applied
 * only in tiles that an edge (the diagonal, the window, a document, the end) crosses. */
#include <climits>
#include <cmath>

#include "device/cuda/attention_wgmma.cuh"
#include "device/cuda/tensor_map.cuh"

enum {
    GROUPS  = 2, /* warpgroups that compute, a tile of queries each */
    QUERIES = GROUPS * SIDE,
    HALVES  = 2, /* of a tile of keys, SIDE rows each */
    KEYS    = HALVES * SIDE,
    WORKERS = GROUPS * WARPGROUP,
    THREADS = WORKERS + WARPGROUP, /* one warp of the last warpgroup loads */
};

template <int HEAD> struct layout { /* of shared memory, in bytes: Q twice, then stages of K or V */
    static constexpr int TILE   = tile_of<HEAD>::BYTES;
    static constexpr int Q      = GROUPS * TILE;
    static constexpr int RING   = 2 * Q;
    static constexpr int STAGE  = HALVES * TILE;
    static constexpr int STAGES = 5; /* K and V of the first tile, of the next one, ... */
    static constexpr int BYTES  = RING + STAGES * STAGE + SMEM_ALIGN;
};

struct forward_args {
    attn_job j;
    exponent e;
    float    scale, cap; /* of logits; the softcap or 0 */
    float    slack;      /* how far products may exceed the one whose weight is 1 */
    int      blocks;     /* of queries, of a head */
    int     *begun;      /* items of work so far */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* The queries that a block works on, and the tiles of keys that they see. */
struct query_block {
    int head, first; /* head; first query */
    int from, to;    /* tiles from .. to */
};

/* Addresses in shared memory: the pipeline of K and V, the tiles, the mbarriers of Q; and the items
 * of work that the two buffers of Q are for, -1 after the last. */
struct forward_smem : pipeline {
    uint32_t memory, queries_full, queries_empty;
    int     *items;
};

/* Of a thread's two rows: 16 warp + 8 h + lane / 4. */
struct row_state {
    int   lowest[2], own[2]; /* the keys that it sees; none if own < lowest */
    float top[2], sum[2];    /* largest product; the thread's share of the sum of weights */
    float from[2];           /* the product whose weight is 1 */
};

/* Returns the number of the next item of work, to a whole warp, or -1. */
static __device__ inline int next_item(const forward_args &f)
{
    int n = 0;
    if (threadIdx.x % WARP == 0) n = atomicAdd(f.begun, 1);
    n = __shfl_sync(ALL_LANES, n, 0);
    return n < f.blocks * f.j.heads ? n : -1;
}

/* Returns the n-th item of work.  Items that may see the most keys come first. */
static __device__ inline query_block block_of(const forward_args &f, int n)
{
    query_block b;
    b.head  = n % f.j.heads;
    b.first = (f.blocks - 1 - n / f.j.heads) * QUERIES;
    b.from  = __shfl_sync(ALL_LANES, first_key(f.j, b.first), 0) / KEYS;
    b.to    = b.first / KEYS;
    return b;
}

/* Loads KEYS rows of a head: HALVES tiles, or with whole columns of 64 one below the other, as the
 * right operand of Q K^T wants them. */
template <int HEAD>
static __device__ inline void load_keys(uint32_t to, const CUtensorMap *map, int row, int head,
                                        uint32_t barrier)
{
#pragma unroll
    for (int c = 0; c < HEAD / 64; c++)
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            tma_load(to + (c * HALVES + h) * SMEM_TILE, map, c * 64, row + h * SIDE, head, barrier);
}

/* The producer, by a whole warp, so that the compiler knows operands to be the same in all
 * lanes. */
template <int HEAD>
static __device__ inline void load_rows(const forward_args &f, const forward_smem &r,
                                        const CUtensorMap *q, const CUtensorMap *k,
                                        const CUtensorMap *v)
{
    typedef layout<HEAD>       at;
    pipeline_state<at::STAGES> to = { 0, 0 };
    for (pipeline_state<2> queries = { 0, 0 };; ++queries) {
        const uint32_t full = r.queries_full + MBARRIER * queries.index;
        const int      n    = next_item(f);
        mbarrier_wait(r.queries_empty + MBARRIER * queries.index, queries.phase ^ 1u);
        if (threadIdx.x % WARP == 0) r.items[queries.index] = n;
        __syncwarp();
        mbarrier_arrive_expect_tx(full, n < 0 ? 0 : at::Q);
        if (n < 0) return;
        const query_block b = block_of(f, n);
        for (int i = 0; i < GROUPS; i++)
            load_tile<HEAD>(r.memory + queries.index * at::Q + i * at::TILE, q, b.first + i * SIDE,
                            b.head, full);
#pragma unroll 1
        for (int t = b.to; t >= b.from; t--) {
            const uint32_t full = r.full + MBARRIER * to.index;
            wait_empty(r, to);
            mbarrier_arrive_expect_tx(full, at::STAGE);
            load_keys<HEAD>(r.memory + at::RING + to.index * at::STAGE, k, t * KEYS, b.head, full);
            ++to;
            const uint32_t other = r.full + MBARRIER * to.index;
            const uint32_t stage = r.memory + at::RING + to.index * at::STAGE;
            wait_empty(r, to);
            mbarrier_arrive_expect_tx(other, at::STAGE);
            for (int h = 0; h < HALVES; h++)
                load_tile<HEAD>(stage + h * at::TILE, v, t * KEYS + h * SIDE, b.head, other);
            ++to;
        }
    }
}

/* Ends a basic block, by a branch that waits for nothing: this stage is held.  The assembler moves
 * a wait for MMAs up within its block, to before the computing that it should follow. */
template <int Stages>
static __device__ inline void end_block(const pipeline &p, const pipeline_state<Stages> &held)
{
    wait_full(p, held);
}

/* s <- Q K^T: 64 queries by KEYS keys */
template <typename T, int HEAD>
static __device__ inline void issue_logits(float (&s)[KEYS / 2], uint32_t queries, uint32_t keys)
{
    const uint64_t of_q = smem_descriptor(queries), of_k = smem_descriptor(keys);
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) {
        const uint64_t chunk = (uint64_t)(k / 4 * (SMEM_TILE / 16));
        const uint64_t in    = k % 4 * descriptor_k16(K_MAJOR);
        wgmma<T, KEYS, K_MAJOR, K_MAJOR>(s, of_q + chunk + in, of_k + chunk * HALVES + in, k > 0);
    }
    wgmma_commit();
}

/* o <- o + P V */
template <typename T, int HEAD>
static __device__ inline void issue_values(float (&o)[HEAD / 2],
                                           const uint32_t (&p)[HALVES][FRAGMENTS][4], uint32_t v,
                                           bool accumulate)
{
#pragma unroll
    for (int h = 0; h < HALVES; h++)
        pv_mma<T>(o, p[h], v + h * layout<HEAD>::TILE, accumulate || h > 0);
    wgmma_commit();
}

/* Sets products of pairs that do not see each other to -infinity.  column: the thread's first */
static __device__ inline void apply_mask(float (&s)[KEYS / 2], const row_state &m, int column)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int low = m.lowest[h] - column, high = m.own[h] - column;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (8 * j + e < low || 8 * j + e > high) s[4 * j + 2 * h + e] = -CUDART_INF_F;
    }
}

/* Turns products into weights.  old: by what earlier weights have to be multiplied */
template <bool CAP>
static __device__ inline void online_softmax(const forward_args &f, float (&s)[KEYS / 2],
                                             row_state          &m, float (&old)[2])
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = m.top[h], share, sum = 0.0f;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            top = max_nan(top, max_nan(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        top              = max_nan(top, __shfl_xor_sync(ALL_LANES, top, 1));
        top              = max_nan(top, __shfl_xor_sync(ALL_LANES, top, 2));
        const float was  = m.from[h];
        const bool  same = top <= was + f.slack;
        const float now  = same ? was : top;
        /* nothing is seen yet: any finite number will do */
        const float from = now == -CUDART_INF_F ? 0.0f : now;
        const float base = CAP ? cap_logit(f.e, from, share) : f.e.rate * from;
        old[h]           = same ? 1.0f : weight_of<CAP>(f.e, was, base, share);
        m.top[h]         = top;
        m.from[h]        = now;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float *at = &s[4 * j + 2 * h + e];
                *at       = weight_of<CAP>(f.e, *at, base, share);
                sum += *at;
            }
        m.sum[h] = m.sum[h] * old[h] + sum;
    }
}

template <typename T>
static __device__ inline void round_weights(const float (&s)[KEYS / 2],
                                            uint32_t (&p)[HALVES][FRAGMENTS][4])
{
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            p[j / 2 / FRAGMENTS][j / 2 % FRAGMENTS][j % 2 * 2 + h] =
                pack_pair<T>(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]);
#pragma unroll
    for (int h = 0; h < HALVES; h++)
        fence_fragments(p[h]);
}

/* An item of work, as a warpgroup has it. */
struct item {
    query_block b;
    row_state   m;
    int         clean; /* the first of the tiles that no edge crosses; all but b.to follow */
};

/* Returns the n-th item of work, before any key. */
static __device__ inline item item_of(const forward_args &f, int n, int group, uint32_t me)
{
    item      i     = { block_of(f, n), {}, INT_MAX };
    const int first = i.b.first + group * SIDE, last = first + SIDE - 1;
    const int row = first + (int)me / WARP * 16 + (int)me % WARP / 4;
    static_assert(QUERIES == KEYS, "the diagonal crosses the last tile alone");
    if (last < f.j.rows) i.clean = (first_key(f.j, last) + KEYS - 1) / KEYS;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const span seen = keys_seen(f.j, row + 8 * h);
        i.m.lowest[h]   = seen.first;
        i.m.own[h]      = seen.last;
        i.m.top[h]      = -CUDART_INF_F;
        i.m.sum[h]      = 0.0f;
        i.m.from[h]     = -CUDART_INF_F;
    }
    return i;
}

/* o <- o factor */
template <int N> static __device__ inline void scale_rows(float (&o)[N], const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        o[i] *= factor[i / 2 % 2];
}

/* Writes a warpgroup's rows, their logsumexps and the largest logit. */
template <typename T, int HEAD, bool CAP>
static __device__ inline void finish(const forward_args &f, const float (&o)[HEAD / 2],
                                     const item &i, int group, uint32_t me)
{
    const int first = i.b.first + group * SIDE;
    const int row   = first + (int)me / WARP * 16 + (int)me % WARP / 4;
    float     factor[2], most = -CUDART_INF_F;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = i.m.sum[h];
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        factor[h]         = 1.0f / sum;
        most              = max_nan(most, i.m.top[h]);
        const float logit = f.scale * i.m.from[h];
        const float z     = CAP ? f.cap * tanhf(logit / f.cap) : logit;
        if (me % 4 == 0 && row + 8 * h < f.j.rows)
            ((float *)f.j.lse.data)[i.b.head * f.j.lse.stride + row + 8 * h] = z + logf(sum);
    }
    store_tile<T>(o, factor, f.j.out, i.b.head, first, f.j.rows, me);
#pragma unroll
    for (int step = 4; step < WARP; step *= 2)
        most = max_nan(most, __shfl_xor_sync(ALL_LANES, most, step));
    if (me % WARP == 0) atomic_max_nan(&f.j.max_logit[i.b.head], f.j.scale * (double)most);
}

/* Walks over the tiles of all items of work that are this block's.  The logits of each tile are
 * issued with the values of the tile before it, which may be another item's: so no item begins with
 * a wait for MMAs. */
template <typename T, int HEAD, bool CAP>
static __device__ inline void make_rows(const forward_args &f, const forward_smem &r, int group)
{
    typedef layout<HEAD> at;
    /* kept in a register by the shuffle: a read of threadIdx between MMAs would wait for them */
    const uint32_t me     = __shfl_sync(ALL_LANES, threadIdx.x % WARPGROUP, threadIdx.x % WARP);
    const uint32_t ring   = r.memory + at::RING;
    const bool     leads  = me % WARP == 0;
    const int      column = (int)me % 4 * 2;
    pipeline_state<at::STAGES> keys = { 0, 0 }, values = { 1, 0 };
    pipeline_state<2>          queries = { 0, 0 };
    float                      s[KEYS / 2], o[HEAD / 2] = {}, old[2];
    uint32_t                   p[HALVES][FRAGMENTS][4];
    bool                       is_first = true; /* nothing is in o yet */

    mbarrier_wait(r.queries_full, 0);
    if (r.items[0] < 0) return;
    item i = item_of(f, r.items[0], group, me), done;
    int  t = i.b.to;
    wait_full(r, keys);
    wgmma_fence();
    issue_logits<T, HEAD>(s, r.memory + group * at::TILE, ring);
    wgmma_wait<0>();
    fence_accumulators(s);
    mbarrier_arrive_if(r.empty, leads);
    mbarrier_arrive_if(r.queries_empty, leads && t == i.b.from);
    keys.advance(2);
    apply_mask(s, i.m, t * KEYS + column);
    online_softmax<CAP>(f, s, i.m, old);
    round_weights<T>(s, p);
#pragma unroll 1
    for (;;) {
        const bool ends = t == i.b.from; /* the next tile is the next item's */
        if (ends) {
            ++queries;
            mbarrier_wait(r.queries_full + MBARRIER * queries.index, queries.phase);
            const int n = r.items[queries.index];
            if (n < 0) break;
            done = i;
            i    = item_of(f, n, group, me);
        }
        t = ends ? i.b.to : t - 1;
        wait_full(r, keys);
        wgmma_fence();
        issue_logits<T, HEAD>(s, r.memory + (queries.index * GROUPS + group) * at::TILE,
                              ring + keys.index * at::STAGE);
        wait_full(r, values);
        wgmma_fence();
        issue_values<T, HEAD>(o, p, ring + values.index * at::STAGE, !is_first);
        wgmma_wait<1>();
        fence_accumulators(s);
        mbarrier_arrive_if(r.empty + MBARRIER * keys.index, leads);
        mbarrier_arrive_if(r.queries_empty + MBARRIER * queries.index, leads && t == i.b.from);
        keys.advance(2);
        if (t == i.b.to || t < i.clean) apply_mask(s, i.m, t * KEYS + column);
        online_softmax<CAP>(f, s, i.m, old);
        fence_accumulators(s);
        end_block(r, values);
        wgmma_wait<0>();
        fence_accumulators(o);
        mbarrier_arrive_if(r.empty + MBARRIER * values.index, leads);
        values.advance(2);
        if (ends)
            finish<T, HEAD, CAP>(f, o, done, group, me);
        else if (__any_sync(ALL_LANES, old[0] != 1.0f || old[1] != 1.0f))
            scale_rows(o, old);
        is_first = ends;
        fence_accumulators(o); /* scaled here, not between the MMAs */
        round_weights<T>(s, p);
    }
    wait_full(r, values);
    wgmma_fence();
    issue_values<T, HEAD>(o, p, ring + values.index * at::STAGE, !is_first);
    wgmma_wait<0>();
    fence_accumulators(o);
    finish<T, HEAD, CAP>(f, o, i, group, me);
}

#endif

template <typename T, int HEAD, bool CAP>
static __global__ void __launch_bounds__(THREADS, 1)
    attend_k(const __grid_constant__ forward_args f, const __grid_constant__ CUtensorMap q,
             const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr int           STAGES = layout<HEAD>::STAGES;
    extern __shared__ uint4 memory[];
    __shared__ uint64_t     barriers[2 * STAGES + 4];
    __shared__ int          items[2];
    const uint32_t          warp  = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0);
    const uint32_t          group = warp / WARPGROUP_WARPS;
    const uint32_t          full = smem_address(barriers), more = full + MBARRIER * 2 * STAGES;
    const pipeline          ring = { full, full + MBARRIER * STAGES };
    const forward_smem      r    = { ring, smem_tiles(memory), more, more + 2 * MBARRIER, items };
    if (threadIdx.x == WORKERS) {
        pipeline_init(r, STAGES, WORKERS / WARP);
        for (int i = 0; i < 2; i++) {
            mbarrier_init(r.queries_full + MBARRIER * i, 1);
            mbarrier_init(r.queries_empty + MBARRIER * i, WORKERS / WARP);
        }
        mbarrier_init_fence();
        prefetch_tensor_map(&q), prefetch_tensor_map(&k), prefetch_tensor_map(&v);
    }
    __syncthreads();
    if (group == GROUPS) {
        setmaxnreg_dec<24>();
        if (warp == WORKERS / WARP) load_rows<HEAD>(f, r, &q, &k, &v);
    } else {
        setmaxnreg_inc<240>();
        make_rows<T, HEAD, CAP>(f, r, (int)group);
    }
#endif
}

/* ---- host ------------------------------------------------------------------------------------ */

typedef void (*forward_kernel)(forward_args, CUtensorMap, CUtensorMap, CUtensorMap);

template <typename T> static forward_kernel kernel_of(int64_t head, bool cap)
{
    if (head == 64) return cap ? attend_k<T, 64, true> : attend_k<T, 64, false>;
    return cap ? attend_k<T, 128, true> : attend_k<T, 128, false>;
}

static forward_kernel kernel_for(musec_dtype dtype, int64_t head, bool cap)
{
    return dtype == MUSEC_BF16 ? kernel_of<__nv_bfloat16>(head, cap) : kernel_of<__half>(head, cap);
}

static musec_status kernels_usable(ms_device *d, bool *usable)
{
    const void *all[8];
    for (int i = 0; i < 8; i++)
        all[i] = (const void *)kernel_for(i / 4 == 0 ? MUSEC_BF16 : MUSEC_F16,
                                          i / 2 % 2 == 0 ? 64 : 128, i % 2 == 0);
    return is_usable(d, MS_CUDA_ATTENTION, all, 8, layout<128>::BYTES, usable);
}

musec_status ms_cuda_attention_wgmma_supports(ms_device *d, const ms_cuda_attn *x, bool *supported)
{
    const ms_mat *all[]  = { &x->q, &x->k, &x->v, &x->out };
    const int64_t blocks = (x->q.rows - 1) / QUERIES + 1;
    const float   rate   = exponent_of(x->a.scale, x->a.softcap).rate;
    *supported           = false;
    if (x->q.dtype != MUSEC_BF16 && x->q.dtype != MUSEC_F16) return MUSEC_OK;
    if (x->q.cols != 64 && x->q.cols != 128) return MUSEC_OK;
    if (x->q.rows > ATTN_ROWS_MAX || x->q.count > INT32_MAX / blocks) return MUSEC_OK;
    if (!std::isnormal(rate) || rate < 0.0f) return MUSEC_OK;
    for (int i = 0; i < 4; i++)
        if (!has_tma_layout(*all[i])) return MUSEC_OK;
    return kernels_usable(d, supported);
}

static musec_status launch(ms_device *d, const ms_cuda_attn *x, const CUtensorMap (&maps)[3],
                           int *begun)
{
    const ms_cuda *cuda  = ms_cuda_of(d);
    const int      bytes = x->q.cols == 64 ? layout<64>::BYTES : layout<128>::BYTES;
    forward_args   f     = {};
    f.j                  = job_of(x);
    f.e                  = exponent_of(f.j.scale, f.j.softcap);
    f.scale              = (float)f.j.scale;
    f.cap                = (float)f.j.softcap;
    f.blocks             = (f.j.rows - 1) / QUERIES + 1;
    f.slack              = f.cap > 0.0f ? 0.0f : 8.0f / f.e.rate;
    f.begun              = begun;
    const int          n = f.blocks * f.j.heads, most = cuda->sm_count;
    const musec_status st =
        ms_cuda_status(d, cudaMemsetAsync(begun, 0, sizeof *begun, cuda->stream), "attention");
    if (st != MUSEC_OK) return st;
    kernel_for(f.j.dtype, f.j.head,
               f.j.softcap >
                   0.0)<<<(unsigned)(n < most ? n : most), THREADS, bytes, cuda->stream>>>(
        f, maps[0], maps[1], maps[2]);
    return launched(d, "attention");
}

musec_status ms_cuda_attention_wgmma(ms_device *d, const ms_cuda_attn *x)
{
    const ms_mat *of[3] = { &x->q, &x->k, &x->v };
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    CUtensorMap   maps[3];
    void         *begun = NULL;
    for (int i = 0; i < 3; i++) /* has_tma_layout ensures that TMA takes them */
        if (!make_tensor_map(ms_cuda_of(d), *of[i], SIDE, &maps[i]))
            return ms_fail(&d->error, MUSEC_EDEVICE, "%s: attention: no tensor map", d->name);
    musec_status st = ms_scratch_bytes(d, sizeof(int), &begun);
    if (st == MUSEC_OK) st = launch(d, x, maps, (int *)begun);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
