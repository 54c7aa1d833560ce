/* product_strip.cuh - of the kernel of product_pair.cu: what becomes of the accumulators.
 *
 * A warpgroup has a strip of c in its registers, quadrant by quadrant of 64 x 64.  z came through
 * the ring.  c leaves in boxes: two go to an area of the strip's own, further ones to slots of the
 * ring, and a warp that does nothing else sends them off, portion by portion, and says when their
 * place is free again.  So the warpgroup has written and goes on.  In 32 bits four lanes have a
 * sector of memory, so that c is written directly; through boxes goes only what is mirrored.
 *
 * Of a symmetric product, quadrants below the diagonal are written twice.  In one on it the 8 x 8
 * blocks below it are, those above never; within one of these on it, the lower half counts. */
#ifndef MS_DEVICE_CUDA_PRODUCT_STRIP_CUH
#define MS_DEVICE_CUDA_PRODUCT_STRIP_CUH

#include "device/cuda/product_pair.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- c, in the accumulators ------------------------------------------------------------------ */

struct spot { /* of a thread in a strip */
    uint32_t warp, lane;
};

/* Boxes of 64 rows by 32 columns of 32 bits */
static __device__ inline box_spot spot_32(const spot &me, uint32_t box)
{
    return spot_in(box, me.warp * 16 + me.lane / 4, me.lane % 4 * 8);
}

/* d <- alpha d + beta z */
template <typename Pair>
static __device__ inline void add_z16(float (&d)[32], float alpha, float beta, const spot &me,
                                      uint32_t box)
{
    const box_spot to = spot_in(box, me.warp * 16 + me.lane / 4, me.lane % 4 * 4);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float2 z       = Pair::of(load_word(to.at(h * 8 * BOX_BYTES, j * 16)));
            d[4 * j + 2 * h]     = plus_z(alpha, d[4 * j + 2 * h], beta, z.x);
            d[4 * j + 2 * h + 1] = plus_z(alpha, d[4 * j + 2 * h + 1], beta, z.y);
        }
}

static __device__ inline void add_z32(float (&d)[32], float alpha, float beta, const spot &me,
                                      uint32_t boxes)
{
    const box_spot to = spot_32(me, boxes);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float2 z       = load_pair(to.at(j / 4 * BOX + h * 8 * BOX_BYTES, j % 4 * 32));
            d[4 * j + 2 * h]     = plus_z(alpha, d[4 * j + 2 * h], beta, z.x);
            d[4 * j + 2 * h + 1] = plus_z(alpha, d[4 * j + 2 * h + 1], beta, z.y);
        }
}

/* From z's slots, which are given back. */
static __device__ inline void add_z(float (&d)[4][32], const pair_args &p, float alpha, float beta,
                                    const spot &me, uint32_t group, const ring &r, cursor *from)
{
    const bool wide = p.z_dtype == MUSEC_F32;
#pragma unroll
    for (int q = 0; q < 4; q++) {
        const uint32_t slot = r.memory + SLOT * from->slot + 2 * group * BOX;
        if (wide || q % 2 == 0) barrier_wait(r.full + 8 * from->slot, from->parity);
        if (p.z_dtype == MUSEC_BF16)
            add_z16<bf16_pair>(d[q], alpha, beta, me, slot + q % 2 * BOX);
        else if (p.z_dtype == MUSEC_F16)
            add_z16<f16_pair>(d[q], alpha, beta, me, slot + q % 2 * BOX);
        else
            add_z32(d[q], alpha, beta, me, slot);
        if (!wide && q % 2 == 0) continue;
        __syncwarp(); /* all of it have read */
        give_back(r, from->slot, 1, true);
        advance(from, 1);
    }
}

/* What belongs to a quadrant on the diagonal: diag, the trace of it, and where c is symmetric, the
 * blocks on it. */
static __device__ inline double finish_diagonal(float (&d)[32], const pair_args &p, float diag,
                                                int row, const spot &me)
{
    const int here = (int)me.warp * 2; /* block row of h = 0 */
    const int rows = (p.m < p.n ? p.m : p.n) - row;
    const int r = (int)me.lane / 4, c = (int)me.lane % 4 * 2;
    double    trace = 0.0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int e = 4 * j + 2 * (j % 2); /* here is even: block j can only be its row j % 2 */
        if (j / 2 * 2 == here) {
            if (p.symmetric) mirror_block(d[e], d[e + 1], r, c);
            const bool inside = 8 * j + r < rows;
            if (r == c && inside) d[e] += diag, trace = (double)d[e] + trace;
            if (r == c + 1 && inside) d[e + 1] += diag, trace = (double)d[e + 1] + trace;
        }
    }
    return trace;
}

/* Beyond the last row and column there may be anything but 0 where an operand is not finite. */
static __device__ inline void clear_outside(float (&d)[32], const pair_args &p, int row, int col,
                                            const spot &me)
{
    const int rows = p.m - row - (int)(me.warp * 16 + me.lane / 4);
    const int cols = p.n - col - (int)(me.lane % 4 * 2);
    if (p.m - row >= QUAD && p.n - col >= QUAD) return;
#pragma unroll
    for (int e = 0; e < 32; e++)
        if (e / 2 % 2 * 8 >= rows || e / 4 * 8 + e % 2 >= cols) d[e] = 0.0f;
}

/* Twice that of a quadrant of c.  Where c is symmetric, blocks below the diagonal are in it twice,
 * those above are not what c holds; `here` is the first block of row h = 0 that is not below. */
template <typename Real>
static __device__ inline Real sum_squares_in(const float (&d)[32], int here)
{
    Real sum[2] = {};
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const Real x = (Real)d[4 * j + 2 * h], y = (Real)d[4 * j + 2 * h + 1];
            if (j <= here + h) sum[h] += (j < here + h ? (Real)2 : (Real)1) * (x * x + y * y);
        }
    return sum[0] + sum[1];
}

/* In float32 where no square leaves its range: conversions to float64 are slow. */
static __device__ inline double sum_squares(const float (&d)[32], bool corner, const spot &me)
{
    const int   here = corner ? (int)me.warp * 2 : QUAD / 8;
    const float fast = sum_squares_in<float>(d, here);
    return fast > 1e-24f && fast < 1e36f ? (double)fast : sum_squares_in<double>(d, here);
}

/* ---- c, to boxes ----------------------------------------------------------------------------- */

/* A quadrant of 16 bits. */
template <bool Bf16>
static __device__ inline void put_upright(const float (&d)[32], const spot &me, uint32_t box)
{
    const box_spot to = spot_in(box, me.warp * 16 + me.lane % 16, me.lane / 16 * 16);
#pragma unroll
    for (int j = 0; j < 8; j += 2)
        store_blocks<false>(to.at(0, j * 16), round_pair<Bf16>(d[4 * j], d[4 * j + 1]),
                            round_pair<Bf16>(d[4 * j + 2], d[4 * j + 3]),
                            round_pair<Bf16>(d[4 * j + 4], d[4 * j + 5]),
                            round_pair<Bf16>(d[4 * j + 6], d[4 * j + 7]));
}

/* Mirrored: row c of the quadrant has column c. */
template <bool Bf16>
static __device__ inline void put_turned(const float (&d)[32], const spot &me, uint32_t box)
{
    const box_spot to =
        spot_in(box, me.lane / 16 * 8 + me.lane % 8, me.warp * 32 + me.lane / 8 % 2 * 16);
#pragma unroll
    for (int j = 0; j < 8; j += 2)
        store_blocks<true>(to.at(j * 8 * BOX_BYTES, 0), round_pair<Bf16>(d[4 * j], d[4 * j + 1]),
                           round_pair<Bf16>(d[4 * j + 2], d[4 * j + 3]),
                           round_pair<Bf16>(d[4 * j + 4], d[4 * j + 5]),
                           round_pair<Bf16>(d[4 * j + 6], d[4 * j + 7]));
}

/* The same of blocks up to the diagonal and of those below it, into one box. */
template <bool Bf16>
static __device__ inline void put_corner(const float (&d)[32], const spot &me, uint32_t box)
{
    const int      here   = (int)me.warp * 2; /* of 8 x 8 blocks; that of h = 0 */
    const box_spot to     = spot_in(box, me.warp * 16 + me.lane % 8, 0);
    const box_spot turned = spot_in(box, me.lane % 8, me.warp * 32);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t two = round_pair<Bf16>(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]);
            if (j <= here + h) store_block<false>(to.at(h * 8 * BOX_BYTES, j * 16), two);
            if (j < here + h) store_block<true>(turned.at(j * 8 * BOX_BYTES, h * 16), two);
        }
}

/* Mirrored in 32 bits: two boxes, of 32 columns each.  On the diagonal (Corner) with what is not
 * mirrored. */
template <bool Corner>
static __device__ inline void put_turned_32(const float (&d)[32], const spot &me, uint32_t boxes)
{
    const uint32_t byte = (me.warp % 2 * 16 + me.lane / 4) * 4, col = me.lane % 4 * 2;
    const box_spot even = spot_in(boxes + me.warp / 2 * BOX, col, byte);
    const box_spot odd  = spot_in(boxes + me.warp / 2 * BOX, col + 1, byte);
    const box_spot to   = spot_32(me, boxes);
    const int      here = Corner ? (int)me.warp * 2 : QUAD / 8;
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float x = d[4 * j + 2 * h], y = d[4 * j + 2 * h + 1];
            if (Corner && j <= here + h)
                store_pair(to.at(j / 4 * BOX + h * 8 * BOX_BYTES, j % 4 * 32), x, y);
            if (j < here + h) {
                store_one(even.at(j * 8 * BOX_BYTES, h * 32), x);
                store_one(odd.at(j * 8 * BOX_BYTES, h * 32), y);
            }
        }
}

/* ---- boxes, to memory ------------------------------------------------------------------------ */

struct outlet {               /* of a strip */
    uint32_t area, area_free; /* addresses: of the area, of the barrier that says it is free */
    uint32_t written;         /* of the barriers that say that a portion is, one for each */
    uint32_t uses;            /* of the area */
    int      portions;        /* of this tile, begun */
    int      left;            /* boxes of the last one */
    uint32_t box;             /* the next one */
};

/* The storing warp may have what was written.  Each thread of the warpgroup calls it. */
static __device__ inline void close_portion(const outlet &to)
{
    writes_to_engine();
    __syncwarp();
    barrier_arrive(to.written + 8 * (to.portions - 1), threadIdx.x % WARP == 0);
}

/* As soon as there is room for it. */
static __device__ inline void open_portion(const pair_args &p, uint32_t group, const ring &r,
                                           cursor *from, outlet *to)
{
    if (to->portions++ == 0) {
        barrier_wait(to->area_free, (to->uses++ & 1u) ^ 1u);
        to->box  = to->area;
        to->left = AREA / BOX;
        return;
    }
    barrier_wait(r.full + 8 * from->slot, from->parity);
    to->box  = r.memory + SLOT * from->slot + group * (SLOT / 2);
    to->left = p.in_slot;
    advance(from, 1);
}

/* Where the next `count` boxes are to be written; they are of one portion. */
static __device__ inline uint32_t next_boxes(const pair_args &p, int count, uint32_t group,
                                             const ring &r, cursor *from, outlet *to)
{
    if (to->left == 0) {
        if (to->portions > 0) close_portion(*to);
        open_portion(p, group, r, from, to);
    }
    const uint32_t box = to->box;
    to->box += (uint32_t)count * BOX;
    to->left -= count;
    return box;
}

/* A strip has as many portions each time, be they empty. */
static __device__ inline void close_strip(const pair_args &p, uint32_t group, const ring &r,
                                          cursor *from, outlet *to)
{
    if (to->portions > 0) close_portion(*to);
    while (to->portions < p.portions) {
        open_portion(p, group, r, from, to);
        close_portion(*to);
    }
    to->portions = to->left = 0;
}

/* What the storing warp knows of a strip's boxes: how many they are, */
static __device__ inline int boxes_of(const pair_args &p, const strip &at)
{
    const bool corner = p.symmetric && at.row < at.col + at.quadrants * QUAD;
    if (!p.symmetric) return p.c_wide ? 0 : at.quadrants;
    return 2 * at.quadrants - (corner && !p.c_wide ? 1 : 0);
}

/* and where box k goes. */
static __device__ inline void send_box(const pair_args &p, const strip &at, int k, uint32_t from,
                                       const CUtensorMap *c)
{
    const int col = at.col + (p.symmetric ? k / 2 : k) * QUAD;
    if (p.c_wide)
        store_box_by_warp(c, at.row + k % 2 * (QUAD / 2), col, at.b, from);
    else if (p.symmetric && k % 2 == 1)
        store_box_by_warp(c, at.row, col, at.b, from);
    else
        store_box_by_warp(c, col, at.row, at.b, from);
}

/* All of a strip, by one warp.  It frees the area last of all: then the warpgroup can never be a
 * whole strip ahead, and no barrier passes twice unseen. */
static __device__ inline void store_strip(const pair_args &p, const strip &at, uint32_t group,
                                          const ring &r, cursor *from, const outlet &to,
                                          uint32_t *parity, const CUtensorMap *c)
{
    const int boxes = boxes_of(p, at);
    advance(from, (uint32_t)(p.slices + p.z_slots));
    for (int portion = 0, k = 0; portion < p.portions; portion++) {
        const bool own  = portion == 0;
        uint32_t   box  = own ? to.area : r.memory + SLOT * from->slot + group * (SLOT / 2);
        const int  most = k + (own ? AREA / BOX : p.in_slot), end = boxes < most ? boxes : most;
        barrier_wait(to.written + 8 * portion, *parity);
        for (; k < end; k++, box += BOX)
            send_box(p, at, k, box, c);
        stores_commit();
        stores_read<0>();
        __syncwarp();
        if (!own) {
            give_back(r, from->slot, GROUP / WARP, true);
            advance(from, 1);
        }
    }
    *parity ^= 1u;
    barrier_arrive(to.area_free, threadIdx.x % WARP == 0);
}

/* ---- c in 32 bits, to memory ----------------------------------------------------------------- */

static __device__ inline void put_direct(const float (&d)[32], const pair_args &p, const strip &at,
                                         int col, const spot &me)
{
    const int  row = at.row + (int)(me.warp * 16 + me.lane / 4), first = col + (int)me.lane % 4 * 2;
    const bool whole = p.m - at.row >= QUAD && p.n - col >= QUAD;
    float     *to    = p.c + at.b * p.c_stride + row * p.c_ld + first;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float2 two = { d[4 * j + 2 * h], d[4 * j + 2 * h + 1] };
            float       *x   = to + h * 8 * p.c_ld + 8 * j;
            if (whole || (row + 8 * h < p.m && first + 8 * j + 1 < p.n))
                *(float2 *)x = two;
            else if (row + 8 * h < p.m && first + 8 * j < p.n)
                *x = two.x;
        }
}

/* ---- a strip's end --------------------------------------------------------------------------- */

struct factors {
    float alpha, beta, diag;
};

struct sums {
    double squares, trace;
};

/* The accumulators become c. */
static __device__ inline sums finish_strip(float (&d)[4][32], const pair_args &p, const strip &at,
                                           const factors &by, const spot &me, uint32_t group,
                                           const ring &r, cursor *from)
{
    sums sum = {};
    if (p.has_z)
        add_z(d, p, by.alpha, by.beta, me, group, r, from);
    else {
#pragma unroll
        for (int e = 0; e < 128; e++)
            d[e / 32][e % 32] *= by.alpha;
    }
#pragma unroll
    for (int q = 0; q < 4; q++)
        if (q < at.quadrants) {
            const int  col    = at.col + q * QUAD;
            const bool corner = at.row == col;
            if (corner) sum.trace = finish_diagonal(d[q], p, by.diag, at.row, me);
            clear_outside(d[q], p, at.row, col, me);
            if (p.sumsq != NULL) sum.squares += sum_squares(d[q], p.symmetric && corner, me);
        }
    if (!p.symmetric) sum.squares *= 0.5;
    return sum;
}

/* It goes to where c lies. */
template <bool Bf16>
static __device__ inline void put_strip(const float (&d)[4][32], const pair_args &p,
                                        const strip &at, const spot &me, uint32_t group,
                                        const ring &r, cursor *from, outlet *to)
{
#pragma unroll
    for (int q = 0; q < 4; q++)
        if (q < at.quadrants) {
            const int  col    = at.col + q * QUAD;
            const bool corner = p.symmetric && at.row == col;
            if (p.c_wide) {
                if (!corner) put_direct(d[q], p, at, col, me);
                if (!p.symmetric) continue;
                const uint32_t boxes = next_boxes(p, 2, group, r, from, to);
                if (corner)
                    put_turned_32<true>(d[q], me, boxes);
                else
                    put_turned_32<false>(d[q], me, boxes);
            } else if (corner) {
                put_corner<Bf16>(d[q], me, next_boxes(p, 1, group, r, from, to));
            } else {
                put_upright<Bf16>(d[q], me, next_boxes(p, 1, group, r, from, to));
                if (p.symmetric) put_turned<Bf16>(d[q], me, next_boxes(p, 1, group, r, from, to));
            }
        }
    close_strip(p, group, r, from, to);
}

/* A warpgroup's own. */
static __device__ inline void group_barrier() { group_sync(1 + (int)(threadIdx.x / GROUP), GROUP); }

/* *part <- the sum of x over the warpgroup; `room` is its own. */
static __device__ inline void put_sum(double x, double *room, double *part)
{
    x = warp_sum(x);
    group_barrier(); /* the last sum was read */
    if (threadIdx.x % WARP == 0) room[threadIdx.x % GROUP / WARP] = x;
    group_barrier();
    if (threadIdx.x % GROUP == 0) *part = room[0] + room[1] + room[2] + room[3];
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
