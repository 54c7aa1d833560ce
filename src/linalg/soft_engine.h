/* soft_engine.h - what the modes of soft clipping share: A = X X^T + D^2 I, its bound, the stages.
 * How they work: soft_engine.c. */
#ifndef MS_LINALG_SOFT_ENGINE_H
#define MS_LINALG_SOFT_ENGINE_H

#include "linalg/linalg.h"

static inline void ms_mat_swap(ms_mat *a, ms_mat *b)
{
    const ms_mat c = *a;
    *a             = *b;
    *b             = c;
}

/* What a precision of operands allows. */
typedef struct ms_compute_limits {
    double margin; /* of C4 over rounding */
    double least; /* what D^2 counts as in A, relative to |A|_F, if there are many steps: less would
                      drown in the rounding of W and leave it indefinite, and they would make more
                      and more of that */
    double u_d;   /* the lowest that a plan of `accurate` may have; 0 as low as the menu goes */
    double
        short_u_d; /* that of the plan for matrices with a lower u; rounding takes more from these,
                         so its tol is 1e-2 */
    double reach;  /* 2^-reach to 2^reach may ride on the coefficients; 0: see ms_scalar_gain */
} ms_compute_limits;

ms_compute_limits ms_compute_limits_of(musec_dtype operands);

typedef struct ms_soft {           /* lives in the scratch of the caller's mark */
    int           n;               /* stacks, */
    ms_prepared   p[MS_STACKS];    /* each with its part of the vectors: */
    ms_vec        own, s, sd, sd2; /* those of ms_prepared, of all matrices */
    ms_gram_norms gram_norms[MS_STACKS];
    int64_t       r;
    double        unit;
    musec_dtype   operands;
    ms_mat        b, q, t, y, v;      /* (count, r, r), operands: see ms_soft_mats */
    ms_mat        gram;               /* the same, wide; none with memos */
    ms_mat        z;                  /* one of those: what X is multiplied by */
    double        lift;               /* e->y begins as lift B B */
    ms_vec        fro2;               /* N^2: N is |A|_F, or a power of two near it;  w = A / N */
    ms_vec        trace, most, quart; /* tr w, |w|_F, |lift B B|_F^2 */
    ms_vec        inv_a;              /* W = inv_a * w */
    ms_vec        mean;               /* m = tr w / r;  B = w - m I */
    ms_vec        alpha, u_low, gain, rest; /* the result is gain * rest * Z X */
} ms_soft;

/* Of b, q, t, y and v, how many are taken: the last where the longest plan has three stages. */
static inline int ms_soft_mats(int stages) { return stages < 3 ? 4 : 5; }

/* Of Newton and Schulz: each more than doubles a small eigenvalue of W. */
enum { MS_FEW_STEPS = 8 };

typedef struct ms_soft_start {
    bool literal; /* full products only, as the paper is written: leaves w in e->b; else B */
    bool many;    /* more than MS_FEW_STEPS */
    bool moments; /* alpha is C4; else |A|_F */
    bool square;  /* leaves lift B B in e->y; moments do anyway */
    int  stages;  /* of the longest plan that may follow */
} ms_soft_start;

/* Prepares x, brings A, normalised, to e->b, and finds alpha.  r is at least 2. */
musec_status ms_soft_begin(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype operands,
                           ms_soft_start how, ms_soft *e);

typedef struct ms_stage_nums { /* ms_stage_form, one of each per matrix */
    ms_vec v[MS_STAGE_NUMBERS];
} ms_stage_nums;

musec_status ms_take_nums(ms_device *d, int64_t count, ms_stage_nums *n);

typedef struct ms_active_set { /* which matrices take part: none, or those where `mask` is not 0 */
    bool   any;
    ms_vec mask; /* data NULL: all */
} ms_active_set;

/* The plans of a stack.  All of them have the same one, or (each its own) one that lies in a menu:
 * then stages of different plans that stand in the same place are done by one call. */
typedef struct ms_stage_schedule {
    int           n;        /* stages of the longest plan */
    int           last_q;   /* of the last stage: 4, or 1 where all have the same plan */
    ms_num        q, count; /* of the first stage; how many there are */
    ms_stage_nums first, last, middle[MS_PLAN_STAGES];
    ms_active_set square, no_square, single, several, several_square; /* see MS_STAGE_MASK_SQUARE */
    ms_active_set even, odd;                                          /* by number of stages */
    ms_active_set in_middle[MS_PLAN_STAGES]; /* stage i + 1 is neither first nor last */
} ms_stage_schedule;

/* All stages, from W = win (B + m I) to e->z. */
musec_status ms_run_stages(ms_device *d, const ms_stage_schedule *c, ms_num win, ms_soft *e);
musec_status ms_soft_finish(ms_device *d, const ms_soft *e, const ms_mat *out);

#endif
