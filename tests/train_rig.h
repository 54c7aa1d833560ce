/* train_rig.h - configs and small training runs for tests. */
#ifndef MS_TESTS_TRAIN_RIG_H
#define MS_TESTS_TRAIN_RIG_H

#include "train/trainer.h"

/* A preset with settings "key=value key=value", which are checked together unless they are NULL. */
ms_train_config train_config(const char *preset, const char *optimizer, const char *settings);
void            train_set(ms_train_config *cfg, const char *key, const char *value);

/* Value number `index` to try on a field: values of all kinds, then its choices, then NULL. */
const char *train_value(const ms_train_field *f, size_t index);
/* Sets a field to the last of these values that it takes and does not have; false: none. */
bool train_change(ms_train_config *cfg, const ms_train_field *f);

enum { TRAIN_MAX_STEPS = 200 };

typedef struct train_watch {
    ms_log_line line[TRAIN_MAX_STEPS + 1]; /* by step */
    int         lines;                     /* of the last run */
    int64_t     stop_after;                /* The run stops after this step; -1: at its end. */
    bool        stop;
    int         asked;                /* how often the run asked whether to stop */
    int         stop_at;              /* From this question on it must stop at once; 0: never. */
    ms_train   *train;                /* the current run */
    void (*after_first)(ms_train *t); /* called after the first step, unless NULL */
} train_watch;

/* The setup of a run that `w` watches; out NULL: nothing is written. */
ms_train_setup train_setup(const ms_train_config *cfg, train_watch *w, const char *out,
                           bool resume);
/* Runs until the end, or until `w` stops it.  train_run_open leaves the run open in w->train. */
ms_summary train_run(const ms_train_config *cfg, train_watch *w, const char *out, bool resume);
ms_summary train_run_open(const ms_train_config *cfg, train_watch *w, const char *out, bool resume);
/* Checks that the log lines of the steps have the same bits, except for times. */
void train_check_same(const train_watch *a, const train_watch *b, int steps);

#endif
