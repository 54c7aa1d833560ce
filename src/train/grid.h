/* grid.h - many runs from one description, and where each has its place.
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
 * Any field of a config, "preset" and "optimizer" may stand in a grid, a row or "set"; the grid's
 * own comes last.  Values are text, numbers or true/false (yes/no).  Without a word of them the
 * preset is pico and the optimizer soft-musec; what a given batch or few steps do to the preset's
 * stages and extension is as for musec train.  Runs come in the order of the description, the last
 * list going fastest; two combinations that give the same run are one, the first: also where they
 * differ in what their optimizer does not read, such as the threshold of Muon.
 *
 * A run's key is the sha256 of its whole config without those fields that do not change what the
 * run is: checkpoint_every, keep, and device (a run may go on on another one, and the devices of a
 * machine share the runs of a sweep).  Its directory is named by preset, optimizer, learning rate,
 * seed and the first digits of the key, so any grid that asks for the same run finds it. */
#ifndef MS_TRAIN_GRID_H
#define MS_TRAIN_GRID_H

#include "core/sha256.h"
#include "train/config.h"

enum { MS_GRID_NAME = 160, MS_GRID_MOST = 20000, MS_GRID_TWINS = 16 };

typedef struct ms_grid_run {
    ms_train_config config; /* checked */
    char            key[MS_SHA256_HEX];
    char            same[MS_SHA256_HEX]; /* the key without what its optimizer does not read */
    char            name[MS_GRID_NAME];  /* of its directory */
    size_t          twins;               /* that were asked for besides, under other keys */
} ms_grid_run;

typedef struct ms_grid_twins { /* combinations that are one run, as their optimizer reads them */
    const char *optimizer;
    char        fields[128]; /* in which they differ: "threshold, ns-iters" */
    size_t      asked, made;
} ms_grid_twins;

typedef struct ms_grid { /* { 0 } is empty */
    ms_grid_run *at;
    size_t       n, room;
    size_t      *slots; /* by `same`: 1 + the number of the run, 0: free */
    size_t       n_slots;
    /* those left out for that reason, by optimizer */
    ms_grid_twins twins[MS_GRID_TWINS];
    size_t        n_twins;
} ms_grid;

/* Adds the runs of a description; `what` names it in errors ("grid.json").  An unknown field,
 * optimizer or value is named with its grid's number.  Runs that are there already are not added
 * again.  On failure some may have been added. */
musec_status ms_grid_add(ms_error *e, const char *what, const json_t *description, ms_grid *grid);
void         ms_grid_free(ms_grid *grid);
/* "threshold has no effect on muon: 1 run instead of 4" */
void ms_grid_tell_twins(const ms_grid_twins *t, char *text, size_t bytes);

/* Takes out of a description all that it says of a field, and puts one value for all runs in its
 * place; false: it is no text that JSON can hold.  What has the wrong shape is left to ms_grid_add,
 * which says so. */
void ms_grid_forget(json_t *description, const char *field);
bool ms_grid_set(json_t *description, const char *field, const char *value);

/* The key of a config, and a field in which two configs with other keys differ (NULL: none). */
musec_status ms_grid_key(ms_error *e, const ms_train_config *cfg, char key[MS_SHA256_HEX]);
const char  *ms_grid_differs(const ms_train_config *a, const ms_train_config *b);

#endif
