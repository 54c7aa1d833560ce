/* json_parse_test.c - reading JSON: what is read, what is refused and where, and that jansson's own
 * reader, which is right as long as there is memory, agrees on thousands of damaged documents. */
#include "core/json_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rand_stream.h"

typedef struct agreement {
    size_t   flags; /* of jansson */
    unsigned rules;
} agreement;

static const agreement agreements[] = {
    { 0, MS_JSON_ANY_NAMES },
    { JSON_REJECT_DUPLICATES, MS_JSON_ONCE },
    { JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, MS_JSON_ZEROS | MS_JSON_REALS },
    { JSON_DECODE_ANY, MS_JSON_ANY_VALUES },
};

/* Reads the text both ways and returns whether it is JSON. */
static bool agree(const char *text, size_t bytes, const agreement *a)
{
    char           *exact = malloc(bytes > 0 ? bytes : 1); /* so that reading beyond it is seen */
    json_error_t    theirs_why;
    ms_json_problem why;
    json_t         *ours = NULL, *theirs;
    musec_status    st;

    CHECK(exact != NULL, "no memory");
    if (bytes > 0) memcpy(exact, text, bytes);
    theirs = json_loadb(exact, bytes, a->flags, &theirs_why);
    st     = ms_json_parse(exact, bytes, a->rules, &why, &ours);
    CHECK((st == MUSEC_OK) == (theirs != NULL) && (ours != NULL) == (theirs != NULL),
          "%.*s: %s, by jansson: %s", (int)bytes, exact, st == MUSEC_OK ? "read" : why.text,
          theirs != NULL ? "read" : theirs_why.text);
    CHECK(st == MUSEC_OK || (st == MUSEC_EFORMAT && why.text[0] != '\0' && why.byte <= bytes),
          "%.*s: no reason", (int)bytes, exact);
    CHECK(ours == NULL || json_equal(ours, theirs), "%.*s: other values", (int)bytes, exact);
    json_decref(ours);
    json_decref(theirs);
    free(exact);
    return st == MUSEC_OK;
}

TEST(documents_are_read_as_jansson_reads_them)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " \t\r\n[ ] \n",
        "[1, -0, 0.5, -1.25e-3, 1E5, 123456789012345678, -9223372036854775808, 5e-324, 1e-400]",
        "[true, false, null]",
        "{\"a\": {\"b\": [1, {\"c\": \"d\"}]}, \"\": 0}",
        "[\"\", \"plain\", \"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\"]",
        "[\"\\u0041\\u00e9\\u20ac\\uD834\\uDD1E\"]",
        "[\"h\xc3\xa9llo \xe2\x82\xac \xf0\x9d\x84\x9e\", \"\x7f\"]",
        "{\"a\\u0041\": \"x\\u0041y\", \"k\": \"\\u0041\"}",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        for (size_t k = 0; k < COUNT(agreements); k++)
            CHECK(agree(texts[i], strlen(texts[i]), &agreements[k]), "%s", texts[i]);
}

TEST(what_is_no_json_is_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "[] []",
        "[]x",
        "[01]",
        "[+1]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[1e+]",
        "[-]",
        "[0x1]",
        "[nan]",
        "[Infinity]",
        "[tru]",
        "[TRUE]",
        "[truex]",
        "[\"a]",
        "[\"\\x\"]",
        "[\"\\u12\"]",
        "[\"\\u123g\"]",
        "[\"\\ud834\"]",
        "[\"\\ud834\\u0041\"]",
        "[\"\\udd1e\"]",
        "[\"a\nb\"]",
        "[\"\xff\"]",
        "[\"\xc0\x80\"]",
        "[\"\xed\xa0\x80\"]",
        "[\"\xf4\x90\x80\x80\"]",
        "[\"\xe2\x82",
        "[1e400]",
        "[-1e400]",
        "['a']",
        "[\"a\" \"b\"]",
        "[\"\\",
        "[\"\\u",
        "[/* */]",
        "\xef\xbb\xbf[]",
        "{\"a\\u0000b\": 1}",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        for (size_t k = 0; k < COUNT(agreements); k++)
            CHECK(!agree(texts[i], strlen(texts[i]), &agreements[k]), "%s", texts[i]);
}

TEST(rules_change_what_is_read)
{
    static const struct {
        const char *text;
        bool        read[COUNT(agreements)];
    } cases[] = {
        { "{\"a\": 1, \"b\": 2, \"a\": 3}", { true, false, true, true } },
        { "[\"a\\u0000b\"]", { false, false, true, false } },
        { "[9223372036854775808]", { false, false, true, false } },
        { "[-9223372036854775809]", { false, false, true, false } },
        { "3", { false, false, false, true } },
        { "\"text\"", { false, false, false, true } },
        { "null", { false, false, false, true } },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t k = 0; k < COUNT(agreements); k++)
            CHECK(agree(cases[i].text, strlen(cases[i].text), &agreements[k]) == cases[i].read[k],
                  "%s, rules %u", cases[i].text, agreements[k].rules);
}

/* Replaces, removes or repeats some bytes of a document. */
static size_t damage(ms_rand_stream *draw, const char *from, char *to, size_t capacity)
{
    static const char marks[] = "{}[]\",:\\u0019e.-+tfn \n\xc3\xff";
    size_t            n       = strlen(from);

    memcpy(to, from, n + 1);
    for (uint32_t times = 1 + ms_rand_below(draw, 3); times > 0; times--) {
        const size_t at = ms_rand_below(draw, (uint32_t)n), some = 1 + ms_rand_below(draw, 4);
        const char   c = marks[ms_rand_below(draw, sizeof marks - 1)];
        switch (ms_rand_below(draw, 3)) {
        case 0: to[at] = c; break;
        case 1:
            if (n <= some + at) break;
            memmove(to + at, to + at + some, n - at - some);
            n -= some;
            break;
        default:
            if (n + 1 >= capacity) break;
            memmove(to + at + 1, to + at, n - at);
            to[at] = c;
            n++;
        }
    }
    return n;
}

TEST(damaged_documents_are_judged_as_jansson_judges_them)
{
    static const char seed[] =
        "{\"step\": 12, \"loss\": 3.25e-1, \"text\": \"a\\u00e9\\ud834\\udd1eb\\n\xc3\xa9\", "
        "\"groups\": "
        "{\"qk\": [1, -2.5, null, true], \"vo\": {}}, \"list\": [[], [\"x\", \"\"], false]}";
    ms_rand_stream draw = ms_rand_stream_make(check_seed());
    char           text[sizeof seed + 8];
    size_t         read = 0, refused = 0;

    for (int i = 0; i < 100000; i++) {
        const size_t n    = damage(&draw, seed, text, sizeof text);
        const bool   good = agree(text, n, &agreements[(size_t)i % COUNT(agreements)]);
        read += good;
        refused += !good;
    }
    CHECK(read > 1000 && refused > 1000, "%zu read, %zu refused", read, refused);
}

TEST(nesting_has_a_limit)
{
    static char     text[4096];
    ms_json_problem why;
    json_t         *value = NULL;

    memset(text, '[', 1024);
    memset(text + 1024, ']', 1024);
    CHECK(ms_json_parse(text, 2048, 0, &why, &value) == MUSEC_OK, "%s", why.text);
    json_decref(value);
    memset(text, '[', 1025);
    memset(text + 1025, ']', 1025);
    CHECK(ms_json_parse(text, 2050, 0, &why, &value) == MUSEC_EFORMAT, "1025 levels");
    CHECK(value == NULL && why.byte == 1024 && strstr(why.text, "deep") != NULL, "%s", why.text);
}

TEST(a_failure_says_where_it_is)
{
    static const struct {
        const char *text, *why;
        int         line;
        size_t      byte;
        bool        too_large;
    } cases[] = {
        { "{\n\"a\": 1,\n\"b\": }", "a value expected near '}'", 3, 15, false },
        { "{\"a\": 1, \"a\": 2}", "duplicate object key \"a\"", 1, 9, false },
        { "[1,\n2", "it ends where ',' or ']' should follow", 2, 5, false },
        { "[1, 1e999]", "too large a number", 1, 4, true },
        { "[1, 9223372036854775808]", "too large a number", 1, 4, true },
        { "[\"a\nb\"]", "control character 0xa in a text", 1, 3, false },
        { "[\"\xff\"]", "byte 0xff is no UTF-8 here", 1, 2, false },
        { "[] x", "its end expected near 'x'", 1, 3, false },
        { "It was", "'{' or '[' expected near 'It'", 1, 0, false },
        { "", "there is nothing in it", 1, 0, false },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_json_problem why;
        json_t         *value;
        CHECK(ms_json_parse(cases[i].text, strlen(cases[i].text), MS_JSON_ONCE, &why, &value) ==
                  MUSEC_EFORMAT,
              "%s", cases[i].text);
        CHECK(strcmp(why.text, cases[i].why) == 0, "%s: %s", cases[i].text, why.text);
        CHECK(why.line == cases[i].line && why.byte == cases[i].byte, "%s: line %d, byte %zu",
              cases[i].text, why.line, why.byte);
        CHECK(why.too_large == cases[i].too_large, "%s", cases[i].text);
        CHECK(ms_json_parse(cases[i].text, strlen(cases[i].text), MS_JSON_ONCE, NULL, &value) ==
                  MUSEC_EFORMAT,
              "without a place for the reason");
    }
}
