/* figure.h - the contents of a plot, before it is drawn.
 *
 * A figure is a row of panels (small multiples) with one legend; a panel has axes and curves; a
 * curve has points in ascending x.  A point may have a band over seeds.  A run that diverged is a
 * point without y, drawn as a cross at the panel's upper edge, so that no run disappears; a value
 * that an axis cannot show (0 on a logarithmic one) is drawn at its edge.  Every point has a
 * tooltip.  Functions that build a figure return no status: without memory they set
 * `out_of_memory`, and drawing the figure fails. */
#ifndef MS_REPORT_FIGURE_H
#define MS_REPORT_FIGURE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/optimizers.h"
#include "core/status.h"

typedef struct ms_point {
    double x, y;       /* y is NaN for a gap, and for a run that diverged */
    double low, high;  /* the range of the seeds; NaN: no band */
    bool   diverged;   /* every run of the point did */
    char  *tip;        /* owned; NULL: "Muon: step 20, 3.1", made of label, axis and numbers */
    size_t n_diverged; /* runs that diverged, for the CSV; 0 if they were not counted */
    bool   extra;      /* a symbol for runs that another point counts; not in the CSV */
    size_t stalled;    /* runs that stalled; y includes them */
} ms_point;

/* A point without a band. */
static inline ms_point ms_point_at(double x, double y)
{
    return (ms_point){ .x = x, .y = y, .low = NAN, .high = NAN };
}

enum { MS_DASHES = 7 };

typedef struct ms_style {
    const char *colour; /* "#0072b2" */
    int         dash;   /* 0 solid, 1 dashed, 2 dotted, 3 dash-dot, ...; below MS_DASHES */
    int         marker; /* MS_MARKER_... */
} ms_style;

typedef struct ms_curve {
    char     *label; /* owned; curves with the same label share a legend entry */
    ms_style  style;
    ms_point *at;
    size_t    n, capacity;
} ms_curve;

typedef struct ms_panel {
    char  *title, *x_label, *y_label; /* owned; title may be "" */
    bool   x_log, y_log;
    bool   bars; /* a bar for each curve (the y of its first point) instead of lines */
    bool   rows; /* a row for each curve, from the top: its label and the y of its first point, with
                     its band, along the x axis; a cross at the right for one that diverged */
    double y_max; /* upper limit of the axis; lines to values above it leave the panel; NaN: none */
    double x_rule; /* x of a vertical line with rule_label, such as a change of stage; NaN: none */
    char  *rule_label;
    ms_curve *curves;
    size_t    n, capacity;
} ms_panel;

typedef struct ms_figure { /* { 0 } is empty */
    char     *id;          /* "loss-lr": names its files and its anchor in the page */
    char     *title, *caption;
    ms_panel *panels;
    size_t    n, capacity;
    bool      out_of_memory;
} ms_figure;

void ms_figure_begin(ms_figure *f, const char *id, const char *title, const char *caption);
/* Replaces the caption. */
void ms_figure_caption(ms_figure *f, const char *fmt, ...) MS_PRINTF(2, 3);
/* The returned pointer is valid until the next panel (curve) is added.  It is NULL without memory,
 * which all functions below accept. */
ms_panel *ms_figure_panel(ms_figure *f, const char *title, const char *x_label,
                          const char *y_label);
ms_curve *ms_panel_curve(ms_figure *f, ms_panel *p, const char *label, ms_style style);
/* tip is a printf format; NULL: the tip is made of the numbers. */
void ms_curve_point(ms_figure *f, ms_curve *c, ms_point point, const char *tip, ...)
    MS_PRINTF(4, 5);
/* Adds curves of symbols: a cross for each point of which only some runs diverged, and a grey
 * square, called "stalled" in the legend, on each point with runs that stalled. */
void ms_panel_symbols(ms_figure *f, ms_panel *p);
void ms_panel_rule(ms_figure *f, ms_panel *p, double x, const char *label);
/* Is this curve the first of the figure with its label?  The legend has one entry for each label,
 * with a marker if one of the curves has one. */
bool ms_figure_legend_entry(const ms_figure *f, size_t panel, size_t curve, ms_style *style);
void ms_figure_free(ms_figure *f);

/* The style of an optimizer by its name in the registry; that of an unknown one is grey.  The
 * palette is safe for the color-blind and readable on white and on black. */
ms_style ms_style_of(const char *optimizer);
ms_style ms_style_stalled(void); /* the style of the squares for runs that stalled */
/* The style of variant (or control) 1, 2, ...: it differs in the dashes. */
ms_style ms_style_variant(ms_style style, size_t number);
/* The style number `index` of `n` ordered values, such as thresholds or iterations. */
ms_style ms_style_step(size_t index, size_t n);

#endif
