/* sampler.c - samples tokens from a checkpoint.
 *
 * For every token the model runs over the text so far, up to the last `context` tokens: it was
 * trained on no longer documents.  Sample number n of a seed uses the n-th number of its random
 * stream, so that a text can be reproduced. */
#include "train/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "train/weights.h"

typedef struct token_logit {
    double  logit;
    int32_t id;
} token_logit;

struct ms_sampler {
    ms_checkpoint   checkpoint;
    char            warning[sizeof(ms_error)], note[sizeof(ms_error)];
    ms_train_config cfg;
    ms_gpt_pass     pass;
    int64_t         ids; /* used ids; the rest of the vocabulary is padding */
    int64_t         context;
    musec_ctx      *ctx;
    ms_gpt         *gpt;
    int32_t        *tokens; /* (context) the text so far */
    int64_t         n_tokens;
    uint64_t        n_sampled;
    double         *logits; /* (vocab) */
    token_logit    *sorted; /* (ids) the most likely first */
};

/* ---- opening --------------------------------------------------------------------------------- */

static musec_status open_model(ms_error *e, ms_sampler *s, const char *device)
{
    char         path[MS_PATH_MAX + 32];
    ms_schedule  schedule;
    musec_status st;

    TRY(ms_train_checkpoint_config(e, &s->checkpoint, &s->cfg));
    TRY(ms_schedule_make(e, &s->cfg, &schedule));
    const ms_step_plan    plan = ms_schedule_at(&schedule, s->checkpoint.step - 1);
    const ms_train_stage *last = plan.stage;
    ms_schedule_pass(&schedule, &plan, s->checkpoint.step - 1, &s->pass);
    s->context = last->max_doc < plan.tokens ? last->max_doc : plan.tokens;
    s->ids     = s->cfg.tokenizer == MS_TOKENIZER_BYTE ? MS_BYTES_START + 1 : MS_BPE_IDS;
    s->tokens  = calloc((size_t)s->context, sizeof *s->tokens);
    s->logits  = calloc((size_t)s->cfg.model.vocab, sizeof *s->logits);
    s->sorted  = calloc((size_t)s->ids, sizeof *s->sorted);
    if (s->tokens == NULL || s->logits == NULL || s->sorted == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory"));
    TRY(ms_train_open_device(e, device, s->note, &s->ctx));
    s->ctx->no_autotune = true; /* every token has products of its own sizes */
    TRY(ms_train_check(
        e, s->ctx,
        ms_gpt_create(&s->gpt, s->ctx, &s->cfg.model, s->ctx->kind->activation_dtype, s->context)));
    snprintf(path, sizeof path, "%s/model.safetensors", s->checkpoint.dir);
    TRY(ms_weights_read(e, path, s->ctx, s->gpt));
done:
    return st;
}

musec_status ms_sampler_open(ms_error *e, const char *path, const char *device, ms_sampler **out)
{
    ms_sampler  *s = calloc(1, sizeof *s);
    musec_status st;

    *out = NULL;
    if (s == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    TRY(ms_checkpoint_find(e, path, -1, &s->checkpoint, s->warning));
    TRY(open_model(e, s, device));
    ms_sampler_new_document(s);
    *out = s;
    return MUSEC_OK;
done:
    ms_sampler_close(s);
    return st;
}

void ms_sampler_close(ms_sampler *s)
{
    if (s == NULL) return;
    ms_gpt_destroy(s->gpt);
    musec_ctx_destroy(s->ctx);
    ms_checkpoint_close(&s->checkpoint);
    free(s->sorted);
    free(s->logits);
    free(s->tokens);
    free(s);
}

const ms_train_config *ms_sampler_config(const ms_sampler *s) { return &s->cfg; }
const char            *ms_sampler_warning(const ms_sampler *s) { return s->warning; }
const char            *ms_sampler_note(const ms_sampler *s) { return s->note; }
const char            *ms_sampler_device(const ms_sampler *s) { return musec_ctx_device(s->ctx); }

const char *ms_sampler_checkpoint(const ms_sampler *s, int64_t *step)
{
    *step = s->checkpoint.step;
    return s->checkpoint.dir;
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* In both tokenizers it is the last id. */
static int32_t start_id(const ms_sampler *s) { return (int32_t)(s->ids - 1); }

static void append_one(ms_sampler *s, int32_t id)
{
    if (s->n_tokens == s->context) {
        memmove(s->tokens, s->tokens + 1, (size_t)(s->n_tokens - 1) * sizeof *s->tokens);
        s->n_tokens--;
    }
    s->tokens[s->n_tokens++] = id;
}

void ms_sampler_new_document(ms_sampler *s)
{
    s->tokens[0] = start_id(s);
    s->n_tokens  = 1;
}

musec_status ms_sampler_append(ms_error *e, ms_sampler *s, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->ids)
            return ms_fail(e, MUSEC_EINVAL, "id %d is not one of the tokenizer's %lld", (int)ids[i],
                           (long long)s->ids);
    for (int64_t i = 0; i < n; i++)
        append_one(s, ids[i]);
    return MUSEC_OK;
}

static int by_logit(const void *a, const void *b) /* the most likely first, then the lower id */
{
    const token_logit *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Sorts the logits too. */
static int32_t sample_id(ms_sampler *s, const ms_sampling *how)
{
    const int64_t  k   = how->top_k > 0 && how->top_k < s->ids ? how->top_k : s->ids;
    const int64_t  n   = how->temperature == 0.0 ? 1 : k;
    const uint64_t key = ms_rand_key(how->seed, "sample");
    double         sum = 0.0, at;

    for (int32_t id = 0; id < s->ids; id++)
        s->sorted[id] = (token_logit){ s->logits[id], id };
    qsort(s->sorted, (size_t)s->ids, sizeof *s->sorted, by_logit);
    const double top = s->sorted[0].logit;
    if (n == 1) return s->sorted[0].id;
    for (int64_t i = 0; i < n; i++)
        sum += exp((s->sorted[i].logit - top) / how->temperature);
    at = sum * ms_rand_uniform(key, s->n_sampled);
    for (int64_t i = 0; i < n; i++) {
        at -= exp((s->sorted[i].logit - top) / how->temperature);
        if (at <= 0.0) return s->sorted[i].id;
    }
    return s->sorted[n - 1].id;
}

/* Called after sample_id, so that the logits are sorted: the largest is subtracted, and the sum
 * begins with it. */
static double logprob_of(const ms_sampler *s, int32_t id)
{
    const double top = s->sorted[0].logit;
    double       sum = 1.0; /* the largest itself */
    for (int64_t i = 1; i < s->ids; i++)
        sum += exp(s->sorted[i].logit - top);
    return s->logits[id] - top - log(sum);
}

musec_status ms_sampler_next(ms_error *e, ms_sampler *s, const ms_sampling *how, ms_sampled *out)
{
    musec_status st;

    TRY(ms_train_check(e, s->ctx,
                       ms_gpt_next(s->gpt, s->tokens, s->n_tokens, &s->pass, s->logits)));
    for (int64_t i = 0; i < s->ids; i++)
        if (!isfinite(s->logits[i]))
            return ms_fail(e, MUSEC_ENONFINITE, "%s: the model's logits are not finite",
                           s->checkpoint.dir);
    out->id      = sample_id(s, how);
    out->logprob = logprob_of(s, out->id);
    s->n_sampled++;
    if (out->id == start_id(s))
        ms_sampler_new_document(s);
    else
        append_one(s, out->id);
done:
    return st;
}
