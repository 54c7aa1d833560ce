/* scalars.cu - the scalar programs of scalar_fn.h, a thread for each matrix.
 *
 * Parameters and numbers that lie in host memory ride on the launch; where these are more than it
 * has room for, there are several launches. */
#include "device/cuda/operand.cuh"
#include "device/scalar_fn.h"

enum { SCALAR_THREADS = 128, PARAMS = 128, LISTED = 256 };

struct scalar_call {
    ms_scalar_fn fn;
    int          n_params, n_in, n_out, n_lists;
    int64_t      first, count; /* matrices of the launch */
    number       in[MS_SCALAR_MAX_IO];
    int          list[MS_SCALAR_MAX_IO]; /* where in `listed` the numbers of it begin; -1: none */
    double      *out[MS_SCALAR_MAX_IO];
    double       params[PARAMS], listed[LISTED];
};

/* Its loops have constant lengths, so that numbers are in registers: then all that are read are
 * under way before the first is waited for. */
static __global__ void __launch_bounds__(SCALAR_THREADS)
    scalars_k(const __grid_constant__ scalar_call x)
{
    const int64_t slot = (int64_t)blockIdx.x * SCALAR_THREADS + threadIdx.x, b = x.first + slot;
    double        from[MS_SCALAR_MAX_IO], to[MS_SCALAR_MAX_IO];
    begin_after_last();
    if (slot >= x.count) return;
#pragma unroll
    for (int k = 0; k < MS_SCALAR_MAX_IO; k++) {
        if (k >= x.n_in) break;
        from[k] = x.in[k].value;
        if (x.in[k].each != NULL) from[k] = x.in[k].each[b];
    }
#pragma unroll
    for (int k = 0; k < MS_SCALAR_MAX_IO; k++) {
        if (k >= x.n_in || x.n_lists == 0) break;
        if (x.list[k] >= 0) from[k] = x.listed[x.list[k] + slot];
    }
    ms_scalar_eval(x.fn, x.params, x.n_params, from, to);
#pragma unroll
    for (int k = 0; k < MS_SCALAR_MAX_IO; k++) { /* all were read: an out may be an in */
        if (k >= x.n_out) break;
        x.out[k][b] = to[k];
    }
}

static musec_status cuda_scalars(ms_device *d, ms_scalar_fn fn, const double *params, int n_params,
                                 const ms_num *in, const ms_vec *out)
{
    scalar_call x = {};
    x.fn          = fn;
    x.n_params    = n_params;
    x.n_in        = ms_scalar_n_in(fn);
    x.n_out       = ms_scalar_n_out(fn, params);
    static_assert(sizeof x <= 4096, "kernel parameters");
    assert(n_params <= PARAMS && x.n_in <= MS_SCALAR_MAX_IO && x.n_out <= MS_SCALAR_MAX_IO);
    for (int k = 0; k < n_params; k++)
        x.params[k] = params[k];
    for (int k = 0; k < x.n_out; k++)
        x.out[k] = out[k].data;
    for (int k = 0; k < x.n_in; k++) {
        x.in[k] = { in[k].each.data, in[k].value };
        x.n_lists += in[k].each.data == NULL && in[k].host != NULL;
    }
    const int64_t most = x.n_lists > 0 ? LISTED / x.n_lists : out[0].count;
    for (int64_t n_at = 0; x.first < out[0].count; x.first += most, n_at = 0) {
        x.count = out[0].count - x.first < most ? out[0].count - x.first : most;
        for (int k = 0; k < x.n_in; k++) {
            x.list[k] = -1;
            if (in[k].each.data != NULL || in[k].host == NULL) continue;
            x.list[k] = (int)n_at;
            for (int64_t b = 0; b < x.count; b++)
                x.listed[n_at++] = in[k].host[x.first + b];
        }
        launch_kernel(d, scalars_k, (unsigned)((x.count - 1) / SCALAR_THREADS + 1), SCALAR_THREADS,
                      0, x);
        const musec_status st = launched(d, "scalars");
        if (st != MUSEC_OK) return st;
    }
    return MUSEC_OK;
}

/* Of all kernels, as they are compiled alike.  A chip that can may have got them translated from
 * what was compiled for an older one, where they do not wait; so a kernel is asked. */
bool ms_cuda_kernels_wait(const ms_cuda *c)
{
    cudaFuncAttributes is = {};
    if (c->capability >= 90 && cudaFuncGetAttributes(&is, (const void *)scalars_k) == cudaSuccess)
        return is.ptxVersion >= 90;
    (void)cudaGetLastError();
    return false;
}

void ms_cuda_scalar_ops(ms_device_ops *table) { table->scalars = cuda_scalars; }
