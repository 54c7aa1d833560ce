/* layout.h - the memory of a GPT: weights, gradients and compute copies, which have one layout, and
 * activations.
 *
 * Memory is carved from one block per kind.  The same function counts the bytes (base NULL) and
 * assigns the addresses, so that size and layout cannot differ. */
#ifndef MS_MODEL_LAYOUT_H
#define MS_MODEL_LAYOUT_H

#include "model/gpt.h"

typedef struct ms_carver {
    unsigned char *base; /* NULL: only count */
    size_t         used;
    bool           overflow;
} ms_carver;

typedef struct ms_layer_weights {
    ms_mat qkv, q, k, v; /* (3a, width), and its thirds (a, width); a = heads * head */
    ms_mat o, up, down;  /* (width, a), (mlp, width), (mlp, width) */
    /* Data NULL: absent.  Gates are (heads, gate_width), that of a skip (1, gate_width) */
    ms_mat gate, value_gate, skip_gate;
    /* Scalars, (1, 2 or 3), (1, 2), (1, 1); copies have none */
    ms_mat mix, scales, skip;
    /* (1, heads), (1, 3), (1, 2), (1, 1) */
    ms_mat alpha, attn_mix, mlp_mix, bigram;
} ms_layer_weights;

/* Dynamic coefficients: (hidden, width), (n, hidden), (1, n); a copy has no bias. */
typedef struct ms_mudd_weights {
    ms_mat up, down, bias;
} ms_mudd_weights;

enum { MS_GPT_SIGNS = 8192 };                   /* rows of random signs of the bigram table */
enum { MS_MUDD_LAYER = 14, MS_MUDD_FINAL = 5 }; /* coefficients of the last layer, and after it */

typedef struct ms_gpt_weights {
    ms_mat           embed, head;                  /* (vocab, width); tied: the same memory */
    ms_mat           embed2, value[MS_GPT_TABLES]; /* (vocab, width), (vocab, a) */
    ms_mat           smear_gate;                   /* (1, gate_width) */
    ms_mat           smear, backout, spare;        /* (1, n); copies have none */
    ms_mat           bigram;                       /* (rows, bigram_width) */
    ms_mudd_weights  mudd[2];                      /* of the last layer, and after it */
    ms_layer_weights layer[MS_GPT_LAYERS];
} ms_gpt_weights;

typedef struct ms_mudd_acts {
    ms_mat h, act, dact;    /* (T, hidden) before and after GELU */
    ms_mat coef, dcoef, ds; /* (T, n): accumulator dtype, but for ds */
} ms_mudd_acts;

/* What the forward pass keeps for the backward pass, in memory of the layer's own or, where it is
 * recomputed, in memory that all layers share: then it is that of the layer last computed. */
typedef struct ms_layer_acts {
    ms_mat x, mixed; /* (T, width): the input, and after x0_mix (without it the same memory) */
    ms_mat qkv, qk;  /* (T, 3a) as projected, (T, 2a) normalised and rotated */
    ms_mat y, lse,
        s; /* (T, a) before the gates, (heads, 1, T) accumulator dtype, (T, heads) gate logits */
    ms_mat mid, h; /* (T, width) after attention, (T, mlp); see act_of */
    /* logits of gates, accumulator dtype, (T, heads) and (T, 1); (T, width) after the skip */
    ms_mat value_s, skip_s, skipped;
    ms_mat attn_out, mlp_out; /* (T, width) of post_mix */
    ms_mat dkept; /* (T, width): gradient of the layer's output where a later one reads it */
} ms_layer_acts;

typedef struct ms_gpt_acts {
    ms_layer_acts layer[MS_GPT_LAYERS];
    ms_mat        x;                /* (T, width) after the last layer */
    ms_mat        norm, gated;      /* (T, width), (T, a): recomputed in the backward pass */
    ms_mat        dx, dx0, dnorm;   /* (T, width) */
    ms_mat        dh;               /* (T, mlp); holds the activation too where a layer keeps h */
    ms_mat        dy, dqkv, ds;     /* (T, a), (T, 3a), (T, heads) */
    ms_mat        dqk;              /* (T, 2a) of the rotated q and k, in their layout */
    ms_mat        x02, dx02, final; /* (T, width): of embed2, and x without the backout */
    ms_mat        scaled;           /* (T, width): norm times l1 */
    ms_mat        ve, dve;          /* (T, a) of a value table */
    ms_mat        shifted;          /* (T, a) keys, on their way by one row */
    ms_mat        smear_s;          /* (T, 1) logits, accumulator dtype */
    /* Coefficients of rows and their gradients, (T, most), and scalars, (1, 4); accumulator dtype.
     * ds16: gradients of logits in the dtype of activations. */
    ms_mat       ones, sig, coef, dcoef, dsig, ds16, value_ds, scalar;
    ms_mat       dpart;    /* (T, width): of the output of attention or MLP, of post_mix */
    ms_mat       pair_v;   /* (T, a) v of paired heads, dense */
    ms_mat       excluded; /* (T, a) y without the share of v */
    ms_mat       signs;    /* (MS_GPT_SIGNS, bigram_width) random signs */
    ms_mat       bigram, row_signs, dbigram; /* (T, bigram_width) */
    ms_mudd_acts mudd[2];
    ms_mat       logits;                      /* (chunk, vocab) */
    ms_mat       cos, sin;                    /* (T, pairs), accumulator dtype */
    ms_ids       inputs, targets, doc;        /* (T) */
    ms_ids       bigrams, sign_ids, pair_doc; /* (T), (T), (2T) */
    ms_vec       loss;                        /* (2) */
    ms_vec       max_logit, unused;           /* (layers * heads), (heads) */
} ms_gpt_acts;

int64_t ms_gpt_rope_pairs(const ms_gpt_config *cfg);

/* The cosines and sines of the rotary positions, one per row, after YaRN went through the windows.
 * *growth: what it multiplies attention's scale by. */
musec_status ms_gpt_upload_angles(ms_device *d, const ms_gpt_config *cfg, int n_windows,
                                  const int64_t *windows, const ms_gpt_acts *acts, double *growth);
/* Is the output of a layer read by others than the next? */
bool ms_gpt_keeps(const ms_gpt_config *cfg, int64_t layer);
bool ms_gpt_has_skips(const ms_gpt_config *cfg);
bool ms_gpt_is_bare(const ms_gpt_config *cfg, int64_t layer);
bool ms_gpt_is_paired(const ms_gpt_config *cfg, int64_t layer);
bool ms_gpt_has_xsa(const ms_gpt_config *cfg, int64_t layer);
bool ms_gpt_is_dynamic(const ms_gpt_config *cfg, int64_t layer); /* by mudd */
/* Are these recomputed: what leads to the output of attention's heads, the MLP's activations? */
bool ms_gpt_recomputes_attn(const ms_gpt_config *cfg);
bool ms_gpt_recomputes_mlp(const ms_gpt_config *cfg);
/* The number of value tables. */
int64_t ms_gpt_tables(const ms_gpt_config *cfg);

/* Weights, gradients, or (16 bits) the copies of weights. */
void ms_gpt_carve_weights(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                          ms_gpt_weights *out);
void ms_gpt_carve_acts(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                       int64_t max_tokens, int64_t logits_chunk, ms_gpt_acts *out);
/* Rows of logits that are computed at a time. */
int64_t ms_gpt_chunk(const ms_gpt_config *cfg, int64_t max_tokens, int64_t logits_chunk);

/* Lists the parameters in their order, and returns their number; `out` NULL: only that.  `copies`
 * without data stand for none. */
size_t ms_gpt_list_params(const ms_gpt_config *cfg, const ms_gpt_weights *weights,
                          const ms_gpt_weights *grads, const ms_gpt_weights *copies,
                          ms_gpt_tensor *out);
/* The parameters of a model that need not exist: names, roles and shapes; malloc'ed, NULL if there
 * is no memory. */
ms_gpt_tensor *ms_gpt_shapes(const ms_gpt_config *cfg, size_t *n);
/* Draws the initial values of a parameter. */
musec_status ms_gpt_draw(ms_device *d, const ms_gpt_config *cfg, const ms_gpt_tensor *p,
                         uint64_t seed);

#endif
