/* trainer.h - the state of a training run, and the functions that the files of src/train share. */
#ifndef MS_TRAIN_TRAINER_H
#define MS_TRAIN_TRAINER_H

#include "core/lock.h"
#include "core/outcome.h"
#include "data/mixture.h"
#include "train/checkpoint.h"
#include "train/schedule.h"
#include "train/train.h"

/* What a checkpoint stores besides the tensors. */
typedef struct ms_progress {
    int64_t             step, tokens; /* done so far */
    ms_mixture_position position;     /* in the training data */
    double              first_loss;
    int64_t             too_high; /* consecutive steps whose loss was too high */
    double              last_loss, best_loss, last_val_loss, best_val_loss; /* NaN: none yet */
    double              lowest_gain; /* of a clip, the mean over a group; NaN: not measured */
    double              time_s;
    ms_loss_track       track;
} ms_progress;

struct ms_train {
    ms_train_setup  setup;
    ms_train_config cfg;
    ms_schedule     schedule;
    musec_ctx      *ctx;
    struct ms_comm *nccl;      /* setup.comm, where this run made it; or NULL */
    struct ms_comm *group;     /* of replicas (ranks.h), where this run made it; or NULL */
    ms_error        nccl_note; /* why several ranks with GPUs do not use NCCL */
    char            wanted[MS_TRAIN_DEVICE_NAME];  /* the device that was asked for */
    char            device_note[sizeof(ms_error)]; /* why no better device is used, or "" */
    ms_memory       memory;                        /* of the device, before the model was made */
    bool            made_out;                      /* setup.on_open made the run directory */
    ms_gpt         *gpt;
    musec_optim    *optim;
    musec_view     *grads; /* by the optimizer's index: those of this rank */
    struct ms_sums *sums;
    double         *records; /* of the losses of a step (gradients.h), then host memory for: */
    double         *losses;  /* of its micro-batches, on the device */
    /* Of a run on several ranks (ranks.h): owners by parameter, and the pieces of weights and
     * gradients; else NULL. */
    int                  *owner;
    struct ms_comm_piece *weight_pieces, *grad_pieces;
    size_t                n_pieces;
    size_t               *pieces_before; /* by number in the backward order, and at its end */
    int64_t               bucket;        /* bytes that go together, where pieces are no larger */
    struct ms_async      *async;
    int64_t              *tickets;            /* of the weights, by number in the backward order */
    size_t                weights_here;       /* from this number on: those after the last step */
    bool                  weights_stale;      /* nobody has sent them yet */
    double                busiest, mean_work; /* matrix work as dealt: milliseconds of a step */
    ms_mixture           *train, *val;
    ms_runlog            *runlog;
    int                   lock; /* on the run directory */
    ms_progress           progress;
    double               *max_logit, *pass_logit; /* (layers * heads) of the step, of a pass */
    ms_log_line           last_val;               /* the last step that was validated */
    char        diverged[sizeof(ms_error)];       /* why the run diverged before its end, or "" */
    char        reason[sizeof(ms_error)];         /* why the run ended as stalled or diverged */
    char        note[MS_GAIN_NOTE];               /* that the clip has not converged, or "" */
    double      unigram_loss;                     /* of the training data; NaN: not computed yet */
    double      resumed_s;                        /* seconds of training before this process */
    double      began;                            /* clock at the start of this process */
    double      started;                          /* clock at the first step of this process */
    double      start_s;     /* seconds until the first step was done; NaN: none was yet */
    int64_t     saved_step;  /* of the newest checkpoint; -1: none */
    bool        abandoned;   /* the current step or its validation was interrupted */
    bool        has_pending; /* The last step still has to be validated, */
    ms_log_line pending;     /* and this is its log line so far. */
    json_t     *data;        /* identity of the data (train.h); NULL: not known */
    json_t     *resumed;     /* changes on resuming; NULL: none */
    json_t     *init;        /* origin of the initial weights; NULL: random ones */
    char        data_dir[MS_PATH_MAX]; /* base of relative data paths, or "" */
};

/* ---- setup.c: creates the parts of a run ----------------------------------------------------- */

/* Opens device and data and creates model and optimizer; the weights are not set yet.  The model
 * takes batches of up to max_tokens tokens; 0: what the schedule needs. */
musec_status ms_train_build(ms_error *e, ms_train *t, int64_t max_tokens);
void         ms_train_teardown(ms_train *t);
/* Creates only what is in device memory: model and optimizer. */
musec_status ms_train_build_model(ms_error *e, ms_train *t, int64_t max_tokens);
void         ms_train_teardown_model(ms_train *t);
/* owner: of each parameter among the ranks of comm, as ms_train_deal says; NULL: this rank. */
musec_status ms_train_build_optim(ms_error *e, const ms_train_config *cfg, ms_gpt *gpt,
                                  musec_ctx *ctx, struct ms_comm *comm, const int *owner,
                                  musec_optim **out);
/* Opens the training and validation data that the schedule needs. */
musec_status ms_train_open_data(ms_error *e, ms_train *t);
/* Whether the optimizer needs the largest attention logits. */
bool ms_train_needs_logits(const ms_train_config *cfg);
/* Opens a device, the best one for "".  note: "cuda: there is no driver; using cpu", or "". */
musec_status ms_train_open_device(ms_error *e, const char *device, char note[sizeof(ms_error)],
                                  musec_ctx **out);
/* The dtype of activations on this device. */
musec_status ms_train_dtype(ms_error *e, const ms_train_config *cfg, const musec_ctx *ctx,
                            musec_dtype *out);
/* Draws the initial weights, or reads those of init-from. */
musec_status ms_train_init_weights(ms_error *e, ms_train *t);
/* Gives the embedding the head's state in the optimizer, before the first step in which they are
 * apart. */
musec_status ms_train_untie(ms_error *e, ms_train *t);
/* The device and the dtypes that `auto` stands for in this run. */
ms_computed ms_train_computed(const ms_train *t);
/* Returns `status`; a failure copies the message of the device or the library into `e`. */
musec_status ms_train_check(ms_error *e, const musec_ctx *ctx, musec_status status);
/* The settings of a checkpoint's run, checked. */
musec_status ms_train_checkpoint_config(ms_error *e, const ms_checkpoint *c, ms_train_config *out);

/* ---- memory.c: the memory of a run ----------------------------------------------------------- */

musec_status ms_train_measure(ms_error *e, const ms_train *t, ms_train_sizes *out);
enum { MS_MEMORY_ROWS = 10, MS_ADVICE_TEXT = 256 };
typedef struct ms_memory_row {
    const char *name;
    uint64_t    bytes;
} ms_memory_row;
/* The memory by purpose; the last row is the total. */
void ms_train_memory_rows(const ms_train_sizes *s, ms_memory_row rows[MS_MEMORY_ROWS]);
/* The bytes of the device's memory: on a GPU without what stays in the host's. */
uint64_t ms_train_device_bytes(const ms_train *t, const ms_train_sizes *s);
/* Prints the rows, what memory there was before the model was made, and whether that suffices. */
void ms_train_print_memory(const ms_train *t, const ms_train_sizes *s, FILE *to);
/* Fails where the model alone does not fit into this machine's memory and swap. */
musec_status ms_train_check_memory(ms_error *e, ms_train *t);
/* What needs most of the memory and what would lower it: "9.1 of them for ..." */
void ms_train_memory_advice(const ms_train *t, const ms_train_sizes *sizes, char *text,
                            size_t bytes);
/* Adds to the message of a failed device how much memory the run needs, if that is the cause, and
 * how to resume.  The run is over: its model may be destroyed. */
void ms_train_explain_failure(ms_error *e, ms_train *t, musec_status status);

/* ---- loop.c, outcome.c ----------------------------------------------------------------------- */

/* What this rank was asked for; others may have been asked for more. */
ms_stop ms_train_asked_to_stop(const ms_train *t);

/* The settings of the forward and backward passes of a step. */
ms_gpt_pass ms_train_pass(const ms_train *t, const ms_step_plan *plan);
/* How the run ends: diverged where t->diverged says so; after all steps by its losses and weights;
 * MS_OUTCOME_DONE where it is not known yet.  t->reason says why. */
musec_status ms_train_outcome(ms_error *e, ms_train *t, ms_outcome *out);

/* ---- state.c: the "state" of state.json ------------------------------------------------------ */

json_t *ms_train_state(const ms_train *t);
/* Checks that the state and the headers of the tensor files can be read. */
musec_status ms_train_check_state(ms_error *e, const ms_checkpoint *c);
musec_status ms_train_read_state(ms_error *e, ms_train *t, const ms_checkpoint *c);

/* Says whether this rank writes the files of the run. */
bool ms_train_writes(const ms_train *t);

/* ---- resume.c: checkpoints of a run ---------------------------------------------------------- */

musec_status ms_train_save(ms_error *e, ms_train *t);
typedef struct ms_restart {
    ms_checkpoint from;            /* step -1: there is none, the run starts at step 0 */
    bool          skipped_damaged; /* newer checkpoints are damaged */
} ms_restart;
/* Finds the checkpoint to resume from; close it with ms_checkpoint_close(&out->from).  A run that
 * has ended and kept no checkpoint cannot be resumed. */
musec_status ms_train_find_restart(ms_error *e, ms_train *t, ms_restart *out);
musec_status ms_train_restore(ms_error *e, ms_train *t, const ms_restart *r);
/* Loads a checkpoint that is open; the run directory is not changed. */
musec_status ms_train_load(ms_error *e, ms_train *t, const ms_checkpoint *c);

/* ---- origin.c: what a run was made from ------------------------------------------------------ */

/* Determines the identity of the open data, and the directory that their paths depend on. */
musec_status ms_train_identify_data(ms_error *e, ms_train *t);
/* Takes the origin from the checkpoint, and records what has changed since.  Other data under the
 * same name are an error. */
musec_status ms_train_record_changes(ms_error *e, ms_train *t, const ms_checkpoint *c,
                                     const ms_train_config *was);
/* Adds the origin to the state of a checkpoint. */
void ms_train_put_origin(const ms_train *t, json_t **state);

#endif
