/* oracle.c - see oracle.h.
 *
 * Orthonormal vectors: Gaussian ones, orthogonalised by Gram and Schmidt twice over ("twice is
 * enough": the second pass brings the error to the unit roundoff).  Singular values: one-sided
 * Jacobi on the rows of the smaller side.  Rotating rows p, q by the angle that makes them
 * orthogonal leaves the singular values alone; when all pairs are orthogonal, the lengths of the
 * rows are the singular values. */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *take(int64_t n, size_t bytes)
{
    void *p = calloc(n > 0 ? (size_t)n : 1, bytes);
    if (p == NULL) abort();
    return p;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- random numbers: splitmix64, Box and Muller ---------------------------------------------- */

double oracle_uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z          = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) * 0x1p-53;
}

double oracle_normal(uint64_t *state)
{
    const double radius = sqrt(-2.0 * log(oracle_uniform(state)));
    return radius * cos(6.283185307179586 * oracle_uniform(state));
}

double *oracle_gaussian(int64_t rows, int64_t cols, uint64_t seed)
{
    double *x = take(rows * cols, sizeof *x);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = oracle_normal(&seed);
    return x;
}

/* k orthonormal rows of length n, k <= n */
static double *orthonormal_rows(int64_t k, int64_t n, uint64_t seed)
{
    double *q = oracle_gaussian(k, n, seed);
    for (int64_t i = 0; i < k; i++) {
        double *row = q + i * n;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t j = 0; j < i; j++) {
                const double along = dot(row, q + j * n, n);
                for (int64_t l = 0; l < n; l++)
                    row[l] -= along * q[j * n + l];
            }
        }
        const double length = sqrt(dot(row, row, n));
        for (int64_t l = 0; l < n; l++)
            row[l] /= length;
    }
    return q;
}

double *oracle_orthogonal(int64_t n, uint64_t seed) { return orthonormal_rows(n, n, seed); }

/* ---- matrices of a known SVD ----------------------------------------------------------------- */

static void set_usv(const oracle *o, const double *s, double *out) /* out <- U diag(s) V^T */
{
    memset(out, 0, (size_t)(o->rows * o->cols) * sizeof *out);
    for (int64_t l = 0; l < o->k; l++) {
        for (int64_t i = 0; i < o->rows; i++) {
            const double us = o->u[l * o->rows + i] * s[l];
            for (int64_t j = 0; j < o->cols; j++)
                out[i * o->cols + j] += us * o->v[l * o->cols + j];
        }
    }
}

oracle oracle_make_from(int64_t rows, int64_t cols, const double *s, uint64_t seed)
{
    oracle o = { .rows = rows, .cols = cols, .k = rows < cols ? rows : cols };
    o.s      = take(o.k, sizeof *o.s);
    o.u      = orthonormal_rows(o.k, rows, 2 * seed + 1);
    o.v      = orthonormal_rows(o.k, cols, 3 * seed + 0x10000);
    o.x      = take(rows * cols, sizeof *o.x);
    o.want   = take(rows * cols, sizeof *o.want);
    memcpy(o.s, s, (size_t)o.k * sizeof *s);
    set_usv(&o, o.s, o.x);
    memcpy(o.want, o.x, (size_t)(rows * cols) * sizeof *o.x);
    return o;
}

oracle oracle_make(int64_t rows, int64_t cols, oracle_kind kind, double top, double bottom,
                   uint64_t seed)
{
    const int64_t k   = rows < cols ? rows : cols;
    const double  low = bottom > 0.0 ? bottom : 1e-8 * top; /* where a geometric series ends */
    double       *s   = take(k, sizeof *s);
    for (int64_t l = 0; l < k; l++) {
        const double part = k > 1 ? (double)l / (double)(k - 1) : 0.0; /* 0 at the top, 1 below */
        switch (kind) {
        case ORACLE_GEOMETRIC: s[l] = top > 0.0 ? top * pow(low / top, part) : 0.0; break;
        case ORACLE_LINEAR: s[l] = top + (bottom - top) * part; break;
        case ORACLE_ONE: s[l] = l == 0 ? top : bottom; break;
        case ORACLE_HALF: s[l] = l < (k + 1) / 2 ? top : bottom; break;
        default: s[l] = top; break;
        }
    }
    if (kind == ORACLE_GEOMETRIC && bottom == 0.0 && k > 1) s[k - 1] = 0.0;
    oracle o = oracle_make_from(rows, cols, s, seed);
    free(s);
    return o;
}

void oracle_map(oracle *o, double (*f)(double s, const void *arg), const void *arg)
{
    double *mapped = take(o->k, sizeof *mapped);
    for (int64_t l = 0; l < o->k; l++)
        mapped[l] = f(o->s[l], arg);
    set_usv(o, mapped, o->want);
    free(mapped);
}

void oracle_free(oracle *o)
{
    free(o->s), free(o->u), free(o->v), free(o->x), free(o->want);
    memset(o, 0, sizeof *o);
}

/* ---- judging --------------------------------------------------------------------------------- */

static double element(const void *x, musec_dtype dtype, int64_t i)
{
    return dtype == MUSEC_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

double oracle_rel_err(const void *got, musec_dtype dtype, const double *want, int64_t n)
{
    double off = 0.0, size = 0.0; /* hypot cannot overflow, nor lose tiny matrices */
    for (int64_t i = 0; i < n; i++) {
        const double diff = element(got, dtype, i) - want[i];
        if (diff != diff) return NAN; /* hypot(inf, NaN) is infinity */
        off  = hypot(off, diff);
        size = hypot(size, want[i]);
    }
    return size > 0.0 ? off / size : off;
}

double oracle_max_err(const void *got, musec_dtype dtype, const double *want, int64_t n)
{
    double worst = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double off = fabs(element(got, dtype, i) - want[i]);
        if (!(off <= worst)) worst = off; /* so written, NaN enters ... */
        if (worst != worst) return worst; /* ... and stays */
    }
    return worst;
}

/* One sweep over all pairs of the k rows of w; returns the largest cosine that it met. */
static double jacobi_sweep(double *w, int64_t k, int64_t n)
{
    double worst = 0.0;
    for (int64_t p = 0; p < k; p++) {
        for (int64_t q = p + 1; q < k; q++) {
            double      *a = w + p * n, *b = w + q * n;
            const double aa = dot(a, a, n), bb = dot(b, b, n), ab = dot(a, b, n);
            const double cosine = ab != 0.0 ? fabs(ab) / (sqrt(aa) * sqrt(bb)) : 0.0;
            if (!(cosine > 1e-15)) continue;
            const double zeta = (bb - aa) / (2.0 * ab);
            const double t    = copysign(1.0, zeta) / (fabs(zeta) + hypot(1.0, zeta));
            const double c = 1.0 / sqrt(1.0 + t * t), s = c * t;
            for (int64_t l = 0; l < n; l++) {
                const double ap = a[l], bq = b[l];
                a[l] = c * ap - s * bq;
                b[l] = s * ap + c * bq;
            }
            worst = fmax(worst, cosine);
        }
    }
    return worst;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

void oracle_singular_values(const void *x, musec_dtype dtype, int64_t rows, int64_t cols, double *s)
{
    const int64_t k = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
    double       *w   = take(k * n, sizeof *w); /* the k rows or columns of x */
    double        big = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const double value                     = element(x, dtype, i * cols + j);
            w[rows < cols ? i * n + j : j * n + i] = value;
            if (!(fabs(value) <= big)) big = fabs(value);
        }
    }
    if (!(big <= 1.7e308)) { /* NaN or infinity: no spectrum, and no bound may hold */
        for (int64_t l = 0; l < k; l++)
            s[l] = NAN;
        free(w);
        return;
    }
    const double scale = big > 0.0 ? exp2(-ilogb(big)) : 1.0; /* squares stay in range */
    for (int64_t i = 0; i < k * n; i++)
        w[i] *= scale;
    for (int sweep = 0; sweep < 60 && jacobi_sweep(w, k, n) > 1e-14; sweep++)
        continue;
    for (int64_t l = 0; l < k; l++)
        s[l] = sqrt(dot(w + l * n, w + l * n, n)) / scale;
    qsort(s, (size_t)k, sizeof *s, descending);
    free(w);
}

double oracle_norm2(const void *x, musec_dtype dtype, int64_t rows, int64_t cols)
{
    double *s = take(rows < cols ? rows : cols, sizeof *s);
    oracle_singular_values(x, dtype, rows, cols, s);
    const double norm = s[0];
    free(s);
    return norm;
}

double oracle_orthogonality(const void *q, musec_dtype dtype, int64_t rows, int64_t cols)
{
    double *dense = oracle_loaded(q, rows * cols, dtype);
    double *qt    = oracle_transpose(dense, rows, cols);
    double  worst = 0.0;
    for (int64_t i = 0; i < cols; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double off = fabs(dot(qt + i * rows, qt + j * rows, rows) - (i == j));
            if (!(off <= worst) && worst == worst) worst = off;
        }
    }
    free(dense), free(qt);
    return worst;
}

/* ---- material -------------------------------------------------------------------------------- */

double *oracle_product(const double *a, const double *b, int64_t m, int64_t k, int64_t n)
{
    double *c = take(m * n, sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += a[i * k + l] * b[l * n + j];
    return c;
}

double *oracle_transpose(const double *a, int64_t rows, int64_t cols)
{
    double *t = take(rows * cols, sizeof *t);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            t[j * rows + i] = a[i * cols + j];
    return t;
}

void *oracle_stored(const double *x, int64_t n, musec_dtype dtype)
{
    void *out = take(n, dtype == MUSEC_F32 ? sizeof(float) : sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        if (dtype == MUSEC_F32)
            ((float *)out)[i] = (float)x[i];
        else
            ((double *)out)[i] = x[i];
    }
    return out;
}

double *oracle_loaded(const void *x, int64_t n, musec_dtype dtype)
{
    double *out = take(n, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = element(x, dtype, i);
    return out;
}
