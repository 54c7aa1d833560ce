/* theory_run_test.c - Algorithm 2 computed by hand on one column, where the clip is a division; the
 * distance of hulls with a known answer; exact polar steps that do not converge; slopes of known
 * powers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clip_run.h"
#include "core/optimizers.h"
#include "theory/fit.h"
#include "theory/run.h"

static void make(const char *name, int64_t rows, int64_t cols, uint64_t seed, ms_objective *p)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_objective_make(&e, name, rows, cols, seed, p));
}

static void set_up(const ms_objective *p, const char *optimizer, int64_t steps, double sigma,
                   ms_theory_setup *s)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_theory_setup_init(&e, p, optimizer, steps, 0.1, sigma, 9, s));
}

static void run(const ms_theory_setup *s, ms_theory_result *r)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_theory_run(&e, s, NULL, NULL, r));
}

/* ---- the algorithm --------------------------------------------------------------------------- */

/* With one column the singular value of M is |M|.  All of the paper's algorithm, written out. */
TEST(runs_agree_with_the_algorithm_by_hand)
{
    enum { ROWS = 6, STEPS = 900 };
    static const char *const names[] = { "quadratic", "phase" };

    for (size_t k = 0; k < COUNT(names); k++) {
        ms_objective     p;
        ms_theory_setup  s;
        ms_theory_result r;
        make(names[k], ROWS, 1, 2, &p);
        set_up(&p, "musec", STEPS, 0.3, &s);
        run(&s, &r);
        const double  dn = 0.1 * STEPS, D = pow(dn, -1.0 / 3.0), beta = pow(dn, -2.0 / 3.0);
        const double  eta = pow(0.1, 2.0 / 3.0) * pow((double)STEPS, -1.0 / 3.0);
        const int64_t T = (int64_t)pow(dn, 2.0 / 3.0), K = STEPS / T;
        double(*w)[ROWS] = calloc((size_t)(K * T + 1), sizeof *w), m[ROWS] = { 0 }, h[ROWS];
        double hbar = 0.0, sum[ROWS] = { 0 }, mean[ROWS] = { 0 };
        CHECK(w != NULL, "memory");
        CHECK(T == s.params.T && K == s.params.K && r.steps == K * T, "T %lld", (long long)T);
        memcpy(w[0], p.start, sizeof w[0]);
        for (int64_t n = 0; n <= K * T; n++) {
            double g[ROWS], size;
            (void)ms_objective_value(&p, w[n], h);
            for (int i = 0; i < ROWS && n > 0; i++)
                sum[i] += h[i];
            if (n > 0 && n % T == 0) {
                CHECK(fabs(run_fro(sum, ROWS) / (double)T - r.hbar[n / T - 1]) <= 1e-9,
                      "epoch %lld", (long long)(n / T));
                hbar += run_fro(sum, ROWS) / (double)T / (double)K;
                memset(sum, 0, sizeof sum);
            }
            if (n == K * T) break;
            memcpy(g, h, sizeof g);
            ms_objective_noise(&p, 0.3, 9, n, g);
            for (int i = 0; i < ROWS; i++)
                m[i] = n == 0 ? g[i] : (1.0 - beta) * m[i] + beta * g[i];
            size = run_fro(m, ROWS);
            for (int i = 0; i < ROWS; i++) {
                if (size > D) m[i] *= D / size;
                w[n + 1][i] = w[n][i] - eta * m[i];
            }
        }
        for (int64_t t = 0; t < T; t++)
            for (int i = 0; i < ROWS; i++)
                mean[i] += w[r.picked * T + t][i] / (double)T;
        CHECK(fabs(hbar - r.hbar_mean) <= 1e-9, "%g, not %g", r.hbar_mean, hbar);
        CHECK(run_fro_diff(mean, r.returned, ROWS) <= 1e-9, "the point returned");
        CHECK(r.picked >= 0 && r.picked < K, "epoch %lld", (long long)r.picked);
        CHECK(fabs(ms_objective_value(&p, w[K * T], NULL) - r.f_end) <= 1e-9, "f at the end");
        free(w);
        ms_theory_result_free(&r);
        ms_objective_free(&p);
    }
}

/* The library averages W_1 ... W_T, the paper W_0 ... W_{T-1}: they differ by (W_T - W_0) / T.  An
 * epoch stays within half of the ball's radius, and the theorem's bound holds. */
TEST(runs_keep_to_their_averages_balls_and_bounds)
{
    for (size_t k = 0; ms_objective_name(k, NULL) != NULL; k++)
        for (uint64_t seed = 0; seed < 2; seed++) {
            const char      *name = ms_objective_name(k, NULL);
            ms_objective     p;
            ms_theory_setup  s;
            ms_theory_result r;
            make(name, 0, 0, seed, &p);
            set_up(&p, "musec", 2500, 0.5 * (double)seed, &s);
            run(&s, &r);
            const int64_t n = ms_objective_size(&p);
            for (int64_t i = 0; i < n; i++)
                CHECK(fabs(r.optim_average[i] - r.returned[i]) <= 1e-13, "%s: the averages", name);
            CHECK(r.spread <= 0.1 * (double)(s.params.T + 1) / (2.0 * (double)s.params.T) + 1e-12,
                  "%s: spread %g", name, r.spread);
            CHECK(r.travel <= p.radius, "%s left its ball: %g", name, r.travel);
            CHECK(r.f_end < r.f_start, "%s: f from %g to %g", name, r.f_start, r.f_end);
            if (s.weakly_convex && s.params.all_hold)
                CHECK(r.hbar_mean <= s.params.bound.total, "%s: %g above %g", name, r.hbar_mean,
                      s.params.bound.total);
            ms_theory_result_free(&r);
            ms_objective_free(&p);
        }
}

/* The epochs in the result are those of the run, which may differ from the Corollary's. */
TEST(the_result_has_the_epochs_of_the_run)
{
    ms_objective     p;
    ms_theory_setup  s;
    ms_theory_result r;
    make("max", 0, 0, 0, &p);
    set_up(&p, "musec", 600, 0.0, &s);
    run(&s, &r);
    CHECK(r.T == s.params.T && r.K == s.params.K && r.K > 3, "K %lld", (long long)r.K);
    ms_theory_result_free(&r);
    s.optim.avg_steps  = 7;
    s.optim.avg_epochs = 3;
    run(&s, &r);
    CHECK(r.T == 7 && r.K == 3 && r.steps == 21 && r.picked < 3, "K %lld", (long long)r.K);
    CHECK(fabs((r.hbar[0] + r.hbar[1] + r.hbar[2]) / 3.0 - r.hbar_mean) <= 1e-15, "the mean");
    ms_theory_result_free(&r);
    ms_objective_free(&p);
}

TEST(runs_with_the_same_seed_have_the_same_bits)
{
    ms_objective     p;
    ms_theory_setup  s;
    ms_theory_result a, b;
    make("sensing", 0, 0, 4, &p);
    set_up(&p, "soft-musec", 600, 0.5, &s);
    run(&s, &a);
    run(&s, &b);
    CHECK(a.hbar_mean == b.hbar_mean && a.f_end == b.f_end, "the runs differ");
    ms_theory_result_free(&b);
    s.seed = 10;
    run(&s, &b);
    CHECK(a.f_end != b.f_end, "the same noise");
    ms_theory_result_free(&b);
    ms_theory_result_free(&a);
    ms_objective_free(&p);
}

/* ---- every optimizer ------------------------------------------------------------------------- */

/* The largest or usual length of a step of lr 1: D sqrt(r) for a clipped matrix, sqrt(r) for a
 * polar factor, sqrt(rows cols) for entries of size one. */
static double step_length(ms_optimizer_family family, const ms_objective *p, double D)
{
    const double r = (double)ms_objective_rank(p), size = (double)ms_objective_size(p);
    if (family == MS_FAMILY_ORTHOGONALIZING) return sqrt(r);
    return family == MS_FAMILY_SIGN_LIKE ? sqrt(size) : D * sqrt(r);
}

/* f falls, T steps of full length in one direction have length delta except for T's rounding, and
 * as the mean lies in the middle, an epoch stays within (T + 1) / 2 steps of it.  Muon's quintic
 * steps leave singular values of up to 1.21; nothing bounds SGDM.  SOAP's entries are of size one
 * only in eigenvectors that a gradient has a steady part in, and Dion2 moves a quarter of the rows:
 * their steps are shorter. */
TEST(every_optimizer_descends_with_steps_of_its_length)
{
    const ms_optimizer *row;
    for (size_t k = 0; (row = ms_optimizer_at(k)) != NULL; k++) {
        const char      *name = row->name;
        ms_objective     p;
        ms_theory_setup  s;
        ms_theory_result r;
        make("sensing", 0, 0, 0, &p);
        set_up(&p, name, 3000, 0.0, &s);
        run(&s, &r);
        CHECK(!r.diverged && r.f_end < r.f_start, "%s: f from %g to %g", name, r.f_start, r.f_end);
        const double T    = (double)s.params.T;
        const double step = s.optim.lr * step_length(row->family, &p, s.params.D);
        const double over = row->family == MS_FAMILY_ORTHOGONALIZING ? 1.21 : 1.0;
        CHECK(step * T <= 0.1 * (1.0 + 1e-12) && step * (T + 1.0) > 0.1, "%s: steps of %g", name,
              step);
        CHECK(row->family == MS_FAMILY_GRADIENT || r.spread <= over * step * (T + 1.0) / 2.0,
              "%s moves %g in an epoch of %g steps of %g", name, r.spread, T, step);
        const bool   less  = strcmp(name, "soap") == 0 || strcmp(name, "dion2") == 0;
        const double least = less ? 0.1 : 0.2;
        CHECK(r.spread >= least * step * T, "%s moves by only %g", name, r.spread);
        ms_theory_result_free(&r);
        ms_objective_free(&p);
    }
}

/* The exact polar factor jumps back and forth across a kink: <U, W> does not move, and |Hbar| is
 * 0.1 in every epoch except for the remainder of one jump.  Musec converges. */
TEST(exact_polar_steps_do_not_converge_at_a_kink)
{
    ms_objective     p;
    ms_theory_setup  s;
    ms_theory_result r;
    make("kinks", 0, 0, 1, &p);
    for (int64_t steps = 2000; steps <= 16000; steps *= 8) {
        set_up(&p, "muon", steps, 0.0, &s);
        s.optim.ns_mode = MUSEC_NS_EXACT;
        s.optim.beta    = 0.5;
        run(&s, &r);
        CHECK(r.f_end >= 0.1, "f %g", r.f_end);
        for (int64_t k = 0; k < s.params.K; k++)
            CHECK(r.hbar[k] >= 0.1 * (1.0 - 1e-9) && r.hbar[k] <= 0.1 + 2.0 / (double)s.params.T,
                  "epoch %lld: %g", (long long)k, r.hbar[k]);
        ms_theory_result_free(&r);
    }
    set_up(&p, "musec", 16000, 0.0, &s);
    run(&s, &r);
    CHECK(r.f_end <= 0.01 && r.hbar_mean <= 0.06, "Musec: f %g, |Hbar| %g", r.f_end, r.hbar_mean);
    ms_theory_result_free(&r);
    ms_objective_free(&p);
}

TEST(a_diverged_run_is_a_result_and_no_error)
{
    ms_objective     p;
    ms_theory_setup  s;
    ms_theory_result r;
    make("quadratic", 0, 0, 0, &p);
    set_up(&p, "sgdm", 1000, 0.0, &s);
    s.optim.lr   = 1e9;
    s.optim.beta = 1.0;
    run(&s, &r);
    CHECK(r.diverged && r.steps < 1000 && isnan(r.hbar_mean), "%lld steps", (long long)r.steps);
    ms_theory_result_free(&r);
    ms_objective_free(&p);
}

/* The bound's constants are those of the problem; L includes the noise. */
TEST(setups_have_the_constants_of_their_problem)
{
    for (size_t k = 0; ms_objective_name(k, NULL) != NULL; k++)
        for (double sigma = 0.0; sigma <= 1.5; sigma += 0.75) {
            const char     *name = ms_objective_name(k, NULL);
            ms_objective    p;
            ms_theory_setup s;
            make(name, 0, 0, 2, &p);
            set_up(&p, "musec", 2000, sigma, &s);
            const double L = sqrt(p.lipschitz * p.lipschitz + sigma * sigma);
            const double f = ms_objective_value(&p, p.start, NULL);
            CHECK(fabs(s.params.lipschitz - L) <= 1e-14 * L, "%s: L %g, not %g", name,
                  s.params.lipschitz, L);
            CHECK(s.weakly_convex == (strcmp(name, "relu") != 0), "%s", name);
            CHECK(s.params.rho == (s.weakly_convex ? p.rho : 0.0), "%s: rho %g", name,
                  s.params.rho);
            CHECK(s.params.sigma == sigma && s.sigma == sigma, "%s: sigma", name);
            CHECK(s.params.gap == f - (strcmp(name, "phase") == 0 ? 0.0 : p.minimum), "%s: gap %g",
                  name, s.params.gap);
            CHECK(s.params.rank == (double)(p.rows < p.cols ? p.rows : p.cols), "%s: r", name);
            CHECK(s.optim.lr == s.params.eta && s.optim.beta == s.params.beta &&
                      s.optim.threshold == s.params.D && s.optim.avg_steps == s.params.T &&
                      s.optim.avg_epochs == s.params.K && s.optim.seed == 9,
                  "%s: not the Corollary's", name);
            ms_objective_free(&p);
        }
}

TEST(impossible_setups_are_refused)
{
    ms_objective    p;
    ms_theory_setup s;
    ms_error        e = { "" };
    make("max", 0, 0, 0, &p);
    CHECK_FAILS(&e, ms_theory_setup_init(&e, &p, "musik", 1000, 0.1, 0.0, 0, &s), MUSEC_EINVAL,
                "\"musik\"; there are musec, soft-musec");
    CHECK_FAILS(&e, ms_theory_setup_init(&e, &p, "musec", 1, 1000.0, 0.0, 0, &s), MUSEC_EINVAL,
                "more steps or a smaller --delta");
    CHECK(ms_theory_setup_init(&e, &p, "musec", 100, -1.0, 0.0, 0, &s) == MUSEC_EINVAL, "delta");
    CHECK(ms_theory_setup_init(&e, &p, "musec", 100, 0.1, NAN, 0, &s) == MUSEC_EINVAL, "sigma");
    ms_objective_free(&p);
}

/* ---- the hull -------------------------------------------------------------------------------- */

static ms_hull hull_at(const ms_objective *p, const double *centre, double delta, int64_t samples)
{
    ms_error e = { "" };
    ms_hull  h;
    CHECK_OK_ERR(&e, ms_hull_distance(&e, p, centre, delta, samples, 5, &h));
    CHECK(h.certified && h.lower <= h.upper, "%g to %g", h.lower, h.upper);
    return h;
}

/* The ball reaches one side of the crossed kinks, the two sides of V's kink, or all four. */
TEST(the_hull_at_crossed_kinks_is_known)
{
    ms_objective p;
    make("kinks", 4, 6, 3, &p); /* the start is U + V / 1000 or a little more */
    CHECK(fabs(hull_at(&p, p.start, 0.0005, 64).upper - hypot(0.1, 1.0)) <= 1e-12, "one side");
    CHECK(fabs(hull_at(&p, p.start, 0.1, 64).upper - 0.1) <= 1e-8, "two sides");
    CHECK(hull_at(&p, p.target, 0.1, 64).upper <= 1e-8, "the minimum");
    ms_objective_free(&p);
}

/* With one row of weight 1 the gradient is W - W*, so the distance is |W - W*| - delta.  Samples
 * approach it from above; the first alone is the centre, delta away. */
TEST(the_hull_of_a_ball_of_gradients_is_known)
{
    ms_objective p;
    make("quadratic", 1, 12, 3, &p);
    const double far = run_fro_diff(p.start, p.target, 12), delta = 0.3;
    const double h = hull_at(&p, p.start, delta, 200).upper;
    CHECK(h >= far - delta - 1e-12 && h <= far - 0.95 * delta, "%g, not %g", h, far - delta);
    CHECK(fabs(hull_at(&p, p.start, delta, 1).upper - far) <= 1e-12, "one sample");
    CHECK(hull_at(&p, p.target, delta, 200).upper <= 1e-12, "at the minimum");
    ms_objective_free(&p);
}

TEST(a_hull_without_samples_or_ball_is_refused)
{
    ms_objective p;
    ms_hull      h;
    ms_error     e = { "" };
    make("max", 0, 0, 0, &p);
    CHECK(ms_hull_distance(&e, &p, p.start, 0.1, 0, 0, &h) == MUSEC_EINVAL, "no samples");
    CHECK(ms_hull_distance(&e, &p, p.start, NAN, 8, 0, &h) == MUSEC_EINVAL, "no ball");
    ms_objective_free(&p);
}

/* ---- slopes ---------------------------------------------------------------------------------- */

TEST(slopes_of_powers_are_their_exponents)
{
    const double    x[] = { 1.0, 2.0, 4.0, 8.0 };
    double          y[3][4];
    ms_theory_slope s;
    for (int i = 0; i < 3; i++) /* exponents -0.4, -0.3, -0.2: mean -0.3, deviation 0.1 */
        for (int k = 0; k < 4; k++)
            y[i][k] = (i + 1.0) * pow(x[k], -0.4 + 0.1 * i);
    s = ms_theory_slope_fit(x, &y[0][0], 3, 4);
    CHECK(fabs(s.mean + 0.3) <= 1e-12 && s.seeds == 3, "%g", s.mean);
    CHECK(fabs(s.high - s.low - 2.0 * 4.30265 * 0.1 / sqrt(3.0)) <= 1e-4, "%g", s.high - s.low);
    y[1][2] = 0.0; /* no logarithm: that seed is left out */
    s       = ms_theory_slope_fit(x, &y[0][0], 3, 4);
    CHECK(fabs(s.mean + 0.3) <= 1e-12 && s.seeds == 2, "%g", s.mean);
    CHECK(isnan(ms_theory_slope_fit(x, &y[0][0], 1, 1).mean), "one point");
    CHECK(isnan(ms_theory_slope_fit(x, &y[0][0], 1, 4).low), "one seed has no interval");
    CHECK(fabs(ms_theory_student(10) - 2.22814) <= 1e-3 &&
              fabs(ms_theory_student(30) - 2.04227) <= 1e-4,
          "t(10) %g, t(30) %g", ms_theory_student(10), ms_theory_student(30));
}
