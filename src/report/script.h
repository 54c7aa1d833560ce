/* script.h - what gnuplot is told, and what becomes of the SVG that it writes. */
#ifndef MS_REPORT_SCRIPT_H
#define MS_REPORT_SCRIPT_H

#include <stdio.h>

#include "report/plan.h"

/* A panel's box on the canvas, in pixels from the upper left corner. */
typedef struct ms_frame {
    double width, height; /* of the canvas */
    double left, right, top, bottom;
    double cell_left, cell_top, cell_bottom; /* what the panel has, with its words */
    double font;                             /* height of the letters */
} ms_frame;

typedef struct ms_plans { /* a figure and the plans of its panels */
    const ms_figure *figure;
    ms_plan         *at; /* figure->n of them */
} ms_plans;

/* The frame that every panel of the figure has as SVG; wide: of one that stands alone, over the
 * whole width of a page on a large screen. */
ms_frame ms_frame_svg(const ms_plans *plans, bool wide);

/* Text in gnuplot's quotes: nothing in it has a meaning to gnuplot. */
void ms_script_quote(const char *text, FILE *to);
/* The numbers, then the panels into NAME-0.svg, NAME-1.svg, ..., one that is alone into NAME-0w.svg
 * as well, or all into NAME.png. */
void ms_script_data(const ms_plans *plans, const char *name, FILE *to);
void ms_script_svg(const ms_plans *plans, const char *name, FILE *to);
void ms_script_png(const ms_plans *plans, const char *name, FILE *to);

/* Is this curve the first of the figure with its label?  There is one entry in the legend for each;
 * its style has a mark if one of the curves has. */
bool ms_legend_entry(const ms_figure *f, size_t panel, size_t curve, ms_style *style);

/* svg.c: gnuplot's SVG of a panel made fit for a page, to be freed. */
musec_status ms_svg_finish(ms_error *e, const char *text, const ms_plan *plan, ms_frame frame,
                           char **out);

/* The shape of a mark within -1..1, for a path; *filled: to be filled, else drawn as a line. */
const char *ms_mark_shape(int mark, bool *filled);
/* Lengths of dashes and gaps, "8,4"; "" for a solid line. */
const char *ms_dash_lengths(int dash);

#endif
