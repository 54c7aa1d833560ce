/* figure.h - what a plot shows, before anyone draws it.
 *
 * A figure is a row of panels (small multiples) with one legend; a panel has axes and curves; a
 * curve has points in the order of x.  A point may have a band over seeds and may stand for a run
 * that diverged: it has no y then, and is drawn as a cross on the panel's upper edge, so that
 * nothing is dropped in silence; a value that an axis cannot show (0 on a logarithmic one) is drawn
 * at its edge.  Every point carries the words that the page shows when it is pointed at.
 * Building never fails by itself: without memory `lost` is set, and drawing says so. */
#ifndef MS_REPORT_FIGURE_H
#define MS_REPORT_FIGURE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/optimizers.h"
#include "core/status.h"

typedef struct ms_point {
    double x, y;      /* y NaN: a gap, or diverged */
    double low, high; /* of the seeds; NaN: no band */
    bool   diverged;
    char  *tip;     /* owned; NULL: "Muon: step 20, 3.1" is made of label, axis and numbers */
    size_t lost;    /* runs of it that diverged, for the CSV; 0 where they were not counted */
    bool   beside;  /* a cross for the `lost` of a point with a y: the CSV has them there */
    size_t stalled; /* runs of it that stalled: its y is of them, too */
} ms_point;

enum { MS_DASHES = 7 };

typedef struct ms_style {
    const char *colour; /* "#0072b2" */
    int         dash;   /* 0 solid, 1 dashed, 2 dotted, 3 dash-dot, and more: below MS_DASHES */
    int         marker; /* MS_MARKER_... */
} ms_style;

typedef struct ms_curve {
    char     *label; /* owned; curves of one label share an entry of the legend */
    ms_style  style;
    ms_point *at;
    size_t    n, room;
} ms_curve;

typedef struct ms_panel {
    char     *title, *x_label, *y_label; /* owned; title may be "" */
    bool      x_log, y_log;
    bool      bars;   /* one bar per curve (its first point's y) instead of lines */
    double    y_top;  /* values above it are outside: lines lead there; NaN: no limit */
    double    x_rule; /* a vertical line with rule_label, such as a change of stage; NaN: none */
    char     *rule_label;
    ms_curve *curves;
    size_t    n, room;
} ms_panel;

typedef struct ms_figure { /* { 0 } is empty */
    char     *id;          /* "loss-lr": names its files and its place in the page */
    char     *title, *caption;
    ms_panel *panels;
    size_t    n, room;
    bool      lost;
} ms_figure;

void ms_figure_begin(ms_figure *f, const char *id, const char *title, const char *caption);
/* Another caption, once it is known what is drawn; printf. */
void ms_figure_caption(ms_figure *f, const char *fmt, ...) MS_PRINTF(2, 3);
/* Pointers returned here hold until the next panel (curve) is added; NULL when there is no memory:
 * all functions below accept it. */
ms_panel *ms_figure_panel(ms_figure *f, const char *title, const char *x_label,
                          const char *y_label);
ms_curve *ms_panel_curve(ms_figure *f, ms_panel *p, const char *label, ms_style style);
/* tip: printf; NULL: none of its own. */
void ms_curve_point(ms_figure *f, ms_curve *c, ms_point point, const char *tip, ...)
    MS_PRINTF(4, 5);
/* In curves of their own, a cross above each point with a y of which some runs were lost, and a
 * grey square upon each of which runs stalled, named so in the legend. */
void ms_panel_crosses(ms_figure *f, ms_panel *p);
void ms_panel_rule(ms_figure *f, ms_panel *p, double x, const char *words);
/* Is this curve the first of the figure with its label?  The legend has one entry for each label;
 * its style has a marker if one of the curves has. */
bool ms_figure_legend_entry(const ms_figure *f, size_t panel, size_t curve, ms_style *style);
void ms_figure_free(ms_figure *f);

/* The style of an optimizer by its name in the registry; that of an unknown one is grey.  The
 * palette is safe for the color-blind and readable on white and on black. */
ms_style ms_style_of(const char *optimizer);
ms_style ms_style_stalled(void); /* upon points of runs that stalled */
/* That of a variant or control: the same colour and mark, dashes of its own; number 1, 2, ... */
ms_style ms_style_variant(ms_style style, size_t number);
/* A sequence for ordered values (thresholds, iterations): number `index` of `n`. */
ms_style ms_style_step(size_t index, size_t n);

#endif
