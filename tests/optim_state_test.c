/* optim_state_test.c - the state file of an optimizer: a run that resumes from it has the same
 * bits, and a file that does not match is refused and changes nothing. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "optim/optim.h"
#include "optim_rig.h"
#include "scratch.h"

static const musec_block halves[] = {
    { .offset = 0, .rows = 4, .cols = 6, .row_step = 6, .group_rows = 2, .group_step = 24 },
    { .offset = 12, .rows = 4, .cols = 6, .row_step = 6, .group_rows = 2, .group_step = 24 },
};
static const rig_param model[] = {
    { .name = "plain", .rows = 6, .cols = 8, .layout = { .pad = 2 } },
    { .name     = "fused",
      .role     = MUSEC_ROLE_QK,
      .rows     = 8,
      .cols     = 6,
      .blocks   = halves,
      .n_blocks = 2 },
    { .name = "experts", .role = MUSEC_ROLE_MLP, .rows = 4, .cols = 6, .layout = { .more = 2 } },
    { .name = "odd \"name\" \\ of/it", .role = MUSEC_ROLE_HEAD, .rows = 6, .cols = 8 },
};

/* All weights and states of an optimizer, in the order of parameters; malloc'ed. */
static double *snapshot(rig *r, bool averages, int64_t *n)
{
    static const char *const states[] = { "average", "momentum", "m", "v", "slow" };
    double                  *all      = check_alloc(4096 * sizeof *all);
    *n                                = 0;
    for (size_t p = 0; p < r->n; p++) {
        double *w = rig_weight(r, p);
        memcpy(all + *n, w, (size_t)rig_elems(r, p) * sizeof *w);
        *n += rig_elems(r, p);
        free(w);
        for (int64_t b = 0; b < 3; b++) {
            double host[64];
            for (size_t s = averages ? 0 : 1; s < COUNT(states); s++) {
                const rig_param *param  = &r->params[p];
                const int64_t    blocks = param->n_blocks > 0 ? 2 : 1;
                const int64_t    matrix = param->rows * param->cols / blocks;
                const int64_t    n_here = blocks + param->layout.more;
                const size_t     bytes  = (size_t)matrix * ms_dtype_bytes(r->dtype);
                const bool       there =
                    musec_optim_get_state(r->opt, p, b, states[s], host, bytes) == MUSEC_OK;
                CHECK(s > 0 || there == (b < n_here), "the average of matrix %d", (int)b);
                if (!there) continue;
                memcpy(all + *n, host, bytes);
                *n += matrix;
            }
        }
    }
    CHECK(*n <= 4096, "%d numbers", (int)*n);
    return all;
}

static bool same_everything(rig *a, rig *b, bool averages)
{
    int64_t    n = 0, m = 0;
    double    *x = snapshot(a, averages, &n), *y = snapshot(b, averages, &m);
    const bool same = n == m && run_same_bits(x, y, n) &&
                      musec_optim_steps(a->opt) == musec_optim_steps(b->opt) &&
                      musec_optim_skipped(a->opt) == musec_optim_skipped(b->opt);
    free(x), free(y);
    return same;
}

/* Gives `to` the state and the weights of `from`, the state by way of a file. */
static void resume(ms_device *dev, rig *from, rig *to)
{
    const char *path = tmp_path("resume.safetensors");
    CHECK_OK(dev, musec_optim_save(from->opt, path));
    CHECK_OK(dev, musec_optim_load(to->opt, path));
    rig_copy_weights(from, to);
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* In steps 1 and 2 "plain" has no gradient; behind step 1 another step is skipped. */
static void some_steps(rig *r, int64_t first, int64_t last)
{
    for (int64_t step = first; step < last; step++) {
        r->without[0] = step == 1 || step == 2;
        rig_step(r, step, 1.0);
        if (step != 1) continue;
        double *bad = rig_normal(r, 3, 0);
        bad[5]      = INFINITY;
        rig_set_grad(r, 3, bad);
        rig_go(r);
        free(bad);
    }
}

static void check_resumed(ms_device *dev, const musec_optim_config *cfg, musec_dtype dtype,
                          const char *what)
{
    const bool averages = cfg->avg_steps > 0;
    rig        through  = rig_make_with(dev, cfg, dtype, model, COUNT(model), 1);
    rig        before   = rig_make_with(dev, cfg, dtype, model, COUNT(model), 1);
    rig        after    = rig_make_with(dev, cfg, dtype, model, COUNT(model), 1);
    some_steps(&through, 0, 5);
    some_steps(&before, 0, 3);
    resume(dev, &before, &after);
    CHECK(same_everything(&before, &after, averages), "%s: what was loaded was not saved", what);
    CHECK(musec_optim_steps(after.opt) == 3 && musec_optim_skipped(after.opt) == 1,
          "%s: %lld steps and %lld skipped", what, (long long)musec_optim_steps(after.opt),
          (long long)musec_optim_skipped(after.opt));
    some_steps(&after, 3, 5);
    CHECK(same_everything(&through, &after, averages), "%s: the resumed run differs", what);
    rig_free(&through), rig_free(&before), rig_free(&after);
}

TEST_EACH_DEVICE(a_resumed_run_has_the_same_bits, dev)
{
    static const char *const options[] = {
        "nonfinite=skip weight-decay=0.1 alpha-warmup=4 beta3-warmup=6",
        "nonfinite=skip nesterov=yes momentum-init=zero momentum-form=heavy-ball",
        "nonfinite=skip avg-steps=2 avg-epochs=2 seed=0 report-every=2",
        "nonfinite=skip avg-steps=2 avg-epochs=2 seed=1",
        "nonfinite=skip avg-steps=2 avg-epochs=2 seed=2",
        "nonfinite=skip avg-steps=2 avg-epochs=2 seed=3",
        "nonfinite=skip threshold=quantile:0.6 update-scale=unit report-every=2",
        "nonfinite=skip precondition-every=2 max-precond-dim=7",
    };
    for (size_t k = 0; musec_optim_name(k, NULL) != NULL; k++)
        for (size_t o = 0; o < COUNT(options); o++) {
            const musec_optim_config cfg = rig_config(musec_optim_name(k, NULL), options[o]);
            check_resumed(dev, &cfg, (k + o) % 2 == 0 ? MUSEC_F32 : MUSEC_F64, cfg.name);
        }
}

TEST_EACH_DEVICE(spectra_resumes_over_every_base, dev)
{
    char base[32];
    int  n = 0;
    for (;; n++) {
        ms_choice_text(ms_base_choices, n, base, sizeof base);
        if (base[0] == '\0') break;
        musec_optim_config cfg = rig_config("spectra", "nonfinite=skip threshold=0.5 ns-mode=fast");
        CHECK(musec_optim_config_set(&cfg, "base", base) == MUSEC_OK, "%s", base);
        check_resumed(dev, &cfg, MUSEC_F32, base);
    }
    CHECK(n >= 4, "%d bases", n);
}

/* ---- momentum forms -------------------------------------------------------------------------- */

/* Heavy-ball momentum is the average divided by beta.  With a power of two the conversion is exact
 * either way, and a run that changes to the other form in the middle, with (D / beta, eta beta),
 * has the bits of one that does not. */
TEST_EACH_DEVICE(loading_converts_the_momentum_to_the_other_form, dev)
{
    musec_optim_config ema =
        rig_config("soft-musec", "lr=0.4 beta=0.0625 threshold=0.25 ns-mode=fast");
    musec_optim_config heavy = ema;
    heavy.momentum_form      = 1;
    heavy.threshold          = ema.threshold / ema.beta;
    heavy.lr                 = ema.lr * ema.beta;
    for (int way = 0; way < 2; way++) {
        const musec_optim_config *from = way == 0 ? &ema : &heavy, *to = way == 0 ? &heavy : &ema;
        rig                       through = rig_make_with(dev, from, MUSEC_F32, model, 3, 2);
        rig                       before  = rig_make_with(dev, from, MUSEC_F32, model, 3, 2);
        rig                       after   = rig_make_with(dev, to, MUSEC_F32, model, 3, 2);
        rig_steps(&through, 0, 6), rig_steps(&before, 0, 3);
        resume(dev, &before, &after);
        double *m = rig_state(&before, 0, 0, "momentum", 48);
        double *c = rig_state(&after, 0, 0, "momentum", 48);
        for (int e = 0; e < 48; e++)
            m[e] *= way == 0 ? 16.0 : 0.0625;
        CHECK(run_same_bits(m, c, 48), "way %d", way);
        rig_steps(&after, 3, 3);
        rig_check_same(&through, &after, "to", way == 0 ? "heavy-ball" : "ema");
        free(m), free(c);
        rig_free(&through), rig_free(&before), rig_free(&after);
    }
}

/* ---- beta ------------------------------------------------------------------------------------ */

/* A beta that is set between steps gives the bits of a new optimizer with that beta that loads the
 * same state. */
TEST_EACH_DEVICE(beta_may_change_between_steps, dev)
{
    static const char *const names[] = { "soft-musec", "muon", "signum" };
    for (size_t i = 0; i < COUNT(names); i++) {
        rig changed = rig_make(dev, names[i], "beta=0.3", MUSEC_F32, model, COUNT(model), 1);
        rig same    = rig_make(dev, names[i], "beta=0.3", MUSEC_F32, model, COUNT(model), 1);
        rig fresh   = rig_make(dev, names[i], "beta=0.1", MUSEC_F32, model, COUNT(model), 1);
        rig_steps(&changed, 0, 3), rig_steps(&same, 0, 3);
        resume(dev, &changed, &fresh);
        CHECK_OK(dev, musec_optim_set_beta(changed.opt, 0.1));
        rig_steps(&changed, 3, 3), rig_steps(&fresh, 3, 3), rig_steps(&same, 3, 3);
        CHECK(same_everything(&changed, &fresh, false), "%s: a new one differs", names[i]);
        CHECK(!same_everything(&changed, &same, false), "%s: beta changed nothing", names[i]);
        rig_free(&changed), rig_free(&same), rig_free(&fresh);
    }
}

TEST_EACH_DEVICE(an_invalid_beta_is_refused_and_changes_nothing, dev)
{
    static const double bad[] = {
        NAN, -1.0, 2.0, INFINITY, -INFINITY, -1e-300, 1.0000000000000002
    };
    rig a = rig_make(dev, "soft-musec", "", MUSEC_F32, model, COUNT(model), 1);
    rig b = rig_make(dev, "soft-musec", "", MUSEC_F32, model, COUNT(model), 1);
    rig_steps(&a, 0, 2), rig_steps(&b, 0, 2);
    for (size_t i = 0; i < COUNT(bad); i++) {
        dev->error.text[0] = '\0';
        CHECK(musec_optim_set_beta(a.opt, bad[i]) == MUSEC_EINVAL, "%g", bad[i]);
        CHECK(strstr(musec_ctx_error(dev), "beta") != NULL, "said \"%s\"", musec_ctx_error(dev));
    }
    rig_steps(&a, 2, 2), rig_steps(&b, 2, 2);
    CHECK(same_everything(&a, &b, false), "a refused beta changed something");
    CHECK_OK(dev, musec_optim_set_beta(a.opt, 0.0));
    CHECK_OK(dev, musec_optim_set_beta(a.opt, 1.0));
    CHECK(musec_optim_set_beta(NULL, 0.1) == MUSEC_EINVAL, "NULL");
    rig_free(&a), rig_free(&b);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Optimizers that must refuse the file of "soft-musec" over others[0..1] in float32. */
static const struct {
    const char *what, *name, *options;
    musec_dtype dtype;
    size_t      first, n; /* of others[] */
} refusals[] = {
    { "rule", "musec", "", MUSEC_F32, 0, 2 },
    { "base", "spectra", "base=adamw", MUSEC_F32, 0, 2 },
    { "dtype", "soft-musec", "", MUSEC_F64, 0, 2 },
    { "average", "soft-musec", "avg-steps=3", MUSEC_F32, 0, 2 },
    { "shape", "soft-musec", "", MUSEC_F32, 2, 2 },
    { "one parameter fewer", "soft-musec", "", MUSEC_F32, 0, 1 },
    { "another name", "soft-musec", "", MUSEC_F32, 4, 2 },
    { "other blocks", "soft-musec", "", MUSEC_F32, 6, 2 },
};
static const rig_param others[] = {
    { .name = "a", .rows = 6, .cols = 8 },
    { .name = "b", .rows = 8, .cols = 6, .blocks = halves, .n_blocks = 2 },
    { .name = "a", .rows = 8, .cols = 6 }, /* the transposed shape */
    { .name = "b", .rows = 8, .cols = 6, .blocks = halves, .n_blocks = 2 },
    { .name = "a", .rows = 6, .cols = 8 },
    { .name = "c", .rows = 8, .cols = 6, .blocks = halves, .n_blocks = 2 },
    { .name = "a", .rows = 6, .cols = 8 },
    { .name = "b", .rows = 8, .cols = 6 },
};

static void check_refused(rig *r, const char *path, const char *what, musec_status want)
{
    const bool averages = strcmp(what, "average") == 0;
    int64_t    n = 0, m = 0;
    double    *before        = snapshot(r, averages, &n);
    r->dev->error.text[0]    = '\0';
    const musec_status st    = musec_optim_load(r->opt, path);
    double            *after = snapshot(r, averages, &m);
    CHECK(st == want, "%s: %s", what, musec_status_name(st));
    CHECK(strlen(musec_ctx_error(r->dev)) > 10, "%s: said \"%s\"", what, musec_ctx_error(r->dev));
    CHECK(n == m && run_same_bits(before, after, n), "%s: something was changed", what);
    CHECK(musec_optim_steps(r->opt) == 2, "%s: the steps were changed", what);
    free(before), free(after);
}

TEST_EACH_DEVICE(a_state_of_another_optimizer_is_refused, dev)
{
    const char *path  = tmp_path("refused.safetensors");
    rig         saved = rig_make(dev, "soft-musec", "", MUSEC_F32, others, 2, 1);
    rig_steps(&saved, 0, 3);
    CHECK_OK(dev, musec_optim_save(saved.opt, path));
    for (size_t c = 0; c < COUNT(refusals); c++) {
        rig r = rig_make(dev, refusals[c].name, refusals[c].options, refusals[c].dtype,
                         others + refusals[c].first, refusals[c].n, 2);
        rig_steps(&r, 0, 2);
        check_refused(&r, path, refusals[c].what, MUSEC_EFORMAT);
        rig_free(&r);
    }
    rig_free(&saved);
}

/* The ratio of a quantile in a file is taken by an optimizer with that quantile, and with any other
 * threshold it is as if there were none.  Step 18 keeps the ratio of step 17. */
TEST_EACH_DEVICE(a_quantile_is_taken_for_itself_alone, dev)
{
    static const char *const thresholds[] = { "quantile:0.6", "quantile:0.3", "rms:0.6", "0.6" };
    const char              *path         = tmp_path("quantiles.safetensors");
    rig saved = rig_make(dev, "soft-musec", "threshold=quantile:0.6", MUSEC_F32, others, 2, 1);
    rig_steps(&saved, 0, 17);
    CHECK_OK(dev, musec_optim_save(saved.opt, path));
    for (size_t i = COUNT(thresholds); i-- > 0;) {
        rig r =
            rig_makef(dev, MUSEC_F32, others, 2, 1, "soft-musec", "threshold=%s", thresholds[i]);
        CHECK_OK(dev, musec_optim_load(r.opt, path));
        const double got = r.opt->groups[0].quantile[0], want = saved.opt->groups[0].quantile[0];
        CHECK(want > 0.0 && got == (i == 0 ? want : 0.0), "%s: %g, saved %g", thresholds[i], got,
              want);
        rig_copy_weights(&saved, &r);
        rig_step(&r, 17, 1.0);
        if (i == 0) {
            rig_step(&saved, 17, 1.0);
            rig_check_same(&saved, &r, "soft-musec", thresholds[i]);
            CHECK(r.opt->groups[0].quantile[0] == got, "it was estimated again");
        }
        rig_free(&r);
    }
    rig_free(&saved);
}

TEST_EACH_DEVICE(a_damaged_quantile_is_refused, dev)
{
    static const char *const damages[] = { "x", "-", "1e9", "0.6x", "0.6 x", "0.6 -" };
    static const char        at[]      = "quantile of a/0";
    const char              *path      = tmp_path("quantile.safetensors");
    blob                     b;
    rig r = rig_make(dev, "soft-musec", "threshold=quantile:0.6", MUSEC_F32, others, 2, 1);
    rig_steps(&r, 0, 2);
    CHECK_OK(dev, musec_optim_save(r.opt, path));
    get_file(path, &b);
    size_t begin = 0;
    while (begin + sizeof at < b.n && memcmp(b.p + begin, at, strlen(at)) != 0)
        begin++;
    CHECK(begin + 64 < b.n, "there is no quantile");
    begin += strlen(at) + 3; /* ":" and the quotes */
    size_t end = begin;
    while (b.p[end] != '"')
        end++;
    for (size_t i = 0; i < COUNT(damages); i++) { /* the header keeps its length */
        memset(b.p + begin, '9', end - begin);
        memcpy(b.p + begin, damages[i], strlen(damages[i]));
        put_file(path, b.p, b.n);
        CHECK_FAILS(&dev->error, musec_optim_load(r.opt, path), MUSEC_EFORMAT, at);
        check_refused(&r, path, damages[i], MUSEC_EFORMAT);
    }
    rig_free(&r);
}

TEST_EACH_DEVICE(truncated_and_missing_files_are_refused, dev)
{
    static const double parts[] = { 0.0, 0.001, 0.1, 0.5, 0.9, 0.999 };
    const char         *path    = tmp_path("damaged.safetensors");
    blob                b;
    rig                 r = rig_make(dev, "soft-musec", "", MUSEC_F32, others, 2, 1);
    rig_steps(&r, 0, 2);
    CHECK_OK(dev, musec_optim_save(r.opt, path));
    get_file(path, &b);
    CHECK(b.n > 100, "%zu bytes", b.n);
    for (size_t c = 0; c < COUNT(parts); c++) {
        put_file(path, b.p, (size_t)((double)b.n * parts[c]));
        check_refused(&r, path, "cut", MUSEC_EFORMAT);
    }
    put_file(path, b.p, b.n);
    CHECK_OK(dev, musec_optim_load(r.opt, path));
    check_refused(&r, tmp_path("missing.safetensors"), "missing", MUSEC_EIO);
    CHECK(musec_optim_load(NULL, path) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_save(r.opt, NULL) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_save(r.opt, tmp_path("no/such/folder.safetensors")) == MUSEC_EIO,
          "a missing folder");
    rig_free(&r);
}
