/* step_bench.c - one step of each optimizer over the matrices of the `small` preset: 11 layers of
 * width 768, each with Q, K, V and O of 768 x 768 and an MLP of 3072 x 768 and 768 x 3072, float32.
 *
 * All optimizers see the same weights and gradients and go through the same products.  The first,
 * which the others are compared with, is Muon with five quintic steps.  FLOPs are those of the
 * operator alone, r being the smaller and n the larger side; the rest of a step reads and writes
 * every element a few times: sgdm, which has no operator, shows how long that takes. */
#include "step_bench.h"

#include <string.h>

#include "timing.h"

enum { LAYERS = 11, QUICK_LAYERS = 2, WIDTH = 768, HIDDEN = 3072, PER_LAYER = 6, MAX_OPTIONS = 4 };

typedef struct kind {
    const char *name, *optimizer;
    const char *options[MAX_OPTIONS][2]; /* NULL ends */
    double      r3, n_r2;                /* FLOPs: r3 r^3 + n_r2 n r^2; 0: not counted */
    int         slow;                    /* only with --all */
} kind;

/* Thresholds so that about the upper half of the spectrum is clipped, as in op_bench.c. */
static const kind kinds[] = {
    { "muon", "muon", { { NULL } }, 5.0, 15.0, 0 },
    { "soft-musec fast",
      "soft-musec",
      { { "ns-mode", "fast" }, { "threshold", "0.25" } },
      9.0,
      3.0,
      0 },
    { "soft-musec paper", "soft-musec", { { "threshold", "0.25" } }, 14.0, 3.0, 0 },
    { "sgdm", "sgdm", { { NULL } }, 0.0, 0.0, 0 },
    { "soft-musec literal",
      "soft-musec",
      { { "literal", "yes" }, { "threshold", "0.25" } },
      30.0,
      3.0,
      1 },
    { "musec", "musec", { { "threshold", "0.25" } }, 0.0, 0.0, 1 },
};

typedef struct model {
    int64_t    n; /* matrices */
    musec_view weights[LAYERS * PER_LAYER], grads[LAYERS * PER_LAYER];
} model;

typedef struct job {
    const model *m;
    musec_optim *optim;
} job;

static const struct {
    const char *name;
    musec_role  role;
    int64_t     rows, cols;
} layer[PER_LAYER] = {
    { "q", MUSEC_ROLE_QK, WIDTH, WIDTH },    { "k", MUSEC_ROLE_QK, WIDTH, WIDTH },
    { "v", MUSEC_ROLE_VO, WIDTH, WIDTH },    { "o", MUSEC_ROLE_VO, WIDTH, WIDTH },
    { "up", MUSEC_ROLE_MLP, HIDDEN, WIDTH }, { "down", MUSEC_ROLE_MLP, WIDTH, HIDDEN },
};

static musec_status make_model(ms_bench *b, int64_t layers, model *m)
{
    musec_status st = MUSEC_OK;
    m->n            = layers * PER_LAYER;
    for (int64_t i = 0; i < m->n; i++) {
        const int64_t rows = layer[i % PER_LAYER].rows, cols = layer[i % PER_LAYER].cols;
        ms_mat        w, g;
        TRY(ms_bench_random(b, 1, rows, cols, 0.02, &w));
        TRY(ms_bench_random(b, 1, rows, cols, 0.02, &g)); /* the spectral norm is 1 to 2 */
        m->weights[i]    = musec_view_dense(w.data, MUSEC_F32, 1, rows, cols);
        m->grads[i]      = musec_view_dense(g.data, MUSEC_F32, 1, rows, cols);
        m->weights[i].ld = w.ld;
        m->grads[i].ld   = g.ld;
    }
done:
    return st;
}

static musec_status make_optim(ms_bench *b, const kind *k, const model *m, musec_optim **out)
{
    musec_optim_config cfg;
    musec_status       st = MUSEC_OK;
    TRY(musec_optim_config_init(&cfg, sizeof cfg, k->optimizer));
    cfg.lr = 1e-6; /* the weights stay what they are, whoever steps how often */
    for (int i = 0; i < MAX_OPTIONS && k->options[i][0] != NULL; i++)
        TRY(musec_optim_config_set(&cfg, k->options[i][0], k->options[i][1]));
    TRY(musec_optim_create(out, b->d, &cfg));
    for (int64_t i = 0; i < m->n; i++) {
        char              name[32];
        const musec_param param = { .name   = name,
                                    .role   = layer[i % PER_LAYER].role,
                                    .weight = m->weights[i] };
        snprintf(name, sizeof name, "%lld.%s", (long long)(i / PER_LAYER),
                 layer[i % PER_LAYER].name);
        TRY(musec_optim_add(*out, &param, NULL));
    }
done:
    return st;
}

static musec_status run_step(ms_device *d, void *state)
{
    const job *j = state;
    (void)d;
    return musec_optim_step(j->optim, j->m->grads, (size_t)j->m->n, 1.0);
}

static double flops(const kind *k, const model *m)
{
    double sum = 0.0;
    for (int64_t i = 0; i < m->n; i++) {
        const double rows = (double)m->weights[i].rows, cols = (double)m->weights[i].cols;
        const double r = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
        sum += k->r3 * r * r * r + k->n_r2 * n * r * r;
    }
    return sum;
}

static musec_status run_all(ms_bench *b)
{
    const int64_t layers = b->opt->quick ? QUICK_LAYERS : LAYERS;
    const ms_mark mark   = ms_arena_mark(&b->d->scratch);
    const kind   *chosen[COUNT(kinds)];
    job           jobs[COUNT(kinds)] = { { 0 } };
    ms_candidate  c[COUNT(kinds)]    = { { 0 } };
    model         m;
    char          shape[64];
    int           n  = 0;
    musec_status  st = MUSEC_OK;

    snprintf(shape, sizeof shape, "%lld layers of %d, f32", (long long)layers, WIDTH);
    ms_bench_heading(b, "optimizer steps, five Newton-Schulz steps where they have steps");
    ms_log_progress(b->log, "step: %s", shape);
    TRY(make_model(b, layers, &m));
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (i > 0 &&
            (!ms_bench_wanted(b, "step", kinds[i].name, shape) || (kinds[i].slow && !b->opt->all)))
            continue;
        chosen[n]  = &kinds[i];
        jobs[n].m  = &m;
        c[n].run   = run_step;
        c[n].state = &jobs[n];
        TRY(make_optim(b, &kinds[i], &m, &jobs[n].optim));
        n++;
    }
    TRY(ms_time_group(b->d, c, n, b->rounds));
    for (int i = 0; i < n; i++)
        ms_bench_row(b, "step", chosen[i]->name, shape, c[i].ms,
                     1e-6 * flops(chosen[i], &m) / c[i].ms, 0.0, c[i].ratio, kinds[0].name);
done:
    for (size_t i = 0; i < COUNT(jobs); i++)
        musec_optim_destroy(jobs[i].optim);
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

musec_status ms_bench_step(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    return ms_bench_run(opt, log, out, run_all, error);
}
