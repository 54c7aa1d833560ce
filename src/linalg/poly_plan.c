/* poly_plan.c - minimax polynomials for the inverse square root, and the candidate compositions.
 *
 * The best odd polynomial p of degree 2q+1 to 1 on [lo, hi] touches 1 - E and 1 + E in turn at q+2
 * points, both ends among them.  Remez' exchange finds it: solve for (c, E) on a guess of the
 * points, move the inner points to the zeros of p', repeat.  p' is a polynomial of degree q in y =
 * x^2, whose roots are bracketed by those of its own derivative, so no root is missed and no guess
 * is needed.
 *
 * Composing the best stage for each interval [1 - E, 1 + E] left by the one before is the best
 * composition of those degrees.  Where E falls below rounding, Remez' system is singular to working
 * precision; there p is the truncated binomial series of 1 = t (1 - (1 - t^2))^(-1/2). */
#include "linalg/poly_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define POINTS (MS_STAGE_Q + 2)

/* ---- small dense algebra --------------------------------------------------------------------- */

static double poly(const double *c, int degree, double x)
{
    double sum = c[degree];
    for (int j = degree - 1; j >= 0; j--)
        sum = sum * x + c[j];
    return sum;
}

/* Gauss with partial pivoting; the solution replaces b.  False: singular. */
static bool solve(double a[POINTS][POINTS], double *b, int n)
{
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        if (!(fabs(a[pivot][k]) > 0.0)) return false;
        for (int j = 0; j < n; j++) {
            const double t = a[k][j];
            a[k][j]        = a[pivot][j];
            a[pivot][j]    = t;
        }
        const double t = b[k];
        b[k]           = b[pivot];
        b[pivot]       = t;
        for (int i = k + 1; i < n; i++) {
            const double f = a[i][k] / a[k][k];
            for (int j = k; j < n; j++)
                a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            b[i] -= a[i][j] * b[j];
        b[i] /= a[i][i];
    }
    return true;
}

/* The sign change of a polynomial inside [lo, hi], to the last bit. */
static double bisect(const double *c, int degree, double lo, double hi)
{
    const bool rising = poly(c, degree, lo) < 0.0;
    for (int i = 0; i < 200; i++) {
        const double mid = 0.5 * (lo + hi);
        if (!(mid > lo && mid < hi)) break;
        if ((poly(c, degree, mid) < 0.0) == rising)
            lo = mid;
        else
            hi = mid;
    }
    return 0.5 * (lo + hi);
}

/* All simple roots in (lo, hi), ascending; between two zeros of the derivative there is at most
 * one. */
static int roots(const double *c, int degree, double lo, double hi, double *out)
{
    double slope[MS_STAGE_Q + 1] = { 0 }, edge[MS_STAGE_Q + 2];
    int    n_edges = 0, n = 0;
    if (degree < 1) return 0;
    for (int j = 1; j <= degree; j++)
        slope[j - 1] = j * c[j];
    edge[n_edges++] = lo;
    n_edges += roots(slope, degree - 1, lo, hi, edge + 1);
    edge[n_edges++] = hi;
    for (int i = 0; i + 1 < n_edges; i++)
        if ((poly(c, degree, edge[i]) < 0.0) != (poly(c, degree, edge[i + 1]) < 0.0))
            out[n++] = bisect(c, degree, edge[i], edge[i + 1]);
    return n;
}

/* ---- one stage ------------------------------------------------------------------------------- */

/* p = t sum_j binom(2j, j) / 4^j (1 - t^2)^j, t = 2 x / (lo + hi), in powers of x. */
static void binomial_series(int q, double lo, double hi, double *c, double *error)
{
    const double scale             = 2.0 / (lo + hi);
    double       power[POINTS + 1] = { 1.0 }; /* (1 - z)^j by powers of z = t^2 */
    double       series[POINTS] = { 0 }, weight = 1.0, x = scale;
    for (int j = 0; j <= q; j++) {
        for (int i = 0; i <= j; i++)
            series[i] += weight * power[i];
        for (int i = j + 1; i > 0; i--)
            power[i] -= power[i - 1];
        weight *= (2.0 * j + 1.0) / (2.0 * j + 2.0);
    }
    for (int j = 0; j <= q; j++, x *= scale * scale)
        c[j] = series[j] * x;
    *error = fmax(fabs(1.0 - lo * poly(c, q, lo * lo)), fabs(1.0 - hi * poly(c, q, hi * hi)));
}

static bool remez_solve(int q, const double *x, double *c, double *error)
{
    double a[POINTS][POINTS], b[POINTS];
    for (int i = 0; i < q + 2; i++) {
        double power = x[i];
        for (int j = 0; j <= q; j++, power *= x[i] * x[i])
            a[i][j] = power;
        a[i][q + 1] = i % 2 == 0 ? 1.0 : -1.0;
        b[i]        = 1.0;
    }
    if (!solve(a, b, q + 2)) return false;
    for (int j = 0; j <= q; j++)
        c[j] = b[j];
    *error = fabs(b[q + 1]);
    return true;
}

musec_status ms_minimax_odd(int q, double lo, double hi, double *c, double *error)
{
    const double pi = 3.14159265358979323846;
    double       x[POINTS], slope[MS_STAGE_Q + 1], y[MS_STAGE_Q + 1];

    if (q < 1 || q > MS_STAGE_Q || !(lo > 0.0) || !(lo <= hi) || !(hi < INFINITY))
        return MUSEC_EINVAL;
    if (pow((1.0 - lo / hi) / 2.0, q + 1) < 1e-13) {
        binomial_series(q, lo, hi, c, error);
        return MUSEC_OK;
    }
    /* On [lo/hi, 1]; the coefficients are scaled back at the end. */
    for (int i = 0; i < q + 2; i++)
        x[i] = lo / hi + (1.0 - lo / hi) * (1.0 - cos(pi * i / (q + 1))) / 2.0;
    for (int round = 0; round < 30; round++) {
        double moved = 0.0;
        if (!remez_solve(q, x, c, error)) return MUSEC_EINVAL;
        for (int j = 0; j <= q; j++)
            slope[j] = (2 * j + 1) * c[j];
        if (roots(slope, q, x[0] * x[0], 1.0, y) != q) break; /* E is at the rounding level */
        for (int i = 0; i < q; i++) {
            moved    = fmax(moved, fabs(sqrt(y[i]) - x[i + 1]));
            x[i + 1] = sqrt(y[i]);
        }
        if (moved < 1e-9) break;
    }
    double scale = 1.0 / hi;
    for (int j = 0; j <= q; j++, scale /= hi * hi)
        c[j] *= scale;
    return MUSEC_OK;
}

/* k_j of sum_j k_j T_j(v) from c_j of sum_j c_j w^j, w = wmax (v + 1) / 2. */
static void to_chebyshev(ms_stage *s)
{
    double v[MS_STAGE_Q + 1]     = { 0 }; /* by powers of v */
    double power[MS_STAGE_Q + 2] = { 1.0 };
    for (int j = 0; j <= s->q; j++) { /* power holds w^j */
        for (int i = 0; i <= j; i++)
            v[i] += s->c[j] * power[i];
        for (int i = j + 1; i >= 0; i--)
            power[i] = 0.5 * s->wmax * (power[i] + (i > 0 ? power[i - 1] : 0.0));
    }
    s->k[0] = v[0] + v[2] / 2 + 3 * v[4] / 8;
    s->k[1] = v[1] + 3 * v[3] / 4;
    s->k[2] = v[2] / 2 + v[4] / 2;
    s->k[3] = v[3] / 4;
    s->k[4] = v[4] / 8;
}

/* ---- plans ----------------------------------------------------------------------------------- */

musec_status ms_poly_plan_minimax(const int *q, int n_stages, double u_d, ms_poly_plan *out)
{
    double lo = u_d, hi = 1.0, error = 0.0;
    size_t used = 1;

    if (n_stages < 1 || n_stages > 8 || !(u_d > 0.0) || !(u_d <= 1.0)) return MUSEC_EINVAL;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "p");
    for (int i = 0; i < n_stages; i++) {
        ms_stage *s = &out->stage[i];
        s->q        = q[i];
        s->wmax     = hi * hi;
        if (ms_minimax_odd(q[i], lo, hi, s->c, &error) != MUSEC_OK) return MUSEC_EINVAL;
        lo = 1.0 - error;
        hi = 1.0 + error;
        if (i == n_stages - 1)
            for (int j = 0; j <= s->q; j++)
                s->c[j] /= hi;
        to_chebyshev(s);
        used += (size_t)snprintf(out->name + used, sizeof out->name - used, "%s%d", i ? "x" : "",
                                 2 * q[i] + 1);
    }
    out->n_stages = n_stages;
    out->u_d      = u_d;
    out->tol      = 2.0 * error / (1.0 + error);
    return MUSEC_OK;
}

void ms_plan_newton_schulz(int iters, ms_poly_plan *out)
{
    static const ms_stage one = { .q = 1, .wmax = 1.0, .c = { 1.5, -0.5 } };
    static const ms_stage two = { .q    = 4,
                                  .wmax = 1.0,
                                  .c    = { 2.25, -2.4375, 1.6875, -0.5625, 0.0625 } };
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "paper K=%d", iters);
    for (int left = iters; left > 0 && out->n_stages < MS_PLAN_STAGES; left -= 2) {
        ms_stage *s = &out->stage[out->n_stages++];
        *s          = left >= 2 ? two : one;
        to_chebyshev(s);
    }
}

/* Plans whose numbers are kept, each stage as its c_0..c_4 and the largest w that reaches it. */
static void stored_plan(const char *name, double u_d, double tol, double wmax2,
                        const double c[2][5], ms_poly_plan *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->u_d      = u_d;
    out->tol      = tol;
    out->n_stages = 2;
    for (int i = 0; i < 2; i++) {
        out->stage[i] = (ms_stage){ .q = 4, .wmax = i == 0 ? 1.0 : wmax2 };
        memcpy(out->stage[i].c, c[i], sizeof out->stage[i].c);
        to_chebyshev(&out->stage[i]);
    }
}

void ms_poly_plan_paper7(ms_poly_plan *out) /* a fit of five steps, not a minimax problem */
{
    static const double c[2][5] = {
        { 2.9049914621513753, -8.6854782402941542, 17.16639429925884, -16.870693586386864,
          6.2944613000020571 },
        { 2.6140235129693257, -3.7540330885357673, 3.353384456831662, -1.4128098358364298,
          0.21081785501595582 },
    };
    stored_plan("paper7", 0.0, 1.6e-6, 0.65559485074260171, c, out);
}

/* These are the results of ms_poly_plan_minimax for two stages of q = 4 (a test compares them).
 * They are stored because solving for them would cost more than clipping a small matrix. */
void ms_poly_plan_fast(int index, ms_poly_plan *out)
{
    static const struct {
        const char *name;
        double      u_d, tol, wmax2, c[2][5];
    } plans[MS_FAST_PLANS] = {
        { "p9x9d",
          0.40,
          2.6291318856243182e-11,
          1.0154178065950503,
          { { 3.9260913422103574, -12.214458024098169, 23.068711452446891, -21.074439353142104,
              7.3017739991610595 },
            { 2.4610161099671601, -3.2814918740632835, 2.9533789555089065, -1.4063467330356754,
              0.2734435416095779 } } },
        { "p9x9c",
          0.16,
          3.3272166621534274e-05,
          1.271079575672496,
          { { 6.3292280343694145, -36.697338302480013, 100.36022522801846, -116.467806192853,
              47.60311288240576 },
            { 2.4828224198512254, -3.3488446925406934, 3.0239464177163793, -1.4330584745831736,
              0.27511418519917569 } } },
        { "p9x9",
          0.09,
          0.0022823009656698892,
          1.6775840306322991,
          { { 8.3104745562215712, -60.669371207155926, 182.91664044217134, -223.78355101174353,
              94.521023044464982 },
            { 2.5828654600092729, -3.6667364192675764, 3.3529808688262595, -1.5533404844119134,
              0.28254896579001931 } } },
    };
    stored_plan(plans[index].name, plans[index].u_d, plans[index].tol, plans[index].wmax2,
                plans[index].c, out);
}

/* By cost.  Rows that begin with q = 1 need one product less than the next row but leave the
 * square of A, which the bound C4 has paid for, unused. */
static const struct {
    int n, q[4];
} candidates[MS_POLY_CANDIDATES] = {
    { 1, { 4 } },       { 2, { 1, 4 } },       { 2, { 2, 4 } },
    { 2, { 4, 4 } },    { 3, { 1, 4, 4 } },    { 3, { 2, 4, 4 } },
    { 3, { 4, 4, 4 } }, { 4, { 1, 4, 4, 4 } }, { 4, { 4, 4, 4, 4 } },
};

int ms_poly_candidate_stages(size_t index, const int **q)
{
    if (index >= COUNT(candidates)) return 0;
    *q = candidates[index].q;
    return candidates[index].n;
}

musec_status ms_poly_plan_cheapest(double tol, double u_min, ms_poly_plan *out)
{
    for (size_t i = 0; i < COUNT(candidates); i++)
        if (ms_poly_plan_minimax(candidates[i].q, candidates[i].n, u_min, out) == MUSEC_OK &&
            out->tol <= tol)
            return MUSEC_OK;
    return MUSEC_ENOTSUP;
}

/* By how much the error of the best polynomial on [ratio, 1] exceeds `error`, as a logarithm; x is
 * log(ratio / (1 - ratio)). */
static double excess(int q, double x, double error)
{
    double c[MS_STAGE_Q + 1], got = 1.0;
    if (ms_minimax_odd(q, 1.0 / (1.0 + exp(-x)), 1.0, c, &got) != MUSEC_OK) got = 1.0;
    return log(fmax(got, 1e-18) / error);
}

/* The smallest lo / hi for which the best polynomial errs by no more than this, to 1e-9 of the
 * error.  The false position, with Illinois' rule against a side that stays. */
static double smallest_ratio(int q, double error)
{
    const double close = 1e-9, aim = error * (1.0 - close);
    double       lo = log(1e-7), hi = -log(1e-5), f_lo = excess(q, lo, aim);
    double       f_hi = excess(q, hi, aim);
    int          side = 0;
    for (int i = 0; i < 100 && f_lo > 0.0 && f_hi < -close; i++) {
        const double x = (f_lo * hi - f_hi * lo) / (f_lo - f_hi), f = excess(q, x, aim);
        if (f > 0.0) {
            lo   = x;
            f_lo = f;
            if (side > 0) f_hi /= 2.0;
            side = 1;
        } else {
            hi   = x;
            f_hi = f;
            if (side < 0) f_lo /= 2.0;
            side = -1;
        }
        if (fabs(f) <= close) return 1.0 / (1.0 + exp(-x));
    }
    return 1.0 / (1.0 + exp(-hi));
}

/* From the last stage backwards: a stage may leave an interval around 1 of half width e if those
 * after it, all of q = 4, bring that to tol. */
musec_status ms_poly_candidates_make(double tol, double min_u_d, ms_poly_candidates *out)
{
    const int max_stages = candidates[MS_POLY_CANDIDATES - 1].n;
    double    e[8]       = { tol / (2.0 - tol) }; /* what a stage may leave that so many follow */
    if (!(tol > 0.0 && tol < 1.0)) return MUSEC_EINVAL;
    for (int i = 1; i < max_stages; i++) {
        const double ratio = smallest_ratio(MS_STAGE_Q, e[i - 1]);
        e[i]               = (1.0 - ratio) / (1.0 + ratio);
    }
    *out = (ms_poly_candidates){ .tol = tol };
    for (int i = 0; i < MS_POLY_CANDIDATES; i++) {
        const double before = out->n > 0 ? out->plan[out->n - 1].u_d : 1.0;
        const double reach  = smallest_ratio(candidates[i].q[0], e[candidates[i].n - 1]);
        if (!(reach < before)) continue;
        if (ms_poly_plan_minimax(candidates[i].q, candidates[i].n, fmax(reach, min_u_d),
                                 &out->plan[out->n]) != MUSEC_OK)
            return MUSEC_EINVAL;
        out->n++;
        out->longest = candidates[i].n;
        if (reach <= min_u_d) break;
    }
    return MUSEC_OK;
}

double ms_poly_plan_gain(const ms_poly_plan *plan, double u)
{
    for (int i = 0; i < plan->n_stages; i++)
        u *= poly(plan->stage[i].c, plan->stage[i].q, u * u);
    return u;
}

/* First stage: its polynomial, W T, T (W T); middle ones also T Z; the last one its polynomial and
 * T Z; a single one its polynomial alone. */
int ms_poly_plan_products(const ms_poly_plan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n_stages; i++) {
        n += plan->stage[i].q / 2;
        if (i > 0) n += 1;
        if (i < plan->n_stages - 1) n += 2;
    }
    return n;
}

/* With v = 2 w / wmax - 1 and T = a4 v^4 + ... + a0 the square is completed twice:
 *     T = a4 (v^2 + b v + c)^2 + (a1 - 2 a4 b c) v + (a0 - a4 c^2),  b = a3 / (2 a4),
 *     c = (a2 / a4 - b^2) / 2,  v^2 + b v + c = (v + b/2)^2 + c - b^2 / 4. */
ms_stage_form ms_stage_squares(const ms_stage *s)
{
    const double *k = s->k, to_v = 2.0 / s->wmax;
    ms_stage_form f      = { 0 };
    double        linear = k[1], constant = k[0]; /* of the part outside the square, in v */

    if (s->q == 4) {
        const double a4 = 8 * k[4], a3 = 4 * k[3], a2 = 2 * k[2] - 8 * k[4];
        const double b = a3 / (2 * a4), c = (a2 / a4 - b * b) / 2, root = sqrt(sqrt(a4));
        f.v1     = root * to_v;
        f.v0     = root * (b / 2 - 1);
        f.q0     = root * root * (c - b * b / 4);
        linear   = k[1] - 3 * k[3] - 2 * a4 * b * c;
        constant = k[0] - k[2] + k[4] - a4 * c * c;
    } else if (s->q == 2) {
        const double a2 = 2 * k[2], b = k[1] / (2 * a2), root = sqrt(a2);
        f.v1     = root * to_v;
        f.v0     = root * (b - 1);
        linear   = 0.0;
        constant = k[0] - k[2] - a2 * b * b;
    }
    f.t1 = linear * to_v;
    f.t0 = constant - linear;
    return f;
}
