/* plan.h - where everything of a panel lies, before it is drawn.
 *
 * Places are shares of the panel's box, from its lower left corner.  Curves are thinned to what the
 * pixels can show: of all points in a column the lowest and the highest stay, so that a spike of
 * one step is still there. */
#ifndef MS_REPORT_PLAN_H
#define MS_REPORT_PLAN_H

#include "report/axis.h"
#include "report/figure.h"

enum { MS_COLUMNS = 300 }; /* a curve of more than twice as many points is thinned */

typedef struct ms_spot {
    double u, v;      /* place; v NaN: a gap */
    double rise;      /* v as it would be without the panel's top */
    double low, high; /* of the band, without the panel's top; NaN: none */
    size_t point;     /* which of the curve's */
    bool   diverged;
    bool   above; /* its value is above the panel's top: it stands at the edge */
} ms_spot;

typedef struct ms_spots { /* a curve's spots */
    ms_spot *at;
    size_t   n;
} ms_spots;

/* A curve's line.  It ends where it crosses the upper edge of the axis's share, and begins anew
 * where it comes back: a value above the panel is no point of it. */
typedef struct ms_path {
    struct {
        double u, v; /* v NaN: the line is broken here */
    } * at;
    size_t n;
} ms_path;

/* What gnuplot is asked to plot, one after the other. */
typedef enum ms_layer_kind {
    MS_LAYER_BAND, /* over the seeds */
    MS_LAYER_LINE,
    MS_LAYER_DOTS,  /* marks; where the curve has none, points without a neighbour */
    MS_LAYER_ABOVE, /* instead of marks: values above the panel's top */
    MS_LAYER_BAR,
    MS_LAYER_REACH, /* over the seeds, of a bar or where no neighbour has a band */
    MS_LAYER_LOST,  /* crosses for what diverged */
} ms_layer_kind;

typedef struct ms_layer {
    ms_layer_kind kind;
    size_t        curve;
} ms_layer;

typedef struct ms_plan { /* { 0 } is empty */
    const ms_panel *panel;
    ms_axis         x, y;
    ms_spots       *spots; /* one per curve */
    ms_path        *paths; /* likewise */
    size_t          n_curves;
    ms_layer       *layers;
    size_t          n_layers;
} ms_plan;

musec_status ms_plan_make(ms_error *e, const ms_panel *panel, ms_plan *plan);
void         ms_plan_free(ms_plan *plan);

/* Is spot i of its curve a part of this layer?  A line is not made of spots: it has a path. */
bool ms_plan_shows(const ms_plan *plan, const ms_layer *layer, size_t i);

#endif
