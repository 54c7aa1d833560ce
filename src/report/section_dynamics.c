/* section_dynamics.c - training and validation loss over the steps: each method at its best, and
 * all of them at the same learning rates. */
#include <math.h>
#include <string.h>

#include "report/section_plots.h"

static size_t count_methods(const ms_compare *c, size_t problem)
{
    size_t n = 0;
    for (size_t m = 0; m < c->n_methods; m++)
        n += ms_plot_drawn(c, problem, m);
    return n;
}

typedef struct sharing {
    const ms_compare *c;
    size_t            problem, methods;
} sharing;

static bool most_share(const void *of, double lr)
{
    const sharing *s = of;
    return 2 * ms_plot_methods_at(s->c, s->problem, lr) > s->methods;
}

/* Chooses the rates to show: none if the problem has only one, at which the best settings are. */
static size_t choose_rates(const ms_compare *c, size_t problem, double out[MS_PLOT_RATES])
{
    const sharing s     = { c, problem, count_methods(c, problem) };
    size_t        there = 0;

    for (size_t i = 0; i < c->n_rates; i++)
        there += ms_plot_methods_at(c, problem, c->rates[i]) > 0;
    return there < 2 ? 0 : ms_plot_rates(c, most_share, &s, out);
}

/* Draws the losses at one learning rate; lr NaN draws each method at its best. */
static void loss_panel(ms_section_builder *b, size_t problem, double lr, ms_reading read,
                       ms_figure *f)
{
    const ms_compare *c         = b->c;
    char              title[64] = "best of each";
    ms_panel         *p;

    if (!isnan(lr))
        snprintf(title, sizeof title, "lr %g", lr);
    else if (c->n_settings == 1)
        title[0] = '\0'; /* there is no other setting */
    p = ms_figure_panel(f, title, "step",
                        read == MS_READ_LOSS ? "training loss" : "validation loss");
    for (size_t m = 0; m < c->n_methods; m++) {
        ms_trace trace = { .read  = read,
                           .label = c->methods[m].label,
                           .style = c->methods[m].style };
        if (!ms_plot_drawn(c, problem, m)) continue;
        trace.setting =
            isnan(lr) ? ms_compare_tuned(c, problem, m) : ms_compare_best(c, problem, m, lr);
        ms_plot_trace(b, f, p, &trace);
    }
    ms_plot_loss_panel(c, problem, f, p);
}

/* Writes "Muon lr 0.02, Soft Musec lr 0.2 D 0.5", the best settings. */
static void best_text(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    size_t used = 0;
    out[0]      = '\0';
    for (size_t m = 0; m < c->n_methods && used + 128 < MS_PLOT_TEXT; m++) {
        const ms_setting *s = ms_compare_tuned(c, problem, m);
        if (s == NULL || ms_setting_failed(s) || !ms_plot_drawn(c, problem, m)) continue;
        used += (size_t)snprintf(out + used, 128, "%s%.60s lr %g%s%.30s", used > 0 ? ", " : "",
                                 c->methods[m].label, s->lr,
                                 s->threshold_text[0] != '\0' ? " D " : "", s->threshold_text);
    }
}

static void loss_figure(ms_section_builder *b, size_t problem, ms_reading read)
{
    const ms_compare *c      = b->c;
    const bool        train  = read == MS_READ_LOSS;
    const int64_t     change = ms_plot_stage_change(c, problem);
    double            rates[MS_PLOT_RATES];
    const size_t      n = choose_rates(c, problem, rates);
    char              id[MS_PLOT_ID], title[MS_PLOT_TEXT], best[MS_PLOT_TEXT], stage[128] = "";
    ms_figure         f = { 0 };

    ms_plot_id(c, train ? "dynamics-train" : "dynamics-val", problem, id);
    best_text(c, problem, best);
    snprintf(title, sizeof title, "%s loss over the steps: %s", train ? "Training" : "Validation",
             c->problems[problem].label);
    if (change > 0)
        snprintf(stage, sizeof stage, " The second stage begins after step %lld.",
                 (long long)change);
    ms_figure_begin(&f, id, title, "");
    loss_panel(b, problem, NAN, read, &f);
    for (size_t i = 0; i < n; i++)
        loss_panel(b, problem, rates[i], read, &f);
    ms_plot_caption(c, problem, &f, "%s%s.%s%s", c->n_settings > 1 ? "The best of each: " : "",
                    best, n > 0 ? " Then all methods at one learning rate." : "", stage);
    if (!ms_build_figure(b, &f)) return;
    ms_build_notes(b, "%s",
                   train ? "The loss is that of the batches that were trained on."
                         : "The loss is that of the validation tokens.");
    if (n > 0)
        ms_build_notes(b,
                       "At one learning rate, a method stands with the threshold and weight decay "
                       "that are best for it there.");
    ms_build_notes(b,
                   "A panel ends at the highest loss after the first 4 %% of the steps, or at the "
                   "loss at the start where that is lower.");
    ms_plot_trace_notes(b, problem);
    ms_plot_left_out(b);
}

/* Does a run have the two points that a curve needs? */
static bool has_steps(const ms_compare *c, size_t problem, ms_reading read)
{
    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            const ms_run *run = c->settings[i].runs[k];
            size_t        n   = 0;
            double        y;
            for (size_t l = 0; l < run->n; l++)
                n += ms_read(read, &run->lines[l], 0, &y);
            if (n >= 2) return true;
        }
    return false;
}

void ms_build_dynamics(ms_section_builder *b)
{
    for (size_t p = 0; p < b->c->n_problems; p++) {
        if (has_steps(b->c, p, MS_READ_VAL_LOSS)) loss_figure(b, p, MS_READ_VAL_LOSS);
        if (has_steps(b->c, p, MS_READ_LOSS)) loss_figure(b, p, MS_READ_LOSS);
    }
}
