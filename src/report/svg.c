/* svg.c - gnuplot's SVG made fit for a page.
 *
 * gnuplot writes a document of its own: a prolog, a title, marks with the same ids in every
 * picture, black ink.  Here it becomes a piece of a page: no ids at all (marks are drawn where they
 * are used), ink in the colour of the text around it, a size that follows the page, and each curve
 * in a group that names it:
 *
 *     <g class="curve line" data-label="Muon">            what gnuplot drew: band, line, dots, ...
 *     <g class="points" data-label="Muon">                on top, invisible: where its points are
 *       <circle cx= cy= r= data-x= data-y=>               their values
 *         <title>words</title></circle>                   and what to say there
 *
 * The input is read tag by tag; what is not known is passed on. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/table.h"
#include "report/script.h"

enum { MOST_POINTS = 80 }; /* of a curve, to be pointed at: they are half of a page's bytes */

typedef struct rewriter {
    FILE          *to;
    const ms_plan *plan;
    ms_frame       frame;
    size_t         n_layers; /* seen so far */
} rewriter;

/* ---- tags ------------------------------------------------------------------------------------ */

static bool is_tag(const char *tag, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(tag, name, n) == 0 &&
           (tag[n] == '>' || tag[n] == '/' || isspace((unsigned char)tag[n]));
}

/* The value of an attribute of the tag that ends at `end`: *n bytes, NULL if it has none.  gnuplot
 * writes both quotes, and blanks around the equals sign. */
static const char *attribute(const char *tag, const char *end, const char *name, size_t *n)
{
    const size_t bytes = strlen(name);

    for (const char *at = tag + 1; at + bytes < end; at++) {
        const char *value = at + bytes, *stop;
        if (!isspace((unsigned char)at[-1]) || strncmp(at, name, bytes) != 0) continue;
        while (value < end && (isspace((unsigned char)*value) || *value == '='))
            value++;
        if (value == end || (*value != '"' && *value != '\'')) continue;
        stop = memchr(value + 1, *value, (size_t)(end - value - 1));
        if (stop == NULL) continue;
        *n = (size_t)(stop - value - 1);
        return value + 1;
    }
    return NULL;
}

static const char *const shapes[] = {
    /* by gnuplot's numbers, from 1: plus, cross, star, then an open and a filled one of each */
    "M-1,0h2M0,-1v2",
    "M-1,-1L1,1M1,-1L-1,1",
    "M-1,0h2M0,-1v2M-1,-1L1,1M-1,1L1,-1",
    "M-1,-1h2v2h-2z",
    "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0z",
    "M0,-1.33L-1.33,.67h2.66z",
    "M0,1.33L-1.33,-.67h2.66z",
    "M0,-1.41L-1.41,0L0,1.41L1.41,0z",
    "M0,-1.33L1.265,-.411L.782,1.076h-1.564L-1.265,-.411z",
};

const char *ms_mark_shape(int mark, bool *filled)
{
    const int kind = mark <= 3 ? mark - 1 : 3 + (mark - 4) / 2;
    *filled        = mark > 3 && mark % 2 == 1;
    return shapes[kind < 0 ? 0 : kind % (int)COUNT(shapes)];
}

/* <use href='#gpPt6' transform=... color=.../>: a mark.  gnuplot counts them from 0 here. */
static musec_status put_mark(ms_error *e, rewriter *r, const char *tag, const char *end)
{
    size_t      n_ref = 0, n_where = 0, n_colour = 0;
    const char *ref    = attribute(tag, end, "xlink:href", &n_ref);
    const char *where  = attribute(tag, end, "transform", &n_where);
    const char *colour = attribute(tag, end, "color", &n_colour);
    const char *shape;
    bool        filled;

    if (ref == NULL) ref = attribute(tag, end, "href", &n_ref);
    if (ref == NULL || where == NULL || colour == NULL || strncmp(ref, "#gpPt", 5) != 0)
        return ms_fail(e, MUSEC_EFORMAT,
                       "gnuplot draws a mark in a way that is not understood: %.*s>",
                       (int)(end - tag < 200 ? end - tag : 200), tag);
    shape = ms_mark_shape((int)strtol(ref + 5, NULL, 10) + 1, &filled);
    fprintf(r->to, "<path d=\"%s\" transform=\"%.*s\" stroke=\"%.*s\" fill=\"", shape, (int)n_where,
            where, (int)n_colour, colour);
    if (filled)
        fprintf(r->to, "%.*s\" stroke-width=\"0\"/>", (int)n_colour, colour);
    else
        fputs("none\" stroke-width=\".4\"/>", r->to);
    return MUSEC_OK;
}

/* A tag as it is, but ink is the page's own colour, and without attributes that would undo that. */
static void put_tag(rewriter *r, const char *tag, const char *end)
{
    static const struct {
        const char *from, *to;
    } swaps[] = {
        { "rgb(  1,   2,   3)", "currentColor" },
        { "rgb(1,2,3)", "currentColor" },
        { " color=\"black\"", "" },
        { " color=\"white\"", "" },
        { " font-family=\"inherit\"", "" },
        { " font-family=\"\"", "" },
        { " shape-rendering='crispEdges'", "" },
        { " class=\"gridline\"", "" },
        { " stroke-linecap=\"butt\"", "" }, /* as it is anyway */
        { " stroke-linejoin=\"miter\"", "" },
        { "font-size=\"14.70\"", "font-size=\"14.70\" font-weight=\"600\"" }, /* titles alone */
    };

    for (const char *at = tag; at <= end;) {
        size_t n = 0;
        for (size_t i = 0; i < COUNT(swaps) && n == 0; i++)
            if (strncmp(at, swaps[i].from, strlen(swaps[i].from)) == 0) {
                n = strlen(swaps[i].from);
                fputs(swaps[i].to, r->to);
            }
        if (n == 0 && isspace((unsigned char)*at)) { /* one blank is enough */
            while (isspace((unsigned char)at[n]))
                n++;
            if (at[n] != '>' && at[n] != '/') putc(' ', r->to);
        }
        if (n == 0) putc(*at, r->to);
        at += n == 0 ? 1 : n;
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static const char *label_of(const ms_plan *p, size_t curve)
{
    return p->panel->curves[curve].label;
}

static void put_text(rewriter *r, const char *text) { ms_html_text(text, r->to); }

static void put_layer_group(rewriter *r)
{
    static const char *const names[] = { "band", "line", "dots", "above", "bar", "reach", "lost" };

    if (r->n_layers >= r->plan->n_layers) { /* the empty box has one that is not a curve's */
        fputs("<g>", r->to);
        return;
    }
    fprintf(r->to, "\n<g class=\"curve %s\" data-label=\"",
            names[r->plan->layers[r->n_layers].kind]);
    put_text(r, label_of(r->plan, r->plan->layers[r->n_layers].curve));
    fputs("\">", r->to);
    r->n_layers++;
}

static void put_opening(rewriter *r)
{
    const ms_panel *p = r->plan->panel;

    fprintf(r->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
            "data-box=\"%.0f %.0f %.0f %.0f\" data-x=\"",
            r->frame.width, r->frame.height, r->frame.left, r->frame.top, r->frame.right,
            r->frame.bottom);
    if (!p->bars) put_text(r, p->x_label);
    fputs("\" aria-label=\"", r->to);
    if (p->title[0] != '\0') {
        put_text(r, p->title);
        fputs(": ", r->to);
    }
    put_text(r, p->y_label);
    if (p->x_label[0] != '\0') {
        fputs(" against ", r->to);
        put_text(r, p->x_label);
    }
    for (size_t i = 0; i < p->n; i++) {
        fputs(i == 0 ? "; curves: " : ", ", r->to);
        put_text(r, p->curves[i].label);
    }
    fputs("\">", r->to);
}

/* ---- points ---------------------------------------------------------------------------------- */

static void put_tip(rewriter *r, const ms_curve *c, const ms_point *at)
{
    const ms_panel *p = r->plan->panel;
    char            x[MS_NUMBER_TEXT], y[MS_NUMBER_TEXT];

    if (at->tip != NULL) {
        put_text(r, at->tip);
        return;
    }
    put_text(r, c->label);
    ms_number_text(at->x, x);
    ms_number_text(at->y, y);
    fputs(": ", r->to);
    if (!p->bars) {
        put_text(r, p->x_label);
        fprintf(r->to, "%s%s, ", p->x_label[0] != '\0' ? " " : "", x);
    }
    fputs(at->diverged ? "diverged" : y, r->to);
    if (isfinite(at->low) && isfinite(at->high) && !at->diverged) {
        ms_number_text(at->low, x);
        ms_number_text(at->high, y);
        fprintf(r->to, " (%s to %s)", x, y);
    }
}

static void put_point(rewriter *r, const ms_curve *c, const ms_spot *s)
{
    const ms_frame *f = &r->frame;
    char            x[MS_NUMBER_TEXT], y[MS_NUMBER_TEXT];

    ms_number_text(c->at[s->point].x, x);
    ms_number_text(c->at[s->point].y, y);
    if (r->plan->panel->bars) x[0] = '\0'; /* bars stand beside each other */
    fprintf(r->to, "\n<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" data-x=\"%s\" data-y=\"%s\"><title>",
            f->left + s->u * (f->right - f->left), f->bottom - s->v * (f->bottom - f->top), x,
            c->at[s->point].diverged ? "diverged" : y);
    put_tip(r, c, &c->at[s->point]);
    fputs("</title></circle>", r->to);
}

/* Of the spots from..to the one that stands out most from their mean. */
static size_t outstanding(const ms_spots *t, size_t from, size_t to)
{
    double mean = 0.0, most = -1.0;
    size_t n = 0, best = SIZE_MAX;

    for (size_t i = from; i < to; i++)
        if (!isnan(t->at[i].v)) {
            mean += t->at[i].v;
            n++;
        }
    mean /= n == 0 ? 1.0 : (double)n;
    for (size_t i = from; i < to; i++) {
        const double off = t->at[i].diverged ? HUGE_VAL : fabs(t->at[i].v - mean);
        if (off > most) {
            most = off;
            best = i;
        }
    }
    return best;
}

static void put_points(rewriter *r)
{
    for (size_t k = 0; k < r->plan->n_curves; k++) {
        const ms_curve *c      = &r->plan->panel->curves[k];
        const ms_spots *t      = &r->plan->spots[k];
        const size_t    groups = t->n < MOST_POINTS ? t->n : MOST_POINTS;

        if (t->n == 0) continue;
        fprintf(r->to,
                "\n<g class=\"points\" fill=\"transparent\" data-colour=\"%s\" data-label=\"",
                c->style.colour);
        put_text(r, c->label);
        fputs("\">", r->to);
        for (size_t i = 0; i < groups; i++) {
            const size_t best = outstanding(t, i * t->n / groups, (i + 1) * t->n / groups);
            if (best != SIZE_MAX) put_point(r, c, &t->at[best]);
        }
        fputs("</g>", r->to);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* After the element that opens at `tag`, with all that it holds. */
static const char *after_element(const char *tag, const char *end, const char *name)
{
    const char *close = end[-1] == '/' ? end : strstr(tag, name);
    close             = close == NULL ? NULL : strchr(close, '>');
    return close == NULL ? tag + strlen(tag) : close + 1;
}

static const char *after_blanks(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* Deals with one tag; returns where to go on. */
static const char *rewrite_tag(ms_error *e, rewriter *r, const char *tag, const char *end,
                               musec_status *st)
{
    static const struct {
        const char *opens, *closes;
    } dropped[]      = { { "<title", "</title" },   { "<desc", "</desc" },   { "<defs", "</defs" },
                         { "<script", "</script" }, { "<style", "</style" }, { "<a", "</a" } };
    const char *next = end + 1;

    if (strncmp(tag, "<?", 2) == 0 || strncmp(tag, "<!", 2) == 0) return next;
    for (size_t i = 0; i < COUNT(dropped); i++)
        if (is_tag(tag, dropped[i].opens)) return after_element(tag, end, dropped[i].closes);
    if (is_tag(tag, "<rect")) return next; /* the canvas: none of its own */
    if (is_tag(tag, "<svg")) {
        put_opening(r);
        return next;
    }
    if (strncmp(tag, "</svg", 5) == 0) {
        put_points(r);
        fputs("</svg>", r->to);
        return next;
    }
    if (is_tag(tag, "<use")) {
        *st = put_mark(e, r, tag, end);
        return next;
    }
    if (is_tag(tag, "<g")) {
        size_t      n      = 0;
        const char *id     = attribute(tag, end, "id", &n);
        const char *within = after_blanks(next);
        if (strncmp(within, "<text></text>", 13) == 0) within = after_blanks(within + 13);
        if (strncmp(within, "</g>", 4) == 0) return within + 4; /* an empty one */
        if (id != NULL && strncmp(id, "gnuplot_plot_", 13) == 0)
            put_layer_group(r);
        else if (id != NULL)
            fputs("<g>", r->to);
        else
            put_tag(r, tag, end);
        return next;
    }
    put_tag(r, tag, end);
    return next;
}

musec_status ms_svg_finish(ms_error *e, const char *text, const ms_plan *plan, ms_frame frame,
                           char **out)
{
    rewriter     r     = { .plan = plan, .frame = frame };
    size_t       bytes = 0;
    musec_status st    = MUSEC_OK;

    *out = NULL;
    r.to = open_memstream(out, &bytes);
    if (r.to == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a plot");
    while (*text != '\0' && st == MUSEC_OK) {
        const char *end = *text == '<' ? strchr(text, '>') : NULL;
        if (end != NULL) {
            text = rewrite_tag(e, &r, text, end, &st);
        } else { /* words, with their entities; blanks between tags are of no use */
            const char *stop = strchr(text + 1, '<');
            const char *last = stop == NULL ? text + strlen(text) : stop;
            if (after_blanks(text) < last) fwrite(text, 1, (size_t)(last - text), r.to);
            text = last;
        }
    }
    if (st == MUSEC_OK && r.n_layers != plan->n_layers)
        st = ms_fail(e, MUSEC_EFORMAT, "gnuplot drew %zu of the %zu parts of a panel", r.n_layers,
                     plan->n_layers);
    if (ferror(r.to) && st == MUSEC_OK)
        st = ms_fail(e, MUSEC_ENOMEM, "not enough memory for a plot");
    if (fclose(r.to) != 0 && st == MUSEC_OK)
        st = ms_fail(e, MUSEC_ENOMEM, "not enough memory for a plot");
    if (st != MUSEC_OK) {
        free(*out);
        *out = NULL;
    }
    return st;
}
