/* grid_test.c - grids of runs: how many runs a description gives, which, in which order and under
 * which keys; and the messages for wrong descriptions. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "train/grid.h"
#include "train_rig.h"

/* JSON with ' in place of ". */
static json_t *parse(const char *text)
{
    char         quoted[12000];
    json_error_t where;
    json_t      *json;
    CHECK(strlen(text) < sizeof quoted, "too long");
    snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; (c = strchr(c, '\'')) != NULL;)
        *c = '"';
    json = json_loads(quoted, JSON_DECODE_ANY, &where);
    CHECK(json != NULL, "%s: %s", text, where.text);
    return json;
}

static void add(ms_grid *grid, const char *text)
{
    ms_error e    = { "" };
    json_t  *json = parse(text);
    CHECK_OK_ERR(&e, ms_grid_add(&e, "g.json", json, grid));
    json_decref(json);
}

static ms_grid grid_of(const char *text)
{
    ms_grid grid = { 0 };
    add(&grid, text);
    return grid;
}

/* A field in which they differ, or NULL. */
static const char *differing(const ms_train_config *a, const ms_train_config *b)
{
    const char *field = NULL;
    ms_error    e     = { "" };
    CHECK_OK_ERR(&e, ms_grid_differs(&e, a, b, &field));
    return field;
}

/* A field of a run as text. */
static const char *get(const ms_grid *grid, size_t i, const char *field)
{
    static char text[4][MS_PATH_MAX]; /* one CHECK may use several */
    static int  next;
    char       *out = text[next++ % 4];
    CHECK(i < grid->n, "run %zu of %zu", i, grid->n);
    CHECK(ms_train_config_get(&grid->at[i].config, field, out, MS_PATH_MAX) == MUSEC_OK, "%s",
          field);
    return out;
}

/* "optimizer lr threshold" of every run, in order. */
static void expect(const ms_grid *grid, const char *const *want, size_t n)
{
    char line[256];
    CHECK(grid->n == n, "%zu runs, not %zu", grid->n, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(line, sizeof line, "%s %s %s", grid->at[i].config.optim.name, get(grid, i, "lr"),
                 get(grid, i, "threshold"));
        CHECK(strcmp(line, want[i]) == 0, "run %zu is '%s', not '%s'", i, line, want[i]);
    }
}

/* ---- combinations ---------------------------------------------------------------------------- */

TEST(lists_are_combined_the_last_fastest)
{
    static const char *const want[] = {
        "soft-musec 0.1 0.25", "soft-musec 0.1 1", "soft-musec 0.5 0.25", "soft-musec 0.5 1",
        "spectra 0.1 0.25",    "spectra 0.1 1",    "spectra 0.5 0.25",    "spectra 0.5 1",
    };
    ms_grid grid = grid_of("{'grids': [{'optimizer': ['soft-musec', 'spectra'],'lr': [0.1, "
                           "'0.50'], 'threshold': [0.25, 1]}]}");
    expect(&grid, want, COUNT(want));
    ms_grid_free(&grid);
}

TEST(options_that_an_optimizer_does_not_read_make_no_runs)
{
    static const char *const want[] = { "muon 0.1 0.25",       "muon 0.5 0.25",
                                        "soft-musec 0.1 0.25", "soft-musec 0.1 1",
                                        "soft-musec 0.5 0.25", "soft-musec 0.5 1" };
    ms_grid grid = grid_of("{'grids': [{'optimizer': ['muon', 'soft-musec'],'lr': [0.1, 0.5], "
                           "'threshold': [0.25, 1]}]}");
    ms_grid one  = grid_of("{'grids': [{'optimizer': 'muon', 'lr': 0.1,'threshold': 0.25}]}");
    char    text[256];
    expect(&grid, want, COUNT(want));
    CHECK(strcmp(grid.at[0].key, one.at[0].key) == 0 && one.n_duplicates == 0, "another key");
    CHECK(grid.n_duplicates == 1, "%zu", grid.n_duplicates);
    ms_grid_describe_duplicates(&grid.duplicates[0], text, sizeof text);
    CHECK(strcmp(text, "threshold has no effect on muon: 2 runs instead of 4") == 0, "%s", text);
    /* across grids, with several fields, in any spelling */
    add(&one, "{'grids': [{'optimizer': 'muon', 'lr': 0.1, 'threshold': ['0.250', "
              "2, 3],'literal': ['no', 'yes']}, {'optimizer': 'muon', 'lr': 0.1, "
              "'ns_iters': 4},{'optimizer': 'adamw', 'beta': [0.05, 0.1], 'beta2': "
              "[0.9, 0.99]}]}");
    CHECK(one.n == 4 && one.n_duplicates == 2, "%zu runs, %zu", one.n, one.n_duplicates);
    ms_grid_describe_duplicates(&one.duplicates[0], text, sizeof text);
    CHECK(strcmp(text, "threshold, literal have no effect on muon: 1 run instead of 6") == 0 ||
              strcmp(text, "literal, threshold have no effect on muon: 1 run instead of 6") == 0,
          "%s", text);
    ms_grid_describe_duplicates(&one.duplicates[1], text, sizeof text);
    CHECK(strcmp(text, "beta has no effect on adamw: 2 runs instead of 4") == 0, "%s", text);
    ms_grid_free(&grid);
    ms_grid_free(&one);
}

/* It replaces all values of the field, in any place and under either spelling. */
TEST(a_field_set_by_the_user_replaces_all_its_values)
{
    json_t  *json  = parse("{'preset': 'nano', 'set': {'weight-decay': 1}, 'grids': [{'lr': "
                             "[0.1, 0.2], 'weight_decay': [0.3, 0.6]},{'rows': [{'lr': 0.5, "
                             "'weight_decay': 0.3}, {'lr': 0.6}]}]}");
    json_t  *odd   = parse("{'set': 3, 'grids': [1, {'rows': 2}]}");
    json_t  *plain = parse("{'grids': [{'lr': 0.1}]}");
    ms_grid  grid  = { 0 };
    ms_error e     = { "" };
    CHECK_OK_ERR(&e, ms_grid_set(&e, json, "weight_decay", "1.2"));
    CHECK_OK_ERR(&e, ms_grid_set(&e, json, "preset", "pico"));
    CHECK_OK_ERR(&e, ms_grid_add(&e, "g.json", json, &grid));
    CHECK(grid.n == 4, "%zu runs", grid.n);
    for (size_t i = 0; i < grid.n; i++) {
        CHECK(strcmp(ms_preset_name((size_t)grid.at[i].config.preset, NULL), "pico") == 0,
              "run %zu", i);
        CHECK(strstr(get(&grid, i, "weight-decay"), "qk=1.2,vo=1.2,mlp=1.2") != NULL, "run %zu: %s",
              i, get(&grid, i, "weight-decay"));
    }
    CHECK_OK_ERR(&e, ms_grid_set(&e, plain, "steps", "7"));
    CHECK(json_object_get(plain, "set") != NULL, "a new set");
    CHECK_FAILS(&e, ms_grid_set(&e, plain, "data", "\xff"), MUSEC_EINVAL, "UTF-8");
    CHECK_OK_ERR(&e, ms_grid_set(&e, odd, "lr", "1")); /* another shape stays as it is */
    json_decref(json);
    json_decref(odd);
    json_decref(plain);
    ms_grid_free(&grid);
}

TEST(rows_are_crossed_with_lists)
{
    ms_grid grid = grid_of("{'set': {'beta': 0.25}, 'grids': [{'seed': [3, 4],'rows': "
                           "[{'optimizer': 'muon', 'lr': 0.02},           {'optimizer': "
                           "'spectra', 'lr': 0.5, 'beta': 0.1},           {}]}]}");
    CHECK(grid.n == 6, "%zu runs", grid.n);
    for (size_t i = 0; i < 6; i++) {
        static const char *const optimizer[] = { "muon", "spectra", "soft-musec" };
        static const char *const lr[]        = { "0.02", "0.5", "0.2" }; /* 0.2 is the preset's */
        CHECK(strcmp(get(&grid, i, "seed"), i < 3 ? "3" : "4") == 0, "seed of run %zu", i);
        CHECK(strcmp(grid.at[i].config.optim.name, optimizer[i % 3]) == 0, "optimizer %zu", i);
        CHECK(strcmp(get(&grid, i, "lr"), lr[i % 3]) == 0, "lr of run %zu", i);
        CHECK(strcmp(get(&grid, i, "beta"), i % 3 == 1 ? "0.1" : "0.25") == 0,
              "the beta of the row replaces that of the set: %s", get(&grid, i, "beta"));
    }
    ms_grid_free(&grid);
}

TEST(presets_may_vary_and_values_may_be_numbers_texts_or_booleans)
{
    ms_grid grid = grid_of("{'preset': 'nano', 'set': {'qk-norm': false, 'tied': true},'grids': "
                           "[{}, {'preset': ['pico', 'nano'], 'lr': 1e-3, 'weight_decay': "
                           "'qk=1.2,mlp=0.3'}]}");
    CHECK(grid.n == 3, "%zu runs", grid.n);
    CHECK(strcmp(get(&grid, 0, "layers"), "4") == 0 && strcmp(get(&grid, 1, "layers"), "2") == 0 &&
              strcmp(get(&grid, 2, "layers"), "4") == 0,
          "presets");
    for (size_t i = 0; i < 3; i++)
        CHECK(strcmp(get(&grid, i, "qk-norm"), "no") == 0 &&
                  strcmp(get(&grid, i, "tied"), "yes") == 0,
              "run %zu", i);
    CHECK(strcmp(get(&grid, 1, "lr"), "0.001") == 0, "%s", get(&grid, 1, "lr"));
    CHECK(grid.at[1].config.optim.weight_decay[MUSEC_ROLE_QK] == 1.2, "decay");
    ms_grid_free(&grid);
}

/* This is what musec train does, too. */
TEST(a_short_run_has_no_extension_and_a_batch_no_stages)
{
    ms_grid grid = grid_of("{'preset': 'small', 'grids': [{'steps': [5, 1390]},{'batch': 65536},"
                           " {'batch': 65536, 'stages': 'rest lr=2'}]}");
    CHECK(strcmp(get(&grid, 0, "extension"), "0") == 0, "of 5 steps");
    CHECK(strcmp(get(&grid, 1, "extension"), "10") == 0, "of 1390 steps");
    CHECK(strlen(get(&grid, 1, "stages")) > 50, "the preset's");
    CHECK(strcmp(get(&grid, 2, "stages"), "") == 0, "with a batch");
    CHECK(strcmp(get(&grid, 3, "stages"), "rest lr=2") == 0, "both given");
    ms_grid_free(&grid);
}

TEST(equal_runs_are_one_run)
{
    ms_grid grid = grid_of("{'grids': [{'lr': [0.1, '0.10', 1e-1, 0.2]},{'lr': 0.2, "
                           "'optimizer': 'soft-musec'}]}");
    char    first[MS_GRID_NAME];
    CHECK(grid.n == 2, "%zu runs", grid.n);
    snprintf(first, sizeof first, "%s", grid.at[0].name);
    add(&grid, "{'grids': [{'lr': [0.2, 0.3, 0.1]}]}");
    CHECK(grid.n == 3, "%zu runs", grid.n);
    CHECK(strcmp(grid.at[0].name, first) == 0, "the first run changed its place");
    ms_grid_free(&grid);
    CHECK(grid.at == NULL && grid.n == 0, "free");
}

TEST(a_thousand_runs_are_kept_apart)
{
    char    text[12000] = "{'grids': [{'seed': [0";
    size_t  n           = strlen(text);
    ms_grid grid        = { 0 };
    for (int i = 1; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ",%d", i);
    snprintf(text + n, sizeof text - n, "]}]}");
    add(&grid, text);
    CHECK(grid.n == 1000, "%zu runs", grid.n);
    add(&grid, text);
    CHECK(grid.n == 1000, "%zu runs after the second time", grid.n);
    for (size_t i = 0; i < grid.n; i++)
        CHECK(grid.at[i].config.seed == i, "run %zu", i);
    ms_grid_free(&grid);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void key_of(const ms_train_config *cfg, char key[MS_SHA256_HEX])
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_grid_key(&e, cfg, key));
}

TEST(keys_do_not_depend_on_order_and_spelling_of_fields)
{
    ms_grid a = grid_of("{'set': {'steps': 9, 'width': 64}, 'grids': [{'lr': 0.3}]}");
    ms_grid b = grid_of("{'preset': 'pico', 'grids': [{'width': '64', 'lr': [0.30],"
                        "'optimizer': 'soft-musec', 'steps': [9], 'keep': 7,"
                        "'checkpoint-every': 3, 'device': 'cpu'}]}");
    CHECK(strlen(a.at[0].key) == 64 && strcmp(a.at[0].key, b.at[0].key) == 0, "%s and %s",
          a.at[0].key, b.at[0].key);
    CHECK(strcmp(a.at[0].name, b.at[0].name) == 0, "%s", b.at[0].name);
    CHECK(strncmp(a.at[0].name, "pico-soft-musec-lr0.3-s0-", 25) == 0 &&
              strncmp(a.at[0].name + 25, a.at[0].key, 12) == 0 && strlen(a.at[0].name) == 37,
          "%s", a.at[0].name);
    CHECK(differing(&a.at[0].config, &b.at[0].config) == NULL, "differs");
    ms_grid_free(&a);
    ms_grid_free(&b);
}

TEST(every_field_that_is_not_exempt_changes_the_key)
{
    const ms_train_config start = train_config("pico", "spectra", NULL);
    ms_train_field        f;
    char                  before[MS_SHA256_HEX], after[MS_SHA256_HEX];
    size_t                n = 0, n_exempt = 0;
    key_of(&start, before);
    for (; ms_train_field_at(n, &f); n++) {
        ms_train_config cfg    = start;
        const bool      exempt = (f.flags & MS_FIELD_NOT_KEYED) != 0;
        CHECK(train_change(&cfg, &f), "no other value for %s", f.name);
        key_of(&cfg, after);
        CHECK((strcmp(before, after) == 0) == exempt, "%s: %s", f.name, after);
        CHECK((differing(&start, &cfg) == NULL) == exempt, "%s", f.name);
        n_exempt += exempt;
    }
    CHECK(n > 90 && n_exempt == 8, "%zu fields, %zu not in the key", n, n_exempt);
}

/* The key is of a version without the field precision. */
TEST(keys_of_older_versions_are_the_same)
{
    const ms_train_config cfg = train_config("pico", "muon", "");
    char                  key[MS_SHA256_HEX];
    key_of(&cfg, key);
    CHECK(strcmp(key, "c1be87693575f133d9364ce2dc87d00c0a7eb6866acc45ed7a57ef11e656b8c7") == 0,
          "%s", key);
    const ms_train_config renamed = train_config("pico", "muon", "shape_rule=normuon");
    key_of(&renamed, key);
    CHECK(renamed.optim.shape_rule == MUSEC_SHAPE_FIXED_RMS, "%d", (int)renamed.optim.shape_rule);
    CHECK(strncmp(key, "991c7deb75d4", 12) == 0, "%s", key);
}

/* Some values count as equal, because runs of older versions have them. */
TEST(configs_differ_exactly_if_their_keys_do)
{
    static const struct {
        const char *mode, *field, *value;
        bool        same;
    } cases[] = {
        { "paper", "workspace", "1073741824", true },    { "paper", "ns_tol", "0.001", true },
        { "accurate", "ns_tol", "0.001", false },        { "paper", "workspace", "1000000", false },
        { "accurate", "workspace", "1073741824", true }, { "paper", "ns_tol", "0.002", false },
        { "paper", "precision", "f32", false },          { "paper", "operands", "f32", false },
        { "paper", "momentum_dtype", "bf16", false },    { "paper", "keep", "9", true },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_train_config a = train_config("pico", "soft-musec", NULL), b;
        char            key[2][MS_SHA256_HEX];
        train_set(&a, "ns_mode", cases[i].mode);
        b = a;
        train_set(&b, cases[i].field, cases[i].value);
        key_of(&a, key[0]);
        key_of(&b, key[1]);
        const char *field = differing(&a, &b);
        CHECK((strcmp(key[0], key[1]) == 0) == cases[i].same, "case %zu: the key", i);
        CHECK((field == NULL) == cases[i].same, "case %zu: %s", i, field == NULL ? "none" : field);
        CHECK(field == NULL || ms_train_field_same(field, cases[i].field), "case %zu: %s", i,
              field);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse(const char *text, const char *says, const char *also)
{
    ms_grid      grid = { 0 };
    ms_error     e    = { "" };
    json_t      *json = parse(text);
    musec_status st   = ms_grid_add(&e, "g.json", json, &grid);
    CHECK(st == MUSEC_EINVAL || st == MUSEC_EFORMAT, "%s: %s", text, musec_status_name(st));
    CHECK(strncmp(e.text, "g.json: ", 8) == 0, "%s: %s", text, e.text);
    CHECK(strstr(e.text, says) != NULL && strstr(e.text, also) != NULL, "%s: %s", text, e.text);
    json_decref(json);
    ms_grid_free(&grid);
}

TEST(mistakes_in_a_description_are_named)
{
    static const struct {
        const char *text, *says, *also;
    } bad[] = {
        { "{'grids': [{}, {'optimizer': 'moun'}]}", "grid 2: there is no optimizer \"moun\"",
          "\"muon\"" },
        { "{'grids': [{'optimizer': ['muon', 'soft_muse']}]}", "soft_muse", "\"soft-musec\"" },
        { "{'grids': [{'preset': 'huge'}]}", "no preset \"huge\"", "pico" },
        { "{'preset': 3, 'grids': [{}]}", "preset must be a text", "" },
        { "{'grids': [{'optimizer': 3}]}", "optimizer must be a text", "" },
        { "{'grids': [{'treshold': 1}]}", "no field \"treshold\"", "\"threshold\"" },
        { "{'grids': [{'optimzer': 'muon'}]}", "no field \"optimzer\"", "\"optimizer\"" },
        { "{'grids': [{'rows': [{'lr': 1}, {'betta': 1}]}]}", "betta", "\"beta\"" },
        { "{'set': {'widht': 1}, 'grids': [{}]}", "widht", "\"width\"" },
        { "{'grids': [{'lr': [0.1, 'fast']}]}", "grid 1: lr", "fast" },
        { "{'grids': [{'lr': [0.1, -1]}]}", "lr", "-1" },
        { "{'grids': [{'steps': 1.5}]}", "steps", "1.5" },
        { "{'grids': [{'lr': null}]}", "lr must be", "" },
        { "{'grids': [{'lr': [[0.1]]}]}", "lr must be", "" },
        { "{'grids': [{'lr': {'a': 1}}]}", "lr must be", "" },
        { "{'set': {'lr': [1]}, 'grids': [{}]}", "lr must be", "" },
        { "{'grids': [{'lr': []}]}", "lr is an empty list", "" },
        { "{'grids': [{'rows': []}]}", "rows is an empty list", "" },
        { "{'grids': [{'rows': {'lr': 1}}]}", "rows must be a list", "" },
        { "{'grids': [{'rows': [1]}]}", "row 1 must be an object", "" },
        { "{'grids': [{'lr': 1, 'rows': [{}, {'lr': 1}]}]}", "lr is both in a row", "" },
        { "{'grids': [{'lr_qk': 1, 'lr-qk': 2}]}", "lr-qk is given twice", "" },
        { "{'grids': [{'vocab': 3}]}", "grid 1: vocab is 3", "" },
        { "{'grids': [{'stages': 'nonsense'}]}", "stages", "" },
        { "{'grids': [3]}", "grid 1: it must be an object", "" },
        { "{'grids': {}}", "\"grids\" must be a list", "" },
        { "{'grids': []}", "\"grids\" must be a list", "" },
        { "{'preset': 'pico'}", "\"grids\" must be a list", "" },
        { "{'gridz': [{}]}", "gridz", "\"grids\"" },
        { "{'set': [], 'grids': [{}]}", "\"set\" must be an object", "" },
        { "[]", "must be an object", "" },
        { "3", "must be an object", "" },
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        refuse(bad[i].text, bad[i].says, bad[i].also);
}

/* There are 1000^k combinations, which is beyond the bound, and for large k beyond a size_t. */
TEST(too_many_combinations_are_refused)
{
    static const char *const fields[] = { "seed",      "steps",      "batch",  "max_doc",
                                          "val_every", "val_tokens", "layers", "width",
                                          "heads",     "lr",         "aux_lr", "beta" };
    for (size_t k = 2; k <= COUNT(fields); k += 5) {
        ms_grid  grid = { 0 };
        ms_error e    = { "" };
        json_t  *list = json_array(), *one = json_object();
        json_t  *whole = json_pack("{s:[o]}", "grids", one);
        for (int i = 0; i < 1000; i++)
            json_array_append_new(list, json_integer(i));
        for (size_t i = 0; i < k; i++)
            json_object_set(one, fields[i], list);
        CHECK_FAILS(&e, ms_grid_add(&e, "g.json", whole, &grid), MUSEC_EINVAL,
                    "grid 1: more than 20000 runs");
        CHECK(grid.n == 0 && grid.at == NULL, "runs were made");
        json_decref(list);
        json_decref(whole);
    }
}
