/* combine.cu - linear combinations of two matrices and I, any number of them in one pass.
 *
 * Coefficients are float64 and are rounded to the type of the arithmetic, as on the CPU. */
#include "device/cuda/element.cuh"

/* y <- alpha x + beta y */
template <typename R, bool Adds> struct axpby_op : element_op {
    typedef R Real;
    enum { N = 2, READS = Adds ? 3 : 1, WRITES = 2 };
    template <bool Lists>
    using Hot = in_f32<R, choice<kinds<MUSEC_F32, MUSEC_F32>, kinds<MUSEC_F16, MUSEC_F16>,
                                 kinds<MUSEC_BF16, MUSEC_BF16>>>;
    number alpha, beta;

    struct numbers {
        Real alpha, beta;
        bool keeps; /* beta is not 0: where it is 0, even a NaN in y is ignored */
    };
    __device__ numbers of(int64_t b, uint32_t) const
    {
        const double keep = number_at(beta, b);
        return { (Real)number_at(alpha, b), (Real)keep, keep != 0.0 };
    }
    __device__ void apply(const numbers &c, Real (&v)[N], const place &) const
    {
        const Real ax = times(c.alpha, v[0]);
        v[1]          = c.keeps ? times_plus(c.beta, v[1], ax) : ax;
    }
};

template <typename Op>
static musec_status axpby_by(ms_device *d, ms_num alpha, ms_num beta, const element_call<2> &call)
{
    Op op;
    op.alpha = number_of(alpha), op.beta = number_of(beta);
    return run_elements(d, "axpby", op, call);
}

static musec_status cuda_axpby(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y)
{
    const bool            each = alpha.each.data != NULL || beta.each.data != NULL;
    const element_call<2> call = { { x, y }, 3u, false, each };
    assert(x.rows == y.rows && x.cols == y.cols);
    if (is_constant(beta, 0.0))
        return has_f64(call) ? axpby_by<axpby_op<double, false>>(d, alpha, beta, call)
                             : axpby_by<axpby_op<float, false>>(d, alpha, beta, call);
    return has_f64(call) ? axpby_by<axpby_op<double, true>>(d, alpha, beta, call)
                         : axpby_by<axpby_op<float, true>>(d, alpha, beta, call);
}

/* Dtypes that have kernels of their own: in an optimizer step, averages of momentum and gradient
 * (grouped), which may be of bf16, stored, rounded or both, the rounded one first; in operators on
 * 16-bit operands, Gram matrices and polynomials (stacks). */
template <int T, bool Lists> struct combine_kinds {
    typedef choice<> hot;
};
template <> struct combine_kinds<1, true> {
    typedef choice<kinds<MUSEC_F32, MUSEC_F32, MUSEC_F32>, kinds<MUSEC_F32, MUSEC_F32, MUSEC_F16>,
                   kinds<MUSEC_F32, MUSEC_F32, MUSEC_BF16>, kinds<MUSEC_F32, MUSEC_BF16, MUSEC_F32>,
                   kinds<MUSEC_F32, MUSEC_BF16, MUSEC_F16>>
        hot;
};
template <> struct combine_kinds<2, true> {
    typedef choice<kinds<MUSEC_F32, MUSEC_F32, MUSEC_F16, MUSEC_F32>,
                   kinds<MUSEC_F32, MUSEC_F32, MUSEC_BF16, MUSEC_F32>,
                   kinds<MUSEC_F32, MUSEC_BF16, MUSEC_F16, MUSEC_F32>>
        hot;
};
template <> struct combine_kinds<1, false> {
    typedef choice<kinds<MUSEC_F16, NONE, MUSEC_F16>, kinds<MUSEC_BF16, NONE, MUSEC_BF16>,
                   kinds<MUSEC_F32, NONE, MUSEC_F16>, kinds<MUSEC_F32, NONE, MUSEC_BF16>,
                   kinds<MUSEC_F16, MUSEC_F16, MUSEC_F16>,
                   kinds<MUSEC_BF16, MUSEC_BF16, MUSEC_BF16>, kinds<MUSEC_F32, NONE, MUSEC_F32>,
                   kinds<MUSEC_F32, MUSEC_F32, MUSEC_F32>, kinds<MUSEC_F32, MUSEC_F32, MUSEC_F16>>
        hot;
};
template <> struct combine_kinds<2, false> {
    typedef choice<kinds<MUSEC_F16, NONE, MUSEC_F16, MUSEC_F16>,
                   kinds<MUSEC_F32, NONE, MUSEC_F16, MUSEC_F16>,
                   kinds<MUSEC_F16, MUSEC_F16, MUSEC_F16, MUSEC_F16>,
                   kinds<MUSEC_F32, MUSEC_F32, MUSEC_F16, MUSEC_F32>>
        hot;
};

/* Operands x, y and the T outs; each out <- x_coef x + y_coef y + diag I */
template <typename R, int T> struct combine_op : element_op {
    typedef R Real;
    enum { N = 2 + T, READS = 3, WRITES = ((1 << T) - 1) << 2 };
    template <bool Lists> using Hot = in_f32<R, typename combine_kinds<T, Lists>::hot>;
    number        x_coef[T], y_coef[T], diag[T];
    const double *mask[T]; /* NULL: always */
    bool          has_x, has_y, has_mask;

    struct numbers {
        Real     x[T], y[T], diag[T];
        unsigned outs; /* bit 2 + t: out t is wanted */
    };
    __device__ numbers of(int64_t b, uint32_t) const
    {
        numbers c;
        c.outs = 0;
#pragma unroll
        for (int t = 0; t < T; t++) {
            if (mask[t] == NULL || mask[t][b] != 0.0) c.outs |= 4u << t;
            c.x[t]    = (Real)number_at(x_coef[t], b);
            c.y[t]    = (Real)number_at(y_coef[t], b);
            c.diag[t] = (Real)number_at(diag[t], b);
        }
        return c;
    }
    __device__ bool     skips() const { return has_mask; }
    __device__ unsigned wanted(const numbers &c) const { return c.outs; }
    __device__ void     apply(const numbers &c, Real (&v)[N], const place &at) const
    {
#pragma unroll
        for (int t = 0; t < T; t++) {
            Real sum = at.diagonal ? c.diag[t] : (Real)0;
            if (has_x) sum = times_plus(c.x[t], v[0], sum);
            if (has_y) sum = times_plus(c.y[t], v[1], sum);
            v[2 + t] = sum;
        }
    }
};

/* One term of listed matrices under a mask: an optimizer averages again what was scaled wrongly,
 * which is hardly ever anything. */
struct masked_combine_op : combine_op<float, 1> {
    static constexpr bool rare = true;
    template <bool Lists>
    using Hot = in_f32<float, choice<kinds<MUSEC_F32, MUSEC_F32, MUSEC_F16>,
                                     kinds<MUSEC_F32, MUSEC_F32, MUSEC_BF16>>>;
};

template <typename Op>
static musec_status combine_by(ms_device *d, const ms_mat &x, const ms_mat &y, const ms_term *terms,
                               int n_terms)
{
    element_call<Op::N> call = {};
    Op                  op   = {};
    call.mat[0] = x, call.mat[1] = y;
    op.has_x = x.data != NULL, op.has_y = y.data != NULL;
    call.there = (op.has_x ? 1u : 0u) | (op.has_y ? 2u : 0u);
    for (int t = 0; t < n_terms; t++) {
        call.mat[2 + t] = terms[t].out;
        call.there |= 4u << t;
        op.x_coef[t]   = number_of(terms[t].x_coef);
        op.y_coef[t]   = number_of(terms[t].y_coef);
        op.diag[t]     = number_of(terms[t].diag);
        op.mask[t]     = terms[t].mask.data;
        op.has_mask    = op.has_mask || op.mask[t] != NULL;
        call.by_matrix = call.by_matrix || terms[t].mask.data != NULL ||
                         terms[t].x_coef.each.data != NULL || terms[t].y_coef.each.data != NULL ||
                         terms[t].diag.each.data != NULL;
        call.positions = call.positions || !is_constant(terms[t].diag, 0.0);
    }
    if constexpr (Op::rare) return run_lists(d, "combine", op, call, [](Op *, int64_t, int64_t) {});
    return run_elements(d, "combine", op, call);
}

template <typename R>
static musec_status combine_in(ms_device *d, const ms_mat &x, const ms_mat &y, const ms_term *terms,
                               int n_terms)
{
    if (n_terms == 1) return combine_by<combine_op<R, 1>>(d, x, y, terms, 1);
    if (n_terms == 2) return combine_by<combine_op<R, 2>>(d, x, y, terms, 2);
    return combine_by<combine_op<R, 4>>(d, x, y, terms, n_terms);
}

static musec_status cuda_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms,
                                 int n_terms)
{
    bool f64 = (x.data != NULL && x.dtype == MUSEC_F64) || (y.data != NULL && y.dtype == MUSEC_F64);
    assert(n_terms >= 1 && n_terms <= 4);
    for (int t = 0; t < n_terms; t++)
        f64 = f64 || terms[t].out.dtype == MUSEC_F64;
    if (!f64 && n_terms == 1 && terms[0].mask.data != NULL && y.ptrs != NULL)
        return combine_by<masked_combine_op>(d, x, y, terms, 1);
    return f64 ? combine_in<double>(d, x, y, terms, n_terms)
               : combine_in<float>(d, x, y, terms, n_terms);
}

/* Operands x, y, out */
struct average_op : element_op {
    typedef float Real;
    enum { N = 3, READS = 3, WRITES = 4 };
    static constexpr int watched    = 1;
    template <bool Lists> using Hot = typename combine_kinds<1, true>::hot;
    number              x_coef, y_coef;
    unsigned long long *top;

    struct numbers {
        Real x, y;
    };
    __device__ numbers of(int64_t b, uint32_t) const
    {
        return { (Real)number_at(x_coef, b), (Real)number_at(y_coef, b) };
    }
    __device__ void apply(const numbers &c, Real (&v)[N], const place &) const
    {
        v[2] = times_plus(c.y, v[1], times_plus(c.x, v[0], 0.0f)); /* as combine_op does */
    }
};

static musec_status cuda_average(ms_device *d, ms_num x_coef, ms_mat x, ms_num y_coef, ms_mat y,
                                 ms_mat out, ms_vec top)
{
    const element_call<3> call = { { x, y, out }, 7u, false, true };
    const ms_term         term = { x_coef, y_coef, ms_const(0.0), out, {} };
    average_op            op;
    musec_status          st = MUSEC_OK;
    if (has_f64(call)) {
        TRY(d->ops->absmax(d, y, top));
        TRY(cuda_combine(d, x, y, &term, 1));
        return MUSEC_OK;
    }
    static_assert(sizeof *op.top == sizeof *top.data, "bits of a number");
    op.x_coef = number_of(x_coef), op.y_coef = number_of(y_coef);
    op.top = (unsigned long long *)top.data;
    TRY(ms_cuda_status(
        d,
        cudaMemsetAsync(top.data, 0, (size_t)out.count * sizeof *top.data, ms_cuda_of(d)->stream),
        "average"));
    TRY(run_elements(d, "average", op, call));
done:
    return st;
}

void ms_cuda_combine_ops(ms_device_ops *table)
{
    table->axpby   = cuda_axpby;
    table->combine = cuda_combine;
    table->average = cuda_average;
}
