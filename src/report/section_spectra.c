/* section_spectra.c - what happens to the matrices: norms of the weights, effective ranks of the
 * updates, and whether the clip has anything to clip. */
#include <math.h>
#include <string.h>

#include "report/section_plots.h"

typedef struct group_quantity {      /* one quantity, a panel for each group of matrices */
    const char *base, *title, *axis; /* of the figure's id, of the figure, of y */
    const char *description;         /* of the caption, up to ", at ..." */
    const char *notes;               /* to unfold; or NULL */
    ms_reading *read;
    bool        y_log;
    double      lr;   /* of all methods; NaN: each at its best */
    double      line; /* drawn across, with line_label; NaN: none */
    const char *line_label;
} group_quantity;

static bool takes_part(const ms_compare *c, size_t problem, size_t method, const group_quantity *s)
{
    return ms_plot_drawn(c, problem, method) && (!isnan(s->lr) || c->methods[method].clips);
}

static const ms_setting *setting_of(const ms_compare *c, size_t problem, size_t m,
                                    const group_quantity *s)
{
    return isnan(s->lr) ? ms_compare_tuned(c, problem, m) : ms_compare_best(c, problem, m, s->lr);
}

static void add_line(ms_figure *f, ms_panel *p, const group_quantity *s)
{
    double       from = INFINITY, to = -INFINITY;
    ms_curve    *curve;
    const double y = s->line;

    for (size_t i = 0; p != NULL && i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++) {
            from = fmin(from, p->curves[i].at[k].x);
            to   = fmax(to, p->curves[i].at[k].x);
        }
    if (isnan(y) || !(from < to)) return;
    curve = ms_panel_curve(f, p, s->line_label, (ms_style){ .colour = "#888888", .dash = 2 });
    for (int i = 0; i < 2; i++) {
        const ms_point end = { .x = i == 0 ? from : to, .y = y, .low = NAN, .high = NAN };
        ms_curve_point(f, curve, end, NULL);
    }
}

/* Builds the figure, unless no panel has a measurement. */
static void group_figure(ms_section_builder *b, size_t problem, const group_quantity *s)
{
    const ms_compare *c = b->c;
    char      id[MS_PLOT_ID], title[MS_PLOT_TEXT], where[64] = "at the best setting of each";
    ms_figure f   = { 0 };
    bool      any = false;

    if (!isnan(s->lr))
        snprintf(where, sizeof where, "at learning rate %g, the best setting of each", s->lr);
    ms_plot_id(c, s->base, problem, id);
    snprintf(title, sizeof title, "%s: %s", s->title, c->problems[problem].label);
    ms_figure_begin(&f, id, title, "");
    for (int g = 0; g < MS_RUN_GROUPS; g++) {
        ms_panel *p = ms_figure_panel(&f, ms_plot_group_name(g), "step", s->axis);
        if (p == NULL) break;
        p->y_log = s->y_log;
        for (size_t m = 0; m < c->n_methods; m++) {
            ms_trace trace = { .read  = s->read,
                               .group = g,
                               .label = c->methods[m].label,
                               .style = c->methods[m].style };
            if (!takes_part(c, problem, m, s)) continue;
            trace.setting = setting_of(c, problem, m, s);
            any           = ms_plot_trace(b, &f, p, &trace) || any;
        }
        add_line(&f, p, s);
    }
    ms_plot_caption(c, problem, &f, "%s, %s.", s->description, where);
    if (any && ms_build_figure(b, &f)) {
        if (s->notes != NULL) ms_build_notes(b, "%s", s->notes);
        ms_plot_trace_notes(b, problem);
        ms_plot_left_out(b);
    }
    ms_figure_free(&f);
}

static void say_shown(ms_section_builder *b)
{
    if (b->section != NULL && b->c->n_problems > MS_PLOT_MANY)
        ms_build_text(b, "Shown for the first problem of each preset.");
}

void ms_build_weight_norm(ms_section_builder *b)
{
    for (size_t p = 0; p < b->c->n_problems; p++) {
        const group_quantity s = {
            .base        = "weight-norm",
            .title       = "Spectral norm of the weights",
            .axis        = "largest spectral norm",
            .description = "Largest spectral norm of the weights of each group of matrices",
            .read        = ms_read_w_norm,
            .y_log       = true,
            .lr          = ms_plot_rate(b->c, p, 0.2, false),
            .line        = NAN
        };
        if (ms_plot_shown(b->c, p)) group_figure(b, p, &s);
    }
    say_shown(b);
}

void ms_build_effective_rank(ms_section_builder *b)
{
    for (size_t p = 0; p < b->c->n_problems; p++) {
        const group_quantity s = {
            .base        = "effective-rank",
            .title       = "Effective rank of the updates",
            .axis        = "effective rank",
            .description = "Effective rank of the updates, the mean over each group of matrices",
            .notes = "The effective rank is the exponential of the entropy of the singular values.",
            .read  = ms_read_u_erank,
            .lr    = ms_plot_rate(b->c, p, 0.5, true),
            .line  = NAN
        };
        if (ms_plot_shown(b->c, p)) group_figure(b, p, &s);
    }
    say_shown(b);
}

void ms_build_clip_activity(ms_section_builder *b)
{
    static const group_quantity subjects[] = {
        { .base  = "clip-sigma",
          .title = "Largest singular value before the clip",
          .axis  = "σ1 / D",
          .description =
              "Largest singular value of the momentum over the threshold D, the largest of each "
              "group of matrices",
          .notes =
              "Below 1 no singular value reaches the threshold: a hard clip does nothing at all "
              "there, a soft one little, and the method is momentum SGD with another name.",
          .read       = ms_read_sigma1,
          .y_log      = true,
          .lr         = NAN,
          .line       = 1.0,
          .line_label = "σ1 = D" },
        { .base  = "clip-share",
          .title = "Share of the singular values above D",
          .axis  = "share above D",
          .description =
              "Share of the singular values of the momentum that are clipped, the mean over "
              "each group of matrices",
          .read = ms_read_share,
          .lr   = NAN,
          .line = NAN },
        { .base  = "clip-gain",
          .title = "Gain of the operator",
          .axis  = "applied / exact",
          .description =
              "Norm of the update over that of the exact operator, the mean over each group of "
              "matrices",
          .notes =
              "Frobenius norms, for the same momentum. A gain below 1 is what the iteration "
              "takes away on top of the clip: where it is small the learning rate is in effect "
              "that much smaller.",
          .read       = ms_read_u_gain,
          .lr         = NAN,
          .line       = 1.0,
          .line_label = "exact" },
    };
    for (size_t p = 0; p < b->c->n_problems; p++)
        for (size_t i = 0; i < COUNT(subjects); i++)
            if (ms_plot_shown(b->c, p)) group_figure(b, p, &subjects[i]);
    say_shown(b);
}
