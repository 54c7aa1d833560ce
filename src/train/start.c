/* start.c - what a run will be and take, before it begins. */
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

/* Memory of a GPU is refused by itself, with words of its own; that of the host is promised to
 * whoever asks, and the process is killed once it is used. */
musec_status ms_train_check_memory(ms_error *e, ms_train *t)
{
    const bool     on_host = t->ctx->kind->memory == NULL;
    ms_train_sizes sizes   = { 0 };
    char           advice[MS_ADVICE_TEXT];
    musec_dtype    dtype;
    musec_status   st;

    t->memory = on_host ? ms_memory_here() : t->ctx->kind->memory(t->ctx);
    TRY(ms_train_dtype(e, &t->cfg, t->ctx, &dtype));
    TRY(ms_gpt_measure(e, &t->cfg.model, dtype, t->schedule.max_tokens, t->ctx->kind->temporary,
                       &sizes.model));
    sizes.total =
        sizes.model.weights + sizes.model.copies + sizes.model.grads + sizes.model.activations;
    if (!on_host || t->memory.total == 0 || sizes.total <= t->memory.total) return MUSEC_OK;
    ms_train_advise(t, &sizes, advice, sizeof advice);
    st = ms_fail(e, MUSEC_EINVAL,
                 "there are %.1f GiB of memory, swap included; the model alone needs %.1f, %s",
                 (double)t->memory.total / 0x1p30, (double)sizes.total / 0x1p30, advice);
done:
    return st;
}

musec_status ms_train_announce(ms_error *e, ms_train *t, int64_t step)
{
    char           advice[MS_ADVICE_TEXT];
    ms_train_start start = { .config   = &t->cfg,
                             .schedule = &t->schedule,
                             .train    = t->train,
                             .device   = t->ctx,
                             .dtype    = ms_gpt_dtype(t->gpt),
                             .step     = step,
                             .memory   = t->memory,
                             .advice   = advice };
    musec_status   st    = MUSEC_OK;

    if (t->setup.on_open == NULL) return MUSEC_OK;
    TRY(ms_train_measure(e, t, &start.sizes));
    start.needed = start.sizes.total;
    if (t->ctx->kind->memory != NULL) /* what stays in the host's */
        start.needed -= start.sizes.data + start.sizes.checkpoint;
    ms_train_advise(t, &start.sizes, advice, sizeof advice);
    TRY(t->setup.on_open(e, t->setup.arg, &start));
    t->made_out = start.made_out;
done:
    return st;
}
