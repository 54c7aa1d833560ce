/* panel_layout_test.c - the drawn points of long curves, the places of points and crosses. */
#include "check.h"

#include <math.h>

#include "report/panel_layout.h"

static const ms_style style = { "#000000", 0, MS_MARKER_CIRCLE };

static ms_point at(double x, double y)
{
    return (ms_point){ .x = x, .y = y, .low = NAN, .high = NAN };
}

static ms_panel_layout layout_of(const ms_panel *panel)
{
    ms_panel_layout layout;
    ms_error        e;
    CHECK_OK_ERR(&e, ms_panel_layout_make(&e, panel, &layout));
    return layout;
}

TEST(thinning_keeps_spikes_and_gaps)
{
    enum { N = 8000, SPIKE = 4321, HOLE = 6543 };
    ms_figure       f;
    ms_panel       *p;
    ms_curve       *c;
    ms_panel_layout layout;
    int             spikes = 0, holes = 0, gaps = 0;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    c = ms_panel_curve(&f, p, "a", style);
    for (int i = 0; i < N; i++) {
        ms_point point = at(i, i == SPIKE ? 10.0 : i == HOLE ? -10.0 : sin(i / 500.0));
        point.low      = point.y - (i == 100 ? 5.0 : 0.1);
        point.high     = point.y + 0.1;
        if (i >= 2000 && i < 2100) point.y = NAN; /* a gap */
        ms_curve_point(&f, c, point, NULL);
    }
    layout = layout_of(p);
    CHECK(layout.curves[0].n <= 2 * MS_COLUMNS + 2 && layout.curves[0].n > MS_COLUMNS, "%zu points",
          layout.curves[0].n);
    for (size_t i = 0; i < layout.curves[0].n; i++) {
        const ms_placed_point *s = &layout.curves[0].points[i];
        CHECK(i == 0 || s->point > layout.curves[0].points[i - 1].point, "order at %zu", i);
        spikes += s->point == SPIKE && s->v > 0.9;
        holes += s->point == HOLE && s->v < 0.1;
        gaps += isnan(s->v);
        if (!isnan(s->v)) CHECK(s->low < s->v && s->v < s->high, "the band at %zu", i);
    }
    CHECK(spikes == 1 && holes == 1 && gaps == 1, "%d %d %d", spikes, holes, gaps);
    ms_panel_layout_free(&layout);
    ms_figure_free(&f);
}

TEST(short_curves_are_not_thinned)
{
    ms_figure              f;
    ms_panel              *p;
    ms_curve              *c;
    ms_panel_layout        layout;
    const ms_placed_point *points;

    ms_figure_begin(&f, "id", "", "");
    p        = ms_figure_panel(&f, "", "", "");
    p->x_log = true;
    p->y_max = 5.0;
    c        = ms_panel_curve(&f, p, "a", style);
    ms_curve_point(&f, c, at(0.0, 1.0), NULL); /* has no logarithm: on the left edge */
    ms_curve_point(&f, c, at(0.1, 2.0), NULL);
    ms_curve_point(&f, c, at(1.0, 99.0), NULL); /* above the top: on the upper edge */
    ms_curve_point(&f, c, at(NAN, 3.0), NULL);  /* nowhere */
    ms_panel_curve(&f, p, "empty", style);
    layout = layout_of(p);
    points = layout.curves[0].points;
    CHECK(layout.curves[0].n == 3 && layout.curves[1].n == 0, "%zu points", layout.curves[0].n);
    CHECK(points[0].u == 0.0, "at %g", points[0].u);
    CHECK(points[2].v == 1.0 && points[2].above && layout.y.hi == 5.0, "at %g", points[2].v);
    CHECK(points[2].v_line > 20.0, "a line leads to 99, not to the edge: %g", points[2].v_line);
    ms_panel_layout_free(&layout);
    ms_figure_free(&f);
}

TEST(crosses_at_the_same_x_do_not_overlap)
{
    ms_figure       f;
    ms_panel       *p;
    ms_panel_layout layout;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    for (int k = 0; k < 3; k++) {
        ms_curve *c     = ms_panel_curve(&f, p, "a", style);
        ms_point  point = at(2.0, NAN);
        point.diverged  = true;
        ms_curve_point(&f, c, at(1.0, 1.0 + k), NULL);
        ms_curve_point(&f, c, point, NULL);
    }
    layout = layout_of(p);
    for (size_t k = 0; k < 3; k++) {
        const ms_placed_point *points = layout.curves[k].points;
        CHECK(points[1].diverged && points[1].v > layout.y.share && points[1].v < 1.0, "at %g",
              points[1].v);
        CHECK(points[0].v == ms_axis_place(&layout.y, 1.0 + (double)k), "values follow the axis");
        CHECK(points[0].v <= layout.y.share, "values stay below");
        CHECK(k == 0 || points[1].v < layout.curves[k - 1].points[1].v, "one below the other");
    }
    ms_panel_layout_free(&layout);
    ms_figure_free(&f);
}

/* Four rows from the top: 2, a cross, 4, and 3 from 1 to 5.  The axis reaches 5 % of 4 beyond 1 and
 * 5, left of the lane of crosses, 6 % of the width. */
TEST(rows_lie_below_one_another_with_values_along_x)
{
    static const double u[] = { 1.2 / 4.4, NAN, 3.2 / 4.4, 2.2 / 4.4 };
    ms_figure           f;
    ms_panel           *p;
    ms_panel_layout     layout;

    ms_figure_begin(&f, "id", "", "");
    p       = ms_figure_panel(&f, "", "", "steps");
    p->rows = true;
    ms_curve_point(&f, ms_panel_curve(&f, p, "a", style), at(0.0, 2.0), NULL);
    ms_curve_point(&f, ms_panel_curve(&f, p, "b", style), (ms_point){ .y = NAN, .diverged = true },
                   NULL);
    ms_curve_point(&f, ms_panel_curve(&f, p, "c", style), at(0.0, 4.0), NULL);
    ms_curve_point(&f, ms_panel_curve(&f, p, "d", style),
                   (ms_point){ .y = 3.0, .low = 1.0, .high = 5.0 }, NULL);
    layout = layout_of(p);
    CHECK(layout.y.n == 0 && layout.x.n > 0 && fabs(layout.x.share - 0.94) <= 1e-12, "axes");
    for (size_t i = 0; i < 4; i++) {
        const ms_placed_point *s = &layout.curves[i].points[0];
        CHECK(layout.curves[i].n == 1 && s->diverged == (i == 1), "row %zu", i);
        CHECK(fabs(s->v - (0.875 - 0.25 * (double)i)) <= 1e-12, "row %zu at %g", i, s->v);
        CHECK(fabs(s->u - (i == 1 ? 0.97 : 0.94 * u[i])) <= 1e-12, "row %zu at %g", i, s->u);
    }
    CHECK(fabs(layout.curves[3].points[0].low - 0.94 * 0.2 / 4.4) <= 1e-12 &&
              fabs(layout.curves[3].points[0].high - 0.94 * 4.2 / 4.4) <= 1e-12,
          "%g to %g", layout.curves[3].points[0].low, layout.curves[3].points[0].high);
    CHECK(isnan(layout.curves[0].points[0].low), "no interval");
    ms_panel_layout_free(&layout);
    ms_figure_free(&f);
}
