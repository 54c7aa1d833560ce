/* gemm_plan.c - products by cuBLASLt, and the plans that say how.
 *
 * cuBLASLt counts by columns.  A row-major matrix is, to it, the transposed one, so c = a b is
 * given to it as c^T = b^T a^T: b comes first, and nothing is moved.  Sums of float32 and narrower
 * operands are of float32, not of TF32; those of float64 are of float64.
 *
 * A plan is what cuBLASLt needs to know of a product, and the algorithm to take.  It belongs to
 * all that an algorithm may depend on (struct key), so that a product of the same kind always goes
 * the same way.  Where the sum over k is split, the parts are added in float32 (or float64) in one
 * order by a kernel of their own; the other schemes, which add in the type of c, are not allowed,
 * for they would round to 16 bits half way.  So equal calls give equal bits.
 *
 * A deterministic context takes the first algorithm that cuBLASLt proposes.  Otherwise the first
 * product of its kind waits while the proposals are timed on its own operands, and the fastest is
 * taken from then on, by later processes too: what was timed is kept in a file for this chip and
 * this cuBLASLt (core/cache.h), which the library is asked about before it is believed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>

#include "core/cache.h"
#include "device/cuda/gemm.h"

enum {
    CANDIDATES = 8,       /* algorithms that are timed */
    RUNS       = 3,       /* times each, after one that does not count */
    PLANS      = 1 << 14, /* kept at most; then all go and come back as they are needed */
    SLOTS      = 2 * PLANS,
    ALIGN_MOST = 256,  /* bytes: no algorithm asks for more */
    KEPT_MOST  = 4096, /* plans in the file */
};

/* ---- the library ----------------------------------------------------------------------------- */

/* type, name, arguments: as cublasLt.h declares them, which the compiler checks below */
#define LT_FUNCTIONS(X)                                                                            \
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

typedef struct functions {
#define X(type, name, args) type(*name) args;
    LT_FUNCTIONS(X)
#undef X
} functions;

#define X(type, name, args) \
    _Static_assert(_Generic(name, type(*) args : 1, default : 0), "not as declared: " #name);
LT_FUNCTIONS(X)
#undef X

static const char *const library_names[] = { "libcublasLt.so.13", "libcublasLt.so.12",
                                             "libcublasLt.so", NULL };

/* ---- plans ----------------------------------------------------------------------------------- */

/* Every field is of one type, so that no byte lies between them: keys are compared and hashed as
 * bytes. */
typedef struct operand_key {
    int64_t rows, cols, ld, stride; /* as cuBLASLt sees it, before its own transposition */
    int64_t trans;
    int64_t align; /* bytes, a power of two: that every column of every matrix begins at */
} operand_key;

typedef struct key {
    operand_key a, b, c;
    int64_t     dtype, c_dtype, count;
    int64_t     reads_c;
    int64_t     timed; /* the context is not deterministic */
} key;

typedef struct plan {
    key                    key;
    cublasLtMatmulDesc_t   op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t   algo;
    bool                   found; /* there is an algorithm */
} plan;

typedef struct kept { /* a plan that was timed, as the file has it */
    key                  key;
    cublasLtMatmulAlgo_t algo;
} kept;

/* What the file begins with: one that was written by another program is not read. */
static const uint64_t kept_head[] = { 1 /* version */, sizeof(key), sizeof(cublasLtMatmulAlgo_t) };

struct ms_cuda_blas {
    functions        lt;
    cublasLtHandle_t handle;
    plan           **slots; /* (SLOTS) open addressing */
    int              n_plans;
    cudaEvent_t      start, stop; /* for timing; made at its first use */
    kept            *kept;        /* read when a plan would first be timed */
    size_t           n_kept, n_new;
    bool             kept_is_read;
};

static musec_status lt_status(ms_device *d, const functions *lt, cublasStatus_t code,
                              const char *what)
{
    if (code == CUBLAS_STATUS_SUCCESS) return MUSEC_OK;
    return ms_fail(&d->error, code == CUBLAS_STATUS_ALLOC_FAILED ? MUSEC_ENOMEM : MUSEC_EDEVICE,
                   "%s: cuBLASLt: %s: %s", d->name, what, lt->cublasLtGetStatusString(code));
}

/* The library itself stays open until the program ends: opening it takes long, and its kernels stay
 * known to the driver. */
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
        LT_FUNCTIONS(X)
#undef X
    };
    TRY(ms_cuda_library_open(&d->error, "products on GPUs", library_names, symbols, COUNT(symbols),
                             &library));
    TRY(lt_status(d, &blas->lt, blas->lt.cublasLtCreate(&blas->handle), "starting"));
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

/* ---- plans that were timed before ------------------------------------------------------------ */

static void version_of(const functions *lt, int v[3])
{
    const libraryPropertyType parts[] = { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL };
    for (int i = 0; i < 3; i++)
        if (lt->cublasLtGetProperty(parts[i], &v[i]) != CUBLAS_STATUS_SUCCESS) v[i] = 0;
}

static void kept_name(ms_device *d, const struct ms_cuda_blas *blas, char name[MS_CACHE_NAME])
{
    int v[3];
    version_of(&blas->lt, v);
    ms_cache_name(name, "gemm-cublasLt-%d.%d.%d-%s", v[0], v[1], v[2], ms_cuda_of(d)->chip);
}

static kept *find_kept(const struct ms_cuda_blas *blas, const key *k)
{
    for (size_t i = 0; i < blas->n_kept; i++)
        if (memcmp(&blas->kept[i].key, k, sizeof *k) == 0) return &blas->kept[i];
    return NULL;
}

/* One more, unless they are enough.  One that is there already is kept, or replaced. */
static bool keep(struct ms_cuda_blas *blas, const kept *one, bool replaces)
{
    kept *was = find_kept(blas, &one->key), *grown;
    if (was != NULL && replaces) *was = *one;
    if (was != NULL || blas->n_kept == KEPT_MOST) return was != NULL && replaces;
    grown = realloc(blas->kept, (blas->n_kept + 1) * sizeof *grown);
    if (grown == NULL) return false;
    blas->kept                 = grown;
    blas->kept[blas->n_kept++] = *one;
    return true;
}

/* What the file has beyond what is known already. */
static void read_kept(ms_device *d, struct ms_cuda_blas *blas)
{
    char   name[MS_CACHE_NAME];
    void  *data  = NULL;
    size_t bytes = 0;
    kept   one;
    blas->kept_is_read = true;
    kept_name(d, blas, name);
    if (!ms_cache_load(name, &data, &bytes)) return;
    if (bytes >= sizeof kept_head && memcmp(data, kept_head, sizeof kept_head) == 0)
        for (size_t at = sizeof kept_head; at + sizeof one <= bytes; at += sizeof one) {
            memcpy(&one, (const char *)data + at, sizeof one);
            (void)keep(blas, &one, false);
        }
    free(data);
}

/* With what other processes have added since. */
static void save_kept(ms_device *d, struct ms_cuda_blas *blas)
{
    char   name[MS_CACHE_NAME], *data;
    size_t bytes;
    if (blas->n_new == 0) return;
    read_kept(d, blas);
    kept_name(d, blas, name);
    bytes = sizeof kept_head + blas->n_kept * sizeof *blas->kept;
    data  = malloc(bytes);
    if (data == NULL) return;
    memcpy(data, kept_head, sizeof kept_head);
    memcpy(data + sizeof kept_head, blas->kept, blas->n_kept * sizeof *blas->kept);
    ms_cache_save(name, data, bytes);
    free(data);
}

void ms_cuda_blas_free(ms_device *d)
{
    ms_cuda             *c    = ms_cuda_of(d);
    struct ms_cuda_blas *blas = c == NULL ? NULL : c->blas;
    if (blas == NULL) return;
    save_kept(d, blas);
    free(blas->kept);
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

/* The largest power of two, up to ALIGN_MOST, that divides every number of which `bits` is the
 * union. */
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
    if (k.cols == 1 && k.ld < k.rows) k.ld = k.rows; /* no one steps by it, but it is checked */
    k.align = align_of((uint64_t)(uintptr_t)x.data | (uint64_t)(uintptr_t)also |
                       (k.cols > 1 ? (uint64_t)k.ld * each : 0) | (uint64_t)k.stride * each);
    return k;
}

static key key_of(const ms_device *d, const ms_cuda_product *p)
{
    const double beta = p->c.dtype == MUSEC_F64 ? p->beta : (double)(float)p->beta;
    return (key){ .a       = operand_key_of(p->a, NULL),
                  .b       = operand_key_of(p->b, NULL),
                  .c       = operand_key_of(p->c, beta != 0.0 ? p->z.data : NULL),
                  .dtype   = p->a.dtype,
                  .c_dtype = p->c.dtype,
                  .count   = p->c.count,
                  .reads_c = beta != 0.0,
                  .timed   = !d->deterministic };
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

/* Where the plan of this key is, or is to be. */
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

static musec_status make_layout(ms_device *d, const functions *lt, const operand_key *k,
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

/* What the product is, to cuBLASLt: its first operand is b. */
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
    TRY(make_layout(d, lt, &k->a, k->dtype, k->count, &p->a));
    TRY(make_layout(d, lt, &k->b, k->dtype, k->count, &p->b));
    TRY(make_layout(d, lt, &k->c, k->c_dtype, k->count, &p->c));
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

/* Up to `most` algorithms, the most promising first; *n is 0 where there is none. */
static musec_status propose(ms_device *d, struct ms_cuda_blas *blas, const plan *p, int most,
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
        goto done; /* such sizes or layouts are beyond it */
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

/* c: that of x, or memory that stands for it, as the sum's other part too where that is x's c. */
static cublasStatus_t run(ms_device *d, struct ms_cuda_blas *blas, const plan *p,
                          const cublasLtMatmulAlgo_t *algo, const ms_cuda_product *x, void *c)
{
    const void *z     = x->z.data == x->c.data || p->key.reads_c == 0 ? c : x->z.data;
    const float alpha = (float)x->alpha, beta = (float)x->beta;
    const bool  wide = p->key.dtype == MUSEC_F64;
    return blas->lt.cublasLtMatmul(
        blas->handle, p->op, wide ? (const void *)&x->alpha : &alpha, x->b.data, p->b, x->a.data,
        p->a, wide ? (const void *)&x->beta : &beta, z, p->c, c, p->c, algo,
        ms_cuda_of(d)->workspace, MS_CUDA_WORKSPACE, ms_cuda_of(d)->stream);
}

/* Milliseconds of RUNS products into c; INFINITY where cuBLASLt refuses them after all. */
static musec_status time_one(ms_device *d, struct ms_cuda_blas *blas, const plan *p,
                             const cublasLtMatmulAlgo_t *algo, const ms_cuda_product *x, void *c,
                             float *ms)
{
    cudaStream_t stream = ms_cuda_of(d)->stream;
    musec_status st     = MUSEC_OK;
    *ms                 = INFINITY;
    if (run(d, blas, p, algo, x, c) != CUBLAS_STATUS_SUCCESS) return MUSEC_OK;
    TRY(ms_cuda_status(d, cudaEventRecord(blas->start, stream), "timing a product"));
    for (int i = 0; i < RUNS; i++)
        if (run(d, blas, p, algo, x, c) != CUBLAS_STATUS_SUCCESS) return MUSEC_OK;
    TRY(ms_cuda_status(d, cudaEventRecord(blas->stop, stream), "timing a product"));
    TRY(ms_cuda_status(d, cudaEventSynchronize(blas->stop), "timing a product"));
    TRY(ms_cuda_status(d, cudaEventElapsedTime(ms, blas->start, blas->stop), "timing a product"));
done:
    return st;
}

/* The fastest of n.  A product that reads c itself is timed on memory of the same layout, else c
 * would be added to itself again and again. */
static musec_status fastest(ms_device *d, struct ms_cuda_blas *blas, const plan *p,
                            const ms_cuda_product                 *x,
                            const cublasLtMatmulHeuristicResult_t *results, int n, int *best)
{
    const ms_mark      mark  = ms_arena_mark(&d->scratch);
    const operand_key *k     = &p->key.c;
    const int64_t      elems = (p->key.count - 1) * k->stride + (k->cols - 1) * k->ld + k->rows;
    void              *c     = x->c.data;
    float              ms = INFINITY, least = INFINITY;
    musec_status       st = MUSEC_OK;

    *best = 0;
    if (blas->start == NULL)
        TRY(ms_cuda_status(d, cudaEventCreate(&blas->start), "a clock for products"));
    if (blas->stop == NULL)
        TRY(ms_cuda_status(d, cudaEventCreate(&blas->stop), "a clock for products"));
    if (p->key.reads_c != 0 && x->z.data == x->c.data)
        TRY(ms_scratch_bytes(d, (size_t)elems * ms_dtype_bytes(x->c.dtype), &c));
    for (int i = 0; i < n; i++) {
        TRY(time_one(d, blas, p, &results[i].algo, x, c, &ms));
        if (!(ms < least)) continue;
        least = ms;
        *best = i;
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* The algorithm that was the fastest before, if the library would still take it. */
static bool recall(ms_device *d, struct ms_cuda_blas *blas, plan *p)
{
    cublasLtMatmulHeuristicResult_t result;
    const kept                     *was;
    if (!blas->kept_is_read) read_kept(d, blas);
    was = find_kept(blas, &p->key);
    if (was == NULL ||
        blas->lt.cublasLtMatmulAlgoCheck(blas->handle, p->op, p->b, p->a, p->c, p->c, &was->algo,
                                         &result) != CUBLAS_STATUS_SUCCESS ||
        result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > MS_CUDA_WORKSPACE)
        return false;
    p->algo         = was->algo;
    return p->found = true;
}

static musec_status make_plan(ms_device *d, struct ms_cuda_blas *blas, const key *k,
                              const ms_cuda_product *x, plan **out)
{
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    const int                       most = k->timed != 0 ? CANDIDATES : 1;
    plan                           *p    = calloc(1, sizeof *p);
    int                             n = 0, best = 0;
    musec_status                    st = MUSEC_OK;

    *out = NULL;
    if (p == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    p->key = *k;
    TRY(describe(d, &blas->lt, p));
    *out = p;
    if (k->timed != 0 && recall(d, blas, p)) return MUSEC_OK;
    TRY(propose(d, blas, p, most, results, &n));
    if (n > 1) TRY(fastest(d, blas, p, x, results, n, &best));
    p->found = n > 0;
    if (p->found) p->algo = results[best].algo;
    if (p->found && k->timed != 0 && keep(blas, &(kept){ *k, p->algo }, true)) blas->n_new++;
done:
    if (st != MUSEC_OK) {
        free_plan(&blas->lt, p);
        *out = NULL;
    }
    return st;
}

musec_status ms_cuda_gemm_planned(ms_device *d, const ms_cuda_product *x, bool *served)
{
    const key            k    = key_of(d, x);
    struct ms_cuda_blas *blas = NULL;
    plan               **slot = NULL;
    musec_status         st   = MUSEC_OK;

    *served = false;
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
    const cublasStatus_t code = run(d, blas, *slot, &(*slot)->algo, x, x->c.data);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED) { /* after all: nothing was done */
        (*slot)->found = false;
        return MUSEC_OK;
    }
    TRY(lt_status(d, &blas->lt, code, "gemm"));
    *served = true;
done:
    return st;
}
