/* json_parse.h - text to JSON values.
 *
 * jansson keeps the values and this file reads them: jansson's own reader does not check whether
 * its buffer grew, and without memory it loses bytes of a text or writes past the end of one. */
#ifndef MS_CORE_JSON_PARSE_H
#define MS_CORE_JSON_PARSE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

typedef enum ms_json_rules {
    MS_JSON_ANY_NAMES  = 0,  /* of a name that occurs twice in an object, the last value counts */
    MS_JSON_ONCE       = 1,  /* a name must not occur twice in an object */
    MS_JSON_ZEROS      = 2,  /* texts may contain \u0000 */
    MS_JSON_REALS      = 4,  /* whole numbers become reals, which have a wider range */
    MS_JSON_SEALED     = 16, /* of files: what ends in a sha256 of its own must have it */
    MS_JSON_ANY_VALUES = 8,  /* the root may be a value of any kind, not only an object or array */
} ms_json_rules;

typedef struct ms_json_problem {
    int    line;      /* from 1 */
    size_t byte;      /* offset */
    bool   too_large; /* a number is beyond the range of its type */
    char   text[96];
} ms_json_problem;

/* Reads the one value that is the whole text, in UTF-8, nested up to 1024 levels.  MUSEC_EFORMAT if
 * it is none, MUSEC_ENOMEM without memory; then *out is NULL and `problem`, which may be NULL, says
 * what is wrong. */
musec_status ms_json_parse(const char *text, size_t bytes, unsigned rules, ms_json_problem *problem,
                           json_t **out);

#endif
