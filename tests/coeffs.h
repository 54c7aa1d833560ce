/* coeffs.h - reader of data/golden/coeffs.txt, the stored plans:
 *
 *     plan NAME u_d products nstages tol
 *     stage q E c_0 .. c_q       odd polynomial p(u) = sum c_j u^(2j+1)
 *     cheb q wmax k_0 .. k_q     the same p as T = sum k_j T_j(v), v = 2 w / wmax - 1, w = u^2 */
#ifndef MS_TESTS_COEFFS_H
#define MS_TESTS_COEFFS_H

#include <stdbool.h>
#include <stddef.h>

#define COEFFS_STAGES 4
#define COEFFS_Q      4

typedef struct coeffs_stage {
    int    q;
    double error, wmax;
    double c[COEFFS_Q + 1], k[COEFFS_Q + 1];
    bool   has_cheb; /* wmax and k are there */
} coeffs_stage;

typedef struct coeffs_plan {
    char         name[24];
    double       u_d, tol; /* u_d 0: made for no interval */
    int          products, n_stages;
    coeffs_stage stage[COEFFS_STAGES];
} coeffs_plan;

/* How many plans there are; fails the running test if they are more than max or not as above. */
size_t coeffs_read(coeffs_plan *plans, size_t max);

#endif
