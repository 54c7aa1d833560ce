/* lapack.c - decompositions on the CPU: LAPACK by divide and conquer, one matrix per thread.
 *
 * LAPACK counts by columns.  A row-major X is, to it, X^T = V diag(s) U^T: its "U" is our V^T by
 * rows and its "V^T" our U by rows, so nothing has to be transposed.  Of a symmetric matrix our
 * lower triangle is its upper one, and its eigenvectors come out as rows. */
#include "device/cpu/cpu.h"

#include <lapacke.h>
#include <limits.h>
#include <stdatomic.h>

/* What one thread works with. */
typedef struct workspace {
    void       *work;
    lapack_int *iwork;
    lapack_int  lwork, liwork;
} workspace;

/* One workspace per lane.  Lane l takes the matrices l, l + lanes, ... */
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

/* Some kernels sum in another order where their operands begin at another alignment. */
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

static void *row_at(ms_mat x, int64_t b)
{
    if (x.data == NULL) return NULL;
    return (char *)x.data + (size_t)(b * x.stride) * ms_dtype_bytes(x.dtype);
}

static lapack_int ld_of(ms_mat x) { return x.data == NULL ? 1 : (lapack_int)x.ld; }

static musec_status check_int(ms_device *d, const char *what, ms_mat x)
{
    /* gesdd's workspace is about 4 k^2 + 7 k elements and must be counted in an int, too */
    const int64_t k = x.rows < x.cols ? x.rows : x.cols;
    if (x.rows > INT_MAX || x.cols > INT_MAX || k > 20000)
        return ms_fail(&d->error, MUSEC_ENOTSUP, "%s: %lld x %lld is larger than LAPACK can index",
                       what, (long long)x.rows, (long long)x.cols);
    return MUSEC_OK;
}

/* ---- singular values ------------------------------------------------------------------------- */

/* One thin SVD of the dense rows x cols matrix at `x`, which it destroys. */
static lapack_int gesdd(ms_mat shape, char job, void *x, void *u, lapack_int ldu, void *s, void *vt,
                        lapack_int ldvt, workspace w)
{
    const lapack_int m = (lapack_int)shape.cols, n = (lapack_int)shape.rows; /* as LAPACK sees it */
    if (shape.dtype == MUSEC_F32)
        return LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, job, m, n, x, m, s, vt, ldvt, u, ldu, w.work,
                                   w.lwork, w.iwork);
    return LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, m, n, x, m, s, vt, ldvt, u, ldu, w.work,
                               w.lwork, w.iwork);
}

static lapack_int wanted(musec_dtype dtype, const void *answer)
{
    /* float32 rounds large sizes, possibly down: take the next number up */
    return dtype == MUSEC_F32 ? (lapack_int)(*(const float *)answer * 1.000001f) + 1
                              : (lapack_int) * (const double *)answer + 1;
}

typedef struct svd_call {
    char       job;
    ms_mat     dense, u, s, vt;
    workspaces all;
    atomic_int failed;
} svd_call;

static void svd_lane(void *arg, int64_t lane, int thread)
{
    svd_call *c = arg;
    (void)thread;
    for (int64_t b = lane; b < c->dense.count; b += c->all.lanes)
        if (gesdd(c->dense, c->job, row_at(c->dense, b), row_at(c->u, b), ld_of(c->u),
                  row_at(c->s, b), row_at(c->vt, b), ld_of(c->vt), of_lane(&c->all, lane)) != 0)
            atomic_store(&c->failed, 1);
}

static musec_status cpu_svd(ms_device *d, ms_mat x, ms_mat u_out, ms_mat s, ms_mat vt_out)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_mat u = u_out, vt = vt_out; /* LAPACK writes them by rows, so not where they are turned */
    const int64_t k      = x.rows < x.cols ? x.rows : x.cols;
    const char    job    = u.data == NULL ? 'N' : 'S';
    double        answer = 0.0;
    workspaces    all;
    ms_mat        dense;
    lapack_int    unused = 0;
    musec_status  st     = MUSEC_OK;

    TRY(check_int(d, "svd", x));
    TRY(ms_scratch_mat(d, x.dtype, x.count, x.rows, x.cols, &dense));
    TRY(d->ops->copy(d, x, dense));
    if (u_out.trans) TRY(ms_scratch_mat(d, x.dtype, x.count, u.rows, u.cols, &u));
    if (vt_out.trans) TRY(ms_scratch_mat(d, x.dtype, x.count, vt.rows, vt.cols, &vt));
    if (gesdd(dense, job, dense.data, u.data, ld_of(u), s.data, vt.data, ld_of(vt),
              (workspace){ .work = &answer, .lwork = -1, .iwork = &unused }) != 0)
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "svd: LAPACK refuses %lld x %lld", (long long)x.rows,
                    (long long)x.cols));
    TRY(take_workspaces(d, x.dtype, x.count, wanted(x.dtype, &answer), (lapack_int)(8 * k), &all));

    svd_call call = { .job = job, .dense = dense, .u = u, .s = s, .vt = vt, .all = all };
    ms_cpu_run_blas(d, all.lanes, svd_lane, &call);
    if (call.failed != 0)
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "svd of %lld x %lld did not converge",
                    (long long)x.rows, (long long)x.cols));
    if (u_out.trans) TRY(d->ops->copy(d, u, u_out));
    if (vt_out.trans) TRY(d->ops->copy(d, vt, vt_out));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

static lapack_int syevd(musec_dtype dtype, char job, lapack_int n, void *a, void *w_out,
                        workspace w)
{
    if (dtype == MUSEC_F32)
        return LAPACKE_ssyevd_work(LAPACK_COL_MAJOR, job, 'U', n, a, n, w_out, w.work, w.lwork,
                                   w.iwork, w.liwork);
    return LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, job, 'U', n, a, n, w_out, w.work, w.lwork, w.iwork,
                               w.liwork);
}

typedef struct eigh_call {
    char       job;
    ms_mat     dense, w;
    workspaces all;
    atomic_int failed;
} eigh_call;

static void eigh_lane(void *arg, int64_t lane, int thread)
{
    eigh_call *c = arg;
    (void)thread;
    for (int64_t b = lane; b < c->dense.count; b += c->all.lanes)
        if (syevd(c->dense.dtype, c->job, (lapack_int)c->dense.rows, row_at(c->dense, b),
                  row_at(c->w, b), of_lane(&c->all, lane)) != 0)
            atomic_store(&c->failed, 1);
}

static musec_status cpu_eigh(ms_device *d, ms_mat a, ms_mat w, ms_mat v)
{
    const ms_mark    mark    = ms_arena_mark(&d->scratch);
    const char       job     = v.data == NULL ? 'N' : 'V';
    const lapack_int n       = (lapack_int)a.rows;
    double           answer  = 0.0;
    lapack_int       ianswer = 0;
    workspaces       all;
    ms_mat           dense;
    musec_status     st = MUSEC_OK;

    TRY(check_int(d, "eigh", a));
    TRY(ms_scratch_mat(d, a.dtype, a.count, a.rows, a.cols, &dense));
    TRY(d->ops->copy(d, a, dense));
    if (syevd(a.dtype, job, n, dense.data, w.data,
              (workspace){ .work = &answer, .lwork = -1, .iwork = &ianswer, .liwork = -1 }) != 0)
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "eigh: LAPACK refuses %lld rows", (long long)a.rows));
    TRY(take_workspaces(d, a.dtype, a.count, wanted(a.dtype, &answer), ianswer, &all));

    eigh_call call = { .job = job, .dense = dense, .w = w, .all = all };
    ms_cpu_run_blas(d, all.lanes, eigh_lane, &call);
    if (call.failed != 0)
        TRY(ms_fail(&d->error, MUSEC_EDEVICE, "eigh of %lld rows did not converge",
                    (long long)a.rows));
    if (v.data != NULL) TRY(d->ops->copy(d, ms_t(dense), v)); /* eigenvectors lie in rows */
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

void ms_cpu_lapack_ops(ms_device_ops *table)
{
    table->svd  = cpu_svd;
    table->eigh = cpu_eigh;
}
