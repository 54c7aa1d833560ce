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
 * where everything inside p and T (W T) is symmetric and computed as one triangle.  (W T and T Z
 * are not: they are symmetric in exact arithmetic only, and mirroring them feeds the rounding error
 * back, growing with s_1 / D.)  A stage of degree 9 costs two squares: see ms_stage_squares.
 *
 * alpha is |A|_F for `paper`, as in the paper.  `fast` and `accurate` take the bound C4 from fourth
 * moments (scalar_programs.h), 1 to 2 times lambda_max where |A|_F is up to sqrt(r) times: the
 * square of A that it needs is the first product of the first stage.  The coefficients of the last
 * stage carry the factor D / sqrt(alpha).  Nothing here waits for the device.
 *
 * All that is linear is in the epilogues of products.  A = c G + d I, G being the Gram matrix, is
 * never formed: its norm follows from that of G and the trace, and one pass over G writes
 *     B = w - m I,   w = A / |A|_F,   m = tr w / r,
 * rounded when all is added up.  The first stage works on B and B B.  A stage hands on
 * E = e1 W + e0 I, written by the epilogue of T (W T): V to the last stage, which takes its linear
 * terms from V too, and W to a middle one, which multiplies by it once more and would lose digits
 * if it were taken from V.
 *
 * A caller that clips the same matrices again and again, each time changed a little, may keep the
 * norm and the trace of G from one call to the next (ms_gram_norms).  Then N is known beforehand,
 * and m nearly so: the Gram product itself writes B, in the compute dtype, and neither G nor a pass
 * over it is needed.  Its sums tell what G is.  N is a power of two, so that it does not matter
 * which one it was; m is corrected on the diagonal; and where the cached norms were too far off,
 * the product is made again, by a call whose mask leaves out the other matrices.
 *
 * With a 16-bit compute dtype, X, B, B B, T and all that is multiplied are stored so, while the
 * Gram matrix, where there is one, and the result stay in float32.  Of a flat spectrum |B B| is
 * down to 1 / r and its entries to r^(-3/2), where f16 has few digits left; so B B is stored times
 * a power of two near r.
 *
 * In the first W T, W is B + m I with numbers of each matrix.  Where all matrices have one plan, 16
 * bits hold W itself instead: m is added to B's diagonal in place, and w_coef is in the epilogue of
 * the symmetric product that follows.  Then the full product has no epilogue, which is faster on
 * GPUs.  That rounds off no more of an entry on the diagonal than is rounded off T's.
 *
 * With `accurate`, each matrix has a plan of its own.  Then every call has a mask, and where Z lies
 * depends on the number of stages alone: no matrix is ever copied. */
#include <assert.h>

#include "linalg/soft_engine.h"

ms_compute_limits ms_compute_limits_of(musec_dtype compute_dtype)
{
    static const ms_compute_limits f16  = { .margin           = 2e-3,
                                            .min_ratio        = 2e-4,
                                            .u_d              = 0.03,
                                            .short_u_d        = 0.03,
                                            .loose_u_d        = 0.0708,
                                            .reduction_shift  = 12.0,
                                            .reduction_u_d    = 0.04,
                                            .reduction_min_u  = 0.025,
                                            .reduction_margin = 8e-3,
                                            .max_exponent     = 8 };
    static const ms_compute_limits bf16 = { .margin           = 1e-2,
                                            .min_ratio        = 1.6e-3,
                                            .u_d              = 0.09,
                                            .short_u_d        = 0.09,
                                            .loose_u_d        = 0.09,
                                            .reduction_shift  = 10.0,
                                            .reduction_u_d    = 0.05,
                                            .reduction_min_u  = 0.04,
                                            .reduction_margin = 6e-2,
                                            .max_exponent     = 60 };
    static const ms_compute_limits full = { .margin = 1e-5 };
    return compute_dtype == MUSEC_F16 ? f16 : compute_dtype == MUSEC_BF16 ? bf16 : full;
}

/* ---- the stages ------------------------------------------------------------------------------ */

/* c <- x x + beta source + diag I, symmetric; source without data: none. */
static musec_status square(ms_device *d, ms_active_set active, ms_mat x, ms_num beta, ms_mat source,
                           ms_num diag, ms_mat c)
{
    if (!active.any) return MUSEC_OK;
    return d->ops->product(d, &(ms_product){ .a         = x,
                                             .b         = x,
                                             .alpha     = ms_const(1.0),
                                             .beta      = beta,
                                             .source    = source,
                                             .diag      = diag,
                                             .c         = c,
                                             .symmetric = true,
                                             .mask      = active.mask });
}

/* c <- a b */
static musec_status multiply(ms_device *d, ms_active_set active, ms_mat a, ms_mat b, ms_mat c)
{
    if (!active.any) return MUSEC_OK;
    return d->ops->product(
        d, &(ms_product){ .a = a, .b = b, .alpha = ms_const(1.0), .c = c, .mask = active.mask });
}

/* Writes what a stage that is not the last hands on: E = e1 W + e0 I into e->b, where W is the
 * stage's t wt = T (W T).  A middle stage needs W next, the last one V.  e1: NULL, or a factor that
 * replaces it and makes up for one that wt lacks. */
static musec_status hand_on(ms_device *d, const ms_stage_schedule *c, int stage,
                            ms_active_set active, ms_mat t, ms_mat wt,
                            const ms_last_stage_vecs *last, const ms_vec *e1, ms_soft *e)
{
    ms_num          coef = ms_const(1.0), diag = ms_const(0.0);
    ms_handoff_vecs next;
    musec_status    st = MUSEC_OK;
    if (stage == c->n - 1) { /* the next is the last of all plans that have come so far */
        coef = ms_each(last->e1);
        diag = ms_each(last->e0);
    } else if (c->n_stages.each.data != NULL) {
        TRY(MS_SCRATCH_VECS(d, e->b.count, &next));
        TRY(ms_scalar_handoff(d,
                              (ms_handoff_nums){ .stage    = ms_const(stage),
                                                 .n_stages = c->n_stages,
                                                 .e1       = ms_each(last->e1),
                                                 .e0       = ms_each(last->e0) },
                              next));
        coef = ms_each(next.e1);
        diag = ms_each(next.e0);
    }
    if (e1 != NULL) coef = ms_each(*e1);
    TRY(d->ops->product(d, &(ms_product){ .a         = t,
                                          .b         = wt,
                                          .alpha     = coef,
                                          .diag      = diag,
                                          .c         = e->b,
                                          .symmetric = true,
                                          .mask      = active.mask }));
done:
    return st;
}

static musec_status first_stage_coefs(ms_device *d, const ms_stage_schedule *c, double wt_scale,
                                      ms_num w_coef, const ms_last_stage_vecs *last,
                                      const ms_soft *e, ms_first_stage_vecs *k)
{
    const ms_stage_coefs *f  = &c->first;
    musec_status          st = MUSEC_OK;
    TRY(MS_SCRATCH_VECS(d, e->b.count, k));
    TRY(ms_scalar_first_stage(
        d,
        (ms_first_stage_nums){ .square_scale = ms_const(e->square_scale),
                               .wt_scale     = ms_const(wt_scale),
                               .v1           = ms_each(f->v1),
                               .v0           = ms_each(f->v0),
                               .q0           = ms_each(f->q0),
                               .t1           = ms_each(f->t1),
                               .t0           = ms_each(f->t0),
                               .q            = c->q,
                               .n_stages     = c->n_stages,
                               .w_coef       = w_coef,
                               .gain         = ms_each(e->gain),
                               .mean         = ms_each(e->mean),
                               .e1           = c->n == 2 ? ms_each(last->e1) : ms_const(1.0) },
        *k));
done:
    return st;
}

/* From B and B B: writes T to e->t, and what follows from it; of a single stage Z, to e->b, or to
 * e->t where it is no square. */
static musec_status first_stage(ms_device *d, const ms_stage_schedule *c, ms_num w_coef,
                                const ms_last_stage_vecs *last, ms_soft *e)
{
    const double wt_scale = 8.0; /* w T is down to 1 / sqrt(r) of W T */
    const bool   stores_w =
        ms_is_16bit(e->compute_dtype) && c->several.any && c->several.mask.data == NULL;
    const ms_mat        none = { 0 };
    ms_first_stage_vecs k;
    ms_term             terms[2];
    int                 n_terms = 0;
    musec_status        st      = MUSEC_OK;

    TRY(first_stage_coefs(d, c, wt_scale, w_coef, last, e, &k));
    const ms_term poly = { .x_coef = ms_each(k.c1),
                           .y_coef = ms_each(k.c2),
                           .diag   = ms_each(k.c0) };
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
    TRY(square(d, c->several_square, e->q, ms_each(k.t1), e->b, ms_each(k.t0), e->t));
    if (c->square.any) TRY(square(d, c->single, e->q, ms_each(k.t1), e->b, ms_each(k.t0), e->b));
    e->z = c->square.any ? e->b : e->t;
    if (!c->several.any) goto done;
    if (stores_w) {
        TRY(d->ops->add_diag(d, ms_each(e->mean), e->b));
        TRY(d->ops->product(
            d, &(ms_product){ .a = e->b, .b = e->t, .alpha = ms_const(wt_scale), .c = e->y }));
    } else {
        TRY(d->ops->product(d, &(ms_product){ .a      = e->b,
                                              .b      = e->t,
                                              .alpha  = w_coef,
                                              .beta   = ms_each(k.w_mean),
                                              .source = e->t,
                                              .c      = e->y,
                                              .mask   = c->several.mask }));
    }
    TRY(hand_on(d, c, 1, c->several, e->t, e->y, last, stores_w ? &k.e1 : NULL, e));
done:
    return st;
}

/* W is in e->b, and the Z so far in `from`: the next goes to `to`. */
static musec_status middle_stage(ms_device *d, const ms_stage_schedule *c, int stage,
                                 const ms_last_stage_vecs *last, ms_mat from, ms_mat to, ms_soft *e)
{
    const ms_mat          none   = { 0 };
    const ms_active_set   active = c->in_middle[stage - 1];
    const ms_stage_coefs *k      = &c->middle[stage - 1];
    ms_term               v      = { .x_coef = ms_each(k->v1), .diag = ms_each(k->v0) };
    musec_status          st     = MUSEC_OK;
    v.out                        = e->y;
    v.mask                       = active.mask;
    TRY(d->ops->combine(d, e->b, none, &v, 1));
    TRY(square(d, active, e->y, ms_const(0.0), none, ms_each(k->q0), e->q));
    TRY(square(d, active, e->q, ms_each(k->t1), e->b, ms_each(k->t0), e->y));
    TRY(multiply(d, active, e->b, e->y, e->q));
    TRY(multiply(d, active, e->y, from, to));
    TRY(hand_on(d, c, stage, active, e->y, e->q, last, NULL, e));
done:
    return st;
}

/* From E in e->b, and Z in e->t after an odd number of stages, in e->v after an even one. */
static musec_status last_stage(ms_device *d, const ms_stage_schedule *c,
                               const ms_last_stage_vecs *k, ms_soft *e)
{
    const ms_mat none = { 0 };
    musec_status st   = MUSEC_OK;
    ms_mat       t = e->b, out = e->q;
    if (c->last_q == 4) {
        TRY(square(d, c->several, e->b, ms_const(0.0), none, ms_each(k->q0), e->q));
        TRY(square(d, c->several, e->q, ms_each(k->z1), e->b, ms_each(k->z0), e->y));
        t   = e->y;
        out = e->b;
    }
    TRY(multiply(d, c->even, t, e->t, out));
    TRY(multiply(d, c->odd, t, e->v, out));
    e->z = out;
done:
    return st;
}

musec_status ms_run_stages(ms_device *d, const ms_stage_schedule *c, ms_num w_coef, ms_soft *e)
{
    ms_last_stage_vecs last = { 0 };
    musec_status       st   = MUSEC_OK;
    if (c->several.any) {
        TRY(MS_SCRATCH_VECS(d, e->b.count, &last));
        TRY(ms_scalar_last_stage(d,
                                 (ms_last_stage_nums){ .v1   = ms_each(c->last.v1),
                                                       .v0   = ms_each(c->last.v0),
                                                       .q0   = ms_each(c->last.q0),
                                                       .t1   = ms_each(c->last.t1),
                                                       .t0   = ms_each(c->last.t0),
                                                       .q    = ms_const(c->last_q),
                                                       .gain = ms_each(e->gain) },
                                 last));
    }
    TRY(first_stage(d, c, w_coef, &last, e));
    for (int stage = 2; stage < c->n; stage++) {
        const bool even = stage % 2 == 0;
        TRY(middle_stage(d, c, stage, &last, even ? e->t : e->v, even ? e->v : e->t, e));
    }
    if (c->several.any) TRY(last_stage(d, c, &last, e));
done:
    return st;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* From G in e->gram: writes w = A / |A|_F, or B = w - m I, to e->b, in one pass and rounded
 * once.  A mask without data: of all matrices. */
static musec_status normalise(ms_device *d, ms_soft_start how, ms_vec mask, ms_soft *e)
{
    const ms_compute_limits limits = ms_compute_limits_of(e->compute_dtype);
    const ms_mark           mark   = ms_arena_mark(&d->scratch);
    ms_normalise_gram_vecs  out    = {
            .norm2 = e->norm2, .trace = e->trace, .mean = e->mean, .fro = e->fro
    };
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_vec(d, e->b.count, &out.gram_coef));
    TRY(ms_scratch_vec(d, e->b.count, &out.diag));
    TRY(ms_scratch_vec(d, e->b.count, &out.shifted_diag));
    TRY(ms_scalar_normalise_gram(
        d,
        (ms_normalise_gram_nums){ .rank       = ms_const((double)e->r),
                                  .min_ratio  = ms_const(how.many ? limits.min_ratio : 0.0),
                                  .pow2_norm  = ms_const(how.moments),
                                  .gram_sumsq = ms_each(e->norm2),
                                  .gram_trace = ms_each(e->trace),
                                  .scale      = ms_each(e->scale),
                                  .s          = ms_each(e->s),
                                  .sd2        = ms_each(e->sd2) },
        out));
    const ms_term term = { .x_coef = ms_each(out.gram_coef),
                           .diag   = ms_each(how.literal ? out.diag : out.shifted_diag),
                           .out    = e->b,
                           .mask   = mask };
    TRY(d->ops->combine(d, e->gram, (ms_mat){ 0 }, &term, 1));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status alpha_c4(ms_device *d, ms_num threshold, ms_num max_lambda, ms_soft *e)
{
    const ms_compute_limits limits = ms_compute_limits_of(e->compute_dtype);
    return ms_scalar_alpha_c4(d,
                              (ms_alpha_c4_nums){ .rank         = ms_const((double)e->r),
                                                  .margin       = ms_const(limits.margin),
                                                  .square_scale = ms_const(e->square_scale),
                                                  .norm2        = ms_each(e->norm2),
                                                  .trace        = ms_each(e->trace),
                                                  .fro          = ms_each(e->fro),
                                                  .square_sumsq = ms_each(e->square_sumsq),
                                                  .max_lambda   = max_lambda,
                                                  .sd           = ms_each(e->sd),
                                                  .s            = ms_each(e->s),
                                                  .threshold    = threshold,
                                                  .scale        = ms_each(e->scale),
                                                  .max_exponent = ms_const(limits.max_exponent),
                                                  .out_scale    = ms_const(e->out_scale) },
                              (ms_alpha_c4_vecs){ .inv_alpha = e->inv_alpha,
                                                  .alpha     = e->alpha,
                                                  .u_min     = e->u_min,
                                                  .gain      = e->gain,
                                                  .residual  = e->residual });
}

static musec_status alpha_fro(ms_device *d, ms_num threshold, ms_soft *e)
{
    const ms_compute_limits limits = ms_compute_limits_of(e->compute_dtype);
    return ms_scalar_alpha_fro(
        d,
        (ms_alpha_fro_nums){ .norm2        = ms_each(e->norm2),
                             .sd           = ms_each(e->sd),
                             .s            = ms_each(e->s),
                             .threshold    = threshold,
                             .scale        = ms_each(e->scale),
                             .max_exponent = ms_const(limits.max_exponent),
                             .out_scale    = ms_const(e->out_scale) },
        (ms_alpha_fro_vecs){
            .alpha = e->alpha, .u_min = e->u_min, .gain = e->gain, .residual = e->residual });
}

/* The coefficients of G and I in B, where cached norms predict them. */
typedef struct b_coefs {
    ms_vec gram, diag;
} b_coefs;

/* Prepares the input of all stacks, and one vector of each number of all matrices. */
static musec_status prepare(ms_device *d, const ms_stacks *x, ms_num threshold,
                            musec_dtype compute_dtype, int64_t count, b_coefs coefs, ms_soft *e)
{
    ms_vec *const vecs[] = { &e->scale, &e->s, &e->sd, &e->sd2 };
    const bool    cached = e->gram_norms[0].sumsq.data != NULL;
    const bool    scaled = x->in[0].scale.data != NULL;
    ms_prepared  *p      = e->p;
    musec_status  st     = MUSEC_OK;
    e->n                 = x->n;
    if (!scaled) {
        assert(x->n == 1 && !cached);
        TRY(ms_prepare(d, x->in[0].mat, threshold, compute_dtype, p));
        e->scale = p->scale, e->s = p->s, e->sd = p->sd, e->sd2 = p->sd2;
    } else {
        for (size_t i = 0; i < COUNT(vecs); i++)
            TRY(ms_scratch_vec(d, count, vecs[i]));
    }
    for (int64_t i = 0, first = 0; scaled && i < x->n; first += x->in[i++].mat.count) {
        const int64_t            n          = x->in[i].mat.count;
        const ms_gram_prediction prediction = { .cached    = e->gram_norms[i],
                                                .norm2     = ms_vec_slice(e->norm2, first, n),
                                                .gram_coef = ms_vec_slice(coefs.gram, first, n),
                                                .diag      = ms_vec_slice(coefs.diag, first, n) };
        p[i].scale                          = ms_vec_slice(e->scale, first, n);
        p[i].s                              = ms_vec_slice(e->s, first, n);
        p[i].sd                             = ms_vec_slice(e->sd, first, n);
        p[i].sd2                            = ms_vec_slice(e->sd2, first, n);
        TRY(ms_prepare_scaled(d, x->in[i], ms_num_slice(threshold, first, n),
                              cached ? &prediction : NULL, &p[i]));
        assert(p[i].r == p[0].r && p[i].out_scale == p[0].out_scale);
    }
    e->r         = p[0].r;
    e->out_scale = p[0].out_scale;
done:
    return st;
}

/* Computes c <- alpha X X^T + diag I, and its sums, for all stacks; `all` is the product without
 * X. */
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

/* Checks the cached norms against the sums of B as it came out.  Where they will not do, `redo` is
 * 1 and coefs become those to make B with again; elsewhere diag_fix is what B lacks on its
 * diagonal. */
static musec_status revalidate(ms_device *d, ms_gram_norms sums_of_b, b_coefs coefs, ms_vec redo,
                               ms_vec diag_fix, ms_soft *e)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, first = 0; i < e->n; first += e->p[i++].x.count) {
#define PART(vec) ms_vec_slice(vec, first, e->p[i].x.count)
        const ms_vec gram_coef = PART(coefs.gram), diag = PART(coefs.diag), norm2 = PART(e->norm2);
        TRY(ms_scalar_revalidate_gram_norms(
            d,
            (ms_revalidate_gram_norms_nums){ .rank      = ms_const((double)e->r),
                                             .b_sumsq   = ms_each(PART(sums_of_b.sumsq)),
                                             .b_trace   = ms_each(PART(sums_of_b.trace)),
                                             .gram_coef = ms_each(gram_coef),
                                             .diag      = ms_each(diag),
                                             .norm2     = ms_each(norm2),
                                             .scale     = ms_each(PART(e->scale)),
                                             .s         = ms_each(PART(e->s)),
                                             .sd2       = ms_each(PART(e->sd2)) },
            (ms_revalidate_gram_norms_vecs){ .redo       = PART(redo),
                                             .gram_coef  = gram_coef,
                                             .diag       = diag,
                                             .diag_fix   = PART(diag_fix),
                                             .norm2      = norm2,
                                             .trace      = PART(e->trace),
                                             .mean       = PART(e->mean),
                                             .fro        = PART(e->fro),
                                             .gram_sumsq = e->gram_norms[i].sumsq,
                                             .gram_trace = e->gram_norms[i].trace }));
#undef PART
    }
done:
    return st;
}

/* Writes B as the cached norms predict it, and again for those matrices where they will not do. */
static musec_status predicted_b(ms_device *d, b_coefs coefs, ms_soft *e)
{
    struct {
        ms_vec sumsq, trace, redo, diag_fix;
    } v;
    ms_product b = {
        .alpha = ms_each(coefs.gram), .diag = ms_each(coefs.diag), .c = e->b, .symmetric = true
    };
    musec_status st = MUSEC_OK;
    TRY(MS_SCRATCH_VECS(d, e->b.count, &v));
    b.sumsq = v.sumsq;
    b.trace = v.trace;
    TRY(gram(d, e, &b));
    TRY(revalidate(d, (ms_gram_norms){ v.sumsq, v.trace }, coefs, v.redo, v.diag_fix, e));
    TRY(d->ops->add_diag(d, ms_each(v.diag_fix), e->b));
    b.sumsq = b.trace = (ms_vec){ 0 };
    b.mask            = v.redo;
    TRY(gram(d, e, &b));
done:
    return st;
}

/* Takes scratch for the numbers that are found for each phase. */
static musec_status take_vectors(ms_device *d, int64_t count, ms_soft *e)
{
    ms_vec *const vecs[] = { &e->norm2, &e->trace, &e->fro,   &e->square_sumsq, &e->inv_alpha,
                             &e->mean,  &e->alpha, &e->u_min, &e->gain,         &e->residual };
    musec_status  st     = MUSEC_OK;
    for (size_t i = 0; i < COUNT(vecs); i++)
        TRY(ms_scratch_vec(d, count, vecs[i]));
done:
    return st;
}

/* e->y <- square_scale B B and its norm.  B is formed before it is squared: the fourth moments of a
 * flat spectrum would drown in the rounding of w w, and the fourth root amplifies that. */
static musec_status square_b(ms_device *d, ms_vec mask, ms_soft *e)
{
    return d->ops->product(d, &(ms_product){ .a         = e->b,
                                             .b         = e->b,
                                             .alpha     = ms_const(e->square_scale),
                                             .c         = e->y,
                                             .symmetric = true,
                                             .sumsq     = e->square_sumsq,
                                             .mask      = mask });
}

musec_status ms_soft_begin(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype compute_dtype,
                           ms_soft_start how, ms_soft *e)
{
    const bool    cached = how.moments && x.gram_norms[0].sumsq.data != NULL;
    ms_mat *const mats[] = { &e->b, &e->q, &e->t, &e->y, &e->v };
    const int     n_mats = ms_soft_mats(how.stages);
    /* |B B| <= 1, or 4 where N was what it should no longer be, and f16 ends at 65504 */
    const double max_scale = cached ? 0x1p13 : 0x1p14;
    const ms_vec all       = { 0 };
    int64_t      count     = 0;
    b_coefs      coefs     = { { 0 }, { 0 } };
    musec_status st        = MUSEC_OK;
    *e       = (ms_soft){ .compute_dtype = compute_dtype, .sharp = how.sharp, .square_scale = 1.0 };
    e->write = x.write;
    for (int i = 0; i < x.n; i++) {
        count += x.in[i].mat.count;
        if (cached) e->gram_norms[i] = x.gram_norms[i];
    }
    TRY(take_vectors(d, count, e));
    if (cached) TRY(MS_SCRATCH_VECS(d, count, &coefs));
    TRY(prepare(d, &x, threshold, compute_dtype, count, coefs, e));
    while (ms_is_16bit(compute_dtype) && e->square_scale < (double)e->r &&
           e->square_scale < max_scale)
        e->square_scale *= 2.0;
    for (int i = 0; i < n_mats; i++)
        TRY(ms_scratch_mat(d, compute_dtype, count, e->r, e->r, mats[i]));
    if (cached) {
        TRY(predicted_b(d, coefs, e));
    } else {
        TRY(ms_scratch_mat(d, ms_dtype_accum(compute_dtype), count, e->r, e->r, &e->gram));
        TRY(gram(d, e,
                 &(ms_product){ .alpha     = ms_const(1.0),
                                .c         = e->gram,
                                .symmetric = !how.literal,
                                .sumsq     = e->norm2,
                                .trace     = e->trace }));
        TRY(normalise(d, how, all, e));
    }
    if (how.moments || how.square) TRY(square_b(d, all, e));
    TRY(how.moments ? alpha_c4(d, threshold, ms_const(INFINITY), e) : alpha_fro(d, threshold, e));
done:
    return st;
}

musec_status ms_soft_restart(ms_device *d, ms_num threshold, ms_vec mask, ms_vec max_lambda,
                             ms_soft *e)
{
    const int64_t count = e->b.count;
    musec_status  st    = MUSEC_OK;
    TRY(take_vectors(d, count, e));
    if (e->gram.data == NULL) /* B was written by cached norms */
        TRY(ms_scratch_mat(d, ms_dtype_accum(e->compute_dtype), count, e->r, e->r, &e->gram));
    TRY(gram(d, e,
             &(ms_product){ .alpha     = ms_const(1.0),
                            .c         = e->gram,
                            .symmetric = true,
                            .sumsq     = e->norm2,
                            .trace     = e->trace,
                            .mask      = mask }));
    TRY(normalise(d, (ms_soft_start){ .moments = true }, mask, e));
    TRY(square_b(d, mask, e));
    TRY(alpha_c4(d, threshold, ms_each(max_lambda), e));
done:
    return st;
}

musec_status ms_soft_finish(ms_device *d, ms_soft *e, const ms_mat *out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_sharpen(d, e));
    for (int64_t i = 0, first = 0; i < e->n; first += out[i++].count) {
        /* ms_apply chooses the order of the stages in 16 bits; elsewhere it matters less, and the
         * order is this one */
        const bool   transpose = e->p[i].transposed && !ms_is_16bit(e->compute_dtype);
        const ms_mat z         = ms_mat_slice(e->z, first, out[i].count);
        TRY(ms_apply(d, &e->p[i], transpose ? ms_t(z) : z, out[i],
                     ms_vec_slice(e->write, first, out[i].count)));
        TRY(d->ops->scale(d, ms_each(ms_vec_slice(e->residual, first, out[i].count)), out[i]));
    }
done:
    return st;
}
