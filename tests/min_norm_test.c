/* min_norm_test.c - the point of a convex hull nearest to 0: all faces, known geometry. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "oracle.h"
#include "theory/min_norm.h"

enum { MOST_POINTS = 7, MOST_DIMENSIONS = 4 };

/* ---- the minimum over every face --------------------------------------------------------------
 *
 * The nearest point lies inside a face spanned by affinely independent points and is the point of
 * least norm of their affine hull.  So it is the least, over all subsets, of those affine minima
 * that have no negative weight.  They solve [A 1; 1^T 0] (c, mu) = (0, 1) with the Gram matrix A,
 * in long double because the Gram matrix squares the condition number. */

static int solve(long double a[][MOST_POINTS + 2], int n) /* column n: the right side, the result */
{
    for (int c = 0; c < n; c++) {
        int pivot = c;
        for (int i = c + 1; i < n; i++)
            if (fabsl(a[i][c]) > fabsl(a[pivot][c])) pivot = i;
        if (fabsl(a[pivot][c]) < 1e-13L) return 0;
        for (int j = 0; j <= n; j++) {
            const long double swap = a[c][j];
            a[c][j]                = a[pivot][j];
            a[pivot][j]            = swap;
        }
        for (int i = 0; i < n; i++)
            for (int j = n; i != c && j >= c; j--)
                a[i][j] -= a[i][c] / a[c][c] * a[c][j];
    }
    for (int i = 0; i < n; i++)
        a[i][n] /= a[i][i];
    return 1;
}

static double face_norm(const double *g, int m, const int *subset, int k) /* INFINITY: not inside */
{
    long double a[MOST_POINTS + 1][MOST_POINTS + 2] = { { 0 } }, norm2 = 0.0L;

    for (int i = 0; i < k; i++) {
        for (int l = 0; l < k; l++)
            for (int j = 0; j < m; j++)
                a[i][l] += (long double)g[subset[i] * m + j] * g[subset[l] * m + j];
        a[i][k] = a[k][i] = 1.0L;
    }
    a[k][k + 1] = 1.0L;
    if (!solve(a, k + 1)) return INFINITY;
    for (int i = 0; i < k; i++)
        if (a[i][k + 1] < -1e-13L) return INFINITY;
    for (int j = 0; j < m; j++) {
        long double x = 0.0L;
        for (int i = 0; i < k; i++)
            x += a[i][k + 1] * g[subset[i] * m + j];
        norm2 += x * x;
    }
    return (double)sqrtl(norm2);
}

static double brute_force(const double *g, int n, int m)
{
    double least = INFINITY;
    for (unsigned set = 1; set < 1u << n; set++) {
        int subset[MOST_POINTS], k = 0;
        for (int i = 0; i < n; i++)
            if (set & 1u << i) subset[k++] = i;
        least = fmin(least, face_norm(g, m, subset, k));
    }
    return least;
}

/* ---- properties of every answer -------------------------------------------------------------- */

static ms_min_norm_result solved(const double *g, int64_t n, int64_t m, double tol)
{
    ms_min_norm_result r;
    ms_error           e   = { "" };
    double             sum = 0.0, off = 0.0, longest = 0.0, norm2 = 0.0, least = INFINITY;

    CHECK_OK_ERR(&e, ms_min_norm(&e, g, n, m, tol, &r));
    for (int64_t i = 0; i < n; i++) {
        double g2 = 0.0;
        CHECK(r.weights[i] >= 0.0 && r.weights[i] <= 1.0, "weight %g", r.weights[i]);
        sum += r.weights[i];
        for (int64_t j = 0; j < m; j++)
            g2 += g[i * m + j] * g[i * m + j];
        longest = fmax(longest, sqrt(g2));
    }
    CHECK(fabs(sum - 1.0) <= 1e-14 * (double)(m + 2), "weights sum to 1 + %g", sum - 1.0);
    for (int64_t j = 0; j < m; j++) {
        double x = 0.0;
        for (int64_t i = 0; i < n; i++)
            x += r.weights[i] * g[i * m + j];
        off = fmax(off, fabs(x - r.x[j]));
        norm2 += r.x[j] * r.x[j];
    }
    CHECK(off <= 1e-14 * (double)(m + 2) * longest, "x is off its weights by %g", off);
    CHECK(fabs(sqrt(norm2) - r.upper) <= 1e-14 * longest, "upper %g of |x| %g", r.upper,
          sqrt(norm2));
    CHECK(r.lower >= 0.0 && r.lower <= r.upper, "bounds %g, %g", r.lower, r.upper);
    for (int64_t i = 0; i < n; i++) { /* the gap, by its definition */
        double d = 0.0;
        for (int64_t j = 0; j < m; j++)
            d += r.x[j] * g[i * m + j];
        least = fmin(least, d);
    }
    CHECK(fabs(r.gap - fmax(0.0, norm2 - least)) <= 1e-14 * longest * longest, "gap %g, not %g",
          r.gap, norm2 - least);
    if (r.upper > 0.0)
        CHECK(r.lower >= least / r.upper - 1e-14 * longest, "lower bound %g, by the point %g",
              r.lower, least / r.upper);
    return r;
}

static void expect(const char *what, const double *g, int64_t n, int64_t m, double want, double tol)
{
    ms_min_norm_result r = solved(g, n, m, 1e-13);
    CHECK(r.certified && !r.limited, "%s: %g to %g after %lld points", what, r.lower, r.upper,
          (long long)r.iterations);
    CHECK(fabs(r.upper - want) <= tol, "%s: %.17g, not %.17g", what, r.upper, want);
    CHECK(r.support >= 1 && r.support <= m + 1, "%s: %lld points", what, (long long)r.support);
    ms_min_norm_free(&r);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(the_nearest_point_is_the_minimum_over_all_faces)
{
    uint64_t seed  = 5;
    double   worst = 0.0;
    int      zero  = 0;

    for (int c = 0; c < 3000; c++) {
        const int    n = 1 + c % MOST_POINTS, m = 1 + c / MOST_POINTS % MOST_DIMENSIONS;
        const double away = c % 3 == 0 ? 0.0 : 2.0 * oracle_uniform(&seed);
        double       g[MOST_POINTS * MOST_DIMENSIONS];

        for (int i = 0; i < n * m; i++) /* around (away, 0, ...), which may be far from 0 */
            g[i] = oracle_normal(&seed) + (i % m == 0 ? away : 0.0);
        if (c % 5 == 1 && n > 2) memcpy(g + m, g, (size_t)m * sizeof *g); /* a duplicate */
        if (c % 7 == 2 && n > 2) /* a point between two others */
            for (int j = 0; j < m; j++)
                g[2 * m + j] = 0.5 * (g[j] + g[m + j]);
        if (c % 11 == 3) /* an almost flat hull */
            for (int i = 0; i < n; i++)
                g[i * m + m - 1] = 1.0 + 1e-6 * g[i * m + m - 1];
        const double want = brute_force(g, n, m);
        zero += want <= 1e-9;
        ms_min_norm_result r = solved(g, n, m, 1e-13);
        CHECK(r.certified, "hull %d: %g to %g", c, r.lower, r.upper);
        CHECK(fabs(r.upper - want) <= 1e-9, "hull %d: %.17g, by faces %.17g", c, r.upper, want);
        CHECK(r.lower <= want + 1e-9, "hull %d: lower bound %.17g of %.17g", c, r.lower, want);
        worst = fmax(worst, fabs(r.upper - want));
        ms_min_norm_free(&r);
    }
    CHECK(zero > 100 && zero < 2900, "%d of 3000 hulls have zero inside", zero);
    CHECK(worst <= 1e-12, "worst %g", worst); /* 3e-15 is observed */
}

TEST(hulls_of_known_geometry_are_solved)
{
    static const double one[]     = { 3.0, -4.0 };
    static const double segment[] = { -1.0, 2.0, 3.0, 2.0 };
    static const double corner[]  = { 1.0, 2.0, 2.0, 1.0, 5.0, 5.0 };
    static const double square[]  = { 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0 };
    static const double flat[]    = { 1.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0, -1.0, 1.0, 0.5 };
    static const double zeros[]   = { 0.0, 0.0, 0.0, 0.0 };
    static const double a_zero[]  = { 1.0, 1.0, 0.0, 0.0, 2.0, 1.0 };
    double              simplex[40 * 40];

    expect("a point", one, 1, 2, 5.0, 1e-15);
    expect("a segment", segment, 2, 2, 2.0, 1e-15);
    expect("a triangle's edge", corner, 3, 2, 3.0 / sqrt(2.0), 1e-15);
    expect("a square around zero", square, 4, 2, 0.0, 1e-15);
    expect("five on a line", flat, 5, 2, 1.0, 1e-15);
    expect("zeros", zeros, 2, 2, 0.0, 0.0);
    expect("zero among them", a_zero, 3, 2, 0.0, 0.0);
    for (int n = 2; n <= 40; n++) { /* e_1 ... e_n: their mean, at 1/sqrt(n) */
        memset(simplex, 0, sizeof simplex);
        for (int i = 0; i < n; i++)
            simplex[i * n + i] = 1.0;
        expect("a simplex", simplex, n, n, 1.0 / sqrt(n), 1e-14);
    }
}

/* The sphere of radius 1 around (2, 0, ...) has its nearest point at distance 1.  10,000 points of
 * it and their mirror images in the first axis: by symmetry the answer lies on that axis. */
TEST(hulls_of_many_points_are_solved)
{
    enum { HALF = 10000, M = 6 };
    double            *g    = malloc(2 * HALF * M * sizeof *g);
    double            *far  = malloc(2 * HALF * M * sizeof *far);
    uint64_t           seed = 11;
    ms_min_norm_result r;

    for (int i = 0; i < HALF; i++) {
        double norm2 = 0.0;
        for (int j = 0; j < M; j++) {
            g[i * M + j] = oracle_normal(&seed);
            norm2 += g[i * M + j] * g[i * M + j];
        }
        for (int j = 0; j < M; j++) {
            const double x          = g[i * M + j] / sqrt(norm2);
            g[i * M + j]            = j == 0 ? 2.0 + x : x;
            g[(HALF + i) * M + j]   = j == 0 ? 2.0 + x : -x;
            far[i * M + j]          = x;
            far[(HALF + i) * M + j] = -x;
        }
    }
    r = solved(g, 2 * HALF, M, 1e-13);
    CHECK(r.certified, "%g to %g", r.lower, r.upper);
    CHECK(r.upper >= 1.0 && r.upper <= 1.1, "%.17g", r.upper);
    for (int j = 1; j < M; j++)
        CHECK(fabs(r.x[j]) <= 1e-12, "x[%d] = %g", j, r.x[j]);
    ms_min_norm_free(&r);
    r = solved(far, 2 * HALF, M, 1e-13); /* zero is inside */
    CHECK(r.certified && r.upper <= 1e-12, "%g", r.upper);
    ms_min_norm_free(&r);
    free(far), free(g);
}

/* A power of two changes no digit, another scale only rounding, and duplicates change nothing. */
TEST(the_answer_scales_and_ignores_duplicates)
{
    static const double scale[] = { 0x1p-1000, 0x1p-500, 0x1p500, 0x1p1000, 1e-300, 3e300 };
    enum { N = 30, M = 12 };
    double            *g    = oracle_gaussian(N, M, 3);
    double            *more = malloc(3 * N * M * sizeof *more);
    ms_min_norm_result a, b;
    ms_error           e = { "" };

    for (int i = 0; i < N; i++)
        g[i * M] += 3.0;
    a = solved(g, N, M, 1e-13);
    CHECK(a.certified && a.lower > 0.1, "%g", a.lower);
    for (size_t s = 0; s < COUNT(scale); s++) {
        for (int i = 0; i < N * M; i++)
            more[i] = g[i] * scale[s];
        CHECK_OK_ERR(&e, ms_min_norm(&e, more, N, M, 1e-13, &b));
        CHECK(b.certified, "scale %g", scale[s]);
        CHECK(fabs(b.upper / scale[s] / a.upper - 1.0) <= (s < 4 ? 0.0 : 1e-13), "scale %g: %.17g",
              scale[s], b.upper / scale[s] / a.upper - 1.0);
        CHECK(fabs(b.lower / scale[s] / a.lower - 1.0) <= (s < 4 ? 0.0 : 1e-13), "scale %g",
              scale[s]);
        ms_min_norm_free(&b);
    }
    for (int i = 0; i < 3 * N * M; i++)
        more[i] = g[i % (N * M)];
    b = solved(more, 3 * (int64_t)N, M, 1e-13);
    CHECK(b.certified && b.support == a.support, "%lld points, not %lld", (long long)b.support,
          (long long)a.support);
    CHECK(memcmp(a.x, b.x, M * sizeof *a.x) == 0, "duplicates change the point");
    ms_min_norm_free(&b);
    ms_min_norm_free(&a);
    free(more), free(g);
}

/* 0 lies just inside or just outside the hull, or vectors have very different lengths. */
TEST(ill_conditioned_hulls_are_solved)
{
    uint64_t seed = 8;

    for (int p = 0; p <= 12; p++) { /* a triangle whose edge passes zero at 10^-p */
        const double       h         = pow(10.0, -p);
        const double       outside[] = { -1.0, h, 1.0, h, 0.0, 1e6 };
        const double       inside[]  = { -1.0, -h, 1.0, -h, 0.0, 1e6 };
        ms_min_norm_result r         = solved(outside, 3, 2, 1e-13);
        CHECK(fabs(r.upper - h) <= 1e-9, "edge at %g: %.17g", h, r.upper);
        CHECK(r.lower <= h * (1.0 + 1e-12), "edge at %g: lower %.17g", h, r.lower);
        ms_min_norm_free(&r);
        r = solved(inside, 3, 2, 1e-16);
        CHECK(r.upper <= 1e-9, "inside by %g: %.17g", h, r.upper);
        ms_min_norm_free(&r);
    }
    for (int p = 1; p <= 9; p++) { /* points of a plane at distance 10^-p in 20 dimensions */
        const double       h = pow(10.0, -p);
        double            *g = oracle_gaussian(100, 20, (uint64_t)p);
        ms_min_norm_result r;
        for (int i = 0; i < 100; i++)
            g[i * 20] = h;
        r = solved(g, 100, 20, 1e-13);
        CHECK(r.certified, "plane at %g: %g to %g", h, r.lower, r.upper);
        CHECK(fabs(r.upper - h) <= 1e-14 && fabs(r.lower - h) <= 1e-12,
              "plane at %g: %.17g to %.17g", h, r.lower, r.upper);
        ms_min_norm_free(&r);
        free(g);
    }
    for (int c = 0; c < 200; c++) { /* 50 vectors of length 10^-4 to 10^4 in 20 dimensions */
        double            *g = oracle_gaussian(50, 20, (uint64_t)c);
        ms_min_norm_result r;
        for (int i = 0; i < 50; i++) {
            const double length = pow(10.0, 8.0 * oracle_uniform(&seed) - 4.0);
            for (int j = 0; j < 20; j++)
                g[i * 20 + j] = length * (g[i * 20 + j] + (j == 0 ? 3.0 : 0.0));
        }
        r = solved(g, 50, 20, 1e-12);
        CHECK(r.certified, "hull %d: %g to %g", c, r.lower, r.upper);
        ms_min_norm_free(&r);
        free(g);
    }
}

TEST(invalid_arguments_are_refused)
{
    static const double good[] = { 1.0, 2.0 }, bad[] = { 1.0, NAN }, big[] = { INFINITY, 0.0 };
    ms_min_norm_result  r;
    ms_error            e = { "" };

    CHECK(ms_min_norm(&e, good, 0, 2, 1e-12, &r) == MUSEC_EINVAL, "no vectors");
    CHECK(ms_min_norm(&e, good, 1, 0, 1e-12, &r) == MUSEC_EINVAL, "no dimensions");
    CHECK(ms_min_norm(&e, good, 1, 2, NAN, &r) == MUSEC_EINVAL, "tolerance nan");
    CHECK(ms_min_norm(&e, good, 1, 2, -1.0, &r) == MUSEC_EINVAL, "tolerance -1");
    CHECK(ms_min_norm(&e, good, INT64_MAX, 2, 1e-12, &r) == MUSEC_EINVAL, "overflow");
    CHECK_FAILS(&e, ms_min_norm(&e, bad, 2, 1, 1e-12, &r), MUSEC_EINVAL, "entry 0 of vector 1");
    CHECK(ms_min_norm(&e, big, 1, 2, 1e-12, &r) == MUSEC_EINVAL, "inf");
    CHECK(r.x == NULL && r.weights == NULL, "something is left");
}

TEST(the_search_ends_without_a_tolerance)
{
    int hasty = 0;
    for (uint64_t c = 0; c < 300; c++) {
        double            *g = oracle_gaussian(40, 8, c);
        ms_min_norm_result r;
        for (int i = 0; i < 40; i++)
            g[i * 8] += c % 2 == 0 ? 2.0 : 0.0;
        r = solved(g, 40, 8, 0.0);
        CHECK(!r.limited, "hull %llu", (unsigned long long)c);
        CHECK(r.upper - r.lower <= 1e-13, "hull %llu: %g", (unsigned long long)c,
              r.upper - r.lower);
        ms_min_norm_free(&r);
        r = solved(g, 40, 8, 0.3); /* a loose tolerance */
        CHECK(r.certified && r.gap >= 0.0, "hull %llu: %g", (unsigned long long)c, r.gap);
        hasty += r.gap > 0.01;
        ms_min_norm_free(&r);
        free(g);
    }
    CHECK(hasty > 30, "%d of 300 stopped early", hasty);
}
