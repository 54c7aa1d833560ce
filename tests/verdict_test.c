/* verdict_test.c - a made-up world in which every claim holds, and small changes to it, each of
 * which makes one claim fail or leaves it without the runs it needs. */
#include "report/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "verdict_rig.h"

TEST(every_claim_holds_in_its_world)
{
    world_make();
    world_repeat("data=data/c4", 1.0);
    const size_t half = w.n / 2;
    for (size_t i = 0; i < half; i++) { /* a larger model on the first set */
        w.at[w.n] = w.at[i];
        fake *f   = &w.at[w.n++];
        snprintf(f->more + strlen(f->more), sizeof f->more - strlen(f->more),
                 "%spreset=nano width=256 heads=4 mlp=1024 layers=4",
                 f->more[0] != '\0' ? " " : "");
        if (strcmp(f->optimizer, "muon") == 0 && f->lr >= 0.2) f->loss *= 1.05;
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            f->rank[g] *= 2.0; /* of the larger side */
    }
    judge();
    for (size_t i = 0; i < n_findings; i++)
        expect(findings[i].id, strcmp(findings[i].id, "theory") == 0 ? MS_NOT_TESTED : MS_HOLDS,
               "");
}

/* ---- changes that make a claim fail ---------------------------------------------------------- */

typedef enum what {
    GONE,
    LOSS,
    DIVERGE,
    EARLY, /* diverges before the change of stage */
    CALM,
    SPIKE,
    RECOVER,
    WOBBLE,
    LATE,
    NORM,
    NORM_QK,
    NORM_VO,
    RANK,
    SIGMA,
    TIME,
    NO_GROUPS,
    NO_CHANGE
} what;

typedef struct change {
    const char *claim;
    const char *optimizer; /* NULL: all */
    double      lr;        /* 0: all */
    const char *more;      /* part of its settings; "": any */
    what        what;
    double      value;
} change;

static void apply(const change *c)
{
    size_t n = 0;
    for (size_t i = 0; i < w.n; i++) {
        fake *f = &w.at[i];
        if ((c->optimizer != NULL && strcmp(f->optimizer, c->optimizer) != 0) ||
            (c->lr > 0.0 && f->lr != c->lr) || strstr(f->more, c->more) == NULL)
            continue;
        n++;
        switch (c->what) {
        case GONE: f->gone = true; break;
        case LOSS: f->loss = c->value; break;
        case DIVERGE: f->diverged = true; break;
        case EARLY: f->diverged = f->no_change = true; break;
        case CALM: f->diverged = false; break;
        case SPIKE: f->spike = c->value; break;
        case RECOVER: f->recover = c->value; break;
        case WOBBLE: f->wobble = c->value; break;
        case LATE: f->late = c->value; break;
        case NORM: fake_groups(f, c->value, c->value, c->value, f->rank[0]); break;
        case NORM_QK: f->norm[MS_RUN_QK] = c->value; break;
        case NORM_VO: f->norm[MS_RUN_VO] = c->value; break;
        case RANK: fake_groups(f, f->norm[0], f->norm[1], f->norm[2], c->value); break;
        case SIGMA: f->sigma = c->value; break;
        case TIME: f->ms = c->value; break;
        case NO_GROUPS: f->no_groups = true; break;
        case NO_CHANGE: f->no_change = true; break;
        }
    }
    CHECK(n > 0, "%s: nothing to change", c->claim);
}

static const change failing[] = {
    { "range", "soft-musec", 0.1, "", LOSS, 3.2 },
    { "range", "muonclip", 0, "", LOSS, 3.0 },
    { "tuned", "spectra", 0.1, "", LOSS, 2.8 },
    { "tuned", "soft-musec", 0, "", DIVERGE, 0 },
    { "small-lr", "muon", 0.01, "", LOSS, 3.08 },
    { "small-lr", "spectra", 0.01, "", DIVERGE, 0 },
    { "degrade", "muonclip", 0.5, "", LOSS, 3.1 },
    { "degrade", "soft-musec", 0.5, "", LOSS, 3.2 },
    { "degrade", "soft-musec", 0.5, "", DIVERGE, 0 },
    { "largest-lr", "muon", 0.5, "", CALM, 0 },
    { "largest-lr", "muonclip", 0.5, "", LOSS, 3.0 },
    { "stable", "spectra", 0.2, "", DIVERGE, 0 },
    { "stable", "soft-musec", 0.5, "", LOSS, 3.6 },
    { "spectra", "spectra", 0.2, "", LOSS, 3.0 },
    { "spectra", "spectra", 0.5, "", DIVERGE, 0 },
    { "spectra-better", "spectra", 0, "", LOSS, 2.9 },
    { "large-lr", "muonclip", 0.1, "", LOSS, 2.95 },
    { "large-lr", "spectra", 0.5, "", DIVERGE, 0 },
    { "near-best", "soft-musec", 0.5, "", LOSS, 3.05 },
    { "adam", "adamw", 0.001, "", LOSS, 3.0 },
    { "spike", "spectra", 0.2, "", SPIKE, 0.02 },
    { "recovery", "muon", 0.2, "", RECOVER, 10 },
    { "recovery", "muon", 0.2, "", LOSS, 2.92 },
    { "recovery", "spectra", 0.2, "", RECOVER, 50 },
    { "recovery", NULL, 0.2, "", DIVERGE, 0 }, /* after it is over */
    { "muonclip-better", "muonclip", 0.2, "", LOSS, 3.3 },
    { "muonclip-better", "muonclip", 0.2, "", DIVERGE, 0 },
    { "oscillation", "soft-musec", 0.2, "", WOBBLE, 0.01 },
    { "norm-muon", "muon", 0.2, "", NORM_VO, 15 },
    { "norm-muon", "muon", 0.2, "", NORM, 9 },
    { "norm-clipping", "spectra", 0.2, "", NORM_VO, 10 },
    { "norm-muonclip", "muonclip", 0.2, "", NORM_QK, 55 },
    { "norm-muonclip", "muonclip", 0.2, "", NORM_VO, 40 },
    { "rank-muon", "muon", 0.5, "", RANK, 0.85 },
    { "rank-muonclip", "muonclip", 0.5, "", RANK, 0.8 },
    { "rank-clipping", "spectra", 0.5, "", RANK, 0.8 },
    { "rank-late", "soft-musec", 0.5, "", RANK, 0.6 },
    { "time", "muonclip", 0, "", TIME, 10.7 },
    { "slowest", "spectra", 0, "", TIME, 10.2 },
    { "threshold", "soft-musec", 0.2, "threshold=1", LOSS, 3.0 },
    { "threshold", "soft-musec", 0.1, "threshold=0.5", DIVERGE, 0 },
    { "threshold-large", "soft-musec", 0.5, "threshold=1", LATE, 0 }, /* worse, but no spike */
    { "threshold-large", "soft-musec", 0.5, "threshold=0.05", LATE, 0.2 },
    { "threshold-large", "soft-musec", 0.5, "threshold=0.05", DIVERGE, 0 },
    { "threshold-one", "soft-musec", 0.5, "threshold=1", LOSS, 3.6 },
    { "threshold-one", "muonclip", 0.5, "", LOSS, 3.3 },
    { "iterations", "soft-musec", 0.2, "ns_iters=3", LOSS, 3.0 },
    { "more-iterations", "soft-musec", 0.1, "ns_iters=8", LOSS, 3.0 },
    { "effective-step", "muon", 0.25, "", LOSS, 2.96 },
    { "effective-step", "soft-musec", 0.5, "", DIVERGE, 0 },
    { "clip-active", "spectra", 0, "", SIGMA, 0.5 },
    { "operator", "soft-musec", 0.2, "exact", LOSS, 2.8 },
    { "operator", "soft-musec", 0.2, "fast", DIVERGE, 0 },
};

TEST(each_claim_can_fail)
{
    char after[64];

    for (size_t i = 0; i < COUNT(failing); i++) {
        world_make();
        apply(&failing[i]);
        judge();
        snprintf(after, sizeof after, "(change %zu) ", i);
        expect(failing[i].claim, MS_DOES_NOT_HOLD, after);
    }
}

/* Two data sets disagree, and a larger model has a smaller gap. */
TEST(the_claims_on_data_sets_and_model_sizes_can_fail)
{
    const change calm = { "sets", "muonclip", 0.5, "c4", LOSS, 3.02 };

    world_make();
    world_repeat("data=data/c4", 1.0);
    apply(&calm);
    judge();
    expect("sets", MS_DOES_NOT_HOLD, "");
    expect("largest-lr", MS_DOES_NOT_HOLD, "on one of two sets ");
    expect("sizes", MS_NOT_TESTED, "");

    world_make();
    world_repeat("preset=nano layers=4", 0.95);
    judge();
    expect("sizes", MS_DOES_NOT_HOLD, "");
    expect("sets", MS_NOT_TESTED, "");
}

/* ---- missing runs ---------------------------------------------------------------------------- */

static const change missing[] = {
    { "range", "muon", 0, "", GONE, 0 },
    { "range", "soft-musec", 0, "", GONE, 0 },
    { "tuned", "soft-musec", 0, "", GONE, 0 },
    { "tuned", "muon", 0, "", GONE, 0 },
    { "small-lr", "muon", 0, "", GONE, 0 },
    { "degrade", "soft-musec", 0, "", GONE, 0 },
    { "largest-lr", "muon", 0, "", GONE, 0 },
    { "stable", "muon", 0, "", GONE, 0 },
    { "spectra", "spectra", 0, "", GONE, 0 },
    { "spectra-better", "spectra", 0, "", GONE, 0 },
    { "sets", NULL, 0.01, "", GONE, 0 },
    { "spike", "muon", 0.2, "", GONE, 0 },
    { "spike", NULL, 0, "", NO_CHANGE, 0 },
    { "spike", "soft-musec", 0.2, "", EARLY, 0 },
    { "spike", "muon", 0.2, "", EARLY, 0 },
    { "spike", NULL, 0.2, "", EARLY, 0 },
    { "recovery", "soft-musec", 0.2, "", GONE, 0 },
    { "recovery", "spectra", 0, "", NO_CHANGE, 0 },
    { "muonclip-better", "muonclip", 0.2, "", GONE, 0 },
    { "oscillation", "muonclip", 0.2, "", GONE, 0 },
    { "norm-muon", "muon", 0.2, "", NO_GROUPS, 0 },
    { "norm-clipping", "soft-musec", 0, "", NO_GROUPS, 0 },
    { "norm-muonclip", "muonclip", 0.2, "", GONE, 0 },
    { "norm-muon", "soft-musec", 0, "", NORM, NAN },
    { "large-lr", "soft-musec", 0, "", GONE, 0 },
    { "near-best", "muon", 0, "", GONE, 0 },
    { "adam", NULL, 0.001, "", GONE, 0 },
    { "sizes", NULL, 0.2, "", GONE, 0 },
    { "rank-muon", "muon", 0.5, "", GONE, 0 },
    { "rank-muon", "muon", 0.5, "", RANK, NAN },
    { "rank-muonclip", "muonclip", 0.5, "", GONE, 0 },
    { "rank-clipping", "soft-musec", 0.5, "", GONE, 0 },
    { "rank-late", "spectra", 0.5, "", DIVERGE, 0 }, /* it has no last quarter */
    { "time", "muon", 0, "", TIME, NAN },
    { "slowest", "muonclip", 0, "", GONE, 0 },
    { "threshold", "soft-musec", 0, "threshold", GONE, 0 },
    { "threshold-large", "soft-musec", 0.5, "", GONE, 0 },
    { "threshold-one", "soft-musec", 0, "threshold=1", GONE, 0 },
    { "iterations", "soft-musec", 0, "ns_iters=3", GONE, 0 },
    { "more-iterations", "soft-musec", 0, "ns_iters", GONE, 0 },
    { "effective-step", "muon", 0, "", GONE, 0 },
    { "clip-active", NULL, 0, "", NO_GROUPS, 0 },
    { "operator", "soft-musec", 0, "ns_mode", GONE, 0 },
};

static bool is_covered(const char *id, const change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(changes[i].claim, id) == 0) return true;
    return false;
}

TEST(claims_without_their_runs_are_not_tested)
{
    char after[64];

    for (size_t i = 0; i < COUNT(missing); i++) {
        world_make();
        apply(&missing[i]);
        judge();
        snprintf(after, sizeof after, "(missing %zu) ", i);
        expect(missing[i].claim, MS_NOT_TESTED, after);
    }
    for (size_t i = 0; i < n_findings; i++) {
        if (strcmp(findings[i].id, "theory") == 0) continue;
        CHECK(is_covered(findings[i].id, missing, COUNT(missing)), "%s", findings[i].id);
        CHECK(is_covered(findings[i].id, failing, COUNT(failing)) ||
                  strcmp(findings[i].id, "sets") == 0 || strcmp(findings[i].id, "sizes") == 0,
              "%s", findings[i].id);
    }
}

TEST(no_runs_test_nothing)
{
    const ms_compare none = { 0 };

    judge_runs(&none, false);
    for (size_t i = 0; i < n_findings; i++)
        expect(findings[i].id, MS_NOT_TESTED, "");
    CHECK(strcmp(find("range")->result, "there are no finished runs") == 0, "%s",
          find("range")->result);
}

/* With a single run there is nothing to compare, and nothing crashes. */
TEST(a_single_method_tests_no_claim)
{
    static const char *const optimizers[] = { "soft-musec", "spectra", "muon", "muonclip", "adam" };

    for (size_t i = 0; i < COUNT(optimizers); i++) {
        w.n                                              = 0;
        world_add(optimizers[i], 0.2, 3.0, "")->diverged = i % 2 == 0;
        judge();
        expect("range", MS_NOT_TESTED, optimizers[i]);
        expect("recovery", MS_NOT_TESTED, optimizers[i]);
    }
}

/* ---- runs that learned nothing --------------------------------------------------------------- */

/* Runs of Muon that learned nothing test no claim on Muon, and one of them is named; if no run
 * learned, no claim is tested.  It is known from the summary of a run, or from its log alone. */
TEST(nothing_is_judged_by_runs_that_learned_nothing)
{
    for (int k = 0; k < 4; k++) {
        const bool old = k % 2 == 1, all = k / 2 == 1;
        world_make();
        for (size_t i = 0; i < w.n; i++)
            if (all || strcmp(w.at[i].optimizer, "muon") == 0) {
                w.at[i].idle     = true;
                w.at[i].old      = old;
                w.at[i].diverged = false;
            }
        judge();
        for (size_t i = 0; i < n_findings; i++)
            if (all || strcmp(findings[i].id, "spectra-better") != 0) /* Muon is not in that one */
                expect(findings[i].id, MS_NOT_TESTED, "");
        check_words("tuned", all ? "no run of Soft Musec has learned anything ("
                                 : "no run of Muon has learned anything (");
        check_words("tuned", old ? "loss 3." : ", unigram loss 5.500)");
    }
}

/* A method that learns nothing at a rate fails there; if no method learns, the rate is not used. */
TEST(rates_at_which_no_method_learned_do_not_count)
{
    world_make();
    for (size_t i = 0; i < w.n; i++)
        if (strcmp(w.at[i].optimizer, "muon") == 0 && w.at[i].lr == 0.01) {
            w.at[i].idle = true;
            w.at[i].loss = 4.5;
        }
    judge();
    expect("small-lr", MS_DOES_NOT_HOLD, "");
    check_words("small-lr", "Muon 4.500, MuonClip 3.010 at lr 0.01");
    for (size_t i = 0; i < w.n; i++)
        if (w.at[i].lr == 0.01) w.at[i].idle = true;
    judge();
    check_words("small-lr", "at lr 0.1");
}

/* ---- results --------------------------------------------------------------------------------- */

TEST(results_have_the_figures)
{
    world_make();
    world_add("muon", 0.01, 3.03, "seed=1");
    world_add("muon", 0.03, 3.40, ""); /* no common rate */
    world_add("muon", 0.03, 3.50, "seed=1");
    judge();
    check_words("small-lr",
                "fineweb: Soft Musec 3.000, SPECTRA 3.010, Muon 3.020, MuonClip 3.010 at lr 0.01 "
                "(seeds within 0.020)");
    CHECK(strstr(find("near-best")->result, "seeds") == NULL, "%s",
          find("near-best")->result); /* at lr 0.5 each method has one run */
    check_words("degrade", "Muon diverged, MuonClip +19.6% at lr 0.5");
    check_words("degrade", "Soft Musec +1.7%");
    check_words("range", "Soft Musec 0.01 to 0.5");
    check_words("range", "Muon 0.01 to 0.01"); /* by its own rates: at 0.03 it is worse */
    check_words("recovery", "Soft Musec 2.900 (10 steps)");
    check_words("recovery", "Muon 3.300 (30 steps)");
    check_words("rank-muon", "Muon QK 0.95 VO 0.95 MLP 0.95");
    check_words("norm-muonclip", "MuonClip QK 20 VO 58 MLP 79");
    check_words("time", "Soft Musec 10.1 ms");
    check_words("iterations", "lr 0.2 D 0.05: K 3 to 8 2.905 to 2.930");
    check_words("effective-step",
                "Soft Musec 2.950 at lr 0.5 with D 0.5, Muon 3.600 at 0.25 (better at ");
    check_words("clip-active", "SPECTRA (lr 0.1, D 0.5) 2, 50% above");
    judge_with(true);
    check_words("time", "times are left out");
}

/* The best loss of all, 2.8, is Muon's at a rate that no other method has. */
TEST(the_best_loss_may_have_a_rate_of_its_own)
{
    world_make();
    world_add("muon", 0.03, 2.8, "");
    judge();
    check_words("largest-lr", "Soft Musec +5.4%, SPECTRA +5.7%");
    check_words("stable", "Soft Musec at worst +7.1% (lr 0.01)");
    check_words("degrade", "Soft Musec +1.7%"); /* above its own */
}

/* With twenty data sets the text of the last one is not cut off. */
TEST(long_results_are_whole)
{
    char more[32];

    w.n = 0;
    for (int i = 0; i < 20; i++)
        for (size_t k = 0; k < WORLD_RATES; k++) {
            snprintf(more, sizeof more, "data=a/set%02d", i);
            const double outer = k == 0 || k == WORLD_RATES - 1 ? 0.5 : 0.0;
            world_add("soft-musec", world_rates[k], 3.0 + 0.1 * i + outer, more);
            world_add("muon", world_rates[k], 3.5 + 0.1 * i + outer, more);
        }
    judge();
    check_words("range", "set19: Soft Musec 0.1 to 0.2, Muon 0.1 to 0.2, without SPECTRA, without "
                         "MuonClip");
    CHECK(strlen(find("range")->result) > 1024, "a short one");
}

/* With update_scale=unit the step does not depend on D, which may be a rule. */
TEST(a_threshold_that_is_a_rule_is_named)
{
    w.n = 0;
    world_add("soft-musec", 0.2, 2.9, "threshold=rms:1 update_scale=unit");
    world_add("muon", 0.2, 3.3, "");
    judge();
    check_words("effective-step", "Soft Musec 2.900 at lr 0.2 with D rms:1, Muon 3.300 at 0.2");
}

/* At a rate of 0 nothing is trained, and the ratio of a range from there is not defined. */
TEST(a_rate_of_zero_is_in_no_sweep)
{
    world_make();
    for (int m = 0; m < 4; m++)
        world_add((const char *[]){ "soft-musec", "spectra", "muon", "muonclip" }[m], 0.0, 2.9, "");
    judge();
    check_words("range", "Soft Musec 0.01 to 0.5, SPECTRA 0.01 to 0.5, Muon "
                         "0.01 to 0.1");
    expect("range", MS_HOLDS, "");
    check_words("small-lr", "at lr 0.01");
}

TEST(a_spike_counts_whatever_the_last_loss)
{
    const change as_low = { "threshold-large", "soft-musec", 0.5, "threshold=1", LOSS, 2.96 };

    world_make();
    apply(&as_low);
    judge();
    expect("threshold-large", MS_HOLDS, "");
}

/* A method that was run with an option of its own is still found. */
TEST(variants_count_as_their_method)
{
    world_make();
    world_add("muonclip", 0.2, 3.1, "qk_tau=30");
    judge();
    expect("degrade", MS_HOLDS, "");
    check_words("degrade", "MuonClip +19.6%");
    expect("iterations", MS_HOLDS, "");
}

TEST(the_table_has_every_claim_once)
{
    const ms_compare none  = { 0 };
    ms_table         table = { 0 };

    judge_runs(&none, false);
    const size_t n = n_findings;
    ms_verdict_table(findings, n, &table);
    CHECK(table.n_cells == 5 * (n + 1), "%zu cells of %zu claims", table.n_cells, n);
    CHECK(strcmp(table.cells[5 * n + 4], "not tested here") == 0, "%s", table.cells[5 * n + 4]);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(findings[i].id, findings[k].id) != 0, "%s twice", findings[i].id);
    ms_table_free(&table);
}

TEST(the_sentences_contain_the_bounds_of_the_claims)
{
    static const struct {
        const char *id, *part;
    } cases[] = {
        { "range", "within 5% of that best. Holds if Soft Musec's is at least 2 times Muon's" },
        { "spectra-better", "lower by more than 0.1% and" },
        { "recovery", "At lr 0.2, steps" },
        { "norm-muonclip", "at most 0.8 times Muon's in QK" },
        { "time", "at most 6% above the least" },
        { "threshold-large", "rises by more than 1%, and by more than 2 times" },
    };
    judge_runs(&(ms_compare){ 0 }, false);
    for (size_t i = 0; i < n_findings; i++)
        CHECK(strpbrk(findings[i].measure, "{}") == NULL, "%s", findings[i].measure);
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK(strstr(find(cases[i].id)->measure, cases[i].part) != NULL, "%s: %s", cases[i].id,
              find(cases[i].id)->measure);
}

/* The table has a kind and its count, "1 holds" or "2 hold", the good kinds first. */
TEST(verdicts_are_counted)
{
    static const char *const want[]     = { "holds",
                                            "1 holds",
                                            "does not hold",
                                            "2 do not hold",
                                            "not decided by these runs",
                                            "1 not decided",
                                            "not tested here",
                                            "3 not tested" };
    static const ms_verdict  verdicts[] = {
         MS_NOT_TESTED,    MS_NOT_TESTED,    MS_NOT_TESTED,  MS_HOLDS,
         MS_DOES_NOT_HOLD, MS_DOES_NOT_HOLD, MS_NOT_DECIDED,
    };
    ms_finding counted[COUNT(verdicts)] = { 0 };
    ms_table   pairs                    = { 0 };

    for (size_t i = 0; i < COUNT(verdicts); i++)
        counted[i].verdict = verdicts[i];
    ms_verdict_counts(counted, COUNT(counted), &pairs);
    CHECK(pairs.n_cells == COUNT(want), "%zu cells", pairs.n_cells);
    for (size_t i = 0; i < COUNT(want); i++)
        CHECK(strcmp(pairs.cells[i], want[i]) == 0, "%s", pairs.cells[i]);
    ms_table_free(&pairs);
}
