/* experiment.h - the figures and tables of the paper as data: experiments/NAME.json, one each.
 *
 *   {"order": 6, "aliases": ["fig11"], "title": "...", "shows": "Figure 11",
 *    "sections": ["threshold", "runs"],         of the page, by their ids
 *    "notes": ["..."],                          for its reader
 *    "grids": [                                 as train/grid.h has them, and:
 *      {"scales": ["pico"], "extent": "full",   only at these, only in the full grid
 *       "optimizer": "muon", "lr": "@lr",       a list of scales.json
 *       "weight_decay": [0.3, 1.2]},
 *      {"optimizer": "muon", "lr": "@lr*threshold"},        all products of two lists
 *      {"optimizer": ["muon", "spectra"], "lr": [0.1, 0.2], what the paper selected for that scale,
 *       "rows": "selected"},                                optimizer and learning rate
 *      {"optimizer": "muon", "rows": "selected*threshold"}, lr times threshold of Soft Musec's rows
 *      {"runs_of": "lr-sweep", "only": {"lr": 0.2}}]}       another item's runs, or those of them
 *
 * `only` leaves grids that do not name a field as they are: {"threshold": 0.25} keeps Muon.  What
 * all items share stands in scales.json, the paper's selections in hyperparameters.json.  The files
 * are part of the program. */
#ifndef MS_EXPERIMENT_H
#define MS_EXPERIMENT_H

#include <jansson.h>

#include "train/grid.h"

typedef struct ms_experiment { /* all point into the file */
    const char   *name, *title, *shows;
    const json_t *file;
} ms_experiment;

typedef struct ms_experiments { /* { 0 } is empty */
    json_t        *files;       /* by name, scales.json too */
    ms_experiment *at;          /* in their order */
    size_t         n;
} ms_experiments;

typedef struct ms_experiment_ask {
    const char        *scale;
    bool               full;
    const char *const *data; /* data sets with runs of their own; without any, that of the preset */
    size_t             n_data;
    const unsigned
          *seeds; /* number of seeds for each data set; the last applies to those that follow */
    size_t n_seeds;
    const char *const *set; /* FIELD=VALUE, replaces the settings of the item */
    size_t             n_set;
    /* Objects of arrays, or NULL: values of fields that are wanted of the item's runs, and lists in
     * place of those of scales.json. */
    const json_t *only, *lists;
    bool          only_differing; /* a field of `only` that does not differ is an error */
} ms_experiment_ask;

musec_status ms_experiments_load(ms_error *e, ms_experiments *out);
void         ms_experiments_free(ms_experiments *all);
/* Finds an item by its name or an alias; the error suggests the nearest name. */
musec_status ms_experiment_find(ms_error *e, const ms_experiments *all, const char *name,
                                const ms_experiment **out);
/* "lr-sweep (fig1, fig5)": the name of an item, and the paper's own numbers. */
void ms_experiment_names(const ms_experiment *item, char *text, size_t bytes);
/* The names of the scales, from the smallest: index 0, 1, ... until NULL. */
const char *ms_experiment_scale_at(const ms_experiments *all, size_t index);
/* The preset that the models of a scale are made from. */
const char *ms_experiment_preset(const json_t *scale, const char *name);
/* "experiments/ITEM.json: WHAT "NAME"" */
musec_status ms_experiment_broken(ms_error *e, const char *item, const char *what,
                                  const char *name);
/* The object of a scale in scales.json; the error lists all scales. */
musec_status ms_experiment_scale(ms_error *e, const ms_experiments *all, const char *name,
                                 const json_t **out);
/* The paper's selection at a scale: an array of rows, or NULL. */
const json_t *ms_experiment_selected(const ms_experiments *all, const char *scale,
                                     const char *optimizer);

/* Adds the runs of an item to the grid. */
musec_status ms_experiment_runs(ms_error *e, const ms_experiments *all, const ms_experiment *item,
                                const ms_experiment_ask *ask, ms_grid *grid);

#endif
