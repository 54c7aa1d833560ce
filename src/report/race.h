/* race.h - steps to a target: when the validation loss of each method is as low as the target.
 *
 * The tuning runs of a problem are those of its smallest seed.  By them each method's setting is
 * chosen, and by Muon's the target.  The result is that of the setting's other seeds, if it has
 * any: then no result rests on the run by which its setting was chosen. */
#ifndef MS_REPORT_RACE_H
#define MS_REPORT_RACE_H

#include "report/compare.h"
#include "report/seeds.h"

/* The target, where none is given, is this share above the lowest final loss of Muon's tuning runs,
 * rounded up to hundredths: the least of what Muon itself reaches near its end. */
#define MS_RACE_MARGIN 0.01

typedef struct ms_race { /* of one problem */
    const ms_compare *c;
    size_t            problem;
    int64_t           tuning_seed;
    double            target; /* NaN: none is given, and no run of Muon has a loss */
} ms_race;

typedef struct ms_race_result { /* of a method, or of its setting */
    const ms_setting *setting;  /* NULL: the method has no tuning run */
    const ms_run     *runs[MS_SEEDS];
    double            steps[MS_SEEDS]; /* of each run; NaN: it did not reach the target */
    size_t            n, reached;
    ms_interval       mean;  /* of the steps; NaN unless all reached it */
    double            least; /* the mean is at least this, with runs counted at all their steps that
                                did not reach it; NaN if none did */
} ms_race_result;

/* target 0: by the rule above. */
ms_race ms_race_of(const ms_compare *c, size_t problem, double target);
/* The step at which the validation loss first is at or below the target, interpolated linearly from
 * the validation before; NaN if it never is, or the run diverged. */
double ms_race_steps(const ms_run *run, double target);
/* The setting of the method whose tuning run needs the fewest steps; of equal ones, and if none
 * reaches the target, the one with the lowest final loss.  NULL: there is none. */
const ms_setting *ms_race_choose(const ms_race *race, size_t method);
ms_race_result    ms_race_result_of(const ms_race *race, size_t method);
size_t            ms_race_tuning_runs(const ms_race *race, size_t method);
/* Adds steps of `a` over those of `b`, for each seed of both, to ratios[*n], which has MS_SEEDS
 * places for each problem.  Where only b reached the target, the ratio is at least what is added,
 * and *bounds counts it; where b did not, there is none. */
void ms_race_add_ratios(const ms_race_result *a, const ms_race_result *b, double *ratios, size_t *n,
                        size_t *bounds);
/* Seconds of training until the step, of the quickest run of the method at each step: without
 * validations and measurements.  NaN: unknown. */
double ms_race_seconds(const ms_race *race, size_t method, double step);

#endif
