/* traces.c - curves over the steps of a run.
 *
 * The curve is one run, its band reaches over the runs of all seeds at the same step; a mean of
 * the seeds would smooth away what one run does.  A log may have thousands of lines and a page
 * dozens of curves: those of more than MOST points are drawn as means of `window` neighbours,
 * standing at the last step of each window. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section_plots.h"

enum { MOST = 400 };

/* ---- readings -------------------------------------------------------------------------------- */

bool ms_read_loss(const ms_run_line *line, int group, double *value)
{
    (void)group;
    *value = line->loss;
    return true;
}

bool ms_read_val_loss(const ms_run_line *line, int group, double *value)
{
    (void)group;
    *value = line->val_loss;
    return line->has_val;
}

static bool measured(double from, double *value)
{
    *value = from;
    return !isnan(from);
}

bool ms_read_lr(const ms_run_line *line, int group, double *value)
{
    (void)group;
    return measured(line->lr, value);
}

bool ms_read_max_logit(const ms_run_line *line, int group, double *value)
{
    (void)group;
    return measured(line->max_logit, value);
}

bool ms_read_tok_s(const ms_run_line *line, int group, double *value)
{
    (void)group;
    return measured(line->tok_s, value);
}

bool ms_read_w_norm(const ms_run_line *line, int group, double *value)
{
    *value = line->groups[group].w_norm;
    return line->has_groups;
}

bool ms_read_u_erank(const ms_run_line *line, int group, double *value)
{
    *value = line->groups[group].u_erank;
    return line->has_groups;
}

bool ms_read_u_gain(const ms_run_line *line, int group, double *value)
{
    return measured(line->groups[group].u_gain, value) && line->has_groups;
}

bool ms_read_sigma1(const ms_run_line *line, int group, double *value)
{
    *value = line->groups[group].sigma1_over_d;
    return line->has_groups;
}

bool ms_read_share(const ms_run_line *line, int group, double *value)
{
    *value = line->groups[group].share_above;
    return line->has_groups;
}

/* ---- series ---------------------------------------------------------------------------------- */

typedef struct trace_series {
    int64_t *step;
    double  *y;
    size_t   n, window;
} trace_series;

static void free_series(trace_series *s)
{
    free(s->step);
    free(s->y);
}

static size_t count(const ms_run *run, const ms_trace *trace)
{
    size_t n = 0;
    double y;
    for (size_t i = 0; i < run->n; i++)
        n += trace->read(&run->lines[i], trace->group, &y);
    return n;
}

/* A window with a value that is not finite is a gap; the last one may be shorter. */
static bool make_series(const ms_run *run, const ms_trace *trace, size_t window, trace_series *out)
{
    const size_t all = count(run, trace);
    double       sum = 0.0, y;
    size_t       in  = 0;

    *out = (trace_series){ .window = window,
                           .step   = calloc(all / window + 1, sizeof *out->step),
                           .y      = calloc(all / window + 1, sizeof *out->y) };
    if (out->step == NULL || out->y == NULL) return false;
    for (size_t i = 0, seen = 0; i < run->n; i++) {
        if (!trace->read(&run->lines[i], trace->group, &y)) continue;
        sum += y;
        in++;
        seen++;
        if (in < window && seen < all) continue;
        out->step[out->n] = run->lines[i].step;
        out->y[out->n++]  = isfinite(sum) ? sum / (double)in : NAN;
        sum               = 0.0;
        in                = 0;
    }
    return true;
}

/* The value at a step, NaN if there is none; `at` goes on from where it was. */
static double value_at(const trace_series *s, int64_t step, size_t *at)
{
    while (*at < s->n && s->step[*at] < step)
        ++*at;
    return *at < s->n && s->step[*at] == step ? s->y[*at] : NAN;
}

static const ms_run *main_run(const ms_setting *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->runs[i]->status == MS_RUN_DONE) return s->runs[i];
    return s->n > 0 ? s->runs[0] : NULL;
}

static void widen(ms_point *p, double y)
{
    if (!isfinite(y)) return;
    if (!(p->low <= y)) p->low = y;
    if (!(p->high >= y)) p->high = y;
}

static void add_points(ms_figure *f, ms_panel *p, ms_curve *curve, const trace_series *mine,
                       const trace_series *all, size_t *at, size_t n_all)
{
    for (size_t i = 0; i < mine->n; i++) {
        ms_point point = { .x = (double)mine->step[i], .y = mine->y[i], .low = NAN, .high = NAN };
        for (size_t k = 0; k < n_all; k++)
            widen(&point, value_at(&all[k], mine->step[i], &at[k]));
        if (p->y_log && !(point.y > 0.0)) point.y = NAN;
        if (p->y_log && !(point.low > 0.0)) point.low = NAN;
        if (!(point.low < point.high) || isnan(point.y)) point.low = point.high = NAN;
        ms_curve_point(f, curve, point, NULL);
    }
}

/* A curve each: they may lie before the end of the line, and beside each other. */
static void add_crosses(ms_figure *f, ms_panel *p, const ms_trace *trace)
{
    const ms_setting *s = trace->setting;

    for (size_t i = 0; i < s->n; i++) {
        const ms_run *run = s->runs[i];
        if (run->status != MS_RUN_DIVERGED || run->n == 0) continue;
        const long long step = (long long)run->lines[run->n - 1].step;
        ms_curve_point(
            f, ms_panel_curve(f, p, trace->label, trace->style),
            (ms_point){ .x = (double)step, .y = NAN, .low = NAN, .high = NAN, .diverged = true },
            "%s: diverged at step %lld, seed %s: %s", trace->label, step, ms_run_text(run, "seed"),
            run->reason != NULL ? run->reason : "no reason is known");
    }
}

/* Adds a square at the end of the line if that run stalled. */
static void add_square(ms_figure *f, ms_panel *p, const ms_trace *trace, const ms_run *run,
                       const trace_series *mine)
{
    if (run->status != MS_RUN_STALLED || mine->n == 0 || !isfinite(mine->y[mine->n - 1])) return;
    ms_curve_point(f, ms_panel_curve(f, p, "stalled", ms_style_stalled()),
                   (ms_point){ .x     = (double)mine->step[mine->n - 1],
                               .y     = mine->y[mine->n - 1],
                               .low   = NAN,
                               .high  = NAN,
                               .extra = true },
                   "%s: stalled, seed %s: %s", trace->label, ms_run_text(run, "seed"),
                   run->reason != NULL ? run->reason : "no reason is known");
}

bool ms_plot_trace(ms_section_builder *b, ms_figure *f, ms_panel *p, const ms_trace *trace)
{
    const ms_setting *s    = trace->setting;
    const ms_run     *run  = s != NULL ? main_run(s) : NULL;
    const size_t      n    = run != NULL ? count(run, trace) : 0;
    const size_t      wide = (n + MOST - 1) / MOST;
    trace_series      mine = { 0 }, *all = NULL;
    size_t           *at   = NULL;
    bool              made = true;

    if (p == NULL || s == NULL) return false;
    if (n == 0) {
        add_crosses(f, p, trace);
        return false;
    }
    all = calloc(s->n, sizeof *all);
    at  = calloc(s->n, sizeof *at);
    if (all == NULL || at == NULL) goto done;
    made = make_series(run, trace, wide, &mine);
    for (size_t k = 0; k < s->n && made; k++)
        made = make_series(s->runs[k], trace, wide, &all[k]);
    if (made) {
        ms_curve *curve = ms_panel_curve(f, p, trace->label, trace->style);
        add_points(f, p, curve, &mine, all, at, s->n);
        add_square(f, p, trace, run, &mine);
        add_crosses(f, p, trace);
    }
done:
    b->page->out_of_memory = b->page->out_of_memory || all == NULL || at == NULL || !made;
    for (size_t k = 0; all != NULL && k < s->n; k++)
        free_series(&all[k]);
    free_series(&mine);
    free(all);
    free(at);
    return true;
}

void ms_plot_trace_notes(ms_section_builder *b, size_t problem)
{
    const ms_compare *c     = b->c;
    bool              seeds = false, means = false;

    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != problem) continue;
        seeds = seeds || s->n > 1;
        for (size_t k = 0; k < s->n; k++)
            means = means || s->runs[k]->n > MOST;
    }
    if (seeds)
        ms_build_notes(b,
                       "A line is one run, that of the first seed that did not diverge; its band "
                       "reaches over all seeds.");
    if (means)
        ms_build_notes(b, "Curves of more than %d points are drawn as %d means or fewer.", MOST,
                       MOST);
}

/* ---- panels of losses ------------------------------------------------------------------------ */

/* A run that diverged early does not show it. */
int64_t ms_plot_stage_change(const ms_compare *c, size_t problem)
{
    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            const int64_t first = ms_run_stage_change(c->settings[i].runs[k]);
            if (first > 0) return first - 1;
        }
    return 0;
}

void ms_plot_loss_panel(const ms_compare *c, size_t problem, ms_figure *f, ms_panel *p)
{
    const int64_t change  = ms_plot_stage_change(c, problem);
    const double  settled = (double)c->problems[problem].first->steps * MS_PLOT_SETTLING;
    double        start = NAN, later = NAN;

    if (p == NULL) return;
    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            const ms_run *run = c->settings[i].runs[k];
            if (run->n > 0) start = fmax(start, run->lines[0].loss); /* fmax passes NaN over */
        }
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++)
            if (p->curves[i].at[k].x > settled) later = fmax(later, p->curves[i].at[k].y);
    p->y_max = fmin(start, later);
    if (change > 0) ms_panel_rule(f, p, (double)change, "stage 2");
}
