/* layout.c - checks the sizes of a GPT, and lays out its memory. */
#include "model/layout.h"

#include <math.h>
#include <string.h>

#include "core/size.h"

enum {
    ALIGN      = 256,
    CHUNK_MIN  = 64,
    SIDE_MAX   = 1 << 20, /* of any width: products of three of them still fit an int64 */
    TOKENS_MAX = 1 << 28,
};

int64_t ms_gpt_rope_pairs(const ms_gpt_config *cfg)
{
    const int64_t half = cfg->head / 2;
    return (int64_t)llround((double)half * cfg->rope_share);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static musec_status check_range(ms_error *e, const char *name, int64_t value, int64_t min,
                                int64_t max)
{
    if (value < min || value > max)
        return ms_fail(e, MUSEC_EINVAL, "%s is %lld; it must be %lld to %lld", name,
                       (long long)value, (long long)min, (long long)max);
    return MUSEC_OK;
}

musec_status ms_gpt_check(ms_error *e, const ms_gpt_config *cfg)
{
    const struct {
        const char *name;
        int64_t     value, min, max;
    } whole[] = {
        { "layers", cfg->layers, 1, MS_GPT_LAYERS },
        { "width", cfg->width, 1, SIDE_MAX },
        { "heads", cfg->heads, 1, 1 << 14 },
        { "head", cfg->head, 2, 1 << 14 },
        { "mlp", cfg->mlp, 1, SIDE_MAX },
        { "vocab", cfg->vocab, 2, 1 << 16 },
        { "qk_norm", cfg->qk_norm, 0, 1 },
        { "tied", cfg->tied, 0, 1 },
        { "head_gates", cfg->head_gates, 0, 1 },
        { "x0_mix", cfg->x0_mix, 0, 1 },
        { "gate_width", cfg->gate_width, 1, cfg->head_gates ? cfg->width : SIDE_MAX },
        { "activation", cfg->activation, MS_ACTIVATION_RELU2, MS_ACTIVATION_GELU },
        { "cap", cfg->cap, MS_CAP_NONE, MS_CAP_SIGMOID },
        { "rope_adjacent", cfg->rope_adjacent, 0, 1 },
    };
    const struct {
        const char *name;
        double      value, min;
    } real[] = {
        { "cap_scale", cfg->cap_scale, cfg->cap == MS_CAP_NONE ? 0.0 : 1e-6 },
        { "cap_width", cfg->cap_width, cfg->cap == MS_CAP_SIGMOID ? 1e-6 : 0.0 },
        { "cap_shift", cfg->cap_shift, -1e9 },
        { "attn_scale", cfg->attn_scale, 0.0 },
        { "attn_softcap", cfg->attn_softcap, 0.0 },
        { "rope_base", cfg->rope_base, 1.0 },
        { "rope_share", cfg->rope_share, 0.0 },
        { "norm_eps", cfg->norm_eps, 1e-30 },
        { "init_qkv", cfg->init_qkv, 0.0 },
        { "init_up", cfg->init_up, 0.0 },
        { "init_out", cfg->init_out, 0.0 },
        { "init_down", cfg->init_down, 0.0 },
        { "init_embed", cfg->init_embed, 0.0 },
        { "init_head", cfg->init_head, 0.0 },
        { "init_residual", cfg->init_residual, 0.0 },
    };
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < COUNT(whole); i++)
        TRY(check_range(e, whole[i].name, whole[i].value, whole[i].min, whole[i].max));
    for (size_t i = 0; i < COUNT(real); i++)
        if (!(real[i].value >= real[i].min && real[i].value < 1e9))
            return ms_fail(e, MUSEC_EINVAL, "%s is %g; it must be at least %g and below 1e9",
                           real[i].name, real[i].value, real[i].min);
    if (cfg->head % 2 != 0)
        return ms_fail(e, MUSEC_EINVAL, "head is %lld; RoPE turns pairs, so it must be even",
                       (long long)cfg->head);
    TRY(check_range(e, "heads * head", cfg->heads * cfg->head, 1, SIDE_MAX));
    if (cfg->rope_share > 1.0)
        return ms_fail(e, MUSEC_EINVAL, "rope_share is %g; it must be at most 1", cfg->rope_share);
done:
    return st;
}

/* ---- carving --------------------------------------------------------------------------------- */

static void *take(ms_carver *c, size_t bytes)
{
    const size_t at = c->used;
    size_t       end;
    if (!ms_size_add(at, bytes, &end) || !ms_size_add(end, ALIGN - 1, &end)) {
        c->overflow = true;
        return NULL;
    }
    c->used = end / ALIGN * ALIGN;
    return c->base == NULL ? NULL : c->base + at;
}

static ms_mat take_mat(ms_carver *c, musec_dtype dtype, int64_t count, int64_t rows, int64_t cols)
{
    ms_mat m = ms_mat_of(musec_view_dense(NULL, dtype, count, rows, cols));
    size_t bytes;
    if (!ms_size_stack(count, rows, cols, ms_dtype_bytes(dtype), &bytes))
        c->overflow = true;
    else
        m.data = take(c, bytes);
    return m;
}

static ms_ids take_ids(ms_carver *c, int64_t n)
{
    return (ms_ids){ take(c, (size_t)n * sizeof(int32_t)), n };
}

static ms_vec take_vec(ms_carver *c, int64_t n)
{
    return (ms_vec){ take(c, (size_t)n * sizeof(double)), n };
}

void ms_gpt_carve_weights(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                          ms_gpt_weights *out)
{
    const int64_t a = cfg->heads * cfg->head, w = cfg->width;
    const bool    is_copy = ms_dtype_accum(dtype) != dtype;
    *out                  = (ms_gpt_weights){ 0 };
    for (int64_t l = 0; l < cfg->layers; l++) {
        ms_layer_weights *y = &out->layer[l];
        y->qkv              = take_mat(c, dtype, 1, 3 * a, w);
        y->q                = ms_mat_part(y->qkv, 0, a, 0, w);
        y->k                = ms_mat_part(y->qkv, a, a, 0, w);
        y->v                = ms_mat_part(y->qkv, 2 * a, a, 0, w);
        y->o                = take_mat(c, dtype, 1, w, a);
        y->up               = take_mat(c, dtype, 1, cfg->mlp, w);
        y->down             = take_mat(c, dtype, 1, cfg->mlp, w);
        if (cfg->head_gates) y->gate = take_mat(c, dtype, 1, cfg->heads, cfg->gate_width);
        if (cfg->x0_mix && !is_copy) y->mix = take_mat(c, dtype, 1, 1, 2);
    }
    out->head  = take_mat(c, dtype, 1, cfg->vocab, w);
    out->embed = cfg->tied ? out->head : take_mat(c, dtype, 1, cfg->vocab, w);
}

int64_t ms_gpt_chunk(const ms_gpt_config *cfg, int64_t max_tokens, int64_t logits_chunk)
{
    int64_t rows = logits_chunk / cfg->vocab;
    if (rows < CHUNK_MIN) rows = CHUNK_MIN;
    return rows < max_tokens ? rows : max_tokens;
}

static void carve_layer(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype, int64_t tokens,
                        ms_layer_acts *out)
{
    const int64_t a = cfg->heads * cfg->head, w = cfg->width;
    out->x     = take_mat(c, dtype, 1, tokens, w);
    out->mixed = cfg->x0_mix ? take_mat(c, dtype, 1, tokens, w) : out->x;
    out->qkv   = take_mat(c, dtype, 1, tokens, 3 * a);
    out->qk    = take_mat(c, dtype, 1, tokens, 2 * a);
    out->y     = take_mat(c, dtype, 1, tokens, a);
    out->lse   = take_mat(c, ms_dtype_accum(dtype), cfg->heads, 1, tokens);
    if (cfg->head_gates) out->s = take_mat(c, dtype, 1, tokens, cfg->heads);
    out->mid = take_mat(c, dtype, 1, tokens, w);
    out->h   = take_mat(c, dtype, 1, tokens, cfg->mlp);
}

void ms_gpt_carve_acts(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                       int64_t max_tokens, int64_t logits_chunk, ms_gpt_acts *out)
{
    const int64_t a = cfg->heads * cfg->head, w = cfg->width, n = max_tokens;
    const int64_t pairs = ms_gpt_rope_pairs(cfg);
    *out                = (ms_gpt_acts){ 0 };
    for (int64_t l = 0; l < cfg->layers; l++)
        carve_layer(c, cfg, dtype, n, &out->layer[l]);
    out->x     = take_mat(c, dtype, 1, n, w);
    out->norm  = take_mat(c, dtype, 1, n, w);
    out->dx    = take_mat(c, dtype, 1, n, w);
    out->dnorm = take_mat(c, dtype, 1, n, w);
    out->dh    = take_mat(c, dtype, 1, n, cfg->mlp);
    out->dy    = take_mat(c, dtype, 1, n, a);
    out->dqkv  = take_mat(c, dtype, 1, n, 3 * a);
    out->dqk   = take_mat(c, dtype, 1, n, 2 * a);
    if (cfg->x0_mix) out->dx0 = take_mat(c, dtype, 1, n, w);
    if (cfg->head_gates) {
        out->gated = take_mat(c, dtype, 1, n, a);
        out->ds    = take_mat(c, dtype, 1, n, cfg->heads);
    }
    out->logits    = take_mat(c, dtype, 1, ms_gpt_chunk(cfg, n, logits_chunk), cfg->vocab);
    out->cos       = take_mat(c, ms_dtype_accum(dtype), 1, n, pairs);
    out->sin       = take_mat(c, ms_dtype_accum(dtype), 1, n, pairs);
    out->inputs    = take_ids(c, n);
    out->targets   = take_ids(c, n);
    out->doc       = take_ids(c, n);
    out->loss      = take_vec(c, 2);
    out->max_logit = take_vec(c, cfg->layers * cfg->heads);
    out->unused    = take_vec(c, cfg->heads);
}

/* ---- counts ---------------------------------------------------------------------------------- */

musec_status ms_gpt_measure(ms_error *e, const ms_gpt_config *cfg, musec_dtype dtype,
                            int64_t max_tokens, int64_t logits_chunk, ms_gpt_sizes *out)
{
    const musec_dtype wide    = ms_dtype_accum(dtype);
    ms_carver         weights = { 0 }, copies = { 0 }, acts = { 0 };
    ms_gpt_weights    all;
    ms_gpt_acts       made;
    int64_t           a, w;
    musec_status      st;

    TRY(ms_gpt_check(e, cfg)); /* before anything is multiplied */
    TRY(check_range(e, "tokens of a micro-batch", max_tokens, 1, TOKENS_MAX));
    ms_gpt_carve_weights(&weights, cfg, wide, &all);
    if (wide != dtype) ms_gpt_carve_weights(&copies, cfg, dtype, &all);
    ms_gpt_carve_acts(&acts, cfg, dtype, max_tokens, logits_chunk, &made);
    if (weights.overflow || copies.overflow || acts.overflow)
        return ms_fail(e, MUSEC_EINVAL, "a model of this size does not fit an address space");
    a    = cfg->heads * cfg->head;
    w    = cfg->width;
    *out = (ms_gpt_sizes){
        .n_matrix = cfg->layers * (4 * a * w + 2 * cfg->mlp * w),
        .n_head   = cfg->vocab * w,
        .n_embed  = cfg->tied ? 0 : cfg->vocab * w,
        .n_vector = cfg->layers *
                    ((cfg->head_gates ? cfg->heads * cfg->gate_width : 0) + (cfg->x0_mix ? 2 : 0)),
        .weights     = weights.used,
        .copies      = copies.used,
        .grads       = weights.used,
        .activations = acts.used,
    };
done:
    return st;
}

double ms_gpt_flops(const ms_gpt_config *cfg, double tokens)
{
    const double a = (double)(cfg->heads * cfg->head), w = (double)cfg->width;
    const double matrix = (double)cfg->layers * (4.0 * a * w + 2.0 * (double)cfg->mlp * w);
    return 6.0 * (matrix + (double)cfg->vocab * w) * tokens;
}

/* Forward 4 per pair and column (two products), backward 8 (four; the recomputed one is not counted
 * as work). */
double ms_gpt_attention_flops(const ms_gpt_config *cfg, double visible_pairs)
{
    return 12.0 * (double)(cfg->heads * cfg->head) * visible_pairs;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

static void shorten(ms_mat *x, int64_t rows)
{
    if (x->data != NULL) x->rows = rows;
}

void ms_gpt_set_tokens(const ms_gpt_config *cfg, int64_t tokens, const ms_gpt_acts *all,
                       ms_gpt_acts *now)
{
    ms_gpt_acts *n = now;

    *n = *all;
    for (int64_t l = 0; l < cfg->layers; l++) {
        ms_layer_acts *y     = &n->layer[l];
        ms_mat *const  row[] = { &y->x, &y->mixed, &y->qkv, &y->qk, &y->y, &y->s, &y->mid, &y->h };
        for (size_t i = 0; i < COUNT(row); i++)
            shorten(row[i], tokens);
        y->lse.cols = tokens;
    }
    ms_mat *const rest[] = { &n->x,  &n->norm, &n->gated, &n->dx,  &n->dx0, &n->dnorm,
                             &n->dh, &n->dy,   &n->dqkv,  &n->dqk, &n->ds };
    for (size_t i = 0; i < COUNT(rest); i++)
        shorten(rest[i], tokens);
    n->inputs.count = n->targets.count = n->doc.count = tokens;
}
