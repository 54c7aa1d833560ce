/* cmd_demo.c - musec demo: a small learning-rate sweep that needs no data.
 *
 * Four optimizers at three learning rates each, one model, one data order, one seed.  QK-norm is
 * off: with it attention logits are bounded, and MuonClip would have nothing to clip.  Every
 * optimizer has the same three learning rates; those that clip at D step by about lr D, so the
 * table also shows how large the applied updates were.  Runs that are finished are not repeated. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/pool.h"
#include "cli/sweep.h"
#include "core/table.h"
#include "report/draw.h"
#include "report/sections.h"

enum { RATES = 3 };

struct args {
    const char *out;
    int64_t     steps, jobs;
    uint64_t    seed;
    int         json;
};

static const struct {
    const char *optimizer;
    const char *field, *value; /* of its own, or NULL */
} rows[] = {
    { "soft-musec", "threshold", "0.5" },
    { "spectra", "threshold", "0.5" },
    { "muonclip", "qk_tau", "30" },
    { "muon", NULL, NULL },
};

static const double rates[RATES] = { 0.02, 0.1, 0.5 };

static const ms_option options[] = {
    { "out", MS_OPT_STR, offsetof(struct args, out), "DIR", "where runs and page go [runs/demo]" },
    { "steps", MS_OPT_I64, offsetof(struct args, steps), "N", "steps of each run [200]" },
    { "jobs", MS_OPT_I64, offsetof(struct args, jobs), "N",
      "runs at once; 0: one per GPU or core [0]" },
    { "seed", MS_OPT_U64, offsetof(struct args, seed), "N", "of the starting weights [0]" },
    MS_CLI_JSON(struct args),
};

const ms_command *demo_command(void)
{
    static const ms_command command = {
        .name     = "musec demo",
        .operands = "",
        .summary  = "compare four optimizers at three learning rates, in about two minutes",
        .details =
            "Trains the preset pico, without QK-norm, on the built-in corpus with Soft Musec,\n"
            "SPECTRA, MuonClip and Muon, and prints what each loses from its best learning\n"
            "rate to the largest.  DIR/report.html has the plots, if gnuplot is installed.\n"
            "Interrupted, it goes on where it was.\n",
        .options   = options,
        .n_options = COUNT(options),
    };
    return &command;
}

/* ---- the runs -------------------------------------------------------------------------------- */

/* Run k RATES + i is that of rows[k] at rates[i]. */
static json_t *describe(const struct args *a)
{
    json_t *grids = json_array(), *grid, *lr;
    char    seed[24];

    snprintf(seed, sizeof seed, "%llu", (unsigned long long)a->seed);
    for (size_t k = 0; k < COUNT(rows); k++) {
        grid = json_pack("{s:s}", "optimizer", rows[k].optimizer);
        lr   = json_array();
        if (rows[k].field != NULL)
            json_object_set_new(grid, rows[k].field, json_string(rows[k].value));
        for (int i = 0; i < RATES; i++)
            json_array_append_new(lr, json_real(rates[i]));
        json_object_set_new(grid, "lr", lr);
        json_array_append_new(grids, grid);
    }
    return json_pack("{s:s, s:{s:s, s:I, s:s, s:I}, s:o}", "preset", "pico", "set", "qk_norm", "no",
                     "steps", (json_int_t)a->steps, "seed", seed, "report_every",
                     (json_int_t)(a->steps < 6 ? 1 : a->steps / 6), "grids", grids);
}

typedef struct demo_run {
    const ms_sweep_run *run;
    char                dir[MS_PATH_MAX];
    double              w_norm, u_norm, max_logit; /* at the end, and of the whole run */
} demo_run;

/* The largest of a figure over the groups of the last line that has them, and the largest logit. */
static void read_figures(const ms_runset *set, demo_run *r)
{
    r->w_norm = r->u_norm = r->max_logit = NAN;
    for (size_t i = 0; i < set->n; i++) {
        const ms_run      *run  = &set->at[i];
        const ms_run_line *last = ms_run_last_groups(run);
        if (strcmp(run->dir, r->dir) != 0) continue;
        for (size_t k = 0; k < run->n; k++)
            if (!(run->lines[k].max_logit <= r->max_logit)) r->max_logit = run->lines[k].max_logit;
        for (int g = 0; last != NULL && g < MS_RUN_GROUPS; g++) {
            if (!(last->groups[g].w_norm <= r->w_norm)) r->w_norm = last->groups[g].w_norm;
            if (!(last->groups[g].u_norm <= r->u_norm)) r->u_norm = last->groups[g].u_norm;
        }
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool has_failed(const demo_run *r)
{
    return r->run->state == MS_SWEEP_DIVERGED || r->run->state == MS_SWEEP_STALLED;
}

static void add_loss(ms_table *t, const demo_run *r)
{
    if (has_failed(r))
        ms_table_add(t, "%s", ms_sweep_word(r->run->state));
    else if (isfinite(r->run->val_loss))
        ms_table_add(t, "%.3f", r->run->val_loss);
    else
        ms_table_add(t, "-");
}

static double best_of(const demo_run *runs)
{
    double best = NAN;
    for (int i = 0; i < RATES; i++)
        if (runs[i].run->state == MS_SWEEP_DONE && !(best <= runs[i].run->val_loss))
            best = runs[i].run->val_loss;
    return best;
}

static musec_status print_table(ms_error *e, const demo_run *runs)
{
    ms_table     t = { .align = "lrrrrrrr" };
    musec_status st;

    ms_table_add(&t, "validation loss");
    for (int i = 0; i < RATES; i++)
        ms_table_add(&t, "lr %g", rates[i]);
    ms_table_add(&t, "lost");
    ms_table_add(&t, "|W|");
    ms_table_add(&t, "|step|/lr");
    ms_table_add(&t, "logit");
    for (size_t k = 0; k < COUNT(rows); k++) {
        const demo_run *mine = runs + k * RATES, *last = &mine[RATES - 1];
        ms_table_add(&t, "%s", ms_look_title(rows[k].optimizer));
        for (int i = 0; i < RATES; i++)
            add_loss(&t, &mine[i]);
        if (has_failed(last))
            ms_table_add(&t, "all");
        else
            ms_table_add(&t, "%+.3f", last->run->val_loss - best_of(mine));
        ms_table_add(&t, "%.3g", last->w_norm);
        ms_table_add(&t, "%.3g", last->u_norm);
        ms_table_add(&t, "%.3g", last->max_logit);
    }
    st = ms_table_print(e, &t, stdout);
    ms_table_free(&t);
    printf("\nlost: validation loss at the largest learning rate above the optimizer's best.\n"
           "There, at the end: |W| the largest spectral norm of a weight, |step|/lr of an update;\n"
           "logit the largest attention logit of the run.  Clipped updates are about lr D, D = "
           "0.5.\n");
    return st;
}

static musec_status print_json(ms_error *e, const demo_run *runs, size_t n)
{
    json_t      *all = json_array();
    musec_status st;
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_object();
        json_object_set_new(one, "optimizer", ms_cli_string(rows[i / RATES].optimizer));
        json_object_set_new(one, "lr", json_real(rates[i % RATES]));
        json_object_set_new(one, "dir", ms_cli_string(runs[i].dir));
        json_object_set_new(one, "status", ms_cli_string(ms_sweep_word(runs[i].run->state)));
        json_object_set_new(one, "val_loss", ms_cli_real(runs[i].run->val_loss));
        json_object_set_new(one, "w_norm", ms_cli_real(runs[i].w_norm));
        json_object_set_new(one, "u_norm", ms_cli_real(runs[i].u_norm));
        json_object_set_new(one, "max_logit", ms_cli_real(runs[i].max_logit));
        json_array_append_new(all, one);
    }
    st = ms_cli_print_json(e, all, stdout);
    json_decref(all);
    return st;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* OUT/report.html.  Without gnuplot there is none, and a line says why: the table stands alone. */
static musec_status write_page(ms_error *e, const struct args *a, ms_log *log, ms_runset *set)
{
    static const char lead[] =
        "Four optimizers, three learning rates, one small model without QK-norm, one seed.  The "
        "two methods that clip take steps of about lr D, D = 0.5: see the effective step.";
    const ms_report_options choice = { .within = 0.02 };
    char                    path[MS_PATH_MAX];
    ms_error                why     = { "" };
    ms_compare              compare = { 0 };
    ms_page                 page    = { 0 };
    musec_status            st;

    if (ms_draw_ready(&why) != MUSEC_OK) {
        ms_log_say(log, MS_LOG_NORMAL, "no page: %s", why.text);
        return MUSEC_OK;
    }
    TRY(ms_path_join(e, a->out, "report.html", path));
    TRY(ms_compare_build(e, set, &compare));
    ms_page_begin(&page, "musec demo", lead);
    TRY(ms_sections_build(e, &compare, &choice, &page));
    TRY(ms_page_write(e, &page, &(ms_page_files){ .html = path }));
    if (!a->json) printf("\nThe plots: %s\n", path);
done:
    ms_page_free(&page);
    ms_compare_free(&compare);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static musec_status demo(ms_error *e, const struct args *a)
{
    static demo_run runs[COUNT(rows) * RATES];
    ms_sweep_run    made[COUNT(runs)];
    ms_log          log         = ms_log_open(stderr, MS_LOG_NORMAL);
    ms_grid         grid        = { 0 };
    ms_runset       set         = { 0 };
    json_t         *description = describe(a);
    ms_sweep        s           = { .grid = &grid, .out = a->out, .jobs = (int)a->jobs };
    musec_status    st;

    s.keep_checkpoints = true; /* for musec sample */
    s.log              = &log;
    TRY(ms_grid_add(e, "the demo", description, &grid));
    TRY(ms_sweep_run_all(e, &s, made));
    for (size_t i = 0; i < COUNT(runs); i++) {
        runs[i].run = &made[i];
        TRY(ms_path_join(e, a->out, grid.at[i].name, runs[i].dir));
        TRY(ms_runset_add(e, &set, runs[i].dir));
    }
    for (size_t i = 0; i < COUNT(runs); i++)
        read_figures(&set, &runs[i]);
    TRY(a->json ? print_json(e, runs, COUNT(runs)) : print_table(e, runs));
    TRY(write_page(e, a, &log, &set));
done:
    ms_runset_free(&set);
    ms_grid_free(&grid);
    json_decref(description);
    return st;
}

int cmd_demo(int argc, char **argv)
{
    const ms_command *cmd   = demo_command();
    struct args       a     = { .out = "runs/demo", .steps = 200 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    musec_status      st;

    if (n < 0) return ms_cli_parsed(n);
    if (a.steps < 1 || a.jobs < 0 || a.jobs > MS_POOL_WIDTH)
        st = ms_fail(&error, MUSEC_EINVAL, "--steps must be at least 1 and --jobs from 0 to %d",
                     MS_POOL_WIDTH);
    else
        st = demo(&error, &a);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
