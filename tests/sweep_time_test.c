/* sweep_time_test.c - how long a sweep will take, from runs that have ended: numbers by hand. */
#include "check.h"

#include <math.h>

#include "experiment/sweep.h"

/* Four runs: two of one optimizer, of 10 and 20 steps, one of another, one of another model. */
static ms_grid make_grid(void)
{
    static const struct {
        const char *optimizer;
        int64_t     steps, width;
    } runs[] = { { "muon", 10, 64 }, { "muon", 20, 64 }, { "sgdm", 10, 64 }, { "sgdm", 10, 128 } };
    ms_grid  g = { .at = calloc(COUNT(runs), sizeof *g.at), .n = COUNT(runs) };
    ms_error e = { "" };
    for (size_t i = 0; i < COUNT(runs); i++) {
        ms_train_config *cfg = &g.at[i].config;
        CHECK_OK_ERR(&e, ms_train_config_init(&e, cfg, "pico", runs[i].optimizer));
        cfg->stages[0]   = '\0';
        cfg->extension   = 0;
        cfg->steps       = runs[i].steps;
        cfg->model.width = runs[i].width;
        CHECK_OK_ERR(&e, ms_train_config_check(&e, cfg));
    }
    return g;
}

static void near(double got, double want)
{
    CHECK(fabs(got - want) <= 1e-9 * fabs(want), "%.12g, not %.12g", got, want);
}

TEST(runs_take_what_those_of_their_kind_took)
{
    ms_grid         g       = make_grid();
    ms_sweep_run    runs[4] = { 0 };
    ms_sweep_clock *c       = NULL;
    ms_error        e       = { "" };

    CHECK_OK_ERR(&e, ms_sweep_clock_open(&e, &g, &c));
    CHECK(isnan(ms_sweep_clock_expect(c, 0)), "something is known");
    CHECK(isnan(ms_sweep_clock_left(c, runs, 1, 0.0)), "something is known");
    /* The first one runs: a fifth of its 10 steps took 2 s, and 30 more steps of its size and the
     * work of the larger model are left. */
    runs[0].state = MS_SWEEP_RUNNING, runs[0].steps = 2;
    ms_sweep_clock_begin(c, 0, 1.0);
    const ms_gpt_config *a = &g.at[0].config.model, *b = &g.at[3].config.model;
    const double         larger =
        (double)b->width *
        ((double)b->layers * (4.0 * (double)b->width + 2.0 * (double)b->mlp) + (double)b->vocab) /
        ((double)a->width *
         ((double)a->layers * (4.0 * (double)a->width + 2.0 * (double)a->mlp) + (double)a->vocab));
    near(ms_sweep_clock_left(c, runs, 1, 3.0), 1.0 * (8.0 + 20.0 + 10.0 + 10.0 * larger));
    /* It has taken 12 s: the next takes 24, other optimizers the same for their steps until one of
     * them has ended. */
    runs[0].state = MS_SWEEP_DONE;
    ms_sweep_clock_end(c, 0, 13.0, true);
    near(ms_sweep_clock_expect(c, 1), 24.0);
    near(ms_sweep_clock_expect(c, 2), 12.0);
    near(ms_sweep_clock_expect(c, 3), 12.0 * larger);
    ms_sweep_clock_begin(c, 2, 13.0);
    ms_sweep_clock_end(c, 2, 16.0, true);
    runs[2].state = MS_SWEEP_DONE;
    near(ms_sweep_clock_expect(c, 1), 24.0);
    near(ms_sweep_clock_expect(c, 2), 3.0);
    /* both of its model, by work: 15 s for 20 steps */
    near(ms_sweep_clock_expect(c, 3), 7.5 * larger);
    /* half of the second is made; two at once: the longer of the two that are left decides */
    runs[1].state = MS_SWEEP_RUNNING, runs[1].steps = 10;
    near(ms_sweep_clock_left(c, runs, 1, 20.0), 12.0 + 7.5 * larger);
    near(ms_sweep_clock_left(c, runs, 2, 20.0), fmax(7.5 * larger, 6.0 + 3.75 * larger));
    /* a run that failed neither counts nor is left */
    ms_sweep_clock_begin(c, 3, 20.0);
    ms_sweep_clock_end(c, 3, 20.5, false);
    runs[3].state = MS_SWEEP_FAILED;
    near(ms_sweep_clock_left(c, runs, 1, 21.0), 12.0);
    ms_sweep_clock_close(c);
    free(g.at);
}
