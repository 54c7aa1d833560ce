/* json_file.h - JSON values and files: read with messages for what is wrong, written for people to
 * read, whole or not at all.
 *
 * An object or array to which something could not be added, for lack of memory, becomes NULL, and
 * so does what it is added to: a value is either complete or NULL, and writing NULL is ENOMEM. */
#ifndef MS_CORE_JSON_FILE_H
#define MS_CORE_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/json_parse.h"
#include "core/status.h"

/* Reads the file's one object, in which no name may occur twice; on failure *out is NULL. */
musec_status ms_json_read(ms_error *e, const char *path, json_t **out);
/* Reads a file, or a pipe, of at most 1 GiB; `rules` are those of ms_json_parse. */
musec_status ms_json_load(ms_error *e, const char *path, unsigned rules, json_t **out);
/* Reads a file that need not be there.  *out is NULL if it is not, and if it is no JSON; it is an
 * error if it is there and cannot be read. */
musec_status ms_json_find(ms_error *e, const char *path, unsigned rules, json_t **out);
/* Writes it indented, with a newline at the end.  A NULL value is ENOMEM. */
musec_status ms_json_write(ms_error *e, const char *path, const json_t *value);
/* Prints the same text to a stream. */
musec_status ms_json_print(ms_error *e, const json_t *value, FILE *to);
/* Prints the value and releases it. */
musec_status ms_json_finish(ms_error *e, json_t *value, FILE *to);
/* Returns the text that is written, without the newline; the caller frees it.  It has `indent`
 * blanks a level, lists of numbers on one line, and reals with the fewest digits that read back.
 * Below 0, all of it is one line. */
char *ms_json_dump(const json_t *value, int indent);
/* Returns a text without blanks. */
char *ms_json_tight(const json_t *value);
/* Returns the text that equal values have in common: no blanks, names sorted by their bytes. */
char *ms_json_key(const json_t *value);
/* Reads members of an object: ms_json_get(o, "name:s step:i done:b list:o unit:s?", &name, ...),
 * with a const char *, json_int_t, int and json_t *, which the object keeps.  Returns false if one
 * is missing, unless it has a '?', or of another kind.  It needs no memory. */
bool ms_json_get(const json_t *object, const char *members, ...);
/* Writes a number, a text, true or false (yes, no), or an object of numbers ("qk=1.2,mlp=0.3") as
 * an option spells it.  Returns false if it is none of these, or too long. */
bool ms_json_option(const json_t *value, char *text, size_t bytes);

/* Make a JSON value: null for a number that is not finite, and text with U+FFFD in place of bytes
 * that are not UTF-8.  A text of `bytes` may contain zeros, and one must follow it. */
json_t *ms_json_real(double value);
json_t *ms_json_string(const char *text);
json_t *ms_json_bytes(const char *text, size_t bytes);
/* Returns a member of an object, or NaN if it is no number. */
double ms_json_number(const json_t *object, const char *key);

/* Adds a member to an object, or an item to an array, and takes `value` over.  Without memory, or
 * if `value` is NULL, what *to was is released and *to becomes NULL. */
void ms_json_set(json_t **to, const char *key, json_t *value);
void ms_json_append(json_t **to, json_t *value);
/* The same for an object or array inside a larger value, whose owner must hear of a failure. */
musec_status ms_json_put(ms_error *e, json_t *object, const char *key, json_t *value);
musec_status ms_json_push(ms_error *e, json_t *array, json_t *value);
/* Adds members to an object: ms_json_add(&o, "step=%lld loss=%g name=%s stalled?=%d", ...).  A
 * number that is not finite becomes null, a name with '?' is a boolean, and %p takes a JSON value
 * over; without memory *to becomes NULL. */
void ms_json_add(json_t **to, const char *members, ...) MS_PRINTF(2, 3);
/* Adds all members of `from` to an object, in place of its own; without memory *to becomes NULL. */
void ms_json_update(json_t **to, const json_t *from);
/* Returns a copy that shares the members, or shares nothing; NULL without memory. */
json_t *ms_json_copy(const json_t *value);
json_t *ms_json_deep_copy(const json_t *value);

#endif
