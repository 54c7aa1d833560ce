/* trainer.h - the state of a training run, and the functions that the files of src/train share. */
#ifndef MS_TRAIN_TRAINER_H
#define MS_TRAIN_TRAINER_H

#include "core/outcome.h"
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
    ms_loss_track       track;
} ms_progress;

struct ms_train {
    ms_train_setup  setup;
    ms_train_config cfg;
    ms_schedule     schedule;
    musec_ctx      *ctx;
    char            note[sizeof(ms_error)]; /* why it is not a better one; "" */
    ms_memory       memory;                 /* of the device, before the model took some */
    bool            made_out;               /* by setup.on_open */
    ms_gpt         *gpt;
    musec_optim    *optim;
    musec_view     *grads; /* by the optimizer's index */
    ms_mixture     *train, *val;
    ms_runlog      *runlog;
    int             lock; /* on the run directory */
    ms_progress     progress;
    double         *max_logit;                /* (layers * heads) of the step */
    ms_log_line     last_val;                 /* the last step that was validated */
    char            why[sizeof(ms_error)];    /* it diverged before its end; "" if not */
    char            reason[sizeof(ms_error)]; /* that, or why it ends as stalled or diverged */
    double          unigram_loss;             /* of the training data; NaN: not counted yet */
    double          resumed_s;                /* seconds of work before this process */
    double          began;                    /* clock when the work of this process began, */
    double          started;                  /* and at its first step */
    double          start_s;                  /* from the one until the other was over; NaN */
    int64_t         saved_step;               /* of the newest checkpoint, -1: none */
    bool            abandoned;                /* the step at hand, or its validation */
    bool            unvalidated;              /* the last step awaits its validation, */
    ms_log_line     awaiting;                 /* and this is what its line has so far */
    json_t         *data;                  /* which data, as train.h has it; NULL: not looked at */
    json_t         *resumed;               /* what was changed on the way; NULL: nothing */
    json_t         *init;                  /* which weights it began with; NULL: drawn ones */
    char            data_dir[MS_PATH_MAX]; /* that relative paths of data are found in; "" */
};

/* setup.c: device, model, optimizer and data as the config says; weights not drawn yet.
 * max_tokens: what the model has room for; 0: what the schedule asks for. */
musec_status ms_train_build(ms_error *e, ms_train *t, int64_t max_tokens);
void         ms_train_unbuild(ms_train *t);
/* Of these, what is in the device's memory; there is none of it yet. */
musec_status ms_train_build_model(ms_error *e, ms_train *t, int64_t max_tokens);
void         ms_train_unbuild_model(ms_train *t);
musec_status ms_train_build_optim(ms_error *e, const ms_train_config *cfg, ms_gpt *gpt,
                                  musec_ctx *ctx, musec_optim **out);
/* train and val; the schedule is made. */
musec_status ms_train_open_data(ms_error *e, ms_train *t);
/* Does the optimizer ask for the largest attention logits? */
bool ms_train_clips_logits(const ms_train_config *cfg);
/* device: "" for the best one present.  note: "cuda: there is no driver; using cpu", or "". */
musec_status ms_train_open_device(ms_error *e, const char *device, char note[sizeof(ms_error)],
                                  musec_ctx **out);
/* The dtype of activations. */
musec_status ms_train_dtype(ms_error *e, const ms_train_config *cfg, const musec_ctx *ctx,
                            musec_dtype *out);
/* The weights that a run begins with: drawn, or those that init-from names. */
musec_status ms_train_start_weights(ms_error *e, ms_train *t);
/* What the device made of the config's `auto`; of a run that is built. */
ms_computed ms_train_computed(const ms_train *t);
/* Passes a status of the device or the library on, with its words in `e` if it is a failure. */
musec_status ms_train_check(ms_error *e, const musec_ctx *ctx, musec_status status);

/* explain.c: the memory of the run, whatever its model has room for now. */
musec_status ms_train_measure(ms_error *e, const ms_train *t, ms_train_sizes *out);
/* What takes how much of it; the last row is the total. */
enum { MS_MEMORY_ROWS = 10 };
typedef struct ms_memory_row {
    const char *name;
    uint64_t    bytes;
} ms_memory_row;
void ms_train_memory_rows(const ms_train_sizes *s, ms_memory_row rows[MS_MEMORY_ROWS]);
void ms_train_tell_memory(const ms_train_sizes *s, FILE *to);

/* start.c: fails where the model alone has no place in this machine's memory and swap. */
musec_status ms_train_check_memory(ms_error *e, ms_train *t);
/* Calls on_open of a run that is built and will go on from `step`. */
musec_status ms_train_announce(ms_error *e, ms_train *t, int64_t step);

/* failure.c: what takes most of the memory, and what lowers that: "9.1 of them for ..." */
enum { MS_ADVICE_TEXT = 256 };
void ms_train_advise(const ms_train *t, const ms_train_sizes *sizes, char *text, size_t bytes);
/* Adds to the words of a device that failed what the run would have taken, if there is
 * not enough memory, and how to go on.  The run is over: its model may be gone. */
void ms_train_tell_failure(ms_error *e, ms_train *t, musec_status status);

/* loop.c: what the passes of a step are told. */
ms_gpt_pass ms_train_pass(const ms_train *t, const ms_step_plan *plan);

/* outcome.c: how a run ended.
 * As it stands after the step just made: diverged if t->why says so; of one that has made all its
 * steps by its losses and weights; otherwise done, as nothing can be said yet.  t->reason: why. */
musec_status ms_train_judge(ms_error *e, ms_train *t, ms_outcome *out);
/* A number in a text, with all its bits and a form for NaN, and back. */
json_t      *ms_train_real_json(double x);
bool         ms_train_read_real(const json_t *value, double *out);
void         ms_train_put_track(const ms_train *t, json_t *state); /* of a checkpoint */
musec_status ms_train_read_track(ms_error *e, const ms_checkpoint *c, ms_loss_track *out);

/* interrupt.c: stopping inside a step.
 * Is the step at hand to be abandoned? */
bool ms_train_stops_now(const ms_train *t);
/* The same for a pass of the model: t is a ms_train. */
bool ms_train_stops_pass(void *t);
/* Takes the run back to where the step at hand began. */
musec_status ms_train_abandon_step(ms_error *e, ms_train *t, const ms_progress *began);
/* The step at hand is made, but for its validation, which a run that goes on makes first. */
musec_status ms_train_abandon_validation(ms_error *e, ms_train *t, const ms_log_line *line);
/* Into and from the state of a checkpoint: the step that awaits its validation, if there is one. */
void         ms_train_put_awaiting(const ms_train *t, json_t *state);
musec_status ms_train_read_awaiting(ms_error *e, ms_train *t, const ms_checkpoint *c);

/* resume.c: checkpoints of a run. */
musec_status ms_train_save(ms_error *e, ms_train *t);
typedef struct ms_restart {
    ms_checkpoint from;        /* step -1: there is none, the run begins anew */
    bool          passed_over; /* newer ones that are damaged */
} ms_restart;
/* Where the run goes on, before it is built; to be closed with ms_checkpoint_close(&out->from).
 * One that has ended and kept no checkpoint cannot go on: that is an error. */
musec_status ms_train_find_restart(ms_error *e, ms_train *t, ms_restart *out);
musec_status ms_train_restore(ms_error *e, ms_train *t, const ms_restart *r);
/* From one that is open, without a word; the run directory stays as it is. */
musec_status ms_train_load(ms_error *e, ms_train *t, const ms_checkpoint *c);

/* origin.c: what a run is made from, and what was changed on its way.
 * The identity of the data that are open, and the directory that they depend on. */
musec_status ms_train_identify(ms_error *e, ms_train *t);
/* What the checkpoint knows of that, and what is another now that the run goes on from it at
 * progress.step.  Other data under the same name are an error. */
musec_status ms_train_trace(ms_error *e, ms_train *t, const ms_checkpoint *c,
                            const ms_train_config *was);
/* Into the state of a checkpoint. */
void ms_train_put_origin(const ms_train *t, json_t *state);

#endif
