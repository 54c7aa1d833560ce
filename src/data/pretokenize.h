/* pretokenize.h - the pre-tokenizer of GPT-2, which splits a text into words by the rule
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * of which the first alternative that fits counts.  Letters and numbers are Unicode's categories L*
 * and N*, blanks have its property White_Space.
 *
 * A byte that is no part of valid UTF-8 is a word by itself, and the texts before and behind it are
 * cut as if they stood alone. */
#ifndef MS_DATA_PRETOKENIZE_H
#define MS_DATA_PRETOKENIZE_H

#include "core/status.h"

typedef enum ms_char_class {
    MS_CHAR_OTHER,
    MS_CHAR_LETTER,
    MS_CHAR_NUMBER,
    MS_CHAR_BLANK,
    MS_CHAR_BAD, /* a byte that is no part of a character */
} ms_char_class;

typedef struct ms_char_classes {
    uint8_t of[0x10000]; /* an ms_char_class; characters beyond are looked up when they come */
} ms_char_classes;

/* Fills the table of character classes; fails, with what to install, in a build without
 * utf8proc. */
musec_status ms_char_classes_make(ms_error *e, ms_char_classes *out);

/* Splits the text from `from`, where a word begins, until `max` words are found or the text ends.
 * ends[i] is the offset after the last byte of word i.  Returns the number of words. */
size_t ms_pretokenize(const ms_char_classes *classes, const char *text, size_t bytes, size_t from,
                      size_t *ends, size_t max);

/* Returns the version of utf8proc, "2.8.0", or NULL in a build without it. */
const char *ms_utf8proc_version(void);

#endif
