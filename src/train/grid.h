/* grid.h - many runs from one description, and the directory of each.
 *
 *   {"preset": "pico",
 *    "set": {"steps": 120, "qk_norm": "no"},                      of every run
 *    "grids": [
 *      {"optimizer": ["soft-musec", "spectra"], "lr": [0.1, 0.5], all combinations of the lists
 *       "threshold": [0.25, 1], "seed": [0, 1]},
 *      {"optimizer": "muon",                                      a value is a list of one
 *       "rows": [{"lr": 0.02, "weight_decay": "qk=1.2,mlp=0.3"},  rows: fields that go together,
 *                {"lr": 0.5, "weight_decay": 0.3}]}]}             combined with the lists
 *
 * A grid, a row and "set" may hold any field of a config, "preset" and "optimizer"; the grid's own
 * value wins.  Values are strings, numbers or booleans (yes/no).  The default preset is pico, the
 * default optimizer soft-musec.  A given batch or a small number of steps changes the preset's
 * stages and extension as in musec train.  Runs are in the order of the description, the last list
 * fastest.  Two combinations that give the same run count once, also where they differ only in
 * options that their optimizer ignores, such as the threshold of Muon.
 *
 * The key of a run is the sha256 of its config without the fields that do not change the results
 * (MS_FIELD_NOT_KEYED): how often it writes checkpoints, and the device, on which a run may also be
 * resumed.  The directory of a run is named by preset, optimizer, learning rate, seed and the first
 * digits of the key, so every grid that asks for the same run finds it. */
#ifndef MS_TRAIN_GRID_H
#define MS_TRAIN_GRID_H

#include "core/sha256.h"
#include "train/config.h"

enum { MS_GRID_NAME = 160, MS_GRID_MAX = 20000, MS_GRID_DUPLICATES = 16 };

typedef struct ms_grid_run {
    ms_train_config config; /* checked */
    char            key[MS_SHA256_HEX];
    char            effective_key[MS_SHA256_HEX]; /* without options that the optimizer ignores */
    char            name[MS_GRID_NAME];           /* of its directory */
    size_t          duplicates; /* further combinations with this effective key, but another key */
} ms_grid_run;

typedef struct ms_grid_duplicates { /* combinations that differ only in ignored options */
    const char *optimizer;
    char        fields[128]; /* the ignored options: "threshold, ns-iters" */
    size_t      asked, made; /* combinations and runs */
} ms_grid_duplicates;

typedef struct ms_grid { /* { 0 } is empty */
    ms_grid_run       *at;
    size_t             n, capacity;
    json_t            *index;                          /* effective key to position in `at` */
    ms_grid_duplicates duplicates[MS_GRID_DUPLICATES]; /* by optimizer */
    size_t             n_duplicates;
} ms_grid;

/* Adds the runs of a description; errors begin with `what` ("grid.json") and name the grid by its
 * number.  Runs that are there already are not added again.  After a failure some may have been
 * added. */
musec_status ms_grid_add(ms_error *e, const char *what, const json_t *description, ms_grid *grid);
void         ms_grid_free(ms_grid *grid);
/* "threshold has no effect on muon: 1 run instead of 4" */
void ms_grid_describe_duplicates(const ms_grid_duplicates *d, char *text, size_t bytes);

/* Removes a field from a description.  A description of the wrong shape is left to ms_grid_add. */
void ms_grid_remove_field(json_t *description, const char *field);
/* Gives a field one value for all runs; MUSEC_EINVAL if the value is not UTF-8. */
musec_status ms_grid_set(ms_error *e, json_t *description, const char *field, const char *value);

musec_status ms_grid_key(ms_error *e, const ms_train_config *cfg, char key[MS_SHA256_HEX]);
/* Finds a field in which two configs with different keys differ; NULL if there is none. */
musec_status ms_grid_differs(ms_error *e, const ms_train_config *a, const ms_train_config *b,
                             const char **field);

#endif
