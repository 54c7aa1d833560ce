/* section_progress.c - learning rate, speed and attention logits over the steps, with a curve for
 * each run, on pages of a few runs. */
#include <math.h>
#include <string.h>

#include "report/section_plots.h"

enum { MAX_RUNS = 6 };

typedef struct run_quantity {
    const char *title, *axis;
    ms_reading  read;
    bool        y_log;
} run_quantity;

static void add_panel(ms_section_builder *b, const run_quantity *s, ms_figure *f)
{
    const ms_runset *set = b->c->set;
    ms_panel        *p   = ms_figure_panel(f, s->title, "step", s->axis);

    if (p == NULL) return;
    p->y_log = s->y_log;
    for (size_t i = 0; i < set->n; i++) {
        const ms_run    *run   = &set->at[i];
        const ms_setting one   = { .runs = &run, .n = 1 };
        const ms_trace   trace = { .setting = &one,
                                   .read    = s->read,
                                   .label   = ms_plot_run_name(run),
                                   .style   = set->n == 1 ? ms_style_of(run->optimizer)
                                                          : ms_style_step(i, set->n) };
        ms_plot_trace(b, f, p, &trace);
    }
}

void ms_build_progress(ms_section_builder *b)
{
    static const run_quantity quantities[] = {
        { "learning rate", "learning rate", MS_READ_LR, false },
        { "largest attention logit", "largest logit", MS_READ_MAX_LOGIT, true },
        { "speed", "tokens per second", MS_READ_TOK_S, false }, /* last: it is a time */
    };
    const size_t n         = COUNT(quantities) - (b->options->omit_times ? 1 : 0);
    bool         has_steps = false;
    ms_figure    f         = { 0 };

    for (size_t i = 0; i < b->c->set->n; i++)
        has_steps = has_steps || b->c->set->at[i].n >= 2;
    if (b->c->set->n > MAX_RUNS || !has_steps) return;
    ms_figure_begin(&f, "progress", "Learning rate, logits and speed over the steps", "");
    for (size_t i = 0; i < n; i++)
        add_panel(b, &quantities[i], &f);
    ms_plot_caption(NULL, 0, &f, "As the log of each run has them, step by step.");
    if (!ms_build_figure(b, &f)) return;
    ms_build_notes(b,
                   "The learning rate is that of the schedule, before the factors of groups. The "
                   "logit is the largest of all heads and layers on the batch of the step. A step "
                   "that validates or measures takes longer: there the speed is lower.");
}
