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
    run_layout         layout; /* of weight and gradient; the padding must never change */
    const musec_block *blocks;
    int64_t            n_blocks;
    double             lr_factor;
    musec_view         copy; /* the compute copy, which the caller allocates and frees */
} rig_param;

typedef struct rig {
    ms_device   *dev;
    musec_optim *opt;
    musec_dtype  dtype;
    uint64_t     seed;
    size_t       n;
    rig_param    params[RIG_MAX];
    run_stack    w[RIG_MAX], g[RIG_MAX];
    bool         without[RIG_MAX]; /* the parameter gets no gradient */
} rig;

/* The defaults of optimizer `name` with f32 operands, changed by "key=value key=value ...". */
musec_optim_config rig_config(const char *name, const char *options);

rig rig_make_with(ms_device *dev, const musec_optim_config *cfg, musec_dtype dtype,
                  const rig_param *params, size_t n, uint64_t seed);
rig rig_make(ms_device *dev, const char *name, const char *options, musec_dtype dtype,
             const rig_param *params, size_t n, uint64_t seed);
/* rig_make with options that are formatted. */
rig  rig_makef(ms_device *dev, musec_dtype dtype, const rig_param *params, size_t n, uint64_t seed,
               const char *name, const char *fmt, ...) MS_PRINTF(7, 8);
void rig_free(rig *r);

/* The initial weight of parameter p, rounded to its dtype, and its gradient at a step, not rounded:
 * (count, rows, cols), malloc'ed. */
double *rig_start(const rig *r, size_t p);
double *rig_normal(const rig *r, size_t p, int64_t step);

void         rig_set_weight(rig *r, size_t p, const double *dense);
void         rig_set_grad(rig *r, size_t p, const double *dense);
void         rig_set_grads(rig *r, int64_t step, double factor); /* rig_normal times factor */
musec_status rig_try(rig *r, double lr_scale);                   /* a step with the gradients set */
void         rig_go(rig *r);                                     /* a step that must succeed */
void         rig_step(rig *r, int64_t step, double factor);      /* rig_set_grads, then rig_go */
void         rig_steps(rig *r, int64_t first, int64_t n);

double *rig_weight(rig *r, size_t p); /* malloc'ed; fails the test if padding was changed */
double *rig_state(rig *r, size_t p, int64_t block, const char *state, int64_t n); /* malloc'ed */
void    rig_copy_weights(rig *from, rig *to);

extern const char *const rig_decay_forms[]; /* all decay forms by name, then NULL */

int64_t rig_elems(const rig *r, size_t p);
/* Does parameter p still have its initial weight, bit for bit? */
bool rig_unmoved(rig *r, size_t p);
/* Are the weights of parameter p of one the weights of parameter q of the other, bit for bit? */
bool rig_same_weight(rig *a, size_t p, rig *b, size_t q);
/* Every parameter of a must have the same bits in b; the words name the case. */
void rig_check_same(rig *a, rig *b, const char *name, const char *options);
/* rig_same_weight for matrices that were batched differently: bit for bit, except where the
 * device's bits depend on the batch.  There the change since the start may differ by 256 unit
 * roundoffs: sums in another order, a dozen products in each of a few steps, and the clipped
 * momentum stored. */
bool rig_alike(rig *a, size_t p, rig *b, size_t q);
/* |W_a - W_b|_F over the second parameter's change since the start, |W_b - W_0|_F. */
double rig_apart(rig *a, size_t p, rig *b, size_t q);

#endif
