/* footer_test.c - the last lines of a page, about its runs. */
#include "check.h"

#include <string.h>

#include "section_rig.h"

/* Machine, version and dates are those of the runs; the two runs without them are counted. */
TEST(the_footer_names_machine_version_and_dates)
{
    static const char *const dates[] = { "2026-11-18", "2026-11-09" };

    MAKE("muon lr=0.1 loss=3", "muon lr=0.2 loss=3", "muon lr=0.3 loss=3", "muon lr=0.4 loss=3");
    for (size_t i = 0; i < COUNT(dates); i++)
        now.set.at[i].made = json_pack("{s:s, s:s, s:s}", "version", "1.2.3", "machine",
                                       "an abacus, 2 cores", "date", dates[i]);
    make_sections(&usual);
    check_has(now.page.footer, "\n2 runs made from 2026-11-09 to 2026-11-18 by musec 1.2.3: an "
                               "abacus, 2 cores.\nOf 2 runs it is not known where and when");
    make_sections(&without_times);
    CHECK(strstr(now.page.footer, "runs made from") == NULL, "%s", now.page.footer);
}
