/* estimate_test.c - estimated times of runs: sums by hand, unknown times, runs side by side, and
 * which calibrations are read. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/json_file.h"
#include "experiment/estimate.h"
#include "scratch.h"

/* A run of 100 steps in two stages of 1000 and 3000 tokens. */
static ms_train_config run_of(const char *preset, const char *optimizer)
{
    static const char *const settings[][2] = {
        { "steps", "100" },
        { "extension", "0" },
        { "stages", "40% batch=1000 window=63/63; rest batch=3000 window=127/127" },
        { "micro_batches", "1" },
        { "val_every", "30" },
        { "val_tokens", "5000" },
        { "report_every", "20" },
    };
    ms_error        e = { "" };
    ms_train_config cfg;
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, preset, optimizer));
    for (size_t i = 0; i < COUNT(settings); i++)
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, settings[i][0], settings[i][1]));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    return cfg;
}

/* A calibration made with pico itself.  The operations per token are 6 (matrices + head) and 12 per
 * column and key of each layer; with documents of 128 a token sees 64 keys in the mean. */
static json_t *calibration(void)
{
    const double flops =
        6.0 * (2 * (4 * 128.0 * 128 + 2 * 512.0 * 128) + 320 * 128.0) + 2 * 12.0 * 128 * 64;
    const double work = 2 * (4 * 128.0 * 128 * 128 + 2 * 128.0 * 512 * 128);
    return json_pack("{s:f, s:f, s:f, s:f, s:[{s:f, s:f}, {s:f, s:f}], s:{s:{s:f, s:f}}}",
                     "start_s", 0.25, "rest_ms", 0.5, "val_ms_token", 0.01, "optim_work", work,
                     "stages", "ms_token", 0.02, "flops_token", flops, "ms_token", 0.03,
                     "flops_token", flops, "optim", "muon paper 5", "ms", 7.0, "report_ms", 40.0);
}

TEST(the_time_of_a_run_is_a_sum)
{
    ms_estimate           est = { .entry = calibration(), .width = 1 };
    const ms_train_config cfg = run_of("pico", "muon");
    /* 40 steps of 1000 and 60 of 3000 tokens, 100 optimizer steps, 5 measurements, validations
     * after 30, 60, 90 and at the end */
    const double want = 0.25 + (40 * 1000 * 0.02 + 60 * 3000 * 0.03 + 100 * 0.5 + 100 * 7.0 +
                                5 * 40.0 + 4 * 5000 * 0.01) /
                                   1000.0;
    const double got = ms_estimate_run(&est, &cfg);
    CHECK(fabs(got - want) <= 1e-9 * want, "%.9g s, not %.9g", got, want);
    json_decref(est.entry);
}

TEST(times_of_larger_models_are_scaled_by_operations)
{
    ms_estimate           est   = { .entry = calibration(), .width = 1, .about = true };
    const ms_train_config large = run_of("wide", "muon");
    const double          got   = ms_estimate_run(&est, &large);
    /* wide has 16 layers of 12 x 2048^2 and a head of 50304 x 2048, pico 2 layers of 12 x 128^2 and
     * a head of 320 x 128, to which attention adds 2 x 12 x 128 x 64.  In wide attention is less
     * than 1 % and left out of the sum. */
    const double tokens = 6 * (16 * 12 * 2048.0 * 2048 + 50304 * 2048.0) /
                          (6 * (2 * 12 * 128.0 * 128 + 320 * 128.0) + 2 * 12 * 128.0 * 64);
    const double steps = 8.0 * 16 * 16 * 16; /* layers, and the cube of the width */
    const double want  = (tokens * (40 * 1000 * 0.02 + 60 * 3000 * 0.03 + 4 * 5000 * 0.01) +
                         steps * (100 * 7.0 + 5 * 40.0)) /
                        1000.0;
    CHECK(got >= want && got <= 1.01 * want, "%g s, not %g", got, want);
    json_decref(est.entry);
}

/* Of pico's first layer, q, k, v, the output of attention and the MLP's first product are repeated,
 * and 4 operations per column and key; validation repeats nothing. */
TEST(recomputed_operations_take_time_in_training_alone)
{
    ms_estimate     est    = { .entry = calibration(), .width = 1 };
    ms_train_config cfg    = run_of("pico", "muon");
    const double    before = ms_estimate_run(&est, &cfg);
    const double    all =
        6.0 * (2 * (4 * 128.0 * 128 + 2 * 512.0 * 128) + 320 * 128.0) + 2 * 12.0 * 128 * 64;
    const double again = 2.0 * (4 * 128.0 * 128 + 512.0 * 128) + 4.0 * 128 * 64;
    ms_error     e     = { "" };
    ms_schedule  s;
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "recompute", "layer"));
    CHECK_OK_ERR(&e, ms_schedule_make(&e, &cfg, &s));
    const double want = before + (40 * 1000 * 0.02 + 60 * 3000 * 0.03) * again / all / 1000.0;
    const double got  = ms_estimate_run(&est, &cfg);
    CHECK(fabs(got - want) <= 1e-9 * want, "%.9g s, not %.9g", got, want);
    const double share = ms_estimate_recomputed(&cfg, &s.stage[0]);
    CHECK(fabs(share - 3.0 * again / all) <= 1e-12, "%g of a forward pass", share);
    json_decref(est.entry);
}

TEST(times_without_a_measurement_are_nan)
{
    ms_estimate           est = { .entry = calibration(), .width = 1 }, none = { .width = 1 };
    const ms_train_config muon = run_of("pico", "muon"), other = run_of("pico", "spectra");
    ms_grid_run           runs[2] = { { .config = muon }, { .config = other } };
    const ms_grid         one = { .at = runs, .n = 1 }, both = { .at = runs, .n = 2 };
    char                  text[32];
    CHECK(isnan(ms_estimate_run(&none, &muon)), "without a calibration");
    CHECK(isnan(ms_estimate_run(&est, &other)), "an optimizer that was not measured");
    CHECK(isfinite(ms_estimate_all(&est, &one, NULL)), "one that was");
    CHECK(isnan(ms_estimate_all(&est, &both, NULL)), "a sum with one that was not");
    ms_estimate_text(NAN, text, sizeof text);
    assert_string_equal(text, "-");
    json_decref(est.entry);
}

TEST(runs_side_by_side_take_rounds)
{
    ms_estimate   est = { .entry = calibration() };
    ms_grid_run   runs[5];
    ms_sweep_run  states[5] = { { .state = MS_SWEEP_DONE }, { .state = MS_SWEEP_DIVERGED } };
    const ms_grid grid      = { .at = runs, .n = 5 };
    for (size_t i = 0; i < 5; i++)
        runs[i] = (ms_grid_run){ .config = run_of("pico", "muon") };
    const double one = ms_estimate_run(&est, &runs[0].config);
    for (est.width = 1; est.width <= 6; est.width++) {
        const int rounds = (5 + est.width - 1) / est.width, left = (3 + est.width - 1) / est.width;
        const double all = ms_estimate_all(&est, &grid, NULL);
        CHECK(fabs(all - rounds * one) <= 1e-9 * all, "%d at once: %g, not %d x %g", est.width, all,
              rounds, one);
        CHECK(fabs(ms_estimate_all(&est, &grid, states) - left * one) <= 1e-9 * all,
              "%d at once: the finished ones cost nothing", est.width);
    }
    json_decref(est.entry);
}

TEST(times_are_written_in_fitting_units)
{
    static const struct {
        double      seconds;
        const char *words;
    } cases[] = { { 0.0, "0 s" },
                  { 40.4, "40 s" },
                  { 89.0, "89 s" },
                  { 90.0, "2 min" },
                  { 600.0, "10 min" },
                  { 3600.0 * 5.0, "5.0 h" },
                  { 86400.0 * 41.3, "41 days" },
                  { 86400.0 * 3653.0, "10 years" } };
    char text[32];
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_estimate_text(cases[i].seconds, text, sizeof text);
        assert_string_equal(text, cases[i].words);
    }
}

static ms_estimate open_estimate(void)
{
    const ms_experiment_ask ask   = { .scale = "pico" };
    const ms_sweep          sweep = { .jobs = 3, .threads = 2 };
    const ms_estimate_setup setup = { .ask = &ask, .out = check_tmp_dir(), .sweep = &sweep };
    ms_error                e     = { "" };
    ms_estimate             est;
    CHECK_OK_ERR(&e, ms_estimate_open(&e, &setup, &est));
    return est;
}

/* Writes its file and opens that. */
static void reopen(ms_estimate *est)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_json_write(&e, tmp_path("calibration.json"), est->file));
    ms_estimate_free(est);
    *est = open_estimate();
}

TEST(only_calibrations_of_this_machine_are_read)
{
    ms_estimate est = open_estimate();
    CHECK(est.entry == NULL && est.width == 3, "a calibration without a file");
    json_object_set_new(json_object_get(est.file, "entries"), "pico, 3 at once of 2 threads",
                        calibration());
    reopen(&est);
    CHECK(est.entry != NULL, "the calibration is not found");
    json_object_set_new(json_object_get(est.file, "machine"), "cpu", json_string("another"));
    reopen(&est);
    CHECK(est.entry == NULL, "the calibration of another machine");
    json_object_set_new(est.file, "entries", json_integer(3));
    reopen(&est);
    CHECK(json_is_object(json_object_get(est.file, "entries")), "damaged entries");
    ms_estimate_free(&est);
}
