/* svg.c - writes figures as SVG.
 *
 * Lengths are in units of a canvas on which text is 14 units high; a picture scales the whole
 * canvas. Lines and bands may leave a panel at the top, where a <clipPath> cuts them; its id
 * contains the figure's, which is unique in the page. */
#include "report/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html.h"

#define FONT       MS_SVG_FONT
#define TICK_FONT  (0.9 * FONT)
#define ROW_FONT   (0.85 * FONT)
#define ROW        (1.25 * FONT) /* height of a row */
#define LINE_WIDTH 2.0
#define MARKER     3.25 /* half of a marker's width */
#define FAR        1e3  /* panel heights: lines to larger values end there, outside the panel */

enum { FEW = 24, MAX_HOVER = 80 }; /* points of a curve: all have markers; with tooltips */

typedef struct canvas { /* a panel on its canvas, from the upper left corner */
    double                 width, height;
    double                 left, right, top, bottom;         /* the plot area */
    double                 cell_left, cell_top, cell_bottom; /* with labels around it */
    char                   clip[128]; /* id of the area that clips lines and bands */
    const ms_panel_layout *layout;
    FILE                  *to;
} canvas;

static double at_x(const canvas *v, double u) { return v->left + u * (v->right - v->left); }

static double at_y(const canvas *v, double share)
{
    return v->bottom - fmax(-FAR, fmin(share, FAR)) * (v->bottom - v->top);
}

/* ---- the canvas ------------------------------------------------------------------------------ */

/* A panel in a cell of its canvas.  All panels of a figure have the same margins and line up. */
static canvas canvas_in(const ms_figure_layout *f, size_t panel, double x, double y, double width,
                        double height, FILE *to)
{
    double labels = ms_svg_text_width("0.00", TICK_FONT);
    bool   titles = false, names = f->panels[panel].panel->rows;
    canvas v = { .layout = &f->panels[panel], .to = to };

    for (size_t i = 0; i < f->figure->n; i++) {
        const ms_panel_layout *p = &f->panels[i];
        titles                   = titles || p->panel->title[0] != '\0';
        names                    = names || p->panel->x_label[0] != '\0';
        for (size_t k = 0; k < p->y.n; k++)
            labels = fmax(labels, ms_svg_text_width(p->y.ticks[k].label, TICK_FONT));
        for (size_t k = 0; p->panel->rows && k < p->panel->n; k++)
            labels =
                fmax(labels, ms_svg_text_width(p->panel->curves[k].label, ROW_FONT) - 1.2 * FONT);
        if (p->y.share < 1.0) labels = fmax(labels, ms_svg_text_width("diverged", 0.8 * FONT));
    }
    snprintf(v.clip, sizeof v.clip, "clip-%.100s-%zu-%.0f", f->figure->id, panel, width);
    v.width       = width;
    v.height      = height;
    v.cell_left   = x;
    v.cell_top    = y;
    v.cell_bottom = y + height;
    v.left        = x + fmin(labels + 2.5 * FONT, 0.45 * width);
    v.right       = x + width - 1.4 * FONT;
    v.top         = y + (titles ? 2.2 : 0.9) * FONT;
    v.bottom      = y + height - (names ? 3.3 : 2.0) * FONT;
    return v;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* Draws gridlines at the ticks with a label, the axes, and the ticks. */
static void put_axes(const canvas *v)
{
    const ms_axis *x = &v->layout->x, *y = &v->layout->y;

    fputs("<path fill=\"none\" stroke=\"currentColor\" stroke-opacity=\".15\" d=\"", v->to);
    for (size_t i = 0; i < x->n; i++)
        if (x->ticks[i].label[0] != '\0')
            fprintf(v->to, "M%.1f,%.1fV%.1f", at_x(v, x->ticks[i].at), v->bottom, v->top);
    for (size_t i = 0; i < y->n; i++)
        if (y->ticks[i].label[0] != '\0')
            fprintf(v->to, "M%.1f,%.1fH%.1f", v->left, at_y(v, y->ticks[i].at), v->right);
    fputs("\"/>\n<path fill=\"none\" stroke=\"currentColor\" stroke-opacity=\".56\" d=\"", v->to);
    fprintf(v->to, "M%.1f,%.1fV%.1fH%.1f", v->left, v->top, v->bottom, v->right);
    for (size_t i = 0; i < x->n; i++)
        fprintf(v->to, "M%.1f,%.1fv%s", at_x(v, x->ticks[i].at), v->bottom,
                x->ticks[i].label[0] != '\0' ? "4.7" : "2.6");
    for (size_t i = 0; i < y->n; i++)
        fprintf(v->to, "M%.1f,%.1fh-%s", v->left, at_y(v, y->ticks[i].at),
                y->ticks[i].label[0] != '\0' ? "4.7" : "2.6");
    fputs("\"/>\n", v->to);
}

/* Draws a dashed line across the panel. */
static void put_rule(const canvas *v, const char *dash, double x1, double y1, double x2, double y2)
{
    fprintf(v->to,
            "<path fill=\"none\" stroke=\"currentColor\" stroke-opacity=\".56\" "
            "stroke-dasharray=\"%s\" d=\"M%.1f,%.1fL%.1f,%.1f\"/>\n",
            dash, x1, y1, x2, y2);
}

/* Labels the ticks and the lane of diverged runs; labels that would overlap are left out. */
static void put_tick_labels(const canvas *v)
{
    const ms_axis     *x = &v->layout->x, *y = &v->layout->y;
    const double       lane = at_y(v, 0.5 * (1.0 + y->share));
    const ms_svg_label left = { .x = v->left - 0.6 * FONT, .font = TICK_FONT, .anchor = "end" };
    double             free_from = -HUGE_VAL;

    for (size_t i = 0; i < y->n; i++) {
        ms_svg_label l = left;
        l.y            = at_y(v, y->ticks[i].at);
        if (y->share == 1.0 || l.y - lane >= 1.2 * TICK_FONT)
            ms_svg_label_put(l, y->ticks[i].label, v->to);
    }
    if (y->share < 1.0) {
        ms_svg_label l = left;
        l.y            = lane;
        l.font         = 0.8 * FONT;
        ms_svg_label_put(l, "diverged", v->to);
        put_rule(v, "2,4", v->left, at_y(v, y->share), v->right, at_y(v, y->share));
    }
    for (size_t i = 0; i < x->n; i++) {
        const double middle = at_x(v, x->ticks[i].at);
        const double half   = 0.5 * ms_svg_text_width(x->ticks[i].label, TICK_FONT);
        if (x->ticks[i].label[0] == '\0' || middle - half < free_from) continue;
        free_from = middle + half + 0.4 * TICK_FONT;
        ms_svg_label_put(
            (ms_svg_label){ .x = middle, .y = v->bottom + 1.1 * FONT, .font = TICK_FONT },
            x->ticks[i].label, v->to);
    }
}

/* Writes the labels of the bars below them if they fit, and their values above. */
static void put_bar_labels(const canvas *v)
{
    const ms_panel *panel  = v->layout->panel;
    const double    each   = (v->right - v->left) / (double)(panel->n == 0 ? 1 : panel->n);
    double          widest = 1.0, font;

    for (size_t i = 0; i < panel->n; i++)
        widest = fmax(widest, ms_svg_text_width(panel->curves[i].label, FONT));
    font = FONT * fmin(0.9, 0.95 * each / widest);
    for (size_t i = 0; i < panel->n; i++) {
        const ms_placed_curve *c = &v->layout->curves[i];
        const double           x = at_x(v, ((double)i + 0.5) / (double)panel->n);
        char                   value[MS_NUMBER_TEXT];
        if (font >= 0.6 * FONT)
            ms_svg_label_put((ms_svg_label){ .x = x, .y = v->bottom + FONT, .font = font },
                             panel->curves[i].label, v->to);
        if (c->n == 0 || isnan(c->points[0].v) || c->points[0].diverged) continue;
        ms_number_text(panel->curves[i].at[0].y, value);
        ms_svg_label_put(
            (ms_svg_label){
                .x = x,
                .y = at_y(v, fmax(c->points[0].v, fmin(c->points[0].high, v->layout->y.share))) -
                     0.7 * FONT,
                .font      = 0.8 * FONT,
                .max_width = 0.95 * each },
            value, v->to);
    }
}

/* Writes the names of rows beside them. */
static void put_row_labels(const canvas *v)
{
    const ms_panel *panel = v->layout->panel;

    for (size_t i = 0; i < panel->n; i++)
        ms_svg_label_put((ms_svg_label){ .x = v->left - 0.6 * FONT,
                                         .y = at_y(v, 1.0 - ((double)i + 0.5) / (double)panel->n),
                                         .font      = ROW_FONT,
                                         .anchor    = "end",
                                         .max_width = v->left - v->cell_left - 0.8 * FONT },
                         panel->curves[i].label, v->to);
}

static void put_frame(const canvas *v)
{
    const ms_panel *panel = v->layout->panel;
    const double    wide = 1.05 * (v->right - v->left), high = 1.05 * (v->bottom - v->top);
    const double    x = 0.5 * (v->left + v->right), y = 0.5 * (v->top + v->bottom);

    put_axes(v);
    put_tick_labels(v);
    ms_svg_label_put((ms_svg_label){ .x         = x,
                                     .y         = v->cell_top + 1.05 * FONT,
                                     .font      = 1.05 * FONT,
                                     .max_width = wide,
                                     .bold      = true },
                     panel->title, v->to);
    ms_svg_label_put((ms_svg_label){ .x = x, .y = v->cell_bottom - 0.95 * FONT, .max_width = wide },
                     panel->rows ? panel->y_label : panel->x_label, v->to);
    if (!panel->rows)
        ms_svg_label_put(
            (ms_svg_label){
                .x = v->cell_left + 0.95 * FONT, .y = y, .max_width = high, .vertical = true },
            panel->y_label, v->to);
    if (panel->bars) put_bar_labels(v);
    if (panel->rows) put_row_labels(v);
    if (isfinite(panel->x_rule)) {
        const double at   = at_x(v, ms_axis_place(&v->layout->x, panel->x_rule));
        const char  *text = panel->rule_label != NULL ? panel->rule_label : "";
        const bool   fits = at + ms_svg_text_width(text, 0.8 * FONT) + 0.5 * FONT < v->right;
        put_rule(v, "4,4", at, v->bottom, at, v->top);
        ms_svg_label_put((ms_svg_label){ .x      = at + (fits ? 0.4 : -0.4) * FONT,
                                         .y      = at_y(v, v->layout->y.share) + 0.6 * FONT,
                                         .font   = 0.8 * FONT,
                                         .anchor = fits ? "start" : "end" },
                         text, v->to);
    }
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* A panel is drawn layer by layer, from the back to the front. */
typedef enum layer {
    BAND, /* over the seeds */
    SOLID,
    DASHED,   /* on solid lines, which show through the gaps */
    DOTS,     /* markers; without markers, points without a neighbour */
    ABOVE,    /* triangles in place of dots for values above the panel */
    BAR,      /* of a bar chart */
    RANGE,    /* over the seeds, for a bar or a point whose neighbours have no band */
    DIVERGED, /* crosses */
    N_LAYERS
} layer;

static const char *const layer_names[N_LAYERS] = { "band",  "line", "line",  "dots",
                                                   "above", "bar",  "range", "diverged" };

static bool is_shown(const ms_placed_curve *c, size_t i)
{
    return i < c->n && !c->points[i].diverged && !isnan(c->points[i].v);
}

static bool has_band(const ms_placed_curve *c, size_t i)
{
    return is_shown(c, i) && !isnan(c->points[i].low);
}

/* Does point i of the curve have a marker?  All points of a short curve have one, and about ten of
 * a long one, whose positions differ from curve to curve. */
static bool has_marker(const ms_panel_layout *p, size_t curve, size_t i)
{
    const size_t n     = p->curves[curve].n;
    const size_t every = n <= FEW ? 1 : (n + 9) / 10;
    return p->panel->curves[curve].style.marker > 0 && i % every == curve * every / p->n % every;
}

/* Is point i of the curve a part of this layer? */
static bool is_in_layer(const ms_panel_layout *p, layer kind, size_t curve, size_t i)
{
    const ms_placed_curve *c    = &p->curves[curve];
    const ms_placed_point *at   = &c->points[i];
    const bool             bars = p->panel->bars, here = is_shown(c, i);
    const bool             dashed = p->panel->curves[curve].style.dash > 0;
    const bool joined = is_shown(c, i - 1) || is_shown(c, i + 1); /* SIZE_MAX is not below n */
    const bool band   = has_band(c, i - 1) || has_band(c, i + 1); /* a band needs two points */
    const bool dot    = !bars && here && (!joined || has_marker(p, curve, i));

    switch (kind) {
    case BAND: return !bars && has_band(c, i) && band;
    case SOLID: return !bars && here && joined && !dashed;
    case DASHED: return !bars && here && joined && dashed;
    case DOTS: return dot && !at->above;
    case ABOVE: return dot && at->above;
    case BAR: return bars && here;
    case RANGE: return here && (bars || !band) && at->low < at->high;
    case DIVERGED: return at->diverged;
    case N_LAYERS: break;
    }
    return false;
}

/* Opens the group of a curve in a layer, with the attributes of its elements. */
static void open_group(const canvas *v, layer kind, size_t curve)
{
    const ms_panel *panel  = v->layout->panel;
    const ms_style  style  = panel->curves[curve].style;
    const bool      filled = v->layout->curves[curve].n > MS_COLUMNS; /* a point in every column */

    fprintf(v->to, "<g class=\"curve %s\" data-label=\"", layer_names[kind]);
    ms_html_text(panel->curves[curve].label, v->to);
    putc('"', v->to);
    switch (kind) {
    case BAND: fprintf(v->to, " fill=\"%s\" fill-opacity=\".18\"", style.colour); break;
    case SOLID:
    case DASHED:
        ms_svg_stroke(style.colour, (filled ? 0.65 : 1.0) * LINE_WIDTH, style.dash, v->to);
        fputs(" stroke-linejoin=\"round\"", v->to);
        break;
    case DOTS:
        ms_svg_marker_paint(style.marker > 0 ? style.marker : MS_MARKER_CIRCLE, style.colour,
                            v->to);
        break;
    case BAR: fprintf(v->to, " fill=\"%s\"", style.colour); break;
    case RANGE:
        ms_svg_stroke(panel->bars ? "currentColor" : style.colour, 0.75 * LINE_WIDTH, 0, v->to);
        break;
    default: ms_svg_stroke(style.colour, 0.45, 0, v->to); break;
    }
    putc('>', v->to);
}

/* Draws one path through the points of a line, or around each stretch of a band. */
static void put_path(const canvas *v, layer kind, size_t curve)
{
    const ms_placed_curve *c = &v->layout->curves[curve];

    fputs("<path d=\"", v->to);
    for (size_t i = 0, end; i < c->n; i = end + 1) {
        for (end = i; end < c->n && is_in_layer(v->layout, kind, curve, end); end++) {
            const ms_placed_point *p = &c->points[end];
            fprintf(v->to, "%c%.2f,%.2f", end == i ? 'M' : 'L', at_x(v, p->u),
                    at_y(v, kind == BAND ? p->high : p->v_line));
        }
        for (size_t k = end; kind == BAND && k-- > i;) /* and back along the lower edge */
            fprintf(v->to, "L%.2f,%.2f%s", at_x(v, c->points[k].u), at_y(v, c->points[k].low),
                    k == i ? "z" : "");
    }
    fputs("\"/>", v->to);
}

static void put_shape(const canvas *v, layer kind, size_t curve, const ms_placed_point *p)
{
    const int    marker = v->layout->panel->curves[curve].style.marker;
    const double x = at_x(v, p->u), y = at_y(v, p->v), top = v->layout->y.share;

    switch (kind) {
    case DOTS: ms_svg_marker(marker > 0 ? marker : MS_MARKER_CIRCLE, x, y, MARKER, v->to); break;
    case ABOVE: ms_svg_marker(MS_MARKER_OPEN_TRIANGLE, x, y, 1.2 * MARKER, v->to); break;
    case DIVERGED: ms_svg_marker(MS_MARKER_CROSS, x, y, 1.1 * MARKER, v->to); break;
    case BAR: {
        const double width = 0.64 * (v->right - v->left) / (double)v->layout->panel->n;
        fprintf(v->to, "<path d=\"M%.2f,%.2fh%.2fV%.2fh-%.2fz\"/>", x - 0.5 * width, v->bottom,
                width, y, width);
        break;
    }
    default: /* RANGE */
        if (v->layout->panel->rows)
            fprintf(v->to, "<path d=\"M%.2f,%.2fH%.2f\"/>", at_x(v, p->low), y, at_x(v, p->high));
        else
            fprintf(v->to, "<path d=\"M%.2f,%.2fV%.2f\"/>", x, at_y(v, fmin(p->low, top)),
                    at_y(v, fmin(p->high, top)));
        break;
    }
}

static void put_layer(const canvas *v, layer kind, size_t curve)
{
    const ms_placed_curve *c   = &v->layout->curves[curve];
    bool                   any = false;

    for (size_t i = 0; i < c->n; i++) {
        if (!is_in_layer(v->layout, kind, curve, i)) continue;
        if (!any) open_group(v, kind, curve);
        if (!any && kind <= DASHED) put_path(v, kind, curve);
        if (kind > DASHED) put_shape(v, kind, curve, &c->points[i]);
        any = true;
    }
    if (any) fputs("</g>\n", v->to);
}

static bool is_empty(const ms_panel_layout *p)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++)
            if (p->curves[i].points[k].diverged || is_shown(&p->curves[i], k)) return false;
    return true;
}

static void put_layers(const canvas *v)
{
    const ms_panel_layout *p    = v->layout;
    const double           top  = at_y(v, p->y.share);
    const double           wide = v->right - v->left + 4.0, high = v->bottom - top + 2.0;

    if (is_empty(p))
        ms_svg_label_put(
            (ms_svg_label){ .x = 0.5 * (v->left + v->right), .y = 0.5 * (v->top + v->bottom) },
            "no data", v->to);
    fprintf(v->to,
            "<clipPath id=\"%s\"><path d=\"M%.1f,%.1fh%.1fv%.1fh-%.1fz\"/></clipPath>\n"
            "<g clip-path=\"url(#%s)\">\n",
            v->clip, v->left - 2.0, top, wide, high, wide, v->clip);
    for (int kind = 0; kind < N_LAYERS; kind++) {
        for (size_t i = p->n; i-- > 0;) /* the first curve on top */
            put_layer(v, (layer)kind, i);
        if (kind == DASHED) fputs("</g>\n", v->to);
    }
}

/* ---- tooltips -------------------------------------------------------------------------------- */

static void put_tip(const canvas *v, const ms_curve *c, const ms_point *at)
{
    const ms_panel *p = v->layout->panel;
    char            x[MS_NUMBER_TEXT], y[MS_NUMBER_TEXT];

    if (at->tip != NULL) {
        ms_html_text(at->tip, v->to);
        return;
    }
    ms_html_text(c->label, v->to);
    ms_number_text(at->x, x);
    ms_number_text(at->y, y);
    fputs(": ", v->to);
    if (!p->bars && !p->rows) {
        ms_html_text(p->x_label, v->to);
        fprintf(v->to, "%s%s, ", p->x_label[0] != '\0' ? " " : "", x);
    }
    fputs(at->diverged ? "diverged" : y, v->to);
    if (isfinite(at->low) && isfinite(at->high) && !at->diverged) {
        ms_number_text(at->low, x);
        ms_number_text(at->high, y);
        fprintf(v->to, " (%s to %s)", x, y);
    }
}

static void put_point(const canvas *v, const ms_curve *c, const ms_placed_point *p)
{
    const ms_point *at = &c->at[p->point];
    char            x[MS_NUMBER_TEXT], y[MS_NUMBER_TEXT];

    ms_number_text(at->x, x);
    ms_number_text(at->y, y);
    if (v->layout->panel->bars || v->layout->panel->rows) x[0] = '\0'; /* they have no x */
    fprintf(v->to, "\n<circle cx=\"%.2f\" cy=\"%.2f\" r=\"5\" data-x=\"%s\" data-y=\"%s\"><title>",
            at_x(v, p->u), at_y(v, p->v), x, at->diverged ? "diverged" : y);
    put_tip(v, c, at);
    fputs("</title></circle>", v->to);
}

/* Returns the point of from..to - 1 that is farthest from their mean. */
static const ms_placed_point *farthest(const ms_placed_curve *c, size_t from, size_t to)
{
    const ms_placed_point *found = NULL;
    double                 mean = 0.0, largest = -1.0;
    size_t                 n = 0;

    for (size_t i = from; i < to; i++)
        if (!isnan(c->points[i].v)) {
            mean += c->points[i].v;
            n++;
        }
    mean /= n == 0 ? 1.0 : (double)n;
    for (size_t i = from; i < to; i++) {
        const double off = c->points[i].diverged ? HUGE_VAL : fabs(c->points[i].v - mean);
        if (!(off > largest)) continue;
        largest = off;
        found   = &c->points[i];
    }
    return found;
}

static void put_points(const canvas *v)
{
    for (size_t k = 0; k < v->layout->n; k++) {
        const ms_curve        *c     = &v->layout->panel->curves[k];
        const ms_placed_curve *p     = &v->layout->curves[k];
        const size_t           parts = p->n < MAX_HOVER ? p->n : MAX_HOVER;

        if (p->n == 0) continue;
        fprintf(v->to, "<g class=\"points\" fill=\"transparent\" data-colour=\"%s\" data-label=\"",
                c->style.colour);
        ms_html_text(c->label, v->to);
        fputs("\">", v->to);
        for (size_t i = 0; i < parts; i++) {
            const ms_placed_point *best = farthest(p, i * p->n / parts, (i + 1) * p->n / parts);
            if (best != NULL) put_point(v, c, best);
        }
        fputs("</g>\n", v->to);
    }
}

/* ---- panels and figures ---------------------------------------------------------------------- */

static void put_opening(const canvas *v)
{
    const ms_panel *p = v->layout->panel;

    fprintf(v->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
            "data-box=\"%.0f %.0f %.0f %.0f\" data-x=\"",
            v->width, v->height, v->left, v->top, v->right, v->bottom);
    if (!p->bars) ms_html_text(p->x_label, v->to);
    fputs("\" aria-label=\"", v->to);
    ms_html_text(p->title, v->to);
    fputs(p->title[0] != '\0' ? ": " : "", v->to);
    ms_html_text(p->y_label, v->to);
    fputs(p->x_label[0] != '\0' ? " against " : "", v->to);
    ms_html_text(p->x_label, v->to);
    for (size_t i = 0; i < p->n; i++) {
        fputs(i == 0 ? "; curves: " : ", ", v->to);
        ms_html_text(p->curves[i].label, v->to);
    }
    fputs("\">\n", v->to);
}

/* The height of a panel that has this one without rows, or more where its rows need it. */
static double rows_height(const ms_panel *p, double height)
{
    return p->rows ? fmax(height, 6.0 * FONT + ROW * (double)p->n) : height;
}

void ms_svg_panel(const ms_figure_layout *layout, size_t panel, bool wide, FILE *to)
{
    const double high = rows_height(&layout->figure->panels[panel], wide ? 400.0 : 320.0);
    const canvas v    = canvas_in(layout, panel, 0.0, 0.0, wide ? 1120.0 : 440.0, high, to);
    put_opening(&v);
    put_frame(&v);
    put_layers(&v);
    put_points(&v);
    fputs("</svg>", to);
}

/* Writes the legend in as many rows as needed and returns its height; without a file it is only
 * measured. */
static double put_legend(const ms_figure *f, double width, double top, FILE *to)
{
    double x = FONT, y = top + FONT;

    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->panels[i].n; k++) {
            const char  *text = f->panels[i].curves[k].label;
            const double wide =
                (double)MS_SAMPLE + 0.5 * FONT + ms_svg_text_width(text, 0.95 * FONT);
            ms_style style;
            if (!ms_figure_legend_entry(f, i, k, &style)) continue;
            if (x > FONT && x + wide > width - FONT) {
                x = FONT;
                y += 1.7 * FONT;
            }
            if (to != NULL) {
                ms_svg_sample(style, f->panels[i].bars, x, y, to);
                ms_svg_label_put((ms_svg_label){ .x      = x + (double)MS_SAMPLE + 0.5 * FONT,
                                                 .y      = y,
                                                 .font   = 0.95 * FONT,
                                                 .anchor = "start" },
                                 text, to);
            }
            x += wide + 1.6 * FONT;
        }
    return y + FONT - top;
}

void ms_svg_figure(const ms_figure_layout *layout, FILE *to)
{
    static const struct {
        double width, height, pixels; /* of a panel, by the number of columns */
    } cells[] = { { 573.0, 337.0, 1800.0 }, { 412.0, 296.0, 1000.0 }, { 400.0, 290.0, 800.0 } };
    const size_t n      = layout->figure->n;
    const size_t across = n == 4 ? 2 : n < 3 ? n : 3, down = (n + across - 1) / across;
    const double cell_w = cells[across - 1].width;
    double       cell_h = cells[across - 1].height;
    for (size_t i = 0; i < n; i++)
        cell_h = fmax(cell_h, rows_height(&layout->figure->panels[i], cell_h));
    const double width = cell_w * (double)across, head = 2.2 * FONT;
    const double foot   = head + cell_h * (double)down;
    const double height = foot + put_legend(layout->figure, width, foot, NULL);
    const double scale  = cells[across - 1].pixels / cell_w;

    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.1f %.1f\" width=\"%.0f\" "
            "height=\"%.0f\" color=\"#1f2328\" fill=\"currentColor\" "
            "font-family=\"DejaVu Sans, sans-serif\">\n<path d=\"M0,0h%.1fv%.1fh-%.1fz\" "
            "fill=\"#ffffff\"/>\n",
            width, height, scale * width, scale * height, width, height, width);
    ms_svg_label_put((ms_svg_label){ .x         = 0.5 * width,
                                     .y         = 1.2 * FONT,
                                     .font      = 1.2 * FONT,
                                     .max_width = 0.9 * width,
                                     .bold      = true },
                     layout->figure->title, to);
    for (size_t i = 0; i < n; i++) {
        const size_t row = i / across, column = i % across;
        const canvas v = canvas_in(layout, i, cell_w * (double)column, head + cell_h * (double)row,
                                   cell_w, cell_h, to);
        put_frame(&v);
        put_layers(&v);
    }
    put_legend(layout->figure, width, foot, to);
    fputs("</svg>\n", to);
}
