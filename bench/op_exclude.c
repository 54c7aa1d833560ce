/* op_exclude.c - the operands and calls of multiply, of exclude and of its gradient.
 *
 * The formulas of exclude (device.h) have inner products over the n columns, each off by n u of the
 * sum of its absolute values; a quotient of them and the products with it add to that. */
#include "op_network.h"

#include <math.h>

#include "device/cpu/ref.h"

static op_mat *add_rows(op_args *a, op_role role)
{
    op_mat *m = op_add_mat(a, role, a->c.m, a->c.n);
    m->head   = true;
    return m;
}

/* ---- multiply -------------------------------------------------------------------------------- */

void op_multiply_operands(op_args *a)
{
    op_add_mat(a, a->c.variant == 1 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (a->c.variant == 1) out->like = 0;
}

musec_status op_multiply_run(op_args *a)
{
    return a->d->ops->multiply(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat);
}

musec_status op_multiply_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    return a->d->ops->multiply(a->d, g->mat[2], a->mat[1 - by].mat, out);
}

/* ---- exclude --------------------------------------------------------------------------------- */

static op_mat *add_alphas(op_args *a, op_role role, int64_t rows)
{
    op_mat *m    = op_wide(op_add_mat(a, role, rows, a->c.count));
    m->mat.count = 1;
    m->column    = true;
    return m;
}

void op_exclude_operands(op_args *a)
{
    add_alphas(a, OP_IN, 1);
    add_rows(a, a->c.variant == 1 ? OP_INOUT : OP_IN);
    add_rows(a, OP_IN);
    op_mat *out = add_rows(a, OP_OUT);
    if (a->c.variant == 1) out->like = 1;
}

musec_status op_exclude_run(op_args *a)
{
    return a->d->ops->exclude(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat, a->mat[3].mat);
}

double op_exclude_rounding(const op_case *c) { return 4.0 * (double)c->n + 32.0; }

/* <|x|, |y|> / n^2 */
static double size_along(ms_mat x, ms_mat v, int64_t b, int64_t i)
{
    double along = 0.0, vv = 0.0;
    for (int64_t j = 0; j < v.cols; j++) {
        along += fabs(ms_at(x, b, i, j) * ms_at(v, b, i, j));
        vv += ms_at(v, b, i, j) * ms_at(v, b, i, j);
    }
    return along / fmax(vv, MS_EXCLUDE_MIN * MS_EXCLUDE_MIN);
}

void op_exclude_size(op_args *a)
{
    const ms_mat y = a->mat[1].mat, v = a->mat[2].mat, out = a->mat[3].mat;
    for (int64_t b = 0; b < y.count; b++)
        for (int64_t i = 0; i < y.rows; i++) {
            const double p = size_along(y, v, b, i);
            const double t = fabs(tanh(ms_at(a->mat[0].mat, 0, 0, b)));
            for (int64_t j = 0; j < y.cols; j++)
                ms_put(out, b, i, j, fabs(ms_at(y, b, i, j)) + t * p * fabs(ms_at(v, b, i, j)));
        }
}

/* By y (1) and v (2). */
musec_status op_exclude_gradient(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_mat  y    = a->mat[1].mat;
    const ms_mark mark = ms_arena_mark(&a->d->scratch);
    ms_mat        other, dalpha;
    musec_status  st;
    TRY(ms_scratch_mat(a->d, y.dtype, y.count, y.rows, y.cols, &other));
    TRY(ms_scratch_mat(a->d, ms_dtype_accum(y.dtype), 1, y.rows, y.count, &dalpha));
    TRY(a->d->ops->exclude_grad(a->d, a->mat[0].mat, y, a->mat[2].mat, g->mat[3],
                                by == 1 ? out : other, by == 1 ? other : out, dalpha));
done:
    ms_arena_reset(&a->d->scratch, mark);
    return st;
}

/* variant 1: dy is dout */
void op_exclude_grad_operands(op_args *a)
{
    add_alphas(a, OP_IN, 1);
    add_rows(a, OP_IN);
    add_rows(a, OP_IN);
    add_rows(a, a->c.variant == 1 ? OP_INOUT : OP_IN);
    add_rows(a, OP_OUT);
    add_rows(a, OP_OUT);
    add_alphas(a, OP_OUT, a->c.m);
    if (a->c.variant == 1) a->mat[4].like = 3;
}

musec_status op_exclude_grad_run(op_args *a)
{
    return a->d->ops->exclude_grad(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat, a->mat[3].mat,
                                   a->mat[4].mat, a->mat[5].mat, a->mat[6].mat);
}

void op_exclude_grad_size(op_args *a)
{
    const ms_mat y = a->mat[1].mat, v = a->mat[2].mat, dout = a->mat[3].mat;
    for (int64_t b = 0; b < y.count; b++)
        for (int64_t i = 0; i < y.rows; i++) {
            const double p = size_along(y, v, b, i), q = size_along(dout, v, b, i);
            const double t  = fabs(tanh(ms_at(a->mat[0].mat, 0, 0, b)));
            double       vv = 0.0;
            for (int64_t j = 0; j < y.cols; j++) {
                const double at = fabs(ms_at(v, b, i, j)), g = fabs(ms_at(dout, b, i, j));
                vv += at * at;
                ms_put(a->mat[5].mat, b, i, j,
                       t * (p * g + q * fabs(ms_at(y, b, i, j)) + 2.0 * p * q * at));
                ms_put(a->mat[4].mat, b, i, j, g + t * q * at);
            }
            ms_put(a->mat[6].mat, 0, i, b, p * q * fmax(vv, MS_EXCLUDE_MIN * MS_EXCLUDE_MIN));
        }
}
