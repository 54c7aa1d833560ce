/* paper_repeats.c - the settings of a race, run again with other seeds.
 *
 * Which settings these are is known once the tuning runs of a set of data are finished.  Their runs
 * join the item's grid then: they are made, listed and shown like its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/best_of.h"
#include "experiment/paper.h"
#include "report/race.h"

unsigned ms_paper_repeats(const ms_paper *p, const ms_experiment *item, size_t set)
{
    const json_t *file = json_object_get(item->file, "repeats");
    const size_t  n    = p->ask.n_seeds;

    if (file == NULL) return 0;
    return n > 0 ? p->ask.seeds[set < n ? set : n - 1] : (unsigned)json_integer_value(file);
}

/* Adds the first n runs of the item's grid that are on a set of data and finished.  *all: there are
 * no others. */
static musec_status read_set(ms_error *e, const ms_paper *p, const ms_paper_item *item, size_t n,
                             size_t set, ms_runset *out, bool *all)
{
    char         path[MS_PATH_MAX];
    musec_status st = MUSEC_OK;

    *all = true;
    for (size_t i = 0; i < n && *all; i++) {
        const ms_grid_run *run = &item->grid.at[i];
        if (p->ask.n_data > 0 && strcmp(run->config.data, p->ask.data[set]) != 0) continue;
        *all = ms_sweep_is_finished(&item->runs[i]);
        TRY(ms_path_join(e, p->store, run->name, path));
        if (*all) TRY(ms_runset_add(e, out, path));
    }
done:
    return st;
}

/* Adds a setting as a grid, with the seeds after that of its tuning run. */
static musec_status add_setting(ms_error *e, const ms_race *race, const ms_setting *s, unsigned n,
                                json_t *grids)
{
    json_t      *config = NULL, *seeds = json_array();
    musec_status st;

    TRY(ms_setting_config(e, s, &config));
    for (unsigned i = 1; i <= n; i++)
        ms_json_append(&seeds, json_integer(race->tuning_seed + (json_int_t)i));
    ms_json_set(&config, "seed", seeds);
    seeds  = NULL;
    st     = ms_json_push(e, grids, config);
    config = NULL;
done:
    json_decref(config);
    json_decref(seeds);
    return st;
}

/* n: the runs of the grid whose state is known. */
static musec_status add_set(ms_error *e, const ms_paper *p, ms_paper_item *item, size_t n,
                            size_t set)
{
    ms_runset    runs  = { 0 };
    ms_compare   c     = { 0 };
    json_t      *grids = json_array(), *description = NULL;
    bool         all;
    musec_status st;

    TRY(read_set(e, p, item, n, set, &runs, &all));
    item->waiting += !all;
    if (!all) goto done;
    TRY(ms_compare_build(e, &runs, &c));
    for (size_t k = 0; k < c.n_problems; k++) {
        const ms_race race = ms_race_of(&c, k, p->args->target);
        if (isnan(race.target)) continue; /* the page says what it lacks */
        for (size_t m = 0; m < c.n_methods; m++) {
            const ms_setting *s = ms_race_choose(&race, m);
            if (s != NULL)
                TRY(add_setting(e, &race, s, ms_paper_repeats(p, item->item, set), grids));
        }
    }
    if (json_array_size(grids) == 0) goto done;
    description = json_pack("{s:O}", "grids", grids);
    if (description == NULL) TRY(ms_no_memory(e, "the grid"));
    TRY(ms_grid_add(e, item->item->name, description, &item->grid));
done:
    json_decref(description);
    json_decref(grids);
    ms_compare_free(&c);
    ms_runset_free(&runs);
    return st;
}

musec_status ms_paper_add_repeats(ms_error *e, const ms_paper *p, ms_paper_item *item)
{
    const size_t sets = p->ask.n_data > 0 ? p->ask.n_data : 1;
    const size_t n    = item->grid.n;
    musec_status st   = MUSEC_OK;

    item->waiting = 0;
    if (ms_paper_repeats(p, item->item, 0) == 0 || n == 0) return MUSEC_OK;
    for (size_t i = 0; i < sets; i++)
        TRY(add_set(e, p, item, n, i));
    if (item->grid.n > n) TRY(ms_paper_scan_grid(e, p, item));
done:
    return st;
}
