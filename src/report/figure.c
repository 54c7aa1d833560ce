/* figure.c - builds figures: panels, curves, points and symbols. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "report/figure.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/text.h"

static char *copy(ms_figure *f, const char *text)
{
    char *own = strdup(text);
    if (own == NULL) f->out_of_memory = true;
    return own;
}

/* Grows a list by one element; NULL without memory, which the figure records. */
static void *one_more(ms_figure *f, void *at, size_t n, size_t *capacity, size_t each)
{
    void *more = ms_grow(at, n, capacity, each);
    if (more == NULL) f->out_of_memory = true;
    return more;
}

void ms_figure_begin(ms_figure *f, const char *id, const char *title, const char *caption)
{
    *f         = (ms_figure){ 0 };
    f->id      = copy(f, id);
    f->title   = copy(f, title);
    f->caption = copy(f, caption);
}

void ms_figure_caption(ms_figure *f, const char *fmt, ...)
{
    va_list args;

    free(f->caption);
    va_start(args, fmt);
    f->caption = ms_text_format(fmt, args);
    va_end(args);
    if (f->caption == NULL) f->out_of_memory = true;
}

ms_panel *ms_figure_panel(ms_figure *f, const char *title, const char *x_label, const char *y_label)
{
    ms_panel *more = one_more(f, f->panels, f->n, &f->capacity, sizeof *f->panels);
    ms_panel *p;

    if (more == NULL) return NULL;
    f->panels  = more;
    p          = &more[f->n++];
    *p         = (ms_panel){ .y_max = NAN, .x_rule = NAN };
    p->title   = copy(f, title);
    p->x_label = copy(f, x_label);
    p->y_label = copy(f, y_label);
    return p;
}

ms_curve *ms_panel_curve(ms_figure *f, ms_panel *p, const char *label, ms_style style)
{
    ms_curve *more, *c;

    if (p == NULL) return NULL;
    more = one_more(f, p->curves, p->n, &p->capacity, sizeof *p->curves);
    if (more == NULL) return NULL;
    p->curves = more;
    c         = &more[p->n++];
    *c        = (ms_curve){ .label = copy(f, label), .style = style };
    return c;
}

void ms_curve_point(ms_figure *f, ms_curve *c, ms_point point, const char *tip, ...)
{
    ms_point *more;

    if (c == NULL) return;
    more = one_more(f, c->at, c->n, &c->capacity, sizeof *c->at);
    if (more == NULL) return;
    c->at     = more;
    point.tip = NULL;
    if (tip != NULL) {
        va_list args;
        va_start(args, tip);
        point.tip = ms_text_format(tip, args);
        va_end(args);
        if (point.tip == NULL) f->out_of_memory = true;
    }
    c->at[c->n++] = point;
}

/* Adds a square or cross with the tip of a point. */
static void put_symbol(ms_figure *f, ms_curve *curve, const ms_point *at, bool cross)
{
    ms_point symbol = ms_point_at(at->x, cross ? NAN : at->y);
    symbol.extra    = true;
    symbol.diverged = cross;
    ms_curve_point(f, curve, symbol, at->tip != NULL ? "%s" : NULL, at->tip);
}

void ms_panel_symbols(ms_figure *f, ms_panel *p)
{
    const size_t n = p != NULL ? p->n : 0;

    for (size_t i = 0; i < n; i++) {
        size_t crosses = 0; /* index of their curve, since adding one may move all; 0: none yet */
        for (size_t k = 0; k < p->curves[i].n; k++) {
            const ms_point *at = &p->curves[i].at[k];
            if (at->stalled > 0 && isfinite(at->y)) /* each is a curve: no line joins them */
                put_symbol(f, ms_panel_curve(f, p, "stalled", ms_style_stalled()), at, false);
            if (at->n_diverged == 0 || at->diverged) continue;
            if (crosses == 0) {
                if (ms_panel_curve(f, p, p->curves[i].label, p->curves[i].style) == NULL) return;
                crosses = p->n - 1;
            }
            put_symbol(f, &p->curves[crosses], at, true);
        }
    }
}

void ms_panel_rule(ms_figure *f, ms_panel *p, double x, const char *label)
{
    if (p == NULL) return;
    free(p->rule_label);
    p->x_rule     = x;
    p->rule_label = copy(f, label);
}

bool ms_figure_legend_entry(const ms_figure *f, size_t panel, size_t curve, ms_style *style)
{
    const ms_curve *c = &f->panels[panel].curves[curve];

    *style = c->style;
    if (f->panels[panel].rows) return false; /* rows have their labels beside them */
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->panels[i].n; k++) {
            const ms_curve *other  = &f->panels[i].curves[k];
            const bool      before = i < panel || (i == panel && k < curve);
            if (strcmp(other->label, c->label) != 0) continue;
            if (before) return false;
            if (style->marker <= 0) style->marker = other->style.marker;
        }
    return true;
}

static void panel_free(ms_panel *p)
{
    for (size_t i = 0; i < p->n; i++) {
        ms_curve *c = &p->curves[i];
        for (size_t k = 0; k < c->n; k++)
            free(c->at[k].tip);
        free(c->at);
        free(c->label);
    }
    free(p->curves);
    free(p->title);
    free(p->x_label);
    free(p->y_label);
    free(p->rule_label);
}

void ms_figure_free(ms_figure *f)
{
    for (size_t i = 0; i < f->n; i++)
        panel_free(&f->panels[i]);
    free(f->panels);
    free(f->id);
    free(f->title);
    free(f->caption);
    *f = (ms_figure){ 0 };
}
