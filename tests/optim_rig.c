/* optim_rig.c - see optim_rig.h. */
#include "optim_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

const char *const rig_decay_forms[] = { "decoupled",    "independent", "lr2",   "cautious",
                                        "cautious-lr2", "coupled",     "after", "frank-wolfe",
                                        "hyperball",    NULL };

#define PADDING 3.25

musec_optim_config rig_config(const char *name, const char *options)
{
    musec_optim_config cfg;
    char               text[512];
    CHECK(musec_optim_config_init(&cfg, sizeof cfg, name) == MUSEC_OK, "%s", name);
    cfg.operands = MUSEC_F32; /* for which the bounds are made */
    snprintf(text, sizeof text, "%s", options);
    for (char *at = text; *at != '\0';) {
        const size_t n    = strcspn(at, " ");
        char        *next = at + n + (at[n] == ' ');
        at[n]             = '\0';
        char *equal       = strchr(at, '=');
        CHECK(equal != NULL, "option %s", at);
        *equal = '\0';
        CHECK(musec_optim_config_set(&cfg, at, equal + 1) == MUSEC_OK, "%s: %s is \"%s\"", name, at,
              equal + 1);
        at = next;
    }
    return cfg;
}

int64_t rig_elems(const rig *r, size_t p)
{
    return (r->params[p].layout.more + 1) * r->params[p].rows * r->params[p].cols;
}

static uint64_t name_seed(const rig *r, size_t p, int64_t step)
{
    uint64_t seed = 1469598103934665603u + r->seed;
    for (const char *c = r->params[p].name; *c != '\0'; c++)
        seed = (seed ^ (unsigned char)*c) * 1099511628211u;
    return seed + 7919u * (uint64_t)(step + 1);
}

double *rig_normal(const rig *r, size_t p, int64_t step)
{
    return oracle_gaussian(rig_elems(r, p), 1, name_seed(r, p, step));
}

double *rig_start(const rig *r, size_t p)
{
    double *w = rig_normal(r, p, -1);
    for (int64_t e = 0; e < rig_elems(r, p); e++)
        w[e] = run_rounded(w[e], r->dtype);
    return w;
}

rig rig_make_with(ms_device *dev, const musec_optim_config *cfg, musec_dtype dtype,
                  const rig_param *params, size_t n, uint64_t seed)
{
    rig r = { .dev = dev, .dtype = dtype, .seed = seed, .n = n };
    CHECK(n <= RIG_MAX, "%zu parameters", n);
    CHECK_OK(dev, musec_optim_create(&r.opt, dev, cfg));
    for (size_t p = 0; p < n; p++) {
        const rig_param *from  = &params[p];
        size_t           index = 0;
        r.params[p]            = *from;
        double *start          = rig_start(&r, p);
        r.w[p] = run_stack_make(dev, dtype, from->rows, from->cols, from->layout, start, PADDING);
        r.g[p] = run_stack_make(dev, dtype, from->rows, from->cols, from->layout, NULL, PADDING);
        const musec_param param = { .name      = from->name,
                                    .role      = from->role,
                                    .weight    = r.w[p].view,
                                    .blocks    = from->blocks,
                                    .n_blocks  = from->n_blocks,
                                    .lr_factor = from->lr_factor,
                                    .copy      = from->copy };
        CHECK_OK(dev, musec_optim_add(r.opt, &param, &index));
        CHECK(index == p, "parameter %zu has index %zu", p, index);
        free(start);
    }
    return r;
}

rig rig_make(ms_device *dev, const char *name, const char *options, musec_dtype dtype,
             const rig_param *params, size_t n, uint64_t seed)
{
    const musec_optim_config cfg = rig_config(name, options);
    return rig_make_with(dev, &cfg, dtype, params, n, seed);
}

rig rig_makef(ms_device *dev, musec_dtype dtype, const rig_param *params, size_t n, uint64_t seed,
              const char *name, const char *fmt, ...)
{
    char    options[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(options, sizeof options, fmt, args);
    va_end(args);
    return rig_make(dev, name, options, dtype, params, n, seed);
}

void rig_free(rig *r)
{
    musec_optim_destroy(r->opt);
    for (size_t p = 0; p < r->n; p++) {
        run_stack_free(r->dev, &r->w[p]);
        run_stack_free(r->dev, &r->g[p]);
    }
    *r = (rig){ 0 };
}

/* Overwrites the stack, padding included. */
static void put(rig *r, run_stack *s, const double *dense)
{
    const musec_view *v   = &s->view;
    double           *all = check_alloc((size_t)s->n * sizeof *all);
    for (int64_t i = 0; i < s->n; i++)
        all[i] = PADDING;
    for (int64_t e = 0; e < v->count * v->rows * v->cols; e++) {
        const int64_t b = e / (v->rows * v->cols), i = e / v->cols % v->rows, j = e % v->cols;
        all[b * v->stride + i * v->ld + j] = dense[e];
    }
    void *stored = run_stored(all, s->n, r->dtype);
    CHECK_OK(r->dev, r->dev->ops->upload(r->dev, stored, (size_t)s->n * ms_dtype_bytes(r->dtype),
                                         s->view.data));
    CHECK_OK(r->dev, r->dev->ops->sync(r->dev));
    free(all), free(stored);
}

void rig_set_weight(rig *r, size_t p, const double *dense) { put(r, &r->w[p], dense); }
void rig_set_grad(rig *r, size_t p, const double *dense) { put(r, &r->g[p], dense); }

musec_status rig_try(rig *r, double lr_scale)
{
    musec_view grads[RIG_MAX];
    for (size_t p = 0; p < r->n; p++) {
        grads[p] = r->g[p].view;
        if (r->without[p]) grads[p].data = NULL;
    }
    return musec_optim_step(r->opt, grads, r->n, lr_scale);
}

void rig_go(rig *r)
{
    CHECK_OK(r->dev, rig_try(r, 1.0));
    CHECK_OK(r->dev, musec_ctx_sync(r->dev));
}

void rig_set_grads(rig *r, int64_t step, double factor)
{
    for (size_t p = 0; p < r->n; p++) {
        double *g = rig_normal(r, p, step);
        for (int64_t e = 0; e < rig_elems(r, p); e++)
            g[e] = factor * (r->dtype == MUSEC_F32 ? (float)g[e] : g[e]);
        rig_set_grad(r, p, g);
        free(g);
    }
}

void rig_step(rig *r, int64_t step, double factor) { rig_set_grads(r, step, factor), rig_go(r); }

void rig_steps(rig *r, int64_t first, int64_t n)
{
    for (int64_t step = first; step < first + n; step++)
        rig_step(r, step, 1.0);
}

double *rig_weight(rig *r, size_t p) { return run_stack_read(r->dev, &r->w[p], PADDING); }

double *rig_state(rig *r, size_t p, int64_t block, const char *state, int64_t n)
{
    const size_t bytes = (size_t)n * ms_dtype_bytes(r->dtype);
    void        *host  = check_alloc(bytes);
    CHECK_OK(r->dev, musec_optim_get_state(r->opt, p, block, state, host, bytes));
    double *out = oracle_loaded(host, n, r->dtype);
    free(host);
    return out;
}

void rig_copy_weights(rig *from, rig *to)
{
    for (size_t p = 0; p < from->n; p++) {
        double *w = rig_weight(from, p);
        rig_set_weight(to, p, w);
        free(w);
    }
}

bool rig_unmoved(rig *r, size_t p)
{
    double    *w = rig_weight(r, p), *start = rig_start(r, p);
    const bool same = run_same_bits(w, start, rig_elems(r, p));
    free(w), free(start);
    return same;
}

bool rig_same_weight(rig *a, size_t p, rig *b, size_t q)
{
    double    *x = rig_weight(a, p), *y = rig_weight(b, q);
    const bool same = rig_elems(a, p) == rig_elems(b, q) && run_same_bits(x, y, rig_elems(a, p));
    free(x), free(y);
    return same;
}

void rig_check_same(rig *a, rig *b, const char *name, const char *options)
{
    for (size_t p = 0; p < a->n; p++)
        CHECK(rig_same_weight(a, p, b, p), "%s %s: %s is apart by %g", name, options,
              a->params[p].name, rig_apart(a, p, b, p));
}

bool rig_alike(rig *a, size_t p, rig *b, size_t q)
{
    return rig_same_weight(a, p, b, q) ||
           (a->dev->kind->batch_variant && rig_apart(a, p, b, q) <= 256.0 * ms_dtype_eps(a->dtype));
}

double rig_apart(rig *a, size_t p, rig *b, size_t q)
{
    const int64_t n = rig_elems(a, p);
    double       *x = rig_weight(a, p), *y = rig_weight(b, q);
    double       *start = rig_normal(b, q, -1); /* not rounded: no 0 / 0 where nothing moved */
    const double  apart = run_fro_diff(x, y, n) / run_fro_diff(y, start, n);
    free(x), free(y), free(start);
    return apart;
}
