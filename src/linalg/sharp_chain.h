/* sharp_chain.h - polynomials that make the soft clip sharper: their coefficients and errors.
 *
 * With x in [-1, 1], a chain evaluates an even polynomial G by squares:
 *     y_0 = x,   y_k = square y_{k-1}^2 + source y_{k-2} + diag,   G = y_n
 * It stands for g_p(x) = (((1 - x) / 2)^(p/2) + ((1 + x) / 2)^(p/2))^(-1/p), see sharp_clip.c, and
 * never exceeds it.  scripts/clip_polynomials finds the coefficients and proves the errors. */
#ifndef MS_LINALG_SHARP_CHAIN_H
#define MS_LINALG_SHARP_CHAIN_H

#include <stddef.h>

#define MS_SHARP_STEPS 7

typedef struct ms_sharp_step {
    double square, source, diag;
} ms_sharp_step;

typedef struct ms_sharp_chain {
    double        sharpness; /* p; INFINITY: the hard clip */
    int           n;
    double        error;                /* G lies in [(1 - error) g, g] */
    double        error_below;          /* the same for singular values up to 0.7 D */
    ms_sharp_step step[MS_SHARP_STEPS]; /* all |y_k| <= 1 before the last: 16 bits hold them */
} ms_sharp_chain;

/* The products of a chain, with that of y_0 and the one with Z. */
static inline int ms_sharp_products(const ms_sharp_chain *chain) { return chain->n + 2; }

/* The shortest chain of this sharpness with error <= tol and error_below <= tol_below, or else the
 * most accurate one; NULL if the sharpness is none of those that have chains. */
const ms_sharp_chain *ms_sharp_chain_find(double sharpness, double tol, double tol_below);
const ms_sharp_chain *ms_sharp_chain_at(size_t index); /* NULL at the end */

#endif
