/* cmd_paper.c - musec paper: a figure or table of the paper, from nothing to its page.
 *
 * An item is defined by experiments/ITEM.json (experiment/experiment.h).  The command makes the
 * runs of the item that are missing and draws its page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/settings.h"
#include "core/json_file.h"
#include "core/text.h"
#include "experiment/paper.h"
#include "report/png.h"

enum { MAX_SEEDS = 1000, DETAILS = 4096, WIDTH = 88 };

#define ARG(field) offsetof(ms_paper_args, field)

static const ms_option options[] = {
    { "scale", MS_OPT_STR, ARG(scale), "SCALE",
      "size of the models and runs: pico, nano, mini, midi, brief, small, medium or wide [pico]" },
    { "data", MS_OPT_LIST, ARG(data), "PATH",
      "train on this, as in musec train; if repeated, each is a panel of its own [builtin]" },
    { "seeds", MS_OPT_STR, ARG(seeds), "N[,N...]",
      "number of seeds per setting, one number for each --data, the last for the rest [1; theory: "
      "5, with --quick 2, with --full 10; race: 3, of the best settings]" },
    { "full", MS_OPT_FLAG, ARG(full), NULL, "run the full grid instead of a reduced one" },
    { "quick", MS_OPT_FLAG, ARG(quick), NULL, "theory: few steps and two seeds, takes seconds" },
    { "only", MS_OPT_LIST, ARG(only), "FIELD=LIST",
      "of the item's runs, those with these values of a field; may be repeated [all]" },
    { "list", MS_OPT_LIST, ARG(list), "NAME=LIST",
      "these values in place of a list of experiments/scales.json, such as "
      "threshold=0.01,0.05,0.25; may be repeated [none]" },
    { "set", MS_OPT_LIST, ARG(set), "FIELD=VALUE",
      "set a field in every run, whatever the item says; may be repeated [none]" },
    { "out", MS_OPT_STR, ARG(out), "DIR",
      "directory for the pages and for the runs of all items [runs/paper]" },
    MS_CLI_BUDGET(ms_paper_args),
    { "device", MS_OPT_STR, ARG(device), "LIST",
      "devices that share the runs, as musec info lists them [the best one here]" },
    { "png", MS_OPT_STR, ARG(png), "DIR", "also write each figure as a PNG file there [no]" },
    { "csv", MS_OPT_STR, ARG(csv), "DIR",
      "also write the numbers of each figure and table there [no]" },
    { "within", MS_OPT_F64, ARG(within), "X",
      "stability: a rate is usable if its loss is at most this share above the best [0.02]" },
    { "target", MS_OPT_F64, ARG(target), "L",
      "race: the validation loss to reach, by which settings are chosen [1 % above Muon's best "
      "loss]" },
    { "omit-times", MS_OPT_FLAG, ARG(omit_times), NULL,
      "leave out times and dates, which differ when the same runs are made again" },
    { "no-run", MS_OPT_FLAG, ARG(no_run), NULL,
      "make no runs, only show those that are there; list: do not measure the machine" },
    { "dry-run", MS_OPT_FLAG, ARG(dry_run), NULL,
      "print the runs and their state, and start none" },
    { "recalibrate", MS_OPT_FLAG, ARG(recalibrate), NULL,
      "list: measure this machine again, even if it was measured before" },
    MS_CLI_JSON(ms_paper_args),
};

static const ms_option_group groups[] = {
    { "What to run", "scale" },
    { "How to run it", "out" },
    { "The page", "png" },
    { "Listing and output", "no-run" },
};

static const char details[] =
    "  list     all items with their runs, the time they take here and the data they need;\n"
    "           measures the machine for some seconds (pico) or minutes (the others) first\n"
    "  verdict  the paper's claims, and what the runs of all items say of them\n\n"
    "Runs are kept in OUT/runs and shared by all items: one that is finished, diverged or\n"
    "not, is not made again, one that was interrupted goes on.  So the same command, given\n"
    "again, makes what is missing.  The page is OUT/ITEM-SCALE.html.\n\n"
    "Examples: musec paper lr-sweep\n"
    "          musec paper fig11 --scale nano --data book.txt --full\n"
    "          musec paper verdict --data one.txt --data other.txt --seeds 2,1\n";

/* "ITEM is list or one of ...", in lines of at most WIDTH characters, and what follows. */
static void write_details(char text[DETAILS])
{
    ms_experiments all = { 0 };
    ms_error       ignored;
    char           item[128];
    size_t         used = (size_t)snprintf(text, DETAILS, "ITEM is list or one of"), line = used;

    (void)ms_experiments_load(&ignored, &all);
    for (size_t i = 0; i < all.n && used < DETAILS; i++) {
        ms_experiment_names(&all.at[i], item, sizeof item);
        const size_t n    = strlen(item) + 2;
        const bool   fits = line + n <= WIDTH;
        used += (size_t)snprintf(text + used, DETAILS - used, "%s%s%s", fits ? " " : "\n", item,
                                 i + 1 < all.n ? "," : ":\n");
        line = fits ? line + n : n - 1;
    }
    ms_experiments_free(&all);
    if (used < DETAILS) snprintf(text + used, DETAILS - used, "%s", details);
}

const ms_command *paper_command(void)
{
    static char             text[DETAILS];
    static const ms_command command = {
        .name         = "musec paper",
        .operands     = "ITEM",
        .summary      = "reproduce a figure or table of the paper: make its runs and its page",
        .details      = text,
        .groups       = groups,
        .n_groups     = COUNT(groups),
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    if (text[0] == '\0') write_details(text);
    return &command;
}

/* ---- what was asked for ---------------------------------------------------------------------- */

/* Whether the text is NULL, or whole numbers with commas between; read_seeds checks their range. */
static bool are_numbers(const char *text)
{
    while (text != NULL) {
        text += text[0] == '-';
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || (text[digits] != ',' && text[digits] != '\0')) return false;
        text = text[digits] == ',' ? text + digits + 1 : NULL;
    }
    return true;
}

static musec_status read_seeds(ms_error *e, const char *text, ms_paper *p)
{
    const char *at = text;
    char       *end;

    if (text == NULL) return MUSEC_OK;
    for (;; at = end + 1) {
        const long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > MAX_SEEDS || (*end != ',' && *end != '\0') ||
            p->ask.n_seeds == COUNT(p->seeds))
            return ms_fail(e, MUSEC_EINVAL,
                           "--seeds is \"%s\"; it must be numbers from 1 to %d, such as 2,1,1",
                           text, MAX_SEEDS);
        p->seeds[p->ask.n_seeds++] = (unsigned)n;
        if (*end == '\0') return MUSEC_OK;
    }
}

/* A number where the text is one. */
static json_t *value_of(const char *text)
{
    char        *end;
    const double x = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(x) ? json_real(x) : json_string(text);
}

/* NAME=LIST of --only or --list, as members of an object. */
static musec_status read_lists(ms_error *e, const char *flag, const ms_option_list *items,
                               json_t **out)
{
    char         name[MS_OPTION_NAME];
    json_t      *texts = NULL;
    musec_status st    = MUSEC_OK;

    *out = json_object();
    for (size_t i = 0; i < items->n && st == MUSEC_OK; i++) {
        const char *text = ms_option_pair(items->item[i], name);
        json_t     *list = json_array();
        st               = text == NULL ? MUSEC_EINVAL : ms_settings_list_of(e, text, &texts);
        for (size_t k = 0; k < json_array_size(texts); k++)
            ms_json_append(&list, value_of(json_string_value(json_array_get(texts, k))));
        json_decref(texts);
        texts = NULL;
        for (char *c = name; *c != '\0'; c++)
            if (*c == '-') *c = '_'; /* as the files have it */
        if (st == MUSEC_EINVAL)
            (void)ms_fail(e, st, "--%s wants NAME=VALUE,VALUE,..., not '%s'", flag, items->item[i]);
        else if (st == MUSEC_OK && json_object_get(*out, name) != NULL)
            st = ms_fail(e, MUSEC_EINVAL, "--%s names %s twice: give one list, %s=VALUE,VALUE,...",
                         flag, name, name);
        ms_json_set(out, name, list);
    }
    if (st == MUSEC_OK && *out == NULL) st = ms_no_memory(e, "the lists");
    return st;
}

/* A field that is not there, or a list that no item asks for, would be ignored. */
static musec_status check_lists(ms_error *e, const ms_paper *p)
{
    const json_t  *known = json_object_get(json_object_get(p->all.files, "scales"), "reduced");
    const char    *name, *other;
    char           names[512] = "";
    json_t        *value;
    ms_train_field f;

    json_object_foreach((json_t *)known, other, value)
    {
        ms_text_append(names, sizeof names, "%s%s", names[0] != '\0' ? ", " : "", other);
    }
    json_object_foreach(p->lists, name, value)
    {
        if (json_object_get(known, name) == NULL)
            return ms_fail(e, MUSEC_EINVAL, "--list: there is no list \"%s\"; there are %s", name,
                           names);
    }
    json_object_foreach(p->only, name, value)
    {
        bool found = strcmp(name, "optimizer") == 0;
        for (size_t i = 0; !found && ms_train_field_at(i, &f); i++)
            found = ms_train_field_same(f.name, name);
        if (!found) return ms_fail(e, MUSEC_EINVAL, "--only: there is no field \"%s\"", name);
    }
    return MUSEC_OK;
}

static musec_status read_args(ms_error *e, const ms_paper_args *a, ms_paper *p)
{
    musec_status st;

    *p = (ms_paper){ .args = a, .log = ms_log_open(stderr, MS_LOG_NORMAL), .to = stdout };
    if (!(a->within >= 0.0 && a->within <= 1.0))
        return ms_fail(e, MUSEC_EINVAL, "--within is %g; it must be a share from 0 to 1",
                       a->within);
    if (!(a->target >= 0.0 && isfinite(a->target)))
        return ms_fail(e, MUSEC_EINVAL, "--target is %g; it must be a loss above 0", a->target);
    TRY(ms_experiments_load(e, &p->all));
    TRY(ms_experiment_scale(e, &p->all, a->scale, &p->scale));
    TRY(read_lists(e, "only", &a->only, &p->only));
    TRY(read_lists(e, "list", &a->list, &p->lists));
    TRY(check_lists(e, p));
    p->ask = (ms_experiment_ask){ .scale  = a->scale,
                                  .only   = p->only,
                                  .lists  = p->lists,
                                  .full   = a->full != 0,
                                  .data   = a->data.item,
                                  .n_data = a->data.n,
                                  .seeds  = p->seeds,
                                  .set    = a->set.item,
                                  .n_set  = a->set.n };
    TRY(read_seeds(e, a->seeds, p));
    TRY(ms_path_join(e, a->out, "runs", p->store));
    TRY(ms_device_list_read(e, a->device, &p->devices));
    p->sweep = (ms_sweep){ .out       = p->store,
                           .devices   = p->devices.n > 0 ? p->devices.name : NULL,
                           .n_devices = p->devices.n,
                           .known     = json_object(),
                           .log       = &p->log };
    TRY(ms_sweep_budget(e, a->jobs, a->threads, a->time_limit, &p->sweep));
done:
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Rejects options that do not apply to the item. */
static musec_status check_args(ms_error *e, const ms_paper *p, const char *item)
{
    const bool theory = strcmp(item, "theory") == 0;

    if (p->args->quick && !theory)
        return ms_fail(e, MUSEC_EINVAL, "--quick is for theory alone, not for %s", item);
    if (p->args->target > 0.0 && strcmp(item, "race") != 0)
        return ms_fail(e, MUSEC_EINVAL, "--target is for race alone, not for %s", item);
    if (theory && p->ask.n_set > 0)
        return ms_fail(e, MUSEC_EINVAL,
                       "--set is for trainings, and theory has none: see musec theory run --set");
    if (theory && p->ask.n_seeds > 1)
        return ms_fail(e, MUSEC_EINVAL,
                       "--seeds is \"%s\"; theory has no sets of data and takes one number",
                       p->args->seeds);
    return MUSEC_OK;
}

static musec_status make_item(ms_error *e, ms_paper *p, const char *name)
{
    const ms_experiment *found;
    ms_paper_item        item   = { 0 };
    json_t              *result = json_object();
    musec_status         st;

    TRY(ms_experiment_find(e, &p->all, name, &found));
    TRY(check_args(e, p, found->name));
    p->ask.only_differing = true;
    TRY(ms_paper_scan(e, p, found, &item));
    if (item.grid.n == 0 && json_object_size(p->only) > 0 &&
        json_array_size(json_object_get(found->file, "grids")) > 0)
        TRY(ms_fail(e, MUSEC_EINVAL, "--only leaves none of the runs of %s", found->name));
    if (strcmp(found->name, "theory") == 0) {
        TRY(ms_paper_theory_runs(e, p, found));
        if (p->args->dry_run) goto done;
    }
    if (p->args->dry_run) {
        TRY(ms_paper_print_runs(e, p, &item));
        goto done;
    }
    if (p->args->png != NULL) TRY(ms_png_ready(e)); /* before hours of work, not after */
    TRY(ms_paper_make_runs(e, p, &item));
    ms_json_add(&result, "item=%s scale=%s", found->name, p->ask.scale);
    TRY(ms_paper_page(e, p, &item, &result));
    ms_json_set(&result, "runs", ms_sweep_json(&item.sweep, item.runs));
    if (p->args->json) TRY(ms_json_print(e, result, stdout));
done:
    json_decref(result);
    ms_paper_item_free(&item);
    return st;
}

static int check_usage(const ms_command *cmd, const ms_paper_args *a)
{
    char field[MS_OPTION_NAME];

    for (size_t i = 0; i < a->set.n; i++) {
        const char *item = a->set.item[i];
        if (ms_option_pair(item, field) == NULL)
            return ms_cli_usage(cmd, "--set wants FIELD=VALUE, not '%s'", item);
        if (a->seeds != NULL && ms_train_field_same(field, "seed"))
            return ms_cli_usage(cmd, "--seeds and --set %s give the same field", item);
        if (a->data.n > 0 && ms_train_field_same(field, "data"))
            return ms_cli_usage(cmd, "--data and --set %s give the same field", item);
    }
    if (a->quick && a->full) return ms_cli_usage(cmd, "--quick and --full: give one of them");
    if (!are_numbers(a->seeds))
        return ms_cli_usage(cmd, "--seeds wants numbers such as 2,1,1, not '%s'", a->seeds);
    return EXIT_OK;
}

int cmd_paper(int argc, char **argv)
{
    const ms_command *cmd = paper_command();
    ms_paper_args     a   = { .scale = "pico", .out = "runs/paper", .threads = 1, .within = 0.02 };
    const int         n   = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    ms_paper          p     = { 0 };
    bool              is_list;
    musec_status      st;

    if (n < 0) return ms_cli_parsed(n);
    if (check_usage(cmd, &a) != EXIT_OK) return EXIT_USAGE;
    st      = read_args(&error, &a, &p);
    is_list = strcmp(argv[1], "list") == 0;
    if (st == MUSEC_OK && is_list) st = check_args(&error, &p, "list");
    if (st == MUSEC_OK) st = is_list ? ms_paper_list(&error, &p) : make_item(&error, &p, argv[1]);
    ms_log_end(&p.log);
    json_decref(p.only);
    json_decref(p.lists);
    json_decref(p.sweep.known);
    ms_device_list_free(&p.devices);
    ms_experiments_free(&p.all);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
