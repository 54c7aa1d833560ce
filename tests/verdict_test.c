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
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    world_make(&w);
    world_repeat(&w, "data=data/c4", 1.0);
    n = w.n;
    for (size_t i = 0; i < n / 2; i++) { /* a larger model on the first set */
        w.at[w.n] = w.at[i];
        fake *f   = &w.at[w.n++];
        snprintf(f->more + strlen(f->more), sizeof f->more - strlen(f->more),
                 "%spreset=nano width=256 heads=4 mlp=1024 layers=4",
                 f->more[0] != '\0' ? " " : "");
        if (strcmp(f->optimizer, "muon") == 0 && f->lr >= 0.2) f->loss *= 1.05;
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            f->rank[g] *= 2.0; /* of the larger side */
    }
    n = judge(&w, findings);
    for (size_t i = 0; i < n; i++)
        expect(&findings[i], strcmp(findings[i].id, "theory") == 0 ? MS_NOT_TESTED : MS_HOLDS, "");
}

/* ---- one change, one claim ------------------------------------------------------------------- */

typedef enum what {
    GONE,
    LOSS,
    DIVERGE,
    EARLY, /* diverge before the change of stage */
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

static void apply(world *w, const change *c)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        fake *f = &w->at[i];
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
    { "adam", "adamw", 0, "", LOSS, 3.0 },
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
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    char         after[64];

    for (size_t i = 0; i < COUNT(failing); i++) {
        world_make(&w);
        apply(&w, &failing[i]);
        const size_t n = judge(&w, findings);
        snprintf(after, sizeof after, "(change %zu) ", i);
        expect(find(findings, n, failing[i].claim), MS_DOES_NOT_HOLD, after);
    }
}

/* Two sets that disagree, and a larger model with a smaller gap. */
TEST(sets_and_sizes_can_fail)
{
    static world w;
    const change calm = { "sets", "muonclip", 0.5, "c4", LOSS, 3.0 };
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    world_make(&w);
    world_repeat(&w, "data=data/c4", 1.0);
    apply(&w, &calm);
    n = judge(&w, findings);
    expect(find(findings, n, "sets"), MS_DOES_NOT_HOLD, "");
    expect(find(findings, n, "largest-lr"), MS_DOES_NOT_HOLD, "on one of two sets ");
    expect(find(findings, n, "sizes"), MS_NOT_TESTED, "");

    world_make(&w);
    world_repeat(&w, "preset=nano layers=4", 0.95);
    n = judge(&w, findings);
    expect(find(findings, n, "sizes"), MS_DOES_NOT_HOLD, "");
    expect(find(findings, n, "sets"), MS_NOT_TESTED, "");
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
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    char         after[64];
    size_t       n = 0;

    for (size_t i = 0; i < COUNT(missing); i++) {
        world_make(&w);
        apply(&w, &missing[i]);
        n = judge(&w, findings);
        snprintf(after, sizeof after, "(missing %zu) ", i);
        expect(find(findings, n, missing[i].claim), MS_NOT_TESTED, after);
    }
    for (size_t i = 0; i < n; i++) {
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
    ms_finding       findings[MOST_CLAIMS];
    const size_t     n = find_all(&none, false, findings);

    for (size_t i = 0; i < n; i++)
        expect(&findings[i], MS_NOT_TESTED, "");
    CHECK(strcmp(find(findings, n, "range")->result, "there are no finished runs") == 0, "%s",
          find(findings, n, "range")->result);
}

/* Only one run: nothing to compare, nothing to fall over. */
TEST(any_one_method_alone_is_fine)
{
    static const char *const optimizers[] = { "soft-musec", "spectra", "muon", "muonclip", "adam" };
    ms_finding               findings[MOST_CLAIMS];
    static world             w;

    for (size_t i = 0; i < COUNT(optimizers); i++) {
        w.n                                                  = 0;
        world_add(&w, optimizers[i], 0.2, 3.0, "")->diverged = i % 2 == 0;
        const size_t n                                       = judge(&w, findings);
        expect(find(findings, n, "range"), MS_NOT_TESTED, optimizers[i]);
        expect(find(findings, n, "recovery"), MS_NOT_TESTED, optimizers[i]);
    }
}

/* ---- runs that learned nothing --------------------------------------------------------------- */

/* No claim on Muon rests on runs of it that learned nothing, one of which is named; none at all
 * where no run learned.  That is known by the summary of a run, or by its log alone. */
TEST(nothing_is_judged_by_runs_that_learned_nothing)
{
    ms_finding   findings[MOST_CLAIMS];
    static world w;

    for (int k = 0; k < 4; k++) {
        const bool old = k % 2 == 1, all = k / 2 == 1;
        world_make(&w);
        for (size_t i = 0; i < w.n; i++)
            if (all || strcmp(w.at[i].optimizer, "muon") == 0) {
                w.at[i].idle     = true;
                w.at[i].old      = old;
                w.at[i].diverged = false;
            }
        const size_t n = judge(&w, findings);
        for (size_t i = 0; i < n; i++)
            if (all || strcmp(findings[i].id, "spectra-better") != 0) /* Muon is not in that one */
                expect(&findings[i], MS_NOT_TESTED, "");
        check_words(find(findings, n, "tuned"), all ? "no run of Soft Musec has learned anything ("
                                                    : "no run of Muon has learned anything (");
        check_words(find(findings, n, "tuned"), old ? "loss 3." : ", unigram loss 5.500)");
    }
}

/* One method that learns nothing at one rate has failed there; where none learns, nothing is said
 * of the rate. */
TEST(rates_at_which_none_learned_do_not_count)
{
    ms_finding   findings[MOST_CLAIMS];
    static world w;
    size_t       n;

    world_make(&w);
    for (size_t i = 0; i < w.n; i++)
        if (strcmp(w.at[i].optimizer, "muon") == 0 && w.at[i].lr == 0.01) {
            w.at[i].idle = true;
            w.at[i].loss = 4.5;
        }
    n = judge(&w, findings);
    expect(find(findings, n, "small-lr"), MS_DOES_NOT_HOLD, "");
    check_words(find(findings, n, "small-lr"), "Muon 4.500, MuonClip 3.010 at lr 0.01");
    for (size_t i = 0; i < w.n; i++)
        if (w.at[i].lr == 0.01) w.at[i].idle = true;
    n = judge(&w, findings);
    check_words(find(findings, n, "small-lr"), "at lr 0.1");
}

/* ---- figures and words ----------------------------------------------------------------------- */

TEST(results_have_the_figures)
{
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    world_make(&w);
    world_add(&w, "muon", 0.01, 3.03, "seed=1");
    world_add(&w, "muon", 0.03, 3.40, ""); /* no common rate */
    world_add(&w, "muon", 0.03, 3.50, "seed=1");
    n = judge(&w, findings);
    check_words(find(findings, n, "small-lr"),
                "fineweb: Soft Musec 3.000, SPECTRA 3.010, Muon 3.020, MuonClip 3.010 at lr 0.01 "
                "(seeds within 0.020)");
    CHECK(strstr(find(findings, n, "near-best")->result, "seeds") == NULL, "%s",
          find(findings, n, "near-best")->result); /* at lr 0.5 there is one of each */
    check_words(find(findings, n, "degrade"), "Muon diverged, MuonClip +19.6% at lr 0.5");
    check_words(find(findings, n, "degrade"), "Soft Musec +1.7%");
    check_words(find(findings, n, "range"), "Soft Musec 0.01 to 0.5");
    check_words(find(findings, n, "range"), "Muon 0.01 to 0.1");
    check_words(find(findings, n, "recovery"), "Soft Musec 2.900 (10 steps)");
    check_words(find(findings, n, "recovery"), "Muon 3.300 (30 steps)");
    check_words(find(findings, n, "rank-muon"), "Muon QK 0.95 VO 0.95 MLP 0.95");
    check_words(find(findings, n, "norm-muonclip"), "MuonClip QK 20 VO 58 MLP 79");
    check_words(find(findings, n, "time"), "Soft Musec 10.1 ms");
    check_words(find(findings, judge_with(&w, true, findings), "time"), "times are left out");
    n = judge(&w, findings);
    check_words(find(findings, n, "iterations"), "lr 0.2 D 0.05: K 3 to 8 2.905 to 2.930");
    check_words(find(findings, n, "effective-step"),
                "Soft Musec 2.950 at lr 0.5 with D 0.5, Muon 3.600 at 0.25 (better at ");
    check_words(find(findings, n, "clip-active"), "SPECTRA (lr 0.1, D 0.5) 2, 50% above");
}

/* The best of all is Muon's at a rate that no other method has: 2.8. */
TEST(the_best_of_all_has_any_rate)
{
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    world_make(&w);
    world_add(&w, "muon", 0.03, 2.8, "");
    n = judge(&w, findings);
    check_words(find(findings, n, "largest-lr"), "Soft Musec +5.4%, SPECTRA +5.7%");
    check_words(find(findings, n, "stable"), "Soft Musec at worst +7.1% (lr 0.01)");
    check_words(find(findings, n, "degrade"), "Soft Musec +1.7%"); /* above its own */
}

/* Twenty problems: nothing of the last is cut off. */
TEST(long_results_are_whole)
{
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    char         more[32];
    size_t       n;

    w.n = 0;
    for (int i = 0; i < 20; i++)
        for (size_t k = 0; k < WORLD_RATES; k++) {
            snprintf(more, sizeof more, "data=a/set%02d", i);
            world_add(&w, "soft-musec", world_rates[k], 3.0 + 0.1 * i, more);
            world_add(&w, "muon", world_rates[k], 3.5 + 0.1 * i, more);
        }
    n = judge(&w, findings);
    check_words(find(findings, n, "range"),
                "set19: Soft Musec 0.01 to 0.5, Muon 0.01 to 0.5, without SPECTRA, without "
                "MuonClip");
    CHECK(strlen(find(findings, n, "range")->result) > 1024, "a short one");
}

/* Steps of one size whatever D is: one that is a rule has its words. */
TEST(a_threshold_by_a_rule_is_told)
{
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    w.n = 0;
    world_add(&w, "soft-musec", 0.2, 2.9, "threshold=rms:1 update_scale=unit");
    world_add(&w, "muon", 0.2, 3.3, "");
    n = judge(&w, findings);
    check_words(find(findings, n, "effective-step"),
                "Soft Musec 2.900 at lr 0.2 with D rms:1, Muon 3.300 at 0.2");
}

/* At a rate of 0 nothing is trained, and a range from there has no width. */
TEST(a_rate_of_zero_is_in_no_sweep)
{
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    world_make(&w);
    for (int m = 0; m < 4; m++)
        world_add(&w, (const char *[]){ "soft-musec", "spectra", "muon", "muonclip" }[m], 0.0, 2.9,
                  "");
    n = judge(&w, findings);
    check_words(find(findings, n, "range"), "Soft Musec 0.01 to 0.5, SPECTRA 0.01 to 0.5, Muon "
                                            "0.01 to 0.1");
    expect(find(findings, n, "range"), MS_HOLDS, "");
    check_words(find(findings, n, "small-lr"), "at lr 0.01");
}

TEST(a_spike_counts_whatever_the_last_loss)
{
    static world w;
    const change as_low = { "threshold-large", "soft-musec", 0.5, "threshold=1", LOSS, 2.96 };
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    world_make(&w);
    apply(&w, &as_low);
    n = judge(&w, findings);
    expect(find(findings, n, "threshold-large"), MS_HOLDS, "");
}

/* Options of one optimizer do not rename the others; a method with no plain form is found too. */
TEST(variants_stand_for_their_method)
{
    static world w;
    ms_finding   findings[MOST_CLAIMS];
    size_t       n;

    world_make(&w);
    world_add(&w, "muonclip", 0.2, 3.1, "qk_tau=30");
    n = judge(&w, findings);
    expect(find(findings, n, "degrade"), MS_HOLDS, "");
    check_words(find(findings, n, "degrade"), "MuonClip +19.6%");
    expect(find(findings, n, "iterations"), MS_HOLDS, "");
}

TEST(the_table_has_them_all)
{
    ms_finding       findings[MOST_CLAIMS];
    const ms_compare none  = { 0 };
    ms_table         table = { 0 };
    const size_t     n     = find_all(&none, false, findings);

    ms_verdict_table(findings, n, &table);
    CHECK(table.n_cells == 5 * (n + 1), "%zu cells of %zu claims", table.n_cells, n);
    CHECK(strcmp(table.cells[5 * n + 4], "not tested here") == 0, "%s", table.cells[5 * n + 4]);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(findings[i].id, findings[k].id) != 0, "%s twice", findings[i].id);
    ms_table_free(&table);
}

/* "1 holds", "2 hold": kinds and words in pairs, the good ones first. */
TEST(verdicts_are_counted)
{
    static const char *const want[]     = { "holds",         "1 holds",         "does not hold",
                                            "2 do not hold", "not tested here", "3 not tested" };
    static const ms_verdict  verdicts[] = { MS_NOT_TESTED, MS_DOES_NOT_HOLD, MS_HOLDS,
                                            MS_NOT_TESTED, MS_DOES_NOT_HOLD, MS_NOT_TESTED };
    ms_finding               findings[COUNT(verdicts)] = { 0 };
    ms_table                 pairs                     = { 0 };

    for (size_t i = 0; i < COUNT(verdicts); i++)
        findings[i].verdict = verdicts[i];
    ms_verdict_counts(findings, COUNT(findings), &pairs);
    CHECK(pairs.n_cells == COUNT(want), "%zu cells", pairs.n_cells);
    for (size_t i = 0; i < COUNT(want); i++)
        CHECK(strcmp(pairs.cells[i], want[i]) == 0, "%s", pairs.cells[i]);
    ms_table_free(&pairs);
}

int main(void)
{
    const int failed = check_main();
    (void)find_all(NULL, false, NULL);
    return failed;
}
