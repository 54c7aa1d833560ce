/* student_test.c - quantiles of Student's t against printed tables, and intervals by hand. */
#include "check.h"

#include <math.h>

#include "report/student.h"

/* From the tables that textbooks print, two-sided. */
TEST(quantiles_are_those_of_the_tables)
{
    static const struct {
        double level;
        size_t freedom;
        double want;
    } table[] = { { 0.95, 1, 12.706 },  { 0.95, 2, 4.303 },   { 0.95, 3, 3.182 },
                  { 0.95, 4, 2.776 },   { 0.95, 5, 2.571 },   { 0.95, 6, 2.447 },
                  { 0.95, 7, 2.365 },   { 0.95, 8, 2.306 },   { 0.95, 9, 2.262 },
                  { 0.95, 10, 2.228 },  { 0.95, 15, 2.131 },  { 0.95, 20, 2.086 },
                  { 0.95, 29, 2.045 },  { 0.95, 30, 2.042 },  { 0.95, 60, 2.000 },
                  { 0.95, 120, 1.980 }, { 0.90, 4, 2.132 },   { 0.99, 2, 9.925 },
                  { 0.99, 9, 3.250 },   { 0.999, 3, 12.924 }, { 0.80, 1, 3.078 } };
    for (size_t i = 0; i < COUNT(table); i++) {
        const double got = ms_student_t(table[i].level, table[i].freedom);
        CHECK(fabs(got - table[i].want) <= 0.00051, "%g, %zu: %.5f, not %.3f", table[i].level,
              table[i].freedom, got, table[i].want);
    }
}

/* 2, 4 and 9: mean 5, variance 13; sqrt(13 / 3) = 2.0817, times 4.3027 is 8.9568. */
TEST(intervals_are_worked_out_by_hand)
{
    static const double x[] = { 2.0, 4.0, 9.0 }, equal[] = { 1.5, 1.5 };
    ms_interval         got = ms_interval_of(x, 3);
    CHECK(fabs(got.mean - 5.0) <= 1e-12 && fabs(got.half - 8.9568) <= 5e-4, "%g +- %g", got.mean,
          got.half);
    got = ms_interval_of(equal, 2);
    CHECK(got.mean == 1.5 && got.half == 0.0, "%g +- %g", got.mean, got.half);
    got = ms_interval_of(x, 1);
    CHECK(got.mean == 2.0 && isnan(got.half) && got.n == 1, "%g +- %g", got.mean, got.half);
    got = ms_interval_of(x, 0);
    CHECK(isnan(got.mean) && isnan(got.half), "%g +- %g", got.mean, got.half);
}
