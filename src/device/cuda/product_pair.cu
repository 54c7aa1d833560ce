/* product_pair.cu - products of 16-bit operands by Hopper's tensor cores, as product_wgmma.cu has
 * them, by pairs of blocks that share an operand (product_pair.cuh, product_strip.cuh).
 *
 * Its products run at 96 percent of the tensor cores' rate where those of product_wgmma.cu reach
 * 80, and it makes less of what lies above the diagonal; but a tile is twice as large and takes
 * 8000 cycles to finish and to begin the next.  So it is for symmetric products with long sums: of
 * 2048 x 2048 it needs 0.83 of the other's time, of 768 x 768 1.2 (bench/results/h200.md). */
#include "device/cuda/product.h"
#include "device/cuda/product_strip.cuh"

/* ---- the kernel ------------------------------------------------------------------------------ */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <bool Bf16, bool ALines, bool BLines>
static __device__ inline void make_strip(const pair_args &p, const strip &at, uint32_t group,
                                         const ring &r, cursor *from, outlet *to, double *room)
{
    const spot    me       = { threadIdx.x % GROUP / WARP, threadIdx.x % WARP };
    const factors by       = { (float)number_at(p.alpha, at.b),
                         p.has_z ? (float)number_at(p.beta, at.b) : 0.0f,
                               (float)number_at(p.diag, at.b) };
    float         d[4][32] = {};
    switch (at.quadrants) {
    case 4: multiply_slices<Bf16, ALines, BLines, 4>(d, p, group, r, from); break;
    case 3: multiply_slices<Bf16, ALines, BLines, 3>(d, p, group, r, from); break;
    case 2: multiply_slices<Bf16, ALines, BLines, 2>(d, p, group, r, from); break;
    case 1: multiply_slices<Bf16, ALines, BLines, 1>(d, p, group, r, from); break;
    default: pass_by(p, r, from); break;
    }
    const sums sum = finish_strip(d, p, at, by, me, group, r, from);
    put_strip<Bf16>(d, p, at, me, group, r, from, to);
    if (p.sumsq != NULL) put_sum(sum.squares, room, p.sumsq + at.sums);
    if (p.trace != NULL) put_sum(sum.trace, room, p.trace + at.sums);
}

/* Where a strip of the block has its area and barriers. */
static __device__ inline outlet outlet_of(const ring &r, uint32_t which)
{
    const uint32_t more = r.empty + 8 * STAGES; /* barriers after the ring's */
    outlet         to   = {};
    to.area             = r.memory + STAGES * SLOT + which * AREA;
    to.area_free        = more + 8 * which;
    to.written          = more + 8 * (2 + PORTIONS * which);
    return to;
}

/* Sets up what the warps share. */
static __device__ inline void prepare_block(const ring &r)
{
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(r.full + 8 * s, 1);
            barrier_init(r.empty + 8 * s, CLUSTER * WORKERS / WARP);
        }
        for (int g = 0; g < 2; g++) {
            barrier_init(outlet_of(r, g).area_free, 1);
            for (int i = 0; i < PORTIONS; i++)
                barrier_init(outlet_of(r, g).written + 8 * i, GROUP / WARP);
        }
        barrier_inits_done();
    }
    cluster_sync();
}

#endif

template <bool Bf16, bool ALines, bool BLines>
static __global__ void __launch_bounds__(THREADS, 1)
    pair_k(const __grid_constant__ pair_args p, const __grid_constant__ CUtensorMap a,
           const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap z,
           const __grid_constant__ CUtensorMap c)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint4 memory[];
    __shared__ uint64_t     barriers[2 * STAGES + 2 + 2 * PORTIONS];
    __shared__ double       room[2][GROUP / WARP];
    const uint32_t          warp  = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);
    const uint32_t          group = warp / (GROUP / WARP);
    const uint32_t          start = (shared_address(memory) + 1023u) / 1024 * 1024;
    const uint32_t          mine  = shared_address(barriers);
    const uint32_t          of    = warp - WORKERS / WARP - 1; /* the strip of a storing warp */
    const uint32_t          there = in_block(mine + 8 * STAGES, threadIdx.x % CLUSTER);
    const ring              r     = { start, mine, mine + 8 * STAGES, there, cluster_rank() };
    cursor                  here  = { 0, 0 };
    uint32_t                round = 0;

    if (threadIdx.x == WORKERS) prefetch_map(&a), prefetch_map(&b), prefetch_map(&c);
    prepare_block(r);
    begin_after_last();
    if (group == 2) {
        fewer_registers<40>();
        if (warp == WORKERS / WARP) {
            for (int64_t n = next_tile(p, &round); n >= 0; n = next_tile(p, &round))
                load_tile<ALines, BLines>(p, n, r, &here, &a, &b, &z);
        } else if (of < 2 && p.portions > 0) {
            const outlet to     = outlet_of(r, of);
            uint32_t     parity = 0;
            for (int64_t n = next_tile(p, &round); n >= 0; n = next_tile(p, &round))
                store_strip(p, strip_of(p, n, r.rank, of), of, r, &here, to, &parity, &c);
        }
    } else {
        more_registers<232>();
        outlet to = outlet_of(r, group);
        for (int64_t n = next_tile(p, &round); n >= 0; n = next_tile(p, &round))
            make_strip<Bf16, ALines, BLines>(p, strip_of(p, n, r.rank, group), group, r, &here, &to,
                                             room[group]);
    }
    cluster_sync(); /* the other block may still write here, or arrive */
#endif
}

/* ---- the host's side ------------------------------------------------------------------------- */

typedef void (*product_kernel)(pair_args, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap);

/* by: bf16, lines of a along memory, lines of b along memory */
static const product_kernel kernels[2][2][2] = {
    { { pair_k<false, false, false>, pair_k<false, false, true> },
      { pair_k<false, true, false>, pair_k<false, true, true> } },
    { { pair_k<true, false, false>, pair_k<true, false, true> },
      { pair_k<true, true, false>, pair_k<true, true, true> } },
};

/* NULL if the kernels cannot be used.  Each needs more shared memory than a block has unasked. */
static encode_fn prepare(const ms_cuda *c)
{
    if (c->capability != 90 || c->shared_bytes < ROOM) return NULL;
    for (int i = 0; i < 8; i++) {
        cudaFuncAttributes   is;
        const product_kernel k = kernels[i / 4][i / 2 % 2][i % 2];
        if (cudaFuncGetAttributes(&is, (const void *)k) != cudaSuccess || is.sharedSizeBytes == 0 ||
            cudaFuncSetAttribute((const void *)k, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 ROOM) != cudaSuccess) {
            (void)cudaGetLastError();
            return NULL;
        }
    }
    return find_encode();
}

static musec_status launch(ms_device *d, const pair_args &args, const ms_product *p,
                           CUtensorMap (&maps)[4])
{
    const bool           b_lines = !p->b.trans, a_lines = p->a.trans;
    const product_kernel k = kernels[p->a.dtype == MUSEC_BF16][a_lines][b_lines];
    launch_clusters(d, k, CLUSTER, args.clusters * CLUSTER, THREADS, ROOM, args, maps[0], maps[1],
                    maps[2], maps[3]);
    musec_status st = launched(d, "product");
    if (st != MUSEC_OK) return st;
    st = ms_cuda_product_sums(d, args.sumsq, 4 * args.tiles, p->when, p->sumsq);
    if (st != MUSEC_OK) return st;
    return ms_cuda_product_sums(d, args.trace, 4 * args.tiles, p->when, p->trace);
}

musec_status ms_cuda_product_pair(ms_device *d, const ms_product *p, bool *served)
{
    const int64_t most = INT32_MAX - TILE;
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_cuda      *cuda = ms_cuda_of(d);
    pair_args     args = {};
    CUtensorMap   maps[4];
    ms_vec        part[2] = {};
    musec_status  st      = MUSEC_OK;

    *served = false;
    if (!cuda->asked_pair) cuda->encode_pair = (void (*)(void))prepare(cuda);
    cuda->asked_pair = true;
    if (cuda->encode_pair == NULL || ms_dtype_bytes(p->a.dtype) != 2) return MUSEC_OK;
    if (p->c.rows > most || p->c.cols > most || p->a.cols > most) return MUSEC_OK;
    const bool has_z = p->z.data != NULL;
    if (p->c.trans || (has_z && (p->z.trans || p->z.dtype == MUSEC_F64))) return MUSEC_OK;
    const encode_fn encode = (encode_fn)cuda->encode_pair;
    if (!describe_boxes(encode, p->a, QUAD, &maps[0]) ||
        !describe_boxes(encode, p->b, p->b.trans ? TILE / 2 : SLICE, &maps[1]) ||
        !describe_boxes(encode, has_z ? p->z : p->c, BOX_ROWS, &maps[2]) ||
        !describe_boxes(encode, p->c, BOX_ROWS, &maps[3]))
        return MUSEC_OK;

    args.m         = (int)p->c.rows;
    args.n         = (int)p->c.cols;
    args.slices    = (int)((p->a.cols - 1) / SLICE + 1);
    args.down      = (args.m - 1) / TILE + 1;
    args.across    = (args.n - 1) / TILE + 1;
    args.symmetric = p->symmetric;
    args.c_wide    = p->c.dtype == MUSEC_F32;
    args.has_z     = has_z;
    args.z_dtype   = p->z.dtype;
    args.z_slots   = !has_z ? 0 : p->z.dtype == MUSEC_F32 ? 4 : 2;
    args.in_slot   = args.c_wide ? 2 : 3;
    args.portions  = !args.symmetric ? (args.c_wide ? 0 : 2) : args.c_wide ? 4 : 3;
    args.c         = args.c_wide ? (float *)p->c.data : NULL;
    args.c_ld      = p->c.ld;
    args.c_stride  = p->c.stride;
    args.alpha     = number_of(p->alpha);
    args.beta      = number_of(p->beta);
    args.diag      = number_of(p->diag);
    args.when      = p->when.data;
    args.tiles =
        p->symmetric ? (int64_t)args.down * (args.down + 1) / 2 : (int64_t)args.down * args.across;
    if (args.tiles > INT32_MAX || p->c.count > INT32_MAX) return MUSEC_OK;
    args.all_tiles = args.tiles * p->c.count;
    args.clusters  = (uint32_t)at_most(args.all_tiles, cuda->processors / CLUSTER);
    if (args.all_tiles / args.clusters > INT32_MAX) return MUSEC_OK;
    if (p->sumsq.data != NULL) st = ms_scratch_vec(d, p->c.count * 4 * args.tiles, &part[0]);
    if (p->trace.data != NULL && st == MUSEC_OK)
        st = ms_scratch_vec(d, p->c.count * 4 * args.tiles, &part[1]);
    args.sumsq = part[0].data;
    args.trace = part[1].data;
    if (st == MUSEC_OK) st = launch(d, args, p, maps);
    ms_arena_reset(&d->scratch, mark);
    *served = true;
    return st;
}
