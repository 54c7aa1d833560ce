/* runlog_test.c - log.jsonl, the event file and summary.json, read back with independent readers;
 * resumed at every step, cut and damaged.
 *
 * With a directory as its argument the program writes a short run there that was resumed, for
 * tests/cli/tensorboard.sh. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "event_reader.h"
#include "train/runlog.h"

#define LOG    "log.jsonl"
#define EVENTS "events.out.tfevents.musec"

enum { STEPS = 5 };

/* ---- a run ----------------------------------------------------------------------------------- */

/* Numbers with many digits, with few, and NaN and infinity; `life` distinguishes two runs. */
static ms_log_line line_of(int64_t step, int life)
{
    const double x = (double)step + 0.1 * life;
    ms_log_line  l = { .step      = step,
                       .tokens    = step * 8192,
                       .epoch     = step / 3,
                       .loss      = 10.0 / (3.0 * x),
                       .objective = 0.1 * x,
                       .lr        = 0.02,
                       .max_logit = step == 2   ? (double)NAN
                                    : step == 3 ? -(double)INFINITY
                                                : 7.25,
                       .tok_s     = 9000,
                       .time_s    = 1e-300 * x,
                       .ms_data   = DBL_MIN / 3,
                       .ms_model  = 700.5,
                       .ms_optim  = DBL_MAX,
                       .ms_rest   = -0.3 };
    if (step % 2 == 0) {
        l.has_val  = true;
        l.val_loss = 8.03; /* 8.029999999999999 in 16 digits */
    }
    if (step != 3) {
        l.has_groups = true;
        for (int g = 0; g < MS_GROUPS; g++)
            l.groups[g] =
                (ms_group_stats){ g + 0.1, g + 0.2, g + 0.3, g + 0.4, g + 0.5, g + 0.6, x / 7 };
    }
    return l;
}

static void write_steps(ms_runlog *r, int64_t first, int64_t last, int life)
{
    ms_error e;
    for (int64_t s = first; s <= last; s++) {
        const ms_log_line l = line_of(s, life);
        CHECK_OK_ERR(&e, ms_runlog_write(&e, r, &l));
    }
}

static void write_run(const char *dir, int64_t from_step, int64_t last, int life)
{
    ms_error   e;
    ms_runlog *r;
    CHECK_OK_ERR(&e, ms_runlog_open(&e, dir, from_step, &r));
    write_steps(r, from_step + 1, last, life);
    CHECK_OK_ERR(&e, ms_runlog_close(&e, r));
}

static void expect_failure(const char *dir, int64_t from_step, const char *file, const char *words)
{
    ms_error   e = { "" };
    ms_runlog *r;
    CHECK(ms_runlog_open(&e, dir, from_step, &r) != MUSEC_OK, "%s was opened", file);
    CHECK(r == NULL, "%s", file);
    CHECK(strstr(e.text, file) != NULL && strstr(e.text, words) != NULL, "no '%s' in: %s", words,
          e.text);
}

/* ---- reading log.jsonl ----------------------------------------------------------------------- */

/* NaN for null and for a missing key. */
static double number_of(const json_t *object, const char *key)
{
    const json_t *x = json_object_get(object, key);
    CHECK(x == NULL || json_is_number(x) || json_is_null(x), "%s", key);
    return json_is_number(x) ? json_number_value(x) : (double)NAN;
}

static void expect_number(const json_t *object, const char *key, double want)
{
    const double got = number_of(object, key);
    CHECK(json_object_get(object, key) != NULL, "no %s", key);
    CHECK(isfinite(want) ? got == want : isnan(got), "%s: %.17g, not %.17g", key, got, want);
}

typedef struct number {
    const char *key;
    double      value;
} number;

static void expect_numbers(const json_t *object, const number *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect_number(object, want[i].key, want[i].value);
}

static void expect_line(const json_t *j, const ms_log_line *l)
{
    static const char *const names[MS_GROUPS] = { "qk", "vo", "mlp" };
    const json_t            *groups = json_object_get(j, "groups"), *ms = json_object_get(j, "ms");
    const number             numbers[] = {
                    { "step", (double)l->step },   { "tokens", (double)l->tokens },
                    { "epoch", (double)l->epoch }, { "loss", l->loss },
                    { "objective", l->objective }, { "lr", l->lr },
                    { "max_logit", l->max_logit }, { "tok_s", l->tok_s },
                    { "time_s", l->time_s },
    };
    const number times[] = { { "data", l->ms_data },
                             { "model", l->ms_model },
                             { "optim", l->ms_optim },
                             { "rest", l->ms_rest } };

    expect_numbers(j, numbers, COUNT(numbers));
    CHECK((json_object_get(j, "val_loss") != NULL) == l->has_val, "val_loss");
    if (l->has_val) expect_number(j, "val_loss", l->val_loss);
    CHECK((groups != NULL) == l->has_groups, "groups");
    CHECK(json_object_size(j) == 10u + l->has_val + l->has_groups, "%zu", json_object_size(j));
    for (int g = 0; l->has_groups && g < MS_GROUPS; g++) {
        const json_t         *one    = json_object_get(groups, names[g]);
        const ms_group_stats *s      = &l->groups[g];
        const number          want[] = {
                     { "w_norm", s->w_norm },
                     { "u_norm", s->u_norm },
                     { "u_rms", s->u_rms },
                     { "u_erank", s->u_erank },
                     { "u_gain", s->u_gain },
                     { "sigma1_over_d", s->sigma1_over_d },
                     { "share_above", s->share_above },
        };
        CHECK(json_object_size(one) == COUNT(want), "%s", names[g]);
        expect_numbers(one, want, COUNT(want));
    }
    CHECK(json_object_size(ms) == COUNT(times), "ms");
    expect_numbers(ms, times, COUNT(times));
}

/* The log holds the steps 1 to last, those up to `seam` of life 0, the others of life 1. */
static void expect_log(const char *dir, int64_t seam, int64_t last)
{
    blob    b;
    size_t  begin = 0;
    int64_t step  = 0;

    get_file(path_in(dir, LOG), &b);
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] != '\n') continue;
        json_t *j = json_loadb((const char *)b.p + begin, i - begin, JSON_REJECT_DUPLICATES, NULL);
        const ms_log_line l = line_of(step + 1, step + 1 <= seam ? 0 : 1);
        CHECK(j != NULL, "line %d", (int)step + 1);
        expect_line(j, &l);
        json_decref(j);
        begin = i + 1;
        step++;
    }
    CHECK(begin == b.n && step == last, "%d lines, not %d", (int)step, (int)last);
}

/* The event file holds the same steps. */
static void expect_events(const char *dir, int64_t seam, int64_t last)
{
    static scalars s[STEPS + 4];
    CHECK(read_events(path_in(dir, EVENTS), s, STEPS + 4) == last, "events");
    for (int i = 0; i < (int)last; i++) {
        const ms_log_line l = line_of(i + 1, i + 1 <= seam ? 0 : 1);
        CHECK(s[i].step == i + 1, "step %d", (int)s[i].step);
        CHECK(s[i].n == 9 + l.has_val + (l.has_groups ? 21 : 0), "%d scalars", s[i].n);
        CHECK(s[i].wall > 1.6e9 && (i == 0 || s[i].wall >= s[i - 1].wall), "%g", s[i].wall);
        expect_scalar(&s[i], "loss", l.loss);
        expect_scalar(&s[i], "objective", l.objective);
        expect_scalar(&s[i], "lr", l.lr);
        expect_scalar(&s[i], "tok_s", l.tok_s);
        expect_scalar(&s[i], "max_logit", l.max_logit);
        if (l.has_val) expect_scalar(&s[i], "val_loss", l.val_loss);
        if (l.has_groups) {
            expect_scalar(&s[i], "qk/w_norm", l.groups[MS_GROUP_QK].w_norm);
            expect_scalar(&s[i], "vo/u_erank", l.groups[MS_GROUP_VO].u_erank);
            expect_scalar(&s[i], "mlp/share_above", l.groups[MS_GROUP_MLP].share_above);
        }
        expect_scalar(&s[i], "time/data_ms", l.ms_data);
        expect_scalar(&s[i], "time/rest_ms", l.ms_rest);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(what_is_logged_is_read_back)
{
    const char *dir = fresh_dir();
    ms_error    e;
    ms_runlog  *r;
    blob        b;

    CHECK_OK_ERR(&e, ms_runlog_open(&e, dir, 0, &r));
    for (int64_t s = 1; s <= STEPS; s++) { /* nothing stays in a buffer */
        write_steps(r, s, s, 0);
        expect_log(dir, s, s);
        expect_events(dir, s, s);
    }
    CHECK_OK_ERR(&e, ms_runlog_sync(&e, r));
    CHECK_OK_ERR(&e, ms_runlog_close(&e, r));
    CHECK_OK_ERR(&e, ms_runlog_close(&e, NULL));
    get_file(path_in(dir, LOG), &b);
    b.p[b.n] = '\0';
    CHECK(strstr((char *)b.p, "{\"step\": 1, \"tokens\": 8192, \"epoch\": 0, \"loss\": "
                              "3.3333333333333335, \"objective\": 0.1, \"lr\": 0.02, "
                              "\"tok_s\": 9000, ") == (char *)b.p,
          "%.200s", (char *)b.p); /* with the fewest digits that read back the same */
    CHECK(strstr((char *)b.p, "\"val_loss\": 8.03,") != NULL, "val_loss");
    write_run(dir, 0, 2, 1);
    expect_log(dir, 0, 2);
    expect_events(dir, 0, 2);
}

TEST(a_log_is_resumed_from_every_step)
{
    for (int64_t from = 1; from <= STEPS + 1; from++) {
        const char *dir = fresh_dir();
        blob        log[2], events[2];
        size_t      same = 0;
        write_run(dir, 0, STEPS, 0);
        get_file(path_in(dir, LOG), &log[0]);
        get_file(path_in(dir, EVENTS), &events[0]);
        write_run(dir, from, from, 1); /* only cuts the log */
        expect_log(dir, STEPS, from < STEPS ? from : STEPS);
        expect_events(dir, STEPS, from < STEPS ? from : STEPS);
        get_file(path_in(dir, LOG), &log[1]);
        get_file(path_in(dir, EVENTS), &events[1]);
        CHECK(memcmp(log[0].p, log[1].p, log[1].n) == 0, "the kept lines moved");
        while (same < events[1].n && events[0].p[same] == events[1].p[same])
            same++;
        CHECK(same == events[1].n, "the kept events, with their wall times, moved");
        if (from > STEPS) continue;
        write_run(dir, from, STEPS + 2, 1);
        expect_log(dir, from, STEPS + 2);
        expect_events(dir, from, STEPS + 2);
    }
}

static size_t last_line(const blob *b) /* where it begins */
{
    size_t i = b->n - 1;
    while (i > 0 && b->p[i - 1] != '\n')
        i--;
    return i;
}

TEST(incomplete_ends_of_files_are_cut)
{
    const char *dir = fresh_dir();
    blob        log, events;

    write_run(dir, 0, 3, 0);
    get_file(path_in(dir, LOG), &log);
    get_file(path_in(dir, EVENTS), &events);
    for (size_t cut = last_line(&log); cut < log.n; cut += cut + 40 < log.n ? 37 : 1) {
        put_file(path_in(dir, LOG), log.p, cut);
        put_file(path_in(dir, EVENTS), events.p, events.n);
        write_run(dir, 3, 3, 0);
        expect_log(dir, 3, cut == log.n - 1 ? 3 : 2); /* only its newline was missing */
    }
    memset(log.p + log.n, 0, 512); /* a loss of power may leave zeros */
    memset(events.p + events.n, 0, 512);
    put_file(path_in(dir, LOG), log.p, log.n + 512);
    put_file(path_in(dir, EVENTS), events.p, events.n + 512);
    write_run(dir, 3, 4, 1);
    expect_log(dir, 3, 4);
    expect_events(dir, 3, 4);
}

TEST(damaged_lines_are_refused_and_left_as_they_are)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "{\"step\": 1}\n{\"step\": 2\n{\"step\": 3}\n", "line 2 is damaged: no whole JSON" },
        { "{\"step\": 1}\n\n{\"step\": 3}\n", "line 2 is damaged: no whole JSON" },
        { "{\"step\": 1}\n{\"step\": 2} x\n", "line 2 is damaged: no whole JSON" },
        { "[1]\n", "line 1 is damaged: no \"step\"" },
        { "{\"step\": 1}\n{\"loss\": 2}\n", "line 2 is damaged: no \"step\"" },
        { "{\"step\": \"1\"}\n", "line 1 is damaged: no \"step\"" },
        { "{\"step\": 0}\n", "line 1 is damaged: no \"step\"" },
        { "{\"step\": 1.5}\n", "line 1 is damaged: no \"step\"" },
        { "{\"step\": 99999999999999999999}\n", "line 1 is damaged: no whole JSON" },
        { "{\"step\": 1, \"step\": 2}\n", "line 1 is damaged: no whole JSON" },
    };
    const char *dir = fresh_dir();

    for (size_t c = 0; c < COUNT(cases); c++) {
        blob b;
        put_text(path_in(dir, LOG), cases[c].text);
        expect_failure(dir, 9, LOG, cases[c].words);
        get_file(path_in(dir, LOG), &b);
        CHECK(b.n == strlen(cases[c].text) && memcmp(b.p, cases[c].text, b.n) == 0, "changed");
    }
}

TEST(missing_files_are_begun_anew)
{
    const char *dir = fresh_dir();

    write_run(dir, 0, STEPS, 0);
    CHECK(remove(path_in(dir, EVENTS)) == 0, "remove");
    write_run(dir, 2, 2, 0);
    expect_log(dir, 2, 2);
    expect_events(dir, 0, 0);
    CHECK(remove(path_in(dir, LOG)) == 0, "remove");
    write_run(dir, 2, 2, 0);
    expect_log(dir, 0, 0);
}

TEST(files_that_cannot_be_opened_are_named)
{
    ms_error    e;
    ms_runlog  *r;
    const char *dir = fresh_dir();

    expect_failure(path_in(dir, "gone"), 0, "gone/" LOG, "No such file");
    expect_failure(path_in(dir, "gone"), 3, "gone/" LOG, "No such file");
    CHECK(ms_runlog_open(&e, dir, -1, &r) == MUSEC_EINVAL && r == NULL, "a step of -1");
    CHECK(mkdir(path_in(dir, EVENTS), 0777) == 0, "mkdir");
    expect_failure(dir, 0, EVENTS, "Is a directory");
    expect_failure(dir, 3, EVENTS, "Is a directory");
    CHECK(remove(path_in(dir, LOG)) == 0 && mkdir(path_in(dir, LOG), 0777) == 0, "mkdir");
    expect_failure(dir, 0, LOG, "Is a directory");
    expect_failure(dir, 3, LOG, "Is a directory");
}

/* A limit on the size of files simulates a full disk: a part of the record still fits. */
TEST(a_full_disk_leaves_whole_records)
{
    const char       *dir = fresh_dir();
    const ms_log_line l   = line_of(4, 1);
    struct rlimit     old, low;
    ms_error          e = { "" };
    ms_runlog        *r;
    blob              b;

    write_run(dir, 0, 3, 0);
    get_file(path_in(dir, LOG), &b);
    CHECK_OK_ERR(&e, ms_runlog_open(&e, dir, 3, &r));
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0, "getrlimit");
    signal(SIGXFSZ, SIG_IGN);
    low          = old;
    low.rlim_cur = (rlim_t)b.n + 100;
    CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0, "setrlimit");
    CHECK(ms_runlog_write(&e, r, &l) == MUSEC_EIO, "it fitted");
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0, "setrlimit");
    CHECK(strstr(e.text, LOG ": cannot write (") != NULL, "%s", e.text);
    expect_log(dir, 3, 3);
    CHECK_OK_ERR(&e, ms_runlog_write(&e, r, &l)); /* there is room again */
    CHECK_OK_ERR(&e, ms_runlog_close(&e, r));
    expect_log(dir, 3, 4);
    expect_events(dir, 3, 4);
}

TEST(the_message_of_a_full_device_says_what_to_do)
{
    const char       *dir = fresh_dir();
    const ms_log_line l   = line_of(1, 0);
    ms_error          e   = { "" };
    ms_runlog        *r;

    if (access("/dev/full", W_OK) != 0) SKIP("no /dev/full here");
    CHECK(symlink("/dev/full", path_in(dir, LOG)) == 0, "symlink");
    CHECK_OK_ERR(&e, ms_runlog_open(&e, dir, 0, &r));
    CHECK(ms_runlog_write(&e, r, &l) == MUSEC_EIO, "it fitted");
    CHECK(strstr(e.text, "No space left on device") && strstr(e.text, "free some"), "%s", e.text);
    CHECK_OK_ERR(&e, ms_runlog_close(&e, r));
}

TEST(summaries_are_read_back)
{
    const char *dir = fresh_dir();
    ms_summary  s   = { .status        = "diverged",
                        .reason        = "loss \"nan\"\nat step 7",
                        .steps         = 7,
                        .tokens        = INT64_C(1) << 60,
                        .last_loss     = (double)NAN,
                        .best_loss     = 1.0 / 3,
                        .last_val_loss = 2.5,
                        .best_val_loss = (double)INFINITY,
                        .unigram_loss  = 3.25,
                        .time_s        = 0.1,
                        .start_s       = 1.75,
                        .computed      = { "cuda", "bf16", "f16" } };
    json_t     *data =
        json_pack("{s:[{s:s, s:n, s:s}]}", "train", "name", "builtin", "tokens", "sha256", "0123");
    json_t *resumed =
        json_pack("[{s:i, s:s, s:s, s:s}]", "step", 20, "key", "data", "from", "a \"b\"", "to", "");
    const number numbers[] = {
        { "steps", 7 },
        { "last_loss", (double)NAN },
        { "best_loss", 1.0 / 3 },
        { "last_val_loss", 2.5 },
        { "best_val_loss", (double)NAN },
        { "unigram_loss", 3.25 },
        { "time_s", 0.1 },
        { "start_s", 1.75 },
    };
    ms_error    e = { "" };
    json_t     *j, *computed, *made;
    blob        b, now;
    const char *date;

    CHECK_OK_ERR(&e, ms_summary_write(&e, dir, &s));
    j = json_load_file(path_in(dir, "summary.json"), JSON_REJECT_DUPLICATES, NULL);
    CHECK(json_object_size(j) == 14, "%zu", json_object_size(j));
    assert_string_equal(json_string_value(json_object_get(j, "status")), s.status);
    assert_string_equal(json_string_value(json_object_get(j, "reason")), s.reason);
    CHECK(json_integer_value(json_object_get(j, "tokens")) == s.tokens, "tokens");
    expect_numbers(j, numbers, COUNT(numbers));
    computed =
        json_pack("{s:s, s:s, s:s}", "device", "cuda", "precision", "bf16", "operands", "f16");
    CHECK(json_equal(json_object_get(j, "computed"), computed), "computed");
    json_decref(computed);
    made = json_object_get(j, "made");
    assert_string_equal(json_string_value(json_object_get(made, "version")), musec_version());
    CHECK(strstr(json_string_value(json_object_get(made, "machine")), " core") != NULL, "machine");
    date = json_string_value(json_object_get(made, "date")); /* 2026-11-18 */
    CHECK(strlen(date) == 10 && strspn(date, "0123456789") == 4 && date[4] == '-' &&
              strspn(date + 5, "0123456789") == 2 && date[7] == '-' &&
              strspn(date + 8, "0123456789") == 2 && strcmp(date, "2026") > 0,
          "%s", date);
    json_decref(j);
    get_file(path_in(dir, "summary.json"), &b);
    s.reason = "\xff";
    CHECK(ms_summary_write(&e, dir, &s) == MUSEC_EINVAL, "no UTF-8");
    get_file(path_in(dir, "summary.json"), &now);
    CHECK(now.n == b.n && memcmp(now.p, b.p, b.n) == 0, "the old one is gone");
    s.reason = NULL;
    CHECK_OK_ERR(&e, ms_summary_write(&e, dir, &s));
    j = json_load_file(path_in(dir, "summary.json"), 0, NULL);
    CHECK(json_is_null(json_object_get(j, "reason")), "reason");
    CHECK(json_object_get(j, "data") == NULL && json_object_get(j, "resumed") == NULL, "origin");
    json_decref(j);
    s.data    = data;
    s.resumed = resumed;
    CHECK_OK_ERR(&e, ms_summary_write(&e, dir, &s));
    j = json_load_file(path_in(dir, "summary.json"), JSON_REJECT_DUPLICATES, NULL);
    CHECK(json_equal(json_object_get(j, "data"), data), "data");
    CHECK(json_equal(json_object_get(j, "resumed"), resumed), "resumed");
    json_decref(j);
    CHECK_FAILS(&e, ms_summary_write(&e, path_in(dir, "gone"), &s), MUSEC_EIO, "gone/summary.json");
    json_decref(data);
    json_decref(resumed);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        write_run(argv[1], 0, STEPS, 0);
        write_run(argv[1], 3, STEPS + 2, 1);
        return 0;
    }
    return check_main();
}
