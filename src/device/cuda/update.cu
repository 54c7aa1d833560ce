/* update.cu - the element ops of optimizers: moments, steps, and weights in two halves. */
#include <math.h>

#include "core/halves.h"
#include "device/cuda/element.cuh"

/* ---- moments --------------------------------------------------------------------------------- */

/* Operands g, m, v, slow, u.  Averages are rounded to their stored dtype before use (Rounds: if it
 * is narrower than R), so that u is that of the stored state.  (1 - beta2) g g is multiplied from
 * the left, which overflows for the fewest g. */
template <typename R, bool Rounds> struct moments_op : element_op {
    typedef R Real;
    enum { N = 5, READS = 15, WRITES = 30, G = 0, M, V, SLOW, U };
    template <bool Lists>
    using Hot = in_f32<R, choice<kinds<MUSEC_F32, MUSEC_F32, MUSEC_F32, NONE, MUSEC_F32>,
                                 kinds<MUSEC_F32, MUSEC_F32, MUSEC_F32, MUSEC_F32, MUSEC_F32>>>;
    Real        keep1, new1, keep2, new2, keep3, new3, scale1, scale2, alpha, eps;
    musec_dtype dtype_m, dtype_v, dtype_slow;
    bool        has_slow;
    /* scale1 and scale2 from numbers on the device, or NULL */
    const double *correct1_at, *correct2_at;

    struct numbers {
        Real scale1, scale2;
    };
    __device__ numbers of(int64_t, uint32_t) const
    {
        if (correct1_at == NULL) return { scale1, scale2 };
        return { (Real)(1.0 / *correct1_at), (Real)(1.0 / sqrt(*correct2_at)) };
    }
    __device__ Real kept(Real x, musec_dtype dtype) const
    {
        return Rounds ? as_stored(x, dtype) : x;
    }
    __device__ void apply(const numbers &c, Real (&x)[N], const place &) const
    {
        const Real g = x[G];
        x[M]         = kept(times_plus(keep1, x[M], times(new1, g)), dtype_m);
        x[V]         = kept(times_plus(keep2, x[V], times(times(new2, g), g)), dtype_v);
        Real top     = times(c.scale1, x[M]);
        if (has_slow) {
            x[SLOW] = kept(times_plus(keep3, x[SLOW], times(new3, g)), dtype_slow);
            top     = times_plus(alpha, x[SLOW], top);
        }
        x[U] = ratio(top, times_plus(c.scale2, root(x[V]), eps));
    }
};

template <typename Op>
static musec_status moments_by(ms_device *d, const ms_moments &r, const element_call<5> &call)
{
    typedef typename Op::Real Real;
    Op                        op;
    op.keep1 = (Real)r.beta1, op.new1 = (Real)(1.0 - r.beta1);
    op.keep2 = (Real)r.beta2, op.new2 = (Real)(1.0 - r.beta2);
    op.keep3 = (Real)r.beta3, op.new3 = (Real)(1.0 - r.beta3);
    op.scale1      = (Real)(1.0 / r.correct1);
    op.scale2      = (Real)(1.0 / sqrt(r.correct2));
    op.correct1_at = r.correct1_at, op.correct2_at = r.correct2_at;
    op.alpha   = (Real)r.alpha;
    op.eps     = (Real)r.eps;
    op.dtype_m = call.mat[Op::M].dtype, op.dtype_v = call.mat[Op::V].dtype;
    op.dtype_slow = call.mat[Op::SLOW].dtype;
    op.has_slow   = call.mat[Op::SLOW].data != NULL;
    return run_elements(d, "moments", op, call);
}

static musec_status cuda_moments(ms_device *d, ms_moments rates, ms_mat g, ms_mat m, ms_mat v,
                                 ms_mat slow, ms_mat u)
{
    const unsigned        with  = slow.data != NULL ? 8u : 0u;
    const element_call<5> call  = { { g, m, v, slow, u }, 23u | with, false, false };
    const bool            whole = m.dtype == MUSEC_F32 && v.dtype == MUSEC_F32 &&
                       (slow.data == NULL || slow.dtype == MUSEC_F32);
    if (has_f64(call)) return moments_by<moments_op<double, true>>(d, rates, call);
    return whole ? moments_by<moments_op<float, false>>(d, rates, call)
                 : moments_by<moments_op<float, true>>(d, rates, call);
}

/* ---- decay_add ------------------------------------------------------------------------------- */

/* Operands u, w, copy.  Steps and decays in host memory are kernel parameters (Listed). */
template <typename R, bool Listed> struct decay_add_op : element_op {
    typedef R Real;
    enum { N = 3, READS = 3, WRITES = 6, U = 0, WEIGHT, COPY };
    enum { MATRICES = Listed ? MS_CUDA_GROUP_MAX : 1 };
    template <bool Lists>
    using Hot = in_f32<
        R, choice<kinds<MUSEC_F32, MUSEC_F32, NONE>, kinds<MUSEC_F32, MUSEC_F32, MUSEC_BF16>,
                  kinds<MUSEC_F32, MUSEC_F32, MUSEC_F16>, kinds<MUSEC_F16, MUSEC_F32, NONE>,
                  kinds<MUSEC_F16, MUSEC_F32, MUSEC_BF16>, kinds<MUSEC_F16, MUSEC_F32, MUSEC_F16>>>;
    number      step, decay;
    bool        step_listed, decay_listed, cautious;
    musec_dtype dtype; /* of w */
    double      steps[MATRICES], decays[MATRICES];

    struct numbers {
        Real step, decay;
    };
    __device__ numbers of(int64_t b, uint32_t slot) const
    {
        return { (Real)(Listed && step_listed ? steps[Listed ? slot : 0] : number_at(step, b)),
                 (Real)(Listed && decay_listed ? decays[Listed ? slot : 0] : number_at(decay, b)) };
    }
    /* w - (decay w + step u): 1 - decay is never rounded.  Signs are compared, not u w with 0: the
     * product of small numbers is 0. */
    __device__ void apply(const numbers &c, Real (&v)[N], const place &) const
    {
        const Real u = v[U], w = v[WEIGHT], zero = (Real)0;
        const bool against = (u < zero && w > zero) || (u > zero && w < zero);
        const Real rate    = cautious && against ? zero : c.decay;
        v[WEIGHT]          = plus(w, -times_plus(c.step, u, times(rate, w)));
        v[COPY]            = dtype == own_dtype<Real>() ? v[WEIGHT] : as_stored(v[WEIGHT], dtype);
    }
};

/* A float32 from its halves as they were read, and back to be stored: conversions that are exact,
 * since the high half is a bf16 and the low one an integer. */
static __device__ inline float joined(float high, float low)
{
    const ms_halves h = { (uint16_t)(__float_as_uint(high) >> 16), (int16_t)low };
    return __uint_as_float(ms_halves_join(h));
}

static __device__ inline void split(float x, float *high, float *low)
{
    const ms_halves h = ms_halves_split(__float_as_uint(x));
    *high             = __uint_as_float((uint32_t)h.high << 16);
    *low              = (float)h.low;
}

/* Operands u, high, low: the same of float32 weights in two halves. */
template <bool Listed> struct decay_add_halves_op : decay_add_op<float, Listed> {
    typedef decay_add_op<float, Listed> whole;
    enum { READS = 7 };
    template <bool Lists>
    using Hot =
        choice<kinds<MUSEC_F32, MUSEC_BF16, MUSEC_I16>, kinds<MUSEC_F16, MUSEC_BF16, MUSEC_I16>>;
    __device__ void apply(const typename whole::numbers &c, float (&v)[3], const place &at) const
    {
        v[whole::WEIGHT] = joined(v[whole::WEIGHT], v[whole::COPY]);
        whole::apply(c, v, at);
        split(v[whole::WEIGHT], &v[whole::WEIGHT], &v[whole::COPY]);
    }
};

static bool is_listed(ms_num n) { return n.each.data == NULL && n.host != NULL; }

template <typename Plain, typename Op>
static musec_status decay_add_in(ms_device *d, ms_num step, ms_num decay, bool cautious,
                                 musec_dtype dtype, const element_call<3> &call)
{
    const bool listed = is_listed(step) || is_listed(decay);
    if (!listed) {
        Plain op = {};
        op.step = number_of(step), op.decay = number_of(decay);
        op.cautious = cautious, op.dtype = dtype;
        return run_elements(d, "decay_add", op, call);
    }
    Op op   = {};
    op.step = { step.each.data, step.value }, op.decay = { decay.each.data, decay.value };
    op.step_listed = is_listed(step), op.decay_listed = is_listed(decay);
    op.cautious = cautious, op.dtype = dtype;
    return run_lists(d, "decay_add", op, call, [&](Op *of, int64_t first, int64_t n) {
        for (int64_t b = 0; b < n; b++) {
            if (of->step_listed) of->steps[b] = step.host[first + b];
            if (of->decay_listed) of->decays[b] = decay.host[first + b];
        }
    });
}

static musec_status cuda_decay_add(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                                   ms_mat w, ms_mat copy)
{
    const unsigned with = copy.data != NULL ? 4u : 0u;
    const bool     each = step.each.data != NULL || step.host != NULL || decay.each.data != NULL ||
                      decay.host != NULL;
    const element_call<3> call = { { u, w, copy }, 3u | with, false, each };
    assert(u.rows == w.rows && u.cols == w.cols);
    if (copy.data != NULL && copy.dtype == MUSEC_I16)
        return decay_add_in<decay_add_halves_op<false>, decay_add_halves_op<true>>(
            d, step, decay, cautious, MUSEC_F32, call);
    if (has_f64(call))
        return decay_add_in<decay_add_op<double, false>, decay_add_op<double, true>>(
            d, step, decay, cautious, w.dtype, call);
    return decay_add_in<decay_add_op<float, false>, decay_add_op<float, true>>(
        d, step, decay, cautious, w.dtype, call);
}

/* ---- halves ---------------------------------------------------------------------------------- */

struct join_op : element_op { /* operands high, low, out */
    typedef float Real;
    enum { N = 3, READS = 3, WRITES = 4 };
    template <bool Lists> using Hot = choice<kinds<MUSEC_BF16, MUSEC_I16, MUSEC_F32>>;
    __device__ void apply(const numbers &, float (&v)[N], const place &) const
    {
        v[2] = joined(v[0], v[1]);
    }
};

struct split_op : element_op { /* operands x, high, low */
    typedef float Real;
    enum { N = 3, READS = 1, WRITES = 6 };
    template <bool Lists> using Hot = choice<kinds<MUSEC_F32, MUSEC_BF16, MUSEC_I16>>;
    __device__ void apply(const numbers &, float (&v)[N], const place &) const
    {
        split(v[0], &v[1], &v[2]);
    }
};

static musec_status cuda_join_halves(ms_device *d, ms_mat high, ms_mat low, ms_mat out)
{
    return run_stacks(d, "join_halves", join_op{},
                      element_call<3>{ { high, low, out }, 7u, false, false });
}

static musec_status cuda_split_halves(ms_device *d, ms_mat x, ms_mat high, ms_mat low)
{
    const unsigned with = high.data != NULL ? 2u : 0u;
    return run_stacks(d, "split_halves", split_op{},
                      element_call<3>{ { x, high, low }, 5u | with, false, false });
}

void ms_cuda_update_ops(ms_device_ops *table)
{
    table->moments      = cuda_moments;
    table->decay_add    = cuda_decay_add;
    table->join_halves  = cuda_join_halves;
    table->split_halves = cuda_split_halves;
}
