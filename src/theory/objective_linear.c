/* objective_linear.c - problems in which W enters by inner products alone: all are convex.
 *
 *   sensing    f = (1/n) sum |<A_i, W> - b_i|, n = 3 rows cols measurements with standard normal
 *              A_i, one in twenty of the b_i wrong.  A subgradient is A^T s / n with |s_i| <= 1, so
 *              L = |A|_2 / sqrt(n).  The target stays the minimum where there are signs in [-1, 1]
 *              for the right ones that make A^T s = 0.  Few wrong values leave such signs, but a
 *              small matrix may not have them: they are looked for, and without them the minimum
 *              is not known
 *   max        f = max_j <A_j, W - W*>, sum_j A_j = 0, so f >= 0 = f(W*); L = max |A_j|_F
 *   kinks      f = k |<U, W>| + |<V, W>|, U = P Q^T / sqrt(r) and V = P diag(1, -1, 1, ...) Q^T /
 *              sqrt(r) for orthonormal P, Q: of norm one, at right angles.  The subgradients are
 *              +-k U +- V.  Their polar factor is +-sqrt(r) V for every k < 1: it has no part along
 *              U, and <U, W> never changes, whatever the step.  With momentum of weight beta the
 *              part along V settles at +-beta / (2 - beta), by turns, unless a slower cycle with a
 *              value of beta^2 / (1 + (1 - beta)^2) catches it: below both, U stays unseen
 *   quadratic  f = sum_ij c_i (W - W*)_ij^2 / 2, c from 1 down to 1/20 over the rows: smooth */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "theory/objective_parts.h"

#define KINK_RATIO  0.1 /* k of kinks */
#define START_APART 1.0 /* |start - target|_F; about that in kinks */

/* ---- sensing --------------------------------------------------------------------------------- */

static bool is_wrong(int64_t i) { return i % 20 == 0; }

/* Computes s = A v, of the right measurements alone, in the scratch, and A^T s in out. */
static void apply_gram(const ms_objective *p, const double *v, double *out)
{
    const int64_t size = ms_objective_size(p), n = p->n;

    memset(p->scratch, 0, (size_t)n * sizeof *p->scratch);
    for (int64_t k = 0; k < size; k++)
        ms_objective_axpy(v[k], p->a + k * n, n, p->scratch);
    for (int64_t i = 0; i < n; i++)
        if (is_wrong(i)) p->scratch[i] = 0.0;
    for (int64_t k = 0; k < size; k++)
        out[k] = ms_objective_dot(p->a + k * n, p->scratch, n);
}

/* Looks for signs of the right measurements, all in [-1, 1], with A^T s = push, the contribution of
 * the wrong ones.  It tries those of least squares, by conjugate gradients: where they fail, others
 * may still exist. */
static musec_status find_signs(ms_error *e, const double *push, const ms_objective *p, bool *found)
{
    const int64_t size   = ms_objective_size(p);
    const double  goal   = ms_objective_norm(push, size);
    double       *buffer = NULL, *v, *r, *d, *q, worst = 0.0;
    musec_status  st;

    TRY(ms_objective_alloc(e, 4 * size, &buffer));
    v = buffer;
    r = v + size;
    d = r + size;
    q = d + size;
    memcpy(r, push, (size_t)size * sizeof *r);
    memcpy(d, push, (size_t)size * sizeof *d);
    for (int it = 0; it < 400 && ms_objective_norm(r, size) > 1e-13 * goal; it++) {
        const double before = ms_objective_dot(r, r, size);
        double       step, more;
        apply_gram(p, d, q);
        step = before / ms_objective_dot(d, q, size);
        ms_objective_axpy(step, d, size, v);
        ms_objective_axpy(-step, q, size, r);
        more = ms_objective_dot(r, r, size) / before;
        for (int64_t k = 0; k < size; k++)
            d[k] = r[k] + more * d[k];
    }
    apply_gram(p, v, q);
    ms_objective_axpy(-1.0, push, size, q);
    for (int64_t i = 0; i < p->n; i++)
        worst = fmax(worst, fabs(p->scratch[i]));
    *found = ms_objective_norm(q, size) <= 1e-10 * goal && worst <= 1.0 - 1e-6;
done:
    free(buffer);
    return st;
}

musec_status ms_objective_make_sensing(ms_error *e, uint64_t seed, ms_objective *p)
{
    const int64_t  size  = ms_objective_size(p);
    const uint64_t wrong = ms_rand_key(seed, "sensing wrong");
    double         norm2, *push = NULL;
    bool           found = false;
    musec_status   st;

    p->n = 3 * size;
    TRY(ms_objective_alloc(e, size * p->n, &p->a)); /* (size, n): entry k of all A_i */
    TRY(ms_objective_alloc(e, p->n, &p->b));
    TRY(ms_objective_alloc(e, p->n, &p->scratch));
    TRY(ms_objective_alloc(e, size, &push));
    ms_objective_draw(seed, "sensing A", 1.0, size * p->n, p->a);
    ms_objective_draw(seed, "target", 1.0 / sqrt((double)size), size, p->target);
    for (int64_t k = 0; k < size; k++)
        ms_objective_axpy(p->target[k], p->a + k * p->n, p->n, p->b);
    for (int64_t i = 0; i < p->n; i++) {
        const double by = is_wrong(i) ? 3.0 * ms_rand_normal(wrong, (uint64_t)i) : 0.0;
        p->b[i] += by;
        for (int64_t k = 0; is_wrong(i) && k < size; k++)
            push[k] += ms_objective_sign(by) * p->a[k * p->n + i];
    }
    ms_objective_place_start(seed, START_APART, p);
    TRY(ms_objective_norm2(e, p->a, size, p->n, &norm2));
    p->lipschitz = norm2 / sqrt((double)p->n);
    TRY(find_signs(e, push, p, &found));
    if (found) p->minimum = ms_objective_sensing(p, p->target, NULL);
done:
    free(push);
    return st;
}

double ms_objective_sensing(const ms_objective *p, const double *w, double *h)
{
    const int64_t size = ms_objective_size(p), n = p->n;
    double        sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        p->scratch[i] = -p->b[i];
    for (int64_t k = 0; k < size; k++)
        ms_objective_axpy(w[k], p->a + k * n, n, p->scratch);
    for (int64_t i = 0; i < n; i++) {
        sum += fabs(p->scratch[i]);
        p->scratch[i] = ms_objective_sign(p->scratch[i]) / (double)n;
    }
    for (int64_t k = 0; h != NULL && k < size; k++)
        h[k] = ms_objective_dot(p->a + k * n, p->scratch, n);
    return sum / (double)n;
}

/* ---- max ------------------------------------------------------------------------------------- */

musec_status ms_objective_make_max(ms_error *e, uint64_t seed, ms_objective *p)
{
    const int64_t size = ms_objective_size(p);
    musec_status  st;

    p->n = 32;
    TRY(ms_objective_alloc(e, p->n * size, &p->a)); /* (n, size) */
    TRY(ms_objective_alloc(e, size, &p->b));        /* their mean */
    TRY(ms_objective_alloc(e, size, &p->scratch));
    ms_objective_draw(seed, "max A", 1.0 / sqrt((double)size), p->n * size, p->a);
    ms_objective_draw(seed, "target", 1.0 / sqrt((double)size), size, p->target);
    for (int64_t j = 0; j < p->n; j++)
        ms_objective_axpy(1.0 / (double)p->n, p->a + j * size, size, p->b);
    for (int64_t j = 0; j < p->n; j++) {
        ms_objective_axpy(-1.0, p->b, size, p->a + j * size);
        p->lipschitz = fmax(p->lipschitz, ms_objective_norm(p->a + j * size, size));
    }
    ms_objective_place_start(seed, START_APART, p);
    p->minimum = 0.0;
done:
    return st;
}

double ms_objective_max(const ms_objective *p, const double *w, double *h)
{
    const int64_t size  = ms_objective_size(p);
    int64_t       which = 0;
    double        top   = -INFINITY;

    for (int64_t k = 0; k < size; k++)
        p->scratch[k] = w[k] - p->target[k];
    for (int64_t j = 0; j < p->n; j++) {
        const double value = ms_objective_dot(p->a + j * size, p->scratch, size);
        if (value > top) {
            top   = value;
            which = j;
        }
    }
    if (h != NULL) memcpy(h, p->a + which * size, (size_t)size * sizeof *h);
    return top;
}

/* ---- kinks ----------------------------------------------------------------------------------- */

/* n random vectors, made orthonormal by Gram-Schmidt, each twice because of rounding. */
static void orthonormal(uint64_t seed, const char *purpose, int64_t n, int64_t length, double *q)
{
    ms_objective_draw(seed, purpose, 1.0, n * length, q);
    for (int64_t i = 0; i < n; i++) {
        double *x = q + i * length, norm;
        for (int twice = 0; twice < 2; twice++)
            for (int64_t k = 0; k < i; k++)
                ms_objective_axpy(-ms_objective_dot(q + k * length, x, length), q + k * length,
                                  length, x);
        norm = ms_objective_norm(x, length);
        for (int64_t k = 0; k < length; k++)
            x[k] /= norm;
    }
}

musec_status ms_objective_make_kinks(ms_error *e, uint64_t seed, ms_objective *p)
{
    const int64_t size = ms_objective_size(p), m = p->rows, n = p->cols;
    const int64_t r    = ms_objective_rank(p) / 2 * 2; /* as many 1 as -1 */
    double       *left = NULL, *right = NULL, hop;
    musec_status  st;

    p->n = 2;
    TRY(ms_objective_alloc(e, 2 * size, &p->a)); /* U, then V */
    TRY(ms_objective_alloc(e, r * m, &left));
    TRY(ms_objective_alloc(e, r * n, &right));
    orthonormal(seed, "kinks left", r, m, left);
    orthonormal(seed, "kinks right", r, n, right);
    for (int64_t k = 0; k < r; k++)
        for (int64_t i = 0; i < m; i++) {
            const double x = left[k * m + i] / sqrt((double)r);
            ms_objective_axpy(x, right + k * n, n, p->a + i * n);
            ms_objective_axpy(k % 2 == 0 ? x : -x, right + k * n, n, p->a + size + i * n);
        }
    ms_objective_axpy(START_APART, p->a, size, p->start);
    hop = 0.001 + 0.009 * ms_rand_uniform(ms_rand_key(seed, "kinks start"), 0);
    ms_objective_axpy(START_APART * hop, p->a + size, size, p->start);
    p->lipschitz = hypot(KINK_RATIO, 1.0);
    p->minimum   = 0.0;
done:
    free(left);
    free(right);
    return st;
}

double ms_objective_kinks(const ms_objective *p, const double *w, double *h)
{
    const int64_t size = ms_objective_size(p);
    const double  u = ms_objective_dot(p->a, w, size), v = ms_objective_dot(p->a + size, w, size);

    for (int64_t k = 0; h != NULL && k < size; k++)
        h[k] = KINK_RATIO * ms_objective_sign(u) * p->a[k] + ms_objective_sign(v) * p->a[size + k];
    return KINK_RATIO * fabs(u) + fabs(v);
}

/* ---- quadratic ------------------------------------------------------------------------------- */

musec_status ms_objective_make_quadratic(ms_error *e, uint64_t seed, ms_objective *p)
{
    const int64_t size = ms_objective_size(p);
    musec_status  st;

    p->n = p->rows;
    TRY(ms_objective_alloc(e, p->rows, &p->a)); /* c */
    for (int64_t i = 0; i < p->rows; i++)
        p->a[i] = pow(20.0, p->rows > 1 ? -(double)i / (double)(p->rows - 1) : 0.0);
    ms_objective_draw(seed, "target", 1.0 / sqrt((double)size), size, p->target);
    ms_objective_place_start(seed, START_APART, p);
    p->radius    = 2.0 * START_APART;
    p->lipschitz = p->radius + START_APART; /* |W - W*| at most, times the largest c */
    p->minimum   = 0.0;
done:
    return st;
}

double ms_objective_quadratic(const ms_objective *p, const double *w, double *h)
{
    double sum = 0.0;
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t k = i * p->cols; k < (i + 1) * p->cols; k++) {
            const double x = w[k] - p->target[k];
            sum += 0.5 * p->a[i] * x * x;
            if (h != NULL) h[k] = p->a[i] * x;
        }
    return sum;
}
