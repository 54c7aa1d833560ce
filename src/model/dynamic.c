/* dynamic.c - what the smallest of the paper's models adds to the stream of x, both ways.
 *
 * The bigram row of token t is g_t = table[hash_t] signs[mix_t], element by element, where
 *     hash_t = (36313 token_t xor 27191 token_(t-1)) mod (rows - 1),  rows - 1 for t = 0
 *     mix_t  = (token_t xor token_(t-1)) mod 8192,  0 for t = 0
 * and the signs are fixed.  After attention of a layer i > 0, and for i = 0 before it in x0 itself,
 * b_i g is added to the first columns.
 *
 * post_mix: x <- r x + p Attn + a x0;  x <- r' x + p' MLP.
 *
 * mudd: coef(x) = (GELU(x up^T) down^T + bias) / 10, each row its own.  With s0 = x0, s7 the state
 * that late layers attend to, s9 = x that enters the last layer, and 14 coefficients m of s9,
 *     v <- v + m0 s0 + m1 s7 + m2 s9 + m6 row (m7 in the upper half of the heads)
 *     x <- (1 + m5) x + m3 s0 + m4 s7
 *     x <- m8 x + m9 Attn + m10 s0,  x[0:columns] += m11 g,  x <- m12 x + m13 MLP
 * and with 5 of that x, s3 the source of the first skip,
 *     x <- x + n0 s0 + n1 s7 + n2 s9 + n3 (row of table 0) + n4 s3 */
#include "model/pass.h"

static ms_blend_term plain(ms_mat x) { return (ms_blend_term){ .x = x }; }

static ms_mat column(ms_mat x, int64_t col) { return ms_mat_part(x, 0, x.rows, col, 1); }

/* ---- bigrams --------------------------------------------------------------------------------- */

void ms_bigram_ids(const ms_gpt_config *cfg, const int32_t *tokens, int64_t n, int32_t *rows,
                   int32_t *signs)
{
    rows[0]  = (int32_t)(cfg->bigram - 1);
    signs[0] = 0;
    for (int64_t t = 1; t < n; t++) {
        const uint64_t now = (uint64_t)tokens[t], last = (uint64_t)tokens[t - 1];
        rows[t]  = (int32_t)((36313 * now ^ 27191 * last) % (uint64_t)(cfg->bigram - 1));
        signs[t] = (int32_t)((now ^ last) % MS_GPT_SIGNS);
    }
}

/* The highest bit of SplitMix64's output number `index`. */
double ms_bigram_sign(uint64_t index)
{
    uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u;
    z          = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) >> 63 ? -1.0 : 1.0;
}

static ms_mat first_columns(const ms_gpt *g, ms_mat x)
{
    return ms_mat_part(x, 0, x.rows, 0, g->cfg.bigram_width);
}

/* x[0:columns] += coef g */
static musec_status add_bigram(ms_gpt *g, ms_mat coef, ms_mat x)
{
    const ms_blend_term terms[] = { plain(first_columns(g, x)), { coef, g->now.bigram } };
    return g->d->ops->blend(g->d, terms, 2, first_columns(g, x));
}

/* dcoef (T, 1) and dbigram += coef dx of these columns */
static musec_status bigram_grad(ms_gpt *g, ms_mat coef, ms_mat dx, ms_mat dcoef)
{
    const ms_blend_term term = { coef, g->now.bigram };
    const ms_blend_grad to   = { g->now.dbigram, true, dcoef };
    return g->d->ops->blend_grad(g->d, &term, &to, 1, first_columns(g, dx));
}

musec_status ms_bigram_forward(ms_gpt *g)
{
    const ms_device_ops *op = g->d->ops;
    const ms_gpt_acts   *n  = &g->now;
    musec_status         st;

    if (!g->cfg.bigram) return MUSEC_OK;
    TRY(op->embed(g->d, n->bigrams, g->w.bigram, n->bigram));
    TRY(op->embed(g->d, n->sign_ids, n->signs, n->row_signs));
    TRY(op->multiply(g->d, n->bigram, n->row_signs, n->bigram));
    TRY(add_bigram(g, g->master.layer[0].bigram, n->layer[0].x));
done:
    return st;
}

/* dx is the gradient of x0 with the row. */
musec_status ms_bigram_backward(ms_gpt *g)
{
    const ms_device_ops *op    = g->d->ops;
    const ms_gpt_acts   *n     = &g->now;
    const ms_mat         dcoef = column(n->dcoef, 0);
    musec_status         st;

    if (!g->cfg.bigram) return MUSEC_OK;
    TRY(bigram_grad(g, g->master.layer[0].bigram, n->dx, dcoef));
    TRY(ms_sum_rows(g, 1.0, dcoef, 1.0, g->g.layer[0].bigram));
    TRY(op->multiply(g->d, n->dbigram, n->row_signs, n->dbigram));
    TRY(op->embed_grad(g->d, n->bigrams, n->dbigram, g->g.bigram));
done:
    return st;
}

/* ---- mixes after attention and MLP ----------------------------------------------------------- */

/* Coefficient `which` of a layer's mix: a scalar, or a column of the dynamic ones from `first`. */
static ms_mat mix_coef(const ms_gpt *g, int64_t layer, ms_mat scalars, int64_t first, int64_t which)
{
    return ms_gpt_is_dynamic(&g->cfg, layer) ? column(g->now.mudd[0].coef, first + which)
                                             : column(scalars, which);
}

/* Where their gradients go, row by row: n columns. */
static ms_mat mix_dcoef(const ms_gpt *g, int64_t layer, int64_t first, int64_t n)
{
    const bool   dynamic = ms_gpt_is_dynamic(&g->cfg, layer);
    const ms_mat to      = dynamic ? g->now.mudd[0].dcoef : g->now.dcoef;
    return ms_mat_part(to, 0, to.rows, dynamic ? first : 0, n);
}

enum { RESIDUAL, PART, X0 };                       /* columns of a mix */
enum { OF_ATTN = 8, OF_BIGRAM = 11, OF_MLP = 12 }; /* and where those of the last layer begin */

static bool adds_bigram(const ms_gpt *g, int64_t layer) { return g->cfg.bigram && layer > 0; }

musec_status ms_post_attn(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a       = &g->now.layer[layer];
    const ms_mat         scalars = g->master.layer[layer].attn_mix;
    const ms_blend_term  terms[] = {
         { mix_coef(g, layer, scalars, OF_ATTN, RESIDUAL), a->mixed },
         { mix_coef(g, layer, scalars, OF_ATTN, PART), a->attn_out },
         { mix_coef(g, layer, scalars, OF_ATTN, X0), g->now.layer[0].x },
    };
    musec_status st;

    TRY(g->d->ops->blend(g->d, terms, 3, a->mid));
    if (adds_bigram(g, layer))
        TRY(add_bigram(g, mix_coef(g, layer, g->master.layer[layer].bigram, OF_BIGRAM, 0), a->mid));
done:
    return st;
}

/* From the gradient of mid in dx to that of the layer's input in dx and of attention in dpart. */
musec_status ms_post_attn_backward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a       = &g->now.layer[layer];
    const bool           dynamic = ms_gpt_is_dynamic(&g->cfg, layer);
    const ms_mat scalars = g->master.layer[layer].attn_mix, b = g->master.layer[layer].bigram;
    musec_status st = MUSEC_OK;

    if (adds_bigram(g, layer)) {
        const ms_mat to = mix_dcoef(g, layer, OF_BIGRAM, 1);
        TRY(bigram_grad(g, mix_coef(g, layer, b, OF_BIGRAM, 0), g->now.dx, to));
        if (!dynamic) TRY(ms_sum_rows(g, 1.0, to, 1.0, g->g.layer[layer].bigram));
    }
    const ms_mat        dcoef   = mix_dcoef(g, layer, OF_ATTN, 3);
    const ms_blend_term terms[] = {
        { mix_coef(g, layer, scalars, OF_ATTN, PART), a->attn_out },
        { mix_coef(g, layer, scalars, OF_ATTN, X0), g->now.layer[0].x },
        { mix_coef(g, layer, scalars, OF_ATTN, RESIDUAL), a->mixed },
    };
    const ms_blend_grad grads[] = { { g->now.dpart, false, column(dcoef, PART) },
                                    { g->now.dx0, true, column(dcoef, X0) },
                                    { g->now.dx, false, column(dcoef, RESIDUAL) } };
    TRY(g->d->ops->blend_grad(g->d, terms, grads, 3, g->now.dx));
    if (!dynamic) TRY(ms_sum_rows(g, 1.0, dcoef, 1.0, g->g.layer[layer].attn_mix));
done:
    return st;
}

musec_status ms_post_mlp(ms_gpt *g, int64_t layer, ms_mat out)
{
    const ms_layer_acts *a       = &g->now.layer[layer];
    const ms_mat         scalars = g->master.layer[layer].mlp_mix;
    const ms_blend_term  terms[] = { { mix_coef(g, layer, scalars, OF_MLP, RESIDUAL), a->mid },
                                     { mix_coef(g, layer, scalars, OF_MLP, PART), a->mlp_out } };
    return g->d->ops->blend(g->d, terms, 2, out);
}

musec_status ms_post_mlp_backward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a       = &g->now.layer[layer];
    const ms_mat         scalars = g->master.layer[layer].mlp_mix;
    const ms_mat         dcoef   = mix_dcoef(g, layer, OF_MLP, 2);
    const ms_blend_term  terms[] = { { mix_coef(g, layer, scalars, OF_MLP, PART), a->mlp_out },
                                     { mix_coef(g, layer, scalars, OF_MLP, RESIDUAL), a->mid } };
    const ms_blend_grad  grads[] = { { g->now.dpart, false, column(dcoef, PART) },
                                     { g->now.dx, false, column(dcoef, RESIDUAL) } };
    musec_status         st;

    TRY(g->d->ops->blend_grad(g->d, terms, grads, 2, g->now.dx));
    if (!ms_gpt_is_dynamic(&g->cfg, layer))
        TRY(ms_sum_rows(g, 1.0, dcoef, 1.0, g->g.layer[layer].mlp_mix));
done:
    return st;
}

/* ---- dynamic coefficients -------------------------------------------------------------------- */

static musec_status mudd_coefs(ms_gpt *g, int which, ms_mat x)
{
    const ms_device_ops   *op = g->d->ops;
    const ms_mudd_weights *w  = &g->w.mudd[which];
    const ms_mudd_acts    *m  = &g->now.mudd[which];
    musec_status           st;

    TRY(op->gemm(g->d, 1.0, x, ms_t(w->up), 0.0, m->h));
    TRY(op->unary(g->d, MS_UNARY_GELU_ERF, m->h, m->act));
    TRY(op->gemm(g->d, 1.0, ms_rows_of(g->now.ones, 0, x.rows), g->master.mudd[which].bias, 0.0,
                 m->coef));
    TRY(op->gemm(g->d, 1.0, m->act, ms_t(w->down), 1.0, m->coef));
    TRY(op->scale(g->d, ms_const(0.1), m->coef));
done:
    return st;
}

/* From dcoef to the weights, and dx += */
static musec_status mudd_backward(ms_gpt *g, int which, ms_mat x, ms_mat dx)
{
    const ms_device_ops   *op = g->d->ops;
    const ms_mudd_weights *w = &g->w.mudd[which], *dw = &g->g.mudd[which];
    const ms_mudd_acts    *m = &g->now.mudd[which];
    musec_status           st;

    TRY(op->scale(g->d, ms_const(0.1), m->dcoef));
    TRY(ms_sum_rows(g, 1.0, m->dcoef, 1.0, dw->bias));
    TRY(op->copy(g->d, m->dcoef, m->ds));
    TRY(op->gemm(g->d, 1.0, ms_t(m->ds), m->act, 1.0, dw->down));
    TRY(op->gemm(g->d, 1.0, m->ds, w->down, 0.0, m->dact));
    TRY(op->unary_grad(g->d, MS_UNARY_GELU_ERF, m->h, m->dact, m->dact));
    TRY(op->gemm(g->d, 1.0, ms_t(m->dact), x, 1.0, dw->up));
    TRY(op->gemm(g->d, 1.0, m->dact, w->up, 1.0, dx));
done:
    return st;
}

/* The output of the layer that late ones attend to, and of the source of the first skip. */
static int64_t late_layer(const ms_gpt *g) { return g->cfg.attn_from - 1; }

static int64_t skip_layer(const ms_gpt *g)
{
    int64_t l = 0;
    while (g->cfg.skip_from[l] == 0)
        l++;
    return (int64_t)g->cfg.skip_from[l] - 1;
}

musec_status ms_mudd_enter(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a = &g->now.layer[layer];
    const ms_mat         m = g->now.mudd[0].coef;
    musec_status         st;

    if (!ms_gpt_is_dynamic(&g->cfg, layer)) return MUSEC_OK;
    TRY(mudd_coefs(g, 0, a->x));
    const ms_blend_term terms[] = { plain(a->x),
                                    { column(m, 5), a->x },
                                    { column(m, 3), g->now.layer[0].x },
                                    { column(m, 4), ms_output_of(g, late_layer(g)) } };
    TRY(g->d->ops->blend(g->d, terms, 4, a->skipped));
done:
    return st;
}

/* From dx, the gradient of the mixed x, and what the layer left in dcoef, to dx of s9. */
musec_status ms_mudd_enter_backward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a    = &g->now.layer[layer];
    const ms_gpt_acts   *n    = &g->now;
    const int64_t        late = late_layer(g);
    const ms_mat         m = n->mudd[0].coef, dm = n->mudd[0].dcoef;
    musec_status         st;

    if (!ms_gpt_is_dynamic(&g->cfg, layer)) return MUSEC_OK;
    const ms_mat        s9      = n->layer[layer - 1].dkept; /* holds what v gave */
    const ms_blend_term terms[] = { { column(m, 5), a->x },
                                    { column(m, 3), n->layer[0].x },
                                    { column(m, 4), ms_output_of(g, late) } };
    const ms_blend_grad grads[] = { { s9, true, column(dm, 5) },
                                    { n->dx0, true, column(dm, 3) },
                                    { n->layer[late].dkept, true, column(dm, 4) } };
    TRY(g->d->ops->blend_grad(g->d, terms, grads, 3, n->dx));
    TRY(mudd_backward(g, 0, a->x, s9));
done:
    return st;
}

/* The states that v gets, as one matrix, and the two halves of its heads. */
static ms_mat whole_v(const ms_gpt *g, ms_mat qkv)
{
    const int64_t a = g->cfg.heads * g->cfg.head;
    return ms_mat_part(qkv, 0, qkv.rows, 2 * a, a);
}

static ms_mat half_of(ms_mat x, int64_t which)
{
    return ms_mat_part(x, 0, x.rows, which * x.cols / 2, x.cols / 2);
}

musec_status ms_mudd_values(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a = &g->now.layer[layer];
    const ms_gpt_acts   *n = &g->now;
    const ms_mat         m = n->mudd[0].coef, v = whole_v(g, a->qkv);
    const ms_blend_term  terms[] = { plain(v),
                                     { column(m, 0), n->layer[0].x },
                                     { column(m, 1), ms_output_of(g, late_layer(g)) },
                                     { column(m, 2), a->x } };
    musec_status         st;

    TRY(g->d->ops->embed(g->d, n->inputs, g->w.value[g->cfg.value_table[layer] - 1], n->ve));
    TRY(g->d->ops->blend(g->d, terms, 4, v));
    for (int64_t h = 0; h < 2; h++) {
        const ms_blend_term half[] = { plain(half_of(v, h)),
                                       { column(m, 6 + h), half_of(n->ve, h) } };
        TRY(g->d->ops->blend(g->d, half, 2, half_of(v, h)));
    }
done:
    return st;
}

musec_status ms_mudd_values_backward(ms_gpt *g, int64_t layer)
{
    const ms_layer_acts *a    = &g->now.layer[layer];
    const ms_gpt_acts   *n    = &g->now;
    const int64_t        late = late_layer(g), table = (int64_t)g->cfg.value_table[layer] - 1;
    const ms_mat         m = n->mudd[0].coef, dm = n->mudd[0].dcoef, dv = whole_v(g, n->dqkv);
    const ms_blend_term  terms[] = { { column(m, 0), n->layer[0].x },
                                     { column(m, 1), ms_output_of(g, late) },
                                     { column(m, 2), a->x } };
    const ms_blend_grad  grads[] = { { n->dx0, true, column(dm, 0) },
                                     { n->layer[late].dkept, true, column(dm, 1) },
                                     { n->layer[layer - 1].dkept, true, column(dm, 2) } };
    musec_status         st;

    TRY(g->d->ops->embed(g->d, n->inputs, g->w.value[table], n->ve));
    TRY(g->d->ops->blend_grad(g->d, terms, grads, 3, dv));
    for (int64_t h = 0; h < 2; h++) {
        const ms_blend_term half = { column(m, 6 + h), half_of(n->ve, h) };
        const ms_blend_grad to   = { half_of(n->dve, h), false, column(dm, 6 + h) };
        TRY(g->d->ops->blend_grad(g->d, &half, &to, 1, half_of(dv, h)));
    }
    TRY(g->d->ops->embed_grad(g->d, n->inputs, n->dve, g->g.value[table]));
done:
    return st;
}

musec_status ms_mudd_leave(ms_gpt *g, ms_mat out)
{
    const ms_gpt_acts *n = &g->now;
    const ms_mat       m = n->mudd[1].coef;
    musec_status       st;

    TRY(mudd_coefs(g, 1, n->x));
    TRY(g->d->ops->embed(g->d, n->inputs, g->w.value[0], n->ve));
    const ms_blend_term terms[] = { plain(n->x),
                                    { column(m, 0), n->layer[0].x },
                                    { column(m, 1), ms_output_of(g, late_layer(g)) },
                                    { column(m, 2), n->layer[g->cfg.layers - 1].x },
                                    { column(m, 3), n->ve },
                                    { column(m, 4), ms_output_of(g, skip_layer(g)) } };
    TRY(g->d->ops->blend(g->d, terms, 6, out));
done:
    return st;
}

/* dx is the gradient of the sum, and becomes that of x. */
musec_status ms_mudd_leave_backward(ms_gpt *g)
{
    const ms_gpt_acts  *n    = &g->now;
    const int64_t       last = g->cfg.layers - 1, late = late_layer(g), from = skip_layer(g);
    const ms_mat        m = n->mudd[1].coef, dm = n->mudd[1].dcoef;
    const ms_blend_term terms[] = { { column(m, 0), n->layer[0].x },
                                    { column(m, 1), ms_output_of(g, late) },
                                    { column(m, 2), n->layer[last].x },
                                    { column(m, 3), n->ve },
                                    { column(m, 4), ms_output_of(g, from) } };
    const ms_blend_grad grads[] = { { n->dx0, true, column(dm, 0) },
                                    { n->layer[late].dkept, true, column(dm, 1) },
                                    { n->layer[last - 1].dkept, true, column(dm, 2) },
                                    { n->dve, false, column(dm, 3) },
                                    { n->layer[from].dkept, true, column(dm, 4) } };
    musec_status        st;

    TRY(g->d->ops->embed(g->d, n->inputs, g->w.value[0], n->ve));
    TRY(g->d->ops->blend_grad(g->d, terms, grads, 5, n->dx));
    TRY(g->d->ops->embed_grad(g->d, n->inputs, n->dve, g->g.value[0]));
    TRY(mudd_backward(g, 1, n->x, n->dx));
done:
    return st;
}
