/* sharp_chain.h - polynomials that turn the soft clip into a sharper one: the table, and which row
 * to take.
 *
 * The soft engine gives Z and the soft clip S = Z X.  With zeta = D^2 / (sigma^2 + D^2), an
 * eigenvalue of c Z^2, the clip of sharpness p is g_p(V) S:
 *     V = I - 2 c Z^2,    x = 1 - 2 zeta in [-1, 1],
 *     g_p(x)    = (((1-x)/2)^(p/2) + ((1+x)/2)^(p/2))^(-1/p),
 *     g_hard(x) = ((1 + |x|) / 2)^(-1/2).
 * A chain computes a polynomial G of degree 2^n in V that is near g_p, by n symmetric products:
 *     y_0 = V,    y_k = square_k y_{k-1}^2 + source_k y_{k-2} + diag_k I,    G = y_n.
 * Step k needs y_{k-1} and y_{k-2} only.  0 < G <= g_p, so no singular value of G S exceeds D; this
 * stays true where the soft engine returns its singular values times a gain <= 1. */
#ifndef MS_LINALG_SHARP_CHAIN_H
#define MS_LINALG_SHARP_CHAIN_H

#include <stddef.h>

#define MS_SHARP_STEPS 7

typedef struct ms_sharp_step {
    double square, source, diag; /* source is 0 for the first two steps */
} ms_sharp_step;

typedef struct ms_sharp_chain {
    double        sharpness;            /* p; INFINITY for the hard clip */
    int           n;                    /* steps */
    double        error;                /* proven: G lies in [g_p (1 - error), g_p] on [-1, 1] */
    double        error_below;          /* the same for sigma <= 0.7 D */
    ms_sharp_step step[MS_SHARP_STEPS]; /* |y_k| <= 1 for k < n */
} ms_sharp_chain;

/* The row at this index, NULL at the end.  Rows are ordered by sharpness, then by length; within a
 * sharpness the error falls. */
const ms_sharp_chain *ms_sharp_chain_at(size_t index);

/* The shortest chain of this sharpness with error <= tol, the most accurate one if there is none;
 * NULL if the table does not have the sharpness. */
const ms_sharp_chain *ms_sharp_chain_find(double sharpness, double tol);

#endif
