/* ranks.c - see ranks.h. */
#include "train/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/async.h"
#include "core/clock.h"
#include "core/json_file.h"
#include "core/sha256.h"
#include "core/size.h"
#include "optim/optim.h"
#include "train/sums.h"
#include "train/trainer.h"

enum { BUCKETS = 16 }; /* of the gradients that a rank sends in a round, and of all weights */

/* ---- dealing --------------------------------------------------------------------------------- */

typedef struct thing {
    double cost;
    int    kind;
    size_t index;
} thing;

static int dearest_first(const void *a, const void *b)
{
    const thing *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static bool has_kind(const thing *dealt, size_t n, const int *owner, int rank, int kind)
{
    for (size_t i = 0; i < n; i++)
        if (owner[dealt[i].index] == rank && dealt[i].kind == kind) return true;
    return false;
}

/* Gives every rank as many things of a kind as before, but neighbours. */
static void line_up(const int *kind, size_t n, int size, int *owner, size_t *count)
{
    for (size_t first = 0; first < n; first++) {
        size_t seen = 0;
        int    rank = 0;
        while (seen < first && kind[seen] != kind[first])
            seen++;
        if (seen < first) continue;
        memset(count, 0, (size_t)size * sizeof *count);
        for (size_t i = first; i < n; i++)
            count[owner[i]] += kind[i] == kind[first];
        for (size_t i = first; i < n; i++) {
            if (kind[i] != kind[first]) continue;
            while (count[rank] == 0)
                rank++;
            owner[i] = rank;
            count[rank]--;
        }
    }
}

musec_status ms_deal(ms_error *e, const double *cost, const int *kind, size_t n, int size,
                     int *owner)
{
    thing       *all   = calloc(n + 1, sizeof *all);
    double      *load  = calloc((size_t)size, sizeof *load);
    size_t      *count = calloc((size_t)size, sizeof *count);
    musec_status st    = MUSEC_OK;

    if (all == NULL || load == NULL || count == NULL)
        TRY(ms_no_memory(e, "the owners of parameters"));
    for (size_t i = 0; i < n; i++)
        all[i] = (thing){ cost[i], kind[i], i };
    qsort(all, n, sizeof *all, dearest_first);
    for (size_t i = 0; i < n; i++) {
        int best = 0;
        for (int r = 1; r < size; r++)
            if (load[r] < load[best] ||
                (load[r] == load[best] && has_kind(all, i, owner, r, all[i].kind) &&
                 !has_kind(all, i, owner, best, all[i].kind)))
                best = r;
        owner[all[i].index] = best;
        load[best] += all[i].cost;
    }
    line_up(kind, n, size, owner, count);
done:
    free(count);
    free(load);
    free(all);
    return st;
}

/* ---- costs ----------------------------------------------------------------------------------- */

musec_status ms_train_time_step(ms_error *e, const ms_train *t, const ms_gpt_tensor *p, double *ms)
{
    ms_device         *d         = t->ctx;
    musec_optim_config cfg       = t->cfg.optim;
    musec_optim       *opt       = NULL;
    void              *memory[2] = { NULL, NULL };
    musec_view         view[2]; /* the weight and its gradient */
    size_t             bytes = 0;
    musec_status       st    = MUSEC_OK;

    if (ms_gpt_dtype(t->gpt) == MUSEC_F32 && cfg.operands == 0) cfg.operands = MUSEC_F32;
    cfg.report_every  = 0;
    cfg.nonfinite     = MUSEC_NONFINITE_SKIP; /* whatever the settings make of made-up gradients, */
    cfg.momentum_form = MUSEC_MOMENTUM_EMA;   /* it is a cost and no failure */
    if (!ms_size_stack(1, p->weight.rows, p->weight.cols, ms_dtype_bytes(p->weight.dtype), &bytes))
        return ms_fail(e, MUSEC_EINVAL, "%s is too large", p->name);
    for (int i = 0; i < 2; i++) {
        TRY(ms_train_check(e, d, d->ops->alloc(d, bytes, &memory[i])));
        view[i] = musec_view_dense(memory[i], p->weight.dtype, 1, p->weight.rows, p->weight.cols);
        TRY(ms_train_check(e, d,
                           d->ops->uniform(d, (uint64_t)i + 1, -1.0, 1.0, ms_mat_of(view[i]))));
    }
    TRY(ms_train_check(e, d, musec_optim_create(&opt, d, &cfg)));
    const musec_param param = { .name = p->name, .role = p->role, .weight = view[0] };
    TRY(ms_train_check(e, d, musec_optim_add(opt, &param, NULL)));
    for (int i = 0; i < 2; i++) {
        const double start = ms_clock_ms();
        TRY(ms_train_check(e, d, musec_optim_step(opt, &view[1], 1, 1.0)));
        TRY(ms_train_check(e, d, musec_ctx_sync(d)));
        *ms = ms_clock_ms() - start;
    }
done:
    musec_optim_destroy(opt);
    for (int i = 0; i < 2; i++)
        d->ops->free(d, memory[i]);
    return st;
}

static bool same_kind(const ms_gpt_tensor *a, const ms_gpt_tensor *b)
{
    return a->weight.rows == b->weight.rows && a->weight.cols == b->weight.cols &&
           (a->role < MUSEC_MATRIX_ROLES) == (b->role < MUSEC_MATRIX_ROLES);
}

static bool is_split(const ms_gpt_tensor *p)
{
    return p->role == MUSEC_ROLE_EMBED || p->role == MUSEC_ROLE_HEAD;
}

/* Measures one parameter of each kind, on rank 0; all ranks deal by its numbers. */
static musec_status measure_costs(ms_error *e, const ms_train *t, double *cost, int *kind)
{
    ms_comm     *c  = ms_comm_of(&t->setup);
    const size_t n  = ms_gpt_n_params(t->gpt);
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < n; i++) {
        const ms_gpt_tensor *p     = ms_gpt_param(t->gpt, i);
        size_t               first = 0;
        while (first < i && !same_kind(ms_gpt_param(t->gpt, first), p))
            first++;
        kind[i] = (int)first;
        if (first < i)
            cost[i] = cost[first];
        else if (is_split(p))
            cost[i] = 0.0;
        else if (c->rank == 0)
            TRY(ms_train_time_step(e, t, p, &cost[i]));
    }
    TRY(ms_comm_check(e, c, c->ops->broadcast(c, cost, (int64_t)(n * sizeof *cost), 0)));
done:
    return st;
}

/* batch[i]: the first parameter of those that are dealt together with parameter i. */
static musec_status find_batches(ms_error *e, const ms_train *t, size_t *batch)
{
    musec_optim *whole = NULL;
    musec_status st;

    TRY(ms_train_build_optim(e, &t->cfg, t->gpt, t->ctx, ms_comm_self(), NULL, &whole));
    TRY(ms_train_check(e, t->ctx, ms_optim_batches(whole, batch)));
done:
    musec_optim_destroy(whole);
    return st;
}

/* Deals batches, and with them their parameters. */
static musec_status deal_batches(ms_error *e, const double *cost, const int *kind,
                                 const size_t *batch, size_t n, int size, int *owner)
{
    double      *sum  = calloc(n, sizeof *sum);
    int         *of   = calloc(n, sizeof *of); /* the kind of a batch */
    int         *to   = calloc(n, sizeof *to);
    size_t      *at   = calloc(n, sizeof *at); /* the number of the batch that i begins */
    size_t       many = 0;
    musec_status st   = MUSEC_OK;

    if (sum == NULL || of == NULL || to == NULL || at == NULL)
        TRY(ms_no_memory(e, "the owners of parameters"));
    for (size_t i = 0; i < n; i++) { /* a batch begins at its first parameter */
        if (batch[i] == i) {
            of[many] = kind[i];
            at[i]    = many++;
        }
        sum[at[batch[i]]] += cost[i];
    }
    TRY(ms_deal(e, sum, of, many, size, to));
    for (size_t i = 0; i < n; i++)
        owner[i] = to[at[batch[i]]];
done:
    free(at);
    free(to);
    free(of);
    free(sum);
    return st;
}

musec_status ms_train_deal(ms_error *e, ms_train *t, int **out)
{
    ms_comm     *c     = ms_owners_of(t);
    const size_t n     = ms_gpt_n_params(t->gpt);
    double      *cost  = NULL;
    int         *kind  = NULL;
    int         *owner = NULL;
    size_t      *batch = NULL;
    musec_status st    = MUSEC_OK;

    *out = NULL;
    if (c->size == 1) return MUSEC_OK;
    cost  = calloc(n, sizeof *cost);
    kind  = calloc(n, sizeof *kind);
    owner = calloc(n, sizeof *owner);
    batch = calloc(n, sizeof *batch);
    if (cost == NULL || kind == NULL || owner == NULL || batch == NULL)
        TRY(ms_no_memory(e, "the owners of parameters"));
    TRY(find_batches(e, t, batch));
    TRY(measure_costs(e, t, cost, kind));
    TRY(deal_batches(e, cost, kind, batch, n, c->size, owner));
    t->busiest = t->mean_work = 0.0;
    for (int r = 0; r < c->size; r++) {
        double load = 0.0;
        for (size_t i = 0; i < n; i++)
            if (owner[i] == r) load += cost[i];
        t->busiest = fmax(t->busiest, load);
        t->mean_work += load / c->size;
    }
    for (size_t i = 0; i < n; i++)
        if (is_split(ms_gpt_param(t->gpt, i))) owner[i] = MS_SPLIT;
    *out  = owner;
    owner = NULL;
done:
    free(batch);
    free(owner);
    free(kind);
    free(cost);
    return st;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Adds the part of a parameter that lies from row `first` on. */
static void add_piece(ms_train *t, const ms_gpt_tensor *p, int64_t first, int64_t rows, int owner)
{
    const size_t  at    = (size_t)(first * p->weight.cols) * ms_dtype_bytes(p->weight.dtype);
    ms_comm_piece piece = { .n = rows * p->weight.cols, .dtype = p->weight.dtype, .owner = owner };
    if (rows == 0) return;
    piece.data                    = (char *)p->weight.data + at;
    t->weight_pieces[t->n_pieces] = piece;
    piece.data                    = (char *)p->grad.data + at;
    t->grad_pieces[t->n_pieces++] = piece;
}

/* Bytes of a bucket: a sixteenth of what a rank sends in a round, not tiny, and so little that
 * several may come in at a time.  Where nothing goes on meanwhile, as much as may come in. */
static int64_t choose_bucket(const ms_train *t, int size)
{
    const int64_t least = (int64_t)64 << 10, most = (int64_t)8 << 20;
    int64_t       all = 0;
    for (size_t i = 0; i < t->n_pieces; i++)
        all += t->grad_pieces[i].n * (int64_t)ms_dtype_bytes(t->grad_pieces[i].dtype);
    if (ms_comm_is_apart(t->ctx)) return t->cfg.deterministic ? MS_SUMS_INBOX : INT64_MAX / size;
    return ms_max_i64(least, ms_min_i64(most, all / size * (size - 1) / BUCKETS));
}

static musec_status take_lists(ms_error *e, ms_train *t, size_t n, int size)
{
    size_t capacity = 0;
    if (!ms_size_mul(n, (size_t)size, &capacity)) return ms_no_memory(e, "the pieces of all ranks");
    t->weight_pieces = calloc(capacity + 1, sizeof *t->weight_pieces);
    t->grad_pieces   = calloc(capacity + 1, sizeof *t->grad_pieces);
    t->pieces_before = calloc(n + 1, sizeof *t->pieces_before);
    t->tickets       = calloc(n, sizeof *t->tickets);
    return t->weight_pieces != NULL && t->grad_pieces != NULL && t->pieces_before != NULL &&
                   t->tickets != NULL
               ? MUSEC_OK
               : ms_no_memory(e, "the pieces of all ranks");
}

static void reverse(ms_comm_piece *list, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        const ms_comm_piece one = list[i];
        list[i]                 = list[n - 1 - i];
        list[n - 1 - i]         = one;
    }
}

musec_status ms_train_pieces(ms_error *e, ms_train *t)
{
    ms_comm     *c = ms_owners_of(t);
    const size_t n = ms_gpt_n_params(t->gpt);
    musec_status st;

    TRY(take_lists(e, t, n, c->size));
    if (c->size == 1) { /* no weights go anywhere, and gradients are one row */
        const ms_mat all              = ms_gpt_grads(t->gpt);
        t->grad_pieces[t->n_pieces++] = (ms_comm_piece){ all.data, all.cols, all.dtype, 0 };
    }
    for (size_t i = 0; c->size > 1 && i < n; i++) {
        const size_t         index = ms_gpt_backward_order(t->gpt, i);
        const ms_gpt_tensor *p     = ms_gpt_param(t->gpt, index);
        const int64_t        rows  = p->weight.rows;
        const int            owner = t->owner[index];
        if (owner != MS_SPLIT) add_piece(t, p, 0, rows, owner);
        for (int r = 0; owner == MS_SPLIT && r < c->size; r++) {
            const int64_t first = ms_share_first(rows, r, c->size);
            add_piece(t, p, first, ms_share_first(rows, r + 1, c->size) - first, r);
        }
        t->pieces_before[i + 1] = t->n_pieces;
    }
    if (c->size > 1) reverse(t->weight_pieces, t->n_pieces);
    t->bucket = choose_bucket(t, c->size);
done:
    return st;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Begins to send the weights of numbers `first` to end - 1 in the backward order. */
static musec_status send_weights(ms_error *e, ms_train *t, size_t first, size_t end)
{
    ms_comm             *c    = ms_owners_of(t);
    const size_t         left = t->pieces_before[first], right = t->pieces_before[end];
    const ms_comm_piece *list = t->weight_pieces + (t->n_pieces - right);
    int64_t              ticket;
    musec_status         st;

    TRY(ms_comm_check(e, c, ms_async_gather(t->async, list, right - left, &ticket)));
    for (size_t i = first; i < end; i++)
        t->tickets[i] = ticket;
done:
    return st;
}

static int64_t weight_bytes(const ms_train *t, size_t number)
{
    const ms_mat w = ms_gpt_param(t->gpt, ms_gpt_backward_order(t->gpt, number))->weight;
    return w.rows * w.cols * (int64_t)ms_dtype_bytes(w.dtype);
}

musec_status ms_train_begin_weights(ms_error *e, ms_train *t)
{
    const size_t n   = ms_gpt_n_params(t->gpt);
    int64_t      all = 0, bytes = 0;
    musec_status st = MUSEC_OK;

    if (!t->weights_stale) return MUSEC_OK;
    t->weights_stale = false;
    t->weights_here  = n;
    for (size_t i = 0; i < n; i++)
        all += weight_bytes(t, i);
    const int64_t most = ms_async_overlaps(t->async) ? ms_max_i64(t->bucket, all / BUCKETS) : all;
    for (size_t end = n, first = n; first-- > 0;) {
        bytes += weight_bytes(t, first);
        if (first > 0 && bytes + weight_bytes(t, first - 1) <= most) continue;
        TRY(send_weights(e, t, first, end));
        end   = first;
        bytes = 0;
    }
    if (!ms_async_overlaps(t->async)) TRY(ms_train_want_weights(e, t, 0));
done:
    return st;
}

musec_status ms_train_want_weights(ms_error *e, ms_train *t, size_t n)
{
    ms_comm     *c  = ms_owners_of(t);
    musec_status st = MUSEC_OK;

    for (; t->weights_here > n; t->weights_here--) {
        const size_t i = t->weights_here - 1;
        TRY(ms_comm_check(e, c, ms_async_wait(t->async, t->tickets[i])));
        TRY(ms_train_check(e, t->ctx,
                           ms_gpt_refresh_param(t->gpt, ms_gpt_backward_order(t->gpt, i))));
    }
done:
    return st;
}

musec_status ms_train_finish_weights(ms_error *e, ms_train *t)
{
    musec_status st;
    TRY(ms_train_begin_weights(e, t));
    TRY(ms_train_want_weights(e, t, 0));
done:
    return st;
}

/* ---- replicas -------------------------------------------------------------------------------- */

musec_status ms_train_choose_replicas(ms_error *e, ms_train *t)
{
    ms_comm     *c   = ms_comm_of(&t->setup);
    const int    n   = t->setup.replicas;
    const bool   any = n == 0;
    ms_comm     *group;
    musec_status st = MUSEC_OK;

    if (n == 1 || (any && (c->size == 1 || t->cfg.deterministic || t->nccl != NULL)))
        return MUSEC_OK;
    if (t->cfg.deterministic)
        return ms_fail(e, MUSEC_EINVAL,
                       "--replicas %d needs --deterministic no: sums in the order of micro-batches "
                       "have one owner",
                       n);
    if (t->nccl != NULL)
        return ms_fail(e, MUSEC_ENOTSUP,
                       "--replicas %d is for --comm mpi and tcp: NCCL's sums know of machines by "
                       "themselves",
                       n);
    TRY(ms_comm_add_replicas(e, c, n, &group));
    if (group != c) t->group = group;
done:
    return st;
}

/* ---- agreement ------------------------------------------------------------------------------- */

musec_status ms_train_agree_stop(ms_error *e, const ms_train *t, ms_stop mine, ms_stop *out)
{
    ms_comm     *c       = ms_comm_of(&t->setup);
    double       request = (double)mine;
    musec_status st      = MUSEC_OK;

    TRY(ms_comm_check(e, c, c->ops->all_reduce(c, MS_COMM_MAX, &request, 1)));
    *out = (ms_stop)request;
done:
    return st;
}

/* The checksum of a value as JSON. */
static musec_status checksum(ms_error *e, json_t *value, char sum[MS_SHA256_HEX])
{
    char     *text = ms_json_key(value);
    ms_sha256 s;
    if (text == NULL) return ms_no_memory(e, "what ranks compare");
    ms_sha256_init(&s);
    ms_sha256_add(&s, text, strlen(text));
    ms_sha256_end(&s, sum);
    free(text);
    return MUSEC_OK;
}

musec_status ms_train_agree_inputs(ms_error *e, const ms_train *t)
{
    ms_comm     *c    = ms_comm_of(&t->setup);
    json_t      *list = NULL;
    char         config[2][MS_SHA256_HEX], data[2][MS_SHA256_HEX];
    musec_status st = MUSEC_OK;

    if (c->size == 1) return MUSEC_OK;
    list = ms_train_config_json(&t->cfg);
    if (list == NULL) TRY(ms_no_memory(e, "what ranks compare"));
    TRY(checksum(e, list, config[0]));
    TRY(checksum(e, t->data, data[0]));
    memcpy(config[1], config[0], sizeof config[0]);
    memcpy(data[1], data[0], sizeof data[0]);
    TRY(ms_comm_check(e, c, c->ops->broadcast(c, config[1], sizeof config[1], 0)));
    TRY(ms_comm_check(e, c, c->ops->broadcast(c, data[1], sizeof data[1], 0)));
    if (strcmp(config[0], config[1]) != 0)
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "this rank was given other settings than rank 0: start all with one command"));
    if (strcmp(data[0], data[1]) != 0)
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "the data that this rank reads are not those of rank 0: all machines need the "
                    "same files under %s",
                    t->cfg.data));
    TRY(ms_comm_check(e, c, c->ops->barrier(c))); /* nothing begins before all are agreed */
done:
    json_decref(list);
    return st;
}

musec_status ms_train_describe_ranks(ms_error *e, ms_train *t, char *text, size_t bytes)
{
    ms_comm     *c         = ms_comm_of(&t->setup);
    uint64_t     state     = 0;
    const char  *note      = t->nccl_note.text;
    double       sum       = 0.0, max;
    int64_t      least     = INT64_MAX;
    char         idle[128] = "", groups[64] = "";
    ms_comm     *owners = ms_owners_of(t);
    int          mine   = 0;
    musec_status st     = MUSEC_OK;

    text[0] = '\0';
    if (c->size == 1) return MUSEC_OK;
    TRY(ms_train_check(e, t->ctx, musec_optim_workspace(t->optim, NULL, &state)));
    sum = max = (double)state;
    TRY(ms_comm_check(e, owners, owners->ops->all_reduce(owners, MS_COMM_SUM, &sum, 1)));
    TRY(ms_comm_check(e, owners, owners->ops->all_reduce(owners, MS_COMM_MAX, &max, 1)));
    if (owners != c)
        snprintf(groups, sizeof groups, " in %d replicas", ms_comm_replicas(owners, &mine));
    for (int i = 0; i < t->schedule.n_stages; i++)
        least = ms_min_i64(least, t->schedule.stage[i].micro_batches);
    if (least < c->size)
        snprintf(idle, sizeof idle,
                 "; %lld of them compute no gradients: take more --micro-batches than %lld",
                 (long long)(c->size - least), (long long)least);
    snprintf(
        text, bytes,
        "ranks: %d by %s%s%s%.100s%s; the busiest has %.2f of the mean of matrix work and %.2f of "
        "the optimizer's state%s",
        c->size, c->ops->name, groups, note[0] != '\0' ? " (NCCL is not used: " : "", note,
        note[0] != '\0' ? ")" : "", t->mean_work > 0.0 ? t->busiest / t->mean_work : 1.0,
        sum > 0.0 ? max / sum : 0.0, idle);
done:
    return st;
}
