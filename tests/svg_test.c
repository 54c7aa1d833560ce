/* svg_test.c - a panel as SVG: complete, every value in its place, safe to embed in a page.
 *
 * The pictures of png.c are converted from the same SVG and are tested here too. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/png.h"
#include "report/svg.h"
#include "scratch.h"

static const ms_style plain = { "#0072b2", 0, MS_MARKER_NONE };
static const ms_style dots  = { "#0072b2", 0, MS_MARKER_CIRCLE };

static ms_point at(double x, double y)
{
    return (ms_point){ .x = x, .y = y, .low = NAN, .high = NAN };
}

static ms_point gone(double x) /* a run that diverged */
{
    return (ms_point){ .x = x, .y = NAN, .low = NAN, .high = NAN, .diverged = true };
}

/* A curve through (1, y[0]), (2, y[1]), ... */
static ms_curve *add_curve(ms_figure *f, ms_panel *p, const char *label, ms_style style,
                           const double *y, size_t n)
{
    ms_curve *c = ms_panel_curve(f, p, label, style);
    for (size_t i = 0; i < n; i++)
        ms_curve_point(f, c, at((double)i + 1.0, y[i]), NULL);
    return c;
}

static char *draw(const ms_figure *f, size_t panel, bool wide) /* to be freed */
{
    ms_figure_layout layout;
    ms_error         e;
    char            *text  = NULL;
    size_t           bytes = 0;
    FILE            *to    = open_memstream(&text, &bytes);

    CHECK(to != NULL, "memory");
    CHECK_OK_ERR(&e, ms_figure_layout_make(&e, f, &layout));
    ms_svg_panel(&layout, panel, wide, to);
    fclose(to);
    ms_figure_layout_free(&layout);
    return text;
}

/* Draws the figure's only panel and frees the figure. */
static char *draw_one(ms_figure *f)
{
    char *text = draw(f, 0, false);
    ms_figure_free(f);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

static int files_in(const char *path)
{
    DIR *dir = opendir(path);
    int  n   = 0;
    CHECK(dir != NULL, "%s", path);
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* What follows `from` in the text. */
static const char *after(const char *text, const char *from)
{
    const char *place = strstr(text, from);
    CHECK(place != NULL, "no %s in %.2000s", from, text);
    return place + strlen(from);
}

/* Point i of the path that follows, M1,2L3,4...; false if it has fewer points. */
static bool path_point(const char *path, int i, double *x, double *y)
{
    const char *end = strchr(path, '"');
    char       *rest;
    for (path -= 1; i >= 0; i--)
        if ((path = strpbrk(path + 1, "ML\"")) == end) return false;
    *x = strtod(path + 1, &rest);
    *y = strtod(rest + 1, NULL);
    return true;
}

TEST(points_lie_on_their_curve)
{
    ms_figure   f;
    ms_panel   *p;
    ms_curve   *c;
    const char *circle, *line;
    char       *svg;
    double      x, y;

    ms_figure_begin(&f, "id", "title", "");
    p        = ms_figure_panel(&f, "", "rate", "loss");
    p->x_log = true;
    c        = ms_panel_curve(&f, p, "A", dots);
    ms_curve_point(&f, c, at(0.02, 3.0), "first");
    ms_curve_point(&f, c, at(0.1, 2.0), "second");
    ms_curve_point(&f, c, at(2.0, 4.0), NULL);
    svg    = draw_one(&f);
    line   = after(after(svg, "class=\"curve line\" data-label=\"A\""), " d=\"");
    circle = after(svg, "class=\"points\"");
    for (int i = 0; i < 3; i++) {
        circle = after(circle, "<circle cx=\"");
        CHECK(path_point(line, i, &x, &y), "point %d of the line", i);
        CHECK(fabs(strtod(circle, NULL) - x) < 0.1, "%.60s", circle);
        CHECK(fabs(strtod(after(circle, "cy=\""), NULL) - y) < 0.1, "%.60s", circle);
    }
    /* the point at x 0.1 lies above the tick with that label */
    CHECK(path_point(line, 1, &x, &y), "the second point");
    for (line = svg; strncmp(strchr(line, '>'), ">0.1</text>", 11) != 0;)
        line = after(line, "<text x=\"");
    CHECK(fabs(strtod(line, NULL) - x) < 0.1, "%.60s", line);
    CHECK(strstr(svg, "<title>second</title>") != NULL, "its tip");
    CHECK(strstr(svg, "<title>A: rate 2, 4</title>") != NULL, "a tip made of the numbers");
    free(svg);
}

/* A line above the panel's top is clipped there, also below a lane of crosses, and is not drawn
 * along the edge.  To and from an infinite value it goes straight up. */
TEST(lines_that_leave_the_panel_are_clipped)
{
    static const double y[] = { 9.0, 1.0, INFINITY, 1.0, 8.0 };
    for (int crosses = 0; crosses < 2; crosses++) {
        ms_figure   f;
        ms_panel   *p;
        char       *svg;
        const char *inner, *line;
        double      top, edge, px, py, x[5], line_y[5];

        ms_figure_begin(&f, "id", "title", "");
        p        = ms_figure_panel(&f, "", "step", "loss");
        p->y_max = 2.0;
        add_curve(&f, p, "A", plain, y, COUNT(y));
        if (crosses) ms_curve_point(&f, ms_panel_curve(&f, p, "B", plain), gone(4.0), NULL);
        svg   = draw_one(&f);
        inner = after(svg, "<clipPath");
        top   = strtod(strchr(after(inner, " d=\"M"), ',') + 1, NULL);
        edge  = strtod(after(after(svg, "class=\"points\""), "cy=\""), NULL); /* of 9 */
        line  = after(after(inner, "class=\"curve line\""), " d=\"");
        CHECK(fabs(top - edge) < 0.1, "clipped at %g, the edge is at %g", top, edge);
        CHECK(strstr(inner, "<g clip-path=\"url(#clip-id-0-440)\">") < line, "%s", inner);
        for (int i = 0; i < 5; i++)
            CHECK(path_point(line, i, &x[i], &line_y[i]), "point %d", i);
        CHECK(!path_point(line, 5, &px, &py), "no more points");
        CHECK(line_y[0] < top && line_y[4] < top && line_y[1] > top && line_y[3] > top, "%s", line);
        /* from the point at 1, it has left the panel before it is a pixel to the right */
        CHECK((x[2] - x[1]) * (line_y[1] - top) / (line_y[1] - line_y[2]) < 1.0, "straight up");
        free(svg);
    }
}

/* The wide form is for a large screen, the other one for a phone. */
TEST(a_panel_has_a_wide_and_a_narrow_form)
{
    ms_figure f;
    char     *svg, *wide;

    ms_figure_begin(&f, "id", "title", "");
    add_curve(&f, ms_figure_panel(&f, "", "x", "y"), "A", dots, (double[]){ 1.0, 0.125 }, 2);
    svg  = draw(&f, 0, false);
    wide = draw(&f, 0, true);
    CHECK(strtod(after(wide, "viewBox=\"0 0 "), NULL) >
              2.0 * strtod(after(svg, "viewBox=\"0 0 "), NULL),
          "%.100s", wide);
    CHECK(strstr(wide, " id=\"clip-id-0-1120\"") != NULL, "an id of its own");
    CHECK(count(wide, "<circle") == 2 && count(wide, "class=\"curve line\"") == 1, "the same");
    CHECK(strstr(svg, "data-x=\"2\" data-y=\"0.125\"><title>") != NULL, "%s", svg);
    free(svg), free(wide);
    ms_figure_free(&f);
}

/* Text is escaped, only the clip path has an id, and the text colour is the page's. */
TEST(svg_is_safe_to_embed_in_a_page)
{
    static const char *const never[] = { "<?xml", "<!DOCTYPE", "<script", "<defs",
                                         "xlink", "black",     " on" };
    ms_figure                f;
    ms_panel                *p;
    char                    *svg;

    ms_figure_begin(&f, "id", "title", "");
    p = ms_figure_panel(&f, "a<b & \"c\" 'd' \xcf\x83\xff", "x", "y");
    for (int marker = 1; marker <= 15; marker++) {
        char      label[16];
        ms_point  point = { .y = marker, .low = marker - 0.5, .high = marker + 0.5 };
        ms_curve *c;
        snprintf(label, sizeof label, "<%d>", marker);
        c = ms_panel_curve(&f, p, label, (ms_style){ "#0072b2", marker % 4, marker });
        for (point.x = 1.0; point.x < 3.0; point.x += 1.0)
            ms_curve_point(&f, c, point, NULL);
        ms_curve_point(&f, c, gone(3.0), "%s", "</title><script>");
    }
    ms_panel_rule(&f, p, 1.5, "stage <2>");
    svg = draw_one(&f);
    CHECK(strncmp(svg, "<svg ", 5) == 0, "%.40s", svg);
    CHECK(strcmp(svg + strlen(svg) - 6, "</svg>") == 0, "its end");
    for (size_t i = 0; i < COUNT(never); i++)
        CHECK(strstr(svg, never[i]) == NULL, "%s", never[i]);
    CHECK(strstr(svg, "a&lt;b &amp; &quot;c&quot; &#39;d&#39; \xcf\x83\xef\xbf\xbd: y against x") !=
              NULL,
          "its name");
    CHECK(strstr(svg, ">stage &lt;2&gt;</text>") != NULL, "the rule");
    CHECK(strstr(svg, ">diverged</text>") != NULL, "the lane");
    CHECK(count(svg, "class=\"curve band\"") == 15, "bands");
    CHECK(count(svg, "class=\"curve line\"") == 15, "lines");
    CHECK(count(svg, "class=\"curve dots\"") == 15, "markers");
    CHECK(count(svg, "class=\"curve diverged\"") == 15, "crosses");
    CHECK(count(svg, "<g") == count(svg, "</g>"), "groups end");
    CHECK(count(svg, " id=") == 1, "the clip alone has an id");
    CHECK(count(svg, "data-label=\"&lt;7&gt;\"") == 5, "each names its curve");
    CHECK(count(svg, "<circle") == 45, "%d points", count(svg, "<circle"));
    free(svg);
}

/* Of two lines that coincide the dashed one is drawn later, so that the other is visible in its
 * gaps.  Among lines of one kind, the first curve is on top. */
TEST(dashed_lines_are_drawn_over_solid_ones)
{
    static const char *const order[] = { "c", "a", "b" };
    ms_figure                f;
    ms_panel                *p;
    char                    *svg;
    const char              *line;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    for (int k = 0; k < 3; k++)
        add_curve(&f, p, (const char *[]){ "a", "b", "c" }[k],
                  (ms_style){ "#000000", k == 1 ? 3 : 0, MS_MARKER_NONE }, (double[]){ 1.0, 2.0 },
                  2);
    line = svg = draw_one(&f);
    for (size_t i = 0; i < COUNT(order); i++) {
        line = after(line, "class=\"curve line\" data-label=\"");
        CHECK(*line == *order[i], "%zu: %.100s", i, line);
    }
    CHECK(strncmp(after(line, "stroke-dasharray=\""), "9,3,2,3\"", 8) == 0, "its dashes");
    free(svg);
}

/* A point of several seeds between neighbours of one seed has a stroke instead of a band. */
TEST(a_band_of_one_point_is_a_stroke)
{
    ms_figure f;
    ms_curve *c;
    char     *svg;

    ms_figure_begin(&f, "id", "", "");
    c = add_curve(&f, ms_figure_panel(&f, "", "", ""), "a", plain, (double[]){ 1.0 }, 1);
    ms_curve_point(&f, c, (ms_point){ .x = 2.0, .y = 2.0, .low = 1.5, .high = 2.5 }, NULL);
    ms_curve_point(&f, c, at(3.0, 1.0), NULL);
    svg = draw_one(&f);
    CHECK(count(svg, "class=\"curve ") == 2 && strstr(svg, "class=\"curve line\"") != NULL &&
              strstr(svg, "class=\"curve range\"") != NULL,
          "%s", svg);
    free(svg);
}

/* A value above the top is drawn at the edge with a marker of its own, alone or on a line. */
/* A name for each row, no legend, strokes along x, and room for all of them. */
TEST(rows_have_names_and_strokes_along_x)
{
    ms_figure f;
    ms_panel *p;
    ms_style  style;
    char     *svg, name[16];
    double    height;

    ms_figure_begin(&f, "id", "", "");
    p       = ms_figure_panel(&f, "", "", "steps");
    p->rows = true;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "row <%d>", i);
        ms_curve_point(&f, ms_panel_curve(&f, p, name, dots),
                       i == 7 ? gone(0.0)
                              : (ms_point){ 0.0, i, i - 1.0, i + 1.0, false, NULL, 0, false, 0 },
                       NULL);
    }
    CHECK(!ms_figure_legend_entry(&f, 0, 3, &style), "a legend would say it twice");
    svg = draw_one(&f);
    CHECK(count(svg, ">row &lt;39&gt;</text>") == 1 && count(svg, ">steps</text>") == 1, "%s", svg);
    CHECK(count(svg, "class=\"curve range\"") == 39 && count(svg, "class=\"curve diverged\"") == 1,
          "%s", svg);
    CHECK(strchr(after(svg, "class=\"curve range\""), 'H') != NULL, "%s", svg);
    height = strtod(after(svg, "viewBox=\"0 0 440 "), NULL);
    CHECK(height > 40.0 * 14.0, "%g high", height);
    free(svg);
}

TEST(values_above_the_top_are_marked)
{
    ms_figure   f;
    ms_panel   *p;
    char       *svg;
    const char *group;
    int         n = 0;

    ms_figure_begin(&f, "id", "", "");
    p        = ms_figure_panel(&f, "", "", "");
    p->y_max = 2.0;
    add_curve(&f, p, "a", dots, (double[]){ 1.0, 2.0, 9.0 }, 3);
    add_curve(&f, p, "b", dots, (double[]){ 9.0 }, 1);
    svg = draw_one(&f);
    CHECK(count(svg, "class=\"curve above\"") == 2, "%s", svg);
    group = after(svg, "class=\"curve dots\"");
    for (const char *end = strstr(group, "</g>"); (group = strstr(group, "<path")) && group < end;
         group++)
        n++;
    CHECK(count(svg, "class=\"curve dots\"") == 1 && n == 2, "%d dots", n);
    free(svg);
}

TEST(panels_of_odd_values_hold_no_nan_or_infinity)
{
    static const double      values[] = { 0.0, -1.0, 1e-320, 1e300, -1e308, INFINITY, NAN, 3.0 };
    static const char *const never[]  = { "=\"nan\"", "Mnan", "Lnan", "(nan", ",nan",
                                          "Minf",     "Linf", "(inf", ",inf", ",-inf" };
    ms_figure                f;

    ms_figure_begin(&f, "id", "", "");
    ms_figure_panel(&f, "nothing", "x", "y");
    ms_panel_curve(&f, ms_figure_panel(&f, "an empty curve", "x", "y"), "A", ms_style_of("muon"));
    for (int kind = 0; kind < 12; kind++) {
        ms_panel *p = ms_figure_panel(&f, "odd values", "x", "y");
        p->x_log    = kind & 1;
        p->y_log    = kind & 2;
        p->bars     = kind & 4;
        p->rows     = kind & 8;
        p->y_max    = kind == 3 ? 2.0 : NAN;
        for (size_t i = 0; i < COUNT(values); i++) {
            ms_curve *c = ms_panel_curve(&f, p, i == 0 ? "" : "B", ms_style_step(i, COUNT(values)));
            for (size_t k = 0; k < COUNT(values); k++)
                ms_curve_point(&f, c,
                               (ms_point){ values[i], values[(i + k) % COUNT(values)], values[i],
                                           values[k], k == 2, NULL, 0, false, 0 },
                               NULL);
        }
    }
    for (int log = 0; log < 2; log++) {
        ms_panel *p = ms_figure_panel(&f, "all diverged", "x", "y");
        p->x_log = p->y_log = log;
        for (int i = 0; i < 30; i++)
            ms_curve_point(&f, ms_panel_curve(&f, p, "C", ms_style_of("muon")), gone(i % 3), NULL);
    }
    for (size_t i = 0; i < f.n; i++) {
        char *svg = draw(&f, i, false);
        CHECK((strstr(svg, "no data") != NULL) == (i < 2), "panel %zu", i);
        for (size_t k = 0; k < COUNT(never); k++)
            CHECK(strstr(svg, never[k]) == NULL, "panel %zu: %s", i, never[k]);
        CHECK(count(svg, "<g") == count(svg, "</g>"), "panel %zu", i);
        free(svg);
    }
    ms_figure_free(&f);
}

TEST(panels_of_long_curves_stay_below_400_kb)
{
    ms_figure f;
    ms_panel *p;
    char     *svg;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "step", "loss");
    for (size_t k = 0; k < 10; k++) {
        ms_curve *c = ms_panel_curve(&f, p, "A", ms_style_step(k, 10));
        for (int i = 0; i < 8000; i++)
            ms_curve_point(&f, c, at(i, sin(i * 12.9898 + (double)k) + 0.001 * i), NULL);
    }
    svg = draw_one(&f);
    CHECK(strlen(svg) < 400000, "%zu bytes", strlen(svg));
    CHECK(count(svg, "<circle") <= 1500, "%d points", count(svg, "<circle"));
    free(svg);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

TEST(pictures_are_wide_and_as_high_as_their_panels)
{
    const char *pictures = path_in(fresh_dir(), "it's new/pictures");
    double      rows[4]  = { 0 }; /* heights, in widths */
    ms_error    e;

    if (ms_png_ready(&e) != MUSEC_OK) SKIP("%s", e.text);
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_figure     f;
        char          id[16], name[32];
        unsigned char head[24];
        FILE         *png;

        snprintf(id, sizeof id, "f%zu", i);
        ms_figure_begin(&f, id, "title \xff", "");
        for (size_t k = 0; k < 2 * i; k++) /* none, 2, 4, 6 panels */
            add_curve(&f, ms_figure_panel(&f, "p", "x", "y"), "A & B", dots, (double[]){ 1.0 }, 1);
        CHECK_OK_ERR(&e, ms_png_write(&e, &f, pictures));
        ms_figure_free(&f);
        if (i == 0) continue;
        snprintf(name, sizeof name, "%s.png", id);
        png = fopen(path_in(pictures, name), "rb");
        CHECK(png != NULL && fread(head, 1, sizeof head, png) == sizeof head, "%s", name);
        fclose(png);
        CHECK(memcmp(head, "\x89PNG", 4) == 0 && big_endian(head + 16) >= 1800, "%u wide",
              big_endian(head + 16));
        rows[i] = (double)big_endian(head + 20) / big_endian(head + 16);
    }
    CHECK(files_in(pictures) == 3, "three pictures and nothing else");
    CHECK(rows[2] > 1.6 * rows[1] && rows[3] < rows[2], "2, 2x2, 3x2 panels: %g %g %g", rows[1],
          rows[2], rows[3]);
}

TEST(failures_to_convert_are_reported)
{
    const char *path = getenv("PATH");
    const char *bin = fresh_dir(), *pictures = fresh_dir();
    char        saved[4096];
    ms_figure   f;
    ms_error    e;

    snprintf(saved, sizeof saved, "%s", path == NULL ? "" : path);
    ms_figure_begin(&f, "id", "", "");
    ms_figure_panel(&f, "", "", "");
    setenv("PATH", bin, 1);
    CHECK(ms_png_ready(&e) == MUSEC_ENOTSUP, "there is no program");
    CHECK_FAILS(&e, ms_png_write(&e, &f, pictures), MUSEC_ENOTSUP, "librsvg2-bin");

    put_text(path_in(bin, "rsvg-convert"), "#!/bin/sh\nexit 3\n");
    CHECK(chmod(path_in(bin, "rsvg-convert"), 0755) == 0, "chmod");
    CHECK_FAILS(&e, ms_png_write(&e, &f, pictures), MUSEC_EIO, "exit 3");
    put_text(path_in(bin, "rsvg-convert"), "#!/bin/sh\n");
    CHECK(chmod(path_in(bin, "rsvg-convert"), 0755) == 0, "chmod");
    CHECK(ms_png_write(&e, &f, pictures) == MUSEC_EIO, "it writes nothing: %s", e.text);
    CHECK(files_in(pictures) == 0, "nothing is left");
    CHECK(ms_png_write(&e, &f, path_in(bin, "rsvg-convert")) == MUSEC_EIO, "no directory");
    f.out_of_memory = true;
    CHECK(ms_png_write(&e, &f, pictures) == MUSEC_ENOMEM, "a lost figure");
    setenv("PATH", saved, 1);
    ms_figure_free(&f);
}
