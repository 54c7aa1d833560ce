/* sections_test.c - runs made up in memory, and the numbers that the sections must make of them,
 * worked out by hand. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "section_rig.h"

/* ---- losses ---------------------------------------------------------------------------------- */

static const made sweep[] = {
    { .optimizer = "muon", .lr = "0.01", .loss = 3.3 },
    { .optimizer = "muon", .lr = "0.1", .loss = 3.2, .decay = "0.3" },
    { .optimizer = "muon", .lr = "0.1", .loss = 3.1 },
    { .optimizer = "muon", .lr = "0.2", .loss = 3.5 },
    { .optimizer = "muon", .lr = "0.5", .loss = 9.0, .status = MS_RUN_DIVERGED },
    { .optimizer = "soft-musec", .lr = "0.1", .threshold = "0.5", .loss = 3.0 },
    { .optimizer = "soft-musec", .lr = "0.1", .threshold = "0.25", .loss = 2.9 },
    { .optimizer = "soft-musec", .lr = "0.2", .threshold = "0.05", .seed = "1", .loss = 2.8 },
    { .optimizer = "soft-musec", .lr = "0.2", .threshold = "0.05", .seed = "2", .loss = 3.0 },
    { .optimizer = "soft-musec", .lr = "0.5", .threshold = "0.05", .seed = "1", .loss = 4.0 },
    { .optimizer = "soft-musec",
      .lr        = "0.5",
      .threshold = "0.05",
      .seed      = "2",
      .loss      = 4.0,
      .status    = MS_RUN_DIVERGED },
};

TEST(losses_are_those_of_the_best_settings)
{
    rig             r;
    const ms_curve *c;

    make(&r, sweep, COUNT(sweep), &usual);
    c = curve(&r, "loss-lr", 0, "Muon");
    assert_int_equal(c->n, 4);
    check_point(c, 0, 0.01, 3.3);
    check_point(c, 1, 0.1, 3.1);
    check_point(c, 2, 0.2, 3.5);
    check_point(c, 3, 0.5, NAN);
    CHECK(strstr(c->at[3].tip, "diverged: loss is not finite") != NULL, "%s", c->at[3].tip);
    CHECK(isnan(c->at[1].low), "one seed has no band");
    c = curve(&r, "loss-lr", 0, "Soft Musec");
    check_point(c, 0, 0.1, 2.9);
    CHECK(strstr(c->at[0].tip, "D 0.25, decay 0, 1 seed") != NULL, "%s", c->at[0].tip);
    check_point(c, 1, 0.2, 2.9);
    CHECK(c->at[1].low == 2.8 && c->at[1].high == 3.0, "%g %g", c->at[1].low, c->at[1].high);
    check_point(c, 2, 0.5, 4.0);
    CHECK(strstr(c->at[2].tip, "1 of 2 diverged") != NULL, "%s", c->at[2].tip);
    CHECK(c->at[2].lost == 1 && c->at[1].lost == 0, "%zu, %zu", c->at[2].lost, c->at[1].lost);
    c = &block(&r, "loss-lr")->figure.panels[0].curves[2]; /* the cross of the one that did */
    assert_int_equal(c->n, 1);
    check_point(c, 0, 0.5, NAN);
    CHECK(strcmp(c->label, "Soft Musec") == 0 && strstr(c->at[0].tip, "1 of 2 diverged") != NULL,
          "%s: %s", c->label, c->at[0].tip);
    check_row(&r, "stability", 0,
              "pico, builtin|Soft Musec|2.9000|0.1|0.1|0.2|2|low|3|2.5|0.5|4.0000, 1 of 2 "
              "diverged|1 of 6|0 of 6|1");
    CHECK(strcmp(
              block(&r, "loss-lr")->figure.caption,
              "The last validation loss of each method. Bands reach from the lowest to the highest "
              "seed. Crosses at the upper edge: runs that diverged. Gradients sum8, QK-norm on, 1 "
              "to 2 seeds.") == 0,
          "%s", block(&r, "loss-lr")->figure.caption);
    CHECK(strstr(block(&r, "loss-lr")->notes, "the mean over the seeds that did not") != NULL, "%s",
          block(&r, "loss-lr")->notes);
    release(&r);
}

/* Eight losses 3.0, 3.1, ... 3.6 and 50: three quarters reach 3.5, so the top is 4.0. */
TEST(a_bad_point_does_not_flatten_the_rest)
{
    made        runs[8];
    const char *rates[8] = { "0.01", "0.02", "0.03", "0.04", "0.05", "0.06", "0.07", "0.08" };
    rig         r;

    for (int i = 0; i < 8; i++)
        runs[i] =
            (made){ .optimizer = "muon", .lr = rates[i], .loss = i < 7 ? 3.0 + 0.1 * i : 50.0 };
    make(&r, runs, 8, &usual);
    CHECK(fabs(block(&r, "loss-lr")->figure.panels[0].y_top - 4.0) <= 1e-12, "top %g",
          block(&r, "loss-lr")->figure.panels[0].y_top);
    release(&r);
    runs[7].loss = 4.4; /* a little higher, and seven alone: nothing is bad */
    for (size_t n = 7; n <= 8; n++) {
        make(&r, runs, n, &usual);
        CHECK(isnan(block(&r, "loss-lr")->figure.panels[0].y_top), "no limit of %zu", n);
        release(&r);
    }
}

/* lr times the mean over groups of 0.5, 1, 1.5 (norm) and 0.25, 0.5, 0.75 (RMS). */
TEST(effective_steps_are_rates_times_norms)
{
    rig r;
    make(&r, sweep, COUNT(sweep), &usual);
    check_point(curve(&r, "effective-step", 0, "Muon"), 1, 0.1 * 1.0, 3.1);
    check_point(curve(&r, "effective-step", 1, "Muon"), 1, 0.1 * 0.5, 3.1);
    check_point(curve(&r, "effective-step", 0, "Muon"), 3, 0.5 * 1.0, NAN);
    release(&r);
}

/* ---- controls -------------------------------------------------------------------------------- */

/* At lr 0.2 Soft Musec's best has D 0.05: Muon at 0.01.  At 0.1 its best has D 0.25, and Muon was
 * not run at 0.025. */
TEST(muon_is_paired_at_lr_times_d)
{
    rig             r;
    const ms_curve *c;

    make(&r, sweep, COUNT(sweep), &usual);
    c = curve(&r, "controls", 0, "Muon at lr·D");
    assert_int_equal(c->n, 1);
    check_point(c, 0, 0.2, 3.3);
    CHECK(strstr(c->at[0].tip, "lr 0.2 x D 0.05") != NULL, "%s", c->at[0].tip);
    c = curve(&r, "controls", 0, "Muon at lr");
    assert_int_equal(c->n, 3);
    check_point(c, 1, 0.2, 3.5);
    CHECK(strstr(section(&r, "controls")->blocks[1].words,
                 "no run of Muon at 0.025 (lr 0.1 x D 0.25), 0.025 (lr 0.5 x D 0.05).") != NULL,
          "%s", section(&r, "controls")->blocks[1].words);
    release(&r);
}

/* Steps divided by D are Muon's at the same rate, whatever D is. */
TEST(muon_is_paired_at_lr_with_steps_of_one)
{
    static const made runs[] = {
        { .optimizer = "muon", .lr = "0.1", .loss = 3.1 },
        { .optimizer = "muon", .lr = "0.2", .loss = 3.5 },
        { .optimizer = "soft-musec", .lr = "0.2", .loss = 2.9, .more = "update_scale=unit" },
        { .optimizer = "soft-musec", .lr = "0.5", .loss = 2.8, .more = "update_scale=unit" },
    };
    rig             r;
    const ms_curve *c;

    make(&r, runs, COUNT(runs), &usual);
    c = curve(&r, "controls", 0, "Muon at lr·D");
    assert_int_equal(c->n, 1);
    check_point(c, 0, 0.2, 3.5);
    CHECK(strstr(c->at[0].tip, "at 0.2 it steps as far as Soft Musec") != NULL, "%s", c->at[0].tip);
    CHECK(strstr(section(&r, "controls")->blocks[1].words, "no run of Muon at 0.5.") != NULL, "%s",
          section(&r, "controls")->blocks[1].words);
    CHECK(strstr(block(&r, "controls")->notes, "update-scale unit") != NULL, "%s",
          block(&r, "controls")->notes);
    release(&r);
}

/* The method's best at 0.1 has D 0.25, but exact was run with 0.5: that is what is compared. */
TEST(forms_are_compared_at_their_setting)
{
    made runs[COUNT(sweep) + 2];
    rig  r;

    memcpy(runs, sweep, sizeof sweep);
    runs[COUNT(sweep)] = (made){
        .optimizer = "soft-musec", .lr = "0.1", .threshold = "0.5", .mode = "exact", .loss = 2.7
    };
    runs[COUNT(sweep) + 1] = (made){
        .optimizer = "soft-musec", .lr = "0.2", .threshold = "1", .mode = "fast", .loss = 2.6
    };
    make(&r, runs, COUNT(runs), &usual);
    check_point(curve(&r, "controls", 0, "Soft Musec"), 0, 0.1, 3.0);
    check_point(curve(&r, "controls", 0, "Soft Musec, exact"), 0, 0.1, 2.7);
    check_point(curve(&r, "controls", 0, "Soft Musec"), 1, 0.2, 2.9);
    check_point(curve(&r, "controls", 0, "Soft Musec, fast"), 0, 0.2, 2.6);
    /* among all methods the forms do not stand */
    assert_int_equal(block(&r, "loss-lr")->figure.panels[0].n, 2 + 1); /* a curve of crosses */
    check_point(curve(&r, "loss-lr", 0, "Soft Musec"), 0, 0.1, 2.9);
    release(&r);
}

/* ---- tables ---------------------------------------------------------------------------------- */

TEST(selected_settings_have_their_decays)
{
    static const made runs[] = {
        { .optimizer = "muon",
          .lr        = "0.1",
          .decay     = "matrix=0,qk=1.2,vo=1.2,mlp=0.3",
          .loss      = 2.0 },
        { .optimizer = "muon", .lr = "0.1", .decay = "0.6", .loss = 2.1 },
        { .optimizer = "spectra", .lr = "0.1", .decay = "0.6", .threshold = "0.125", .loss = 2.2 },
    };
    rig r;

    make(&r, runs, COUNT(runs), &usual);
    check_row(&r, "hyperparameters", 0, "Muon|0.1|1.2|1.2|0.3|-|2.0000|0 of 1");
    check_row(&r, "hyperparameters", 1, "SPECTRA|0.1|0.6|0.6|0.6|0.125|2.2000|0 of 1");
    check_row(&r, "runs", 0,
              "run_000|pico, builtin|Muon|0.1|-|qk 1.2, vo 1.2, mlp 0.3|0|done|4 of 4|2.0000");
    check_row(&r, "runs", 2, "run_002|pico, builtin|SPECTRA|0.1|0.125|0.6|0|done|4 of 4|2.2000");
    CHECK(section(&r, "loss-lr") == NULL && section(&r, "stability") == NULL &&
              section(&r, "threshold") == NULL && section(&r, "ns-iters") == NULL,
          "one learning rate is no sweep");
    release(&r);
}

TEST(configs_are_tabled)
{
    static const made runs[] = {
        { .optimizer = "muon", .lr = "0.1", .loss = 2.0, .data = "a/fineweb" },
        { .optimizer = "muon", .lr = "0.1", .loss = 2.0, .data = "b/c4" },
        { .optimizer = "adamw", .lr = "0.1", .loss = 2.0, .data = "a/fineweb" },
        { .optimizer = "adamw", .lr = "0.1", .loss = 2.0, .data = "b/c4" },
    };
    rig r;

    make(&r, runs, COUNT(runs), &usual);
    check_row(&r, "architecture", 0, "layers|2");
    check_row(&r, "architecture", 8, "matrix parameters|1148"); /* 2 (4 15 7 + 2 7 11) */
    check_row(&r, "architecture", 9, "data|fineweb, c4");
    check_row(&r, "training", 1, "batch of the first stage, tokens|128");
    check_row(&r, "training", 3, "tokens seen|512");
    check_row(&r, "training", 4, "reduction of the gradients|sum8");
    check_row(&r, "training", 5, "precision|float32; on a GPU bfloat16, float32 masters");
    check_row(&r, "training", 9, "form of the weight decay|cautious-lr2; AdamW: decoupled");
    release(&r);
}

/* ---- over the steps -------------------------------------------------------------------------- */

TEST(curves_follow_the_log)
{
    static const made runs[] = {
        { .optimizer = "muon",
          .lr        = "0.1",
          .seed      = "1",
          .loss      = 2.0,
          .lines     = 10,
          .stages    = "33% batch=64; rest batch=256 lr=1.52" },
        { .optimizer = "muon",
          .lr        = "0.1",
          .seed      = "2",
          .loss      = 2.5,
          .lines     = 10,
          .stages    = "33% batch=64; rest batch=256 lr=1.52" },
        { .optimizer = "muonclip",
          .lr        = "0.5",
          .loss      = 2.0,
          .lines     = 10,
          .status    = MS_RUN_DIVERGED,
          .stages    = "33% batch=64; rest batch=256 lr=1.52" },
    };
    rig             r;
    const ms_curve *c;

    make(&r, runs, COUNT(runs), &usual);
    c = curve(&r, "dynamics-val", 0, "Muon");
    assert_int_equal(c->n, 5);
    check_point(c, 0, 2, 3.0);
    check_point(c, 4, 10, 2.0);
    CHECK(c->at[4].low == 2.0 && c->at[4].high == 2.5, "%g %g", c->at[4].low, c->at[4].high);
    CHECK(block(&r, "dynamics-val")->figure.panels[0].x_rule == 3.0, "after 10 / 3 steps");
    c = curve(&r, "dynamics-train", 0, "MuonClip");
    assert_int_equal(c->n, 10);
    check_point(c, 9, 10, 6.0 - 0.9);
    check_point(c + 1, 0, 10, NAN); /* the cross */
    CHECK(c[1].at[0].diverged && strcmp(c[1].label, "MuonClip") == 0, "%s", c[1].label);
    check_row(&r, "training", 1, "batch of the first stage, tokens|64");
    check_row(&r, "training", 2, "batch of the last stage, tokens|256");
    /* QK: 10 + i at step i + 1 */
    check_point(curve(&r, "weight-norm", 0, "Muon"), 1, 4, 13.0);
    check_point(curve(&r, "weight-norm", 2, "Muon"), 0, 2, 31.0);
    release(&r);
}

/* Of two seeds one diverged: the line is the other's, and the cross is there all the same. */
TEST(every_divergence_has_its_cross)
{
    static const made runs[] = {
        { .optimizer = "muon",
          .lr        = "0.1",
          .seed      = "1",
          .loss      = 2.0,
          .lines     = 4,
          .status    = MS_RUN_DIVERGED },
        { .optimizer = "muon", .lr = "0.1", .seed = "2", .loss = 2.5, .lines = 4 },
    };
    rig             r;
    const ms_curve *c;

    make(&r, runs, COUNT(runs), &usual);
    c = curve(&r, "dynamics-val", 0, "Muon");
    assert_int_equal(c->n, 2);
    check_point(c, 1, 4, 2.5);
    CHECK(c[1].n == 1 && c[1].at[0].diverged && c[1].at[0].x == 4.0, "%s", c[1].label);
    CHECK(strstr(c[1].at[0].tip, "step 4, seed 1: loss is not finite") != NULL, "%s",
          c[1].at[0].tip);
    CHECK(strstr(block(&r, "dynamics-val")->figure.caption,
                 "Crosses at the upper edge: runs that diverged.") != NULL,
          "%s", block(&r, "dynamics-val")->figure.caption);
    release(&r);
}

/* The first steps fall from 6: of 100, the fourth is the last that may leave the panel. */
TEST(the_first_steps_do_not_make_the_range)
{
    static const made runs[] = { { .optimizer = "muon", .lr = "0.1", .loss = 2.0, .lines = 100 } };
    rig               r;

    make(&r, runs, 1, &usual);
    const double top = block(&r, "dynamics-train")->figure.panels[0].y_top;
    CHECK(fabs(top - (6.0 - 0.04)) <= 1e-12, "%g", top);
    release(&r);
}

/* 1000 lines in windows of 3: the first point is the mean of lines 0 to 2, the last line 999. */
TEST(long_curves_are_thinned)
{
    static const made runs[] = { { .optimizer = "muon", .lr = "0.1", .loss = 2.0, .lines = 1000 } };
    rig               r;
    const ms_curve   *c;

    make(&r, runs, 1, &usual);
    c = curve(&r, "dynamics-train", 0, "Muon");
    assert_int_equal(c->n, 334);
    check_point(c, 0, 3, 6.0 - 0.001);
    check_point(c, 333, 1000, 6.0 - 0.999);
    release(&r);
}

/* 0.2 for weights: Muon alone has it, both have 0.1.  For ranks 0.5 or the largest shared one. */
TEST(rates_are_those_that_methods_share)
{
    static const made runs[] = {
        { .optimizer = "muon", .lr = "0.05", .loss = 2.0 },
        { .optimizer = "muon", .lr = "0.1", .loss = 2.0 },
        { .optimizer = "muon", .lr = "0.2", .loss = 2.0 },
        { .optimizer = "musec", .lr = "0.05", .loss = 2.0 },
        { .optimizer = "musec", .lr = "0.1", .loss = 2.0 },
    };
    rig r;

    make(&r, runs, COUNT(runs), &usual);
    CHECK(strstr(block(&r, "weight-norm")->figure.caption, "at learning rate 0.1,") != NULL, "%s",
          block(&r, "weight-norm")->figure.caption);
    CHECK(strstr(block(&r, "effective-rank")->figure.caption, "at learning rate 0.1,") != NULL,
          "%s", block(&r, "effective-rank")->figure.caption);
    check_point(curve(&r, "effective-rank", 1, "Musec"), 0, 2, 4.0);
    /* the clip: 0 cannot stand on a logarithmic axis */
    CHECK(isnan(curve(&r, "clip-sigma", 0, "Musec")->at[0].y), "sigma 0");
    check_point(curve(&r, "clip-sigma", 1, "Musec"), 0, 2, 2.0);
    check_point(curve(&r, "clip-sigma", 1, "σ1 = D"), 1, 4, 1.0);
    check_point(curve(&r, "clip-share", 2, "Musec"), 1, 4, 0.5);
    check_point(curve(&r, "clip-gain", 2, "Musec"), 1, 4, 0.75);
    assert_int_equal(block(&r, "clip-gain")->figure.panels[0].n, 2); /* Muon has no clip */
    release(&r);
}

/* ---- ablations ------------------------------------------------------------------------------- */

TEST(thresholds_and_iterations_are_compared_alone)
{
    static const made runs[] = {
        { .optimizer = "soft-musec",
          .lr        = "0.2",
          .threshold = "0.05",
          .decay     = "0.3",
          .loss      = 3.0 },
        { .optimizer = "soft-musec", .lr = "0.2", .threshold = "1", .decay = "0.3", .loss = 2.8 },
        { .optimizer = "soft-musec", .lr = "0.2", .threshold = "0.5", .decay = "0.3", .loss = 2.9 },
        { .optimizer = "soft-musec", .lr = "0.2", .threshold = "0.5", .decay = "0", .loss = 2.0 },
        { .optimizer = "soft-musec",
          .lr        = "0.2",
          .threshold = "0.05",
          .decay     = "0.3",
          .iters     = "3",
          .loss      = 3.1 },
        { .optimizer = "soft-musec",
          .lr        = "0.2",
          .threshold = "0.05",
          .decay     = "0.3",
          .iters     = "8",
          .loss      = 2.95 },
        { .optimizer = "soft-musec",
          .lr        = "0.2",
          .threshold = "0.05",
          .decay     = "0.3",
          .mode      = "exact",
          .loss      = 2.5 },
    };
    rig r;

    make(&r, runs, COUNT(runs), &usual);
    check_rows(&r, "threshold-losses", 3);
    check_row(&r, "threshold-losses", 0, "pico, builtin|Soft Musec|0.2|0.05|0.3|3.0000|0 of 1");
    check_row(&r, "threshold-losses", 1, "pico, builtin|Soft Musec|0.2|0.5|0.3|2.9000|0 of 1");
    check_row(&r, "threshold-losses", 2, "pico, builtin|Soft Musec|0.2|1|0.3|2.8000|0 of 1");
    check_point(curve(&r, "threshold", 0, "D = 0.5"), 1, 4, 2.9);
    check_rows(&r, "ns-iters-losses", 3);
    check_row(&r, "ns-iters-losses", 0, "pico, builtin|Soft Musec|0.2|3|0.05|0.3|3.1000|0 of 1");
    check_row(&r, "ns-iters-losses", 1, "pico, builtin|Soft Musec|0.2|5|0.05|0.3|3.0000|0 of 1");
    check_point(curve(&r, "ns-iters", 0, "K = 8"), 1, 4, 2.95);
    assert_int_equal(block(&r, "ns-iters")->figure.panels[0].n, 3);
    release(&r);
}

/* K = 3 was run with Nesterov's momentum alone: there is one K to compare, and no more. */
TEST(iterations_are_compared_within_a_method)
{
    static const made runs[] = {
        { .optimizer = "soft-musec", .lr = "0.2", .loss = 3.0 },
        { .optimizer = "soft-musec", .lr = "0.2", .loss = 2.9, .more = "nesterov=yes" },
        { .optimizer = "soft-musec",
          .lr        = "0.2",
          .iters     = "3",
          .loss      = 2.8,
          .more      = "nesterov=yes" },
        { .optimizer = "soft-musec", .lr = "0.2", .iters = "8", .loss = 2.7 },
    };
    rig r;

    make(&r, runs, COUNT(runs) - 1, &usual);
    CHECK(section(&r, "ns-iters") == NULL, "two methods are compared");
    release(&r);
    make(&r, runs, COUNT(runs), &usual);
    check_rows(&r, "ns-iters-losses", 2);
    check_row(&r, "ns-iters-losses", 0, "pico, builtin|Soft Musec|0.2|5|0.5|0|3.0000|0 of 1");
    check_row(&r, "ns-iters-losses", 1, "pico, builtin|Soft Musec|0.2|8|0.5|0|2.7000|0 of 1");
    release(&r);
}

/* ---- options --------------------------------------------------------------------------------- */

TEST(times_can_be_left_out)
{
    rig r;
    make(&r, sweep, COUNT(sweep), &usual);
    check_point(curve(&r, "step-time", 0, "Muon"), 0, 0, 10.0); /* 1 + 5 + 3 + 1 ms */
    check_row(&r, "step-times", 0, "pico, builtin|Soft Musec|10.000|3.000|30.0|1.000|6");
    release(&r);
    make(&r, sweep, COUNT(sweep), &(ms_report_options){ .omit_times = true, .within = 0.02 });
    CHECK(section(&r, "step-time") == NULL, "times are there");
    release(&r);
}

TEST(sections_can_be_chosen)
{
    static const char *const only[]  = { "runs", "ns-iters" };
    static const char *const wrong[] = { "runs", "los-lr" };
    const ms_report_options  o       = { .within = 0.02, .only = only, .n_only = 2 };
    rig                      r;
    ms_error                 e;

    make(&r, sweep, COUNT(sweep), &o);
    assert_int_equal(r.page.n, 2);
    CHECK(strstr(section(&r, "ns-iters")->blocks[0].words, "Needs runs of a clipping") != NULL,
          "%s", section(&r, "ns-iters")->blocks[0].words);
    release(&r);
    assert_int_equal(ms_sections_check(&e, wrong, 2), MUSEC_EINVAL);
    CHECK(strstr(e.text, "did you mean \"loss-lr\"") != NULL, "%s", e.text);
}

/* A caption explains no sign that is not drawn; without anything left out nothing is said of it. */
TEST(captions_explain_what_is_drawn)
{
    static const made runs[] = { { .optimizer = "muon", .lr = "0.1", .loss = 3.0 },
                                 { .optimizer = "muon", .lr = "0.2", .loss = 3.1 } };
    rig               r;

    make(&r, runs, COUNT(runs), &usual);
    CHECK(
        strcmp(block(&r, "loss-lr")->figure.caption,
               "The last validation loss of each method. Gradients sum8, QK-norm on, one seed.") ==
            0,
        "%s", block(&r, "loss-lr")->figure.caption);
    CHECK(strcmp(block(&r, "dynamics-val")->figure.caption,
                 "The best of each: Muon lr 0.1. Then all methods at one learning rate. Gradients "
                 "sum8, QK-norm on, one seed.") == 0,
          "%s", block(&r, "dynamics-val")->figure.caption);
    release(&r);
}

/* The last section says of each that is not there what it needs. */
TEST(sections_left_out_are_named)
{
    static const made runs[] = { { .optimizer = "muon", .lr = "0.1", .loss = 3.0 } };
    rig               r;

    make(&r, runs, COUNT(runs), &usual);
    CHECK(strcmp(r.page.sections[r.page.n - 1].id, "left-out") == 0, "it is the last");
    check_row(
        &r, "left-out", 0,
        "Loss against learning rate|Needs finished runs of one method at two learning rates or "
        "more.");
    for (size_t i = 2; i < block(&r, "left-out")->table.n_cells; i += 2)
        CHECK(strcmp(block(&r, "left-out")->table.cells[i], "All runs") != 0, "that is there");
    release(&r);
    make(&r, runs, COUNT(runs), &(ms_report_options){ .within = 0.02, .omit_times = true });
    bool said = false;
    for (size_t i = 2; i < block(&r, "left-out")->table.n_cells; i += 2)
        said = said || (strcmp(block(&r, "left-out")->table.cells[i], "Time of a step") == 0 &&
                        strcmp(block(&r, "left-out")->table.cells[i + 1],
                               "Times are left out (--omit-times).") == 0);
    CHECK(said, "times are named");
    release(&r);
}

TEST(nothing_gives_nothing)
{
    rig r;
    make(&r, NULL, 0, &usual);
    assert_int_equal(r.page.n, 0);
    assert_int_not_equal(
        ms_sections_build(&r.e, &r.c, &(ms_report_options){ .within = NAN }, &r.page), MUSEC_OK);
    release(&r);
}
