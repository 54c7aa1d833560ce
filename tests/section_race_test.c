/* section_race_test.c - steps to a target loss: which setting is chosen, the step, intervals, runs
 * that do not reach the target. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "report/race.h"
#include "section_rig.h"

static const char *const       only[]  = { "race" };
static const ms_report_options raced   = { .within = 0.02, .only = only, .n_only = 1 },
                               to_3    = { .within = 0.02, .target = 3.0 },
                               untimed = { .within = 0.02, .target = 3.0, .omit_times = true };

#define RACE(options, ...)                              \
    make(options, (const char *const[]){ __VA_ARGS__ }, \
         COUNT(((const char *const[]){ __VA_ARGS__ })))

/* A run of four lines validates after step 2, with 1 more than its last loss, and after step 4: it
 * reaches 3 at 2 + 2 (loss + 1 - 3). */
static double steps_of(const char *run)
{
    ms_runset set = { 0 };
    double    steps;
    run_rig_add(&set, run);
    steps = ms_race_steps(&set.at[0], 3.0);
    ms_runset_free(&set);
    return steps;
}

TEST(the_step_lies_on_the_line_between_two_validations)
{
    CHECK(fabs(steps_of("muon lr=1 loss=2.5") - 3.0) <= 1e-12, "%g",
          steps_of("muon lr=1 loss=2.5"));
    CHECK(fabs(steps_of("muon lr=1 loss=2.75") - 3.5) <= 1e-12, "at a quarter");
    CHECK(steps_of("muon lr=1 loss=3") == 4.0, "as low as the target is low enough");
    CHECK(steps_of("muon lr=1 loss=2") == 2.0, "as low at the first validation");
    CHECK(steps_of("muon lr=1 loss=1.5") == 2.0, "lower at the first validation: not before it");
    CHECK(isnan(steps_of("muon lr=1 loss=3.0001")), "not reached");
    CHECK(isnan(steps_of("muon lr=1 loss=2.5 diverged")), "a run that diverged has no result");
    CHECK(isnan(steps_of("muon lr=1 loss=2.5 lines=1")), "it never validated");
}

TEST(a_loss_that_is_not_a_number_reaches_nothing)
{
    ms_runset set = { 0 };
    run_rig_add(&set, "muon lr=1 loss=2.5");
    set.at[0].lines[3].val_loss = NAN;
    CHECK(isnan(ms_race_steps(&set.at[0], 3.0)), "the last is NaN");
    set.at[0].lines[3].val_loss = 2.5;
    set.at[0].lines[1].val_loss = NAN;
    CHECK(ms_race_steps(&set.at[0], 3.0) == 4.0, "no line goes out from a NaN");
    CHECK(isnan(ms_race_steps(&set.at[0], NAN)), "nor is there a target");
    ms_runset_free(&set);
}

/* Of the tuning runs, those with seed 0: steps 3, 3.8 and 3 with a higher last loss. */
TEST(the_setting_with_the_fewest_steps_is_chosen)
{
    ms_race race;
    RACE(&to_3, "muon lr=0.1 loss=2.9", "muon lr=0.2 loss=2.5", "muon lr=0.4 loss=2 diverged",
         "muon lr=0.1 loss=1.5 seed=1", "adam lr=0.1 loss=3.5", "adam lr=0.2 loss=3.25",
         "adam lr=0.4 loss=3.75", "sgdm lr=0.1 loss=1.75", "sgdm lr=0.2 loss=1.25",
         "lion lr=1 loss=9 diverged");
    race = ms_race_of(&now.c, 0, 3.0);
    CHECK(race.tuning_seed == 0, "%lld", (long long)race.tuning_seed);
    for (size_t m = 0; m < now.c.n_methods; m++) {
        const ms_setting *s    = ms_race_choose(&race, m);
        const char       *name = now.c.methods[m].optimizer;
        CHECK(s != NULL, "%s", name);
        /* the fewest steps; else the lowest loss; the same steps, so the lowest loss; none else */
        CHECK(s->lr == (strcmp(name, "lion") == 0 ? 1.0 : 0.2), "%s: %g", name, s->lr);
        CHECK(ms_race_tuning_runs(&race, m) == (size_t)(strcmp(name, "sgdm") == 0   ? 2
                                                        : strcmp(name, "lion") == 0 ? 1
                                                                                    : 3),
              "%s", name);
    }
}

/* 0.2 is at 3 after 6 of 8 steps and ends higher than 0.1, which needs more. */
TEST(fewer_steps_count_more_than_a_lower_loss)
{
    ms_race race;
    RACE(&to_3, "muon lr=0.1 loss=2.5 lines=8", "muon lr=0.2 loss=2.875 lines=8");
    now.set.at[1].lines[5].val_loss = 3.0;
    make_sections(&to_3);
    race = ms_race_of(&now.c, 0, 3.0);
    CHECK(ms_race_steps(&now.set.at[0], 3.0) == 7.0, "%g", ms_race_steps(&now.set.at[0], 3.0));
    CHECK(ms_race_steps(&now.set.at[1], 3.0) == 6.0, "%g", ms_race_steps(&now.set.at[1], 3.0));
    CHECK(ms_race_choose(&race, 0)->lr == 0.2, "%g", ms_race_choose(&race, 0)->lr);
}

/* Muon at 0.2: 3.2 and 3.6 steps on the seeds 1 and 2, so 3.4 with an interval of 12.706 (Student's
 * t for one degree of freedom) times 0.2.  Soft Musec: 2.4 and 3, ratios 0.75 and 0.8333, mean
 * 0.7917, half of the interval 12.706 * 0.04167 = 0.529.  Adam reaches it once, at 3.2: at least
 * (3.2 + 4) / 2, ratios 1 and at least 4 / 3.6.  A step trains 9 ms. */
#define FOUR                                                                                     \
    "muon lr=0.1 loss=2.9", "muon lr=0.2 loss=2.5", "muon lr=0.4 loss=2.9",                      \
        "muon lr=0.2 loss=2.6 seed=1", "muon lr=0.2 loss=2.8 seed=2",                            \
        "soft-musec lr=0.5 threshold=0.25 loss=2.2", "soft-musec lr=0.5 threshold=0.5 loss=2.1", \
        "soft-musec lr=0.5 threshold=0.5 loss=2.2 seed=1",                                       \
        "soft-musec lr=0.5 threshold=0.5 loss=2.5 seed=2",                                       \
        "adam lr=0.01 weight_decay=matrix=0.1,qk=0.1,vo=0.1,mlp=0.1 loss=2.7",                   \
        "adam lr=0.02 loss=2.8",                                                                 \
        "adam lr=0.01 weight_decay=matrix=0.1,qk=0.1,vo=0.1,mlp=0.1 loss=2.6 seed=1",            \
        "adam lr=0.01 weight_decay=matrix=0.1,qk=0.1,vo=0.1,mlp=0.1 loss=3.2 seed=2",            \
        "lion lr=0.1 loss=2.95", "lion lr=0.1 loss=4 seed=1 diverged",                           \
        "lion lr=0.1 loss=3.5 seed=2", "sgdm lr=0.1 loss=5"

TEST(results_are_of_the_other_seeds_with_intervals_and_bounds)
{
    RACE(&untimed, FOUR);
    check_rows("race-steps", 5);
    check_row("race-steps", 0,
              "pico, builtin|3|Soft Musec|lr 0.5, D 0.5|2.7 ± 3.8|2 of 2|0.792 ± 0.529|2.3500|2");
    check_row("race-steps", 1,
              "pico, builtin|3|Muon|lr 0.2|3.4 ± 2.5|2 of 2|1.000 ± 0.000|2.7000|3");
    check_row("race-steps", 2,
              "pico, builtin|3|Adam|lr 0.01 (lowest), decay 0.1|> 3.6|1 of 2|> 1.056|2.9000|2");
    check_row("race-steps", 3, "pico, builtin|3|SGDM|lr 0.1|not reached|0 of 1|-|5.0000|1");
    check_row("race-steps", 4, "pico, builtin|3|Lion|lr 0.1|not reached|0 of 2|-|-|1");
    RACE(&to_3, FOUR);
    check_row("race-steps", 1,
              "pico, builtin|3|Muon|lr 0.2|3.4 ± 2.5|2 of 2|1.000 ± 0.000|2.7000|3|0.03");
}

/* The steps of each method, the fastest first; a cross for those of which not all reached it. */
TEST(the_figure_has_a_row_for_each_method)
{
    const ms_panel *p;
    RACE(&to_3, FOUR);
    p = panel("race", 0);
    CHECK(p->rows && p->n == 5 && block("race")->figure.n == 1, "%zu rows", p->n);
    assert_string_equal(p->curves[0].label, "Soft Musec");
    CHECK(fabs(p->curves[1].at[0].y - 3.4) <= 1e-12, "%g", p->curves[1].at[0].y);
    CHECK(fabs(p->curves[1].at[0].high - p->curves[1].at[0].low - 2.0 * 12.7062 * 0.2) <= 1e-4,
          "%g to %g", p->curves[1].at[0].low, p->curves[1].at[0].high);
    CHECK(!p->curves[1].at[0].diverged && p->curves[2].at[0].diverged, "a cross for Adam");
    CHECK(curve("race-loss", 0, "Muon")->n == 2, "losses on the way");
}

/* 1 % above 2.5 is 2.525, rounded up 2.53; runs of other seeds, variants and failed runs do not
 * count. */
TEST(without_a_target_it_is_above_muons_best_tuning_run)
{
    ms_race race;
    RACE(&raced, "muon lr=0.1 loss=2.5", "muon lr=0.2 loss=2.75", "muon lr=0.1 loss=2 seed=1",
         "muon lr=0.4 loss=1 diverged", "muon lr=0.1 nesterov=yes loss=2", "adam lr=0.1 loss=2.25");
    race = ms_race_of(&now.c, 0, 0.0);
    CHECK(fabs(race.target - 2.53) <= 1e-12, "%.15g", race.target);
    CHECK(block("race-steps")->notes != NULL, "it is said how");
    RACE(&raced, "muon lr=0.1 loss=2", "adam lr=0.1 loss=2.25");
    race = ms_race_of(&now.c, 0, 0.0);
    CHECK(race.target == 2.02, "1 %% above 2 is no more than that: %.15g", race.target);
    check_row("race-steps", 1, "pico, builtin|2.02|Adam|lr 0.1|not reached|0 of 1|-|2.2500|1|-");
}

TEST(without_muon_there_must_be_a_target)
{
    RACE(&raced, "adam lr=0.1 loss=2.5");
    check_has(section("race")->blocks[0].text, "these runs do not allow it");
    RACE(&to_3, "adam lr=0.1 loss=2.5");
    check_row("race-steps", 0, "pico, builtin|3|Adam|lr 0.1|3.0|1 of 1|-|2.5000|1|0.03");
    RACE(&usual, "muon lr=0.1 loss=2.5", "adam lr=0.1 loss=2.5");
    CHECK(section("race") == NULL, "nobody asked for it");
}

/* On two sets Muon takes 3 and 2.5 steps, Adam 3.6 and 2.5: ratios 1.2 and 1, mean 1.1, half of the
 * interval 12.706 * 0.1.  SGDM does not reach it on the second, Muon not on the third. */
TEST(sets_are_put_together_by_the_ratio_to_muon)
{
    RACE(&to_3, "muon lr=1 loss=2.5 data=a", "adam lr=1 loss=2.8 data=a",
         "sgdm lr=1 loss=2.9 data=a", "muon lr=1 loss=2.25 data=b", "adam lr=1 loss=2.25 data=b",
         "sgdm lr=1 loss=3.5 data=b", "lion lr=1 loss=8 data=b", "muon lr=1 loss=3.5 data=c",
         "adam lr=1 loss=2.5 data=c");
    check_rows("race-all", 4);
    check_row("race-all", 0, "Muon|1.000 ± 0.000|2|2 of 3");
    check_row("race-all", 1, "Adam|1.100 ± 1.271|2|3 of 3");
    check_row("race-all", 2, "SGDM|> 1.433|2|1 of 2"); /* (3.8 / 3 + 4 / 2.5) / 2 */
    check_row("race-all", 3, "Lion|-|0|0 of 1");
    CHECK(block("race")->figure.n == 4, "all sets, and each: %zu", block("race")->figure.n);
    CHECK(panel("race", 0)->x_rule == 1.0, "Muon's");
    CHECK(panel("race", 0)->curves[2].at[0].diverged, "SGDM has only a bound");
    CHECK(panel("race", 1)->n == 3 && panel("race", 2)->n == 4, "by set");
}
