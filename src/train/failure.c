/* failure.c - what a run says when its device fails it, beyond the device's own words: the memory
 * that it would have taken, and where it can go on. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

static void append(ms_error *e, const char *fmt, ...) MS_PRINTF(2, 3);

static void append(ms_error *e, const char *fmt, ...)
{
    const size_t n = strlen(e->text);
    va_list      args;
    va_start(args, fmt);
    vsnprintf(e->text + n, sizeof e->text - n, fmt, args);
    va_end(args);
}

void ms_train_advise(const ms_train *t, const ms_train_sizes *sizes, char *text, size_t bytes)
{
    const ms_train_stage *stage   = &t->schedule.stage[t->schedule.n_stages - 1];
    const uint64_t        weights = sizes->model.weights + sizes->model.copies + sizes->model.grads;
    const double          gib     = 0x1p30;

    if (sizes->model.activations >= weights + sizes->optim_state &&
        sizes->model.activations >= sizes->workspace)
        snprintf(text, bytes,
                 "%.1f of them for activations of %lld tokens: more micro-batches (now %lld) or a "
                 "smaller batch lower that",
                 (double)sizes->model.activations / gib, (long long)t->schedule.max_tokens,
                 (long long)stage->micro_batches);
    else if (sizes->workspace > weights + sizes->optim_state)
        snprintf(text, bytes,
                 "%.1f of them for the optimizer's workspace: a smaller workspace lowers that",
                 (double)sizes->workspace / gib);
    else
        snprintf(text, bytes,
                 "%.1f of them for weights, gradients and the optimizer's state: more "
                 "micro-batches would not help, a smaller model or a GPU with more memory would",
                 (double)(weights + sizes->optim_state) / gib);
}

/* The memory of all of it is known from a model that has room for one token; where there is none
 * even for that, from the model's sizes alone. */
static void tell_needs(ms_error *e, ms_train *t)
{
    ms_train_sizes sizes = { 0 };
    ms_error       ignored;
    char           advice[MS_ADVICE_TEXT];

    ms_train_unbuild_model(t);
    if (ms_train_build_model(&ignored, t, 1) != MUSEC_OK ||
        ms_train_measure(&ignored, t, &sizes) != MUSEC_OK) {
        musec_dtype dtype;
        if (ms_train_dtype(&ignored, &t->cfg, t->ctx, &dtype) != MUSEC_OK ||
            ms_gpt_measure(&ignored, &t->cfg.model, dtype, t->schedule.max_tokens,
                           t->ctx->kind->temporary, &sizes.model) != MUSEC_OK)
            return;
        sizes.total =
            sizes.model.weights + sizes.model.copies + sizes.model.grads + sizes.model.activations;
        append(e, "; the model alone");
    } else {
        append(e, "; the run");
    }
    ms_train_advise(t, &sizes, advice, sizeof advice);
    append(e, " needs %.1f GiB, %s", (double)sizes.total / 0x1p30, advice);
}

void ms_train_tell_failure(ms_error *e, ms_train *t, musec_status status)
{
    if (t->ctx == NULL || (status != MUSEC_EDEVICE && status != MUSEC_ENOMEM)) return;
    if (status == MUSEC_ENOMEM) tell_needs(e, t);
    if (t->setup.out == NULL || t->started == 0.0) return; /* nothing was begun */
    if (t->saved_step > 0)
        append(e, "; the checkpoint of step %lld is whole", (long long)t->saved_step);
    else
        append(e, "; there is no checkpoint yet");
    append(e, ": go on with musec train --resume %s", t->setup.out);
}
