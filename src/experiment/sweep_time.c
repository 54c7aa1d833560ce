/* sweep_time.c - what time the runs of a sweep take.
 *
 * A run takes as long for its work as those of its kind took that have ended in this sweep: on this
 * machine, with as many beside them, start and validation included.  Of the same kind are runs of
 * one optimizer, operator and model; where none has ended, those of the model count, then all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/sweep.h"
#include "train/schedule.h"

typedef struct timed_run {
    double work;     /* in units that are the same for all runs */
    double began;    /* seconds; NaN: it has not begun */
    double measured; /* seconds; NaN: it has not ended */
} timed_run;

struct ms_sweep_clock {
    const ms_grid *grid;
    timed_run     *at;
};

/* Multiplications of the tokens of all steps by the matrices. */
static double work_of(const ms_train_config *cfg)
{
    const double width  = (double)cfg->model.width;
    double       tokens = 0.0;
    ms_schedule  schedule;
    ms_error     ignored;

    if (ms_schedule_make(&ignored, cfg, &schedule) != MUSEC_OK) return 1.0; /* the run will fail */
    for (int i = 0; i < schedule.n_stages; i++)
        tokens += (double)schedule.stage[i].batch *
                  (double)(schedule.stage[i].end - schedule.stage[i].first);
    return tokens * width *
           ((double)cfg->model.layers * (4.0 * width + 2.0 * (double)cfg->model.mlp) +
            (double)cfg->model.vocab);
}

musec_status ms_sweep_clock_open(ms_error *e, const ms_grid *grid, ms_sweep_clock **out)
{
    ms_sweep_clock *c = calloc(1, sizeof *c);

    *out = c;
    if (c != NULL) *c = (ms_sweep_clock){ .grid = grid, .at = calloc(grid->n + 1, sizeof *c->at) };
    if (c == NULL || c->at == NULL)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu runs", grid->n);
    for (size_t i = 0; i < grid->n; i++)
        c->at[i] = (timed_run){ work_of(&grid->at[i].config), NAN, NAN };
    return MUSEC_OK;
}

void ms_sweep_clock_close(ms_sweep_clock *c)
{
    if (c != NULL) free(c->at);
    free(c);
}

void ms_sweep_clock_begin(ms_sweep_clock *c, size_t i, double now) { c->at[i].began = now; }

void ms_sweep_clock_end(ms_sweep_clock *c, size_t i, double now, bool counts)
{
    if (counts) c->at[i].measured = now - c->at[i].began;
}

/* How alike two runs are: 2 of one kind, 1 of one model, else 0. */
static int likeness(const ms_train_config *a, const ms_train_config *b)
{
    if (a->model.width != b->model.width || a->model.layers != b->model.layers ||
        a->model.mlp != b->model.mlp)
        return 0;
    return strcmp(a->optim.name, b->optim.name) == 0 && a->optim.ns_mode == b->optim.ns_mode ? 2
                                                                                             : 1;
}

double ms_sweep_clock_expect(const ms_sweep_clock *c, size_t i)
{
    double seconds[3] = { 0.0 }, work[3] = { 0.0 };

    for (size_t k = 0; k < c->grid->n; k++) {
        if (isnan(c->at[k].measured)) continue;
        const int kind = likeness(&c->grid->at[i].config, &c->grid->at[k].config);
        seconds[kind] += c->at[k].measured;
        work[kind] += c->at[k].work;
    }
    for (int kind = 2; kind >= 0; kind--)
        if (work[kind] > 0.0) return c->at[i].work * seconds[kind] / work[kind];
    return NAN;
}

/* Seconds that a run still takes, if runs have ended; a running one by its steps. */
static double rest_of(const ms_sweep_clock *c, const ms_sweep_run *runs, size_t i)
{
    const double steps = (double)c->grid->at[i].config.steps;
    return ms_sweep_clock_expect(c, i) * fmax(0.0, 1.0 - (double)runs[i].steps / steps);
}

/* Before any has ended: by the steps of those that run. */
static double first_left(const ms_sweep_clock *c, const ms_sweep_run *runs, int width, double now)
{
    const double enough = 0.01; /* the first share of a run is too noisy to extrapolate */
    double       all = 0.0, done = 0.0, gone = 0.0;

    for (size_t i = 0; i < c->grid->n; i++) {
        const double share = (double)runs[i].steps / (double)c->grid->at[i].config.steps;
        if (ms_sweep_is_finished(&runs[i])) continue;
        all += c->at[i].work;
        if (runs[i].state != MS_SWEEP_RUNNING || !(share > enough)) continue;
        done += share * c->at[i].work;
        gone += now - c->at[i].began;
    }
    return done > 0.0 ? gone / done * (all - done) / (double)width : NAN;
}

double ms_sweep_clock_left(const ms_sweep_clock *c, const ms_sweep_run *runs, int width, double now)
{
    double sum = 0.0, longest = 0.0;

    for (size_t i = 0; i < c->grid->n; i++) {
        if (ms_sweep_is_finished(&runs[i]) || runs[i].state == MS_SWEEP_FAILED) continue;
        const double rest = rest_of(c, runs, i);
        if (isnan(rest)) return first_left(c, runs, width, now);
        sum += rest;
        longest = fmax(longest, rest);
    }
    return fmax(sum / (double)width, longest);
}
