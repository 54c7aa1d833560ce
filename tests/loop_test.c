/* loop_test.c - runs that are told to stop after a certain step, the first one and none at all
 * among them, and go on in another ms_train: every line of the log as if they had not. */
#define _POSIX_C_SOURCE 200809L /* symlink */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "train/trainer.h"

enum { STEPS = 12 };

typedef struct watcher {
    ms_log_line line[STEPS + 1]; /* by step */
    int         lines;
    int64_t     stop_after; /* that step; -1: never */
    int         stop;
    ms_train   *train;                 /* the run at hand */
    void (*change)(ms_train *changed); /* called after the first step; or NULL */
} watcher;

static ms_stop asks_to_stop(void *arg)
{
    const watcher *w = arg;
    return w->stop ? MS_STOP_AFTER_STEP : MS_STOP_NO;
}

static void watch(void *arg, const ms_log_line *line)
{
    watcher *w = arg;
    CHECK(line->step >= 1 && line->step <= STEPS, "step %lld", (long long)line->step);
    w->line[line->step] = *line;
    w->lines++;
    if (line->step == w->stop_after) w->stop = 1;
    if (line->step == 1 && w->change != NULL) w->change(w->train);
}

typedef const char *setting[2];

static ms_train_config configure(const setting *more, size_t n)
{
    static const setting settings[] = {
        { "layers", "1" },    { "width", "16" },      { "heads", "1" },        { "head", "16" },
        { "mlp", "32" },      { "batch", "64" },      { "max_doc", "32" },     { "steps", "12" },
        { "val_every", "5" }, { "val_tokens", "64" }, { "report_every", "3" }, { "device", "cpu" },
    };
    const bool      named = n > 0 && strcmp(more[0][0], "optimizer") == 0;
    ms_train_config cfg;
    ms_error        e = { "" };
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, "pico", named ? more[0][1] : "soft-musec"));
    for (size_t i = 0; i < COUNT(settings); i++)
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, settings[i][0], settings[i][1]));
    for (size_t i = named; i < n; i++)
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, more[i][0], more[i][1]));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    return cfg;
}

/* out NULL: nothing is written.  more: settings, the optimizer the first of them. */
static ms_summary run_with(const setting *more, size_t n, watcher *w, const char *out, bool resume,
                           int64_t stop_after)
{
    const ms_train_setup setup = { .config  = configure(more, n),
                                   .out     = out,
                                   .resume  = resume,
                                   .stop    = asks_to_stop,
                                   .on_step = watch,
                                   .arg     = w };
    ms_error             e     = { "" };
    ms_train            *t     = NULL;
    ms_summary           summary;

    w->lines      = 0;
    w->stop_after = stop_after;
    w->stop       = stop_after == 0;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    w->train = t;
    CHECK_OK_ERR(&e, ms_train_run(&e, t, &summary));
    CHECK(ms_train_step(t) == summary.steps, "%lld steps", (long long)ms_train_step(t));
    ms_train_close(t);
    return summary;
}

static ms_summary run(watcher *w, const char *out, bool resume, int64_t stop_after)
{
    return run_with(NULL, 0, w, out, resume, stop_after);
}

static bool says(const char *dir, const char *file, const char *words)
{
    static blob b;
    get_file(path_in(dir, file), &b);
    b.p[b.n < sizeof b.p ? b.n : sizeof b.p - 1] = '\0';
    return strstr((const char *)b.p, words) != NULL;
}

static void check_same(const watcher *a, const watcher *b)
{
    for (int i = 1; i <= STEPS; i++) {
        const ms_log_line *x = &a->line[i], *y = &b->line[i];
        CHECK(x->tokens == y->tokens && x->loss == y->loss && x->objective == y->objective &&
                  x->lr == y->lr && x->max_logit == y->max_logit && x->has_val == y->has_val &&
                  x->val_loss == y->val_loss && x->has_groups == y->has_groups &&
                  x->skipped == y->skipped && memcmp(x->groups, y->groups, sizeof x->groups) == 0,
              "step %d: loss %.17g, %.17g", i, x->loss, y->loss);
    }
}

TEST(stopped_anywhere_it_goes_on_as_if_not)
{
    static watcher whole, parts;
    ms_summary     want = run(&whole, NULL, false, -1);

    CHECK(strcmp(want.status, "done") == 0 && whole.lines == STEPS, "%s", want.status);
    CHECK(whole.line[5].has_val && whole.line[12].has_val && !whole.line[6].has_val, "validations");
    for (int64_t stop = 0; stop <= STEPS; stop++) {
        const char *dir = fresh_dir();
        ms_summary  got = run(&parts, dir, false, stop);
        CHECK(got.steps == stop && parts.lines == stop, "stopped after %lld", (long long)got.steps);
        CHECK(strcmp(got.status, stop == STEPS ? "done" : "interrupted") == 0, "%s", got.status);
        CHECK(got.reason == NULL && isnan(got.last_loss) == (stop == 0), "%g", got.last_loss);
        got = run(&parts, dir, true, -1);
        CHECK(strcmp(got.status, "done") == 0 && parts.lines == STEPS - stop, "%s", got.status);
        CHECK(got.last_loss == want.last_loss && got.best_loss == want.best_loss &&
                  got.last_val_loss == want.last_val_loss &&
                  got.best_val_loss == want.best_val_loss && got.tokens == want.tokens,
              "stopped after %lld, another summary", (long long)stop);
        check_same(&whole, &parts);
    }
}

/* Stopped after every single step. */
TEST(a_step_at_a_time)
{
    static watcher whole, parts;
    const char    *dir = fresh_dir();
    run(&whole, NULL, false, -1);
    for (int64_t stop = 1; stop <= STEPS; stop++)
        run(&parts, dir, stop > 1, stop);
    check_same(&whole, &parts);
}

/* Heavy-ball momentum with a tiny beta has no room for any gradient: from step 5 on, where beta has
 * got there.  The last step that was measured is the 4th. */
TEST(skipped_steps_are_counted_and_not_measured)
{
    static const setting more[] = { { "optimizer", "sgdm" },    { "momentum_form", "heavy-ball" },
                                    { "beta", "1e-43" },        { "momentum_warmup", "4" },
                                    { "momentum_from", "0.5" }, { "nonfinite", "skip" },
                                    { "report_every", "4" } };
    static watcher       whole, parts;
    const char          *dir = fresh_dir();
    ms_summary           got = run_with(more, COUNT(more), &whole, NULL, false, -1);

    CHECK(strcmp(got.status, "done") == 0 && got.skipped == STEPS - 4, "%s, %lld skipped",
          got.status, (long long)got.skipped);
    for (int i = 1; i <= STEPS; i++)
        CHECK(whole.line[i].has_groups == (i == 4) && whole.line[i].skipped == (i > 4 ? i - 4 : 0),
              "step %d: measured %d, %lld skipped", i, whole.line[i].has_groups,
              (long long)whole.line[i].skipped);
    (void)run_with(more, COUNT(more), &parts, dir, false, 4);
    CHECK(!says(dir, "log.jsonl", "skipped") && !says(dir, "summary.json", "skipped"),
          "none was skipped yet");
    got = run_with(more, COUNT(more), &parts, dir, true, 6);
    CHECK(got.skipped == 2, "%lld skipped", (long long)got.skipped);
    got = run_with(more, COUNT(more), &parts, dir, true, -1);
    CHECK(got.skipped == STEPS - 4, "%lld skipped", (long long)got.skipped);
    CHECK(says(dir, "log.jsonl", "\"skipped\": 3,") && says(dir, "summary.json", "\"skipped\": 8,"),
          "the count is not in the files");
    check_same(&whole, &parts);
}

/* The process that finds nothing to do knows less of the run than the one that made its end. */
TEST(resuming_a_run_that_is_done_keeps_its_summary)
{
    static const setting shorter[] = { { "steps", "6" } };
    static watcher       w;
    static blob          before, after;
    const char          *dir = fresh_dir();
    ms_summary           got;

    (void)run(&w, dir, false, -1);
    get_file(path_in(dir, "summary.json"), &before);
    CHECK(!says(dir, "summary.json", "\"start_s\": null"), "start_s");
    got = run(&w, dir, true, -1);
    get_file(path_in(dir, "summary.json"), &after);
    CHECK(strcmp(got.status, "done") == 0 && w.lines == 0, "%s, %d lines", got.status, w.lines);
    CHECK(before.n == after.n && memcmp(before.p, after.p, after.n) == 0, "%.*s", (int)after.n,
          (const char *)after.p);

    CHECK(remove(path_in(dir, "summary.json")) == 0, "remove");
    (void)run(&w, dir, true, -1);
    CHECK(says(dir, "summary.json", "\"status\": \"done\""),
          "a summary that is missing is written");

    dir = fresh_dir(); /* what was interrupted may be done without another step */
    (void)run(&w, dir, false, 6);
    CHECK(says(dir, "summary.json", "\"status\": \"interrupted\""), "stopped");
    (void)run_with(shorter, COUNT(shorter), &w, dir, true, -1);
    CHECK(w.lines == 0 && says(dir, "summary.json", "\"status\": \"done\""), "%d lines", w.lines);
}

/* What cannot be read may be whole: nobody goes back behind it, and nothing is renamed. */
TEST(a_checkpoint_that_cannot_be_read_is_not_damaged)
{
    static const setting often[] = { { "checkpoint_every", "3" }, { "keep", "0" } };
    static watcher       w;
    static const char    newest[] = "checkpoint/step_00000006";
    const char          *dir      = fresh_dir();
    ms_train_setup       setup    = { .out = dir, .resume = true };
    ms_error             e        = { "" };
    ms_train            *t        = NULL;
    char                 model[512], kept[512];
    struct stat          info;

    (void)run_with(often, COUNT(often), &w, dir, false, 6);
    setup.config = configure(often, COUNT(often));
    snprintf(model, sizeof model, "%s/%s/model.safetensors", dir, newest);
    snprintf(kept, sizeof kept, "%s/kept", dir);
    CHECK(rename(model, kept) == 0, "rename");
    CHECK(symlink(model, model) == 0, "symlink"); /* which not even root can read */
    CHECK(ms_train_open(&e, &setup, &t) == MUSEC_EIO && t == NULL, "%s", e.text);
    CHECK(strstr(e.text, "model.safetensors") != NULL && strstr(e.text, "may be whole") != NULL,
          "%s", e.text);
    CHECK(lstat(path_in(dir, newest), &info) == 0, "it was renamed");
    CHECK(remove(model) == 0, "remove"); /* not there at all: that is damage */
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK(ms_train_step(t) == 3, "from step %lld", (long long)ms_train_step(t));
    ms_train_close(t);
    CHECK(lstat(path_in(dir, newest), &info) != 0, "it was not set aside");
}

/* ---- divergence ------------------------------------------------------------------------------ */

/* One NaN in the output projection is a NaN in the logits of every token, and so in the loss:
 * whatever a BLAS rounds, and without a learning rate that has to be large enough. */
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

TEST(the_best_loss_outlives_a_loss_that_is_no_number)
{
    static watcher w   = { .change = spoil_the_head };
    ms_summary     got = run(&w, NULL, false, -1);
    CHECK(strcmp(got.status, "diverged") == 0 && isnan(got.last_loss), "%s, loss %g", got.status,
          got.last_loss);
    CHECK(got.steps == 2 && isfinite(w.line[1].loss), "%lld steps", (long long)got.steps);
    CHECK(got.best_loss == w.line[1].loss, "best %g, the first one was %g", got.best_loss,
          w.line[1].loss);
}

/* A cap keeps the loss finite, whatever the logits are. */
TEST(an_infinite_logit_is_divergence_where_logits_are_clipped)
{
    static const setting more[] = {
        { "optimizer", "muonclip" }, { "qk_norm", "no" }, { "attn_softcap", "1e3" },
        { "attn_scale", "100" },     { "lr", "1e9" },     { "lr_qk", "1e9" },
        { "qk_tau", "1e9" },         { "init_out", "1" }
    };
    static watcher   w;
    const char      *dir = fresh_dir();
    const ms_summary got = run_with(more, COUNT(more), &w, dir, false, -1);
    CHECK(strcmp(got.status, "diverged") == 0 && isfinite(got.last_loss), "%s after %lld, loss %g",
          got.status, (long long)got.steps, got.last_loss);
    CHECK(got.reason != NULL && says(dir, "summary.json", "attention logit is infinite"), "reason");
}
