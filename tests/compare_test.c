/* compare_test.c - runs sorted into problems, methods and settings, and questions about them. */
#include "report/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "fake_run.h"
#include "scratch.h"

static struct { /* the runs of the last test */
    char       root[256];
    ms_runset  set;
    ms_compare c;
} s;

static void begin(void)
{
    fake_free(&s.set, &s.c);
    snprintf(s.root, sizeof s.root, "%s", fresh_dir());
}

static void add(const char *optimizer, double lr, double loss, const char *more)
{
    fake f = { .optimizer = optimizer, .lr = lr, .loss = loss, .diverged = isinf(loss) };
    if (f.diverged) f.loss = 3.0;
    snprintf(f.more, sizeof f.more, "%s", more);
    fake_run(s.root, &f);
}

static void sort(void) { fake_read(s.root, &s.set, &s.c); }

static bool has_note(const char *words)
{
    for (size_t i = 0; i < s.set.n_notes; i++)
        if (strstr(s.set.notes[i], words) != NULL) return true;
    return false;
}

static void check_labels(const char *const *labels, size_t n)
{
    CHECK(s.c.n_methods == n, "%zu methods, not %zu", s.c.n_methods, n);
    for (size_t i = 0; i < n; i++)
        CHECK(strcmp(s.c.methods[i].label, labels[i]) == 0, "\"%s\" is not \"%s\"",
              s.c.methods[i].label, labels[i]);
}

/* ---- problems -------------------------------------------------------------------------------- */

TEST(optimizer_options_and_seed_are_not_the_problem)
{
    begin();
    add("muon", 0.1, 3.0, "");
    add("muon", 0.1, 3.0, "seed=1 tokenizer="); /* empty: as if it were not there */
    add("muon", 0.2, 3.0, "weight_decay=0.5 nesterov=yes");
    add("soft-musec", 0.1, 3.0, "threshold=2 ns_mode=exact");
    add("adam", 0.001, 3.0, "device=cpu keep=3 checkpoint_every=7 val_every=2 report_every=3");
    sort();
    CHECK(s.c.n_problems == 1 && s.set.n_notes == 0, "%zu problems", s.c.n_problems);
    CHECK(strcmp(s.c.problems[0].label, "pico, fineweb") == 0, "%s", s.c.problems[0].label);
    CHECK(strcmp(s.c.problems[0].set, "fineweb") == 0, "%s", s.c.problems[0].set);
}

TEST(sets_and_presets_are_problems)
{
    begin();
    add("muon", 0.1, 3.0, "preset=nano width=256");
    add("muon", 0.1, 3.0, "data=data/c4");
    add("muon", 0.1, 3.0, "");
    sort();
    CHECK(s.c.n_problems == 3 && s.set.n_notes == 0, "%zu problems", s.c.n_problems);
    CHECK(strcmp(s.c.problems[0].label, "nano, fineweb") == 0, "%s", s.c.problems[0].label);
    CHECK(strcmp(s.c.problems[1].label, "pico, c4") == 0, "%s", s.c.problems[1].label);
    CHECK(strcmp(s.c.problems[2].label, "pico, fineweb") == 0, "%s", s.c.problems[2].label);
}

/* Told apart by as many fields as it takes, and noted. */
TEST(other_differences_are_told)
{
    begin();
    add("muon", 0.1, 3.0, "");
    add("muon", 0.1, 3.0, "steps=200");
    add("soft-musec", 0.1, 3.0, "steps=200 qk_norm=no");
    sort();
    CHECK(s.c.n_problems == 3, "%zu problems", s.c.n_problems);
    for (size_t i = 0; i < 3; i++) {
        const char *label = s.c.problems[i].label;
        CHECK(strncmp(label, "pico, fineweb, steps ", 21) == 0 ||
                  strncmp(label, "pico, fineweb, qk_norm ", 23) == 0,
              "%s", label);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(label, s.c.problems[k].label) != 0, "%s twice", label);
    }
    CHECK(has_note("differ in steps (100 and 200)") || has_note("differ in steps (200 and 100)"),
          "%zu notes", s.set.n_notes);
    CHECK(has_note("no comparison") && s.set.n_notes == 2, "%zu notes", s.set.n_notes);
}

/* The same last part of another path is another set. */
TEST(paths_with_one_name_are_told_apart)
{
    begin();
    add("muon", 0.1, 3.0, "data=old/fineweb");
    add("muon", 0.1, 3.0, "data=new/fineweb");
    sort();
    CHECK(s.c.n_problems == 2 && has_note("differ in data"), "%zu", s.c.n_problems);
    CHECK(strcmp(s.c.problems[0].label, "pico, fineweb, data new/fineweb") == 0, "%s",
          s.c.problems[0].label);
}

TEST(sets_are_called_by_their_last_part)
{
    static const struct {
        const char *data, *set;
    } cases[] = {
        { "builtin", "builtin" },
        { "builtin:7", "builtin:7" },
        { "data/text/fineweb", "fineweb" },
        { "data/text/fineweb/", "fineweb" },
        { "data/text/fineweb///", "fineweb" },
        { "fineweb.bin", "fineweb.bin" },
        { "a/fineweb=0.5", "fineweb" },
        { "a/fineweb/=2", "fineweb" },
        { "a/fineweb=0.5;b/c4=1.5", "fineweb + c4" },
        { "a/fineweb;b/c4/;c/owt=3", "fineweb + c4 + owt" },
        { "lang=en/fineweb", "fineweb" }, /* no number behind the '=' */
        { "a/lang=en", "lang=en" },       /* likewise */
        { "a/lang=en=2", "lang=en" },
        { "lang=en/x;b/c4=2", "x + c4" },
        { "a/x=", "x=" },
        { "a/x;", "x" },
        { "", "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char more[FAKE_SETTINGS];
        begin();
        snprintf(more, sizeof more, "data=%s", cases[i].data);
        add("muon", 0.1, 3.0, more);
        sort();
        CHECK(strcmp(s.c.problems[0].set, cases[i].set) == 0, "%s: \"%s\" is not \"%s\"",
              cases[i].data, s.c.problems[0].set, cases[i].set);
    }
}

/* ---- methods --------------------------------------------------------------------------------- */

TEST(methods_are_in_the_registry_s_order)
{
    static const char *const labels[] = { "Soft Musec", "Muon",  "MuonClip",
                                          "SPECTRA",    "AdamW", "unknown" };
    begin();
    add("unknown", 0.1, 3.0, "");
    add("adamw", 0.1, 3.0, "");
    add("spectra", 0.1, 3.0, "");
    add("muonclip", 0.1, 3.0, "");
    add("muon", 0.1, 3.0, "");
    add("soft-musec", 0.1, 3.0, "");
    sort();
    check_labels(labels, COUNT(labels));
    for (size_t i = 0; i < s.c.n_methods; i++) {
        const ms_method *m = &s.c.methods[i];
        CHECK(!m->variant && m->style.dash == ms_style_of(m->optimizer).dash, "%s", m->label);
        CHECK(m->clips == (i == 0 || i == 3), "%s", m->label);
        CHECK(ms_compare_plain(&s.c, m->optimizer) == i, "%s", m->label);
    }
    CHECK(ms_compare_plain(&s.c, "adam") == s.c.n_methods, "adam is not there");
}

TEST(variants_are_called_by_what_differs)
{
    static const char *const labels[] = { "Soft Musec",           "Soft Musec, K=3",
                                          "Soft Musec, exact",    "Muon",
                                          "MuonClip, qk_tau 100", "MuonClip, qk_tau 30" };
    begin();
    add("soft-musec", 0.1, 3.0, "");
    add("soft-musec", 0.1, 3.0, "ns_mode=exact");
    add("soft-musec", 0.1, 3.0, "ns_iters=3");
    add("muon", 0.1, 3.0, "");
    add("muonclip", 0.1, 3.0, "qk_tau=30");
    add("muonclip", 0.2, 3.0, "qk_tau=30");
    add("muonclip", 0.1, 3.0, "qk_tau=100");
    sort();
    check_labels(labels, COUNT(labels));
    CHECK(!s.c.methods[0].variant && s.c.methods[1].variant && s.c.methods[2].variant, "variants");
    CHECK(s.c.methods[1].style.dash != 0 && s.c.methods[2].style.dash != s.c.methods[1].style.dash,
          "dashes");
    CHECK(ms_compare_plain(&s.c, "soft-musec") == 0 && ms_compare_plain(&s.c, "muon") == 3,
          "plain");
    CHECK(ms_compare_plain(&s.c, "muonclip") == 5, "the one with the most runs");
}

/* What differs between problems alone is no variant: each has its own rule. */
TEST(options_that_go_with_the_problem_are_no_variants)
{
    static const char *const labels[] = { "MuonClip" };
    begin();
    add("muonclip", 0.1, 3.0, "qk_tau=30");
    add("muonclip", 0.1, 3.0, "qk_tau=100 preset=small");
    sort();
    check_labels(labels, COUNT(labels));
}

/* ---- settings -------------------------------------------------------------------------------- */

TEST(seeds_make_a_setting)
{
    begin();
    add("muon", 0.1, 3.5, "seed=10 threshold=1"); /* Muon has no threshold */
    add("muon", 0.1, 3.0, "seed=2");
    add("muon", 0.1, 2.5, "seed=1");
    add("muon", 0.1, INFINITY, "seed=3");
    add("muon", 0.2, INFINITY, "");
    sort();
    CHECK(s.c.n_settings == 2, "%zu settings", s.c.n_settings);
    const ms_setting *a = &s.c.settings[0], *b = &s.c.settings[1];
    CHECK(a->n == 4 && a->diverged == 1 && isnan(a->threshold), "%zu runs", a->n);
    CHECK(fabs(a->loss - 3.0) <= 1e-12 && a->low == 2.5 && a->high == 3.5, "%g", a->loss);
    CHECK(strcmp(ms_run_text(a->runs[0], "seed"), "1") == 0, "first seed");
    CHECK(strcmp(ms_run_text(a->runs[3], "seed"), "10") == 0, "last seed");
    CHECK(strcmp(a->threshold_text, "") == 0 && strcmp(a->decay, "0.1") == 0, "%s", a->decay);
    CHECK(b->n == 1 && b->diverged == 1 && isnan(b->loss) && isnan(b->low), "all diverged");
}

/* Runs of one seed that differ in what does not matter are one: that which measured more. */
TEST(a_seed_counts_once)
{
    begin();
    fake f = {
        .optimizer = "muon", .lr = 0.1, .loss = 3.0, .more = "report_every=0", .no_groups = true
    };

    fake_run(s.root, &f);
    add("muon", 0.1, 3.0, "report_every=10");
    add("muon", 0.1, 4.0, "seed=1");
    sort();
    CHECK(s.c.n_settings == 1 && s.c.settings[0].n == 2, "%zu runs", s.c.settings[0].n);
    CHECK(fabs(s.c.settings[0].loss - 3.5) <= 1e-12, "%g", s.c.settings[0].loss);
    CHECK(strcmp(ms_run_text(s.c.settings[0].runs[0], "report_every"), "10") == 0,
          "the one with groups");
    CHECK(s.set.n_notes == 1 && has_note("it counts once"), "%zu notes", s.set.n_notes);
}

TEST(settings_are_sorted_by_number)
{
    static const double thresholds[] = { 0.05, 0.5, 10.0 };
    begin();
    add("spectra", 0.1, 3.0, "threshold=10");
    add("spectra", 0.1, 3.0, "threshold=rms:2");
    add("spectra", 0.1, 3.0, "threshold=0.05");
    add("spectra", 0.1, 3.0, "threshold=0.5");
    add("spectra", 0.05, 3.0, "");
    add("spectra", 0.1, 3.0, "threshold=10 weight_decay=qk=1,vo=1");
    sort();
    CHECK(s.c.n_settings == 6 && s.c.settings[0].lr == 0.05, "%zu settings", s.c.n_settings);
    for (size_t i = 0; i < COUNT(thresholds); i++)
        CHECK(s.c.settings[1 + i].threshold == thresholds[i], "%g", s.c.settings[1 + i].threshold);
    CHECK(strcmp(s.c.settings[4].decay, "qk=1,vo=1") == 0, "%s", s.c.settings[4].decay);
    CHECK(isnan(s.c.settings[5].threshold), "a rule has no number");
    CHECK(strcmp(s.c.settings[5].threshold_text, "rms:2") == 0, "%s",
          s.c.settings[5].threshold_text);
}

TEST(rates_are_merged_and_ascending)
{
    begin();
    add("muon", 0.5, 3.0, "");
    add("muon", 0.2 * 0.05, 3.0, "");
    add("soft-musec", 0.01, 3.0, "");
    add("soft-musec", 0.1, 3.0, "");
    sort();
    CHECK(s.c.n_rates == 3, "%zu rates", s.c.n_rates);
    CHECK(ms_same_number(s.c.rates[0], 0.01) && s.c.rates[1] == 0.1 && s.c.rates[2] == 0.5,
          "rates");
    CHECK(ms_compare_best(&s.c, 0, ms_compare_plain(&s.c, "muon"), 0.01) != NULL, "lr times D");
}

TEST(unfinished_runs_are_left_out)
{
    begin();
    fake f = { .optimizer = "soft-musec", .lr = 0.1, .loss = 3.0 };

    add("muon", 0.1, 3.0, "");
    fake_text(fake_run(s.root, &f), "summary.json", "{\"status\": \"interrupted\"}");
    sort();
    CHECK(s.set.n == 2 && s.c.n_methods == 1 && s.c.n_settings == 1, "%zu methods", s.c.n_methods);
    CHECK(has_note("unfinished, 100 of 100 steps"), "%zu notes", s.set.n_notes);
}

TEST(nothing_to_compare_is_fine)
{
    ms_runset  set = { 0 };
    ms_compare c;
    ms_error   e = { "" };

    CHECK_OK_ERR(&e, ms_compare_build(&e, &set, &c));
    CHECK(c.n_problems == 0 && c.n_methods == 0 && c.n_settings == 0 && c.n_rates == 0, "empty");
    CHECK(ms_compare_tuned(&c, 0, 0) == NULL && ms_compare_plain(&c, "muon") == 0, "empty");
    ms_compare_free(&c);
}

/* Runs of one config that are not one run: what was changed on the way, and other data. */
TEST(runs_that_went_another_way_are_apart)
{
    static const struct {
        const char *summary; /* NULL: the rig's */
        size_t      problems;
        const char *label, *note;
    } cases[] = {
        { NULL, 1, "pico, fineweb", "the same run as" },
        { ", \"resumed\": [{\"step\": 20, \"key\": \"steps\", \"from\": \"20\", \"to\": \"100\"}]",
          2, "pico, fineweb, resumed steps 20 to 100 at step 20",
          "it went on with other settings (steps 20 to 100 at step 20)" },
        { ", \"resumed\": [{\"step\": 20, \"key\": \"device\", \"from\": \"cpu\", \"to\": "
          "\"cuda\"}]",
          1, "pico, fineweb", "the same run as" },
        { ", \"data\": {\"train\": [{\"sha256\": \"0123456789abcdef\"}], \"val\": []}", 1,
          "pico, fineweb", "the same run as" }, /* the other does not know its own */
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        const fake f = { .optimizer = "muon", .lr = 0.1, .loss = 3.0 };
        begin();
        char dir[256], text[512];
        bool found = false;
        fake_run(s.root, &f);
        snprintf(dir, sizeof dir, "%s", fake_run(s.root, &f));
        snprintf(text, sizeof text, "{\"status\": \"done\", \"last_val_loss\": 3.0%s}\n",
                 cases[i].summary != NULL ? cases[i].summary : "");
        fake_text(dir, "summary.json", text);
        sort();
        CHECK(s.c.n_problems == cases[i].problems, "%zu: %zu problems", i, s.c.n_problems);
        CHECK(has_note(cases[i].note), "%zu: not noted", i);
        for (size_t k = 0; k < s.c.n_problems; k++)
            if (strcmp(s.c.problems[k].label, cases[i].label) == 0) found = true;
        CHECK(found, "%zu: %s", i, s.c.problems[0].label);
    }
}

TEST(runs_on_other_data_are_apart)
{
    static const char *const sums[] = { "aaaaaaaaaaaaaa", "bbbbbbbbbbbbbb", "aaaaaaaaaaaaaa",
                                        NULL };
    begin();
    for (size_t i = 0; i < COUNT(sums); i++) {
        fake f = { .optimizer = "muon", .lr = 0.1, .loss = 3.0 };
        char text[512];
        snprintf(f.more, sizeof f.more, "seed=%zu", i);
        const char *dir = fake_run(s.root, &f);
        snprintf(
            text, sizeof text,
            "{\"status\": \"done\", \"last_val_loss\": 3.0, \"data\": {\"train\": [{\"sha256\": "
            "\"%s\"}], \"val\": [{\"sha256\": \"cccccccccccccc\"}]}}\n",
            sums[i] != NULL ? sums[i] : "");
        if (sums[i] != NULL) fake_text(dir, "summary.json", text);
    }
    sort();
    CHECK(s.c.n_problems == 3 && s.c.n_settings == 3, "%zu problems", s.c.n_problems);
    CHECK(has_note("differ in data_sums"), "noted");
    for (size_t i = 0; i < s.c.n_settings; i++)
        CHECK(s.c.settings[i].n == (strstr(s.c.problems[s.c.settings[i].problem].label,
                                           "aaaaaaaaaa+cccccccccc") != NULL
                                        ? 2
                                        : 1),
              "%zu runs", s.c.settings[i].n);
}

/* ---- questions ------------------------------------------------------------------------------- */

TEST(the_best_has_diverged_least)
{
    begin();
    add("spectra", 0.1, 2.0, "threshold=1");
    add("spectra", 0.1, INFINITY, "threshold=1 seed=1"); /* half of it */
    add("spectra", 0.1, 3.0, "threshold=2");
    add("spectra", 0.1, 2.9, "threshold=3 weight_decay=0.5");
    add("spectra", 0.1, INFINITY, "threshold=4");
    add("spectra", 0.2, INFINITY, "threshold=1");
    add("spectra", 0.5, 2.8, "threshold=1");
    sort();

    const ms_compare *c    = &s.c;
    const ms_setting *best = ms_compare_best(c, 0, 0, 0.1);
    CHECK(best != NULL && best->threshold == 3.0, "best at 0.1");
    best = ms_compare_best(c, 0, 0, 0.2);
    CHECK(best != NULL && best->diverged == 1, "all diverged at 0.2");
    CHECK(ms_compare_best(c, 0, 0, 0.3) == NULL, "none at 0.3");
    CHECK(ms_compare_best(c, 1, 0, 0.1) == NULL && ms_compare_best(c, 0, 1, 0.1) == NULL, "none");
    CHECK(ms_compare_tuned(c, 0, 0)->lr == 0.5, "tuned");
    CHECK(ms_compare_find(c, 0, 0, 0.1, 1.0, NULL)->diverged == 1, "of D 1");
    CHECK(ms_compare_find(c, 0, 0, NAN, 1.0, NULL)->lr == 0.5, "of D 1 at any rate");
    CHECK(ms_compare_find(c, 0, 0, NAN, NAN, "0.5")->threshold == 3.0, "of decay 0.5");
    CHECK(ms_compare_find(c, 0, 0, 0.1, 3.0, "0.1") == NULL, "none of these");
}

/* A lower loss does not make up for it. */
TEST(the_best_has_not_stalled)
{
    begin();
    add("muon", 0.1, 3.0, "");
    add("muon", 0.2, 4.0, "");
    fake_run(s.root, &(fake){ .optimizer = "muon", .lr = 0.3, .loss = 2.0, .idle = true });
    fake_run(s.root,
             &(fake){ .optimizer = "muon", .lr = 0.4, .loss = 2.5, .idle = true, .old = true });
    fake_run(s.root, &(fake){ .optimizer = "adam", .lr = 0.1, .loss = 2.0, .idle = true });
    sort();

    const size_t      muon = ms_compare_plain(&s.c, "muon"), adam = ms_compare_plain(&s.c, "adam");
    const ms_setting *idle = ms_compare_best(&s.c, 0, muon, 0.3);
    CHECK(idle->stalled == 1 && idle->diverged == 0 && idle->loss == 2.0, "%g", idle->loss);
    CHECK(ms_setting_failed(idle), "it failed");
    CHECK(ms_compare_best(&s.c, 0, muon, 0.4)->stalled == 1, "by its log");
    CHECK(ms_compare_tuned(&s.c, 0, muon)->lr == 0.1, "tuned");
    CHECK(!ms_setting_failed(ms_compare_tuned(&s.c, 0, muon)), "it did not fail");
    CHECK(ms_setting_failed(ms_compare_tuned(&s.c, 0, adam)), "Adam has no better one");
}

TEST(numbers_are_the_same_to_nine_digits)
{
    CHECK(ms_same_number(0.2 * 0.05, 0.01) && ms_same_number(0.0, 0.0), "same");
    CHECK(!ms_same_number(0.1, 0.1000001) && !ms_same_number(0.1, -0.1), "not the same");
    CHECK(!ms_same_number(NAN, NAN) && !ms_same_number(0.1, NAN), "NaN is none");
}
