/* comm_test.c - the operations of a communicator, the launchers' variables, and what is refused.
 *
 * It is run alone, and by mpirun on several ranks (tests/tools/on_ranks): every test holds for any
 * number of them.  Numbers are small integers, whose sums are exact. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "comm_rig.h"

TEST_GROUP(open_comm, close_comm)

/* A number that depends on a rank, a piece and an element. */
static double number(int rank, int64_t piece, int64_t i)
{
    return (double)((rank + 1) * 1000 + piece * 10 + i % 7);
}

enum { PIECES = 70, LONGEST = 5000 }; /* more pieces than calls that are begun at a time */

static int64_t length(int64_t piece) { return piece == 3 ? 0 : piece * 71 % LONGEST + 1; }

static void fill_pieces(float *memory, ms_comm_piece *pieces, bool owned_alone)
{
    for (int64_t k = 0; k < PIECES; k++) {
        const int owner = (int)(k % comm->size);
        pieces[k]       = (ms_comm_piece){ memory + k * LONGEST, length(k), MUSEC_F32, owner };
        for (int64_t i = 0; i < length(k); i++)
            memory[k * LONGEST + i] =
                owned_alone && owner != comm->rank ? NAN : (float)number(comm->rank, k, i);
    }
}

TEST(a_reduction_sums_into_the_owner)
{
    float        *memory = check_alloc(PIECES * LONGEST * sizeof *memory);
    ms_comm_piece pieces[PIECES];

    fill_pieces(memory, pieces, false);
    CHECK_OK(comm, comm->ops->reduce(comm, NULL, pieces, PIECES));
    for (int64_t k = 0; k < PIECES; k++)
        for (int64_t i = 0; pieces[k].owner == comm->rank && i < length(k); i++) {
            double sum = 0.0;
            for (int r = 0; r < comm->size; r++)
                sum += number(r, k, i);
            CHECK((double)memory[k * LONGEST + i] == sum, "piece %d, %d: %g, not %g", (int)k,
                  (int)i, (double)memory[k * LONGEST + i], sum);
        }
    free(memory);
}

TEST(a_gather_brings_every_piece_to_every_rank)
{
    float        *memory = check_alloc(PIECES * LONGEST * sizeof *memory);
    ms_comm_piece pieces[PIECES];

    fill_pieces(memory, pieces, true);
    CHECK_OK(comm, comm->ops->gather(comm, NULL, pieces, PIECES));
    for (int64_t k = 0; k < PIECES; k++)
        for (int64_t i = 0; i < length(k); i++)
            CHECK((double)memory[k * LONGEST + i] == number(pieces[k].owner, k, i), "piece %d, %d",
                  (int)k, (int)i);
    free(memory);
}

/* Every rank sends something to every other one, itself included, in an order that crosses. */
TEST(transfers_arrive_where_they_are_sent)
{
    enum { N = 300 };
    const size_t      n    = (size_t)comm->size * (size_t)comm->size;
    double           *data = check_alloc(n * N * sizeof *data);
    ms_comm_transfer *list = check_alloc(n * sizeof *list);

    for (size_t k = 0; k < n; k++) {
        const int from = (int)(k % (size_t)comm->size);
        const int to   = (comm->size - 1 - (int)(k / (size_t)comm->size) + from) % comm->size;
        list[k]        = (ms_comm_transfer){ data + k * N, N * sizeof *data, from, to };
        for (int i = 0; i < N; i++)
            data[k * N + (size_t)i] = from == comm->rank ? number(from, (int64_t)k, i) : NAN;
    }
    CHECK_OK(comm, comm->ops->pass(comm, NULL, list, n));
    for (size_t k = 0; k < n; k++)
        for (int i = 0; list[k].to == comm->rank && i < N; i++)
            CHECK(data[k * N + (size_t)i] == number(list[k].from, (int64_t)k, i), "transfer %zu",
                  k);
    free(list);
    free(data);
}

TEST(sums_and_maxima_are_the_same_on_all_ranks)
{
    double x[5], y[5];

    for (int i = 0; i < 5; i++)
        x[i] = y[i] = (i == 2 ? -1.0 : 1.0) * number(comm->rank, i, i);
    y[4] = comm->rank == 0 ? INFINITY : -INFINITY;
    CHECK_OK(comm, comm->ops->all_reduce(comm, MS_COMM_SUM, x, 5));
    CHECK_OK(comm, comm->ops->all_reduce(comm, MS_COMM_MAX, y, 5));
    for (int i = 0; i < 5; i++) {
        double sum = 0.0, max = -INFINITY;
        for (int r = 0; r < comm->size; r++) {
            const double one = (i == 2 ? -1.0 : 1.0) * number(r, i, i);
            sum += one;
            max = fmax(max, one);
        }
        CHECK(x[i] == sum, "%g, not %g", x[i], sum);
        CHECK(y[i] == (i == 4 ? INFINITY : max), "%g, not %g", y[i], max);
    }
}

TEST(a_broadcast_reaches_all)
{
    for (int from = 0; from < comm->size; from++) {
        char text[8] = "";
        if (from == comm->rank) memcpy(text, "musec", 6);
        CHECK_OK(comm, comm->ops->broadcast(comm, text, sizeof text, from));
        CHECK(strcmp(text, "musec") == 0, "\"%s\" from rank %d", text, from);
        CHECK_OK(comm, comm->ops->barrier(comm));
    }
}

TEST(only_numbers_are_summed)
{
    uint16_t            bits  = 0;
    const ms_comm_piece piece = { &bits, 1, MUSEC_BF16, 0 };

    if (comm->size == 1) SKIP("one rank sums nothing; mpirun runs this test on several");
    CHECK_FAILS(&comm->error, comm->ops->reduce(comm, NULL, &piece, 1), MUSEC_ENOTSUP, "bf16");
}

TEST(equal_shares_cover_everything_once)
{
    for (int64_t n = 0; n < 40; n++)
        for (int size = 1; size < 9; size++) {
            CHECK(ms_share_first(n, 0, size) == 0 && ms_share_first(n, size, size) == n, "ends");
            for (int r = 0; r < size; r++) {
                const int64_t mine = ms_share_first(n, r + 1, size) - ms_share_first(n, r, size);
                CHECK(mine == n / size || mine == (n + size - 1) / size, "%d of %d in %d parts",
                      (int)mine, (int)n, size);
            }
        }
    CHECK(ms_share_first(INT64_MAX, 4096, 4096) == INT64_MAX, "a large number");
}

/* ---- memory of devices ----------------------------------------------------------------------- */

enum { LARGE = 5000000 }; /* elements of a piece that goes through host memory in several parts */

typedef struct on_device { /* pieces as above, then a large one */
    ms_device    *dev;
    float        *host, *memory; /* PIECES * LONGEST + LARGE elements */
    ms_comm_piece pieces[PIECES + 1];
} on_device;

static size_t device_bytes(void) { return (PIECES * LONGEST + LARGE) * sizeof(float); }

static on_device *place(ms_device *dev)
{
    on_device *x = check_alloc(sizeof *x);
    x->dev       = dev;
    x->host      = check_alloc(device_bytes());
    CHECK_OK(dev, dev->ops->alloc(dev, device_bytes(), (void **)&x->memory));
    return x;
}

static void fill_device(on_device *x, const ms_comm *c, bool owned_alone)
{
    for (int64_t k = 0; k <= PIECES; k++) {
        const int     owner = (int)(k % c->size);
        const int64_t n     = k < PIECES ? length(k) : LARGE;
        x->pieces[k]        = (ms_comm_piece){ x->memory + k * LONGEST, n, MUSEC_F32, owner };
        for (int64_t i = 0; i < n; i++)
            x->host[k * LONGEST + i] =
                owned_alone && owner != c->rank ? NAN : (float)number(c->rank, k, i);
    }
    CHECK_OK(x->dev, x->dev->ops->upload(x->dev, x->host, device_bytes(), x->memory));
}

static void take_back(on_device *x)
{
    memset(x->host, 0, device_bytes());
    CHECK_OK(x->dev, x->dev->ops->download(x->dev, x->memory, device_bytes(), x->host));
}

static void drop_device(on_device *x)
{
    x->dev->ops->free(x->dev, x->memory);
    free(x->host);
    free(x);
}

static void check_reduce_and_gather(on_device *x, ms_comm *c)
{
    fill_device(x, c, false);
    CHECK_OK(c, c->ops->reduce(c, x->dev, x->pieces, PIECES + 1));
    take_back(x);
    for (int64_t k = 0; k <= PIECES; k++)
        for (int64_t i = 0; x->pieces[k].owner == c->rank && i < x->pieces[k].n; i++) {
            double sum = 0.0;
            for (int r = 0; r < c->size; r++)
                sum += number(r, k, i);
            CHECK((double)x->host[k * LONGEST + i] == sum, "%s: sum of piece %d, %d: %g, not %g",
                  c->ops->name, (int)k, (int)i, (double)x->host[k * LONGEST + i], sum);
        }
    fill_device(x, c, true);
    CHECK_OK(c, c->ops->gather(c, x->dev, x->pieces, PIECES + 1));
    take_back(x);
    for (int64_t k = 0; k <= PIECES; k++)
        for (int64_t i = 0; i < x->pieces[k].n; i++)
            CHECK((double)x->host[k * LONGEST + i] == number(x->pieces[k].owner, k, i),
                  "%s: piece %d, %d", c->ops->name, (int)k, (int)i);
}

/* Every piece goes from its owner to the next rank and, the large one too, to itself. */
static void check_pass(on_device *x, ms_comm *c)
{
    ms_comm_transfer list[2 * PIECES + 2];
    size_t           n = 0;

    fill_device(x, c, true);
    for (size_t k = 0; k <= PIECES; k++) {
        const ms_comm_piece   *p = &x->pieces[k];
        const ms_comm_transfer t = { p->data, p->n * (int64_t)sizeof(float), p->owner, p->owner };
        list[n++]                = t;
        list[n]                  = t;
        list[n++].to             = (p->owner + 1) % c->size;
    }
    CHECK_OK(c, c->ops->pass(c, x->dev, list, n));
    take_back(x);
    for (int64_t k = 0; k <= PIECES; k++) {
        const int owner = x->pieces[k].owner;
        for (int64_t i = 0; i < x->pieces[k].n; i++)
            if (owner == c->rank || (owner + 1) % c->size == c->rank)
                CHECK((double)x->host[k * LONGEST + i] == number(owner, k, i), "%s: piece %d, %d",
                      c->ops->name, (int)k, (int)i);
    }
}

static void check_on(ms_device *dev, ms_comm *c)
{
    on_device *x = place(dev);
    check_reduce_and_gather(x, c);
    check_pass(x, c);
    drop_device(x);
}

TEST_EACH_DEVICE(pieces_lie_in_the_memory_of_a_device, dev)
{
    check_on(dev, comm);
    ms_comm_forget_device(comm);
}

static ms_memory some_memory(ms_device *d)
{
    (void)d;
    return (ms_memory){ 0 };
}

static musec_status take_host(ms_device *d, size_t bytes, void **out)
{
    (void)d;
    *out = check_alloc(bytes);
    return MUSEC_OK;
}

static void free_host(ms_device *d, void *p)
{
    (void)d;
    free(p);
}

/* The same without a GPU, by a CPU that says that it has memory of its own. */
TEST(what_lies_apart_goes_through_host_memory)
{
    ms_device            *dev   = check_open("cpu");
    const ms_device_kind *kind  = dev->kind;
    ms_device_kind        apart = *kind;

    apart.memory     = some_memory;
    apart.alloc_host = take_host;
    apart.free_host  = free_host;
    dev->kind        = &apart;
    check_on(dev, comm);
    ms_comm_forget_device(comm);
    dev->kind = kind;
    musec_ctx_destroy(dev);
}

static musec_status no_host(ms_device *d, size_t bytes, void **out)
{
    (void)bytes;
    *out = NULL;
    return ms_fail(&d->error, MUSEC_EINVAL, "nothing goes through host memory");
}

static void *no_stream(ms_device *d)
{
    (void)d;
    return NULL;
}

/* A CPU that says that it has memory of its own, and an MPI that is told by a library before it
 * (tests/tools/cuda_aware.c) to say that it takes that: sums alone go through host memory. */
TEST(an_mpi_that_takes_memory_of_gpus_gets_it)
{
    ms_error              e     = { "" };
    ms_device            *dev   = check_open("cpu");
    const ms_device_kind *kind  = dev->kind;
    ms_device_kind        apart = *kind;
    char                  text[512];
    bool                  there = false;

    CHECK_OK_ERR(&e, ms_comm_mpi_describe(&e, text, sizeof text, &there));
    const bool takes = there && strcmp(comm->ops->name, "mpi") == 0 && comm->size > 1 &&
                       strstr(text, "it takes memory of GPUs") != NULL;
    apart.memory     = some_memory;
    apart.stream     = no_stream;
    apart.alloc_host = no_host;
    dev->kind        = &apart;
    on_device *x     = place(dev);
    if (takes) {
        check_pass(x, comm);
        fill_device(x, comm, true);
        CHECK_OK(comm, comm->ops->gather(comm, dev, x->pieces, PIECES + 1));
        take_back(x);
        for (int64_t i = 0; i < LARGE; i++)
            CHECK((double)x->host[PIECES * LONGEST + i] == number(PIECES % comm->size, PIECES, i),
                  "%d", (int)i);
    }
    if (comm->size > 1)
        CHECK_FAILS(&comm->error, comm->ops->reduce(comm, dev, x->pieces, 1), MUSEC_EINVAL,
                    "nothing goes through host memory");
    drop_device(x);
    dev->kind = kind;
    musec_ctx_destroy(dev);
    const char *before = getenv("LD_PRELOAD");
    CHECK(takes || before == NULL || strstr(before, "cuda_aware") == NULL, "%s", text);
}

static const char stub_version[] = "2.99.0"; /* tests/tools/nccl_stub.c */

/* On one rank NCCL is asked for all the same: nothing moves, and what it does is queued.  Since
 * 2.30 ranks may share a GPU, if they are told to. */
TEST_EACH_DEVICE(nccl_moves_what_lies_on_gpus, dev)
{
    ms_error e = { "" }, why = { "" };
    ms_comm *c      = NULL;
    double   sum    = 1.0;
    bool     insist = false, there = false;
    char     text[256];

    if (!ms_comm_is_apart(dev)) SKIP_DEVICE("%s is no GPU", dev->name);
    ms_comm_nccl_describe(text, sizeof text, &there);
    if (strcmp(text, stub_version) == 0) SKIP_DEVICE("the stub of NCCL takes no memory of GPUs");
    insist = there && (comm->size == 1 || getenv("NCCL_MULTI_RANK_GPU_ENABLE") != NULL);
    CHECK_OK_ERR(&e, ms_comm_add_nccl(&e, comm, dev, insist, &c, &why));
    if (c == comm) SKIP_DEVICE("%s", why.text);
    check_on(dev, c);
    CHECK_OK(c, c->ops->all_reduce(c, MS_COMM_SUM, &sum, 1));
    CHECK(sum == (double)c->size, "%g", sum);
    CHECK_FAILS(&c->error, c->ops->reduce(c, dev, &(ms_comm_piece){ dev, 1, MUSEC_BF16, 0 }, 1),
                MUSEC_ENOTSUP, "bf16");
    ms_comm_close(c);
}

static void identify(ms_device *d, char text[MS_DEVICE_ID])
{
    (void)d;
    snprintf(text, MS_DEVICE_ID, "GPU of rank %d", comm->rank);
}

static void some_identity(ms_device *d, char text[MS_DEVICE_ID])
{
    (void)d;
    snprintf(text, MS_DEVICE_ID, "GPU");
}

/* The calls that NCCL gets, by a library that takes its place (tests/tools/nccl_stub.c). */
TEST(nccl_is_called_as_it_wants)
{
    ms_error              e = { "" }, why = { "" };
    ms_device            *dev   = check_open("cpu");
    const ms_device_kind *kind  = dev->kind;
    ms_device_kind        apart = *kind;
    ms_comm              *c     = NULL;
    char                  text[256];
    bool                  there;

    ms_comm_nccl_describe(text, sizeof text, &there);
    if (!there || strcmp(text, stub_version) != 0) {
        musec_ctx_destroy(dev);
        SKIP("the stub of NCCL is not in LD_LIBRARY_PATH");
    }
    apart.memory   = some_memory;
    apart.stream   = no_stream;
    apart.identify = identify;
    dev->kind      = &apart;
    CHECK_OK_ERR(&e, ms_comm_add_nccl(&e, comm, dev, false, &c, &why));
    CHECK(c != comm && strcmp(c->ops->name, "nccl") == 0, "%s", why.text);
    check_on(dev, c);
    setenv("MUSEC_STUB_FAILS", "now", 1);
    CHECK_FAILS(&c->error, c->ops->gather(c, dev, NULL, 0), MUSEC_OK, "");
    CHECK_FAILS(&c->error, c->ops->pass(c, dev, NULL, 0), MUSEC_EDEVICE,
                "NCCL failed to pass data on: remote process exited: said by the stub");
    unsetenv("MUSEC_STUB_FAILS");
    CHECK(c->failed, "it would wait for the others");
    CHECK_OK(comm, comm->ops->barrier(comm)); /* all have left its directory */
    ms_comm_close(c);
    apart.identify = some_identity; /* the same one on all */
    CHECK_OK_ERR(&e, ms_comm_add_nccl(&e, comm, dev, false, &c, &why));
    CHECK(comm->size == 1 || (c == comm && strstr(why.text, "share a GPU") != NULL), "%s",
          why.text);
    if (c != comm) ms_comm_close(c);
    dev->kind = kind;
    musec_ctx_destroy(dev);
}

TEST(nccl_is_not_for_cpus)
{
    ms_error   e = { "" }, why = { "" };
    ms_comm   *c   = NULL;
    ms_device *dev = check_open("cpu");

    CHECK_OK_ERR(&e, ms_comm_add_nccl(&e, comm, dev, false, &c, &why));
    CHECK(c == comm && strstr(why.text, "needs GPUs") != NULL, "%s", why.text);
    CHECK_FAILS(&e, ms_comm_add_nccl(&e, comm, dev, true, &c, &why), MUSEC_ENOTSUP, "needs GPUs");
    musec_ctx_destroy(dev);
}

/* ---- launchers: last, for they change the environment ---------------------------------------- */

static const char *const variables[] = {
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
};

static ms_ranks read_ranks(const char *rank, const char *r, const char *size, const char *s,
                           const char *local, const char *l)
{
    ms_error e = { "" };
    ms_ranks ranks;
    setenv(rank, r, 1);
    setenv(size, s, 1);
    if (l != NULL) setenv(local, l, 1);
    CHECK_OK_ERR(&e, ms_ranks_read(&e, &ranks));
    for (size_t i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
    return ranks;
}

TEST(every_launcher_is_understood)
{
    ms_error e = { "" };
    ms_ranks ranks;

    for (size_t i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
    CHECK_OK_ERR(&e, ms_ranks_read(&e, &ranks));
    CHECK(ranks.size == 1 && ranks.rank == 0 && ranks.launcher == NULL, "no launcher");
    for (size_t i = 0; i < COUNT(variables); i += 3) {
        ranks = read_ranks(variables[i], "5", variables[i + 1], "8", variables[i + 2], "1");
        CHECK(ranks.rank == 5 && ranks.size == 8 && ranks.local_rank == 1, "%s", variables[i]);
        CHECK(ranks.launcher != NULL, "%s", variables[i]);
    }
    setenv("SLURM_NTASKS", "4", 1); /* of the job, whose script is one process */
    ranks = read_ranks("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1", "", NULL);
    CHECK(ranks.size == 1 && ranks.local_rank == -1, "%d ranks", ranks.size);
}

TEST(variables_that_make_no_sense_are_refused)
{
    static const struct {
        const char *rank, *size, *words;
    } bad[] = {
        { "x", "2", "RANK is \"x\"" },       { "", "2", "RANK is \"\"" },
        { "0", "0", "WORLD_SIZE is \"0\"" }, { "2", "2", "below" },
        { "-1", "2", "RANK is \"-1\"" },     { "0", "99999999999", "WORLD_SIZE" },
    };
    ms_error e = { "" };
    ms_ranks ranks;
    ms_comm *c = NULL;

    for (size_t i = 0; i < COUNT(bad); i++) {
        setenv("RANK", bad[i].rank, 1);
        setenv("WORLD_SIZE", bad[i].size, 1);
        CHECK_FAILS(&e, ms_ranks_read(&e, &ranks), MUSEC_EINVAL, bad[i].words);
    }
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    CHECK_OK_ERR(&e, ms_comm_open(&e, &(ms_comm_setup){ .kind = "self" }, &c));
    CHECK(c->size == 1 && c->rank == 0, "%d ranks, whom nobody asked for", c->size);
    CHECK_FAILS(&e, ms_comm_open(&e, &(ms_comm_setup){ .kind = "pigeon" }, &c), MUSEC_EINVAL,
                "pigeon");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
}
