/* layout.c - checks the sizes of a GPT, and lays out its memory. */
#include "model/layout.h"

#include <math.h>
#include <stdlib.h>
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

static bool has_bit(uint64_t layers, int64_t l) { return layers >> l & 1; }

bool ms_gpt_is_bare(const ms_gpt_config *cfg, int64_t l) { return has_bit(cfg->bare_layers, l); }

bool ms_gpt_is_paired(const ms_gpt_config *cfg, int64_t l)
{
    return has_bit(cfg->paired_layers, l) && !ms_gpt_is_bare(cfg, l);
}

bool ms_gpt_has_xsa(const ms_gpt_config *cfg, int64_t l)
{
    return cfg->xsa && !ms_gpt_is_bare(cfg, l) && !ms_gpt_is_paired(cfg, l);
}

bool ms_gpt_is_dynamic(const ms_gpt_config *cfg, int64_t l)
{
    return cfg->mudd > 0 && l == cfg->layers - 1;
}

bool ms_gpt_has_skips(const ms_gpt_config *cfg)
{
    bool any = false;
    for (int64_t l = 0; l < cfg->layers; l++)
        any = any || cfg->skip_from[l] != 0;
    return any;
}

bool ms_gpt_keeps(const ms_gpt_config *cfg, int64_t layer)
{
    bool keeps = cfg->backout == layer + 1 || cfg->attn_from == layer + 1 ||
                 (cfg->mudd > 0 && layer == cfg->layers - 2);
    for (int64_t l = 0; l < cfg->layers; l++)
        keeps = keeps || cfg->skip_from[l] == layer + 1;
    return keeps;
}

bool ms_gpt_recomputes_attn(const ms_gpt_config *cfg)
{
    return cfg->recompute == MS_RECOMPUTE_ATTENTION || cfg->recompute == MS_RECOMPUTE_LAYER;
}

bool ms_gpt_recomputes_mlp(const ms_gpt_config *cfg)
{
    return cfg->recompute == MS_RECOMPUTE_MLP || cfg->recompute == MS_RECOMPUTE_LAYER;
}

int64_t ms_gpt_tables(const ms_gpt_config *cfg)
{
    int64_t n = 0;
    for (int64_t l = 0; l < cfg->layers; l++)
        n = ms_max_i64(n, cfg->value_table[l]);
    return n;
}

static bool has_gates(const ms_gpt_config *cfg)
{
    return cfg->head_gates || cfg->smear || ms_gpt_has_skips(cfg) || ms_gpt_tables(cfg) > 0;
}

/* What layers read from tables and from other layers. */
static musec_status check_sources(ms_error *e, const ms_gpt_config *cfg)
{
    for (int64_t l = 0; l < MS_GPT_LAYERS; l++) {
        const int64_t table = cfg->value_table[l], from = cfg->skip_from[l];
        if (l >= cfg->layers && (table > 0 || from > 0))
            return ms_fail(e, MUSEC_EINVAL,
                           "%s names layer %lld; the last of the %lld layers is %lld",
                           table > 0 ? "value_tables" : "skips", (long long)l,
                           (long long)cfg->layers, (long long)cfg->layers - 1);
        if (table > MS_GPT_TABLES)
            return ms_fail(e, MUSEC_EINVAL, "value_tables names table %lld; the last is %d",
                           (long long)table - 1, MS_GPT_TABLES - 1);
        if (from > l)
            return ms_fail(e, MUSEC_EINVAL,
                           "skips takes layer %lld to layer %lld; it must be an earlier one",
                           (long long)from - 1, (long long)l);
        if (table > 0 && ms_gpt_is_bare(cfg, l))
            return ms_fail(e, MUSEC_EINVAL,
                           "value_tables gives a table to layer %lld, which has no attention "
                           "(bare_layers)",
                           (long long)l);
    }
    return MUSEC_OK;
}

/* Sets of layers; all bits stand for all layers, however many there are. */
static musec_status check_sets(ms_error *e, const ms_gpt_config *cfg)
{
    const struct {
        const char *name;
        uint64_t    layers;
    } sets[] = { { "paired_layers", cfg->paired_layers }, { "bare_layers", cfg->bare_layers } };
    for (size_t i = 0; i < COUNT(sets); i++)
        for (int64_t l = cfg->layers; l < MS_GPT_LAYERS && sets[i].layers != UINT64_MAX; l++)
            if (has_bit(sets[i].layers, l))
                return ms_fail(
                    e, MUSEC_EINVAL, "%s names layer %lld; the last of the %lld layers is %lld",
                    sets[i].name, (long long)l, (long long)cfg->layers, (long long)cfg->layers - 1);
    return MUSEC_OK;
}

/* What the parts of the smallest of the paper's models need of each other. */
static musec_status check_small(ms_error *e, const ms_gpt_config *cfg)
{
    const int64_t last  = cfg->layers - 1;
    const char   *needs = NULL;

    if (cfg->bigram > 0 && cfg->bigram < 3) needs = "bigram needs a table of 3 rows or more";
    if (cfg->bigram > 0 && !cfg->post_mix) needs = "bigram needs post_mix, which adds it to layers";
    if (cfg->post_mix && cfg->x0_mix) needs = "post_mix takes the place of x0_mix: leave one out";
    if (cfg->value_ve && cfg->gate_width % 2 != 0)
        needs = "value_ve halves gate_width, so that must be even";
    if ((cfg->paired_layers & (UINT64_MAX >> (63 - last))) != 0 && cfg->heads % 2 != 0)
        needs = "paired_layers pairs heads, so their number must be even";
    if (cfg->bare_layers & 1) needs = "bare_layers: layer 0 must have attention";
    if (cfg->mudd > 0 &&
        (!cfg->post_mix || cfg->attn_from == 0 || cfg->attn_from >= last ||
         cfg->value_table[last] == 0 || !ms_gpt_has_skips(cfg) || !cfg->bigram ||
         ms_gpt_is_bare(cfg, last) || ms_gpt_is_paired(cfg, last) || cfg->skip_from[last] > 0))
        needs = "mudd needs bigram, post_mix, attn_from, skips, and in the last layer plain "
                "attention and a value table";
    if (cfg->mudd > 0 && (cfg->heads * cfg->head != cfg->width || cfg->heads % 2 != 0))
        needs = "mudd adds states to values, so heads * head must be width, and heads even";
    if (cfg->mudd > 0 && cfg->backout > 0) needs = "mudd has a backout of its own: leave one out";
    if (needs != NULL) return ms_fail(e, MUSEC_EINVAL, "%s", needs);
    return MUSEC_OK;
}

/* Each field by itself, of a config whose number of layers is right. */
static musec_status check_fields(ms_error *e, const ms_gpt_config *cfg)
{
    const struct {
        const char *name;
        int64_t     value, min, max;
    } whole[] = {
        { "width", cfg->width, 1, SIDE_MAX },
        { "heads", cfg->heads, 1, 1 << 14 },
        { "head", cfg->head, 2, 1 << 14 },
        { "mlp", cfg->mlp, 1, SIDE_MAX },
        { "vocab", cfg->vocab, 2, 1 << 16 },
        { "qk_norm", cfg->qk_norm, 0, 1 },
        { "tied", cfg->tied, 0, 1 },
        { "head_gates", cfg->head_gates, 0, 1 },
        { "x0_mix", cfg->x0_mix, 0, 1 },
        { "gate_width", cfg->gate_width, 1, has_gates(cfg) ? cfg->width : SIDE_MAX },
        { "embed2", cfg->embed2, 0, 1 },
        { "smear", cfg->smear, 0, 1 },
        { "attn_scales", cfg->attn_scales, 0, 1 },
        { "key_offset", cfg->key_offset, 0, 1 },
        { "backout", cfg->backout, 0, cfg->layers },
        { "spare", cfg->spare, 0, SIDE_MAX },
        { "bigram", cfg->bigram, 0, 1 << 28 },
        { "bigram_width", cfg->bigram_width, cfg->bigram ? 1 : 0,
          cfg->bigram ? cfg->width : SIDE_MAX },
        { "attn_from", cfg->attn_from, 0, cfg->layers - 1 },
        { "xsa", cfg->xsa, 0, 1 },
        { "post_mix", cfg->post_mix, 0, 1 },
        { "value_ve", cfg->value_ve, 0, 1 },
        { "mudd", cfg->mudd, 0, SIDE_MAX },
        { "activation", cfg->activation, MS_ACTIVATION_RELU2, MS_ACTIVATION_GELU },
        { "recompute", cfg->recompute, MS_RECOMPUTE_NONE, MS_RECOMPUTE_LAYER },
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
        { "init_embed2", cfg->init_embed2, 0.0 },
        { "init_values", cfg->init_values, 0.0 },
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

musec_status ms_gpt_check(ms_error *e, const ms_gpt_config *cfg)
{
    musec_status st;

    TRY(check_range(e, "layers", cfg->layers, 1, MS_GPT_LAYERS)); /* before any layer is read */
    TRY(check_fields(e, cfg));
    if (cfg->embed2 && !cfg->x0_mix)
        return ms_fail(e, MUSEC_EINVAL, "embed2 needs x0_mix, which mixes it into the layers");
    TRY(check_sources(e, cfg));
    TRY(check_sets(e, cfg));
    st = check_small(e, cfg);
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

static void carve_attention(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype, int64_t l,
                            ms_layer_weights *y)
{
    const int64_t a = cfg->heads * cfg->head, w = cfg->width, g = cfg->gate_width;
    y->qkv = take_mat(c, dtype, 1, 3 * a, w);
    y->q   = ms_mat_part(y->qkv, 0, a, 0, w);
    y->k   = ms_mat_part(y->qkv, a, a, 0, w);
    y->v   = ms_mat_part(y->qkv, 2 * a, a, 0, w);
    y->o   = take_mat(c, dtype, 1, w, a);
    if (cfg->head_gates) y->gate = take_mat(c, dtype, 1, cfg->heads, g);
    if (cfg->value_table[l] && !ms_gpt_is_dynamic(cfg, l))
        y->value_gate = take_mat(c, dtype, 1, cfg->heads, g);
}

static void carve_layer_weights(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                                int64_t l, ms_layer_weights *y)
{
    const int64_t w       = cfg->width;
    const bool    is_copy = ms_dtype_accum(dtype) != dtype, bare = ms_gpt_is_bare(cfg, l);
    const bool    post = cfg->post_mix && !ms_gpt_is_dynamic(cfg, l);

    if (!bare) carve_attention(c, cfg, dtype, l, y);
    y->up   = take_mat(c, dtype, 1, cfg->mlp, w);
    y->down = take_mat(c, dtype, 1, cfg->mlp, w);
    if (cfg->skip_from[l]) y->skip_gate = take_mat(c, dtype, 1, 1, cfg->gate_width);
    if (is_copy) return; /* of the scalars there are none */
    if (cfg->x0_mix) y->mix = take_mat(c, dtype, 1, 1, cfg->embed2 ? 3 : 2);
    if (cfg->attn_scales && !bare) y->scales = take_mat(c, dtype, 1, 1, 2);
    if (cfg->skip_from[l]) y->skip = take_mat(c, dtype, 1, 1, 1);
    if (ms_gpt_has_xsa(cfg, l)) y->alpha = take_mat(c, dtype, 1, 1, cfg->heads);
    if (post && !bare) y->attn_mix = take_mat(c, dtype, 1, 1, 3);
    if (post) y->mlp_mix = take_mat(c, dtype, 1, 1, 2);
    if (post && !bare && cfg->bigram) y->bigram = take_mat(c, dtype, 1, 1, 1);
}

void ms_gpt_carve_weights(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                          ms_gpt_weights *out)
{
    const int64_t a = cfg->heads * cfg->head, w = cfg->width, g = cfg->gate_width;
    const bool    is_copy = ms_dtype_accum(dtype) != dtype;
    *out                  = (ms_gpt_weights){ 0 };
    for (int64_t l = 0; l < cfg->layers; l++)
        carve_layer_weights(c, cfg, dtype, l, &out->layer[l]);
    if (cfg->smear) out->smear_gate = take_mat(c, dtype, 1, 1, g);
    if (cfg->smear && !is_copy) out->smear = take_mat(c, dtype, 1, 1, 1);
    if (cfg->backout && !is_copy) out->backout = take_mat(c, dtype, 1, 1, 1);
    if (cfg->spare && !is_copy) out->spare = take_mat(c, dtype, 1, 1, cfg->spare);
    for (int64_t t = 0; t < ms_gpt_tables(cfg); t++)
        out->value[t] = take_mat(c, dtype, 1, cfg->vocab, a);
    if (cfg->embed2) out->embed2 = take_mat(c, dtype, 1, cfg->vocab, w);
    if (cfg->bigram) out->bigram = take_mat(c, dtype, 1, cfg->bigram, cfg->bigram_width);
    for (int k = 0; k < 2 && cfg->mudd > 0; k++) {
        const int64_t n   = k == 0 ? MS_MUDD_LAYER : MS_MUDD_FINAL;
        out->mudd[k].up   = take_mat(c, dtype, 1, cfg->mudd, w);
        out->mudd[k].down = take_mat(c, dtype, 1, n, cfg->mudd);
        if (!is_copy) out->mudd[k].bias = take_mat(c, dtype, 1, 1, n);
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

/* From the input of a layer to the output of attention. */
static void carve_attn_acts(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                            int64_t tokens, int64_t l, ms_layer_acts *out)
{
    const int64_t     a = cfg->heads * cfg->head, w = cfg->width;
    const musec_dtype wide = ms_dtype_accum(dtype);
    out->skipped           = out->x;
    if (cfg->skip_from[l] || ms_gpt_is_dynamic(cfg, l))
        out->skipped = take_mat(c, dtype, 1, tokens, w);
    if (cfg->skip_from[l]) out->skip_s = take_mat(c, wide, 1, tokens, 1);
    out->mixed = cfg->x0_mix ? take_mat(c, dtype, 1, tokens, w) : out->skipped;
    if (cfg->value_table[l]) out->value_s = take_mat(c, wide, 1, tokens, cfg->heads);
    if (ms_gpt_is_bare(cfg, l)) {
        out->mid = out->mixed;
        return;
    }
    out->qkv = take_mat(c, dtype, 1, tokens, 3 * a);
    out->qk  = take_mat(c, dtype, 1, tokens, 2 * a);
    out->y   = take_mat(c, dtype, 1, tokens, a);
    out->lse = take_mat(c, wide, cfg->heads, 1, tokens);
    if (cfg->head_gates) out->s = take_mat(c, dtype, 1, tokens, cfg->heads);
    if (cfg->post_mix) out->attn_out = take_mat(c, dtype, 1, tokens, w);
}

/* The part of a layer's activations that is recomputed, or the part that is not. */
static void carve_layer(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype, int64_t tokens,
                        int64_t l, bool recomputed, ms_layer_acts *out)
{
    const int64_t w = cfg->width;
    if (!recomputed) out->x = take_mat(c, dtype, 1, tokens, w);
    if (ms_gpt_recomputes_attn(cfg) == recomputed) carve_attn_acts(c, cfg, dtype, tokens, l, out);
    if ((cfg->recompute == MS_RECOMPUTE_LAYER) == recomputed && !ms_gpt_is_bare(cfg, l))
        out->mid = take_mat(c, dtype, 1, tokens, w);
    if (ms_gpt_recomputes_mlp(cfg) == recomputed) {
        out->h = take_mat(c, dtype, 1, tokens, cfg->mlp);
        if (cfg->post_mix) out->mlp_out = take_mat(c, dtype, 1, tokens, w);
    }
    if (!recomputed && ms_gpt_keeps(cfg, l)) out->dkept = take_mat(c, dtype, 1, tokens, w);
}

static void carve_layers(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype, int64_t tokens,
                         ms_layer_acts *out)
{
    size_t begin, end;
    for (int64_t l = 0; l < cfg->layers; l++)
        carve_layer(c, cfg, dtype, tokens, l, false, &out[l]);
    begin = end = c->used;
    for (int64_t l = 0; l < cfg->layers; l++) {
        c->used = begin; /* all layers share this */
        carve_layer(c, cfg, dtype, tokens, l, true, &out[l]);
        if (c->used > end) end = c->used;
    }
    c->used = end;
}

/* What the parts of the smallest of the paper's models need. */
static void carve_small(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype, int64_t n,
                        ms_gpt_acts *out)
{
    const int64_t     a      = cfg->heads * cfg->head;
    const musec_dtype wide   = ms_dtype_accum(dtype);
    ms_mat *const     rows[] = { &out->bigram, &out->row_signs, &out->dbigram };

    if (cfg->post_mix) out->dpart = take_mat(c, dtype, 1, n, cfg->width);
    if (cfg->paired_layers) {
        out->pair_v   = take_mat(c, dtype, 1, n, a);
        out->pair_doc = take_ids(c, 2 * n);
    }
    if (cfg->xsa) out->excluded = take_mat(c, dtype, 1, n, a);
    if (cfg->bigram) {
        for (size_t i = 0; i < COUNT(rows); i++)
            *rows[i] = take_mat(c, dtype, 1, n, cfg->bigram_width);
        out->signs    = take_mat(c, dtype, 1, MS_GPT_SIGNS, cfg->bigram_width);
        out->bigrams  = take_ids(c, n);
        out->sign_ids = take_ids(c, n);
    }
    for (int k = 0; k < 2 && cfg->mudd > 0; k++) {
        ms_mudd_acts *m     = &out->mudd[k];
        const int64_t coefs = k == 0 ? MS_MUDD_LAYER : MS_MUDD_FINAL;
        m->h                = take_mat(c, dtype, 1, n, cfg->mudd);
        m->act              = take_mat(c, dtype, 1, n, cfg->mudd);
        m->dact             = take_mat(c, dtype, 1, n, cfg->mudd);
        m->coef             = take_mat(c, wide, 1, n, coefs);
        m->dcoef            = take_mat(c, wide, 1, n, coefs);
        m->ds               = take_mat(c, dtype, 1, n, coefs);
    }
}

/* What the parts beyond the plain model need, once for all layers. */
static void carve_parts(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype, int64_t n,
                        ms_gpt_acts *out)
{
    const int64_t     a = cfg->heads * cfg->head, w = cfg->width;
    const int64_t     most  = ms_max_i64(cfg->heads, 4); /* coefficients of a row */
    const musec_dtype wide  = ms_dtype_accum(dtype);
    const bool        skips = ms_gpt_has_skips(cfg), tables = ms_gpt_tables(cfg) > 0;
    ms_mat *const     coefs[] = { &out->sig, &out->coef, &out->dcoef, &out->dsig };

    if (cfg->x0_mix || cfg->post_mix || skips) out->dx0 = take_mat(c, dtype, 1, n, w);
    if (cfg->embed2) {
        out->x02  = take_mat(c, dtype, 1, n, w);
        out->dx02 = take_mat(c, dtype, 1, n, w);
    }
    if (cfg->backout || cfg->mudd) out->final = take_mat(c, dtype, 1, n, w);
    if (cfg->attn_scales) out->scaled = take_mat(c, dtype, 1, n, w);
    if (cfg->head_gates || cfg->attn_scales) out->gated = take_mat(c, dtype, 1, n, a);
    if (cfg->head_gates) out->ds = take_mat(c, dtype, 1, n, cfg->heads);
    if (cfg->key_offset) out->shifted = take_mat(c, dtype, 1, n, a);
    if (tables || cfg->xsa) {
        out->ve       = take_mat(c, dtype, 1, n, a);
        out->dve      = take_mat(c, dtype, 1, n, a);
        out->value_ds = take_mat(c, dtype, 1, n, cfg->heads);
    }
    if (!(cfg->embed2 || cfg->backout || cfg->attn_scales || tables || skips || cfg->smear ||
          cfg->post_mix || cfg->xsa))
        return;
    for (size_t i = 0; i < COUNT(coefs); i++)
        *coefs[i] = take_mat(c, wide, 1, n, most);
    out->ones   = take_mat(c, wide, 1, n, 1);
    out->scalar = take_mat(c, wide, 1, 1, 4);
    out->ds16   = take_mat(c, dtype, 1, n, 1);
    if (cfg->smear) out->smear_s = take_mat(c, wide, 1, n, 1);
}

void ms_gpt_carve_acts(ms_carver *c, const ms_gpt_config *cfg, musec_dtype dtype,
                       int64_t max_tokens, int64_t logits_chunk, ms_gpt_acts *out)
{
    const int64_t a = cfg->heads * cfg->head, w = cfg->width, n = max_tokens;
    const int64_t pairs = ms_gpt_rope_pairs(cfg), positions = cfg->paired_layers ? 2 * n : n;
    *out = (ms_gpt_acts){ 0 };
    carve_layers(c, cfg, dtype, n, out->layer);
    out->x     = take_mat(c, dtype, 1, n, w);
    out->norm  = take_mat(c, dtype, 1, n, w);
    out->dx    = take_mat(c, dtype, 1, n, w);
    out->dnorm = take_mat(c, dtype, 1, n, w);
    out->dh    = take_mat(c, dtype, 1, n, cfg->mlp);
    out->dy    = take_mat(c, dtype, 1, n, a);
    out->dqkv  = take_mat(c, dtype, 1, n, 3 * a);
    out->dqk   = take_mat(c, dtype, 1, n, 2 * a);
    carve_parts(c, cfg, dtype, n, out);
    carve_small(c, cfg, dtype, n, out);
    out->logits    = take_mat(c, dtype, 1, ms_gpt_chunk(cfg, n, logits_chunk), cfg->vocab);
    out->cos       = take_mat(c, ms_dtype_accum(dtype), 1, positions, pairs);
    out->sin       = take_mat(c, ms_dtype_accum(dtype), 1, positions, pairs);
    out->inputs    = take_ids(c, n);
    out->targets   = take_ids(c, n);
    out->doc       = take_ids(c, n);
    out->loss      = take_vec(c, 2);
    out->max_logit = take_vec(c, cfg->layers * cfg->heads);
    out->unused    = take_vec(c, cfg->heads);
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Adds up the parameters by their role. */
static musec_status count_params(ms_error *e, const ms_gpt_config *cfg, ms_gpt_sizes *out)
{
    size_t         n;
    ms_gpt_tensor *list = ms_gpt_shapes(cfg, &n);

    if (list == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    for (size_t i = 0; i < n; i++) {
        int64_t *to = &out->n_matrix;
        if (list[i].role == MUSEC_ROLE_EMBED) to = &out->n_embed;
        if (list[i].role == MUSEC_ROLE_HEAD) to = &out->n_head;
        if (list[i].role == MUSEC_ROLE_VECTOR) to = &out->n_vector;
        *to += list[i].weight.rows * list[i].weight.cols;
    }
    free(list);
    return MUSEC_OK;
}

musec_status ms_gpt_measure(ms_error *e, const ms_gpt_config *cfg, musec_dtype dtype,
                            int64_t max_tokens, int64_t logits_chunk, ms_gpt_sizes *out)
{
    const musec_dtype wide    = ms_dtype_accum(dtype);
    ms_carver         weights = { 0 }, copies = { 0 }, acts = { 0 };
    ms_gpt_weights    all;
    ms_gpt_acts       made;
    musec_status      st;

    TRY(ms_gpt_check(e, cfg)); /* before anything is multiplied */
    TRY(check_range(e, "tokens of a micro-batch", max_tokens, 1, TOKENS_MAX));
    ms_gpt_carve_weights(&weights, cfg, wide, &all);
    if (wide != dtype) ms_gpt_carve_weights(&copies, cfg, dtype, &all);
    ms_gpt_carve_acts(&acts, cfg, dtype, max_tokens, logits_chunk, &made);
    if (weights.overflow || copies.overflow || acts.overflow)
        return ms_fail(e, MUSEC_EINVAL, "a model of this size does not fit an address space");
    *out = (ms_gpt_sizes){
        .weights     = weights.used,
        .copies      = copies.used,
        .grads       = weights.used,
        .activations = acts.used,
    };
    st = count_params(e, cfg, out);
done:
    return st;
}

double ms_gpt_flops(const ms_gpt_config *cfg, double tokens)
{
    const double a = (double)(cfg->heads * cfg->head), w = (double)cfg->width;
    double       matrix = 2.0 * (double)cfg->layers * (double)cfg->mlp * w;
    for (int64_t l = 0; l < cfg->layers; l++)
        matrix += ms_gpt_is_bare(cfg, l) ? 0.0 : 4.0 * a * w;
    return 6.0 * (matrix + (double)cfg->vocab * w) * tokens;
}

/* Forward 4 per pair and column (two products), backward 8 (four; the recomputed one is not counted
 * as work). */
double ms_gpt_attention_flops(const ms_gpt_config *cfg, double visible_pairs)
{
    return 12.0 * (double)(cfg->heads * cfg->head) * visible_pairs;
}

/* Two for each weight that a product of the forward pass reads a second time, in all layers but the
 * last, whose activations are still there.  The MLP's second product is recomputed only where its
 * output is kept (post_mix), as is attention's where only attention is recomputed. */
double ms_gpt_recomputed_flops(const ms_gpt_config *cfg, double tokens)
{
    const double a = (double)(cfg->heads * cfg->head), w = (double)cfg->width;
    const double m    = (double)cfg->mlp;
    const bool   attn = ms_gpt_recomputes_attn(cfg), mlp = ms_gpt_recomputes_mlp(cfg);
    double       read = 0.0;
    for (int64_t l = 0; l < cfg->layers - 1; l++) {
        if (attn && !ms_gpt_is_bare(cfg, l)) read += (mlp || cfg->post_mix ? 4.0 : 3.0) * a * w;
        if (mlp) read += (cfg->post_mix ? 2.0 : 1.0) * m * w;
    }
    return 2.0 * read * tokens;
}

double ms_gpt_recomputed_attention(const ms_gpt_config *cfg, int64_t layer, double visible_pairs)
{
    const bool again = ms_gpt_recomputes_attn(cfg) && layer < cfg->layers - 1;
    return again ? ms_gpt_attention_flops(cfg, visible_pairs) / 3.0 : 0.0;
}
