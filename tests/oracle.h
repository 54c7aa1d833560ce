/* oracle.h - an independent judge for spectral operators.
 *
 * It shares no code with src: its own random numbers, its own orthogonal matrices, its own singular
 * values, all in double and in host memory.  A matrix X = U diag(s) V^T is made from a chosen SVD,
 * so the answer to any operator that maps singular values is known without computing an SVD:
 *
 *     oracle o = oracle_make(48, 16, ORACLE_GEOMETRIC, 4.0, 1e-3, 7);
 *     oracle_map(&o, soft, &threshold);            // o.want = U diag(soft(s)) V^T
 *     void *x = oracle_stored(o.x, 48 * 16, MUSEC_F32);
 *     ... upload x, run the operator, download `got` ...
 *     CHECK(oracle_rel_err(got, MUSEC_F32, o.want, 48 * 16) <= 1e-5, "...");
 *     CHECK(oracle_norm2(got, MUSEC_F32, 48, 16) <= 1.00001 * threshold, "...");
 *     free(x); oracle_free(&o);
 *
 * Storing X as float32 moves each singular value by at most 2^-24 |X|_F (Weyl), which bounds made
 * for float32 must allow for: next to the large singular values it is nothing, but the small ones
 * of an ill-conditioned X are no longer those that were chosen.
 *
 * All buffers are dense and row major.  Running out of memory aborts the test program. */
#ifndef MS_TESTS_ORACLE_H
#define MS_TESTS_ORACLE_H

#include <stdint.h>

#include <musec/musec.h>

/* How the k = min(rows, cols) singular values go from `top` down to `bottom`. */
typedef enum oracle_kind {
    ORACLE_GEOMETRIC, /* constant ratio; bottom 0 is taken as 0 for the last value alone, the others
                         going down to top * 1e-8 */
    ORACLE_LINEAR,    /* constant difference */
    ORACLE_FLAT,      /* all equal to top */
    ORACLE_ONE,       /* the first is top, all others bottom (rank one for bottom = 0) */
    ORACLE_HALF,      /* the upper half top, the rest bottom (rank deficient for bottom = 0) */
    ORACLE_KINDS
} oracle_kind;

typedef struct oracle {
    int64_t rows, cols, k; /* k = min(rows, cols) */
    double *s;             /* (k) descending, unless the caller's own */
    double *u;             /* (k, rows): row l is the left singular vector l */
    double *v;             /* (k, cols): row l is the right singular vector l */
    double *x;             /* (rows, cols) U diag(s) V^T */
    double *want;          /* (rows, cols) set by oracle_map; X before that */
} oracle;

oracle oracle_make(int64_t rows, int64_t cols, oracle_kind kind, double top, double bottom,
                   uint64_t seed);
oracle oracle_make_from(int64_t rows, int64_t cols, const double *s, uint64_t seed); /* s: (k) */
void   oracle_map(oracle *o, double (*f)(double s, const void *arg), const void *arg);
void   oracle_free(oracle *o);

/* ---- judging a result of either dtype -------------------------------------------------------- */

/* |got - want|_F / |want|_F, or |got|_F where want is 0.  NaN and infinity give NaN or infinity. */
double oracle_rel_err(const void *got, musec_dtype dtype, const double *want, int64_t n);
double oracle_max_err(const void *got, musec_dtype dtype, const double *want, int64_t n);
/* Singular values of any matrix, descending, s: (min(rows, cols)); relative accuracy about
 * n * 2^-53 of the largest.  Cost grows as min^2 max: meant for up to some 500 x 500. */
void   oracle_singular_values(const void *x, musec_dtype dtype, int64_t rows, int64_t cols,
                              double *s);
double oracle_norm2(const void *x, musec_dtype dtype, int64_t rows, int64_t cols);
/* max |Q^T Q - I| over the columns of q (rows x cols, rows >= cols). */
double oracle_orthogonality(const void *q, musec_dtype dtype, int64_t rows, int64_t cols);

/* ---- material for identities: f(Q X P) = Q f(X) P, f(X^T) = f(X)^T --------------------------- */

double  oracle_uniform(uint64_t *state); /* in (0, 1); *state any number, advanced */
double  oracle_normal(uint64_t *state);
double *oracle_gaussian(int64_t rows, int64_t cols, uint64_t seed); /* malloc'ed, as all below */
double *oracle_orthogonal(int64_t n, uint64_t seed);                /* (n, n) */
double *oracle_product(const double *a, const double *b, int64_t m, int64_t k, int64_t n);
double *oracle_transpose(const double *a, int64_t rows, int64_t cols);
void   *oracle_stored(const double *x, int64_t n, musec_dtype dtype); /* rounded to dtype */
double *oracle_loaded(const void *x, int64_t n, musec_dtype dtype);

#endif
