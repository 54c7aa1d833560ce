/* loop_test.c - runs that are told to stop after a certain step, the first one and none at all
 * among them, and go on in another ms_train: every line of the log as if they had not. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scratch.h"
#include "train/train.h"

enum { STEPS = 12 };

typedef struct watcher {
    ms_log_line line[STEPS + 1]; /* by step */
    int         lines;
    int64_t     stop_after; /* that step; -1: never */
    int         stop;
} watcher;

static void watch(void *arg, const ms_log_line *line)
{
    watcher *w = arg;
    CHECK(line->step >= 1 && line->step <= STEPS, "step %lld", (long long)line->step);
    w->line[line->step] = *line;
    w->lines++;
    if (line->step == w->stop_after) w->stop = 1;
}

static ms_train_config configure(void)
{
    static const char *const settings[][2] = {
        { "layers", "1" },    { "width", "16" },      { "heads", "1" },        { "head", "16" },
        { "mlp", "32" },      { "batch", "64" },      { "max_doc", "32" },     { "steps", "12" },
        { "val_every", "5" }, { "val_tokens", "64" }, { "report_every", "3" }, { "device", "cpu" },
    };
    ms_train_config cfg;
    ms_error        e = { "" };
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, "pico", "soft-musec"));
    for (size_t i = 0; i < COUNT(settings); i++)
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, settings[i][0], settings[i][1]));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    return cfg;
}

/* out NULL: nothing is written. */
static ms_summary run(watcher *w, const char *out, bool resume, int64_t stop_after)
{
    const ms_train_setup setup = { .config  = configure(),
                                   .out     = out,
                                   .resume  = resume,
                                   .stop    = &w->stop,
                                   .on_step = watch,
                                   .arg     = w };
    ms_error             e     = { "" };
    ms_train            *t     = NULL;
    ms_summary           summary;

    w->lines      = 0;
    w->stop_after = stop_after;
    w->stop       = stop_after == 0;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK_OK_ERR(&e, ms_train_run(&e, t, &summary));
    CHECK(ms_train_step(t) == summary.steps, "%lld steps", (long long)ms_train_step(t));
    ms_train_close(t);
    return summary;
}

static void check_same(const watcher *a, const watcher *b)
{
    for (int i = 1; i <= STEPS; i++) {
        const ms_log_line *x = &a->line[i], *y = &b->line[i];
        CHECK(x->tokens == y->tokens && x->loss == y->loss && x->objective == y->objective &&
                  x->lr == y->lr && x->max_logit == y->max_logit && x->has_val == y->has_val &&
                  x->val_loss == y->val_loss && x->has_groups == y->has_groups &&
                  memcmp(x->groups, y->groups, sizeof x->groups) == 0,
              "step %d: loss %.17g, %.17g", i, x->loss, y->loss);
    }
}

static void stopped_anywhere_it_goes_on_as_if_not(void **state)
{
    static watcher whole, parts;
    ms_summary     want = run(&whole, NULL, false, -1);
    (void)state;

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
static void a_step_at_a_time(void **state)
{
    static watcher whole, parts;
    const char    *dir = fresh_dir();
    (void)state;
    run(&whole, NULL, false, -1);
    for (int64_t stop = 1; stop <= STEPS; stop++)
        run(&parts, dir, stop > 1, stop);
    check_same(&whole, &parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_anywhere_it_goes_on_as_if_not),
        cmocka_unit_test(a_step_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
