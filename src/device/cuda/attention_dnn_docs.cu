/* attention_dnn_docs.cu - what kernels of our own do around cuDNN's attention: where documents
 * begin, and logsumexps from its order (rows, heads) to ours, (heads, rows). */
#include <assert.h>

#include "device/cuda/attention.cuh"
#include "device/cuda/attention_dnn_docs.h"

enum {
    DOC_THREADS = 1024,
    DOC_WARPS   = DOC_THREADS / WARP,
    LSE_THREADS = 256,
};

/* ---- documents ------------------------------------------------------------------------------- */

/* Does a document begin at row i? */
static __device__ inline bool begins(const ms_dnn_docs &x, int64_t i)
{
    return i < x.rows && x.doc[i] == (int32_t)i;
}

/* One block.  Each warp has a piece of the rows: it counts the documents that begin there, learns
 * how many begin before, and writes down where. */
static __global__ void __launch_bounds__(DOC_THREADS) find_docs_k(ms_dnn_docs x)
{
    __shared__ int before[DOC_WARPS + 1];
    const int      lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t  piece = ((x.rows - 1) / DOC_THREADS + 1) * WARP;
    const int64_t  first = warp * piece, end = first + piece;

    int n = 0;
    for (int64_t i = first + lane; i < end; i += WARP)
        n += begins(x, i) ? 1 : 0;
    n = warp_sum(n);
    if (lane == 0) before[warp + 1] = n;
    if (threadIdx.x == 0) before[0] = 0;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 0; w < DOC_WARPS; w++)
            before[w + 1] += before[w];
    __syncthreads();

    const int docs = before[DOC_WARPS];
    assert(docs <= x.batch);
    int64_t at = before[warp];
    for (int64_t i = first; i < end; i += WARP) { /* the same rounds for the whole warp */
        const bool     is   = begins(x, i + lane);
        const unsigned all  = __ballot_sync(0xffffffffu, is);
        const int64_t  mine = at + __popc(all & ((1u << lane) - 1));
        if (is && mine < x.batch) x.start[mine] = (int32_t)(i + lane);
        at += __popc(all);
    }
    __syncthreads();

    for (int64_t b = threadIdx.x; b <= x.batch; b += DOC_THREADS) {
        const int64_t start = b < docs && b < x.batch ? x.start[b] : x.rows;
        const int64_t next  = b + 1 < docs && b + 1 < x.batch ? x.start[b + 1] : x.rows;
        if (b < x.batch) x.length[b] = (int32_t)(next - start);
        for (int o = 0; o < x.n_offsets; o++)
            x.offset[o][b] = start * x.ld[o];
    }
}

musec_status ms_dnn_docs_find(ms_device *d, ms_dnn_docs docs)
{
    find_docs_k<<<1, DOC_THREADS, 0, ms_cuda_of(d)->stream>>>(docs);
    return launched(d, "documents for attention");
}

/* ---- logsumexps ------------------------------------------------------------------------------ */

/* Of all LSE_THREADS threads; thread 0 has it. */
static __device__ inline double block_larger(double x)
{
    __shared__ double room[LSE_THREADS / WARP];
    x = warp_larger(x);
    if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int w = 1; w < LSE_THREADS / WARP && threadIdx.x == 0; w++)
        x = larger(x, room[w]);
    return x;
}

/* Block (x, h): rows of head h.  partial: (heads, blocks) */
static __global__ void __launch_bounds__(LSE_THREADS)
    lse_from_rows_k(const float *max, const float *sum, int64_t rows, int64_t heads, float *lse,
                    int64_t stride, double *partial)
{
    const int64_t h = blockIdx.y, step = (int64_t)gridDim.x * LSE_THREADS;
    double        top = -INFINITY;
    for (int64_t i = (int64_t)blockIdx.x * LSE_THREADS + threadIdx.x; i < rows; i += step) {
        const float m       = max[i * heads + h];
        const float l       = m + logf(sum[i * heads + h]);
        lse[h * stride + i] = l;
        top                 = larger(isnan(l) ? (double)l : (double)m, top);
    }
    top = block_larger(top);
    if (threadIdx.x == 0) partial[h * gridDim.x + blockIdx.x] = top;
}

static __global__ void __launch_bounds__(LSE_THREADS)
    largest_k(const double *partial, int n, double *max_logit)
{
    double top = -INFINITY;
    for (int i = (int)threadIdx.x; i < n; i += LSE_THREADS)
        top = larger(partial[(int64_t)blockIdx.x * n + i], top);
    top = block_larger(top);
    if (threadIdx.x == 0) max_logit[blockIdx.x] = larger(top, max_logit[blockIdx.x]);
}

static unsigned lse_blocks(int64_t rows)
{
    const int64_t need = (rows - 1) / LSE_THREADS + 1, most = MS_DNN_PARTIALS;
    return (unsigned)(need < most ? need : most);
}

musec_status ms_dnn_lse_from_rows(ms_device *d, const float *max, const float *sum, ms_mat lse,
                                  double *partial, ms_vec max_logit)
{
    const unsigned     blocks = lse_blocks(lse.cols), heads = (unsigned)lse.count;
    const cudaStream_t stream = ms_cuda_of(d)->stream;
    lse_from_rows_k<<<dim3(blocks, heads), LSE_THREADS, 0, stream>>>(
        max, sum, lse.cols, lse.count, (float *)lse.data, lse.stride, partial);
    const musec_status st = launched(d, "attention");
    if (st != MUSEC_OK) return st;
    largest_k<<<heads, LSE_THREADS, 0, stream>>>(partial, (int)blocks, max_logit.data);
    return launched(d, "attention");
}

static __global__ void __launch_bounds__(LSE_THREADS)
    lse_to_rows_k(const float *lse, int64_t stride, int64_t rows, int64_t heads, float *out)
{
    const int64_t h = blockIdx.y, step = (int64_t)gridDim.x * LSE_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * LSE_THREADS + threadIdx.x; i < rows; i += step)
        out[i * heads + h] = lse[h * stride + i];
}

musec_status ms_dnn_lse_to_rows(ms_device *d, ms_mat lse, float *out)
{
    const dim3 grid(lse_blocks(lse.cols), (unsigned)lse.count);
    lse_to_rows_k<<<grid, LSE_THREADS, 0, ms_cuda_of(d)->stream>>>(
        (const float *)lse.data, lse.stride, lse.cols, lse.count, out);
    return launched(d, "attention_grad");
}
