/* op_kinds.c - what the cases need to know of each op: one row per row of ms_device_ops.
 *
 * Sizes: m x n is the result, or the matrix of an op that has one; k is the inner size of a
 * product.  Variants of an op differ in coefficients (constants or one per matrix), in absent
 * operands, and in what lies in place; each is described where its operands are declared.
 *
 * A gradient is that of f = sum <G, output> and is computed with the ops themselves, from what the
 * run left behind: of gemm, f = <G, alpha A B + beta C>, so by A it is alpha G B^T, and so on. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "device/scalar_fn.h"
#include "op_cases.h"
#include "op_updates.h"

/* A coefficient of the case, or its absolute value where magnitudes are computed. */
static double coef(const op_args *a, double x) { return (a->how & OP_ABSOLUTE) != 0 ? fabs(x) : x; }

static int64_t smaller(const op_case *c) { return c->m < c->n ? c->m : c->n; }

/* ---- rounding: factors of eps; u = eps/2 is the error of one operation ----------------------- */

static double exact(const op_case *c)
{
    (void)c;
    return 0.0;
}

static double few(const op_case *c) /* coefficient rounded, products, sums: at most 8 u */
{
    (void)c;
    return 4.0;
}

/* |fl(AB) - AB| <= k u / (1 - k u) |A||B| in any order (Higham 2002, section 3.5); alpha, beta and
 * the last sum add at most 4 u.  Half of (k + 4) eps would do. */
static double product_rounding(const op_case *c) { return (double)c->k + 4.0; }

/* (N - 1) u |x| for N terms in any order (Higham 2002, section 4.2), squares add u. */
static double sum_rounding(const op_case *c) { return (double)(c->m * c->n) + 2.0; }

/* Backward stability: singular and eigenvalues move by at most p(n) eps |X|_2, p a modest
 * polynomial (LAPACK Users' Guide, section 4.9); p(n) = 4 n holds with room. */
static double spectrum_rounding(const op_case *c) { return 4.0 * (double)(c->m + c->n); }

static double library_rounding(const op_case *c) /* log, cos, sqrt, pow of different libraries */
{
    (void)c;
    return 16.0;
}

/* ---- memory and queue ------------------------------------------------------------------------ */

static void no_operands(op_args *a) { (void)a; }

static musec_status alloc_run(op_args *a)
{
    const size_t bytes = (size_t)(a->c.m * a->c.n) * ms_dtype_bytes(a->c.dtype);
    void        *p     = NULL;
    musec_status st;
    TRY(a->d->ops->alloc(a->d, bytes, &p));
    if ((uintptr_t)p % 64 != 0)
        st = ms_fail(&a->d->error, MUSEC_EDEVICE, "%zu bytes are not aligned to 64", bytes);
done:
    a->d->ops->free(a->d, p);
    a->d->ops->free(a->d, NULL); /* allowed */
    return st;
}

static void upload_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n)->host = true;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n);
}

static void download_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->host = true;
}

static size_t dense_bytes(const op_args *a)
{
    return (size_t)a->mat[0].elems * ms_dtype_bytes(a->mat[0].mat.dtype);
}

static musec_status upload_run(op_args *a)
{
    return a->d->ops->upload(a->d, a->mat[0].buffer, dense_bytes(a), a->mat[1].buffer);
}

static musec_status download_run(op_args *a)
{
    return a->d->ops->download(a->d, a->mat[0].buffer, dense_bytes(a), a->mat[1].buffer);
}

static musec_status sync_run(op_args *a) { return a->d->ops->sync(a->d); }

static musec_status now_run(op_args *a)
{
    double ms;
    return a->d->ops->now_ms(a->d, &ms);
}

/* ---- products -------------------------------------------------------------------------------- */

/* variant 0: c <- a b, c never read; 1: c <- -1.5 a b + 0.75 c */
static double gemm_alpha(const op_args *a) { return a->c.variant == 0 ? 1.0 : coef(a, -1.5); }
static double gemm_beta(const op_args *a) { return a->c.variant == 0 ? 0.0 : 0.75; }

static void gemm_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.k);
    op_add_mat(a, OP_IN, a->c.k, a->c.n);
    op_add_mat(a, a->c.variant == 0 ? OP_OUT : OP_INOUT, a->c.m, a->c.n);
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

/* variant 0: b is another polynomial; 1: b is a, c <- -1.5 a a + 0.75 c */
static void sym_operands(op_args *a)
{
    const op_role c_role                        = a->c.variant == 0 ? OP_OUT : OP_INOUT;
    op_add_mat(a, OP_IN, a->c.m, a->c.m)->make  = OP_SYMMETRIC;
    op_add_mat(a, OP_IN, a->c.m, a->c.m)->make  = OP_POLYNOMIAL;
    op_add_mat(a, c_role, a->c.m, a->c.m)->make = OP_SYMMETRIC;
    if (a->c.variant == 1) a->mat[1].like = 0;
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

static void gram_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.k);
    op_add_mat(a, OP_OUT, a->c.m, a->c.m);
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

/* ---- elements -------------------------------------------------------------------------------- */

/* variant 0: same dtype; 1: to the other dtype */
static void copy_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (a->c.variant == 1) out->mat.dtype = a->c.dtype == MUSEC_F32 ? MUSEC_F64 : MUSEC_F32;
}

static musec_status copy_run(op_args *a)
{
    return a->d->ops->copy(a->d, a->mat[0].mat, a->mat[1].mat);
}

static musec_status copy_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return a->d->ops->copy(a->d, g->mat[1], out);
}

static void out_operand(op_args *a) { op_add_mat(a, OP_OUT, a->c.m, a->c.n); }

static musec_status fill_run(op_args *a)
{
    return a->d->ops->fill(a->d, coef(a, -0.1), a->mat[0].mat);
}

/* variant 0: a constant; 1: one number per matrix */
static void inout_operands(op_args *a)
{
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n);
    if (a->c.variant == 1) op_add_vec(a, OP_IN);
}

static ms_num factor_of(const op_args *a) /* -1: timing runs it again and again, in place */
{
    return a->c.variant == 1 ? ms_each(a->vec[0].vec) : ms_const(coef(a, -1.0));
}

static musec_status add_diag_run(op_args *a)
{
    return a->d->ops->add_diag(a->d, factor_of(a), a->mat[0].mat);
}

static musec_status add_diag_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return a->d->ops->copy(a->d, g->mat[0], out);
}

static musec_status scale_run(op_args *a)
{
    return a->d->ops->scale(a->d, factor_of(a), a->mat[0].mat);
}

static musec_status scale_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return a->d->ops->axpby(a->d, factor_of(a), g->mat[0], ms_const(0.0), out);
}

/* variant 0: constants; 1: beta 0, y never read; 2: one number per matrix; 3: x is y */
static void axpby_operands(op_args *a)
{
    op_add_mat(a, a->c.variant == 3 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_add_mat(a, a->c.variant == 1 ? OP_OUT : OP_INOUT, a->c.m, a->c.n);
    if (a->c.variant == 3) a->mat[1].like = 0;
    op_add_vec(a, OP_IN);
    op_add_vec(a, OP_IN);
}

static ms_num axpby_alpha(const op_args *a)
{
    return a->c.variant == 2 ? ms_each(a->vec[0].vec) : ms_const(coef(a, -0.3));
}

static ms_num axpby_beta(const op_args *a)
{
    if (a->c.variant == 1) return ms_const(0.0);
    return a->c.variant == 2 ? ms_each(a->vec[1].vec) : ms_const(0.7);
}

static musec_status axpby_run(op_args *a)
{
    return a->d->ops->axpby(a->d, axpby_alpha(a), a->mat[0].mat, axpby_beta(a), a->mat[1].mat);
}

static musec_status axpby_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_num factor = by == 0 ? axpby_alpha(a) : axpby_beta(a);
    return a->d->ops->axpby(a->d, factor, g->mat[1], ms_const(0.0), out);
}

/* Which terms each variant has; `on`: the operand that out t lies on, 2 + t being its own. */
static const struct {
    int  n_terms;
    bool x, y, each;
    int  on[4];
} combine_variants[] = {
    { 1, true, true, false, { 2 } },        { 4, true, true, true, { 2, 3, 4, 5 } },
    { 2, true, true, false, { 0, 1 } },     { 2, true, false, true, { 0, 3 } },
    { 3, false, true, false, { 2, 1, 4 } }, { 1, false, false, false, { 2 } },
};

static bool written(const op_args *a, int operand)
{
    for (int t = 0; t < combine_variants[a->c.variant].n_terms; t++)
        if (combine_variants[a->c.variant].on[t] == operand) return true;
    return false;
}

static void combine_operands(op_args *a)
{
    const int v = a->c.variant;
    op_add_mat(a, written(a, 0) ? OP_INOUT : OP_IN, a->c.m, a->c.n)->absent =
        !combine_variants[v].x;
    op_add_mat(a, written(a, 1) ? OP_INOUT : OP_IN, a->c.m, a->c.n)->absent =
        !combine_variants[v].y;
    for (int t = 0; t < combine_variants[v].n_terms; t++) {
        op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
        if (combine_variants[v].on[t] < 2) out->like = combine_variants[v].on[t];
    }
    for (int t = 0; t < 3; t++)
        op_add_vec(a, OP_IN);
}

static ms_term term_of(const op_args *a, int t)
{
    ms_term term = { .x_coef = ms_const(coef(a, 0.5 - 0.4 * t)),
                     .y_coef = ms_const(coef(a, 0.3 * t - 0.7)),
                     .diag   = ms_const(coef(a, 1.5 - t)),
                     .out    = a->mat[2 + t].mat };
    if (combine_variants[a->c.variant].each && t == 0) {
        term.x_coef = ms_each(a->vec[0].vec);
        term.y_coef = ms_each(a->vec[1].vec);
        term.diag   = ms_each(a->vec[2].vec);
    }
    return term;
}

static musec_status combine_run(op_args *a)
{
    ms_term terms[4];
    for (int t = 0; t < combine_variants[a->c.variant].n_terms; t++)
        terms[t] = term_of(a, t);
    return a->d->ops->combine(a->d, a->mat[0].mat, a->mat[1].mat, terms,
                              combine_variants[a->c.variant].n_terms);
}

static musec_status combine_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st = MUSEC_OK;
    for (int t = 0; t < combine_variants[a->c.variant].n_terms; t++) {
        const ms_term term = term_of(a, t);
        TRY(a->d->ops->axpby(a->d, by == 0 ? term.x_coef : term.y_coef, g->mat[2 + t],
                             ms_const(t == 0 ? 0.0 : 1.0), out));
    }
done:
    return st;
}

static void scale_rows_operands(op_args *a)
{
    op_add_mat(a, OP_IN, 1, a->c.m);
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n);
}

static musec_status scale_rows_run(op_args *a)
{
    return a->d->ops->scale_rows(a->d, a->mat[0].mat, a->mat[1].mat);
}

static musec_status scale_rows_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st; /* by x alone: that by v is a row sum, which is no op */
    (void)by;
    TRY(a->d->ops->copy(a->d, g->mat[1], out));
    TRY(a->d->ops->scale_rows(a->d, a->mat[0].mat, out));
done:
    return st;
}

static void prescale_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    op_add_vec(a, OP_IN); /* no powers of two: every device has to scale */
}

static musec_status prescale_run(op_args *a)
{
    ms_mat             scaled;
    const musec_status st =
        a->d->ops->prescale(a->d, a->mat[0].mat, a->vec[0].vec, a->mat[1].mat, &scaled);
    if (st == MUSEC_OK && scaled.data != a->mat[1].mat.data)
        return ms_fail(&a->d->error, MUSEC_EDEVICE, "a needed factor was not applied");
    return st;
}

/* ---- reductions, random numbers, scalars ----------------------------------------------------- */

static void reduce_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_vec(a, OP_OUT);
}

static musec_status reduce_run(op_args *a) /* all of them have one signature */
{
    musec_status (*op)(ms_device * d, ms_mat x, ms_vec out);
    memcpy(&op, (const char *)a->d->ops + a->kind->row, sizeof op);
    return op(a->d, a->mat[0].mat, a->vec[0].vec);
}

static musec_status sum_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st; /* g everywhere */
    (void)by;
    TRY(a->d->ops->fill(a->d, 1.0, out));
    TRY(a->d->ops->scale(a->d, ms_each(g->vec[0]), out));
done:
    return st;
}

static musec_status sumsq_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st; /* 2 g x */
    (void)by;
    TRY(a->d->ops->copy(a->d, a->mat[0].mat, out));
    TRY(a->d->ops->scale(a->d, ms_each(g->vec[0]), out));
    TRY(a->d->ops->scale(a->d, ms_const(2.0), out));
done:
    return st;
}

static musec_status trace_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st; /* g I */
    (void)by;
    TRY(a->d->ops->fill(a->d, 0.0, out));
    TRY(a->d->ops->add_diag(a->d, ms_each(g->vec[0]), out));
done:
    return st;
}

static musec_status normal_run(op_args *a)
{
    return a->d->ops->normal(a->d, 0x1234567890abcdefu, 0.0, 2.0, a->mat[0].mat);
}

/* PICK: three rows of two, with falling keys.  All others take what they need from the front. */
static const double pick_params[]  = { 3.0, 2.0, 1.0, 0.7, 0.4, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0 };
static const double other_params[] = { 2.0, 0.125 };

static const double *scalar_params(const op_args *a)
{
    return a->c.variant == MS_SCALAR_PICK ? pick_params : other_params;
}

static void scalars_operands(op_args *a) /* variant: which program */
{
    const ms_scalar_fn fn = (ms_scalar_fn)a->c.variant;
    for (int i = 0; i < ms_scalar_n_in(fn); i++)
        op_add_vec(a, OP_IN);
    for (int i = 0; i < ms_scalar_n_out(fn, scalar_params(a)); i++)
        op_add_vec(a, OP_OUT);
}

static musec_status scalars_run(op_args *a)
{
    const ms_scalar_fn fn   = (ms_scalar_fn)a->c.variant;
    const int          n_in = ms_scalar_n_in(fn);
    const int n_params = (int)(fn == MS_SCALAR_PICK ? COUNT(pick_params) : COUNT(other_params));
    ms_num    in[MS_SCALAR_MAX_IO];
    ms_vec    out[MS_SCALAR_MAX_IO];
    for (int i = 0; i < n_in; i++) /* one of them a constant */
        in[i] = i == 1 ? ms_const(0.75) : ms_each(a->vec[i].vec);
    for (int i = n_in; i < a->n_vecs; i++)
        out[i - n_in] = a->vec[i].vec;
    return a->d->ops->scalars(a->d, fn, scalar_params(a), n_params, in, out);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ROW(op, n_variants) \
    .name = #op, .row = offsetof(ms_device_ops, op), .variants = (n_variants)

const op_kind op_kinds[] = {
    { ROW(alloc, 1), .operands = no_operands, .run = alloc_run, .shapes = OP_SHAPES_MEMORY },
    { ROW(free, 1), .operands = no_operands, .run = alloc_run, .shapes = OP_SHAPES_MEMORY },
    { ROW(upload, 1), .operands = upload_operands, .run = upload_run, .rounding = exact,
      .shapes = OP_SHAPES_MEMORY },
    { ROW(download, 1), .operands = download_operands, .run = download_run, .rounding = exact,
      .shapes = OP_SHAPES_MEMORY },
    { ROW(sync, 1), .operands = no_operands, .run = sync_run, .shapes = OP_SHAPES_MEMORY },
    { ROW(now_ms, 1), .operands = no_operands, .run = now_run, .shapes = OP_SHAPES_MEMORY },
    { ROW(gemm, 2), .operands = gemm_operands, .run = gemm_run, .flops = gemm_flops,
      .rounding = product_rounding, .grad = gemm_grad, .grad_by = 0x7, .grad_variant = 1,
      .shapes = OP_SHAPES_PRODUCT },
    { ROW(gemm_sym, 2), .operands = sym_operands, .run = sym_run, .flops = sym_flops,
      .rounding = product_rounding, .grad = sym_grad, .grad_by = 0x5, .grad_variant = 1,
      .shapes = OP_SHAPES_SQUARE },
    { ROW(gram, 1), .operands = gram_operands, .run = gram_run, .flops = sym_flops,
      .rounding = product_rounding, .grad = gram_grad, .grad_by = 0x1,
      .shapes = OP_SHAPES_PRODUCT },
    { ROW(svd, 2), .operands = svd_operands, .run = svd_run, .rounding = spectrum_rounding,
      .grad = svd_grad, .grad_by = 0x1, .shapes = OP_SHAPES_SVD },
    { ROW(eigh, 2), .operands = eigh_operands, .run = eigh_run, .rounding = spectrum_rounding,
      .grad = eigh_grad, .grad_by = 0x1, .shapes = OP_SHAPES_SQUARE },
    { ROW(copy, 2), .operands = copy_operands, .run = copy_run, .rounding = exact,
      .grad = copy_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { ROW(fill, 1), .operands = out_operand, .run = fill_run, .rounding = exact,
      .shapes = OP_SHAPES_PLAIN },
    { ROW(add_diag, 2), .operands = inout_operands, .run = add_diag_run, .rounding = few,
      .grad = add_diag_grad, .grad_by = 0x1, .grad_variant = 1, .shapes = OP_SHAPES_PLAIN },
    { ROW(scale, 2), .operands = inout_operands, .run = scale_run, .rounding = exact,
      .grad = scale_grad, .grad_by = 0x1, .grad_variant = 1, .shapes = OP_SHAPES_PLAIN },
    { ROW(axpby, 4), .operands = axpby_operands, .run = axpby_run, .rounding = few,
      .grad = axpby_grad, .grad_by = 0x3, .grad_variant = 2, .shapes = OP_SHAPES_PLAIN },
    { ROW(combine, 6), .operands = combine_operands, .run = combine_run, .rounding = few,
      .grad = combine_grad, .grad_by = 0x3, .grad_variant = 1, .shapes = OP_SHAPES_PLAIN },
    { ROW(scale_rows, 1), .operands = scale_rows_operands, .run = scale_rows_run, .rounding = few,
      .grad = scale_rows_grad, .grad_by = 0x2, .shapes = OP_SHAPES_PLAIN },
    { ROW(prescale, 1), .operands = prescale_operands, .run = prescale_run, .rounding = exact,
      .shapes = OP_SHAPES_PLAIN, .by_stack = true },
    { ROW(sign, 2), .operands = op_sign_operands, .run = op_sign_run, .rounding = exact,
      .shapes = OP_SHAPES_PLAIN },
    { ROW(moments, 4), .operands = op_moments_operands, .run = op_moments_run,
      .rounding = op_moments_rounding, .shapes = OP_SHAPES_PLAIN },
    { ROW(decay_add, 4), .operands = op_decay_add_operands, .run = op_decay_add_run,
      .rounding = few, .grad = op_decay_add_grad, .grad_by = 0x3, .grad_variant = 1,
      .shapes = OP_SHAPES_PLAIN },
    { ROW(sum, 1), .operands = reduce_operands, .run = reduce_run, .rounding = sum_rounding,
      .grad = sum_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { ROW(sumsq, 1), .operands = reduce_operands, .run = reduce_run, .rounding = sum_rounding,
      .grad = sumsq_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { ROW(trace, 1), .operands = reduce_operands, .run = reduce_run, .rounding = sum_rounding,
      .grad = trace_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { ROW(absmax, 1), .operands = reduce_operands, .run = reduce_run, .rounding = exact,
      .shapes = OP_SHAPES_PLAIN },
    { ROW(count_nonfinite, 1), .operands = reduce_operands, .run = reduce_run, .rounding = exact,
      .shapes = OP_SHAPES_PLAIN },
    { ROW(normal, 1), .operands = out_operand, .run = normal_run, .rounding = library_rounding,
      .shapes = OP_SHAPES_PLAIN, .by_stack = true },
    { ROW(scalars, MS_SCALAR_FN_COUNT), .operands = scalars_operands, .run = scalars_run,
      .rounding = library_rounding, .shapes = OP_SHAPES_ONE },
};
const size_t op_kinds_count = COUNT(op_kinds);
