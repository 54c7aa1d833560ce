/* svg.h - writes figures as SVG.
 *
 * A panel for a page uses the page's text colour (currentColor) and font, scales with the page, and
 * has its values for the script of the page:
 *
 *     <g class="curve line" data-label="Muon">      a layer: band, line, dots, ...
 *     <g class="points" data-label="Muon">          the points, invisible, on top
 *       <circle cx= cy= r= data-x= data-y=>         position and values
 *         <title>text</title></circle>              tooltip */
#ifndef MS_REPORT_SVG_H
#define MS_REPORT_SVG_H

#include <stdio.h>

#include "report/figure.h"
#include "report/panel_layout.h"

/* Writes one panel for a page; wide: for a large screen. */
void ms_svg_panel(const ms_figure_layout *layout, size_t panel, bool wide, FILE *to);
/* Writes a document with the title, all panels and the legend, for a picture 1800 pixels wide or
 * more. */
void ms_svg_figure(const ms_figure_layout *layout, FILE *to);

/* svg_text.c.  Lengths are in units of a canvas on which text is this high. */
#define MS_SVG_FONT 14.0
typedef struct ms_svg_label {
    double      x, y;      /* y is the middle of the letters */
    double      font;      /* 0: MS_SVG_FONT */
    const char *anchor;    /* NULL: "middle" */
    double      max_width; /* smaller letters where the text is wider; 0: no limit */
    bool        vertical, bold;
} ms_svg_label;
void ms_svg_label_put(ms_svg_label l, const char *text, FILE *to);
/* Estimates the width of a text in most fonts without serifs. */
double ms_svg_text_width(const char *text, double font);

/* styles.c.  Writes the attributes of a stroke; dash 0 is solid. */
void ms_svg_stroke(const char *colour, double width, int dash, FILE *to);
/* Write attributes of a group of markers, and one marker; strokes are in units of its radius. */
void ms_svg_marker_paint(int marker, const char *colour, FILE *to);
void ms_svg_marker(int marker, double x, double y, double radius, FILE *to);
enum { MS_SAMPLE = 32 };
/* Writes a sample of a curve for the legend, MS_SAMPLE long, from (x, y) to the right. */
void ms_svg_sample(ms_style style, bool bar, double x, double y, FILE *to);

#endif
