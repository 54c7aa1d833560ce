/* train_interrupt_test.c - runs that must stop at once, at every place where they ask.  The current
 * step or its validation is abandoned, and the resumed run leaves the same bytes, times apart, as a
 * run that was never stopped. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scratch.h"
#include "train/train.h"

enum { STEPS = 4, NEVER = 1 << 30 };

typedef struct watcher {
    ms_log_line line[STEPS + 1]; /* by step */
    int         lines;           /* of this process */
    int         asked, stop_at;  /* from that question on the answer is: at once */
} watcher;

static ms_stop asks_to_stop(void *arg)
{
    watcher *w = arg;
    return ++w->asked >= w->stop_at ? MS_STOP_NOW : MS_STOP_NO;
}

static void watch(void *arg, const ms_log_line *line)
{
    watcher *w = arg;
    CHECK(line->step >= 1 && line->step <= STEPS, "step %lld", (long long)line->step);
    w->line[line->step] = *line;
    w->lines++;
}

/* Small ones, so that the run comes to their ends. */
static char texts[2][256];

static int write_texts(void **state)
{
    const char *dir = fresh_dir();
    char        text[512];
    (void)state;
    for (int k = 0; k < 2; k++) {
        size_t n = 0;
        for (int i = 0; n + 40 < sizeof text - 200 * (size_t)k; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%d of %d times %d;\n", i, k, i * i);
        snprintf(texts[k], sizeof texts[k], "%s", path_in(dir, k == 0 ? "a.txt" : "b.txt"));
        put_file(texts[k], text, n);
    }
    return 0;
}

/* Two sets of data, two micro-batches, several layers and validations of several chunks; a
 * checkpoint in the middle; measurements at every second step. */
static ms_train_config configure(const char *optimizer)
{
    static const char *const settings[][2] = {
        { "layers", "2" },
        { "width", "16" },
        { "heads", "1" },
        { "head", "16" },
        { "mlp", "32" },
        { "batch", "64" },
        { "micro_batches", "2" },
        { "max_doc", "32" },
        { "steps", "4" },
        { "val_every", "2" },
        { "val_tokens", "96" },
        { "report_every", "2" },
        { "checkpoint_every", "2" },
        { "qk_norm", "no" },
        { "device", "cpu" },
        { "keep", "0" },
    };
    char            data[600];
    ms_train_config cfg;
    ms_error        e = { "" };
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, "pico", optimizer));
    for (size_t i = 0; i < COUNT(settings); i++)
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, settings[i][0], settings[i][1]));
    snprintf(data, sizeof data, "%s;%s=2", texts[0], texts[1]);
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "data", data));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    return cfg;
}

static ms_summary run(const char *optimizer, watcher *w, const char *out, bool resume, int stop_at)
{
    const ms_train_setup setup = { .config  = configure(optimizer),
                                   .out     = out,
                                   .resume  = resume,
                                   .stop    = asks_to_stop,
                                   .on_step = watch,
                                   .arg     = w };
    ms_error             e     = { "" };
    ms_train            *t     = NULL;
    ms_summary           summary;

    w->lines   = 0;
    w->asked   = 0;
    w->stop_at = stop_at;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK_OK_ERR(&e, ms_train_run(&e, t, &summary));
    ms_train_close(t);
    return summary;
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

static void check_same(const watcher *a, const watcher *b)
{
    for (int i = 1; i <= STEPS; i++) {
        const ms_log_line *x = &a->line[i], *y = &b->line[i];
        CHECK(x->tokens == y->tokens && x->epoch == y->epoch && x->loss == y->loss &&
                  x->objective == y->objective && x->lr == y->lr && x->max_logit == y->max_logit,
              "step %d: loss %.17g, %.17g", i, x->loss, y->loss);
        CHECK(x->has_val == y->has_val && x->val_loss == y->val_loss &&
                  x->n_val_sets == y->n_val_sets &&
                  memcmp(x->val_losses, y->val_losses, sizeof x->val_losses) == 0,
              "step %d: val %.17g, %.17g", i, x->val_loss, y->val_loss);
        CHECK(x->has_groups == y->has_groups && memcmp(x->groups, y->groups, sizeof x->groups) == 0,
              "step %d: other groups", i);
    }
}

/* state.json has the sums of the other files. */
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

static void stopped_at_questions(const char *optimizer, int every)
{
    static watcher   whole, parts;
    static blob      middle, last;
    const char      *dir         = fresh_dir();
    const ms_summary want        = run(optimizer, &whole, dir, false, NEVER);
    const int        asks        = whole.asked;
    int              unvalidated = 0, inside = 0;

    CHECK(strcmp(want.status, "done") == 0 && log_lines(dir) == STEPS, "%s", want.status);
    get_states(dir, &middle, &last);
    for (int at = 1; at <= asks; at += every) {
        dir            = fresh_dir();
        ms_summary got = run(optimizer, &parts, dir, false, at);
        const int  had = parts.lines;
        CHECK(had == log_lines(dir) && (got.steps == had || got.steps == had + 1),
              "at %d: %lld steps, %d lines", at, (long long)got.steps, had);
        CHECK(strcmp(got.status, had == STEPS ? "done" : "interrupted") == 0, "at %d: %s", at,
              got.status);
        CHECK(got.tokens == 64 * got.steps, "at %d: %lld tokens", at, (long long)got.tokens);
        unvalidated += got.steps == had + 1;
        inside += got.steps == had;
        got = run(optimizer, &parts, dir, true, NEVER);
        CHECK(strcmp(got.status, "done") == 0 && parts.lines == STEPS - had, "at %d: %s, %d lines",
              at, got.status, parts.lines);
        CHECK(log_lines(dir) == STEPS, "at %d: %d lines", at, log_lines(dir));
        CHECK(got.last_val_loss == want.last_val_loss && got.best_val_loss == want.best_val_loss &&
                  got.last_loss == want.last_loss && got.best_loss == want.best_loss,
              "at %d: another summary", at);
        check_same(&whole, &parts);
        check_states(dir, &middle, &last);
    }
    /* a pass asks in every layer, both ways; of 4 steps 2 are validated on two sets */
    CHECK(every * inside > 4 * 2 * 8 && every * unvalidated > 2 * 2 * 4,
          "%d inside steps, %d in validations", inside, unvalidated);
}

TEST(stopped_anywhere_in_a_step_it_goes_on_bit_for_bit) { stopped_at_questions("soft-musec", 1); }

TEST(so_does_an_optimizer_that_reads_the_largest_logits) { stopped_at_questions("muonclip", 7); }

/* Each process may ask a little more often than a step or a validation does, and is stopped then:
 * validations are abandoned and taken up again, some more than once. */
TEST(stopped_again_and_again)
{
    static watcher whole, parts;
    static blob    middle, last;
    const char    *dir = fresh_dir();
    int            processes;

    (void)run("soft-musec", &whole, dir, false, NEVER);
    get_states(dir, &middle, &last);
    dir = fresh_dir();
    for (processes = 1; processes < 100; processes++) {
        /* every third process has no time for anything */
        const int        asks = processes % 3 == 0 ? 2 : whole.asked / STEPS;
        const ms_summary got  = run("soft-musec", &parts, dir, processes > 1, asks);
        if (strcmp(got.status, "done") == 0) break;
    }
    CHECK(processes > STEPS && processes < 100, "%d processes", processes);
    CHECK(log_lines(dir) == STEPS, "%d lines", log_lines(dir));
    check_same(&whole, &parts);
    check_states(dir, &middle, &last);
}

TEST_GROUP(write_texts, NULL)
