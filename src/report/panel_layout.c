/* panel_layout.c - axis ranges, thinning, and the lane of crosses at the upper edge.
 *
 * Crosses of runs that diverged at the same x would cover each other: they stand below one another
 * in a lane above the values. */
#include "report/panel_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"

/* Shares of the plot area's height (NEAR: of its width). */
#define CROSS       0.055 /* from one cross to the one below it */
#define LANE_MARGIN 0.035 /* above the first cross, and below the last */
#define LANE_MAX    0.45
#define NEAR        0.025 /* crosses closer than this stand below one another */
#define ROW_LANE    0.06  /* of the width, right of the values of rows, for their crosses */

/* ---- ranges ---------------------------------------------------------------------------------- */

static double below_top(const ms_panel *p, double y) { return y > p->y_max ? p->y_max : y; }

/* Rows have their values along the x axis, and names instead of numbers beside them. */
static void make_row_axes(ms_panel_layout *layout)
{
    const ms_panel *p     = layout->panel;
    ms_axis_range   x     = { 0 };
    bool            cross = false;

    for (size_t i = 0; i < p->n; i++) {
        const ms_point *at = p->curves[i].at;
        if (p->curves[i].n == 0) continue;
        cross = cross || at->diverged;
        if (at->diverged) continue;
        ms_axis_range_add(&x, p->x_log, at->y);
        ms_axis_range_add(&x, p->x_log, at->low);
        ms_axis_range_add(&x, p->x_log, at->high);
    }
    if (isfinite(p->x_rule)) ms_axis_range_add(&x, p->x_log, p->x_rule);
    ms_axis_make(&layout->x, p->x_log, x, 0.05, 0.05, cross ? 1.0 - ROW_LANE : 1.0);
    ms_axis_make(&layout->y, false, (ms_axis_range){ .hi = (double)p->n, .any = true }, 0.0, 0.0,
                 1.0);
    layout->y.n = 0;
}

static void make_axes(ms_panel_layout *layout, double lane)
{
    const ms_panel *p = layout->panel;
    ms_axis_range   x = { 0 }, y = { 0 };
    bool            cut = false; /* is a value above y_max? */

    if (p->rows) {
        make_row_axes(layout);
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < (p->bars && p->curves[i].n > 1 ? 1 : p->curves[i].n); k++) {
            const ms_point *at = &p->curves[i].at[k];
            ms_axis_range_add(&x, p->x_log, at->x);
            if (at->diverged) continue;
            ms_axis_range_add(&y, p->y_log, below_top(p, at->y));
            ms_axis_range_add(&y, p->y_log, below_top(p, at->low));
            ms_axis_range_add(&y, p->y_log, below_top(p, at->high));
            cut = cut || at->y > p->y_max;
        }
    if (isfinite(p->x_rule)) ms_axis_range_add(&x, p->x_log, p->x_rule);
    if (p->bars) {
        if (!p->y_log && y.any) ms_axis_range_add(&y, false, 0.0);
        x = (ms_axis_range){ .lo = 0.0, .hi = (double)p->n, .any = true };
        ms_axis_make(&layout->x, false, x, 0.0, 0.0, 1.0);
        layout->x.n = 0; /* bars have names, not numbers */
        ms_axis_make(&layout->y, p->y_log, y, p->y_log ? 0.1 : 0.0, 0.14, 1.0 - lane);
        return;
    }
    ms_axis_make(&layout->x, p->x_log, x, 0.03, 0.03, 1.0);
    ms_axis_make(&layout->y, p->y_log, y, 0.05, cut ? 0.0 : 0.05, 1.0 - lane);
}

/* ---- points ---------------------------------------------------------------------------------- */

static ms_placed_point place_row(const ms_panel_layout *layout, size_t curve)
{
    const ms_point *at = &layout->panel->curves[curve].at[0];
    ms_placed_point s  = { .diverged = at->diverged, .low = NAN, .high = NAN };

    s.u = at->diverged ? 1.0 - 0.5 * ROW_LANE : ms_axis_place(&layout->x, at->y);
    s.v = s.v_line = 1.0 - ((double)curve + 0.5) / (double)layout->panel->n;
    if (at->diverged || isnan(at->low) || isnan(at->high)) return s;
    s.low  = ms_axis_place(&layout->x, at->low);
    s.high = ms_axis_place(&layout->x, at->high);
    return s;
}

static ms_placed_point place_point(const ms_panel_layout *layout, size_t curve, size_t point)
{
    const ms_point *at = &layout->panel->curves[curve].at[point];
    ms_placed_point s  = { .point = point, .diverged = at->diverged };

    if (layout->panel->rows) return place_row(layout, curve);
    s.above = !at->diverged && at->y > layout->panel->y_max;

    s.u      = layout->panel->bars ? ((double)curve + 0.5) / (double)layout->panel->n
                                   : ms_axis_place(&layout->x, at->x);
    s.v      = at->diverged ? NAN : ms_axis_place(&layout->y, at->y);
    s.v_line = at->diverged ? NAN : s.above ? ms_axis_reach(&layout->y, at->y) : s.v;
    s.low    = at->diverged ? NAN : ms_axis_reach(&layout->y, at->low);
    s.high   = at->diverged ? NAN : ms_axis_reach(&layout->y, at->high);
    if (isnan(s.low) || isnan(s.high)) s.low = s.high = NAN;
    return s;
}

typedef struct pixel_column { /* the extremes of the points in one column of pixels */
    size_t          number;
    ms_placed_point lowest, highest;
    bool            any;
} pixel_column;

static void column_flush(pixel_column *c, ms_placed_curve *out)
{
    const bool             rises = c->lowest.point < c->highest.point;
    const ms_placed_point *one   = rises ? &c->lowest : &c->highest,
                          *two   = rises ? &c->highest : &c->lowest;
    const double low = c->lowest.low, high = c->highest.high;

    if (!c->any) return;
    out->points[out->n++] = *one;
    if (two->point != one->point) out->points[out->n++] = *two;
    for (size_t i = 1; i <= (two->point != one->point ? 2 : 1); i++) {
        out->points[out->n - i].low  = low; /* the band of the whole column */
        out->points[out->n - i].high = high;
    }
    c->any = false;
}

static void column_add(pixel_column *c, ms_placed_point s)
{
    if (!c->any) {
        c->lowest = c->highest = s;
        c->any                 = true;
        return;
    }
    s.low  = fmin(c->lowest.low, s.low);
    s.high = fmax(c->highest.high, s.high);
    if (s.v_line < c->lowest.v_line)
        c->lowest = s;
    else
        c->lowest.low = s.low;
    if (s.v_line > c->highest.v_line)
        c->highest = s;
    else
        c->highest.high = s.high;
}

/* Keeps two points and one cross of each column, and the gaps. */
static void thin(const ms_panel_layout *layout, size_t curve, ms_placed_curve *out)
{
    const ms_curve *c       = &layout->panel->curves[curve];
    pixel_column    now     = { 0 };
    size_t          crossed = SIZE_MAX; /* column of the last cross */

    for (size_t i = 0; i < c->n; i++) {
        const ms_placed_point s = place_point(layout, curve, i);
        size_t                number;
        if (isnan(s.u)) continue;
        number = (size_t)(s.u * (MS_COLUMNS - 1) + 0.5);
        if (isnan(s.v)) {
            const bool gap = out->n == 0 || !isnan(out->points[out->n - 1].v) || now.any;
            column_flush(&now, out);
            if (s.diverged ? number != crossed : gap) out->points[out->n++] = s;
            if (s.diverged) crossed = number;
            continue;
        }
        if (now.any && now.number != number) column_flush(&now, out);
        now.number = number;
        column_add(&now, s);
    }
    column_flush(&now, out);
}

static musec_status place_curve(ms_error *e, ms_panel_layout *layout, size_t curve)
{
    ms_placed_curve *out   = &layout->curves[curve];
    const ms_curve  *c     = &layout->panel->curves[curve];
    const bool       one   = layout->panel->bars || layout->panel->rows;
    const size_t     n     = one && c->n > 1 ? 1 : c->n;
    size_t           bytes = 0;

    if (n == 0) return MUSEC_OK;
    if (ms_size_mul(n, sizeof *out->points, &bytes)) out->points = malloc(bytes);
    if (out->points == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory to draw a curve");
    if (n > 2 * MS_COLUMNS) {
        thin(layout, curve, out);
        return MUSEC_OK;
    }
    for (size_t i = 0; i < n; i++) {
        out->points[out->n] = place_point(layout, curve, i);
        if (!isnan(out->points[out->n].u)) out->n++;
    }
    return MUSEC_OK;
}

/* ---- the lane of diverged runs --------------------------------------------------------------- */

/* Counts the crosses of earlier curves at this u, one for each curve. */
static size_t crosses_above(const ms_panel_layout *layout, size_t curve, double u)
{
    size_t n = 0;
    for (size_t i = 0; i < curve; i++)
        for (size_t k = 0; k < layout->curves[i].n; k++) {
            const ms_placed_point *p = &layout->curves[i].points[k];
            if (!p->diverged || !(fabs(p->u - u) < NEAR)) continue;
            n++;
            break;
        }
    return n;
}

/* Places the crosses from the upper edge down and returns the height that they need. */
static double place_crosses(ms_panel_layout *layout)
{
    size_t rows = 0;

    for (size_t i = 0; i < layout->n; i++)
        for (size_t k = 0; k < layout->curves[i].n; k++) {
            ms_placed_point *p = &layout->curves[i].points[k];
            size_t           above;
            if (!p->diverged) continue;
            above = crosses_above(layout, i, p->u);
            if (above + 1 > rows) rows = above + 1;
            p->v = fmax(1.0 - LANE_MARGIN - CROSS * (double)above, 1.0 - LANE_MAX);
        }
    return rows == 0 ? 0.0 : fmin(LANE_MAX, 2.0 * LANE_MARGIN + CROSS * (double)(rows - 1));
}

/* Shrinks the axis and all values to leave a lane above them. */
static void make_lane(ms_panel_layout *layout, double lane)
{
    make_axes(layout, lane);
    for (size_t i = 0; i < layout->n; i++)
        for (size_t k = 0; k < layout->curves[i].n; k++) {
            ms_placed_point *p = &layout->curves[i].points[k];
            if (p->diverged) continue;
            p->v *= layout->y.share;
            p->v_line *= layout->y.share;
            p->low *= layout->y.share;
            p->high *= layout->y.share;
        }
}

/* ---- panels and figures ---------------------------------------------------------------------- */

musec_status ms_panel_layout_make(ms_error *e, const ms_panel *panel, ms_panel_layout *out)
{
    double       lane;
    musec_status st = MUSEC_OK;

    *out = (ms_panel_layout){ .panel = panel };
    make_axes(out, 0.0);
    out->curves = calloc(panel->n + 1, sizeof *out->curves);
    if (out->curves == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory to draw a panel");
    out->n = panel->n;
    for (size_t i = 0; i < out->n; i++)
        TRY(place_curve(e, out, i));
    lane = panel->rows ? 0.0 : place_crosses(out);
    if (lane > 0.0) make_lane(out, lane);
done:
    if (st != MUSEC_OK) ms_panel_layout_free(out);
    return st;
}

void ms_panel_layout_free(ms_panel_layout *layout)
{
    for (size_t i = 0; i < layout->n; i++)
        free(layout->curves[i].points);
    free(layout->curves);
    *layout = (ms_panel_layout){ 0 };
}

musec_status ms_figure_layout_make(ms_error *e, const ms_figure *figure, ms_figure_layout *out)
{
    musec_status st = MUSEC_OK;

    *out = (ms_figure_layout){ .figure = figure,
                               .panels = calloc(figure->n + 1, sizeof *out->panels) };
    if (figure->out_of_memory || out->panels == NULL) {
        st = ms_fail(e, MUSEC_ENOMEM, "not enough memory for the figure %s",
                     figure->id == NULL ? "" : figure->id);
        goto done;
    }
    for (size_t i = 0; i < figure->n; i++)
        TRY(ms_panel_layout_make(e, &figure->panels[i], &out->panels[i]));
done:
    if (st != MUSEC_OK) ms_figure_layout_free(out);
    return st;
}

void ms_figure_layout_free(ms_figure_layout *layout)
{
    for (size_t i = 0; layout->panels != NULL && i < layout->figure->n; i++)
        ms_panel_layout_free(&layout->panels[i]);
    free(layout->panels);
    *layout = (ms_figure_layout){ 0 };
}
