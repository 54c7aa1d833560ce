/* schedule.c - parses the stages of a run and computes what each step uses. */
#define _POSIX_C_SOURCE 200809L
#include "train/schedule.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/real.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* Parses an integer up to the end of `text` or one of `stops`; NULL if there is none. */
static const char *read_count(const char *text, const char *stops, int64_t *out)
{
    char           *end = NULL;
    const long long x   = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : 0;
    if (end == NULL || x < 0 || x > ((int64_t)1 << 40)) return NULL;
    if (*end != '\0' && strchr(stops, *end) == NULL) return NULL;
    *out = x;
    return end;
}

static const char *read_number(const char *text, const char *stops, double *out)
{
    char        *end = NULL;
    const double x   = ms_real_read(text, &end);
    if (end == text || !(x >= 0.0 && x < 1e9)) return NULL;
    if (*end != '\0' && strchr(stops, *end) == NULL) return NULL;
    *out = x;
    return end;
}

/* Parses "1,0.5,0.25" up to the end or '>'. */
static const char *read_weights(const char *text, double *out, int *n)
{
    for (*n = 0; *n < MS_XENT_TARGETS;) {
        text = read_number(text, ",>", &out[*n]);
        if (text == NULL) return NULL;
        ++*n;
        if (*text != ',') return text;
        text++;
    }
    return NULL;
}

static bool set_mtp(ms_train_stage *s, const char *text)
{
    double from[MS_XENT_TARGETS] = { 0 }, to[MS_XENT_TARGETS] = { 0 };
    int    n = 0, m = 0;
    text = read_weights(text, from, &n);
    if (text == NULL) return false;
    if (*text == '>') {
        text = read_weights(text + 1, to, &m);
        if (text == NULL || *text != '\0' || m != n) return false;
    } else {
        memcpy(to, from, sizeof to);
    }
    if (!(from[0] > 0.0 && to[0] > 0.0)) return false;
    s->n_weights = n;
    memcpy(s->weights, from, sizeof from);
    memcpy(s->weights_end, to, sizeof to);
    return true;
}

static bool set_windows(ms_train_stage *s, const char *text)
{
    text = read_count(text, "/", &s->window_short);
    if (text == NULL || *text != '/') return false;
    text = read_count(text + 1, "", &s->window_long);
    return text != NULL;
}

static bool set_one(ms_train_stage *s, const char *key, const char *value)
{
    if (strcmp(key, "batch") == 0) return read_count(value, "", &s->batch) != NULL;
    if (strcmp(key, "micro") == 0) return read_count(value, "", &s->micro_batches) != NULL;
    if (strcmp(key, "doc") == 0) return read_count(value, "", &s->max_doc) != NULL;
    if (strcmp(key, "window") == 0) return set_windows(s, value);
    if (strcmp(key, "lr") == 0) return read_number(value, "", &s->lr) != NULL;
    if (strcmp(key, "mtp") == 0) return set_mtp(s, value);
    return false;
}

/* Sets the end of a stage that begins at `first` and lasts "460", "33%" or "rest". */
static bool set_length(const ms_schedule *all, const char *word, int64_t first, int64_t *end)
{
    const char *at;
    double      share;
    if (strcmp(word, "rest") == 0) {
        *end = all->steps;
        return true;
    }
    at = read_number(word, "%", &share);
    if (at == NULL) return false;
    if (*at == '%' && at[1] == '\0' && share <= 100.0) {
        *end = first + llround(share / 100.0 * (double)all->scheduled);
        if (first <= all->scheduled && *end > all->scheduled) *end = all->scheduled; /* rounding */
    } else if (*at == '\0' && share == floor(share)) {
        *end = first + (int64_t)share;
    } else {
        return false;
    }
    return true;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static musec_status check_stage(ms_error *e, const ms_train_stage *s, int number)
{
    const char *problem = NULL;
    if (s->batch < 1 || s->micro_batches < 1 || s->batch % s->micro_batches != 0)
        problem = "its batch must be a multiple of its micro-batches, both at least 1";
    else if (s->batch / s->micro_batches > 1 << 26)
        problem = "its micro-batch has more than 2^26 tokens; raise micro_batches";
    else if (s->max_doc < 1)
        problem = "its longest document must be at least 1";
    if (problem != NULL)
        return ms_fail(e, MUSEC_EINVAL,
                       "stage %d: %s (batch %lld, micro-batches %lld, longest document %lld)",
                       number, problem, (long long)s->batch, (long long)s->micro_batches,
                       (long long)s->max_doc);
    return MUSEC_OK;
}

/* The state of the parser between stages. */
typedef struct stage_parser {
    int     number; /* of the stage, from 1 */
    int64_t first;  /* its first step, which may lie beyond a short run */
    bool    rest;   /* an earlier stage was "rest" */
} stage_parser;

static musec_status read_settings(ms_error *e, char **rest, int number, ms_train_stage *s)
{
    const char *word;
    while ((word = strtok_r(NULL, " \t\n", rest)) != NULL) {
        char *equal = strchr(word, '=');
        if (equal != NULL) *equal = '\0';
        if (equal == NULL || !set_one(s, word, equal + 1))
            return ms_fail(e, MUSEC_EINVAL,
                           "stages: \"%s%s%s\" of stage %d is none of batch=N, micro=N, doc=N, "
                           "window=SHORT/LONG, lr=X, mtp=1,0.5 or mtp=1,0.5>1,0",
                           word, equal != NULL ? "=" : "", equal != NULL ? equal + 1 : "", number);
    }
    return MUSEC_OK;
}

static musec_status read_stage(ms_error *e, char *text, stage_parser *at, ms_schedule *out,
                               const ms_train_stage *base)
{
    ms_train_stage s    = *base;
    char          *rest = NULL, *word = strtok_r(text, " \t\n", &rest);
    musec_status   st;

    at->number++;
    if (word == NULL) return ms_fail(e, MUSEC_EINVAL, "stages: stage %d is empty", at->number);
    if (at->rest)
        return ms_fail(e, MUSEC_EINVAL,
                       "stages: stage %d comes after \"rest\", which takes all steps", at->number);
    s.first = at->first;
    if (!set_length(out, word, s.first, &s.end))
        return ms_fail(e, MUSEC_EINVAL,
                       "stages: stage %d lasts \"%s\"; that must be steps (460), a share (33%%) or "
                       "\"rest\"",
                       at->number, word);
    at->rest = strcmp(word, "rest") == 0;
    TRY(read_settings(e, &rest, at->number, &s));
    at->first = s.end;
    if (!at->rest && s.end > out->scheduled) s.end = out->scheduled;
    if (s.end <= s.first || s.first > out->scheduled) return MUSEC_OK; /* not reached */
    if (out->n_stages == MS_STAGES)
        return ms_fail(e, MUSEC_EINVAL, "stages: stage %d is one too many; the maximum is %d",
                       at->number, MS_STAGES);
    out->stage[out->n_stages++] = s;
    st                          = check_stage(e, &s, at->number);
done:
    return st;
}

static musec_status read_stages(ms_error *e, const ms_train_config *cfg, ms_schedule *out,
                                const ms_train_stage *base)
{
    char         text[MS_TEXT_MAX], *next;
    stage_parser at = { 0 };
    musec_status st = MUSEC_OK;

    snprintf(text, sizeof text, "%s", cfg->stages);
    for (char *part = text; part != NULL; part = next) {
        next = strchr(part, ';');
        if (next != NULL) *next++ = '\0';
        if (next == NULL && part[strspn(part, " \t\n")] == '\0')
            break; /* nothing after the last ';' */
        TRY(read_stage(e, part, &at, out, base));
    }
    if (out->n_stages == 0) {
        out->stage[0]     = *base;
        out->stage[0].end = out->scheduled;
        out->n_stages     = 1;
        TRY(check_stage(e, base, 1));
    }
    out->stage[out->n_stages - 1].end = out->steps; /* the last stage takes all that is left */
    for (int i = 0; i < out->n_stages; i++) {
        const int64_t tokens = out->stage[i].batch / out->stage[i].micro_batches;
        if (tokens > out->max_tokens) out->max_tokens = tokens;
    }
done:
    return st;
}

musec_status ms_schedule_make(ms_error *e, const ms_train_config *cfg, ms_schedule *out)
{
    ms_train_stage base = { .batch         = cfg->batch,
                            .micro_batches = cfg->micro_batches,
                            .max_doc       = cfg->max_doc,
                            .window_short  = cfg->window_short,
                            .window_long   = cfg->window_long,
                            .lr            = 1.0 };

    if (cfg->extension >= cfg->steps)
        return ms_fail(
            e, MUSEC_EINVAL,
            "extension is %lld; it must be below the %lld steps: lower it with --extension",
            (long long)cfg->extension, (long long)cfg->steps);
    if (!set_mtp(&base, cfg->mtp))
        return ms_fail(e, MUSEC_EINVAL,
                       "mtp is \"%s\"; it must be up to %d weights, the first above 0: 1,0.5 or "
                       "1,0.5>1,0",
                       cfg->mtp, MS_XENT_TARGETS);
    *out = (ms_schedule){ .steps             = cfg->steps,
                          .scheduled         = cfg->steps - cfg->extension,
                          .cooldown          = cfg->cooldown,
                          .cooldown_to       = cfg->cooldown_to,
                          .beta              = cfg->optim.beta,
                          .momentum_from     = cfg->momentum_from,
                          .momentum_warmup   = cfg->momentum_warmup,
                          .momentum_cooldown = cfg->momentum_cooldown,
                          .yarn              = cfg->yarn,
                          .untie             = cfg->untie };
    return read_stages(e, cfg, out, &base);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static double lerp(double from, double to, double t) { return from * (1.0 - t) + to * t; }

static double beta_at(const ms_schedule *s, int64_t step)
{
    const int64_t left = s->steps - 1 - step;
    double        beta = s->beta;
    if (step < s->momentum_warmup)
        beta = lerp(s->momentum_from, s->beta, (double)step / (double)s->momentum_warmup);
    if (left < s->momentum_cooldown) {
        const double back =
            lerp(s->momentum_from, s->beta, (double)left / (double)s->momentum_cooldown);
        if (fabs(back - s->beta) > fabs(beta - s->beta)) beta = back;
    }
    return beta;
}

static double lr_at(const ms_schedule *s, const ms_train_stage *stage, int64_t step)
{
    const int64_t length = llround(s->cooldown * (double)s->scheduled),
                  start  = s->scheduled - length;
    if (length == 0 || step < start) return stage->lr;
    if (step >= s->scheduled) return s->cooldown_to;
    return lerp(stage->lr, s->cooldown_to, (double)(step - start) / (double)length);
}

ms_step_plan ms_schedule_at(const ms_schedule *s, int64_t step)
{
    int i = 0;
    while (i + 1 < s->n_stages && step >= s->stage[i].end)
        i++;
    const ms_train_stage *stage = &s->stage[i];
    const double          along = (double)(step - stage->first) /
                         (double)(stage->end > stage->first ? stage->end - stage->first : 1);
    ms_step_plan plan = { .stage     = stage,
                          .tokens    = stage->batch / stage->micro_batches,
                          .lr_scale  = lr_at(s, stage, step),
                          .beta      = beta_at(s, step),
                          .n_weights = stage->n_weights };
    for (int k = 0; k < stage->n_weights; k++)
        plan.weights[k] = lerp(stage->weights[k], stage->weights_end[k], along);
    while (plan.n_weights > 1 && plan.weights[plan.n_weights - 1] == 0.0)
        plan.n_weights--;
    return plan;
}

void ms_schedule_pass(const ms_schedule *s, const ms_step_plan *plan, int64_t step,
                      ms_gpt_pass *pass)
{
    int64_t last = 0;

    static_assert((int)MS_STAGES <= (int)MS_GPT_WINDOWS,
                  "every stage may have a window of its own");
    pass->window_short = plan->stage->window_short;
    pass->window_long  = plan->stage->window_long;
    pass->tied         = step < s->untie;
    pass->n_windows    = 0;
    for (const ms_train_stage *g = s->stage; g <= plan->stage; g++) {
        if (g->window_long <= last || g->window_long > s->yarn) continue;
        last                             = g->window_long;
        pass->windows[pass->n_windows++] = last;
    }
}

static bool same_plan(const ms_step_plan *x, const ms_step_plan *y)
{
    bool same = x->tokens == y->tokens && x->lr_scale == y->lr_scale && x->beta == y->beta &&
                x->n_weights == y->n_weights && x->stage->batch == y->stage->batch &&
                x->stage->micro_batches == y->stage->micro_batches &&
                x->stage->max_doc == y->stage->max_doc &&
                x->stage->window_short == y->stage->window_short &&
                x->stage->window_long == y->stage->window_long;
    for (int i = 0; same && i < x->n_weights; i++)
        same = x->weights[i] == y->weights[i];
    return same;
}

bool ms_schedule_same(const ms_schedule *a, const ms_schedule *b, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        const ms_step_plan x = ms_schedule_at(a, i), y = ms_schedule_at(b, i);
        if (!same_plan(&x, &y)) return false;
    }
    return true;
}
