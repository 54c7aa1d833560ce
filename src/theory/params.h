/* params.h - the paper's Corollary as numbers: its parameters for N steps at radius delta, and its
 * bound.
 *
 *     T = (delta N)^(2/3)   K = N / T   D = (delta N)^(-1/3)
 *     beta = sqrt(r) (delta N)^(-2/3)   eta = delta^(2/3) r^(-1/2) N^(-1/3)   gamma = beta / eta
 *
 * so that eta T D sqrt(r) = delta and beta T = sqrt(r), exactly.  T and K count steps and epochs:
 * both are rounded down, T to no less than 1, and the other four keep the values above.  Rounded
 * up, T would let the iterates of an epoch leave the ball of radius delta. */
#ifndef MS_THEORY_PARAMS_H
#define MS_THEORY_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

/* The constraints of the theorem, in the paper's order, and that of whole T and K. */
#define MS_THEORY_CONSTRAINTS(X)                                                                 \
    X(RADIUS, "radius", "eta T D sqrt(r) <= delta", "the iterates of an epoch stay in the ball") \
    X(GAMMA, "gamma", "gamma = beta / eta", "one step of the momentum is one of descent")        \
    X(MOMENTUM, "momentum", "beta <= 1/8", "the regret bound holds")                             \
    X(STEP, "step", "eta <= 1/rho", "steps are short for how far f is from convex")              \
    X(EPOCH, "epoch", "T <= N", "there is a whole epoch")

enum {
#define X(name, word, formula, why) MS_THEORY_##name,
    MS_THEORY_CONSTRAINTS(X)
#undef X
        MS_THEORY_N_CONSTRAINTS
};

typedef struct ms_theory_constraint {
    const char *name, *formula, *why; /* static */
    double      left, right;          /* of the formula */
    bool        holds;
    double      steps; /* least real N from which on it holds; 0: any */
} ms_theory_constraint;

/* The theorem's bound on E[(1/K) sum_k dist(0, the Goldstein subdifferential)], by its terms. */
typedef struct ms_theory_bound {
    double noise; /* sigma / sqrt(T) */
    double clip;  /* D */
    double start; /* 2 r D / (beta T) */
    double steps; /* beta L^2 / D */
    double gap;   /* gamma gap / (beta D T K) */
    double total; /* their sum */
} ms_theory_bound;

typedef struct ms_theory_params {
    /* given */
    double  delta;     /* radius of the Goldstein subdifferential, > 0 */
    int64_t steps;     /* N >= 1 */
    double  rank;      /* r >= 1: rows or columns of W, the fewer */
    double  rho;       /* weak convexity, >= 0 */
    double  lipschitz; /* L >= 0, in the Frobenius norm; bounds the stochastic gradients too */
    double  sigma;     /* deviation of the stochastic gradients, >= 0, in the Frobenius norm */
    double  gap;       /* f(W_0) - inf f >= 0 */
    /* computed by ms_theory_params_set() */
    int64_t              T, K;                /* steps in an epoch, epochs; T K <= N are taken */
    double               D, beta, gamma, eta; /* as above */
    double               T_real, K_real;      /* before rounding */
    ms_theory_constraint constraint[MS_THEORY_N_CONSTRAINTS];
    bool                 all_hold;
    int64_t              least_steps; /* the smallest N at which all hold */
    ms_theory_bound      bound;       /* with T and K */
    ms_theory_bound      bound_real;  /* with T_real and K_real: (...) (delta N)^(-1/3) */
} ms_theory_params;

/* Fills the rest from what is given.  Fails, naming the field by its option and saying what is
 * expected, where one is out of range or a result is not a finite number.  A constraint that does
 * not hold is no failure. */
musec_status ms_theory_params_set(ms_error *error, ms_theory_params *p);

/* N for a bound of epsilon or less, with all constraints. */
typedef struct ms_theory_complexity {
    double  constant;    /* C = sigma + 1 + 2 sqrt(r) + sqrt(r) L^2 + sqrt(r) gap */
    double  steps_bound; /* C^3 / (delta epsilon^3) */
    double  steps;       /* the larger of that and what the constraints require, rounded up */
    int64_t whole;       /* an N that does with whole T and K as well; 0: more than 2^53 */
} ms_theory_complexity;

/* `p` after ms_theory_params_set(); its `steps` does not matter. */
musec_status ms_theory_complexity_of(ms_error *error, const ms_theory_params *p, double epsilon,
                                     ms_theory_complexity *out);

#endif
