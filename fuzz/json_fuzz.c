/* json_fuzz.c - any bytes as JSON.
 *
 *     byte 0   the rules of ms_json_parse
 *
 * What is read, printed and read again is the same value; jansson, which is right as long as there
 * is memory, reads what we read. */
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "fuzz.h"

enum { DUMP_DEPTH = 60 };

static int depth_of(const json_t *value)
{
    int         deepest = 0;
    const char *key;
    json_t     *item;

    json_object_foreach((json_t *)value, key, item)
    {
        const int depth = depth_of(item);
        if (depth > deepest) deepest = depth;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const int depth = depth_of(json_array_get(value, i));
        if (depth > deepest) deepest = depth;
    }
    return deepest + 1;
}

static void check_dump(const json_t *value, unsigned rules)
{
    char   *text  = ms_json_dump(value, 2);
    json_t *again = NULL;

    REQUIRE(text != NULL);
    REQUIRE(ms_json_parse(text, strlen(text), rules & ~(unsigned)MS_JSON_REALS, NULL, &again) ==
            MUSEC_OK);
    REQUIRE(json_equal((json_t *)value, again));
    json_decref(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned rules = fuzz_take(&data, &size) & 15;
    const size_t   flags = ((rules & MS_JSON_ONCE) != 0 ? JSON_REJECT_DUPLICATES : 0) |
                         ((rules & MS_JSON_ZEROS) != 0 ? JSON_ALLOW_NUL : 0) |
                         ((rules & MS_JSON_REALS) != 0 ? JSON_DECODE_INT_AS_REAL : 0) |
                         ((rules & MS_JSON_ANY_VALUES) != 0 ? JSON_DECODE_ANY : 0);
    const char     *text = size > 0 ? (const char *)data : "";
    ms_json_problem why;
    json_t         *ours = NULL, *theirs = json_loadb(text, size, flags, NULL);
    musec_status    st = ms_json_parse(text, size, rules, &why, &ours);

    REQUIRE(st == MUSEC_OK || (st == MUSEC_EFORMAT && ours == NULL && why.text[0] != '\0'));
    REQUIRE(why.byte <= size);
    if (st == MUSEC_OK) {
        REQUIRE(theirs != NULL && json_equal(ours, theirs));
        if (depth_of(ours) < DUMP_DEPTH) check_dump(ours, rules);
    } else if (strstr(why.text, "deep") == NULL && memchr(text, '\0', size) == NULL) {
        /* at a zero outside a text jansson believes to be at the end */
        REQUIRE(theirs == NULL);
    }
    json_decref(ours);
    json_decref(theirs);
    return 0;
}
