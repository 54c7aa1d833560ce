/* theory_descent_test.c - Lemma 4.2 on epochs of a function, with and without noise. */
#include <math.h>

#include "clip_run.h"
#include "epoch_rig.h"
#include "oracle.h"

/* ---- descent ---------------------------------------------------------------------------------
 *
 * f(W) = a sum |w - c| - b sum sqrt(1 + w^2): neither smooth nor convex, weakly convex with rho = b
 * (the second derivative of the root is at most 1), with L = (a + b) sqrt(entries). */

struct kinked {
    double   a, b, c, sigma;
    uint64_t seed;
};

static double kinked_value(const struct kinked *k, const double *w, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += k->a * fabs(w[i] - k->c) - k->b * sqrt(1.0 + w[i] * w[i]);
    return sum;
}

static void kinked_gradient(run *r, int64_t t, const double *before, void *arg)
{
    struct kinked *k = arg;
    (void)before;
    for (int64_t i = 0; i < r->n; i++) {
        const double w = r->w[t * r->n + i];
        const double h = k->a * (w > k->c   ? 1.0
                                 : w < k->c ? -1.0
                                            : 0.0) -
                         k->b * w / sqrt(1.0 + w * w);
        r->h[t * r->n + i] = h;
        r->g[t * r->n + i] = h + k->sigma / sqrt((double)r->n) * oracle_normal(&k->seed);
    }
}

static run kinked_run(ms_device *dev, struct kinked *k, int c, uint64_t *seed)
{
    run r = epoch_make(2 + c % 3, 3, 5 + c % 50);

    r.e.beta = 0.125 * oracle_uniform(seed);
    r.e.eta  = oracle_uniform(seed) / k->b; /* at most 1 / rho */
    r.e.D    = pow(10.0, 3.0 * oracle_uniform(seed) - 2.0);
    for (int64_t i = 0; i < r.n; i++)
        r.w[i] = 2.0 * oracle_normal(seed);
    epoch_go(dev, &r, HARD, kinked_gradient, k);
    r.e.h         = k->sigma > 0.0 ? r.h : NULL;
    r.e.sigma     = k->sigma;
    r.e.lipschitz = sqrt((k->a + k->b) * (k->a + k->b) * (double)r.n + k->sigma * k->sigma);
    r.e.f_first   = kinked_value(k, r.w, r.n);
    r.e.f_last    = kinked_value(k, r.w + r.e.T * r.n, r.n);
    return r;
}

/* The right side of Lemma 4.2 as the paper writes it; with `own`, the norms of the gradients and of
 * M_0 instead of their bounds, and the noise of this run instead of its bound. */
static double descent_right(const run *r, bool own)
{
    const double beta = r->e.beta, gamma = beta / r->e.eta, D = r->e.D, T = (double)r->e.T;
    const double first    = run_fro(r->m, r->n);
    double       mean[16] = { 0.0 }, length, momenta = 0.0, gradients = 0.0, noise = 0.0;

    for (int64_t i = 0; i < r->n; i++)
        for (int64_t t = 1; t <= r->e.T; t++)
            mean[i] += r->h[t * r->n + i] / T;
    length = run_fro(mean, r->n);
    for (int64_t t = 0; t < r->e.T; t++) {
        const double *h = r->h + (t + 1) * r->n, *g = r->g + (t + 1) * r->n, *m = r->m + t * r->n;
        for (int64_t i = 0; i < r->n; i++) {
            const double comparator = D * mean[i] / length;
            momenta += beta / (8.0 * gamma) * m[i] * m[i];
            gradients += beta * beta / gamma * g[i] * g[i];
            noise -= beta / gamma * (g[i] - h[i]) * comparator; /* of the regret */
            noise += beta / gamma * (g[i] - h[i]) * m[i];       /* of the descent in each step */
        }
    }
    if (!own) {
        gradients = beta * beta * r->e.lipschitz * r->e.lipschitz * T / gamma;
        noise     = beta * D * r->e.sigma * sqrt(T) / gamma;
    }
    return -beta * D * T / gamma * length - momenta + (beta * T / gamma + 1.0 / gamma) * D * D +
           gradients + noise + (own ? first * first : r->e.rank * D * D) / gamma;
}

TEST_EACH_DEVICE(an_epoch_descends, dev)
{
    uint64_t seed = 51;
    double   mean = 0.0;

    for (int c = 0; c < 400; c++) {
        struct kinked   k = { .a     = 1.0,
                              .b     = 0.1 + 2.0 * oracle_uniform(&seed),
                              .c     = 0.5,
                              .sigma = c % 2 == 0 ? 0.0 : 3.0,
                              .seed  = (uint64_t)c };
        run             r = kinked_run(dev, &k, c, &seed);
        ms_theory_check out[MS_THEORY_N_INEQUALITIES];

        epoch_judge(dev, &r, out);
        CHECK(ms_theory_holds(&out[MS_THEORY_INEQUALITY_DESCENT], ROUNDING), "run %d: slack %g", c,
              ms_theory_slack(&out[MS_THEORY_INEQUALITY_DESCENT]));
        for (int own = 0; own < 2; own++) {
            const ms_theory_check *check =
                &out[own ? MS_THEORY_INEQUALITY_DESCENT : MS_THEORY_INEQUALITY_MEAN_DESCENT];
            CHECK(fabs(check->right - descent_right(&r, own)) <= ROUNDING * check->size,
                  "run %d: %.17g, by the paper's formula %.17g", c, check->right,
                  descent_right(&r, own));
            CHECK(check->left == r.e.f_last - r.e.f_first, "run %d", c);
        }
        if (k.sigma == 0.0)
            CHECK(ms_theory_holds(&out[MS_THEORY_INEQUALITY_MEAN_DESCENT], ROUNDING),
                  "run %d: slack %g", c, ms_theory_slack(&out[MS_THEORY_INEQUALITY_MEAN_DESCENT]));
        else
            mean += ms_theory_slack(&out[MS_THEORY_INEQUALITY_MEAN_DESCENT]);
        epoch_free(&r);
    }
    CHECK(mean >= 0.0, "mean slack with noise %g", mean);
}

/* The gradients belong to another function than the values: the values fall by half as much, or
 * rise. */
TEST_EACH_DEVICE(values_of_another_function_break_descent, dev)
{
    uint64_t      seed = 61;
    struct kinked k    = { .a = 1.0, .b = 0.1 };
    run           r    = epoch_make(2, 2, 1000);
    double        fall;

    r.e.eta  = 0.01;
    r.e.beta = 0.01;
    r.e.D    = 0.1;
    for (int64_t i = 0; i < r.n; i++)
        r.w[i] = 20.0 + oracle_uniform(&seed);
    epoch_go(dev, &r, HARD, kinked_gradient, &k);
    r.e.f_first = kinked_value(&k, r.w, r.n);
    r.e.f_last  = kinked_value(&k, r.w + r.e.T * r.n, r.n);
    fall        = r.e.f_first - r.e.f_last;
    CHECK(fall > 0.0, "it falls by %g", fall);
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_DESCENT) >= 0.0, "it descends");
    r.e.f_last = r.e.f_first - 0.5 * fall; /* not fast enough */
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_DESCENT) < 0.0, "it descends by half");
    r.e.f_last = r.e.f_first + fall;
    CHECK(epoch_slack(dev, &r, MS_THEORY_INEQUALITY_DESCENT) < 0.0, "it climbs");
    epoch_free(&r);
}

/* ---- the lemma's L ---------------------------------------------------------------------------
 *
 * f = 0 has L = 0.  Its gradients are noise alone, diag(+-c), unbiased, of variance n c^2 =
 * sigma^2, which is all that Assumption 2 demands.  The clip of a diagonal matrix is that of its
 * entries.  Lemma 4.2 as the paper states it says 0 <= right; but right is negative, as it contains
 * the mean of -|M_t|^2 / 8 while beta^2 L^2 T does not contain the noise.  It holds with the second
 * moment of the gradients, L^2 + sigma^2, for L^2. */
TEST(noise_needs_a_larger_lipschitz_constant)
{
    enum { N = 64, T = 2000, RUNS_OF_NOISE = 20 };
    const double beta = 0.125, c = 1.0, D = sqrt(beta / 2.0) * c, sigma2 = N * c * c;
    uint64_t     seed    = 71;
    double       momenta = 0.0, right, mended;

    for (int k = 0; k < RUNS_OF_NOISE; k++) {
        double m[N] = { 0.0 };
        for (int t = 0; t < T; t++)
            for (int i = 0; i < N; i++) {
                const double g = oracle_uniform(&seed) < 0.5 ? -c : c;
                const double x = t == 0 ? g : (1.0 - beta) * m[i] + beta * g;
                m[i]           = fmin(fmax(x, -D), D);
                momenta += m[i] * m[i] / RUNS_OF_NOISE;
            }
    }
    right  = -momenta / 8.0 + D * sqrt(sigma2 * T) + (T + 1.0 / beta) * D * D + N * D * D / beta;
    mended = right + beta * sigma2 * T;
    CHECK(right < -0.5 * T * D * D, "right side of the lemma: %g", right / (T * D * D));
    CHECK(mended >= 0.0, "with the second moment: %g", mended / (T * D * D));
}

int main(void)
{
    check_only("ref"); /* matrices this small gain nothing elsewhere; every build has it */
    return check_main();
}
