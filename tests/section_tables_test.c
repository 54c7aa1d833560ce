/* section_tables_test.c - the ranges of usable learning rates, compared with hand calculations. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory_stream.h"
#include "section_rig.h"

TEST(usable_ranges_end_at_bad_rates_and_at_the_edges_of_the_sweep)
{
    static const char *const runs[] = {
        "muon lr=0.01 loss=2.03",   "muon lr=0.02 loss=2.05", /* over 2.04: ends the range */
        "muon lr=0.05 loss=2.039",  "muon lr=0.1 loss=2",       "muon lr=0.2 loss=2.01",
        "muonclip lr=0.1 loss=2.5", "muonclip lr=0.2 loss=2.4", "muonclip lr=0.5 loss=2.4 diverged",
    };

    make(&usual, runs, COUNT(runs));
    check_row("stability", 0,
              "pico, builtin|Muon|2.0000|0.1|0.046|0.2|4.35|high|5|2.5|0.2|2.0100|0 of 5|0 of 5|1");
    check_row(
        "stability", 1,
        "pico, builtin|MuonClip|2.4000|0.2|0.1434|0.2|1.39|-|3|2.5|0.5|diverged|1 of 3|0 of 3|1");
    check_rows("stability", 2);
    make(&(ms_report_options){ .within = 0.05 }, runs, COUNT(runs));
    check_row("stability", 0,
              "pico, builtin|Muon|2.0000|0.1|0.01|0.2|20|both|5|2.5|0.2|2.0100|0 of 5|0 of 5|1");
}

/* 10 % above 2 is 2.2, half way to 2.4 and a quarter of the way to 2.8, in the logarithm of the
 * rate: 0.1 / 100^(1/2) = 0.01 and 0.1 x 16^(1/4) = 0.2.  The range of a method whose best rate is
 * at an edge ends there. */
TEST(the_edges_of_a_range_are_interpolated)
{
    static const char *const runs[] = {
        "muon lr=0.001 loss=2.4",   "muon lr=0.1 loss=2",       "muon lr=1.6 loss=2.8",
        "muonclip lr=0.001 loss=2", "muonclip lr=0.1 loss=2.4", "muonclip lr=1.6 loss=2.8",
    };

    make(&(ms_report_options){ .within = 0.1 }, runs, COUNT(runs));
    check_row("stability", 0,
              "pico, builtin|Muon|2.0000|0.1|0.01|0.2|20|-|3|100|1.6|2.8000|0 of 3|0 of 3|1");
    check_row(
        "stability", 1,
        "pico, builtin|MuonClip|2.0000|0.001|0.001|0.01|10|low|3|100|1.6|2.8000|0 of 3|0 of 3|1");
}

/* Soft Musec is best at 0.1 with D 0.5, and was run at 0.5 and 2.5 with that D; a lower loss with
 * another D, at 0.5, does not count.  Musec lacks 2.5.  Muon is best at its largest rate. */
TEST(larger_rates_keep_the_threshold_and_decay_of_the_best)
{
    MAKE("soft-musec lr=0.1 loss=2", "soft-musec lr=0.5 loss=2.5",
         "soft-musec lr=0.5 loss=2.1 threshold=0.25", "soft-musec lr=2.5 loss=4 seed=0",
         "soft-musec lr=2.5 loss=4 seed=1 diverged", "soft-musec sharpness=8 lr=0.1 loss=2.25",
         "soft-musec sharpness=8 lr=0.5 loss=2.25 seed=1 stalled",
         "soft-musec sharpness=8 lr=2.5 loss=4 diverged", "musec lr=0.1 loss=2.2",
         "musec lr=0.5 loss=2.3", "muon lr=0.1 loss=3", "muon lr=0.5 loss=2");
    check_row("larger-rates", 0, "pico, builtin|Musec|2.2000|0.1|0.5|0|2.3000|-");
    check_row("larger-rates", 1,
              "pico, builtin|Soft Musec|2.0000|0.1|0.5|0|2.5000|4.0000, 1 of 2 diverged");
    check_row("larger-rates", 2,
              "pico, builtin|Soft Musec, sharpness 8|2.2500|0.1|0.5|0|2.2500, 1 of 1 "
              "stalled|diverged");
    check_rows("larger-rates", 3);
}

/* Thresholds that are rules have no number: equal texts are the same threshold. */
TEST(larger_rates_tell_rules_of_thresholds_apart)
{
    MAKE("soft-musec lr=0.1 loss=2 threshold=rms:2", "soft-musec lr=0.5 loss=2.5 threshold=rms:1",
         "soft-musec lr=2.5 loss=3 threshold=rms:2", "soft-musec lr=2.5 loss=2.5 threshold=rms:1");
    check_row("larger-rates", 0, "pico, builtin|Soft Musec|2.0000|0.1|rms:2|0|-|3.0000");
    check_rows("larger-rates", 1);
    MAKE("soft-musec lr=0.1 loss=2", "soft-musec lr=0.2 loss=2.5");
    CHECK(section("larger-rates") == NULL, "neither 5 nor 25 times the best rate was run");
}

/* All runs here have a gain of 0.75; Muon does not clip. */
TEST(clips_that_have_not_converged_are_noted)
{
    MAKE("soft-musec lr=0.1 loss=2", "soft-musec lr=0.5 loss=2.5", "muon lr=0.1 loss=2");
    CHECK(now.set.n_notes == 1, "%zu notes", now.set.n_notes);
    CHECK(strcmp(now.set.notes[0],
                 "Soft Musec: in 2 of 2 runs the clip has not converged: its updates have 0.75 of "
                 "the norm of the exact clip's; --ns-mode accurate or exact") == 0,
          "%s", now.set.notes[0]);
    now.set.at[0].lines[1].groups[1].u_gain = 0.5;
    for (size_t i = 0; i < now.set.at[1].n; i++)
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            now.set.at[1].lines[i].groups[g].u_gain = g == 0 ? NAN : 0.9;
    make_sections(&usual);
    CHECK(now.set.n_notes == 2, "%zu notes", now.set.n_notes);
    check_has(now.set.notes[1], "Soft Musec: in 1 of 2 runs");
    check_has(now.set.notes[1], "have 0.5 of the norm");
}

/* A stalled run is drawn at its loss, in a square, and its rate is neither the best nor usable,
 * even if its loss is the lowest of all. */
TEST(stalled_runs_are_drawn_but_never_best)
{
    const ms_curve *c;
    size_t          squares = 0;

    MAKE("muon lr=0.01 loss=2.01 stalled", "muon lr=0.1 loss=2", "muon lr=0.2 loss=1.5 stalled",
         "muonclip lr=0.1 loss=1.9 stalled", "muonclip lr=0.2 loss=1.8 stalled");
    check_row(
        "stability", 0,
        "pico, builtin|Muon|2.0000|0.1|0.1|0.1|1|-|3|10|0.2|1.5000, 1 of 1 stalled|0 of 3|2 of "
        "3|1");
    check_row("stability", 1,
              "pico, builtin|MuonClip|-|-|-|-|-|-|2|2|0.2|1.8000, 1 of 1 stalled|0 of 2|2 of 2|1");
    c = curve("loss-lr", 0, "Muon");
    check_point(c, 0, 0.01, 2.01);
    check_point(c, 2, 0.2, 1.5);
    CHECK(c->at[0].stalled == 1 && c->at[1].stalled == 0, "%zu", c->at[0].stalled);
    check_has(c->at[0].tip, "1 of 1 stalled");
    const ms_panel *p = panel("loss-lr", 0);
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->curves[i].label, "stalled") == 0) {
            CHECK(p->curves[i].n == 1 && p->curves[i].at[0].extra, "a square has no row");
            squares++;
        }
    CHECK(squares == 4, "%zu squares", squares);
    CHECK(strstr(block("dynamics-val")->figure.caption, "MuonClip lr") == NULL, "a best of %s",
          block("dynamics-val")->figure.caption);
}

/* The CSV of a table has this line. */
static void check_csv(const char *table, const char *line)
{
    ms_memory_stream m;
    ms_error         e  = { "" };
    FILE            *to = ms_memory_open(&m);
    char            *text;
    CHECK(to != NULL, "no memory");
    CHECK_OK_ERR(&e, ms_table_csv(&e, &block(table)->table, to));
    text = ms_memory_close(&m);
    check_has(text, line);
    free(text);
}

/* Muon 2.0 and 2.2, mean 2.1; Soft Musec 2.1 and 2.2 beside them, +5 % and 0 %: mean 2.5 %,
 * standard deviation 3.5355 %, over sqrt 2 and times 12.7062 is 31.766 %.  At 5 times the rate
 * there is one seed. */
TEST(differences_are_paired_by_seed)
{
    MAKE("muon lr=0.1 loss=2 seed=0", "muon lr=0.1 loss=2.2 seed=1", "muon lr=0.5 loss=4 seed=0",
         "soft-musec lr=0.2 loss=2.2 seed=1", "soft-musec lr=0.2 loss=2.1 seed=0",
         "soft-musec lr=1 loss=3 seed=0", "soft-musec lr=0.4 loss=5 seed=0");
    check_rows("differences", 4);
    check_row("differences", 0,
              "pico, builtin|Soft Musec|best|0.2|2.1500 ± 0.6353|2|+2.50% ± 31.77|2|4");
    check_row("differences", 1, "pico, builtin|Soft Musec|5 × best|1|3.0000|1|-25.00%|1|4");
    check_row("differences", 2, "pico, builtin|Muon|best|0.1|2.1000 ± 1.2706|2|-|0|3");
    check_row("differences", 3, "pico, builtin|Muon|5 × best|0.5|4.0000|1|-|0|3");
    check_csv("differences", "\"pico, builtin\",Soft Musec,5 × best,1,3,,1,-25,,1,4");
    check_csv("differences", "\"pico, builtin\",Muon,5 × best,0.5,4,,1,,,0,3");
    MAKE("muon lr=0.1 loss=2", "soft-musec lr=0.2 loss=2.1", "muon lr=0.5 loss=3",
         "soft-musec lr=1 loss=3 stalled");
    check_row("differences", 1, "pico, builtin|Soft Musec|5 × best|1|-|1|-|0|2");
    MAKE("muon lr=0.1 loss=2");
    CHECK(section("differences") == NULL, "there is nothing beside Muon");
}
