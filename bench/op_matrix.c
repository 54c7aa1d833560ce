/* op_matrix.c - products and decompositions as cases: operands, calls, bounds, gradients, and their
 * rows.  op_kinds.c says what sizes, variants and gradients are. */
#include "op_cases.h"

static int64_t smaller(const op_case *c) { return c->m < c->n ? c->m : c->n; }

/* |fl(AB) - AB| <= k u / (1 - k u) |A||B| in any order (Higham 2002, section 3.5); alpha, beta and
 * the last sum add at most 4 u.  Half of (k + 4) eps would do, where sums are rounded; the units of
 * GPUs that multiply numbers of 16 bits cut what they add up in float32, and need all of it. */
static double product_rounding(const op_case *c) { return (double)c->k + 4.0; }

/* Backward stability: singular and eigenvalues move by at most p(n) eps |X|_2, p a modest
 * polynomial (LAPACK Users' Guide, section 4.9); p(n) = 4 n holds with room. */
static double spectrum_rounding(const op_case *c) { return 4.0 * (double)(c->m + c->n); }

/* ---- products -------------------------------------------------------------------------------- */

/* Odd variants: c <- -1.5 a b + 0.75 c; even ones: c <- a b, c never read.  From 2 on, c is wide
 * and the operands have 16 bits. */
static bool   is_plain(const op_case *c) { return c->variant % 2 == 0; }
static double gemm_alpha(const op_args *a) { return is_plain(&a->c) ? 1.0 : op_coef(a, -1.5); }
static double gemm_beta(const op_args *a) { return is_plain(&a->c) ? 0.0 : 0.75; }
static bool   gemm_has(const op_case *c) { return c->variant < 2 || op_is_half(c->dtype); }

static void gemm_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.k);
    op_add_mat(a, OP_IN, a->c.k, a->c.n);
    op_mat *c = op_add_mat(a, is_plain(&a->c) ? OP_OUT : OP_INOUT, a->c.m, a->c.n);
    if (a->c.variant >= 2) op_wide(c);
}

static musec_status gemm_run(op_args *a)
{
    return a->d->ops->gemm(a->d, gemm_alpha(a), a->mat[0].mat, a->mat[1].mat, gemm_beta(a),
                           a->mat[2].mat);
}

static double gemm_flops(const op_case *c) { return 2.0 * (double)(c->m * c->n * c->k); }

static musec_status gemm_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_device_ops *op    = a->d->ops;
    const double         alpha = gemm_alpha(a);
    if (by == 0) return op->gemm(a->d, alpha, g->mat[2], ms_t(a->mat[1].mat), 0.0, out);
    if (by == 1) return op->gemm(a->d, alpha, ms_t(a->mat[0].mat), g->mat[2], 0.0, out);
    return op->axpby(a->d, ms_const(gemm_beta(a)), g->mat[2], ms_const(0.0), out);
}

/* The same, where even variants have another polynomial for b, and odd ones a itself. */
static void sym_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.m)->make = OP_SYMMETRIC;
    op_add_mat(a, OP_IN, a->c.m, a->c.m)->make = OP_POLYNOMIAL;
    op_mat *c = op_add_mat(a, is_plain(&a->c) ? OP_OUT : OP_INOUT, a->c.m, a->c.m);
    c->make   = OP_SYMMETRIC;
    if (a->c.variant >= 2) op_wide(c);
    if (!is_plain(&a->c)) a->mat[1].like = 0;
}

static musec_status sym_run(op_args *a)
{
    return a->d->ops->gemm_sym(a->d, gemm_alpha(a), a->mat[0].mat, a->mat[1].mat, gemm_beta(a),
                               a->mat[2].mat);
}

static double sym_flops(const op_case *c) { return (double)(c->m * c->m * c->k); }

static musec_status sym_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_device_ops *op = a->d->ops; /* along symmetric matrices only */
    musec_status         st;
    if (by == 2) return gemm_grad(a, g, 2, out);
    TRY(op->gemm(a->d, gemm_alpha(a), g->mat[2], a->mat[0].mat, 0.0, out));
    TRY(op->gemm(a->d, gemm_alpha(a), a->mat[0].mat, g->mat[2], 1.0, out));
done:
    return st;
}

/* variant 1: c is wide, x has 16 bits */
static bool gram_has(const op_case *c) { return c->variant < 1 || op_is_half(c->dtype); }

static void gram_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.k);
    op_mat *c = op_add_mat(a, OP_OUT, a->c.m, a->c.m);
    if (a->c.variant >= 1) op_wide(c);
}

static musec_status gram_run(op_args *a)
{
    return a->d->ops->gram(a->d, a->mat[0].mat, a->mat[1].mat);
}

static musec_status gram_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_device_ops *op = a->d->ops; /* (G + G^T) X */
    musec_status         st;
    (void)by;
    TRY(op->gemm(a->d, 1.0, g->mat[1], a->mat[0].mat, 0.0, out));
    TRY(op->gemm(a->d, 1.0, ms_t(g->mat[1]), a->mat[0].mat, 1.0, out));
done:
    return st;
}

/* ---- decompositions -------------------------------------------------------------------------- */

/* variant 0: values and vectors; 1: values alone */
static void svd_operands(op_args *a)
{
    const int64_t k = smaller(&a->c);
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_OUT, 1, k)->row        = true;
    op_add_mat(a, OP_OUT, a->c.m, k)->basis = true;
    op_add_mat(a, OP_OUT, k, a->c.n)->basis = true;
    a->mat[2].absent = a->mat[3].absent = a->c.variant == 1;
}

static musec_status svd_run(op_args *a)
{
    return a->d->ops->svd(a->d, a->mat[0].mat, a->mat[2].mat, a->mat[1].mat, a->mat[3].mat);
}

/* left diag(g) right */
static musec_status spectral_grad(op_args *a, ms_mat left, ms_mat g, ms_mat right, ms_mat out)
{
    const ms_mark mark = ms_arena_mark(&a->d->scratch);
    ms_mat        tmp;
    musec_status  st;
    TRY(ms_scratch_mat(a->d, right.dtype, right.count, right.rows, right.cols, &tmp));
    TRY(a->d->ops->copy(a->d, right, tmp));
    TRY(a->d->ops->scale_rows(a->d, g, tmp));
    TRY(a->d->ops->gemm(a->d, 1.0, left, tmp, 0.0, out));
done:
    ms_arena_reset(&a->d->scratch, mark);
    return st;
}

static musec_status svd_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return spectral_grad(a, a->mat[2].mat, g->mat[1], a->mat[3].mat, out);
}

/* the same variants */
static void eigh_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.m)->make   = OP_LOWER;
    op_add_mat(a, OP_OUT, 1, a->c.m)->row        = true;
    op_add_mat(a, OP_OUT, a->c.m, a->c.m)->basis = true;
    a->mat[2].absent                             = a->c.variant == 1;
}

static musec_status eigh_run(op_args *a)
{
    return a->d->ops->eigh(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat);
}

static musec_status eigh_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return spectral_grad(a, a->mat[2].mat, g->mat[1], ms_t(a->mat[2].mat), out);
}

/* ---- the rows -------------------------------------------------------------------------------- */

const op_kind op_matrix_kinds[] = {
    { OP_ROW(gemm, 4), .operands = gemm_operands, .run = gemm_run, .flops = gemm_flops,
      .has = gemm_has, .rounding = product_rounding, .grad = gemm_grad, .grad_by = 0x7,
      .grad_variant = 1, .shapes = OP_SHAPES_PRODUCT },
    { OP_ROW(gemm_sym, 4), .operands = sym_operands, .run = sym_run, .flops = sym_flops,
      .has = gemm_has, .rounding = product_rounding, .grad = sym_grad, .grad_by = 0x5,
      .grad_variant = 1, .shapes = OP_SHAPES_SQUARE },
    { OP_ROW(gram, 2), .operands = gram_operands, .run = gram_run, .flops = sym_flops,
      .has = gram_has, .rounding = product_rounding, .grad = gram_grad, .grad_by = 0x1,
      .shapes = OP_SHAPES_PRODUCT },
    { OP_ROW(svd, 2), .operands = svd_operands, .run = svd_run, .has = op_not_in_half,
      .rounding = spectrum_rounding, .grad = svd_grad, .grad_by = 0x1, .shapes = OP_SHAPES_SVD },
    { OP_ROW(eigh, 2), .operands = eigh_operands, .run = eigh_run, .has = op_not_in_half,
      .rounding = spectrum_rounding, .grad = eigh_grad, .grad_by = 0x1,
      .shapes = OP_SHAPES_SQUARE },
};
const size_t op_matrix_kinds_count = COUNT(op_matrix_kinds);
