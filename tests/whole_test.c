/* whole_test.c - whole numbers in the notations that people use, read exactly. */
#include "core/whole.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

TEST(whole_numbers_are_read_exactly)
{
    static const struct {
        const char *text;
        int64_t     want;
    } cases[] = {
        { "0", 0 },
        { "-0", 0 },
        { "007", 7 },
        { "+5", 5 },
        { "1000", 1000 },
        { "1e3", 1000 },
        { "1E3", 1000 },
        { "1e+3", 1000 },
        { "1.e3", 1000 },
        { "2.5e2", 250 },
        { "2.50e1", 25 },
        { "0.001e3", 1 },
        { "12.0", 12 },
        { "1200e-2", 12 },
        { "0e999999999999", 0 },
        { "0.000e-7", 0 },
        { "-3e2", -300 },
        { "9007199254740993", 9007199254740993 }, /* 2^53 + 1: no double */
        { "9.007199254740993e15", 9007199254740993 },
        { "9223372036854775807", INT64_MAX },
        { "9.223372036854775807e18", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t  x = -77;
        uint64_t u = 77;
        CHECK(ms_whole_i64(cases[i].text, &x) == MS_WHOLE_READ && x == cases[i].want,
              "%s gives %lld", cases[i].text, (long long)x);
        if (cases[i].want < 0)
            CHECK(ms_whole_u64(cases[i].text, &u) == MS_WHOLE_RANGE && u == 77, "%s",
                  cases[i].text);
        else
            CHECK(ms_whole_u64(cases[i].text, &u) == MS_WHOLE_READ && u == (uint64_t)cases[i].want,
                  "%s", cases[i].text);
    }
}

TEST(other_texts_and_numbers_out_of_range_are_refused)
{
    static const char *const none[] = { "",    " ",   "x",   "1.5",   "1e-1", "2.55e1", "1e",
                                        "1e+", "e3",  ".5",  ".",     "1..0", "1.0.0",  "1e3.0",
                                        "1 ",  " 1",  "10k", "0x10",  "--1",  "+-1",    "1e3x",
                                        "nan", "inf", "-",   "1,000", "1_000" };
    static const char *const far[]  = { "9223372036854775808", "1e19", "1e999999999999",
                                        "92233720368547758070e-0" };
    for (size_t i = 0; i < COUNT(none); i++) {
        int64_t  x = -77;
        uint64_t u = 77;
        CHECK(ms_whole_i64(none[i], &x) == MS_WHOLE_NONE && x == -77, "'%s'", none[i]);
        CHECK(ms_whole_u64(none[i], &u) == MS_WHOLE_NONE && u == 77, "'%s'", none[i]);
    }
    for (size_t i = 0; i < COUNT(far); i++) {
        int64_t x = -77;
        CHECK(ms_whole_i64(far[i], &x) == MS_WHOLE_RANGE && x == -77, "%s", far[i]);
    }
    uint64_t u = 77;
    CHECK(ms_whole_u64("18446744073709551615", &u) == MS_WHOLE_READ && u == UINT64_MAX, "most");
    CHECK(ms_whole_u64("1.8446744073709551615e19", &u) == MS_WHOLE_READ && u == UINT64_MAX, "most");
    CHECK(ms_whole_u64("18446744073709551616", &u) == MS_WHOLE_RANGE, "one more");
    CHECK(ms_whole_u64("2e19", &u) == MS_WHOLE_RANGE, "far more");
}
