/* backward.c - the backward pass of gpt.h: dx holds the gradient of the residual stream.
 *
 * It recomputes norms, gated outputs, and what coefficients are made of; and of every layer before
 * the last, what the config names. */
#include "model/pass.h"

static musec_status mlp_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w = &g->w.layer[layer], *dw = &g->g.layer[layer];
    const ms_layer_acts    *a    = &g->now.layer[layer];
    ms_gpt_acts            *n    = &g->now;
    const ms_mat            act  = ms_act_of(g, layer);
    const bool              kept = act.data == a->h.data;
    const ms_mat            dout = g->cfg.post_mix ? n->dpart : n->dx;
    musec_status            st;

    if (g->cfg.post_mix) TRY(ms_post_mlp_backward(g, layer));
    if (!kept) TRY(op->unary(g->d, ms_activation_of(g), a->h, act));
    TRY(op->gemm(g->d, 1.0, ms_t(act), dout, 1.0, dw->down));
    TRY(op->gemm(g->d, 1.0, dout, ms_t(w->down), 0.0, n->dh));
    TRY(kept ? op->relu2_grad_from_out(g->d, a->h, n->dh, n->dh)
             : op->unary_grad(g->d, ms_activation_of(g), a->h, n->dh, n->dh));
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, a->mid, n->norm));
    TRY(op->gemm(g->d, 1.0, ms_t(n->dh), n->norm, 1.0, dw->up));
    TRY(op->gemm(g->d, 1.0, n->dh, w->up, 0.0, n->dnorm));
    TRY(op->rmsnorm_grad(g->d, g->cfg.norm_eps, a->mid, n->dnorm, 1.0, n->dx));
done:
    return st;
}

/* From the gradient of attention's output to dy, that of y, and the weights in between. */
static musec_status output_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w = &g->w.layer[layer], *dw = &g->g.layer[layer];
    const ms_layer_acts    *a    = &g->now.layer[layer];
    ms_gpt_acts            *n    = &g->now;
    const ms_mat            dout = g->cfg.post_mix ? n->dpart : n->dx;
    const ms_mat            dy   = ms_mat_heads(n->dy, g->cfg.heads);
    ms_mat                  y;
    musec_status            st;

    TRY(ms_attn_output(g, layer, &y));
    TRY(op->gemm(g->d, 1.0, ms_t(dout), y, 1.0, dw->o));
    TRY(op->gemm(g->d, 1.0, dout, w->o, 0.0, n->dy));
    TRY(ms_attn_output_backward(g, layer));
    if (g->cfg.head_gates) {
        TRY(ms_exclude(g, layer, &y));
        TRY(op->gate_grad(g->d, a->s, ms_mat_heads(y, g->cfg.heads), dy, dy, n->ds));
        TRY(op->gemm(g->d, 1.0, ms_t(n->ds), ms_gate_input(g, n->norm), 1.0, dw->gate));
    }
    TRY(ms_exclude_backward(g, layer));
done:
    return st;
}

static musec_status attention_backward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w = &g->w.layer[layer], *dw = &g->g.layer[layer];
    ms_gpt_acts            *n      = &g->now;
    const ms_mat            source = ms_attn_source(g, layer);
    const bool              own    = source.data == n->layer[layer].mixed.data;
    ms_mat                  input;
    musec_status            st = MUSEC_OK;

    if (ms_gpt_is_bare(&g->cfg, layer)) return MUSEC_OK;
    if (g->cfg.post_mix) TRY(ms_post_attn_backward(g, layer));
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, source, n->norm));
    TRY(output_backward(g, layer));
    TRY(ms_attend_backward(g, pass, layer));
    TRY(ms_exclude_add(g, layer));
    TRY(ms_value_backward(g, layer));
    TRY(ms_rope_backward(g, layer));
    TRY(ms_attn_input(g, layer, &input));
    TRY(op->gemm(g->d, 1.0, ms_t(n->dqkv), input, 1.0, dw->qkv));
    TRY(op->gemm(g->d, 1.0, n->dqkv, w->qkv, 0.0, n->dnorm));
    TRY(ms_attn_input_backward(g, layer));
    if (g->cfg.head_gates)
        TRY(op->gemm(g->d, 1.0, n->ds, w->gate, 1.0, ms_gate_input(g, n->dnorm)));
    TRY(ms_value_gate_backward(g, layer));
    TRY(op->rmsnorm_grad(g->d, g->cfg.norm_eps, source, n->dnorm, 1.0,
                         own ? n->dx : n->layer[g->cfg.attn_from - 1].dkept));
done:
    return st;
}

/* The gradients that later layers add to: of x0, x02 and of kept outputs. */
static musec_status clear_kept(ms_gpt *g)
{
    musec_status st = MUSEC_OK;
    if (g->now.dx0.data != NULL) TRY(g->d->ops->fill(g->d, 0.0, g->now.dx0));
    if (g->now.dbigram.data != NULL) TRY(g->d->ops->fill(g->d, 0.0, g->now.dbigram));
    if (g->now.dx02.data != NULL) TRY(g->d->ops->fill(g->d, 0.0, g->now.dx02));
    for (int64_t l = 0; l < g->cfg.layers; l++)
        if (g->now.layer[l].dkept.data != NULL)
            TRY(g->d->ops->fill(g->d, 0.0, g->now.layer[l].dkept));
done:
    return st;
}

musec_status ms_gpt_backward(ms_gpt *g, const ms_gpt_pass *pass)
{
    const ms_num one = ms_const(1.0);
    ms_gpt_acts *n   = &g->now;
    musec_status st;

    TRY(clear_kept(g));
    TRY(ms_final_backward(g));
    for (int64_t l = g->cfg.layers - 1; l >= 0; l--) {
        if (ms_is_stopped(pass)) goto done;
        TRY(ms_have_grads(g, pass, l + 1));
        if (n->layer[l].dkept.data != NULL)
            TRY(g->d->ops->axpby(g->d, one, n->layer[l].dkept, one, n->dx));
        TRY(ms_recompute_layer(g, pass, l));
        TRY(mlp_backward(g, l));
        if (ms_is_stopped(pass)) goto done;
        TRY(attention_backward(g, pass, l));
        TRY(ms_mix_backward(g, l));
        TRY(ms_mudd_enter_backward(g, l));
        TRY(ms_skip_backward(g, l));
    }
    TRY(ms_have_grads(g, pass, 0));
    if (n->dx0.data != NULL) TRY(g->d->ops->axpby(g->d, one, n->dx0, one, n->dx));
    TRY(ms_embed_backward(g, pass));
done:
    return st;
}
