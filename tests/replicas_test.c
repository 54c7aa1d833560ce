/* replicas_test.c - ranks in groups that each own all there is.
 *
 * It is run alone, and by launchers on 4 and 6 ranks (tests/tools/on_ranks). */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "comm_rig.h"

TEST_GROUP(open_comm, close_comm)

enum { PIECES = 9, LONGEST = 3000 };

static ms_comm *make(int replicas)
{
    ms_error e = { "" };
    ms_comm *c = NULL;
    CHECK_OK_ERR(&e, ms_comm_add_replicas(&e, comm, replicas, &c));
    return c;
}

static int64_t length(int piece) { return piece == 2 ? 1 : piece * 397 % LONGEST; }

/* Numbers whose sums are rounded, so that their order matters. */
static float number(int rank, int piece, int64_t i)
{
    return 1.0f / (float)(3 + rank * 7 + piece + i % 11);
}

static void fill(float row[PIECES][LONGEST], ms_comm_piece pieces[PIECES], const ms_comm *group)
{
    for (int k = 0; k < PIECES; k++) {
        pieces[k] = (ms_comm_piece){ row[k], length(k), MUSEC_F32, k % group->size };
        for (int64_t i = 0; i < length(k); i++)
            row[k][i] = number(comm->rank, k, i);
    }
}

/* What rank 0 has is what each other group's first rank has, bit for bit. */
static void check_same(const float row[PIECES][LONGEST])
{
    static float first[PIECES][LONGEST];
    memcpy(first, row, sizeof first);
    CHECK_OK(comm, comm->ops->broadcast(comm, first, sizeof first, 0));
    for (int k = 0; k < PIECES; k++)
        CHECK(memcmp(first[k], row[k], (size_t)length(k) * sizeof(float)) == 0, "piece %d", k);
}

TEST(all_groups_get_the_same_sum_of_all_ranks)
{
    static float  row[PIECES][LONGEST];
    ms_comm_piece pieces[PIECES];

    if (comm->size < 4) SKIP("launchers run this test on 4 and 6 ranks");
    for (int replicas = 2; replicas < comm->size; replicas++) {
        if (comm->size % replicas != 0) continue;
        ms_comm *c    = make(replicas);
        int      mine = -1;
        CHECK(c != comm && c->size == comm->size / replicas && c->rank == comm->rank % c->size,
              "rank %d of %d", c->rank, c->size);
        CHECK(ms_comm_replicas(c, &mine) == replicas && mine == comm->rank / c->size, "group %d",
              mine);
        fill(row, pieces, c);
        CHECK_OK(c, c->ops->reduce(c, NULL, pieces, PIECES));
        for (int k = 0; k < PIECES; k++)
            for (int64_t i = 0; pieces[k].owner == c->rank && i < length(k); i++) {
                double sum = 0.0;
                for (int r = 0; r < comm->size; r++)
                    sum += (double)number(r, k, i);
                /* five roundings of half a unit each */
                CHECK(fabs((double)row[k][i] - sum) <= 5 * 0x1p-24 * sum, "piece %d, %d: %g", k,
                      (int)i, (double)row[k][i]);
            }
        CHECK_OK(c, c->ops->gather(c, NULL, pieces, PIECES));
        check_same((const float(*)[LONGEST])row);
        ms_comm_close(c);
    }
}

TEST(all_else_stays_within_a_group)
{
    double x[2] = { comm->rank, -comm->rank };

    if (comm->size < 4) SKIP("launchers run this test on 4 and 6 ranks");
    ms_comm  *c       = make(2);
    const int half    = comm->size / 2;
    const int first   = comm->rank < half ? 0 : half; /* of this group */
    char      said[8] = "";
    double    got     = -1.0;
    int       mine    = 0;

    CHECK_OK(c, c->ops->all_reduce(c, MS_COMM_MAX, x, 2));
    CHECK(x[0] == first + half - 1 && x[1] == -first, "%g, %g", x[0], x[1]);
    CHECK_OK(c, c->ops->all_reduce(c, MS_COMM_SUM, x, 1));
    CHECK(x[0] == half * (first + half - 1), "%g", x[0]);
    if (c->rank == 1) memcpy(said, first == 0 ? "one" : "two", 4);
    CHECK_OK(c, c->ops->broadcast(c, said, sizeof said, 1));
    CHECK(strcmp(said, first == 0 ? "one" : "two") == 0, "%s", said);
    double                 number_of = comm->rank;
    const ms_comm_transfer list[]    = { { c->rank == 0 ? &number_of : &got, sizeof got, 0, 1 } };
    CHECK_OK(c, c->ops->pass(c, NULL, list, 1));
    CHECK(c->rank != 1 || got == first, "%g", got);
    CHECK_OK(c, c->ops->barrier(c));
    CHECK(ms_comm_replicas(comm, &mine) == 1, "no group");
    ms_comm_close(c);
}

TEST(groups_are_equal_and_of_several)
{
    ms_error e = { "" };
    ms_comm *c = NULL;

    CHECK_FAILS(&e, ms_comm_add_replicas(&e, comm, comm->size, &c), MUSEC_EINVAL,
                "replicas of several ranks each");
    CHECK_FAILS(&e, ms_comm_add_replicas(&e, comm, comm->size + 1, &c), MUSEC_EINVAL, "not make");
    CHECK(make(0) == comm, "one machine is one group"); /* by the name of each */
}
