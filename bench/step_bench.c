/* step_bench.c - one step of each optimizer over the matrices of a preset: `small` has 11 layers of
 * width w = 768, `medium` 16 of 1024 and `wide` 16 of 2048.  A layer has Q, K, V and O of w x w and
 * an MLP of two matrices of 4w x w.  Weights are float32, with a 16-bit compute copy where the
 * device has 16-bit activations, as in training.
 *
 * All optimizers see the same weights and gradients and use the same products.  A gradient is a
 * fixed signal of falling singular values plus one of several draws of noise, so that the momentum
 * looks like that of a run: some large directions above a bulk of noise.  The baseline is Muon with
 * five quintic steps.  Its orthogonalization alone is timed too, since that is what others publish.
 * FLOPs are those of the spectral function alone, r being the smaller and n the larger side; bytes
 * are the minimum that the rest reads and writes: gradient, state, weight and copy, once each.
 *
 * Thresholds by rule are timed with --all, beside the same optimizer with a fixed one.  After 256
 * steps, which a GPU makes first, a quantile is estimated at every 32nd, so such steps are timed 32
 * at a time.
 *
 * With --run the matrices, gradients, momentum, threshold and beta are those of the newest
 * checkpoint of a run (run_matrices.h).  Three sets of gradients would soon make another momentum
 * than the many of a run, so every measurement starts from the momentum of the checkpoint, for any
 * optimizer.  Then the plans that `accurate` chooses for that momentum are counted. */
#include "bench.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "optim/optim.h"
#include "run_matrices.h"
#include "timing.h"

enum { PER_LAYER = 6, MAX_OPTIONS = 4, QUICK_LAYERS = 2, RANK = 64 };
enum { WARM_STEPS = 12 }; /* until the momentum is typical */
enum { MAX_GROUPS = 8 };  /* groups whose spectral function can be timed alone */

static const struct {
    const char *name;
    int64_t     layers, width;
} presets[] = { { "small", 11, 768 }, { "medium", 16, 1024 }, { "wide", 16, 2048 } };

typedef struct step_kind {
    const char *name, *optimizer;
    const char *options[MAX_OPTIONS][2]; /* NULL ends the list */
    double      r3, n_r2;                /* FLOPs: r3 r^3 + n_r2 n r^2; 0: not counted */
    double      long_r3, long_n_r2;      /* the same for n >= 2 r in 16 bits, where it differs */
    int         states;                  /* state matrices per parameter */
    bool        slow;                    /* only with --all */
    bool        alone;                   /* only its spectral function */
    const char *beside;                  /* the same with a fixed threshold, which is timed too */
    int         steps;                   /* timed at a time; 0: one */
} step_kind;

#define MODE(mode)                                   \
    {                                                \
        { "ns-mode", mode }, { "threshold", "0.25" } \
    }

/* The same with a threshold by rule.  With rms:2 D becomes about 0.25, too. */
#define RMS(label, optimizer, mode)                                                 \
    {                                                                               \
        label " rms", optimizer, { { "ns-mode", mode }, { "threshold", "rms:2" } }, \
            .states = 1, .slow = true, .beside = label                              \
    }
#define QUANTILE(label, optimizer, mode)                                                        \
    {                                                                                           \
        label " quantile", optimizer, { { "ns-mode", mode }, { "threshold", "quantile:0.9" } }, \
            .states = 1, .slow = true, .beside = label, .steps = 32                             \
    }

static const step_kind kinds[] = {
    { "muon", "muon", .r3 = 5, .n_r2 = 15, .long_r3 = 15, .long_n_r2 = 9, .states = 1 },
    { "muon's map alone", "muon", .r3 = 5, .n_r2 = 15, .long_r3 = 15, .long_n_r2 = 9, .states = 1,
      .alone = true },
    { "soft-musec fast", "soft-musec", MODE("fast"), .r3 = 9, .n_r2 = 3, .states = 1 },
    { "soft-musec paper", "soft-musec", MODE("paper"), .r3 = 14, .n_r2 = 3, .states = 1 },
    { "soft-musec paper7", "soft-musec", MODE("paper7"), .r3 = 9, .n_r2 = 3, .states = 1 },
    { "soft-musec accurate", "soft-musec", MODE("accurate"), .states = 1 },
    { "soft-musec sharp 4",
      "soft-musec",
      { { "ns-mode", "fast" }, { "threshold", "0.25" }, { "sharpness", "4" } },
      .r3     = 14,
      .n_r2   = 3,
      .states = 1 },
    { "musec fast", "musec", MODE("fast"), .r3 = 16, .n_r2 = 3, .states = 1 },
    { "spectra fast", "spectra", MODE("fast"), .r3 = 9, .n_r2 = 3, .states = 1 },
    { "normuon", "normuon", .r3 = 5, .n_r2 = 15, .long_r3 = 15, .long_n_r2 = 9, .states = 1 },
    { "adamuon", "adamuon", .r3 = 5, .n_r2 = 15, .long_r3 = 15, .long_n_r2 = 9, .states = 2 },
    { "muon2", "muon2", .states = 2 },
    { "muonh", "muonh", .r3 = 5, .n_r2 = 15, .long_r3 = 15, .long_n_r2 = 9, .states = 1 },
    { "soft-musec fast, rows",
      "soft-musec",
      { { "ns-mode", "fast" }, { "threshold", "0.25" }, { "second-moment", "rows" } },
      .r3     = 9,
      .n_r2   = 3,
      .states = 1 },
    { "sgdm", "sgdm", .states = 1 },
    { "adamw", "adamw", .states = 2 },
    { "soft-musec literal",
      "soft-musec",
      { { "literal", "yes" }, { "threshold", "0.25" } },
      .r3     = 30,
      .n_r2   = 3,
      .states = 1,
      .slow   = true },
    { "musec", "musec", { { "threshold", "0.25" } }, .states = 1, .slow = true },
    RMS("soft-musec fast", "soft-musec", "fast"),
    QUANTILE("soft-musec fast", "soft-musec", "fast"),
    RMS("soft-musec paper", "soft-musec", "paper"),
    RMS("soft-musec accurate", "soft-musec", "accurate"),
    RMS("musec fast", "musec", "fast"),
    QUANTILE("musec fast", "musec", "fast"),
    RMS("spectra fast", "spectra", "fast"),
    QUANTILE("spectra fast", "spectra", "fast"),
};
static_assert(COUNT(kinds) <= MS_TIMING_MAX, "more candidates than can be timed");

typedef struct step_job {
    const ms_run_matrices *m;
    musec_optim           *optim;
    int                    next;  /* index of the next set of gradients */
    int                    steps; /* of a run */
    /* of the spectral function of each group */
    ms_scaled_mat inputs[MAX_GROUPS];
    ms_mat        outputs[MAX_GROUPS];
} step_job;

static const struct {
    const char *name;
    musec_role  role;
    int64_t     heights; /* rows, in units of the width */
} layer[PER_LAYER] = {
    { "q", MUSEC_ROLE_QK, 1 }, { "k", MUSEC_ROLE_QK, 1 },   { "v", MUSEC_ROLE_VO, 1 },
    { "o", MUSEC_ROLE_VO, 1 }, { "up", MUSEC_ROLE_MLP, 4 }, { "down", MUSEC_ROLE_MLP, 4 },
};

/* ---- weights and gradients ------------------------------------------------------------------- */

static musec_status allocate(ms_bench *b, int64_t matrix, int64_t width, musec_dtype dtype,
                             musec_view *out)
{
    const int64_t rows = layer[matrix % PER_LAYER].heights * width;
    ms_mat        x;
    musec_status  st;
    TRY(ms_scratch_mat(b->d, dtype, 1, rows, width, &x));
    *out = musec_view_dense(x.data, dtype, 1, rows, width);
done:
    return st;
}

/* grad <- signal + noise, where the noise has a norm of about 1 and the signal is
 *     L diag(2 / k) R
 * with nearly orthonormal L and R^T. */
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
    TRY(op->sync(b->d)); /* until the upload of `values` is done */
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

static musec_status make_model(ms_bench *b, int64_t layers, int64_t width, ms_run_matrices *m)
{
    const ms_device_ops *op   = b->d->ops;
    const musec_dtype    copy = b->d->kind->activation_dtype;
    musec_status         st;
    TRY(ms_run_matrices_make(&b->d->error, layers * PER_LAYER, b->opt->quick ? 1 : MS_RUN_SETS, m));
    for (int64_t i = 0; i < m->n; i++) {
        ms_run_matrix *one = &m->list[i];
        snprintf(one->name, sizeof one->name, "%lld.%s", (long long)(i / PER_LAYER),
                 layer[i % PER_LAYER].name);
        one->role = layer[i % PER_LAYER].role;
        TRY(allocate(b, i, width, MUSEC_F32, &one->weight));
        TRY(op->normal(b->d, 7 + (uint64_t)i, 0.0, 0.02, ms_mat_of(one->weight)));
        if (copy != MUSEC_F32) {
            TRY(allocate(b, i, width, copy, &one->copy));
            TRY(op->copy(b->d, ms_mat_of(one->weight), ms_mat_of(one->copy)));
        }
        m->elems += one->weight.rows * width;
        for (int s = 0; s < m->sets; s++) {
            TRY(allocate(b, i, width, MUSEC_F32, &m->grads[s][i]));
            TRY(draw_gradient(b, i + 1, s, ms_mat_of(m->grads[s][i])));
        }
    }
done:
    return st;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The config of a kind; the threshold and beta of a run replace its own. */
static musec_status configure(const step_kind *k, const ms_run_matrices *m, musec_optim_config *cfg)
{
    musec_status st = MUSEC_OK;
    TRY(musec_optim_config_init(cfg, sizeof *cfg, k->optimizer));
    cfg->lr = 1e-6; /* the weights hardly change, however many steps are made */
    for (int i = 0; i < MAX_OPTIONS && k->options[i][0] != NULL; i++) {
        const bool run = m->train != NULL && strcmp(k->options[i][0], "threshold") == 0;
        TRY(musec_optim_config_set(cfg, k->options[i][0], run ? m->threshold : k->options[i][1]));
    }
    if (m->train != NULL) cfg->beta = m->beta;
done:
    return st;
}

static musec_status make_optim(ms_bench *b, const step_kind *k, const ms_run_matrices *m,
                               musec_optim **out)
{
    musec_optim_config cfg;
    musec_status       st = MUSEC_OK;
    TRY(configure(k, m, &cfg));
    TRY(musec_optim_create(out, b->d, &cfg));
    for (int64_t i = 0; i < m->n; i++) {
        const musec_param param = { .name   = m->list[i].name,
                                    .role   = m->list[i].role,
                                    .weight = m->list[i].weight,
                                    .copy   = m->list[i].copy };
        TRY(musec_optim_add(*out, &param, NULL));
    }
done:
    return st;
}

static musec_status run_step(ms_device *d, void *state)
{
    step_job    *j  = state;
    musec_status st = MUSEC_OK;
    (void)d;
    for (int i = 0; i < j->steps; i++) {
        j->next = (j->next + 1) % j->m->sets;
        TRY(musec_optim_step(j->optim, j->m->grads[j->next], (size_t)j->m->n, 1.0));
    }
done:
    return st;
}

/* Prepares the inputs and outputs of the spectral function of the next step, after one step was
 * made.  *can becomes false where it runs in chunks. */
static musec_status prepare_spectral(step_job *j, bool *can)
{
    musec_optim *opt  = j->optim;
    ms_step      next = { .opt         = opt,
                          .grads       = j->m->grads[j->next],
                          .args        = { .lr_scale = 1.0 },
                          .grad_factor = 1.0,
                          .host        = opt->host };
    musec_status st   = MUSEC_OK;
    *can              = opt->n_groups <= MAX_GROUPS;
    for (size_t i = 0; i < opt->n_groups && *can; i++) {
        ms_group *g    = &opt->groups[i];
        ms_span   span = {
              .g = g, .gs = &opt->host->groups[i], .n = g->count, .momentum = g->state[0]
        };
        *can = g->chunk == g->count;
        if (!*can) break;
        TRY(ms_update_momentum(&next, &span));
        j->inputs[i] = span.scaled.mat.data != NULL ? span.scaled : ms_unscaled(span.direction);
        TRY(ms_scratch_mat(opt->d, ms_update_dtype(opt, g), g->count, g->rows, g->cols,
                           &j->outputs[i]));
    }
done:
    return st;
}

static musec_status run_spectral(ms_device *d, void *state)
{
    const step_job *j  = state;
    musec_status    st = MUSEC_OK;
    (void)d;
    for (size_t i = 0; i < j->optim->n_groups; i++)
        TRY(ms_run_spectral(j->optim, &j->optim->groups[i], ms_stack(j->inputs[i], j->outputs[i]),
                            ms_const(1.0), NULL));
done:
    return st;
}

/* Sets the momentum of an optimizer that has one to that of the checkpoint. */
static musec_status set_momentum(ms_device *d, void *state)
{
    const step_job *j     = state;
    musec_optim    *opt   = j->optim;
    const bool      heavy = opt->cfg.momentum_form == MUSEC_MOMENTUM_HEAVY;
    const double    scale = heavy ? 1.0 / opt->cfg.beta : 1.0;
    musec_status    st;
    TRY(ms_optim_prepare(opt));
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group *g = &opt->groups[i];
        for (int64_t k = 0; k < g->count && strcmp(g->base->states[0], "momentum") == 0; k++) {
            const size_t         param = g->members[k].param;
            const ms_run_matrix *one   = &j->m->list[param];
            TRY(d->ops->axpby(d, ms_const(scale), one->momentum, ms_const(0.0),
                              ms_mat_slice(g->state[0], k, 1)));
            g->momentum_bound[k] = scale * one->absmax;
            opt->params[param].t = j->m->step;
        }
    }
done:
    return st;
}

static double flops(const step_kind *k, const ms_run_matrices *m, musec_dtype operands)
{
    double sum = 0.0;
    for (int64_t i = 0; i < m->n; i++) {
        const musec_view w    = m->list[i].weight;
        const double     rows = (double)w.rows, cols = (double)w.cols;
        const double     r = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
        const bool       other = k->long_r3 > 0.0 && n >= 2.0 * r && ms_is_16bit(operands);
        sum += (other ? k->long_r3 : k->r3) * r * r * r;
        sum += (other ? k->long_n_r2 : k->n_r2) * n * r * r;
    }
    return sum;
}

static double bytes(const step_kind *k, const ms_run_matrices *m)
{
    const musec_view first = m->list[0].copy;
    const double     copy  = first.data != NULL ? (double)ms_dtype_bytes(first.dtype) : 0.0;
    if (k->alone) return 0.0;
    return (double)m->elems * (sizeof(float) * (3.0 + 2.0 * k->states) + copy);
}

/* Replaces whole steps by the spectral function alone; destroys the optimizer if that cannot be. */
static musec_status set_apart(ms_device *d, step_job *j, ms_candidate *c)
{
    bool         can = false;
    musec_status st  = MUSEC_OK;
    if (c->begin != NULL) TRY(c->begin(d, j));
    TRY(run_step(d, j));
    TRY(prepare_spectral(j, &can));
    c->run   = run_spectral;
    c->begin = NULL;
    if (!can) {
        musec_optim_destroy(j->optim);
        j->optim = NULL;
    }
done:
    return st;
}

/* The row of this name. */
static size_t find_kind(const char *name)
{
    size_t k = 0;
    while (strcmp(kinds[k].name, name) != 0)
        k++;
    return k;
}

/* Chooses the rows that are asked for, and those that they are compared with.  Thresholds by rule
 * are not compared on the momentum of a run, whose threshold replaces all others. */
static void choose_kinds(const ms_bench *b, const ms_run_matrices *m, const char *shape,
                         bool *chosen)
{
    chosen[0] = true; /* the baseline */
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if ((kinds[i].slow && !b->opt->all) || (kinds[i].beside != NULL && m->train != NULL) ||
            !ms_bench_wanted(b, "step", kinds[i].name, shape))
            continue;
        chosen[i] = true;
        if (kinds[i].beside != NULL) chosen[find_kind(kinds[i].beside)] = true;
    }
}

/* Makes the requested optimizers, each with its own state and a typical momentum. */
static musec_status make_jobs(ms_bench *b, const ms_run_matrices *m, const char *shape,
                              step_job *jobs, ms_candidate *c, const step_kind **chosen, int *n)
{
    const bool   warm                = !ms_is_on_host(b->d) && m->train == NULL;
    bool         asked[COUNT(kinds)] = { false };
    musec_status st                  = MUSEC_OK;
    choose_kinds(b, m, shape, asked);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (!asked[i]) continue;
        chosen[*n]     = &kinds[i];
        jobs[*n].m     = m;
        jobs[*n].steps = 1;
        c[*n]          = (ms_candidate){ .run   = run_step,
                                         .state = &jobs[*n],
                                         .begin = m->train != NULL ? set_momentum : NULL };
        TRY(make_optim(b, &kinds[i], m, &jobs[*n].optim));
        const bool quick      = !kinds[i].slow || kinds[i].beside != NULL;
        const int  warm_steps = kinds[i].steps > 0 ? 8 * kinds[i].steps : WARM_STEPS;
        for (int k = 0; k < warm_steps && warm && quick; k++)
            TRY(run_step(b->d, &jobs[*n]));
        if (kinds[i].steps > 0) jobs[*n].steps = kinds[i].steps;
        if (kinds[i].alone) TRY(set_apart(b->d, &jobs[*n], &c[*n]));
        *n += jobs[*n].optim != NULL;
    }
done:
    return st;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static musec_status ask_plan(ms_bench *b, musec_optim *opt, const ms_group *g,
                             const ms_run_matrices *m, size_t matrix, ms_report *report)
{
    const ms_mark mark = ms_arena_mark(&b->d->scratch);
    ms_mat        x, out;
    ms_stacks     stack;
    ms_num        threshold;
    musec_status  st;
    TRY(ms_scratch_mat(b->d, g->dtype, 1, g->rows, g->cols, &x));
    TRY(ms_scratch_mat(b->d, g->dtype, 1, g->rows, g->cols, &out));
    TRY(ms_run_proposal(b->d, m, (int64_t)matrix, x));
    stack = ms_stack(ms_unscaled(x), out);
    TRY(ms_threshold(opt, &stack, NULL, &threshold));
    TRY(ms_run_spectral(opt, g, stack, threshold, report));
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

typedef struct plan_count {
    char name[sizeof(((ms_report *)NULL)->path)];
    int  count;
} plan_count;

enum { MAX_PLANS = 64 }; /* more than exist */

static void count_plan(const ms_report *report, plan_count *plans)
{
    int p = 0;
    while (p < MAX_PLANS - 1 && plans[p].count > 0 && strcmp(plans[p].name, report->path) != 0)
        p++;
    memcpy(plans[p].name, report->path, sizeof plans[p].name);
    plans[p].count++;
}

/* Counts the plans that `accurate` chooses for the momentum of the next step. */
static musec_status put_plans(ms_bench *b, const ms_run_matrices *m, const char *shape)
{
    plan_count   plans[MAX_PLANS] = { 0 };
    musec_optim *opt              = NULL;
    musec_status st;
    TRY(make_optim(b, &kinds[find_kind("soft-musec accurate")], m, &opt));
    TRY(ms_optim_prepare(opt));
    for (size_t i = 0; i < opt->n_groups; i++)
        for (int64_t j = 0; j < opt->groups[i].count; j++) {
            ms_report report;
            TRY(ask_plan(b, opt, &opt->groups[i], m, opt->groups[i].members[j].param, &report));
            count_plan(&report, plans);
        }
    ms_bench_heading(b, "plans of soft-musec accurate, and how many matrices each is for");
    for (int p = 0; p < MAX_PLANS && plans[p].count > 0; p++)
        ms_bench_count(b, "plan", plans[p].name, shape, plans[p].count);
done:
    musec_optim_destroy(opt);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

musec_status ms_bench_matrices(ms_bench *b, ms_run_matrices *m, char *shape, size_t bytes)
{
    const char   *preset = b->opt->preset != NULL ? b->opt->preset : presets[0].name;
    const int64_t max    = b->opt->quick ? QUICK_LAYERS : INT64_MAX;
    musec_status  st;
    if (b->opt->run != NULL) {
        TRY(ms_run_matrices_open(b, b->opt->run, b->opt->quick ? 1 : MS_RUN_SETS, m));
        snprintf(shape, bytes, "%lld matrices, step %lld", (long long)m->n, (long long)m->step);
        goto done;
    }
    size_t i = 0;
    while (i < COUNT(presets) && strcmp(preset, presets[i].name) != 0)
        i++;
    if (i == COUNT(presets))
        return ms_fail(&b->d->error, MUSEC_EINVAL,
                       "the preset is \"%s\"; it must be one of small, medium, wide", preset);
    const int64_t layers = presets[i].layers < max ? presets[i].layers : max;
    snprintf(shape, bytes, "%lld layers of %lld, f32", (long long)layers,
             (long long)presets[i].width);
    ms_log_progress(b->log, "step: %s", shape);
    TRY(make_model(b, layers, presets[i].width, m));
done:
    return st;
}

static void put_heading(const ms_bench *b, const ms_run_matrices *m)
{
    char text[256];
    if (m->train != NULL)
        snprintf(text, sizeof text,
                 "optimizer steps on what a run of %s had at step %lld; threshold %s, beta %g",
                 m->optimizer, (long long)m->step, m->threshold, m->beta);
    ms_bench_heading(b, m->train != NULL
                            ? text
                            : "optimizer steps, five Newton-Schulz steps where they have steps");
}

/* A row beside another has the ratio of the two medians. */
static void put_rows(ms_bench *b, const ms_run_matrices *m, const char *shape,
                     const step_kind *const *chosen, const step_job *jobs, const ms_candidate *c,
                     int n)
{
    const musec_dtype dtype = b->d->kind->compute_dtype;
    for (int i = 0; i < n; i++) {
        ms_bench_figure row = { .section = "step",
                                .name    = chosen[i]->name,
                                .shape   = shape,
                                .ms      = c[i].ms / jobs[i].steps,
                                .dtype   = dtype,
                                .flops   = flops(chosen[i], m, dtype),
                                .bytes   = bytes(chosen[i], m),
                                .ratio   = c[i].ratio,
                                .against = kinds[0].name };
        for (int k = 0; k < n && chosen[i]->beside != NULL; k++) {
            if (strcmp(chosen[k]->name, chosen[i]->beside) != 0) continue;
            row.against = chosen[k]->name;
            row.ratio   = row.ms / (c[k].ms / jobs[k].steps);
        }
        ms_bench_row(b, &row);
    }
}

static musec_status run_all(ms_bench *b)
{
    const ms_mark    mark = ms_arena_mark(&b->d->scratch);
    const step_kind *chosen[COUNT(kinds)];
    step_job         jobs[COUNT(kinds)] = { { 0 } };
    ms_candidate     c[COUNT(kinds)]    = { { 0 } };
    ms_run_matrices  m                  = { 0 };
    char             shape[64];
    int              n  = 0;
    musec_status     st = MUSEC_OK;

    TRY(ms_bench_matrices(b, &m, shape, sizeof shape));
    TRY(ms_bench_begin(b));
    put_heading(b, &m);
    TRY(make_jobs(b, &m, shape, jobs, c, chosen, &n));
    TRY(ms_time_group(b->d, c, n, b->rounds));
    put_rows(b, &m, shape, chosen, jobs, c, n);
    if (m.train != NULL) TRY(put_plans(b, &m, shape));
done:
    for (size_t i = 0; i < COUNT(jobs); i++)
        musec_optim_destroy(jobs[i].optim);
    ms_run_matrices_close(&m);
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

musec_status ms_bench_step(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    return ms_bench_run(opt, log, out, run_all, error);
}
