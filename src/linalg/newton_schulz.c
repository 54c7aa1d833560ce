/* newton_schulz.c - Muon's quintic Newton-Schulz steps towards the polar factor.
 *
 * From X = M / (f |M|_F + eps), or M / max(f |M|_F, eps), transposed so that rows <= cols, each
 * step is
 *     A = X X^T,   X <- (a I + b A + c A^2) X,
 * which maps every singular value by x <- a x + b x^3 + c x^5.  The coefficients are chosen to
 * raise small singular values fast, not to converge: five of Keller Jordan's steps leave them
 * between 0.68 and 1.13.  f and eps belong to the definition, so nothing else scales the input.  A
 * step costs a Gram matrix and a square, both one triangle, and a product with X.
 *
 * With a 16-bit compute dtype everything between input and result is stored so, as Muon does, and X
 * keeps the layout of the input: a tall matrix is viewed transposed, never copied so.  Scaled input
 * is not rounded again: its norm is the trace of the first Gram matrix, and the epilogues of the
 * products after that normalise X.  Those factors are numbers of each matrix, which only the device
 * knows, so they are in the epilogues of symmetric products alone: full products, with constants of
 * the host, are left to the fastest kernel that there is (device/cuda/product.c).
 *
 * Fused steps do not form the X between them.  With rows r and cols n,
 *     A = X X^T,  P = Q = a I + b A + c A^2;
 *     for each further step:  A <- P (A P),  P = a' I + b' A + c' A^2,  Q <- P Q;
 *     X <- Q X
 * costs 1.5 n / r + 0.5 products of r^3 and 3 for each further step, less than single steps where
 * n > 5/3 r.  So the number of fused groups counts: there are as few as possible, the longer ones
 * first.  With n = 4 r, five steps as 3 + 2 are 22 products, as 2 + 2 + 1 they are 25.5, as single
 * steps 32.5.  Steps are fused in 16 bits only, where the order is nobody's definition.
 *
 * Rounding limits how many steps may be fused: A has an error relative to its largest eigenvalue,
 * and a group amplifies it by the squares of its slopes.  By emulation, with n = 4 r:
 *   - Two at a time err by 0.7 to 1.9 times what single steps do, with either list, in f16 and
 *     bf16, for noise, for spectra that fall, for half the rank, and for few values above a flat
 *     rest.
 *   - Three, then two, of keller's in f16 and r from 256 to 1536 err by 0.7 to 0.9 times for
 *     spectra that fall to 1e-2 or further and for half the rank, 1.1 to 1.7 for noise, up to 3.4
 *     where few values stand out, but then no more than single steps err by elsewhere: 9.6e-3 at
 *     most for 64 such spectra of r = 256, and 1.3e-2 for single steps.
 *   - With r = 64 that is 3.6e-2, and with polar-express, whose first slope is 8.2, 5.9e-2 for
 *     r = 256.  Those go in pairs.  So does bf16, which has no digits to spare.
 *   - The other lists take single steps: two of cans at a time err by up to 3.9e-2 in f16.
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

/* Chebyshev-optimized (arXiv 2506.10935).  They diverge above 1 too, hence a norm_factor. */
static const ms_quintic cans[] = {
    { 8.4703, -25.1081, 18.6293 }, { 4.1828, -3.1087, 0.5806 }, { 3.9619, -2.9541, 0.5630 },
    { 3.2866, -2.4647, 0.5074 },   { 2.2737, -1.6447, 0.4162 },
};

/* Jiacheng You's, which leave values from 0.978 to 1.032 where they begin from 0.01 on. */
static const ms_quintic you[] = {
    { 4.0848, -6.8946, 2.9270 }, { 3.9505, -6.3029, 2.6377 }, { 3.7418, -5.5913, 2.3037 },
    { 2.8769, -3.1427, 1.2046 }, { 2.8366, -3.0525, 1.2012 },
};

/* Of Turbo-Muon (arXiv 2512.04632): four steps, for input whose norm is near 1. */
static const ms_quintic turbo[] = {
    { 4.6051, -9.6552, 5.6769 },
    { 4.7505, -6.0861, 2.1790 },
    { 2.7763, -2.3190, 0.5523 },
    { 2.4231, -2.2861, 0.8193 },
};

/* Without a fifth power (arXiv 2606.00371). */
static const ms_quintic cubic[] = {
    { 3.3656576, -3.3420992, 0.0 }, { 2.5744352, -1.4957376, 0.0 }, { 2.5368962, -1.4312570, 0.0 },
    { 2.4418906, -1.2764040, 0.0 }, { 2.2230472, -0.9630650, 0.0 },
};

static const ms_quintic_list lists[] = {
    { "keller", keller, COUNT(keller), 1.0, 1e-7, 3, false },
    { "polar-express", polar_express, COUNT(polar_express), 1.02, 1e-7, 2, false },
    { "cans", cans, COUNT(cans), 1.01, 1e-7, 1, false },
    { "you", you, COUNT(you), 1.0, 1e-7, 1, false },
    { "turbo", turbo, COUNT(turbo), 1.0, 1e-7, 1, false },
    { "cubic", cubic, COUNT(cubic), 1.0, 1e-7, 1, false },
};

const ms_quintic_list *ms_quintic_list_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(lists); i++)
        if (strcmp(lists[i].name, name) == 0) return &lists[i];
    return NULL;
}

int ms_newton_schulz_fused(const ms_quintic_list *list, musec_dtype compute_dtype, int64_t r,
                           int64_t n)
{
    enum { LARGE = 256 };
    if (!ms_is_16bit(compute_dtype) || n < 2 * r) return 1;
    if (compute_dtype == MUSEC_F16 && r >= LARGE) return list->fused;
    return list->fused < 2 ? list->fused : 2;
}

/* Gives the length of the next fused group: all groups have the same length, but for one step, and
 * none exceeds max_fused. */
static int group_length(int steps_left, int max_fused)
{
    const int groups = (steps_left + max_fused - 1) / max_fused;
    return (steps_left + groups - 1) / groups;
}

typedef struct coefficients { /* a I + b A + c A A */
    ms_num a, b, c;
} coefficients;

/* The epilogues of a fused group.  Those of the first group normalise X if the input is not. */
typedef struct epilogues {
    coefficients first, last; /* of its polynomials; a single step has the last */
    ms_num       ap, pap;     /* on the first A P, and on the first P (A P) */
    double       out_scale;   /* on Q X */
    ms_vec       residual;    /* on X after that; data NULL: nothing */
} epilogues;

typedef struct iterate {
    ms_mat x,
        buffer[2]; /* transposed so that rows <= cols; x begins in buffer[0], or is the input */
    ms_mat    a, p, q, spare; /* r x r; q is there for two fused steps, spare for three */
    int       max_fused;
    epilogues epilogue;
} iterate;

/* Takes the buffers, and writes M / (f |M|_F + eps) to x unless the epilogues will normalise. */
static musec_status begin(ms_device *d, ms_scaled_mat scaled, const ms_quintic_list *list,
                          musec_dtype compute_dtype, iterate *i)
{
    const ms_device_ops *op         = d->ops;
    const ms_mat         in         = scaled.mat;
    const bool           transposed = in.rows > in.cols, keeps_layout = ms_is_16bit(compute_dtype);
    const ms_mat         wide    = transposed ? ms_t(in) : in; /* rows <= cols */
    const ms_mat         shape   = keeps_layout ? in : wide;   /* as stored */
    ms_mat *const        all[]   = { &i->x, &i->buffer[0], &i->buffer[1] };
    ms_mat *const        small[] = { &i->a, &i->p, &i->q, &i->spare };
    ms_vec               scale;
    musec_status         st = MUSEC_OK;
    i->max_fused            = ms_newton_schulz_fused(list, compute_dtype, wide.rows, wide.cols);
    for (int k = 0; k < 2; k++)
        TRY(ms_scratch_mat(d, compute_dtype, in.count, shape.rows, shape.cols, &i->buffer[k]));
    for (size_t k = 0; k < (size_t)i->max_fused + 1; k++)
        TRY(ms_scratch_mat(d, compute_dtype, in.count, wide.rows, wide.rows, small[k]));
    i->x = i->buffer[0];
    if (scaled.scale.data != NULL) {
        i->x = in;
    } else {
        TRY(ms_scratch_vec(d, in.count, &scale));
        TRY(op->sumsq(d, in, scale));
        TRY(ms_scalar_inv_norm(d,
                               (ms_inv_norm_nums){ .sumsq    = ms_each(scale),
                                                   .factor   = ms_const(list->norm_factor),
                                                   .eps      = ms_const(list->eps),
                                                   .is_floor = ms_const(list->eps_is_floor) },
                               (ms_inv_norm_vecs){ scale }));
        if (keeps_layout) {
            TRY(op->prescale(d, in, scale, i->buffer[0], &i->x));
        } else {
            TRY(op->copy(d, wide, i->x));
            TRY(op->scale(d, ms_each(scale), i->x));
        }
    }
    for (size_t k = 0; keeps_layout && transposed && k < COUNT(all); k++)
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

/* Gives the power of two that typically normalises X: entries are at most 1 by their bound, and
 * averages have 1/8 to 1/64 of it (optim/propose.c). */
static double typical_factor(int64_t r, int64_t n)
{
    return ldexp(1.0, 4 - (int)lround(0.5 * log2((double)r * (double)n)));
}

/* Forms A of the first step from scaled input, and the epilogues that normalise, for n steps.
 *
 * X is y x.  Of y, a power of two, out_scale, is on Q X.  The rest rho = y / out_scale is on the
 * last polynomial of the group, and so on Q, if it is from 2^-7 to 2^6: Q is at most 41 rho.  What
 * is left, a power of two and nearly always 1, takes a pass over X.  Entries off the diagonal that
 * f16 has few digits for, below 2^-14, are rounded to 3e-8, which is 4e-6 of P with the least rho:
 * at most a matrix of norm 2 sqrt(r) times that, 4e-4 for r = 2048, and what is rounded of the
 * diagonal alone is 2^-11.
 *
 * Some matrices are far below their bound, as one of several blocks of a weight may be: then f16
 * would have few digits for A, and steps that do not come back to X would go astray.  Where the
 * mean of A's diagonal is below 1/8, x is multiplied by a power of two in place, and A is formed
 * again. */
static musec_status first_gram(ms_device *d, const ms_quintic_list *list, int n, ms_vec scale,
                               iterate *i)
{
    enum { MAX_EXPONENT = 6 };
    const ms_quintic s = step_at(list, 0), t = step_at(list, n - 1);
    /* A P has entries of at most max |p| max A: 8.2 times those of A, which fill f16's range */
    const double ap_scale = 0.125, out_scale = typical_factor(i->x.rows, i->x.cols);
    double       gram_scale = 1.0;
    const double min_trace  = fmin((double)i->x.rows / 8.0, 0x1p10);
    const ms_vec none       = { 0 };
    ms_vec       trace;

    ms_quintic_coefs_vecs k;
    musec_status          st = MUSEC_OK;
    /* entries of the input are at most 1, or a little above, and f16 ends at 2^16; from below, they
     * may be far from their bound, and f16 has few digits under 2^-14 */
    while (gram_scale * (double)i->x.cols > 0x1p14)
        gram_scale *= 0.5;
    while (gram_scale * (double)i->x.cols <= 0x1p13)
        gram_scale *= 2.0;
    TRY(ms_scratch_vec(d, i->x.count, &trace));
    TRY(MS_SCRATCH_VECS(d, i->x.count, &k));
    k.scale = scale;
    TRY(gram(d, i, gram_scale, trace, none));
    TRY(ms_scalar_quintic_coefs(d,
                                (ms_quintic_coefs_nums){ .eps        = ms_const(list->eps),
                                                         .is_floor   = ms_const(list->eps_is_floor),
                                                         .gram_scale = ms_const(gram_scale),
                                                         .out_scale  = ms_const(out_scale),
                                                         .ap_scale   = ms_const(ap_scale),
                                                         .max_exponent = ms_const(MAX_EXPONENT),
                                                         .n_steps      = ms_const(n),
                                                         .first_b      = ms_const(s.b),
                                                         .first_c      = ms_const(s.c),
                                                         .last_a       = ms_const(t.a),
                                                         .last_b       = ms_const(t.b),
                                                         .last_c       = ms_const(t.c),
                                                         .min_trace    = ms_const(min_trace),
                                                         .trace        = ms_each(trace),
                                                         .norm_factor = ms_const(list->norm_factor),
                                                         .scale       = ms_each(scale) },
                                k));
    TRY(d->ops->scale(d, ms_each(k.boost), i->x));
    TRY(gram(d, i, gram_scale, none, k.is_boosted));
    i->epilogue = (epilogues){ .first = { ms_const(s.a), ms_each(k.first_b), ms_each(k.first_c) },
                               .last  = { ms_each(k.last_a), ms_each(k.last_b), ms_each(k.last_c) },
                               .ap    = ms_const(ap_scale),
                               .pap   = ms_each(k.pap_coef),
                               .out_scale = out_scale,
                               .residual  = k.residual };
done:
    return st;
}

/* Forms A of a later step k, or of X that is normalised, and the epilogues for n steps. */
static musec_status next_gram(ms_device *d, const ms_quintic_list *list, int k, int n, iterate *i)
{
    i->epilogue = (epilogues){ .first     = constants(step_at(list, k)),
                               .last      = constants(step_at(list, k + n - 1)),
                               .ap        = ms_const(1.0),
                               .pap       = ms_const(1.0),
                               .out_scale = 1.0 };
    return gram(d, i, 1.0, (ms_vec){ 0 }, (ms_vec){ 0 });
}

/* From A of step k, forms Q, by which n steps from there on multiply X. */
static musec_status fused_steps(ms_device *d, const ms_quintic_list *list, int k, int n, iterate *i,
                                ms_mat *q)
{
    const ms_device_ops *op = d->ops;
    const epilogues     *e  = &i->epilogue;
    ms_mat               p = i->p, t = i->q;
    musec_status         st = MUSEC_OK;
    assert(n <= 3); /* there is one spare matrix */
    TRY(polynomial(d, n == 1 ? e->last : e->first, i->a, p));
    *q = p;
    for (int j = 1; j < n; j++) {
        const bool         last = j + 1 == n;
        const coefficients c    = last ? e->last : constants(step_at(list, k + j));
        const ms_num       ap   = j == 1 ? e->ap : ms_const(1.0);
        const ms_num       pap  = j == 1 ? e->pap : ms_const(1.0);
        const ms_mat       to = last ? i->a : i->spare, old = p;
        TRY(op->product(d, &(ms_product){ .a = i->a, .b = p, .alpha = ap, .c = t }));
        TRY(op->product(
            d, &(ms_product){ .a = p, .b = t, .alpha = pap, .c = i->a, .symmetric = true }));
        TRY(polynomial(d, c, i->a, t));
        TRY(op->product(d, &(ms_product){ .a = t, .b = *q, .alpha = ms_const(1.0), .c = to }));
        *q = to;
        p  = t;
        t  = old;
    }
done:
    return st;
}

musec_status ms_newton_schulz(ms_device *d, ms_scaled_mat in, const ms_quintic_list *list,
                              int iters, musec_dtype compute_dtype, ms_mat out)
{
    const ms_device_ops *op     = d->ops;
    const ms_mark        mark   = ms_arena_mark(&d->scratch);
    const ms_mat         result = in.mat.rows > in.mat.cols ? ms_t(out) : out;
    iterate              i;
    musec_status         st = MUSEC_OK;

    TRY(begin(d, in, list, ms_compute_dtype(in.mat, compute_dtype), &i));
    for (int k = 0, buffer = 1; k < iters; buffer = 1 - buffer) {
        const int n = group_length(iters - k, i.max_fused);
        ms_mat    q;
        if (k == 0 && in.scale.data != NULL)
            TRY(first_gram(d, list, n, in.scale, &i));
        else
            TRY(next_gram(d, list, k, n, &i));
        TRY(fused_steps(d, list, k, n, &i, &q));
        k += n;
        const ms_mat to = k == iters ? result : i.buffer[buffer];
        TRY(op->product(
            d,
            &(ms_product){ .a = q, .b = i.x, .alpha = ms_const(i.epilogue.out_scale), .c = to }));
        if (i.epilogue.residual.data != NULL) TRY(op->scale(d, ms_each(i.epilogue.residual), to));
        i.x = to;
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
