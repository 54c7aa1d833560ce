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
    ms_mat gate, mix;    /* (heads, gate_width), (1, 2); data NULL: absent.  A copy has no mix */
} ms_layer_weights;

typedef struct ms_gpt_weights {
    ms_mat           embed, head; /* (vocab, width); tied: the same memory */
    ms_layer_weights layer[MS_GPT_LAYERS];
} ms_gpt_weights;

/* What the forward pass keeps for the backward pass. */
typedef struct ms_layer_acts {
    ms_mat x, mixed; /* (T, width): the input, and after x0_mix (without it the same memory) */
    ms_mat qkv, qk;  /* (T, 3a) as projected, (T, 2a) normalised and rotated */
    ms_mat y, lse,
        s; /* (T, a) before the gates, (heads, 1, T) accumulator dtype, (T, heads) gate logits */
    ms_mat mid, h; /* (T, width) after attention, (T, mlp); see act_of */
} ms_layer_acts;

typedef struct ms_gpt_acts {
    ms_layer_acts layer[MS_GPT_LAYERS];
    ms_mat        x;              /* (T, width) after the last layer */
    ms_mat        norm, gated;    /* (T, width), (T, a): recomputed in the backward pass */
    ms_mat        dx, dx0, dnorm; /* (T, width) */
    ms_mat        dh;             /* (T, mlp); holds the activation too where a layer keeps h */
    ms_mat        dy, dqkv, ds;   /* (T, a), (T, 3a), (T, heads) */
    ms_mat        dqk;            /* (T, 2a) of the rotated q and k, in their layout */
    ms_mat        logits;         /* (chunk, vocab) */
    ms_mat        cos, sin;       /* (T, pairs), accumulator dtype */
    ms_ids        inputs, targets, doc; /* (T) */
    ms_vec        loss;                 /* (2) */
    ms_vec        max_logit, unused;    /* (layers * heads), (heads) */
} ms_gpt_acts;

int64_t ms_gpt_rope_pairs(const ms_gpt_config *cfg);

/* The cosines and sines of the rotary positions of rows 0 to rows - 1. */
musec_status ms_gpt_upload_angles(ms_device *d, const ms_gpt_config *cfg, int64_t rows,
                                  const ms_gpt_acts *acts);

/* Weights, gradients, or (16 bits) the copies of weights. */
void ms_gpt_carve_weights(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                          ms_gpt_weights *out);
void ms_gpt_carve_acts(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                       int64_t max_tokens, int64_t logits_chunk, ms_gpt_acts *out);
/* The views of a pass over so many tokens, in the memory of `all`. */
void ms_gpt_set_tokens(const ms_gpt_config *cfg, int64_t tokens, const ms_gpt_acts *all,
                       ms_gpt_acts *now);
/* Rows of logits that are computed at a time. */
int64_t ms_gpt_chunk(const ms_gpt_config *cfg, int64_t max_tokens, int64_t logits_chunk);

/* Lists the parameters in their order; `out` has capacity for ms_gpt_count_params().  `copies`
 * without data stand for none. */
size_t ms_gpt_count_params(const ms_gpt_config *cfg);
void   ms_gpt_list_params(const ms_gpt_config *cfg, const ms_gpt_weights *weights,
                          const ms_gpt_weights *grads, const ms_gpt_weights *copies,
                          ms_gpt_tensor *out);
/* Draws the initial values of a parameter. */
musec_status ms_gpt_draw(ms_device *d, const ms_gpt_config *cfg, const ms_gpt_tensor *p,
                         uint64_t seed);

#endif
