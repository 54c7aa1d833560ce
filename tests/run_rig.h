/* run_rig.h - runs made up in memory, for what is drawn of them. */
#ifndef MS_TESTS_RUN_RIG_H
#define MS_TESTS_RUN_RIG_H

#include "report/runset.h"

typedef struct made { /* a run in short; what is not said is the usual */
    const char   *optimizer, *lr, *threshold, *decay, *seed, *mode, *iters;
    double        loss;
    ms_run_status status;
    int           lines; /* 0: 4 */
    const char   *stages, *data;
    const char   *more; /* another field and its value: "update_scale=unit" */
} made;

/* Line i of n (from 0): the training loss is 6 - i / n; every second line validates, the last with
 * the run's loss, the others with 1 more; the groups' values name their field, group and line;
 * the speed is 1000 + i, the largest logit 10 + i.
 * With stages, the tokens of a step double after a third of the lines. */
void run_rig_add(ms_runset *set, made m);

#endif
