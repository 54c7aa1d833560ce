/* gpt_rig.c - see gpt_rig.h. */
#include "gpt_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "oracle.h"

const ms_gpt_config gpt_full = {
    .layers        = 3,
    .width         = 10,
    .heads         = 2,
    .head          = 6,
    .mlp           = 14,
    .vocab         = 23,
    .qk_norm       = 1,
    .tied          = 1,
    .head_gates    = 1,
    .x0_mix        = 1,
    .gate_width    = 7,
    .cap           = MS_CAP_SIGMOID,
    .cap_scale     = 23.0,
    .cap_shift     = 5.0,
    .cap_width     = 7.5,
    .attn_scale    = 0.7,
    .rope_base     = 50.0,
    .rope_share    = 0.7,
    .rope_adjacent = 1,
    .long_layers   = 2,
    .norm_eps      = 1e-3,
    .init_qkv      = 1.0,
    .init_up       = 0.5,
    .init_embed    = 0.3,
    .init_head     = 0.2,
    .init_residual = 1.05,
};

const ms_gpt_config gpt_plain = {
    .layers        = 2,
    .width         = 12,
    .heads         = 3,
    .head          = 4,
    .mlp           = 9,
    .vocab         = 19,
    .gate_width    = 1,
    .cap           = MS_CAP_TANH,
    .cap_scale     = 3.0,
    .attn_softcap  = 1.5,
    .rope_base     = 100.0,
    .rope_share    = 1.0,
    .norm_eps      = 1e-5,
    .init_qkv      = 1.0,
    .init_up       = 0.5,
    .init_out      = 0.25,
    .init_down     = 0.75,
    .init_embed    = 0.3,
    .init_head     = 0.2,
    .init_residual = 1.0,
};

const ms_gpt_config gpt_parts = {
    .layers        = 4,
    .width         = 12,
    .heads         = 2,
    .head          = 8,
    .mlp           = 14,
    .vocab         = 23,
    .qk_norm       = 1,
    .head_gates    = 1,
    .x0_mix        = 1,
    .gate_width    = 7,
    .embed2        = 1,
    .smear         = 1,
    .attn_scales   = 1,
    .key_offset    = 1,
    .backout       = 2,
    .spare         = 3,
    .value_table   = { 1, 2, 0, 1 },
    .skip_from     = { 0, 0, 2, 1 },
    .cap           = MS_CAP_SIGMOID,
    .cap_scale     = 23.0,
    .cap_shift     = 5.0,
    .cap_width     = 7.5,
    .attn_scale    = 0.5,
    .rope_base     = 50.0,
    .rope_share    = 0.5,
    .long_layers   = 10,
    .norm_eps      = 1e-3,
    .init_qkv      = 1.0,
    .init_up       = 0.5,
    .init_embed    = 0.3,
    .init_head     = 0.2,
    .init_residual = 1.05,
    .init_embed2   = 1.0,
    .init_values   = 0.1,
};

/* Layer 0 is paired, 1 plain and long, 2 has no attention, 3 is paired, 4 dynamic; the last two
 * attend to the output of layer 2. */
const ms_gpt_config gpt_small = {
    .layers        = 5,
    .width         = 16,
    .heads         = 4,
    .head          = 4,
    .mlp           = 14,
    .vocab         = 23,
    .qk_norm       = 1,
    .head_gates    = 1,
    .gate_width    = 6,
    .smear         = 1,
    .attn_scales   = 1,
    .key_offset    = 1,
    .bigram        = 29,
    .bigram_width  = 5,
    .attn_from     = 3,
    .xsa           = 1,
    .post_mix      = 1,
    .value_ve      = 1,
    .mudd          = 3,
    .paired_layers = 9,
    .bare_layers   = 4,
    .value_table   = { 0, 1, 0, 2, 3 },
    .skip_from     = { 0, 0, 2 },
    .cap           = MS_CAP_SIGMOID,
    .cap_scale     = 23.0,
    .cap_shift     = 5.0,
    .cap_width     = 7.5,
    .attn_scale    = 0.5,
    .rope_base     = 50.0,
    .rope_share    = 0.5,
    .rope_adjacent = 1,
    .long_layers   = 18,
    .norm_eps      = 1e-3,
    .init_qkv      = 1.0,
    .init_out      = 1.0,
    .init_up       = 0.5,
    .init_embed    = 0.3,
    .init_head     = 0.2,
    .init_residual = 1.05,
    .init_values   = 0.1,
};

const ms_gpt_pass gpt_parts_pass = { .window_short = 3,
                                     .window_long  = 8,
                                     .n_windows    = 2,
                                     .windows      = { 4, 8 },
                                     .n_weights    = 3,
                                     .weights      = { 1.0, 0.5, 0.25 },
                                     .grad_scale   = 0.125 };

const ms_gpt_pass gpt_full_pass = { .window_short = 3,
                                    .window_long  = 8,
                                    .n_weights    = 3,
                                    .weights      = { 1.0, 0.5, 0.25 },
                                    .grad_scale   = 0.125 };

const ms_gpt_pass gpt_plain_pass = {
    .window_short = 6, .window_long = 6, .n_weights = 1, .weights = { 1.0 }, .grad_scale = 1.0
};

/* ---- models ---------------------------------------------------------------------------------- */

static double deviation(const ms_gpt_tensor *p)
{
    if (p->role == MUSEC_ROLE_HEAD || p->role == MUSEC_ROLE_EMBED) return 1.0;
    return p->role == MUSEC_ROLE_VECTOR ? 0.7 : 1.2 / sqrt((double)p->weight.cols);
}

gpt_rig gpt_rig_make(ms_device *dev, const ms_gpt_config *cfg, musec_dtype dtype,
                     int64_t max_tokens)
{
    gpt_rig r = { .dev = dev };
    CHECK_OK(dev, ms_gpt_create(&r.g, dev, cfg, dtype, max_tokens));
    for (size_t p = 0; p < ms_gpt_n_params(r.g); p++) {
        const ms_gpt_tensor *t   = ms_gpt_param(r.g, p);
        const uint64_t       key = ms_rand_key(77, t->name);
        CHECK_OK(dev, dev->ops->normal(dev, key, 0.0, deviation(t), t->weight));
    }
    CHECK_OK(dev, ms_gpt_refresh(r.g));
    CHECK_OK(dev, ms_gpt_zero_grad(r.g));
    return r;
}

void gpt_rig_free(gpt_rig *r)
{
    ms_gpt_destroy(r->g);
    *r = (gpt_rig){ 0 };
}

size_t gpt_rig_find(const gpt_rig *r, const char *name)
{
    for (size_t p = 0; p < ms_gpt_n_params(r->g); p++)
        if (strcmp(ms_gpt_param(r->g, p)->name, name) == 0) return p;
    check_failed(__FILE__, __LINE__, "gpt_rig_find", "there is no %s", name);
}

int64_t gpt_rig_elems(const gpt_rig *r, size_t p)
{
    const ms_mat w = ms_gpt_param(r->g, p)->weight;
    return w.rows * w.cols;
}

double *gpt_rig_read(const gpt_rig *r, ms_mat from)
{
    const int64_t n     = from.rows * from.cols; /* parameters are dense */
    const size_t  bytes = (size_t)n * ms_dtype_bytes(from.dtype);
    void         *host  = check_alloc(bytes);
    CHECK(from.ld == from.cols && !from.trans, "not a dense parameter");
    CHECK_OK(r->dev, r->dev->ops->download(r->dev, from.data, bytes, host));
    double *out = oracle_loaded(host, n, from.dtype);
    free(host);
    return out;
}

void gpt_rig_write(const gpt_rig *r, ms_mat to, const double *dense)
{
    const int64_t n      = to.rows * to.cols;
    void         *stored = oracle_stored(dense, n, to.dtype);
    CHECK_OK(r->dev,
             r->dev->ops->upload(r->dev, stored, (size_t)n * ms_dtype_bytes(to.dtype), to.data));
    CHECK_OK(r->dev, r->dev->ops->sync(r->dev));
    free(stored);
}

/* ---- streams --------------------------------------------------------------------------------- */

gpt_stream gpt_stream_make(const ms_gpt_config *cfg, int64_t tokens, int64_t documents,
                           uint64_t seed)
{
    const size_t   n   = (size_t)tokens;
    const uint64_t key = ms_rand_key(seed, "stream");
    gpt_stream     s   = { check_alloc(n * sizeof *s.inputs), check_alloc(n * sizeof *s.targets),
                           check_alloc(n * sizeof *s.doc), tokens };
    for (int64_t t = 0; t < tokens; t++) {
        /* document d begins at about (d / documents)^2 of the stream, the second one at 1 */
        const int64_t d = (int64_t)(sqrt((double)t / (double)tokens) * (double)documents);
        const bool    fresh =
            t == 0 || (t == 1 && documents > 1) ||
            (t > 1 && (int64_t)(sqrt((double)(t - 1) / (double)tokens) * (double)documents) != d);
        s.inputs[t]  = (int32_t)(ms_rand_u64(key, (uint64_t)t) % (uint64_t)cfg->vocab);
        s.targets[t] = (int32_t)(ms_rand_u64(key, (uint64_t)(t + 1)) % (uint64_t)cfg->vocab);
        s.doc[t]     = fresh ? (int32_t)t : s.doc[t - 1];
    }
    return s;
}

void gpt_stream_free(gpt_stream *s)
{
    free(s->inputs), free(s->targets), free(s->doc);
    *s = (gpt_stream){ 0 };
}

/* ---- passes ---------------------------------------------------------------------------------- */

void gpt_rig_run(gpt_rig *r, const gpt_stream *s, int64_t tokens, const ms_gpt_pass *pass)
{
    const ms_gpt_batch batch = { s->inputs, s->targets, s->doc, tokens };
    CHECK_OK(r->dev, ms_gpt_run(r->g, &batch, pass));
}

void gpt_rig_check_gradients(const gpt_rig *a, const gpt_rig *b, double bound)
{
    double worst = 0.0;
    for (size_t p = 0; p < ms_gpt_n_params(a->g); p++) {
        double      *x   = gpt_rig_read(a, ms_gpt_param(a->g, p)->grad);
        double      *y   = gpt_rig_read(b, ms_gpt_param(b->g, p)->grad);
        const double err = oracle_rel_err(x, MUSEC_F64, y, gpt_rig_elems(a, p));
        CHECK(err <= bound, "%s: %.2g", ms_gpt_param(a->g, p)->name, err);
        worst = fmax(worst, err);
        free(x), free(y);
    }
    print_message("largest relative difference of a gradient: %.1e\n", worst);
}

double gpt_rig_loss(gpt_rig *r, const gpt_stream *s, const ms_gpt_pass *pass, ms_gpt_result *result)
{
    ms_gpt_pass   alone = *pass;
    ms_gpt_result all;
    alone.grad_scale = 0.0;
    gpt_rig_run(r, s, s->tokens, &alone);
    CHECK_OK(r->dev, ms_gpt_take(r->g, &all, NULL));
    if (result != NULL) *result = all;
    return all.objective;
}

double *gpt_rig_rows(gpt_rig *r, const gpt_stream *s, const ms_gpt_pass *pass)
{
    double       *out = check_alloc((size_t)s->tokens * sizeof *out), before = 0.0;
    ms_gpt_pass   alone = *pass;
    ms_gpt_result all;
    alone.grad_scale = 0.0;
    for (int64_t t = 0; t < s->tokens; t++) {
        gpt_rig_run(r, s, t + 1, &alone);
        CHECK_OK(r->dev, ms_gpt_take(r->g, &all, NULL));
        out[t] = all.loss - before;
        before = all.loss;
    }
    return out;
}
