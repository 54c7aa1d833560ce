/* paper.h - what the files of musec paper share.
 *
 * All items keep their runs in one store, OUT/runs, so that a run that several of them want is made
 * once; each has its page, OUT/ITEM-SCALE.html, which shows its own runs alone. */
#ifndef MS_EXPERIMENT_PAPER_H
#define MS_EXPERIMENT_PAPER_H

#include "core/json_file.h"
#include "core/options.h"
#include "experiment/device_list.h"
#include "experiment/estimate.h"
#include "experiment/experiment.h"
#include "experiment/sweep.h"
#include "report/page.h"

typedef struct ms_paper_args {
    const char    *scale, *seeds, *out, *device, *png, *csv;
    ms_option_list data, set, only, list;
    int64_t        jobs, threads;
    double         within, target, time_limit;
    int            no_checkpoints, full, quick, omit_times, no_run, dry_run, recalibrate, json;
} ms_paper_args;

typedef struct ms_paper { /* the arguments, parsed */
    const ms_paper_args *args;
    ms_experiments       all;
    const json_t        *scale; /* its part of scales.json */
    ms_experiment_ask    ask;
    json_t              *only, *lists; /* what `ask` points to */
    unsigned             seeds[MS_OPTION_LIST];
    ms_device_list       devices;
    ms_log               log;
    FILE                *to;                 /* gets the results */
    char                 store[MS_PATH_MAX]; /* OUT/runs */
    ms_sweep             sweep;              /* without a grid */
} ms_paper;

typedef struct ms_paper_item { /* { 0 } is empty */
    const ms_experiment *item;
    ms_grid              grid;
    ms_sweep_run        *runs; /* of the grid */
    ms_sweep             sweep;
    size_t               waiting; /* sets of data whose repeats are not known yet */
} ms_paper_item;

/* Finds the runs of an item, and their state in the store; of an item with `repeats` also the runs
 * that ms_paper_add_repeats() adds. */
musec_status ms_paper_scan(ms_error *e, const ms_paper *p, const ms_experiment *item,
                           ms_paper_item *out);
/* Finds the state of the runs of the item's grid again, after runs were added. */
musec_status ms_paper_scan_grid(ms_error *e, const ms_paper *p, ms_paper_item *item);
void         ms_paper_item_free(ms_paper_item *item);
size_t       ms_paper_finished(const ms_paper_item *item);
/* Makes the runs that are not finished. */
musec_status ms_paper_make_runs(ms_error *e, ms_paper *p, ms_paper_item *item);
/* Prints the runs and their state. */
musec_status ms_paper_print_runs(ms_error *e, ms_paper *p, const ms_paper_item *item);

/* paper_repeats.c.  An item whose file has `repeats` runs settings again with other seeds: on each
 * set of data whose runs are all finished, those settings that section `race` chooses among them.
 * Adds these runs, and counts the other sets as waiting. */
musec_status ms_paper_add_repeats(ms_error *e, const ms_paper *p, ms_paper_item *item);
/* The number of their seeds on a set of data; 0: the item has none. */
unsigned ms_paper_repeats(const ms_paper *p, const ms_experiment *item, size_t set);

/* paper_list.c: every item with its runs and their time. */
musec_status ms_paper_list(ms_error *e, const ms_paper *p);

/* paper_page.c: the page of an item, whose path is printed or goes into `result`; of the verdict
 * also what it found.  Notes go to the log. */
musec_status ms_paper_page(ms_error *e, ms_paper *p, const ms_paper_item *item, json_t **result);

/* paper_tables.c: what comes from the presets and the paper rather than from runs. */
void ms_paper_architecture(const ms_paper *p, const ms_experiment *item, ms_page *page);
void ms_paper_training(const ms_paper *p, const ms_experiment *item, ms_page *page);
void ms_paper_selected(const ms_paper *p, const ms_experiment *item, ms_page *page);

/* paper_theory.c: the item whose runs are not trainings.  Makes them, or prints their state with
 * --dry-run; then its sections. */
musec_status ms_paper_theory_runs(ms_error *e, ms_paper *p, const ms_experiment *item);
musec_status ms_paper_theory(ms_error *e, ms_paper *p, const ms_experiment *item, ms_page *page,
                             json_t **result);

#endif
