/* section_tables.c - the stability table, the selected settings, and the list of all runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory_stream.h"
#include "report/section_plots.h"

/* Adds a loss, with how many of the runs stalled or diverged; NULL: not run. */
static void add_loss(ms_table *t, const ms_setting *s)
{
    if (s == NULL)
        ms_table_add(t, "-");
    else if (s->stalled > 0)
        ms_table_add(t, "%.4f, %zu of %zu stalled", s->loss, s->stalled, s->n);
    else if (s->diverged == 0)
        ms_table_add(t, "%.4f", s->loss);
    else if (isfinite(s->loss))
        ms_table_add(t, "%.4f, %zu of %zu diverged", s->loss, s->diverged, s->n);
    else
        ms_table_add(t, "diverged");
    ms_table_is(t, s != NULL ? s->loss : NAN);
}

/* ---- stability ------------------------------------------------------------------------------- */

/* Is the loss within the limit, without a run that stalled or diverged? */
static bool is_good(const ms_setting *s, double limit)
{
    return s->stalled == 0 && s->diverged == 0 && s->loss <= limit;
}

/* The rate between a good setting and the next, a bad one, at which the loss reaches the limit, by
 * linear interpolation over the logarithm of the rate.  If the bad one stalled or diverged, it is
 * the rate of the good one. */
static double rate_at(const ms_setting *good, const ms_setting *bad, double limit)
{
    const double share = (limit - good->loss) / (bad->loss - good->loss);

    if (bad->diverged > 0 || bad->stalled > 0 || !isfinite(bad->loss) ||
        !(share >= 0.0 && share <= 1.0))
        return good->lr;
    if (good->lr > 0.0 && bad->lr > 0.0) return good->lr * pow(bad->lr / good->lr, share);
    return good->lr + share * (bad->lr - good->lr);
}

/* Searches upwards (or downwards) from the best rate for the first bad one; *edge: none. */
static double find_end(const ms_compare *c, size_t problem, size_t method, const ms_setting *best,
                       double limit, bool upwards, bool *edge)
{
    const ms_setting *good = best;

    *edge = true;
    for (size_t i = 0; i < c->n_rates; i++) {
        const double      lr = c->rates[upwards ? i : c->n_rates - 1 - i];
        const ms_setting *s  = ms_compare_best(c, problem, method, lr);
        if (s == NULL || (upwards ? s->lr <= best->lr : s->lr >= best->lr)) continue;
        if (!is_good(s, limit)) {
            *edge = false;
            return rate_at(good, s, limit);
        }
        good = s;
    }
    return good->lr;
}

/* The largest ratio of neighbouring rates of the method; NaN if there is none above 0. */
static double grid_gap(const ms_compare *c, size_t problem, size_t method)
{
    double last = NAN, gap = NAN;
    for (size_t i = 0; i < c->n_rates; i++) {
        if (ms_compare_best(c, problem, method, c->rates[i]) == NULL) continue;
        if (last > 0.0) gap = fmax(gap, c->rates[i] / last);
        last = c->rates[i];
    }
    return gap;
}

static const ms_setting *at_largest_rate(const ms_compare *c, size_t problem, size_t method)
{
    const ms_setting *s = NULL;
    for (size_t i = c->n_rates; i > 0 && s == NULL; i--)
        s = ms_compare_best(c, problem, method, c->rates[i - 1]);
    return s;
}

static void add_range(ms_table *t, const ms_compare *c, size_t problem, size_t method,
                      const ms_setting *best, double within)
{
    const double limit = best->loss + within * fabs(best->loss);
    bool         at_low, at_high; /* the range ends at the end of the grid */
    const double low  = find_end(c, problem, method, best, limit, false, &at_low);
    const double high = find_end(c, problem, method, best, limit, true, &at_high);

    ms_table_number(t, "%.4f", best->loss);
    ms_table_number(t, "%g", best->lr);
    ms_table_number(t, "%.4g", low);
    ms_table_number(t, "%.4g", high);
    ms_table_number(t, "%.3g", high / low);
    ms_table_add(t, "%s", at_low && at_high ? "both" : at_low ? "low" : at_high ? "high" : "-");
}

static void add_stability(ms_table *t, const ms_compare *c, size_t problem, size_t method,
                          double within)
{
    const ms_setting *best = ms_compare_tuned(c, problem, method);
    const ms_setting *last = at_largest_rate(c, problem, method);
    size_t            runs = 0, diverged = 0, stalled = 0;

    if (best == NULL || last == NULL || ms_plot_count_rates(c, problem, method) < 2) return;
    for (size_t i = 0; i < c->n_settings; i++)
        if (c->settings[i].problem == problem && c->settings[i].method == method) {
            runs += c->settings[i].n;
            diverged += c->settings[i].diverged;
            stalled += c->settings[i].stalled;
        }
    ms_table_add(t, "%s", c->problems[problem].label);
    ms_table_add(t, "%s", c->methods[method].label);
    if (!ms_setting_failed(best))
        add_range(t, c, problem, method, best, within);
    else
        for (int i = 0; i < 6; i++)
            ms_table_add(t, "-");
    ms_table_add(t, "%zu", ms_plot_count_rates(c, problem, method));
    if (isfinite(grid_gap(c, problem, method)))
        ms_table_add(t, "%.3g", grid_gap(c, problem, method));
    else
        ms_table_add(t, "-");
    ms_table_number(t, "%g", last->lr);
    add_loss(t, last);
    ms_table_add(t, "%zu of %zu", diverged, runs);
    ms_table_is_fields(t, "%zu,%zu", diverged, runs);
    ms_table_add(t, "%zu of %zu", stalled, runs);
    ms_table_is_fields(t, "%zu", stalled);
    ms_table_add(t, "%zu", best->n);
}

void ms_build_stability(ms_section_builder *b)
{
    static const char *const names[] = { "problem",
                                         "method",
                                         "best loss",
                                         "at lr",
                                         "from lr",
                                         "to lr",
                                         "to / from",
                                         "edge|edge of the grid",
                                         "rates",
                                         "gap",
                                         "largest lr",
                                         "loss there",
                                         "diverged|diverged,runs",
                                         "stalled",
                                         "seeds" };
    char                     caption[MS_PLOT_TEXT];
    ms_table                 t = { .align = "llrrrrrlrrrrrrr" };

    ms_table_names(&t, names);
    for (size_t p = 0; p < b->c->n_problems; p++)
        for (size_t m = 0; m < b->c->n_methods; m++)
            add_stability(&t, b->c, p, m, b->options->within);
    snprintf(caption, sizeof caption,
             "Learning rates around the best at which the loss is within %g %% of the best. Where "
             "the range ends at an edge of the grid of rates, it may be wider.",
             100.0 * b->options->within);
    if (!ms_build_table(b, "stability", caption, &t)) return;
    ms_build_notes(
        b,
        "Between two rates that were run, the loss is taken as a straight line over the logarithm "
        "of the rate. A loss that bends upwards lies below that line: the true range is then at "
        "least as wide. The range is as rough as the grid is coarse: rates are those of the "
        "method, gap is the largest factor from one to the next.");
    ms_build_notes(
        b,
        "A setting of which a run stalled or diverged is outside, and the range ends at the last "
        "rate before it. Diverged and stalled count all runs of the method, whatever their "
        "threshold and weight decay.");
}

/* ---- larger rates ---------------------------------------------------------------------------- */

void ms_build_larger_rates(ms_section_builder *b)
{
    static const char *const names[] = {
        "problem",           "method",       "best loss",    "at lr", "D",
        MS_PLOT_DECAY_NAMES, "loss at 5 lr", "loss at 25 lr"
    };
    const ms_compare *c = b->c;
    ms_table          t = { .align = "llrrrlrr" };
    char              decay[MS_PLOT_TEXT];

    ms_table_names(&t, names);
    for (size_t p = 0; p < c->n_problems; p++)
        for (size_t m = 0; m < c->n_methods; m++) {
            const ms_setting *best = ms_compare_tuned(c, p, m);
            if (best == NULL || ms_setting_failed(best)) continue;
            const ms_setting *five = ms_plot_at_multiple(c, best, 5.0),
                             *more = ms_plot_at_multiple(c, best, 25.0);
            if (five == NULL && more == NULL) continue;
            ms_plot_decay_text(best->decay, decay);
            ms_table_add(&t, "%s", c->problems[p].label);
            ms_table_add(&t, "%s", c->methods[m].label);
            add_loss(&t, best);
            ms_table_number(&t, "%g", best->lr);
            ms_table_add(&t, "%s", best->threshold_text[0] != '\0' ? best->threshold_text : "-");
            ms_table_add(&t, "%s", decay);
            ms_plot_decay_fields(&t, best->decay);
            add_loss(&t, five);
            add_loss(&t, more);
        }
    ms_build_table(b, "larger-rates",
                   "The lowest loss of each method, and its loss at 5 and 25 times that learning "
                   "rate with the same threshold and weight decay.",
                   &t);
}

/* ---- selected settings ----------------------------------------------------------------------- */

static void add_selected(ms_table *t, const ms_compare *c, const ms_setting *s)
{
    double decay[MS_RUN_GROUPS];

    ms_table_add(t, "%s", c->methods[s->method].label);
    ms_table_number(t, "%g", s->lr);
    if (ms_plot_decay(s->decay, decay))
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            ms_table_number(t, "%g", decay[g]);
    else
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            ms_table_add(t, "%s", s->decay);
    ms_table_add(t, "%s", s->threshold_text[0] != '\0' ? s->threshold_text : "-");
    ms_plot_loss_cells(t, s);
}

void ms_build_hyperparameters(ms_section_builder *b)
{
    static const char *const names[] = { "method",          "lr",
                                         "decay QK",        "decay VO",
                                         "decay MLP",       "D",
                                         "validation loss", "diverged|diverged,runs" };
    const ms_compare        *c       = b->c;
    char                     id[MS_PLOT_ID], caption[MS_PLOT_TEXT];

    for (size_t p = 0; p < c->n_problems; p++) {
        ms_table t = { .align = "lrrrrrrr" };
        ms_table_names(&t, names);
        for (size_t m = 0; m < c->n_methods; m++)
            for (size_t i = 0; i < c->n_rates; i++) {
                const ms_setting *s = ms_compare_best(c, p, m, c->rates[i]);
                if (s != NULL) add_selected(&t, c, s);
            }
        ms_plot_id(c, "hyperparameters", p, id);
        snprintf(
            caption, sizeof caption,
            "%.200s: weight decay and threshold of the lowest validation loss, for each method "
            "and learning rate.",
            c->problems[p].label);
        ms_build_table(b, id, caption, &t);
    }
}

/* ---- all runs -------------------------------------------------------------------------------- */

/* Returns the setting of a run; NULL: it is unfinished, or another run with its seed counts. */
static const ms_setting *setting_of(const ms_compare *c, const ms_run *run)
{
    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; k < c->settings[i].n; k++)
            if (c->settings[i].runs[k] == run) return &c->settings[i];
    return NULL;
}

/* Writes the status and the reason for it as two columns of CSV. */
static void status_fields(ms_table *t, const ms_run *run)
{
    ms_memory_stream m;
    char            *text;

    if (ms_memory_open(&m) != NULL) {
        fprintf(m.to, "%s,", ms_run_status_word(run->status));
        ms_csv_text(run->reason != NULL ? run->reason : "", m.to);
    }
    text = ms_memory_close(&m);
    if (text == NULL) t->out_of_memory = true;
    ms_table_is_fields(t, "%s", text != NULL ? text : ",");
    free(text);
}

static void add_run(ms_table *t, const ms_compare *c, const ms_run *run)
{
    const long long   made  = run->n > 0 ? (long long)run->lines[run->n - 1].step : 0;
    const ms_setting *s     = setting_of(c, run);
    const bool        clips = ms_clips(run->optimizer); /* s may be NULL */
    char              decay[MS_PLOT_TEXT];

    ms_plot_decay_text(ms_run_text(run, "weight_decay"), decay);
    ms_table_add(t, "%s", ms_plot_run_name(run));
    ms_table_add(t, "%s", s != NULL ? c->problems[s->problem].label : "-");
    ms_table_add(t, "%s",
                 s != NULL ? c->methods[s->method].label : ms_optimizer_title(run->optimizer));
    ms_table_number(t, "%g", run->lr);
    ms_table_add(t, "%s", clips ? ms_run_text(run, "threshold") : "-");
    ms_table_add(t, "%s", decay);
    ms_plot_decay_fields(t, ms_run_text(run, "weight_decay"));
    ms_table_add(t, "%s", ms_run_text(run, "seed"));
    if (run->status == MS_RUN_DIVERGED || run->status == MS_RUN_STALLED)
        ms_table_add(t, "%s: %s", ms_run_status_word(run->status),
                     run->reason != NULL ? run->reason : "no reason is known");
    else
        ms_table_add(t, "%s", ms_run_status_word(run->status));
    status_fields(t, run);
    ms_table_add(t, "%lld of %lld", made, (long long)run->steps);
    ms_table_is_fields(t, "%lld,%lld", made, (long long)run->steps);
    ms_table_number(t, "%.4f", run->val_loss);
}

void ms_build_runs(ms_section_builder *b)
{
    static const char *const names[] = { "run",
                                         "problem",
                                         "method",
                                         "lr",
                                         "D",
                                         MS_PLOT_DECAY_NAMES,
                                         "seed",
                                         "status|status,reason",
                                         "steps|steps,steps asked",
                                         "validation loss" };
    const ms_runset         *set     = b->c->set;
    ms_table                 t       = { .align = "lllrrlrbrr" };

    ms_table_names(&t, names);
    for (size_t i = 0; i < set->n; i++)
        add_run(&t, b->c, &set->at[i]);
    ms_build_table(b, "runs", "Every run that was read, by the name of its directory.", &t);
    for (size_t i = 0; i < set->n_notes; i++)
        ms_build_text(b, "Note: %s.", set->notes[i]);
}
