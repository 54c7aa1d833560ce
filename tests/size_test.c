/* size_test.c - size arithmetic at its limits. */
#include "check.h"

#include "core/size.h"

TEST(products_that_overflow_are_refused)
{
    static const struct {
        size_t a, b;
        bool   fits;
    } cases[] = {
        { 0, 0, true },
        { 0, SIZE_MAX, true },
        { SIZE_MAX, 0, true },
        { 1, SIZE_MAX, true },
        { SIZE_MAX, 1, true },
        { 2, SIZE_MAX / 2, true },
        { 2, SIZE_MAX / 2 + 1, false },
        { SIZE_MAX, SIZE_MAX, false },
        { (size_t)1 << 32, (size_t)1 << 31, true },
        { (size_t)1 << 32, (size_t)1 << 32, false },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t out = 77;
        CHECK(ms_size_mul(cases[i].a, cases[i].b, &out) == cases[i].fits, "case %zu", i);
        CHECK(out == (cases[i].fits ? cases[i].a * cases[i].b : 77), "case %zu: %zu", i, out);
    }
}

TEST(sums_that_overflow_are_refused)
{
    size_t out = 0;

    CHECK(ms_size_add(SIZE_MAX, 0, &out) && out == SIZE_MAX, "%zu", out);
    CHECK(ms_size_add(SIZE_MAX - 5, 5, &out) && out == SIZE_MAX, "%zu", out);
    CHECK(!ms_size_add(SIZE_MAX, 1, &out), "wraps round");
    CHECK(!ms_size_add(SIZE_MAX - 5, 6, &out), "wraps round");
}

TEST(the_bytes_of_a_stack_fit_or_are_refused)
{
    static const struct {
        int64_t count, rows, cols;
        size_t  each;
        bool    fits;
        size_t  bytes;
    } cases[] = {
        { 2, 3, 4, 8, true, 192 },
        { 0, 3, 4, 8, true, 0 },
        { 2, 0, INT64_MAX, 1, true, 0 },
        { -1, 3, 4, 8, false, 0 },
        { 1, -3, 4, 8, false, 0 },
        { 1, 3, -4, 8, false, 0 },
        { 1, 1, INT64_MAX, 1, true, INT64_MAX },
        { 1, 1, INT64_MAX, 2, false, 0 }, /* fits a size_t, not a ptrdiff_t */
        { 1, INT64_MAX, INT64_MAX, 1, false, 0 },
        { (int64_t)1 << 31, (int64_t)1 << 31, 4, 4, false, 0 },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t     out = 77;
        const bool fits =
            ms_size_stack(cases[i].count, cases[i].rows, cases[i].cols, cases[i].each, &out);
        CHECK(fits == cases[i].fits, "case %zu", i);
        CHECK(out == (fits ? cases[i].bytes : 77), "case %zu: %zu", i, out);
    }
}
