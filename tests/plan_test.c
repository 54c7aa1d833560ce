/* plan_test.c - what is left of a long curve, and where crosses stand. */
#include "check.h"

#include <math.h>

#include "report/plan.h"

static ms_point at(double x, double y)
{
    return (ms_point){ x, y, NAN, NAN, false, NULL, 0, false, 0 };
}

static ms_plan plan_of(const ms_panel *panel)
{
    ms_plan  plan;
    ms_error e;
    CHECK_OK_ERR(&e, ms_plan_make(&e, panel, &plan));
    return plan;
}

TEST(a_spike_survives)
{
    enum { N = 8000, SPIKE = 4321, HOLE = 6543 };
    ms_figure f;
    ms_panel *p;
    ms_curve *c;
    ms_plan   plan;
    int       spikes = 0, holes = 0, gaps = 0;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    c = ms_panel_curve(&f, p, "a", (ms_style){ "#000000", 0, 0 });
    for (int i = 0; i < N; i++) {
        ms_point point = at(i, i == SPIKE ? 10.0 : i == HOLE ? -10.0 : sin(i / 500.0));
        point.low      = point.y - (i == 100 ? 5.0 : 0.1);
        point.high     = point.y + 0.1;
        if (i >= 2000 && i < 2100) point.y = NAN; /* a gap */
        ms_curve_point(&f, c, point, NULL);
    }
    plan = plan_of(p);
    CHECK(plan.spots[0].n <= 2 * MS_COLUMNS + 2 && plan.spots[0].n > MS_COLUMNS, "%zu spots",
          plan.spots[0].n);
    for (size_t i = 0; i < plan.spots[0].n; i++) {
        const ms_spot *s = &plan.spots[0].at[i];
        CHECK(i == 0 || s->point > plan.spots[0].at[i - 1].point, "order at %zu", i);
        spikes += s->point == SPIKE && s->v > 0.9;
        holes += s->point == HOLE && s->v < 0.1;
        gaps += isnan(s->v);
        if (!isnan(s->v)) CHECK(s->low < s->v && s->v < s->high, "the band at %zu", i);
    }
    CHECK(spikes == 1 && holes == 1 && gaps == 1, "%d %d %d", spikes, holes, gaps);
    CHECK(plan.n_layers == 2 && plan.layers[0].kind == MS_LAYER_BAND, "a band below a line");
    ms_plan_free(&plan);
    ms_figure_free(&f);
}

TEST(short_curves_stay_whole)
{
    ms_figure f;
    ms_panel *p;
    ms_curve *c;
    ms_plan   plan;

    ms_figure_begin(&f, "id", "", "");
    p        = ms_figure_panel(&f, "", "", "");
    p->x_log = true;
    p->y_top = 5.0;
    c        = ms_panel_curve(&f, p, "a", (ms_style){ "#000000", 0, 7 });
    ms_curve_point(&f, c, at(0.0, 1.0), NULL); /* has no logarithm: on the left edge */
    ms_curve_point(&f, c, at(0.1, 2.0), NULL);
    ms_curve_point(&f, c, at(1.0, 99.0), NULL); /* above the top: on the upper edge */
    ms_curve_point(&f, c, at(NAN, 3.0), NULL);  /* nowhere */
    ms_panel_curve(&f, p, "empty", (ms_style){ "#000000", 0, 7 });
    plan = plan_of(p);
    CHECK(plan.spots[0].n == 3 && plan.spots[1].n == 0, "%zu spots", plan.spots[0].n);
    CHECK(plan.spots[0].at[0].u == 0.0, "at %g", plan.spots[0].at[0].u);
    CHECK(plan.spots[0].at[2].v == 1.0 && plan.y.hi == 5.0, "at %g", plan.spots[0].at[2].v);
    CHECK(plan.n_layers == 3 && plan.layers[1].kind == MS_LAYER_DOTS, "a line and its marks");
    ms_plan_free(&plan);
    ms_figure_free(&f);
}

TEST(crosses_do_not_hide_each_other)
{
    ms_figure f;
    ms_panel *p;
    ms_plan   plan;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    for (int k = 0; k < 3; k++) {
        ms_curve *c = ms_panel_curve(&f, p, "a", (ms_style){ "#000000", 0, 7 });
        ms_curve_point(&f, c, at(1.0, 1.0 + k), NULL);
        ms_curve_point(&f, c, (ms_point){ 2.0, NAN, NAN, NAN, true, NULL, 0, false, 0 }, NULL);
    }
    plan = plan_of(p);
    for (size_t k = 0; k < 3; k++) {
        const ms_spot *cross = &plan.spots[k].at[1];
        CHECK(cross->diverged && cross->v > plan.y.share && cross->v < 1.0, "at %g", cross->v);
        CHECK(plan.spots[k].at[0].v <= plan.y.share, "values stay below");
        CHECK(k == 0 || cross->v < plan.spots[k - 1].at[1].v, "one below the other");
    }
    ms_plan_free(&plan);
    ms_figure_free(&f);
}

/* What lies above the top stands at the edge with a mark of its own, alone or on a line. */
TEST(values_above_the_top_are_marked)
{
    ms_figure f;
    ms_panel *p;
    ms_curve *c;
    ms_plan   plan;
    size_t    above = 0, dots = 0;

    ms_figure_begin(&f, "id", "", "");
    p        = ms_figure_panel(&f, "", "", "");
    p->y_top = 2.0;
    c        = ms_panel_curve(&f, p, "a", (ms_style){ "#000000", 0, 7 });
    ms_curve_point(&f, c, at(1.0, 1.0), NULL);
    ms_curve_point(&f, c, at(2.0, 2.0), NULL);
    ms_curve_point(&f, c, at(3.0, 9.0), NULL);
    c = ms_panel_curve(&f, p, "b", (ms_style){ "#000000", 0, 7 });
    ms_curve_point(&f, c, at(1.0, 9.0), NULL);
    plan = plan_of(p);
    for (size_t k = 0; k < plan.n_layers; k++)
        for (size_t i = 0; i < plan.spots[plan.layers[k].curve].n; i++) {
            if (!ms_plan_shows(&plan, &plan.layers[k], i)) continue;
            above += plan.layers[k].kind == MS_LAYER_ABOVE;
            dots += plan.layers[k].kind == MS_LAYER_DOTS;
        }
    CHECK(above == 2 && dots == 2, "%zu above, %zu below", above, dots);
    CHECK(plan.spots[0].at[2].v == plan.spots[0].at[1].v, "at the edge");
    ms_plan_free(&plan);
    ms_figure_free(&f);
}

/* The top is 2.  From (1, 1) to (2, 3) the line crosses it at x = 1.5, from (3, 5) back to (4, 1)
 * at x = 3.75; between them there is nothing, and no point of the line lies on the edge but those.
 * To and from an infinite value it goes straight up. */
TEST(lines_leave_the_panel)
{
    static const double y[] = { 1.0, 3.0, 5.0, 1.0, INFINITY, 1.0, NAN, 9.0, 9.0, 1.5 };
    /* x of the places of the line, in their order; a gap is 0 */
    static const double want[] = {
        1.0, 1.5, 0.0, 3.75, 4.0, 4.0, 0.0, 6.0, 6.0, 0.0, 9.0 + 7.0 / 7.5, 10.0
    };
    ms_figure f;
    ms_panel *p;
    ms_curve *c;
    ms_plan   plan;

    ms_figure_begin(&f, "id", "", "");
    p        = ms_figure_panel(&f, "", "", "");
    p->y_top = 2.0;
    c        = ms_panel_curve(&f, p, "a", (ms_style){ "#000000", 0, 0 });
    for (size_t i = 0; i < COUNT(y); i++)
        ms_curve_point(&f, c, at((double)i + 1.0, y[i]), NULL);
    c = ms_panel_curve(&f, p, "all above", (ms_style){ "#000000", 0, 0 });
    ms_curve_point(&f, c, at(1.0, 3.0), NULL);
    ms_curve_point(&f, c, at(2.0, 4.0), NULL);
    plan = plan_of(p);
    CHECK(plan.paths[0].n == COUNT(want), "%zu places", plan.paths[0].n);
    for (size_t i = 0; i < COUNT(want); i++) {
        const double u = plan.paths[0].at[i].u, v = plan.paths[0].at[i].v;
        CHECK(isnan(v) == (want[i] == 0.0), "a gap at %zu", i);
        if (isnan(v)) continue;
        CHECK(fabs(u - ms_axis_place(&plan.x, want[i])) <= 1e-12, "%zu: %g", i, u);
        CHECK(v <= plan.y.share, "%zu: %g is outside", i, v);
        CHECK((v == plan.y.share) == (i == 1 || i == 3 || i == 5 || i == 7 || i == 10), "%zu: %g",
              i, v);
    }
    CHECK(plan.paths[1].n == 0, "%zu places of a line that is not there", plan.paths[1].n);
    for (size_t k = 0; k < plan.n_layers; k++)
        CHECK(plan.layers[k].kind != MS_LAYER_LINE || plan.layers[k].curve == 0, "no empty layer");
    ms_plan_free(&plan);
    ms_figure_free(&f);
}

/* Where two lines lie on each other, the dashed one is drawn later: the other shows in its gaps. */
TEST(dashed_lines_lie_on_solid_ones)
{
    ms_figure f;
    ms_panel *p;
    ms_plan   plan;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    for (int k = 0; k < 3; k++) {
        ms_curve *c = ms_panel_curve(&f, p, "a", (ms_style){ "#000000", k == 1 ? 3 : 0, 0 });
        ms_curve_point(&f, c, at(1.0, 1.0), NULL);
        ms_curve_point(&f, c, at(2.0, 2.0), NULL);
    }
    plan = plan_of(p);
    CHECK(plan.n_layers == 3 && plan.layers[0].curve == 2 && plan.layers[1].curve == 0 &&
              plan.layers[2].curve == 1,
          "%zu %zu %zu", plan.layers[0].curve, plan.layers[1].curve, plan.layers[2].curve);
    ms_plan_free(&plan);
    ms_figure_free(&f);
}

/* One point of a line with several seeds has no neighbour to fill up to. */
TEST(a_lone_band_is_a_stroke)
{
    ms_figure f;
    ms_panel *p;
    ms_curve *c;
    ms_plan   plan;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    c = ms_panel_curve(&f, p, "a", (ms_style){ "#000000", 0, 0 });
    ms_curve_point(&f, c, at(1.0, 1.0), NULL);
    ms_curve_point(&f, c, (ms_point){ .x = 2.0, .y = 2.0, .low = 1.5, .high = 2.5 }, NULL);
    ms_curve_point(&f, c, at(3.0, 1.0), NULL);
    plan = plan_of(p);
    CHECK(plan.n_layers == 2 && plan.layers[0].kind == MS_LAYER_LINE &&
              plan.layers[1].kind == MS_LAYER_REACH,
          "%zu layers", plan.n_layers);
    ms_plan_free(&plan);
    ms_figure_free(&f);
}
