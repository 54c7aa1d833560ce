/* json_file.h - JSON values and files: read with words for what is wrong, written for people to
 * read, whole or absent. */
#ifndef MS_CORE_JSON_FILE_H
#define MS_CORE_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"

/* The file's one object, in which no name stands twice; on failure *out is NULL. */
musec_status ms_json_read(ms_error *e, const char *path, json_t **out);
/* Indented, with a newline at the end.  NULL, and what cannot be written as text, is ENOMEM. */
musec_status ms_json_write(ms_error *e, const char *path, const json_t *value);
/* Prints the same text to a stream. */
musec_status ms_json_print(ms_error *e, const json_t *value, FILE *to);
/* What is written, without the newline, to be freed: `indent` blanks a level, lists of numbers on
 * one line, reals with as few digits as give the same double when read again. */
char *ms_json_dump(const json_t *value, int indent);
/* A number, a text, true or false (yes, no), or an object of numbers ("qk=1.2,mlp=0.3"), as the
 * text that an option has for it.  False: it is none of these, or longer than the text may be. */
bool ms_json_option(const json_t *value, char *text, size_t bytes);

/* JSON values that always exist: null for a number that is not finite, and text with U+FFFD for the
 * bytes that are not UTF-8.  A text of `bytes` may hold zeros, and has one behind it. */
json_t *ms_json_real(double value);
json_t *ms_json_string(const char *text);
json_t *ms_json_bytes(const char *text, size_t bytes);
/* Adds members to an object: ms_json_add(o, "step=%lld loss=%g name=%s stalled?=%d", ...).  A number
 * that is not finite becomes null, a name with '?' is a boolean, and %p takes a JSON value over. */
void ms_json_add(json_t *object, const char *members, ...) MS_PRINTF(2, 3);

#endif
