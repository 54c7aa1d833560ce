/* sections_test.c - the numbers in sections of made-up runs, compared with hand calculations. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "section_rig.h"

/* ---- losses ---------------------------------------------------------------------------------- */

static const char *const sweep[] = {
    "muon lr=0.01 loss=3.3",
    "muon lr=0.1 weight_decay=0.3 loss=3.2",
    "muon lr=0.1 loss=3.1",
    "muon lr=0.2 loss=3.5",
    "muon lr=0.5 loss=9 diverged",
    "soft-musec lr=0.1 threshold=0.5 loss=3",
    "soft-musec lr=0.1 threshold=0.25 loss=2.9",
    "soft-musec lr=0.2 threshold=0.05 seed=1 loss=2.8",
    "soft-musec lr=0.2 threshold=0.05 seed=2 loss=3",
    "soft-musec lr=0.5 threshold=0.05 seed=1 loss=4",
    "soft-musec lr=0.5 threshold=0.05 seed=2 loss=4 diverged",
};

TEST(losses_are_those_of_the_best_settings)
{
    const ms_curve *c;

    make(&usual, sweep, COUNT(sweep));
    c = curve("loss-lr", 0, "Muon");
    assert_int_equal(c->n, 4);
    check_point(c, 0, 0.01, 3.3);
    check_point(c, 1, 0.1, 3.1);
    check_point(c, 2, 0.2, 3.5);
    check_point(c, 3, 0.5, NAN);
    check_has(c->at[3].tip, "diverged: loss is not finite");
    CHECK(isnan(c->at[1].low), "one seed has no band");
    c = curve("loss-lr", 0, "Soft Musec");
    check_point(c, 0, 0.1, 2.9);
    check_has(c->at[0].tip, "D 0.25, decay 0, 1 seed");
    check_point(c, 1, 0.2, 2.9);
    CHECK(c->at[1].low == 2.8 && c->at[1].high == 3.0, "%g %g", c->at[1].low, c->at[1].high);
    check_point(c, 2, 0.5, 4.0);
    check_has(c->at[2].tip, "1 of 2 diverged");
    CHECK(c->at[2].n_diverged == 1 && c->at[1].n_diverged == 0, "%zu, %zu", c->at[2].n_diverged,
          c->at[1].n_diverged);
    c = &panel("loss-lr", 0)->curves[2]; /* the cross of the seed that diverged */
    assert_int_equal(c->n, 1);
    check_point(c, 0, 0.5, NAN);
    assert_string_equal(c->label, "Soft Musec");
    check_has(c->at[0].tip, "1 of 2 diverged");
    check_row("stability", 0,
              "pico, builtin|Soft Musec|2.9000|0.1|0.1|0.2|2|low|3|2.5|0.5|4.0000, 1 of 2 "
              "diverged|1 of 6|0 of 6|1");
    assert_string_equal(
        block("loss-lr")->figure.caption,
        "The last validation loss of each method. Bands reach from the lowest to the highest seed. "
        "Crosses at the upper edge: runs that diverged. Gradients sum8, QK-norm on, 1 to 2 seeds.");
    check_has(block("loss-lr")->notes, "the mean over the seeds that did not");
}

/* Eight losses 3.0, 3.1, ... 3.6 and 50: three quarters reach 3.5, so the top is 4.0. */
TEST(a_far_outlier_does_not_set_the_range)
{
    const char *runs[] = { "muon lr=0.01 loss=3",   "muon lr=0.02 loss=3.1",
                           "muon lr=0.03 loss=3.2", "muon lr=0.04 loss=3.3",
                           "muon lr=0.05 loss=3.4", "muon lr=0.06 loss=3.5",
                           "muon lr=0.07 loss=3.6", "muon lr=0.08 loss=50" };

    make(&usual, runs, 8);
    CHECK(fabs(panel("loss-lr", 0)->y_max - 4.0) <= 1e-12, "top %g", panel("loss-lr", 0)->y_max);
    runs[7] = "muon lr=0.08 loss=4.4"; /* neither a little higher nor absent is it cut off */
    for (size_t n = 7; n <= 8; n++) {
        make(&usual, runs, n);
        CHECK(isnan(panel("loss-lr", 0)->y_max), "no limit of %zu", n);
    }
}

/* lr times the mean over groups of 0.5, 1, 1.5 (norm) and 0.25, 0.5, 0.75 (RMS). */
TEST(effective_steps_are_rates_times_norms)
{
    make(&usual, sweep, COUNT(sweep));
    check_point(curve("effective-step", 0, "Muon"), 1, 0.1 * 1.0, 3.1);
    check_point(curve("effective-step", 1, "Muon"), 1, 0.1 * 0.5, 3.1);
    check_point(curve("effective-step", 0, "Muon"), 3, 0.5 * 1.0, NAN);
}

/* ---- controls -------------------------------------------------------------------------------- */

/* At lr 0.2 Soft Musec's best has D 0.05, and the control is Muon at 0.01.  At 0.1 its best has D
 * 0.25, and Muon was not run at 0.025. */
TEST(muon_is_the_control_at_lr_times_d)
{
    const ms_curve *c;

    make(&usual, sweep, COUNT(sweep));
    c = curve("controls", 0, "Muon at lr·D");
    assert_int_equal(c->n, 1);
    check_point(c, 0, 0.2, 3.3);
    check_has(c->at[0].tip, "lr 0.2 x D 0.05");
    c = curve("controls", 0, "Muon at lr");
    assert_int_equal(c->n, 3);
    check_point(c, 1, 0.2, 3.5);
    check_has(section("controls")->blocks[1].text,
              "no run of Muon at 0.025 (lr 0.1 x D 0.25), 0.025 (lr 0.5 x D 0.05).");
}

/* Steps divided by D have the length of Muon's at the same rate, whatever D is. */
TEST(muon_is_the_control_at_lr_with_steps_of_unit_scale)
{
    const ms_curve *c;

    MAKE("muon lr=0.1 loss=3.1", "muon lr=0.2 loss=3.5",
         "soft-musec lr=0.2 loss=2.9 update_scale=unit",
         "soft-musec lr=0.5 loss=2.8 update_scale=unit");
    c = curve("controls", 0, "Muon at lr·D");
    assert_int_equal(c->n, 1);
    check_point(c, 0, 0.2, 3.5);
    check_has(c->at[0].tip, "at 0.2 it steps as far as Soft Musec");
    check_has(section("controls")->blocks[1].text, "no run of Muon at 0.5.");
    check_has(block("controls")->notes, "update-scale unit");
}

/* The method's best at 0.1 has D 0.25, but `exact` was run with 0.5: both are compared at 0.5. */
TEST(forms_of_the_operator_are_compared_at_equal_settings)
{
    const char *runs[COUNT(sweep) + 2];

    memcpy(runs, sweep, sizeof sweep);
    runs[COUNT(sweep)]     = "soft-musec lr=0.1 threshold=0.5 ns_mode=exact loss=2.7";
    runs[COUNT(sweep) + 1] = "soft-musec lr=0.2 threshold=1 ns_mode=fast loss=2.6";
    make(&usual, runs, COUNT(runs));
    check_point(curve("controls", 0, "Soft Musec"), 0, 0.1, 3.0);
    check_point(curve("controls", 0, "Soft Musec, exact"), 0, 0.1, 2.7);
    check_point(curve("controls", 0, "Soft Musec"), 1, 0.2, 2.9);
    check_point(curve("controls", 0, "Soft Musec, fast"), 0, 0.2, 2.6);
    /* the figure of all methods has no curves of forms */
    assert_int_equal(panel("loss-lr", 0)->n, 2 + 1); /* two methods, and a curve of crosses */
    check_point(curve("loss-lr", 0, "Soft Musec"), 0, 0.1, 2.9);
}

/* ---- tables ---------------------------------------------------------------------------------- */

TEST(selected_settings_have_their_decays)
{
    MAKE("muon lr=0.1 weight_decay=matrix=0,qk=1.2,vo=1.2,mlp=0.3 loss=2",
         "muon lr=0.1 weight_decay=0.6 loss=2.1",
         "spectra lr=0.1 threshold=0.125 weight_decay=0.6 loss=2.2");
    check_row("hyperparameters", 0, "Muon|0.1|1.2|1.2|0.3|-|2.0000|0 of 1");
    check_row("hyperparameters", 1, "SPECTRA|0.1|0.6|0.6|0.6|0.125|2.2000|0 of 1");
    check_row("runs", 0,
              "run_000|pico, builtin|Muon|0.1|-|qk 1.2, vo 1.2, mlp 0.3|0|done|4 of 4|2.0000");
    check_row("runs", 2, "run_002|pico, builtin|SPECTRA|0.1|0.125|0.6|0|done|4 of 4|2.2000");
    CHECK(section("loss-lr") == NULL && section("stability") == NULL &&
              section("threshold") == NULL && section("ns-iters") == NULL,
          "one learning rate is no sweep");
}

TEST(tables_list_the_model_and_the_training)
{
    MAKE("muon lr=0.1 data=a/fineweb loss=2", "muon lr=0.1 data=b/c4 loss=2",
         "adamw lr=0.1 data=a/fineweb loss=2", "adamw lr=0.1 data=b/c4 loss=2");
    check_row("architecture", 0, "layers|2");
    check_row("architecture", 8, "matrix parameters|1148"); /* 2 (4 15 7 + 2 7 11) */
    check_row("architecture", 9, "data|fineweb, c4");
    check_row("training", 1, "batch of the first stage, tokens|128");
    check_row("training", 3, "tokens seen|512");
    check_row("training", 4, "reduction of the gradients|sum8");
    check_row("training", 5, "precision|float32; on a GPU bfloat16, float32 masters");
    check_row("training", 9, "form of the weight decay|cautious-lr2; AdamW: decoupled");
}

/* ---- over the steps -------------------------------------------------------------------------- */

TEST(curves_have_the_values_of_the_log)
{
    const ms_curve *c;

    MAKE("muon lr=0.1 seed=1 loss=2 lines=10 staged", "muon lr=0.1 seed=2 loss=2.5 lines=10 staged",
         "muonclip lr=0.5 loss=2 lines=10 staged diverged");
    c = curve("dynamics-val", 0, "Muon");
    assert_int_equal(c->n, 5);
    check_point(c, 0, 2, 3.0);
    check_point(c, 4, 10, 2.0);
    CHECK(c->at[4].low == 2.0 && c->at[4].high == 2.5, "%g %g", c->at[4].low, c->at[4].high);
    CHECK(panel("dynamics-val", 0)->x_rule == 3.0, "after 10 / 3 steps");
    c = curve("dynamics-train", 0, "MuonClip");
    assert_int_equal(c->n, 10);
    check_point(c, 9, 10, 6.0 - 0.9);
    check_point(c + 1, 0, 10, NAN); /* the cross */
    CHECK(c[1].at[0].diverged && strcmp(c[1].label, "MuonClip") == 0, "%s", c[1].label);
    check_row("training", 1, "batch of the first stage, tokens|64");
    check_row("training", 2, "batch of the last stage, tokens|256");
    /* QK: 10 + i at step i + 1 */
    check_point(curve("weight-norm", 0, "Muon"), 1, 4, 13.0);
    check_point(curve("weight-norm", 2, "Muon"), 0, 2, 31.0);
}

/* Of two seeds one diverged: the line is the other's, and the cross is drawn too. */
TEST(every_divergence_has_its_cross)
{
    const ms_curve *c;

    MAKE("muon lr=0.1 seed=1 loss=2 lines=4 diverged", "muon lr=0.1 seed=2 loss=2.5 lines=4");
    c = curve("dynamics-val", 0, "Muon");
    assert_int_equal(c->n, 2);
    check_point(c, 1, 4, 2.5);
    CHECK(c[1].n == 1 && c[1].at[0].diverged && c[1].at[0].x == 4.0, "%s", c[1].label);
    check_has(c[1].at[0].tip, "step 4, seed 1: loss is not finite");
    check_caption("dynamics-val", "Crosses at the upper edge: runs that diverged.");
}

/* The losses fall from 6: of 100 steps, the fourth is the last that may leave the panel. */
TEST(the_first_steps_do_not_set_the_range)
{
    MAKE("muon lr=0.1 loss=2 lines=100");
    const double top = panel("dynamics-train", 0)->y_max;
    CHECK(fabs(top - (6.0 - 0.04)) <= 1e-12, "%g", top);
}

/* 1000 lines are averaged in windows of 3: the first point is the mean of lines 0 to 2, the last
 * one is line 999. */
TEST(long_curves_are_thinned)
{
    MAKE("muon lr=0.1 loss=2 lines=1000");
    const ms_curve *c = curve("dynamics-train", 0, "Muon");
    assert_int_equal(c->n, 334);
    check_point(c, 0, 3, 6.0 - 0.001);
    check_point(c, 333, 1000, 6.0 - 0.999);
}

/* Muon alone was run at 0.2, both methods at 0.1. */
TEST(figures_are_at_a_rate_that_all_methods_share)
{
    MAKE("muon lr=0.05 loss=2", "muon lr=0.1 loss=2", "muon lr=0.2 loss=2", "musec lr=0.05 loss=2",
         "musec lr=0.1 loss=2");
    check_caption("weight-norm", "at learning rate 0.1,");
    check_caption("effective-rank", "at learning rate 0.1,");
    check_point(curve("effective-rank", 1, "Musec"), 0, 2, 4.0);
    /* a 0 has no place on a logarithmic axis */
    CHECK(isnan(curve("clip-sigma", 0, "Musec")->at[0].y), "sigma 0");
    check_point(curve("clip-sigma", 1, "Musec"), 0, 2, 2.0);
    check_point(curve("clip-sigma", 1, "σ1 = D"), 1, 4, 1.0);
    check_point(curve("clip-share", 2, "Musec"), 1, 4, 0.5);
    check_point(curve("clip-gain", 2, "Musec"), 1, 4, 0.75);
    assert_int_equal(panel("clip-gain", 0)->n, 2); /* Muon has no clip */
}

/* ---- ablations ------------------------------------------------------------------------------- */

TEST(thresholds_and_iterations_are_compared_with_all_else_equal)
{
    MAKE("soft-musec lr=0.2 threshold=0.05 weight_decay=0.3 loss=3",
         "soft-musec lr=0.2 threshold=1 weight_decay=0.3 loss=2.8",
         "soft-musec lr=0.2 threshold=0.5 weight_decay=0.3 loss=2.9",
         "soft-musec lr=0.2 threshold=0.5 weight_decay=0 loss=2",
         "soft-musec lr=0.2 threshold=0.05 weight_decay=0.3 ns_iters=3 loss=3.1",
         "soft-musec lr=0.2 threshold=0.05 weight_decay=0.3 ns_iters=8 loss=2.95",
         "soft-musec lr=0.2 threshold=0.05 weight_decay=0.3 ns_mode=exact loss=2.5");
    check_rows("threshold-losses", 3);
    check_row("threshold-losses", 0, "pico, builtin|Soft Musec|0.2|0.05|0.3|3.0000|0 of 1");
    check_row("threshold-losses", 1, "pico, builtin|Soft Musec|0.2|0.5|0.3|2.9000|0 of 1");
    check_row("threshold-losses", 2, "pico, builtin|Soft Musec|0.2|1|0.3|2.8000|0 of 1");
    check_point(curve("threshold", 0, "D = 0.5"), 1, 4, 2.9);
    check_rows("ns-iters-losses", 3);
    check_row("ns-iters-losses", 0, "pico, builtin|Soft Musec|0.2|3|0.05|0.3|3.1000|0 of 1");
    check_row("ns-iters-losses", 1, "pico, builtin|Soft Musec|0.2|5|0.05|0.3|3.0000|0 of 1");
    check_point(curve("ns-iters", 0, "K = 8"), 1, 4, 2.95);
    assert_int_equal(panel("ns-iters", 0)->n, 3);
}

/* K = 3 was run with Nesterov's momentum alone, so that there is only one K to compare. */
TEST(iterations_are_compared_within_a_method)
{
    static const char *const runs[] = {
        "soft-musec lr=0.2 loss=3",
        "soft-musec lr=0.2 loss=2.9 nesterov=yes",
        "soft-musec lr=0.2 ns_iters=3 loss=2.8 nesterov=yes",
        "soft-musec lr=0.2 ns_iters=8 loss=2.7",
    };

    make(&usual, runs, COUNT(runs) - 1);
    CHECK(section("ns-iters") == NULL, "two methods are compared");
    make(&usual, runs, COUNT(runs));
    check_rows("ns-iters-losses", 2);
    check_row("ns-iters-losses", 0, "pico, builtin|Soft Musec|0.2|5|0.5|0|3.0000|0 of 1");
    check_row("ns-iters-losses", 1, "pico, builtin|Soft Musec|0.2|8|0.5|0|2.7000|0 of 1");
}

/* ---- options --------------------------------------------------------------------------------- */

TEST(times_can_be_left_out)
{
    make(&usual, sweep, COUNT(sweep));
    check_point(curve("step-time", 0, "Muon"), 0, 0, 10.0); /* 1 + 5 + 3 + 1 ms */
    check_row("step-times", 0, "pico, builtin|Soft Musec|10.000|3.000|30.0|1.000|6");
    make(&without_times, sweep, COUNT(sweep));
    CHECK(section("step-time") == NULL, "times are there");
}

TEST(sections_can_be_chosen)
{
    static const char *const only[]  = { "runs", "ns-iters" };
    static const char *const wrong[] = { "runs", "los-lr" };
    const ms_report_options  o       = { .within = 0.02, .only = only, .n_only = 2 };
    ms_error                 e;

    make(&o, sweep, COUNT(sweep));
    assert_int_equal(now.page.n, 2);
    check_has(section("ns-iters")->blocks[0].text, "Needs runs of a clipping");
    assert_int_equal(ms_sections_check(&e, wrong, 2), MUSEC_EINVAL);
    check_has(e.text, "did you mean \"loss-lr\"");
}

TEST(captions_explain_only_what_is_drawn)
{
    MAKE("muon lr=0.1 loss=3", "muon lr=0.2 loss=3.1");
    assert_string_equal(
        block("loss-lr")->figure.caption,
        "The last validation loss of each method. Gradients sum8, QK-norm on, one seed.");
    assert_string_equal(block("dynamics-val")->figure.caption,
                        "The best of each: Muon lr 0.1. Then all methods at one learning rate. "
                        "Gradients sum8, QK-norm on, one seed.");
}

/* The last section names each section that is missing and the runs that it needs. */
TEST(sections_left_out_are_named)
{
    static const char *const runs[] = { "muon lr=0.1 loss=3" };

    make(&usual, runs, COUNT(runs));
    assert_string_equal(now.page.sections[now.page.n - 1].id, "left-out");
    check_row(
        "left-out", 0,
        "Loss against learning rate|Needs finished runs of one method at two learning rates or "
        "more.");
    for (size_t i = 2; i < block("left-out")->table.n_cells; i += 2)
        CHECK(strcmp(block("left-out")->table.cells[i], "All runs") != 0, "that is there");
    make(&without_times, runs, COUNT(runs));
    const ms_table *t     = &block("left-out")->table;
    bool            named = false;
    for (size_t i = 2; i < t->n_cells; i += 2)
        named = named || (strcmp(t->cells[i], "Time of a step") == 0 &&
                          strcmp(t->cells[i + 1], "Times are left out (--omit-times).") == 0);
    CHECK(named, "times are named");
}

TEST(without_runs_there_is_no_section)
{
    make(&usual, NULL, 0);
    assert_int_equal(now.page.n, 0);
    assert_int_not_equal(
        ms_sections_build(&now.e, &now.c, &(ms_report_options){ .within = NAN }, &now.page),
        MUSEC_OK);
}
