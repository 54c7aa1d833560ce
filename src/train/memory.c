/* memory.c - how much memory a run needs, whether that is there, and what lowers it. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "train/ranks.h"
#include "train/sums.h"
#include "train/trainer.h"
#include "train/weights.h"

enum { MIB = 1 << 20 };

static const double gib = 0x1p30;

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The program, its libraries, and what BLAS and threads allocate: measured, not derived. */
static const uint64_t program_bytes = 16 * (uint64_t)MIB;

/* The optimizer's step and attention use the scratch of the device one after the other. */
static uint64_t shared_bytes(const ms_train_sizes *s)
{
    return s->workspace > s->attention ? s->workspace : s->attention;
}

/* The largest scratch of attention's gradient in any stage, by its documents and windows. */
static uint64_t attention_bytes(const ms_train *t)
{
    const ms_gpt_config *model = &t->cfg.model;
    uint64_t             max   = 0;
    for (int i = 0; t->ctx->kind->attn_workspace != NULL && i < t->schedule.n_stages; i++) {
        const ms_train_stage *s = &t->schedule.stage[i];
        const int64_t window = s->window_long > s->window_short ? s->window_long : s->window_short;
        const ms_attn_shape plan  = { .dtype   = ms_gpt_dtype(t->gpt),
                                      .heads   = model->heads,
                                      .head    = model->head,
                                      .rows    = s->batch / s->micro_batches,
                                      .reach   = window < s->max_doc ? window : s->max_doc - 1,
                                      .softcap = model->attn_softcap };
        const uint64_t      bytes = t->ctx->kind->attn_workspace(t->ctx, plan);
        if (bytes > max) max = bytes;
    }
    return max;
}

musec_status ms_train_measure(ms_error *e, const ms_train *t, ms_train_sizes *out)
{
    const ms_gpt_config *model = &t->cfg.model;
    musec_status         st;

    TRY(ms_gpt_measure(e, model, ms_gpt_dtype(t->gpt), t->schedule.max_tokens,
                       t->ctx->kind->logits_chunk, &out->model));
    TRY(ms_train_check(e, t->ctx,
                       musec_optim_workspace(t->optim, &out->workspace, &out->optim_state)));
    out->attention  = attention_bytes(t);
    out->data       = ms_mixture_bytes(t->train) + ms_mixture_bytes(t->val);
    out->checkpoint = ms_weights_buffer(t->gpt);
    out->sums       = ms_sums_bytes(t);
    out->total      = out->checkpoint + out->sums + out->model.weights + out->model.copies +
                 out->model.grads + out->model.activations + out->optim_state + shared_bytes(out) +
                 out->data + program_bytes;
done:
    return st;
}

void ms_train_memory_rows(const ms_train_sizes *s, ms_memory_row rows[MS_MEMORY_ROWS])
{
    const ms_memory_row all[] = {
        { "weights", s->model.weights },
        { "copies", s->model.copies },
        { "gradients", s->model.grads + s->sums },
        { "activations", s->model.activations },
        { "optimizer state", s->optim_state },
        { "workspace", shared_bytes(s) },
        { "data", s->data },
        { "checkpoint", s->checkpoint },
        { "program", program_bytes },
        { "total", s->total },
    };
    static_assert(COUNT(all) == MS_MEMORY_ROWS, "every row is there");
    memcpy(rows, all, sizeof all);
}

uint64_t ms_train_device_bytes(const ms_train *t, const ms_train_sizes *s)
{
    return t->ctx->kind->memory == NULL ? s->total : s->total - s->data - s->checkpoint;
}

/* Prints how much memory there was before the model was made, and advice if it is too little. */
static void print_available(const ms_train *t, const ms_train_sizes *s, FILE *to)
{
    const uint64_t needed = ms_train_device_bytes(t, s);
    char           advice[MS_ADVICE_TEXT];

    if (t->memory.available == 0) return; /* not known */
    fprintf(to, "  %-16s %9.1f MiB\n", "available", (double)t->memory.available / MIB);
    if (needed <= t->memory.available) return;
    ms_train_memory_advice(t, s, advice, sizeof advice);
    fprintf(to, "  it does not fit: the run needs %.1f GiB, %s\n", (double)needed / gib, advice);
}

void ms_train_print_memory(const ms_train *t, const ms_train_sizes *s, FILE *to)
{
    ms_memory_row rows[MS_MEMORY_ROWS];

    ms_train_memory_rows(s, rows);
    fprintf(to, "memory:\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].bytes == 0) continue;
        fprintf(to, "  %-16s %9.1f MiB", rows[i].name, (double)rows[i].bytes / MIB);
        if (s->attention > 0 && strcmp(rows[i].name, "workspace") == 0)
            fprintf(to, " (optimizer's step %.1f, attention's gradient %.1f at most, not at once)",
                    (double)s->workspace / MIB, (double)s->attention / MIB);
        fputc('\n', to);
    }
    print_available(t, s, to);
}

/* The sizes of the model alone, for the batches of the schedule. */
static musec_status measure_model(ms_error *e, const ms_train *t, ms_train_sizes *out)
{
    musec_dtype  dtype;
    musec_status st;

    TRY(ms_train_dtype(e, &t->cfg, t->ctx, &dtype));
    TRY(ms_gpt_measure(e, &t->cfg.model, dtype, t->schedule.max_tokens, t->ctx->kind->logits_chunk,
                       &out->model));
    out->total = out->model.weights + out->model.copies + out->model.grads + out->model.activations;
done:
    return st;
}

/* ---- advice ---------------------------------------------------------------------------------- */

void ms_train_memory_advice(const ms_train *t, const ms_train_sizes *sizes, char *text,
                            size_t bytes)
{
    const ms_train_stage *stage   = &t->schedule.stage[t->schedule.n_stages - 1];
    const uint64_t        weights = sizes->model.weights + sizes->model.copies + sizes->model.grads;
    const bool            least   = t->cfg.model.recompute == MS_RECOMPUTE_LAYER;
    const char           *less    = least ? "" : ", recompute layer";

    if (sizes->model.activations >= weights + sizes->optim_state &&
        sizes->model.activations >= sizes->workspace)
        snprintf(text, bytes,
                 "%.1f of them for activations of %lld tokens: more micro-batches (now %lld)%s or "
                 "a smaller batch lower that",
                 (double)sizes->model.activations / gib, (long long)t->schedule.max_tokens,
                 (long long)stage->micro_batches, less);
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

/* A GPU reports that its memory is exhausted.  A host overcommits its memory and kills a process
 * that uses it up, so there the model is checked beforehand. */
musec_status ms_train_check_memory(ms_error *e, ms_train *t)
{
    const bool     on_host = t->ctx->kind->memory == NULL;
    ms_train_sizes sizes   = { 0 };
    char           advice[MS_ADVICE_TEXT];
    musec_status   st;

    TRY(measure_model(e, t, &sizes));
    if (!on_host || t->memory.total == 0 || sizes.total <= t->memory.total) return MUSEC_OK;
    ms_train_memory_advice(t, &sizes, advice, sizeof advice);
    st = ms_fail(e, MUSEC_EINVAL,
                 "there are %.1f GiB of memory, swap included; the model alone needs %.1f, %s",
                 (double)t->memory.total / gib, (double)sizes.total / gib, advice);
done:
    return st;
}

/* ---- failures -------------------------------------------------------------------------------- */

static void append(ms_error *e, const char *fmt, ...) MS_PRINTF(2, 3);

static void append(ms_error *e, const char *fmt, ...)
{
    const size_t n = strlen(e->text);
    va_list      args;
    va_start(args, fmt);
    vsnprintf(e->text + n, sizeof e->text - n, fmt, args);
    va_end(args);
}

/* The needs of the run are measured on a model for one token; where not even that fits, only those
 * of the model are known. */
static void append_needs(ms_error *e, ms_train *t)
{
    ms_train_sizes sizes = { 0 };
    ms_error       ignored;
    char           advice[MS_ADVICE_TEXT];
    bool           whole;

    ms_train_teardown_model(t);
    whole = ms_train_build_model(&ignored, t, 1) == MUSEC_OK &&
            ms_train_measure(&ignored, t, &sizes) == MUSEC_OK;
    if (!whole && measure_model(&ignored, t, &sizes) != MUSEC_OK) return;
    ms_train_memory_advice(t, &sizes, advice, sizeof advice);
    append(e, "; the %s needs %.1f GiB, %s", whole ? "run" : "model alone",
           (double)sizes.total / gib, advice);
}

void ms_train_explain_failure(ms_error *e, ms_train *t, musec_status status)
{
    if (t->nccl != NULL) t->nccl->failed = true; /* the other ranks are in the midst of something */
    if (t->ctx == NULL || (status != MUSEC_EDEVICE && status != MUSEC_ENOMEM)) return;
    /* To make the model again would take all ranks. */
    if (status == MUSEC_ENOMEM && ms_comm_of(&t->setup)->size == 1) append_needs(e, t);
    if (t->setup.out == NULL || t->started == 0.0) return; /* no step was made */
    if (t->saved_step > 0)
        append(e, "; the checkpoint of step %lld is whole", (long long)t->saved_step);
    else
        append(e, "; there is no checkpoint yet");
    append(e, ": go on with musec train --resume %s", t->setup.out);
}
