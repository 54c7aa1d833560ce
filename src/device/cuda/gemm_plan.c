/* gemm_plan.c - products by cuBLASLt, and their plans.
 *
 * cuBLASLt is column-major.  A row-major matrix is, to it, the transposed one, so c = a b is passed
 * as c^T = b^T a^T: b comes first, and nothing is moved.  Operands of float32 and narrower are
 * accumulated in float32, not TF32, those of float64 in float64.
 *
 * A plan describes a product to cuBLASLt and names the algorithm.  Its key has everything that the
 * choice of an algorithm may depend on, so that products of the same key always use the same
 * one.  Where the sum over k is split, a separate kernel adds the parts in float32 (or float64) in
 * a fixed order; the other reduction schemes, which add in the type of c, are not allowed, because
 * they would round partial sums to 16 bits.  So equal calls give equal bits.
 *
 * The first product of a key chooses among the algorithms that cuBLASLt proposes by timing them
 * (gemm_autotune.c).  A deterministic context takes only one that gives the bits of the first
 * proposal, so its results depend neither on timings nor on other processes.  The choice is cached
 * for later processes (gemm_plan_cache.c).  A cached algorithm is used only if the library still
 * accepts it and, in a deterministic context, if the proposal that it was compared with is still
 * the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/gemm_plan.h"

enum {
    PLANS      = 1 << 14, /* at most; when it is full, all are dropped and made again as needed */
    SLOTS      = 2 * PLANS,
    ALIGN_MOST = 256, /* bytes: no algorithm asks for more */
};

/* ---- the library ----------------------------------------------------------------------------- */

typedef ms_cuda_lt          functions;
typedef ms_cuda_operand_key operand_key;
typedef ms_cuda_gemm_key    key;
typedef ms_cuda_gemm_plan   plan;

#define X(type, name, args) \
    _Static_assert(_Generic(name, type(*) args : 1, default : 0), "not as declared: " #name);
MS_CUDA_LT_FUNCTIONS(X)
#undef X

static const char *const library_names[] = { "libcublasLt.so.13", "libcublasLt.so.12",
                                             "libcublasLt.so", NULL };

static musec_status lt_status(ms_device *d, const functions *lt, cublasStatus_t code,
                              const char *what)
{
    if (code == CUBLAS_STATUS_SUCCESS) return MUSEC_OK;
    return ms_cuda_library_status(d, code == CUBLAS_STATUS_ALLOC_FAILED, "cuBLASLt", what,
                                  lt->cublasLtGetStatusString(code));
}

static void version_of(const functions *lt, int v[3])
{
    const libraryPropertyType parts[] = { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL };
    for (int i = 0; i < 3; i++)
        if (lt->cublasLtGetProperty(parts[i], &v[i]) != CUBLAS_STATUS_SUCCESS) v[i] = 0;
}

static void name_file(const ms_cuda *c, struct ms_cuda_blas *blas)
{
    int v[3];
    version_of(&blas->lt, v);
    ms_cache_name(blas->cache.name, "gemm-cublasLt-%d.%d.%d-%s", v[0], v[1], v[2], c->chip);
}

/* The library itself stays open until the program ends, since opening it and loading its kernels
 * takes long. */
static musec_status blas_of(ms_device *d, struct ms_cuda_blas **out)
{
    ms_cuda             *c       = ms_cuda_of(d);
    struct ms_cuda_blas *blas    = NULL;
    void                *library = NULL;
    musec_status         st      = MUSEC_OK;

    *out = c->blas;
    if (c->blas != NULL) return MUSEC_OK;
    blas = calloc(1, sizeof *blas);
    if (blas == NULL || (blas->slots = calloc(SLOTS, sizeof(plan *))) == NULL)
        TRY(ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory"));
    const ms_cuda_symbol symbols[] = {
#define X(type, name, args) { #name, (void **)&blas->lt.name },
        MS_CUDA_LT_FUNCTIONS(X)
#undef X
    };
    TRY(ms_cuda_library_open(&d->error, "products on GPUs", library_names, symbols, COUNT(symbols),
                             &library));
    TRY(lt_status(d, &blas->lt, blas->lt.cublasLtCreate(&blas->handle), "starting"));
    name_file(c, blas);
    *out = c->blas = blas;
done:
    if (st != MUSEC_OK && blas != NULL) {
        free(blas->slots);
        free(blas);
    }
    return st;
}

static void free_plan(const functions *lt, plan *p)
{
    if (p == NULL) return;
    if (p->c != NULL) (void)lt->cublasLtMatrixLayoutDestroy(p->c);
    if (p->b != NULL) (void)lt->cublasLtMatrixLayoutDestroy(p->b);
    if (p->a != NULL) (void)lt->cublasLtMatrixLayoutDestroy(p->a);
    if (p->op != NULL) (void)lt->cublasLtMatmulDescDestroy(p->op);
    free(p);
}

static void drop_plans(struct ms_cuda_blas *blas)
{
    for (int i = 0; i < SLOTS; i++) {
        free_plan(&blas->lt, blas->slots[i]);
        blas->slots[i] = NULL;
    }
    blas->n_plans = 0;
}

void ms_cuda_blas_free(ms_device *d)
{
    ms_cuda             *c    = ms_cuda_of(d);
    struct ms_cuda_blas *blas = c == NULL ? NULL : c->blas;
    if (blas == NULL) return;
    ms_cuda_plan_cache_close(&blas->cache);
    drop_plans(blas);
    if (blas->start != NULL) (void)cudaEventDestroy(blas->start);
    if (blas->stop != NULL) (void)cudaEventDestroy(blas->stop);
    (void)blas->lt.cublasLtDestroy(blas->handle);
    free(blas->slots);
    free(blas);
    c->blas = NULL;
}

void ms_cuda_blas_describe(ms_device *d, char *text, size_t bytes)
{
    struct ms_cuda_blas *blas;
    int                  v[3];
    if (blas_of(d, &blas) != MUSEC_OK) {
        snprintf(text, bytes, "%s", d->error.text);
        return;
    }
    version_of(&blas->lt, v);
    snprintf(text, bytes, "cuBLASLt %d.%d.%d", v[0], v[1], v[2]);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Returns the largest power of two, up to ALIGN_MOST, that divides every number whose bitwise or is
 * `bits`. */
static int64_t align_of(uint64_t bits)
{
    const uint64_t lowest = (bits | ALIGN_MOST) & ~((bits | ALIGN_MOST) - 1);
    return (int64_t)lowest;
}

/* `also`: another address where such a matrix begins. */
static operand_key operand_key_of(ms_mat x, const void *also)
{
    const uint64_t each = ms_dtype_bytes(x.dtype);
    operand_key    k    = { .rows   = x.trans ? x.rows : x.cols,
                            .cols   = x.trans ? x.cols : x.rows,
                            .ld     = x.ld,
                            .stride = x.count > 1 ? x.stride : 0,
                            .trans  = x.trans };
    if (k.cols == 1 && k.ld < k.rows) k.ld = k.rows; /* unused, but cuBLASLt checks it */
    k.align = align_of((uint64_t)(uintptr_t)x.data | (uint64_t)(uintptr_t)also |
                       (k.cols > 1 ? (uint64_t)k.ld * each : 0) | (uint64_t)k.stride * each);
    return k;
}

static key key_of(const ms_device *d, const ms_cuda_gemm_problem *p)
{
    const double beta = p->c.dtype == MUSEC_F64 ? p->beta : (double)(float)p->beta;
    return (key){ .a                = operand_key_of(p->a, NULL),
                  .b                = operand_key_of(p->b, NULL),
                  .c                = operand_key_of(p->c, beta != 0.0 ? p->source.data : NULL),
                  .dtype            = p->a.dtype,
                  .c_dtype          = p->c.dtype,
                  .count            = p->c.count,
                  .reads_c          = beta != 0.0,
                  .nondeterministic = !d->deterministic };
}

static uint64_t hash_of(const key *k)
{
    uint64_t part[sizeof *k / sizeof(uint64_t)], h = 0x9e3779b97f4a7c15u;
    memcpy(part, k, sizeof part);
    for (size_t i = 0; i < COUNT(part); i++) {
        h = (h ^ part[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

/* Returns the slot of the plan of this key, empty if there is none yet. */
static plan **slot_of(struct ms_cuda_blas *blas, const key *k)
{
    size_t i = (size_t)hash_of(k) % SLOTS;
    while (blas->slots[i] != NULL && memcmp(&blas->slots[i]->key, k, sizeof *k) != 0)
        i = (i + 1) % SLOTS;
    return &blas->slots[i];
}

/* ---- making a plan --------------------------------------------------------------------------- */

static cudaDataType type_of(int64_t dtype)
{
    switch (dtype) {
    case MUSEC_BF16: return CUDA_R_16BF;
    case MUSEC_F16: return CUDA_R_16F;
    case MUSEC_F64: return CUDA_R_64F;
    default: return CUDA_R_32F;
    }
}

musec_status ms_cuda_gemm_layout(ms_device *d, const functions *lt, const operand_key *k,
                                 int64_t dtype, int64_t count, cublasLtMatrixLayout_t *out)
{
    const int32_t batch = (int32_t)count;
    musec_status  st    = MUSEC_OK;
    TRY(lt_status(d, lt,
                  lt->cublasLtMatrixLayoutCreate(out, type_of(dtype), (uint64_t)k->rows,
                                                 (uint64_t)k->cols, k->ld),
                  "a layout"));
    if (count == 1) return MUSEC_OK;
    TRY(lt_status(d, lt,
                  lt->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                       &batch, sizeof batch),
                  "a stack"));
    TRY(lt_status(d, lt,
                  lt->cublasLtMatrixLayoutSetAttribute(*out,
                                                       CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                       &k->stride, sizeof k->stride),
                  "a stack"));
done:
    return st;
}

/* Describes the product to cuBLASLt, whose first operand is b. */
static musec_status describe(ms_device *d, const functions *lt, plan *p)
{
    const key    *k    = &p->key;
    const bool    wide = k->dtype == MUSEC_F64;
    const int32_t of_b = k->b.trans != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t of_a = k->a.trans != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    musec_status  st   = MUSEC_OK;
    TRY(lt_status(d, lt,
                  lt->cublasLtMatmulDescCreate(&p->op,
                                               wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                               wide ? CUDA_R_64F : CUDA_R_32F),
                  "a product"));
    TRY(lt_status(
        d, lt,
        lt->cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b),
        "a product"));
    TRY(lt_status(
        d, lt,
        lt->cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a),
        "a product"));
    TRY(ms_cuda_gemm_layout(d, lt, &k->a, k->dtype, k->count, &p->a));
    TRY(ms_cuda_gemm_layout(d, lt, &k->b, k->dtype, k->count, &p->b));
    TRY(ms_cuda_gemm_layout(d, lt, &k->c, k->c_dtype, k->count, &p->c));
done:
    return st;
}

static musec_status prefer(ms_device *d, const functions *lt, cublasLtMatmulPreference_t to,
                           cublasLtMatmulPreferenceAttributes_t what, const void *value,
                           size_t bytes)
{
    return lt_status(d, lt, lt->cublasLtMatmulPreferenceSetAttribute(to, what, value, bytes),
                     "a preference");
}

/* Asks for up to `most` algorithms, the most promising first; *n is 0 where there is none. */
static musec_status ask_heuristic(ms_device *d, struct ms_cuda_blas *blas, const plan *p, int most,
                                  cublasLtMatmulHeuristicResult_t *results, int *n)
{
    const functions           *lt    = &blas->lt;
    const key                 *k     = &p->key;
    const uint32_t             parts = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t             a = (uint32_t)k->a.align, b = (uint32_t)k->b.align;
    const uint32_t             c          = (uint32_t)k->c.align;
    const uint64_t             bytes      = MS_CUDA_WORKSPACE;
    cublasLtMatmulPreference_t preference = NULL;
    int                        found = 0, good = 0;
    musec_status               st = MUSEC_OK;

    *n = 0;
    TRY(lt_status(d, lt, lt->cublasLtMatmulPreferenceCreate(&preference), "preferences"));
    TRY(prefer(d, lt, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    TRY(prefer(d, lt, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &parts,
               sizeof parts));
    TRY(prefer(d, lt, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof b));
    TRY(prefer(d, lt, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof a));
    TRY(prefer(d, lt, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c));
    TRY(prefer(d, lt, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c));
    const cublasStatus_t code = lt->cublasLtMatmulAlgoGetHeuristic(
        blas->handle, p->op, p->b, p->a, p->c, p->c, preference, most, results, &found);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_INVALID_VALUE)
        goto done; /* it does not support such sizes or layouts */
    TRY(lt_status(d, lt, code, "choosing an algorithm"));
    for (int i = 0; i < found; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= bytes)
            results[good++] = results[i];
    *n = good;
done:
    if (preference != NULL) (void)lt->cublasLtMatmulPreferenceDestroy(preference);
    return st;
}

/* ---- running --------------------------------------------------------------------------------- */

cublasStatus_t ms_cuda_gemm_run(ms_device *d, struct ms_cuda_blas *blas, const plan *p,
                                const cublasLtMatmulAlgo_t *algo, const ms_cuda_gemm_call *call)
{
    const float alpha = (float)call->alpha, beta = (float)call->beta;
    const bool  wide = p->key.dtype == MUSEC_F64;
    return blas->lt.cublasLtMatmul(
        blas->handle, p->op, wide ? (const void *)&call->alpha : &alpha, call->b, call->b_layout,
        call->a, call->a_layout, wide ? (const void *)&call->beta : &beta, call->source, p->c,
        call->c, p->c, algo, ms_cuda_of(d)->workspace, MS_CUDA_WORKSPACE, ms_cuda_of(d)->stream);
}

/* Takes the cached algorithm, if the library still accepts it. */
static bool load_cached(struct ms_cuda_blas *blas, plan *p)
{
    cublasLtMatmulHeuristicResult_t result;
    const ms_cuda_cached_plan      *was = ms_cuda_plan_cache_find(&blas->cache, &p->key);
    if (was == NULL) return false;
    if (p->key.nondeterministic == 0 && memcmp(&was->first, &p->first, sizeof p->first) != 0)
        return false;
    if (blas->lt.cublasLtMatmulAlgoCheck(blas->handle, p->op, p->b, p->a, p->c, p->c, &was->algo,
                                         &result) != CUBLAS_STATUS_SUCCESS ||
        result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > MS_CUDA_WORKSPACE)
        return false;
    p->algo         = was->algo;
    return p->found = true;
}

/* Appends further proposals to results[1] and on, except the first, which is among them again. */
static musec_status ask_heuristic_more(ms_device *d, struct ms_cuda_blas *blas, const plan *p,
                                       cublasLtMatmulHeuristicResult_t *results, int *n)
{
    int          more = 0;
    musec_status st   = ask_heuristic(d, blas, p, MS_CUDA_CANDIDATES, results + 1, &more);
    for (int i = 1; i <= more; i++)
        if (*n < MS_CUDA_CANDIDATES && memcmp(&results[i].algo, &p->first, sizeof p->first) != 0)
            results[(*n)++] = results[i];
    return st;
}

/* A deterministic context asks for the first proposal alone, which must not depend on how many
 * others are asked for. */
static musec_status choose(ms_device *d, struct ms_cuda_blas *blas, plan *p,
                           const ms_cuda_gemm_problem *x)
{
    cublasLtMatmulHeuristicResult_t results[MS_CUDA_CANDIDATES + 1] = { 0 };
    const bool                      tried = !d->no_autotune && ms_cuda_gemm_is_autotuned(&p->key);
    const bool                      nondeterministic = p->key.nondeterministic != 0;
    int                             n = 0, best = 0;
    musec_status                    st = MUSEC_OK;

    if (tried && nondeterministic && load_cached(blas, p)) return MUSEC_OK;
    TRY(ask_heuristic(d, blas, p, tried && nondeterministic ? MS_CUDA_CANDIDATES : 1, results, &n));
    if (n == 0) return MUSEC_OK;
    p->found = true;
    p->first = p->algo = results[0].algo;
    if (!tried || (!nondeterministic && load_cached(blas, p))) return MUSEC_OK;
    if (!nondeterministic) TRY(ask_heuristic_more(d, blas, p, results, &n));
    if (n > 1) TRY(ms_cuda_gemm_autotune(d, blas, p, x, results, n, &best));
    if (best < 0) return MUSEC_OK; /* not cached: the next process may have the memory */
    p->algo = results[best].algo;
    ms_cuda_plan_cache_add(&blas->cache, &(ms_cuda_cached_plan){ p->key, p->first, p->algo });
done:
    return st;
}

static musec_status make_plan(ms_device *d, struct ms_cuda_blas *blas, const key *k,
                              const ms_cuda_gemm_problem *x, plan **out)
{
    plan        *p  = calloc(1, sizeof *p);
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (p == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    p->key = *k;
    TRY(describe(d, &blas->lt, p));
    TRY(choose(d, blas, p, x));
    *out = p;
done:
    if (st != MUSEC_OK) free_plan(&blas->lt, p);
    return st;
}

/* Runs the algorithm that was chosen or, where cuBLASLt refuses it after all, the first proposal,
 * which gives the same bits. */
static cublasStatus_t run_plan(ms_device *d, struct ms_cuda_blas *blas, plan *p,
                               const ms_cuda_gemm_problem *x)
{
    const ms_cuda_gemm_call call = { .alpha    = x->alpha,
                                     .beta     = x->beta,
                                     .a        = x->a.data,
                                     .b        = x->b.data,
                                     .source   = p->key.reads_c != 0 ? x->source.data : x->c.data,
                                     .c        = x->c.data,
                                     .a_layout = p->a,
                                     .b_layout = p->b };
    const cublasStatus_t    code = ms_cuda_gemm_run(d, blas, p, &p->algo, &call);
    if (code != CUBLAS_STATUS_NOT_SUPPORTED || p->key.nondeterministic != 0 ||
        memcmp(&p->algo, &p->first, sizeof p->first) == 0)
        return code;
    (void)cudaGetLastError(); /* or the next launch would be blamed */
    p->algo = p->first;
    return ms_cuda_gemm_run(d, blas, p, &p->algo, &call);
}

musec_status ms_cuda_gemm_planned(ms_device *d, const ms_cuda_gemm_problem *x, bool *handled)
{
    const key            k    = key_of(d, x);
    struct ms_cuda_blas *blas = NULL;
    plan               **slot = NULL;
    musec_status         st   = MUSEC_OK;

    *handled = false;
    TRY(blas_of(d, &blas));
    slot = slot_of(blas, &k);
    if (*slot == NULL) {
        if (blas->n_plans == PLANS) {
            drop_plans(blas);
            slot = slot_of(blas, &k);
        }
        TRY(make_plan(d, blas, &k, x, slot));
        blas->n_plans++;
    }
    if (!(*slot)->found) return MUSEC_OK;
    const cublasStatus_t code = run_plan(d, blas, *slot, x);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED) { /* after all: nothing was done */
        (void)cudaGetLastError();
        (*slot)->found = false;
        return MUSEC_OK;
    }
    TRY(lt_status(d, &blas->lt, code, "gemm"));
    *handled = true;
done:
    return st;
}
