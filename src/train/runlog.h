/* runlog.h - what a run leaves behind while it goes: log.jsonl, TensorBoard events, summary.json.
 *
 * log.jsonl has a line a step:
 *   {"step": 60, "tokens": 491520, "epoch": 0, "loss": 2.31, "objective": 2.31, "val_loss": 2.4,
 *    "lr": 0.02, "tok_s": 9000, "time_s": 55.1, "max_logit": 7.2,
 *    "groups": {"qk": {"w_norm": ..., "u_norm": ..., "u_rms": ..., "u_erank": ...,
 *               "u_gain": ..., "sigma1_over_d": ..., "share_above": ...}, "vo": ..., "mlp": ...},
 *    "ms": {"data": 0.1, "model": 700, "optim": 40, "rest": 3}}
 * Of several sets of data, "val_losses": {"NAME": ...} has each one's.  "skipped": N counts the
 * steps so far that the optimizer left out, once there is one.  The last line of a run that stalled
 * or diverged says so: "status": "stalled".
 * val_loss and groups stand where they were measured; a number that is not finite is null.  All but
 * tok_s, time_s and ms is the same for the same run. */
#ifndef MS_TRAIN_RUNLOG_H
#define MS_TRAIN_RUNLOG_H

#include <jansson.h>
#include <stdbool.h>

#include "data/mixture.h"

enum { MS_GROUP_QK, MS_GROUP_VO, MS_GROUP_MLP, MS_GROUPS };

typedef struct ms_group_stats { /* the largest over the group's matrices (w_norm, u_norm,
                                   sigma1_over_d), the mean (the others) */
    double w_norm, u_norm, u_rms, u_erank, u_gain, sigma1_over_d, share_above;
} ms_group_stats;

typedef struct ms_log_line {
    int64_t        step, tokens, epoch; /* step: 1 after the first */
    int64_t        skipped;             /* steps so far that the optimizer left out */
    double         loss, objective, lr, max_logit;
    bool           has_val, has_groups;
    double         val_loss; /* of all sets, by their weights */
    int            n_val_sets;
    const char    *val_names[MS_SETS];
    double         val_losses[MS_SETS];
    ms_group_stats groups[MS_GROUPS];
    double         tok_s, time_s;
    double         ms_data, ms_model, ms_optim, ms_rest;
    const char    *status; /* the run ends here as "stalled" or "diverged"; otherwise NULL */
} ms_log_line;

typedef struct ms_runlog ms_runlog;

/* Opens DIR/log.jsonl and DIR/events.out.tfevents.musec.  from_step 0 begins them anew; otherwise
 * what they hold of later steps is cut off, and they go on.  One that is not there begins anew. */
musec_status ms_runlog_open(ms_error *e, const char *dir, int64_t from_step, ms_runlog **out);
/* After it the line is the system's: no end of this process can lose it.  A loss of power can, but
 * not what was written before the last sync: call that before a checkpoint. */
musec_status ms_runlog_write(ms_error *e, ms_runlog *r, const ms_log_line *line);
musec_status ms_runlog_sync(ms_error *e, ms_runlog *r);
/* time_s of the last line that was kept when the log was taken up; 0 if none was. */
double       ms_runlog_time(const ms_runlog *r);
musec_status ms_runlog_close(ms_error *e, ms_runlog *r); /* syncs; accepts NULL */

typedef struct ms_computed { /* what `auto` became: names */
    const char *device;      /* its kind, "cuda" */
    const char *precision;   /* of activations */
    const char *operands;    /* of the operator's products on float32 matrices */
} ms_computed;

typedef struct ms_summary {
    const char        *status; /* "done", "stalled", "diverged" (core/outcome.h), "interrupted" */
    const char        *reason; /* of "stalled" and "diverged", or NULL */
    int64_t            steps, tokens, skipped; /* skipped: of the steps */
    double             last_loss, best_loss, last_val_loss, best_val_loss; /* NaN: none */
    double             unigram_loss; /* of the training data; NaN: it was not counted */
    double             time_s;
    double             start_s; /* until the first step of this process was over; NaN: none */
    ms_computed        computed;
    const ms_log_line *last_val; /* the last validation of this process, for its sets; or NULL */
    const json_t      *data, *resumed; /* which data, what was changed on the way; or NULL */
    const json_t      *init;           /* which weights it began with; NULL: drawn ones */
} ms_summary;

musec_status ms_summary_write(ms_error *e, const char *dir, const ms_summary *s); /* summary.json */
/* Is there one that ends so, after as many steps?  Then it knows more than a process that made none
 * of them: the losses of each set, and how long the start took. */
bool ms_summary_is_current(const char *dir, const ms_summary *s);

#endif
