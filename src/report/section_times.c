/* section_times.c - wall time of a step by method. */
#include <math.h>

#include "report/section_plots.h"

static void time_panel(ms_section_builder *b, size_t problem, ms_figure *f, ms_table *t)
{
    const ms_compare *c     = b->c;
    const size_t      plain = ms_compare_plain(c, "muon");
    ms_panel         *p     = NULL;
    ms_step_time      muon, ms;

    if (!ms_compare_time(c, problem, plain, &muon)) b->page->out_of_memory = true;
    for (size_t m = 0; m < c->n_methods; m++) {
        ms_curve *curve;
        if (!ms_compare_time(c, problem, m, &ms)) b->page->out_of_memory = true;
        if (!isfinite(ms.step)) continue;
        ms_table_add(t, "%s", c->problems[problem].label);
        ms_table_add(t, "%s", c->methods[m].label);
        ms_table_number(t, "%.3f", ms.step);
        ms_table_number(t, "%.3f", ms.optim);
        ms_table_number(t, "%.1f", 100.0 * ms.optim / ms.step);
        ms_table_number(t, "%.3f", ms.step / muon.step);
        ms_table_add(t, "%zu", ms.runs);
        if (!ms_plot_drawn(c, problem, m)) continue;
        if (p == NULL) {
            p = ms_figure_panel(f, c->problems[problem].label, "", "ms per step");
            if (p == NULL) return;
            p->bars = true;
        }
        curve = ms_panel_curve(f, p, c->methods[m].label, c->methods[m].style);
        ms_curve_point(f, curve, ms_point_at(0.0, ms.step),
                       "%s: %.3g ms per step, of which the optimizer %.3g ms (%.0f %%)",
                       c->methods[m].label, ms.step, ms.optim, 100.0 * ms.optim / ms.step);
    }
}

void ms_build_step_time(ms_section_builder *b)
{
    static const char *const names[] = { "problem",     "method",    "ms per step", "optimizer ms",
                                         "optimizer %", "of Muon's", "runs" };
    ms_figure                f       = { 0 };
    ms_table                 t       = { .align = "llrrrrr" };

    if (b->options->omit_times) return;
    ms_table_names(&t, names);
    ms_figure_begin(&f, "step-time", "Time of a step",
                    "Median wall time of a training step, of each method's quickest run.");
    for (size_t p = 0; p < b->c->n_problems; p++)
        time_panel(b, p, &f, &t);
    if (ms_build_figure(b, &f))
        ms_build_notes(
            b,
            "Steps that neither validated nor measured, without the first. What else goes on in "
            "the machine adds to a time and never takes away, so of several runs the quickest "
            "tells most; methods that ran while it was busy still look slower than they are. Of a "
            "problem with runs on a CPU and on a GPU, those count that are on the kind that most "
            "of them have.");
    ms_build_table(
        b, "step-times",
        "The same as numbers, of all methods, with the optimizer's part, the ratio to Muon's step "
        "and the number of runs of which the quickest counts.",
        &t);
}
