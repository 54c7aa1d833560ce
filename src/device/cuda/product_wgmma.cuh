/* product_wgmma.cuh - of the kernel of product_wgmma.cu: tiles, loads and products.
 *
 * A block makes tiles of 128 x 128 of c, two at a time, one below the other.  One warp has the
 * copy engine load slices of k into a ring of STAGES slots: of a for each tile, of b for both.  Two
 * warpgroups multiply what arrives, each for a tile of its own.  The tensor cores want 48 bytes in
 * a cycle then; of one tile alone they would want 64, all that a multiprocessor can take in.  The
 * warpgroups meet nowhere but in the ring, which goes on to the next tiles while these are finished
 * and stored. */
#ifndef MS_DEVICE_CUDA_PRODUCT_WGMMA_CUH
#define MS_DEVICE_CUDA_PRODUCT_WGMMA_CUH

#include "device/cuda/operand.cuh"
#include "device/cuda/wgmma.cuh"

enum {
    TILE    = 128, /* rows and columns */
    HALF    = 64,  /* rows of a tile that one instruction makes */
    STAGES  = 256 / SLICE,
    SLOT    = 6 * SLICE_BOX, /* two boxes of each tile's a, two of b */
    GROUP   = 128,           /* threads of a warpgroup */
    WORKERS = 2 * GROUP,
    THREADS = 3 * GROUP,                       /* the last warpgroup loads: a thread of it */
    AREA    = 2 * BOX,                         /* for a quadrant of c in 32 bits, or two in 16 */
    ROOM    = STAGES * SLOT + 2 * AREA + 1024, /* which it takes to begin at a multiple of 1024 */
};

struct product_args {
    int           m, n, slices; /* slices: of k */
    int           down, across; /* tiles of a matrix */
    int64_t       pairs;        /* of tiles of a matrix */
    int64_t       all_pairs;    /* of the stack */
    bool          symmetric, c_wide, has_z;
    musec_dtype   z_dtype;
    number        alpha, beta, diag;
    const double *when;
    double       *sumsq, *trace; /* (count, 2 pairs), of a tile each; NULL: not wanted */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct place { /* of two tiles: (i, j) and (i + 1, j) of matrix b */
    int  b, i, j;
    bool has[2]; /* is there such a tile to be made? */
};

/* Full: rows 2 r and 2 r + 1.  Symmetric: column j has the tiles j .. T - 1, which are paired from
 * the last one up; where one is left it is that on the diagonal. */
static __device__ inline place place_of(const product_args &p, int64_t number)
{
    const int pair = (int)(number % p.pairs), T = p.down;
    place     at;
    at.b = (int)(number / p.pairs);
    if (p.symmetric) {
        int n = pair;
        for (at.j = 0; n >= (T - at.j + 1) / 2; at.j++)
            n -= (T - at.j + 1) / 2;
        at.i = T - 2 * ((T - at.j + 1) / 2 - n);
    } else {
        const int rows = (T + 1) / 2;
        at.i           = pair % rows * 2;
        at.j           = pair / rows;
    }
    at.has[0] = !p.symmetric || at.i >= at.j;
    at.has[1] = at.i + 1 < T;
    return at;
}

struct tile {
    int     b, i, j;
    bool    diagonal; /* i == j */
    int64_t sums;     /* where its sums go */
};

/* The next pair of this block that is to be done, from `number` on.  Asked by whole warps: the vote
 * tells the compiler that they agree, without which it would not overlap products. */
static __device__ inline int64_t next_pair(const product_args &p, int64_t number)
{
    while (p.when != NULL && number < p.all_pairs &&
           !__any_sync(0xffffffffu, p.when[number / p.pairs] != 0.0))
        number += gridDim.x;
    return number;
}

/* ---- loads ----------------------------------------------------------------------------------- */

struct ring {
    uint32_t memory, full, empty; /* addresses: of the slots, of the first barrier of each kind */
};

struct cursor { /* in the ring; uses of a slot have parity 0, 1, 0, ... */
    uint32_t slot, parity;
};

static __device__ inline void advance(cursor *at, uint32_t slots)
{
    at->slot += slots;
    at->parity ^= at->slot / STAGES & 1u;
    at->slot %= STAGES;
}

/* z takes a slot for each box of a tile: two boxes in it, one of each tile's. */
static __device__ inline int z_slices(const product_args &p)
{
    return !p.has_z ? 0 : p.z_dtype == MUSEC_F32 ? 8 : 4;
}

/* 128 of them: where k runs along memory, one box has them all. */
template <bool Lines>
static __device__ inline void load_lines(uint32_t to, const CUtensorMap *map, int line, int k,
                                         int b, uint32_t barrier)
{
    if (Lines) {
        load_box(to, map, line, k, b, barrier);
        load_box(to + SLICE_BOX, map, line + HALF, k, b, barrier);
    } else
        load_box(to, map, k, line, b, barrier);
}

/* Those of two tiles, by one warp. */
template <bool ALines, bool BLines>
static __device__ inline void load_tiles(const product_args &p, const place &at, const ring &r,
                                         cursor *to, const CUtensorMap *a, const CUtensorMap *b,
                                         const CUtensorMap *z)
{
    const int row = at.i * TILE, col = at.j * TILE, tiles = at.has[0] + at.has[1];
    const int across = p.z_dtype == MUSEC_F32 ? 4 : 2, all = p.slices + z_slices(p);
#pragma unroll 1
    for (int s = 0; s < all; s++, advance(to, 1)) {
        const uint32_t full = r.full + 8 * to->slot, slot = r.memory + SLOT * to->slot;
        barrier_wait(r.empty + 8 * to->slot, to->parity ^ 1u);
        if (s < p.slices) {
            barrier_expect(full, (uint32_t)(tiles + 1) * 2 * SLICE_BOX);
            if (at.has[0]) load_lines<ALines>(slot, a, row, s * SLICE, at.b, full);
            if (at.has[1])
                load_lines<ALines>(slot + 2 * SLICE_BOX, a, row + TILE, s * SLICE, at.b, full);
            load_lines<BLines>(slot + 4 * SLICE_BOX, b, col, s * SLICE, at.b, full);
            continue;
        }
        const int box = s - p.slices, x = col + box % across * (TILE / across);
        barrier_expect(full, (uint32_t)tiles * BOX);
        for (int t = 0; t < 2; t++)
            if (at.has[t])
                load_box(slot + t * BOX, z, x, row + t * TILE + box / across * HALF, at.b, full);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Each warp tells. */
static __device__ inline void give_back(const ring &r, uint32_t slot, bool does)
{
    barrier_arrive(r.empty + 8 * slot, does && threadIdx.x % WARP == 0);
}

/* Added to what is there.  A slot is given back one slice later, when its products are done for
 * sure. */
template <bool Bf16, bool ALines, bool BLines>
static __device__ inline void multiply_tile(float (&upper)[64], float (&lower)[64],
                                            const product_args &p, uint32_t group, const ring &r,
                                            cursor *from)
{
    uint32_t previous = 0;
    int      s        = 0;
#pragma unroll 1
    do {
        const uint32_t slot = r.memory + SLOT * from->slot;
        uint64_t       a    = slice_descriptor(slot + group * 2 * SLICE_BOX);
        uint64_t       b    = slice_descriptor(slot + 4 * SLICE_BOX);
        barrier_wait(r.full + 8 * from->slot, from->parity);
        products_begin();
#pragma unroll
        for (int k = 0; k < SLICE / 16; k++) {
            multiply<Bf16, ALines, BLines>(upper, a, b);
            multiply<Bf16, ALines, BLines>(lower, a + SLICE_BOX / 16, b);
            a += next_k16<ALines>();
            b += next_k16<BLines>();
        }
        products_commit();
        products_wait<1>();
        give_back(r, previous, s > 0);
        previous = from->slot;
        advance(from, 1);
    } while (++s < p.slices);
    products_wait<0>();
    give_back(r, previous, true);
}

/* The same for a tile that is not to be made: slots come and go. */
static __device__ inline void pass_by(const product_args &p, const ring &r, cursor *from)
{
    const int all = p.slices + z_slices(p);
#pragma unroll 1
    for (int s = 0; s < all; s++, advance(from, 1)) {
        barrier_wait(r.full + 8 * from->slot, from->parity);
        __syncwarp(); /* a lane that falls behind by a turn of the ring would miss a phase */
        give_back(r, from->slot, true);
    }
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
