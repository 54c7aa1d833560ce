/* optim.h - the optimizers of the C library: what musec.h says at its beginning holds here too.
 *
 *     musec_optim_config cfg;
 *     musec_optim       *opt;
 *     musec_optim_config_init(&cfg, sizeof cfg, "soft-musec");
 *     musec_optim_create(&opt, ctx, &cfg);
 *     for each weight:  musec_optim_add(opt, &(musec_param){ .name = .., .weight = .. }, NULL);
 *     for each step:    musec_optim_step(opt, grads, n_grads, 1.0);
 *     musec_optim_destroy(opt); */
#ifndef MUSEC_OPTIM_H
#define MUSEC_OPTIM_H

#include <musec/musec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimizers ------------------------------------------------------------------------------ */

/* What a parameter is for.  The first four are matrices, updated by the optimizer that the config
 * names; the others are updated element by element, by AdamW with the aux_ settings: embeddings,
 * the output head, and vectors such as biases and gains.  Nothing is guessed from names or shapes.
 * examples/two_layers.c trains a network with all of this. */
#define MUSEC_ROLE_MAP(X) /* name, code, spelling, is a matrix; append, never renumber */ \
    X(MATRIX, 0, "matrix", 1)                                                             \
    X(QK, 1, "qk", 1)                                                                     \
    X(VO, 2, "vo", 1)                                                                     \
    X(MLP, 3, "mlp", 1)                                                                   \
    X(EMBED, 4, "embed", 0)                                                               \
    X(HEAD, 5, "head", 0)                                                                 \
    X(VECTOR, 6, "vector", 0)
#define MUSEC_MATRIX_ROLES 4

typedef enum musec_role {
#define X(name, code, text, matrix) MUSEC_ROLE_##name = code,
    MUSEC_ROLE_MAP(X)
#undef X
} musec_role;

/* A part of a parameter that is one matrix to the optimizer (or `count` equal ones).  Row i lies in
 * group i / group_rows; element (b, i, j) is, counted from the parameter's first element,
 *     offset + b stride + (i / group_rows) group_step + (i % group_rows) row_step + j.
 * Rows of a fused weight: offset and rows.  Columns: offset and cols.  Heads as separate matrices:
 * count and stride.  Q out of rows that alternate q, k, v by head: group_rows and group_step.
 * Blocks must not overlap; elements in none of them are never touched. */
typedef struct musec_block {
    int64_t offset, rows, cols, row_step;
    int64_t group_rows, group_step; /* group_rows 0: one group */
    int64_t count, stride;          /* count 0 means 1 */
} musec_block;

/* Weights of 16 bits, bf16 or f16, on devices that have them: all of this build.  All arithmetic on
 * them is that of float32 weights, and so are their state, their options and their steps.  What 16
 * bits cannot hold is kept as state:
 *
 *   bf16   "low": the lower half of a float32 number whose upper half is the weight itself.  The
 *          two as one integer, (high << 16) + low with low from -32768 to 32767, are the bits of
 *          the float32 weight, exactly; the weight is that number rounded to nearest.
 *   f16    "master": the float32 weight, which the weight is rounded from at each step that
 *          changes it.
 *
 * A step of bf16 so reads and writes 8 bytes of each weight and keeps 2 of them, where a master
 * would make it 10 and 4; f16 has other exponents than float32 and no such halves.  Both start from
 * the weight as it is when state is first made (the first step, or a view, save or load of state).
 * Who overwrites a weight later finds a bf16 weight followed, within half a unit in its last place,
 * and a "master" not: write that too (musec_optim_state_view). */
typedef struct musec_param { /* start from { 0 } */
    const char        *name; /* unique; copied */
    musec_role         role;
    musec_view         weight; /* a stack of matrices is that many matrices (experts) */
    const musec_block *blocks; /* NULL: every matrix of the view is one; copied */
    int64_t            n_blocks;
    double             lr_factor; /* on the learning rate of this parameter; 0 means 1.  Rates
                                     and decays of its own: musec_optim_set_param() */
    musec_view copy; /* data NULL: none.  Of the weight's shape, ld and stride, in any dtype of
                                the device, apart from the weight: a step that changes the weight
                                leaves it there too, rounded.  The caller fills it first.  Weights
                                of 16 bits have none. */
} musec_param;

/* The choices of the config, in the order of their spellings on the command line; codes are ABI. */
typedef enum musec_threshold_rule {
    MUSEC_THRESHOLD_FIXED,    /* D = threshold */
    MUSEC_THRESHOLD_RMS,      /* D = threshold * |M|_F / sqrt(min(rows, cols)), per matrix, step */
    MUSEC_THRESHOLD_QUANTILE, /* D = that quantile of the singular values of M, estimated */
} musec_threshold_rule;
typedef enum musec_update_scale {
    MUSEC_SCALE_PAPER,
    MUSEC_SCALE_UNIT, /* the step is divided by D: a Muon learning rate carries over */
} musec_update_scale;
typedef enum musec_clip_form { MUSEC_CLIP_HARD, MUSEC_CLIP_SOFT } musec_clip_form;
typedef enum musec_ns_mode {
    MUSEC_NS_PAPER,
    MUSEC_NS_PAPER7,
    MUSEC_NS_FAST,
    MUSEC_NS_ACCURATE,
    MUSEC_NS_EXACT,
} musec_ns_mode;
typedef enum musec_ns_coeffs {
    MUSEC_COEFFS_KELLER,
    MUSEC_COEFFS_POLAR_EXPRESS,
    MUSEC_COEFFS_CANS,
    MUSEC_COEFFS_YOU,
    MUSEC_COEFFS_TURBO,
    MUSEC_COEFFS_CUBIC,
} musec_ns_coeffs;
typedef enum musec_decay_form {
    MUSEC_DECAY_DECOUPLED,    /* W <- (1 - lr wd) W, lr without the shape factor */
    MUSEC_DECAY_INDEPENDENT,  /* W <- (1 - wd) W */
    MUSEC_DECAY_LR2,          /* W <- (1 - lr^2 wd) W */
    MUSEC_DECAY_CAUTIOUS,     /* decoupled, where update and weight have no opposite signs */
    MUSEC_DECAY_CAUTIOUS_LR2, /* the same by lr_eff wd lr, lr_eff with all factors */
    MUSEC_DECAY_COUPLED,      /* G <- G + wd W */
    MUSEC_DECAY_AFTER,        /* as decoupled, but of the weight that the step has moved */
    MUSEC_DECAY_FRANK_WOLFE,  /* W <- (1 - lr) W, whatever wd is */
    /* W <- |W|_F times the direction of W - lr |W|_F U / |U|_F, whatever wd and the factors on the
     * update are */
    MUSEC_DECAY_HYPERBALL,
} musec_decay_form;
/* The factor on the update U of an m x n matrix. */
typedef enum musec_shape_rule {
    MUSEC_SHAPE_NONE,
    MUSEC_SHAPE_KELLER,                          /* sqrt(max(1, m / n)) */
    MUSEC_SHAPE_MOONLIGHT,                       /* 0.2 sqrt(max(m, n)) */
    MUSEC_SHAPE_MUP,                             /* sqrt(m / n) */
    MUSEC_SHAPE_RMS,                             /* sqrt(max(m, n)) */
    MUSEC_SHAPE_FIXED_RMS,                       /* 0.2 sqrt(m n) / |U|_F: an RMS of 0.2 */
    MUSEC_SHAPE_NORMUON = MUSEC_SHAPE_FIXED_RMS, /* its name before */
} musec_shape_rule;
typedef enum musec_momentum_form {
    MUSEC_MOMENTUM_EMA,   /* M <- (1 - beta) M + beta G */
    MUSEC_MOMENTUM_HEAVY, /* M <- (1 - beta) M + G */
} musec_momentum_form;
typedef enum musec_momentum_init { MUSEC_INIT_FIRST, MUSEC_INIT_ZERO } musec_momentum_init;
typedef enum musec_momentum_dtype { MUSEC_MOMENTUM_OWN, MUSEC_MOMENTUM_BF16 } musec_momentum_dtype;
/* What the singular values of the update direction become; `auto`: what the optimizer's name says.
 * sharp is soft with a sharpness of 4, unless that is set. */
typedef enum musec_function {
    MUSEC_FUNCTION_AUTO,
    MUSEC_FUNCTION_POLAR,
    MUSEC_FUNCTION_SOFT,
    MUSEC_FUNCTION_SHARP,
    MUSEC_FUNCTION_HARD,
} musec_function;
/* What the update is divided by after that, and scaled back to the Frobenius norm that it had. */
typedef enum musec_second_moment {
    MUSEC_SECOND_NONE,
    MUSEC_SECOND_ROWS,     /* the RMS of each row over time */
    MUSEC_SECOND_LONGER,   /* that of each row, or of each column if m < n */
    MUSEC_SECOND_ELEMENTS, /* that of each element */
} musec_second_moment;
/* Where ns_eps is: M / (|M|_F + eps), or M / max(|M|_F, eps). */
typedef enum musec_eps_form { MUSEC_EPS_ADDED, MUSEC_EPS_FLOOR } musec_eps_form;
/* Whose norm an update of Shampoo has. */
typedef enum musec_graft { MUSEC_GRAFT_ADAM, MUSEC_GRAFT_NONE } musec_graft;
typedef enum musec_nonfinite {
    MUSEC_NONFINITE_STOP,
    MUSEC_NONFINITE_SKIP,
    MUSEC_NONFINITE_DEFER, /* the device decides, and musec_optim_poll() asks it */
} musec_nonfinite;

/* Everything an optimizer can be told.  Fill with musec_optim_config_init(), which sets what the
 * row `name` defaults to, then change fields, or use musec_optim_config_set() with the names and
 * spellings of the command line; musec_optim_option() lists them with their meaning and default. */
typedef struct musec_optim_config {
    uint32_t    size; /* sizeof in the caller */
    int32_t     ns_iters;
    const char *name; /* the registry row, set by init; static storage */
    const char *base; /* the base optimizer, whose update the function is applied to */
    double      lr;
    double      beta; /* weighs the NEW gradient: M <- (1 - beta) M + beta G */
    double      threshold;
    int32_t     threshold_rule; /* musec_threshold_rule, and so on */
    int32_t     update_scale;
    int32_t     clip; /* spectra */
    int32_t     ns_mode;
    int32_t     ns_coeffs; /* muon */
    int32_t     decay_form;
    int32_t     nesterov; /* 0, 1 */
    int32_t     shape_rule;
    int32_t     momentum_form;
    int32_t     momentum_init; /* first: M = G at the first step */
    int32_t     nonfinite;
    int32_t     literal;                          /* 0, 1: ns_mode paper in the paper's own order */
    double      ns_tol;                           /* of ns_mode accurate; 0: beta / 100 */
    double      weight_decay[MUSEC_MATRIX_ROLES]; /* by musec_role */
    double      beta1, beta2, beta3, eps, alpha;  /* of optimizers with moments */
    int64_t     alpha_warmup, beta3_warmup;       /* ademamix: steps, 0 none */
    double      aux_lr, aux_beta1, aux_beta2, aux_eps, aux_weight_decay; /* embed, head, vector */
    double      qk_tau, qk_alpha;                                        /* muonclip */
    int64_t     avg_steps, avg_epochs; /* T and K of epoch averages; 0 none */
    uint64_t    seed;         /* of the epoch picked, of norm estimates, of rounding at random */
    int64_t     report_every; /* steps between full reports; 0 never */
    uint64_t    workspace;    /* bytes that one step may use at most, if it can; 0: what the device
                              has for it, 1 GiB on a CPU, 8 to 16 GiB on a GPU */
    int32_t     operands; /* the musec_dtype that operands of the operators' products are rounded
                             to, f32, bf16 or f16, for float32 weights; 0: f16 on a GPU, else f32 */
    int32_t     momentum_dtype; /* own: the weight's; bf16: of float32 weights, rounded at random */
    double  sharpness; /* of the clip: 2 soft, 4, 8, 16, 32, INFINITY hard; with ns_mode exact any
                              from 2 on; 0: as the optimizer's name and `clip` say */
    int32_t function;  /* musec_function */
    int32_t second_moment;      /* musec_second_moment */
    double  second_beta;        /* of its average; 0: 0.95 */
    double  second_eps;         /* added to its root; 0: 1e-10 */
    double  ns_eps;             /* of the norm that Newton-Schulz steps begin with; 0: 1e-7 */
    int64_t threshold_warmup;   /* steps in which D is divided by lr_scale, so that lr D stays */
    int32_t ns_eps_form;        /* musec_eps_form */
    int32_t reserved;           /* 0 */
    int64_t precondition_every; /* soap, shampoo: steps from one refresh of bases or roots to the
                                   next */
    int64_t max_precond_dim;    /* of a side; a longer one has the identity */
    double  precondition_beta;  /* of the averages of their factors; 0: beta2; 1: sums */
    double  fraction;           /* dion2: of the rows that a step takes */
    double  precondition_eps;   /* shampoo: added to eigenvalues */
    int32_t graft;              /* shampoo: musec_graft */
    int32_t reserved_2;         /* 0 */
} musec_optim_config;

/* sizeof in version 0.1: the least that is taken. */
#define MUSEC_OPTIM_CONFIG_SIZE_1 (offsetof(musec_optim_config, momentum_dtype) + sizeof(int32_t))

typedef struct musec_optim musec_optim; /* an optimizer and what it keeps for each matrix */

/* The optimizers by name, and the options of config_set by name: index 0, 1, ... until NULL. */
MUSEC_API const char *musec_optim_name(size_t index, const char **help);
MUSEC_API const char *musec_optim_option(size_t index, const char **values, const char **help);

MUSEC_API musec_status musec_optim_config_init(musec_optim_config *cfg, size_t size,
                                               const char *name);
MUSEC_API musec_status musec_optim_config_init_why(musec_optim_config *cfg, size_t size,
                                                   const char *name, char *why, size_t bytes);
/* key and value as on the command line: "threshold", "rms:0.5".  The second says what is wrong with
 * them: there is no option "treshold"; did you mean "threshold"? */
MUSEC_API musec_status musec_optim_config_set(musec_optim_config *cfg, const char *key,
                                              const char *value);
MUSEC_API musec_status musec_optim_config_set_why(musec_optim_config *cfg, const char *key,
                                                  const char *value, char *why, size_t bytes);

/* Does the optimizer of this config, as the other options are, read the option of this name, as
 * musec_optim_option() spells it?  1 or 0; also 1 where that is not sure. */
MUSEC_API int musec_optim_reads(const musec_optim_config *cfg, const char *key);

MUSEC_API musec_status musec_optim_create(musec_optim **out, musec_ctx *ctx,
                                          const musec_optim_config *cfg);
/* Before the first step, and before memory or state are asked for.  *index is the parameter's place
 * in `grads` of every step.  Parameters may lie in the same memory, as parts of a fused weight do,
 * but an element that a step changes belongs to one of them. */
MUSEC_API musec_status musec_optim_add(musec_optim *opt, const musec_param *param, size_t *index);

/* What one parameter has for itself, as a param group of PyTorch has: a learning rate and a weight
 * decay in place of the config's (lr and weight_decay for matrices, aux_lr and aux_weight_decay for
 * the others).  lr is multiplied by lr_factor and by the lr_scale of each step, so a schedule goes
 * for it too; what weight_decay means is the config's decay_form, and AdamW's for the others. */
typedef struct musec_param_config { /* fill with musec_param_config_init(), then change */
    uint32_t size;                  /* sizeof in the caller */
    uint32_t reserved;              /* 0 */
    double   lr;                    /* 0 or more; MUSEC_UNSET: the optimizer's [MUSEC_UNSET] */
    double   weight_decay;          /* likewise; 0: this parameter does not decay */
} musec_param_config;
#define MUSEC_UNSET               (-1.0)
#define MUSEC_PARAM_CONFIG_SIZE_1 (offsetof(musec_param_config, weight_decay) + sizeof(double))

/* size: sizeof *cfg. */
MUSEC_API musec_status musec_param_config_init(musec_param_config *cfg, size_t size);
/* Of the parameter with this index, from the next step on: right after musec_optim_add(), or
 * between two steps.  Replaces all that was set before.  Like the config, and unlike momentum, this
 * is no part of a state file: a program that goes on sets it again, before or after the load. */
MUSEC_API musec_status musec_optim_set_param(musec_optim *opt, size_t index,
                                             const musec_param_config *cfg);
/* What was set, MUSEC_UNSET where nothing was, to change a part of it. */
MUSEC_API musec_status musec_optim_get_param(const musec_optim *opt, size_t index,
                                             musec_param_config *cfg, size_t size);

/* The parameter lies elsewhere now, from the next step on: a view of the same shape, ld, stride and
 * dtype, whose contents the caller has moved; state stays.  copy: likewise of the param's copy;
 * data NULL: where it was, or none.  As for musec_optim_add(), no element belongs to two parameters
 * at the next step; in between they may, for parameters move one after another. */
MUSEC_API musec_status musec_optim_set_weight(musec_optim *opt, size_t index, musec_view weight,
                                              musec_view copy);

/* One step with lr * lr_scale.  grads: one view per parameter, of the weight's shape, ld and
 * stride; data NULL: no gradient, and the parameter is left untouched by the update, decay
 * included.  Its dtype is the weight's; or, for weights of f32, bf16 and f16, any of these, from
 * step to step, if the device has it.  With NaN or infinity in a gradient, or an entry so large
 * that the state would overflow (heavy-ball momentum: beta times the largest number; AdamW: its
 * root): policy stop returns MUSEC_ENONFINITE, skip counts and returns MUSEC_OK, defer returns
 * MUSEC_OK and counts later; weights and state stay as they were in every case. */
MUSEC_API musec_status musec_optim_step(musec_optim *opt, const musec_view *grads, size_t n_grads,
                                        double lr_scale);

/* What one step may be told beyond that.  Arrays have an entry for each parameter, n_grads of them,
 * in host memory, and are read before the call returns; NULL: no parameter has one.  Pointers to a
 * number in device memory (host memory on "cpu" and "ref") are read by the queue, after what was
 * queued before, and never written. */
typedef struct musec_step_args {  /* fill with musec_step_args_init(), then change */
    uint32_t            size;     /* sizeof in the caller */
    uint32_t            reserved; /* 0 */
    double              lr_scale; /* on all learning rates [1] */
    const double       *lr; /* in place of that of musec_optim_set_param() or the config, times
                                    lr_factor and lr_scale as that is; MUSEC_UNSET: not [NULL] */
    const double       *weight_decay; /* likewise */
    const double       *beta;  /* in place of the config's: 0..1; MUSEC_UNSET: not.  No part of
                                    AdamW, AdEMAMix and Lion, as the config's is not [NULL] */
    const float *const *lr_at; /* entries NULL, or one float32 in device memory, in place of lr.
                                    NaN, infinity or less than 0 there is not noticed [NULL] */
    const float *grad_scale;   /* one float32 in device memory, above 0, that gradients carry: they
                                    are divided by it [NULL] */
    const float *found_inf;    /* one float32 in device memory: not 0 skips the step, with all
                                    weights and state untouched, whatever the policy; the step
                                    counts as skipped [NULL] */
} musec_step_args;
#define MUSEC_STEP_ARGS_SIZE_1 (offsetof(musec_step_args, found_inf) + sizeof(const float *))

/* size: sizeof *args. */
MUSEC_API musec_status musec_step_args_init(musec_step_args *args, size_t size);
/* args NULL: as they are initialized. */
MUSEC_API musec_status musec_optim_step_with(musec_optim *opt, const musec_view *grads,
                                             size_t n_grads, const musec_step_args *args);

/* With the policy MUSEC_NONFINITE_DEFER the device decides whether a step is taken: it skips what
 * the policy skip would, and a step waits for nothing, once every parameter that has a gradient has
 * taken one.  (A first step waits: what momentum starts from depends on it.)  The numbers of steps
 * taken and skipped are known when this was called, which waits; until then a step counts as taken.
 * Options that need the host in between are MUSEC_ENOTSUP at create, with the reason: coupled
 * decay, epoch averages, muonclip, warmups of ademamix, ns_mode exact (or accurate in float32), a
 * threshold by quantile.  Other policies have nothing to say here and do not wait.
 *
 * On a GPU a deferred step that is like an earlier one, with all operands and the workspace at the
 * same addresses, is launched as one graph that the library has recorded; its bits are those of
 * any other step, and learning rates and weight decays may change. */
MUSEC_API musec_status musec_optim_poll(musec_optim *opt);

/* Says whether the step just taken, taken again with the same shapes and NULLs, could be captured
 * into a CUDA graph: 1 or 0, and why not (no policy defer, a rule or an operator that waits, memory
 * that is still growing, a report that is due).  In a graph the numbers of the call stay as they
 * were at its capture; what lies in device memory (lr_at, grad_scale, found_inf) is read anew by
 * each replay, as are the numbers of steps that AdamW divides by, which are counted there; and
 * musec_optim_poll() knows the steps of replays.  A graph has addresses in it: it is of no use once
 * a weight or gradient has moved, or another call has made the workspace of the context grow. */
MUSEC_API int musec_optim_can_capture(const musec_optim *opt, char *why, size_t bytes);

MUSEC_API void musec_optim_destroy(musec_optim *opt);

/* The weight of the new gradient from the next step on, 0..1: momentum may be warmed up. */
MUSEC_API musec_status musec_optim_set_beta(musec_optim *opt, double beta);

/* Bytes of workspace that a step needs at most, and of state that is kept; all parameters are
 * there.  A step takes its workspace as one piece when it begins.  A context that keeps it takes
 * this much at the first step; where an allocator of the caller's is set, a step that is not
 * measured (report_every) takes what it needs itself, which may be half. */
MUSEC_API musec_status musec_optim_workspace(musec_optim *opt, uint64_t *workspace,
                                             uint64_t *state);

/* What was chosen for every parameter and why, in lines for people.  Writes at most `bytes` with
 * the final NUL and returns the length of the whole, as snprintf does. */
MUSEC_API size_t musec_optim_describe(const musec_optim *opt, char *text, size_t bytes);

/* QK-Clip (muonclip): which rows of the weights are whose.  Head h has head_rows rows of q from
 * q_row + h q_step on, and its key those of group h / (heads / kv_heads) from k_row on, k_step
 * apart. MLA: the last rot_rows of each q head are rotary and scaled by gamma alone; the shared
 * rotary key is no part of k. */
typedef struct musec_attention {
    size_t  q, k; /* parameters, by index */
    int64_t heads, kv_heads;
    int64_t q_row, q_step, k_row, k_step;
    int64_t head_rows, k_head_rows; /* k_head_rows 0: as head_rows - rot_rows */
    int64_t rot_rows;               /* 0 unless MLA */
} musec_attention;

MUSEC_API musec_status musec_optim_add_attention(musec_optim *opt, const musec_attention *attention,
                                                 size_t *index);
/* The largest attention logit of each head (softmax scale included) of the forward pass, before
 * each step; NaN, or nothing since the last step: no limit is passed.  An infinite one is
 * MUSEC_EINVAL, for shrinking cannot mend it: the run has diverged.  Where heads share a key, the
 * largest logit of the group counts for all of it. */
MUSEC_API musec_status musec_optim_set_logits(musec_optim *opt, size_t attention,
                                              const double *max_logit, int64_t heads);

/* One matrix at the last measured step.  threshold, sigma1_over_d and share_above are 0 for
 * optimizers that do not clip; numbers of a matrix that is not finite are NaN. */
typedef struct musec_optim_report {
    const char *param;
    int64_t     block; /* which matrix of the parameter */
    int64_t     rows, cols;
    int64_t     step;         /* the step that the numbers are of; 0: none yet */
    char        path[32];     /* operator path taken */
    double      threshold;    /* D */
    double      update_norm2; /* of what the weight moved by, divided by -lr (decay not counted) */
    double      update_rms;
    double      update_erank;
    double      sigma1_over_d; /* of the momentum before clipping */
    double      share_above;   /* of its singular values above D */
    double      weight_norm2;
    double      update_gain; /* Frobenius norm of the operator's result over that of the exact
                                operator's: 1 where the iteration has converged; 0: no operator */
} musec_optim_report;

/* The matrices of all matrix-role parameters: index 0, 1, ... ; MUSEC_EINVAL behind the last, and
 * MUSEC_ENOMEM or MUSEC_EDEVICE if there was no memory to measure them or the device failed: the
 * step itself was taken.
 * Before the first step they are those of the parameters so far, and more may be added. */
MUSEC_API musec_status musec_optim_get_report(const musec_optim *opt, size_t index,
                                              musec_optim_report *report);
/* Steps taken, and steps skipped because a gradient was not finite. */
MUSEC_API int64_t musec_optim_steps(const musec_optim *opt);
MUSEC_API int64_t musec_optim_skipped(const musec_optim *opt);

/* The state of one matrix of the parameter (`block` as in its report) to host memory, dense, in the
 * weight's dtype: "momentum", "m", "v", "slow", "second", "average".  `bytes` are those of that
 * matrix; "second" of rows (columns) is one float64 for each.  Waits. */
MUSEC_API musec_status musec_optim_get_state(musec_optim *opt, size_t param, int64_t block,
                                             const char *state, void *host, size_t bytes);

/* The names of what is kept for a parameter: index 0, 1, ... until NULL.  "momentum"; "m", "v" and
 * "slow" of bases with moments; "second" of a second moment; "average" of epochs; "low" or "master"
 * of weights of 16 bits. */
MUSEC_API const char *musec_optim_state_name(const musec_optim *opt, size_t param, size_t index);
/* That state where it lies in device memory, to be read and written by the caller, until the
 * optimizer is destroyed.  "average", "low" and "master" have the weight's shape and element
 * order, with block 0; "low" is of MUSEC_I16.  The others are a stack of all the parameter's
 * matrices, with block -1 (EINVAL if these are not all of one shape), or one of them, by its
 * `block`; "second" of rows has one column, of columns one row.  The dtype is what it is stored
 * in: float32 for weights of 16 bits, bf16 with momentum_dtype, float64 for "second" of rows or
 * columns.
 *
 * The view may be kept.  What was written through it is taken up by the next step if, since the
 * step before, either this function was called for the parameter or musec_optim_state_changed(),
 * which queues nothing: norms and bounds that were derived from the old state are forgotten then.
 * State means nothing before the first step of a parameter, which starts from its gradient: see
 * musec_optim_set_steps(). */
MUSEC_API musec_status musec_optim_state_view(musec_optim *opt, size_t param, int64_t block,
                                              const char *state, musec_view *view);
MUSEC_API musec_status musec_optim_state_changed(musec_optim *opt, size_t param);
/* The steps that a parameter took part in, which the momentum's start and AdamW's corrections go
 * by; or, with param MUSEC_ALL, those of the optimizer, as musec_optim_steps(). */
#define MUSEC_ALL ((size_t)-1)
MUSEC_API musec_status musec_optim_get_steps(const musec_optim *opt, size_t param, int64_t *steps);
MUSEC_API musec_status musec_optim_set_steps(musec_optim *opt, size_t param, int64_t steps);

/* State to and from a safetensors file, keyed by parameter name.  Loading converts between momentum
 * forms and refuses, with the reason, what does not fit; then nothing is changed. */
MUSEC_API musec_status musec_optim_save(musec_optim *opt, const char *path);
MUSEC_API musec_status musec_optim_load(musec_optim *opt, const char *path);

#ifdef __cplusplus
}
#endif
#endif
