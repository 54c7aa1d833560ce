/* epoch_rig.h - epochs of Musec made step by step on small matrices, with the right spectral
 * function or a wrong one, for the tests of inequalities.h. */
#ifndef MS_TESTS_EPOCH_RIG_H
#define MS_TESTS_EPOCH_RIG_H

#include "check.h"
#include "inequalities.h"

#define ROUNDING 1e-12 /* relative to the size of the terms, for sums of some thousand of them */

typedef enum clip_kind {
    HARD, /* the right one */
    NONE,
    TWICE,     /* at 2 D */
    BY_ENTRY,  /* each entry to [-D, D] */
    HALF,      /* at D / 2 */
    BY_LENGTH, /* shortened to |M|_F <= D */
    SOFT,
    POLAR, /* D U V^T, as Muon does */
} clip_kind;

typedef struct run {
    ms_theory_epoch e;
    int64_t         n;
    double         *w, *g, *h, *m_hat, *m; /* e points to these */
} run;

/* T steps of zeros; the caller sets eta, beta, D and W_0. */
run  epoch_make(int64_t rows, int64_t cols, int64_t T);
void epoch_free(run *r);

/* Fills g for step t, when W_t is known; `before` is M_{t-1}, NULL at 0. */
typedef void gradient(run *r, int64_t t, const double *before, void *arg);

void epoch_go(ms_device *dev, run *r, clip_kind kind, gradient *of, void *arg);

void epoch_judge(ms_device *dev, const run *r, ms_theory_check out[MS_THEORY_N_INEQUALITIES]);
/* The slack of one inequality, relative to its size. */
double epoch_slack(ms_device *dev, const run *r, int which);

#endif
