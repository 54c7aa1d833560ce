/* share_test.c - an optimizer that ranks share takes the steps of one that is alone, bit for bit,
 * keeps its part of the state, and writes and reads the same files.
 *
 * It is run alone, and by mpirun on several ranks (tests/tools/on_ranks). */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm_rig.h"
#include "optim/optim.h"
#include "scratch.h"

TEST_GROUP(open_comm, close_comm)

enum { N = 6, MOST = 40 * 48 };

static const struct {
    const char *name;
    musec_role  role;
    int64_t     rows, cols;
    int         owner;
} params[N] = {
    { "embed", MUSEC_ROLE_EMBED, 37, 16, MS_SPLIT },
    { "a", MUSEC_ROLE_QK, 24, 16, 0 },
    { "b", MUSEC_ROLE_VO, 24, 16, 1 },
    { "c", MUSEC_ROLE_MLP, 40, 48, 2 },
    { "d", MUSEC_ROLE_QK, 24, 16, 3 },
    { "few", MUSEC_ROLE_VECTOR, 2, 3, MS_SPLIT },
};

typedef struct subject { /* an optimizer and its memory */
    musec_optim *opt;
    float        weight[N][MOST], grad[N][MOST];
    musec_view   grads[N]; /* as this rank hands them over */
    size_t       batch[N];
} subject;

static musec_view view_of(float *data, size_t i)
{
    return musec_view_dense(data, MUSEC_F32, 1, params[i].rows, params[i].cols);
}

static musec_param param_of(subject *s, size_t i)
{
    return (musec_param){ .name   = params[i].name,
                          .role   = params[i].role,
                          .weight = view_of(s->weight[i], i) };
}

/* Those that belong together have the owner of the first of them. */
static int owner_of(const subject *s, size_t i, int size)
{
    const int owner = params[s->batch[i]].owner;
    return owner == MS_SPLIT ? MS_SPLIT : owner % size;
}

static void draw(ms_device *dev, subject *s, int64_t step)
{
    for (size_t i = 0; i < N; i++) {
        CHECK_OK(dev, dev->ops->normal(dev, (uint64_t)(100 * step) + i, 0.0, 0.5,
                                       ms_mat_of(view_of(s->grad[i], i))));
        s->grads[i] = ms_share_view(&s->opt->params[i], view_of(s->grad[i], i));
    }
}

static subject *make(ms_device *dev, ms_comm *c, const char *name, const char *key,
                     const char *value)
{
    subject           *s = check_alloc(sizeof *s);
    musec_optim       *whole;
    musec_optim_config cfg;
    CHECK(musec_optim_config_init(&cfg, sizeof cfg, name) == MUSEC_OK, "%s", name);
    cfg.operands = MUSEC_F32;
    if (key != NULL) CHECK(musec_optim_config_set(&cfg, key, value) == MUSEC_OK, "%s", key);
    cfg.report_every = 2;
    CHECK_OK(dev, musec_optim_create(&whole, dev, &cfg));
    CHECK_OK(dev, musec_optim_create(&s->opt, dev, &cfg));
    for (size_t i = 0; i < N; i++) {
        const musec_param param = param_of(s, i);
        CHECK_OK(dev, dev->ops->normal(dev, 7 + i, 0.0, 1.0, ms_mat_of(param.weight)));
        CHECK_OK(dev, musec_optim_add(whole, &param, NULL));
    }
    CHECK_OK(dev, ms_optim_batches(whole, s->batch));
    musec_optim_destroy(whole);
    for (size_t i = 0; i < N; i++) {
        const musec_param param = param_of(s, i);
        CHECK_OK(dev, ms_optim_add_share(s->opt, c, &param, owner_of(s, i, c->size), NULL));
    }
    draw(dev, s, 0);
    return s;
}

static void drop(subject *s)
{
    musec_optim_destroy(s->opt);
    free(s);
}

/* Brings the weights to all ranks, as a trainer does. */
static void gather_weights(subject *s)
{
    for (size_t i = 0; i < N; i++)
        for (int r = 0; r < comm->size; r++) {
            const bool    split = params[i].owner == MS_SPLIT;
            const int64_t first = split ? ms_share_first(params[i].rows, r, comm->size) : 0;
            const int64_t end =
                split ? ms_share_first(params[i].rows, r + 1, comm->size) : params[i].rows;
            const ms_comm_piece piece = { s->weight[i] + first * params[i].cols,
                                          (end - first) * params[i].cols, MUSEC_F32, r };
            if (split || owner_of(s, i, comm->size) == r)
                CHECK_OK(comm, comm->ops->gather(comm, NULL, &piece, 1));
        }
}

static void check_same(const subject *a, const subject *b, const char *what)
{
    for (size_t i = 0; i < N; i++)
        CHECK(memcmp(a->weight[i], b->weight[i], sizeof a->weight[i]) == 0, "%s: %s", what,
              params[i].name);
}

static void take_steps(ms_device *dev, subject *alone, subject *shared, int64_t from, int64_t to)
{
    for (int64_t t = from; t < to; t++) {
        draw(dev, alone, t);
        draw(dev, shared, t);
        CHECK_OK(dev, musec_optim_step(alone->opt, alone->grads, N, 1.0));
        CHECK_OK(dev, musec_optim_step(shared->opt, shared->grads, N, 1.0));
        gather_weights(shared);
        check_same(alone, shared, "a step");
    }
}

static void check_reports(const subject *alone, const subject *shared)
{
    for (size_t i = 0; i < 4; i++) {
        musec_optim_report a, b;
        CHECK(musec_optim_get_report(alone->opt, i, &a) == MUSEC_OK, "%zu", i);
        CHECK(musec_optim_get_report(shared->opt, i, &b) == MUSEC_OK, "%zu", i);
        CHECK(strcmp(a.param, b.param) == 0 && a.step == b.step && a.step == 2, "%s, step %d",
              b.param, (int)b.step);
        CHECK(a.update_norm2 == b.update_norm2 && a.weight_norm2 == b.weight_norm2 &&
                  a.update_erank == b.update_erank && strcmp(a.path, b.path) == 0,
              "%s: %g, not %g", a.param, b.update_norm2, a.update_norm2);
    }
}

static void check_kind(ms_device *dev, const char *name, const char *key, const char *value)
{
    subject *alone  = make(dev, ms_comm_self(), name, key, value);
    subject *shared = make(dev, comm, name, key, value);
    uint64_t whole = 0, part = 0;
    double   sum;

    take_steps(dev, alone, shared, 1, 4);
    check_reports(alone, shared);
    CHECK_OK(dev, musec_optim_workspace(alone->opt, NULL, &whole));
    CHECK_OK(dev, musec_optim_workspace(shared->opt, NULL, &part));
    sum = (double)part;
    CHECK_OK(comm, comm->ops->all_reduce(comm, MS_COMM_SUM, &sum, 1));
    CHECK(sum == (double)whole, "%g bytes of state on all ranks, %g in one", sum, (double)whole);

    /* every rank writes the file of the one that is alone; rank 0 writes the shared one */
    static char file[4096], other[4096];
    snprintf(file, sizeof file, "%s/alone", check_tmp_dir());
    snprintf(other, sizeof other, "%s/shared", check_tmp_dir());
    CHECK_OK(dev, musec_optim_save(alone->opt, file));
    CHECK_OK(dev, musec_optim_save(shared->opt, other));
    if (comm->rank == 0) {
        static blob a, b;
        get_file(file, &a);
        get_file(other, &b);
        CHECK(a.n == b.n && memcmp(a.p, b.p, a.n) == 0, "%s: another file", name);
    }
    subject *again = make(dev, comm, name, key, value);
    CHECK_OK(dev, musec_optim_load(again->opt, file));
    memcpy(again->weight, shared->weight, sizeof again->weight);
    take_steps(dev, alone, again, 4, 6);
    drop(again);
    drop(shared);
    drop(alone);
}

TEST(every_optimizer_takes_the_same_steps)
{
    ms_device *dev = check_open("cpu");
    for (size_t i = 0; musec_optim_name(i, NULL) != NULL; i++)
        check_kind(dev, musec_optim_name(i, NULL), NULL, NULL);
    check_kind(dev, "soft-musec", "momentum-dtype", "bf16");
    check_kind(dev, "soft-musec", "threshold", "quantile:0.8");
    check_kind(dev, "soft-musec", "second-moment", "longer");
    check_kind(dev, "sgdm", "avg-steps", "2");
    check_kind(dev, "soft-musec", "operands", "bf16");
    check_kind(dev, "spectra", "operands", "f16");
    check_kind(dev, "muon", "operands", "f16");
    check_kind(dev, "soap", "precondition-every", "2");
    check_kind(dev, "shampoo", "precondition-every", "2");
    check_kind(dev, "kl-shampoo", "precondition-every", "2");
    musec_ctx_destroy(dev);
}

/* A bad gradient on one rank is refused by all, in the words of one that is alone. */
TEST(all_ranks_refuse_what_one_cannot_take)
{
    ms_device *dev = check_open("cpu");
    for (size_t bad = 0; bad < N; bad++) {
        subject *alone = make(dev, ms_comm_self(), "muon", NULL, NULL);
        subject *mine  = make(dev, comm, "muon", NULL, NULL);
        ms_error want;
        draw(dev, alone, 1);
        draw(dev, mine, 1);
        alone->grad[bad][5] = mine->grad[bad][5] = NAN;
        CHECK_FAILS(&dev->error, musec_optim_step(alone->opt, alone->grads, N, 1.0),
                    MUSEC_ENONFINITE, params[bad].name);
        want = dev->error;
        CHECK_FAILS(&dev->error, musec_optim_step(mine->opt, mine->grads, N, 1.0), MUSEC_ENONFINITE,
                    want.text);
        CHECK(musec_optim_steps(mine->opt) == 0, "a step was counted");
        drop(mine);
        drop(alone);
    }
    musec_ctx_destroy(dev);
}

TEST(what_ranks_cannot_share_is_refused)
{
    ms_device         *dev = NULL;
    float              w[6 * 5];
    musec_optim_config cfg;
    musec_optim       *opt   = NULL;
    const musec_param  param = { .name   = "w",
                                 .role   = MUSEC_ROLE_QK,
                                 .weight = musec_view_dense(w, MUSEC_F32, 1, 6, 5) };

    if (comm->size == 1) SKIP("one rank shares nothing; mpirun runs this test on several");
    dev = check_open("cpu");
    CHECK(musec_optim_config_init(&cfg, sizeof cfg, "muon") == MUSEC_OK, "muon");
    cfg.nonfinite = MUSEC_NONFINITE_DEFER;
    CHECK_OK(dev, musec_optim_create(&opt, dev, &cfg));
    CHECK_FAILS(&dev->error, ms_optim_add_share(opt, comm, &param, 0, NULL), MUSEC_ENOTSUP,
                "defer");
    musec_optim_destroy(opt);
    musec_ctx_destroy(dev);
}
