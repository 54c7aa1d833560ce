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
typedef struct ms_operand_limits {
    double margin; /* of C4 over rounding */
    double least; /* what D^2 counts as in A, relative to |A|_F, if there are many steps: less would
                      drown in the rounding of W and leave it indefinite, and they would make more
                      and more of that */
    double u_d;   /* the lowest that a plan of `accurate` may have; 0 as low as the menu goes */
    double reach; /* 2^-reach to 2^reach may ride on the coefficients; 0: see ms_scalar_gain */
} ms_operand_limits;

ms_operand_limits ms_operand_limits_of(musec_dtype operands);

typedef struct ms_stage_nums { /* ms_stage_form, one of each per matrix */
    ms_vec v[MS_STAGE_NUMBERS];
} ms_stage_nums;

/* Side by side in `all`: one upload fills them. */
musec_status ms_take_nums(ms_device *d, int64_t count, ms_vec *all, ms_stage_nums *n);

typedef struct ms_soft { /* lives in the scratch of the caller's mark */
    ms_prepared p;
    musec_dtype operands;
    ms_mat      w, q, t, v, z;            /* (count, r, r), operands */
    ms_mat      square;                   /* (W - m I)^2; first the Gram matrix if operands are
                                             narrow, else it is q */
    ms_vec      fro2, trace, quart;       /* |A|_F^2, tr A1, |(A1 - m I)^2|_F^2 */
    ms_vec      inv_f, inv_a;             /* W = inv_a * w;  w = A / |A|_F */
    ms_vec      mean;                     /* m = tr w / r */
    ms_vec      alpha, u_low, gain, rest; /* the result is gain * rest * Z X */
} ms_soft;

/* Of Newton and Schulz: each more than doubles a small eigenvalue of W. */
enum { MS_FEW_STEPS = 8 };

typedef struct ms_soft_start {
    bool literal; /* full products only, as the paper is written */
    bool many;    /* more than MS_FEW_STEPS */
    bool moments; /* alpha is C4: leaves B = w - m I in e->v and B B in e->square; else |A|_F */
} ms_soft_start;

/* Prepares in, brings A, normalised, to e->w, and finds alpha.  r is at least 2. */
musec_status ms_soft_begin(ms_device *d, ms_mat in, ms_num threshold, musec_dtype operands,
                           ms_soft_start how, ms_soft *e);
/* All stages, of degrees q, from W = win e->w to e->z.  centred: as `moments` left it. */
musec_status ms_run_stages(ms_device *d, const int *q, int n_stages, const ms_stage_nums *nums,
                           ms_num win, bool centred, ms_soft *e);
musec_status ms_soft_finish(ms_device *d, const ms_soft *e, ms_mat out);

#endif
