/* status_test.c - names and texts of status codes, the version, and messages of one line. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"

TEST(every_code_has_name_and_text)
{
    static const struct {
        musec_status status;
        int          code;
        const char  *name, *text;
    } codes[] = {
#define X(name, code, text) { MUSEC_##name, code, #name, text },
        MUSEC_STATUS_MAP(X)
#undef X
    };

    for (size_t i = 0; i < COUNT(codes); i++) {
        const musec_status st = (musec_status)codes[i].code;
        CHECK(st == codes[i].status, "code %d", codes[i].code);
        assert_string_equal(musec_status_name(st), codes[i].name);
        assert_string_equal(musec_status_text(st), codes[i].text);
    }
    CHECK(musec_status_name((musec_status)9999)[0] != '\0', "an unknown code has a name");
    CHECK(musec_status_text((musec_status)9999)[0] != '\0', "an unknown code has a text");
}

TEST(the_version_is_that_of_the_header)
{
    char want[32];
    snprintf(want, sizeof want, "%d.%d.%d", MUSEC_VERSION_MAJOR, MUSEC_VERSION_MINOR,
             MUSEC_VERSION_PATCH);
    assert_string_equal(musec_version(), want);
}

TEST(error_messages_have_one_printable_line)
{
    ms_error e = { "old" };
    char     big[4000];

    CHECK(ms_fail(&e, MUSEC_EIO, "%s: %d", "a\nb\x1b[1m", 7) == MUSEC_EIO, "returns the status");
    assert_string_equal(e.text, "a?b?[1m: 7");
    ms_fail(&e, MUSEC_EIO, "in %s", e.text);
    CHECK(strcmp(e.text, "in a?b?[1m: 7") == 0, "its own text as an argument: %s", e.text);
    ms_fail(&e, MUSEC_EIO, "%s", "\xc2\x9b" /* ESC [ in one character */ "1m");
    assert_string_equal(e.text, " ?1m");
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    ms_fail(&e, MUSEC_EIO, "%s", big);
    CHECK(strlen(e.text) == sizeof e.text - 1, "%zu", strlen(e.text));
    CHECK(strcmp(e.text + sizeof e.text - 5, "x...") == 0, "a cut message ends with dots");
    CHECK(ms_fail(NULL, MUSEC_EINVAL, "no ms_error") == MUSEC_EINVAL, "NULL is allowed");
}
