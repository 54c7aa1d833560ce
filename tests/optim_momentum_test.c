/* optim_momentum_test.c - momentum that is stored in bf16 with stochastic rounding.
 *
 * The rounding must be unbiased: over all possible draws the mean is the number itself.  An
 * optimizer with such momentum is compared with one that stores float32, and with itself where it
 * is resumed or has less workspace. */
#define _XOPEN_SOURCE 700
#include "check.h"
#include "scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "core/stochastic_round.h"
#include "optim/optim.h"
#include "optim_rig.h"

/* The optimizers that store a momentum: index 0, 1, ... until NULL. */
static const char *name_at(size_t index)
{
    const ms_optimizer *row;
    for (size_t i = 0; (row = ms_optimizer_at(i)) != NULL; i++) {
        const ms_base *base = ms_base_find(row->base == NULL ? MS_DEFAULT_BASE : row->base);
        if (strcmp(base->states[0], "momentum") == 0 && index-- == 0) return row->name;
    }
    return NULL;
}

static const rig_param params[] = {
    { .name = "a", .rows = 12, .cols = 20 },
    { .name = "b", .rows = 12, .cols = 20, .layout = { .pad = 3 } },
    { .name = "experts", .role = MUSEC_ROLE_MLP, .rows = 6, .cols = 8, .layout = { .more = 2 } },
    { .name = "head", .role = MUSEC_ROLE_HEAD, .rows = 12, .cols = 20 },
};

/* ---- one number ------------------------------------------------------------------------------ */

static float stochastically_rounded(float x, uint32_t draw)
{
    return ms_float_of_bf16(ms_bf16_stochastic_round(ms_bits_of_float(x), draw));
}

TEST(stochastic_rounding_is_unbiased)
{
    static const float values[] = { 1.0f,   1.001f,    -3.14159f, 1e-3f,   -7e-20f,
                                    1e-40f, -0.99999f, 65504.0f,  3.3e38f, 0.0f };
    for (size_t v = 0; v < COUNT(values); v++) {
        const float x   = values[v];
        double      sum = 0.0;
        float       low = stochastically_rounded(x, 0), high = low;
        for (uint32_t draw = 0; draw < 65536; draw++) {
            const float y = stochastically_rounded(x, draw);
            CHECK(draw == 0 || fabsf(y) >= fabsf(high), "%g: a larger draw goes down", (double)x);
            high = y;
            sum += y;
        }
        CHECK(fabsf(low) <= fabsf(x) && (high == low || fabsf(high) > fabsf(x)), "%g: %g and %g",
              (double)x, (double)low, (double)high);
        /* the sum of 65536 numbers of 8 bits, each one of two neighbours, is exact */
        CHECK(sum / 65536.0 == (double)x, "%g: the mean is %.17g", (double)x, sum / 65536.0);
    }
}

TEST(stochastic_rounding_keeps_infinities_and_nans)
{
    for (uint32_t draw = 0; draw < 65536; draw += 4369) { /* 0 and 65535 among them */
        CHECK(stochastically_rounded(INFINITY, draw) == INFINITY &&
                  stochastically_rounded(-INFINITY, draw) == -INFINITY,
              "infinity with %u", draw);
        CHECK(isnan(stochastically_rounded(ms_float_of_bits(0x7f800001u), draw)) &&
                  isnan(stochastically_rounded(NAN, draw)),
              "NaN with %u", draw);
        CHECK(stochastically_rounded(3.4028235e38f, draw) == 0x1.fep127f, "the largest with %u: %g",
              draw, (double)stochastically_rounded(3.4028235e38f, draw));
    }
}

TEST(draws_of_16_bits_are_halves_of_philox_words)
{
    const uint32_t key[2] = { 0x89abcdef, 0x01234567 };
    for (uint32_t i = 0; i < 16; i++) {
        const uint64_t at         = ((uint64_t)5 << 34) + i; /* of block (5 << 31) + i / 8 */
        const uint32_t counter[4] = { 0x80000000u + i / 8, 2, 3, 0 };
        const ms_rand4 b          = ms_philox(counter, key);
        const uint32_t word       = b.v[i % 8 / 2];
        CHECK(ms_rand_u16(0x0123456789abcdefu, at) == (i % 2 == 0 ? word & 0xffffu : word >> 16),
              "draw %u", i);
    }
}

/* ---- an optimizer ---------------------------------------------------------------------------- */

#define OPTIONS "lr=0.1 beta=0.3 beta1=0.5 beta2=0.6"

static rig make(ms_device *dev, const char *name, const char *options)
{
    return rig_makef(dev, MUSEC_F32, params, COUNT(params), 11, name,
                     "momentum-dtype=bf16 " OPTIONS " %s", options);
}

static double *momentum(rig *r, size_t p, int64_t block)
{
    return rig_state(r, p, block, "momentum", params[p].rows * params[p].cols);
}

/* The step is taken from the momentum before it is rounded, and what is stored lies within the
 * spacing of bf16, 2^-7 of it at most. */
TEST_EACH_DEVICE(only_the_stored_momentum_is_rounded, dev)
{
    const char *name;
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    for (size_t k = 0; (name = name_at(k)) != NULL; k++) {
        rig own     = rig_make(dev, name, OPTIONS, MUSEC_F32, params, COUNT(params), 11);
        rig rounded = make(dev, name, "");
        rig_step(&own, 0, 1.0), rig_step(&rounded, 0, 1.0);
        rig_check_same(&own, &rounded, name, "step 0");
        double *m = momentum(&own, 0, 0), *near = momentum(&rounded, 0, 0);
        int64_t moved = 0;
        for (int64_t i = 0; i < 240; i++) {
            moved += near[i] != m[i];
            CHECK(fabs(near[i] - m[i]) <= 0x1p-7 * fabs(m[i]) &&
                      near[i] == (double)ms_float_of_bf16(ms_bf16_of_double(near[i])),
                  "%s: %g for %g", name, near[i], m[i]);
        }
        CHECK(moved > 200, "%s: %lld of 240 were rounded", name, (long long)moved);
        free(m), free(near);
        rig_free(&own), rig_free(&rounded);
    }
}

TEST_EACH_DEVICE(resuming_and_small_workspaces_change_no_bits, dev)
{
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    const char *path = tmp_path("rounded.safetensors"), *name;
    for (size_t k = 0; (name = name_at(k)) != NULL; k++) {
        if (!check_takes_case()) continue;
        rig through = make(dev, name, ""), before = make(dev, name, "");
        rig after = make(dev, name, ""), narrow = make(dev, name, "workspace=1");
        rig other = make(dev, name, "seed=1");
        rig_steps(&through, 0, 6), rig_steps(&narrow, 0, 6), rig_steps(&before, 0, 3);
        rig_steps(&other, 0, 6);
        CHECK_OK(dev, musec_optim_save(before.opt, path));
        CHECK_OK(dev, musec_optim_load(after.opt, path));
        rig_copy_weights(&before, &after);
        rig_steps(&after, 3, 3);
        rig_check_same(&through, &after, name, "resumed");
        if (!dev->kind->batch_variant) rig_check_same(&through, &narrow, name, "workspace=1");
        double *m = momentum(&through, 0, 0), *others = momentum(&other, 0, 0);
        CHECK(!run_same_bits(m, others, 240), "%s: the seed changes nothing", name);
        if (ms_optimizer_find(name)->family != MS_FAMILY_SIGN_LIKE) /* few signs hang on rounding */
            CHECK(!rig_same_weight(&through, 0, &other, 0), "%s: the seed changes no weight", name);
        free(m), free(others);
        rig_free(&through), rig_free(&before), rig_free(&after), rig_free(&narrow);
        rig_free(&other);
    }
}

/* The momentum goes from 1 towards 1.002, but the next number of bf16 is 1.0078: rounded to nearest
 * it would stay at 1.  Rounded stochastically, its mean after n steps is 1 + .002 (1 - .99^n).  The
 * standard deviation of an entry is below half of the spacing; six of the mean's are allowed. */
TEST_EACH_DEVICE(changes_below_the_spacing_of_bf16_add_up, dev)
{
    const int steps = 300;
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    rig    r = rig_make(dev, "sgdm", "momentum-dtype=bf16 lr=0.1 beta=0.01", MUSEC_F32, params,
                        COUNT(params), 11);
    double g[240], mean = 0.0;
    for (int step = 0; step < steps + 1; step++) {
        for (size_t i = 0; i < COUNT(g); i++)
            g[i] = step == 0 ? 1.0 : 1.002;
        for (size_t p = 0; p < COUNT(params); p++)
            rig_set_grad(&r, p, g);
        rig_go(&r);
    }
    for (size_t p = 0; p < 2; p++) {
        double *m = momentum(&r, p, 0);
        for (size_t i = 0; i < COUNT(g); i++)
            mean += m[i] / 480.0;
        free(m);
    }
    const double want = 1.0 + 0.002 * (1.0 - pow(0.99, steps));
    CHECK(fabs(mean - want) <= 6.0 * 0.0039 / sqrt(480.0), "the mean is %.6f, not %.6f", mean,
          want);
    rig_free(&r);
}

TEST_EACH_DEVICE(bf16_momentum_takes_half_the_memory, dev)
{
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    static const struct {
        const char *options;
        musec_dtype dtype;
        uint64_t    bytes; /* of each of 480 numbers */
    } cases[] = { { "", MUSEC_F32, 4 },
                  { "momentum-dtype=bf16", MUSEC_F32, 2 },
                  { "momentum-dtype=bf16", MUSEC_F64, 8 } }; /* weights of f64 are not rounded */
    for (size_t i = 0; i < COUNT(cases); i++) {
        rig      r = rig_make(dev, "muon", cases[i].options, cases[i].dtype, params, 2, 1);
        uint64_t state;
        CHECK_OK(dev, musec_optim_workspace(r.opt, NULL, &state));
        CHECK(state == 480 * cases[i].bytes, "case %zu: %d bytes", i, (int)state);
        rig_free(&r);
    }
}

TEST(bf16_momentum_is_refused_where_there_is_none)
{
    const musec_optim_config adamw = rig_config("adamw", "momentum-dtype=bf16 operands=auto"),
                             muon  = rig_config("muon", "momentum-dtype=bf16 operands=auto");
    musec_ctx     *ctx             = check_open("cpu");
    musec_optim   *opt             = NULL;
    ms_device_kind lacking;
    check_take_16bit(ctx, &lacking);
    CHECK_FAILS(&ctx->error, musec_optim_create(&opt, ctx, &adamw), MUSEC_EINVAL,
                "adamw keeps no momentum");
    CHECK_FAILS(&ctx->error, musec_optim_create(&opt, ctx, &muon), MUSEC_ENOTSUP,
                "the device cpu has no numbers in bf16");
    musec_ctx_destroy(ctx);
}
