/* spectrum.c - singular values and what is read off them.
 *
 * Exact values: float64 data by SVD.  float32 data by the eigenvalues of the Gram matrix formed in
 * float64, whose error, 1e-8 s_1, is below that of the data themselves.
 *
 * Estimate of the largest: Lanczos on X X^T with full reorthogonalisation.  After k steps the
 * largest eigenvalue of the k x k tridiagonal matrix is the maximum of the Rayleigh quotient over
 * the Krylov space, hence never above lambda_1; for a start vector uniform on the sphere its
 * expected relative error is at most 0.103 (ln(r (k-1)^4) / (k-1))^2, whatever the gaps (Kuczynski
 * and Wozniakowski, SIAM J. Matrix Anal. Appl. 13, 1992).
 *
 * Estimate of a quantile: from a random vector, Lanczos steps give the nodes and weights of the
 * Gauss rule of the matrix' spectral measure, whose cumulative weights estimate how many
 * eigenvalues lie below a node (stochastic Lanczos quadrature; Golub and Meurant).  Here the Gram
 * matrix is formed first: it may have half the elements of X or fewer, is read once a step instead
 * of twice, and of 16-bit X it has float32, as the vectors need. */
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

/* The tridiagonal matrices of the symmetric x, or of x x^T: length2 and diag have `steps` vectors
 * each. */
static musec_status lanczos(ms_device *d, ms_mat x, bool symmetric, int steps, uint64_t seed,
                            const ms_vec *length2, const ms_vec *diag)
{
    const ms_device_ops *op  = d->ops;
    const double         eps = 100.0 * ms_dtype_eps(x.dtype);
    const int64_t        r   = x.rows;
    ms_mat               basis, w, y, h;
    ms_vec               fresh2, inverse;
    musec_status         st = MUSEC_OK;

    TRY(ms_scratch_mat(d, x.dtype, x.count, steps, r, &basis));
    TRY(ms_scratch_mat(d, x.dtype, x.count, 1, r, &w));
    TRY(ms_scratch_mat(d, x.dtype, x.count, 1, symmetric ? 1 : x.cols, &y));
    TRY(ms_scratch_mat(d, x.dtype, x.count, 1, steps, &h));
    TRY(ms_scratch_vec(d, x.count, &fresh2));
    TRY(ms_scratch_vec(d, x.count, &inverse));
    /* the same start for each: alone or in a stack */
    TRY(op->normal(d, ms_rand_key(seed, "lanczos start"), 0.0, 1.0, ms_mat_slice(w, 0, 1)));
    for (int64_t n = 1; n < x.count; n *= 2) {
        const int64_t more = x.count - n < n ? x.count - n : n;
        TRY(op->copy(d, ms_mat_slice(w, 0, more), ms_mat_slice(w, n, more)));
    }
    for (int j = 0; j < steps; j++) {
        ms_mat row = basis;
        TRY(lanczos_row(d, eps, basis, j, w, h, fresh2, length2[j], inverse));
        row.data = (char *)basis.data + (size_t)(j * basis.ld) * ms_dtype_bytes(basis.dtype);
        row.rows = 1;
        if (symmetric) { /* y is the Rayleigh quotient of the row */
            TRY(op->gemm(d, 1.0, row, x, 0.0, w));
            TRY(op->gemm(d, 1.0, row, ms_t(w), 0.0, y));
            TRY(op->sum(d, y, diag[j]));
        } else { /* |y|^2 is */
            TRY(op->gemm(d, 1.0, row, x, 0.0, y));
            TRY(op->sumsq(d, y, diag[j]));
            TRY(op->gemm(d, 1.0, y, ms_t(x), 0.0, w));
        }
        TRY(op->sumsq(d, w, fresh2));
    }
done:
    return st;
}

typedef struct tridiagonals { /* in host memory, of a stack */
    int     n;                /* their size */
    double *diag, *off;       /* (count, n) each; the last of off is not used */
} tridiagonals;

static void free_tridiagonals(tridiagonals *t)
{
    free(t->diag);
    free(t->off);
}

/* Finds and downloads those of the symmetric x, or of x x^T, after at most so many steps. */
static musec_status find_tridiagonals(ms_device *d, ms_mat x, bool symmetric, int steps,
                                      uint64_t seed, tridiagonals *t)
{
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    const int     n     = steps > x.rows ? (int)x.rows : steps;
    const size_t  total = (size_t)x.count * (size_t)n;
    ms_vec       *vecs  = calloc(2 * (size_t)n, sizeof *vecs), all;
    double       *host  = calloc(2 * total, sizeof *host);
    musec_status  st    = MUSEC_OK;

    *t = (tridiagonals){ n, calloc(total, sizeof *t->diag), calloc(total, sizeof *t->off) };
    if (vecs == NULL || host == NULL || t->diag == NULL || t->off == NULL)
        TRY(ms_fail(&d->error, MUSEC_ENOMEM, "no memory for %d Lanczos steps", n));
    TRY(ms_scratch_vec(d, 2 * (int64_t)total, &all));
    for (int j = 0; j < 2 * n; j++)
        vecs[j] = ms_vec_slice(all, j * x.count, x.count);
    TRY(lanczos(d, x, symmetric, n, seed, vecs, vecs + n));
    TRY(ms_vec_download(d, all, host));
    for (int64_t b = 0; b < x.count; b++) {
        double *diag = t->diag + b * n, *off = t->off + b * n;
        for (int j = 0; j < n; j++)
            diag[j] = host[(n + j) * x.count + b];
        for (int j = 0; j + 1 < n; j++) /* an exhausted space has no coupling further on */
            off[j] = diag[j + 1] != 0.0 ? sqrt(host[(j + 1) * x.count + b]) : 0.0;
    }
done:
    free(vecs);
    free(host);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_norm2_lanczos(ms_device *d, ms_mat x, int steps, uint64_t seed, double *norm)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    tridiagonals  t    = { 0 };
    ms_prepared   p;
    musec_status  st = MUSEC_OK;
    TRY(ms_prepare(d, x, ms_const(0.0), x.dtype, &p));
    TRY(find_tridiagonals(d, p.x, false, steps, seed, &t));
    TRY(ms_vec_download(d, p.s, norm));
    for (int64_t b = 0; b < x.count; b++)
        norm[b] = sqrt(largest_eigenvalue(t.diag + b * t.n, t.off + b * t.n, t.n)) / norm[b];
done:
    free_tridiagonals(&t);
    ms_arena_reset(&d->scratch, mark);
    return st;
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

/* One implicit QR step on rows and columns low .. high of the tridiagonal matrix, by rotations of
 * neighbours that chase what is off the band downwards.  The shift is the eigenvalue of the last
 * two rows that is nearer the last entry (Wilkinson's); `first` is turned along. */
static void qr_step(double *diag, double *off, double *first, int low, int high)
{
    const double half = 0.5 * (diag[high - 1] - diag[high]), last = off[high - 1];
    const double shift = diag[high] - last * (last / (half + copysign(hypot(half, last), half)));
    double       x = diag[low] - shift, bulge = off[low];
    for (int k = low; k < high; k++) {
        const double h = hypot(x, bulge), c = h > 0.0 ? x / h : 1.0, s = h > 0.0 ? bulge / h : 0.0;
        const double a = diag[k], b = off[k], d = diag[k + 1], f = first[k], g = first[k + 1];
        if (k > low) off[k - 1] = h;
        diag[k]      = c * c * a + 2.0 * c * s * b + s * s * d;
        diag[k + 1]  = s * s * a - 2.0 * c * s * b + c * c * d;
        off[k]       = c * s * (d - a) + (c * c - s * s) * b;
        first[k]     = c * f + s * g;
        first[k + 1] = c * g - s * f;
        x            = off[k];
        if (k + 1 == high) break;
        bulge = s * off[k + 1];
        off[k + 1] *= c;
    }
}

static bool is_coupled(const double *diag, const double *off, int i)
{
    return fabs(off[i]) > 0x1p-53 * (fabs(diag[i]) + fabs(diag[i + 1]));
}

/* The Gauss rule of the spectral measure: eigenvalues of the tridiagonal matrix, which is
 * overwritten, and the squares of their vectors' first components (Golub and Welsch). */
static void gauss_rule(double *diag, double *off, int n, node *nodes)
{
    double first[QUADRATURE] = { 1.0 };
    int    steps_left        = 30 * n; /* two or three each will do */
    for (int high = n - 1; high > 0 && steps_left-- > 0;) {
        int low = high;
        while (low > 0 && is_coupled(diag, off, low - 1))
            low--;
        if (low == high)
            high--;
        else
            qr_step(diag, off, first, low, high);
    }
    for (int i = 0; i < n; i++)
        nodes[i] = (node){ sqrt(fmax(diag[i], 0.0)), first[i] * first[i] };
    qsort(nodes, (size_t)n, sizeof *nodes, by_value);
}

/* Each node stands in the middle of its share; between two of them the quantile is linear. */
static double quantile_of(const node *nodes, int n, double q)
{
    double below = 0.0, at = 0.0, value = 0.0;
    for (int i = 0; i < n; i++) {
        if (!(nodes[i].weight > 1e-9)) continue; /* from an exhausted space: no singular value */
        const double middle = below + nodes[i].weight / 2.0;
        if (below == 0.0)
            value = nodes[i].value;
        else if (q > at)
            value += (nodes[i].value - value) * fmin(1.0, (q - at) / (middle - at));
        at = middle;
        below += nodes[i].weight;
    }
    return value;
}

/* The Gram matrices of all inputs, of powers of two times them, and their traces. */
static musec_status grams(ms_device *d, const ms_stacks *x, ms_mat *gram, ms_vec *trace)
{
    const ms_mat  in    = x->in[0].mat;
    const int64_t r     = in.rows < in.cols ? in.rows : in.cols;
    int64_t       count = 0;
    musec_status  st    = MUSEC_OK;
    for (int i = 0; i < x->n; i++)
        count += x->in[i].mat.count;
    TRY(ms_scratch_vec(d, count, trace));
    TRY(ms_scratch_mat(d, ms_dtype_accum(in.dtype), count, r, r, gram));
    for (int64_t i = 0, first = 0; i < x->n; first += x->in[i++].mat.count) {
        const ms_mark mark = ms_arena_mark(&d->scratch);
        const int64_t n    = x->in[i].mat.count;
        ms_mat        one  = x->in[i].mat;
        ms_prepared   p;
        if (x->in[i].scale.data == NULL) {
            TRY(ms_prepare(d, one, ms_const(0.0), one.dtype, &p));
            one = p.x;
        } else if (one.rows > one.cols) {
            one = ms_t(one);
        }
        TRY(d->ops->product(d, &(ms_product){ .a         = one,
                                              .b         = ms_t(one),
                                              .alpha     = ms_const(1.0),
                                              .c         = ms_mat_slice(*gram, first, n),
                                              .symmetric = true,
                                              .trace     = ms_vec_slice(*trace, first, n) }));
        ms_arena_reset(&d->scratch, mark);
    }
done:
    return st;
}

musec_status ms_quantile_ratios(ms_device *d, const ms_stacks *x, double q, uint64_t seed,
                                double *ratios)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    tridiagonals  t    = { 0 };
    ms_mat        gram;
    ms_vec        trace;
    musec_status  st = MUSEC_OK;
    TRY(grams(d, x, &gram, &trace));
    TRY(find_tridiagonals(d, gram, true, QUADRATURE, seed, &t));
    TRY(ms_vec_download(d, trace, ratios));
    for (int64_t b = 0; b < gram.count; b++) {
        const double rms               = sqrt(ratios[b] / (double)gram.rows);
        node         nodes[QUADRATURE] = { { 0 } };
        gauss_rule(t.diag + b * t.n, t.off + b * t.n, t.n, nodes);
        ratios[b] = rms > 0.0 ? quantile_of(nodes, t.n, q) / rms : 0.0;
    }
done:
    free_tridiagonals(&t);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
