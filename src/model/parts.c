/* parts.c - the parts of gpt.h beyond the plain model, both ways (pass.h).
 *
 * With s = x u^T the logits of a gate and c = k b sigmoid(s) its coefficient, b a learned scalar or
 * 1, the gradient dc of the coefficients gives
 *     db = k sum dc sigmoid(s),  ds = k b dc sigmoid'(s),  du = ds^T x,  dx = ds u.
 * Sums over rows are products with a column of ones, in the accumulator dtype. */
#include "model/pass.h"

/* Terms of a blend. */
static ms_blend_term plain(ms_mat x) { return (ms_blend_term){ .x = x }; }
static ms_blend_term times(ms_mat coef, ms_mat x)
{
    return (ms_blend_term){ .coef = coef, .x = x };
}

static ms_mat column(ms_mat x, int64_t col, int64_t cols)
{
    return ms_mat_part(x, 0, x.rows, col, cols);
}

static ms_mat scalar(const ms_gpt *g, int64_t which)
{
    return ms_mat_part(g->now.scalar, 0, 1, which, 1);
}

musec_status ms_sum_rows(ms_gpt *g, double alpha, ms_mat x, double beta, ms_mat to)
{
    const ms_mat ones = ms_rows_of(g->now.ones, 0, x.rows);
    return g->d->ops->gemm(g->d, alpha, ms_t(ones), x, beta, to);
}

/* ---- gates ----------------------------------------------------------------------------------- */

static musec_status gate_logits(ms_gpt *g, ms_mat x, ms_mat weight, ms_mat s)
{
    return g->d->ops->gemm(g->d, 1.0, ms_gate_input(g, x), ms_t(weight), 0.0, s);
}

/* coef <- k b sigmoid(s); b: a (1, 1) scalar, data NULL: 1.  Leaves sigmoid(s) in `sig`. */
static musec_status gate_coefs(ms_gpt *g, double k, ms_mat b, ms_mat s, ms_mat *coef)
{
    const ms_device_ops *op  = g->d->ops;
    const ms_mat         sig = ms_mat_part(g->now.sig, 0, s.rows, 0, s.cols);
    const ms_blend_term  by  = times(b, sig);
    musec_status         st;

    *coef = ms_mat_part(g->now.coef, 0, s.rows, 0, s.cols);
    TRY(op->unary(g->d, MS_UNARY_SIGMOID, s, sig));
    TRY(op->blend(g->d, &by, 1, *coef));
    TRY(op->scale(g->d, ms_const(k), *coef));
done:
    return st;
}

/* From dcoef (which it overwrites) to ds, in the dtype of activations, and to db (1, 1), which it
 * writes; b and db without data: there is no scalar.  `sig` is that of gate_coefs. */
static musec_status gate_backward(ms_gpt *g, double k, ms_mat b, ms_mat s, ms_mat dcoef, ms_mat db,
                                  ms_mat ds)
{
    const ms_device_ops *op   = g->d->ops;
    const ms_mat         sig  = ms_mat_part(g->now.sig, 0, s.rows, 0, s.cols);
    const ms_mat         dsig = ms_mat_part(g->now.dsig, 0, s.rows, 0, s.cols);
    const ms_mat         dots = ms_mat_part(g->now.coef, 0, s.rows, 0, 1);
    const ms_blend_term  by   = times(b, sig);
    ms_blend_grad        to   = { .dx = dsig };
    musec_status         st;

    if (db.data != NULL) to.dcoef = dots;
    TRY(op->scale(g->d, ms_const(k), dcoef));
    TRY(op->blend_grad(g->d, &by, &to, 1, dcoef));
    if (db.data != NULL) TRY(ms_sum_rows(g, 1.0, dots, 0.0, db));
    TRY(op->unary_grad(g->d, MS_UNARY_SIGMOID, s, dsig, dsig));
    TRY(op->copy(g->d, dsig, ds));
done:
    return st;
}

/* du += ds^T x, dx += ds u in the columns that gates read */
static musec_status gate_weight_backward(ms_gpt *g, ms_mat ds, ms_mat x, ms_mat u, ms_mat du,
                                         ms_mat dx)
{
    musec_status st;
    TRY(g->d->ops->gemm(g->d, 1.0, ms_t(ds), ms_gate_input(g, x), 1.0, du));
    TRY(g->d->ops->gemm(g->d, 1.0, ds, u, 1.0, ms_gate_input(g, dx)));
done:
    return st;
}

/* ---- embeddings and smear -------------------------------------------------------------------- */

/* All rows but the last, and all but the first: a row and the one before it. */
static ms_mat before(ms_mat x) { return ms_rows_of(x, 0, x.rows - 1); }
static ms_mat after(ms_mat x) { return ms_rows_of(x, 1, x.rows - 1); }

musec_status ms_embed_smeared(ms_gpt *g)
{
    const ms_device_ops *op = g->d->ops;
    const ms_mat         e = g->now.norm, out = g->now.dnorm;
    ms_mat               coef;
    musec_status         st;

    TRY(op->embed(g->d, g->now.inputs, g->w.embed, e));
    if (!g->cfg.smear) return MUSEC_OK;
    TRY(gate_logits(g, e, g->w.smear_gate, g->now.smear_s));
    TRY(gate_coefs(g, 1.0, g->master.smear, g->now.smear_s, &coef));
    TRY(op->copy(g->d, ms_rows_of(e, 0, 1), ms_rows_of(out, 0, 1)));
    if (e.rows == 1) return MUSEC_OK;
    const ms_blend_term terms[] = { plain(after(e)), times(after(coef), before(e)) };
    TRY(op->blend(g->d, terms, 2, after(out)));
done:
    return st;
}

musec_status ms_embed_tokens(ms_gpt *g)
{
    const ms_device_ops *op = g->d->ops;
    const ms_gpt_acts   *n  = &g->now;
    musec_status         st;

    TRY(ms_embed_smeared(g));
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, g->cfg.smear ? n->dnorm : n->norm, n->layer[0].x));
    TRY(ms_bigram_forward(g));
    if (!g->cfg.embed2) return MUSEC_OK;
    TRY(op->embed(g->d, n->inputs, g->w.embed2, n->x02));
    TRY(op->rmsnorm(g->d, g->cfg.norm_eps, n->x02, n->x02));
done:
    return st;
}

/* From the gradient of the smeared embedding in dx to that of the embedding in dnorm. */
static musec_status smear_backward(ms_gpt *g)
{
    const ms_device_ops *op    = g->d->ops;
    const ms_gpt_acts   *n     = &g->now;
    const ms_mat         dcoef = column(n->dcoef, 0, 1), db = scalar(g, 0);
    ms_mat               coef;
    musec_status         st;

    TRY(op->copy(g->d, n->dx, n->dnorm));
    if (n->dx.rows == 1) return MUSEC_OK;
    TRY(gate_coefs(g, 1.0, g->master.smear, n->smear_s, &coef));
    const ms_blend_term term = times(after(coef), before(n->norm));
    const ms_blend_grad to   = { .dx = before(n->dnorm), .adds = true, .dcoef = after(dcoef) };
    TRY(op->fill(g->d, 0.0, ms_rows_of(dcoef, 0, 1)));
    TRY(op->blend_grad(g->d, &term, &to, 1, after(n->dx)));
    TRY(gate_backward(g, 1.0, g->master.smear, n->smear_s, dcoef, db, n->ds16));
    TRY(op->axpby(g->d, ms_const(1.0), db, ms_const(1.0), g->g.smear));
    TRY(gate_weight_backward(g, n->ds16, n->norm, g->w.smear_gate, g->g.smear_gate, n->dnorm));
done:
    return st;
}

musec_status ms_embed_backward(ms_gpt *g, const ms_gpt_pass *pass)
{
    const ms_device_ops *op  = g->d->ops;
    const ms_gpt_acts   *n   = &g->now;
    const double         eps = g->cfg.norm_eps;
    const ms_mat         to  = pass->tied ? g->g.head : g->g.embed;
    musec_status         st;

    if (g->cfg.embed2) {
        TRY(op->embed(g->d, n->inputs, g->w.embed2, n->norm)); /* before its norm */
        TRY(op->rmsnorm_grad(g->d, eps, n->norm, n->dx02, 0.0, n->dx02));
        TRY(op->embed_grad(g->d, n->inputs, n->dx02, g->g.embed2));
    }
    TRY(ms_bigram_backward(g));
    TRY(ms_embed_smeared(g));
    TRY(op->rmsnorm_grad(g->d, eps, g->cfg.smear ? n->dnorm : n->norm, n->dx, 0.0, n->dx));
    if (g->cfg.smear) TRY(smear_backward(g));
    TRY(op->embed_grad(g->d, n->inputs, g->cfg.smear ? n->dnorm : n->dx, to));
done:
    return st;
}

/* ---- skips ----------------------------------------------------------------------------------- */

static musec_status skip_coefs(ms_gpt *g, int64_t layer, ms_mat *coef)
{
    const ms_mat b = scalar(g, 0);
    musec_status st;
    TRY(g->d->ops->unary(g->d, MS_UNARY_SIGMOID, g->master.layer[layer].skip, b));
    TRY(gate_coefs(g, 2.0, b, g->now.layer[layer].skip_s, coef));
done:
    return st;
}

ms_mat ms_output_of(const ms_gpt *g, int64_t l)
{
    return l + 1 < g->cfg.layers ? g->now.layer[l + 1].x : g->now.x;
}

musec_status ms_skip_forward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a = &g->now.layer[layer];
    ms_mat               coef;
    musec_status         st;

    if (g->cfg.skip_from[layer] == 0) return MUSEC_OK;
    TRY(gate_logits(g, g->now.layer[0].x, g->w.layer[layer].skip_gate, a->skip_s));
    TRY(skip_coefs(g, layer, &coef));
    const ms_mat        from    = ms_output_of(g, g->cfg.skip_from[layer] - 1);
    const ms_blend_term terms[] = { plain(a->x), times(coef, from) };
    TRY(g->d->ops->blend(g->d, terms, 2, a->skipped));
done:
    return st;
}

musec_status ms_skip_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops *op    = g->d->ops;
    const ms_layer_acts *a     = &g->now.layer[layer];
    const ms_gpt_acts   *n     = &g->now;
    const int64_t        from  = (int64_t)g->cfg.skip_from[layer] - 1;
    const ms_mat         dcoef = column(n->dcoef, 0, 1), b = scalar(g, 0), db = scalar(g, 1);
    ms_mat               coef;
    musec_status         st;

    if (from < 0) return MUSEC_OK;
    TRY(skip_coefs(g, layer, &coef));
    const ms_blend_term term = times(coef, ms_output_of(g, from));
    const ms_blend_grad to   = { .dx = n->layer[from].dkept, .adds = true, .dcoef = dcoef };
    TRY(op->blend_grad(g->d, &term, &to, 1, n->dx));
    TRY(gate_backward(g, 2.0, b, a->skip_s, dcoef, db, n->ds16));
    TRY(op->unary_grad(g->d, MS_UNARY_SIGMOID, g->master.layer[layer].skip, db, db));
    TRY(op->axpby(g->d, ms_const(1.0), db, ms_const(1.0), g->g.layer[layer].skip));
    TRY(gate_weight_backward(g, n->ds16, n->layer[0].x, g->w.layer[layer].skip_gate,
                             g->g.layer[layer].skip_gate, n->dx0));
done:
    return st;
}

/* ---- the mix of the input of a layer --------------------------------------------------------- */

musec_status ms_mix_forward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a   = &g->now.layer[layer];
    const ms_mat         mix = g->w.layer[layer].mix, x0 = g->now.layer[0].x;

    if (!g->cfg.x0_mix) return MUSEC_OK;
    if (!g->cfg.embed2) return g->d->ops->mix(g->d, mix, a->skipped, x0, a->mixed);
    const ms_blend_term terms[] = { times(column(mix, 0, 1), a->skipped),
                                    times(column(mix, 1, 1), x0),
                                    times(column(mix, 2, 1), g->now.x02) };
    return g->d->ops->blend(g->d, terms, 3, a->mixed);
}

musec_status ms_mix_backward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a   = &g->now.layer[layer];
    const ms_gpt_acts   *n   = &g->now;
    const ms_mat         mix = g->w.layer[layer].mix, x0 = n->layer[0].x;
    const ms_mat         dmix = g->g.layer[layer].mix;
    musec_status         st;

    if (!g->cfg.x0_mix) return MUSEC_OK;
    if (!g->cfg.embed2)
        return g->d->ops->mix_grad(g->d, mix, a->skipped, x0, n->dx, n->dx, n->dx0, dmix);
    /* the x of the layer comes last, as its gradient takes the place of dx */
    const ms_blend_term terms[] = { times(column(mix, 1, 1), x0), times(column(mix, 2, 1), n->x02),
                                    times(column(mix, 0, 1), a->skipped) };
    const ms_blend_grad grads[] = { { n->dx0, true, column(n->dcoef, 1, 1) },
                                    { n->dx02, true, column(n->dcoef, 2, 1) },
                                    { n->dx, false, column(n->dcoef, 0, 1) } };
    TRY(g->d->ops->blend_grad(g->d, terms, grads, 3, n->dx));
    TRY(ms_sum_rows(g, 1.0, column(n->dcoef, 0, 3), 1.0, dmix));
done:
    return st;
}

/* ---- scales of attention --------------------------------------------------------------------- */

/* y <- l x, for scale `which` of the layer; y may be x. */
static musec_status scale_forward(ms_gpt *g, int64_t layer, int64_t which, ms_mat x, ms_mat y)
{
    const ms_blend_term term = times(column(g->w.layer[layer].scales, which, 1), x);
    return g->d->ops->blend(g->d, &term, 1, y);
}

/* dy <- l dy */
static musec_status scale_backward(ms_gpt *g, int64_t layer, int64_t which, ms_mat x, ms_mat dy)
{
    const ms_mat        dcoef = column(g->now.dcoef, 0, 1);
    const ms_blend_term term  = times(column(g->w.layer[layer].scales, which, 1), x);
    const ms_blend_grad to    = { .dx = dy, .dcoef = dcoef };
    musec_status        st;
    TRY(g->d->ops->blend_grad(g->d, &term, &to, 1, dy));
    TRY(ms_sum_rows(g, 1.0, dcoef, 1.0, column(g->g.layer[layer].scales, which, 1)));
done:
    return st;
}

musec_status ms_attn_input(ms_gpt *g, int64_t layer, ms_mat *input)
{
    *input = g->cfg.attn_scales ? g->now.scaled : g->now.norm;
    if (!g->cfg.attn_scales) return MUSEC_OK;
    return scale_forward(g, layer, 0, g->now.norm, *input);
}

musec_status ms_attn_input_backward(ms_gpt *g, int64_t layer)
{
    if (!g->cfg.attn_scales) return MUSEC_OK;
    return scale_backward(g, layer, 0, g->now.norm, g->now.dnorm);
}

/* y of a layer with its gates; in `gated` if there are any. */
static musec_status gated_output(ms_gpt *g, int64_t layer, ms_mat *y)
{
    const ms_layer_acts *a     = &g->now.layer[layer];
    const int64_t        heads = g->cfg.heads;
    ms_mat               ungated;
    musec_status         st;

    TRY(ms_exclude(g, layer, &ungated));
    *y = g->cfg.head_gates ? g->now.gated : ungated;
    if (g->cfg.head_gates)
        TRY(g->d->ops->gate(g->d, a->s, ms_mat_heads(ungated, heads), ms_mat_heads(*y, heads)));
done:
    return st;
}

musec_status ms_attn_output(ms_gpt *g, int64_t layer, ms_mat *output)
{
    musec_status st;
    TRY(gated_output(g, layer, output));
    if (!g->cfg.attn_scales) return MUSEC_OK;
    TRY(scale_forward(g, layer, 1, *output, g->now.gated));
    *output = g->now.gated;
done:
    return st;
}

musec_status ms_attn_output_backward(ms_gpt *g, int64_t layer)
{
    ms_mat       y;
    musec_status st;
    if (!g->cfg.attn_scales) return MUSEC_OK;
    TRY(gated_output(g, layer, &y)); /* without the scale */
    TRY(scale_backward(g, layer, 1, y, g->now.dy));
done:
    return st;
}

/* ---- key offset ------------------------------------------------------------------------------ */

/* The columns of a head that rope leaves: one range if pairs are adjacent, else two. */
static int still_columns(const ms_gpt *g, int64_t first[2], int64_t *cols)
{
    const int64_t pairs = ms_gpt_rope_pairs(&g->cfg), half = g->cfg.head / 2;
    const bool    adjacent = g->cfg.rope_adjacent != 0;
    first[0]               = adjacent ? 2 * pairs : pairs;
    first[1]               = half + pairs;
    *cols                  = adjacent ? g->cfg.head - 2 * pairs : half - pairs;
    return *cols == 0 ? 0 : adjacent ? 1 : 2;
}

static bool is_shifted(const ms_gpt *g, int64_t layer)
{
    return g->cfg.key_offset && ms_is_long(g, layer) && g->now.x.rows > 1;
}

static ms_mat columns_of(ms_mat heads, int64_t first, int64_t cols)
{
    return ms_mat_part(heads, 0, heads.rows, first, cols);
}

musec_status ms_key_offset(ms_gpt *g, int64_t layer)
{
    const ms_mat k   = ms_heads_of(g, g->now.layer[layer].qk, 1);
    const ms_mat was = g->now.shifted;
    int64_t      first[2], cols;
    musec_status st = MUSEC_OK;

    if (!is_shifted(g, layer)) return MUSEC_OK;
    for (int n = still_columns(g, first, &cols); n > 0; n--) {
        const ms_mat to = columns_of(k, first[n - 1], cols);
        const ms_mat by = columns_of(ms_mat_heads(was, g->cfg.heads), first[n - 1], cols);
        TRY(g->d->ops->copy(g->d, before(to), before(by)));
        TRY(g->d->ops->copy(g->d, before(by), after(to)));
    }
done:
    return st;
}

/* Row 0 is read twice, the last row not at all. */
musec_status ms_key_offset_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops *op  = g->d->ops;
    const ms_mat         dk  = ms_heads_of(g, g->now.dqk, 1);
    const ms_num         one = ms_const(1.0);
    int64_t              first[2], cols;
    musec_status         st = MUSEC_OK;

    if (!is_shifted(g, layer)) return MUSEC_OK;
    for (int n = still_columns(g, first, &cols); n > 0; n--) {
        const ms_mat was = ms_mat_heads(g->now.shifted, g->cfg.heads);
        const ms_mat to  = columns_of(dk, first[n - 1], cols);
        const ms_mat by  = columns_of(was, first[n - 1], cols);
        TRY(op->copy(g->d, to, by));
        TRY(op->copy(g->d, after(by), before(to)));
        TRY(op->fill(g->d, 0.0, ms_rows_of(to, dk.rows - 1, 1)));
        TRY(op->axpby(g->d, one, ms_rows_of(by, 0, 1), one, ms_rows_of(to, 0, 1)));
    }
done:
    return st;
}

/* ---- value tables ---------------------------------------------------------------------------- */

/* Columns of a value gate that read the attention's input; the others read the table's row. */
static int64_t own_columns(const ms_gpt *g)
{
    return g->cfg.value_ve ? g->cfg.gate_width / 2 : g->cfg.gate_width;
}

static ms_mat own_part(const ms_gpt *g, ms_mat x) { return column(x, 0, own_columns(g)); }

/* Of a gate's weight, the columns for the table's row, and of the row, those that they read. */
static ms_mat row_weights(const ms_gpt *g, ms_mat u)
{
    return column(u, own_columns(g), g->cfg.gate_width - own_columns(g));
}

static ms_mat row_part(const ms_gpt *g, ms_mat ve)
{
    return column(ve, 0, g->cfg.gate_width - own_columns(g));
}

static musec_status value_logits(ms_gpt *g, ms_mat u, ms_mat s)
{
    const ms_device_ops *op = g->d->ops;
    musec_status         st;
    TRY(op->gemm(g->d, 1.0, own_part(g, g->now.norm), ms_t(own_part(g, u)), 0.0, s));
    if (g->cfg.value_ve)
        TRY(op->gemm(g->d, 1.0, row_part(g, g->now.ve), ms_t(row_weights(g, u)), 1.0, s));
done:
    return st;
}

static musec_status value_rows(ms_gpt *g, int64_t layer)
{
    const ms_mat table = g->w.value[g->cfg.value_table[layer] - 1];
    return g->d->ops->embed(g->d, g->now.inputs, table, g->now.ve);
}

static bool has_values(const ms_gpt *g, int64_t layer)
{
    return g->cfg.value_table[layer] > 0 && !ms_gpt_is_dynamic(&g->cfg, layer);
}

musec_status ms_value_forward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a    = &g->now.layer[layer];
    const ms_mat         none = { 0 };
    ms_mat               coef;
    musec_status         st;

    if (ms_gpt_is_dynamic(&g->cfg, layer)) return ms_mudd_values(g, layer);
    if (!has_values(g, layer)) return MUSEC_OK;
    TRY(value_rows(g, layer));
    TRY(value_logits(g, g->w.layer[layer].value_gate, a->value_s));
    TRY(gate_coefs(g, 2.0, none, a->value_s, &coef));
    const ms_mat        v       = ms_heads_of(g, a->qkv, 2);
    const ms_blend_term terms[] = { plain(v), times(coef, ms_mat_heads(g->now.ve, g->cfg.heads)) };
    TRY(g->d->ops->blend(g->d, terms, 2, v));
done:
    return st;
}

/* What the gate gives to its weights, and to the table's row. */
static musec_status value_row_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops *op = g->d->ops;
    const ms_gpt_acts   *n  = &g->now;
    const ms_mat         u = g->w.layer[layer].value_gate, du = g->g.layer[layer].value_gate;
    musec_status         st;

    if (!g->cfg.value_ve) return MUSEC_OK;
    TRY(op->gemm(g->d, 1.0, ms_t(n->value_ds), row_part(g, n->ve), 1.0, row_weights(g, du)));
    TRY(op->gemm(g->d, 1.0, n->value_ds, row_weights(g, u), 1.0, row_part(g, n->dve)));
done:
    return st;
}

musec_status ms_value_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops *op = g->d->ops;
    const ms_gpt_acts   *n  = &g->now;
    const ms_mat         s = n->layer[layer].value_s, none = { 0 };
    const int64_t        heads = g->cfg.heads;
    const ms_mat         dcoef = column(n->dcoef, 0, heads);
    ms_mat               coef;
    musec_status         st;

    if (ms_gpt_is_dynamic(&g->cfg, layer)) return ms_mudd_values_backward(g, layer);
    if (!has_values(g, layer)) return MUSEC_OK;
    TRY(value_rows(g, layer));
    TRY(gate_coefs(g, 2.0, none, s, &coef));
    const ms_blend_term term = times(coef, ms_mat_heads(n->ve, heads));
    const ms_blend_grad to   = { .dx = ms_mat_heads(n->dve, heads), .dcoef = dcoef };
    TRY(op->blend_grad(g->d, &term, &to, 1, ms_heads_of(g, n->dqkv, 2)));
    TRY(gate_backward(g, 2.0, none, s, dcoef, none, n->value_ds));
    TRY(value_row_backward(g, layer));
    TRY(op->embed_grad(g->d, n->inputs, n->dve,
                       g->g.value[(int64_t)g->cfg.value_table[layer] - 1]));
done:
    return st;
}

musec_status ms_value_gate_backward(ms_gpt *g, int64_t layer)
{
    const ms_gpt_acts *n = &g->now;
    const ms_mat       u = g->w.layer[layer].value_gate, du = g->g.layer[layer].value_gate;
    musec_status       st;

    if (!has_values(g, layer)) return MUSEC_OK;
    TRY(g->d->ops->gemm(g->d, 1.0, ms_t(n->value_ds), own_part(g, n->norm), 1.0, own_part(g, du)));
    TRY(g->d->ops->gemm(g->d, 1.0, n->value_ds, own_part(g, u), 1.0, own_part(g, n->dnorm)));
done:
    return st;
}

/* ---- the final state ------------------------------------------------------------------------- */

/* minus the learned share */
static musec_status backout_share(ms_gpt *g, ms_mat share)
{
    musec_status st;
    TRY(g->d->ops->copy(g->d, g->master.backout, share));
    TRY(g->d->ops->scale(g->d, ms_const(-1.0), share));
done:
    return st;
}

static ms_mat final_of(const ms_gpt *g)
{
    return g->cfg.backout || g->cfg.mudd ? g->now.final : g->now.x;
}

musec_status ms_final_state(ms_gpt *g, ms_mat *state)
{
    const ms_mat share = scalar(g, 0);
    musec_status st;

    *state = final_of(g);
    if (g->cfg.mudd) return ms_mudd_leave(g, *state);
    if (!g->cfg.backout) return MUSEC_OK;
    TRY(backout_share(g, share));
    const ms_mat        h       = ms_output_of(g, g->cfg.backout - 1);
    const ms_blend_term terms[] = { plain(g->now.x), times(share, h) };
    TRY(g->d->ops->blend(g->d, terms, 2, *state));
done:
    return st;
}

musec_status ms_final_backward(ms_gpt *g)
{
    const ms_device_ops *op    = g->d->ops;
    const ms_gpt_acts   *n     = &g->now;
    const int64_t        at    = g->cfg.backout - 1;
    const ms_mat         share = scalar(g, 0), dcoef = column(n->dcoef, 0, 1);
    musec_status         st;

    TRY(op->rmsnorm_grad(g->d, g->cfg.norm_eps, final_of(g), n->dnorm, 0.0, n->dx));
    if (g->cfg.mudd) return ms_mudd_leave_backward(g);
    if (at < 0) return MUSEC_OK;
    TRY(backout_share(g, share));
    const ms_blend_term term = times(share, ms_output_of(g, at));
    const ms_blend_grad to   = { .dx = n->layer[at].dkept, .adds = true, .dcoef = dcoef };
    TRY(op->blend_grad(g->d, &term, &to, 1, n->dx));
    TRY(ms_sum_rows(g, -1.0, dcoef, 1.0, g->g.backout));
done:
    return st;
}
