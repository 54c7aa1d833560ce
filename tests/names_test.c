/* names_test.c - suggestions for misspelt names. */
#include "core/names.h"

#include <string.h>

#include "check.h"

static const char *const names[] = { "lr",     "steps", "threshold", "weight-decay", "batch",
                                     "layers", "cuda",  "cpu",       "yes",          "no" };

TEST(the_nearest_name_is_found)
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
        { "float32", NULL }, /* f32 is not in the list */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *found = ms_name_nearest(cases[i].name, names, COUNT(names));
        CHECK((found == NULL) == (cases[i].want == NULL), "%s: %s", cases[i].name,
              found == NULL ? "nothing" : found);
        if (found != NULL) assert_string_equal(found, cases[i].want);
    }
}

TEST(only_what_means_the_same_is_a_synonym)
{
    assert_string_equal(ms_name_synonym("learning-rate"), "lr");
    assert_string_equal(ms_name_synonym("wd"), "weight-decay");
    CHECK(ms_name_synonym("batch-size") == NULL, "sequences are not tokens");
    CHECK(ms_name_synonym("momentum") == NULL, "beta weighs the new gradient");
    CHECK(ms_name_synonym("lr") == NULL, "its own name");
}

TEST(hints_are_text_that_ends_a_message)
{
    assert_string_equal(ms_name_hint_choices("sof", "hard|soft|ssc").text,
                        "; did you mean \"soft\"?");
    assert_string_equal(ms_name_hint_choices("bfloat16", "f32|bf16").text,
                        "; did you mean \"bf16\"?");
    assert_string_equal(ms_name_hint_choices("medium", "hard|soft").text, "");
    assert_string_equal(ms_name_hint_choices("", "").text, "");
    assert_string_equal(ms_name_hint_of("stpes", names, COUNT(names)).text,
                        "; did you mean \"steps\"?");
}

TEST(a_hint_lists_all_names_where_none_is_near)
{
    static const char *const known[] = { "muon", "muonclip", "soft-musec", "sgdm" };
    static const struct {
        const char *name, *hint;
    } cases[] = {
        { "moun", "; did you mean \"muon\"?" },
        { "softmusec", "; did you mean \"soft-musec\"?" },
        { "shampoo", "; it must be one of muon, muonclip, soft-musec, sgdm" },
        { "", "; it must be one of muon, muonclip, soft-musec, sgdm" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(ms_name_hint_or_all(cases[i].name, known, COUNT(known)).text,
                            cases[i].hint);
}

TEST(hints_of_long_names_are_cut)
{
    const char *many[64];
    char        name[2000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = name;
    CHECK(strlen(ms_name_hint_or_all("muon", many, COUNT(many)).text) == MS_NAME_HINT - 1, "list");
    CHECK(strlen(ms_name_hint_choices(name, name).text) < MS_NAME_HINT, "choices");
}
