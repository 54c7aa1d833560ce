/* experiment_test.c - the files of experiments/: they agree with the paper's tables, and their
 * grids give the expected runs at every scale. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/experiment.h"
#include "report/compare_labels.h"
#include "report/sections.h"
#include "train/schedule.h"

static ms_experiments all;

static int load(void **state)
{
    ms_error e = { "" };
    (void)state;
    CHECK_OK_ERR(&e, ms_experiments_load(&e, &all));
    return 0;
}

static int unload(void **state)
{
    (void)state;
    ms_experiments_free(&all);
    return 0;
}

static const ms_experiment *find(const char *name)
{
    ms_error             e = { "" };
    const ms_experiment *item;
    CHECK_OK_ERR(&e, ms_experiment_find(&e, &all, name, &item));
    return item;
}

static ms_grid runs_of(const char *name, const ms_experiment_ask *ask)
{
    ms_error e    = { "" };
    ms_grid  grid = { 0 };
    CHECK_OK_ERR(&e, ms_experiment_runs(&e, &all, find(name), ask, &grid));
    return grid;
}

static size_t count(const char *name, const char *scale, bool full)
{
    const ms_experiment_ask ask  = { .scale = scale, .full = full };
    ms_grid                 grid = runs_of(name, &ask);
    const size_t            n    = grid.n;
    ms_grid_free(&grid);
    return n;
}

static const char *text_of(const ms_train_config *cfg, const char *field)
{
    static char text[MS_PATH_MAX];
    CHECK(ms_train_config_get(cfg, field, text, sizeof text) == MUSEC_OK, "%s", field);
    return text;
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(every_figure_and_table_has_an_item)
{
    static const struct {
        const char *alias, *item;
    } cases[] = {
        { "fig1", "lr-sweep" },          { "fig2", "dynamics" },
        { "fig3", "weight-norm" },       { "fig4", "lr-sweep" },
        { "fig5", "lr-sweep" },          { "fig6", "dynamics" },
        { "fig7", "dynamics" },          { "fig8", "dynamics" },
        { "fig9", "effective-rank" },    { "fig10", "step-time" },
        { "fig11", "threshold" },        { "fig12", "ns-iters" },
        { "table1", "architecture" },    { "table2", "training" },
        { "table3", "hyperparameters" }, { "table4", "hyperparameters" },
        { "table5", "hyperparameters" }, { "effective-step", "effective-step" },
        { "controls", "controls" },      { "clip-activity", "clip-activity" },
        { "stability", "stability" },    { "sharpness", "sharpness" },
        { "verdict", "verdict" },        { "theorem", "theory" },
        { "qk-norm", "qk-norm" },        { "race", "race" },
    };
    ms_error             e = { "" };
    const ms_experiment *item;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(find(cases[i].alias)->name, cases[i].item);
    for (size_t i = 0; i < all.n; i++)
        CHECK(json_integer_value(json_object_get(all.at[i].file, "order")) == (json_int_t)i + 1,
              "%s is out of order", all.at[i].name);
    CHECK_FAILS(&e, ms_experiment_find(&e, &all, "treshold", &item), MUSEC_EINVAL,
                "did you mean \"threshold\"");
    CHECK_FAILS(&e, ms_experiment_find(&e, &all, "frobnicate", &item), MUSEC_EINVAL,
                "musec paper list");
}

TEST(items_name_existing_sections)
{
    for (size_t i = 0; i < all.n; i++) {
        const json_t *named = json_object_get(all.at[i].file, "sections");
        for (size_t k = 0; k < json_array_size(named); k++) {
            const char *id = json_string_value(json_array_get(named, k));
            ms_error    e  = { "" };
            CHECK_OK_ERR(&e, ms_sections_check(&e, &id, 1));
        }
    }
}

/* ---- the paper's tables ---------------------------------------------------------------------- */

/* Tables 3, 4 and 5, one row per learning rate: the decays of QK, VO and MLP with Muon, MuonClip
 * and Soft Musec, then the threshold. */
static const struct {
    const char *scale;
    double      lr, muon[3], muonclip[3], soft[3], threshold;
} paper[] = {
    { "small", 0.01, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, 0.5 },
    { "small", 0.023, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.5 },
    { "small", 0.05, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.1 },
    { "small", 0.1, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, 0.1 },
    { "small", 0.2, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, 0.1 },
    { "small", 0.5, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, 0.1 },
    { "medium", 0.01, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.25 },
    { "medium", 0.015, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.25 },
    { "medium", 0.05, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "medium", 0.1, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "medium", 0.2, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "medium", 0.3, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "medium", 0.5, { 0.3, 0.3, 0.3 }, { 0.3, 0.3, 0.3 }, { 0.3, 0.3, 0.3 }, 0.05 },
    { "medium", 0.8, { 0.3, 0.3, 0.1 }, { 0.3, 0.3, 0.1 }, { 0.3, 0.3, 0.1 }, 0.05 },
    { "wide", 0.01, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.25 },
    { "wide", 0.05, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "wide", 0.1, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "wide", 0.2, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 1.2 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "wide", 0.3, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, { 1.2, 1.2, 0.3 }, 0.05 },
    { "wide", 0.5, { 0.3, 0.3, 0.3 }, { 0.3, 0.3, 0.3 }, { 0.3, 0.3, 0.3 }, 0.05 },
};

/* The weight decay of QK, VO and MLP as the file has it. */
static void write_decay(const double decay[3], char *text, size_t bytes)
{
    snprintf(text, bytes, "qk=%g,vo=%g,mlp=%g", decay[0], decay[1], decay[2]);
}

static void check_row(const char *scale, const char *optimizer, double lr, const double decay[3],
                      double threshold)
{
    const json_t *rows = ms_experiment_selected(&all, scale, optimizer);
    int           n    = 0;
    char          want[64];
    write_decay(decay, want, sizeof want);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row   = json_array_get(rows, i);
        const json_t *limit = json_object_get(row, "threshold");
        if (json_number_value(json_object_get(row, "lr")) != lr) continue;
        n++;
        assert_string_equal(json_string_value(json_object_get(row, "weight_decay")), want);
        CHECK(isnan(threshold) ? limit == NULL : json_number_value(limit) == threshold, "%s %s %g",
              scale, optimizer, lr);
    }
    CHECK(n == 1, "%s %s %g: %d rows", scale, optimizer, lr, n);
}

TEST(selected_settings_are_the_papers)
{
    static const struct {
        const char *scale;
        size_t      rates;
    } sizes[]                             = { { "small", 6 }, { "medium", 8 }, { "wide", 6 } };
    static const char *const optimizers[] = { "muon", "muonclip", "soft-musec", "spectra" };
    for (size_t i = 0; i < COUNT(paper); i++) {
        check_row(paper[i].scale, "muon", paper[i].lr, paper[i].muon, NAN);
        check_row(paper[i].scale, "muonclip", paper[i].lr, paper[i].muonclip, NAN);
        check_row(paper[i].scale, "soft-musec", paper[i].lr, paper[i].soft, paper[i].threshold);
        check_row(paper[i].scale, "spectra", paper[i].lr, paper[i].soft, paper[i].threshold);
    }
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t k = 0; k < COUNT(optimizers); k++)
            CHECK(json_array_size(ms_experiment_selected(&all, sizes[i].scale, optimizers[k])) ==
                      sizes[i].rates,
                  "%s %s", sizes[i].scale, optimizers[k]);
    CHECK(ms_experiment_selected(&all, "pico", "muon") == NULL, "the paper has no pico");
}

static bool is_list(const json_t *list, const double *values, size_t n)
{
    bool same = json_array_size(list) == n;
    for (size_t i = 0; same && i < n; i++)
        same = json_number_value(json_array_get(list, i)) == values[i];
    return same;
}

TEST(search_lists_are_the_papers)
{
    static const double decay[]     = { 0.096, 0.3, 0.6, 1.2 };
    static const double threshold[] = { 0.05, 0.125, 0.25, 0.5, 0.75, 1.0 };
    const json_t       *scales      = json_object_get(all.files, "scales");
    const json_t       *full        = json_object_get(scales, "full");
    static const struct {
        const char *scale;
        size_t      n;
        double      rates[8];
    } sizes[] = { { "small", 6, { 0.01, 0.023, 0.05, 0.1, 0.2, 0.5 } },
                  { "medium", 8, { 0.01, 0.015, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8 } },
                  { "wide", 6, { 0.01, 0.05, 0.1, 0.2, 0.3, 0.5 } } };
    CHECK(is_list(json_object_get(full, "weight_decay"), decay, COUNT(decay)), "weight_decay");
    CHECK(is_list(json_object_get(full, "threshold"), threshold, COUNT(threshold)), "threshold");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const json_t *lists = json_object_get(json_object_get(scales, sizes[i].scale), "lists");
        CHECK(is_list(json_object_get(lists, "lr"), sizes[i].rates, sizes[i].n), "%s",
              sizes[i].scale);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Checks of a run of any item: QK-norm is off, so that MuonClip has logits to clip, but where it is
 * what is compared; gradients are sums; the first change of stage raises the learning rate, the
 * batch and the window. */
static void check_run(const char *item, const ms_grid_run *run)
{
    const ms_train_config *cfg  = &run->config;
    const bool             tiny = cfg->preset < 2;
    const bool             race = strcmp(item, "race") == 0; /* without decay, whatever its form */
    const bool             adam = strncmp(cfg->optim.name, "adam", 4) == 0;
    ms_error               e    = { "" };
    ms_schedule            s;
    const ms_train_stage  *first = &s.stage[0], *second = &s.stage[1];

    CHECK(cfg->model.qk_norm == 0 || strcmp(item, "qk-norm") == 0, "%s", run->name);
    CHECK(strtod(text_of(cfg, "qk_tau"), NULL) == (tiny ? 30.0 : 100.0), "%s", run->name);
    CHECK(cfg->grad_reduction == MS_REDUCTION_SUM8, "%s", run->name);
    CHECK(adam || race || strcmp(text_of(cfg, "decay_form"), "cautious-lr2") == 0, "%s", run->name);
    CHECK_OK_ERR(&e, ms_schedule_make(&e, cfg, &s));
    CHECK(s.n_stages >= 3, "%s: %d stages", run->name, s.n_stages);
    CHECK(fabs(second->lr / first->lr - 1.52) <= 1e-12, "%s", run->name);
    CHECK(second->batch == 2 * first->batch, "%s", run->name);
    CHECK(second->window_long > first->window_long, "%s", run->name);
    CHECK(cfg->val_every > 0 && 4 * cfg->val_every <= first->end, "%s", run->name);
    CHECK(tiny ? cfg->preset == 0 || cfg->checkpoint_every > 0 : cfg->checkpoint_every > 0, "%s",
          run->name);
}

static void check_item(const char *name, const char *scale, bool full)
{
    const ms_experiment_ask ask = { .scale = scale, .full = full };
    const bool none = strcmp(name, "architecture") == 0 || strcmp(name, "training") == 0 ||
                      strcmp(name, "theory") == 0; /* its runs are no trainings */
    ms_grid grid = runs_of(name, &ask);

    CHECK((grid.n == 0) == none, "%s at %s: %zu runs", name, scale, grid.n);
    for (size_t i = 0; i < grid.n; i++) {
        check_run(name, &grid.at[i]);
        assert_string_equal(ms_preset_name((size_t)grid.at[i].config.preset, NULL),
                            strcmp(scale, "brief") == 0 ? "small" : scale);
    }
    ms_grid_free(&grid);
}

TEST(every_grid_expands_at_every_scale)
{
    const char *scale;
    for (size_t s = 0; (scale = ms_experiment_scale_at(&all, s)) != NULL; s++) {
        for (size_t i = 0; i < all.n; i++)
            check_item(all.at[i].name, scale, false);
        check_item("verdict", scale, true); /* has the runs of all items */
    }
}

TEST(items_have_the_expected_numbers_of_runs)
{
    static const struct {
        const char *item, *scale;
        size_t      reduced, full;
    } cases[] = {
        /* 48 of each of seven methods: 12 rates with 4 decays, 8 with 4 decays and 2 more
         * thresholds, 8 with 6 decays; muon at 10 products of rate and threshold that are no such
         * rates; fast and exact of two clipping optimizers at 3 rates.  In full: 6 decays at 8
         * rates, of Muon and MuonClip 4 decays at 5 more, of three clipping optimizers 6
         * thresholds */
        { "lr-sweep", "pico", 7 * 48 + 10 + 12, 0 },
        { "lr-sweep", "nano", 7 * 48 + 10 + 12, 0 },
        /* Soft Musec's five steps and fast clips; accurate ones at 3 rates */
        { "lr-sweep", "mini", 8 * 48 + 10 + 6, 0 },
        { "lr-sweep", "midi", 8 * 48 + 10 + 6, 0 },
        { "weight-norm", "pico", 4 + 4 + 6 + 6, 6 + 6 + 36 + 36 },
        { "effective-rank", "pico", 4 + 4 + 6 + 6, 6 + 6 + 36 + 36 },
        { "step-time", "pico", 2 + 3 + 4 + 2, 0 },
        { "threshold", "pico", 9, 18 },
        { "ns-iters", "pico", 9, 18 },
        { "controls", "pico", 358 - 96, 0 },
        { "qk-norm", "pico", 2 * (3 * 8 + 12 + 8), 0 },
        /* the tables' rows; muon at rate times threshold without duplicates; fast; baselines */
        { "lr-sweep", "small", 4 * 6 + 4 + 2 * 6 + 8, 0 },
        { "lr-sweep", "medium", 4 * 8 + 7 + 2 * 8 + 8, 0 },
        { "lr-sweep", "wide", 4 * 6 + 5 + 2 * 6 + 8, 0 },
        { "weight-norm", "medium", 4, 0 },
        { "threshold", "medium", 9, 18 },
        { "ns-iters", "medium", 9, 18 },
        { "hyperparameters", "medium", 32 + 2, 0 }, /* two such products */
        /* four sharpnesses: fast at the rates, 5 and 25 times them (8, and 18 in full) and at the
         * thresholds (3 and 6), with one more rate at one of these; exact at one threshold */
        { "sharpness", "pico", 4 * (8 * 3 + 1 + 8), 4 * (18 * 6 + 1 + 18) },
        { "sharpness", "wide", 4 * 5, 4 * 5 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const size_t reduced = count(cases[i].item, cases[i].scale, false);
        const size_t full    = count(cases[i].item, cases[i].scale, true);
        CHECK(reduced == cases[i].reduced, "%s at %s: %zu runs, not %zu", cases[i].item,
              cases[i].scale, reduced, cases[i].reduced);
        CHECK(cases[i].full == 0 ? full >= reduced : full == cases[i].full,
              "%s at %s in full: %zu runs, not %zu", cases[i].item, cases[i].scale, full,
              cases[i].full);
    }
    /* Items share their runs: few are not in the sweep. */
    CHECK(count("verdict", "pico", false) == 358 + 6, "%zu", count("verdict", "pico", false));
    for (size_t i = 0; i < all.n; i++)
        CHECK(count(all.at[i].name, "pico", false) <= 364, "%s", all.at[i].name);
}

TEST(items_fix_rate_and_threshold)
{
    static const struct {
        const char *item, *field;
        double      values[3];
        size_t      n;
    } cases[] = {
        { "weight-norm", "lr", { 0.2 }, 1 },         { "effective-rank", "lr", { 0.5 }, 1 },
        { "threshold", "lr", { 0.1, 0.2, 0.5 }, 3 }, { "ns-iters", "lr", { 0.1, 0.2, 0.5 }, 3 },
        { "ns-iters", "threshold", { 0.05 }, 1 },
    };
    static const char *const scales[] = { "pico", "medium" };
    for (size_t i = 0; i < COUNT(cases) * COUNT(scales); i++) {
        const size_t            k       = i / COUNT(scales);
        const ms_experiment_ask ask     = { .scale = scales[i % COUNT(scales)] };
        ms_grid                 grid    = runs_of(cases[k].item, &ask);
        bool                    seen[3] = { false };
        for (size_t r = 0; r < grid.n; r++) {
            const double x     = strtod(text_of(&grid.at[r].config, cases[k].field), NULL);
            bool         known = false;
            for (size_t v = 0; v < cases[k].n; v++)
                if (x == cases[k].values[v]) known = seen[v] = true;
            CHECK(known, "%s: %s %g", cases[k].item, cases[k].field, x);
            CHECK(strcmp(cases[k].item, "ns-iters") != 0 || grid.at[r].config.optim.ns_iters >= 3,
                  "%s", grid.at[r].name);
        }
        for (size_t v = 0; v < cases[k].n; v++)
            CHECK(seen[v], "%s: no %s %g", cases[k].item, cases[k].field, cases[k].values[v]);
        ms_grid_free(&grid);
    }
}

/* Do the configs have the same clip and weight decay? */
static bool agree(const ms_train_config *a, const ms_train_config *b)
{
    static const char *const fields[] = { "sharpness", "ns_mode", "threshold", "weight_decay" };
    char                     text[256];
    for (size_t i = 0; i < COUNT(fields); i++) {
        snprintf(text, sizeof text, "%s", text_of(a, fields[i]));
        if (strcmp(text, text_of(b, fields[i])) != 0) return false;
    }
    return strcmp(a->optim.name, b->optim.name) == 0;
}

static size_t count_at(const ms_grid *grid, const ms_train_config *like, double lr)
{
    size_t n = 0;
    for (size_t i = 0; i < grid->n; i++)
        n +=
            fabs(grid->at[i].config.optim.lr - lr) <= 1e-9 * lr && agree(&grid->at[i].config, like);
    return n;
}

/* Whichever of the rates that the items share is best, at pico or at a scale of the paper. */
TEST(sharpness_is_run_at_5_and_25_times_the_best_rate)
{
    static const struct {
        const char *scale;
        double      rates[4];
        size_t      n, methods; /* sharpness, mode and threshold */
    } cases[] = { { "pico", { 0.02, 0.1, 0.2, 0.5 }, 4, 4 * (3 + 1) },
                  { "medium", { 0.02, 0.1, 0.5 }, 3, 4 } };
    for (size_t k = 0; k < COUNT(cases); k++) {
        const ms_experiment_ask ask  = { .scale = cases[k].scale };
        ms_grid                 grid = runs_of("sharpness", &ask);
        size_t                  n    = 0;
        for (size_t i = 0; i < grid.n; i++) {
            const ms_train_config *cfg = &grid.at[i].config;
            for (size_t r = 0; r < cases[k].n; r++) {
                if (cfg->optim.lr != cases[k].rates[r]) continue;
                n++;
                CHECK(count_at(&grid, cfg, 5.0 * cfg->optim.lr) == 1 &&
                          count_at(&grid, cfg, 25.0 * cfg->optim.lr) == 1,
                      "%s", grid.at[i].name);
            }
        }
        CHECK(n == cases[k].n * cases[k].methods, "%s: %zu runs", cases[k].scale, n);
        ms_grid_free(&grid);
    }
}

/* ---- options --------------------------------------------------------------------------------- */

TEST(only_the_first_data_set_has_all_seeds)
{
    static const char *const data[]  = { "a", "b", "c" };
    static const unsigned    seeds[] = { 2, 1 };
    const ms_experiment_ask  ask     = {
             .scale = "pico", .data = data, .n_data = 3, .seeds = seeds, .n_seeds = 2
    };
    ms_grid grid = runs_of("threshold", &ask);
    size_t  n[3] = { 0 }, second = 0;
    for (size_t i = 0; i < grid.n; i++) {
        for (size_t k = 0; k < 3; k++)
            if (strcmp(grid.at[i].config.data, data[k]) == 0) n[k]++;
        if (grid.at[i].config.seed == 1) second++;
    }
    CHECK(n[0] == 18 && n[1] == 9 && n[2] == 9, "%zu %zu %zu", n[0], n[1], n[2]);
    CHECK(second == 9 && grid.n == 36, "%zu of %zu", second, grid.n);
    ms_grid_free(&grid);
}

TEST(settings_of_the_user_override_the_grid)
{
    static const char *const set[] = { "steps=240", "weight-decay=0.6", "lr=0.3" };
    const ms_experiment_ask  ask   = { .scale = "medium", .set = set, .n_set = COUNT(set) };
    ms_grid                  grid  = runs_of("threshold", &ask);
    CHECK(grid.n == 3, "%zu runs: the learning rates fall together", grid.n);
    for (size_t i = 0; i < grid.n; i++) {
        CHECK(grid.at[i].config.steps == 240, "%s", grid.at[i].name);
        CHECK(grid.at[i].config.optim.lr == 0.3, "%s", grid.at[i].name);
        assert_string_equal(text_of(&grid.at[i].config, "weight_decay"),
                            "matrix=0.6,qk=0.6,vo=0.6,mlp=0.6");
    }
    ms_grid_free(&grid);
}

/* Tuning runs of a method: those of its operator, with all values of what is tuned. */
static size_t tuning_runs(const ms_grid *grid, const char *optimizer, const char *ns_mode)
{
    size_t n = 0;
    for (size_t i = 0; i < grid->n; i++) {
        const ms_train_config *cfg     = &grid->at[i].config;
        bool                   control = strcmp(optimizer, "muon") == 0;
        static const double    rates[] = { 0.005, 0.01,  0.02, 0.05, 0.1,   0.2,   0.5,  1.6,
                                           0.007, 0.014, 0.03, 0.07, 0.025, 0.035, 0.04, 0.14 };
        const size_t           fine    = cfg->preset == 4 ? COUNT(rates) : 12;
        for (size_t k = 0; control && k < fine; k++)
            control = fabs(cfg->optim.lr - rates[k]) > 1e-9; /* Muon at lr times threshold */
        n += !control && strcmp(cfg->optim.name, optimizer) == 0 &&
             (ns_mode == NULL || strcmp(text_of(cfg, "ns_mode"), ns_mode) == 0);
    }
    return n;
}

TEST(every_method_has_the_same_number_of_tuning_runs)
{
    static const struct {
        const char *optimizer, *small_mode, *gpu_mode;
    } methods[] = { { "soft-musec", "paper", "paper" },
                    { "spectra", "paper", "paper" },
                    { "musec", "paper", "accurate" },
                    { "soft-musec", "paper", "fast" },
                    { "muon", NULL, NULL },
                    { "muonclip", NULL, NULL },
                    { "adam", NULL, NULL },
                    { "adamw", NULL, NULL } };
    static const struct {
        const char *scale;
        size_t      n;
    } scales[] = {
        { "pico", 48 }, { "nano", 48 }, { "mini", 48 }, { "midi", 48 }, { "brief", 32 }
    };
    for (size_t s = 0; s < COUNT(scales); s++) {
        const ms_experiment_ask ask  = { .scale = scales[s].scale };
        ms_grid                 grid = runs_of("lr-sweep", &ask);
        for (size_t i = 0; i < COUNT(methods); i++) {
            const size_t n = tuning_runs(&grid, methods[i].optimizer,
                                         s < 2 ? methods[i].small_mode : methods[i].gpu_mode);
            CHECK(n == scales[s].n, "%s at %s: %zu, not %zu", methods[i].optimizer, scales[s].scale,
                  n, scales[s].n);
        }
        ms_grid_free(&grid);
    }
}

/* What a method of the race is: its optimizer, and what it adds. */
static void race_method(const ms_train_config *cfg, char *name, size_t bytes)
{
    static const char *const parts[] = { "nesterov", "beta", "second_moment", "update_scale" };
    size_t                   n       = (size_t)snprintf(name, bytes, "%s", cfg->optim.name);
    for (size_t i = 0; i < COUNT(parts); i++)
        n += (size_t)snprintf(name + n, bytes - n, " %s", text_of(cfg, parts[i]));
}

/* Every optimizer of the registry, and eight compositions; every method 8 runs, all with seed 0,
 * whatever --seeds says, which counts the repeats. */
TEST(every_method_of_the_race_has_the_same_number_of_tuning_runs)
{
    static const unsigned   seeds[] = { 5 };
    const ms_experiment_ask ask     = { .scale = "pico", .seeds = seeds, .n_seeds = 1 };
    ms_grid                 grid    = runs_of("race", &ask);
    char                    name[128], other[128];
    size_t                  methods = 0;
    const char             *help;

    for (size_t i = 0; i < grid.n; i++) {
        size_t n = 0, before = 0;
        race_method(&grid.at[i].config, name, sizeof name);
        for (size_t k = 0; k < grid.n; k++) {
            race_method(&grid.at[k].config, other, sizeof other);
            n += strcmp(name, other) == 0;
            before += k < i && strcmp(name, other) == 0;
        }
        methods += before == 0;
        CHECK(n == 8, "%s: %zu tuning runs", name, n);
        CHECK(grid.at[i].config.seed == 0, "%s", grid.at[i].name);
    }
    for (size_t i = 0; musec_optim_name(i, &help) != NULL; i++) {
        bool there = false;
        for (size_t k = 0; k < grid.n; k++)
            there = there || strcmp(grid.at[k].config.optim.name, musec_optim_name(i, &help)) == 0;
        CHECK(there, "%s does not take part", musec_optim_name(i, &help));
    }
    CHECK(methods == 22 + 8, "%zu methods", methods);
    ms_grid_free(&grid);
}

/* But for the optimizer, its options, the seed, and what Hyperball begins with, all runs are the
 * same: else they would be other problems, which nothing compares. */
TEST(the_methods_of_the_race_share_a_problem)
{
    const ms_experiment_ask ask  = { .scale = "pico" };
    ms_grid                 grid = runs_of("race", &ask);
    char                    text[MS_PATH_MAX];
    ms_train_field          f;

    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", f.name);
        for (char *c = name; *c != '\0'; c++)
            if (*c == '-') *c = '_';
        if (!ms_is_problem_field(name) || strncmp(name, "init_", 5) == 0) continue;
        snprintf(text, sizeof text, "%s", text_of(&grid.at[0].config, f.name));
        for (size_t k = 1; k < grid.n; k++)
            CHECK(strcmp(text_of(&grid.at[k].config, f.name), text) == 0, "%s of %s: %s, not %s",
                  f.name, grid.at[k].name, text_of(&grid.at[k].config, f.name), text);
    }
    ms_grid_free(&grid);
}

TEST(a_grid_is_narrowed_and_its_lists_replaced)
{
    json_t *only  = json_pack("{s:[s,s], s:[f]}", "optimizer", "muon", "soft-musec", "lr", 0.2);
    json_t *lists = json_pack("{s:[f,f]}", "threshold", 0.02, 0.25);
    ms_experiment_ask ask  = { .scale = "pico", .only = only };
    ms_grid           grid = runs_of("lr-sweep", &ask);
    /* at lr 0.2: Muon with 4 decays; Soft Musec with 4 and 2 more thresholds, fast and exact */
    CHECK(grid.n == 4 + 6 + 2, "%zu runs", grid.n);
    ms_grid_free(&grid);
    ask  = (ms_experiment_ask){ .scale = "pico", .lists = lists };
    grid = runs_of("threshold", &ask);
    CHECK(grid.n == 6, "%zu runs", grid.n);
    for (size_t i = 0; i < grid.n; i++)
        CHECK(strcmp(text_of(&grid.at[i].config, "threshold"), "0.02") == 0 ||
                  strcmp(text_of(&grid.at[i].config, "threshold"), "0.25") == 0,
              "%s", text_of(&grid.at[i].config, "threshold"));
    ms_grid_free(&grid);
    json_decref(only);
    json_decref(lists);
}

TEST(wrong_scales_and_settings_are_refused)
{
    static const struct {
        const char *scale, *set, *words;
    } cases[] = {
        { "pico", "stepz=3", "did you mean \"steps\"" },
        { "pico", "steps=x", "whole number" },
        { "pico", "batch=512", "the stages say what batch is" },
        { "pico", "steps", "FIELD=VALUE" },
        { "pico", "=3", "FIELD=VALUE" },
        { "pico", "optimizer=muon", "no field \"optimizer\"" },
        { "piko", "steps=3",
          "no scale \"piko\"; there are pico, nano, mini, midi, brief, small, medium, wide" },
        { "set", "steps=3", "no scale \"set\"" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const ms_experiment_ask ask = { .scale = cases[i].scale, .set = &cases[i].set, .n_set = 1 };
        ms_error                e   = { "" };
        ms_grid                 grid = { 0 };
        CHECK(ms_experiment_runs(&e, &all, find("threshold"), &ask, &grid) == MUSEC_EINVAL, "%s",
              cases[i].set);
        CHECK(strstr(e.text, cases[i].words) != NULL, "%s: %s", cases[i].set, e.text);
        ms_grid_free(&grid);
    }
}

TEST_GROUP(load, unload)
