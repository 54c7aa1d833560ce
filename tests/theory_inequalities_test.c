/* theory_inequalities_test.c - the regret bound and the averages on random and adversarial runs,
 * and on broken ones.
 *
 * Runs are made here, step by step, with the library's operators on small matrices.  What must hold
 * is checked on all of them; what must fail is shown to fail, so that a check that always passes is
 * found.  Not every wrong clip breaks the regret bound: it holds for the projection onto any convex
 * set that contains the ball, so it holds for no clip at all, a clip at 2 D and a clip by entry.
 * Those leave the ball, and violate `feasible` and `projection`. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "clip_run.h"
#include "epoch_rig.h"
#include "oracle.h"

enum { RUNS = 1000 };

/* ---- gradients of no function ---------------------------------------------------------------- */

enum { GAUSSIAN, HEAVY, RANK_ONE, AGAINST, ALTERNATING, CONSTANT, BURST, MIXED, GRADIENT_KINDS };

struct play {
    int      kind;
    double   scale;
    uint64_t seed;
};

static void play(run *r, int64_t t, const double *before, void *arg)
{
    struct play *p = arg;
    double      *g = r->g + t * r->n;
    const int    kind =
        p->kind == MIXED ? (int)(GAUSSIAN + (t / 5) % (int64_t)(MIXED - GAUSSIAN)) : p->kind;
    const double left = oracle_normal(&p->seed);

    for (int64_t i = 0; i < r->n; i++) {
        const double  x = oracle_normal(&p->seed), old = before == NULL ? x : before[i];
        const int64_t row = i / r->e.cols;
        switch (kind) {
        case HEAVY: g[i] = x * x * x; break;
        case RANK_ONE: g[i] = left * cos((double)row) * sin((double)(i % r->e.cols)); break;
        case AGAINST: g[i] = -old * 4.0 * oracle_uniform(&p->seed) / r->e.D; break;
        case ALTERNATING: g[i] = t % 2 == 0 ? 1.0 : -1.0; break;
        case CONSTANT: g[i] = i / r->e.cols == i % r->e.cols ? 1.0 : 0.0; break;
        case BURST: g[i] = t % 17 == 3 ? 100.0 * x : 0.0; break;
        default: g[i] = x; break;
        }
        g[i] *= p->scale * r->e.D;
    }
}

/* An epoch without weights, whose clip has threshold D. */
static run make(int64_t rows, int64_t cols, int64_t T, double beta, double eta, double D)
{
    run r    = epoch_make(rows, cols, T);
    r.e.beta = beta, r.e.eta = eta, r.e.D = D;
    return r;
}

TEST_EACH_DEVICE(the_regret_bound_holds, dev)
{
    static const int64_t shapes[][2] = {
        { 1, 1 }, { 1, 4 }, { 3, 2 }, { 4, 4 }, { 2, 7 }, { 6, 5 }
    };
    uint64_t seed  = 31;
    double   least = INFINITY;

    for (int c = 0; c < RUNS; c++) {
        const int64_t  *shape = shapes[c % (int)COUNT(shapes)];
        run             r     = epoch_make(shape[0], shape[1], 1 + c % 40);
        ms_theory_check out[MS_THEORY_N_INEQUALITIES];
        struct play     p = { c % GRADIENT_KINDS, pow(10.0, 4.0 * oracle_uniform(&seed) - 2.0),
                              (uint64_t)c };

        r.e.beta = c % 5 == 0 ? 0.125 : 0.125 * oracle_uniform(&seed);
        r.e.eta  = pow(10.0, 3.0 * oracle_uniform(&seed) - 2.0);
        r.e.D    = pow(10.0, 2.0 * oracle_uniform(&seed) - 1.0);
        epoch_go(dev, &r, HARD, play, &p);
        epoch_judge(dev, &r, out);
        for (int k = 0; k < MS_THEORY_N_INEQUALITIES; k++)
            if (k != MS_THEORY_INEQUALITY_DESCENT && k != MS_THEORY_INEQUALITY_MEAN_DESCENT)
                CHECK(ms_theory_holds(&out[k], ROUNDING),
                      "run %d, %lldx%lld, gradients %d: %s: %g > %g at %lld (slack %g)", c,
                      (long long)shape[0], (long long)shape[1], p.kind, out[k].name, out[k].left,
                      out[k].right, (long long)out[k].at, ms_theory_slack(&out[k]));
        least = fmin(least, ms_theory_slack(&out[MS_THEORY_INEQUALITY_REGRET]));
        epoch_free(&r);
    }
    CHECK(least >= 0.0, "least slack of the regret %g", least);
}

/* ---- the worst comparator -------------------------------------------------------------------- */

/* right - left of Lemma B.1 after t steps at the comparator x, as the paper writes it. */
static double regret_slack(const run *r, int64_t t, const double *x)
{
    const double gamma = r->e.beta / r->e.eta, beta = r->e.beta;
    double       x2 = 0.0, first = 0.0, slack = 0.0;

    for (int64_t i = 0; i < r->n; i++) {
        x2 += x[i] * x[i];
        first += r->m[i] * r->m[i];
    }
    for (int64_t s = 0; s < t; s++) {
        double gm = 0.0, gx = 0.0, m2 = 0.0, g2 = 0.0;
        for (int64_t i = 0; i < r->n; i++) {
            const double g = r->g[(s + 1) * r->n + i], m = r->m[s * r->n + i];
            gm += g * m;
            gx += g * x[i];
            m2 += m * m;
            g2 += g * g;
        }
        slack -= -beta / gamma * gm + beta / (2.0 * gamma) * m2; /* f_s(X_s) */
        slack += -beta / gamma * gx + beta / (2.0 * gamma) * x2; /* f_s at the comparator */
        slack += -beta / (8.0 * gamma) * m2 + beta / (2.0 * gamma) * x2 + beta * beta / gamma * g2;
    }
    return slack + (first + x2) / gamma;
}

TEST_EACH_DEVICE(no_comparator_is_worse, dev)
{
    uint64_t seed = 41;

    for (int c = 0; c < 40; c++) {
        run             r = make(3, 4, 12, 0.1, 0.3, 0.7);
        struct play     p = { c % GRADIENT_KINDS, c % 2 == 0 ? 1.0 : 30.0, (uint64_t)c };
        ms_theory_check out[MS_THEORY_N_INEQUALITIES];
        double          worst, sum[12], least = INFINITY, here;

        epoch_go(dev, &r, HARD, play, &p);
        epoch_judge(dev, &r, out);
        worst = out[MS_THEORY_INEQUALITY_REGRET].right - out[MS_THEORY_INEQUALITY_REGRET].left;
        for (int64_t t = 1; t <= r.e.T; t++) {
            const double            lambda = 2.0 * ((double)t + 1.0 / r.e.beta);
            const musec_clip_config cfg    = run_config("hard", lambda * r.e.D);
            double                 *x;
            for (int64_t i = 0; i < r.n; i++) {
                sum[i] = 0.0;
                for (int64_t s = 1; s <= t; s++)
                    sum[i] += r.g[s * r.n + i];
            }
            x = run_clip(dev, &cfg, MUSEC_F64, sum, 3, 4, NULL);
            for (int64_t i = 0; i < r.n; i++)
                x[i] /= lambda;
            here = regret_slack(&r, t, x);
            if (t == out[MS_THEORY_INEQUALITY_REGRET].at)
                CHECK(fabs(here - worst) <= 1e-11 * (1.0 + out[MS_THEORY_INEQUALITY_REGRET].size),
                      "run %d: %.17g, by the paper's formula %.17g", c, worst, here);
            free(x);
            for (int k = 0; k < 100; k++) { /* others of the ball, on its surface and inside */
                double      *other  = oracle_gaussian(3, 4, seed++);
                const double shrink = r.e.D / oracle_norm2(other, MUSEC_F64, 3, 4) *
                                      (k % 2 == 0 ? 1.0 : oracle_uniform(&seed));
                for (int64_t i = 0; i < r.n; i++)
                    other[i] *= shrink;
                least = fmin(least, regret_slack(&r, t, other) - here);
                free(other);
            }
        }
        CHECK(least >= 0.0, "run %d: a comparator is worse by %g", c, -least);
        epoch_free(&r);
    }
}

/* ---- runs that break an inequality ----------------------------------------------------------- */

static run broken_run(ms_device *dev, clip_kind kind, int gradients, double scale)
{
    run         r = make(4, 4, 400, 0.01, 0.1, 0.5);
    struct play p = { gradients, scale, 3 };
    epoch_go(dev, &r, kind, play, &p);
    return r;
}

static void silence(run *r, int64_t t, const double *before, void *arg) /* after a first gradient */
{
    (void)before;
    (void)arg;
    for (int64_t i = 0; i < r->n; i++)
        r->g[t * r->n + i] = t == 0 && i % (r->e.cols + 1) == 0 ? 1.0 : 0.0;
}

TEST_EACH_DEVICE(a_wrong_clip_breaks_the_regret_bound, dev)
{
    static const clip_kind wrong[] = { HALF, BY_LENGTH, SOFT };
    run                    r       = broken_run(dev, HARD, CONSTANT, 10.0);

    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_REGRET) > 0.0, "the right clip");
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_PROJECTION) >= -ROUNDING, "the right clip");
    epoch_free(&r);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        r = broken_run(dev, wrong[i], CONSTANT, 10.0);
        CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_REGRET) < -0.01, "clip %d", (int)wrong[i]);
        CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_PROJECTION) < -0.01, "clip %d",
              (int)wrong[i]);
        CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_FEASIBLE) >= -ROUNDING, "clip %d",
              (int)wrong[i]);
        epoch_free(&r);
    }
    r = make(4, 4, 400, 0.01, 0.1, 0.5); /* polar steps never become smaller */
    epoch_go(dev, &r, POLAR, silence, NULL);
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_REGRET) < -0.01, "polar");
    epoch_go(dev, &r, HARD, silence, NULL);
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_REGRET) > 0.0, "hard");
    epoch_free(&r);
}

/* A projection onto a larger set keeps the regret bound; it leaves the ball instead. */
TEST_EACH_DEVICE(a_larger_set_breaks_feasibility_alone, dev)
{
    static const clip_kind larger[] = { NONE, TWICE, BY_ENTRY };

    for (size_t i = 0; i < COUNT(larger); i++)
        for (int k = 0; k < GRADIENT_KINDS; k++) {
            run       r = broken_run(dev, larger[i], k, 10.0);
            const int leaves =
                k != CONSTANT || larger[i] != BY_ENTRY; /* diagonal: both clips agree */
            CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_REGRET) >= 0.0, "clip %d, gradients %d",
                  (int)larger[i], k);
            CHECK((epoch_slack(dev, &r, MS_THEORY_INEQUALITY_FEASIBLE) < -0.01) == leaves,
                  "clip %d, gradients %d", (int)larger[i], k);
            epoch_free(&r);
        }
}

/* beta <= 1/8 is enough, not needed; but at 0.7 the bound is false: M_t = D, -D, D, ... */
static void swing(run *r, int64_t t, const double *before, void *arg)
{
    (void)arg;
    for (int64_t i = 0; i < r->n; i++)
        r->g[t * r->n + i] =
            t == 0 ? 0.1 : (-before[i] - (1.0 - r->e.beta) * before[i]) / r->e.beta;
}

TEST_EACH_DEVICE(a_large_beta_breaks_it, dev)
{
    static const double betas[] = { 0.125, 0.7 };

    for (size_t i = 0; i < COUNT(betas); i++) {
        run r = make(1, 1, 100, betas[i], 1.0, 1.0);
        epoch_go(dev, &r, HARD, swing, NULL);
        CHECK((epoch_slack(dev, &r, MS_THEORY_INEQUALITY_REGRET) >= 0.0) == (i == 0), "beta %g",
              betas[i]);
        epoch_free(&r);
    }
}

/* Momenta and weights that do not follow the update rule are found. */
TEST_EACH_DEVICE(records_that_break_the_update_rule_are_found, dev)
{
    run r = broken_run(dev, HARD, GAUSSIAN, 10.0);

    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_MOMENTUM) >= -ROUNDING, "momentum");
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_UPDATE) >= -ROUNDING, "update");
    r.m_hat[17 * r.n] += 1e-6;
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_MOMENTUM) < -1e-9, "momentum");
    r.w[17 * r.n] += 1e-6;
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_UPDATE) < -1e-9, "update");
    r.m[17 * r.n] = NAN;
    CHECK(!(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_MOMENTUM) >= 0.0), "NaN");
    epoch_free(&r);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* Straight ahead at full length, the last iterate is (T + 1) / 2 steps from the mean of the others:
 * the bound with T / 2 steps would be false, the paper's with T is twice what is needed. */
TEST_EACH_DEVICE(half_the_radius_is_enough, dev)
{
    run             r = broken_run(dev, HARD, CONSTANT, 10.0);
    ms_theory_check out[MS_THEORY_N_INEQUALITIES];
    const double    unit = r.e.eta * r.e.D * sqrt(r.e.rank), T = (double)r.e.T;

    epoch_judge(dev, &r, out);
    CHECK(out[MS_THEORY_INEQUALITY_HALF_RADIUS].at == r.e.T, "at %lld",
          (long long)out[MS_THEORY_INEQUALITY_HALF_RADIUS].at);
    CHECK(fabs(out[MS_THEORY_INEQUALITY_HALF_RADIUS].left / ((T + 1.0) / 2.0 * unit) - 1.0) <=
              1e-12,
          "%.17g of %.17g", out[MS_THEORY_INEQUALITY_HALF_RADIUS].left, (T + 1.0) / 2.0 * unit);
    CHECK(fabs(out[MS_THEORY_INEQUALITY_RADIUS].right / (T * unit) - 1.0) <= 1e-12, "%.17g",
          out[MS_THEORY_INEQUALITY_RADIUS].right);
    epoch_free(&r);
}

TEST_EACH_DEVICE(averages_are_those_of_all_pairs, dev)
{
    for (int c = 0; c < GRADIENT_KINDS; c++) {
        run             r = make(3, 2, 25, 0.1, 0.2, 1.5);
        struct play     p = { c, 2.0, (uint64_t)c };
        ms_theory_check out[MS_THEORY_N_INEQUALITIES];
        double          pairs = 0.0, away = 0.0;
        int64_t         at;

        epoch_go(dev, &r, HARD, play, &p);
        epoch_judge(dev, &r, out);
        at = out[MS_THEORY_INEQUALITY_AVERAGE].at;
        for (int64_t s = 0; s < r.e.T; s++) {
            const double d = run_fro_diff(r.w + at * r.n, r.w + s * r.n, r.n);
            pairs += d * d / (double)r.e.T;
        }
        for (int64_t i = 0; i < r.n; i++) {
            double mean = 0.0;
            for (int64_t s = 0; s < r.e.T; s++)
                mean += r.w[s * r.n + i] / (double)r.e.T;
            away += (r.w[at * r.n + i] - mean) * (r.w[at * r.n + i] - mean);
        }
        CHECK(fabs(out[MS_THEORY_INEQUALITY_AVERAGE].right - pairs) <= 1e-12 * pairs, "%g, not %g",
              out[MS_THEORY_INEQUALITY_AVERAGE].right, pairs);
        CHECK(fabs(out[MS_THEORY_INEQUALITY_AVERAGE].left - away) <= 1e-12 * pairs, "%g, not %g",
              out[MS_THEORY_INEQUALITY_AVERAGE].left, away);
        epoch_free(&r);
    }
}

int main(void)
{
    check_only("ref"); /* matrices this small gain nothing elsewhere; every build has it */
    return check_main();
}
