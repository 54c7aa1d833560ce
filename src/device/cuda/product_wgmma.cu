/* product_wgmma.cu - products of 16-bit operands by Hopper's tensor cores, batched, with what rides
 * on them (product_wgmma.cuh, product_tile.cuh).
 *
 * The copy engine takes addresses and strides that are multiples of 16 bytes, and stacks, not
 * lists.  A product that is not so is not served, nor is one on a chip of another kind: a program
 * that was not compiled for compute capability 9.0a has an empty kernel here, known by the shared
 * memory that it does not ask for. */
#include "device/cuda/product.h"
#include "device/cuda/product_tile.cuh"

/* ---- the kernel ------------------------------------------------------------------------------ */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <bool Bf16, bool ALines, bool BLines>
static __device__ inline void make_tile(const product_args &p, const tile &at, uint32_t group,
                                        const ring &r, cursor *from, outlet *to, double *room)
{
    const spot    up        = { 0, threadIdx.x % GROUP / WARP, threadIdx.x % WARP };
    const spot    low       = { 1, up.warp, up.lane };
    const factors by        = { (float)number_at(p.alpha, at.b),
                         p.has_z ? (float)number_at(p.beta, at.b) : 0.0f,
                                (float)number_at(p.diag, at.b) };
    float         upper[64] = {}, lower[64] = {};
    multiply_tile<Bf16, ALines, BLines>(upper, lower, p, group, r, from);
    double trace = finish_half(upper, p, at, up, by, group, r, from);
    trace += finish_half(lower, p, at, low, by, group, r, from);
    if (p.sumsq != NULL)
        put_sum(sum_squares(upper, p, at, up) + sum_squares(lower, p, at, low), room,
                p.sumsq + at.sums);
    if (p.trace != NULL) put_sum(trace, room + GROUP / WARP, p.trace + at.sums);
    put_tile<Bf16>(upper, lower, p, at, up, low, to);
}

#endif

template <bool Bf16, bool ALines, bool BLines>
static __global__ void __launch_bounds__(THREADS, 1)
    product_k(const __grid_constant__ product_args p, const __grid_constant__ CUtensorMap a,
              const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap z,
              const __grid_constant__ CUtensorMap c)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint4 memory[];
    __shared__ uint64_t     barriers[2 * STAGES];
    __shared__ double       room[2][2 * GROUP / WARP];
    const uint32_t          warp  = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);
    const uint32_t          group = warp / (GROUP / WARP);
    const ring r    = { (shared_address(memory) + 1023u) / 1024 * 1024, shared_address(barriers),
                        shared_address(barriers + STAGES) };
    cursor     here = { 0, 0 };

    if (threadIdx.x == WORKERS) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(r.full + 8 * s, 1);
            barrier_init(r.empty + 8 * s, WORKERS / WARP);
        }
        barrier_inits_done();
        prefetch_map(&a), prefetch_map(&b), prefetch_map(&c);
    }
    __syncthreads();
    begin_after_last();
    if (group == 2) {
        fewer_registers<40>();
        if (warp == WORKERS / WARP)
            for (int64_t n = next_pair(p, blockIdx.x); n < p.all_pairs;
                 n         = next_pair(p, n + gridDim.x))
                load_tiles<ALines, BLines>(p, place_of(p, n), r, &here, &a, &b, &z);
    } else {
        more_registers<232>();
        outlet to = { r.memory + STAGES * SLOT + group * AREA, 0, &c };
        for (int64_t n = next_pair(p, blockIdx.x); n < p.all_pairs;
             n         = next_pair(p, n + gridDim.x)) {
            const place two = place_of(p, n);
            const int   i   = two.i + (int)group;
            const tile  at  = { two.b, i, two.j, i == two.j, 2 * n + group };
            if (group == 0 ? two.has[0] : two.has[1]) {
                make_tile<Bf16, ALines, BLines>(p, at, group, r, &here, &to, room[group]);
                continue;
            }
            if (threadIdx.x % GROUP == 0 && p.sumsq != NULL) p.sumsq[at.sums] = 0.0;
            if (threadIdx.x % GROUP == 0 && p.trace != NULL) p.trace[at.sums] = 0.0;
            pass_by(p, r, &here);
        }
        if (threadIdx.x % GROUP == 0) stores_read<0>();
    }
#endif
}

/* ---- the host's side ------------------------------------------------------------------------- */

typedef void (*product_kernel)(product_args, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap);

/* by: bf16, lines of a along memory, lines of b along memory */
static const product_kernel kernels[2][2][2] = {
    { { product_k<false, false, false>, product_k<false, false, true> },
      { product_k<false, true, false>, product_k<false, true, true> } },
    { { product_k<true, false, false>, product_k<true, false, true> },
      { product_k<true, true, false>, product_k<true, true, true> } },
};

/* Of tiles of a matrix: see place_of. */
static int64_t pairs_of(const product_args &p)
{
    int64_t       pairs = 0;
    const int64_t T     = p.down;
    if (!p.symmetric) return (T + 1) / 2 * p.across;
    for (int64_t j = 0; j < T; j++)
        pairs += (T - j + 1) / 2;
    return pairs;
}

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

static musec_status launch(ms_device *d, const product_args &args, const ms_product *p,
                           CUtensorMap (&maps)[4])
{
    const bool           b_lines = !p->b.trans, a_lines = p->a.trans;
    const product_kernel k      = kernels[p->a.dtype == MUSEC_BF16][a_lines][b_lines];
    const unsigned       blocks = (unsigned)at_most(args.all_pairs, ms_cuda_of(d)->processors);
    launch_kernel(d, k, blocks, THREADS, ROOM, args, maps[0], maps[1], maps[2], maps[3]);
    musec_status st = launched(d, "product");
    if (st != MUSEC_OK) return st;
    st = ms_cuda_product_sums(d, args.sumsq, 2 * args.pairs, p->when, p->sumsq);
    if (st != MUSEC_OK) return st;
    return ms_cuda_product_sums(d, args.trace, 2 * args.pairs, p->when, p->trace);
}

musec_status ms_cuda_product_wgmma(ms_device *d, const ms_product *p, bool *served)
{
    const int64_t most = INT32_MAX - TILE;
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_cuda      *cuda = ms_cuda_of(d);
    product_args  args = {};
    CUtensorMap   maps[4];
    ms_vec        part[2] = {};
    musec_status  st      = MUSEC_OK;

    *served = false;
    if (!cuda->asked) cuda->encode = (void (*)(void))prepare(cuda);
    cuda->asked = true;
    if (cuda->encode == NULL || ms_dtype_bytes(p->a.dtype) != 2) return MUSEC_OK;
    if (p->c.rows > most || p->c.cols > most || p->a.cols > most) return MUSEC_OK;
    const bool has_z = p->z.data != NULL;
    if (p->c.trans || (has_z && (p->z.trans || p->z.dtype == MUSEC_F64))) return MUSEC_OK;
    const encode_fn encode = (encode_fn)cuda->encode;
    if (!describe_boxes(encode, p->a, p->a.trans ? (int)SLICE : (int)TILE, &maps[0]) ||
        !describe_boxes(encode, p->b, p->b.trans ? (int)TILE : (int)SLICE, &maps[1]) ||
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
    args.alpha     = number_of(p->alpha);
    args.beta      = number_of(p->beta);
    args.diag      = number_of(p->diag);
    args.when      = p->when.data;
    args.pairs     = pairs_of(args);
    args.all_pairs = args.pairs * p->c.count;
    if (args.pairs > INT32_MAX || p->c.count > INT32_MAX) return MUSEC_OK;
    if (p->sumsq.data != NULL) st = ms_scratch_vec(d, p->c.count * 2 * args.pairs, &part[0]);
    if (p->trace.data != NULL && st == MUSEC_OK)
        st = ms_scratch_vec(d, p->c.count * 2 * args.pairs, &part[1]);
    args.sumsq = part[0].data;
    args.trace = part[1].data;
    if (st == MUSEC_OK) st = launch(d, args, p, maps);
    ms_arena_reset(&d->scratch, mark);
    *served = true;
    return st;
}
