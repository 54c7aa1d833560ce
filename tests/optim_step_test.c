/* optim_step_test.c - what a step must not do: move a parameter that has no gradient, change
 * anything when it fails, allocate, use more memory than it announced; and what it reports. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "optim_rig.h"
#include "oracle.h"

static const musec_dtype dtypes[] = { MUSEC_F64, MUSEC_F32 };

static const rig_param model[] = {
    { .name = "a", .rows = 6, .cols = 8, .layout = { .pad = 1 } },
    { .name = "b", .role = MUSEC_ROLE_QK, .rows = 6, .cols = 8 },
    { .name = "c", .role = MUSEC_ROLE_EMBED, .rows = 5, .cols = 4 },
};

/* ---- missing gradients ----------------------------------------------------------------------- */

/* It gets neither decay nor momentum, and what comes later is its first step. */
TEST_EACH_DEVICE(a_parameter_without_gradient_does_not_move, dev)
{
    const char *options = "weight-decay=0.5 aux-weight-decay=0.5 momentum-init=first beta=0.3";
    const char *name;
    for (size_t k = 0; (name = musec_optim_name(k, NULL)) != NULL; k++) {
        rig a     = rig_make(dev, name, options, MUSEC_F32, model, 3, 1);
        rig b     = rig_make(dev, name, options, MUSEC_F32, model, 3, 1);
        rig fresh = rig_make(dev, name, options, MUSEC_F32, model, 1, 1);
        rig_step(&b, 7, 1.0); /* moves b and c of both alike */
        a.without[0] = b.without[0] = true;
        rig_step(&a, 7, 1.0);
        CHECK(rig_unmoved(&a, 0), "%s moved", name);
        CHECK(rig_alike(&a, 1, &b, 1), "%s", name);
        a.without[0] = false;
        rig_steps(&a, 0, 3), rig_steps(&fresh, 0, 3);
        CHECK(rig_alike(&a, 0, &fresh, 0), "%s: a late first step differs", name);
        rig_free(&a), rig_free(&b), rig_free(&fresh);
    }
}

/* ---- not finite ------------------------------------------------------------------------------ */

static void check_untouched(ms_device *dev, const char *name, double bad, bool skip)
{
    const char *options = skip ? "nonfinite=skip weight-decay=0.5 avg-steps=9"
                               : "nonfinite=stop weight-decay=0.5 avg-steps=9";
    rig         a       = rig_make(dev, name, options, MUSEC_F32, model, 3, 4);
    rig         b       = rig_make(dev, name, options, MUSEC_F32, model, 3, 4);
    for (size_t p = 0; p < 3; p++) { /* each parameter in turn, the first before any step */
        double *g               = rig_normal(&a, p, 99);
        g[rig_elems(&a, p) - 1] = bad;
        rig_set_grads(&a, 98, 1.0);
        rig_set_grad(&a, p, g);
        const musec_status st = rig_try(&a, 1.0);
        CHECK(st == (skip ? MUSEC_OK : MUSEC_ENONFINITE), "%s: %s", name, musec_status_name(st));
        CHECK(skip || strstr(musec_ctx_error(dev), model[p].name) != NULL, "%s: %s", name,
              musec_ctx_error(dev));
        CHECK(musec_optim_steps(a.opt) == (int64_t)p, "%s: the step was counted", name);
        CHECK(musec_optim_skipped(a.opt) == (skip ? (int64_t)p + 1 : 0), "%s: %d skipped", name,
              (int)musec_optim_skipped(a.opt));
        rig_check_same(&a, &b, name, "after the refused step");
        rig_step(&a, (int64_t)p, 1.0), rig_step(&b, (int64_t)p, 1.0);
        rig_check_same(&a, &b, name, "after the next step, which depends on the state");
        double *x = rig_state(&a, 1, 0, "average", 48), *y = rig_state(&b, 1, 0, "average", 48);
        CHECK(run_same_bits(x, y, 48), "%s: the average changed", name);
        free(x), free(y), free(g);
    }
    rig_free(&a), rig_free(&b);
}

TEST_EACH_DEVICE(a_gradient_that_is_not_finite_changes_nothing, dev)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t k = 0; musec_optim_name(k, NULL) != NULL; k++)
        for (size_t i = 0; i < COUNT(bad); i++)
            for (int skip = 0; skip < 2; skip++)
                check_untouched(dev, musec_optim_name(k, NULL), bad[i], skip);
}

/* The gradient is finite, but its sum or its square overflows.  An average of such gradients does
 * not. */
TEST_EACH_DEVICE(a_gradient_too_large_for_the_state_changes_nothing, dev)
{
    static const struct {
        const char *name, *options;
        double      size; /* of all entries */
        bool        fits;
    } cases[] = {
        { "sgdm", " momentum-form=heavy-ball", 2.5e38, false },
        { "muon", " momentum-form=heavy-ball nesterov=yes", 2.5e38, false },
        { "spectra", " base=signum momentum-form=heavy-ball", 2.5e38, false },
        { "sgdm", " momentum-form=heavy-ball", 1.6e37, true },
        { "sgdm", " momentum-form=ema", 2.5e38, true },
        { "soft-musec", " momentum-form=heavy-ball", 2.5e38, true }, /* stores it clipped */
        { "soft-musec", " momentum-form=heavy-ball threshold=rms:3", 2.5e38, false },
        { "musec", " momentum-form=heavy-ball threshold=rms:3", 2e37, false },
        { "soft-musec", " momentum-form=heavy-ball threshold=1e38", 3e38, false },
        { "adamw", "", 1e21, false },
        { "adamw", "", 1e19, true },
        { "spectra", " base=ademamix", 2e19, false },
        { "soap", "", 2e15, false },
        { "soap", "", 1e15, true },
        { "shampoo", "", 2e15, false },
        { "shampoo", " precondition-every=1", 1e15, true },
        { "kl-shampoo", "", 1e12, false },
        { "kl-shampoo", "", 4e11, true },
        { "dion2", "", 5e30, false },
        { "dion2", "", 4e30, true },
    };
    static const rig_param one = { .name = "w", .rows = 6, .cols = 8 };
    for (size_t k = 0; k < COUNT(cases); k++) {
        const char *name = cases[k].name, *options = cases[k].options;
        rig    r = rig_makef(dev, MUSEC_F32, &one, 1, 4, name, "beta=0.05 lr=1e-20%s", options);
        double g[48];
        for (int i = 0; i < 48; i++)
            g[i] = i % 3 == 0 ? -cases[k].size : cases[k].size;
        rig_set_grad(&r, 0, g);
        for (int t = 0; t < 100; t++) {
            const musec_status st = rig_try(&r, 1.0);
            CHECK(st == (cases[k].fits ? MUSEC_OK : MUSEC_ENONFINITE), "%s %s: %s", name, options,
                  dev->error.text);
        }
        double *after = rig_weight(&r, 0);
        for (int i = 0; i < 48; i++)
            CHECK(isfinite(after[i]), "%s %s: %g", name, options, after[i]);
        CHECK(cases[k].fits || rig_unmoved(&r, 0), "%s %s: the weight moved", name, options);
        CHECK(cases[k].fits || strstr(dev->error.text, "the gradient of w has an entry of") != NULL,
              "%s", dev->error.text);
        free(after);
        rig_free(&r);
    }
}

TEST_EACH_DEVICE(gradients_of_another_shape_are_refused, dev)
{
    rig r = rig_make(dev, "soft-musec", "", MUSEC_F32, model, 3, 4);
    for (int which = 0; which < 8; which++) {
        musec_view grads[3] = { r.g[0].view, r.g[1].view, r.g[2].view };
        size_t     n        = 3;
        double     scale    = 1.0;
        switch (which) {
        case 0: grads[1].rows--; break;
        case 1: grads[1].cols--; break;
        case 2: grads[1].dtype = MUSEC_F64; break;
        case 3: grads[1].count = 2; break;
        case 4: grads[1].ld = 6; break;
        case 5: n = 2; break;
        case 6: scale = NAN; break;
        default: scale = -1.0; break;
        }
        dev->error.text[0]    = '\0';
        const musec_status st = musec_optim_step(r.opt, grads, n, scale);
        CHECK(st == MUSEC_EINVAL, "change %d: %s", which, musec_status_name(st));
        CHECK(strlen(musec_ctx_error(dev)) > 10, "change %d has no words", which);
        CHECK(which > 4 || strstr(musec_ctx_error(dev), "b") != NULL, "%s", musec_ctx_error(dev));
    }
    CHECK(musec_optim_step(r.opt, NULL, 3, 1.0) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_steps(r.opt) == 0, "a step was counted");
    rig_free(&r);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const musec_block rows_of[] = {
    { .rows = 20, .cols = 30, .row_step = 30, .group_rows = 5, .group_step = 300 },
    { .offset = 150, .rows = 20, .cols = 30, .row_step = 30, .group_rows = 5, .group_step = 300 },
};
static const rig_param sizes[] = {
    { .name = "a", .rows = 24, .cols = 64 },
    { .name = "b", .rows = 24, .cols = 64 },
    { .name = "c", .rows = 65, .cols = 17 },
    { .name = "d", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 40 },
    { .name = "e", .rows = 40, .cols = 30, .blocks = rows_of, .n_blocks = 2 },
    { .name = "f", .rows = 1, .cols = 50 },
    { .name = "g", .rows = 33, .cols = 33, .layout = { .more = 4 } },
};

static const struct memory_case {
    const char *name, *options;
    uint64_t    buffers; /* of state for each matrix */
} memory_cases[] = {
    { "musec", "", 1 },
    { "musec", "threshold=1e6", 1 },
    { "musec", "threshold=1e-6", 1 },
    { "soft-musec", "", 1 },
    { "soft-musec", "literal=yes", 1 },
    { "soft-musec", "nesterov=yes ns-mode=paper7", 1 },
    { "soft-musec", "ns-mode=fast threshold=quantile:0.5", 1 },
    { "soft-musec", "ns-mode=accurate ns-tol=1e-9 threshold=1e-3", 1 },
    { "soft-musec", "ns-mode=exact threshold=rms:1 update-scale=unit", 1 },
    { "soft-musec", "workspace=100000 avg-steps=2", 2 },
    { "soft-musec", "report-every=1", 1 },
    { "musec", "report-every=1 nesterov=yes", 1 },
    { "muon", "decay-form=coupled weight-decay=1", 1 },
    { "muon", "ns-mode=exact", 1 },
    { "muonclip", "ns-coeffs=polar-express", 1 },
    { "spectra", "base=ademamix clip=hard", 3 },
    { "spectra", "base=ademamix function=polar second-moment=elements report-every=1", 4 },
    { "adamuon", "workspace=1", 2 },
    { "muonh", "report-every=1", 1 },
    { "muonh", "workspace=1", 1 },
    { "soft-musec", "ns-mode=fast second-moment=elements decay-form=hyperball", 2 },
    { "sgdm", "decay-form=coupled weight-decay=1", 1 },
    { "sgdm", "decay-form=coupled weight-decay=1 workspace=1", 1 },
    { "sgdm", "report-every=1", 1 },
    { "adamw", "decay-form=coupled weight-decay=1 report-every=2 workspace=1", 2 },
    { "adam", "weight-decay=1", 2 },
    { "signum", "avg-steps=3", 2 },
    { "ademamix", "workspace=1", 3 },
    { "soap", "precondition-every=1", 2 },
    { "soap", "precondition-every=2 workspace=1 report-every=2", 2 },
    { "soap", "precondition-every=1 max-precond-dim=64 decay-form=coupled weight-decay=1", 2 },
    { "spectra", "base=soap precondition-every=1 ns-mode=exact", 2 },
    { "shampoo", "precondition-every=1", 2 },
    { "kl-shampoo", "precondition-every=1", 1 },
    { "dion2", "", 1 },
    { "dion2", "fraction=1 workspace=1 decay-form=coupled weight-decay=1", 1 },
    { "spectra", "base=dion2 ns-mode=exact", 1 },
    { "kl-shampoo", "precondition-every=2 workspace=1 max-precond-dim=64", 1 },
    { "shampoo", "precondition-every=2 workspace=1 graft=none max-precond-dim=64", 2 },
};

/* The operators alone, on matrices so large that one of them takes more bytes than all vectors. */
static const struct {
    const char *name, *options;
    bool        exactly; /* all bytes that are counted are used, except those of vectors */
} map_cases[] = {
    { "soft-musec", "ns-mode=paper ns-iters=1", true }, /* one stage */
    { "soft-musec", "ns-mode=paper ns-iters=4", true }, /* two */
    { "soft-musec", "ns-mode=paper ns-iters=5", true }, /* three */
    { "soft-musec", "ns-mode=paper ns-iters=8", true },
    { "soft-musec", "ns-mode=paper literal=yes", true },
    { "soft-musec", "ns-mode=paper7", true },
    { "soft-musec", "ns-mode=fast", true },
    { "soft-musec", "ns-mode=accurate ns-tol=1e-3", false },
    { "soft-musec", "ns-mode=accurate ns-tol=1e-9 threshold=1e-4", false }, /* by eigenvalues */
    { "soft-musec", "ns-mode=exact", false },
    { "musec", "threshold=1e-4", false },
    { "musec", "threshold=1e-9", false }, /* by singular values */
    { "musec", "ns-mode=fast", true },
    { "soft-musec", "ns-mode=fast sharpness=4", true },
    { "muon", "ns-mode=paper", true },
    { "muon", "ns-mode=exact", false },
};

static ms_mat stack_of(ms_device *dev, musec_dtype dtype, const ms_group *g)
{
    ms_mat x     = { 0 };
    size_t bytes = 0;
    CHECK_OK(dev, ms_mat_layout(dev, dtype, g->count, g->rows, g->cols, &x, &bytes));
    CHECK_OK(dev, dev->ops->alloc(dev, bytes, &x.data));
    return x;
}

static void check_map_bytes(ms_device *dev, size_t at, musec_dtype dtype, musec_dtype operands,
                            int64_t rows, int64_t cols)
{
    const rig_param    param = { .name = "w", .rows = rows, .cols = cols };
    musec_optim_config cfg   = rig_config(map_cases[at].name, map_cases[at].options);
    cfg.operands             = ms_is_16bit(operands) ? (int32_t)operands : MUSEC_F32;
    rig r                    = rig_make_with(dev, &cfg, dtype, &param, 1, 1);
    CHECK_OK(dev, ms_optim_prepare(r.opt));
    const ms_group *g  = &r.opt->groups[0];
    const ms_mat    in = stack_of(dev, dtype, g), out = stack_of(dev, dtype, g);
    const uint64_t  vectors = (uint64_t)(128 + 3 * cfg.ns_iters) * MS_ARENA_ALIGN,
                   said = ms_spectral_bytes(&r.opt->cfg, g, false) + ms_widening_bytes(r.opt, g);
    CHECK_OK(dev, dev->ops->normal(dev, 7, 0.0, 1.0, in));
    dev->scratch.peak = 0;
    CHECK_OK(dev, ms_run_spectral(r.opt, g, ms_stack(ms_unscaled(in), out), ms_const(cfg.threshold),
                                  NULL));
    CHECK(dev->scratch.peak <= said &&
              (!map_cases[at].exactly || dev->scratch.peak + vectors >= said),
          "%s %s, %lld x %lld, %s by %s: said %llu bytes, took %zu", map_cases[at].name,
          map_cases[at].options, (long long)rows, (long long)cols, ms_dtype_name(dtype),
          ms_dtype_name(g->operands), (unsigned long long)said, dev->scratch.peak);
    dev->ops->free(dev, in.data);
    dev->ops->free(dev, out.data);
    rig_free(&r);
}

static musec_status no_product(ms_device *d, const ms_product *p)
{
    (void)d, (void)p;
    return MUSEC_OK;
}

/* Muon's fused triple steps are taken for large matrices alone.  No product is computed: the bytes
 * do not depend on the values, where products take none themselves. */
static void check_large_muon(ms_device *dev)
{
    const ms_device_ops real = dev->table;
    for (size_t i = 0; i < COUNT(map_cases); i++) {
        if (strcmp(map_cases[i].name, "muon") != 0 || !map_cases[i].exactly) continue;
        dev->table.product = no_product;
        check_map_bytes(dev, i, MUSEC_F32, MUSEC_F16, 256, 512);
        check_map_bytes(dev, i, MUSEC_F32, MUSEC_BF16, 256, 512);
        dev->table = real;
    }
}

TEST_EACH_DEVICE(an_operator_uses_the_bytes_that_are_counted, dev)
{
    if (strcmp(dev->name, "cuda") == 0) return; /* its products use scratch of their own */
    if (ms_device_has(dev, MUSEC_F16) && !dev->kind->widens) check_large_muon(dev);
    for (size_t i = 0; i < COUNT(map_cases); i++) {
        const int64_t side = map_cases[i].exactly ? 144 : 48; /* spectra are slow */
        check_map_bytes(dev, i, MUSEC_F32, MUSEC_F32, side, side + 32);
        if (ms_device_has(dev, MUSEC_F16))
            check_map_bytes(dev, i, MUSEC_F32, MUSEC_F16, 2 * side, side);
    }
}

/* Steps some of the parameters in a new context, whose peak is then that of the steps.  Returns the
 * bytes of state. */
static uint64_t check_workspace(const char *device, const struct memory_case *c, musec_dtype dtype,
                                size_t first, size_t n)
{
    uint64_t   workspace = 0, state = 0;
    ms_device *dev = NULL;
    CHECK(musec_ctx_create(&dev, device) == MUSEC_OK, "%s", device);
    rig r = rig_make(dev, c->name, c->options, dtype, sizes + first, n, 1);
    CHECK_OK(dev, musec_optim_workspace(r.opt, &workspace, &state));
    rig_steps(&r, 0, 3);
    CHECK(dev->scratch.peak <= workspace,
          "%s %s, %s over %zu from %s on: said %llu bytes of workspace, used %llu", c->name,
          c->options, dtype == MUSEC_F32 ? "f32" : "f64", n, sizes[first].name,
          (unsigned long long)workspace, (unsigned long long)dev->scratch.peak);
    rig_free(&r);
    musec_ctx_destroy(dev);
    return state;
}

/* Numbers in the factors and bases of all matrices, for bases that keep some: squares of sides, or
 * one number for a side that is too long. */
static uint64_t factor_numbers(const struct memory_case *c)
{
    static const uint64_t sides[][3] = { /* how many matrices of rows x cols */
                                         { 2, 24, 64 },
                                         { 1, 65, 17 },
                                         { 2, 20, 30 },
                                         { 1, 1, 50 },
                                         { 5, 33, 33 }
    };
    const uint64_t most = strstr(c->options, "max-precond-dim=64") != NULL ? 64 : 10000;
    uint64_t       n    = 0;
    if (strstr(c->options, "precondition-every") == NULL) return 0;
    for (size_t i = 0; i < COUNT(sides); i++)
        for (int k = 1; k < 3; k++)
            n += 2 * sides[i][0] * (sides[i][k] > most ? 1 : sides[i][k] * sides[i][k]);
    return n;
}

/* KL-Shampoo's eigenvalues, in float64. */
static uint64_t value_numbers(const struct memory_case *c)
{
    const bool limited = strstr(c->options, "max-precond-dim=64") != NULL;
    if (strcmp(c->name, "kl-shampoo") != 0) return 0;
    return 2 * (24 + 64) + (limited ? 1 : 65) + 17 + 2 * (20 + 30) + 1 + 50 + 5 * (33 + 33);
}

static void check_memory(const char *device, const struct memory_case *c, musec_dtype dtype)
{
    const uint64_t matrices = 24 * 64 * 2 + 65 * 17 + 40 * 30 + 50 + 5 * 33 * 33, vectors = 40;
    const uint64_t averages = strstr(c->options, "avg-steps") != NULL;
    const uint64_t want     = ms_dtype_bytes(dtype) * (c->buffers * matrices + factor_numbers(c) +
                                                   (2 + averages) * vectors) +
                          sizeof(double) * value_numbers(c);
    const uint64_t state = check_workspace(device, c, dtype, 0, COUNT(sizes));
    CHECK(state == want, "%s %s: said %llu bytes of state, not %llu", c->name, c->options,
          (unsigned long long)state, (unsigned long long)want);
    for (size_t p = 0; p < COUNT(sizes); p++)
        check_workspace(device, c, dtype, p, 1);
}

TEST_EACH_DEVICE(a_step_uses_no_more_memory_than_announced, dev)
{
    if (run_is_slow(dev)) return;
    for (size_t c = 0; c < COUNT(memory_cases); c++)
        for (size_t t = 0; t < COUNT(dtypes); t++)
            check_memory(musec_ctx_device(dev), &memory_cases[c], dtypes[t]);
}

static musec_status (*real_alloc)(ms_device *d, size_t bytes, void **out);
static int allocations;

static musec_status counting_alloc(ms_device *d, size_t bytes, void **out)
{
    allocations++;
    return real_alloc(d, bytes, out);
}

TEST_EACH_DEVICE(after_two_steps_nothing_is_allocated, dev)
{
    if (run_is_slow(dev)) return;
    real_alloc       = dev->ops->alloc;
    dev->table.alloc = counting_alloc;
    for (size_t c = 0; c < COUNT(memory_cases); c++) {
        rig r = rig_make(dev, memory_cases[c].name, memory_cases[c].options, MUSEC_F32, sizes,
                         COUNT(sizes), 1);
        rig_steps(&r, 0, 2);
        const int    before  = allocations;
        const size_t scratch = dev->scratch.n_allocs;
        rig_steps(&r, 2, 3);
        CHECK(allocations == before && dev->scratch.n_allocs == scratch, "%s %s: %d allocations",
              memory_cases[c].name, memory_cases[c].options, allocations - before);
        rig_free(&r);
    }
    dev->table.alloc = real_alloc;
}

/* ---- reports --------------------------------------------------------------------------------- */

static double same(double s, const void *arg) { return (void)arg, s; }
static double hard(double s, const void *arg) { return fmin(s, *(const double *)arg); }
static double soft(double s, const void *arg) { return law_soft(s, *(const double *)arg); }
static double polar(double s, const void *arg) { return (void)arg, s > 0.0 ? 1.0 : 0.0; }

static const struct report_case {
    const char *name, *options, *op; /* op: the operator whose path it takes, NULL: none */
    double (*map)(double s, const void *arg);
    double D;      /* 0: there is none */
    double factor; /* of the update: shape rule, and 1 / D for unit */
} report_cases[] = {
    { "musec", "threshold=2", "hard", hard, 2.0, 1.0 },
    { "musec", "threshold=50", "hard", hard, 50.0, 1.0 },
    { "musec", "threshold=2 nesterov=yes beta=0.5", "hard", hard, 2.0, 1.0 }, /* clips twice */
    { "soft-musec", "threshold=2 ns-mode=exact", "soft", soft, 2.0, 1.0 },
    { "soft-musec", "threshold=2 ns-mode=exact update-scale=unit", "soft", soft, 2.0, 0.5 },
    { "soft-musec", "threshold=2 ns-mode=accurate ns-tol=1e-10", NULL, soft, 2.0, 1.0 },
    { "soft-musec", "threshold=2 ns-mode=exact shape-rule=keller", "soft", soft, 2.0, 1.5 },
    { "muon", "ns-mode=exact shape-rule=moonlight", "polar", polar, 0.0, 0.2 * 3.0 },
    { "spectra", "clip=hard threshold=2", "hard", hard, 2.0, 1.0 },
    { "sgdm", "", NULL, same, 0.0, 1.0 },
};

static void check_number(double got, double want, double bound, const char *what,
                         const struct report_case *c)
{
    CHECK(fabs(got - want) <= bound * fabs(want), "%s %s: %s is %.12g, not %.12g", c->name,
          c->options, what, got, want);
}

static const rig_param nine_by_four = { .name = "w", .rows = 9, .cols = 4 };

/* The momentum is the first gradient, whose SVD was chosen.  Exact spectra are accurate to 1e-12,
 * those of ns-tol 1e-10 to a few times that; twelve Lanczos steps in four dimensions find the
 * weight's norm. */
TEST_EACH_DEVICE(reports_agree_with_the_oracle, dev)
{
    for (size_t i = 0; i < COUNT(report_cases); i++) {
        const struct report_case *c = &report_cases[i];
        oracle                    o = oracle_make(9, 4, ORACLE_LINEAR, 4.0, 1.6, i);
        musec_optim_report        got;
        double                    fro = 0.0, sum = 0.0, entropy = 0.0, s1 = 0.0, above = 0.0;
        rig                       r = rig_makef(dev, MUSEC_F64, &nine_by_four, 1, 1, c->name,
                                                "report-every=1 lr=0.1 "
                                                                      "weight-decay=0.3 %s",
                                                c->options);
        rig_set_grad(&r, 0, o.x);
        rig_go(&r);
        for (int64_t l = 0; l < o.k; l++) {
            const double s = c->factor * c->map(o.s[l], &c->D);
            fro            = hypot(fro, s);
            sum += s;
            s1 = fmax(s1, s);
            above += c->D > 0.0 && o.s[l] > c->D ? 0.25 : 0.0;
        }
        for (int64_t l = 0; l < o.k; l++) {
            const double p = c->factor * c->map(o.s[l], &c->D) / sum;
            entropy -= p * log(p);
        }
        CHECK_OK(dev, musec_optim_get_report(r.opt, 0, &got));
        CHECK(strcmp(got.param, "w") == 0 && got.block == 0 && got.rows == 9 && got.cols == 4 &&
                  got.step == 1,
              "%s: %s %d", c->name, got.param, (int)got.step);
        check_number(got.update_norm2, s1, 1e-9, "update_norm2", c);
        check_number(got.update_rms, fro / 6.0, 1e-9, "update_rms", c);
        check_number(got.update_erank, exp(entropy), 1e-9, "update_erank", c);
        check_number(got.update_gain, c->map != same ? 1.0 : 0.0, 1e-9, "update_gain", c);
        check_number(got.threshold, c->D, 1e-15, "threshold", c);
        check_number(got.sigma1_over_d, c->D > 0.0 ? 4.0 / c->D : 0.0, 1e-12, "sigma1_over_d", c);
        check_number(got.share_above, above, 1e-15, "share_above", c);
        double *w = rig_weight(&r, 0);
        check_number(got.weight_norm2, oracle_norm2(w, MUSEC_F64, 9, 4), 1e-6, "weight_norm2", c);
        if (c->op != NULL) {
            const musec_clip_config cfg = run_config(c->op, c->D > 0.0 ? c->D : 1.0);
            musec_clip_report       clip;
            free(run_clip(dev, &cfg, MUSEC_F64, o.x, 9, 4, &clip));
            CHECK(strcmp(got.path, clip.path) == 0, "%s: path %s, not %s", c->name, got.path,
                  clip.path);
        }
        free(w);
        rig_free(&r);
        oracle_free(&o);
    }
}

/* K steps fall short of the exact clip by a known scalar map of each singular value. */
TEST_EACH_DEVICE(the_reported_gain_is_that_of_the_steps_taken, dev)
{
    for (int iters = 1; iters <= 9; iters += 2) {
        oracle             o   = oracle_make(9, 4, ORACLE_LINEAR, 4.0, 0.1, 3);
        const law_ssc      law = { 0.5, law_alpha_fro(o.s, o.k, 0.5), iters };
        musec_optim_report got;
        double             took = 0.0, exact = 0.0;
        rig                r = rig_makef(dev, MUSEC_F64, &nine_by_four, 1, 1, "soft-musec",
                                         "report-every=1 threshold=0.5 ns-iters=%d", iters);
        rig_set_grad(&r, 0, o.x);
        rig_go(&r);
        for (int64_t l = 0; l < o.k; l++) {
            took  = hypot(took, law_ssc_of(o.s[l], &law));
            exact = hypot(exact, law_soft(o.s[l], 0.5));
        }
        CHECK_OK(dev, musec_optim_get_report(r.opt, 0, &got));
        CHECK(fabs(got.update_gain - took / exact) <= 1e-9, "%d steps: gain %.12g, not %.12g",
              iters, got.update_gain, took / exact);
        rig_free(&r);
        oracle_free(&o);
    }
}

/* All matrices except those of element roles are measured, at steps that are multiples of the
 * interval. */
TEST_EACH_DEVICE(reports_come_at_their_interval, dev)
{
    static const int   want[7] = { 1, 1, 1, 0, 2, 1, 5 }; /* reports of each parameter */
    rig                r = rig_make(dev, "soft-musec", "report-every=3", MUSEC_F32, sizes, 7, 1);
    musec_optim_report report;
    for (int64_t step = 1; step <= 4; step++) {
        int seen[7] = { 0 };
        rig_step(&r, step, 1.0);
        for (size_t i = 0; i < 12; i++) {
            const musec_status st = musec_optim_get_report(r.opt, i, &report);
            CHECK(st == (i < 11 ? MUSEC_OK : MUSEC_EINVAL), "report %zu: %s", i,
                  musec_status_name(st));
            if (i == 11) break;
            seen[report.param[0] - 'a']++;
            CHECK(report.step == (step < 3 ? 0 : 3), "step %d: report of step %d", (int)step,
                  (int)report.step);
        }
        for (int p = 0; p < 7; p++)
            CHECK(seen[p] == want[p], "%c has %d reports", 'a' + p, seen[p]);
    }
    CHECK(musec_optim_get_report(NULL, 0, &report) == MUSEC_EINVAL, "NULL");
    rig_free(&r);
}

static bool is_broken; /* else the decomposition does not converge */

static musec_status failing_svd(ms_device *d, ms_mat x, ms_mat u, ms_mat s, ms_mat vt)
{
    (void)x, (void)u, (void)s, (void)vt;
    d->n_failures += is_broken;
    return ms_fail(&d->error, MUSEC_EDEVICE, "svd fails");
}

/* A device that fails is an error; numbers that cannot be known are NaN. */
TEST_EACH_DEVICE(a_report_fails_where_the_device_does, dev)
{
    const ms_device_ops real = dev->table;
    for (int broken = 0; broken < 2; broken++) {
        musec_optim_report got;
        rig r     = rig_make(dev, "soft-musec", "report-every=1", MUSEC_F64, &nine_by_four, 1, 1);
        is_broken = broken != 0;
        dev->table.svd = failing_svd;
        rig_step(&r, 1, 1.0);
        dev->table.svd        = real.svd;
        const musec_status st = musec_optim_get_report(r.opt, 0, &got);
        CHECK(st == (broken ? MUSEC_EDEVICE : MUSEC_OK), "%s", musec_status_name(st));
        CHECK(broken || isnan(got.update_norm2), "%g", got.update_norm2);
        rig_step(&r, 2, 1.0);
        CHECK_OK(dev, musec_optim_get_report(r.opt, 0, &got));
        CHECK(got.step == 2 && isfinite(got.update_norm2), "%g", got.update_norm2);
        rig_free(&r);
    }
}
