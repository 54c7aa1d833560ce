/* linalg.h - operators on the singular values of matrices, for every device.
 *
 * All take a stack of equal matrices of any shape, work on the smaller side, and scale by powers of
 * two so that neither huge nor tiny entries overflow (but for ms_newton_schulz, whose normalisation
 * is part of its definition).  The threshold D is a constant or one value per matrix on the device.
 * Inputs must be finite, dimensions positive, thresholds positive and finite: the public functions
 * in operators.c check that.  in and out do not overlap.  A matrix of zeros gives zeros. */
#ifndef MS_LINALG_LINALG_H
#define MS_LINALG_LINALG_H

#include "linalg/scalar_programs.h"

/* ---- what all operators begin and end with --------------------------------------------------- */

/* A stack of matrices, or one that was scaled and rounded to 16 bits beforehand: then `mat` holds
 * scale[b] times matrix b.  The scales are powers of two and may be anything: entries near 1 lose
 * nothing in f16. */
typedef struct ms_scaled_mat {
    ms_mat mat;
    ms_vec scale;          /* (count) on the device; data NULL: the matrices are as they are */
    int    scale_exponent; /* log2 of a typical scale, as far as the host knows it */
} ms_scaled_mat;

static inline ms_scaled_mat ms_unscaled(ms_mat mat)
{
    ms_scaled_mat x = { 0 };
    x.mat           = mat;
    return x;
}

static inline ms_scaled_mat ms_scaled_slice(ms_scaled_mat x, int64_t first, int64_t count)
{
    x.mat   = ms_mat_slice(x.mat, first, count);
    x.scale = ms_vec_slice(x.scale, first, count);
    return x;
}

/* The operators by products take the dtype that the inputs of products are rounded to.  0 or the
 * input's dtype: nothing is rounded further.  bf16 or f16: for float32 input, or for scaled input
 * that has these 16 bits already (not where rows or cols are 1).  Products are accumulated in
 * float32 or wider in any case. */
static inline musec_dtype ms_compute_dtype(ms_mat in, musec_dtype compute_dtype)
{
    return compute_dtype == 0 ? in.dtype : compute_dtype;
}

static inline bool ms_is_16bit(musec_dtype dtype) { return ms_dtype_bytes(dtype) == 2; }

/* May operators on input of this dtype compute in that one (0: the input's own) on this device?
 * Fills the error if not. */
musec_status ms_compute_dtype_check(ms_device *d, const char *what, musec_dtype input,
                                    int compute_dtype);

typedef struct ms_prepared { /* lives in the scratch of the caller's mark */
    ms_mat  x;               /* the matrix times `scale`, transposed so that rows <= cols */
    bool    transposed;      /* so is the output */
    int64_t r;               /* rows of x */
    ms_vec  s, sd, sd2;      /* as in scalar_programs.h */
    ms_vec  scale;           /* s; where x has 16 bits, that of the matrix alone, without D */
    double  out_scale;       /* a power of two on the result of ms_apply, near 1 / scale; else 1 */
} ms_prepared;

musec_status ms_prepare(ms_device *d, ms_mat in, ms_num threshold, musec_dtype compute_dtype,
                        ms_prepared *p);

/* |G|_F^2 and tr G of the Gram matrices G of a stack, (count) each on the device, or no data.  They
 * are kept from one call to the next. */
typedef struct ms_gram_norms {
    ms_vec sumsq, trace;
} ms_gram_norms;

/* What cached norms predict: |A|_F^2, and the coefficients of G and I in B. */
typedef struct ms_gram_prediction {
    ms_gram_norms cached;
    ms_vec        norm2, gram_coef, diag; /* out */
} ms_gram_prediction;

/* Scaled input is taken as it is, and no matrix is read.  The vectors of p are the caller's.
 * prediction NULL: none. */
musec_status ms_prepare_scaled(ms_device *d, ms_scaled_mat in, ms_num threshold,
                               const ms_gram_prediction *prediction, ms_prepared *p);
/* out <- out_scale z x for symmetric z, or out_scale x^T z where x was transposed; where the mask,
 * if it has data, is not 0. */
musec_status ms_apply(ms_device *d, const ms_prepared *p, ms_mat z, ms_mat out, ms_vec mask);
/* An exact operator on matrices with one row or column, where it is a factor. */
musec_status ms_vector_clip(ms_device *d, double sharpness, const ms_prepared *p, ms_num threshold,
                            ms_mat in, ms_mat out);

/* Takes scratch for all vectors of a struct of ms_vec. */
#define MS_SCRATCH_VECS(d, n, vecs) \
    ms_scratch_vecs(d, n, (int)(sizeof *(vecs) / sizeof(ms_vec)), (ms_vec *)(vecs))
musec_status ms_scratch_vecs(ms_device *d, int64_t count, int n, ms_vec *vecs);

/* c <- x x^T, exactly symmetric. */
static inline musec_status ms_gram(ms_device *d, ms_mat x, ms_mat c)
{
    return d->ops->product(
        d,
        &(ms_product){ .a = x, .b = ms_t(x), .alpha = ms_const(1.0), .c = c, .symmetric = true });
}

/* Does the memory from the first to the last element of a meet that of b?  Neither is
 * transposed. */
bool ms_mat_overlap(ms_mat a, ms_mat b);
/* The addresses from the first to behind the last element of a stack. */
void ms_mat_extent(ms_mat x, uintptr_t *begin, uintptr_t *end);

/* The first matrix of the stack that holds a NaN or an infinity, and how many; -1: none.  Waits. */
musec_status ms_first_nonfinite(ms_device *d, ms_mat x, int64_t *matrix, double *count);

/* What was done to each matrix: an array of in.count entries, or NULL where nobody asks.  Filling
 * it waits for the device. */
typedef musec_clip_report ms_report;
void ms_report_path(ms_report *report, int64_t count, const char *path, int products);
/* Appends " f16" or " bf16" to the path where products have 16-bit inputs. */
void ms_report_compute_dtype(ms_report *report, int64_t count, musec_dtype compute_dtype);

/* ---- soft clipping by products --------------------------------------------------------------- */

/* Matrices of several shapes whose smaller sides are equal: everything of them that is r x r is
 * computed at once.  More than one stack only of scaled input with one scale exponent.  Thresholds
 * and reports are those of all matrices in a row. */
enum { MS_STACKS = 4 };
typedef struct ms_stacks {
    int           n;
    ms_scaled_mat in[MS_STACKS];
    ms_mat        out[MS_STACKS];
    double        sharpness; /* of the clip: MS_SOFT, or one that has a chain (sharp_chain.h) */
    /* For all stacks or none: the norms of G at the last call, 0 if unknown; they become those of
     * this call.  With them `fast` and `accurate` take one pass less over matrices that change
     * little from call to call. */
    ms_gram_norms gram_norms[MS_STACKS];
    /* (all matrices), or no data: where it is 0, `out` stays as it is.  By products alone, and not
     * where they end in decompositions. */
    ms_vec write;
} ms_stacks;

static inline ms_stacks ms_stack(ms_scaled_mat in, ms_mat out)
{
    ms_stacks x = { 0 };
    x.n         = 1;
    x.sharpness = MS_SOFT;
    x.in[0]     = in;
    x.out[0]    = out;
    return x;
}

/* The paper's SSC(M, D, K) as it is written: 3K + 2 full products. */
musec_status ms_ssc_literal(ms_device *d, ms_stacks x, ms_num threshold, int iters,
                            musec_dtype compute_dtype, ms_report *report);
/* Any plan with alpha = |A|_F: with ms_plan_newton_schulz(K) the same polynomial, far cheaper. */
musec_status ms_ssc_plan(ms_device *d, ms_stacks x, ms_num threshold, const ms_poly_plan *plan,
                         musec_dtype compute_dtype, ms_report *report);
/* Seven products, alpha = C4, the plan chosen on the device for each matrix. */
musec_status ms_soft_fast(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype compute_dtype,
                          ms_report *report);
/* Within tol of the exact soft clip, by the cheapest plan for each matrix.  In float32 and float64
 * by eigenvalues where no plan will do: it waits once, for a number of each.  With a 16-bit compute
 * dtype, tol is that of the polynomials and rounding comes on top; the plans are chosen on the
 * device, and nothing waits. */
musec_status ms_soft_accurate(ms_device *d, ms_stacks x, ms_num threshold, double tol,
                              musec_dtype compute_dtype, ms_report *report);

/* ---- exact, by eigenvalues or SVD: these wait ------------------------------------------------ */

musec_status ms_exact(ms_device *d, double sharpness, ms_mat in, ms_num threshold, ms_mat out,
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
    int  fused; /* steps that large matrices may take at a time in f16; at most 2 elsewhere */
    bool eps_is_floor; /* or as M / max(norm_factor |M|_F, eps) */
} ms_quintic_list;

#define MS_QUINTIC_LISTS "keller|polar-express|cans|you|turbo|cubic"
const ms_quintic_list *ms_quintic_list_find(const char *name); /* NULL: unknown */
/* The most steps that are taken at a time for r x n matrices, r <= n; that takes one r x r matrix
 * more than there are steps. */
int ms_newton_schulz_fused(const ms_quintic_list *list, musec_dtype compute_dtype, int64_t r,
                           int64_t n);
/* out has the dtype of in, the compute dtype, or float32 where in is scaled.  Scaled input and its
 * scale may be multiplied by another power of two in place. */
musec_status ms_newton_schulz(ms_device *d, ms_scaled_mat in, const ms_quintic_list *list,
                              int iters, musec_dtype compute_dtype, ms_mat out);

/* ---- spectra: these wait --------------------------------------------------------------------- */

/* count * min(rows, cols) singular values, descending, to host memory. */
musec_status ms_singular_values(ms_device *d, ms_mat x, double *values);
void         ms_spectrum_stats_of(const double *values, int64_t r, double threshold,
                                  musec_spectrum_stats *stats);
musec_status ms_norm2_lanczos(ms_device *d, ms_mat x, int steps, uint64_t seed, double *norm);
/* The q-quantile (0 < q <= 1) of the singular values of each matrix of the inputs over their root
 * mean square, to host memory; 0 for a matrix of zeros.  From the Gauss rule of 16 Lanczos steps
 * (stochastic Lanczos quadrature): good to a few percent of the spectrum's width. */
musec_status ms_quantile_ratios(ms_device *d, const ms_stacks *x, double q, uint64_t seed,
                                double *ratios);

/* ---- the operators of musec_clip() ----------------------------------------------------------- */

bool ms_operator_clips(const char *op); /* does it take a threshold? */

#endif
