/* pretokenize_test.c - the scanner against GPT-2's regular expression, matched alternative by
 * alternative on characters rather than bytes. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "data/pretokenize.h"

#ifdef MS_HAVE_UTF8PROC
#include <utf8proc.h>

static ms_char_classes classes;

static int set_up(void **state)
{
    ms_error e;
    (void)state;
    return ms_char_classes_make(&e, &classes) == MUSEC_OK ? 0 : -1;
}

/* ---- the regular expression ------------------------------------------------------------------ */

static char category(uint32_t c) { return utf8proc_category_string((utf8proc_int32_t)c)[0]; }

static bool is_letter(uint32_t c) { return category(c) == 'L'; }
static bool is_number(uint32_t c) { return category(c) == 'N'; }
static bool is_blank(uint32_t c)
{
    static const uint32_t blanks[] = {
        9,      10,     11,     12,     13,     32,     0x85,   0xA0,   0x1680,
        0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
        0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000,
    };
    for (size_t i = 0; i < COUNT(blanks); i++)
        if (c == blanks[i]) return true;
    return false;
}
static bool is_other(uint32_t c) { return !is_letter(c) && !is_number(c) && !is_blank(c); }

/* How many characters an alternative matches at c[0..n); 0 if it does not match. */
static size_t match_contraction(const uint32_t *c, size_t n)
{
    static const char *const all[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    for (size_t k = 0; k < COUNT(all); k++) {
        const size_t m = strlen(all[k]);
        size_t       i = 0;
        while (i < m && i < n && c[i] == (unsigned char)all[k][i])
            i++;
        if (i == m) return m;
    }
    return 0;
}

static size_t match_run(const uint32_t *c, size_t n, bool (*is)(uint32_t c))
{
    for (size_t skip = n > 0 && c[0] == ' ' ? 1 : 0;; skip--) { /* " ?" is greedy */
        size_t i = skip;
        while (i < n && is(c[i]))
            i++;
        if (i > skip) return i;
        if (skip == 0) return 0;
    }
}

static size_t match_blanks(const uint32_t *c, size_t n, bool look_ahead)
{
    size_t i = 0;
    while (i < n && is_blank(c[i]))
        i++;
    while (look_ahead && i > 0 && i < n && !is_blank(c[i])) /* backtracks until (?!\S) holds */
        i--;
    return i;
}

static size_t match(const uint32_t *c, size_t n)
{
    size_t m = match_contraction(c, n);
    if (m == 0) m = match_run(c, n, is_letter);
    if (m == 0) m = match_run(c, n, is_number);
    if (m == 0) m = match_run(c, n, is_other);
    if (m == 0) m = match_blanks(c, n, true);
    if (m == 0) m = match_blanks(c, n, false);
    return m;
}

/* ---- characters ------------------------------------------------------------------------------ */

static size_t put_utf8(uint32_t c, char *out)
{
    utf8proc_uint8_t bytes[4];
    const size_t     n = (size_t)utf8proc_encode_char((utf8proc_int32_t)c, bytes);
    memcpy(out, bytes, n);
    return n;
}

static void check_words(const uint32_t *c, size_t n, const char *what)
{
    enum { MOST = 4096 };
    static char   text[4 * MOST];
    static size_t at[MOST + 1], ends[MOST + 1]; /* byte offset of each character */
    size_t        words, from = 0;

    CHECK(n <= MOST, "%zu characters", n);
    at[0] = 0;
    for (size_t i = 0; i < n; i++)
        at[i + 1] = at[i] + put_utf8(c[i], text + at[i]);
    words = ms_pretokenize(&classes, text, at[n], 0, ends, MOST + 1);
    for (size_t w = 0; w < words; w++) {
        const size_t m = match(c + from, n - from);
        CHECK(m > 0 && ends[w] == at[from + m], "%s: word %zu ends at %zu, not %zu", what, w,
              ends[w], at[from + m]);
        from += m;
    }
    CHECK(from == n, "%s: %zu of %zu characters", what, from, n);
    for (size_t w = 0, start = 0; w < words; start = ends[w++]) { /* again, one word a call */
        size_t end = 0;
        CHECK(ms_pretokenize(&classes, text, at[n], start, &end, 1) == 1 && end == ends[w], "%s",
              what);
    }
}

/* Letters of one to four bytes, numbers, marks, punctuation, blanks of all sizes. */
static const uint32_t pool[] = {
    'a',     'b',     'Z',     's',     't',      'm',    'd',    'r',    'e',    'v',    'l',
    'l',     'q',     '@',     '[',     '`',      '{',    '/',    ':',    '0',    '9',    '\'',
    '\'',    '\'',    '.',     ',',     '-',      '!',    ' ',    ' ',    ' ',    ' ',    '\n',
    '\t',    '\r',    0x0B,    0,       0x1C,     0x1F,   0x7F,   0x85,   0xA0,   0xAA,   0xB2,
    0xBD,    0xE9,    0x100,   0x301,   1632,     0x2160, 0x1680, 0x180E, 0x2003, 0x200B, 0x2028,
    0x202F,  0x205F,  0x3000,  0x3007,  0x65E5,   0xAC00, 0xFEFF, 0xFFFD, 0xFFFF, 0xE000, 0x10400,
    0x1D7D8, 0x1F600, 0x20000, 0xE0001, 0x10FFFF,
};

TEST(random_texts_are_cut_like_by_the_regular_expression)
{
    uint32_t c[64];
    for (uint64_t k = 0; k < 20000; k++) {
        const uint64_t key = ms_rand_key(k, "words_test");
        const size_t   n = ms_rand_u64(key, 0) % COUNT(c), few = 4 + ms_rand_u64(key, 1) % 8;
        char           what[32];
        for (size_t i = 0; i < n; i++) /* few different characters, so that runs occur */
            c[i] = pool[ms_rand_u64(key, 100 + ms_rand_u64(key, 2 + i) % few) % COUNT(pool)];
        snprintf(what, sizeof what, "text %d", (int)k);
        check_words(c, n, what);
    }
}

/* The scanner reads eight bytes at once: runs of letters end before, in and after these, at all
 * distances from the end of the text. */
TEST(runs_of_letters_of_every_length_are_cut)
{
    static const uint32_t ends[] = { '@', '[', '`', '{', ' ', '\'', '\n', '5', 0xE9, 0x20AC, 0x7F };
    uint32_t              c[80];
    for (size_t n = 1; n < 40; n++)
        for (size_t k = 0; k < COUNT(ends); k++)
            for (size_t more = 0; more < 12; more++) {
                size_t m = 0;
                c[m++]   = ' ';
                while (m < n)
                    c[m] = (unsigned char)"azAZ"[m % 4], m++;
                c[m++] = ends[k];
                for (size_t i = 0; i < more; i++)
                    c[m++] = 'x';
                check_words(c, m, "a run");
            }
}

/* Every character alone, after a space and after a letter. */
TEST(every_character_is_cut_like_by_the_regular_expression)
{
    for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x30000 ? 1 : 37) {
        const uint32_t text[] = { c, ' ', c, 'a', c, ' ', ' ', c };
        char           what[32];
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        snprintf(what, sizeof what, "U+%04X", (unsigned)c);
        check_words(text, COUNT(text), what);
    }
}

/* ---- invalid UTF-8 --------------------------------------------------------------------------- */

TEST(bytes_that_are_no_utf8_are_words_of_their_own)
{
    static const struct {
        const char *text;
        size_t      n;
        size_t      ends[8]; /* until 0 */
    } cases[] = {
        { "\x80", 1, { 1 } },
        { "a\xFF", 2, { 1, 2 } },
        { "a\xFF"
          "b",
          3,
          { 1, 2, 3 } },
        { "\xC0\x80", 2, { 1, 2 } },        /* overlong U+0000 */
        { "\xC1\xBF", 2, { 1, 2 } },        /* overlong U+007F */
        { "\xC2\x80", 2, { 2 } },           /* U+0080 */
        { "\xC2", 1, { 1 } },               /* cut */
        { "\xC2\x41", 2, { 1, 2 } },        /* no continuation byte */
        { "\xE0\x9F\xBF", 3, { 1, 2, 3 } }, /* overlong U+07FF */
        { "\xE0\xA0\x80", 3, { 3 } },       /* U+0800 */
        { "\xED\x9F\xBF", 3, { 3 } },       /* U+D7FF */
        { "\xED\xA0\x80", 3, { 1, 2, 3 } }, /* U+D800, a surrogate */
        { "\xED\xBF\xBF", 3, { 1, 2, 3 } }, /* U+DFFF */
        { "\xEE\x80\x80", 3, { 3 } },       /* U+E000 */
        { "\xE2\x82", 2, { 1, 2 } },        /* cut */
        { "\xE2\x82 x", 4, { 1, 2, 4 } },
        { "\xF0\x8F\xBF\xBF", 4, { 1, 2, 3, 4 } }, /* overlong U+FFFF */
        { "\xF0\x90\x80\x80", 4, { 4 } },          /* U+10000 */
        { "\xF4\x8F\xBF\xBF", 4, { 4 } },          /* U+10FFFF */
        { "\xF4\x90\x80\x80", 4, { 1, 2, 3, 4 } }, /* beyond */
        { "\xF5\x80\x80\x80", 4, { 1, 2, 3, 4 } },
        { "\xF0\x9F\x98", 3, { 1, 2, 3 } }, /* cut */
        { "  \x80", 3, { 2, 3 } },          /* blanks end as at the end of a text */
        { " \x80 ", 3, { 1, 2, 3 } },
        { "\n\n\x80\n a", 6, { 2, 3, 4, 6 } },
        { "'s\x80't", 5, { 2, 3, 5 } },
        { "it'\x80s", 5, { 2, 3, 4, 5 } },
        { "", 0, { 0 } },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        size_t ends[8] = { 0 }, n;
        n              = ms_pretokenize(&classes, cases[k].text, cases[k].n, 0, ends, COUNT(ends));
        for (size_t i = 0; i < COUNT(ends); i++)
            CHECK((i < n ? ends[i] : 0) == cases[k].ends[i], "case %zu: word %zu ends at %zu", k, i,
                  ends[i]);
    }
}

TEST_GROUP(set_up, NULL)

#else

TEST(without_utf8proc_the_message_names_the_package)
{
    static ms_char_classes classes;
    ms_error               e = { "" };
    CHECK_FAILS(&e, ms_char_classes_make(&e, &classes), MUSEC_ENOTSUP, "libutf8proc-dev");
    CHECK(ms_utf8proc_version() == NULL, "a version of nothing");
}

#endif
