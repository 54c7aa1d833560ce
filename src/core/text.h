/* text.h - text made by printf, ends of names, and characters of UTF-8. */
#ifndef MS_CORE_TEXT_H
#define MS_CORE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"

/* The JSON type of a setting that is given as text. */
typedef enum ms_value_kind {
    MS_VALUE_TEXT,
    MS_VALUE_WHOLE,
    MS_VALUE_REAL,
    MS_VALUE_PAIRS, /* "qk=1.2,mlp=0.3" */
} ms_value_kind;

/* Returns what vprintf would print, which the caller frees; NULL without memory. */
char *ms_text_format(const char *fmt, va_list args);
/* Appends to the text in an array of `bytes` what printf would print, as far as it fits. */
void ms_text_append(char *text, size_t bytes, const char *fmt, ...) MS_PRINTF(3, 4);

/* Returns whether a control character of ASCII or Unicode begins here. */
bool ms_text_is_control(const char *text);
/* Puts '?' in the place of control characters, which a terminal would obey; returns the text. */
char *ms_text_printable(char *text);
/* Prints a text that a user or a file has chosen, printable, between two of ours. */
void ms_text_print(const char *before, const char *text, const char *after, FILE *to);

bool ms_text_ends_with(const char *text, const char *end);
/* Returns the first occurrence of the n bytes of `part`, at least one, in the text, or NULL. */
const char *ms_text_find(const char *text, size_t bytes, const char *part, size_t n);

/* Counts the bytes of the UTF-8 character that begins here; 0 at the end and where none begins. */
size_t ms_text_char(const char *text);
/* Returns whether the text is UTF-8. */
bool ms_text_is_utf8(const char *text);
/* Counts the characters; a byte that belongs to none counts as one. */
size_t ms_text_length(const char *text);

#endif
