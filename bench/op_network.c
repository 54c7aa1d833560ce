/* op_network.c - cases of the ops of networks, and their rows.
 *
 * Sizes: m tokens of n numbers, where n is the head size if there are heads, whose number is the
 * count; k is the vocabulary of an embedding.  Nothing is transposed.  Variants are described where
 * their operands are declared.
 *
 * Bounds: u = eps/2 is the error of one operation.  Where signs could cancel, `size` evaluates the
 * formula with absolute values and plus in place of minus, and includes factors in which outputs
 * differ.  A sum of n terms in any order has an error of (n - 1) u of the sum of their absolute
 * values (Higham 2002, section 4.2).
 *
 * The gradients of an op are computed by its _grad op, so finite differences check both. */
#include "op_network.h"

#include <math.h>

#include "device/cpu/ref.h"

static double few(const op_case *c) /* products, sums, a logistic function: at most 16 u */
{
    (void)c;
    return 8.0;
}

static double at_most(double value, double limit) { return value < limit ? value : limit; }

/* ---- embed ----------------------------------------------------------------------------------- */

static int32_t random_id(const op_args *a, int64_t i)
{
    const uint64_t draw = ((uint64_t)(i + 3) + a->c.seed) * 0x9e3779b97f4a7c15u >> 33;
    return (int32_t)(draw % (uint64_t)a->c.k);
}

static int32_t last_id(const op_args *a, int64_t i)
{
    (void)i;
    return (int32_t)a->c.k - 1;
}

/* variant 0: ids from all of the table; 1: one id, repeated */
static void add_tokens(op_args *a)
{
    op_add_ids(a, a->c.m, a->c.variant == 0 ? random_id : last_id);
}

static int64_t touched(const op_args *a) { return a->c.m < a->c.k ? a->c.m : a->c.k; }

static void embed_operands(op_args *a)
{
    add_tokens(a);
    op_add_mat(a, OP_IN, a->c.k, a->c.n)->used = touched(a);
    op_add_mat(a, OP_OUT, a->c.m, a->c.n);
}

static musec_status embed_run(op_args *a)
{
    return a->d->ops->embed(a->d, a->ids[0].ids, a->mat[0].mat, a->mat[1].mat);
}

static musec_status embed_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st;
    (void)by;
    TRY(a->d->ops->fill(a->d, 0.0, out));
    TRY(a->d->ops->embed_grad(a->d, a->ids[0].ids, g->mat[1], out));
done:
    return st;
}

static void embed_grad_operands(op_args *a)
{
    add_tokens(a);
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_wide(op_add_mat(a, OP_INOUT, a->c.k, a->c.n))->used = touched(a);
}

static musec_status embed_grad_run(op_args *a)
{
    return a->d->ops->embed_grad(a->d, a->ids[0].ids, a->mat[0].mat, a->mat[1].mat);
}

static double embed_grad_rounding(const op_case *c) { return (double)c->m + 1.0; }

/* ---- rmsnorm --------------------------------------------------------------------------------- */

/* r = 1 / sqrt(mean(x^2) + eps): n u for the sum of squares, 2 u for the mean and eps; the root
 * halves that; root and division add 2 u, the product with x one more.  All are relative, so the
 * error is (n/2 + 4) u; half of this would suffice. */
static double norm_rounding(const op_case *c) { return 0.5 * (double)c->n + 4.0; }

/* dx = r dy - r^3 x sum(dy x) / n: r three times, another sum of n terms, a few operations; the
 * count is in eps, twice u. */
static double norm_grad_rounding(const op_case *c)
{
    return 3.0 * norm_rounding(c) + (double)c->n + 8.0;
}

static double rms_factor(ms_mat x, int64_t b, int64_t i, double eps)
{
    double sum = 0.0;
    for (int64_t j = 0; j < x.cols; j++)
        sum += ms_at(x, b, i, j) * ms_at(x, b, i, j);
    return 1.0 / sqrt(sum / (double)x.cols + eps);
}

/* variant 0: a large eps; 1: in place, a small one */
static double norm_eps(const op_args *a) { return a->c.variant == 1 ? 1e-6 : 0.1; }

static void norm_operands(op_args *a)
{
    op_add_mat(a, a->c.variant == 1 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (a->c.variant == 1) out->like = 0;
}

static musec_status norm_run(op_args *a)
{
    return a->d->ops->rmsnorm(a->d, norm_eps(a), a->mat[0].mat, a->mat[1].mat);
}

static musec_status norm_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return a->d->ops->rmsnorm_grad(a->d, norm_eps(a), a->mat[0].mat, g->mat[1], 0.0, out);
}

/* variant 0: dx never read; 1: dx is dout, a small eps; 2: beta 0.75; 3: beta 1 */
static double norm_beta(const op_args *a)
{
    static const double betas[] = { 0.0, 0.0, 0.75, 1.0 };
    return betas[a->c.variant];
}

static void norm_grad_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, a->c.variant == 1 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_mat *dx = op_add_mat(a, a->c.variant < 2 ? OP_OUT : OP_INOUT, a->c.m, a->c.n);
    if (a->c.variant == 1) dx->like = 1;
}

static musec_status norm_grad_run(op_args *a)
{
    return a->d->ops->rmsnorm_grad(a->d, norm_eps(a), a->mat[0].mat, a->mat[1].mat, norm_beta(a),
                                   a->mat[2].mat);
}

/* out <- beta |out| + r (|dout| + |y| mean |dout y|); out may be dout */
static void size_norm_grad(double eps, ms_mat x, ms_mat dout, double beta, ms_mat out)
{
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < x.rows; i++) {
            const double r     = rms_factor(x, b, i, eps);
            double       along = 0.0;
            for (int64_t j = 0; j < x.cols; j++)
                along += fabs(ms_at(dout, b, i, j) * r * ms_at(x, b, i, j)) / (double)x.cols;
            for (int64_t j = 0; j < x.cols; j++) {
                const double kept = beta == 0.0 ? 0.0 : beta * fabs(ms_at(out, b, i, j));
                const double part = fabs(r * ms_at(x, b, i, j)) * along;
                ms_put(out, b, i, j, kept + r * (fabs(ms_at(dout, b, i, j)) + part));
            }
        }
}

static void norm_grad_size(op_args *a)
{
    size_norm_grad(norm_eps(a), a->mat[0].mat, a->mat[1].mat, norm_beta(a), a->mat[2].mat);
}

/* ---- rope ------------------------------------------------------------------------------------ */

/* The last two are in place: out is x, or dx is dout. */
static const struct {
    bool   adjacent, partly, in_place;
    double norm_eps;
} rope_variants[] = {
    { false, false, false, -1.0 }, { true, true, false, -1.0 },  { false, false, false, 0.01 },
    { true, false, false, 0.01 },  { false, true, false, 1e-6 }, { true, true, true, -1.0 },
    { false, false, true, 1e-6 },
};
enum { ROPE_GRADS = 4 };

/* Three more positions than rows.  cos and sin need not be a cosine and sine for the op. */
static void add_angles(op_args *a)
{
    const int64_t pairs = rope_variants[a->c.variant].partly ? a->c.n / 4 : a->c.n / 2;
    op_wide(op_add_mat(a, OP_IN, a->c.m + 3, pairs))->mat.count = 1;
    op_wide(op_add_mat(a, OP_IN, a->c.m + 3, pairs))->mat.count = 1;
}

static ms_rope rope_of(const op_args *a, int first)
{
    return (ms_rope){ .cos      = a->mat[first].mat,
                      .sin      = a->mat[first + 1].mat,
                      .adjacent = rope_variants[a->c.variant].adjacent,
                      .norm_eps = rope_variants[a->c.variant].norm_eps };
}

static void rope_operands(op_args *a)
{
    const bool in_place = rope_variants[a->c.variant].in_place;
    op_add_mat(a, in_place ? OP_INOUT : OP_IN, a->c.m, a->c.n)->head = true;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->head                      = true;
    if (in_place) a->mat[1].like = 0;
    add_angles(a);
}

static musec_status rope_run(op_args *a)
{
    return a->d->ops->rope(a->d, rope_of(a, 2), a->mat[0].mat, a->mat[1].mat);
}

/* out <- |cos| |x| + |sin| |the other of the pair|, times r if there is a norm; out may be x */
static void size_turn(const ms_rope *r, ms_mat x, bool norm, ms_mat out)
{
    for (int64_t b = 0; b < x.count; b++)
        for (int64_t i = 0; i < x.rows; i++) {
            const double factor = norm ? rms_factor(x, b, i, r->norm_eps) : 1.0;
            for (int64_t j = 0; j < x.cols / 2; j++) {
                const int64_t one = r->adjacent ? 2 * j : j;
                const int64_t two = r->adjacent ? 2 * j + 1 : j + x.cols / 2;
                const bool    on  = j < r->cos.cols;
                const double  c   = on ? fabs(ms_at(r->cos, 0, i, j)) : 1.0;
                const double  s   = on ? fabs(ms_at(r->sin, 0, i, j)) : 0.0;
                const double  p   = factor * fabs(ms_at(x, b, i, one));
                const double  q   = factor * fabs(ms_at(x, b, i, two));
                ms_put(out, b, i, one, p * c + q * s);
                ms_put(out, b, i, two, q * c + p * s);
            }
        }
}

static void rope_size(op_args *a)
{
    const ms_rope r = rope_of(a, 2);
    size_turn(&r, a->mat[0].mat, r.norm_eps >= 0.0, a->mat[1].mat);
}

static double rope_rounding(const op_case *c) /* two products, a sum; and the norm */
{
    return 2.0 + (rope_variants[c->variant].norm_eps >= 0.0 ? norm_rounding(c) : 0.0);
}

static musec_status rope_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return a->d->ops->rope_grad(a->d, rope_of(a, 2), a->mat[0].mat, g->mat[1], out);
}

static void rope_grad_operands(op_args *a)
{
    const bool in_place                        = rope_variants[a->c.variant].in_place;
    op_add_mat(a, OP_IN, a->c.m, a->c.n)->head = true;
    op_add_mat(a, in_place ? OP_INOUT : OP_IN, a->c.m, a->c.n)->head = true;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->head                      = true;
    if (in_place) a->mat[2].like = 1;
    add_angles(a);
}

static musec_status rope_grad_run(op_args *a)
{
    return a->d->ops->rope_grad(a->d, rope_of(a, 3), a->mat[0].mat, a->mat[1].mat, a->mat[2].mat);
}

static void rope_grad_size(op_args *a)
{
    const ms_rope r = rope_of(a, 3);
    size_turn(&r, a->mat[1].mat, false, a->mat[2].mat);
    if (r.norm_eps >= 0.0)
        size_norm_grad(r.norm_eps, a->mat[0].mat, a->mat[2].mat, 0.0, a->mat[2].mat);
}

/* dx may be stored between the inverse rotation and the norm's gradient, in 16 bits if it has so
 * many. */
static double rope_grad_rounding(const op_case *c)
{
    return 3.0 + (rope_variants[c->variant].norm_eps >= 0.0 ? norm_grad_rounding(c) : 0.0);
}

/* ---- functions of one number ----------------------------------------------------------------- */

enum { UNARIES = MS_UNARY_SIGMOID + 1 };

/* variant % UNARIES: which; variant / UNARIES: 0 out of place, 1 in place */
static void unary_operands(op_args *a)
{
    const bool in_place = a->c.variant >= UNARIES;
    op_add_mat(a, in_place ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (in_place) out->like = 0;
}

static ms_unary unary_of(const op_case *c) { return (ms_unary)(c->variant % UNARIES); }

static musec_status unary_run(op_args *a)
{
    return a->d->ops->unary(a->d, unary_of(&a->c), a->mat[0].mat, a->mat[1].mat);
}

static double unary_rounding(const op_case *c)
{
    return unary_of(c) >= MS_UNARY_GELU ? op_library(c) : op_exact(c);
}

static musec_status unary_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    (void)by;
    return a->d->ops->unary_grad(a->d, unary_of(&a->c), a->mat[0].mat, g->mat[1], out);
}

/* variant / UNARIES: 0 out of place; 1 dx is dout; 2 dx is x */
static void grad_operands(op_args *a, int where)
{
    op_add_mat(a, where == 2 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_add_mat(a, where == 1 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_mat *dx = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (where > 0) dx->like = where == 1 ? 1 : 0;
}

static void unary_grad_operands(op_args *a) { grad_operands(a, a->c.variant / UNARIES); }

static musec_status unary_grad_run(op_args *a)
{
    return a->d->ops->unary_grad(a->d, unary_of(&a->c), a->mat[0].mat, a->mat[1].mat,
                                 a->mat[2].mat);
}

/* variant 0: out of place; 1: dx is dout; 2: dx is out */
static void relu2_grad_from_out_operands(op_args *a) { grad_operands(a, a->c.variant); }

static musec_status relu2_grad_from_out_run(op_args *a)
{
    return a->d->ops->relu2_grad_from_out(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat);
}

/* ---- gate ------------------------------------------------------------------------------------ */

static double logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

static op_mat *add_gates(op_args *a, op_role role) /* (rows x heads) */
{
    op_mat *s    = op_add_mat(a, role, a->c.m, a->c.count);
    s->mat.count = 1;
    s->column    = true;
    return s;
}

/* variant 0: out of place; 1: in place; 2: gates close to 1 or 0 */
static void gate_operands(op_args *a)
{
    add_gates(a, OP_IN)->make = a->c.variant == 2 ? OP_HUGE : OP_RANDOM;
    op_add_mat(a, a->c.variant == 1 ? OP_INOUT : OP_IN, a->c.m, a->c.n)->head = true;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->head                               = true;
    if (a->c.variant == 1) a->mat[2].like = 1;
}

static musec_status gate_run(op_args *a)
{
    return a->d->ops->gate(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat);
}

/* A gate close to 0 may underflow: tiny. */
static double open_by(const op_args *a, int64_t i, int64_t h)
{
    const musec_dtype wide = ms_dtype_accum(a->c.dtype);
    return logistic(ms_at(a->mat[0].mat, 0, i, h)) + ms_dtype_tiny(wide) / ms_dtype_eps(wide);
}

static void gate_size(op_args *a)
{
    const ms_mat y = a->mat[1].mat;
    for (int64_t h = 0; h < y.count; h++)
        for (int64_t i = 0; i < y.rows; i++)
            for (int64_t j = 0; j < y.cols; j++)
                ms_put(a->mat[2].mat, h, i, j, open_by(a, i, h) * fabs(ms_at(y, h, i, j)));
}

static musec_status gate_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_mat  s = a->mat[0].mat, y = a->mat[1].mat;
    const ms_mark mark = ms_arena_mark(&a->d->scratch);
    ms_mat        other;
    musec_status  st;
    TRY(ms_scratch_mat(a->d, out.dtype, by == 0 ? y.count : 1, y.rows, by == 0 ? y.cols : y.count,
                       &other));
    TRY(a->d->ops->gate_grad(a->d, s, y, g->mat[2], by == 0 ? other : out, by == 0 ? out : other));
done:
    ms_arena_reset(&a->d->scratch, mark);
    return st;
}

/* variant 0: gates about 1/2; 1: close to 1 or 0 */
static void gate_grad_operands(op_args *a)
{
    add_gates(a, OP_IN)->make                   = a->c.variant == 1 ? OP_HUGE : OP_RANDOM;
    op_add_mat(a, OP_IN, a->c.m, a->c.n)->head  = true;
    op_add_mat(a, OP_IN, a->c.m, a->c.n)->head  = true;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->head = true;
    add_gates(a, OP_OUT);
}

static musec_status gate_grad_run(op_args *a)
{
    return a->d->ops->gate_grad(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat, a->mat[3].mat,
                                a->mat[4].mat);
}

/* ds = g (1 - g) <dout, y>: the dot costs n u of its absolute values; 1 - g is known to u where g
 * is close to 1, so it counts as 1 here. */
static void gate_grad_size(op_args *a)
{
    const ms_mat y = a->mat[1].mat, dout = a->mat[2].mat;
    for (int64_t h = 0; h < y.count; h++)
        for (int64_t i = 0; i < y.rows; i++) {
            const double g   = open_by(a, i, h);
            double       sum = 0.0;
            for (int64_t j = 0; j < y.cols; j++) {
                sum += fabs(ms_at(dout, h, i, j) * ms_at(y, h, i, j));
                ms_put(a->mat[3].mat, h, i, j, g * fabs(ms_at(dout, h, i, j)));
            }
            ms_put(a->mat[4].mat, 0, i, h, (1.0 + (double)y.cols / 16.0) * g * sum);
        }
}

/* ---- mix ------------------------------------------------------------------------------------- */

static void add_weights(op_args *a, op_role role) { op_wide(op_add_mat(a, role, 1, 2)); }

/* variant 0: out of place; 1: out is x */
static void mix_operands(op_args *a)
{
    add_weights(a, OP_IN);
    op_add_mat(a, a->c.variant == 1 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_mat *out = op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    if (a->c.variant == 1) out->like = 1;
}

static musec_status mix_run(op_args *a)
{
    return a->d->ops->mix(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat, a->mat[3].mat);
}

static musec_status mix_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_device_ops *op   = a->d->ops;
    const ms_mark        mark = ms_arena_mark(&a->d->scratch);
    ms_mat               part[3]; /* by w, x, y */
    musec_status         st = MUSEC_OK;
    for (int i = 0; i < 3; i++) {
        const ms_mat x = a->mat[i].mat;
        part[i]        = out;
        if (i != by) TRY(ms_scratch_mat(a->d, out.dtype, 1, x.rows, x.cols, &part[i]));
        TRY(op->fill(a->d, 0.0, part[i]));
    }
    TRY(op->mix_grad(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat, g->mat[3], part[1], part[2],
                     part[0]));
done:
    ms_arena_reset(&a->d->scratch, mark);
    return st;
}

/* variant 0: out of place; 1: dx is dout */
static void mix_grad_operands(op_args *a)
{
    add_weights(a, OP_IN);
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, a->c.variant == 1 ? OP_INOUT : OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_OUT, a->c.m, a->c.n);
    op_add_mat(a, OP_INOUT, a->c.m, a->c.n);
    add_weights(a, OP_INOUT);
    if (a->c.variant == 1) a->mat[4].like = 3;
}

static musec_status mix_grad_run(op_args *a)
{
    return a->d->ops->mix_grad(a->d, a->mat[0].mat, a->mat[1].mat, a->mat[2].mat, a->mat[3].mat,
                               a->mat[4].mat, a->mat[5].mat, a->mat[6].mat);
}

/* dw is a sum over all elements: a device may add up to 1024 terms in the accumulator dtype, and
 * must add the partial sums in float64. */
static void mix_grad_size(op_args *a)
{
    const ms_mat w = a->mat[0].mat, x = a->mat[1].mat, y = a->mat[2].mat, dout = a->mat[3].mat;
    const ms_mat dx = a->mat[4].mat, dy = a->mat[5].mat, dw = a->mat[6].mat;
    const double longest = at_most((double)(x.rows * x.cols), 1024.0);
    double       by_x = 0.0, by_y = 0.0;
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++) {
            const double g = fabs(ms_at(dout, 0, i, j));
            by_x += g * fabs(ms_at(x, 0, i, j));
            by_y += g * fabs(ms_at(y, 0, i, j));
            ms_put(dx, 0, i, j, fabs(ms_at(w, 0, 0, 0)) * g);
            ms_put(dy, 0, i, j, fabs(ms_at(dy, 0, i, j)) + fabs(ms_at(w, 0, 0, 1)) * g);
        }
    ms_put(dw, 0, 0, 0, fabs(ms_at(dw, 0, 0, 0)) + (1.0 + longest / 16.0) * by_x);
    ms_put(dw, 0, 0, 1, fabs(ms_at(dw, 0, 0, 1)) + (1.0 + longest / 16.0) * by_y);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define CALLS(op) .operands = op##_operands, .run = op##_run

const op_kind op_network_kinds[] = {
    { OP_ROW(embed, 2), CALLS(embed), .rounding = op_exact, .grad = embed_grad, .grad_by = 0x1,
      .more_grads = 1, .shapes = OP_SHAPES_EMBED, .stacks = OP_STACKS_ONE },
    { OP_ROW(embed_grad, 2), CALLS(embed_grad), .rounding = embed_grad_rounding,
      .shapes = OP_SHAPES_EMBED, .stacks = OP_STACKS_ONE },
    { OP_ROW(rmsnorm, 2), CALLS(norm), .rounding = norm_rounding, .grad = norm_grad, .grad_by = 0x1,
      .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_UPRIGHT },
    { OP_ROW(rmsnorm_grad, 4), CALLS(norm_grad), .rounding = norm_grad_rounding,
      .size = norm_grad_size, .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_UPRIGHT },
    { OP_ROW(rope, COUNT(rope_variants)), CALLS(rope), .rounding = rope_rounding, .size = rope_size,
      .grad = rope_grad, .grad_by = 0x1, .more_grads = ROPE_GRADS - 1, .shapes = OP_SHAPES_HEADS,
      .stacks = OP_STACKS_HEADS },
    { OP_ROW(rope_grad, COUNT(rope_variants)), CALLS(rope_grad), .rounding = rope_grad_rounding,
      .stored = 1.0, .size = rope_grad_size, .shapes = OP_SHAPES_HEADS, .stacks = OP_STACKS_HEADS },
    { OP_ROW(unary, 2 * UNARIES), CALLS(unary), .rounding = unary_rounding, .grad = unary_grad,
      .grad_by = 0x1, .grad_variant = MS_UNARY_RELU2, .more_grads = UNARIES - 1 - MS_UNARY_RELU2,
      .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_UPRIGHT },
    { OP_ROW(unary_grad, 3 * UNARIES), CALLS(unary_grad), .rounding = unary_rounding,
      .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_UPRIGHT },
    { OP_ROW(relu2_grad_from_out, 3), CALLS(relu2_grad_from_out), .rounding = op_few, .stored = 1.0,
      .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_UPRIGHT },
    { OP_ROW(attention, OP_ATTENTION_VARIANTS), CALLS(op_attention), .flops = op_attention_flops,
      .rounding = op_few, .size = op_attention_size, .bounded = true, .grad = op_attention_grad,
      .grad_by = 0x7, .more_grads = OP_ATTENTION_GRADS - 1, .shapes = OP_SHAPES_ATTENTION,
      .stacks = OP_STACKS_HEADS },
    { OP_ROW(attention_grad, OP_ATTENTION_VARIANTS), CALLS(op_attention_grad),
      .prepare = op_attention_grad_prepare, .flops = op_attention_grad_flops, .rounding = op_few,
      .size = op_attention_grad_size, .bounded = true, .shapes = OP_SHAPES_ATTENTION,
      .stacks = OP_STACKS_HEADS },
    { OP_ROW(gate, 3), CALLS(gate), .rounding = few, .size = gate_size, .grad = gate_grad,
      .grad_by = 0x3, .shapes = OP_SHAPES_HEADS, .stacks = OP_STACKS_HEADS },
    { OP_ROW(gate_grad, 2), CALLS(gate_grad), .rounding = few, .size = gate_grad_size,
      .shapes = OP_SHAPES_HEADS, .stacks = OP_STACKS_HEADS },
    { OP_ROW(mix, 2), CALLS(mix), .rounding = few, .grad = mix_grad, .grad_by = 0x7,
      .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_ONE },
    { OP_ROW(mix_grad, 2), CALLS(mix_grad), .rounding = few, .size = mix_grad_size,
      .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_ONE },
    { OP_ROW(blend, OP_BLEND_VARIANTS), CALLS(op_blend), .rounding = few, .grad = op_blend_gradient,
      .grad_by = 0x7, .shapes = OP_SHAPES_HEADS, .stacks = OP_STACKS_HEADS },
    { OP_ROW(blend_grad, OP_BLEND_GRAD_VARIANTS), CALLS(op_blend_grad),
      .rounding = op_blend_grad_rounding, .shapes = OP_SHAPES_HEADS, .stacks = OP_STACKS_HEADS },
    { OP_ROW(multiply, 2), CALLS(op_multiply), .rounding = op_few, .grad = op_multiply_grad,
      .grad_by = 0x3, .shapes = OP_SHAPES_PLAIN, .stacks = OP_STACKS_UPRIGHT },
    { OP_ROW(exclude, 2), CALLS(op_exclude), .rounding = op_exclude_rounding,
      .size = op_exclude_size, .grad = op_exclude_gradient, .grad_by = 0x6,
      .shapes = OP_SHAPES_HEADS, .stacks = OP_STACKS_HEADS },
    { OP_ROW(exclude_grad, 2), CALLS(op_exclude_grad), .rounding = op_exclude_rounding,
      .size = op_exclude_grad_size, .shapes = OP_SHAPES_HEADS, .stacks = OP_STACKS_HEADS },
    { OP_ROW(xent, OP_XENT_VARIANTS), CALLS(op_xent), .rounding = op_few, .size = op_xent_size,
      .bounded = true, .grad = op_xent_grad, .grad_by = 0x1, .more_grads = OP_XENT_GRADS - 1,
      .shapes = OP_SHAPES_LOSS, .stacks = OP_STACKS_ONE },
};
const size_t op_network_kinds_count = COUNT(op_network_kinds);
