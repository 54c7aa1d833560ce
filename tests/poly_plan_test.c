/* poly_plan_test.c - the coefficient generator against the stored tables and against what defines
 * a best polynomial.
 *
 * Single coefficients are ill determined where the error E is tiny, so polynomials are compared by
 * their values: composed, on a fine grid of [0, 1]. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coeffs.h"
#include "linalg/poly_plan.h"

#define GRID 4000 /* points of a fine grid, ends included: GRID + 1 */

static double monomials(int q, const double *c, double w) /* sum c_j w^j */
{
    double value = c[q];
    for (int j = q - 1; j >= 0; j--)
        value = value * w + c[j];
    return value;
}

static double chebyshev(int q, const double *k, double v) /* sum k_j T_j(v), by Clenshaw */
{
    double b1 = 0.0, b2 = 0.0;
    for (int j = q; j >= 1; j--) {
        const double b = 2.0 * v * b1 - b2 + k[j];
        b2             = b1;
        b1             = b;
    }
    return v * b1 - b2 + k[0];
}

static double file_gain(const coeffs_plan *p, double u)
{
    for (int i = 0; i < p->n_stages; i++)
        u *= monomials(p->stage[i].q, p->stage[i].c, u * u);
    return u;
}

static double phi(double u, int iters)
{
    for (int k = 0; k < iters; k++)
        u *= (3.0 - u * u) / 2.0;
    return u;
}

/* The largest distance of a plan from a stored one on [0, 1]. */
static double distance(const ms_poly_plan *got, const coeffs_plan *want)
{
    double worst = 0.0;
    for (int i = 0; i <= GRID; i++) {
        const double u   = (double)i / GRID;
        const double off = fabs(ms_poly_plan_gain(got, u) - file_gain(want, u));
        if (!(off <= worst)) worst = off;
    }
    return worst;
}

/* ---- against the file ------------------------------------------------------------------------ */

/* A plan made by the generator for an interval: all in the file but the two special ones. */
static bool has_interval(const coeffs_plan *p) { return p->u_d > 0.0; }

TEST(generator_agrees_with_the_file)
{
    coeffs_plan  plans[24] = { 0 };
    const size_t n         = coeffs_read(plans, COUNT(plans));
    size_t       made      = 0;

    for (size_t i = 0; i < n; i++) {
        const coeffs_plan *p = &plans[i];
        ms_poly_plan       got;
        int                q[4];
        if (!has_interval(p)) continue;
        for (int s = 0; s < p->n_stages; s++)
            q[s] = p->stage[s].q;
        assert_int_equal(ms_poly_plan_minimax(q, p->n_stages, p->u_d, &got), MUSEC_OK);
        assert_int_equal(got.n_stages, p->n_stages);
        CHECK(distance(&got, p) <= 1e-9, "%s is off by %g", p->name, distance(&got, p));
        CHECK(fabs(got.u_d - p->u_d) <= 0.0, "%s: u_d %g", p->name, got.u_d);
        /* where E is 1e-11 the rounding of the values near 1 alone is 1e-5 of it */
        CHECK(fabs(got.tol - p->tol) <= 1e-9 * p->tol + 2e-15, "%s: tol %.17g, file %.17g", p->name,
              got.tol, p->tol);
        for (int s = 0; s < p->n_stages; s++) { /* E of a stage shows in the next one's wmax */
            const double error =
                s + 1 < p->n_stages ? sqrt(got.stage[s + 1].wmax) - 1.0 : got.tol / (2.0 - got.tol);
            assert_int_equal(got.stage[s].q, q[s]);
            CHECK(fabs(error - p->stage[s].error) <= 1e-9 * p->stage[s].error + 2e-15,
                  "%s stage %d: E %.17g, file %.17g", p->name, s, error, p->stage[s].error);
            CHECK(fabs(got.stage[s].wmax - p->stage[s].wmax) <= 1e-9, "%s stage %d: wmax %g",
                  p->name, s, got.stage[s].wmax);
        }
        made++;
    }
    CHECK(made == 13, "the file has %zu plans made for an interval", made);
}

/* Plans whose coefficients are stored in the library as well.  What remains is rounding: 20
 * operations on numbers up to 224. */
TEST(stored_plans_agree_with_the_file)
{
    coeffs_plan  plans[24] = { 0 };
    const size_t n         = coeffs_read(plans, COUNT(plans));
    ms_poly_plan got[2 + MS_FAST_PLANS];
    size_t       seen = 0;

    ms_poly_plan_paper7(&got[0]);
    ms_plan_newton_schulz(2, &got[1]);
    snprintf(got[1].name, sizeof got[1].name, "ns2"); /* as the file calls it */
    for (int i = 0; i < MS_FAST_PLANS; i++)
        ms_poly_plan_fast(i, &got[2 + i]);
    for (size_t i = 0; i < n * COUNT(got); i++) {
        const coeffs_plan  *want = &plans[i / COUNT(got)];
        const ms_poly_plan *p    = &got[i % COUNT(got)];
        if (strcmp(want->name, p->name) != 0) continue;
        assert_int_equal(p->n_stages, want->n_stages);
        CHECK(distance(p, want) <= 2e-13, "%s is off by %g", p->name, distance(p, want));
        CHECK(p->u_d == want->u_d && p->tol == want->tol, "%s: u_d %g, tol %g", p->name, p->u_d,
              p->tol);
        for (int s = 0; s < p->n_stages && want->stage[s].has_cheb; s++)
            CHECK(p->stage[s].wmax == want->stage[s].wmax, "%s stage %d: wmax", p->name, s);
        seen++;
    }
    CHECK(seen == COUNT(got), "%zu of them are in the file", seen);
}

TEST(products_agree_with_the_file)
{
    coeffs_plan  plans[24] = { 0 };
    const size_t n         = coeffs_read(plans, COUNT(plans));

    for (size_t i = 0; i < n; i++) {
        ms_poly_plan got = { .n_stages = plans[i].n_stages };
        for (int s = 0; s < got.n_stages; s++)
            got.stage[s].q = plans[i].stage[s].q;
        CHECK(ms_poly_plan_products(&got) == plans[i].products, "%s: %d products, file %d",
              plans[i].name, ms_poly_plan_products(&got), plans[i].products);
    }
}

/* Both forms of a stage as polynomials of w.  The monomials cancel: rounding goes by the sum of
 * their absolute values, for which 8 units of 2^-53 allow twice over. */
static void check_forms(const char *name, int s, int q, const double *c, const double *k,
                        double wmax)
{
    for (int i = 0; i <= 200; i++) {
        const double w    = wmax * i / 200.0;
        const double mono = monomials(q, c, w), cheb = chebyshev(q, k, 2.0 * w / wmax - 1.0);
        double       size = 0.0;
        for (int j = 0; j <= q; j++)
            size += fabs(c[j]) * pow(w, j) + fabs(k[j]);
        CHECK(fabs(mono - cheb) <= 1e-15 * size, "%s stage %d, w = %g: %.17g by monomials, %.17g",
              name, s, w, mono, cheb);
    }
}

TEST(chebyshev_rows_are_the_monomials)
{
    static const int q9[]      = { 4, 4, 4, 4 };
    coeffs_plan      plans[24] = { 0 };
    const size_t     n         = coeffs_read(plans, COUNT(plans));

    for (size_t i = 0; i < n; i++) {
        for (int s = 0; s < plans[i].n_stages; s++) {
            const coeffs_stage *f = &plans[i].stage[s];
            if (f->has_cheb) check_forms(plans[i].name, s, f->q, f->c, f->k, f->wmax);
        }
    }
    for (int kind = 0; kind < 4; kind++) {
        ms_poly_plan p;
        if (kind == 0)
            ms_poly_plan_paper7(&p);
        else if (kind == 1)
            ms_plan_newton_schulz(7, &p);
        else
            assert_int_equal(ms_poly_plan_minimax(q9, kind, kind == 2 ? 0.4 : 0.0125, &p),
                             MUSEC_OK);
        for (int s = 0; s < p.n_stages; s++)
            check_forms(p.name, s, p.stage[s].q, p.stage[s].c, p.stage[s].k, p.stage[s].wmax);
    }
}

/* ---- what defines a best polynomial ---------------------------------------------------------- */

static const struct {
    double lo, hi;
} intervals[] = {
    { 0.001, 1.0 }, { 0.02, 1.0 },  { 0.09, 1.0 }, { 0.3, 1.0 },   { 0.55, 1.0 },
    { 0.8, 1.0 },   { 0.17, 1.83 }, { 0.7, 1.3 },  { 0.05, 20.0 }, { 1e-4, 1e-2 },
};

static double odd(int q, const double *c, double x) { return x * monomials(q, c, x * x); }

TEST(cubic_has_its_closed_form)
{
    for (size_t i = 0; i < COUNT(intervals); i++) {
        const double l = intervals[i].lo, u = intervals[i].hi;
        const double a = sqrt(3.0 / (u * u + l * u + l * l));
        const double b = 4.0 / (2.0 + l * u * (l + u) * a * a * a);
        double       c[2], error;
        assert_int_equal(ms_minimax_odd(1, l, u, c, &error), MUSEC_OK);
        for (int j = 0; j <= 100; j++) {
            const double x    = l + (u - l) * j / 100.0; /* values are near 1 */
            const double want = 1.5 * a * b * x - 0.5 * a * a * a * b * x * x * x;
            CHECK(fabs(odd(1, c, x) - want) <= 1e-12, "[%g, %g] at %g: %.17g, not %.17g", l, u, x,
                  odd(1, c, x), want);
        }
        CHECK(fabs(error - (b - 1.0)) <= 1e-13, "[%g, %g]: E %.17g, not %.17g", l, u, error,
              b - 1.0);
    }
}

/* The error 1 - p starts at +E in lo and ends at its bound in hi, swinging q + 2 times between +E
 * and -E; by Chebyshev's theorem that makes p the best one. */
static void check_swings(int q, double l, double u)
{
    const double pi = 3.14159265358979323846;
    double       c[MS_STAGE_Q + 1], error;
    int          swings = 0, sign = 1;

    assert_int_equal(ms_minimax_odd(q, l, u, c, &error), MUSEC_OK);
    CHECK(error > 0.0 && error < 1.0, "q %d on [%g, %g]: E %g", q, l, u, error);
    for (int i = 0; i <= 50 * GRID; i++) {
        const double part = 0.5 - 0.5 * cos(pi * i / (50.0 * GRID)); /* dense at both ends */
        const double e    = 1.0 - odd(q, c, l + (u - l) * part);
        CHECK(fabs(e) <= error * (1.0 + 1e-9) + 1e-14, "q %d on [%g, %g]: |1 - p| %.17g > E %.17g",
              q, l, u, fabs(e), error);
        if (e * sign >= error * (1.0 - 1e-5) - 1e-14) sign = -sign, swings++;
    }
    CHECK(swings == q + 2, "q %d on [%g, %g]: %d swings, E %g", q, l, u, swings, error);
    const double first = 1.0 - odd(q, c, l);
    CHECK(fabs(first - error) <= 1e-9 * error + 1e-14, "q %d on [%g, %g]: 1 - p(lo) %g, E %g", q, l,
          u, first, error);
}

TEST(minimax_equioscillates)
{
    for (int q = 1; q <= MS_STAGE_Q; q++)
        for (size_t i = 0; i < COUNT(intervals); i++)
            check_swings(q, intervals[i].lo, intervals[i].hi);
}

/* Intervals so narrow that E is below rounding: there the Taylor form takes over. */
TEST(narrow_intervals_give_one)
{
    for (int q = 1; q <= MS_STAGE_Q; q++) {
        for (double width = 0.3; width > 1e-15; width /= 4.0) {
            const double l = 1.0 - width, u = 1.0 + width;
            double       c[MS_STAGE_Q + 1], error;
            assert_int_equal(ms_minimax_odd(q, l, u, c, &error), MUSEC_OK);
            for (int j = 0; j <= 100; j++) {
                const double e = fabs(1.0 - odd(q, c, l + (u - l) * j / 100.0));
                CHECK(e <= error * (1.0 + 1e-9) + 2e-14, "q %d, width %g: %g > E %g", q, width, e,
                      error); /* 2e-14: monomials of a sum of absolute values up to 12 */
            }
        }
    }
}

TEST(bad_intervals_are_refused)
{
    static const struct {
        int    q;
        double lo, hi;
    } bad[] = {
        { 0, 0.1, 1.0 }, { 5, 0.1, 1.0 }, { 2, 0.0, 1.0 }, { 2, -0.1, 1.0 },
        { 2, 1.0, 0.5 }, { 2, NAN, 1.0 }, { 2, 0.1, NAN }, { 2, 0.1, INFINITY },
    };
    double c[MS_STAGE_Q + 1], error;
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(ms_minimax_odd(bad[i].q, bad[i].lo, bad[i].hi, c, &error) == MUSEC_EINVAL, "row %zu",
              i);
}

/* ---- plans ----------------------------------------------------------------------------------- */

TEST(newton_schulz_plan_is_its_iteration)
{
    static const struct {
        int iters, products;
    } cost[] = {
        /* first c+2, middle c+3, last c+1 */
        { 1, 0 }, { 2, 2 }, { 3, 5 }, { 4, 7 }, { 5, 10 }, { 6, 12 }, { 7, 15 }, { 10, 22 },
    };
    ms_poly_plan p;
    for (int iters = 1; iters <= 100; iters++) {
        ms_plan_newton_schulz(iters, &p);
        for (int i = 0; i <= GRID; i++) {
            /* a value goes through `iters` maps that magnify small ones by 3/2 and large ones less:
             * the error stays relative, some units of 2^-53 a step */
            const double u = (double)i / GRID, want = phi(u, iters);
            CHECK(fabs(ms_poly_plan_gain(&p, u) - want) <= 1e-15 * (2 + iters) * want,
                  "K = %d, u = %g: %.17g, not %.17g", iters, u, ms_poly_plan_gain(&p, u), want);
        }
    }
    for (size_t i = 0; i < COUNT(cost); i++) {
        ms_plan_newton_schulz(cost[i].iters, &p);
        CHECK(ms_poly_plan_products(&p) == cost[i].products, "K = %d: %d products", cost[i].iters,
              ms_poly_plan_products(&p));
    }
}

TEST(paper7_is_five_steps)
{
    ms_poly_plan p;
    double       worst = 0.0;
    ms_poly_plan_paper7(&p);
    for (int i = 0; i <= GRID; i++) {
        const double u = (double)i / GRID, off = fabs(ms_poly_plan_gain(&p, u) - phi(u, 5));
        if (!(off <= worst)) worst = off;
    }
    CHECK(worst <= 1.6e-6, "paper7 is %g from five steps", worst);
    CHECK(ms_poly_plan_products(&p) == 7, "paper7 takes %d products", ms_poly_plan_products(&p));
}

/* T from the numbers that the engine multiplies with. */
static double squares(const ms_stage *s, double w)
{
    const ms_stage_form f = ms_stage_squares(s);
    const double        v = f.v1 * w + f.v0;
    switch (s->q) {
    case 4: return (v * v + f.q0) * (v * v + f.q0) + f.t1 * w + f.t0;
    case 2: return v * v + f.t1 * w + f.t0;
    default: return f.t1 * w + f.t0;
    }
}

static void check_squares(const ms_poly_plan *p)
{
    for (int s = 0; s < p->n_stages; s++) {
        const ms_stage *st  = &p->stage[s];
        double          top = 0.0; /* T is largest somewhere on [0, wmax], usually at 0 */
        for (int i = 0; i <= 200; i++)
            top = fmax(top, fabs(chebyshev(st->q, st->k, i / 100.0 - 1.0)));
        for (int i = 0; i <= 200; i++) {
            const double w = st->wmax * i / 200.0, want = chebyshev(st->q, st->k, i / 100.0 - 1.0);
            CHECK(fabs(squares(st, w) - want) <= 1e-13 * top,
                  "%s stage %d, w = %g: %.17g, not %.17g", p->name, s, w, squares(st, w), want);
        }
    }
}

TEST(squares_reproduce_every_stage)
{
    const int   *q;
    ms_poly_plan p;
    for (int iters = 1; iters <= 9; iters++) {
        ms_plan_newton_schulz(iters, &p);
        check_squares(&p);
    }
    ms_poly_plan_paper7(&p);
    check_squares(&p);
    for (size_t row = 0; ms_poly_candidate_stages(row, &q) > 0; row++) {
        static const double u_d[] = { 0.0017, 0.0125, 0.09, 0.16, 0.4, 0.7, 0.95 };
        for (size_t i = 0; i < COUNT(u_d); i++) {
            assert_int_equal(ms_poly_plan_minimax(q, ms_poly_candidate_stages(row, &q), u_d[i], &p),
                             MUSEC_OK);
            check_squares(&p);
        }
    }
}

/* ---- candidates ------------------------------------------------------------------------------ */

#define TOLS 4
static const double menu_tols[TOLS] = { 2e-2, 2e-3, 1e-4, 1e-5 };

/* The smallest u_d of each row for each tol, as printed with the candidates.
 * 0.55 of the last place rather than 0.5: the .101 stands for .10046, rounded by way of .1005. */
static const struct menu_row {
    const char *name;
    int         products, n, q[4];
    const char *u_d[TOLS];
} menu_rows[] = {
    { "9", 2, 1, { 4 }, { ".378", ".553", ".726", ".818" } },
    { "3x9", 5, 2, { 1, 4 }, { ".162", ".258", ".382", ".472" } },
    { "5x9", 6, 2, { 2, 4 }, { ".101", ".162", ".246", ".311" } },
    { "9x9", 7, 2, { 4, 4 }, { ".0566", ".0921", ".141", ".181" } },
    { "3x9x9", 10, 3, { 1, 4, 4 }, { ".0220", ".0362", ".0562", ".0725" } },
    { "5x9x9", 11, 3, { 2, 4, 4 }, { ".0135", ".0221", ".0344", ".0445" } },
    { "9x9x9", 12, 3, { 4, 4, 4 }, { ".0075", ".0124", ".0193", ".0250" } },
    { "3x9x9x9", 15, 4, { 1, 4, 4, 4 }, { ".0029", ".0048", ".0075", ".0097" } },
    { "9x9x9x9", 17, 4, { 4, 4, 4, 4 }, { ".0010", ".0016", ".0025", ".0033" } },
};

static double smallest_u_d(const struct menu_row *row, double tol)
{
    double       lo = 1e-5, hi = 0.999;
    ms_poly_plan p;
    for (int i = 0; i < 40; i++) {
        const double mid = sqrt(lo * hi);
        assert_int_equal(ms_poly_plan_minimax(row->q, row->n, mid, &p), MUSEC_OK);
        if (p.tol <= tol)
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

TEST(menu_reaches_its_printed_intervals)
{
    for (size_t i = 0; i < COUNT(menu_rows); i++) {
        for (size_t t = 0; t < TOLS; t++) {
            const char  *text = menu_rows[i].u_d[t];
            const double unit = pow(10.0, 1.0 - (double)strlen(text)); /* of the last digit */
            const double u_d  = smallest_u_d(&menu_rows[i], menu_tols[t]);
            const double over = strtod(text, NULL) - u_d;
            CHECK(fabs(over) <= 0.55 * unit, "%s, tol %g: u_d %.6f, printed %s", menu_rows[i].name,
                  menu_tols[t], u_d, text);
        }
    }
}

TEST(menu_has_its_rows_by_cost)
{
    const int   *q;
    ms_poly_plan p;
    for (size_t i = 0; i < COUNT(menu_rows); i++) {
        CHECK(ms_poly_candidate_stages(i, &q) == menu_rows[i].n, "row %s", menu_rows[i].name);
        CHECK(memcmp(q, menu_rows[i].q, (size_t)menu_rows[i].n * sizeof *q) == 0, "row %s",
              menu_rows[i].name);
        assert_int_equal(ms_poly_plan_minimax(q, menu_rows[i].n, 0.1, &p), MUSEC_OK);
        CHECK(ms_poly_plan_products(&p) == menu_rows[i].products, "row %s: %d products",
              menu_rows[i].name, ms_poly_plan_products(&p));
        CHECK(strcmp(p.name + 1, menu_rows[i].name) == 0, "row %s: plan %s", menu_rows[i].name,
              p.name);
    }
    assert_int_equal(ms_poly_candidate_stages(COUNT(menu_rows), &q), 0);
}

/* The gain at u and, in *slack, what rounding may do to it: each stage adds some units of 2^-53 of
 * the sum of its terms' absolute values, and the later ones magnify that by their slopes. */
static double gain_and_slack(const ms_poly_plan *p, double u, double *slack)
{
    double err = 0.0;
    for (int i = 0; i < p->n_stages; i++) {
        const ms_stage *s    = &p->stage[i];
        double          size = 0.0, slope = 0.0;
        for (int j = 0; j <= s->q; j++) {
            size += fabs(s->c[j]) * pow(u, 2 * j + 1);
            slope += (2 * j + 1) * s->c[j] * pow(u, 2 * j);
        }
        err = err * fabs(slope) + 4e-16 * size;
        u *= monomials(s->q, s->c, u * u);
    }
    *slack = 2.0 * err;
    return u;
}

/* The plan keeps its promise on [u_low, 1].  Below, it rises and is concave, so it stays above the
 * line from 0 to its value in u_low. */
static void check_promise(const ms_poly_plan *p, double tol, double u_low)
{
    double slack, before = 0.0;
    for (int i = 0; i <= GRID; i++) {
        const double gain = gain_and_slack(p, u_low + (1.0 - u_low) * i / GRID, &slack);
        CHECK(gain >= 1.0 - tol - slack && gain <= 1.0 + slack,
              "%s for tol %g, u_low %g: gain %.17g", p->name, tol, u_low, gain);
    }
    for (int i = 0; i <= GRID; i++, before = gain_and_slack(p, u_low * (i - 1.0) / GRID, &slack)) {
        const double gain = gain_and_slack(p, u_low * i / GRID, &slack);
        CHECK(gain >= before - slack && gain >= (1.0 - tol) * i / GRID - slack,
              "%s below u_low %g: gain %.17g at %d/%d of it, %.17g before", p->name, u_low, gain, i,
              GRID, before);
    }
}

TEST(menu_takes_the_cheapest_row_that_will_do)
{
    static const double tols[]  = { 0.5, 2e-2, 2e-3, 1e-4, 1e-5, 1e-8, 1e-10, 1e-12 };
    static const double u_low[] = { 1.0,  0.99, 0.9,  0.8,  0.7,   0.56,  0.4,    0.25, 0.17,
                                    0.11, 0.06, 0.03, 0.02, 0.013, 0.006, 0.0017, 4e-4, 1e-5 };
    size_t              refused = 0;
    for (size_t t = 0; t < COUNT(tols); t++) {
        for (size_t i = 0; i < COUNT(u_low); i++) {
            ms_poly_plan       p, other;
            const musec_status st    = ms_poly_plan_cheapest(tols[t], u_low[i], &p);
            int                least = st == MUSEC_OK ? ms_poly_plan_products(&p) : 1000;
            const int         *q;
            CHECK(st == MUSEC_OK || st == MUSEC_ENOTSUP, "%s", musec_status_name(st));
            if (st == MUSEC_OK)
                check_promise(&p, tols[t], u_low[i]);
            else
                refused++;
            for (size_t row = 0; ms_poly_candidate_stages(row, &q) > 0; row++) {
                const int n = ms_poly_candidate_stages(row, &q);
                assert_int_equal(ms_poly_plan_minimax(q, n, u_low[i], &other), MUSEC_OK);
                CHECK(ms_poly_plan_products(&other) >= least || other.tol > tols[t] * (1.0 - 1e-9),
                      "tol %g, u_low %g: %s taken, %s would do", tols[t], u_low[i],
                      st == MUSEC_OK ? p.name : "none", other.name);
            }
        }
    }
    CHECK(refused > 0, "u = 1e-5 is below every candidate for tol %g", tols[1]);
}

/* Every row where it reaches tol by itself, found by halving; with a limit no row goes below it. */
TEST(the_whole_menu_agrees_with_its_rows)
{
    static const double tols[] = { 0.5, 2e-2, 1e-3, 5e-4, 1e-6, 1e-8, 1e-10 }, least = 0.03;
    ms_poly_candidates  all, part;
    for (size_t t = 0; t < COUNT(tols); t++) {
        const double most = tols[t] + 2e-15; /* the rounding of the generator, as above */
        assert_int_equal(ms_poly_candidates_make(tols[t], 0.0, &all), MUSEC_OK);
        assert_int_equal(ms_poly_candidates_make(tols[t], least, &part), MUSEC_OK);
        CHECK(all.n == MS_POLY_CANDIDATES && all.longest == 4, "tol %g: %d rows", tols[t], all.n);
        for (int i = 0; i < all.n; i++) {
            const ms_poly_plan *p   = &all.plan[i];
            const double        u_d = smallest_u_d(&menu_rows[i], tols[t]);
            CHECK(strcmp(p->name + 1, menu_rows[i].name) == 0, "row %d: %s", i, p->name);
            CHECK(fabs(p->u_d - u_d) <= (1e-6 + 2e-15 / tols[t]) * u_d && p->tol <= most,
                  "%s, tol %g: u_d %.12g with %g, not %.12g", p->name, tols[t], p->u_d, p->tol,
                  u_d);
            CHECK(i == 0 || p->u_d < all.plan[i - 1].u_d, "%s, tol %g: u_d %g", p->name, tols[t],
                  p->u_d);
            if (i >= part.n) continue;
            CHECK(part.plan[i].u_d == fmax(p->u_d, least) && part.plan[i].tol <= most,
                  "%s, tol %g: u_d %g", part.plan[i].name, tols[t], part.plan[i].u_d);
        }
        CHECK(part.plan[part.n - 1].u_d == least && part.plan[part.n - 2].u_d > least,
              "tol %g: ends with u_d %g", tols[t], part.plan[part.n - 1].u_d);
    }
    CHECK(ms_poly_candidates_make(0.0, 0.0, &all) == MUSEC_EINVAL &&
              ms_poly_candidates_make(1.0, 0.0, &all) == MUSEC_EINVAL &&
              ms_poly_candidates_make(NAN, 0.0, &all) == MUSEC_EINVAL,
          "a tol outside of (0, 1)");
}

TEST(bad_plans_are_refused)
{
    static const int    q[]   = { 4, 4 };
    static const double bad[] = { 0.0, -0.1, NAN, 1.5, INFINITY };
    ms_poly_plan        p;
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(ms_poly_plan_minimax(q, 2, bad[i], &p) == MUSEC_EINVAL, "u_d %g", bad[i]);
    assert_int_equal(ms_poly_plan_minimax(q, 0, 0.5, &p), MUSEC_EINVAL);
}
