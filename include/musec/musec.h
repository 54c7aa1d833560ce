/* musec.h - spectral clipping of matrices, and the optimizers built on it.
 *
 * This header is the manual of the C library, with musec/optim.h, which it includes.  In short:
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
        MUSEC_I16 = 5 /* integers: the state "low" of weights in bf16, and nothing else */
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
/* The caller's stream, a cudaStream_t, in place of the context's own: from this call on all work of
 * the context is launched there, by the libraries too, behind what was launched before.  NULL is
 * the legacy default stream, MUSEC_OWN_STREAM the context's own again.  The stream is of the
 * context's GPU and lives until the context is given another one, or is destroyed.  A stream that
 * is being captured (CUDA graphs) may be given, and cannot be left before the capture ends: EINVAL;
 * a graph is to be launched behind what the context has queued before.  "cpu" and "ref" have no
 * queue: NULL and MUSEC_OWN_STREAM change nothing there, others are ENOTSUP. */
#define MUSEC_OWN_STREAM ((void *)(intptr_t)-1)
MUSEC_API musec_status musec_ctx_set_stream(musec_ctx *ctx, void *stream);

/* Where device memory comes from, in place of malloc or cudaMalloc: all that optimizers keep and
 * all workspace of the context, but not the 64 MiB of cuBLASLt, nor host memory.  `stream` is the
 * context's stream at the time (NULL on "cpu" and "ref"): memory may be handed out whose last use
 * is still queued on it, and what is freed may be in use by work that is queued on it.  The
 * functions are called from within calls of this library, by their thread, and must not call it. */
typedef struct musec_allocator {
    void *(*alloc)(size_t bytes, void *stream, void *user); /* a multiple of 64, or NULL: none left,
                                                               which the call reports as ENOMEM */
    void (*free)(void *p, void *stream, void *user);        /* p from alloc, never NULL */
    void *user;
} musec_allocator;
/* Before anything was allocated, so best right after musec_ctx_create(), else EINVAL; NULL: the
 * device's own.  The struct is copied.  Everything that was taken is given back when what it was
 * taken for is destroyed, the workspace with the context.  A step that fails for want of memory
 * has changed nothing, and may be repeated (on a GPU with ns_mode exact: unless an SVD of the
 * solver lacks it, between two groups of matrices). */
MUSEC_API musec_status musec_ctx_set_allocator(musec_ctx *ctx, const musec_allocator *allocator);
/* Gives the workspace back, which a context keeps from call to call: the next call that needs one
 * takes it again.  For callers whose allocator is a pool that lends the memory to other work in
 * between; with the device's own allocator this costs time (on a GPU it waits). */
MUSEC_API musec_status musec_ctx_trim(musec_ctx *ctx);

/* An allocator that lends a piece which the caller took beforehand, for callers whose own functions
 * are slow to enter, as those of an interpreter are: { musec_loan_alloc, musec_loan_free, &loan }.
 * A request of just `bytes` bytes, while is_out is 0, gets `data`; all others go to `next`, and so
 * does whatever else is freed.  A step that is like the one before asks for a workspace of the same
 * size, and for nothing else.  If the piece is still out after musec_ctx_trim(), the caller keeps
 * it and may set data to NULL and is_out to 0: then it comes to next.free. */
typedef struct musec_loan { /* start from { 0 } */
    musec_allocator next;
    void           *data; /* NULL: nothing is lent */
    size_t          bytes;
    int32_t         is_out;  /* 1: the library has it */
    int32_t         was_out; /* 1: it had it at some time; the caller clears it */
} musec_loan;
MUSEC_API void *musec_loan_alloc(size_t bytes, void *stream, void *loan);
MUSEC_API void  musec_loan_free(void *p, void *stream, void *loan);
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
 * When to wait.  Calls put work into a queue of the context and may return before it is done.  That
 * is a CUDA stream of its own, unless musec_ctx_set_stream() gives it the caller's: then everything
 * comes in the order of the calls, and nobody has to wait.  The context's own stream and the
 * caller's do not wait for each other, not even the default one.  So finish your own work before a
 * call that reads it, and call musec_ctx_sync() before you read or overwrite what a call was given:
 *
 *     backward<<<grid, block, 0, stream>>>(...);       writes the gradients
 *     cudaStreamSynchronize(stream);
 *     musec_optim_step(opt, grads, n, lr_scale);
 *     musec_ctx_sync(ctx);                             now the weights are new, the gradients free
 *
 *   musec_clip, musec_optim_step, _step_with             queue: musec_ctx_sync() after them
 *   musec_spectrum, musec_norm2_estimate,                wait by themselves: what they write to
 *   musec_optim_get_state, musec_optim_save, _load       host memory or files is there
 *   musec_optim_poll, _set_steps
 *   all config calls, musec_optim_add, _set_param,       touch no matrix: nothing to wait for
 *   _set_weight, _set_beta, _set_logits, _describe,
 *   _get_report, _state_name, _state_view
 *   musec_ctx_set_deterministic(ctx, 0)                  matters on a GPU alone
 *
 * The calling thread's current GPU is after each call what it was before.
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
    const char *coeffs;    /* ns5: "keller", "polar-express", "cans", "you", "turbo" or "cubic"
                              ["keller"] */
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

#ifdef __cplusplus
}
#endif

#include <musec/optim.h>

#endif
