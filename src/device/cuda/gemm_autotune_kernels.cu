/* gemm_autotune_kernels.cu - fills operands with numbers for comparing candidates, and digests
 * results.  A warp has one row after another. */
#include "core/rng.h"
#include "device/cuda/gemm_plan.h"
#include "device/cuda/kernel.cuh"

enum {
    WARPS = 8, /* of a block */
    RARE =
        61, /* one row or column in so many is tiny; a prime, so that its place in a tile varies */
};

static __device__ inline int64_t first_row() { return (int64_t)blockIdx.x * WARPS + threadIdx.y; }
static __device__ inline int64_t row_step() { return (int64_t)gridDim.x * WARPS; }

/* Returns where a row of a stack begins. */
static __device__ inline int64_t row_at(const ms_mat &m, int64_t row)
{
    return row / m.rows * m.stride + row % m.rows * m.ld;
}

/* ---- numbers --------------------------------------------------------------------------------- */

struct filled {
    ms_mat       out;
    uint64_t     key;
    ms_cuda_tiny tiny;
    double       tiny_scale;
};

/* Returns a number with the sign and fraction of the bits, and an exponent from 0 down to -7. */
static __device__ inline double number_of_bits(uint64_t bits)
{
    const uint64_t exponent = 1023 - (bits >> 52 & 7);
    return __longlong_as_double((long long)((bits & 0x800fffffffffffffu) | exponent << 52));
}

static __global__ void fill_k(const __grid_constant__ filled f)
{
    const ms_mat &m = f.out;
    for (int64_t row = first_row(); row < m.count * m.rows; row += row_step()) {
        const int64_t at = row_at(m, row);
        for (int64_t j = threadIdx.x; j < m.cols; j += WARP) {
            const double  x     = number_of_bits(ms_rand_u64(f.key, (uint64_t)(row * m.cols + j)));
            const int64_t which = f.tiny == MS_CUDA_TINY_ROWS ? row : j;
            const bool    small = f.tiny != MS_CUDA_TINY_NONE && which % RARE == RARE - 1;
            store<double>(m.data, at + j, m.dtype, small ? x * f.tiny_scale : x);
        }
    }
}

/* Returns a factor for tiny numbers: the product of two is a little below the smallest normal
 * number, of f16 for f16 operands, else of the accumulator type. */
static double tiny_of(musec_dtype dtype)
{
    switch (dtype) {
    case MUSEC_F16: return 0x1p-9;
    case MUSEC_F64: return 0x1p-515;
    default: return 0x1p-66;
    }
}

static dim3 blocks_of(ms_device *d, const ms_mat &m)
{
    return dim3(blocks_for(d, m.count * m.rows, WARPS));
}

musec_status ms_cuda_autotune_fill(ms_device *d, uint64_t key, ms_cuda_tiny tiny, ms_mat out)
{
    filled f;
    f.out        = out;
    f.key        = key;
    f.tiny       = tiny;
    f.tiny_scale = tiny_of(out.dtype);
    fill_k<<<blocks_of(d, out), dim3(WARP, WARPS), 0, ms_cuda_of(d)->stream>>>(f);
    return launched(d, "autotuning a product");
}

/* ---- digests --------------------------------------------------------------------------------- */

struct digested {
    ms_mat              c;
    uint64_t            key;
    unsigned long long *digest;
};

/* The finaliser of splitmix64, a bijection in which every bit affects all others. */
static __device__ inline uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Hashes are added modulo 2^64, so the order of blocks does not matter. */
template <typename Bits> static __global__ void digest_k(const __grid_constant__ digested g)
{
    const ms_mat &c    = g.c;
    const Bits   *bits = (const Bits *)c.data;
    uint64_t      sum  = 0;
    for (int64_t row = first_row(); row < c.count * c.rows; row += row_step()) {
        const int64_t  at   = row_at(c, row);
        const uint64_t here = mixed(g.key + (uint64_t)row * 0x9e3779b97f4a7c15u);
        for (int64_t j = threadIdx.x; j < c.cols; j += WARP)
            sum += mixed(mixed(here + (uint64_t)j) ^ (uint64_t)bits[at + j]);
    }
    sum = warp_sum<unsigned long long>(sum);
    if (threadIdx.x == 0) atomicAdd(g.digest, (unsigned long long)sum);
}

musec_status ms_cuda_autotune_digest(ms_device *d, uint64_t key, ms_mat c, uint64_t *digest)
{
    const dim3   blocks = blocks_of(d, c), threads(WARP, WARPS);
    cudaStream_t stream = ms_cuda_of(d)->stream;
    digested     g;
    g.c      = c;
    g.key    = key;
    g.digest = (unsigned long long *)digest;
    switch (ms_dtype_bytes(c.dtype)) {
    case 2: digest_k<uint16_t><<<blocks, threads, 0, stream>>>(g); break;
    case 4: digest_k<uint32_t><<<blocks, threads, 0, stream>>>(g); break;
    default: digest_k<uint64_t><<<blocks, threads, 0, stream>>>(g); break;
    }
    return launched(d, "autotuning a product");
}
