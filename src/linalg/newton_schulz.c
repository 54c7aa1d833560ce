/* newton_schulz.c - Muon's quintic Newton-Schulz steps towards the polar factor.
 *
 * From X = M / (f |M|_F + eps), turned so that rows <= cols, each step is
 *     A = X X^T,   X <- (a I + b A + c A^2) X,
 * which maps every singular value by x <- a x + b x^3 + c x^5.  The coefficients are chosen to lift
 * small singular values fast, not to converge: five of Keller Jordan's steps leave them between
 * 0.68 and 1.13.  f and eps belong to the definition, so nothing else scales the input. Cost per
 * step: a Gram matrix and a square, both one triangle, and a product with X. */
#include <string.h>

#include "linalg/linalg.h"

static const ms_quintic keller[] = { { 3.4445, -4.7750, 2.0315 } };

/* Optimal for singular values down to 1e-3, with every x replaced by x / 1.02: the unscaled
 * polynomials diverge for any x above 1. */
static const ms_quintic polar_express[] = {
    { 8.156554524902461, -22.48329292557795, 15.878769915207462 },
    { 4.042929935166739, -2.808917465908714, 0.5000178451051316 },
    { 3.8916678022926607, -2.772484153217685, 0.5060648178503393 },
    { 3.285753657755655, -2.3681294933425376, 0.46449024233003106 },
    { 2.3465413258596377, -1.7097828382687081, 0.42323551169305323 },
};

static const ms_quintic_list lists[] = {
    { "keller", keller, COUNT(keller), 1.0, 1e-7 },
    { "polar-express", polar_express, COUNT(polar_express), 1.02, 1e-7 },
};

const ms_quintic_list *ms_quintic_list_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(lists); i++)
        if (strcmp(lists[i].name, name) == 0) return &lists[i];
    return NULL;
}

musec_status ms_newton_schulz(ms_device *d, ms_mat in, const ms_quintic_list *list, int iters,
                              ms_mat out)
{
    const ms_device_ops *op     = d->ops;
    const ms_mark        mark   = ms_arena_mark(&d->scratch);
    const bool           turned = in.rows > in.cols;
    const ms_mat         x0     = turned ? ms_t(in) : in;
    ms_mat               x, next, a, b;
    ms_vec               sumsq, scale;
    musec_status         st = MUSEC_OK;

    TRY(ms_scratch_mat(d, in.dtype, in.count, x0.rows, x0.cols, &x));
    TRY(ms_scratch_mat(d, in.dtype, in.count, x0.rows, x0.cols, &next));
    TRY(ms_scratch_mat(d, in.dtype, in.count, x0.rows, x0.rows, &a));
    TRY(ms_scratch_mat(d, in.dtype, in.count, x0.rows, x0.rows, &b));
    TRY(ms_scratch_vec(d, in.count, &sumsq));
    TRY(ms_scratch_vec(d, in.count, &scale));
    TRY(op->sumsq(d, in, sumsq));
    TRY(op->scalars(d, MS_SCALAR_INV_NORM, (double[]){ list->norm_factor, list->eps }, 2,
                    (ms_num[]){ ms_each(sumsq) }, &scale));
    TRY(op->copy(d, x0, x));
    TRY(op->scale(d, ms_each(scale), x));
    for (int k = 0; k < iters; k++) {
        const ms_quintic s      = list->step[k < list->n_steps ? k : list->n_steps - 1];
        const ms_term    linear = { .x_coef = ms_const(s.b), .diag = ms_const(s.a), .out = b };
        TRY(op->gram(d, x, a));
        TRY(op->combine(d, a, (ms_mat){ 0 }, &linear, 1));
        TRY(op->gemm_sym(d, s.c, a, a, 1.0, b));
        TRY(op->gemm(d, 1.0, b, x, 0.0, next));
        const ms_mat t = x;
        x              = next;
        next           = t;
    }
    TRY(op->copy(d, turned ? ms_t(x) : x, out));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
