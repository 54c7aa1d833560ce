/* hopper_gemm_epilogue.cuh - the epilogue of the GEMM for Hopper: from accumulators to c.
 *
 * The source operand comes through the pipeline like further k-tiles.  Subtiles of c are stored
 * through shared memory.  In 32 bits four lanes fill a sector of memory: the 2x1 policy then writes
 * c directly, and only mirrored subtiles go through shared memory.
 *
 * Of a symmetric product, subtiles below the diagonal are stored twice, as they are and
 * mirrored.  In a subtile on the diagonal this holds for its 8 x 8 blocks; blocks on the diagonal
 * are mirrored from their lower half, and those above are not stored. */
#ifndef MS_DEVICE_CUDA_HOPPER_GEMM_EPILOGUE_CUH
#define MS_DEVICE_CUDA_HOPPER_GEMM_EPILOGUE_CUH

#include "device/cuda/hopper_gemm.cuh"

enum { STORE_STAGES = 4 }; /* the most that a warpgroup tile has */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct consumer_thread { /* a thread's place in its warpgroup */
    uint32_t warpgroup, warp, lane;
};

/* ---- accumulators ---------------------------------------------------------------------------- */

/* Where beta is 0, even a NaN of the source is ignored. */
static __device__ inline float with_source(float alpha, float d, float beta, float source)
{
    return fmaf(beta, beta != 0.0f ? source : 0.0f, alpha * d);
}

static __device__ inline swizzled_address pairs_of_f32(const consumer_thread &me, uint32_t smem)
{
    return swizzled(smem, me.warp * 16 + me.lane / 4, me.lane % 4 * 8);
}

/* d <- alpha d + beta source.  T is float, whose subtile takes two shared memory tiles of 32
 * columns, or a type of 16 bits. */
template <typename T>
static __device__ inline void add_source_subtile(float (&d)[32], float alpha, float beta,
                                                 const consumer_thread &me, uint32_t smem)
{
    const swizzled_address in = sizeof(T) == 4
                                    ? pairs_of_f32(me, smem)
                                    : swizzled(smem, me.warp * 16 + me.lane / 4, me.lane % 4 * 4);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t rows = h * 8 * SMEM_ROW_BYTES;
            float2         source;
            if constexpr (sizeof(T) == 4)
                source = load_shared_f32x2(in.at(j / 4 * SMEM_TILE + rows, j % 4 * 32));
            else
                source = unpack_pair<T>(load_shared_b32(in.at(rows, j * 16)));
            d[4 * j + 2 * h]     = with_source(alpha, d[4 * j + 2 * h], beta, source.x);
            d[4 * j + 2 * h + 1] = with_source(alpha, d[4 * j + 2 * h + 1], beta, source.y);
        }
}

/* Adds the source from its stages and releases them. */
template <typename P>
static __device__ inline void add_source(float (&d)[SUBTILES][32], const gemm_args &g, float alpha,
                                         float beta, const consumer_thread &me,
                                         const gemm_pipeline &p, gemm_state *from)
{
    const musec_dtype dtype  = g.epilogue.source_dtype;
    const bool        is_f32 = dtype == MUSEC_F32;
#pragma unroll
    for (int q = 0; q < SUBTILES; q++) {
        const uint32_t stage = p.stage(*from) + 2 * me.warpgroup * SMEM_TILE;
        if (is_f32 || q % 2 == 0) wait_full(p, *from);
        if (dtype == MUSEC_BF16)
            add_source_subtile<__nv_bfloat16>(d[q], alpha, beta, me, stage + q % 2 * SMEM_TILE);
        else if (dtype == MUSEC_F16)
            add_source_subtile<__half>(d[q], alpha, beta, me, stage + q % 2 * SMEM_TILE);
        else
            add_source_subtile<float>(d[q], alpha, beta, me, stage);
        if (!is_f32 && q % 2 == 0) continue;
        __syncwarp(); /* the whole warp has read the stage */
        release_stage_if<P>(p, from->index, true);
        ++*from;
    }
}

/* Makes an 8 x 8 block on the diagonal symmetric from its lower half: this lane has x = (r, c) and
 * y = (r, c + 1); their mirror images are in lanes 4 c + r / 2 and 4 later. */
static __device__ inline void mirror_block(float &x, float &y, int r, int c)
{
    const float left0 = __shfl_sync(ALL_LANES, x, 4 * c + r / 2);
    const float left1 = __shfl_sync(ALL_LANES, y, 4 * c + r / 2);
    const float next0 = __shfl_sync(ALL_LANES, x, 4 * c + 4 + r / 2);
    const float next1 = __shfl_sync(ALL_LANES, y, 4 * c + 4 + r / 2);
    if (r < c) x = r % 2 == 0 ? left0 : left1;
    if (r < c + 1) y = r % 2 == 0 ? next0 : next1;
}

/* Adds diag to a subtile on the diagonal, where c is symmetric mirrors the blocks on it, and
 * returns its trace. */
static __device__ inline double finish_diagonal(float (&d)[32], const gemm_problem &g,
                                                bool symmetric, float diag, int row,
                                                const consumer_thread &me)
{
    const int here = (int)me.warp * 2; /* block row of h = 0 */
    const int rows = (g.m < g.n ? g.m : g.n) - row;
    const int r = (int)me.lane / 4, c = (int)me.lane % 4 * 2;
    double    trace = 0.0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int e = 4 * j + 2 * (j % 2); /* `here` is even, so block j is on it for h = j % 2 */
        if (j / 2 * 2 == here) {
            if (symmetric) mirror_block(d[e], d[e + 1], r, c);
            const bool inside = 8 * j + r < rows;
            if (r == c && inside) d[e] += diag, trace = (double)d[e] + trace;
            if (r == c + 1 && inside) d[e + 1] += diag, trace = (double)d[e + 1] + trace;
        }
    }
    return trace;
}

/* Clears elements beyond the last row and column, which need not be 0 where an operand is not
 * finite. */
static __device__ inline void clear_outside(float (&d)[32], const gemm_problem &g, int row, int col,
                                            const consumer_thread &me)
{
    const int rows = g.m - row - (int)(me.warp * 16 + me.lane / 4);
    const int cols = g.n - col - (int)(me.lane % 4 * 2);
    if (g.m - row >= SUBTILE && g.n - col >= SUBTILE) return;
#pragma unroll
    for (int e = 0; e < 32; e++)
        if (e / 2 % 2 * 8 >= rows || e / 4 * 8 + e % 2 >= cols) d[e] = 0.0f;
}

/* Returns twice the sum of squares of N subtiles side by side.  Where c is symmetric, blocks below
 * the diagonal count twice, and those above, which are not what c holds, not at all; `here` is the
 * first block of row h = 0 that is not below. */
template <int N> static __device__ inline double sum_squares_f64(const float (*d)[32], int here)
{
    double sum[2] = {};
#pragma unroll
    for (int j = 0; j < 8 * N; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float *at = &d[j / 8][4 * (j % 8) + 2 * h];
            const double x = (double)at[0], y = (double)at[1], two = x * x + y * y;
            sum[h] += j < here + h ? 2.0 * two : j == here + h ? two : 0.0;
        }
    return sum[0] + sum[1];
}

/* Sums in float32 where no square leaves its range: conversions to float64 are slow.  A saturating
 * addition gives half of a block's weight of 2, 1 or 0; selections would take twice as many
 * instructions, and the first tile of a launch has to fetch them. */
template <int N> static __device__ inline double sum_squares(const float (*d)[32], int here)
{
    const float from   = 0.5f * (float)(here + 1);
    float       sum[2] = {};
#pragma unroll
    for (int j = 0; j < 8 * N; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float *at = &d[j / 8][4 * (j % 8) + 2 * h];
            sum[h] += __saturatef(from + 0.5f * (float)(h - j)) * (at[0] * at[0] + at[1] * at[1]);
        }
    const float fast = 2.0f * (sum[0] + sum[1]);
    return fast > 1e-24f && fast < 1e36f ? (double)fast : sum_squares_f64<N>(d, here);
}

struct factors {
    float alpha, beta, diag;
};

/* Loads the factors of a matrix.  It is called before the main loop, which hides the latency. */
static __device__ inline factors factors_of(const gemm_epilogue &e, int b)
{
    return { (float)number_at(e.alpha, b), e.has_source ? (float)number_at(e.beta, b) : 0.0f,
             (float)number_at(e.diag, b) };
}

struct partial_sums {
    double squares, trace;
};

/* Turns the accumulators into c and returns its partial sums. */
template <typename P>
static __device__ inline partial_sums finish_tile(float (&d)[SUBTILES][32], const gemm_args &g,
                                                  const warpgroup_tile &t, const factors &by,
                                                  const consumer_thread &me, const gemm_pipeline &p,
                                                  gemm_state *from)
{
    const gemm_epilogue &e   = g.epilogue;
    partial_sums         sum = {};
    if (e.has_source)
        add_source<P>(d, g, by.alpha, by.beta, me, p, from);
    else {
#pragma unroll
        for (int i = 0; i < SUBTILES * 32; i++)
            d[i / 32][i % 32] *= by.alpha;
    }
#pragma unroll
    for (int q = 0; q < SUBTILES; q++)
        if (computes<P>(t, q)) {
            const int row = row_of<P>(t, q), col = col_of<P>(t, q), last = P::SUM_ACROSS - 1;
            if (row == col)
                sum.trace += finish_diagonal(d[q], g.problem, is_symmetric<P>(g), by.diag, row, me);
            clear_outside(d[q], g.problem, row, col, me);
            if (e.sumsq == NULL || q % P::SUM_ACROSS != last) continue;
            const bool crosses = P::SUM_ACROSS == 1 ? row == col : t.row == t.col;
            const int  here    = is_symmetric<P>(g) && crosses
                                     ? (row - col) / 8 + last * (SUBTILE / 8) + (int)me.warp * 2
                                     : P::SUM_ACROSS * (SUBTILE / 8);
            sum.squares += sum_squares<P::SUM_ACROSS>(&d[q - last], here);
        }
    if (!is_symmetric<P>(g)) sum.squares *= 0.5;
    return sum;
}

/* Stores those sums over the warpgroup that are wanted; `room` is its own.  Without store warps,
 * store_tile has a barrier after this, which all pass before they write to `room` again. */
template <typename P>
static __device__ inline void store_sums(partial_sums sum, const gemm_epilogue &e, int64_t partial,
                                         const consumer_thread &me,
                                         double (&room)[2][WARPGROUP_WARPS])
{
    const int barrier = 1 + (int)me.warpgroup;
    if (e.sumsq == NULL && e.trace == NULL) return;
    sum.squares = warp_sum(sum.squares);
    sum.trace   = warp_sum(sum.trace);
    if (P::STORE_WARPS) named_barrier_sync(barrier, WARPGROUP); /* the previous sums were read */
    if (me.lane == 0) room[0][me.warp] = sum.squares, room[1][me.warp] = sum.trace;
    named_barrier_sync(barrier, WARPGROUP);
    if (me.warp != 0 || me.lane >= 2) return;
    double *const to = me.lane == 0 ? e.sumsq : e.trace;
    const double *x  = room[me.lane];
    if (to != NULL) to[partial] = x[0] + x[1] + x[2] + x[3];
}

/* ---- subtiles to shared memory --------------------------------------------------------------- */

/* Writes a subtile as it is, or transposed: row c of the shared memory tile is its column c. */
template <typename T, bool Transposed>
static __device__ inline void write_subtile(const float (&d)[32], const consumer_thread &me,
                                            uint32_t smem)
{
    const swizzled_address to =
        Transposed
            ? swizzled(smem, me.lane / 16 * 8 + me.lane % 8, me.warp * 32 + me.lane / 8 % 2 * 16)
            : swizzled(smem, me.warp * 16 + me.lane % 16, me.lane / 16 * 16);
#pragma unroll
    for (int j = 0; j < 8; j += 2)
        stmatrix_x4<Transposed>(
            Transposed ? to.at(j * 8 * SMEM_ROW_BYTES, 0) : to.at(0, j * 16),
            pack_pair<T>(d[4 * j], d[4 * j + 1]), pack_pair<T>(d[4 * j + 2], d[4 * j + 3]),
            pack_pair<T>(d[4 * j + 4], d[4 * j + 5]), pack_pair<T>(d[4 * j + 6], d[4 * j + 7]));
}

/* Writes a subtile on the diagonal: its blocks on and below the diagonal as they are, those below
 * it also transposed. */
template <typename T>
static __device__ inline void write_diagonal_subtile(const float (&d)[32],
                                                     const consumer_thread &me, uint32_t smem)
{
    const int              here       = (int)me.warp * 2; /* block row of h = 0 */
    const swizzled_address to         = swizzled(smem, me.warp * 16 + me.lane % 8, 0);
    const swizzled_address transposed = swizzled(smem, me.lane % 8, me.warp * 32);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t two = pack_pair<T>(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]);
            if (j <= here + h) stmatrix_x1<false>(to.at(h * 8 * SMEM_ROW_BYTES, j * 16), two);
            if (j < here + h) stmatrix_x1<true>(transposed.at(j * 8 * SMEM_ROW_BYTES, h * 16), two);
        }
}

/* Writes a subtile in 32 bits, to two tiles of 32 columns. */
static __device__ inline void write_subtile_f32(const float (&d)[32], const consumer_thread &me,
                                                uint32_t smem)
{
    const swizzled_address to = pairs_of_f32(me, smem);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            store_shared(to.at(j / 4 * SMEM_TILE + h * 8 * SMEM_ROW_BYTES, j % 4 * 32),
                         d[4 * j + 2 * h], d[4 * j + 2 * h + 1]);
}

/* Writes a subtile transposed in 32 bits, to two tiles of 32 columns.  A subtile on the diagonal is
 * written as by write_diagonal_subtile. */
template <bool Diagonal>
static __device__ inline void write_transposed_f32(const float (&d)[32], const consumer_thread &me,
                                                   uint32_t smem)
{
    const uint32_t         byte = (me.warp % 2 * 16 + me.lane / 4) * 4, col = me.lane % 4 * 2;
    const uint32_t         tile = smem + me.warp / 2 * SMEM_TILE;
    const swizzled_address even = swizzled(tile, col, byte), odd = swizzled(tile, col + 1, byte);
    const swizzled_address to   = pairs_of_f32(me, smem);
    const int              here = Diagonal ? (int)me.warp * 2 : SUBTILE / 8;
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float x = d[4 * j + 2 * h], y = d[4 * j + 2 * h + 1];
            if (Diagonal && j <= here + h)
                store_shared(to.at(j / 4 * SMEM_TILE + h * 8 * SMEM_ROW_BYTES, j % 4 * 32), x, y);
            if (j < here + h) {
                store_shared(even.at(j * 8 * SMEM_ROW_BYTES, h * 32), x);
                store_shared(odd.at(j * 8 * SMEM_ROW_BYTES, h * 32), y);
            }
        }
}

/* Stores a subtile of 32 bits straight to memory. */
static __device__ inline void store_f32(const float (&d)[32], const gemm_args &g, int b, int row,
                                        int col, const consumer_thread &me)
{
    const gemm_problem  &n = g.problem;
    const gemm_epilogue &e = g.epilogue;
    const int  i = row + (int)(me.warp * 16 + me.lane / 4), first = col + (int)me.lane % 4 * 2;
    const bool whole = n.m - row >= SUBTILE && n.n - col >= SUBTILE;
    float     *to    = e.c + b * e.c_stride + i * e.c_ld + first;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float2 two = { d[4 * j + 2 * h], d[4 * j + 2 * h + 1] };
            float       *x   = to + h * 8 * e.c_ld + 8 * j;
            if (whole || (i + 8 * h < n.m && first + 8 * j + 1 < n.n))
                *(float2 *)x = two;
            else if (i + 8 * h < n.m && first + 8 * j < n.n)
                *x = two.x;
        }
}

/* ---- epilogue store pipeline ----------------------------------------------------------------- */

/* A consumer acquires shared memory for a subtile, writes the subtile and commits it.
 *
 * Without store warps the consumer's first thread has TMA store from the staging buffer, which
 * holds two subtiles of 16 bits or one of 32.
 *
 * With store warps, one for each consumer, shared memory comes in store stages: the first is the
 * staging buffer, others are stages of the main loop's pipeline.  When a store stage is full, the
 * store warp has TMA store it and then releases it, so that the consumer need not wait. */
struct store_pipeline {
    uint32_t staging, staging_free; /* addresses: of the buffer, and of its mbarrier */
    uint32_t written;               /* address of the mbarriers of the store stages */
    uint32_t uses;                  /* of the staging buffer */
    int      stages;                /* store stages begun for this tile */
    int      left;                  /* free tiles of shared memory in the last one */
    uint32_t next;                  /* address of the next tile */
};

/* Returns the store pipeline of a consumer, whose mbarriers lie after the main loop's. */
static __device__ inline store_pipeline store_pipeline_of(const gemm_pipeline &p, uint32_t which)
{
    const uint32_t more = p.empty + MBARRIER * STAGES;
    store_pipeline to   = {};
    to.staging          = p.smem + STAGES * STAGE_BYTES + which * STAGING;
    to.staging_free     = more + MBARRIER * which;
    to.written          = more + MBARRIER * (2 + STORE_STAGES * which);
    return to;
}

/* Returns the address of a store stage: each consumer has half of a stage of the main loop's
 * pipeline. */
static __device__ inline uint32_t store_stage(const gemm_pipeline &p, const gemm_state &at,
                                              uint32_t warpgroup)
{
    return p.stage(at) + warpgroup * (STAGE_BYTES / 2);
}

/* Passes a store stage to the store warp, by all threads of the consumer. */
static __device__ inline void commit_store_stage(const store_pipeline &to)
{
    tma_store_fence();
    __syncwarp();
    mbarrier_arrive_if(to.written + MBARRIER * (to.stages - 1), threadIdx.x % WARP == 0);
}

/* Waits for the memory of the next store stage and begins it. */
static __device__ inline void acquire_store_stage(const gemm_args &g, const consumer_thread &me,
                                                  const gemm_pipeline &p, gemm_state *from,
                                                  store_pipeline *to)
{
    if (to->stages++ == 0) {
        mbarrier_wait(to->staging_free, (to->uses++ & 1u) ^ 1u);
        to->next = to->staging;
        to->left = STAGING / SMEM_TILE;
        return;
    }
    wait_full(p, *from);
    to->next = store_stage(p, *from, me.warpgroup);
    to->left = g.epilogue.stage_subtiles;
    ++*from;
}

/* Returns the address of the next `tiles` tiles of shared memory, once they are free. */
template <typename P>
static __device__ inline uint32_t store_acquire(const gemm_args &g, int tiles,
                                                const consumer_thread &me, const gemm_pipeline &p,
                                                gemm_state *from, store_pipeline *to)
{
    if constexpr (!P::STORE_WARPS) {
        if (me.warp == 0 && me.lane == 0) {
            if (tiles == 2)
                tma_store_wait_read<0>();
            else
                tma_store_wait_read<1>();
        }
        named_barrier_sync(1 + (int)me.warpgroup, WARPGROUP);
        return to->staging + (tiles == 2 ? 0 : to->uses % 2 * SMEM_TILE);
    } else {
        if (to->left == 0) {
            if (to->stages > 0) commit_store_stage(*to);
            acquire_store_stage(g, me, p, from, to);
        }
        const uint32_t smem = to->next;
        to->next += (uint32_t)tiles * SMEM_TILE;
        to->left -= tiles;
        return smem;
    }
}

/* Stores the tiles written at `smem` to c, from (row, col) on. */
template <typename P>
static __device__ inline void store_commit(int tiles, const consumer_thread &me, uint32_t smem,
                                           int b, int row, int col, store_pipeline *to,
                                           const CUtensorMap *c)
{
    if constexpr (!P::STORE_WARPS) {
        tma_store_fence();
        named_barrier_sync(1 + (int)me.warpgroup, WARPGROUP);
        to->uses++;
        if (me.warp != 0 || me.lane != 0) return;
        tma_store(c, col, row, b, smem);
        if (tiles == 2) tma_store(c, col + SUBTILE / 2, row, b, smem + SMEM_TILE);
        tma_store_commit();
    }
}

/* Ends a warpgroup tile.  With store warps, it fills up its number of store stages by empty
 * ones. */
template <typename P>
static __device__ inline void store_end(const gemm_args &g, const consumer_thread &me,
                                        const gemm_pipeline &p, gemm_state *from,
                                        store_pipeline *to)
{
    if constexpr (P::STORE_WARPS) {
        if (to->stages > 0) commit_store_stage(*to);
        while (to->stages < g.epilogue.store_stages) {
            acquire_store_stage(g, me, p, from, to);
            commit_store_stage(*to);
        }
        to->stages = to->left = 0;
    }
}

/* Stores c, and where it is symmetric the mirrored subtiles.  Both dtypes take one path, and only
 * subtiles that can lie above the diagonal ask whether they do: otherwise the compiler does not see
 * that coordinates and addresses are the same in all lanes, and makes a loop over the lanes of each
 * TMA store, which costs 200 cycles. */
template <typename P, typename T>
static __device__ inline void store_tile(const float (&d)[SUBTILES][32], const gemm_args &g,
                                         const warpgroup_tile &t, const consumer_thread &me,
                                         const gemm_pipeline &p, gemm_state *from,
                                         store_pipeline *to, const CUtensorMap *c)
{
    const bool symmetric = is_symmetric<P>(g), is_f32 = g.epilogue.c_is_f32;
    const int  tiles = is_f32 ? 2 : 1; /* of shared memory for a subtile */
#pragma unroll
    for (int q = 0; q < SUBTILES; q++) {
        const int  row = row_of<P>(t, q), col = col_of<P>(t, q);
        const bool diagonal = symmetric && row == col;
        if (!computes<P>(t, q)) continue;
        if (P::DOWN > 1 && q / P::ACROSS < q % P::ACROSS && symmetric && row < col) continue;
        if (P::STORE_WARPS && is_f32 && !diagonal)
            store_f32(d[q], g, t.b, row, col, me);
        else {
            const uint32_t smem = store_acquire<P>(g, tiles, me, p, from, to);
            if (diagonal && is_f32)
                write_transposed_f32<true>(d[q], me, smem);
            else if (diagonal)
                write_diagonal_subtile<T>(d[q], me, smem);
            else if (!P::STORE_WARPS && is_f32)
                write_subtile_f32(d[q], me, smem);
            else
                write_subtile<T, false>(d[q], me, smem);
            store_commit<P>(tiles, me, smem, t.b, row, col, to, c);
        }
        if (!symmetric || diagonal) continue;
        const uint32_t smem = store_acquire<P>(g, tiles, me, p, from, to);
        if (is_f32)
            write_transposed_f32<false>(d[q], me, smem);
        else
            write_subtile<T, true>(d[q], me, smem);
        store_commit<P>(tiles, me, smem, t.b, col, row, to, c);
    }
    store_end<P>(g, me, p, from, to);
}

/* ---- store warps ----------------------------------------------------------------------------- */

/* Stores the store stages of a warpgroup tile.  It releases the staging buffer last, so that the
 * consumer is never a whole tile ahead and no mbarrier completes two phases unseen.  Shared memory
 * tiles alternate: in 16 bits a subtile as it is and transposed, in 32 bits the halves of the
 * transposed one. */
template <typename P>
static __device__ inline void store_warp(const gemm_args &g, const warpgroup_tile &t,
                                         uint32_t warpgroup, const gemm_pipeline &p,
                                         gemm_state *from, const store_pipeline &to,
                                         uint32_t *phase, const CUtensorMap *c)
{
    const gemm_epilogue &e        = g.epilogue;
    const bool           diagonal = t.row < t.col + t.across * SUBTILE; /* its last subtile is */
    const int            tiles    = 2 * t.across - (diagonal && !e.c_is_f32 ? 1 : 0);
    from->advance((uint32_t)(g.problem.k_tiles + e.source_stages));
    for (int stage = 0, k = 0; stage < e.store_stages; stage++) {
        const bool own  = stage == 0;
        uint32_t   smem = own ? to.staging : store_stage(p, *from, warpgroup);
        const int  most = k + (own ? (int)STAGING / SMEM_TILE : e.stage_subtiles);
        const int  end  = tiles < most ? tiles : most;
        mbarrier_wait(to.written + MBARRIER * stage, *phase);
        for (; k < end; k++, smem += SMEM_TILE) {
            const int col = t.col + k / 2 * SUBTILE;
            if (e.c_is_f32)
                tma_store_elected(c, t.row + k % 2 * (SUBTILE / 2), col, t.b, smem);
            else if (k % 2 == 1)
                tma_store_elected(c, t.row, col, t.b, smem);
            else
                tma_store_elected(c, col, t.row, t.b, smem);
        }
        tma_store_commit();
        tma_store_wait_read<0>();
        __syncwarp();
        if (!own) {
            release_stage_if<P>(p, from->index, true, WARPGROUP_WARPS);
            ++*from;
        }
    }
    *phase ^= 1u;
    mbarrier_arrive_if(to.staging_free, threadIdx.x % WARP == 0);
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
