/* demo_page.c - see demo_page.h. */
#include "demo_page.h"

#include <math.h>

static const char *const names[] = {
    "soft-musec", "musec", "spectra", "muon", "muonclip", "adamw"
};

static double noise(unsigned n) /* -1..1, the same everywhere */
{
    n = n * 2654435761u + 12345u;
    n ^= n >> 13;
    n *= 2246822519u;
    return (double)(n >> 8) / 8388608.0 - 1.0;
}

static void add_point(ms_figure *f, ms_curve *c, double x, double y)
{
    ms_curve_point(f, c, (ms_point){ x, y, NAN, NAN, isnan(y), NULL, 0, false, 0 }, NULL);
}

/* Bands, several runs that diverged at one rate, labels that look like markup. */
static void add_sweep(ms_page *page, ms_section *s)
{
    static const double      rates[] = { 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0 };
    static const char *const sets[]  = { "FineWeb", "OpenWebText", "a<b & \"c\" 'd'" };
    ms_figure                f;

    ms_figure_begin(
        &f, "loss-lr", "Validation loss against learning rate",
        "Mean over three seeds; the band spans them. A cross on the upper edge is a run "
        "that diverged. Lower and flatter is better.");
    for (size_t i = 0; i < COUNT(sets); i++) {
        ms_panel *p = ms_figure_panel(&f, sets[i], "learning rate", "validation loss");
        p->x_log    = true;
        for (size_t k = 0; k < COUNT(names); k++) {
            ms_curve *c =
                ms_panel_curve(&f, p, ms_optimizer_title(names[k]), ms_style_of(names[k]));
            for (size_t j = 0; j < COUNT(rates); j++) {
                const double x = log10(rates[j]) + 0.9 - 0.12 * (double)k;
                const double y = 3.1 + 0.06 * (double)(k + i) + (0.09 + 0.06 * (double)k) * x * x;
                const bool   gone = k >= 2 && rates[j] > (k == 2 ? 1.5 : 0.8);
                ms_curve_point(&f, c,
                               (ms_point){ rates[j], gone ? NAN : y, y - 0.03, y + 0.04, gone, NULL,
                                           0, false, 0 },
                               "%s\nlearning rate %g: %s%.3f", ms_optimizer_title(names[k]),
                               rates[j], gone ? "diverged at " : "", y);
            }
        }
    }
    ms_section_figure(page, s, &f);
}

static void add_training(ms_page *page, ms_section *s)
{
    ms_figure f;

    ms_figure_begin(&f, "training", "Loss against step",
                    "The learning rate jumps at the dashed line.");
    for (int part = 0; part < 2; part++) {
        ms_panel *p = ms_figure_panel(&f, part == 0 ? "training" : "validation", "step", "loss");
        p->y_max    = 8.0;
        ms_panel_rule(&f, p, 2400.0, "stage 2");
        for (size_t k = 0; k < 4; k++) {
            ms_style  style = ms_style_of(names[k]);
            ms_curve *c;
            if (part == 0) style.marker = 0;
            c = ms_panel_curve(&f, p, ms_optimizer_title(names[k]), style);
            for (unsigned i = 0; i < 4000; i += part == 0 ? 1 : 100) {
                const double spike =
                    i > 2400 ? (0.5 + 0.3 * (double)k) * exp(-(i - 2400.0) / 120.0) : 0.0;
                const double wobble = part == 0 ? 0.08 * noise(i * 7u + (unsigned)k) : 0.0;
                add_point(&f, c, i,
                          3.2 + 0.05 * (double)k + 7.0 * exp(-(double)i / 180.0) +
                              0.9 * exp(-(double)i / 1500.0) + spike + wobble);
            }
        }
    }
    ms_section_figure(page, s, &f);
}

static void add_steps(ms_page *page, ms_section *s)
{
    static const char *const thresholds[] = { "D = 0.05", "D = 0.125", "D = 0.25", "D = 0.5",
                                              "D = 1" };
    ms_figure                f;
    ms_panel                *p;

    ms_figure_begin(&f, "time-step", "Time per step",
                    "Median of the steps after the first ten; the line spans the seeds.");
    p       = ms_figure_panel(&f, "", "", "ms per step");
    p->bars = true;
    for (size_t k = 0; k < COUNT(names); k++) {
        ms_curve    *c = ms_panel_curve(&f, p, ms_optimizer_title(names[k]), ms_style_of(names[k]));
        const double y = 11.0 + 1.7 * (double)((k * 5) % 7);
        ms_curve_point(&f, c, (ms_point){ 0.0, y, y - 0.4, y + 0.5, k == 4, NULL, 0, false, 0 },
                       NULL);
    }
    ms_section_figure(page, s, &f);

    ms_figure_begin(&f, "threshold", "Spectral norm of the weights by threshold", "");
    p        = ms_figure_panel(&f, "", "step", "‖W‖ (QK)");
    p->x_log = p->y_log = true;
    for (size_t k = 0; k < COUNT(thresholds); k++) {
        ms_style  style = ms_style_step(k, COUNT(thresholds));
        ms_curve *c;
        style.dash = (int)k % 4;
        c          = ms_panel_curve(&f, p, thresholds[k], style);
        for (int i = 1; i <= 4096; i *= 2)
            add_point(&f, c, i, pow((double)i, 0.2 + 0.15 * (double)k));
    }
    ms_section_figure(page, s, &f);
}

static void add_odd(ms_page *page, ms_section *s)
{
    ms_figure f;
    ms_panel *p;
    ms_curve *c;

    ms_figure_begin(&f, "odd", "Panels that hold little",
                    "One point, one value, only what diverged.");
    p = ms_figure_panel(&f, "one point", "x", "y");
    c = ms_panel_curve(&f, p, "alone", (ms_style){ "#0072b2", 0, 0 });
    add_point(&f, c, 1.0, 2.0);
    p = ms_figure_panel(&f,
                        "one value, and a title that is much too long for the panel it stands on",
                        "x", "a name of an axis that is too long for its height as well");
    c = ms_panel_curve(&f, p, "flat", (ms_style){ "#d04f00", 1, 0 });
    for (int i = 0; i < 5; i++)
        add_point(&f, c, i, 7e-9);
    p        = ms_figure_panel(&f, "all diverged", "learning rate", "y");
    p->x_log = true;
    for (size_t k = 0; k < 3; k++) {
        c = ms_panel_curve(&f, p, ms_optimizer_title(names[k]), ms_style_of(names[k]));
        add_point(&f, c, 0.1, NAN);
        add_point(&f, c, 1.0, NAN);
    }
    ms_section_figure(page, s, &f);
}

static void add_table(ms_page *page, ms_section *s)
{
    ms_table t = { .align = "lrrrrrl" };

    for (const char *const *head = (const char *const[]){ "optimizer", "0.02", "0.1", "0.5", "2",
                                                          "width", "words <b>&", NULL };
         *head != NULL; head++)
        ms_table_add(&t, "%s", *head);
    for (size_t k = 0; k < COUNT(names); k++) {
        ms_table_add(&t, "%s", ms_optimizer_title(names[k]));
        for (int i = 0; i < 4; i++)
            ms_table_add(&t, "%.3f", 3.1 + 0.05 * (double)k + 0.02 * i);
        ms_table_add(&t, "%.1f×", 2.0 + (double)k);
        ms_table_add(&t, "a remark that is longer than the numbers, \"quoted\"");
    }
    ms_section_table(page, s, "stability",
                     "Width of the range of learning rates within 2 % of the best loss.", &t);
    ms_section_notes(page, s, "Of <formulas>, %d of them.", 6);
    ms_section_notes(page, s, "Another paragraph.");
}

/* Coloured verdicts, and sentences that a phone shows below each other. */
static void add_claims(ms_page *page, ms_section *s)
{
    ms_table t      = { .align = "llb" };
    ms_table counts = { .align = "ll" };

    ms_table_add(&t, "claim");
    ms_table_add(&t, "measurement");
    ms_table_add(&t, "verdict");
    for (int i = 0; i < 3; i++) {
        ms_table_add(&t, "claim %d", i);
        ms_table_add(&t, "A measurement in so many words that no column of a table on a phone has "
                         "the room for it, and a person who reads it there wants it whole.");
        ms_table_add(&t, "%s", i == 0 ? "holds" : i == 1 ? "does not hold" : "not tested here");
    }
    ms_section_table(page, s, "claims", "Claims.", &t);
    ms_table_add(&counts, "holds");
    ms_table_add(&counts, "1 holds");
    ms_table_add(&counts, "does not hold");
    ms_table_add(&counts, "1 does not hold");
    ms_page_counts(page, &counts);
}

void demo_page_make(ms_page *page)
{
    ms_section *s;

    ms_page_begin(page, "A page of examples <&>",
                  "Every kind of block and of panel, made of formulas; σ₁ ≤ D.");
    ms_page_headline(page, "The result in a sentence, <6> words.");
    ms_page_footer(page, "Made on a machine & on a day.");
    s = ms_page_section(page, "learning-rate", "Loss against learning rate",
                        "Figures 1, 4 and 5 of the paper");
    ms_section_text(page, s,
                    "%d optimizers on three sets; <i>this is no markup</i> & neither is that.", 6);
    add_sweep(page, s);
    add_table(page, s);
    s = ms_page_section(page, "steps", "Loss against step", "Figures 2 and 6 to 8 of the paper");
    add_training(page, s);
    s = ms_page_section(page, "cost", "Cost and thresholds", "");
    add_steps(page, s);
    s = ms_page_section(page, "odd", "Odd ones", "");
    add_odd(page, s);
    s = ms_page_section(page, "claims", "Claims", "");
    add_claims(page, s);
}
