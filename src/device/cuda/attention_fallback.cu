/* attention_fallback.cu - attention and its gradients for any head and any dtype, in plain
 * arithmetic: float, or double where the operands are.
 *
 * A block owns OWN rows, EACH to a warp: queries forward and for dQ, keys for dK and dV.  It walks
 * over the rows that these see, or that see them, in tiles of TILE rows:
 *   dot_qk         a lane multiplies one row of the tile with each of the warp's own rows;
 *   accumulate_pv  a lane adds, in its columns, the weighted rows of the tile for each own row.
 * The tile is loaded to shared memory in pieces of DIMS columns; the own rows lie there transposed,
 * so that one load brings an element of each of a warp's rows.  The forward pass is online: sums
 * relative to a smaller maximum are scaled when it grows.  Backward, from the stored logsumexp,
 *     P = exp(z - lse),  dS = P (dO V^T - D) slope,  D = <dO, O>,
 *     dV = P^T dO,  dK = scale dS^T Q,  dQ = scale dS K,
 * with one kernel for dQ and one for dK and dV: each sum is made by one warp in the order of the
 * rows.  Heads beyond PART columns are computed in parts, each with all dot products again.
 *
 * NaN and infinity among the values spread to the rows that see them, and may spread to rows that
 * share a tile with those. */
#include "device/cuda/attention.cuh"

enum {
    EACH   = 4,  /* own rows of a warp */
    TILE   = 32, /* rows of a tile: one for each lane */
    DIMS   = 64, /* columns in shared memory at a time */
    PIECES = 4,  /* of DIMS columns, in a part */
    PART   = PIECES * DIMS,
    LANED  = DIMS / WARP, /* columns of a piece that a lane has */
};

template <typename Real> struct alignas(16) quad {
    Real x[EACH];
};

/* Fewer warps for double: a block has no more than the shared memory that needs no opt-in. */
template <typename Real> struct sizes {
    enum { WARPS = sizeof(Real) == 4 ? 8 : 4, OWN = WARPS * EACH, THREADS = WARPS * WARP };
};

template <typename Real> struct smem_layout {
    Real       tile[TILE][DIMS + 1];                 /* lanes in a column use all banks */
    quad<Real> own[2][DIMS][sizes<Real>::WARPS + 1]; /* of two operands; [column][warp].x[row] */
    quad<Real> weight[sizes<Real>::WARPS][TILE];     /* [warp][row of the tile].x[own row] */
};

struct work_item {         /* of a thread; all but lane is the same in a warp */
    int head, part, first; /* first: the block's first own row */
    int lane, warp, mine;  /* mine: the warp's first own row */
};

struct smem_contents { /* what is in shared memory now */
    const void *tile;
    int         tile_first, tile_piece, own_piece;
};

template <typename Real> static __device__ inline work_item work_item_here(const attn_job &j)
{
    work_item p;
    int       block  = (int)blockIdx.x;
    const int blocks = (j.rows - 1) / sizes<Real>::OWN + 1, parts = (j.head - 1) / PART + 1;
    p.first = (blocks - 1 - block % blocks) * sizes<Real>::OWN;
    block /= blocks;
    p.part = block % parts;
    p.head = block / parts;
    p.lane = (int)threadIdx.x % WARP;
    p.warp = (int)threadIdx.x / WARP;
    p.mine = p.first + p.warp * EACH;
    return p;
}

/* ---- shared memory --------------------------------------------------------------------------- */

template <typename Real>
static __device__ inline Real element(const attn_job &j, const head_stack &x, int head, int row,
                                      int col)
{
    if (row >= j.rows || col >= j.head) return (Real)0;
    return load<Real>(x.data, head * x.stride + row * x.ld + col, j.dtype);
}

/* Loads piece `piece` of rows first .. first + TILE - 1 of x, by all threads of the block. */
template <typename Real>
static __device__ inline void stage_tile(smem_layout<Real> &s, smem_contents &now,
                                         const attn_job &j, const work_item &p, const head_stack &x,
                                         int first, int piece)
{
    if (now.tile == x.data && now.tile_first == first && now.tile_piece == piece) return;
    __syncthreads(); /* the last contents were read */
    for (int i = (int)threadIdx.x; i < TILE * DIMS; i += sizes<Real>::THREADS) {
        const int row = i / DIMS, col = i % DIMS;
        s.tile[row][col] = element<Real>(j, x, p.head, first + row, piece * DIMS + col);
    }
    __syncthreads();
    now.tile       = x.data;
    now.tile_first = first;
    now.tile_piece = piece;
}

/* Loads piece `piece` of the block's own rows of a and b. */
template <typename Real>
static __device__ inline void stage_own(smem_layout<Real> &s, smem_contents &now, const attn_job &j,
                                        const work_item &p, const head_stack &a,
                                        const head_stack *b, int piece)
{
    if (now.own_piece == piece) return;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < sizes<Real>::OWN * DIMS; i += sizes<Real>::THREADS) {
        const int row = i / DIMS, col = i % DIMS;
        const int from = p.first + row, at = piece * DIMS + col;
        s.own[0][col][row / EACH].x[row % EACH] = element<Real>(j, a, p.head, from, at);
        if (b != NULL)
            s.own[1][col][row / EACH].x[row % EACH] = element<Real>(j, *b, p.head, from, at);
    }
    __syncthreads();
    now.own_piece = piece;
}

/* out[r] += the product of own row r of operand `which` with the lane's row of the tile, over the
 * columns of a piece that there are. */
template <typename Real>
static __device__ inline void dot_qk(const smem_layout<Real> &s, const work_item &p, int which,
                                     int cols, Real (&out)[EACH])
{
#pragma unroll 4
    for (int c = 0; c < cols; c++) {
        const Real       other = s.tile[p.lane][c];
        const quad<Real> own   = s.own[which][c][p.warp];
#pragma unroll
        for (int r = 0; r < EACH; r++)
            out[r] += own.x[r] * other;
    }
}

/* Shares the lane's weights, one for each own row, with all lanes of the warp. */
template <typename Real>
static __device__ inline void broadcast_weights(smem_layout<Real> &s, const work_item &p,
                                                const Real (&weight)[EACH])
{
    quad<Real> all;
#pragma unroll
    for (int r = 0; r < EACH; r++)
        all.x[r] = weight[r];
    __syncwarp(); /* the last ones are read */
    s.weight[p.warp][p.lane] = all;
    __syncwarp();
}

/* sum[r] += the weighted rows of the tile, columns of piece `piece` of the part. */
template <typename Real>
static __device__ inline void accumulate_pv(const smem_layout<Real> &s, const work_item &p,
                                            int piece, Real (&sum)[EACH][PIECES * LANED])
{
#pragma unroll 4
    for (int i = 0; i < TILE; i++) {
        const quad<Real> weight = s.weight[p.warp][i];
#pragma unroll
        for (int l = 0; l < LANED; l++) {
            const Real other = s.tile[i][l * WARP + p.lane];
#pragma unroll
            for (int r = 0; r < EACH; r++)
                sum[r][piece * LANED + l] += weight.x[r] * other;
        }
    }
}

/* Accumulates all pieces of the part of a tile of x, weighted by what was shared.  Warps without
 * weights (not `active`) only help to load. */
template <typename Real>
static __device__ inline void accumulate_pv_tiles(smem_layout<Real> &s, smem_contents &now,
                                                  const attn_job &j, const work_item &p,
                                                  const head_stack &x, int first, bool active,
                                                  Real (&sum)[EACH][PIECES * LANED])
{
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        if (p.part * PART + piece * DIMS >= j.head) break;
        stage_tile(s, now, j, p, x, first, p.part * PIECES + piece);
        if (active) accumulate_pv(s, p, piece, sum);
    }
}

static __device__ inline int pieces_of(const attn_job &j) { return (j.head - 1) / DIMS + 1; }
static __device__ inline int cols_of(const attn_job &j, int piece)
{
    return min(DIMS, j.head - piece * DIMS);
}

template <typename Real>
static __device__ inline void store_rows(const attn_job &j, const work_item &p, const head_stack &x,
                                         const Real (&factor)[EACH],
                                         const Real (&sum)[EACH][PIECES * LANED])
{
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        if (p.mine + r >= j.rows) return;
        const int64_t row = p.head * x.stride + (p.mine + r) * x.ld;
#pragma unroll
        for (int c = 0; c < PIECES * LANED; c++) {
            const int col = p.part * PART + c * WARP + p.lane;
            if (col < j.head) store<Real>(x.data, row + col, j.dtype, factor[r] * sum[r][c]);
        }
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

template <typename Real> static __device__ inline Real capped(const attn_job &j, Real logit)
{
    const Real cap = (Real)j.softcap;
    return cap > (Real)0 ? cap * tanh(logit / cap) : logit;
}

/* The state of a warp's queries; `sum` is the lane's share. */
template <typename Real> struct softmax {
    Real top[EACH], sum[EACH], most; /* most: the lane's largest logit */
};

/* Turns logits into weights relative to the largest so far, to which `out` is scaled. */
template <typename Real>
static __device__ inline void online_softmax(const attn_job &j, const span (&seen)[EACH], int key,
                                             softmax<Real> &m, Real (&logit)[EACH],
                                             Real (&out)[EACH][PIECES * LANED])
{
    const Real none = (Real)-CUDART_INF;
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const bool visible = has(seen[r], key);
        const Real raw     = (Real)j.scale * logit[r];
        const Real z       = visible ? capped(j, raw) : none;
        if (visible) m.most = max_nan(m.most, raw);
        const Real top  = max_nan(m.top[r], warp_max_nan(z));
        const Real from = top == none ? (Real)0 : top; /* nothing is visible yet */
        const Real old  = exp(m.top[r] - from);
        logit[r]        = visible ? exp(z - from) : (Real)0;
        m.sum[r]        = old * m.sum[r] + logit[r];
        m.top[r]        = top;
#pragma unroll
        for (int c = 0; c < PIECES * LANED; c++)
            out[r][c] *= old;
    }
}

template <typename Real>
static __device__ inline void finish(const attn_job &j, const work_item &p, softmax<Real> &m,
                                     const Real (&out)[EACH][PIECES * LANED])
{
    Real factor[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const Real sum = warp_sum(m.sum[r]);
        factor[r]      = (Real)1 / sum;
        if (p.mine + r < j.rows && p.lane == 0 && p.part == 0)
            store<Real>(j.lse.data, p.head * j.lse.stride + p.mine + r, j.wide,
                        m.top[r] + log(sum));
    }
    store_rows(j, p, j.out, factor, out);
    m.most = warp_max_nan(m.most);
    if (p.mine < j.rows && p.lane == 0 && p.part == 0)
        atomic_max_nan(&j.max_logit[p.head], (double)m.most);
}

template <typename Real>
static __global__ void __launch_bounds__(sizes<Real>::THREADS)
    attend_k(const __grid_constant__ attn_job j)
{
    __shared__ smem_layout<Real> s;
    const work_item              p    = work_item_here<Real>(j);
    const int                    last = min(p.first + sizes<Real>::OWN, j.rows) - 1;
    const int                    from = first_key(j, p.first);
    smem_contents                now  = { NULL, 0, 0, -1 };
    span                         seen[EACH], all = { j.rows, -1 };
    softmax<Real>                m;
    Real                         out[EACH][PIECES * LANED] = {};
    m.most                                                 = (Real)-CUDART_INF;
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        seen[r]  = keys_seen(j, p.mine + r);
        all      = { min(all.first, seen[r].first), max(all.last, seen[r].last) };
        m.top[r] = (Real)-CUDART_INF;
        m.sum[r] = (Real)0;
    }
    for (int first = from / TILE * TILE; first <= last; first += TILE) {
        const bool active      = all.first < first + TILE && all.last >= first;
        Real       logit[EACH] = {};
        for (int piece = 0; piece < pieces_of(j); piece++) {
            stage_own(s, now, j, p, j.q, NULL, piece);
            stage_tile(s, now, j, p, j.k, first, piece);
            if (active) dot_qk(s, p, 0, cols_of(j, piece), logit);
        }
        if (active) {
            online_softmax(j, seen, first + p.lane, m, logit, out);
            broadcast_weights(s, p, logit);
        }
        accumulate_pv_tiles(s, now, j, p, j.v, first, active, out);
    }
    finish(j, p, m, out);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* delta (heads x rows) <- <dout, out>, a warp for each; last (rows) <- the last query that sees a
 * key. */
template <typename Real>
static __global__ void prepare_k(const __grid_constant__ attn_job j, Real *delta, int32_t *last)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x / WARP, n = (int64_t)j.heads * j.rows;
    const int     lane = (int)threadIdx.x % WARP;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; i < n; i += step) {
        const int head = (int)(i / j.rows), row = (int)(i % j.rows);
        Real      sum = (Real)0;
        for (int c = lane; c < j.head; c += WARP)
            sum += element<Real>(j, j.dout, head, row, c) * element<Real>(j, j.out, head, row, c);
        sum = warp_sum(sum);
        if (lane != 0) continue;
        delta[i] = sum;
        if (head == 0) last[row] = last_query(j, row);
    }
}

/* Turns q.k and dout.v of a pair that sees each other into its weight p, and p times the gradient
 * of its logit. */
template <typename Real>
static __device__ inline void pair_grad(const attn_job &j, Real lse, Real delta, bool visible,
                                        Real &logit, Real &with_v)
{
    const Real z = capped(j, (Real)j.scale * logit), t = z / (Real)j.softcap;
    const Real slope = j.softcap > 0.0 ? (Real)1 - t * t : (Real)1;
    logit            = visible ? exp(z - lse) : (Real)0;
    with_v           = visible ? slope * logit * (with_v - delta) : (Real)0;
}

template <typename Real>
static __global__ void __launch_bounds__(sizes<Real>::THREADS)
    query_grad_k(const __grid_constant__ attn_job j, const Real *delta)
{
    __shared__ smem_layout<Real> s;
    const work_item              p    = work_item_here<Real>(j);
    const int                    last = min(p.first + sizes<Real>::OWN, j.rows) - 1;
    const int                    from = first_key(j, p.first);
    smem_contents                now  = { NULL, 0, 0, -1 };
    span                         seen[EACH], all = { j.rows, -1 };
    Real                         lse[EACH] = {}, own_delta[EACH] = {}, factor[EACH];
    Real                         dq[EACH][PIECES * LANED] = {};
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int row = p.mine + r;
        seen[r]       = keys_seen(j, row);
        all           = { min(all.first, seen[r].first), max(all.last, seen[r].last) };
        factor[r]     = (Real)j.scale;
        if (row < j.rows) {
            lse[r]       = load<Real>(j.lse.data, p.head * j.lse.stride + row, j.wide);
            own_delta[r] = delta[(int64_t)p.head * j.rows + row];
        }
    }
    for (int first = from / TILE * TILE; first <= last; first += TILE) {
        const bool active      = all.first < first + TILE && all.last >= first;
        Real       logit[EACH] = {}, with_v[EACH] = {};
        for (int piece = 0; piece < pieces_of(j); piece++) {
            stage_own(s, now, j, p, j.q, &j.dout, piece);
            stage_tile(s, now, j, p, j.v, first, piece);
            if (active) dot_qk(s, p, 1, cols_of(j, piece), with_v);
            stage_tile(s, now, j, p, j.k, first, piece);
            if (active) dot_qk(s, p, 0, cols_of(j, piece), logit);
        }
        if (active) {
#pragma unroll
            for (int r = 0; r < EACH; r++)
                pair_grad(j, lse[r], own_delta[r], has(seen[r], first + p.lane), logit[r],
                          with_v[r]);
            broadcast_weights(s, p, with_v);
        }
        accumulate_pv_tiles(s, now, j, p, j.k, first, active, dq);
    }
    store_rows(j, p, j.dq, factor, dq);
}

template <typename Real>
static __global__ void __launch_bounds__(sizes<Real>::THREADS)
    key_grad_k(const __grid_constant__ attn_job j, const Real *delta, const int32_t *last_of)
{
    __shared__ smem_layout<Real> s;
    const work_item              p    = work_item_here<Real>(j);
    const int                    last = last_of[min(p.first + sizes<Real>::OWN, j.rows) - 1];
    smem_contents                now  = { NULL, 0, 0, -1 };
    span                         seen_by[EACH], all = { p.mine, -1 };
    Real                         scale[EACH], one[EACH];
    Real                         dk[EACH][PIECES * LANED] = {}, dv[EACH][PIECES * LANED] = {};
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        seen_by[r] = { j.rows, -1 };
        scale[r]   = (Real)j.scale;
        one[r]     = (Real)1;
        if (p.mine + r < j.rows) {
            seen_by[r] = { p.mine + r, last_of[p.mine + r] };
            all.last   = seen_by[r].last;
        }
    }
    for (int first = p.first / TILE * TILE; first <= last; first += TILE) {
        const bool active      = all.first < first + TILE && all.last >= first;
        const int  query       = first + p.lane;
        Real       logit[EACH] = {}, with_v[EACH] = {};
        for (int piece = 0; piece < pieces_of(j); piece++) {
            stage_own(s, now, j, p, j.k, &j.v, piece);
            stage_tile(s, now, j, p, j.q, first, piece);
            if (active) dot_qk(s, p, 0, cols_of(j, piece), logit);
            stage_tile(s, now, j, p, j.dout, first, piece);
            if (active) dot_qk(s, p, 1, cols_of(j, piece), with_v);
        }
        if (active) {
            const bool there = query < j.rows;
            const Real lse =
                there ? load<Real>(j.lse.data, p.head * j.lse.stride + query, j.wide) : (Real)0;
            const Real its = there ? delta[(int64_t)p.head * j.rows + query] : (Real)0;
#pragma unroll
            for (int r = 0; r < EACH; r++)
                pair_grad(j, lse, its, has(seen_by[r], query), logit[r], with_v[r]);
            broadcast_weights(s, p, logit);
        }
        accumulate_pv_tiles(s, now, j, p, j.dout, first, active, dv);
        if (active) broadcast_weights(s, p, with_v);
        accumulate_pv_tiles(s, now, j, p, j.q, first, active, dk);
    }
    store_rows(j, p, j.dk, scale, dk);
    store_rows(j, p, j.dv, one, dv);
}

/* ---- launchers ------------------------------------------------------------------------------- */

template <typename Real> static int64_t blocks_of(const attn_job &j)
{
    const int64_t parts = (j.head - 1) / PART + 1;
    return ((j.rows - 1) / sizes<Real>::OWN + 1) * parts * j.heads;
}

/* Do the numbers of rows and of blocks fit their types? */
static musec_status check_size(ms_device *d, const ms_cuda_attn *x)
{
    const int64_t parts = (x->q.cols - 1) / PART + 1, least = sizes<double>::OWN;
    if (x->q.rows > ATTN_ROWS_MAX || x->q.cols > ATTN_ROWS_MAX || x->q.count > INT32_MAX ||
        (double)(x->q.rows / least + 1) * (double)parts * (double)x->q.count > (double)INT32_MAX)
        return ms_fail(&d->error, MUSEC_ENOTSUP,
                       "%s: attention over %lld heads of %lld x %lld is too large", d->name,
                       (long long)x->q.count, (long long)x->q.rows, (long long)x->q.cols);
    return MUSEC_OK;
}

template <typename Real> static musec_status attend(ms_device *d, const attn_job &j)
{
    const cudaStream_t stream = ms_cuda_of(d)->stream;
    const unsigned     blocks = (unsigned)blocks_of<Real>(j);
    attend_k<Real><<<blocks, sizes<Real>::THREADS, 0, stream>>>(j);
    return launched(d, "attention");
}

template <typename Real>
static musec_status attend_back(ms_device *d, const attn_job &j, Real *delta, int32_t *last)
{
    const cudaStream_t stream = ms_cuda_of(d)->stream;
    const unsigned     blocks = (unsigned)blocks_of<Real>(j);
    const int64_t      items  = (int64_t)j.heads * j.rows;
    musec_status       st;
    prepare_k<Real><<<blocks_for(d, items, 256 / WARP), 256, 0, stream>>>(j, delta, last);
    st = launched(d, "attention_grad: delta");
    if (st != MUSEC_OK) return st;
    query_grad_k<Real><<<blocks, sizes<Real>::THREADS, 0, stream>>>(j, delta);
    st = launched(d, "attention_grad: queries");
    if (st != MUSEC_OK) return st;
    key_grad_k<Real><<<blocks, sizes<Real>::THREADS, 0, stream>>>(j, delta, last);
    return launched(d, "attention_grad: keys");
}

musec_status ms_cuda_attention_fallback(ms_device *d, const ms_cuda_attn *x)
{
    const musec_status st = check_size(d, x);
    if (st != MUSEC_OK) return st;
    return x->q.dtype == MUSEC_F64 ? attend<double>(d, job_of(x)) : attend<float>(d, job_of(x));
}

musec_status ms_cuda_attention_fallback_grad(ms_device *d, const ms_cuda_attn *x)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const size_t  rows = (size_t)x->q.rows, each = ms_dtype_bytes(x->lse.dtype);
    void         *delta = NULL, *last = NULL;
    musec_status  st = check_size(d, x);
    if (st == MUSEC_OK) st = ms_scratch_bytes(d, (size_t)x->q.count * rows * each, &delta);
    if (st == MUSEC_OK) st = ms_scratch_bytes(d, rows * sizeof(int32_t), &last);
    if (st == MUSEC_OK)
        st = x->q.dtype == MUSEC_F64
                 ? attend_back<double>(d, job_of(x), (double *)delta, (int32_t *)last)
                 : attend_back<float>(d, job_of(x), (float *)delta, (int32_t *)last);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
