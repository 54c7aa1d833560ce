/* lapack.c - decompositions on the CPU: LAPACK by divide and conquer, one matrix per thread.
 *
 * LAPACK is column-major.  A row-major X is, to it, X^T = V diag(s) U^T: its "U" is our V^T by rows
 * and its "V^T" our U by rows, so nothing has to be transposed.  Our lower triangle of a symmetric
 * matrix is its upper one, and its eigenvectors are rows to us. */
#include "device/cpu/cpu.h"

#include <lapacke.h>
#include <limits.h>
#include <stdatomic.h>

typedef struct workspace {
    void       *work;
    lapack_int *iwork;
    lapack_int  lwork, liwork;
} workspace;

/* One workspace per lane.  Lane l decomposes the matrices l, l + lanes, ... */
typedef struct workspaces {
    workspace first;
    size_t    work_bytes, iwork_bytes;
    int64_t   lanes;
} workspaces;

static workspace of_lane(const workspaces *all, int64_t lane)
{
    workspace w = all->first;
    w.work      = (char *)w.work + (size_t)lane * all->work_bytes;
    w.iwork     = (lapack_int *)(void *)((char *)w.iwork + (size_t)lane * all->iwork_bytes);
    return w;
}

/* Some kernels sum in another order where the alignment of their operands differs. */
static size_t aligned(size_t bytes)
{
    return (bytes + MS_ARENA_ALIGN - 1) / MS_ARENA_ALIGN * MS_ARENA_ALIGN;
}

static musec_status take_workspaces(ms_device *d, musec_dtype dtype, int64_t count,
                                    lapack_int lwork, lapack_int liwork, workspaces *out)
{
    musec_status st    = MUSEC_OK;
    void        *iwork = NULL;
    out->lanes         = ms_cpu_threads(d) < count ? ms_cpu_threads(d) : count;
    out->work_bytes    = aligned((size_t)lwork * ms_dtype_bytes(dtype));
    out->iwork_bytes   = aligned((size_t)liwork * sizeof(lapack_int));
    out->first         = (workspace){ .lwork = lwork, .liwork = liwork };
    TRY(ms_scratch_bytes(d, out->work_bytes * (size_t)out->lanes, &out->first.work));
    TRY(ms_scratch_bytes(d, out->iwork_bytes * (size_t)out->lanes, &iwork));
    out->first.iwork = iwork;
done:
    return st;
}

static void *matrix_at(ms_mat x, int64_t b)
{
    if (x.data == NULL) return NULL;
    return (char *)x.data + (size_t)(b * x.stride) * ms_dtype_bytes(x.dtype);
}

static lapack_int ld_of(ms_mat x) { return x.data == NULL ? 1 : (lapack_int)x.ld; }

static musec_status check_int(ms_device *d, const char *what, ms_mat x)
{
    /* the size of gesdd's workspace, about 4 k^2 + 7 k elements, must also be an int */
    const int64_t k = x.rows < x.cols ? x.rows : x.cols;
    if (x.rows > INT_MAX || x.cols > INT_MAX || k > 20000)
        return ms_fail(&d->error, MUSEC_ENOTSUP, "%s: %lld x %lld is larger than LAPACK can index",
                       what, (long long)x.rows, (long long)x.cols);
    return MUSEC_OK;
}

/* The size of a workspace from LAPACK's answer. */
static lapack_int workspace_size(musec_dtype dtype, const void *answer)
{
    /* float32 rounds large sizes, possibly down: take the next number up */
    return dtype == MUSEC_F32 ? (lapack_int)(*(const float *)answer * 1.000001f) + 1
                              : (lapack_int) * (const double *)answer + 1;
}

/* A decomposition of every matrix of a stack. */
typedef struct call call;
struct call {
    char       job;
    ms_mat     dense, values, u, vt; /* data NULL: not wanted, or part of dense */
    workspaces all;
    atomic_int failed;
    lapack_int (*decompose)(const call *c, int64_t b, workspace w);
};

static void lane_task(void *arg, int64_t lane, int thread)
{
    call *c = arg;
    (void)thread;
    for (int64_t b = lane; b < c->dense.count; b += c->all.lanes)
        if (c->decompose(c, b, of_lane(&c->all, lane)) != 0) atomic_store(&c->failed, 1);
}

/* Returns whether all decompositions converged. */
static bool decompose_all(ms_device *d, call *c)
{
    ms_cpu_run_blas(d, c->all.lanes, lane_task, c);
    return c->failed == 0;
}

/* ---- singular values ------------------------------------------------------------------------- */

/* One thin SVD of the dense matrix b, which it destroys. */
static lapack_int gesdd(const call *c, int64_t b, workspace w)
{
    const lapack_int m = (lapack_int)c->dense.cols, n = (lapack_int)c->dense.rows; /* LAPACK's */
    const lapack_int ldu = ld_of(c->u), ldvt = ld_of(c->vt);
    void            *x = matrix_at(c->dense, b), *s = matrix_at(c->values, b);
    void            *u = matrix_at(c->u, b), *vt = matrix_at(c->vt, b);
    if (c->dense.dtype == MUSEC_F32)
        return LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, c->job, m, n, x, m, s, vt, ldvt, u, ldu,
                                   w.work, w.lwork, w.iwork);
    return LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, c->job, m, n, x, m, s, vt, ldvt, u, ldu, w.work,
                               w.lwork, w.iwork);
}

static musec_status cpu_svd(ms_device *d, ms_mat x, ms_mat u, ms_mat s, ms_mat vt)
{
    const ms_mark mark   = ms_arena_mark(&d->scratch);
    const int64_t k      = x.rows < x.cols ? x.rows : x.cols;
    call          c      = { .values = s, .u = u, .vt = vt, .decompose = gesdd };
    double        answer = 0.0;
    lapack_int    unused = 0;
    musec_status  st     = MUSEC_OK;

    c.job = u.data == NULL ? 'N' : 'S';
    TRY(check_int(d, "svd", x));
    TRY(ms_scratch_mat(d, x.dtype, x.count, x.rows, x.cols, &c.dense));
    TRY(d->ops->copy(d, x, c.dense));
    /* LAPACK writes rows, so a transposed output is a copy of what it writes. */
    if (u.trans) TRY(ms_scratch_mat(d, x.dtype, x.count, u.rows, u.cols, &c.u));
    if (vt.trans) TRY(ms_scratch_mat(d, x.dtype, x.count, vt.rows, vt.cols, &c.vt));
    if (gesdd(&c, 0, (workspace){ .work = &answer, .lwork = -1, .iwork = &unused }) != 0)
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "svd: LAPACK refuses %lld x %lld", (long long)x.rows,
                    (long long)x.cols));
    TRY(take_workspaces(d, x.dtype, x.count, workspace_size(x.dtype, &answer), (lapack_int)(8 * k),
                        &c.all));
    if (!decompose_all(d, &c))
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "svd of %lld x %lld did not converge",
                    (long long)x.rows, (long long)x.cols));
    if (u.trans) TRY(d->ops->copy(d, c.u, u));
    if (vt.trans) TRY(d->ops->copy(d, c.vt, vt));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

/* The eigenvectors, if wanted, replace the dense matrix b. */
static lapack_int syevd(const call *c, int64_t b, workspace w)
{
    const lapack_int n = (lapack_int)c->dense.rows;
    void            *a = matrix_at(c->dense, b), *values = matrix_at(c->values, b);
    if (c->dense.dtype == MUSEC_F32)
        return LAPACKE_ssyevd_work(LAPACK_COL_MAJOR, c->job, 'U', n, a, n, values, w.work, w.lwork,
                                   w.iwork, w.liwork);
    return LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, c->job, 'U', n, a, n, values, w.work, w.lwork,
                               w.iwork, w.liwork);
}

static musec_status cpu_eigh(ms_device *d, ms_mat a, ms_mat w, ms_mat v)
{
    const ms_mark mark    = ms_arena_mark(&d->scratch);
    call          c       = { .values = w, .decompose = syevd };
    double        answer  = 0.0;
    lapack_int    ianswer = 0;
    musec_status  st      = MUSEC_OK;

    c.job = v.data == NULL ? 'N' : 'V';
    TRY(check_int(d, "eigh", a));
    TRY(ms_scratch_mat(d, a.dtype, a.count, a.rows, a.cols, &c.dense));
    TRY(d->ops->copy(d, a, c.dense));
    if (syevd(&c, 0,
              (workspace){ .work = &answer, .lwork = -1, .iwork = &ianswer, .liwork = -1 }) != 0)
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "eigh: LAPACK refuses %lld rows", (long long)a.rows));
    TRY(take_workspaces(d, a.dtype, a.count, workspace_size(a.dtype, &answer), ianswer, &c.all));
    if (!decompose_all(d, &c))
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "eigh of %lld rows did not converge",
                    (long long)a.rows));
    if (v.data != NULL) TRY(d->ops->copy(d, ms_t(c.dense), v)); /* eigenvectors are its rows */
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

void ms_cpu_lapack_ops(ms_device_ops *table)
{
    table->svd  = cpu_svd;
    table->eigh = cpu_eigh;
}
