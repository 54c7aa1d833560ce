/* pass.h - what the files of the forward and backward pass share: the model, and its parts.
 *
 * The parts that go beyond the plain model are in parts.c, both ways.  Most are a blend of rows
 * (see device.h) whose coefficients come from a gate: a small product, the logistic function, a
 * scalar.  Logits and coefficients of gates have the accumulator dtype; logits are kept, the rest
 * is recomputed by the backward pass. */
#ifndef MS_MODEL_PASS_H
#define MS_MODEL_PASS_H

#include "model/layout.h"

struct ms_gpt {
    ms_device     *d;
    ms_gpt_config  cfg;
    musec_dtype    dtype; /* of activations */
    int64_t        max_tokens;
    int32_t       *hashes; /* host memory: ids that are computed from tokens */
    void          *weight_memory, *copy_memory, *grad_memory, *act_memory; /* device */
    ms_mat         all_grads; /* (1, n), with the padding between them */
    ms_gpt_weights master, g; /* weights and gradients, in the accumulator dtype */
    ms_gpt_weights w;         /* what a pass reads: the compute copies, or the masters */
    ms_gpt_acts    acts;      /* for max_tokens */
    ms_gpt_acts    now;       /* the same memory, for the tokens of the current pass */
    ms_gpt_tensor *params;
    size_t         n_params;
    size_t         layer_params;  /* of a layer; 0: others lie between the embedding and the head */
    int64_t        tokens;        /* since the last ms_gpt_take */
    int64_t        docs, longest; /* documents of the current pass, tokens of the longest */
    int            n_windows;     /* that the angles have gone through by YaRN, */
    int64_t        windows[MS_GPT_WINDOWS];
    double         growth; /* and what attention's scale was multiplied by */
};

static inline const ms_device_ops *ms_ops(const ms_gpt *g) { return g->d->ops; }

/* ---- views ----------------------------------------------------------------------------------- */

ms_mat   ms_rows_of(ms_mat x, int64_t first, int64_t rows);
ms_mat   ms_heads_of(const ms_gpt *g, ms_mat fused, int64_t which); /* q (0), k (1), v (2) */
ms_mat   ms_queries_and_keys(const ms_gpt *g, ms_mat fused);
ms_mat   ms_gate_input(const ms_gpt *g, ms_mat x); /* the columns that gates read */
ms_rope  ms_rope_of(const ms_gpt *g);
ms_attn  ms_attn_of(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer);
ms_unary ms_activation_of(const ms_gpt *g);
ms_mat   ms_act_of(const ms_gpt *g, int64_t layer);
bool     ms_is_stopped(const ms_gpt_pass *pass);

/* Tell the caller (ms_gpt_pass) that the gradients of this and later layers are complete, or that
 * the weights of earlier ones are about to be read. */
musec_status ms_have_grads(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer);
musec_status ms_want_weights(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer);
bool         ms_is_long(const ms_gpt *g, int64_t layer);
ms_mat       ms_attn_source(const ms_gpt *g, int64_t layer);
ms_mat       ms_output_of(const ms_gpt *g, int64_t layer); /* the input of the one after it */
/* to (1, n) <- beta to + alpha times the sums of the columns of x, in the accumulator dtype */
musec_status ms_sum_rows(ms_gpt *g, double alpha, ms_mat x, double beta, ms_mat to);
/* out <- z + x w^T */
musec_status ms_add_product(ms_gpt *g, ms_mat z, ms_mat x, ms_mat w, ms_mat out);

/* ---- parts, forward -------------------------------------------------------------------------- */

/* From the ids to x0, and x02.  Leaves the embedding in norm and what x0 is the norm of in dnorm,
 * which is the same without smear. */
musec_status ms_embed_tokens(ms_gpt *g);
/* norm <- the embedding, dnorm <- what x0 is the norm of; also of the backward pass */
musec_status ms_embed_smeared(ms_gpt *g);
musec_status ms_skip_forward(ms_gpt *g, int64_t layer);
musec_status ms_mix_forward(ms_gpt *g, int64_t layer);
/* What q, k and v are products of: norm, or `scaled`, which it computes; also of the backward. */
musec_status ms_attn_input(ms_gpt *g, int64_t layer, ms_mat *input);
musec_status ms_key_offset(ms_gpt *g, int64_t layer);
musec_status ms_value_forward(ms_gpt *g, int64_t layer);
/* What the product with W_o takes: y with gates and scale; also of the backward pass. */
musec_status ms_attn_output(ms_gpt *g, int64_t layer, ms_mat *output);
/* The final state before its norm: x, or `final`, which it computes. */
musec_status ms_final_state(ms_gpt *g, ms_mat *state);

/* ---- parts, backward ------------------------------------------------------------------------- */

musec_status ms_embed_backward(ms_gpt *g, const ms_gpt_pass *pass);
musec_status ms_skip_backward(ms_gpt *g, int64_t layer);
musec_status ms_mix_backward(ms_gpt *g, int64_t layer);
musec_status ms_attn_input_backward(ms_gpt *g, int64_t layer);
musec_status ms_key_offset_backward(ms_gpt *g, int64_t layer);
musec_status ms_value_backward(ms_gpt *g, int64_t layer);
/* Adds what the value gate gives to dnorm. */
musec_status ms_value_gate_backward(ms_gpt *g, int64_t layer);
musec_status ms_attn_output_backward(ms_gpt *g, int64_t layer);
musec_status ms_final_backward(ms_gpt *g);

/* ---- heads.c --------------------------------------------------------------------------------- */

/* From q and k as projected to those that attention reads, and back. */
musec_status ms_rope_forward(ms_gpt *g, int64_t layer);
musec_status ms_rope_backward(ms_gpt *g, int64_t layer);
musec_status ms_attend(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer, ms_vec max_logit);
musec_status ms_attend_backward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer);
/* y without the share of v; also of the backward pass.  Its gradient takes the place of dy, and
 * that of v is kept in dve until ms_exclude_add adds it to that of attention. */
musec_status ms_exclude(ms_gpt *g, int64_t layer, ms_mat *y);
musec_status ms_exclude_backward(ms_gpt *g, int64_t layer);
musec_status ms_exclude_add(ms_gpt *g, int64_t layer);

/* ---- dynamic.c ------------------------------------------------------------------------------- */

void   ms_bigram_ids(const ms_gpt_config *cfg, const int32_t *tokens, int64_t n, int32_t *rows,
                     int32_t *signs);
double ms_bigram_sign(uint64_t index); /* of an element of the table of signs */
musec_status ms_bigram_forward(ms_gpt *g);
musec_status ms_bigram_backward(ms_gpt *g);
musec_status ms_post_attn(ms_gpt *g, int64_t layer);
musec_status ms_post_attn_backward(ms_gpt *g, int64_t layer);
musec_status ms_post_mlp(ms_gpt *g, int64_t layer, ms_mat out);
musec_status ms_post_mlp_backward(ms_gpt *g, int64_t layer);
musec_status ms_mudd_enter(ms_gpt *g, int64_t layer);
musec_status ms_mudd_enter_backward(ms_gpt *g, int64_t layer);
musec_status ms_mudd_values(ms_gpt *g, int64_t layer);
musec_status ms_mudd_values_backward(ms_gpt *g, int64_t layer);
musec_status ms_mudd_leave(ms_gpt *g, ms_mat out);
musec_status ms_mudd_leave_backward(ms_gpt *g);

/* ---- passes ---------------------------------------------------------------------------------- */

musec_status ms_gpt_forward(ms_gpt *g, const ms_gpt_pass *pass);
/* Computes again what the backward pass of a layer needs and other layers have overwritten. */
musec_status ms_recompute_layer(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer);
musec_status ms_gpt_backward(ms_gpt *g, const ms_gpt_pass *pass);

#endif
