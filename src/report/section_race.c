/* section_race.c - steps to a target loss, of each method at the setting that gets there first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/real.h"
#include "report/race.h"
#include "report/section_plots.h"

typedef struct race_row {
    size_t         method;
    ms_race_result result;
} race_row;

typedef struct race_ratio { /* a method's steps over Muon's, on all problems together */
    size_t      method, runs, reached, bounds;
    ms_interval mean;
} race_ratio;

/* ---- order ----------------------------------------------------------------------------------- */

static double final_loss(const ms_race_result *r)
{
    double sum = 0.0;
    for (size_t i = 0; i < r->n; i++)
        sum += r->runs[i]->val_loss;
    return r->n > 0 ? sum / (double)r->n : NAN;
}

static int by_number(double x, double y)
{
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

/* All runs reached the target, some did, none did. */
static int by_steps(const void *a, const void *b)
{
    const race_row *x = a, *y = b;
    int             order = by_number(x->result.mean.mean, y->result.mean.mean);

    if (order == 0) order = by_number(x->result.least, y->result.least);
    if (order == 0) order = by_number(final_loss(&x->result), final_loss(&y->result));
    return order != 0 ? order : (x->method > y->method) - (x->method < y->method);
}

static int by_ratio(const void *a, const void *b)
{
    const race_ratio *x = a, *y = b;
    const int         bound = (x->bounds > 0) - (y->bounds > 0);
    const int         order = bound != 0 ? bound : by_number(x->mean.mean, y->mean.mean);

    return order != 0 ? order : (x->method > y->method) - (x->method < y->method);
}

/* The results of a problem's methods, the fastest first; the caller frees them. */
static race_row *make_rows(ms_section_builder *b, const ms_race *race, size_t *n)
{
    race_row *rows = calloc(b->c->n_methods + 1, sizeof *rows);

    *n = 0;
    if (rows == NULL) {
        b->page->out_of_memory = true;
        return NULL;
    }
    for (size_t m = 0; m < b->c->n_methods; m++) {
        rows[*n] = (race_row){ .method = m, .result = ms_race_result_of(race, m) };
        *n += rows[*n].result.setting != NULL;
    }
    qsort(rows, *n, sizeof *rows, by_steps);
    return rows;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Is it the lowest or the highest rate of the method's tuning runs at this threshold? */
static const char *edge_of(const ms_race *race, const ms_setting *s)
{
    const ms_compare *c   = race->c;
    bool              low = true, high = true;

    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *other = &c->settings[i];
        if (other->problem != s->problem || other->method != s->method ||
            strcmp(other->threshold_text, s->threshold_text) != 0 ||
            ms_run_of_seed(other, race->tuning_seed) == NULL)
            continue;
        low  = low && s->lr <= other->lr;
        high = high && s->lr >= other->lr;
    }
    return low == high ? "" : low ? " (lowest)" : " (highest)";
}

/* "lr 0.5 (highest), D 0.05, decay 0.1" */
static void add_setting(ms_table *t, const ms_race *race, const ms_setting *s)
{
    char decay[MS_PLOT_TEXT];

    ms_plot_decay_text(s->decay, decay);
    ms_table_add(t, "lr %g%s%s%s%s%s", s->lr, edge_of(race, s),
                 s->threshold_text[0] != '\0' ? ", D " : "", s->threshold_text,
                 strcmp(decay, "0") != 0 ? ", decay " : "", strcmp(decay, "0") != 0 ? decay : "");
}

/* "97.2 ± 1.3", the mean alone for one number, "> 97.2" if it is a bound, "-" if there is none; in
 * CSV the mean, half of the interval and whether it is a bound. */
static void add_interval(ms_table *t, ms_interval x, int digits, bool bound)
{
    char mean[MS_REAL_TEXT] = "", half[MS_REAL_TEXT] = "";

    if (isnan(x.mean))
        ms_table_add(t, "-");
    else if (bound)
        ms_table_add(t, "> %.*f", digits, x.mean);
    else if (isnan(x.half))
        ms_table_add(t, "%.*f", digits, x.mean);
    else
        ms_table_add(t, "%.*f ± %.*f", digits, x.mean, digits, x.half);
    if (isfinite(x.mean)) ms_real_text(x.mean, mean);
    if (isfinite(x.half) && !bound) ms_real_text(x.half, half);
    ms_table_is_fields(t, "%s,%s,%s", mean, half, bound ? "yes" : "no");
}

static void add_steps(ms_table *t, const ms_race_result *r)
{
    const bool some = r->reached > 0 && r->reached < r->n;

    if (r->reached == 0) {
        ms_table_add(t, "not reached");
        ms_table_is_fields(t, ",,no");
        return;
    }
    add_interval(t, some ? (ms_interval){ .mean = r->least, .half = NAN } : r->mean, 1, some);
}

static void add_row(ms_table *t, const ms_race *race, const race_row *row,
                    const ms_race_result *muon, bool times)
{
    const ms_race_result *r                = &row->result;
    double                ratios[MS_SEEDS] = { 0 };
    size_t                n = 0, bounds = 0;

    if (muon != NULL && r->reached > 0) ms_race_add_ratios(r, muon, ratios, &n, &bounds);
    ms_table_add(t, "%s", race->c->problems[race->problem].label);
    ms_table_number(t, "%.4g", race->target);
    ms_table_add(t, "%s", race->c->methods[row->method].label);
    add_setting(t, race, r->setting);
    add_steps(t, r);
    ms_table_add(t, "%zu of %zu", r->reached, r->n);
    ms_table_is_fields(t, "%zu,%zu", r->reached, r->n);
    add_interval(t, ms_interval_of(ratios, n), 3, bounds > 0);
    ms_table_number(t, "%.4f", final_loss(r));
    ms_table_add(t, "%zu", ms_race_tuning_runs(race, row->method));
    if (times) ms_table_number(t, "%.2f", ms_race_seconds(race, row->method, r->mean.mean));
}

/* ---- figures --------------------------------------------------------------------------------- */

static ms_panel *rows_panel(ms_figure *f, const char *title, const char *of)
{
    ms_panel *p = ms_figure_panel(f, title, "", of);
    if (p != NULL) p->rows = true;
    return p;
}

/* Adds a row with a value and its interval, or a cross where there is none. */
static void add_dot(ms_figure *f, ms_panel *p, const ms_method *method, ms_interval x,
                    const char *tip)
{
    ms_point point = ms_point_at(0.0, x.mean);

    if (p == NULL) return;
    point.diverged = isnan(x.mean);
    if (isfinite(x.half)) {
        point.low  = x.mean - x.half;
        point.high = x.mean + x.half;
    }
    ms_curve_point(f, ms_panel_curve(f, p, method->label, method->style), point, "%s: %s",
                   method->label, tip);
}

static void steps_panel(ms_section_builder *b, const ms_race *race, const race_row *rows, size_t n,
                        ms_figure *f)
{
    char      title[MS_PLOT_TEXT], tip[128];
    ms_panel *p;

    snprintf(title, sizeof title, "%.900s: loss %.4g", b->c->problems[race->problem].label,
             race->target);
    p = rows_panel(f, title, "steps");
    for (size_t i = 0; i < n; i++) {
        const ms_race_result *r = &rows[i].result;
        if (isnan(r->mean.mean))
            snprintf(tip, sizeof tip, "%zu of %zu runs reached the target", r->reached, r->n);
        else if (isnan(r->mean.half))
            snprintf(tip, sizeof tip, "%.1f steps, one seed", r->mean.mean);
        else
            snprintf(tip, sizeof tip, "%.1f ± %.1f steps", r->mean.mean, r->mean.half);
        add_dot(f, p, &b->c->methods[rows[i].method], r->mean, tip);
    }
}

static void ratio_panel(ms_section_builder *b, const race_ratio *ratios, size_t n, ms_figure *f)
{
    char      tip[128];
    ms_panel *p = rows_panel(f, "all sets", "steps, Muon's being 1");

    for (size_t i = 0; i < n; i++) {
        ms_interval x = ratios[i].mean;
        snprintf(tip, sizeof tip, "%s%.3f of Muon's steps; %zu of %zu runs reached the target",
                 ratios[i].bounds > 0 ? "more than " : "", x.mean, ratios[i].reached,
                 ratios[i].runs);
        if (ratios[i].bounds > 0) x = ms_interval_of(NULL, 0);
        add_dot(f, p, &b->c->methods[ratios[i].method], x, tip);
    }
    ms_panel_rule(f, p, 1.0, "");
}

/* Draws the loss of each method at its setting, in the order of the race. */
static void loss_figure(ms_section_builder *b, size_t problem)
{
    const ms_compare *c    = b->c;
    const ms_race     race = ms_race_of(c, problem, b->options->target);
    char              id[MS_PLOT_ID], title[MS_PLOT_TEXT];
    ms_figure         f = { 0 };
    ms_panel         *p;
    size_t            n    = 0;
    race_row         *rows = isnan(race.target) ? NULL : make_rows(b, &race, &n);
    bool              any  = false;

    ms_plot_id(c, "race-loss", problem, id);
    snprintf(title, sizeof title, "Validation loss on the way: %.900s", c->problems[problem].label);
    ms_figure_begin(&f, id, title, "");
    p = ms_figure_panel(&f, "", "step", "validation loss");
    for (size_t i = 0; i < n; i++) {
        const ms_trace trace = { .setting = rows[i].result.setting,
                                 .read    = MS_READ_VAL_LOSS,
                                 .label   = c->methods[rows[i].method].label,
                                 .style   = c->methods[rows[i].method].style };
        any                  = ms_plot_trace(b, &f, p, &trace) || any;
    }
    free(rows);
    if (!any) {
        ms_figure_free(&f);
        return;
    }
    ms_plot_loss_panel(c, problem, &f, p);
    ms_plot_caption(c, problem, &f, "Each method at its setting in the race.");
    if (ms_build_figure(b, &f)) ms_plot_trace_notes(b, problem);
}

/* ---- all problems together ------------------------------------------------------------------- */

static race_ratio ratio_of(const ms_compare *c, size_t method, size_t muon, double target,
                           double *ratios)
{
    race_ratio out = { .method = method };
    size_t     n   = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        const ms_race        race = ms_race_of(c, p, target);
        const ms_race_result mine = ms_race_result_of(&race, method);
        const ms_race_result base = ms_race_result_of(&race, muon);
        out.runs += mine.n;
        out.reached += mine.reached;
        ms_race_add_ratios(&mine, &base, ratios, &n, &out.bounds);
    }
    out.mean = ms_interval_of(ratios, out.reached > 0 ? n : 0);
    return out;
}

/* The ratios of all methods, the smallest first; none where there is one problem, or no Muon. */
static size_t make_ratios(ms_section_builder *b, race_ratio **out)
{
    const ms_compare *c      = b->c;
    const size_t      muon   = ms_compare_plain(c, "muon");
    double           *ratios = calloc(c->n_problems * MS_SEEDS + 1, sizeof *ratios);
    size_t            n      = 0;

    *out = calloc(c->n_methods + 1, sizeof **out);
    if (ratios == NULL || *out == NULL) b->page->out_of_memory = true;
    for (size_t m = 0; !b->page->out_of_memory && m < c->n_methods; m++) {
        if (c->n_problems < 2 || muon == c->n_methods) break;
        (*out)[n] = ratio_of(c, m, muon, b->options->target, ratios);
        n += (*out)[n].runs > 0;
    }
    if (n > 0) qsort(*out, n, sizeof **out, by_ratio);
    free(ratios);
    return n;
}

static void ratio_table(ms_section_builder *b, const race_ratio *ratios, size_t n)
{
    static const char *const names[] = {
        "method", "of Muon's steps|of Muon's steps,half of its interval,a lower bound", "pairs",
        "reached|reached,of runs"
    };
    ms_table t = { .align = "lrrr" };

    ms_table_names(&t, names);
    for (size_t i = 0; i < n; i++) {
        ms_table_add(&t, "%s", b->c->methods[ratios[i].method].label);
        add_interval(&t, ratios[i].mean, 3, ratios[i].bounds > 0);
        ms_table_add(&t, "%zu", ratios[i].mean.n);
        ms_table_add(&t, "%zu of %zu", ratios[i].reached, ratios[i].runs);
        ms_table_is_fields(&t, "%zu,%zu", ratios[i].reached, ratios[i].runs);
    }
    if (n == 0)
        ms_table_free(&t);
    else
        ms_build_table(b, "race-all",
                       "Steps to the target as a share of Muon's on the same set with the same "
                       "seed: the mean of all pairs.",
                       &t);
}

/* ---- the section ----------------------------------------------------------------------------- */

static void add_notes(ms_section_builder *b, const ms_race *race)
{
    if (b->options->target > 0.0)
        ms_build_notes(b, "The target was given.");
    else
        ms_build_notes(b,
                       "The target is %g %% above the lowest final loss of Muon's tuning runs, "
                       "rounded up to hundredths.",
                       100.0 * MS_RACE_MARGIN);
    ms_build_notes(
        b,
        "Tuning runs are those with seed %lld, of all rates, thresholds and decays of a method. "
        "Its "
        "setting is the one that needs the fewest steps; where none reaches the target, the one "
        "with the lowest final loss. A rate is marked that is the lowest or the highest of those "
        "run: a better one may lie beyond. The results are of the setting's other seeds, if it has "
        "any.",
        (long long)race->tuning_seed);
    ms_build_notes(
        b, "Between two validations the loss is interpolated linearly; the first one at or below "
           "the target counts. ± is half of the 95 %% interval of a mean over seeds (Student's t); "
           "ratios to Muon are paired by seed.");
    ms_build_notes(
        b, "A run that diverged or ended above the target has not reached it. Where some runs of a "
           "setting have, > stands before a lower bound: the mean with the other runs counted at "
           "all their steps.");
    ms_build_notes(
        b, "All methods have the same batches and the same schedule, that of the whole run: a "
           "shorter one of its own might bring a method to the target earlier.");
    if (!b->options->omit_times)
        ms_build_notes(b, "Seconds are those of training, without validations and measurements, of "
                          "the quickest of the method's runs at each step.");
}

/* The race on one problem: its rows in the table, its panel, its losses.  False: no target. */
static bool add_problem(ms_section_builder *b, const ms_race *race, ms_figure *f, ms_table *t)
{
    const size_t muon = ms_compare_plain(b->c, "muon");
    size_t       n;
    race_row    *rows = isnan(race->target) ? NULL : make_rows(b, race, &n);

    if (rows == NULL) return false;
    for (size_t i = 0; i < n; i++) {
        const ms_race_result base = ms_race_result_of(race, muon);
        add_row(t, race, &rows[i], &base, !b->options->omit_times);
    }
    steps_panel(b, race, rows, n, f);
    free(rows);
    return n > 0;
}

/* The figure and the tables; they take the figure and the table over. */
static void add_results(ms_section_builder *b, const ms_race *race, ms_figure *f, ms_table *t)
{
    ms_figure_caption(
        f,
        "Steps until the validation loss is as low as the target, each method at the "
        "setting that needs the fewest, the fastest first%s. Lines are 95 %% intervals "
        "of the mean over seeds; a cross at the right means that not every run "
        "reached the target.",
        f->n > 1 ? ": as a share of Muon's over all sets, then on each" : "");
    ms_build_figure(b, f);
    ms_build_table(b, "race-steps", "Each method on each set.", t);
    add_notes(b, race);
}

void ms_build_race(ms_section_builder *b)
{
    static const char *const names[] = {
        "problem",
        "target",
        "method",
        "setting",
        "steps|steps,half of its interval,steps are a lower bound",
        "reached|reached,of runs",
        "of Muon's|of Muon's,half of its interval,it is a lower bound",
        "final loss",
        "tuning runs",
        "seconds"
    };
    const ms_compare *c     = b->c;
    const bool        times = !b->options->omit_times;
    ms_table          t     = { .align = times ? "lrllrrrrrr" : "lrllrrrrr" };
    ms_figure         f     = { 0 };
    ms_race           race  = { .target = NAN };
    race_ratio       *ratios;
    size_t            n;

    if (b->options->only == NULL && !(b->options->target > 0.0)) return;
    n = make_ratios(b, &ratios);
    ms_table_names(&t, names);
    ms_figure_begin(&f, "race", "Steps to the target", "");
    if (n > 0) ratio_panel(b, ratios, n, &f);
    for (size_t p = 0; p < c->n_problems; p++) {
        const ms_race mine = ms_race_of(c, p, b->options->target);
        if (add_problem(b, &mine, &f, &t)) race = mine;
    }
    if (isnan(race.target)) {
        ms_table_free(&t);
        ms_figure_free(&f);
    } else {
        ratio_table(b, ratios, n);
        add_results(b, &race, &f, &t);
    }
    for (size_t p = 0; p < c->n_problems && !isnan(race.target); p++)
        loss_figure(b, p);
    free(ratios);
}
