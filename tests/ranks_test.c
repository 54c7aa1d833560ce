/* ranks_test.c - how parameters are dealt to the ranks of a training run. */
#include "train/ranks.h"

#include "check.h"

enum { MOST = 512 };

static double deal(const double *cost, const int *kind, size_t n, int size, int *owner)
{
    ms_error e    = { "" };
    double   mean = 0.0, max = 0.0;
    CHECK_OK_ERR(&e, ms_deal(&e, cost, kind, n, size, owner));
    for (int r = 0; r < size; r++) {
        double load = 0.0;
        for (size_t i = 0; i < n; i++)
            load += owner[i] == r ? cost[i] : 0.0;
        mean += load / size;
        max = load > max ? load : max;
    }
    for (size_t i = 0; i < n; i++)
        CHECK(owner[i] >= 0 && owner[i] < size, "%zu belongs to %d", i, owner[i]);
    return max / mean;
}

/* Four layers of 4 small and 2 large matrices: 4 ranks get the same work each. */
TEST(layers_are_dealt_evenly)
{
    double cost[24];
    int    kind[24], owner[24], small[4] = { 0 }, large[4] = { 0 };
    for (int i = 0; i < 24; i++) {
        kind[i] = i % 6 < 4 ? 0 : 4;
        cost[i] = kind[i] == 0 ? 1.0 : 3.5;
    }
    CHECK(deal(cost, kind, 24, 4, owner) == 1.0, "uneven");
    for (int i = 0; i < 24; i++)
        (kind[i] == 0 ? small : large)[owner[i]]++;
    for (int r = 0; r < 4; r++)
        CHECK(small[r] == 4 && large[r] == 2, "rank %d has %d and %d", r, small[r], large[r]);
    CHECK(deal(cost, kind, 24, 1, owner) == 1.0 && owner[23] == 0, "one rank");
}

/* The busiest rank was no busier than the mean when it got its last thing. */
TEST(no_rank_gets_much_more_than_another)
{
    static double cost[MOST];
    static int    kind[MOST], owner[MOST];
    for (int size = 1; size <= 16; size *= 2)
        for (size_t n = 1; n <= MOST; n = 2 * n + 1) {
            double sum = 0.0, most = 0.0;
            for (size_t i = 0; i < n; i++) {
                kind[i] = (int)(i * i % 5);
                cost[i] = 1.0 + (double)(kind[i] * kind[i]);
                sum += cost[i];
                most = cost[i] > most ? cost[i] : most;
            }
            const double mean = sum / size;
            const double max  = deal(cost, kind, n, size, owner) * mean;
            CHECK(max <= mean + most, "%zu things, %d ranks: %g", n, size, max / mean);
            if (n > 20u * (unsigned)size) /* the cheapest come last, and even it out */
                CHECK(max <= 1.02 * mean, "%zu things, %d ranks: %g", n, size, max / mean);
        }
}

/* The dearest is rank 0's.  The next kind goes to rank 1, where the third of it finds both equally
 * busy, and stays. */
TEST(equal_things_stay_together)
{
    static const double cost[] = { 2, 1, 1, 1, 1, 1, 1 };
    static const int    kind[] = { 0, 1, 2, 1, 2, 1, 2 };
    int                 owner[7];
    int                 of_kind[3][2] = { { 0 } };
    deal(cost, kind, 7, 2, owner);
    for (int i = 0; i < 7; i++)
        of_kind[kind[i]][owner[i]]++;
    CHECK(owner[0] == 0 && of_kind[1][1] == 3, "%d of kind 1 on rank 1", of_kind[1][1]);
    CHECK(of_kind[2][0] == 2, "%d of kind 2 on rank 0", of_kind[2][0]);
}
