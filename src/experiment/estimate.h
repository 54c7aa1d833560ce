/* estimate.h - how long runs will take on this machine, from a short calibration.
 *
 * A calibration is a few short runs at a scale, as many at once as the sweep will have, so that
 * what they take from each other counts.  It gives the time of a token in each stage, of an
 * optimizer's step and of its measurements (by optimizer, operator and iterations), of a validated
 * token, and of a run's start and end.  The time of a run is then a sum:
 *
 *     start + sum over stages of steps (tokens a + rest) + steps u + measurements r + validations v
 *
 * and that of many runs what a pool of so many slots takes for them in their order.  The scales
 * small, medium and wide are not calibrated: nano's figures are taken, by floating operations,
 * and such an estimate is "about".
 *
 * OUT/calibration.json keeps it for this machine, build and number of runs at once. */
#ifndef MS_EXPERIMENT_ESTIMATE_H
#define MS_EXPERIMENT_ESTIMATE_H

#include "experiment/experiment.h"
#include "experiment/sweep.h"
#include "train/schedule.h"

typedef struct ms_estimate_setup {
    const ms_experiments    *all;
    const ms_experiment_ask *ask;   /* the scale and the settings */
    const char              *out;   /* where calibration.json is */
    const ms_sweep          *sweep; /* the number of runs at once, and the devices */
} ms_estimate_setup;

typedef struct ms_estimate { /* { 0 } knows nothing */
    json_t *file;            /* calibration.json */
    json_t *entry;           /* the part of it for this setup; NULL if it is not calibrated yet */
    bool    about;           /* the entry is that of another scale */
    int     width;           /* runs at once */
} ms_estimate;

/* Reads calibration.json.  A file of another machine, or a damaged one, is ignored. */
musec_status ms_estimate_open(ms_error *e, const ms_estimate_setup *setup, ms_estimate *out);
/* Makes the calibration and keeps it: seconds at pico, a minute or two at nano. */
musec_status ms_estimate_calibrate(ms_error *e, const ms_estimate_setup *setup, ms_log *log,
                                   ms_estimate *est);
void         ms_estimate_free(ms_estimate *est);

/* The seconds that a run takes, or NaN if they are not known. */
double ms_estimate_run(const ms_estimate *est, const ms_train_config *cfg);
/* The seconds that the unfinished runs take together, or all runs if `runs` is NULL. */
double ms_estimate_all(const ms_estimate *est, const ms_grid *grid, const ms_sweep_run *runs);
/* The quantities that times are proportional to: floating-point operations for a token of a stage,
 * forward, backward and what is recomputed, or forward alone, and the sum of rows x cols x the
 * smaller of them over the matrices of an optimizer's step. */
double ms_estimate_token_flops(const ms_train_config *cfg, const ms_train_stage *stage);
double ms_estimate_forward_flops(const ms_train_config *cfg, const ms_train_stage *stage);
/* The share of a forward pass that the backward pass recomputes. */
double ms_estimate_recomputed(const ms_train_config *cfg, const ms_train_stage *stage);
double ms_estimate_optim_work(const ms_train_config *cfg);
/* "40 s", "7 min", "3.5 h", "12 days", "9 years"; "-" if it is not known. */
void ms_estimate_text(double seconds, char *text, size_t bytes);

#endif
