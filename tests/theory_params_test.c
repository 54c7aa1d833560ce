/* theory_params_test.c - the Corollary's parameters: cases computed by hand, identities, refusals.
 *
 * delta = 1, N = 64, r = 4 gives powers of two: T = 16, K = 4, D = 1/4, beta = eta = 1/8, gamma =
 * 1, and 64 is the smallest N with beta <= 1/8. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "oracle.h"
#include "theory/params.h"

static ms_theory_params params(double delta, int64_t steps, double rank)
{
    return (ms_theory_params){ .delta     = delta,
                               .steps     = steps,
                               .rank      = rank,
                               .rho       = 1.0,
                               .lipschitz = 1.0,
                               .sigma     = 1.0,
                               .gap       = 1.0 };
}

static void set(ms_theory_params *p)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_theory_params_set(&e, p));
}

static bool same(double a, double b) { return fabs(a - b) <= 1e-14 * fabs(b); }

TEST(a_case_of_powers_of_two_is_exact)
{
    ms_theory_params     p = params(1.0, 64, 4.0);
    ms_theory_complexity c;
    ms_error             e = { "" };

    set(&p);
    CHECK(p.T == 16 && p.K == 4, "T %lld, K %lld", (long long)p.T, (long long)p.K);
    CHECK(p.D == 0.25 && p.beta == 0.125 && p.eta == 0.125 && p.gamma == 1.0, "%.17g %.17g %.17g",
          p.D, p.beta, p.eta);
    CHECK(p.all_hold && p.least_steps == 64, "least N %lld", (long long)p.least_steps);
    CHECK(p.bound.noise == 0.25 && p.bound.clip == 0.25 && p.bound.start == 1.0 &&
              p.bound.steps == 0.5 && p.bound.gap == 0.5 && p.bound.total == 2.5,
          "bound %.17g", p.bound.total);
    CHECK_OK_ERR(&e, ms_theory_complexity_of(&e, &p, 2.5, &c));
    CHECK(c.constant == 10.0 && c.steps_bound == 64.0 && c.steps == 64.0 && c.whole == 64,
          "%g %g %g %lld", c.constant, c.steps_bound, c.steps, (long long)c.whole);

    p = params(1.0, 63, 4.0);
    set(&p);
    CHECK(!p.all_hold && !p.constraint[MS_THEORY_MOMENTUM].holds, "beta %.17g", p.beta);
    CHECK(p.constraint[MS_THEORY_RADIUS].holds && p.constraint[MS_THEORY_STEP].holds, "others");
    CHECK(p.least_steps == 64, "least N %lld", (long long)p.least_steps);
    CHECK(p.T == 15 && p.K == 4, "T %lld, K %lld", (long long)p.T, (long long)p.K);
}

/* An epoch length that is a whole number is not rounded down, although pow(8, 2/3) is below 4. */
TEST(whole_epoch_lengths_are_not_rounded_down)
{
    for (int64_t c = 1; c <= 2000; c++) {
        ms_theory_params p = params(1.0, c * c * c, 1.0), q = params(0.001, 1000 * c * c * c, 1.0);
        set(&p);
        CHECK(p.T == c * c && p.K == c, "N = %lld^3: T %lld, K %lld", (long long)c, (long long)p.T,
              (long long)p.K);
        set(&q);
        CHECK(q.T == c * c, "delta N = %lld^3: T %lld", (long long)c, (long long)q.T);
    }
}

/* The paper's formulas, evaluated by logarithms, and what whole T and K must satisfy. */
TEST(identities)
{
    uint64_t seed = 81;
    int      held = 0;

    for (int c = 0; c < 5000; c++) {
        const double     delta = pow(10.0, 4.0 * oracle_uniform(&seed) - 3.0);
        const int64_t    N     = (int64_t)pow(10.0, 9.0 * oracle_uniform(&seed));
        const double     r     = floor(pow(10.0, 3.0 * oracle_uniform(&seed)));
        const double     dN = log(delta) + log((double)N), root = exp(-dN / 3.0);
        ms_theory_params p = params(delta, N, r);
        double           closed;

        p.sigma     = 3.0 * oracle_uniform(&seed);
        p.lipschitz = 3.0 * oracle_uniform(&seed);
        p.gap       = 3.0 * oracle_uniform(&seed);
        p.rho       = pow(10.0, 4.0 * oracle_uniform(&seed) - 2.0);
        set(&p);
        CHECK(same(p.eta * p.T_real * p.D * sqrt(r), delta), "radius, case %d", c);
        CHECK(same(p.beta * p.T_real, sqrt(r)), "beta T, case %d", c);
        CHECK(same(p.eta * p.gamma, p.beta) && p.constraint[MS_THEORY_GAMMA].holds, "case %d", c);
        CHECK(fabs(p.eta - exp((2.0 * log(delta) - log((double)N)) / 3.0) / sqrt(r)) <=
                  1e-12 * p.eta,
              "eta, case %d", c);
        CHECK(fabs(p.D - root) <= 1e-12 * p.D, "D, case %d", c);
        CHECK((double)p.T <= fmax(1.0, p.T_real * (1.0 + 1e-14)) && (double)p.T > p.T_real - 1.0,
              "T %lld of %.17g", (long long)p.T, p.T_real);
        CHECK(p.K * p.T <= N && (p.K + 1) * p.T > N, "K %lld, T %lld, N %lld", (long long)p.K,
              (long long)p.T, (long long)N);
        closed = (p.sigma + 1.0 + 2.0 * sqrt(r) + sqrt(r) * p.lipschitz * p.lipschitz +
                  sqrt(r) * p.gap) *
                 root;
        CHECK(fabs(p.bound_real.total - closed) <= 1e-12 * closed, "bound, case %d", c);
        if (p.T >= 1 && p.T_real >= 1.0 && p.K >= 1) /* rounding down costs, never gains */
            CHECK(p.bound.total >= p.bound_real.total * (1.0 - 1e-14), "bound, case %d", c);
        held += p.all_hold;
    }
    CHECK(held > 1000 && held < 4000, "%d of 5000 hold", held);
}

/* From least_steps on all constraints hold, and each constraint holds from its own threshold on. */
TEST(constraints_hold_from_their_thresholds_on)
{
    uint64_t seed = 91;

    for (int c = 0; c < 2000; c++) {
        const double     delta = pow(10.0, 5.0 * oracle_uniform(&seed) - 3.0);
        const double     r     = floor(pow(10.0, 3.0 * oracle_uniform(&seed)));
        ms_theory_params p     = params(delta, 1, r);
        int64_t          least;

        p.rho = c % 3 == 0 ? 0.0 : pow(10.0, 3.0 * oracle_uniform(&seed) - 1.0);
        set(&p);
        least = p.least_steps;
        CHECK(
            same(p.constraint[MS_THEORY_MOMENTUM].steps, 22.62741699796952 * pow(r, 0.75) / delta),
            "22.63 r^(3/4) / delta, case %d", c);
        CHECK(same(p.constraint[MS_THEORY_STEP].steps,
                   p.rho * p.rho * p.rho * delta * delta / pow(r, 1.5)) ||
                  p.rho == 0.0,
              "rho^3 delta^2 r^(-3/2), case %d", c);
        p.steps = least;
        set(&p);
        CHECK(p.all_hold, "case %d: they do not hold at %lld", c, (long long)least);
        if (least == 1) continue;
        p.steps = least - 1;
        set(&p);
        CHECK(!p.all_hold && p.least_steps == least, "case %d: they hold at %lld", c,
              (long long)least - 1);
        for (int k = 0; k < MS_THEORY_N_CONSTRAINTS; k++) {
            const double from = p.constraint[k].steps;
            for (int side = -1; side <= 1; side += 2) {
                ms_theory_params q = p;
                q.steps            = (int64_t)(from * (1.0 + 0.01 * side)) + (side > 0);
                if (q.steps < 1 || from < 200.0 || k == MS_THEORY_RADIUS || k == MS_THEORY_EPOCH)
                    continue; /* those two begin a little earlier, where T is rounded down */
                set(&q);
                CHECK(q.constraint[k].holds == (side > 0), "case %d: %s at %lld, from %g", c,
                      q.constraint[k].name, (long long)q.steps, from);
            }
        }
    }
}

/* The N for a target reaches it, and nine tenths of it do not. */
TEST(the_steps_for_a_target_are_needed_and_enough)
{
    uint64_t seed = 101;

    for (int c = 0; c < 1000; c++) {
        const double         epsilon = pow(10.0, 2.0 * oracle_uniform(&seed) - 1.0);
        ms_theory_params     p       = params(oracle_uniform(&seed), 1, 1.0 + (double)(c % 20)), q;
        ms_theory_complexity n;
        ms_error             e = { "" };

        set(&p);
        CHECK_OK_ERR(&e, ms_theory_complexity_of(&e, &p, epsilon, &n));
        CHECK(n.whole >= (int64_t)n.steps && (double)n.whole <= 1.5 * n.steps + 100.0,
              "case %d: %g, whole %lld", c, n.steps, (long long)n.whole);
        q       = p;
        q.steps = n.whole;
        set(&q);
        CHECK(q.all_hold && q.bound.total <= epsilon, "case %d: %g", c, q.bound.total);
        q.steps = (int64_t)(0.9 * n.steps);
        if (q.steps < 1) continue;
        set(&q);
        CHECK(!q.all_hold || q.bound_real.total > epsilon, "case %d: %g with less", c,
              q.bound_real.total);
    }
}

/* The O() of the Corollary leaves out what does not vanish with sigma, L and the gap: 1 + 2 sqrt(r)
 * is in the bound's constant whatever they are. */
TEST(an_easy_problem_is_not_free)
{
    ms_theory_params     p = params(1.0, 64, 4.0);
    ms_theory_complexity n;
    ms_error             e = { "" };

    p.sigma = p.lipschitz = p.gap = p.rho = 0.0;
    set(&p);
    CHECK(p.bound.total == 1.25, "%.17g", p.bound.total); /* (1 + 2 sqrt(r)) (delta N)^(-1/3) */
    CHECK_OK_ERR(&e, ms_theory_complexity_of(&e, &p, 0.01, &n));
    CHECK(same(n.steps_bound, 125e6), "%.17g", n.steps_bound);
}

/* The Corollary's parameters know nothing of sigma, L and the gap, which is where L^6 comes from.
 * The theorem allows others: with beta = sqrt(2 r / T) D / L its bound is
 *     sigma / sqrt(T) + D + 2 L sqrt(2 r / T) + sqrt(r) gap T / (delta N),
 * so T = (3 (sigma + 2 L sqrt(2 r)) / epsilon)^2, D = epsilon / 3 and N = 3 sqrt(r) gap T /
 * (delta epsilon) do: of order r^(3/2) L^2 gap / (delta epsilon^3). */
TEST(the_theorem_allows_fewer_steps)
{
    const double epsilon = 0.5, r = 4.0, L = 10.0, sigma = 1.0, gap = 1.0, delta = 0.1;
    const double T = ceil(pow(3.0 * (sigma + 2.0 * L * sqrt(2.0 * r)) / epsilon, 2.0));
    const double K = ceil(3.0 * sqrt(r) * gap / (delta * epsilon));
    const double D = epsilon / 3.0, beta = sqrt(2.0 * r / T) * D / L;
    const double eta = delta / (T * D * sqrt(r)), gamma = beta / eta;
    const double bound = sigma / sqrt(T) + (1.0 + 2.0 * r / (beta * T)) * D + beta * L * L / D +
                         gamma * gap / (beta * D * T * K);
    ms_theory_params     p = params(delta, 1, r);
    ms_theory_complexity n;
    ms_error             e = { "" };

    CHECK(beta <= 0.125 && eta <= 1.0, "beta %g, eta %g", beta, eta);
    CHECK(bound <= epsilon, "%.17g", bound);
    p.lipschitz = L;
    set(&p);
    CHECK_OK_ERR(&e, ms_theory_complexity_of(&e, &p, epsilon, &n));
    CHECK(n.steps > 45.0 * K * T, "%g steps, not %g", K * T, n.steps);
}

static void refuse(ms_theory_params p, const char *option)
{
    ms_error e = { "" };
    CHECK_FAILS(&e, ms_theory_params_set(&e, &p), MUSEC_EINVAL, option);
}

TEST(numbers_out_of_range_are_refused)
{
    static const double bad[] = { -1.0, NAN, INFINITY, -INFINITY };
    static const struct {
        const char *option;
        size_t      offset;
    } fields[] = { { "--delta", offsetof(ms_theory_params, delta) },
                   { "--rank", offsetof(ms_theory_params, rank) },
                   { "--rho", offsetof(ms_theory_params, rho) },
                   { "--lipschitz", offsetof(ms_theory_params, lipschitz) },
                   { "--sigma", offsetof(ms_theory_params, sigma) },
                   { "--gap", offsetof(ms_theory_params, gap) } };
    ms_theory_params     p;
    ms_theory_complexity c;
    ms_error             e = { "" };

    for (size_t i = 0; i < COUNT(bad); i++)
        for (size_t k = 0; k < COUNT(fields); k++) {
            p = params(1.0, 10, 1.0);
            memcpy((char *)&p + fields[k].offset, &bad[i], sizeof bad[i]);
            refuse(p, fields[k].option);
        }
    refuse(params(0.0, 10, 1.0), "--delta");
    refuse(params(1.0, 10, 0.5), "--rank");
    refuse(params(1.0, 0, 1.0), "--steps");
    refuse(params(1.0, -5, 1.0), "--steps");
    refuse(params(1.0, INT64_MAX, 1.0), "--steps");
    refuse(params(1e300, 10, 1.0), "--delta");
    refuse(params(1e-320, 10, 1.0), "--delta");
    refuse(params(1e-18, 10, 1.0), "more than 2^53");
    p           = params(1.0, 100, 1.0);
    p.lipschitz = 1e200;
    refuse(p, "--lipschitz");
    p      = params(1.0, 100, 1.0);
    p.gap  = 1e308;
    p.rank = 1e6;
    refuse(p, "--gap");
    p = params(1.0, 100, 1.0);
    set(&p);
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(ms_theory_complexity_of(&e, &p, bad[i], &c) == MUSEC_EINVAL, "epsilon %g", bad[i]);
    CHECK(ms_theory_complexity_of(&e, &p, 0.0, &c) == MUSEC_EINVAL, "epsilon 0");
    CHECK_FAILS(&e, ms_theory_complexity_of(&e, &p, 1e-120, &c), MUSEC_EINVAL, "--epsilon");
    CHECK_OK_ERR(&e, ms_theory_complexity_of(&e, &p, 1e-6, &c));
    CHECK(c.whole == 0 && c.steps > 0x1p53, "%g", c.steps);
}

/* Where not even one epoch fits, K is 0 and there is no bound. */
TEST(no_epoch)
{
    ms_theory_params p = params(100.0, 1000, 1.0);

    set(&p);
    CHECK(p.T == 2154 && p.K == 0 && !p.constraint[MS_THEORY_EPOCH].holds, "T %lld, K %lld",
          (long long)p.T, (long long)p.K);
    CHECK(p.bound.total == INFINITY, "%g", p.bound.total);
    CHECK(p.least_steps >= 9999 && p.least_steps <= 10000, "%lld", (long long)p.least_steps);
}
