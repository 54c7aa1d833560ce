/* cmd_sweep.c - musec sweep: a grid of runs.
 *
 * Flags and the file become one description (train/grid.h), which is also what OUT/sweep.json
 * keeps: given back to musec sweep, it is the same sweep.  A flag replaces all values that the file
 * has for its field. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/settings.h"
#include "core/json_file.h"
#include "experiment/best_of.h"
#include "experiment/device_list.h"
#include "experiment/sweep.h"

struct args {
    const char    *preset, *optimizer, *lr, *threshold, *weight_decay, *ns_iters, *seed;
    ms_option_list grid, set, data;
    const char    *out, *device, *best_of, *times;
    int64_t        jobs, threads;
    double         time_limit;
    int            keep_checkpoints, no_checkpoints, dry_run, json;
};

static const ms_option options[] = {
    { "preset", MS_OPT_STR, AT(preset), "LIST", "presets to start from [pico]" },
    { "optimizer", MS_OPT_STR, AT(optimizer), "LIST",
      "names of optimizers, as musec train --help lists them [soft-musec]" },
    { "lr", MS_OPT_STR, AT(lr), "LIST", "learning rates [the preset's]" },
    { "threshold", MS_OPT_STR, AT(threshold), "LIST", "thresholds of the clipping [the preset's]" },
    { "weight-decay", MS_OPT_STR, AT(weight_decay), "LIST",
      "weight decays, such as 0.1,0.3 or \"qk=1.2,mlp=0.3;0.6\" [the preset's]" },
    { "ns-iters", MS_OPT_STR, AT(ns_iters), "LIST", "numbers of Newton-Schulz steps [5]" },
    { "seed", MS_OPT_STR, AT(seed), "LIST", "seeds [0]" },
    { "best-of", MS_OPT_STR, AT(best_of), "DIR",
      "in place of GRID.json: the best setting of each method among the runs in DIR [none]" },
    { "times", MS_OPT_STR, AT(times), "LIST", "factors on its learning rate [1]" },
    { "grid", MS_OPT_LIST, AT(grid), "FIELD=LIST",
      "values of any other field, by its name in config.json; may be repeated [none]" },
    { "set", MS_OPT_LIST, AT(set), "FIELD=VALUE",
      "set a field in every run; may be repeated [none]" },
    { "data", MS_OPT_LIST, AT(data), "PATH",
      "train on this, as in musec train; if repeated, each is for runs of its own [builtin]" },
    { "out", MS_OPT_STR, AT(out), "DIR", "directory for the directories of the runs [runs/sweep]" },
    MS_CLI_BUDGET(struct args),
    { "device", MS_OPT_STR, AT(device), "LIST",
      "devices that share the runs, as musec info lists them [each run's own]" },
    { "keep-checkpoints", MS_OPT_FLAG, AT(keep_checkpoints), NULL,
      "keep the checkpoints of finished runs, which have none otherwise" },
    { "dry-run", MS_OPT_FLAG, AT(dry_run), NULL, "print the runs and their state, and start none" },
    MS_CLI_JSON(struct args),
};

static const ms_option_group groups[] = {
    { "What to run", "preset" },
    { "How to run it", "out" },
};

const ms_command *sweep_command(void)
{
    static const ms_command command = {
        .name     = "musec sweep",
        .operands = "[GRID.json]",
        .summary  = "train at every combination of settings, several runs at once",
        .details =
            "A LIST has its values parted by ';' where there is one, else by ','; one with '='\n"
            "and no ';' is one value.  All combinations of the lists are run.  GRID.json holds\n"
            "  {\"preset\": \"pico\", \"set\": {\"steps\": 120}, \"grids\": [\n"
            "    {\"optimizer\": [\"soft-musec\", \"spectra\"], \"lr\": [0.1, 0.5]},\n"
            "    {\"optimizer\": \"muon\", \"rows\": [{\"lr\": 0.02, \"beta\": 0.05},\n"
            "                                   {\"lr\": 0.05, \"beta\": 0.1}]}]}\n"
            "where the fields of a row go together.  What a flag says of a field stands in every\n"
            "grid of the file, in place of all that the file says of it.\n\n"
            "A run that is finished, diverged or not, is not made again, by whatever grid it is\n"
            "asked for; one that was interrupted goes on.  So the same command, given again,\n"
            "makes what is missing.  One that was made from other data than are there now under\n"
            "their name, or changed on its way, is refused.  OUT/sweep.json keeps the grid.  Exit\n"
            "status 0 also if runs stalled or diverged: the table says so.\n\n"
            "Examples: musec sweep --optimizer soft-musec,muon --lr 0.02,0.1,0.5 --seed 0,1 \\\n"
            "              --set steps=120 --out runs/lr\n"
            "          musec sweep --best-of runs/lr --times 1,5,25 --seed 0,1,2 --out runs/lr\n",
        .groups       = groups,
        .n_groups     = COUNT(groups),
        .options      = options,
        .n_options    = COUNT(options),
        .max_operands = 1,
    };
    return &command;
}

/* ---- flags to JSON --------------------------------------------------------------------------- */

/* Sets the values of a field in every grid, and releases them. */
static musec_status put_list(ms_error *e, json_t *description, const char *field, json_t *values)
{
    json_t      *grid;
    size_t       i;
    musec_status st = MUSEC_OK;

    ms_grid_remove_field(description, field);
    json_array_foreach(json_object_get(description, "grids"), i, grid)
    {
        if (json_is_object(grid)) TRY(ms_json_put(e, grid, field, json_incref(values)));
    }
done:
    json_decref(values);
    return st;
}

static musec_status list_of_items(ms_error *e, const ms_option_list *items, json_t **out)
{
    *out = json_array();
    for (size_t i = 0; i < items->n; i++) {
        if (!ms_text_is_utf8(items->item[i])) {
            json_decref(*out);
            *out = NULL;
            return ms_fail(e, MUSEC_EINVAL, "a name is not in UTF-8");
        }
        ms_json_append(out, json_string(items->item[i]));
    }
    return *out != NULL ? MUSEC_OK : ms_no_memory(e, "the grid");
}

/* The flags that are lists of a field's values. */
static const struct list_flag {
    const char *name, *field;
    size_t      offset; /* of a const char * in struct args; NULL: not given */
} list_flags[] = {
    { "preset", "preset", AT(preset) },
    { "optimizer", "optimizer", AT(optimizer) },
    { "lr", "lr", AT(lr) },
    { "threshold", "threshold", AT(threshold) },
    { "weight-decay", "weight_decay", AT(weight_decay) },
    { "ns-iters", "ns_iters", AT(ns_iters) },
    { "seed", "seed", AT(seed) },
};

static const char *list_text(const struct args *a, const struct list_flag *flag)
{
    return *(const char *const *)(const void *)((const char *)a + flag->offset);
}

/* The flag of its own by which `field` is given too, or NULL. */
static const char *own_flag(const struct args *a, const char *field)
{
    for (size_t i = 0; i < COUNT(list_flags); i++)
        if (list_text(a, &list_flags[i]) != NULL && ms_train_field_same(list_flags[i].field, field))
            return list_flags[i].name;
    if (a->data.n > 0 && ms_train_field_same("data", field)) return "data";
    return a->device != NULL && ms_train_field_same("device", field) ? "device" : NULL;
}

/* Rejects a field that two kinds of flags give, as neither may win.  An item that is no pair is
 * reported later. */
static int check_once(const ms_command *cmd, const struct args *a)
{
    char        field[MS_OPTION_NAME], other[MS_OPTION_NAME];
    const char *own;

    for (size_t i = 0; i < a->grid.n; i++)
        if (ms_option_pair(a->grid.item[i], field) != NULL && (own = own_flag(a, field)) != NULL)
            return ms_cli_usage(cmd, "--%s and --grid %s give the same field", own,
                                a->grid.item[i]);
    for (size_t i = 0; i < a->set.n; i++) {
        if (ms_option_pair(a->set.item[i], field) == NULL) continue;
        own = own_flag(a, field);
        if (own != NULL)
            return ms_cli_usage(cmd, "--%s and --set %s give the same field", own, a->set.item[i]);
        for (size_t k = 0; k < a->grid.n; k++)
            if (ms_option_pair(a->grid.item[k], other) != NULL && ms_train_field_same(other, field))
                return ms_cli_usage(cmd, "--grid %s and --set %s give the same field",
                                    a->grid.item[k], a->set.item[i]);
    }
    return EXIT_OK;
}

/* Checks that each value of the list can be read; the config checks its range. */
static int check_values(const ms_command *cmd, const struct list_flag *flag, const json_t *values)
{
    const bool      preset = strcmp(flag->field, "preset") == 0;
    const bool      name   = preset || strcmp(flag->field, "optimizer") == 0;
    ms_train_config unused;
    ms_train_field  f;

    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *value = json_string_value(json_array_get(values, i)), *want = NULL;
        ms_error    why = { "" };
        if (name && ms_train_config_init(&why, &unused, preset ? value : "pico",
                                         preset ? "soft-musec" : value) != MUSEC_OK)
            return ms_cli_usage(cmd, "--%s: %s", flag->name, why.text);
        for (size_t k = 0; ms_train_field_at(k, &f) && want == NULL; k++)
            if (ms_train_field_same(f.name, flag->field))
                want = ms_settings_unreadable(f.values, value);
        if (want != NULL)
            return ms_cli_usage(cmd, "--%s wants %s, not '%s'", flag->name, want, value);
    }
    return EXIT_OK;
}

static int add_list(const ms_command *cmd, const struct list_flag *flag, const char *text,
                    json_t *description)
{
    ms_error     error = { "" };
    json_t      *values;
    musec_status st = ms_settings_list_of(&error, text, &values);

    if (st == MUSEC_EINVAL)
        return ms_cli_usage(cmd, "--%s wants values with ',' or ';' between, not '%s'", flag->name,
                            text);
    if (st == MUSEC_OK && check_values(cmd, flag, values) != EXIT_OK) {
        json_decref(values);
        return EXIT_USAGE;
    }
    if (st == MUSEC_OK) st = put_list(&error, description, flag->field, values);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}

/* Adds the values of --grid, --set and --data; MUSEC_EINVAL: one of them cannot be read. */
static musec_status add_items(ms_error *e, const struct args *a, json_t *description)
{
    char         field[MS_OPTION_NAME];
    const char  *text;
    json_t      *values;
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < a->grid.n; i++) {
        text = ms_option_pair(a->grid.item[i], field);
        st   = text == NULL ? MUSEC_EINVAL : ms_settings_list_of(e, text, &values);
        if (st == MUSEC_OK) st = put_list(e, description, field, values);
        if (st == MUSEC_EINVAL)
            ms_error_set(e, "--grid wants FIELD=VALUE,VALUE,..., not '%s'", a->grid.item[i]);
        if (st != MUSEC_OK) goto done;
    }
    for (size_t i = 0; i < a->set.n; i++) {
        text = ms_option_pair(a->set.item[i], field);
        st   = text == NULL ? MUSEC_EINVAL : ms_grid_set(e, description, field, text);
        if (st == MUSEC_EINVAL)
            ms_error_set(e, "--set wants FIELD=VALUE, not '%s'", a->set.item[i]);
        if (st != MUSEC_OK) goto done;
    }
    if (a->data.n == 0) goto done;
    st = list_of_items(e, &a->data, &values);
    if (st == MUSEC_OK) st = put_list(e, description, "data", values);
    if (st == MUSEC_EINVAL) ms_error_set(e, "--data wants names in UTF-8, to go into config.json");
done:
    return st;
}

/* EXIT_OK, or another exit status after a message. */
static int add_flags(const ms_command *cmd, const struct args *a, json_t *description)
{
    ms_error     error = { "" };
    const char  *text;
    musec_status st;
    int          code = check_once(cmd, a);

    for (size_t i = 0; code == EXIT_OK && i < COUNT(list_flags); i++) {
        text = list_text(a, &list_flags[i]);
        if (text != NULL) code = add_list(cmd, &list_flags[i], text, description);
    }
    if (code != EXIT_OK) return code;
    st = add_items(&error, a, description);
    if (st == MUSEC_EINVAL) return ms_cli_usage(cmd, "%s", error.text);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}

static bool has_flags(const struct args *a)
{
    for (size_t i = 0; i < COUNT(list_flags); i++)
        if (list_text(a, &list_flags[i]) != NULL) return true;
    return a->grid.n > 0 || a->set.n > 0 || a->data.n > 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static musec_status run(ms_error *e, const struct args *a, const json_t *description,
                        const ms_sweep *s, ms_sweep_run *runs)
{
    char         path[MS_PATH_MAX];
    size_t       n[MS_SWEEP_STATES];
    ms_error     ignored;
    musec_status st;

    TRY(ms_sweep_scan(e, s, runs)); /* nothing is written beside runs that are not ours */
    if (a->dry_run) return ms_sweep_print(e, s, runs, a->json != 0, stdout);
    TRY(ms_sweep_try_data(e, s, runs));
    TRY(ms_directory_make(e, s->out));
    TRY(ms_path_join(e, s->out, "sweep.json", path));
    TRY(ms_json_write(e, path, description));
    st = ms_sweep_run_all(e, s, runs);
    ms_sweep_count(s, runs, n);
    if (st == MUSEC_OK)
        st = ms_sweep_print(e, s, runs, a->json != 0, stdout);
    else if (n[MS_SWEEP_FAILED] > 0)
        (void)ms_sweep_print(&ignored, s, runs, a->json != 0, stdout);
done:
    return st;
}

static musec_status sweep(ms_error *e, const struct args *a, const char *what,
                          const json_t *description)
{
    ms_log         log     = ms_log_open(stderr, MS_LOG_NORMAL);
    ms_grid        grid    = { 0 };
    ms_device_list devices = { 0 };
    ms_sweep_run  *runs    = NULL;
    ms_sweep       s       = { .grid = &grid, .out = a->out, .devices = devices.name };
    musec_status   st;

    s.known = json_object();
    s.log   = &log;
    TRY(ms_sweep_budget(e, a->jobs, a->threads, a->time_limit, &s));
    TRY(ms_grid_add(e, what, description, &grid));
    for (size_t i = 0; i < grid.n_duplicates; i++) {
        char text[256];
        ms_grid_describe_duplicates(&grid.duplicates[i], text, sizeof text);
        ms_log_say(&log, MS_LOG_NORMAL, "%s", text);
    }
    if (!a->keep_checkpoints)
        ms_sweep_checkpoints(&grid,
                             a->no_checkpoints ? MS_CHECKPOINTS_NONE : MS_CHECKPOINTS_UNFINISHED);
    TRY(ms_device_list_read(e, a->device, &devices));
    s.n_devices = devices.n;
    runs        = calloc(grid.n, sizeof *runs);
    if (runs == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu runs", grid.n));
    TRY(run(e, a, description, &s, runs));
done:
    free(runs);
    json_decref(s.known);
    ms_device_list_free(&devices);
    ms_grid_free(&grid);
    return st;
}

/* The grid of --best-of and --times. */
static musec_status read_best(ms_error *e, const struct args *a, json_t **description)
{
    ms_log       log   = ms_log_open(stderr, MS_LOG_NORMAL);
    json_t      *texts = NULL, *factors = json_array();
    musec_status st;

    st = ms_settings_list_of(e, a->times != NULL ? a->times : "1", &texts);
    if (st == MUSEC_EINVAL)
        ms_error_set(e, "--times wants values with ',' between, not '%s'", a->times);
    TRY(st);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char  *text = json_string_value(json_array_get(texts, i));
        char        *end;
        const double x = strtod(text, &end);
        if (*end != '\0' || !(x > 0.0 && x <= 1e6))
            TRY(ms_fail(e, MUSEC_EINVAL,
                        "--times is \"%s\"; it must be numbers above 0, such as "
                        "1,5,25",
                        a->times));
        ms_json_append(&factors, json_real(x));
    }
    TRY(ms_best_of(e, &log, a->best_of, factors, description));
done:
    json_decref(factors);
    json_decref(texts);
    return st;
}

int cmd_sweep(int argc, char **argv)
{
    const ms_command *cmd         = sweep_command();
    struct args       a           = { .out = "runs/sweep", .threads = 1 };
    const int         n           = ms_options_parse(cmd, &a, argc, argv);
    const char       *file        = n > 0 ? argv[1] : NULL;
    json_t           *description = NULL;
    ms_error          error       = { "" };
    musec_status      st          = MUSEC_OK;
    int               code;

    if (n < 0) return ms_cli_parsed(n);
    if (a.keep_checkpoints && a.no_checkpoints)
        return ms_cli_usage(cmd, "--keep-checkpoints and --no-checkpoints: give one of them");
    if (file == NULL && a.best_of == NULL && !has_flags(&a))
        return ms_cli_usage(cmd, "it wants GRID.json, or flags that make a grid");
    if (file != NULL && a.best_of != NULL)
        return ms_cli_usage(cmd, "GRID.json and --best-of: give one of them");
    if (a.times != NULL && a.best_of == NULL) return ms_cli_usage(cmd, "--times is for --best-of");
    if (a.best_of != NULL)
        st = read_best(&error, &a, &description);
    else if (file != NULL)
        st = ms_json_read(&error, file, &description);
    else
        description = json_pack("{s:[{}]}", "grids");
    if (st == MUSEC_OK && description == NULL) st = ms_no_memory(&error, "the grid");
    if (st != MUSEC_OK) return ms_cli_fail(cmd, &error);
    code = add_flags(cmd, &a, description);
    if (code == EXIT_OK) {
        st   = sweep(&error, &a, file, description);
        code = st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
    }
    json_decref(description);
    return code;
}
