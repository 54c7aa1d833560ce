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
 *   - What can fail returns a musec_status; musec_ctx_error() says the same in words.
 *   - A call that is refused (EINVAL, ENONFINITE, ENOTSUP) has written nothing.
 *   - The library never prints, never exits and keeps no global state.  A context belongs to one
 *     thread at a time; different contexts may work in different threads.
 *   - The CPU device spreads its work over the OpenMP threads of the caller (OMP_NUM_THREADS).
 *     Results do not depend on their number, nor on how matrices are batched into stacks. */
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
    X(F64, 2, "f64", 8)

typedef enum musec_dtype {
#define X(name, code, text, bytes) MUSEC_##name = code,
    MUSEC_DTYPE_MAP(X)
#undef X
} musec_dtype;

/* A stack of `count` equal row-major matrices that the CALLER owns, in the memory of the ctx's
 * device.  Passed by value, never freed by us; must live until the next musec_ctx_sync(). */
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

/* device: "cpu", "ref" (plain loops: slow, the definition of every operation), or NULL for the
 * best one present.  On failure *out is NULL; every destroy accepts NULL. */
MUSEC_API musec_status musec_ctx_create(musec_ctx **out, const char *device);
MUSEC_API void         musec_ctx_destroy(musec_ctx *ctx);
MUSEC_API musec_status musec_ctx_sync(musec_ctx *ctx); /* waits; reports errors of queued work */
/* The last failure in words, and the device's name as created; never NULL. */
MUSEC_API const char *musec_ctx_error(const musec_ctx *ctx);
MUSEC_API const char *musec_ctx_device(const musec_ctx *ctx);

/* ---- operators ------------------------------------------------------------------------------- */

/* Each operator maps the singular values of every matrix in the stack, M = U diag(s) V^T, and
 * leaves the singular vectors alone.  With h(s) = D s / sqrt(s^2 + D^2):
 *
 *   hard      min(s, D), exactly.  M itself, bit for bit, if no s exceeds D
 *   soft      h(s), exactly, by eigenvalues or SVD
 *   ssc       the paper's K coupled Newton-Schulz steps towards h
 *   paper7    ssc with K = 5 by seven products, to 2e-6 of it
 *   fast      h by seven products, for every s within 2.3e-3 of it or nearer than ssc with K = 5
 *   accurate  h within the relative error `tol`, by the cheapest products that reach it
 *   polar     1 for every s > 0 (a partial isometry if M is rank deficient)
 *   ns5       Muon's `iters` quintic Newton-Schulz steps towards polar
 *
 * Cost, accuracy and when to use which: docs/operators.md. */
typedef struct musec_clip_config { /* fill with musec_clip_config_init(), then change */
    uint32_t    size;              /* sizeof in the caller: fields may be added at the end */
    int32_t     iters;             /* ssc, ns5: steps, 1..100 [5] */
    const char *op;                /* one of the names above, set by init; static storage */
    double      threshold;         /* D > 0 [1]; not used by polar and ns5 */
    double      tol;               /* accurate: relative error of the gain, 1e-12..0.5 [1e-3] */
    const char *coeffs;            /* ns5: "keller" or "polar-express" ["keller"] */
    int32_t     literal;           /* ssc: not 0 = the paper's own order of 3K products [0] */
    int32_t     reserved;          /* 0 */
} musec_clip_config;

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

MUSEC_API musec_status musec_clip_config_init(musec_clip_config *cfg, size_t size, const char *op);

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
#endif
