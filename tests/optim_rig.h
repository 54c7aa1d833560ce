/* optim_rig.h - an optimizer with the weights and gradients of a few parameters, for tests.
 *
 *     const rig_param params[] = { { .name = "w", .rows = 6, .cols = 9 } };
 *     rig r = rig_make(dev, "soft-musec", "lr=0.1 threshold=rms:2", MUSEC_F32, params, 1, 7);
 *     rig_step(&r, 0, 1.0);                  // with the gradients of (seed 7, step 0)
 *     double *w = rig_weight(&r, 0);
 *     rig_free(&r);
 *
 * Weights and gradients are normal numbers that depend on the seed, the parameter's name and the
 * step alone, so two rigs with the same seed see the same problem.  Matrices come and go as dense
 * float64 in host memory; float32 is widened, which keeps its bits. */
#ifndef MS_TESTS_OPTIM_RIG_H
#define MS_TESTS_OPTIM_RIG_H

#include "check.h"
#include "clip_run.h"

#define RIG_MAX 12

typedef struct rig_param {
    const char        *name;
    musec_role         role;
    int64_t            rows, cols;
    run_layout         layout; /* padding of the weight, which must stay; and further matrices */
    const musec_block *blocks;
    int64_t            n_blocks;
    double             lr_factor;
    musec_view         copy; /* the test's own */
} rig_param;

typedef struct rig {
    ms_device   *dev;
    musec_optim *opt;
    musec_dtype  dtype;
    uint64_t     seed;
    size_t       n;
    rig_param    params[RIG_MAX];
    run_stack    w[RIG_MAX], g[RIG_MAX];
    bool         without[RIG_MAX]; /* no gradient for this one */
} rig;

/* The row's defaults, but with operands of f32, changed by "key=value key=value ...". */
musec_optim_config rig_config(const char *name, const char *options);

rig  rig_make_with(ms_device *dev, const musec_optim_config *cfg, musec_dtype dtype,
                   const rig_param *params, size_t n, uint64_t seed);
rig  rig_make(ms_device *dev, const char *name, const char *options, musec_dtype dtype,
              const rig_param *params, size_t n, uint64_t seed);
void rig_free(rig *r);

/* What parameter p begins as, and its gradient at a step: (count, rows, cols), malloc'ed. */
double *rig_start(const rig *r, size_t p);
double *rig_normal(const rig *r, size_t p, int64_t step);

void         rig_set_weight(rig *r, size_t p, const double *dense);
void         rig_set_grad(rig *r, size_t p, const double *dense);
musec_status rig_try(rig *r, double lr_scale);              /* with the gradients that were set */
void         rig_go(rig *r);                                /* the same, which must succeed */
void         rig_step(rig *r, int64_t step, double factor); /* with rig_normal times factor */
void         rig_steps(rig *r, int64_t first, int64_t n);

double *rig_weight(rig *r, size_t p); /* malloc'ed; fails the test if padding was changed */
double *rig_state(rig *r, size_t p, int64_t block, const char *state, int64_t n); /* malloc'ed */

int64_t rig_elems(const rig *r, size_t p);
/* Are the weights of parameter p of one the weights of parameter q of the other, bit for bit? */
bool rig_same_weight(rig *a, size_t p, rig *b, size_t q);
/* The same, though matrices were stacked otherwise: bit for bit, but where the device says that
 * bits depend on the stack.  There the way that they moved is the same to 256 roundings: sums in
 * another order, a dozen products in each of a few steps, and the momentum fed back. */
bool rig_alike(rig *a, size_t p, rig *b, size_t q);
/* |W_a - W_b|_F over the second parameter's change since the start, |W_b - W_0|_F. */
double rig_apart(rig *a, size_t p, rig *b, size_t q);

#endif
