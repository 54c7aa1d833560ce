/* train.h - a run: model, optimizer, data, schedule and what is written down, put together.
 *
 *     ms_train *t;
 *     ms_train_open(&e, &setup, &t);     new, or resumed from a run directory
 *     ms_train_run(&e, t, &summary);     to the end, an interruption, or divergence
 *     ms_train_close(t);
 *
 * A step: gradients of all micro-batches, the largest logits to the optimizer, the optimizer's
 * step, then validation, checkpoint, log line.  A run is a function of its config and its data:
 * times apart, the log and the checkpoints of two runs are the same bytes, whether or not one was
 * interrupted; unless its config was changed on its way, which is kept with it (origin.c). */
#ifndef MS_TRAIN_TRAIN_H
#define MS_TRAIN_TRAIN_H

#include "core/log.h"
#include "train/runlog.h"
#include "train/schedule.h"

/* Is the run to stop?  An answer never takes back what an earlier one asked for. */
typedef enum ms_stop {
    MS_STOP_NO,
    MS_STOP_AFTER_STEP, /* the step at hand is finished */
    MS_STOP_NOW,        /* the step at hand is abandoned, as if it had not been begun */
} ms_stop;

typedef struct ms_train_sizes { /* bytes */
    ms_gpt_sizes model;
    uint64_t     optim_state, data, checkpoint, total;
    uint64_t     workspace; /* of the optimizer's step, */
    uint64_t     attention; /* of attention's gradient: never at once, so the same memory */
} ms_train_sizes;

typedef struct ms_train_start { /* what a run will be */
    const ms_train_config *config;
    const ms_schedule     *schedule;
    ms_mixture            *train; /* its data */
    ms_device             *device;
    musec_dtype            dtype; /* of activations */
    int64_t                step;  /* that it goes on from */
    ms_train_sizes         sizes;
    uint64_t               needed; /* bytes of the device's memory */
    ms_memory              memory; /* that there was before any was taken */
    const char            *advice; /* what lowers the need most, as the rest of a sentence */
    bool made_out;                 /* out: the directory is new, to be removed if it stays empty */
} ms_train_start;

typedef struct ms_train_setup {
    ms_train_config config;     /* checked */
    const char     *out;        /* the run directory; NULL: nothing is written */
    bool            resume;     /* go on with the newest checkpoint in `out` */
    double          began;      /* clock that start_s counts from; 0: ms_train_open */
    ms_log         *log;        /* NULL: silent */
    ms_stop (*stop)(void *arg); /* asked many times in a step; NULL: it is not to */
    /* Called after every step; or NULL. */
    void (*on_step)(void *arg, const ms_log_line *line);
    /* Called once device and data are open, before anything that takes long; or NULL.  A failure
     * is that of ms_train_open.  It may make the run's directory and write its name where `out`
     * points. */
    musec_status (*on_open)(ms_error *e, void *arg, ms_train_start *start);
    void *arg;
} ms_train_setup;

typedef struct ms_train ms_train;

/* May a run that began with `was` go on with `now`?  If not, the field and its values are named. */
musec_status ms_train_config_same(ms_error *e, const char *what, const ms_train_config *was,
                                  const ms_train_config *now);

musec_status ms_train_open(ms_error *e, const ms_train_setup *setup, ms_train **out);
musec_status ms_train_run(ms_error *e, ms_train *t, ms_summary *out);
void         ms_train_close(ms_train *t);      /* accepts NULL */
int64_t      ms_train_step(const ms_train *t); /* steps done */

/* Is the data there, and has it what a step of every stage takes? */
musec_status ms_train_try_data(ms_error *e, const ms_train_config *cfg);

/* Which data a config names, as state.json and summary.json keep it:
 *     {"train": [{"name": "book.txt", "tokens": 90000, "sha256": "..."}], "val": [...]}
 * tokens: null without end.  New. */
musec_status ms_train_data(ms_error *e, const ms_train_config *cfg, json_t **out);
enum { MS_DATA_TEXT = 320 };
/* Are these other data?  Names say nothing.  how: "book.txt had 90000 tokens, sha256 0123..., and
 * has 95000, ...", of the first set that differs. */
bool ms_train_data_differs(const json_t *was, const json_t *now, char how[MS_DATA_TEXT]);

/* What will be done, for people: device, model, schedule, every parameter's rule, memory. */
musec_status ms_train_explain(ms_error *e, const ms_train_config *cfg, FILE *to);
/* The same as fields (docs/formats.md).  New. */
musec_status ms_train_explain_json(ms_error *e, const ms_train_config *cfg, json_t **out);

#endif
