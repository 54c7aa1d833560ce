/* model_recompute_test.c - a model that recomputes activations in its backward pass, beside one
 * that keeps them: losses, largest logits and gradients are the same bits, and memory is less by
 * the bytes of the matrices that layers then share. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "gpt_rig.h"

enum { TOKENS = 45, FEWER = 31, LOGITS = 1 << 21 };

static const int64_t modes[] = { MS_RECOMPUTE_ATTENTION, MS_RECOMPUTE_MLP, MS_RECOMPUTE_LAYER };

/* ---- the same bits --------------------------------------------------------------------------- */

/* Two micro-batches of different lengths, a validation pass between them, and a tied pass. */
static void some_passes(gpt_rig *r, const ms_gpt_config *cfg, const gpt_stream s[2],
                        const ms_gpt_pass *pass, ms_gpt_result *out)
{
    ms_gpt_pass tied = *pass;
    tied.tied        = !cfg->tied;
    gpt_rig_run(r, &s[0], TOKENS, pass);
    CHECK_OK(r->dev, ms_gpt_take(r->g, &out[0], NULL));
    gpt_rig_loss(r, &s[1], pass, &out[1]);
    gpt_rig_run(r, &s[1], FEWER, pass);
    gpt_rig_run(r, &s[0], FEWER, &tied);
}

static void check_same_gradients(const gpt_rig *a, const gpt_rig *b, const char *what)
{
    for (size_t p = 0; p < ms_gpt_n_params(a->g); p++) {
        double *x = gpt_rig_read(a, ms_gpt_param(a->g, p)->grad);
        double *y = gpt_rig_read(b, ms_gpt_param(b->g, p)->grad);
        CHECK(run_same_bits(x, y, gpt_rig_elems(a, p)), "%s: %s", what,
              ms_gpt_param(a->g, p)->name);
        free(x), free(y);
    }
}

static void check_same_bits(ms_device *dev, const char *what, const ms_gpt_config *cfg,
                            const ms_gpt_pass *pass, musec_dtype dtype)
{
    gpt_stream    s[]  = { gpt_stream_make(cfg, TOKENS, 5, 1), gpt_stream_make(cfg, FEWER, 4, 2) };
    gpt_rig       kept = gpt_rig_make(dev, cfg, dtype, TOKENS);
    ms_gpt_result were[3];
    double        most[256], logits[64];
    some_passes(&kept, cfg, s, pass, were);
    CHECK_OK(dev, ms_gpt_take(kept.g, &were[2], most));
    CHECK_OK(dev, ms_gpt_next(kept.g, s[0].inputs, FEWER, pass, logits));
    for (size_t m = 0; m < COUNT(modes); m++) {
        ms_gpt_config other = *cfg;
        ms_gpt_result are[3];
        double        top[256], next[64];
        char          name[96];
        other.recompute = modes[m];
        gpt_rig r       = gpt_rig_make(dev, &other, dtype, TOKENS);
        snprintf(name, sizeof name, "%s, mode %zu, dtype %d", what, m, (int)dtype);
        some_passes(&r, &other, s, pass, are);
        CHECK_OK(dev, ms_gpt_take(r.g, &are[2], top));
        CHECK_OK(dev, ms_gpt_next(r.g, s[0].inputs, FEWER, pass, next));
        for (size_t i = 0; i < COUNT(are); i++)
            CHECK(are[i].loss == were[i].loss && are[i].objective == were[i].objective,
                  "%s: loss %zu", name, i);
        CHECK(run_same_bits(top, most, cfg->layers * cfg->heads), "%s: logits", name);
        CHECK(run_same_bits(next, logits, cfg->vocab), "%s: the next token's", name);
        check_same_gradients(&kept, &r, name);
        gpt_rig_free(&r);
    }
    gpt_rig_free(&kept);
    gpt_stream_free(&s[0]), gpt_stream_free(&s[1]);
}

TEST_EACH_DEVICE(recomputed_passes_give_the_same_bits, dev)
{
    const musec_dtype dtypes[] = { MUSEC_F32, MUSEC_F64, MUSEC_BF16, MUSEC_F16 };
    ms_gpt_config     gelu = gpt_plain, small_gelu = gpt_small, one = gpt_plain, bare = gpt_plain;
    gelu.activation = small_gelu.activation = MS_ACTIVATION_GELU;
    one.layers                              = 1;
    bare.layers = 3, bare.bare_layers = 2, bare.attn_from = 1; /* without post_mix */
    const struct {
        const char          *what;
        const ms_gpt_config *cfg;
        const ms_gpt_pass   *pass;
    } cases[] = {
        { "plain", &gpt_plain, &gpt_plain_pass }, { "everything on", &gpt_full, &gpt_full_pass },
        { "parts", &gpt_parts, &gpt_parts_pass }, { "small", &gpt_small, &gpt_parts_pass },
        { "gelu", &gelu, &gpt_plain_pass },       { "small, gelu", &small_gelu, &gpt_parts_pass },
        { "one layer", &one, &gpt_plain_pass },   { "bare", &bare, &gpt_plain_pass },
    };
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t c = 0; c < COUNT(cases) && ms_device_has(dev, dtypes[d]); c++)
            check_same_bits(dev, cases[c].what, cases[c].cfg, cases[c].pass, dtypes[d]);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t activations(const ms_gpt_config *cfg, int64_t mode, musec_dtype dtype)
{
    ms_gpt_config other = *cfg;
    ms_gpt_sizes  sizes;
    ms_error      e;
    other.recompute = mode;
    CHECK_OK_ERR(&e, ms_gpt_measure(&e, &other, dtype, TOKENS, LOGITS, &sizes));
    return sizes.activations;
}

/* Bytes of a matrix of so many columns, to the next multiple of 256. */
static size_t bytes_of(size_t columns, size_t each)
{
    return (columns * TOKENS * each + 255) / 256 * 256;
}

TEST(what_is_recomputed_takes_the_memory_of_one_layer)
{
    ms_gpt_config cfg = gpt_plain; /* heads * head = 12, width 12, mlp 9 */
    cfg.layers        = 5;
    for (int k = 0; k < 2; k++) {
        const musec_dtype dtype = k == 0 ? MUSEC_F32 : MUSEC_BF16;
        const size_t      each  = k == 0 ? 4 : 2;
        const size_t      q_k_v = bytes_of(36, each) + bytes_of(24, each); /* and as rotated */
        const size_t attn = q_k_v + bytes_of(12, each) + bytes_of(3, 4);   /* y, sums of 3 heads */
        const size_t mlp = bytes_of(9, each), state = bytes_of(12, each);
        const size_t all = activations(&cfg, MS_RECOMPUTE_NONE, dtype);
        CHECK(all - activations(&cfg, MS_RECOMPUTE_ATTENTION, dtype) == 4 * attn, "attention");
        CHECK(all - activations(&cfg, MS_RECOMPUTE_MLP, dtype) == 4 * mlp, "mlp");
        CHECK(all - activations(&cfg, MS_RECOMPUTE_LAYER, dtype) == 4 * (attn + mlp + state),
              "layer");
    }
    cfg.layers = 1;
    CHECK(activations(&cfg, MS_RECOMPUTE_NONE, MUSEC_F32) ==
              activations(&cfg, MS_RECOMPUTE_LAYER, MUSEC_F32),
          "one layer");
}

/* A layer without attention, the last or another, needs less than the others, and so it changes
 * nothing. */
TEST(layers_of_unequal_size_share_what_the_largest_needs)
{
    ms_gpt_config cfg = gpt_small;
    cfg.mudd = cfg.bare_layers = cfg.skip_from[2] = cfg.value_table[4] = 0;
    const size_t equal = activations(&cfg, MS_RECOMPUTE_LAYER, MUSEC_F32);
    cfg.bare_layers    = 1 << 4;
    CHECK(activations(&cfg, MS_RECOMPUTE_LAYER, MUSEC_F32) == equal, "the last");
    cfg.bare_layers = 1 << 2;
    CHECK(activations(&cfg, MS_RECOMPUTE_LAYER, MUSEC_F32) == equal, "one between");
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Products of 2 layers of 12: 3 * 12^2 for q, k, v, 12^2 for the output, 12 * 9 for the MLP's
 * first; of the last layer none are repeated.  Attention repeats a third of what forward and
 * backward take. */
TEST(recomputed_operations_are_those_of_the_earlier_layers)
{
    ms_gpt_config cfg = gpt_plain;
    CHECK(ms_gpt_recomputed_flops(&cfg, 10.0) == 0.0, "none");
    CHECK(ms_gpt_recomputed_attention(&cfg, 0, 5.0) == 0.0, "none");
    cfg.recompute = MS_RECOMPUTE_ATTENTION;
    CHECK(ms_gpt_recomputed_flops(&cfg, 10.0) == 20.0 * 3.0 * 144.0, "attention");
    CHECK(ms_gpt_recomputed_attention(&cfg, 0, 5.0) == 4.0 * 12.0 * 5.0, "attention");
    CHECK(ms_gpt_recomputed_attention(&cfg, 1, 5.0) == 0.0, "the last layer");
    cfg.recompute = MS_RECOMPUTE_MLP;
    CHECK(ms_gpt_recomputed_flops(&cfg, 10.0) == 20.0 * 12.0 * 9.0, "mlp");
    CHECK(ms_gpt_recomputed_attention(&cfg, 0, 5.0) == 0.0, "mlp");
    cfg.recompute = MS_RECOMPUTE_LAYER;
    CHECK(ms_gpt_recomputed_flops(&cfg, 10.0) == 20.0 * (4.0 * 144.0 + 12.0 * 9.0), "layer");
    cfg.post_mix = 1;
    CHECK(ms_gpt_recomputed_flops(&cfg, 10.0) == 20.0 * (4.0 * 144.0 + 2.0 * 12.0 * 9.0), "mixed");
    cfg.bare_layers = 1; /* of the layer that is recomputed */
    CHECK(ms_gpt_recomputed_flops(&cfg, 10.0) == 20.0 * 2.0 * 12.0 * 9.0, "bare");
}
