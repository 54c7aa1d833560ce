/* live_test.c - watching runs while they train: logs that grow, even by half lines, start again or
 * end; thinned curves; new runs and wrong directories. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utime.h>

#include "check.h"
#include "report/live.h"
#include "scratch.h"

static void append(const char *path, const char *text)
{
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make_run(const char *dir, const char *config)
{
    assert_int_equal(mkdir(dir, 0777), 0);
    put_file(path_in(dir, "config.json"), config, strlen(config));
}

static void update(ms_live *live)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_live_update(&e, live));
}

static const char config[] = "{\"optimizer\": \"muon\", \"preset\": \"pico\", \"lr\": 0.02, "
                             "\"steps\": 4}";

/* Watches a new directory, its only path. */
static ms_live watch_new(const char **root)
{
    static const char *paths[1];
    *root = paths[0] = fresh_dir();
    return (ms_live){ .paths = paths, .n_paths = 1 };
}

TEST(a_log_is_read_as_it_grows)
{
    const char *root;
    ms_live     live = watch_new(&root);
    const char *dir = path_in(root, "a"), *log = path_in(dir, "log.jsonl");

    update(&live);
    assert_int_equal(live.n, 0); /* no run is no error */
    make_run(dir, config);
    update(&live);
    assert_int_equal(live.n, 1);
    assert_string_equal(live.at[0].optimizer, "muon");
    assert_true(live.at[0].lr == 0.02 && live.at[0].steps == 4 && live.at[0].step == 0);
    assert_true(isnan(ms_live_left_s(&live.at[0])));

    append(log, "{\"step\": 1, \"loss\": 5.5, \"lr\": 0.02, \"tok_s\": 10, \"time_s\": 3}\n{\"st");
    update(&live);
    assert_int_equal(live.at[0].step, 1);
    assert_string_equal(live.at[0].status, "running");
    assert_true(ms_live_left_s(&live.at[0]) == 9.0); /* three more of 3 s */
    append(log, "ep\": 2, \"loss\": 4.5, \"val_loss\": 4.75, \"time_s\": 6}\n");
    update(&live);
    update(&live); /* nothing new */
    assert_int_equal(live.at[0].step, 2);
    assert_int_equal(live.at[0].n_points, 2);
    assert_int_equal(live.at[0].n_vals, 1);
    assert_true(live.at[0].points[1].loss == 4.5 && live.at[0].vals[0].loss == 4.75);
    assert_int_equal(live.at[0].bad_lines, 0);

    append(log, "no JSON\n{\"step\": 3, \"loss\": null}\n");
    update(&live);
    assert_int_equal(live.at[0].bad_lines, 1);
    assert_true(live.at[0].step == 3 && isnan(live.at[0].last.loss));

    put_file(log, "{\"step\": 1, \"loss\": 5.0}\n", 25); /* resumed from an older checkpoint */
    update(&live);
    assert_true(live.at[0].step == 1 && live.at[0].n_points == 1 && live.at[0].n_vals == 0);
    assert_true(live.at[0].points[0].loss == 5.0);

    put_file(path_in(dir, "summary.json"), "{\"status\": \"diverged\"}", 22);
    update(&live);
    assert_string_equal(live.at[0].status, "diverged");
    assert_false(ms_live_is_running(&live.at[0]));
    ms_live_free(&live);
}

TEST(a_run_whose_log_does_not_grow_is_silent)
{
    const char          *root;
    ms_live              live = watch_new(&root);
    const struct utimbuf old  = { 1000000, 1000000 };
    put_file(path_in(root, "config.json"), config, sizeof config - 1);
    append(path_in(root, "log.jsonl"), "{\"step\": 1, \"loss\": 5.5, \"time_s\": 3}\n");
    update(&live);
    assert_int_equal(live.n, 1); /* the path itself is a run */
    assert_string_equal(live.at[0].status, "running");
    assert_int_equal(utime(path_in(root, "log.jsonl"), &old), 0);
    update(&live);
    assert_string_equal(live.at[0].status, "silent");
    ms_live_free(&live);
}

TEST(long_curves_are_thinned_evenly)
{
    const char *root;
    ms_live     live = watch_new(&root);
    enum { STEPS = 5 * MS_LIVE_POINTS };
    put_file(path_in(root, "config.json"), config, sizeof config - 1);
    FILE *f = fopen(path_in(root, "log.jsonl"), "w");
    assert_non_null(f);
    for (int i = 1; i <= STEPS; i++)
        fprintf(f, "{\"step\": %d, \"loss\": %d.5}\n", i, i);
    fclose(f);
    update(&live);
    const ms_live_run *run = &live.at[0];
    CHECK(run->n_points > MS_LIVE_POINTS / 2 && run->n_points <= MS_LIVE_POINTS, "%zu",
          run->n_points);
    for (size_t i = 0; i < run->n_points; i++) {
        assert_int_equal(run->points[i].step, (int64_t)(i + 1) * run->every);
        assert_true(run->points[i].loss == (double)run->points[i].step + 0.5);
    }
    assert_int_equal(run->step, STEPS);
    ms_live_free(&live);
}

TEST(runs_with_text_values_or_broken_configs_are_shown)
{
    const char *root;
    ms_live     live = watch_new(&root);
    json_t     *json;
    make_run(path_in(root, "a"), "{\"optimizer\": \"muon\", \"lr\": \"0.5\", \"steps\": \"200\"}");
    make_run(path_in(root, "b"), "{");
    update(&live);
    assert_int_equal(live.n, 2);
    assert_true(live.at[0].lr == 0.5 && live.at[0].steps == 200);
    assert_true(isnan(live.at[1].lr) && live.at[1].steps == 0);
    json = ms_live_json(&live);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "runs")), 2);
    assert_true(json_is_null(
        json_object_get(json_array_get(json_object_get(json, "runs"), 1), "last_loss")));
    json_decref(json);
    ms_live_free(&live);
}

TEST(missing_directories_and_files_are_refused)
{
    const char *const root = fresh_dir();
    const char       *paths[1];
    ms_live           live = { .paths = paths, .n_paths = 1 };
    ms_error          e    = { "" };
    paths[0]               = path_in(root, "none");
    assert_int_equal(ms_live_update(&e, &live), MUSEC_EIO);
    assert_non_null(strstr(e.text, "it is not there"));
    put_file(path_in(root, "file"), "x", 1);
    paths[0] = path_in(root, "file");
    assert_int_equal(ms_live_update(&e, &live), MUSEC_EIO);
    assert_non_null(strstr(e.text, "it is no directory"));
    ms_live_free(&live);
}
