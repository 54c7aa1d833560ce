/* attention_wgmma_grad.cu - the gradients of attention on Hopper: heads of 64 or 128 columns of 16
 * bits.
 *
 * With P = exp(z - lse) and D = <dO, O> of a row,
 *     dS = P (dO V^T - D),  dV = P^T dO,  dK = scale dS^T Q,  dQ = scale dS K.
 * One kernel has blocks for keys and walks over the queries that see them.  It works on the
 * transposes, so that weights come out as operands of dV and dK, and stores dS^T in the layout of
 * its registers.  A second kernel has blocks for queries and adds up dQ from dS and K.  So nothing
 * is computed twice, and no sum is shared by two blocks: the order of additions is fixed.  dS takes
 * two bytes for each pair, rounded up to tiles; where those of all heads would be too many, heads
 * are computed in chunks, one after the other.
 *
 * Products are summed in float32; P and dS are rounded to the operands' dtype.  The mask is applied
 * only in tiles that an edge (the diagonal, the window, a document) crosses.  Queries beyond the
 * end have a logsumexp of infinity, and so no weight. */
#include <cmath>

#include "device/cuda/attention_wgmma_keys.cuh"
#include "device/cuda/attention_wgmma_queries.cuh"
#include "device/cuda/tensor_map.cuh"

enum {
    PREPARE_THREADS = 256,
    PREPARE_BLOCKS  = 1024,  /* of a head, at most */
    HEADS_MAX       = 65535, /* of a grid's second dimension */
};

/* ---- D, and the last query that sees a key --------------------------------------------------- */

template <typename T, int HEAD>
static __global__ void prepare_k(const __grid_constant__ grad_args g, int *work_counter)
{
    constexpr int   LANES = HEAD / VECTOR, AT_ONCE = 2; /* lanes of a row; rows of a thread */
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
                sum += __shfl_xor_sync(ALL_LANES, sum, half);
            if (lane != 0 || row >= end) continue;
            if (row < j.rows) lse = ((const float *)j.lse.data)[head * j.lse.stride + row] * LOG2_E;
            const int64_t to = (int64_t)head * end + row / SIDE * SIDE + place_in_tile(row % SIDE);
            g.delta[to]      = sum;
            g.lse[to]        = lse;
        }
    }
    if (head > 0) return;
    const int me = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    for (int row = me; row < j.rows; row += (int)(gridDim.x * blockDim.x))
        g.last[row] = last_query(j, row);
    if (me < MS_ATTN_CHUNKS) work_counter[me] = 0;
}

/* ---- host ------------------------------------------------------------------------------------ */

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

static musec_status kernels_usable(ms_device *d, bool *usable)
{
    const void *all[8];
    for (int i = 0; i < 4; i++) {
        const kernel_set of =
            kernels_for(i / 2 == 0 ? MUSEC_BF16 : MUSEC_F16, i % 2 == 0 ? 64 : 128);
        all[2 * i]     = (const void *)of.keys;
        all[2 * i + 1] = (const void *)of.queries;
    }
    return is_usable(d, MS_CUDA_ATTENTION_GRAD, all, 8, by_key<128>::BYTES, usable);
}

/* Returns how many rows back a query sees at most. */
static int64_t reach_of(const ms_cuda_attn *x)
{
    int64_t rows = x->q.rows - 1;
    if (x->a.longest > 0 && x->a.longest - 1 < rows) rows = x->a.longest - 1;
    return x->a.window < rows ? x->a.window : rows;
}

static int64_t heads_at_once(const ms_cuda_attn *x)
{
    const int64_t most =
        (int64_t)((uint64_t)MS_ATTN_DS_MAX / ms_attn_ds_bytes(x->q.rows, reach_of(x)));
    if (most == 0) return 0;
    const int64_t times = (x->q.count - 1) / most + 1;
    return (x->q.count - 1) / times + 1;
}

/* Are heads of this kind supported?  Planning asks before there are operands. */
static musec_status supports_heads(ms_device *d, musec_dtype dtype, int64_t head, double softcap,
                                   bool *supported)
{
    *supported = false;
    if (dtype != MUSEC_BF16 && dtype != MUSEC_F16) return MUSEC_OK;
    if ((head != 64 && head != 128) || softcap > 0.0) return MUSEC_OK;
    return kernels_usable(d, supported);
}

uint64_t ms_device_cuda_attn_workspace(ms_device *d, ms_attn_shape p)
{
    bool supported = false; /* the call that this is planned for reports a failure */
    if (supports_heads(d, p.dtype, p.head, p.softcap, &supported) != MUSEC_OK || !supported)
        return 0;
    return ms_attn_grad_max_bytes(p.heads, p.rows, p.reach);
}

static bool supports_shape(const ms_cuda_attn *x)
{
    const ms_mat *all[] = { &x->q, &x->k, &x->v, &x->out, &x->dout, &x->dq, &x->dk, &x->dv };
    const float   rate  = (float)(x->a.scale * 1.4426950408889634);
    if (x->q.rows > ATTN_ROWS_MAX || x->q.count > HEADS_MAX) return false;
    if (x->q.count > INT32_MAX / ms_attn_tiles(x->q.rows)) return false;
    if (!std::isnormal(rate)) return false;
    for (int i = 0; i < 8; i++)
        if (!has_tma_layout(*all[i])) return false;
    const int64_t at_once = heads_at_once(x);
    return at_once > 0 && (x->q.count - 1) / at_once < MS_ATTN_CHUNKS;
}

musec_status ms_cuda_attention_wgmma_grad_supports(ms_device *d, const ms_cuda_attn *x,
                                                   bool *supported)
{
    const musec_status st = supports_heads(d, x->q.dtype, x->q.cols, x->a.softcap, supported);
    if (*supported) *supported = supports_shape(x);
    return st;
}

static musec_status launch(ms_device *d, grad_args g, const kernel_set &of, int *work_counter,
                           int at_once, const CUtensorMap (&maps)[4])
{
    const cudaStream_t stream   = ms_cuda_of(d)->stream;
    const int          n_keys   = (g.tiles - 1) / KEY_GROUPS + 1;
    const int          n_blocks = (g.tiles - 1) / QUERY_GROUPS + 1;
    const int          wanted   = g.tiles < PREPARE_BLOCKS ? g.tiles : PREPARE_BLOCKS;
    of.prepare<<<dim3((unsigned)wanted, (unsigned)g.j.heads), PREPARE_THREADS, 0, stream>>>(
        g, work_counter);
    musec_status st = launched(d, "attention_grad: delta");
    for (int chunk = 0; g.first < g.j.heads && st == MUSEC_OK; chunk++, g.first += at_once) {
        g.heads              = at_once < g.j.heads - g.first ? at_once : g.j.heads - g.first;
        g.work_counter       = work_counter + chunk;
        const int      items = n_keys * g.heads, most = ms_cuda_of(d)->sm_count;
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
    const ms_mat  *of[4] = { &x->q, &x->k, &x->v, &x->dout };
    const ms_cuda *cuda  = ms_cuda_of(d);
    const ms_mark  mark  = ms_arena_mark(&d->scratch);
    const int64_t  rows = x->q.rows, reach = reach_of(x);
    const size_t   tiles   = (size_t)ms_attn_tiles(rows);
    const size_t   at_once = (size_t)heads_at_once(x);
    const size_t   stats   = (size_t)ms_attn_stat_bytes(x->q.count, rows);
    const size_t bytes[] = { stats, stats, tiles * SIDE * sizeof(int), MS_ATTN_CHUNKS * sizeof(int),
                             at_once * (size_t)ms_attn_ds_bytes(rows, reach) };
    void        *scratch[5] = {};
    grad_args    g          = {};
    CUtensorMap  maps[4];
    musec_status st = MUSEC_OK;
    for (int i = 0; i < 4; i++) /* has_tma_layout ensures that TMA takes them */
        if (!make_tensor_map(cuda, *of[i], SIDE, &maps[i]))
            return ms_fail(&d->error, MUSEC_EDEVICE, "%s: attention_grad: no tensor map", d->name);
    for (int i = 0; i < 5 && st == MUSEC_OK; i++)
        st = ms_scratch_bytes(d, bytes[i], &scratch[i]);
    if (st == MUSEC_OK) {
        g.j        = job_of(x);
        g.j.window = (int)reach;
        g.rate     = (float)(x->a.scale * 1.4426950408889634);
        g.tiles    = (int)tiles;
        g.reach    = (int)ms_attn_reach_tiles(rows, reach);
        g.lse      = (float *)scratch[0];
        g.delta    = (float *)scratch[1];
        g.last     = (int *)scratch[2];
        g.ds       = (uint4 *)scratch[4];
        st =
            launch(d, g, kernels_for(x->q.dtype, x->q.cols), (int *)scratch[3], (int)at_once, maps);
    }
    ms_arena_reset(&d->scratch, mark);
    return st;
}
