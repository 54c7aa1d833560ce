/* attention_mma.cu - attention on tensor cores: heads of 64 or 128 columns of 16 bits.
 *
 * A block has QUERIES queries of a head, a warp 32 of them, and walks over the keys that they see
 * in tiles of KEYS, loading the next tile while it computes with one:
 *     S = Q K^T,  P = exp2(rate (S - m)),  O <- O exp2(rate (m' - m)) + P V,
 * m being the largest product so far of a row and m' the one before.  Products are summed in
 * float32, P is rounded to the operands' dtype.  With a negative scale Q is negated, so that the
 * largest product is the largest logit; a scale of 0 would turn -infinity into NaN and is not
 * supported.  A warp skips tiles that none of its queries sees, and applies the mask only where an
 * edge (the diagonal, the window, a document) crosses its rows of a tile.
 *
 * NaN and infinity among the values spread to the rows that see them, and may spread to rows that
 * share a tile with those. */
#include <cmath>

#include "device/cuda/attention_mma.cuh"

enum {
    QUERIES = 128,
    KEYS    = 64,
    ROWS    = QUERIES / MMA_WARPS, /* queries of a warp */
    ROWS16  = ROWS / 16,
};

template <int HEAD> struct layout { /* of shared memory, in bytes */
    static constexpr int PITCH = HEAD * 2;
    static constexpr int K     = QUERIES * PITCH; /* after Q: two stages of K and V */
    static constexpr int V     = KEYS * PITCH;    /* after K, in a stage */
    static constexpr int STAGE = 2 * KEYS * PITCH;
    static constexpr int SUM   = K + 2 * STAGE; /* of each thread's rows */
    static constexpr int BYTES = SUM + MMA_THREADS * ROWS16 * 2 * (int)sizeof(float);

    static __device__ int stage(int key) { return K + key / KEYS % 2 * STAGE; }
};

struct forward { /* further parameters of a kernel */
    exponent e;
    float    cap;   /* softcap */
    bool     flip;  /* the scale is negative */
    double   scale; /* its absolute value */
};

struct softmax { /* of the lane's rows: 16 m + 8 half + lane / 4 */
    float  top[ROWS16][2];
    float *sum; /* (ROWS16 x 2), a lane's share, in shared memory to save registers */
};

/* Turns products into weights p, the A fragments of the product with V, and scales `out` to the
 * new largest product. */
template <typename T, int HEAD, bool CAP>
static __device__ inline void online_softmax(const forward &f, softmax &m,
                                             const float (&s)[ROWS16][KEYS / 8][4],
                                             uint32_t (&p)[ROWS16][KEYS / 16][4],
                                             float (&out)[ROWS16][HEAD / 8][4])
{
#pragma unroll
    for (int i = 0; i < ROWS16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float was = m.top[i][half];
            float       top = was, share;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                top = max_nan(top, max_nan(s[i][n][2 * half], s[i][n][2 * half + 1]));
            top = max_nan(top, __shfl_xor_sync(ALL_LANES, top, 1));
            top = max_nan(top, __shfl_xor_sync(ALL_LANES, top, 2));
            /* nothing is seen yet: any finite number will do */
            const float from = top == -CUDART_INF_F ? 0.0f : top;
            const float base = CAP ? cap_logit(f.e, from, share) : f.e.rate * from;
            const float old  = weight_of<CAP>(f.e, was, base, share);
            float       sum  = m.sum[i * 2 + half] * old;
            m.top[i][half]   = top;
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++) {
                out[i][n][2 * half] *= old;
                out[i][n][2 * half + 1] *= old;
            }
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                const float p0 = weight_of<CAP>(f.e, s[i][n][2 * half], base, share);
                const float p1 = weight_of<CAP>(f.e, s[i][n][2 * half + 1], base, share);
                sum += p0 + p1;
                p[i][n / 2][n % 2 * 2 + half] = pack_pair<T>(p0, p1);
            }
            m.sum[i * 2 + half] = sum;
        }
}

/* Writes the warp's rows.  mine: the first of them */
template <typename T, int HEAD, bool CAP>
static __device__ inline void finish(const attn_job &j, const forward &f, const softmax &m,
                                     const float (&out)[ROWS16][HEAD / 8][4], unsigned char *tile,
                                     int head, int mine)
{
    const int lane = (int)threadIdx.x % WARP;
    float     factor[ROWS16][2], most = -CUDART_INF_F;
#pragma unroll
    for (int i = 0; i < ROWS16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = mine + i * 16 + half * 8 + lane / 4;
            float     sum = m.sum[i * 2 + half];
            sum += __shfl_xor_sync(ALL_LANES, sum, 1);
            sum += __shfl_xor_sync(ALL_LANES, sum, 2);
            factor[i][half]   = 1.0f / sum;
            most              = max_nan(most, m.top[i][half]);
            const float logit = (float)f.scale * m.top[i][half];
            const float z     = CAP ? f.cap * tanhf(logit / f.cap) : logit;
            if (lane % 4 == 0 && row < j.rows)
                ((float *)j.lse.data)[head * j.lse.stride + row] = z + logf(sum);
        }
    store_rows<T, HEAD, ROWS16>(out, factor, tile, j.out, head, mine, j.rows);
#pragma unroll
    for (int step = 4; step < WARP; step *= 2)
        most = max_nan(most, __shfl_xor_sync(ALL_LANES, most, step));
    if (lane == 0) atomic_max_nan(&j.max_logit[head], f.scale * (double)most);
}

template <typename T, int HEAD>
static __device__ inline void load_keys(const attn_job &j, uint32_t stage, int head, int key)
{
    load_tile<T, HEAD, KEYS>(stage, j.k, head, key, j.rows);
    load_tile<T, HEAD, KEYS>(stage + layout<HEAD>::V, j.v, head, key, j.rows);
}

/* Registers are scarce: `out` and a tile of logits take 192 of 255.  What is cheap to recompute is
 * recomputed where it is needed. */
template <typename T, int HEAD, bool CAP>
static __global__ void __launch_bounds__(MMA_THREADS, HEAD == 64 && !CAP ? 3 : 2)
    attend_k(const __grid_constant__ attn_job j, const __grid_constant__ forward f)
{
    typedef layout<HEAD> at;
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t                                  base = smem_address(shared);
    const int blocks = (j.rows - 1) / QUERIES + 1, head = (int)blockIdx.x / blocks;
    const int first = (blocks - 1 - (int)blockIdx.x % blocks) * QUERIES;
    const int end   = min(first + QUERIES, j.rows); /* of the block's queries */
    const int mine = first + warp_index() * ROWS, my_end = min(mine + ROWS, j.rows);
    int       key                      = first_key(j, first) / KEYS * KEYS;
    float     out[ROWS16][HEAD / 8][4] = {};
    softmax   m;
    m.sum = (float *)(shared + at::SUM) + threadIdx.x * ROWS16 * 2;
#pragma unroll
    for (int i = 0; i < ROWS16 * 2; i++) {
        m.top[i / 2][i % 2] = -CUDART_INF_F;
        m.sum[i]            = 0.0f;
    }
    load_tile<T, HEAD, QUERIES>(base, j.q, head, first, j.rows);
    load_keys<T, HEAD>(j, base + at::stage(key), head, key);
    if (f.flip) flip_signs(shared, at::K);
    for (; key < end; key += KEYS) {
        cp_async_wait();
        __syncthreads(); /* this tile is loaded, and the one before was read */
        if (key + KEYS < end) load_keys<T, HEAD>(j, base + at::stage(key + KEYS), head, key + KEYS);
        if (mine < my_end && key < my_end && first_key(j, mine) < key + KEYS) {
            const int      lane = reload_thread() % WARP;
            const uint32_t tile = base + at::stage(key), down = lane_down<HEAD>(lane);
            float          s[ROWS16][KEYS / 8][4] = {};
            uint32_t       p[ROWS16][KEYS / 16][4];
            qk_mma<T, HEAD, ROWS16, KEYS>(s, base + (mine - first) * at::PITCH + down,
                                          tile + lane_across<HEAD>(lane));
            if (my_end < mine + ROWS || key + KEYS - 1 > mine || key < first_key(j, my_end - 1))
                apply_mask(s, mine, key, lane, [&](int query) { return keys_seen(j, query); });
            online_softmax<T, HEAD, CAP>(f, m, s, p, out);
            pv_mma<T, HEAD, ROWS16, KEYS>(out, p, tile + at::V + down);
        }
    }
    if (mine < j.rows)
        finish<T, HEAD, CAP>(j, f, m, out, shared + (mine - first) * at::PITCH, head, mine);
}

/* ---- launchers ------------------------------------------------------------------------------- */

bool ms_cuda_attention_mma_supports(ms_device *d, const ms_cuda_attn *x, bool backward)
{
    const ms_mat *all[]  = { &x->q, &x->k, &x->v, &x->out, &x->dout, &x->dq, &x->dk, &x->dv };
    const int64_t blocks = (x->q.rows - 1) / KEYS + 1;
    const float   rate   = exponent_of(fabs(x->a.scale), x->a.softcap).rate;
    if (x->q.dtype != MUSEC_BF16 && x->q.dtype != MUSEC_F16) return false;
    if (x->q.cols != 64 && x->q.cols != 128) return false;
    if (x->q.rows > ATTN_ROWS_MAX || x->q.count > INT32_MAX / blocks) return false;
    if (!std::isnormal(rate) || ms_cuda_of(d)->shared_bytes < MMA_SHARED_MAX) return false;
    for (int i = 0; i < (backward ? 8 : 4); i++)
        if (all[i]->ptrs != NULL || !is_vector(all[i])) return false;
    return true;
}

template <typename T, int HEAD, bool CAP>
static musec_status attend(ms_device *d, const attn_job &j, const forward &f)
{
    const int          bytes  = layout<HEAD>::BYTES;
    const unsigned     blocks = (unsigned)(((j.rows - 1) / QUERIES + 1) * j.heads);
    const musec_status st     = allow_shared(d, attend_k<T, HEAD, CAP>, bytes);
    static_assert(layout<HEAD>::BYTES <= MMA_SHARED_MAX, "what ..._supports asks for");
    if (st != MUSEC_OK) return st;
    attend_k<T, HEAD, CAP><<<blocks, MMA_THREADS, bytes, ms_cuda_of(d)->stream>>>(j, f);
    return launched(d, "attention");
}

musec_status ms_cuda_attention_mma(ms_device *d, const ms_cuda_attn *x)
{
    const attn_job j = job_of(x);
    forward        f;
    f.scale = fabs(j.scale);
    f.flip  = j.scale < 0.0;
    f.cap   = (float)j.softcap;
    f.e     = exponent_of(f.scale, j.softcap);
    return by_head(j.dtype, j.head, [&](auto t, auto head) {
        typedef decltype(t) T;
        constexpr int       HEAD = decltype(head)::value;
        return f.cap > 0.0f ? attend<T, HEAD, true>(d, j, f) : attend<T, HEAD, false>(d, j, f);
    });
}
