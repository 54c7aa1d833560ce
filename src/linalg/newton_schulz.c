/* newton_schulz.c - Muon's quintic Newton-Schulz steps towards the polar factor.
 *
 * From X = M / (f |M|_F + eps), turned so that rows <= cols, each step is
 *     A = X X^T,   X <- (a I + b A + c A^2) X,
 * which maps every singular value by x <- a x + b x^3 + c x^5.  The coefficients are chosen to lift
 * small singular values fast, not to converge: five of Keller Jordan's steps leave them between
 * 0.68 and 1.13.  f and eps belong to the definition, so nothing else scales the input. Cost per
 * step: a Gram matrix and a square, both one triangle, and a product with X.
 *
 * With operands of 16 bits everything between input and result is stored so, as Muon does, and X
 * keeps the layout of the input: a tall matrix is seen transposed, never copied so.  Input that
 * was scaled and rounded before is not rounded again: its norm is the trace of the first Gram
 * matrix, and what X is normalised by rides on the products after that.  These are numbers of each
 * matrix, which only the device knows, and they ride on symmetric products alone: full ones, with
 * constants of the host, are left to the fastest kernel that there is (device/cuda/product.c).
 *
 * The steps of a run need not form the X between them.  Of rows r and cols n,
 *     A = X X^T,  P = Q = a I + b A + c A^2;
 *     for each further step:  A <- P (A P),  P = a' I + b' A + c' A^2,  Q <- P Q;
 *     X <- Q X
 * is 1.5 n / r + 0.5 products of r^3 and 3 for each further step, less than steps one by one where
 * n > 5/3 r.  So what counts is how many runs there are: they are as few as may be, the longer ones
 * first.  Of n = 4 r, five steps as 3 + 2 are 22 products, as 2 + 2 + 1 they are 25.5, one by one
 * 32.5.  It is done in 16 bits only, where the order is nobody's definition.
 *
 * How long a run may be is a matter of rounding, which A has relative to its largest eigenvalue and
 * a run lifts by the squares of its slopes.  By emulation, with n = 4 r:
 *   - two at a time err by 0.7 to 1.9 times what single steps do, with either list, in f16 and
 *     bf16, for noise, for spectra that fall, for half the rank, and for few values above a flat
 *     rest.
 *   - three, then two, of keller's in f16 and r from 256 to 1536: 0.7 to 0.9 times for spectra that
 *     fall to 1e-2 or further and for half the rank, 1.1 to 1.7 for noise, up to 3.4 where few
 *     values stand out, but then no more than single steps err by elsewhere: 9.6e-3 at most for 64
 *     such spectra of r = 256, and 1.3e-2 one by one.
 *   - With r = 64 that is 3.6e-2, and with polar-express, whose first slope is 8.2, 5.9e-2 for
 *     r = 256.  Those go in pairs.  So does bf16, which has no digits to spare.
 *   - Four or five at once, or two before three, fail on some spectra, as do A P and Q mirrored. */
#include <assert.h>
#include <math.h>
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
    { "keller", keller, COUNT(keller), 1.0, 1e-7, 3 },
    { "polar-express", polar_express, COUNT(polar_express), 1.02, 1e-7, 2 },
};

const ms_quintic_list *ms_quintic_list_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(lists); i++)
        if (strcmp(lists[i].name, name) == 0) return &lists[i];
    return NULL;
}

int ms_newton_schulz_run(const ms_quintic_list *list, musec_dtype operands, int64_t r, int64_t n)
{
    enum { LARGE = 256 };
    if (!ms_is_16bit(operands) || n < 2 * r) return 1;
    return operands == MUSEC_F16 && r >= LARGE ? list->run : 2;
}

/* Of so many steps that are left: the next run, where all runs are as long as one another, but for
 * one step, and none is longer than it may be. */
static int run_length(int left, int most)
{
    const int runs = (left + most - 1) / most;
    return (left + runs - 1) / runs;
}

typedef struct coefficients { /* of a polynomial of A */
    ms_num a, b, c;
} coefficients;

/* What rides on a run: of the first one, what normalises X, where the input is not normalised. */
typedef struct riders {
    coefficients first, last; /* of its polynomials; if it is of one step, that is the last */
    ms_num       low, square; /* on the first A P, and on the first P (A P) */
    double       unit;        /* on Q X */
    ms_vec       rest;        /* on X after that; data NULL: nothing */
} riders;

typedef struct iterate {
    ms_mat x, buffer[2];   /* turned so that rows <= cols; X begins in the first, or as the input */
    ms_mat a, p, q, spare; /* r x r; q is there for runs of two steps, spare for those of three */
    int    most;           /* steps that a run may have */
    riders ride;
} iterate;

/* The stacks, and M / (f |M|_F + eps) in x unless the factor is to ride. */
static musec_status begin(ms_device *d, ms_mat in, const ms_quintic_list *list,
                          musec_dtype operands, iterate *i)
{
    const ms_device_ops *op     = d->ops;
    const bool           turned = in.rows > in.cols, narrow = ms_is_16bit(operands);
    const ms_mat         upright = turned ? ms_t(in) : in;
    const ms_mat         shape   = narrow ? in : upright; /* as stored */
    ms_mat *const        all[]   = { &i->x, &i->buffer[0], &i->buffer[1] };
    ms_mat *const        small[] = { &i->a, &i->p, &i->q, &i->spare };
    ms_vec               scale;
    musec_status         st = MUSEC_OK;
    i->most                 = ms_newton_schulz_run(list, operands, upright.rows, upright.cols);
    for (int k = 0; k < 2; k++)
        TRY(ms_scratch_mat(d, operands, in.count, shape.rows, shape.cols, &i->buffer[k]));
    for (size_t k = 0; k < (size_t)i->most + 1; k++)
        TRY(ms_scratch_mat(d, operands, in.count, upright.rows, upright.rows, small[k]));
    i->x = i->buffer[0];
    if (in.own != NULL) {
        i->x     = in;
        i->x.own = NULL;
    } else {
        TRY(ms_scratch_vec(d, in.count, &scale));
        TRY(op->sumsq(d, in, scale));
        TRY(op->scalars(d, MS_SCALAR_INV_NORM, &list->eps, 1,
                        (ms_num[]){ ms_each(scale), ms_const(list->norm_factor) }, &scale));
        if (narrow) {
            TRY(op->prescale(d, in, scale, i->buffer[0], &i->x));
        } else {
            TRY(op->copy(d, upright, i->x));
            TRY(op->scale(d, ms_each(scale), i->x));
        }
    }
    for (size_t k = 0; narrow && turned && k < COUNT(all); k++)
        *all[k] = ms_t(*all[k]);
done:
    return st;
}

static ms_quintic step_at(const ms_quintic_list *list, int k)
{
    return list->step[k < list->n_steps ? k : list->n_steps - 1];
}

static coefficients constants(ms_quintic s)
{
    return (coefficients){ ms_const(s.a), ms_const(s.b), ms_const(s.c) };
}

/* p <- a I + b A + c A A */
static musec_status polynomial(ms_device *d, coefficients k, ms_mat a, ms_mat p)
{
    return d->ops->product(d, &(ms_product){ .a         = a,
                                             .b         = a,
                                             .alpha     = k.c,
                                             .beta      = k.b,
                                             .source    = a,
                                             .diag      = k.a,
                                             .c         = p,
                                             .symmetric = true });
}

static musec_status gram(ms_device *d, iterate *i, double alpha, ms_vec trace, ms_vec mask)
{
    return d->ops->product(d, &(ms_product){ .a         = i->x,
                                             .b         = ms_t(i->x),
                                             .alpha     = ms_const(alpha),
                                             .c         = i->a,
                                             .symmetric = true,
                                             .trace     = trace,
                                             .mask      = mask });
}

/* The power of two that X is to be normalised by, were it typical: entries are at most 1 by their
 * bound, averages have 1/8 to 1/64 of it (optim/momentum.c). */
static double typical_factor(int64_t r, int64_t n)
{
    return ldexp(1.0, 4 - (int)lround(0.5 * log2((double)r * (double)n)));
}

/* A of the first step, from input that is times `own`, and what normalises it, for n steps.
 *
 * X is y x.  Of y, a power of two is on Q X, the rest rho = y / unit on the last polynomial of the
 * run, and so on Q, if it is from 2^-7 to 2^6: Q is at most 41 rho.  What is left, a power of two
 * and nearly always 1, takes a pass over X.  Entries off the diagonal that f16 has few digits for,
 * below 2^-14, are rounded to 3e-8, which is 4e-6 of P with the least rho: at most a matrix of norm
 * 2 sqrt(r) times that, 4e-4 for r = 2048, and what is rounded of the diagonal alone is 2^-11.
 *
 * Some matrices are far below their bound, as one of several blocks of a weight may be: then f16
 * would have few digits for A, and steps that do not come back to X would go astray.  Where the
 * mean of A's diagonal is below 1/8, x is multiplied by a power of two in place, and A is made
 * again. */
static musec_status first_gram(ms_device *d, const ms_quintic_list *list, int n, double *own,
                               iterate *i)
{
    enum { REACH = 6 };
    const ms_quintic s = step_at(list, 0), t = step_at(list, n - 1);
    /* A P has entries of at most max |p| max A: 8.2 times what A has, which fill f16's range */
    const double low = 0.125, unit = typical_factor(i->x.rows, i->x.cols);
    double       alpha = 1.0;
    const double least = fmin((double)i->x.rows / 8.0, 0x1p10);
    ms_vec none     = { 0 }, trace, v[10]; /* what rides on P (A P); b, c; a, b, c; rest; up, who */
    musec_status st = MUSEC_OK;
    /* entries of the input are at most 1, or a little above, and f16 ends at 2^16; from below, they
     * may be far from their bound, and f16 has few digits under 2^-14 */
    while (alpha * (double)i->x.cols > 0x1p14)
        alpha *= 0.5;
    while (alpha * (double)i->x.cols <= 0x1p13)
        alpha *= 2.0;
    const double params[] = {
        list->eps, alpha, unit, low, REACH, n, s.b, s.c, t.a, t.b, t.c, least
    };
    TRY(ms_scratch_vec(d, i->x.count, &trace));
    for (size_t k = 0; k < COUNT(v) - 1; k++)
        TRY(ms_scratch_vec(d, i->x.count, &v[k]));
    v[COUNT(v) - 1] = (ms_vec){ own, i->x.count };
    TRY(gram(d, i, alpha, trace, none));
    TRY(d->ops->scalars(d, MS_SCALAR_QUINTIC, params, COUNT(params),
                        (ms_num[]){ ms_each(trace), ms_const(list->norm_factor),
                                    ms_each((ms_vec){ own, i->x.count }) },
                        v));
    TRY(d->ops->scale(d, ms_each(v[7]), i->x));
    TRY(gram(d, i, alpha, none, v[8]));
    i->ride = (riders){ .first  = { ms_const(s.a), ms_each(v[1]), ms_each(v[2]) },
                        .last   = { ms_each(v[3]), ms_each(v[4]), ms_each(v[5]) },
                        .low    = ms_const(low),
                        .square = ms_each(v[0]),
                        .unit   = unit,
                        .rest   = v[6] };
done:
    return st;
}

/* The same of a later step k, or of X that is normalised. */
static musec_status next_gram(ms_device *d, const ms_quintic_list *list, int k, int n, iterate *i)
{
    i->ride = (riders){ .first  = constants(step_at(list, k)),
                        .last   = constants(step_at(list, k + n - 1)),
                        .low    = ms_const(1.0),
                        .square = ms_const(1.0),
                        .unit   = 1.0 };
    return gram(d, i, 1.0, (ms_vec){ 0 }, (ms_vec){ 0 });
}

/* From A of step k, what X is multiplied by in n steps from there on. */
static musec_status run_steps(ms_device *d, const ms_quintic_list *list, int k, int n, iterate *i,
                              ms_mat *q)
{
    const ms_device_ops *op   = d->ops;
    const riders        *ride = &i->ride;
    ms_mat               p = i->p, t = i->q;
    musec_status         st = MUSEC_OK;
    assert(n <= 3); /* there is one spare matrix */
    TRY(polynomial(d, n == 1 ? ride->last : ride->first, i->a, p));
    *q = p;
    for (int j = 1; j < n; j++) {
        const bool         last   = j + 1 == n;
        const coefficients c      = last ? ride->last : constants(step_at(list, k + j));
        const ms_num       low    = j == 1 ? ride->low : ms_const(1.0);
        const ms_num       square = j == 1 ? ride->square : ms_const(1.0);
        const ms_mat       to = last ? i->a : i->spare, old = p;
        TRY(op->product(d, &(ms_product){ .a = i->a, .b = p, .alpha = low, .c = t }));
        TRY(op->product(
            d, &(ms_product){ .a = p, .b = t, .alpha = square, .c = i->a, .symmetric = true }));
        TRY(polynomial(d, c, i->a, t));
        TRY(op->product(d, &(ms_product){ .a = t, .b = *q, .alpha = ms_const(1.0), .c = to }));
        *q = to;
        p  = t;
        t  = old;
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
    iterate              i;
    musec_status         st = MUSEC_OK;

    operands = ms_compute_dtype(in, operands);
    TRY(begin(d, in, list, operands, &i));
    for (int k = 0, turn = 1; k < iters; turn = 1 - turn) {
        const int n = run_length(iters - k, i.most);
        ms_mat    q;
        if (k == 0 && in.own != NULL)
            TRY(first_gram(d, list, n, in.own, &i));
        else
            TRY(next_gram(d, list, k, n, &i));
        TRY(run_steps(d, list, k, n, &i, &q));
        k += n;
        const ms_mat to = k == iters ? result : i.buffer[turn];
        TRY(op->product(
            d, &(ms_product){ .a = q, .b = i.x, .alpha = ms_const(i.ride.unit), .c = to }));
        if (i.ride.rest.data != NULL) TRY(op->scale(d, ms_each(i.ride.rest), to));
        i.x = to;
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
