/* kl_shampoo.c - KL-Shampoo (Lin et al., arXiv 2509.03378; yorkerlin/KL-Methods): the factors of
 * the Gaussian that is nearest to the gradient's second moment by the Kullback-Leibler divergence.
 * Each sees the gradient whitened by the other, and they whiten the momentum without Adam's help.
 *
 *     m <- b1 m + (1 - b1) G
 *     direction E_L^T ((E_L m E_R^T) / (sqrt(a c^T) + eps)) E_R      a, c: eigenvalues, left, right
 *     H = G E_R^T diag(c)^(-1/2),   K = diag(a)^(-1/2) E_L G,   X = E_L G E_R^T
 *     L <- b L + (1 - b) / cols H H^T,   R <- b R + (1 - b) / rows K^T K
 *     a_i <- b a_i + (1 - b) mean of X_ij^2 / c_j,   c_j likewise, at least 1 / max(10, n)^2
 *     at every precondition_every-th t: new bases (precondition.c)
 *
 * Eigenvalues follow every gradient, in bases that are refreshed now and then.  As with SOAP, the
 * first gradient is for the factors and bases alone, and t counts from the second on. */
#include <math.h>

#include "optim/bases.h"
#include "optim/precondition.h"

#define FIRST_VALUE 0.1    /* of all eigenvalues */
#define MAX_GAIN    4000.0 /* of an eigenvalue's inverse root, and at least */
#define MIN_GAIN    10.0

enum { M, FACTORS, BASES = FACTORS + MS_SIDES, VALUES = BASES + MS_SIDES };

/* What a factor adds up is divided by the least eigenvalue of the other. */
double ms_kl_shampoo_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max)
{
    return ms_precond_max_grad(cfg, threshold, dtype_max) / MAX_GAIN;
}

uint64_t ms_kl_shampoo_bytes(const musec_optim_config *cfg, ms_mat whole)
{
    enum { MATRICES = 5, VECTORS = 8, PIECES = 16 };
    const uint64_t sides = (uint64_t)(whole.rows + whole.cols);
    return ms_precond_bytes(cfg, whole, MATRICES) + VECTORS * sides * sizeof(double) +
           PIECES * MS_ARENA_ALIGN;
}

/* What a call has besides its states. */
typedef struct kl_call {
    const ms_direction *p;
    ms_sides            factors, bases, values;
    ms_mat              g;
    ms_mat              root[MS_SIDES]; /* (count, 1, n) inverse roots of eigenvalues */
} kl_call;

static int64_t side_length(const kl_call *c, int side)
{
    return side == MS_LEFT ? c->g.rows : c->g.cols;
}

/* The numbers of matrix b of a stack of rows. */
static ms_vec row_numbers(ms_mat x, int64_t b)
{
    return (ms_vec){ ms_mat_slice(x, b, 1).data, x.cols };
}

/* out <- the eigenvalues of a side, or their inverse roots; 1 where it has none. */
static musec_status take_values(ms_device *d, const kl_call *c, int side, bool inverse_roots,
                                ms_mat *out)
{
    const ms_mat  values = c->values.of[side], g = c->g;
    const int64_t n     = side_length(c, side);
    ms_mat        roots = values;
    musec_status  st    = MUSEC_OK;
    TRY(ms_scratch_mat(d, g.dtype, g.count, 1, n, out));
    if (values.data == NULL) {
        TRY(d->ops->fill(d, 1.0, *out));
        goto done;
    }
    if (inverse_roots) TRY(ms_scratch_mat(d, MUSEC_F64, g.count, 1, n, &roots));
    for (int64_t b = 0; inverse_roots && b < g.count; b++)
        TRY(ms_scalar_inv_norm(
            d,
            (ms_inv_norm_nums){ .sumsq = ms_each(row_numbers(values, b)), .factor = ms_const(1.0) },
            (ms_inv_norm_vecs){ row_numbers(roots, b) }));
    TRY(d->ops->copy(d, roots, *out));
done:
    return st;
}

static musec_status start(ms_device *d, const kl_call *c)
{
    const ms_device_ops *op = d->ops;
    musec_status         st = MUSEC_OK;
    TRY(op->fill(d, 0.0, c->p->state[M]));
    TRY(op->fill(d, 0.0, c->p->out));
    for (int side = 0; side < MS_SIDES; side++) {
        const double    share = ms_factor_coefs_of(c->p->cfg).add;
        const int64_t   n     = side_length(c, side);
        ms_sides        one   = { 0 };
        ms_factor_coefs coefs = { .add = share * (double)n / (double)(c->g.rows * c->g.cols) };
        one.of[side]          = c->factors.of[side];
        TRY(ms_update_factors(d, coefs, c->g, one));
        if (c->values.of[side].data != NULL) TRY(op->fill(d, FIRST_VALUE, c->values.of[side]));
    }
    TRY(ms_first_bases(d, c->factors, c->bases));
done:
    return st;
}

/* out <- the whitened momentum; x and tmp are scratch. */
static musec_status whiten(ms_device *d, const kl_call *c, ms_mat x, ms_mat tmp)
{
    const ms_device_ops *op    = d->ops;
    const ms_direction  *p     = c->p;
    const ms_mark        mark  = ms_arena_mark(&d->scratch);
    const ms_moments     rates = { .beta2    = 1.0, /* v is what it divides by, and stays */
                                   .eps      = p->cfg->eps,
                                   .correct1 = 1.0,
                                   .correct2 = 1.0 };
    const double         b1    = p->cfg->beta1;
    ms_mat               left, right, first;
    musec_status         st = MUSEC_OK;
    TRY(op->axpby(d, ms_const(1.0 - b1), c->g, ms_const(b1), p->state[M]));
    TRY(take_values(d, c, MS_LEFT, false, &left));
    TRY(take_values(d, c, MS_RIGHT, false, &right));
    TRY(ms_scratch_mat(d, x.dtype, x.count, x.rows, x.cols, &first));
    TRY(op->fill(d, 0.0, first));
    TRY(ms_apply_sides(d, c->bases, false, p->state[M], tmp, x));
    TRY(op->gemm(d, 1.0, ms_t(left), right, 0.0, tmp));
    TRY(op->moments(d, rates, x, first, tmp, (ms_mat){ 0 }, x));
    TRY(ms_apply_sides(d, c->bases, true, x, tmp, p->out));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Moves the eigenvalues of a side on by X, whose rows (left) or columns are whitened by the other
 * side already. */
static musec_status update_values(ms_device *d, const kl_call *c, int side, ms_mat x)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const ms_mat  seen = side == MS_LEFT ? x : ms_t(x), values = c->values.of[side];
    const double  n    = (double)seen.rows;
    const double  gain = fmax(MIN_GAIN, fmin(n, MAX_GAIN));
    ms_vec        sumsq;
    musec_status  st = MUSEC_OK;
    if (values.data == NULL) return MUSEC_OK;
    TRY(ms_scratch_vec(d, seen.rows, &sumsq));
    for (int64_t b = 0; b < x.count; b++) {
        ms_mat rows = ms_mat_slice(seen, b, 1);
        rows.count  = rows.rows;
        rows.rows   = 1;
        rows.stride = rows.trans ? 1 : rows.ld;
        TRY(d->ops->sumsq(d, rows, sumsq));
        TRY(ms_scalar_factor_value(
            d,
            (ms_factor_value_nums){ .value = ms_each(row_numbers(values, b)),
                                    .sumsq = ms_each(sumsq),
                                    .inv_n = ms_const(1.0 / (double)seen.cols),
                                    .beta  = ms_const(ms_factor_coefs_of(c->p->cfg).keep),
                                    .floor = ms_const(1.0 / (gain * gain)) },
            (ms_factor_value_vecs){ row_numbers(values, b) }));
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Moves factor and eigenvalues of one side on by the gradient, whitened by the other side as it was
 * before: c->root. */
static musec_status update_side(ms_device *d, const kl_call *c, int side, ms_mat x, ms_mat tmp)
{
    const ms_device_ops *op    = d->ops;
    const int            other = MS_SIDES - 1 - side;
    const ms_mat         root  = c->root[other];
    ms_sides             by = { 0 }, one = { 0 };
    ms_factor_coefs      coefs = ms_factor_coefs_of(c->p->cfg);
    musec_status         st    = MUSEC_OK;
    if (c->factors.of[side].data == NULL) return MUSEC_OK;
    by.of[other] = c->bases.of[other];
    one.of[side] = c->factors.of[side];
    coefs.add /= (double)side_length(c, other);
    TRY(ms_apply_sides(d, by, false, c->g, tmp, x));
    TRY(op->scale_rows(d, root, side == MS_LEFT ? ms_t(x) : x));
    TRY(ms_update_factors(d, coefs, x, one));
    by                  = (ms_sides){ 0 };
    by.of[side]         = c->bases.of[side];
    const ms_mat turned = tmp;
    TRY(side == MS_LEFT ? op->gemm(d, 1.0, by.of[side], x, 0.0, turned)
                        : op->gemm(d, 1.0, x, ms_t(by.of[side]), 0.0, turned));
    TRY(update_values(d, c, side, turned));
done:
    return st;
}

musec_status ms_kl_shampoo_direction(ms_device *d, const ms_direction *p)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const ms_mat  out  = p->out;
    const int64_t t    = p->t - 1;
    kl_call       c    = { .p       = p,
                           .factors = ms_sides_of(p, FACTORS),
                           .bases   = ms_sides_of(p, BASES),
                           .values  = ms_sides_of(p, VALUES) };
    ms_mat        x, tmp;
    musec_status  st = MUSEC_OK;

    TRY(ms_precond_gradient(d, p, &c.g));
    if (t == 0) {
        TRY(start(d, &c));
        goto done;
    }
    TRY(ms_scratch_mat(d, out.dtype, out.count, out.rows, out.cols, &x));
    TRY(ms_scratch_mat(d, out.dtype, out.count, out.rows, out.cols, &tmp));
    TRY(whiten(d, &c, x, tmp));
    for (int side = 0; side < MS_SIDES; side++)
        TRY(take_values(d, &c, side, true, &c.root[side]));
    for (int side = 0; side < MS_SIDES; side++)
        TRY(update_side(d, &c, side, x, tmp));
    if (t % p->cfg->precondition_every == 0)
        TRY(ms_refresh_bases(d, c.factors, (ms_mat){ 0 }, c.bases));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
