/* inequalities.h - both sides of the paper's inequalities on a recorded epoch.
 *
 * The lemmas hold for any sequence that the algorithm makes, so a recorded run that violates one
 * shows a mistake in the run, in the clipping, or in the lemma.
 *
 *     feasible     |M_t|_2 <= D
 *     projection   <Mhat_t - M_t, X - M_t> <= 0 for every X with |X|_2 <= D; the worst X makes it
 *                  D |Mhat_t - M_t|_* <= <Mhat_t - M_t, M_t>.  With the first: M_t is the nearest
 *                  point of the ball, and nothing else is
 *     momentum     Mhat_t = (1 - beta) M_{t-1} + beta G_t, t >= 1; left is the difference
 *     update       W_{t+1} = W_t - eta M_t; left is the difference
 *     regret       Lemma B.1 after every number of steps, at the comparator of the ball that makes
 *                  right - left smallest
 *     descent      Lemma 4.2 on this path: before expectations are taken, with the noise that there
 *                  was and the norms of the gradients that there were.  Holds on every path
 *     mean_descent Lemma 4.2 as it stands, with L and sigma.  Without noise it holds on every path,
 *                  with noise only the mean of right - left over many is not negative
 *     average      Lemma B.3, first inequality, for W_0 ... W_T against the mean of W_0 ... W_{T-1}
 *     spread       Lemma B.3, second inequality, for the same
 *     radius       |W_t - mean| <= eta T D sqrt(r), t = 0 ... T: what Goldstein's ball needs
 *     half_radius  the same with (T + 1) / 2 for T, which is as small as it can be
 *
 * Each is the worst over the epoch: where right - left is smallest relative to its size. */
#ifndef MS_TESTS_INEQUALITIES_H
#define MS_TESTS_INEQUALITIES_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

#define MS_THEORY_INEQUALITIES(X)   \
    X(FEASIBLE, "feasible")         \
    X(PROJECTION, "projection")     \
    X(MOMENTUM, "momentum")         \
    X(UPDATE, "update")             \
    X(REGRET, "regret")             \
    X(DESCENT, "descent")           \
    X(MEAN_DESCENT, "mean_descent") \
    X(AVERAGE, "average")           \
    X(SPREAD, "spread")             \
    X(RADIUS, "radius")             \
    X(HALF_RADIUS, "half_radius")

enum {
#define X(id, name) MS_THEORY_INEQUALITY_##id,
    MS_THEORY_INEQUALITIES(X)
#undef X
        MS_THEORY_N_INEQUALITIES
};

/* Stacks of dense matrices of rows x cols, which the caller owns. */
typedef struct ms_theory_epoch {
    int64_t       rows, cols, T;
    const double *w;               /* (T + 1) W_0 ... W_T */
    const double *g;               /* (T + 1) G_0 ... G_T; the last is the next epoch's first */
    const double *h;               /* (T + 1) their means; NULL: there is no noise */
    const double *m_hat;           /* (T) Mhat_0 ... */
    const double *m;               /* (T) M_0 ... */
    double        f_first, f_last; /* f(W_0), f(W_T) */
    double        eta, beta, D;    /* gamma is beta / eta */
    double        rank;            /* r, at least the rank of every M_t */
    double        lipschitz;       /* L >= |G_t|_F */
    double        sigma;           /* deviation of the noise; 0 where h is NULL */
} ms_theory_epoch;

typedef struct ms_theory_check {
    const char *name; /* static */
    double      left, right;
    double      size; /* sum of the magnitudes of the terms; rounding errors are relative to it */
    int64_t     at;   /* the step where it is worst; regret: after how many */
} ms_theory_check;

/* (right - left) / size; 0 where both sides are made of zeros. */
double ms_theory_slack(const ms_theory_check *check);
/* Whether the slack is at least -tol and no NaN. */
bool ms_theory_holds(const ms_theory_check *check, double tol);

/* Singular values are computed on `d`, in float64; the rest on the host.  Waits. */
musec_status ms_theory_check_epoch(ms_device *d, const ms_theory_epoch *epoch,
                                   ms_theory_check out[MS_THEORY_N_INEQUALITIES]);

#endif
