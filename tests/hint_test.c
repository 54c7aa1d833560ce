/* hint_test.c - what is said behind a name that does not exist. */
#include "core/hint.h"

#include <string.h>

#include "check.h"

static const char *const names[] = { "muon", "muonclip", "soft-musec", "sgdm" };

static void the_nearest_name_or_all_of_them(void **state)
{
    static const struct {
        const char *name, *near, *hint;
    } cases[] = {
        { "moun", "; did you mean \"muon\"?", "; did you mean \"muon\"?" },
        { "softmusec", "; did you mean \"soft-musec\"?", "; did you mean \"soft-musec\"?" },
        { "shampoo", "", "; it must be one of muon, muonclip, soft-musec, sgdm" },
        { "", "", "; it must be one of muon, muonclip, soft-musec, sgdm" },
    };
    char text[MS_HINT_TEXT];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_hint_near(cases[i].name, names, COUNT(names), text);
        CHECK(strcmp(text, cases[i].near) == 0, "%s: %s", cases[i].name, text);
        ms_hint_name(cases[i].name, names, COUNT(names), text);
        CHECK(strcmp(text, cases[i].hint) == 0, "%s: %s", cases[i].name, text);
    }
}

static void choices_are_listed_and_the_nearest_named(void **state)
{
    char text[MS_HINT_TEXT];
    (void)state;
    ms_hint_choice("sotf", "hard|soft", text);
    CHECK(strcmp(text, "; it must be one of hard|soft; did you mean \"soft\"?") == 0, "%s", text);
    ms_hint_choice("3", "hard|soft", text);
    CHECK(strcmp(text, "; it must be one of hard|soft") == 0, "%s", text);
    ms_hint_choice("", "one", text);
    CHECK(strcmp(text, "; it must be one of one") == 0, "%s", text);
}

/* Names of any length and number leave the text whole. */
static void long_names_are_cut(void **state)
{
    const char *many[64];
    char        name[600], text[MS_HINT_TEXT + 8];
    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = name;
    memset(text, 7, sizeof text);
    ms_hint_name("muon", many, COUNT(many), text);
    CHECK(strlen(text) == MS_HINT_TEXT - 1 && text[MS_HINT_TEXT] == 7, "%zu", strlen(text));
    memset(text, 7, sizeof text);
    ms_hint_choice("muon", name, text);
    CHECK(strlen(text) < MS_HINT_TEXT && text[MS_HINT_TEXT] == 7, "%zu", strlen(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_or_all_of_them),
        cmocka_unit_test(choices_are_listed_and_the_nearest_named),
        cmocka_unit_test(long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
