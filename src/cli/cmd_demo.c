/* cmd_demo.c - musec demo: a small learning-rate sweep that needs no data.
 *
 * Four optimizers at three learning rates each, one model, one data order, one seed.  QK-norm is
 * off: with it attention logits are bounded, and MuonClip would have nothing to clip.  Every
 * optimizer has the same three learning rates; those that clip at D step by about lr D, so the
 * table also shows how large the applied updates were.  Runs that are finished are not repeated. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "core/json_file.h"
#include "core/table.h"
#include "experiment/pool.h"
#include "experiment/sweep.h"
#include "report/sections.h"

enum { RATES = 3, HEADLINE = 512 };

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
    { "out", MS_OPT_STR, AT(out), "DIR", "directory for the runs and the page [runs/demo]" },
    { "steps", MS_OPT_I64, AT(steps), "N", "number of steps of each run [200]" },
    { "jobs", MS_OPT_I64, AT(jobs), "N", "number of runs at once; 0: one per GPU or core [0]" },
    { "seed", MS_OPT_U64, AT(seed), "N", "seed of the initial weights [0]" },
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
            "rate to the largest.  DIR/report.html has the plots.\n"
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
        if (rows[k].field != NULL) ms_json_set(&grid, rows[k].field, json_string(rows[k].value));
        for (int i = 0; i < RATES; i++)
            ms_json_append(&lr, json_real(rates[i]));
        ms_json_set(&grid, "lr", lr);
        ms_json_append(&grids, grid);
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

static void add_loss(ms_table *t, const demo_run *r)
{
    if (r->run->state == MS_SWEEP_DIVERGED || r->run->state == MS_SWEEP_STALLED)
        ms_table_add(t, "%s", ms_sweep_state_name(r->run->state));
    else if (isfinite(r->run->val_loss))
        ms_table_add(t, "%.3f", r->run->val_loss);
    else
        ms_table_add(t, "-");
}

/* Adds three significant digits without an exponent: 0.464, 17.2, 11900. */
static void add_figure(ms_table *t, double x)
{
    const double unit = fabs(x) >= 1000.0 ? pow(10.0, floor(log10(fabs(x))) - 2.0) : 1.0;
    if (isfinite(x) && unit > 1.0)
        ms_table_add(t, "%.0f", unit * round(x / unit));
    else
        ms_table_add(t, "%.3g", x);
}

static double best_of(const demo_run *runs)
{
    double best = NAN;
    for (int i = 0; i < RATES; i++)
        if (runs[i].run->state == MS_SWEEP_DONE && !(best <= runs[i].run->val_loss))
            best = runs[i].run->val_loss;
    return best;
}

/* What the optimizer loses from its best rate to the largest; infinite if it diverged there. */
static double lost_by(const demo_run *runs)
{
    const ms_sweep_run *last = runs[RATES - 1].run;
    return last->state == MS_SWEEP_DONE ? last->val_loss - best_of(runs) : INFINITY;
}

static void make_table(const demo_run *runs, ms_table *t)
{
    ms_table_add(t, "validation loss");
    for (int i = 0; i < RATES; i++)
        ms_table_add(t, "lr %g", rates[i]);
    ms_table_row(t, "lost\t|W|\t|step|/lr\tlogit");
    for (size_t k = 0; k < COUNT(rows); k++) {
        const demo_run *mine = runs + k * RATES, *last = &mine[RATES - 1];
        ms_table_add(t, "%s", ms_optimizer_title(rows[k].optimizer));
        for (int i = 0; i < RATES; i++)
            add_loss(t, &mine[i]);
        if (isfinite(lost_by(mine)))
            ms_table_add(t, "%+.3f", lost_by(mine));
        else
            ms_table_add(t, "all");
        add_figure(t, last->w_norm);
        add_figure(t, last->u_norm);
        add_figure(t, last->max_logit);
    }
}

/* "At lr 0.5, Soft Musec ends 0.130 above its own best validation loss (1.142, at lr 0.1), MuonClip
 * 0.714 above its own, SPECTRA 1.009, Muon 1.223."  The one that loses least comes first. */
static void headline(const demo_run *runs, char out[HEADLINE])
{
    size_t order[COUNT(rows)], used;

    for (size_t k = 0; k < COUNT(rows); k++) {
        size_t at = k;
        for (; at > 0 && lost_by(runs + order[at - 1] * RATES) > lost_by(runs + k * RATES); at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
    const demo_run *first = runs + order[0] * RATES, *best = first;
    if (!isfinite(lost_by(first))) {
        snprintf(out, HEADLINE, "No optimizer trains at lr %g.", rates[RATES - 1]);
        return;
    }
    for (int i = 1; i < RATES; i++)
        if (first[i].run->state == MS_SWEEP_DONE &&
            !(best->run->val_loss <= first[i].run->val_loss))
            best = &first[i];
    used =
        (size_t)snprintf(out, HEADLINE,
                         "At lr %g, %s ends %.3f above its own best validation loss (%.3f, at lr "
                         "%g)",
                         rates[RATES - 1], ms_optimizer_title(rows[order[0]].optimizer),
                         lost_by(first), best->run->val_loss, rates[best - first]);
    for (size_t k = 1; k < COUNT(rows); k++) {
        const double lost = lost_by(runs + order[k] * RATES);
        const char  *name = ms_optimizer_title(rows[order[k]].optimizer);
        if (isfinite(lost))
            used += (size_t)snprintf(out + used, HEADLINE - used, ", %s %.3f%s", name, lost,
                                     k == 1 ? " above its own" : "");
        else
            used += (size_t)snprintf(out + used, HEADLINE - used, ", %s fails there", name);
    }
    snprintf(out + used, HEADLINE - used, ".");
}

static const char legend[] =
    "lost: validation loss at the largest learning rate above the optimizer's best.\n"
    "There, at the end: |W| the largest spectral norm of a weight, |step|/lr of an update;\n"
    "logit the largest attention logit of the run.  Clipped updates are about lr D, D = 0.5.";

static musec_status print_table(ms_error *e, const demo_run *runs)
{
    ms_table     t = { .align = "lrrrrrrr" };
    char         first[HEADLINE];
    musec_status st;

    make_table(runs, &t);
    st = ms_table_finish(e, &t, stdout);
    headline(runs, first);
    printf("\n%s\n\n%s\n", legend, first);
    return st;
}

static musec_status print_json(ms_error *e, const demo_run *runs, size_t n)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_object();
        ms_json_add(
            &one,
            "optimizer=%s lr=%g dir=%s status=%s val_loss=%g w_norm=%g u_norm=%g max_logit=%g",
            rows[i / RATES].optimizer, rates[i % RATES], runs[i].dir,
            ms_sweep_state_name(runs[i].run->state), runs[i].run->val_loss, runs[i].w_norm,
            runs[i].u_norm, runs[i].max_logit);
        ms_json_append(&all, one);
    }
    return ms_json_finish(e, all, stdout);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The table of the terminal, and what it says in a sentence. */
static void add_result(const demo_run *runs, ms_page *page)
{
    ms_section *s = ms_page_section(page, "result", "The result", "");
    ms_table    t = { .align = "lrrrrrrr" };
    char        first[HEADLINE];

    headline(runs, first);
    make_table(runs, &t);
    ms_page_headline(page, first);
    ms_section_table(
        page, s, "result",
        "Validation loss, and what is lost from an optimizer's best learning rate to the "
        "largest.",
        &t);
    ms_section_notes(page, s, "%s", legend);
    ms_table_free(&t);
}

/* Writes OUT/report.html. */
static musec_status write_page(ms_error *e, const struct args *a, const demo_run *runs,
                               ms_runset *set)
{
    static const char lead[] =
        "Four optimizers, three learning rates, one small model without QK-norm, one seed.  The "
        "two methods that clip take steps of about lr D, D = 0.5: see the effective step.";
    const ms_report_options choice = { .within = 0.1 }; /* of a grid as coarse as this one */
    char                    path[MS_PATH_MAX];
    ms_compare              compare = { 0 };
    ms_page                 page    = { 0 };
    musec_status            st;

    TRY(ms_path_join(e, a->out, "report.html", path));
    TRY(ms_compare_build(e, set, &compare));
    ms_page_begin(&page, "musec demo", lead);
    add_result(runs, &page);
    TRY(ms_sections_build(e, &compare, &choice, &page));
    TRY(ms_page_write(e, &page, &(ms_page_files){ .html = path }));
    if (!a->json) ms_text_print("\nThe plots: ", path, "\n", stdout);
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

    s.log = &log;
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
    TRY(write_page(e, a, runs, &set));
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
