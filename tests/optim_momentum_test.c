/* optim_momentum_test.c - momentum that is stored in bf16 with stochastic rounding.
 *
 * The rounding is held to what makes it right on average: over all draws there are, the number that
 * go up is the distance from below.  An optimizer with such momentum is held to the one without,
 * and to itself where it is resumed or has a smaller workspace. */
#define _XOPEN_SOURCE 700
#include "check.h"
#include "scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "core/stochastic_round.h"
#include "optim_rig.h"

static const char *const kept[] = { "soft-musec", "musec", "muon", "spectra", "sgdm", "signum" };

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
        /* exactly: a sum of 65536 numbers that have 8 bits each, of two neighbours */
        CHECK(sum / 65536.0 == (double)x, "%g: the mean is %.17g", (double)x, sum / 65536.0);
    }
}

TEST(infinities_and_nans_are_kept)
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

TEST(draws_are_halves_of_blocks)
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

static rig make(ms_device *dev, const char *name, const char *options)
{
    char text[256];
    snprintf(text, sizeof text, "momentum-dtype=bf16 lr=0.1 beta=0.3 %s", options);
    return rig_make(dev, name, text, MUSEC_F32, params, COUNT(params), 11);
}

static double *momentum(rig *r, size_t p, int64_t block)
{
    return rig_state(r, p, block, "momentum", params[p].rows * params[p].cols);
}

/* The step is taken from the momentum before it is rounded, and what is stored lies within the
 * spacing of bf16, 2^-7 of it at most. */
TEST_EACH_DEVICE(only_the_stored_momentum_is_rounded, dev)
{
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    for (size_t k = 0; k < COUNT(kept); k++) {
        rig own = rig_make(dev, kept[k], "lr=0.1 beta=0.3", MUSEC_F32, params, COUNT(params), 11);
        rig rounded = make(dev, kept[k], "");
        rig_step(&own, 0, 1.0), rig_step(&rounded, 0, 1.0);
        for (size_t p = 0; p < COUNT(params); p++)
            CHECK(rig_same_weight(&own, p, &rounded, p), "%s: %s", kept[k], params[p].name);
        double *m = momentum(&own, 0, 0), *near = momentum(&rounded, 0, 0);
        int64_t moved = 0;
        for (int64_t i = 0; i < 240; i++) {
            moved += near[i] != m[i];
            CHECK(fabs(near[i] - m[i]) <= 0x1p-7 * fabs(m[i]) &&
                      near[i] == (double)ms_float_of_bf16(ms_bf16_of_double(near[i])),
                  "%s: %g for %g", kept[k], near[i], m[i]);
        }
        CHECK(moved > 200, "%s: %lld of 240 were rounded", kept[k], (long long)moved);
        free(m), free(near);
        rig_free(&own), rig_free(&rounded);
    }
}

TEST_EACH_DEVICE(resuming_and_chunks_change_nothing, dev)
{
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    const char *path = tmp_path("rounded.safetensors");
    for (size_t k = 0; k < COUNT(kept); k++) {
        if (!check_takes_case()) continue;
        rig through = make(dev, kept[k], ""), before = make(dev, kept[k], "");
        rig after = make(dev, kept[k], ""), narrow = make(dev, kept[k], "workspace=1");
        rig other = make(dev, kept[k], "seed=1");
        rig_steps(&through, 0, 6), rig_steps(&narrow, 0, 6), rig_steps(&before, 0, 3);
        rig_steps(&other, 0, 6);
        CHECK_OK(dev, musec_optim_save(before.opt, path));
        CHECK_OK(dev, musec_optim_load(after.opt, path));
        for (size_t p = 0; p < COUNT(params); p++) {
            double *w = rig_weight(&before, p);
            rig_set_weight(&after, p, w);
            free(w);
        }
        rig_steps(&after, 3, 3);
        for (size_t p = 0; p < COUNT(params); p++) {
            CHECK(rig_same_weight(&through, p, &after, p), "%s: %s went on", kept[k],
                  params[p].name);
            if (!dev->kind->batch_variant) /* else what is rounded differs by rounding */
                CHECK(rig_same_weight(&through, p, &narrow, p), "%s: %s in small chunks", kept[k],
                      params[p].name);
        }
        CHECK(!rig_same_weight(&through, 0, &other, 0), "%s: the seed has no say", kept[k]);
        rig_free(&through), rig_free(&before), rig_free(&after), rig_free(&narrow);
        rig_free(&other);
    }
}

/* From momentum 1 towards 1.002, where the next number of bf16 is 1.0078: rounded to nearest it
 * would never leave 1.  Here it arrives on average: after n steps at 1 + .002 (1 - .99^n).  Each
 * entry is a number with a deviation below that spacing over 2; six of the mean's. */
TEST_EACH_DEVICE(small_changes_add_up, dev)
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
    rig      own = rig_make(dev, "muon", "", MUSEC_F32, params, 2, 1), half = { 0 };
    rig      wide = rig_make(dev, "muon", "momentum-dtype=bf16", MUSEC_F64, params, 2, 1);
    uint64_t state[3];
    half = rig_make(dev, "muon", "momentum-dtype=bf16", MUSEC_F32, params, 2, 1);
    CHECK_OK(dev, musec_optim_workspace(own.opt, NULL, &state[0]));
    CHECK_OK(dev, musec_optim_workspace(half.opt, NULL, &state[1]));
    CHECK_OK(dev, musec_optim_workspace(wide.opt, NULL, &state[2]));
    CHECK(state[0] == 480 * 4 && state[1] == 480 * 2 && state[2] == 480 * 8, "%d %d %d",
          (int)state[0], (int)state[1], (int)state[2]);
    rig_free(&own), rig_free(&half), rig_free(&wide);
}

TEST(bf16_momentum_is_refused_where_there_is_none)
{
    musec_optim_config cfg;
    musec_ctx         *ctx = NULL;
    musec_optim       *opt = NULL;
    CHECK(musec_ctx_create(&ctx, "cpu") == MUSEC_OK, "no context");
    CHECK(musec_optim_config_init(&cfg, sizeof cfg, "adamw") == MUSEC_OK &&
              musec_optim_config_set(&cfg, "momentum-dtype", "bf16") == MUSEC_OK,
          "adamw with an option");
    CHECK(musec_optim_create(&opt, ctx, &cfg) == MUSEC_EINVAL &&
              strstr(musec_ctx_error(ctx), "adamw keeps no momentum") != NULL,
          "%s", musec_ctx_error(ctx));
    CHECK(musec_optim_config_init(&cfg, sizeof cfg, "muon") == MUSEC_OK &&
              musec_optim_config_set(&cfg, "momentum-dtype", "bf16") == MUSEC_OK,
          "muon with an option");
    CHECK(musec_optim_create(&opt, ctx, &cfg) == MUSEC_ENOTSUP &&
              strstr(musec_ctx_error(ctx), "the device cpu has no numbers in bf16") != NULL,
          "%s", musec_ctx_error(ctx));
    musec_ctx_destroy(ctx);
}
