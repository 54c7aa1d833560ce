/* soft_engine.c - soft spectral clipping by products: the parts that all modes are made of.
 *
 * For X = U diag(s) V^T (r x n, r <= n) we want U diag(h(s)) V^T, h(s) = D s / sqrt(s^2 + D^2):
 * small singular values pass, large ones saturate at D.  That is D A^(-1/2) X, A = X X^T + D^2 I.
 * Any bound alpha >= lambda_max(A) makes W = A / alpha have eigenvalues w = u^2 in (0, 1], and
 * a product Z of polynomials in W with u Z(u^2) ~ 1 gives D / sqrt(alpha) Z X.  Everything is a
 * polynomial in A, so the result is exactly h(s) times the scalar gain of the plan at u (the tests
 * use that).
 *
 * The paper iterates Y0 = A / |A|_F, Z0 = I;  T = (3 I - Z Y) / 2,  Y <- Y T,  Z <- T Z, K times:
 * 3K full products besides the Gram matrix and the last one with X.  The same Z, and better ones,
 * come from stages in congruence form,
 *     T = p(W),   W <- T (W T),   Z <- T Z,
 * where everything inside p and T (W T) is symmetric and computed as one triangle.  (Not so W T and
 * T Z: they are symmetric in exact arithmetic only, and mirroring them feeds the rounding error
 * back, growing with s_1 / D.)  A stage of degree 9 costs two squares: see ms_stage_squares.
 *
 * alpha is |A|_F for `paper`, as in the paper.  `fast` and `accurate` take the bound C4 from fourth
 * moments (scalar_fn.h), 1 to 2 times lambda_max where |A|_F is up to sqrt(r) times: the square of
 * A that it needs is the first product of the first stage.  The factor D / sqrt(alpha) rides on the
 * coefficients of the last stage.  Nothing here waits for the device.
 *
 * With operands of 16 bits, X, W, T and all that is multiplied are stored so, while the Gram matrix
 * G, the square that C4 needs and the result stay in float32.  A = c G + d I is never formed: its
 * norm follows from that of G and the trace, and one pass over G writes W and W - m I, rounded when
 * all is added up. */
#include "linalg/soft_engine.h"

ms_operand_limits ms_operand_limits_of(musec_dtype operands)
{
    static const ms_operand_limits f16 = { .margin = 2e-3, .least = 2e-4, .u_d = 0.03, .reach = 8 };
    static const ms_operand_limits bf16 = {
        .margin = 1e-2, .least = 1.6e-3, .u_d = 0.05, .reach = 60
    };
    static const ms_operand_limits wide = { .margin = 1e-5 };
    return operands == MUSEC_F16 ? f16 : operands == MUSEC_BF16 ? bf16 : wide;
}

/* ---- the stages ------------------------------------------------------------------------------ */

enum { V1, V0, Q0, T1, T0 };

musec_status ms_take_nums(ms_device *d, int64_t count, ms_vec *all, ms_stage_nums *n)
{
    const musec_status st = ms_scratch_vec(d, MS_STAGE_NUMBERS * count, all);
    for (int i = 0; i < MS_STAGE_NUMBERS; i++)
        n->v[i] = ms_vec_slice(*all, i * count, count);
    return st;
}

/* gain * p(win (B + shift I)) as a polynomial of B, instead of p(W), in place. */
static musec_status adapt_nums(ms_device *d, ms_num win, ms_num gain, ms_num shift,
                               const ms_stage_nums *n)
{
    ms_num in[MS_STAGE_NUMBERS + 3];
    for (int i = 0; i < MS_STAGE_NUMBERS; i++)
        in[i] = ms_each(n->v[i]);
    in[MS_STAGE_NUMBERS]     = win;
    in[MS_STAGE_NUMBERS + 1] = gain;
    in[MS_STAGE_NUMBERS + 2] = shift;
    return d->ops->scalars(d, MS_SCALAR_STAGE, NULL, 0, in, n->v);
}

/* T = p(W) of degree q into e->t.  centred: e->v holds B = w - m I and e->square holds B B, and the
 * numbers are for B. */
static musec_status stage_poly(ms_device *d, int q, const ms_stage_nums *n, bool centred,
                               ms_soft *e)
{
    const ms_device_ops *op = d->ops;
    const ms_term into_t = { .x_coef = ms_each(n->v[T1]), .diag = ms_each(n->v[T0]), .out = e->t };
    const ms_mat  none = { 0 }, x = centred ? e->v : e->w;
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_vec        sq[3];
    musec_status  st = MUSEC_OK;

    if (q == 1) {
        TRY(op->combine(d, x, none, &into_t, 1));
    } else if (q == 2 && centred) { /* all of it from B B, B and I: no product */
        for (int i = 0; i < 3; i++)
            TRY(ms_scratch_vec(d, e->w.count, &sq[i]));
        TRY(op->scalars(d, MS_SCALAR_SQUARE, NULL, 0,
                        (ms_num[]){ ms_each(n->v[V1]), ms_each(n->v[V0]), ms_each(n->v[T0]) }, sq));
        const ms_term all = {
            .x_coef = ms_each(sq[1]), .y_coef = ms_each(sq[0]), .diag = ms_each(sq[2]), .out = e->t
        };
        TRY(op->combine(d, x, e->square, &all, 1));
    } else if (q == 2) {
        const ms_term into_q = { .x_coef = ms_each(n->v[V1]),
                                 .diag   = ms_each(n->v[V0]),
                                 .out    = e->q };
        TRY(op->combine(d, x, none, (ms_term[]){ into_q, into_t }, 2));
        TRY(op->gemm_sym(d, 1.0, e->q, e->q, 1.0, e->t));
    } else if (centred) { /* V V + q0 I without V: from B B, B and I */
        for (int i = 0; i < 3; i++)
            TRY(ms_scratch_vec(d, e->w.count, &sq[i]));
        TRY(op->scalars(d, MS_SCALAR_SQUARE, NULL, 0,
                        (ms_num[]){ ms_each(n->v[V1]), ms_each(n->v[V0]), ms_each(n->v[Q0]) }, sq));
        const ms_term into_q = {
            .x_coef = ms_each(sq[1]), .y_coef = ms_each(sq[0]), .diag = ms_each(sq[2]), .out = e->q
        };
        TRY(op->combine(d, x, e->square, (ms_term[]){ into_q, into_t }, 2));
        TRY(op->gemm_sym(d, 1.0, e->q, e->q, 1.0, e->t));
    } else {
        const ms_term into_v = { .x_coef = ms_each(n->v[V1]),
                                 .diag   = ms_each(n->v[V0]),
                                 .out    = e->v };
        TRY(op->combine(d, x, none, (ms_term[]){ into_v, into_t }, 2));
        TRY(op->gemm_sym(d, 1.0, e->v, e->v, 0.0, e->q));
        TRY(op->add_diag(d, ms_each(n->v[Q0]), e->q));
        TRY(op->gemm_sym(d, 1.0, e->q, e->q, 1.0, e->t));
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_run_stages(ms_device *d, const int *q, int n_stages, const ms_stage_nums *nums,
                           ms_num win, bool centred, ms_soft *e)
{
    const ms_device_ops *op = d->ops;
    musec_status         st = MUSEC_OK;
    for (int i = 0; i < n_stages; i++) {
        const bool last = i == n_stages - 1, shifted = centred && i == 0;
        TRY(adapt_nums(d, win, last ? ms_each(e->gain) : ms_const(1.0),
                       shifted ? ms_each(e->mean) : ms_const(0.0), &nums[i]));
        TRY(stage_poly(d, q[i], &nums[i], shifted, e));
        if (!last) {
            TRY(op->gemm(d, 1.0, e->w, e->t, 0.0, e->v));
            TRY(op->gemm_sym(d, 1.0, e->t, e->v, 0.0, e->w));
        }
        if (i == 0) {
            ms_mat_swap(&e->z, &e->t);
        } else {
            TRY(op->gemm(d, 1.0, e->t, e->z, 0.0, e->q));
            ms_mat_swap(&e->z, &e->q);
        }
    }
done:
    return st;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* From the Gram matrix in e->w: A, and in its place A / |A|_F. */
static musec_status normalise(ms_device *d, ms_soft_start how, ms_soft *e)
{
    const ms_device_ops *op   = d->ops;
    const double         r    = (double)e->p.r;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    ms_vec               minus_mean;
    musec_status         st = MUSEC_OK;
    TRY(op->add_diag(d, ms_each(e->p.sd2), e->w));
    TRY(op->sumsq(d, e->w, e->fro2));
    TRY(op->scalars(d, MS_SCALAR_INV_SQRT, NULL, 0, (ms_num[]){ ms_each(e->fro2) }, &e->inv_f));
    const ms_term normed = { .x_coef = ms_each(e->inv_f), .out = e->w };
    TRY(op->combine(d, e->w, (ms_mat){ 0 }, &normed, 1));
    if (!how.moments) goto done;
    TRY(ms_scratch_vec(d, e->w.count, &minus_mean));
    TRY(op->trace(d, e->w, e->trace));
    TRY(op->scalars(d, MS_SCALAR_MEAN_SHIFT, &r, 1, (ms_num[]){ ms_each(e->trace) },
                    (ms_vec[]){ e->mean, minus_mean }));
    const ms_term centred = { .x_coef = ms_const(1.0), .diag = ms_each(minus_mean), .out = e->v };
    TRY(op->combine(d, e->w, (ms_mat){ 0 }, &centred, 1));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* The same from G = X X^T in e->square, in one pass and rounded once. */
static musec_status normalise_narrow(ms_device *d, ms_soft_start how, ms_soft *e)
{
    const ms_device_ops *op       = d->ops;
    const double         least    = how.many ? ms_operand_limits_of(e->operands).least : 0.0;
    const double         params[] = { (double)e->p.r, least };
    const ms_mark        mark     = ms_arena_mark(&d->scratch);
    ms_vec               coef, diag, shifted;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_vec(d, e->w.count, &coef));
    TRY(ms_scratch_vec(d, e->w.count, &diag));
    TRY(ms_scratch_vec(d, e->w.count, &shifted));
    TRY(op->sumsq(d, e->square, e->fro2));
    TRY(op->trace(d, e->square, e->trace));
    TRY(op->scalars(d, MS_SCALAR_GRAM, params, 2,
                    (ms_num[]){ ms_each(e->fro2), ms_each(e->trace), ms_each(e->p.own),
                                ms_each(e->p.s), ms_each(e->p.sd2) },
                    (ms_vec[]){ e->fro2, e->trace, e->mean, coef, diag, shifted }));
    const ms_term normed  = { .x_coef = ms_each(coef), .diag = ms_each(diag), .out = e->w };
    const ms_term centred = { .x_coef = ms_each(coef), .diag = ms_each(shifted), .out = e->v };
    TRY(op->combine(d, e->square, (ms_mat){ 0 }, (ms_term[]){ normed, centred },
                    how.moments ? 2 : 1));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* B is formed before it is squared: the fourth moments of a flat spectrum would drown in the
 * rounding of w w, and the fourth root makes much of it. */
static musec_status alpha_c4(ms_device *d, ms_num threshold, ms_soft *e)
{
    const ms_operand_limits p  = ms_operand_limits_of(e->operands);
    const ms_device_ops    *op = d->ops;
    musec_status            st = MUSEC_OK;
    TRY(op->gemm_sym(d, 1.0, e->v, e->v, 0.0, e->square));
    TRY(op->sumsq(d, e->square, e->quart));
    TRY(op->scalars(d, MS_SCALAR_ALPHA_C4, (double[]){ (double)e->p.r, p.margin }, 2,
                    (ms_num[]){ ms_each(e->fro2), ms_each(e->trace), ms_each(e->quart),
                                ms_each(e->p.sd), ms_each(e->p.s), threshold, ms_each(e->p.own),
                                ms_const(p.reach) },
                    (ms_vec[]){ e->inv_a, e->alpha, e->u_low, e->gain, e->rest }));
done:
    return st;
}

static musec_status alpha_fro(ms_device *d, ms_num threshold, ms_soft *e)
{
    return d->ops->scalars(d, MS_SCALAR_ALPHA_FRO, NULL, 0,
                           (ms_num[]){ ms_each(e->fro2), ms_each(e->p.sd), ms_each(e->p.s),
                                       threshold, ms_each(e->p.own),
                                       ms_const(ms_operand_limits_of(e->operands).reach) },
                           (ms_vec[]){ e->alpha, e->u_low, e->gain, e->rest });
}

musec_status ms_soft_begin(ms_device *d, ms_mat in, ms_num threshold, musec_dtype operands,
                           ms_soft_start how, ms_soft *e)
{
    const ms_device_ops *op     = d->ops;
    const bool           narrow = ms_narrow(operands);
    ms_mat *const        mats[] = { &e->w, &e->q, &e->t, &e->v, &e->z };
    ms_vec *const        vecs[] = { &e->fro2, &e->trace, &e->quart, &e->inv_f, &e->inv_a,
                                    &e->mean, &e->alpha, &e->u_low, &e->gain,  &e->rest };
    musec_status         st     = MUSEC_OK;
    e->operands                 = operands;
    TRY(ms_prepare(d, in, threshold, operands, &e->p));
    for (size_t i = 0; i < COUNT(mats); i++)
        TRY(ms_scratch_mat(d, operands, in.count, e->p.r, e->p.r, mats[i]));
    for (size_t i = 0; i < COUNT(vecs); i++)
        TRY(ms_scratch_vec(d, in.count, vecs[i]));
    e->square = e->q;
    if (narrow)
        TRY(ms_scratch_mat(d, ms_dtype_wide(operands), in.count, e->p.r, e->p.r, &e->square));
    const ms_mat gram = narrow ? e->square : e->w;
    TRY(how.literal ? op->gemm(d, 1.0, e->p.x, ms_t(e->p.x), 0.0, gram)
                    : op->gram(d, e->p.x, gram));
    TRY(narrow ? normalise_narrow(d, how, e) : normalise(d, how, e));
    TRY(how.moments ? alpha_c4(d, threshold, e) : alpha_fro(d, threshold, e));
done:
    return st;
}

musec_status ms_soft_finish(ms_device *d, const ms_soft *e, ms_mat out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_apply(d, &e->p, e->z, out));
    TRY(d->ops->scale(d, ms_each(e->rest), out));
done:
    return st;
}
