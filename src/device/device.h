/* device.h - the op table: everything a device can do, and the only way to reach it.
 *
 * Ops have three types of operands.  A matrix (ms_mat) is a stack of equal matrices in device
 * memory, with a leading dimension, a distance between matrices and a flag that it is transposed. A
 * vector (ms_vec) holds one float64 per matrix of a stack: norms, scales, coefficients.  It stays
 * on the device, so that a number needed later never makes the host wait.  A number (ms_num) is a
 * scalar operand: a constant, or one value per matrix read from a vector.
 *
 * The device is the first argument, the output the last.  Ops queue work: as a rule they neither
 * wait nor allocate (workspace comes from the device's scratch arena, which grows to the size of
 * the largest call); `sync`, `download` and `now_ms` wait, `alloc` allocates.  A GPU also waits in
 * `svd` and `eigh`, because their library does, and when a plan is made: at the first product of a
 * kind, unless it is small, to time its candidate algorithms, and at the first attention of a kind
 * by cuDNN. Callers pass valid operands; ops only assert what they need.  Unless an op says
 * otherwise, all matrix operands of one call share dtype and count, and the output overlaps no
 * input.
 *
 * Numbers of 16 bits (bf16, f16) are for storage: arithmetic on them is float32 or wider, rounded
 * when stored.  An operand "in the accumulator dtype" has the others' dtype, or float32 if that has
 * 16 bits.  The kind of a device lists its dtypes.
 *
 * The matrices of a stack may lie anywhere: then `ptrs` is an array of their pointers in host
 * memory.  The ops marked (grouped) take at most two such operands, so that one call updates all
 * parameters.
 *
 * `ref` implements each row in plain loops and thereby defines it.  `cpu` starts as a copy of `ref`
 * and overrides rows; no row is NULL. */
#ifndef MS_DEVICE_DEVICE_H
#define MS_DEVICE_DEVICE_H

#include <stdbool.h>

#include "core/arena.h"
#include "core/memory.h"
#include "core/status.h"

#ifdef __cplusplus /* CUDA files are */
extern "C" {
#endif

typedef struct musec_ctx ms_device; /* what the public header calls a context */

typedef struct ms_mat_ptr { /* where one matrix of a grouped op lies */
    void   *data;
    int64_t ld;
} ms_mat_ptr;

/* A stack of matrices.  Element (i, j) of matrix b: data[b*stride + i*ld + j], or, transposed,
 * data[b*stride + j*ld + i].  rows and cols are counted after transposition. */
typedef struct ms_mat {
    void       *data;
    int64_t     rows, cols, ld;
    int64_t     count, stride;
    musec_dtype dtype;
    bool        trans;
    /* NULL, or (count) in host memory, read before the op returns: matrix b begins at
     * ptrs[b].data with the leading dimension ptrs[b].ld; stride does not count then, and data
     * is that of the first */
    const ms_mat_ptr *ptrs;
} ms_mat;

typedef struct ms_vec { /* one float64 per matrix, on the device */
    double *data;
    int64_t count;
} ms_vec;

typedef struct ms_ids { /* token ids or row numbers, on the device */
    int32_t *data;
    int64_t  count;
} ms_ids;

typedef struct ms_num { /* `each` if it has data, else `list` if there is one, else `value` */
    double        value;
    ms_vec        each;
    const double *host; /* one per matrix in host memory, read before the op returns; only for
                           decay_add and scalars */
} ms_num;

/* One output of `combine`: out = x_coef X + y_coef Y + diag I. */
typedef struct ms_term {
    ms_num x_coef, y_coef, diag;
    ms_mat out;
    ms_vec mask; /* data NULL: all; else out is written only for matrices where it is not 0 */
} ms_term;

/* A product and its epilogue:  c <- alpha a b + beta source + diag I. */
typedef struct ms_product {
    ms_mat a, b;              /* one dtype */
    ms_num alpha, beta, diag; /* not in host memory */
    ms_mat source;            /* data NULL: none, and beta is ignored; of a dtype that `combine`
                                 would mix with c's; may be c */
    ms_mat c;                 /* of a's dtype or the accumulator dtype */
    /* a b and source are KNOWN to be symmetric (b is a^T, or both are polynomials in one symmetric
     * matrix): one triangle is computed and mirrored.  Mirroring is not always stable: numerics
     * decide where it is allowed (docs/operators.md). */
    bool   symmetric;
    ms_vec sumsq, trace; /* of c before it is rounded to its dtype; data NULL: not wanted */
    ms_vec mask; /* data NULL: all; else c, sumsq and trace are written only for matrices where it
                    is not 0 */
} ms_product;

/* A small program over the scalars of a stack: for each matrix it maps some numbers to others, so
 * that a plan can be chosen on the device.  The layer above defines the programs in a header that
 * the build gives to the devices (MS_SCALAR_PROGRAMS), once for all of them:
 *     void ms_scalar_run(int program, const double *table, const double *in, double *out) */
enum { MS_SCALAR_MAX_IO = 16, MS_SCALAR_MAX_TABLE = 128 };
typedef struct ms_scalar_call {
    int           program;
    const double *table; /* constants in host memory, read before the op returns; NULL: none */
    int           n_table;
    const ms_num *in; /* (n_in), at most MS_SCALAR_MAX_IO */
    int           n_in;
    const ms_vec *out; /* (n_out), at most MS_SCALAR_MAX_IO; an out may be an in */
    int           n_out;
} ms_scalar_call;

/* Functions of one number (unary.h): -1, 0 or 1, where NaN stays; max(x, 0)^2; the Gaussian error
 * linear unit in its tanh form and in its exact one; the logistic function. */
#define MS_UNARY_MAP(X)   \
    X(SIGN, sign)         \
    X(RELU2, relu2)       \
    X(GELU, gelu)         \
    X(GELU_ERF, gelu_erf) \
    X(SIGMOID, sigmoid)
typedef enum ms_unary {
#define X(NAME, name) MS_UNARY_##NAME,
    MS_UNARY_MAP(X)
#undef X
} ms_unary;

/* Rates of `moments`; correct1 and correct2 undo the start from zero. */
typedef struct ms_moments {
    double beta1, beta2, beta3, alpha, eps, correct1, correct2;
    /* numbers on the device in place of correct1 and correct2; NULL: there are none */
    const double *correct1_at, *correct2_at;
} ms_moments;

/* Rotary positions of the rows of a head.  Pair j of the columns is (2j, 2j+1) if `adjacent`, else
 * (j, j + cols/2); row i rotates pair j < cos.cols by the angle of cos(i, j) and sin(i, j):
 *     (p, r) -> (p cos + r sin, r cos - p sin).
 * The other columns are not rotated.  norm_eps >= 0: rows are first normalized as by `rmsnorm` with
 * that eps (QK-norm); below 0 they are not. */
typedef struct ms_rope {
    ms_mat cos, sin; /* one matrix each in the accumulator dtype: (positions >= rows, pairs) */
    bool   adjacent;
    double norm_eps;
} ms_rope;

/* A term of `blend`: coef x, where row i of matrix b has one coefficient: coef(i, b), coef(0, b) if
 * `coef` has one row, or 1 if it has no data.  coef is one matrix, (rows x count) or (1 x count),
 * in the accumulator dtype. */
enum { MS_BLEND_TERMS = 6 };
typedef struct ms_blend_term {
    ms_mat coef, x;
} ms_blend_term;

/* What `blend_grad` computes of a term; without data it is not wanted. */
typedef struct ms_blend_grad {
    ms_mat dx;
    bool   adds;  /* to dx, instead of writing it */
    ms_mat dcoef; /* (rows x count), also where coef has one row */
} ms_blend_grad;

#define MS_EXCLUDE_MIN 1e-4 /* the least length that `exclude` divides by */

/* The mask of attention: query i sees the keys j with max(doc[i], i - window) <= j <= i. */
typedef struct ms_attn {
    double  scale;   /* logit = scale q.k */
    double  softcap; /* c > 0: the softmax is of c tanh(logit / c); 0: of the logit */
    int64_t window;  /* >= 0: number of keys before its own that a query sees */
    ms_ids  doc;     /* (rows) first row of the document that row i is in: <= i, never falling */
    /* upper bounds of the number of documents and of the rows of the longest, by which a device may
     * choose a kernel; 0: not known */
    int64_t docs, longest;
} ms_attn;

typedef enum ms_cap { MS_CAP_NONE, MS_CAP_TANH, MS_CAP_SIGMOID } ms_cap;

enum { MS_XENT_TARGETS = 8 };

/* The loss of a chunk of rows of a stream.  Logits z of the raw ones y: z = y (none),
 * scale tanh(y / scale) (tanh), scale / (1 + exp(-(y + shift) / width)) (sigmoid).  Row t of the
 * stream is scored against its next n_weights tokens:
 *     l_t = sum_k weights[k] (logsumexp(z_t) - z_t[targets[t + k]]),
 * where k < n_weights and t + k < targets.count. */
typedef struct ms_xent {
    ms_cap  cap;
    double  cap_scale, cap_shift, cap_width;
    ms_ids  targets; /* the stream's: targets[t] follows row t */
    int64_t first;   /* the chunk's first row in the stream */
    int     n_weights;
    double  weights[MS_XENT_TARGETS];
    double  grad_scale; /* on the gradient; 0: the losses alone, logits are kept */
} ms_xent;

typedef struct ms_device_ops {
    const char *name;

    /* memory and queue; bytes, not elements */
    musec_status (*alloc)(ms_device *d, size_t bytes, void **out); /* aligned to 64 bytes or more */
    void (*free)(ms_device *d, void *p);                           /* NULL is allowed */
    musec_status (*upload)(ms_device *d, const void *host, size_t bytes, void *device);
    /* these wait; now_ms then reads a monotonic clock */
    musec_status (*download)(ms_device *d, const void *device, size_t bytes, void *host);
    musec_status (*sync)(ms_device *d);
    musec_status (*now_ms)(ms_device *d, double *ms);

    /* matrices: products.  a and b share their dtype; c has it or the accumulator dtype.  Reading c
     * is skipped if beta is 0, so it may hold anything then. */
    musec_status (*gemm)(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta, ms_mat c);
    musec_status (*product)(ms_device *d, const ms_product *p);

    /* matrices: decompositions.  x and a are kept; values are (count, 1, k) rows of their dtype */
    /* thin SVD, k = min(rows, cols): u (rows x k), s descending, vt (k x cols).  u.data and vt.data
     * both NULL: values only. */
    musec_status (*svd)(ms_device *d, ms_mat x, ms_mat u, ms_mat s, ms_mat vt);
    /* symmetric a = v diag(w) v^T, w ascending; only the lower triangle of a is read.  v.data NULL:
     * values only. */
    musec_status (*eigh)(ms_device *d, ms_mat a, ms_mat w, ms_mat v);

    /* elements; in place (out is x) is allowed throughout */
    /* out <- x; converts the dtype, keeps the bits otherwise (grouped) */
    musec_status (*copy)(ms_device *d, ms_mat x, ms_mat out);
    musec_status (*fill)(ms_device *d, double value, ms_mat out);
    musec_status (*add_diag)(ms_device *d, ms_num value, ms_mat x); /* x <- x + value I */
    /* x <- factor x, computed in float64, so that any power of two is safe; 1 costs nothing */
    musec_status (*scale)(ms_device *d, ms_num factor, ms_mat x);
    /* y <- alpha x + beta y; where beta is the constant 0, y is not read (grouped) */
    musec_status (*axpby)(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y);
    /* n_terms <= 4 linear combinations of x, y (data NULL: absent) and I, in one pass; an out may
     * be x or y; a coefficient of 0 still reads its operand.  Dtypes may differ where none is
     * float64; an out of another dtype lies on no input (grouped) */
    musec_status (*combine)(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms, int n_terms);
    /* out <- x_coef x + y_coef y, with the same bits as combine, and absmax <- that of y; out lies
     * on no input (grouped) */
    musec_status (*average)(ms_device *d, ms_num x_coef, ms_mat x, ms_num y_coef, ms_mat y,
                            ms_mat out, ms_vec absmax);
    musec_status (*scale_rows)(ms_device *d, ms_mat v, ms_mat x); /* row i of x times v(0, i) */
    /* Scales a stack to a safe range: *scaled is factor * x, in `buffer` (of the same shape).  With
     * equal dtypes, a device may set each factor that it does not need to 1; if all of them are 1,
     * *scaled may be x. */
    musec_status (*prescale)(ms_device *d, ms_mat x, ms_vec factor, ms_mat buffer, ms_mat *scaled);

    /* optimizers */
    /* m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g g,
     * slow <- beta3 slow + (1 - beta3) g (data NULL: absent, as if alpha were 0),
     * u <- (m / correct1 + alpha slow) / (sqrt(v / correct2) + eps); u may be g (grouped) */
    musec_status (*moments)(ms_device *d, ms_moments rates, ms_mat g, ms_mat m, ms_mat v,
                            ms_mat slow, ms_mat u);
    /* w <- (1 - decay) w - step u; cautious: where u w < 0 the weight is not decayed.  u has w's
     * dtype, or 16 bits where w is float32.  copy <- w as stored, rounded to the copy's own dtype;
     * data NULL: none.  Where w is bf16 and the copy i16, they are the halves of float32 weights
     * (halves.h), and the result has the bits that those would have (grouped) */
    musec_status (*decay_add)(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                              ms_mat w, ms_mat copy);

    /* the halves of float32 numbers (halves.h), high in bf16 and low in i16, to numbers and back;
     * split: high without data is not wanted */
    musec_status (*join_halves)(ms_device *d, ms_mat high, ms_mat low, ms_mat out);
    musec_status (*split_halves)(ms_device *d, ms_mat x, ms_mat high, ms_mat low);

    /* networks.  Rows are tokens; heads are a stack of (tokens x head) matrices with any strides.
     * No operand is transposed.  A _grad op takes the operands of its op and the gradient of its
     * output. */
    musec_status (*embed)(ms_device *d, ms_ids ids, ms_mat table,
                          ms_mat out); /* out_i = table[ids_i] */
    /* dtable[ids_i] += dout_i, each row in the order of i; dtable has the accumulator dtype */
    musec_status (*embed_grad)(ms_device *d, ms_ids ids, ms_mat dout, ms_mat dtable);
    /* each row x -> x / sqrt(mean(x^2) + eps); in place is allowed */
    musec_status (*rmsnorm)(ms_device *d, double eps, ms_mat x, ms_mat out);
    /* dx <- beta dx + J^T dout; where beta is 0, dx is not read; dx may then be dout */
    musec_status (*rmsnorm_grad)(ms_device *d, double eps, ms_mat x, ms_mat dout, double beta,
                                 ms_mat dx);
    musec_status (*rope)(ms_device *d, ms_rope r, ms_mat x, ms_mat out); /* in place is allowed */
    musec_status (*rope_grad)(ms_device *d, ms_rope r, ms_mat x, ms_mat dout,
                              ms_mat dx); /* dx may be dout */
    /* out <- f(x), element by element; out may be x */
    musec_status (*unary)(ms_device *d, ms_unary f, ms_mat x, ms_mat out);
    /* dx <- f'(x) dout; dx may be dout or x */
    musec_status (*unary_grad)(ms_device *d, ms_unary f, ms_mat x, ms_mat dout, ms_mat dx);
    /* The gradient of relu2 from out, for callers that stored out instead of x: dx <- 2 r dout,
     * where r is the root of out, rounded to its dtype.  r is exactly max(x, 0) if the square of
     * that is a normal number.  dx may be dout or out. */
    musec_status (*relu2_grad_from_out)(ms_device *d, ms_mat out, ms_mat dout, ms_mat dx);
    /* out <- softmax(logits) v, per head; lse (heads, 1, rows), in the accumulator dtype: logsumexp
     * of each row's logits; max_logit[h] <- max(max_logit[h], the largest scale q.k of a pair of
     * head h that is not masked) */
    musec_status (*attention)(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v, ms_mat out,
                              ms_mat lse, ms_vec max_logit);
    musec_status (*attention_grad)(ms_device *d, ms_attn a, ms_mat q, ms_mat k, ms_mat v,
                                   ms_mat out, ms_mat lse, ms_mat dout, ms_mat dq, ms_mat dk,
                                   ms_mat dv);
    /* row i of head h of y times the logistic function of s(i, h), s being one (rows x heads)
     * matrix; in place is allowed, and dy may be dout */
    musec_status (*gate)(ms_device *d, ms_mat s, ms_mat y, ms_mat out);
    musec_status (*gate_grad)(ms_device *d, ms_mat s, ms_mat y, ms_mat dout, ms_mat dy, ms_mat ds);
    /* out <- w(0, 0) x + w(0, 1) y; out may be x; w and dw have the accumulator dtype */
    musec_status (*mix)(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat out);
    /* dx <- w(0, 0) dout, dy += w(0, 1) dout, dw += (<dout, x>, <dout, y>); dx may be dout */
    musec_status (*mix_grad)(ms_device *d, ms_mat w, ms_mat x, ms_mat y, ms_mat dout, ms_mat dx,
                             ms_mat dy, ms_mat dw);
    /* out <- sum of n <= MS_BLEND_TERMS terms; out may be the x of any */
    musec_status (*blend)(ms_device *d, const ms_blend_term *terms, int n, ms_mat out);
    /* dx <- coef dout (adds: dx += coef dout), dcoef(i, b) <- <dout, x> of row i of matrix b, for
     * each term; the dx of the last term may be dout */
    musec_status (*blend_grad)(ms_device *d, const ms_blend_term *terms, const ms_blend_grad *grads,
                               int n, ms_mat dout);
    /* out <- x y, element by element; out may be x */
    musec_status (*multiply)(ms_device *d, ms_mat x, ms_mat y, ms_mat out);
    /* Takes a share of the direction of v out of each row of y: with n = max(|v|, MS_EXCLUDE_MIN),
     * t = tanh(alpha(0, b)) and p = <y, v> / n^2, out <- y - t p v; alpha is (1 x count), in the
     * accumulator dtype; out may be y */
    musec_status (*exclude)(ms_device *d, ms_mat alpha, ms_mat y, ms_mat v, ms_mat out);
    /* with q = <dout, v> / n^2 and d = 1 where |v| > MS_EXCLUDE_MIN, else 0:
     * dy <- dout - t q v,  dv <- -t (p dout + q y - 2 d p q v),
     * dalpha(i, b) <- -(1 - t^2) p q n^2 of row i of matrix b; dy may be dout */
    musec_status (*exclude_grad)(ms_device *d, ms_mat alpha, ms_mat y, ms_mat v, ms_mat dout,
                                 ms_mat dy, ms_mat dv, ms_mat dalpha);
    /* loss[0] += sum l_t, loss[1] += sum of the terms k = 0 unweighted, rows in order; then logits
     * <- grad_scale d(sum l_t) / d(raw logits), unless grad_scale is 0 */
    musec_status (*xent)(ms_device *d, ms_xent x, ms_mat logits, ms_vec loss);

    /* reductions: one float64 per matrix, accumulated in float64, in an order that depends on the
     * shape alone (grouped, but for trace) */
    musec_status (*sum)(ms_device *d, ms_mat x, ms_vec out);
    musec_status (*sumsq)(ms_device *d, ms_mat x, ms_vec out);
    musec_status (*trace)(ms_device *d, ms_mat x, ms_vec out);
    musec_status (*absmax)(ms_device *d, ms_mat x, ms_vec out); /* NaN if any element is NaN */
    musec_status (*count_nonfinite)(ms_device *d, ms_mat x, ms_vec out);

    /* random: element (b, i, j) is a function of (key, its index in the dense stack) alone */
    musec_status (*normal)(ms_device *d, uint64_t key, double mean, double sd, ms_mat out);
    musec_status (*uniform)(ms_device *d, uint64_t key, double low, double high, ms_mat out);
    /* out (bf16) <- x (float32), rounded up or down at random so that the mean is x
     * (stochastic_round.h).  Indices of elements are counted from `first`. */
    musec_status (*stochastic_round)(ms_device *d, uint64_t key, uint64_t first, ms_mat x,
                                     ms_mat out);

    musec_status (*scalars)(ms_device *d, const ms_scalar_call *call);
} ms_device_ops;

struct musec_ctx {
    const ms_device_ops         *ops; /* = &table: each context has its own */
    ms_device_ops                table;
    const struct ms_device_kind *kind;
    ms_error                     error;
    ms_arena                     scratch; /* in device memory */
    void                        *impl;    /* private to the device: queue, handles, plan caches */
    /* data of a layer above, and the function that frees it; both may be NULL */
    void *attached;
    void (*free_attached)(void *attached);
    /* allocator.c: the device's own functions, the caller's in their place where it has `alloc`,
     * and the pieces that are out */
    musec_status (*own_alloc)(ms_device *d, size_t bytes, void **out);
    void (*own_free)(ms_device *d, void *p);
    musec_allocator allocator;
    size_t          n_taken;
    uint64_t        n_streams;       /* changes of the stream while memory was out, */
    uint64_t        scratch_streams; /* and how many there were when the workspace was taken */
    uint64_t workspace; /* bytes that a step of an optimizer may use, unless told otherwise */
    /* A number on the device, or NULL.  While it is 0, element ops and scalars that are queued
     * write nothing.  Only devices with streams look at it: on others the host sees the number. */
    const double *guard;
    uint64_t      n_failures;         /* of calls of the driver and of libraries */
    uint64_t      n_waits, n_uploads; /* of the host: what a capture of the stream does not allow */
    char          name[32];
    bool          deterministic;
    /* products take the first algorithm without timing: their shapes are hardly ever repeated */
    bool no_autotune;
    bool fuses_epilogues; /* products of 16 bits have epilogue and mask in one pass */
};

/* What was current on the calling thread when a public call began. */
typedef struct ms_caller {
    void *context; /* of the driver; may be NULL */
    int   device;
    void (*set_current)(void);              /* of the driver */
    void (*restore)(struct ms_caller then); /* NULL: there is nothing to restore */
} ms_caller;

/* What is known of a call of attention_grad in advance. */
typedef struct ms_attn_shape {
    musec_dtype dtype;
    int64_t     heads, head, rows;
    int64_t     reach; /* maximum number of keys before its own that a query sees */
    double      softcap;
} ms_attn_shape;

enum { MS_DEVICE_ID = 64 };

/* A device that is compiled in.  open, close and describe may be NULL. */
typedef struct ms_device_kind {
    const char *name;
    const char *description;      /* for `musec info` and --help */
    unsigned    dtypes;           /* a bit, 1 << dtype, for each */
    musec_dtype compute_dtype;    /* of the products of operators on float32 where speed counts */
    musec_dtype activation_dtype; /* that networks are trained in, unless asked otherwise */
    int64_t     logits_chunk;     /* logits that are computed at a time, in elements */
    uint64_t    workspace;        /* of a context, at least */
    bool        batch_variant;    /* the bits of a matrix depend on the batch that it is in */
    bool        widens; /* products copy operands of 16 bits to float32, a matrix at a time */
    /* maximum scratch of attention_grad in bytes; NULL: little compared with the activations */
    uint64_t (*attn_workspace)(ms_device *d, ms_attn_shape shape);
    void (*ops)(ms_device_ops *table);
    musec_status (*open)(ms_device *d, int index);
    /* is there a sign of such a device, so that failing to open it is reported?  NULL: yes */
    bool (*is_likely)(void);
    void (*close)(ms_device *d);
    musec_status (*set_threads)(ms_device *d, int threads); /* NULL: it has none to set */
    /* Moves its work to a stream of the caller's, or to MUSEC_OWN_STREAM; returns the present
     * one; notes what is current on the calling thread.  NULL: it has no streams. */
    musec_status (*set_stream)(ms_device *d, void *stream);
    void *(*stream)(ms_device *d);
    ms_caller (*enter)(ms_device *d);
    /* Graphs: what is queued between record and record_end is not done, but becomes a graph, which
     * does all of it each time that it is launched.  Recording fails if anything waits or allocates
     * meanwhile; *graph is NULL then.  can_record: the caller is recording nothing himself.  NULL:
     * it has no graphs. */
    bool (*can_record)(ms_device *d);
    musec_status (*record)(ms_device *d);
    musec_status (*record_end)(ms_device *d, void **graph);
    musec_status (*launch_graph)(ms_device *d, void *graph);
    void (*free_graph)(ms_device *d, void *graph);
    /* its free and total memory; NULL: it uses the host's */
    ms_memory (*memory)(ms_device *d);
    /* host memory that it reads and writes fast (page-locked); NULL where memory is */
    musec_status (*alloc_host)(ms_device *d, size_t bytes, void **out);
    void (*free_host)(ms_device *d, void *p); /* NULL is allowed */
    /* writes what no other device of any machine has; NULL where memory is */
    void (*identify)(ms_device *d, char text[MS_DEVICE_ID]);
    /* describes the chip, its memory and the libraries */
    void (*describe)(ms_device *d, char *text, size_t bytes);
} ms_device_kind;

/* The kinds, best first: index 0, 1, ... until NULL. */
const ms_device_kind *ms_device_kind_at(size_t index);

void ms_device_ref_ops(ms_device_ops *table);  /* every row, in plain loops */
void ms_device_cpu_ops(ms_device_ops *table);  /* ref, with faster rows where there are any */
void ms_device_cuda_ops(ms_device_ops *table); /* every row, in CUDA; only in builds that have it */

musec_status ms_device_cpu_open(ms_device *d, int index);
void         ms_device_cpu_close(ms_device *d);
musec_status ms_device_cpu_set_threads(ms_device *d, int threads);
musec_status ms_device_cuda_open(ms_device *d, int index);
bool         ms_device_cuda_is_likely(void);
void         ms_device_cuda_close(ms_device *d);
void         ms_device_cuda_describe(ms_device *d, char *text, size_t bytes);
ms_memory    ms_device_cuda_memory(ms_device *d);
musec_status ms_device_cuda_alloc_host(ms_device *d, size_t bytes, void **out);
void         ms_device_cuda_free_host(ms_device *d, void *p);
void         ms_device_cuda_identify(ms_device *d, char text[MS_DEVICE_ID]);
musec_status ms_device_cuda_set_stream(ms_device *d, void *stream);
void        *ms_device_cuda_stream(ms_device *d);
ms_caller    ms_device_cuda_enter(ms_device *d);
bool         ms_device_cuda_can_record(ms_device *d);
musec_status ms_device_cuda_record(ms_device *d);
musec_status ms_device_cuda_record_end(ms_device *d, void **graph);
musec_status ms_device_cuda_launch_graph(ms_device *d, void *graph);
void         ms_device_cuda_free_graph(ms_device *d, void *graph);
uint64_t     ms_device_cuda_attn_workspace(ms_device *d, ms_attn_shape shape);

/* Makes the rows alloc and free those of allocator.c, and the workspace's. */
void ms_device_count_memory(ms_device *d);

/* A public call that may reach the device notes what is current on the calling thread before, and
 * restores it afterwards: a caller with several GPUs has its own idea of that. */
ms_caller ms_device_enter(ms_device *d);
void      ms_device_leave(ms_caller caller);

/* Describes the CPU device: "OpenBLAS 0.3.21, SkylakeX kernels, 2 threads".  With d NULL it
 * describes what a new context would be. */
void ms_device_cpu_describe(ms_device *d, char *text, size_t bytes);

/* ---- views ----------------------------------------------------------------------------------- */

size_t      ms_dtype_bytes(musec_dtype dtype);
const char *ms_dtype_name(musec_dtype dtype);
musec_dtype ms_dtype_accum(musec_dtype dtype); /* float32 for 16 bits, else itself */
bool        ms_device_has(const ms_device *d, musec_dtype dtype);
double      ms_dtype_eps(musec_dtype dtype);  /* distance from 1 to the next number */
double      ms_dtype_tiny(musec_dtype dtype); /* smallest normal number */
double      ms_dtype_max(musec_dtype dtype);  /* largest number */

ms_mat     ms_mat_of(musec_view view); /* unchecked */
musec_view ms_view_of(ms_mat x);       /* of one that is not transposed */

/* Checks a view and converts it.  The error names the view (`what`) and says what is wrong. */
musec_status ms_mat_from_view(ms_device *d, const char *what, musec_view view, ms_mat *out);

static inline ms_mat ms_t(ms_mat x)
{
    const int64_t rows = x.rows;
    x.rows             = x.cols;
    x.cols             = rows;
    x.trans            = !x.trans;
    return x;
}

/* Matrices first .. first + count - 1 of the stack; a single one has no pointer array. */
ms_mat ms_mat_slice(ms_mat x, int64_t first, int64_t count);
ms_vec ms_vec_slice(ms_vec v, int64_t first, int64_t count);
/* Rows row .. row + rows - 1 and columns col .. col + cols - 1 of every matrix, as seen. */
ms_mat ms_mat_part(ms_mat x, int64_t row, int64_t rows, int64_t col, int64_t cols);
/* `count` matrices of equal width side by side in x, one matrix, as a stack: the heads of a row. */
ms_mat ms_mat_heads(ms_mat x, int64_t count);

static inline ms_num ms_const(double value)
{
    ms_num n = { 0 };
    n.value  = value;
    return n;
}

static inline ms_num ms_each(ms_vec vec)
{
    ms_num n = { 0 };
    n.each   = vec;
    return n;
}

static inline ms_num ms_host(const double *values)
{
    ms_num n = { 0 };
    n.host   = values;
    return n;
}

/* The numbers of matrices first, first + 1, ... */
ms_num ms_num_slice(ms_num n, int64_t first, int64_t count);

/* A stack without data, whose matrices are dense and begin at multiples of 64 bytes (some BLAS and
 * LAPACK kernels sum in another order where they do not), and the bytes that it needs. */
musec_status ms_mat_layout(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows,
                           int64_t cols, ms_mat *out, size_t *bytes);

/* ---- scratch: device memory that a function takes and releases on every path ----------------- */

/* The pattern:  const ms_mark mark = ms_arena_mark(&d->scratch); ...
 * done: ms_arena_reset(.., mark) */
musec_status ms_scratch_mat(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows,
                            int64_t cols, ms_mat *out);
musec_status ms_scratch_vec(ms_device *d, int64_t count, ms_vec *out);
musec_status ms_scratch_bytes(ms_device *d, size_t bytes, void **out);

/* Copies the vector to host memory; waits. */
musec_status ms_vec_download(ms_device *d, ms_vec vec, double *host);

#ifdef __cplusplus
}
#endif
#endif
