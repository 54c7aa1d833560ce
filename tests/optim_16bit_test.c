/* optim_16bit_test.c - momentum that is averaged, scaled and rounded to 16 bits in one pass.
 *
 * It is compared with the same optimizer in several passes, with float32 between them, which is the
 * path that coupled weight decay of 0 takes.  The two differ in the few numbers that rounding twice
 * rounds differently, by one unit in the last place of a 16-bit number. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "optim_rig.h"
#include "scratch.h"

static const musec_dtype short_dtypes[] = { MUSEC_F16, MUSEC_BF16 };

static const struct rule {
    const char *name, *options;
} rules[] = {
    { "soft-musec", "ns-mode=fast" },
    { "soft-musec", "ns-mode=paper7 momentum-form=heavy-ball beta=0.2" },
    { "soft-musec", "ns-mode=paper nesterov=yes" },
    { "soft-musec", "ns-mode=paper literal=yes momentum-init=zero" },
    { "soft-musec", "ns-mode=accurate" },
    { "soft-musec", "ns-mode=accurate ns-tol=2e-2 nesterov=yes" },
    { "spectra", "base=sgdm ns-mode=fast" },
    { "spectra", "base=sgdm ns-mode=fast nesterov=yes" },
    { "spectra", "base=sgdm ns-mode=accurate" },
    { "soft-musec", "ns-mode=fast sharpness=4" },
    { "musec", "ns-mode=fast" },
    { "musec", "ns-mode=accurate ns-tol=5e-2" },
    { "spectra", "base=sgdm clip=hard ns-mode=fast nesterov=yes" },
    { "muon", "nesterov=no" },
    { "muon", "nesterov=yes" },
    { "soft-musec", "ns-mode=fast threshold=rms:0.7" },
    { "soft-musec", "ns-mode=paper7 threshold=rms:2 nesterov=yes" },
    { "soft-musec", "ns-mode=accurate threshold=quantile:0.5" },
    { "musec", "ns-mode=fast threshold=rms:0.7" },
    { "musec", "ns-mode=fast threshold=quantile:0.8 momentum-form=heavy-ball" },
    { "spectra", "base=sgdm ns-mode=fast threshold=rms:0.5" },
    { "spectra", "base=sgdm ns-mode=paper threshold=quantile:0.5 nesterov=yes" },
};

/* Two matrices that are updated as one batch, a tall one, a stack of experts, blocks of columns,
 * blocks of grouped rows, and a single row. */
static const musec_block columns[] = {
    { .rows = 12, .cols = 20, .row_step = 42, .count = 2, .stride = 21 }
};
static const musec_block groups[] = {
    { .rows = 6, .cols = 20, .row_step = 20, .group_rows = 2, .group_step = 80 }
};
static const rig_param params[] = {
    { .name = "a", .rows = 12, .cols = 20 },
    { .name = "b", .rows = 12, .cols = 20, .layout = { .pad = 3 } },
    { .name = "tall", .rows = 20, .cols = 9 },
    { .name = "experts", .rows = 12, .cols = 20, .layout = { .more = 2, .gap = 5 } },
    { .name = "wide", .rows = 12, .cols = 42, .blocks = columns, .n_blocks = 1 },
    { .name = "groups", .rows = 12, .cols = 20, .blocks = groups, .n_blocks = 1 },
    { .name = "line", .rows = 1, .cols = 20 },
};

static const rig_param two[] = { { .name = "a", .rows = 12, .cols = 20 },
                                 { .name = "b", .rows = 12, .cols = 20 } };

typedef struct pair { /* the same problem, fused and in several passes */
    rig at_once, in_passes;
} pair;

/* A fixed threshold is in units of the gradients' scale, and updates are divided by it; a larger lr
 * makes up for thresholds far above the momentum. */
static pair pair_make(ms_device *dev, const struct rule *rule, musec_dtype type, double scale,
                      double threshold)
{
    char options[256];
    pair p;
    snprintf(options, sizeof options, "%s weight-decay=0 update-scale=unit", rule->options);
    musec_optim_config cfg = rig_config(rule->name, options);
    cfg.lr                 = 0.1 * fmax(1.0, threshold);
    cfg.operands           = type;
    if (cfg.threshold_rule == MUSEC_THRESHOLD_FIXED) cfg.threshold = threshold * scale;
    cfg.report_every = 0;
    p.at_once        = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 11);
    cfg.decay_form   = MUSEC_DECAY_COUPLED;
    p.in_passes      = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 11);
    return p;
}

static void pair_free(pair *p) { rig_free(&p->at_once), rig_free(&p->in_passes); }

static void pair_step(pair *p, int64_t step, double factor)
{
    rig_step(&p->at_once, step, factor);
    rig_step(&p->in_passes, step, factor);
}

/* A quantile is estimated from the rounded momentum in one path and from float32 in the other.  The
 * rounding moves each singular value by up to 2^-11 |M|_F (f16), which is some times that of D. */
static double of_estimates(const struct rule *rule)
{
    return strstr(rule->options, "quantile") != NULL ? 10.0 : 1.0;
}

static bool is_muon(const struct rule *rule) { return strcmp(rule->name, "muon") == 0; }

/* Few numbers differ, by 2^-10 or 2^-7 of themselves; products of them, by less.  `accurate` may
 * round the momentum two times more, in reductions, and each time other numbers differ.  Muon
 * normalises before it rounds in one path and after it in the other, so that all of its roundings
 * differ, and it amplifies small singular values: the bound is that of its operator
 * (linalg_operands_test). */
static void pair_check(pair *p, const struct rule *rule, musec_dtype type, const char *when)
{
    const bool   reduces = strstr(rule->options, "accurate") != NULL;
    const double bound   = (type == MUSEC_F16 ? 1e-3 : 8e-3) * (is_muon(rule) ? 10.0
                                                                : reduces     ? 3.0
                                                                              : 1.0);
    for (size_t i = 0; i < COUNT(params); i++) {
        const double apart = rig_apart(&p->at_once, i, &p->in_passes, i);
        CHECK(apart <= bound * of_estimates(rule), "%s %s, %s, %s: apart by %g", rule->name,
              rule->options, when, params[i].name, apart);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Is its threshold a number, and not a rule or none? */
static bool has_number(const struct rule *rule)
{
    return !is_muon(rule) && strstr(rule->options, "threshold=") == NULL;
}

TEST_EACH_DEVICE(fused_rounding_matches_separate_passes, dev)
{
    static const double scales[] = { 1.0, 0x1p-60, 0x1p60 };
    /* entries are about 1: some, all or none of the singular values are clipped */
    static const double thresholds[] = { 3.0, 1e-4, 1e5 };
    for (size_t k = 0; k < COUNT(rules); k++)
        for (size_t i = 0; i < COUNT(scales) * COUNT(thresholds); i++)
            for (size_t n = 0; n < COUNT(short_dtypes); n++) {
                const musec_dtype type      = short_dtypes[n];
                const double      scale     = scales[i % COUNT(scales)];
                const double      threshold = thresholds[i / COUNT(scales)];
                char              when[128];
                if (!ms_device_has(dev, type)) continue;
                if (!has_number(&rules[k]) && i >= COUNT(scales)) continue;
                if (!check_takes_case()) continue;
                pair p = pair_make(dev, &rules[k], type, scale, threshold);
                for (int64_t t = 0; t < 4; t++)
                    pair_step(&p, t, scale);
                snprintf(when, sizeof when, "scale %g, D = %g", scale, threshold);
                pair_check(&p, &rules[k], type, when);
                pair_free(&p);
            }
}

/* At the first step nothing is averaged yet, and the scale is that of the largest entry. */
TEST_EACH_DEVICE(the_first_step_has_the_same_bits, dev)
{
    for (size_t n = 0; n < COUNT(short_dtypes); n++)
        for (size_t k = 0; ms_device_has(dev, short_dtypes[n]) && k < 2; k++) {
            if (!check_takes_case()) continue;
            pair p = pair_make(dev, &rules[k], short_dtypes[n], 1.0, 2.0);
            pair_step(&p, 0, 1.0);
            for (size_t i = 0; i < COUNT(params) - 3; i++) /* matrices, each with its own scale */
                CHECK(rig_same_weight(&p.at_once, i, &p.in_passes, i), "%s %s, %s", rules[k].name,
                      rules[k].options, params[i].name);
            pair_free(&p);
        }
}

/* The gradients are zero at first, then of size one, then fall by 2^-20: the predicted bound must
 * follow the momentum. */
TEST_EACH_DEVICE(predicted_bounds_follow_changing_scales, dev)
{
    static const double factors[] = { 0.0, 0.0, 1.0, 1.0, 0x1p-20, 0x1p-20, 0.0, 0x1p12, 1.0 };
    for (size_t k = 0; k < COUNT(rules); k++)
        for (size_t n = 0; ms_device_has(dev, short_dtypes[n % 2]) && n < 2; n++) {
            if (!check_takes_case()) continue;
            pair p = pair_make(dev, &rules[k], short_dtypes[n], 1.0, 2.0);
            for (size_t t = 0; t < COUNT(factors); t++) {
                pair_step(&p, (int64_t)t, factors[t]);
                if (t > 1) pair_check(&p, &rules[k], short_dtypes[n], "changing");
                for (size_t i = 0; t <= 1 && i < COUNT(params); i++)
                    CHECK(rig_unmoved(&p.at_once, i), "%s %s: zeros moved %s", rules[k].name,
                          rules[k].options, params[i].name);
            }
            pair_free(&p);
        }
}

/* A D near the largest float64 clips nothing, and a matrix with zero gradients, whose scale is that
 * of D, does not move although its neighbours in the batch do. */
TEST_EACH_DEVICE(zero_gradients_move_nothing_whatever_the_threshold, dev)
{
    static const double thresholds[] = { 1e275, 1e306, 1.7e308 };
    static const double scales[]     = { 1.0, 1e-4, 1e-37 };
    for (size_t i = 0; i < COUNT(thresholds) * COUNT(scales); i++)
        for (size_t n = 0; ms_device_has(dev, short_dtypes[n % 2]) && n < 2; n++) {
            if (!check_takes_case()) continue;
            musec_optim_config cfg = rig_config("soft-musec", "ns-mode=fast weight-decay=0");
            cfg.threshold          = thresholds[i / COUNT(scales)];
            cfg.operands           = short_dtypes[n];
            cfg.report_every       = 0;
            rig r                  = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 3);
            for (int64_t t = 0; t < 3; t++) {
                for (size_t p = 0; p < COUNT(params); p++) {
                    double *g = rig_normal(&r, p, t);
                    for (int64_t e = 0; e < rig_elems(&r, p); e++)
                        g[e] *= p == 1 ? 0.0 : scales[i % COUNT(scales)];
                    rig_set_grad(&r, p, g);
                    free(g);
                }
                rig_go(&r);
            }
            CHECK(rig_unmoved(&r, 1), "D = %g, gradients of %g", cfg.threshold,
                  scales[i % COUNT(scales)]);
            rig_free(&r);
        }
}

/* ---- state ----------------------------------------------------------------------------------- */

/* With the predicted bounds in its file a run resumes bit for bit; from a file without them it
 * stays within the bounds of pair_check. */
TEST_EACH_DEVICE(a_saved_optimizer_resumes_bit_for_bit, dev)
{
    const char *path = path_in(fresh_dir(), "optim.safetensors");
    for (size_t k = 0; k < COUNT(rules); k++) {
        if (!ms_device_has(dev, MUSEC_F16) || !check_takes_case()) continue;
        pair p = pair_make(dev, &rules[k], MUSEC_F16, 1.0, 2.0);
        pair q = pair_make(dev, &rules[k], MUSEC_F16, 1.0, 2.0);
        for (int64_t t = 0; t < 3; t++)
            pair_step(&p, t, 1.0);
        for (int how = 0; how < 2; how++) {
            CHECK_OK(dev, musec_optim_save(how == 0 ? p.at_once.opt : p.in_passes.opt, path));
            CHECK_OK(dev, musec_optim_load(how == 0 ? q.at_once.opt : q.in_passes.opt, path));
        }
        rig_copy_weights(&p.at_once, &q.at_once);
        rig_copy_weights(&p.in_passes, &q.in_passes);
        for (int64_t t = 3; t < 5; t++)
            pair_step(&p, t, 1.0), pair_step(&q, t, 1.0);
        rig_check_same(&p.at_once, &q.at_once, rules[k].name, rules[k].options);
        /* the file of the optimizer in several passes has no predicted bounds */
        CHECK_OK(dev, musec_optim_save(p.in_passes.opt, path));
        CHECK_OK(dev, musec_optim_load(p.at_once.opt, path));
        pair_step(&p, 5, 1.0);
        pair_check(&p, &rules[k], MUSEC_F16, "without bounds");
        pair_free(&p), pair_free(&q);
    }
}

TEST_EACH_DEVICE(a_report_does_not_change_the_step, dev)
{
    for (size_t k = 0; k < COUNT(rules) && ms_device_has(dev, MUSEC_F16); k++) {
        if (!check_takes_case()) continue;
        musec_optim_config cfg = rig_config(rules[k].name, rules[k].options);
        musec_optim_report report;
        cfg.operands     = MUSEC_F16;
        cfg.report_every = 0;
        rig quiet        = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 4);
        cfg.report_every = 1;
        rig measured     = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 4);
        rig_steps(&quiet, 0, 3), rig_steps(&measured, 0, 3);
        rig_check_same(&quiet, &measured, rules[k].name, rules[k].options);
        CHECK(musec_optim_get_report(measured.opt, 0, &report) == MUSEC_OK && report.step == 3 &&
                  report.update_norm2 > 0.0,
              "%s %s: no report", rules[k].name, rules[k].options);
        rig_free(&quiet), rig_free(&measured);
    }
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* Momentum is averaged before it is known that a gradient is not finite: the step must leave no
 * trace, and the optimizer must go on like one that never saw that gradient. */
TEST_EACH_DEVICE(nonfinite_gradients_leave_no_trace, dev)
{
    static const double bad[] = { NAN, -INFINITY };
    for (size_t k = 0; k < COUNT(rules) && ms_device_has(dev, MUSEC_F16); k++)
        for (size_t at = 0; at < COUNT(params) * COUNT(bad); at++) {
            if (!check_takes_case()) continue;
            const size_t       p   = at / COUNT(bad);
            musec_optim_config cfg = rig_config(rules[k].name, rules[k].options);
            char               words[64];
            cfg.operands     = MUSEC_F16;
            cfg.report_every = 0;
            cfg.nonfinite    = k % 2 == 0 ? MUSEC_NONFINITE_STOP : MUSEC_NONFINITE_SKIP;
            rig calm         = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 6);
            rig shaken       = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 6);
            rig_steps(&calm, 0, 2), rig_steps(&shaken, 0, 2);
            double *g = rig_normal(&shaken, p, 9);
            /* columns that are in no block of "wide" are checked too */
            g[rig_elems(&shaken, p) / 2] = bad[at % COUNT(bad)];
            rig_set_grad(&shaken, p, g);
            free(g);
            snprintf(words, sizeof words, "the gradient of %s holds", params[p].name);
            const musec_status st = rig_try(&shaken, 1.0);
            if (cfg.nonfinite == MUSEC_NONFINITE_STOP)
                CHECK_FAILS(&dev->error, st, MUSEC_ENONFINITE, words);
            else
                CHECK(st == MUSEC_OK && musec_optim_skipped(shaken.opt) == 1, "%s: not skipped",
                      params[p].name);
            rig_steps(&calm, 2, 4), rig_steps(&shaken, 2, 4);
            rig_check_same(&calm, &shaken, rules[k].options, words);
            rig_free(&calm), rig_free(&shaken);
        }
}

/* ---- calls of the device --------------------------------------------------------------------- */

static struct {
    ms_device_ops real;
    int           wide_in, wide_absmax; /* float32 stacks that prescale rounded, absmax read */
    int           again;                /* averages in combine, after a failed prediction */
    unsigned      updates;              /* bit 1 << dtype for each dtype of an update */
    int           products;
} seen;

static musec_status see_prescale(ms_device *d, ms_mat x, ms_vec factor, ms_mat buffer,
                                 ms_mat *scaled)
{
    seen.wide_in += x.dtype == MUSEC_F32;
    return seen.real.prescale(d, x, factor, buffer, scaled);
}

static musec_status see_absmax(ms_device *d, ms_mat x, ms_vec out)
{
    seen.wide_absmax += x.dtype == MUSEC_F32 && x.ptrs == NULL;
    return seen.real.absmax(d, x, out);
}

static musec_status see_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms, int n)
{
    seen.again += y.data != NULL && y.ptrs != NULL;
    return seen.real.combine(d, x, y, terms, n);
}

static musec_status see_average(ms_device *d, ms_num x_coef, ms_mat x, ms_num y_coef, ms_mat y,
                                ms_mat out, ms_vec top)
{
    const int          again = seen.again; /* calls of combine by the device itself do not count */
    const musec_status st    = seen.real.average(d, x_coef, x, y_coef, y, out, top);
    seen.again               = again;
    return st;
}

/* Gradients of about the size of the last ones are averaged once.  Where they are so much larger or
 * smaller that the predicted scale is wrong, they are averaged a second time. */
TEST_EACH_DEVICE(a_failed_prediction_is_averaged_again, dev)
{
    static const struct {
        double factor;
        int    again;
    } course[] = { { 1.0, 0 }, { 2.0, 0 }, { 100.0, 1 }, { 100.0, 0 }, { 1.0, 1 }, { 0.0, 1 } };
    if (!ms_device_has(dev, MUSEC_F16)) return;
    rig r = rig_make(dev, "soft-musec", "ns-mode=fast operands=f16", MUSEC_F32, two, 2, 4);
    rig_step(&r, 0, 1.0);
    for (size_t t = 0; t < COUNT(course); t++) {
        memset(&seen, 0, sizeof seen);
        seen.real          = dev->table;
        dev->table.combine = see_combine;
        dev->table.average = see_average;
        rig_step(&r, (int64_t)t + 1, course[t].factor);
        dev->table = seen.real;
        CHECK(seen.again == course[t].again, "step %zu: %d averages more", t + 2, seen.again);
    }
    rig_free(&r);
}

/* Momentum is read by the pass that averages it and by no other. */
TEST_EACH_DEVICE(momentum_is_read_once, dev)
{
    for (size_t k = 0; k < COUNT(rules) && ms_device_has(dev, MUSEC_F16); k++) {
        if (!check_takes_case()) continue;
        musec_optim_config cfg = rig_config(rules[k].name, rules[k].options);
        cfg.operands           = MUSEC_F16;
        cfg.report_every       = 0;
        rig r                  = rig_make_with(dev, &cfg, MUSEC_F32, two, 2, 4);
        rig_step(&r, 0, 1.0);
        memset(&seen, 0, sizeof seen);
        seen.real           = dev->table;
        dev->table.prescale = see_prescale;
        dev->table.absmax   = see_absmax;
        CHECK_OK(dev, rig_try(&r, 1.0));
        dev->table = seen.real;
        CHECK(seen.wide_in == 0 && seen.wide_absmax == 0, "%s %s: %d rounded, %d looked through",
              rules[k].name, rules[k].options, seen.wide_in, seen.wide_absmax);
        rig_free(&r);
    }
}

static musec_status see_update(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                               ms_mat w, ms_mat copy)
{
    seen.updates |= 1u << u.dtype;
    return seen.real.decay_add(d, step, u, decay, cautious, w, copy);
}

/* Only Muon with f16 operands has updates of 16 bits.  The norms in its report are those of a
 * float32 run to the accuracy of the operator. */
TEST_EACH_DEVICE(muon_with_f16_operands_has_updates_of_16_bits, dev)
{
    static const rig_param shapes[] = { { .name = "a", .rows = 12, .cols = 20 },
                                        { .name = "b", .rows = 20, .cols = 6 } };
    static const unsigned  f32 = 1u << MUSEC_F32, f16 = 1u << MUSEC_F16;
    static const struct {
        const char *name, *options;
        unsigned    updates;
    } these[] = {
        { "muon", "operands=f16", f16 },
        { "muon", "operands=f16 nesterov=yes decay-form=cautious weight-decay=0.1", f16 },
        { "muon", "operands=f16 shape-rule=fixed-rms", f16 },
        { "muon", "operands=f16 decay-form=coupled weight-decay=0.1", f16 },
        { "muon", "operands=f16 momentum-dtype=bf16", f16 },
        { "muon", "operands=f16 ns-mode=exact", f32 },
        { "muon", "operands=bf16", f32 },
        { "normuon", "operands=f16", f16 },
        { "muonh", "operands=f16", f16 },
        { "adamuon", "operands=f16", f32 },
        { "spectra", "operands=f16 ns-mode=fast", f32 },
    };
    for (size_t k = 0; k < COUNT(these) && ms_device_has(dev, MUSEC_F16); k++) {
        if (!check_takes_case()) continue;
        const char *name = these[k].name, *options = these[k].options;
        rig wide  = rig_makef(dev, MUSEC_F32, shapes, 2, 4, name, "%s operands=f32 report-every=1",
                              options);
        rig r     = rig_makef(dev, MUSEC_F32, shapes, 2, 4, name, "%s report-every=1", options);
        seen.real = dev->table;
        seen.updates         = 0;
        dev->table.decay_add = see_update;
        rig_step(&r, 0, 1.0);
        dev->table = seen.real;
        rig_step(&wide, 0, 1.0);
        CHECK(seen.updates == these[k].updates, "%s: updates of 0x%x", options, seen.updates);
        for (size_t i = 0; i < 2; i++) {
            musec_optim_report got, want;
            CHECK_OK(dev, musec_optim_get_report(r.opt, i, &got));
            CHECK_OK(dev, musec_optim_get_report(wide.opt, i, &want));
            const double bound = strstr(these[k].options, "bf16") != NULL ? 8e-2 : 1e-2;
            CHECK(fabs(got.update_norm2 / want.update_norm2 - 1.0) <= bound &&
                      fabs(got.update_rms / want.update_rms - 1.0) <= bound,
                  "%s: norm %g, rms %g, not %g, %g", options, got.update_norm2, got.update_rms,
                  want.update_norm2, want.update_rms);
            CHECK(rig_apart(&r, i, &wide, i) <= bound, "%s: weights", options);
        }
        rig_free(&r), rig_free(&wide);
    }
}

/* Groups with equal smaller sides are fused, as many as an operator takes; with little workspace
 * each matrix is computed alone.  Products are scaled by the maximum over all matrices either way,
 * so the bits are the same on a device whose bits do not depend on the batch. */
TEST_EACH_DEVICE(chunks_and_fused_groups_give_the_same_bits, dev)
{
    static const rig_param fusible[] = {
        { .name = "a", .rows = 12, .cols = 20 },     { .name = "b", .rows = 12, .cols = 20 },
        { .name = "tall", .rows = 20, .cols = 12 },  { .name = "square", .rows = 12, .cols = 12 },
        { .name = "wide", .rows = 12, .cols = 33 },  { .name = "fifth", .rows = 14, .cols = 12 },
        { .name = "other", .rows = 13, .cols = 14 },
    };
    static const char *const modes[] = { "fast threshold=0.01",
                                         "paper7 threshold=0.01",
                                         "paper threshold=0.01",
                                         "paper literal=yes threshold=0.01",
                                         "accurate threshold=0.01",
                                         "fast nesterov=yes threshold=0.01",
                                         "fast threshold=rms:0.7 update-scale=unit",
                                         "accurate threshold=rms:0.7 sharpness=hard",
                                         "fast threshold=rms:2 nesterov=yes",
                                         "paper threshold=quantile:0.5 update-scale=unit",
                                         "fast threshold=quantile:0.9 nesterov=yes" };
    for (size_t k = 0; k < COUNT(modes) && ms_device_has(dev, MUSEC_F16); k++) {
        if (!check_takes_case()) continue;
        rig together = rig_makef(dev, MUSEC_F32, fusible, COUNT(fusible), 5, "soft-musec",
                                 "ns-mode=%s operands=f16", modes[k]);
        rig alone    = rig_makef(dev, MUSEC_F32, fusible, COUNT(fusible), 5, "soft-musec",
                                 "ns-mode=%s operands=f16 workspace=1", modes[k]);
        for (int64_t t = 0; t < 4; t++) {
            for (size_t i = 0; i < COUNT(fusible); i++) {
                double *g = rig_normal(&together, i, t);
                for (int64_t e = 0; e < rig_elems(&together, i); e++)
                    g[e] *= i % 2 == 0 ? 1.0 : 0x1p-23;
                rig_set_grad(&together, i, g), rig_set_grad(&alone, i, g);
                free(g);
            }
            rig_go(&together), rig_go(&alone);
        }
        CHECK(together.opt->fusion_fits && !alone.opt->fusion_fits, "%s: both go the same way",
              modes[k]);
        if (!dev->kind->batch_variant) rig_check_same(&together, &alone, "ns-mode", modes[k]);
        rig_free(&together), rig_free(&alone);
    }
}

static musec_status see_product(ms_device *d, const ms_product *p)
{
    seen.products++;
    return seen.real.product(d, p);
}

/* Counts the Gram matrices that are computed a second time: those that the mask names. */
static musec_status see_again(ms_device *d, const ms_product *p)
{
    double mask[4] = { 0.0 };
    CHECK(p->mask.data == NULL || p->mask.count <= 4, "more than were given");
    if (p->mask.data != NULL) CHECK_OK(d, ms_vec_download(d, p->mask, mask));
    for (int i = 0; i < 4; i++)
        seen.again += mask[i] != 0.0;
    return seen.real.product(d, p);
}

/* From the second step on the cached norms of the Gram matrices are near enough, and each matrix is
 * computed once.  Where momentum jumps they are computed again; predicted_bounds_follow_changing_
 * scales checks the result. */
TEST_EACH_DEVICE(gram_norms_are_cached, dev)
{
    static const struct {
        double factor;
        bool   calm;
    } course[]                      = { { 1.0, true }, { 1.0, true }, { 1e4, false } };
    static const rig_param shapes[] = { { .name = "a", .rows = 24, .cols = 40 },
                                        { .name = "b", .rows = 60, .cols = 24 } };
    if (!ms_device_has(dev, MUSEC_F16)) return;
    rig r = rig_make(dev, "soft-musec", "ns-mode=fast operands=f16 threshold=100", MUSEC_F32,
                     shapes, 2, 4);
    rig_steps(&r, 0, 60); /* after many steps one gradient changes the average little */
    for (size_t t = 0; t < COUNT(course); t++) {
        seen.real          = dev->table;
        dev->table.product = see_again;
        seen.again         = 0;
        rig_step(&r, 60 + (int64_t)t, course[t].factor);
        dev->table = seen.real;
        CHECK((seen.again == 0) == course[t].calm, "step %zu: %d made again", 60 + t, seen.again);
    }
    rig_free(&r);
}

/* Each of two shapes has a Gram matrix, which may be computed twice; the other products of `fast`
 * are done once for both. */
TEST_EACH_DEVICE(fused_groups_share_their_products, dev)
{
    static const rig_param shapes[] = { { .name = "a", .rows = 12, .cols = 20 },
                                        { .name = "b", .rows = 30, .cols = 12 } };
    int                    n[2]     = { 0, 0 };
    for (int i = 0; i < 2 && ms_device_has(dev, MUSEC_F16); i++) {
        rig r =
            rig_make(dev, "soft-musec", "ns-mode=fast operands=f16", MUSEC_F32, shapes, i + 1, 4);
        rig_step(&r, 0, 1.0);
        seen.real          = dev->table;
        dev->table.product = see_product;
        seen.products      = 0;
        rig_step(&r, 1, 1.0);
        dev->table = seen.real;
        n[i]       = seen.products;
        rig_free(&r);
    }
    CHECK(n[1] == (n[0] > 0 ? n[0] + 2 : 0), "%d products for one shape, %d for two", n[0], n[1]);
}
