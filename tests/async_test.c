/* async_test.c - calls of a communicator that are made while the caller computes.
 *
 * It is run alone, and by launchers on several ranks (tests/tools/on_ranks). */
#include "comm/async.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "comm_rig.h"

TEST_GROUP(open_comm, close_comm)

enum { CALLS = 150, N = 3000 }; /* more calls than are kept, and elements of a piece */

static float number(int rank, int call, int i) { return (float)(rank * 10 + call + i % 5); }

static ms_async *make(ms_device *dev)
{
    ms_error  e = { "" };
    ms_async *a;
    CHECK_OK_ERR(&e, ms_async_create(&e, comm, dev, &a));
    return a;
}

/* Every call needs the one before: it sends on what that has brought. */
TEST(calls_are_made_in_their_order)
{
    ms_device   *dev    = check_open("cpu");
    ms_async    *a      = make(dev);
    const int    before = (comm->rank + comm->size - 1) % comm->size;
    const int    next   = (comm->rank + 1) % comm->size;
    const bool   first  = comm->rank % 2 == 0; /* of a ring with an even rank 0 */
    static float row[CALLS + 1][N];
    int64_t      ticket = 0, was = 0;

    CHECK(ms_async_overlaps(a) == (comm->size > 1), "%d ranks", comm->size);
    for (int i = 0; i < N; i++)
        row[0][i] = number(comm->rank, 0, i);
    for (int k = 0; k < CALLS; k++) {
        const ms_comm_transfer to      = { row[k], sizeof row[k], comm->rank, next },
                               from    = { row[k + 1], sizeof row[k], before, comm->rank };
        const ms_comm_transfer list[2] = { first ? to : from, first ? from : to };
        CHECK_OK(comm, ms_async_pass(a, list, 2, &ticket));
        CHECK(ticket > was, "call %lld after %lld", (long long)ticket, (long long)was);
        was = ticket;
    }
    CHECK_OK(comm, ms_async_wait(a, ticket));
    CHECK(ms_async_is_done(a, ticket), "waited for");
    for (int k = 1; k <= CALLS && comm->size > 1; k++)
        for (int i = 0; i < N; i++) {
            const int from = ((comm->rank - k) % comm->size + comm->size) % comm->size;
            CHECK(row[k][i] == number(from, 0, i), "call %d, %d", k, i);
        }
    ms_async_destroy(a);
    musec_ctx_destroy(dev);
}

/* The list of a call may be another one as soon as it was begun. */
TEST(sums_and_copies_go_on_meanwhile)
{
    ms_device    *dev = check_open("cpu");
    ms_async     *a   = make(dev);
    static float  row[CALLS][N];
    ms_comm_piece piece[2];
    int64_t       ticket = 0;

    for (int k = 0; k < CALLS; k++) {
        for (int i = 0; i < N; i++)
            row[k][i] = number(comm->rank, k, i);
        piece[0] = (ms_comm_piece){ row[k], N / 2, MUSEC_F32, k % comm->size };
        piece[1] = (ms_comm_piece){ row[k] + N / 2, N / 2, MUSEC_F32, (k + 1) % comm->size };
        CHECK_OK(comm, ms_async_reduce(a, piece, 2, &ticket));
        CHECK_OK(comm, ms_async_gather(a, piece, 2, &ticket));
    }
    CHECK_OK(comm, ms_async_wait(a, ticket));
    for (int k = 0; k < CALLS; k++)
        for (int i = 0; i < N; i++) {
            float sum = 0.0f;
            for (int r = 0; r < comm->size; r++)
                sum += number(r, k, i);
            CHECK(row[k][i] == sum, "call %d, %d: %g, not %g", k, i, (double)row[k][i],
                  (double)sum);
        }
    CHECK_OK(comm, comm->ops->barrier(comm)); /* nothing is under way: calls may be made again */
    ms_async_destroy(a);
    musec_ctx_destroy(dev);
}

TEST(after_a_failure_nothing_is_done)
{
    ms_device          *dev    = check_open("cpu");
    ms_async           *a      = make(dev);
    uint16_t            bits   = 0;
    float               x      = 1.0f;
    int64_t             ticket = 0;
    const ms_comm_piece wrong = { &bits, 1, MUSEC_BF16, 0 }, right = { &x, 1, MUSEC_F32, 0 };

    if (comm->size == 1) {
        ms_async_destroy(a);
        musec_ctx_destroy(dev);
        SKIP("one rank sums nothing; launchers run this test on several");
    }
    CHECK_OK(comm, ms_async_reduce(a, &wrong, 1, &ticket));
    CHECK_FAILS(&comm->error, ms_async_wait(a, ticket), MUSEC_ENOTSUP, "bf16");
    CHECK(ms_async_is_done(a, ticket), "it never will be");
    CHECK_FAILS(&comm->error, ms_async_reduce(a, &right, 1, &ticket), MUSEC_ENOTSUP, "bf16");
    CHECK_FAILS(&comm->error, ms_async_wait(a, ticket), MUSEC_ENOTSUP, "bf16");
    CHECK(x == 1.0f, "%g", (double)x);
    ms_async_destroy(a);
    musec_ctx_destroy(dev);
}
