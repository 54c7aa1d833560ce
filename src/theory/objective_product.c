/* objective_product.c - problems that are not convex: W enters by products of its entries, or
 * behind a ReLU.
 *
 *   phase       f = (1/n) sum | |W^T a_i|^2 - b_i |, a_i normal with E|a_i|^2 = rows, some b_i
 *               wrong.  With A = (a_1, ..., a_n)^T a subgradient is (2/n) A^T diag(s) A W, so L =
 *               (2/n) |A|_2^2 |W|_F; and | |.|^2 - b | is the absolute value of a smooth function
 *               whose second-order part is |A W|^2 / n, so rho = (2/n) |A|_2^2
 *   completion  f = (1/n) sum over the n known (i, j) of |<u_i, v_j> - y_ij|; the first half of the
 *               rows of W are the u_i, the others the v_j.  With the 0-1 matrix E of what is known,
 *               L = |E|_2 |W|_F / n and rho = |E|_2 / n, by |sum s_ij <u_i, v_j>| <= |E|_2 |U|_F
 *               |V|_F
 *   relu        f = (1/n) sum |a^T relu(W x_i) - y_i|, a = (1, -1, 1, ...) / sqrt(rows) fixed.  A
 *               subgradient's row k is a_k / n times a sum of +-x_i, so L = |a| |X|_2 / sqrt(n). A
 *               ReLU with a negative weight has a kink that points down: rho is infinite */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "theory/objective_parts.h"

#define START_APART 0.6 /* |start - target|_F */
#define BALL        2.0 /* radius around the start where the constants hold */

/* Returns the largest |W|_F in the ball. */
static double place_start(uint64_t seed, ms_objective *p)
{
    ms_objective_place_start(seed, START_APART, p);
    p->radius = BALL;
    return ms_objective_norm(p->start, ms_objective_size(p)) + BALL;
}

/* ---- phase ----------------------------------------------------------------------------------- */

musec_status ms_objective_make_phase(ms_error *e, uint64_t seed, ms_objective *p)
{
    const int64_t  size  = ms_objective_size(p);
    const uint64_t wrong = ms_rand_key(seed, "phase wrong");
    double         norm2, largest;
    musec_status   st;

    p->n = 8 * p->rows;
    TRY(ms_objective_alloc(e, p->n * p->rows, &p->a));
    TRY(ms_objective_alloc(e, p->n, &p->b));
    TRY(ms_objective_alloc(e, p->cols, &p->scratch));
    TRY(ms_objective_alloc(e, size, &p->product));
    ms_objective_draw(seed, "phase A", 1.0, p->n * p->rows, p->a);
    ms_objective_draw(seed, "target", 1.0 / sqrt((double)size), size, p->target);
    for (int64_t i = 0; i < p->n; i++) {
        memset(p->scratch, 0, (size_t)p->cols * sizeof *p->scratch);
        for (int64_t k = 0; k < p->rows; k++)
            ms_objective_axpy(p->a[i * p->rows + k], p->target + k * p->cols, p->cols, p->scratch);
        p->b[i] = ms_objective_dot(p->scratch, p->scratch, p->cols);
        if (i % 20 == 0) p->b[i] += fabs(ms_rand_normal(wrong, (uint64_t)i));
    }
    largest = place_start(seed, p);
    TRY(ms_objective_norm2(e, p->a, p->n, p->rows, &norm2));
    p->rho       = 2.0 * norm2 * norm2 / (double)p->n;
    p->lipschitz = p->rho * largest;
done:
    return st;
}

double ms_objective_phase(const ms_objective *p, const double *w, double *h)
{
    const int64_t m = p->rows, n = p->cols;
    double       *x   = p->scratch; /* (n) W^T a_i */
    double        sum = 0.0;

    if (h != NULL) memset(h, 0, (size_t)(m * n) * sizeof *h);
    for (int64_t i = 0; i < p->n; i++) {
        const double *a = p->a + i * m;
        double        miss, s;
        memset(x, 0, (size_t)n * sizeof *x);
        for (int64_t k = 0; k < m; k++)
            ms_objective_axpy(a[k], w + k * n, n, x);
        miss = ms_objective_dot(x, x, n) - p->b[i];
        sum += fabs(miss);
        s = 2.0 * ms_objective_sign(miss) / (double)p->n;
        for (int64_t k = 0; h != NULL && k < m; k++)
            ms_objective_axpy(s * a[k], x, n, h + k * n);
    }
    return sum / (double)p->n;
}

/* ---- completion ------------------------------------------------------------------------------ */

/* The first of the rows that are the v_j. */
static int64_t first_v(const ms_objective *p) { return p->rows / 2; }

musec_status ms_objective_make_completion(ms_error *e, uint64_t seed, ms_objective *p)
{
    const int64_t  size = ms_objective_size(p), n_u = first_v(p), n_v = p->rows - n_u, k = p->cols;
    const uint64_t key   = ms_rand_key(seed, "completion known");
    double        *known = NULL, norm2, largest;
    musec_status   st;

    TRY(ms_objective_alloc(e, n_u * n_v, &known));
    TRY(ms_objective_alloc(e, n_u * n_v, &p->b));
    p->at = calloc((size_t)(2 * n_u * n_v), sizeof *p->at); /* pairs of rows of W */
    if (p->at == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for the places"));
    ms_objective_draw(seed, "target", 2.0 / sqrt((double)size), size, p->target);
    for (int64_t i = 0; i < n_u; i++)
        for (int64_t j = 0; j < n_v; j++) {
            const uint64_t at = (uint64_t)(i * n_v + j);
            if (ms_rand_uniform(key, at) > 0.75 && i + j > 0) continue; /* keeps one at least */
            known[at]           = 1.0;
            p->at[2 * p->n]     = i;
            p->at[2 * p->n + 1] = n_u + j;
            p->b[p->n]          = ms_objective_dot(p->target + i * k, p->target + (n_u + j) * k, k);
            p->n++;
        }
    largest = place_start(seed, p);
    TRY(ms_objective_norm2(e, known, n_u, n_v, &norm2));
    p->rho       = norm2 / (double)p->n;
    p->lipschitz = p->rho * largest;
    p->minimum   = 0.0;
done:
    free(known);
    return st;
}

double ms_objective_completion(const ms_objective *p, const double *w, double *h)
{
    const int64_t k   = p->cols;
    double        sum = 0.0;

    if (h != NULL) memset(h, 0, (size_t)ms_objective_size(p) * sizeof *h);
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t u = p->at[2 * i] * k, v = p->at[2 * i + 1] * k;
        const double  miss = ms_objective_dot(w + u, w + v, k) - p->b[i];
        const double  s    = ms_objective_sign(miss) / (double)p->n;
        sum += fabs(miss);
        if (h == NULL) continue;
        ms_objective_axpy(s, w + v, k, h + u);
        ms_objective_axpy(s, w + u, k, h + v);
    }
    return sum / (double)p->n;
}

/* ---- relu ------------------------------------------------------------------------------------ */

static double out_weight(const ms_objective *p, int64_t row)
{
    return (row % 2 == 0 ? 1.0 : -1.0) / sqrt((double)p->rows);
}

/* a^T relu(W x), with the rows' own values in z */
static double network(const ms_objective *p, const double *w, const double *x, double *z)
{
    double sum = 0.0;
    for (int64_t k = 0; k < p->rows; k++) {
        z[k] = ms_objective_dot(w + k * p->cols, x, p->cols);
        sum += out_weight(p, k) * fmax(z[k], 0.0);
    }
    return sum;
}

musec_status ms_objective_make_relu(ms_error *e, uint64_t seed, ms_objective *p)
{
    const int64_t size = ms_objective_size(p);
    double        norm2;
    musec_status  st;

    p->n = 128;
    TRY(ms_objective_alloc(e, p->n * p->cols, &p->a)); /* the x_i */
    TRY(ms_objective_alloc(e, p->n, &p->b));
    TRY(ms_objective_alloc(e, p->rows, &p->scratch));
    ms_objective_draw(seed, "relu X", 1.0, p->n * p->cols, p->a);
    ms_objective_draw(seed, "target", 2.0 / sqrt((double)size), size, p->target);
    for (int64_t i = 0; i < p->n; i++)
        p->b[i] = network(p, p->target, p->a + i * p->cols, p->scratch);
    (void)place_start(seed, p);
    p->radius = INFINITY;
    TRY(ms_objective_norm2(e, p->a, p->n, p->cols, &norm2));
    p->lipschitz = norm2 / sqrt((double)p->n); /* |a| is 1 */
    p->rho       = INFINITY;
    p->minimum   = 0.0;
done:
    return st;
}

double ms_objective_relu(const ms_objective *p, const double *w, double *h)
{
    const int64_t n   = p->cols;
    double       *z   = p->scratch;
    double        sum = 0.0;

    if (h != NULL) memset(h, 0, (size_t)ms_objective_size(p) * sizeof *h);
    for (int64_t i = 0; i < p->n; i++) {
        const double *x    = p->a + i * n;
        const double  miss = network(p, w, x, z) - p->b[i];
        const double  s    = ms_objective_sign(miss) / (double)p->n;
        sum += fabs(miss);
        for (int64_t k = 0; h != NULL && k < p->rows; k++)
            if (z[k] > 0.0) ms_objective_axpy(s * out_weight(p, k), x, n, h + k * n);
    }
    return sum / (double)p->n;
}
