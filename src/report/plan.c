/* plan.c - ranges, thinning, lines that leave the panel, and the lane of crosses on the upper edge.
 *
 * Runs that diverged at the same x would hide each other: their crosses stand below one another in
 * a lane above the values. */
#include "report/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"

#define CROSS     0.055 /* from one cross to the one below it, of the box */
#define LANE_EDGE 0.035 /* above the first one, and below the last */
#define LANE_MOST 0.45
#define NEAR      0.025 /* crosses nearer than this stand below one another */

enum { FEW = 24 }; /* points, each with its mark */

static double smaller(double a, double b) { return b < a || isnan(a) ? b : a; }
static double larger(double a, double b) { return b > a || isnan(a) ? b : a; }

/* ---- ranges ---------------------------------------------------------------------------------- */

static double below_top(const ms_panel *p, double y) { return y > p->y_top ? p->y_top : y; }

static void make_axes(const ms_panel *p, double lane, ms_plan *plan)
{
    ms_span x = { 0 }, y = { 0 };
    bool    cut = false; /* is a value above y_top? */

    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < (p->bars && p->curves[i].n > 1 ? 1 : p->curves[i].n); k++) {
            const ms_point *at = &p->curves[i].at[k];
            ms_span_take(&x, p->x_log, at->x);
            if (at->diverged) continue;
            ms_span_take(&y, p->y_log, below_top(p, at->y));
            ms_span_take(&y, p->y_log, below_top(p, at->low));
            ms_span_take(&y, p->y_log, below_top(p, at->high));
            cut = cut || at->y > p->y_top;
        }
    if (isfinite(p->x_rule)) ms_span_take(&x, p->x_log, p->x_rule);
    if (p->bars) {
        if (!p->y_log && y.any) ms_span_take(&y, false, 0.0);
        x = (ms_span){ .lo = 0.0, .hi = (double)p->n, .any = true };
        ms_axis_make(&plan->x, false, x, 0.0, 0.0, 1.0);
        plan->x.n = 0; /* names stand there, not numbers */
        ms_axis_make(&plan->y, p->y_log, y, p->y_log ? 0.1 : 0.0, 0.14, 1.0 - lane);
        return;
    }
    ms_axis_make(&plan->x, p->x_log, x, 0.03, 0.03, 1.0);
    ms_axis_make(&plan->y, p->y_log, y, 0.05, cut ? 0.0 : 0.05, 1.0 - lane);
}

/* ---- spots ----------------------------------------------------------------------------------- */

static ms_spot spot_of(const ms_plan *plan, size_t curve, size_t point)
{
    const ms_point *at = &plan->panel->curves[curve].at[point];
    ms_spot         s  = { .point = point, .diverged = at->diverged };

    s.above = !at->diverged && at->y > plan->panel->y_top;

    s.u    = plan->panel->bars ? ((double)curve + 0.5) / (double)plan->panel->n
                               : ms_axis_place(&plan->x, at->x);
    s.v    = at->diverged ? NAN : ms_axis_place(&plan->y, at->y);
    s.rise = at->diverged ? NAN : s.above ? ms_axis_reach(&plan->y, at->y) : s.v;
    s.low  = at->diverged ? NAN : ms_axis_reach(&plan->y, at->low);
    s.high = at->diverged ? NAN : ms_axis_reach(&plan->y, at->high);
    if (isnan(s.low) || isnan(s.high)) s.low = s.high = NAN;
    return s;
}

typedef struct column { /* what is known of the points of one */
    size_t  number;
    ms_spot lowest, highest;
    bool    any;
} column;

static void put_column(column *c, ms_spots *out)
{
    const bool     rises = c->lowest.point < c->highest.point;
    const ms_spot *one = rises ? &c->lowest : &c->highest, *two = rises ? &c->highest : &c->lowest;
    const double   low = c->lowest.low, high = c->highest.high;

    if (!c->any) return;
    out->at[out->n++] = *one;
    if (two->point != one->point) out->at[out->n++] = *two;
    for (size_t i = 1; i <= (two->point != one->point ? 2 : 1); i++) {
        out->at[out->n - i].low  = low; /* the band of the whole column */
        out->at[out->n - i].high = high;
    }
    c->any = false;
}

static void take(column *c, ms_spot s)
{
    if (!c->any) {
        c->lowest = c->highest = s;
        c->any                 = true;
        return;
    }
    s.low  = smaller(c->lowest.low, s.low);
    s.high = larger(c->highest.high, s.high);
    if (s.rise < c->lowest.rise)
        c->lowest = s;
    else
        c->lowest.low = s.low;
    if (s.rise > c->highest.rise)
        c->highest = s;
    else
        c->highest.high = s.high;
}

/* Two points of each column, a gap where there is one, and one cross a column. */
static void thin(const ms_plan *plan, size_t curve, ms_spots *out)
{
    const ms_curve *c    = &plan->panel->curves[curve];
    column          now  = { 0 };
    size_t          lost = SIZE_MAX; /* column of the last cross */

    for (size_t i = 0; i < c->n; i++) {
        const ms_spot s = spot_of(plan, curve, i);
        size_t        number;
        if (isnan(s.u)) continue;
        number = (size_t)(s.u * (MS_COLUMNS - 1) + 0.5);
        if (isnan(s.v)) {
            const bool gap = out->n == 0 || !isnan(out->at[out->n - 1].v) || now.any;
            put_column(&now, out);
            if (s.diverged ? number != lost : gap) out->at[out->n++] = s;
            if (s.diverged) lost = number;
            continue;
        }
        if (now.any && now.number != number) put_column(&now, out);
        now.number = number;
        take(&now, s);
    }
    put_column(&now, out);
}

static musec_status make_spots(ms_error *e, const ms_plan *plan, size_t curve, ms_spots *out)
{
    const ms_curve *c     = &plan->panel->curves[curve];
    const size_t    n     = plan->panel->bars && c->n > 1 ? 1 : c->n;
    size_t          bytes = 0;

    if (n == 0) return MUSEC_OK;
    if (ms_size_mul(n, sizeof *out->at, &bytes)) out->at = malloc(bytes);
    if (out->at == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory to draw a curve");
    if (n > 2 * MS_COLUMNS) {
        thin(plan, curve, out);
        return MUSEC_OK;
    }
    for (size_t i = 0; i < n; i++) {
        out->at[out->n] = spot_of(plan, curve, i);
        if (!isnan(out->at[out->n].u)) out->n++;
    }
    return MUSEC_OK;
}

/* ---- crosses --------------------------------------------------------------------------------- */

/* How many crosses of earlier curves stand at this u. */
static size_t crosses_above(const ms_plan *plan, size_t curve, double u)
{
    size_t n = 0;
    for (size_t i = 0; i < curve; i++)
        for (size_t k = 0; k < plan->spots[i].n; k++)
            if (plan->spots[i].at[k].diverged && fabs(plan->spots[i].at[k].u - u) < NEAR) {
                n++;
                break; /* one of each curve */
            }
    return n;
}

/* The height of the lane, and with `place` the crosses in it. */
static double make_lane(ms_plan *plan, double lane)
{
    size_t most = 0;

    for (size_t i = 0; i < plan->n_curves; i++)
        for (size_t k = 0; k < plan->spots[i].n; k++) {
            ms_spot *s = &plan->spots[i].at[k];
            size_t   above;
            if (!s->diverged) continue;
            above = crosses_above(plan, i, s->u);
            if (above + 1 > most) most = above + 1;
            if (lane > 0.0) s->v = fmax(1.0 - LANE_EDGE - CROSS * (double)above, 1.0 - lane);
        }
    return most == 0 ? 0.0 : fmin(LANE_MOST, 2.0 * LANE_EDGE + CROSS * (double)(most - 1));
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool shown(const ms_spots *t, size_t i)
{
    return i < t->n && !t->at[i].diverged && !isnan(t->at[i].v);
}

static void add_place(ms_path *path, double u, double v)
{
    path->at[path->n].u   = u;
    path->at[path->n++].v = v;
}

/* From one spot to the next, as far as it lies below the top.  The path ends at `a` if `a` does. */
static void add_segment(ms_path *path, const ms_spot *a, const ms_spot *b, double top)
{
    const bool   leaves = b->rise > top, enters = a->rise > top;
    const double share = isinf(a->rise) ? 1.0 : (top - a->rise) / (b->rise - a->rise);
    const double u     = a->u + share * (b->u - a->u); /* where it crosses the top */

    if (leaves && enters) return;
    if (enters) {
        if (path->n > 0) add_place(path, NAN, NAN);
        add_place(path, u, top);
    }
    if (leaves)
        add_place(path, u, top);
    else
        add_place(path, b->u, b->rise);
}

static musec_status make_path(ms_error *e, const ms_plan *plan, size_t curve, ms_path *path)
{
    const ms_spots *t     = &plan->spots[curve];
    size_t          bytes = 0;

    if (plan->panel->bars || t->n < 2) return MUSEC_OK;
    if (ms_size_mul(t->n, 3 * sizeof *path->at, &bytes)) path->at = malloc(bytes);
    if (path->at == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory to draw a curve");
    for (size_t i = 1; i < t->n; i++) {
        const bool first = !shown(t, i - 2), within = !(t->at[i - 1].rise > plan->y.share);
        if (!shown(t, i - 1) || !shown(t, i)) continue;
        if (first && within) {
            if (path->n > 0) add_place(path, NAN, NAN);
            add_place(path, t->at[i - 1].u, t->at[i - 1].rise);
        }
        add_segment(path, &t->at[i - 1], &t->at[i], plan->y.share);
    }
    return MUSEC_OK;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Every one of a short curve has a mark; of a long one about ten, at other places than those of
 * its neighbours. */
static bool marked(const ms_plan *plan, size_t curve, size_t i)
{
    const size_t n     = plan->spots[curve].n;
    const size_t every = n <= FEW ? 1 : (n + 9) / 10;
    return plan->panel->curves[curve].style.mark > 0 &&
           i % every == curve * every / plan->n_curves % every;
}

static bool banded(const ms_spots *t, size_t i) { return shown(t, i) && !isnan(t->at[i].low); }

bool ms_plan_shows(const ms_plan *plan, const ms_layer *layer, size_t i)
{
    const ms_spots *t    = &plan->spots[layer->curve];
    const ms_spot  *s    = &t->at[i];
    const bool      bars = plan->panel->bars, here = shown(t, i);
    const bool      alone = !shown(t, i - 1) && !shown(t, i + 1); /* SIZE_MAX is not below n */
    const bool      band  = banded(t, i - 1) || banded(t, i + 1); /* a band needs two */
    const bool      dot   = !bars && here && (alone || marked(plan, layer->curve, i));

    switch (layer->kind) {
    case MS_LAYER_BAND: return !bars && banded(t, i) && band;
    case MS_LAYER_LINE: return false;
    case MS_LAYER_DOTS: return dot && !s->above;
    case MS_LAYER_ABOVE: return dot && s->above;
    case MS_LAYER_BAR: return bars && here;
    case MS_LAYER_REACH: return here && (bars || !band) && s->low < s->high;
    case MS_LAYER_LOST: return s->diverged;
    }
    return false;
}

static bool has_layer(const ms_plan *plan, ms_layer layer)
{
    if (layer.kind == MS_LAYER_LINE) return plan->paths[layer.curve].n > 0;
    for (size_t i = 0; i < plan->spots[layer.curve].n; i++)
        if (ms_plan_shows(plan, &layer, i)) return true;
    return false;
}

static musec_status make_layers(ms_error *e, ms_plan *plan)
{
    size_t bytes = 0;

    if (plan->n_curves == 0) return MUSEC_OK;
    if (ms_size_mul(plan->n_curves, (MS_LAYER_LOST + 1) * sizeof *plan->layers, &bytes))
        plan->layers = malloc(bytes);
    if (plan->layers == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory to draw a panel");
    for (int kind = MS_LAYER_BAND; kind <= MS_LAYER_LOST; kind++)
        for (int dashed = 0; dashed < (kind == MS_LAYER_LINE ? 2 : 1); dashed++)
            for (size_t i = plan->n_curves; i-- > 0;) { /* the first curve on top */
                const ms_layer layer = { (ms_layer_kind)kind, i };
                /* A solid line shows through the gaps of a dashed one that lies on it. */
                if (kind == MS_LAYER_LINE && (plan->panel->curves[i].style.dash > 0) != dashed)
                    continue;
                if (has_layer(plan, layer)) plan->layers[plan->n_layers++] = layer;
            }
    return MUSEC_OK;
}

static void spots_free(ms_plan *plan)
{
    for (size_t i = 0; i < plan->n_curves; i++) {
        free(plan->spots[i].at);
        free(plan->paths[i].at);
    }
    free(plan->spots);
    free(plan->paths);
    plan->spots    = NULL;
    plan->paths    = NULL;
    plan->n_curves = 0;
}

static musec_status make_all_spots(ms_error *e, ms_plan *plan, double lane)
{
    const ms_panel *p  = plan->panel;
    musec_status    st = MUSEC_OK;

    spots_free(plan);
    make_axes(p, lane, plan);
    if (p->n == 0) return MUSEC_OK;
    plan->spots = calloc(p->n, sizeof *plan->spots);
    plan->paths = calloc(p->n, sizeof *plan->paths);
    if (plan->spots == NULL || plan->paths == NULL)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory to draw a panel");
    plan->n_curves = p->n;
    for (size_t i = 0; i < p->n; i++)
        TRY(make_spots(e, plan, i, &plan->spots[i]));
done:
    return st;
}

musec_status ms_plan_make(ms_error *e, const ms_panel *panel, ms_plan *plan)
{
    double       lane;
    musec_status st;

    *plan = (ms_plan){ .panel = panel };
    TRY(make_all_spots(e, plan, 0.0)); /* shows where crosses must stand */
    lane = make_lane(plan, 0.0);
    if (lane > 0.0) {
        TRY(make_all_spots(e, plan, lane));
        make_lane(plan, lane);
    }
    for (size_t i = 0; i < plan->n_curves; i++)
        TRY(make_path(e, plan, i, &plan->paths[i]));
    TRY(make_layers(e, plan));
done:
    if (st != MUSEC_OK) ms_plan_free(plan);
    return st;
}

void ms_plan_free(ms_plan *plan)
{
    spots_free(plan);
    free(plan->layers);
    *plan = (ms_plan){ 0 };
}
