/* gpt.c - the GPT of gpt.h: creation, forward and backward passes.
 *
 * A layer keeps the residual stream before and after attention, q, k, v as projected and as
 * rotated, the output of attention and the MLP's activation.  The backward pass recomputes norms
 * and gated outputs.
 *
 * The activation max(h, 0)^2 overwrites h.  Its gradient needs max(h, 0), which is the rounded root
 * of the rounded square: in binary arithmetic that is the number to the last bit if the square is a
 * normal number, as from 1e-19 on.  In f16 that would be 0.008, so there h is kept.
 *
 * The logits are computed, scored and replaced by their gradient chunk by chunk, and never all in
 * memory: with 50304 ids and 2048 tokens they would take more than the rest of the model. */
#include "model/gpt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "model/layout.h"

struct ms_gpt {
    ms_device     *d;
    ms_gpt_config  cfg;
    musec_dtype    dtype; /* of activations */
    int64_t        max_tokens;
    void          *weight_memory, *copy_memory, *grad_memory, *act_memory; /* device */
    ms_mat         all_grads; /* (1, n), with the padding between them */
    ms_gpt_weights master, g; /* weights and gradients, in the accumulator dtype */
    ms_gpt_weights w;         /* what a pass reads: the compute copies, or the masters */
    ms_gpt_acts    acts;      /* for max_tokens */
    ms_gpt_acts    now;       /* the same memory, for the tokens of the current pass */
    ms_gpt_tensor *params;
    size_t         n_params;
    int64_t        tokens;        /* since the last ms_gpt_take */
    int64_t        docs, longest; /* documents of the current pass, tokens of the longest */
};

/* ---- creation -------------------------------------------------------------------------------- */

static ms_mat row_of(void *data, musec_dtype dtype, int64_t n)
{
    return ms_mat_of(musec_view_dense(data, dtype, 1, 1, n));
}

static musec_status fill_vec(ms_gpt *g, double value, ms_vec v)
{
    return g->d->ops->fill(g->d, value, row_of(v.data, MUSEC_F64, v.count));
}

static musec_status reset_results(ms_gpt *g)
{
    musec_status st;
    g->tokens = 0;
    TRY(fill_vec(g, 0.0, g->acts.loss));
    TRY(fill_vec(g, -INFINITY, g->acts.max_logit));
done:
    return st;
}

/* Lists the parameters, and chooses which weights a pass reads. */
static musec_status list_params(ms_gpt *g, const ms_gpt_weights *copies)
{
    g->n_params = ms_gpt_count_params(&g->cfg);
    g->params   = calloc(g->n_params, sizeof *g->params);
    if (g->params == NULL) return ms_fail(&g->d->error, MUSEC_ENOMEM, "not enough memory");
    ms_gpt_list_params(&g->cfg, &g->master, &g->g, copies, g->params);
    g->w = g->copy_memory != NULL ? *copies : g->master;
    for (int64_t l = 0; l < g->cfg.layers; l++)
        g->w.layer[l].mix = g->master.layer[l].mix;
    return MUSEC_OK;
}

static musec_status take_memory(ms_gpt *g)
{
    const ms_gpt_config *cfg          = &g->cfg;
    const musec_dtype    wide         = ms_dtype_accum(g->dtype);
    const int64_t        logits_chunk = g->d->kind->logits_chunk;
    ms_gpt_sizes         sizes;
    ms_gpt_weights       copied  = { 0 };
    ms_carver            weights = { 0 }, copies = { 0 }, grads = { 0 }, acts = { 0 };
    musec_status         st;

    if (!ms_device_has(g->d, g->dtype))
        return ms_fail(&g->d->error, MUSEC_ENOTSUP, "the device %s has no arithmetic in %s",
                       g->d->name, ms_dtype_name(g->dtype));
    TRY(ms_gpt_measure(&g->d->error, cfg, g->dtype, g->max_tokens, logits_chunk, &sizes));
    TRY(g->d->ops->alloc(g->d, sizes.weights, &g->weight_memory));
    if (sizes.copies > 0) TRY(g->d->ops->alloc(g->d, sizes.copies, &g->copy_memory));
    TRY(g->d->ops->alloc(g->d, sizes.grads, &g->grad_memory));
    TRY(g->d->ops->alloc(g->d, sizes.activations, &g->act_memory));
    weights.base = g->weight_memory;
    grads.base   = g->grad_memory;
    acts.base    = g->act_memory;
    ms_gpt_carve_weights(&weights, cfg, wide, &g->master);
    ms_gpt_carve_weights(&grads, cfg, wide, &g->g);
    ms_gpt_carve_acts(&acts, cfg, g->dtype, g->max_tokens, logits_chunk, &g->acts);
    if (g->copy_memory != NULL) {
        copies.base = g->copy_memory;
        ms_gpt_carve_weights(&copies, cfg, g->dtype, &copied);
    }
    g->all_grads = row_of(g->grad_memory, wide, (int64_t)(sizes.grads / ms_dtype_bytes(wide)));
    TRY(list_params(g, &copied));
    TRY(ms_gpt_upload_angles(g->d, cfg, g->max_tokens, &g->acts));
    TRY(reset_results(g));
done:
    return st;
}

musec_status ms_gpt_create(ms_gpt **out, ms_device *d, const ms_gpt_config *cfg, musec_dtype dtype,
                           int64_t max_tokens)
{
    ms_gpt      *g = calloc(1, sizeof *g);
    musec_status st;

    *out = NULL;
    if (g == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    *g = (ms_gpt){ .d = d, .cfg = *cfg, .dtype = dtype, .max_tokens = max_tokens };
    st = take_memory(g);
    if (st == MUSEC_OK)
        *out = g;
    else
        ms_gpt_destroy(g);
    return st;
}

void ms_gpt_destroy(ms_gpt *g)
{
    if (g == NULL) return;
    g->d->ops->free(g->d, g->act_memory);
    g->d->ops->free(g->d, g->grad_memory);
    g->d->ops->free(g->d, g->copy_memory);
    g->d->ops->free(g->d, g->weight_memory);
    free(g->params);
    free(g);
}

musec_status ms_gpt_init(ms_gpt *g, uint64_t seed)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < g->n_params; i++)
        TRY(ms_gpt_draw(g->d, &g->cfg, &g->params[i], seed));
    TRY(ms_gpt_refresh(g));
done:
    return st;
}

musec_status ms_gpt_refresh(ms_gpt *g)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < g->n_params; i++)
        TRY(ms_gpt_refresh_param(g, i));
done:
    return st;
}

musec_status ms_gpt_refresh_param(ms_gpt *g, size_t index)
{
    const ms_gpt_tensor *p = &g->params[index];
    return p->copy.data == NULL ? MUSEC_OK : g->d->ops->copy(g->d, p->weight, p->copy);
}

/* The head comes last in the list, and first backward, unless it is the embedding too. */
size_t ms_gpt_backward_order(const ms_gpt *g, size_t i)
{
    const size_t last = g->n_params - 1;
    if (!g->cfg.tied) return last - i;
    return i < last ? last - 1 - i : last;
}

size_t               ms_gpt_n_params(const ms_gpt *g) { return g->n_params; }
const ms_gpt_tensor *ms_gpt_param(const ms_gpt *g, size_t index) { return &g->params[index]; }
const ms_gpt_config *ms_gpt_config_of(const ms_gpt *g) { return &g->cfg; }
musec_dtype          ms_gpt_dtype(const ms_gpt *g) { return g->dtype; }

ms_mat ms_gpt_grads(const ms_gpt *g) { return g->all_grads; }

musec_status ms_gpt_zero_grad(ms_gpt *g) { return g->d->ops->fill(g->d, 0.0, g->all_grads); }

/* ---- views of a pass ------------------------------------------------------------------------- */

static ms_mat rows_of(ms_mat x, int64_t first, int64_t rows)
{
    return ms_mat_part(x, first, rows, 0, x.cols);
}

/* The heads of q (0), k (1) or v (2) in a fused (T, 3a) or (T, 2a) matrix. */
static ms_mat heads_of(const ms_gpt *g, ms_mat fused, int64_t which)
{
    const int64_t a = g->cfg.heads * g->cfg.head;
    return ms_mat_heads(ms_mat_part(fused, 0, fused.rows, which * a, a), g->cfg.heads);
}

/* The heads of q and k together, for operations that treat both alike. */
static ms_mat queries_and_keys(const ms_gpt *g, ms_mat fused)
{
    const int64_t a = g->cfg.heads * g->cfg.head;
    return ms_mat_heads(ms_mat_part(fused, 0, fused.rows, 0, 2 * a), 2 * g->cfg.heads);
}

static ms_mat gate_input(const ms_gpt *g)
{
    return ms_mat_part(g->now.norm, 0, g->now.norm.rows, 0, g->cfg.gate_width);
}

static ms_rope rope_of(const ms_gpt *g)
{
    return (ms_rope){ .cos      = g->now.cos,
                      .sin      = g->now.sin,
                      .adjacent = g->cfg.rope_adjacent != 0,
                      .norm_eps = g->cfg.qk_norm ? g->cfg.norm_eps : -1.0 };
}

static ms_attn attn_of(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_gpt_config *cfg     = &g->cfg;
    const bool           is_long = cfg->long_layers >> layer & 1;
    const double         natural = 1.0 / sqrt((double)cfg->head);
    return (ms_attn){ .scale   = cfg->attn_scale > 0.0 ? cfg->attn_scale : natural,
                      .softcap = cfg->attn_softcap,
                      .window  = is_long ? pass->window_long : pass->window_short,
                      .doc     = g->now.doc,
                      .docs    = g->docs,
                      .longest = g->longest };
}

static ms_unary activation_of(const ms_gpt *g)
{
    return g->cfg.activation == MS_ACTIVATION_GELU ? MS_UNARY_GELU : MS_UNARY_RELU2;
}

/* The output of a layer's activation.  relu2 overwrites h, unless that is in f16, where its
 * gradient from the output would lose digits; other activations keep h. */
static ms_mat act_of(const ms_gpt *g, int64_t layer)
{
    const bool overwrites = activation_of(g) == MS_UNARY_RELU2 && g->dtype != MUSEC_F16;
    return overwrites ? g->now.layer[layer].h : g->now.dh;
}

/* out <- z + x w^T */
static musec_status add_product(ms_gpt *g, ms_mat z, ms_mat x, ms_mat w, ms_mat out)
{
    const ms_num one = ms_const(1.0);
    return g->d->ops->product(
        g->d,
        &(ms_product){ .a = x, .b = ms_t(w), .alpha = one, .beta = one, .source = z, .c = out });
}

static bool is_stopped(const ms_gpt_pass *pass)
{
    return pass->stop != NULL && pass->stop(pass->arg);
}

/* How many parameters have their gradients once those of this and later layers are complete. */
static size_t completed(const ms_gpt *g, int64_t layer)
{
    const size_t tables = g->cfg.tied ? 1 : 2, layers = (size_t)g->cfg.layers;
    return tables - 1 + (layers - (size_t)layer) * ((g->n_params - tables) / layers);
}

static musec_status have_grads(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    return pass->on_grads == NULL ? MUSEC_OK : pass->on_grads(pass->arg, completed(g, layer));
}

static musec_status want_weights(const ms_gpt_pass *pass, size_t from)
{
    return pass->on_weights == NULL ? MUSEC_OK : pass->on_weights(pass->arg, from);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Where a layer stores its largest logits; those of a validation pass are not used. */
static ms_vec max_logit_of(const ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const int64_t heads = g->cfg.heads;
    return pass->grad_scale == 0.0 ? g->now.unused
                                   : ms_vec_slice(g->now.max_logit, layer * heads, heads);
}

static musec_status attention_forward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_device_ops    *op      = g->d->ops;
    const ms_layer_weights *w       = &g->w.layer[layer];
    ms_layer_acts          *a       = &g->now.layer[layer];
    const ms_mat            heads_y = ms_mat_heads(a->y, g->cfg.heads);
    ms_mat                  y       = a->y;
    musec_status            st;

    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, a->mixed, g->now.norm));
    TRY(op->gemm(g->d, 1.0, g->now.norm, ms_t(w->qkv), 0.0, a->qkv));
    TRY(op->rope(g->d, rope_of(g), queries_and_keys(g, a->qkv), queries_and_keys(g, a->qk)));
    TRY(op->attention(g->d, attn_of(g, pass, layer), heads_of(g, a->qk, 0), heads_of(g, a->qk, 1),
                      heads_of(g, a->qkv, 2), heads_y, a->lse, max_logit_of(g, pass, layer)));
    if (g->cfg.head_gates) {
        y = g->now.gated;
        TRY(op->gemm(g->d, 1.0, gate_input(g), ms_t(w->gate), 0.0, a->s));
        TRY(op->gate(g->d, a->s, heads_y, ms_mat_heads(y, g->cfg.heads)));
    }
    TRY(add_product(g, a->mixed, y, w->o, a->mid));
done:
    return st;
}

static musec_status layer_forward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_device_ops    *op   = g->d->ops;
    const ms_layer_weights *w    = &g->w.layer[layer];
    ms_layer_acts          *a    = &g->now.layer[layer];
    const ms_mat            next = layer + 1 < g->cfg.layers ? a[1].x : g->now.x;
    musec_status            st;

    if (g->cfg.x0_mix) TRY(op->mix(g->d, w->mix, a->x, g->now.layer[0].x, a->mixed));
    TRY(attention_forward(g, pass, layer));
    if (is_stopped(pass)) goto done;
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, a->mid, g->now.norm));
    TRY(op->gemm(g->d, 1.0, g->now.norm, ms_t(w->up), 0.0, a->h));
    TRY(op->unary(g->d, activation_of(g), a->h, act_of(g, layer)));
    TRY(add_product(g, a->mid, act_of(g, layer), ms_t(w->down), next));
done:
    return st;
}

static musec_status forward(ms_gpt *g, const ms_gpt_pass *pass)
{
    const ms_device_ops *op = g->d->ops;
    const ms_mat         x0 = g->now.layer[0].x;
    musec_status         st;

    TRY(want_weights(pass, completed(g, 0)));
    TRY(op->embed(g->d, g->now.inputs, g->w.embed, x0));
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, x0, x0));
    for (int64_t l = 0; l < g->cfg.layers && !is_stopped(pass); l++) {
        TRY(want_weights(pass, completed(g, l + 1)));
        TRY(layer_forward(g, pass, l));
    }
    TRY(want_weights(pass, 0));
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, g->now.x, g->now.norm));
done:
    return st;
}

/* ---- head and loss, both ways ---------------------------------------------------------------- */

/* Leaves the gradient of the normalised state in dnorm, unless only the loss is computed. */
static musec_status head_and_loss(ms_gpt *g, const ms_gpt_pass *pass)
{
    const ms_device_ops *op     = g->d->ops;
    const int64_t        tokens = g->now.x.rows;
    ms_xent              x      = { .cap        = (ms_cap)g->cfg.cap,
                                    .cap_scale  = g->cfg.cap_scale,
                                    .cap_shift  = g->cfg.cap_shift,
                                    .cap_width  = g->cfg.cap_width,
                                    .targets    = g->now.targets,
                                    .n_weights  = pass->n_weights,
                                    .grad_scale = pass->grad_scale };
    musec_status         st     = MUSEC_OK;

    memcpy(x.weights, pass->weights, sizeof x.weights);
    for (x.first = 0; x.first < tokens && !is_stopped(pass); x.first += g->now.logits.rows) {
        const int64_t rest   = tokens - x.first;
        const int64_t rows   = rest < g->now.logits.rows ? rest : g->now.logits.rows;
        const ms_mat  norm   = rows_of(g->now.norm, x.first, rows);
        const ms_mat  logits = rows_of(g->now.logits, 0, rows);
        TRY(op->gemm(g->d, 1.0, norm, ms_t(g->w.head), 0.0, logits));
        TRY(op->xent(g->d, x, logits, g->now.loss));
        if (pass->grad_scale == 0.0) continue;
        TRY(op->gemm(g->d, 1.0, ms_t(logits), norm, 1.0, g->g.head));
        TRY(op->gemm(g->d, 1.0, logits, g->w.head, 0.0, rows_of(g->now.dnorm, x.first, rows)));
    }
done:
    return st;
}

/* ---- backward: dx holds the gradient of the residual stream ---------------------------------- */

static musec_status mlp_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w = &g->w.layer[layer], *dw = &g->g.layer[layer];
    const ms_layer_acts    *a    = &g->now.layer[layer];
    ms_gpt_acts            *n    = &g->now;
    const ms_mat            act  = act_of(g, layer);
    const bool              kept = act.data == a->h.data;
    musec_status            st;

    if (!kept) TRY(op->unary(g->d, activation_of(g), a->h, act));
    TRY(op->gemm(g->d, 1.0, ms_t(act), n->dx, 1.0, dw->down));
    TRY(op->gemm(g->d, 1.0, n->dx, ms_t(w->down), 0.0, n->dh));
    TRY(kept ? op->relu2_grad_from_out(g->d, a->h, n->dh, n->dh)
             : op->unary_grad(g->d, activation_of(g), a->h, n->dh, n->dh));
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, a->mid, n->norm));
    TRY(op->gemm(g->d, 1.0, ms_t(n->dh), n->norm, 1.0, dw->up));
    TRY(op->gemm(g->d, 1.0, n->dh, w->up, 0.0, n->dnorm));
    TRY(op->rmsnorm_grad(g->d, g->cfg.norm_eps, a->mid, n->dnorm, 1.0, n->dx));
done:
    return st;
}

/* From dx to dy, the gradient of the ungated output of attention, and the weights in between. */
static musec_status output_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w = &g->w.layer[layer], *dw = &g->g.layer[layer];
    const ms_layer_acts    *a        = &g->now.layer[layer];
    ms_gpt_acts            *n        = &g->now;
    const ms_mat            heads_y  = ms_mat_heads(a->y, g->cfg.heads);
    const ms_mat            heads_dy = ms_mat_heads(n->dy, g->cfg.heads);
    ms_mat                  y        = a->y;
    musec_status            st;

    if (g->cfg.head_gates) {
        y = n->gated;
        TRY(op->gate(g->d, a->s, heads_y, ms_mat_heads(y, g->cfg.heads)));
    }
    TRY(op->gemm(g->d, 1.0, ms_t(n->dx), y, 1.0, dw->o));
    TRY(op->gemm(g->d, 1.0, n->dx, w->o, 0.0, n->dy));
    if (g->cfg.head_gates) {
        TRY(op->gate_grad(g->d, a->s, heads_y, heads_dy, heads_dy, n->ds));
        TRY(op->gemm(g->d, 1.0, ms_t(n->ds), gate_input(g), 1.0, dw->gate));
    }
done:
    return st;
}

static musec_status attention_backward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_device_ops    *op = g->d->ops;
    const ms_layer_weights *w = &g->w.layer[layer], *dw = &g->g.layer[layer];
    const ms_layer_acts    *a = &g->now.layer[layer];
    ms_gpt_acts            *n = &g->now;
    musec_status            st;

    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, a->mixed, n->norm));
    TRY(output_backward(g, layer));
    TRY(op->attention_grad(g->d, attn_of(g, pass, layer), heads_of(g, a->qk, 0),
                           heads_of(g, a->qk, 1), heads_of(g, a->qkv, 2),
                           ms_mat_heads(a->y, g->cfg.heads), a->lse,
                           ms_mat_heads(n->dy, g->cfg.heads), heads_of(g, n->dqk, 0),
                           heads_of(g, n->dqk, 1), heads_of(g, n->dqkv, 2)));
    TRY(op->rope_grad(g->d, rope_of(g), queries_and_keys(g, a->qkv), queries_and_keys(g, n->dqk),
                      queries_and_keys(g, n->dqkv)));
    TRY(op->gemm(g->d, 1.0, ms_t(n->dqkv), n->norm, 1.0, dw->qkv));
    TRY(op->gemm(g->d, 1.0, n->dqkv, w->qkv, 0.0, n->dnorm));
    if (g->cfg.head_gates)
        TRY(op->gemm(g->d, 1.0, n->ds, w->gate, 1.0,
                     ms_mat_part(n->dnorm, 0, n->dnorm.rows, 0, g->cfg.gate_width)));
    TRY(op->rmsnorm_grad(g->d, g->cfg.norm_eps, a->mixed, n->dnorm, 1.0, n->dx));
done:
    return st;
}

static musec_status backward(ms_gpt *g, const ms_gpt_pass *pass)
{
    const ms_device_ops *op = g->d->ops;
    ms_gpt_acts         *n  = &g->now;
    const ms_mat         x0 = n->layer[0].x;
    musec_status         st;

    TRY(op->rmsnorm_grad(g->d, g->cfg.norm_eps, n->x, n->dnorm, 0.0, n->dx));
    if (g->cfg.x0_mix) TRY(op->fill(g->d, 0.0, n->dx0));
    for (int64_t l = g->cfg.layers - 1; l >= 0; l--) {
        if (is_stopped(pass)) goto done;
        TRY(have_grads(g, pass, l + 1));
        TRY(mlp_backward(g, l));
        if (is_stopped(pass)) goto done;
        TRY(attention_backward(g, pass, l));
        if (g->cfg.x0_mix)
            TRY(op->mix_grad(g->d, g->w.layer[l].mix, n->layer[l].x, x0, n->dx, n->dx, n->dx0,
                             g->g.layer[l].mix));
    }
    TRY(have_grads(g, pass, 0));
    if (g->cfg.x0_mix) TRY(op->axpby(g->d, ms_const(1.0), n->dx0, ms_const(1.0), n->dx));
    TRY(op->embed(g->d, n->inputs, g->w.embed, n->norm)); /* x0 before its norm */
    TRY(op->rmsnorm_grad(g->d, g->cfg.norm_eps, n->norm, n->dx, 0.0, n->dx));
    TRY(op->embed_grad(g->d, n->inputs, n->dx, g->g.embed));
done:
    return st;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static musec_status upload_ids(ms_gpt *g, const int32_t *host, ms_ids to)
{
    return g->d->ops->upload(g->d, host, (size_t)to.count * sizeof *host, to.data);
}

/* Counts the documents for attention's choice of a kernel, while they are in host memory. */
static void count_documents(ms_gpt *g, const int32_t *doc, int64_t tokens)
{
    g->docs = g->longest = 0;
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t length = i - doc[i] + 1;
        if (length == 1) g->docs++;
        if (length > g->longest) g->longest = length;
    }
}

static musec_status check_tokens(ms_gpt *g, int64_t tokens)
{
    if (tokens < 1 || tokens > g->max_tokens)
        return ms_fail(&g->d->error, MUSEC_EINVAL, "%lld tokens in a model made for 1 to %lld",
                       (long long)tokens, (long long)g->max_tokens);
    return MUSEC_OK;
}

musec_status ms_gpt_run(ms_gpt *g, const ms_gpt_batch *batch, const ms_gpt_pass *pass)
{
    musec_status st;

    TRY(check_tokens(g, batch->tokens));
    ms_gpt_set_tokens(&g->cfg, batch->tokens, &g->acts, &g->now);
    count_documents(g, batch->doc, batch->tokens);
    TRY(upload_ids(g, batch->inputs, g->now.inputs));
    TRY(upload_ids(g, batch->targets, g->now.targets));
    TRY(upload_ids(g, batch->doc, g->now.doc));
    TRY(forward(g, pass));
    TRY(head_and_loss(g, pass));
    if (pass->grad_scale != 0.0 && !is_stopped(pass)) TRY(backward(g, pass));
    g->tokens += batch->tokens;
done:
    return st;
}

musec_status ms_gpt_move_losses(ms_gpt *g, ms_vec to, int64_t *tokens)
{
    musec_status st;

    *tokens   = g->tokens;
    g->tokens = 0;
    TRY(g->d->ops->copy(g->d, row_of(g->acts.loss.data, MUSEC_F64, 2),
                        row_of(to.data, MUSEC_F64, 2)));
    TRY(fill_vec(g, 0.0, g->acts.loss));
done:
    return st;
}

musec_status ms_gpt_take(ms_gpt *g, ms_gpt_result *out, double *max_logit)
{
    double       loss[2];
    musec_status st;

    TRY(ms_vec_download(g->d, g->acts.loss, loss));
    if (max_logit != NULL) TRY(ms_vec_download(g->d, g->acts.max_logit, max_logit));
    *out = (ms_gpt_result){ .objective = loss[0], .loss = loss[1], .tokens = g->tokens };
    TRY(reset_results(g));
done:
    return st;
}

static double capped(const ms_gpt_config *cfg, double raw)
{
    if (cfg->cap == MS_CAP_TANH) return cfg->cap_scale * tanh(raw / cfg->cap_scale);
    if (cfg->cap == MS_CAP_SIGMOID)
        return cfg->cap_scale / (1.0 + exp(-(raw + cfg->cap_shift) / cfg->cap_width));
    return raw;
}

static double element(const void *p, musec_dtype dtype, int64_t i)
{
    switch (dtype) {
    case MUSEC_F32: return ((const float *)p)[i];
    case MUSEC_BF16: return ms_float_of_bf16(((const uint16_t *)p)[i]);
    case MUSEC_F16: return ms_float_of_f16(((const uint16_t *)p)[i]);
    default: return ((const double *)p)[i];
    }
}

musec_status ms_gpt_next(ms_gpt *g, const int32_t *ids, int64_t n, const ms_gpt_pass *pass,
                         double *logits)
{
    const int64_t vocab = g->cfg.vocab;
    const size_t  bytes = (size_t)vocab * ms_dtype_bytes(g->dtype);
    ms_gpt_pass   only  = *pass;
    int32_t      *doc   = NULL;
    void         *raw   = NULL;
    musec_status  st;

    TRY(check_tokens(g, n));
    doc = calloc((size_t)n, sizeof *doc);
    raw = malloc(bytes);
    if (doc == NULL || raw == NULL)
        TRY(ms_fail(&g->d->error, MUSEC_ENOMEM, "not enough memory for %lld ids", (long long)n));
    only.grad_scale = 0.0;
    ms_gpt_set_tokens(&g->cfg, n, &g->acts, &g->now);
    count_documents(g, doc, n);
    TRY(upload_ids(g, ids, g->now.inputs));
    TRY(upload_ids(g, doc, g->now.doc));
    TRY(forward(g, &only));
    TRY(g->d->ops->gemm(g->d, 1.0, rows_of(g->now.norm, n - 1, 1), ms_t(g->w.head), 0.0,
                        rows_of(g->now.logits, 0, 1)));
    TRY(g->d->ops->download(g->d, g->now.logits.data, bytes, raw));
    for (int64_t i = 0; i < vocab; i++)
        logits[i] = capped(&g->cfg, element(raw, g->dtype, i));
done:
    free(raw);
    free(doc);
    return st;
}
