/* product_tile.cuh - of the kernel of product_wgmma.cu: what becomes of the accumulators.
 *
 * z comes through the ring as if it were some more slices, in boxes of c's tile.  c leaves through
 * an area of each warpgroup's own, quadrant by quadrant of the tile, and so does the mirrored tile
 * of a symmetric product.  The 8 x 8 blocks of a tile on the diagonal that lie below it are
 * written twice, those above never; within one on it, the lower half counts. */
#ifndef MS_DEVICE_CUDA_PRODUCT_TILE_CUH
#define MS_DEVICE_CUDA_PRODUCT_TILE_CUH

#include "device/cuda/product_parts.cuh"
#include "device/cuda/product_wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- c, in the accumulators ------------------------------------------------------------------ */

struct spot { /* of a thread in a half of a tile: 0 the upper one, 1 the lower one */
    uint32_t half, warp, lane;
};

/* Boxes of 64 rows by 32 columns of 32 bits */
static __device__ inline box_spot spot_32(const spot &me, uint32_t area)
{
    return spot_in(area, me.warp * 16 + me.lane / 4, me.lane % 4 * 8);
}

/* d <- alpha d + beta z in the columns of a box of z */
template <int First, typename Pair>
static __device__ inline void add_z16(float (&d)[64], float alpha, float beta, const spot &me,
                                      uint32_t box)
{
    const box_spot to = spot_in(box, me.warp * 16 + me.lane / 4, me.lane % 4 * 4);
#pragma unroll
    for (int j = First; j < First + 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float2 z       = Pair::of(load_word(to.at(h * 8 * BOX_BYTES, j % 8 * 16)));
            d[4 * j + 2 * h]     = plus_z(alpha, d[4 * j + 2 * h], beta, z.x);
            d[4 * j + 2 * h + 1] = plus_z(alpha, d[4 * j + 2 * h + 1], beta, z.y);
        }
}

template <int First>
static __device__ inline void add_z32(float (&d)[64], float alpha, float beta, const spot &me,
                                      uint32_t box)
{
    const box_spot to = spot_32(me, box);
#pragma unroll
    for (int j = First; j < First + 4; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float2 z       = load_pair(to.at(h * 8 * BOX_BYTES, j % 4 * 32));
            d[4 * j + 2 * h]     = plus_z(alpha, d[4 * j + 2 * h], beta, z.x);
            d[4 * j + 2 * h + 1] = plus_z(alpha, d[4 * j + 2 * h + 1], beta, z.y);
        }
}

/* Takes the next slot, adds what is in it, gives it back. */
template <int First>
static __device__ inline void add_box(float (&d)[64], const product_args &p, float alpha,
                                      float beta, const spot &me, uint32_t group, const ring &r,
                                      cursor *from)
{
    const uint32_t box = r.memory + SLOT * from->slot + group * BOX;
    barrier_wait(r.full + 8 * from->slot, from->parity);
    if (p.z_dtype == MUSEC_BF16)
        add_z16<First / 8 * 8, bf16_pair>(d, alpha, beta, me, box);
    else if (p.z_dtype == MUSEC_F16)
        add_z16<First / 8 * 8, f16_pair>(d, alpha, beta, me, box);
    else
        add_z32<First>(d, alpha, beta, me, box);
    __syncwarp(); /* all of it have read */
    give_back(r, from->slot, true);
    advance(from, 1);
}

static __device__ inline void add_z(float (&d)[64], const product_args &p, float alpha, float beta,
                                    const spot &me, uint32_t group, const ring &r, cursor *from)
{
    const bool wide = p.z_dtype == MUSEC_F32;
    add_box<0>(d, p, alpha, beta, me, group, r, from);
    if (wide) add_box<4>(d, p, alpha, beta, me, group, r, from);
    add_box<8>(d, p, alpha, beta, me, group, r, from);
    if (wide) add_box<12>(d, p, alpha, beta, me, group, r, from);
}

/* What belongs to a tile on the diagonal: diag, the trace of it, and where c is symmetric, the
 * blocks on it. */
static __device__ inline double finish_diagonal(float (&d)[64], const product_args &p, float diag,
                                                const tile &at, const spot &me)
{
    const int here = (int)(me.half * 8 + me.warp * 2); /* block row of h = 0 */
    const int rows = (p.m < p.n ? p.m : p.n) - at.i * TILE;
    const int r = (int)me.lane / 4, c = (int)me.lane % 4 * 2;
    double    trace = 0.0;
#pragma unroll
    for (int j = 0; j < 16; j++) {
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
static __device__ inline void clear_outside(float (&d)[64], const product_args &p, const tile &at,
                                            const spot &me)
{
    const int rows = p.m - at.i * TILE - (int)(me.half * BOX_ROWS + me.warp * 16 + me.lane / 4);
    const int cols = p.n - at.j * TILE - (int)(me.lane % 4 * 2);
    if (p.m - at.i * TILE >= TILE && p.n - at.j * TILE >= TILE) return;
#pragma unroll
    for (int e = 0; e < 64; e++)
        if (e / 2 % 2 * 8 >= rows || e / 4 * 8 + e % 2 >= cols) d[e] = 0.0f;
}

/* The first 8 x 8 block of a row of them that is not below the diagonal. */
static __device__ inline int first_not_below(const tile &at, const spot &me)
{
    return at.diagonal ? (int)(me.half * 8 + me.warp * 2) : TILE / 8;
}

/* Symmetric: blocks below the diagonal are in c twice, those above are not what c holds. */
template <typename Real>
static __device__ inline Real sum_squares_in(const float (&d)[64], int here)
{
    Real sum[2] = {};
#pragma unroll
    for (int j = 0; j < 16; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const Real x = (Real)d[4 * j + 2 * h], y = (Real)d[4 * j + 2 * h + 1];
            if (j <= here + h) sum[h] += (j < here + h ? (Real)2 : (Real)1) * (x * x + y * y);
        }
    return sum[0] + sum[1];
}

/* In float32 where no square leaves its range: conversions to float64 are slow. */
static __device__ inline double sum_squares(const float (&d)[64], const product_args &p,
                                            const tile &at, const spot &me)
{
    const int   here = p.symmetric ? first_not_below(at, me) : TILE / 8;
    const float fast = sum_squares_in<float>(d, here);
    double      sum  = (double)fast;
    if (!(fast > 1e-24f && fast < 1e36f)) sum = sum_squares_in<double>(d, here);
    return p.symmetric ? sum : 0.5 * sum;
}

/* ---- c, to its memory ------------------------------------------------------------------------ */

/* The columns of blocks First .. First + 7 of a half of the tile, those before `end` alone, one
 * more where h is 1.  In 32 bits a quadrant has two boxes, of 32 columns each. */
template <bool Bf16, int First, bool All>
static __device__ inline void put_upright(const float (&d)[64], const product_args &p,
                                          const spot &me, uint32_t quadrant, int end)
{
    if (p.c_wide) {
        const box_spot to = spot_32(me, quadrant);
#pragma unroll
        for (int j = First; j < First + 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (All || j < end + h)
                    store_pair(to.at(j / 4 % 2 * BOX + h * 8 * BOX_BYTES, j % 4 * 32),
                               d[4 * j + 2 * h], d[4 * j + 2 * h + 1]);
    } else if (All) {
        const box_spot to = spot_in(quadrant, me.warp * 16 + me.lane % 16, me.lane / 16 * 16);
#pragma unroll
        for (int j = First; j < First + 8; j += 2)
            store_blocks<false>(to.at(0, j % 8 * 16), round_pair<Bf16>(d[4 * j], d[4 * j + 1]),
                                round_pair<Bf16>(d[4 * j + 2], d[4 * j + 3]),
                                round_pair<Bf16>(d[4 * j + 4], d[4 * j + 5]),
                                round_pair<Bf16>(d[4 * j + 6], d[4 * j + 7]));
    } else {
        const box_spot to = spot_in(quadrant, me.warp * 16 + me.lane % 8, 0);
#pragma unroll
        for (int j = First; j < First + 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (j < end + h)
                    store_block<false>(to.at(h * 8 * BOX_BYTES, j % 8 * 16),
                                       round_pair<Bf16>(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]));
    }
}

/* Mirrored: row c of the quadrant has column c. */
template <bool Bf16, int First, bool All>
static __device__ inline void put_turned(const float (&d)[64], const product_args &p,
                                         const spot &me, uint32_t quadrant, int end)
{
    if (p.c_wide) {
        const uint32_t byte = (me.warp % 2 * 16 + me.lane / 4) * 4, col = me.lane % 4 * 2;
        const box_spot even = spot_in(quadrant + me.warp / 2 * BOX, col, byte);
        const box_spot odd  = spot_in(quadrant + me.warp / 2 * BOX, col + 1, byte);
#pragma unroll
        for (int j = First; j < First + 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (All || j < end + h) {
                    store_one(even.at(j % 8 * 8 * BOX_BYTES, h * 32), d[4 * j + 2 * h]);
                    store_one(odd.at(j % 8 * 8 * BOX_BYTES, h * 32), d[4 * j + 2 * h + 1]);
                }
    } else if (All) {
        const box_spot to =
            spot_in(quadrant, me.lane / 16 * 8 + me.lane % 8, me.warp * 32 + me.lane / 8 % 2 * 16);
#pragma unroll
        for (int j = First; j < First + 8; j += 2)
            store_blocks<true>(to.at(j % 8 * 8 * BOX_BYTES, 0),
                               round_pair<Bf16>(d[4 * j], d[4 * j + 1]),
                               round_pair<Bf16>(d[4 * j + 2], d[4 * j + 3]),
                               round_pair<Bf16>(d[4 * j + 4], d[4 * j + 5]),
                               round_pair<Bf16>(d[4 * j + 6], d[4 * j + 7]));
    } else {
        const box_spot to = spot_in(quadrant, me.lane % 8, me.warp * 32);
#pragma unroll
        for (int j = First; j < First + 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (j < end + h)
                    store_block<true>(to.at(j % 8 * 8 * BOX_BYTES, h * 16),
                                      round_pair<Bf16>(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]));
    }
}

/* ---- stores ---------------------------------------------------------------------------------- */

/* A warpgroup's own. */
static __device__ inline void group_barrier() { group_sync(1 + (int)(threadIdx.x / GROUP), GROUP); }

struct outlet { /* of a warpgroup: its area, which in 16 bits has room for two quadrants */
    uint32_t           area, turn;
    const CUtensorMap *c;
};

/* Where the next quadrant is to be written, as soon as the last one that was there has left. */
static __device__ inline uint32_t next_quadrant(const product_args &p, const outlet &to)
{
    if (threadIdx.x % GROUP == 0) {
        if (p.c_wide)
            stores_read<0>();
        else
            stores_read<1>();
    }
    group_barrier();
    return to.area + (p.c_wide ? 0 : to.turn % 2 * BOX);
}

/* It was written: to c, from (row, col) on. */
static __device__ inline void send_quadrant(const product_args &p, const tile &at, outlet *to,
                                            int row, int col)
{
    const uint32_t from = to->area + (p.c_wide ? 0 : to->turn % 2 * BOX);
    writes_to_engine();
    group_barrier();
    to->turn++;
    if (threadIdx.x % GROUP != 0) return;
    store_box(to->c, col, row, at.b, from);
    if (p.c_wide) store_box(to->c, col + 32, row, at.b, from + BOX);
    stores_commit();
}

/* A quadrant, and where c is symmetric its mirror. */
template <bool Bf16, int First>
static __device__ inline void put_quadrant(const float (&d)[64], const product_args &p,
                                           const tile &at, const spot &me, outlet *to)
{
    const int row = at.i * TILE + (int)me.half * HALF, col = at.j * TILE + First * 8;
    put_upright<Bf16, First, true>(d, p, me, next_quadrant(p, *to), 0);
    send_quadrant(p, at, to, row, col);
    if (!p.symmetric) return;
    put_turned<Bf16, First, true>(d, p, me, next_quadrant(p, *to), 0);
    send_quadrant(p, at, to, col, row);
}

/* The same on the diagonal: what lies below it, twice. */
template <bool Bf16, int First>
static __device__ inline void put_corner(const float (&d)[64], const product_args &p,
                                         const tile &at, const spot &me, outlet *to)
{
    const int      here     = (int)(me.half * 8 + me.warp * 2); /* of 8 x 8 blocks; that of h = 0 */
    const int      row      = at.i * TILE + First * 8;
    const uint32_t quadrant = next_quadrant(p, *to);
    put_upright<Bf16, First, false>(d, p, me, quadrant, here + 1);
    put_turned<Bf16, First, false>(d, p, me, quadrant, here);
    send_quadrant(p, at, to, row, row);
}

template <bool Bf16>
static __device__ inline void put_tile(const float (&upper)[64], const float (&lower)[64],
                                       const product_args &p, const tile &at, const spot &up,
                                       const spot &low, outlet *to)
{
    if (p.symmetric && at.diagonal) {
        put_corner<Bf16, 0>(upper, p, at, up, to);
        put_quadrant<Bf16, 0>(lower, p, at, low, to);
        put_corner<Bf16, 8>(lower, p, at, low, to);
        return;
    }
    put_quadrant<Bf16, 0>(upper, p, at, up, to);
    put_quadrant<Bf16, 8>(upper, p, at, up, to);
    put_quadrant<Bf16, 0>(lower, p, at, low, to);
    put_quadrant<Bf16, 8>(lower, p, at, low, to);
}

/* ---- a tile's end ---------------------------------------------------------------------------- */

struct factors {
    float alpha, beta, diag;
};

/* The accumulators become c; its trace is returned. */
static __device__ inline double finish_half(float (&d)[64], const product_args &p, const tile &at,
                                            const spot &me, const factors &by, uint32_t group,
                                            const ring &r, cursor *from)
{
    double trace = 0.0;
    if (p.has_z)
        add_z(d, p, by.alpha, by.beta, me, group, r, from);
    else {
#pragma unroll
        for (int e = 0; e < 64; e++)
            d[e] *= by.alpha;
    }
    if (at.diagonal) trace = finish_diagonal(d, p, by.diag, at, me);
    clear_outside(d, p, at, me);
    return trace;
}

/* *part <- the sum of x over the warpgroup; `room` is its own. */
static __device__ inline void put_sum(double x, double *room, double *part)
{
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) room[threadIdx.x % GROUP / WARP] = x;
    group_barrier();
    if (threadIdx.x % GROUP == 0) *part = room[0] + room[1] + room[2] + room[3];
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
