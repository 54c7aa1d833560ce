/* traces.c - curves over the steps of a run.
 *
 * A curve is one run; its band reaches over the runs of all seeds at the same step.  A mean of the
 * seeds would smooth away the behaviour of a single run.  A log may have thousands of lines and a
 * page dozens of curves: a curve of more than MAX_POINTS points is drawn as means of `window`
 * neighbours, placed at the last step of each window. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section_plots.h"

enum { MAX_POINTS = 400 };

/* ---- readings -------------------------------------------------------------------------------- */

static bool put(double x, bool measured, double *value)
{
    *value = x;
    return measured;
}

bool ms_read(ms_reading what, const ms_run_line *line, int group, double *value)
{
    const ms_run_group *of  = &line->groups[group];
    const bool          has = line->has_groups;
    switch (what) {
    case MS_READ_LOSS: return put(line->loss, true, value);
    case MS_READ_VAL_LOSS: return put(line->val_loss, line->has_val, value);
    case MS_READ_LR: return put(line->lr, !isnan(line->lr), value);
    case MS_READ_TOK_S: return put(line->tok_s, !isnan(line->tok_s), value);
    case MS_READ_MAX_LOGIT: return put(line->max_logit, !isnan(line->max_logit), value);
    case MS_READ_W_NORM: return put(of->w_norm, has, value);
    case MS_READ_U_ERANK: return put(of->u_erank, has, value);
    case MS_READ_U_GAIN: return put(of->u_gain, has && !isnan(of->u_gain), value);
    case MS_READ_SIGMA1: return put(of->sigma1_over_d, has, value);
    case MS_READ_SHARE: return put(of->share_above, has, value);
    }
    return false;
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
        n += ms_read(trace->read, &run->lines[i], trace->group, &y);
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
        if (!ms_read(trace->read, &run->lines[i], trace->group, &y)) continue;
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

/* The value at a step, NaN if there is none.  The search continues from index *at. */
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
        ms_point point = ms_point_at((double)mine->step[i], mine->y[i]);
        for (size_t k = 0; k < n_all; k++)
            widen(&point, value_at(&all[k], mine->step[i], &at[k]));
        if (p->y_log && !(point.y > 0.0)) point.y = NAN;
        if (p->y_log && !(point.low > 0.0)) point.low = NAN;
        if (!(point.low < point.high) || isnan(point.y)) point.low = point.high = NAN;
        ms_curve_point(f, curve, point, NULL);
    }
}

/* Each cross is a curve: it may lie before the end of the line, or beside another cross. */
static void add_crosses(ms_figure *f, ms_panel *p, const ms_trace *trace)
{
    const ms_setting *s = trace->setting;

    for (size_t i = 0; i < s->n; i++) {
        const ms_run *run = s->runs[i];
        if (run->status != MS_RUN_DIVERGED || run->n == 0) continue;
        const long long step  = (long long)run->lines[run->n - 1].step;
        ms_point        cross = ms_point_at((double)step, NAN);
        cross.diverged        = true;
        ms_curve_point(f, ms_panel_curve(f, p, trace->label, trace->style), cross,
                       "%s: diverged at step %lld, seed %s: %s", trace->label, step,
                       ms_run_text(run, "seed"),
                       run->reason != NULL ? run->reason : "no reason is known");
    }
}

/* Adds a square at the end of the line if that run stalled. */
static void add_square(ms_figure *f, ms_panel *p, const ms_trace *trace, const ms_run *run,
                       const trace_series *mine)
{
    if (run->status != MS_RUN_STALLED || mine->n == 0 || !isfinite(mine->y[mine->n - 1])) return;
    ms_point square = ms_point_at((double)mine->step[mine->n - 1], mine->y[mine->n - 1]);
    square.extra    = true;
    ms_curve_point(f, ms_panel_curve(f, p, "stalled", ms_style_stalled()), square,
                   "%s: stalled, seed %s: %s", trace->label, ms_run_text(run, "seed"),
                   run->reason != NULL ? run->reason : "no reason is known");
}

bool ms_plot_trace(ms_section_builder *b, ms_figure *f, ms_panel *p, const ms_trace *trace)
{
    const ms_setting *s    = trace->setting;
    const ms_run     *run  = s != NULL ? main_run(s) : NULL;
    const size_t      n    = run != NULL ? count(run, trace) : 0;
    const size_t      wide = (n + MAX_POINTS - 1) / MAX_POINTS;
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
            means = means || s->runs[k]->n > MAX_POINTS;
    }
    if (seeds)
        ms_build_notes(b,
                       "A line is one run, that of the first seed that did not diverge; its band "
                       "reaches over all seeds.");
    if (means)
        ms_build_notes(b, "Curves of more than %d points are drawn as %d means or fewer.",
                       MAX_POINTS, MAX_POINTS);
}

/* ---- panels of losses ------------------------------------------------------------------------ */

/* Runs that diverged before the change are skipped. */
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
            if (run->n > 0) start = fmax(start, run->lines[0].loss); /* fmax ignores NaN */
        }
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++)
            if (p->curves[i].at[k].x > settled) later = fmax(later, p->curves[i].at[k].y);
    p->y_max = fmin(start, later);
    if (change > 0) ms_panel_rule(f, p, (double)change, "stage 2");
}
