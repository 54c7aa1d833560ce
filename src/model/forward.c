/* forward.c - the forward pass of gpt.h, and the views that both passes use. */
#include <math.h>

#include "model/pass.h"

/* ---- views ----------------------------------------------------------------------------------- */

ms_mat ms_rows_of(ms_mat x, int64_t first, int64_t rows)
{
    return ms_mat_part(x, first, rows, 0, x.cols);
}

/* The heads of q (0), k (1) or v (2) in a fused (T, 3a) or (T, 2a) matrix. */
ms_mat ms_heads_of(const ms_gpt *g, ms_mat fused, int64_t which)
{
    const int64_t a = g->cfg.heads * g->cfg.head;
    return ms_mat_heads(ms_mat_part(fused, 0, fused.rows, which * a, a), g->cfg.heads);
}

/* The heads of q and k together, for operations that treat both alike. */
ms_mat ms_queries_and_keys(const ms_gpt *g, ms_mat fused)
{
    const int64_t a = g->cfg.heads * g->cfg.head;
    return ms_mat_heads(ms_mat_part(fused, 0, fused.rows, 0, 2 * a), 2 * g->cfg.heads);
}

ms_mat ms_gate_input(const ms_gpt *g, ms_mat x)
{
    return ms_mat_part(x, 0, x.rows, 0, g->cfg.gate_width);
}

bool ms_is_long(const ms_gpt *g, int64_t layer) { return g->cfg.long_layers >> layer & 1; }

ms_rope ms_rope_of(const ms_gpt *g)
{
    return (ms_rope){ .cos      = g->now.cos,
                      .sin      = g->now.sin,
                      .adjacent = g->cfg.rope_adjacent != 0,
                      .norm_eps = g->cfg.qk_norm ? g->cfg.norm_eps : -1.0 };
}

ms_attn ms_attn_of(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_gpt_config *cfg     = &g->cfg;
    const double         natural = 1.0 / sqrt((double)cfg->head);
    const double         scale   = cfg->attn_scale > 0.0 ? cfg->attn_scale : natural;
    return (ms_attn){ .scale   = scale * g->growth,
                      .softcap = cfg->attn_softcap,
                      .window  = ms_is_long(g, layer) ? pass->window_long : pass->window_short,
                      .doc     = g->now.doc,
                      .docs    = g->docs,
                      .longest = g->longest };
}

ms_unary ms_activation_of(const ms_gpt *g)
{
    return g->cfg.activation == MS_ACTIVATION_GELU ? MS_UNARY_GELU : MS_UNARY_RELU2;
}

/* The output of a layer's activation.  relu2 overwrites h, unless that is in f16, where its
 * gradient from the output would lose digits; other activations keep h. */
ms_mat ms_act_of(const ms_gpt *g, int64_t layer)
{
    const bool overwrites = ms_activation_of(g) == MS_UNARY_RELU2 && g->dtype != MUSEC_F16;
    return overwrites ? g->now.layer[layer].h : g->now.dh;
}

/* out <- z + x w^T */
musec_status ms_add_product(ms_gpt *g, ms_mat z, ms_mat x, ms_mat w, ms_mat out)
{
    const ms_num one = ms_const(1.0);
    return g->d->ops->product(
        g->d,
        &(ms_product){ .a = x, .b = ms_t(w), .alpha = one, .beta = one, .source = z, .c = out });
}

bool ms_is_stopped(const ms_gpt_pass *pass) { return pass->stop != NULL && pass->stop(pass->arg); }

/* How many parameters, in the order of ms_gpt_backward_order, are those of the head and of layers
 * from `layer` on.  Where not only layers lie between embedding and head, or these are tied, it is
 * none. */
static size_t from_layer(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const size_t head = g->cfg.tied ? 0 : 1;
    if (g->layer_params == 0 || pass->tied) return 0;
    return head + (size_t)(g->cfg.layers - layer) * g->layer_params;
}

musec_status ms_have_grads(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    return pass->on_grads == NULL ? MUSEC_OK
                                  : pass->on_grads(pass->arg, from_layer(g, pass, layer));
}

musec_status ms_want_weights(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    return pass->on_weights == NULL ? MUSEC_OK
                                    : pass->on_weights(pass->arg, from_layer(g, pass, layer));
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Where a layer stores its largest logits; those of a validation pass are not used. */
static ms_vec max_logit_of(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const int64_t heads = g->cfg.heads;
    return pass->grad_scale == 0.0 ? g->now.unused
                                   : ms_vec_slice(g->now.max_logit, layer * heads, heads);
}

/* What attention reads: the layer's own input, or a kept state. */
ms_mat ms_attn_source(const ms_gpt *g, int64_t layer)
{
    const int64_t from = g->cfg.attn_from;
    return from > 0 && layer >= from ? ms_output_of(g, from - 1) : g->now.layer[layer].mixed;
}

/* From the input of a layer to the output of attention's heads. */
static musec_status attention_forward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer,
                                      ms_vec max_logit)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w  = &g->w.layer[layer];
    ms_layer_acts          *a  = &g->now.layer[layer];
    ms_mat                  input;
    musec_status            st;

    TRY(ms_skip_forward(g, layer));
    TRY(ms_mudd_enter(g, layer));
    TRY(ms_mix_forward(g, layer));
    if (ms_gpt_is_bare(&g->cfg, layer)) return MUSEC_OK;
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, ms_attn_source(g, layer), g->now.norm));
    TRY(ms_attn_input(g, layer, &input));
    TRY(op->gemm(g->d, 1.0, input, ms_t(w->qkv), 0.0, a->qkv));
    TRY(ms_rope_forward(g, layer));
    TRY(ms_value_forward(g, layer));
    TRY(ms_attend(g, pass, layer, max_logit));
    if (g->cfg.head_gates)
        TRY(op->gemm(g->d, 1.0, ms_gate_input(g, g->now.norm), ms_t(w->gate), 0.0, a->s));
done:
    return st;
}

/* From there to the state between attention and MLP. */
static musec_status add_attention(ms_gpt *g, int64_t layer)
{
    const ms_mat         o = g->w.layer[layer].o;
    const ms_layer_acts *a = &g->now.layer[layer];
    ms_mat               y;
    musec_status         st;

    if (ms_gpt_is_bare(&g->cfg, layer)) return MUSEC_OK;
    TRY(ms_attn_output(g, layer, &y));
    if (!g->cfg.post_mix) return ms_add_product(g, a->mixed, y, o, a->mid);
    TRY(g->d->ops->gemm(g->d, 1.0, y, ms_t(o), 0.0, a->attn_out));
    TRY(ms_post_attn(g, layer));
done:
    return st;
}

/* To the activation of the MLP, and its output where that is mixed. */
static musec_status mlp_forward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w  = &g->w.layer[layer];
    const ms_layer_acts    *a  = &g->now.layer[layer];
    musec_status            st;

    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, a->mid, g->now.norm));
    TRY(op->gemm(g->d, 1.0, g->now.norm, ms_t(w->up), 0.0, a->h));
    TRY(op->unary(g->d, ms_activation_of(g), a->h, ms_act_of(g, layer)));
    if (g->cfg.post_mix) TRY(op->gemm(g->d, 1.0, ms_act_of(g, layer), w->down, 0.0, a->mlp_out));
done:
    return st;
}

static musec_status layer_forward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_mat down = g->w.layer[layer].down, mid = g->now.layer[layer].mid;
    const ms_mat next = ms_output_of(g, layer);
    musec_status st;

    TRY(attention_forward(g, pass, layer, max_logit_of(g, pass, layer)));
    TRY(add_attention(g, layer));
    if (ms_is_stopped(pass)) goto done;
    TRY(mlp_forward(g, layer));
    if (!g->cfg.post_mix) return ms_add_product(g, mid, ms_act_of(g, layer), ms_t(down), next);
    TRY(ms_post_mlp(g, layer, next));
done:
    return st;
}

/* The forward pass has left the activations of the last layer.  The largest logits are known. */
musec_status ms_recompute_layer(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const bool   attn = ms_gpt_recomputes_attn(&g->cfg), mlp = ms_gpt_recomputes_mlp(&g->cfg);
    musec_status st = MUSEC_OK;

    if (layer == g->cfg.layers - 1) return MUSEC_OK;
    if (attn) TRY(attention_forward(g, pass, layer, g->now.unused));
    if (attn && (mlp || g->cfg.post_mix)) TRY(add_attention(g, layer));
    if (mlp) TRY(mlp_forward(g, layer));
done:
    return st;
}

musec_status ms_gpt_forward(ms_gpt *g, const ms_gpt_pass *pass)
{
    ms_mat       state;
    musec_status st;

    TRY(ms_want_weights(g, pass, 0));
    TRY(ms_embed_tokens(g));
    for (int64_t l = 0; l < g->cfg.layers && !ms_is_stopped(pass); l++) {
        TRY(ms_want_weights(g, pass, l + 1));
        TRY(layer_forward(g, pass, l));
    }
    if (pass->on_weights != NULL) TRY(pass->on_weights(pass->arg, 0));
    TRY(ms_final_state(g, &state));
    TRY(g->d->ops->rmsnorm(g->d, g->cfg.norm_eps, state, g->now.norm));
done:
    return st;
}
