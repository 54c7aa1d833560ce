/* run_outcome_test.c - how runs ended, by their summaries and, for older runs, by their logs. */
#include "report/runset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "fake_run.h"
#include "scratch.h"

static const char done[] = "{\"status\": \"done\", \"reason\": null}\n";

static const char *make_run(const char *log, const char *summary)
{
    const char *dir = fresh_dir();
    fake_config(dir, "optimizer=muon lr=0.1 steps=100");
    fake_text(dir, "log.jsonl", log);
    fake_text(dir, "summary.json", summary);
    return dir;
}

static ms_runset read_run(const char *path)
{
    ms_runset set = { 0 };
    ms_error  e   = { "" };
    CHECK_OK_ERR(&e, ms_runset_add(&e, &set, path));
    CHECK(set.n == 1 && set.n_notes == 0, "%zu runs, %zu notes", set.n, set.n_notes);
    return set;
}

TEST(stalled_runs_have_the_losses_and_reason_of_their_summary)
{
    ms_runset set = read_run(make_run("{\"step\": 1, \"val_loss\": 2}\n",
                                      "{\"status\": \"stalled\", \"reason\": \"no luck\", "
                                      "\"last_val_loss\": 2.5, \"unigram_loss\": 2.25}"));
    CHECK(set.at[0].status == MS_RUN_STALLED && set.at[0].val_loss == 2.5, "status");
    CHECK(strcmp(set.at[0].reason, "no luck") == 0, "%s", set.at[0].reason);
    CHECK(set.at[0].unigram_loss == 2.25 && !set.at[0].learned, "%g", set.at[0].unigram_loss);
    ms_runset_free(&set);
}

/* A log of `n` steps with a loss that goes linearly `from` one `to` another. */
static const char *log_of(int n, double from, double to, double w_norm)
{
    static char text[200 * 160];
    size_t      used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"step\": %d, \"loss\": %.17g, \"val_loss\": 3%s%g%s}\n", i + 1,
                                 from + (to - from) * i / (n - 1),
                                 ", \"groups\": {\"vo\": {\"w_norm\": ", w_norm, "}}");
    return text;
}

/* Older versions called every run done that reached its end.  Their unigram loss is not known; the
 * first loss is taken for it. */
TEST(older_runs_are_judged_by_their_log)
{
    static const struct {
        int           n;
        double        from, to, w_norm;
        ms_run_status want;
        const char   *reason;
    } cases[] = {
        { 100, 5.0, 3.0, 70.0, MS_RUN_DONE, NULL },
        { 100, 5.0, 5.0, 2.0, MS_RUN_STALLED, "never fell 5% below its first loss of 5.0000" },
        { 99, 5.0, 5.0, 2.0, MS_RUN_DONE, NULL }, /* too short to be called stalled */
        { 20, 5.0, 9.0, 2.0, MS_RUN_DIVERGED, "began at 5.0000 and ends above that" },
        { 20, 5.0, 3.0, 2e4, MS_RUN_DIVERGED, "spectral norm of a weight has grown to 2e+04" },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *log = log_of(cases[i].n, cases[i].from, cases[i].to, cases[i].w_norm);
        ms_runset   set = read_run(make_run(log, done));
        ms_run     *run = &set.at[0];
        CHECK(run->status == cases[i].want, "case %zu: %s", i, ms_run_status_word(run->status));
        CHECK(isnan(run->unigram_loss) && isnan(run->val_loss) == (run->status == MS_RUN_DIVERGED),
              "case %zu", i);
        CHECK((run->reason == NULL) == (cases[i].reason == NULL), "case %zu", i);
        if (run->reason != NULL)
            CHECK(strstr(run->reason, cases[i].reason) != NULL, "case %zu: %s", i, run->reason);
        ms_runset_free(&set);
        /* a summary with a unigram loss is believed */
        set = read_run(make_run(log, "{\"status\": \"done\", \"unigram_loss\": null}"));
        CHECK(set.at[0].status == MS_RUN_DONE, "case %zu", i);
        ms_runset_free(&set);
    }
}
