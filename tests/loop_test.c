/* loop_test.c - runs that are stopped after any step or inside one and resumed by another ms_train:
 * logs and checkpoints are those of a run that was never stopped, times apart.  And runs that
 * diverge. */
#define _POSIX_C_SOURCE 200809L /* symlink */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "train/trainer.h"
#include "train_rig.h"

enum { STEPS = 12, SHORT_STEPS = 4 };

#define SMALL                                                                            \
    "layers=1 width=16 heads=1 head=16 mlp=32 batch=64 max_doc=32 steps=12 val_every=5 " \
    "val_tokens=64 report_every=3 device=cpu "

static ms_summary run_until(const ms_train_config *cfg, train_watch *w, const char *out,
                            bool resume, int64_t stop_after)
{
    w->stop_after = stop_after;
    return train_run(cfg, w, out, resume);
}

static bool contains(const char *dir, const char *file, const char *text)
{
    static blob b;
    get_file(path_in(dir, file), &b);
    b.p[b.n < sizeof b.p ? b.n : sizeof b.p - 1] = '\0';
    return strstr((const char *)b.p, text) != NULL;
}

/* ---- stopped after a step -------------------------------------------------------------------- */

TEST(a_run_stopped_after_any_step_resumes_bit_for_bit)
{
    static train_watch    whole, parts;
    const ms_train_config cfg  = train_config("pico", "soft-musec", SMALL);
    ms_summary            want = run_until(&cfg, &whole, NULL, false, -1);

    CHECK(strcmp(want.status, "done") == 0 && whole.lines == STEPS, "%s", want.status);
    CHECK(whole.line[5].has_val && whole.line[12].has_val && !whole.line[6].has_val, "validations");
    for (int64_t stop = 0; stop <= STEPS; stop++) {
        const char *dir = fresh_dir();
        ms_summary  got = run_until(&cfg, &parts, dir, false, stop);
        CHECK(got.steps == stop && parts.lines == stop, "stopped after %lld", (long long)got.steps);
        CHECK(strcmp(got.status, stop == STEPS ? "done" : "interrupted") == 0, "%s", got.status);
        CHECK(got.reason == NULL && isnan(got.last_loss) == (stop == 0), "%g", got.last_loss);
        got = run_until(&cfg, &parts, dir, true, -1);
        CHECK(strcmp(got.status, "done") == 0 && parts.lines == STEPS - stop, "%s", got.status);
        CHECK(got.last_loss == want.last_loss && got.best_loss == want.best_loss &&
                  got.last_val_loss == want.last_val_loss &&
                  got.best_val_loss == want.best_val_loss && got.tokens == want.tokens,
              "stopped after %lld, another summary", (long long)stop);
        train_check_same(&whole, &parts, STEPS);
    }
}

TEST(a_run_stopped_after_every_step_resumes_bit_for_bit)
{
    static train_watch    whole, parts;
    const ms_train_config cfg = train_config("pico", "soft-musec", SMALL);
    const char           *dir = fresh_dir();
    run_until(&cfg, &whole, NULL, false, -1);
    for (int64_t stop = 1; stop <= STEPS; stop++)
        run_until(&cfg, &parts, dir, stop > 1, stop);
    train_check_same(&whole, &parts, STEPS);
}

/* Heavy-ball momentum with a tiny beta overflows with any gradient from step 5 on, when beta has
 * its final value.  The last step whose groups are measured is step 4. */
TEST(skipped_steps_are_counted_and_not_measured)
{
    static train_watch    whole, parts;
    const ms_train_config cfg = train_config(
        "pico", "sgdm",
        SMALL "momentum_form=heavy-ball beta=1e-43 momentum_warmup=4 momentum_from=0.5 "
              "nonfinite=skip report_every=4");
    const char *dir = fresh_dir();
    ms_summary  got = run_until(&cfg, &whole, NULL, false, -1);

    CHECK(strcmp(got.status, "done") == 0 && got.skipped == STEPS - 4, "%s, %lld skipped",
          got.status, (long long)got.skipped);
    for (int i = 1; i <= STEPS; i++)
        CHECK(whole.line[i].has_groups == (i == 4) && whole.line[i].skipped == (i > 4 ? i - 4 : 0),
              "step %d: measured %d, %lld skipped", i, whole.line[i].has_groups,
              (long long)whole.line[i].skipped);
    (void)run_until(&cfg, &parts, dir, false, 4);
    CHECK(!contains(dir, "log.jsonl", "skipped") && !contains(dir, "summary.json", "skipped"),
          "none was skipped yet");
    got = run_until(&cfg, &parts, dir, true, 6);
    CHECK(got.skipped == 2, "%lld skipped", (long long)got.skipped);
    got = run_until(&cfg, &parts, dir, true, -1);
    CHECK(got.skipped == STEPS - 4, "%lld skipped", (long long)got.skipped);
    CHECK(contains(dir, "log.jsonl", "\"skipped\": 3,") &&
              contains(dir, "summary.json", "\"skipped\": 8,"),
          "the count is not in the files");
    train_check_same(&whole, &parts, STEPS);
}

/* A process that makes no step does not know the times of the run. */
TEST(resuming_a_run_that_is_done_keeps_its_summary)
{
    static train_watch    w;
    static blob           before, after;
    const ms_train_config cfg     = train_config("pico", "soft-musec", SMALL);
    const ms_train_config shorter = train_config("pico", "soft-musec", SMALL "steps=6");
    const char           *dir     = fresh_dir();
    ms_summary            got;

    (void)run_until(&cfg, &w, dir, false, -1);
    get_file(path_in(dir, "summary.json"), &before);
    CHECK(!contains(dir, "summary.json", "\"start_s\": null"), "start_s");
    got = run_until(&cfg, &w, dir, true, -1);
    get_file(path_in(dir, "summary.json"), &after);
    CHECK(strcmp(got.status, "done") == 0 && w.lines == 0, "%s, %d lines", got.status, w.lines);
    CHECK(before.n == after.n && memcmp(before.p, after.p, after.n) == 0, "%.*s", (int)after.n,
          (const char *)after.p);

    CHECK(remove(path_in(dir, "summary.json")) == 0, "remove");
    (void)run_until(&cfg, &w, dir, true, -1);
    CHECK(contains(dir, "summary.json", "\"status\": \"done\""),
          "a summary that is missing is written");

    dir = fresh_dir(); /* with fewer steps an interrupted run is done */
    (void)run_until(&cfg, &w, dir, false, 6);
    CHECK(contains(dir, "summary.json", "\"status\": \"interrupted\""), "stopped");
    (void)run_until(&shorter, &w, dir, true, -1);
    CHECK(w.lines == 0 && contains(dir, "summary.json", "\"status\": \"done\""), "%d lines",
          w.lines);
}

/* The checkpoint may be whole, so the run does not resume from an older one, and nothing is
 * renamed. */
TEST(an_unreadable_checkpoint_does_not_count_as_damaged)
{
    static train_watch    w;
    static const char     newest[] = "checkpoint/step_00000006";
    const ms_train_config cfg =
        train_config("pico", "soft-musec", SMALL "checkpoint_every=3 keep=0");
    const char          *dir   = fresh_dir();
    const ms_train_setup setup = { .config = cfg, .out = dir, .resume = true };
    ms_error             e     = { "" };
    ms_train            *t     = NULL;
    const char          *model = path_in(path_in(dir, newest), "model.safetensors");
    struct stat          info;

    (void)run_until(&cfg, &w, dir, false, 6);
    CHECK(rename(model, path_in(dir, "kept")) == 0, "rename");
    CHECK(symlink(model, model) == 0, "symlink"); /* not even root can read it */
    CHECK(ms_train_open(&e, &setup, &t) == MUSEC_EIO && t == NULL, "%s", e.text);
    CHECK(strstr(e.text, "model.safetensors") != NULL && strstr(e.text, "may be whole") != NULL,
          "%s", e.text);
    CHECK(lstat(path_in(dir, newest), &info) == 0, "it was renamed");
    CHECK(remove(model) == 0, "remove"); /* a missing file is damage */
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK(t->progress.step == 3, "from step %lld", (long long)t->progress.step);
    ms_train_close(t);
    CHECK(lstat(path_in(dir, newest), &info) != 0, "it was not renamed");
}

/* The start of the run is moved into the past. */
static void spend_an_hour(ms_train *t) { t->started -= 3600e3; }

TEST(a_run_that_is_out_of_time_stops_and_resumes)
{
    static train_watch    whole, parts = { .after_first = spend_an_hour };
    const ms_train_config cfg   = train_config("pico", "soft-musec", SMALL "time_limit=59");
    const ms_train_config other = train_config("pico", "soft-musec", SMALL);
    const char           *dir   = fresh_dir();
    ms_summary            got   = run_until(&cfg, &whole, NULL, false, -1);

    CHECK(strcmp(got.status, "done") == 0, "%s within its time", got.status);
    got = run_until(&cfg, &parts, dir, false, -1);
    CHECK(strcmp(got.status, "interrupted") == 0 && got.steps == 1, "%s, %lld steps", got.status,
          (long long)got.steps);
    got = run_until(&other, &parts, dir, true, -1);
    CHECK(strcmp(got.status, "done") == 0, "%s", got.status);
    train_check_same(&whole, &parts, STEPS);
}

TEST(checkpoints_are_written_as_asked)
{
    static train_watch w;
    static const struct {
        const char *settings;
        bool        half, whole; /* whether there are checkpoints of a run stopped, done */
    } cases[] = { { SMALL "checkpoint_every=3 checkpoints=all", true, true },
                  { SMALL "checkpoint_every=3 checkpoints=unfinished", true, true },
                  { SMALL "checkpoint_every=0 checkpoints=unfinished", true, false },
                  { SMALL "checkpoint_every=3 checkpoints=none", false, false } };
    struct stat info;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const ms_train_config cfg = train_config("pico", "soft-musec", cases[i].settings);
        const char           *dir = fresh_dir();
        (void)run_until(&cfg, &w, dir, false, 4);
        CHECK((lstat(path_in(dir, "checkpoint"), &info) == 0) == cases[i].half, "%s stopped",
              cases[i].settings);
        dir = fresh_dir();
        (void)run_until(&cfg, &w, dir, false, -1);
        CHECK((lstat(path_in(dir, "checkpoint"), &info) == 0) == cases[i].whole, "%s done",
              cases[i].settings);
    }
}

/* ---- stopped inside a step ------------------------------------------------------------------- */

/* Two data sets that are so short that the run reaches their ends. */
static const char *texts[2];

static int write_texts(void **state)
{
    const char *dir = fresh_dir();
    char        text[512];
    (void)state;
    for (int k = 0; k < 2; k++) {
        size_t n = 0;
        for (int i = 0; n + 40 < sizeof text - 200 * (size_t)k; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%d of %d times %d;\n", i, k, i * i);
        texts[k] = path_in(dir, k == 0 ? "a.txt" : "b.txt");
        put_file(texts[k], text, n);
    }
    return 0;
}

/* Two data sets, two micro-batches, two layers, validations of several chunks, a checkpoint in the
 * middle, and reports at every second step. */
static ms_train_config short_config(const char *optimizer)
{
    ms_train_config cfg =
        train_config("pico", optimizer,
                     SMALL "layers=2 micro_batches=2 steps=4 val_every=2 val_tokens=96 "
                           "report_every=2 checkpoint_every=2 qk_norm=no keep=0");
    char data[600];
    snprintf(data, sizeof data, "%s;%s=2", texts[0], texts[1]);
    train_set(&cfg, "data", data);
    return cfg;
}

/* Runs until it asks for the `stop_at`-th time whether to stop; 0: to the end. */
static ms_summary run_to_question(const ms_train_config *cfg, train_watch *w, const char *out,
                                  bool resume, int stop_at)
{
    w->stop_after = -1;
    w->stop_at    = stop_at;
    return train_run(cfg, w, out, resume);
}

static int log_lines(const char *dir)
{
    static blob log;
    int         n = 0;
    get_file(path_in(dir, "log.jsonl"), &log);
    for (size_t i = 0; i < log.n; i++)
        n += log.p[i] == '\n';
    return n;
}

/* state.json holds the checksums of the other files. */
static void get_states(const char *dir, blob *middle, blob *last)
{
    get_file(path_in(dir, "checkpoint/step_00000002/state.json"), middle);
    get_file(path_in(dir, "checkpoint/step_00000004/state.json"), last);
}

static void check_states(const char *dir, const blob *middle, const blob *last)
{
    static blob a, b;
    get_states(dir, &a, &b);
    CHECK(a.n == middle->n && memcmp(a.p, middle->p, a.n) == 0, "step 2: %.*s", (int)a.n,
          (const char *)a.p);
    CHECK(b.n == last->n && memcmp(b.p, last->p, b.n) == 0, "step 4: %.*s", (int)b.n,
          (const char *)b.p);
}

static void stop_at_questions(const char *optimizer, int every)
{
    static train_watch    whole, parts;
    static blob           middle, last;
    const char           *dir           = fresh_dir();
    const ms_train_config cfg           = short_config(optimizer);
    const ms_summary      want          = run_to_question(&cfg, &whole, dir, false, 0);
    const int             asks          = whole.asked;
    int                   in_validation = 0, in_step = 0;

    CHECK(strcmp(want.status, "done") == 0 && log_lines(dir) == SHORT_STEPS, "%s", want.status);
    get_states(dir, &middle, &last);
    for (int at = 1; at <= asks; at += every) {
        dir            = fresh_dir();
        ms_summary got = run_to_question(&cfg, &parts, dir, false, at);
        const int  had = parts.lines;
        CHECK(had == log_lines(dir) && (got.steps == had || got.steps == had + 1),
              "at %d: %lld steps, %d lines", at, (long long)got.steps, had);
        CHECK(strcmp(got.status, had == SHORT_STEPS ? "done" : "interrupted") == 0, "at %d: %s", at,
              got.status);
        CHECK(got.tokens == 64 * got.steps, "at %d: %lld tokens", at, (long long)got.tokens);
        in_validation += got.steps == had + 1;
        in_step += got.steps == had;
        got = run_to_question(&cfg, &parts, dir, true, 0);
        CHECK(strcmp(got.status, "done") == 0 && parts.lines == SHORT_STEPS - had,
              "at %d: %s, %d lines", at, got.status, parts.lines);
        CHECK(log_lines(dir) == SHORT_STEPS, "at %d: %d lines", at, log_lines(dir));
        CHECK(got.last_val_loss == want.last_val_loss && got.best_val_loss == want.best_val_loss &&
                  got.last_loss == want.last_loss && got.best_loss == want.best_loss,
              "at %d: another summary", at);
        train_check_same(&whole, &parts, SHORT_STEPS);
        check_states(dir, &middle, &last);
    }
    /* A pass asks in every layer, forward and backward; 2 of 4 steps validate on two sets. */
    CHECK(every * in_step > 4 * 2 * 8 && every * in_validation > 2 * 2 * 4,
          "%d stops in steps, %d in validations", in_step, in_validation);
}

TEST(a_run_stopped_inside_any_step_resumes_bit_for_bit) { stop_at_questions("soft-musec", 1); }

TEST(a_run_with_logit_clipping_stopped_inside_a_step_resumes_bit_for_bit)
{
    stop_at_questions("muonclip", 7);
}

/* Every process asks a little more often than in a step or a validation, then is stopped, so that
 * validations are abandoned and made again, some more than once. */
TEST(a_run_stopped_again_and_again_resumes_bit_for_bit)
{
    static train_watch    whole, parts;
    static blob           middle, last;
    const char           *dir = fresh_dir();
    const ms_train_config cfg = short_config("soft-musec");
    int                   processes;

    (void)run_to_question(&cfg, &whole, dir, false, 0);
    get_states(dir, &middle, &last);
    dir = fresh_dir();
    for (processes = 1; processes < 100; processes++) {
        /* Every third process is stopped almost at once. */
        const int        asks = processes % 3 == 0 ? 2 : whole.asked / SHORT_STEPS;
        const ms_summary got  = run_to_question(&cfg, &parts, dir, processes > 1, asks);
        if (strcmp(got.status, "done") == 0) break;
    }
    CHECK(processes > SHORT_STEPS && processes < 100, "%d processes", processes);
    CHECK(log_lines(dir) == SHORT_STEPS, "%d lines", log_lines(dir));
    train_check_same(&whole, &parts, SHORT_STEPS);
    check_states(dir, &middle, &last);
}

/* ---- divergence ------------------------------------------------------------------------------ */

/* One NaN in the output projection is a NaN in the logits of every token, and so in the loss,
 * whatever the BLAS rounds and whatever the learning rate. */
static void spoil_the_head(ms_train *t)
{
    const float nan = NAN;
    bool        had = false;
    for (size_t i = 0; i < ms_gpt_n_params(t->gpt); i++) {
        const ms_gpt_tensor *p = ms_gpt_param(t->gpt, i);
        if (p->role != MUSEC_ROLE_HEAD) continue;
        CHECK(p->weight.dtype == MUSEC_F32 && p->copy.data == NULL, "%s is no float32", p->name);
        CHECK_OK(t->ctx, t->ctx->ops->upload(t->ctx, &nan, sizeof nan, p->weight.data));
        had = true;
    }
    CHECK(had, "the model has no head");
}

TEST(a_nan_loss_does_not_replace_the_best_loss)
{
    static train_watch    w   = { .stop_after = -1, .after_first = spoil_the_head };
    const ms_train_config cfg = train_config("pico", "soft-musec", SMALL);
    const ms_summary      got = train_run(&cfg, &w, NULL, false);
    CHECK(strcmp(got.status, "diverged") == 0 && isnan(got.last_loss), "%s, loss %g", got.status,
          got.last_loss);
    CHECK(got.steps == 2 && isfinite(w.line[1].loss), "%lld steps", (long long)got.steps);
    CHECK(got.best_loss == w.line[1].loss, "best %g, the first one was %g", got.best_loss,
          w.line[1].loss);
}

/* The soft cap keeps the loss finite. */
TEST(an_infinite_logit_is_divergence_where_logits_are_clipped)
{
    static train_watch    w = { .stop_after = -1 };
    const ms_train_config cfg =
        train_config("pico", "muonclip",
                     SMALL "qk_norm=no attn_softcap=1e3 attn_scale=100 lr=1e9 lr_qk=1e9 qk_tau=1e9 "
                           "init_out=1");
    const char      *dir = fresh_dir();
    const ms_summary got = train_run(&cfg, &w, dir, false);
    CHECK(strcmp(got.status, "diverged") == 0 && isfinite(got.last_loss), "%s after %lld, loss %g",
          got.status, (long long)got.steps, got.last_loss);
    CHECK(got.reason != NULL && contains(dir, "summary.json", "attention logit is infinite"),
          "reason");
}

TEST_GROUP(write_texts, NULL)
