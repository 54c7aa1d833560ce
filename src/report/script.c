/* script.c - what gnuplot is told.
 *
 * gnuplot sees places between 0 and 1 only: scales, ranges, ticks and thinning are done before
 * (plan.c), and every word is put at a pixel of our choice.  So it is known exactly where a value
 * lies, and no value is too large, small or many for gnuplot.
 *
 * Ink in SVG is a colour that nothing else has: svg.c replaces it by the page's own. */
#include "report/script.h"

#include <math.h>
#include <string.h>

#include "core/text.h"

typedef struct brush {              /* how a terminal draws */
    const char *ink, *faint, *rule; /* #AARRGGBB has transparency in front */
    const char *title_font;
    double      line, mark; /* widths in pixels and gnuplot's units */
    bool        svg;
} brush;

static const brush svg_brush = { "#010203", "#D8010203", "#70010203", "", 2.0, 0.62, true };

/* ---- words ----------------------------------------------------------------------------------- */

void ms_script_quote(const char *text, FILE *to)
{
    size_t bytes;

    putc('"', to); /* in single quotes gnuplot 5 takes a quote at the beginning for the end */
    for (; *text != '\0'; text += bytes == 0 ? 1 : bytes) {
        bytes = ms_text_char(text);
        if (strchr("\"\\`", *text) != NULL)
            fprintf(to, "\\%03o", (unsigned char)*text);
        else if (bytes == 0)
            fputs("\xef\xbf\xbd", to);
        else if ((unsigned char)*text < ' ' || *text == 0x7f)
            putc(' ', to); /* a line of the script must not end here */
        else
            fwrite(text, 1, bytes, to);
    }
    putc('"', to);
}

/* About as wide as most fonts without serifs make it. */
static double text_width(const char *text, double font)
{
    double wide = 0.0;
    size_t bytes;

    for (; *text != '\0'; text += bytes == 0 ? 1 : bytes) {
        bytes = ms_text_char(text);
        if (strchr("ijl.,:;|!'()[]{} tfrI-", *text) != NULL)
            wide += 0.37;
        else if (strchr("mwMW@%", *text) != NULL)
            wide += 0.92;
        else
            wide += *text >= 'A' && *text <= 'Z' ? 0.69 : 0.62;
    }
    return wide * font;
}

typedef struct words { /* where they stand, in pixels; size in parts of the frame's font */
    double      x, y, size;
    const char *side; /* "left", "center", "right" of x: y is the middle of the letters */
    double      room; /* smaller letters if they are wider; 0: any number */
    bool        upright, bold;
} words;

static void put_words(const ms_frame *f, const brush *b, words w, const char *text, FILE *to)
{
    const double wide = (w.bold ? 1.12 : 1.0) * text_width(text, w.size * f->font);

    if (text[0] == '\0') return;
    if (w.room > 0.0 && wide > w.room) w.size *= w.room / wide;
    fputs("set label ", to);
    ms_script_quote(text, to);
    fprintf(to, " at screen %.5f,%.5f %s%s font '%s,%.2f' tc rgb '%s' front\n", w.x / f->width,
            1.0 - w.y / f->height, w.side, w.upright ? " rotate by 90" : "",
            w.bold ? b->title_font : "", w.size * f->font, b->ink);
}

/* ---- the frame ------------------------------------------------------------------------------- */

static double widest_label(const ms_axis *a, double font)
{
    double most = 0.0;
    for (size_t i = 0; i < a->n; i++)
        most = fmax(most, text_width(a->ticks[i].label, font));
    return most;
}

/* A cell of the canvas; the same margins for every panel of a figure, so that they line up. */
static ms_frame frame_in(const ms_plans *plans, ms_frame canvas, double x, double y, double w,
                         double h)
{
    const double font   = canvas.font;
    double       wide   = text_width("0.00", 0.9 * font);
    bool         titles = false, names = false;

    for (size_t i = 0; i < plans->figure->n; i++) {
        const ms_plan *p = &plans->at[i];
        titles           = titles || p->panel->title[0] != '\0';
        names            = names || p->panel->x_label[0] != '\0';
        wide             = fmax(wide, widest_label(&p->y, 0.9 * font));
        if (p->y.share < 1.0) wide = fmax(wide, text_width("diverged", 0.8 * font));
    }
    canvas.cell_left   = x;
    canvas.cell_top    = y;
    canvas.cell_bottom = y + h;
    canvas.left        = x + fmin(wide + 2.5 * font, 0.45 * w);
    canvas.right       = x + w - 1.4 * font;
    canvas.top         = y + (titles ? 2.2 : 0.9) * font;
    canvas.bottom      = y + h - (names ? 3.3 : 2.0) * font;
    return canvas;
}

ms_frame ms_frame_svg(const ms_plans *plans, bool wide)
{
    ms_frame canvas = { .width = 440.0, .height = 320.0, .font = 14.0 };

    if (wide) {
        canvas.width  = 1120.0;
        canvas.height = 400.0;
    }
    return frame_in(plans, canvas, 0.0, 0.0, canvas.width, canvas.height);
}

static double box_x(const ms_frame *f, double u) { return f->left + u * (f->right - f->left); }
static double box_y(const ms_frame *f, double v) { return f->bottom - v * (f->bottom - f->top); }

/* ---- axes ------------------------------------------------------------------------------------ */

static void put_ticks(const ms_axis *a, const char *which, const brush *b, FILE *to)
{
    if (a->n == 0) { /* gnuplot would make its own */
        fprintf(to, "unset %stics\n", which);
        return;
    }
    fprintf(to, "set %stics nomirror out scale 0.45,0.25 (", which);
    for (size_t i = 0; i < a->n; i++)
        fprintf(to, "%s'' %.6f%s", i == 0 ? "" : ", ", a->ticks[i].at,
                a->ticks[i].label[0] == '\0' ? " 1" : "");
    fputs(")\n", to);
    fprintf(to, "set grid %stics lt 1 lw %.2f lc rgb '%s'\n", which, 0.5 * b->line, b->faint);
}

/* Where the lane of crosses has its name. */
static double lane_middle(const ms_frame *f, const ms_plan *p)
{
    return box_y(f, 0.5 * (1.0 + p->y.share));
}

static void put_labels(const ms_frame *f, const ms_plan *p, const brush *b, FILE *to)
{
    const double font      = 0.9 * f->font;
    double       free_from = -HUGE_VAL; /* labels of x that would touch are left out */

    for (size_t i = 0; i < p->y.n; i++) {
        const double y = box_y(f, p->y.ticks[i].at);
        if (p->y.share < 1.0 && y - lane_middle(f, p) < 1.2 * font)
            continue; /* "diverged" is there */
        put_words(f, b,
                  (words){ .x = f->left - 0.6 * f->font, .y = y, .size = 0.9, .side = "right" },
                  p->y.ticks[i].label, to);
    }
    for (size_t i = 0; i < p->x.n; i++) {
        const double x    = box_x(f, p->x.ticks[i].at);
        const double half = 0.5 * text_width(p->x.ticks[i].label, font);
        if (p->x.ticks[i].label[0] == '\0' || x - half < free_from) continue;
        free_from = x + half + 0.4 * font;
        put_words(f, b,
                  (words){ .x = x, .y = f->bottom + 1.1 * f->font, .size = 0.9, .side = "center" },
                  p->x.ticks[i].label, to);
    }
}

/* A curve's name below each bar, if they have room there, and its value above it. */
static void put_bar_words(const ms_frame *f, const ms_plan *p, const brush *b, FILE *to)
{
    const ms_panel *panel  = p->panel;
    const double    each   = (f->right - f->left) / (double)(panel->n == 0 ? 1 : panel->n);
    double          widest = 0.0, size;

    for (size_t i = 0; i < panel->n; i++)
        widest = fmax(widest, text_width(panel->curves[i].label, f->font));
    size = fmin(0.9, 0.95 * each / fmax(widest, 1.0));
    for (size_t i = 0; i < panel->n; i++) {
        const ms_spots *t = &p->spots[i];
        const double    x = box_x(f, ((double)i + 0.5) / (double)panel->n);
        char            value[MS_NUMBER_TEXT];
        if (size >= 0.6)
            put_words(
                f, b,
                (words){ .x = x, .y = f->bottom + 1.0 * f->font, .size = size, .side = "center" },
                panel->curves[i].label, to);
        if (t->n == 0 || isnan(t->at[0].v) || t->at[0].diverged) continue;
        ms_number_text(panel->curves[i].at[0].y, value);
        put_words(f, b,
                  (words){ .x    = x,
                           .size = fmin(0.8, 0.95 * each / text_width(value, f->font)),
                           .y    = box_y(f, fmax(t->at[0].v, fmin(t->at[0].high, p->y.share))) -
                                0.7 * f->font,
                           .side = "center" },
                  value, to);
    }
}

static void put_frame(const ms_frame *f, const ms_plan *p, const brush *b, FILE *to)
{
    const ms_panel *panel = p->panel;

    fprintf(to,
            "reset\nunset key\nset xrange [0:1]\nset yrange [0:1]\n"
            "set lmargin at screen %.6f\nset rmargin at screen %.6f\n"
            "set tmargin at screen %.6f\nset bmargin at screen %.6f\n"
            "set border 3 lw %.2f lc rgb '%s'\n",
            f->left / f->width, f->right / f->width, 1.0 - f->top / f->height,
            1.0 - f->bottom / f->height, 0.5 * b->line, b->rule);
    put_ticks(&p->x, "x", b, to);
    put_ticks(&p->y, "y", b, to);
    put_labels(f, p, b, to);
    put_words(f, b,
              (words){ .x    = 0.5 * (f->left + f->right),
                       .y    = f->cell_top + 1.05 * f->font,
                       .size = 1.05,
                       .side = "center",
                       .room = 1.05 * (f->right - f->left),
                       .bold = true },
              panel->title, to);
    put_words(f, b,
              (words){ .x    = 0.5 * (f->left + f->right),
                       .y    = f->cell_bottom - 0.95 * f->font,
                       .size = 1.0,
                       .side = "center",
                       .room = 1.05 * (f->right - f->left) },
              panel->x_label, to);
    put_words(f, b,
              (words){ .x       = f->cell_left + 0.95 * f->font,
                       .y       = 0.5 * (f->top + f->bottom),
                       .size    = 1.0,
                       .side    = "center",
                       .room    = 1.05 * (f->bottom - f->top),
                       .upright = true },
              panel->y_label, to);
    if (panel->bars) put_bar_words(f, p, b, to);
    if (p->y.share < 1.0) {
        put_words(f, b,
                  (words){ .x    = f->left - 0.6 * f->font,
                           .y    = lane_middle(f, p),
                           .size = 0.8,
                           .side = "right" },
                  "diverged", to);
        fprintf(to, "set arrow from 0,%.5f to 1,%.5f nohead dt (2,4) lw %.2f lc rgb '%s' back\n",
                p->y.share, p->y.share, 0.5 * b->line, b->rule);
    }
    if (p->n_layers == 0)
        put_words(f, b,
                  (words){ .x    = 0.5 * (f->left + f->right),
                           .y    = 0.5 * (f->top + f->bottom),
                           .size = 1.0,
                           .side = "center" },
                  "no data", to);
}

static void put_rule(const ms_frame *f, const ms_plan *p, const brush *b, FILE *to)
{
    const char  *text = p->panel->rule_words;
    const double u    = ms_axis_place(&p->x, p->panel->x_rule);
    double       x, wide;

    if (!isfinite(p->panel->x_rule)) return;
    fprintf(to, "set arrow from %.5f,0 to %.5f,1 nohead dt (4,4) lw %.2f lc rgb '%s' back\n", u, u,
            0.6 * b->line, b->rule);
    if (text == NULL) return;
    x    = box_x(f, u);
    wide = text_width(text, 0.8 * f->font) + 0.5 * f->font;
    put_words(f, b,
              (words){ .x    = x + (x + wide < f->right ? 0.4 : -0.4) * f->font,
                       .y    = box_y(f, p->y.share) + 0.6 * f->font,
                       .size = 0.8,
                       .side = x + wide < f->right ? "left" : "right" },
              text, to);
}

/* ---- curves ---------------------------------------------------------------------------------- */

/* An empty line of the numbers: what stands around it is not joined. */
static void put_path(const ms_path *path, FILE *to)
{
    for (size_t i = 0; i < path->n; i++)
        if (isnan(path->at[i].v))
            putc('\n', to);
        else
            fprintf(to, "%.5f %.5f\n", path->at[i].u, path->at[i].v);
}

static void put_reach(double u, double low, double high, double top, FILE *to)
{
    fprintf(to, "%.5f %.5f %.5f\n", u, fmin(low, top), fmin(high, top));
}

/* Where the edge of a band crosses the panel's top between two spots, as a share of the way; 1
 * where it does not. */
static double crossing(double from, double to, double top)
{
    if ((from > top) == (to > top) || isinf(from)) return 1.0;
    return isinf(to) ? 0.0 : (top - from) / (to - from);
}

static double between(double from, double to, double share)
{
    return share == 0.0 ? from : share == 1.0 ? to : from + share * (to - from);
}

static void put_band(const ms_spot *a, const ms_spot *b, double top, FILE *to)
{
    const double low = crossing(a->low, b->low, top), high = crossing(a->high, b->high, top);

    for (int i = 0; i < 2; i++) {
        const double share = i == 0 ? fmin(low, high) : fmax(low, high);
        if (share < 1.0)
            put_reach(between(a->u, b->u, share), between(a->low, b->low, share),
                      between(a->high, b->high, share), top, to);
    }
    put_reach(b->u, b->low, b->high, top, to);
}

static void put_numbers(const ms_plan *p, const ms_layer *layer, FILE *to)
{
    const ms_spots *t = &p->spots[layer->curve];

    if (layer->kind == MS_LAYER_LINE) {
        put_path(&p->paths[layer->curve], to);
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        const ms_spot *s      = &t->at[i];
        const bool     joined = i > 0 && ms_plan_shows(p, layer, i - 1);
        if (!ms_plan_shows(p, layer, i))
            putc('\n', to);
        else if (layer->kind == MS_LAYER_BAND && joined)
            put_band(&t->at[i - 1], s, p->y.share, to);
        else if (layer->kind == MS_LAYER_BAND || layer->kind == MS_LAYER_REACH)
            put_reach(s->u, s->low, s->high, p->y.share, to);
        else
            fprintf(to, "%.5f %.5f\n", s->u, s->v);
    }
}

void ms_script_data(const ms_plans *plans, const char *name, FILE *to)
{
    for (size_t i = 0; i < plans->figure->n; i++)
        for (size_t k = 0; k < plans->at[i].n_layers; k++) {
            fprintf(to, "$%s_%zu_%zu << END\n", name, i, k);
            put_numbers(&plans->at[i], &plans->at[i].layers[k], to);
            fputs("END\n", to);
        }
}

const char *ms_dash_lengths(int dash)
{
    static const char *const lengths[MS_DASHES] = { "",     "8,4",         "2,3", "9,3,2,3",
                                                    "11,4", "9,3,2,3,2,3", "4,3" };
    return dash > 0 && dash < MS_DASHES ? lengths[dash] : "";
}

static void put_layer(const ms_plan *p, const ms_layer *layer, const brush *b, FILE *to)
{
    const ms_style  style = p->panel->curves[layer->curve].style;
    const ms_spots *t     = &p->spots[layer->curve];
    const char     *dash  = ms_dash_lengths(style.dash);

    switch (layer->kind) {
    case MS_LAYER_BAND:
        fprintf(to, " using 1:2:3 with filledcurves fs transparent solid 0.18 noborder fc rgb '%s'",
                style.colour);
        break;
    case MS_LAYER_LINE: /* thinner where it fills every column */
        fprintf(to, " using 1:2 with lines lw %.2f lc rgb '%s'",
                t->n > MS_COLUMNS ? 0.65 * b->line : b->line, style.colour);
        if (dash[0] != '\0') fprintf(to, " dt (%s)", dash);
        break;
    case MS_LAYER_DOTS:
        fprintf(to, " using 1:2 with points pt %d ps %.3f lc rgb '%s'",
                style.mark > 0 ? style.mark : 7, b->mark, style.colour);
        break;
    case MS_LAYER_ABOVE: /* an arrowhead upwards */
        fprintf(to, " using 1:2 with points pt 8 ps %.3f lw %.2f lc rgb '%s'", 1.2 * b->mark,
                0.75 * b->line, style.colour);
        break;
    case MS_LAYER_BAR:
        fprintf(to, " using 1:2:(%.5f) with boxes fs solid 1.0 noborder fc rgb '%s'",
                0.64 / (double)p->panel->n, style.colour);
        break;
    case MS_LAYER_REACH:
        fprintf(to, " using 1:2:(0):($3-$2) with vectors nohead lw %.2f lc rgb '%s'",
                0.75 * b->line, p->panel->bars ? b->ink : style.colour);
        break;
    case MS_LAYER_LOST:
        fprintf(to, " using 1:2 with points pt 2 ps %.3f lw %.2f lc rgb '%s'", 1.1 * b->mark,
                b->line, style.colour);
        break;
    }
}

static void put_panel(const ms_plans *plans, size_t panel, const char *name, const ms_frame *f,
                      const brush *b, FILE *to)
{
    const ms_plan *p = &plans->at[panel];

    put_rule(f, p, b, to);
    if (p->n_layers == 0) fputs("plot 2 with lines lw 0\n", to); /* outside: an empty box */
    for (size_t k = 0; k < p->n_layers; k++) {
        fprintf(to, "%s$%s_%zu_%zu", k == 0 ? "plot " : ", \\\n  ", name, panel, k);
        put_layer(p, &p->layers[k], b, to);
    }
    putc('\n', to);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static void put_svg(const ms_plans *plans, const char *name, bool wide, FILE *to)
{
    const ms_frame f = ms_frame_svg(plans, wide);

    fprintf(to, "set terminal svg size %.0f,%.0f dynamic butt noenhanced font 'inherit,%.0f'\n",
            f.width, f.height, f.font);
    for (size_t i = 0; i < plans->figure->n; i++) {
        fprintf(to, "set output '%s-%zu%s.svg'\n", name, i, wide ? "w" : "");
        put_frame(&f, &plans->at[i], &svg_brush, to);
        put_panel(plans, i, name, &f, &svg_brush, to);
        fputs("unset output\n", to);
    }
}

void ms_script_svg(const ms_plans *plans, const char *name, FILE *to)
{
    put_svg(plans, name, false, to);
    if (plans->figure->n == 1) put_svg(plans, name, true, to);
}

bool ms_legend_entry(const ms_figure *f, size_t panel, size_t curve, ms_style *style)
{
    const ms_curve *c = &f->panels[panel].curves[curve];

    *style = c->style;
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->panels[i].n; k++) {
            const ms_curve *other  = &f->panels[i].curves[k];
            const bool      before = i < panel || (i == panel && k < curve);
            if (strcmp(other->label, c->label) != 0) continue;
            if (before) return false;
            if (style->mark <= 0) style->mark = other->style.mark;
        }
    return true;
}

static void put_sample(const ms_frame *f, const brush *b, double x, double y, double wide,
                       ms_style style, bool bar, FILE *to)
{
    const char *dash = ms_dash_lengths(style.dash);

    fprintf(to, "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead lw %.2f lc rgb '%s'",
            x / f->width, 1.0 - y / f->height, (x + wide) / f->width, 1.0 - y / f->height,
            bar ? 4.0 * b->line : 1.2 * b->line, style.colour);
    if (dash[0] != '\0' && !bar) fprintf(to, " dt (%s)", dash);
    putc('\n', to);
    if (style.mark > 0 && !bar)
        fprintf(to, "set label '' at screen %.5f,%.5f point pt %d ps %.3f lc rgb '%s'\n",
                (x + 0.5 * wide) / f->width, 1.0 - y / f->height, style.mark, 1.2 * b->mark,
                style.colour);
}

/* The legend: a sample and a name of each label, in as many rows as it takes.  Without a file it is
 * only measured: the number of rows is returned. */
static size_t put_legend(const ms_plans *plans, const ms_frame *f, const brush *b, double top,
                         FILE *to)
{
    const double font = 0.95 * f->font, gap = 1.6 * font, sample = 2.4 * font;
    double       x = font, y = top + font;
    size_t       rows = 0;

    for (size_t i = 0; i < plans->figure->n; i++)
        for (size_t k = 0; k < plans->figure->panels[i].n; k++) {
            const ms_curve *c    = &plans->figure->panels[i].curves[k];
            const double    wide = sample + 0.5 * font + text_width(c->label, font) + gap;
            ms_style        style;
            if (!ms_legend_entry(plans->figure, i, k, &style)) continue;
            if (rows == 0) rows = 1;
            if (x > font && x + wide - gap > f->width - font) {
                x = font;
                y += 1.7 * font;
                rows++;
            }
            if (to != NULL) {
                put_sample(f, b, x, y, sample, style, plans->figure->panels[i].bars, to);
                put_words(
                    f, b,
                    (words){ .x = x + sample + 0.5 * font, .y = y, .size = 0.95, .side = "left" },
                    c->label, to);
            }
            x += wide;
        }
    return rows;
}

void ms_script_png(const ms_plans *plans, const char *name, FILE *to)
{
    static const struct {
        double wide, high, font;
    } cells[] = {
        { 1800.0, 1060.0, 44.0 },
        { 1000.0, 720.0, 34.0 },
        { 800.0, 580.0, 28.0 },
    };
    const size_t n      = plans->figure->n;
    const size_t across = n == 4 ? 2 : n < 3 ? n : 3, down = (n + across - 1) / across;
    const double cell_w = cells[across - 1].wide, cell_h = cells[across - 1].high;
    ms_frame     canvas = { .width = cell_w * (double)across, .font = cells[across - 1].font };
    const brush  b      = { "#1f2328",         "#D81f2328",        "#701f2328", "DejaVu Sans:Bold",
                            canvas.font / 7.5, canvas.font / 14.0, false };
    const double head   = 2.2 * canvas.font;
    size_t       rows   = put_legend(plans, &canvas, &b, 0.0, NULL);
    double       foot;

    canvas.height = head + cell_h * (double)down + (1.7 * (double)rows + 0.8) * canvas.font;
    foot          = head + cell_h * (double)down;
    fprintf(to,
            "set terminal pngcairo size %.0f,%.0f noenhanced butt background '#ffffff' "
            "font 'DejaVu Sans,%.1f' fontscale 0.75\nset output '%s.png'\nset multiplot\n",
            canvas.width, canvas.height, canvas.font, name);
    for (size_t i = 0; i < n; i++) {
        const size_t   row = i / across, column = i % across;
        const ms_frame f = frame_in(plans, canvas, cell_w * (double)column,
                                    head + cell_h * (double)row, cell_w, cell_h);
        put_frame(&f, &plans->at[i], &b, to);
        if (i == 0) {
            put_words(&f, &b,
                      (words){ .x    = 0.5 * canvas.width,
                               .y    = 1.2 * canvas.font,
                               .size = 1.2,
                               .side = "center",
                               .room = 0.9 * canvas.width,
                               .bold = true },
                      plans->figure->title, to);
            put_legend(plans, &canvas, &b, foot, to);
        }
        put_panel(plans, i, name, &f, &b, to);
    }
    fputs("unset multiplot\nunset output\n", to);
}
