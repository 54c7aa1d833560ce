/* compare_test.c - runs sorted into problems, methods and settings, and queries about them. */
#define _POSIX_C_SOURCE 200809L /* strtok_r */
#include "report/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fake_run.h"
#include "scratch.h"

static struct { /* the runs of the last test */
    const char *root;
    ms_runset   set;
    ms_compare  c;
} s;

static const fake usual = { .optimizer = "muon", .lr = 0.1, .loss = 3.0 };

/* Adds a run: its optimizer, then words with blanks in between, which are diverged, idle, old, lr=X
 * (0.1 unless given), loss=X (3) or other fields of its config. */
static void add(const char *text)
{
    fake f = usual;
    char words[FAKE_SETTINGS], *rest = NULL;
    snprintf(words, sizeof words, "%s", text);
    f.optimizer = strtok_r(words, " ", &rest);
    for (char *word; (word = strtok_r(NULL, " ", &rest)) != NULL;) {
        const size_t n    = strlen(f.more);
        const bool   rate = strncmp(word, "lr=", 3) == 0, loss = strncmp(word, "loss=", 5) == 0;
        f.diverged |= strcmp(word, "diverged") == 0;
        f.idle |= strcmp(word, "idle") == 0;
        f.old |= strcmp(word, "old") == 0;
        if (rate) f.lr = strtod(word + 3, NULL);
        if (loss) f.loss = strtod(word + 5, NULL);
        if (!rate && !loss && strchr(word, '=') != NULL)
            snprintf(f.more + n, sizeof f.more - n, "%s%s", n > 0 ? " " : "", word);
    }
    fake_run(s.root, &f);
}

static void begin(void)
{
    fake_free(&s.set, &s.c);
    s.root = fresh_dir();
}

static void sort(void) { fake_read(s.root, &s.set, &s.c); }

static void make(const char *const *runs, size_t n)
{
    begin();
    for (size_t i = 0; i < n; i++)
        add(runs[i]);
    sort();
}

/* Sorts these runs in place of the last ones. */
#define MAKE(...) \
    make((const char *const[]){ __VA_ARGS__ }, COUNT(((const char *const[]){ __VA_ARGS__ })))

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

/* An empty field is one that is not there. */
TEST(optimizer_options_and_seeds_make_no_problems)
{
    MAKE("muon", "muon seed=1 tokenizer=", "muon lr=0.2 weight_decay=0.5 nesterov=yes",
         "soft-musec threshold=2 ns_mode=exact",
         "adam lr=0.001 device=cpu keep=3 checkpoint_every=7 val_every=2 report_every=3");
    CHECK(s.c.n_problems == 1 && s.set.n_notes == 0, "%zu problems", s.c.n_problems);
    CHECK(strcmp(s.c.problems[0].label, "pico, fineweb") == 0, "%s", s.c.problems[0].label);
    CHECK(strcmp(s.c.problems[0].set, "fineweb") == 0, "%s", s.c.problems[0].set);
}

TEST(data_sets_and_presets_make_problems)
{
    MAKE("muon preset=nano width=256", "muon data=data/c4", "muon");
    CHECK(s.c.n_problems == 3 && s.set.n_notes == 0, "%zu problems", s.c.n_problems);
    CHECK(strcmp(s.c.problems[0].label, "nano, fineweb") == 0, "%s", s.c.problems[0].label);
    CHECK(strcmp(s.c.problems[1].label, "pico, c4") == 0, "%s", s.c.problems[1].label);
    CHECK(strcmp(s.c.problems[2].label, "pico, fineweb") == 0, "%s", s.c.problems[2].label);
}

TEST(other_differences_are_in_the_label_and_noted)
{
    MAKE("muon", "muon steps=200", "soft-musec steps=200 qk_norm=no");
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

TEST(data_sets_of_one_name_and_different_paths_are_two_problems)
{
    MAKE("muon data=old/fineweb", "muon data=new/fineweb");
    CHECK(s.c.n_problems == 2 && has_note("differ in data"), "%zu", s.c.n_problems);
    CHECK(strcmp(s.c.problems[0].label, "pico, fineweb, data new/fineweb") == 0, "%s",
          s.c.problems[0].label);
}

TEST(data_sets_are_named_by_the_last_part_of_their_path)
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
        { "a/lang=en", "lang=en" },       /* nor here */
        { "a/lang=en=2", "lang=en" },
        { "lang=en/x;b/c4=2", "x + c4" },
        { "a/x=", "x=" },
        { "a/x;", "x" },
        { "", "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[FAKE_SETTINGS];
        snprintf(text, sizeof text, "muon data=%s", cases[i].data);
        MAKE(text);
        CHECK(strcmp(s.c.problems[0].set, cases[i].set) == 0, "%s: \"%s\" is not \"%s\"",
              cases[i].data, s.c.problems[0].set, cases[i].set);
    }
}

/* ---- methods --------------------------------------------------------------------------------- */

TEST(methods_are_in_the_order_of_the_registry)
{
    static const char *const labels[] = { "Soft Musec", "Muon",  "MuonClip",
                                          "SPECTRA",    "AdamW", "unknown" };
    MAKE("unknown", "adamw", "spectra", "muonclip", "muon", "soft-musec");
    check_labels(labels, COUNT(labels));
    for (size_t i = 0; i < s.c.n_methods; i++) {
        const ms_method *m = &s.c.methods[i];
        CHECK(!m->variant && m->style.dash == ms_style_of(m->optimizer).dash, "%s", m->label);
        CHECK(m->clips == (i == 0 || i == 3), "%s", m->label);
        CHECK(ms_compare_plain(&s.c, m->optimizer) == i, "%s", m->label);
    }
    CHECK(ms_compare_plain(&s.c, "adam") == s.c.n_methods, "adam is not there");
}

TEST(variants_are_named_by_the_options_that_differ)
{
    static const char *const labels[] = { "Soft Musec",           "Soft Musec, K=3",
                                          "Soft Musec, exact",    "Muon",
                                          "MuonClip, qk_tau 100", "MuonClip, qk_tau 30" };
    MAKE("soft-musec", "soft-musec ns_mode=exact", "soft-musec ns_iters=3", "muon",
         "muonclip qk_tau=30", "muonclip lr=0.2 qk_tau=30", "muonclip qk_tau=100");
    check_labels(labels, COUNT(labels));
    CHECK(!s.c.methods[0].variant && s.c.methods[1].variant && s.c.methods[2].variant, "variants");
    CHECK(s.c.methods[1].style.dash != 0 && s.c.methods[2].style.dash != s.c.methods[1].style.dash,
          "dashes");
    CHECK(ms_compare_plain(&s.c, "soft-musec") == 0 && ms_compare_plain(&s.c, "muon") == 3,
          "plain");
    CHECK(ms_compare_plain(&s.c, "muonclip") == 5, "the one with the most runs");
}

/* Runs of versions without a sharpness, such as the first, have their optimizer's own, like those
 * that leave it to the program or name it. */
TEST(clips_are_named_by_a_sharpness_that_is_not_their_own)
{
    static const char *const labels[] = { "Musec",
                                          "Musec, fast",
                                          "Soft Musec",
                                          "Soft Musec, sharpness 4",
                                          "Soft Musec, sharpness 4, fast",
                                          "Soft Musec, sharpness hard",
                                          "Muon",
                                          "SPECTRA, clip hard",
                                          "SPECTRA, clip soft" };
    MAKE("soft-musec", "soft-musec sharpness=auto seed=1", "soft-musec sharpness=2 seed=2",
         "soft-musec sharpness=4", "soft-musec sharpness=4 ns_mode=fast",
         "soft-musec sharpness=hard", "musec", "musec sharpness=hard seed=1",
         "musec sharpness=auto ns_mode=fast", "muon", "muon sharpness=auto seed=1",
         "spectra clip=soft", "spectra clip=soft sharpness=2 seed=1", "spectra clip=hard",
         "spectra clip=hard sharpness=hard seed=1");
    check_labels(labels, COUNT(labels));
    CHECK(s.c.settings[2].method == 2 && s.c.settings[2].n == 3, "%zu soft clips",
          s.c.settings[2].n);
    CHECK(s.c.n_problems == 1 && s.set.n_notes == 0, "%zu notes", s.set.n_notes);
    MAKE("soft-musec", "soft-musec sharpness=2", "soft-musec sharpness=auto seed=1");
    CHECK(s.c.n_settings == 1 && s.c.settings[0].n == 2 && has_note("the same run as"), "%zu runs",
          s.c.settings[0].n);
}

/* Runs of versions without these options did what they say by default. */
TEST(options_of_new_versions_make_variants_only_where_they_are_used)
{
    static const char *const labels[] = { "Muon", "Muon, second_moment rows" };
    MAKE("muon shape_rule=normuon", "muon shape_rule=fixed-rms second_moment=none seed=1",
         "muon shape_rule=fixed-rms function=auto ns_eps=0 ns_eps_form=added seed=2",
         "muon shape_rule=fixed-rms second_moment=rows second_beta=0");
    check_labels(labels, COUNT(labels));
    CHECK(s.c.settings[0].n == 3, "%zu runs", s.c.settings[0].n);
}

/* What an optimizer does by default is not said of it: Muon without Nesterov, NorMuon with it. */
TEST(labels_leave_out_an_optimizers_own_defaults)
{
    static const char *const labels[] = { "Musec",   "Musec, update_scale unit",
                                          "Muon",    "Muon, nesterov yes",
                                          "NorMuon", "NorMuon, nesterov no" };
    MAKE("musec update_scale=paper", "musec update_scale=unit", "muon nesterov=no",
         "muon nesterov=yes", "normuon nesterov=yes", "normuon nesterov=no");
    check_labels(labels, COUNT(labels));
    CHECK(!s.c.methods[2].variant && s.c.methods[3].variant, "Muon itself");
}

/* A weight of zeros stays zero with it, so its runs begin elsewhere, which is noted; what another
 * optimizer begins with makes a problem of its own. */
TEST(hyperball_stands_beside_runs_that_begin_with_zeros)
{
    MAKE("muon init_out=0 init_down=0 data=a",
         "muonh decay_form=hyperball init_out=0.5 init_down=0.5 data=a",
         "adam init_out=0 init_down=0 data=a", "muon init_out=0.25 init_down=0 data=b",
         "muonh decay_form=hyperball init_out=0.5 init_down=0.5 data=b batch=64",
         "muon init_out=0.5 init_down=0 data=b");
    CHECK(s.c.n_problems == 4, "%zu problems", s.c.n_problems);
    CHECK(s.c.settings[0].problem == s.c.settings[1].problem &&
              s.c.settings[0].problem == s.c.settings[2].problem,
          "three methods on one problem");
    CHECK(has_note("begins with weights that are not zero: init_out 0.5 and init_down 0.5, not 0 "
                   "and 0"),
          "%zu notes", s.set.n_notes);
}

TEST(options_that_differ_between_problems_alone_make_no_variants)
{
    static const char *const labels[] = { "MuonClip" };
    MAKE("muonclip qk_tau=30", "muonclip qk_tau=100 preset=small");
    check_labels(labels, COUNT(labels));
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Muon does not read the threshold. */
TEST(a_setting_holds_the_runs_of_all_seeds)
{
    MAKE("muon loss=3.5 seed=10 threshold=1", "muon seed=2", "muon loss=2.5 seed=1",
         "muon diverged seed=3", "muon lr=0.2 diverged");
    CHECK(s.c.n_settings == 2, "%zu settings", s.c.n_settings);
    const ms_setting *a = &s.c.settings[0], *b = &s.c.settings[1];
    CHECK(a->n == 4 && a->diverged == 1 && isnan(a->threshold), "%zu runs", a->n);
    CHECK(fabs(a->loss - 3.0) <= 1e-12 && a->low == 2.5 && a->high == 3.5, "%g", a->loss);
    CHECK(strcmp(ms_run_text(a->runs[0], "seed"), "1") == 0, "first seed");
    CHECK(strcmp(ms_run_text(a->runs[3], "seed"), "10") == 0, "last seed");
    CHECK(strcmp(a->threshold_text, "") == 0 && strcmp(a->decay, "0.1") == 0, "%s", a->decay);
    CHECK(b->n == 1 && b->diverged == 1 && isnan(b->loss) && isnan(b->low), "all diverged");
}

/* Of two runs with the same seed and settings the one that measured more counts. */
TEST(each_seed_of_a_setting_counts_once)
{
    fake f      = usual;
    f.no_groups = true;
    snprintf(f.more, sizeof f.more, "report_every=0");
    begin();
    fake_run(s.root, &f);
    add("muon report_every=10");
    add("muon loss=4 seed=1");
    sort();
    CHECK(s.c.n_settings == 1 && s.c.settings[0].n == 2, "%zu runs", s.c.settings[0].n);
    CHECK(fabs(s.c.settings[0].loss - 3.5) <= 1e-12, "%g", s.c.settings[0].loss);
    CHECK(strcmp(ms_run_text(s.c.settings[0].runs[0], "report_every"), "10") == 0,
          "the one with groups");
    CHECK(s.set.n_notes == 1 && has_note("it counts once"), "%zu notes", s.set.n_notes);
}

TEST(settings_are_sorted_by_rate_decay_and_threshold)
{
    static const double thresholds[] = { 0.05, 0.5, 10.0 };
    MAKE("spectra threshold=10", "spectra threshold=rms:2", "spectra threshold=0.05",
         "spectra threshold=0.5", "spectra lr=0.05", "spectra threshold=10 weight_decay=qk=1,vo=1");
    CHECK(s.c.n_settings == 6 && s.c.settings[0].lr == 0.05, "%zu settings", s.c.n_settings);
    for (size_t i = 0; i < COUNT(thresholds); i++)
        CHECK(s.c.settings[1 + i].threshold == thresholds[i], "%g", s.c.settings[1 + i].threshold);
    CHECK(strcmp(s.c.settings[4].decay, "qk=1,vo=1") == 0, "%s", s.c.settings[4].decay);
    CHECK(isnan(s.c.settings[5].threshold), "a rule has no number");
    CHECK(strcmp(s.c.settings[5].threshold_text, "rms:2") == 0, "%s",
          s.c.settings[5].threshold_text);
}

TEST(rates_are_ascending_and_rounding_errors_are_merged)
{
    MAKE("muon lr=0.5", "muon lr=0.010000000000000002", "soft-musec lr=0.01", "soft-musec");
    CHECK(s.c.n_rates == 3, "%zu rates", s.c.n_rates);
    CHECK(ms_same_number(s.c.rates[0], 0.01) && s.c.rates[1] == 0.1 && s.c.rates[2] == 0.5,
          "rates");
    CHECK(ms_compare_best(&s.c, 0, ms_compare_plain(&s.c, "muon"), 0.01) != NULL, "lr times D");
}

TEST(unfinished_runs_are_left_out_and_noted)
{
    fake f      = usual;
    f.optimizer = "soft-musec";
    begin();
    add("muon");
    fake_text(fake_run(s.root, &f), "summary.json", "{\"status\": \"interrupted\"}");
    sort();
    CHECK(s.set.n == 2 && s.c.n_methods == 1 && s.c.n_settings == 1, "%zu methods", s.c.n_methods);
    CHECK(has_note("unfinished, 100 of 100 steps"), "%zu notes", s.set.n_notes);
}

TEST(a_comparison_of_no_runs_is_empty)
{
    ms_runset  set = { 0 };
    ms_compare c;
    ms_error   e = { "" };

    CHECK_OK_ERR(&e, ms_compare_build(&e, &set, &c));
    CHECK(c.n_problems == 0 && c.n_methods == 0 && c.n_settings == 0 && c.n_rates == 0, "empty");
    CHECK(ms_compare_tuned(&c, 0, 0) == NULL && ms_compare_plain(&c, "muon") == 0, "empty");
    ms_compare_free(&c);
}

/* The two runs have the same config. */
TEST(runs_resumed_with_other_settings_are_apart)
{
    static const struct {
        const char *summary; /* NULL: that of fake_run() */
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
          "pico, fineweb", "the same run as" }, /* the other has no sum */
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[512];
        bool found = false;
        begin();
        fake_run(s.root, &usual);
        const char *dir = fake_run(s.root, &usual);
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
        fake f = usual;
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

/* ---- queries --------------------------------------------------------------------------------- */

/* Of the runs with threshold 1 at rate 0.1 half diverged. */
TEST(the_best_setting_has_diverged_least)
{
    MAKE("spectra loss=2 threshold=1", "spectra diverged threshold=1 seed=1", "spectra threshold=2",
         "spectra loss=2.9 threshold=3 weight_decay=0.5", "spectra diverged threshold=4",
         "spectra lr=0.2 diverged threshold=1", "spectra lr=0.5 loss=2.8 threshold=1");

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

/* A lower loss does not make up for stalling. */
TEST(the_best_setting_has_not_stalled)
{
    MAKE("muon", "muon lr=0.2 loss=4", "muon lr=0.3 loss=2 idle", "muon lr=0.4 loss=2.5 idle old",
         "adam loss=2 idle");

    const size_t      muon = ms_compare_plain(&s.c, "muon"), adam = ms_compare_plain(&s.c, "adam");
    const ms_setting *idle = ms_compare_best(&s.c, 0, muon, 0.3);
    CHECK(idle->stalled == 1 && idle->diverged == 0 && idle->loss == 2.0, "%g", idle->loss);
    CHECK(ms_setting_failed(idle), "it failed");
    CHECK(ms_compare_best(&s.c, 0, muon, 0.4)->stalled == 1, "by its log");
    CHECK(ms_compare_tuned(&s.c, 0, muon)->lr == 0.1, "tuned");
    CHECK(!ms_setting_failed(ms_compare_tuned(&s.c, 0, muon)), "it did not fail");
    CHECK(ms_setting_failed(ms_compare_tuned(&s.c, 0, adam)), "Adam has no better one");
}

/* One seed at 0.2 is lower than the mean of three at 0.1, which is the best of those with three; at
 * 0.2 itself it is what there is.  Beside two seeds one would count. */
TEST(a_lucky_seed_does_not_replace_a_setting_with_several)
{
    MAKE("muon lr=0.1 loss=3", "muon lr=0.1 loss=3.1 seed=1", "muon lr=0.1 loss=3.2 seed=2",
         "muon lr=0.2 loss=2.9", "muon lr=0.5 loss=3.5", "muon lr=0.5 loss=3.5 seed=1",
         "muon lr=0.5 loss=3.5 seed=2");
    CHECK(ms_compare_tuned(&s.c, 0, 0)->lr == 0.1, "tuned at %g", ms_compare_tuned(&s.c, 0, 0)->lr);
    CHECK(ms_compare_best(&s.c, 0, 0, 0.2)->loss == 2.9, "at 0.2");
    MAKE("muon lr=0.1 loss=3", "muon lr=0.1 loss=3.1 seed=1", "muon lr=0.2 loss=2.9");
    CHECK(ms_compare_tuned(&s.c, 0, 0)->lr == 0.2, "tuned at %g", ms_compare_tuned(&s.c, 0, 0)->lr);
}

TEST(numbers_are_the_same_to_nine_digits)
{
    CHECK(ms_same_number(0.2 * 0.05, 0.01) && ms_same_number(0.0, 0.0), "same");
    CHECK(!ms_same_number(0.1, 0.1000001) && !ms_same_number(0.1, -0.1), "not the same");
    CHECK(!ms_same_number(NAN, NAN) && !ms_same_number(0.1, NAN), "NaN is none");
}
