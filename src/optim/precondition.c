/* precondition.c - Kronecker factors of second moments and their eigenvectors.
 *
 * A basis E has the eigenvectors as its rows: E L E^T is diagonal.  The first one comes from an
 * eigendecomposition.  After that a factor changes little from one refresh to the next, and one
 * step of orthogonal iteration follows it, as Vyas et al. (arXiv 2409.11321, Algorithm 4) do:
 *
 *     E <- the rows of E (L / |L|_F + shift I), orthonormalized one after the other.
 *
 * Rows with large eigenvalues come first, by the estimates diag(E L E^T).  The shift is about what
 * rounding leaves of an eigenvalue 0: a row in the null space of L stays where it is, and does not
 * become the direction of rounding errors.
 *
 * Rows are orthonormalized by Gram-Schmidt in panels: against the panels before it by products,
 * then row by row, and all of that twice.  Once is not enough: after a gradient in the former null
 * space many rows are nearly one vector, and what a projection leaves of them is orthogonal to the
 * others only after the next.  All of it is float64, whatever the state is: a factor is squares,
 * and its small eigenvalues are what preconditioning is about.
 *
 * Cost of a refresh of n x n: 6 n^3, and some 20 n small calls. */
#include "optim/precondition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 32 }; /* rows */

/* ---- state ----------------------------------------------------------------------------------- */

ms_mat ms_precond_state_shape(const musec_optim_config *cfg, const char *state, ms_mat whole)
{
    const bool    left = strncmp(state, "left", 4) == 0, right = strncmp(state, "right", 5) == 0;
    const int64_t n = left ? whole.rows : whole.cols;
    ms_mat        x = { .rows = n, .cols = n, .dtype = whole.dtype };
    if (!left && !right) return whole;
    if (strstr(state, "-values") != NULL) x.rows = 1, x.dtype = MUSEC_F64;
    if (n > cfg->max_precond_dim) x.rows = x.cols = 1;
    return x;
}

ms_sides ms_sides_of(const ms_direction *p, int k)
{
    ms_sides s = { 0 };
    if (p->grad.rows <= p->cfg->max_precond_dim) s.of[MS_LEFT] = p->state[k];
    if (p->grad.cols <= p->cfg->max_precond_dim) s.of[MS_RIGHT] = p->state[k + 1];
    return s;
}

double ms_precond_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max)
{
    const double squares = 1e8; /* that a row or a column may have */
    (void)cfg, (void)threshold;
    return sqrt(dtype_max / squares);
}

/* Factor, basis and their product in float64 and a panel of products; or those of an
 * eigendecomposition, which takes about five more. */
static uint64_t side_bytes(const musec_optim_config *cfg, int64_t n)
{
    enum { MATRICES = 8, VECTORS = 64, PIECES = 16 };
    const uint64_t size = (uint64_t)n;
    if (n > cfg->max_precond_dim) return 0;
    return sizeof(double) * (MATRICES * size * size + VECTORS * size) + PIECES * MS_ARENA_ALIGN;
}

uint64_t ms_precond_bytes(const musec_optim_config *cfg, ms_mat whole, int matrices)
{
    const uint64_t one  = (uint64_t)(whole.rows * whole.cols) * ms_dtype_bytes(whole.dtype);
    const uint64_t left = side_bytes(cfg, whole.rows), right = side_bytes(cfg, whole.cols);
    return (uint64_t)matrices * (one + MS_ARENA_ALIGN) + (left > right ? left : right);
}

/* ---- products -------------------------------------------------------------------------------- */

musec_status ms_precond_gradient(ms_device *d, const ms_direction *p, ms_mat *g)
{
    const ms_mat none    = { 0 };
    const bool   coupled = p->coupled_decay != 0.0;
    ms_term term    = { .x_coef = ms_const(p->grad_factor), .y_coef = ms_const(p->coupled_decay) };
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(d, p->out.dtype, p->out.count, p->out.rows, p->out.cols, g));
    term.out = *g;
    if (!coupled && p->grad_factor == 1.0)
        TRY(d->ops->copy(d, p->grad, *g));
    else
        TRY(d->ops->combine(d, p->grad, coupled ? p->weight : none, &term, 1));
done:
    return st;
}

ms_factor_coefs ms_factor_coefs_of(const musec_optim_config *cfg)
{
    const double b = cfg->precondition_beta > 0.0 ? cfg->precondition_beta : cfg->beta2;
    return (ms_factor_coefs){ .keep = b, .add = b < 1.0 ? 1.0 - b : 1.0 };
}

musec_status ms_update_factors(ms_device *d, ms_factor_coefs coefs, ms_mat x, ms_sides factors)
{
    musec_status st = MUSEC_OK;
    for (int side = 0; side < MS_SIDES; side++) {
        const ms_mat a = side == MS_LEFT ? x : ms_t(x), c = factors.of[side];
        ms_product   gram = {
              .a = a, .b = ms_t(a), .alpha = ms_const(coefs.add), .c = c, .symmetric = true
        };
        if (c.data == NULL) continue;
        if (coefs.keep != 0.0) gram.beta = ms_const(coefs.keep), gram.source = c;
        TRY(d->ops->product(d, &gram));
    }
done:
    return st;
}

musec_status ms_apply_sides(ms_device *d, ms_sides by, bool transposed, ms_mat x, ms_mat tmp,
                            ms_mat out)
{
    const ms_device_ops *op   = d->ops;
    const ms_mat         left = by.of[MS_LEFT], right = by.of[MS_RIGHT];
    musec_status         st = MUSEC_OK;
    if (left.data == NULL && right.data == NULL) return op->copy(d, x, out);
    const ms_mat middle = right.data == NULL ? out : tmp;
    if (left.data != NULL) {
        TRY(op->gemm(d, 1.0, transposed ? ms_t(left) : left, x, 0.0, middle));
        x = middle;
    }
    if (right.data != NULL) TRY(op->gemm(d, 1.0, x, transposed ? right : ms_t(right), 0.0, out));
done:
    return st;
}

/* ---- orthonormal rows ------------------------------------------------------------------------ */

static ms_mat rows_of(ms_mat x, int64_t first, int64_t n) /* of every matrix */
{
    return ms_mat_part(x, first, n, 0, x.cols);
}

/* Takes the part of the rows of x out that lies in the span of the orthonormal rows of q. */
static musec_status take_out(ms_device *d, ms_mat q, ms_mat products, ms_mat x)
{
    const ms_mat c  = ms_mat_part(products, 0, x.rows, 0, q.rows);
    musec_status st = MUSEC_OK;
    TRY(d->ops->gemm(d, 1.0, x, ms_t(q), 0.0, c));
    TRY(d->ops->gemm(d, -1.0, c, q, 1.0, x));
done:
    return st;
}

/* Scales each matrix to |x|_F = 1, or a matrix of zeros by 0. */
static musec_status normalise(ms_device *d, ms_vec norm, ms_mat x)
{
    musec_status st = MUSEC_OK;
    TRY(d->ops->sumsq(d, x, norm));
    TRY(ms_scalar_inv_norm(d, (ms_inv_norm_nums){ .sumsq = ms_each(norm), .factor = ms_const(1.0) },
                           (ms_inv_norm_vecs){ norm }));
    TRY(d->ops->scale(d, ms_each(norm), x));
done:
    return st;
}

/* Orthonormalizes the rows of a panel, each against those before it. */
static musec_status orthonormalise_panel(ms_device *d, ms_mat products, ms_vec norm, ms_mat panel)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0; i < panel.rows; i++) {
        const ms_mat row = rows_of(panel, i, 1);
        TRY(normalise(d, norm, row));
        for (int pass = 0; i > 0 && pass < 2; pass++) {
            TRY(take_out(d, rows_of(panel, 0, i), products, row));
            TRY(normalise(d, norm, row));
        }
    }
done:
    return st;
}

static musec_status orthonormalise_rows(ms_device *d, ms_mat x)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_mat        products;
    ms_vec        norm;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(d, x.dtype, x.count, PANEL, x.rows, &products));
    TRY(ms_scratch_vec(d, x.count, &norm));
    for (int64_t first = 0, n; first < x.rows; first += n) {
        n                  = x.rows - first < PANEL ? x.rows - first : PANEL;
        const ms_mat panel = rows_of(x, first, n);
        for (int pass = 0; pass < 2; pass++) {
            if (first > 0) TRY(take_out(d, rows_of(x, 0, first), products, panel));
            TRY(orthonormalise_panel(d, products, norm, panel));
            if (first == 0) break;
        }
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct estimate {
    double  value;
    int32_t row;
} estimate;

static int by_falling_value(const void *a, const void *b)
{
    const estimate *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->row < y->row ? -1 : 1;
}

/* The order of the rows of every matrix, n at a time, by falling values, which are NaN for none. */
static void sort_rows(const double *values, int64_t count, int64_t n, estimate *sorted,
                      int32_t *order)
{
    for (int64_t b = 0; b < count; b++) {
        for (int64_t i = 0; i < n; i++)
            sorted[i] =
                (estimate){ isfinite(values[b * n + i]) ? values[b * n + i] : 0.0, (int32_t)i };
        qsort(sorted, (size_t)n, sizeof *sorted, by_falling_value);
        for (int64_t i = 0; i < n; i++)
            order[b * n + i] = sorted[i].row;
    }
}

/* out <- the rows of every matrix of x in this order; x is dense. */
static musec_status order_rows(ms_device *d, ms_ids order, ms_mat x, ms_mat out)
{
    musec_status st = MUSEC_OK;
    for (int64_t b = 0; b < x.count; b++)
        TRY(d->ops->embed(d, (ms_ids){ order.data + b * x.rows, x.rows }, ms_mat_slice(x, b, 1),
                          ms_mat_slice(out, b, 1)));
done:
    return st;
}

/* The same in place, for the rows of v (left) or its columns. */
static musec_status order_moments(ms_device *d, int side, ms_ids order, ms_mat v)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const ms_mat  seen = side == MS_LEFT ? v : ms_t(v);
    ms_mat        x, sorted;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(d, v.dtype, v.count, seen.rows, seen.cols, &x));
    TRY(ms_scratch_mat(d, v.dtype, v.count, seen.rows, seen.cols, &sorted));
    TRY(d->ops->copy(d, seen, x));
    TRY(order_rows(d, order, x, sorted));
    TRY(d->ops->copy(d, sorted, seen));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_falling_order(ms_device *d, ms_vec values, int64_t count, int32_t *order)
{
    const int64_t n      = values.count / count;
    double       *host   = malloc((size_t)values.count * sizeof *host);
    estimate     *sorted = malloc((size_t)n * sizeof *sorted);
    musec_status  st     = MUSEC_OK;
    if (host == NULL || sorted == NULL) TRY(ms_no_memory(&d->error, "the order of rows"));
    TRY(ms_vec_download(d, values, host));
    sort_rows(host, count, n, sorted, order);
done:
    free(sorted);
    free(host);
    return st;
}

/* Queues the order of the rows by these values, one for each row of each matrix; waits. */
static musec_status find_order(ms_device *d, ms_vec values, int64_t count, ms_ids *order)
{
    const size_t bytes = (size_t)values.count * sizeof(int32_t);
    void        *data  = NULL;
    int32_t     *rows  = malloc(bytes);
    musec_status st    = MUSEC_OK;
    if (rows == NULL) TRY(ms_no_memory(&d->error, "the order of eigenvectors"));
    TRY(ms_falling_order(d, values, count, rows));
    TRY(ms_scratch_bytes(d, bytes, &data));
    *order = (ms_ids){ data, values.count };
    TRY(d->ops->upload(d, rows, bytes, data));
    TRY(d->ops->sync(d)); /* rows goes */
done:
    free(rows);
    return st;
}

/* ---- bases ----------------------------------------------------------------------------------- */

static musec_status first_basis(ms_device *d, ms_mat factor, ms_mat basis)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const int64_t        n    = factor.rows;
    ms_mat               a, w, vectors;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &a));
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, 1, n, &w));
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &vectors));
    TRY(op->copy(d, factor, a));
    TRY(op->eigh(d, a, w, vectors));
    for (int64_t i = 0; i < n; i++) /* they are columns, by rising eigenvalues */
        TRY(op->copy(d, ms_t(ms_mat_part(vectors, 0, n, n - 1 - i, 1)), rows_of(basis, i, 1)));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_first_bases(ms_device *d, ms_sides factors, ms_sides bases)
{
    musec_status st = MUSEC_OK;
    for (int side = 0; side < MS_SIDES; side++)
        if (factors.of[side].data != NULL) TRY(first_basis(d, factors.of[side], bases.of[side]));
done:
    return st;
}

/* All rows of a dense stack, each as a matrix. */
static ms_mat as_rows(ms_mat x)
{
    ms_mat rows = x;
    rows.rows   = 1;
    rows.count  = x.rows * x.count;
    rows.stride = x.ld;
    return rows;
}

/* Puts the rows of `image`, which is basis times factor, into the order of diag(E L E^T), and those
 * of v.  `e` is the basis, and then the result. */
static musec_status order_image(ms_device *d, int side, ms_mat image, ms_mat v, ms_mat e)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_vec        values;
    ms_ids        order;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_vec(d, e.count * e.rows, &values));
    TRY(d->ops->multiply(d, e, image, e));
    for (int64_t b = 0; b < e.count; b++) /* there may be gaps between matrices */
        TRY(d->ops->sum(d, as_rows(ms_mat_slice(e, b, 1)),
                        ms_vec_slice(values, b * e.rows, e.rows)));
    TRY(find_order(d, values, e.count, &order));
    TRY(order_rows(d, order, image, e));
    TRY(order_moments(d, side, order, v));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static double shift_of(musec_dtype dtype) { return dtype == MUSEC_F64 ? 1e-12 : 5e-7; }

static musec_status refresh_basis(ms_device *d, int side, ms_mat factor, ms_mat v, ms_mat basis)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const int64_t        n    = factor.rows;
    ms_mat               a, e, image;
    ms_vec               norm;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &a));
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &e));
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &image));
    TRY(ms_scratch_vec(d, factor.count, &norm));
    TRY(op->copy(d, factor, a));
    TRY(op->copy(d, basis, e));
    TRY(normalise(d, norm, a));
    TRY(op->add_diag(d, ms_const(shift_of(factor.dtype)), a));
    TRY(op->gemm(d, 1.0, e, a, 0.0, image));
    if (v.data != NULL) {
        TRY(order_image(d, side, image, v, e));
        image = e;
    }
    TRY(orthonormalise_rows(d, image));
    TRY(op->copy(d, image, basis));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_refresh_bases(ms_device *d, ms_sides factors, ms_mat v, ms_sides bases)
{
    const bool   tuned = !d->no_autotune;
    musec_status st    = MUSEC_OK;
    d->no_autotune     = true; /* products of panels have many sizes */
    for (int side = 0; side < MS_SIDES; side++)
        if (factors.of[side].data != NULL)
            TRY(refresh_basis(d, side, factors.of[side], v, bases.of[side]));
done:
    d->no_autotune = !tuned;
    return st;
}

/* ---- roots ----------------------------------------------------------------------------------- */

/* Eigenvalues of the factors, (count, 1, n) in device memory, to what becomes of them; waits. */
static musec_status map_values(ms_device *d, ms_mat w, double scale, double eps, double exponent)
{
    const size_t bytes = (size_t)w.cols * sizeof(double);
    double      *host  = malloc(bytes);
    musec_status st    = MUSEC_OK;
    if (host == NULL) TRY(ms_no_memory(&d->error, "eigenvalues"));
    for (int64_t b = 0; b < w.count; b++) {
        double *at = (double *)w.data + b * w.stride;
        TRY(d->ops->download(d, at, bytes, host));
        for (int64_t i = 0; i < w.cols; i++)
            host[i] = pow(fmax(host[i], 0.0) / scale + eps, exponent);
        TRY(d->ops->upload(d, host, bytes, at));
        TRY(d->ops->sync(d)); /* host is overwritten */
    }
done:
    free(host);
    return st;
}

static musec_status factor_root(ms_device *d, ms_mat factor, double scale, double eps,
                                double exponent, ms_mat root)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const int64_t        n    = factor.rows;
    ms_mat               a, w, vectors, rows;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &a));
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, 1, n, &w));
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &vectors));
    TRY(ms_scratch_mat(d, MUSEC_F64, factor.count, n, n, &rows));
    TRY(op->copy(d, factor, a));
    TRY(op->eigh(d, a, w, vectors));
    TRY(map_values(d, w, scale, eps, exponent));
    TRY(op->copy(d, ms_t(vectors), rows));
    TRY(op->scale_rows(d, w, rows));
    TRY(op->gemm(d, 1.0, vectors, rows, 0.0, a));
    TRY(op->copy(d, a, root));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_factor_roots(ms_device *d, ms_sides factors, double scale, double eps,
                             double exponent, ms_sides roots)
{
    musec_status st = MUSEC_OK;
    for (int side = 0; side < MS_SIDES; side++)
        if (factors.of[side].data != NULL)
            TRY(factor_root(d, factors.of[side], scale, eps, exponent, roots.of[side]));
done:
    return st;
}
