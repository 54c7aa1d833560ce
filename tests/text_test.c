/* text_test.c - valid and invalid UTF-8 characters, and those that a terminal would obey. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "core/text.h"

TEST(only_valid_utf8_characters_have_a_length)
{
    static const struct {
        const char *text;
        size_t      bytes;
    } cases[] = {
        { "", 0 },
        { "a", 1 },
        { "\xc3\xa9", 2 },         /* e with an accent */
        { "\xe2\x82\xac", 3 },     /* the euro */
        { "\xf0\x9d\x84\x9e", 4 }, /* a clef */
        { "\xc0\xaf", 0 },         /* a slash in two bytes */
        { "\xe0\x80\xaf", 0 },     /* in three */
        { "\xed\xa0\x80", 0 },     /* a surrogate */
        { "\xf4\x90\x80\x80", 0 }, /* beyond U+10FFFF */
        { "\xe2\x82", 0 },         /* cut off */
        { "\x80", 0 },             /* a continuation byte */
        { "\xff", 0 },
    };

    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK(ms_text_char(cases[i].text) == cases[i].bytes, "case %zu", i);
    CHECK(ms_text_length("a\xc3\xa9\xff\xe2\x82\xac") == 4, "four");
}

/* ESC, DEL, and U+009B, which is ESC [ in one character; U+00A0 and a byte of no character stay. */
TEST(control_characters_are_not_printed)
{
    static const char raw[] = "a\033[31m\x7f\xc2\x9b\xc2\xa0\xe2\x9b\n\xc3\xa9";
    char              text[sizeof raw], shown[2 * sizeof raw];
    FILE             *to = fmemopen(shown, sizeof shown, "w");

    memcpy(text, raw, sizeof raw);
    CHECK(strcmp(ms_text_printable(text), "a?[31m? ?\xc2\xa0\xe2\x9b?\xc3\xa9") == 0, "%s", text);
    CHECK(to != NULL, "no stream");
    ms_text_print("<", raw, ">", to);
    CHECK(fclose(to) == 0, "not written");
    CHECK(strcmp(shown, "<a?[31m??\xc2\xa0\xe2\x9b?\xc3\xa9>") == 0, "%s", shown);
}
