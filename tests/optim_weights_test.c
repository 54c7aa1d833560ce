/* optim_weights_test.c - weights of bf16 and f16: with what is kept beside them they are float32
 * weights, bit for bit, in every rule and layout; and they stay near a run in float64. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "core/halves.h"
#include "optim_rig.h"
#include "scratch.h"

static const musec_block columns[] = {
    { .rows = 12, .cols = 20, .row_step = 42, .count = 2, .stride = 21 }
};
static const musec_block groups[] = {
    { .rows = 6, .cols = 20, .row_step = 20, .group_rows = 2, .group_step = 80 }
};
static const rig_param model[] = {
    { .name = "a", .role = MUSEC_ROLE_QK, .rows = 12, .cols = 20 },
    { .name = "b", .role = MUSEC_ROLE_QK, .rows = 12, .cols = 20, .layout = { .pad = 3 } },
    { .name = "experts", .rows = 12, .cols = 20, .layout = { .more = 2, .gap = 5 } },
    { .name = "wide", .rows = 12, .cols = 42, .blocks = columns, .n_blocks = 1 },
    { .name = "groups", .rows = 12, .cols = 20, .blocks = groups, .n_blocks = 1 },
    { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9, .lr_factor = 0.5 },
};
enum { N = COUNT(model) };

static const musec_dtype short_dtypes[] = { MUSEC_BF16, MUSEC_F16 };

static const struct rule {
    const char *name, *options;
} rules[] = {
    { "soft-musec", "ns-mode=fast" },
    { "soft-musec", "ns-mode=paper nesterov=yes weight-decay=0.3" },
    { "soft-musec", "ns-mode=fast operands=f16 report-every=2" },
    { "soft-musec", "ns-mode=fast momentum-dtype=bf16" },
    { "musec", "threshold=0.2 decay-form=cautious weight-decay=0.3" },
    { "muon", "decay-form=coupled weight-decay=0.3" },
    { "spectra", "base=adamw decay-form=coupled weight-decay=0.3" },
    { "adamw", "avg-steps=3 avg-epochs=1" },
    { "lion", "decay-form=coupled weight-decay=0.3" },
};

/* Gives both the same gradients, which bf16 and f16 hold exactly. */
static void step_alike(rig *a, rig *b, int64_t t)
{
    rig *const rigs[] = { a, b };
    for (size_t p = 0; p < a->n; p++) {
        double *g = rig_normal(a, p, t);
        for (int64_t e = 0; e < rig_elems(a, p); e++)
            g[e] = round(16.0 * g[e]) / 16.0;
        for (int k = 0; k < 2; k++)
            rig_set_grad(rigs[k], p, g);
        free(g);
    }
    rig_go(a), rig_go(b);
}

/* A float32 run that starts from the same weights. */
static rig full_run(ms_device *dev, rig *from, const struct rule *rule)
{
    rig full = rig_make(dev, rule->name, rule->options, MUSEC_F32, model, N, 5);
    rig_copy_weights(from, &full);
    return full;
}

/* The float32 weights that are kept: the two halves, or the master. */
static double *kept_weight(rig *r, size_t p)
{
    const char *name = r->dtype == MUSEC_BF16 ? "low" : "master";
    musec_view  view;
    CHECK_OK(r->dev, musec_optim_state_view(r->opt, p, 0, name, &view));
    CHECK(view.rows == model[p].rows && view.ld == r->w[p].view.ld &&
              view.dtype == (r->dtype == MUSEC_BF16 ? MUSEC_I16 : MUSEC_F32),
          "%s of %s", name, model[p].name);
    run_stack s    = { view, view.count * view.stride };
    s.n            = (view.count - 1) * view.stride + (view.rows - 1) * view.ld + view.cols;
    double *kept   = run_stack_gather(r->dev, &s);
    double *weight = rig_weight(r, p);
    for (int64_t e = 0; r->dtype == MUSEC_BF16 && e < rig_elems(r, p); e++) {
        const uint32_t  bits = ms_bits_of_float((float)weight[e]);
        const ms_halves h    = { (uint16_t)(bits >> 16), (int16_t)kept[e] };
        kept[e]              = ms_float_of_bits(ms_halves_join(h));
    }
    free(weight);
    return kept;
}

static void check_float32(rig *r, rig *full, const struct rule *rule)
{
    for (size_t p = 0; p < N; p++) {
        const int64_t n = rig_elems(r, p);
        double *kept = kept_weight(r, p), *want = rig_weight(full, p), *weight = rig_weight(r, p);
        CHECK(run_same_bits(kept, want, n), "%s %s, %s: %s is not that of float32", rule->name,
              rule->options, ms_dtype_name(r->dtype), model[p].name);
        for (int64_t e = 0; e < n; e++) { /* ties of bf16 go away from zero */
            const double even = run_rounded(want[e], r->dtype);
            const double away =
                ms_float_of_bf16(ms_halves_split(ms_bits_of_float((float)want[e])).high);
            CHECK(weight[e] == (r->dtype == MUSEC_BF16 ? away : even), "%s: %g is %g",
                  model[p].name, want[e], weight[e]);
        }
        free(kept), free(want), free(weight);
    }
}

TEST_EACH_DEVICE(weights_of_16_bits_are_stepped_as_float32, dev)
{
    if (!ms_device_has(dev, MUSEC_BF16)) SKIP_DEVICE("it has no 16-bit numbers");
    for (size_t i = 0; i < COUNT(rules); i++)
        for (size_t k = 0; k < COUNT(short_dtypes); k++) {
            rig r    = rig_make(dev, rules[i].name, rules[i].options, short_dtypes[k], model, N, 5);
            rig full = full_run(dev, &r, &rules[i]);
            for (int64_t t = 0; t < 5; t++)
                step_alike(&r, &full, t);
            check_float32(&r, &full, &rules[i]);
            rig_free(&r), rig_free(&full);
        }
}

/* float32 steps of a run in float64 from the same weights: a dozen products of float32 in each of
 * five steps, which clip or invert singular values, so some 1e3 unit roundoffs of the change; and
 * half a unit in the last place of 16 bits for the weight itself. */
TEST_EACH_DEVICE(weights_of_16_bits_stay_near_float64, dev)
{
    if (!ms_device_has(dev, MUSEC_BF16)) SKIP_DEVICE("it has no 16-bit numbers");
    const struct rule rule = { "soft-musec", "ns-mode=paper lr=0.1" };
    for (size_t k = 0; k < COUNT(short_dtypes); k++) {
        rig r    = rig_make(dev, rule.name, rule.options, short_dtypes[k], model, N, 5);
        rig wide = rig_make(dev, rule.name, rule.options, MUSEC_F64, model, N, 5);
        rig_copy_weights(&r, &wide);
        for (int64_t t = 0; t < 5; t++)
            step_alike(&r, &wide, t);
        for (size_t p = 0; p < N; p++) {
            const int64_t n    = rig_elems(&r, p);
            double       *want = rig_weight(&wide, p), *got = rig_weight(&r, p),
                   *kept      = kept_weight(&r, p);
            const double near = run_fro_diff(kept, want, n) / run_fro(want, n);
            CHECK(near <= 1e3 * 0x1p-24, "%s: %g", model[p].name, near);
            for (int64_t e = 0; e < n; e++)
                CHECK(fabs(got[e] - kept[e]) <=
                          0.5 * ms_dtype_eps(r.dtype) * fabs(kept[e]) + ms_dtype_tiny(r.dtype),
                      "%s: %g for %g", model[p].name, got[e], kept[e]);
            free(want), free(got), free(kept);
        }
        rig_free(&r), rig_free(&wide);
    }
}

/* ---- state, moves, logits -------------------------------------------------------------------- */

TEST_EACH_DEVICE(saved_weights_of_16_bits_go_on_with_the_same_bits, dev)
{
    const char *path = tmp_path("weights16.safetensors");
    if (!ms_device_has(dev, MUSEC_BF16)) SKIP_DEVICE("it has no 16-bit numbers");
    for (size_t k = 0; k < COUNT(short_dtypes); k++) {
        rig one = rig_make(dev, "soft-musec", "ns-mode=fast", short_dtypes[k], model, N, 5);
        rig two = rig_make(dev, "soft-musec", "ns-mode=fast", short_dtypes[k], model, N, 5);
        for (int64_t t = 0; t < 3; t++)
            rig_step(&one, t, 1.0);
        CHECK_OK(dev, musec_optim_save(one.opt, path));
        rig_copy_weights(&one, &two);
        CHECK_OK(dev, musec_optim_load(two.opt, path));
        rig_steps(&one, 3, 3), rig_steps(&two, 3, 3);
        rig_check_same(&one, &two, "soft-musec", ms_dtype_name(short_dtypes[k]));
        for (size_t p = 0; p < N; p++) {
            double *x = kept_weight(&one, p), *y = kept_weight(&two, p);
            CHECK(run_same_bits(x, y, rig_elems(&one, p)), "%s", model[p].name);
            free(x), free(y);
        }
        rig_free(&one), rig_free(&two);
    }
}

TEST_EACH_DEVICE(logits_shrink_weights_of_16_bits, dev)
{
    static const rig_param qk[] = { { .name = "q", .role = MUSEC_ROLE_QK, .rows = 8, .cols = 10 },
                                    { .name = "k", .role = MUSEC_ROLE_QK, .rows = 8, .cols = 10 } };
    const musec_attention  a    = {
            .q = 0, .k = 1, .heads = 2, .kv_heads = 2, .q_step = 4, .k_step = 4, .head_rows = 4
    };
    const double logits[] = { 400.0, 10.0 };
    if (!ms_device_has(dev, MUSEC_BF16)) SKIP_DEVICE("it has no 16-bit numbers");
    for (size_t k = 0; k < COUNT(short_dtypes); k++) {
        rig r    = rig_make(dev, "muonclip", "", short_dtypes[k], qk, 2, 5);
        rig full = rig_make(dev, "muonclip", "", MUSEC_F32, qk, 2, 5);
        rig_copy_weights(&r, &full);
        CHECK_OK(dev, musec_optim_add_attention(r.opt, &a, NULL));
        CHECK_OK(dev, musec_optim_add_attention(full.opt, &a, NULL));
        for (int64_t t = 0; t < 3; t++) {
            CHECK_OK(dev, musec_optim_set_logits(r.opt, 0, logits, 2));
            CHECK_OK(dev, musec_optim_set_logits(full.opt, 0, logits, 2));
            step_alike(&r, &full, t);
        }
        for (size_t p = 0; p < 2; p++) {
            double *kept = rig_weight(&r, p), *want = rig_weight(&full, p);
            for (int64_t e = 0; e < rig_elems(&r, p); e++)
                CHECK(fabs(kept[e] - want[e]) <=
                          0.5 * ms_dtype_eps(r.dtype) * fabs(want[e]) + ms_dtype_tiny(r.dtype),
                      "%s: %g for %g", qk[p].name, kept[e], want[e]);
            free(kept), free(want);
        }
        rig_free(&r), rig_free(&full);
    }
}

TEST_EACH_DEVICE(weights_of_16_bits_have_no_copy_and_need_the_device, dev)
{
    const musec_optim_config cfg = rig_config("muon", "");
    musec_optim             *opt = NULL;
    float                    place[16];
    musec_param param = { .name = "w", .weight = musec_view_dense(place, MUSEC_BF16, 1, 4, 4) };
    uint64_t    state = 0;
    size_t      index = 7;
    CHECK_OK(dev, musec_optim_create(&opt, dev, &cfg));
    if (!ms_device_has(dev, MUSEC_BF16)) {
        CHECK_FAILS(&dev->error, musec_optim_add(opt, &param, &index), MUSEC_ENOTSUP, "bf16");
        musec_optim_destroy(opt);
        return;
    }
    param.copy = musec_view_dense(place + 8, MUSEC_BF16, 1, 4, 4);
    CHECK_FAILS(&dev->error, musec_optim_add(opt, &param, &index), MUSEC_EINVAL, "cannot have one");
    param.copy = (musec_view){ 0 };
    CHECK_OK(dev, musec_optim_add(opt, &param, &index));
    param = (musec_param){ .name = "x", .weight = musec_view_dense(place, MUSEC_I16, 1, 4, 4) };
    CHECK_FAILS(&dev->error, musec_optim_add(opt, &param, &index), MUSEC_ENOTSUP, "i16");
    musec_optim_destroy(opt);
    rig r = rig_make(dev, "muon", "", MUSEC_BF16, model, 1, 5);
    CHECK_OK(dev, musec_optim_workspace(r.opt, NULL, &state));
    CHECK(state == 12 * 20 * (4 + 2), "momentum and low halves: %llu", (unsigned long long)state);
    CHECK(strcmp(musec_optim_state_name(r.opt, 0, 1), "low") == 0, "its name");
    rig_free(&r);
}
