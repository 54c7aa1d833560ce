/* attention_mma.cuh - what the tensor-core kernels of attention share: copies to shared memory,
 * fragments, and the two products.
 *
 * A tile is some rows of one head, HEAD columns of 16 bits, in shared memory.  It is kept in chunks
 * of 16 bytes; chunk c of row r is stored at place c ^ (r & 7) of its row.  So the eight rows that
 * one phase of ldmatrix reads, at equal c, lie in different banks, and so do the chunks of a row.
 *
 * mma.m16n8k16 multiplies A (16 x 16) by B (16 x 8).  With g = lane / 4 and t = lane % 4, a lane
 * has, two numbers to a register:
 *     A  a0 (g, 2t), a1 (g + 8, 2t), a2 (g, 2t + 8), a3 (g + 8, 2t + 8)      and the next column
 *     B  b0 (2t, g), b1 (2t + 8, g)                                          and the next row
 *     C  c0 (g, 2t), c1 (g, 2t + 1), c2 (g + 8, 2t), c3 (g + 8, 2t + 1)      one number each
 * ldmatrix loads matrices of 8 x 8: a lane gets (g, 2t) and the next column, or transposed
 * (2t, g) and the next row.  So
 *   - two neighbouring C fragments, rounded, are an A fragment: weights never leave the registers;
 *   - rows of a tile are loaded as they lie for A, and for B of a product with the tile's transpose
 *     (qk_mma); for B of a product with the tile itself they are loaded transposed (pv_mma). */
#ifndef MS_DEVICE_CUDA_ATTENTION_MMA_CUH
#define MS_DEVICE_CUDA_ATTENTION_MMA_CUH

#include "device/cuda/attention.cuh"

enum {
    MMA_WARPS      = 4,
    MMA_THREADS    = MMA_WARPS * WARP,
    MMA_SHARED_MAX = 99 << 10, /* bytes of a block; capability 8.6 has no more */
};

/* ---- instructions ---------------------------------------------------------------------------- */

static __device__ inline uint32_t smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Returns the number of this warp in a way that the compiler knows to be the same for all lanes. */
static __device__ inline int warp_index(void)
{
    return __shfl_sync(ALL_LANES, (int)threadIdx.x / WARP, 0);
}

/* Reads threadIdx.x again, so that what is computed from it is not kept in registers from one use
 * to the next. */
static __device__ inline int reload_thread(void)
{
    int x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

/* Copies BYTES (8 or 16) from global memory asynchronously; zeros unless `there`. */
template <int BYTES>
static __device__ inline void cp_async(uint32_t to, const void *from, bool there)
{
    const int bytes = there ? BYTES : 0;
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes)
                     : "memory");
}

/* Waits for this thread's copies; a barrier then makes them visible to the others. */
static __device__ inline void cp_async_wait(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

static __device__ inline void ldmatrix(uint32_t (&x)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}

static __device__ inline void ldmatrix_transposed(uint32_t (&x)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}

#define MMA(type)                                                                        \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, " \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                  \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                 \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

/* c <- c + a b */
template <typename T>
static __device__ inline void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                           uint32_t b1)
{
    if constexpr (is_bf16<T>::value)
        MMA("bf16");
    else
        MMA("f16");
}

#undef MMA

/* ---- tiles ----------------------------------------------------------------------------------- */

/* These return a lane's address for ldmatrix in the first 16 rows and 16 columns of a tile,
 * relative to its beginning, a multiple of 128 bytes.  Later rows follow by multiples of 16
 * rows. */
/* (rows 0..7, columns 0..7), (8..15, 0..7), (0..7, 8..15), (8..15, 8..15): A, and B transposed */
template <int HEAD> static __device__ inline uint32_t lane_down(int lane)
{
    return (uint32_t)((lane & 15) * HEAD * 2 + (((lane >> 4) ^ (lane & 7)) << 4));
}

/* (rows 0..7, columns 0..7), (0..7, 8..15), (8..15, 0..7), (8..15, 8..15): B of the transpose */
template <int HEAD> static __device__ inline uint32_t lane_across(int lane)
{
    return (uint32_t)(((lane & 7) + ((lane >> 4) << 3)) * HEAD * 2 +
                      ((((lane >> 3) & 1) ^ (lane & 7)) << 4));
}

/* Moves such an address to the k-th 16 columns: four times 16 are 128 bytes, in which chunks change
 * places. */
static __device__ inline uint32_t columns(uint32_t at, int k)
{
    return (at ^ ((uint32_t)(k & 3) << 5)) + (uint32_t)(k >> 2) * 128;
}

/* Loads rows first .. first + ROWS - 1 of a head to the tile at `to`, zeros from row `rows` on, by
 * all threads of the block.  It does not wait for the copies. */
template <typename T, int HEAD, int ROWS>
static __device__ inline void load_tile(uint32_t to, const head_stack &x, int head, int first,
                                        int rows)
{
    constexpr int CHUNKS = HEAD / 8, STEP = MMA_THREADS / CHUNKS; /* STEP is a multiple of 8 */
    const int     thread = reload_thread();
    const int     chunk = thread % CHUNKS, row = thread / CHUNKS;
    const T      *from = (const T *)x.data + head * x.stride + chunk * 8 + (first + row) * x.ld;
    static_assert(ROWS % STEP == 0 && STEP % 8 == 0, "whole steps, in which r & 7 stays");
    to += (uint32_t)(row * HEAD * 2 + ((chunk ^ (row & 7)) << 4));
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP)
        cp_async<16>(to + i * HEAD * 2, from + i * x.ld, first + row + i < rows);
}

/* out (ROWS16 x 16 rows, COLS columns) += X Y^T.  x: the lane's address (lane_down) in the warp's
 * rows of one tile; y: the lane's address (lane_across) in a tile of COLS rows. */
template <typename T, int HEAD, int ROWS16, int COLS>
static __device__ inline void qk_mma(float (&out)[ROWS16][COLS / 8][4], uint32_t x, uint32_t y)
{
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) {
        uint32_t a[ROWS16][4];
#pragma unroll
        for (int m = 0; m < ROWS16; m++)
            ldmatrix(a[m], columns(x, k) + m * 16 * HEAD * 2);
#pragma unroll
        for (int n = 0; n < COLS / 16; n++) {
            uint32_t b[4];
            ldmatrix(b, columns(y, k) + n * 16 * HEAD * 2);
#pragma unroll
            for (int m = 0; m < ROWS16; m++) {
                mma_m16n8k16<T>(out[m][2 * n], a[m], b[0], b[1]);
                mma_m16n8k16<T>(out[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* out (ROWS16 x 16 rows, HEAD columns) += W Y, W being ROWS16 x 16 rows of COLS weights.  y: the
 * lane's address (lane_down) in a tile of COLS rows. */
template <typename T, int HEAD, int ROWS16, int COLS>
static __device__ inline void pv_mma(float (&out)[ROWS16][HEAD / 8][4],
                                     const uint32_t (&w)[ROWS16][COLS / 16][4], uint32_t y)
{
#pragma unroll
    for (int k = 0; k < COLS / 16; k++)
#pragma unroll
        for (int n = 0; n < HEAD / 16; n++) {
            uint32_t b[4];
            ldmatrix_transposed(b, columns(y, n) + k * 16 * HEAD * 2);
#pragma unroll
            for (int m = 0; m < ROWS16; m++) {
                mma_m16n8k16<T>(out[m][2 * n], w[m][k], b[0], b[1]);
                mma_m16n8k16<T>(out[m][2 * n + 1], w[m][k], b[2], b[3]);
            }
        }
}

/* Stores the warp's rows, times factor[m][0] in the upper and factor[m][1] in the lower half of 16,
 * to rows first, first + 1, ... of a head, up to row `rows`.  They go through the warp's own rows
 * of a tile that is no longer read, to be written 16 bytes at a time. */
template <typename T, int HEAD, int ROWS16>
static __device__ inline void store_rows(const float (&x)[ROWS16][HEAD / 8][4],
                                         const float (&factor)[ROWS16][2], unsigned char *tile,
                                         const head_stack &to, int head, int first, int rows)
{
    constexpr int CHUNKS = HEAD / 8, STEP = WARP / CHUNKS;
    const int     lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < ROWS16; m++)
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = m * 16 + half * 8 + g;
                *(uint32_t *)(tile + row * HEAD * 2 + ((n ^ g) << 4) + t * 4) = pack_pair<T>(
                    x[m][n][2 * half] * factor[m][half], x[m][n][2 * half + 1] * factor[m][half]);
            }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ROWS16 * 16; i += STEP) {
        const int row = i + lane / CHUNKS, chunk = lane % CHUNKS;
        if (first + row < rows)
            *(uint4 *)((T *)to.data + head * to.stride + (int64_t)(first + row) * to.ld +
                       chunk * 8) =
                *(const uint4 *)(tile + row * HEAD * 2 + ((chunk ^ (row & 7)) << 4));
    }
}

/* ---- the mask ------------------------------------------------------------------------------- */

/* For a negative scale: waits for so many bytes of 16-bit numbers in shared memory and negates
 * them.  A barrier must follow. */
static __device__ inline void flip_signs(unsigned char *shared, int bytes)
{
    cp_async_wait();
    __syncthreads();
    for (int i = (int)threadIdx.x * 4; i < bytes; i += MMA_THREADS * 4)
        *(uint32_t *)(shared + i) ^= 0x80008000u;
}

/* Sets products of pairs that do not see each other to -infinity.  first_row, first_col: of the
 * warp's rows and of the tile; seen(row): the columns that a row sees. */
template <int ROWS16, int NS, typename Seen>
static __device__ inline void apply_mask(float (&s)[ROWS16][NS][4], int first_row, int first_col,
                                         int lane, Seen seen)
{
#pragma unroll
    for (int i = 0; i < ROWS16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const span visible = seen(first_row + i * 16 + half * 8 + lane / 4);
#pragma unroll
            for (int n = 0; n < NS; n++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int col = first_col + n * 8 + lane % 4 * 2 + c;
                    if (!has(visible, col)) s[i][n][2 * half + c] = -CUDART_INF_F;
                }
        }
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Allows a kernel so much shared memory, and prefers shared memory to L1 for it. */
template <typename Kernel>
static inline musec_status allow_shared(ms_device *d, Kernel kernel, int bytes)
{
    cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared);
    return ms_cuda_status(d, code, "shared memory for attention");
}

#endif
