/* element.cu - element ops of one matrix in and one out: copies, factors, diagonals. */
#include "device/cuda/element.cuh"

/* ---- copy and fill --------------------------------------------------------------------------- */

/* Copies elements as unsigned integers of their size. */
template <typename Bits> struct copy_bits : element_op {
    typedef Bits Real;
    enum { N = 2, READS = 1, WRITES = 2 };
    static constexpr bool transposes = true;

    __device__ void apply(const numbers &, Bits (&v)[N], const place &) const { v[1] = v[0]; }
};

template <typename R> struct convert : element_op {
    typedef R Real;
    enum { N = 2, READS = 1, WRITES = 2 };
    static constexpr bool transposes = true;
    template <bool Lists>
    using Hot = in_f32<R, choice<kinds<MUSEC_F32, MUSEC_BF16>, kinds<MUSEC_F32, MUSEC_F16>,
                                 kinds<MUSEC_BF16, MUSEC_F32>, kinds<MUSEC_F16, MUSEC_F32>>>;

    __device__ void apply(const numbers &, Real (&v)[N], const place &) const { v[1] = v[0]; }
};

static musec_status cuda_copy(ms_device *d, ms_mat x, ms_mat out)
{
    const element_call<2> call = { { x, out }, 3u, false, false };
    assert(x.rows == out.rows && x.cols == out.cols && x.count == out.count);
    if (x.dtype != out.dtype)
        return has_f64(call) ? run_elements(d, "copy", convert<double>(), call)
                             : run_elements(d, "copy", convert<float>(), call);
    switch (ms_dtype_bytes(x.dtype)) {
    case 2: return run_elements(d, "copy", copy_bits<uint16_t>(), call);
    case 4: return run_elements(d, "copy", copy_bits<uint32_t>(), call);
    default: return run_elements(d, "copy", copy_bits<uint64_t>(), call);
    }
}

typedef choice<kinds<MUSEC_F32>, kinds<MUSEC_F16>, kinds<MUSEC_BF16>> any_one; /* but float64 */

struct fill_op : element_op {
    typedef double Real;
    enum { N = 1, READS = 0, WRITES = 1 };
    template <bool Lists> using Hot = any_one;
    double value;

    __device__ void apply(const numbers &, double (&v)[N], const place &) const { v[0] = value; }
};

static musec_status cuda_fill(ms_device *d, double value, ms_mat out)
{
    fill_op op;
    op.value = value;
    return run_stacks(d, "fill", op, element_call<1>{ { out }, 1u, false, false });
}

/* ---- factors --------------------------------------------------------------------------------- */

/* x <- factor x.  Factors in device memory (not Known) are mostly 1: gains that an operator was
 * unable to apply elsewhere (ms_scalar_gain). */
template <bool Known> struct scale_op : element_op {
    typedef double Real; /* factors may be as small as 2^-300 */
    enum { N = 1, READS = 1, WRITES = 1 };
    static constexpr bool rare      = !Known;
    template <bool Lists> using Hot = any_one;
    number factor;

    struct numbers {
        double factor;
    };
    __device__ numbers  of(int64_t b, uint32_t) const { return { number_at(factor, b) }; }
    __device__ bool     skips() const { return true; }
    __device__ unsigned wanted(const numbers &c) const { return c.factor == 1.0 ? 0u : ~0u; }
    __device__ void     apply(const numbers &c, double (&v)[N], const place &) const
    {
        v[0] = times(c.factor, v[0]);
    }
};

static musec_status cuda_scale(ms_device *d, ms_num factor, ms_mat x)
{
    scale_op<true>  known;
    scale_op<false> unknown;
    if (is_constant(factor, 1.0)) return MUSEC_OK;
    known.factor = unknown.factor = number_of(factor);
    return factor.each.data == NULL
               ? run_stacks(d, "scale", known, element_call<1>{ { x }, 1u, false, false })
               : run_stacks(d, "scale", unknown, element_call<1>{ { x }, 1u, false, true });
}

/* out <- factor x */
struct prescale_op : element_op {
    typedef double Real;
    enum { N = 2, READS = 1, WRITES = 2 };
    static constexpr bool transposes = true;
    template <bool Lists>
    using Hot = choice<kinds<MUSEC_F32, MUSEC_F16>, kinds<MUSEC_F32, MUSEC_BF16>,
                       kinds<MUSEC_F32, MUSEC_F32>, kinds<MUSEC_F16, MUSEC_F16>,
                       kinds<MUSEC_BF16, MUSEC_BF16>>;
    const double *factor;

    struct numbers {
        double factor;
    };
    __device__ numbers of(int64_t b, uint32_t) const { return { factor[b] }; }
    __device__ void    apply(const numbers &c, double (&v)[N], const place &) const
    {
        v[1] = times(c.factor, v[0]);
    }
};

/* An unconditional pass costs less than a download of whether it is needed. */
static musec_status cuda_prescale(ms_device *d, ms_mat x, ms_vec factor, ms_mat buffer,
                                  ms_mat *scaled)
{
    prescale_op op;
    op.factor = factor.data;
    *scaled   = buffer;
    return run_stacks(d, "prescale", op, element_call<2>{ { x, buffer }, 3u, false, true });
}

/* Multiplies row i by v(0, i), or the column where x lies transposed. */
template <typename R> struct scale_rows_op : element_op {
    typedef R Real;
    enum { N = 1, READS = 1, WRITES = 1 };
    template <bool Lists> using Hot = in_f32<R, choice<kinds<MUSEC_F32>>>;
    const char *factor;
    int64_t     step, stride; /* elements from one factor to the next, from matrix to matrix */
    int         size;
    musec_dtype dtype;
    bool        columns;

    struct numbers {
        const char *factor;
    };
    __device__ numbers of(int64_t b, uint32_t) const { return { factor + b * stride * size }; }
    __device__ void    apply(const numbers &c, Real (&v)[N], const place &at) const
    {
        v[0] = times(load<Real>(c.factor, (columns ? at.j : at.i) * step, dtype), v[0]);
    }
};

template <typename Op>
static musec_status scale_rows_by(ms_device *d, const ms_mat &v, const element_call<1> &call)
{
    Op op;
    op.factor  = (const char *)v.data;
    op.step    = v.trans ? v.ld : 1;
    op.stride  = v.stride;
    op.size    = (int)ms_dtype_bytes(v.dtype);
    op.dtype   = v.dtype;
    op.columns = call.mat[0].trans;
    return run_stacks(d, "scale_rows", op, call);
}

static musec_status cuda_scale_rows(ms_device *d, ms_mat v, ms_mat x)
{
    const element_call<1> call = { { x }, 1u, true, true };
    assert(v.rows == 1 && v.cols == x.rows);
    if (x.dtype == MUSEC_F64) return scale_rows_by<scale_rows_op<double>>(d, v, call);
    return scale_rows_by<scale_rows_op<float>>(d, v, call);
}

/* ---- diagonals ------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(ELEMENT_THREADS)
    add_diag_k(number value, operand x, int64_t n, int64_t total)
{
    pdl_wait_trigger();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < total; k += step) {
        const int64_t b = k / n, at = b * x.stride + (k - b * n) * (x.ld + 1);
        store<double>(x.data, at, x.dtype,
                      plus(load<double>(x.data, at, x.dtype), number_at(value, b)));
    }
}

static musec_status cuda_add_diag(ms_device *d, ms_num value, ms_mat x)
{
    const int64_t n = x.rows < x.cols ? x.rows : x.cols, total = n * x.count;
    const operand o = { (char *)x.data, x.ld, x.stride, 0, x.dtype, false, -1 };
    if (total == 0) return MUSEC_OK;
    launch_kernel(d, add_diag_k, blocks_for(d, total, ELEMENT_THREADS), ELEMENT_THREADS, 0,
                  number_of(value), o, n, total);
    return launched(d, "add_diag");
}

void ms_cuda_element_ops(ms_device_ops *table)
{
    table->copy       = cuda_copy;
    table->fill       = cuda_fill;
    table->add_diag   = cuda_add_diag;
    table->scale      = cuda_scale;
    table->scale_rows = cuda_scale_rows;
    table->prescale   = cuda_prescale;
}
