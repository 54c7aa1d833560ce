/* footer_test.c - what the last lines of a page say of its runs. */
#include "check.h"

#include <string.h>

#include "section_rig.h"

/* Machine, version and dates are those of the runs; two that say nothing are counted. */
TEST(the_footer_says_where_and_when)
{
    static const made  runs[]  = { { .optimizer = "muon", .lr = "0.1", .loss = 3.0 },
                                   { .optimizer = "muon", .lr = "0.2", .loss = 3.0 },
                                   { .optimizer = "muon", .lr = "0.3", .loss = 3.0 },
                                   { .optimizer = "muon", .lr = "0.4", .loss = 3.0 } };
    static const char *dates[] = { "2026-11-18", "2026-11-09" };
    for (int omit = 0; omit < 2; omit++) {
        rig r = { 0 };
        for (size_t i = 0; i < COUNT(runs); i++) {
            run_rig_add(&r.set, runs[i]);
            if (i < COUNT(dates))
                r.set.at[i].made = json_pack("{s:s, s:s, s:s}", "version", "1.2.3", "machine",
                                             "an abacus, 2 cores", "date", dates[i]);
        }
        CHECK_OK_ERR(&r.e, ms_compare_build(&r.e, &r.set, &r.c));
        ms_page_begin(&r.page, "made", NULL);
        CHECK_OK_ERR(
            &r.e, ms_sections_build(&r.e, &r.c,
                                    &(ms_report_options){ .within = 0.02, .omit_times = omit == 1 },
                                    &r.page));
        CHECK((strstr(r.page.footer,
                      "\n2 runs made from 2026-11-09 to 2026-11-18 by musec 1.2.3: an "
                      "abacus, 2 cores.\nOf 2 runs it is not known where and when") != NULL) ==
                  (omit == 0),
              "%s", r.page.footer);
        release(&r);
    }
}
