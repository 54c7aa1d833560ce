/* section_differences.c - each method beside Muon, at its best and at larger rates, by seeds. */
#include <math.h>
#include <string.h>

#include "core/real.h"
#include "report/section_plots.h"
#include "report/seeds.h"

/* A number of a CSV file; "" for NaN. */
static const char *field_of(double x, char text[MS_REAL_TEXT])
{
    text[0] = '\0';
    if (!isnan(x)) ms_real_text(x, text);
    return text;
}

/* "3.123 ± 0.004", or the mean alone for one seed. */
static void add_interval(ms_table *t, ms_interval x, double unit, const char *fmt)
{
    char field[2][MS_REAL_TEXT];
    char mean[32], half[32];

    snprintf(mean, sizeof mean, fmt, unit * x.mean);
    snprintf(half, sizeof half, strcmp(fmt, "%+.2f%%") == 0 ? "%.2f" : "%.4f", unit * x.half);
    if (isnan(x.mean))
        ms_table_add(t, "-");
    else if (isnan(x.half))
        ms_table_add(t, "%s", mean);
    else
        ms_table_add(t, "%s ± %s", mean, half);
    ms_table_is_fields(t, "%s,%s", field_of(unit * x.mean, field[0]),
                       field_of(unit * x.half, field[1]));
}

static void add_row(ms_table *t, const ms_compare *c, const ms_setting *s, const ms_setting *muon,
                    const char *at)
{
    const ms_interval apart =
        muon != NULL ? ms_paired_difference(s, muon) : ms_interval_of(NULL, 0);

    ms_table_add(t, "%s", c->problems[s->problem].label);
    ms_table_add(t, "%s", c->methods[s->method].label);
    ms_table_add(t, "%s", at);
    ms_table_number(t, "%g", s->lr);
    add_interval(t, ms_loss_interval(s), 1.0, "%.4f");
    ms_table_add(t, "%zu", s->n);
    add_interval(t, apart, 100.0, "%+.2f%%");
    ms_table_add(t, "%zu", apart.n);
    ms_table_add(t, "%zu", ms_compare_count(c, s->problem, s->method));
}

void ms_build_differences(ms_section_builder *b)
{
    static const struct {
        double      factor;
        const char *name;
    } at[] = { { 1.0, "best" }, { 5.0, "5 × best" }, { 25.0, "25 × best" } };
    static const char *const names[] = { "problem",
                                         "method",
                                         "at",
                                         "lr",
                                         "loss|loss,half of its interval",
                                         "seeds",
                                         "above Muon|above Muon in %,half of its interval",
                                         "pairs",
                                         "runs" };
    const ms_compare        *c       = b->c;
    const size_t             muon    = ms_compare_plain(c, "muon");
    ms_table                 t       = { .align = "lllrrrrrr" };
    size_t                   others  = 0;

    ms_table_names(&t, names);
    for (size_t p = 0; p < c->n_problems && muon < c->n_methods; p++) {
        const ms_setting *base = ms_compare_tuned(c, p, muon);
        if (base == NULL || ms_setting_failed(base)) continue;
        for (size_t m = 0; m < c->n_methods; m++) {
            const ms_setting *best = ms_compare_tuned(c, p, m);
            if (best == NULL || ms_setting_failed(best)) continue;
            others += m != muon;
            for (size_t i = 0; i < COUNT(at); i++) {
                const ms_setting *mine = ms_plot_at_multiple(c, best, at[i].factor);
                if (mine != NULL)
                    add_row(&t, c, mine,
                            m == muon ? NULL : ms_plot_at_multiple(c, base, at[i].factor),
                            at[i].name);
            }
        }
    }
    if (others == 0) {
        ms_table_free(&t);
        return;
    }
    if (!ms_build_table(b, "differences",
                        "Each method at its best setting, and at 5 and 25 times that rate where it "
                        "was run: the mean loss, and by how much it is above that of Muon at the "
                        "same multiple of Muon's best rate.",
                        &t))
        return;
    ms_build_notes(b, "± is half of the 95 %% interval of a mean over seeds (Student's t).  "
                      "Differences are paired by seed: of each seed that both have, the share by "
                      "which one loss is above the other.");
    ms_build_notes(b, "A best setting is chosen by the mean over its seeds, out of the runs of the "
                      "last column, which count all seeds, rates, thresholds and decays.");
}
