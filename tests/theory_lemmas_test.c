/* theory_lemmas_test.c - the paper's lemmas on runs of Algorithm 2 with the library's own
 * optimizer: W, H, G and M of an epoch as ms_theory_run() records them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "epoch_rig.h"
#include "theory/run.h"

enum { STEPS = 2500, EVERY = 7 }; /* one epoch of seven is judged */

typedef struct watch {
    ms_device *dev;
    run        r;
    double    *before;                           /* (rows, cols) M_{n-1} */
    double     mean;                             /* of the slacks of mean_descent */
    double     worst[MS_THEORY_N_INEQUALITIES];  /* slack, over all epochs */
    int        broken[MS_THEORY_N_INEQUALITIES]; /* in so many epochs */
    int        judged;
} watch;

static void judge(watch *w)
{
    ms_theory_check out[MS_THEORY_N_INEQUALITIES];

    epoch_judge(w->dev, &w->r, out);
    for (int i = 0; i < MS_THEORY_N_INEQUALITIES; i++) {
        w->worst[i] = fmin(w->worst[i], ms_theory_slack(&out[i]));
        w->broken[i] += !ms_theory_holds(&out[i], ROUNDING);
    }
    w->mean += ms_theory_slack(&out[MS_THEORY_INEQUALITY_MEAN_DESCENT]);
    w->judged++;
}

/* Step n is step t of one epoch, and for t = 0 also step T of the epoch before. */
static void on_step(void *arg, const ms_theory_step *s)
{
    watch        *w = arg;
    run          *r = &w->r;
    const int64_t n = r->n, T = r->e.T, epoch = s->n / T;
    const size_t  bytes = (size_t)n * sizeof *r->w;

    for (int64_t t = s->n % T; t <= T; t += T) {
        if ((t == T ? epoch - 1 : epoch) % EVERY != 0 || (t == T && epoch == 0)) continue;
        memcpy(r->w + t * n, s->w, bytes);
        memcpy(r->h + t * n, s->h, bytes);
        memcpy(r->g + t * n, s->g, bytes);
        if (s->n > 0)
            CHECK(musec_optim_get_state(s->optim, 0, 0, "momentum", w->before, bytes) == MUSEC_OK,
                  "no momentum");
        if (t > 0) memcpy(r->m + (t - 1) * n, w->before, bytes);
        for (int64_t i = 0; t < T && i < n; i++)
            r->m_hat[t * n + i] =
                s->n == 0 ? s->g[i] : (1.0 - r->e.beta) * w->before[i] + r->e.beta * s->g[i];
        if (t == 0) r->e.f_first = s->f;
        if (t < T) continue;
        r->e.f_last = s->f;
        judge(w);
    }
}

/* Runs and judges the epochs; the optimizer's threshold is clip_at times the Corollary's. */
static watch watched(ms_device *dev, const char *problem, const char *optimizer, double sigma,
                     double clip_at)
{
    ms_objective     p;
    ms_theory_setup  s;
    ms_theory_result out = { 0 };
    ms_error         e   = { "" };
    watch            w   = { .dev = dev };

    CHECK_OK_ERR(&e, ms_objective_make(&e, problem, 0, 0, 4, &p));
    CHECK_OK_ERR(&e, ms_theory_setup_init(&e, &p, optimizer, STEPS, 0.1, sigma, 9, &s));
    CHECK(s.params.beta <= 0.125 && s.params.eta * p.rho <= 1.0, "the lemmas do not apply");
    w.r               = epoch_make(p.rows, p.cols, s.params.T);
    w.r.e.h           = sigma > 0.0 ? w.r.h : NULL;
    w.r.e.eta         = s.params.eta;
    w.r.e.beta        = s.params.beta;
    w.r.e.D           = s.params.D;
    w.r.e.sigma       = sigma;
    w.r.e.lipschitz   = s.params.lipschitz;
    w.before          = check_alloc((size_t)w.r.n * sizeof *w.before);
    s.record          = on_step;
    s.record_arg      = &w;
    s.optim.threshold = clip_at * s.params.D;
    CHECK_OK_ERR(&e, ms_theory_run(&e, &s, NULL, NULL, &out));
    /* the last epoch has no G_T: the run takes no step with it */
    CHECK(w.judged == (out.K - 1 + EVERY - 1) / EVERY && w.judged > 5, "%d epochs were judged",
          w.judged);
    ms_theory_result_free(&out);
    free(w.before);
    epoch_free(&w.r);
    ms_objective_free(&p);
    return w;
}

/* Every inequality holds in every epoch, except the one that holds only in the mean with noise. */
TEST_EACH_DEVICE(the_lemmas_hold_along_runs, dev)
{
    static const char *const problems[] = { "sensing", "phase", "completion",
                                            "max",     "kinks", "quadratic" };

    for (size_t k = 0; k < COUNT(problems); k++)
        for (double sigma = 0.0; sigma <= 0.5; sigma += 0.5) {
            const watch w = watched(dev, problems[k], "musec", sigma, 1.0);
            for (int i = 0; i < MS_THEORY_N_INEQUALITIES; i++)
                if (i != MS_THEORY_INEQUALITY_MEAN_DESCENT || sigma == 0.0)
                    CHECK(w.broken[i] == 0, "%s, sigma %g: inequality %d in %d epochs, slack %g",
                          problems[k], sigma, i, w.broken[i], w.worst[i]);
            CHECK(w.mean >= 0.0, "%s, sigma %g: mean slack of Lemma 4.2 %g", problems[k], sigma,
                  w.mean / w.judged);
        }
}

TEST_EACH_DEVICE(each_wrong_clip_breaks_its_inequality, dev)
{
    watch w = watched(dev, "sensing", "musec", 0.5, 2.0);
    CHECK(w.broken[MS_THEORY_INEQUALITY_FEASIBLE] > 0, "a clip at 2 D");
    w = watched(dev, "sensing", "musec", 0.5, 0.5);
    CHECK(w.broken[MS_THEORY_INEQUALITY_PROJECTION] > 0, "a clip at D / 2");
    w = watched(dev, "sensing", "soft-musec", 0.5, 1.0);
    CHECK(w.broken[MS_THEORY_INEQUALITY_PROJECTION] == w.judged, "a soft clip");
    w = watched(dev, "sensing", "musec", 0.0, 0.1); /* steps too short where gradients agree */
    CHECK(w.broken[MS_THEORY_INEQUALITY_REGRET] > 0, "a clip at D / 10 keeps the regret bound");
    CHECK(w.broken[MS_THEORY_INEQUALITY_DESCENT] > 0, "a clip at D / 10 descends as promised");
}

int main(void)
{
    check_only("ref"); /* matrices this small gain nothing elsewhere; every build has it */
    return check_main();
}
