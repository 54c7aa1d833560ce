/* section_losses.c - last validation losses against the learning rate, and against the effective
 * step: the size of the applied updates, by which different methods can be compared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section_plots.h"

static bool has_rates(const ms_compare *c, size_t problem)
{
    for (size_t m = 0; m < c->n_methods; m++)
        if (ms_plot_drawn(c, problem, m) && ms_plot_count_rates(c, problem, m) >= 2) return true;
    return false;
}

static void note_limit(ms_section_builder *b)
{
    ms_build_notes(b, "A panel ends below losses that are more than three times as far above the "
                      "lowest as three quarters of them are.");
}

/* ---- against the learning rate --------------------------------------------------------------- */

static void rate_panel(const ms_compare *c, size_t problem, ms_figure *f)
{
    ms_panel *p =
        ms_figure_panel(f, c->problems[problem].label, "learning rate", "validation loss");

    if (p == NULL) return;
    p->x_log = true;
    for (size_t m = 0; m < c->n_methods; m++) {
        if (!ms_plot_drawn(c, problem, m)) continue;
        ms_curve *curve = ms_panel_curve(f, p, c->methods[m].label, c->methods[m].style);
        for (size_t i = 0; i < c->n_rates; i++)
            ms_plot_add(f, curve, c->methods[m].label, ms_compare_best(c, problem, m, c->rates[i]));
    }
    ms_panel_symbols(f, p);
    ms_plot_limit(f, p);
}

void ms_build_loss_lr(ms_section_builder *b)
{
    const ms_compare *c = b->c;
    ms_figure         f = { 0 };

    ms_figure_begin(&f, "loss-lr", "Validation loss against learning rate", "");
    for (size_t p = 0; p < c->n_problems; p++)
        if (has_rates(c, p)) rate_panel(c, p, &f);
    ms_plot_caption(c, c->n_problems, &f, "The last validation loss of each method.");
    if (!ms_build_figure(b, &f)) return;
    ms_build_notes(b,
                   "A point is the mean over the seeds that did not diverge, of the threshold and "
                   "weight decay that are best for the method at that rate. A cross beside a "
                   "point stands for the runs that the mean leaves out.");
    note_limit(b);
    ms_plot_left_out(b);
}

/* ---- against the effective step -------------------------------------------------------------- */

typedef struct applied { /* a setting, and the mean size of its applied updates */
    const ms_setting *setting;
    double            step;
} applied;

static applied measure(const ms_setting *s, bool rms)
{
    double sum = 0.0;
    size_t n   = 0;
    for (size_t i = 0; i < s->n; i++) {
        double norm, mean_square;
        ms_run_applied(s->runs[i], &norm, &mean_square);
        const double x = rms ? mean_square : norm;
        if (!(x > 0.0) || !isfinite(x)) continue;
        sum += x;
        n++;
    }
    return (applied){ s, n > 0 ? sum / (double)n : NAN };
}

static int by_step(const void *a, const void *b)
{
    const double x = ((const applied *)a)->step, y = ((const applied *)b)->step;
    return (x > y) - (x < y);
}

static void step_curve(ms_section_builder *b, size_t problem, size_t method, bool rms, ms_figure *f,
                       ms_panel *p)
{
    const ms_compare *c  = b->c;
    applied          *at = calloc(c->n_rates > 0 ? c->n_rates : 1, sizeof *at);
    size_t            n  = 0;
    ms_curve         *curve;
    char              tip[MS_PLOT_TEXT];

    b->page->out_of_memory = b->page->out_of_memory || at == NULL;
    for (size_t i = 0; at != NULL && i < c->n_rates; i++) {
        const ms_setting *s = ms_compare_best(c, problem, method, c->rates[i]);
        if (s == NULL) continue;
        at[n] = measure(s, rms);
        if (isfinite(at[n].step)) n++; /* one that diverged at once has no measurement */
    }
    if (n > 0) {
        qsort(at, n, sizeof *at, by_step);
        curve = ms_panel_curve(f, p, c->methods[method].label, c->methods[method].style);
        for (size_t i = 0; i < n; i++) {
            ms_plot_tip(c->methods[method].label, at[i].setting, tip);
            ms_curve_point(f, curve, ms_plot_point(at[i].step, at[i].setting), "%s, %s %.3g", tip,
                           rms ? "RMS" : "norm", at[i].step);
        }
    }
    free(at);
}

static bool is_measured(const ms_compare *c, size_t problem)
{
    for (size_t i = 0; i < c->n_settings; i++)
        if (c->settings[i].problem == problem && isfinite(measure(&c->settings[i], false).step))
            return true;
    return false;
}

static void step_panel(ms_section_builder *b, size_t problem, bool rms, ms_figure *f)
{
    char      title[MS_PLOT_TEXT];
    ms_panel *p;

    ms_plot_title(b->c, problem, rms ? "RMS" : "spectral norm", title);
    p = ms_figure_panel(f, title,
                        rms ? "RMS of the applied update" : "spectral norm of the applied update",
                        "validation loss");
    if (p == NULL) return;
    p->x_log = true;
    for (size_t m = 0; m < b->c->n_methods; m++)
        if (ms_plot_drawn(b->c, problem, m)) step_curve(b, problem, m, rms, f, p);
    ms_panel_symbols(f, p);
    ms_plot_limit(f, p);
}

void ms_build_effective_step(ms_section_builder *b)
{
    const ms_compare *c = b->c;
    ms_figure         f = { 0 };

    ms_figure_begin(&f, "effective-step", "Validation loss against effective step", "");
    for (int rms = 0; rms < 2; rms++) /* a row of each, where there are three problems */
        for (size_t p = 0; p < c->n_problems; p++)
            if (has_rates(c, p) && is_measured(c, p)) step_panel(b, p, rms == 1, &f);
    ms_plot_caption(c, c->n_problems, &f,
                    "The same losses at the size of the updates that were applied, learning rate "
                    "included: curves may be compared from left to right as well.");
    if (!ms_build_figure(b, &f)) return;
    ms_build_notes(b,
                   "Methods whose updates differ in size are best at different learning rates, "
                   "whatever else they do; here each point stands where its updates really were.");
    ms_build_notes(b,
                   "Norm and RMS are means over training and over QK, VO and MLP; the norm is "
                   "that of the matrix of each group where it is largest. A setting that diverged "
                   "before anything was measured has no place here.");
    note_limit(b);
    ms_plot_left_out(b);
}
