/* scaling.c - see scaling.h. */
#include "train/scaling.h"

#include <math.h>
#include <stdlib.h>

#include "core/size.h"
#include "train/ranks.h"

/* As mpi.c, sums.c and ranks.c have them. */
enum { WINDOW = 32, AGREEMENTS = 4, NUMBERS = 3, BUCKETS = 16 };
static const double chunk = 0x1p26, inbox = 0x1p25, bucket_min = 0x1p16, bucket_max = 0x1p23,
                    f32 = 4.0;

/* The ranks differ by the matrices that they own alone: those beyond the last matrix are alike. */
typedef struct dealt {
    double *bytes, *pieces, *ms; /* by rank; what is split is not in them */
    int64_t n;                   /* ranks with an entry */
    double  all_bytes, all_pieces;
    double  split_bytes, split_pieces, split_ms; /* of a rank */
    double  split_elements;
    double  largest_ms;
    double  bucket; /* bytes that go together */
    double  last;   /* the share of the bytes that nothing hides: what a backward pass completes
                       * last, and a forward pass reads first */
} dealt;

static double elements(const ms_scaling_param *p) { return (double)p->rows * (double)p->cols; }

static double pieces_of(double bytes) { return ceil(bytes / chunk); }

/* ---- shares ---------------------------------------------------------------------------------- */

static void add_split(const ms_scaling_param *p, int64_t ranks, dealt *d)
{
    const double share = ceil((double)p->rows / (double)ranks) * (double)p->cols;
    const double parts = (double)ms_min_i64(ranks, p->rows);
    d->all_bytes += elements(p) * f32;
    d->all_pieces += parts * pieces_of(share * f32);
    d->split_bytes += share * f32;
    d->split_pieces += pieces_of(share * f32);
    d->split_elements += share;
    d->split_ms += p->ms * share / elements(p);
}

/* Deals the matrices as ms_train_deal does.  More ranks than matrices change nothing. */
static musec_status deal(ms_error *e, const ms_scaling_job *job, int64_t ranks, dealt *d)
{
    const size_t n     = job->n_params;
    double      *cost  = calloc(n + 1, sizeof *cost);
    int         *kind  = calloc(n + 1, sizeof *kind);
    int         *owner = calloc(n + 1, sizeof *owner);
    musec_status st    = MUSEC_OK;

    *d        = (dealt){ .n = ms_min_i64(ranks, (int64_t)n + 1) };
    d->bytes  = calloc((size_t)d->n, sizeof *d->bytes);
    d->pieces = calloc((size_t)d->n, sizeof *d->pieces);
    d->ms     = calloc((size_t)d->n, sizeof *d->ms);
    if (cost == NULL || kind == NULL || owner == NULL || d->bytes == NULL || d->pieces == NULL ||
        d->ms == NULL)
        TRY(ms_no_memory(e, "the shares of the ranks"));
    for (size_t i = 0; i < n; i++) {
        cost[i] = job->params[i].split ? 0.0 : job->params[i].ms;
        kind[i] = job->params[i].kind;
    }
    TRY(ms_deal(e, cost, kind, n, (int)d->n, owner));
    for (size_t i = 0; i < n; i++) {
        const ms_scaling_param *p = &job->params[i];
        if (p->split) {
            add_split(p, ranks, d);
            continue;
        }
        const double bytes = elements(p) * f32;
        d->bytes[owner[i]] += bytes;
        d->pieces[owner[i]] += pieces_of(bytes);
        d->ms[owner[i]] += p->ms;
        d->all_bytes += bytes;
        d->all_pieces += pieces_of(bytes);
        d->largest_ms = fmax(d->largest_ms, p->ms);
    }
    const double others = (double)(ranks - 1) / (double)ranks;
    d->bucket           = fmax(bucket_min, fmin(bucket_max, d->all_bytes * others / BUCKETS));
    if (job->gpus) d->bucket = inbox;
    d->last = elements(&job->params[job->model->tied ? n - 1 : 0]) * f32 / d->all_bytes;
done:
    free(owner);
    free(kind);
    free(cost);
    return st;
}

static void free_dealt(dealt *d)
{
    free(d->ms);
    free(d->pieces);
    free(d->bytes);
}

static double most(const double *x, int64_t n)
{
    double max = x[0];
    for (int64_t i = 1; i < n; i++)
        max = fmax(max, x[i]);
    return max;
}

static double least(const double *x, int64_t n)
{
    double min = x[0];
    for (int64_t i = 1; i < n; i++)
        min = fmin(min, x[i]);
    return min;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* What some messages take: the busiest rank's. */
typedef struct cost {
    double bytes, latency_ms, bandwidth_ms, add_ms;
} cost;

static double ms_of(const cost *c) { return c->latency_ms + c->bandwidth_ms + c->add_ms; }

/* What remains of messages that go on while so much is computed.  Adding is computing, too. */
static double exposed(const cost *c, double last, double computing_ms)
{
    const double sent = c->latency_ms + c->bandwidth_ms;
    return fmax(last * sent, sent - computing_ms) + c->add_ms;
}

static int64_t nodes_of(const ms_scaling_machine *m, int64_t ranks)
{
    return (ranks - 1) / m->per_node + 1;
}

static double depth(int64_t n) { return ceil(log2((double)n)); }

/* Messages to ranks anywhere: those of other nodes go over the network. */
static cost transfers(const ms_scaling_machine *m, int64_t ranks, double bytes, double windows)
{
    const int64_t near   = ms_min_i64(m->per_node, ranks) - 1;
    const double  within = (double)near / (double)(ranks - 1);
    const bool    far    = ranks > m->per_node;
    return (cost){ .bytes        = bytes,
                   .latency_ms   = windows * (far ? m->net.ms : m->node.ms),
                   .bandwidth_ms = fmax(bytes * within * m->node.ms_byte,
                                        bytes * (1.0 - within) * m->net.ms_byte) };
}

/* A reduction or a broadcast: its latency, `windows` times, and the bytes once. */
static cost tree(const ms_scaling_machine *m, int64_t ranks, double bytes, double windows)
{
    const int64_t nodes = nodes_of(m, ranks), near = ms_min_i64(m->per_node, ranks);
    const double  within = near > 1 ? bytes * m->node.ms_byte : 0.0;
    const double  across = nodes > 1 ? bytes / (double)near * m->net.ms_byte : 0.0;
    return (cost){ .bytes        = bytes,
                   .latency_ms   = windows * (depth(nodes) * m->net.ms + depth(near) * m->node.ms),
                   .bandwidth_ms = fmax(within, across) };
}

static void add_cost(cost *to, const cost *one)
{
    to->bytes += one->bytes;
    to->latency_ms += one->latency_ms;
    to->bandwidth_ms += one->bandwidth_ms;
    to->add_ms += one->add_ms;
}

/* ---- the gradients --------------------------------------------------------------------------- */

/* Gradients that are passed to their owners, who add them: those of the ranks 0 to senders - 1.
 * adds: whether the owners have a sum already. */
static cost round_of(const ms_scaling_machine *m, const dealt *d, int64_t ranks, int64_t senders,
                     bool adds)
{
    double bytes = 0.0, windows = 0.0, added = 0.0;
    for (int64_t r = 0; r < d->n; r++) {
        const bool   sends = r < senders;
        const double own = d->bytes[r] + d->split_bytes, pieces = d->pieces[r] + d->split_pieces;
        const double from       = (double)(senders - sends);
        const double out        = sends ? fmax(0.0, d->all_bytes - own) : 0.0;
        const double out_pieces = sends ? fmax(0.0, d->all_pieces - pieces) : 0.0;
        bytes                   = fmax(bytes, fmax(out, from * own));
        windows                 = fmax(windows, ceil((out_pieces + from * pieces) / WINDOW));
        windows                 = fmax(windows, ceil(from * own / d->bucket));
        added                   = fmax(added, own * (double)(senders - 1 + adds));
    }
    cost c   = transfers(m, ranks, bytes, windows);
    c.add_ms = added * m->add_ms_byte;
    return c;
}

/* Adds `times` equal rounds, and what remains of each behind its backward pass. */
static void add_rounds(cost *sum, double *left, const cost *one, double times, double last,
                       double backward_ms)
{
    const cost all = { one->bytes * times, one->latency_ms * times, one->bandwidth_ms * times,
                       one->add_ms * times };
    add_cost(sum, &all);
    *left += times * exposed(one, last, backward_ms);
}

/* left: gets what the backward passes do not hide. */
static cost gradients(const ms_scaling_job *job, const ms_scaling_machine *m, const dealt *d,
                      const ms_scaling_row *row, double backward_ms, double *left)
{
    const int64_t n = row->ranks, full = row->micro_batches / n, rest = row->micro_batches % n;
    cost          sum = { 0 }, one;

    *left = 0.0;
    if (n == 1) return sum;
    if (!job->deterministic) { /* what each rank has accumulated, once */
        const double bytes = d->all_bytes - d->split_bytes - least(d->bytes, d->n);
        if (job->gpus)
            one = tree(m, n, bytes, ceil(d->all_pieces / WINDOW));
        else
            one = round_of(m, d, n, n, false);
        if (job->gpus) one.add_ms = bytes * m->add_ms_byte;
        add_rounds(&sum, left, &one, 1.0, d->last, backward_ms);
        return sum;
    }
    if (full > 0) { /* the first has no sum to add to */
        one = round_of(m, d, n, n, false);
        add_rounds(&sum, left, &one, 1.0, d->last, backward_ms);
        one = round_of(m, d, n, n, true);
        add_rounds(&sum, left, &one, (double)(full - 1), d->last, backward_ms);
    }
    if (rest > 0) {
        one = round_of(m, d, n, rest, full > 0);
        add_rounds(&sum, left, &one, 1.0, d->last, backward_ms);
    }
    return sum;
}

static cost weights(const ms_scaling_job *job, const ms_scaling_machine *m, const dealt *d,
                    int64_t ranks)
{
    const double bytes = d->all_bytes - d->split_bytes - least(d->bytes, d->n);
    const double buckets =
        job->gpus ? 1.0 : ceil(d->all_bytes / fmax(d->bucket, d->all_bytes / BUCKETS));
    if (ranks == 1) return (cost){ 0 };
    return tree(m, ranks, bytes, fmax(ceil(d->all_pieces / WINDOW), buckets));
}

/* The numbers that ranks tell each other: requests to stop, losses, logits, bad gradients. */
static cost agreements(const ms_scaling_job *job, const ms_scaling_machine *m,
                       const ms_scaling_row *row)
{
    const double records = (double)(job->deterministic ? row->micro_batches : row->ranks);
    const double times   = AGREEMENTS + (job->deterministic ? (double)row->passes : 1.0);
    const double bytes   = 8.0 * (NUMBERS * (records + (double)row->ranks) +
                                2.0 * (double)(job->model->layers * job->model->heads));
    if (row->ranks == 1) return (cost){ 0 };
    return tree(m, row->ranks, 2.0 * bytes, 2.0 * times);
}

/* ---- a row ----------------------------------------------------------------------------------- */

static musec_status choose_batch(ms_error *e, const ms_scaling_job *job, int64_t ranks,
                                 ms_scaling_row *out)
{
    const int64_t each = job->batch / job->micro_batches;
    int64_t       n    = job->micro_batches;

    out->ranks = ranks;
    if (job->weak) {
        size_t batch = 0;
        if (!ms_size_mul((size_t)job->batch, (size_t)ranks, &batch) || batch > INT64_MAX)
            return ms_fail(e, MUSEC_EINVAL, "%lld ranks with %lld tokens each are too many",
                           (long long)ranks, (long long)job->batch);
        out->micro_batches = n * ranks;
        out->tokens        = each;
    } else {
        if (!job->fixed) n = (n - 1) / ranks * ranks + ranks; /* as many for each rank */
        if (n > job->batch)
            return ms_fail(e, MUSEC_EINVAL,
                           "a step of %lld tokens cannot be divided among %lld ranks: give a "
                           "larger --batch, or --weak",
                           (long long)job->batch, (long long)ranks);
        out->micro_batches = n;
        out->tokens        = job->batch / n;
    }
    out->batch  = out->micro_batches * out->tokens;
    out->passes = (out->micro_batches - 1) / ranks + 1;
    out->idle   = ms_max_i64(0, ranks - out->micro_batches);
    return MUSEC_OK;
}

static musec_status count_memory(ms_error *e, const ms_scaling_job *job, const dealt *d,
                                 ms_scaling_row *out)
{
    ms_gpt_sizes sizes;
    double       own = 0.0, largest = 0.0;
    musec_status st;

    TRY(ms_gpt_measure(e, job->model, job->dtype, out->tokens, job->logits_chunk, &sizes));
    own              = most(d->bytes, d->n) + d->split_bytes;
    out->weights     = (double)sizes.weights + (double)sizes.copies + (double)sizes.grads;
    out->activations = (double)sizes.activations;
    out->state =
        most(d->bytes, d->n) / f32 * job->matrix_state + d->split_elements * job->split_state;
    if (job->deterministic && out->micro_batches > out->ranks) out->sums = own;
    for (size_t i = 0; i < job->n_params; i++) { /* an owner takes a parameter as a whole */
        const ms_scaling_param *p = &job->params[i];
        if (!p->split) largest = fmax(largest, elements(p) * f32);
    }
    const double senders = (double)ms_min_i64(out->ranks, out->micro_batches) - 1.0;
    if (job->deterministic && out->ranks > 1)
        out->inbox = fmax(fmin(inbox, BUCKETS * d->bucket), senders * largest);
    out->memory = out->weights + out->activations + out->state + out->sums + out->inbox;
done:
    return st;
}

static double pass_ms(const ms_scaling_machine *m, int64_t tokens)
{
    return fmax(m->least_pass_ms, m->pass_ms + (double)tokens * m->token_ms);
}

static musec_status fill(ms_error *e, const ms_scaling_job *job, const ms_scaling_machine *m,
                         int64_t ranks, ms_scaling_row *out)
{
    dealt        d    = { 0 };
    double       left = 0.0;
    cost         grads, sent, agree;
    musec_status st;

    *out = (ms_scaling_row){ 0 };
    TRY(choose_batch(e, job, ranks, out));
    TRY(deal(e, job, ranks, &d));
    const double pass = pass_ms(m, out->tokens), forward = pass / (3.0 + job->recomputed);
    out->compute_ms    = (double)out->passes * pass;
    out->read_ms       = (double)out->batch * m->read_ms;
    out->matrix_ms     = most(d.ms, d.n);
    out->optim_ms      = out->matrix_ms + d.split_ms;
    out->largest_ms    = d.largest_ms;
    grads              = gradients(job, m, &d, out, pass - forward, &left);
    sent               = weights(job, m, &d, ranks);
    agree              = agreements(job, m, out);
    out->grad_bytes    = grads.bytes;
    out->weight_bytes  = sent.bytes;
    out->grad_ms       = ms_of(&grads);
    out->weight_ms     = ms_of(&sent);
    out->agree_ms      = ms_of(&agree);
    out->latency_ms    = grads.latency_ms + sent.latency_ms + agree.latency_ms;
    out->bandwidth_ms  = grads.bandwidth_ms + sent.bandwidth_ms + agree.bandwidth_ms;
    out->add_ms        = grads.add_ms;
    const double own   = out->compute_ms + out->read_ms + out->optim_ms + out->agree_ms;
    out->apart_ms      = own + out->grad_ms + out->weight_ms;
    out->overlapped_ms = own + left + exposed(&sent, d.last, forward);
    out->step_ms       = job->gpus ? out->apart_ms : out->overlapped_ms;
    TRY(count_memory(e, job, &d, out));
    out->tokens_s = (double)out->batch / out->step_ms * 1e3;
done:
    free_dealt(&d);
    return st;
}

musec_status ms_scaling_at(ms_error *e, const ms_scaling_job *job, const ms_scaling_machine *m,
                           int64_t ranks, ms_scaling_row *out)
{
    ms_scaling_row alone;
    musec_status   st;

    TRY(fill(e, job, m, ranks, out));
    TRY(fill(e, job, m, 1, &alone));
    out->efficiency = out->tokens_s / ((double)ranks * alone.tokens_s);
done:
    return st;
}

bool ms_scaling_has_limit(const ms_scaling_row *row, const ms_scaling_machine *m,
                          ms_scaling_limit limit)
{
    const double comm = row->grad_ms + row->weight_ms + row->agree_ms;
    switch (limit) {
    case MS_LIMIT_IDLE: return row->idle > 0;
    case MS_LIMIT_MATRIX:
        return row->ranks > 1 && row->largest_ms > 0.0 && row->matrix_ms <= row->largest_ms;
    case MS_LIMIT_COMM: return comm > row->compute_ms;
    case MS_LIMIT_MEMORY: return m->memory > 0 && row->memory > (double)m->memory;
    case MS_LIMIT_READING: return row->read_ms > row->compute_ms;
    default: return row->efficiency < 0.5;
    }
}
