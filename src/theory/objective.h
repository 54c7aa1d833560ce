/* objective.h - nonsmooth functions of one matrix with known constants, on which the convergence
 * theorem is tested.
 *
 * Everything is drawn from the seed, in float64.  A subgradient is one of Clarke's, chosen at kinks
 * by sign(0) = 0 and by the first of equal pieces.  `lipschitz` holds in the Frobenius norm on the
 * ball of `radius` around the start (everywhere where that is infinite), `rho` is a constant of
 * weak convexity: infinite where there is none, and then the theorem says nothing. */
#ifndef MS_THEORY_OBJECTIVE_H
#define MS_THEORY_OBJECTIVE_H

#include <stdint.h>

#include "core/status.h"

typedef struct ms_objective_kind ms_objective_kind;

typedef struct ms_objective { /* { 0 } is empty */
    const ms_objective_kind *kind;
    int64_t                  rows, cols;
    int64_t                  n;                 /* measurements, entries, pieces: terms of f */
    double                   rho, lipschitz;    /* see above */
    double                   radius;            /* of the ball; infinite: everywhere */
    double                   minimum;           /* of f; NaN: not known */
    double                  *start, *target;    /* (rows, cols); f(target) = minimum where known */
    double                  *a, *b;             /* coefficients and right-hand sides of the kind */
    int64_t                 *at;                /* indices of the kind */
    double                  *scratch, *product; /* workspace of the kind for one evaluation */
} ms_objective;

/* The problems by name: index 0, 1, ... until NULL. */
const char *ms_objective_name(size_t index, const char **help);

/* Fails with "there is no problem "x"; there are sensing, phase", and the nearest of the names. */
musec_status ms_theory_unknown(ms_error *e, const char *what, const char *name,
                               const char *(*name_at)(size_t index, const char **help));

/* The smallest and the largest R for which the problem exists with a matrix of 2R x R. */
musec_status ms_objective_ranks(ms_error *e, const char *name, int64_t *min_rank,
                                int64_t *max_rank);

/* rows and cols may be 0 for the problem's own shape.  If there is no such name, the message lists
 * all names. */
musec_status ms_objective_make(ms_error *e, const char *name, int64_t rows, int64_t cols,
                               uint64_t seed, ms_objective *out);
void         ms_objective_free(ms_objective *p);

int64_t ms_objective_size(const ms_objective *p); /* rows * cols */
int64_t ms_objective_rank(const ms_objective *p); /* r = min(rows, cols) */

/* f(w), and a subgradient in h unless that is NULL.  Uses the problem's scratch. */
double ms_objective_value(const ms_objective *p, const double *w, double *h);
/* Adds the oracle's noise of step `step`: independent normals with E |.|_F^2 = sigma^2. */
void ms_objective_noise(const ms_objective *p, double sigma, uint64_t seed, int64_t step,
                        double *g);

#endif
