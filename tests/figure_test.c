/* figure_test.c - figures built from panels, curves and points, and the styles of optimizers. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"

TEST(panels_curves_and_points_are_stored)
{
    ms_figure f;
    ms_panel *p;
    ms_curve *c;
    char      words[] = "a<b & \"c\"";

    ms_figure_begin(&f, "id", "title", "caption");
    for (int i = 0; i < 20; i++) {
        p = ms_figure_panel(&f, words, "x", "y");
        CHECK(isnan(p->y_max) && isnan(p->x_rule) && p->n == 0, "no limit and no rule");
        for (int k = 0; k < 20; k++) {
            c = ms_panel_curve(&f, p, words, (ms_style){ "#000000", 1, k });
            for (int j = 0; j < 20; j++)
                ms_curve_point(&f, c, (ms_point){ j, i, NAN, NAN, false, NULL, 0, false, 0 },
                               "%d %s", k, "%d");
        }
    }
    words[0] = 'z'; /* they are copies */
    CHECK(!f.out_of_memory && f.n == 20, "%zu panels", f.n);
    for (size_t i = 0; i < f.n; i++)
        for (size_t k = 0; k < f.panels[i].n; k++) {
            const ms_curve *curve = &f.panels[i].curves[k];
            CHECK(curve->n == 20 && curve->style.marker == (int)k, "curve %zu", k);
            CHECK(strcmp(curve->label, "a<b & \"c\"") == 0, "%s", curve->label);
            CHECK(curve->at[19].x == 19.0 && curve->at[19].y == (double)i, "its last point");
            CHECK(curve->at[19].tip[0] != '\0' && strstr(curve->at[19].tip, " %d") != NULL, "%s",
                  curve->at[19].tip);
        }
    ms_panel_rule(&f, &f.panels[0], 2.0, "once");
    ms_panel_rule(&f, &f.panels[0], 3.0, "twice");
    CHECK(f.panels[0].x_rule == 3.0 && strcmp(f.panels[0].rule_label, "twice") == 0, "the rule");
    ms_figure_free(&f);
    CHECK(f.n == 0 && f.panels == NULL, "empty again");
    ms_figure_free(&f);
}

TEST(missing_panels_and_curves_are_ignored)
{
    ms_figure f;

    ms_figure_begin(&f, "id", "", "");
    CHECK(ms_panel_curve(&f, NULL, "a", ms_style_of("muon")) == NULL, "no panel, no curve");
    ms_curve_point(&f, NULL, (ms_point){ 0 }, NULL);
    ms_panel_rule(&f, NULL, 1.0, "words");
    CHECK(!f.out_of_memory && f.n == 0, "nothing happened");
    ms_figure_free(&f);
}

static double channel(const char *colour, int which) /* linear light, 0..1 */
{
    char               *end;
    const unsigned long rgb = strtoul(colour + 1, &end, 16);
    const double        v   = (double)(rgb >> (16 - 8 * which) & 0xff) / 255.0;

    CHECK(colour[0] == '#' && strlen(colour) == 7 && *end == '\0', "%s", colour);
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static double brightness(const char *colour)
{
    return 0.2126 * channel(colour, 0) + 0.7152 * channel(colour, 1) + 0.0722 * channel(colour, 2);
}

/* The contrast with a white and with a nearly black page. */
static void check_contrast(const char *colour)
{
    const double light = brightness(colour);
    CHECK(1.05 / (light + 0.05) >= 2.0, "%s is too light for white paper", colour);
    CHECK((light + 0.05) / (brightness("#15191d") + 0.05) >= 2.0, "%s is too dark", colour);
}

TEST(optimizers_have_titles_and_different_styles)
{
    CHECK(strcmp(ms_optimizer_title("soft-musec"), "Soft Musec") == 0, "a title");
    CHECK(strcmp(ms_optimizer_title("ademamix"), "AdEMAMix") == 0, "a title");
    CHECK(strcmp(ms_optimizer_title("nosuch"), "nosuch") == 0, "its own name");
    for (size_t i = 0; ms_optimizer_at(i) != NULL; i++) {
        const char    *name = ms_optimizer_at(i)->name;
        const ms_style a    = ms_style_of(name);
        check_contrast(a.colour);
        CHECK(strcmp(ms_optimizer_title(name), name) != 0, "%s", name);
        for (size_t k = 0; k < i; k++) {
            const char    *other = ms_optimizer_at(k)->name;
            const ms_style b     = ms_style_of(other);
            CHECK(strcmp(a.colour, b.colour) != 0 && a.marker != b.marker, "%s and %s look alike",
                  name, other);
        }
    }
    check_contrast(ms_style_of("nosuch").colour);
}

TEST(colours_of_a_sequence_grow_lighter)
{
    for (size_t n = 1; n <= 9; n++)
        for (size_t i = 0; i < n; i++) {
            check_contrast(ms_style_step(i, n).colour);
            CHECK(i == 0 || brightness(ms_style_step(i, n).colour) >
                                brightness(ms_style_step(i - 1, n).colour),
                  "%zu of %zu", i, n);
        }
    ms_style_step(0, 0);
    ms_style_step(50, 7);
    ms_style_step(20, 40);
}
