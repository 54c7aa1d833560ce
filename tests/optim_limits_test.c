/* optim_limits_test.c - cases in which two optimizers must be the same (limits of the threshold,
 * forms of the momentum, learning rates), and weight decay against its formulas. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim_rig.h"
#include "oracle.h"

static const musec_dtype dtypes[] = { MUSEC_F64, MUSEC_F32 };

static const rig_param shapes[] = {
    { .name = "wide", .rows = 6, .cols = 9 },
    { .name = "tall", .rows = 9, .cols = 6, .layout = { .pad = 2 } },
    { .name = "square", .rows = 7, .cols = 7, .layout = { .more = 1, .gap = 3 } },
};

static const char *const soft_modes[] = { "paper", "paper7", "fast", "accurate", "exact" };

/* ---- the threshold --------------------------------------------------------------------------- */

/* No singular value is above D, so the hard clip returns its input bit for bit. */
TEST_EACH_DEVICE(musec_with_a_large_threshold_is_sgdm, dev)
{
    static const char *const options[] = {
        "",
        "nesterov=yes",
        "momentum-init=zero",
        "momentum-form=heavy-ball",
        "momentum-form=heavy-ball nesterov=yes",
        "weight-decay=0.3 decay-form=coupled",
        "weight-decay=0.3 decay-form=coupled nesterov=yes",
        "weight-decay=0.3 decay-form=cautious shape-rule=moonlight",
    };
    for (size_t i = 0; i < COUNT(options); i++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            rig a = rig_makef(dev, dtypes[t], shapes, COUNT(shapes), i, "musec",
                              "lr=0.1 beta=0.2 threshold=1e6 %s", options[i]);
            rig b = rig_makef(dev, dtypes[t], shapes, COUNT(shapes), i, "sgdm",
                              "lr=0.1 beta=0.2 %s", options[i]);
            rig_steps(&a, 0, 6), rig_steps(&b, 0, 6);
            rig_check_same(&a, &b, "sgdm", options[i]);
            for (size_t p = 0; p < COUNT(shapes); p++) {
                const int64_t n = shapes[p].rows * shapes[p].cols;
                double       *x = rig_state(&a, p, 0, "momentum", n);
                double       *y = rig_state(&b, p, 0, "momentum", n);
                CHECK(run_same_bits(x, y, n), "momentum of %s, %s", shapes[p].name, options[i]);
                free(x), free(y);
            }
            rig_free(&a), rig_free(&b);
        }
    }
}

/* All singular values are above D: the clip is D times the polar factor, and a step of eta moves
 * the weight as a Muon step of eta D does.  Later steps only agree where nothing of the old
 * momentum is left (beta 1), since Muon does not store the clipped one.  The clip rounds to 1e-12
 * of D at s_1 / D = 1e4 in float64; in float32 each weight is rounded six times, by 6 * 2^-24. */
TEST_EACH_DEVICE(musec_with_a_small_threshold_is_muon, dev)
{
    static const struct {
        const char *beta;
        int64_t     steps;
    } cases[] = { { "0.1", 1 }, { "1", 6 } };
    for (size_t c = 0; c < COUNT(cases); c++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            const double bound = dtypes[t] == MUSEC_F64 ? 1e-11 : 5e-6;
            rig          a     = rig_makef(dev, dtypes[t], shapes, COUNT(shapes), 11, "musec",
                                           "lr=100 threshold=0.001 beta=%s", cases[c].beta);
            rig          b     = rig_makef(dev, dtypes[t], shapes, COUNT(shapes), 11, "muon",
                                           "lr=0.1 ns-mode=exact beta=%s", cases[c].beta);
            rig_steps(&a, 0, cases[c].steps), rig_steps(&b, 0, cases[c].steps);
            for (size_t p = 0; p < COUNT(shapes); p++) {
                const double apart = rig_apart(&a, p, &b, p);
                CHECK(apart <= bound, "%s, beta %s: apart by %g of the way, bound %g",
                      shapes[p].name, cases[c].beta, apart, bound);
            }
            rig_free(&a), rig_free(&b);
        }
    }
}

/* SPECTRA clips what Soft Musec clips, but stores the momentum unclipped: the first step is the
 * same, and with momentum of twice the threshold the weights are far apart three steps later. */
TEST_EACH_DEVICE(spectra_and_soft_musec_differ_after_the_first_step, dev)
{
    for (size_t m = 0; m <= COUNT(soft_modes); m++) {
        char        options[128], clip[160];
        const bool  hard = m == COUNT(soft_modes);
        const char *mode = hard ? "exact" : soft_modes[m];
        snprintf(options, sizeof options, "lr=0.1 beta=0.3 threshold=1 ns-mode=%s", mode);
        snprintf(clip, sizeof clip, "%s base=sgdm clip=%s", options, hard ? "hard" : "soft");
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            const char *name = hard ? "musec" : "soft-musec";
            rig         a    = rig_make(dev, name, options, dtypes[t], shapes, COUNT(shapes), m);
            rig         b    = rig_make(dev, "spectra", clip, dtypes[t], shapes, COUNT(shapes), m);
            rig_step(&a, 0, 1.0), rig_step(&b, 0, 1.0);
            rig_check_same(&a, &b, name, mode);
            rig_steps(&a, 1, 3), rig_steps(&b, 1, 3);
            for (size_t p = 0; p < COUNT(shapes); p++) {
                const double apart = rig_apart(&a, p, &b, p);
                CHECK(apart >= 0.01, "%s %s: only %g apart", name, mode, apart);
            }
            rig_free(&a), rig_free(&b);
        }
    }
}

/* ---- momentum forms -------------------------------------------------------------------------- */

/* Heavy-ball momentum that starts from zero is the average divided by beta.  As the clip satisfies
 * clip(c M, c D) = c clip(M, D), threshold D / beta and rate eta beta give the same weights: bit
 * for bit where beta is a power of two, which rounds nothing, else to the rounding of six steps.
 * An average that starts as the first gradient gives other weights. */
TEST_EACH_DEVICE(heavy_ball_is_the_average_divided_by_beta, dev)
{
    static const struct {
        const char *name, *mode;
        double      beta;
        bool        nesterov;
    } cases[] = {
        { "musec", "exact", 0.0625, false },     { "musec", "exact", 0.1, true },
        { "soft-musec", "paper", 0.0625, true }, { "soft-musec", "paper", 0.1, false },
        { "soft-musec", "fast", 0.0625, false }, { "soft-musec", "exact", 0.3, false },
        { "spectra", "paper", 0.0625, false },   { "spectra", "fast", 0.3, true },
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            const double       bound = dtypes[t] == MUSEC_F64 ? 1e-11 : 1e-5;
            musec_optim_config ema   = rig_config(cases[c].name, "lr=0.4 momentum-init=zero");
            ema.ns_mode              = 0;
            CHECK(musec_optim_config_set(&ema, "ns-mode", cases[c].mode) == MUSEC_OK, "mode");
            ema.beta                 = cases[c].beta;
            ema.threshold            = 0.25;
            ema.nesterov             = cases[c].nesterov;
            musec_optim_config heavy = ema, first = ema;
            heavy.momentum_form = 1;
            heavy.threshold     = ema.threshold / ema.beta;
            heavy.lr            = ema.lr * ema.beta;
            first.momentum_init = 0;
            rig a               = rig_make_with(dev, &ema, dtypes[t], shapes, COUNT(shapes), c);
            rig b               = rig_make_with(dev, &heavy, dtypes[t], shapes, COUNT(shapes), c);
            rig f               = rig_make_with(dev, &first, dtypes[t], shapes, COUNT(shapes), c);
            rig_steps(&a, 0, 6), rig_steps(&b, 0, 6), rig_steps(&f, 0, 6);
            for (size_t p = 0; p < COUNT(shapes); p++) {
                const double apart = rig_apart(&b, p, &a, p);
                CHECK(apart <= bound, "case %zu, %s: apart by %g, bound %g", c, shapes[p].name,
                      apart, bound);
                CHECK(cases[c].beta != 0.0625 || rig_same_weight(&a, p, &b, p),
                      "case %zu, %s: apart by %g", c, shapes[p].name, apart);
                CHECK(rig_apart(&f, p, &a, p) >= 0.01, "case %zu: the start does not show", c);
            }
            rig_free(&a), rig_free(&b), rig_free(&f);
        }
    }
}

/* ---- learning rates -------------------------------------------------------------------------- */

/* The products 0.5 * 0.2 and 0.05 * 2 are both the float64 number nearest to 0.1. */
TEST_EACH_DEVICE(rate_factors_multiply, dev)
{
    static const char *const rates[] = { "0.1", "0.05", "0.2" };
    rig_param                twice[COUNT(shapes)];
    rig                      r[COUNT(rates)]; /* plain, lr_factor 2, lr_scale 0.5 */
    memcpy(twice, shapes, sizeof twice);
    for (size_t p = 0; p < COUNT(shapes); p++)
        twice[p].lr_factor = 2.0;
    for (size_t i = 0; i < COUNT(rates); i++) {
        r[i] = rig_makef(dev, MUSEC_F64, i == 1 ? twice : shapes, COUNT(shapes), 1, "soft-musec",
                         "lr=%s beta=0.3 threshold=1 weight-decay=0.2", rates[i]);
        rig_set_grads(&r[i], 0, 1.0);
        CHECK_OK(dev, rig_try(&r[i], i == 2 ? 0.5 : 1.0));
    }
    rig_check_same(&r[0], &r[1], "soft-musec", "lr_factor");
    rig_check_same(&r[0], &r[2], "soft-musec", "lr_scale");
    for (size_t i = 0; i < COUNT(rates); i++)
        rig_free(&r[i]);
}

/* ---- weight decay ---------------------------------------------------------------------------- */

typedef struct decay_case {
    const char *form;
    double      wd, lr_factor;
} decay_case;

/* One element after a step of sgdm with beta 1, by the table of decay forms in docs/optimizers.md;
 * lr is without factors. */
static double decayed(const decay_case *c, double w, double g, double lr, double shape)
{
    const double eff      = lr * c->lr_factor * shape;
    const bool   together = w * g >= 0.0;
    if (strcmp(c->form, "decoupled") == 0) return (1.0 - lr * c->wd) * w - eff * g;
    if (strcmp(c->form, "independent") == 0) return (1.0 - c->wd) * w - eff * g;
    if (strcmp(c->form, "lr2") == 0) return (1.0 - lr * lr * c->wd) * w - eff * g;
    if (strcmp(c->form, "cautious") == 0) return (1.0 - together * lr * c->wd) * w - eff * g;
    if (strcmp(c->form, "cautious-lr2") == 0)
        return (1.0 - together * eff * (c->wd * lr)) * w - eff * g;
    return w - eff * (g + c->wd * w); /* coupled */
}

/* The bound is four unit roundoffs: a multiplication and a fused or plain addition for each weight.
 * The decay itself moves the weights by 1e-2 of their norm or more. */
TEST_EACH_DEVICE(decay_follows_its_formula, dev)
{
    static const decay_case cases[] = {
        { "decoupled", 0.7, 1.0 }, { "independent", 0.1, 1.0 },  { "lr2", 3.0, 1.0 },
        { "cautious", 0.7, 1.0 },  { "cautious-lr2", 3.0, 1.0 }, { "cautious-lr2", 3.0, 2.0 },
        { "coupled", 0.7, 1.0 },   { "coupled", 0.7, 2.0 },
    };
    const double lr = 0.3 * 0.5, shape = sqrt(9.0 / 4.0);
    for (size_t c = 0; c < COUNT(cases); c++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            const rig_param param = { .name      = "w",
                                      .rows      = 9,
                                      .cols      = 4,
                                      .layout    = { .pad = 1 },
                                      .lr_factor = cases[c].lr_factor };
            double          want[36], none[36], moved = 0.0;
            rig             r = rig_makef(dev, dtypes[t], &param, 1, c, "sgdm",
                                          "lr=0.3 beta=1 shape-rule=keller "
                                                      "decay-form=%s weight-decay=%g",
                                          cases[c].form, cases[c].wd);
            double         *w = rig_weight(&r, 0), *g = rig_normal(&r, 0, 0);
            for (int e = 0; e < 36; e++) {
                if (e % 5 == 0) g[e] = 0.0; /* w g = 0 counts as the same sign */
                if (dtypes[t] == MUSEC_F32) g[e] = (float)g[e];
                want[e] = decayed(&cases[c], w[e], g[e], lr, shape);
                none[e] = w[e] - lr * cases[c].lr_factor * shape * g[e];
            }
            rig_set_grad(&r, 0, g);
            CHECK_OK(dev, rig_try(&r, 0.5));
            double      *got   = rig_weight(&r, 0);
            const double bound = 4.0 * ms_dtype_eps(dtypes[t]);
            const double err   = oracle_rel_err(got, MUSEC_F64, want, 36);
            CHECK(err <= bound, "%s, lr_factor %g: relative error %g, bound %g", cases[c].form,
                  cases[c].lr_factor, err, bound);
            moved = oracle_rel_err(none, MUSEC_F64, want, 36);
            CHECK(moved >= 1e-2, "%s: decay moves the weights by %g only", cases[c].form, moved);
            free(w), free(g), free(got);
            rig_free(&r);
        }
    }
}

TEST_EACH_DEVICE(each_role_has_its_decay, dev)
{
    static const rig_param roles[] = {
        { .name = "a", .role = MUSEC_ROLE_MATRIX, .rows = 4, .cols = 3 },
        { .name = "b", .role = MUSEC_ROLE_QK, .rows = 4, .cols = 3 },
        { .name = "c", .role = MUSEC_ROLE_VO, .rows = 4, .cols = 3 },
        { .name = "d", .role = MUSEC_ROLE_MLP, .rows = 4, .cols = 3 },
        { .name = "e", .role = MUSEC_ROLE_EMBED, .rows = 4, .cols = 3 },
    };
    static const double keep[]  = { 1.0 - 0.5 * 0.1, 1.0 - 0.5 * 1.2, 1.0 - 0.5 * 0.2,
                                    1.0 - 0.5 * 0.3, 1.0 - 0.25 * 0.4 };
    const char         *options = "lr=0.5 weight-decay=0.1 weight-decay=qk=1.2,vo=0.2,mlp=0.3 "
                                  "aux-lr=0.25 aux-weight-decay=0.4 decay-form=decoupled";
    static const double zeros[12];
    rig                 r = rig_make(dev, "soft-musec", options, MUSEC_F64, roles, COUNT(roles), 3);
    for (size_t p = 0; p < r.n; p++)
        rig_set_grad(&r, p, zeros);
    rig_go(&r);
    for (size_t p = 0; p < r.n; p++) {
        double *start = rig_start(&r, p), *got = rig_weight(&r, p);
        for (int e = 0; e < 12; e++)
            start[e] *= keep[p];
        const double err = oracle_rel_err(got, MUSEC_F64, start, 12);
        CHECK(err <= 4e-16, "%s: relative error %g", roles[p].name, err);
        free(start), free(got);
    }
    rig_free(&r);
}
