/* hopper_gemm_kernel.cuh - the GEMM for Hopper: its kernel, and the choice and launch of a policy's
 * kernels.
 *
 * TMA takes addresses and strides that are multiples of 16 bytes, and stacks, not pointer arrays.
 * Products of other operands are not handled, nor those on other chips (is_usable of
 * tensor_map.cuh). */
#ifndef MS_DEVICE_CUDA_HOPPER_GEMM_KERNEL_CUH
#define MS_DEVICE_CUDA_HOPPER_GEMM_KERNEL_CUH

#include "device/cuda/hopper_gemm_epilogue.cuh"
#include "device/cuda/product.h"
#include "device/cuda/tensor_map.cuh"

/* ---- kernel ---------------------------------------------------------------------------------- */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Initialises the mbarriers and makes them visible to the block or cluster. */
template <typename P> static __device__ inline void init_barriers(const gemm_pipeline &p)
{
    if (threadIdx.x == 0) {
        pipeline_init(p, STAGES, P::CLUSTER * CONSUMERS / WARP);
        for (uint32_t w = 0; P::STORE_WARPS && w < 2; w++) {
            const store_pipeline to = store_pipeline_of(p, w);
            mbarrier_init(to.staging_free, 1);
            for (int i = 0; i < STORE_STAGES; i++)
                mbarrier_init(to.written + MBARRIER * i, WARPGROUP_WARPS);
        }
        mbarrier_init_fence();
    }
    if (P::CLUSTER > 1)
        cluster_sync();
    else
        __syncthreads();
}

/* Computes and stores the tiles of a consumer warpgroup. */
template <typename P, typename T, major A, major B>
static __device__ inline void consume(const gemm_args &g, uint32_t warpgroup,
                                      const gemm_pipeline &p, double (&room)[2][WARPGROUP_WARPS],
                                      const CUtensorMap   *c)
{
    const consumer_thread me   = { warpgroup, threadIdx.x % WARPGROUP / WARP, threadIdx.x % WARP };
    const gemm_epilogue  &e    = g.epilogue;
    store_pipeline        to   = store_pipeline_of(p, warpgroup);
    gemm_state            from = { 0, 0 };
    for_each_tile<P>(g, [&](const gemm_tile &n) {
        const warpgroup_tile t               = P::part_of(g, n, warpgroup, p.rank);
        float                d[SUBTILES][32] = {};
        if (!P::STORE_WARPS && t.across == 0) {
            if (me.warp == 0 && me.lane == 0 && e.sumsq != NULL) e.sumsq[t.partial] = 0.0;
            if (me.warp == 0 && me.lane == 0 && e.trace != NULL) e.trace[t.partial] = 0.0;
            skip_stages<P>(p, g.problem.k_tiles + e.source_stages, &from);
            return;
        }
        const factors by = factors_of(e, t.b);
        main_loop<P, T, A, B>(d, g, t, warpgroup, p, &from);
        const partial_sums sum = finish_tile<P>(d, g, t, by, me, p, &from);
        if (!P::STORE_WARPS) store_sums<P>(sum, e, t.partial, me, room);
        store_tile<P, T>(d, g, t, me, p, &from, &to, c);
        if (P::STORE_WARPS) store_sums<P>(sum, e, t.partial, me, room);
    });
    if (!P::STORE_WARPS && me.warp == 0 && me.lane == 0) tma_store_wait_read<0>();
}

#endif

template <typename P, typename T, major A, major B>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_k(const __grid_constant__ gemm_args g, const __grid_constant__ CUtensorMap a,
           const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap source,
           const __grid_constant__ CUtensorMap c)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint4 dynamic[];
    __shared__ uint64_t     barriers[2 * STAGES + (P::STORE_WARPS ? 2 + 2 * STORE_STAGES : 0)];
    __shared__ double       room[2][2][WARPGROUP_WARPS]; /* of each consumer: two sums */
    const uint32_t          warp      = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0);
    const uint32_t          warpgroup = warp / WARPGROUP_WARPS, producer = CONSUMERS / WARP;
    gemm_state              at = { 0, 0 };
    gemm_pipeline           p;
    p.smem          = smem_tiles(dynamic);
    p.full          = smem_address(barriers);
    p.empty         = p.full + MBARRIER * STAGES;
    p.rank          = P::CLUSTER > 1 ? cluster_rank() : 0;
    p.cluster_empty = P::CLUSTER > 1 ? cluster_address(p.empty, threadIdx.x % P::CLUSTER) : 0;

    if (threadIdx.x == CONSUMERS)
        prefetch_tensor_map(&a), prefetch_tensor_map(&b), prefetch_tensor_map(&c);
    init_barriers<P>(p);
    pdl_wait_trigger();
    if (warpgroup < 2) {
        setmaxnreg_inc<232>();
        consume<P, T, A, B>(g, warpgroup, p, room[warpgroup], &c);
    } else {
        setmaxnreg_dec<40>();
        const uint32_t which = warp - producer - 1; /* the consumer of a store warp */
        if (warp == producer) {
            for_each_tile<P>(
                g, [&](const gemm_tile &n) { load_tile<P, A, B>(g, n, p, &at, &a, &b, &source); });
        } else if (P::STORE_WARPS && which < 2) {
            const store_pipeline to    = store_pipeline_of(p, which);
            uint32_t             phase = 0;
            for_each_tile<P>(g, [&](const gemm_tile &n) {
                store_warp<P>(g, P::part_of(g, n, which, p.rank), which, p, &at, to, &phase, &c);
            });
        }
    }
    if (P::CLUSTER > 1) cluster_sync(); /* the other block may still load to this one, or arrive */
#endif
}

/* ---- host ------------------------------------------------------------------------------------ */

typedef void (*gemm_kernel)(gemm_args, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap);

template <typename P, typename T> static gemm_kernel kernel_of(bool a_mn_major, bool b_mn_major)
{
    if (b_mn_major)
        return a_mn_major ? gemm_k<P, T, MN_MAJOR, MN_MAJOR> : gemm_k<P, T, K_MAJOR, MN_MAJOR>;
    if constexpr (!P::SYMMETRIC)
        if (a_mn_major) return gemm_k<P, T, MN_MAJOR, K_MAJOR>;
    return gemm_k<P, T, K_MAJOR, K_MAJOR>;
}

template <typename P> static gemm_kernel kernel_for(bool bf16, bool a_mn_major, bool b_mn_major)
{
    return bf16 ? kernel_of<P, __nv_bfloat16>(a_mn_major, b_mn_major)
                : kernel_of<P, __half>(a_mn_major, b_mn_major);
}

/* Fills in the problem, the schedule and the epilogue; false where the GEMM does not handle
 * them. */
template <typename P> static bool describe(const ms_cuda *cuda, const ms_product *p, gemm_args *g)
{
    const int64_t most = INT32_MAX - P::TILE, m = p->c.rows, n = p->c.cols, k = p->a.cols;
    const bool    has_source = p->source.data != NULL, c_is_f32 = p->c.dtype == MUSEC_F32;
    const bool    source_f32 = p->source.dtype == MUSEC_F32;
    if (ms_dtype_bytes(p->a.dtype) != 2 || m > most || n > most || k > most) return false;
    if (p->c.trans || (has_source && (p->source.trans || p->source.dtype == MUSEC_F64)))
        return false;
    if (P::SYMMETRIC && (!p->symmetric || (p->a.trans && p->b.trans))) return false;

    const int64_t down = (m - 1) / P::TILE + 1, across = (n - 1) / P::TILE + 1;
    const int64_t tiles = P::tiles(down, across, p->symmetric), total = tiles * p->c.count;
    const int64_t clusters = ms_min_i64(total, cuda->sm_count / P::CLUSTER);
    if (tiles > MAX_TILES || p->c.count > MAX_TILES || total > MAX_TILES) return false;
    g->problem  = { (int)m, (int)n, (int)((k - 1) / K_TILE + 1), p->symmetric, p->mask.data };
    g->schedule = { (int)down, (uint32_t)tiles, (uint32_t)total, (uint32_t)clusters,
                    (uint32_t)((total - 1) / clusters + 1) };

    gemm_epilogue &e = g->epilogue;
    e.alpha          = number_of(p->alpha);
    e.beta           = number_of(p->beta);
    e.diag           = number_of(p->diag);
    e.has_source     = has_source;
    e.c_is_f32       = c_is_f32;
    e.source_dtype   = p->source.dtype;
    e.source_stages  = !has_source ? 0 : source_f32 ? 4 : 2;
    e.store_stages   = !P::STORE_WARPS ? 0 : c_is_f32 ? 4 : 3;
    e.stage_subtiles = c_is_f32 ? 2 : 3;
    e.c              = c_is_f32 ? (float *)p->c.data : NULL;
    e.c_ld           = p->c.ld;
    e.c_stride       = p->c.stride;
    return true;
}

template <typename P>
static musec_status launch(ms_device *d, const gemm_args &g, const ms_product *p,
                           const CUtensorMap (&maps)[4])
{
    const gemm_kernel k = kernel_for<P>(p->a.dtype == MUSEC_BF16, p->a.trans, !p->b.trans);
    const int64_t     n = 2 * P::CLUSTER * g.schedule.tiles;
    musec_status      st;
    launch_clusters(d, k, P::CLUSTER, g.schedule.clusters * P::CLUSTER, THREADS, SMEM_BYTES, g,
                    maps[0], maps[1], maps[2], maps[3]);
    st = launched(d, "product");
    if (st == MUSEC_OK) st = ms_cuda_product_sums(d, g.epilogue.sumsq, n, p->mask, p->sumsq);
    if (st == MUSEC_OK) st = ms_cuda_product_sums(d, g.epilogue.trace, n, p->mask, p->trace);
    return st;
}

/* *handled: was the product supported, and launched unless the status is an error? */
template <typename P>
static musec_status run_gemm(ms_device *d, ms_cuda_hopper which, const ms_product *p, bool *handled)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_cuda      *cuda = ms_cuda_of(d);
    const void   *kernels[8];
    gemm_args     g = {};
    CUtensorMap   maps[4];
    ms_vec        partial[2] = {};
    bool          usable     = false;
    musec_status  st         = MUSEC_OK;

    for (int i = 0; i < 8; i++)
        kernels[i] = (const void *)kernel_for<P>(i / 4, i / 2 % 2, i % 2);
    *handled = false;
    st       = is_usable(d, which, kernels, 8, SMEM_BYTES, &usable);
    if (st != MUSEC_OK || !usable) return st;
    if (!describe<P>(cuda, p, &g)) return MUSEC_OK;
    if (!make_tensor_map(cuda, p->a, p->a.trans ? (int)K_TILE : P::DOWN * SUBTILE, &maps[0]) ||
        !make_tensor_map(cuda, p->b, p->b.trans ? (int)B_LINES : (int)K_TILE, &maps[1]) ||
        !make_tensor_map(cuda, p->source.data != NULL ? p->source : p->c, SMEM_ROWS, &maps[2]) ||
        !make_tensor_map(cuda, p->c, SMEM_ROWS, &maps[3]))
        return MUSEC_OK;
    const int64_t n = 2 * P::CLUSTER * g.schedule.total_tiles;
    if (p->sumsq.data != NULL) st = ms_scratch_vec(d, n, &partial[0]);
    if (p->trace.data != NULL && st == MUSEC_OK) st = ms_scratch_vec(d, n, &partial[1]);
    g.epilogue.sumsq = partial[0].data;
    g.epilogue.trace = partial[1].data;
    if (st == MUSEC_OK) st = launch<P>(d, g, p, maps);
    ms_arena_reset(&d->scratch, mark);
    *handled = true;
    return st;
}

#endif
