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

#include "core/optimizers.h"
#include "core/text.h"
#include "linalg/linalg.h"

#define MS_PARAM_NAME_MAX 400 /* bytes: a name goes into the keys of a state file */
#define MS_STATES         3   /* most buffers that a base keeps */

static inline bool ms_spectral_clips(ms_spectral_fn fn)
{
    return fn == MS_SPECTRAL_HARD_CLIP || fn == MS_SPECTRAL_SOFT_CLIP;
}

/* ---- base optimizers (base_optimizers.c) --------------------------------------------------------------- */

typedef enum ms_proposal_mode {
    MS_PROPOSE,      /* update the state, propose from it */
    MS_PROPOSE_KEEP, /* propose the new momentum, but leave the state: the caller stores the clip */
    MS_PROPOSE_AHEAD, /* propose Nesterov's look-ahead from the state as it is */
    /* MS_PROPOSE_KEEP in two parts, with x: first x by a guess of max|g|, which is found on the
     * way, and nothing else; then, if the guess holds, the rest */
    MS_PROPOSE_GUESS,
    MS_PROPOSE_GUESSED,
} ms_proposal_mode;

/* Some matrices of a group at one step.  g and w lie in the caller's memory, as a list or one
 * strided matrix; state[i] and u are stacks. */
typedef struct ms_proposal {
    const musec_optim_config *cfg;
    int64_t                   t; /* 1 at the first step of this matrix */
    ms_mat                    g, w;
    ms_mat                    state[MS_STATES];
    /* out; state[0] itself where the base proposes that; data NULL: not wanted, only with x */
    ms_mat u;
    /* out, data NULL: none; else what is proposed, in 16 bits and times x.own, which is out too, by
     * the same pass: only bases that propose their state, without coupled decay */
    ms_mat           x;
    const double    *top_g;   /* with x: bounds of |entries| of g, those to note */
    const double    *scale_g; /* and those to take the scale from */
    ms_vec           seen;    /* out, MS_PROPOSE_GUESS: largest |entries| of g */
    double          *top;     /* bounds of state[0], in and, but for MS_PROPOSE_AHEAD and
                                 MS_PROPOSE_GUESS, as it will be */
    double           zero;    /* what the scale is of where all entries are 0 */
    double           coupled; /* weight decay to add to the gradient, 0 none */
    ms_proposal_mode mode;
} ms_proposal;

#define MS_DEFAULT_BASE "sgdm"  /* of optimizers whose base is an option */
#define MS_AUX_BASE     "adamw" /* updates embeddings, head and vectors */

typedef struct ms_base {
    const char *name;
    const char *states[MS_STATES + 1]; /* names of its buffers, NULL ends */
    musec_status (*propose)(ms_device *d, const ms_proposal *p);
    bool moments;        /* it reads beta1, beta2 and eps, and not beta */
    bool slow_average;   /* it reads alpha and beta3, and their warmups */
    bool proposes_state; /* what it proposes, without Nesterov, is its first buffer */
    /* The largest |entry| of a gradient that its buffers have room for, if they hold numbers up to
     * `top`; somebody stores in their place what has no entry above `kept`, or it is infinite. */
    double (*most)(const musec_optim_config *cfg, double kept, double top);
} ms_base;

extern const char ms_base_choices[];              /* the names of all base optimizers, "a|b|c" */
const ms_base    *ms_base_find(const char *name); /* NULL: there is none of this name */

/* Does the optimizer of this config, as the other options are, read the option `key` (with
 * hyphens)?  True also where that is not sure, and for other keys. */
bool ms_optim_reads(const musec_optim_config *cfg, const char *key);

/* config.c: like the public function, with words. */
musec_status ms_optim_config_set(ms_error *e, musec_optim_config *cfg, const char *key,
                                 const char *value);
/* The value as text that ms_optim_config_set reads back to the same bits. */
musec_status ms_optim_config_get(const musec_optim_config *cfg, const char *key, char *text,
                                 size_t bytes);
/* What its text stands for in this config: a threshold is a number or a rule, and a weight decay
 * has a number for each role. */
ms_value_kind ms_optim_config_kind(const musec_optim_config *cfg, const char *key);
/* The caller's, with defaults for what it does not have. */
musec_status ms_optim_config_take(ms_error *e, const musec_optim_config *from,
                                  musec_optim_config *cfg);
musec_status ms_optim_config_check(ms_error *e, const musec_optim_config *cfg);

/* ---- parameters and groups (params.c) -------------------------------------------------------- */

typedef struct ms_param {
    char        *name;
    musec_role   role;
    ms_mat       weight;
    ms_mat       copy;   /* data NULL: none; of the weight's shape and steps */
    musec_block *blocks; /* normalised: counts and group sizes filled in */
    int64_t      n_blocks, n_matrices;
    double       lr_factor;
    double       lr, weight_decay; /* its own; MUSEC_UNSET: the optimizer's */
    int64_t      t;                /* steps that it took part in */
    ms_mat       average;          /* data NULL unless epoch averages are kept */
    int64_t      guessed; /* elements of its gradient that were averaged on a guess, at this step */
} ms_param;

typedef struct ms_member { /* one matrix of a group */
    size_t  param;
    int64_t block, index; /* matrix `index` of that block */
    int64_t matrix;       /* its number within the parameter */
} ms_member;

typedef struct ms_group {
    int64_t             rows, cols, count;
    musec_dtype         dtype;
    musec_dtype         operands; /* of the operator's products */
    bool                aux;      /* element roles: AdamW with the aux settings */
    const ms_base      *base;
    ms_spectral_fn      spectral_fn;
    ms_member          *members;
    ms_mat              state[MS_STATES]; /* (count, rows, cols) each */
    double             *top;  /* (count) of ms_optim_rounds_at_once, see momentum.c; < 0: unknown */
    double             *last; /* (count) of ms_optim_guesses: max|G| of the last step; likewise */
    int                 own_e;   /* ms_typical_scale at this step */
    ms_mat              room;    /* at this step: for what all members propose; data NULL: none */
    bool                guessed; /* it was made on a guess, */
    const double       *seen;    /* (count) and this is max|G| */
    bool                ran;     /* at this step, with others */
    ms_gram_norms       gram_norms; /* (count) of ms_optim_remembers, on the device */
    musec_optim_report *reports;    /* one per member; matrix roles only */
    int64_t             chunk;      /* matrices mapped at once */
} ms_group;

typedef struct ms_attention {
    musec_attention shape;
    double         *logits; /* heads; NaN: none since the last step */
} ms_attention;

struct musec_optim {
    ms_device          *d;
    musec_optim_config  cfg, aux_cfg; /* aux_cfg: what the element roles see */
    const ms_optimizer *row;          /* of the registry */
    ms_spectral_fn      spectral_fn;  /* of the matrix roles */
    ms_param           *params;
    size_t              n_params;
    ms_group           *groups; /* made at the first step */
    size_t              n_groups;
    ms_attention       *attentions;
    size_t              n_attentions;
    bool                ready;
    int64_t             t, skipped;
    /* room for what calls on many matrices are told, in host memory */
    int64_t     n_ptrs;      /* matrices at most: of all blocks, or of all weights */
    ms_mat_ptr *ptrs;        /* (3, n_ptrs) where gradients, weights and copies lie */
    double     *numbers;     /* (2, n_ptrs) */
    double     *largest;     /* (3, n_ptrs) |elements|, see check_gradients.c */
    int64_t    *counted;     /* (2, n_params) where those of a parameter begin; -1: not asked */
    bool        guesses_fit; /* into the workspace: proposals of all groups at a time, */
    bool        kin_fit;     /* and what the operator takes for all that are kin */
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

musec_status ms_optim_prepare(musec_optim *opt); /* groups, state; once */
/* The groups that it would have now, without state: parameters may still be added to opt. */
musec_status ms_optim_draft(const musec_optim *opt, musec_optim *draft);
void         ms_optim_draft_free(musec_optim *draft);
/* Of a matrix that was not measured yet. */
musec_optim_report ms_report_empty(const musec_optim *opt, const ms_group *g, int64_t m);
/* What the operator's products on such matrices round their operands to. */
musec_dtype ms_optim_operands(const musec_optim *opt, musec_dtype dtype);
/* What the state of a group is kept in. */
musec_dtype ms_state_dtype(const musec_optim *opt, const ms_group *g);

/* ---- scratch (workspace.c) ------------------------------------------------------------------- */

/* That the operator takes for one matrix; with norms that are remembered, or without. */
uint64_t ms_map_bytes(const musec_optim_config *cfg, const ms_group *g, bool remembers);
/* How many matrices of a group are at work at a time. */
void ms_choose_chunk(const musec_optim *opt, ms_group *g);
/* What is done at once besides, once all chunks are known. */
void ms_choose_more(musec_optim *opt);

/* ---- a step (step.c, group.c, momentum.c, check_gradients.c, threshold.c, qk_clip.c, report.c) ------- */

typedef struct ms_step { /* what it is asked for */
    const musec_view *grads;
    double            lr_scale;
    bool              report; /* this step is measured */
} ms_step;

typedef enum ms_lies_in { MS_GRADS, MS_WEIGHTS, MS_COPIES } ms_lies_in;

/* Its learning rate, without lr_factor and the scale of a step, and its weight decay. */
double ms_param_lr(const musec_optim *opt, const ms_param *p);
double ms_param_decay(const musec_optim *opt, const ms_param *p);

const ms_param           *ms_member_param(const musec_optim *opt, const ms_group *g, int64_t m);
const musec_optim_config *ms_group_config(const musec_optim *opt, const ms_group *g);
ms_part ms_member_part(const musec_optim *opt, const ms_group *g, int64_t m, const ms_step *a,
                       ms_lies_in what);
/* Members first, first + 1, ..., each with its rows in one piece. */
ms_mat ms_member_list(const musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                      const ms_step *a, ms_lies_in what);
bool   ms_member_has_grad(const ms_group *g, int64_t m, const ms_step *a);
/* Do its rows lie in groups? */
bool ms_member_in_groups(const musec_optim *opt, const ms_group *g, int64_t m);

/* Is what it proposes rounded to 16 bits by the pass that averages?  And may that pass come first,
 * on a guess of what gradients are? */
bool ms_optim_rounds_at_once(const musec_optim *opt, const ms_group *g);
bool ms_optim_guesses(const musec_optim *opt, const ms_group *g);
/* And does its operator remember Gram matrices from step to step? */
bool ms_optim_remembers(const musec_optim *opt, const ms_group *g);
/* Do they, and may one operator map both at once?  A group is kin to itself, if it guesses. */
bool ms_optim_are_kin(const musec_optim *opt, const ms_group *g, const ms_group *other);
/* All groups that may: proposals into scratch; into tops, from *at on, max|G| of each member. */
musec_status ms_propose_guesses(musec_optim *opt, const ms_step *a, ms_vec tops, int64_t *at);
/* What the map is given of members first, first + 1, ...: *u, or *x where that is made at once. *u
 * is then made only where it is measured, or is the state. */
musec_status ms_make_proposal(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                              const ms_step *a, ms_mat *u, ms_mat *x);
/* Nesterov's, behind a clip that is carried; of u and x, what has no data is not wanted. */
musec_status ms_propose_ahead(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                              const ms_step *a, ms_mat u, ms_mat x);
/* For the guesses of the next step. */
void ms_remember_grads(const musec_optim *opt, ms_group *g, int64_t first, int64_t n);
/* log2 of the scales that the bounds of a group and its kin give, on average: of all, whatever is
 * mapped at once. */
int ms_typical_scale(const musec_optim *opt, const ms_group *g);

/* D of every matrix of the stack: a constant, or a vector in scratch. */
musec_status ms_threshold(musec_optim *opt, ms_mat x, ms_num *threshold);

/* The gradient of a parameter as a matrix. */
ms_mat ms_grad_mat(const ms_param *p, musec_view view);
typedef struct ms_bad_grad {
    size_t param;   /* n_params: none is */
    double largest; /* of its |elements|: a NaN or an infinity, or else more than `most` */
    double most;
} ms_bad_grad;

/* The first parameter whose gradient is not finite or too large for the state; under coupled decay
 * the weight is a part of the gradient.  Makes proposals on guesses.  Waits.  What it takes of the
 * scratch is the step's. */
musec_status ms_optim_find_bad(musec_optim *opt, const ms_step *a, ms_bad_grad *found);
/* Of |elements| of the gradient of one matrix, at the step that this was asked for. */
double ms_optim_grad_bound(const musec_optim *opt, const ms_member *m);

double ms_shape_factor(int rule, int64_t rows, int64_t cols);
double ms_optim_tol(const musec_optim_config *cfg); /* of ns_mode accurate */
/* What a map that is not carried writes; Muon's with operands of f16 has 16 bits. */
musec_dtype ms_result_dtype(const musec_optim *opt, const ms_group *g);
/* Of Muon. */
const ms_quintic_list *ms_optim_quintics(const musec_optim_config *cfg);
/* More than one stack only of groups that join. */
musec_status ms_optim_run_map(musec_optim *opt, const ms_group *g, ms_stacks x, ms_num threshold,
                              ms_report *report);
musec_status ms_qk_clip(musec_optim *opt);
void         ms_qk_forget(musec_optim *opt);     /* the logits of a step that is not taken */
int64_t ms_picked_epoch(const musec_optim *opt); /* whose weights are averaged; 0 is the first */

/* What the operators say of n matrices, in host memory. */
musec_status ms_report_paths(musec_optim *opt, int64_t n, ms_report **out);
void         ms_report_paths_free(ms_report *paths);
/* Measures members first, first + 1, ...: `before` is what was proposed, `after`
 * what was applied. */
void ms_report_members(musec_optim *opt, ms_group *g, int64_t first, ms_mat before,
                       ms_num threshold, ms_mat after, const ms_report *paths);

#endif
