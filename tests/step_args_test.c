/* step_args_test.c - what a step is told besides its gradients: rates of each parameter, numbers on
 * the device, gradients of another dtype; weights that move, and state that the caller writes. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim_rig.h"

enum { A, B, V, N }; /* A and B are of one shape, and go through the optimizer as one stack */

static const rig_param model[N] = {
    { .name = "a", .role = MUSEC_ROLE_QK, .rows = 24, .cols = 40 },
    { .name = "b", .role = MUSEC_ROLE_MLP, .rows = 24, .cols = 40, .lr_factor = 2.0 },
    { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9 },
};

static musec_step_args args_of(void)
{
    musec_step_args args;
    CHECK(musec_step_args_init(&args, sizeof args) == MUSEC_OK, "init");
    return args;
}

static musec_status step_with(rig *r, const musec_step_args *args)
{
    musec_view grads[RIG_MAX];
    for (size_t p = 0; p < r->n; p++)
        grads[p] = r->g[p].view;
    return musec_optim_step_with(r->opt, grads, r->n, args);
}

/* Floats in device memory. */
static float *floats_of(ms_device *dev, const float *host, size_t n)
{
    void *p = NULL;
    CHECK_OK(dev, dev->ops->alloc(dev, n * sizeof *host, &p));
    CHECK_OK(dev, dev->ops->upload(dev, host, n * sizeof *host, p));
    return p;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* By arrays, or where the learning rates lie on the device: as optimizers of each parameter. */
static void check_rates(ms_device *dev, const char *name, const char *form, bool on_device,
                        musec_dtype dtype)
{
    static const char *const alone[N] = {
        "lr=0.125 weight-decay=0.25 beta=0.125",
        "lr=0.03125 weight-decay=0.75 beta=0.0625",
        "aux-lr=0.015625 aux-weight-decay=0.5",
    };
    const float  lr32[N] = { 0.125f, 0.03125f, 0.015625f };
    const double lr[N] = { 0.125, 0.03125, 0.015625 }, decay[N] = { MUSEC_UNSET, 0.75, 0.5 },
                 beta[N] = { MUSEC_UNSET, 0.0625, MUSEC_UNSET };
    float       *at      = floats_of(dev, lr32, N);
    const float *lr_at[] = { NULL, at + 1, at + 2 };
    rig together = rig_makef(dev, dtype, model, N, 5, name, "decay-form=%s %s", form, alone[A]);
    musec_step_args args = args_of();
    args.lr = on_device ? NULL : lr, args.lr_at = on_device ? lr_at : NULL;
    args.weight_decay = decay, args.beta = beta;
    for (int64_t t = 0; t < 4; t++) {
        rig_set_grads(&together, t, 1.0);
        args.lr_scale = t == 2 ? 0.5 : 1.0;
        CHECK_OK(dev, step_with(&together, &args));
    }
    for (size_t p = 0; p < N; p++) {
        rig own = rig_makef(dev, dtype, &model[p], 1, 5, name, "decay-form=%s %s", form, alone[p]);
        for (int64_t t = 0; t < 4; t++) {
            rig_set_grads(&own, t, 1.0);
            CHECK_OK(dev, rig_try(&own, t == 2 ? 0.5 : 1.0));
        }
        /* on the device the rate is a product in another order, so that a weight of about 1, which
         * moves by 1e-4 or more, differs by some 2^-52 in each step */
        CHECK(on_device ? rig_apart(&together, p, &own, 0) <= 1e-10
                        : rig_alike(&together, p, &own, 0),
              "%s, decay-form %s, %s: %s differs", name, form, ms_dtype_name(dtype), model[p].name);
        rig_free(&own);
    }
    rig_free(&together);
    dev->ops->free(dev, at);
}

TEST_EACH_DEVICE(rates_of_each_parameter_are_those_of_separate_optimizers, dev)
{
    const char *name;
    for (size_t i = 0; (name = musec_optim_name(i, NULL)) != NULL; i++)
        for (size_t k = 0; rig_decay_forms[k] != NULL; k++)
            EACH_DTYPE_OF(dev, dtype, MUSEC_F64)
            {
                check_rates(dev, name, rig_decay_forms[k], false, dtype);
                if (dtype == MUSEC_F64) check_rates(dev, name, rig_decay_forms[k], true, dtype);
            }
}

TEST_EACH_DEVICE(rates_on_the_device_meet_what_else_divides_a_step, dev)
{
    static const char *const more[] = { "shape-rule=fixed-rms", "update-scale=unit threshold=0.3",
                                        "update-scale=unit threshold=rms:1", "shape-rule=keller" };
    const float              lr32   = 0.125f;
    for (size_t k = 0; k < COUNT(more); k++) {
        float       *at      = floats_of(dev, &lr32, 1);
        const float *lr_at[] = { at, at };
        rig host = rig_makef(dev, MUSEC_F64, model, 2, 5, "soft-musec", "lr=0.125 %s", more[k]);
        rig here = rig_makef(dev, MUSEC_F64, model, 2, 5, "soft-musec", "lr=9 %s", more[k]);
        musec_step_args args = args_of();
        args.lr_at           = lr_at;
        for (int64_t t = 0; t < 3; t++) {
            rig_step(&host, t, 1.0);
            rig_set_grads(&here, t, 1.0);
            CHECK_OK(dev, step_with(&here, &args));
        }
        for (size_t p = 0; p < 2; p++) /* a few roundings of the rate in each of three steps */
            CHECK(rig_apart(&here, p, &host, p) <= 32.0 * ms_dtype_eps(MUSEC_F64), "%s: %g",
                  more[k], rig_apart(&here, p, &host, p));
        rig_free(&host), rig_free(&here);
        dev->ops->free(dev, at);
    }
}

TEST_EACH_DEVICE(arguments_outside_their_range_are_refused, dev)
{
    rig             r   = rig_make(dev, "soft-musec", "", MUSEC_F64, model, N, 5);
    const double    bad = NAN, low[N] = { -2.0, 0.1, 0.1 }, high[N] = { 0.1, 1.5, 0.1 };
    musec_step_args args = args_of();
    rig_set_grads(&r, 0, 1.0);
    CHECK(musec_step_args_init(NULL, sizeof args) == MUSEC_EINVAL, "nowhere");
    CHECK(musec_step_args_init(&args, 8) == MUSEC_EINVAL, "too small");
    args.lr = low;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_EINVAL, "lr of a is -2");
    args.lr = NULL, args.weight_decay = low;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_EINVAL, "weight_decay of a is -2");
    args.weight_decay = NULL, args.beta = high;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_EINVAL, "beta of b is 1.5");
    args.beta = NULL, args.lr_scale = bad;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_EINVAL, "lr_scale");
    args = args_of(), args.reserved = 1;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_ENOTSUP, "does not have");
    args = args_of(), args.size = 8;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_EINVAL, "musec_step_args_init");
    for (size_t p = 0; p < N; p++)
        CHECK(rig_unmoved(&r, p), "%s moved", model[p].name);
    CHECK(musec_optim_steps(r.opt) == 0, "a step was counted");
    rig plain = rig_make(dev, "soft-musec", "", MUSEC_F64, model, N, 5);
    rig_step(&plain, 0, 1.0);
    CHECK_OK(dev, step_with(&r, NULL));
    rig_check_same(&plain, &r, "soft-musec", "no arguments");
    rig_free(&r), rig_free(&plain);
}

/* ---- grad_scale, found_inf ------------------------------------------------------------------- */

/* Powers of two change no digit: gradients times the scale give the bits of those without it. */
TEST_EACH_DEVICE(gradients_are_divided_by_their_scale, dev)
{
    static const char *const names[]    = { "soft-musec", "musec", "muon", "adamw", "spectra" };
    static const char *const operands[] = { "f32", "f16" };
    const float              scale[]    = { 65536.0f, 65536.0f, 32768.0f, 32768.0f };
    for (size_t i = 0; i < COUNT(names) * COUNT(operands); i++) {
        const char *name = names[i / 2], *by = operands[i % 2];
        if (i % 2 == 1 && !ms_device_has(dev, MUSEC_F16)) continue;
        float *at     = floats_of(dev, scale, COUNT(scale));
        rig    plain  = rig_makef(dev, MUSEC_F32, model, N, 5, name, "operands=%s", by);
        rig    scaled = rig_makef(dev, MUSEC_F32, model, N, 5, name, "operands=%s", by);
        for (int64_t t = 0; t < (int64_t)COUNT(scale); t++) {
            musec_step_args args = args_of();
            rig_step(&plain, t, 1.0);
            rig_set_grads(&scaled, t, scale[t]);
            args.grad_scale = at + t;
            CHECK_OK(dev, step_with(&scaled, &args));
        }
        rig_check_same(&plain, &scaled, name, by);
        rig_free(&plain), rig_free(&scaled);
        dev->ops->free(dev, at);
    }
}

TEST_EACH_DEVICE(a_step_that_found_inf_touches_nothing, dev)
{
    const float host[] = { 1.0f, 0.0f, NAN };
    float      *at     = floats_of(dev, host, COUNT(host));
    for (int stop = 0; stop < 2; stop++) {
        const char     *policy = stop ? "nonfinite=stop" : "nonfinite=skip";
        rig             plain  = rig_make(dev, "soft-musec", policy, MUSEC_F64, model, N, 5);
        rig             r      = rig_make(dev, "soft-musec", policy, MUSEC_F64, model, N, 5);
        musec_step_args args   = args_of();
        rig_steps(&plain, 0, 2);
        for (int64_t t = 0; t < 2; t++) {
            rig_set_grads(&r, t, 1.0);
            args.found_inf = at; /* skips */
            CHECK_OK(dev, step_with(&r, &args));
            CHECK(musec_optim_steps(r.opt) == t && musec_optim_skipped(r.opt) == 2 * t + 1, "%lld",
                  (long long)musec_optim_skipped(r.opt));
            args.found_inf = at + 2; /* not a number, and not 0 */
            CHECK_OK(dev, step_with(&r, &args));
            args.found_inf = at + 1;
            CHECK_OK(dev, step_with(&r, &args));
        }
        rig_check_same(&plain, &r, "soft-musec", policy);
        rig_free(&plain), rig_free(&r);
    }
    rig             r    = rig_make(dev, "muon", "", MUSEC_F64, model, N, 5);
    musec_step_args args = args_of();
    rig_set_grads(&r, 0, 1.0);
    args.grad_scale = at + 1;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_EINVAL, "grad_scale is 0");
    args.grad_scale = at + 2;
    CHECK_FAILS(&dev->error, step_with(&r, &args), MUSEC_EINVAL, "grad_scale is");
    for (size_t p = 0; p < N; p++)
        CHECK(rig_unmoved(&r, p), "%s moved", model[p].name);
    rig_free(&r);
    dev->ops->free(dev, at);
}

/* ---- gradients of another dtype -------------------------------------------------------------- */

static const musec_dtype others[] = { MUSEC_BF16, MUSEC_F16, MUSEC_F32 };

/* Gradients that 16 bits hold exactly are the same gradients in any dtype. */
TEST_EACH_DEVICE(gradients_may_have_another_dtype, dev)
{
    static const char *const names[] = { "soft-musec", "muon", "adamw", "spectra" };
    if (!ms_device_has(dev, MUSEC_BF16)) SKIP_DEVICE("it has no 16-bit numbers");
    for (size_t i = 0; i < COUNT(names); i++) {
        rig plain = rig_make(dev, names[i], "", MUSEC_F32, model, N, 5);
        rig r     = rig_make(dev, names[i], "", MUSEC_F32, model, N, 5);
        for (int64_t t = 0; t < 4; t++) {
            run_stack  g[N];
            musec_view views[N];
            for (size_t p = 0; p < N; p++) { /* from step to step, and side by side */
                double *x = rig_normal(&r, p, t);
                for (int64_t e = 0; e < rig_elems(&r, p); e++)
                    x[e] = round(16.0 * x[e]) / 16.0; /* at most 7 bits: |x| < 8 */
                rig_set_grad(&plain, p, x);
                g[p]     = run_stack_make(dev, others[((size_t)t + p) % 3], model[p].rows,
                                          model[p].cols, (run_layout){ 0 }, x, 0.0);
                views[p] = g[p].view;
                free(x);
            }
            rig_go(&plain);
            CHECK_OK(dev, musec_optim_step(r.opt, views, N, 1.0));
            CHECK_OK(dev, musec_ctx_sync(dev));
            for (size_t p = 0; p < N; p++)
                run_stack_free(dev, &g[p]);
        }
        for (size_t p = 0; p < N; p++)
            CHECK(rig_alike(&plain, p, &r, p), "%s: %s", names[i], model[p].name);
        rig_free(&plain), rig_free(&r);
    }
}

TEST_EACH_DEVICE(gradients_of_f64_go_with_f64_alone, dev)
{
    rig        r  = rig_make(dev, "muon", "", MUSEC_F32, model, 1, 5);
    run_stack  g  = run_stack_make(dev, MUSEC_F64, 24, 40, (run_layout){ 0 }, NULL, 1.0);
    musec_view as = g.view;
    CHECK_FAILS(&dev->error, musec_optim_step(r.opt, &as, 1, 1.0), MUSEC_EINVAL, "f64");
    as.dtype = (musec_dtype)77;
    CHECK_FAILS(&dev->error, musec_optim_step(r.opt, &as, 1, 1.0), MUSEC_EINVAL, "unknown");
    run_stack_free(dev, &g);
    rig_free(&r);
}
