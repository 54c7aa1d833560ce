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
 * below every feasible value.  At P = G - hard(G, D) it meets the value of -hard(G, D) / lambda, so
 * both are the optimum: no solver and no derivative are needed, and nothing here is shared with the
 * operator that is judged. */
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

/* Full rank, deficient, flat and steep spectra; D inside the spectrum, below it, and above it. */
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

/* (value - bound) / size for X = -clipped / lambda and P = G - clipped; *known: the value minus
 * what the chosen singular values say that the optimum is, likewise. */
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

TEST_EACH_DEVICE(the_hard_clip_is_optimal, dev)
{
    uint64_t seed = 17;

    if (!ms_device_has(dev, MUSEC_F64)) SKIP_DEVICE("%s has no float64", dev->name);
    for (int c = 0; c < PROBLEMS; c++) {
        problem                 p   = problem_make(c, &seed);
        const musec_clip_config cfg = run_config("hard", p.D);
        double      *clipped        = run_clip(dev, &cfg, MUSEC_F64, p.o.x, p.rows, p.cols, NULL);
        double       known, outside;
        const double gap = duality_gap(&p, clipped, &known, &outside);

        CHECK(fabs(gap) <= 1e-10, "problem %d, %lldx%lld, D %g: the gap is %g", c,
              (long long)p.rows, (long long)p.cols, p.D, gap);
        CHECK(known <= 1e-10, "problem %d: %g from the known optimum", c, known);
        CHECK(outside <= 1e-12, "problem %d: |X|_2 is above D by %g", c, outside);
        free(clipped);
        oracle_free(&p.o);
    }
}

/* The soft clip is feasible, but no optimum wherever a singular value is near D. */
TEST_EACH_DEVICE(the_soft_clip_is_not, dev)
{
    uint64_t seed     = 23;
    int      short_of = 0;

    if (!ms_device_has(dev, MUSEC_F64)) SKIP_DEVICE("%s has no float64", dev->name);
    for (int c = 0; c < PROBLEMS; c++) {
        problem                 p   = problem_make(c, &seed);
        const musec_clip_config cfg = run_config("soft", p.D);
        double *clipped             = run_clip(dev, &cfg, MUSEC_F64, p.o.x, p.rows, p.cols, NULL);
        double  known, outside;

        const double gap = duality_gap(&p, clipped, &known, &outside);
        CHECK(gap >= -1e-10, "problem %d: a value below a bound, by %g", c, gap);
        CHECK(outside <= 1e-12, "problem %d: |X|_2 is above D by %g", c, outside);
        if (known > 1e-4) short_of++;
        free(clipped);
        oracle_free(&p.o);
    }
    CHECK(short_of > PROBLEMS / 2, "%d of %d problems", short_of, PROBLEMS);
}
