/* precondition.h - what the base optimizers share that precondition both sides of a gradient: the
 * second moments of its rows and columns, L = sum G G^T and R = sum G^T G, and their eigenvectors.
 *
 * A side with more than max_precond_dim rows or columns is not preconditioned: the identity stands
 * in for its factor, and its state is one number, 0. */
#ifndef MS_OPTIM_PRECONDITION_H
#define MS_OPTIM_PRECONDITION_H

#include "optim/optim.h"

enum { MS_LEFT, MS_RIGHT, MS_SIDES };

/* A matrix for each side of a stack of matrices, (count, n, n); no data: the identity. */
typedef struct ms_sides {
    ms_mat of[MS_SIDES];
} ms_sides;

/* The shape and dtype of a state of this name for a weight like `whole`: "left..." and "right..."
 * are squares, or rows of float64 where they end in "-values", and others like the weight. */
ms_mat ms_precond_state_shape(const musec_optim_config *cfg, const char *state, ms_mat whole);
/* Two states of the call, from state[k] on, as the sides of its matrices. */
ms_sides ms_sides_of(const ms_direction *p, int k);

/* b and the share of a new gradient in L <- b L + share G G^T. */
typedef struct ms_factor_coefs {
    double keep, add;
} ms_factor_coefs;
ms_factor_coefs ms_factor_coefs_of(const musec_optim_config *cfg);

/* A factor adds up squares of all entries of a row. */
double ms_precond_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max);
/* Bytes that the functions below need for one such matrix, with `matrices` of its shape beside. */
uint64_t ms_precond_bytes(const musec_optim_config *cfg, ms_mat whole, int matrices);

/* Takes scratch for the gradient, times its factor and with coupled decay, in the state's dtype. */
musec_status ms_precond_gradient(ms_device *d, const ms_direction *p, ms_mat *g);
/* L <- keep L + add X X^T, R <- keep R + add X^T X; where keep is 0, they are not read. */
musec_status ms_update_factors(ms_device *d, ms_factor_coefs c, ms_mat x, ms_sides factors);
/* out <- A x B^T, or A^T x B; tmp is a matrix of scratch, and none of them overlaps another. */
musec_status ms_apply_sides(ms_device *d, ms_sides by, bool transposed, ms_mat x, ms_mat tmp,
                            ms_mat out);
/* The rows of basis become eigenvectors of the factor, by falling eigenvalues. */
musec_status ms_first_bases(ms_device *d, ms_sides factors, ms_sides bases);
/* One step of orthogonal iteration from the bases as they are, and their rows by falling estimates
 * of the eigenvalues first, if v has data: its rows and columns are put in the same order. */
musec_status ms_refresh_bases(ms_device *d, ms_sides factors, ms_mat v, ms_sides bases);
/* The rows of `count` matrices by falling values, one for each row of each; waits. */
musec_status ms_falling_order(ms_device *d, ms_vec values, int64_t count, int32_t *order);
/* roots <- (factor / scale + eps I)^exponent. */
musec_status ms_factor_roots(ms_device *d, ms_sides factors, double scale, double eps,
                             double exponent, ms_sides roots);

#endif
