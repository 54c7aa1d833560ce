/* spectrum.c - singular values and what is read off them.
 *
 * Exact values: float64 data by SVD.  float32 data by the eigenvalues of the Gram matrix formed in
 * float64, whose error, 1e-8 s_1, is below that of the data themselves.
 *
 * Estimate of the largest: Lanczos on X X^T with full reorthogonalisation.  After k steps the
 * largest eigenvalue of the k x k tridiagonal matrix is the maximum of the Rayleigh quotient over
 * the Krylov space, hence never above lambda_1; for a start vector uniform on the sphere its
 * expected relative error is at most 0.103 (ln(r (k-1)^4) / (k-1))^2, whatever the gaps (Kuczynski
 * and Wozniakowski, SIAM J. Matrix Anal. Appl. 13, 1992). */
#include <math.h>
#include <stdlib.h>

#include "core/rng.h"
#include "linalg/linalg.h"

/* ---- exact values ---------------------------------------------------------------------------- */

static musec_status values_f64(ms_device *d, ms_mat x, ms_mat values)
{
    const ms_mat none = { 0 };
    return d->ops->svd(d, x, none, values, none);
}

static musec_status values_f32(ms_device *d, ms_mat x, ms_mat values)
{
    const ms_device_ops *op = d->ops;
    ms_mat               wide, a;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_mat(d, MUSEC_F64, x.count, x.rows, x.cols, &wide));
    TRY(ms_scratch_mat(d, MUSEC_F64, x.count, x.rows, x.rows, &a));
    TRY(op->copy(d, x, wide));
    TRY(ms_gram(d, wide, a));
    TRY(op->eigh(d, a, values, (ms_mat){ 0 }));
done:
    return st;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

musec_status ms_singular_values(ms_device *d, ms_mat x, double *values)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_prepared   p;
    ms_mat        found;
    musec_status  st = MUSEC_OK;

    TRY(ms_prepare(d, x, ms_const(0.0), x.dtype, &p));
    TRY(ms_scratch_mat(d, MUSEC_F64, x.count, 1, p.r, &found));
    TRY(x.dtype == MUSEC_F64 ? values_f64(d, p.x, found) : values_f32(d, p.x, found));
    for (int64_t b = 0; b < x.count; b++) {
        double *of_b = values + b * p.r, s = 1.0;
        TRY(d->ops->download(d, (double *)found.data + b * found.stride,
                             (size_t)p.r * sizeof *values, of_b));
        TRY(ms_vec_download(d, ms_vec_slice(p.s, b, 1), &s));
        for (int64_t i = 0; i < p.r; i++)
            of_b[i] = (x.dtype == MUSEC_F64 ? of_b[i] : sqrt(fmax(of_b[i], 0.0))) / s;
        qsort(of_b, (size_t)p.r, sizeof *of_b, descending);
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* value / top, where a largest value beyond float64 counts alone. */
static double share_of(double value, double top)
{
    if (top == INFINITY) return value == INFINITY ? 1.0 : 0.0;
    return top > 0.0 ? value / top : 0.0;
}

void ms_spectrum_stats_of(const double *values, int64_t r, double threshold,
                          musec_spectrum_stats *stats)
{
    double       sum = 0.0, sumsq = 0.0, entropy = 0.0;
    int64_t      above = 0;
    const double top   = values[0];

    *stats = (musec_spectrum_stats){ .norm2 = top };
    for (int64_t i = 0; i < r; i++) {
        const double part = share_of(values[i], top); /* neither sum can overflow */
        sum += part;
        sumsq += part * part;
        above += threshold > 0.0 && values[i] > threshold;
    }
    for (int64_t i = 0; i < r && sum > 0.0; i++) {
        const double share = share_of(values[i], top) / sum;
        if (share > 0.0) entropy -= share * log(share);
    }
    stats->nuclear        = top * sum;
    stats->fro            = top * sqrt(sumsq);
    stats->effective_rank = sum > 0.0 ? exp(entropy) : 0.0;
    stats->share_above    = (double)above / (double)r;
}

/* ---- the largest, estimated ------------------------------------------------------------------ */

/* How many eigenvalues of the symmetric tridiagonal matrix exceed x (Sturm's sequence). */
static int count_above(const double *diag, const double *off, int n, double x)
{
    int    above = 0;
    double q     = 1.0;
    for (int i = 0; i < n; i++) {
        const double below = i == 0 ? 0.0 : off[i - 1] * off[i - 1] / q;
        q                  = diag[i] - x - below;
        if (q == 0.0) q = -1e-300;
        above += q > 0.0;
    }
    return above;
}

static double largest_eigenvalue(const double *diag, const double *off, int n)
{
    double lo = 0.0, hi = 0.0; /* positive semidefinite; hi by Gershgorin */
    for (int i = 0; i < n; i++) {
        const double left = i > 0 ? fabs(off[i - 1]) : 0.0, right = i < n - 1 ? fabs(off[i]) : 0.0;
        hi = fmax(hi, fabs(diag[i]) + left + right);
    }
    for (int i = 0; i < 200 && lo < hi; i++) {
        const double mid = 0.5 * (lo + hi);
        if (!(mid > lo && mid < hi)) break;
        if (count_above(diag, off, n, mid) > 0)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Row j of the basis from w, the residual of the row before: orthogonalised twice, normalised; its
 * length before that goes to `length2`.  A residual lost in rounding gives a row of zeros, and the
 * space is exhausted. */
static musec_status lanczos_row(ms_device *d, double eps, ms_mat basis, int64_t j, ms_mat w,
                                ms_mat h, ms_vec fresh2, ms_vec length2, ms_vec inverse)
{
    const ms_device_ops *op  = d->ops;
    ms_mat               row = basis, done_rows = basis, h_used = h;
    musec_status         st = MUSEC_OK;
    row.data       = (char *)basis.data + (size_t)(j * basis.ld) * ms_dtype_bytes(basis.dtype);
    row.rows       = 1;
    done_rows.rows = j;
    h_used.cols    = j;
    for (int pass = 0; j > 0 && pass < 2; pass++) {
        TRY(op->gemm(d, 1.0, w, ms_t(done_rows), 0.0, h_used));
        TRY(op->gemm(d, -1.0, h_used, done_rows, 1.0, w));
    }
    TRY(op->sumsq(d, w, length2));
    TRY(ms_scalar_inv_residual(
        d,
        (ms_inv_residual_nums){ .eps         = ms_const(eps),
                                .sumsq       = ms_each(length2),
                                .fresh_sumsq = ms_each(j > 0 ? fresh2 : length2) },
        (ms_inv_residual_vecs){ inverse }));
    TRY(op->axpby(d, ms_each(inverse), w, ms_const(0.0), row));
done:
    return st;
}

/* The tridiagonal matrices of all matrices: diag and off are (steps, count) on the device. */
static musec_status lanczos(ms_device *d, ms_mat x, int steps, uint64_t seed, ms_vec *length2,
                            ms_vec *diag2)
{
    const ms_device_ops *op  = d->ops;
    const double         eps = 100.0 * ms_dtype_eps(x.dtype);
    const int64_t        r   = x.rows;
    ms_mat               basis, w, y, h;
    ms_vec               fresh2, inverse;
    musec_status         st = MUSEC_OK;

    TRY(ms_scratch_mat(d, x.dtype, x.count, steps, r, &basis));
    TRY(ms_scratch_mat(d, x.dtype, x.count, 1, r, &w));
    TRY(ms_scratch_mat(d, x.dtype, x.count, 1, x.cols, &y));
    TRY(ms_scratch_mat(d, x.dtype, x.count, 1, steps, &h));
    TRY(ms_scratch_vec(d, x.count, &fresh2));
    TRY(ms_scratch_vec(d, x.count, &inverse));
    for (int64_t b = 0; b < x.count; b++) /* the same start for each: alone or in a stack */
        TRY(op->normal(d, ms_rand_key(seed, "lanczos start"), 0.0, 1.0, ms_mat_slice(w, b, 1)));
    for (int j = 0; j < steps; j++) {
        ms_mat row = basis;
        TRY(lanczos_row(d, eps, basis, j, w, h, fresh2, length2[j], inverse));
        row.data = (char *)basis.data + (size_t)(j * basis.ld) * ms_dtype_bytes(basis.dtype);
        row.rows = 1;
        TRY(op->gemm(d, 1.0, row, x, 0.0, y)); /* |y|^2 is the Rayleigh quotient of the row */
        TRY(op->sumsq(d, y, diag2[j]));
        TRY(op->gemm(d, 1.0, y, ms_t(x), 0.0, w));
        TRY(op->sumsq(d, w, fresh2));
    }
done:
    return st;
}

/* Calls `visit` with the tridiagonal matrix of each matrix of the stack, in the scale of s x. */
typedef void visit_fn(void *state, int64_t b, const double *diag, const double *off, int n,
                      double s);

static musec_status each_tridiagonal(ms_device *d, ms_mat x, int steps, uint64_t seed,
                                     visit_fn *visit, void *state)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_vec       *vecs = NULL;
    double       *host = NULL;
    ms_prepared   p;
    musec_status  st = MUSEC_OK;

    TRY(ms_prepare(d, x, ms_const(0.0), x.dtype, &p));
    if (steps > p.r) steps = (int)p.r;
    vecs = calloc(2 * (size_t)steps, sizeof *vecs);
    host = calloc(2 * (size_t)steps, sizeof *host);
    if (vecs == NULL || host == NULL)
        TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory for %d Lanczos steps", steps));
    for (int j = 0; j < 2 * steps; j++)
        TRY(ms_scratch_vec(d, x.count, &vecs[j]));
    TRY(lanczos(d, p.x, steps, seed, vecs, vecs + steps));
    for (int64_t b = 0; b < x.count; b++) {
        double *diag = host, *off = host + steps, s = 1.0;
        TRY(ms_vec_download(d, ms_vec_slice(p.s, b, 1), &s));
        for (int j = 0; j < steps; j++) {
            TRY(ms_vec_download(d, ms_vec_slice(vecs[steps + j], b, 1), &diag[j]));
            if (j > 0) TRY(ms_vec_download(d, ms_vec_slice(vecs[j], b, 1), &off[j - 1]));
        }
        for (int j = 0; j + 1 < steps; j++) /* an exhausted space has no coupling further on */
            off[j] = diag[j + 1] > 0.0 ? sqrt(off[j]) : 0.0;
        visit(state, b, diag, off, steps, s);
    }
done:
    free(vecs);
    free(host);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static void visit_norm(void *state, int64_t b, const double *diag, const double *off, int n,
                       double s)
{
    ((double *)state)[b] = sqrt(largest_eigenvalue(diag, off, n)) / s;
}

musec_status ms_norm2_lanczos(ms_device *d, ms_mat x, int steps, uint64_t seed, double *norm)
{
    return each_tridiagonal(d, x, steps, seed, visit_norm, norm);
}

/* ---- quantiles, estimated -------------------------------------------------------------------- */

#define QUADRATURE 16 /* Lanczos steps: nodes of the Gauss rule */

typedef struct node { /* a singular value and the share of the spectrum that it stands for */
    double value, weight;
} node;

static int by_value(const void *a, const void *b)
{
    const double x = ((const node *)a)->value, y = ((const node *)b)->value;
    return (x > y) - (x < y);
}

/* Turns rows and columns p, q of the symmetric a so that a[p][q] becomes 0; `first` holds the first
 * components of the eigenvectors. */
static void rotate(double a[QUADRATURE][QUADRATURE], double *first, int n, int p, int q)
{
    if (a[p][q] == 0.0) return;
    const double theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    const double t     = (theta < 0.0 ? -1.0 : 1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
    const double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
    for (int i = 0; i < n; i++) {
        const double x = a[i][p], y = a[i][q];
        a[i][p] = c * x - s * y;
        a[i][q] = s * x + c * y;
    }
    for (int i = 0; i < n; i++) {
        const double x = a[p][i], y = a[q][i];
        a[p][i] = c * x - s * y;
        a[q][i] = s * x + c * y;
    }
    const double x = first[p], y = first[q];
    first[p] = c * x - s * y;
    first[q] = s * x + c * y;
}

/* The Gauss rule of the spectral measure: eigenvalues of the tridiagonal matrix, by Jacobi's
 * rotations, and the squares of their vectors' first components. */
static void gauss_rule(const double *diag, const double *off, int n, node *nodes)
{
    double a[QUADRATURE][QUADRATURE] = { { 0 } }, first[QUADRATURE] = { 1.0 };
    for (int i = 0; i < n; i++) {
        a[i][i] = diag[i];
        if (i + 1 < n) a[i][i + 1] = a[i + 1][i] = off[i];
    }
    for (int sweep = 0; sweep < 12; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                rotate(a, first, n, p, q);
    for (int i = 0; i < n; i++)
        nodes[i] = (node){ sqrt(fmax(a[i][i], 0.0)), first[i] * first[i] };
    qsort(nodes, (size_t)n, sizeof *nodes, by_value);
}

typedef struct quantile_state {
    double  q;
    double *values;
} quantile_state;

/* Each node stands in the middle of its share; between two of them the quantile is linear. */
static void visit_quantile(void *state, int64_t b, const double *diag, const double *off, int n,
                           double s)
{
    const quantile_state *want              = state;
    node                  nodes[QUADRATURE] = { { 0 } };
    double                below = 0.0, at = 0.0, value = 0.0;
    gauss_rule(diag, off, n, nodes);
    for (int i = 0; i < n; i++) {
        if (!(nodes[i].weight > 1e-9)) continue; /* from an exhausted space: no singular value */
        const double middle = below + nodes[i].weight / 2.0;
        if (below == 0.0)
            value = nodes[i].value;
        else if (want->q > at)
            value += (nodes[i].value - value) * fmin(1.0, (want->q - at) / (middle - at));
        at = middle;
        below += nodes[i].weight;
    }
    want->values[b] = value / s;
}

musec_status ms_quantile_estimate(ms_device *d, ms_mat x, double q, uint64_t seed, double *values)
{
    quantile_state state = { q, values };
    return each_tridiagonal(d, x, QUADRATURE, seed, visit_quantile, &state);
}
