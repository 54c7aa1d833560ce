/* gpt.h - the GPT that the optimizers are compared on, written once against the op table.
 *
 * With norm(x) = x / sqrt(mean(x^2) + eps), rows being tokens:
 *
 *     e  = embed[token];  e_t <- e_t + l sigmoid(e_t[0:g] . u) e_(t-1)   (smear: learned l, u)
 *     x  = x0 = norm(e);  x02 = norm(embed2[token])               (embed2)
 *     per layer:  x <- x + 2 sigmoid(b) sigmoid(x0[0:g] . u) h    (skip_from: h is that layer's x)
 *                 x <- r x + a x0 + c x02                         (x0_mix: learned r, a, c)
 *                 n  = norm(x);  q, k, v = l1 n W^T, cut into heads (attn_scales: learned l1)
 *                 q, k <- rope(norm(q)), rope(norm(k))            (norm: qk_norm)
 *                 k_t <- k_(t-1) in the columns that rope leaves  (key_offset, in long layers)
 *                 v_h <- v_h + 2 sigmoid(n[0:g] . w_h) table[token]_h     (value_table)
 *                 y  = softmax(scale q k^T) v                     (window, documents; softcap)
 *                 y_h <- y_h sigmoid(n[0:g] . u_h)                (head_gates)
 *                 x <- x + l2 y Wo^T                              (attn_scales: learned l2)
 *                 x <- x + relu(norm(x) A^T)^2 B                  (A, B both (mlp, width))
 *     raw = norm(x - l h) head^T                                  (backout: h is that layer's x)
 *     z = cap(raw);  loss of z against the next n tokens
 *
 * The smallest of the paper's models differs.  Before layer 0 the row of a table that a hash of the
 * token and the one before it names, with random signs, is added to some columns of x0 (bigram);
 * mixes with learned scalars come after attention and MLP (post_mix), and so does the row:
 *     x <- r x + p Attn(...) + a x0,  x[0:columns] += b row,  x <- r' x + p' relu(...)^2 B
 * Some layers have no attention (bare); in some the heads of two halves take turns in one sequence
 * (paired); in the others learned shares of the direction of v are taken out of y (xsa); late
 * layers attend to an earlier state (attn_from).  The coefficients of the last layer, and of a sum
 * of states after it, are computed from each token's state (mudd).  dynamic.c has the formulas.
 *
 * g is gate_width.  t - 1 is the token before in the batch, also at the start of a document.
 * As the long window grows from w to w', YaRN stretches the slow rotations and raises the scale:
 *     f <- f (w/w' + m (1 - w/w')),  m = clip((w f / 2 pi - 1) / 31, 0, 1)
 *     scale <- scale (1 + 0.2 ln(w'/w))
 *
 * Q, K, V of a layer are contiguous, so that one product computes all three.  Memory is
 * allocated at creation, for max_tokens; nothing is allocated after the first pass.
 *
 * For the backward pass, a layer keeps its input, what attention and the MLP have computed, and the
 * state between them.  What `recompute` names has one memory for all layers instead, and the
 * backward pass computes it again from the inputs, by the same operations: the bits are the same.
 *
 * The dtype is that of activations.  With 16 bits, weights and gradients are float32 nevertheless:
 * the pass reads a compute copy of every weight that goes into a product, rounded to 16 bits, and
 * adds its gradient to a float32 sum.  Who changes a weight must update its copy. */
#ifndef MS_MODEL_GPT_H
#define MS_MODEL_GPT_H

#include "device/device.h"

enum {
    MS_GPT_LAYERS  = 64,
    MS_GPT_TABLES  = 16, /* value tables */
    MS_GPT_WINDOWS = 32, /* that YaRN goes through */
};

/* The activation of the MLP, a row of MS_UNARY_MAP. */
typedef enum ms_activation { MS_ACTIVATION_RELU2, MS_ACTIVATION_GELU } ms_activation;

/* What the backward pass computes again rather than keep of each layer. */
typedef enum ms_recompute {
    MS_RECOMPUTE_NONE,
    MS_RECOMPUTE_ATTENTION, /* from the layer's input to the output of attention's heads */
    MS_RECOMPUTE_MLP,       /* the activations of the MLP */
    MS_RECOMPUTE_LAYER,     /* all but the layer's input */
} ms_recompute;

typedef struct ms_gpt_config {
    int64_t  layers, width, heads, head, mlp;        /* heads * head need not be width */
    int64_t  vocab;                                  /* padded; ids are below it */
    int64_t  qk_norm, tied, head_gates, x0_mix;      /* 0 or 1 */
    int64_t  gate_width;                             /* columns that gates read */
    int64_t  embed2, smear, attn_scales, key_offset; /* 0 or 1 */
    int64_t  backout; /* the layer that is taken out, from 1; 0: none */
    int64_t  spare;   /* parameters that nothing reads, for models that are counted with some */
    int64_t  bigram, bigram_width; /* rows and columns of the bigram table; 0: none */
    int64_t  attn_from;     /* attention of later layers reads this one, from 1; 0: its own */
    int64_t  xsa, post_mix; /* 0 or 1 */
    int64_t  value_ve;      /* 0 or 1: half of a value gate's input is of the table's row */
    int64_t  mudd;          /* hidden width of the dynamic coefficients; 0: none */
    uint64_t paired_layers, bare_layers; /* bit i: layer i has paired heads, no attention */
    uint8_t  value_table[MS_GPT_LAYERS]; /* of each layer, from 1; 0: none */
    uint8_t  skip_from[MS_GPT_LAYERS];   /* the layer whose output is added, from 1; 0: none */
    int64_t  activation;                 /* ms_activation */
    int64_t  recompute;                  /* ms_recompute: memory against time, the same bits */
    int64_t  cap;                        /* ms_cap */
    double   cap_scale, cap_shift, cap_width;
    double   attn_scale;    /* 0: 1 / sqrt(head) */
    double   attn_softcap;  /* 0: none */
    double   rope_base;     /* frequencies base^(-j / (pairs - 1)), j < pairs */
    double   rope_share;    /* share of a head's columns that are rotated: 0.5 is half */
    int64_t  rope_adjacent; /* pairs (2j, 2j+1); else (j, j + head/2) */
    uint64_t long_layers;   /* bit i: layer i has the long window */
    double   norm_eps;
    /* standard deviations of the initial values */
    double init_qkv, init_up;        /* uniform, in units of width^(-1/2) */
    double init_out, init_down;      /* in the same units; 0 as in the paper's code base */
    double init_embed, init_head;    /* normal; tied: embed is the head */
    double init_residual;            /* r of x0_mix */
    double init_embed2, init_values; /* normal: the second embedding, value tables */
} ms_gpt_config;

/* A parameter, for the optimizer. */
typedef struct ms_gpt_tensor {
    char       name[48]; /* "layer.3.attn.q" */
    musec_role role;
    ms_mat     weight, grad; /* in the accumulator dtype */
    ms_mat     copy;         /* of the weight, in the dtype of activations; data NULL: none */
} ms_gpt_tensor;

typedef struct ms_gpt_sizes {                    /* what a model allocates, in bytes */
    int64_t n_matrix, n_embed, n_head, n_vector; /* parameters by kind */
    size_t  weights, copies, grads, activations;
} ms_gpt_sizes;

typedef struct ms_gpt_batch { /* host memory, as a loader gives it */
    const int32_t *inputs, *targets, *doc;
    int64_t        tokens;
} ms_gpt_batch;

typedef struct ms_gpt_pass {           /* what may differ from step to step */
    int64_t window_short, window_long; /* keys before its own that a query attends to */
    /* The long windows that YaRN goes through, from the first to the present one; 0 or 1: it
     * changes nothing. */
    int     n_windows;
    int64_t windows[MS_GPT_WINDOWS];
    /* The embedding equals the head, and its gradient goes to the head's: its own stays 0. */
    bool   tied;
    int    n_weights; /* of the multi-token loss */
    double weights[MS_XENT_TARGETS];
    double grad_scale; /* on the gradient of the summed loss; 0: the loss alone */
    /* Asked between the parts of a layer; NULL: never.  Once it is true it stays so, and the pass
     * ends early: losses, largest logits and gradients since the last ms_gpt_take are of no use. */
    bool (*stop)(void *arg);
    /* Told while a pass is queued; NULL: nobody.  Of the parameters in the order of
     * ms_gpt_backward_order, on_grads: the gradients of the first n are complete, behind what has
     * been queued; on_weights: those from number n on are about to be read.  A failure, whose
     * message is the device's, ends the pass. */
    musec_status (*on_grads)(void *arg, size_t n);
    musec_status (*on_weights)(void *arg, size_t n);
    void *arg; /* of all three */
} ms_gpt_pass;

typedef struct ms_gpt_result { /* sums since the last ms_gpt_take */
    double  objective;         /* the weighted multi-token loss, summed */
    double  loss;              /* next-token cross entropy, summed */
    int64_t tokens;
} ms_gpt_result;

typedef struct ms_gpt ms_gpt;

musec_status ms_gpt_check(ms_error            *e,
                          const ms_gpt_config *cfg); /* names the field that is wrong */
/* logits_chunk: about how many logits are computed at a time, from ms_device_kind. */
musec_status ms_gpt_measure(ms_error *e, const ms_gpt_config *cfg, musec_dtype dtype,
                            int64_t max_tokens, int64_t logits_chunk, ms_gpt_sizes *out);
musec_status ms_gpt_create(ms_gpt **out, ms_device *d, const ms_gpt_config *cfg, musec_dtype dtype,
                           int64_t max_tokens);
void         ms_gpt_destroy(ms_gpt *g);
/* Draws the initial values, each a function of the seed, the tensor's name and the element. */
musec_status ms_gpt_init(ms_gpt *g, uint64_t seed);
/* Updates the compute copies, if there are any, after others have written the weights. */
musec_status ms_gpt_refresh(ms_gpt *g);
musec_status ms_gpt_refresh_param(ms_gpt *g, size_t index);
/* Makes the embedding equal to the head, for passes that are tied; not of a model with one of
 * both. */
musec_status ms_gpt_tie(ms_gpt *g);

size_t               ms_gpt_n_params(const ms_gpt *g);
const ms_gpt_tensor *ms_gpt_param(const ms_gpt *g, size_t index);
const ms_gpt_config *ms_gpt_config_of(const ms_gpt *g);
musec_dtype          ms_gpt_dtype(const ms_gpt *g); /* of activations */

/* The index of number i in the order in which a backward pass completes the gradients of
 * parameters; a forward pass reads weights in the reverse order. */
size_t ms_gpt_backward_order(const ms_gpt *g, size_t i);

musec_status ms_gpt_zero_grad(ms_gpt *g);
/* All gradients as one row, (1, n), those of the parameters and 0 between them. */
ms_mat ms_gpt_grads(const ms_gpt *g);
/* Queues a pass, which adds to the losses, the largest logits and the gradients on the device. */
musec_status ms_gpt_run(ms_gpt *g, const ms_gpt_batch *batch, const ms_gpt_pass *pass);
/* Queues that the losses since the last call of this or ms_gpt_take go elsewhere on the device:
 * objective and loss.  The largest logits stay. */
musec_status ms_gpt_move_losses(ms_gpt *g, ms_vec to, int64_t *tokens);
/* Waits, returns the results since the last call, and resets them.  max_logit: NULL or layers *
 * heads doubles. */
musec_status ms_gpt_take(ms_gpt *g, ms_gpt_result *out, double *max_logit);
/* Computes the capped logits (vocab, host memory) of the token after the ids; waits. */
musec_status ms_gpt_next(ms_gpt *g, const int32_t *ids, int64_t n, const ms_gpt_pass *pass,
                         double *logits);
/* Floating-point operations of a forward and backward pass over `tokens`, without attention: 6
 * (matrix + head parameters) tokens. */
double ms_gpt_flops(const ms_gpt_config *cfg, double tokens);
/* Those of attention in one layer, where so many pairs of query and key are visible. */
double ms_gpt_attention_flops(const ms_gpt_config *cfg, double visible_pairs);
/* What recomputation adds to them: of products in all layers, and of attention in one. */
double ms_gpt_recomputed_flops(const ms_gpt_config *cfg, double tokens);
double ms_gpt_recomputed_attention(const ms_gpt_config *cfg, int64_t layer, double visible_pairs);

#endif
