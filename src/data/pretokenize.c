/* pretokenize.c - a scanner written by hand for the one rule of pretokenize.h.
 *
 * Most words of most texts are ASCII letters behind a blank.  Those are found eight bytes at a
 * time; everything else goes character by character through word_end(), which has the whole rule.
 *
 * By the rule, a run of blanks at the end of the text is one word.  Of any other run, all but the
 * last character is a word; the last one begins the next word if it is a space, and is a word by
 * itself if not. */
#include "data/pretokenize.h"

#include <stdbool.h>
#include <string.h>

#ifdef MS_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

/* ---- classes --------------------------------------------------------------------------------- */

/* The characters of White_Space above ASCII. */
static bool is_wide_blank(uint32_t c)
{
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

#ifdef MS_HAVE_UTF8PROC

static ms_char_class class_of(uint32_t c)
{
    if (c == ' ' || (c >= 9 && c <= 13) || is_wide_blank(c)) return MS_CHAR_BLANK;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return MS_CHAR_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return MS_CHAR_NUMBER;
    default: return MS_CHAR_OTHER;
    }
}

musec_status ms_char_classes_make(ms_error *e, ms_char_classes *out)
{
    (void)e;
    for (uint32_t c = 0; c < COUNT(out->of); c++)
        out->of[c] = (uint8_t)class_of(c);
    return MUSEC_OK;
}

const char *ms_utf8proc_version(void) { return utf8proc_version(); }

#else

static ms_char_class class_of(uint32_t c)
{
    return is_wide_blank(c) ? MS_CHAR_BLANK : MS_CHAR_OTHER; /* never reached: there is no table */
}

musec_status ms_char_classes_make(ms_error *e, ms_char_classes *out)
{
    (void)out;
    return ms_fail(
        e, MUSEC_ENOTSUP,
        "GPT-2's tokenizer needs utf8proc, and this program was built without it; install "
        "libutf8proc-dev (Fedora: utf8proc-devel, Arch: libutf8proc) and build "
        "again");
}

const char *ms_utf8proc_version(void) { return NULL; }

#endif

/* ---- characters ------------------------------------------------------------------------------ */

typedef struct scan {
    const uint8_t       *of; /* classes of the first 0x10000 characters */
    const unsigned char *text;
    size_t               bytes;
} scan;

static bool is_continuation(unsigned char c) { return (c & 0xC0) == 0x80; }

/* Decodes the character of two bytes or more that begins at p, where `left` bytes remain, and sets
 * *n to its length.  Returns UINT32_MAX if it is not valid: too long a form, or a surrogate. */
static uint32_t wide_char(const unsigned char *p, size_t left, size_t *n)
{
    uint32_t c;

    if (p[0] >= 0xC2 && p[0] <= 0xDF && left >= 2 && is_continuation(p[1])) {
        *n = 2;
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    }
    if (p[0] >= 0xE0 && p[0] <= 0xEF && left >= 3 && is_continuation(p[1]) &&
        is_continuation(p[2])) {
        *n = 3;
        c  = (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
        return c >= 0x800 && (c < 0xD800 || c > 0xDFFF) ? c : UINT32_MAX;
    }
    if (p[0] >= 0xF0 && p[0] <= 0xF4 && left >= 4 && is_continuation(p[1]) &&
        is_continuation(p[2]) && is_continuation(p[3])) {
        *n = 4;
        c  = (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
        return c >= 0x10000 && c <= 0x10FFFF ? c : UINT32_MAX;
    }
    return UINT32_MAX;
}

/* Returns the class of the character at `at` and sets *n to its length. */
static inline ms_char_class class_at(const scan *s, size_t at, size_t *n)
{
    const unsigned char *p = s->text + at;
    uint32_t             c;

    *n = 1;
    if (p[0] < 0x80) return s->of[p[0]];
    c = wide_char(p, s->bytes - at, n);
    if (c < 0x10000) return s->of[c];
    if (c != UINT32_MAX) return class_of(c);
    *n = 1;
    return MS_CHAR_BAD;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Returns the end of the characters of one class that begin at `at`. */
static size_t run_end(const scan *s, size_t at, ms_char_class class)
{
    size_t n;
    while (at < s->bytes && class_at(s, at, &n) == class)
        at += n;
    return at;
}

static size_t blanks_end(const scan *s, const size_t from)
{
    size_t at = from, last = from, n = 0;
    ms_char_class class = MS_CHAR_BAD; /* at the end of the text as at a bad byte */

    while (at < s->bytes && (class = class_at(s, at, &n)) == MS_CHAR_BLANK) {
        last = at;
        at += n;
    }
    if (at == s->bytes || class == MS_CHAR_BAD || last == from) return at;
    return last;
}

/* Returns the length of 's, 't, 're, 've, 'm, 'll or 'd at p, or 0. */
static size_t contraction(const unsigned char *p, size_t left)
{
    if (left >= 2 && (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd')) return 2;
    if (left >= 3 && ((p[1] == 'r' && p[2] == 'e') || (p[1] == 'v' && p[2] == 'e') ||
                      (p[1] == 'l' && p[2] == 'l')))
        return 3;
    return 0;
}

static size_t word_end(const scan *s, size_t at)
{
    const unsigned char first = s->text[at];
    size_t              n;
    ms_char_class class;

    if (first == '\'') {
        n = contraction(s->text + at, s->bytes - at);
        if (n > 0) return at + n;
    }
    if (first == ' ' && at + 1 < s->bytes) {
        class = class_at(s, at + 1, &n);
        if (class != MS_CHAR_BLANK && class != MS_CHAR_BAD) return run_end(s, at + 1 + n, class);
    }
    class = class_at(s, at, &n);
    if (class == MS_CHAR_BAD) return at + 1;
    if (class == MS_CHAR_BLANK) return blanks_end(s, at);
    return run_end(s, at + n, class);
}

/* Returns the highest bit of each of eight bytes that is no ASCII letter. */
static uint64_t not_letters(uint64_t w)
{
    const uint64_t ones = 0x0101010101010101, high = 0x80 * ones;
    const uint64_t low = (w | 0x20 * ones) & ~high; /* A-Z become a-z, and nothing else does */
    /* a sum of two numbers below 0x80 does not carry into the next byte */
    const uint64_t from_a = low + (0x80 - 'a') * ones, above_z = low + (0x7F - 'z') * ones;
    return (~from_a | above_z | w) & high;
}

/* Returns the index of the lowest nonzero byte of w, which is not 0 and has only highest bits. */
static size_t first_byte(uint64_t w)
{
    const uint64_t ones = 0x0101010101010101;
    return (size_t)(((((w & -w) >> 7) - 1) & ones) * ones >> 56); /* a one in each byte below it */
}

/* Returns the end of the word of ASCII letters, with or without a space before them, that begins at
 * `at`; 0 if there is none or if word_end() has to decide. */
static inline size_t plain_word_end(const scan *s, size_t at)
{
    size_t   end = at + (s->text[at] == ' ');
    uint64_t w, other = 0;

    while (s->bytes - end >= sizeof w) {
        memcpy(&w, s->text + end, sizeof w);
        other = not_letters(w);
        if (other != 0) break;
        end += sizeof w;
    }
    if (other == 0) return 0;
    end += first_byte(other);
    /* without letters another rule applies; a byte above ASCII may be part of a letter */
    return end - at > (size_t)(s->text[at] == ' ') && s->text[end] < 0x80 ? end : 0;
}

size_t ms_pretokenize(const ms_char_classes *classes, const char *text, size_t bytes, size_t from,
                      size_t *ends, size_t max)
{
    const scan s = { classes->of, (const unsigned char *)text, bytes };
    size_t     n = 0;

    for (size_t at = from; n < max && at < bytes; at = ends[n++]) {
        const size_t end = plain_word_end(&s, at);
        ends[n]          = end != 0 ? end : word_end(&s, at);
    }
    return n;
}
