/* attention_wgmma.cuh - what the Hopper kernels of attention's gradient are made of: tiles, their
 * products, weights as fragments, rows to memory.
 *
 * A tile is SIDE rows of one head in shared memory, in boxes of 64 columns (wgmma.cuh), as the copy
 * engine leaves them; rows beyond the end are zeros.  Its rows are operands as they lie, for
 * products with another tile's rows; and its columns are, for products with weights.
 *
 * An accumulator of 64 x 64 is, rounded and two numbers to a register, the left operand of the next
 * product: FRAGMENTS of it for 16 columns each, of which a warp has 16 rows and a lane four
 * registers.  They are kept in memory in that form, 16 bytes of a lane after those of the lane
 * before, so that nothing is rearranged where they are written, and little where they are read:
 * with each block of 8 x 8 turned (movmatrix), they are fragments of the transpose. */
#ifndef MS_DEVICE_CUDA_ATTENTION_WGMMA_CUH
#define MS_DEVICE_CUDA_ATTENTION_WGMMA_CUH

#include "device/attention_room.h"
#include "device/cuda/attention.cuh"
#include "device/cuda/wgmma.cuh"

enum {
    SIDE      = MS_ATTN_SIDE, /* rows of a tile */
    FRAGMENTS = SIDE / 16,    /* of a warp, across a tile of weights */
    WEIGHTS   = MS_ATTN_TILE, /* bytes of such a tile */
    GROUP     = 128,          /* threads of a warpgroup */
    WARPS     = GROUP / WARP, /* of a warpgroup */
};

template <int HEAD> struct tile_of {
    static constexpr int BYTES = SIDE * HEAD * 2;
};

struct grad_args {
    attn_job j;            /* its window is no more than what a query sees at most */
    float    rate;         /* logits in base 2 of products */
    int      first, heads; /* of the heads: those that are done now */
    int      tiles;        /* of rows */
    int      reach;        /* tiles of queries that one of keys is seen by, at most */
    float   *lse, *delta;  /* (heads x tiles x SIDE), lse in base 2 */
    int     *last;         /* (rows) the last query that sees a key */
    int     *taken;        /* blocks of keys that were begun */
    uint4   *ds;           /* (heads now x tiles of keys x reach) tiles of fragments of dS^T */
};

/* Where logsumexp and D of a query are, among those of its tile: the 16 that a thread works with,
 * columns 8 j + 2 (lane % 4) and the next, lie together. */
static __device__ inline int place_in_tile(int row)
{
    return row % 8 / 2 * 16 + row / 8 * 2 + row % 2;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- instructions ---------------------------------------------------------------------------- */

template <typename T> struct is_bf16 {
    static constexpr bool value = false;
};
template <> struct is_bf16<__nv_bfloat16> {
    static constexpr bool value = true;
};

#define D4(i)  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define D16(i) D4(i), D4((i) + 4), D4((i) + 8), D4((i) + 12)
#define D32(i) D16(i), D16((i) + 16)
#define NAMES_32                               \
    "%0, %1, %2, %3, %4, %5, %6, %7, "         \
    "%8, %9, %10, %11, %12, %13, %14, %15, "   \
    "%16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                        \
    NAMES_32 ", "                                       \
             "%32, %33, %34, %35, %36, %37, %38, %39, " \
             "%40, %41, %42, %43, %44, %45, %46, %47, " \
             "%48, %49, %50, %51, %52, %53, %54, %55, " \
             "%56, %57, %58, %59, %60, %61, %62, %63"

#define DOT(type)                                                                               \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, 0;\n\t"                             \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" NAMES_32 "}," \
                 " %32, %33, p, 1, 1, 0, 0;\n\t}"                                               \
                 : D32(0)                                                                       \
                 : "l"(x), "l"(y), "r"((int)add))

/* d <- x y^T, or that added: 64 x 64 by 16 columns of each. */
template <typename T>
static __device__ inline void dot_step(float (&d)[32], uint64_t x, uint64_t y, bool add)
{
    if (is_bf16<T>::value)
        DOT("bf16");
    else
        DOT("f16");
}

#define BLEND(type, n, names, w0, w1, w2, w3, rows, when, ...)                             \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " when ", 0;\n\t"                   \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names \
                 "}, {" w0 ", " w1 ", " w2 ", " w3 "}, " rows ", p, 1, 1, 1;\n\t}"         \
                 : __VA_ARGS__                                                             \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(y), "r"((int)add))

/* d <- w y, or that added: 64 x (64 or 128) by a fragment of w and 16 rows of y. */
template <typename T>
static __device__ inline void blend_step(float (&d)[32], const uint32_t (&w)[4], uint64_t y,
                                         bool add)
{
    if (is_bf16<T>::value)
        BLEND("bf16", "64", NAMES_32, "%32", "%33", "%34", "%35", "%36", "%37", D32(0));
    else
        BLEND("f16", "64", NAMES_32, "%32", "%33", "%34", "%35", "%36", "%37", D32(0));
}

template <typename T>
static __device__ inline void blend_step(float (&d)[64], const uint32_t (&w)[4], uint64_t y,
                                         bool add)
{
    if (is_bf16<T>::value)
        BLEND("bf16", "128", NAMES_64, "%64", "%65", "%66", "%67", "%68", "%69", D32(0), D32(32));
    else
        BLEND("f16", "128", NAMES_64, "%64", "%65", "%66", "%67", "%68", "%69", D32(0), D32(32));
}

/* Products that were waited for are in these registers now: what uses them does not move before. */
template <int N> static __device__ inline void arrived(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Fragments are made now, not one by one between the products that they are for. */
static __device__ inline void settled(uint32_t (&w)[FRAGMENTS][4])
{
#pragma unroll
    for (int i = 0; i < FRAGMENTS * 4; i++)
        asm volatile("" : "+r"(w[i / 4][i % 4])::"memory");
}

#undef BLEND
#undef DOT
#undef NAMES_64
#undef NAMES_32
#undef D32
#undef D16
#undef D4

/* Barrier `number` of `threads` threads, of which some wait and some only arrive; where `does`,
 * which whole warps agree on.  A branch around it would make the compiler wait between products. */
static __device__ inline void group_sync_if(int number, int threads, bool does)
{
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p bar.sync %0, %1;\n\t}" ::"r"(number),
        "r"(threads), "r"((int)does)
        : "memory");
}

static __device__ inline void group_arrive_if(int number, int threads, bool does)
{
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p bar.arrive %0, %1;\n\t}" ::"r"(number),
        "r"(threads), "r"((int)does)
        : "memory");
}

/* Bytes that lie in memory one after the other, 16 at least; by a lane of the warp. */
static __device__ inline void load_bytes(uint32_t to, const void *from, uint32_t bytes,
                                         uint32_t barrier)
{
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                 "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];\n\t}" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* A block of 8 x 8, transposed. */
static __device__ inline uint32_t turned(uint32_t block)
{
    uint32_t other;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(other) : "r"(block));
    return other;
}

static __device__ inline uint4 load_four(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

template <typename T> static __device__ inline uint32_t pack(float first, float second)
{
    uint32_t word;
    if (is_bf16<T>::value)
        *(__nv_bfloat162 *)&word = __floats2bfloat162_rn(first, second);
    else
        *(__half2 *)&word = __floats2half2_rn(first, second);
    return word;
}

/* The tile of dS^T of these tiles of keys and queries */
static __device__ inline char *weights_at(const grad_args &g, int head, int keys, int queries)
{
    const int64_t tile = ((int64_t)head * g.tiles + keys) * g.reach + (queries - keys);
    return (char *)g.ds + tile * WEIGHTS;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* From one group of 8 rows to the next: 8 times their bytes; from 64 columns to the next, where
 * they are the lines of an operand: a box. */
static __device__ inline uint64_t tile_descriptor(uint32_t address)
{
    const uint64_t swizzle = 1; /* of 128 bytes */
    return swizzle << 62 | (uint64_t)(8 * BOX_BYTES / 16) << 32 | (uint64_t)(BOX / 16) << 16 |
           (address & 0x3ffffu) >> 4;
}

/* To the tile at `to`, from `row` on. */
template <int HEAD>
static __device__ inline void load_tile(uint32_t to, const CUtensorMap *map, int row, int head,
                                        uint32_t barrier)
{
#pragma unroll
    for (int c = 0; c < HEAD / 64; c++)
        load_box(to + c * BOX, map, c * 64, row, head, barrier);
}

/* d <- X Y^T */
template <typename T, int HEAD>
static __device__ inline void dot_tiles(float (&d)[32], uint32_t x, uint32_t y)
{
    const uint64_t of_x = tile_descriptor(x), of_y = tile_descriptor(y);
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) {
        const uint64_t at = (uint64_t)(k / 4 * (BOX / 16) + k % 4 * 2);
        dot_step<T>(d, of_x + at, of_y + at, k > 0);
    }
}

/* d <- W Y, or that added */
template <typename T, int N>
static __device__ inline void blend_tile(float (&d)[N], const uint32_t (&w)[FRAGMENTS][4],
                                         uint32_t y, bool add)
{
    const uint64_t of_y = tile_descriptor(y);
#pragma unroll
    for (int k = 0; k < FRAGMENTS; k++)
        blend_step<T>(d, w[k], of_y + (uint64_t)(k * 16 * BOX_BYTES / 16), add || k > 0);
}

/* ---- stages that the copy engine fills ------------------------------------------------------- */

/* Threads read them, too, not products alone, and so each thread gives a stage back for itself.  By
 * one lane of each warp it would be a few cycles less, but nothing that compute-sanitizer can
 * follow. */

struct cursor { /* in a ring; uses of a stage have parity 0, 1, 0, ... */
    uint32_t stage, parity;
};

template <int N> static __device__ inline void advance(cursor *at)
{
    at->stage++;
    if (at->stage == N) at->stage = 0, at->parity ^= 1u;
}

/* Stages that a warpgroup has no use for come and go. */
template <int N>
static __device__ inline void pass_by(uint32_t full, uint32_t empty, cursor *from, int n)
{
#pragma unroll 1
    for (; n > 0; n--, advance<N>(from)) {
        barrier_wait(full + 8 * from->stage, from->parity);
        barrier_arrive(empty + 8 * from->stage, true);
    }
}

/* ---- rows to memory -------------------------------------------------------------------------- */

/* A warpgroup's 64 rows times `factor`, to rows first, first + 1, ... of a head, as far as there
 * are any.  Two lanes exchange words of two blocks of 8 columns: so four write 32 bytes that lie
 * together.  me: the thread's number in its warpgroup */
template <typename T, int N>
static __device__ inline void store_tile(const float (&d)[N], float factor, const head_stack &to,
                                         int head, int first, int rows, uint32_t me)
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
            const uint32_t left  = pack<T>(d[e] * factor, d[e + 1] * factor);
            const uint32_t right = pack<T>(d[e + 4] * factor, d[e + 5] * factor);
            const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? left : right, 1);
            if (there)
                *(uint2 *)(at + h * 8 * to.ld + j * 8) =
                    make_uint2(odd ? other : left, odd ? right : other);
        }
    }
}

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */
#endif
