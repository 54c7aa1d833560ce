/* panel_layout.h - the positions of the points of a panel.
 *
 * Coordinates are normalized to the panel's plot area: (0, 0) is its lower left corner, (1, 1) its
 * upper right one.  Long curves are thinned to the resolution of the picture: of all points in a
 * column of pixels the lowest and the highest stay, so that a spike of one step remains visible. */
#ifndef MS_REPORT_PANEL_LAYOUT_H
#define MS_REPORT_PANEL_LAYOUT_H

#include "report/axis.h"
#include "report/figure.h"

enum { MS_COLUMNS = 300 }; /* curves of more than twice as many points are thinned */

typedef struct ms_placed_point {
    double u, v;      /* v is NaN for a gap, and at the upper edge for a value above the panel */
    double v_line;    /* v not limited to the panel, for lines that leave it */
    double low, high; /* the band of the seeds, not limited either; NaN: none.  Of a row: in u */
    size_t point;     /* index in the curve */
    bool   diverged;
    bool   above; /* the value is above the panel's upper limit */
} ms_placed_point;

typedef struct ms_placed_curve {
    ms_placed_point *points;
    size_t           n;
} ms_placed_curve;

typedef struct ms_panel_layout { /* { 0 } is empty */
    const ms_panel  *panel;
    ms_axis          x, y;
    ms_placed_curve *curves;
    size_t           n;
} ms_panel_layout;

musec_status ms_panel_layout_make(ms_error *e, const ms_panel *panel, ms_panel_layout *out);
void         ms_panel_layout_free(ms_panel_layout *layout);

typedef struct ms_figure_layout { /* { 0 } is empty */
    const ms_figure *figure;
    ms_panel_layout *panels; /* figure->n of them */
} ms_figure_layout;

musec_status ms_figure_layout_make(ms_error *e, const ms_figure *figure, ms_figure_layout *out);
void         ms_figure_layout_free(ms_figure_layout *layout);

#endif
