/* section_progress_test.c - the progress of each run on a page of a few runs. */
#include "check.h"

#include <string.h>

#include "section_rig.h"

/* The figure has learning rates, logits and speed by step; pages of more than six runs lack it. */
TEST(up_to_six_runs_have_curves_of_their_progress)
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
