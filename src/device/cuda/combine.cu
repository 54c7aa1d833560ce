/* combine.cu - linear combinations of two matrices and I, any number of them in one pass.
 *
 * Coefficients arrive in float64 and are rounded to the arithmetic's type, as on the CPU. */
#include "device/cuda/element.cuh"

/* y <- alpha x + beta y */
template <typename R, int Width> struct axpby_op : element_op {
    typedef R Real;
    enum { N = 2, W = Width };
    number alpha, beta;

    struct numbers {
        Real alpha, beta;
        bool keeps; /* beta is not 0: where it is, even a NaN in y does not count */
    };
    __device__ numbers of(int64_t b, uint32_t) const
    {
        const double keep = number_at(beta, b);
        return { (Real)number_at(alpha, b), (Real)keep, keep != 0.0 };
    }
    __device__ void apply(const numbers &c, Real (&v)[N], int64_t, int64_t) const
    {
        const Real ax = times(c.alpha, v[0]);
        v[1]          = c.keeps ? times_plus(c.beta, v[1], ax) : ax;
    }
};

static musec_status cuda_axpby(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y)
{
    const bool            each = alpha.each.data != NULL || beta.each.data != NULL;
    const element_call<2> call = { { x, y }, is_constant(beta, 0.0) ? 1u : 3u, 2u, false, each };
    axpby_op<double, 2>   in_f64;
    axpby_op<float, 4>    in_f32;
    assert(x.rows == y.rows && x.cols == y.cols);
    in_f64.alpha = in_f32.alpha = number_of(alpha);
    in_f64.beta = in_f32.beta = number_of(beta);
    return has_f64(call) ? run_elements(d, "axpby", in_f64, call)
                         : run_elements(d, "axpby", in_f32, call);
}

/* Operands x, y and the T outs; each out <- x_coef x + y_coef y + diag I */
template <typename R, int Width, int T> struct combine_op : element_op {
    typedef R Real;
    enum { N = 2 + T, W = Width, TERMS = T };
    number x_coef[T], y_coef[T], diag[T];
    bool   has_x, has_y;

    struct numbers {
        Real x[T], y[T], diag[T];
    };
    __device__ numbers of(int64_t b, uint32_t) const
    {
        numbers c;
#pragma unroll
        for (int t = 0; t < T; t++) {
            c.x[t]    = (Real)number_at(x_coef[t], b);
            c.y[t]    = (Real)number_at(y_coef[t], b);
            c.diag[t] = (Real)number_at(diag[t], b);
        }
        return c;
    }
    __device__ void apply(const numbers &c, Real (&v)[N], int64_t i, int64_t j) const
    {
#pragma unroll
        for (int t = 0; t < T; t++) {
            Real sum = i == j ? c.diag[t] : (Real)0;
            if (has_x) sum = times_plus(c.x[t], v[0], sum);
            if (has_y) sum = times_plus(c.y[t], v[1], sum);
            v[2 + t] = sum;
        }
    }
};

template <typename Op>
static musec_status combine_by(ms_device *d, const ms_mat &x, const ms_mat &y, const ms_term *terms,
                               int n_terms)
{
    element_call<Op::N> call = {};
    Op                  op   = {};
    call.mat[0] = x, call.mat[1] = y;
    op.has_x = x.data != NULL, op.has_y = y.data != NULL;
    call.reads = (op.has_x ? 1u : 0u) | (op.has_y ? 2u : 0u);
    for (int t = 0; t < n_terms; t++) {
        call.mat[2 + t] = terms[t].out;
        call.writes |= 4u << t;
        op.x_coef[t]   = number_of(terms[t].x_coef);
        op.y_coef[t]   = number_of(terms[t].y_coef);
        op.diag[t]     = number_of(terms[t].diag);
        call.by_matrix = call.by_matrix || terms[t].x_coef.each.data != NULL ||
                         terms[t].y_coef.each.data != NULL || terms[t].diag.each.data != NULL;
        call.positions = call.positions || !is_constant(terms[t].diag, 0.0);
    }
    return run_elements(d, "combine", op, call);
}

template <typename R, int Width>
static musec_status combine_in(ms_device *d, const ms_mat &x, const ms_mat &y, const ms_term *terms,
                               int n_terms)
{
    if (n_terms == 1) return combine_by<combine_op<R, Width, 1>>(d, x, y, terms, 1);
    if (n_terms == 2) return combine_by<combine_op<R, Width, 2>>(d, x, y, terms, 2);
    return combine_by<combine_op<R, Width, 4>>(d, x, y, terms, n_terms);
}

static musec_status cuda_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms,
                                 int n_terms)
{
    bool f64 = (x.data != NULL && x.dtype == MUSEC_F64) || (y.data != NULL && y.dtype == MUSEC_F64);
    assert(n_terms >= 1 && n_terms <= 4);
    for (int t = 0; t < n_terms; t++)
        f64 = f64 || terms[t].out.dtype == MUSEC_F64;
    return f64 ? combine_in<double, 2>(d, x, y, terms, n_terms)
               : combine_in<float, 4>(d, x, y, terms, n_terms);
}

void ms_cuda_combine_ops(ms_device_ops *table)
{
    table->axpby   = cuda_axpby;
    table->combine = cuda_combine;
}
