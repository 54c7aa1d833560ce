/* optim_defer_test.c - steps that the device decides on: as those that the host decides on, with
 * their numbers known when they are asked for; and captured into a graph and replayed. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim_rig.h"
#include "scratch.h"

static const rig_param model[] = {
    { .name = "a", .role = MUSEC_ROLE_QK, .rows = 24, .cols = 40 },
    { .name = "b", .role = MUSEC_ROLE_MLP, .rows = 24, .cols = 40, .layout = { .more = 1 } },
    { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9 },
};
enum { N = COUNT(model) };

static const struct rule {
    const char *name, *options;
} rules[] = {
    { "soft-musec", "ns-mode=fast" },
    { "soft-musec", "ns-mode=paper nesterov=yes threshold=rms:1" },
    { "soft-musec", "ns-mode=paper7 momentum-dtype=bf16" },
    { "soft-musec", "ns-mode=fast decay-form=cautious weight-decay=0.2 momentum-init=zero" },
    { "musec", "ns-mode=fast threshold=0.2" },
    { "muon", "nesterov=yes" },
    { "spectra", "base=adamw ns-mode=fast" },
    { "adamw", "weight-decay=0.1" },
    { "lion", "" },
    { "normuon", "" },
    { "adamuon", "" },
    { "muonh", "nesterov=yes" },
    { "soft-musec", "ns-mode=fast second-moment=longer threshold=rms:1" },
};

/* Gradients of a step; some steps, the first among them, have a NaN or an infinity, which must not
 * be taken, or one parameter without any. */
static void set_grads(rig *r, int64_t t)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    rig_set_grads(r, t, 1.0);
    r->without[1] = t == 4;
    if (t % 3 != 0) return;
    double *g                    = rig_normal(r, 0, t);
    g[(t * 7) % rig_elems(r, 0)] = bad[t / 3 % 3];
    rig_set_grad(r, 0, g);
    free(g);
}

static void check_counts(rig *a, rig *b)
{
    CHECK_OK(b->dev, musec_optim_poll(b->opt));
    CHECK(musec_optim_steps(a->opt) == musec_optim_steps(b->opt) &&
              musec_optim_skipped(a->opt) == musec_optim_skipped(b->opt),
          "%lld steps and %lld skipped, not %lld and %lld", (long long)musec_optim_steps(b->opt),
          (long long)musec_optim_skipped(b->opt), (long long)musec_optim_steps(a->opt),
          (long long)musec_optim_skipped(a->opt));
    for (size_t p = 0; p < a->n; p++) {
        int64_t x = -1, y = -2;
        CHECK_OK(a->dev, musec_optim_get_steps(a->opt, p, &x));
        CHECK_OK(b->dev, musec_optim_get_steps(b->opt, p, &y));
        CHECK(x == y, "%s: %lld steps, not %lld", model[p].name, (long long)y, (long long)x);
    }
}

/* The device's pow and root may differ from the host's in the last bit of a float64. */
static bool near(rig *a, size_t p, rig *b, double tol)
{
    return rig_same_weight(a, p, b, p) || (tol > 0.0 && rig_apart(a, p, b, p) <= tol);
}

static void check_rule(ms_device *dev, const struct rule *rule, const char *operands,
                       musec_dtype dtype, double tol)
{
    rig skip  = rig_makef(dev, dtype, model, N, 5, rule->name, "nonfinite=skip operands=%s %s",
                          operands, rule->options);
    rig defer = rig_makef(dev, dtype, model, N, 5, rule->name, "nonfinite=defer operands=%s %s",
                          operands, rule->options);
    for (int64_t t = 0; t < 10; t++) {
        set_grads(&skip, t), set_grads(&defer, t);
        rig_go(&skip), rig_go(&defer);
        if (t % 4 == 3) check_counts(&skip, &defer);
    }
    check_counts(&skip, &defer);
    for (size_t p = 0; p < N; p++)
        CHECK(near(&skip, p, &defer, tol), "%s %s, operands %s: %s is apart by %g", rule->name,
              rule->options, operands, model[p].name, rig_apart(&skip, p, &defer, p));
    rig_free(&skip), rig_free(&defer);
}

/* A number of the momentum that differs in the last bit of a float32 may be rounded to the other
 * neighbour in bf16.  With operands of 16 bits the directions have another scale, by other bounds
 * of the momentum, but scales are powers of two: few numbers round differently. */
TEST_EACH_DEVICE(deferred_steps_are_those_that_skip, dev)
{
    const double gpu = dev->kind->batch_variant ? 256.0 * 0x1p-23 : 0.0;
    for (size_t i = 0; i < COUNT(rules); i++) {
        if (strstr(rules[i].options, "momentum-dtype") != NULL && !ms_device_has(dev, MUSEC_BF16))
            continue;
        const bool bf16 = strstr(rules[i].options, "momentum-dtype=bf16") != NULL;
        check_rule(dev, &rules[i], "f32", MUSEC_F32, gpu > 0.0 && bf16 ? 0x1p-8 : gpu);
        if (ms_device_has(dev, MUSEC_F16)) check_rule(dev, &rules[i], "f16", MUSEC_F32, 1e-3);
        if (strstr(rules[i].options, "momentum-dtype") == NULL)
            check_rule(dev, &rules[i], "f32", MUSEC_F64, gpu);
    }
}

/* Gradients grow and shrink by more than a prediction allows.  Bounds of the momentum are the same
 * on the device and on the host, so that directions have the same scale but for a power of two. */
TEST_EACH_DEVICE(predictions_that_fail_are_mended_on_the_device, dev)
{
    static const double      scale[]   = { 1, 1, 900, 900, 1e-3, 1, 1e6, 1e6, 1e-6, 3 };
    static const char *const options[] = { "ns-mode=fast", "ns-mode=fast nesterov=yes",
                                           "ns-mode=paper threshold=rms:1",
                                           "ns-mode=accurate threshold=rms:2 momentum-init=zero" };
    if (!ms_device_has(dev, MUSEC_F16)) SKIP("%s has no f16", dev->name);
    for (size_t i = 0; i < COUNT(options); i++) {
        rig skip  = rig_makef(dev, MUSEC_F32, model, N, 5, "soft-musec",
                              "nonfinite=skip operands=f16 %s", options[i]);
        rig defer = rig_makef(dev, MUSEC_F32, model, N, 5, "soft-musec",
                              "nonfinite=defer operands=f16 %s", options[i]);
        for (int64_t t = 0; t < (int64_t)COUNT(scale); t++) {
            rig *const both[] = { &skip, &defer };
            for (int k = 0; k < 2; k++) {
                rig_set_grads(both[k], t, scale[t]);
                both[k]->without[0] = t == 7;
                rig_go(both[k]);
            }
            for (size_t p = 0; p < N; p++)
                CHECK(near(&skip, p, &defer, 1e-3), "%s, step %lld: %s is apart by %g", options[i],
                      (long long)t, model[p].name, rig_apart(&skip, p, &defer, p));
        }
        check_counts(&skip, &defer);
        rig_free(&skip), rig_free(&defer);
    }
}

/* What scales are predicted from goes along. */
TEST_EACH_DEVICE(deferred_steps_resume_to_the_bit, dev)
{
    if (!ms_device_has(dev, MUSEC_F16)) SKIP("%s has no f16", dev->name);
    rig a = rig_make(dev, "soft-musec", "ns-mode=fast nonfinite=defer operands=f16", MUSEC_F32,
                     model, N, 5);
    rig b = rig_make(dev, "soft-musec", "ns-mode=fast nonfinite=defer operands=f16", MUSEC_F32,
                     model, N, 5);
    const char *path = tmp_path("deferred.safetensors");
    rig_steps(&a, 0, 6);
    CHECK_OK(dev, musec_optim_save(a.opt, path));
    rig_steps(&b, 0, 2);
    CHECK_OK(dev, musec_optim_load(b.opt, path));
    rig_copy_weights(&a, &b);
    rig_steps(&a, 6, 4), rig_steps(&b, 6, 4);
    rig_check_same(&a, &b, "soft-musec", "resumed");
    rig_free(&a), rig_free(&b);
}

/* The workspace comes from step to step, where it is given back in between. */
TEST_EACH_DEVICE(a_workspace_may_be_given_back_between_steps, dev)
{
    rig a = rig_make(dev, "soft-musec", "ns-mode=fast", MUSEC_F32, model, N, 5);
    rig b = rig_make(dev, "soft-musec", "ns-mode=fast", MUSEC_F32, model, N, 5);
    for (int64_t t = 0; t < 4; t++) {
        rig_steps(&a, t, 1);
        CHECK_OK(dev, musec_ctx_trim(dev));
        CHECK(dev->scratch.n_chunks == 0, "%d pieces", dev->scratch.n_chunks);
        rig_steps(&b, t, 1);
        CHECK(dev->scratch.n_chunks == 1, "%d pieces", dev->scratch.n_chunks);
    }
    CHECK(musec_ctx_trim(NULL) == MUSEC_EINVAL, "no context");
    rig_check_same(&a, &b, "soft-musec", "trimmed");
    rig_free(&a), rig_free(&b);
}

TEST_EACH_DEVICE(gradient_scalers_are_followed_without_the_host, dev)
{
    static const float found[] = { 1, 0, 0, 1, 0, 0 },
                       scale[] = { 65536, 32768, 32768, 32768, 16384, 0 };
    for (size_t i = 0; i < COUNT(rules); i++) {
        if (strstr(rules[i].options, "momentum-dtype") != NULL) continue;
        rig   plain = rig_makef(dev, MUSEC_F32, model, N, 5, rules[i].name, "%s", rules[i].options);
        rig   r     = rig_makef(dev, MUSEC_F32, model, N, 5, rules[i].name, "nonfinite=defer %s",
                                rules[i].options);
        void *data  = NULL;
        CHECK_OK(dev, dev->ops->alloc(dev, sizeof found + sizeof scale, &data));
        float *at = data;
        CHECK_OK(dev, dev->ops->upload(dev, found, sizeof found, at));
        CHECK_OK(dev, dev->ops->upload(dev, scale, sizeof scale, at + COUNT(found)));
        for (int64_t t = 0; t < (int64_t)COUNT(found); t++) {
            musec_view      grads[N];
            musec_step_args args;
            CHECK(musec_step_args_init(&args, sizeof args) == MUSEC_OK, "init");
            args.found_inf = at + t, args.grad_scale = at + COUNT(found) + t;
            rig_set_grads(&r, t, scale[t]);
            for (size_t p = 0; p < N; p++)
                grads[p] = r.g[p].view;
            CHECK_OK(dev, musec_optim_step_with(r.opt, grads, N, &args));
            CHECK_OK(dev, musec_ctx_sync(dev));
            if (found[t] == 0.0f && scale[t] > 0.0f) rig_step(&plain, t, 1.0);
        }
        CHECK_OK(dev, musec_optim_poll(r.opt));
        CHECK(musec_optim_steps(r.opt) == 3 && musec_optim_skipped(r.opt) == 3, "%lld and %lld",
              (long long)musec_optim_steps(r.opt), (long long)musec_optim_skipped(r.opt));
        for (size_t p = 0; p < N; p++)
            CHECK(near(&plain, p, &r, dev->kind->batch_variant ? 256.0 * 0x1p-23 : 0.0), "%s: %s",
                  rules[i].name, model[p].name);
        dev->ops->free(dev, data);
        rig_free(&plain), rig_free(&r);
    }
}

TEST_EACH_DEVICE(numbers_of_steps_may_be_set_between_deferred_ones, dev)
{
    rig     r = rig_make(dev, "adamw", "nonfinite=defer", MUSEC_F64, model, N, 5);
    rig     s = rig_make(dev, "adamw", "nonfinite=skip", MUSEC_F64, model, N, 5);
    int64_t n = 0;
    rig_steps(&r, 0, 3), rig_steps(&s, 0, 3);
    CHECK_OK(dev, musec_optim_set_steps(r.opt, 0, 40));
    CHECK_OK(dev, musec_optim_set_steps(s.opt, 0, 40));
    rig_steps(&r, 3, 2), rig_steps(&s, 3, 2);
    check_counts(&s, &r);
    CHECK(musec_optim_get_steps(r.opt, 0, &n) == MUSEC_OK && n == 42, "%lld", (long long)n);
    for (size_t p = 0; p < N; p++)
        CHECK(near(&s, p, &r, dev->kind->batch_variant ? 1e-12 : 0.0), "%s", model[p].name);
    rig_free(&r), rig_free(&s);
}

TEST_EACH_DEVICE(what_needs_the_host_cannot_be_deferred, dev)
{
    static const struct {
        const char *name, *options, *words;
    } cases[] = {
        { "soft-musec", "decay-form=coupled", "coupled" },
        { "soft-musec", "avg-steps=3 avg-epochs=1", "averages" },
        { "muonclip", "", "QK-Clip" },
        { "musec", "ns-mode=exact", "exact" },
        { "soft-musec", "threshold=quantile:0.5", "quantile" },
        { "soft-musec", "ns-mode=accurate", "accurate" },
        { "ademamix", "alpha-warmup=10", "warmup" },
        { "soap", "", "waits" },
        { "spectra", "base=shampoo", "waits" },
        { "dion2", "", "waits" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        musec_optim_config cfg = rig_config(cases[i].name, cases[i].options);
        musec_optim       *opt = NULL;
        cfg.nonfinite          = MUSEC_NONFINITE_DEFER;
        CHECK_FAILS(&dev->error, musec_optim_create(&opt, dev, &cfg), MUSEC_ENOTSUP,
                    cases[i].words);
        CHECK(opt == NULL, "an optimizer");
    }
}

TEST_EACH_DEVICE(whether_a_step_can_be_captured_is_said_with_the_reason, dev)
{
    rig  r = rig_make(dev, "soft-musec", "ns-mode=fast", MUSEC_F32, model, N, 5);
    char why[256];
    rig_steps(&r, 0, 3);
    CHECK(musec_optim_can_capture(r.opt, why, sizeof why) == 0 && why[0] != '\0', "%s", why);
    CHECK(strstr(why, dev->kind->stream != NULL ? "defer" : "no stream") != NULL, "%s", why);
    CHECK(musec_optim_can_capture(NULL, why, sizeof why) == 0 && why[0] != '\0', "%s", why);
    CHECK(musec_optim_can_capture(r.opt, NULL, 0) == 0, "no words wanted");
    CHECK_OK(dev, musec_optim_poll(r.opt));
    CHECK(musec_optim_poll(NULL) == MUSEC_EINVAL, "no optimizer");
    rig_free(&r);
}

#ifdef MS_HAVE_CUDA

#include "device/cuda/cuda.h"
#include "optim/optim.h"

/* Three steps as usual, then five by replaying a graph of one: gradients are copied to their place
 * before each, one of them not finite, and the learning rate is written to the device. */
static void check_replay(const struct rule *rule)
{
    ms_device      *dev = NULL;
    char            why[256];
    cudaStream_t    stream = NULL;
    cudaGraph_t     graph  = NULL;
    cudaGraphExec_t run    = NULL;
    void           *data   = NULL;
    const float    *lr_at[N];
    musec_view      grads[N];
    musec_step_args args;
    if (musec_ctx_create_why(&dev, "cuda", why, sizeof why) != MUSEC_OK) SKIP("%s", why);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "a stream");
    CHECK_OK(dev, musec_ctx_set_stream(dev, stream));
    rig eager  = rig_makef(dev, MUSEC_F32, model, N, 5, rule->name,
                           "nonfinite=defer operands=f16 report-every=0 %s", rule->options);
    rig replay = rig_makef(dev, MUSEC_F32, model, N, 5, rule->name,
                           "nonfinite=defer operands=f16 report-every=0 %s", rule->options);
    CHECK_OK(dev, dev->ops->alloc(dev, sizeof(float), &data));
    CHECK(musec_step_args_init(&args, sizeof args) == MUSEC_OK, "init");
    for (size_t p = 0; p < N; p++)
        lr_at[p] = data;
    args.lr_at = lr_at;
    for (int64_t t = 0; t < 8; t++) {
        const float lr     = 0.01f / (float)(t + 1);
        rig *const  rigs[] = { &eager, &replay };
        CHECK_OK(dev, dev->ops->upload(dev, &lr, sizeof lr, data));
        for (int k = 0; k < 2; k++) {
            rig_set_grads(rigs[k], t, t == 5 ? NAN : 1.0);
            for (size_t p = 0; p < N; p++)
                grads[p] = rigs[k]->g[p].view;
            if (k == 1 && t == 3) {
                CHECK(musec_optim_can_capture(replay.opt, why, sizeof why) == 1, "%s", why);
                CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess,
                      "capture");
                CHECK_OK(dev, musec_optim_step_with(replay.opt, grads, N, &args));
                CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "the end");
                CHECK(cudaGraphInstantiate(&run, graph, 0) == cudaSuccess, "a graph");
            }
            if (k == 1 && t >= 3)
                CHECK(cudaGraphLaunch(run, stream) == cudaSuccess, "launching");
            else
                CHECK_OK(dev, musec_optim_step_with(rigs[k]->opt, grads, N, &args));
            CHECK_OK(dev, musec_ctx_sync(dev));
        }
    }
    rig_check_same(&eager, &replay, rule->name, "replayed");
    CHECK_OK(dev, musec_optim_poll(eager.opt));
    check_counts(&eager, &replay);
    CHECK(cudaGraphExecDestroy(run) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess,
          "destroying");
    dev->ops->free(dev, data);
    rig_free(&eager), rig_free(&replay);
    musec_ctx_destroy(dev);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess, "destroying");
}

TEST(a_graph_of_a_step_is_that_step)
{
    for (size_t i = 0; i < COUNT(rules); i++)
        if (strstr(rules[i].options, "momentum-dtype") == NULL) check_replay(&rules[i]);
}

enum { REPEATS = 14 };

/* Steps of both rigs: of one, the gradient of a parameter lies somewhere else each time, so that
 * each step is queued; of the other all lie where they were, so that steps become graphs, but where
 * a parameter has no gradient, or after the caller has changed state.  One step is not taken. */
static uint64_t check_repeats(ms_device *dev, const struct rule *rule)
{
    static const char *const options = "nonfinite=defer operands=f16 report-every=0 %s";
    rig queued   = rig_makef(dev, MUSEC_F32, model, N, 5, rule->name, options, rule->options);
    rig repeated = rig_makef(dev, MUSEC_F32, model, N, 5, rule->name, options, rule->options);
    rig *const      rigs[]         = { &queued, &repeated };
    void           *place[REPEATS] = { NULL };
    double          lr[N];
    musec_view      grads[N];
    musec_step_args args;
    CHECK(musec_step_args_init(&args, sizeof args) == MUSEC_OK, "init");
    args.lr = lr;
    for (int64_t t = 0; t < REPEATS; t++) {
        for (size_t p = 0; p < N; p++)
            lr[p] = 0.01 / (double)(t + 1 + (int64_t)p);
        for (int k = 0; k < 2; k++) {
            rig_set_grads(rigs[k], t, t == 5 ? NAN : 1.0);
            for (size_t p = 0; p < N; p++)
                grads[p] = rigs[k]->g[p].view;
            if (k == 0) {
                const musec_view from  = grads[0];
                const size_t     bytes = (size_t)(from.rows * from.cols) * sizeof(float);
                CHECK_OK(dev, dev->ops->alloc(dev, bytes, &place[t]));
                grads[0].data = place[t];
                CHECK_OK(dev, dev->ops->copy(dev, ms_mat_of(from), ms_mat_of(grads[0])));
            }
            if (t == 8) grads[2].data = NULL;
            if (t == 10) CHECK_OK(dev, musec_optim_state_changed(rigs[k]->opt, 1));
            CHECK_OK(dev, musec_optim_step_with(rigs[k]->opt, grads, N, &args));
        }
        CHECK_OK(dev, musec_optim_poll(queued.opt));
        check_counts(&queued, &repeated);
    }
    rig_check_same(&queued, &repeated, rule->name, "repeated");
    CHECK(ms_step_graphs_launched(queued.opt) == 0, "%s: gradients moved", rule->name);
    const uint64_t launched = ms_step_graphs_launched(repeated.opt);
    for (int64_t t = 0; t < REPEATS; t++)
        dev->ops->free(dev, place[t]);
    rig_free(&queued), rig_free(&repeated);
    return launched;
}

/* Are the sizes of its updates divided by norms, by default?  Each step sends numbers for that. */
static bool divides_by_norms(const char *optimizer)
{
    return strcmp(optimizer, "adamuon") == 0 || strcmp(optimizer, "muonh") == 0;
}

TEST(steps_that_repeat_become_graphs_of_the_same_bits)
{
    static const struct rule by_norm = { "soft-musec", "ns-mode=fast shape-rule=fixed-rms" };
    ms_device               *dev     = NULL;
    char                     why[256];
    if (musec_ctx_create_why(&dev, "cuda", why, sizeof why) != MUSEC_OK) SKIP("%s", why);
    for (size_t i = 0; i < COUNT(rules); i++) {
        if (strstr(rules[i].options, "momentum-dtype") != NULL) continue;
        const uint64_t launched = check_repeats(dev, &rules[i]);
        CHECK(launched >= 4 || divides_by_norms(rules[i].name), "%s %s: %llu graphs in %d steps",
              rules[i].name, rules[i].options, (unsigned long long)launched, REPEATS);
    }
    CHECK(check_repeats(dev, &by_norm) == 0, "a graph of updates that are divided by norms");
    musec_ctx_destroy(dev);
}

#endif
