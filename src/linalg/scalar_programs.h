/* scalar_programs.h - the per-matrix scalar programs of linalg, written once for all devices.
 *
 * They are the arithmetic between two reductions and the next matrix op: a few float64 numbers per
 * matrix that would otherwise make the host wait.  A device runs one by its number for each matrix
 * of a stack (`scalars` of device.h); the build gives this header to the devices, which compile
 * ms_scalar_run() into their kernel and know nothing else of it.
 *
 * For a row `name` of scalar_list.h there are ms_name_in and ms_name_out, the numbers of one
 * matrix; ms_name_nums and ms_name_vecs, the operands of a call; and ms_scalar_name(), the call.
 *
 * Numbers that occur in many programs, for a matrix M with threshold D:
 *     s            the power of two that brings M and D to at most 1
 *     scale        the power of two on M where it is stored in 16 bits (ms_scaled_mat)
 *     sd, sd2      s D, and (s D)^2 or at least the smallest normal number
 *     G            the Gram matrix of scale M
 *     A            (s / scale)^2 G + (s D)^2 I
 *     w            A / N, N being |A|_F or a power of two near it, whose square is norm2
 *     mean         m = tr w / r, of which B = w - m I is free */
#ifndef MS_LINALG_SCALAR_PROGRAMS_H
#define MS_LINALG_SCALAR_PROGRAMS_H

#include <float.h>
#include <math.h>

#include "core/fn.h"
#include "device/device.h"
#include "linalg/poly_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A clip is known by its sharpness p: it makes s / (1 + (s / D)^p)^(1/p) of a singular value s, the
 * soft clip D s / sqrt(s^2 + D^2) for p = 2 and the hard clip min(s, D) for p = infinity.  Where an
 * operator may also be the polar factor, which makes 1 of every s > 0, MS_POLAR stands for it. */
#define MS_POLAR 0.0
#define MS_SOFT  2.0
#define MS_HARD  ((double)INFINITY)

enum {
#define X(name, in, out) MS_SCALAR_##name,
#include "linalg/scalar_list.h"
#undef X
    MS_SCALAR_PROGRAM_COUNT
};

#define MS_MEMBERS(...) __VA_ARGS__
#define X(name, in, out)              \
    typedef struct ms_##name##_in {   \
        double MS_MEMBERS in;         \
    } ms_##name##_in;                 \
    typedef struct ms_##name##_out {  \
        double MS_MEMBERS out;        \
    } ms_##name##_out;                \
    typedef struct ms_##name##_nums { \
        ms_num MS_MEMBERS in;         \
    } ms_##name##_nums;               \
    typedef struct ms_##name##_vecs { \
        ms_vec MS_MEMBERS out;        \
    } ms_##name##_vecs;
#include "linalg/scalar_list.h"
#undef X

/* What pick_stage and pick_ends choose from: a row for each plan, by its u_d, which falls from row
 * to row. */
typedef struct ms_stage_table {
    double            u_d[MS_POLY_CANDIDATES];
    ms_pick_stage_out row[MS_POLY_CANDIDATES];
} ms_stage_table;

typedef struct ms_ends_table {
    double           u_d[MS_POLY_CANDIDATES];
    ms_pick_ends_out row[MS_POLY_CANDIDATES];
} ms_ends_table;

/* The plan of a reduction: c_0..c_4 of its two stages. */
typedef struct ms_reduction_table {
    double c[2][MS_STAGE_Q + 1];
} ms_reduction_table;

/* ---- the programs ---------------------------------------------------------------------------- */

/* Gives 2^-ceil(log2 max(absmax, D)), kept where both it and its inverse are normal numbers. */
MS_FN double ms_pow2_scale_of(double absmax, double threshold)
{
    const double larger = absmax > threshold ? absmax : threshold;
    int          e      = 0;
    if (!(larger > 0.0)) return 1.0;
    if (frexp(larger, &e) == 0.5) e--;
    if (e > 1022) e = 1022;
    if (e < -1022) e = -1022;
    return ldexp(1.0, -e);
}

MS_FN ms_pow2_scale_out ms_eval_pow2_scale(ms_pow2_scale_in in)
{
    const ms_pow2_scale_out out = { ms_pow2_scale_of(in.absmax, in.threshold) };
    return out;
}

MS_FN ms_scale_threshold_out ms_scale_threshold_of(double tiny, double s, double threshold)
{
    ms_scale_threshold_out out;
    out.sd  = s * threshold;
    out.sd2 = out.sd * out.sd > tiny ? out.sd * out.sd : tiny;
    return out;
}

MS_FN ms_scale_threshold_out ms_eval_scale_threshold(ms_scale_threshold_in in)
{
    return ms_scale_threshold_of(in.tiny, in.s, in.threshold);
}

/* The scale of m_weight M + g_weight G from bounds of both, and the weights times it, which have to
 * be numbers in float32 too: numbers so small have few digits in float32 anyway.  An average of
 * zeros takes the scale of D. */
MS_FN ms_average_scale_out ms_eval_average_scale(ms_average_scale_in in)
{
    const double absmax =
        (in.m_weight != 0.0 ? in.m_weight * in.m_absmax : 0.0) + in.g_weight * in.g_absmax;
    const double         scale = ms_pow2_scale_of(absmax > 0.0 ? absmax : in.threshold, 0.0);
    ms_average_scale_out out;
    out.scale  = scale < 0x1p120 ? scale : 0x1p120;
    out.m_coef = out.scale * in.m_weight;
    out.g_coef = out.scale * in.g_weight;
    return out;
}

/* For input that has its scale already, 1 / scale stands in for absmax. */
MS_FN ms_scaled_input_out ms_eval_scaled_input(ms_scaled_input_in in)
{
    const double                 s   = ms_pow2_scale_of(1.0 / in.scale, in.threshold);
    const ms_scale_threshold_out t   = ms_scale_threshold_of(in.tiny, s, in.threshold);
    const ms_scaled_input_out    out = { in.scale, s, t.sd, t.sd2 };
    return out;
}

/* norm + eps or, with a floor, the larger of them. */
MS_FN double ms_safe_norm(double norm, double eps, double is_floor)
{
    if (is_floor == 0.0) return norm + eps;
    return norm > eps ? norm : eps;
}

/* 1 / (factor |X|_F + eps), or 0 for a matrix of zeros; is_floor: 1 / max(factor |X|_F, eps). */
MS_FN ms_inv_norm_out ms_eval_inv_norm(ms_inv_norm_in in)
{
    const double          norm = ms_safe_norm(in.factor * sqrt(in.sumsq), in.eps, in.is_floor);
    const ms_inv_norm_out out  = { in.sumsq == 0.0 ? 0.0 : 1.0 / norm };
    return out;
}

/* 1 / |x|, or 0 where |x| <= eps |fresh|: then x is only what rounding left. */
MS_FN ms_inv_residual_out ms_eval_inv_residual(ms_inv_residual_in in)
{
    const ms_inv_residual_out out = { sqrt(in.sumsq) > in.eps * sqrt(in.fresh_sumsq)
                                          ? 1.0 / sqrt(in.sumsq)
                                          : 0.0 };
    return out;
}

#include "linalg/step_programs.h"

/* factor |M|_F / sqrt(rank), from |scale M|_F^2, or 1 where that is 0: there is nothing to clip
 * then, and the caller may divide by the result. */
MS_FN ms_rms_out ms_eval_rms(ms_rms_in in)
{
    ms_rms_out out = { in.factor * sqrt(in.sumsq / in.rank) / in.scale };
    if (!(out.threshold > 0.0)) out.threshold = 1.0;
    return out;
}

/* The factor D / sqrt(alpha) on the result, alpha being that of s M, is split into gain * residual.
 * `gain` goes on the coefficients of the last polynomial and must not underflow there in any
 * precision; `residual` is a power of two, nearly always 1.  The gain is s times the factor, which
 * has the same bits for c M and c D; where that is tiny, only its mantissa counts.
 *
 * max_exponent > 0: the polynomial has 16 bits and is applied to scale M.  All of
 *     s / scale / out_scale * D / sqrt(alpha)
 * goes on the coefficients if it lies between 2^-max_exponent and 2^max_exponent: then `residual`
 * is 1 and takes no pass over the result, which `out_scale`, a power of two, is on already.
 * Otherwise what goes on the coefficients differs from that by a power of 16, so that its fourth
 * root has the same digits. */
typedef struct ms_gain_split {
    double gain, residual;
} ms_gain_split;

MS_FN ms_gain_split ms_split_gain(double alpha, double s, double threshold, double scale,
                                  double max_exponent, double out_scale)
{
    const double  factor = threshold / sqrt(alpha);
    int           e = 0, e_s = 0, e_scale = 0, e_out = 0;
    ms_gain_split split;
    if (max_exponent > 0.0) {
        const double mantissa = frexp(factor, &e);
        (void)frexp(s, &e_s);
        (void)frexp(scale, &e_scale);
        (void)frexp(out_scale, &e_out);
        e += e_s - e_scale - (e_out - 1); /* powers of two, whose quotient may not be a number */
        const int kept = e >= -max_exponent && e <= max_exponent ? e : (e % 4 + 4) % 4;
        const int left = e - kept; /* above 1023 only where all is 0, which must stay so */
        split.gain     = ldexp(mantissa, kept);
        split.residual = ldexp(1.0, left > 1023 ? 1023 : left);
        return split;
    }
    split.gain     = factor * s;
    split.residual = 1.0 / s;
    if (split.gain >= 0x1p-40) return split;
    split.gain     = ldexp(frexp(factor, &e), -40);
    split.residual = ldexp(1.0, e + 40);
    return split;
}

/* alpha = |A|_F, the paper's bound, and u_min = s D / sqrt(alpha), a lower bound on u. */
MS_FN ms_alpha_fro_out ms_eval_alpha_fro(ms_alpha_fro_in in)
{
    const double        alpha = sqrt(in.norm2);
    const ms_gain_split split =
        ms_split_gain(alpha, in.s, in.threshold, in.scale, in.max_exponent, in.out_scale);
    const ms_alpha_fro_out out = { alpha, in.sd / sqrt(alpha), split.gain, split.residual };
    return out;
}

/* alpha = a N with the bound C4 from fourth moments.  Both of these are certain:
 *     |lambda_max - m|^4 <= sum (lambda_i - m)^4 = |B B|_F^2 = square_sumsq / square_scale^2
 *     lambda_max <= |w|_F
 * max_lambda is what else is known of the eigenvalues of A, margin included. */
MS_FN ms_alpha_c4_out ms_eval_alpha_c4(ms_alpha_c4_in in)
{
    const double        m     = in.trace / in.rank;
    const double        bound = m + sqrt(sqrt(in.square_sumsq) / in.square_scale);
    const double        n     = sqrt(in.norm2);
    const double        known = in.max_lambda / n, found = bound < in.fro ? bound : in.fro;
    const double        a = known < found * (1.0 + in.margin) ? known : found * (1.0 + in.margin);
    const double        alpha = a * n;
    const ms_gain_split split =
        ms_split_gain(alpha, in.s, in.threshold, in.scale, in.max_exponent, in.out_scale);
    const ms_alpha_c4_out out = { 1.0 / a, alpha, in.sd / sqrt(alpha), split.gain, split.residual };
    return out;
}

/* w and B from the norm and the trace of G: the coefficient of G in both, the diagonal of either,
 * and |w|_F.  (s D)^2 counts as at least min_ratio |A|_F.  All terms of |A|_F^2 are positive, and m
 * is taken off the diagonal before anything is rounded.  pow2_norm: N is a power of two, so that
 * what is rounded of A / N has the same digits, whatever A was thought to be. */
MS_FN ms_normalise_gram_out ms_normalise_gram_of(double rank, double min_ratio, bool pow2_norm,
                                                 double sumsq, double trace, double scale, double s,
                                                 double sd2)
{
    /* a Gram matrix of zeros has a scale of its own, which may be far from that of D */
    const double          ratio = trace > 0.0 ? s / scale : 0.0, c = ratio * ratio;
    double                fro = 0.0;
    ms_normalise_gram_out out;
    for (int round = 0; round < 2; round++) { /* the second time with sd2 as it has to be */
        fro = sqrt(c * c * sumsq + 2.0 * c * sd2 * trace + rank * sd2 * sd2);
        if (sd2 < min_ratio * fro) sd2 = min_ratio * fro;
    }
    const double n   = pow2_norm ? 1.0 / ms_pow2_scale_of(fro, 0.0) : fro;
    out.norm2        = n * n;
    out.trace        = (c * trace + rank * sd2) / n;
    out.mean         = out.trace / rank;
    out.gram_coef    = c / n;
    out.diag         = sd2 / n;
    out.shifted_diag = -out.gram_coef * (trace / rank);
    out.fro          = fro / n;
    return out;
}

MS_FN ms_normalise_gram_out ms_eval_normalise_gram(ms_normalise_gram_in in)
{
    return ms_normalise_gram_of(in.rank, in.min_ratio, in.pow2_norm != 0.0, in.gram_sumsq,
                                in.gram_trace, in.scale, in.s, in.sd2);
}

/* The coefficients of B = gram_coef G + diag I from the cached norm and trace of G, which are in
 * units of M; of a G that nobody has seen yet, 1 and 0, so that B is G itself. */
MS_FN ms_load_gram_norms_out ms_eval_load_gram_norms(ms_load_gram_norms_in in)
{
    const double                 square = in.scale * in.scale;
    const double                 s      = ms_pow2_scale_of(1.0 / in.scale, in.threshold);
    const ms_scale_threshold_out t      = ms_scale_threshold_of(in.tiny, s, in.threshold);
    ms_load_gram_norms_out       out    = { in.scale, s, t.sd, t.sd2, 0.0, 1.0, 0.0 };
    if (!(in.gram_sumsq > 0.0 && in.gram_trace > 0.0)) return out;
    const ms_normalise_gram_out a =
        ms_normalise_gram_of(in.rank, 0.0, true, in.gram_sumsq * square * square,
                             in.gram_trace * square, in.scale, s, t.sd2);
    out.norm2     = a.norm2;
    out.gram_coef = a.gram_coef;
    out.diag      = a.shifted_diag;
    return out;
}

/* From the norm and the trace of B = gram_coef G + diag I, made by cached numbers, what G is.  The
 * cached numbers will do while N is what it would be, within a factor of 2, and the mean of G's
 * eigenvalues is right within a quarter: diag_fix then corrects the diagonal, which was rounded
 * with the error.  Otherwise `redo` is 1, and gram_coef and diag are those to make B with again. */
MS_FN ms_revalidate_gram_norms_out ms_eval_revalidate_gram_norms(ms_revalidate_gram_norms_in in)
{
    const double r = in.rank, f = in.gram_coef, h = in.diag, n2 = in.norm2, scale = in.scale;
    const double sum = (in.b_trace - r * h) / f, trace = sum > 0.0 ? sum : 0.0,
                 mean      = f * trace / r;
    const double sq        = (in.b_sumsq - 2.0 * h * in.b_trace + r * h * h) / f / f;
    const double min_sumsq = trace * trace / r, sumsq = sq > min_sumsq ? sq : min_sumsq;
    const ms_normalise_gram_out a =
        ms_normalise_gram_of(r, 0.0, true, sumsq, trace, scale, in.s, in.sd2);
    const bool good = a.norm2 <= 4.0 * n2 && a.norm2 >= 0.25 * n2 && fabs(mean + h) <= 0.25 * mean;
    ms_revalidate_gram_norms_out out;
    out.redo       = good ? 0.0 : 1.0;
    out.gram_coef  = a.gram_coef;
    out.diag       = a.shifted_diag;
    out.diag_fix   = good ? -(mean + h) : 0.0;
    out.norm2      = good ? n2 : a.norm2;
    out.mean       = good ? mean + in.sd2 / sqrt(n2) : a.mean;
    out.trace      = out.mean * r;
    out.fro        = good ? a.fro * sqrt(a.norm2 / n2) : a.fro;
    out.gram_sumsq = sumsq / scale / scale / scale / scale;
    out.gram_trace = trace / scale / scale;
    return out;
}

/* The coefficients of the first n_steps of Muon, from the trace of gram_scale X X^T.  With
 *     y = 1 / (norm_factor sqrt(trace / gram_scale) + eps scale), or 0 for a matrix of zeros,
 *     rho residual = y / out_scale, residual a power of two,
 * they are y^2 / gram_scale / ap_scale on P (A P); y^2 / gram_scale times b, and its square times
 * c, of the first step; rho times a, b and c of the last, which is the first if n_steps is 1.  rho
 * has at most max_exponent binary places on either side of 1.  Where the trace is below min_trace,
 * all that is for X times a power of two: `boost`, and is_boosted is 1. */
MS_FN ms_quintic_coefs_out ms_eval_quintic_coefs(ms_quintic_coefs_in in)
{
    const double         g = in.gram_scale, most = in.max_exponent;
    int                  e = 0;
    ms_quintic_coefs_out out;
    (void)frexp(in.trace, &e); /* it is below 2^e; times the power of two from 2^12 to 2^14 */
    const double boost = in.trace > 0.0 && in.trace < in.min_trace ? ldexp(1.0, (14 - e) / 2) : 1.0;
    const double trace = in.trace * boost * boost, scale = in.scale * boost;
    const double y      = trace == 0.0 ? 0.0
                                       : 1.0 / ms_safe_norm(in.norm_factor * sqrt(trace / g),
                                                            in.eps * scale, in.is_floor);
    const double square = y * y / g, unit = in.n_steps < 1.5 ? square : 1.0;
    double       rho  = frexp(y / in.out_scale, &e);
    const int    kept = e > most ? (int)most : e < -most ? -(int)most : e;
    rho               = ldexp(rho, kept);
    out.pap_coef      = square / in.ap_scale;
    out.first_b       = in.first_b * square;
    out.first_c       = in.first_c * square * square;
    out.last_a        = in.last_a * rho;
    out.last_b        = in.last_b * rho * unit;
    out.last_c        = in.last_c * rho * unit * unit;
    out.residual      = ldexp(1.0, e - kept);
    out.boost         = boost;
    out.is_boosted    = boost != 1.0;
    out.scale         = scale;
    return out;
}

/* The first plan with u_d <= u_min, or else the last; of a matrix that has been reduced, from row
 * `loose` on. */
MS_FN int ms_pick_row(const double *u_d, double n_plans, double loose, double reductions,
                      double u_min)
{
    int row = reductions > 0.0 ? (int)loose : 0;
    while (row < (int)n_plans - 1 && !(u_min >= u_d[row]))
        row++;
    return row;
}

MS_FN ms_pick_stage_out ms_eval_pick_stage(ms_pick_stage_in in, const void *table)
{
    const ms_stage_table *t = (const ms_stage_table *)table;
    return t->row[ms_pick_row(t->u_d, in.n_plans, in.loose, in.reductions, in.u_min)];
}

MS_FN ms_pick_ends_out ms_eval_pick_ends(ms_pick_ends_in in, const void *table)
{
    const ms_ends_table *t = (const ms_ends_table *)table;
    return t->row[ms_pick_row(t->u_d, in.n_plans, in.loose, in.reductions, in.u_min)];
}

/* The first stage as polynomials of B and square_scale B B.  With W = w_coef (B + m I) and
 * V = v1 W + v0 I:
 *     q = 4:  T = (V V + q0 I)^2 + t1 W + t0 I
 *     q = 2:  T = V V + t0 I
 *     q = 1:  T = t1 W + t0 I
 * c2, c1, c0 make the inner square, or T itself where q is not 4; t1 and t0 are the rest outside
 * the square.  A single stage has the gain on it. */
MS_FN ms_first_stage_out ms_eval_first_stage(ms_first_stage_in in)
{
    const double       gain = in.n_stages < 1.5 ? in.gain : 1.0, q = in.q;
    const double       root = q > 3.0 ? sqrt(gain) : gain; /* on the square */
    const double       v1 = in.v1 * in.w_coef, v0 = in.v0 + v1 * in.mean;
    const double       t1 = in.t1 * in.w_coef * gain;
    const double       t0 = (in.t0 + in.t1 * in.w_coef * in.mean) * gain;
    ms_first_stage_out out;
    out.c2     = q > 1.5 ? v1 * v1 * root / in.square_scale : 0.0;
    out.c1     = q > 1.5 ? 2.0 * v1 * v0 * root : t1;
    out.c0     = q > 3.0 ? (v0 * v0 + in.q0) * root : q > 1.5 ? v0 * v0 * root + t0 : t0;
    out.t1     = t1;
    out.t0     = t0;
    out.w_mean = in.w_coef * in.mean;
    out.e1     = in.e1 * in.w_coef / in.wt_scale;
    return out;
}

/* The last stage, with the gain on it, from E = e1 W + e0 I.
 *     q = 4:  E is V, so Q = E E + q0 I and T = Q Q + z1 E + z0 I, W being (E - e0 I) / e1
 *     q = 1:  E is T */
MS_FN ms_last_stage_out ms_eval_last_stage(ms_last_stage_in in)
{
    const double      gain = in.gain, root = sqrt(gain), root4 = sqrt(root);
    const bool        square = in.q > 3.0;
    ms_last_stage_out out;
    out.e1 = square ? in.v1 * root4 : in.t1 * gain;
    out.e0 = square ? in.v0 * root4 : in.t0 * gain;
    out.q0 = in.q0 * root;
    out.z1 = square ? in.t1 * gain / out.e1 : 0.0;
    out.z0 = square ? in.t0 * gain - out.z1 * out.e0 : 0.0;
    return out;
}

/* E = e1 W + e0 I that a stage hands on: that of the last stage if it is next, else W itself. */
MS_FN ms_handoff_out ms_eval_handoff(ms_handoff_in in)
{
    const bool           next_is_last = in.n_stages < in.stage + 1.5;
    const ms_handoff_out out          = { next_is_last ? in.e1 : 1.0, next_is_last ? in.e0 : 0.0 };
    return out;
}

/* What the plan of a reduction makes of u: the factor p(u) / u, and nu = -d log of it / d log u. */
MS_FN void ms_reduction_factor(const ms_reduction_table *t, double u, double *factor, double *nu)
{
    double x = u, slope = 1.0; /* d log x / d log u */
    for (int i = 0; i < 2; i++) {
        double w = x * x, sum = 0.0, diff = 0.0; /* T(w), and w T'(w) by Horner's rule */
        for (int j = MS_STAGE_Q; j >= 0; j--) {
            sum  = sum * w + t->c[i][j];
            diff = diff * w + j * t->c[i][j];
        }
        slope *= 1.0 + 2.0 * diff / sum;
        x *= sum;
    }
    *factor = x / u;
    *nu     = 1.0 - slope;
}

/* Chooses the reduction of a matrix (soft_reduction.c), or none where u_min >= reach: then mask is
 * 0 and all else is as it was.  M' is stored times a power of two, such that no singular value is
 * above 16 where the factor that brings that about, gain on Z, has at most max_exponent binary
 * places on either side of 1. */
MS_FN ms_begin_reduction_out ms_eval_begin_reduction(ms_begin_reduction_in in, const void *table)
{
    ms_begin_reduction_out out = { 0.0,  0.0,   in.mean, 1.0,          in.scale,
                                   in.s, in.sd, in.sd2,  in.threshold, INFINITY };
    double                 q, nu;
    int                    e = 0;
    if (!(in.u_min < in.reach && in.alpha > 0.0)) return out;
    const double d2 = in.sd * in.sd, at_least = in.min_u * in.min_u * in.alpha;
    const double shift = in.min_shift * in.min_shift * d2; /* D_1^2 */
    const double d1_2 = shift > at_least ? shift : at_least, alpha = in.alpha + d1_2 - d2;
    ms_reduction_factor((const ms_reduction_table *)table, sqrt(d1_2 / alpha), &q, &nu);
    const double norm = sqrt(alpha) / in.s / q; /* of M' at most */
    const double d    = in.threshold / sqrt(1.0 - nu * (d2 / d1_2));
    /* Z M q^-1 scale' = gain Z (scale M) */
    double       scale             = 16.0 * ms_pow2_scale_of(norm, 0.0);
    const double gain              = frexp(scale / in.scale / q, &e);
    const int    kept              = e > in.max_exponent    ? (int)in.max_exponent
                                     : e < -in.max_exponent ? -(int)in.max_exponent
                                                            : e;
    scale                          = ldexp(scale, kept - e);
    out.mask                       = 1.0;
    out.inv_alpha                  = sqrt(in.norm2) / alpha;
    out.mean                       = in.mean + (d1_2 - d2) / sqrt(in.norm2);
    out.gain                       = ldexp(gain, kept);
    out.scale                      = scale;
    out.s                          = ms_pow2_scale_of(norm, d);
    const ms_scale_threshold_out t = ms_scale_threshold_of(in.tiny, out.s, d);
    out.sd                         = t.sd;
    out.sd2                        = t.sd2;
    out.threshold                  = d;
    out.max_lambda                 = out.s * norm * out.s * norm * (1.0 + in.margin) + t.sd2;
    return out;
}

/* The numbers of the phase that has begun where the mask is 1, else those of before. */
MS_FN ms_end_reduction_out ms_eval_end_reduction(ms_end_reduction_in in)
{
    const ms_end_reduction_out is  = { in.norm2, in.mean, in.inv_alpha, in.alpha,
                                       in.u_min, in.gain, in.residual,  in.reductions + 1.0 };
    const ms_end_reduction_out was = { in.old_norm2, in.old_mean, in.old_inv_alpha, in.old_alpha,
                                       in.old_u_min, in.old_gain, in.old_residual,  in.reductions };
    return in.mask != 0.0 ? is : was;
}

/* Which matrices take part in what, as 0 or 1, for plans of n stages whose first has T of degree q:
 * square and no_square are q = 4 or not; single and several n = 1 or not; second and third whether
 * stage 2 or 3 is neither first nor last; even and odd are n = 2 or 4, and n = 3. */
MS_FN ms_stage_masks_out ms_eval_stage_masks(ms_stage_masks_in in)
{
    const double       n      = in.n_stages;
    const bool         square = in.q > 3.0, several = n > 1.5, odd = n > 2.5 && n < 3.5;
    ms_stage_masks_out out;
    out.square         = square;
    out.no_square      = !square;
    out.single         = !several;
    out.several        = several;
    out.several_square = several && square;
    out.second         = n > 2.5;
    out.third          = n > 3.5;
    out.odd            = odd;
    out.even           = several && !odd;
    return out;
}

/* Gives (1 + q^p)^(-1/p) for q in [0, 1]: what a clip of sharpness p falls short of the hard clip
 * by, where q is s / D or its inverse. */
MS_FN double ms_clip_bend(double sharpness, double q)
{
    if (!(sharpness < 1e300)) return 1.0;
    return pow(1.0 + pow(q, sharpness), -1.0 / sharpness);
}

/* A matrix with one row has one singular value, |s x|: the operators are a factor on it, here in
 * two, since their product may be too small for float64 where the result is not. */
MS_FN ms_vector_gain_out ms_eval_vector_gain(ms_vector_gain_in in)
{
    const double       norm = sqrt(in.sumsq);
    ms_vector_gain_out out;
    out.first  = in.s;
    out.second = norm > 0.0 ? 1.0 / norm : 0.0;
    if (in.sharpness == MS_POLAR) return out;
    if (in.sharpness == MS_SOFT) {
        out.second = in.threshold / hypot(norm, in.sd);
    } else if (norm > in.sd) {
        out.second = in.threshold / norm * ms_clip_bend(in.sharpness, in.sd / norm);
    } else {
        out.first  = 1.0; /* a hard clip leaves every bit as it is */
        out.second = ms_clip_bend(in.sharpness, norm / in.sd);
    }
    return out;
}

/* D^2 (M M^T + D^2 I)^-1 is (c Z)^2 where Z M c is the soft clip; gives the coefficient of Z Z^T in
 * I - 2 (c Z)^2, c being all that is multiplied on after Z X (ms_split_gain). */
MS_FN ms_sharp_coef_out ms_eval_sharp_coef(ms_sharp_coef_in in)
{
    const double            c   = in.scale * in.residual * in.out_scale;
    const ms_sharp_coef_out out = { -2.0 * c * c };
    return out;
}

/* ---- what devices and callers see ------------------------------------------------------------ */

/* Runs a program on the numbers of one matrix.  It reads all of `in` before it writes `out`. */
MS_FN void ms_scalar_run(int program, const double *table, const double *in, double *out)
{
    switch (program) {
#define X(name, ins, outs)                                                     \
    case MS_SCALAR_##name:                                                     \
        *(ms_##name##_out *)out = ms_eval_##name(*(const ms_##name##_in *)in); \
        break;
#define XT(name, ins, outs)                                                   \
    case MS_SCALAR_##name:                                                    \
        *(ms_##name##_out *)out =                                             \
            ms_eval_##name(*(const ms_##name##_in *)in, (const void *)table); \
        break;
#include "linalg/scalar_list.h"
#undef X
    default: break;
    }
}

/* ms_scalar_name(d, in, out) queues the program for each matrix; an out may be an in.  Programs
 * with a table take it before `in`. */
#define MS_CALL(name, table, bytes)                                     \
    const ms_scalar_call call = { MS_SCALAR_##name,                     \
                                  (const double *)(table),              \
                                  (int)((bytes) / sizeof(double)),      \
                                  (const ms_num *)&in,                  \
                                  (int)(sizeof in / sizeof(ms_num)),    \
                                  (const ms_vec *)&out,                 \
                                  (int)(sizeof out / sizeof(ms_vec)) }; \
    return d->ops->scalars(d, &call);
#define X(name, ins, outs)                                                         \
    static inline musec_status ms_scalar_##name(ms_device *d, ms_##name##_nums in, \
                                                ms_##name##_vecs out)              \
    {                                                                              \
        MS_CALL(name, NULL, 0)                                                     \
    }
#define XT(name, ins, outs)                                                                    \
    static inline musec_status ms_scalar_##name(ms_device *d, const void *table, size_t bytes, \
                                                ms_##name##_nums in, ms_##name##_vecs out)     \
    {                                                                                          \
        MS_CALL(name, table, bytes)                                                            \
    }
#include "linalg/scalar_list.h"
#undef X

#ifdef __cplusplus
}
#endif
#endif
