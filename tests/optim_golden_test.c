/* optim_golden_test.c - the trajectories of the golden vectors (traj_*.mgv): ten steps of every
 * optimizer of the paper, with and without weight decay, on every device.
 *
 * Weights and carried momentum are held to 1e-12 in float64 and to 1e-5 in float32, relative and
 * in the Frobenius norm.  The vectors' README expects 1e-12 of a float64 implementation (an
 * independent one reaches 6e-15); ten float32 steps from rounded inputs accumulate a few 1e-7. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mgv.h"
#include "optim_rig.h"
#include "oracle.h"

static const char *const files[] = { "traj_8x12", "traj_10x6" };

static const struct kind {
    const char *record, *name, *options;
    bool        adam;
} kinds[] = {
    { "musec", "musec", "", false },
    { "soft_musec", "soft-musec", "ns-mode=paper ns-iters=5", false },
    { "soft_musec", "soft-musec", "ns-mode=paper ns-iters=5 literal=yes", false },
    { "soft_musec_exact", "soft-musec", "ns-mode=exact", false },
    { "spectra_hard", "spectra", "base=sgdm clip=hard", false },
    { "spectra_soft", "spectra", "base=sgdm clip=soft ns-mode=paper ns-iters=5", false },
    { "muon_ns5", "muon", "ns-mode=paper ns-iters=5", false },
    { "muon_polar", "muon", "ns-mode=exact", false },
    { "adamw", "adamw", "", true },
};

static musec_optim_config config_of(mgv_file *f, const struct kind *k, bool decay)
{
    musec_optim_config cfg = rig_config(k->name, k->options);
    const double       wd  = mgv_scalar(f, k->adam ? "adam_wd" : "wd");
    cfg.lr                 = mgv_scalar(f, k->adam ? "adam_lr" : "lr");
    cfg.beta               = mgv_scalar(f, "beta");
    cfg.threshold          = mgv_scalar(f, "D");
    cfg.beta1              = mgv_scalar(f, "adam_b1");
    cfg.beta2              = mgv_scalar(f, "adam_b2");
    cfg.eps                = mgv_scalar(f, "adam_eps");
    for (int role = 0; role < MUSEC_MATRIX_ROLES; role++)
        cfg.weight_decay[role] = decay ? wd : 0.0;
    CHECK(mgv_scalar(f, "K") == 5.0, "K");
    return cfg;
}

static const double *record(mgv_file *f, const rig *r, const char *fmt, const char *kind, int step)
{
    char name[64];
    snprintf(name, sizeof name, fmt, kind, step);
    const mgv_record *found = mgv_find(f, name);
    CHECK(found->rows == r->params[0].rows && found->cols == r->params[0].cols, "%s", name);
    return found->data;
}

static void check_close(const double *got, const double *want, const rig *r, const char *file,
                        const struct kind *k, const char *what, int step)
{
    const double bound = r->dtype == MUSEC_F64 ? 1e-12 : 1e-5;
    const double err   = oracle_rel_err(got, MUSEC_F64, want, rig_elems(r, 0));
    CHECK(err <= bound, "%s %s (%s %s) %s %d, %s: relative error %g, bound %g", file, k->record,
          k->name, k->options, what, step, r->dtype == MUSEC_F64 ? "f64" : "f32", err, bound);
}

static void check_state(rig *r, mgv_file *f, const char *file, const struct kind *k, int step)
{
    static const struct {
        const char *state, *fmt;
        bool        adam;
    } states[] = { { "momentum", "%s.M%d", false },
                   { "m", "%s.m%d", true },
                   { "v", "%s.v%d", true } };
    for (size_t s = 0; s < COUNT(states); s++) {
        if (states[s].adam != k->adam) continue;
        double *got = rig_state(r, 0, 0, states[s].state, rig_elems(r, 0));
        check_close(got, record(f, r, states[s].fmt, k->record, step), r, file, k, states[s].state,
                    step);
        free(got);
    }
}

static void run_trajectory(ms_device *dev, musec_dtype dtype, mgv_file *f, const char *file,
                           const struct kind *k, bool decay)
{
    const musec_optim_config cfg   = config_of(f, k, decay);
    const mgv_record        *start = mgv_find(f, "W0");
    const rig_param          param = {
                 .name = "w", .rows = start->rows, .cols = start->cols, .layout = { .pad = 3 }
    };
    const int steps = (int)mgv_scalar(f, "nsteps");
    rig       r     = rig_make_with(dev, &cfg, dtype, &param, 1, 0);
    rig_set_weight(&r, 0, start->data);
    for (int step = 0; step < steps; step++) {
        rig_set_grad(&r, 0, record(f, &r, "%sG%d", "", step));
        rig_go(&r);
        double *w = rig_weight(&r, 0);
        check_close(w, record(f, &r, decay ? "%s.wd.W%d" : "%s.nowd.W%d", k->record, step + 1), &r,
                    file, k, "weight", step + 1);
        check_state(&r, f, file, k, step);
        free(w);
    }
    rig_free(&r);
}

static void run_all(ms_device *dev, musec_dtype dtype)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/golden/%s.mgv", check_data_dir(), files[i]);
        mgv_file f = mgv_load(path);
        for (size_t k = 0; k < COUNT(kinds); k++)
            for (int decay = 0; decay < 2; decay++)
                run_trajectory(dev, dtype, &f, files[i], &kinds[k], decay);
        for (size_t j = 0; j < f.n_records; j++)
            CHECK(f.records[j].used, "%s: no test reads %s", files[i], f.records[j].name);
        mgv_free(&f);
    }
}

TEST_EACH_DEVICE(trajectories_agree_with_the_golden_ones_in_float64, dev)
{
    run_all(dev, MUSEC_F64);
}

TEST_EACH_DEVICE(trajectories_agree_with_the_golden_ones_in_float32, dev)
{
    run_all(dev, MUSEC_F32);
}

TEST(every_golden_trajectory_is_tested)
{
    const size_t n = mgv_count_files("traj_");
    CHECK(n == COUNT(files), "%zu files traj_*, %zu rows", n, COUNT(files));
}
