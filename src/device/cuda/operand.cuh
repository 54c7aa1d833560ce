/* operand.cuh - operands of any layout and dtype in kernels: the addresses of their matrices, and
 * loads and stores of their elements, one by one or 16 bytes at once.
 *
 * Indices have 64 bits.  A grouped op passes the pointers of at most MS_CUDA_GROUP_MAX matrices,
 * for two operands each, as kernel parameters: 2 KiB of the 4 KiB that a launch may have. */
#ifndef MS_DEVICE_CUDA_OPERAND_CUH
#define MS_DEVICE_CUDA_OPERAND_CUH

#include <assert.h>
#include <type_traits>

#include "device/cuda/kernel.cuh"

/* ---- numbers --------------------------------------------------------------------------------- */

struct number { /* an ms_num without numbers in host memory */
    const double *each;
    double        value;
};

static inline number number_of(ms_num n)
{
    assert(n.each.data != NULL || n.host == NULL);
    return { n.each.data, n.value };
}

static __device__ inline double number_at(number n, int64_t b)
{
    return n.each != NULL ? n.each[b] : n.value;
}

static inline bool is_constant(ms_num n, double value)
{
    return n.each.data == NULL && n.host == NULL && n.value == value;
}

/* ---- operands -------------------------------------------------------------------------------- */

struct operand {
    char       *data;
    int64_t     ld, stride; /* elements */
    int         size;       /* bytes of an element */
    musec_dtype dtype;
    bool        trans;
    int         list; /* the pointer array of the launch that has its matrices; -1: none */
};

/* n / by for n < 2^31, without dividing: with 2^(s-1) < by <= 2^s and factor the first integer
 * above 2^(31+s) / by, the error factor by - 2^(31+s) is at most 2^s, and n factor / 2^(31+s)
 * has the same integer part as n / by. */
struct divisor {
    uint32_t by, factor, shift; /* shift: s - 1 */
};

static inline divisor divisor_of(int64_t by)
{
    uint32_t s = 0;
    assert(by >= 1 && by <= INT32_MAX);
    while (((int64_t)1 << s) < by)
        s++;
    const uint64_t factor = ((uint64_t)1 << (31 + s)) / (uint64_t)by + 1;
    return { (uint32_t)by, (uint32_t)factor, s - 1 };
}

static __device__ inline uint32_t quotient(uint32_t n, const divisor &d)
{
    return d.by == 1 ? n : __umulhi(n, d.factor) >> d.shift;
}

template <int N, bool Lists> struct operands {
    operand  of[N];
    int64_t  rows, cols, elems; /* of each matrix */
    int64_t  first;             /* index in the stack of the first matrix of the launch */
    divisor  chunks;            /* blocks of each matrix */
    divisor  row;               /* vectors of a row */
    uint32_t across;            /* tiles in a row, where matrices are transposed */
    unsigned there;             /* bit k: operand k is given */

    const double *guard; /* where it is 0 nothing is written; NULL: there is none */

    ms_mat_ptr place[Lists ? 2 : 1][Lists ? MS_CUDA_GROUP_MAX : 1];
};

struct view { /* the matrix of an operand that a block works on */
    char       *data;
    int64_t     ld;
    int         size;
    musec_dtype dtype;
    bool        trans;
};

template <int N, bool Lists>
static __device__ inline view view_of(const operands<N, Lists> &a, int k, uint32_t slot)
{
    const operand &o = a.of[k];
    view           v = { o.data, o.ld, o.size, o.dtype, o.trans };
    if (Lists && o.list >= 0) {
        v.data = (char *)a.place[o.list][slot].data;
        v.ld   = a.place[o.list][slot].ld;
    } else {
        v.data += (int64_t)slot * o.stride * o.size;
    }
    return v;
}

/* Finds row and column of element e of a matrix, by a 32-bit division where it suffices, since
 * 64-bit ones are slow. */
static __device__ inline void position_of(int64_t e, int64_t cols, int64_t elems, int64_t *i,
                                          int64_t *j)
{
    if (elems <= (int64_t)UINT32_MAX)
        *i = (uint32_t)e / (uint32_t)cols;
    else
        *i = e / cols;
    *j = e - *i * cols;
}

/* ---- host ------------------------------------------------------------------------------------ */

/* Sets operand k of a launch to m.  lists: the pointer arrays of the launch so far. */
template <int N, bool Lists>
static void set_operand(operands<N, Lists> *a, int k, const ms_mat &m, const ms_mat_ptr **lists,
                        int *n_lists)
{
    int list = -1;
    if (m.ptrs != NULL) {
        for (list = 0; list < *n_lists && lists[list] != m.ptrs;)
            list++;
        assert(Lists && list < 2);
        if (list == *n_lists) {
            lists[(*n_lists)++] = m.ptrs;
            for (int64_t b = 0; b < m.count; b++)
                a->place[list][b] = m.ptrs[b];
        }
    }
    a->of[k] = { (char *)m.data, m.ld,    m.stride, (int)ms_dtype_bytes(m.dtype),
                 m.dtype,        m.trans, list };
}

/* ---- one element ----------------------------------------------------------------------------- */

template <typename Real> static __device__ inline Real load_one(const view &v, int64_t i, int64_t j)
{
    const int64_t at = v.trans ? j * v.ld + i : i * v.ld + j;
    if constexpr (std::is_integral<Real>::value)
        return ((const Real *)v.data)[at];
    else
        return load<Real>(v.data, at, v.dtype);
}

template <typename Real>
static __device__ inline void store_one(const view &v, int64_t i, int64_t j, Real x)
{
    const int64_t at = v.trans ? j * v.ld + i : i * v.ld + j;
    if constexpr (std::is_integral<Real>::value)
        ((Real *)v.data)[at] = x;
    else
        store<Real>(v.data, at, v.dtype, x);
}

/* load_one in two steps, so that loads need not wait for conversions. */
static __device__ inline uint64_t load_bits(const char *p, int64_t at, int size)
{
    if (size == 2) return ((const uint16_t *)p)[at];
    return size == 4 ? ((const uint32_t *)p)[at] : ((const uint64_t *)p)[at];
}

template <typename Real> static __device__ inline Real value_of(uint64_t bits, musec_dtype dtype)
{
    if constexpr (std::is_integral<Real>::value) {
        return (Real)bits;
    } else {
        switch (dtype) {
        case MUSEC_F32: return (Real)__uint_as_float((uint32_t)bits);
        case MUSEC_BF16: return (Real)__uint_as_float((uint32_t)bits << 16);
        case MUSEC_F16: return (Real)__half2float(__ushort_as_half((unsigned short)bits));
        case MUSEC_I16: return (Real)(int16_t)bits;
        default: return (Real)__longlong_as_double((long long)bits);
        }
    }
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* A kernel may be compiled for a dtype of an operand, for its absence (NONE), or for any dtype
 * (ANY).  A pass over 16-bit numbers is bound by memory up to some 27 instructions per element, too
 * few to branch on dtypes. */
enum { ANY = 0, NONE = -1 };

/* Returns Kind as a dtype, or the operand's dtype where Kind is ANY. */
template <int Kind> static __device__ inline musec_dtype dtype_as(musec_dtype dtype)
{
    return Kind == ANY ? dtype : (musec_dtype)Kind;
}

static __host__ __device__ constexpr int kind_bytes(int kind)
{
    return kind == MUSEC_F64 ? 8 : kind == MUSEC_F32 ? 4 : kind > 0 ? 2 : 0;
}

/* Up to 16 bytes as they are in memory.  They are unpacked later: a conversion right after a load
 * would wait for it before the next load. */
struct raw_vector {
    uint32_t word[4];
};

static __device__ inline raw_vector load_raw(const char *p, int bytes)
{
    raw_vector r = { { 0, 0, 0, 0 } };
    if (bytes == 16) {
        const uint4 v = *(const uint4 *)p;
        r.word[0] = v.x, r.word[1] = v.y, r.word[2] = v.z, r.word[3] = v.w;
    } else if (bytes == 8) {
        const uint2 v = *(const uint2 *)p;
        r.word[0] = v.x, r.word[1] = v.y;
    } else {
        r.word[0] = *(const uint32_t *)p;
    }
    return r;
}

static __device__ inline void store_raw(char *p, int bytes, const raw_vector &r)
{
    if (bytes == 16)
        *(uint4 *)p = make_uint4(r.word[0], r.word[1], r.word[2], r.word[3]);
    else if (bytes == 8)
        *(uint2 *)p = make_uint2(r.word[0], r.word[1]);
    else
        *(uint32_t *)p = r.word[0];
}

static __device__ inline float2 pair_from(uint32_t word, bool bf16)
{
    return bf16 ? unpack_pair<__nv_bfloat16>(word) : unpack_pair<__half>(word);
}

static __device__ inline uint32_t pair_of(float x, float y, bool bf16)
{
    return bf16 ? pack_pair<__nv_bfloat16>(x, y) : pack_pair<__half>(x, y);
}

static __device__ inline uint32_t pair_of(double x, double y, bool bf16)
{
    const unsigned short low =
        bf16 ? __bfloat16_as_ushort(to_bf16(x)) : __half_as_ushort(to_f16(x));
    const unsigned short high =
        bf16 ? __bfloat16_as_ushort(to_bf16(y)) : __half_as_ushort(to_f16(y));
    return (uint32_t)high << 16 | low;
}

/* x <- W elements of r.  Dtypes of which W elements would not fit are left out. */
template <int Kind, typename Real, int W>
static __device__ inline void unpack(const raw_vector &r, musec_dtype dtype, Real (&x)[W])
{
    if constexpr (std::is_integral<Real>::value) {
#pragma unroll
        for (int k = 0; k < W; k++) {
            if constexpr (sizeof(Real) == 2)
                x[k] = (Real)(r.word[k / 2] >> (k % 2 * 16));
            else if constexpr (sizeof(Real) == 4)
                x[k] = r.word[k];
            else
                x[k] = (Real)((uint64_t)r.word[2 * k + 1] << 32 | r.word[2 * k]);
        }
    } else {
        const musec_dtype type = dtype_as<Kind>(dtype);
        if (type == MUSEC_BF16 || type == MUSEC_F16) {
#pragma unroll
            for (int k = 0; k < W; k += 2) {
                const float2 two = pair_from(r.word[k / 2], type == MUSEC_BF16);
                x[k] = (Real)two.x, x[k + 1] = (Real)two.y;
            }
            return;
        }
        if (type == MUSEC_I16) {
#pragma unroll
            for (int k = 0; k < W; k++)
                x[k] = (Real)(int16_t)(r.word[k / 2] >> (k % 2 * 16));
            return;
        }
        if constexpr (W <= 4) {
#pragma unroll
            for (int k = 0; k < W && type == MUSEC_F32; k++)
                x[k] = (Real)__uint_as_float(r.word[k]);
        }
        if constexpr (W == 2) {
#pragma unroll
            for (int k = 0; k < W && type == MUSEC_F64; k++)
                x[k] = (Real)__hiloint2double((int)r.word[2 * k + 1], (int)r.word[2 * k]);
        }
    }
}

template <int Kind, typename Real, int W>
static __device__ inline raw_vector pack(const Real (&x)[W], musec_dtype dtype)
{
    raw_vector r = { { 0, 0, 0, 0 } };
    if constexpr (std::is_integral<Real>::value) {
#pragma unroll
        for (int k = 0; k < W; k++) {
            if constexpr (sizeof(Real) == 2)
                r.word[k / 2] |= (uint32_t)x[k] << (k % 2 * 16);
            else if constexpr (sizeof(Real) == 4)
                r.word[k] = x[k];
            else
                r.word[2 * k] = (uint32_t)x[k], r.word[2 * k + 1] = (uint32_t)(x[k] >> 32);
        }
    } else {
        const musec_dtype type = dtype_as<Kind>(dtype);
        if (type == MUSEC_BF16 || type == MUSEC_F16) {
#pragma unroll
            for (int k = 0; k < W; k += 2)
                r.word[k / 2] = pair_of(x[k], x[k + 1], type == MUSEC_BF16);
            return r;
        }
        if (type == MUSEC_I16) {
#pragma unroll
            for (int k = 0; k < W; k++)
                r.word[k / 2] |= (uint32_t)(uint16_t)(int16_t)x[k] << (k % 2 * 16);
            return r;
        }
        if constexpr (W <= 4) {
#pragma unroll
            for (int k = 0; k < W && type == MUSEC_F32; k++)
                r.word[k] = __float_as_uint((float)x[k]);
        }
        if constexpr (W == 2) {
#pragma unroll
            for (int k = 0; k < W && type == MUSEC_F64; k++) {
                r.word[2 * k]     = (uint32_t)__double2loint((double)x[k]);
                r.word[2 * k + 1] = (uint32_t)__double2hiint((double)x[k]);
            }
        }
    }
    return r;
}

#endif
