/* section_spectra.c - norms of the weights, effective ranks of the updates, and how much the clip
 * changes, over the steps. */
#include <math.h>
#include <string.h>

#include "report/section_plots.h"

typedef struct group_quantity {      /* a figure with a panel for each group of matrices */
    const char *base, *title, *axis; /* of the figure's id, the figure, y */
    const char *description;         /* the caption up to ", at ..." */
    const char *notes;               /* or NULL */
    ms_reading  read;
    bool        y_log;
    double      rate; /* learning rate of all methods; NaN: each clipping method at its best */
    bool        or_largest; /* the largest rate if there is no run at that one, else the nearest */
    double      line;       /* y of a horizontal line, with line_label; NaN: none */
    const char *line_label;
} group_quantity;

static const ms_setting *setting_of(const ms_compare *c, size_t problem, size_t m, double lr)
{
    return isnan(lr) ? ms_compare_tuned(c, problem, m) : ms_compare_best(c, problem, m, lr);
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
    for (int i = 0; i < 2; i++)
        ms_curve_point(f, curve, ms_point_at(i == 0 ? from : to, y), NULL);
}

/* Builds the figure, unless no panel has a measurement. */
static void group_figure(ms_section_builder *b, size_t problem, const group_quantity *s)
{
    const ms_compare *c = b->c;
    char         id[MS_PLOT_ID], title[MS_PLOT_TEXT], where[64] = "at the best setting of each";
    const double lr  = isnan(s->rate) ? NAN : ms_plot_rate(c, problem, s->rate, s->or_largest);
    ms_figure    f   = { 0 };
    bool         any = false;

    if (!isnan(lr))
        snprintf(where, sizeof where, "at learning rate %g, the best setting of each", lr);
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
            if (!ms_plot_drawn(c, problem, m) || (isnan(lr) && !c->methods[m].clips)) continue;
            trace.setting = setting_of(c, problem, m, lr);
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

static const group_quantity weight_norm = {
    .base        = "weight-norm",
    .title       = "Spectral norm of the weights",
    .axis        = "largest spectral norm",
    .description = "Largest spectral norm of the weights of each group of matrices",
    .read        = MS_READ_W_NORM,
    .y_log       = true,
    .rate        = 0.2,
    .line        = NAN
};

static const group_quantity effective_rank = {
    .base        = "effective-rank",
    .title       = "Effective rank of the updates",
    .axis        = "effective rank",
    .description = "Effective rank of the updates, the mean over each group of matrices",
    .notes       = "The effective rank is the exponential of the entropy of the singular values.",
    .read        = MS_READ_U_ERANK,
    .rate        = 0.5,
    .or_largest  = true,
    .line        = NAN
};

static const group_quantity clip_activity[] = {
    { .base  = "clip-sigma",
      .title = "Largest singular value before the clip",
      .axis  = "σ1 / D",
      .description =
          "Largest singular value of the momentum over the threshold D, the largest of each "
          "group of matrices",
      .notes = "Below 1 no singular value reaches the threshold: a hard clip does nothing at all "
               "there, a soft one little, and the method is momentum SGD with another name.",
      .read  = MS_READ_SIGMA1,
      .y_log = true,
      .rate  = NAN,
      .line  = 1.0,
      .line_label = "σ1 = D" },
    { .base        = "clip-share",
      .title       = "Share of the singular values above D",
      .axis        = "share above D",
      .description = "Share of the singular values of the momentum that are clipped, the mean over "
                     "each group of matrices",
      .read        = MS_READ_SHARE,
      .rate        = NAN,
      .line        = NAN },
    { .base  = "clip-gain",
      .title = "Gain of the operator",
      .axis  = "applied / exact",
      .description =
          "Norm of the update over that of the exact operator, the mean over each group of "
          "matrices",
      .notes =
          "Frobenius norms, for the same momentum. A gain below 1 is what the iteration takes away "
          "on top of the clip: where it is small the learning rate is in effect that much smaller.",
      .read       = MS_READ_U_GAIN,
      .rate       = NAN,
      .line       = 1.0,
      .line_label = "exact" },
};

static void build(ms_section_builder *b, const group_quantity *quantities, size_t n)
{
    for (size_t p = 0; p < b->c->n_problems; p++)
        for (size_t i = 0; i < n; i++)
            if (ms_plot_shown(b->c, p)) group_figure(b, p, &quantities[i]);
    if (b->section != NULL && b->c->n_problems > MS_PLOT_MANY)
        ms_build_text(b, "Shown for the first problem of each preset.");
}

void ms_build_weight_norm(ms_section_builder *b) { build(b, &weight_norm, 1); }

void ms_build_effective_rank(ms_section_builder *b) { build(b, &effective_rank, 1); }

void ms_build_clip_activity(ms_section_builder *b)
{
    build(b, clip_activity, COUNT(clip_activity));
}
