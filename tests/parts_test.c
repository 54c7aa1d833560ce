/* parts_test.c - what the sections share: the names of figures, points of settings. */
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

static void names_of_figures_differ(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_figures_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
