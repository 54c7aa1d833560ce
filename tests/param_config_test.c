/* param_config_test.c - learning rates and weight decays of single parameters.
 *
 * A parameter with settings must move like in an optimizer that has this parameter alone and the
 * settings as its own.  AdamW on a vector is also computed from its formula. */
#include "check.h"
#include "scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim_rig.h"

enum { A, B, V, N }; /* of one shape, so that A and B go through the optimizer as one stack */

static const rig_param model[N] = {
    { .name = "a", .role = MUSEC_ROLE_QK, .rows = 6, .cols = 9 },
    { .name = "b", .role = MUSEC_ROLE_MLP, .rows = 6, .cols = 9, .lr_factor = 2.0 },
    { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9 },
};

static void set(rig *r, size_t p, double lr, double decay)
{
    musec_param_config cfg;
    CHECK(musec_param_config_init(&cfg, sizeof cfg) == MUSEC_OK, "init");
    cfg.lr           = lr;
    cfg.weight_decay = decay;
    CHECK_OK(r->dev, musec_optim_set_param(r->opt, p, &cfg));
}

/* ---- effect ---------------------------------------------------------------------------------- */

/* A has the optimizer's own settings, B sets both, V sets the weight decay alone. */
static void check_against_own_optimizers(ms_device *dev, const char *name, const char *form,
                                         musec_dtype dtype)
{
    static const char *const alone[N] = {
        "lr=0.1 weight-decay=0.2",
        "lr=0.03 weight-decay=0.7",
        "aux-lr=0.01 aux-weight-decay=0",
    };
    rig together = rig_makef(dev, dtype, model, N, 5, name,
                             "decay-form=%s %s aux-lr=0.01 aux-weight-decay=0.3", form, alone[A]);
    set(&together, B, 0.03, 0.7);
    set(&together, V, MUSEC_UNSET, 0.0);
    rig_steps(&together, 0, 4);
    for (size_t p = 0; p < N; p++) {
        rig own = rig_makef(dev, dtype, &model[p], 1, 5, name, "decay-form=%s %s", form, alone[p]);
        rig_steps(&own, 0, 4);
        CHECK(rig_alike(&together, p, &own, 0), "%s, decay-form %s, %s: %s differs", name, form,
              ms_dtype_name(dtype), model[p].name);
        rig_free(&own);
    }
    rig_free(&together);
}

TEST_EACH_DEVICE(settings_match_an_optimizer_of_that_parameter, dev)
{
    const char *name;
    for (size_t i = 0; (name = musec_optim_name(i, NULL)) != NULL; i++)
        for (size_t k = 0; rig_decay_forms[k] != NULL; k++)
            EACH_DTYPE_OF(dev, dtype, MUSEC_F64)
    check_against_own_optimizers(dev, name, rig_decay_forms[k], dtype);
}

TEST_EACH_DEVICE(changes_take_effect_at_the_next_step, dev)
{
    rig changed = rig_make(dev, "muon", "lr=0.1 weight-decay=0.2", MUSEC_F64, model, 1, 3);
    rig scaled  = rig_make(dev, "muon", "lr=0.1 weight-decay=0.2", MUSEC_F64, model, 1, 3);
    rig_steps(&changed, 0, 2);
    rig_steps(&scaled, 0, 2);
    set(&changed, A, 0.05, MUSEC_UNSET); /* half of it: a scale of 0.5 says the same */
    rig_step(&changed, 2, 1.0);
    rig_set_grads(&scaled, 2, 1.0);
    CHECK_OK(dev, rig_try(&scaled, 0.5));
    CHECK(rig_same_weight(&changed, A, &scaled, A), "half the rate");
    set(&changed, A, MUSEC_UNSET, MUSEC_UNSET);
    rig_step(&changed, 3, 1.0);
    rig_step(&scaled, 3, 1.0);
    CHECK(rig_same_weight(&changed, A, &scaled, A), "the full rate again");
    rig_free(&changed), rig_free(&scaled);
}

/* A rate of 0 freezes a parameter; its momentum is still updated, as under a schedule that falls
 * to 0. */
TEST_EACH_DEVICE(a_rate_of_0_freezes_the_weight_but_not_its_momentum, dev)
{
    rig r = rig_make(dev, "soft-musec", "weight-decay=0.5", MUSEC_F64, model, 2, 9);
    set(&r, A, 0.0, MUSEC_UNSET);
    rig_steps(&r, 0, 3);
    double *m     = rig_state(&r, A, 0, "momentum", rig_elems(&r, A));
    double *moved = rig_weight(&r, B), *from = rig_start(&r, B);
    CHECK(rig_unmoved(&r, A), "it moved");
    CHECK(run_fro_diff(moved, from, rig_elems(&r, B)) > 1e-3, "the other one did not");
    CHECK(run_fro(m, rig_elems(&r, A)) > 0.0, "no momentum");
    free(m), free(moved), free(from);
    rig_free(&r);
}

/* Decoupled decay and the moments of AdamW by their formulas:
 *     W <- W - lr wd W - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) */
TEST_EACH_DEVICE(a_vector_follows_the_formula_of_adamw, dev)
{
    const double lr = 0.02, wd = 0.1, b1 = 0.9, b2 = 0.95, eps = 1e-8;
    enum { STEPS = 5 };
    rig r = rig_make(dev, "soft-musec", "aux-lr=7 aux-weight-decay=9", MUSEC_F64, &model[V], 1, 11);
    set(&r, 0, lr, wd);
    const int64_t n = rig_elems(&r, 0);
    double       *w = rig_start(&r, 0), *m = check_alloc((size_t)n * sizeof *m),
           *v = check_alloc((size_t)n * sizeof *v);
    for (int t = 1; t <= STEPS; t++) {
        double *g = rig_normal(&r, 0, t - 1);
        for (int64_t i = 0; i < n; i++) {
            m[i] = b1 * m[i] + (1.0 - b1) * g[i];
            v[i] = b2 * v[i] + (1.0 - b2) * g[i] * g[i];
            w[i] -= lr * wd * w[i] +
                    lr * (m[i] / (1.0 - pow(b1, t))) / (sqrt(v[i] / (1.0 - pow(b2, t))) + eps);
        }
        free(g);
    }
    rig_steps(&r, 0, STEPS);
    double *got = rig_weight(&r, 0);
    for (int64_t i = 0; i < n; i++) /* some 10 roundings a step, of numbers up to 4 */
        CHECK(fabs(got[i] - w[i]) <= STEPS * 10 * 4 * 0x1p-53, "element %d: %.17g, not %.17g",
              (int)i, got[i], w[i]);
    free(w), free(m), free(v), free(got);
    rig_free(&r);
}

/* The state file does not hold settings: a run resumes with the same bits only if the program sets
 * them again. */
TEST_EACH_DEVICE(settings_are_not_in_the_state_file, dev)
{
    static const char options[] = "lr=0.1 weight-decay=0.2";
    const char       *path      = tmp_path("state.safetensors");
    rig               whole     = rig_make(dev, "soft-musec", options, MUSEC_F64, model, N, 2);
    set(&whole, B, 0.03, 0.0);
    rig_steps(&whole, 0, 2);
    CHECK_OK(dev, musec_optim_save(whole.opt, path));
    for (int again = 0; again < 2; again++) {
        rig go = rig_make(dev, "soft-musec", options, MUSEC_F64, model, N, 2);
        rig_copy_weights(&whole, &go);
        CHECK_OK(dev, musec_optim_load(go.opt, path));
        if (again == 1) {
            set(&go, B, 0.03, 0.0);
            rig_steps(&whole, 2, 2);
        }
        rig_steps(&go, 2, 2);
        CHECK(again == 0 || rig_same_weight(&whole, B, &go, B), "set again, it differs");
        CHECK(again == 1 || !rig_same_weight(&whole, B, &go, B), "the file held them");
        rig_free(&go);
    }
    rig_free(&whole);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(rig *r, size_t index, const musec_param_config *cfg, musec_status status,
                    const char *words)
{
    musec_param_config before, after;
    CHECK_OK(r->dev, musec_optim_get_param(r->opt, A, &before, sizeof before));
    const musec_status st = musec_optim_set_param(r->opt, index, cfg);
    CHECK(st == status, "%s: %s", words, musec_status_name(st));
    CHECK(strstr(musec_ctx_error(r->dev), words) != NULL, "%s", musec_ctx_error(r->dev));
    CHECK_OK(r->dev, musec_optim_get_param(r->opt, A, &after, sizeof after));
    CHECK(before.lr == after.lr && before.weight_decay == after.weight_decay, "%s: changed", words);
}

TEST_EACH_DEVICE(wrong_settings_are_refused_with_a_message, dev)
{
    static const double wrong[] = { -0.1, -2.0, 2e9, INFINITY, -INFINITY, NAN };
    struct {
        musec_param_config cfg;
        double             more;
    } newer;
    musec_param_config cfg;
    rig                r = rig_make(dev, "muon", "", MUSEC_F64, model, 1, 1);
    set(&r, A, 0.25, 0.5);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        (void)musec_param_config_init(&cfg, sizeof cfg);
        cfg.lr = wrong[i];
        refused(&r, A, &cfg, MUSEC_EINVAL, "a: lr is ");
        cfg.lr           = 0.1;
        cfg.weight_decay = wrong[i];
        refused(&r, A, &cfg, MUSEC_EINVAL, "a: weight_decay is ");
    }
    (void)musec_param_config_init(&cfg, sizeof cfg);
    refused(&r, 1, &cfg, MUSEC_EINVAL, "there is no parameter 1; there are 1");
    refused(&r, A, NULL, MUSEC_EINVAL, "musec_param_config_init()");
    cfg.reserved = 1;
    refused(&r, A, &cfg, MUSEC_ENOTSUP, musec_version());
    cfg.size = MUSEC_PARAM_CONFIG_SIZE_1 - 1;
    refused(&r, A, &cfg, MUSEC_EINVAL, "musec_param_config_init()");
    CHECK(musec_param_config_init(&newer.cfg, sizeof newer) == MUSEC_OK && newer.more == 0.0,
          "a later version's");
    CHECK_OK(dev, musec_optim_set_param(r.opt, A, &newer.cfg));
    newer.more = 1.0;
    refused(&r, A, &newer.cfg, MUSEC_ENOTSUP, musec_version());
    CHECK(musec_param_config_init(&cfg, MUSEC_PARAM_CONFIG_SIZE_1 - 1) == MUSEC_EINVAL, "small");
    CHECK(musec_param_config_init(NULL, sizeof cfg) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_set_param(NULL, 0, &cfg) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_get_param(NULL, 0, &cfg, sizeof cfg) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_get_param(r.opt, 3, &cfg, sizeof cfg) == MUSEC_EINVAL, "index 3");
    CHECK(musec_optim_get_param(r.opt, 0, &cfg, 4) == MUSEC_EINVAL, "4 bytes");
    rig_free(&r);
}

TEST_EACH_DEVICE(the_description_names_parameter_settings, dev)
{
    char text[4096];
    rig  r = rig_make(dev, "muon", "", MUSEC_F64, model, N, 1);
    musec_optim_describe(r.opt, text, sizeof text);
    CHECK(strstr(text, "; lr 0") == NULL && strstr(text, "; weight decay") == NULL, "%s", text);
    set(&r, B, 0.03, MUSEC_UNSET);
    set(&r, V, MUSEC_UNSET, 0.0);
    musec_optim_describe(r.opt, text, sizeof text);
    CHECK(strstr(text, "b: role mlp, muon; 1 x (6 x 9) factor 1; lr 0.03; lr times 2\n") != NULL,
          "%s", text);
    CHECK(strstr(text, "v: role vector, adamw; 1 x (1 x 9); weight decay 0\n") != NULL, "%s", text);
    rig_free(&r);
}
