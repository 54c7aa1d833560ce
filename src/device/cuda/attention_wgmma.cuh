/* attention_wgmma.cuh - what the Hopper kernels of attention and its gradient are made of: tiles,
 * their products, weights as fragments, rows to memory.
 *
 * A tile is SIDE rows of one head in shared memory, in swizzled tiles of 64 columns (hopper.cuh),
 * as TMA leaves them; rows beyond the end are zeros.  As it lies it is a K-major operand, for
 * products with another tile's rows, and an MN-major one, for products with weights.
 *
 * An accumulator of 64 x 64, rounded and packed two numbers to a register, is the left operand of
 * the next product: FRAGMENTS fragments of 16 columns each, of which a warp has 16 rows and a lane
 * four registers.  They are stored to memory in that form, each lane's 16 bytes after those of the
 * lane before, so that nothing is rearranged when they are written, and little when they are read:
 * with each block of 8 x 8 transposed (movmatrix), they are fragments of the transpose. */
#ifndef MS_DEVICE_CUDA_ATTENTION_WGMMA_CUH
#define MS_DEVICE_CUDA_ATTENTION_WGMMA_CUH

#include "device/cuda/attention.cuh"
#include "device/cuda/attention_workspace.h"
#include "device/cuda/wgmma.cuh"

enum {
    SIDE      = MS_ATTN_SIDE, /* rows of a tile */
    FRAGMENTS = SIDE / 16,    /* of a warp, across a tile of weights */
    WEIGHTS   = MS_ATTN_TILE, /* bytes of such a tile */
};

template <int HEAD> struct tile_of {
    static constexpr int BYTES = SIDE * HEAD * 2;
};

struct grad_args {
    attn_job j;            /* its window is at most the longest reach of a query */
    float    rate;         /* of a product, gives the logit in base 2 */
    int      first, heads; /* the heads of this launch */
    int      tiles;        /* of rows */
    int      reach;        /* the most tiles of queries that see a tile of keys */
    float   *lse, *delta;  /* (heads x tiles x SIDE), lse in base 2 */
    int     *last;         /* (rows) the last query that sees a key */
    int     *work_counter; /* blocks of keys begun so far */
    uint4   *ds;           /* (heads x tiles of keys x reach) tiles of fragments of dS^T */
};

/* Returns the index of a query's logsumexp and D among those of its tile: the 16 that a thread
 * uses, of columns 8 j + 2 (lane % 4) and the next, lie together. */
static __device__ inline int place_in_tile(int row)
{
    return row % 8 / 2 * 16 + row / 8 * 2 + row % 2;
}

/* Does x lie as TMA takes it? */
static inline bool has_tma_layout(const ms_mat &x)
{
    return x.ptrs == NULL && is_vector(&x) && x.ld > 0 && (x.count == 1 || x.stride > 0);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- instructions ---------------------------------------------------------------------------- */

/* Has the compiler make the fragments here, not one by one between the MMAs that use them. */
static __device__ inline void fence_fragments(uint32_t (&w)[FRAGMENTS][4])
{
#pragma unroll
    for (int i = 0; i < FRAGMENTS * 4; i++)
        asm volatile("" : "+r"(w[i / 4][i % 4])::"memory");
}

/* Returns the tile of dS^T of these tiles of keys and queries. */
static __device__ inline char *weights_at(const grad_args &g, int head, int keys, int queries)
{
    const int64_t tile = ((int64_t)head * g.tiles + keys) * g.reach + (queries - keys);
    return (char *)g.ds + tile * WEIGHTS;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Loads the tile at `to` with the rows from `row` on. */
template <int HEAD>
static __device__ inline void load_tile(uint32_t to, const CUtensorMap *map, int row, int head,
                                        uint32_t barrier)
{
#pragma unroll
    for (int c = 0; c < HEAD / 64; c++)
        tma_load(to + c * SMEM_TILE, map, c * 64, row, head, barrier);
}

/* d <- X Y^T, the MMA of queries and keys */
template <typename T, int HEAD>
static __device__ inline void qk_mma(float (&d)[32], uint32_t x, uint32_t y)
{
    const uint64_t of_x = smem_descriptor(x), of_y = smem_descriptor(y);
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) {
        const uint64_t at = (uint64_t)(k / 4 * (SMEM_TILE / 16)) + k % 4 * descriptor_k16(K_MAJOR);
        wgmma<T, SIDE, K_MAJOR, K_MAJOR>(d, of_x + at, of_y + at, k > 0);
    }
}

/* d <- W Y, or d + W Y: the MMA of weights and values */
template <typename T, int N>
static __device__ inline void pv_mma(float (&d)[N], const uint32_t (&w)[FRAGMENTS][4], uint32_t y,
                                     bool accumulate)
{
    const uint64_t of_y = smem_descriptor(y);
#pragma unroll
    for (int k = 0; k < FRAGMENTS; k++)
        wgmma<T>(d, w[k], of_y + k * descriptor_k16(MN_MAJOR), accumulate || k > 0);
}

/* ---- pipeline -------------------------------------------------------------------------------- */

/* Threads, not only MMAs, read stages, and each thread releases a stage for itself.  One arrival
 * for each warp would save a few cycles, but compute-sanitizer could not follow it. */

static __device__ inline void release_stage(const pipeline &p, uint32_t stage)
{
    mbarrier_arrive(p.empty + MBARRIER * stage);
}

/* Releases the next n stages unread. */
template <int Stages>
static __device__ inline void skip_stages(const pipeline &p, pipeline_state<Stages> *from, int n)
{
#pragma unroll 1
    for (; n > 0; n--, ++*from) {
        wait_full(p, *from);
        release_stage(p, from->index);
    }
}

/* ---- rows to memory -------------------------------------------------------------------------- */

/* Stores a warpgroup's 64 rows to rows first, first + 1, ... of a head, up to row `rows`, a
 * thread's upper row times factor[0] and its lower one times factor[1].  Two lanes exchange words
 * of two blocks of 8 columns, so that four lanes write 32 contiguous bytes.  me: the thread's
 * number in its warpgroup */
template <typename T, int N>
static __device__ inline void store_tile(const float (&d)[N], const float (&factor)[2],
                                         const head_stack &to, int head, int first, int rows,
                                         uint32_t me)
{
    const int  lane = (int)me % WARP, row = first + (int)me / WARP * 16 + lane / 4;
    const bool odd = lane % 2 != 0;
    T         *at = (T *)to.data + head * to.stride + row * to.ld + lane % 2 * 8 + lane % 4 / 2 * 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const bool there = row + h * 8 < rows;
#pragma unroll
        for (int j = 0; j < N / 4; j += 2) {
            const int      e     = 4 * j + 2 * h;
            const uint32_t left  = pack_pair<T>(d[e] * factor[h], d[e + 1] * factor[h]);
            const uint32_t right = pack_pair<T>(d[e + 4] * factor[h], d[e + 5] * factor[h]);
            const uint32_t other = __shfl_xor_sync(ALL_LANES, odd ? left : right, 1);
            if (there)
                *(uint2 *)(at + h * 8 * to.ld + j * 8) =
                    make_uint2(odd ? other : left, odd ? right : other);
        }
    }
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
