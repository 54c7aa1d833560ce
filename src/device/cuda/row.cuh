/* row.cuh - what the kernels of networks share: rows of one type, in pieces, and launches by dtype.
 *
 * These kernels are compiled for each dtype: a row in registers is loaded all at once, which a
 * branch on the dtype between two loads would not allow.  A piece is what a thread loads at once:
 * VECTOR elements where all operands are aligned for that (is_vector), else one.  Rows of stacks
 * are counted in the order in which heads lie in memory: row i of every matrix, then row i + 1. */
#ifndef MS_DEVICE_CUDA_ROW_CUH
#define MS_DEVICE_CUDA_ROW_CUH

#include <type_traits>

#include "device/cuda/kernel.cuh"

/* ---- types ----------------------------------------------------------------------------------- */

/* The type in which T is computed and accumulated. */
template <typename T> struct wide_of {
    typedef float type;
};
template <> struct wide_of<double> {
    typedef double type;
};
template <typename T> using wide = typename wide_of<T>::type;

static __device__ inline float  widen(float x) { return x; }
static __device__ inline float  widen(__nv_bfloat16 x) { return __bfloat162float(x); }
static __device__ inline float  widen(__half x) { return __half2float(x); }
static __device__ inline double widen(double x) { return x; }

static __device__ inline void narrow(float x, float *to) { *to = x; }
static __device__ inline void narrow(float x, __nv_bfloat16 *to) { *to = to_bf16(x); }
static __device__ inline void narrow(float x, __half *to) { *to = to_f16(x); }
static __device__ inline void narrow(double x, double *to) { *to = x; }

template <typename T> struct type_tag {
    typedef T type;
};

/* launch(type_tag<T>) of the dtype. */
template <typename Launch> static inline musec_status by_dtype(musec_dtype dtype, Launch launch)
{
    switch (dtype) {
    case MUSEC_F32: return launch(type_tag<float>());
    case MUSEC_BF16: return launch(type_tag<__nv_bfloat16>());
    case MUSEC_F16: return launch(type_tag<__half>());
    default: return launch(type_tag<double>());
    }
}

/* by_dtype without float64, which has no vectors. */
template <typename Launch> static inline musec_status by_vector(musec_dtype dtype, Launch launch)
{
    switch (dtype) {
    case MUSEC_BF16: return launch(type_tag<__nv_bfloat16>());
    case MUSEC_F16: return launch(type_tag<__half>());
    default: return launch(type_tag<float>());
    }
}

/* Calls launch(type_tag<T>, V), V as a type: VECTOR where operands are vectors, else 1. */
template <typename Launch>
static inline musec_status by_piece(musec_dtype dtype, bool vector, Launch launch)
{
    return by_dtype(dtype, [&](auto tag) {
        if constexpr (sizeof(typename decltype(tag)::type) < sizeof(double))
            if (vector) return launch(tag, std::integral_constant<int, VECTOR>());
        return launch(tag, std::integral_constant<int, 1>());
    });
}

/* ---- pieces ---------------------------------------------------------------------------------- */

template <typename T, int V> struct piece { /* V is VECTOR; {} has zeros */
    uint4 bits[V * sizeof(T) / sizeof(uint4)];
};
template <typename T> struct piece<T, 1> {
    T one;
};

/* Loads V elements from p on, which is aligned to 16 bytes if V is VECTOR. */
template <typename T, int V> static __device__ inline piece<T, V> fetch(const T *p)
{
    piece<T, V> x;
    if constexpr (V == 1) {
        x.one = *p;
    } else {
#pragma unroll
        for (int k = 0; k < (int)(sizeof x / sizeof(uint4)); k++)
            x.bits[k] = ((const uint4 *)p)[k];
    }
    return x;
}

/* The elements of a word: two of 16 bits, or one of 32. */
template <typename T> static __device__ inline void unpack_word(uint32_t bits, float *x)
{
    if constexpr (sizeof(T) == 4) {
        x[0] = __uint_as_float(bits);
    } else {
        const float2 two = unpack_pair<T>(bits);
        x[0]             = two.x;
        x[1]             = two.y;
    }
}

template <typename T> static __device__ inline uint32_t pack_word(const float *x)
{
    if constexpr (sizeof(T) == 4)
        return __float_as_uint(x[0]);
    else
        return pack_pair<T>(x[0], x[1]);
}

template <typename T, int V>
static __device__ inline void unpack(const piece<T, V> &from, wide<T> (&x)[V])
{
    if constexpr (V == 1) {
        x[0] = widen(from.one);
    } else {
        constexpr int EACH = 4 / sizeof(T); /* elements of a word */
#pragma unroll
        for (int k = 0; k < (int)(sizeof from / sizeof(uint4)); k++) {
            unpack_word<T>(from.bits[k].x, x + (4 * k + 0) * EACH);
            unpack_word<T>(from.bits[k].y, x + (4 * k + 1) * EACH);
            unpack_word<T>(from.bits[k].z, x + (4 * k + 2) * EACH);
            unpack_word<T>(from.bits[k].w, x + (4 * k + 3) * EACH);
        }
    }
}

template <typename T, int V> static __device__ inline void put(T *p, const wide<T> (&x)[V])
{
    if constexpr (V == 1) {
        narrow(x[0], p);
    } else {
        constexpr int EACH = 4 / sizeof(T);
#pragma unroll
        for (int k = 0; k < (int)(V * sizeof(T) / sizeof(uint4)); k++)
            ((uint4 *)p)[k] = make_uint4(
                pack_word<T>(x + (4 * k + 0) * EACH), pack_word<T>(x + (4 * k + 1) * EACH),
                pack_word<T>(x + (4 * k + 2) * EACH), pack_word<T>(x + (4 * k + 3) * EACH));
    }
}

/* Loads the pieces at columns first, first + step, ... of a row; zeros beyond its end. */
template <typename T, int N>
static __device__ inline void fetch_row(const T *row, int first, int step, int cols,
                                        piece<T, VECTOR> (&kept)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        kept[k] = piece<T, VECTOR>{};
        if (first + k * step < cols) kept[k] = fetch<T, VECTOR>(row + first + k * step);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

template <typename T> struct lines { /* a stack as a parameter of a kernel */
    T      *data;
    int64_t ld, stride;

    __device__ T *row(int64_t b, int64_t i) const { return data + b * stride + i * ld; }
};

template <typename T> static inline lines<T> lines_of(ms_mat x)
{
    return lines<T>{ (T *)x.data, x.ld, x.stride };
}

/* n = quotient * by + rest, by a 32-bit division where it suffices: 64-bit ones are slow. */
static __device__ inline void divide(int64_t n, int64_t by, int64_t *quotient, int64_t *rest)
{
    if ((((uint64_t)n | (uint64_t)by) >> 32) == 0) {
        *quotient = (uint32_t)n / (uint32_t)by;
        *rest     = (uint32_t)n - (uint32_t)*quotient * (uint32_t)by;
    } else {
        *quotient = n / by;
        *rest     = n % by;
    }
}

/* Finds row i of matrix b, which is row n of a stack of `count` matrices. */
static __device__ inline void place_of(int64_t n, int64_t count, int64_t *i, int64_t *b)
{
    *i = n;
    *b = 0;
    if (count > 1) divide(n, count, i, b);
}

/* Returns the sum over `lanes` neighbours of a warp, a power of two, in all of them.  The whole
 * warp calls it. */
template <typename Real> static __device__ inline Real lanes_sum(Real x, int lanes)
{
    for (int step = lanes / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

/* (mean(x^2) + eps)^(-1/2) of a row whose squares have that sum. */
template <typename Real> static __device__ inline Real inverse_rms(Real sum, Real cols, Real eps)
{
    return (Real)1 / sqrt(sum / cols + eps);
}

/* ---- grids ----------------------------------------------------------------------------------- */

enum { ROW_THREADS = 128 }; /* of a block whose warps are independent */

static inline int64_t ceil_div(int64_t n, int64_t by) { return (n - 1) / by + 1; } /* n >= 1 */

/* Returns the least power of two that is not below n, at most a warp. */
static inline int lanes_for(int64_t n)
{
    int lanes = 1;
    while (lanes < n && lanes < WARP)
        lanes *= 2;
    return lanes;
}

/* Returns the blocks of ROW_THREADS for so many rows, `lanes` threads each; kernels stride over the
 * rest. */
static inline unsigned row_blocks(int64_t rows, int lanes)
{
    const int64_t most = INT32_MAX, need = ceil_div(rows, ROW_THREADS / lanes);
    return (unsigned)(need < most ? need : most);
}

#endif
