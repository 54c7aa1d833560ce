/* musec.h - spectral clipping of matrices, and the optimizers built on it.
 *
 * This header is the manual of the C library.  In short:
 *
 *     musec_ctx *ctx;
 *     musec_clip_config cfg;
 *     musec_ctx_create(&ctx, "cpu");
 *     musec_clip_config_init(&cfg, sizeof cfg, "fast");
 *     cfg.threshold = 0.25;
 *     musec_clip(ctx, &cfg, in, out, NULL);
 *     musec_ctx_destroy(ctx);
 *
 * Rules that hold everywhere:
 *   - What can fail returns a musec_status; musec_ctx_error() says the same in words.  Calls that
 *     have no context come in a second form, ..._why(..., char *why, size_t bytes), which writes
 *     the words to `why`, cut to `bytes` (1024 are always enough), or "" if there is nothing to
 *     say; why may be NULL.
 *   - A call that is refused (EINVAL, ENONFINITE, ENOTSUP) has written nothing.
 *   - The library never prints, never exits and keeps no global state.  A context belongs to one
 *     thread at a time; different contexts may work in different threads.  One exception: making a
 *     context "cpu" leaves BLIS, and an OpenBLAS with threads of its own, with one thread for the
 *     whole process, because they have no other way not to start theirs in each of ours.  A caller
 *     that uses such a BLAS too may call openblas_set_num_threads() between its own work and ours.
 *   - A context "cpu" has threads of its own: as many as OMP_NUM_THREADS says, else one for each
 *     core that the process may use (musec_ctx_set_threads).  They sleep when there is no work.
 *     Results do not depend on their number, nor on how matrices are batched into stacks.
 *   - Numbers in options and files have a decimal point, whatever locale the caller is in.
 *   - What was made with a context must be destroyed before it.
 *   - A program for a GPU differs in where matrices lie and in when it waits: see "on a GPU".
 *   - Configs carry their size, so that a program goes with other versions of the library than the
 *     one that it was built with.  Fields are only ever added, at the end, and 0 is the default of
 *     those.  Configs of older programs are taken, from version 0.1 on (MUSEC_..._SIZE_1), with
 *     defaults for what they lack; those of newer ones as long as the fields that this library does
 *     not know are 0, else the call is MUSEC_ENOTSUP.  Other structs do not change. */
#ifndef MUSEC_MUSEC_H
#define MUSEC_MUSEC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MUSEC_API __attribute__((visibility("default")))
#else
#define MUSEC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version and status ---------------------------------------------------------------------- */

#define MUSEC_VERSION_MAJOR 0
#define MUSEC_VERSION_MINOR 1
#define MUSEC_VERSION_PATCH 0

/* The version of the library at run time, "MAJOR.MINOR.PATCH". */
MUSEC_API const char *musec_version(void);

#define MUSEC_STATUS_MAP(X) /* makes enum, names, texts; codes are ABI: append, never renumber */ \
    X(OK, 0, "ok")                                                                                \
    X(EINVAL, 1, "an argument is outside its documented range")                                   \
    X(EDEVICE, 2, "the device or its library failed")                                             \
    X(ENOMEM, 3, "not enough memory")                                                             \
    X(ENONFINITE, 4, "the input holds a NaN or an infinity")                                      \
    X(EIO, 5, "a file could not be read or written")                                              \
    X(EFORMAT, 6, "a file does not have the expected format")                                     \
    X(ENOTSUP, 7, "this build or device does not support it")

typedef enum musec_status {
#define X(name, code, text) MUSEC_##name = code,
    MUSEC_STATUS_MAP(X)
#undef X
} musec_status;

MUSEC_API const char *musec_status_name(musec_status status); /* "EINVAL"; never NULL */
MUSEC_API const char *musec_status_text(musec_status status); /* the words above; never NULL */

/* ---- matrices -------------------------------------------------------------------------------- */

#define MUSEC_DTYPE_MAP(                                                        \
    X) /* name, code, spelling, bytes; codes are ABI: append, never renumber */ \
    X(F32, 1, "f32", 4)                                                         \
    X(F64, 2, "f64", 8)                                                         \
    X(BF16, 3, "bf16", 2)                                                       \
    X(F16, 4, "f16", 2)

typedef enum musec_dtype {
#define X(name, code, text, bytes) MUSEC_##name = code,
    MUSEC_DTYPE_MAP(X)
#undef X
} musec_dtype;

/* A stack of `count` equal row-major matrices that the CALLER owns, in the memory of the ctx's
 * device: `data` is a pointer from malloc for "cpu", from cudaMalloc for "cuda".  Passed by value,
 * never freed by us; must live until the next musec_ctx_sync(). */
typedef struct musec_view {
    void       *data;
    int64_t     rows, cols, ld; /* ld: elements from one row to the next, >= cols */
    int64_t     count, stride;  /* stride: elements from one matrix to the next */
    musec_dtype dtype;
} musec_view;

/* A view of `count` matrices that lie one behind the other without gaps. */
MUSEC_API musec_view musec_view_dense(void *data, musec_dtype dtype, int64_t count, int64_t rows,
                                      int64_t cols);

/* ---- context --------------------------------------------------------------------------------- */

typedef struct musec_ctx musec_ctx; /* one device and its queue; one thread at a time */

/* device: "cpu", "cuda", "cuda:1", "ref" (plain loops: slow, the definition of every operation), or
 * NULL for the best one present.  On failure *out is NULL; every destroy accepts NULL. */
MUSEC_API musec_status musec_ctx_create(musec_ctx **out, const char *device);
/* The same, with words: why it failed, or, where `device` is NULL, why a better device was not
 * taken that there are signs of here (its driver, its files in /dev). */
MUSEC_API musec_status musec_ctx_create_why(musec_ctx **out, const char *device, char *why,
                                            size_t bytes);
/* 1 (as created): the same calls give the same bits on the same machine.  0 lets a GPU take what is
 * faster, whatever its bits: found by timing, or not reproducible. */
MUSEC_API musec_status musec_ctx_set_deterministic(musec_ctx *ctx, int deterministic);
/* Threads of a context "cpu", the caller's among them; 0: as many as it was created with.  Other
 * devices: ENOTSUP. */
MUSEC_API musec_status musec_ctx_set_threads(musec_ctx *ctx, int threads);
MUSEC_API void         musec_ctx_destroy(musec_ctx *ctx);
MUSEC_API musec_status musec_ctx_sync(musec_ctx *ctx); /* waits; reports errors of queued work */
/* The last failure in words, and the device's name as created; never NULL. */
MUSEC_API const char *musec_ctx_error(const musec_ctx *ctx);
MUSEC_API const char *musec_ctx_device(const musec_ctx *ctx);

/* ---- on a GPU -------------------------------------------------------------------------------- */

/* With a context "cuda" the same calls do the same work.  Two things differ.
 *
 * Where pointers lie.  The data of every musec_view lie in the memory of the context's GPU, from
 * cudaMalloc or from a framework's tensor: `in` and `out` of musec_clip, `x` of musec_spectrum and
 * musec_norm2_estimate, `weight` and `copy` of a musec_param, the gradients of musec_optim_step.  A
 * pointer to host memory there is not noticed until the GPU reads it, and then the context is of no
 * further use.  Everything else is host memory on every device: configs, names, blocks, reports,
 * singular values, norms, logits, and what musec_optim_get_state writes.  The library keeps its own
 * state and workspace on the GPU and needs no help with them.
 *
 * When to wait.  Calls put work into a queue of the context (a CUDA stream of its own) and may
 * return before it is done.  That stream and the caller's do not wait for each other, not even the
 * default one.  So finish your own work before a call that reads it, and call musec_ctx_sync()
 * before you read or overwrite what a call was given:
 *
 *     backward<<<grid, block, 0, stream>>>(...);       writes the gradients
 *     cudaStreamSynchronize(stream);
 *     musec_optim_step(opt, grads, n, lr_scale);
 *     musec_ctx_sync(ctx);                             now the weights are new, the gradients free
 *
 *   musec_clip, musec_optim_step                         queue: musec_ctx_sync() after them
 *   musec_spectrum, musec_norm2_estimate,                wait by themselves: what they write to
 *   musec_optim_get_state, musec_optim_save, _load       host memory or files is there
 *   all config calls, musec_optim_add, _set_param,       touch no matrix: nothing to wait for
 *   _set_beta, _set_logits, _describe, _get_report
 *   musec_ctx_set_deterministic(ctx, 0)                  matters on a GPU alone
 *
 * On "cpu" nothing is queued and musec_ctx_sync() returns at once, so a program that calls it where
 * a GPU needs it runs on both.  Views may have gaps (ld, stride) on both as well. */

/* ---- operators ------------------------------------------------------------------------------- */

/* Each operator maps the singular values of every matrix in the stack, M = U diag(s) V^T, and
 * leaves the singular vectors alone.  With h(s) = D s / sqrt(s^2 + D^2):
 *
 *   hard      min(s, D), exactly.  M itself, bit for bit, if no s exceeds D (by more than the
 *             rounding of an SVD in float64, max(rows, cols) units of 2^-52)
 *   soft      h(s), exactly, by eigenvalues or SVD
 *   ssc       the paper's K coupled Newton-Schulz steps towards h
 *   paper7    ssc with K = 5 by seven products, to 2e-6 of it
 *   fast      h by seven products, for every s within 2.3e-3 of it or nearer than ssc with K = 5
 *   accurate  h within the relative error `tol`, by the cheapest products that reach it
 *   polar     1 for every s > 0 (a partial isometry if M is rank deficient)
 *   ns5       Muon's `iters` quintic Newton-Schulz steps towards polar
 *
 * Between soft and hard lie the clips of sharpness p, s / (1 + (s/D)^p)^(1/p): p = 2 is soft, an
 * infinite p is hard.
 *
 *   sharp           that clip, exactly, for any p >= 2
 *   sharp-fast      the same by the products of fast and a few more
 *   sharp-accurate  within the relative error `tol`
 *   hard-fast, hard-accurate   the same two for the hard clip; no result exceeds D
 *
 * Cost, accuracy and when to use which: docs/operators.md. */
typedef struct musec_clip_config { /* fill with musec_clip_config_init(), then change */
    uint32_t    size;              /* sizeof in the caller */
    int32_t     iters;             /* ssc, ns5: steps, 1..100 [5] */
    const char *op;                /* one of the names above, set by init; static storage */
    double      threshold;         /* D > 0 [1]; not used by polar and ns5 */
    double      tol;       /* ...accurate: relative error of the gain, 1e-12..0.5 [1e-3]; with
                                      operands of 16 bits rounding comes on top */
    const char *coeffs;    /* ns5: "keller" or "polar-express" ["keller"] */
    int32_t     literal;   /* ssc: not 0 = the paper's own order of 3K products [0] */
    int32_t     operands;  /* the musec_dtype that operands of products are rounded to, bf16
                                      or f16, for float32 input; 0: they are not [0] */
    double      sharpness; /* sharp...: p, 2 or more, INFINITY for hard; by products 2, 4, 8,
                                      16, 32 or INFINITY; 0: 4 [0] */
} musec_clip_config;

/* sizeof in version 0.1: the least that is taken. */
#define MUSEC_CLIP_CONFIG_SIZE_1 (offsetof(musec_clip_config, operands) + sizeof(int32_t))

/* What was done to one matrix of the stack. */
typedef struct musec_clip_report {
    char    path[32]; /* the plan taken: "paper K=5", "p9x9c", "svd", ... */
    int32_t products; /* r x r x r products (r = the smaller side), Gram matrix and apply apart */
    int32_t reserved;
    double  u_low; /* smallest u = sqrt((s^2 + D^2) / alpha) that could occur; 0 if not used */
    double  alpha; /* the bound on s_1^2 + D^2 that normalised the iteration; 0 if not used */
} musec_clip_report;

/* The operators by name: index 0, 1, ... until NULL.  `help` may be NULL. */
MUSEC_API const char *musec_clip_op(size_t index, const char **help);

/* size: sizeof *cfg.  The second says why it failed: the nearest name, or all names. */
MUSEC_API musec_status musec_clip_config_init(musec_clip_config *cfg, size_t size, const char *op);
MUSEC_API musec_status musec_clip_config_init_why(musec_clip_config *cfg, size_t size,
                                                  const char *op, char *why, size_t bytes);

/* out and in have equal shapes and dtypes and do not overlap.  NaN or infinity in `in` is
 * MUSEC_ENONFINITE.  report: NULL or `count` entries in host memory. */
MUSEC_API musec_status musec_clip(musec_ctx *ctx, const musec_clip_config *cfg, musec_view in,
                                  musec_view out, musec_clip_report *report);

/* ---- spectra --------------------------------------------------------------------------------- */

typedef struct musec_spectrum_stats {
    double norm2;          /* largest singular value */
    double fro;            /* Frobenius norm */
    double nuclear;        /* sum of the singular values */
    double effective_rank; /* exp(-sum p log p), p = s / sum s; 0 for the zero matrix */
    double share_above;    /* share of the min(rows, cols) singular values above the threshold */
    double reserved[3];
} musec_spectrum_stats;

/* Exact spectra.  values: NULL or count * min(rows, cols) doubles in host memory, descending for
 * each matrix.  stats: NULL or `count` entries in host memory.  threshold: D > 0 for share_above,
 * or 0 for none.  Waits for the queue. */
MUSEC_API musec_status musec_spectrum(musec_ctx *ctx, musec_view x, double threshold,
                                      double *values, musec_spectrum_stats *stats);

/* The spectral norm from `steps` >= 2 Lanczos steps on the smaller Gram matrix, from a start vector
 * drawn from `seed`.  norm[i] never exceeds the true norm (but for rounding); the error of its
 * square is, in expectation over the start, at most 0.103 (ln(r (steps-1)^4) / (steps-1))^2 of it
 * (Kuczynski and Wozniakowski 1992), and in practice far less.  Waits for the queue. */
MUSEC_API musec_status musec_norm2_estimate(musec_ctx *ctx, musec_view x, int steps, uint64_t seed,
                                            double *norm);

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
                                leaves it there too, rounded.  The caller fills it first. */
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
typedef enum musec_ns_coeffs { MUSEC_COEFFS_KELLER, MUSEC_COEFFS_POLAR_EXPRESS } musec_ns_coeffs;
typedef enum musec_decay_form {
    MUSEC_DECAY_DECOUPLED,    /* W <- (1 - lr wd) W, lr without the shape factor */
    MUSEC_DECAY_INDEPENDENT,  /* W <- (1 - wd) W */
    MUSEC_DECAY_LR2,          /* W <- (1 - lr^2 wd) W */
    MUSEC_DECAY_CAUTIOUS,     /* decoupled, where update and weight have no opposite signs */
    MUSEC_DECAY_CAUTIOUS_LR2, /* the same by lr_eff wd lr, lr_eff with all factors */
    MUSEC_DECAY_COUPLED,      /* G <- G + wd W */
    MUSEC_DECAY_AFTER,        /* as decoupled, but of the weight that the step has moved */
    MUSEC_DECAY_FRANK_WOLFE,  /* W <- (1 - lr) W, whatever wd is */
} musec_decay_form;
/* The factor on the update U of an m x n matrix. */
typedef enum musec_shape_rule {
    MUSEC_SHAPE_NONE,
    MUSEC_SHAPE_KELLER,    /* sqrt(max(1, m / n)) */
    MUSEC_SHAPE_MOONLIGHT, /* 0.2 sqrt(max(m, n)) */
    MUSEC_SHAPE_MUP,       /* sqrt(m / n) */
    MUSEC_SHAPE_RMS,       /* sqrt(max(m, n)) */
    MUSEC_SHAPE_NORMUON,   /* 0.2 sqrt(m n) / |U|_F: an RMS of 0.2 */
} musec_shape_rule;
typedef enum musec_momentum_form {
    MUSEC_MOMENTUM_EMA,   /* M <- (1 - beta) M + beta G */
    MUSEC_MOMENTUM_HEAVY, /* M <- (1 - beta) M + G */
} musec_momentum_form;
typedef enum musec_momentum_init { MUSEC_INIT_FIRST, MUSEC_INIT_ZERO } musec_momentum_init;
typedef enum musec_momentum_dtype { MUSEC_MOMENTUM_OWN, MUSEC_MOMENTUM_BF16 } musec_momentum_dtype;
typedef enum musec_nonfinite { MUSEC_NONFINITE_STOP, MUSEC_NONFINITE_SKIP } musec_nonfinite;

/* Everything an optimizer can be told.  Fill with musec_optim_config_init(), which sets what the
 * row `name` defaults to, then change fields, or use musec_optim_config_set() with the names and
 * spellings of the command line; musec_optim_option() lists them with their meaning and default. */
typedef struct musec_optim_config {
    uint32_t    size; /* sizeof in the caller */
    int32_t     ns_iters;
    const char *name; /* the registry row, set by init; static storage */
    const char *base; /* spectra: the optimizer whose update is clipped */
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
    double sharpness; /* of the clip: 2 soft, 4, 8, 16, 32, INFINITY hard; with ns_mode exact any
                              from 2 on; 0: as the optimizer's name and `clip` say */
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

/* One step with lr * lr_scale.  grads: one view per parameter, of the weight's shape, ld, stride
 * and dtype; data NULL: no gradient, and the parameter is left untouched by the update, decay
 * included.  With NaN or infinity in a gradient, or an entry so large that the state would overflow
 * (heavy-ball momentum: beta times the largest number; AdamW: its root): policy stop returns
 * MUSEC_ENONFINITE, skip counts and returns MUSEC_OK; weights and momentum stay as they were either
 * way. */
MUSEC_API musec_status musec_optim_step(musec_optim *opt, const musec_view *grads, size_t n_grads,
                                        double lr_scale);
MUSEC_API void         musec_optim_destroy(musec_optim *opt);

/* The weight of the new gradient from the next step on, 0..1: momentum may be warmed up. */
MUSEC_API musec_status musec_optim_set_beta(musec_optim *opt, double beta);

/* Bytes of workspace that one step needs and of state that is kept; all parameters are there. */
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

/* The matrices of all matrix-role parameters: index 0, 1, ... ; MUSEC_EINVAL behind the last.
 * Before the first step they are those of the parameters so far, and more may be added. */
MUSEC_API musec_status musec_optim_get_report(const musec_optim *opt, size_t index,
                                              musec_optim_report *report);
/* Steps taken, and steps skipped because a gradient was not finite. */
MUSEC_API int64_t musec_optim_steps(const musec_optim *opt);
MUSEC_API int64_t musec_optim_skipped(const musec_optim *opt);

/* The state of one matrix of the parameter (`block` as in its report) to host memory, dense, in the
 * weight's dtype: "momentum", "m", "v", "slow", "average".  `bytes` are those of that matrix.
 * Waits. */
MUSEC_API musec_status musec_optim_get_state(musec_optim *opt, size_t param, int64_t block,
                                             const char *state, void *host, size_t bytes);

/* State to and from a safetensors file, keyed by parameter name.  Loading converts between momentum
 * forms and refuses, with the reason, what does not fit; then nothing is changed. */
MUSEC_API musec_status musec_optim_save(musec_optim *opt, const char *path);
MUSEC_API musec_status musec_optim_load(musec_optim *opt, const char *path);

#ifdef __cplusplus
}
#endif
#endif
