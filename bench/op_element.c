/* op_element.c - cases of element ops and random numbers, and the rows of these and of the ops of
 * optimizers (op_updates.c).  op_kinds.c says what sizes, variants and gradients are. */
#include "op_cases.h"
#include "op_updates.h"

/* ---- elements -------------------------------------------------------------------------------- */

/* variant 0: same dtype; 1 to 3: to the others, in order */
static void copy_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (a->c.variant > 0) {
        const int other = MUSEC_F32 + a->c.variant - 1;
        out->mat.dtype  = (musec_dtype)(other < (int)a->c.dtype ? other : other + 1);
    }
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
    return a->d->ops->fill(a->d, op_coef(a, -0.1), a->mat[0].mat);
}

/* variant 0: a constant; 1: one number per matrix */
static void inout_operands(op_args *a)
{
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n);
    if (a->c.variant == 1) op_add_vec(a, OP_IN);
}

static ms_num factor_of(const op_args *a) /* -1, as timing repeats it in place */
{
    return a->c.variant == 1 ? ms_each(a->vec[0].vec) : ms_const(op_coef(a, -1.0));
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
    return a->c.variant == 2 ? ms_each(a->vec[0].vec) : ms_const(op_coef(a, -0.3));
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

/* Which terms each variant has; `on`: the operand that out t lies on, 2 + t being its own.  From
 * MIXED on, dtypes are 0 for the case's own, and what x is of decides what y is of. */
static const struct {
    int         n_terms;
    bool        x, y, each;
    int         on[4];
    musec_dtype out[4];
    bool        some; /* all terms but the first are only for every other matrix */
} combine_variants[] = {
    { 1, true, true, false, { 2 }, { 0 }, false },
    { 4, true, true, true, { 2, 3, 4, 5 }, { 0 }, false },
    { 2, true, true, false, { 0, 1 }, { 0 }, false },
    { 2, true, false, true, { 0, 3 }, { 0 }, false },
    { 3, false, true, false, { 2, 1, 4 }, { 0 }, false },
    { 1, false, false, false, { 2 }, { 0 }, false },
    { 3, true, true, true, { 2, 1, 4 }, { 0 }, true },
    { 3, true, true, true, { 2, 3, 4 }, { MUSEC_F32, MUSEC_BF16, MUSEC_F16 }, false },
    { 3, true, true, false, { 0, 1, 4 }, { 0, 0, MUSEC_F16 }, false },
    { 2, true, false, true, { 2, 3 }, { MUSEC_F16, MUSEC_BF16 }, false },
};
enum { MIXED = 7 };

static bool combine_has(const op_case *c) { return c->variant < MIXED || c->dtype != MUSEC_F64; }

static bool written(const op_args *a, int operand)
{
    for (int t = 0; t < combine_variants[a->c.variant].n_terms; t++)
        if (combine_variants[a->c.variant].on[t] == operand) return true;
    return false;
}

static void combine_operands(op_args *a)
{
    const int v = a->c.variant;
    op_mat   *x = op_add_mat(a, written(a, 0) ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_mat   *y = op_add_mat(a, written(a, 1) ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    x->absent   = !combine_variants[v].x;
    y->absent   = !combine_variants[v].y;
    if (v >= MIXED) y->mat.dtype = a->c.dtype == MUSEC_F32 ? MUSEC_BF16 : MUSEC_F32;
    for (int t = 0; t < combine_variants[v].n_terms; t++) {
        op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
        if (combine_variants[v].on[t] < 2)
            out->like = combine_variants[v].on[t];
        else if (combine_variants[v].out[t] != 0)
            out->mat.dtype = combine_variants[v].out[t];
    }
    for (int t = 0; t < 4; t++) /* coefficients of the first term, when */
        op_add_vec(a, OP_IN);
}

static musec_status combine_prepare(op_args *a)
{
    for (int64_t b = 0; b < a->c.count; b++)
        a->vec[3].image[b] = b % 2 == 0 ? -2.0 : 0.0;
    return MUSEC_OK;
}

static ms_term term_of(const op_args *a, int t)
{
    ms_term term = { .x_coef = ms_const(op_coef(a, 0.5 - 0.4 * t)),
                     .y_coef = ms_const(op_coef(a, 0.3 * t - 0.7)),
                     .diag   = ms_const(op_coef(a, 1.5 - t)),
                     .out    = a->mat[2 + t].mat };
    if (combine_variants[a->c.variant].each && t == 0) {
        term.x_coef = ms_each(a->vec[0].vec);
        term.y_coef = ms_each(a->vec[1].vec);
        term.diag   = ms_each(a->vec[2].vec);
    }
    if (combine_variants[a->c.variant].some && t > 0) term.mask = a->vec[3].vec;
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

/* variant 0: constants; 1: one number per matrix; 2: the same, x of another dtype, out in f16; 3:
 * constants, out in bf16 */
static void average_operands(op_args *a)
{
    const int v = a->c.variant;
    op_mat   *x = op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (v == 2) x->mat.dtype = a->c.dtype == MUSEC_F32 ? MUSEC_BF16 : MUSEC_F32;
    if (v >= 2) out->mat.dtype = v == 2 ? MUSEC_F16 : MUSEC_BF16;
    op_add_vec(a, OP_IN);
    op_add_vec(a, OP_IN);
    op_add_vec(a, OP_OUT);
}

static bool average_has(const op_case *c) { return c->variant < 2 || c->dtype != MUSEC_F64; }

static musec_status average_run(op_args *a)
{
    const bool each = a->c.variant == 1 || a->c.variant == 2;
    return a->d->ops->average(a->d, each ? ms_each(a->vec[0].vec) : ms_const(op_coef(a, -0.6)),
                              a->mat[0].mat,
                              each ? ms_each(a->vec[1].vec) : ms_const(op_coef(a, 0.4)),
                              a->mat[1].mat, a->mat[2].mat, a->vec[2].vec);
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

/* variant 0: same dtype; 1: into f16; 2: into bf16 */
static bool prescale_has(const op_case *c)
{
    static const musec_dtype into[] = { 0, MUSEC_F16, MUSEC_BF16 };
    return c->variant == 0 || (c->dtype != MUSEC_F64 && c->dtype != into[c->variant]);
}

static void prescale_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_mat *buffer = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (a->c.variant > 0) buffer->mat.dtype = a->c.variant == 1 ? MUSEC_F16 : MUSEC_BF16;
    op_add_vec(a, OP_IN); /* no powers of two, so that every device scales */
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

/* ---- random numbers -------------------------------------------------------------------------- */

/* With absolute values: 0.5 + 0.75 u, to which the rounding is relative. */
static musec_status uniform_run(op_args *a)
{
    const double low = op_coef(a, -0.5);
    return a->d->ops->uniform(a->d, 0x1234567890abcdefu, low, low + 0.75, a->mat[0].mat);
}

static musec_status normal_run(op_args *a)
{
    return a->d->ops->normal(a->d, 0x1234567890abcdefu, 0.0, 2.0, a->mat[0].mat);
}

static void stochastic_round_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->mat.dtype = MUSEC_BF16;
}

/* variant 0: from the beginning of the stream; 1: from within one of its blocks */
static musec_status stochastic_round_run(op_args *a)
{
    return a->d->ops->stochastic_round(a->d, 0x1234567890abcdefu, a->c.variant == 0 ? 0 : 1000003,
                                       a->mat[0].mat, a->mat[1].mat);
}

static bool stochastic_round_has(const op_case *c) { return c->dtype == MUSEC_F32; }

static void join_halves_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n)->mat.dtype = MUSEC_BF16;
    op_add_mat(a, OP_IN, a->c.m, a->c.n)->mat.dtype = MUSEC_I16;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n);
}

static musec_status join_halves_run(op_args *a)
{
    return a->d->ops->join_halves(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat);
}

/* variant 1: the low half alone */
static void split_halves_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_mat *high                                     = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    high->mat.dtype                                  = MUSEC_BF16;
    high->absent                                     = a->c.variant == 1;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->mat.dtype = MUSEC_I16;
}

static musec_status split_halves_run(op_args *a)
{
    return a->d->ops->split_halves(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat);
}

static bool halves_has(const op_case *c) { return c->dtype == MUSEC_F32; }

/* ---- the rows -------------------------------------------------------------------------------- */

const op_kind op_element_kinds[] = {
    { OP_ROW(copy, 4), .operands = copy_operands, .run = copy_run, .rounding = op_exact,
      .grad = copy_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(fill, 1), .operands = out_operand, .run = fill_run, .rounding = op_exact,
      .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(add_diag, 2), .operands = inout_operands, .run = add_diag_run, .rounding = op_few,
      .grad = add_diag_grad, .grad_by = 0x1, .grad_variant = 1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(scale, 2), .operands = inout_operands, .run = scale_run, .rounding = op_exact,
      .grad = scale_grad, .grad_by = 0x1, .grad_variant = 1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(axpby, 4), .operands = axpby_operands, .run = axpby_run, .rounding = op_few,
      .grad = axpby_grad, .grad_by = 0x3, .grad_variant = 2, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(combine, COUNT(combine_variants)), .operands = combine_operands,
      .prepare = combine_prepare, .run = combine_run, .has = combine_has, .rounding = op_few,
      .grad = combine_grad, .grad_by = 0x3, .grad_variant = 1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(average, 4), .operands = average_operands, .run = average_run, .has = average_has,
      .rounding = op_few, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(scale_rows, 1), .operands = scale_rows_operands, .run = scale_rows_run,
      .rounding = op_few, .grad = scale_rows_grad, .grad_by = 0x2, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(prescale, 3), .operands = prescale_operands, .run = prescale_run, .has = prescale_has,
      .rounding = op_exact, .shapes = OP_SHAPES_PLAIN, .by_stack = true },
    { OP_ROW(moments, 4), .operands = op_moments_operands, .run = op_moments_run,
      .rounding = op_moments_rounding, .stored = OP_MOMENTS_STORED, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(decay_add, OP_DECAY_ADD_VARIANTS), .operands = op_decay_add_operands,
      .run = op_decay_add_run, .rounding = op_few, .grad = op_decay_add_grad, .grad_by = 0x3,
      .grad_variant = 1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(join_halves, 1), .operands = join_halves_operands, .run = join_halves_run,
      .has = halves_has, .rounding = op_exact, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(split_halves, 2), .operands = split_halves_operands, .run = split_halves_run,
      .has = halves_has, .rounding = op_exact, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(normal, 1), .operands = out_operand, .run = normal_run, .rounding = op_library,
      .shapes = OP_SHAPES_PLAIN, .by_stack = true },
    { OP_ROW(uniform, 1), .operands = out_operand, .run = uniform_run, .rounding = op_few,
      .shapes = OP_SHAPES_PLAIN, .by_stack = true },
    { OP_ROW(stochastic_round, 2), .operands = stochastic_round_operands,
      .run = stochastic_round_run, .has = stochastic_round_has, .rounding = op_exact,
      .shapes = OP_SHAPES_PLAIN, .by_stack = true },
};
const size_t op_element_kinds_count = COUNT(op_element_kinds);
