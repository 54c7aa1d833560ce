/* sized_test.c - structs of callers that were built with fewer or more fields. */
#include "core/sized.h"

#include <stdint.h>

#include "check.h"

typedef struct config_1 { /* a first version, and two later ones */
    uint32_t size;
    int32_t  a;
    double   b;
} config_1;
typedef struct config_2 {
    uint32_t size;
    int32_t  a;
    double   b, c;
} config_2;
typedef struct config_3 {
    uint32_t size;
    int32_t  a;
    double   b, c, d;
} config_3;

static const config_2 defaults = { sizeof(config_2), 1, 2.0, 3.0 };

TEST(older_callers_get_defaults)
{
    struct {
        config_1      cfg;
        unsigned char behind[8];
    } caller;
    config_2 own = defaults;
    memset(&caller, 0xab, sizeof caller);
    ms_sized_fill(&caller.cfg, sizeof caller.cfg, &defaults, sizeof defaults);
    CHECK(caller.cfg.a == 1 && caller.cfg.b == 2.0, "%d %g", caller.cfg.a, caller.cfg.b);
    for (size_t i = 0; i < sizeof caller.behind; i++)
        CHECK(caller.behind[i] == 0xab, "written behind the caller's struct");
    caller.cfg.b = 7.0;
    CHECK(ms_sized_take(&caller.cfg, sizeof caller.cfg, &own, sizeof own), "taken");
    CHECK(own.b == 7.0 && own.c == 3.0, "%g %g", own.b, own.c);
}

TEST(newer_callers_may_not_ask_for_more)
{
    config_3 caller;
    config_2 own = defaults;
    memset(&caller, 0xab, sizeof caller);
    ms_sized_fill(&caller, sizeof caller, &defaults, sizeof defaults);
    CHECK(caller.c == 3.0 && caller.d == 0.0, "%g %g", caller.c, caller.d);
    caller.c = 9.0;
    CHECK(ms_sized_take(&caller, sizeof caller, &own, sizeof own) && own.c == 9.0, "%g", own.c);
    caller.d = 1.0;
    CHECK(!ms_sized_take(&caller, sizeof caller, &own, sizeof own), "an unknown field was taken");
}

TEST(sizes_below_the_first_version_or_absurd_are_refused)
{
    CHECK(ms_sized_fits(sizeof(config_1), sizeof(config_1)), "the smallest");
    CHECK(!ms_sized_fits(sizeof(config_1) - 1, sizeof(config_1)), "smaller");
    CHECK(!ms_sized_fits(UINT32_MAX, sizeof(config_1)), "an uninitialized size");
}
