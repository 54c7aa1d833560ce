/* product_pair.cuh - of the kernel of product_pair.cu: who does what, loads and products.
 *
 * A cluster of two blocks makes a tile of 256 x 256 of c, which has four strips of 64 rows, one for
 * each warpgroup that multiplies: strips 0 and 3 for one block, 1 and 2 for the other.  Of a tile
 * on the diagonal of a symmetric product, strip s has but 64 (s + 1) columns, so that both blocks
 * have the same work there too.
 *
 * One warp of each block has the copy engine load slices of k into a ring of STAGES slots: the
 * block's own strips of a, and half of b, which goes to both blocks.  What sets the pace is what
 * moves: shared memory gives 128 bytes in a cycle, and 64 x 256 at once read 80 of them where 64 x
 * 128 would read 96; 48 more arrive, 32 of which have to come from the second-level cache.
 *
 * The ring's order is all that the warps have to agree on: for each tile the slices of k, slots
 * with boxes of z, and slots that stay empty for the warpgroups to write c to (product_strip.cuh).
 * Loads run ahead into the next tile while this one is finished and stored. */
#ifndef MS_DEVICE_CUDA_PRODUCT_PAIR_CUH
#define MS_DEVICE_CUDA_PRODUCT_PAIR_CUH

#include "device/cuda/product_parts.cuh"

enum {
    TILE    = 256, /* rows and columns, of a cluster */
    QUAD    = 64,  /* rows of a strip; rows and columns of its quadrants */
    CLUSTER = 2,   /* blocks */
    TWIST   = 5,
    STAGES  = 4,
    SLOT    = 6 * SLICE_BOX, /* a box of each strip's a, four of b */
    GROUP   = 128,           /* threads of a warpgroup */
    WORKERS = 2 * GROUP,
    THREADS = 3 * GROUP, /* the last warpgroup: a warp that loads, one for each strip that stores */
    AREA    = 2 * BOX,   /* of a strip, for the first boxes of c */
    PORTIONS = 4,        /* the most that a strip has */
    ROOM     = STAGES * SLOT + 2 * AREA + 1024, /* which it takes to begin at a multiple of 1024 */
};

struct pair_args {
    int      m, n, slices; /* slices: of k */
    int      down, across; /* tiles of a matrix */
    int64_t  tiles;        /* of a matrix that are made */
    int64_t  all_tiles;    /* of the stack */
    uint32_t clusters;
    bool     symmetric, c_wide, has_z;
    int      z_slots;  /* of the ring, for each tile */
    int      portions; /* of boxes of c for each strip: the first for its area, others for slots */
    int      in_slot;  /* boxes of a portion that goes to a slot */
    float   *c;        /* in 32 bits: also written directly */
    int64_t  c_ld, c_stride;

    musec_dtype   z_dtype;
    number        alpha, beta, diag;
    const double *when;
    double       *sumsq, *trace; /* (count, 4 tiles), of a strip each; NULL: not wanted */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- tiles ----------------------------------------------------------------------------------- */

struct place { /* of a tile */
    int b, i, j;
};

/* Full: along the shorter side first, so that what is under way shares operands.  Symmetric: pairs
 * (x, x + d) modulo their number, for each x as many d as make each pair once.  Tiles on the
 * diagonal, which are less work, are so spread evenly. */
static __device__ inline place place_of(const pair_args &p, int64_t number)
{
    const int n = (int)(number % p.tiles), T = p.down;
    place     at;
    at.b = (int)(number / p.tiles);
    if (p.symmetric) {
        const int many = T % 2 == 0 ? T / 2 : T, each = T / 2 + 1; /* x below `many` has `each` */
        const int rest = n - many * each;
        const int x    = rest < 0 ? n / each : many + rest / (T / 2);
        const int y    = x + (rest < 0 ? n % each : rest % (T / 2));
        const int to   = y < T ? y : y - T;
        at.i           = x > to ? x : to;
        at.j           = x > to ? to : x;
    } else if (p.down < p.across) {
        at.i = n % p.down;
        at.j = n / p.down;
    } else {
        at.i = n / p.across;
        at.j = n % p.across;
    }
    return at;
}

struct strip {
    int     b, row, col; /* of its first element */
    int     quadrants;   /* that are to be made, from the left; 0: it lies below the matrix */
    int64_t sums;        /* where its sums go */
};

static __device__ inline strip strip_of(const pair_args &p, int64_t number, uint32_t rank,
                                        uint32_t group)
{
    const place at    = place_of(p, number);
    const int   which = (int)(group == 0 ? rank : 3 - rank);
    const int   row = at.i * TILE + which * QUAD, col = at.j * TILE;
    const int   wide = (p.n - col - 1) / QUAD + 1, lower = p.symmetric && at.i == at.j;
    const int   most = lower ? which + 1 : 4;
    return { at.b, row, col, row >= p.m ? 0 : wide < most ? wide : most, 4 * number + which };
}

/* The tile of a cluster in the first round from *round on that has one for it to make; below 0: no
 * more.  From round to round it moves on by TWIST, lest it get the same kind of tile each time; 5
 * does best for 2048 x 2048 of those tried.  Asked by whole warps: the vote tells the compiler that
 * they agree, without which it would not overlap products. */
static __device__ inline int64_t next_tile(const pair_args &p, uint32_t *round)
{
    for (;;) {
        const int64_t  first = (int64_t)*round * p.clusters;
        const uint32_t mine  = (blockIdx.x / CLUSTER + *round * TWIST) % p.clusters;
        if (first >= p.all_tiles) return -1;
        ++*round;
        if (first + mine >= p.all_tiles) continue;
        if (p.when == NULL || __any_sync(0xffffffffu, p.when[(first + mine) / p.tiles] != 0.0))
            return first + mine;
    }
}

/* ---- loads ----------------------------------------------------------------------------------- */

struct ring {
    uint32_t memory, full, empty; /* addresses: of the slots, of the first barrier of each kind */
    uint32_t empty_there;         /* lane 0 and 1: the same of block 0 and 1 */
    uint32_t rank;                /* of this block */
};

struct cursor { /* in the ring; uses of a slot have parity 0, 1, 0, ... */
    uint32_t slot, parity;
};

static __device__ inline void advance(cursor *at, uint32_t slots)
{
    const uint32_t to = at->slot + slots;
    at->parity ^= to / STAGES & 1u;
    at->slot = to % STAGES;
}

/* A slot is written by both blocks, so both have to give it back: each warp of each strip, or
 * whoever does it for a strip's four. */
static __device__ inline void give_back(const ring &r, uint32_t slot, uint32_t warps, bool does)
{
    cluster_arrive(r.empty_there + 8 * slot, warps, does && threadIdx.x % WARP < CLUSTER);
}

/* Half of b's lines, for both blocks. */
template <bool Lines>
static __device__ inline void load_b(uint32_t to, const CUtensorMap *map, int line, int k, int b,
                                     uint32_t barrier)
{
    if (Lines) {
        load_box_for_both(to, map, line, k, b, barrier);
        load_box_for_both(to + SLICE_BOX, map, line + 64, k, b, barrier);
    } else
        load_box_for_both(to, map, k, line, b, barrier);
}

/* z of both strips: two boxes of each, which have two quadrants, or one in 32 bits. */
static __device__ inline void load_z(const pair_args &p, const strip (&at)[2], int part,
                                     uint32_t slot, uint32_t full, const CUtensorMap *z)
{
    const bool wide  = p.z_dtype == MUSEC_F32;
    uint32_t   bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes += (wide ? part : 2 * part + i % 2) < at[i / 2].quadrants ? BOX : 0;
    barrier_expect(full, bytes);
    for (int i = 0; i < 4; i++) {
        const strip &s = at[i / 2];
        if ((wide ? part : 2 * part + i % 2) < s.quadrants)
            load_box(slot + i * BOX, z, s.col + (2 * part + i % 2) * (wide ? QUAD / 2 : QUAD),
                     s.row, s.b, full);
    }
}

/* All of a tile, by one warp. */
template <bool ALines, bool BLines>
static __device__ inline void load_tile(const pair_args &p, int64_t number, const ring &r,
                                        cursor *to, const CUtensorMap *a, const CUtensorMap *b,
                                        const CUtensorMap *z)
{
    const strip at[2] = { strip_of(p, number, r.rank, 0), strip_of(p, number, r.rank, 1) };
    const int   line  = at[0].col + (int)r.rank * (TILE / 2);
    const int   all   = p.slices + p.z_slots + (p.portions > 0 ? p.portions - 1 : 0);
#pragma unroll 1
    for (int s = 0; s < all; s++, advance(to, 1)) {
        const uint32_t full = r.full + 8 * to->slot, slot = r.memory + SLOT * to->slot;
        const int      k = s * SLICE;
        barrier_wait(r.empty + 8 * to->slot, to->parity ^ 1u);
        if (s < p.slices) {
            barrier_expect(full, SLOT);
            load_b<BLines>(slot + (2 + 2 * r.rank) * SLICE_BOX, b, line, k, at[0].b, full);
            for (int i = 0; i < 2; i++)
                load_box(slot + i * SLICE_BOX, a, ALines ? at[i].row : k, ALines ? k : at[i].row,
                         at[i].b, full);
        } else if (s < p.slices + p.z_slots) {
            load_z(p, at, s - p.slices, slot, full, z);
        } else
            barrier_expect(full, 0);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Added to what is there.  A slot is given back one slice later, when its products are done for
 * sure. */
template <bool Bf16, bool ALines, bool BLines, int Quadrants>
static __device__ inline void multiply_slices(float (&d)[4][32], const pair_args &p, uint32_t group,
                                              const ring &r, cursor *from)
{
    uint32_t previous = 0;
    int      s        = 0;
#pragma unroll 1
    do {
        const uint32_t slot = r.memory + SLOT * from->slot;
        uint64_t       a    = slice_descriptor(slot + group * SLICE_BOX);
        uint64_t       b    = slice_descriptor(slot + 2 * SLICE_BOX);
        barrier_wait(r.full + 8 * from->slot, from->parity);
        products_begin();
#pragma unroll
        for (int k = 0; k < SLICE / 16; k++) {
            multiply_strip<Bf16, ALines, BLines, Quadrants>(d, a, b);
            a += next_k16<ALines>();
            b += next_k16<BLines>();
        }
        products_commit();
        products_wait<1>();
        give_back(r, previous, 1, s > 0);
        previous = from->slot;
        advance(from, 1);
    } while (++s < p.slices);
    products_wait<0>();
    give_back(r, previous, 1, true);
}

/* The same for a strip that is not to be made: slots come and go. */
static __device__ inline void pass_by(const pair_args &p, const ring &r, cursor *from)
{
#pragma unroll 1
    for (int s = 0; s < p.slices; s++, advance(from, 1)) {
        barrier_wait(r.full + 8 * from->slot, from->parity);
        __syncwarp(); /* a lane that falls behind by a turn of the ring would miss a phase */
        give_back(r, from->slot, 1, true);
    }
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
