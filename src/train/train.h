/* train.h - a training run: model, optimizer, data, schedule and log, put together.
 *
 *     ms_train *t;
 *     ms_train_open(&e, &setup, &t);     a new run, or one resumed from its directory
 *     ms_train_run(&e, t, &summary);     until the end, an interruption, or divergence
 *     ms_train_close(t);
 *
 * A step computes the gradients of all micro-batches, hands the largest attention logits to the
 * optimizer, makes the optimizer's step, and then validates, writes the log line and the checkpoint
 * where they are due.  A run is a function of its config and its data: apart from times, the logs
 * and checkpoints of two runs are the same bytes, whether or not one was interrupted.  A run whose
 * config was changed on resuming says so (origin.c). */
#ifndef MS_TRAIN_TRAIN_H
#define MS_TRAIN_TRAIN_H

#include "core/log.h"
#include "train/runlog.h"
#include "train/schedule.h"

/* Whether the run must stop.  A later answer never withdraws an earlier request. */
typedef enum ms_stop {
    MS_STOP_NO,
    MS_STOP_AFTER_STEP, /* Finish the current step. */
    MS_STOP_NOW,        /* Abandon the current step, as if it had not begun. */
} ms_stop;

typedef struct ms_train_sizes { /* bytes */
    ms_gpt_sizes model;
    uint64_t     optim_state, data, checkpoint, total;
    /* Scratch of the optimizer's step and of attention's gradient, which share one memory. */
    uint64_t workspace, attention;
    uint64_t sums; /* of gradients, see gradients.h */
} ms_train_sizes;

typedef struct ms_train_start { /* what is known of a run before its first step */
    const ms_train_config *config;
    const ms_schedule     *schedule;
    ms_mixture            *train; /* the training data */
    ms_device             *device;
    musec_dtype            dtype; /* of activations */
    int64_t                step;  /* steps done so far */
    ms_train_sizes         sizes;
    uint64_t               needed; /* bytes of device memory */
    ms_memory              memory; /* of the device, before the run allocated any */
    const char            *advice; /* what saves most memory, as the rest of a sentence */
    const char            *ranks;  /* a line about them, "" for one */
    bool made_out; /* Set by on_open if it made the run directory: removed if it stays empty. */
} ms_train_start;

typedef struct ms_train_setup {
    ms_train_config config;     /* checked */
    const char     *out;        /* the run directory; NULL: nothing is written */
    bool            resume;     /* resume from the newest checkpoint in `out` */
    double          began;      /* clock at the start of the program; 0: that of ms_train_open */
    struct ms_comm *comm;       /* the ranks of the run; NULL: there is one */
    const char     *comm_kind;  /* how they were asked to communicate; NULL: auto */
    int             replicas;   /* so many (ranks.h), 1: none; 0: one for each machine, if */
    ms_log         *log;        /* NULL: silent */
    ms_stop (*stop)(void *arg); /* asked many times in a step; NULL: never stops */
    /* Called after every step, unless NULL. */
    void (*on_step)(void *arg, const ms_log_line *line);
    /* Called, unless NULL, once device and data are open and before anything that takes long.  Its
     * failure fails ms_train_open.  It may make the run directory and write its name to `out`. */
    musec_status (*on_open)(ms_error *e, void *arg, ms_train_start *start);
    void *arg;
} ms_train_setup;

typedef struct ms_train ms_train;

/* Fails unless a run with the config `was` may be resumed with `now`; names the field. */
musec_status ms_train_config_same(ms_error *e, const char *what, const ms_train_config *was,
                                  const ms_train_config *now);

musec_status ms_train_open(ms_error *e, const ms_train_setup *setup, ms_train **out);
musec_status ms_train_run(ms_error *e, ms_train *t, ms_summary *out);
void         ms_train_close(ms_train *t); /* accepts NULL */

/* Checks that the data exist and suffice for one step of every stage. */
musec_status ms_train_check_data(ms_error *e, const ms_train_config *cfg);

/* The identity of a config's data, as state.json and summary.json store it (a new reference):
 *     {"train": [{"name": "book.txt", "tokens": 90000, "sha256": "..."}], "val": [...]}
 * An endless set has null tokens. */
musec_status ms_train_data(ms_error *e, const ms_train_config *cfg, json_t **out);
enum { MS_DATA_TEXT = 320 };
/* Whether the data differ, names aside.  `how` describes the first set that does: "book.txt had
 * 90000 tokens, sha256 0123..., and has 95000, ...". */
bool ms_train_data_differs(const json_t *was, const json_t *now, char how[MS_DATA_TEXT]);

/* Prints what a run will do: device, model, schedule, the rule of every parameter, memory. */
musec_status ms_train_explain(ms_error *e, const ms_train_config *cfg, FILE *to);
/* The same as JSON (docs/formats.md); a new reference. */
musec_status ms_train_explain_json(ms_error *e, const ms_train_config *cfg, json_t **out);

#endif
