/* runlog.h - the records of a run: log.jsonl, TensorBoard events and summary.json.
 *
 * log.jsonl has one line per step:
 *   {"step": 60, "tokens": 491520, "epoch": 0, "loss": 2.31, "objective": 2.31, "val_loss": 2.4,
 *    "lr": 0.02, "tok_s": 9000, "time_s": 55.1, "max_logit": 7.2,
 *    "groups": {"qk": {"w_norm": ..., "u_norm": ..., "u_rms": ..., "u_erank": ...,
 *               "u_gain": ..., "sigma1_over_d": ..., "share_above": ...}, "vo": ..., "mlp": ...},
 *    "ms": {"data": 0.1, "model": 700, "optim": 40, "rest": 3}}
 * With several data sets, "val_losses": {"NAME": ...} has the loss on each.  "skipped": N counts
 * the steps so far that the optimizer skipped, from the first one on.  The last line of a run that
 * stalled or diverged has "status": "stalled" or "diverged".  val_loss and groups are on the lines
 * of steps that measured them; a number that is not finite is null.  Everything but tok_s, time_s
 * and ms is the same whenever the run is repeated. */
#ifndef MS_TRAIN_RUNLOG_H
#define MS_TRAIN_RUNLOG_H

#include <jansson.h>
#include <stdbool.h>

#include "data/mixture.h"

enum { MS_GROUP_QK, MS_GROUP_VO, MS_GROUP_MLP, MS_GROUPS };

/* Over the matrices of a group: the maximum of w_norm, u_norm and sigma1_over_d, the mean of the
 * others. */
typedef struct ms_group_stats {
    double w_norm, u_norm, u_rms, u_erank, u_gain, sigma1_over_d, share_above;
} ms_group_stats;

typedef struct ms_log_line {
    int64_t        step, tokens, epoch; /* The first step is 1. */
    int64_t        skipped;             /* steps so far that the optimizer skipped */
    double         loss, objective, lr, max_logit;
    bool           has_val, has_groups;
    double         val_loss; /* over all data sets, by their weights */
    int            n_val_sets;
    const char    *val_names[MS_SETS];
    double         val_losses[MS_SETS];
    ms_group_stats groups[MS_GROUPS];
    double         tok_s, time_s;
    double         ms_data, ms_model, ms_optim, ms_rest;
    const char    *status; /* "stalled" or "diverged" where the run ends so; otherwise NULL */
} ms_log_line;

typedef struct ms_runlog ms_runlog;

/* Opens DIR/log.jsonl and DIR/events.out.tfevents.musec.  from_step 0 empties them; otherwise they
 * are truncated after that step and continued.  A missing file is created. */
musec_status ms_runlog_open(ms_error *e, const char *dir, int64_t from_step, ms_runlog **out);
/* Hands the line to the system, so that it survives the end of this process.  A loss of power may
 * lose what was written after the last sync: sync before writing a checkpoint. */
musec_status ms_runlog_write(ms_error *e, ms_runlog *r, const ms_log_line *line);
musec_status ms_runlog_sync(ms_error *e, ms_runlog *r);
/* time_s of the last line before this process; 0 if there was none. */
double       ms_runlog_time(const ms_runlog *r);
musec_status ms_runlog_close(ms_error *e, ms_runlog *r); /* syncs; accepts NULL */

typedef struct ms_computed { /* the device and dtypes of a run, by name */
    const char *device;      /* its kind, such as "cuda" */
    const char *precision;   /* of activations */
    const char *operands;    /* of the optimizer's products of float32 matrices */
} ms_computed;

typedef struct ms_summary {
    const char        *status; /* "done", "stalled", "diverged" (core/outcome.h), "interrupted" */
    const char        *reason; /* why it stalled or diverged; otherwise NULL */
    const char        *note;   /* that the clip has not converged; otherwise NULL */
    int64_t            steps, tokens, skipped;
    double             last_loss, best_loss, last_val_loss, best_val_loss; /* NaN: none */
    double             unigram_loss; /* of the training data; NaN: not computed */
    double             time_s;
    double             start_s; /* seconds until the first step of this process; NaN: none */
    ms_computed        computed;
    const ms_log_line *last_val;       /* the last validation of this process, or NULL */
    const json_t      *data, *resumed; /* identity of the data, and changes on resuming; or NULL */
    const json_t      *init;           /* origin of the initial weights; NULL: random ones */
} ms_summary;

musec_status ms_summary_write(ms_error *e, const char *dir, const ms_summary *s); /* summary.json */
/* Whether there is a summary with the same status and number of steps.  It knows more than a
 * process that made no step: the losses on each data set, and how long the start took. */
bool ms_summary_is_current(const char *dir, const ms_summary *s);

#endif
