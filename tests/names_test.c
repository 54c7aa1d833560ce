/* names_test.c - what a wrong name was meant to be, on lists of names of our own. */
#include "core/names.h"

#include <string.h>

#include "check.h"

static const char *const names[] = { "lr",     "steps", "threshold", "weight-decay", "batch",
                                     "layers", "cuda",  "cpu",       "yes",          "no" };

static void the_nearest_name_is_found(void **state)
{
    static const struct {
        const char *name, *want; /* NULL: none is near */
    } cases[] = {
        { "treshold", "threshold" },
        { "thr", "threshold" },
        { "Threshold", "threshold" },
        { "weight_decay", "weight-decay" },
        { "LR", "lr" },
        { "setps", "steps" },
        { "learning-rate", "lr" },
        { "learning_rate", "lr" },
        { "batch-size", "batch" },
        { "n_layer", "layers" },
        { "gpu", "cuda" },
        { "true", "yes" },
        { "False", "no" },
        { "epochs", "steps" },
        { "banana", NULL },
        { "", NULL },
        { "float32", NULL }, /* f32 is none of these */
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *found = ms_name_nearest(cases[i].name, names, COUNT(names));
        CHECK((found == NULL) == (cases[i].want == NULL), "%s: %s", cases[i].name,
              found == NULL ? "nothing" : found);
        if (found != NULL) assert_string_equal(found, cases[i].want);
    }
}

static void only_what_means_the_same_is_a_synonym(void **state)
{
    (void)state;
    assert_string_equal(ms_name_synonym("learning-rate"), "lr");
    assert_string_equal(ms_name_synonym("wd"), "weight-decay");
    CHECK(ms_name_synonym("batch-size") == NULL, "sequences are not tokens");
    CHECK(ms_name_synonym("momentum") == NULL, "beta weighs the new gradient");
    CHECK(ms_name_synonym("lr") == NULL, "its own name");
}

static void hints_end_a_message(void **state)
{
    (void)state;
    assert_string_equal(ms_name_hint_choices("sof", "hard|soft|ssc").text,
                        "; did you mean \"soft\"?");
    assert_string_equal(ms_name_hint_choices("bfloat16", "f32|bf16").text,
                        "; did you mean \"bf16\"?");
    assert_string_equal(ms_name_hint_choices("medium", "hard|soft").text, "");
    assert_string_equal(ms_name_hint_choices("", "").text, "");
    assert_string_equal(ms_name_hint_of("stpes", names, COUNT(names)).text,
                        "; did you mean \"steps\"?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_is_found),
        cmocka_unit_test(only_what_means_the_same_is_a_synonym),
        cmocka_unit_test(hints_end_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
