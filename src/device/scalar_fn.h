/* scalar_fn.h - the per-matrix scalar programs, written once for all devices.
 *
 * They are the arithmetic between two reductions and the next element op: a few float64 numbers per
 * matrix that would otherwise make the host wait.  Names and the numbers
 * they take: scalar_list.h. */
#ifndef MS_DEVICE_SCALAR_FN_H
#define MS_DEVICE_SCALAR_FN_H

#include <float.h>
#include <math.h>

#include "core/fn.h"
#include "device/device.h"

#define MS_SCALAR_MAX_IO 16 /* most numbers in or out of one program */

/* What STAGE_MASKS gives, in this order. */
enum {
    MS_STAGE_MASK_SQUARE,         /* the first stage has q = 4: its inner square is combined, */
    MS_STAGE_MASK_NO_SQUARE,      /* or its T */
    MS_STAGE_MASK_SINGLE,         /* n = 1 */
    MS_STAGE_MASK_SEVERAL,        /* n >= 2 */
    MS_STAGE_MASK_SEVERAL_SQUARE, /* n >= 2 and q = 4 */
    MS_STAGE_MASK_SECOND,         /* n >= 3: stage 2 is in the middle */
    MS_STAGE_MASK_THIRD,          /* n >= 4: so is stage 3 */
    MS_STAGE_MASK_EVEN,           /* n = 2 or 4 */
    MS_STAGE_MASK_ODD,            /* n = 3 */
    MS_STAGE_MASKS
};

/* s = 2^-ceil(log2 max(absmax, D)), kept where both s and 1/s are normal numbers. */
MS_FN double ms_scalar_pow2_scale(double absmax, double threshold)
{
    const double top = absmax > threshold ? absmax : threshold;
    int          e   = 0;
    if (!(top > 0.0)) return 1.0;
    if (frexp(top, &e) == 0.5) e--;
    if (e > 1022) e = 1022;
    if (e < -1022) e = -1022;
    return ldexp(1.0, -e);
}

MS_FN void ms_scalar_threshold(double tiny, double s, double threshold, double *out)
{
    out[0] = s * threshold;
    out[1] = out[0] * out[0] > tiny ? out[0] * out[0] : tiny;
}

/* The scale of an average, from bounds of its terms, and the average's coefficients times it,
 * which have to be numbers in float32 too: of what is so small, float32 itself has few digits.
 * An average of zeros has the scale of D. */
MS_FN void ms_scalar_average(const double *params, const double *in, double *out)
{
    const double top = (params[0] != 0.0 ? params[0] * in[0] : 0.0) + params[1] * in[1];
    const double own = ms_scalar_pow2_scale(top > 0.0 ? top : in[2], 0.0);
    out[0]           = own < 0x1p120 ? own : 0x1p120;
    out[1]           = out[0] * params[0];
    out[2]           = out[0] * params[1];
}

/* in: s, D, own, reach, unit.  The factor D / sqrt(alpha) on the result (alpha being that of s M)
 * as gain * rest: `gain` rides on the coefficients of the last polynomial and must not underflow
 * there in any precision, `rest` is a power of two, nearly always 1.  gain is s times the factor,
 * which is the same for c M and c D, and so are its bits; where that is tiny, only its mantissa
 * counts.  reach > 0: the polynomial has 16 bits and is applied to own M, and all of s / own / unit
 * times the factor rides if it is from 2^-reach to 2^reach: then `rest` takes no pass over the
 * result, which `unit`, a power of two, is on already.  Else what rides differs from that by a
 * power of 16, so that its fourth root has the same digits. */
MS_FN void ms_scalar_gain(double alpha, const double *in, double *gain, double *rest)
{
    const double s = in[0], own = in[2], reach = in[3], factor = in[1] / sqrt(alpha);
    int          e = 0, e_s = 0, e_own = 0, e_unit = 0;
    if (reach > 0.0) {
        const double mantissa = frexp(factor, &e);
        (void)frexp(s, &e_s);
        (void)frexp(own, &e_own);
        (void)frexp(in[4], &e_unit);
        e += e_s - e_own - (e_unit - 1); /* powers of two, whose quotient may not be a number */
        const int kept = e >= -reach && e <= reach ? e : (e % 4 + 4) % 4;
        const int left = e - kept; /* above 1023 only where all is 0, which must stay so */
        *gain          = ldexp(mantissa, kept);
        *rest          = ldexp(1.0, left > 1023 ? 1023 : left);
        return;
    }
    *gain = factor * s;
    *rest = 1.0 / s;
    if (*gain >= 0x1p-40) return;
    *gain = ldexp(frexp(factor, &e), -40);
    *rest = ldexp(1.0, e + 40);
}

/* alpha = a N with the bound of fourth moments, w = A / N, m = tr w / r, both certain:
 *     |lambda_max - m|^4 <= sum (lambda_i - m)^4 = |(w - m I)^2|_F^2 = quart / lift^2,
 *     lambda_max <= |w|_F
 * params: r, margin, lift. */
MS_FN void ms_scalar_alpha_c4(const double *params, const double *in, double *out)
{
    const double m = in[1] / params[0], most = in[2];
    const double bound = m + sqrt(sqrt(in[3]) / params[2]);
    const double a     = (bound < most ? bound : most) * (1.0 + params[1]);
    const double alpha = a * sqrt(in[0]);
    out[0]             = 1.0 / a;
    out[1]             = alpha;
    out[2]             = in[4] / sqrt(alpha);
    ms_scalar_gain(alpha, in + 5, &out[3], &out[4]);
}

/* All terms of |A|_F^2 are positive, and m is taken off the diagonal before anything is rounded.
 * params: r, least, and whether N is a power of two: then what is rounded of A / N has the same
 * digits, whatever A was thought to be. */
MS_FN void ms_scalar_gram(const double *params, const double *in, double *out)
{
    /* a Gram matrix of zeros has a scale of its own, which may be far from that of D */
    const double r = params[0], ratio = in[1] > 0.0 ? in[3] / in[2] : 0.0, c = ratio * ratio;
    double       d2 = in[4], fro = 0.0;
    for (int round = 0; round < 2; round++) { /* the second with d2 as it has to be */
        fro = sqrt(c * c * in[0] + 2.0 * c * d2 * in[1] + r * d2 * d2);
        if (d2 < params[1] * fro) d2 = params[1] * fro;
    }
    const double n = params[2] != 0.0 ? 1.0 / ms_scalar_pow2_scale(fro, 0.0) : fro;
    out[0]         = n * n;
    out[1]         = (c * in[1] + r * d2) / n;
    out[2]         = out[1] / r;
    out[3]         = c / n;
    out[4]         = d2 / n;
    out[5]         = -out[3] * (in[1] / r);
    out[6]         = fro / n;
}

/* B = c / N (G - tr G / r I), with what G was when it was last seen; of one that nobody has seen
 * yet, G itself, to see it. */
MS_FN void ms_scalar_recall(const double *params, const double *in, double *out)
{
    const double own = in[0], square = own * own, how[] = { params[1], 0.0, 1.0 };
    double       a[7];
    out[0] = own;
    out[1] = ms_scalar_pow2_scale(1.0 / own, in[1]);
    ms_scalar_threshold(params[0], out[1], in[1], out + 2);
    out[4] = 0.0;
    out[5] = 1.0;
    out[6] = 0.0;
    if (!(in[2] > 0.0 && in[3] > 0.0)) return;
    const double seen[] = { in[2] * square * square, in[3] * square, own, out[1], out[3] };
    ms_scalar_gram(how, seen, a);
    out[4] = a[0];
    out[5] = a[3];
    out[6] = a[5];
}

/* From B = f G + h I, made by numbers of the last time, what G is.  They will do while N is what
 * it would be, within a factor of 2, and the mean of G's eigenvalues is right within a quarter:
 * what it is off by is put right on the diagonal, which was rounded with it. */
MS_FN void ms_scalar_renorm(double r, const double *in, double *out)
{
    const double f = in[2], h = in[3], n2 = in[4], own = in[5], d2 = in[7];
    const double sum = (in[1] - r * h) / f, tr = sum > 0.0 ? sum : 0.0, mean = f * tr / r;
    const double sq = (in[0] - 2.0 * h * in[1] + r * h * h) / f / f, least = tr * tr / r;
    const double g[] = { sq > least ? sq : least, tr, own, in[6], d2 }, how[] = { r, 0.0, 1.0 };
    double       a[7];
    ms_scalar_gram(how, g, a);
    const bool good = a[0] <= 4.0 * n2 && a[0] >= 0.25 * n2 && fabs(mean + h) <= 0.25 * mean;
    out[0]          = good ? 0.0 : 1.0;
    out[1]          = a[3];
    out[2]          = a[5];
    out[3]          = good ? -(mean + h) : 0.0;
    out[4]          = good ? n2 : a[0];
    out[6]          = good ? mean + d2 / sqrt(n2) : a[2];
    out[5]          = out[6] * r;
    out[7]          = good ? a[6] * sqrt(a[0] / n2) : a[6];
    out[8]          = g[0] / own / own / own / own;
    out[9]          = tr / own / own;
}

/* rho has no more than `reach` binary places on either side of 1.  Of zeros the square might be
 * infinite, and times 0 a NaN. */
MS_FN void ms_scalar_quintic(const double *params, const double *in, double *out)
{
    const double g = params[1], reach = params[4];
    int          e = 0;
    (void)frexp(in[0], &e); /* tr is below 2^e: behind the power of two below 2^14, 2^12 at least */
    const double up = in[0] > 0.0 && in[0] < params[11] ? ldexp(1.0, (14 - e) / 2) : 1.0;
    const double tr = in[0] * up * up, own = in[2] * up;
    const double y      = tr == 0.0 ? 0.0 : 1.0 / (in[1] * sqrt(tr / g) + params[0] * own);
    const double square = y * y / g, unit = params[5] < 1.5 ? square : 1.0;
    double       rho  = frexp(y / params[2], &e);
    const int    kept = e > reach ? (int)reach : e < -reach ? -(int)reach : e;
    rho               = ldexp(rho, kept);
    out[0]            = square / params[3];
    out[1]            = params[6] * square;
    out[2]            = params[7] * square * square;
    out[3]            = params[8] * rho;
    out[4]            = params[9] * rho * unit;
    out[5]            = params[10] * rho * unit * unit;
    out[6]            = ldexp(1.0, e - kept);
    out[7]            = up;
    out[8]            = up != 1.0;
    out[9]            = own;
}

/* params: rows, cols, one key per row, then the rows.  Keys fall from row to row. */
MS_FN void ms_scalar_pick(const double *params, double x, double *out)
{
    const int     rows = (int)params[0], cols = (int)params[1];
    const double *keys = params + 2, *table = keys + rows;
    int           row = 0;
    while (row < rows - 1 && !(x >= keys[row]))
        row++;
    for (int j = 0; j < MS_SCALAR_MAX_IO; j++) /* a constant, so that `out` can be in registers */
        if (j < cols) out[j] = table[row * cols + j];
}

/* A matrix with one row has one singular value: the operators are a factor on it, here in two,
 * since their product may be too small for float64 where the result is not.  in: |s x|^2, s, s D,
 * D. */
MS_FN void ms_scalar_vector_gain(ms_exact_fn map, const double *in, double *out)
{
    const double norm = sqrt(in[0]), sd = in[2];
    out[0] = in[1];
    out[1] = norm > 0.0 ? 1.0 / norm : 0.0;
    if (map == MS_EXACT_SOFT) out[1] = in[3] / hypot(norm, sd);
    if (map == MS_EXACT_HARD) out[1] = in[3] / norm;
    if (map == MS_EXACT_HARD && !(norm > sd)) out[0] = out[1] = 1.0; /* bit for bit */
}

/* With V = v1 W + v0 I:  q = 4: T = (V V + q0 I)^2 + t1 W + t0 I;  q = 2: T = V V + t0 I;
 * q = 1: T = t1 W + t0 I.  out: the inner square, or T itself where q is not 4, as coefficients of
 * lift B B, B and I; then the rest outside the square. */
MS_FN void ms_scalar_start(const double *params, const double *in, double *out)
{
    const double lift = params[0], up = params[1];
    const double q = in[5], win = in[7], m = in[9], gain = in[6] < 1.5 ? in[8] : 1.0;
    const double root = q > 3.0 ? sqrt(gain) : gain; /* on the square */
    const double v1 = in[0] * win, v0 = in[1] + v1 * m, t1 = in[3] * win * gain;
    const double t0 = (in[4] + in[3] * win * m) * gain;
    out[0]          = q > 1.5 ? v1 * v1 * root / lift : 0.0;
    out[1]          = q > 1.5 ? 2.0 * v1 * v0 * root : t1;
    out[2]          = q > 3.0 ? (v0 * v0 + in[2]) * root : q > 1.5 ? v0 * v0 * root + t0 : t0;
    out[3]          = t1;
    out[4]          = t0;
    out[5]          = win * m;
    out[6]          = in[10] * win / up;
}

/* q = 4: E is V, so Q = E E + q0 I and T = Q Q + z1 E + z0 I, W being (E - e0 I) / e1.  q = 1: E is
 * T. */
MS_FN void ms_scalar_last(const double *in, double *out)
{
    const double gain = in[6], root = sqrt(gain), root4 = sqrt(root);
    const bool   square = in[5] > 3.0;
    out[0]              = square ? in[0] * root4 : in[3] * gain;
    out[1]              = square ? in[1] * root4 : in[4] * gain;
    out[2]              = in[2] * root;
    out[3]              = square ? in[3] * gain / out[0] : 0.0;
    out[4]              = square ? in[4] * gain - out[3] * out[1] : 0.0;
}

/* Who takes part in what, of plans of n stages whose first has T of degree q. */
MS_FN void ms_scalar_stage_masks(double q, double n, double *out)
{
    const bool square = q > 3.0, several = n > 1.5, odd = n > 2.5 && n < 3.5;
    out[MS_STAGE_MASK_SQUARE]         = square;
    out[MS_STAGE_MASK_NO_SQUARE]      = !square;
    out[MS_STAGE_MASK_SINGLE]         = !several;
    out[MS_STAGE_MASK_SEVERAL]        = several;
    out[MS_STAGE_MASK_SEVERAL_SQUARE] = several && square;
    out[MS_STAGE_MASK_SECOND]         = n > 2.5;
    out[MS_STAGE_MASK_THIRD]          = n > 3.5;
    out[MS_STAGE_MASK_ODD]            = odd;
    out[MS_STAGE_MASK_EVEN]           = several && !odd;
}

MS_FN void ms_scalar_eval(ms_scalar_fn fn, const double *params, int n_params, const double *in,
                          double *out)
{
    (void)n_params;
    switch (fn) {
    case MS_SCALAR_AVERAGE: ms_scalar_average(params, in, out); break;
    case MS_SCALAR_POW2_SCALE: out[0] = ms_scalar_pow2_scale(in[0], in[1]); break;
    case MS_SCALAR_THRESHOLD: ms_scalar_threshold(params[0], in[0], in[1], out); break;
    case MS_SCALAR_SCALED:
        out[0] = in[0];
        out[1] = ms_scalar_pow2_scale(1.0 / in[0], in[1]);
        ms_scalar_threshold(params[0], out[1], in[1], out + 2);
        break;
    case MS_SCALAR_INV_NORM:
        out[0] = in[0] == 0.0 ? 0.0 : 1.0 / (in[1] * sqrt(in[0]) + params[0]);
        break;
    case MS_SCALAR_QUINTIC: ms_scalar_quintic(params, in, out); break;
    case MS_SCALAR_INV_RESIDUAL:
        out[0] = sqrt(in[0]) > params[0] * sqrt(in[1]) ? 1.0 / sqrt(in[0]) : 0.0;
        break;
    case MS_SCALAR_DIVIDE: out[0] = in[1] / in[0]; break;
    case MS_SCALAR_RMS:
        out[0] = params[0] * sqrt(in[0] / params[1]);
        if (!(out[0] > 0.0)) out[0] = 1.0; /* nothing to clip, and nothing to divide by 0 */
        break;
    case MS_SCALAR_ALPHA_FRO:
        out[0] = sqrt(in[0]);
        out[1] = in[1] / sqrt(out[0]);
        ms_scalar_gain(out[0], in + 2, &out[2], &out[3]);
        break;
    case MS_SCALAR_GRAM: ms_scalar_gram(params, in, out); break;
    case MS_SCALAR_RECALL: ms_scalar_recall(params, in, out); break;
    case MS_SCALAR_RENORM: ms_scalar_renorm(params[0], in, out); break;
    case MS_SCALAR_ALPHA_C4: ms_scalar_alpha_c4(params, in, out); break;
    case MS_SCALAR_PICK: ms_scalar_pick(params, in[0], out); break;
    case MS_SCALAR_START: ms_scalar_start(params, in, out); break;
    case MS_SCALAR_LAST: ms_scalar_last(in, out); break;
    case MS_SCALAR_ENTRY: {
        const bool next_is_last = in[0] < params[0] + 1.5;
        out[0]                  = next_is_last ? in[1] : 1.0;
        out[1]                  = next_is_last ? in[2] : 0.0;
        break;
    }
    case MS_SCALAR_STAGE_MASKS: ms_scalar_stage_masks(in[0], in[1], out); break;
    case MS_SCALAR_VECTOR_GAIN: ms_scalar_vector_gain((ms_exact_fn)params[0], in, out); break;
    case MS_SCALAR_FN_COUNT: break;
    }
}

MS_FN int ms_scalar_n_in(ms_scalar_fn fn)
{
    static const int n[] = {
#define X(name, n_params, n_in, n_out) n_in,
#include "device/scalar_list.h"
#undef X
    };
    return n[fn];
}

MS_FN int ms_scalar_n_out(ms_scalar_fn fn, const double *params)
{
    static const int n[] = {
#define X(name, n_params, n_in, n_out) n_out,
#include "device/scalar_list.h"
#undef X
    };
    return fn == MS_SCALAR_PICK ? (int)params[1] : n[fn];
}

#endif
