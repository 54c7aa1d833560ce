/* section_progress_test.c - what a page of a few runs shows of each. */
#include "check.h"

#include <string.h>

#include "section_rig.h"

/* One run: its learning rates, logits and speed, step by step; of seven there is none. */
TEST(a_run_has_its_progress)
{
    static const char *const runs[] = { "muon lr=0.1 loss=3", "muon lr=0.2 loss=3",
                                        "muon lr=0.3 loss=3", "muon lr=0.4 loss=3",
                                        "muon lr=0.5 loss=3", "muon lr=0.6 loss=3",
                                        "muon lr=0.7 loss=3" };

    make(&usual, runs, 1);
    CHECK(block("progress")->figure.n == 3, "%zu panels", block("progress")->figure.n);
    for (size_t k = 0; k < now.set.at[0].n; k++) {
        const ms_run_line *line = &now.set.at[0].lines[k];
        check_point(&panel("progress", 0)->curves[0], k, (double)line->step, line->lr);
        check_point(&panel("progress", 1)->curves[0], k, (double)line->step, line->max_logit);
        check_point(&panel("progress", 2)->curves[0], k, (double)line->step, line->tok_s);
    }
    make(&without_times, runs, 1);
    CHECK(block("progress")->figure.n == 2, "speed is a time");
    make(&usual, runs, 6);
    CHECK(panel("progress", 0)->n == 6, "a curve of each run");
    make(&usual, runs, 7);
    CHECK(section("progress") == NULL, "too many");
}
