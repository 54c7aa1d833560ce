/* gemm_autotune.c - autotuning: the choice among the algorithms that cuBLASLt proposes.
 *
 * Most candidates differ in tile size and sum over k in the same order: their results have the same
 * bits.  Others split the sum.  A deterministic context first drops the candidates whose bits
 * differ from those of the first proposal, and only then times the rest: whichever is the fastest,
 * the results are the same.
 *
 * The bitwise-equality filter uses fixed numbers of its own: the caller's may be zeros, which would
 * show no difference, and the choice would depend on which operands came first.  The whole stack is
 * multiplied with the caller's shape, since an algorithm may distribute work by its amount; but
 * each matrix of an operand begins one line after the one before, so that a stack takes hardly more
 * memory than one matrix.  Factors other than 1 reveal in which order a sum with the source is
 * rounded.  Two orders of a sum differ in the last bits of float32, which changes about one of 2^16
 * results in bf16: enough results are compared to see that.  Where a product has too few elements
 * for that, or too little work to gain time, it is not autotuned.
 *
 * Its memory is allocated and freed at once; where there is none, the first proposal is taken. */
#include <math.h>
#include <string.h>

#include "device/cuda/gemm_plan.h"

enum {
    RUNS       = 3, /* timed runs of each candidate, after one that is not timed */
    ROUNDS     = 8, /* the most rounds of the filter */
    LINE_ALIGN = 256,
};

#define MEMORY_MAX     ((size_t)256 << 20) /* bytes, for the filter */
#define WORK_MIN       0x1p29 /* multiplications of a product: 2 us in 16 bits, 20 in float32 */
#define COMPARED_16BIT ((int64_t)1 << 20) /* elements to compare: of 16 bits, */
#define COMPARED_WIDE  ((int64_t)1 << 16) /* of more */

static const double filter_alpha = 0.7, filter_beta = -1.3; /* neither is exact in binary */

typedef struct autotune {
    ms_device                             *d;
    struct ms_cuda_blas                   *blas;
    const ms_cuda_gemm_plan               *p;
    const ms_cuda_gemm_problem            *x;
    const cublasLtMatmulHeuristicResult_t *results;
    int                                    n;
    bool                                   out[MS_CUDA_CANDIDATES]; /* dropped candidates */
    ms_mat                                 c; /* the caller's c, or memory of its layout */
    char                                  *memory;
} autotune;

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool is_narrow(const ms_cuda_gemm_key *k)
{
    return ms_dtype_bytes((musec_dtype)k->c_dtype) <= 2;
}

/* Returns the rounds until enough elements are compared.  Only those of one matrix count, since the
 * others of its stack overlap with it. */
static int64_t rounds_of(const ms_cuda_gemm_key *k)
{
    const int64_t shown = is_narrow(k) ? COMPARED_16BIT : COMPARED_WIDE;
    return (shown - 1) / (k->c.rows * k->c.cols) + 1;
}

static size_t aligned(size_t bytes) { return (bytes + LINE_ALIGN - 1) / LINE_ALIGN * LINE_ALIGN; }

/* Returns an operand of the filter as one matrix, whose lines are contiguous. */
static ms_mat lines_of(const ms_cuda_gemm_key *k, const ms_cuda_operand_key *of)
{
    const size_t each = ms_dtype_bytes((musec_dtype)k->dtype);
    const size_t ld   = aligned((size_t)of->rows * each) / each;
    return (ms_mat){ .rows  = of->cols + k->count - 1,
                     .cols  = of->rows,
                     .ld    = (int64_t)ld,
                     .count = 1,
                     .dtype = (musec_dtype)k->dtype };
}

static size_t lines_bytes(ms_mat lines)
{
    return (size_t)(lines.rows * lines.ld) * ms_dtype_bytes(lines.dtype);
}

static size_t operands_bytes(const ms_cuda_gemm_key *k)
{
    return lines_bytes(lines_of(k, &k->a)) + lines_bytes(lines_of(k, &k->b));
}

/* Returns the bytes from the first element of c to the last. */
static size_t c_bytes(const ms_cuda_gemm_key *k)
{
    const int64_t elems = (k->count - 1) * k->c.stride + (k->c.cols - 1) * k->c.ld + k->c.rows;
    return aligned((size_t)elems * ms_dtype_bytes((musec_dtype)k->c_dtype));
}

bool ms_cuda_gemm_is_autotuned(const ms_cuda_gemm_key *k)
{
    const int64_t of_sum = k->a.trans != 0 ? k->a.cols : k->a.rows;
    if (k->nondeterministic != 0) return true;
    if ((double)k->c.rows * (double)k->c.cols * (double)k->count * (double)of_sum < WORK_MIN)
        return false;
    return rounds_of(k) <= ROUNDS && operands_bytes(k) <= MEMORY_MAX;
}

/* ---- bitwise-equality filter ----------------------------------------------------------------- */

static bool run_fails(autotune *t, int i, const ms_cuda_gemm_call *call)
{
    if (ms_cuda_gemm_run(t->d, t->blas, t->p, &t->results[i].algo, call) == CUBLAS_STATUS_SUCCESS)
        return false;
    (void)cudaGetLastError(); /* or the next launch would be blamed */
    return t->out[i] = true;
}

/* Runs all candidates on the same numbers and adds a digest of each result to digests[i]. */
static musec_status digest_round(autotune *t, uint64_t round, const ms_cuda_gemm_call *call,
                                 ms_mat a, ms_mat b, uint64_t *digests)
{
    const ms_cuda_gemm_key *k = &t->p->key;
    /* lines along m or n, not along k, are tiny */
    const ms_cuda_tiny of_a = k->a.trans != 0 ? MS_CUDA_TINY_COLS : MS_CUDA_TINY_ROWS;
    const ms_cuda_tiny of_b = k->b.trans != 0 ? MS_CUDA_TINY_ROWS : MS_CUDA_TINY_COLS;
    musec_status       st   = MUSEC_OK;
    TRY(ms_cuda_autotune_fill(t->d, 3 * round, of_a, a));
    TRY(ms_cuda_autotune_fill(t->d, 3 * round + 1, of_b, b));
    for (int i = 0; i < t->n; i++) {
        if (t->out[i]) continue;
        if (k->reads_c != 0)
            TRY(ms_cuda_autotune_fill(t->d, 3 * round + 2, MS_CUDA_TINY_NONE, t->c));
        if (!run_fails(t, i, call)) TRY(ms_cuda_autotune_digest(t->d, round, t->c, &digests[i]));
    }
done:
    return st;
}

static musec_status layout_of(autotune *t, const ms_cuda_operand_key *of, ms_mat lines,
                              cublasLtMatrixLayout_t *out)
{
    const ms_cuda_gemm_key *k = &t->p->key;
    ms_cuda_operand_key     o = *of;
    o.ld                      = lines.ld;
    o.stride                  = lines.ld;
    return ms_cuda_gemm_layout(t->d, &t->blas->lt, &o, k->dtype, k->count, out);
}

/* Drops candidates that do not give the bits of the first, or all others where that one fails. */
static musec_status filter_by_bits(autotune *t)
{
    const ms_cuda_gemm_key *k  = &t->p->key;
    const ms_cuda_lt       *lt = &t->blas->lt;
    ms_mat                  a = lines_of(k, &k->a), b = lines_of(k, &k->b);
    uint64_t                got[MS_CUDA_CANDIDATES] = { 0 }, *digests = NULL;
    ms_cuda_gemm_call       call = { .alpha  = filter_alpha,
                                     .beta   = k->reads_c != 0 ? filter_beta : 0.0,
                                     .source = t->c.data,
                                     .c      = t->c.data };
    musec_status            st   = MUSEC_OK;

    a.data  = t->memory;
    b.data  = t->memory + lines_bytes(a);
    digests = (uint64_t *)(t->memory + lines_bytes(a) + lines_bytes(b));
    call.a  = a.data;
    call.b  = b.data;
    TRY(layout_of(t, &k->a, a, &call.a_layout));
    TRY(layout_of(t, &k->b, b, &call.b_layout));
    TRY(ms_cuda_status(t->d, cudaMemsetAsync(digests, 0, sizeof got, ms_cuda_of(t->d)->stream),
                       "autotuning a product"));
    for (int64_t round = 0; round < rounds_of(k) && !t->out[0]; round++)
        TRY(digest_round(t, (uint64_t)round, &call, a, b, digests));
    TRY(t->d->ops->download(t->d, digests, sizeof got, got));
    for (int i = 1; i < t->n; i++)
        if (t->out[0] || got[i] != got[0]) t->out[i] = true;
    t->out[0] = false;
done:
    if (call.a_layout != NULL) (void)lt->cublasLtMatrixLayoutDestroy(call.a_layout);
    if (call.b_layout != NULL) (void)lt->cublasLtMatrixLayoutDestroy(call.b_layout);
    return st;
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* *ms <- milliseconds of RUNS products, or INFINITY where cuBLASLt refuses them after all. */
static musec_status time_one(autotune *t, int i, const ms_cuda_gemm_call *call, float *ms)
{
    struct ms_cuda_blas *blas   = t->blas;
    cudaStream_t         stream = ms_cuda_of(t->d)->stream;
    musec_status         st     = MUSEC_OK;
    *ms                         = INFINITY;
    if (run_fails(t, i, call)) return MUSEC_OK;
    TRY(ms_cuda_status(t->d, cudaEventRecord(blas->start, stream), "autotuning a product"));
    for (int run = 0; run < RUNS; run++)
        if (run_fails(t, i, call)) return MUSEC_OK;
    TRY(ms_cuda_status(t->d, cudaEventRecord(blas->stop, stream), "autotuning a product"));
    TRY(ms_cuda_status(t->d, cudaEventSynchronize(blas->stop), "autotuning a product"));
    TRY(ms_cuda_status(t->d, cudaEventElapsedTime(ms, blas->start, blas->stop),
                       "autotuning a product"));
done:
    return st;
}

/* *best <- the fastest of the remaining candidates, on the caller's operands. */
static musec_status fastest(autotune *t, int *best)
{
    const ms_cuda_gemm_plan    *p    = t->p;
    const ms_cuda_gemm_problem *x    = t->x;
    const bool                  own  = p->key.reads_c == 0 || x->source.data == x->c.data;
    const ms_cuda_gemm_call     call = { .alpha    = x->alpha,
                                         .beta     = x->beta,
                                         .a        = x->a.data,
                                         .b        = x->b.data,
                                         .source   = own ? t->c.data : x->source.data,
                                         .c        = t->c.data,
                                         .a_layout = p->a,
                                         .b_layout = p->b };
    float                       ms = INFINITY, least = INFINITY;
    int                         left = 0;
    musec_status                st   = MUSEC_OK;

    *best = 0;
    for (int i = 0; i < t->n; i++)
        left += !t->out[i];
    if (left == 1 && !t->out[0]) return MUSEC_OK;
    for (int i = 0; i < t->n; i++) {
        if (t->out[i]) continue;
        TRY(time_one(t, i, &call, &ms));
        if (!(ms < least)) continue;
        least = ms;
        *best = i;
    }
done:
    return st;
}

/* ---- autotuning ------------------------------------------------------------------------------ */

static musec_status make_events(ms_device *d, struct ms_cuda_blas *blas)
{
    musec_status st = MUSEC_OK;
    if (blas->start == NULL)
        TRY(ms_cuda_status(d, cudaEventCreate(&blas->start), "autotuning a product"));
    if (blas->stop == NULL)
        TRY(ms_cuda_status(d, cudaEventCreate(&blas->stop), "autotuning a product"));
done:
    return st;
}

/* A product that reads c itself is timed on other memory of the same layout, else every run would
 * add to c. */
static bool alloc_memory(autotune *t)
{
    const ms_cuda_gemm_key *k       = &t->p->key;
    const bool              apart   = k->reads_c != 0 && t->x->source.data == t->x->c.data;
    const size_t            digests = aligned(sizeof(uint64_t[MS_CUDA_CANDIDATES]));
    const size_t            before  = k->nondeterministic != 0 ? 0 : operands_bytes(k) + digests;
    const size_t            bytes   = before + (apart ? c_bytes(k) : 0);

    t->c = t->x->c;
    if (bytes == 0) return true;
    if (k->nondeterministic == 0 && bytes > MEMORY_MAX) return false;
    if (cudaMalloc((void **)&t->memory, bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* or the next launch would be blamed */
        return false;
    }
    if (apart) t->c.data = t->memory + before;
    return true;
}

musec_status ms_cuda_gemm_autotune(ms_device *d, struct ms_cuda_blas *blas,
                                   const ms_cuda_gemm_plan *p, const ms_cuda_gemm_problem *x,
                                   const cublasLtMatmulHeuristicResult_t *results, int n, int *best)
{
    autotune     t  = { .d = d, .blas = blas, .p = p, .x = x, .results = results, .n = n };
    musec_status st = MUSEC_OK;

    *best = -1;
    (void)ms_cuda_of(d);
    if (!alloc_memory(&t)) return MUSEC_OK;
    TRY(make_events(d, blas));
    if (p->key.nondeterministic == 0) TRY(filter_by_bits(&t));
    TRY(fastest(&t, best));
done:
    (void)cudaFree(t.memory); /* waits for what uses it */
    return st;
}
