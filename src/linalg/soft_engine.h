/* soft_engine.h - what the modes of soft clipping share: A = X X^T + D^2 I, its bound, the stages.
 * How they work: soft_engine.c. */
#ifndef MS_LINALG_SOFT_ENGINE_H
#define MS_LINALG_SOFT_ENGINE_H

#include "linalg/linalg.h"
#include "linalg/sharp_chain.h"

static inline void ms_mat_swap(ms_mat *a, ms_mat *b)
{
    const ms_mat c = *a;
    *a             = *b;
    *b             = c;
}

/* What a compute dtype allows. */
typedef struct ms_compute_limits {
    double margin; /* that C4 needs over rounding */
    /* What D^2 counts as in A, relative to |A|_F, if there are many steps: less would drown in the
     * rounding of W and leave it indefinite, which further steps would amplify. */
    double min_ratio;
    double u_d; /* the lowest that a plan of `accurate` may have; 0: as low as the candidates go */
    /* u_d of the plan for matrices with a lower u; rounding takes more from these, so its tol is
     * 1e-2.  Matrices below are reduced first (soft_reduction.c). */
    double short_u_d;
    double loose_u_d;                      /* of a shorter plan for reduced matrices */
    double reduction_shift;                /* D_1 / D at least: what it leaves is above loose_u_d */
    double reduction_u_d, reduction_min_u; /* of the plan of a reduction; the lowest u in one */
    double reduction_margin;               /* on what a reduction makes of sigma_1 */
    double max_exponent; /* of what the coefficients may carry; 0: see ms_split_gain */
} ms_compute_limits;

ms_compute_limits ms_compute_limits_of(musec_dtype compute_dtype);

typedef struct ms_soft {                     /* lives in the scratch of the caller's mark */
    int                   n;                 /* stacks */
    ms_prepared           p[MS_STACKS];      /* of each stack, with its part of the vectors below */
    ms_vec                scale, s, sd, sd2; /* those of ms_prepared, of all matrices */
    ms_gram_norms         gram_norms[MS_STACKS];
    int64_t               r;
    double                out_scale;
    musec_dtype           compute_dtype;
    ms_mat                b, q, t, y, v; /* (count, r, r) in the compute dtype: see ms_soft_mats */
    ms_mat                gram;  /* likewise in the accumulator dtype; none with cached norms */
    ms_mat                z;     /* b, q, t or y: what X is multiplied by */
    const ms_sharp_chain *sharp; /* what follows the soft clip; NULL: nothing */
    double                square_scale; /* e->y begins as square_scale B B */
    ms_vec                norm2;        /* N^2: N is |A|_F, or a power of two near it;  w = A / N */
    ms_vec                trace, fro, square_sumsq;     /* tr w, |w|_F, |square_scale B B|_F^2 */
    ms_vec                inv_alpha;                    /* W = inv_alpha w */
    ms_vec                mean;                         /* m = tr w / r;  B = w - m I */
    ms_vec                alpha, u_min, gain, residual; /* the result is gain * residual * Z X */
    ms_num                reductions; /* that each matrix has gone through (soft_reduction.c) */
    ms_vec                write;      /* of ms_stacks */
} ms_soft;

/* How many of b, q, t, y and v are taken: the last where the longest plan has three stages. */
static inline int ms_soft_mats(int stages) { return stages < 3 ? 4 : 5; }

/* Up to so many Newton-Schulz steps count as few: each more than doubles a small eigenvalue of
 * W. */
enum { MS_FEW_STEPS = 8 };

typedef struct ms_soft_start {
    bool literal; /* full products only, as the paper is written: leaves w in e->b instead of B */
    bool many;    /* more than MS_FEW_STEPS */
    bool moments; /* alpha is C4 instead of |A|_F */
    const ms_sharp_chain *sharp;  /* what will follow the soft clip; NULL: nothing */
    bool                  square; /* leaves square_scale B B in e->y; moments do anyway */
    int                   stages; /* of the longest plan that may follow */
} ms_soft_start;

/* Prepares x, brings the normalised A to e->b, and finds alpha.  r is at least 2. */
musec_status ms_soft_begin(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype compute_dtype,
                           ms_soft_start how, ms_soft *e);

/* Which matrices take part in a step: none unless `any`, else those where the mask is not 0. */
typedef struct ms_active_set {
    bool   any;
    ms_vec mask; /* data NULL: all matrices */
} ms_active_set;

typedef ms_pick_stage_vecs ms_stage_coefs; /* ms_stage_form, one of each number per matrix */

/* The plans of a stack.  All matrices have the same plan, or each has one of the candidates: then
 * stages of different plans that stand at the same position are computed by one call. */
typedef struct ms_stage_schedule {
    int            n;           /* stages of the longest plan */
    int            last_q;      /* of the last stage: 4, or 1 where all have the same plan */
    ms_num         q, n_stages; /* q of the first stage; the number of stages */
    ms_stage_coefs first, last, middle[MS_PLAN_STAGES];
    ms_active_set  square, no_square, single, several, several_square; /* see stage_masks */
    ms_active_set  even, odd;                                          /* by the number of stages */
    ms_active_set  in_middle[MS_PLAN_STAGES]; /* stage i + 1 is neither first nor last */
} ms_stage_schedule;

/* Schedules plans of the same stages for the active matrices: nothing depends on the matrix but
 * numbers.  Each has the first plan with u_d <= u_min, or else the last. */
musec_status ms_schedule_plans(ms_device *d, const ms_poly_plan *plans, int n_plans,
                               ms_active_set active, ms_vec u_min, ms_stage_schedule *c);
/* Runs all stages, from W = w_coef (B + m I) to e->z. */
musec_status ms_run_stages(ms_device *d, const ms_stage_schedule *c, ms_num w_coef, ms_soft *e);
/* The reductions that a matrix may go through: two bring sigma_1 / D from 10,000 to 10. */
enum { MS_REDUCTIONS = 2 };
/* Writes Z X over X, of smaller sigma_1 / D and with another threshold, where sigma_1 / D is beyond
 * the reach of 16 bits, and leaves B, B B and their numbers as ms_soft_begin does.  plan: two
 * stages of degree 9.  The soft clip of the new X is that of the old one. */
musec_status ms_soft_reduce(ms_device *d, const ms_poly_plan *plan, ms_num *threshold, ms_soft *e);
/* What ms_soft_begin does once X is prepared, for matrices where the mask is not 0, with the bound
 * max_lambda on the eigenvalues of A.  Sets new vectors; those of other matrices hold nothing. */
musec_status ms_soft_restart(ms_device *d, ms_num threshold, ms_vec mask, ms_vec max_lambda,
                             ms_soft *e);
/* Makes e->z that of a sharper clip, by e->sharp (sharp_clip.c). */
musec_status ms_sharpen(ms_device *d, ms_soft *e);
/* Sharpens e->z, applies it, and leaves the result in out, one for each stack. */
musec_status ms_soft_finish(ms_device *d, ms_soft *e, const ms_mat *out);

#endif
