/* section_progress_test.c - what a page of a few runs shows of each. */
#include "check.h"

#include <string.h>

#include "section_rig.h"

/* One run: its learning rates, logits and speed, step by step; of seven there is none. */
TEST(a_run_has_its_progress)
{
    made runs[7];
    rig  r;

    for (size_t i = 0; i < COUNT(runs); i++)
        runs[i] = (made){ .optimizer = "muon", .lr = "0.1", .loss = 3.0, .seed = "0" };
    runs[1].lr = "0.2";
    runs[2].lr = "0.3";
    runs[3].lr = "0.4";
    runs[4].lr = "0.5";
    runs[5].lr = "0.6";
    runs[6].lr = "0.7";
    make(&r, runs, 1, &usual);
    CHECK(block(&r, "progress")->figure.n == 3, "%zu panels", block(&r, "progress")->figure.n);
    for (size_t k = 0; k < r.set.at[0].n; k++) {
        const ms_run_line *line = &r.set.at[0].lines[k];
        const ms_curve    *c    = block(&r, "progress")->figure.panels[0].curves;
        check_point(&c[0], k, (double)line->step, line->lr);
        check_point(&block(&r, "progress")->figure.panels[1].curves[0], k, (double)line->step,
                    line->max_logit);
        check_point(&block(&r, "progress")->figure.panels[2].curves[0], k, (double)line->step,
                    line->tok_s);
    }
    release(&r);
    make(&r, runs, 1, &(ms_report_options){ .within = 0.02, .omit_times = true });
    CHECK(block(&r, "progress")->figure.n == 2, "speed is a time");
    release(&r);
    make(&r, runs, 6, &usual);
    CHECK(block(&r, "progress")->figure.panels[0].n == 6, "a curve of each run");
    release(&r);
    make(&r, runs, 7, &usual);
    CHECK(section(&r, "progress") == NULL, "too many");
    release(&r);
}
