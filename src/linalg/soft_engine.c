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
 * All that is linear rides on products.  A = c G + d I, G being the Gram matrix, is never formed:
 * its norm follows from that of G and the trace, and one pass over G writes B = w - m I,
 * w = A / |A|_F, m = tr w / r, rounded when all is added up.  The first stage works on B and B B.
 * What a stage hands on is E = e1 W + e0 I, written by the product T (W T) itself: V to the last
 * stage, which takes its linear terms from V too, and W to a middle one, which multiplies by it
 * once more and would lose digits if it were taken from V.
 *
 * Who maps the same matrices again and again, each time changed a little, may keep the norm and
 * the trace of G from one time to the next (memos).  Then N is known beforehand, and so is m,
 * nearly: the Gram product itself writes B, in the operands' dtype, and neither G nor a pass over
 * it is needed.  Its sums tell what G is.  N is a power of two, so that it does not matter which
 * one it was; m is put right on the diagonal; and where they were too far off, the product is made
 * again, by a call that is empty for the others.
 *
 * With operands of 16 bits, X, B, B B, T and all that is multiplied are stored so, while the Gram
 * matrix, where there is one, and the result stay in float32.  Of a flat spectrum |B B| is down to
 * 1 / r and its entries to r^(-3/2), where f16 has few digits left; so B B is stored times a power
 * of two near r.
 *
 * In the first W T, W is B + m I with numbers of each matrix.  Where all matrices have one plan, 16
 * bits hold W itself instead: m is added to B's diagonal in place, and win rides on the symmetric
 * product that follows.  Then nothing rides on the full one, which is faster so on GPUs.  Of an
 * entry on the diagonal that rounds off no more than is rounded off T's.
 *
 * Of `accurate` each matrix has a plan of its own.  Then every call says which matrices take part,
 * and where Z lies depends on the number of stages alone: no matrix is ever copied. */
#include <assert.h>

#include "linalg/soft_engine.h"

ms_compute_limits ms_compute_limits_of(musec_dtype operands)
{
    static const ms_compute_limits f16 = {
        .margin = 2e-3, .least = 2e-4, .u_d = 0.03, .short_u_d = 0.03, .reach = 8
    };
    static const ms_compute_limits bf16 = {
        .margin = 1e-2, .least = 1.6e-3, .u_d = 0.05, .short_u_d = 0.07, .reach = 60
    };
    static const ms_compute_limits wide = { .margin = 1e-5 };
    return operands == MUSEC_F16 ? f16 : operands == MUSEC_BF16 ? bf16 : wide;
}

/* ---- the stages ------------------------------------------------------------------------------ */

enum { V1, V0, Q0, T1, T0 };

static musec_status take_vecs(ms_device *d, int64_t count, int n, ms_vec *v)
{
    musec_status st = MUSEC_OK;
    for (int i = 0; i < n; i++)
        TRY(ms_scratch_vec(d, count, &v[i]));
done:
    return st;
}

musec_status ms_take_nums(ms_device *d, int64_t count, ms_stage_nums *n)
{
    return take_vecs(d, count, MS_STAGE_NUMBERS, n->v);
}

static int stage_inputs(const ms_stage_nums *n, ms_num *in)
{
    for (int i = 0; i < MS_STAGE_NUMBERS; i++)
        in[i] = ms_each(n->v[i]);
    return MS_STAGE_NUMBERS;
}

/* c <- x x + beta z + diag I, symmetric; z without data: none. */
static musec_status square(ms_device *d, ms_active_set who, ms_mat x, ms_num beta, ms_mat z,
                           ms_num diag, ms_mat c)
{
    if (!who.any) return MUSEC_OK;
    return d->ops->product(d, &(ms_product){ .a         = x,
                                             .b         = x,
                                             .alpha     = ms_const(1.0),
                                             .beta      = beta,
                                             .source    = z,
                                             .diag      = diag,
                                             .c         = c,
                                             .symmetric = true,
                                             .mask      = who.mask });
}

/* c <- a b */
static musec_status times(ms_device *d, ms_active_set who, ms_mat a, ms_mat b, ms_mat c)
{
    if (!who.any) return MUSEC_OK;
    return d->ops->product(
        d, &(ms_product){ .a = a, .b = b, .alpha = ms_const(1.0), .c = c, .mask = who.mask });
}

/* What a stage that is not the last hands on: E = e1 W + e0 I into e->b, W being the T (W T) of the
 * stage.  The middle stages need W, the last one V.  e1: NULL, or a factor in place of it, for what
 * p is not. */
static musec_status hand_on(ms_device *d, const ms_stage_schedule *c, int stage, ms_active_set who,
                            ms_mat t, ms_mat p, const ms_vec *last, const ms_vec *e1, ms_soft *e)
{
    const double at     = stage;
    ms_num       one[2] = { ms_const(1.0), ms_const(0.0) };
    ms_vec       some[2];
    musec_status st = MUSEC_OK;
    if (stage == c->n - 1) { /* the next is the last of all plans that have come so far */
        one[0] = ms_each(last[0]);
        one[1] = ms_each(last[1]);
    } else if (c->count.each.data != NULL) {
        TRY(take_vecs(d, e->b.count, 2, some));
        TRY(d->ops->scalars(d, MS_SCALAR_ENTRY, &at, 1,
                            (ms_num[]){ c->count, ms_each(last[0]), ms_each(last[1]) }, some));
        one[0] = ms_each(some[0]);
        one[1] = ms_each(some[1]);
    }
    if (e1 != NULL) one[0] = ms_each(*e1);
    TRY(d->ops->product(d, &(ms_product){ .a         = t,
                                          .b         = p,
                                          .alpha     = one[0],
                                          .diag      = one[1],
                                          .c         = e->b,
                                          .symmetric = true,
                                          .mask      = who.mask }));
done:
    return st;
}

/* From B and B B: T into e->t, and what follows; of a single stage Z, into e->b, or e->t where it
 * is no square. */
static musec_status first_stage(ms_device *d, const ms_stage_schedule *c, ms_num win,
                                const ms_vec *last, ms_soft *e)
{
    const double params[] = { e->lift, 8.0 }; /* w T is down to 1 / sqrt(r) of W T */
    const bool   w_itself =
        ms_is_16bit(e->operands) && c->several.any && c->several.mask.data == NULL;
    const ms_mat none = { 0 };
    ms_num       in[MS_STAGE_NUMBERS + 6];
    ms_vec       k[7]; /* c2 c1 c0 t1 t0, win m, e1 win / 8 */
    ms_term      terms[2];
    int          n = stage_inputs(&c->first, in), n_terms = 0;
    musec_status st = MUSEC_OK;

    in[n++] = c->q;
    in[n++] = c->count;
    in[n++] = win;
    in[n++] = ms_each(e->gain);
    in[n++] = ms_each(e->mean);
    in[n++] = c->n == 2 ? ms_each(last[0]) : ms_const(1.0);
    TRY(take_vecs(d, e->b.count, 7, k));
    TRY(d->ops->scalars(d, MS_SCALAR_START, params, 2, in, k));
    const ms_term poly = { .x_coef = ms_each(k[1]),
                           .y_coef = ms_each(k[0]),
                           .diag   = ms_each(k[2]) };
    if (c->square.any) {
        terms[n_terms]        = poly;
        terms[n_terms].out    = e->q;
        terms[n_terms++].mask = c->square.mask;
    }
    if (c->no_square.any) {
        terms[n_terms]        = poly;
        terms[n_terms].out    = e->t;
        terms[n_terms++].mask = c->no_square.mask;
    }
    const bool linear = c->q.each.data == NULL && c->q.value == 1.0; /* B B is not there */
    TRY(d->ops->combine(d, e->b, linear ? none : e->y, terms, n_terms));
    TRY(square(d, c->several_square, e->q, ms_each(k[3]), e->b, ms_each(k[4]), e->t));
    if (c->square.any) TRY(square(d, c->single, e->q, ms_each(k[3]), e->b, ms_each(k[4]), e->b));
    e->z = c->square.any ? e->b : e->t;
    if (!c->several.any) goto done;
    if (w_itself) {
        TRY(d->ops->add_diag(d, ms_each(e->mean), e->b));
        TRY(d->ops->product(
            d, &(ms_product){ .a = e->b, .b = e->t, .alpha = ms_const(params[1]), .c = e->y }));
    } else {
        TRY(d->ops->product(d, &(ms_product){ .a      = e->b,
                                              .b      = e->t,
                                              .alpha  = win,
                                              .beta   = ms_each(k[5]),
                                              .source = e->t,
                                              .c      = e->y,
                                              .mask   = c->several.mask }));
    }
    TRY(hand_on(d, c, 1, c->several, e->t, e->y, last, w_itself ? &k[6] : NULL, e));
done:
    return st;
}

/* W is in e->b, and the Z so far in `from`: the next goes to `to`. */
static musec_status middle_stage(ms_device *d, const ms_stage_schedule *c, int stage,
                                 const ms_vec *last, ms_mat from, ms_mat to, ms_soft *e)
{
    const ms_mat        none = { 0 };
    const ms_active_set who  = c->in_middle[stage - 1];
    const ms_vec       *n    = c->middle[stage - 1].v;
    const ms_num        nil  = ms_const(0.0);
    const ms_term       term = {
              .x_coef = ms_each(n[V1]), .diag = ms_each(n[V0]), .out = e->y, .mask = who.mask
    };
    musec_status st = MUSEC_OK;
    TRY(d->ops->combine(d, e->b, none, &term, 1));
    TRY(square(d, who, e->y, nil, none, ms_each(n[Q0]), e->q));
    TRY(square(d, who, e->q, ms_each(n[T1]), e->b, ms_each(n[T0]), e->y));
    TRY(times(d, who, e->b, e->y, e->q));
    TRY(times(d, who, e->y, from, to));
    TRY(hand_on(d, c, stage, who, e->y, e->q, last, NULL, e));
done:
    return st;
}

/* From E in e->b, and Z in e->t after an odd number of stages, in e->v after an even one. */
static musec_status last_stage(ms_device *d, const ms_stage_schedule *c, const ms_vec *k,
                               ms_soft *e)
{
    const ms_mat none = { 0 };
    musec_status st   = MUSEC_OK;
    ms_mat       t = e->b, out = e->q;
    if (c->last_q == 4) {
        TRY(square(d, c->several, e->b, ms_const(0.0), none, ms_each(k[2]), e->q));
        TRY(square(d, c->several, e->q, ms_each(k[3]), e->b, ms_each(k[4]), e->y));
        t   = e->y;
        out = e->b;
    }
    TRY(times(d, c->even, t, e->t, out));
    TRY(times(d, c->odd, t, e->v, out));
    e->z = out;
done:
    return st;
}

musec_status ms_run_stages(ms_device *d, const ms_stage_schedule *c, ms_num win, ms_soft *e)
{
    ms_num       in[MS_STAGE_NUMBERS + 2];
    ms_vec       last[5] = { { 0 } }; /* e1 e0, q0, z1 z0 */
    musec_status st      = MUSEC_OK;
    if (c->several.any) {
        int n   = stage_inputs(&c->last, in);
        in[n++] = ms_const(c->last_q);
        in[n++] = ms_each(e->gain);
        TRY(take_vecs(d, e->b.count, 5, last));
        TRY(d->ops->scalars(d, MS_SCALAR_LAST, NULL, 0, in, last));
    }
    TRY(first_stage(d, c, win, last, e));
    for (int stage = 2; stage < c->n; stage++) {
        const bool even = stage % 2 == 0;
        TRY(middle_stage(d, c, stage, last, even ? e->t : e->v, even ? e->v : e->t, e));
    }
    if (c->several.any) TRY(last_stage(d, c, last, e));
done:
    return st;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* From G in e->gram: w = A / |A|_F, or B = w - m I, in e->b, in one pass and rounded once. */
static musec_status normalise(ms_device *d, ms_soft_start how, ms_soft *e)
{
    const ms_device_ops *op       = d->ops;
    const double         least    = how.many ? ms_compute_limits_of(e->operands).least : 0.0;
    const double         params[] = { (double)e->r, least, how.moments };
    const ms_mark        mark     = ms_arena_mark(&d->scratch);
    ms_vec               k[3]; /* coef, diag, shifted */
    musec_status         st = MUSEC_OK;
    TRY(take_vecs(d, e->b.count, 3, k));
    TRY(op->scalars(d, MS_SCALAR_GRAM, params, 3,
                    (ms_num[]){ ms_each(e->fro2), ms_each(e->trace), ms_each(e->own), ms_each(e->s),
                                ms_each(e->sd2) },
                    (ms_vec[]){ e->fro2, e->trace, e->mean, k[0], k[1], k[2], e->most }));
    const ms_term term = { .x_coef = ms_each(k[0]),
                           .diag   = ms_each(how.literal ? k[1] : k[2]),
                           .out    = e->b };
    TRY(op->combine(d, e->gram, (ms_mat){ 0 }, &term, 1));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status alpha_c4(ms_device *d, ms_num threshold, ms_soft *e)
{
    const ms_compute_limits p = ms_compute_limits_of(e->operands);
    return d->ops->scalars(d, MS_SCALAR_ALPHA_C4, (double[]){ (double)e->r, p.margin, e->lift }, 3,
                           (ms_num[]){ ms_each(e->fro2), ms_each(e->trace), ms_each(e->most),
                                       ms_each(e->quart), ms_each(e->sd), ms_each(e->s), threshold,
                                       ms_each(e->own), ms_const(p.reach), ms_const(e->unit) },
                           (ms_vec[]){ e->inv_a, e->alpha, e->u_low, e->gain, e->rest });
}

static musec_status alpha_fro(ms_device *d, ms_num threshold, ms_soft *e)
{
    return d->ops->scalars(
        d, MS_SCALAR_ALPHA_FRO, NULL, 0,
        (ms_num[]){ ms_each(e->fro2), ms_each(e->sd), ms_each(e->s), threshold, ms_each(e->own),
                    ms_const(ms_compute_limits_of(e->operands).reach), ms_const(e->unit) },
        (ms_vec[]){ e->alpha, e->u_low, e->gain, e->rest });
}

/* The input of all stacks, and one vector of each number of all matrices; with memos also factor
 * and diag. */
static musec_status prepare(ms_device *d, const ms_stacks *x, ms_num threshold,
                            musec_dtype operands, int64_t count, ms_vec factor, ms_vec diag,
                            ms_soft *e)
{
    ms_vec *const vecs[] = { &e->own, &e->s, &e->sd, &e->sd2 };
    const bool    memos  = e->gram_norms[0].sumsq.data != NULL;
    ms_prepared  *p      = e->p;
    musec_status  st     = MUSEC_OK;
    e->n                 = x->n;
    if (x->in[0].own == NULL) {
        assert(x->n == 1 && !memos);
        TRY(ms_prepare(d, x->in[0], threshold, operands, p));
        e->own = p->own, e->s = p->s, e->sd = p->sd, e->sd2 = p->sd2;
    } else {
        for (size_t i = 0; i < COUNT(vecs); i++)
            TRY(ms_scratch_vec(d, count, vecs[i]));
    }
    for (int64_t i = 0, first = 0; x->in[0].own != NULL && i < x->n; first += x->in[i++].count) {
        const int64_t       n      = x->in[i].count;
        const ms_gram_cache recall = { e->gram_norms[i], ms_vec_slice(e->fro2, first, n),
                                       ms_vec_slice(factor, first, n),
                                       ms_vec_slice(diag, first, n) };
        p[i].own                   = ms_vec_slice(e->own, first, n);
        p[i].s                     = ms_vec_slice(e->s, first, n);
        p[i].sd                    = ms_vec_slice(e->sd, first, n);
        p[i].sd2                   = ms_vec_slice(e->sd2, first, n);
        TRY(ms_prepare_scaled(d, x->in[i], ms_num_slice(threshold, first, n),
                              memos ? &recall : NULL, &p[i]));
        assert(p[i].r == p[0].r && p[i].unit == p[0].unit);
    }
    e->r    = p[0].r;
    e->unit = p[0].unit;
done:
    return st;
}

/* c <- alpha X X^T + diag I, and its norm and trace: what of a product is not X. */
static musec_status gram(ms_device *d, const ms_soft *e, const ms_product *all)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, first = 0; i < e->n; first += e->p[i++].x.count) {
        const ms_mat x   = e->p[i].x;
        ms_product   one = *all;
        one.a            = x;
        one.b            = ms_t(x);
        one.alpha        = ms_num_slice(all->alpha, first, x.count);
        one.diag         = ms_num_slice(all->diag, first, x.count);
        one.c            = ms_mat_slice(all->c, first, x.count);
        one.sumsq        = ms_vec_slice(all->sumsq, first, x.count);
        one.trace        = ms_vec_slice(all->trace, first, x.count);
        one.mask         = ms_vec_slice(all->mask, first, x.count);
        TRY(d->ops->product(d, &one));
    }
done:
    return st;
}

/* The numbers of B = factor G + diag I as it came out; factor and diag become those of one that has
 * to be made again. */
static musec_status renorm(ms_device *d, const ms_vec *seen, ms_vec factor, ms_vec diag,
                           ms_vec again, ms_vec lacks, ms_soft *e)
{
    const ms_vec in[]  = { seen[0], seen[1], factor, diag, e->fro2, e->own, e->s, e->sd2 };
    const ms_vec out[] = { again, factor, diag, lacks, e->fro2, e->trace, e->mean, e->most };
    const double r     = (double)e->r;
    ms_num       from[COUNT(in)];
    ms_vec       to[COUNT(out) + 2];
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, first = 0; i < e->n; first += e->p[i++].x.count) {
        for (size_t k = 0; k < COUNT(in); k++)
            from[k] = ms_each(ms_vec_slice(in[k], first, e->p[i].x.count));
        for (size_t k = 0; k < COUNT(out); k++)
            to[k] = ms_vec_slice(out[k], first, e->p[i].x.count);
        to[COUNT(out)]     = e->gram_norms[i].sumsq;
        to[COUNT(out) + 1] = e->gram_norms[i].trace;
        TRY(d->ops->scalars(d, MS_SCALAR_RENORM, &r, 1, from, to));
    }
done:
    return st;
}

/* B by what G was the last time; and again, of those matrices where that will not do. */
static musec_status remembered(ms_device *d, ms_vec factor, ms_vec diag, ms_soft *e)
{
    ms_vec       v[4]; /* |B|_F^2, tr B; who goes again; what the others lack */
    ms_product   b  = { .alpha = ms_each(factor), .diag = ms_each(diag), .c = e->b };
    musec_status st = MUSEC_OK;
    b.symmetric     = true;
    TRY(take_vecs(d, e->b.count, 4, v));
    b.sumsq = v[0];
    b.trace = v[1];
    TRY(gram(d, e, &b));
    TRY(renorm(d, v, factor, diag, v[2], v[3], e));
    TRY(d->ops->add_diag(d, ms_each(v[3]), e->b));
    b.sumsq = b.trace = (ms_vec){ 0 };
    b.mask            = v[2];
    TRY(gram(d, e, &b));
done:
    return st;
}

musec_status ms_soft_begin(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype operands,
                           ms_soft_start how, ms_soft *e)
{
    const bool    memos  = how.moments && x.gram_norms[0].sumsq.data != NULL;
    ms_mat *const mats[] = { &e->b, &e->q, &e->t, &e->y, &e->v };
    ms_vec *const vecs[] = { &e->fro2, &e->trace, &e->most,  &e->quart, &e->inv_a,
                             &e->mean, &e->alpha, &e->u_low, &e->gain,  &e->rest };
    const int     n_mats = ms_soft_mats(how.stages);
    /* |B B| <= 1, or 4 where N was what it should no longer be, and f16 ends at 65504 */
    const double most_lift = memos ? 0x1p13 : 0x1p14;
    int64_t      count     = 0;
    ms_vec       b[2]      = { { 0 } }; /* factor, diag */
    musec_status st        = MUSEC_OK;
    *e                     = (ms_soft){ .operands = operands, .lift = 1.0 };
    for (int i = 0; i < x.n; i++) {
        count += x.in[i].count;
        if (memos) e->gram_norms[i] = x.gram_norms[i];
    }
    for (size_t i = 0; i < COUNT(vecs); i++)
        TRY(ms_scratch_vec(d, count, vecs[i]));
    if (memos) TRY(take_vecs(d, count, 2, b));
    TRY(prepare(d, &x, threshold, operands, count, b[0], b[1], e));
    while (ms_is_16bit(operands) && e->lift < (double)e->r && e->lift < most_lift)
        e->lift *= 2.0;
    for (int i = 0; i < n_mats; i++)
        TRY(ms_scratch_mat(d, operands, count, e->r, e->r, mats[i]));
    if (memos) {
        TRY(remembered(d, b[0], b[1], e));
    } else {
        TRY(ms_scratch_mat(d, ms_dtype_accum(operands), count, e->r, e->r, &e->gram));
        TRY(gram(d, e,
                 &(ms_product){ .alpha     = ms_const(1.0),
                                .c         = e->gram,
                                .symmetric = !how.literal,
                                .sumsq     = e->fro2,
                                .trace     = e->trace }));
        TRY(normalise(d, how, e));
    }
    /* B is formed before it is squared: the fourth moments of a flat spectrum would drown in the
     * rounding of w w, and the fourth root makes much of it. */
    if (how.moments || how.square)
        TRY(d->ops->product(d, &(ms_product){ .a         = e->b,
                                              .b         = e->b,
                                              .alpha     = ms_const(e->lift),
                                              .c         = e->y,
                                              .symmetric = true,
                                              .sumsq     = e->quart }));
    TRY(how.moments ? alpha_c4(d, threshold, e) : alpha_fro(d, threshold, e));
done:
    return st;
}

musec_status ms_soft_finish(ms_device *d, const ms_soft *e, const ms_mat *out)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, first = 0; i < e->n; first += out[i++].count) {
        /* ms_apply sees to the order of the stages in 16 bits; in others rounding, if less, is as
         * much a matter of it */
        const bool   turn = e->p[i].turned && !ms_is_16bit(e->operands);
        const ms_mat z    = ms_mat_slice(e->z, first, out[i].count);
        TRY(ms_apply(d, &e->p[i], turn ? ms_t(z) : z, out[i]));
        TRY(d->ops->scale(d, ms_each(ms_vec_slice(e->rest, first, out[i].count)), out[i]));
    }
done:
    return st;
}
