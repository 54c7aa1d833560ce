/* page_test.c - the files of a report: the page, its pictures, its numbers as CSV.
 *
 * `page_test --demo DIR` writes the page of examples there, with its pictures and CSV files, for
 * tests/cli/report_page.sh to open in a browser. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpe_rig.h"
#include "demo_page.h"
#include "report/png.h"
#include "scratch.h"

static char *whole_file(const char *path, size_t *bytes) /* to be freed */
{
    char *text = bpe_rig_read(path, bytes);
    CHECK(text != NULL, "%s", path);
    return text;
}

static void check_same(const char *a, const char *b, const char *name)
{
    size_t n, m;
    char  *x = whole_file(path_in(a, name), &n), *y = whole_file(path_in(b, name), &m);
    CHECK(n == m && memcmp(x, y, n) == 0, "%s differs", name);
    free(x), free(y);
}

static musec_status write_demo(ms_error *e, const char *dir)
{
    ms_page      page;
    musec_status st;

    demo_page_make(&page);
    st = ms_page_write(
        e, &page,
        &(ms_page_files){ .html = path_in(dir, "demo.html"), .png_dir = dir, .csv_dir = dir });
    ms_page_free(&page);
    return st;
}

TEST(a_page_written_twice_has_the_same_bytes)
{
    static const char *const names[] = { "demo.html", "loss-lr.png", "training.csv",
                                         "stability.csv" };
    const char              *a = fresh_dir(), *b = fresh_dir();
    ms_error                 e;

    if (ms_png_ready(&e) != MUSEC_OK) SKIP("%s", e.text);
    CHECK_OK_ERR(&e, write_demo(&e, a));
    CHECK_OK_ERR(&e, write_demo(&e, b));
    for (size_t i = 0; i < COUNT(names); i++)
        check_same(a, b, names[i]);
}

TEST(the_page_refers_to_nothing_outside)
{
    static const char *const never[] = { "src=",   "<link",   "@import", "url(", "http:",
                                         "https:", "onclick", "<i>",     "tmp",  "\xff" };
    static const char *const has[]   = {
          "<!doctype html>\n<html lang=\"en\">",
          "<meta charset=\"utf-8\">",
          "<meta name=\"viewport\"",
          "<title>A page of examples &lt;&amp;&gt;</title>",
          "prefers-color-scheme: dark",
          "<a href=\"#learning-rate\">",
          "<section id=\"learning-rate\">",
          "<figure class=\"plots\" id=\"figure-loss-lr\">",
          "<figure class=\"table\" id=\"table-stability\">",
          "&lt;i&gt;this is no markup&lt;/i&gt; &amp; neither",
          "<li class=\"key\" data-label=\"Soft Musec\">",
          "Figures 1, 4 and 5 of the paper",
          "<h1>A page of examples &lt;&amp;&gt;</h1>\n<p "
            "class=\"headline\">The result in a sentence, &lt;6&gt; "
            "words.</p>\n<ul class=\"counts\">\n"
            "<li class=\"badge b-holds\">1 holds</li>\n"
            "<li class=\"badge b-does-not-hold\">1 does not",
          "best loss.\n<details class=\"notes\">\n<summary>How this "
            "is made</summary>\n<p>Of &lt;formulas&gt;, 6 of"
            " them.</p>\n<p>Another paragraph.</p>\n</details>\n</figcaption>",
          "<footer>\n<p>Page made by musec ",
          "<p>Made on a machine &amp; on a day.</p>\n</footer>",
          "<div class=\"panels one\">\n<div class=\"panel large\">",
          "<span class=\"badge b-not-tested-here\">"
    };
    const char *dir = fresh_dir();
    ms_error    e;
    size_t      bytes;
    char       *text;

    if (ms_png_ready(&e) != MUSEC_OK) SKIP("%s", e.text);
    CHECK_OK_ERR(&e, write_demo(&e, dir));
    text = whole_file(path_in(dir, "demo.html"), &bytes);
    for (size_t i = 0; i < COUNT(has); i++)
        CHECK(strstr(text, has[i]) != NULL, "no %s", has[i]);
    for (char *at = text; (at = strstr(at, "url(#")) != NULL;)
        memset(at, '-', 5); /* a reference within the page is allowed */
    for (char *at = text; (at = strstr(at, "http://www.w3.org/2000/svg")) != NULL;)
        memset(at, '-', 26); /* the namespace is never fetched */
    for (size_t i = 0; i < COUNT(never); i++)
        CHECK(strstr(text, never[i]) == NULL, "%s: %.80s", never[i], strstr(text, never[i]));
    free(text);
}

static ms_figure small_figure(const char *id)
{
    ms_figure f;
    ms_panel *p;
    ms_curve *c;

    ms_figure_begin(&f, id, "t", "c");
    ms_figure_panel(&f, "", "x", "y");
    p = ms_figure_panel(&f, "a, b", "x", "y");
    c = ms_panel_curve(&f, p, "say \"A\"", ms_style_of("muon"));
    ms_curve_point(&f, c, (ms_point){ .x = 0.1, .y = 1.0 / 3.0, .low = NAN, .high = NAN }, NULL);
    ms_curve_point(&f, c, (ms_point){ 1e-300, 2.0, 1.5, 2.5, false, NULL, 3, false, 2 }, NULL);
    ms_curve_point(
        &f, c, (ms_point){ .x = 3.0, .y = NAN, .low = NAN, .high = NAN, .diverged = true }, NULL);
    ms_panel_symbols(&f, p);
    return f;
}

static ms_page small_page(const char *figure_id, const char *table_id)
{
    ms_page     page;
    ms_section *s;
    ms_figure   f = small_figure(figure_id == NULL ? "" : figure_id);
    ms_table    t = { .align = "l" };

    ms_table_add(&t, "head");
    ms_table_add(&t, "1,5");
    ms_page_begin(&page, "title", NULL);
    s = ms_page_section(&page, "one", "One", "");
    if (figure_id != NULL) ms_section_figure(&page, s, &f);
    ms_section_table(&page, s, table_id, "", &t);
    CHECK(t.cells == NULL && (figure_id == NULL || f.panels == NULL), "they were taken over");
    ms_figure_free(&f);
    return page;
}

/* CSV files and the page need no other program; PNG files do. */
TEST(csv_files_hold_all_numbers_of_figures_and_tables)
{
    static const char want[] =
        "panel,curve,x,y,low,high,diverged,stalled\r\n"
        "\"a, b\",\"say \"\"A\"\"\",0.1,0.3333333333333333,,,0,0\r\n"
        "\"a, b\",\"say \"\"A\"\"\",1e-300,2,1.5,2.5,3,2\r\n" /* its cross has no row */
        "\"a, b\",\"say \"\"A\"\"\",3,,,,1,0\r\n";
    const char *dir = fresh_dir();
    const char *csv = path_in(dir, "new/csv");
    char        saved[4096];
    ms_page     page = small_page("fig", "tab");
    ms_error    e;
    blob        b;

    snprintf(saved, sizeof saved, "%s", getenv("PATH"));
    setenv("PATH", dir, 1); /* no rsvg-convert there */
    CHECK_OK_ERR(&e, ms_page_write(&e, &page, &(ms_page_files){ .csv_dir = csv }));
    get_file(path_in(csv, "fig.csv"), &b);
    CHECK(b.n == sizeof want - 1 && memcmp(b.p, want, b.n) == 0, "%.*s", (int)b.n, b.p);
    get_file(path_in(csv, "tab.csv"), &b);
    CHECK(b.n == 13 && memcmp(b.p, "head\r\n\"1,5\"\r\n", b.n) == 0, "%.*s", (int)b.n, b.p);
    CHECK(ms_page_write(&e, &page,
                        &(ms_page_files){ .html    = path_in(dir, "x.html"),
                                          .png_dir = path_in(dir, "png"),
                                          .csv_dir = path_in(dir, "x") }) == MUSEC_ENOTSUP,
          "no rsvg-convert");
    CHECK(access(path_in(dir, "x.html"), F_OK) != 0 && access(path_in(dir, "x"), F_OK) != 0,
          "nothing is written");
    CHECK_OK_ERR(&e, ms_page_write(&e, &page, &(ms_page_files){ .html = path_in(dir, "x.html") }));
    CHECK(access(path_in(dir, "x.html"), F_OK) == 0, "a page");
    ms_page_free(&page);
    setenv("PATH", saved, 1);
}

TEST(tables_of_more_than_40_rows_are_folded)
{
    const char *dir = fresh_dir();

    for (int rows = 40; rows <= 41; rows++) {
        ms_page             page;
        ms_table            t     = { .align = "lr" };
        const ms_page_files files = { .html = path_in(dir, "long.html") };
        ms_error            e;
        size_t              bytes;
        char               *text;

        for (int i = 0; i < 2 * (rows + 1); i++)
            ms_table_add(&t, "%d", i);
        ms_page_begin(&page, "title", NULL);
        ms_section_table(&page, ms_page_section(&page, "one", "One", ""), "long", "", &t);
        CHECK_OK_ERR(&e, ms_page_write(&e, &page, &files));
        text = whole_file(files.html, &bytes);
        CHECK((strstr(text, "<summary>41 rows</summary>") != NULL) == (rows == 41), "%d", rows);
        CHECK((strstr(text, "<details>") != NULL) == (strstr(text, "</details>") != NULL), "both");
        free(text);
        ms_page_free(&page);
    }
}

TEST(names_that_cannot_be_file_names_are_refused)
{
    static const struct {
        const char *figure, *table, *says;
    } cases[]       = { { "a", "a", "two figures or tables called a" },
                        { "../a", "b", "cannot be called '../a'" },
                        { "a", "", "cannot be called ''" },
                        { "a b", "c", "cannot be called 'a b'" } };
    const char *dir = fresh_dir();
    ms_page     page;
    ms_error    e;

    for (size_t i = 0; i < COUNT(cases); i++) {
        page = small_page(cases[i].figure, cases[i].table);
        CHECK_FAILS(&e, ms_page_write(&e, &page, &(ms_page_files){ .csv_dir = dir }), MUSEC_EINVAL,
                    cases[i].says);
        ms_page_free(&page);
    }
    page = small_page("a", "b");
    ms_page_section(&page, "one", "Again", "");
    CHECK(ms_page_write(&e, &page, &(ms_page_files){ .csv_dir = dir }) == MUSEC_EINVAL,
          "two sections");
    page.out_of_memory = true;
    CHECK(ms_page_write(&e, &page, &(ms_page_files){ .csv_dir = dir }) == MUSEC_ENOMEM, "lost");
    ms_page_free(&page);
    page = small_page(NULL, "b");
    CHECK_FAILS(&e,
                ms_page_write(&e, &page, &(ms_page_files){ .html = path_in(dir, "none/x.html") }),
                MUSEC_EIO, "none/x.html");
    ms_page_free(&page);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--demo") == 0) {
        ms_error           e;
        const musec_status st = write_demo(&e, argv[2]);
        if (st != MUSEC_OK) fprintf(stderr, "page_test: %s\n", e.text);
        return st != MUSEC_OK;
    }
    return check_main();
}
