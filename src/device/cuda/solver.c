/* solver.c - decompositions by cuSOLVER, float32 and float64.
 *
 * cuSOLVER is column-major.  A wide row-major x (rows <= cols) is, to it, the tall
 * x^T = V diag(s) U^T: its "U" is our row-major V^T and its "V^T" our row-major U, so nothing has
 * to be transposed.  It takes only tall matrices, as wide ones of ours are to it; of a tall x the
 * transpose is decomposed, and u and vt are exchanged.  The eigenvectors of a symmetric matrix are
 * returned as rows.
 *
 * svd is gesvd: bidiagonal form by reflections, then QR steps, whose error is of the size of the
 * rounding of the largest singular value for any matrix.  gesvdp is faster, but perturbs nearly
 * singular matrices, gesvdr and gesvda approximate, and gesvdj stops at a tolerance; operators call
 * svd where nothing else is accurate enough.  eigh is syevd, divide and conquer; stacks go to its
 * batched form in one call where the library has it (CUDA 12.6 and later).  Both give equal bits
 * for equal calls, which is cuSOLVER's default.
 *
 * These ops wait, to learn whether the iterations converged. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <cusolverDn.h>

#include "device/cuda/gemm.h"

/* ---- the library ----------------------------------------------------------------------------- */

/* type, name, arguments: as cusolverDn.h declares them, which the compiler checks below */
#define DN_FUNCTIONS(X)                                                                           \
    X(cusolverStatus_t, cusolverGetProperty, (libraryPropertyType, int *))                        \
    X(cusolverStatus_t, cusolverDnCreate, (cusolverDnHandle_t *))                                 \
    X(cusolverStatus_t, cusolverDnDestroy, (cusolverDnHandle_t))                                  \
    X(cusolverStatus_t, cusolverDnSetStream, (cusolverDnHandle_t, cudaStream_t))                  \
    X(cusolverStatus_t, cusolverDnCreateParams, (cusolverDnParams_t *))                           \
    X(cusolverStatus_t, cusolverDnDestroyParams, (cusolverDnParams_t))                            \
    X(cusolverStatus_t, cusolverDnXsyevd_bufferSize,                                              \
      (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t,      \
       cudaDataType, const void *, int64_t, cudaDataType, const void *, cudaDataType, size_t *,   \
       size_t *))                                                                                 \
    X(cusolverStatus_t, cusolverDnXsyevd,                                                         \
      (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t,      \
       cudaDataType, void *, int64_t, cudaDataType, void *, cudaDataType, void *, size_t, void *, \
       size_t, int *))                                                                            \
    X(cusolverStatus_t, cusolverDnXgesvd_bufferSize,                                              \
      (cusolverDnHandle_t, cusolverDnParams_t, signed char, signed char, int64_t, int64_t,        \
       cudaDataType, const void *, int64_t, cudaDataType, const void *, cudaDataType,             \
       const void *, int64_t, cudaDataType, const void *, int64_t, cudaDataType, size_t *,        \
       size_t *))                                                                                 \
    X(cusolverStatus_t, cusolverDnXgesvd,                                                         \
      (cusolverDnHandle_t, cusolverDnParams_t, signed char, signed char, int64_t, int64_t,        \
       cudaDataType, void *, int64_t, cudaDataType, void *, cudaDataType, void *, int64_t,        \
       cudaDataType, void *, int64_t, cudaDataType, void *, size_t, void *, size_t, int *))

/* Older libraries and their headers lack these, so the compiler does not check them. */
#define DN_BATCHED(X)                                                                             \
    X(cusolverStatus_t, cusolverDnXsyevBatched_bufferSize,                                        \
      (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t,      \
       cudaDataType, const void *, int64_t, cudaDataType, const void *, cudaDataType, size_t *,   \
       size_t *, int64_t))                                                                        \
    X(cusolverStatus_t, cusolverDnXsyevBatched,                                                   \
      (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t,      \
       cudaDataType, void *, int64_t, cudaDataType, void *, cudaDataType, void *, size_t, void *, \
       size_t, int *, int64_t))

typedef struct functions {
#define X(type, name, args) type(*name) args;
    DN_FUNCTIONS(X)
    DN_BATCHED(X)
#undef X
} functions;

#define X(type, name, args) \
    _Static_assert(_Generic(name, type(*) args : 1, default : 0), "not as declared: " #name);
DN_FUNCTIONS(X)
#undef X

static const char *const library_names[] = { "libcusolver.so.12", "libcusolver.so.11",
                                             "libcusolver.so", NULL };

struct ms_cuda_solver {
    functions          dn;
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    bool               has_batched;
    void              *workspace; /* device memory for cuSOLVER: megabytes for any size */
    size_t             workspace_bytes;
};

static const char *message_of(cusolverStatus_t code)
{
    switch (code) {
    case CUSOLVER_STATUS_NOT_INITIALIZED: return "it is not initialised";
    case CUSOLVER_STATUS_ALLOC_FAILED: return "an allocation failed";
    case CUSOLVER_STATUS_INVALID_VALUE: return "such sizes are beyond it";
    case CUSOLVER_STATUS_ARCH_MISMATCH: return "it does not know this chip";
    case CUSOLVER_STATUS_EXECUTION_FAILED: return "its kernels failed (NaN in the matrix?)";
    case CUSOLVER_STATUS_NOT_SUPPORTED: return "such operands are beyond it";
    default: return "an internal error";
    }
}

static musec_status dn_status(ms_device *d, cusolverStatus_t code, const char *what)
{
    const bool beyond =
        code == CUSOLVER_STATUS_INVALID_VALUE || code == CUSOLVER_STATUS_NOT_SUPPORTED;
    char said[64];
    if (code == CUSOLVER_STATUS_SUCCESS) return MUSEC_OK;
    snprintf(said, sizeof said, "%s (status %d)", message_of(code), (int)code);
    if (beyond)
        return ms_fail(&d->error, MUSEC_EDEVICE, "%s: cuSOLVER: %s: %s", d->name, what, said);
    return ms_cuda_library_status(d, code == CUSOLVER_STATUS_ALLOC_FAILED, "cuSOLVER", what, said);
}

static musec_status open_library(ms_device *d, struct ms_cuda_solver *s)
{
    void                *library = NULL, *again = NULL;
    ms_error             why;
    const ms_cuda_symbol symbols[] = {
#define X(type, name, args) { #name, (void **)&s->dn.name },
        DN_FUNCTIONS(X)
    };
    const ms_cuda_symbol batched[] = {
        DN_BATCHED(X)
#undef X
    };
    musec_status st = ms_cuda_library_open(&d->error, "decompositions on GPUs", library_names,
                                           symbols, COUNT(symbols), &library);
    if (st != MUSEC_OK) return st;
    st = ms_cuda_library_open(&why, "stacks", library_names, batched, COUNT(batched), &again);
    s->has_batched = st == MUSEC_OK;
    return st == MUSEC_ENOMEM ? ms_fail(&d->error, st, "%s", why.text) : MUSEC_OK;
}

static void free_solver(struct ms_cuda_solver *s)
{
    if (s == NULL) return;
    if (s->params != NULL) (void)s->dn.cusolverDnDestroyParams(s->params);
    if (s->handle != NULL) (void)s->dn.cusolverDnDestroy(s->handle);
    free(s);
}

/* The library itself stays open until the program ends, since opening it and loading its kernels
 * takes long. */
static musec_status solver_of(ms_device *d, struct ms_cuda_solver **out)
{
    ms_cuda               *c  = ms_cuda_of(d);
    struct ms_cuda_solver *s  = NULL;
    musec_status           st = MUSEC_OK;

    *out = c->solver;
    if (c->solver != NULL) return MUSEC_OK;
    s = calloc(1, sizeof *s);
    if (s == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    TRY(open_library(d, s));
    TRY(dn_status(d, s->dn.cusolverDnCreate(&s->handle), "starting"));
    TRY(dn_status(d, s->dn.cusolverDnSetStream(s->handle, c->stream), "starting"));
    TRY(dn_status(d, s->dn.cusolverDnCreateParams(&s->params), "starting"));
    *out = c->solver = s;
done:
    if (st != MUSEC_OK) free_solver(s);
    return st;
}

musec_status ms_cuda_solver_follow(ms_device *d)
{
    const ms_cuda               *c = ms_cuda_of(d);
    const struct ms_cuda_solver *s = c->solver;
    if (s == NULL) return MUSEC_OK;
    return dn_status(d, s->dn.cusolverDnSetStream(s->handle, c->stream), "changing the stream");
}

void ms_cuda_solver_free(ms_device *d)
{
    ms_cuda *c = ms_cuda_of(d);
    if (c == NULL) return;
    if (c->solver != NULL) d->ops->free(d, c->solver->workspace);
    free_solver(c->solver);
    c->solver = NULL;
}

void ms_cuda_solver_describe(ms_device *d, char *text, size_t bytes)
{
    struct ms_cuda_solver *s;
    int                    major = 0, minor = 0, patch = 0;
    if (solver_of(d, &s) != MUSEC_OK) {
        snprintf(text, bytes, "%s", d->error.text);
        return;
    }
    (void)s->dn.cusolverGetProperty(MAJOR_VERSION, &major);
    (void)s->dn.cusolverGetProperty(MINOR_VERSION, &minor);
    (void)s->dn.cusolverGetProperty(PATCH_LEVEL, &patch);
    snprintf(text, bytes, "cuSOLVER %d.%d.%d", major, minor, patch);
}

/* ---- workspace and checks -------------------------------------------------------------------- */

typedef struct workspace {
    void  *device, *host;
    size_t device_bytes, host_bytes;
    int   *info; /* (count) on the device: 0 where all went well */
} workspace;

/* Growing waits for queued work, as decompositions do anyway. */
static musec_status grow_workspace(ms_device *d, size_t bytes)
{
    struct ms_cuda_solver *s  = ms_cuda_of(d)->solver;
    musec_status           st = MUSEC_OK;
    if (bytes <= s->workspace_bytes) return MUSEC_OK;
    TRY(d->ops->sync(d));
    d->ops->free(d, s->workspace);
    s->workspace       = NULL;
    s->workspace_bytes = 0;
    TRY(d->ops->alloc(d, bytes, &s->workspace));
    s->workspace_bytes = bytes;
done:
    return st;
}

static musec_status take_workspace(ms_device *d, int64_t count, workspace *w)
{
    const size_t bytes = (size_t)count * sizeof(int);
    void        *info  = NULL;
    musec_status st    = MUSEC_OK;
    TRY(grow_workspace(d, w->device_bytes));
    w->device = ms_cuda_of(d)->solver->workspace;
    TRY(ms_scratch_bytes(d, bytes, &info));
    TRY(ms_cuda_status(d, cudaMemsetAsync(info, 0, bytes, ms_cuda_of(d)->stream), "workspace"));
    w->info = info;
    w->host = malloc(w->host_bytes > 0 ? w->host_bytes : 1);
    if (w->host == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory"));
done:
    return st;
}

/* Waits, and checks that all converged. */
static musec_status check_info(ms_device *d, const char *what, ms_mat x, const workspace *w)
{
    const size_t bytes = (size_t)x.count * sizeof(int);
    int         *info  = malloc(bytes);
    musec_status st    = MUSEC_OK;
    if (info == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    TRY(d->ops->download(d, w->info, bytes, info));
    for (int64_t b = 0; b < x.count; b++)
        if (info[b] != 0)
            TRY(ms_fail(&d->error, MUSEC_EDEVICE, "%s: %s of %lld x %lld did not converge (%d)",
                        d->name, what, (long long)x.rows, (long long)x.cols, info[b]));
done:
    free(info);
    return st;
}

static musec_status check_dtype(ms_device *d, const char *what, ms_mat x)
{
    if (x.dtype == MUSEC_F32 || x.dtype == MUSEC_F64) return MUSEC_OK;
    return ms_fail(&d->error, MUSEC_ENOTSUP, "%s: %s is of float32 or float64, not of %s", d->name,
                   what, ms_dtype_name(x.dtype));
}

static cudaDataType type_of(musec_dtype dtype)
{
    return dtype == MUSEC_F32 ? CUDA_R_32F : CUDA_R_64F;
}

static void *matrix_at(ms_mat x, int64_t b)
{
    if (x.data == NULL) return NULL;
    return (char *)x.data + (size_t)(b * x.stride) * ms_dtype_bytes(x.dtype);
}

/* ---- singular values ------------------------------------------------------------------------- */

/* *out <- memory for row-major vectors: x itself if its layout allows, else scratch of its
 * shape. */
static musec_status place_for(ms_device *d, ms_mat x, ms_mat *out)
{
    const uint64_t each = ms_dtype_bytes(x.dtype);
    const uint64_t bits = (uint64_t)(uintptr_t)x.data | (uint64_t)x.ld * each |
                          (x.count > 1 ? (uint64_t)x.stride * each : 0);
    *out = x;
    if (x.data == NULL || (!x.trans && bits % 16 == 0)) return MUSEC_OK;
    return ms_scratch_mat(d, x.dtype, x.count, x.rows, x.cols, out);
}

static musec_status copy_out(ms_device *d, ms_mat from, ms_mat to)
{
    return from.data == to.data ? MUSEC_OK : d->ops->copy(d, from, to);
}

/* Decomposes x, wide and dense, which is destroyed.  left (rows x rows) and right (rows x cols) are
 * row-major, or have no data. */
static musec_status gesvd(ms_device *d, ms_mat x, ms_mat left, ms_mat values, ms_mat right)
{
    const cudaDataType     t   = type_of(x.dtype);
    const signed char      job = left.data == NULL ? 'N' : 'S';
    const int64_t          m = x.cols, n = x.rows; /* as cuSOLVER sees it */
    const int64_t          ld_u = job == 'S' ? right.ld : m, ld_vt = job == 'S' ? left.ld : n;
    struct ms_cuda_solver *s  = NULL;
    workspace              w  = { 0 };
    musec_status           st = MUSEC_OK;

    TRY(solver_of(d, &s));
    TRY(dn_status(d,
                  s->dn.cusolverDnXgesvd_bufferSize(
                      s->handle, s->params, job, job, m, n, t, x.data, x.ld, t, values.data, t,
                      right.data, ld_u, t, left.data, ld_vt, t, &w.device_bytes, &w.host_bytes),
                  "svd"));
    TRY(take_workspace(d, x.count, &w));
    for (int64_t b = 0; b < x.count; b++)
        TRY(dn_status(d,
                      s->dn.cusolverDnXgesvd(
                          s->handle, s->params, job, job, m, n, t, matrix_at(x, b), x.ld, t,
                          matrix_at(values, b), t, matrix_at(right, b), ld_u, t, matrix_at(left, b),
                          ld_vt, t, w.device, w.device_bytes, w.host, w.host_bytes, w.info + b),
                      "svd"));
    TRY(check_info(d, "svd", x, &w));
done:
    free(w.host);
    return st;
}

static musec_status cuda_svd(ms_device *d, ms_mat x, ms_mat u, ms_mat s, ms_mat vt)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const bool    tall = x.rows > x.cols;
    const ms_mat  wide = tall ? ms_t(x) : x;
    const ms_mat  left = tall ? ms_t(vt) : u, right = tall ? ms_t(u) : vt;
    ms_mat        dense, values, by_left, by_right;
    musec_status  st = MUSEC_OK;

    TRY(check_dtype(d, "svd", x));
    if (x.count == 0 || wide.rows == 0) goto done;
    TRY(ms_scratch_mat(d, x.dtype, x.count, wide.rows, wide.cols, &dense));
    TRY(ms_scratch_mat(d, x.dtype, x.count, 1, wide.rows, &values));
    TRY(place_for(d, left, &by_left));
    TRY(place_for(d, right, &by_right));
    TRY(d->ops->copy(d, wide, dense));
    TRY(gesvd(d, dense, by_left, values, by_right));
    TRY(copy_out(d, values, s));
    TRY(copy_out(d, by_left, left));
    TRY(copy_out(d, by_right, right));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

/* Decomposes the matrices one after another; a is overwritten by the eigenvectors. */
static musec_status syevd(ms_device *d, cusolverEigMode_t job, ms_mat a, ms_mat values)
{
    const cudaDataType     t  = type_of(a.dtype);
    struct ms_cuda_solver *s  = ms_cuda_of(d)->solver;
    workspace              w  = { 0 };
    musec_status           st = MUSEC_OK;

    TRY(dn_status(d,
                  s->dn.cusolverDnXsyevd_bufferSize(
                      s->handle, s->params, job, CUBLAS_FILL_MODE_UPPER, a.rows, t, a.data, a.ld, t,
                      values.data, t, &w.device_bytes, &w.host_bytes),
                  "eigh"));
    TRY(take_workspace(d, a.count, &w));
    for (int64_t b = 0; b < a.count; b++)
        TRY(dn_status(d,
                      s->dn.cusolverDnXsyevd(s->handle, s->params, job, CUBLAS_FILL_MODE_UPPER,
                                             a.rows, t, matrix_at(a, b), a.ld, t,
                                             matrix_at(values, b), t, w.device, w.device_bytes,
                                             w.host, w.host_bytes, w.info + b),
                      "eigh"));
    TRY(check_info(d, "eigh", a, &w));
done:
    free(w.host);
    return st;
}

/* Decomposes all matrices in one call; they and their eigenvalues are stored without gaps. */
static musec_status syev_batched(ms_device *d, cusolverEigMode_t job, ms_mat a, ms_mat values)
{
    const cudaDataType     t  = type_of(a.dtype);
    struct ms_cuda_solver *s  = ms_cuda_of(d)->solver;
    workspace              w  = { 0 };
    musec_status           st = MUSEC_OK;

    const cusolverStatus_t code = s->dn.cusolverDnXsyevBatched_bufferSize(
        s->handle, s->params, job, CUBLAS_FILL_MODE_UPPER, a.rows, t, a.data, a.ld, t, values.data,
        t, &w.device_bytes, &w.host_bytes, a.count);
    if (code == CUSOLVER_STATUS_INVALID_VALUE || code == CUSOLVER_STATUS_NOT_SUPPORTED)
        return syevd(d, job, a, values); /* too many or too large for it */
    TRY(dn_status(d, code, "eigh of a stack"));
    TRY(take_workspace(d, a.count, &w));
    TRY(dn_status(d,
                  s->dn.cusolverDnXsyevBatched(s->handle, s->params, job, CUBLAS_FILL_MODE_UPPER,
                                               a.rows, t, a.data, a.ld, t, values.data, t, w.device,
                                               w.device_bytes, w.host, w.host_bytes, w.info,
                                               a.count),
                  "eigh of a stack"));
    TRY(check_info(d, "eigh", a, &w));
done:
    free(w.host);
    return st;
}

/* *out <- scratch without the gaps that ms_scratch_mat leaves between matrices. */
static musec_status scratch_tight(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows,
                                  int64_t cols, ms_mat *out)
{
    *out = (ms_mat){ .rows   = rows,
                     .cols   = cols,
                     .ld     = cols,
                     .count  = count,
                     .stride = rows * cols,
                     .dtype  = dtype };
    return ms_scratch_bytes(d, (size_t)(count * rows * cols) * ms_dtype_bytes(dtype), &out->data);
}

static musec_status eigh_some(ms_device *d, bool batched, ms_mat a, ms_mat w, ms_mat v)
{
    const ms_mark           mark = ms_arena_mark(&d->scratch);
    const cusolverEigMode_t job =
        v.data == NULL ? CUSOLVER_EIG_MODE_NOVECTOR : CUSOLVER_EIG_MODE_VECTOR;
    ms_mat       dense, values;
    musec_status st = MUSEC_OK;

    if (batched) {
        TRY(scratch_tight(d, a.dtype, a.count, a.rows, a.rows, &dense));
        TRY(scratch_tight(d, a.dtype, a.count, 1, a.rows, &values));
    } else {
        TRY(ms_scratch_mat(d, a.dtype, a.count, a.rows, a.rows, &dense));
        TRY(ms_scratch_mat(d, a.dtype, a.count, 1, a.rows, &values));
    }
    TRY(d->ops->copy(d, a, dense));
    /* the upper triangle may hold NaN, and cuSOLVER multiplies even unused elements by 0 */
    TRY(ms_cuda_mirror(d, dense));
    TRY(batched ? syev_batched(d, job, dense, values) : syevd(d, job, dense, values));
    TRY(d->ops->copy(d, values, w));
    if (v.data != NULL) TRY(d->ops->copy(d, ms_t(dense), v)); /* eigenvectors lie in rows */
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status cuda_eigh(ms_device *d, ms_mat a, ms_mat w, ms_mat v)
{
    struct ms_cuda_solver *s    = NULL;
    int64_t                most = 0; /* matrices of a batch, which is indexed by int */
    musec_status           st   = MUSEC_OK;

    TRY(check_dtype(d, "eigh", a));
    if (a.count == 0 || a.rows == 0) return MUSEC_OK;
    TRY(solver_of(d, &s));
    if (a.rows < INT_MAX / a.rows)
        most = INT_MAX / (a.rows * a.rows * (int64_t)ms_dtype_bytes(a.dtype));
    if (!s->has_batched || most < 2 || a.count == 1) return eigh_some(d, false, a, w, v);
    for (int64_t first = 0; first < a.count; first += most) {
        const int64_t left = a.count - first, n = left < most ? left : most;
        TRY(eigh_some(d, true, ms_mat_slice(a, first, n), ms_mat_slice(w, first, n),
                      v.data == NULL ? v : ms_mat_slice(v, first, n)));
    }
done:
    return st;
}

void ms_cuda_solver_ops(ms_device_ops *table)
{
    table->svd  = cuda_svd;
    table->eigh = cuda_eigh;
}
