/* scaling_test.c - steps on many ranks worked out by hand, what must hold for any of them, and that
 * the bytes are those that the trainer sends. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/chips.h"
#include "model/layout.h"
#include "train/ranks.h"
#include "train/scaling.h"
#include "train/sums.h"
#include "train/trainer.h"

/* ---- by hand --------------------------------------------------------------------------------- */

/* In bytes 16384, 16384, 32768 and 102400 of float32: 167936. */
static const ms_scaling_param params[] = {
    { 64, 64, 4.0, 0, false },
    { 64, 64, 4.0, 0, false },
    { 128, 64, 6.0, 2, false },
    { 400, 64, 8.0, 3, true },
};
static const double all_bytes = 167936.0;

static ms_train_config config; /* of pico: 2 layers of 2 heads */

static ms_scaling_job job_of(int64_t batch, int64_t micro_batches)
{
    ms_error e = { "" };
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &config, "pico", "muon"));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &config));
    return (ms_scaling_job){ .model         = &config.model,
                             .dtype         = MUSEC_F32,
                             .logits_chunk  = 1 << 21,
                             .params        = params,
                             .n_params      = COUNT(params),
                             .batch         = batch,
                             .micro_batches = micro_batches,
                             .matrix_state  = 4.0,
                             .split_state   = 8.0 };
}

static const ms_scaling_machine machine = { .pass_ms     = 3.0,
                                            .token_ms    = 0.01,
                                            .read_ms     = 0.001,
                                            .add_ms_byte = 2e-6,
                                            .net         = { 0.5, 1e-5 },
                                            .node        = { 0.1, 1e-6 },
                                            .per_node    = 1 };

static ms_scaling_row row_of(const ms_scaling_job *job, const ms_scaling_machine *m, int64_t ranks)
{
    ms_error       e = { "" };
    ms_scaling_row row;
    CHECK_OK_ERR(&e, ms_scaling_at(&e, job, m, ranks, &row));
    return row;
}

static void check_is(const char *what, double got, double want)
{
    CHECK(fabs(got - want) <= 1e-9 * fmax(1.0, fabs(want)), "%s is %.12g, not %.12g", what, got,
          want);
}

/* Three buckets of 64 KiB hold all weights, or what a rank sends or gets below. */
enum { SOME = 3 };

TEST(weak_scaling_by_reductions_is_a_sum)
{
    ms_scaling_job job = job_of(1024, 2);
    job.weak = job.gpus    = true;
    const ms_scaling_row r = row_of(&job, &machine, 4);
    /* Owners: 128 x 64, 64 x 64, 64 x 64, none; each has 100 rows of the fourth. */
    const double share = 25600.0, bytes = all_bytes - share;
    /* 7 pieces are one window; a tree of 4 ranks is 2 deep. */
    const double grads   = 2 * 0.5 + bytes * 1e-5 + bytes * 2e-6;
    const double weights = 2 * 0.5 + bytes * 1e-5;
    /* 5 sums, each up and down, of 3 numbers for 4 records and 4 ranks and 2 for each of 4 heads */
    const double agree = 5 * 2 * 2 * 0.5 + 2 * 8 * (3 * (4 + 4) + 2 * 4) * 1e-5;
    const double pass = 3.0 + 512 * 0.01, own = 2 * pass + 4096 * 0.001 + 6.0 + 8.0 / 4 + agree;
    check_is("passes", (double)r.passes, 2);
    check_is("batch", (double)r.batch, 4096);
    check_is("bytes", r.grad_bytes, bytes);
    check_is("gradients", r.grad_ms, grads);
    check_is("weights", r.weight_ms, weights);
    check_is("agreements", r.agree_ms, agree);
    check_is("step", r.step_ms, own + grads + weights);
    check_is("step by hand", r.step_ms, 43.472512);
    check_is("apart", r.apart_ms, r.step_ms);
    /* 5.4133 ms of backward and 2.7067 of forward hide 2.42336 but for the first matrix, which
     * comes last and is read first; adding takes 0.284672 */
    check_is("overlapped", r.overlapped_ms, own + 2 * 2.42336 * 16384 / all_bytes + 0.284672);
    check_is("efficiency", r.efficiency, (2 * pass + 1.024 + 22.0) / (own + grads + weights));
    check_is("state", r.state, 128 * 64 * 4.0 + 100 * 64 * 8.0);
    check_is("no sums", r.sums + r.inbox, 0.0);
}

TEST(without_nccl_what_is_accumulated_is_passed_and_added)
{
    ms_scaling_job job     = job_of(1024, 2);
    job.weak               = true;
    const ms_scaling_row r = row_of(&job, &machine, 4);
    /* The owner of 128 x 64, 58368 bytes, gets them from three others. */
    const double got = 3 * 58368.0, sent = SOME * 0.5 + got * 1e-5;
    check_is("bytes", r.grad_bytes, got);
    check_is("gradients", r.grad_ms, sent + got * 2e-6);
    check_is("adding", r.add_ms, got * 2e-6);
    /* 5.4133 ms of backward hide it but for what comes last; weights as above */
    check_is("step", r.step_ms,
             r.apart_ms - r.grad_ms - r.weight_ms + sent * 16384 / all_bytes + got * 2e-6 +
                 r.weight_ms - (3.0 + 512 * 0.01) / 3);
    check_is("overlapped", r.overlapped_ms, r.step_ms);
    /* Where the backward pass repeats the forward pass, that is a quarter of both. */
    job.recomputed                = 1.0;
    const ms_scaling_row repeated = row_of(&job, &machine, 4);
    check_is("a forward pass", repeated.step_ms - r.step_ms,
             (3.0 + 512 * 0.01) * (1. / 3 - 1. / 4));
    job.recomputed = 0.0;
    /* Messages that take longer than computing are the step, whatever it computes. */
    ms_scaling_machine slow  = machine;
    slow.net.ms_byte         = 1.0;
    const ms_scaling_row far = row_of(&job, &slow, 4);
    check_is("bandwidth", far.step_ms,
             far.apart_ms - (3.0 + 512 * 0.01) * 2 / 3 - (3.0 + 512 * 0.01) / 3);
}

TEST(ordered_sums_are_transfers_of_each_round)
{
    ms_scaling_job job = job_of(1536, 3);
    job.deterministic = job.fixed = true;
    const ms_scaling_row r        = row_of(&job, &machine, 2);
    /* Each owns 32768 bytes of matrices and 51200 of the split one: half, two buckets.  In the
     * first of two rounds both send their half to the other, in the second rank 0 alone. */
    const double half = all_bytes / 2, sent = 2 * 0.5 + half * 1e-5;
    const double grads   = 2 * sent + 2 * half * 2e-6;
    const double weights = SOME * 0.5 + half * 1e-5;
    const double agree   = 6 * 2 * 0.5 + 2 * 8 * (3 * (3 + 2) + 2 * 4) * 1e-5;
    check_is("bytes", r.grad_bytes, 2 * half);
    check_is("gradients", r.grad_ms, grads);
    check_is("weights", r.weight_ms, weights);
    check_is("agreements", r.agree_ms, agree);
    check_is("optimizer", r.optim_ms, 4.0 + 4.0 + 8.0 / 2);
    check_is("apart by hand", r.apart_ms, 42.134592);
    /* all is hidden but for the first matrix, in both rounds and on the way back */
    check_is("step", r.step_ms, r.apart_ms - (2 * sent + weights) * (1.0 - 16384 / all_bytes));
    check_is("sums", r.sums, half);
    check_is("what comes in", r.inbox, 16 * 65536);
}

TEST(nodes_have_two_kinds_of_links)
{
    ms_scaling_machine m   = machine;
    ms_scaling_job     job = job_of(2048, 4);
    m.per_node             = 2;
    job.fixed              = true;
    /* between 2 nodes 2 links share a tree's bytes */
    check_is("a tree", row_of(&job, &m, 4).weight_ms,
             SOME * (0.5 + 0.1) + (all_bytes - 25600) / 2 * 1e-5);
    check_is("within a node", row_of(&job, &m, 2).weight_ms, SOME * 0.1 + all_bytes / 2 * 1e-6);
    job.deterministic = true;
    /* the owner of 128 x 64 gets 58368 bytes from three ranks, two of them on the other node */
    check_is("transfers", row_of(&job, &m, 4).grad_ms,
             SOME * 0.5 + 2 * 58368 * 1e-5 + 3 * 58368 * 2e-6);
}

TEST(more_ranks_get_more_micro_batches_unless_they_are_fixed)
{
    ms_scaling_job job = job_of(1024, 4);
    check_is("6 ranks", (double)row_of(&job, &machine, 6).micro_batches, 6);
    check_is("tokens", (double)row_of(&job, &machine, 6).tokens, 170);
    check_is("3 ranks", (double)row_of(&job, &machine, 3).micro_batches, 6);
    check_is("none is idle", (double)row_of(&job, &machine, 6).idle, 0);
    job.fixed = true;
    check_is("6 ranks, fixed", (double)row_of(&job, &machine, 6).idle, 2);
    check_is("3 ranks, fixed", (double)row_of(&job, &machine, 3).passes, 2);
}

/* ---- what must hold -------------------------------------------------------------------------- */

static ms_scaling_job any_job(int which)
{
    ms_scaling_job job = job_of(1 << 20, 8);
    job.deterministic  = (which & 1) != 0;
    job.weak           = (which & 2) != 0;
    job.fixed          = (which & 4) != 0;
    job.gpus           = (which & 8) != 0;
    return job;
}

TEST(one_rank_communicates_nothing)
{
    for (int which = 0; which < 16; which++) {
        const ms_scaling_job job = any_job(which);
        const ms_scaling_row r   = row_of(&job, &machine, 1);
        check_is("communication", r.grad_ms + r.weight_ms + r.agree_ms + r.inbox, 0.0);
        check_is("efficiency", r.efficiency, 1.0);
        check_is("overlapped", r.overlapped_ms, r.step_ms);
    }
}

TEST(half_the_bandwidth_takes_twice_as_long)
{
    for (int which = 0; which < 16; which++)
        for (int64_t n = 2; n <= 1 << 16; n = n * 3 - 1) {
            const ms_scaling_job job  = any_job(which);
            ms_scaling_machine   slow = machine, late = machine;
            slow.per_node = late.per_node = 8;
            const ms_scaling_row a        = row_of(&job, &late, n);
            slow.net.ms_byte *= 2.0, slow.node.ms_byte *= 2.0;
            late.net.ms *= 2.0, late.node.ms *= 2.0;
            const ms_scaling_row b = row_of(&job, &slow, n), c = row_of(&job, &late, n);
            check_is("bandwidth", b.bandwidth_ms, 2.0 * a.bandwidth_ms);
            check_is("its latency", b.latency_ms, a.latency_ms);
            check_is("latency", c.latency_ms, 2.0 * a.latency_ms);
            check_is("apart", b.apart_ms - a.apart_ms, a.bandwidth_ms);
            CHECK(a.overlapped_ms <= a.apart_ms, "%g", a.overlapped_ms);
            check_is("the step", a.step_ms, job.gpus ? a.apart_ms : a.overlapped_ms);
            /* passes hide no more than they take */
            CHECK(a.overlapped_ms + a.compute_ms * (2.0 + 1.0 / (double)a.passes) / 3.0 >=
                      a.apart_ms - 1e-9 * a.apart_ms,
                  "%g of %g", a.overlapped_ms, a.apart_ms);
            check_is("the sum", a.grad_ms + a.weight_ms + a.agree_ms,
                     a.latency_ms + a.bandwidth_ms + a.add_ms);
        }
}

TEST(ranks_make_the_optimizer_faster_down_to_the_largest_matrix)
{
    const ms_scaling_job job = any_job(2);
    double               was = INFINITY;
    for (int64_t n = 1; n <= 1 << 14; n *= 2) {
        const ms_scaling_row r = row_of(&job, &machine, n);
        CHECK(r.optim_ms <= was && r.optim_ms >= 6.0, "%g ms on %lld ranks", r.optim_ms,
              (long long)n);
        CHECK(r.tokens_s > 0.0 && r.efficiency > 0.0, "%g", r.efficiency);
        CHECK(ms_scaling_has_limit(&r, &machine, MS_LIMIT_MATRIX) == (n >= 4), "%lld ranks",
              (long long)n);
        was = r.optim_ms;
    }
}

TEST(what_cannot_be_divided_is_refused)
{
    ms_error       e   = { "" };
    ms_scaling_job job = job_of(64, 1);
    ms_scaling_row row;
    CHECK_FAILS(&e, ms_scaling_at(&e, &job, &machine, 65, &row), MUSEC_EINVAL,
                "64 tokens cannot be divided among 65 ranks");
    job.weak  = true;
    job.batch = INT64_MAX / 4;
    CHECK_FAILS(&e, ms_scaling_at(&e, &job, &machine, 5, &row), MUSEC_EINVAL, "are too many");
}

TEST(limits_begin_where_they_apply)
{
    ms_scaling_job     job = job_of(4096, 2);
    ms_scaling_machine m   = machine;
    job.fixed = job.deterministic = true;
    const ms_scaling_row two = row_of(&job, &m, 2), three = row_of(&job, &m, 3);
    CHECK(!ms_scaling_has_limit(&two, &m, MS_LIMIT_IDLE), "2 micro-batches");
    CHECK(ms_scaling_has_limit(&three, &m, MS_LIMIT_IDLE), "2 micro-batches");
    CHECK(!ms_scaling_has_limit(&two, &m, MS_LIMIT_MEMORY), "not known");
    m.memory = (uint64_t)two.memory - 1;
    CHECK(ms_scaling_has_limit(&two, &m, MS_LIMIT_MEMORY), "a byte too little");
    m.memory += 2;
    CHECK(!ms_scaling_has_limit(&two, &m, MS_LIMIT_MEMORY), "enough");
    m.net.ms_byte            = 1.0;
    const ms_scaling_row bad = row_of(&job, &m, 2);
    CHECK(ms_scaling_has_limit(&bad, &m, MS_LIMIT_COMM), "%g", bad.grad_ms);
    CHECK(ms_scaling_has_limit(&bad, &m, MS_LIMIT_HALF), "%g", bad.efficiency);
}

/* ---- a config -------------------------------------------------------------------------------- */

static ms_train_config small_config(const char *deterministic)
{
    static const char *const settings[] = {
        "x0_mix=yes", "head_gates=yes",  "gate_width=16", "batch=512",
        "max_doc=64", "micro_batches=8", "val_tokens=64", "device=cpu",
        "width=64",   "heads=2",         "head=32",       "mlp=128",
        NULL
    };
    ms_error        e = { "" };
    ms_train_config cfg;
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, "pico", "soft-musec"));
    CHECK_OK_ERR(&e, ms_train_config_apply(&e, &cfg, settings));
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "deterministic", deterministic));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    return cfg;
}

TEST(the_list_is_that_of_the_model)
{
    const ms_train_config cfg = small_config("yes");
    ms_error              e   = { "" };
    ms_train              t   = { .cfg = cfg };
    ms_scaling_job        job = { 0 };
    ms_scaling_param     *list;
    uint64_t              state = 0;
    double                want  = 0.0;

    CHECK_OK_ERR(&e, ms_scaling_list(&e, &cfg, &job, &list));
    CHECK_OK_ERR(&e, ms_train_build(&e, &t, 64));
    CHECK(job.n_params == ms_gpt_n_params(t.gpt), "%zu parameters", job.n_params);
    for (size_t i = 0; i < job.n_params; i++) {
        const ms_gpt_tensor *p = ms_gpt_param(t.gpt, i);
        CHECK(list[i].rows == p->weight.rows && list[i].cols == p->weight.cols, "%s", p->name);
        CHECK(list[i].split == (strcmp(p->name, "embed") == 0 || strcmp(p->name, "head") == 0),
              "%s", p->name);
        want += (double)(list[i].rows * list[i].cols) *
                (p->role < MUSEC_MATRIX_ROLES ? job.matrix_state : job.split_state);
    }
    CHECK_OK(t.ctx, musec_optim_workspace(t.optim, NULL, &state));
    check_is("state", (double)state, want);
    ms_train_teardown(&t);
    free(list);
}

TEST(a_chip_has_its_presets_rates)
{
    const struct {
        const char *preset, *optimizer, *set;
        double      optim_ms, tokens_s; /* as bench/results/h200.md has them */
    } cases[] = {
        { "small", "soft-musec", "ns_mode=fast", 1.559, 660643.0 },
        { "medium", "muon", "seed=1", 6.804, 318824.0 },
        { "wide", "adamw", "seed=1", 8.239, 104356.0 },
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        const char *const plain[] = {
            "batch=32768",       "micro_batches=1", "stages=",     "mtp=1",
            "head_gates=no",     "x0_mix=no",       "vocab=50304", "window_long=1024",
            "window_short=1024", cases[c].set,      NULL
        };
        ms_error           e   = { "" };
        ms_scaling_job     job = { 0 };
        ms_scaling_param  *list;
        ms_scaling_machine m;
        ms_train_config    cfg;
        ms_schedule        schedule;
        const char        *source;
        double             sum = 0.0;
        CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, cases[c].preset, cases[c].optimizer));
        CHECK_OK_ERR(&e, ms_train_config_apply(&e, &cfg, plain));
        CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
        CHECK_OK_ERR(&e, ms_schedule_make(&e, &cfg, &schedule));
        CHECK_OK_ERR(&e, ms_scaling_list(&e, &cfg, &job, &list));
        CHECK_OK_ERR(
            &e, ms_chip_rates(&e, "h200", &cfg, &schedule.stage[0], true, &job, list, &m, &source));
        for (size_t i = 0; i < job.n_params; i++)
            sum += list[i].split ? 0.0 : list[i].ms;
        CHECK(fabs(sum - cases[c].optim_ms) <= 1e-6 * sum, "%g ms", sum);
        /* Attention's pairs are counted there, and estimated here by the window. */
        CHECK(fabs(1e3 / m.token_ms / cases[c].tokens_s - 1.0) <= 0.04, "%g tokens/s",
              1e3 / m.token_ms);
        free(list);
    }
}

/* ---- what is sent ---------------------------------------------------------------------------- */

/* A communicator that counts: all ranks of a job, one after the other. */
typedef struct counter {
    ms_comm base;
    double  sent, received;
    size_t  heard; /* broadcasts */
} counter;

enum { BROADCASTS = 8 };
static struct {
    char   data[1 << 12];
    size_t bytes;
} told[BROADCASTS]; /* what rank 0 has broadcast; the last are the costs of parameters */
static size_t n_told;

static musec_status count_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n)
{
    counter *k = (counter *)c;
    (void)d;
    for (size_t i = 0; i < n; i++) {
        if (list[i].from == list[i].to) continue;
        if (list[i].from == c->rank) k->sent += (double)list[i].bytes;
        if (list[i].to == c->rank) k->received += (double)list[i].bytes;
    }
    return MUSEC_OK;
}

static musec_status count_sums(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    (void)d;
    return ms_comm_sum_by_passing(c, pieces, n);
}

static musec_status count_pieces(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    counter *k = (counter *)c;
    (void)d;
    for (size_t i = 0; i < n; i++) /* what it does not own comes here once */
        if (pieces[i].owner != c->rank) k->received += 4.0 * (double)pieces[i].n;
    return MUSEC_OK;
}

static musec_status no_reduction(ms_comm *c, ms_comm_reduction op, double *x, int64_t n)
{
    (void)c, (void)op, (void)x, (void)n;
    return MUSEC_OK;
}

static musec_status tell(ms_comm *c, void *data, int64_t bytes, int from)
{
    const size_t at = ((counter *)c)->heard++;
    CHECK(from == 0 && at < BROADCASTS && (size_t)bytes <= sizeof told[at].data, "%zu: %lld bytes",
          at, (long long)bytes);
    if (c->rank == 0) {
        memcpy(told[at].data, data, told[at].bytes = (size_t)bytes);
        n_told = at + 1;
    } else {
        memcpy(data, told[at].data, (size_t)bytes);
    }
    return MUSEC_OK;
}

static const ms_comm_ops counting = { .name       = "counting",
                                      .reduce     = count_sums,
                                      .gather     = count_pieces,
                                      .pass       = count_pass,
                                      .all_reduce = no_reduction,
                                      .broadcast  = tell };

/* Sends what a step sends, as this rank; *grads, *weights: raised to the busiest rank's. */
static void send_as(int rank, int size, ms_train_config cfg, double *grads, double *weights)
{
    counter  k = { .base = { .ops = &counting, .rank = rank, .size = size } };
    ms_error e = { "" };
    ms_train t = { .cfg = cfg, .setup = { .comm = &k.base, .replicas = 1 } };

    CHECK_OK_ERR(&e, ms_train_build(&e, &t, 0));
    k.sent = k.received = 0.0;
    for (int64_t i = 0; i < cfg.micro_batches; i += size) {
        ms_sums_begin(&t, i, cfg.micro_batches);
        CHECK_OK_ERR(&e, ms_sums_ready(&e, &t, ms_gpt_n_params(t.gpt) / 2));
        CHECK_OK_ERR(&e, ms_sums_end(&e, &t));
    }
    *grads = fmax(*grads, fmax(k.sent, k.received));
    k.sent = k.received = 0.0;
    t.weights_stale     = true;
    CHECK_OK_ERR(&e, ms_train_finish_weights(&e, &t));
    *weights = fmax(*weights, k.received);
    ms_train_teardown(&t);
}

/* micro: beyond one for each rank. */
static void check_bytes(const char *deterministic, int size, int micro)
{
    ms_train_config   cfg = small_config(deterministic);
    ms_error          e   = { "" };
    ms_scaling_job    job = { 0 };
    ms_scaling_param *list;
    double            grads = 0.0, weights = 0.0, costs[64];

    cfg.micro_batches = size + micro;
    cfg.batch         = 64 * cfg.micro_batches;
    for (int r = 0; r < size; r++)
        send_as(r, size, cfg, &grads, &weights);
    CHECK_OK_ERR(&e, ms_scaling_list(&e, &cfg, &job, &list));
    CHECK(told[n_told - 1].bytes == job.n_params * sizeof *costs, "%zu", told[n_told - 1].bytes);
    memcpy(costs, told[n_told - 1].data, told[n_told - 1].bytes);
    for (size_t i = 0; i < job.n_params; i++)
        list[i].ms = costs[i];
    job.model              = &cfg.model;
    job.dtype              = MUSEC_F32;
    job.logits_chunk       = 1 << 21;
    job.batch              = cfg.batch;
    job.micro_batches      = cfg.micro_batches;
    job.fixed              = true;
    job.deterministic      = cfg.deterministic != 0;
    const ms_scaling_row r = row_of(&job, &machine, size);
    check_is("weights", r.weight_bytes, weights);
    if (micro == 0 || !cfg.deterministic)
        check_is("gradients", r.grad_bytes, grads);
    else /* the busiest rank of the first round need not be that of the second */
        CHECK(r.grad_bytes >= grads && r.grad_bytes <= 2.0 * grads, "%g bytes, not %g",
              r.grad_bytes, grads);
    free(list);
}

TEST(the_bytes_are_those_that_the_trainer_sends)
{
    for (int size = 2; size <= 4; size *= 2)
        for (int micro = 0; micro < 3; micro += 2) {
            check_bytes("yes", size, micro);
            check_bytes("no", size, micro);
        }
}
