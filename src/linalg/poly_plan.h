/* poly_plan.h - polynomials that drive a spectrum to one: their coefficients, and which to take.
 *
 * With w = u^2 in (0, 1], a stage is an odd polynomial p(u) = u T(w), T of degree q in w, and a
 * plan is a composition of stages whose value, the gain, should be near 1 on [u_d, 1] and never
 * above it.  Soft clipping multiplies D s / sqrt(s^2 + D^2) by the gain at
 *     u = sqrt((s^2 + D^2) / alpha) */
#ifndef MS_LINALG_POLY_PLAN_H
#define MS_LINALG_POLY_PLAN_H

#include <stdbool.h>

#include "core/status.h"

#define MS_PLAN_STAGES 52 /* enough for 100 Newton-Schulz steps in pairs */
#define MS_STAGE_Q     4  /* degree 9 in u */

typedef struct ms_stage {
    int    q;                 /* T has degree q in w: 1, 2 or 4 */
    double wmax;              /* largest w that reaches the stage */
    double c[MS_STAGE_Q + 1]; /* T(w) = sum c_j w^j, p(u) = sum c_j u^(2j+1) */
    double k[MS_STAGE_Q + 1]; /* T(w) = sum k_j T_j(2 w / wmax - 1): the form to compute with */
} ms_stage;

typedef struct ms_poly_plan {
    char     name[24];
    double   u_d; /* the gain lies in [1 - tol, 1] for u in [u_d, 1] */
    double   tol;
    int      n_stages;
    ms_stage stage[MS_PLAN_STAGES];
} ms_poly_plan;

/* The best odd polynomial of degree 2q+1 (q in 1..4) to 1 on [lo, hi]: c[0..q] and its error. */
musec_status ms_minimax_odd(int q, double lo, double hi, double *c, double *error);

/* The greedy composition of stages of the given q, which is the best one of its degrees, for
 * [u_d, 1]; the last stage is divided by 1 + E so that the gain never exceeds 1. */
musec_status ms_poly_plan_minimax(const int *q, int n_stages, double u_d, ms_poly_plan *out);

/* K Newton-Schulz steps u (3 - u^2) / 2: pairs of steps as one stage of q = 4, an odd one last. */
void ms_plan_newton_schulz(int iters, ms_poly_plan *out);

/* Five Newton-Schulz steps by two stages of q = 4, to 1.6e-6. */
void ms_poly_plan_paper7(ms_poly_plan *out);

/* The plans of `fast`, two stages of q = 4 for u_d = 0.40, 0.16, 0.09: the first one whose u_d is
 * not above the smallest u is taken, the last one in any case. */
#define MS_FAST_PLANS 3
void ms_poly_plan_fast(int index, ms_poly_plan *out);

/* The cheapest plan of all candidates whose gain lies in [1 - tol, 1] on [u_min, 1]; MUSEC_ENOTSUP
 * if there is none. */
musec_status ms_poly_plan_cheapest(double tol, double u_min, ms_poly_plan *out);

/* All candidates that have a use for this tol, each for the smallest u_d that it reaches: u_d falls
 * from one to the next, and the first with u_d <= u_min is the cheapest that will do.  None lies
 * below min_u_d: the last one is then for that.  MUSEC_EINVAL if tol is not between 0 and 1. */
#define MS_POLY_CANDIDATES 9
typedef struct ms_poly_candidates {
    double       tol;
    int          n, longest; /* plans; stages of the longest */
    ms_poly_plan plan[MS_POLY_CANDIDATES];
} ms_poly_candidates;
musec_status ms_poly_candidates_make(double tol, double min_u_d, ms_poly_candidates *out);

/* The candidates by cost: sets the q of their stages, and returns the number of stages, 0 at the
 * end. */
int ms_poly_candidate_stages(size_t index, const int **q);

double ms_poly_plan_gain(const ms_poly_plan *plan, double u); /* the composition, in float64 */
int    ms_poly_plan_products(
       const ms_poly_plan *plan); /* r x r x r products, by the congruence form */

/* A stage as the engine computes it, all products squares but one:
 *     q = 4:  V = v1 W + v0 I,  Q = V V + q0 I,  T = Q Q + t1 W + t0 I
 *     q = 2:  Q = v1 W + v0 I,                   T = Q Q + t1 W + t0 I     (q0 unused)
 *     q = 1:                                     T =       t1 W + t0 I
 * Needs a positive leading coefficient, which every stage above has. */
typedef struct ms_stage_form {
    double v1, v0, q0, t1, t0;
} ms_stage_form;
#define MS_STAGE_NUMBERS 5

ms_stage_form ms_stage_squares(const ms_stage *stage);

#endif
