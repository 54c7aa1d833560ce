/* draw_test.c - what comes back from gnuplot: complete, at the right place, without its habits. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/draw.h"
#include "report/script.h"
#include "scratch.h"

static ms_point at(double x, double y)
{
    return (ms_point){ x, y, NAN, NAN, false, NULL, 0, false, 0 };
}
static ms_point gone(double x) { return (ms_point){ x, NAN, NAN, NAN, true, NULL, 0, false, 0 }; }

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

static void need_gnuplot(void)
{
    ms_error e;
    if (ms_draw_ready(&e) != MUSEC_OK) SKIP("%s", e.text);
}

static ms_drawing draw(const ms_figure *f)
{
    ms_drawing d;
    ms_error   e;
    CHECK_OK_ERR(&e, ms_draw(&e, f, 1, &d, NULL));
    CHECK(d.n == f->n, "%zu of %zu panels", d.n, f->n);
    return d;
}

/* The number after `key`, which stands after `from` in the text. */
static double number_after(const char *text, const char *from, const char *key)
{
    const char *place = strstr(text, from);
    CHECK(place != NULL, "no %s", from);
    place = strstr(place, key);
    CHECK(place != NULL, "no %s after %s", key, from);
    return strtod(place + strlen(key), NULL);
}

TEST(points_lie_on_their_curve)
{
    ms_figure   f;
    ms_panel   *p;
    ms_curve   *c;
    ms_drawing  d;
    const char *circle, *line;

    need_gnuplot();
    ms_figure_begin(&f, "id", "title", "");
    p        = ms_figure_panel(&f, "", "rate", "loss");
    p->x_log = true;
    c        = ms_panel_curve(&f, p, "A", (ms_style){ "#0072b2", 0, 7 });
    ms_curve_point(&f, c, at(0.02, 3.0), "first");
    ms_curve_point(&f, c, at(0.1, 2.0), "second");
    ms_curve_point(&f, c, at(2.0, 4.0), NULL);
    d = draw(&f);

    /* gnuplot's line goes through our circles ... */
    line   = strstr(d.svg[0], "class=\"curve line\" data-label=\"A\"");
    circle = strstr(d.svg[0], "class=\"points\"");
    CHECK(line != NULL && circle != NULL, "%s", d.svg[0]);
    for (int i = 0; i < 3; i++) {
        double x, y;
        char  *rest;
        line = strpbrk(i == 0 ? strstr(line, " d='M") : line + 1, "ML");
        CHECK(line != NULL, "point %d of the line", i);
        x = strtod(line + 1, &rest);
        CHECK(*rest == ',', "%.60s", line);
        y      = strtod(rest + 1, NULL);
        circle = strstr(circle + 1, "<circle");
        CHECK(circle != NULL, "circle %d", i);
        CHECK(fabs(number_after(circle, "<circle", "cx=\"") - x) < 0.1, "%.60s", circle);
        CHECK(fabs(number_after(circle, "<circle", "cy=\"") - y) < 0.1, "%.60s", circle);
    }
    /* ... and 0.1 lies above the tick that says so. */
    circle = strstr(d.svg[0], "<text>0.1</text>");
    CHECK(circle != NULL, "a tick at 0.1");
    while (strncmp(circle, "translate(", 10) != 0)
        circle--;
    CHECK(fabs(strtod(circle + 10, NULL) -
               number_after(strstr(strstr(d.svg[0], "class=\"points\""), "<circle") + 1, "<circle",
                            "cx=\"")) < 0.1,
          "%.60s", circle);
    CHECK(strstr(d.svg[0], "<title>second</title>") != NULL, "its words");
    CHECK(strstr(d.svg[0], "<title>A: rate 2, 4</title>") != NULL, "words made of the numbers");
    ms_drawing_free(&d);
    ms_figure_free(&f);
}

/* How many points of the drawing's first line have a y within 0.1 of `edge`, on the canvas. */
static int points_at(const char *svg, double edge)
{
    const char *line = strstr(svg, "class=\"curve line\"");
    const char *end  = line == NULL ? NULL : strstr(line, "</g>");
    int         n    = 0;

    CHECK(end != NULL, "%s", svg);
    while ((line = strpbrk(line + 1, "ML")) != NULL && line < end) {
        char *rest;
        strtod(line + 1, &rest);
        if (rest == line + 1 || *rest != ',') continue;
        n += fabs(strtod(rest + 1, NULL) - edge) < 0.1;
    }
    return n;
}

/* A line above the panel's top is not drawn along the edge: it touches it where it leaves and where
 * it comes back, also below a lane of crosses. */
TEST(lines_that_leave_make_no_plateau)
{
    need_gnuplot();
    for (int crosses = 0; crosses < 2; crosses++) {
        static const double y[] = { 9.0, 8.0, 7.0, 1.0, 1.5, 6.0, 7.0, 8.0, 1.2 };
        ms_figure           f;
        ms_panel           *p;
        ms_curve           *c;
        ms_drawing          d;
        double              top;

        ms_figure_begin(&f, "id", "title", "");
        p        = ms_figure_panel(&f, "", "step", "loss");
        p->y_top = 2.0;
        c        = ms_panel_curve(&f, p, "A", (ms_style){ "#0072b2", 0, 0 });
        for (size_t i = 0; i < COUNT(y); i++)
            ms_curve_point(&f, c, at((double)i, y[i]), NULL);
        c = ms_panel_curve(&f, p, "B", (ms_style){ "#d04f00", 0, 0 });
        if (crosses) ms_curve_point(&f, c, gone(4.0), NULL);
        d   = draw(&f);
        top = number_after(strstr(d.svg[0], "class=\"points\""), "<circle", "cy=\""); /* of 9 */
        CHECK(points_at(d.svg[0], top) == 3, "%d points at the edge: %s", points_at(d.svg[0], top),
              d.svg[0]);
        ms_drawing_free(&d);
        ms_figure_free(&f);
    }
}

/* For a page as wide as a desk, and for a phone; a row of panels fills the width by itself. */
TEST(a_panel_alone_is_drawn_wide_too)
{
    ms_figure  f;
    ms_drawing d;

    need_gnuplot();
    for (size_t n = 1; n <= 2; n++) {
        ms_figure_begin(&f, "id", "title", "");
        for (size_t i = 0; i < n; i++) {
            ms_curve *c = ms_panel_curve(&f, ms_figure_panel(&f, "", "x", "y"), "A",
                                         (ms_style){ "#0072b2", 0, 7 });
            ms_curve_point(&f, c, at(1.0, 1.0), NULL);
            ms_curve_point(&f, c, at(2.0, 0.125), NULL);
        }
        d = draw(&f);
        CHECK((d.wide != NULL) == (n == 1), "%zu panels", n);
        if (n == 1) {
            const double w = number_after(d.wide, "<svg", "viewBox=\"0 0 ");
            CHECK(w > 2.0 * number_after(d.svg[0], "<svg", "viewBox=\"0 0 "), "%g wide", w);
            CHECK(count(d.wide, "<circle") == 2 && count(d.wide, "class=\"curve line\"") == 1,
                  "the same curve");
        }
        CHECK(strstr(d.svg[0], "data-x=\"2\" data-y=\"0.125\"><title>") != NULL, "%s", d.svg[0]);
        ms_drawing_free(&d);
        ms_figure_free(&f);
    }
}

/* Nothing of gnuplot's document is left, and ink is the page's. */
TEST(svg_is_fit_for_a_page)
{
    static const char *const never[] = { "<?xml",  "<!DOCTYPE", "<script", "Gnuplot",   "GNUPLOT",
                                         " id=",   "gpPt",      "<defs",   "<filter",   "xlink",
                                         "rgb(1,", "rgb(  1, ", "black",   " width=\"", " on" };
    ms_figure                f;
    ms_panel                *p;
    ms_drawing               d;

    need_gnuplot();
    ms_figure_begin(&f, "id", "title", "");
    p = ms_figure_panel(&f, "a<b & \"c\" 'd' \xcf\x83", "x", "y");
    for (int mark = 1; mark <= 15; mark++) {
        char      label[16];
        ms_curve *c;
        snprintf(label, sizeof label, "<%d>", mark);
        c = ms_panel_curve(&f, p, label, (ms_style){ "#0072b2", mark % 4, mark });
        ms_curve_point(
            &f, c, (ms_point){ 1.0, mark, mark - 0.5, mark + 0.5, false, NULL, 0, false, 0 }, NULL);
        ms_curve_point(
            &f, c, (ms_point){ 2.0, mark, mark - 0.5, mark + 0.5, false, NULL, 0, false, 0 }, NULL);
        ms_curve_point(&f, c, gone(3.0), NULL);
    }
    ms_panel_rule(&f, p, 1.5, "stage <2>");
    d = draw(&f);
    CHECK(strncmp(d.svg[0], "<svg ", 5) == 0, "%.40s", d.svg[0]);
    CHECK(strcmp(d.svg[0] + strlen(d.svg[0]) - 6, "</svg>") == 0, "its end");
    for (size_t i = 0; i < COUNT(never); i++)
        CHECK(strstr(d.svg[0], never[i]) == NULL, "%s is still there", never[i]);
    CHECK(strstr(d.svg[0], "a&lt;b &amp; &quot;c&quot; &#39;d&#39; \xcf\x83: y against x") != NULL,
          "its name");
    CHECK(strstr(d.svg[0], "<text>stage &lt;2") != NULL, "the rule");
    CHECK(strstr(d.svg[0], "<text>diverged</text>") != NULL, "the lane");
    CHECK(count(d.svg[0], "class=\"curve band\"") == 15, "bands");
    CHECK(count(d.svg[0], "class=\"curve line\"") == 15, "lines");
    CHECK(count(d.svg[0], "class=\"curve dots\"") == 15, "marks");
    CHECK(count(d.svg[0], "class=\"curve lost\"") == 15, "crosses");
    CHECK(count(d.svg[0], "<g") == count(d.svg[0], "</g>"), "groups end");
    CHECK(count(d.svg[0], "data-label=\"&lt;7&gt;\"") == 5, "each names its curve");
    CHECK(count(d.svg[0], "<circle") == 45, "%d points", count(d.svg[0], "<circle"));
    ms_drawing_free(&d);
    ms_figure_free(&f);
}

TEST(whatever_there_is_is_drawn)
{
    static const double values[] = { 0.0, -1.0, 1e-320, 1e300, -1e308, INFINITY, NAN, 3.0 };
    ms_figure           f;
    ms_drawing          d;

    need_gnuplot();
    ms_figure_begin(&f, "id", "", "");
    ms_figure_panel(&f, "nothing", "x", "y");
    ms_panel_curve(&f, ms_figure_panel(&f, "an empty curve", "x", "y"), "A", ms_style_of("muon"));
    for (int kind = 0; kind < 8; kind++) {
        ms_panel *p = ms_figure_panel(&f, "odd values", "x", "y");
        p->x_log    = kind & 1;
        p->y_log    = kind & 2;
        p->bars     = kind & 4;
        p->y_top    = kind == 3 ? 2.0 : NAN;
        for (size_t i = 0; i < COUNT(values); i++) {
            ms_curve *c = ms_panel_curve(&f, p, i == 0 ? "" : "B", ms_style_step(i, COUNT(values)));
            for (size_t k = 0; k < COUNT(values); k++)
                ms_curve_point(&f, c,
                               (ms_point){ values[i], values[k], values[i], values[k], k == 2, NULL,
                                           0, false, 0 },
                               NULL);
        }
    }
    for (int log = 0; log < 2; log++) {
        ms_panel *p = ms_figure_panel(&f, "all diverged", "x", "y");
        p->x_log = p->y_log = log;
        for (int i = 0; i < 30; i++) {
            ms_curve *c = ms_panel_curve(&f, p, "C", ms_style_of("muon"));
            ms_curve_point(&f, c, gone(i % 3), NULL);
        }
    }
    d = draw(&f);
    CHECK(strstr(d.svg[0], "no data") != NULL && strstr(d.svg[1], "no data") != NULL, "says so");
    for (size_t i = 0; i < d.n; i++) {
        CHECK(strstr(d.svg[i], "=\"nan\"") == NULL, "panel %zu", i);
        CHECK(count(d.svg[i], "<g") == count(d.svg[i], "</g>"), "panel %zu", i);
    }
    ms_drawing_free(&d);
    ms_figure_free(&f);
}

TEST(long_curves_stay_small)
{
    ms_figure  f;
    ms_panel  *p;
    ms_drawing d;

    need_gnuplot();
    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "step", "loss");
    for (size_t k = 0; k < 10; k++) {
        ms_curve *c = ms_panel_curve(&f, p, "A", ms_style_step(k, 10));
        for (int i = 0; i < 8000; i++)
            ms_curve_point(&f, c, at(i, sin(i * 12.9898 + (double)k) + 0.001 * i), NULL);
    }
    d = draw(&f);
    CHECK(strlen(d.svg[0]) < 400000, "%zu bytes", strlen(d.svg[0]));
    CHECK(count(d.svg[0], "<circle") <= 1500, "%d points", count(d.svg[0], "<circle"));
    ms_drawing_free(&d);
    ms_figure_free(&f);
}

/* Labels are words: gnuplot runs nothing of them, neither do they leave their place. */
TEST(labels_are_not_commands)
{
    const char *dir = fresh_dir();
    char        here[512], words[4096];
    ms_figure   f;
    ms_panel   *p;
    ms_drawing  d;

    need_gnuplot();
    snprintf(here, sizeof here, "%s", dir);
    snprintf(words, sizeof words,
             "'; system('touch %s/a'); set output '%s/b'; '`touch %s/c`\n!touch %s/d\n\"\\n{/=99 "
             "x}_@\xff",
             here, here, here, here);
    ms_figure_begin(&f, "id", words, words);
    p = ms_figure_panel(&f, words, words, words);
    ms_curve_point(&f, ms_panel_curve(&f, p, words, ms_style_of("muon")), at(1.0, 1.0), "%s",
                   words);
    ms_panel_rule(&f, p, 1.0, words);
    d = draw(&f);
    CHECK(files_in(here) == 0, "something ran");
    CHECK(strstr(d.svg[0], "{/=99 x}_@\xef\xbf\xbd") != NULL, "they stand there as they are");
    ms_drawing_free(&d);
    ms_figure_free(&f);
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

TEST(pictures_are_wide_and_the_workshop_is_gone)
{
    char       workshop[512], pictures[512];
    ms_figure  figures[4];
    ms_drawing drawings[4];
    double     rows[4]; /* heights, in widths */
    ms_error   e;

    need_gnuplot();
    snprintf(workshop, sizeof workshop, "%s/it's a workshop", fresh_dir());
    CHECK(mkdir(workshop, 0777) == 0, "%s", workshop);
    snprintf(pictures, sizeof pictures, "%s/new/pictures", fresh_dir());
    setenv("TMPDIR", workshop, 1);
    for (size_t i = 0; i < COUNT(figures); i++) {
        char id[16];
        snprintf(id, sizeof id, "f%zu", i);
        ms_figure_begin(&figures[i], id, "title", "");
        for (size_t k = 0; k < 2 * i; k++) /* none, 2, 4, 6 panels */
            ms_curve_point(&figures[i],
                           ms_panel_curve(&figures[i], ms_figure_panel(&figures[i], "p", "x", "y"),
                                          "A", ms_style_of("muon")),
                           at(1.0, 1.0), NULL);
    }
    CHECK_OK_ERR(&e, ms_draw(&e, figures, COUNT(figures), drawings, pictures));
    CHECK(files_in(workshop) == 0, "the workshop is empty");
    CHECK(files_in(pictures) == 3, "three pictures");
    for (size_t i = 1; i < COUNT(figures); i++) {
        char          name[16];
        unsigned char head[24];
        FILE         *png;
        snprintf(name, sizeof name, "f%zu.png", i);
        png = fopen(path_in(pictures, name), "rb");
        CHECK(png != NULL && fread(head, 1, sizeof head, png) == sizeof head, "%s", name);
        fclose(png);
        CHECK(memcmp(head, "\x89PNG", 4) == 0 && big_endian(head + 16) >= 1800, "%u wide",
              big_endian(head + 16));
        rows[i] = (double)big_endian(head + 20) / big_endian(head + 16);
    }
    CHECK(rows[2] > 1.6 * rows[1] && rows[3] < rows[2], "2, 2x2, 3x2 panels: %g %g %g", rows[1],
          rows[2], rows[3]);
    for (size_t i = 0; i < COUNT(figures); i++) {
        ms_drawing_free(&drawings[i]);
        ms_figure_free(&figures[i]);
    }
    unsetenv("TMPDIR");
}

TEST(failures_are_said)
{
    static const char fake[] = "#!/bin/sh\necho >&2\necho 'no such terminal' >&2\nexit 3\n";
    const char       *path   = getenv("PATH");
    char              saved[4096], bin[512], workshop[512];
    ms_figure         f;
    ms_drawing        d;
    ms_error          e;

    snprintf(saved, sizeof saved, "%s", path == NULL ? "" : path);
    snprintf(bin, sizeof bin, "%s", fresh_dir());
    snprintf(workshop, sizeof workshop, "%s", fresh_dir());
    ms_figure_begin(&f, "id", "", "");
    ms_figure_panel(&f, "", "", "");
    setenv("TMPDIR", workshop, 1);
    setenv("PATH", bin, 1);
    CHECK(ms_draw_ready(&e) == MUSEC_ENOTSUP, "there is none");
    CHECK(ms_draw(&e, &f, 1, &d, NULL) == MUSEC_ENOTSUP, "there is none");
    CHECK(strstr(e.text, "gnuplot-nox") != NULL && d.n == 0, "%s", e.text);

    put_file(path_in(bin, "gnuplot"), fake, sizeof fake - 1);
    CHECK(chmod(path_in(bin, "gnuplot"), 0755) == 0, "chmod");
    CHECK(ms_draw(&e, &f, 1, &d, NULL) == MUSEC_EIO, "it fails");
    CHECK(strstr(e.text, "exit 3") != NULL && strstr(e.text, "no such terminal") != NULL, "%s",
          e.text);

    put_file(path_in(bin, "gnuplot"), "#!/bin/sh\n", 10);
    CHECK(chmod(path_in(bin, "gnuplot"), 0755) == 0, "chmod");
    CHECK(ms_draw(&e, &f, 1, &d, NULL) == MUSEC_EIO, "it writes nothing: %s", e.text);

    CHECK(files_in(workshop) == 0, "the workshop is empty");
    setenv("TMPDIR", path_in(workshop, "none"), 1);
    CHECK(ms_draw(&e, &f, 1, &d, NULL) == MUSEC_EIO && strstr(e.text, "TMPDIR") != NULL, "%s",
          e.text);
    f.lost = true;
    CHECK(ms_draw(&e, &f, 1, &d, NULL) == MUSEC_ENOMEM, "a lost figure");
    CHECK_OK_ERR(&e, ms_draw(&e, NULL, 0, NULL, NULL));
    setenv("PATH", saved, 1);
    unsetenv("TMPDIR");
    ms_figure_free(&f);
}

/* Another gnuplot may write other SVG: what is not understood is an error, not a wrong picture. */
TEST(strange_svg_is_refused)
{
    static const char *const texts[] = { "", "<svg",
                                         "<svg><g id=\"gnuplot_plot_1\"><use/></g></svg>",
                                         "<svg></svg>", "words" };
    ms_figure                f;
    ms_panel                *p;
    ms_plan                  plan;
    ms_error                 e;

    ms_figure_begin(&f, "id", "", "");
    p = ms_figure_panel(&f, "", "", "");
    ms_curve_point(&f, ms_panel_curve(&f, p, "A", ms_style_of("muon")), at(1.0, 1.0), NULL);
    CHECK_OK_ERR(&e, ms_plan_make(&e, p, &plan));
    for (size_t i = 0; i < COUNT(texts); i++) {
        char          *out;
        const ms_frame frame = ms_frame_svg(&(ms_plans){ &f, &plan }, false);
        CHECK(ms_svg_finish(&e, texts[i], &plan, frame, &out) == MUSEC_EFORMAT && out == NULL,
              "case %zu", i);
    }
    ms_plan_free(&plan);
    ms_figure_free(&f);
}
