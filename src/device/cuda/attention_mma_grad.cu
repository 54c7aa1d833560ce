/* attention_mma_grad.cu - the gradients of attention on tensor cores: heads of 64 or 128 columns of
 * 16 bits.
 *
 * With P = exp(z - lse), D = <dO, O> of a row and the slope of a cap,
 *     dS = P (dO V^T - D) slope,  dV = P^T dO,  dK = scale dS^T Q,  dQ = scale dS K.
 * Two kernels walk over the pairs.  One has a block for some keys, walks over the queries that see
 * them and works on S^T = K Q^T: there P^T and dS^T come out as the A fragments that dV and dK
 * need.  The other has a block for some queries and walks over the keys that they see, for dQ.  S
 * and dO V^T are computed twice, seven products instead of five, but no sum is shared by two
 * blocks: the order of additions is fixed, and no block waits for another.
 *
 * Products are summed in float32; P and dS are rounded to the operands' dtype.  Tiles, copies and
 * edges are as in the forward pass (attention_mma.cu). */
#include "device/cuda/attention_mma.cuh"

struct backward {        /* further parameters of a kernel */
    exponent      e;     /* of the absolute value of scale */
    bool          flip;  /* scale is negative */
    const float2 *stats; /* (heads x rows) lse in base 2, D */
    const int    *last;  /* (rows) the last query that sees a key */
};

/* Computes what a pair contributes.  On return s is P, dp is dS. */
template <bool CAP>
static __device__ inline void pair_grad(exponent e, float2 stats, float &s, float &dp)
{
    float share = 0.0f;
    s           = weight_of<CAP>(e, s, stats.x, share);
    dp          = s * (dp - stats.y);
    if (CAP) dp *= 4.0f * share * (1.0f - share);
}

/* Stores the warp's rows times `scale`: see store_rows. */
template <typename T, int HEAD, int ROWS16>
static __device__ inline void store_scaled(const float (&x)[ROWS16][HEAD / 8][4], float scale,
                                           unsigned char *tile, const head_stack &to, int head,
                                           int first, int rows)
{
    float factor[ROWS16][2];
#pragma unroll
    for (int i = 0; i < ROWS16; i++)
        factor[i][0] = factor[i][1] = scale;
    store_rows<T, HEAD, ROWS16>(x, factor, tile, to, head, first, rows);
}

/* ---- D, and the last query that sees a key --------------------------------------------------- */

template <typename T, int HEAD>
static __global__ void prepare_k(const __grid_constant__ attn_job j, float2 *stats, int *last)
{
    constexpr int LANES = HEAD / VECTOR; /* for a row */
    const int64_t n = (int64_t)j.heads * j.rows, at_once = blockDim.x / LANES;
    const int     lane = (int)threadIdx.x % LANES;
    /* whole warps stay to the end, for the shuffles */
    for (int64_t first = blockIdx.x * at_once; first < n; first += gridDim.x * at_once) {
        const int64_t i    = first + threadIdx.x / LANES;
        const int     head = (int)(i / j.rows), row = (int)(i % j.rows);
        float         a[VECTOR], b[VECTOR], sum = 0.0f;
        if (i < n) {
            load_vector((const T *)j.dout.data + head * j.dout.stride + row * j.dout.ld,
                        lane * VECTOR, j.dtype, a);
            load_vector((const T *)j.out.data + head * j.out.stride + row * j.out.ld, lane * VECTOR,
                        j.dtype, b);
#pragma unroll
            for (int c = 0; c < VECTOR; c++)
                sum += a[c] * b[c];
        }
#pragma unroll
        for (int half = LANES / 2; half > 0; half /= 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, half);
        if (lane != 0 || i >= n) continue;
        stats[i] =
            make_float2(((const float *)j.lse.data)[head * j.lse.stride + row] * LOG2_E, sum);
        if (head == 0) last[row] = last_query(j, row);
    }
}

/* ---- dQ -------------------------------------------------------------------------------------- */

template <int HEAD> struct by_query {
    static constexpr int ROWS16  = 2;
    static constexpr int ROWS    = ROWS16 * 16; /* queries of a warp, of a block: */
    static constexpr int QUERIES = ROWS * MMA_WARPS;
    static constexpr int KEYS    = HEAD == 64 ? 64 : 32; /* of a tile */
    /* shared memory, in bytes: Q, dO, two stages of K and V */
    static constexpr int PITCH = HEAD * 2;
    static constexpr int DOUT  = QUERIES * PITCH;
    static constexpr int K     = 2 * DOUT;
    static constexpr int V     = KEYS * PITCH; /* after K, in a stage */
    static constexpr int STAGE = 2 * V;
    static constexpr int BYTES = K + 2 * STAGE;

    static __device__ int stage(int key) { return K + key / KEYS % 2 * STAGE; }
};

template <typename T, int HEAD>
static __device__ inline void load_keys(const attn_job &j, uint32_t stage, int head, int key)
{
    typedef by_query<HEAD> at;
    load_tile<T, HEAD, at::KEYS>(stage, j.k, head, key, j.rows);
    load_tile<T, HEAD, at::KEYS>(stage + at::V, j.v, head, key, j.rows);
}

/* Computes dS of a warp's rows, as A fragments.  stats: of the head's rows; mine: the warp's
 * first */
template <typename T, bool CAP, int ROWS16, int NS>
static __device__ inline void softmax_grad_queries(exponent e, const float2 *stats, int mine,
                                                   int rows, int lane, float (&s)[ROWS16][NS][4],
                                                   float (&dp)[ROWS16][NS][4],
                                                   uint32_t (&ds)[ROWS16][NS / 2][4])
{
#pragma unroll
    for (int i = 0; i < ROWS16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float2 its = stats[min(mine + i * 16 + half * 8 + lane / 4, rows - 1)];
#pragma unroll
            for (int n = 0; n < NS; n++) {
#pragma unroll
                for (int c = 2 * half; c < 2 * half + 2; c++)
                    pair_grad<CAP>(e, its, s[i][n][c], dp[i][n][c]);
                ds[i][n / 2][n % 2 * 2 + half] =
                    pack_pair<T>(dp[i][n][2 * half], dp[i][n][2 * half + 1]);
            }
        }
}

template <typename T, int HEAD, bool CAP>
static __global__ void __launch_bounds__(MMA_THREADS, 2)
    query_grad_k(const __grid_constant__ attn_job j, const __grid_constant__ backward b)
{
    typedef by_query<HEAD> at;
    constexpr int          ROWS16 = at::ROWS16, KEYS = at::KEYS;
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t                                  base = smem_address(shared);
    const int blocks = (j.rows - 1) / at::QUERIES + 1, head = (int)blockIdx.x / blocks;
    const int first = (blocks - 1 - (int)blockIdx.x % blocks) * at::QUERIES;
    const int end   = min(first + at::QUERIES, j.rows);
    const int mine = first + warp_index() * at::ROWS, my_end = min(mine + at::ROWS, j.rows);
    int       key                     = first_key(j, first) / KEYS * KEYS;
    float     dq[ROWS16][HEAD / 8][4] = {};
    load_tile<T, HEAD, at::QUERIES>(base, j.q, head, first, j.rows);
    load_tile<T, HEAD, at::QUERIES>(base + at::DOUT, j.dout, head, first, j.rows);
    load_keys<T, HEAD>(j, base + at::stage(key), head, key);
    if (b.flip) flip_signs(shared, at::DOUT);
    for (; key < end; key += KEYS) {
        cp_async_wait();
        __syncthreads(); /* this tile is here, and nobody reads the one before */
        if (key + KEYS < end) load_keys<T, HEAD>(j, base + at::stage(key + KEYS), head, key + KEYS);
        if (mine < my_end && key < my_end && first_key(j, mine) < key + KEYS) {
            const int      lane = reload_thread() % WARP;
            const uint32_t tile = base + at::stage(key), across = lane_across<HEAD>(lane);
            const uint32_t down = lane_down<HEAD>(lane), own = base + (mine - first) * at::PITCH;
            float          s[ROWS16][KEYS / 8][4] = {}, dp[ROWS16][KEYS / 8][4] = {};
            uint32_t       ds[ROWS16][KEYS / 16][4];
            qk_mma<T, HEAD, ROWS16, KEYS>(s, own + down, tile + across);
            qk_mma<T, HEAD, ROWS16, KEYS>(dp, own + at::DOUT + down, tile + at::V + across);
            if (my_end < mine + at::ROWS || key + KEYS - 1 > mine || key < first_key(j, my_end - 1))
                apply_mask(s, mine, key, lane, [&](int query) { return keys_seen(j, query); });
            softmax_grad_queries<T, CAP>(b.e, b.stats + (int64_t)head * j.rows, mine, j.rows, lane,
                                         s, dp, ds);
            pv_mma<T, HEAD, ROWS16, KEYS>(dq, ds, tile + down);
        }
    }
    if (mine < j.rows)
        store_scaled<T, HEAD>(dq, (float)j.scale, shared + (mine - first) * at::PITCH, j.dq, head,
                              mine, j.rows);
}

/* ---- dK and dV ------------------------------------------------------------------------------- */

template <int HEAD> struct by_key {
    static constexpr int ROWS16  = HEAD == 64 ? 2 : 1;
    static constexpr int ROWS    = ROWS16 * 16; /* keys of a warp, of a block: */
    static constexpr int KEYS    = ROWS * MMA_WARPS;
    static constexpr int QUERIES = HEAD == 64 ? 32 : 64; /* of a tile */
    /* shared memory, in bytes: K, V, two stages of Q, dO and the queries' stats */
    static constexpr int PITCH = HEAD * 2;
    static constexpr int V     = KEYS * PITCH;
    static constexpr int Q     = 2 * V;
    static constexpr int DOUT  = QUERIES * PITCH; /* after Q, in a stage */
    static constexpr int STATS = 2 * DOUT;
    static constexpr int STAGE = STATS + QUERIES * (int)sizeof(float2);
    static constexpr int BYTES = Q + 2 * STAGE;

    static __device__ int stage(int query) { return Q + query / QUERIES % 2 * STAGE; }
};

template <typename T, int HEAD>
static __device__ inline void load_queries(const attn_job &j, const backward &b, uint32_t stage,
                                           int head, int query)
{
    typedef by_key<HEAD> at;
    const int            row = reload_thread();
    load_tile<T, HEAD, at::QUERIES>(stage, j.q, head, query, j.rows);
    load_tile<T, HEAD, at::QUERIES>(stage + at::DOUT, j.dout, head, query, j.rows);
    if (row < at::QUERIES)
        cp_async<8>(stage + at::STATS + row * (int)sizeof(float2),
                    b.stats + (int64_t)head * j.rows + query + row, query + row < j.rows);
}

/* Computes P^T and dS^T of a warp's keys, as A fragments.  stats: of the tile's queries */
template <typename T, bool CAP, int ROWS16, int NS>
static __device__ inline void softmax_grad_keys(exponent e, const float2 *stats, int lane,
                                                float (&s)[ROWS16][NS][4],
                                                float (&dp)[ROWS16][NS][4],
                                                uint32_t (&p)[ROWS16][NS / 2][4],
                                                uint32_t (&ds)[ROWS16][NS / 2][4])
{
#pragma unroll
    for (int n = 0; n < NS; n++) {
        const float4 two    = *(const float4 *)(stats + n * 8 + lane % 4 * 2); /* columns */
        const float2 its[2] = { make_float2(two.x, two.y), make_float2(two.z, two.w) };
#pragma unroll
        for (int i = 0; i < ROWS16; i++) {
#pragma unroll
            for (int c = 0; c < 4; c++)
                pair_grad<CAP>(e, its[c % 2], s[i][n][c], dp[i][n][c]);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int at     = n % 2 * 2 + half;
                p[i][n / 2][at]  = pack_pair<T>(s[i][n][2 * half], s[i][n][2 * half + 1]);
                ds[i][n / 2][at] = pack_pair<T>(dp[i][n][2 * half], dp[i][n][2 * half + 1]);
            }
        }
    }
}

template <typename T, int HEAD, bool CAP>
static __global__ void __launch_bounds__(MMA_THREADS, 2)
    key_grad_k(const __grid_constant__ attn_job j, const __grid_constant__ backward b)
{
    typedef by_key<HEAD> at;
    constexpr int        ROWS16 = at::ROWS16, QUERIES = at::QUERIES;
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t                                  base = smem_address(shared);
    const int blocks = (j.rows - 1) / at::KEYS + 1, head = (int)blockIdx.x / blocks;
    const int first = (int)blockIdx.x % blocks * at::KEYS;
    const int last  = b.last[min(first + at::KEYS, j.rows) - 1];
    const int mine = first + warp_index() * at::ROWS, my_end = min(mine + at::ROWS, j.rows);
    float     dk[ROWS16][HEAD / 8][4] = {}, dv[ROWS16][HEAD / 8][4] = {};
    load_tile<T, HEAD, at::KEYS>(base, j.k, head, first, j.rows);
    load_tile<T, HEAD, at::KEYS>(base + at::V, j.v, head, first, j.rows);
    load_queries<T, HEAD>(j, b, base + at::stage(first), head, first);
    if (b.flip) flip_signs(shared, at::V);
    for (int query = first; query <= last; query += QUERIES) {
        cp_async_wait();
        __syncthreads(); /* this tile is here, and nobody reads the one before */
        if (query + QUERIES <= last)
            load_queries<T, HEAD>(j, b, base + at::stage(query + QUERIES), head, query + QUERIES);
        if (mine < my_end && query + QUERIES > mine && query <= b.last[my_end - 1]) {
            const int      lane  = reload_thread() % WARP;
            const int      stage = at::stage(query);
            const uint32_t tile = base + stage, across = lane_across<HEAD>(lane);
            const uint32_t down = lane_down<HEAD>(lane), own = base + (mine - first) * at::PITCH;
            float          s[ROWS16][QUERIES / 8][4] = {}, dp[ROWS16][QUERIES / 8][4] = {};
            uint32_t       p[ROWS16][QUERIES / 16][4], ds[ROWS16][QUERIES / 16][4];
            qk_mma<T, HEAD, ROWS16, QUERIES>(s, own + down, tile + across);
            qk_mma<T, HEAD, ROWS16, QUERIES>(dp, own + at::V + down, tile + at::DOUT + across);
            if (my_end < mine + at::ROWS || query < my_end - 1 ||
                query + QUERIES - 1 > b.last[mine])
                apply_mask(s, mine, query, lane, [&](int key) {
                    return key < j.rows ? span{ key, b.last[key] } : span{ j.rows, -1 };
                });
            softmax_grad_keys<T, CAP>(b.e, (const float2 *)(shared + stage + at::STATS), lane, s,
                                      dp, p, ds);
            pv_mma<T, HEAD, ROWS16, QUERIES>(dv, p, tile + at::DOUT + down);
            pv_mma<T, HEAD, ROWS16, QUERIES>(dk, ds, tile + down);
        }
    }
    if (mine < j.rows) {
        unsigned char *own = shared + (mine - first) * at::PITCH;
        store_scaled<T, HEAD>(dk, (float)j.scale, own, j.dk, head, mine, j.rows);
        store_scaled<T, HEAD>(dv, 1.0f, own + at::V, j.dv, head, mine, j.rows);
    }
}

/* ---- launchers ------------------------------------------------------------------------------- */

template <typename T, int HEAD, bool CAP>
static musec_status attend_back(ms_device *d, const attn_job &j, const backward &b, float2 *stats,
                                int *last)
{
    typedef by_query<HEAD> queries;
    typedef by_key<HEAD>   keys;
    const cudaStream_t     stream    = ms_cuda_of(d)->stream;
    const int64_t          threads   = (int64_t)j.heads * j.rows * (HEAD / VECTOR);
    const unsigned         n_queries = (unsigned)(((j.rows - 1) / queries::QUERIES + 1) * j.heads);
    const unsigned         n_keys    = (unsigned)(((j.rows - 1) / keys::KEYS + 1) * j.heads);
    musec_status           st        = allow_shared(d, query_grad_k<T, HEAD, CAP>, queries::BYTES);
    static_assert(queries::BYTES <= (int)MMA_SHARED_MAX && keys::BYTES <= (int)MMA_SHARED_MAX,
                  "what ..._supports asks for");
    if (st == MUSEC_OK) st = allow_shared(d, key_grad_k<T, HEAD, CAP>, keys::BYTES);
    if (st != MUSEC_OK) return st;
    prepare_k<T, HEAD><<<blocks_for(d, threads, 256), 256, 0, stream>>>(j, stats, last);
    st = launched(d, "attention_grad: delta");
    if (st != MUSEC_OK) return st;
    key_grad_k<T, HEAD, CAP><<<n_keys, MMA_THREADS, keys::BYTES, stream>>>(j, b);
    st = launched(d, "attention_grad: keys");
    if (st != MUSEC_OK) return st;
    query_grad_k<T, HEAD, CAP><<<n_queries, MMA_THREADS, queries::BYTES, stream>>>(j, b);
    return launched(d, "attention_grad: queries");
}

musec_status ms_cuda_attention_mma_grad(ms_device *d, const ms_cuda_attn *x)
{
    const attn_job j     = job_of(x);
    const ms_mark  mark  = ms_arena_mark(&d->scratch);
    const size_t   rows  = (size_t)x->q.rows;
    void          *stats = NULL, *last = NULL;
    backward       b;
    musec_status   st = ms_scratch_bytes(d, (size_t)x->q.count * rows * sizeof(float2), &stats);
    if (st == MUSEC_OK) st = ms_scratch_bytes(d, rows * sizeof(int), &last);
    if (st == MUSEC_OK) {
        b.e     = exponent_of(fabs(j.scale), j.softcap);
        b.flip  = j.scale < 0.0;
        b.stats = (const float2 *)stats;
        b.last  = (const int *)last;
        st      = by_head(j.dtype, j.head, [&](auto t, auto head) {
            typedef decltype(t) T;
            constexpr int       HEAD = decltype(head)::value;
            return j.softcap > 0.0
                            ? attend_back<T, HEAD, true>(d, j, b, (float2 *)stats, (int *)last)
                            : attend_back<T, HEAD, false>(d, j, b, (float2 *)stats, (int *)last);
        });
    }
    ms_arena_reset(&d->scratch, mark);
    return st;
}
