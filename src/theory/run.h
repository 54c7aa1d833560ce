/* run.h - Algorithm 2 of the paper on a problem of known constants, and every other optimizer of
 * the library in its place.
 *
 * The optimizers are those of the public interface, on the CPU in float64.  With the parameters of
 * the Corollary, those that bound their step move by at most about delta in an epoch of T steps
 * with these learning rates: eta for Musec, Soft Musec and SPECTRA; eta D for Muon, whose updates
 * have singular values of about one instead of at most D; eta D sqrt(r) / sqrt(rows cols) for
 * updates whose elements are about one.  SGDM takes eta as well, but nothing bounds its step: where
 * its momentum is longer than D sqrt(r), an epoch leaves the ball. */
#ifndef MS_THEORY_RUN_H
#define MS_THEORY_RUN_H

#include <stdbool.h>

#include "theory/hull.h"
#include "theory/params.h"

typedef struct ms_theory_step { /* before step n is taken; the run's own, for this call */
    int64_t       n;
    double        f;         /* of w */
    const double *w, *h, *g; /* (rows, cols) W_n, H_n, G_n */
    musec_optim  *optim;     /* holds M_{n-1} */
} ms_theory_step;

typedef struct ms_theory_setup { /* fill with ms_theory_setup_init(), then change the last ones */
    const ms_objective *problem;
    ms_theory_params    params;        /* L of the stochastic gradients: sqrt(L^2 + sigma^2) */
    bool                weakly_convex; /* else rho is infinite and the bound says nothing */
    double              sigma;
    uint64_t            seed; /* of the noise, of the epoch picked, of the hull's samples */
    musec_optim_config  optim;
    void (*record)(void *arg, const ms_theory_step *step); /* at every step, or NULL */
    void *record_arg;
} ms_theory_setup;

typedef struct ms_theory_result { /* { 0 } is empty */
    int64_t T, K;                 /* steps in an epoch, and epochs, as the run had them */
    int64_t steps;                /* taken: K T, or fewer if it diverged */
    bool    diverged;             /* a number was not finite; what could not be measured is NaN */
    double  f_start, f_end, f_returned;
    double *hbar;          /* (K) |Hbar^(k)|_F: the mean subgradient at W_1 ... W_T of epoch k */
    double  hbar_mean;     /* the mean of them: what the theorem bounds */
    int64_t picked;        /* the epoch returned, 0 ... K-1 */
    double *returned;      /* (rows, cols) the mean of its W_0 ... W_{T-1} */
    double *optim_average; /* (rows, cols) the optimizer's own, of W_0 ... W_{T-1} too */
    double *epoch_move;    /* (rows, cols) W_T - W_0 of that epoch */
    double  spread;        /* largest |W_t - returned|_F of that epoch, t = 0 ... T */
    double  travel;        /* largest |W_n - W_0|_F */
    double  seconds;
} ms_theory_result;

musec_status ms_theory_setup_init(ms_error *e, const ms_objective *problem, const char *optimizer,
                                  int64_t steps, double delta, double sigma, uint64_t seed,
                                  ms_theory_setup *out);

/* on_step: called now and then with the steps taken, or NULL. */
musec_status ms_theory_run(ms_error *e, const ms_theory_setup              *setup,
                           void (*on_step)(void *arg, int64_t steps), void *arg,
                           ms_theory_result *out);
void         ms_theory_result_free(ms_theory_result *r);

#endif
