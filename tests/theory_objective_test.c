/* theory_objective_test.c - the test problems of the theory: subgradients against differences,
 * constants against samples, minima by certificates, noise by its moments. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "theory/objective.h"

enum { SEEDS = 3, DRAWS = 40 };

static const struct {
    int64_t rows, cols; /* 0: the problem's own */
} shapes[] = { { 0, 0 }, { 6, 10 }, { 5, 3 } };

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static double norm(const double *x, int64_t n) { return sqrt(dot(x, x, n)); }

static double *zeros(int64_t n) { return check_alloc((size_t)n * sizeof(double)); }

static ms_objective make(const char *name, int64_t rows, int64_t cols, uint64_t seed)
{
    ms_objective p;
    ms_error     e = { "" };
    CHECK_OK_ERR(&e, ms_objective_make(&e, name, rows, cols, seed, &p));
    return p;
}

/* A point in a uniform direction from the start, at a distance of at most `reach`. */
static void draw_near(const ms_objective *p, double reach, uint64_t key, uint64_t *at, double *w)
{
    const int64_t n = ms_objective_size(p);
    double        length;

    for (int64_t i = 0; i < n; i++)
        w[i] = ms_rand_normal(key, (*at)++);
    length = reach * ms_rand_uniform(key, (*at)++) / norm(w, n);
    for (int64_t i = 0; i < n; i++)
        w[i] = p->start[i] + length * w[i];
}

static double reach_of(const ms_objective *p) { return isinf(p->radius) ? 10.0 : p->radius; }

/* Calls `body` on every problem, shape and seed. */
static void each_problem(void (*body)(const ms_objective *p, uint64_t key))
{
    const char *name;
    for (size_t k = 0; (name = ms_objective_name(k, NULL)) != NULL; k++)
        for (size_t i = 0; i < COUNT(shapes); i++)
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                ms_objective p = make(name, shapes[i].rows, shapes[i].cols, seed);
                body(&p, ms_rand_key(seed, name));
                ms_objective_free(&p);
            }
}

/* Where the function is smooth between w - t d and w + t d, both halves have the slope <h, d>.
 * With a kink between them the halves differ: such draws are left out, and must be few. */
static void slope_is_the_difference(const ms_objective *p, uint64_t key)
{
    const int64_t n = ms_objective_size(p);
    double       *w = zeros(n), *d = zeros(n), *h = zeros(n), *x = zeros(n);
    const double  t    = 1e-6;
    int           used = 0;
    uint64_t      at   = 0;

    for (int k = 0; k < DRAWS; k++) {
        double here, ahead, behind, slope;
        draw_near(p, fmin(reach_of(p), 2.0), key, &at, w);
        for (int64_t i = 0; i < n; i++)
            d[i] = ms_rand_normal(key, at++) / sqrt((double)n);
        here = ms_objective_value(p, w, h);
        for (int64_t i = 0; i < n; i++)
            x[i] = w[i] + t * d[i];
        ahead = ms_objective_value(p, x, NULL);
        for (int64_t i = 0; i < n; i++)
            x[i] = w[i] - t * d[i];
        behind = ms_objective_value(p, x, NULL);
        slope  = dot(h, d, n);
        if (fabs((ahead - here) - (here - behind)) > 1e-11 * p->lipschitz + 1e-14) continue;
        used++;
        CHECK(fabs((ahead - behind) / (2.0 * t) - slope) <= 1e-7 * p->lipschitz + 1e-8,
              "draw %d: %.12g, not %.12g", k, (ahead - behind) / (2.0 * t), slope);
    }
    CHECK(used >= DRAWS * 3 / 4, "only %d of %d draws are smooth", used, DRAWS);
    free(x), free(h), free(d), free(w);
}

TEST(subgradients_agree_with_differences) { each_problem(slope_is_the_difference); }

/* No chord and no subgradient in the ball is steeper than L, and some are at least 0.02 L. */
static void no_slope_is_steeper(const ms_objective *p, uint64_t key)
{
    const int64_t n = ms_objective_size(p);
    double       *w = zeros(n), *x = zeros(n), *h = zeros(n);
    double        steepest = 0.0;
    uint64_t      at       = 0;

    for (int k = 0; k < DRAWS; k++) {
        double f, g, apart = 0.0;
        draw_near(p, reach_of(p), key, &at, w);
        draw_near(p, reach_of(p), key, &at, x);
        if (k % 2 == 1) /* close, and along the subgradient */
            for (int64_t i = 0; i < n; i++)
                x[i] = w[i];
        f        = ms_objective_value(p, w, h);
        steepest = fmax(steepest, norm(h, n));
        for (int64_t i = 0; i < n && k % 2 == 1; i++)
            x[i] -= 1e-3 * h[i] / fmax(norm(h, n), 1e-12);
        g = ms_objective_value(p, x, NULL);
        for (int64_t i = 0; i < n; i++)
            apart += (w[i] - x[i]) * (w[i] - x[i]);
        if (apart == 0.0) continue;
        /* the chord's second end may lie 1e-3 outside of the ball */
        steepest = fmax(steepest, fabs(f - g) / sqrt(apart) * (k % 2 == 1 ? 0.999 : 1.0));
    }
    CHECK(steepest <= p->lipschitz * (1.0 + 1e-9), "%.12g > L = %.12g", steepest, p->lipschitz);
    CHECK(steepest >= 0.02 * p->lipschitz, "%.3g: L = %.3g is too large", steepest, p->lipschitz);
    free(h), free(x), free(w);
}

TEST(lipschitz_constants_hold) { each_problem(no_slope_is_steeper); }

/* f(x) >= f(w) + <h, x - w> - rho/2 |x - w|^2, near and far. */
static void is_weakly_convex(const ms_objective *p, uint64_t key)
{
    const int64_t n = ms_objective_size(p);
    double       *w = zeros(n), *x = zeros(n), *h = zeros(n);
    uint64_t      at = 0;

    for (int k = 0; k < DRAWS && isfinite(p->rho); k++) {
        double f, g, line = 0.0, apart = 0.0;
        draw_near(p, reach_of(p), key, &at, w);
        draw_near(p, reach_of(p), key, &at, x);
        for (int64_t i = 0; i < n; i++) {
            x[i] = w[i] + (x[i] - w[i]) * pow(10.0, -(k % 4));
            apart += (x[i] - w[i]) * (x[i] - w[i]);
        }
        f = ms_objective_value(p, w, h);
        g = ms_objective_value(p, x, NULL);
        for (int64_t i = 0; i < n; i++)
            line += h[i] * (x[i] - w[i]);
        CHECK(g - f - line + 0.5 * p->rho * apart >= -1e-12 * (fabs(f) + fabs(g) + fabs(line)),
              "draw %d: %.6g below the parabola of rho = %g", k,
              -(g - f - line + 0.5 * p->rho * apart), p->rho);
    }
    free(h), free(x), free(w);
}

TEST(weak_convexity_holds) { each_problem(is_weakly_convex); }

/* How far f lies below its tangent at w, a step d away, over |d|^2 / 2: rho is at least that. */
static double bend_down(const ms_objective *p, const double *w, const double *d)
{
    const int64_t n = ms_objective_size(p);
    double       *x = zeros(n), *h = zeros(n), f, g;

    for (int64_t i = 0; i < n; i++)
        x[i] = w[i] + d[i];
    f = ms_objective_value(p, w, h);
    g = ms_objective_value(p, x, NULL) - f - dot(h, d, n);
    free(h), free(x);
    return -2.0 * g / dot(d, d, n);
}

/* The top right singular vector of a matrix of n rows of length m, by power iteration. */
static void top_vector(const double *a, int64_t n, int64_t m, double *v)
{
    double *y = zeros(m);
    for (int64_t k = 0; k < m; k++)
        v[k] = 1.0 + 0.1 * (double)k;
    for (int it = 0; it < 20000; it++) {
        memset(y, 0, (size_t)m * sizeof *y);
        for (int64_t i = 0; i < n; i++) {
            const double s = dot(a + i * m, v, m);
            for (int64_t k = 0; k < m; k++)
                y[k] += s * a[i * m + k];
        }
        for (int64_t k = 0; k < m; k++)
            v[k] = y[k] / norm(y, m);
    }
    free(y);
}

/* Phase retrieval curves down most at W = 0, where every residual is negative, along the top
 * singular vector of A: there rho is attained, and a smaller one would be wrong. */
TEST(phase_attains_its_weak_convexity_constant)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        ms_objective  p = make("phase", 0, 0, seed);
        const int64_t n = ms_objective_size(&p);
        double       *w = zeros(n), *d = zeros(n), *v = zeros(p.rows), reach = INFINITY;
        top_vector(p.a, p.n, p.rows, v);
        for (int64_t i = 0; i < p.n; i++) /* no residual may change its sign on the way */
            reach = fmin(reach, sqrt(p.b[i]) / fabs(dot(p.a + i * p.rows, v, p.rows)));
        for (int64_t k = 0; k < p.rows; k++)
            d[k * p.cols + (int64_t)seed] = 0.9 * reach * v[k];
        CHECK(fabs(bend_down(&p, w, d) - p.rho) <= 1e-6 * p.rho, "%.12g, rho %.12g",
              bend_down(&p, w, d), p.rho);
        free(v), free(d), free(w);
        ms_objective_free(&p);
    }
}

/* Completion attains rho where every residual is positive: all u_i and v_j are large and equal, and
 * are moved apart along the top singular vectors of the matrix of known entries. */
TEST(completion_attains_its_weak_convexity_constant)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        ms_objective  p = make("completion", 0, 0, seed);
        const int64_t n = ms_objective_size(&p), half = p.rows / 2;
        double       *w = zeros(n), *d = zeros(n), *known = zeros(half * half), *v = zeros(half);
        double       *u = zeros(half);
        for (int64_t i = 0; i < p.n; i++)
            known[p.at[2 * i] * half + p.at[2 * i + 1] - half] = 1.0;
        top_vector(known, half, half, v);
        for (int64_t i = 0; i < half; i++)
            u[i] = dot(known + i * half, v, half);
        for (int64_t i = 0; i < half; i++) {
            d[i * p.cols]          = 0.1 * u[i] / norm(u, half);
            d[(half + i) * p.cols] = -0.1 * v[i];
        }
        for (int64_t i = 0; i < p.rows; i++)
            w[i * p.cols] = 10.0;
        CHECK(fabs(bend_down(&p, w, d) - p.rho) <= 1e-6 * p.rho, "%.12g, rho %.12g",
              bend_down(&p, w, d), p.rho);
        free(u), free(v), free(known), free(d), free(w);
        ms_objective_free(&p);
    }
}

/* Along a row whose output weight is negative the slope falls at a kink by an amount that does not
 * depend on the step's length. */
TEST(the_network_is_not_weakly_convex)
{
    ms_objective p     = make("relu", 0, 0, 1);
    double       worst = 0.0;
    uint64_t     at    = 0;

    CHECK(isinf(p.rho), "rho %g", p.rho);
    const int64_t n = ms_objective_size(&p);
    double       *w = zeros(n), *x = zeros(n), *y = zeros(n), *h = zeros(n);
    for (int k = 0; k < 4000; k++) { /* second differences over 1e-3 */
        double bend;
        draw_near(&p, 1.0, 77, &at, w);
        for (int64_t i = 0; i < n; i++) {
            const double d = 1e-3 * ms_rand_normal(78, at++) / sqrt((double)n);
            x[i]           = w[i] + d;
            y[i]           = w[i] - d;
        }
        bend = ms_objective_value(&p, x, NULL) + ms_objective_value(&p, y, NULL) -
               2.0 * ms_objective_value(&p, w, NULL);
        worst = fmin(worst, bend / 1e-6);
    }
    CHECK(worst < -0.5, "no kink points down: %g", worst);
    free(h), free(y), free(x), free(w);
    ms_objective_free(&p);
}

static void minima_are_attained(const ms_objective *p, uint64_t key)
{
    const int64_t n  = ms_objective_size(p);
    double       *w  = zeros(n);
    uint64_t      at = 0;

    if (!isnan(p->minimum)) {
        CHECK(fabs(ms_objective_value(p, p->target, NULL) - p->minimum) <= 1e-12, "f(target) %g",
              ms_objective_value(p, p->target, NULL));
        CHECK(ms_objective_value(p, p->start, NULL) > p->minimum + 1e-3, "the start is no start");
    }
    for (int k = 0; k < DRAWS; k++) {
        draw_near(p, reach_of(p), key, &at, w);
        CHECK(ms_objective_value(p, w, NULL) >= (isnan(p->minimum) ? 0.0 : p->minimum), "draw %d",
              k);
    }
    free(w);
}

TEST(known_minima_are_attained) { each_problem(minima_are_attained); }

/* out <- A_u^T A_u v, where A_u has the rows of A (stored by entry) without outliers, and scratch
 * <- A_u v. */
static void apply_gram(const ms_objective *p, const double *v, double *scratch, double *out)
{
    const int64_t size = ms_objective_size(p);
    for (int64_t i = 0; i < p->n; i++) {
        scratch[i] = 0.0;
        for (int64_t k = 0; k < size && i % 20 != 0; k++)
            scratch[i] += p->a[k * p->n + i] * v[k];
    }
    for (int64_t k = 0; k < size; k++)
        out[k] = dot(p->a + k * p->n, scratch, p->n);
}

/* The target is the minimum of this convex function if zero is a subgradient there: if multipliers
 * in [-1, 1] for the exact measurements balance the signs of the outliers.  Conjugate gradients
 * find those of least squares. */
TEST(the_target_of_sensing_is_its_minimum)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        ms_objective  p    = make("sensing", 0, 0, seed);
        const int64_t size = ms_objective_size(&p);
        double       *b = zeros(size), *v = zeros(size), *r = zeros(size), *d = zeros(size),
               *q = zeros(size);
        double *s = zeros(p.n), worst = 0.0;
        for (int64_t k = 0; k < size; k++)
            for (int64_t i = 0; i < p.n; i += 20) { /* the residual at the target: -outlier */
                double miss = -p.b[i];
                for (int64_t j = 0; j < size; j++)
                    miss += p.a[j * p.n + i] * p.target[j];
                b[k] -= p.a[k * p.n + i] * (miss > 0.0 ? 1.0 : -1.0);
            }
        memcpy(r, b, (size_t)size * sizeof *r);
        memcpy(d, b, (size_t)size * sizeof *d);
        for (int it = 0; it < 400 && norm(r, size) > 1e-13 * norm(b, size); it++) {
            const double rr = dot(r, r, size);
            apply_gram(&p, d, s, q);
            const double step = rr / dot(d, q, size);
            for (int64_t k = 0; k < size; k++) {
                v[k] += step * d[k];
                r[k] -= step * q[k];
            }
            const double more = dot(r, r, size) / rr;
            for (int64_t k = 0; k < size; k++)
                d[k] = r[k] + more * d[k];
        }
        apply_gram(&p, v, s, q); /* s: the multipliers; q: their sum */
        for (int64_t i = 0; i < p.n; i++)
            worst = fmax(worst, fabs(s[i]));
        for (int64_t k = 0; k < size; k++)
            CHECK(fabs(q[k] - b[k]) <= 1e-9 * norm(b, size), "not balanced");
        CHECK(worst <= 1.0, "seed %llu: a multiplier of %g", (unsigned long long)seed, worst);
        CHECK(p.minimum == ms_objective_value(&p, p.target, NULL), "the minimum is not known");
        free(s), free(q), free(d), free(r), free(v), free(b);
        ms_objective_free(&p);
    }
}

/* The minimum of f over two variables: two residuals are zero there, so all pairs are tried. */
static double least_of_two_numbers(const ms_objective *p)
{
    double least = INFINITY;
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t k = 0; k < i; k++) {
            const double *x = p->a, *y = p->a + p->n, det = x[i] * y[k] - x[k] * y[i];
            const double  w[2] = { (p->b[i] * y[k] - p->b[k] * y[i]) / det,
                                   (x[i] * p->b[k] - x[k] * p->b[i]) / det };
            least              = fmin(least, ms_objective_value(p, w, NULL));
        }
    return least;
}

/* With 2 x 1 unknowns there are six measurements, one of them an outlier, and for some seeds the
 * minimum is not at the target.  It must not be called known then; where it is, it is right. */
TEST(a_small_sensing_may_have_another_minimum)
{
    int n_known = 0, n_lower = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        ms_objective p         = make("sensing", 2, 1, seed);
        const double at_target = ms_objective_value(&p, p.target, NULL);
        const double least     = least_of_two_numbers(&p);
        const bool   lower     = least < at_target - 1e-12;
        n_lower += lower;
        n_known += !isnan(p.minimum);
        CHECK(least <= at_target + 1e-12, "seed %llu: a pair is left out",
              (unsigned long long)seed);
        CHECK(isnan(p.minimum) || (!lower && p.minimum == at_target),
              "seed %llu: %g is no minimum, %g is", (unsigned long long)seed, p.minimum, least);
        if (seed == 1) CHECK(lower && isnan(p.minimum), "%g, %g", p.minimum, least);
        ms_objective_free(&p);
    }
    CHECK(n_lower > 0 && n_known >= 200, "%d are lower, %d known", n_lower, n_known);
}

/* Mean 0 and E|.|^2 = sigma^2, each within five standard deviations. */
TEST(noise_has_its_moments)
{
    enum { STEPS = 4000 };
    const double sigma = 0.7;
    ms_objective p     = make("max", 5, 4, 0);
    double      *mean = zeros(20), *g = zeros(20), squares = 0.0;
    for (int64_t t = 0; t < STEPS; t++) {
        memset(g, 0, 20 * sizeof *g);
        ms_objective_noise(&p, sigma, 3, t, g);
        squares += dot(g, g, 20) / STEPS;
        for (int i = 0; i < 20; i++)
            mean[i] += g[i] / STEPS;
    }
    CHECK(fabs(squares - sigma * sigma) <= 5.0 * sigma * sigma * sqrt(2.0 / (20.0 * STEPS)),
          "E|.|^2 = %g", squares);
    CHECK(norm(mean, 20) <= 5.0 * sigma / sqrt((double)STEPS), "mean %g", norm(mean, 20));
    memset(g, 0, 20 * sizeof *g);
    ms_objective_noise(&p, 0.0, 3, 0, g);
    CHECK(norm(g, 20) == 0.0, "sigma 0");
    free(g), free(mean);
    ms_objective_free(&p);
}

TEST(problems_depend_on_their_seed_alone)
{
    const char *name;
    for (size_t k = 0; (name = ms_objective_name(k, NULL)) != NULL; k++) {
        ms_objective a = make(name, 4, 6, 5), b = make(name, 4, 6, 5), c = make(name, 4, 6, 6);
        CHECK(memcmp(a.start, b.start, 24 * sizeof *a.start) == 0, "%s: another start", name);
        CHECK(ms_objective_value(&a, c.start, NULL) == ms_objective_value(&b, c.start, NULL), "%s",
              name);
        CHECK(memcmp(a.start, c.start, 24 * sizeof *a.start) != 0, "%s: the same start", name);
        ms_objective_free(&c), ms_objective_free(&b), ms_objective_free(&a);
    }
}

TEST(unknown_problems_and_impossible_shapes_are_refused)
{
    ms_objective p;
    ms_error     e = { "" };
    CHECK_FAILS(&e, ms_objective_make(&e, "phases", 0, 0, 0, &p), MUSEC_EINVAL,
                "\"phases\"; there are sensing, phase");
    CHECK_FAILS(&e, ms_objective_make(&e, "kinks", 1, 4, 0, &p), MUSEC_EINVAL,
                "kinks takes 2 to 4096 rows, not 1");
    CHECK(ms_objective_make(&e, "max", 4, -1, 0, &p) == MUSEC_EINVAL, "a negative side");
    CHECK(p.start == NULL && p.a == NULL, "something is left");
}
