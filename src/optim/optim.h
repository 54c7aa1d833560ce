/* optim.h - what the files of the optimizer share.
 *
 * Every optimizer is a base optimizer that computes an update direction from the gradient and its
 * own state, and a spectral function f of the direction's singular values:
 *
 *     direction, state <- base(gradient, state)
 *     update           <- f(direction)
 *     momentum         <- update, if the optimizer stores the clipped momentum
 *     weight           <- decay(weight) - lr * scale * update
 *
 * Parameters are cut into matrices (blocks).  Equal ones, of whatever parameter, form a group whose
 * state lies in contiguous stacks, so that one batched call works on all of them.  A group is
 * worked through in chunks that fit the workspace. */
#ifndef MS_OPTIM_OPTIM_H
#define MS_OPTIM_OPTIM_H

#include "comm/comm.h"
#include "core/optimizers.h"
#include "core/safetensors.h"
#include "core/text.h"
#include "linalg/linalg.h"

#define MS_PARAM_NAME_MAX 400 /* bytes: a name goes into the keys of a state file */
#define MS_STATES         8   /* state buffers of a matrix, at most */
#define MS_RATE_MAX       1e9 /* learning rates and decays, as the options have it */

static inline bool ms_spectral_clips(ms_spectral_fn fn)
{
    return fn == MS_SPECTRAL_HARD_CLIP || fn == MS_SPECTRAL_SOFT_CLIP;
}

/* ---- base optimizers (base_optimizers.c) ----------------------------------------------------- */

typedef enum ms_direction_mode {
    MS_UPDATE_STATE, /* updates the state and computes the direction from it */
    MS_KEEP_STATE,   /* computes the new momentum, but leaves the state: the clip will be stored */
    MS_LOOK_AHEAD,   /* computes Nesterov's look-ahead from the state as it is */
    MS_PREDICTED,    /* MS_KEEP_STATE into `scaled`, which observes max|G| in the same pass */
} ms_direction_mode;

/* One call of a base optimizer: some matrices of a group at one step.  The gradients and weights
 * lie in the caller's memory, as a pointer array or one strided matrix; the others are stacks. */
typedef struct ms_direction {
    const musec_optim_config *cfg;
    ms_direction_mode         mode;
    int64_t                   t;             /* 1 at the first step of these matrices */
    double                    coupled_decay; /* weight decay to add to the gradient, or 0 */
    ms_mat                    grad, weight;
    ms_mat                    state[MS_STATES];
    /* The update direction.  It is state[0] itself where the base's direction is its momentum.
     * Without data it is not wanted, which `scaled` alone allows. */
    ms_mat out;
    /* Without data it is not wanted.  Else it gets the same direction in 16 bits, times its scales,
     * which are an output too.  Only bases whose direction is their momentum can do that, without
     * coupled decay. */
    ms_scaled_mat scaled;
    ms_num        momentum_bound; /* with `scaled`: bounds of the |entries| of state[0] */
    ms_num        grad_absmax;    /* with `scaled`: those of the gradients as read, for the scale */
    const double *correct;        /* NULL, or correct1 and correct2 on the device (defer.c), */
    int64_t       correct_step;   /* the second so far behind the first */
    double        zero_scale;     /* what is scaled to 1 where both are 0 */
    double        grad_factor;    /* on the gradients as they are read */
    ms_vec        observed;       /* MS_PREDICTED: gets max|G| */
    /* Where `scaled` is made again: of which matrices, and the coefficients of M and G; or without
     * data */
    ms_vec redo, m_coef, g_coef;
} ms_direction;

#define MS_DEFAULT_BASE "sgdm"  /* of optimizers whose base is an option */
#define MS_AUX_BASE     "adamw" /* updates embeddings, head and vectors */

typedef struct ms_base {
    const char *name;
    const char *states[MS_STATES]; /* the names of its state buffers; NULL ends the list */
    musec_status (*direction)(ms_device *d, const ms_direction *p);
    const char *options;        /* those that it reads and some other base does not, "a|b|c" */
    bool direction_is_momentum; /* its direction, without Nesterov, is its first state buffer */
    /* The largest |entry| of a gradient that its state can hold, if that holds numbers up to
     * dtype_max.  Where the optimizer stores the clipped momentum, no entry of that is above
     * `threshold`; else it is infinite. */
    double (*max_grad)(const musec_optim_config *cfg, double threshold, double dtype_max);
    /* The shape and dtype of a state of a weight like `whole`; NULL: all states are like it. */
    ms_mat (*state_shape)(const musec_optim_config *cfg, const char *state, ms_mat whole);
    /* Bytes that its direction needs for one such matrix, but for the direction; NULL: none. */
    uint64_t (*workspace)(const musec_optim_config *cfg, ms_mat whole);
    bool waits; /* its direction waits for the device, or what it does depends on the step */
} ms_base;

extern const char ms_base_choices[];              /* the names of all base optimizers, "a|b|c" */
const ms_base    *ms_base_find(const char *name); /* NULL: there is none of this name */
/* Says whether an option is in the list of a base optimizer; base NULL: in that of any. */
bool ms_base_reads(const ms_base *base, const char *option);

/* The momentum of step t is keep M + add G. */
typedef struct ms_momentum_coefs {
    double keep, add;
} ms_momentum_coefs;
ms_momentum_coefs ms_momentum_coefs_at(const musec_optim_config *cfg, int64_t t);

/* ---- options (config.c, option_use.c) -------------------------------------------------------- */

/* Says whether the optimizer of this config, as the other options are, reads the option `key`
 * (with hyphens).  It is true also where that is not sure, and for other keys. */
bool ms_optim_reads(const musec_optim_config *cfg, const char *key);

/* Does what the public function does, and fills the error. */
musec_status ms_optim_config_set(ms_error *e, musec_optim_config *cfg, const char *key,
                                 const char *value);
/* Writes the value as text that ms_optim_config_set reads back to the same bits. */
musec_status ms_optim_config_get(const musec_optim_config *cfg, const char *key, char *text,
                                 size_t bytes);
/* What the text of an option stands for in this config: a threshold is a number or a rule, and a
 * weight decay has a number for each role. */
ms_value_kind ms_optim_config_kind(const musec_optim_config *cfg, const char *key);
/* Copies the caller's config, with defaults for the fields that it does not have. */
musec_status ms_optim_config_take(ms_error *e, const musec_optim_config *from,
                                  musec_optim_config *cfg);
musec_status ms_optim_config_check(ms_error *e, const musec_optim_config *cfg);

/* ---- parameters and groups (params.c, group.c) ----------------------------------------------- */

/* What this rank has of a parameter (share.c): all of it, nothing, or some of its rows, which are
 * all that `weight` and the state have then. */
typedef struct ms_share {
    int     owner;     /* of the whole; MS_SPLIT: every rank has some rows */
    int64_t first;     /* of the rows that are here */
    int64_t all_rows;  /* of the whole */
    bool    elsewhere; /* nothing is here; `weight` is the whole then */
} ms_share;

enum { MS_SPLIT = -1 };

typedef struct ms_param {
    char        *name;
    musec_role   role;
    ms_mat       weight;
    ms_mat       copy;   /* the compute copy, of the weight's shape and strides; it may lack data */
    ms_mat       rest;   /* what a weight of 16 bits lacks (weights.c); else without data */
    musec_block *blocks; /* with counts and group sizes filled in */
    int64_t      n_blocks, n_matrices;
    double       lr_factor;
    double       lr, weight_decay; /* its own, or MUSEC_UNSET: the optimizer's */
    int64_t      t;                /* steps that it took part in */
    bool         state_changed;    /* by the caller: what is derived from it is forgotten */
    ms_mat       average;          /* without data unless epoch averages are kept */
    ms_share     share;            /* of this rank */
} ms_param;

typedef struct ms_member { /* one matrix of a group */
    size_t  param;
    int64_t block, index; /* matrix `index` of that block */
    int64_t matrix;       /* its number within the parameter */
    int64_t slot;         /* its place in the state of this rank; -1: that is elsewhere */
} ms_member;

/* Equal matrices of all parameters, with their state. */
typedef struct ms_group {
    int64_t        rows, cols, count;
    int64_t        all_rows; /* of a member on all ranks together */
    int64_t        n_slots;  /* members whose state is on this rank */
    musec_dtype    dtype;
    musec_dtype    operands; /* what products of the spectral function round their operands to */
    bool           aux;      /* element roles: AdamW with the aux settings */
    const ms_base *base;
    ms_spectral_fn spectral_fn;
    ms_member     *members;
    const char    *states[MS_STATES + 1]; /* the names of its state buffers; NULL ends the list */
    ms_mat         state[MS_STATES];      /* (n_slots, rows, cols) each, but that of rows or columns
                                             has one number for each (second_moment.c) */
    /* (count) where ms_group_fuses_rounding: bounds of the |entries| of the momentum, see
     * scale_prediction.c; below 0 they are unknown. */
    double *momentum_bound;
    /* (count) where ms_group_predicts: max|G| of the last step; 0 where it is unknown. */
    double *last_absmax;
    /* (count) each, on the device, where a deferred step rounds: the same bounds, and max|G| as
     * predicted.  There a momentum_bound below 0 says that the device does not know it either. */
    ms_vec live_bound, live_prediction;
    /* (count) the quantile of the singular values that is D, over their root mean square, as last
     * estimated; 0: never. */
    double             *quantile;
    ms_gram_norms       gram_norms;      /* (count) of ms_group_caches_gram_norms, on the device */
    musec_optim_report *reports;         /* one per member; of matrix roles only */
    int64_t             chunk;           /* matrices that fit the workspace at a time */
    bool                predictions_fit; /* the workspace holds the directions of all members too */
} ms_group;

typedef struct ms_attention {
    musec_attention shape;
    double         *logits; /* heads; NaN: none since the last step */
} ms_attention;

struct musec_optim {
    ms_device             *d;
    ms_comm               *comm;         /* self, unless parameters were shared out */
    musec_optim_config     cfg, aux_cfg; /* aux_cfg: what the element roles see */
    const ms_optimizer    *row;          /* of the registry */
    ms_spectral_fn         spectral_fn;  /* of the matrix roles */
    double                 sharpness;    /* of that, if it clips, see linalg.h */
    ms_param              *params;
    size_t                 n_params;
    ms_group              *groups; /* made at the first step */
    size_t                 n_groups;
    ms_attention          *attentions;
    size_t                 n_attentions;
    bool                   ready;
    musec_status           unmeasured; /* why the last step that reports could not be measured: for
                                          want of memory, or the device failed */
    int64_t                t, skipped;
    double                 grad_factor; /* of the last step, on its gradients; 1 before the first */
    bool                   deferred;    /* the device decides whether a step is taken (defer.c) */
    bool                   live_stale;  /* the host's numbers of steps are the right ones */
    ms_vec                 live;        /* those of the device */
    double                *live_host;   /* host memory for what goes there and comes from there */
    uint64_t               last_waits, last_uploads, last_allocs; /* of the last step */
    bool                   last_taken;                            /* there was one */
    bool                   fusion_fits; /* the workspace holds fusible groups together */
    struct ms_step_host   *host;        /* memory that every step uses anew */
    struct ms_step_graphs *graphs;      /* of deferred steps (graph.c); NULL: none yet */
};

/* Part (block, index) of x, which has the weight's shape, as matrices: `groups` of them of
 * group_rows rows each, whose rows follow each other in the block. */
typedef struct ms_part {
    ms_mat  first; /* group 0 */
    int64_t groups, group_step;
} ms_part;
ms_part ms_block_part(ms_mat x, const musec_block *block, int64_t index);
ms_mat  ms_part_group(ms_part part, int64_t g);
/* The rows of a dense matrix that group g of the part corresponds to. */
ms_mat ms_dense_group(ms_mat dense, ms_part part, int64_t g);

musec_status ms_optim_prepare(musec_optim *opt); /* makes groups and state, once */
/* Makes the groups that it would have now, without state: parameters may still be added to opt. */
musec_status ms_optim_draft(const musec_optim *opt, musec_optim *draft);
void         ms_optim_draft_free(musec_optim *draft);
/* The report of a matrix that was not measured yet. */
musec_optim_report ms_report_empty(const musec_optim *opt, const ms_group *g, int64_t m);
/* What comes on top of ms_spectral_bytes() once, however many matrices there are. */
uint64_t ms_widening_bytes(const musec_optim *opt, const ms_group *g);
/* What products of the spectral function on such matrices round their operands to. */
musec_dtype ms_optim_operands(const musec_optim *opt, musec_dtype dtype);
/* The dtype that the state of a group is stored in. */
musec_dtype ms_state_dtype(const musec_optim *opt, const ms_group *g);

/* The learning rate of a parameter, without lr_factor and the scale of a step, and its decay. */
double ms_param_lr(const musec_optim *opt, const ms_param *p);
double ms_param_decay(const musec_optim *opt, const ms_param *p);

const ms_param           *ms_member_param(const musec_optim *opt, const ms_group *g, int64_t m);
const musec_optim_config *ms_group_config(const musec_optim *opt, const ms_group *g);
bool                      ms_group_stores_clipped(const musec_optim *opt, const ms_group *g);
/* The state buffers of matrices of this optimizer, or of embeddings and vectors (aux). */
void ms_state_names(const musec_optim_config *cfg, bool aux, const char *names[MS_STATES + 1]);
/* The shape and dtype of state k of a matrix. */
ms_mat ms_state_shape(const musec_optim *opt, const ms_group *g, int k);
/* Says whether the pass that averages the momentum also rounds it to 16 bits for the products. */
bool ms_group_fuses_rounding(const musec_optim *opt, const ms_group *g);
/* Says whether that pass may run on a predicted max|G|, before the gradients are checked. */
bool ms_group_predicts(const musec_optim *opt, const ms_group *g);
/* Says whether its operator caches norms of Gram matrices from step to step. */
bool ms_group_caches_gram_norms(const musec_optim *opt, const ms_group *g);
/* Says whether one call of the operator may take both.  A group that predicts is fusible with
 * itself. */
bool ms_groups_fusible(const musec_optim *opt, const ms_group *g, const ms_group *other);

typedef struct ms_step ms_step;

/* ---- shares of several ranks (share.c) ------------------------------------------------------- */

/* What belongs to no rank alone: every rank has the same parameters, in the same order, and the
 * weights of all of them.  A step takes the gradients of its own shares, of all micro-batches, and
 * changes the weights of these; the caller brings them to the other ranks.  All ranks call the same
 * functions: whether a step is taken, its reports and what is saved are the same on all. */

/* Adds a whole parameter, without blocks, of which this rank has what `owner` says. */
musec_status ms_optim_add_share(musec_optim *opt, ms_comm *comm, const musec_param *whole,
                                int owner, size_t *index);
/* Which parameters must have one owner, so that steps have the same bits on any number of ranks:
 * batch[i] is the first of those that go together with parameter i, mostly i itself.  Of an
 * optimizer that is not shared. */
musec_status ms_optim_batches(const musec_optim *opt, size_t *batch);
/* The share of this rank of a view of the whole parameter: a part of it, or without data. */
musec_view ms_share_view(const ms_param *p, musec_view whole);
/* The state of members first .. first + n - 1, which are here. */
ms_mat ms_state_of(const ms_group *g, int state, int64_t first, int64_t n);

typedef struct ms_bad_grad {
    size_t param;    /* n_params: none is bad */
    double absmax;   /* a NaN or an infinity, or else more than max_grad */
    double max_grad; /* what the state can hold */
} ms_bad_grad;
/* The first bad gradient of all ranks. */
musec_status ms_share_bad(musec_optim *opt, ms_bad_grad *bad);
/* The reports of a measured step, and the quantiles of thresholds, to all ranks. */
musec_status ms_share_reports(musec_optim *opt);
musec_status ms_share_quantiles(musec_optim *opt);
/* `each` numbers for every member of a group, from their owners to all ranks. */
musec_status ms_share_bounds(musec_optim *opt, const ms_group *g, double *known, int64_t each);
/* Completes a tensor of the state, with this many rows of row_bytes each, in the memory of rank 0:
 * `host` has this rank's rows in their place. */
musec_status ms_share_tensor(musec_optim *opt, const ms_share *share, int64_t rows,
                             size_t row_bytes, void *host);

/* ---- workspace (workspace.c) ----------------------------------------------------------------- */

/* Bytes that the operator needs for one matrix, with cached Gram norms or without. */
uint64_t ms_spectral_bytes(const musec_optim_config *cfg, const ms_group *g, bool cached);
/* Chooses how many matrices of each group are at work at a time, and whether predictions and fused
 * groups fit too. */
void ms_choose_chunks(musec_optim *opt);
/* Is a group stepped at once, on directions that may have been predicted? */
static inline bool ms_group_is_whole(const ms_group *g)
{
    return g->predictions_fit && g->chunk == g->count;
}
/* Takes the workspace of a step as a whole, so that it does not run out of it halfway. */
musec_status ms_reserve_workspace(ms_step *s);

/* ---- the context of a step ------------------------------------------------------------------- */

typedef enum ms_operand { MS_GRADS, MS_WEIGHTS, MS_COPIES, MS_OPERANDS } ms_operand;

/* weights.c: where a step finds a parameter's weights, and the copies that it writes with them. */
ms_mat ms_param_operand(const ms_param *p, ms_operand what);
/* What is kept of a weight of 16 bits: its name (NULL: nothing), bytes and memory. */
const char  *ms_rest_name(const ms_param *p);
uint64_t     ms_rest_bytes(const ms_param *p);
musec_status ms_take_rest(musec_optim *opt, ms_param *p);
/* Writes the weight of a member, in float32 if it is one of 16 bits, to a dense matrix. */
musec_status ms_widen_member(musec_optim *opt, const ms_member *m, ms_mat dense);
/* A part of a weight of 16 bits and of what is kept of it, to float32 and back.  narrow: a weight
 * without data is not written. */
musec_status ms_widen(musec_optim *opt, ms_mat weight, ms_mat rest, ms_mat dense);
musec_status ms_narrow(musec_optim *opt, ms_mat dense, ms_mat weight, ms_mat rest);
/* A weight of 16 bits to dense float32 in host memory; and what it lacks of such numbers back, for
 * the weight itself is the caller's.  fetch waits. */
musec_status ms_fetch_weight(musec_optim *opt, const ms_param *p, void *host);
musec_status ms_put_weight(musec_optim *opt, const void *host, const ms_param *p);

/* What a step knows of one group. */
typedef struct ms_group_step {
    int           scale_exp; /* log2 of the scales of its matrices, on average */
    ms_scaled_mat scaled;    /* the 16-bit directions of all members; or without data */
    bool          predicted; /* `scaled` was averaged on predictions, which hold */
    const double *observed;  /* (count) max|G| as that pass observed it; NULL: it was not run */
    double       *momentum_bound; /* (count) bounds of the momentum before this step */
    double       *grad_absmax;    /* (count) max|G|, as read, that the scales are taken from */
    ms_vec        live_absmax; /* (count) the same on the device, once predictions were checked */
    bool          done;        /* it was fused with an earlier group */
} ms_group_step;

enum { MS_STEP_NUMBERS = 2 }; /* found_inf and grad_scale */

/* Host memory of a step, allocated once.  Nothing in it lives from step to step. */
typedef struct ms_step_host {
    int64_t        capacity;              /* matrices: of all blocks, or of all weights */
    ms_mat_ptr    *pointers[MS_OPERANDS]; /* (capacity) each: where the operands of a call lie */
    double        *momentum_bound;        /* (capacity) of all groups, see ms_group_step */
    double        *grad_absmax;           /* (capacity) of all groups, see ms_group_step */
    double        *step_size, *decay;     /* (capacity) each, of a call */
    double        *absmax; /* (3 capacity + MS_STEP_NUMBERS) as downloaded, see check_gradients.c */
    double        *quantile;            /* (capacity) of a call, see threshold.c */
    int64_t       *grad_at, *weight_at; /* (n_params) each: where in absmax; -1: was not asked */
    int64_t       *observed;            /* (n_params) elements of the gradient observed so far */
    ms_group_step *groups;              /* (n_groups) */
} ms_step_host;

struct ms_step {
    musec_optim      *opt;
    const musec_view *grads;
    musec_step_args   args;
    double            grad_factor; /* on gradients as they are read; a prediction, until checked */
    ms_vec            inv_scale;   /* deferred, with a grad_scale: its inverse, (capacity) */
    ms_vec            take;        /* deferred: whether the step is taken, (capacity) or more */
    ms_vec            sizes, decays; /* rates of all matrices on the device, in a graph */
    bool              report;        /* this step is measured */
    ms_step_host     *host;
    ms_vec            absmax; /* (3 capacity + MS_STEP_NUMBERS) on the device */
    int64_t           n_absmax;
};

/* Members first .. first + n - 1 of a group, and what a step makes of them. */
typedef struct ms_span {
    ms_group      *g;
    ms_group_step *gs;
    int64_t        first, n;
    ms_mat         momentum;  /* their state[0], in the dtype of the weights */
    ms_mat         direction; /* what the spectral function is applied to; or without data: */
    ms_scaled_mat  scaled;    /* the same in 16 bits, with a scale for each matrix */
    ms_mat         update;    /* what the spectral function makes of it */
} ms_span;

/* ---- what a step is told (step_args.c) ------------------------------------------------------- */

/* Copies the caller's arguments, with defaults for those that it does not have, and checks them. */
musec_status ms_step_args_take(musec_optim *opt, const musec_step_args *from,
                               musec_step_args *args);
/* The learning rate of a parameter, without lr_factor and the scale of a step, and its decay: those
 * of the step, or else of the parameter. */
double ms_step_lr(const ms_step *s, size_t param);
double ms_step_decay(const ms_step *s, size_t param);
/* Where its learning rate lies in device memory, or NULL. */
const float *ms_step_lr_at(const ms_step *s, size_t param);
/* The beta of a member, and its config at this step: its group's, with that beta. */
double             ms_step_beta(const ms_step *s, const ms_group *g, int64_t m);
musec_optim_config ms_member_config(const ms_step *s, const ms_group *g, int64_t m);
/* Copies one float32 of the caller's to a number on the device. */
musec_status ms_read_float(musec_optim *opt, const float *from, ms_vec to);

ms_part ms_member_part(const ms_step *s, const ms_group *g, int64_t m, ms_operand what);
/* The pointer array of members first, first + 1, ..., each with its rows in one piece. */
ms_mat ms_member_list(const ms_step *s, const ms_group *g, int64_t first, int64_t n,
                      ms_operand what);
bool   ms_member_has_grad(const ms_step *s, const ms_group *g, int64_t m);
bool   ms_is_measured(const ms_step *s, const ms_group *g); /* the clip of a group, at this step */
bool   ms_group_has_grads(const ms_step *s, const ms_group *g); /* of all members */
/* Says whether the rows of a member lie in several groups. */
bool   ms_member_in_groups(const musec_optim *opt, const ms_group *g, int64_t m);
ms_mat ms_grad_mat(const ms_param *p, musec_view view);

/* ---- the phases of a step, in their order ---------------------------------------------------- */

/* step.c: queues a step whose workspace was taken; counts one that was queued. */
musec_status ms_queue_step(ms_step *s);
void         ms_count_step(ms_step *s);

/* graph.c: launches the graph of the step, which it may record before (*done), where a step like
 * this one came before.  `steady`: the last step may be captured, and this one is like it but for
 * the key. */
musec_status ms_repeat_step(ms_step *s, bool steady, bool *done);
uint64_t     ms_step_graphs_launched(const musec_optim *opt);
void         ms_step_graphs_free(musec_optim *opt);

/* scale_prediction.c: predicts max|G| of groups, takes memory for their directions, and averages
 * their momentum by these scales. */
musec_status ms_predict_scales(ms_step *s);
/* Compares predictions with what was observed, fixes the scales of groups that are still to be
 * averaged, and records what the next step predicts from. */
void ms_validate_scales(ms_step *s);
/* max|G| of a member, as observed by the averaging pass or as checked. */
double ms_observed_absmax(const ms_step *s, const ms_group *g, int64_t m);
/* The same on the device, of members of a predicted group from `first` on: says in p->redo which
 * are to be averaged again, and how, and updates their bounds and predictions. */
musec_status ms_validate_live_scales(ms_step *s, const ms_group *g, int64_t first, ms_direction *p);
/* Updates the bounds of members of a group on the device from their max|G|, and the predictions. */
musec_status ms_update_live_bounds(ms_step *s, const ms_group *g, int64_t first, ms_vec absmax);
/* Numbers of steps, bounds and predictions as they are now from the device, which waits; and the
 * bounds and predictions of all groups to it. */
musec_status ms_fetch_live(musec_optim *opt);
musec_status ms_send_live_bounds(musec_optim *opt);
/* Takes scratch for the 16-bit directions of n matrices of a group, and for their scales. */
musec_status ms_take_scaled(musec_optim *opt, const ms_group *g, int64_t n, ms_scaled_mat *scaled);

/* momentum.c: averages the momentum of all groups whose scales are predicted. */
musec_status ms_average_predicted(ms_step *s);
/* The weights of n members in the dtype of their state, for what has no use for halves of them. */
musec_status ms_wide_weights(ms_step *s, const ms_group *g, int64_t first, int64_t n, ms_mat *out);
/* Behind a deferred decision: checks predictions on the device, and averages again where they do
 * not hold. */
musec_status ms_average_again(ms_step *s);
/* Updates the state of a span and computes its direction. */
musec_status ms_update_momentum(ms_step *s, ms_span *span);
/* Computes the direction of a predicted span in full precision as well, to be measured. */
musec_status ms_compute_direction(ms_step *s, ms_span *span);
/* Nesterov behind a clip that is stored: computes the direction from the clipped momentum. */
musec_status ms_look_ahead(ms_step *s, ms_span *span);

/* check_gradients.c: finds the first parameter whose gradient is not finite or too large for the
 * state; under coupled decay the weight is a part of the gradient.  Waits.  *take: all are fine.
 * Else the step is skipped or refused, as the option `nonfinite` says. */
musec_status ms_check_gradients(ms_step *s, bool *take);
/* access.c: the group of a matrix, and its place there; NULL: there is none. */
const ms_group *ms_find_member(const musec_optim *opt, size_t param, int64_t matrix, int64_t *m);
/* defer.c: refuses configs that cannot be deferred; memory; the numbers of steps to the device. */
musec_status ms_defer_check(ms_device *d, const musec_optim *opt);
musec_status ms_take_live(musec_optim *opt);
/* Queues the decision about a step and its count.  *take: the step goes on, under the guard of the
 * device where that has a queue. */
musec_status  ms_defer_decide(ms_step *s, bool *take);
bool          ms_step_is_steady(const musec_optim *opt); /* another one like it may be captured */
musec_status  ms_poll_live(musec_optim *opt); /* the numbers of steps to the host; waits */
const double *ms_live_correct(const musec_optim *opt, size_t param, int64_t *step);
/* check_gradients.c: queues max|G| of the gradients; the largest |entry| that a member may have. */
musec_status ms_ask_gradients(ms_step *s);
double       ms_max_grad(const ms_step *s, const ms_group *g, int64_t m);
/* access.c: has the caller changed state?  Forgets what was derived from it. */
bool         ms_has_changes(const musec_optim *opt);
musec_status ms_take_changes(musec_optim *opt);
/* A bound of max|G| of one matrix, of those that were checked. */
double ms_checked_absmax(const ms_step *s, const ms_member *m);

/* spectral.c: the updates of fusible spans, or of one. */
musec_status ms_apply_spectral(ms_step *s, ms_span *spans, int n_spans, ms_num *threshold,
                               ms_report *paths);
/* The same for the look-ahead, by the threshold that is known and without what is cached. */
musec_status ms_apply_spectral_ahead(ms_step *s, ms_span *spans, int n_spans, ms_num threshold);
musec_status ms_run_spectral(musec_optim *opt, const ms_group *g, ms_stacks x, ms_num threshold,
                             ms_report *report);
double       ms_optim_tol(const musec_optim_config *cfg); /* of ns_mode accurate */
/* The dtype of updates that are not stored; Muon's with operands of f16 have 16 bits. */
musec_dtype ms_update_dtype(const musec_optim *opt, const ms_group *g);
/* config_check.c: the spectral function of the matrix roles. */
ms_spectral_fn ms_optim_function(const musec_optim_config *cfg);
double         ms_optim_sharpness(const musec_optim_config *cfg); /* p of its clip, see linalg.h */
/* The ns_mode that takes effect: of the hard clip, the paper's way is the exact one. */
int ms_optim_ns_mode(const musec_optim_config *cfg);
/* May its base be another one?  It applies a function, and stores nothing of the result. */
bool ms_optim_composes(const musec_optim_config *cfg);
/* The quintic polynomials of Muon's Newton-Schulz steps, and how they begin. */
ms_quintic_list ms_optim_quintics(const musec_optim_config *cfg);
/* threshold.c: D of every matrix of the inputs, a constant or a vector in scratch.  By quantile,
 * `quantiles` has D over the root mean square for each; NULL: it is estimated now, which waits. */
musec_status ms_threshold(musec_optim *opt, const ms_stacks *x, const double *quantiles,
                          ms_num *threshold);
/* The same for the directions x of spans, with quantiles as estimated at this step or before. */
musec_status ms_step_threshold(ms_step *s, const ms_span *spans, int n_spans, const ms_stacks *x,
                               ms_num *threshold);

/* Writes the ratio of one matrix for a state file; false: there is none. */
bool ms_quantile_text(const musec_optim *opt, const ms_group *g, int64_t m, char *text,
                      size_t bytes);
/* Reads it back, unless the file has none or that of another quantile. */
musec_status ms_quantile_read(musec_optim *opt, const ms_safetensors *s, const char *key,
                              double *ratio);

/* second_moment.c: the state that second-moment keeps of a group. */
#define MS_SECOND_STATE "second"
double ms_second_beta(const musec_optim_config *cfg);              /* of its average */
ms_mat ms_second_shape(const musec_optim *opt, const ms_group *g); /* no data, no strides */
/* Bytes that it needs for one matrix on top of the update. */
uint64_t ms_second_bytes(const musec_optim *opt, const ms_group *g);
/* Divides the updates of a span by it, if the optimizer does. */
musec_status ms_divide_by_second(ms_step *s, ms_span *span);

/* update.c: decays the weights of a span and subtracts the updates. */
musec_status ms_update_weights(ms_step *s, const ms_span *span, ms_num threshold);
/* The factor on the update of a matrix, but for what only the device knows, and its decay. */
void   ms_rates_of(const ms_step *s, const ms_group *g, int64_t m, double *size, double *decay);
double ms_shape_factor(int rule, int64_t rows, int64_t cols);
/* Bytes that decay-form hyperball needs for one matrix. */
uint64_t ms_ball_bytes(const musec_optim *opt, const ms_group *g);
/* Takes the weights into the epoch's average, before a step changes them. */
musec_status ms_update_averages(musec_optim *opt);
int64_t ms_picked_epoch(const musec_optim *opt); /* whose weights are averaged; 0 is the first */

/* qk_clip.c */
musec_status ms_qk_clip(musec_optim *opt);
void         ms_qk_forget(musec_optim *opt); /* drops the logits of a step that is not taken */

/* report.c: what the operators say of n matrices, in host memory. */
musec_status ms_report_paths(musec_optim *opt, int64_t n, ms_report **out);
void         ms_report_paths_free(ms_report *paths);
/* Measures the direction and the update of a span. */
void ms_report_span(const ms_step *s, const ms_span *span, ms_num threshold,
                    const ms_report *paths);

#endif
