/* op_matrix.c - cases of products and decompositions: operands, calls, bounds, gradients, and their
 * rows.  op_kinds.c says what sizes, variants and gradients are. */
#include <math.h>
#include <string.h>

#include "device/cpu/ref.h"
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

/* ---- products with epilogues ----------------------------------------------------------------- */

typedef enum factors { PLAIN, GRAM, SQUARE, POLYNOMIALS } factors; /* a b, a a^T, a a, a p(a) */
typedef enum added { NOTHING, OTHER, ALONE, ITSELF } added; /* source: none, z, z without diag, c */

static const struct product_variant {
    factors factors;
    added   z;
    bool    each;           /* alpha, beta and diag: one per matrix */
    bool    sums, some;     /* sumsq and trace; not every matrix, unless it is timed */
    bool    wide_c, wide_z; /* where a has 16 bits */
} product_variants[] = {
    { PLAIN, NOTHING, false, false, false, false, false },
    { PLAIN, OTHER, true, true, false, false, true },
    { GRAM, OTHER, true, true, false, false, false },
    { GRAM, NOTHING, false, true, false, true, false },
    { SQUARE, ITSELF, true, true, true, true, true },
    { SQUARE, OTHER, false, false, false, false, false },
    { POLYNOMIALS, OTHER, true, true, true, false, true },
    { PLAIN, ITSELF, false, true, true, true, true },
    { SQUARE, NOTHING, false, true, false, true, false },
    { PLAIN, ALONE, false, false, false, false, false },
    { PLAIN, ALONE, false, false, false, true, true },
};
enum { OF_A, OF_C, OF_Z, OF_B }; /* operands */

static const struct product_variant *variant_of(const op_case *c)
{
    return &product_variants[c->variant];
}

bool op_is_symmetric(const op_case *c)
{
    return strcmp(c->op, "product") == 0 && variant_of(c)->factors != PLAIN;
}

static bool product_has(const op_case *c) /* large cases are listed one by one */
{
    return variant_of(c)->factors < SQUARE || c->m <= 130 || c->n == c->m;
}

static void product_operands(op_args *a)
{
    const struct product_variant *v   = variant_of(&a->c);
    const bool                    sym = v->factors != PLAIN, power = v->factors >= SQUARE;
    const int64_t                 m = a->c.m, n = sym ? m : a->c.n, k = power ? m : a->c.k;
    op_mat                       *x = op_add_mat(a, OP_IN, m, k);
    op_mat *c = op_add_mat(a, v->z == ITSELF || v->some ? OP_INOUT : OP_OUT, m, n);
    op_mat *z = op_add_mat(a, OP_IN, m, n);
    op_mat *b = op_add_mat(a, OP_IN, k, n);
    if (power) x->make = OP_SYMMETRIC;
    if (sym) c->make = z->make = OP_SYMMETRIC;
    if (v->factors == POLYNOMIALS) b->make = OP_POLYNOMIAL;
    if (v->wide_c) op_wide(c);
    if (v->wide_z) op_wide(z);
    b->absent = v->factors == GRAM || v->factors == SQUARE;
    z->absent = v->z == NOTHING;
    if (v->z == ITSELF) z->like = OF_C;
    for (int i = 0; i < 4; i++) /* alpha, beta, diag, when */
        op_add_vec(a, OP_IN);
    for (int i = 0; i < 2; i++) /* sumsq, trace */
        op_add_vec(a, v->some ? OP_INOUT : OP_OUT)->aside = true;
    a->vec[1].negative = true;
}

/* The mask: all matrices but the first of several. */
static musec_status product_prepare(op_args *a)
{
    for (int64_t b = 0; b < a->c.count; b++)
        a->vec[3].image[b] = b % 2 == 1 || a->c.count == 1 ? -0.5 : 0.0;
    return MUSEC_OK;
}

static ms_product product_of(const op_args *a)
{
    const struct product_variant *v    = variant_of(&a->c);
    const ms_vec                  none = { 0 };
    const ms_mat                  x    = a->mat[OF_A].mat;
    const double                  diag = v->z == NOTHING || v->z == ALONE ? 0.0 : -1.25;
    ms_product                    p    = { .a         = x,
                                           .b         = a->mat[OF_B].mat,
                                           .alpha     = ms_const(1.0),
                                           .beta      = ms_const(0.75),
                                           .diag      = ms_const(diag),
                                           .source    = a->mat[OF_Z].mat,
                                           .c         = a->mat[OF_C].mat,
                                           .symmetric = v->factors != PLAIN,
                                           .sumsq     = v->sums ? a->vec[4].vec : none,
                                           .trace     = v->sums ? a->vec[5].vec : none,
                                           .mask = v->some && !a->c.timing ? a->vec[3].vec : none };
    if (v->factors == GRAM) p.b = ms_t(x);
    if (v->factors == SQUARE) p.b = x;
    if (v->each) {
        p.alpha = ms_each(a->vec[0].vec);
        p.beta  = ms_each(a->vec[1].vec);
        p.diag  = ms_each(a->vec[2].vec);
    }
    return p;
}

static musec_status product_run(op_args *a)
{
    const ms_product p = product_of(a);
    return a->d->ops->product(a->d, &p);
}

static double product_flops(const op_case *c)
{
    if (variant_of(c)->factors == PLAIN) return gemm_flops(c);
    return (double)(c->m * c->m * (variant_of(c)->factors == GRAM ? c->k : c->m));
}

/* Element (i, j) before it is rounded, and the bound of its error: (k + 6) eps |op| in the
 * arithmetic, which adds three terms where gemm has two. */
static double element_bound(const ms_product *p, musec_dtype dtype, int64_t b, int64_t i, int64_t j,
                            double *value)
{
    const double alpha = ms_num_at(p->alpha, b), beta = ms_num_at(p->beta, b);
    const double z    = p->source.data == NULL ? 0.0 : beta * ms_at(p->source, b, i, j);
    const double diag = i == j ? ms_num_at(p->diag, b) : 0.0;
    double       sum = 0.0, size = 0.0;
    for (int64_t l = 0; l < p->a.cols; l++) {
        const double term = ms_at(p->a, b, i, l) * ms_at(p->b, b, l, j);
        sum += term;
        size += fabs(term);
    }
    *value = alpha * sum + z + diag;
    size   = fabs(alpha) * size + fabs(z) + fabs(diag);
    return ((double)p->a.cols + 6.0) * ms_dtype_eps(ms_dtype_accum(dtype)) * size;
}

/* Bounds, in place of the outputs.  Sums are of elements before these are rounded to 16 bits, each
 * off by its own bound, and by (m + n) eps of the sum of absolute values if added row by row. */
static void product_size(op_args *a)
{
    const ms_product  p      = product_of(a);
    const musec_dtype dtype  = a->c.dtype;
    const bool        half   = op_is_half(dtype) && !variant_of(&a->c)->wide_c;
    const double      eps    = ms_dtype_eps(dtype);
    const double      in_sum = (double)(p.c.rows + p.c.cols) * ms_dtype_eps(ms_dtype_accum(dtype));
    for (int64_t b = 0; b < p.c.count; b++) {
        double sumsq = 0.0, trace = 0.0, value;
        if (!ms_is_active(p.mask, b)) {
            for (int64_t i = 0; i < p.c.rows * p.c.cols; i++) /* masked matrices must not change */
                ms_put(p.c, b, i / p.c.cols, i % p.c.cols, 0.0);
            a->vec[4].vec.data[b] = a->vec[5].vec.data[b] = 0.0;
            continue;
        }
        for (int64_t i = 0; i < p.c.rows; i++) {
            for (int64_t j = 0; j < p.c.cols; j++) {
                const double bound = element_bound(&p, dtype, b, i, j, &value);
                const double stored =
                    half ? 0.5 * eps * (fabs(value) + bound) + eps * ms_dtype_tiny(dtype) : 0.0;
                sumsq += 2.0 * fabs(value) * bound + bound * bound + in_sum * value * value;
                if (i == j) trace += bound + in_sum * fabs(value);
                ms_put(p.c, b, i, j, bound + stored);
            }
        }
        a->vec[4].vec.data[b] = sumsq;
        a->vec[5].vec.data[b] = trace;
    }
}

/* By a: alpha G b^T, or for a symmetric result with b = a^T, alpha (G + G^T) a.  By z: beta G. */
static musec_status product_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_product p    = product_of(a);
    ms_product       by_a = { .a = g->mat[OF_C], .b = ms_t(p.b), .alpha = p.alpha, .c = out };
    musec_status     st   = MUSEC_OK;
    if (by == OF_Z) return a->d->ops->axpby(a->d, p.beta, g->mat[OF_C], ms_const(0.0), out);
    TRY(a->d->ops->product(a->d, &by_a));
    if (variant_of(&a->c)->factors == PLAIN) goto done;
    by_a.a      = ms_t(by_a.a);
    by_a.source = out;
    by_a.beta   = ms_const(1.0);
    TRY(a->d->ops->product(a->d, &by_a));
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
    { OP_ROW(product, COUNT(product_variants)), .operands = product_operands,
      .prepare = product_prepare, .run = product_run, .flops = product_flops, .has = product_has,
      .rounding = product_rounding, .size = product_size, .bounded = true, .grad = product_grad,
      .grad_by = 1u << OF_A | 1u << OF_Z, .grad_variant = 1, .more_grads = 1,
      .shapes = OP_SHAPES_PRODUCT },
    { OP_ROW(svd, 2), .operands = svd_operands, .run = svd_run, .has = op_not_in_half,
      .rounding = spectrum_rounding, .grad = svd_grad, .grad_by = 0x1, .shapes = OP_SHAPES_SVD },
    { OP_ROW(eigh, 2), .operands = eigh_operands, .run = eigh_run, .has = op_not_in_half,
      .rounding = spectrum_rounding, .grad = eigh_grad, .grad_by = 0x1,
      .shapes = OP_SHAPES_SQUARE },
};
const size_t op_matrix_kinds_count = COUNT(op_matrix_kinds);
