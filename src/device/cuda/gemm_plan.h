/* gemm_plan.h - what the files of products by cuBLASLt share: gemm_plan.c makes plans and runs
 * them, gemm_autotune.c chooses among the proposed algorithms by kernels of
 * gemm_autotune_kernels.cu, and gemm_plan_cache.c stores the choices in a file. */
#ifndef MS_DEVICE_CUDA_GEMM_PLAN_H
#define MS_DEVICE_CUDA_GEMM_PLAN_H

#include <cublasLt.h>

#include "core/cache.h"
#include "device/cuda/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MS_CUDA_CANDIDATES = 8 }; /* algorithms that are timed */

/* ---- the library ----------------------------------------------------------------------------- */

/* type, name, arguments: as cublasLt.h declares them, which the compiler checks below */
#define MS_CUDA_LT_FUNCTIONS(X)                                                                    \
    X(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t *))                                        \
    X(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t))                                         \
    X(cublasStatus_t, cublasLtGetProperty, (libraryPropertyType, int *))                           \
    X(const char *, cublasLtGetStatusString, (cublasStatus_t))                                     \
    X(cublasStatus_t, cublasLtMatmulDescCreate,                                                    \
      (cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t))                               \
    X(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t))                           \
    X(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                              \
      (cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t))                \
    X(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                  \
      (cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t))                       \
    X(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t))                       \
    X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                            \
      (cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void *, size_t))             \
    X(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *))              \
    X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t))               \
    X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                        \
      (cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t))    \
    X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                              \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,     \
       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,            \
       cublasLtMatmulHeuristicResult_t *, int *))                                                  \
    X(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                     \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,     \
       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *,               \
       cublasLtMatmulHeuristicResult_t *))                                                         \
    X(cublasStatus_t, cublasLtMatmul,                                                              \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, \
       const void *, cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t,   \
       void *, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,               \
       cudaStream_t))

typedef struct ms_cuda_lt {
#define X(type, name, args) type(*name) args;
    MS_CUDA_LT_FUNCTIONS(X)
#undef X
} ms_cuda_lt;

/* ---- plans ----------------------------------------------------------------------------------- */

/* All fields have one type, so that there is no padding: keys are compared and hashed as bytes. */
typedef struct ms_cuda_operand_key {
    int64_t rows, cols, ld, stride; /* as cuBLASLt sees it, before its own transposition */
    int64_t trans;
    int64_t align; /* bytes, a power of two: the alignment of every column of every matrix */
} ms_cuda_operand_key;

typedef struct ms_cuda_gemm_key {
    ms_cuda_operand_key a, b, c;
    int64_t             dtype, c_dtype, count;
    int64_t             reads_c;
    int64_t             nondeterministic; /* the context is not deterministic: any bits will do */
} ms_cuda_gemm_key;

typedef struct ms_cuda_gemm_plan {
    ms_cuda_gemm_key       key;
    cublasLtMatmulDesc_t   op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t   first; /* the first proposal; all zero where there was none */
    cublasLtMatmulAlgo_t   algo;
    bool                   found; /* is there an algorithm? */
} ms_cuda_gemm_plan;

/* ---- plan cache (gemm_plan_cache.c) ---------------------------------------------------------- */

typedef struct ms_cuda_cached_plan { /* a choice, as stored in the file */
    ms_cuda_gemm_key     key;
    cublasLtMatmulAlgo_t first; /* whose bits it has, where the key is deterministic */
    cublasLtMatmulAlgo_t algo;
} ms_cuda_cached_plan;

typedef struct ms_cuda_plan_cache {
    char                 name[MS_CACHE_NAME]; /* of the file */
    ms_cuda_cached_plan *at;
    size_t               n, n_new;
    bool                 is_read;
} ms_cuda_plan_cache;

/* Returns NULL if there is none.  The first call reads the file; valid until the next call. */
const ms_cuda_cached_plan *ms_cuda_plan_cache_find(ms_cuda_plan_cache     *all,
                                                   const ms_cuda_gemm_key *k);
/* Adds a plan or replaces that of the same key; does nothing where the cache is full. */
void ms_cuda_plan_cache_add(ms_cuda_plan_cache *all, const ms_cuda_cached_plan *one);
/* Writes the file if any plan is new, with those that other processes have added since, and
 * frees. */
void ms_cuda_plan_cache_close(ms_cuda_plan_cache *all);

/* ---- running (gemm_plan.c) ------------------------------------------------------------------- */

struct ms_cuda_blas {
    ms_cuda_lt          lt;
    cublasLtHandle_t    handle;
    ms_cuda_gemm_plan **slots; /* open addressing */
    int                 n_plans;
    cudaEvent_t         start, stop; /* for timing; made at its first use */
    ms_cuda_plan_cache  cache;
};

typedef struct ms_cuda_gemm_call { /* of a plan: c <- alpha a b + beta source */
    double                 alpha, beta;
    const void            *a, *b, *source;
    void                  *c;
    cublasLtMatrixLayout_t a_layout, b_layout; /* the plan's, or others of the same shape */
} ms_cuda_gemm_call;

cublasStatus_t ms_cuda_gemm_run(ms_device *d, struct ms_cuda_blas *blas, const ms_cuda_gemm_plan *p,
                                const cublasLtMatmulAlgo_t *algo, const ms_cuda_gemm_call *call);
musec_status   ms_cuda_gemm_layout(ms_device *d, const ms_cuda_lt *lt, const ms_cuda_operand_key *k,
                                   int64_t dtype, int64_t count, cublasLtMatrixLayout_t *out);

/* ---- autotuning (gemm_autotune.c, gemm_autotune_kernels.cu) ---------------------------------- */

/* Is a product of this key autotuned, in a context that allows it? */
bool ms_cuda_gemm_is_autotuned(const ms_cuda_gemm_key *k);
/* *best <- the index of the fastest of n algorithms, where the key is deterministic of those that
 * give the bits of number 0; -1 where there is no memory to run them.  It waits, and overwrites x's
 * c unless x reads it. */
musec_status ms_cuda_gemm_autotune(ms_device *d, struct ms_cuda_blas *blas,
                                   const ms_cuda_gemm_plan *p, const ms_cuda_gemm_problem *x,
                                   const cublasLtMatmulHeuristicResult_t *results, int n,
                                   int *best);

typedef enum ms_cuda_tiny { MS_CUDA_TINY_NONE, MS_CUDA_TINY_ROWS, MS_CUDA_TINY_COLS } ms_cuda_tiny;

/* out <- numbers of either sign and many magnitudes, each a function of the key and its
 * place.  Some rows or columns are so small that products of two of their elements are below the
 * smallest normal number, of f16 where that is the dtype.  out is not transposed. */
musec_status ms_cuda_autotune_fill(ms_device *d, uint64_t key, ms_cuda_tiny tiny, ms_mat out);
/* Adds to *digest, on the device, a hash of the bits and places of all elements of c, without the
 * gaps between rows.  c is not transposed. */
musec_status ms_cuda_autotune_digest(ms_device *d, uint64_t key, ms_mat c, uint64_t *digest);

#ifdef __cplusplus
}
#endif
#endif
