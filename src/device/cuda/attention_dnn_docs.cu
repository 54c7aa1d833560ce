/* attention_dnn_docs.cu - kernels of our own around cuDNN's attention: they find where documents
 * begin, and convert logsumexps between its order (rows, heads) and ours, (heads, rows). */
#include <assert.h>

#include "device/cuda/attention.cuh"
#include "device/cuda/attention_dnn_docs.h"

enum {
    DOC_THREADS = 1024,
    DOC_WARPS   = DOC_THREADS / WARP,
    DOC_ROUNDS  = 8, /* rows that a thread loads at once */
    LSE_THREADS = 256,
};

/* ---- documents ------------------------------------------------------------------------------- */

/* Sets bit l of begins[k] where a document begins at row first + 32 k + l, below `end`.  The whole
 * warp calls it. */
static __device__ inline void begin_at(const ms_dnn_docs &x, int64_t first, int64_t end,
                                       unsigned (&begins)[DOC_ROUNDS])
{
    const int64_t lane = threadIdx.x % WARP, stop = end < x.rows ? end : x.rows;
    int32_t       doc[DOC_ROUNDS];
#pragma unroll
    for (int k = 0; k < DOC_ROUNDS; k++) {
        const int64_t i = first + k * WARP + lane;
        doc[k]          = i < stop ? x.doc[i] : -1;
    }
#pragma unroll
    for (int k = 0; k < DOC_ROUNDS; k++)
        begins[k] = __ballot_sync(ALL_LANES, doc[k] == first + k * WARP + lane);
}

/* before[w + 1] <- the sum of before[1] .. before[w + 1].  The whole warp calls it. */
static __device__ inline void add_up(int *before)
{
    const int lane = (int)threadIdx.x % WARP;
    int       sum  = before[lane + 1];
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) {
        const int left = __shfl_up_sync(ALL_LANES, sum, step);
        sum += lane >= step ? left : 0;
    }
    before[lane + 1] = sum;
}

/* Runs as one block.  Each warp has a piece of the rows: it counts the documents that begin there,
 * reads how many begin before, and stores their first rows. */
static __global__ void __launch_bounds__(DOC_THREADS) find_docs_k(ms_dnn_docs x)
{
    static_assert(DOC_WARPS == WARP, "a lane for each of them in add_up");
    __shared__ int before[DOC_WARPS + 1];
    const int      lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t  piece = ((x.rows - 1) / DOC_THREADS + 1) * WARP, round = DOC_ROUNDS * WARP;
    const int64_t  first = warp * piece, end = first + piece;
    unsigned       begins[DOC_ROUNDS];

    int n = 0; /* documents; the same in all lanes */
    for (int64_t i = first; i < end; i += round) {
        begin_at(x, i, end, begins);
#pragma unroll
        for (int k = 0; k < DOC_ROUNDS; k++)
            n += __popc(begins[k]);
    }
    if (lane == 0) before[warp + 1] = n;
    if (threadIdx.x == 0) before[0] = 0;
    __syncthreads();
    if (warp == 0) add_up(before);
    __syncthreads();

    const int docs = before[DOC_WARPS];
    assert(docs <= x.batch);
    int64_t at = before[warp];
    for (int64_t i = first; i < end; i += round) {
        begin_at(x, i, end, begins);
#pragma unroll
        for (int k = 0; k < DOC_ROUNDS; k++) {
            const int64_t mine = at + __popc(begins[k] & ((1u << lane) - 1));
            if ((begins[k] >> lane & 1u) != 0 && mine < x.batch)
                x.start[mine] = (int32_t)(i + k * WARP + lane);
            at += __popc(begins[k]);
        }
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

/* Gives thread 0 the largest x of all LSE_THREADS threads. */
static __device__ inline double block_max_nan(double x)
{
    __shared__ double shared[LSE_THREADS / WARP];
    x = warp_max_nan(x);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int w = 1; w < LSE_THREADS / WARP && threadIdx.x == 0; w++)
        x = max_nan(x, shared[w]);
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
        top                 = max_nan(isnan(l) ? (double)l : (double)m, top);
    }
    top = block_max_nan(top);
    if (threadIdx.x == 0) partial[h * gridDim.x + blockIdx.x] = top;
}

static __global__ void __launch_bounds__(LSE_THREADS)
    largest_k(const double *partial, int n, double *max_logit)
{
    double top = -INFINITY;
    for (int i = (int)threadIdx.x; i < n; i += LSE_THREADS)
        top = max_nan(partial[(int64_t)blockIdx.x * n + i], top);
    top = block_max_nan(top);
    if (threadIdx.x == 0) max_logit[blockIdx.x] = max_nan(top, max_logit[blockIdx.x]);
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
