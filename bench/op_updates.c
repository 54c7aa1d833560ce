/* op_updates.c - cases of the ops of optimizers: operands, calls, gradients.  Their rows are in
 * op_element.c; op_kinds.c describes sizes, variants and gradients. */
#include "op_updates.h"

static bool is_absolute(const op_args *a) { return (a->how & OP_ABSOLUTE) != 0; }

/* variant 0: no slow average; 1: the same, u is g; 2: a slow average; 3: the same, u is g.  alpha
 * is always given, and ignored without a slow average. */
void op_moments_operands(op_args *a)
{
    const bool in_place = a->c.variant % 2 == 1;
    op_add_mat(a, in_place ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n);
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n)->make   = OP_POSITIVE;
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n)->absent = a->c.variant < 2;
    op_mat *u                                       = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (in_place) u->like = 0;
}

musec_status op_moments_run(op_args *a)
{
    const ms_moments rates = { .beta1    = 0.9,
                               .beta2    = 0.97,
                               .beta3    = 0.99,
                               .alpha    = is_absolute(a) ? 3.0 : -3.0,
                               .eps      = 1e-3,
                               .correct1 = 1.0 - 0.9 * 0.9,
                               .correct2 = 1.0 - 0.97 * 0.97 };
    return a->d->ops->moments(a->d, rates, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat,
                              a->mat[3].mat, a->mat[4].mat);
}

/* In units of eps/2, the error of one operation: m and slow have 3 (coefficient, product, sum), v 4
 * relative to itself, as a sum of positive numbers.  The numerator has 3 + 2 + 1; the denominator
 * 4/2 for v, 1 for the root, 2 for its correction, 1 for the sum with eps; and the division 1: 13
 * in all, that is 6.5 eps. */
double op_moments_rounding(const op_case *c)
{
    (void)c;
    return 8.0;
}

/* each: one step and decay per matrix.  The copy of a 16-bit weight has the weight's dtype, so it
 * is rounded once.  When magnitudes are computed, both numbers are negative, so that all terms are
 * added. */
static const struct {
    bool        each, cautious, copy;
    musec_dtype dtype; /* of the copy; 0: the weight's */
    musec_dtype u;     /* of u, where the weight is float32; 0: the weight's */
} decays[] = {
    { false, false, false, 0, 0 },
    { true, false, false, 0, 0 },
    { false, true, false, 0, 0 },
    { true, true, false, 0, 0 },
    { false, false, true, MUSEC_BF16, 0 },
    { true, true, true, MUSEC_BF16, 0 },
    { true, false, true, 0, 0 },
    { false, false, true, MUSEC_F16, 0 },
    { true, false, true, MUSEC_BF16, MUSEC_F16 },
    { true, true, true, MUSEC_BF16, MUSEC_BF16 },
    { false, true, false, 0, MUSEC_F16 },
};
_Static_assert(COUNT(decays) == OP_DECAY_ADD_VARIANTS, "op_updates.h");

void op_decay_add_operands(op_args *a)
{
    op_mat *u = op_add_mat(a, OP_IN, a->c.m, a->c.n);
    if (a->c.dtype == MUSEC_F32 && decays[a->c.variant].u != 0)
        u->mat.dtype = decays[a->c.variant].u;
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n);
    op_mat *copy = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    copy->absent = !decays[a->c.variant].copy;
    if (!op_is_half(a->c.dtype) && decays[a->c.variant].dtype != 0)
        copy->mat.dtype = decays[a->c.variant].dtype;
    op_add_vec(a, OP_IN)->negative = is_absolute(a);
    op_add_vec(a, OP_IN)->negative = is_absolute(a);
}

static ms_num number(const op_args *a, int vec, double value)
{
    if (decays[a->c.variant].each) return ms_each(a->vec[vec].vec);
    return ms_const(is_absolute(a) ? -value : value);
}

static ms_num step_of(const op_args *a) { return number(a, 0, 0.3); }
static ms_num decay_of(const op_args *a) { return number(a, 1, 0.2); }

musec_status op_decay_add_run(op_args *a)
{
    return a->d->ops->decay_add(a->d, step_of(a), a->mat[0].mat, decay_of(a),
                                decays[a->c.variant].cautious, a->mat[1].mat, a->mat[2].mat);
}

musec_status op_decay_add_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_device_ops *op = a->d->ops; /* -step G, or G - decay G */
    musec_status         st;
    TRY(op->axpby(a->d, by == 0 ? step_of(a) : decay_of(a), g->mat[1], ms_const(0.0), out));
    TRY(op->axpby(a->d, ms_const(by == 0 ? 0.0 : 1.0), g->mat[1], ms_const(-1.0), out));
done:
    return st;
}
