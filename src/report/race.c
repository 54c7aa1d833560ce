/* race.c - see race.h. */
#include "report/race.h"

#include <math.h>

/* ---- a run ----------------------------------------------------------------------------------- */

double ms_race_steps(const ms_run *run, double target)
{
    double before = NAN, loss_before = NAN;

    if (run->status == MS_RUN_DIVERGED) return NAN;
    for (size_t i = 0; i < run->n; i++) {
        const ms_run_line *line = &run->lines[i];
        const double       step = (double)line->step;
        if (!line->has_val) continue;
        if (line->val_loss <= target) {
            if (!(loss_before > target)) return step; /* the first validation, or after a NaN */
            return before +
                   (step - before) * (loss_before - target) / (loss_before - line->val_loss);
        }
        before      = step;
        loss_before = line->val_loss;
    }
    return NAN;
}

/* ---- the target ------------------------------------------------------------------------------ */

static const ms_run *tuning_run(const ms_race *race, const ms_setting *s)
{
    return s->problem == race->problem ? ms_run_of_seed(s, race->tuning_seed) : NULL;
}

static double target_by_muon(const ms_race *race)
{
    const ms_compare *c    = race->c;
    const size_t      muon = ms_compare_plain(c, "muon");
    double            best = NAN;

    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_run *run = tuning_run(race, &c->settings[i]);
        if (run == NULL || c->settings[i].method != muon || run->status != MS_RUN_DONE) continue;
        best = fmin(best, run->val_loss); /* fmin ignores NaN */
    }
    return ceil(100.0 * (1.0 + MS_RACE_MARGIN) * best - 1e-9) / 100.0;
}

ms_race ms_race_of(const ms_compare *c, size_t problem, double target)
{
    ms_race race = { .c = c, .problem = problem, .tuning_seed = INT64_MAX };

    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            const int64_t seed = ms_seed_of(c->settings[i].runs[k]);
            if (seed < race.tuning_seed) race.tuning_seed = seed;
        }
    race.target = target > 0.0 ? target : target_by_muon(&race);
    return race;
}

/* ---- the settings ---------------------------------------------------------------------------- */

/* Does run a reach the target in fewer steps than b, or with a lower final loss where the steps
 * decide nothing?  A run that diverged has no loss. */
static bool is_faster(const ms_race *race, const ms_run *a, const ms_run *b)
{
    const double x = ms_race_steps(a, race->target), y = ms_race_steps(b, race->target);

    if (isnan(x) != isnan(y)) return isnan(y);
    if (x < y || x > y) return x < y;
    return a->val_loss < b->val_loss || (isnan(b->val_loss) && !isnan(a->val_loss));
}

const ms_setting *ms_race_choose(const ms_race *race, size_t method)
{
    const ms_compare *c    = race->c;
    const ms_setting *best = NULL;

    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s   = &c->settings[i];
        const ms_run     *run = tuning_run(race, s);
        if (run == NULL || s->method != method) continue;
        if (best == NULL || is_faster(race, run, tuning_run(race, best))) best = s;
    }
    return best;
}

size_t ms_race_tuning_runs(const ms_race *race, size_t method)
{
    size_t n = 0;
    for (size_t i = 0; i < race->c->n_settings; i++)
        n += race->c->settings[i].method == method &&
             tuning_run(race, &race->c->settings[i]) != NULL;
    return n;
}

/* ---- results --------------------------------------------------------------------------------- */

ms_race_result ms_race_result_of(const ms_race *race, size_t method)
{
    const ms_setting *s   = ms_race_choose(race, method);
    ms_race_result    out = { .setting = s, .mean = ms_interval_of(NULL, 0), .least = NAN };
    double            sum = 0.0;

    for (size_t i = 0; s != NULL && i < s->n && out.n < MS_SEEDS; i++) {
        const ms_run *run = s->runs[i];
        if (s->n > 1 && ms_seed_of(run) == race->tuning_seed) continue;
        out.runs[out.n]  = run;
        out.steps[out.n] = ms_race_steps(run, race->target);
        out.reached += !isnan(out.steps[out.n]);
        sum += isnan(out.steps[out.n]) ? (double)run->steps : out.steps[out.n];
        out.n++;
    }
    if (out.reached > 0 && out.reached == out.n) out.mean = ms_interval_of(out.steps, out.n);
    if (out.reached > 0) out.least = sum / (double)out.n;
    return out;
}

void ms_race_add_ratios(const ms_race_result *a, const ms_race_result *b, double *ratios, size_t *n,
                        size_t *bounds)
{
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++) {
            const bool reached = !isnan(a->steps[i]);
            if (ms_seed_of(a->runs[i]) != ms_seed_of(b->runs[k]) || isnan(b->steps[k])) continue;
            ratios[(*n)++] = (reached ? a->steps[i] : (double)a->runs[i]->steps) / b->steps[k];
            *bounds += !reached;
        }
}

/* Milliseconds that the method's quickest run trained at this step; NaN: none has such a line. */
static double quickest_ms(const ms_race *race, size_t method, size_t step)
{
    const ms_compare *c    = race->c;
    double            best = NAN;

    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != race->problem || s->method != method) continue;
        for (size_t k = 0; k < s->n; k++) {
            const ms_run      *run  = s->runs[k];
            const ms_run_line *line = step <= run->n ? &run->lines[step - 1] : NULL;
            if (line == NULL || line->step != (int64_t)step) continue;
            best = fmin(best, line->ms_data + line->ms_model + line->ms_optim);
        }
    }
    return best;
}

double ms_race_seconds(const ms_race *race, size_t method, double step)
{
    double sum = 0.0;

    if (!(step > 0.0)) return NAN;
    for (size_t i = 1; (double)i < step + 1.0; i++)
        sum += fmin(1.0, step - (double)(i - 1)) * quickest_ms(race, method, i);
    return 1e-3 * sum;
}
