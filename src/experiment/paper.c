/* paper.c - the runs of an item of the paper: which they are, their state, making them. */
#include "experiment/paper.h"

#include <math.h>
#include <stdlib.h>

musec_status ms_paper_scan_grid(ms_error *e, const ms_paper *p, ms_paper_item *item)
{
    free(item->runs);
    item->sweep.grid = &item->grid;
    item->runs       = calloc(item->grid.n + 1, sizeof *item->runs);
    if (item->runs == NULL)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu runs", item->grid.n);
    ms_sweep_checkpoints(&item->grid,
                         p->args->no_checkpoints ? MS_CHECKPOINTS_NONE : MS_CHECKPOINTS_UNFINISHED);
    return ms_sweep_scan(e, &item->sweep, item->runs);
}

musec_status ms_paper_scan(ms_error *e, const ms_paper *p, const ms_experiment *item,
                           ms_paper_item *out)
{
    musec_status st;

    *out = (ms_paper_item){ .item = item, .sweep = p->sweep };
    TRY(ms_experiment_runs(e, &p->all, item, &p->ask, &out->grid));
    TRY(ms_paper_scan_grid(e, p, out));
    TRY(ms_paper_add_repeats(e, p, out));
done:
    if (st != MUSEC_OK) ms_paper_item_free(out);
    return st;
}

void ms_paper_item_free(ms_paper_item *item)
{
    free(item->runs);
    ms_grid_free(&item->grid);
    *item = (ms_paper_item){ 0 };
}

size_t ms_paper_finished(const ms_paper_item *item)
{
    size_t n = 0;
    for (size_t i = 0; i < item->grid.n; i++)
        if (ms_sweep_is_finished(&item->runs[i])) n++;
    return n;
}

static musec_status check_data(ms_error *e, const ms_paper *p, const ms_paper_item *item)
{
    if (json_is_true(json_object_get(p->scale, "needs_data")) && p->ask.n_data == 0)
        return ms_fail(e, MUSEC_EINVAL, "the scale %s needs data: %s", p->ask.scale,
                       json_string_value(json_object_get(p->scale, "data_note")));
    return ms_sweep_try_data(e, &item->sweep, item->runs);
}

/* Says how long the missing runs will take, if this machine was measured. */
static musec_status announce(ms_error *e, ms_paper *p, ms_paper_item *item)
{
    const ms_estimate_setup setup = {
        .all = &p->all, .ask = &p->ask, .out = p->args->out, .sweep = &p->sweep
    };
    ms_estimate  est = { 0 };
    char         text[32];
    double       seconds;
    musec_status st;

    TRY(ms_estimate_open(e, &setup, &est));
    seconds = ms_estimate_all(&est, &item->grid, item->runs);
    if (isfinite(seconds)) {
        item->sweep.expected_s = seconds;
        ms_estimate_text(seconds, text, sizeof text);
        ms_log_say(&p->log, MS_LOG_NORMAL, "%s at %s: %zu runs to make, about %s", item->item->name,
                   p->ask.scale, item->grid.n - ms_paper_finished(item), text);
    }
done:
    ms_estimate_free(&est);
    return st;
}

static musec_status make_missing(ms_error *e, ms_paper *p, ms_paper_item *item)
{
    musec_status st = MUSEC_OK;

    if (ms_paper_finished(item) < item->grid.n) { /* else it cleans up after one that died */
        TRY(check_data(e, p, item));
        TRY(announce(e, p, item));
    }
    TRY(ms_sweep_run_all(e, &item->sweep, item->runs));
done:
    return st;
}

musec_status ms_paper_make_runs(ms_error *e, ms_paper *p, ms_paper_item *item)
{
    const bool   waits = item->waiting > 0;
    musec_status st    = MUSEC_OK;

    if (item->grid.n == 0 || p->args->no_run) return MUSEC_OK;
    TRY(make_missing(e, p, item));
    if (!waits) goto done;
    TRY(ms_paper_add_repeats(e, p, item)); /* now that the others are there */
    TRY(make_missing(e, p, item));
done:
    return st;
}

musec_status ms_paper_print_runs(ms_error *e, ms_paper *p, const ms_paper_item *item)
{
    if (item->waiting > 0)
        ms_log_say(&p->log, MS_LOG_NORMAL,
                   "when these are finished, each method's setting is run with %u more seeds",
                   ms_paper_repeats(p, item->item, 0));
    if (item->grid.n > 0 || p->args->json)
        return ms_sweep_print(e, &item->sweep, item->runs, p->args->json != 0, p->to);
    fprintf(p->to, "%s needs no runs\n", item->item->name);
    return MUSEC_OK;
}
