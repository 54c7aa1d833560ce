/* theory_proposition_test.c - Proposition 1 by duality: the exact hard clip solves
 *
 *     minimise <G, X> + (lambda/2) |X|_F^2 subject to |X|_2 <= D / lambda
 *
 * at X = -hard(G, D) / lambda.
 *
 * For any P, splitting <G, X> = <G - P, X> + <P, X> and minimising each part alone gives the bound
 *
 *     d(P) = -|G - P|_F^2 / (2 lambda) - (D / lambda) |P|_*
 *
 * below every feasible value.  At P = G - hard(G, D) it equals the value of -hard(G, D) / lambda,
 * so both are the optimum.  That needs no solver and no derivative, and shares no code with the
 * operator under test. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "clip_run.h"
#include "oracle.h"

enum { PROBLEMS = 500 };

typedef struct problem {
    int64_t rows, cols;
    oracle  o;
    double  lambda, D;
} problem;

/* Spectra of full rank, deficient, flat, steep and of rank one; D inside, below or above them. */
static problem problem_make(int c, uint64_t *seed)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 1, 7 }, { 7, 1 },  { 2, 2 },  { 3, 5 },
                                         { 5, 3 }, { 8, 8 }, { 4, 16 }, { 16, 4 }, { 12, 12 } };
    const int64_t       *shape       = shapes[c % (int)COUNT(shapes)];
    const int64_t        k           = shape[0] < shape[1] ? shape[0] : shape[1];
    const double         top         = pow(10.0, 4.0 * oracle_uniform(seed) - 2.0);
    const int            kind        = c / 10 % 5;
    double               s[16]       = { 0.0 };
    problem              p           = { .rows = shape[0], .cols = shape[1] };

    for (int64_t i = 0; i < k; i++)
        s[i] = kind == 0   ? top * oracle_uniform(seed)
               : kind == 1 ? top * (i < (k + 1) / 2 ? oracle_uniform(seed) : 0.0)
               : kind == 2 ? top
               : kind == 3 ? top * pow(10.0, -(double)i)
                           : (i == 0 ? top : 0.0);
    p.o      = oracle_make_from(p.rows, p.cols, s, (uint64_t)c);
    p.lambda = pow(10.0, 4.0 * oracle_uniform(seed) - 2.0);
    p.D      = top * (c % 4 == 0 ? 1.5 : c % 4 == 1 ? 1e-3 : oracle_uniform(seed));
    return p;
}

/* (value - bound) / size for X = -clipped / lambda and P = G - clipped; *known: the distance of the
 * value from the optimum of the chosen singular values over size; *outside: |clipped|_2 / D - 1. */
static double duality_gap(const problem *p, const double *clipped, double *known, double *outside)
{
    const int64_t n      = p->rows * p->cols;
    double       *excess = malloc((size_t)n * sizeof *excess);
    double        s[16], inner = 0.0, norm2 = 0.0, nuclear = 0.0, best = 0.0, value, bound, size;

    for (int64_t i = 0; i < n; i++) {
        inner += p->o.x[i] * clipped[i];
        norm2 += clipped[i] * clipped[i];
        excess[i] = p->o.x[i] - clipped[i];
    }
    oracle_singular_values(excess, MUSEC_F64, p->rows, p->cols, s);
    for (int64_t i = 0; i < p->o.k; i++) {
        const double a = fmin(p->o.s[i], p->D);
        nuclear += s[i];
        best += (a * a / 2.0 - a * p->o.s[i]) / p->lambda;
    }
    value    = -inner / p->lambda + norm2 / (2.0 * p->lambda);
    bound    = -norm2 / (2.0 * p->lambda) - p->D / p->lambda * nuclear;
    size     = (fabs(inner) + norm2) / p->lambda;
    *known   = size > 0.0 ? fabs(value - best) / size : 0.0;
    *outside = oracle_norm2(clipped, MUSEC_F64, p->rows, p->cols) / p->D - 1.0;
    free(excess);
    return size > 0.0 ? (value - bound) / size : 0.0;
}

typedef struct outcome {
    double largest, known; /* over all problems */
    int    short_of;       /* problems whose value is not the optimum */
} outcome;

/* Clips every problem's G; the result must be feasible, and no value may lie below a bound. */
static outcome clip_problems(ms_device *dev, const char *op, uint64_t seed)
{
    outcome out = { 0 };
    for (int c = 0; c < PROBLEMS; c++) {
        problem                 p   = problem_make(c, &seed);
        const musec_clip_config cfg = run_config(op, p.D);
        double      *clipped        = run_clip(dev, &cfg, MUSEC_F64, p.o.x, p.rows, p.cols, NULL);
        double       known, outside;
        const double gap = duality_gap(&p, clipped, &known, &outside);
        CHECK(gap >= -1e-10, "problem %d, %lldx%lld, D %g: the gap is %g", c, (long long)p.rows,
              (long long)p.cols, p.D, gap);
        CHECK(outside <= 1e-12, "problem %d: |X|_2 is above D by %g", c, outside);
        CHECK(isfinite(gap) && isfinite(known), "problem %d: gap %g, %g", c, gap, known);
        out.largest = fmax(out.largest, gap);
        out.known   = fmax(out.known, known);
        out.short_of += known > 1e-4;
        free(clipped);
        oracle_free(&p.o);
    }
    return out;
}

TEST_EACH_DEVICE(the_hard_clip_is_optimal, dev)
{
    if (!ms_device_has(dev, MUSEC_F64)) SKIP_DEVICE("%s has no float64", dev->name);
    const outcome worst = clip_problems(dev, "hard", 17);
    CHECK(worst.largest <= 1e-10, "a gap of %g", worst.largest);
    CHECK(worst.known <= 1e-10, "%g from the known optimum", worst.known);
}

/* The soft clip is feasible, but not optimal where a singular value is near D. */
TEST_EACH_DEVICE(the_soft_clip_is_not, dev)
{
    if (!ms_device_has(dev, MUSEC_F64)) SKIP_DEVICE("%s has no float64", dev->name);
    const outcome soft = clip_problems(dev, "soft", 23);
    CHECK(soft.short_of > PROBLEMS / 2, "%d of %d problems", soft.short_of, PROBLEMS);
}
