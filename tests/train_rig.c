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

/* Values that some fields take, besides their choices. */
static const char *const values[]      = { "0",       "1",      "2",      "3",       "64",
                                           "258",     "65536",  "0.1",    "1e-3",    "0.5",
                                           "0.9999",  "-0.25",  "1e-300", "5e-324",  "",
                                           "rms:2.5", "0,4,11", "keller", "0.3,0.1", "1,0.5>1,0" };
static const char *const long_values[] = {
    "0.30000000000000004", /* has 17 digits */
    "1.1920929e-07",           "123456.789012345",     "quantile:0.3",
    "qk=1.2,vo=0.1,mlp=3e-17", "18446744073709551615", "a \"text\" of \xc3\xa4, \\ and\ttab",
    "10 lr=2; rest",
};

const char *train_value(const ms_train_field *f, size_t index)
{
    static char choice[64];
    const char *at = f->values;
    if (index < COUNT(values)) return values[index];
    index -= COUNT(values);
    if (index < COUNT(long_values)) return long_values[index];
    for (index -= COUNT(long_values); index > 0 && at != NULL; index--)
        at = strchr(at, '|') == NULL ? NULL : strchr(at, '|') + 1;
    if (at == NULL) return NULL;
    snprintf(choice, sizeof choice, "%.*s", (int)strcspn(at, "|"), at);
    return choice;
}

bool train_change(ms_train_config *cfg, const ms_train_field *f)
{
    const ms_train_config start   = *cfg;
    bool                  changed = false;
    const char           *value;
    ms_error              e;
    char                  was[MS_PATH_MAX], is[MS_PATH_MAX];
    CHECK(ms_train_config_get(cfg, f->name, was, sizeof was) == MUSEC_OK, "%s", f->name);
    for (size_t i = 0; (value = train_value(f, i)) != NULL; i++) {
        ms_train_config copy = start;
        if (ms_train_config_set(&e, &copy, f->name, value) != MUSEC_OK) continue;
        (void)ms_train_config_get(&copy, f->name, is, sizeof is);
        if (strcmp(is, was) == 0) continue;
        *cfg    = copy;
        changed = true;
    }
    return changed;
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
    CHECK(w->train->progress.step == summary.steps, "%lld steps", (long long)summary.steps);
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
