/* json_file_test.c - JSON as text: values are read back as written, numbers have the fewest digits
 * for that, and values become the texts of options. */
#include "core/json_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t      *value = json_loads(text, JSON_DECODE_ANY, &why);
    CHECK(value != NULL, "%s: %s", text, why.text);
    return value;
}

TEST(values_are_written_in_their_shortest_form)
{
    static const char *const same[] = {
        "0.1",
        "1e-08",
        "1.0",
        "-3",
        "9223372036854775807",
        "\"a \\\"quoted\\\" \\u0007 \xc3\xa9\"",
        "true",
        "null",
        "{}",
        "[]",
        "[1, 2.5, null]",
        "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [\n      \"x\",\n      2\n    ]\n  }\n}",
    };
    for (size_t i = 0; i < COUNT(same); i++) {
        json_t *value = parse(same[i]);
        char   *text  = ms_json_dump(value, 2);
        CHECK(text != NULL && strcmp(text, same[i]) == 0, "\"%s\" became \"%s\"", same[i], text);
        free(text);
        json_decref(value);
    }
    CHECK(ms_json_dump(NULL, 2) == NULL, "NULL has a text");
}

TEST(reals_come_back_bit_for_bit)
{
    static const double numbers[] = {
        0.1, 0.30000000000000004, 1e300, 5e-324, 3e-17, 1.0 / 3, 1e15, 1e22, -0.0, 123456789.0
    };
    for (size_t i = 0; i < COUNT(numbers); i++) {
        json_t *value = json_real(numbers[i]), *back;
        char   *text  = ms_json_dump(value, 0);
        back          = parse(text);
        CHECK(json_is_real(back), "%s is no real", text);
        CHECK(json_real_value(back) == numbers[i] &&
                  signbit(json_real_value(back)) == signbit(numbers[i]),
              "%s is not %.17g", text, numbers[i]);
        free(text);
        json_decref(value);
        json_decref(back);
    }
}

TEST(endless_nesting_is_refused)
{
    json_t *value = json_array();
    for (int i = 0; i < 1000; i++)
        value = json_pack("[o]", value);
    CHECK(ms_json_dump(value, 2) == NULL, "1000 levels");
    json_decref(value);
}

TEST(values_are_texts_of_options)
{
    static const struct {
        const char *json, *text; /* NULL: it has none */
    } cases[] = {
        { "\"rms:1\"", "rms:1" },
        { "4", "4" },
        { "0.1", "0.1" },
        { "1.0", "1" },
        { "1e-8", "1e-08" },
        { "true", "yes" },
        { "false", "no" },
        { "{\"matrix\": 0.0, \"qk\": 1.2, \"vo\": 3}", "matrix=0,qk=1.2,vo=3" },
        { "{}", NULL },
        { "{\"qk\": \"1\"}", NULL },
        { "{\"qk\": {\"a\": 1}}", NULL },
        { "[1]", NULL },
        { "null", NULL },
        { "\"a text of more than twenty-three bytes\"", NULL },
        { "{\"abcdefghijklmnop\": 1.23456789}", NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char       text[24];
        json_t    *value = parse(cases[i].json);
        const bool is    = ms_json_option(value, text, sizeof text);
        CHECK(is == (cases[i].text != NULL), "%s", cases[i].json);
        CHECK(!is || strcmp(text, cases[i].text) == 0, "%s: %s", cases[i].json, text);
        json_decref(value);
    }
}
