/* random.cu - random numbers: core/rng.h, a thread for each draw.
 *
 * The arithmetic is float64, whatever is stored: a draw is the same number on every device, but for
 * the rounding of log, cos and sin. */
#include "core/rng.h"
#include "device/cuda/element.cuh"

/* Not inline: it is long, and a thread has many. */
static __device__ __noinline__ double normal_at(uint64_t key, uint64_t index)
{
    return ms_rand_normal(key, index);
}

/* Element (b, i, j) is number (b rows + i) cols + j of the stream; as seen, not as it lies. */
template <bool Normal> struct draw_op : element_op {
    typedef double Real;
    enum { N = 1, READS = 0, WRITES = 1 };
    template <bool Lists> using Hot = choice<kinds<MUSEC_F32>>;
    uint64_t key;
    double   from, by; /* from + by times a draw of the standard distribution */
    int64_t  rows, cols;
    bool     turned;

    struct numbers {
        int64_t first;
    };
    __device__ numbers of(int64_t b, uint32_t) const { return { b * rows * cols }; }
    __device__ void    apply(const numbers &c, double (&v)[N], const place &e) const
    {
        const uint64_t at = (uint64_t)(c.first + (turned ? e.j * cols + e.i : e.i * cols + e.j));
        const double   x =
            Normal ? normal_at(key, at) : 2.0 * ms_rand_uniform(key, at) - 1.0; /* exactly */
        v[0] = plus(from, times(by, x)); /* two roundings, as on the host */
    }
};

template <typename Op>
static musec_status draw(ms_device *d, const char *name, uint64_t key, double from, double by,
                         ms_mat out)
{
    Op op;
    op.key  = key;
    op.from = from, op.by = by;
    op.rows = out.rows, op.cols = out.cols;
    op.turned = out.trans;
    return run_stacks(d, name, op, element_call<1>{ { out }, 1u, true, true });
}

static musec_status cuda_normal(ms_device *d, uint64_t key, double mean, double sd, ms_mat out)
{
    return draw<draw_op<true>>(d, "normal", key, mean, sd, out);
}

static musec_status cuda_uniform(ms_device *d, uint64_t key, double low, double high, ms_mat out)
{
    const double mid = 0.5 * (low + high), half = 0.5 * (high - low);
    return draw<draw_op<false>>(d, "uniform", key, mid, half, out);
}

void ms_cuda_random_ops(ms_device_ops *table)
{
    table->normal  = cuda_normal;
    table->uniform = cuda_uniform;
}
