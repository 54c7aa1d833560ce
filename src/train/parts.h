/* parts.h - what the files of a run share: its parts, and how they come to be. */
#ifndef MS_TRAIN_PARTS_H
#define MS_TRAIN_PARTS_H

#include "data/lock.h"
#include "data/mixture.h"
#include "train/checkpoint.h"
#include "train/schedule.h"
#include "train/train.h"

/* What a checkpoint keeps beside the tensors. */
typedef struct ms_progress {
    int64_t             step, tokens; /* done */
    ms_mixture_position position;     /* of the training data */
    double              first_loss;
    int64_t             too_high; /* steps in a row with a loss that is */
    double              last_loss, best_loss, last_val_loss, best_val_loss; /* NaN: none */
    double              time_s;
} ms_progress;

struct ms_train {
    ms_train_setup  setup;
    ms_train_config cfg;
    ms_schedule     schedule;
    musec_ctx      *ctx;
    ms_gpt         *gpt;
    musec_optim    *optim;
    musec_view     *grads; /* by the optimizer's index */
    ms_mixture     *train, *val;
    ms_runlog      *runlog;
    int             lock; /* on the run directory */
    ms_progress     progress;
    double         *max_logit;             /* (layers * heads) of the step */
    ms_log_line     last_val;              /* the last step that was validated */
    char            why[sizeof(ms_error)]; /* it diverged; "" if not */
    double          resumed_s;             /* seconds of work before this process */
    double          started;               /* clock at its first step */
    int64_t         saved_step;            /* of the newest checkpoint, -1: none */
};

/* setup.c: device, model, optimizer and data as the config says; weights not drawn yet.
 * max_tokens: what the model has room for; 0: what the schedule asks for. */
musec_status ms_train_build(ms_error *e, ms_train *t, int64_t max_tokens);
void         ms_train_unbuild(ms_train *t);
musec_status ms_train_build_optim(ms_error *e, const ms_train_config *cfg, ms_gpt *gpt,
                                  musec_ctx *ctx, musec_optim **out);
/* Does the optimizer ask for the largest attention logits? */
bool ms_train_clips_logits(const ms_train_config *cfg);
/* Passes a status of the device or the library on, with its words in `e` if it is a failure. */
musec_status ms_train_check(ms_error *e, const musec_ctx *ctx, musec_status status);

/* resume.c: checkpoints of a run. */
musec_status ms_train_save(ms_error *e, ms_train *t);
musec_status ms_train_restore(ms_error *e, ms_train *t);

#endif
