/* objective_parts.h - what the files of the problems share. */
#ifndef MS_THEORY_OBJECTIVE_PARTS_H
#define MS_THEORY_OBJECTIVE_PARTS_H

#include "theory/objective.h"

struct ms_objective_kind {
    const char *name, *help;
    int64_t     rows, cols; /* unless others are asked for */
    int64_t     min_side;   /* the smallest number of rows and of columns */
    /* Fills what the kind has of its own, and start, target and the constants. */
    musec_status (*make)(ms_error *e, uint64_t seed, ms_objective *p);
    double (*value)(const ms_objective *p, const double *w, double *h);
};

/* The make and the value of each kind. */
#define MS_OBJECTIVE_DECLARE(name)                                                      \
    musec_status ms_objective_make_##name(ms_error *e, uint64_t seed, ms_objective *p); \
    double       ms_objective_##name(const ms_objective *p, const double *w, double *h);
MS_OBJECTIVE_DECLARE(sensing) /* these four are in objective_linear.c */
MS_OBJECTIVE_DECLARE(max)
MS_OBJECTIVE_DECLARE(kinks)
MS_OBJECTIVE_DECLARE(quadratic)
MS_OBJECTIVE_DECLARE(phase) /* these three are in objective_product.c */
MS_OBJECTIVE_DECLARE(completion)
MS_OBJECTIVE_DECLARE(relu)
#undef MS_OBJECTIVE_DECLARE

/* ---- numbers --------------------------------------------------------------------------------- */

/* Allocates n numbers, zeroed; the problem frees them. */
musec_status ms_objective_alloc(ms_error *e, int64_t n, double **out);
/* Independent normals of this deviation, from the stream that (seed, purpose) names. */
void ms_objective_draw(uint64_t seed, const char *purpose, double deviation, int64_t n,
                       double *out);
/* start = target + a random matrix of Frobenius norm `apart`. */
void ms_objective_place_start(uint64_t seed, double apart, ms_objective *p);
/* The largest singular value of a dense matrix, exactly but for rounding. */
musec_status ms_objective_norm2(ms_error *e, const double *a, int64_t rows, int64_t cols,
                                double *out);
/* The inner product, in eight partial sums that fit vector registers. */
double ms_objective_dot(const double *x, const double *y, int64_t n);
double ms_objective_norm(const double *x, int64_t n);
void   ms_objective_axpy(double a, const double *x, int64_t n, double *y);
double ms_objective_sign(double x); /* 0 at 0 */

#endif
