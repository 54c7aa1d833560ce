/* step_bench.c - one step of each optimizer over the matrices of a preset: `small` has 11 layers of
 * width w = 768, `medium` 16 of 1024 and `wide` 16 of 2048, each layer with Q, K, V and O of w x w
 * and an MLP of two matrices of 4w x w.  Weights are float32, with a copy in what activations are
 * in where the device has them in 16 bits, as in training.
 *
 * All optimizers see the same weights and gradients and go through the same products.  A gradient
 * is a signal of falling singular values, always the same, and fresh noise in turn, so that a
 * momentum comes to hold what a momentum does: some large directions above a bulk of noise.  The
 * first optimizer, which the others are compared with, is Muon with five quintic steps.  FLOPs are
 * those of the operator alone, r being the smaller and n the larger side; bytes are what the rest
 * reads and writes at least: gradient, state, weight and copy, once each. */
#include "step_bench.h"

#include <math.h>
#include <string.h>

#include "timing.h"

enum { PER_LAYER = 6, MAX_LAYERS = 16, MAX_OPTIONS = 4, QUICK_LAYERS = 2, SETS = 3, RANK = 64 };
enum { WARM_STEPS = 12 }; /* until the momentum is one */

static const struct {
    const char *name;
    int64_t     layers, width;
} presets[] = { { "small", 11, 768 }, { "medium", 16, 1024 }, { "wide", 16, 2048 } };

typedef struct kind {
    const char *name, *optimizer;
    const char *options[MAX_OPTIONS][2]; /* NULL ends */
    double      r3, n_r2;                /* FLOPs: r3 r^3 + n_r2 n r^2; 0: not counted */
    int         states;                  /* matrices that are kept for each */
    int         slow;                    /* only with --all */
} kind;

#define MODE(mode)                                   \
    {                                                \
        { "ns-mode", mode }, { "threshold", "0.25" } \
    }

static const kind kinds[] = {
    { "muon", "muon", { { NULL } }, 5.0, 15.0, 1, 0 },
    { "soft-musec fast", "soft-musec", MODE("fast"), 9.0, 3.0, 1, 0 },
    { "soft-musec paper", "soft-musec", MODE("paper"), 14.0, 3.0, 1, 0 },
    { "soft-musec paper7", "soft-musec", MODE("paper7"), 9.0, 3.0, 1, 0 },
    { "soft-musec accurate", "soft-musec", MODE("accurate"), 0.0, 0.0, 1, 0 },
    { "sgdm", "sgdm", { { NULL } }, 0.0, 0.0, 1, 0 },
    { "adamw", "adamw", { { NULL } }, 0.0, 0.0, 2, 0 },
    { "soft-musec literal",
      "soft-musec",
      { { "literal", "yes" }, { "threshold", "0.25" } },
      30.0,
      3.0,
      1,
      1 },
    { "musec", "musec", { { "threshold", "0.25" } }, 0.0, 0.0, 1, 1 },
};

typedef struct model {
    int64_t    layers, width, n, elems; /* n matrices */
    int        sets;
    musec_view weights[MAX_LAYERS * PER_LAYER], copies[MAX_LAYERS * PER_LAYER];
    musec_view grads[SETS][MAX_LAYERS * PER_LAYER];
} model;

typedef struct job {
    const model *m;
    musec_optim *optim;
    int          next; /* set of gradients */
} job;

static const struct {
    const char *name;
    musec_role  role;
    int64_t     heights; /* rows, in widths */
} layer[PER_LAYER] = {
    { "q", MUSEC_ROLE_QK, 1 }, { "k", MUSEC_ROLE_QK, 1 },   { "v", MUSEC_ROLE_VO, 1 },
    { "o", MUSEC_ROLE_VO, 1 }, { "up", MUSEC_ROLE_MLP, 4 }, { "down", MUSEC_ROLE_MLP, 4 },
};

/* ---- weights and gradients ------------------------------------------------------------------- */

static musec_status take(ms_bench *b, const model *m, musec_dtype dtype, musec_view *out)
{
    void        *data = NULL;
    char        *at;
    musec_status st;
    TRY(ms_scratch_bytes(b->d, (size_t)m->elems * ms_dtype_bytes(dtype), &data));
    at = data;
    for (int64_t i = 0; i < m->n; i++) {
        const int64_t rows = layer[i % PER_LAYER].heights * m->width;
        out[i]             = musec_view_dense(at, dtype, 1, rows, m->width);
        at += (size_t)(rows * m->width) * ms_dtype_bytes(dtype);
    }
done:
    return st;
}

/* grad <- signal + noise.  The signal is L diag(2 / k) R, L and R^T nearly orthonormal; the noise
 * has a norm of about 1. */
static musec_status draw_gradient(ms_bench *b, int64_t matrix, int set, ms_mat grad)
{
    const ms_device_ops *op   = b->d->ops;
    const ms_mark        mark = ms_arena_mark(&b->d->scratch);
    const double         rows = (double)grad.rows, cols = (double)grad.cols;
    const uint64_t       key = 1000 * (uint64_t)matrix;
    ms_mat               left, right, sizes;
    float                values[RANK];
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_mat(b->d, MUSEC_F32, 1, grad.rows, RANK, &left));
    TRY(ms_scratch_mat(b->d, MUSEC_F32, 1, RANK, grad.cols, &right));
    TRY(ms_scratch_mat(b->d, MUSEC_F32, 1, 1, RANK, &sizes));
    for (int k = 0; k < RANK; k++)
        values[k] = 2.0f / (float)(k + 1);
    TRY(op->upload(b->d, values, sizeof values, sizes.data));
    TRY(op->normal(b->d, key + 1, 0.0, 1.0 / sqrt(rows), left));
    TRY(op->normal(b->d, key + 2, 0.0, 1.0 / sqrt(cols), right));
    TRY(op->scale_rows(b->d, sizes, right));
    TRY(op->normal(b->d, key + 3 + (uint64_t)set, 0.0, 1.0 / (sqrt(rows) + sqrt(cols)), grad));
    TRY(op->gemm(b->d, 1.0, left, right, 1.0, grad));
    TRY(op->sync(b->d)); /* values are uploaded */
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

static musec_status make_model(ms_bench *b, model *m)
{
    const musec_dtype copy = b->d->kind->activations;
    musec_status      st   = MUSEC_OK;
    m->n                   = m->layers * PER_LAYER;
    m->elems               = 12 * m->layers * m->width * m->width;
    m->sets                = b->opt->quick ? 1 : SETS;
    TRY(take(b, m, MUSEC_F32, m->weights));
    if (copy != MUSEC_F32) TRY(take(b, m, copy, m->copies));
    for (int64_t i = 0; i < m->n; i++)
        TRY(b->d->ops->normal(b->d, 7 + (uint64_t)i, 0.0, 0.02, ms_mat_of(m->weights[i])));
    for (int64_t i = 0; i < m->n && copy != MUSEC_F32; i++)
        TRY(b->d->ops->copy(b->d, ms_mat_of(m->weights[i]), ms_mat_of(m->copies[i])));
    for (int s = 0; s < m->sets; s++) {
        TRY(take(b, m, MUSEC_F32, m->grads[s]));
        for (int64_t i = 0; i < m->n; i++)
            TRY(draw_gradient(b, i + 1, s, ms_mat_of(m->grads[s][i])));
    }
done:
    return st;
}

/* ---- steps ----------------------------------------------------------------------------------- */

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
                                    .weight = m->weights[i],
                                    .copy   = m->copies[i] };
        snprintf(name, sizeof name, "%lld.%s", (long long)(i / PER_LAYER),
                 layer[i % PER_LAYER].name);
        TRY(musec_optim_add(*out, &param, NULL));
    }
done:
    return st;
}

static musec_status run_step(ms_device *d, void *state)
{
    job *j = state;
    (void)d;
    j->next = (j->next + 1) % j->m->sets;
    return musec_optim_step(j->optim, j->m->grads[j->next], (size_t)j->m->n, 1.0);
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

static double bytes(const kind *k, const model *m)
{
    const double copy = m->copies[0].data != NULL ? (double)ms_dtype_bytes(m->copies[0].dtype) : 0;
    return (double)m->elems * (sizeof(float) * (3.0 + 2.0 * k->states) + copy);
}

/* Those that are asked for, each with its own state and a momentum that has settled. */
static musec_status make_jobs(ms_bench *b, const model *m, const char *shape, job *jobs,
                              ms_candidate *c, const kind **chosen, int *n)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (i > 0 &&
            (!ms_bench_wanted(b, "step", kinds[i].name, shape) || (kinds[i].slow && !b->opt->all)))
            continue;
        chosen[*n] = &kinds[i];
        jobs[*n].m = m;
        c[*n]      = (ms_candidate){ .run = run_step, .state = &jobs[*n] };
        TRY(make_optim(b, &kinds[i], m, &jobs[*n].optim));
        for (int k = 0; k < WARM_STEPS && !ms_is_on_host(b->d) && !kinds[i].slow; k++)
            TRY(run_step(b->d, &jobs[*n]));
        (*n)++;
    }
done:
    return st;
}

static musec_status choose(ms_bench *b, model *m)
{
    const char *preset = b->opt->preset != NULL ? b->opt->preset : presets[0].name;
    for (size_t i = 0; i < COUNT(presets); i++)
        if (strcmp(preset, presets[i].name) == 0) {
            m->layers = b->opt->quick ? QUICK_LAYERS : presets[i].layers;
            m->width  = presets[i].width;
            return MUSEC_OK;
        }
    return ms_fail(&b->d->error, MUSEC_EINVAL,
                   "the preset is \"%s\"; it must be one of small, "
                   "medium, wide",
                   preset);
}

static musec_status run_all(ms_bench *b)
{
    const ms_mark mark = ms_arena_mark(&b->d->scratch);
    const kind   *chosen[COUNT(kinds)];
    job           jobs[COUNT(kinds)] = { { 0 } };
    ms_candidate  c[COUNT(kinds)]    = { { 0 } };
    model         m                  = { 0 };
    char          shape[64];
    int           n  = 0;
    musec_status  st = MUSEC_OK;

    TRY(choose(b, &m));
    snprintf(shape, sizeof shape, "%lld layers of %lld, f32", (long long)m.layers,
             (long long)m.width);
    ms_bench_heading(b, "optimizer steps, five Newton-Schulz steps where they have steps");
    ms_log_progress(b->log, "step: %s", shape);
    TRY(make_model(b, &m));
    TRY(make_jobs(b, &m, shape, jobs, c, chosen, &n));
    TRY(ms_time_group(b->d, c, n, b->rounds));
    for (int i = 0; i < n; i++)
        ms_bench_row(b, &(ms_bench_figure){ .section = "step",
                                            .name    = chosen[i]->name,
                                            .shape   = shape,
                                            .ms      = c[i].ms,
                                            .dtype   = b->d->kind->operands,
                                            .flops   = flops(chosen[i], &m),
                                            .bytes   = bytes(chosen[i], &m),
                                            .ratio   = c[i].ratio,
                                            .against = kinds[0].name });
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
