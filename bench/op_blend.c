/* op_blend.c - the operands and calls of blend and its gradient.
 *
 * Coefficients are one column per matrix of the stack.  All formulas are sums of products, so the
 * op on absolute values gives the size that errors are relative to; dcoef is a sum of n terms. */
#include "op_network.h"

enum coef_kind { COEF_ONE, COEF_ALL, COEF_ROWS }; /* none, one row for all, one per row */

/* Variants of both; in_place: out is the x of the first term, or the dx of the last is dout. */
static const struct {
    int            n;
    enum coef_kind coef[4];
    bool           adds[4], in_place;
} variants[] = {
    { 2, { COEF_ONE, COEF_ROWS }, { true, false }, false },
    { 3, { COEF_ALL, COEF_ONE, COEF_ROWS }, { true, true, false }, true },
    { 4, { COEF_ROWS, COEF_ALL, COEF_ROWS, COEF_ALL }, { false, true, true, false }, false },
};

static op_mat *add_coef(op_args *a, op_role role, int64_t rows)
{
    op_mat *m    = op_wide(op_add_mat(a, role, rows, a->c.count));
    m->mat.count = 1;
    m->column    = true;
    return m;
}

static op_mat *add_rows(op_args *a, op_role role)
{
    op_mat *m = op_add_mat(a, role, a->c.m, a->c.n);
    m->head   = true;
    return m;
}

/* Adds coef and x of each term; returns the operand of the first x. */
static int add_terms(op_args *a, bool in_place)
{
    int first = -1;
    for (int k = 0; k < variants[a->c.variant].n; k++) {
        const enum coef_kind kind = variants[a->c.variant].coef[k];
        if (kind != COEF_ONE) add_coef(a, OP_IN, kind == COEF_ALL ? 1 : a->c.m);
        if (k == 0) first = a->n_mats;
        add_rows(a, in_place && k == 0 ? OP_INOUT : OP_IN);
    }
    return first;
}

/* Reads the terms back; returns the operand after them. */
static int terms_of(const op_args *a, ms_blend_term *terms)
{
    int at = 0;
    for (int k = 0; k < variants[a->c.variant].n; k++) {
        terms[k] = (ms_blend_term){ .x = { 0 } };
        if (variants[a->c.variant].coef[k] != COEF_ONE) terms[k].coef = a->mat[at++].mat;
        terms[k].x = a->mat[at++].mat;
    }
    return at;
}

void op_blend_operands(op_args *a)
{
    const bool in_place = variants[a->c.variant].in_place;
    const int  first    = add_terms(a, in_place);
    op_mat    *out      = add_rows(a, OP_OUT);
    if (in_place) out->like = first;
}

musec_status op_blend_run(op_args *a)
{
    ms_blend_term terms[MS_BLEND_TERMS];
    const int     out = terms_of(a, terms);
    return a->d->ops->blend(a->d, terms, variants[a->c.variant].n, a->mat[out].mat);
}

/* Of variant 0: by the x of the first term, the coef and the x of the second. */
musec_status op_blend_gradient(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    ms_blend_term terms[MS_BLEND_TERMS];
    ms_blend_grad grads[2] = { { .adds = false } };
    const int     at       = terms_of(a, terms);
    if (by == 0) grads[0].dx = out;
    if (by == 1) grads[1].dcoef = out;
    if (by == 2) grads[1].dx = out;
    return a->d->ops->blend_grad(a->d, terms, grads, 2, g->mat[at]);
}

/* After the terms dout, then dx of each term, then dcoef of those with a coefficient. */
void op_blend_grad_operands(op_args *a)
{
    const int  v = a->c.variant, n = variants[v].n;
    const bool in_place = variants[v].in_place;
    add_terms(a, false);
    const int dout = a->n_mats;
    add_rows(a, in_place ? OP_INOUT : OP_IN);
    for (int k = 0; k < n && v != 2; k++) {
        op_mat *dx = add_rows(a, variants[v].adds[k] ? OP_INOUT : OP_OUT);
        if (in_place && k == n - 1) dx->like = dout;
    }
    add_coef(a, OP_OUT, a->c.m);
}

/* Of variant 2 dcoef of the first term alone is wanted, and no dx. */
musec_status op_blend_grad_run(op_args *a)
{
    const int     v = a->c.variant, n = variants[v].n;
    ms_blend_term terms[MS_BLEND_TERMS];
    ms_blend_grad grads[MS_BLEND_TERMS] = { { .adds = false } };
    const int     dout                  = terms_of(a, terms);
    for (int k = 0; k < n && v != 2; k++) {
        grads[k].dx   = a->mat[dout + 1 + k].mat;
        grads[k].adds = variants[v].adds[k];
    }
    grads[v == 2 ? 0 : n - 1].dcoef = a->mat[a->n_mats - 1].mat;
    return a->d->ops->blend_grad(a->d, terms, grads, n, a->mat[dout].mat);
}

double op_blend_grad_rounding(const op_case *c) { return (double)c->n + 4.0; }
