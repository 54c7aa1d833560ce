/* section_plots_test.c - what sections share: names of figures, and which runs stand together. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "section_rig.h"

/* ---- names of figures ------------------------------------------------------------------------ */

/* The figures of two runs on each of these sets of data have names of their own, and these. */
static void check_names(const char *const data[], const char *const want[], size_t n)
{
    made runs[8];
    rig  r;

    CHECK(2 * n <= COUNT(runs), "%zu sets", n);
    for (size_t i = 0; i < 2 * n; i++)
        runs[i] = (made){ .optimizer = i % 2 == 0 ? "muon" : "spectra",
                          .lr        = "0.1",
                          .loss      = 2,
                          .data      = data[i / 2] };
    make(&r, runs, 2 * n, &usual);
    for (size_t i = 0; i < n; i++)
        (void)block(&r, want[i]);
    for (size_t i = 0; i < r.page.n; i++)
        for (size_t k = 0; k < r.page.sections[i].n; k++) {
            const char *id = r.page.sections[i].blocks[k].id;
            if (id != NULL) CHECK(block(&r, id) == &r.page.sections[i].blocks[k], "%s twice", id);
        }
    release(&r);
}

TEST(names_of_figures_differ)
{
    static const char *const plain[] = { "c4", "fineweb" };
    static const char *const latin[] = { "2", "中国", "日本" };
    static const char *const cut[]   = { "a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r-s",
                                         "a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r-t" };

    check_names(plain, (const char *[]){ "dynamics-val-pico-c4", "dynamics-val-pico-fineweb" }, 2);
    check_names(
        latin,
        (const char *[]){ "dynamics-val-pico-2", "dynamics-val-2_pico", "dynamics-val-3_pico" }, 3);
    check_names(cut,
                (const char *[]){ "dynamics-val-1_pico-a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r",
                                  "dynamics-val-2_pico-a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r" },
                2);
}

/* ---- all runs -------------------------------------------------------------------------------- */

/* Two runs of one seed: the one that does not count has no threshold either. */
TEST(muon_has_no_threshold)
{
    static const made runs[] = { { .optimizer = "muon", .lr = "0.1", .loss = 2.0 },
                                 { .optimizer = "muon", .lr = "0.1", .loss = 2.0 } };
    rig               r;

    make(&r, runs, COUNT(runs), &usual);
    for (size_t i = 0; i < COUNT(runs); i++) {
        const ms_table *t = &block(&r, "runs")->table;
        CHECK(strcmp(t->cells[(i + 1) * strlen(t->align) + 4], "-") == 0, "run %zu: D %s", i,
              t->cells[(i + 1) * strlen(t->align) + 4]);
    }
    release(&r);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* One of three runs of Muon was on a GPU: its time is no CPU's, nor its precision. */
TEST(runs_on_two_devices_are_told)
{
    static const made runs[] = {
        { .optimizer = "muon", .lr = "0.1", .loss = 2.0, .more = "device=cuda:1" },
        { .optimizer = "muon", .lr = "0.2", .loss = 2.0, .more = "device=cpu" },
        { .optimizer = "muon", .lr = "0.5", .loss = 2.0, .more = "device=cpu" },
        { .optimizer = "spectra", .lr = "0.1", .loss = 2.0, .more = "device=cuda:1" },
    };
    rig r;

    make(&r, runs, COUNT(runs) - 1, &usual);
    check_row(&r, "step-times", 0, "pico, builtin|Muon|10.000|3.000|30.0|1.000|2");
    check_row(&r, "training", 5, "precision|bfloat16, float32 masters and float32");
    check_row(&r, "training", 6, "device|cuda:1 and cpu");
    assert_int_equal(r.set.n_notes, 1);
    CHECK(strcmp(r.set.notes[0], "runs on pico, builtin differ in their precision (bf16 and f32), "
                                 "and are compared all the same") == 0,
          "%s", r.set.notes[0]);
    release(&r);
    make(&r, runs, COUNT(runs), &usual); /* two of each: the first */
    check_row(&r, "step-times", 0, "pico, builtin|Muon|10.000|3.000|30.0|1.000|1");
    check_row(&r, "step-times", 1, "pico, builtin|SPECTRA|10.000|3.000|30.0|1.000|1");
    release(&r);
    make(&r, runs + 1, 2, &usual);
    check_row(&r, "training", 5, "precision|float32");
    assert_int_equal(r.set.n_notes, 0);
    release(&r);
}
