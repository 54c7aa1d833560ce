/* runset_test.c - run directories, valid and damaged, and what is read from them. */
#define _XOPEN_SOURCE 700
#include "report/runset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/json_file.h"
#include "fake_run.h"
#include "scratch.h"
#include "train/config.h"

static const char usual[] = "optimizer=muon lr=0.1 steps=3 threshold=0.5 width=128";
static const char done[]  = "{\"status\": \"done\", \"reason\": null}\n";

/* A run with this log and summary (NULL: none). */
static const char *make_run(const char *log, const char *summary)
{
    const char *dir = fresh_dir();
    fake_config(dir, usual);
    fake_text(dir, "log.jsonl", log);
    if (summary != NULL) fake_text(dir, "summary.json", summary);
    return dir;
}

static ms_runset set; /* the runs that were read last */

static void read_good(const char *path, size_t n_runs, size_t n_notes)
{
    ms_error e = { "" };
    ms_runset_free(&set);
    CHECK_OK_ERR(&e, ms_runset_add(&e, &set, path));
    CHECK(set.n == n_runs, "%zu runs, not %zu", set.n, n_runs);
    CHECK(set.n_notes == n_notes, "%zu notes, not %zu: %s", set.n_notes, n_notes,
          set.n_notes > 0 ? set.notes[0] : "");
}

static void check_fails(const char *path, const char *words)
{
    ms_error e = { "" };
    ms_runset_free(&set);
    CHECK_FAILS(&e, ms_runset_add(&e, &set, path), MUSEC_EINVAL, words);
    CHECK(set.n == 0, "%zu runs", set.n);
}

static void check_note(size_t i, const char *words)
{
    CHECK(strstr(set.notes[i], words) != NULL, "\"%s\" is not in \"%s\"", words, set.notes[i]);
}

/* ---- a whole run ----------------------------------------------------------------------------- */

TEST(every_number_is_read)
{
    const char *dir = make_run(
        "{\"step\": 1, \"tokens\": 64, \"epoch\": 0, \"loss\": 5.5, \"lr\": 0.1, \"tok_s\": 10, "
        "\"time_s\": 1.5, \"max_logit\": 7, \"ms\": {\"data\": 1, \"model\": 2, \"optim\": 3, "
        "\"rest\": 4}}\n"
        "{\"step\": 2, \"loss\": null, \"val_loss\": 4.25, \"groups\": {\"qk\": {\"w_norm\": 1, "
        "\"u_norm\": 2, \"u_rms\": 3, \"u_erank\": 4, \"u_gain\": 5, \"sigma1_over_d\": 6, "
        "\"share_above\": 0.5}, \"vo\": {\"w_norm\": null}}}\n"
        "{\"step\": 3, \"loss\": 3, \"val_loss\": 3.5}\n",
        done);
    read_good(dir, 1, 0);

    const ms_run       *run = &set.at[0];
    const ms_run_line  *a = &run->lines[0], *b = &run->lines[1];
    const ms_run_group *qk = &b->groups[MS_RUN_QK];
    CHECK(strcmp(run->dir, dir) == 0 && strcmp(run->optimizer, "muon") == 0, "%s", run->dir);
    CHECK(run->lr == 0.1 && run->threshold == 0.5 && run->steps == 3 && run->n == 3, "config");
    CHECK(run->status == MS_RUN_DONE && run->reason == NULL && run->val_loss == 3.5, "end");
    CHECK(a->step == 1 && a->tokens == 64 && a->loss == 5.5 && a->lr == 0.1, "line 1");
    CHECK(a->max_logit == 7 && !a->has_val, "line 1");
    CHECK(a->ms_data == 1 && a->ms_model == 2 && a->ms_optim == 3 && a->ms_rest == 4, "times");
    CHECK(!a->has_groups && isnan(a->val_loss) && isnan(a->groups[0].w_norm), "line 1");
    CHECK(b->has_val && b->val_loss == 4.25 && isnan(b->loss) && isnan(b->tokens), "line 2");
    CHECK(b->has_groups && qk->w_norm == 1 && qk->u_norm == 2 && qk->u_rms == 3, "groups");
    CHECK(qk->u_erank == 4 && qk->u_gain == 5 && qk->sigma1_over_d == 6, "groups");
    CHECK(qk->share_above == 0.5 && isnan(b->groups[MS_RUN_VO].w_norm), "groups");
    CHECK(isnan(b->groups[MS_RUN_MLP].w_norm) && ms_run_last_groups(run) == b, "groups");
    CHECK(strcmp(ms_run_text(run, "width"), "128") == 0 && ms_run_number(run, "width") == 128,
          "fields");
    CHECK(strcmp(ms_run_text(run, "none"), "") == 0 && isnan(ms_run_number(run, "none")), "fields");
}

/* The tests of claims rely on fake_run() writing what the trainer writes. */
TEST(figures_of_a_run_are_those_of_its_log)
{
    const fake f = {
        .optimizer = "soft-musec", .lr = 0.5, .loss = 3.0, .ms = 12.5, .more = "lr_up=2 lr_down=4"
    };
    double step, optim, norm, rms;

    read_good(fake_run(fresh_dir(), &f), 1, 0);
    CHECK(ms_run_stage_change(&set.at[0]) == FAKE_CHANGE, "%lld",
          (long long)ms_run_stage_change(&set.at[0]));
    CHECK(ms_run_step_ms(&set.at[0], &step, &optim), "no memory");
    CHECK(step == 12.5 && optim == 2.0, "%g, %g", step, optim);
    /* ten measurements, four before the change; MLP's larger factor is 4, the others' 1 */
    ms_run_applied(&set.at[0], &norm, &rms);
    CHECK(fabs(norm - 0.5 * 2.0 * (4.0 + 6.0 * 1.52) / 10.0) <= 1e-12, "%g", norm);
    CHECK(fabs(rms - 0.1 * norm) <= 1e-12, "%g", rms);
}

/* The learning rate of an extended run rises where it was resumed, which is no change of stage. */
TEST(a_run_that_was_extended_has_one_stage)
{
    const fake f = { .optimizer = "muon", .lr = 0.5, .loss = 3.0, .more = "stages=" };

    read_good(fake_run(fresh_dir(), &f), 1, 0);
    CHECK(ms_run_stage_change(&set.at[0]) == 0, "%lld", (long long)ms_run_stage_change(&set.at[0]));
}

/* The summary names the device and precision that `auto` became; older summaries do not. */
TEST(device_and_precision_are_those_of_the_summary)
{
    const fake  f   = { .optimizer = "muon", .lr = 0.5, .loss = 3.0, .more = "device=cuda:1" };
    const char *dir = fake_run(fresh_dir(), &f);
    char        kind[MS_RUN_KIND];

    for (int known = 0; known < 2; known++) {
        if (known)
            fake_text(dir, "summary.json",
                      "{\"status\": \"done\", \"reason\": null, \"computed\": "
                      "{\"device\": \"cpu\", \"precision\": \"f32\"}}\n");
        read_good(dir, 1, 0);
        ms_run_device(&set.at[0], kind);
        CHECK(strcmp(kind, known ? "cpu" : "cuda") == 0, "%s", kind);
        CHECK(strcmp(ms_run_precision(&set.at[0]), known ? "f32" : "bf16") == 0, "%s",
              ms_run_precision(&set.at[0]));
    }
}

TEST(figures_of_nothing_are_nan)
{
    const ms_run none = { 0 };
    double       a = 0.0, b = 0.0;

    CHECK(ms_run_step_ms(&none, &a, &b), "no memory");
    CHECK(isnan(a) && isnan(b), "%g, %g", a, b);
    a = b = 0.0;
    ms_run_applied(&none, &a, &b);
    CHECK(isnan(a) && isnan(b), "%g, %g", a, b);
    CHECK(ms_run_stage_change(&none) == 0 && ms_run_last_groups(&none) == NULL, "none");
}

TEST(step_times_without_memory_are_an_error)
{
#if defined(__SANITIZE_ADDRESS__)
    SKIP("a sanitizer ends the process without memory");
#else
    const ms_run endless = { .n = SIZE_MAX / 4 / sizeof(double) };
    double       a = 0.0, b = 0.0;
    CHECK(!ms_run_step_ms(&endless, &a, &b), "there is no memory for its steps");
#endif
}

TEST(step_times_leave_out_the_first_step_and_those_that_measure)
{
    const char *dir = make_run(
        "{\"step\": 1, \"ms\": {\"data\": 900, \"model\": 0, \"optim\": 900, \"rest\": 0}}\n"
        "{\"step\": 2, \"ms\": {\"data\": 1, \"model\": 1, \"optim\": 1, \"rest\": 1}}\n"
        "{\"step\": 3, \"val_loss\": 1, \"ms\": {\"data\": 9, \"model\": 9, \"optim\": 9, "
        "\"rest\": 9}}\n"
        "{\"step\": 4, \"groups\": {}, \"ms\": {\"data\": 9, \"model\": 9, \"optim\": 9, "
        "\"rest\": 9}}\n"
        "{\"step\": 5, \"ms\": {\"data\": 1, \"model\": 1, \"optim\": 3, \"rest\": 1}}\n"
        "{\"step\": 6, \"ms\": {\"data\": 1, \"model\": null, \"optim\": 3, \"rest\": 1}}\n",
        done);
    read_good(dir, 1, 0);
    double step, optim;

    CHECK(ms_run_step_ms(&set.at[0], &step, &optim), "no memory");
    CHECK(step == 5.0 && optim == 2.0, "%g, %g", step, optim);
}

/* ---- how a run ended ------------------------------------------------------------------------- */

TEST(runs_without_an_end_are_unfinished)
{
    static const char *const summaries[] = { NULL, "{\"status\": \"interrupted\"}" };

    for (size_t i = 0; i < COUNT(summaries); i++) {
        read_good(make_run("{\"step\": 1, \"val_loss\": 2}\n", summaries[i]), 1, 1);
        CHECK(set.at[0].status == MS_RUN_UNFINISHED && set.at[0].val_loss == 2.0, "status");
        check_note(0, "unfinished, 1 of 3 steps");
    }
}

TEST(diverged_runs_have_no_loss)
{
    read_good(make_run("{\"step\": 1, \"val_loss\": 2}\n",
                       "{\"status\": \"diverged\", \"reason\": \"too high\", "
                       "\"last_val_loss\": 2}"),
              1, 0);
    CHECK(set.at[0].status == MS_RUN_DIVERGED && isnan(set.at[0].val_loss), "status");
    CHECK(strcmp(set.at[0].reason, "too high") == 0, "%s", set.at[0].reason);
}

TEST(a_run_without_a_step_is_noted)
{
    read_good(make_run("", NULL), 1, 1);
    check_note(0, "no step was made");
    CHECK(set.at[0].status == MS_RUN_UNFINISHED && set.at[0].n == 0, "status");
}

/* A loss that was never measured is not one that went to infinity. */
TEST(runs_that_never_validated_are_unfinished)
{
    static const char *const logs[] = { "", "{\"step\": 1, \"loss\": 2}\n" };

    for (size_t i = 0; i < COUNT(logs); i++) {
        read_good(make_run(logs[i], done), 1, 1);
        CHECK(set.at[0].status == MS_RUN_UNFINISHED, "status");
        check_note(0, "never validated");
    }
}

TEST(a_null_loss_is_a_measured_nan)
{
    read_good(make_run("{\"step\": 1, \"val_loss\": 2}\n{\"step\": 2, \"val_loss\": null}\n", done),
              1, 0);
    CHECK(set.at[0].status == MS_RUN_DONE && isnan(set.at[0].val_loss), "%g", set.at[0].val_loss);
    CHECK(set.at[0].lines[1].has_val, "null was measured");
}

TEST(bad_summaries_are_named)
{
    check_fails(make_run("{\"step\": 1}\n", "{\"status\": "), "summary.json:1: ");
    check_fails(make_run("{\"step\": 1}\n", "{}"), "summary.json: there is no \"status\"");
    check_fails(make_run("{\"step\": 1}\n", "[]"), "summary.json: there is no \"status\"");
    check_fails(make_run("{\"step\": 1}\n", "{\"status\": 3}"), "there is no \"status\"");
}

/* ---- damaged logs ---------------------------------------------------------------------------- */

TEST(a_cut_last_line_is_left_out)
{
    static const char whole[] = "{\"step\": 1, \"val_loss\": 2}\n{\"step\": 2, \"val_loss\": 1}";
    const size_t      first   = (size_t)(strchr(whole, '\n') + 1 - whole);
    char              cut[sizeof whole];

    for (size_t n = first; n < sizeof whole; n++) { /* the second line, cut at every byte */
        const bool all = n == sizeof whole - 1, none = n == first;
        memcpy(cut, whole, n);
        cut[n] = '\0';
        read_good(make_run(cut, done), 1, all || none ? 0 : 1);
        CHECK(set.at[0].n == (all ? 2u : 1u), "%zu lines of %s", set.at[0].n, cut);
        CHECK(set.at[0].val_loss == (all ? 1.0 : 2.0), "%g", set.at[0].val_loss);
        if (!all && !none) check_note(0, "log.jsonl: line 2 is cut off and left out");
    }
}

/* The summary has the last loss of a finished run, so that a cut line does not change it. */
TEST(a_cut_line_does_not_change_the_last_loss)
{
    read_good(make_run("{\"step\": 1, \"val_loss\": 2}\n{\"step\": 2, \"va",
                       "{\"status\": \"done\", \"last_val_loss\": 1.5}"),
              1, 1);
    CHECK(set.at[0].val_loss == 1.5, "%g", set.at[0].val_loss);
}

TEST(damaged_lines_are_named)
{
    static const struct {
        const char *log, *words;
    } cases[] = {
        { "{\"step\": 1}\n{\"step\": 2, \"lo\n{\"step\": 3}\n", "log.jsonl: line 2: " },
        { "{\"step\": 1}\n\n{\"step\": 2}\n", "log.jsonl: line 2: " },
        { "{\"step\": 1}\n[2]\n", "log.jsonl: line 2: not a JSON object" },
        { "{\"step\": 1} x\n", "log.jsonl: line 1: " },
        { "\xff\xfe\n", "log.jsonl: line 1: " },
        { "{\"step\": 1}\n{\"step\": 3}\n", "log.jsonl: line 2: step 3 follows step 1" },
        { "{\"step\": 2}\n{\"step\": 2}\n", "log.jsonl: line 2: step 2 follows step 2" },
        { "{\"step\": 0}\n", "log.jsonl: line 1: step 0 follows step 0" },
        { "{\"step\": -4}\n", "log.jsonl: line 1: step -4" },
        { "{\"loss\": 1}\n", "log.jsonl: line 1: step 0" },
        { "{\"step\": \"1\"}\n", "log.jsonl: line 1: step 0" },
        { "{\"step\": 9223372036854775807}\n{\"step\": -9223372036854775808}\n", "line 2: step" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_fails(make_run(cases[i].log, done), cases[i].words);
}

TEST(lines_may_have_unknown_or_odd_fields)
{
    read_good(make_run("{\"step\": 7, \"loss\": \"x\", \"val_loss\": [], \"groups\": 3, \"ms\": "
                       "null, \"more\": {\"a\": [1]}}\n",
                       NULL),
              1, 1);
    const ms_run_line *line = &set.at[0].lines[0];
    CHECK(line->step == 7 && isnan(line->loss) && isnan(line->val_loss), "line");
    CHECK(!line->has_groups && isnan(line->ms_data), "line");
}

/* ---- configs --------------------------------------------------------------------------------- */

static const char *with_config(const char *config)
{
    const char *dir = make_run("{\"step\": 1, \"val_loss\": 2}\n", done);
    fake_text(dir, "config.json", config);
    return dir;
}

TEST(numbers_in_a_config_are_texts)
{
    read_good(with_config("{\"optimizer\": \"muon\", \"lr\": 0.1, \"steps\": 100, "
                          "\"weight_decay\": 0.3, \"tied\": false, \"mtp\": [1, 0.5]}"),
              1, 0);
    const ms_run *run = &set.at[0];
    CHECK(run->lr == 0.1 && run->steps == 100 && isnan(run->threshold), "%g", run->lr);
    assert_string_equal(ms_run_text(run, "lr"), "0.1");
    assert_string_equal(ms_run_text(run, "weight_decay"), "0.3");
    assert_string_equal(ms_run_text(run, "steps"), "100");
    assert_string_equal(ms_run_text(run, "tied"), "no");
}

/* In configs of older versions all values are text. */
TEST(old_and_new_configs_are_read_as_the_same)
{
    ms_train_config cfg;
    ms_error        e;
    json_t         *read[2] = { NULL, NULL };
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, "nano", "soft-musec"));
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "weight_decay", "qk=0.30000000000000004,mlp=1"));
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "seed", "18446744073709551615"));
    for (int i = 0; i < 2; i++) {
        json_t *json = i == 0 ? ms_train_config_texts(&cfg) : ms_train_config_json(&cfg);
        char   *text = ms_json_dump(json, 2);
        CHECK((strstr(text, "\"layers\": \"4\"") != NULL) == (i == 0), "%s", text);
        read_good(with_config(text), 1, 0);
        read[i] = json_incref(set.at[0].config);
        free(text);
        json_decref(json);
    }
    CHECK(json_object_size(read[0]) > 90 && json_equal(read[0], read[1]), "they differ");
    json_decref(read[0]);
    json_decref(read[1]);
}

TEST(bad_configs_are_named)
{
    static const struct {
        const char *config, *words;
    } cases[] = {
        { "", "config.json:1: " },
        { "[1]", "config.json:1: is no JSON as expected here: not a JSON object" },
        { "{\n\"lr\": ", "config.json:2: " },
        { "{\"lr\": \"1\", \"lr\": \"2\"}", "duplicate object key" },
        { "{}", "config.json: no config of a run" },
        { "{\"optimizer\": \"muon\", \"lr\": \"x\", \"steps\": \"3\"}", "no config of a run" },
        { "{\"optimizer\": \"muon\", \"lr\": \"nan\", \"steps\": \"3\"}", "no config of a run" },
        { "{\"optimizer\": \"muon\", \"lr\": \"inf\", \"steps\": \"3\"}", "no config of a run" },
        { "{\"optimizer\": \"muon\", \"lr\": \"-1\", \"steps\": \"3\"}", "no config of a run" },
        { "{\"optimizer\": \"muon\", \"lr\": \"1\", \"steps\": \"0\"}", "no config of a run" },
        { "{\"optimizer\": \"muon\", \"lr\": \"1\", \"steps\": \"1e300\"}", "no config of a run" },
        { "{\"optimizer\": \"muon\", \"lr\": \"1\", \"steps\": \"3x\"}", "no config of a run" },
        { "{\"optimizer\": \"\", \"lr\": \"1\", \"steps\": \"3\"}", "no config of a run" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_fails(with_config(cases[i].config), cases[i].words);
}

TEST(thresholds_by_a_rule_have_no_number)
{
    read_good(with_config("{\"optimizer\": \"musec\", \"lr\": \"1\", \"steps\": "
                          "\"3\", \"threshold\": \"rms:2\"}"),
              1, 0);
    CHECK(isnan(set.at[0].threshold), "%g", set.at[0].threshold);
    CHECK(strcmp(ms_run_text(&set.at[0], "threshold"), "rms:2") == 0, "text");
}

/* ---- directories ----------------------------------------------------------------------------- */

static void make_below(const char *root, const char *name, bool is_run)
{
    const char *dir = path_in(root, name);
    CHECK(mkdir(dir, 0777) == 0, "%s", dir);
    if (!is_run) return;
    fake_config(dir, usual);
    fake_text(dir, "log.jsonl", "{\"step\": 1, \"val_loss\": 2}\n");
    fake_text(dir, "summary.json", done);
}

TEST(runs_are_found_below)
{
    const char *root = fresh_dir();
    ms_error    e    = { "" };

    make_below(root, "b", true);
    make_below(root, "b/inner", true); /* directories in a run are not searched */
    make_below(root, "a", false);
    make_below(root, "a/y", true);
    make_below(root, "a/x", true);
    make_below(root, "c", false);
    make_below(root, "c/1", false);
    make_below(root, "c/1/2", false);
    make_below(root, "c/1/2/3", true);
    make_below(root, "c/1/2/far", false);
    make_below(root, "c/1/2/far/away", true); /* five levels below */
    make_below(root, "empty", false);
    fake_text(root, "config.json", "no run: it has no log");
    read_good(root, 4, 0);
    CHECK(strstr(set.at[0].dir, "/a/x") != NULL && strstr(set.at[1].dir, "/a/y") != NULL, "order");
    CHECK(strstr(set.at[2].dir, "/b") != NULL && strstr(set.at[3].dir, "/c/1/2/3") != NULL,
          "order");
    /* by other paths the same runs are not added again */
    CHECK_OK_ERR(&e, ms_runset_add(&e, &set, root));
    CHECK_OK_ERR(&e, ms_runset_add(&e, &set, path_in(root, "b")));
    CHECK_OK_ERR(&e, ms_runset_add(&e, &set, path_in(root, "a/../b/")));
    CHECK(set.n == 4, "%zu runs", set.n);
    /* a path without runs is an error even beside others */
    CHECK_FAILS(&e, ms_runset_add(&e, &set, path_in(root, "empty")), MUSEC_EINVAL, "no run in it");
    CHECK(set.n == 4, "%zu runs", set.n);
}

TEST(a_bad_run_below_is_a_note)
{
    const char *root = fresh_dir();

    make_below(root, "a", true);
    make_below(root, "b", true);
    make_below(root, "c", true);
    fake_text(path_in(root, "a"), "config.json", "");
    fake_text(path_in(root, "c"), "log.jsonl", "what\n");
    read_good(root, 1, 2);
    CHECK(strstr(set.at[0].dir, "/b") != NULL, "%s", set.at[0].dir);
    check_note(0, "/a/config.json:1: ");
    check_note(0, ": this run is left out");
    check_note(1, "/c/log.jsonl: line 1: ");
    check_fails(path_in(root, "a"), "config.json:1: "); /* given by its own path */
    fake_text(path_in(root, "b"), "config.json", "[]");
    check_fails(root, "none of its 3 runs can be read; the first: ");
}

TEST(a_run_with_a_rate_of_zero_is_read_and_noted)
{
    read_good(with_config("{\"optimizer\": \"musec\", \"lr\": \"0\", \"steps\": \"3\"}"), 1, 1);
    CHECK(set.at[0].lr == 0.0, "%g", set.at[0].lr);
    check_note(0, "its lr is 0");
}

TEST(paths_without_a_run_are_refused)
{
    ms_error    e   = { "" };
    const char *dir = fresh_dir();
    check_fails(dir, "no run in it: a run directory has config.json and log.jsonl");
    fake_text(dir, "file", "x");
    check_fails(path_in(dir, "file"), "it must be a run directory");
    CHECK_FAILS(&e, ms_runset_add(&e, &set, path_in(dir, "none")), MUSEC_EIO,
                "none: cannot read (No such file");
    CHECK(mkdir(path_in(dir, "config.json"), 0777) == 0, "%s", dir);
    CHECK(mkdir(path_in(dir, "log.jsonl"), 0777) == 0, "%s", dir);
    check_fails(dir, "no run in it");
}

/* Followed, these links would make cycles, or four levels of forty links each. */
TEST(symbolic_links_are_not_followed_in_circles)
{
    const char *root = fresh_dir();
    char        name[32];

    make_below(root, "run", true);
    make_below(root, "sub", false);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "loop%d", i);
        CHECK(symlink("..", path_in(path_in(root, "sub"), name)) == 0, "%s", name);
        CHECK(symlink(".", path_in(root, name)) == 0, "%s", name);
    }
    CHECK(symlink("run", path_in(root, "again")) == 0, "again");
    CHECK(symlink("nowhere", path_in(root, "dangling")) == 0, "dangling");
    read_good(root, 1, 0);
}

/* The processor time of reading so many lines, in seconds. */
static double seconds_to_read(int lines)
{
    const char *dir = make_run("", done);
    FILE       *f   = fopen(path_in(dir, "log.jsonl"), "wb");
    double      start;

    CHECK(f != NULL, "%s", dir);
    for (int i = 1; i <= lines; i++)
        fprintf(f,
                "{\"step\": %d, \"tokens\": %d, \"epoch\": 0, \"loss\": 3.25, \"objective\": 3.25, "
                "\"lr\": 0.1, \"tok_s\": 100000.5, \"time_s\": %d.5, \"max_logit\": 3.5%s, \"ms\": "
                "{\"data\": 0.1, \"model\": 10.5, \"optim\": 2.5, \"rest\": 0.01}}\n",
                i, 64 * i, i, i % 100 == 0 ? ", \"val_loss\": 2.5" : "");
    CHECK(fclose(f) == 0, "%s", dir);
    start = (double)clock();
    read_good(dir, 1, 0);
    const double took = ((double)clock() - start) / CLOCKS_PER_SEC;
    CHECK(set.at[0].n == (size_t)lines && set.at[0].val_loss == 2.5, "%zu lines", set.at[0].n);
    return took;
}

/* 16 times as many lines take 16 times as long, or 256 times if each line were compared with all
 * before it; the bound is their geometric mean.  A long run has a hundred thousand lines. */
TEST(the_time_to_read_a_log_is_linear_in_its_lines)
{
    const double few = seconds_to_read(6250), many = seconds_to_read(100000);
    print_message("6250 lines: %.3f s, 100000: %.3f s\n", few, many);
    CHECK(many <= 64.0 * few, "%g s, %g s", few, many);
}
