/* newton_schulz.c - Muon's quintic Newton-Schulz steps towards the polar factor.
 *
 * From X = M / (f |M|_F + eps), turned so that rows <= cols, each step is
 *     A = X X^T,   X <- (a I + b A + c A^2) X,
 * which maps every singular value by x <- a x + b x^3 + c x^5.  The coefficients are chosen to lift
 * small singular values fast, not to converge: five of Keller Jordan's steps leave them between
 * 0.68 and 1.13.  f and eps belong to the definition, so nothing else scales the input. Cost per
 * step: a Gram matrix and a square, both one triangle, and a product with X.
 *
 * With operands of 16 bits everything but the input and the result is stored so, as Muon does, and
 * X keeps the layout of the input: a tall matrix is seen transposed, never copied so. */
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

typedef struct iterate {   /* factor X, turned so that rows <= cols */
    ms_mat x, buffer[2];   /* buffers are like X; X begins in the first one, or as the input */
    ms_num factor, square; /* square: of the factor */
} iterate;

/* M / (f |M|_F + eps).  Input that was scaled and rounded before is not rounded again: then the
 * factor rides on the first step's products. */
static musec_status normalised(ms_device *d, ms_mat in, const ms_quintic_list *list,
                               musec_dtype operands, iterate *i)
{
    const ms_device_ops *op     = d->ops;
    const bool           turned = in.rows > in.cols, narrow = ms_narrow(operands);
    const ms_mat         upright = turned ? ms_t(in) : in;
    const ms_mat         shape   = narrow ? in : upright; /* as stored */
    const ms_num own = in.own != NULL ? ms_each((ms_vec){ in.own, in.count }) : ms_const(1.0);
    ms_vec       sumsq, scale[2];
    musec_status st = MUSEC_OK;
    i->factor = i->square = ms_const(1.0);
    TRY(ms_scratch_vec(d, in.count, &sumsq));
    for (int k = 0; k < 2; k++) {
        TRY(ms_scratch_mat(d, operands, in.count, shape.rows, shape.cols, &i->buffer[k]));
        TRY(ms_scratch_vec(d, in.count, &scale[k]));
    }
    i->x = i->buffer[0];
    TRY(op->sumsq(d, in, sumsq));
    TRY(op->scalars(d, MS_SCALAR_INV_NORM, &list->eps, 1,
                    (ms_num[]){ ms_each(sumsq), ms_const(list->norm_factor), own }, scale));
    if (in.own != NULL) {
        i->x      = in;
        i->x.own  = NULL;
        i->factor = ms_each(scale[0]);
        i->square = ms_each(scale[1]);
    } else if (narrow) {
        TRY(op->prescale(d, in, scale[0], i->buffer[0], &i->x));
    } else {
        TRY(op->copy(d, upright, i->x));
        TRY(op->scale(d, ms_each(scale[0]), i->x));
    }
    if (narrow && turned) {
        ms_mat *const all[] = { &i->x, &i->buffer[0], &i->buffer[1] };
        for (size_t k = 0; k < COUNT(all); k++)
            *all[k] = ms_t(*all[k]);
    }
done:
    return st;
}

musec_status ms_newton_schulz(ms_device *d, ms_mat in, const ms_quintic_list *list, int iters,
                              musec_dtype operands, ms_mat out)
{
    const ms_device_ops *op     = d->ops;
    const ms_mark        mark   = ms_arena_mark(&d->scratch);
    const ms_mat         result = in.rows > in.cols ? ms_t(out) : out;
    ms_mat               a, b;
    iterate              i;
    musec_status         st = MUSEC_OK;

    operands = ms_operands(in, operands);
    TRY(normalised(d, in, list, operands, &i));
    TRY(ms_scratch_mat(d, operands, in.count, i.x.rows, i.x.rows, &a));
    TRY(ms_scratch_mat(d, operands, in.count, i.x.rows, i.x.rows, &b));
    for (int k = 0; k < iters; k++) {
        const ms_quintic s  = list->step[k < list->n_steps ? k : list->n_steps - 1];
        const ms_mat     to = k == iters - 1 ? result : i.buffer[(k + 1) % 2];
        TRY(op->product(
            d, &(ms_product){
                   .a = i.x, .b = ms_t(i.x), .alpha = i.square, .c = a, .symmetric = true }));
        TRY(op->product(d, &(ms_product){ .a         = a,
                                          .b         = a,
                                          .alpha     = ms_const(s.c),
                                          .beta      = ms_const(s.b),
                                          .z         = a,
                                          .diag      = ms_const(s.a),
                                          .c         = b,
                                          .symmetric = true }));
        TRY(op->product(d, &(ms_product){ .a = b, .b = i.x, .alpha = i.factor, .c = to }));
        i.x      = to;
        i.factor = i.square = ms_const(1.0);
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
