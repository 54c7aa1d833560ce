/* linalg.h - operators on the singular values of matrices, for every device.
 *
 * All take a stack of equal matrices of any shape, work on the smaller side, and scale by powers of
 * two so that neither huge nor tiny entries overflow (but for ms_newton_schulz, whose normalisation
 * is part of its definition).  The threshold D is a constant or one value per matrix on the device.
 * Inputs must be finite, dimensions positive, thresholds positive and finite: the public functions
 * in operators.c check that.  in and out do not overlap.  A matrix of zeros gives zeros. */
#ifndef MS_LINALG_LINALG_H
#define MS_LINALG_LINALG_H

#include "device/device.h"
#include "linalg/poly_plan.h"

/* ---- what all operators begin and end with --------------------------------------------------- */

/* The operators by products take the dtype that operands of products are rounded to: 0 or
 * in.dtype, nothing is rounded further; bf16 or f16, for float32 input or for input that has
 * these 16 bits and its own scale already (in.own; not where rows or cols are 1).  Products are
 * accumulated in float32 or wider whatever it is. */
static inline musec_dtype ms_compute_dtype(ms_mat in, musec_dtype operands)
{
    return operands == 0 ? in.dtype : operands;
}

static inline bool ms_is_16bit(musec_dtype dtype) { return ms_dtype_bytes(dtype) == 2; }

/* May the products of operators on such input have these operands (0: its own) on this device?
 * Fills the error. */
musec_status ms_compute_dtype_check(ms_device *d, const char *what, musec_dtype input,
                                    int operands);

typedef struct ms_prepared { /* lives in the scratch of the caller's mark */
    ms_mat  x;               /* the matrix times `own`, turned so that rows <= cols */
    bool    turned;          /* it was transposed: so is the output */
    int64_t r;               /* rows of x */
    ms_vec  s, sd, sd2;      /* s, s D, and (s D)^2 or at least the smallest normal number */
    ms_vec  own;             /* s; where x has 16 bits, the same of the matrix alone, without D */
    double  unit;            /* a power of two on the result of ms_apply, near 1 / own; else 1 */
} ms_prepared;

musec_status ms_prepare(ms_device *d, ms_mat in, ms_num threshold, musec_dtype operands,
                        ms_prepared *p);
/* Input that was scaled and rounded before (in.own) is taken as it is, and nothing is read.  Its
 * scale may be anything: one that brings entries near 1 loses none in f16.  The vectors of p are
 * the caller's. */
/* (count) each on the device, or no data: |G|_F^2 and tr G of Gram matrices G. */
typedef struct ms_gram_norms {
    ms_vec sumsq, trace;
} ms_gram_norms;
typedef struct ms_gram_cache { /* NULL: none */
    ms_gram_norms gram_norms;
    ms_vec        fro2, factor, diag; /* out: |A|_F^2 by that, and what is on G and I in B */
} ms_gram_cache;
musec_status ms_prepare_scaled(ms_device *d, ms_mat in, ms_num threshold,
                               const ms_gram_cache *recall, ms_prepared *p);
/* out <- unit z x for symmetric z, or unit x^T z where x was turned. */
musec_status ms_apply(ms_device *d, const ms_prepared *p, ms_mat z, ms_mat out);
/* The operators where r is 1: a factor. */
musec_status ms_vector_clip(ms_device *d, ms_exact_fn map, const ms_prepared *p, ms_num threshold,
                            ms_mat in, ms_mat out);

/* c <- x x^T, exactly symmetric. */
static inline musec_status ms_gram(ms_device *d, ms_mat x, ms_mat c)
{
    return d->ops->product(
        d,
        &(ms_product){ .a = x, .b = ms_t(x), .alpha = ms_const(1.0), .c = c, .symmetric = true });
}

/* Does the memory from the first to the last element of a meet that of b?  Upright stacks. */
bool ms_mat_overlap(ms_mat a, ms_mat b);
/* The addresses from the first to behind the last element of a stack. */
void ms_mat_extent(ms_mat x, uintptr_t *begin, uintptr_t *end);

/* The first matrix of the stack that holds a NaN or an infinity, and how many; -1: none.  Waits. */
musec_status ms_first_nonfinite(ms_device *d, ms_mat x, int64_t *matrix, double *count);

/* What was done to each matrix: an array of in.count entries, or NULL where nobody asks.  Filling
 * it waits for the device. */
typedef musec_clip_report ms_report;
void ms_report_path(ms_report *report, int64_t count, const char *path, int products);
/* " f16" behind the path where operands have 16 bits. */
void ms_report_compute_dtype(ms_report *report, int64_t count, musec_dtype operands);

/* ---- soft clipping by products --------------------------------------------------------------- */

/* Matrices of several shapes whose smaller sides are equal: all that is r x r of them is done at
 * once.  More than one stack only of what is scaled already (in.own), with one own_e.  Thresholds
 * and reports are those of all matrices in a row. */
enum { MS_STACKS = 4 };
typedef struct ms_stacks {
    int    n;
    ms_mat in[MS_STACKS], out[MS_STACKS];
    /* Of all stacks or none: G as it was the last time, 0 unknown, and then as it is.  `fast` and
     * `accurate` of what changes little from time to time take one pass less by that. */
    ms_gram_norms gram_norms[MS_STACKS];
} ms_stacks;

static inline ms_stacks ms_stack(ms_mat in, ms_mat out)
{
    return (ms_stacks){ .n = 1, .in = { in }, .out = { out } };
}

/* The paper's SSC(M, D, K) as it is written: 3K + 2 full products. */
musec_status ms_ssc_literal(ms_device *d, ms_stacks x, ms_num threshold, int iters,
                            musec_dtype operands, ms_report *report);
/* Any plan with alpha = |A|_F: with ms_plan_newton_schulz(K) the same polynomial, far cheaper. */
musec_status ms_ssc_plan(ms_device *d, ms_stacks x, ms_num threshold, const ms_poly_plan *plan,
                         musec_dtype operands, ms_report *report);
/* Seven products, alpha = C4, the plan chosen on the device for each matrix. */
musec_status ms_soft_fast(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype operands,
                          ms_report *report);
/* Within tol of the exact soft clip, by the cheapest plan for each matrix.  In float32 and float64
 * by eigenvalues where no plan will do: waits once, for a number of each.  With operands of 16 bits
 * tol is that of the polynomials and rounding comes on top; the plans are chosen on the device, and
 * nothing waits. */
musec_status ms_soft_accurate(ms_device *d, ms_stacks x, ms_num threshold, double tol,
                              musec_dtype operands, ms_report *report);

/* ---- exact, by eigenvalues or SVD: these wait
 * ---------------------------------------------------- */

musec_status ms_exact(ms_device *d, ms_exact_fn map, ms_mat in, ms_num threshold, ms_mat out,
                      ms_report *report);

/* ---- Muon ------------------------------------------------------------------------------------ */

typedef struct ms_quintic { /* X <- a X + b (X X^T) X + c (X X^T)^2 X */
    double a, b, c;
} ms_quintic;

typedef struct ms_quintic_list {
    const char       *name;
    const ms_quintic *step; /* the last one repeats for further steps */
    int               n_steps;
    double            norm_factor, eps; /* X starts as M / (norm_factor |M|_F + eps) */
    int               run; /* steps that large matrices may take at a time in f16, 2 or 3 */
} ms_quintic_list;

const ms_quintic_list *ms_quintic_list_find(const char *name); /* NULL: unknown */
/* Steps of r x n matrices, r <= n, that are taken at a time, at most; of r x r matrices it works on
 * one more than that. */
int ms_newton_schulz_run(const ms_quintic_list *list, musec_dtype operands, int64_t r, int64_t n);
/* out is of in's dtype, or the operands', or float32 where in is scaled and rounded (in.own).  Then
 * in and in.own may be times another power of two afterwards. */
musec_status ms_newton_schulz(ms_device *d, ms_mat in, const ms_quintic_list *list, int iters,
                              musec_dtype operands, ms_mat out);

/* ---- spectra: these wait
 * -------------------------------------------------------------------------- */

/* count * min(rows, cols) singular values, descending, to host memory. */
musec_status ms_singular_values(ms_device *d, ms_mat x, double *values);
void         ms_spectrum_stats_of(const double *values, int64_t r, double threshold,
                                  musec_spectrum_stats *stats);
musec_status ms_norm2_lanczos(ms_device *d, ms_mat x, int steps, uint64_t seed, double *norm);
/* The q-quantile (0 < q <= 1) of the singular values of each matrix, from the Gauss rule of 16
 * Lanczos steps (stochastic Lanczos quadrature): good to a few percent of the spectrum's width. */
musec_status ms_quantile_estimate(ms_device *d, ms_mat x, double q, uint64_t seed, double *values);

/* ---- the operators of musec_clip() ----------------------------------------------------------- */

bool ms_operator_clips(const char *op); /* does it take a threshold? */

#endif
