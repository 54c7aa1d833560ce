/* ref_svd.c - the decompositions of `ref`, by Jacobi rotations, in float64.
 *
 * svd is one-sided (Hestenes): with rows <= cols (else the transpose is taken), it rotates pairs of
 * rows of W = X until all are orthogonal.  The rotations are accumulated in an orthogonal R with
 * W = R X, so the norms of the rows of W are the singular values, the rows of R the left singular
 * vectors, and the normalized rows of W the right ones.  A row with a norm up to eps |X|_F is a
 * rounding error of the others: it is not rotated, and its right vector is any that completes the
 * basis.
 *
 * eigh is two-sided and cyclic: A <- J A J^T with the angle that clears A(p, q), until all elements
 * off the diagonal are at most eps/8 max|A|; V accumulates the J.
 *
 * Both converge quadratically once off-diagonal parts are small: 6 to 10 sweeps in all.  A sweep of
 * svd costs about 4 r^2 n multiplications, one of eigh about 6 r^3.  A NaN satisfies no comparison,
 * so it stops the sweeps and reaches the results. */
#include "device/cpu/ref.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_SWEEPS = 60 }; /* finite input never needs so many */

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* a <- c a - s b,  b <- s a + c b */
static void rotate(double *a, double *b, int64_t n, int64_t step, double c, double s)
{
    for (int64_t i = 0; i < n * step; i += step) {
        const double ai = a[i], bi = b[i];
        a[i] = c * ai - s * bi;
        b[i] = s * ai + c * bi;
    }
}

/* The smaller of the two rotations that clear the off-diagonal of [[pp, pq], [pq, qq]]. */
static void angle(double pp, double qq, double pq, double *c, double *s)
{
    const double zeta = (qq - pp) / (2.0 * pq);
    const double t    = copysign(1.0, zeta) / (fabs(zeta) + hypot(1.0, zeta));
    *c                = 1.0 / sqrt(1.0 + t * t);
    *s                = *c * t;
}

/* x <- 2^-e x, with elements of about 1 at most, so that squares and differences stay in range. */
static int normalize(double *x, int64_t n)
{
    double big = 0.0;
    for (int64_t i = 0; i < n; i++)
        big = fmax(big, fabs(x[i]));
    if (!(big > 0.0 && isfinite(big))) return 0;
    const int e = ilogb(big);
    for (int64_t i = 0; i < n; i++)
        x[i] = ldexp(x[i], -e);
    return e;
}

/* order <- the indices of s, by descending s */
static void sort_descending(const double *s, int64_t n, int64_t *order)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;
        for (; at > 0 && s[order[at - 1]] < s[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void set_identity(double *a, int64_t n)
{
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int64_t i = 0; i < n; i++)
        a[i * n + i] = 1.0;
}

/* ---- svd ------------------------------------------------------------------------------------- */

typedef struct work { /* for one matrix; k <= n */
    int64_t  k, n;
    double  *w;     /* (k, n) */
    double  *r;     /* (k, k) */
    double  *s;     /* (k) norms of the rows of w */
    int64_t *order; /* (k) rows of w by descending norm */
    double   floor; /* norms up to here are rounding errors */
} work;

static bool svd_sweep(const work *k) /* true: no pair needed a rotation */
{
    const int64_t n    = k->n;
    bool          done = true;
    for (int64_t p = 0; p < k->k; p++) {
        for (int64_t q = p + 1; q < k->k; q++) {
            double      *a = k->w + p * n, *b = k->w + q * n;
            const double aa = dot(a, a, n), bb = dot(b, b, n), ab = dot(a, b, n);
            double       c, s;
            if (sqrt(aa) <= k->floor || sqrt(bb) <= k->floor) continue;
            if (!(fabs(ab) > 4.0 * DBL_EPSILON * sqrt(aa) * sqrt(bb))) continue;
            angle(aa, bb, ab, &c, &s);
            rotate(a, b, n, 1, c, s);
            rotate(k->r + p * k->k, k->r + q * k->k, k->k, 1, c, s);
            done = false;
        }
    }
    return done;
}

/* Row order[at] of w becomes a unit vector orthogonal to the rows order[0 .. at-1]: the coordinate
 * vector that is farthest from their span, orthogonalized twice because of rounding. */
static void complete_row(const work *k, int64_t at)
{
    double *row  = k->w + k->order[at] * k->n;
    double  best = INFINITY;
    int64_t axis = 0;
    for (int64_t j = 0; j < k->n; j++) {
        double inside = 0.0;
        for (int64_t l = 0; l < at; l++)
            inside += k->w[k->order[l] * k->n + j] * k->w[k->order[l] * k->n + j];
        if (inside < best) best = inside, axis = j;
    }
    memset(row, 0, (size_t)k->n * sizeof *row);
    row[axis] = 1.0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t l = 0; l < at; l++) {
            const double *other = k->w + k->order[l] * k->n;
            const double  along = dot(row, other, k->n);
            for (int64_t j = 0; j < k->n; j++)
                row[j] -= along * other[j];
        }
    }
    const double length = sqrt(dot(row, row, k->n));
    for (int64_t j = 0; j < k->n; j++)
        row[j] /= length;
}

static void normalize_rows(const work *k) /* in descending order of their norms */
{
    for (int64_t at = 0; at < k->k; at++) {
        const int64_t l = k->order[at];
        if (k->s[l] <= k->floor) {
            complete_row(k, at);
        } else {
            for (int64_t j = 0; j < k->n; j++)
                k->w[l * k->n + j] /= k->s[l];
        }
    }
}

static void svd_one(work *k, ms_mat x, ms_mat u, ms_mat s, ms_mat vt, int64_t b)
{
    for (int64_t i = 0; i < k->k; i++)
        for (int64_t j = 0; j < k->n; j++)
            k->w[i * k->n + j] = ms_at(x, b, i, j);
    const int e = normalize(k->w, k->k * k->n);
    set_identity(k->r, k->k);
    k->floor = DBL_EPSILON * sqrt(dot(k->w, k->w, k->k * k->n));
    for (int sweep = 0; sweep < MAX_SWEEPS && !svd_sweep(k); sweep++)
        continue;
    for (int64_t l = 0; l < k->k; l++)
        k->s[l] = sqrt(dot(k->w + l * k->n, k->w + l * k->n, k->n));
    sort_descending(k->s, k->k, k->order);
    for (int64_t l = 0; l < k->k; l++)
        ms_put(s, b, 0, l, ldexp(k->s[k->order[l]], e));
    if (u.data == NULL) return;
    normalize_rows(k);
    for (int64_t l = 0; l < k->k; l++) {
        for (int64_t i = 0; i < k->k; i++)
            ms_put(u, b, i, l, k->r[k->order[l] * k->k + i]);
        for (int64_t j = 0; j < k->n; j++)
            ms_put(vt, b, l, j, k->w[k->order[l] * k->n + j]);
    }
}

musec_status ms_ref_svd(ms_device *d, ms_mat x, ms_mat u, ms_mat s, ms_mat vt)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    work          k;
    ms_mat        w, r;
    ms_vec        lengths;
    void         *order;
    musec_status  st;

    assert((u.data == NULL) == (vt.data == NULL));
    if (x.rows > x.cols) { /* X^T = V S U^T */
        const ms_mat left = u;
        x                 = ms_t(x);
        u                 = ms_t(vt);
        vt                = ms_t(left);
    }
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, x.rows, x.cols, &w));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, x.rows, x.rows, &r));
    TRY(ms_scratch_vec(d, x.rows, &lengths));
    TRY(ms_scratch_bytes(d, (size_t)x.rows * sizeof *k.order, &order));
    k = (work){
        .k = x.rows, .n = x.cols, .w = w.data, .r = r.data, .s = lengths.data, .order = order
    };
    for (int64_t b = 0; b < x.count; b++)
        svd_one(&k, x, u, s, vt, b);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- eigh ------------------------------------------------------------------------------------ */

/* a: (n, n) symmetric.  v: (n, n) accumulates the rotations; its rows become eigenvectors. */
static bool eigh_sweep(double *a, double *v, int64_t n, double floor)
{
    bool done = true;
    for (int64_t p = 0; p < n; p++) {
        for (int64_t q = p + 1; q < n; q++) {
            double c, s;
            if (!(fabs(a[p * n + q]) > floor)) continue;
            angle(a[p * n + p], a[q * n + q], a[p * n + q], &c, &s);
            rotate(a + p * n, a + q * n, n, 1, c, s); /* rows */
            rotate(a + p, a + q, n, n, c, s);         /* columns */
            rotate(v + p * n, v + q * n, n, 1, c, s);
            a[p * n + q] = a[q * n + p] = 0.0; /* rounding leaves a residue, which is dropped */
            done                        = false;
        }
    }
    return done;
}

static void eigh_one(double *a, double *v, double *values, int64_t *order, ms_mat x, ms_mat w,
                     ms_mat out, int64_t b)
{
    const int64_t n = x.rows;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            a[i * n + j] = a[j * n + i] = ms_at(x, b, i, j);
    const int e = normalize(a, n * n); /* the largest is now in [1, 2) */
    set_identity(v, n);
    for (int sweep = 0; sweep < MAX_SWEEPS && !eigh_sweep(a, v, n, 0.125 * DBL_EPSILON); sweep++)
        continue;
    for (int64_t l = 0; l < n; l++)
        values[l] = -a[l * n + l];
    sort_descending(values, n, order); /* of the negatives: ascending */
    for (int64_t l = 0; l < n; l++) {
        ms_put(w, b, 0, l, ldexp(-values[order[l]], e));
        for (int64_t i = 0; i < n && out.data != NULL; i++)
            ms_put(out, b, i, l, v[order[l] * n + i]);
    }
}

musec_status ms_ref_eigh(ms_device *d, ms_mat a, ms_mat w, ms_mat v)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_mat        work_a, work_v;
    ms_vec        values;
    void         *order;
    musec_status  st;

    assert(a.rows == a.cols);
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, a.rows, a.rows, &work_a));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, a.rows, a.rows, &work_v));
    TRY(ms_scratch_vec(d, a.rows, &values));
    TRY(ms_scratch_bytes(d, (size_t)a.rows * sizeof(int64_t), &order));
    for (int64_t b = 0; b < a.count; b++)
        eigh_one(work_a.data, work_v.data, values.data, order, a, w, v, b);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
