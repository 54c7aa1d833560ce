/* heads.c - how a layer's heads see each other, both ways: plain, or in pairs; and the share of v
 * that is taken out of y (xsa).
 *
 * Paired heads: of 2n heads, row 2t + u of a sequence twice as long holds, in its n places, heads
 * u n .. u n + n - 1 of token t.  Attention in it, with its window and documents counted in those
 * rows, lets a head see its partner's keys.  A dense (T, a) matrix is that sequence as it lies, so
 * q, k, v and y of such a layer are dense: q and k share the memory of the fused ones, v has a
 * copy.
 * Head h of token t has the rotary position 2t + (h mod 2). */
#include "model/pass.h"

/* Matrix number `which` of the dense ones that share the memory of a fused one. */
static ms_mat dense_part(const ms_gpt *g, ms_mat fused, int64_t which)
{
    const int64_t a  = g->cfg.heads * g->cfg.head;
    const size_t  at = (size_t)(which * fused.rows * a) * ms_dtype_bytes(fused.dtype);
    const ms_mat  out =
        ms_mat_of(musec_view_dense((char *)fused.data + at, fused.dtype, 1, fused.rows, a));
    return out;
}

/* A dense (T, a) matrix as the heads of the longer sequence. */
static ms_mat pairs_of(const ms_gpt *g, ms_mat x)
{
    x.rows *= 2;
    x.cols /= 2;
    x.ld = x.stride = x.cols;
    x.stride        = x.rows * x.cols;
    return ms_mat_heads(x, g->cfg.heads / 2);
}

/* Heads 0, 2, .. (0) or 1, 3, .. (1) of a stack. */
static ms_mat every_other(ms_mat heads, int64_t which)
{
    ms_mat out = ms_mat_slice(heads, which, heads.count - which);
    out.count  = heads.count / 2;
    out.stride *= 2;
    return out;
}

/* The rotary positions 2t + which. */
static ms_rope pair_rope(const ms_gpt *g, int64_t which)
{
    ms_rope       r     = ms_rope_of(g);
    const int64_t rows  = r.cos.rows / 2;
    ms_mat *const all[] = { &r.cos, &r.sin };
    for (size_t i = 0; i < COUNT(all); i++) {
        *all[i]      = ms_rows_of(*all[i], which, all[i]->rows - which);
        all[i]->rows = rows;
        all[i]->ld *= 2;
    }
    return r;
}

musec_status ms_rope_forward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops *op = g->d->ops;
    const ms_layer_acts *a  = &g->now.layer[layer];
    musec_status         st = MUSEC_OK;

    if (!ms_gpt_is_paired(&g->cfg, layer)) {
        TRY(op->rope(g->d, ms_rope_of(g), ms_queries_and_keys(g, a->qkv),
                     ms_queries_and_keys(g, a->qk)));
        return ms_key_offset(g, layer);
    }
    for (int64_t i = 0; i < 4; i++) { /* q and k, of even and of odd heads */
        const ms_mat from = ms_heads_of(g, a->qkv, i / 2);
        const ms_mat to   = ms_mat_heads(dense_part(g, a->qk, i / 2), g->cfg.heads);
        TRY(op->rope(g->d, pair_rope(g, i % 2), every_other(from, i % 2), every_other(to, i % 2)));
    }
done:
    return st;
}

musec_status ms_rope_backward(ms_gpt *g, int64_t layer)
{
    const ms_device_ops *op = g->d->ops;
    const ms_layer_acts *a  = &g->now.layer[layer];
    const ms_gpt_acts   *n  = &g->now;
    musec_status         st = MUSEC_OK;

    if (!ms_gpt_is_paired(&g->cfg, layer)) {
        TRY(ms_key_offset_backward(g, layer));
        return op->rope_grad(g->d, ms_rope_of(g), ms_queries_and_keys(g, a->qkv),
                             ms_queries_and_keys(g, n->dqk), ms_queries_and_keys(g, n->dqkv));
    }
    for (int64_t i = 0; i < 4; i++) {
        const ms_mat x    = ms_heads_of(g, a->qkv, i / 2);
        const ms_mat dout = ms_mat_heads(dense_part(g, n->dqk, i / 2), g->cfg.heads);
        const ms_mat dx   = ms_heads_of(g, n->dqkv, i / 2);
        TRY(op->rope_grad(g->d, pair_rope(g, i % 2), every_other(x, i % 2),
                          every_other(dout, i % 2), every_other(dx, i % 2)));
    }
done:
    return st;
}

/* The mask of the longer sequence. */
static ms_attn paired_attn(const ms_gpt *g, ms_attn plain)
{
    plain.doc     = g->now.pair_doc;
    plain.longest = 2 * plain.longest;
    return plain;
}

static ms_mat paired_lse(const ms_gpt *g, ms_mat lse, int64_t rows)
{
    return ms_mat_of(musec_view_dense(lse.data, lse.dtype, g->cfg.heads / 2, 1, 2 * rows));
}

static ms_mat part_of_v(const ms_gpt *g, ms_mat qkv)
{
    const int64_t a = g->cfg.heads * g->cfg.head;
    return ms_mat_part(qkv, 0, qkv.rows, 2 * a, a);
}

/* Where the largest logits of a pair's two heads are stored, as matrices. */
static ms_mat logits_row(ms_vec of, int64_t first, int64_t n)
{
    return ms_mat_of(musec_view_dense(of.data + first, MUSEC_F64, 1, 1, n));
}

musec_status ms_attend(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer, ms_vec max_logit)
{
    const ms_device_ops *op    = g->d->ops;
    const ms_layer_acts *a     = &g->now.layer[layer];
    const int64_t        half  = g->cfg.heads / 2;
    const ms_attn        plain = ms_attn_of(g, pass, layer);
    musec_status         st;

    if (!ms_gpt_is_paired(&g->cfg, layer))
        return op->attention(g->d, plain, ms_heads_of(g, a->qk, 0), ms_heads_of(g, a->qk, 1),
                             ms_heads_of(g, a->qkv, 2), ms_mat_heads(a->y, g->cfg.heads), a->lse,
                             max_logit);
    TRY(op->copy(g->d, part_of_v(g, a->qkv), g->now.pair_v));
    TRY(op->attention(g->d, paired_attn(g, plain), pairs_of(g, dense_part(g, a->qk, 0)),
                      pairs_of(g, dense_part(g, a->qk, 1)), pairs_of(g, g->now.pair_v),
                      pairs_of(g, a->y), paired_lse(g, a->lse, a->y.rows),
                      ms_vec_slice(max_logit, 0, half)));
    TRY(op->copy(g->d, logits_row(max_logit, 0, half), logits_row(max_logit, half, half)));
done:
    return st;
}

musec_status ms_attend_backward(ms_gpt *g, const ms_gpt_pass *pass, int64_t layer)
{
    const ms_device_ops *op    = g->d->ops;
    const ms_layer_acts *a     = &g->now.layer[layer];
    const ms_gpt_acts   *n     = &g->now;
    const ms_attn        plain = ms_attn_of(g, pass, layer);
    musec_status         st;

    if (!ms_gpt_is_paired(&g->cfg, layer))
        return op->attention_grad(g->d, plain, ms_heads_of(g, a->qk, 0), ms_heads_of(g, a->qk, 1),
                                  ms_heads_of(g, a->qkv, 2), ms_mat_heads(a->y, g->cfg.heads),
                                  a->lse, ms_mat_heads(n->dy, g->cfg.heads),
                                  ms_heads_of(g, n->dqk, 0), ms_heads_of(g, n->dqk, 1),
                                  ms_heads_of(g, n->dqkv, 2));
    /* dv takes the place of the third matrix of dqkv, where nothing is yet, and then goes to its
     * own place by way of the copy of v */
    const ms_mat dv = dense_part(g, n->dqkv, 2);
    TRY(op->copy(g->d, part_of_v(g, a->qkv), n->pair_v));
    TRY(op->attention_grad(g->d, paired_attn(g, plain), pairs_of(g, dense_part(g, a->qk, 0)),
                           pairs_of(g, dense_part(g, a->qk, 1)), pairs_of(g, n->pair_v),
                           pairs_of(g, a->y), paired_lse(g, a->lse, a->y.rows), pairs_of(g, n->dy),
                           pairs_of(g, dense_part(g, n->dqk, 0)),
                           pairs_of(g, dense_part(g, n->dqk, 1)), pairs_of(g, dv)));
    TRY(op->copy(g->d, dv, n->pair_v));
    TRY(op->copy(g->d, n->pair_v, part_of_v(g, n->dqkv)));
done:
    return st;
}

/* ---- the share of v -------------------------------------------------------------------------- */

musec_status ms_exclude(ms_gpt *g, int64_t layer, ms_mat *y)
{
    const int64_t        heads = g->cfg.heads;
    const ms_layer_acts *a     = &g->now.layer[layer];

    *y = ms_gpt_has_xsa(&g->cfg, layer) ? g->now.excluded : a->y;
    if (!ms_gpt_has_xsa(&g->cfg, layer)) return MUSEC_OK;
    return g->d->ops->exclude(g->d, g->master.layer[layer].alpha, ms_mat_heads(a->y, heads),
                              ms_heads_of(g, a->qkv, 2), ms_mat_heads(*y, heads));
}

musec_status ms_exclude_backward(ms_gpt *g, int64_t layer)
{
    const int64_t        heads  = g->cfg.heads;
    const ms_layer_acts *a      = &g->now.layer[layer];
    const ms_mat         dy     = ms_mat_heads(g->now.dy, heads);
    const ms_mat         dcoef  = ms_mat_part(g->now.dcoef, 0, a->y.rows, 0, heads);
    ms_mat              *dalpha = &g->g.layer[layer].alpha;
    musec_status         st;

    if (!ms_gpt_has_xsa(&g->cfg, layer)) return MUSEC_OK;
    TRY(g->d->ops->exclude_grad(g->d, g->master.layer[layer].alpha, ms_mat_heads(a->y, heads),
                                ms_heads_of(g, a->qkv, 2), dy, dy, ms_mat_heads(g->now.dve, heads),
                                dcoef));
    TRY(ms_sum_rows(g, 1.0, dcoef, 1.0, *dalpha));
done:
    return st;
}

musec_status ms_exclude_add(ms_gpt *g, int64_t layer)
{
    const ms_num one = ms_const(1.0);
    if (!ms_gpt_has_xsa(&g->cfg, layer)) return MUSEC_OK;
    return g->d->ops->axpby(g->d, one, g->now.dve, one, part_of_v(g, g->now.dqkv));
}
