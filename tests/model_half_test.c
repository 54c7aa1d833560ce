/* model_half_test.c - the GPT with activations of 16 bits, compared with the same model in float32
 * on `ref`, and the compute copies of its weights, compared with their masters.
 *
 * Storing a number as bf16 changes it by 2^-9 of it at most, as f16 by 2^-12.  About twenty numbers
 * are stored one after the other on the way through a layer and back, and their errors are
 * independent, so a gradient is off by about sqrt(20 layers) times the mean error, and by more
 * where terms cancel: on `ref` by up to 2.7e-2 in bf16 and 3.7e-3 in f16.  The bounds leave room
 * for a device whose attention rounds its probabilities.  In the gradients of scalars, such as the
 * mix with x0, sums over the whole stream, terms cancel much more (8e-2, 2e-2), most in the scale
 * of q, k and v, as the norms of q and k undo it (0.21, 6e-3); dynamic coefficients hang on inner
 * products of whole rows, which cancel too.  In losses, sums over tokens, errors cancel (6e-4,
 * 9e-5). */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "core/text.h"
#include "gpt_rig.h"
#include "oracle.h"
#include "train_rig.h"

enum { TOKENS = 120 };

static const struct half {
    musec_dtype dtype;
    double      loss, grad, cosine, sum; /* errors, relative; 1 - cosine; error of scalars */
} halves[] = {
    { MUSEC_BF16, 3e-3, 4e-2, 1e-3, 0.2 },
    { MUSEC_F16, 5e-4, 6e-3, 2e-5, 0.04 },
};

static ms_device *open_ref(void)
{
    ms_device *ref = NULL;
    CHECK(musec_ctx_create(&ref, "ref") == MUSEC_OK, "ref is always there");
    return ref;
}

/* A model large enough for the errors of large models; no size is a power of two. */
static ms_gpt_config larger(const ms_gpt_config *like)
{
    ms_gpt_config cfg = *like;
    cfg.width = 72, cfg.heads = 3, cfg.head = 24, cfg.mlp = 144, cfg.vocab = 99;
    if (cfg.head_gates) cfg.gate_width = 20;
    cfg.attn_scale = 0.0; /* 1 / sqrt(head): logits of about 1, so that their exponentials do not
                             amplify rounding */
    return cfg;
}

/* Brings vectors near what they start as: mixes that are far from it amplify rounding by ten. */
static void bring_near_start(gpt_rig *r)
{
    ms_gpt *start = NULL;
    CHECK_OK(r->dev, ms_gpt_create(&start, r->dev, ms_gpt_config_of(r->g), MUSEC_F32, 1));
    CHECK_OK(r->dev, ms_gpt_init(start, 5));
    for (size_t p = 0; p < ms_gpt_n_params(r->g); p++)
        if (ms_gpt_param(r->g, p)->role == MUSEC_ROLE_VECTOR)
            CHECK_OK(r->dev,
                     r->dev->ops->axpby(r->dev, ms_const(1.0), ms_gpt_param(start, p)->weight,
                                        ms_const(0.2), ms_gpt_param(r->g, p)->weight));
    ms_gpt_destroy(start);
}

/* A rig whose capped logits are about 2, as in a model that learns.  With larger ones their
 * rounding would be most of the error. */
static gpt_rig make(ms_device *dev, const ms_gpt_config *cfg, musec_dtype dtype, int64_t tokens)
{
    gpt_rig      r    = gpt_rig_make(dev, cfg, dtype, tokens);
    const ms_mat head = ms_gpt_param(r.g, gpt_rig_find(&r, "head"))->weight;
    if (cfg->post_mix) bring_near_start(&r);
    CHECK_OK(dev, dev->ops->scale(dev, ms_const(0.25), head));
    CHECK_OK(dev, ms_gpt_refresh(r.g));
    return r;
}

/* ---- against float32 ------------------------------------------------------------------------- */

typedef struct closeness {
    double error, cosine;
} closeness;

static closeness compare(const double *got, const double *want, int64_t n)
{
    double gg = 0.0, ww = 0.0, gw = 0.0;
    for (int64_t i = 0; i < n; i++)
        gg += got[i] * got[i], ww += want[i] * want[i], gw += got[i] * want[i];
    return (closeness){ oracle_rel_err(got, MUSEC_F64, want, n), gw / sqrt(gg * ww) };
}

static void check_gradients(const char *config, gpt_rig *a, gpt_rig *b, const struct half *h)
{
    double worst = 0.0;
    for (size_t p = 0; p < ms_gpt_n_params(a->g); p++) {
        const ms_gpt_tensor *t = ms_gpt_param(a->g, p);
        const bool           is_sum =
            (t->weight.rows == 1 && t->weight.cols <= 4) || strncmp(t->name, "mudd.", 5) == 0;
        const bool is_scale  = strstr(t->name, "scales") != NULL;
        double    *g         = gpt_rig_read(a, t->grad), *w;
        w                    = gpt_rig_read(b, ms_gpt_param(b->g, p)->grad);
        const closeness near = compare(g, w, gpt_rig_elems(a, p));
        CHECK(t->grad.dtype == MUSEC_F32 && t->weight.dtype == MUSEC_F32, "%s", t->name);
        CHECK(near.error <= (is_scale ? 2.0 * h->sum
                             : is_sum ? h->sum
                                      : h->grad),
              "%s, %s in %s: off by %.2g", config, t->name, ms_dtype_name(h->dtype), near.error);
        CHECK(is_sum || near.cosine >= 1.0 - h->cosine, "%s, %s: cosine %.6f", config, t->name,
              near.cosine);
        if (!is_sum) worst = fmax(worst, near.error);
        free(g), free(w);
    }
    print_message("%s in %s on %s: gradients are off by %.1e at most\n", config,
                  ms_dtype_name(h->dtype), a->dev->name, worst);
}

static void check_close(ms_device *dev, const char *config, const ms_gpt_config *cfg,
                        const ms_gpt_pass *pass, const struct half *h)
{
    ms_device    *ref = open_ref();
    gpt_rig       a = make(dev, cfg, h->dtype, TOKENS + 3), b = make(ref, cfg, MUSEC_F32, TOKENS);
    gpt_stream    s = gpt_stream_make(cfg, TOKENS, 5, 3);
    double        max_a[64], max_b[64], z_a[128], z_b[128];
    ms_gpt_result x, y;
    CHECK(cfg->layers * cfg->heads <= 64 && cfg->vocab <= 128, "no room");
    gpt_rig_run(&a, &s, TOKENS, pass), gpt_rig_run(&b, &s, TOKENS, pass);
    CHECK_OK(dev, ms_gpt_take(a.g, &x, max_a));
    CHECK_OK(ref, ms_gpt_take(b.g, &y, max_b));
    CHECK(fabs(x.loss / y.loss - 1.0) <= h->loss, "%s: loss %g, not %g", config, x.loss, y.loss);
    CHECK(fabs(x.objective / y.objective - 1.0) <= h->loss, "%g, not %g", x.objective, y.objective);
    for (int64_t i = 0; i < cfg->layers * cfg->heads; i++)
        CHECK(fabs(max_a[i] / max_b[i] - 1.0) <= 4.0 * h->grad ||
                  (max_a[i] == -INFINITY && max_b[i] == -INFINITY), /* without attention */
              "logit %g, not %g", max_a[i], max_b[i]);
    check_gradients(config, &a, &b, h);
    CHECK_OK(dev, ms_gpt_next(a.g, s.inputs, TOKENS, pass, z_a));
    CHECK_OK(ref, ms_gpt_next(b.g, s.inputs, TOKENS, pass, z_b));
    CHECK(oracle_rel_err(z_a, MUSEC_F64, z_b, cfg->vocab) <= h->grad, "next: off by %.2g",
          oracle_rel_err(z_a, MUSEC_F64, z_b, cfg->vocab));
    gpt_stream_free(&s);
    gpt_rig_free(&a), gpt_rig_free(&b);
    musec_ctx_destroy(ref);
}

TEST_EACH_DEVICE(losses_and_gradients_are_near_those_of_float32, dev)
{
    const ms_gpt_config full = larger(&gpt_full), plain = larger(&gpt_plain);
    ms_gpt_config       untied = full;
    ms_gpt_config       parts = larger(&gpt_parts), small = larger(&gpt_small);
    small.heads = 4, small.head = 18; /* pairs of heads, and values as wide as the model */
    untied.tied = 0, untied.cap = MS_CAP_NONE, untied.rope_adjacent = 0;
    parts.spare = 0; /* its gradient is 0 and has no relative error */
    for (size_t i = 0; i < COUNT(halves); i++) {
        if (!ms_device_has(dev, halves[i].dtype)) continue;
        check_close(dev, "everything on", &full, &gpt_full_pass, &halves[i]);
        check_close(dev, "plain", &plain, &gpt_plain_pass, &halves[i]);
        check_close(dev, "untied", &untied, &gpt_full_pass, &halves[i]);
        check_close(dev, "parts", &parts, &gpt_parts_pass, &halves[i]);
        check_close(dev, "small", &small, &gpt_parts_pass, &halves[i]);
    }
}

/* Gradients of two passes are summed in float32: 16 bits would lose the much smaller second one. */
TEST_EACH_DEVICE(gradients_are_summed_in_float32, dev)
{
    const ms_gpt_config cfg = larger(&gpt_plain);
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    gpt_rig     a     = gpt_rig_make(dev, &cfg, MUSEC_BF16, TOKENS);
    gpt_stream  s     = gpt_stream_make(&cfg, TOKENS, 5, 3);
    ms_gpt_pass small = gpt_plain_pass;
    small.grad_scale  = 0x1p-12;
    gpt_rig_run(&a, &s, TOKENS, &gpt_plain_pass);
    double *once = gpt_rig_read(&a, ms_gpt_param(a.g, 1)->grad);
    gpt_rig_run(&a, &s, TOKENS, &small);
    double      *both = gpt_rig_read(&a, ms_gpt_param(a.g, 1)->grad);
    const double far  = oracle_rel_err(both, MUSEC_F64, once, gpt_rig_elems(&a, 1));
    CHECK(fabs(far / 0x1p-12 - 1.0) <= 0.05, "%g of the first were added", far);
    free(once), free(both);
    gpt_stream_free(&s);
    gpt_rig_free(&a);
}

/* ---- compute copies -------------------------------------------------------------------------- */

static void check_copy(ms_device *dev, const ms_gpt_tensor *t, const char *when)
{
    const size_t n      = (size_t)(t->weight.rows * t->weight.cols);
    float       *master = check_alloc(n * sizeof *master);
    uint16_t    *copy   = check_alloc(n * sizeof *copy);
    CHECK_OK(dev, dev->ops->download(dev, t->weight.data, n * sizeof *master, master));
    CHECK_OK(dev, dev->ops->download(dev, t->copy.data, n * sizeof *copy, copy));
    for (size_t i = 0; i < n; i++) {
        const uint16_t want = t->copy.dtype == MUSEC_BF16 ? ms_bf16_of_double((double)master[i])
                                                          : ms_f16_of_double((double)master[i]);
        CHECK(copy[i] == want, "%s, %s: %zu of %zu is %04x, not %04x", when, t->name, i, n, copy[i],
              want);
    }
    free(copy), free(master);
}

/* Numbers that no product reads. */
static bool is_scalar(const char *name)
{
    static const char *const ends[] = { "mix",   "scales",  "skip",  "smear", "backout",
                                        "spare", ".bigram", "alpha", ".bias" };
    bool                     found  = false;
    for (size_t i = 0; i < COUNT(ends); i++)
        found = found || ms_text_ends_with(name, ends[i]);
    return found;
}

static void check_copies(ms_device *dev, const ms_gpt *g, const char *when)
{
    for (size_t p = 0; p < ms_gpt_n_params(g); p++) {
        const ms_gpt_tensor *t = ms_gpt_param(g, p);
        if (is_scalar(t->name))
            CHECK(t->copy.data == NULL, "%s has a copy", t->name);
        else
            check_copy(dev, t, when);
    }
}

TEST_EACH_DEVICE(copies_are_rounded_masters, dev)
{
    for (size_t i = 0; i < COUNT(halves); i++) {
        ms_gpt *g = NULL;
        if (!ms_device_has(dev, halves[i].dtype)) continue;
        const ms_gpt_config *const configs[] = { &gpt_full, &gpt_parts, &gpt_small };
        for (size_t c = 0; c < COUNT(configs); c++) {
            CHECK_OK(dev, ms_gpt_create(&g, dev, configs[c], halves[i].dtype, 8));
            CHECK_OK(dev, ms_gpt_init(g, 3));
            check_copies(dev, g, "at the start");
            ms_gpt_destroy(g);
        }
    }
}

TEST_EACH_DEVICE(a_wide_model_has_no_copies, dev)
{
    const musec_dtype wide[] = { MUSEC_F32, MUSEC_F64 };
    for (size_t i = 0; i < COUNT(wide); i++) {
        gpt_rig r = gpt_rig_make(dev, &gpt_full, wide[i], 8);
        for (size_t p = 0; p < ms_gpt_n_params(r.g); p++)
            CHECK(ms_gpt_param(r.g, p)->copy.data == NULL &&
                      ms_gpt_param(r.g, p)->weight.dtype == wide[i],
                  "%s", ms_gpt_param(r.g, p)->name);
        gpt_rig_free(&r);
    }
}

TEST(a_dtype_that_the_device_lacks_is_refused)
{
    ms_device     *dev = check_open("cpu");
    ms_gpt        *g   = (ms_gpt *)dev;
    ms_device_kind lacking;
    check_take_16bit(dev, &lacking);
    CHECK(ms_gpt_create(&g, dev, &gpt_full, MUSEC_BF16, 8) == MUSEC_ENOTSUP && g == NULL, "made");
    CHECK(strstr(musec_ctx_error(dev), "bf16") != NULL, "%s", musec_ctx_error(dev));
    musec_ctx_destroy(dev);
}

/* ---- runs ------------------------------------------------------------------------------------ */

enum { STEPS = 6 };

/* Trains all steps; at their end the compute copies must be those of the weights. */
static void train(const char *optimizer, const char *precision, double loss[STEPS + 1])
{
    static train_watch w = { .stop_after = -1 };
    ms_train_config    cfg =
        train_config("pico", optimizer,
                     "layers=2 width=32 heads=2 head=16 mlp=64 batch=128 max_doc=64 "
                     "steps=6 val_every=0 val_tokens=64 report_every=0 device=ref "
                     "head_gates=yes x0_mix=yes lr=0.05");
    train_set(&cfg, "precision", precision);
    const ms_summary summary = train_run_open(&cfg, &w, NULL, false);
    CHECK(strcmp(summary.status, "done") == 0, "%s", summary.status);
    if (ms_gpt_dtype(w.train->gpt) != MUSEC_F32)
        check_copies(w.train->ctx, w.train->gpt, "after some steps");
    ms_train_close(w.train);
    for (int k = 1; k <= STEPS; k++)
        loss[k] = w.line[k].loss;
}

TEST(losses_of_a_run_in_bf16_follow_float32)
{
    static const char *const optimizers[] = { "soft-musec", "muonclip", "adamw" };
    for (size_t i = 0; i < COUNT(optimizers); i++) {
        double wide[STEPS + 1], half[STEPS + 1];
        train(optimizers[i], "f32", wide), train(optimizers[i], "bf16", half);
        for (int k = 1; k <= STEPS; k++)
            CHECK(fabs(half[k] / wide[k] - 1.0) <= 2e-2, "%s, step %d: %g, not %g", optimizers[i],
                  k, half[k], wide[k]);
        CHECK(half[STEPS] != wide[STEPS], "%s: it was float32", optimizers[i]);
        CHECK(wide[STEPS] < 0.97 * wide[1], "%s: nothing was learned", optimizers[i]);
    }
}
