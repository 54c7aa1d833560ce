/* section_plots_test.c - what sections share: names of figures, and which runs are compared. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "section_rig.h"

/* ---- names of figures ------------------------------------------------------------------------ */

/* With two runs on each data set all blocks have different ids, and these are among them. */
static void check_names(const char *const data[], const char *const want[], size_t n)
{
    char        text[8][128];
    const char *runs[COUNT(text)];

    CHECK(2 * n <= COUNT(runs), "%zu sets", n);
    for (size_t i = 0; i < 2 * n; i++) {
        snprintf(text[i], sizeof text[i], "%s lr=0.1 loss=2 data=%s",
                 i % 2 == 0 ? "muon" : "spectra", data[i / 2]);
        runs[i] = text[i];
    }
    make(&usual, runs, 2 * n);
    for (size_t i = 0; i < n; i++)
        (void)block(want[i]);
    for (size_t i = 0; i < now.page.n; i++)
        for (size_t k = 0; k < now.page.sections[i].n; k++) {
            const char *id = now.page.sections[i].blocks[k].id;
            if (id != NULL) CHECK(block(id) == &now.page.sections[i].blocks[k], "%s twice", id);
        }
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

/* Two runs have the same seed: the one that is not compared has no threshold either. */
TEST(runs_of_muon_are_listed_without_a_threshold)
{
    MAKE("muon lr=0.1 loss=2", "muon lr=0.1 loss=2");
    for (size_t i = 0; i < 2; i++) {
        const ms_table *t = &block("runs")->table;
        CHECK(strcmp(t->cells[(i + 1) * strlen(t->align) + 4], "-") == 0, "run %zu: D %s", i,
              t->cells[(i + 1) * strlen(t->align) + 4]);
    }
}

/* ---- devices --------------------------------------------------------------------------------- */

/* One of three runs of Muon was on a GPU: its time is not averaged with those of the CPU. */
TEST(times_are_compared_on_one_device_and_both_are_named)
{
    static const char *const runs[] = {
        "muon lr=0.1 loss=2 device=cuda:1",
        "muon lr=0.2 loss=2 device=cpu",
        "muon lr=0.5 loss=2 device=cpu",
        "spectra lr=0.1 loss=2 device=cuda:1",
    };

    make(&usual, runs, COUNT(runs) - 1);
    check_row("step-times", 0, "pico, builtin|Muon|10.000|3.000|30.0|1.000|2");
    check_row("training", 5, "precision|bfloat16, float32 masters and float32");
    check_row("training", 6, "device|cuda:1 and cpu");
    assert_int_equal(now.set.n_notes, 1);
    assert_string_equal(now.set.notes[0],
                        "runs on pico, builtin differ in their precision (bf16 and f32), "
                        "and are compared all the same");
    make(&usual, runs, COUNT(runs)); /* two of each device: those of the first */
    check_row("step-times", 0, "pico, builtin|Muon|10.000|3.000|30.0|1.000|1");
    check_row("step-times", 1, "pico, builtin|SPECTRA|10.000|3.000|30.0|1.000|1");
    make(&usual, runs + 1, 2);
    check_row("training", 5, "precision|float32");
    assert_int_equal(now.set.n_notes, 0);
}
