/* paper_list.c - musec paper list: every item, its runs, and the time that they will take here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/table.h"
#include "experiment/theory_suite.h"

typedef struct row {
    size_t      runs, full, finished;
    double      left_s, full_s; /* time of the unfinished runs, reduced and full */
    const char *left, *in_full; /* the time as text if it cannot be computed, else NULL */
    bool        no_data;        /* the item needs no data */
} row;

/* Reads the item theory, whose runs are not trainings and whose file has the times as text. */
static musec_status read_theory(ms_error *e, const ms_paper *p, const ms_experiment *item, row *out)
{
    ms_paper         full = *p;
    ms_theory_suites some = { 0 }, all = { 0 };
    musec_status     st;

    full.ask.full = true;
    TRY(ms_theory_suites_read(e, p, item, &some));
    TRY(ms_theory_suites_read(e, &full, item, &all));
    *out          = (row){ .runs    = ms_theory_suites_files(&some),
                           .full    = ms_theory_suites_files(&all),
                           .left_s  = ms_theory_suites_missing(&some) > 0 ? NAN : 0.0,
                           .full_s  = ms_theory_suites_missing(&all) > 0 ? NAN : 0.0,
                           .no_data = true };
    out->finished = out->runs - ms_theory_suites_missing(&some);
    if (isnan(out->left_s)) out->left = json_string_value(json_object_get(item->file, "takes"));
    if (isnan(out->full_s))
        out->in_full = json_string_value(json_object_get(item->file, "takes_in_full"));
done:
    ms_theory_suites_free(&some);
    ms_theory_suites_free(&all);
    return st;
}

static musec_status read_row(ms_error *e, const ms_paper *p, const ms_experiment *item,
                             const ms_estimate *est, row *out)
{
    ms_paper      full = *p;
    ms_paper_item some = { 0 }, all = { 0 };
    musec_status  st;

    if (strcmp(item->name, "theory") == 0) return read_theory(e, p, item, out);
    full.ask.full = true;
    TRY(ms_paper_scan(e, p, item, &some));
    TRY(ms_paper_scan(e, &full, item, &all));
    *out = (row){ .runs     = some.grid.n,
                  .full     = all.grid.n,
                  .finished = ms_paper_finished(&some),
                  .left_s   = ms_estimate_all(est, &some.grid, some.runs),
                  .full_s   = ms_estimate_all(est, &all.grid, all.runs) };
done:
    ms_paper_item_free(&some);
    ms_paper_item_free(&all);
    return st;
}

/* A short name of the data; the note below the table has a sentence on them. */
static const char *data_of(const ms_paper *p, const row *r)
{
    return r->runs == 0 || r->no_data ? "-"
           : p->ask.n_data > 0        ? "as given"
                                      : json_string_value(json_object_get(p->scale, "data"));
}

static void add_time(ms_table *t, double seconds, const char *words)
{
    char text[32];
    if (words != NULL) {
        ms_table_add(t, "%s", words);
        return;
    }
    ms_estimate_text(seconds, text, sizeof text);
    ms_table_add(t, "%s", text);
}

static musec_status print_table(ms_error *e, const ms_paper *p, const ms_estimate *est,
                                const row *rows)
{
    ms_table     t = { .align = "llrrrrrl" };
    musec_status st;

    ms_table_row(&t, "item\tshows\truns\tfinished\tto go\tfull\tto go in full\tdata");
    for (size_t i = 0; i < p->all.n; i++) {
        ms_table_row(&t, "%s\t%s\t%zu\t%zu", p->all.at[i].name, p->all.at[i].shows, rows[i].runs,
                     rows[i].finished);
        add_time(&t, rows[i].left_s, rows[i].left);
        ms_table_add(&t, "%zu", rows[i].full);
        add_time(&t, rows[i].full_s, rows[i].in_full);
        ms_table_add(&t, "%s", data_of(p, &rows[i]));
    }
    st = ms_table_finish(e, &t, p->to);
    fprintf(
        p->to,
        "\nAt %s, %d run%s at once.  Items share their runs: what one has made, the others have.\n"
        "Data: %s.\n",
        p->ask.scale, est->width, est->width == 1 ? "" : "s",
        json_string_value(json_object_get(p->scale, "data_note")));
    if (est->entry == NULL)
        fprintf(
            p->to,
            "Times are not known: musec paper list measures, without --no-run and --dry-run.\n");
    else if (est->about)
        fprintf(p->to, "Times are about: by operations, from what nano takes here.\n");
    return st;
}

static musec_status print_json(ms_error *e, const ms_paper *p, const ms_estimate *est,
                               const row *rows)
{
    json_t *items = json_array(), *all = json_object();

    for (size_t i = 0; i < p->all.n; i++) {
        const ms_experiment *item = &p->all.at[i];
        json_t              *one  = json_object();
        ms_json_set(&one, "item", json_string(item->name));
        if (json_object_get(item->file, "aliases") != NULL)
            ms_json_set(&one, "aliases", json_incref(json_object_get(item->file, "aliases")));
        ms_json_add(&one,
                    "title=%s shows=%s runs=%lld finished=%lld to_go_s=%g full_runs=%lld "
                    "full_to_go_s=%g data=%s",
                    item->title, item->shows, (long long)rows[i].runs, (long long)rows[i].finished,
                    rows[i].left_s, (long long)rows[i].full, rows[i].full_s, data_of(p, &rows[i]));
        ms_json_append(&items, one);
    }
    ms_json_add(&all, "scale=%s at_once=%lld about?=%d items=%p", p->ask.scale,
                (long long)est->width, est->about, (void *)items);
    return ms_json_finish(e, all, p->to);
}

musec_status ms_paper_list(ms_error *e, const ms_paper *p)
{
    const ms_estimate_setup setup = {
        .all = &p->all, .ask = &p->ask, .out = p->args->out, .sweep = &p->sweep
    };
    ms_estimate  est  = { 0 };
    row         *rows = calloc(p->all.n + 1, sizeof *rows);
    ms_log       log  = p->log;
    musec_status st;

    if (rows == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the list");
    TRY(ms_estimate_open(e, &setup, &est));
    if ((est.entry == NULL || p->args->recalibrate) && !p->args->no_run && !p->args->dry_run)
        TRY(ms_estimate_calibrate(e, &setup, &log, &est));
    for (size_t i = 0; i < p->all.n; i++)
        TRY(read_row(e, p, &p->all.at[i], &est, &rows[i]));
    TRY(p->args->json ? print_json(e, p, &est, rows) : print_table(e, p, &est, rows));
done:
    free(rows);
    ms_estimate_free(&est);
    return st;
}
