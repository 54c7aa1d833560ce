/* scalars.cu - the scalar programs that the build compiles into devices, with a thread for each
 * matrix.
 *
 * The table and numbers in host memory are kernel parameters; if there are more than fit a launch,
 * there are several launches. */
#include "device/cuda/operand.cuh"

#include MS_SCALAR_PROGRAMS

enum { SCALAR_THREADS = 128, HOST_NUMBERS = 256 };

struct scalar_args {
    int           program;
    int           n_in, n_out, n_host;
    int64_t       first, count; /* matrices of the launch */
    number        in[MS_SCALAR_MAX_IO];
    int           host[MS_SCALAR_MAX_IO]; /* index of its first number in host_numbers; -1: none */
    double       *out[MS_SCALAR_MAX_IO];
    const double *guard;
    double        table[MS_SCALAR_MAX_TABLE], host_numbers[HOST_NUMBERS];
};

/* The loops have constant lengths, so that numbers are in registers and all loads are issued before
 * the first is waited for. */
static __global__ void __launch_bounds__(SCALAR_THREADS)
    scalars_k(const __grid_constant__ scalar_args x)
{
    const int64_t slot = (int64_t)blockIdx.x * SCALAR_THREADS + threadIdx.x, b = x.first + slot;
    double        from[MS_SCALAR_MAX_IO], to[MS_SCALAR_MAX_IO];
    pdl_wait_trigger();
    if (slot >= x.count || is_off(x.guard)) return;
#pragma unroll
    for (int k = 0; k < MS_SCALAR_MAX_IO; k++) {
        if (k >= x.n_in) break;
        from[k] = x.in[k].value;
        if (x.in[k].each != NULL) from[k] = x.in[k].each[b];
    }
#pragma unroll
    for (int k = 0; k < MS_SCALAR_MAX_IO; k++) {
        if (k >= x.n_in || x.n_host == 0) break;
        if (x.host[k] >= 0) from[k] = x.host_numbers[x.host[k] + slot];
    }
    ms_scalar_run(x.program, x.table, from, to);
#pragma unroll
    for (int k = 0; k < MS_SCALAR_MAX_IO; k++) { /* after all loads: an output may be an input */
        if (k >= x.n_out) break;
        x.out[k][b] = to[k];
    }
}

static musec_status cuda_scalars(ms_device *d, const ms_scalar_call *c)
{
    scalar_args   x   = {};
    const ms_num *in  = c->in;
    const int64_t all = c->out[0].count;
    x.program         = c->program;
    x.guard           = d->guard;
    x.n_in            = c->n_in;
    x.n_out           = c->n_out;
    static_assert(sizeof x <= 4096, "kernel parameters");
    assert(c->n_table <= MS_SCALAR_MAX_TABLE && x.n_in <= MS_SCALAR_MAX_IO &&
           x.n_out <= MS_SCALAR_MAX_IO);
    for (int k = 0; k < c->n_table; k++)
        x.table[k] = c->table[k];
    for (int k = 0; k < x.n_out; k++)
        x.out[k] = c->out[k].data;
    for (int k = 0; k < x.n_in; k++) {
        x.in[k] = { in[k].each.data, in[k].value };
        x.n_host += in[k].each.data == NULL && in[k].host != NULL;
    }
    const int64_t at_once = x.n_host > 0 ? HOST_NUMBERS / x.n_host : all;
    for (int64_t n_at = 0; x.first < all; x.first += at_once, n_at = 0) {
        x.count = all - x.first < at_once ? all - x.first : at_once;
        for (int k = 0; k < x.n_in; k++) {
            x.host[k] = -1;
            if (in[k].each.data != NULL || in[k].host == NULL) continue;
            x.host[k] = (int)n_at;
            for (int64_t b = 0; b < x.count; b++)
                x.host_numbers[n_at++] = in[k].host[x.first + b];
        }
        launch_kernel(d, scalars_k, (unsigned)((x.count - 1) / SCALAR_THREADS + 1), SCALAR_THREADS,
                      0, x);
        const musec_status st = launched(d, "scalars");
        if (st != MUSEC_OK) return st;
    }
    return MUSEC_OK;
}

/* Is this kernel, and so any other, compiled for programmatic dependent launch?  On a chip that
 * supports it, a kernel translated from PTX for an older one does not wait. */
bool ms_cuda_use_pdl(const ms_cuda *c)
{
    cudaFuncAttributes is = {};
    if (c->capability >= 90 && cudaFuncGetAttributes(&is, (const void *)scalars_k) == cudaSuccess)
        return is.ptxVersion >= 90;
    (void)cudaGetLastError();
    return false;
}

void ms_cuda_scalar_ops(ms_device_ops *table) { table->scalars = cuda_scalars; }
