/* scaling_measure.c - the rates of scaling.h, measured here.
 *
 * What a training step does is done, by the functions that do it: a micro-batch is read and its
 * gradients computed, and one parameter of each kind is stepped.  Where several ranks measure, they
 * begin each part together, since ranks of one machine share its memory and caches, and the slowest
 * of them counts.  Medians are taken: a machine that others use as well makes single ones slow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/size.h"
#include "core/text.h"
#include "train/gradients.h"
#include "train/ranks.h"
#include "train/scaling.h"
#include "train/trainer.h"

enum { FEWEST = 3, TRIES = 15, PINGS = 200, MESSAGES = 10, LEAST_TOKENS = 64 };
static const double  enough_ms = 1000.0, pass_work = 2e11;
static const int64_t message_bytes = (int64_t)16 << 20;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, ascending);
    return n % 2 == 1 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static musec_status together(ms_error *e, ms_comm *c)
{
    return ms_comm_check(e, c, c->ops->barrier(c));
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* The time of a pass over so many tokens, and of reading one of them. */
static musec_status time_pass(ms_error *e, ms_train *t, ms_comm *c, int64_t tokens, double *pass_ms,
                              double *read_ms)
{
    ms_step_plan plan = ms_schedule_at(&t->schedule, 0);
    double       passes[TRIES], reads[TRIES], spent = 0.0;
    size_t       n = 0;
    bool         stopped;
    musec_status st = MUSEC_OK;

    plan.tokens = tokens;
    for (int i = 0; i <= TRIES && (n < FEWEST || spent < enough_ms) && n < TRIES; i++) {
        ms_log_line  line  = { 0 };
        const double start = ms_clock_ms();
        TRY(ms_train_gradients(e, t, &plan, &line, &stopped));
        if (i == 0) { /* it opens libraries and takes memory */
            TRY(together(e, c));
            continue;
        }
        spent += ms_clock_ms() - start;
        passes[n]  = line.ms_model;
        reads[n++] = line.ms_data / (double)tokens;
        TRY(ms_comm_check(e, c, c->ops->all_reduce(c, MS_COMM_MAX, &spent, 1)));
    }
    *pass_ms = median(passes, n);
    *read_ms = median(reads, n);
done:
    return st;
}

/* The line through both passes; a constant part below 0 is none. */
static musec_status time_passes(ms_error *e, ms_train *t, ms_comm *c, int64_t tokens, int64_t fewer,
                                ms_scaling_machine *out)
{
    double       all, few, ignored;
    musec_status st;

    TRY(time_pass(e, t, c, tokens, &all, &out->read_ms));
    out->pass_ms  = 0.0;
    out->token_ms = all / (double)tokens;
    if (fewer < tokens) {
        TRY(time_pass(e, t, c, fewer, &few, &ignored));
        const double slope = (all - few) / (double)(tokens - fewer);
        if (slope > 0.0 && slope < out->token_ms) {
            out->token_ms = slope;
            out->pass_ms  = all - slope * (double)tokens;
        }
    }
done:
    return st;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

static musec_status time_steps(ms_error *e, const ms_train *t, ms_comm *c, ms_scaling_param *params)
{
    double       ms[FEWEST];
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < ms_gpt_n_params(t->gpt); i++) {
        if ((size_t)params[i].kind < i) {
            params[i].ms = params[params[i].kind].ms;
            continue;
        }
        TRY(together(e, c));
        for (int k = 0; k < FEWEST; k++)
            TRY(ms_train_time_step(e, t, ms_gpt_param(t->gpt, i), &ms[k]));
        params[i].ms = median(ms, FEWEST);
        TRY(ms_comm_check(e, c, c->ops->all_reduce(c, MS_COMM_MAX, &params[i].ms, 1)));
    }
done:
    return st;
}

/* ---- sums and messages ----------------------------------------------------------------------- */

static musec_status time_adding(ms_error *e, const ms_train *t, ms_comm *c, double *ms_byte)
{
    ms_device   *d         = t->ctx;
    void        *memory[2] = { NULL, NULL };
    ms_mat       row[2];
    double       ms[MESSAGES];
    musec_status st = MUSEC_OK;

    for (int i = 0; i < 2; i++) {
        TRY(ms_train_check(e, d, d->ops->alloc(d, (size_t)message_bytes, &memory[i])));
        row[i] = ms_mat_of(musec_view_dense(memory[i], MUSEC_F32, 1, 1, message_bytes / 4));
        TRY(ms_train_check(e, d, d->ops->fill(d, 1.0, row[i])));
    }
    TRY(together(e, c));
    for (int k = -1; k < MESSAGES; k++) {
        TRY(ms_train_check(e, d, musec_ctx_sync(d)));
        const double start = ms_clock_ms();
        TRY(ms_train_check(e, d, d->ops->axpby(d, ms_const(1.0), row[0], ms_const(1.0), row[1])));
        TRY(ms_train_check(e, d, musec_ctx_sync(d)));
        if (k >= 0) ms[k] = ms_clock_ms() - start;
    }
    *ms_byte = median(ms, MESSAGES) / (double)message_bytes;
done:
    for (int i = 0; i < 2; i++)
        d->ops->free(d, memory[i]);
    return st;
}

/* Every rank sends to the next one and gets from the one before, at once: milliseconds. */
static musec_status time_ring(ms_error *e, ms_comm *c, char *out, char *in, int64_t bytes, int n,
                              double *ms)
{
    const int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
    const ms_comm_transfer to   = { out, bytes, c->rank, next },
                           from = { in, bytes, before, c->rank };
    const bool first = c->rank % 2 == 0; /* both in the order of one list, as they must */
    const ms_comm_transfer list[2] = { first ? to : from, first ? from : to };
    double                 all[PINGS];
    musec_status           st;

    TRY(together(e, c));
    for (int k = -1; k < n; k++) {
        const double start = ms_clock_ms();
        TRY(ms_comm_check(e, c, c->ops->pass(c, NULL, list, 2)));
        if (k >= 0) all[k] = ms_clock_ms() - start;
    }
    *ms = median(all, (size_t)n);
done:
    return st;
}

static musec_status time_messages(ms_error *e, ms_comm *c, ms_scaling_machine *out)
{
    char        *memory = calloc(2, (size_t)message_bytes);
    double       small = 0.0, large = 0.0;
    musec_status st = MUSEC_OK;

    if (memory == NULL) TRY(ms_no_memory(e, "the messages that are timed"));
    TRY(time_ring(e, c, memory, memory + message_bytes, 8, PINGS, &small));
    TRY(time_ring(e, c, memory, memory + message_bytes, message_bytes, MESSAGES, &large));
    out->net = (ms_scaling_link){ small, fmax(0.0, large - small) / (double)message_bytes };
done:
    free(memory);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The largest numbers of all ranks. */
static musec_status agree(ms_error *e, ms_comm *c, ms_scaling_machine *m)
{
    double x[] = { m->token_ms, m->pass_ms, m->read_ms, m->add_ms_byte, m->net.ms, m->net.ms_byte };
    const musec_status st =
        ms_comm_check(e, c, c->ops->all_reduce(c, MS_COMM_MAX, x, (int64_t)COUNT(x)));
    m->token_ms = x[0], m->pass_ms = x[1], m->read_ms = x[2], m->add_ms_byte = x[3];
    m->net = (ms_scaling_link){ x[4], x[5] };
    return st;
}

/* At most so many tokens that a CPU takes seconds; a token takes six operations a parameter. */
static musec_status limit_tokens(ms_error *e, const ms_train_config *cfg, int64_t *tokens,
                                 int64_t *fewer)
{
    char         note[sizeof(ms_error)];
    musec_ctx   *ctx = NULL;
    musec_status st;

    TRY(ms_train_open_device(e, cfg->device, note, &ctx));
    if (ctx->kind->memory == NULL) {
        const double  most = pass_work / ms_gpt_flops(&cfg->model, 1.0);
        const int64_t n    = most > (double)LEAST_TOKENS ? (int64_t)most : LEAST_TOKENS;
        *tokens            = ms_min_i64(*tokens, n);
        *fewer             = ms_min_i64(*fewer, *tokens);
    }
done:
    musec_ctx_destroy(ctx);
    return st;
}

musec_status ms_scaling_measure(ms_error *e, const ms_train_config *cfg, ms_comm *comm,
                                int64_t tokens, int64_t fewer, ms_scaling_param *params,
                                ms_scaling_machine *out, char *text, size_t bytes)
{
    ms_train     t = { .cfg = *cfg };
    musec_status st;

    *out = (ms_scaling_machine){ .per_node = 1 };
    TRY(limit_tokens(e, cfg, &tokens, &fewer));
    t.cfg.batch         = tokens;
    t.cfg.micro_batches = 1;
    TRY(ms_train_build(e, &t, 0));
    TRY(ms_train_init_weights(e, &t));
    TRY(time_passes(e, &t, comm, tokens, fewer, out));
    TRY(time_steps(e, &t, comm, params));
    TRY(time_adding(e, &t, comm, &out->add_ms_byte));
    if (comm->size > 1) TRY(time_messages(e, comm, out));
    if (t.ctx->kind->memory != NULL) out->memory = t.memory.total; /* ranks share a host's */
    if (comm->size > 1) TRY(agree(e, comm, out));
    snprintf(text, bytes, "measured on %s, passes of %lld", musec_ctx_device(t.ctx),
             (long long)tokens);
    if (fewer < tokens) ms_text_append(text, bytes, " and %lld", (long long)fewer);
    ms_text_append(text, bytes, " tokens");
done:
    ms_train_teardown(&t);
    return st;
}
