/* layout_test.c - the sizes of a GPT: which configs are refused, counts of parameters and
 * operations, and the memory of passes. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt_rig.h"
#include "model/layout.h"

enum { LOGITS = 1 << 21 }; /* elements of a chunk, as on `ref` */

/* ---- refusals -------------------------------------------------------------------------------- */

#define OF(field) #field, offsetof(ms_gpt_config, field)

static const struct {
    const char *name;
    size_t      offset;
    int64_t     values[4]; /* 7 ends them */
} wrong_wholes[] = {
    { OF(layers), { 0, -1, 65, INT64_MAX } },
    { OF(width), { 0, -5, INT64_MAX, INT64_MIN } },
    { OF(heads), { 0, -1, INT64_MAX, 1 << 20 } },
    { OF(head), { 0, -2, 5, INT64_MAX } }, /* odd: RoPE rotates pairs of columns */
    { OF(mlp), { 0, -1, INT64_MAX, INT64_MIN } },
    { OF(vocab), { 0, 1, -1, 1 << 20 } },
    { OF(qk_norm), { -1, 2, 7 } },
    { OF(tied), { -1, 2, 7 } },
    { OF(head_gates), { -1, 2, 7 } },
    { OF(x0_mix), { -1, 2, 7 } },
    { OF(gate_width), { 0, -1, 11, INT64_MAX } }, /* more than the width */
    { OF(cap), { -1, 3, 7 } },
    { OF(rope_adjacent), { -1, 2, 7 } },
};

static const struct {
    const char *name;
    size_t      offset;
    double      values[4]; /* 7 ends them; NaN and infinity are tried too */
} wrong_reals[] = {
    { OF(cap_scale), { 0.0, -1.0, 7.0 } },   { OF(cap_width), { 0.0, -1.0, 7.0 } },
    { OF(cap_shift), { -2e9, 1e9, 7.0 } },   { OF(attn_scale), { -1e-9, 7.0 } },
    { OF(attn_softcap), { -1e-9, 7.0 } },    { OF(rope_base), { 0.0, 0.5, 7.0 } },
    { OF(rope_share), { -0.1, 1.01, 7.0 } }, { OF(norm_eps), { 0.0, -1.0, 7.0 } },
    { OF(init_qkv), { -1.0, 7.0 } },         { OF(init_up), { -1.0, 7.0 } },
    { OF(init_out), { -1.0, 7.0 } },         { OF(init_down), { -1.0, 7.0 } },
    { OF(init_embed), { -1.0, 7.0 } },       { OF(init_head), { -1.0, 7.0 } },
    { OF(init_residual), { -1.0, 7.0 } },
};

/* Both functions must refuse the config, with the name of the field. */
static void check_refused(const ms_gpt_config *cfg, const char *name, const char *value)
{
    ms_error     e = { "" };
    ms_gpt_sizes sizes;
    CHECK(ms_gpt_check(&e, cfg) == MUSEC_EINVAL, "%s is %s", name, value);
    CHECK(strncmp(e.text, name, strlen(name)) == 0 && strlen(e.text) > strlen(name) + 10,
          "%s is %s: said \"%s\"", name, value, e.text);
    CHECK(ms_gpt_measure(&e, cfg, MUSEC_F32, 8, LOGITS, &sizes) == MUSEC_EINVAL,
          "%s is %s: measured", name, value);
}

TEST(invalid_fields_are_refused_by_name)
{
    ms_error e;
    char     text[40];
    CHECK_OK_ERR(&e, ms_gpt_check(&e, &gpt_full));
    CHECK_OK_ERR(&e, ms_gpt_check(&e, &gpt_plain));
    for (size_t i = 0; i < COUNT(wrong_wholes); i++)
        for (size_t k = 0; k < 4 && wrong_wholes[i].values[k] != 7; k++) {
            ms_gpt_config cfg                                           = gpt_full;
            *(int64_t *)(void *)((char *)&cfg + wrong_wholes[i].offset) = wrong_wholes[i].values[k];
            snprintf(text, sizeof text, "%lld", (long long)wrong_wholes[i].values[k]);
            check_refused(&cfg, wrong_wholes[i].name, text);
        }
    for (size_t i = 0; i < COUNT(wrong_reals); i++) {
        double values[6] = { NAN, INFINITY };
        size_t n         = 2;
        for (size_t k = 0; wrong_reals[i].values[k] != 7.0; k++)
            values[n++] = wrong_reals[i].values[k];
        for (size_t k = 0; k < n; k++) {
            ms_gpt_config cfg                                         = gpt_full;
            *(double *)(void *)((char *)&cfg + wrong_reals[i].offset) = values[k];
            snprintf(text, sizeof text, "%g", values[k]);
            check_refused(&cfg, wrong_reals[i].name, text);
        }
    }
}

TEST(fields_of_options_that_are_off_are_not_checked)
{
    ms_gpt_config cfg = gpt_plain;
    ms_error      e;
    cfg.cap = MS_CAP_NONE, cfg.cap_scale = 0.0, cfg.cap_width = 0.0;
    CHECK_OK_ERR(&e, ms_gpt_check(&e, &cfg));
    cfg.gate_width = cfg.width + 1; /* there are no gates */
    CHECK_OK_ERR(&e, ms_gpt_check(&e, &cfg));
}

TEST(sizes_that_do_not_fit_are_refused)
{
    ms_gpt_config cfg = gpt_full;
    ms_gpt_sizes  sizes;
    ms_error      e = { "" };
    CHECK_FAILS(&e, ms_gpt_measure(&e, &cfg, MUSEC_F32, 0, LOGITS, &sizes), MUSEC_EINVAL, "tokens");
    CHECK(ms_gpt_measure(&e, &cfg, MUSEC_F32, INT64_MAX, LOGITS, &sizes) == MUSEC_EINVAL,
          "too many");
    cfg.heads = 1 << 14, cfg.head = 1 << 14;
    CHECK_FAILS(&e, ms_gpt_check(&e, &cfg), MUSEC_EINVAL, "heads * head");
    cfg = gpt_full, cfg.layers = 64, cfg.width = cfg.mlp = 1 << 20;
    /* only measures, allocates nothing */
    CHECK_OK_ERR(&e, ms_gpt_measure(&e, &cfg, MUSEC_F64, 1 << 28, LOGITS, &sizes));
    CHECK(sizes.weights > (size_t)64 * 2 * 8 << 40, "%zu bytes", sizes.weights);
}

TEST_EACH_DEVICE(invalid_models_are_not_created, dev)
{
    ms_gpt_config cfg = gpt_full;
    ms_gpt       *g   = (ms_gpt *)dev;
    CHECK(ms_gpt_create(&g, dev, &cfg, MUSEC_F32, 0) == MUSEC_EINVAL && g == NULL, "no tokens");
    cfg.head = 7;
    CHECK(ms_gpt_create(&g, dev, &cfg, MUSEC_F32, 8) == MUSEC_EINVAL && g == NULL, "odd heads");
    CHECK(strstr(musec_ctx_error(dev), "head is 7") != NULL, "%s", musec_ctx_error(dev));
    ms_gpt_destroy(NULL);
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* GPT-2 small, of 124M parameters: 12 layers of 768, vocabulary 50304, tied. */
TEST(counts_are_those_of_gpt2_small)
{
    ms_gpt_config cfg = gpt_plain;
    ms_gpt_sizes  sizes;
    ms_error      e;
    cfg.layers = 12, cfg.width = 768, cfg.heads = 12, cfg.head = 64, cfg.mlp = 3072;
    cfg.vocab = 50304, cfg.tied = 1;
    CHECK_OK_ERR(&e, ms_gpt_measure(&e, &cfg, MUSEC_F32, 1024, LOGITS, &sizes));
    CHECK(sizes.n_matrix == 84934656 && sizes.n_head == 38633472 && sizes.n_embed == 0 &&
              sizes.n_vector == 0,
          "%lld, %lld", (long long)sizes.n_matrix, (long long)sizes.n_head);
    CHECK(sizes.weights == 4u * (84934656u + 38633472u), "%zu bytes", sizes.weights);
    CHECK(ms_gpt_flops(&cfg, 10.0) == 60.0 * (84934656.0 + 38633472.0), "products");
    CHECK(ms_gpt_attention_flops(&cfg, 5.0) == 12.0 * 768.0 * 5.0, "attention");
    CHECK(ms_gpt_chunk(&cfg, 1024, LOGITS) == 64 && ms_gpt_chunk(&cfg, 10, LOGITS) == 10, "chunks");
    cfg.vocab = 320;
    CHECK(ms_gpt_chunk(&cfg, 1 << 20, LOGITS) == LOGITS / 320, "chunks of a small vocabulary");
    CHECK(ms_gpt_chunk(&cfg, 1 << 20, 1 << 28) == (1 << 28) / 320, "chunks of a device");
    cfg.head = 128, cfg.rope_share = 0.5;
    CHECK(ms_gpt_rope_pairs(&cfg) == 32, "half of the columns are 32 pairs");
}

/* In 16 bits masters and gradients are as large as in float32, compute copies (of all but the mix)
 * half as large but for alignment, and activations about half as large. */
TEST(activations_in_16_bits_take_half_the_memory)
{
    const musec_dtype halves[] = { MUSEC_BF16, MUSEC_F16 };
    ms_gpt_config     cfg      = gpt_full;
    ms_gpt_sizes      wide, half;
    ms_error          e;
    cfg.width = 256, cfg.heads = 4, cfg.head = 64, cfg.mlp = 1024, cfg.vocab = 320;
    CHECK_OK_ERR(&e, ms_gpt_measure(&e, &cfg, MUSEC_F32, 512, LOGITS, &wide));
    CHECK(wide.copies == 0 && wide.grads == wide.weights, "%zu bytes", wide.copies);
    for (size_t i = 0; i < COUNT(halves); i++) {
        CHECK_OK_ERR(&e, ms_gpt_measure(&e, &cfg, halves[i], 512, LOGITS, &half));
        CHECK(half.weights == wide.weights && half.grads == wide.grads, "masters");
        const size_t elements = (size_t)(half.n_matrix + half.n_head + half.n_vector - 2 * 3);
        CHECK(half.copies >= 2 * elements && half.copies < 2 * elements + 3 * 256, "%zu bytes",
              half.copies);
        const double share = (double)half.activations / (double)wide.activations;
        CHECK(share > 0.5 && share < 0.53, "activations of %g", share);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t n_allocs;
static musec_status (*real_alloc)(ms_device *d, size_t bytes, void **out);

static musec_status counting_alloc(ms_device *d, size_t bytes, void **out)
{
    n_allocs++;
    return real_alloc(d, bytes, out);
}

/* Passes of every kind: with gradients, without, shorter ones, predictions. */
static void some_passes(gpt_rig *r, const gpt_stream *s)
{
    ms_gpt_result result;
    double        logits[64];
    for (int64_t tokens = s->tokens; tokens > 0; tokens -= 7) {
        gpt_rig_run(r, s, tokens, &gpt_full_pass);
        CHECK_OK(r->dev, ms_gpt_next(r->g, s->inputs, tokens, &gpt_full_pass, logits));
    }
    gpt_rig_loss(r, s, &gpt_full_pass, NULL);
    CHECK_OK(r->dev, ms_gpt_take(r->g, &result, NULL));
    CHECK_OK(r->dev, ms_gpt_zero_grad(r->g));
}

TEST_EACH_DEVICE(passes_allocate_nothing_after_the_first, dev)
{
    gpt_stream s = gpt_stream_make(&gpt_full, 45, 5, 1);
    gpt_rig    r = gpt_rig_make(dev, &gpt_full, MUSEC_F32, 45);
    gpt_rig_run(&r, &s, 45, &gpt_full_pass);
    gpt_rig_run(&r, &s, 45, &gpt_full_pass); /* the arena's chunks become one */
    const size_t arena = dev->scratch.n_allocs, in_use = dev->scratch.in_use;
    n_allocs         = 0;
    real_alloc       = dev->table.alloc;
    dev->table.alloc = counting_alloc;
    for (int i = 0; i < 3; i++)
        some_passes(&r, &s);
    dev->table.alloc = real_alloc;
    CHECK(n_allocs == 0, "%zu blocks", n_allocs);
    CHECK(dev->scratch.n_allocs == arena, "%zu chunks", dev->scratch.n_allocs - arena);
    CHECK(dev->scratch.in_use == in_use, "scratch was not freed");
    gpt_rig_free(&r);
    gpt_stream_free(&s);
}

TEST_EACH_DEVICE(a_model_made_for_more_tokens_gives_the_same_bits, dev)
{
    const musec_dtype dtypes[] = { MUSEC_F32, MUSEC_F64 };
    gpt_stream        s        = gpt_stream_make(&gpt_full, 21, 3, 1);
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        gpt_rig       a = gpt_rig_make(dev, &gpt_full, dtypes[d], 21);
        gpt_rig       b = gpt_rig_make(dev, &gpt_full, dtypes[d], 80);
        gpt_stream    l = gpt_stream_make(&gpt_full, 80, 3, 2);
        ms_gpt_result x, y;
        gpt_rig_run(&b, &l, 80, &gpt_full_pass); /* leaves something in every buffer */
        CHECK_OK(dev, ms_gpt_take(b.g, &y, NULL));
        CHECK_OK(dev, ms_gpt_zero_grad(b.g));
        gpt_rig_run(&a, &s, 21, &gpt_full_pass), gpt_rig_run(&b, &s, 21, &gpt_full_pass);
        CHECK_OK(dev, ms_gpt_take(a.g, &x, NULL));
        CHECK_OK(dev, ms_gpt_take(b.g, &y, NULL));
        CHECK(x.loss == y.loss && x.objective == y.objective && y.tokens == 21, "losses");
        for (size_t p = 0; p < ms_gpt_n_params(a.g); p++) {
            double *g = gpt_rig_read(&a, ms_gpt_param(a.g, p)->grad);
            double *h = gpt_rig_read(&b, ms_gpt_param(b.g, p)->grad);
            CHECK(memcmp(g, h, (size_t)gpt_rig_elems(&a, p) * sizeof *g) == 0, "%s",
                  ms_gpt_param(a.g, p)->name);
            free(g), free(h);
        }
        gpt_stream_free(&l);
        gpt_rig_free(&a), gpt_rig_free(&b);
    }
    gpt_stream_free(&s);
}

TEST_EACH_DEVICE(too_many_tokens_are_refused, dev)
{
    gpt_rig       r       = gpt_rig_make(dev, &gpt_full, MUSEC_F32, 20);
    gpt_stream    s       = gpt_stream_make(&gpt_full, 21, 2, 1);
    const int64_t wrong[] = { 21, 0, -1, INT64_MAX };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const ms_gpt_batch batch = { s.inputs, s.targets, s.doc, wrong[i] };
        CHECK(ms_gpt_run(r.g, &batch, &gpt_full_pass) == MUSEC_EINVAL, "%lld", (long long)wrong[i]);
        CHECK(strstr(musec_ctx_error(dev), "1 to 20") != NULL, "%s", musec_ctx_error(dev));
    }
    gpt_rig_run(&r, &s, 20, &gpt_full_pass);
    gpt_stream_free(&s);
    gpt_rig_free(&r);
}
