/* chips.c - see chips.h.
 *
 * A pass is a number of operations at the rate of the preset of that width, between two presets at
 * a rate in between, and never faster than memory allows: the weights are read twice in 16 bits,
 * and their gradients read and written in float32. */
#include "experiment/chips.h"

#include <math.h>
#include <string.h>

#include "core/optimizers.h"
#include "experiment/estimate.h"

enum { SIZES = 3 };
enum { PAPER, FAST, ACCURATE, MUON, SGDM, ADAMW, STEPS }; /* optimizers that were measured */
#define MEASURED_BASE "sgdm"
static const double pass_bytes = 2.0 + 2.0 + 4.0 + 4.0; /* of each parameter */

typedef struct chip_size { /* a preset */
    double  width, flops;  /* a second, of forward and backward passes */
    int64_t layers, mlp;
    double  ms[STEPS]; /* of an optimizer's step of all matrices */
} chip_size;

static const struct chip {
    const char *name, *source;
    double      memory, copy; /* bytes, and bytes a second */
    double      read_ms;      /* to read a token from a shard, by the host */
    int64_t     logits_chunk; /* of the device, see device.c */
    chip_size   size[SIZES];
} chips[] = {
    { .name         = "h200",
      .source       = "one NVIDIA H200, bench/results/h200.md",
      .memory       = 139.8 * 0x1p30,
      .copy         = 4.18e12,
      .read_ms      = 1e-6, /* of shards in memory, on a 2-core AMD EPYC: 0.7 ns */
      .logits_chunk = (int64_t)1 << 28,
      .size         = { { .width  = 768.0,
                          .flops  = 513.2e12,
                          .layers = 11,
                          .mlp    = 3072,
                          .ms     = { [PAPER]    = 1.913,
                                      [FAST]     = 1.559,
                                      [ACCURATE] = 1.181,
                                      [MUON]     = 2.431,
                                      [SGDM]     = 0.596,
                                      [ADAMW]    = 0.845 } },
                        { .width  = 1024.0,
                          .flops  = 539.9e12,
                          .layers = 16,
                          .mlp    = 4096,
                          .ms     = { [PAPER]    = 5.258,
                                      [FAST]     = 4.238,
                                      [ACCURATE] = 3.019,
                                      [MUON]     = 6.804,
                                      [SGDM]     = 1.460,
                                      [ADAMW]    = 2.097 } },
                        { .width  = 2048.0,
                          .flops  = 605.5e12,
                          .layers = 16,
                          .mlp    = 8192,
                          .ms     = { [PAPER]    = 33.240,
                                      [FAST]     = 26.007,
                                      [ACCURATE] = 16.323,
                                      [MUON]     = 41.787,
                                      [SGDM]     = 5.713,
                                      [ADAMW]    = 8.239 } } } },
};
const char ms_chip_choices[] = "h200";

/* ---- between sizes --------------------------------------------------------------------------- */

static double matrix_elements(const chip_size *s)
{
    return (double)s->layers * (4.0 * s->width * s->width + 2.0 * s->width * (double)s->mlp);
}

/* All matrices have the width as their smaller side. */
static double matrix_work(const chip_size *s) { return matrix_elements(s) * s->width; }

/* Milliseconds for a unit of work, or of elements. */
static double unit_ms(const chip_size *s, int step)
{
    const bool products = step != SGDM && step != ADAMW;
    return s->ms[step] / (products ? matrix_work(s) : matrix_elements(s));
}

/* step < 0: operations a second. */
static double value_of(const chip_size *s, int step)
{
    return step < 0 ? s->flops : unit_ms(s, step);
}

/* By the logarithm of the width; beyond the presets as the nearest one. */
static double between(const struct chip *c, double width, int step)
{
    int i = 0;
    if (width <= c->size[0].width) return value_of(&c->size[0], step);
    while (i + 1 < SIZES && width > c->size[i + 1].width)
        i++;
    if (i + 1 == SIZES) return value_of(&c->size[i], step);
    const double t = log(width / c->size[i].width) / log(c->size[i + 1].width / c->size[i].width);
    return value_of(&c->size[i], step) * (1.0 - t) + value_of(&c->size[i + 1], step) * t;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* The row of `ms` for the optimizer of a config; -1: it was not measured. */
static int step_of(const ms_train_config *cfg)
{
    const ms_optimizer *row      = ms_optimizer_find(cfg->optim.name);
    char                mode[32] = "", clip[32] = "", base[32] = "";

    (void)ms_train_config_get(cfg, "ns_mode", mode, sizeof mode);
    (void)ms_train_config_get(cfg, "clip", clip, sizeof clip);
    (void)ms_train_config_get(cfg, "base", base, sizeof base);
    if (strcmp(cfg->optim.name, "adamw") == 0) return ADAMW;
    if (strcmp(cfg->optim.name, "sgdm") == 0) return SGDM;
    if (strcmp(row->base != NULL ? row->base : base, MEASURED_BASE) != 0) return -1;
    if (row->spectral_fn == MS_SPECTRAL_POLAR) return MUON;
    if (row->spectral_fn != MS_SPECTRAL_SOFT_CLIP) return -1;
    if (row->base == NULL && clip[0] != '\0' && strcmp(clip, "soft") != 0) return -1;
    if (strcmp(mode, "fast") == 0) return FAST;
    if (strcmp(mode, "accurate") == 0) return ACCURATE;
    return strcmp(mode, "paper") == 0 ? PAPER : -1;
}

void ms_scaling_share_ms(double ms, bool products, ms_scaling_param *params, size_t n)
{
    double sum = 0.0;
    for (int write = 0; write < 2; write++)
        for (size_t i = 0; i < n; i++) {
            ms_scaling_param *p    = &params[i];
            const double      size = products   ? ms_scaling_work(p)
                                     : p->split ? 0.0
                                                : (double)p->rows * (double)p->cols;
            if (write == 0) sum += size;
            if (write == 1 && !p->split) p->ms = ms * size / sum;
        }
}

/* What a step of the parameters takes. */
static void set_steps(const struct chip *c, const ms_train_config *cfg, int step, bool optim,
                      ms_scaling_param *params, size_t n)
{
    const double width    = (double)cfg->model.width;
    const bool   products = step != SGDM && step != ADAMW;
    double       size     = 0.0;

    for (size_t i = 0; i < n; i++) {
        const double elements = (double)params[i].rows * (double)params[i].cols;
        if (params[i].split)
            params[i].ms = elements * between(c, width, ADAMW);
        else
            size += products ? ms_scaling_work(&params[i]) : elements;
    }
    if (optim) ms_scaling_share_ms(size * between(c, width, step), products, params, n);
}

musec_status ms_chip_rates(ms_error *e, const char *chip, const ms_train_config *cfg,
                           const ms_train_stage *stage, bool optim, ms_scaling_job *job,
                           ms_scaling_param *params, ms_scaling_machine *out, const char **source)
{
    const int          step  = step_of(cfg);
    const double       width = (double)cfg->model.width;
    const struct chip *c     = &chips[0];
    double             all   = 0.0;

    while (strcmp(c->name, chip) != 0)
        c++; /* it is one of the choices */
    if (optim && step < 0)
        return ms_fail(e, MUSEC_EINVAL,
                       "a step of %s as it is set was not measured on %s: give --optim-ms",
                       cfg->optim.name, chip);
    if (cfg->precision != MS_PRECISION_AUTO && cfg->precision != MS_PRECISION_BF16)
        return ms_fail(e, MUSEC_EINVAL, "the rates of %s are those of bf16", chip);
    job->dtype        = MUSEC_BF16;
    job->logits_chunk = c->logits_chunk;
    job->gpus         = true;
    set_steps(c, cfg, step, optim, params, job->n_params);
    for (size_t i = 0; i < job->n_params; i++)
        all += (double)params[i].rows * (double)params[i].cols;
    *out = (ms_scaling_machine){
        .token_ms      = ms_estimate_token_flops(cfg, stage) / between(c, width, -1) * 1e3,
        .least_pass_ms = all * pass_bytes / c->copy * 1e3,
        .read_ms       = c->read_ms,
        .add_ms_byte   = 3.0 / c->copy * 1e3,
        .per_node      = 1,
        .memory        = (uint64_t)c->memory,
    };
    *source = c->source;
    return MUSEC_OK;
}
