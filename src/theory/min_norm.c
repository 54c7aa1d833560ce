/* min_norm.c - Wolfe's active-set method for the point of least norm in a convex hull
 * (P. Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11, 1976).
 *
 * A corral is a set of affinely independent points whose affine hull has its point of least norm
 * inside their convex hull.  From the corral's point x:
 *     if <x, g_i> >= <x, x> for all i, x is the answer;
 *     else the g_i with the least <x, g_i> enters.  While the affine hull's point y has a weight
 *     that is not positive, go from x towards y up to the hull's boundary and drop the points of
 *     weight zero.
 * Every corral's |x| is below the one before, so none returns and the method ends.  A point that
 * enters is affinely independent of those in the corral: these all have <x, .> = <x, x>.  So a
 * corral has no duplicates, and n >> m costs products with x alone.
 *
 * The affine hull is p0 + span(p_i - p0).  We keep Q R = [p_1 - p0, ..., p_k - p0], orthogonalised
 * twice (which leaves Q orthogonal to rounding), not the Gram matrix, whose condition is squared:
 *     y = p0 - Q Q^T p0,  weights c of p_1, ...: R c = -Q^T p0,  that of p0: 1 - sum c.
 * A point that enters adds a column; one that leaves costs Givens rotations; if it is p0, the
 * factorisation is computed from scratch.
 *
 * All is computed on g times a power of two that brings the largest entry to [1/2, 1), so that no
 * square overflows; what is returned is scaled back.  The point and the bounds are computed from
 * the vectors in the end, so rounding on the way can cost iterations, never a wrong certificate. */
#include "theory/min_norm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"

/* A new column of R shorter than this, by the longest vector, is rounding: it adds nothing. */
#define DEPENDENT 1e-14

typedef struct solver {
    const double *g;              /* (n, m) */
    int64_t       n, m, capacity; /* capacity of the corral: min(n, m + 1) points */
    int           shift;          /* g times 2^shift is what we compute on */
    double        half, rest;     /* factors of 2^shift, which may be beyond the range of doubles */
    double        longest;        /* max_i |g_i|, so scaled */
    int64_t      *corral;         /* (capacity) indices; the first is p0 */
    int64_t       k;              /* points in it */
    double       *weight;         /* (capacity) of the corral's points */
    double       *next;           /* (capacity) those of the affine hull's point */
    double       *q;              /* (capacity, m): row j is column j of Q; k - 1 are in use */
    double       *r; /* (capacity, capacity): row j is column j of R, above and on the diagonal */
    double       *givens; /* (capacity, 2) cosines and sines of rotations */
    double       *x;      /* (m) the corral's point */
} solver;

/* ---- vectors --------------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, int64_t m)
{
    double sum = 0.0;
    for (int64_t i = 0; i < m; i++)
        sum += a[i] * b[i];
    return sum;
}

static void rotate(double cosine, double sine, double *a, double *b)
{
    const double x = *a, y = *b;
    *a = cosine * x + sine * y;
    *b = cosine * y - sine * x;
}

static double entry(const solver *s, int64_t i, int64_t j)
{
    return s->g[i * s->m + j] * s->half * s->rest;
}

static double dot_point(const solver *s, const double *x, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; j < s->m; j++)
        sum += x[j] * entry(s, i, j);
    return sum;
}

/* x <- the sum of weights times points of the corral */
static void combine(const solver *s, const double *weight, double *x)
{
    memset(x, 0, (size_t)s->m * sizeof *x);
    for (int64_t i = 0; i < s->k; i++)
        for (int64_t j = 0; j < s->m; j++)
            x[j] += weight[i] * entry(s, s->corral[i], j);
}

/* ---- the corral ------------------------------------------------------------------------------ */

/* Column `at` of Q and R from point at + 1 of the corral.  False: it depends on those before. */
static bool orthogonalise(solver *s, int64_t at)
{
    double *q = s->q + at * s->m, *r = s->r + at * s->capacity;
    double  length;

    for (int64_t j = 0; j < s->m; j++)
        q[j] = entry(s, s->corral[at + 1], j) - entry(s, s->corral[0], j);
    memset(r, 0, (size_t)s->capacity * sizeof *r);
    for (int twice = 0; twice < 2; twice++)
        for (int64_t i = 0; i < at; i++) {
            const double *qi = s->q + i * s->m;
            const double  c  = dot(qi, q, s->m);
            r[i] += c;
            for (int64_t j = 0; j < s->m; j++)
                q[j] -= c * qi[j];
        }
    length = sqrt(dot(q, q, s->m));
    if (!(length > DEPENDENT * s->longest)) return false;
    r[at] = length;
    for (int64_t j = 0; j < s->m; j++)
        q[j] /= length;
    return true;
}

/* Computes the point of least norm of the affine hull, s->x, and its weights, s->next.  It is
 * orthogonalised twice: where it is short, the rounding errors of p0 in its direction would cost
 * digits of the lower bound. */
static void affine_point(solver *s)
{
    double sum = 0.0;

    for (int64_t j = 0; j < s->m; j++)
        s->x[j] = entry(s, s->corral[0], j);
    memset(s->next, 0, (size_t)s->k * sizeof *s->next);
    for (int twice = 0; twice < 2; twice++)
        for (int64_t i = 0; i + 1 < s->k; i++) {
            const double *q = s->q + i * s->m;
            const double  c = dot(q, s->x, s->m);
            s->next[i + 1] -= c;
            for (int64_t j = 0; j < s->m; j++)
                s->x[j] -= c * q[j];
        }
    for (int64_t i = s->k - 1; i >= 1; i--) { /* R c = next, from below */
        for (int64_t j = i + 1; j < s->k; j++)
            s->next[i] -= s->r[(j - 1) * s->capacity + i - 1] * s->next[j];
        s->next[i] /= s->r[(i - 1) * s->capacity + i - 1];
    }
    for (int64_t i = 1; i < s->k; i++)
        sum += s->next[i];
    s->next[0] = 1.0 - sum;
}

/* Removes point `at` >= 1.  Without its column, R has one entry below the diagonal in each column
 * that follows; rotations of neighbouring rows, and of the columns of Q with them, eliminate it.
 * False: the remaining points are dependent. */
static bool remove_point(solver *s, int64_t at)
{
    const int64_t left = s->k - 2; /* columns */

    memmove(s->corral + at, s->corral + at + 1, (size_t)(s->k - 1 - at) * sizeof *s->corral);
    memmove(s->weight + at, s->weight + at + 1, (size_t)(s->k - 1 - at) * sizeof *s->weight);
    s->k--;
    for (int64_t c = at - 1; c < left; c++) {
        double *q = s->q + c * s->m, *below = q + s->m, *r = s->r + c * s->capacity;
        double  length, cosine, sine;

        memcpy(r, r + s->capacity, (size_t)s->capacity * sizeof *r);
        for (int64_t i = at - 1; i < c; i++) /* the rotations before this one */
            rotate(s->givens[2 * i], s->givens[2 * i + 1], &r[i], &r[i + 1]);
        length = hypot(r[c], r[c + 1]);
        if (!(length > DEPENDENT * s->longest)) return false;
        s->givens[2 * c] = cosine = r[c] / length;
        s->givens[2 * c + 1] = sine = r[c + 1] / length;
        r[c]                        = length;
        r[c + 1]                    = 0.0;
        for (int64_t j = 0; j < s->m; j++)
            rotate(cosine, sine, &q[j], &below[j]);
    }
    return true;
}

/* Removes the points without weight.  False: rounding made the rest dependent. */
static bool drop_weightless(solver *s)
{
    for (int64_t i = s->k - 1; i >= 1; i--)
        if (!(s->weight[i] > 0.0) && !remove_point(s, i)) return false;
    if (s->weight[0] > 0.0 || s->k == 1) return true;
    s->k--; /* p0 itself: all differences change */
    memmove(s->corral, s->corral + 1, (size_t)s->k * sizeof *s->corral);
    memmove(s->weight, s->weight + 1, (size_t)s->k * sizeof *s->weight);
    for (int64_t i = 0; i + 1 < s->k; i++)
        if (!orthogonalise(s, i)) return false;
    return true;
}

/* Goes from the present weights to those of a corral.  False: rounding prevents it; the weights are
 * still those of a point of the hull. */
static bool settle(solver *s)
{
    for (;;) {
        double  step = INFINITY;
        int64_t out  = -1;

        affine_point(s);
        for (int64_t i = 0; i < s->k; i++)
            if (!(s->next[i] > 0.0)) {
                const double reach = s->weight[i] / (s->weight[i] - s->next[i]);
                if (!(reach >= step)) { /* NaN: both are zero, so it leaves at once */
                    step = isnan(reach) ? 0.0 : reach;
                    out  = i;
                }
            }
        if (out < 0) {
            memcpy(s->weight, s->next, (size_t)s->k * sizeof *s->weight);
            return true;
        }
        for (int64_t i = 0; i < s->k; i++)
            s->weight[i] = fmax(0.0, s->weight[i] + step * (s->next[i] - s->weight[i]));
        s->weight[out] = 0.0;
        if (!drop_weightless(s)) return false;
    }
}

/* ---- the method ------------------------------------------------------------------------------ */

/* The point with the least <x, g_i>, and that number. */
static int64_t farthest_below(const solver *s, double *least)
{
    int64_t at = 0;
    *least     = INFINITY;
    for (int64_t i = 0; i < s->n; i++) {
        const double d = dot_point(s, s->x, i);
        if (d < *least) {
            *least = d;
            at     = i;
        }
    }
    return at;
}

/* A lower bound on the distance of the hull, whatever x is. */
static double lower_bound(const solver *s, double least)
{
    const double length = sqrt(dot(s->x, s->x, s->m));
    return length > 0.0 ? fmax(0.0, least / length) : 0.0;
}

static bool is_in_corral(const solver *s, int64_t point)
{
    for (int64_t i = 0; i < s->k; i++)
        if (s->corral[i] == point) return true;
    return false;
}

static void iterate(solver *s, double tol, int64_t limit, ms_min_norm_result *out)
{
    double before = INFINITY, least;

    for (;;) {
        const int64_t point  = farthest_below(s, &least);
        const double  length = sqrt(dot(s->x, s->x, s->m));
        if (length - lower_bound(s, least) <= tol * s->longest) return;
        if (!(length < before) || is_in_corral(s, point) || s->k == s->capacity)
            return; /* rounding */
        if (out->iterations == limit) {
            out->limited = true;
            return;
        }
        before = length;
        out->iterations++;
        s->corral[s->k] = point;
        s->weight[s->k] = 0.0;
        s->k++;
        if (!orthogonalise(s, s->k - 2)) {
            s->k--;
            return;
        }
        if (!settle(s)) {
            combine(s, s->weight, s->x);
            return;
        }
    }
}

/* ---- for the caller -------------------------------------------------------------------------- */

/* Computes the scale, and begins with the shortest vector. */
static musec_status prepare(ms_error *e, solver *s)
{
    double  max = 0.0, shortest = INFINITY;
    int64_t first = 0;

    for (int64_t i = 0; i < s->n * s->m; i++) {
        if (!isfinite(s->g[i]))
            return ms_fail(e, MUSEC_EINVAL, "min_norm: entry %lld of vector %lld is %g",
                           (long long)(i % s->m), (long long)(i / s->m), s->g[i]);
        max = fmax(max, fabs(s->g[i]));
    }
    if (max > 0.0) {
        frexp(max, &s->shift);
        s->shift = -s->shift;
    }
    s->half = ldexp(1.0, s->shift / 2);
    s->rest = ldexp(1.0, s->shift - s->shift / 2);
    for (int64_t i = 0; i < s->n; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < s->m; j++)
            sum += entry(s, i, j) * entry(s, i, j);
        s->longest = fmax(s->longest, sqrt(sum));
        if (sum < shortest) {
            shortest = sum;
            first    = i;
        }
    }
    s->corral[0] = first;
    s->weight[0] = 1.0;
    s->k         = 1;
    combine(s, s->weight, s->x);
    return MUSEC_OK;
}

static void *numbers(int64_t a, int64_t b) /* a * b of them, at least one */
{
    size_t bytes = 0;
    if (!ms_size_stack(1, a, b, sizeof(double), &bytes)) return NULL;
    return calloc(1, bytes > 0 ? bytes : 1);
}

/* The point returned is computed from the weights.  The lower bound is the better one of that point
 * and of the solver's own x, which lacks the rounding of the weights. */
static void finish(solver *s, double tol, ms_min_norm_result *out)
{
    double sum = 0.0, least;

    farthest_below(s, &least);
    out->lower = lower_bound(s, least);
    for (int64_t i = 0; i < s->k; i++)
        sum += s->weight[i];
    for (int64_t i = 0; i < s->k; i++)
        s->weight[i] /= sum;
    combine(s, s->weight, s->x);
    farthest_below(s, &least);
    out->upper     = sqrt(dot(s->x, s->x, s->m));
    out->lower     = fmin(out->upper, fmax(out->lower, lower_bound(s, least)));
    out->certified = out->upper - out->lower <= tol * s->longest;
    out->gap       = ldexp(fmax(0.0, out->upper * out->upper - least), -2 * s->shift);
    out->upper     = ldexp(out->upper, -s->shift);
    out->lower     = ldexp(out->lower, -s->shift);
    for (int64_t j = 0; j < s->m; j++)
        out->x[j] = ldexp(s->x[j], -s->shift);
    for (int64_t i = 0; i < s->k; i++)
        out->weights[s->corral[i]] = s->weight[i];
    for (int64_t i = 0; i < s->n; i++)
        if (out->weights[i] > 0.0) out->support++;
}

musec_status ms_min_norm(ms_error *error, const double *g, int64_t n, int64_t m, double tol,
                         ms_min_norm_result *out)
{
    solver       s     = { .g = g, .n = n, .m = m };
    size_t       bytes = 0;
    musec_status st;

    *out = (ms_min_norm_result){ 0 };
    if (n < 1 || m < 1 || !(tol >= 0.0 && tol < 1.0) || !ms_size_stack(1, n, m, sizeof *g, &bytes))
        return ms_fail(error, MUSEC_EINVAL,
                       "min_norm: %lld vectors of %lld numbers, tolerance %g; expected are 1 or "
                       "more of both, and a tolerance in [0, 1)",
                       (long long)n, (long long)m, tol);
    s.capacity   = n < m + 1 ? n : m + 1;
    s.corral     = numbers(s.capacity, 1); /* as large as an int64_t */
    s.weight     = numbers(s.capacity, 1);
    s.next       = numbers(s.capacity, 1);
    s.q          = numbers(s.capacity, m);
    s.r          = numbers(s.capacity, s.capacity);
    s.givens     = numbers(s.capacity, 2);
    s.x          = numbers(m, 1);
    out->x       = numbers(m, 1);
    out->weights = numbers(n, 1);
    if (s.corral == NULL || s.weight == NULL || s.next == NULL || s.q == NULL || s.r == NULL ||
        s.givens == NULL || s.x == NULL || out->x == NULL || out->weights == NULL)
        TRY(ms_fail(error, MUSEC_ENOMEM,
                    "min_norm: not enough memory for %lld vectors of %lld numbers", (long long)n,
                    (long long)m));
    TRY(prepare(error, &s));
    iterate(&s, tol, 100 * (s.capacity + 10), out);
    finish(&s, tol, out);
done:
    free(s.x);
    free(s.givens);
    free(s.r);
    free(s.q);
    free(s.next);
    free(s.weight);
    free(s.corral);
    if (st != MUSEC_OK) ms_min_norm_free(out);
    return st;
}

void ms_min_norm_free(ms_min_norm_result *result)
{
    free(result->weights);
    free(result->x);
    *result = (ms_min_norm_result){ 0 };
}
