/* train_rig.c - see train_rig.h. */
#define _POSIX_C_SOURCE 200809L /* strtok_r */
#include "train_rig.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

void train_set(ms_train_config *cfg, const char *key, const char *value)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_train_config_set(&e, cfg, key, value));
}

ms_train_config train_config(const char *preset, const char *optimizer, const char *settings)
{
    char            all[1024], *rest = NULL;
    ms_train_config cfg;
    ms_error        e = { "" };

    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, preset, optimizer));
    if (settings == NULL) return cfg;
    CHECK((size_t)snprintf(all, sizeof all, "%s", settings) < sizeof all, "too many settings");
    for (char *word = strtok_r(all, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equal = strchr(word, '=');
        CHECK(equal != NULL, "\"%s\" is not key=value", word);
        *equal = '\0';
        train_set(&cfg, word, equal + 1);
    }
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    return cfg;
}

static ms_stop answer(void *arg)
{
    train_watch *w = arg;
    if (++w->asked >= w->stop_at && w->stop_at > 0) return MS_STOP_NOW;
    return w->stop ? MS_STOP_AFTER_STEP : MS_STOP_NO;
}

static void watch(void *arg, const ms_log_line *line)
{
    train_watch *w = arg;
    CHECK(line->step >= 1 && line->step <= TRAIN_MAX_STEPS, "step %lld", (long long)line->step);
    w->line[line->step] = *line;
    w->lines++;
    if (line->step == w->stop_after) w->stop = true;
    if (line->step == 1 && w->after_first != NULL) w->after_first(w->train);
}

ms_train_setup train_setup(const ms_train_config *cfg, train_watch *w, const char *out, bool resume)
{
    w->lines = w->asked = 0;
    w->stop             = w->stop_after == 0;
    return (ms_train_setup){
        .config = *cfg, .out = out, .resume = resume, .stop = answer, .on_step = watch, .arg = w
    };
}

ms_summary train_run_open(const ms_train_config *cfg, train_watch *w, const char *out, bool resume)
{
    const ms_train_setup setup = train_setup(cfg, w, out, resume);
    ms_error             e     = { "" };
    ms_summary           summary;

    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &w->train));
    CHECK_OK_ERR(&e, ms_train_run(&e, w->train, &summary));
    CHECK(ms_train_step(w->train) == summary.steps, "%lld steps", (long long)summary.steps);
    return summary;
}

ms_summary train_run(const ms_train_config *cfg, train_watch *w, const char *out, bool resume)
{
    const ms_summary summary = train_run_open(cfg, w, out, resume);
    ms_train_close(w->train);
    return summary;
}

void train_check_same(const train_watch *a, const train_watch *b, int steps)
{
    for (int i = 1; i <= steps; i++) {
        const ms_log_line *x = &a->line[i], *y = &b->line[i];
        CHECK(x->tokens == y->tokens && x->epoch == y->epoch && x->loss == y->loss &&
                  x->objective == y->objective && x->lr == y->lr && x->max_logit == y->max_logit &&
                  x->skipped == y->skipped,
              "step %d: loss %.17g, %.17g", i, x->loss, y->loss);
        CHECK(x->has_val == y->has_val && x->val_loss == y->val_loss &&
                  x->n_val_sets == y->n_val_sets &&
                  memcmp(x->val_losses, y->val_losses, sizeof x->val_losses) == 0,
              "step %d: val %.17g, %.17g", i, x->val_loss, y->val_loss);
        CHECK(x->has_groups == y->has_groups && memcmp(x->groups, y->groups, sizeof x->groups) == 0,
              "step %d: other groups", i);
    }
}
