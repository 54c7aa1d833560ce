/* best_of.h - the best settings of runs that were made, with more seeds and at larger rates. */
#ifndef MS_EXPERIMENT_BEST_OF_H
#define MS_EXPERIMENT_BEST_OF_H

#include <jansson.h>

#include "core/log.h"
#include "report/compare.h"

/* Reads the config of a setting's first run, without what says where and how it was made: a sweep
 * that makes it again decides that anew. */
musec_status ms_setting_config(ms_error *e, const ms_setting *s, json_t **config);

/* Describes as a grid (train/grid.h) the best run of each method on each problem among those below
 * `path`, at each of the factors on its learning rate, with its own seed.  A method with less than
 * half of the runs of the one with most was not tuned, and is left out.  The log says of which runs
 * nothing could be learnt. */
musec_status ms_best_of(ms_error *e, ms_log *log, const char *path, const json_t *factors,
                        json_t **out);

#endif
