/* axis_test.c - round ticks, and positions of values of every kind on an axis. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/axis.h"

static ms_axis axis_over(bool log, double lo, double hi, double margin, double end)
{
    ms_axis_range span = { 0 };
    ms_axis       a;
    ms_axis_range_add(&span, log, lo);
    ms_axis_range_add(&span, log, hi);
    ms_axis_make(&a, log, span, margin, margin, end);
    return a;
}

TEST(ticks_are_round)
{
    static const struct {
        bool        log;
        double      lo, hi;
        const char *want; /* labels */
    } cases[] = {
        { false, 0.0, 10.0, "0 2 4 6 8 10 " },
        { false, 3.05, 3.42, "3.05 3.10 3.15 3.20 3.25 3.30 3.35 3.40 " },
        { false, -1.0, 1.0, "-1.0 -0.8 -0.6 -0.4 -0.2 0.0 0.2 0.4 0.6 0.8 1.0 " },
        { false, 0.0, 8000.0, "0 1000 2000 3000 4000 5000 6000 7000 8000 " },
        { false, 0.0, 3e9, "0 5×10⁸ 10⁹ 1.5×10⁹ 2×10⁹ 2.5×10⁹ 3×10⁹ " },
        { true, 0.02, 2.0, "0.02 0.05 0.1 0.2 0.5 1 2 " },
        { true, 1.0, 1e4, "1 10 100 1000 10000 " },
        { true, 1e-7, 1e-3, "10⁻⁷ 10⁻⁶ 10⁻⁵ 0.0001 0.001 " },
        { true, 3.0, 4.0, "3.0 3.2 3.4 3.6 3.8 4.0 " },
        { true, 2.1, 4.9, "2.5 3.0 3.5 4.0 4.5 " },
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        const ms_axis a         = axis_over(cases[c].log, cases[c].lo, cases[c].hi, 0.0, 1.0);
        char          got[1024] = "";
        size_t        n         = 0;
        for (size_t i = 0; i < a.n; i++) {
            CHECK(a.ticks[i].at >= 0.0 && a.ticks[i].at <= 1.0, "case %zu: tick %zu", c, i);
            CHECK(i == 0 || a.ticks[i].at > a.ticks[i - 1].at, "case %zu: order", c);
            if (a.ticks[i].label[0] != '\0')
                n += (size_t)snprintf(got + n, sizeof got - n, "%s ", a.ticks[i].label);
        }
        CHECK(strcmp(got, cases[c].want) == 0, "case %zu: '%s' instead of '%s'", c, got,
              cases[c].want);
    }
}

TEST(any_range_has_an_axis_with_a_few_ticks_inside)
{
    static const double values[] = { 0.0,        -0.0,      5e-324, -5e-324,     DBL_MIN, 1e-300,
                                     1e-9,       0.3,       1.0,    1.0 + 1e-13, 7.0,     -7.0,
                                     123456.789, 1e9,       1e300,  -1e300,      DBL_MAX, -DBL_MAX,
                                     INFINITY,   -INFINITY, NAN };

    for (size_t i = 0; i < COUNT(values); i++)
        for (size_t k = 0; k < COUNT(values); k++)
            for (int log = 0; log < 2; log++) {
                const ms_axis a      = axis_over(log, values[i], values[k], 0.05, 0.9);
                int           labels = 0;
                CHECK(a.lo < a.hi && isfinite(a.lo) && isfinite(a.hi) && (!log || a.lo > 0.0),
                      "%g %g: %g to %g", values[i], values[k], a.lo, a.hi);
                for (size_t t = 0; t < a.n; t++) {
                    CHECK(a.ticks[t].at >= 0.0 && a.ticks[t].at <= 0.9, "%g %g", values[i],
                          values[k]);
                    labels += a.ticks[t].label[0] != '\0';
                }
                CHECK(labels <= 14, "%g %g: %d labels", values[i], values[k], labels);
                for (size_t v = 0; v < COUNT(values); v++) {
                    const double at = ms_axis_place(&a, values[v]);
                    CHECK(isnan(values[v]) ? isnan(at) : at >= 0.0 && at <= 0.9,
                          "%g on %g %g is at %g", values[v], a.lo, a.hi, at);
                }
            }
}

TEST(positions_are_linear_or_logarithmic)
{
    const ms_axis line = axis_over(false, 10.0, 20.0, 0.0, 1.0);
    const ms_axis log  = axis_over(true, 0.01, 100.0, 0.0, 1.0);

    CHECK(fabs(ms_axis_place(&line, 12.5) - 0.25) < 1e-12, "a quarter");
    CHECK(fabs(ms_axis_place(&log, 1.0) - 0.5) < 1e-12, "the middle decade");
    CHECK(fabs(ms_axis_place(&log, 0.1) - 0.25) < 1e-12, "a decade");
    CHECK(ms_axis_place(&line, -1.0) == 0.0 && ms_axis_place(&line, 99.0) == 1.0, "the edges");
    CHECK(ms_axis_place(&log, 0.0) == 0.0 && ms_axis_place(&log, -3.0) == 0.0, "no logarithm");
}

TEST(numbers_are_written_as_a_person_would)
{
    static const struct {
        double      value;
        const char *want;
    } cases[] = { { 0.0, "0" },           { 3.14159, "3.142" },   { 12345.6, "12346" },
                  { 0.02, "0.02" },       { 2.5e-7, "2.5×10⁻⁷" }, { 1e12, "10¹²" },
                  { -3e-12, "-3×10⁻¹²" }, { NAN, "nan" },         { INFINITY, "inf" } };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char got[MS_NUMBER_TEXT];
        ms_number_text(cases[i].value, got);
        CHECK(strcmp(got, cases[i].want) == 0, "'%s' instead of '%s'", got, cases[i].want);
    }
}

/* 3 on an axis from 0 to 2 is half as far again as 2. */
TEST(a_reach_continues_the_scale_above_the_axis)
{
    ms_axis a = axis_over(false, 0.0, 2.0, 0.0, 0.5);

    CHECK(fabs(ms_axis_reach(&a, 3.0) - 0.75) <= 1e-12, "%g", ms_axis_reach(&a, 3.0));
    CHECK(ms_axis_place(&a, 3.0) == 0.5 && ms_axis_place(&a, 2.0) == 0.5, "at the edge");
    CHECK(fabs(ms_axis_reach(&a, 1.0) - 0.25) <= 1e-12 && ms_axis_reach(&a, -1.0) == 0.0, "below");
    CHECK(isinf(ms_axis_reach(&a, INFINITY)) && ms_axis_place(&a, INFINITY) == 0.5, "infinite");
    CHECK(isnan(ms_axis_reach(&a, NAN)) && isnan(ms_axis_place(&a, NAN)), "no number");
    a = axis_over(true, 1.0, 100.0, 0.0, 1.0);
    CHECK(fabs(ms_axis_reach(&a, 1e4) - 2.0) <= 1e-9, "%g", ms_axis_reach(&a, 1e4));
    CHECK(ms_axis_reach(&a, 0.0) == 0.0, "has no logarithm");
}
